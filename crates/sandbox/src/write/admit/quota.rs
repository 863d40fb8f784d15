//! Resource quotas and limit ranges.

use serde_json::{Value, json};
use slipway_manifest::quantity::Quantity;

use super::amounts::{canonical_text, nanos_of, parse_quantity, pod_amounts};
use crate::api::resource::ServedResource;
use crate::core::Core;
use crate::status::{Result, Status};

/// Stands between a storage class and what is limited of it.
const CLASS: &str = ".storageclass.storage.k8s.io/";

/// Stands between a class of devices and what is limited of it.
const DEVICES: &str = ".deviceclass.resource.k8s.io/devices";

/// Devices that a request for all of a class counts as.
const ALL_DEVICES: i64 = 32;

/// Returns the number of node ports a service takes.
fn node_ports(spec: &Value) -> i64 {
    let ports = spec["ports"].as_array().map_or(&[][..], Vec::as_slice);
    let taken = match spec["type"].as_str().unwrap_or("") {
        "LoadBalancer" if spec["allocateLoadBalancerNodePorts"] == false => {
            ports.iter().filter(|port| port["nodePort"].as_i64().is_some_and(|port| port != 0)).count()
        }
        "NodePort" | "LoadBalancer" => ports.len(),
        _ => 0,
    };
    i64::try_from(taken).unwrap_or(i64::MAX)
}

/// Returns how many devices of a class a claim asks for.
fn claimed_devices(spec: &Value, class: &str) -> i64 {
    let asked = |request: &Value| match request["allocationMode"].as_str() {
        _ if request["deviceClassName"] != class => 0,
        Some("All") => ALL_DEVICES,
        _ => request["count"].as_i64().unwrap_or(1),
    };
    let requests = spec["devices"]["requests"].as_array().into_iter().flatten();
    let each = requests.map(|request| {
        // Of alternatives one is chosen, at worst the largest.
        let others = request["firstAvailable"].as_array().into_iter().flatten();
        others.map(asked).max().unwrap_or(0).max(asked(&request["exactly"]))
    });
    each.sum()
}

/// Returns how much of `name` an object uses.
fn object_usage(table: &str, object: &Value, name: &str) -> Quantity {
    let none = Quantity::from_int(0);
    let plain = |wanted: &str| Quantity::from_int(i64::from(table == wanted));
    if let Some(resource) = name.strip_prefix("count/") {
        return plain(resource);
    }
    let spec = &object["spec"];
    match name {
        "pods" | "services" => plain(name),
        "secrets" | "configmaps" | "persistentvolumeclaims" | "replicationcontrollers" | "resourcequotas" => {
            plain(name)
        }
        "services.loadbalancers" if spec["type"] == "LoadBalancer" => plain("services"),
        "services.nodeports" if table == "services" => Quantity::from_int(node_ports(spec)),
        "requests.storage" if table == "persistentvolumeclaims" => {
            spec["resources"]["requests"].get("storage").and_then(parse_quantity).unwrap_or(none)
        }
        _ if table == "persistentvolumeclaims" => match name.split_once(CLASS) {
            Some((class, rest)) if spec["storageClassName"] == class => object_usage(table, object, rest),
            _ => none,
        },
        _ if table == "resourceclaims.resource.k8s.io" => {
            let class = name.strip_suffix(DEVICES);
            class.map_or(none, |class| Quantity::from_int(claimed_devices(spec, class)))
        }
        _ if table == "pods" => {
            let (side, resource) = match name.split_once('.') {
                Some((side @ ("requests" | "limits"), resource)) => (side, resource),
                _ => ("requests", name),
            };
            pod_amounts(spec, side).get(resource).copied().unwrap_or(none)
        }
        _ => none,
    }
}

/// Returns true if an object is counted: finished pods are not.
fn is_counted(table: &str, object: &Value) -> bool {
    table != "pods" || !matches!(object["status"]["phase"].as_str(), Some("Succeeded" | "Failed"))
}

/// Returns true if a pod asks for nearness to pods of other namespaces, or for distance.
fn has_foreign_affinity(spec: &Value) -> bool {
    let foreign = |term: &Value| {
        !term["namespaceSelector"].is_null()
            || term["namespaces"].as_array().is_some_and(|all| !all.is_empty())
    };
    ["podAffinity", "podAntiAffinity"].iter().any(|kind| {
        let affinity = &spec["affinity"][*kind];
        let listed = |key: &str| affinity[key].as_array().map_or(&[][..], Vec::as_slice);
        listed("requiredDuringSchedulingIgnoredDuringExecution").iter().any(foreign)
            || listed("preferredDuringSchedulingIgnoredDuringExecution")
                .iter()
                .any(|weighted| foreign(&weighted["podAffinityTerm"]))
    })
}

/// The attribute classes a claim has, asked for and is being changed to.
fn attribute_classes(claim: &Value) -> Vec<&str> {
    let places = [
        "/spec/volumeAttributesClassName",
        "/status/currentVolumeAttributesClassName",
        "/status/modifyVolumeStatus/targetVolumeAttributesClassName",
    ];
    let named = places.iter().filter_map(|place| claim.pointer(place)?.as_str());
    named.filter(|class| !class.is_empty()).collect()
}

/// Returns true if an object is in the scopes of a quota. Scopes apply to pods, and one of them to claims.
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
    if table == "persistentvolumeclaims" {
        let classes = attribute_classes(object);
        return all.all(|scope| {
            let listed = || {
                let values = scope["values"].as_array();
                values.is_some_and(|all| all.iter().any(|value| classes.iter().any(|class| value == class)))
            };
            scope["scopeName"] == "VolumeAttributesClass"
                && match scope["operator"].as_str().unwrap_or("") {
                    "In" => listed(),
                    "NotIn" => !listed(),
                    "DoesNotExist" => classes.is_empty(),
                    _ => !classes.is_empty(),
                }
        });
    }
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
                ("CrossNamespacePodAffinity", _) => has_foreign_affinity(spec),
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
                _ if name.ends_with(DEVICES) => "resourceclaims.resource.k8s.io",
                "secrets"
                | "configmaps"
                | "services"
                | "persistentvolumeclaims"
                | "replicationcontrollers"
                | "resourcequotas" => name,
                _ => "pods",
            },
        };
        let total = core
            .store
            .list(table, Some(namespace))
            .iter()
            .map(|o| o.value())
            .filter(|o| is_counted(table, o) && in_scope(quota, table, o))
            .fold(Quantity::from_int(0), |total, o| total.plus(object_usage(table, &o, name)));
        out.insert(name.clone(), total.to_string().into());
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
            let before = old.map_or(Quantity::from_int(0), |old| object_usage(&served.table, old, name));
            let asked = object_usage(&served.table, object, name).minus(before);
            let has = taken.get(name).and_then(parse_quantity).unwrap_or(Quantity::from_int(0));
            if asked.nanos() > 0 && parse_quantity(limit).is_some_and(|limit| has.plus(asked) > limit) {
                over.push((
                    format!("{name}={asked}"),
                    format!("{name}={has}"),
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
        for (name, amount) in pod_amounts(spec, side) {
            out[side][&*name] = amount.to_string().into();
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
                if found > allowed as f64 / Quantity::from_int(1).nanos() as f64 {
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
