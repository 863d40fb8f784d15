//! What happens to one Graph when its turn comes: compile, keep the revision, walk, remove, report.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use slipway_cluster::{Error, ObjectPatch, WriteOptions};
use slipway_manifest::{ObjectRef, object};

use crate::api::{ConditionStatus, GraphStatus};
use crate::compile::{CompileError, CompiledGraph, SharedGraph};
use crate::controller::Engine;
use crate::feed::{Lookup, Reading};
use crate::memory::{GraphMemory, NodeMemory, RevisionState, Superseded};
use crate::names::{GraphId, Place};
use crate::queue::lock;
use crate::revision::MANAGER;
use crate::status::{Report, time_text};
use crate::walk::{PruneOutcome, TeardownTrouble, Walk, WalkMode, kinds_of, open_kinds};

/// When to come back after trouble of the server's.
const TRY_AGAIN: Duration = Duration::from_secs(1);
/// When to look again at something that cannot be removed yet.
const BLOCKED_PAUSE: Duration = Duration::from_secs(30);

/// A Graph as its turn finds it.
struct Turn {
    graph: Arc<GraphId>,
    object: Value,
    uid: String,
    generation: i64,
    now: Timestamp,
}

impl Turn {
    fn at(&self, engine: &Engine) -> ObjectRef {
        ObjectRef::new(engine.options.group.graph(), Some(&self.graph.namespace), &self.graph.name)
    }

    fn is_deleted(&self) -> bool {
        self.object["metadata"]["deletionTimestamp"].is_string()
    }

    fn finalizers(&self) -> Vec<&str> {
        let all = self.object["metadata"]["finalizers"].as_array().into_iter().flatten();
        all.filter_map(Value::as_str).collect()
    }

    fn later(&self, pause: Duration) -> Option<Timestamp> {
        self.now.checked_add(pause).ok()
    }
}

impl Engine {
    /// Walks a Graph; gives when to walk it again if nothing changes before.
    pub(crate) async fn reconcile(&self, graph: &Arc<GraphId>) -> Option<Timestamp> {
        let now = self.clock.now();
        let feed = self.feeds.open(&self.options.group.graph()).await.ok()?;
        let place = Place { namespace: graph.namespace.clone(), name: graph.name.clone() };
        let Lookup::Found(object) = feed.get(&place) else {
            self.forget(graph).await;
            return None;
        };
        if self.options.selector.as_ref().is_some_and(|selector| !selector.matches_object(&object)) {
            return None;
        }
        let turn = Turn {
            graph: graph.clone(),
            uid: object["metadata"]["uid"].as_str().unwrap_or_default().to_owned(),
            generation: object["metadata"]["generation"].as_i64().unwrap_or(0),
            object,
            now,
        };
        self.queue.know(graph.owner(), graph);
        let memory = self.memory(graph);
        let mut memory = memory.lock().await;
        if memory.uid != turn.uid {
            *memory = GraphMemory { uid: turn.uid.clone(), ..GraphMemory::default() };
        }
        match self.take_turn(&turn, &mut memory).await {
            Ok(next) => next,
            // The watch tells when it is there or gone.
            Err(error) if error.is_absent() => turn.later(BLOCKED_PAUSE),
            Err(_) => turn.later(TRY_AGAIN),
        }
    }

