//! From a list of clean objects into the sandbox, uids and owners included.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::read::count_by_kind;
use super::{CloneReport, CollectedObjects, ObjectReference, SkipReason};
use crate::api::resource::ServedResource;
use crate::core::Core;
use crate::sandbox::Sandbox;
use crate::store::{ExpectedState, ObjectDraft, ObjectKey, WriteRaced};
use crate::write::admit::allocate::AllocationRefusal;

impl Sandbox {
    /// Writes objects of another cluster as they were there: uid, owners, managed fields and times stay.
    /// One that is here already takes the other's content and keeps its own uid.
    pub fn import(&self, collected: CollectedObjects) -> CloneReport {
        let CollectedObjects { mut objects, mut report } = collected;
        let core = self.core();
        // Owners and definitions come first: the garbage collector deletes objects whose owner is not there
        // yet, and a definition must be served before its objects are written.
        let depths = owner_depths(&objects);
        objects.sort_by_cached_key(|object| {
            (depths.get(object_uid(object)).copied().unwrap_or(0), import_rank(object))
        });
        let uids = UidMap::of(core, &objects);
        let mut written = Vec::new();
        for mut object in objects {
            let reference = ObjectReference::of(&object);
            uids.rewrite_owners(&mut object);
            match write_object(core, object.clone()) {
                Ok(()) => written.push(object),
                Err(why) => report.add_skipped(reference, why),
            }
        }
        for (kind, count) in count_by_kind(written.iter()) {
            *report.copied.entry(kind).or_default() += count;
        }
        report
    }
}

fn object_uid(object: &Value) -> &str {
    object["metadata"]["uid"].as_str().unwrap_or("")
}

/// Counts the owners above each object, by uid.
fn owner_depths(objects: &[Value]) -> HashMap<String, usize> {
    let mut depths: HashMap<String, usize> = objects.iter().map(|o| (object_uid(o).to_owned(), 0)).collect();
    // Chains of owners are short; a circle must not loop for ever.
    for _ in 0..8 {
        let mut changed = false;
        for object in objects {
            let owners = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
            let above = owners.filter_map(|o| depths.get(o["uid"].as_str()?)).max();
            let depth = above.map_or(0, |above| above + 1);
            if depths.get(object_uid(object)).is_some_and(|known| *known < depth) {
                depths.insert(object_uid(object).to_owned(), depth);
                changed = true;
            }
        }
        if !changed {
            break;
        }
    }
    depths
}

fn import_rank(object: &Value) -> u8 {
    match object["kind"].as_str().unwrap_or("") {
        "Namespace" => 0,
        "CustomResourceDefinition" => 1,
        "PriorityClass" | "StorageClass" | "IngressClass" | "RuntimeClass" => 2,
        "ServiceAccount" | "LimitRange" | "ConfigMap" | "Secret" => 3,
        "ResourceQuota" => 9,
        "Pod" | "Job" | "CronJob" => 8,
        "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet" | "ReplicationController" => 7,
        _ => 5,
    }
}

/// The resource of an object, if the sandbox serves it.
fn served_resource(core: &Core, object: &Value) -> Option<Arc<ServedResource>> {
    let (group, version) =
        slipway_manifest::object::split_api_version(object["apiVersion"].as_str().unwrap_or(""));
    let registry = core.registry();
    let kind = object["kind"].as_str().unwrap_or("");
    registry.of_version(group, version)?.iter().find(|s| s.def.kind == kind).cloned()
}

fn object_key(object: &Value) -> ObjectKey {
    let text = |name: &str| object["metadata"][name].as_str().unwrap_or("");
    ObjectKey::new(text("namespace"), text("name"))
}

/// The uids of the other cluster, and those of the same objects here.
struct UidMap(HashMap<String, String>);

impl UidMap {
    fn of(core: &Core, objects: &[Value]) -> UidMap {
        let mut map = HashMap::new();
        for object in objects {
            let Some(uid) = object["metadata"]["uid"].as_str().filter(|uid| !uid.is_empty()) else {
                continue;
            };
            let here =
                served_resource(core, object).and_then(|s| core.store.get(&s.table, &object_key(object)));
            let here = here.map_or_else(|| uid.to_owned(), |o| o.uid.to_string());
            map.insert(uid.to_owned(), here);
        }
        UidMap(map)
    }

    /// Owners that did not come along are dropped: the garbage collector would take their children.
    fn rewrite_owners(&self, object: &mut Value) {
        let Some(meta) = object["metadata"].as_object_mut() else { return };
        let Some(Value::Array(owners)) = meta.get_mut("ownerReferences") else { return };
        owners.retain_mut(|owner| match owner["uid"].as_str().and_then(|uid| self.0.get(uid)) {
            Some(uid) => {
                owner["uid"] = uid.as_str().into();
                true
            }
            None => false,
        });
        if owners.is_empty() {
            meta.shift_remove("ownerReferences");
        }
    }
}

