//! Turns changes of objects into figures: what an object says now and did not say before has happened in between.
//!
//! Objects of the first list are where counting begins: what happened to them before was counted by whoever led then.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use serde_json::Value;
use slipway_cluster::{Error, WatchSink};
use slipway_promotion::kinds::{
    self, Bundle, BundleSpec, KindSpec, PolicyGate, PolicyGateSpec, PromotionStep, PromotionStepSpec,
    Resource, StepProgress, StepProgressState, StepState, labels,
};

use tokio_util::sync::CancellationToken;

use super::*;

/// Counts what happens to objects of one kind.
pub(crate) struct MetricCollector<S: KindSpec> {
    metrics: Arc<MetricRegistry>,
    known: Mutex<HashMap<String, Resource<S>>>,
    /// The first list has ended: from then on everything is counted.
    counts: AtomicBool,
    /// Cancelled when counting has begun, or cannot.
    begun: CancellationToken,
    count: fn(&MetricRegistry, Option<&Resource<S>>, &Resource<S>),
}

impl MetricCollector<BundleSpec> {
    pub(crate) fn of_bundles(metrics: Arc<MetricRegistry>) -> Self {
        Self::new(metrics, count_bundle)
    }
}

impl MetricCollector<PromotionStepSpec> {
    pub(crate) fn of_steps(metrics: Arc<MetricRegistry>) -> Self {
        Self::new(metrics, count_step)
    }
}

impl MetricCollector<PolicyGateSpec> {
    pub(crate) fn of_gates(metrics: Arc<MetricRegistry>) -> Self {
        Self::new(metrics, count_gate)
    }
}

impl<S: KindSpec> MetricCollector<S> {
    fn new(
        metrics: Arc<MetricRegistry>,
        count: fn(&MetricRegistry, Option<&Resource<S>>, &Resource<S>),
    ) -> Self {
        Self {
            metrics,
            known: Mutex::default(),
            counts: AtomicBool::new(false),
            begun: CancellationToken::new(),
            count,
        }
    }

    /// Told when counting has begun, or cannot.
    pub(crate) fn begun(&self) -> CancellationToken {
        self.begun.clone()
    }

    fn note(&self, object: Value, is_first: bool) {
        let Ok(now) = kinds::parse::<S>(object) else { return };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let before = known.insert(now.metadata.uid.clone(), now.clone());
        if !(is_first && before.is_none()) {
            (self.count)(&self.metrics, before.as_ref(), &now);
        }
    }
}

impl<S: KindSpec> WatchSink for MetricCollector<S> {
    fn list_began(&self) {}

    fn list_page(&self, objects: Vec<Value>) {
        let is_first = !self.counts.load(Ordering::Acquire);
        objects.into_iter().for_each(|object| self.note(object, is_first));
    }

    fn list_ended(&self, _version: &str) {
        self.counts.store(true, Ordering::Release);
        self.begun.cancel();
    }

    fn changed(&self, object: Value) {
        self.note(object, false);
    }

    fn deleted(&self, object: Value) {
        let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
        self.known.lock().unwrap_or_else(PoisonError::into_inner).remove(uid);
    }

    fn denied(&self, error: Error) {
        tracing::warn!(kind = S::KIND, %error, "figures of the kind cannot be kept");
        self.begun.cancel();
    }
}

/// Returns true if something is there now and was not before.
fn is_new<T>(before: Option<&Option<T>>, now: &Option<T>) -> bool {
    now.is_some() && before.is_none_or(Option::is_none)
}

fn seconds(from: Option<Timestamp>, to: Option<Timestamp>) -> Option<f64> {
    Some(to?.duration_since(from?).as_secs_f64().max(0.0))
}

fn count_bundle(metrics: &MetricRegistry, before: Option<&Bundle>, now: &Bundle) {
    let pipeline = now.pipeline().unwrap_or_default();
    if before.is_none() {
        let source = if now.is_rollback() {
            "rollback"
        } else if now.metadata.labels.contains_key(labels::SUBSCRIPTION) {
            "subscription"
        } else {
            now.metadata.annotation(labels::CREATED_THROUGH).unwrap_or("kubectl")
        };
        metrics.count(BUNDLES_CREATED, &[pipeline, source]);
        if now.is_rollback() {
            let automatic = now.metadata.annotation(labels::CREATED_THROUGH).is_none();
            let trigger = match (now.is_emergency(), automatic) {
                (true, _) => "emergency",
                (false, true) => "auto",
                (false, false) => "manual",
            };
            let target = now.spec.intent().target.unwrap_or_default();
            metrics.count(ROLLBACKS, &[&target, trigger]);
        }
    }
    if before.is_none_or(|before| before.phase() != now.phase()) {
        metrics.count(BUNDLES, &[&format!("{:?}", now.phase())]);
    }
    for (name, environment) in &now.status.environments {
        let earlier = before.and_then(|before| before.status.environments.get(name));
        if is_new(earlier.map(|one| &one.verified_at), &environment.verified_at)
            && let Some(time) = seconds(now.metadata.creation_timestamp, environment.verified_at)
        {
            metrics.observe(LEAD_TIMES, &[pipeline, name], time);
        }
    }
}

