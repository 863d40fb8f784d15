//! Namespaces: the content of a new one, and the deletion of an old one.

use serde_json::{Value, json};

use super::{ClusterHandle, Controller, NextReconcile, WorkItem, WorkQueue};
use crate::core::Core;
use crate::status::Result;
use crate::store::{ChangeType, ObjectKey, StoreEvent};
use crate::write::admit::prepare::ObjectPart;
use crate::write::delete::{DeleteOptions, DeletionPropagation};
use crate::write::{FieldOwnership, WriteAuthor};

const MANAGER: &str = "kube-controller-manager";
const ROOT_CA: &str = "kube-root-ca.crt";
const ROOT_CA_TEXT: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters.";

/// The namespaces every cluster has.
const SYSTEM: &[&str] = &["default", "kube-node-lease", "kube-public", "kube-system"];

pub(super) fn furnish_system_namespaces(core: &Core) {
    for name in SYSTEM {
        create_if_absent(core, "namespaces", "", json!({"metadata": {"name": name}}), "kube-apiserver");
    }
}

/// Creates an object if there is none of its name. An error means that there is one.
pub(crate) fn create_if_absent(core: &Core, table: &str, namespace: &str, mut object: Value, manager: &str) {
    let Some(served) = core.of_table(table) else { return };
    let name = object["metadata"]["name"].as_str().unwrap_or("");
    if core.store.get(table, &ObjectKey::new(namespace, name)).is_some() {
        return;
    }
    object["kind"] = served.def.kind.as_str().into();
    object["apiVersion"] = served.api_version().into();
    if let Ok(decoded) = crate::write::typed::decode_typed(object, served.type_ref(), &[]) {
        let _ = core.create_object(
            &served,
            namespace,
            decoded.value,
            &WriteAuthor::system(manager),
            FieldOwnership::Update,
        );
    }
}

/// Gives a namespace its default service account and the authority's certificate.
pub(crate) fn furnish_namespace(core: &Core, namespace: &str) {
    create_if_absent(core, "serviceaccounts", namespace, json!({"metadata": {"name": "default"}}), MANAGER);
    create_if_absent(
        core,
        "configmaps",
        namespace,
        json!({
            "metadata": {"name": ROOT_CA, "annotations": {"kubernetes.io/description": ROOT_CA_TEXT}},
            "data": {"ca.crt": core.options.ca},
        }),
        MANAGER,
    );
}

/// Empties namespaces that are being deleted, and restores what the others must have.
pub(super) struct NamespaceLifecycle;

impl Controller for NamespaceLifecycle {
    fn name(&self) -> &'static str {
        "namespace"
    }

    fn observe_event(&mut self, event: &StoreEvent, cluster: &ClusterHandle, queue: &mut WorkQueue) {
        if &*event.table == "namespaces" {
            if event.object.deleting {
                queue.push(WorkItem::of(event));
            }
            return;
        }
        let namespace = event.object.namespace();
        if namespace.is_empty() {
            return;
        }
        let furniture = match (&*event.table, event.object.name()) {
            ("serviceaccounts", "default") => event.change == ChangeType::Deleted,
            ("configmaps", ROOT_CA) => event.change != ChangeType::Added,
            _ => false,
        };
        let going = || {
            cluster.stored_object("namespaces", &ObjectKey::new("", namespace)).is_some_and(|n| n.deleting)
        };
        if furniture || going() {
            queue.push(WorkItem::new("namespaces", "", namespace));
        }
    }

    fn reconcile(&mut self, item: &WorkItem, cluster: &ClusterHandle) -> Result<NextReconcile> {
        let Some(namespace) = cluster.stored_object("namespaces", &item.key) else {
            return Ok(NextReconcile::Done);
        };
        let name = namespace.name();
        if !namespace.deleting {
            furnish_namespace(&cluster.core, name);
            let wanted = json!({"ca.crt": cluster.core.options.ca});
            let known = cluster.get("configmaps", name, ROOT_CA);
            if known.is_some_and(|known| known["data"] != wanted) {
                cluster.update("configmaps", &ObjectKey::new(name, ROOT_CA), MANAGER, |known| {
                    known["data"] = wanted.clone();
                })?;
            }
            return Ok(NextReconcile::Done);
        }
        let now = cluster.now_text();
        let mut rest = RemainingContent::default();
        rest.empty_table(cluster, "pods", name)?;
        if !rest.left.is_empty() {
            // Objects that pods need stay until the pods are gone; other content is not counted yet.
            cluster.update_status("namespaces", &item.key, MANAGER, |value| {
                value["status"]["phase"] = json!("Terminating");
                set_conditions(value, &[], &[], &now);
            })?;
            return Ok(NextReconcile::Done);
        }
        for table in cluster.core.store.table_names() {
            rest.empty_table(cluster, &table, name)?;
        }
        let RemainingContent { mut left, mut finalizers } = rest;
        left.sort();
        finalizers.sort();
        let unfinished = !left.is_empty();
        let done = cluster.update_status("namespaces", &item.key, MANAGER, |value| {
            value["status"]["phase"] = json!("Terminating");
            set_conditions(value, &left, &finalizers, &now);
        });
        if unfinished {
            done?;
            return Ok(NextReconcile::Done);
        }
        match cluster.update_part("namespaces", &item.key, ObjectPart::Finalize, MANAGER, |value| {
            // The remaining finalizers are removed by their own controllers.
            if let Some(finalizers) = value["spec"]["finalizers"].as_array_mut() {
                finalizers.retain(|finalizer| finalizer != "kubernetes");
            }
        }) {
            Err(status) if status.code != 404 => Err(status),
            _ => Ok(NextReconcile::Done),
        }
    }
}

