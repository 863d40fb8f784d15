//! Preparation before validation: status, generated selectors, fields the server keeps.

use serde_json::{Value, json};

use super::default::set_default;
use super::rules;
use crate::write::kinds::strategy_of;

/// The part of an object a write changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectPart {
    Main,
    Status,
    /// `metadata.finalizers` of a namespace's spec.
    Finalize,
    /// The approval conditions of a certificate signing request.
    Approval,
    EphemeralContainers,
    Resize,
}

/// Prepares a new built-in object. `uid` is already set.
pub(crate) fn prepare_create(kind: (&str, &str), has_status: bool, object: &mut Value) {
    super::gated::drop_gated_fields(kind, object);
    let strategy = strategy_of(kind);
    if has_status && !rules::status_on_main(kind) {
        object["status"] = strategy.initial_status(object);
    }
    strategy.prepare_create(object);
}

/// Keeps only the names of an account's secrets.
pub(in crate::write) fn secret_names(object: &mut Value) {
    let secrets = object.get_mut("secrets").and_then(Value::as_array_mut);
    for secret in secrets.into_iter().flatten().filter_map(Value::as_object_mut) {
        secret.retain(|key, _| key == "name");
    }
}

/// Copies the first of a node's pod ranges to the singular field.
pub(in crate::write) fn pod_ranges(object: &mut Value) {
    let Some(spec) = object.get_mut("spec").filter(|spec| spec.is_object()) else { return };
    let first = spec["podCIDR"].as_str().unwrap_or("").to_owned();
    let ranges = spec["podCIDRs"].as_array().map_or(0, Vec::len);
    if !first.is_empty() && (ranges == 0 || spec["podCIDRs"][0] != first.as_str()) {
        spec["podCIDRs"] = json!([first]);
    } else if first.is_empty() && ranges > 0 {
        spec["podCIDR"] = spec["podCIDRs"][0].clone();
    }
    super::default::remove_null(spec, "podCIDR");
    super::default::remove_null(spec, "podCIDRs");
}

/// Copies a claim's data source to its other field; the older field takes only claims and snapshots.
pub(in crate::write) fn data_sources(spec: &mut Value, old: Option<&Value>) {
    if !spec.is_object() {
        return;
    }
    let given = |v: &Value| v.is_object();
    let foreign = !spec["dataSourceRef"]["namespace"].as_str().unwrap_or("").is_empty();
    if foreign && !old.is_some_and(|old| given(&old["dataSourceRef"])) {
        remove_member(spec, "dataSourceRef");
    }
    let source = &spec["dataSource"];
    let group = source["apiGroup"].as_str().unwrap_or("");
    let known = matches!(
        (source["kind"].as_str(), group),
        (Some("PersistentVolumeClaim"), "") | (Some("VolumeSnapshot"), "snapshot.storage.k8s.io")
    );
    let used = old.is_some_and(|old| given(&old["dataSource"]) || given(&old["dataSourceRef"]));
    if !used && !given(&spec["dataSourceRef"]) && !known {
        remove_member(spec, "dataSource");
    }
    let bare = |source: &Value| {
        let mut source = source.clone();
        remove_member(&mut source, "namespace");
        source
    };
    match (given(&spec["dataSource"]), given(&spec["dataSourceRef"])) {
        (true, false) => spec["dataSourceRef"] = bare(&spec["dataSource"]),
        (false, true) if spec["dataSourceRef"]["namespace"].as_str().unwrap_or("").is_empty() => {
            spec["dataSource"] = bare(&spec["dataSourceRef"]);
        }
        _ => {}
    }
    for key in ["dataSource", "dataSourceRef"] {
        super::default::remove_null(spec, key);
    }
}

/// Writes the user of the request into a certificate request, whatever it says.
pub(crate) fn requested_by(user: &crate::auth::User, request: &mut Value) {
    let known = user.user_info();
    for key in ["username", "uid", "groups", "extra"] {
        match known.get(key) {
            Some(value) => request["spec"][key] = value.clone(),
            None => remove_member(&mut request["spec"], key),
        }
    }
}

/// Drops the empty list of drivers of a node.
pub(in crate::write) fn no_drivers(object: &mut Value) {
    if object["spec"]["drivers"].as_array().is_none_or(Vec::is_empty) {
        object["spec"]["drivers"] = Value::Null;
    }
}

