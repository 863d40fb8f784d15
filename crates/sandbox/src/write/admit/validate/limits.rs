//! Validation of limit ranges and quotas, and of the names of what they limit.

use serde_json::{Value, json};

use super::pod::{is_extended, is_native, validate_container_resource};
use super::{CauseList, add_problems, indexed_items, is_empty};
use crate::status::StatusCause;
use crate::write::admit::amounts::{canonical_text, nanos_of};
use crate::write::admit::meta;

/// The types a limit range can limit.
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

fn is_quota_name(name: &str) -> bool {
    COUNTS.contains(&name)
        || AMOUNTS.contains(&name)
        || name.starts_with("hugepages-")
        || name.starts_with("requests.hugepages-")
}

/// The name of a resource.
pub(crate) fn validate_resource_name(name: &str, at: &str, out: &mut CauseList) {
    let problems = meta::qualified_problems(name);
    if problems.is_empty() && !name.contains('/') && name != "storage" && !is_quota_name(name) {
        let why = "must be a standard resource type or fully qualified";
        out.push(StatusCause::invalid(at, &json!(name), why));
    }
    add_problems(problems, &json!(name), at, out);
}

/// An amount that is not negative, and whole if it counts something.
pub(super) fn validate_resource_amount(name: &str, value: &Value, at: &str, out: &mut CauseList) {
    let given = nanos_of(value).unwrap_or(0);
    let mut push = |why: &str| out.push(StatusCause::invalid(at, &json!(canonical_text(value)), why));
    if given < 0 {
        push("must be greater than or equal to 0");
    }
    if (COUNTS.contains(&name) || is_extended(name)) && given % 1_000_000_000 != 0 {
        push("must be an integer");
    }
}

pub(in crate::write) fn validate_limit_range(spec: &Value, out: &mut CauseList) {
    let mut kinds = Vec::new();
    for (i, limit) in indexed_items(&spec["limits"]) {
        let at = format!("spec.limits[{i}]");
        let kind = limit["type"].as_str().unwrap_or("");
        let problems = meta::qualified_problems(kind);
        if problems.is_empty() && !kind.contains('/') && !LIMITED.contains(&kind) {
            let why = "must be a standard limit type or fully qualified";
            out.push(StatusCause::invalid(format!("{at}.type"), &limit["type"], why));
        }
        add_problems(problems, &json!(kind), &format!("{at}.type"), out);
        if kinds.contains(&kind) {
            out.push(StatusCause::duplicate(format!("{at}.type"), &json!(kind)));
        }
        kinds.push(kind);
        validate_limit_names(limit, kind, &at, out);
        let mut names = std::collections::BTreeSet::new();
        for side in ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"] {
            names.extend(limit[side].as_object().into_iter().flatten().map(|(name, _)| name.as_str()));
        }
        for name in names {
            compare_bounds(limit, kind, name, &at, out);
        }
    }
}

/// Validates the resource names of a limit, in the order of a real server.
fn validate_limit_names(limit: &Value, kind: &str, at: &str, out: &mut CauseList) {
    let contained = matches!(kind, "Pod" | "Container");
    let check = |side: &str, out: &mut CauseList| {
        for (name, _) in meta::sorted_members(&limit[side]) {
            let at = format!("{at}.{side}[{name}]");
            if contained {
                validate_container_resource(name, &at, out);
            } else {
                validate_resource_name(name, &at, out);
            }
        }
    };
    check("max", out);
    check("min", out);
    for side in ["default", "defaultRequest"] {
        if kind != "Pod" {
            check(side, out);
        } else if !is_empty(&limit[side]) {
            let why = "may not be specified when `type` is 'Pod'";
            out.push(StatusCause::forbidden(format!("{at}.{side}"), why));
        }
    }
    if kind == "PersistentVolumeClaim"
        && limit["min"].get("storage").is_none()
        && limit["max"].get("storage").is_none()
    {
        let why = "either minimum or maximum storage value is required, but neither was provided";
        out.push(StatusCause::required(format!("{at}.limits"), why));
    }
    check("maxLimitRequestRatio", out);
}

