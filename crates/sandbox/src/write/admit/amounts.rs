//! Amounts of resources: what a pod asks for as a whole.

use std::collections::BTreeMap;

use serde_json::Value;
use slipway_manifest::quantity::Quantity;

pub(crate) type ResourceAmounts = BTreeMap<Box<str>, Quantity>;

pub(crate) fn parse_quantity(value: &Value) -> Option<Quantity> {
    match value {
        Value::String(text) => Quantity::parse(text).ok(),
        Value::Number(number) => Quantity::parse(&number.to_string()).ok(),
        _ => None,
    }
}

/// A quantity in billionths.
pub(crate) fn nanos_of(value: &Value) -> Option<i128> {
    parse_quantity(value).map(Quantity::nanos)
}

/// A quantity as a server prints it.
pub(crate) fn canonical_text(value: &Value) -> String {
    parse_quantity(value).map(|quantity| quantity.to_string()).unwrap_or_default()
}

/// Returns the `requests` or `limits` of a pod. Containers that run at the same time add up; those that run before them
/// need as much as the largest.
pub(crate) fn pod_amounts(spec: &Value, side: &str) -> ResourceAmounts {
    let listed = |list: &str| spec[list].as_array().map_or(&[][..], Vec::as_slice);
    let (mut amounts, mut sidecars, mut largest) =
        (ResourceAmounts::new(), ResourceAmounts::new(), ResourceAmounts::new());
    for container in listed("initContainers") {
        if container["restartPolicy"] == "Always" {
            add_amounts(&mut sidecars, &container["resources"][side]);
            keep_larger(&mut largest, &sidecars);
        } else {
            let mut needed = sidecars.clone();
            add_amounts(&mut needed, &container["resources"][side]);
            keep_larger(&mut largest, &needed);
        }
    }
    for container in listed("containers") {
        add_amounts(&mut amounts, &container["resources"][side]);
    }
    for (resource, amount) in &sidecars {
        add_amount(&mut amounts, resource, *amount);
    }
    keep_larger(&mut amounts, &largest);
    // What the pod asks for as a whole stands for what its containers do.
    for (resource, amount) in spec["resources"][side].as_object().into_iter().flatten() {
        amounts.extend(parse_quantity(amount).map(|amount| (resource.as_str().into(), amount)));
    }
    for (resource, amount) in spec["overhead"].as_object().into_iter().flatten() {
        // A pod without a limit has none for its overhead either.
        if (side == "requests" || amounts.contains_key(resource.as_str()))
            && let Some(amount) = parse_quantity(amount)
        {
            add_amount(&mut amounts, resource, amount);
        }
    }
    amounts
}

fn add_amounts(amounts: &mut ResourceAmounts, more: &Value) {
    for (resource, amount) in more.as_object().into_iter().flatten() {
        if let Some(amount) = parse_quantity(amount) {
            add_amount(amounts, resource, amount);
        }
    }
}

fn add_amount(amounts: &mut ResourceAmounts, resource: &str, amount: Quantity) {
    let known = amounts.entry(resource.into()).or_insert(Quantity::from_int(0));
    *known = known.plus(amount);
}

fn keep_larger(amounts: &mut ResourceAmounts, others: &ResourceAmounts) {
    for (resource, amount) in others {
        let known = amounts.entry(resource.clone()).or_insert(*amount);
        *known = (*known).max(*amount);
    }
}
