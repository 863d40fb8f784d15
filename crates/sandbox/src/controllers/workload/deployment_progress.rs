//! The status of a deployment: pauses, progress and its deadline.

use std::time::Duration;

use serde_json::Value;

use super::super::NextReconcile;
use super::common::*;
use super::deployment::DeploymentRollout;
use super::rollout::{self, RolloutSets};
use crate::status::Result;

impl DeploymentRollout<'_> {
    /// Sets the condition that says that the deployment is paused or resumed.
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
            let mut conditions = list_at(value, "/status/conditions").to_vec();
            rollout::set_condition(&mut conditions, "Progressing", "Unknown", reason, message, cluster);
            value["status"]["conditions"] = conditions.into();
        })
    }

    /// Updates the status and asks to be called when the deadline passes.
    pub(super) fn update_status(&mut self) -> Result<NextReconcile> {
        let cluster = self.cluster;
        let newest = self.newest_index();
        let sets = RolloutSets { newest: newest.map(|i| &self.sets[i]), all: &self.sets };
        let old = self.deployment["status"].clone();
        let mut status = rollout::deployment_status(&self.deployment, &sets, cluster);
        let mut conditions = list_at(&status, "/conditions").to_vec();
        let what = match newest {
            Some(index) => format!("ReplicaSet \"{}\"", name_of(&self.sets[index])),
            None => format!("Deployment \"{}\"", name_of(&self.deployment)),
        };
        let mut next = NextReconcile::Done;
        let paused = self.deployment["spec"]["paused"] == true;
        if !has_deadline(&self.deployment) {
            conditions.retain(|c| c["type"] != "Progressing");
        } else if !paused && !is_deleting(&self.deployment) {
            let current = conditions.iter().find(|c| c["type"] == "Progressing").cloned();
            let reason = current.as_ref().and_then(|c| c["reason"].as_str()).unwrap_or("").to_owned();
            let settled = int_at(&status, "/replicas") == int_at(&status, "/updatedReplicas")
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
                next = self.progress_deadline(&conditions);
            } else if reason != "ProgressDeadlineExceeded" {
                next = self.progress_deadline(&conditions);
                if next == NextReconcile::After(Duration::ZERO) {
                    let message = format!("{what} has timed out progressing.");
                    let (c, reason) = (&mut conditions, "ProgressDeadlineExceeded");
                    rollout::set_condition(c, "Progressing", "False", reason, &message, cluster);
                    next = NextReconcile::Done;
                }
            }
        }
        status["conditions"] = conditions.into();
        self.write_status(|value| value["status"] = status.clone())?;
        Ok(next)
    }

    /// Returns the time until the deadline for progress passes; zero when it has. A requested fault is
    /// jumped to; a pod that waits for something else may still get it.
    fn progress_deadline(&self, conditions: &[Value]) -> NextReconcile {
        let Some(current) = conditions.iter().find(|c| c["type"] == "Progressing") else {
            return NextReconcile::Done;
        };
        if current["reason"] == "NewReplicaSetAvailable" {
            return NextReconcile::Done;
        }
        let limit = int_or(&self.deployment, "/spec/progressDeadlineSeconds", 600);
        let limit = Duration::from_secs(u64::try_from(limit).unwrap_or(0));
        let passed = self.cluster.elapsed_since(&current["lastUpdateTime"]);
        if passed > limit {
            return NextReconcile::After(Duration::ZERO);
        }
        let left = limit - passed + Duration::from_millis(1);
        let template = &self.deployment["spec"]["template"];
        if annotation(template, "sim/fail").is_some() {
            NextReconcile::After(left)
        } else {
            NextReconcile::Later(left)
        }
    }
}

/// Returns true if a deployment has a deadline for progress: the largest number means none.
pub(super) fn has_deadline(deployment: &Value) -> bool {
    int_or(deployment, "/spec/progressDeadlineSeconds", 600) != i64::from(i32::MAX)
}
