//! Past promotions under present gates: which of them would have been held?

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use super::context::{GateContext, MetricContext, PreviousBundle, UpstreamContext, WindowContext};
use super::evaluate::GateEvaluator;
use super::simulate::{Simulation, simulate};
use crate::kinds::{Bundle, GateScope, MetricResult, NoDataBehavior, PolicyGate, StepState};

/// A promotion of the past and what present gates say to it.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplayedPromotion {
    pub bundle: String,
    pub version: String,
    /// When it began.
    pub at: Timestamp,
    pub simulation: Simulation,
}

/// Evaluates present gates at the moments past promotions into an environment began, the newest first.
///
/// `upstreams` are the environments directly before; measurements are those of each promotion's evidence.
pub fn replay_history(
    evaluator: &GateEvaluator,
    gates: &[(GateScope, &PolicyGate)],
    bundles: &[Bundle],
    environment: &str,
    upstreams: &[String],
    windows: &BTreeMap<String, WindowContext>,
    count: usize,
) -> Vec<ReplayedPromotion> {
    let began = |bundle: &Bundle| {
        let record = bundle.status.environments.get(environment)?;
        record.started_at.or(record.promoted_at).or(record.verified_at)
    };
    let mut past: Vec<(Timestamp, &Bundle)> =
        bundles.iter().filter_map(|bundle| Some((began(bundle)?, bundle))).collect();
    past.sort_by_key(|(at, bundle)| (std::cmp::Reverse(*at), bundle.name().to_owned()));
    let replayed = |(at, bundle): (Timestamp, &Bundle)| {
        let context = past_context(bundle, bundles, environment, upstreams, windows, at);
        ReplayedPromotion {
            bundle: bundle.name().to_owned(),
            version: bundle.spec.version(),
            at,
            simulation: simulate(evaluator, gates, &context),
        }
    };
    past.into_iter().take(count).map(replayed).collect()
}

/// The context of a bundle before an environment at a moment, as far as the records of its pipeline tell.
pub fn past_context(
    bundle: &Bundle,
    bundles: &[Bundle],
    environment: &str,
    upstreams: &[String],
    windows: &BTreeMap<String, WindowContext>,
    at: Timestamp,
) -> GateContext {
    let mut context = GateContext::for_bundle(bundle, environment, at);
    context.upstream = upstreams_of(bundle, upstreams, at);
    context.previous = previous(bundles, environment, at);
    context.metrics = metrics(bundle, environment, at);
    context.windows = windows.clone();
    context
}

fn upstreams_of(bundle: &Bundle, names: &[String], at: Timestamp) -> BTreeMap<String, UpstreamContext> {
    let upstream = |name: &String| {
        let record = bundle.status.environments.get(name);
        let verified = record.and_then(|record| record.soak_since.or(record.verified_at));
        let context = UpstreamContext {
            direct: true,
            verified_at: verified.filter(|verified| *verified <= at),
            ..UpstreamContext::default()
        };
        (name.clone(), context)
    };
    names.iter().map(upstream).collect()
}

fn previous(bundles: &[Bundle], environment: &str, at: Timestamp) -> Option<PreviousBundle> {
    let verified = |bundle: &Bundle| {
        let record = bundle.status.environments.get(environment)?;
        let then = record.verified_at.filter(|then| *then <= at)?;
        (record.state == Some(StepState::Verified)).then(|| PreviousBundle {
            name: bundle.name().to_owned(),
            version: bundle.spec.version(),
            verified_at: Some(then),
            images: bundle.spec.artifacts.images.clone(),
        })
    };
    bundles.iter().filter_map(verified).max_by_key(|bundle| bundle.verified_at)
}

fn metrics(bundle: &Bundle, environment: &str, at: Timestamp) -> BTreeMap<String, MetricContext> {
    let evidence = bundle.status.environments.get(environment).and_then(|record| record.evidence.as_ref());
    let known = evidence.map(|evidence| evidence.metrics.clone()).unwrap_or_default();
    let measured = |value: f64| MetricContext {
        value: Some(value),
        result: Some(MetricResult::Pass),
        measured_at: Some(at),
        interval: Duration::from_secs(60),
        no_data: NoDataBehavior::Hold,
        assumed: false,
    };
    known.into_iter().map(|(name, value)| (name, measured(value))).collect()
}