fn count_step(metrics: &MetricRegistry, before: Option<&PromotionStep>, now: &PromotionStep) {
    let environment = now.spec.environment.as_str();
    let earlier = before.map(|before| &before.status);
    let status = &now.status;
    if is_new(earlier.map(|one| &one.promoted_at), &status.promoted_at) {
        let approval = serde_json::to_value(now.spec.approval).unwrap_or_default();
        metrics.count(PROMOTIONS_OPENED, &[environment, approval.as_str().unwrap_or_default()]);
    }
    if is_new(earlier.map(|one| &one.merged_at), &status.merged_at) && status.pr_number.is_some() {
        metrics.count(PROMOTIONS_MERGED, &[environment]);
        if let Some(time) = seconds(status.promoted_at, status.merged_at) {
            metrics.observe(PR_DURATION, &[environment], time);
        }
    }
    let has_failed =
        |step: &PromotionStep| step.state().is_failure() || step.state() == StepState::RollingBack;
    if has_failed(now) && !before.is_some_and(has_failed) {
        metrics.count(PROMOTIONS_FAILED, &[environment, status.reason.as_deref().unwrap_or("Unknown")]);
    }
    if is_new(earlier.map(|one| &one.verified_at), &status.verified_at) {
        let adapter = status.health.as_ref().map_or("none", |health| health.adapter.as_str());
        let since = status.merged_at.or(status.promoted_at).or(status.started_at);
        if let Some(time) = seconds(since, status.verified_at) {
            metrics.observe(HEALTH_DURATION, &[adapter], time);
        }
    }
    for (index, entry) in status.steps.iter().enumerate() {
        let earlier = earlier.and_then(|status| status.steps.get(index));
        count_entry(metrics, earlier, entry);
    }
}

fn count_entry(metrics: &MetricRegistry, before: Option<&StepProgress>, now: &StepProgress) {
    let has_ended = |entry: &StepProgress| {
        matches!(entry.state, StepProgressState::Completed | StepProgressState::Failed)
    };
    if !has_ended(now) || before.is_some_and(has_ended) {
        return;
    }
    let result = if now.state == StepProgressState::Completed { "success" } else { "failure" };
    metrics.count(STEPS, &[&now.name, result]);
    let time = now.duration_ms.map(|time| time as f64 / 1000.0);
    let time = time.or_else(|| seconds(now.started_at, now.completed_at)).unwrap_or_default();
    metrics.observe(STEP_DURATION, &[&now.name], time);
    if let Some(operation) = now.name.strip_prefix("git-") {
        metrics.observe(GIT_DURATION, &[operation], time);
    }
}

fn count_gate(metrics: &MetricRegistry, before: Option<&PolicyGate>, now: &PolicyGate) {
    if !now.is_instance() {
        return;
    }
    let name = now.spec.template_ref.as_ref().map_or(now.name(), |template| template.name.as_str());
    let earlier = before.map(|before| &before.status);
    if now.status.last_evaluated_at.is_some()
        && earlier.is_none_or(|one| one.last_evaluated_at != now.status.last_evaluated_at)
    {
        let result = now.status.phase.map_or_else(|| "Pending".to_owned(), |phase| format!("{phase:?}"));
        metrics.count(GATES_EVALUATED, &[&result.to_lowercase()]);
        metrics.count(GATE_EVALUATIONS, &[&result.to_lowercase()]);
    }
    if is_new(earlier.map(|one| &one.first_blocked_at), &now.status.first_blocked_at) {
        metrics.count(GATES_BLOCKED, &[name]);
    }
    if is_new(earlier.map(|one| &one.passed_at), &now.status.passed_at)
        && let Some(time) = seconds(now.status.first_blocked_at, now.status.passed_at)
    {
        metrics.observe(GATE_BLOCKING, &[name], time);
    }
}
