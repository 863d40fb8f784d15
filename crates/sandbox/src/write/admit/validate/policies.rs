//! Validation of admission policies and of what binds them.

use serde_json::{Value, json};
use slipway_cel::{Env, Type};

use super::{
    CauseList, add_problems, check_known, check_one_of, hooks, indexed_items, is_empty,
    validate_label_selector,
};
use crate::api::crd::rules::check_compiles;
use crate::status::StatusCause;
use crate::write::admit::meta;
use crate::write::admit::policy::{self, as_maps};
use slipway_go::GoError;

pub(in crate::write) fn validate_policy(object: &Value, out: &mut CauseList) {
    let spec = &object["spec"];
    let composed = !is_empty(&spec["variables"]);
    let params = !spec["paramKind"].is_null();
    validate_policy_spec(spec, None, out);
    let composed = |env: Env| if composed { policy::declare_variables(env, spec) } else { env };
    validate_variables(spec, &expression_environment(params, true), out);
    let env = composed(expression_environment(params, true));
    if is_empty(&spec["validations"]) && is_empty(&spec["auditAnnotations"]) {
        for key in ["validations", "auditAnnotations"] {
            let why = "validations or auditAnnotations must contain at least one item";
            out.push(StatusCause::required(format!("spec.{key}"), why));
        }
    }
    let silent = composed(expression_environment(params, false));
    for (i, validation) in indexed_items(&spec["validations"]) {
        let at = format!("spec.validations[{i}]");
        validate_expression(validation, "expression", &at, Some(&Type::Bool), &env, out);
        let blank = |key: &str| {
            validation[key].as_str().is_some_and(|text| !text.is_empty() && text.trim().is_empty())
        };
        let empty = "must be non-empty if specified";
        if blank("messageExpression") {
            let at = format!("{at}.messageExpression");
            out.push(StatusCause::invalid(at, &validation["messageExpression"], empty));
        } else if !is_empty(&validation["messageExpression"]) {
            validate_expression(validation, "messageExpression", &at, Some(&Type::String), &silent, out);
        }
        if blank("message") {
            out.push(StatusCause::invalid(format!("{at}.message"), &validation["message"], empty));
        } else if validation["message"].as_str().is_some_and(|text| text.trim().contains(['\n', '\r'])) {
            let why = "must not contain line breaks";
            out.push(StatusCause::invalid(format!("{at}.message"), &validation["message"], why));
        }
        let reasons = ["Forbidden", "Invalid", "RequestEntityTooLarge"];
        if validation["reason"].as_str().is_some_and(|reason| !reasons.contains(&reason)) {
            let at = format!("{at}.reason");
            out.push(StatusCause::not_supported(at, &validation["reason"], &reasons));
        }
    }
    let annotations = &spec["auditAnnotations"];
    if annotations.as_array().is_some_and(|all| all.len() > 20) {
        let why = "must not have more than 20 auditAnnotations";
        out.push(StatusCause::invalid("spec.auditAnnotations", annotations, why));
    }
    for (i, annotation) in indexed_items(annotations) {
        let at = format!("spec.auditAnnotations[{i}]");
        let key = annotation["key"].as_str().unwrap_or("");
        let whole = format!("{}/{key}", meta::metadata_text(object, "name"));
        add_problems(meta::label_key_problems(&whole), &json!(whole), &format!("{at}.key"), out);
        let before = out.len();
        validate_expression(annotation, "valueExpression", &at, None, &env, out);
        let text = annotation["valueExpression"].as_str().unwrap_or("");
        if out.len() == before
            && let Ok(program) = env.compile(text)
            && !matches!(program.ty(), Type::String | Type::Null)
        {
            let why = format!("must evaluate to one of [string null_type] but got {}", program.ty());
            out.push(StatusCause::invalid(
                format!("{at}.valueExpression"),
                &annotation["valueExpression"],
                &why,
            ));
        }
        if indexed_items(annotations).take(i).any(|(_, before)| before["key"] == annotation["key"]) {
            out.push(StatusCause::duplicate(format!("{at}.key"), &json!(key)));
        }
    }
}

