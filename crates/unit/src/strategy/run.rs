//! Carries a strategy out: its steps as a graph on the kernel, each in the log before it changes anything.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use slipway_event::{NodeKind, NodeName};
use slipway_graph::{Classify, Done, RetryClass, Run};
use slipway_release::{ExecuteOptions, Failure, ReleaseContent, ReleaseReport, ReleaseRequest};
use slipway_source::RenderedSource;

use super::abort::logged_baseline;
use super::baseline::Baseline;
use super::bluegreen::{colored_release, next_color};
use super::objects::{canary_name, colored_name};
use super::rollout::{Pace, RolloutContext};
use super::settings::{OnFailure, StepPause, Strategy, StrategyKind};
use super::steps::{PREPARE, PROMOTE, Step, StepAction};
use crate::deploy::DeployOutcome;
use crate::error::UnitError;
use crate::ledger::{StepRecord, StepStatus};
use crate::verify::{CheckStatus, run_probes};

/// The time between two looks at the new pods during a pause.
const LOOK_DURING_PAUSE: Duration = Duration::from_secs(5);

/// The reason a step did not end well.
#[derive(Debug)]
pub(crate) enum StepError {
    /// It waits for somebody to resume the rollout.
    Paused,
    /// The new pods are not well.
    Failed(String),
    /// The user stopped it.
    Cancelled,
    Unit(UnitError),
}

impl std::fmt::Display for StepError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Paused => f.write_str("it waits to be resumed"),
            Self::Failed(why) => f.write_str(why),
            Self::Cancelled => f.write_str("it was stopped"),
            Self::Unit(error) => error.fmt(f),
        }
    }
}

impl Classify for StepError {
    fn class(&self) -> RetryClass {
        match self {
            Self::Paused | Self::Cancelled => RetryClass::Cancelled,
            Self::Failed(_) | Self::Unit(_) => RetryClass::Permanent,
        }
    }
}

impl From<UnitError> for StepError {
    fn from(error: UnitError) -> Self {
        Self::Unit(error)
    }
}

impl StepError {
    pub(crate) fn into_unit(self) -> UnitError {
        match self {
            Self::Unit(error) => error,
            other => UnitError::problem(other.to_string()),
        }
    }
}

/// Carries a strategy out, or goes on with it where its log ends.
pub async fn deploy(strategy: &Strategy, context: &RolloutContext<'_>) -> Result<DeployOutcome, UnitError> {
    let strategy =
        if is_first_install(strategy, context).await? { as_whole(strategy) } else { strategy.clone() };
    let rollout = Rollout { strategy: &strategy, context, report: Mutex::default(), end: Mutex::default() };
    if let Err(error) = rollout.reconcile().await {
        return rollout.give_up(error).await;
    }
    let graph = strategy.graph()?;
    let title = format!("deploy {}", context.request.name);
    let worker = graph.worker(|node| {
        let rollout = &rollout;
        async move {
            let cancelled = node.cancelled().clone();
            let step = node.value();
            let work = tokio::select! {
                done = rollout.attempt(step) => done,
                () = cancelled.cancelled() => Err(StepError::Cancelled),
            };
            // The kernel tells what happened; the error itself decides what comes next.
            work.map_err(|error| rollout.keep(&step.id, error))
        }
    });
    let run = Run::new(&graph, &worker).cancel(context.cancel.clone());
    let name = |id: &slipway_graph::Id| NodeName::new(NodeKind::Step, id);
    let observed = run.observe(|event| context.events.observe(&title, name, &event)).run().await;
    observed.map_err(|error| UnitError::problem(error.to_string()))?;
    let end = rollout.end.lock().unwrap_or_else(PoisonError::into_inner).take();
    match end {
        Some(ended) => rollout.give_up(ended).await,
        None if context.cancel.is_cancelled() => Err(cancelled()),
        None => rollout.finished().await,
    }
}

fn cancelled() -> UnitError {
    let message = "the rollout was stopped; resume or abort it".to_owned();
    Failure::Cancelled { message, report: None }.into()
}

