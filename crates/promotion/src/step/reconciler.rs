//! The reconciler of steps: guards first, then one turn of whatever comes next.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use slipway_cluster::{Cluster, DeletePropagation};
use slipway_event::{Clock, Redactor};
use slipway_git::{CommitIdentity, ReplayPolicy, RepositoryCache, TransportPolicy};
use slipway_manifest::ObjectRef;
use slipway_scm::{ConnectOptions, ScmConnections, ScmProvider, WebhookReceiver, WebhookSecret};
use tokio_util::sync::CancellationToken;

use crate::bundle::ROLLED_BACK;
use crate::gate::GateEvaluator;
use crate::health::{HealthCheck, HealthTarget};
use crate::kinds::{
    self, Bundle, BundlePhase, BundleSpec, ConditionStatus, FinalizerPresence, HealthBaseline,
    HealthObservation, KindError, PromotionStep, PromotionStepSpec, StepState, find_condition, labels,
};
use crate::translate::{DefinitionProblem, check_definition};
use crate::{OutboundClients, OutboundPolicy, PromotionOptions, Requeue};

use super::outcome::{Dependency, StepError};
use super::run::{PENDING_POLL, StepRun, sequence_of};
use super::status::{StatusWriter, set_step_condition};
use super::workspace::Workspace;

/// Settings of steps.
#[derive(Clone, Debug)]
pub struct StepOptions {
    pub promotion: PromotionOptions,
    /// The author and committer of commits.
    pub identity: CommitIdentity,
    /// The patience with others who push to the same branch.
    pub replay: ReplayPolicy,
    pub transports: TransportPolicy,
    pub scm: ConnectOptions,
    /// The secret of webhooks whose repository has none of its own.
    pub webhook_secret: Option<WebhookSecret>,
    /// The hosts that are called for pipelines: repositories, their servers, registries, custom steps.
    pub outbound: OutboundPolicy,
    /// The address of the console, for links in pull requests.
    pub console: Option<String>,
    /// Lets `argocd-set-image` write to Applications.
    pub argocd_writes: ArgoCdWrites,
}

/// Permission to write to Argo CD's Applications, which a GitOps tool should read from Git.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ArgoCdWrites {
    #[default]
    Denied,
    Allowed,
}

impl Default for StepOptions {
    fn default() -> Self {
        Self {
            promotion: PromotionOptions::default(),
            identity: CommitIdentity::new("slipway", "slipway@localhost"),
            replay: ReplayPolicy::default(),
            transports: TransportPolicy::default(),
            scm: ConnectOptions::default(),
            webhook_secret: None,
            outbound: OutboundPolicy::default(),
            console: None,
            argocd_writes: ArgoCdWrites::default(),
        }
    }
}

/// Looks at health, by pipeline and the id of a step.
pub(super) type DriftSightings = BTreeMap<(String, String), HealthObservation>;

/// What all steps of a process share.
pub(super) struct StepShared {
    pub(super) cluster: Cluster,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) cache: RepositoryCache,
    pub(super) scm: ScmConnections,
    pub(super) health: Arc<HealthCheck>,
    /// Decides whether an emergency passes a pause.
    pub(super) evaluator: GateEvaluator,
    pub(super) redactor: Redactor,
    pub(super) options: StepOptions,
    pub(super) outbound: OutboundClients,
    /// Nothing outside changes once it is cancelled: the process ends, or has lost its lease.
    pub(super) stop: CancellationToken,
    pub(super) receiver: WebhookReceiver,
    pub(super) providers: Mutex<BTreeMap<String, KnownProvider>>,
    /// One a place: steps of one environment decide one after the other who begins.
    turns: Mutex<BTreeMap<String, Arc<tokio::sync::Mutex<()>>>>,
    /// Steps somebody has said something about.
    nudged: Mutex<BTreeSet<ObjectRef>>,
    /// The last look at the health of environments that are done, by pipeline and step.
    drift_seen: Mutex<DriftSightings>,
    /// The refresh annotations that were obeyed: another process tells of deliveries by them.
    refreshed: Mutex<BTreeMap<ObjectRef, String>>,
    /// A cluster whose Secrets come before those of the cluster with the kinds: an agent's own.
    pub(super) local_secrets: Option<Cluster>,
}

/// Everything the reconciler works with.
pub struct StepServices {
    pub cluster: Cluster,
    pub clock: Arc<dyn Clock>,
    pub cache: RepositoryCache,
    pub health: Arc<HealthCheck>,
    pub redactor: Redactor,
    /// Ends all work: nothing outside changes afterwards.
    pub stop: CancellationToken,
}

/// The client of a server, with the version of the Secret it was made from.
pub(super) struct KnownProvider {
    pub(super) version: String,
    pub(super) provider: Arc<dyn ScmProvider>,
}

