//! Validation of environment variables.

use serde_json::{Value, json};

use super::volume_files::leads_out;
use super::{each_container, text_member};
use crate::status::StatusCause;
use crate::write::admit::amounts::{canonical_text, nanos_of};
use crate::write::admit::meta;
use crate::write::admit::validate::config::check_config_key;
use crate::write::admit::validate::{CauseList, add_problems, indexed_items, is_empty};

const BAD_NAME: &str =
    "a valid environment variable name must consist only of printable ASCII characters other than '='";

fn validate_variable_name(name: &str, field: String, out: &mut CauseList) {
    if !name.bytes().all(|b| (0x20..0x7f).contains(&b) && b != b'=') {
        out.push(StatusCause::invalid(field, &json!(name), BAD_NAME));
    }
}

pub(super) fn validate_env(variables: &Value, field: &str, out: &mut CauseList) {
    for (i, variable) in indexed_items(variables) {
        let at = format!("{field}[{i}]");
        match text_member(variable, "name") {
            "" => out.push(StatusCause::required(format!("{at}.name"), "")),
            name => validate_variable_name(name, format!("{at}.name"), out),
        }
        if !variable["valueFrom"].is_null() {
            validate_value_from(variable, &format!("{at}.valueFrom"), out);
        }
    }
}

