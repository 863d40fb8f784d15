//! Namespaces: what a new one is furnished with, and how one goes.

use serde_json::{Value, json};

use super::{Cluster, Controller, Item, Next, Queue};
use crate::core::Core;
use crate::status::Result;
use crate::store::{Change, Event, Key};
use crate::write::admit::prepare::Part;
use crate::write::delete::{DeleteOptions, Propagation};
use crate::write::{Author, Ownership};

const MANAGER: &str = "kube-controller-manager";
const ROOT_CA: &str = "kube-root-ca.crt";
const ROOT_CA_TEXT: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters.";

/// The namespaces every cluster has.
const SYSTEM: &[&str] = &["default", "kube-node-lease", "kube-public", "kube-system"];

pub(super) fn furnish_system_namespaces(core: &Core) {
    for name in SYSTEM {
        create(core, "namespaces", "", json!({"metadata": {"name": name}}), "kube-apiserver");
    }
}

/// Creates an object if it is not there. Failing only means that it is.
pub(crate) fn create(core: &Core, table: &str, namespace: &str, mut object: Value, manager: &str) {
    let Some(served) = core.of_table(table) else { return };
    let name = object["metadata"]["name"].as_str().unwrap_or("");
    if core.store.get(table, &Key::new(namespace, name)).is_some() {
        return;
    }
    object["kind"] = served.def.kind.as_str().into();
    object["apiVersion"] = served.api_version().into();
    if let Ok(decoded) = crate::write::typed::decode(object, served.shape(), &[]) {
        let _ = core.create(&served, namespace, decoded.value, &Author::system(manager), Ownership::Update);
    }
}

/// Gives a namespace its default service account and the authority's certificate.
pub(crate) fn furnish_namespace(core: &Core, namespace: &str) {
    create(core, "serviceaccounts", namespace, json!({"metadata": {"name": "default"}}), MANAGER);
    create(
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

/// Empties namespaces that are going, and keeps the others furnished.
pub(super) struct Lifecycle;

impl Controller for Lifecycle {
    fn name(&self) -> &'static str {
        "namespace"
    }

    fn observe(&mut self, event: &Event, cluster: &Cluster, queue: &mut Queue) {
        if &*event.table == "namespaces" {
            if event.object.deleting {
                queue.push(Item::of(event));
            }
            return;
        }
        let namespace = event.object.namespace();
        if namespace.is_empty() {
            return;
        }
        let furniture = event.change == Change::Deleted
            && matches!(
                (&*event.table, event.object.name()),
                ("serviceaccounts", "default") | ("configmaps", ROOT_CA)
            );
        let going = || cluster.object("namespaces", &Key::new("", namespace)).is_some_and(|n| n.deleting);
        if furniture || going() {
            queue.push(Item::new("namespaces", "", namespace));
        }
    }

    fn reconcile(&mut self, item: &Item, cluster: &Cluster) -> Result<Next> {
        let Some(namespace) = cluster.object("namespaces", &item.key) else { return Ok(Next::Done) };
        let name = namespace.name();
        if !namespace.deleting {
            furnish_namespace(&cluster.core, name);
            return Ok(Next::Done);
        }
        let now = cluster.timestamp();
        let mut rest = Remains::default();
        rest.empty(cluster, "pods", name)?;
        if !rest.left.is_empty() {
            // Whatever pods need is left until they are gone; what else is there is not counted yet.
            cluster.update_status("namespaces", &item.key, MANAGER, |value| {
                value["status"]["phase"] = json!("Terminating");
                set_conditions(value, &[], &[], &now);
            })?;
            return Ok(Next::Done);
        }
        for table in cluster.core.store.tables() {
            rest.empty(cluster, &table, name)?;
        }
        let Remains { mut left, mut finalizers } = rest;
        left.sort();
        finalizers.sort();
        let unfinished = !left.is_empty();
        let done = cluster.update_status("namespaces", &item.key, MANAGER, |value| {
            value["status"]["phase"] = json!("Terminating");
            set_conditions(value, &left, &finalizers, &now);
        });
        if unfinished {
            done?;
            return Ok(Next::Done);
        }
        match cluster.change("namespaces", &item.key, Part::Finalize, MANAGER, |value| {
            // Others let go of it by themselves.
            if let Some(finalizers) = value["spec"]["finalizers"].as_array_mut() {
                finalizers.retain(|finalizer| finalizer != "kubernetes");
            }
        }) {
            Err(status) if status.code != 404 => Err(status),
            _ => Ok(Next::Done),
        }
    }
}

/// What is left of a namespace that is going.
#[derive(Default)]
struct Remains {
    /// Objects by resource.
    left: Vec<(String, usize)>,
    /// Objects by what holds them.
    finalizers: Vec<(String, usize)>,
}

impl Remains {
    /// Deletes the objects of one table, and counts those that stay for now.
    fn empty(&mut self, cluster: &Cluster, table: &str, namespace: &str) -> Result<()> {
        let options =
            DeleteOptions { propagation: Some(Propagation::Background), ..DeleteOptions::default() };
        let Some(served) = cluster.core.of_table(table).filter(|served| served.def.namespaced) else {
            return Ok(());
        };
        for object in cluster.objects(table, Some(namespace)) {
            if !object.deleting {
                cluster.delete(table, &object.key, &options)?;
            }
        }
        let remaining = cluster.objects(table, Some(namespace));
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
