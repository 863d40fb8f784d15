//! Validation of admission policies and of what binds them.

use serde_json::{Value, json};
use slipway_cel::{Env, Type};

use super::{Causes, hooks, is_empty, label_selector, list, one_of, texts};
use crate::admit::meta;
use crate::crd_rules::compiled;
use crate::status::Cause;

pub(super) fn policy(object: &Value, out: &mut Causes) {
    let spec = &object["spec"];
    if !spec["failurePolicy"].is_null() {
        one_of(&spec["failurePolicy"], "spec.failurePolicy".into(), &["Fail", "Ignore"], out);
    }
    if !spec["paramKind"].is_null() {
        param_kind(&spec["paramKind"], out);
    }
    if spec["matchConstraints"].is_null() {
        out.push(Cause::required("spec.matchConstraints", ""));
    } else {
        matched(&spec["matchConstraints"], "spec.matchConstraints", out);
        if is_empty(&spec["matchConstraints"]["resourceRules"]) {
            out.push(Cause::required("spec.matchConstraints.resourceRules", ""));
        }
    }
    let env = environment(spec);
    match_conditions(&spec["matchConditions"], &env, out);
    for (i, variable) in list(&spec["variables"]) {
        let at = format!("spec.variables[{i}]");
        let name = variable["name"].as_str().unwrap_or("");
        if name.is_empty() {
            out.push(Cause::required(format!("{at}.name"), "name is not specified"));
        } else if !is_identifier(name) {
            let why = "must be a valid CEL identifier";
            out.push(Cause::invalid(format!("{at}.name"), &variable["name"], why));
        }
        expression(variable, "expression", &at, None, &env, out);
    }
    if is_empty(&spec["validations"]) && is_empty(&spec["auditAnnotations"]) {
        for key in ["validations", "auditAnnotations"] {
            let why = "validations or auditAnnotations must contain at least one item";
            out.push(Cause::required(format!("spec.{key}"), why));
        }
    }
    for (i, validation) in list(&spec["validations"]) {
        let at = format!("spec.validations[{i}]");
        expression(validation, "expression", &at, Some(&Type::Bool), &env, out);
        if !is_empty(&validation["messageExpression"]) {
            expression(validation, "messageExpression", &at, Some(&Type::String), &env, out);
        }
        if validation["message"].as_str().is_some_and(|text| text.contains('\n')) {
            let why = "must not contain line breaks";
            out.push(Cause::invalid(format!("{at}.message"), &validation["message"], why));
        }
        let reasons = ["Forbidden", "Invalid", "RequestEntityTooLarge", "Unauthorized"];
        if validation["reason"].as_str().is_some_and(|reason| !reasons.contains(&reason)) {
            let at = format!("{at}.reason");
            // A real server takes the last of them as well, but does not say so.
            out.push(Cause::not_supported(at, &validation["reason"], &reasons[..3]));
        }
    }
    for (i, annotation) in list(&spec["auditAnnotations"]) {
        let at = format!("spec.auditAnnotations[{i}]");
        let key = annotation["key"].as_str().unwrap_or("");
        let whole = format!("{}/{key}", meta::text(object, "name"));
        texts(meta::qualified_problems(&whole), &json!(whole), &format!("{at}.key"), out);
        expression(annotation, "valueExpression", &at, None, &env, out);
    }
}

/// What expressions of a policy can speak of.
fn environment(spec: &Value) -> Env {
    let mut names = vec!["object", "oldObject", "request", "namespaceObject", "authorizer"];
    if !spec["paramKind"].is_null() {
        names.push("params");
    }
    if !is_empty(&spec["variables"]) {
        names.push("variables");
    }
    names.into_iter().fold(Env::kubernetes(), |env, name| env.variable(name, Type::Dyn))
}

fn expression(item: &Value, member: &str, at: &str, ty: Option<&Type>, env: &Env, out: &mut Causes) {
    let at = format!("{at}.{member}");
    match item[member].as_str().unwrap_or("").trim() {
        "" => out.push(Cause::required(at, &format!("{member} is not specified"))),
        text => {
            if let Err(why) = compiled(env, text, ty) {
                out.push(Cause::invalid(at, &item[member], &why));
            }
        }
    }
}

