//! Validation of limits and requests.

use serde_json::{Value, json};

use super::claims::{Claims, used};
use super::systems::is_windows;
use crate::status::Cause;
use crate::write::admit::meta;
use crate::write::admit::quota::{amount, canonical};
use crate::write::admit::validate::{Causes, list, texts};

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

fn is_page(name: &str) -> bool {
    name.starts_with("hugepages-")
}

fn of_containers(name: &str) -> bool {
    matches!(name, "cpu" | "memory" | "ephemeral-storage") || is_page(name)
}

/// Whether a name is in the system's own domain, as those without one are.
pub(in crate::write::admit::validate) fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

pub(in crate::write::admit::validate) fn is_extended(name: &str) -> bool {
    !is_native(name)
        && !name.starts_with("requests.")
        && meta::qualified_problems(&format!("requests.{name}")).is_empty()
}

/// What a resource of a container may be called.
pub(in crate::write::admit::validate) fn container_name(name: &str, at: &str, out: &mut Causes) {
    let problems = meta::qualified_problems(name);
    let readable = problems.is_empty();
    texts(problems, &json!(name), at, out);
    let plain = !name.contains('/');
    if readable
        && plain
        && !of_containers(name)
        && !STANDARD.contains(&name)
        && !name.starts_with("requests.hugepages-")
    {
        out.push(Cause::invalid(at, &json!(name), "must be a standard resource type or fully qualified"));
    }
    if plain && !of_containers(name) {
        out.push(Cause::invalid(at, &json!(name), "must be a standard resource for containers"));
    } else if !is_native(name) && !is_extended(name) {
        out.push(Cause::invalid(at, &json!(name), "doesn't follow extended resource name standard"));
    }
}

/// What a resource of a whole pod may be called.
fn pod_name(name: &str, at: &str, out: &mut Causes) {
    let mut found = Causes::new();
    container_name(name, at, &mut found);
    found.retain(|cause| !cause.message.contains("for containers") && !cause.message.contains("extended"));
    let known = matches!(name, "cpu" | "memory") || is_page(name);
    if found.is_empty() && !known {
        found.push(Cause::not_supported(at, &json!(name), &["cpu", "hugepages-", "memory"]));
    }
    out.append(&mut found);
}

/// Limits and requests of a container, and the claims it uses.
pub(crate) fn resources(resources: &Value, claims: &Claims, field: &str, out: &mut Causes) {
    requirements(resources, container_name, field, out);
    used(&resources["claims"], claims, &format!("{field}.claims"), out);
}

fn requirements(resources: &Value, name_rule: fn(&str, &str, &mut Causes), field: &str, out: &mut Causes) {
    for side in ["limits", "requests"] {
        for (name, quantity) in meta::sorted(&resources[side]) {
            let at = format!("{field}.{side}[{name}]");
            name_rule(name, &at, out);
            let given = amount(quantity);
            if given.is_some_and(|a| a < 0) {
                let shown = json!(canonical(quantity));
                out.push(Cause::invalid(&at, &shown, "must be greater than or equal to 0"));
            }
            if is_extended(name) && given.is_some_and(|a| a % 1_000_000_000 != 0) {
                out.push(Cause::invalid(&at, &json!(canonical(quantity)), "must be an integer"));
            }
            if side == "requests" {
                within_limit(name, quantity, resources, field, out);
            }
            if let Some(page) = name.strip_prefix("hugepages-")
                && let (Some(page), Some(given)) = (amount(&json!(page)).filter(|p| *p > 0), given)
                && given % page != 0
            {
                let shown = canonical(quantity);
                let why = format!("{shown} is not positive integer multiple of {name}");
                out.push(Cause::invalid(&at, &json!(shown), &why));
            }
        }
    }
    // Pages alone are not enough to run.
    let has = |wanted: &dyn Fn(&str) -> bool| {
        ["limits", "requests"]
            .iter()
            .any(|side| resources[*side].as_object().into_iter().flatten().any(|(name, _)| wanted(name)))
    };
    if has(&|name| is_page(name)) && !has(&|name| matches!(name, "cpu" | "memory")) {
        out.push(Cause::forbidden(field, "HugePages require cpu or memory"));
    }
}

/// No more is requested than the limit allows, and of some resources as much.
fn within_limit(name: &str, quantity: &Value, resources: &Value, field: &str, out: &mut Causes) {
    let shared = is_native(name) && !is_page(name);
    let Some(limit) = resources["limits"].get(name) else {
        if !shared {
            let why = "Limit must be set for non overcommitable resources";
            out.push(Cause::required(format!("{field}.limits"), why));
        }
        return;
    };
    let (Some(request), Some(most)) = (amount(quantity), amount(limit)) else { return };
    let relation = match request.cmp(&most) {
        std::cmp::Ordering::Equal => return,
        _ if !shared => "equal to",
        std::cmp::Ordering::Less => return,
        std::cmp::Ordering::Greater => "less than or equal to",
    };
    let why = format!("must be {relation} {name} limit of {}", canonical(limit));
    out.push(Cause::invalid(format!("{field}.requests"), &json!(canonical(quantity)), &why));
}

/// Limits and requests of a pod as a whole.
pub(super) fn pod_resources(spec: &Value, claims: &Claims, field: &str, out: &mut Causes) {
    let resources = &spec["resources"];
    let field = format!("{field}.resources");
    if resources.is_null() {
        return;
    }
    if is_windows(spec) {
        out.push(Cause::forbidden(field, "may not be set for a windows pod"));
        return;
    }
    if !resources["claims"].is_null() {
        let why = "claims may not be set for Resources at pod-level";
        out.push(Cause::forbidden(format!("{field}.claims"), why));
    }
    requirements(resources, pod_name, &field, out);
    used(&resources["claims"], claims, &format!("{field}.claims"), out);
    let sum = |side: &str, name: &str| -> i128 {
        list(&spec["containers"]).filter_map(|(_, c)| c["resources"][side].get(name).and_then(amount)).sum()
    };
    for (side, word) in [("requests", "requests"), ("limits", "limits")] {
        for (name, most) in meta::sorted(&resources[side]) {
            let all = sum(side, name);
            if (side == "requests" || is_page(name)) && amount(most).is_some_and(|most| all > most) {
                let all = json!(format!("{}n", all));
                let why = format!(
                    "must be greater than or equal to aggregate container {word} of {}",
                    canonical(&all)
                );
                out.push(Cause::invalid(format!("{field}.{side}[{name}]"), &json!(canonical(most)), &why));
            }
        }
    }
    for (i, container) in list(&spec["containers"]) {
        for (name, limit) in meta::sorted(&container["resources"]["limits"]) {
            let Some(most) = resources["limits"].get(name) else { continue };
            if amount(limit) > amount(most) {
                let why = format!("must be less than or equal to pod limits of {}", canonical(most));
                let at = format!("{field}.containers[{i}][{name}].limits");
                out.push(Cause::invalid(at, &json!(canonical(limit)), &why));
            }
        }
    }
}
