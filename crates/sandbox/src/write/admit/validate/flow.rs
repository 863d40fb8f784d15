//! Validation of flow schemas and priority levels.

use serde_json::{Value, json};

use super::{CauseList, add_problems, indexed_items, is_empty};
use crate::status::StatusCause;
use crate::write::admit::meta;

pub(in crate::write) fn validate_flow_schema(object: &Value, out: &mut CauseList) {
    let spec = &object["spec"];
    let precedence = &spec["matchingPrecedence"];
    match precedence.as_i64().unwrap_or(0) {
        n if n <= 0 => {
            out.push(StatusCause::invalid("spec.matchingPrecedence", precedence, "must be a positive value"));
        }
        n if n > 10_000 => {
            out.push(StatusCause::invalid(
                "spec.matchingPrecedence",
                precedence,
                "must not be greater than 10000",
            ));
        }
        1 if meta::metadata_text(object, "name") != "exempt" => {
            let why = "only the schema named 'exempt' may have matchingPrecedence 1";
            out.push(StatusCause::invalid("spec.matchingPrecedence", precedence, why));
        }
        _ => {}
    }
    let method = &spec["distinguisherMethod"];
    let kind = method["type"].as_str().unwrap_or("");
    if method.is_object() && !matches!(kind, "ByNamespace" | "ByUser") {
        let shown = json!({"Type": kind});
        out.push(StatusCause::not_supported(
            "spec.distinguisherMethod.type",
            &shown,
            &["ByNamespace", "ByUser"],
        ));
    }
    let at = "spec.priorityLevelConfiguration.name";
    match spec["priorityLevelConfiguration"]["name"].as_str().unwrap_or("") {
        "" => out.push(StatusCause::required(at, "must reference a priority level")),
        name => add_problems(meta::subdomain_problems(name), &json!(name), at, out),
    }
    for (i, rule) in indexed_items(&spec["rules"]) {
        validate_flow_rule(rule, &format!("spec.rules[{i}]"), out);
    }
}

fn validate_flow_rule(rule: &Value, at: &str, out: &mut CauseList) {
    if is_empty(&rule["subjects"]) {
        out.push(StatusCause::required(format!("{at}.subjects"), "subjects must contain at least one value"));
    }
    for (i, subject) in indexed_items(&rule["subjects"]) {
        validate_flow_subject(subject, &format!("{at}.subjects[{i}]"), out);
    }
    if is_empty(&rule["resourceRules"]) && is_empty(&rule["nonResourceRules"]) {
        let why = "at least one of resourceRules and nonResourceRules has to be non-empty";
        out.push(StatusCause::required(at, why));
    }
    for (i, rule) in indexed_items(&rule["resourceRules"]) {
        let at = format!("{at}.resourceRules[{i}]");
        validate_verbs(&rule["verbs"], &at, out);
        for (key, one) in [("apiGroups", "api group"), ("resources", "resource")] {
            if is_empty(&rule[key]) {
                let why = format!("resource rules must supply at least one {one}");
                out.push(StatusCause::required(format!("{at}.{key}"), &why));
            }
        }
        if is_empty(&rule["namespaces"]) && rule["clusterScope"] != true {
            let why = "resource rules that are not cluster scoped must supply at least one namespace";
            out.push(StatusCause::required(format!("{at}.namespaces"), why));
        }
    }
    for (i, rule) in indexed_items(&rule["nonResourceRules"]) {
        let at = format!("{at}.nonResourceRules[{i}]");
        validate_verbs(&rule["verbs"], &at, out);
        if is_empty(&rule["nonResourceURLs"]) {
            let why = "nonResourceURLs must contain at least one value";
            out.push(StatusCause::required(format!("{at}.nonResourceURLs"), why));
        }
        for (j, url) in indexed_items(&rule["nonResourceURLs"]) {
            if !url.as_str().is_some_and(|url| url == "*" || url.starts_with('/')) {
                let at = format!("{at}.nonResourceURLs[{j}]");
                out.push(StatusCause::invalid(at, url, "must start with slash"));
            }
        }
    }
}

const VERBS: &[&str] =
    &["create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"];

fn validate_verbs(verbs: &Value, at: &str, out: &mut CauseList) {
    let at = format!("{at}.verbs");
    if is_empty(verbs) {
        out.push(StatusCause::required(at, "verbs must contain at least one value"));
    } else if indexed_items(verbs).any(|(_, verb)| verb != "*" && !VERBS.iter().any(|known| verb == known)) {
        out.push(StatusCause::not_supported(at, verbs, VERBS));
    }
}