/// Carries out promotion steps.
#[derive(Clone)]
pub struct StepReconciler {
    pub(super) shared: Arc<StepShared>,
}

impl StepReconciler {
    pub fn new(services: StepServices, options: StepOptions) -> Self {
        let StepServices { cluster, clock, cache, health, redactor, stop } = services;
        let shared = StepShared {
            scm: ScmConnections::new(clock.clone(), redactor.clone()),
            receiver: WebhookReceiver::new(clock.clone()),
            cluster,
            clock,
            cache,
            health,
            evaluator: GateEvaluator::new(),
            redactor,
            outbound: OutboundClients::new(options.outbound.clone(), stop.clone()),
            options,
            stop,
            providers: Mutex::default(),
            turns: Mutex::default(),
            nudged: Mutex::default(),
            drift_seen: Mutex::default(),
            refreshed: Mutex::default(),
            local_secrets: None,
        };
        Self { shared: Arc::new(shared) }
    }

    /// Reads Secrets of another cluster first: those of an agent stay where it runs. To be called before any work.
    #[must_use]
    pub fn with_local_secrets(mut self, cluster: Option<Cluster>) -> Self {
        if let Some(shared) = Arc::get_mut(&mut self.shared) {
            shared.local_secrets = cluster;
        }
        self
    }

    /// The state of every server of pull requests, for conditions and metrics.
    pub fn server_reports(&self) -> Vec<slipway_scm::HostReport> {
        self.shared.scm.report()
    }

    /// Says that there is something to see for a step: its next turn looks at once.
    pub fn nudge(&self, step: &ObjectRef) {
        self.shared.nudged.lock().unwrap_or_else(PoisonError::into_inner).insert(step.clone());
    }

    /// Removes work trees that a crash has left behind.
    pub async fn sweep(&self) -> Result<(), slipway_git::GitError> {
        self.shared.cache.sweep(|_| false).await
    }

    /// Carries a step as far as it goes now.
    pub async fn reconcile_step(&self, at: &ObjectRef) -> Result<Requeue, KindError> {
        let shared = &*self.shared;
        let namespace = at.namespace.as_deref().unwrap_or_default();
        let Some(step) = kinds::get::<PromotionStepSpec>(&shared.cluster, namespace, &at.name).await? else {
            return Ok(Requeue::Done);
        };
        if !shared.is_ours(&step) {
            return Ok(Requeue::Done);
        }
        if step.metadata.is_being_deleted() || step.state().is_terminal() {
            shared.refreshed.lock().unwrap_or_else(PoisonError::into_inner).remove(at);
            return shared.clean_up(step).await;
        }
        let bundle = kinds::get::<BundleSpec>(&shared.cluster, namespace, &step.spec.bundle_ref).await?;
        let Some(bundle) = bundle else {
            kinds::delete(&shared.cluster, &step, DeletePropagation::Background).await?;
            return Ok(Requeue::Done);
        };
        if bundle.phase() == BundlePhase::Superseded || bundle.metadata.is_being_deleted() {
            return shared.cancel(step, &bundle).await;
        }
        if step.state() == StepState::RollingBack {
            return shared.end_rollback(step, &bundle).await;
        }
        let is_nudged = shared.nudged.lock().unwrap_or_else(PoisonError::into_inner).remove(at);
        let is_nudged = shared.is_refreshed(&step) || is_nudged;
        Box::pin(shared.work_on(step, &bundle, is_nudged)).await
    }
}

/// The reason of a step that is not carried out because its bundle has no such step.
const NOT_DEFINED: &str = "NotDefined";
/// The pause after trouble that no entry of a sequence is to blame for.
const RETRY_PAUSE: Duration = Duration::from_secs(10);
/// The longest time a failed step waits for its rollback to exist.
const ROLLBACK_PAUSE: Duration = Duration::from_secs(60);

impl StepShared {
    /// Tells whether the step's refresh annotation has changed since it was last looked at.
    fn is_refreshed(&self, step: &PromotionStep) -> bool {
        let Some(wanted) = step.metadata.annotation(labels::REFRESH) else { return false };
        let mut refreshed = self.refreshed.lock().unwrap_or_else(PoisonError::into_inner);
        let known = refreshed.insert(step.reference(), wanted.to_owned());
        known.as_deref() != Some(wanted)
    }

    /// Tells whether a step is for this process: by its shard.
    pub(super) fn is_ours(&self, step: &PromotionStep) -> bool {
        let label = step.metadata.label(labels::SHARD).or(step.spec.shard.as_deref());
        label.filter(|shard| !shard.is_empty()) == self.options.promotion.shard.as_deref()
    }

