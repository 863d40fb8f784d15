//! Validation of device classes and device claims.
//!
//! A real server checks by hand first, then by rules declared with the types; what both would say is
//! said by the latter. The two passes here follow that order.

use serde_json::{Value, json};
use slipway_cel::{Env, Type};

use super::{CauseList, add_problems, check_known, indexed_items, is_empty};
use crate::api::crd::rules::check_compiles;
use crate::status::StatusCause;
use crate::write::admit::meta;

const MOST: usize = 32;

pub(in crate::write) fn validate_device_class(spec: &Value, old: Option<&Value>, out: &mut CauseList) {
    let same = |key: &str| old.is_some_and(|old| old["spec"][key] == spec[key]);
    if !same("selectors") {
        validate_selectors(&spec["selectors"], "spec.selectors", out);
    }
    for (i, config) in first_items(&spec["config"]) {
        validate_configuration(config, &format!("spec.config[{i}]"), same("config"), out);
    }
    check_length(&spec["selectors"], "spec.selectors", MOST, out);
    if check_length(&spec["config"], "spec.config", MOST, out) {
        for (i, config) in indexed_items(&spec["config"]) {
            validate_declared_driver(&config["opaque"], &format!("spec.config[{i}].opaque"), out);
        }
    }
    if let Some(name) = spec["extendedResourceName"].as_str() {
        validate_extended_name(name, "spec.extendedResourceName", out);
    }
}

/// Returns the items of a list, unless there are too many.
pub(in crate::write) fn first_items(all: &Value) -> impl Iterator<Item = (usize, &Value)> {
    indexed_items(all).filter(|_| all.as_array().is_some_and(|all| all.len() <= MOST))
}

/// Reports a list that is too long; returns true if it is not.
pub(in crate::write) fn check_length(all: &Value, field: &str, most: usize, out: &mut CauseList) -> bool {
    let length = all.as_array().map_or(0, Vec::len);
    if length > most {
        out.push(StatusCause::too_many(field, length, most));
    }
    length <= most
}

/// Reports items of a set that occur twice.
fn check_unique(all: &Value, field: &str, key: Option<&str>, out: &mut CauseList) {
    let of = |item: &Value| key.map_or_else(|| item.clone(), |key| item[key].clone());
    for (i, item) in indexed_items(all) {
        if indexed_items(all).take(i).any(|(_, before)| of(before) == of(item)) {
            out.push(StatusCause::duplicate(format!("{field}[{i}]"), item));
        }
    }
}

fn validate_selectors(all: &Value, field: &str, out: &mut CauseList) {
    for (i, selector) in first_items(all) {
        let at = format!("{field}[{i}].cel");
        if selector["cel"].is_null() {
            out.push(StatusCause::required(at, ""));
            continue;
        }
        let text = selector["cel"]["expression"].as_str().unwrap_or("");
        let at = format!("{at}.expression");
        if text.len() > 10 * 1024 {
            out.push(StatusCause::too_long(at, 10 * 1024));
            continue;
        }
        let env = Env::kubernetes().variable("device", Type::Dyn);
        if let Err(why) = check_compiles(&env, text, Some(&Type::Bool)) {
            let why = why
                .replace("must evaluate to bool but got ", "must evaluate to bool or the unknown type, not ");
            out.push(StatusCause::invalid(at, &json!(text), &why));
        }
    }
}

/// Validates the configuration of a driver: the checks by hand.
fn validate_configuration(config: &Value, at: &str, stored: bool, out: &mut CauseList) {
    let opaque = &config["opaque"];
    if opaque.is_null() {
        return out.push(StatusCause::required(format!("{at}.opaque"), ""));
    }
    let (parameters, at) = (&opaque["parameters"], format!("{at}.opaque.parameters"));
    if parameters.is_null() {
        out.push(StatusCause::required(at, ""));
    } else if !stored && parameters.to_string().len() > 10 * 1024 {
        out.push(StatusCause::too_long(at, 10 * 1024));
    } else if !parameters.is_object() {
        out.push(StatusCause::invalid(at, &json!("<value omitted>"), "must be a valid JSON object"));
    }
}

