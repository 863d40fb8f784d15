//! Validation of what a container finds in its environment.

use serde_json::{Value, json};

use super::volumes::climbs;
use super::{each_container, text};
use crate::status::Cause;
use crate::write::admit::meta;
use crate::write::admit::quota::{amount, canonical};
use crate::write::admit::validate::config::key_problems;
use crate::write::admit::validate::{Causes, is_empty, list, texts};

const BAD_NAME: &str =
    "a valid environment variable name must consist only of printable ASCII characters other than '='";

fn variable_name(name: &str, field: String, out: &mut Causes) {
    if !name.bytes().all(|b| (0x20..0x7f).contains(&b) && b != b'=') {
        out.push(Cause::invalid(field, &json!(name), BAD_NAME));
    }
}

pub(super) fn env(variables: &Value, field: &str, out: &mut Causes) {
    for (i, variable) in list(variables) {
        let at = format!("{field}[{i}]");
        match text(variable, "name") {
            "" => out.push(Cause::required(format!("{at}.name"), "")),
            name => variable_name(name, format!("{at}.name"), out),
        }
        if !variable["valueFrom"].is_null() {
            value_from(variable, &format!("{at}.valueFrom"), out);
        }
    }
}

fn value_from(variable: &Value, at: &str, out: &mut Causes) {
    let from = &variable["valueFrom"];
    if from["fieldRef"].is_object() {
        field_path(&from["fieldRef"], TOLD, &format!("{at}.fieldRef"), out);
    }
    if from["resourceFieldRef"].is_object() {
        counted(&from["resourceFieldRef"], false, &format!("{at}.resourceFieldRef"), out);
    }
    for key in ["configMapKeyRef", "secretKeyRef"] {
        if from[key].is_object() {
            let at = format!("{at}.{key}");
            let name = text(&from[key], "name");
            // Names may be left out for old clients' sake, but not be bad.
            texts(meta::subdomain_problems(name), &json!(name), &format!("{at}.name"), out);
            match text(&from[key], "key") {
                "" => out.push(Cause::required(format!("{at}.key"), "")),
                text => key_problems(text, &format!("{at}.key"), out),
            }
        }
    }
    let file = &from["fileKeyRef"];
    if file.is_object() {
        let at = format!("{at}.fileKeyRef");
        match text(file, "key") {
            "" => out.push(Cause::required(format!("{at}.key"), "")),
            key => variable_name(key, format!("{at}.key"), out),
        }
        match text(file, "volumeName") {
            "" => out.push(Cause::required(format!("{at}.volumeName"), "")),
            name => texts(meta::label_problems(name), &json!(name), &format!("{at}.volumeName"), out),
        }
        match text(file, "path") {
            "" => out.push(Cause::required(format!("{at}.path"), "")),
            path if climbs(path) => {
                out.push(Cause::invalid(format!("{at}.path"), &json!(path), "must not contain '..'"));
            }
            _ => {}
        }
    }
    let kinds = ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"];
    let given = kinds.iter().filter(|k| from[**k].is_object()).count();
    if given == 0 {
        out.push(Cause::invalid(
            at,
            &json!(""),
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`",
        ));
    } else if !is_empty(&variable["value"]) {
        out.push(Cause::invalid(at, &json!(""), "may not be specified when `value` is not empty"));
    } else if given > 1 {
        out.push(Cause::invalid(at, &json!(""), "may not have more than one field specified at a time"));
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

/// A resource of a container, and what it is counted in. Volumes must say of which container.
pub(super) fn counted(reference: &Value, volume: bool, field: &str, out: &mut Causes) {
    let resource = text(reference, "resource");
    let pages = ["limits.hugepages-", "requests.hugepages-"].iter().any(|start| resource.starts_with(start));
    if volume && is_empty(&reference["containerName"]) {
        out.push(Cause::required(format!("{field}.containerName"), ""));
    } else if resource.is_empty() {
        out.push(Cause::required(format!("{field}.resource"), ""));
    } else if !pages && !COUNTED.contains(&resource) {
        out.push(Cause::not_supported(format!("{field}.resource"), &json!(resource), COUNTED));
    }
    let divisor = &reference["divisor"];
    if amount(divisor).is_none_or(|n| n == 0) {
        return;
    }
    const SIZES: &str = "1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei";
    let (known, what) = match resource.split_once('.').map_or("", |(_, name)| name) {
        "cpu" => ("1m and 1", "cpu"),
        "memory" => (SIZES, "memory"),
        "ephemeral-storage" => (SIZES, "local ephemeral storage"),
        _ if pages => (SIZES, "hugepages"),
        _ => return,
    };
    let given = canonical(divisor);
    if !known.split([',', ' ']).any(|word| word == given) {
        let why = format!("only divisor's values {known} are supported with the {what} resource");
        out.push(Cause::invalid(format!("{field}.divisor"), &json!(resource), &why));
    }
}

/// A field of the pod, one of `told`.
pub(super) fn field_path(reference: &Value, told: &[&str], at: &str, out: &mut Causes) {
    let field = format!("{at}.fieldPath");
    let path = text(reference, "fieldPath");
    let version = reference["apiVersion"].as_str().unwrap_or("v1");
    let subscript = path.strip_suffix("']").and_then(|path| path.split_once("['"));
    let convertible = [
        "metadata.annotations",
        "metadata.labels",
        "spec.restartPolicy",
        "spec.schedulerName",
        "status.phase",
    ];
    if path.is_empty() {
        out.push(Cause::required(field, ""));
    } else if version != "v1" {
        let why = format!("error converting fieldPath: unsupported pod version: {version}");
        out.push(Cause::invalid(field, &json!(path), &why));
    } else if let Some((of, key)) = subscript {
        match of {
            "metadata.annotations" => {
                let key = key.to_lowercase();
                texts(meta::qualified_problems(&key), &json!(key), at, out);
            }
            "metadata.labels" => texts(meta::qualified_problems(key), &json!(key), at, out),
            _ => {
                let why =
                    format!("error converting fieldPath: field label does not support subscript: {path}");
                out.push(Cause::invalid(field, &json!(path), &why));
            }
        }
    } else if told.contains(&path) {
    } else if convertible.contains(&path) || TOLD.contains(&path) {
        out.push(Cause::not_supported(field, &json!(path), told));
    } else {
        let why = format!("error converting fieldPath: field label not supported: {path}");
        out.push(Cause::invalid(field, &json!(path), &why));
    }
}

/// Maps whose every key becomes a variable.
pub(super) fn sources(all: &Value, at: &str, out: &mut Causes) {
    for (i, source) in list(all) {
        variable_name(text(source, "prefix"), format!("{at}[{i}].prefix"), out);
        let kinds = ["configMapRef", "secretRef"];
        for key in kinds.iter().filter(|key| source[**key].is_object()) {
            let at = format!("{at}[{i}].{key}.name");
            match text(&source[*key], "name") {
                "" => out.push(Cause::required(at, "")),
                // What is added to a name at random is left out of account.
                name => {
                    let problems = meta::subdomain_problems(name);
                    texts(problems, &json!(name), &at, out);
                }
            }
        }
        let why = match kinds.iter().filter(|key| source[**key].is_object()).count() {
            0 => "must specify one of: `configMapRef` or `secretRef`",
            1 => continue,
            _ => "may not have more than one field specified at a time",
        };
        out.push(Cause::invalid(at, &json!(""), why));
    }
}

/// The files variables come from are on volumes that start empty.
pub(super) fn files(spec: &Value, field: &str, out: &mut Causes) {
    for (at, container) in each_container(spec, field) {
        for (i, variable) in list(&container["env"]) {
            let file = &variable["valueFrom"]["fileKeyRef"];
            if !file.is_object() {
                continue;
            }
            let at = format!("{at}.env[{i}].valueFrom.fileKeyRef.volumeName");
            let name = text(file, "volumeName");
            match list(&spec["volumes"]).map(|(_, v)| v).filter(|v| text(v, "name") == name).last() {
                None => out.push(Cause::not_found(at, &json!(name))),
                Some(volume) if volume["emptyDir"].is_null() => {
                    out.push(Cause::invalid(at, &json!(name), "referenced volume must be of type emptyDir"));
                }
                Some(_) => {}
            }
        }
    }
}