    async fn work_on(
        &self,
        step: PromotionStep,
        bundle: &Bundle,
        is_nudged: bool,
    ) -> Result<Requeue, KindError> {
        let now = self.clock.now();
        if let Err(problem) = check_definition(bundle, &step) {
            return self.refuse(step, problem).await;
        }
        let held =
            kinds::set_finalizer(&self.cluster, &step, labels::FINALIZER, FinalizerPresence::Present).await;
        let step = match held {
            Ok(step) => step,
            Err(error) if error.is_conflict() => return Ok(Requeue::after(now, Duration::from_secs(1))),
            Err(error) => return Err(error),
        };
        let pause = match self.pause_reason(&step, bundle).await {
            Ok(pause) => pause,
            Err(error) => return self.settle(&step, Err(error)).await,
        };
        let sequence = sequence_of(&step, bundle);
        let writer = StatusWriter::new(&self.cluster, step);
        let workspace = Workspace::default();
        let mut run = StepRun { shared: self, bundle, writer, sequence, workspace, pause, is_nudged };
        let result = run.advance().await;
        let step = run.writer.step;
        self.settle(&step, result).await
    }

    /// Leaves a step alone that is not what its bundle was admitted with: somebody made it, or edited it.
    async fn refuse(&self, step: PromotionStep, problem: DefinitionProblem) -> Result<Requeue, KindError> {
        let now = self.clock.now();
        let mut writer = StatusWriter::new(&self.cluster, step);
        let StatusWriter { step, status, .. } = &mut writer;
        let message = problem.to_string();
        status.state = Some(status.state.unwrap_or_default());
        set_step_condition(status, step, "Held", ConditionStatus::True, NOT_DEFINED, &message, now);
        status.reason = Some(NOT_DEFINED.to_owned());
        status.message = Some(message);
        // Whatever happened meanwhile is looked at as soon as it goes on.
        status.next_check_at = None;
        let result = writer.write().await.map(|()| Requeue::after(now, PENDING_POLL));
        self.settle(&writer.step, result).await
    }

    /// Turns what came of a turn into the time of the next.
    async fn settle(
        &self,
        step: &PromotionStep,
        result: Result<Requeue, StepError>,
    ) -> Result<Requeue, KindError> {
        let now = self.clock.now();
        match result {
            Ok(Requeue::Done) if step.state().is_terminal() => self.clean_up(step.clone()).await,
            Ok(requeue) => Ok(requeue),
            // Somebody else has written: their words are read first.
            Err(StepError::Abandoned) => Ok(Requeue::after(now, Duration::from_millis(100))),
            Err(StepError::Stopped) => Ok(Requeue::after(now, Duration::from_secs(1))),
            Err(error) => {
                tracing::warn!(step = %step.reference(), %error, "the step could not be looked at");
                Ok(Requeue::after(now, RETRY_PAUSE))
            }
        }
    }

    pub(super) fn drift_seen(&self) -> std::sync::MutexGuard<'_, DriftSightings> {
        self.drift_seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The lock of a place: whoever holds it decides who begins there.
    pub(super) fn environment_turn(&self, step: &PromotionStep) -> Arc<tokio::sync::Mutex<()>> {
        let spec = &step.spec;
        let region = spec.region.as_deref().unwrap_or_default();
        let key = format!("{}/{}/{}/{region}", step.namespace(), spec.pipeline, spec.environment);
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        turns.retain(|known, turn| *known == key || Arc::strong_count(turn) > 1);
        turns.entry(key).or_default().clone()
    }

    /// Remembers health as it is before anything changes.
    pub(super) async fn baseline(&self, step: &PromotionStep) -> Result<HealthBaseline, StepError> {
        self.health.baseline(&HealthTarget::of(step)).await.map_err(|error| {
            StepError::trouble(Dependency::Cluster, "HealthUnavailable", super::outcome::explain(&error))
        })
    }

    /// Ends a failed step once the bundle that takes its environment back exists.
    async fn end_rollback(&self, step: PromotionStep, bundle: &Bundle) -> Result<Requeue, KindError> {
        let now = self.clock.now();
        let environment = bundle.status.environments.get(&step.spec.environment);
        let is_planned = environment.is_some_and(|environment| environment.rolled_back_by.is_some());
        // A rollback is not taken back itself, and not everything has something to go back to.
        let has_no_target = find_condition(&bundle.status.conditions, ROLLED_BACK)
            .is_some_and(|condition| condition.status == ConditionStatus::False);
        let is_decided = is_planned || bundle.is_rollback() || has_no_target;
        let failed = step.status.failed_at.unwrap_or(now);
        let end = failed.saturating_add(ROLLBACK_PAUSE).unwrap_or(now);
        if !is_decided && now < end {
            return Ok(Requeue::At(end));
        }
        let mut writer = StatusWriter::new(&self.cluster, step);
        writer.status.state = Some(StepState::Failed);
        let result = writer.write().await.map(|()| Requeue::Done);
        let step = writer.step;
        self.settle(&step, result).await
    }
}
