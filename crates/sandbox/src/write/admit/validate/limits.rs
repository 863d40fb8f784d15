//! Validation of limit ranges and quotas, and of the names of what they limit.

use serde_json::{Value, json};

use super::pod::{container_name, is_extended, is_native};
use super::{Causes, is_empty, list, texts};
use crate::status::Cause;
use crate::write::admit::meta;
use crate::write::admit::quota::{amount, canonical};

/// What a range can limit by a plain name.
const LIMITED: &[&str] = &["Container", "PersistentVolumeClaim", "Pod"];

/// Counts of objects a quota knows by a plain name.
const COUNTS: &[&str] = &[
    "configmaps",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "services",
    "services.loadbalancers",
    "services.nodeports",
];

/// Amounts of something a quota knows by a plain name.
const AMOUNTS: &[&str] = &[
    "cpu",
    "ephemeral-storage",
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
    "requests.storage",
];

fn in_quota(name: &str) -> bool {
    COUNTS.contains(&name)
        || AMOUNTS.contains(&name)
        || name.starts_with("hugepages-")
        || name.starts_with("requests.hugepages-")
}

/// The name of a resource.
pub(crate) fn resource_name(name: &str, at: &str, out: &mut Causes) {
    let problems = meta::qualified_problems(name);
    if problems.is_empty() && !name.contains('/') && name != "storage" && !in_quota(name) {
        let why = "must be a standard resource type or fully qualified";
        out.push(Cause::invalid(at, &json!(name), why));
    }
    texts(problems, &json!(name), at, out);
}

/// An amount that is not negative, and whole if it counts something.
fn resource_amount(name: &str, value: &Value, at: &str, out: &mut Causes) {
    let given = amount(value).unwrap_or(0);
    let mut push = |why: &str| out.push(Cause::invalid(at, &json!(canonical(value)), why));
    if given < 0 {
        push("must be greater than or equal to 0");
    }
    if (COUNTS.contains(&name) || is_extended(name)) && given % 1_000_000_000 != 0 {
        push("must be an integer");
    }
}

pub(super) fn limit_range(spec: &Value, out: &mut Causes) {
    let mut kinds = Vec::new();
    for (i, limit) in list(&spec["limits"]) {
        let at = format!("spec.limits[{i}]");
        let kind = limit["type"].as_str().unwrap_or("");
        let problems = meta::qualified_problems(kind);
        if problems.is_empty() && !kind.contains('/') && !LIMITED.contains(&kind) {
            let why = "must be a standard limit type or fully qualified";
            out.push(Cause::invalid(format!("{at}.type"), &limit["type"], why));
        }
        texts(problems, &json!(kind), &format!("{at}.type"), out);
        if kinds.contains(&kind) {
            out.push(Cause::duplicate(format!("{at}.type"), &json!(kind)));
        }
        kinds.push(kind);
        limit_names(limit, kind, &at, out);
        let mut names = std::collections::BTreeSet::new();
        for side in ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"] {
            names.extend(limit[side].as_object().into_iter().flatten().map(|(name, _)| name.as_str()));
        }
        for name in names {
            compare(limit, kind, name, &at, out);
        }
    }
}

/// What a limit names, side by side in the order it is looked at.
fn limit_names(limit: &Value, kind: &str, at: &str, out: &mut Causes) {
    let contained = matches!(kind, "Pod" | "Container");
    let check = |side: &str, out: &mut Causes| {
        for (name, _) in meta::sorted(&limit[side]) {
            let at = format!("{at}.{side}[{name}]");
            if contained { container_name(name, &at, out) } else { resource_name(name, &at, out) }
        }
    };
    check("max", out);
    check("min", out);
    for side in ["default", "defaultRequest"] {
        if kind != "Pod" {
            check(side, out);
        } else if !is_empty(&limit[side]) {
            let why = "may not be specified when `type` is 'Pod'";
            out.push(Cause::forbidden(format!("{at}.{side}"), why));
        }
    }
    if kind == "PersistentVolumeClaim"
        && limit["min"].get("storage").is_none()
        && limit["max"].get("storage").is_none()
    {
        let why = "either minimum or maximum storage value is required, but neither was provided";
        out.push(Cause::required(format!("{at}.limits"), why));
    }
    check("maxLimitRequestRatio", out);
}

/// The bounds of one resource must leave room for one another.
fn compare(limit: &Value, kind: &str, name: &str, at: &str, out: &mut Causes) {
    let value = |side: &str| {
        let skipped = kind == "Pod" && side.starts_with("default");
        limit[side].get(name).filter(|_| !skipped).and_then(|v| Some((v, amount(v)?)))
    };
    // (a, b) with a message when the first is more than the second; shown is what Go shows.
    let mut over = |low: &str, high: &str, at_side: &str, shown: &str, words: (&str, &str)| {
        if let (Some((a, x)), Some((b, y))) = (value(low), value(high))
            && x > y
        {
            let shown = value(shown).map_or(a, |(v, _)| v);
            out.push(Cause::invalid(
                format!("{at}.{at_side}[{name}]"),
                &json!(canonical(shown)),
                &format!(
                    "{} value {} is greater than {} value {}",
                    words.0,
                    canonical(a),
                    words.1,
                    canonical(b)
                ),
            ));
        }
    };
    let asked = "defaultRequest";
    over("min", "max", "min", "min", ("min", "max"));
    over("min", asked, asked, asked, ("min", "default request"));
    over(asked, "max", asked, asked, ("default request", "max"));
    over(asked, "default", asked, asked, ("default request", "default limit"));
    over("min", "default", "default", "min", ("min", "default"));
    over("default", "max", "default", "max", ("default", "max"));
    if let Some((written, ratio)) = value("maxLimitRequestRatio") {
        let at = format!("{at}.maxLimitRequestRatio[{name}]");
        let shown = canonical(written);
        if ratio < 1_000_000_000 {
            out.push(Cause::invalid(&at, &json!(shown), &format!("ratio {shown} is less than 1")));
        }
        if let (Some((_, low)), Some((_, high))) = (value("min"), value("max")) {
            #[allow(clippy::cast_precision_loss, reason = "the real server compares these as floats")]
            let (ratio, most) = (ratio as f64 / 1e9, high as f64 / low as f64);
            if ratio > most {
                let why = format!("ratio {shown} is greater than max/min = {most:.6}");
                out.push(Cause::invalid(&at, &json!(shown), &why));
            }
        }
    }
    let shared = !name.starts_with("hugepages-") && is_native(name);
    if !shared
        && let (Some((chosen, x)), Some((request, y))) = (value("default"), value(asked))
        && x != y
    {
        let (chosen, request) = (canonical(chosen), canonical(request));
        let why = format!("default value {chosen} must equal to defaultRequest value {request} in {name}");
        out.push(Cause::invalid(format!("{at}.{asked}[{name}]"), &json!(request), &why));
    }
}

