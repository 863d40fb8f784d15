//! Removes what is no longer wanted: in reverse order, a level at a time, finalizers first.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;
use slipway_cluster::{DeleteOptions, DeleteOutcome, Error};
use slipway_graph::NodeRef;
use slipway_manifest::{Gvk, ObjectRef, object};

use super::evaluate::Stop;
use super::{Walk, WalkMode, scope};
use crate::api::NodeState;
use crate::compile::{CompiledGraph, Node};
use crate::feed::{Feed, Lookup};
use crate::memory::{NodeMemory, Superseded};
use crate::names::{DOMAIN, Place, Role, ownership};
use crate::project::project;

/// What stands in the way of removing something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TeardownTrouble {
    Blocked(String),
    /// There was nothing left to finalize.
    FinalizerSkipped(String),
}

/// How far removing has come.
#[derive(Debug, Default)]
pub(crate) struct PruneOutcome {
    /// How many objects are still to go.
    pub(crate) remaining: usize,
    pub(crate) trouble: Vec<TeardownTrouble>,
}

/// Whether an object is gone.
enum Removal {
    Done,
    UnderWay,
}

/// An object nobody wants any more.
struct Candidate<'c> {
    node: String,
    at: ObjectRef,
    feed: Arc<Feed>,
    value: Value,
    role: Role,
    /// The graph that says what depends on it, and its level there.
    graph: Option<&'c CompiledGraph>,
    level: usize,
}

