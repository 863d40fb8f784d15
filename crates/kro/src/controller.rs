//! The controller: takes Graphs from the queue and walks them.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use slipway_cluster::{Cluster, Error, RetryPolicy, ServedKind};
use slipway_event::Clock;
use slipway_manifest::Gvk;
use slipway_manifest::selector::LabelSelector;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::api::{ApiGroup, NodeState};
use crate::feed::{Feed, Feeds};
use crate::memory::GraphMemory;
use crate::names::{GraphId, Place};
use crate::queue::{Queue, lock};
use crate::revision::Revisions;
use crate::specs::Specs;
use crate::work_queue::{QueueReport, contain_panic};

/// The time after which a Graph whose walk panicked is walked again.
const AFTER_PANIC: Duration = Duration::from_secs(5 * 60);

/// The kinds Graphs may use.
#[derive(Clone, Debug, Default)]
pub enum AllowedKinds {
    #[default]
    All,
    /// By group and kind.
    Only(BTreeSet<(String, String)>),
}

impl AllowedKinds {
    pub(crate) fn contains(&self, gvk: &Gvk) -> bool {
        match self {
            Self::All => true,
            Self::Only(kinds) => kinds.contains(&(gvk.group.clone(), gvk.kind.clone())),
        }
    }
}

/// Where Graphs may write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WriteScope {
    /// In any namespace the controller may.
    #[default]
    AnyNamespace,
    /// In the Graph's own namespace only, so that whoever may create Graphs gains nothing by it elsewhere.
    OwnNamespace,
}

/// Settings of a controller.
#[derive(Clone, Debug)]
pub struct ControllerOptions {
    pub group: ApiGroup,
    /// Which Graphs are carried out; all when there is none.
    pub selector: Option<LabelSelector>,
    pub allowed_kinds: AllowedKinds,
    pub write_scope: WriteScope,
    /// How many Graphs are walked at once.
    pub workers: usize,
    /// How often what was applied is compared with what is there, give or take a fifth.
    pub resync: Duration,
}

impl Default for ControllerOptions {
    fn default() -> Self {
        Self {
            group: ApiGroup::default(),
            selector: None,
            allowed_kinds: AllowedKinds::All,
            write_scope: WriteScope::default(),
            workers: 8,
            resync: Duration::from_secs(30 * 60),
        }
    }
}

/// Why a controller does not run.
#[derive(Debug, thiserror::Error)]
pub enum ControllerError {
    #[error("read the Graphs of {group}")]
    Graphs {
        group: &'static str,
        #[source]
        source: Error,
    },
}

/// Carries out the Graphs of a cluster; cheap to clone.
#[derive(Clone)]
pub struct GraphController {
    engine: Arc<Engine>,
}

/// Everything walks share.
pub(crate) struct Engine {
    pub(crate) cluster: Cluster,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) options: ControllerOptions,
    pub(crate) specs: Specs,
    pub(crate) feeds: Feeds,
    pub(crate) queue: Arc<Queue>,
    pub(crate) revisions: Revisions,
    pub(crate) graphs: Mutex<HashMap<Arc<GraphId>, Arc<tokio::sync::Mutex<GraphMemory>>>>,
    /// The states of each Graph's nodes after its last walk, for figures.
    states: Mutex<HashMap<Arc<GraphId>, Box<[NodeState]>>>,
}

impl GraphController {
    pub fn new(cluster: &Cluster, clock: Arc<dyn Clock>, options: ControllerOptions) -> Self {
        // Trouble is shown in the status and tried again later; a walk does not wait for it.
        let retry = RetryPolicy {
            attempts: 3,
            patience: Duration::from_secs(5),
            webhooks: Duration::ZERO,
            ..RetryPolicy::default()
        };
        let cluster = cluster.clone().with_retry(retry);
        let queue = Arc::new(Queue::default());
        let engine = Engine {
            feeds: Feeds::new(cluster.clone(), queue.clone(), options.group.graph()),
            revisions: Revisions::new(cluster.clone(), options.group),
            specs: Specs::new(),
            graphs: Mutex::default(),
            states: Mutex::default(),
            cluster,
            clock,
            options,
            queue,
        };
        Self { engine: Arc::new(engine) }
    }