/// Tells that there is nothing a rollout could go beside.
async fn is_first_install(strategy: &Strategy, context: &RolloutContext<'_>) -> Result<bool, UnitError> {
    if context.log.has_begun(&strategy.step_id(PREPARE))? {
        return Ok(false);
    }
    let scene = context.scene();
    match &strategy.kind {
        StrategyKind::Rolling => Ok(false),
        StrategyKind::Canary(_) => {
            for target in &strategy.targets {
                if context.cluster.get(&scene.deployment(&target.0)).await?.is_none() {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        StrategyKind::BlueGreen(settings) => {
            Ok(context.cluster.get(&scene.service(&settings.service)).await?.is_none())
        }
    }
}

/// The strategy of a first install: blue-green keeps its kind, for its objects have a color.
fn as_whole(strategy: &Strategy) -> Strategy {
    match strategy.kind {
        StrategyKind::BlueGreen(_) => strategy.clone(),
        _ => Strategy { kind: StrategyKind::Rolling, ..strategy.clone() },
    }
}

/// A strategy under way.
struct Rollout<'a, 'c> {
    strategy: &'a Strategy,
    context: &'a RolloutContext<'c>,
    report: Mutex<Option<ReleaseReport>>,
    /// The error that ended it, with the step.
    end: Mutex<Option<EndedStep>>,
}

/// The end of a rollout before its last step.
struct EndedStep {
    step: String,
    error: StepError,
}

impl Rollout<'_, '_> {
    fn record(&self, step: &Step, status: StepStatus, signals: Value) -> Result<(), UnitError> {
        let weight = match step.action {
            StepAction::Weight(weight) => Some(weight),
            _ => None,
        };
        self.context.log.record(&StepRecord { step: step.id.clone(), weight, status, signals })
    }

    /// Carries one step out, unless an earlier run did.
    async fn attempt(&self, step: &Step) -> Result<Done, StepError> {
        let known = self.context.log.last(&step.id)?;
        match &known {
            Some(record) if record.status == StepStatus::Succeeded => {
                return Ok(Done::skipped("done before"));
            }
            // Whoever deploys a paused rollout again resumes it.
            Some(record) if record.status == StepStatus::Paused => {
                self.record(
                    step,
                    StepStatus::Succeeded,
                    json!({"resumed": self.context.log.now().to_string()}),
                )?;
                return Ok(Done::OK);
            }
            Some(_) | None => self.record(step, StepStatus::Started, Value::Null)?,
        }
        let signals = known.map(|record| record.signals).unwrap_or_default();
        let outcome = self.act(step, &signals).await;
        match &outcome {
            Ok(seen) => self.record(step, StepStatus::Succeeded, seen.clone())?,
            Err(StepError::Paused) => self.record(step, StepStatus::Paused, Value::Null)?,
            Err(StepError::Cancelled) => {}
            Err(error) => self.record(step, StepStatus::Failed, json!({"why": error.to_string()}))?,
        }
        outcome.map(|_| Done::OK)
    }

    async fn act(&self, step: &Step, known: &Value) -> Result<Value, StepError> {
        match (&step.action, &self.strategy.kind) {
            (StepAction::Prepare, _) => self.prepare(step).await,
            (StepAction::Weight(weight), StrategyKind::Canary(canary)) => {
                self.context.set_weight(self.strategy, canary, &self.baseline()?, *weight).await?;
                self.look().await
            }
            (StepAction::Color, StrategyKind::BlueGreen(settings)) => {
                self.context.run_color(settings, self.target(), &self.baseline()?).await?;
                Ok(Value::Null)
            }
            (StepAction::Switch, StrategyKind::BlueGreen(settings)) => {
                self.context.switch_service(settings, self.target(), &self.baseline()?).await?;
                Ok(Value::Null)
            }
            (StepAction::Pause(_) | StepAction::Check, StrategyKind::BlueGreen(_))
                if self.baseline()?.service.is_none() =>
            {
                Ok(Value::Null)
            }
            (StepAction::Pause(pause), _) => self.pause(step, pause, known).await,
            (StepAction::Check, _) => self.look().await,
            (StepAction::Promote, _) => self.promote().await,
            (StepAction::Cleanup, _) => self.cleanup().await,
            (StepAction::Weight(_) | StepAction::Color | StepAction::Switch, _) => Ok(Value::Null),
        }
    }

    fn target(&self) -> &str {
        self.strategy.targets.first().map_or("", |target| target.0.as_str())
    }

    fn baseline(&self) -> Result<Baseline, UnitError> {
        Ok(logged_baseline(self.context.log)?.unwrap_or_default())
    }

    /// Writes down what is there, then creates what the new pods need. What was written down once is never read again: by
    /// then it may be the rollout's own.
    async fn prepare(&self, step: &Step) -> Result<Value, StepError> {
        let baseline = match logged_baseline(self.context.log)? {
            Some(baseline) => baseline,
            None => {
                let baseline = match &self.strategy.kind {
                    StrategyKind::Rolling => Baseline::default(),
                    StrategyKind::Canary(canary) => {
                        self.context.canary_baseline(self.strategy, canary).await?
                    }
                    StrategyKind::BlueGreen(settings) => self.context.color_baseline(settings).await?,
                };
                self.record(step, StepStatus::Started, baseline.to_value())?;
                baseline
            }
        };
        match &self.strategy.kind {
            StrategyKind::Rolling => {}
            StrategyKind::Canary(canary) => self.context.prepare_canary(self.strategy, canary).await?,
            StrategyKind::BlueGreen(_) => {
                if let Some(service) = &baseline.service {
                    let rendered = self.context.rendered_target(self.target())?;
                    let problems = self.context.scene().check_quota(rendered, service).await?;
                    if problems.has_errors() {
                        return Err(UnitError::from(problems).into());
                    }
                }
            }
        }
        Ok(baseline.to_value())
    }

    /// The workloads of the new pods.
    fn new_workloads(&self) -> Result<Vec<String>, UnitError> {
        let targets = self.strategy.targets.iter().map(|target| target.0.as_str());
        Ok(match self.strategy.kind {
            StrategyKind::Rolling => Vec::new(),
            StrategyKind::Canary(_) => targets.map(canary_name).collect(),
            StrategyKind::BlueGreen(_) => {
                let color = next_color(self.baseline()?.service.as_ref());
                targets.map(|name| colored_name(name, color)).collect()
            }
        })
    }

    /// Holds the signals of the new pods against the settings.
    async fn look(&self) -> Result<Value, StepError> {
        let mut seen = Vec::new();
        for workload in self.new_workloads()? {
            let signals = self.context.scene().observe_signals(&workload).await?;
            if let Some(why) = signals.objection(&self.strategy.signals) {
                return Err(StepError::Failed(why));
            }
            seen.push(signals);
        }
        let probes = &self.strategy.signals.probes;
        if !probes.is_empty() {
            let probed = run_probes(self.context.cluster, &self.context.request.namespace, probes).await;
            if probed.status == CheckStatus::Fail {
                return Err(StepError::Failed(probed.detail.join(", ")));
            }
        }
        Ok(json!(seen))
    }

    /// Waits, and keeps an eye on the new pods meanwhile. The end of a pause is written down, so that a crash does not prolong it.
    async fn pause(&self, step: &Step, pause: &StepPause, known: &Value) -> Result<Value, StepError> {
        let time = match pause {
            _ if self.context.pace == Pace::WithoutPauses => return Ok(Value::Null),
            StepPause::Manual => return Err(StepError::Paused),
            StepPause::For(time) => SignedDuration::try_from(*time).unwrap_or(SignedDuration::MAX),
        };
        let begun: Option<Timestamp> = known["until"].as_str().and_then(|text| text.parse().ok());
        let until = match begun {
            Some(until) => until,
            None => {
                let until = self.context.log.now().saturating_add(time).unwrap_or(Timestamp::MAX);
                self.record(step, StepStatus::Started, json!({"until": until.to_string()}))?;
                until
            }
        };
        loop {
            self.look().await?;
            let left = until.duration_since(self.context.log.now());
            if left <= SignedDuration::ZERO {
                return Ok(Value::Null);
            }
            tokio::time::sleep(left.unsigned_abs().min(LOOK_DURING_PAUSE)).await;
        }
    }

    /// The objects of the release as they are to be in the end.
    fn final_release(&self, baseline: &Baseline) -> RenderedSource {
        match &self.strategy.kind {
            StrategyKind::Rolling | StrategyKind::Canary(_) => self.context.rendered.clone(),
            StrategyKind::BlueGreen(settings) => {
                let color = next_color(baseline.service.as_ref());
                colored_release(self.context.rendered, self.target(), &settings.service, color)
            }
        }
    }

    /// Deploys the release as a whole.
    async fn promote(&self) -> Result<Value, StepError> {
        let baseline = self.baseline()?;
        self.context.restore_unsaid_replicas(&baseline).await?;
        let report = self.deploy_release(&baseline).await?;
        let revision = report.revision.get();
        *self.report.lock().unwrap_or_else(PoisonError::into_inner) = Some(report);
        Ok(json!({"revision": revision}))
    }

    async fn deploy_release(&self, baseline: &Baseline) -> Result<ReleaseReport, UnitError> {
        let context = self.context;
        let content = ReleaseContent::Rendered(Box::new(self.final_release(baseline)));
        let request = ReleaseRequest { content, ..context.request.clone() };
        // Rolling a switched color back would take the pods away that serve: it stays, to be resumed.
        let can_roll_back = !matches!(self.strategy.kind, StrategyKind::BlueGreen(_));
        let auto_rollback = can_roll_back && self.strategy.on_failure == OnFailure::Rollback;
        let options = ExecuteOptions { auto_rollback, ..context.options.clone() };
        let applied = slipway_release::apply(
            context.cluster,
            &request,
            &options,
            context.events,
            context.cancel.clone(),
        )
        .await;
        Ok(applied?)
    }

    /// Restores what the release does not have, then removes what only the rollout needed.
    async fn cleanup(&self) -> Result<Value, StepError> {
        let (scene, baseline) = (self.context.scene(), self.baseline()?);
        for workload in &baseline.workloads {
            let scaler = workload.autoscaler.as_ref().map(|scaler| scaler.name.as_str()).unwrap_or_default();
            if self.context.rendered_object("autoscaling", "HorizontalPodAutoscaler", scaler).is_none() {
                scene.restore_autoscaler(workload).await?;
            }
        }
        for route in &baseline.routes {
            let rendered =
                self.context.rendered_object("gateway.networking.k8s.io", "HTTPRoute", &route.name);
            if rendered.is_none() {
                scene.restore_route(route).await?;
            }
        }
        scene.hand_over(&self.final_release(&baseline)).await?;
        Ok(Value::Null)
    }

    /// Brings what is there in line with the last weight that was reached, before a resumed rollout goes on: somebody may have
    /// changed it meanwhile.
    async fn reconcile(&self) -> Result<(), EndedStep> {
        let at = |step: &str| {
            let step = step.to_owned();
            move |error: StepError| EndedStep { step, error }
        };
        let resumed = "resume";
        let has_promoted = self
            .context
            .log
            .has_begun(&self.strategy.step_id(PROMOTE))
            .map_err(StepError::from)
            .map_err(at(resumed))?;
        if has_promoted {
            return Ok(());
        }
        let mut last = None;
        for step in self.strategy.steps() {
            if self.context.log.is_done(&step.id).map_err(StepError::from).map_err(at(resumed))? {
                last = match step.action {
                    StepAction::Weight(_) | StepAction::Color => Some(step),
                    _ => last,
                };
            }
        }
        let Some(step) = last else { return Ok(()) };
        self.act(&step, &Value::Null).await.map(drop).map_err(at(&step.id))
    }

    /// Keeps the first error for later and gives one the kernel can tell.
    fn keep(&self, step: &str, error: StepError) -> StepFailure {
        let failure = StepFailure { class: error.class(), text: error.to_string() };
        let mut end = self.end.lock().unwrap_or_else(PoisonError::into_inner);
        end.get_or_insert(EndedStep { step: step.to_owned(), error });
        failure
    }

    /// Ends a rollout that did not reach its end.
    async fn give_up(&self, ended: EndedStep) -> Result<DeployOutcome, UnitError> {
        let EndedStep { step, error } = ended;
        let why = match error {
            StepError::Paused => return Ok(DeployOutcome::Paused { step }),
            StepError::Cancelled => return Err(cancelled()),
            error if self.strategy.on_failure == OnFailure::Hold => return Err(error.into_unit()),
            error => error,
        };
        if self.context.log.has_begun(&self.strategy.step_id(PROMOTE))? {
            return Err(why.into_unit());
        }
        let baseline = logged_baseline(self.context.log)?;
        let taken = self.context.scene().take_back(baseline.as_ref()).await;
        taken.map_err(StepError::into_unit)?;
        // A mistake of the strategy or its target is the user's to mend, not a verdict on the new version.
        match why {
            StepError::Unit(error @ UnitError::Problems(_)) => Err(error),
            why => Ok(DeployOutcome::TakenBack { why: format!("{step}: {why}") }),
        }
    }

    /// The end of a rollout that went well. A run that only had to clean up asks the release engine once more.
    async fn finished(&self) -> Result<DeployOutcome, UnitError> {
        let known = self.report.lock().unwrap_or_else(PoisonError::into_inner).take();
        let report = match known {
            Some(report) => report,
            None => self.deploy_release(&self.baseline()?).await?,
        };
        Ok(DeployOutcome::Deployed(Box::new(report)))
    }
}

/// The failure of a step as the kernel tells it.
#[derive(Clone, Debug)]
struct StepFailure {
    class: RetryClass,
    text: String,
}

impl std::fmt::Display for StepFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl Classify for StepFailure {
    fn class(&self) -> RetryClass {
        self.class
    }
}
