//! Resource quotas and limit ranges.

use serde_json::{Value, json};
use slipway_manifest::quantity::Quantity;

use crate::api::resource::ServedResource;
use crate::core::Core;
use crate::status::{Result, Status};

fn parse_quantity(value: &Value) -> Option<Quantity> {
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
    parse_quantity(value).map(|q| q.to_string()).unwrap_or_default()
}

/// One object, in billionths.
const ONE: i128 = 1_000_000_000;

/// The requests and limits of a pod's containers, summed.
fn sum_of_containers(spec: &Value, side: &str, resource: &str) -> i128 {
    spec["containers"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|c| c["resources"][side].get(resource).and_then(nanos_of))
        .sum()
}

/// Stands between a storage class and what is limited of it.
const CLASS: &str = ".storageclass.storage.k8s.io/";

/// Returns the number of node ports a service takes.
fn node_ports(spec: &Value) -> i128 {
    let ports = spec["ports"].as_array().map_or(&[][..], Vec::as_slice);
    let taken = match spec["type"].as_str().unwrap_or("") {
        "LoadBalancer" if spec["allocateLoadBalancerNodePorts"] == false => {
            ports.iter().filter(|port| port["nodePort"].as_i64().is_some_and(|port| port != 0)).count()
        }
        "NodePort" | "LoadBalancer" => ports.len(),
        _ => 0,
    };
    taken as i128
}

/// Returns how much of `name` an object uses, in billionths.
fn object_usage(table: &str, object: &Value, name: &str) -> i128 {
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
        "services.loadbalancers" if object["spec"]["type"] == "LoadBalancer" => plain("services"),
        "services.nodeports" if table == "services" => node_ports(&object["spec"]) * ONE,
        "requests.storage" if table == "persistentvolumeclaims" => {
            object["spec"]["resources"]["requests"].get("storage").and_then(nanos_of).unwrap_or(0)
        }
        _ if table == "persistentvolumeclaims" => match name.split_once(CLASS) {
            Some((class, rest)) if object["spec"]["storageClassName"] == class => {
                object_usage(table, object, rest)
            }
            _ => 0,
        },
        "cpu" | "memory" | "ephemeral-storage" if table == "pods" => {
            sum_of_containers(&object["spec"], "requests", name)
        }
        _ if table == "pods" => match name.split_once('.') {
            Some((side @ ("requests" | "limits"), resource)) => {
                sum_of_containers(&object["spec"], side, resource)
            }
            _ => 0,
        },
        _ => 0,
    }
}

fn print_nanos(nanos: i128) -> String {
    canonical_text(&json!(format!("{nanos}n")))
}

/// Returns true if an object is counted: finished pods are not.
fn is_counted(table: &str, object: &Value) -> bool {
    table != "pods" || !matches!(object["status"]["phase"].as_str(), Some("Succeeded" | "Failed"))
}

/// Returns true if an object is in the scopes of a quota. Scopes apply to pods only.
fn in_scope(quota: &Value, table: &str, object: &Value) -> bool {
    let named = quota["scopes"].as_array().into_iter().flatten();
    let named = named.map(|scope| json!({"scopeName": scope, "operator": "Exists"}));
    let selected = quota["scopeSelector"]["matchExpressions"].as_array().into_iter().flatten().cloned();
    let mut all = named.chain(selected).peekable();
    if all.peek().is_none() {
        return true;
    }
    let spec = &object["spec"];
    let ends = spec["activeDeadlineSeconds"].as_i64().is_some_and(|s| s >= 0);
    let best_effort = super::admission::qos_class(spec) == "BestEffort";
    let class = spec["priorityClassName"].as_str().unwrap_or("");
    table == "pods"
        && all.all(|scope| {
            let listed = || scope["values"].as_array().is_some_and(|v| v.iter().any(|v| v == class));
            match (scope["scopeName"].as_str().unwrap_or(""), scope["operator"].as_str().unwrap_or("")) {
                ("Terminating", _) => ends,
                ("NotTerminating", _) => !ends,
                ("BestEffort", _) => best_effort,
                ("NotBestEffort", _) => !best_effort,
                ("PriorityClass", "In") => listed(),
                ("PriorityClass", "NotIn") => !listed(),
                ("PriorityClass", "DoesNotExist") => class.is_empty(),
                ("PriorityClass", _) => !class.is_empty(),
                ("CrossNamespacePodAffinity", _) => false,
                _ => false,
            }
        })
}

