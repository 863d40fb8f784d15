//! Validation of probes and of what happens at a container's start and end.

use serde_json::{Value, json};

use super::containers::known;
use super::text;
use crate::status::Cause;
use crate::write::admit::validate::{Causes, is_empty, list, non_negative, port_number, port_or_name};

/// How many seconds a pod has to end.
#[derive(Clone, Copy)]
pub(super) struct Grace(i64);

impl Grace {
    pub(super) fn of(spec: &Value) -> Grace {
        let seconds = spec["terminationGracePeriodSeconds"].as_i64().unwrap_or(30);
        // Less than none is as little as there is.
        Grace(if seconds < 0 { 1 } else { seconds })
    }
}

const HEADER: &str = "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')";

pub(super) fn lifecycle(lifecycle: &Value, grace: Grace, field: &str, out: &mut Causes) {
    for moment in ["postStart", "preStop"] {
        if !lifecycle[moment].is_null() {
            handler(&lifecycle[moment], grace, &format!("{field}.{moment}"), out);
        }
    }
}

pub(super) fn probe(probe: &Value, kind: &str, grace: Grace, field: &str, out: &mut Causes) {
    if probe.is_null() {
        return;
    }
    handler(probe, grace, field, out);
    for key in
        ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"]
    {
        non_negative(&probe[key], format!("{field}.{key}"), out);
    }
    if probe["terminationGracePeriodSeconds"].as_i64().is_some_and(|s| s <= 0) {
        out.push(Cause::invalid(
            format!("{field}.terminationGracePeriodSeconds"),
            &probe["terminationGracePeriodSeconds"],
            "must be greater than 0",
        ));
    }
    if kind == "readinessProbe" && !probe["terminationGracePeriodSeconds"].is_null() {
        out.push(Cause::invalid(
            format!("{field}.terminationGracePeriodSeconds"),
            &probe["terminationGracePeriodSeconds"],
            "must not be set for readinessProbes",
        ));
    }
    if kind != "readinessProbe" && probe["successThreshold"].as_i64() != Some(1) {
        out.push(Cause::invalid(
            format!("{field}.successThreshold"),
            &probe["successThreshold"],
            "must be 1",
        ));
    }
}

fn handler(handler: &Value, grace: Grace, field: &str, out: &mut Causes) {
    let mut given = 0;
    for kind in ["exec", "httpGet", "tcpSocket", "grpc", "sleep"] {
        if handler[kind].is_null() {
            continue;
        }
        given += 1;
        let at = format!("{field}.{kind}");
        if given > 1 {
            out.push(Cause::forbidden(at, "may not specify more than 1 handler type"));
            continue;
        }
        let action = &handler[kind];
        match kind {
            "grpc" if field.contains(".lifecycle.") => given -= 1,
            "sleep" if !field.contains(".lifecycle.") => given -= 1,
            "exec" if is_empty(&action["command"]) => out.push(Cause::required(format!("{at}.command"), "")),
            "httpGet" => {
                if is_empty(&action["path"]) {
                    out.push(Cause::required(format!("{at}.path"), ""));
                }
                port_or_name(&action["port"], format!("{at}.port"), out);
                known(&action["scheme"], format!("{at}.scheme"), &["HTTP", "HTTPS"], out);
                for (_, header) in list(&action["httpHeaders"]) {
                    let name = text(header, "name");
                    if name.is_empty() || !name.bytes().all(|b| b == b'-' || b.is_ascii_alphanumeric()) {
                        out.push(Cause::invalid(format!("{at}.httpHeaders"), &json!(name), HEADER));
                    }
                }
            }
            "tcpSocket" => port_or_name(&action["port"], format!("{at}.port"), out),
            "grpc" => port_number(&action["port"], format!("{at}.port"), out),
            "sleep" if action["seconds"].as_i64().is_some_and(|s| s < 0 || s > grace.0) => {
                let why =
                    format!("must be non-negative and less than terminationGracePeriodSeconds ({})", grace.0);
                out.push(Cause::invalid(at, &action["seconds"], &why));
            }
            _ => {}
        }
    }
    if given == 0 {
        out.push(Cause::required(field, "must specify a handler type"));
    }
}