    async fn take_turn(&self, turn: &Turn, memory: &mut GraphMemory) -> Result<Option<Timestamp>, Error> {
        let finalizer = self.options.group.finalizer();
        let is_held = turn.finalizers().contains(&finalizer.as_str());
        if turn.is_deleted() && !is_held {
            return Ok(None);
        }
        let compiled = self.specs.compile(&turn.object["spec"]);
        let walked = match &compiled {
            Ok(graph) => Some(graph.clone()),
            Err(_) => self.fallback(turn, memory).await?,
        };
        let Some(graph) = walked else {
            return self.report_uncompiled(turn, memory, compiled.as_ref().err()).await;
        };
        if compiled.is_ok() {
            memory.fallback = None;
            if !turn.is_deleted() {
                if !is_held {
                    self.set_finalizers(turn, |all| all.push(finalizer.clone())).await?;
                }
                self.keep_revision(turn, memory).await?;
            }
        }
        self.load_superseded(turn, memory).await?;
        let mut kinds = kinds_of(&graph);
        for old in memory.superseded.iter().flatten().filter_map(|old| old.graph.as_ref()) {
            for (gvk, reading) in kinds_of(old) {
                let known = kinds.entry(gvk).or_insert(reading);
                *known = (*known).max(reading);
            }
        }
        let owner = controlling_owner(turn);
        if let Some((at, _)) = &owner {
            kinds.entry(at.gvk.clone()).or_insert(Reading::ByName);
        }
        let Some(feeds) = open_kinds(&self.feeds, &self.cluster, &kinds, &turn.graph, turn.now).await else {
            return Ok(None);
        };
        let followed: Mutex<BTreeSet<(slipway_manifest::Gvk, Place)>> = Mutex::default();
        let resync = *memory.resync.get_or_insert_with(|| next_resync(turn, self.options.resync));
        let is_resync = turn.now >= resync;
        if is_resync {
            memory.resync = Some(next_resync(turn, self.options.resync));
        }
        let is_abandoned = match &owner {
            Some((at, uid)) => match feeds.get(&at.gvk) {
                Some(Ok(feed)) => is_terminating(self, feed, at, uid, turn, &followed).await,
                _ => false,
            },
            None => false,
        };
        let walk = Walk {
            cluster: &self.cluster,
            feeds: &feeds,
            graph: &turn.graph,
            owner: turn.graph.owner(),
            generation: turn.generation,
            compiled: &graph,
            now: turn.now,
            mode: if turn.is_deleted() || is_abandoned { WalkMode::Teardown } else { WalkMode::Forward },
            is_resync,
            allowed: &self.options.allowed_kinds,
            write_scope: self.options.write_scope,
            followed: &followed,
        };
        let before = self.nodes_before(turn, memory, &graph);
        let mut nodes = walk.nodes(&before).await;
        let superseded = memory.superseded.take().unwrap_or_default();
        let mut outcome = walk.prune(&mut nodes, &superseded).await;
        memory.superseded = Some(superseded);
        memory.generation = turn.generation;
        let broken = feeds.values().find_map(|feed| feed.as_ref().err());
        memory.followed.append(&mut lock(&followed));
        memory.nodes = nodes;
        if let (true, Some(error)) = (turn.is_deleted(), broken) {
            // What cannot be read cannot be known to be gone.
            outcome.trouble.push(TeardownTrouble::Blocked(error.to_string()));
        }
        if turn.is_deleted() && outcome.remaining == 0 && broken.is_none() {
            self.let_go(turn).await?;
            return Ok(None);
        }
        self.report(turn, memory, compiled.as_ref().map(|_| ()), Some(&graph), &outcome).await?;
        if outcome.remaining == 0 && outcome.trouble.is_empty() && broken.is_none() {
            self.drop_superseded(turn, memory).await?;
        }
        let timers = memory.nodes.iter().filter_map(|node| node.wake).chain(memory.resync);
        let again =
            (!outcome.trouble.is_empty() || broken.is_some()).then(|| turn.later(BLOCKED_PAUSE)).flatten();
        Ok(timers.chain(again).min())
    }

    /// What is remembered of each node, in the order of the graph; a node that is new begins as the status says.
    fn nodes_before(&self, turn: &Turn, memory: &mut GraphMemory, graph: &CompiledGraph) -> Vec<NodeMemory> {
        let told = status_of(&turn.object);
        let mut known = std::mem::take(&mut memory.nodes);
        let mut before = Vec::with_capacity(graph.graph.len());
        for id in graph.graph.ids() {
            if let Some(at) = known.iter().position(|node| node.id == **id) {
                before.push(known.swap_remove(at));
                continue;
            }
            let status = told.nodes.iter().find(|node| node.id == **id);
            before.push(NodeMemory {
                id: id.to_string(),
                state: status.map(|status| status.state).unwrap_or_default(),
                since: status.and_then(|status| status.since.parse().ok()),
                ..NodeMemory::default()
            });
        }
        before
    }

