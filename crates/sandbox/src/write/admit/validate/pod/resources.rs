//! Validation of limits and requests.

use serde_json::{Value, json};

use super::claims::{ClaimNames, validate_claim_uses};
use super::systems::is_windows;
use crate::status::StatusCause;
use crate::write::admit::amounts::{canonical_text, nanos_of};
use crate::write::admit::meta;
use crate::write::admit::validate::{CauseList, add_problems, indexed_items};

/// Names without a domain that quotas may use besides those containers may.
const STANDARD: &[&str] = &[
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "storage",
    "requests.storage",
];

fn is_huge_page(name: &str) -> bool {
    name.starts_with("hugepages-")
}

fn is_container_resource(name: &str) -> bool {
    matches!(name, "cpu" | "memory" | "ephemeral-storage") || is_huge_page(name)
}

/// Returns true if a name is in Kubernetes' own domain, as names without a domain are.
pub(in crate::write::admit::validate) fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

pub(in crate::write::admit::validate) fn is_extended(name: &str) -> bool {
    !is_native(name)
        && !name.starts_with("requests.")
        && meta::qualified_problems(&format!("requests.{name}")).is_empty()
}

/// Validates the name of a container's resource.
pub(in crate::write::admit::validate) fn validate_container_resource(
    name: &str,
    at: &str,
    out: &mut CauseList,
) {
    validate_resource_name(name, at, out);
    if !name.contains('/') && !is_container_resource(name) {
        out.push(StatusCause::invalid(at, &json!(name), "must be a standard resource for containers"));
    } else if !is_native(name) && !is_extended(name) {
        out.push(StatusCause::invalid(at, &json!(name), "doesn't follow extended resource name standard"));
    }
}

/// Validates the name of a resource, whatever it is a resource of.
fn validate_resource_name(name: &str, at: &str, out: &mut CauseList) {
    let problems = meta::qualified_problems(name);
    let readable = problems.is_empty();
    add_problems(problems, &json!(name), at, out);
    if readable
        && !name.contains('/')
        && !is_container_resource(name)
        && !STANDARD.contains(&name)
        && !name.starts_with("requests.hugepages-")
    {
        out.push(StatusCause::invalid(
            at,
            &json!(name),
            "must be a standard resource type or fully qualified",
        ));
    }
}

/// Validates the name of a pod's resource.
fn validate_pod_resource(name: &str, at: &str, out: &mut CauseList) {
    let mut found = CauseList::new();
    validate_resource_name(name, at, &mut found);
    let known = matches!(name, "cpu" | "memory") || is_huge_page(name);
    if found.is_empty() && !known {
        found.push(StatusCause::not_supported(at, &json!(name), &["cpu", "hugepages-", "memory"]));
    }
    out.append(&mut found);
}

/// Limits and requests of a container, and the claims it uses.
pub(crate) fn validate_resources(resources: &Value, claims: &ClaimNames, field: &str, out: &mut CauseList) {
    validate_requirements(resources, validate_container_resource, field, out);
    validate_claim_uses(&resources["claims"], claims, &format!("{field}.claims"), out);
}

fn validate_requirements(
    resources: &Value,
    name_rule: fn(&str, &str, &mut CauseList),
    field: &str,
    out: &mut CauseList,
) {
    for side in ["limits", "requests"] {
        for (name, quantity) in meta::sorted_members(&resources[side]) {
            let at = format!("{field}.{side}[{name}]");
            name_rule(name, &at, out);
            let given = nanos_of(quantity);
            if given.is_some_and(|a| a < 0) {
                let shown = json!(canonical_text(quantity));
                out.push(StatusCause::invalid(&at, &shown, "must be greater than or equal to 0"));
            }
            if is_extended(name) && given.is_some_and(|a| a % 1_000_000_000 != 0) {
                out.push(StatusCause::invalid(&at, &json!(canonical_text(quantity)), "must be an integer"));
            }
            if side == "requests" {
                check_within_limit(name, quantity, resources, field, out);
            }
            if let Some(page) = name.strip_prefix("hugepages-")
                && let (Some(page), Some(given)) = (nanos_of(&json!(page)).filter(|p| *p > 0), given)
                && given % page != 0
            {
                let shown = canonical_text(quantity);
                let why = format!("{shown} is not positive integer multiple of {name}");
                out.push(StatusCause::invalid(&at, &json!(shown), &why));
            }
        }
    }
    // Huge pages alone are not enough to run.
    let has = |wanted: &dyn Fn(&str) -> bool| {
        ["limits", "requests"]
            .iter()
            .any(|side| resources[*side].as_object().into_iter().flatten().any(|(name, _)| wanted(name)))
    };
    if has(&|name| is_huge_page(name)) && !has(&|name| matches!(name, "cpu" | "memory")) {
        out.push(StatusCause::forbidden(field, "HugePages require cpu or memory"));
    }
}