/// Validates the fields policies of both sorts begin with; `operations` are those that can be mutated.
fn validate_policy_spec(spec: &Value, operations: Option<&[&str]>, out: &mut CauseList) {
    check_known(&spec["failurePolicy"], "spec.failurePolicy".into(), &["Fail", "Ignore"], out);
    let params = !spec["paramKind"].is_null();
    if params {
        validate_param_kind(&spec["paramKind"], out);
    }
    let matched_by = &spec["matchConstraints"];
    if matched_by.is_null() {
        out.push(StatusCause::required("spec.matchConstraints", ""));
    } else {
        validate_match_resources(matched_by, "spec.matchConstraints", out);
        if is_empty(&matched_by["resourceRules"]) {
            out.push(StatusCause::required("spec.matchConstraints.resourceRules", ""));
        }
        if let Some(operations) = operations {
            check_mutable(matched_by, "spec.matchConstraints", operations, out);
        }
    }
    let env = expression_environment(params, true);
    validate_match_conditions(&spec["matchConditions"], "spec.matchConditions", &env, out);
}

/// The operations that can be mutated: all but DELETE.
const MUTABLE: &[&str] = &["*", "CONNECT", "CREATE", "UPDATE"];

fn check_mutable(resources: &Value, field: &str, operations: &[&str], out: &mut CauseList) {
    for (_, rule) in indexed_items(&resources["resourceRules"]) {
        for (_, operation) in indexed_items(&rule["operations"]) {
            check_known(operation, format!("{field}.resourceRules.operations"), operations, out);
        }
    }
}

/// Checks variables in their order: each may use those before it.
fn validate_variables(spec: &Value, env: &Env, out: &mut CauseList) {
    let mut env = env.clone();
    let mut declared = policy::PolicyVariables::default();
    for (i, variable) in indexed_items(&spec["variables"]) {
        let at = format!("spec.variables[{i}]");
        let name = variable["name"].as_str().unwrap_or("");
        if name.trim().is_empty() {
            out.push(StatusCause::required(format!("{at}.name"), "name is not specified"));
        } else if !is_identifier(name) {
            let why = "must be a valid CEL identifier";
            out.push(StatusCause::invalid(format!("{at}.name"), &variable["name"], why));
        }
        env = declared.declare_in(env);
        validate_expression(variable, "expression", &at, None, &env, out);
        declared.add(&env, variable);
    }
}

pub(in crate::write) fn validate_mutating_policy(spec: &Value, out: &mut CauseList) {
    validate_policy_spec(spec, Some(MUTABLE), out);
    let env = expression_environment(!spec["paramKind"].is_null(), true);
    validate_variables(spec, &env, out);
    let env = policy::declare_variables(env, spec);
    if is_empty(&spec["mutations"]) {
        out.push(StatusCause::required("spec.mutations", "mutations must contain at least one item"));
    }
    for (i, mutation) in indexed_items(&spec["mutations"]) {
        let at = format!("spec.mutations[{i}]");
        let (own, other, ty) = match mutation["patchType"].as_str().unwrap_or("") {
            "JSONPatch" => ("jsonPatch", "applyConfiguration", "list(JSONPatch)"),
            "ApplyConfiguration" => ("applyConfiguration", "jsonPatch", "Object"),
            _ => {
                let known = &["ApplyConfiguration", "JSONPatch"];
                check_one_of(&mutation["patchType"], format!("{at}.patchType"), known, out);
                continue;
            }
        };
        let kind = mutation["patchType"].as_str().unwrap_or("");
        if mutation[own].is_null() {
            let why = format!("must be specified when patchType is {kind}");
            out.push(StatusCause::required(format!("{at}.{own}"), &why));
        } else {
            validate_patch(&mutation[own], &format!("{at}.{own}.expression"), ty, &env, out);
        }
        if !mutation[other].is_null() {
            let why = format!("must not be specified when patchType is {kind}");
            out.push(StatusCause::invalid(format!("{at}.{other}"), &json!(format!("{{{other}}}")), &why));
        }
    }
    check_one_of(&spec["reinvocationPolicy"], "spec.reinvocationPolicy".into(), &["IfNeeded", "Never"], out);
}