fn match_conditions(conditions: &Value, env: &Env, out: &mut Causes) {
    let mut names = Vec::new();
    for (i, condition) in list(conditions) {
        let at = format!("spec.matchConditions[{i}]");
        if is_empty(&condition["expression"]) {
            out.push(Cause::required(format!("{at}.expression"), ""));
        } else {
            expression(condition, "expression", &at, Some(&Type::Bool), env, out);
        }
        let at = format!("{at}.name");
        match condition["name"].as_str().unwrap_or("") {
            "" => out.push(Cause::required(at, "")),
            name => {
                texts(meta::qualified_problems(name), &condition["name"], &at, out);
                if names.contains(&name) {
                    out.push(Cause::duplicate(at, &condition["name"]));
                }
                names.push(name);
            }
        }
    }
}

fn is_identifier(text: &str) -> bool {
    !text.starts_with(|c: char| c.is_ascii_digit())
        && text.bytes().all(|b| b == b'_' || b.is_ascii_alphanumeric())
}

fn param_kind(kind: &Value, out: &mut Causes) {
    let version = kind["apiVersion"].as_str().unwrap_or("");
    if version.is_empty() {
        out.push(Cause::required("spec.paramKind.apiVersion", ""));
    } else if version.matches('/').count() > 1 {
        let why = format!("unexpected GroupVersion string: {version}");
        out.push(Cause::invalid("spec.paramKind.apiVersion", &kind["apiVersion"], &why));
    }
    match kind["kind"].as_str().unwrap_or("") {
        "" => out.push(Cause::required("spec.paramKind.kind", "")),
        name => {
            for problem in meta::dns_label_problems(&name.to_lowercase()) {
                let why = format!("may have mixed case, but should otherwise match: {problem}");
                out.push(Cause::invalid("spec.paramKind.kind", &kind["kind"], &why));
            }
        }
    }
}

/// Which requests are matched, at `field`.
fn matched(resources: &Value, field: &str, out: &mut Causes) {
    if !resources["matchPolicy"].is_null() {
        let known = ["Equivalent", "Exact"];
        one_of(&resources["matchPolicy"], format!("{field}.matchPolicy"), &known, out);
    }
    for key in ["namespaceSelector", "objectSelector"] {
        label_selector(&resources[key], &format!("{field}.{key}"), out);
    }
    for key in ["resourceRules", "excludeResourceRules"] {
        for (i, rule) in list(&resources[key]) {
            hooks::rule(rule, &format!("{field}.{key}[{i}]"), out);
        }
    }
}

pub(super) fn binding(spec: &Value, out: &mut Causes) {
    match spec["policyName"].as_str().unwrap_or("") {
        "" => out.push(Cause::required("spec.policyName", "")),
        name => texts(meta::subdomain_problems(name), &spec["policyName"], "spec.policyName", out),
    }
    if !spec["paramRef"].is_null() {
        param_ref(&spec["paramRef"], out);
    }
    if !spec["matchResources"].is_null() {
        matched(&spec["matchResources"], "spec.matchResources", out);
    }
    let actions = &spec["validationActions"];
    if is_empty(actions) {
        out.push(Cause::required("spec.validationActions", ""));
    }
    for (i, action) in list(actions) {
        let at = format!("spec.validationActions[{i}]");
        if !matches!(action.as_str(), Some("Audit" | "Deny" | "Warn")) {
            out.push(Cause::not_supported(&at, action, &["Audit", "Deny", "Warn"]));
        }
        if list(actions).take(i).any(|(_, before)| before == action) {
            out.push(Cause::duplicate(at, action));
        }
    }
    let has = |wanted: &str| list(actions).any(|(_, action)| action == wanted);
    if has("Deny") && has("Warn") {
        let why = "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)";
        out.push(Cause::invalid("spec.validationActions", actions, why));
    }
}

fn param_ref(reference: &Value, out: &mut Causes) {
    let at = "spec.paramRef";
    match (is_empty(&reference["name"]), reference["selector"].is_null()) {
        (true, true) => out.push(Cause::required(at, "one of name or selector must be specified")),
        (false, false) => {
            for key in ["name", "selector"] {
                let why = "name and selector are mutually exclusive";
                out.push(Cause::forbidden(format!("{at}.{key}"), why));
            }
        }
        _ => {}
    }
    let missing = &reference["parameterNotFoundAction"];
    one_of(missing, format!("{at}.parameterNotFoundAction"), &["Deny", "Allow"], out);
}
