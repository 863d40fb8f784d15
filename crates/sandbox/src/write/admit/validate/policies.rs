//! Validation of admission policies and of what binds them.

use serde_json::{Value, json};
use slipway_cel::{Env, Type};

use super::{Causes, hooks, is_empty, known, label_selector, list, one_of, texts};
use crate::api::crd::rules::compiled;
use crate::status::Cause;
use crate::write::admit::meta;
use crate::write::admit::policy::{self, as_maps};

pub(super) fn policy(object: &Value, out: &mut Causes) {
    let spec = &object["spec"];
    let composed = !is_empty(&spec["variables"]);
    let params = !spec["paramKind"].is_null();
    common(spec, None, out);
    let env = environment(params, composed, true);
    variables(spec, &env, out);
    if is_empty(&spec["validations"]) && is_empty(&spec["auditAnnotations"]) {
        for key in ["validations", "auditAnnotations"] {
            let why = "validations or auditAnnotations must contain at least one item";
            out.push(Cause::required(format!("spec.{key}"), why));
        }
    }
    let silent = environment(params, composed, false);
    for (i, validation) in list(&spec["validations"]) {
        let at = format!("spec.validations[{i}]");
        expression(validation, "expression", &at, Some(&Type::Bool), &env, out);
        let blank = |key: &str| {
            validation[key].as_str().is_some_and(|text| !text.is_empty() && text.trim().is_empty())
        };
        let empty = "must be non-empty if specified";
        if blank("messageExpression") {
            let at = format!("{at}.messageExpression");
            out.push(Cause::invalid(at, &validation["messageExpression"], empty));
        } else if !is_empty(&validation["messageExpression"]) {
            expression(validation, "messageExpression", &at, Some(&Type::String), &silent, out);
        }
        if blank("message") {
            out.push(Cause::invalid(format!("{at}.message"), &validation["message"], empty));
        } else if validation["message"].as_str().is_some_and(|text| text.trim().contains(['\n', '\r'])) {
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
    let annotations = &spec["auditAnnotations"];
    if annotations.as_array().is_some_and(|all| all.len() > 20) {
        let why = "must not have more than 20 auditAnnotations";
        out.push(Cause::invalid("spec.auditAnnotations", annotations, why));
    }
    for (i, annotation) in list(annotations) {
        let at = format!("spec.auditAnnotations[{i}]");
        let key = annotation["key"].as_str().unwrap_or("");
        let whole = format!("{}/{key}", meta::text(object, "name"));
        texts(meta::label_key_problems(&whole), &json!(whole), &format!("{at}.key"), out);
        expression(annotation, "valueExpression", &at, None, &env, out);
        if list(annotations).take(i).any(|(_, before)| before["key"] == annotation["key"]) {
            out.push(Cause::duplicate(format!("{at}.key"), &json!(key)));
        }
    }
}

/// What policies of both sorts say first; `operations` are those that can be mutated.
fn common(spec: &Value, operations: Option<&[&str]>, out: &mut Causes) {
    known(&spec["failurePolicy"], "spec.failurePolicy".into(), &["Fail", "Ignore"], out);
    let params = !spec["paramKind"].is_null();
    if params {
        param_kind(&spec["paramKind"], out);
    }
    let matched_by = &spec["matchConstraints"];
    if matched_by.is_null() {
        out.push(Cause::required("spec.matchConstraints", ""));
    } else {
        matched(matched_by, "spec.matchConstraints", out);
        if is_empty(&matched_by["resourceRules"]) {
            out.push(Cause::required("spec.matchConstraints.resourceRules", ""));
        }
        if let Some(operations) = operations {
            mutable(matched_by, "spec.matchConstraints", operations, out);
        }
    }
    let env = environment(params, false, true);
    match_conditions(&spec["matchConditions"], "spec.matchConditions", &env, out);
}

/// What cannot be mutated while it is deleted.
const MUTABLE: &[&str] = &["*", "CONNECT", "CREATE", "UPDATE"];

fn mutable(resources: &Value, field: &str, operations: &[&str], out: &mut Causes) {
    for (_, rule) in list(&resources["resourceRules"]) {
        for (_, operation) in list(&rule["operations"]) {
            known(operation, format!("{field}.resourceRules.operations"), operations, out);
        }
    }
}

fn variables(spec: &Value, env: &Env, out: &mut Causes) {
    for (i, variable) in list(&spec["variables"]) {
        let at = format!("spec.variables[{i}]");
        let name = variable["name"].as_str().unwrap_or("");
        if name.trim().is_empty() {
            out.push(Cause::required(format!("{at}.name"), "name is not specified"));
        } else if !is_identifier(name) {
            let why = "must be a valid CEL identifier";
            out.push(Cause::invalid(format!("{at}.name"), &variable["name"], why));
        }
        expression(variable, "expression", &at, None, env, out);
    }
}

pub(super) fn mutating(spec: &Value, out: &mut Causes) {
    common(spec, Some(MUTABLE), out);
    let env = environment(!spec["paramKind"].is_null(), true, true);
    variables(spec, &env, out);
    if is_empty(&spec["mutations"]) {
        out.push(Cause::required("spec.mutations", "mutations must contain at least one item"));
    }
    for (i, mutation) in list(&spec["mutations"]) {
        let at = format!("spec.mutations[{i}]");
        let (own, other, ty) = match mutation["patchType"].as_str().unwrap_or("") {
            "JSONPatch" => ("jsonPatch", "applyConfiguration", "list(JSONPatch)"),
            "ApplyConfiguration" => ("applyConfiguration", "jsonPatch", "Object"),
            _ => {
                let known = &["ApplyConfiguration", "JSONPatch"];
                one_of(&mutation["patchType"], format!("{at}.patchType"), known, out);
                continue;
            }
        };
        let kind = mutation["patchType"].as_str().unwrap_or("");
        if mutation[own].is_null() {
            let why = format!("must be specified when patchType is {kind}");
            out.push(Cause::required(format!("{at}.{own}"), &why));
        } else {
            patch(&mutation[own], &format!("{at}.{own}.expression"), ty, &env, out);
        }
        if !mutation[other].is_null() {
            let why = format!("must not be specified when patchType is {kind}");
            out.push(Cause::invalid(format!("{at}.{other}"), &json!(format!("{{{other}}}")), &why));
        }
    }
    one_of(&spec["reinvocationPolicy"], "spec.reinvocationPolicy".into(), &["IfNeeded", "Never"], out);
}

/// An expression that makes a patch.
fn patch(item: &Value, at: &str, ty: &str, env: &Env, out: &mut Causes) {
    let text = item["expression"].as_str().unwrap_or("").trim();
    if text.is_empty() {
        return out.push(Cause::required(at, ""));
    }
    if text.contains("Object") || text.contains("JSONPatch") {
        if let Err(why) = compiled(env, &as_maps(text), None) {
            out.push(Cause::invalid(at, &json!(text), &why));
        }
        return;
    }
    if let Err(why) = compiled(env, text, Some(&Type::Bytes)) {
        let why = why.replace("must evaluate to bytes ", &format!("must evaluate to {ty} "));
        out.push(Cause::invalid(at, &json!(text), &why));
    }
}

pub(super) fn mutating_binding(spec: &Value, out: &mut Causes) {
    bound(spec, out);
    mutable(&spec["matchResources"], "spec.matchResources", MUTABLE, out);
}

/// What expressions of a policy or of a hook can speak of.
pub(super) fn environment(params: bool, composed: bool, authorizer: bool) -> Env {
    let mut names = vec!["object", "oldObject", "request", "namespaceObject"];
    names.extend(params.then_some("params"));
    names.extend(composed.then_some("variables"));
    names.extend(authorizer.then_some("authorizer"));
    policy::environment(&names)
}

fn expression(item: &Value, member: &str, at: &str, ty: Option<&Type>, env: &Env, out: &mut Causes) {
    let at = format!("{at}.{member}");
    let text = item[member].as_str().unwrap_or("");
    if text.trim().is_empty() {
        out.push(Cause::required(at, &format!("{member} is not specified")));
    } else if let Err(why) = compiled(env, text, ty) {
        out.push(Cause::invalid(at, &item[member], &why));
    }
}

pub(super) fn match_conditions(conditions: &Value, field: &str, env: &Env, out: &mut Causes) {
    let mut names = Vec::new();
    if let Some(all) = conditions.as_array().filter(|all| all.len() > 64) {
        out.push(Cause::too_many(field, all.len(), 64));
    }
    for (i, condition) in list(conditions) {
        let at = format!("{field}[{i}]");
        let text = condition["expression"].as_str().unwrap_or("").trim();
        if text.is_empty() {
            out.push(Cause::required(format!("{at}.expression"), ""));
        } else if let Err(why) = compiled(env, text, Some(&Type::Bool)) {
            out.push(Cause::invalid(format!("{at}.expression"), &json!(text), &why));
        }
        let at = format!("{at}.name");
        match condition["name"].as_str().unwrap_or("") {
            "" => out.push(Cause::required(at, "")),
            name => {
                texts(meta::label_key_problems(name), &condition["name"], &at, out);
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
    let at = "spec.paramKind.apiVersion";
    if version.is_empty() {
        out.push(Cause::required(at, ""));
    } else if version.matches('/').count() > 1 {
        let why = format!("unexpected GroupVersion string: {version}");
        out.push(Cause::invalid(at, &kind["apiVersion"], &why));
    } else {
        let (group, version) = version.split_once('/').unwrap_or(("", version));
        let joined = |problems: Vec<String>, text: &str, out: &mut Causes| {
            if !problems.is_empty() {
                out.push(Cause::invalid(at, &json!(text), &problems.join(",")));
            }
        };
        if !group.is_empty() {
            joined(meta::subdomain_problems(group), group, out);
        }
        if version.is_empty() {
            out.push(Cause::invalid(at, &kind["apiVersion"], "version must be specified"));
        } else {
            joined(meta::dns_label_problems(version), version, out);
        }
    }
    match kind["kind"].as_str().unwrap_or("") {
        "" => out.push(Cause::required("spec.paramKind.kind", "")),
        name => {
            let problems = meta::dns_label_problems(&name.to_lowercase());
            if !problems.is_empty() {
                let why = format!("may have mixed case, but should otherwise match: {}", problems.join(","));
                out.push(Cause::invalid("spec.paramKind.kind", &kind["kind"], &why));
            }
        }
    }
}

/// Which requests are matched, at `field`.
fn matched(resources: &Value, field: &str, out: &mut Causes) {
    known(&resources["matchPolicy"], format!("{field}.matchPolicy"), &["Equivalent", "Exact"], out);
    for key in ["namespaceSelector", "objectSelector"] {
        label_selector(&resources[key], &format!("{field}.{key}"), out);
    }
    for key in ["resourceRules", "excludeResourceRules"] {
        for (i, rule) in list(&resources[key]) {
            let at = format!("{field}.{key}[{i}]");
            for (j, name) in list(&rule["resourceNames"]) {
                let at = format!("{at}.resourceNames[{j}]");
                texts(meta::segment_problems(name.as_str().unwrap_or("")), name, &at, out);
                if list(&rule["resourceNames"]).take(j).any(|(_, before)| before == name) {
                    out.push(Cause::duplicate(at, name));
                }
            }
            hooks::rule(rule, &at, hooks::OPERATIONS, out);
        }
    }
}

/// What is bound to what.
fn bound(spec: &Value, out: &mut Causes) {
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
}

pub(super) fn binding(spec: &Value, out: &mut Causes) {
    bound(spec, out);
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
    let why = "name and selector are mutually exclusive";
    let (name, selector) = (reference["name"].as_str().unwrap_or(""), &reference["selector"]);
    if !name.is_empty() {
        texts(meta::segment_problems(name), &reference["name"], &format!("{at}.name"), out);
        if !selector.is_null() {
            out.push(Cause::forbidden(format!("{at}.name"), why));
        }
    }
    if !selector.is_null() {
        label_selector(selector, &format!("{at}.selector"), out);
        if !name.is_empty() {
            out.push(Cause::forbidden(format!("{at}.selector"), why));
        }
    } else if name.is_empty() {
        out.push(Cause::required(at, "one of name or selector must be specified"));
    }
    let missing = &reference["parameterNotFoundAction"];
    one_of(missing, format!("{at}.parameterNotFoundAction"), &["Deny", "Allow"], out);
}