/// Validates the driver of a configuration: the declared rules.
fn validate_declared_driver(opaque: &Value, at: &str, out: &mut CauseList) {
    if !opaque.is_null() {
        validate_driver_name(&opaque["driver"], &format!("{at}.driver"), out);
    }
}

/// The name of a driver.
fn validate_driver_name(name: &Value, at: &str, out: &mut CauseList) {
    match name.as_str().unwrap_or("") {
        "" => out.push(StatusCause::required(at, "")),
        text => {
            add_problems(meta::caseless_problems(text), name, at, out);
            if text.len() > 63 {
                let mut cause = StatusCause::too_long(at, 63);
                cause.message = "Too long: may not be more than 63 characters".to_owned();
                out.push(cause);
            }
        }
    }
}

/// Validates the name of an extended resource.
fn validate_extended_name(name: &str, at: &str, out: &mut CauseList) {
    let mut refuse = |why: &str| out.push(StatusCause::invalid(at, &json!(name), why));
    if !name.contains('/') {
        refuse("a name must be a domain-prefixed path, such as 'example.com/my-prop'");
    } else if name.contains("kubernetes.io/") {
        refuse("must not have \"kubernetes.io/\" domain");
    }
    if name.starts_with("requests.") {
        refuse("must not have \"requests.\" prefix");
    }
    for problem in meta::label_key_problems(&format!("requests.{name}")) {
        refuse(&problem);
    }
}

/// Validates a device claim at `field`.
pub(in crate::write) fn validate_device_claim(spec: &Value, field: &str, out: &mut CauseList) {
    let devices = &spec["devices"];
    for (i, request) in first_items(&devices["requests"]) {
        let at = format!("{field}.devices.requests[{i}]");
        validate_request_name(&request["name"], &format!("{at}.name"), out);
        match (request["exactly"].is_null(), is_empty(&request["firstAvailable"])) {
            (true, true) => {
                let why = "exactly one of `exactly` or `firstAvailable` is required";
                out.push(StatusCause::required(at, why));
            }
            (false, false) => {
                let why =
                    "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set";
                out.push(StatusCause::invalid(at, &Value::Null, why));
            }
            (false, true) => {
                let at = format!("{at}.exactly");
                match request["exactly"]["deviceClassName"].as_str().unwrap_or("") {
                    "" => out.push(StatusCause::required(format!("{at}.deviceClassName"), "")),
                    class => {
                        let problems = meta::subdomain_problems(class);
                        add_problems(problems, &json!(class), &format!("{at}.deviceClassName"), out);
                    }
                }
                validate_request(&request["exactly"], &at, out);
            }
            (true, false) if request["firstAvailable"].as_array().is_some_and(|all| all.len() <= 8) => {
                for (j, one) in indexed_items(&request["firstAvailable"]) {
                    let at = format!("{at}.firstAvailable[{j}]");
                    validate_request_name(&one["name"], &format!("{at}.name"), out);
                    validate_request(one, &at, out);
                }
            }
            _ => {}
        }
    }
    for (i, constraint) in first_items(&devices["constraints"]) {
        let at = format!("{field}.devices.constraints[{i}]");
        validate_request_references(&constraint["requests"], devices, &format!("{at}.requests"), out);
        if constraint["matchAttribute"].is_null() && constraint["distinctAttribute"].is_null() {
            let why = "exactly one of \"matchAttribute\" or \"distinctAttribute\" is required, but multiple fields are set";
            out.push(StatusCause::required(at, why));
        }
    }
    for (i, config) in first_items(&devices["config"]) {
        let at = format!("{field}.devices.config[{i}]");
        validate_request_references(&config["requests"], devices, &format!("{at}.requests"), out);
        validate_configuration(config, &at, false, out);
    }
}

fn validate_request_name(name: &Value, at: &str, out: &mut CauseList) {
    let name = name.as_str().unwrap_or("");
    add_problems(meta::label_problems(name), &json!(name), at, out);
}

