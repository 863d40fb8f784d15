//! Validation of probes and of what happens at a container's start and end.

use serde_json::{Value, json};

use super::containers::check_known_or_empty;
use super::text_member;
use crate::status::StatusCause;
use crate::write::admit::validate::{
    CauseList, check_non_negative, check_port_number, check_port_or_name, indexed_items, is_empty,
};

/// The grace period of a pod, in seconds.
#[derive(Clone, Copy)]
pub(super) struct GracePeriod(i64);

impl GracePeriod {
    pub(super) fn of(spec: &Value) -> GracePeriod {
        let seconds = spec["terminationGracePeriodSeconds"].as_i64().unwrap_or(30);
        // A negative period counts as the shortest.
        GracePeriod(if seconds < 0 { 1 } else { seconds })
    }
}

const HEADER: &str = "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')";

pub(super) fn validate_lifecycle(lifecycle: &Value, grace: GracePeriod, field: &str, out: &mut CauseList) {
    for moment in ["postStart", "preStop"] {
        if !lifecycle[moment].is_null() {
            validate_handler(&lifecycle[moment], grace, &format!("{field}.{moment}"), out);
        }
    }
}

pub(super) fn validate_probe(
    probe: &Value,
    kind: &str,
    grace: GracePeriod,
    field: &str,
    out: &mut CauseList,
) {
    if probe.is_null() {
        return;
    }
    validate_handler(probe, grace, field, out);
    for key in
        ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"]
    {
        check_non_negative(&probe[key], format!("{field}.{key}"), out);
    }
    if probe["terminationGracePeriodSeconds"].as_i64().is_some_and(|s| s <= 0) {
        out.push(StatusCause::invalid(
            format!("{field}.terminationGracePeriodSeconds"),
            &probe["terminationGracePeriodSeconds"],
            "must be greater than 0",
        ));
    }
    if kind == "readinessProbe" && !probe["terminationGracePeriodSeconds"].is_null() {
        out.push(StatusCause::invalid(
            format!("{field}.terminationGracePeriodSeconds"),
            &probe["terminationGracePeriodSeconds"],
            "must not be set for readinessProbes",
        ));
    }
    if kind != "readinessProbe" && probe["successThreshold"].as_i64() != Some(1) {
        out.push(StatusCause::invalid(
            format!("{field}.successThreshold"),
            &probe["successThreshold"],
            "must be 1",
        ));
    }
}

fn validate_handler(handler: &Value, grace: GracePeriod, field: &str, out: &mut CauseList) {
    let mut given = 0;
    for kind in ["exec", "httpGet", "tcpSocket", "grpc", "sleep"] {
        if handler[kind].is_null() {
            continue;
        }
        given += 1;
        let at = format!("{field}.{kind}");
        if given > 1 {
            out.push(StatusCause::forbidden(at, "may not specify more than 1 handler type"));
            continue;
        }
        let action = &handler[kind];
        match kind {
            "grpc" if field.contains(".lifecycle.") => given -= 1,
            "sleep" if !field.contains(".lifecycle.") => given -= 1,
            "exec" if is_empty(&action["command"]) => {
                out.push(StatusCause::required(format!("{at}.command"), ""));
            }
            "httpGet" => {
                if is_empty(&action["path"]) {
                    out.push(StatusCause::required(format!("{at}.path"), ""));
                }
                check_port_or_name(&action["port"], format!("{at}.port"), out);
                check_known_or_empty(&action["scheme"], format!("{at}.scheme"), &["HTTP", "HTTPS"], out);
                for (_, header) in indexed_items(&action["httpHeaders"]) {
                    let name = text_member(header, "name");
                    if name.is_empty() || !name.bytes().all(|b| b == b'-' || b.is_ascii_alphanumeric()) {
                        out.push(StatusCause::invalid(format!("{at}.httpHeaders"), &json!(name), HEADER));
                    }
                }
            }
            "tcpSocket" => check_port_or_name(&action["port"], format!("{at}.port"), out),
            "grpc" => check_port_number(&action["port"], format!("{at}.port"), out),
            "sleep" if action["seconds"].as_i64().is_some_and(|s| s < 0 || s > grace.0) => {
                let why =
                    format!("must be non-negative and less than terminationGracePeriodSeconds ({})", grace.0);
                out.push(StatusCause::invalid(at, &action["seconds"], &why));
            }
            _ => {}
        }
    }
    if given == 0 {
        out.push(StatusCause::required(field, "must specify a handler type"));
    }
}