fn validate_value_from(variable: &Value, at: &str, out: &mut CauseList) {
    let from = &variable["valueFrom"];
    if from["fieldRef"].is_object() {
        validate_field_path(&from["fieldRef"], TOLD, &format!("{at}.fieldRef"), out);
    }
    if from["resourceFieldRef"].is_object() {
        validate_resource_field(&from["resourceFieldRef"], false, &format!("{at}.resourceFieldRef"), out);
    }
    for key in ["configMapKeyRef", "secretKeyRef"] {
        if from[key].is_object() {
            let at = format!("{at}.{key}");
            let name = text_member(&from[key], "name");
            // Names may be left out for old clients' sake, but not be bad.
            add_problems(meta::subdomain_problems(name), &json!(name), &format!("{at}.name"), out);
            match text_member(&from[key], "key") {
                "" => out.push(StatusCause::required(format!("{at}.key"), "")),
                text => check_config_key(text, &format!("{at}.key"), out),
            }
        }
    }
    let file = &from["fileKeyRef"];
    if file.is_object() {
        let at = format!("{at}.fileKeyRef");
        match text_member(file, "key") {
            "" => out.push(StatusCause::required(format!("{at}.key"), "")),
            key => validate_variable_name(key, format!("{at}.key"), out),
        }
        match text_member(file, "volumeName") {
            "" => out.push(StatusCause::required(format!("{at}.volumeName"), "")),
            name => add_problems(meta::label_problems(name), &json!(name), &format!("{at}.volumeName"), out),
        }
        match text_member(file, "path") {
            "" => out.push(StatusCause::required(format!("{at}.path"), "")),
            path if leads_out(path) => {
                out.push(StatusCause::invalid(format!("{at}.path"), &json!(path), "must not contain '..'"));
            }
            _ => {}
        }
    }
    let kinds = ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"];
    let given = kinds.iter().filter(|k| from[**k].is_object()).count();
    if given == 0 {
        out.push(StatusCause::invalid(
            at,
            &json!(""),
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`",
        ));
    } else if !is_empty(&variable["value"]) {
        out.push(StatusCause::invalid(at, &json!(""), "may not be specified when `value` is not empty"));
    } else if given > 1 {
        out.push(StatusCause::invalid(
            at,
            &json!(""),
            "may not have more than one field specified at a time",
        ));
    }
}

/// Pod fields that a variable can hold.
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

/// Resources whose amount a variable can hold.
const COUNTED: &[&str] = &[
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

/// A resource of a container, and what it is counted in. Volumes must say of which container.
pub(super) fn validate_resource_field(reference: &Value, volume: bool, field: &str, out: &mut CauseList) {
    let resource = text_member(reference, "resource");
    let pages = ["limits.hugepages-", "requests.hugepages-"].iter().any(|start| resource.starts_with(start));
    if volume && is_empty(&reference["containerName"]) {
        out.push(StatusCause::required(format!("{field}.containerName"), ""));
    } else if resource.is_empty() {
        out.push(StatusCause::required(format!("{field}.resource"), ""));
    } else if !pages && !COUNTED.contains(&resource) {
        out.push(StatusCause::not_supported(format!("{field}.resource"), &json!(resource), COUNTED));
    }
    let divisor = &reference["divisor"];
    if nanos_of(divisor).is_none_or(|n| n == 0) {
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
    let given = canonical_text(divisor);
    if !known.split([',', ' ']).any(|word| word == given) {
        let why = format!("only divisor's values {known} are supported with the {what} resource");
        out.push(StatusCause::invalid(format!("{field}.divisor"), &json!(resource), &why));
    }
}

/// A field of the pod, one of `told`.
pub(super) fn validate_field_path(reference: &Value, told: &[&str], at: &str, out: &mut CauseList) {
    let field = format!("{at}.fieldPath");
    let path = text_member(reference, "fieldPath");
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
        out.push(StatusCause::required(field, ""));
    } else if version != "v1" {
        let why = format!("error converting fieldPath: unsupported pod version: {version}");
        out.push(StatusCause::invalid(field, &json!(path), &why));
    } else if let Some((of, key)) = subscript {
        match of {
            "metadata.annotations" => {
                let key = key.to_lowercase();
                add_problems(meta::qualified_problems(&key), &json!(key), at, out);
            }
            "metadata.labels" => add_problems(meta::qualified_problems(key), &json!(key), at, out),
            _ => {
                let why =
                    format!("error converting fieldPath: field label does not support subscript: {path}");
                out.push(StatusCause::invalid(field, &json!(path), &why));
            }
        }
    } else if told.contains(&path) {
    } else if convertible.contains(&path) || TOLD.contains(&path) {
        out.push(StatusCause::not_supported(field, &json!(path), told));
    } else {
        let why = format!("error converting fieldPath: field label not supported: {path}");
        out.push(StatusCause::invalid(field, &json!(path), &why));
    }
}

/// Maps whose every key becomes a variable.
pub(super) fn validate_env_sources(all: &Value, at: &str, out: &mut CauseList) {
    for (i, source) in indexed_items(all) {
        validate_variable_name(text_member(source, "prefix"), format!("{at}[{i}].prefix"), out);
        let kinds = ["configMapRef", "secretRef"];
        for key in kinds.iter().filter(|key| source[**key].is_object()) {
            let at = format!("{at}[{i}].{key}.name");
            match text_member(&source[*key], "name") {
                "" => out.push(StatusCause::required(at, "")),
                // A random suffix of a name is not counted.
                name => {
                    let problems = meta::subdomain_problems(name);
                    add_problems(problems, &json!(name), &at, out);
                }
            }
        }
        let why = match kinds.iter().filter(|key| source[**key].is_object()).count() {
            0 => "must specify one of: `configMapRef` or `secretRef`",
            1 => continue,
            _ => "may not have more than one field specified at a time",
        };
        out.push(StatusCause::invalid(at, &json!(""), why));
    }
}

/// The files variables come from are on volumes that start empty.
pub(super) fn validate_env_files(spec: &Value, field: &str, out: &mut CauseList) {
    for (at, container) in each_container(spec, field) {
        for (i, variable) in indexed_items(&container["env"]) {
            let file = &variable["valueFrom"]["fileKeyRef"];
            if !file.is_object() {
                continue;
            }
            let at = format!("{at}.env[{i}].valueFrom.fileKeyRef.volumeName");
            let name = text_member(file, "volumeName");
            match indexed_items(&spec["volumes"])
                .map(|(_, v)| v)
                .filter(|v| text_member(v, "name") == name)
                .last()
            {
                None => out.push(StatusCause::not_found(at, &json!(name))),
                Some(volume) if volume["emptyDir"].is_null() => {
                    out.push(StatusCause::invalid(
                        at,
                        &json!(name),
                        "referenced volume must be of type emptyDir",
                    ));
                }
                Some(_) => {}
            }
        }
    }
}
