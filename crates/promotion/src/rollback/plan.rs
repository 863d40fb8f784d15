//! The bundles that take a failed one back.

use std::collections::BTreeMap;

use super::history::{received_at, record, reverted_commits, rollback_target};
use crate::kinds::{
    Bundle, BundlePhase, BundleSpec, HealthFailurePolicy, Intent, Metadata, Pipeline, RollbackMode,
    RollbackScope, StepState, labels,
};

/// The bundles to create after a failure.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RollbackPlan {
    pub bundles: Vec<Bundle>,
    /// The environments that are left as they are.
    pub notes: Vec<RollbackNote>,
}

/// An environment that is not taken back, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RollbackNote {
    pub environment: String,
    pub skip: RollbackSkip,
}

/// The reason an environment is not taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RollbackSkip {
    /// The failed bundle is a rollback itself; another one would go on for ever.
    IsRollback,
    /// The pipeline or the environment wants none.
    NotWanted,
    /// The change never reached the environment.
    NotReceived,
    /// Another bundle has reached the environment since.
    TakenOver,
    /// There is a rollback already, and it is recorded.
    Done,
    /// Nothing was verified there before.
    NoTarget,
}

impl RollbackSkip {
    /// The reason, for machines.
    pub fn reason(self) -> &'static str {
        match self {
            Self::IsRollback => "IsRollback",
            Self::NotWanted => "RollbackDisabled",
            Self::NotReceived => "NotReceived",
            Self::TakenOver => "TakenOver",
            Self::Done => "RollbackExists",
            Self::NoTarget => "NoRollbackTarget",
        }
    }
}

/// The name of the bundle that takes another back; the same however often it is asked for.
pub fn rollback_name(pipeline: &str, environment: &str, failed: &Bundle) -> String {
    let identity = format!("{}/{environment}", failed.metadata.uid);
    let name = format!("{pipeline}-rollback-{environment}-{}", labels::short_hash(&identity, 8));
    labels::bounded_name(&name, &identity)
}

/// Plans the bundles that take a failed one back: for the environment that failed and, unless the pipeline says
/// otherwise, for those before it that still run it. `bundles` are all of the pipeline.
///
/// Of a bundle that goes on elsewhere only what a step waits for is taken back.
pub fn plan_rollbacks(pipeline: &Pipeline, failed: &Bundle, bundles: &[Bundle]) -> RollbackPlan {
    let mut plan = RollbackPlan::default();
    let note = |plan: &mut RollbackPlan, environment: &str, skip| {
        plan.notes.push(RollbackNote { environment: environment.to_owned(), skip });
    };
    let failures: Vec<&str> = failed
        .status
        .environments
        .iter()
        .filter(|(_, record)| record.state.is_some_and(|state| triggers(failed, state)))
        .map(|(name, _)| name.as_str())
        .collect();
    let mut wanted = false;
    for environment in &failures {
        match decide_failure(pipeline, failed, environment) {
            Ok(()) => wanted = true,
            Err(skip) => note(&mut plan, environment, skip),
        }
    }
    if !wanted {
        return plan;
    }
    let declared: BTreeMap<&str, usize> =
        pipeline.spec.environments.iter().enumerate().map(|(at, one)| (one.name.as_str(), at)).collect();
    let mut affected: Vec<&str> = failed.status.environments.keys().map(String::as_str).collect();
    affected.sort_by_key(|name| declared.get(name).copied().unwrap_or(usize::MAX));
    for environment in affected {
        let has_failed = failures.contains(&environment);
        let is_in_scope =
            has_failed || (!goes_on(failed) && pipeline.spec.rollback.scope == RollbackScope::All);
        let is_noted = plan.notes.iter().any(|known| known.environment == environment);
        if !is_in_scope || is_noted || received_at(failed, environment).is_none() {
            continue;
        }
        match plan_environment(pipeline, failed, environment, bundles) {
            Ok(bundle) => plan.bundles.push(bundle),
            Err(skip) => note(&mut plan, environment, skip),
        }
    }
    plan
}

/// A failure that may be answered with a rollback. An environment that was aborted by an alarm stays as it is.
fn triggers(failed: &Bundle, state: StepState) -> bool {
    state == StepState::RollingBack || (state == StepState::Failed && !goes_on(failed))
}