    /// The last spec that compiled, while the present one does not.
    async fn fallback(&self, turn: &Turn, memory: &mut GraphMemory) -> Result<Option<SharedGraph>, Error> {
        if memory.fallback.is_none() {
            for revision in self.revisions.of(&turn.uid).iter().rev() {
                let spec = self.revisions.spec(&turn.graph, &revision.name).await?;
                let compiled = spec
                    .and_then(|spec| serde_json::to_value(spec).ok())
                    .map(|spec| self.specs.compile(&spec));
                if let Some(Ok(graph)) = compiled {
                    memory.fallback = Some(graph);
                    break;
                }
            }
        }
        Ok(memory.fallback.clone())
    }

    async fn keep_revision(&self, turn: &Turn, memory: &mut GraphMemory) -> Result<(), Error> {
        if memory.revision == (RevisionState::Stored { generation: turn.generation }) {
            return Ok(());
        }
        let nodes = &turn.object["spec"]["nodes"];
        self.revisions.store(&turn.graph, &turn.uid, turn.generation, nodes).await?;
        memory.revision = RevisionState::Stored { generation: turn.generation };
        memory.superseded = None;
        Ok(())
    }

    /// Reads the specs that were replaced and may have left objects.
    async fn load_superseded(&self, turn: &Turn, memory: &mut GraphMemory) -> Result<(), Error> {
        if memory.superseded.is_some() {
            return Ok(());
        }
        let mut revisions = self.revisions.of(&turn.uid);
        revisions.pop();
        let mut superseded = Vec::with_capacity(revisions.len());
        for revision in revisions.into_iter().rev() {
            let spec = self.revisions.spec(&turn.graph, &revision.name).await?;
            let value = spec.and_then(|spec| serde_json::to_value(spec).ok());
            let graph = value.and_then(|spec| self.specs.compile(&spec).ok());
            superseded.push(Superseded { name: revision.name, graph });
        }
        memory.superseded = Some(superseded);
        Ok(())
    }

    async fn drop_superseded(&self, turn: &Turn, memory: &mut GraphMemory) -> Result<(), Error> {
        for old in memory.superseded.take().unwrap_or_default() {
            self.revisions.remove(&turn.graph, &turn.uid, &old.name).await?;
        }
        memory.superseded = Some(Vec::new());
        Ok(())
    }

    async fn report_uncompiled(
        &self,
        turn: &Turn,
        memory: &mut GraphMemory,
        error: Option<&CompileError>,
    ) -> Result<Option<Timestamp>, Error> {
        let mut outcome = PruneOutcome::default();
        if turn.is_deleted() {
            // Nothing was ever applied without a revision that compiles.
            if self.revisions.of(&turn.uid).is_empty() {
                self.let_go(turn).await?;
                return Ok(None);
            }
            let message = "no revision compiles, so the order of deletion is not known".to_owned();
            outcome.trouble.push(TeardownTrouble::Blocked(message));
        }
        let compiled = match error {
            Some(error) => Err(error),
            None => Ok(()),
        };
        self.report(turn, memory, compiled, None, &outcome).await?;
        Ok(None)
    }

    /// Writes the status, if it says anything new.
    async fn report(
        &self,
        turn: &Turn,
        memory: &GraphMemory,
        compiled: Result<(), &CompileError>,
        graph: Option<&CompiledGraph>,
        prune: &PruneOutcome,
    ) -> Result<(), Error> {
        let before = status_of(&turn.object);
        let (generation, now) = (turn.generation, turn.now);
        let status = Report { generation, compiled, graph, nodes: &memory.nodes, prune, now }.status(&before);
        if status == before {
            return Ok(());
        }
        let is_ready = |status: &GraphStatus| {
            status.conditions.iter().any(|one| one.kind == "Ready" && one.status == ConditionStatus::True)
        };
        if is_ready(&status)
            && !is_ready(&before)
            && let Some(latest) = self.revisions.of(&turn.uid).pop()
        {
            self.revisions.mark_ready(&turn.graph, &latest.name, &time_text(now)).await?;
        }
        let patch = ObjectPatch::Merge(json!({"status": status}));
        let options = WriteOptions::for_manager(MANAGER);
        let written = self.cluster.patch(&turn.at(self), &patch, &options, Some("status")).await?;
        self.feeds.open(&self.options.group.graph()).await?.put(&written);
        Ok(())
    }