impl Walk<'_> {
    /// Removes what is no longer wanted, as far as it goes at once. Called again when something is gone.
    pub(crate) async fn prune(&self, nodes: &mut [NodeMemory], superseded: &[Superseded]) -> PruneOutcome {
        loop {
            let (outcome, removed) = self.prune_level(nodes, superseded).await;
            // What went at once makes room for the next level; the rest is waited for.
            if removed == 0 {
                return outcome;
            }
        }
    }

    /// Removes one level; gives how many objects went at once.
    async fn prune_level(
        &self,
        nodes: &mut [NodeMemory],
        superseded: &[Superseded],
    ) -> (PruneOutcome, usize) {
        let mut outcome = PruneOutcome::default();
        let graphs: Vec<&CompiledGraph> = std::iter::once(self.compiled)
            .chain(superseded.iter().filter_map(|old| old.graph.as_deref()))
            .collect();
        let candidates = self.candidates(nodes, &graphs);
        outcome.remaining = candidates.len();
        if self.mode == WalkMode::Teardown {
            self.note_skipped(nodes, &mut outcome);
        }
        let deferred = self.deferred(&candidates);
        let open: Vec<&Candidate<'_>> =
            candidates.iter().filter(|one| !deferred.contains(&one.node)).collect();
        // Finalizers start at once, while everything they read is still there.
        let mut unfinished: BTreeSet<String> = BTreeSet::new();
        for target in &open {
            if let Some(graph) = target.graph
                && target.role == Role::Template
                && let Err(message) = self.finalize(graph, target, nodes).await
            {
                unfinished.insert(target.node.clone());
                outcome.trouble.push(TeardownTrouble::Blocked(message));
            }
        }
        let Some(last) = open.iter().map(|one| one.level).max() else { return (outcome, 0) };
        let mut removed = 0;
        for candidate in open.iter().filter(|one| one.level == last && !unfinished.contains(&one.node)) {
            match self.remove(candidate).await {
                Ok(Removal::Done) => removed += 1,
                Ok(Removal::UnderWay) => {}
                Err(message) => outcome.trouble.push(TeardownTrouble::Blocked(message)),
            }
        }
        (outcome, removed)
    }

    /// Everything labelled with this Graph whose absence is certainly wanted.
    fn candidates<'c>(&self, nodes: &[NodeMemory], graphs: &[&'c CompiledGraph]) -> Vec<Candidate<'c>> {
        let mut found = Vec::new();
        for (gvk, feed) in self.feeds.iter().filter_map(|(gvk, feed)| Some((gvk, feed.as_ref().ok()?))) {
            for (node, place) in feed.owned(&self.owner) {
                if !self.is_surplus(nodes, gvk, &node, &place) {
                    continue;
                }
                let Lookup::Found(value) = feed.get(&place) else { continue };
                let graph = graphs.iter().copied().find(|graph| graph.position_of(&node).is_some());
                let level = graph.and_then(|graph| {
                    let position = graph.position_of(&node)?;
                    graph.graph.nodes().nth(position).map(NodeRef::wave)
                });
                let role = object::labels(&value)
                    .filter_map(|(key, value)| ownership(key, value))
                    .find(|label| label.owner == self.owner && label.node == node)
                    .map_or(Role::Template, |label| label.role);
                found.push(Candidate {
                    at: ObjectRef::new(gvk.clone(), Some(&place.namespace), place.name.clone()),
                    feed: feed.clone(),
                    level: level.unwrap_or(0),
                    node,
                    value,
                    role,
                    graph,
                });
            }
        }
        found.sort_by(|a, b| a.at.cmp(&b.at));
        found
    }

    fn is_surplus(&self, nodes: &[NodeMemory], gvk: &Gvk, node: &str, place: &Place) -> bool {
        let Some(position) = self.compiled.position_of(node) else { return true };
        let (Some(memory), Some(current)) = (nodes.get(position), self.compiled.graph.nodes().nth(position))
        else {
            return false;
        };
        let current = current.value();
        if self.mode == WalkMode::Teardown
            || current.body.gvk.as_ref() != Some(gvk)
            || current.body.kind.role().is_none()
        {
            return true;
        }
        if current.is_finalizer() {
            // Not while what it finalizes is there; that decides below.
            return true;
        }
        memory.is_complete
            && !memory.objects.iter().any(|object| object.at.gvk == *gvk && object.place() == *place)
    }

    /// Nodes whose objects have to stay for now: finalizers whose target is there, and what those read.
    fn deferred(&self, candidates: &[Candidate<'_>]) -> BTreeSet<String> {
        let mut deferred = BTreeSet::new();
        for target in candidates {
            let Some(graph) = target.graph else { continue };
            let id = graph.position_of(&target.node).and_then(|position| graph.graph.nodes().nth(position));
            let Some(id) = id.map(|node| node.id().to_string()) else { continue };
            for finalizer in graph.finalizers_of(&id) {
                deferred.insert(finalizer.id.to_lowercase());
                let read = finalizer.dependencies.keys().filter(|read| **read != id);
                deferred.extend(read.map(|read| read.to_lowercase()));
            }
        }
        deferred
    }

    /// Brings the finalizers of an object to their end; says what is missing until then.
    async fn finalize(
        &self,
        graph: &CompiledGraph,
        target: &Candidate<'_>,
        nodes: &mut [NodeMemory],
    ) -> Result<(), String> {
        let position = graph.position_of(&target.node);
        let Some(node) = position.and_then(|position| graph.graph.nodes().nth(position)) else {
            return Ok(());
        };
        let finalizers: Vec<&Node> = graph.finalizers_of(node.id()).collect();
        if finalizers.is_empty() || target.value["metadata"]["deletionTimestamp"].is_string() {
            return Ok(());
        }
        let walk = Walk { compiled: graph, owner: self.owner.clone(), ..*self };
        let mut seen: Vec<NodeMemory> = nodes.to_vec();
        let view = Arc::new(project(&target.value, &node.value().exposed));
        match seen.iter_mut().find(|memory| memory.id == **node.id()) {
            Some(memory) => memory.view = Some(view),
            None => {
                seen.push(NodeMemory {
                    id: node.id().to_string(),
                    view: Some(view),
                    ..NodeMemory::default()
                });
            }
        }
        for finalizer in finalizers {
            let is_ready = walk.run_finalizer(finalizer, &seen).await.map_err(|stop| {
                let reason = match stop {
                    Stop::Excluded(message) | Stop::Pending { message, .. } => message,
                    Stop::Failed(failure) => failure.message,
                };
                format!("`{}` cannot be created: {reason}", finalizer.id)
            })?;
            let memory = nodes.iter_mut().find(|memory| memory.id == finalizer.id);
            if !is_ready {
                let message = format!("waits until `{}` is ready", finalizer.id);
                if let Some(memory) = memory {
                    memory.enter(NodeState::NotReady, "Finalizing", "", self.now);
                }
                return Err(format!("{}: {message}", target.at));
            }
            if let Some(memory) = memory {
                memory.enter(NodeState::Ready, "Finalized", "", self.now);
            }
        }
        Ok(())
    }

    /// Creates what a finalizer says, and says whether it is ready.
    async fn run_finalizer(&self, finalizer: &Node, seen: &[NodeMemory]) -> Result<bool, Stop> {
        let existing = self.existing_objects(finalizer);
        if !existing.is_empty() {
            return Ok(existing.iter().all(|live| self.is_object_ready(finalizer, &live.value)));
        }
        let scope = scope::dependencies(finalizer, seen);
        let mut is_ready = true;
        for manifest in self.render(finalizer, &scope, &[Vec::new()])? {
            let at = self.place(finalizer, &manifest)?;
            let live = self.write(finalizer, at, manifest, None).await?;
            is_ready &= self.is_object_ready(finalizer, &live.value);
        }
        Ok(is_ready)
    }

    /// Finalizers whose target never was, or is gone.
    fn note_skipped(&self, nodes: &[NodeMemory], outcome: &mut PruneOutcome) {
        for node in self.compiled.graph.nodes() {
            let Some(target) = &node.value().finalizes else { continue };
            let target = self.compiled.graph.get(target);
            let is_gone = target.is_none_or(|target| self.owned_objects(target).is_empty());
            let has_run = nodes.get(node.position()).is_some_and(|memory| memory.state == NodeState::Ready)
                || !self.owned_objects(node.value()).is_empty();
            if is_gone && !has_run {
                outcome.trouble.push(TeardownTrouble::FinalizerSkipped(node.id().to_string()));
            }
        }
    }

    async fn remove(&self, candidate: &Candidate<'_>) -> Result<Removal, String> {
        let said = |error: Error| error.to_string();
        if candidate.role == Role::Patch {
            let node = candidate.graph.and_then(|graph| {
                let position = graph.position_of(&candidate.node)?;
                graph.graph.nodes().nth(position)
            });
            let manager = match node {
                Some(node) => self.owner.patch_manager(node.id()),
                None => self.owner.patch_manager(&candidate.node),
            };
            let options =
                slipway_cluster::ApplyOptions { force: false, ..slipway_cluster::ApplyOptions::new(manager) };
            let released = self.cluster.apply(&candidate.at, &self.identity(&candidate.at), &options).await;
            candidate.feed.put(&released.map_err(said)?);
            return Ok(Removal::Done);
        }
        if candidate.value["metadata"]["deletionTimestamp"].is_string() {
            return Ok(Removal::UnderWay);
        }
        let Some(live) = self.cluster.get(&candidate.at).await.map_err(said)? else {
            candidate.feed.drop_object(&Place::of(&candidate.value));
            return Ok(Removal::Done);
        };
        if self.mode == WalkMode::Forward
            && let Some(manager) = foreign_manager(&live)
        {
            return Err(format!("{} is kept: `{manager}` owns fields of its spec", candidate.at));
        }
        let uid = live["metadata"]["uid"].as_str().map(str::to_owned);
        match self
            .cluster
            .delete(&candidate.at, &DeleteOptions { uid, ..DeleteOptions::default() })
            .await
            .map_err(said)?
        {
            DeleteOutcome::Gone => {
                candidate.feed.drop_object(&Place::of(&candidate.value));
                Ok(Removal::Done)
            }
            DeleteOutcome::Terminating(value) => {
                candidate.feed.put(&value);
                Ok(Removal::UnderWay)
            }
        }
    }
}

/// A manager that is neither a Graph nor a controller writing status, and owns fields of the spec.
fn foreign_manager(live: &Value) -> Option<&str> {
    let entries = live["metadata"]["managedFields"].as_array()?;
    entries.iter().find_map(|entry| {
        let name = entry["manager"].as_str()?;
        let is_status = entry["subresource"].as_str().is_some_and(|subresource| !subresource.is_empty());
        let is_ours = name.ends_with(DOMAIN) || name.starts_with("slipway");
        (!is_status && !is_ours && entry["fieldsV1"].get("f:spec").is_some()).then_some(name)
    })
}