/// An expression that makes a patch.
fn validate_patch(item: &Value, at: &str, ty: &str, env: &Env, out: &mut CauseList) {
    let text = item["expression"].as_str().unwrap_or("").trim();
    if text.is_empty() {
        return out.push(StatusCause::required(at, ""));
    }
    if text.contains("Object") || text.contains("JSONPatch") {
        if let Err(why) = check_compiles(env, &as_maps(text), None) {
            out.push(StatusCause::invalid(at, &json!(text), &why));
        }
        return;
    }
    if let Err(why) = check_compiles(env, text, Some(&Type::Bytes)) {
        let why = why.replace("must evaluate to bytes ", &format!("must evaluate to {ty} "));
        out.push(StatusCause::invalid(at, &json!(text), &why));
    }
}

pub(in crate::write) fn validate_mutating_binding(spec: &Value, out: &mut CauseList) {
    validate_binding_spec(spec, out);
    check_mutable(&spec["matchResources"], "spec.matchResources", MUTABLE, out);
}

/// Returns the environment of expressions in a policy or webhook.
pub(in crate::write) fn expression_environment(params: bool, authorizer: bool) -> Env {
    let mut names = vec!["object", "oldObject", "request", "namespaceObject"];
    names.extend(params.then_some("params"));
    names.extend(authorizer.then_some("authorizer"));
    policy::policy_environment(&names)
}

/// Refuses an expression whose type is known only when it runs, where one is asked for.
fn check_known_type(env: &Env, text: &str, ty: Option<&Type>) -> Result<(), GoError> {
    match (ty, env.compile(text)) {
        (Some(ty), Ok(program)) if program.ty().is_dyn() => {
            Err(format!("must evaluate to {ty} but got {}", program.ty()).into())
        }
        _ => Ok(()),
    }
}

fn validate_expression(
    item: &Value,
    member: &str,
    at: &str,
    ty: Option<&Type>,
    env: &Env,
    out: &mut CauseList,
) {
    let at = format!("{at}.{member}");
    let text = item[member].as_str().unwrap_or("");
    if text.trim().is_empty() {
        out.push(StatusCause::required(at, &format!("{member} is not specified")));
    } else if let Err(why) = check_compiles(env, text, ty).and_then(|()| check_known_type(env, text, ty)) {
        out.push(StatusCause::invalid(at, &item[member], &why));
    }
}

