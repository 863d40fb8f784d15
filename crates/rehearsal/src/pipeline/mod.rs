//! A whole promotion on this machine, in simulated time: embedded cluster, a bare repository, pull requests without a server
//! and a GitOps tool of a few lines (`stage`, `forge`, `sync`).
//!
//! `adapt` makes objects of a user fit for it and says what is assumed. [`rehearse_pipeline`] plays: the real controller
//! works until it waits for the clock, what changed is written down (`observe`), then the clock moves to the next moment at
//! which something is due. The same request gives the same [`PipelineTimeline`].

mod adapt;
mod demo;
mod forge;
mod observe;
mod stage;
mod sync;
mod timeline;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use slipway_cluster::ListOptions;
use slipway_git::{BranchName, LocalFile};
use slipway_promotion::PromotionSettings;
use slipway_promotion::act::scaffold_files;
use slipway_promotion::files::PromotionFiles;
use slipway_promotion::kinds::{
    self, Bundle, BundleEnvironmentStatus, BundlePhase, BundleSpec, BundleStatus, Metadata, Pipeline,
    PromotionStepSpec, StepState, find_condition, labels,
};
use slipway_promotion::view::{SurveySettings, survey_pipeline};
use slipway_sandbox::{ClockSpeed, Sandbox};

pub use demo::PipelineDemo;
pub use forge::LocalForge;
pub use stage::PromotionStage;
pub use sync::GitOpsSync;
pub use timeline::{
    ArrivalReason, EnvironmentArrival, PipelineTimeline, RehearsalEnd, TimelineEntry, TimelineEvent,
};

use crate::RehearsalError;
use observe::Observer;

/// The time between a merge and the workload that runs it.
const SYNC_DELAY: Duration = Duration::from_secs(60);
/// The shortest time the clock moves by.
const TICK: Duration = Duration::from_millis(1);
/// The reviewer of a rehearsal.
const REVIEWER: &str = "reviewer";

/// The time people take to approve.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApprovalDelay {
    pub usual: Duration,
    pub by_environment: BTreeMap<String, Duration>,
}

impl ApprovalDelay {
    fn of(&self, environment: &str) -> Duration {
        self.by_environment.get(environment).copied().unwrap_or(self.usual)
    }
}

/// A promotion to play.
#[derive(Clone, Debug)]
pub struct PipelineRehearsal {
    pub pipeline: Pipeline,
    /// Gates, windows and templates beside the pipeline.
    pub files: PromotionFiles,
    /// The bundle that is created at the start.
    pub bundle: Bundle,
    /// The version every environment runs before; rollbacks go back to it.
    pub current: Option<Bundle>,
    /// The files of the GitOps repository; scaffolded when empty.
    pub repository: Vec<LocalFile>,
    pub start: Timestamp,
    /// The simulated time after which the rehearsal ends.
    pub limit: Duration,
    pub approvals: ApprovalDelay,
    /// Environments in which the version never gets well.
    pub unhealthy: BTreeSet<String>,
    /// Environments whose pull request is closed instead of merged.
    pub closed: BTreeSet<String>,
    /// Gates that are open whatever they say.
    pub passed_gates: BTreeSet<String>,
    pub policy_namespaces: BTreeSet<String>,
}

/// Something the rehearsal itself does when its time has come.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum PlannedEvent {
    Review { step: String, environment: String, number: u64 },
    Sync { environment: String, bundle: String },
}

/// Plays a promotion.
pub async fn rehearse_pipeline(request: &PipelineRehearsal) -> Result<PipelineTimeline, RehearsalError> {
    let place = tempfile::tempdir().map_err(RehearsalError::Record)?;
    let sandbox = Sandbox::builder()
        .speed(ClockSpeed::Manual)
        .start_at(request.start)
        .seed(1)
        .without_workloads()
        .build()?;
    let branch = BranchName::parse(&request.pipeline.spec.git.branch).map_err(slipway_git::GitError::from)?;
    let files = repository_files(request);
    let mut settings = PromotionSettings::default();
    // Nobody edits the repository of a rehearsal by hand; looking for that every five minutes of a weekend took most of
    // the time.
    settings.steps.promotion.drift_interval = None;
    settings.steps.promotion.policy_namespaces = request.policy_namespaces.clone();
    // The rehearsal says when there is something to see.
    settings.steps.promotion.safety_poll = Duration::from_secs(30 * 24 * 3600);
    let stage = PromotionStage::open(&sandbox, place.path(), &branch, &files, settings).await?;
    let timeline = Play::begin(request, &sandbox, &stage).await?.run().await;
    stage.close().await;
    timeline
}

