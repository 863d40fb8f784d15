//! Validation of classes of devices and of claims to them.
//!
//! A real server checks by hand first, then by rules declared with the types; what both would say is
//! said by the latter. The two passes here follow that order.

use serde_json::{Value, json};
use slipway_cel::{Env, Type};

use super::{Causes, is_empty, known, list, texts};
use crate::api::crd::rules::compiled;
use crate::status::Cause;
use crate::write::admit::meta;

const MOST: usize = 32;

pub(super) fn class(spec: &Value, old: Option<&Value>, out: &mut Causes) {
    let same = |key: &str| old.is_some_and(|old| old["spec"][key] == spec[key]);
    if !same("selectors") {
        selectors(&spec["selectors"], "spec.selectors", out);
    }
    for (i, config) in few(&spec["config"]) {
        configuration(config, &format!("spec.config[{i}]"), same("config"), out);
    }
    limited(&spec["selectors"], "spec.selectors", MOST, out);
    if limited(&spec["config"], "spec.config", MOST, out) {
        for (i, config) in list(&spec["config"]) {
            driver(&config["opaque"], &format!("spec.config[{i}].opaque"), out);
        }
    }
    if let Some(name) = spec["extendedResourceName"].as_str() {
        extended_name(name, "spec.extendedResourceName", out);
    }
}

/// The items of a list, unless there are too many of them to look at.
pub(super) fn few(all: &Value) -> impl Iterator<Item = (usize, &Value)> {
    list(all).filter(|_| all.as_array().is_some_and(|all| all.len() <= MOST))
}

/// Whether a list is no longer than it may be.
pub(super) fn limited(all: &Value, field: &str, most: usize, out: &mut Causes) -> bool {
    let length = all.as_array().map_or(0, Vec::len);
    if length > most {
        out.push(Cause::too_many(field, length, most));
    }
    length <= most
}

/// Items of a set that are there before.
fn unique(all: &Value, field: &str, key: Option<&str>, out: &mut Causes) {
    let of = |item: &Value| key.map_or_else(|| item.clone(), |key| item[key].clone());
    for (i, item) in list(all) {
        if list(all).take(i).any(|(_, before)| of(before) == of(item)) {
            out.push(Cause::duplicate(format!("{field}[{i}]"), item));
        }
    }
}

fn selectors(all: &Value, field: &str, out: &mut Causes) {
    for (i, selector) in few(all) {
        let at = format!("{field}[{i}].cel");
        if selector["cel"].is_null() {
            out.push(Cause::required(at, ""));
            continue;
        }
        let text = selector["cel"]["expression"].as_str().unwrap_or("");
        let at = format!("{at}.expression");
        if text.len() > 10 * 1024 {
            out.push(Cause::too_long(at, 10 * 1024));
            continue;
        }
        let env = Env::kubernetes().variable("device", Type::Dyn);
        if let Err(why) = compiled(&env, text, Some(&Type::Bool)) {
            let why = why
                .replace("must evaluate to bool but got ", "must evaluate to bool or the unknown type, not ");
            out.push(Cause::invalid(at, &json!(text), &why));
        }
    }
}

/// What a driver is told, checked by hand.
fn configuration(config: &Value, at: &str, stored: bool, out: &mut Causes) {
    let opaque = &config["opaque"];
    if opaque.is_null() {
        return out.push(Cause::required(format!("{at}.opaque"), ""));
    }
    let (parameters, at) = (&opaque["parameters"], format!("{at}.opaque.parameters"));
    if parameters.is_null() {
        out.push(Cause::required(at, ""));
    } else if !stored && parameters.to_string().len() > 10 * 1024 {
        out.push(Cause::too_long(at, 10 * 1024));
    } else if !parameters.is_object() {
        out.push(Cause::invalid(at, &json!("<value omitted>"), "must be a valid JSON object"));
    }
}

/// Which driver is told something, by declared rules.
fn driver(opaque: &Value, at: &str, out: &mut Causes) {
    if !opaque.is_null() {
        driver_name(&opaque["driver"], &format!("{at}.driver"), out);
    }
}

/// The name of a driver.
fn driver_name(name: &Value, at: &str, out: &mut Causes) {
    match name.as_str().unwrap_or("") {
        "" => out.push(Cause::required(at, "")),
        text => {
            texts(meta::caseless_problems(text), name, at, out);
            if text.len() > 63 {
                let mut cause = Cause::too_long(at, 63);
                cause.message = "Too long: may not be more than 63 characters".to_owned();
                out.push(cause);
            }
        }
    }
}