pub(in crate::write) fn validate_match_conditions(
    conditions: &Value,
    field: &str,
    env: &Env,
    out: &mut CauseList,
) {
    let mut names = Vec::new();
    if let Some(all) = conditions.as_array().filter(|all| all.len() > 64) {
        out.push(StatusCause::too_many(field, all.len(), 64));
    }
    for (i, condition) in indexed_items(conditions) {
        let at = format!("{field}[{i}]");
        let text = condition["expression"].as_str().unwrap_or("").trim();
        if text.is_empty() {
            out.push(StatusCause::required(format!("{at}.expression"), ""));
        } else if let Err(why) = check_compiles(env, text, Some(&Type::Bool))
            .and_then(|()| check_known_type(env, text, Some(&Type::Bool)))
        {
            out.push(StatusCause::invalid(format!("{at}.expression"), &json!(text), &why));
        }
        let at = format!("{at}.name");
        match condition["name"].as_str().unwrap_or("") {
            "" => out.push(StatusCause::required(at, "")),
            name => {
                add_problems(meta::label_key_problems(name), &condition["name"], &at, out);
                if names.contains(&name) {
                    out.push(StatusCause::duplicate(at, &condition["name"]));
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

fn validate_param_kind(kind: &Value, out: &mut CauseList) {
    let version = kind["apiVersion"].as_str().unwrap_or("");
    let at = "spec.paramKind.apiVersion";
    if version.is_empty() {
        out.push(StatusCause::required(at, ""));
    } else if version.matches('/').count() > 1 {
        let why = format!("unexpected GroupVersion string: {version}");
        out.push(StatusCause::invalid(at, &kind["apiVersion"], &why));
    } else {
        let (group, version) = version.split_once('/').unwrap_or(("", version));
        let joined = |problems: Vec<String>, text: &str, out: &mut CauseList| {
            if !problems.is_empty() {
                out.push(StatusCause::invalid(at, &json!(text), &problems.join(",")));
            }
        };
        if !group.is_empty() {
            joined(meta::subdomain_problems(group), group, out);
        }
        if version.is_empty() {
            out.push(StatusCause::invalid(at, &kind["apiVersion"], "version must be specified"));
        } else {
            joined(meta::dns_label_problems(version), version, out);
        }
    }
    match kind["kind"].as_str().unwrap_or("") {
        "" => out.push(StatusCause::required("spec.paramKind.kind", "")),
        name => {
            let problems = meta::dns_label_problems(&name.to_lowercase());
            if !problems.is_empty() {
                let why = format!("may have mixed case, but should otherwise match: {}", problems.join(","));
                out.push(StatusCause::invalid("spec.paramKind.kind", &kind["kind"], &why));
            }
        }
    }
}

/// Validates the rules that match requests, at `field`.
fn validate_match_resources(resources: &Value, field: &str, out: &mut CauseList) {
    check_known(&resources["matchPolicy"], format!("{field}.matchPolicy"), &["Equivalent", "Exact"], out);
    for key in ["namespaceSelector", "objectSelector"] {
        validate_label_selector(&resources[key], &format!("{field}.{key}"), out);
    }
    for key in ["resourceRules", "excludeResourceRules"] {
        for (i, rule) in indexed_items(&resources[key]) {
            let at = format!("{field}.{key}[{i}]");
            for (j, name) in indexed_items(&rule["resourceNames"]) {
                let at = format!("{at}.resourceNames[{j}]");
                add_problems(meta::segment_problems(name.as_str().unwrap_or("")), name, &at, out);
                if indexed_items(&rule["resourceNames"]).take(j).any(|(_, before)| before == name) {
                    out.push(StatusCause::duplicate(at, name));
                }
            }
            hooks::validate_rule(rule, &at, hooks::OPERATIONS, out);
        }
    }
}

/// Validates the policy name and parameters of a binding.
fn validate_binding_spec(spec: &Value, out: &mut CauseList) {
    match spec["policyName"].as_str().unwrap_or("") {
        "" => out.push(StatusCause::required("spec.policyName", "")),
        name => add_problems(meta::subdomain_problems(name), &spec["policyName"], "spec.policyName", out),
    }
    if !spec["paramRef"].is_null() {
        validate_param_ref(&spec["paramRef"], out);
    }
    if !spec["matchResources"].is_null() {
        validate_match_resources(&spec["matchResources"], "spec.matchResources", out);
    }
}

pub(in crate::write) fn validate_policy_binding(spec: &Value, out: &mut CauseList) {
    validate_binding_spec(spec, out);
    let actions = &spec["validationActions"];
    if is_empty(actions) {
        out.push(StatusCause::required("spec.validationActions", ""));
    }
    for (i, action) in indexed_items(actions) {
        let at = format!("spec.validationActions[{i}]");
        if !matches!(action.as_str(), Some("Audit" | "Deny" | "Warn")) {
            out.push(StatusCause::not_supported(&at, action, &["Audit", "Deny", "Warn"]));
        }
        if indexed_items(actions).take(i).any(|(_, before)| before == action) {
            out.push(StatusCause::duplicate(at, action));
        }
    }
    let has = |wanted: &str| indexed_items(actions).any(|(_, action)| action == wanted);
    if has("Deny") && has("Warn") {
        let why = "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)";
        out.push(StatusCause::invalid("spec.validationActions", actions, why));
    }
}

fn validate_param_ref(reference: &Value, out: &mut CauseList) {
    let at = "spec.paramRef";
    let why = "name and selector are mutually exclusive";
    let (name, selector) = (reference["name"].as_str().unwrap_or(""), &reference["selector"]);
    if !name.is_empty() {
        add_problems(meta::segment_problems(name), &reference["name"], &format!("{at}.name"), out);
        if !selector.is_null() {
            out.push(StatusCause::forbidden(format!("{at}.name"), why));
        }
    }
    if !selector.is_null() {
        validate_label_selector(selector, &format!("{at}.selector"), out);
        if !name.is_empty() {
            out.push(StatusCause::forbidden(format!("{at}.selector"), why));
        }
    } else if name.is_empty() {
        out.push(StatusCause::required(at, "one of name or selector must be specified"));
    }
    let missing = &reference["parameterNotFoundAction"];
    check_one_of(missing, format!("{at}.parameterNotFoundAction"), &["Deny", "Allow"], out);
}