/// The files of the repository: the user's, or scaffolded ones.
fn repository_files(request: &PipelineRehearsal) -> Vec<LocalFile> {
    if !request.repository.is_empty() {
        return request.repository.clone();
    }
    let images = &request.bundle.spec.artifacts.images;
    let image = images.first().map_or_else(|| request.pipeline.name(), |image| image.name.as_str());
    let scaffolded = scaffold_files(&request.pipeline, image).into_iter();
    scaffolded.map(|file| LocalFile { path: file.path, content: file.content.into_bytes() }).collect()
}

/// A rehearsal under way.
struct Play<'a> {
    request: &'a PipelineRehearsal,
    sandbox: &'a Sandbox,
    stage: &'a PromotionStage,
    pipeline: Pipeline,
    observer: Observer,
    assumptions: Vec<String>,
    /// What is due when.
    agenda: BTreeSet<(Timestamp, PlannedEvent)>,
    /// What was put on the agenda once.
    planned: BTreeSet<PlannedEvent>,
}

impl<'a> Play<'a> {
    /// Puts everything into the embedded cluster.
    async fn begin(
        request: &'a PipelineRehearsal,
        sandbox: &'a Sandbox,
        stage: &'a PromotionStage,
    ) -> Result<Self, RehearsalError> {
        let adapted = adapt::adapt(request, stage);
        for namespace in &adapted.namespaces {
            stage.prepare_namespace(namespace).await?;
        }
        for object in &adapted.objects {
            stage.create(object).await?;
        }
        let pipeline = kinds::create(&stage.cluster, &adapted.pipeline).await?;
        let play = Self {
            observer: Observer::new(&pipeline),
            request,
            sandbox,
            stage,
            pipeline,
            assumptions: adapted.assumptions,
            agenda: BTreeSet::new(),
            planned: BTreeSet::new(),
        };
        play.create_current().await?;
        stage.settle().await?;
        let mut bundle = request.bundle.clone();
        bundle.metadata.namespace = play.pipeline.namespace().to_owned();
        bundle.metadata.labels.insert(labels::PIPELINE.to_owned(), labels::label_value(play.pipeline.name()));
        kinds::create(&stage.cluster, &bundle).await?;
        Ok(play)
    }

    /// Lets every environment run the current version, verified a week ago.
    async fn create_current(&self) -> Result<(), RehearsalError> {
        let Some(current) = &self.request.current else { return Ok(()) };
        let mut metadata = Metadata::named(self.pipeline.namespace(), current.name().to_owned());
        metadata.labels.insert(labels::PIPELINE.to_owned(), labels::label_value(self.pipeline.name()));
        let mut spec: BundleSpec = current.spec.clone();
        spec.pipeline = Some(self.pipeline.name().to_owned());
        let week = Duration::from_secs(7 * 24 * 3600);
        let before = self.request.start.saturating_sub(week).unwrap_or(self.request.start);
        let record = BundleEnvironmentStatus {
            state: Some(StepState::Verified),
            started_at: Some(before),
            promoted_at: Some(before),
            verified_at: Some(before),
            ..BundleEnvironmentStatus::default()
        };
        let names = self.pipeline.spec.environments.iter().map(|environment| environment.name.clone());
        let status = BundleStatus {
            phase: Some(BundlePhase::Verified),
            version: Some(spec.version()),
            environments: names.clone().map(|name| (name, record.clone())).collect(),
            ..BundleStatus::default()
        };
        let mut made = kinds::create(&self.stage.cluster, &Bundle::new(metadata, spec)).await?;
        // The controller may look at it in between.
        loop {
            match kinds::patch_status(&self.stage.cluster, &made, &status).await {
                Err(error) if error.is_conflict() => {
                    let found = kinds::get::<BundleSpec>(&self.stage.cluster, made.namespace(), made.name());
                    made = found.await?.unwrap_or(made);
                }
                written => break drop(written?),
            }
        }
        for name in names {
            GitOpsSync::Healthy.apply(&self.stage.cluster, self.pipeline.name(), &name, &made).await?;
        }
        Ok(())
    }