    /// Walks Graphs whenever something changes, until it is told to stop. Walks under way are finished.
    pub async fn run(&self, stop: CancellationToken) -> Result<(), ControllerError> {
        let engine = &self.engine;
        let group = engine.options.group;
        let failed = |source| ControllerError::Graphs { group: group.name(), source };
        engine.revisions.load().await.map_err(failed)?;
        engine.feeds.open(&group.graph()).await.map_err(failed)?;
        let workers = engine.options.workers.max(1);
        let places = Arc::new(Semaphore::new(workers));
        while !stop.is_cancelled() {
            let now = engine.clock.now();
            while let Ok(place) = places.clone().try_acquire_owned()
                && let Some(graph) = engine.queue.take(now)
            {
                let engine = engine.clone();
                tokio::spawn(async move {
                    let walk = async {
                        let next = engine.reconcile(&graph).await;
                        engine.note_states(&graph).await;
                        next
                    };
                    let later = || engine.clock.now().checked_add(AFTER_PANIC).ok();
                    let next = contain_panic(walk).await.unwrap_or_else(later);
                    drop(place);
                    engine.queue.done(&graph, next);
                });
            }
            let until = engine.queue.next_due().map(|due| time_until(now, due));
            tokio::select! {
                () = stop.cancelled() => break,
                () = engine.queue.changed() => {}
                () = sleep(until) => {}
            }
        }
        let _ = places.acquire_many_owned(u32::try_from(workers).unwrap_or(u32::MAX)).await;
        Ok(())
    }

    /// Says that the clock was moved by hand, so that timers are looked at.
    pub fn clock_moved(&self) {
        self.engine.queue.poke();
    }

    /// Whether no Graph is walked or waits to be, timers aside, and every Graph there is was read.
    pub fn is_idle(&self) -> bool {
        let feeds = self.engine.feeds.all();
        !feeds.is_empty() && feeds.iter().all(|(_, feed)| feed.has_synced()) && self.engine.queue.is_idle()
    }

    /// Returns true if everything that happened was seen and nothing is left to do, timers aside: for whoever can tell
    /// that a kind has changed since a version, which the embedded cluster can.
    pub fn is_settled(&self, has_newer: &dyn Fn(&ServedKind, u64) -> bool) -> bool {
        let walks = self.walks();
        let is_behind = |feed: &Feed| has_newer(&feed.kind, feed.seen());
        self.is_idle()
            && !self.engine.feeds.all().iter().any(|(_, feed)| is_behind(feed))
            // A change that came meanwhile has begun a walk, or waits for one.
            && self.is_idle()
            && self.walks() == walks
            // A timer that is due is work nobody has taken yet.
            && self.next_due().is_none_or(|due| due > self.engine.clock.now())
    }

    /// The figures of the queue of Graphs.
    pub fn queue_report(&self) -> QueueReport {
        self.engine.queue.report()
    }

    /// How many nodes of all Graphs are in which state.
    pub fn node_counts(&self) -> HashMap<NodeState, u64> {
        let mut counts = HashMap::new();
        for state in lock(&self.engine.states).values().flat_map(|states| states.iter()) {
            *counts.entry(*state).or_default() += 1;
        }
        counts
    }

    /// How many walks were begun so far.
    pub fn walks(&self) -> u64 {
        self.engine.queue.started()
    }

    /// When the next timer is due.
    pub fn next_due(&self) -> Option<Timestamp> {
        self.engine.queue.next_due()
    }

    /// The Graphs that are kept in memory.
    pub fn graphs(&self) -> Vec<GraphId> {
        let mut graphs: Vec<GraphId> = lock(&self.engine.graphs).keys().map(|id| (**id).clone()).collect();
        graphs.sort();
        graphs
    }
}

fn time_until(now: Timestamp, due: Timestamp) -> Duration {
    // A little late rather than a little early, which would only go round once more.
    Duration::try_from(due.duration_since(now)).unwrap_or(Duration::ZERO) + Duration::from_millis(1)
}

async fn sleep(time: Option<Duration>) {
    match time {
        Some(time) => tokio::time::sleep(time).await,
        None => std::future::pending().await,
    }
}

impl Engine {
    pub(crate) fn memory(&self, graph: &Arc<GraphId>) -> Arc<tokio::sync::Mutex<GraphMemory>> {
        lock(&self.graphs).entry(graph.clone()).or_default().clone()
    }

    /// Keeps the states of a Graph's nodes for figures.
    async fn note_states(&self, graph: &Arc<GraphId>) {
        let memory = lock(&self.graphs).get(graph).cloned();
        let Some(memory) = memory else {
            lock(&self.states).remove(graph);
            return;
        };
        let states = memory.lock().await.nodes.iter().map(|node| node.state).collect();
        lock(&self.states).insert(graph.clone(), states);
    }

    /// Drops everything about a Graph that is gone.
    pub(crate) async fn forget(&self, graph: &Arc<GraphId>) {
        let memory = lock(&self.graphs).remove(graph);
        self.queue.forget_owner(&graph.owner(), graph);
        if let Some(memory) = memory {
            let followed: BTreeSet<(Gvk, Place)> = std::mem::take(&mut memory.lock().await.followed);
            self.feeds.forget(graph, &followed);
        }
    }
}
