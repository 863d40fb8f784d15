//! An agent: carries out the steps of one shard, in or near the cluster its environments run in.

use std::path::PathBuf;
use std::sync::Arc;

use slipway_cluster::Cluster;
use slipway_cluster::election::{ElectionOptions, ElectionTimes, elect};
use slipway_event::{Clock, Redactor};
use slipway_git::{CacheOptions, Git, RepositoryCache};
use slipway_promotion::agents::lease_name;
use slipway_promotion::kinds::labels;
use slipway_promotion::{ControllerRole, PromotionController, PromotionServices, PromotionSettings};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::metrics::MetricRegistry;
use crate::process::{ControllerError, ControllerHandle, open_listeners};
use crate::server::{ApiServer, ServerParts};
use crate::settings::{LOSS_LIMIT, ListenAddresses, STOP_LIMIT};

/// Settings of an agent.
pub struct AgentOptions {
    pub shard: String,
    /// Names this process; no two may have the same.
    pub identity: String,
    /// The cluster with the kinds: steps are read and written there.
    pub control_plane: Cluster,
    /// The namespace of the controller, where the heartbeat is kept.
    pub control_namespace: String,
    /// The cluster the environments run in: health is looked at there, and Secrets of it come first.
    pub workloads: Cluster,
    pub election: ElectionTimes,
    pub listen: ListenAddresses,
    pub cache_directory: PathBuf,
    pub cache: CacheOptions,
    pub promotion: PromotionSettings,
    pub clock: Arc<dyn Clock>,
    pub redactor: Redactor,
    /// Ends the process, gracefully.
    pub stop: CancellationToken,
}

/// Runs an agent until it is told to stop, or has lost its lease. `started` is told once it listens.
pub async fn run_agent(
    options: AgentOptions,
    started: impl FnOnce(ControllerHandle) + Send,
) -> Result<(), ControllerError> {
    if options.shard.is_empty() {
        return Err(ControllerError::NoShard);
    }
    let stop = options.stop.clone();
    let server = ApiServer::new(ServerParts {
        cluster: options.control_plane.clone(),
        clock: options.clock.clone(),
        redactor: options.redactor.clone(),
        receiver: None,
        metrics: Arc::new(MetricRegistry::default()),
        state: Arc::default(),
        namespace: options.control_namespace.clone(),
        bundle_namespace: String::new(),
        stop: stop.clone(),
    });
    let listeners = open_listeners(&server, options.listen, None).await?;
    started(listeners.handle.clone());
    let result = serve(&options, &server).await;
    server.state.end();
    stop.cancel();
    listeners.end().await;
    result
}

async fn serve(options: &AgentOptions, server: &Arc<ApiServer>) -> Result<(), ControllerError> {
    let stop = &options.stop;
    // Standbys of the same shard answer probes as well.
    server.state.mark_synced();
    let election = ElectionOptions {
        namespace: options.control_namespace.clone(),
        name: lease_name(&options.shard),
        identity: options.identity.clone(),
        manager: labels::FIELD_MANAGER.to_owned(),
        times: options.election,
    };
    let elected = stop.run_until_cancelled(elect(&options.control_plane, &election)).await;
    let Some(leadership) = elected else { return Ok(()) };
    let lost = leadership.lost_token();
    let work_stop = CancellationToken::new();
    // Whoever drops this future must leave no work behind.
    let _guard = work_stop.clone().drop_guard();
    let mut settings = options.promotion.clone();
    settings.steps.promotion.shard = Some(options.shard.clone());
    settings.role = ControllerRole::Agent { workloads: options.workloads.clone() };
    let repositories = RepositoryCache::open(
        &options.cache_directory,
        options.cache,
        Arc::new(Git::default()),
        options.clock.clone(),
        work_stop.clone(),
    )?;
    let services = PromotionServices {
        cluster: options.control_plane.with_write_gate(leadership.write_gate()),
        clock: options.clock.clone(),
        repositories,
        redactor: options.redactor.clone(),
        stop: work_stop.clone(),
    };
    let controller = PromotionController::new(services, settings);
    tracing::info!(shard = %options.shard, term = leadership.term(), "carries out steps");
    server.state.begin(leadership.term(), controller.clone());
    if let Ok(steps) = controller.steps().catch_up().await {
        for step in steps {
            controller.nudge_step(step.namespace.as_deref().unwrap_or_default(), &step.name);
        }
    }
    let mut work = JoinSet::new();
    work.spawn(async move { controller.run().await });
    let (limit, is_lost) = tokio::select! {
        ended = work.join_next() => {
            let _ = leadership.release().await;
            let ended = ended.and_then(Result::ok);
            return ended.map_or(Err(ControllerError::LeaseLost), |ended| ended.map_err(ControllerError::from));
        }
        () = lost.cancelled() => (LOSS_LIMIT, true),
        () = stop.cancelled() => (STOP_LIMIT, false),
    };
    server.state.end();
    work_stop.cancel();
    let _ = tokio::time::timeout(limit, work.join_next()).await;
    work.abort_all();
    if is_lost {
        return Err(ControllerError::LeaseLost);
    }
    leadership
        .release()
        .await
        .unwrap_or_else(|error| tracing::warn!(%error, "the lease could not be given back"));
    Ok(())
}