    async fn run(mut self) -> Result<PipelineTimeline, RehearsalError> {
        let end = self.request.start.saturating_add(self.request.limit).unwrap_or(Timestamp::MAX);
        loop {
            self.stage.settle().await?;
            self.observe().await?;
            if self.has_ended().await? {
                break;
            }
            let due = [self.stage.controller.next_due(), self.agenda.first().map(|(at, _)| *at)];
            let Some(due) = due.into_iter().flatten().min().filter(|due| *due <= end) else { break };
            self.move_to(due).await?;
        }
        self.finish().await
    }

    /// Moves the clock to a moment, or a tick further if it is over. People and the GitOps tool do what is due then right
    /// before: a controller that looks meanwhile would find half of it.
    async fn move_to(&mut self, due: Timestamp) -> Result<(), RehearsalError> {
        let left = Duration::try_from(due.duration_since(self.stage.now())).unwrap_or_default();
        self.sandbox.clock().advance(left.saturating_sub(TICK));
        let nudged = self.act(due).await?;
        self.sandbox.clock().advance(TICK);
        for step in &nudged {
            self.stage.controller.nudge_step(self.pipeline.namespace(), step);
        }
        self.stage.controller.clock_moved();
        Ok(())
    }

    async fn bundles(&self) -> Result<Vec<Bundle>, RehearsalError> {
        let namespace = self.pipeline.namespace();
        Ok(kinds::list::<BundleSpec>(&self.stage.cluster, Some(namespace), &ListOptions::default()).await?)
    }

    /// Writes down what changed, and plans what people and the GitOps tool do about it.
    async fn observe(&mut self) -> Result<(), RehearsalError> {
        let now = self.stage.now();
        let all = ListOptions::default();
        let cluster = &self.stage.cluster;
        let namespace = self.pipeline.namespace();
        let bundles = self.bundles().await?;
        let steps = kinds::list::<PromotionStepSpec>(cluster, Some(namespace), &all).await?;
        let gates = kinds::list::<kinds::PolicyGateSpec>(cluster, None, &all).await?;
        self.observer.look(&bundles, &steps, &gates, now);
        for step in &steps {
            let environment = step.spec.environment.clone();
            let planned = match (step.state(), step.status.pr_number) {
                (StepState::WaitingForMerge, Some(number)) => {
                    let event = PlannedEvent::Review { step: step.name().to_owned(), environment, number };
                    let wait = self.request.approvals.of(&step.spec.environment);
                    Some((event, wait))
                }
                (StepState::HealthChecking, _) => {
                    let event = PlannedEvent::Sync { environment, bundle: step.spec.bundle_ref.clone() };
                    Some((event, SYNC_DELAY))
                }
                _ => None,
            };
            if let Some((event, wait)) = planned
                && self.planned.insert(event.clone())
            {
                let at = now.saturating_add(wait).unwrap_or(now);
                self.agenda.insert((at, event));
            }
        }
        Ok(())
    }

