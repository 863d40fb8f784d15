//! Controller revisions: the templates stateful sets and daemon sets have had.

use serde_json::{Value, json};

use super::super::ClusterHandle;
use super::common::*;
use super::template_hash::{revision_hash, template_hash};
use crate::status::Result;

pub(super) const TABLE: &str = "controllerrevisions.apps";

/// Whose revisions they are: each has its own hash, and a label for it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum RevisionOwner {
    StatefulSet,
    DaemonSet,
}

impl RevisionOwner {
    fn hash_label(self) -> &'static str {
        match self {
            RevisionOwner::StatefulSet => "controller.kubernetes.io/hash",
            RevisionOwner::DaemonSet => "controller-revision-hash",
        }
    }
}

/// The revisions of an owner, oldest first, among them one for its present template.
pub(super) struct RevisionHistory {
    pub(super) all: Vec<Value>,
    /// The index of the one for the present template.
    pub(super) update: usize,
}

impl RevisionHistory {
    /// Finds the revisions of `owner`, making one for a template never seen and raising one that
    /// comes back.
    pub(super) fn sync_revisions(
        cluster: &ClusterHandle,
        owner: &Value,
        of: RevisionOwner,
    ) -> Result<RevisionHistory> {
        let mut all = cluster.owned_values(TABLE, namespace_of(owner), uid_of(owner));
        all.sort_by_key(|r| int_at(r, "/revision"));
        let mut template = owner["spec"]["template"].clone();
        template["$patch"] = "replace".into();
        let data = json!({"spec": {"template": template}});
        let last = all.last().map_or(0, |r| int_at(r, "/revision"));
        if let Some(found) = all.iter().position(|r| r["data"] == data) {
            if int_at(&all[found], "/revision") < last {
                cluster.update(TABLE, &key_of(&all[found]), MANAGER, |value| {
                    value["revision"] = (last + 1).into();
                })?;
                let mut raised = all.remove(found);
                raised["revision"] = (last + 1).into();
                all.push(raised);
            }
            let update = all.iter().position(|r| r["data"] == data).unwrap_or(0);
            return Ok(RevisionHistory { all, update });
        }
        let collisions = owner["status"]["collisionCount"].as_i64();
        let hash = match of {
            RevisionOwner::StatefulSet => revision_hash(&data, collisions.unwrap_or(0)),
            RevisionOwner::DaemonSet => template_hash(&owner["spec"]["template"], collisions),
        };
        let mut labels =
            owner["spec"]["template"]["metadata"]["labels"].as_object().cloned().unwrap_or_default();
        labels.insert(of.hash_label().into(), hash.as_str().into());
        let called = format!("{}-{hash}", name_of(owner));
        let mut meta = json!({
            "name": called, "labels": labels, "ownerReferences": [owner_reference(owner)],
        });
        if let Some(generation) = annotation(owner, GENERATION) {
            meta["annotations"][GENERATION] = generation.into();
        }
        let revision = json!({"metadata": meta, "data": data, "revision": last + 1});
        match cluster.create(TABLE, namespace_of(owner), revision, MANAGER) {
            Err(status) if status.code != 409 => return Err(status),
            _ => {}
        }
        let made = cluster.get(TABLE, namespace_of(owner), &called);
        all.push(made.ok_or_else(|| cluster.not_found_status(TABLE, &called))?);
        let update = all.len() - 1;
        Ok(RevisionHistory { all, update })
    }

    pub(super) fn update_revision(&self) -> &Value {
        &self.all[self.update]
    }

    pub(super) fn hash_of(revision: &Value) -> &str {
        [RevisionOwner::StatefulSet, RevisionOwner::DaemonSet]
            .into_iter()
            .find_map(|of| label(revision, of.hash_label()))
            .unwrap_or("")
    }

    /// The template a revision of this name holds.
    pub(super) fn template_of(&self, called: &str) -> Option<Value> {
        let found = self.all.iter().find(|r| name_of(r) == called)?;
        let mut template = found["data"]["spec"]["template"].clone();
        template.as_object_mut()?.shift_remove("$patch");
        Some(template)
    }

    /// Forgets the oldest revisions nobody uses beyond the limit.
    pub(super) fn trim_history(
        &self,
        cluster: &ClusterHandle,
        limit: i64,
        used: impl Fn(&Value) -> bool,
    ) -> Result<()> {
        let idle: Vec<&Value> = self
            .all
            .iter()
            .enumerate()
            .filter(|(i, r)| *i != self.update && !used(r))
            .map(|(_, r)| r)
            .collect();
        let excess = idle.len().saturating_sub(usize::try_from(limit).unwrap_or(usize::MAX));
        for revision in idle.into_iter().take(excess) {
            delete_exactly(cluster, TABLE, revision)?;
        }
        Ok(())
    }
}

pub(super) const GENERATION: &str = "deprecated.daemonset.template.generation";