    async fn set_finalizers(&self, turn: &Turn, change: impl FnOnce(&mut Vec<String>)) -> Result<(), Error> {
        let mut finalizers: Vec<String> = turn.finalizers().into_iter().map(str::to_owned).collect();
        change(&mut finalizers);
        let version = &turn.object["metadata"]["resourceVersion"];
        let patch =
            ObjectPatch::Merge(json!({"metadata": {"finalizers": finalizers, "resourceVersion": version}}));
        let options = WriteOptions::for_manager(MANAGER);
        let written = self.cluster.patch(&turn.at(self), &patch, &options, None).await?;
        self.feeds.open(&self.options.group.graph()).await?.put(&written);
        Ok(())
    }

    /// Ends a Graph of which nothing is left: its revisions, then its finalizer.
    async fn let_go(&self, turn: &Turn) -> Result<(), Error> {
        for revision in self.revisions.of(&turn.uid) {
            self.revisions.remove(&turn.graph, &turn.uid, &revision.name).await?;
        }
        let finalizer = self.options.group.finalizer();
        match self.set_finalizers(turn, |all| all.retain(|one| *one != finalizer)).await {
            Err(error) if error.is_absent() => Ok(()),
            other => other,
        }
    }
}

fn status_of(object: &Value) -> GraphStatus {
    object.get("status").and_then(|status| serde_json::from_value(status.clone()).ok()).unwrap_or_default()
}

/// The owner that controls a Graph, with its uid.
fn controlling_owner(turn: &Turn) -> Option<(ObjectRef, String)> {
    let owners = turn.object["metadata"]["ownerReferences"].as_array()?;
    let owner = owners.iter().find(|owner| owner["controller"] == true)?;
    let gvk = object::gvk(owner);
    let at = ObjectRef::new(gvk, Some(&turn.graph.namespace), owner["name"].as_str()?);
    Some((at, owner["uid"].as_str().unwrap_or_default().to_owned()))
}

/// Whether a Graph's owner is being deleted: its objects would be made again while the owner takes them down.
async fn is_terminating(
    engine: &Engine,
    feed: &Arc<crate::feed::Feed>,
    at: &ObjectRef,
    uid: &str,
    turn: &Turn,
    followed: &Mutex<BTreeSet<(slipway_manifest::Gvk, Place)>>,
) -> bool {
    let at = match feed.kind.namespaced {
        true => at.clone(),
        false => ObjectRef { namespace: None, ..at.clone() },
    };
    let place = crate::memory::place_of(&at);
    feed.follow(&place, &turn.graph);
    lock(followed).insert((at.gvk.clone(), place.clone()));
    let live = match feed.get(&place) {
        Lookup::Found(live) => Some(live),
        Lookup::Absent | Lookup::Unknown => engine.cluster.get(&at).await.ok().flatten(),
    };
    // A node may read the owner as well, and takes what is followed and not kept for absent.
    if let Some(live) = &live {
        feed.put(live);
    }
    live.is_some_and(|live| {
        live["metadata"]["uid"] == uid && live["metadata"]["deletionTimestamp"].is_string()
    })
}

/// Spread over two fifths of the interval by the Graph's uid, so that Graphs do not come all at once.
fn next_resync(turn: &Turn, every: Duration) -> Timestamp {
    let spread = crate::project::hash_value(&json!([turn.uid, turn.now.as_second() / 60])) % 400;
    let factor = 0.8 + spread as f64 / 1000.0;
    turn.now.checked_add(every.mul_f64(factor)).unwrap_or(Timestamp::MAX)
}