const SCOPES: &[&str] = &[
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "PriorityClass",
    "CrossNamespacePodAffinity",
    "VolumeAttributesClass",
];

/// Whether a scope narrows what a quota counts of a resource.
fn fits(scope: &str, name: &str) -> bool {
    let compute = ["cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"];
    match scope {
        "Terminating"
        | "NotTerminating"
        | "NotBestEffort"
        | "PriorityClass"
        | "CrossNamespacePodAffinity" => name == "pods" || compute.contains(&name),
        "BestEffort" => name == "pods",
        "VolumeAttributesClass" => matches!(name, "persistentvolumeclaims" | "requests.storage"),
        _ => true,
    }
}

pub(super) fn quota(spec: &Value, old: Option<&Value>, out: &mut Causes) {
    let hard = meta::sorted(&spec["hard"]);
    for (name, value) in &hard {
        let at = format!("spec.hard[{name}]");
        resource_name(name, &at, out);
        if !name.contains('/') && !in_quota(name) {
            out.push(Cause::invalid(&at, &json!(name), "must be a standard resource for quota"));
        }
        resource_amount(name, value, &at, out);
    }
    let unfit = |scope: &str| hard.iter().filter(|(name, _)| in_quota(name) && !fits(scope, name)).count();
    let at = "spec.scopes";
    let mut set = Vec::new();
    for (_, scope) in list(&spec["scopes"]) {
        let scope = scope.as_str().unwrap_or("");
        if !SCOPES.contains(&scope) {
            out.push(Cause::invalid(at, &spec["scopes"], "unsupported scope"));
        }
        for _ in 0..unfit(scope) {
            out.push(Cause::invalid(at, &spec["scopes"], "unsupported scope applied to resource"));
        }
        set.push(scope);
    }
    conflicting(&set, at, &spec["scopes"], out);
    let at = "spec.scopeSelector.matchExpressions";
    let mut set = Vec::new();
    for (_, expression) in list(&spec["scopeSelector"]["matchExpressions"]) {
        let scope = expression["scopeName"].as_str().unwrap_or("");
        if !SCOPES.contains(&scope) {
            out.push(Cause::invalid(format!("{at}.scopeName"), &json!(scope), "unsupported scope"));
        }
        for _ in 0..unfit(scope) {
            let shown = selector_shown(&spec["scopeSelector"]);
            out.push(Cause::invalid(at, &shown, "unsupported scope applied to resource"));
        }
        scope_expression(expression, scope, at, out);
        set.push(scope);
    }
    conflicting(&set, at, &spec["scopes"], out);
    let sorted = |spec: &Value| {
        let mut all: Vec<String> =
            list(&spec["scopes"]).map(|(_, scope)| scope.as_str().unwrap_or("").to_owned()).collect();
        all.sort();
        all.dedup();
        all
    };
    if old.is_some_and(|old| sorted(&old["spec"]) != sorted(spec)) {
        out.push(Cause::invalid("spec.scopes", &spec["scopes"], "field is immutable"));
    }
}

/// A scope selector as Go prints its internal type.
fn selector_shown(selector: &Value) -> Value {
    let one = |(_, e): (usize, &Value)| json!({"ScopeName": e["scopeName"], "Operator": e["operator"], "Values": e["values"]});
    json!({"MatchExpressions": list(&selector["matchExpressions"]).map(one).collect::<Vec<_>>()})
}

fn scope_expression(expression: &Value, scope: &str, at: &str, out: &mut Causes) {
    let operator = expression["operator"].as_str().unwrap_or("");
    let narrow = !matches!(scope, "PriorityClass" | "VolumeAttributesClass") && SCOPES.contains(&scope);
    if narrow && operator != "Exists" {
        let why = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity";
        out.push(Cause::invalid(format!("{at}.operator"), &json!(operator), why));
    }
    let values = &expression["values"];
    match operator {
        "In" | "NotIn" => {
            if is_empty(values) {
                let why = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector";
                out.push(Cause::required(format!("{at}.values"), why));
            }
        }
        "Exists" | "DoesNotExist" => {
            if !is_empty(values) {
                let why = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector";
                out.push(Cause::invalid(format!("{at}.values"), values, why));
            }
        }
        _ => {
            let why = "not a valid selector operator";
            out.push(Cause::invalid(format!("{at}.operator"), &json!(operator), why));
        }
    }
}

fn conflicting(set: &[&str], at: &str, shown: &Value, out: &mut Causes) {
    for (a, b) in [("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating")] {
        if set.contains(&a) && set.contains(&b) {
            out.push(Cause::invalid(at, shown, "conflicting scopes"));
        }
    }
}