fn validate_flow_subject(subject: &Value, at: &str, out: &mut CauseList) {
    let kind = subject["kind"].as_str().unwrap_or("");
    let member = match kind {
        "User" => "user",
        "Group" => "group",
        "ServiceAccount" => "serviceAccount",
        _ => {
            let known = ["Group", "ServiceAccount", "User"];
            out.push(StatusCause::not_supported(format!("{at}.kind"), &json!(kind), &known));
            return;
        }
    };
    let who = &subject[member];
    if who.is_null() {
        let why = format!("{member} is required when subject kind is '{kind}'");
        out.push(StatusCause::required(format!("{at}.{member}"), &why));
        return;
    }
    if is_empty(&who["name"]) {
        out.push(StatusCause::required(format!("{at}.{member}.name"), ""));
    }
    if kind == "ServiceAccount" && is_empty(&who["namespace"]) {
        let why = "must specify namespace for service account";
        out.push(StatusCause::required(format!("{at}.{member}.namespace"), why));
    }
}

pub(in crate::write) fn validate_priority_level(object: &Value, out: &mut CauseList) {
    let spec = &object["spec"];
    let kind = spec["type"].as_str().unwrap_or("");
    if (kind == "Exempt") != (meta::metadata_text(object, "name") == "exempt")
        && matches!(kind, "Exempt" | "Limited")
    {
        let why = "must be 'Exempt' if and only if `name` is 'exempt'";
        out.push(StatusCause::invalid("spec.type", &spec["type"], why));
    }
    if !matches!(kind, "" | "Exempt" | "Limited") {
        out.push(StatusCause::not_supported("spec.type", &spec["type"], &["Exempt", "Limited"]));
    }
    if kind != "Exempt" && !spec["exempt"].is_null() {
        out.push(StatusCause::forbidden("spec.exempt", ""));
    }
    match (kind == "Limited", spec["limited"].is_null()) {
        (true, true) => out.push(StatusCause::required("spec.limited", "")),
        (false, false) => out.push(StatusCause::forbidden("spec.limited", "")),
        _ => {}
    }
    if kind.is_empty() {
        out.push(StatusCause::required("spec.type", ""));
    }
    for (member, chosen) in [("exempt", kind == "Exempt"), ("limited", kind == "Limited")] {
        let (shares, lendable) =
            (&spec[member]["nominalConcurrencyShares"], &spec[member]["lendablePercent"]);
        if chosen && shares.as_i64().is_some_and(|n| n < 0) {
            let at = format!("spec.{member}.nominalConcurrencyShares");
            out.push(StatusCause::invalid(at, shares, "must be a non-negative integer"));
        }
        if chosen && lendable.as_i64().is_some_and(|n| !(0..=100).contains(&n)) {
            let at = format!("spec.{member}.lendablePercent");
            out.push(StatusCause::invalid(at, lendable, "must be between 0 and 100, inclusive"));
        }
    }
    if kind == "Limited" && spec["limited"].is_object() {
        validate_limits(&spec["limited"], out);
    }
}

fn validate_limits(limited: &Value, out: &mut CauseList) {
    let borrowed = &limited["borrowingLimitPercent"];
    if borrowed.as_i64().is_some_and(|n| n < 0) {
        let why = "if specified, must be a non-negative integer";
        out.push(StatusCause::invalid("spec.limited.borrowingLimitPercent", borrowed, why));
    }
    let response = &limited["limitResponse"];
    let at = "spec.limited.limitResponse";
    match (response["type"].as_str().unwrap_or(""), response["queuing"].is_null()) {
        ("", _) => out.push(StatusCause::required(format!("{at}.type"), "")),
        ("Reject", false) => out.push(StatusCause::forbidden(format!("{at}.queuing"), "")),
        ("Queue", true) => out.push(StatusCause::required(format!("{at}.queuing"), "")),
        ("Reject", true) => {}
        ("Queue", false) => {
            let queuing = &response["queuing"];
            let at = format!("{at}.queuing");
            for key in ["queueLengthLimit", "queues", "handSize"] {
                if queuing[key].as_i64().is_some_and(|n| n <= 0) {
                    out.push(StatusCause::invalid(format!("{at}.{key}"), &queuing[key], "must be positive"));
                }
            }
            if let (Some(hand), Some(queues)) = (queuing["handSize"].as_i64(), queuing["queues"].as_i64())
                && hand > queues
            {
                let why = format!("should not be greater than queues ({queues})");
                out.push(StatusCause::invalid(format!("{at}.handSize"), &queuing["handSize"], &why));
            }
        }
        _ => out.push(StatusCause::not_supported(
            format!("{at}.type"),
            &response["type"],
            &["Queue", "Reject"],
        )),
    }
}