/// No more is requested than the limit allows, and of some resources as much.
fn check_within_limit(name: &str, quantity: &Value, resources: &Value, field: &str, out: &mut CauseList) {
    let shared = is_native(name) && !is_huge_page(name);
    let Some(limit) = resources["limits"].get(name) else {
        if !shared {
            let why = "Limit must be set for non overcommitable resources";
            out.push(StatusCause::required(format!("{field}.limits"), why));
        }
        return;
    };
    let (Some(request), Some(most)) = (nanos_of(quantity), nanos_of(limit)) else { return };
    let relation = match request.cmp(&most) {
        std::cmp::Ordering::Equal => return,
        _ if !shared => "equal to",
        std::cmp::Ordering::Less => return,
        std::cmp::Ordering::Greater => "less than or equal to",
    };
    let why = format!("must be {relation} {name} limit of {}", canonical_text(limit));
    out.push(StatusCause::invalid(format!("{field}.requests"), &json!(canonical_text(quantity)), &why));
}

/// Limits and requests of a pod as a whole.
pub(super) fn validate_pod_resources(spec: &Value, claims: &ClaimNames, field: &str, out: &mut CauseList) {
    let resources = &spec["resources"];
    let field = format!("{field}.resources");
    if resources.is_null() {
        return;
    }
    if is_windows(spec) {
        out.push(StatusCause::forbidden(field, "may not be set for a windows pod"));
        return;
    }
    if !resources["claims"].is_null() {
        let why = "claims may not be set for Resources at pod-level";
        out.push(StatusCause::forbidden(format!("{field}.claims"), why));
    }
    validate_requirements(resources, validate_pod_resource, &field, out);
    validate_claim_uses(&resources["claims"], claims, &format!("{field}.claims"), out);
    let sum = |side: &str, name: &str| -> i128 {
        indexed_items(&spec["containers"])
            .filter_map(|(_, c)| c["resources"][side].get(name).and_then(nanos_of))
            .sum()
    };
    for (side, word) in [("requests", "requests"), ("limits", "limits")] {
        for (name, most) in meta::sorted_members(&resources[side]) {
            let all = sum(side, name);
            if (side == "requests" || is_huge_page(name)) && nanos_of(most).is_some_and(|most| all > most) {
                let all = json!(format!("{}n", all));
                let why = format!(
                    "must be greater than or equal to aggregate container {word} of {}",
                    canonical_text(&all)
                );
                out.push(StatusCause::invalid(
                    format!("{field}.{side}[{name}]"),
                    &json!(canonical_text(most)),
                    &why,
                ));
            }
        }
    }
    for (i, container) in indexed_items(&spec["containers"]) {
        for (name, limit) in meta::sorted_members(&container["resources"]["limits"]) {
            let Some(most) = resources["limits"].get(name) else { continue };
            if nanos_of(limit) > nanos_of(most) {
                let why = format!("must be less than or equal to pod limits of {}", canonical_text(most));
                let at = format!("{field}.containers[{i}][{name}].limits");
                out.push(StatusCause::invalid(at, &json!(canonical_text(limit)), &why));
            }
        }
    }
}
