//! Sums up the Bundles of a pipeline.

use jiff::{SignedDuration, Timestamp};

use crate::bundle::compare_age;
use crate::kinds::{
    Bundle, BundlePhase, DeploymentMetrics, Pipeline, PipelineEnvironmentStatus, PipelineSpec, StepState,
};
use crate::translate::EnvironmentOrder;

/// The number of Bundles figures are made of.
const SAMPLE: usize = 30;

/// The newest Bundle that is promoted.
pub(super) fn active_bundle(bundles: &[Bundle]) -> Option<&Bundle> {
    let promoting = bundles.iter().filter(|bundle| bundle.phase() == BundlePhase::Promoting);
    promoting.max_by(|one, two| compare_age(one, two))
}

/// What each environment runs, and what is on its way into it.
pub fn environment_statuses(pipeline: &Pipeline, bundles: &[Bundle]) -> Vec<PipelineEnvironmentStatus> {
    let statuses = pipeline.spec.environments.iter().map(|environment| {
        let name = environment.name.as_str();
        let records =
            bundles.iter().filter_map(|bundle| Some((bundle, bundle.status.environments.get(name)?)));
        let verified = records
            .clone()
            .filter_map(|(bundle, record)| Some((record.verified_at?, bundle, record)))
            .filter(|(_, _, record)| record.state == Some(StepState::Verified))
            .max_by_key(|(at, bundle, _)| (*at, bundle.name().to_owned()));
        let running = records
            .filter(|(bundle, record)| {
                bundle.phase() == BundlePhase::Promoting
                    && record.state.is_some_and(|state| state != StepState::Verified)
            })
            .max_by(|(one, _), (two, _)| compare_age(one, two));
        let current = verified.as_ref().map(|(_, bundle, _)| *bundle);
        // Drift is looked for elsewhere: what is known of it stays.
        let known = pipeline.status.environments.iter().find(|known| known.name == name).cloned();
        let known = known
            .unwrap_or_else(|| PipelineEnvironmentStatus { name: name.to_owned(), ..Default::default() });
        PipelineEnvironmentStatus {
            current_bundle: current.map(|bundle| bundle.name().to_owned()),
            current_version: current.and_then(|bundle| bundle.status.version.clone()),
            state: running
                .map(|(_, record)| record)
                .or(verified.as_ref().map(|(_, _, record)| *record))
                .and_then(|record| record.state),
            since: verified.as_ref().map(|(at, _, _)| *at),
            ..known
        }
    });
    statuses.collect()
}

/// One line for lists: `dev=1.29.0 staging=1.28.0 prod=-`.
pub(super) fn environment_summary(statuses: &[PipelineEnvironmentStatus]) -> String {
    let entry = |status: &PipelineEnvironmentStatus| {
        format!("{}={}", status.name, status.current_version.as_deref().unwrap_or("-"))
    };
    statuses.iter().map(entry).collect::<Vec<_>>().join(" ")
}

/// The environments behind which nothing comes.
fn last_environments(spec: &PipelineSpec) -> Vec<String> {
    let Ok(order) = EnvironmentOrder::of(spec) else { return Vec::new() };
    let names: Vec<&str> = order.environments().iter().map(|environment| environment.name.as_str()).collect();
    let is_last = |name: &&str| !names.iter().any(|other| order.upstreams(other).contains(name));
    names.iter().filter(|name| is_last(name)).map(|name| (*name).to_owned()).collect()
}

/// The figures of the last Bundles that reached the end of the pipeline; none before one did.
///
/// They are computed anew only when a Bundle has reached the end, or once a day.
pub fn deployment_metrics(
    pipeline: &Pipeline,
    bundles: &[Bundle],
    now: Timestamp,
) -> Option<DeploymentMetrics> {
    let last = last_environments(&pipeline.spec);
    let reached = |bundle: &Bundle| {
        let at = |name: &String| bundle.status.environments.get(name).and_then(|record| record.verified_at);
        last.iter().filter_map(at).max()
    };
    let mut rollouts: Vec<(Timestamp, &Bundle)> =
        bundles.iter().filter_map(|bundle| Some((reached(bundle)?, bundle))).collect();
    rollouts.sort_by_key(|(at, bundle)| (std::cmp::Reverse(*at), bundle.name().to_owned()));
    let newest = rollouts.first()?.0;
    let month = now - SignedDuration::from_hours(30 * 24);
    let rollouts_last30_days = rollouts.iter().filter(|(at, _)| *at >= month).count();
    rollouts.truncate(SAMPLE);
    let mut leads: Vec<i64> = rollouts
        .iter()
        .map(|(at, bundle)| (at.as_second() - bundle.metadata.created().as_second()).max(0) / 60)
        .collect();
    leads.sort_unstable();
    let percentile =
        |percent: usize| leads.get((leads.len() * percent / 100).min(leads.len() - 1)).copied().unwrap_or(0);
    let count = |of: fn(&Bundle) -> u32| {
        let with = rollouts.iter().filter(|(_, bundle)| of(bundle) > 0).count();
        u32::try_from(with * 1000 / rollouts.len()).unwrap_or(0)
    };
    let known = pipeline.status.deployment_metrics.clone();
    let mut metrics = DeploymentMetrics {
        rollouts_last30_days: u32::try_from(rollouts_last30_days).unwrap_or(u32::MAX),
        p50_commit_to_prod_minutes: percentile(50),
        p90_commit_to_prod_minutes: percentile(90),
        auto_rollback_rate_millis: count(|bundle| {
            bundle.status.metrics.as_ref().map_or(0, |metrics| metrics.auto_rollbacks)
        }),
        operator_intervention_rate_millis: count(|bundle| {
            bundle.status.metrics.as_ref().map_or(0, |metrics| metrics.operator_interventions)
        }),
        stale_prod_days: (now.as_second() - newest.as_second()).max(0) / 86_400,
        sample_size: u32::try_from(rollouts.len()).unwrap_or(u32::MAX),
        computed_at: known.as_ref().and_then(|known| known.computed_at),
    };
    // The moment changes only with a figure, so that an idle pipeline is not written.
    if known.as_ref() != Some(&metrics) {
        metrics.computed_at = Some(now);
    }
    Some(metrics)
}