/// Drops the empty list of requests of a claim.
pub(in crate::write) fn no_requests(object: &mut Value) {
    for place in ["/spec/devices/requests", "/spec/spec/devices/requests"] {
        if let Some(requests) = object.pointer_mut(place)
            && requests.as_array().is_some_and(Vec::is_empty)
        {
            *requests = Value::Null;
        }
    }
}

/// The selector of a job that leaves it to the server, and the labels that make its pods match.
pub(in crate::write) fn job_selector(object: &mut Value) {
    if object["spec"]["manualSelector"] == true {
        return;
    }
    let uid = object["metadata"]["uid"].clone();
    let name = object["metadata"]["name"].clone();
    // A job without labels of its own shares those of its template.
    let places: &[&str] = if object["metadata"]["labels"].as_object().is_some_and(|l| !l.is_empty())
        && object["metadata"]["labels"] != object["spec"]["template"]["metadata"]["labels"]
    {
        &["/spec/template/metadata"]
    } else {
        &["/metadata", "/spec/template/metadata"]
    };
    for labels in places.iter().copied() {
        if labels == "/spec/template/metadata" && !object["spec"]["template"]["metadata"].is_object() {
            object["spec"]["template"]["metadata"] = json!({});
        }
        let Some(meta) = object.pointer_mut(labels) else { continue };
        if !meta["labels"].is_object() {
            meta["labels"] = json!({});
        }
        for (key, value) in [
            ("batch.kubernetes.io/controller-uid", &uid),
            ("batch.kubernetes.io/job-name", &name),
            ("controller-uid", &uid),
            ("job-name", &name),
        ] {
            // A given selector is left to be refused.
            if meta["labels"].get(key).is_none() {
                meta["labels"][key] = value.clone();
            }
        }
    }
    set_default(&mut object["spec"]["selector"]["matchLabels"], "batch.kubernetes.io/controller-uid", uid);
}

/// Merges a proposed update with the live object: other parts than the written one stay as they were.
pub(crate) fn prepare_update(
    kind: (&str, &str),
    custom: bool,
    has_status: bool,
    part: ObjectPart,
    new: &mut Value,
    live: &Value,
) {
    if !custom {
        super::gated::drop_gated_fields(kind, new);
    }
    match part {
        ObjectPart::Main => {
            if has_status {
                keep_member(new, live, "status");
            }
            if !custom {
                strategy_of(kind).prepare_update(new, live);
            }
        }
        ObjectPart::Status => {
            let status = new.get("status").cloned();
            let mut meta = live["metadata"].clone();
            if !custom {
                // Most built-in strategies let labels and annotations through together with the status.
                take_members(&mut meta, &new["metadata"], rules::metadata_with_status(kind));
            }
            if let Some(managed) = new["metadata"].get("managedFields") {
                meta["managedFields"] = managed.clone();
            }
            let version = new["metadata"].get("resourceVersion").cloned();
            *new = live.clone();
            if let Some(version) = version {
                meta["resourceVersion"] = version;
            }
            new["metadata"] = meta;
            if kind == ("apps", "DaemonSet") {
                daemon_set(new, live);
            }
            match status {
                Some(status) => new["status"] = status,
                None => {
                    if let Some(members) = new.as_object_mut() {
                        members.shift_remove("status");
                    }
                }
            }
        }
        ObjectPart::Finalize => {
            let finalizers = new["spec"]["finalizers"].clone();
            let managed = new["metadata"].get("managedFields").cloned();
            *new = live.clone();
            if let Some(managed) = managed {
                new["metadata"]["managedFields"] = managed;
            }
            new["spec"]["finalizers"] = finalizers;
        }
        ObjectPart::Approval => {
            let conditions = new["status"]["conditions"].clone();
            let meta = new["metadata"].clone();
            *new = live.clone();
            new["metadata"] = meta;
            new["status"]["conditions"] = conditions;
        }
        ObjectPart::EphemeralContainers => {
            let containers = new["spec"]["ephemeralContainers"].clone();
            let mut meta = new["metadata"].clone();
            take_members(&mut meta, &live["metadata"], OWN_METADATA);
            *new = live.clone();
            new["metadata"] = meta;
            new["spec"]["ephemeralContainers"] = containers;
        }
        ObjectPart::Resize => {
            let mut asked = new["spec"].take();
            let mut meta = new["metadata"].clone();
            take_members(&mut meta, &live["metadata"], OWN_METADATA);
            *new = live.clone();
            new["metadata"] = meta;
            if asked["resources"].is_object() {
                new["spec"]["resources"] = asked["resources"].take();
            }
            for key in ["containers", "initContainers"] {
                let same = |asked: &Value| {
                    let names = |list: &Value| -> Vec<Value> {
                        list.as_array().into_iter().flatten().map(|c| c["name"].clone()).collect()
                    };
                    names(&asked[key]) == names(&live["spec"][key])
                };
                if !same(&asked) {
                    // It is refused for the names alone.
                    new["spec"][key] = asked[key].take();
                    super::default::remove_null(&mut new["spec"], key);
                    continue;
                }
                let given = asked[key].as_array_mut().into_iter().flatten();
                for (container, given) in new["spec"][key].as_array_mut().into_iter().flatten().zip(given) {
                    for part in ["resources", "resizePolicy"] {
                        container[part] = given[part].take();
                        super::default::remove_null(container, part);
                    }
                }
            }
        }
    }
}