/// Validates the devices, counts and tolerations of a request: the checks by hand.
fn validate_request(request: &Value, at: &str, out: &mut CauseList) {
    validate_selectors(&request["selectors"], &format!("{at}.selectors"), out);
    let count = request["count"].as_i64().unwrap_or(0);
    match request["allocationMode"].as_str().unwrap_or("") {
        "All" if count != 0 => {
            let why = "must not be specified when allocationMode is 'All'";
            out.push(StatusCause::invalid(format!("{at}.count"), &json!(count), why));
        }
        "ExactCount" if count <= 0 => {
            out.push(StatusCause::invalid(format!("{at}.count"), &json!(count), "must be greater than zero"));
        }
        _ => {}
    }
    for (i, toleration) in indexed_items(&request["tolerations"]) {
        let at = format!("{at}.tolerations[{i}].value");
        let value = toleration["value"].as_str().unwrap_or("");
        match toleration["operator"].as_str().unwrap_or("") {
            "Exists" if !value.is_empty() => {
                out.push(StatusCause::invalid(at, &json!(value), "must be empty for operator `Exists`"));
            }
            "Equal" => add_problems(meta::label_value_problems(value), &json!(value), &at, out),
            _ => {}
        }
    }
}

/// Names of requests of the same claim.
fn validate_request_references(names: &Value, devices: &Value, field: &str, out: &mut CauseList) {
    let why = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'";
    for (i, name) in first_items(names) {
        let at = format!("{field}[{i}]");
        let parts: Vec<&str> = name.as_str().unwrap_or("").split('/').collect();
        if parts.len() > 2 {
            out.push(StatusCause::invalid(at, name, why));
            continue;
        }
        for part in &parts {
            add_problems(meta::label_problems(part), &json!(part), &at, out);
        }
        let found = indexed_items(&devices["requests"]).any(|(_, request)| {
            request["name"] == parts[0]
                && parts.get(1).is_none_or(|part| {
                    indexed_items(&request["firstAvailable"]).any(|(_, one)| one["name"] == *part)
                })
        });
        if !found {
            out.push(StatusCause::invalid(at, name, why));
        }
    }
}

/// Validates a claim: the declared rules.
pub(crate) fn validate_declared_claim(spec: &Value, field: &str, out: &mut CauseList) {
    let (devices, field) = (&spec["devices"], format!("{field}.devices"));
    let at = format!("{field}.requests");
    if check_length(&devices["requests"], &at, MOST, out) {
        check_unique(&devices["requests"], &at, Some("name"), out);
        for (i, request) in indexed_items(&devices["requests"]) {
            let at = format!("{at}[{i}]");
            if !request["exactly"].is_null() {
                validate_declared_request(&request["exactly"], &format!("{at}.exactly"), out);
            }
            let (several, at) = (&request["firstAvailable"], format!("{at}.firstAvailable"));
            if check_length(several, &at, 8, out) {
                check_unique(several, &at, Some("name"), out);
                for (j, one) in indexed_items(several) {
                    let at = format!("{at}[{j}]");
                    let class = &one["deviceClassName"];
                    match class.as_str().unwrap_or("") {
                        "" => out.push(StatusCause::required(format!("{at}.deviceClassName"), "")),
                        text => add_problems(
                            meta::in_bytes(meta::subdomain_problems(text)),
                            class,
                            &format!("{at}.deviceClassName"),
                            out,
                        ),
                    }
                    validate_declared_request(one, &at, out);
                }
            }
        }
    }
    let at = format!("{field}.constraints");
    if check_length(&devices["constraints"], &at, MOST, out) {
        for (i, constraint) in indexed_items(&devices["constraints"]) {
            let at = format!("{at}[{i}]");
            if check_length(&constraint["requests"], &format!("{at}.requests"), MOST, out) {
                check_unique(&constraint["requests"], &format!("{at}.requests"), None, out);
            }
            for key in ["matchAttribute", "distinctAttribute"] {
                if let Some(name) = constraint[key].as_str() {
                    validate_qualified_name(name, &format!("{at}.{key}"), out);
                    if !name.contains('/') {
                        let why = "a fully qualified name must be a domain and a name separated by a slash";
                        out.push(StatusCause::invalid(format!("{at}.{key}"), &json!(name), why));
                    }
                }
            }
        }
    }
    let at = format!("{field}.config");
    if check_length(&devices["config"], &at, MOST, out) {
        for (i, config) in indexed_items(&devices["config"]) {
            let at = format!("{at}[{i}]");
            if check_length(&config["requests"], &format!("{at}.requests"), MOST, out) {
                check_unique(&config["requests"], &format!("{at}.requests"), None, out);
            }
            validate_declared_driver(&config["opaque"], &format!("{at}.opaque"), out);
        }
    }
}

