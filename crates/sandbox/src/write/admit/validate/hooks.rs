//! Validation of webhook configurations.

use serde_json::{Value, json};

use super::{
    CauseList, add_problems, check_known, indexed_items, is_empty, policies, validate_label_selector,
};
use crate::status::StatusCause;
use crate::write::admit::meta;

/// The operations a rule may name.
pub(super) const OPERATIONS: &[&str] = &["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];

pub(in crate::write) fn validate_webhooks(object: &Value, out: &mut CauseList) {
    let mut names: Vec<&str> = Vec::new();
    for (i, hook) in indexed_items(&object["webhooks"]) {
        let at = format!("webhooks[{i}]");
        let name = hook["name"].as_str().unwrap_or("");
        validate_webhook(hook, &at, out);
        for (j, version) in indexed_items(&hook["admissionReviewVersions"]) {
            let at = format!("{at}.admissionReviewVersions[{j}]");
            if indexed_items(&hook["admissionReviewVersions"]).take(j).any(|(_, before)| before == version) {
                out.push(StatusCause::invalid(at, version, "duplicate version"));
                continue;
            }
            add_problems(meta::dns_label_problems(version.as_str().unwrap_or("")), version, &at, out);
        }
        if hook["admissionReviewVersions"].as_array().is_none_or(Vec::is_empty) {
            let why = "must specify one of v1, v1beta1";
            out.push(StatusCause::required(format!("{at}.admissionReviewVersions"), why));
        } else if !indexed_items(&hook["admissionReviewVersions"]).any(|(_, v)| v == "v1" || v == "v1beta1") {
            out.push(StatusCause::invalid(
                format!("{at}.admissionReviewVersions"),
                &hook["admissionReviewVersions"],
                "must include at least one of v1, v1beta1",
            ));
        }
        if !name.is_empty() && names.contains(&name) {
            out.push(StatusCause::duplicate(format!("{at}.name"), &json!(name)));
        }
        names.push(name);
    }
}

fn validate_webhook(hook: &Value, at: &str, out: &mut CauseList) {
    let name = hook["name"].as_str().unwrap_or("");
    if name.is_empty() {
        out.push(StatusCause::required(format!("{at}.name"), ""));
    } else {
        let problems = meta::subdomain_problems(name);
        if problems.is_empty() && name.split('.').count() < 3 {
            let why = "should be a domain with at least three segments separated by dots";
            out.push(StatusCause::invalid(format!("{at}.name"), &hook["name"], why));
        }
        add_problems(problems, &hook["name"], &format!("{at}.name"), out);
    }
    for (i, entry) in indexed_items(&hook["rules"]) {
        validate_rule(entry, &format!("{at}.rules[{i}]"), OPERATIONS, out);
    }
    check_known(&hook["failurePolicy"], format!("{at}.failurePolicy"), &["Fail", "Ignore"], out);
    check_known(&hook["matchPolicy"], format!("{at}.matchPolicy"), &["Equivalent", "Exact"], out);
    if hook["sideEffects"].is_null() {
        let why = "must specify one of None, NoneOnDryRun";
        out.push(StatusCause::required(format!("{at}.sideEffects"), why));
    }
    check_known(&hook["sideEffects"], format!("{at}.sideEffects"), &["None", "NoneOnDryRun"], out);
    if hook["timeoutSeconds"].as_i64().is_some_and(|seconds| !(1..=30).contains(&seconds)) {
        let why = "the timeout value must be between 1 and 30 seconds";
        out.push(StatusCause::invalid(format!("{at}.timeoutSeconds"), &hook["timeoutSeconds"], why));
    }
    for key in ["namespaceSelector", "objectSelector"] {
        validate_label_selector(&hook[key], &format!("{at}.{key}"), out);
    }
    check_known(&hook["reinvocationPolicy"], format!("{at}.reinvocationPolicy"), &["IfNeeded", "Never"], out);
    let client = &hook["clientConfig"];
    if client["url"].is_null() == client["service"].is_null() {
        let why = "exactly one of url or service is required";
        out.push(StatusCause::required(format!("{at}.clientConfig"), why));
    } else if let Some(url) = client["url"].as_str() {
        validate_hook_url(url, &format!("{at}.clientConfig.url"), out);
    } else if client["service"].is_object() {
        // A real server names the other one of the two.
        validate_hook_service(
            &client["service"],
            &format!("{at}.clientConfig.service"),
            ["name", "namespace"],
            out,
        );
    }
    let env = policies::expression_environment(false, true);
    policies::validate_match_conditions(
        &hook["matchConditions"],
        &format!("{at}.matchConditions"),
        &env,
        out,
    );
}

/// A service that answers hooks, at `at`; `named` are the members that missing `namespace` and `name` are
/// called.
pub(in crate::write) fn validate_hook_service(
    service: &Value,
    at: &str,
    named: [&str; 2],
    out: &mut CauseList,
) {
    for (key, named) in ["namespace", "name"].into_iter().zip(named) {
        if is_empty(&service[key]) {
            out.push(StatusCause::required(format!("{at}.{named}"), ""));
        }
    }
    if service["port"].as_i64().is_some_and(|port| !(1..=65535).contains(&port)) {
        let why = "port is not valid: must be between 1 and 65535, inclusive";
        out.push(StatusCause::invalid(format!("{at}.port"), &service["port"], why));
    }
    let (path, at) = (service["path"].as_str().unwrap_or(""), format!("{at}.path"));
    let mut refuse = |why: &str| out.push(StatusCause::invalid(at.clone(), &service["path"], why));
    match path {
        "" | "/" => return,
        "//" => return refuse("segment[0] may not be empty"),
        _ => {}
    }
    if !path.starts_with('/') {
        refuse("must start with a '/'");
    }
    // The first byte counts as the slash, whatever it is.
    let rest = String::from_utf8_lossy(&path.as_bytes()[1..]).into_owned();
    for (i, step) in rest.strip_suffix('/').unwrap_or(&rest).split('/').enumerate() {
        if step.is_empty() {
            refuse(&format!("segment[{i}] may not be empty"));
            continue;
        }
        for problem in meta::subdomain_problems(step) {
            refuse(&format!("segment[{i}]: {problem}"));
        }
    }
}

/// Validates the URL of a webhook outside the cluster.
fn validate_hook_url(url: &str, at: &str, out: &mut CauseList) {
    const FORM: &str = "desired format: https://host[/path]";
    let (scheme, rest) = url.split_once("://").unwrap_or(("", ""));
    let (host, rest) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    if scheme != "https" {
        let why = format!("'https' is the only allowed URL scheme; {FORM}");
        out.push(StatusCause::invalid(at, &json!(scheme), &why));
    }
    let (user, host) = host.split_once('@').map_or((None, host), |(user, host)| (Some(user), host));
    if host.is_empty() {
        out.push(StatusCause::invalid(at, &json!(host), &format!("host must be specified; {FORM}")));
    }
    if let Some(user) = user {
        let why = "user information is not permitted in the URL";
        out.push(StatusCause::invalid(at, &json!(user), why));
    }
    let (rest, fragment) = rest.split_once('#').unwrap_or((rest, ""));
    if !fragment.is_empty() {
        let why = "fragments are not permitted in the URL";
        out.push(StatusCause::invalid(at, &json!(fragment), why));
    }
    if let Some((_, query)) = rest.split_once('?').filter(|(_, query)| !query.is_empty()) {
        let why = "query parameters are not permitted in the URL";
        out.push(StatusCause::invalid(at, &json!(query), why));
    }
}

/// Validates the rule of a webhook or policy.
pub(in crate::write) fn validate_rule(rule: &Value, at: &str, operations: &[&str], out: &mut CauseList) {
    if is_empty(&rule["operations"]) {
        out.push(StatusCause::required(format!("{at}.operations"), ""));
    }
    let several = |key: &str| {
        rule[key].as_array().is_some_and(|values| values.len() > 1 && values.iter().any(|v| v == "*"))
    };
    if several("operations") {
        let why = "if '*' is present, must not specify other operations";
        out.push(StatusCause::invalid(format!("{at}.operations"), &rule["operations"], why));
    }
    for (j, operation) in indexed_items(&rule["operations"]) {
        if !operation.as_str().is_some_and(|o| operations.contains(&o)) {
            out.push(StatusCause::not_supported(format!("{at}.operations[{j}]"), operation, operations));
        }
    }
    for (key, words) in [("apiGroups", "API groups"), ("apiVersions", "API versions")] {
        if is_empty(&rule[key]) {
            out.push(StatusCause::required(format!("{at}.{key}"), ""));
        }
        if several(key) {
            let why = format!("if '*' is present, must not specify other {words}");
            out.push(StatusCause::invalid(format!("{at}.{key}"), &rule[key], &why));
        }
    }
    for (j, version) in indexed_items(&rule["apiVersions"]) {
        if is_empty(version) {
            out.push(StatusCause::required(format!("{at}.apiVersions[{j}]"), ""));
        }
    }
    validate_rule_resources(&rule["resources"], &format!("{at}.resources"), out);
    check_known(&rule["scope"], format!("{at}.scope"), &["*", "Cluster", "Namespaced"], out);
}

/// Resources and their parts: `pods`, `pods/*`, `*/status`.
fn validate_rule_resources(all: &Value, at: &str, out: &mut CauseList) {
    if is_empty(all) {
        out.push(StatusCause::required(at, ""));
    }
    let (mut whole, mut parts, mut last_is_plain) = (Vec::new(), Vec::new(), false);
    for (i, resource) in indexed_items(all) {
        let text = resource.as_str().unwrap_or("");
        let at = format!("{at}[{i}]");
        if text.is_empty() {
            out.push(StatusCause::required(at, ""));
            continue;
        }
        let Some((name, part)) = text.split_once('/') else {
            last_is_plain = text != "*";
            continue;
        };
        for (covered, by) in
            [(whole.contains(&name), format!("{name}/*")), (parts.contains(&part), format!("*/{part}"))]
        {
            if covered {
                let why = format!("if '{by}' is present, must not specify {text}");
                out.push(StatusCause::invalid(&at, resource, &why));
            }
        }
        if part == "*" {
            whole.push(name);
        }
        if name == "*" {
            parts.push(part);
        }
    }
    let has = |wanted: &str| indexed_items(all).any(|(_, resource)| resource == wanted);
    if has("*/*") && all.as_array().is_some_and(|all| all.len() > 1) {
        let why = "if '*/*' is present, must not specify other resources";
        out.push(StatusCause::invalid(at, all, why));
    }
    if has("*") && last_is_plain {
        let why = "if '*' is present, must not specify other resources without subresources";
        out.push(StatusCause::invalid(at, all, why));
    }
}