/// A resource asked for by name as if it was an amount.
fn extended_name(name: &str, at: &str, out: &mut Causes) {
    let mut refuse = |why: &str| out.push(Cause::invalid(at, &json!(name), why));
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

/// What a claim asks for, at `field`.
pub(super) fn claim(spec: &Value, field: &str, out: &mut Causes) {
    let devices = &spec["devices"];
    for (i, request) in few(&devices["requests"]) {
        let at = format!("{field}.devices.requests[{i}]");
        request_name(&request["name"], &format!("{at}.name"), out);
        match (request["exactly"].is_null(), is_empty(&request["firstAvailable"])) {
            (true, true) => {
                let why = "exactly one of `exactly` or `firstAvailable` is required";
                out.push(Cause::required(at, why));
            }
            (false, false) => {
                let why =
                    "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set";
                out.push(Cause::invalid(at, &Value::Null, why));
            }
            (false, true) => {
                let at = format!("{at}.exactly");
                match request["exactly"]["deviceClassName"].as_str().unwrap_or("") {
                    "" => out.push(Cause::required(format!("{at}.deviceClassName"), "")),
                    class => {
                        let problems = meta::subdomain_problems(class);
                        texts(problems, &json!(class), &format!("{at}.deviceClassName"), out);
                    }
                }
                asked(&request["exactly"], &at, out);
            }
            (true, false) if request["firstAvailable"].as_array().is_some_and(|all| all.len() <= 8) => {
                for (j, one) in list(&request["firstAvailable"]) {
                    let at = format!("{at}.firstAvailable[{j}]");
                    request_name(&one["name"], &format!("{at}.name"), out);
                    asked(one, &at, out);
                }
            }
            _ => {}
        }
    }
    for (i, constraint) in few(&devices["constraints"]) {
        let at = format!("{field}.devices.constraints[{i}]");
        references(&constraint["requests"], devices, &format!("{at}.requests"), out);
        if constraint["matchAttribute"].is_null() && constraint["distinctAttribute"].is_null() {
            let why = "exactly one of \"matchAttribute\" or \"distinctAttribute\" is required, but multiple fields are set";
            out.push(Cause::required(at, why));
        }
    }
    for (i, config) in few(&devices["config"]) {
        let at = format!("{field}.devices.config[{i}]");
        references(&config["requests"], devices, &format!("{at}.requests"), out);
        configuration(config, &at, false, out);
    }
}

fn request_name(name: &Value, at: &str, out: &mut Causes) {
    let name = name.as_str().unwrap_or("");
    texts(meta::label_problems(name), &json!(name), at, out);
}

/// Which devices, how many, and what is put up with: by hand.
fn asked(request: &Value, at: &str, out: &mut Causes) {
    selectors(&request["selectors"], &format!("{at}.selectors"), out);
    let count = request["count"].as_i64().unwrap_or(0);
    match request["allocationMode"].as_str().unwrap_or("") {
        "All" if count != 0 => {
            let why = "must not be specified when allocationMode is 'All'";
            out.push(Cause::invalid(format!("{at}.count"), &json!(count), why));
        }
        "ExactCount" if count <= 0 => {
            out.push(Cause::invalid(format!("{at}.count"), &json!(count), "must be greater than zero"));
        }
        _ => {}
    }
    for (i, toleration) in list(&request["tolerations"]) {
        let at = format!("{at}.tolerations[{i}].value");
        let value = toleration["value"].as_str().unwrap_or("");
        match toleration["operator"].as_str().unwrap_or("") {
            "Exists" if !value.is_empty() => {
                out.push(Cause::invalid(at, &json!(value), "must be empty for operator `Exists`"));
            }
            "Equal" => texts(meta::label_value_problems(value), &json!(value), &at, out),
            _ => {}
        }
    }
}

/// Names of requests of the same claim.
fn references(names: &Value, devices: &Value, field: &str, out: &mut Causes) {
    let why = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'";
    for (i, name) in few(names) {
        let at = format!("{field}[{i}]");
        let parts: Vec<&str> = name.as_str().unwrap_or("").split('/').collect();
        if parts.len() > 2 {
            out.push(Cause::invalid(at, name, why));
            continue;
        }
        for part in &parts {
            texts(meta::label_problems(part), &json!(part), &at, out);
        }
        let found = list(&devices["requests"]).any(|(_, request)| {
            request["name"] == parts[0]
                && parts
                    .get(1)
                    .is_none_or(|part| list(&request["firstAvailable"]).any(|(_, one)| one["name"] == *part))
        });
        if !found {
            out.push(Cause::invalid(at, name, why));
        }
    }
}

/// What the declared rules say of a claim.
pub(crate) fn declared_claim(spec: &Value, field: &str, out: &mut Causes) {
    let (devices, field) = (&spec["devices"], format!("{field}.devices"));
    let at = format!("{field}.requests");
    if limited(&devices["requests"], &at, MOST, out) {
        unique(&devices["requests"], &at, Some("name"), out);
        for (i, request) in list(&devices["requests"]) {
            let at = format!("{at}[{i}]");
            if !request["exactly"].is_null() {
                declared_request(&request["exactly"], &format!("{at}.exactly"), out);
            }
            let (several, at) = (&request["firstAvailable"], format!("{at}.firstAvailable"));
            if limited(several, &at, 8, out) {
                unique(several, &at, Some("name"), out);
                for (j, one) in list(several) {
                    let at = format!("{at}[{j}]");
                    let class = &one["deviceClassName"];
                    match class.as_str().unwrap_or("") {
                        "" => out.push(Cause::required(format!("{at}.deviceClassName"), "")),
                        text => texts(
                            meta::in_bytes(meta::subdomain_problems(text)),
                            class,
                            &format!("{at}.deviceClassName"),
                            out,
                        ),
                    }
                    declared_request(one, &at, out);
                }
            }
        }
    }
    let at = format!("{field}.constraints");
    if limited(&devices["constraints"], &at, MOST, out) {
        for (i, constraint) in list(&devices["constraints"]) {
            let at = format!("{at}[{i}]");
            if limited(&constraint["requests"], &format!("{at}.requests"), MOST, out) {
                unique(&constraint["requests"], &format!("{at}.requests"), None, out);
            }
            for key in ["matchAttribute", "distinctAttribute"] {
                if let Some(name) = constraint[key].as_str() {
                    qualified(name, &format!("{at}.{key}"), out);
                    if !name.contains('/') {
                        let why = "a fully qualified name must be a domain and a name separated by a slash";
                        out.push(Cause::invalid(format!("{at}.{key}"), &json!(name), why));
                    }
                }
            }
        }
    }
    let at = format!("{field}.config");
    if limited(&devices["config"], &at, MOST, out) {
        for (i, config) in list(&devices["config"]) {
            let at = format!("{at}[{i}]");
            if limited(&config["requests"], &format!("{at}.requests"), MOST, out) {
                unique(&config["requests"], &format!("{at}.requests"), None, out);
            }
            driver(&config["opaque"], &format!("{at}.opaque"), out);
        }
    }
}

fn declared_request(request: &Value, at: &str, out: &mut Causes) {
    limited(&request["selectors"], &format!("{at}.selectors"), MOST, out);
    known(&request["allocationMode"], format!("{at}.allocationMode"), &["All", "ExactCount"], out);
    for (i, toleration) in list(&request["tolerations"]) {
        let at = format!("{at}.tolerations[{i}]");
        if let Some(key) = toleration["key"].as_str().filter(|key| !key.is_empty()) {
            texts(meta::label_key_problems(key), &toleration["key"], &format!("{at}.key"), out);
        }
        known(&toleration["operator"], format!("{at}.operator"), &["Equal", "Exists"], out);
        if !is_empty(&toleration["effect"]) {
            known(&toleration["effect"], format!("{at}.effect"), EFFECTS, out);
        }
    }
}

/// What a taint does.
pub(super) const EFFECTS: &[&str] = &["NoExecute", "NoSchedule", "None"];

/// The name of an attribute or of a capacity: an identifier, perhaps of a domain.
pub(super) fn qualified(name: &str, at: &str, out: &mut Causes) {
    match name.split('/').collect::<Vec<_>>().as_slice() {
        [name] => identifier(name, at, out),
        [domain, name] => {
            if domain.is_empty() {
                out.push(Cause::invalid(at, &json!(""), "prefix must not be empty"));
            } else {
                if domain.len() > 63 {
                    out.push(Cause::too_long(at, 63));
                }
                for problem in meta::in_bytes(meta::subdomain_problems(domain)) {
                    out.push(Cause::invalid(at, &json!(domain), &format!("prefix: {problem}")));
                }
            }
            if name.is_empty() {
                out.push(Cause::invalid(at, &json!(""), "name must not be empty"));
            } else {
                identifier(name, at, out);
            }
        }
        // More of them are not looked at.
        _ => {}
    }
}

fn identifier(text: &str, at: &str, out: &mut Causes) {
    const WHY: &str = "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is '[A-Za-z_][A-Za-z0-9_]*')";
    if text.len() > MOST {
        out.push(Cause::too_long(at, MOST));
    }
    if !text.starts_with(|c: char| c == '_' || c.is_ascii_alphabetic())
        || !text.bytes().all(|b| b == b'_' || b.is_ascii_alphanumeric())
    {
        out.push(Cause::invalid(at, &json!(text), WHY));
    }
}

/// What a template says of the objects made of it: labels and annotations, nothing else.
pub(super) fn template_meta(metadata: &Value, field: &str, out: &mut Causes) {
    for (key, _) in meta::sorted(&metadata["annotations"]) {
        let problems = meta::qualified_problems(&key.to_lowercase());
        texts(problems, &json!(key), &format!("{field}.annotations"), out);
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
            out.push(Cause::forbidden(format!("{field}.{key}"), "cannot be set"));
        }
    }
}