fn goes_on(bundle: &Bundle) -> bool {
    bundle.phase() == BundlePhase::Promoting
}

/// Decides whether a failed environment starts a rollback.
fn decide_failure(pipeline: &Pipeline, failed: &Bundle, environment: &str) -> Result<(), RollbackSkip> {
    if failed.is_rollback() {
        return Err(RollbackSkip::IsRollback);
    }
    if !is_wanted(pipeline, environment) {
        return Err(RollbackSkip::NotWanted);
    }
    received_at(failed, environment).map(|_| ()).ok_or(RollbackSkip::NotReceived)
}

/// What the environment says explicitly wins over the pipeline.
fn is_wanted(pipeline: &Pipeline, environment: &str) -> bool {
    let named = pipeline.spec.environments.iter().find(|known| known.name == environment);
    match named.and_then(|known| known.on_health_failure) {
        Some(HealthFailurePolicy::Rollback) => true,
        Some(HealthFailurePolicy::Abort | HealthFailurePolicy::None) => false,
        None => pipeline.spec.rollback.on_failure == RollbackMode::Pr,
    }
}

fn plan_environment(
    pipeline: &Pipeline,
    failed: &Bundle,
    environment: &str,
    bundles: &[Bundle],
) -> Result<Bundle, RollbackSkip> {
    if !is_wanted(pipeline, environment) {
        return Err(RollbackSkip::NotWanted);
    }
    let name = rollback_name(pipeline.name(), environment, failed);
    // One that exists and is not recorded is made once more: its name keeps it from being another, and it is recorded then.
    if record(failed, environment).is_some_and(|record| record.rolled_back_by.is_some()) {
        return Err(RollbackSkip::Done);
    }
    let received = received_at(failed, environment);
    let is_other = |other: &&Bundle| other.metadata.uid != failed.metadata.uid && other.name() != name;
    let is_taken_over =
        bundles.iter().filter(is_other).any(|other| received_at(other, environment) > received);
    if is_taken_over {
        return Err(RollbackSkip::TakenOver);
    }
    let target = rollback_target(environment, failed, bundles).ok_or(RollbackSkip::NoTarget)?;
    Ok(rollback_bundle(
        pipeline.name(),
        environment,
        name,
        RollbackSpan { from: failed, to: target, bundles },
    ))
}

/// The way back of an environment.
#[derive(Clone, Copy)]
pub(super) struct RollbackSpan<'b> {
    pub(super) from: &'b Bundle,
    pub(super) to: &'b Bundle,
    /// All of the pipeline.
    pub(super) bundles: &'b [Bundle],
}

/// Makes the bundle: the artifacts of the target for one environment.
pub(super) fn rollback_bundle(
    pipeline: &str,
    environment: &str,
    name: String,
    span: RollbackSpan<'_>,
) -> Bundle {
    let RollbackSpan { from: failed, to: target, bundles } = span;
    let mut metadata = Metadata::named(failed.namespace(), name);
    let own = target.metadata.labels.iter().filter(|(key, _)| !key.starts_with(labels::PREFIX));
    metadata.labels = own.map(|(key, value)| (key.clone(), value.clone())).collect();
    metadata.labels.insert(labels::PIPELINE.to_owned(), labels::label_value(pipeline));
    metadata.labels.insert(labels::ROLLBACK.to_owned(), "true".to_owned());
    let mut provenance = target.spec.provenance.clone().unwrap_or_default();
    provenance.rollback_of = Some(failed.name().to_owned());
    provenance.rollback_to = Some(target.name().to_owned());
    provenance.reverted_commits = reverted_commits(environment, failed, target, bundles);
    let spec = BundleSpec {
        kind: target.spec.kind,
        pipeline: Some(pipeline.to_owned()),
        artifacts: target.spec.artifacts.clone(),
        provenance: Some(provenance),
        intent: Some(Intent {
            from: Some(environment.to_owned()),
            target: Some(environment.to_owned()),
            skip: Vec::new(),
        }),
        ..BundleSpec::default()
    };
    Bundle::new(metadata, spec)
}