/// Compares the bounds of one resource with one another.
fn compare_bounds(limit: &Value, kind: &str, name: &str, at: &str, out: &mut CauseList) {
    let value = |side: &str| {
        let skipped = kind == "Pod" && side.starts_with("default");
        limit[side].get(name).filter(|_| !skipped).and_then(|v| Some((v, nanos_of(v)?)))
    };
    // (a, b) with a message when the first is more than the second; shown is what Go shows.
    let mut over = |low: &str, high: &str, at_side: &str, shown: &str, words: (&str, &str)| {
        if let (Some((a, x)), Some((b, y))) = (value(low), value(high))
            && x > y
        {
            let shown = value(shown).map_or(a, |(v, _)| v);
            out.push(StatusCause::invalid(
                format!("{at}.{at_side}[{name}]"),
                &json!(canonical_text(shown)),
                &format!(
                    "{} value {} is greater than {} value {}",
                    words.0,
                    canonical_text(a),
                    words.1,
                    canonical_text(b)
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
        let shown = canonical_text(written);
        if ratio < 1_000_000_000 {
            out.push(StatusCause::invalid(&at, &json!(shown), &format!("ratio {shown} is less than 1")));
        }
        if let (Some((_, low)), Some((_, high))) = (value("min"), value("max")) {
            #[allow(clippy::cast_precision_loss, reason = "the real server compares these as floats")]
            let (ratio, most) = (ratio as f64 / 1e9, high as f64 / low as f64);
            if ratio > most {
                let why = format!("ratio {shown} is greater than max/min = {most:.6}");
                out.push(StatusCause::invalid(&at, &json!(shown), &why));
            }
        }
    }
    let shared = !name.starts_with("hugepages-") && is_native(name);
    if !shared
        && let (Some((chosen, x)), Some((request, y))) = (value("default"), value(asked))
        && x != y
    {
        let (chosen, request) = (canonical_text(chosen), canonical_text(request));
        let why = format!("default value {chosen} must equal to defaultRequest value {request} in {name}");
        out.push(StatusCause::invalid(format!("{at}.{asked}[{name}]"), &json!(request), &why));
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

/// Returns true if a scope applies to a resource of a quota.
fn scope_fits(scope: &str, name: &str) -> bool {
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

/// The names and amounts of what a quota counts.
pub(in crate::write) fn validate_quota_amounts(amounts: &Value, field: &str, out: &mut CauseList) {
    for (name, value) in meta::sorted_members(amounts) {
        let at = format!("{field}[{name}]");
        validate_resource_name(name, &at, out);
        if !name.contains('/') && !is_quota_name(name) {
            out.push(StatusCause::invalid(&at, &json!(name), "must be a standard resource for quota"));
        }
        validate_resource_amount(name, value, &at, out);
    }
}

pub(in crate::write) fn validate_quota(spec: &Value, old: Option<&Value>, out: &mut CauseList) {
    let hard = meta::sorted_members(&spec["hard"]);
    validate_quota_amounts(&spec["hard"], "spec.hard", out);
    let unfit =
        |scope: &str| hard.iter().filter(|(name, _)| is_quota_name(name) && !scope_fits(scope, name)).count();
    let at = "spec.scopes";
    let mut set = Vec::new();
    for (_, scope) in indexed_items(&spec["scopes"]) {
        let scope = scope.as_str().unwrap_or("");
        if !SCOPES.contains(&scope) {
            out.push(StatusCause::invalid(at, &spec["scopes"], "unsupported scope"));
        }
        for _ in 0..unfit(scope) {
            out.push(StatusCause::invalid(at, &spec["scopes"], "unsupported scope applied to resource"));
        }
        set.push(scope);
    }
    check_conflicting_scopes(&set, at, &spec["scopes"], out);
    let at = "spec.scopeSelector.matchExpressions";
    let mut set = Vec::new();
    for (_, expression) in indexed_items(&spec["scopeSelector"]["matchExpressions"]) {
        let scope = expression["scopeName"].as_str().unwrap_or("");
        if !SCOPES.contains(&scope) {
            out.push(StatusCause::invalid(format!("{at}.scopeName"), &json!(scope), "unsupported scope"));
        }
        for _ in 0..unfit(scope) {
            let shown = go_internal_selector(&spec["scopeSelector"]);
            out.push(StatusCause::invalid(at, &shown, "unsupported scope applied to resource"));
        }
        validate_scope_expression(expression, scope, at, out);
        set.push(scope);
    }
    check_conflicting_scopes(&set, at, &spec["scopes"], out);
    let sorted = |spec: &Value| {
        let mut all: Vec<String> = indexed_items(&spec["scopes"])
            .map(|(_, scope)| scope.as_str().unwrap_or("").to_owned())
            .collect();
        all.sort();
        all.dedup();
        all
    };
    if old.is_some_and(|old| sorted(&old["spec"]) != sorted(spec)) {
        out.push(StatusCause::invalid("spec.scopes", &spec["scopes"], "field is immutable"));
    }
}

/// A scope selector as Go prints its internal type.
fn go_internal_selector(selector: &Value) -> Value {
    let one = |(_, e): (usize, &Value)| json!({"ScopeName": e["scopeName"], "Operator": e["operator"], "Values": e["values"]});
    json!({"MatchExpressions": indexed_items(&selector["matchExpressions"]).map(one).collect::<Vec<_>>()})
}

fn validate_scope_expression(expression: &Value, scope: &str, at: &str, out: &mut CauseList) {
    let operator = expression["operator"].as_str().unwrap_or("");
    let narrow = !matches!(scope, "PriorityClass" | "VolumeAttributesClass") && SCOPES.contains(&scope);
    if narrow && operator != "Exists" {
        let why = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity";
        out.push(StatusCause::invalid(format!("{at}.operator"), &json!(operator), why));
    }
    let values = &expression["values"];
    match operator {
        "In" | "NotIn" => {
            if is_empty(values) {
                let why = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector";
                out.push(StatusCause::required(format!("{at}.values"), why));
            }
        }
        "Exists" | "DoesNotExist" => {
            if !is_empty(values) {
                let why = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector";
                out.push(StatusCause::invalid(format!("{at}.values"), values, why));
            }
        }
        _ => {
            let why = "not a valid selector operator";
            out.push(StatusCause::invalid(format!("{at}.operator"), &json!(operator), why));
        }
    }
}

fn check_conflicting_scopes(set: &[&str], at: &str, shown: &Value, out: &mut CauseList) {
    for (a, b) in [("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating")] {
        if set.contains(&a) && set.contains(&b) {
            out.push(StatusCause::invalid(at, shown, "conflicting scopes"));
        }
    }
}