/// The members of metadata that belong to whoever writes the object itself.
const OWN_METADATA: &[&str] = &["labels", "annotations", "finalizers", "ownerReferences"];

/// Makes members of one object those of another, absent ones too.
fn take_members(object: &mut Value, from: &Value, keys: &[&str]) {
    for key in keys {
        match from.get(key) {
            Some(value) if !value.is_null() => object[*key] = value.clone(),
            _ => remove_member(object, key),
        }
    }
}

/// Keeps versions once stored in the list.
pub(in crate::write) fn note_storage(definition: &mut Value) {
    let versions = definition["spec"]["versions"].as_array().into_iter().flatten();
    let storage = versions.filter(|v| v["storage"] == true).map(|v| v["name"].clone()).next();
    if let (Some(storage), Value::Array(stored)) = (storage, &mut definition["status"]["storedVersions"])
        && !stored.contains(&storage)
    {
        stored.push(storage);
    }
}

pub(in crate::write) fn keep_member(new: &mut Value, live: &Value, key: &str) {
    match live.get(key) {
        Some(value) => new[key] = value.clone(),
        None => {
            if let Some(members) = new.as_object_mut() {
                members.shift_remove(key);
            }
        }
    }
}

pub(in crate::write) fn keep_in(new: &mut Value, live: &Value, parent: &str, key: &str) {
    if new[parent][key].is_null() && !live[parent][key].is_null() {
        new[parent][key] = live[parent][key].clone();
    }
}

