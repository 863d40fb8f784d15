//! The controller: watches every kind, and carries out Graphs, Bundles, gates and steps.

mod events;
mod topics;
mod watch;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use slipway_cluster::{Cluster, Error, KindWatch, RetryPolicy, ServedKind};
use slipway_event::{Clock, Redactor};
use slipway_git::RepositoryCache;
use slipway_kro::{
    AllowedKinds, ApiGroup, ControllerError, ControllerOptions, GraphController, NodeState, QueueReport,
    WorkQueue, WriteScope, contain_panic,
};
use slipway_manifest::{Gvk, ObjectRef};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::bundle::{BundleReconciler, ReconcileError};
use crate::contract::ContractReconciler;
use crate::gate::{GateEvaluator, GateReconciler};
use crate::health::HealthCheck;
use crate::kinds::{KindError, KindSpec, PolicyGateSpec, PromotionStepSpec, labels};
use crate::metric::MetricReconciler;
use crate::notify::HookReconciler;
use crate::pipeline::PipelineReconciler;
use crate::step::{StepOptions, StepReconciler, StepServices};
use crate::subscription::SubscriptionReconciler;
use crate::window::WindowReconciler;
use crate::{OutboundClients, Requeue};
use events::EventLog;
use topics::{Topics, WorkKey, WorkKind, watched_kinds};
use watch::{KindSink, lock};

/// The shortest and the longest time before something that failed is tried again.
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LAST_RETRY: Duration = Duration::from_secs(5 * 60);

/// Settings of a controller.
#[derive(Clone, Debug)]
pub struct PromotionSettings {
    /// The group Graphs are served under.
    pub group: ApiGroup,
    pub steps: StepOptions,
    /// How many objects are looked at at once.
    pub workers: usize,
    pub role: ControllerRole,
}

/// The part of the work a process does.
#[derive(Clone, Default)]
pub enum ControllerRole {
    /// All of it, but for steps that belong to an agent.
    #[default]
    Whole,
    /// The steps of one shard. Health is looked at in another cluster than the one with the kinds.
    Agent { workloads: Cluster },
}

impl std::fmt::Debug for ControllerRole {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Whole => "Whole",
            Self::Agent { .. } => "Agent",
        })
    }
}

impl Default for PromotionSettings {
    fn default() -> Self {
        Self {
            group: ApiGroup::default(),
            steps: StepOptions::default(),
            workers: 16,
            role: ControllerRole::default(),
        }
    }
}

/// Everything a controller works with.
pub struct PromotionServices {
    pub cluster: Cluster,
    pub clock: Arc<dyn Clock>,
    /// Repositories on disk.
    pub repositories: RepositoryCache,
    pub redactor: Redactor,
    /// Ends all work: nothing outside changes afterwards.
    pub stop: CancellationToken,
}

