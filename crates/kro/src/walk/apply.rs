//! Writes one object of a node, if it is not as it should be.

use serde_json::{Value, json};
use slipway_cluster::ApplyOptions;
use slipway_manifest::fields::{FieldPath, FieldSet};
use slipway_manifest::{ObjectRef, object};

use super::Walk;
use super::evaluate::{LiveObject, NodeFailure, Stop};
use crate::compile::Node;
use crate::controller::WriteScope;
use crate::memory::NodeObject;
use crate::names::{DOMAIN, Role, TEMPLATE_HASH, ownership};
use crate::project::{hash_value, holds};

/// The hash of what a node wants an object to be.
pub(super) fn template_hash(manifest: &Value) -> u64 {
    hash_value(manifest)
}

fn version(live: Option<&Value>) -> u64 {
    let text = live.and_then(|live| live["metadata"]["resourceVersion"].as_str());
    text.and_then(|text| text.parse().ok()).unwrap_or(0)
}

impl Walk<'_> {
    pub(super) fn check_allowed(&self, at: &ObjectRef) -> Result<(), NodeFailure> {
        if self.allowed.contains(&at.gvk) {
            return Ok(());
        }
        let message = format!("{at}: Graphs may not use this kind here");
        Err(NodeFailure::wrong("Forbidden", message))
    }

    fn check_scope(&self, at: &ObjectRef) -> Result<(), NodeFailure> {
        let is_own = at.namespace.as_ref() == Some(&self.graph.namespace);
        if self.write_scope == WriteScope::AnyNamespace || is_own {
            return Ok(());
        }
        let message = format!("{at}: Graphs may write in their own namespace only");
        Err(NodeFailure::wrong("Forbidden", message))
    }

    /// Makes an object as a node wants it; writes only where it is not.
    pub(super) async fn write(
        &self,
        node: &Node,
        at: ObjectRef,
        manifest: Value,
        known: Option<&NodeObject>,
    ) -> Result<LiveObject, Stop> {
        self.check_allowed(&at)?;
        self.check_scope(&at)?;
        let role = node.body.kind.role().unwrap_or(Role::Template);
        let feed = self.feed(&at.gvk).map_err(|error| NodeFailure::of(&error))?.clone();
        let live = self.read(&feed, &at).await.map_err(|error| NodeFailure::of(&error))?;
        let seen = version(live.as_ref());
        if let Some(live) = &live {
            if live["metadata"]["deletionTimestamp"].is_string() && role == Role::Template {
                return Err(Stop::Pending {
                    reason: "Terminating",
                    message: format!("{at} is being deleted"),
                });
            }
            self.check_owner(node, role, live, seen)?;
        } else if role == Role::Patch {
            return Err(Stop::Pending { reason: "Absent", message: format!("{at} does not exist") });
        }
        let desired = template_hash(&manifest);
        let mut object = NodeObject { at, desired, equivalent: known.map_or(0, |known| known.equivalent) };
        if let Some(live) = live.as_ref().filter(|live| self.is_ours(node, live))
            && self.applied_hash(node, live) == Some(desired)
            && (!self.is_resync || object.equivalent == seen || holds(live, &manifest))
        {
            return Ok(LiveObject { object, value: live.clone(), is_updated: true });
        }
        let answer = self.send(node, role, &object.at, manifest, desired, live.as_ref()).await;
        let written = answer.map_err(|error| NodeFailure::of(&error).on(&object.at, seen))?;
        if version(Some(&written)) == seen {
            object.equivalent = seen;
        }
        feed.put(&written);
        self.check_sharing(node, role, &object.at, &written).await?;
        Ok(LiveObject { object, value: written, is_updated: true })
    }

    /// The hash an object was last applied with by a node.
    pub(super) fn applied_hash(&self, node: &Node, live: &Value) -> Option<u64> {
        let key = self.hash_annotation(node, node.body.kind.role().unwrap_or(Role::Template));
        u64::from_str_radix(object::annotation(live, &key)?, 16).ok()
    }

    /// An object is made by one node but may be patched by many: each keeps its own hash.
    fn hash_annotation(&self, node: &Node, role: Role) -> String {
        match role {
            Role::Template => TEMPLATE_HASH.to_owned(),
            Role::Patch => self.owner.hash_annotation(&node.id),
        }
    }

    fn is_ours(&self, node: &Node, live: &Value) -> bool {
        object::label(live, &self.owner.type_label(&node.id)).is_some()
    }

    async fn send(
        &self,
        node: &Node,
        role: Role,
        at: &ObjectRef,
        mut manifest: Value,
        desired: u64,
        live: Option<&Value>,
    ) -> Result<Value, slipway_cluster::Error> {
        let status = manifest.as_object_mut().and_then(|map| map.shift_remove("status"));
        let identity = self.identity(at);
        if let Some(metadata) = object::metadata_mut(&mut manifest) {
            for (key, value) in identity["metadata"].as_object().into_iter().flatten() {
                metadata.insert(key.clone(), value.clone());
            }
            // Fields of an object that was replaced meanwhile are none of ours.
            if let (Role::Patch, Some(uid)) = (role, live.and_then(|live| live["metadata"]["uid"].as_str())) {
                metadata.insert("uid".to_owned(), uid.into());
            }
        }
        object::set_label(&mut manifest, &self.owner.type_label(&node.id), role.word());
        object::set_label(
            &mut manifest,
            &self.owner.generation_label(&node.id),
            &self.generation.to_string(),
        );
        object::set_annotation(&mut manifest, &self.hash_annotation(node, role), &format!("{desired:016x}"));
        let options = self.apply_options(node);
        let written = self.cluster.apply(at, &manifest, &options).await?;
        match status {
            Some(status) => {
                let mut manifest = identity;
                manifest["status"] = status;
                self.cluster.apply_status(at, &manifest, &options).await
            }
            None => Ok(written),
        }
    }

    pub(super) fn apply_options(&self, node: &Node) -> ApplyOptions {
        let manager = match node.body.kind.role() {
            Some(Role::Patch) => self.owner.patch_manager(&node.id),
            _ => self.owner.manager(),
        };
        ApplyOptions { force: node.is_forced, ..ApplyOptions::new(manager) }
    }

    /// An object without anything but its identity; applied, it gives up every field.
    pub(super) fn identity(&self, at: &ObjectRef) -> Value {
        let mut identity = json!({
            "apiVersion": at.gvk.api_version(), "kind": at.gvk.kind, "metadata": {"name": at.name},
        });
        if let Some(namespace) = &at.namespace {
            identity["metadata"]["namespace"] = namespace.as_str().into();
        }
        identity
    }

    /// Refuses an object that another Graph, or another node of this one, has made.
    fn check_owner(&self, node: &Node, role: Role, live: &Value, version: u64) -> Result<(), NodeFailure> {
        if role == Role::Patch || node.is_forced {
            return Ok(());
        }
        match self.other_maker(node, live) {
            Some(other) => Err(NodeFailure::conflict(
                format!("{} is made by {other}", ObjectRef::of(live)),
                &ObjectRef::of(live),
                version,
            )),
            None => Ok(()),
        }
    }

    /// Who else says that they made an object.
    fn other_maker(&self, node: &Node, live: &Value) -> Option<String> {
        let own = node.id.to_lowercase();
        object::labels(live).filter_map(|(key, value)| ownership(key, value)).find_map(|found| {
            let is_own = found.owner == self.owner && found.node == own;
            (found.role == Role::Template && !is_own)
                .then(|| format!("node `{}` of {}", found.node, found.owner.manager()))
        })
    }

    /// After a write: whoever came second steps back.
    async fn check_sharing(
        &self,
        node: &Node,
        role: Role,
        at: &ObjectRef,
        written: &Value,
    ) -> Result<(), NodeFailure> {
        if node.is_forced {
            return Ok(());
        }
        let other = match role {
            Role::Template => self.other_maker(node, written).map(|other| format!("{at} is made by {other}")),
            Role::Patch => {
                self.shared_fields(node, written).map(|other| format!("{at}: {other} owns the same fields"))
            }
        };
        let Some(message) = other else { return Ok(()) };
        let version = version(Some(written));
        let released = self.cluster.apply(at, &self.identity(at), &self.apply_options(node)).await;
        if let (Ok(released), Ok(feed)) = (&released, self.feed(&at.gvk)) {
            feed.put(released);
        }
        Err(NodeFailure::conflict(message, at, version))
    }

    /// Another Graph that owns a field this one applied, even with the same value.
    fn shared_fields(&self, node: &Node, written: &Value) -> Option<String> {
        let manager = self.apply_options(node).manager;
        let fields = |entry: &Value| FieldSet::from_fields_v1(&entry["fieldsV1"]).ok();
        let entries = written["metadata"]["managedFields"].as_array()?;
        let mine = entries.iter().filter(|entry| entry["manager"] == manager.as_str()).filter_map(fields);
        let mine = mine.fold(FieldSet::new(), |all, more| all.union(&more));
        entries.iter().find_map(|entry| {
            let name = entry["manager"].as_str()?;
            let is_other_graph = name != manager && name.ends_with(DOMAIN);
            let shared = mine.intersection(&fields(entry)?).leaves();
            let is_shared = shared.paths().iter().any(|path| !is_bookkeeping(path));
            (is_other_graph && is_shared).then(|| name.to_owned())
        })
    }
}

/// Whether a field is one every Graph writes for itself.
fn is_bookkeeping(path: &FieldPath) -> bool {
    let text = path.to_string();
    text.contains(DOMAIN) || text == ".metadata.labels" || text == ".metadata.annotations"
}