fn write_object(core: &Core, object: Value) -> Result<(), SkipReason> {
    let served = served_resource(core, &object).ok_or("the sandbox does not serve this kind")?;
    let key = object_key(&object);
    let storage = if served.custom.is_some() {
        served.clone()
    } else {
        core.of_table(&served.table).unwrap_or(served.clone())
    };
    if served.def.namespaced && core.store.get("namespaces", &ObjectKey::new("", &key.namespace)).is_none() {
        // Its namespace could not be read; it exists all the same.
        let bare = json!({"metadata": {"name": key.namespace}});
        crate::controllers::create_if_absent(core, "namespaces", "", bare, "slipway");
    }
    let decoded = match &served.custom {
        Some(custom) => custom.decode_object(object, &[]),
        None => crate::write::typed::decode_typed(object, served.type_ref(), &[]),
    };
    let mut value = crate::write::convert::to_storage(&served, decoded?.value);
    for _ in 0..16 {
        let live = core.store.get(&storage.table, &key);
        complete_object(core, &storage, &key, live.as_ref().map(|l| (&*l.uid, l.value())), &mut value)?;
        let expect = live.as_ref().map_or(ExpectedState::Absent, |live| ExpectedState::Rev(live.rev));
        let draft = ObjectDraft::new(&value);
        if let Ok(stored) = core.store.put::<WriteRaced>(&storage.table, &key, expect, &draft, |_| Ok(())) {
            core.after_write(&storage, live.as_deref(), &stored);
            return Ok(());
        }
    }
    Err("it is being written by somebody else".into())
}

/// Gives the object what only this cluster can: identity, addresses, the form objects are stored in.
fn complete_object(
    core: &Core,
    served: &ServedResource,
    key: &ObjectKey,
    live: Option<(&str, Value)>,
    value: &mut Value,
) -> Result<(), SkipReason> {
    let kind = served.rule_key();
    let counts = served.custom.is_some() || crate::write::admit::rules::counts_generation(kind);
    let meta = crate::write::admit::meta::metadata_mut(value);
    if let Some((uid, _)) = &live {
        meta.insert("uid".into(), (*uid).into());
    } else if meta.get("uid").is_none_or(|uid| uid.as_str().is_none_or(str::is_empty)) {
        meta.insert("uid".into(), core.ids.new_uid().into());
    }
    if !meta.get("creationTimestamp").is_some_and(Value::is_string) {
        meta.insert("creationTimestamp".into(), core.now().into());
    }
    if counts && !meta.get("generation").is_some_and(Value::is_number) {
        meta.insert("generation".into(), 1.into());
    }
    if let Some(custom) = &served.custom {
        custom.apply_defaults(value, false);
    } else {
        core.set_defaults(served, value);
        if kind == ("", "Service") {
            allocate_addresses(core, key, live.as_ref().map(|(_, value)| value), value)?;
        }
        *value = crate::write::typed::decode_typed(value.take(), served.type_ref(), &[])?.value;
    }
    crate::write::admit::meta::order_metadata(value, served.custom.is_some());
    Ok(())
}

/// Keeps a service's addresses and ports where they are free here, and gives it others where not.
fn allocate_addresses(
    core: &Core,
    key: &ObjectKey,
    live: Option<&Value>,
    service: &mut Value,
) -> Result<(), SkipReason> {
    let owner = format!("{}/{}", key.namespace, key.name);
    let mut asked = service.clone();
    // One that comes with another address than it has here asks for that one.
    let same = live.filter(|live| live["spec"]["clusterIP"] == service["spec"]["clusterIP"]);
    if core.addresses.allocate_service(&owner, &mut asked, same, false).is_ok() {
        *service = asked;
        return Ok(());
    }
    if let Some(spec) = service["spec"].as_object_mut() {
        for member in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "healthCheckNodePort"] {
            spec.shift_remove(member);
        }
        if let Some(live) = live {
            spec.insert("clusterIP".into(), live["spec"]["clusterIP"].clone());
        }
    }
    for port in service["spec"]["ports"].as_array_mut().into_iter().flatten() {
        if let Some(port) = port.as_object_mut() {
            port.shift_remove("nodePort");
        }
    }
    core.addresses.allocate_service(&owner, service, live, false).map_err(|refusal| {
        SkipReason::Other(match refusal {
            AllocationRefusal::Invalid(causes) => {
                causes.first().map_or_else(|| "no address is free".to_owned(), |cause| cause.message.clone())
            }
            AllocationRefusal::Failed(why) => why,
        })
    })
}