    /// Does what is due at a moment; returns the steps there is something new about.
    async fn act(&mut self, due: Timestamp) -> Result<Vec<String>, RehearsalError> {
        let mut nudged = Vec::new();
        while let Some((at, event)) = self.agenda.first().cloned()
            && at <= due
        {
            self.agenda.remove(&(at, event.clone()));
            match event {
                PlannedEvent::Review { step, environment, number } => {
                    if self.request.closed.contains(&environment) {
                        self.stage.forge.reject(number);
                        self.observer.note_closed(&environment, number, due);
                    } else if let Err(error) = self.stage.forge.approve(number, REVIEWER).await {
                        let problem = slipway_problem::Problem::error(error.to_string());
                        return Err(RehearsalError::Failed(problem.into()));
                    }
                    nudged.push(step);
                }
                PlannedEvent::Sync { environment, bundle } => {
                    let namespace = self.pipeline.namespace();
                    let found = kinds::get::<BundleSpec>(&self.stage.cluster, namespace, &bundle).await?;
                    let Some(found) = found else { continue };
                    // A rollback brings back what was healthy.
                    let is_unhealthy = self.request.unhealthy.contains(&environment) && !found.is_rollback();
                    let sync = if is_unhealthy { GitOpsSync::Unhealthy } else { GitOpsSync::Healthy };
                    sync.apply(&self.stage.cluster, self.pipeline.name(), &environment, &found).await?;
                    self.observer.note_synced(&bundle, &environment, !is_unhealthy, due);
                }
            }
        }
        Ok(nudged)
    }

    /// Tells that nothing more is going to happen: the bundle and whatever takes it back have ended.
    async fn has_ended(&self) -> Result<bool, RehearsalError> {
        let bundles = self.bundles().await?;
        Ok(bundles.iter().all(|bundle| bundle.phase().is_terminal()))
    }

    async fn finish(self) -> Result<PipelineTimeline, RehearsalError> {
        let ended_at = self.stage.now();
        let namespace = self.pipeline.namespace();
        let name = self.request.bundle.name();
        let bundle = kinds::get::<BundleSpec>(&self.stage.cluster, namespace, name).await?;
        let bundle = bundle.unwrap_or_else(|| self.request.bundle.clone());
        let end = self.judge(&bundle, ended_at).await?;
        let meant: Vec<String> = self.observer.environments(&bundle);
        let (environments, entries) = self.observer.into_parts(&bundle, &meant);
        Ok(PipelineTimeline {
            pipeline: self.pipeline.name().to_owned(),
            bundle: bundle.name().to_owned(),
            version: bundle.spec.version(),
            started_at: self.request.start,
            ended_at,
            end,
            environments,
            entries,
            assumptions: self.assumptions,
        })
    }

    async fn judge(&self, bundle: &Bundle, now: Timestamp) -> Result<RehearsalEnd, RehearsalError> {
        let ready = find_condition(&bundle.status.conditions, "Ready");
        let message = ready.map(|ready| ready.message.clone()).unwrap_or_default();
        match bundle.phase() {
            BundlePhase::Verified => return Ok(RehearsalEnd::Reached),
            phase @ (BundlePhase::SkipDenied | BundlePhase::Superseded) => {
                return Ok(RehearsalEnd::Refused { phase, message });
            }
            phase @ BundlePhase::Failed => {
                let order = self.pipeline.spec.environments.iter().map(|one| one.name.as_str());
                let failed = order.filter_map(|name| Some((name, bundle.status.environments.get(name)?)));
                let failed = failed.into_iter().find(|(_, record)| {
                    record.state.is_some_and(|state| state.is_failure() || state == StepState::RollingBack)
                });
                return Ok(match failed {
                    Some((name, record)) => RehearsalEnd::Failed {
                        environment: name.to_owned(),
                        reason: record.reason.clone().unwrap_or(message),
                    },
                    None => RehearsalEnd::Refused { phase, message },
                });
            }
            BundlePhase::Available | BundlePhase::Promoting => {}
        }
        let settings = SurveySettings { policy_namespaces: self.request.policy_namespaces.clone() };
        let survey = survey_pipeline(
            &self.stage.cluster,
            &settings,
            self.pipeline.namespace(),
            self.pipeline.name(),
            now,
        );
        let Some(survey) = survey.await? else {
            return Ok(RehearsalEnd::Refused { phase: bundle.phase(), message });
        };
        let mut standing = survey.standing(Some(bundle)).environments;
        let waits = standing
            .iter()
            .position(|one| !matches!(one.result, slipway_promotion::view::StandingVerdict::Verified { .. }));
        let standing = standing.swap_remove(waits.unwrap_or(0));
        Ok(RehearsalEnd::Waiting { standing: Box::new(standing) })
    }
}
