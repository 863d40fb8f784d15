//! From a stored definition to served resources: accepted names, `Established`, the registry.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError};

use serde_json::{Value, json};
use slipway_manifest::schema::{Resource, Subresource};

use super::custom::CustomVersion;
use crate::api::resource::ServedResource;
use crate::core::Core;
use crate::store::{ExpectedState, ObjectDraft, ObjectKey, StoredObject};

const TABLE: &str = "customresourcedefinitions.apiextensions.k8s.io";

/// Sets the condition of a definition that is being deleted.
pub(crate) fn mark_terminating(core: &Core, definition: &mut Value) {
    set_condition(
        definition,
        "Terminating",
        "True",
        "InstanceDeletionPending",
        "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
        &core.now(),
    );
}

fn set_condition(definition: &mut Value, kind: &str, status: &str, reason: &str, message: &str, now: &str) {
    if !definition["status"]["conditions"].is_array() {
        definition["status"]["conditions"] = json!([]);
    }
    let generation = definition["metadata"]["generation"].clone();
    let Value::Array(conditions) = &mut definition["status"]["conditions"] else { return };
    let old = conditions.iter().position(|c| c["type"] == kind);
    let since = old
        .map(|i| &conditions[i])
        .filter(|c| c["status"] == status)
        .map_or_else(|| json!(now), |c| c["lastTransitionTime"].clone());
    let _ = generation;
    let condition = json!({
        "type": kind, "status": status, "lastTransitionTime": since, "reason": reason, "message": message,
    });
    match old {
        Some(i) => conditions[i] = condition,
        None => conditions.push(condition),
    }
}

/// Follows a change of a definition: accepts its names, establishes it and serves it.
///
/// A real server does this in two steps that watchers see; both are done before the write is answered.
pub(crate) fn establish_definition(core: &Core, created: bool, object: &Arc<StoredObject>) {
    let value = object.value();
    let established = value["status"]["conditions"]
        .as_array()
        .is_some_and(|c| c.iter().any(|c| c["type"] == "Established" && c["status"] == "True"));
    let names = &value["spec"]["names"];
    if created || !established || value["status"]["acceptedNames"] != *names {
        let conflict = find_name_conflict(core, object, &value);
        let now = core.now();
        let accepted = update_definition(core, &object.key, |v| match &conflict {
            Some((reason, message)) => {
                set_condition(v, "NamesAccepted", "False", reason, message, &now);
                set_condition(v, "Established", "False", "NotAccepted", "not all names are accepted", &now);
            }
            None => {
                v["status"]["acceptedNames"] = v["spec"]["names"].clone();
                set_condition(v, "NamesAccepted", "True", "NoConflicts", "no conflicts found", &now);
                if !established {
                    set_condition(
                        v,
                        "Established",
                        "False",
                        "Installing",
                        "the initial names have been accepted",
                        &now,
                    );
                }
            }
        });
        if conflict.is_none() && accepted {
            update_definition(core, &object.key, |v| {
                set_condition(
                    v,
                    "Established",
                    "True",
                    "InitialNamesAccepted",
                    "the initial names have been accepted",
                    &now,
                );
            });
        }
    }
    // Versions once stored stay listed.
    update_definition(core, &object.key, |v| {
        let storage: Vec<Value> = v["spec"]["versions"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|v| v["storage"] == true)
            .map(|v| v["name"].clone())
            .collect();
        if !v["status"]["storedVersions"].is_array() {
            v["status"]["storedVersions"] = json!([]);
        }
        if let Value::Array(stored) = &mut v["status"]["storedVersions"] {
            for version in storage {
                if !stored.contains(&version) {
                    stored.push(version);
                }
            }
        }
    });
    refresh_registry(core);
}

/// Another definition of the group that has a name this one wants.
fn find_name_conflict(core: &Core, object: &StoredObject, value: &Value) -> Option<(String, String)> {
    // Each conflict is written over the one before, so the last one stands.
    let mut found = None;
    for other in core.store.list(TABLE, None) {
        if other.key == object.key {
            continue;
        }
        let other = other.value();
        if other["spec"]["group"] != value["spec"]["group"] {
            continue;
        }
        for (key, reason) in [
            ("plural", "PluralConflict"),
            ("singular", "SingularConflict"),
            ("kind", "KindConflict"),
            ("listKind", "ListKindConflict"),
        ] {
            let name = &value["spec"]["names"][key];
            if other["status"]["acceptedNames"][key] == *name && name.is_string() {
                found = Some((reason.to_owned(), format!("{name} is already in use")));
            }
        }
    }
    found
}