/// A service keeps its addresses and ports when a client leaves them out.
pub(in crate::write) fn prepare_service(new: &mut Value, live: &Value) {
    let was_external = live["spec"]["type"] == "ExternalName";
    let (spec, old) = (&mut new["spec"], &live["spec"]);
    let external = spec["type"] == "ExternalName";
    if external {
        if !was_external {
            for key in [
                "clusterIP",
                "clusterIPs",
                "ipFamilies",
                "ipFamilyPolicy",
                "internalTrafficPolicy",
                "externalTrafficPolicy",
                "allocateLoadBalancerNodePorts",
            ] {
                // What the client repeated from the old object goes; what it newly set stays to be refused.
                if spec[key] == old[key] || spec[key].is_null() {
                    remove_member(spec, key);
                }
            }
            for port in spec["ports"].as_array_mut().into_iter().flatten() {
                remove_member(port, "nodePort");
            }
        }
        return;
    }
    if !was_external {
        cluster_ips(spec, old);
    }
    let open = |s: &Value| matches!(s["type"].as_str(), Some("NodePort" | "LoadBalancer"));
    let number = |port: &Value| port["nodePort"].as_i64().unwrap_or(0);
    if open(spec) && open(old) {
        // A port keeps that of the nodes by its name, unless another one took it.
        let old_ports = || old["ports"].as_array().into_iter().flatten();
        let kept: Vec<i64> = spec["ports"].as_array().into_iter().flatten().map(number).collect();
        for port in spec["ports"].as_array_mut().into_iter().flatten().filter(|port| number(port) == 0) {
            let name = port["name"].as_str().unwrap_or("").to_owned();
            let before = old_ports().rfind(|p| p["name"].as_str().unwrap_or("") == name).map(number);
            if let Some(before) = before.filter(|before| *before != 0 && !kept.contains(before)) {
                port["nodePort"] = before.into();
            }
        }
    } else if !open(spec) && open(old) {
        for port in spec["ports"].as_array_mut().into_iter().flatten() {
            let unchanged = old["ports"]
                .as_array()
                .into_iter()
                .flatten()
                .any(|p| p["port"] == port["port"] && p["nodePort"] == port["nodePort"]);
            if unchanged {
                remove_member(port, "nodePort");
            }
        }
        if spec["externalTrafficPolicy"] == old["externalTrafficPolicy"]
            && spec["externalIPs"].as_array().is_none_or(Vec::is_empty)
        {
            remove_member(spec, "externalTrafficPolicy");
        }
        if spec["allocateLoadBalancerNodePorts"] == old["allocateLoadBalancerNodePorts"] {
            remove_member(spec, "allocateLoadBalancerNodePorts");
        }
    }
    let watched = |s: &Value| s["type"] == "LoadBalancer" && s["externalTrafficPolicy"] == "Local";
    if watched(old) && watched(spec) && spec["healthCheckNodePort"].as_i64().unwrap_or(0) == 0 {
        spec["healthCheckNodePort"] = old["healthCheckNodePort"].clone();
    }
    if spec["type"] != "LoadBalancer" && spec["loadBalancerClass"] == old["loadBalancerClass"] {
        remove_member(spec, "loadBalancerClass");
    }
    if watched(old) && !watched(spec) && spec["healthCheckNodePort"] == old["healthCheckNodePort"] {
        remove_member(spec, "healthCheckNodePort");
    }
    if spec["type"] != "LoadBalancer" && old["type"] == "LoadBalancer" {
        new["status"]["loadBalancer"] = json!({});
    }
}

/// Clients set one address, all of them or none; missing ones stay as they are.
fn cluster_ips(spec: &mut Value, old: &Value) {
    let empty = |list: &Value| list.as_array().is_none_or(Vec::is_empty);
    if spec["clusterIP"].as_str().unwrap_or("").is_empty() {
        spec["clusterIP"] = old["clusterIP"].clone();
    }
    if empty(&spec["clusterIPs"]) && !empty(&old["clusterIPs"]) {
        spec["clusterIPs"] = old["clusterIPs"].clone();
    }
    if spec["clusterIP"] != old["clusterIP"] && spec["clusterIPs"] == old["clusterIPs"] {
        // Clients that know only the singular field change only it.
        spec["clusterIPs"] = json!([spec["clusterIP"]]);
    }
    for key in ["ipFamilies", "ipFamilyPolicy"] {
        if spec[key].is_null() && !old[key].is_null() {
            spec[key] = old[key].clone();
        }
    }
}

pub(in crate::write) fn daemon_set(new: &mut Value, live: &Value) {
    const KEY: &str = "deprecated.daemonset.template.generation";
    let was: i64 = slipway_manifest::object::annotation(live, KEY).and_then(|t| t.parse().ok()).unwrap_or(1);
    let bumped = if new["spec"]["template"] == live["spec"]["template"] { was } else { was + 1 };
    slipway_manifest::object::set_annotation(new, KEY, &bumped.to_string());
}

fn remove_member(object: &mut Value, key: &str) {
    if let Some(members) = object.as_object_mut() {
        members.shift_remove(key);
    }
}

/// Returns true if an update changes what `generation` counts.
pub(crate) fn spec_changed(custom: bool, has_status: bool, new: &Value, live: &Value) -> bool {
    let (Some(new), Some(live)) = (new.as_object(), live.as_object()) else { return false };
    let counted = |key: &str| {
        !matches!(key, "metadata" | "kind" | "apiVersion") && (key != "status" || (custom && !has_status))
    };
    let differs = |a: &serde_json::Map<String, Value>, b: &serde_json::Map<String, Value>| {
        a.iter().any(|(k, v)| counted(k) && b.get(k) != Some(v))
    };
    differs(new, live) || live.keys().any(|k| counted(k) && !new.contains_key(k))
}