/// Returns the usage of each limited resource of a quota.
pub(crate) fn quota_usage(core: &Core, namespace: &str, quota: &Value) -> Value {
    let hard = &quota["hard"];
    let mut out = serde_json::Map::new();
    for (name, _) in super::meta::sorted_members(hard) {
        let table = match name.strip_prefix("count/") {
            Some(resource) => resource,
            None => match name.as_str() {
                "services.nodeports" | "services.loadbalancers" => "services",
                "requests.storage" => "persistentvolumeclaims",
                _ if name.contains(CLASS) => "persistentvolumeclaims",
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
            .filter(|o| is_counted(table, o) && in_scope(quota, table, o))
            .map(|o| object_usage(table, &o, name))
            .sum();
        out.insert(name.clone(), print_nanos(total).into());
    }
    Value::Object(out)
}

/// Returns the containers that do not set a resource a quota counts, as one text.
fn missing_requirements(spec: &Value, hard: &Value) -> Option<String> {
    const COUNTED: &[&str] =
        &["cpu", "limits.cpu", "limits.memory", "memory", "requests.cpu", "requests.memory"];
    let mut missing = Vec::new();
    for name in COUNTED.iter().filter(|name| hard.get(**name).is_some()) {
        let (side, resource) = name.split_once('.').unwrap_or(("requests", name));
        let mut silent: Vec<&str> = ["containers", "initContainers"]
            .iter()
            .flat_map(|list| spec[*list].as_array().into_iter().flatten())
            .filter(|container| container["resources"][side].get(resource).is_none())
            .filter_map(|container| container["name"].as_str())
            .collect();
        silent.sort_unstable();
        if !silent.is_empty() {
            missing.push(format!("{name} for: {}", silent.join(",")));
        }
    }
    (!missing.is_empty()).then(|| missing.join("; "))
}

/// Refuses a new object, or a service or claim that grows, when a quota has no room for it.
pub(crate) fn check_quota(
    core: &Core,
    served: &ServedResource,
    namespace: &str,
    old: Option<&Value>,
    object: &Value,
) -> Result<()> {
    if old.is_some() && !matches!(&*served.table, "services" | "persistentvolumeclaims") {
        return Ok(());
    }
    if namespace.is_empty() || core.store.count_objects("resourcequotas") == 0 {
        return Ok(());
    }
    for quota in core.store.list("resourcequotas", Some(namespace)) {
        let value = quota.value();
        if !in_scope(&value["spec"], &served.table, object) {
            continue;
        }
        let hard = &value["spec"]["hard"];
        if &*served.table == "pods"
            && let Some(missing) = missing_requirements(&object["spec"], hard)
        {
            let why = format!("failed quota: {}: must specify {missing}", quota.name());
            return Err(Status::forbidden(
                served.resource_name(),
                super::meta::metadata_text(object, "name"),
                &why,
            ));
        }
        let taken = quota_usage(core, namespace, &value["spec"]);
        let mut over = Vec::new();
        for (name, limit) in super::meta::sorted_members(hard) {
            let before = old.map_or(0, |old| object_usage(&served.table, old, name));
            let asked = object_usage(&served.table, object, name) - before;
            let has = taken.get(name).and_then(nanos_of).unwrap_or(0);
            if asked > 0 && nanos_of(limit).is_some_and(|l| has + asked > l) {
                over.push((
                    format!("{name}={}", print_nanos(asked)),
                    format!("{name}={}", print_nanos(has)),
                    format!("{name}={}", canonical_text(limit)),
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
        return Err(Status::forbidden(
            served.resource_name(),
            super::meta::metadata_text(object, "name"),
            &why,
        ));
    }
    Ok(())
}

/// Applies limit ranges to a new pod: defaults first, then bounds.
pub(crate) fn apply_limit_ranges(
    core: &Core,
    namespace: &str,
    pod: &mut Value,
) -> std::result::Result<(), String> {
    if core.store.count_objects("limitranges") == 0 {
        return Ok(());
    }
    let mut problems = Vec::new();
    for range in core.store.list("limitranges", Some(namespace)) {
        let range = range.value();
        let all = range["spec"]["limits"].as_array().map_or(&[][..], Vec::as_slice);
        let mut set = Vec::new();
        for limit in all.iter().filter(|limit| limit["type"] == "Container") {
            for list in ["containers", "initContainers"] {
                for container in pod["spec"][list].as_array_mut().into_iter().flatten() {
                    fill_container(limit, list, container, &mut set);
                }
                super::default::remove_null(&mut pod["spec"], list);
            }
        }
        if !set.is_empty() {
            let note = format!("LimitRanger plugin set: {}", set.join("; "));
            slipway_manifest::object::set_annotation(pod, "kubernetes.io/limit-ranger", &note);
        }
        for limit in all {
            match limit["type"].as_str().unwrap_or("") {
                "Container" => {
                    for list in ["containers", "initContainers"] {
                        for container in pod["spec"][list].as_array().into_iter().flatten() {
                            check_bounds(limit, &container["resources"], &mut problems);
                        }
                    }
                }
                "Pod" => check_bounds(limit, &pod_sums(&pod["spec"]), &mut problems),
                _ => {}
            }
        }
    }
    joined_error(problems)
}

/// Applies limit ranges to a new claim.
pub(crate) fn check_claim_limits(
    core: &Core,
    namespace: &str,
    claim: &Value,
) -> std::result::Result<(), String> {
    if core.store.count_objects("limitranges") == 0 {
        return Ok(());
    }
    let mut problems = Vec::new();
    for range in core.store.list("limitranges", Some(namespace)) {
        for limit in range.value()["spec"]["limits"].as_array().into_iter().flatten() {
            if limit["type"] == "PersistentVolumeClaim" {
                check_bounds(
                    limit,
                    &json!({"requests": claim["spec"]["resources"]["requests"]}),
                    &mut problems,
                );
            }
        }
    }
    joined_error(problems)
}

fn joined_error(mut problems: Vec<String>) -> std::result::Result<(), String> {
    match problems.len() {
        0 => Ok(()),
        1 => Err(problems.remove(0)),
        _ => Err(format!("[{}]", problems.join(", "))),
    }
}

/// Sets resources a container does not, and notes which were set.
fn fill_container(limit: &Value, list: &str, container: &mut Value, set: &mut Vec<String>) {
    let what = if list == "containers" { "container" } else { "init container" };
    let name = container["name"].as_str().unwrap_or("").to_owned();
    for (key, side, word) in [("defaultRequest", "requests", "request"), ("default", "limits", "limit")] {
        let mut named = Vec::new();
        for (resource, value) in super::meta::sorted_members(&limit[key]) {
            if container["resources"][side].get(resource).is_none_or(Value::is_null) {
                super::default::set_default(&mut container["resources"][side], resource, value.clone());
                named.push(resource.as_str());
            }
        }
        if container["resources"].is_object() {
            super::default::remove_null(&mut container["resources"], side);
        }
        if !named.is_empty() {
            set.push(format!("{} {word} for {what} {name}", named.join(", ")));
        }
    }
}

/// The requests and limits of a pod's containers together.
fn pod_sums(spec: &Value) -> Value {
    let mut out = json!({});
    for side in ["requests", "limits"] {
        let mut names = std::collections::BTreeSet::new();
        for container in spec["containers"].as_array().into_iter().flatten() {
            names.extend(container["resources"][side].as_object().into_iter().flatten().map(|(k, _)| k));
        }
        for name in names {
            out[side][name] = print_nanos(sum_of_containers(spec, side, name)).into();
        }
    }
    out
}

fn check_bounds(limit: &Value, resources: &Value, out: &mut Vec<String>) {
    let kind = limit["type"].as_str().unwrap_or("");
    let has = |side: &str, resource: &str| resources[side].get(resource).and_then(nanos_of);
    let shown = |side: &str, resource: &str| canonical_text(&resources[side][resource]);
    for (resource, min) in super::meta::sorted_members(&limit["min"]) {
        let Some(least) = nanos_of(min) else { continue };
        let text = format!("minimum {resource} usage per {kind} is {}", canonical_text(min));
        match (has("requests", resource), has("limits", resource)) {
            (None, _) => out.push(format!("{text}.  No request is specified")),
            (Some(asked), _) if asked < least => {
                out.push(format!("{text}, but request is {}", shown("requests", resource)));
            }
            (_, Some(most)) if most < least => {
                out.push(format!("{text}, but limit is {}", shown("limits", resource)));
            }
            _ => {}
        }
    }
    for (resource, max) in super::meta::sorted_members(&limit["max"]) {
        let Some(most) = nanos_of(max) else { continue };
        let text = format!("maximum {resource} usage per {kind} is {}", canonical_text(max));
        // Claims only ever request.
        let (side, word) =
            if kind == "PersistentVolumeClaim" { ("requests", "request") } else { ("limits", "limit") };
        match (has(side, resource), has("requests", resource)) {
            (None, _) => out.push(format!("{text}.  No {word} is specified")),
            (Some(asked), _) if asked > most => {
                out.push(format!("{text}, but {word} is {}", shown(side, resource)));
            }
            (_, Some(asked)) if asked > most => {
                out.push(format!("{text}, but request is {}", shown("requests", resource)));
            }
            _ => {}
        }
    }
    for (resource, ratio) in super::meta::sorted_members(&limit["maxLimitRequestRatio"]) {
        let text = format!("{resource} max limit to request ratio per {kind} is {}", canonical_text(ratio));
        match (has("requests", resource), has("limits", resource), nanos_of(ratio)) {
            (Some(request), Some(most), Some(allowed)) if request > 0 => {
                let found = most as f64 / request as f64;
                if found > allowed as f64 / ONE as f64 {
                    out.push(format!("{text}, but provided ratio is {found:.6}"));
                }
            }
            (None | Some(0), _, _) => {
                out.push(format!("{text}, but no request is specified or request is 0"));
            }
            (_, None | Some(0), _) => out.push(format!("{text}, but no limit is specified or limit is 0")),
            _ => {}
        }
    }
}