/// The content left in a namespace that is being deleted.
#[derive(Default)]
struct RemainingContent {
    /// Objects by resource.
    left: Vec<(String, usize)>,
    /// Objects by what holds them.
    finalizers: Vec<(String, usize)>,
}

impl RemainingContent {
    /// Deletes the objects of one table, and counts those that stay for now.
    fn empty_table(&mut self, cluster: &ClusterHandle, table: &str, namespace: &str) -> Result<()> {
        let options =
            DeleteOptions { propagation: Some(DeletionPropagation::Background), ..DeleteOptions::default() };
        let Some(served) = cluster.core.of_table(table).filter(|served| served.def.namespaced) else {
            return Ok(());
        };
        for object in cluster.stored_objects(table, Some(namespace)) {
            if !object.deleting {
                cluster.delete(table, &object.key, &options)?;
            }
        }
        let remaining = cluster.stored_objects(table, Some(namespace));
        if remaining.is_empty() {
            return Ok(());
        }
        self.left.push((format!("{}.{}", served.def.plural, served.def.group), remaining.len()));
        for object in remaining {
            let value = object.value();
            for finalizer in value["metadata"]["finalizers"].as_array().into_iter().flatten() {
                let text = finalizer.as_str().unwrap_or("");
                match self.finalizers.iter_mut().find(|(f, _)| f == text) {
                    Some((_, count)) => *count += 1,
                    None => self.finalizers.push((text.to_owned(), 1)),
                }
            }
        }
        Ok(())
    }
}

fn set_conditions(value: &mut Value, left: &[(String, usize)], finalizers: &[(String, usize)], now: &str) {
    let listed = |all: &[(String, usize)], word: &str| {
        all.iter().map(|(n, c)| format!("{n}{word} {c} resource instances")).collect::<Vec<_>>().join(", ")
    };
    let remaining = if left.is_empty() {
        ("False", "ContentRemoved", "All content successfully removed".to_owned())
    } else {
        ("True", "SomeResourcesRemain", format!("Some resources are remaining: {}", listed(left, " has")))
    };
    let held = if finalizers.is_empty() {
        ("False", "ContentHasNoFinalizers", "All content-preserving finalizers finished".to_owned())
    } else {
        (
            "True",
            "SomeFinalizersRemain",
            format!("Some content in the namespace has finalizers remaining: {}", listed(finalizers, " in")),
        )
    };
    let fixed = |reason, text: &str| ("False", reason, text.to_owned());
    let conditions = [
        (
            "NamespaceDeletionDiscoveryFailure",
            fixed("ResourcesDiscovered", "All resources successfully discovered"),
        ),
        (
            "NamespaceDeletionGroupVersionParsingFailure",
            fixed("ParsedGroupVersions", "All legacy kube types successfully parsed"),
        ),
        (
            "NamespaceDeletionContentFailure",
            fixed("ContentDeleted", "All content successfully deleted, may be waiting on finalization"),
        ),
        ("NamespaceContentRemaining", remaining),
        ("NamespaceFinalizersRemaining", held),
    ];
    let old = value["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let new: Vec<Value> = conditions
        .into_iter()
        .map(|(kind, (status, reason, message))| {
            let before = old.iter().find(|c| c["type"] == kind && c["status"] == status);
            let since = before.map_or_else(|| json!(now), |c| c["lastTransitionTime"].clone());
            json!({
                "type": kind, "status": status, "lastTransitionTime": since, "reason": reason, "message": message,
            })
        })
        .collect();
    value["status"]["conditions"] = new.into();
}
