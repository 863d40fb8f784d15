//! The status of a deployment: pauses, progress and its deadline.

use std::time::Duration;

use serde_json::Value;

use super::super::Next;
use super::common::*;
use super::deployment::Rollout;
use super::rollout::{self, Sets};
use crate::status::Result;

impl Rollout<'_> {
    /// Says that the deployment is paused, or was.
    pub(super) fn note_pause(&mut self) -> Result<()> {
        if !has_deadline(&self.deployment) {
            return Ok(());
        }
        let paused = self.deployment["spec"]["paused"] == true;
        let reason = condition(&self.deployment, "Progressing").and_then(|c| c["reason"].as_str());
        let (reason, message) = match (paused, reason) {
            (_, Some("ProgressDeadlineExceeded")) => return Ok(()),
            (true, r) if r != Some("DeploymentPaused") => ("DeploymentPaused", "Deployment is paused"),
            (false, Some("DeploymentPaused")) => ("DeploymentResumed", "Deployment is resumed"),
            _ => return Ok(()),
        };
        let cluster = self.cluster;
        self.write_status(|value| {
            let mut conditions = list(value, "/status/conditions").to_vec();
            rollout::set_condition(&mut conditions, "Progressing", "Unknown", reason, message, cluster);
            value["status"]["conditions"] = conditions.into();
        })
    }

    /// Brings the status up to date and asks to be woken when the deadline passes.
    pub(super) fn tell(&mut self) -> Result<Next> {
        let cluster = self.cluster;
        let newest = self.newest();
        let sets = Sets { newest: newest.map(|i| &self.sets[i]), all: &self.sets };
        let old = self.deployment["status"].clone();
        let mut status = rollout::status(&self.deployment, &sets, cluster);
        let mut conditions = list(&status, "/conditions").to_vec();
        let what = match newest {
            Some(index) => format!("ReplicaSet \"{}\"", name(&self.sets[index])),
            None => format!("Deployment \"{}\"", name(&self.deployment)),
        };
        let mut next = Next::Done;
        let paused = self.deployment["spec"]["paused"] == true;
        if !has_deadline(&self.deployment) {
            conditions.retain(|c| c["type"] != "Progressing");
        } else if !paused && !deleting(&self.deployment) {
            let current = conditions.iter().find(|c| c["type"] == "Progressing").cloned();
            let reason = current.as_ref().and_then(|c| c["reason"].as_str()).unwrap_or("").to_owned();
            let settled = int(&status, "/replicas") == int(&status, "/updatedReplicas")
                && reason == "NewReplicaSetAvailable";
            if settled {
            } else if rollout::is_complete(&self.deployment, &status) {
                let message = format!("{what} has successfully progressed.");
                let c = &mut conditions;
                rollout::set_condition(c, "Progressing", "True", "NewReplicaSetAvailable", &message, cluster);
            } else if rollout::has_progressed(&old, &status) {
                let message = format!("{what} is progressing.");
                let c = &mut conditions;
                rollout::replace_condition(c, "Progressing", "True", "ReplicaSetUpdated", &message, cluster);
                next = self.deadline(&conditions);
            } else if reason != "ProgressDeadlineExceeded" {
                next = self.deadline(&conditions);
                if next == Next::After(Duration::ZERO) {
                    let message = format!("{what} has timed out progressing.");
                    let (c, reason) = (&mut conditions, "ProgressDeadlineExceeded");
                    rollout::set_condition(c, "Progressing", "False", reason, &message, cluster);
                    next = Next::Done;
                }
            }
        }
        status["conditions"] = conditions.into();
        self.write_status(|value| value["status"] = status.clone())?;
        Ok(next)
    }

    /// When the deadline for progress passes; zero when it has. A fault somebody asked for is worth
    /// hurrying to, while a pod that waits for something else may yet get it.
    fn deadline(&self, conditions: &[Value]) -> Next {
        let Some(current) = conditions.iter().find(|c| c["type"] == "Progressing") else { return Next::Done };
        if current["reason"] == "NewReplicaSetAvailable" {
            return Next::Done;
        }
        let limit = int_or(&self.deployment, "/spec/progressDeadlineSeconds", 600);
        let limit = Duration::from_secs(u64::try_from(limit).unwrap_or(0));
        let passed = self.cluster.since(&current["lastUpdateTime"]);
        if passed > limit {
            return Next::After(Duration::ZERO);
        }
        let left = limit - passed + Duration::from_millis(1);
        let template = &self.deployment["spec"]["template"];
        if annotation(template, "sim/fail").is_some() { Next::After(left) } else { Next::Later(left) }
    }
}

/// A deadline of the largest number means none.
pub(super) fn has_deadline(deployment: &Value) -> bool {
    int_or(deployment, "/spec/progressDeadlineSeconds", 600) != i64::from(i32::MAX)
}
