//! Gates and contexts to evaluate.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use slipway_promotion::gate::{
    BundleContext, GateContext, GateEvaluator, GateOutcome, MetricContext, UpstreamContext,
};
use slipway_promotion::kinds::{
    Bundle, BundleSpec, GoDuration, Metadata, MetricResult, NoDataBehavior, PolicyGate, PolicyGateSpec,
};

pub(crate) fn time(text: &str) -> Timestamp {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

pub(crate) fn gate_spec(expression: &str) -> PolicyGateSpec {
    PolicyGateSpec {
        expression: expression.to_owned(),
        recheck_interval: GoDuration::from_mins(5),
        overridable: true,
        ..PolicyGateSpec::default()
    }
}

pub(crate) fn gate(name: &str, expression: &str) -> PolicyGate {
    PolicyGate::new(Metadata::named("platform-policies", name), gate_spec(expression))
}

pub(crate) fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

pub(crate) fn bundle(pairs: &[(&str, &str)]) -> Bundle {
    let spec: BundleSpec = serde_json::from_value(serde_json::json!({
        "pipeline": "shop",
        "artifacts": {"images": [{"name": "shop", "reference": "ghcr.io/acme/shop:1.29.0"}]},
        "provenance": {"author": "ada", "commitSHA": "abc123d"},
    }))
    .expect("is a bundle");
    let mut metadata = Metadata::named("team", "shop-1");
    metadata.labels = labels(pairs);
    Bundle::new(metadata, spec)
}

/// A context of `shop` on its way to prod, at a moment.
pub(crate) fn context(now: &str) -> GateContext {
    let mut context = GateContext::new(BundleContext::of(&bundle(&[])), "prod", time(now));
    context.pipeline.name = "shop".to_owned();
    context.pipeline.namespace = "team".to_owned();
    context
}

pub(crate) fn upstream(verified: &str) -> UpstreamContext {
    UpstreamContext { direct: true, verified_at: Some(time(verified)), ..UpstreamContext::default() }
}

pub(crate) fn measured(value: f64, at: &str) -> MetricContext {
    MetricContext {
        value: Some(value),
        result: Some(MetricResult::Pass),
        measured_at: Some(time(at)),
        interval: Duration::from_secs(60),
        no_data: NoDataBehavior::Hold,
        assumed: false,
    }
}

pub(crate) fn evaluate(expression: &str, context: &GateContext) -> GateOutcome {
    GateEvaluator::new().evaluate(&gate_spec(expression), context)
}
