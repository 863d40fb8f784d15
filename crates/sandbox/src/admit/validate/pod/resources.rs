//! Validation of limits and requests.

use serde_json::{Value, json};

use crate::admit::meta;
use crate::admit::quota::{amount, canonical};
use crate::admit::validate::Causes;
use crate::status::Cause;

/// Limits and requests of a container.
pub(crate) fn resources(resources: &Value, field: &str, out: &mut Causes) {
    for side in ["limits", "requests"] {
        for (name, quantity) in meta::sorted(&resources[side]) {
            let at = format!("{field}.{side}[{name}]");
            let standard = matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage")
                || name.starts_with("hugepages-");
            if !standard && !name.contains('/') {
                out.push(Cause::invalid(
                    &at,
                    &json!(name),
                    "must be a standard resource type or fully qualified",
                ));
                out.push(Cause::invalid(&at, &json!(name), "must be a standard resource for containers"));
            }
            let given = amount(quantity);
            if given.is_some_and(|a| a < 0) {
                out.push(Cause::invalid(&at, quantity, "must be greater than or equal to 0"));
            }
            if name.contains('/') && given.is_some_and(|a| a % 1_000_000_000 != 0) {
                out.push(Cause::invalid(&at, &json!(canonical(quantity)), "must be an integer"));
            }
            if side == "requests" && name.contains('/') && resources["limits"].get(name).is_none() {
                out.push(Cause::required(
                    format!("{field}.limits"),
                    "Limit must be set for non overcommitable resources",
                ));
            }
            if let Some(page) = name.strip_prefix("hugepages-")
                && let (Some(page), Some(given)) = (amount(&json!(page)).filter(|p| *p > 0), given)
                && given % page != 0
            {
                let shown = canonical(quantity);
                let why = format!("{shown} is not positive integer multiple of {name}");
                out.push(Cause::invalid(&at, &json!(shown), &why));
            }
            if side == "requests"
                && let (Some(request), Some(limit)) = (given, resources["limits"].get(name).and_then(amount))
                && request > limit
            {
                let limit = canonical(&resources["limits"][name]);
                out.push(Cause::invalid(
                    format!("{field}.requests"),
                    &json!(canonical(quantity)),
                    &format!("must be less than or equal to {name} limit of {limit}"),
                ));
            }
        }
    }
}

/// Pages alone are not enough to run.
pub(super) fn pages_alone(resources: &Value, field: &str, out: &mut Causes) {
    let has = |wanted: &dyn Fn(&str) -> bool| {
        ["limits", "requests"]
            .iter()
            .any(|side| resources[*side].as_object().into_iter().flatten().any(|(name, _)| wanted(name)))
    };
    if has(&|name| name.starts_with("hugepages-")) && !has(&|name| matches!(name, "cpu" | "memory")) {
        out.push(Cause::forbidden(field, "HugePages require cpu or memory"));
    }
}
