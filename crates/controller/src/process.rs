//! A controller from its start to its end: listeners, the election, terms of work.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use slipway_cluster::election::{ElectionOptions, Leadership, elect};
use slipway_cluster::{Cluster, KindWatch};
use slipway_event::{Clock, Redactor};
use slipway_git::{Git, GitError, RepositoryCache};
use slipway_http::server::{CertificateError, CertificateFiles, ServerOptions};
use slipway_promotion::agents::AgentMonitor;
use slipway_promotion::audit::AuditRecorder;
use slipway_promotion::health::HealthCheck;
use slipway_promotion::kinds::{BundleSpec, KindSpec, labels};
use slipway_promotion::step::{StepReconciler, StepServices};
use slipway_promotion::{OutboundClients, PromotionController, PromotionError, PromotionServices};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::metrics::{AGENT_HEARTBEAT, GIT_CACHE_BYTES, MetricCollector, MetricRegistry};
use crate::server::{ApiServer, ListenerRole, ServerParts};
use crate::settings::{ControllerMode, ControllerOptions, LEASE, LOSS_LIMIT, STOP_LIMIT};

/// The time between two looks at the heartbeats of agents.
const HEARTBEAT_LOOK: Duration = Duration::from_secs(10);
/// The time between two looks at the size of the mirrors.
const CACHE_LOOK: Duration = Duration::from_secs(60);

/// Everything a controller works with.
pub struct ControllerServices {
    pub cluster: Cluster,
    pub clock: Arc<dyn Clock>,
    pub redactor: Redactor,
    /// Ends the process, gracefully.
    pub stop: CancellationToken,
}