fn validate_declared_request(request: &Value, at: &str, out: &mut CauseList) {
    check_length(&request["selectors"], &format!("{at}.selectors"), MOST, out);
    check_known(&request["allocationMode"], format!("{at}.allocationMode"), &["All", "ExactCount"], out);
    for (i, toleration) in indexed_items(&request["tolerations"]) {
        let at = format!("{at}.tolerations[{i}]");
        if let Some(key) = toleration["key"].as_str().filter(|key| !key.is_empty()) {
            add_problems(meta::label_key_problems(key), &toleration["key"], &format!("{at}.key"), out);
        }
        check_known(&toleration["operator"], format!("{at}.operator"), &["Equal", "Exists"], out);
        if !is_empty(&toleration["effect"]) {
            check_known(&toleration["effect"], format!("{at}.effect"), EFFECTS, out);
        }
    }
}

/// The effects of a taint.
pub(super) const EFFECTS: &[&str] = &["NoExecute", "NoSchedule", "None"];

/// The name of an attribute or of a capacity: an identifier, perhaps of a domain.
pub(in crate::write) fn validate_qualified_name(name: &str, at: &str, out: &mut CauseList) {
    match name.split('/').collect::<Vec<_>>().as_slice() {
        [name] => validate_identifier(name, at, out),
        [domain, name] => {
            if domain.is_empty() {
                out.push(StatusCause::invalid(at, &json!(""), "prefix must not be empty"));
            } else {
                if domain.len() > 63 {
                    out.push(StatusCause::too_long(at, 63));
                }
                for problem in meta::in_bytes(meta::subdomain_problems(domain)) {
                    out.push(StatusCause::invalid(at, &json!(domain), &format!("prefix: {problem}")));
                }
            }
            if name.is_empty() {
                out.push(StatusCause::invalid(at, &json!(""), "name must not be empty"));
            } else {
                validate_identifier(name, at, out);
            }
        }
        // More of them are not looked at.
        _ => {}
    }
}

fn validate_identifier(text: &str, at: &str, out: &mut CauseList) {
    const WHY: &str = "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is '[A-Za-z_][A-Za-z0-9_]*')";
    if text.len() > MOST {
        out.push(StatusCause::too_long(at, MOST));
    }
    if !text.starts_with(|c: char| c == '_' || c.is_ascii_alphabetic())
        || !text.bytes().all(|b| b == b'_' || b.is_ascii_alphanumeric())
    {
        out.push(StatusCause::invalid(at, &json!(text), WHY));
    }
}

/// Validates the metadata of a template: labels and annotations, nothing else.
pub(in crate::write) fn validate_template_metadata(metadata: &Value, field: &str, out: &mut CauseList) {
    for (key, _) in meta::sorted_members(&metadata["annotations"]) {
        let problems = meta::qualified_problems(&key.to_lowercase());
        add_problems(problems, &json!(key), &format!("{field}.annotations"), out);
    }
    meta::validate_labels(&metadata["labels"], &format!("{field}.labels"), out);
    for key in [
        "name",
        "generateName",
        "namespace",
        "selfLink",
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "ownerReferences",
        "finalizers",
        "managedFields",
    ] {
        if !is_empty(&metadata[key]) && metadata[key] != 0 {
            out.push(StatusCause::forbidden(format!("{field}.{key}"), "cannot be set"));
        }
    }
}
