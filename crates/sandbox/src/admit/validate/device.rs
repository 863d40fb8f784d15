//! Validation of classes of devices and of claims to them.

use serde_json::{Value, json};
use slipway_cel::{Env, Type};

use super::{Causes, is_empty, list, texts};
use crate::admit::meta;
use crate::crd_rules::compiled;
use crate::status::Cause;

pub(super) fn class(spec: &Value, out: &mut Causes) {
    selectors(&spec["selectors"], "spec.selectors", out);
}

fn selectors(all: &Value, field: &str, out: &mut Causes) {
    for (i, selector) in list(all) {
        let at = format!("{field}[{i}].cel");
        if selector["cel"].is_null() {
            out.push(Cause::required(at, ""));
            continue;
        }
        let text = selector["cel"]["expression"].as_str().unwrap_or("");
        let env = Env::kubernetes().variable("device", Type::Dyn);
        if let Err(why) = compiled(&env, text, Some(&Type::Bool)) {
            out.push(Cause::invalid(format!("{at}.expression"), &json!(text), &why));
        }
    }
}

/// What a claim asks for, at `field`.
pub(super) fn claim(spec: &Value, field: &str, out: &mut Causes) {
    for (i, request) in list(&spec["devices"]["requests"]) {
        let at = format!("{field}.devices.requests[{i}]");
        let name = request["name"].as_str().unwrap_or("");
        texts(meta::label_problems(name), &json!(name), &format!("{at}.name"), out);
        let exactly = &request["exactly"];
        match (exactly.is_null(), is_empty(&request["firstAvailable"])) {
            (true, true) => {
                let why = "exactly one of `exactly` or `firstAvailable` is required";
                out.push(Cause::required(at.clone(), why));
            }
            (false, false) => {
                let why =
                    "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set";
                out.push(Cause::invalid_unshown(at.clone(), why));
            }
            _ => {}
        }
        if !exactly.is_null() {
            let at = format!("{at}.exactly");
            match exactly["deviceClassName"].as_str().unwrap_or("") {
                "" => out.push(Cause::required(format!("{at}.deviceClassName"), "")),
                class => {
                    let problems = meta::subdomain_problems(class);
                    texts(problems, &exactly["deviceClassName"], &format!("{at}.deviceClassName"), out);
                }
            }
            selectors(&exactly["selectors"], &format!("{at}.selectors"), out);
        }
    }
}

/// How many of what is asked for: said after everything else.
pub(crate) fn amounts(spec: &Value, field: &str, out: &mut Causes) {
    for (i, request) in list(&spec["devices"]["requests"]) {
        let mode = &request["exactly"]["allocationMode"];
        if mode.as_str().is_some_and(|mode| !matches!(mode, "All" | "ExactCount")) {
            let at = format!("{field}.devices.requests[{i}].exactly.allocationMode");
            out.push(Cause::not_supported(at, mode, &["All", "ExactCount"]));
        }
    }
}
