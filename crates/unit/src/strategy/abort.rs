//! Takes a rollout back that has not reached its last step, also one of another machine.

use std::time::Duration;

use serde_json::Value;
use slipway_cluster::Cluster;
use slipway_event::Events;
use slipway_manifest::ObjectRef;
use slipway_problem::Problem;

use super::baseline::Baseline;
use super::labels::BASELINE;
use super::log::StepLog;
use super::rollout::Scene;
use super::run::StepError;
use super::steps::{PREPARE, PROMOTE};
use crate::error::UnitError;

/// A rollout to take back.
#[derive(Clone)]
pub struct AbortRequest<'a> {
    pub cluster: &'a Cluster,
    pub namespace: &'a str,
    pub release: &'a str,
    /// The log of the rollout, where it is at hand; otherwise what its objects remember counts.
    pub log: Option<&'a dyn StepLog>,
    pub events: &'a Events,
    /// Time limit for pods to become ready again.
    pub timeout: Option<Duration>,
}

/// The result of an abort.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AbortOutcome {
    /// Objects of the rollout that were removed.
    pub removed: Vec<ObjectRef>,
}

/// Takes a rollout back: traffic, replicas and autoscalers are as before, and nothing of it is left. May be repeated.
pub async fn abort(request: &AbortRequest<'_>) -> Result<AbortOutcome, UnitError> {
    if let Some(log) = request.log
        && let Some(step) = log.records()?.into_iter().find(|record| is_named(&record.step, PROMOTE))
    {
        let problem =
            Problem::error(format!("the rollout is past the point of no return: `{}` has begun", step.step));
        return Err(problem.hint("resume it; then roll the unit back if you have to").into());
    }
    let scene = Scene {
        cluster: request.cluster,
        namespace: request.namespace,
        release: request.release,
        events: request.events,
        timeout: request.timeout,
    };
    let logged = match request.log {
        Some(log) => logged_baseline(log)?,
        None => None,
    };
    let baseline = match logged {
        Some(baseline) => Some(baseline),
        None => kept_baseline(&scene.owned_objects().await?),
    };
    scene
        .take_back(baseline.as_ref())
        .await
        .map(|removed| AbortOutcome { removed })
        .map_err(StepError::into_unit)
}

impl Scene<'_> {
    /// Restores what a rollout changed and removes what it made.
    pub(crate) async fn take_back(&self, baseline: Option<&Baseline>) -> Result<Vec<ObjectRef>, StepError> {
        if let Some(baseline) = baseline {
            self.restore_canary(baseline).await?;
            if let Some(service) = &baseline.service {
                self.restore_color(service).await?;
            }
        }
        self.remove_owned().await
    }
}

/// Tells whether a step has a name, whatever strategy it is of.
fn is_named(step: &str, name: &str) -> bool {
    step.split_once('/').is_some_and(|(_, own)| own == name)
}

/// The state before a rollout, as its log remembers it.
pub(crate) fn logged_baseline(log: &dyn StepLog) -> Result<Option<Baseline>, UnitError> {
    let records = log.records()?;
    let kept = records.iter().rev().filter(|record| is_named(&record.step, PREPARE));
    Ok(kept.into_iter().find_map(|record| Baseline::from_value(&record.signals)))
}

/// The state before a rollout, as its workloads remember it.
fn kept_baseline(objects: &[Value]) -> Option<Baseline> {
    objects.iter().find_map(|object| {
        let text = object["metadata"]["annotations"][BASELINE].as_str()?;
        Baseline::from_value(&serde_json::from_str(text).ok()?)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::ledger::{StepRecord, StepStatus};
    use crate::strategy::MemoryLog;
    use crate::strategy::baseline::WorkloadBaseline;

    #[test]
    fn a_failed_preparation_does_not_hide_what_was_there_before() {
        let workload = WorkloadBaseline { name: "web".to_owned(), replicas: 4, autoscaler: None };
        let baseline = Baseline { workloads: vec![workload], ..Baseline::default() };
        let log = MemoryLog::default();
        for (status, signals) in [
            (StepStatus::Started, Value::Null),
            (StepStatus::Started, baseline.to_value()),
            (StepStatus::Failed, json!({"why": "the server is away"})),
        ] {
            let step = "canary/prepare".to_owned();
            log.record(&StepRecord { step, weight: None, status, signals }).expect("is kept");
        }
        assert_eq!(logged_baseline(&log).expect("is read"), Some(baseline));
    }
}