fn update_definition(core: &Core, key: &ObjectKey, mut change: impl FnMut(&mut Value)) -> bool {
    let Some(served) = core.of_table(TABLE) else { return false };
    for _ in 0..16 {
        let Some(object) = core.store.get(TABLE, key) else { return false };
        let before = core.whole_object(&served, &object);
        let mut value = before.clone();
        change(&mut value);
        let Ok(decoded) = crate::write::typed::decode_typed(value, served.type_ref(), &[]) else {
            return false;
        };
        if decoded.value == before {
            return true;
        }
        let draft = ObjectDraft::new(&decoded.value);
        let stored = core.store.put::<crate::store::WriteRaced>(
            TABLE,
            key,
            ExpectedState::Rev(object.rev),
            &draft,
            |_| Ok(()),
        );
        if stored.is_ok() {
            return true;
        }
    }
    false
}

/// Serves exactly what the established definitions declare.
pub(crate) fn refresh_registry(core: &Core) {
    // The last reader of the definitions must also be the last to set the registry.
    let _one_at_a_time = core.refreshing.lock().unwrap_or_else(PoisonError::into_inner);
    let mut customs = Vec::new();
    let mut seen: HashMap<String, ()> = HashMap::new();
    for object in core.store.list(TABLE, None) {
        let definition = object.value();
        let established = definition["status"]["conditions"]
            .as_array()
            .is_some_and(|c| c.iter().any(|c| c["type"] == "Established" && c["status"] == "True"));
        if !established || seen.insert(object.name().to_owned(), ()).is_some() {
            continue;
        }
        customs.extend(served_resources(&definition));
    }
    core.set_custom_resources(customs);
}

fn served_resources(definition: &Value) -> Vec<Arc<ServedResource>> {
    let spec = &definition["spec"];
    let names = &spec["names"];
    let text = |v: &Value| v.as_str().unwrap_or("").to_owned();
    let texts = |v: &Value| -> Vec<String> {
        v.as_array().into_iter().flatten().filter_map(|s| s.as_str().map(str::to_owned)).collect()
    };
    let mut out = Vec::new();
    for version in spec["versions"].as_array().into_iter().flatten().filter(|v| v["served"] == true) {
        let custom = Arc::new(CustomVersion::new(definition, version));
        let mut subresources = Vec::new();
        let verbs = || ["get", "patch", "update"].map(str::to_owned).to_vec();
        if custom.has_status {
            subresources.push(Subresource {
                name: "status".into(),
                group: String::new(),
                version: String::new(),
                kind: text(&names["kind"]),
                verbs: verbs(),
            });
        }
        if custom.scale.is_some() {
            subresources.push(Subresource {
                name: "scale".into(),
                group: "autoscaling".into(),
                version: "v1".into(),
                kind: "Scale".into(),
                verbs: verbs(),
            });
        }
        let kind = text(&names["kind"]);
        let def = Resource {
            storage_version_hash: storage_version_hash(&text(&spec["group"]), &custom.storage_version, &kind),
            group: text(&spec["group"]),
            version: text(&version["name"]),
            plural: text(&names["plural"]),
            singular: text(&names["singular"]),
            kind,
            namespaced: spec["scope"] == "Namespaced",
            verbs: ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"]
                .map(str::to_owned)
                .to_vec(),
            short_names: texts(&names["shortNames"]),
            categories: texts(&names["categories"]),
            subresources,
        };
        let list_kind = text(&names["listKind"]);
        out.push(Arc::new(ServedResource::of_custom(def, list_kind, custom)));
    }
    out
}

/// Returns the hash by which discovery tells that objects are stored in another version.
fn storage_version_hash(group: &str, version: &str, kind: &str) -> String {
    use base64::Engine;
    let digest = <sha2::Sha256 as sha2::Digest>::digest(format!("{group}/{version}/{kind}"));
    base64::engine::general_purpose::STANDARD.encode(&digest[..8])
}
