//! Resource quotas and limit ranges.

use serde_json::{Value, json};
use slipway_manifest::quantity::Quantity;

use crate::core::Core;
use crate::resource::Served;
use crate::status::{Result, Status};

fn quantity(value: &Value) -> Option<Quantity> {
    match value {
        Value::String(text) => Quantity::parse(text).ok(),
        Value::Number(number) => Quantity::parse(&number.to_string()).ok(),
        _ => None,
    }
}

/// A quantity in billionths.
pub(crate) fn amount(value: &Value) -> Option<i128> {
    quantity(value).map(Quantity::nanos)
}

/// A quantity as a server prints it.
pub(crate) fn canonical(value: &Value) -> String {
    quantity(value).map(|q| q.to_string()).unwrap_or_default()
}

/// One object, in billionths.
const ONE: i128 = 1_000_000_000;

/// The requests and limits of a pod's containers, summed.
fn compute(spec: &Value, side: &str, resource: &str) -> i128 {
    spec["containers"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|c| c["resources"][side].get(resource).and_then(amount))
        .sum()
}

/// How much of `name` an object uses, in billionths.
fn usage(table: &str, object: &Value, name: &str) -> i128 {
    let plain = |wanted: &str| if table == wanted { ONE } else { 0 };
    if let Some(resource) = name.strip_prefix("count/") {
        return plain(resource);
    }
    match name {
        "pods" => plain("pods"),
        "services" => plain("services"),
        "secrets" | "configmaps" | "persistentvolumeclaims" | "replicationcontrollers" | "resourcequotas" => {
            plain(name)
        }
        "services.nodeports" | "services.loadbalancers" => {
            let kind = if name.ends_with("nodeports") { "NodePort" } else { "LoadBalancer" };
            if object["spec"]["type"] == kind { plain("services") } else { 0 }
        }
        "requests.storage" if table == "persistentvolumeclaims" => {
            object["spec"]["resources"]["requests"].get("storage").and_then(amount).unwrap_or(0)
        }
        "cpu" | "memory" | "ephemeral-storage" if table == "pods" => {
            compute(&object["spec"], "requests", name)
        }
        _ if table == "pods" => match name.split_once('.') {
            Some((side @ ("requests" | "limits"), resource)) => compute(&object["spec"], side, resource),
            _ => 0,
        },
        _ => 0,
    }
}

fn print(nanos: i128) -> String {
    canonical(&json!(format!("{nanos}n")))
}

/// Whether a table counts at all: finished pods hold nothing.
fn counts(table: &str, object: &Value) -> bool {
    table != "pods" || !matches!(object["status"]["phase"].as_str(), Some("Succeeded" | "Failed"))
}

/// What is used of each limited resource of a quota.
pub(crate) fn used(core: &Core, namespace: &str, hard: &Value) -> Value {
    let mut out = serde_json::Map::new();
    for (name, _) in super::meta::sorted(hard) {
        let table = match name.strip_prefix("count/") {
            Some(resource) => resource,
            None => match name.as_str() {
                "services.nodeports" | "services.loadbalancers" => "services",
                "requests.storage" => "persistentvolumeclaims",
                "secrets"
                | "configmaps"
                | "services"
                | "persistentvolumeclaims"
                | "replicationcontrollers"
                | "resourcequotas" => name,
                _ => "pods",
            },
        };
        let total: i128 = core
            .store
            .list(table, Some(namespace))
            .iter()
            .map(|o| o.value())
            .filter(|o| counts(table, o))
            .map(|o| usage(table, &o, name))
            .sum();
        out.insert(name.clone(), print(total).into());
    }
    Value::Object(out)
}

/// Refuses a new object that a quota has no room for.
pub(crate) fn check(
    core: &Core,
    served: &Served,
    namespace: &str,
    object: &Value,
    _dry_run: bool,
) -> Result<()> {
    if namespace.is_empty() || core.store.count("resourcequotas") == 0 {
        return Ok(());
    }
    for quota in core.store.list("resourcequotas", Some(namespace)) {
        let value = quota.value();
        if value["spec"]["scopes"].is_array() || value["spec"]["scopeSelector"].is_object() {
            continue;
        }
        let hard = &value["spec"]["hard"];
        let taken = used(core, namespace, hard);
        let mut over = Vec::new();
        for (name, limit) in super::meta::sorted(hard) {
            let asked = usage(&served.table, object, name);
            let has = taken.get(name).and_then(amount).unwrap_or(0);
            if asked > 0 && amount(limit).is_some_and(|l| has + asked > l) {
                over.push((
                    format!("{name}={}", print(asked)),
                    format!("{name}={}", print(has)),
                    format!("{name}={}", canonical(limit)),
                ));
            }
        }
        if over.is_empty() {
            continue;
        }
        let join = |texts: Vec<&str>| texts.join(",");
        let why = format!(
            "exceeded quota: {}, requested: {}, used: {}, limited: {}",
            quota.name(),
            join(over.iter().map(|o| o.0.as_str()).collect()),
            join(over.iter().map(|o| o.1.as_str()).collect()),
            join(over.iter().map(|o| o.2.as_str()).collect()),
        );
        return Err(Status::forbidden(served.named(), super::meta::text(object, "name"), &why));
    }
    Ok(())
}

/// Applies limit ranges to a new pod: defaults first, then bounds.
pub(crate) fn limits(core: &Core, namespace: &str, pod: &mut Value) -> std::result::Result<(), String> {
    if core.store.count("limitranges") == 0 {
        return Ok(());
    }
    for range in core.store.list("limitranges", Some(namespace)) {
        let range = range.value();
        for limit in range["spec"]["limits"].as_array().into_iter().flatten() {
            if limit["type"] != "Container" {
                continue;
            }
            for list in ["initContainers", "containers"] {
                for container in pod["spec"][list].as_array_mut().into_iter().flatten() {
                    for (key, side) in [("default", "limits"), ("defaultRequest", "requests")] {
                        for (resource, value) in super::meta::sorted(&limit[key]) {
                            super::default::default(
                                &mut container["resources"][side],
                                resource,
                                value.clone(),
                            );
                        }
                    }
                    bounds(limit, container)?;
                }
                super::default::tidy(&mut pod["spec"], list);
            }
        }
    }
    Ok(())
}

fn bounds(limit: &Value, container: &Value) -> std::result::Result<(), String> {
    for (resource, max) in super::meta::sorted(&limit["max"]) {
        let asked = container["resources"]["limits"].get(resource).and_then(amount);
        if let (Some(asked), Some(most)) = (asked, amount(max))
            && asked > most
        {
            return Err(format!(
                "maximum {resource} usage per Container is {}, but limit is {}",
                canonical(max),
                canonical(&container["resources"]["limits"][resource])
            ));
        }
    }
    for (resource, min) in super::meta::sorted(&limit["min"]) {
        let asked = container["resources"]["requests"].get(resource).and_then(amount);
        if let (Some(asked), Some(least)) = (asked, amount(min))
            && asked < least
        {
            return Err(format!(
                "minimum {resource} usage per Container is {}, but request is {}",
                canonical(min),
                canonical(&container["resources"]["requests"][resource])
            ));
        }
    }
    Ok(())
}
