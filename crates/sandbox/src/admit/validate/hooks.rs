//! Validation of webhook configurations.

use serde_json::{Value, json};

use super::{Causes, is_empty, label_selector, list, one_of, texts};
use crate::admit::meta;
use crate::status::Cause;

pub(super) fn hooks(object: &Value, out: &mut Causes) {
    let mut names: Vec<&str> = Vec::new();
    for (i, hook) in list(&object["webhooks"]) {
        let at = format!("webhooks[{i}]");
        let name = hook["name"].as_str().unwrap_or("");
        hook_itself(hook, &at, out);
        for (j, version) in list(&hook["admissionReviewVersions"]) {
            let at = format!("{at}.admissionReviewVersions[{j}]");
            texts(meta::dns_label_problems(version.as_str().unwrap_or("")), version, &at, out);
        }
        if hook["admissionReviewVersions"].as_array().is_none_or(Vec::is_empty) {
            let why = "must specify one of v1, v1beta1";
            out.push(Cause::required(format!("{at}.admissionReviewVersions"), why));
        } else if !list(&hook["admissionReviewVersions"]).any(|(_, v)| v == "v1" || v == "v1beta1") {
            out.push(Cause::invalid(
                format!("{at}.admissionReviewVersions"),
                &hook["admissionReviewVersions"],
                "must include at least one of v1, v1beta1",
            ));
        }
        if names.contains(&name) {
            out.push(Cause::duplicate(format!("{at}.name"), &json!(name)));
        }
        names.push(name);
    }
}

fn hook_itself(hook: &Value, at: &str, out: &mut Causes) {
    let name = hook["name"].as_str().unwrap_or("");
    if name.is_empty() {
        out.push(Cause::required(format!("{at}.name"), ""));
    } else {
        let problems = meta::subdomain_problems(name);
        if problems.is_empty() && name.split('.').count() < 3 {
            let why = "should be a domain with at least three segments separated by dots";
            out.push(Cause::invalid(format!("{at}.name"), &hook["name"], why));
        }
        texts(problems, &hook["name"], &format!("{at}.name"), out);
    }
    for (i, entry) in list(&hook["rules"]) {
        rule(entry, &format!("{at}.rules[{i}]"), out);
    }
    let policies: &[(&str, &[&str])] = &[
        ("failurePolicy", &["Fail", "Ignore"]),
        ("matchPolicy", &["Equivalent", "Exact"]),
        ("sideEffects", &["None", "NoneOnDryRun"]),
        ("reinvocationPolicy", &["IfNeeded", "Never"]),
    ];
    for (key, known) in policies {
        let value = &hook[*key];
        let given = value.as_str().filter(|value| !value.is_empty());
        if given.is_some_and(|value| !known.contains(&value)) {
            out.push(Cause::not_supported(format!("{at}.{key}"), value, known));
        } else if *key == "sideEffects" && given.is_none() {
            let why = "must specify one of None, NoneOnDryRun";
            out.push(Cause::required(format!("{at}.{key}"), why));
        }
    }
    if hook["timeoutSeconds"].as_i64().is_some_and(|seconds| !(1..=30).contains(&seconds)) {
        let why = "the timeout value must be between 1 and 30 seconds";
        out.push(Cause::invalid(format!("{at}.timeoutSeconds"), &hook["timeoutSeconds"], why));
    }
    for key in ["namespaceSelector", "objectSelector"] {
        label_selector(&hook[key], &format!("{at}.{key}"), out);
    }
    let client = &hook["clientConfig"];
    if client["url"].is_null() == client["service"].is_null() {
        let why = "exactly one of url or service is required";
        out.push(Cause::required(format!("{at}.clientConfig"), why));
    } else if let Some(url) = client["url"].as_str() {
        hook_url(url, &format!("{at}.clientConfig.url"), out);
    } else if client["service"].is_object() {
        // A real server names the other one of the two.
        for (key, named) in [("namespace", "name"), ("name", "namespace")] {
            if is_empty(&client["service"][key]) {
                out.push(Cause::required(format!("{at}.clientConfig.service.{named}"), ""));
            }
        }
    }
}

/// Where a hook outside the cluster is.
fn hook_url(url: &str, at: &str, out: &mut Causes) {
    const FORM: &str = "desired format: https://host[/path]";
    let (scheme, rest) = url.split_once("://").unwrap_or(("", ""));
    let (host, rest) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    if scheme != "https" {
        let why = format!("'https' is the only allowed URL scheme; {FORM}");
        out.push(Cause::invalid(at, &json!(scheme), &why));
    }
    let (user, host) = host.split_once('@').map_or((None, host), |(user, host)| (Some(user), host));
    if host.is_empty() {
        out.push(Cause::invalid(at, &json!(host), &format!("host must be specified; {FORM}")));
    }
    if let Some(user) = user {
        let why = "user information is not permitted in the URL";
        out.push(Cause::invalid(at, &json!(user), why));
    }
    let (rest, fragment) = rest.split_once('#').unwrap_or((rest, ""));
    if !fragment.is_empty() {
        let why = "fragments are not permitted in the URL";
        out.push(Cause::invalid(at, &json!(fragment), why));
    }
    if let Some((_, query)) = rest.split_once('?').filter(|(_, query)| !query.is_empty()) {
        let why = "query parameters are not permitted in the URL";
        out.push(Cause::invalid(at, &json!(query), why));
    }
}

/// Which requests a hook or a policy is about.
pub(super) fn rule(rule: &Value, at: &str, out: &mut Causes) {
    if is_empty(&rule["operations"]) {
        out.push(Cause::required(format!("{at}.operations"), ""));
    }
    for (j, operation) in list(&rule["operations"]) {
        let known = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
        if !operation.as_str().is_some_and(|o| known.contains(&o)) {
            out.push(Cause::not_supported(format!("{at}.operations[{j}]"), operation, &known));
        }
    }
    for key in ["apiGroups", "apiVersions"] {
        if is_empty(&rule[key]) {
            out.push(Cause::required(format!("{at}.{key}"), ""));
        }
        let all = list(&rule[key]).any(|(_, value)| value == "*");
        if all && rule[key].as_array().is_some_and(|values| values.len() > 1) {
            let why = format!("if '*' is present, must not specify other {}", words(key));
            out.push(Cause::invalid(format!("{at}.{key}"), &rule[key], &why));
        }
    }
    for (j, version) in list(&rule["apiVersions"]) {
        if is_empty(version) {
            out.push(Cause::required(format!("{at}.apiVersions[{j}]"), ""));
        }
    }
    if is_empty(&rule["resources"]) {
        out.push(Cause::required(format!("{at}.resources"), ""));
    }
    for (j, resource) in list(&rule["resources"]) {
        if is_empty(resource) {
            out.push(Cause::required(format!("{at}.resources[{j}]"), ""));
        }
    }
    if !rule["scope"].is_null() {
        one_of(&rule["scope"], format!("{at}.scope"), &["*", "Cluster", "Namespaced"], out);
    }
}

fn words(key: &str) -> &'static str {
    if key == "apiGroups" { "API groups" } else { "API versions" }
}
