//! Validation of what a container finds in its environment.

use serde_json::{Value, json};

use crate::admit::meta;
use crate::admit::validate::config::key_problems;
use crate::admit::validate::{Causes, is_empty, list, texts};
use crate::status::Cause;

pub(super) fn env(variables: &Value, field: &str, out: &mut Causes) {
    for (i, variable) in list(variables) {
        let at = format!("{field}[{i}]");
        let name = variable["name"].as_str().unwrap_or("");
        if name.is_empty() {
            out.push(Cause::required(format!("{at}.name"), ""));
        } else if !name.bytes().all(|b| (0x20..0x7f).contains(&b) && b != b'=') {
            out.push(Cause::invalid(
                format!("{at}.name"),
                &variable["name"],
                "a valid environment variable name must consist only of printable ASCII characters other than '='",
            ));
        }
        let from = &variable["valueFrom"];
        if from.is_null() {
            continue;
        }
        let given = ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"]
            .iter()
            .filter(|k| from[**k].is_object())
            .count();
        let at = format!("{at}.valueFrom");
        if given == 0 {
            out.push(Cause::invalid(
                &at,
                &json!(""),
                "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`",
            ));
        } else if !is_empty(&variable["value"]) {
            out.push(Cause::invalid(&at, &json!(""), "may not be specified when `value` is not empty"));
        } else if given > 1 {
            out.push(Cause::invalid(&at, &json!(""), "may not have more than one field specified at a time"));
        }
        for key in ["configMapKeyRef", "secretKeyRef"] {
            if from[key].is_object() {
                let at = format!("{at}.{key}.key");
                match from[key]["key"].as_str().unwrap_or("") {
                    "" => out.push(Cause::required(at, "")),
                    text => key_problems(text, &at, out),
                }
            }
        }
        if from["resourceFieldRef"].is_object() {
            let resource = &from["resourceFieldRef"]["resource"];
            let known = COUNTED.iter().any(|known| resource == known)
                || resource.as_str().is_some_and(|r| r.contains("hugepages-"));
            let at = format!("{at}.resourceFieldRef.resource");
            if is_empty(resource) {
                out.push(Cause::required(at, ""));
            } else if !known {
                out.push(Cause::not_supported(at, resource, COUNTED));
            }
        }
        if from["fieldRef"].is_object() {
            field_path(&from["fieldRef"], &format!("{at}.fieldRef.fieldPath"), out);
        }
    }
}

/// The fields of its pod a container can be told of in its environment.
const TOLD: &[&str] = &[
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

/// The resources a container can be told how much it has of.
const COUNTED: &[&str] = &[
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

fn field_path(reference: &Value, field: &str, out: &mut Causes) {
    let path = &reference["fieldPath"];
    let text = path.as_str().unwrap_or("");
    let version = reference["apiVersion"].as_str().unwrap_or("v1");
    let subscripted = ["metadata.annotations['", "metadata.labels['"].iter().any(|p| text.starts_with(p));
    if text.is_empty() {
        out.push(Cause::required(field, ""));
    } else if version != "v1" {
        let why = format!("error converting fieldPath: unsupported pod version: {version}");
        out.push(Cause::invalid(field, path, &why));
    } else if subscripted || TOLD.contains(&text) {
    } else if matches!(
        text,
        "metadata.annotations"
            | "metadata.labels"
            | "spec.restartPolicy"
            | "spec.schedulerName"
            | "status.phase"
    ) {
        out.push(Cause::not_supported(field, path, TOLD));
    } else {
        let why = format!("error converting fieldPath: field label not supported: {text}");
        out.push(Cause::invalid(field, path, &why));
    }
}

/// Maps whose every key becomes a variable.
pub(super) fn sources(all: &Value, at: &str, out: &mut Causes) {
    for (i, source) in list(all) {
        let prefix = source["prefix"].as_str().unwrap_or("");
        if !prefix.bytes().all(|b| (0x20..0x7f).contains(&b) && b != b'=') {
            out.push(Cause::invalid(
                format!("{at}[{i}].prefix"),
                &source["prefix"],
                "a valid environment variable name must consist only of printable ASCII characters other than '='",
            ));
        }
        let given = ["configMapRef", "secretRef"].iter().filter(|k| source[**k].is_object()).count();
        match given {
            0 => {
                out.push(Cause::invalid(
                    at.to_owned(),
                    &json!(""),
                    "must specify one of: `configMapRef` or `secretRef`",
                ));
            }
            1 => {
                for key in ["configMapRef", "secretRef"] {
                    let source = &source[key];
                    let at = format!("{at}[{i}].{key}.name");
                    match source["name"].as_str().unwrap_or("") {
                        _ if !source.is_object() => {}
                        "" => out.push(Cause::required(at, "")),
                        name => {
                            let problems = meta::subdomain_problems(name);
                            texts(problems, &source["name"], &at, out);
                        }
                    }
                }
            }
            _ => out.push(Cause::invalid(
                at.to_owned(),
                &json!(""),
                "may not have more than one field specified at a time",
            )),
        }
    }
}