/// Why a controller does not run, or no longer.
#[derive(Debug, thiserror::Error)]
pub enum ControllerError {
    #[error("listen on {address}")]
    Listen {
        address: SocketAddr,
        #[source]
        source: io::Error,
    },
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    #[error("open the cache of repositories")]
    Cache(#[from] GitError),
    #[error(transparent)]
    Promotion(#[from] PromotionError),
    #[error("read the kinds of promotion")]
    Cluster(#[from] slipway_cluster::Error),
    #[error("the lease {LEASE} was lost: another process may be at work")]
    LeaseLost,
    #[error("an agent needs the name of its shard")]
    NoShard,
}

/// Where a process stands, for probes and figures.
#[derive(Default)]
pub(crate) struct ProcessState {
    is_synced: AtomicBool,
    is_leader: AtomicBool,
    term: AtomicI64,
    working: Mutex<Option<PromotionController>>,
}

impl ProcessState {
    pub(crate) fn mark_synced(&self) {
        self.is_synced.store(true, Ordering::Release);
    }

    /// Returns true if requests can be answered; who leads makes no difference.
    pub(crate) fn is_ready(&self) -> bool {
        self.is_synced.load(Ordering::Acquire)
    }

    pub(crate) fn is_leader(&self) -> bool {
        self.is_leader.load(Ordering::Acquire)
    }

    pub(crate) fn term(&self) -> i64 {
        self.term.load(Ordering::Acquire)
    }

    pub(crate) fn begin(&self, term: i64, controller: PromotionController) {
        self.term.store(term, Ordering::Release);
        *self.working.lock().unwrap_or_else(PoisonError::into_inner) = Some(controller);
        self.is_leader.store(true, Ordering::Release);
    }

    pub(crate) fn end(&self) {
        self.is_leader.store(false, Ordering::Release);
        *self.working.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn working(&self) -> Option<PromotionController> {
        self.working.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The figures of the term under way.
    pub(crate) fn working_report(&self) -> Option<slipway_promotion::ControllerReport> {
        self.working().map(|controller| controller.report())
    }

    /// The steps of the term under way.
    pub(crate) fn working_steps(&self) -> Option<StepReconciler> {
        self.working().map(|controller| controller.steps().clone())
    }
}

/// A controller that runs; cheap to clone.
#[derive(Clone)]
pub struct ControllerHandle {
    pub(crate) state: Arc<ProcessState>,
    pub api: Option<SocketAddr>,
    pub metrics: Option<SocketAddr>,
    pub probes: Option<SocketAddr>,
}

impl ControllerHandle {
    /// Returns true while this process is the one at work.
    pub fn is_leader(&self) -> bool {
        self.state.is_leader()
    }

    /// The controller of the term under way.
    pub fn working(&self) -> Option<PromotionController> {
        self.state.working()
    }
}

/// The listeners of a process.
pub(crate) struct Listeners {
    pub(crate) handle: ControllerHandle,
    tasks: Vec<tokio::task::JoinHandle<io::Result<()>>>,
}

impl Listeners {
    /// Waits until requests under way are answered.
    pub(crate) async fn end(self) {
        for task in self.tasks {
            let _ = task.await;
        }
    }
}

/// Opens every listener, so that a port that is taken ends the process before it has begun.
pub(crate) async fn open_listeners(
    server: &Arc<ApiServer>,
    listen: crate::settings::ListenAddresses,
    tls: Option<&crate::settings::TlsFiles>,
) -> Result<Listeners, ControllerError> {
    let mut secure = ServerOptions::default();
    if let Some(files) = tls {
        secure.tls = Some(Arc::new(CertificateFiles::load(&files.certificate, &files.key)?));
    }
    let mut handle = ControllerHandle { state: server.state.clone(), api: None, metrics: None, probes: None };
    let mut tasks = Vec::new();
    for (role, address) in [
        (ListenerRole::Api, listen.api),
        (ListenerRole::Metrics, listen.metrics),
        (ListenerRole::Probes, listen.probes),
    ] {
        let Some(address) = address else { continue };
        let options = if role == ListenerRole::Api { secure.clone() } else { ServerOptions::default() };
        let opened = server.listen(role, address, options).await;
        let (bound, task) = opened.map_err(|source| ControllerError::Listen { address, source })?;
        tasks.push(task);
        match role {
            ListenerRole::Api => handle.api = Some(bound),
            ListenerRole::Metrics => handle.metrics = Some(bound),
            ListenerRole::Probes => handle.probes = Some(bound),
        }
    }
    Ok(Listeners { handle, tasks })
}

/// Runs a controller until it is told to stop, or has lost its lease. `started` is told once it listens.
pub async fn run_controller(
    services: ControllerServices,
    options: ControllerOptions,
    started: impl FnOnce(ControllerHandle) + Send,
) -> Result<(), ControllerError> {
    let metrics = Arc::new(MetricRegistry::default());
    let stop = services.stop.clone();
    let server = ApiServer::new(ServerParts {
        cluster: services.cluster.clone(),
        clock: services.clock.clone(),
        redactor: services.redactor.clone(),
        receiver: Some(receiver(&services, &options)?),
        metrics: metrics.clone(),
        state: Arc::default(),
        namespace: options.namespace.clone(),
        bundle_namespace: options.bundle_namespace.clone(),
        stop: stop.clone(),
    });
    let listeners = open_listeners(&server, options.listen, options.tls.as_ref()).await?;
    started(listeners.handle.clone());
    let _bundles = watch_bundles(&server).await?;
    let election = ElectionOptions {
        namespace: options.namespace.clone(),
        name: LEASE.to_owned(),
        identity: options.identity.clone(),
        manager: labels::FIELD_MANAGER.to_owned(),
        times: options.election,
    };
    let elected = stop.run_until_cancelled(elect(&services.cluster, &election)).await;
    let result = match elected {
        Some(leadership) => {
            let term = Term { services: &services, options: &options, metrics, state: &server.state };
            term.serve(leadership).await
        }
        // Told to stop while another process led.
        None => Ok(()),
    };
    server.state.end();
    // Whoever answers requests ends with the work, whatever ended that.
    stop.cancel();
    listeners.end().await;
    result
}

/// The part of the step reconciler that checks deliveries. It carries nothing out.
fn receiver(
    services: &ControllerServices,
    options: &ControllerOptions,
) -> Result<StepReconciler, ControllerError> {
    let never = services.stop.child_token();
    let cache = RepositoryCache::open(
        &options.cache_directory,
        options.cache,
        Arc::new(Git::default()),
        services.clock.clone(),
        never.clone(),
    )?;
    let outbound = OutboundClients::new(options.promotion.steps.outbound.clone(), never.clone());
    let health =
        HealthCheck::new(services.cluster.clone(), services.clock.clone(), services.redactor.clone())
            .with_outbound(outbound);
    let parts = StepServices {
        cluster: services.cluster.clone(),
        clock: services.clock.clone(),
        cache,
        health: Arc::new(health),
        redactor: services.redactor.clone(),
        stop: never,
    };
    Ok(StepReconciler::new(parts, options.promotion.steps.clone()))
}

async fn watch_bundles(server: &Arc<ApiServer>) -> Result<KindWatch, ControllerError> {
    let kind = server.cluster.find_kind(&BundleSpec::gvk()).await?;
    let kind = kind.ok_or_else(|| PromotionError::NoKind(BundleSpec::KIND.to_owned()))?;
    Ok(server.cluster.watch_kind(&kind, None, server.bundle_sink()))
}

/// The time from an election to the loss of the lease, or the end of the process.
struct Term<'p> {
    services: &'p ControllerServices,
    options: &'p ControllerOptions,
    metrics: Arc<MetricRegistry>,
    state: &'p ProcessState,
}

impl Term<'_> {
    async fn serve(self, leadership: Leadership) -> Result<(), ControllerError> {
        let lost = leadership.lost_token();
        // Ends with the process and with the lease, whichever is first.
        let work_stop = CancellationToken::new();
        // Whoever drops this term must leave no work behind.
        let _guard = work_stop.clone().drop_guard();
        let cluster = self.services.cluster.with_write_gate(leadership.write_gate());
        let controller = self.promotion(&cluster, &work_stop)?;
        let stop = &self.services.stop;
        // Whatever happens once somebody is at work is counted.
        let collected = tokio::select! {
            collected = collect(&cluster, &self.metrics) => collected,
            () = lost.cancelled() => return Err(ControllerError::LeaseLost),
            () = stop.cancelled() => Ok(Vec::new()),
        };
        let collectors = match collected {
            Ok(collectors) if !stop.is_cancelled() => collectors,
            ended => {
                release(leadership).await;
                return ended.map(drop);
            }
        };
        tracing::info!(term = leadership.term(), identity = %self.options.identity, "leads");
        self.state.begin(leadership.term(), controller.clone());
        let mut work = JoinSet::new();
        work.spawn({
            let (work_stop, metrics) = (work_stop.clone(), self.metrics.clone());
            let (cluster, clock) = (cluster.clone(), self.services.clock.clone());
            let (mode, namespace) = (self.options.mode, self.options.namespace.clone());
            let cache_directory = self.options.cache_directory.clone();
            async move {
                let _collectors = collectors;
                // Merges that happened while nobody was at work.
                if let Ok(steps) = controller.steps().catch_up().await {
                    for step in steps {
                        controller.nudge_step(step.namespace.as_deref().unwrap_or_default(), &step.name);
                    }
                }
                let recorder = AuditRecorder::new(cluster.clone(), clock.clone());
                let record = async {
                    if let Err(error) = recorder.run(&work_stop).await {
                        tracing::error!(%error, "the audit trail is not kept");
                    }
                };
                let monitor = AgentMonitor::new(cluster.clone(), clock, namespace);
                let watch_agents = async {
                    while mode == ControllerMode::Distributed && !work_stop.is_cancelled() {
                        match monitor.look().await {
                            Ok(heartbeats) => heartbeats.iter().for_each(|(shard, age)| {
                                metrics.set(
                                    AGENT_HEARTBEAT,
                                    &[shard],
                                    age.map_or(f64::INFINITY, |age| age.as_secs_f64()),
                                );
                            }),
                            Err(error) => tracing::warn!(%error, "heartbeats of agents cannot be read"),
                        }
                        let pause = tokio::time::sleep(HEARTBEAT_LOOK);
                        work_stop.run_until_cancelled(pause).await;
                    }
                };
                let measure_cache = async {
                    while !work_stop.is_cancelled() {
                        let directory = cache_directory.clone();
                        let measured = tokio::task::spawn_blocking(move || bytes_of(&directory)).await;
                        metrics.set(GIT_CACHE_BYTES, &[], measured.unwrap_or_default() as f64);
                        work_stop.run_until_cancelled(tokio::time::sleep(CACHE_LOOK)).await;
                    }
                };
                let (worked, (), (), ()) =
                    tokio::join!(controller.run(), record, watch_agents, measure_cache);
                worked.map_err(ControllerError::from)
            }
        });
        let (limit, is_lost) = tokio::select! {
            ended = work.join_next() => {
                release(leadership).await;
                return ended.and_then(Result::ok).unwrap_or(Err(ControllerError::LeaseLost));
            }
            () = lost.cancelled() => (LOSS_LIMIT, true),
            () = stop.cancelled() => (STOP_LIMIT, false),
        };
        self.state.end();
        work_stop.cancel();
        // The write gate is closed or closes with the lease: what hangs longer cannot change the cluster.
        let ended = tokio::time::timeout(limit, work.join_next()).await;
        work.abort_all();
        if is_lost {
            return Err(ControllerError::LeaseLost);
        }
        release(leadership).await;
        match ended {
            Ok(Some(Ok(result))) => result,
            _ => Ok(()),
        }
    }

    fn promotion(
        &self,
        cluster: &Cluster,
        stop: &CancellationToken,
    ) -> Result<PromotionController, ControllerError> {
        let services = self.services;
        let repositories = RepositoryCache::open(
            &self.options.cache_directory,
            self.options.cache,
            Arc::new(Git::default()),
            services.clock.clone(),
            stop.clone(),
        )?;
        let parts = PromotionServices {
            cluster: cluster.clone(),
            clock: services.clock.clone(),
            repositories,
            redactor: services.redactor.clone(),
            stop: stop.clone(),
        };
        Ok(PromotionController::new(parts, self.options.promotion.clone()))
    }
}

/// The bytes the files below a directory take; links are not followed.
fn bytes_of(directory: &std::path::Path) -> u64 {
    let (mut total, mut open) = (0, vec![directory.to_owned()]);
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => open.push(entry.path()),
                Ok(kind) if kind.is_file() => total += entry.metadata().map_or(0, |found| found.len()),
                _ => {}
            }
        }
    }
    total
}

async fn release(leadership: Leadership) {
    if let Err(error) = leadership.release().await {
        tracing::warn!(%error, "the lease could not be given back");
    }
}

/// Starts counting what happens from now on.
async fn collect(
    cluster: &Cluster,
    metrics: &Arc<MetricRegistry>,
) -> Result<Vec<KindWatch>, ControllerError> {
    let bundles = MetricCollector::of_bundles(metrics.clone());
    let steps = MetricCollector::of_steps(metrics.clone());
    let gates = MetricCollector::of_gates(metrics.clone());
    Ok(vec![
        collect_kind(cluster, bundles).await?,
        collect_kind(cluster, steps).await?,
        collect_kind(cluster, gates).await?,
    ])
}

async fn collect_kind<S: KindSpec>(
    cluster: &Cluster,
    collector: MetricCollector<S>,
) -> Result<KindWatch, ControllerError> {
    let kind = cluster.find_kind(&S::gvk()).await?;
    let kind = kind.ok_or_else(|| PromotionError::NoKind(S::KIND.to_owned()))?;
    let begun = collector.begun();
    let watch = cluster.watch_kind(&kind, None, Arc::new(collector));
    begun.cancelled().await;
    Ok(watch)
}
