//! The processor time gates take: `cargo xtask bench gates`. Prints one JSON object a line.
#![allow(clippy::print_stdout)]

#[path = "measure/cpu_time.rs"]
mod cpu_time;

use std::hint::black_box;

use serde_json::json;
use slipway_promotion::gate::{GateContext, GateEvaluator, MetricContext, UpstreamContext};
use slipway_promotion::kinds::{Bundle, BundleSpec, Metadata, MetricResult, NoDataBehavior, PolicyGateSpec};

use cpu_time::CpuTimer;

/// Gates as people write them, from the plainest to one that reads most of the context.
const GATES: &[(&str, &str)] = &[
    ("weekend", "!schedule.isWeekend"),
    ("soak", "bundle.isRollback || bundle.upstreamSoakMinutes >= 30"),
    ("office hours", "schedule.in('Europe/Berlin').hour >= 9 && schedule.in('Europe/Berlin').hour < 17"),
    ("metric", "metrics.successRate >= 0.99 && metricResults['success-rate'] == 'pass'"),
    (
        "everything",
        "!schedule.isWeekend && schedule.hour >= 9 && bundle.upstreamSoakMinutes >= 30 && metrics.successRate >= 0.99 \
         && bundle.labels.team == 'shop' && bundle.images.all(i, i.repository.startsWith('ghcr.io/')) \
         && semver(bundle.version).major() == 1 && upstream.staging.soakMinutes > 5",
    ),
];

fn context() -> GateContext {
    let spec: BundleSpec = serde_json::from_value(json!({
        "pipeline": "shop",
        "artifacts": {"images": [
            {"name": "shop", "reference": "ghcr.io/acme/shop:1.29.0"}, {"name": "web", "reference": "ghcr.io/acme/web:1.29.0"}]},
    }))
    .unwrap_or_default();
    let mut bundle = Bundle::new(Metadata::named("team", "shop-1"), spec);
    bundle.metadata.labels =
        [("team", "shop"), ("tier", "gold")].map(|(a, b)| (a.to_owned(), b.to_owned())).into();
    // A Saturday: the weekend gate has to look ahead.
    let now = "2026-04-11T15:00:20Z".parse().unwrap_or_default();
    let mut context = GateContext::for_bundle(&bundle, "prod", now);
    let upstream = UpstreamContext {
        direct: true,
        verified_at: "2026-04-11T14:48:10Z".parse().ok(),
        ..UpstreamContext::default()
    };
    context.upstream.insert("staging".to_owned(), upstream);
    let metric = MetricContext {
        value: Some(0.998),
        result: Some(MetricResult::Pass),
        measured_at: Some(now),
        interval: std::time::Duration::from_secs(60),
        no_data: NoDataBehavior::Hold,
        assumed: false,
    };
    context.metrics.insert("success-rate".to_owned(), metric);
    context
}

fn main() {
    let rounds: u32 = if std::env::args().any(|arg| arg == "--short") { 100 } else { 20_000 };
    let context = context();
    for (name, expression) in GATES {
        let spec = PolicyGateSpec { expression: (*expression).to_owned(), ..PolicyGateSpec::default() };
        let evaluator = GateEvaluator::new();
        let start = CpuTimer::start();
        black_box(evaluator.check(&spec).is_ok());
        let compile = start.elapsed();
        let start = CpuTimer::start();
        for _ in 0..rounds {
            black_box(evaluator.evaluate_now(black_box(&spec), &context));
        }
        let evaluate = start.elapsed() / rounds;
        let ahead = (rounds / 20).max(1);
        let start = CpuTimer::start();
        for _ in 0..ahead {
            black_box(evaluator.evaluate(black_box(&spec), &context));
        }
        let solve = start.elapsed() / ahead;
        let micros = |time: std::time::Duration| (time.as_secs_f64() * 1e7).round() / 10.0;
        println!(
            "{}",
            json!({"gate": name, "compile, µs": micros(compile), "evaluate, µs": micros(evaluate), "with look ahead, µs": micros(solve)})
        );
    }
}