/// Why a controller does not run.
#[derive(Debug, thiserror::Error)]
pub enum PromotionError {
    #[error("carry out Graphs")]
    Graphs(#[from] ControllerError),
    #[error("read the kinds of promotion")]
    Kinds(#[from] Error),
    #[error("the cluster serves no {0}; install the definitions first")]
    NoKind(String),
}

/// The figures of a controller.
#[derive(Clone, Debug, Default)]
pub struct ControllerReport {
    /// The queue of objects of promotion.
    pub objects: QueueReport,
    /// The queue of Graphs.
    pub graphs: QueueReport,
    pub retries: u64,
    /// How many nodes of all Graphs are in which state.
    pub nodes: HashMap<NodeState, u64>,
}

/// Runs promotions in a cluster; cheap to clone.
#[derive(Clone)]
pub struct PromotionController {
    shared: Arc<Shared>,
}

struct Shared {
    cluster: Cluster,
    clock: Arc<dyn Clock>,
    stop: CancellationToken,
    group: ApiGroup,
    workers: usize,
    /// Only steps are looked at.
    is_agent: bool,
    queue: Arc<WorkQueue<WorkKey>>,
    topics: Arc<Mutex<Topics>>,
    sinks: Mutex<Vec<Arc<KindSink>>>,
    events: Arc<EventLog>,
    redactor: Redactor,
    /// The time between two looks at drift.
    drift_interval: Option<Duration>,
    /// Pipelines whose pull requests were compared with their steps since the start.
    swept: Mutex<HashSet<WorkKey>>,
    /// How often something failed in a row.
    failures: Mutex<HashMap<WorkKey, u32>>,
    /// How often something that failed was to be tried again.
    retries: AtomicU64,
    graphs: GraphController,
    pipelines: PipelineReconciler,
    bundles: BundleReconciler,
    gates: GateReconciler,
    metrics: MetricReconciler,
    windows: WindowReconciler,
    subscriptions: SubscriptionReconciler,
    contracts: ContractReconciler,
    hooks: HookReconciler,
    steps: StepReconciler,
}

/// Why an object could not be brought forward.
#[derive(Debug, thiserror::Error)]
enum WorkError {
    #[error(transparent)]
    Kind(#[from] KindError),
    #[error(transparent)]
    Bundle(#[from] ReconcileError),
    #[error("looking at it panicked")]
    Panicked,
}

impl PromotionController {
    pub fn new(services: PromotionServices, settings: PromotionSettings) -> Self {
        let PromotionServices { cluster, clock, repositories, redactor, stop } = services;
        // Trouble is shown in a status and tried again later.
        let retry = RetryPolicy {
            attempts: 3,
            patience: Duration::from_secs(5),
            webhooks: Duration::ZERO,
            ..RetryPolicy::default()
        };
        let cluster = cluster.with_retry(retry);
        let options = Arc::new(settings.steps.promotion.clone());
        let evaluator = Arc::new(GateEvaluator::new());
        let own_kinds = [PromotionStepSpec::gvk(), PolicyGateSpec::gvk()];
        let mut allowed: std::collections::BTreeSet<(String, String)> =
            own_kinds.into_iter().map(|gvk| (gvk.group, gvk.kind)).collect();
        allowed.insert((labels::GROUP.to_owned(), "Bundle".to_owned()));
        let graph_options = ControllerOptions {
            group: settings.group,
            allowed_kinds: AllowedKinds::Only(allowed),
            // Whoever may write Graphs in a namespace must not reach gates of another.
            write_scope: WriteScope::OwnNamespace,
            ..ControllerOptions::default()
        };
        let outbound = OutboundClients::new(settings.steps.outbound.clone(), stop.clone());
        let health = HealthCheck::new(cluster.clone(), clock.clone(), redactor.clone())
            .with_outbound(outbound.clone());
        let is_agent = matches!(settings.role, ControllerRole::Agent { .. });
        let (health, workloads) = match settings.role {
            ControllerRole::Whole => (health, None),
            ControllerRole::Agent { workloads } => {
                (health.with_workloads(workloads.clone()), Some(workloads))
            }
        };
        let health = Arc::new(health);
        let bundles = BundleReconciler::new(
            cluster.clone(),
            clock.clone(),
            options.clone(),
            settings.group,
            evaluator.clone(),
        );
        let subscriptions = SubscriptionReconciler::new(
            cluster.clone(),
            clock.clone(),
            repositories.clone(),
            settings.steps.transports,
            outbound.clone(),
        );
        let step_services = StepServices {
            cluster: cluster.clone(),
            clock: clock.clone(),
            cache: repositories,
            health,
            redactor: redactor.clone(),
            stop: stop.clone(),
        };
        let drift_interval = options.drift_interval;
        let shared = Shared {
            graphs: GraphController::new(&cluster, clock.clone(), graph_options),
            pipelines: PipelineReconciler::new(cluster.clone(), clock.clone(), bundles.clone()),
            contracts: ContractReconciler::new(cluster.clone(), clock.clone(), evaluator.clone()),
            gates: GateReconciler::new(
                cluster.clone(),
                clock.clone(),
                evaluator,
                outbound.clone(),
                (*options).clone(),
            ),
            hooks: HookReconciler::new(cluster.clone(), clock.clone(), outbound.clone()),
            metrics: MetricReconciler::new(cluster.clone(), clock.clone(), outbound),
            windows: WindowReconciler::new(cluster.clone(), clock.clone()),
            steps: StepReconciler::new(step_services, settings.steps).with_local_secrets(workloads),
            bundles,
            subscriptions,
            queue: Arc::default(),
            topics: Arc::default(),
            sinks: Mutex::default(),
            events: Arc::default(),
            redactor,
            drift_interval,
            swept: Mutex::default(),
            failures: Mutex::default(),
            retries: AtomicU64::new(0),
            group: settings.group,
            workers: settings.workers.max(1),
            is_agent,
            cluster,
            clock,
            stop,
        };
        Self { shared: Arc::new(shared) }
    }

    /// Works until it is told to stop. What is under way is finished.
    pub async fn run(&self) -> Result<(), PromotionError> {
        let shared = &self.shared;
        let stop = &shared.stop;
        // Merges that happened while nobody listened.
        if let Err(error) = shared.steps.catch_up().await {
            tracing::warn!(%error, "open pull requests are looked at in their own time");
        }
        let _watches = shared.watch_kinds().await?;
        if shared.is_agent {
            shared.work().await;
            return Ok(());
        }
        let work_ended = CancellationToken::new();
        let work = async {
            let (graphs, ()) = tokio::join!(shared.graphs.run(stop.clone()), shared.work());
            work_ended.cancel();
            graphs
        };
        let events = shared.events.write_all(&shared.cluster, &shared.clock, &shared.redactor, &work_ended);
        let (worked, ()) = tokio::join!(work, events);
        worked.map_err(PromotionError::from)
    }

    /// Says that the clock was moved by hand, so that timers are looked at.
    pub fn clock_moved(&self) {
        self.shared.queue.poke();
        self.shared.graphs.clock_moved();
    }

    /// Says that there is something new about the pull request of a step.
    pub fn nudge_step(&self, namespace: &str, name: &str) {
        self.shared.steps.nudge(&PromotionStepSpec::at(namespace, name));
        self.shared.queue.wake(&WorkKey::new(WorkKind::Step, namespace, name));
    }

    /// The reconciler of steps, for webhooks and reports.
    pub fn steps(&self) -> &StepReconciler {
        &self.shared.steps
    }

    /// Returns true if nothing is done or waits to be, timers aside, and everything there is was read.
    pub fn is_idle(&self) -> bool {
        let sinks = lock(&self.shared.sinks);
        !sinks.is_empty()
            && sinks.iter().all(|sink| sink.is_synced())
            && self.shared.queue.is_idle()
            && (self.shared.is_agent || self.shared.graphs.is_idle())
    }

    /// Returns true if everything that happened was seen and nothing is left to do, timers aside: for whoever can tell
    /// that a kind has changed since a version, which the embedded cluster can.
    pub fn is_settled(&self, has_newer: &dyn Fn(&ServedKind, u64) -> bool) -> bool {
        let turns = self.turns();
        let is_behind = |sink: &Arc<KindSink>| {
            let (kind, version) = sink.seen();
            has_newer(kind, version)
        };
        self.is_idle()
            && !lock(&self.shared.sinks).iter().any(is_behind)
            && (self.shared.is_agent || self.shared.graphs.is_settled(has_newer))
            // A change that came meanwhile has begun a turn, or waits for one.
            && self.is_idle()
            && self.turns() == turns
            // A timer that is due is work nobody has taken yet.
            && self.next_due().is_none_or(|due| due > self.shared.clock.now())
    }

    /// The figures of the queues and Graphs.
    pub fn report(&self) -> ControllerReport {
        ControllerReport {
            objects: self.shared.queue.report(),
            graphs: self.shared.graphs.queue_report(),
            retries: self.shared.retries.load(Ordering::Relaxed),
            nodes: self.shared.graphs.node_counts(),
        }
    }

    /// How many times an object or a Graph was looked at.
    pub fn turns(&self) -> u64 {
        self.shared.queue.started() + self.shared.graphs.walks()
    }

    /// When the next timer is due.
    pub fn next_due(&self) -> Option<Timestamp> {
        [self.shared.queue.next_due(), self.shared.graphs.next_due()].into_iter().flatten().min()
    }
}

impl Shared {
    async fn watch_kinds(&self) -> Result<Vec<KindWatch>, PromotionError> {
        let mut watches = Vec::new();
        let mut kinds: Vec<(WorkKind, Gvk)> = watched_kinds();
        kinds.push((WorkKind::Graph, self.group.graph()));
        if self.is_agent {
            // Gates and bundles wake steps; an agent reads them and writes neither.
            kinds.retain(|(kind, _)| matches!(kind, WorkKind::Step | WorkKind::Gate | WorkKind::Bundle));
        }
        for (kind, gvk) in kinds {
            let served = self
                .cluster
                .find_kind(&gvk)
                .await?
                .ok_or_else(|| PromotionError::NoKind(gvk.kind.clone()))?;
            let (topics, queue, events) = (self.topics.clone(), self.queue.clone(), self.events.clone());
            let sink = Arc::new(KindSink::new(kind, served.clone(), topics, queue, events));
            watches.push(self.cluster.watch_kind(&served, None, sink.clone()));
            lock(&self.sinks).push(sink);
        }
        Ok(watches)
    }

    async fn work(self: &Arc<Self>) {
        let places = Arc::new(Semaphore::new(self.workers));
        while !self.stop.is_cancelled() {
            let now = self.clock.now();
            while let Ok(place) = places.clone().try_acquire_owned()
                && let Some(key) = self.queue.take(now)
            {
                let shared = self.clone();
                tokio::spawn(async move {
                    let next = shared.turn(&key).await;
                    drop(place);
                    shared.queue.done(&key, next);
                });
            }
            let until = self.queue.next_due().map(|due| time_until(now, due));
            tokio::select! {
                () = self.stop.cancelled() => break,
                () = self.queue.changed() => {}
                () = sleep(until) => {}
            }
        }
        let all = u32::try_from(self.workers).unwrap_or(u32::MAX);
        drop(places.acquire_many_owned(all).await);
    }

    /// Looks at one object; returns when to look again.
    async fn turn(&self, key: &WorkKey) -> Option<Timestamp> {
        match contain_panic(self.reconcile(key)).await.unwrap_or(Err(WorkError::Panicked)) {
            Ok(next) => {
                lock(&self.failures).remove(key);
                match next {
                    Requeue::Done => None,
                    Requeue::At(at) => Some(at),
                }
            }
            Err(WorkError::Kind(error) | WorkError::Bundle(ReconcileError::Kind(error)))
                if error.is_conflict() =>
            {
                // Somebody wrote in between: what they wrote is read next time.
                self.queue.wake(key);
                None
            }
            Err(error) => {
                self.retries.fetch_add(1, Ordering::Relaxed);
                let mut failures = lock(&self.failures);
                let count = failures.entry(key.clone()).or_insert(0);
                *count = count.saturating_add(1);
                let delay = FIRST_RETRY.saturating_mul(1 << (*count - 1).min(16)).min(LAST_RETRY);
                let name = &key.name;
                tracing::warn!(kind = ?key.kind, namespace = %key.namespace, %name, ?error, ?delay, "could not be brought forward");
                match Requeue::after(self.clock.now(), delay) {
                    Requeue::At(at) => Some(at),
                    Requeue::Done => None,
                }
            }
        }
    }

    async fn reconcile(&self, key: &WorkKey) -> Result<Requeue, WorkError> {
        let (namespace, name) = (key.namespace.as_str(), key.name.as_str());
        let at = |gvk| ObjectRef::new(gvk, Some(namespace), name);
        if self.is_agent && key.kind != WorkKind::Step {
            return Ok(Requeue::Done);
        }
        Ok(match key.kind {
            WorkKind::Pipeline => {
                let next = self.pipelines.reconcile(namespace, name).await?;
                self.plan_looks(key);
                next
            }
            WorkKind::Bundle => self.bundles.reconcile(namespace, name).await?,
            WorkKind::Step => self.steps.reconcile_step(&at(PromotionStepSpec::gvk())).await?,
            WorkKind::Gate => self.gates.reconcile(&at(PolicyGateSpec::gvk())).await?,
            WorkKind::Metric => self.metrics.reconcile(&at(crate::kinds::MetricCheckSpec::gvk())).await?,
            WorkKind::Window => self.windows.reconcile(&at(crate::kinds::ChangeWindowSpec::gvk())).await?,
            WorkKind::Drift => self.steps.look_for_drift(namespace, name).await?,
            WorkKind::Orphans => self.steps.close_orphans(namespace, name).await?,
            WorkKind::Subscription => self.subscriptions.reconcile(namespace, name).await?,
            WorkKind::Hook => self.hooks.reconcile(namespace, name).await?,
            WorkKind::Contract => self.contracts.reconcile(namespace, name).await?,
            WorkKind::Graph | WorkKind::Group | WorkKind::Audit => Requeue::Done,
        })
    }

    /// Plans what is looked at besides a pipeline's own status: its pull requests once, drift again and again.
    fn plan_looks(&self, pipeline: &WorkKey) {
        let key = |kind| WorkKey { kind, ..pipeline.clone() };
        let orphans = key(WorkKind::Orphans);
        if lock(&self.swept).insert(orphans.clone()) {
            self.queue.wake(&orphans);
        }
        if let Some(interval) = self.drift_interval
            && let Ok(first) = self.clock.now().checked_add(interval)
        {
            self.queue.schedule(&key(WorkKind::Drift), first);
        }
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
