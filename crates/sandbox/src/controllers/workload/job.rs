//! Jobs: pods that must succeed a number of times.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};

use super::super::{ClusterHandle, Controller, NextReconcile, WorkItem, WorkQueue};
use super::common::*;
use super::job_end::{
    BACK_OFF, DEADLINE, FAILED_INDEXES, JobEnd, REACHED, TOO_MANY_INDEXES, by_policy, failure_action,
    matched_success, met_before,
};
use super::job_indexes::{parse_indexes, print_indexes};
use crate::api::select::LabelFilter;
use crate::status::Result;
use crate::store::StoreEvent;
use crate::write::delete::{DeleteOptions, DeletionPropagation};

const TABLE: &str = "jobs.batch";
const COMPONENT: &str = "job-controller";
/// How a job names this controller as the one it is managed by.
const OWN_MANAGER: &str = "kubernetes.io/job-controller";
const TRACKING: &str = "batch.kubernetes.io/job-tracking";
const INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// How often the index of a pod had failed before.
const FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";
/// Pods made in one go.
const BURST: i64 = 500;

pub(super) struct JobController {
    family: OwnerIndex,
}

impl Default for JobController {
    fn default() -> JobController {
        JobController { family: OwnerIndex::new(TABLE, &["pods"]) }
    }
}

impl Controller for JobController {
    fn name(&self) -> &'static str {
        COMPONENT
    }

    fn observe_event(&mut self, event: &StoreEvent, _: &ClusterHandle, queue: &mut WorkQueue) {
        self.family.observe_owned(event, queue);
    }

    fn reconcile(&mut self, item: &WorkItem, cluster: &ClusterHandle) -> Result<NextReconcile> {
        let Some(job) = cluster.get(TABLE, &item.key.namespace, &item.key.name) else {
            return release_orphans(item, cluster);
        };
        if job["spec"]["managedBy"].as_str().is_some_and(|manager| manager != OWN_MANAGER) {
            // Another controller's, whose time to live is kept all the same.
            return if is_over(&job) { delete_expired(&job, cluster) } else { Ok(NextReconcile::Done) };
        }
        let selector = LabelFilter::of_selector(&job["spec"]["selector"]).unwrap_or_default();
        let pods = owned_children(cluster, "pods", &job, Some(&selector))?;
        if is_deleting(&job) || is_over(&job) {
            for pod in pods.iter().filter(|p| is_tracked(p)) {
                remove_tracking(pod, cluster)?;
            }
            return delete_expired(&job, cluster);
        }
        JobSync { job, pods, cluster }.sync_job()
    }
}

fn is_tracked(pod: &Value) -> bool {
    list_at(pod, "/metadata/finalizers").iter().any(|f| f == TRACKING)
}

fn remove_tracking(pod: &Value, cluster: &ClusterHandle) -> Result<()> {
    let done = cluster.update("pods", &key_of(pod), MANAGER, |value| {
        if let Some(Value::Array(finalizers)) = value["metadata"].get_mut("finalizers") {
            finalizers.retain(|f| f != TRACKING);
        }
    });
    match done {
        Err(status) if status.code != 404 => Err(status),
        _ => Ok(()),
    }
}

/// Removes the tracking finalizer from pods whose job is gone.
fn release_orphans(item: &WorkItem, cluster: &ClusterHandle) -> Result<NextReconcile> {
    for pod in cluster.stored_objects("pods", Some(&item.key.namespace)) {
        if pod.label("batch.kubernetes.io/job-name") == Some(&item.key.name)
            && let Some(pod) = cluster.get("pods", pod.namespace(), pod.name())
            && is_tracked(&pod)
        {
            remove_tracking(&pod, cluster)?;
        }
    }
    Ok(NextReconcile::Done)
}

fn is_over(job: &Value) -> bool {
    has_condition(job, "Complete") || has_condition(job, "Failed")
}

/// Deletes a finished job when its time to live has passed.
fn delete_expired(job: &Value, cluster: &ClusterHandle) -> Result<NextReconcile> {
    let Some(limit) = job["spec"]["ttlSecondsAfterFinished"].as_u64() else { return Ok(NextReconcile::Done) };
    let ended =
        ["Complete", "Failed"].iter().find_map(|k| condition(job, k).filter(|c| c["status"] == "True"));
    let Some(ended) = ended.filter(|_| !is_deleting(job)) else { return Ok(NextReconcile::Done) };
    let left = Duration::from_secs(limit).saturating_sub(cluster.elapsed_since(&ended["lastTransitionTime"]));
    if !left.is_zero() {
        return Ok(NextReconcile::Later(left));
    }
    let options = DeleteOptions {
        propagation: Some(DeletionPropagation::Foreground),
        uid: Some(uid_of(job).to_owned()),
        ..DeleteOptions::default()
    };
    cluster.delete(TABLE, &key_of(job), &options)?;
    Ok(NextReconcile::Done)
}

struct JobSync<'a> {
    job: Value,
    pods: Vec<Value>,
    cluster: &'a ClusterHandle,
}

impl JobSync<'_> {
    fn update_status(&mut self, change: impl FnMut(&mut Value)) -> Result<()> {
        self.cluster.update_status(TABLE, &key_of(&self.job), MANAGER, change)?;
        if let Some(fresh) = self.cluster.get(TABLE, namespace_of(&self.job), name_of(&self.job)) {
            self.job = fresh;
        }
        Ok(())
    }

    fn is_indexed(&self) -> bool {
        self.job["spec"]["completionMode"] == "Indexed"
    }

    fn wanted_completions(&self) -> Option<i64> {
        self.job["spec"]["completions"].as_i64()
    }

    fn completed_indexes(&self) -> BTreeSet<i64> {
        let end = self.wanted_completions().unwrap_or(0) - 1;
        parse_indexes(text_at(&self.job, "/status/completedIndexes"), end)
    }

    /// The number of failures each index may have, if indexes fail one by one.
    fn limit_per_index(&self) -> Option<i64> {
        self.job["spec"]["backoffLimitPerIndex"].as_i64().filter(|_| self.is_indexed())
    }

    fn failed_indexes(&self) -> BTreeSet<i64> {
        let end = self.wanted_completions().unwrap_or(0) - 1;
        parse_indexes(text_at(&self.job, "/status/failedIndexes"), end)
    }

    fn active_pods(&self) -> Vec<Value> {
        self.pods.iter().filter(|p| is_active(p)).cloned().collect()
    }

    fn terminating_count(&self) -> usize {
        self.pods.iter().filter(|p| is_deleting(p) && !is_finished(p)).count()
    }

    fn sync_job(mut self) -> Result<NextReconcile> {
        let suspended = self.job["spec"]["suspend"] == true;
        if !suspended && text_at(&self.job, "/status/startTime").is_empty() {
            let now = self.cluster.now_text();
            let resumed = has_condition(&self.job, "Suspended");
            self.update_status(|value| {
                value["status"]["startTime"] = now.clone().into();
                if resumed {
                    set_condition(value, "Suspended", "False", "JobResumed", "Job resumed", &now);
                }
            })?;
            if resumed {
                self.cluster.record_event(&self.job, COMPONENT, "Normal", "Resumed", "Job resumed");
            }
        }
        self.count_finished()?;
        if let Some(end) = self.decide_end(suspended) {
            return self.finish_job(&end);
        }
        if suspended {
            for pod in self.active_pods() {
                delete_pod(self.cluster, &self.job, &pod, COMPONENT)?;
            }
            if !has_condition(&self.job, "Suspended") {
                let now = self.cluster.now_text();
                self.update_status(|value| {
                    set_condition(value, "Suspended", "True", "JobSuspended", "Job suspended", &now);
                    if let Some(status) = value["status"].as_object_mut() {
                        status.shift_remove("startTime");
                    }
                })?;
                self.cluster.record_event(&self.job, COMPONENT, "Normal", "Suspended", "Job suspended");
            }
            self.reload_pods()?;
            self.report_counts()?;
            return Ok(NextReconcile::Done);
        }
        let next = self.manage_pods()?;
        self.reload_pods()?;
        self.report_counts()?;
        Ok(sooner_of(next, self.deadline_check()))
    }

    fn reload_pods(&mut self) -> Result<()> {
        let selector = LabelFilter::of_selector(&self.job["spec"]["selector"]).unwrap_or_default();
        self.pods = owned_children(self.cluster, "pods", &self.job, Some(&selector))?;
        Ok(())
    }

    /// Counts finished pods once: notes them, lets them go, adds them up.
    fn count_finished(&mut self) -> Result<()> {
        let fresh: Vec<Value> =
            self.pods.iter().filter(|p| is_finished(p) && is_tracked(p)).cloned().collect();
        let noted = &self.job["status"]["uncountedTerminatedPods"];
        let has_noted = !list_at(noted, "/succeeded").is_empty() || !list_at(noted, "/failed").is_empty();
        if fresh.is_empty() && !has_noted {
            return Ok(());
        }
        let end = self.wanted_completions().unwrap_or(i64::MAX);
        let mut completed = self.completed_indexes();
        let (mut good, mut bad): (Vec<String>, Vec<String>) = (
            list_at(noted, "/succeeded").iter().filter_map(|u| u.as_str().map(str::to_owned)).collect(),
            list_at(noted, "/failed").iter().filter_map(|u| u.as_str().map(str::to_owned)).collect(),
        );
        let mut ended = None;
        let mut failed = self.failed_indexes();
        for pod in &fresh {
            if text_at(pod, "/status/phase") == "Failed" {
                let mut gives_up = self.limit_per_index().is_some_and(|limit| failures_of(pod) >= limit);
                match failure_action(&self.job, pod) {
                    Some((action, _)) if action == "Ignore" => continue,
                    Some((action, why)) if action == "FailJob" => {
                        ended.get_or_insert(why);
                    }
                    Some((action, _)) if action == "FailIndex" => gives_up = true,
                    _ => {}
                }
                if gives_up && self.limit_per_index().is_some() {
                    failed.extend(index_of(pod).filter(|i| (0..end).contains(i)));
                }
            }
            let side = if text_at(pod, "/status/phase") == "Succeeded" { &mut good } else { &mut bad };
            if !side.iter().any(|u| u == uid_of(pod)) {
                side.push(uid_of(pod).to_owned());
            }
            if self.is_indexed() && text_at(pod, "/status/phase") == "Succeeded" {
                completed.extend(index_of(pod).filter(|i| (0..end).contains(i)));
            }
        }
        let active = self.active_pods();
        let ready = active.iter().filter(|p| is_ready(p)).count();
        let going = self.terminating_count();
        self.update_status(|value| {
            let status = &mut value["status"];
            let mut uncounted = json!({});
            if !good.is_empty() {
                uncounted["succeeded"] = json!(good);
            }
            if !bad.is_empty() {
                uncounted["failed"] = json!(bad);
            }
            status["uncountedTerminatedPods"] = uncounted;
            put_count(status, "active", active.len());
            status["ready"] = ready.into();
            status["terminating"] = going.into();
        })?;
        if let Some(why) = ended {
            let now = self.cluster.now_text();
            self.update_status(|value| {
                set_condition(value, "FailureTarget", "True", "PodFailurePolicy", &why, &now);
            })?;
        }
        for pod in &fresh {
            remove_tracking(pod, self.cluster)?;
        }
        let (indexed, one_by_one) = (self.is_indexed(), self.limit_per_index().is_some());
        self.update_status(|value| {
            let status = &mut value["status"];
            let before = |key: &str| usize::try_from(status[key].as_i64().unwrap_or(0)).unwrap_or(0);
            let succeeded = if indexed { completed.len() } else { before("succeeded") + good.len() };
            let failures = before("failed") + bad.len();
            put_count(status, "succeeded", succeeded);
            put_count(status, "failed", failures);
            if one_by_one {
                status["failedIndexes"] = print_indexes(&failed).into();
            }
            if indexed && !completed.is_empty() {
                status["completedIndexes"] = print_indexes(&completed).into();
            }
            status["uncountedTerminatedPods"] = json!({});
        })
    }

    /// Decides if the job ends now, and for which reason.
    fn decide_end(&self, suspended: bool) -> Option<JobEnd> {
        if let Some(met) = condition(&self.job, "SuccessCriteriaMet").filter(|met| met["status"] == "True") {
            return Some(met_before(met));
        }
        if let Some(target) = condition(&self.job, "FailureTarget") {
            return Some(match target["reason"].as_str() {
                Some("DeadlineExceeded") => DEADLINE,
                Some("FailedIndexes") => FAILED_INDEXES,
                Some("MaxFailedIndexesExceeded") => TOO_MANY_INDEXES,
                Some("PodFailurePolicy") => by_policy(text_at(target, "/message").to_owned()),
                _ => BACK_OFF,
            });
        }
        if suspended {
            return None;
        }
        let limit = int_or(&self.job, "/spec/backoffLimit", 6);
        let active = self.active_pods();
        let restarts: i64 = active
            .iter()
            .filter(|_| text_at(&self.job, "/spec/template/spec/restartPolicy") == "OnFailure")
            .flat_map(|p| list_at(p, "/status/containerStatuses"))
            .map(|c| int_at(c, "/restartCount"))
            .sum();
        if int_at(&self.job, "/status/failed") > limit || (restarts > 0 && restarts >= limit) {
            return Some(BACK_OFF);
        }
        if self.deadline_check() == NextReconcile::After(Duration::ZERO) {
            return Some(DEADLINE);
        }
        let succeeded = int_at(&self.job, "/status/succeeded");
        let failed = i64::try_from(self.failed_indexes().len()).unwrap_or(0);
        if failed > 0 {
            if self.job["spec"]["maxFailedIndexes"].as_i64().is_some_and(|most| failed > most) {
                return Some(TOO_MANY_INDEXES);
            }
            if self.wanted_completions().is_some_and(|wanted| failed + succeeded >= wanted) {
                return Some(FAILED_INDEXES);
            }
        }
        if self.is_indexed()
            && let Some(end) = matched_success(&self.job, &self.completed_indexes())
        {
            return Some(end);
        }
        let enough = match self.wanted_completions() {
            Some(wanted) => succeeded >= wanted,
            None => succeeded > 0 && active.is_empty(),
        };
        enough.then_some(REACHED)
    }

    /// Returns the time until the job has been active for too long.
    fn deadline_check(&self) -> NextReconcile {
        let Some(limit) = self.job["spec"]["activeDeadlineSeconds"].as_u64() else {
            return NextReconcile::Done;
        };
        if text_at(&self.job, "/status/startTime").is_empty() {
            return NextReconcile::Done;
        }
        let passed = self.cluster.elapsed_since(&self.job["status"]["startTime"]);
        NextReconcile::After(Duration::from_secs(limit).saturating_sub(passed))
    }

    /// Sets the first condition of the end, stops what runs, and sets the final condition when nothing does.
    fn finish_job(&mut self, end: &JobEnd) -> Result<NextReconcile> {
        let now = self.cluster.now_text();
        if !has_condition(&self.job, end.first) {
            self.update_status(|value| {
                set_condition(value, end.first, "True", end.reason, &end.message, &now);
            })?;
        }
        for pod in self.active_pods() {
            delete_pod(self.cluster, &self.job, &pod, COMPONENT)?;
        }
        self.reload_pods()?;
        self.report_counts()?;
        if self.pods.iter().any(|p| !is_finished(p)) {
            return Ok(NextReconcile::Done);
        }
        self.count_finished()?;
        self.update_status(|value| {
            set_condition(value, end.last, "True", end.reason, &end.message, &now);
            if end.last == "Complete" {
                value["status"]["completionTime"] = now.clone().into();
            }
        })?;
        if end.last == "Complete" {
            self.cluster.record_event(&self.job, COMPONENT, "Normal", "Completed", "Job completed");
        } else {
            self.cluster.record_event(&self.job, COMPONENT, "Warning", end.reason, &end.message);
        }
        Ok(NextReconcile::Done)
    }

    /// Creates or deletes pods until the wanted number is active.
    fn manage_pods(&mut self) -> Result<NextReconcile> {
        let active = self.active_pods();
        let has = i64::try_from(active.len()).unwrap_or(0);
        let succeeded = int_at(&self.job, "/status/succeeded");
        let parallel = int_or(&self.job, "/spec/parallelism", 1);
        let wanted = match self.wanted_completions() {
            Some(completions) => parallel.min(completions - succeeded).max(0),
            None if succeeded > 0 => has,
            None => parallel,
        };
        if has > wanted {
            let mut active = active;
            doomed_first(&mut active);
            for pod in active.iter().take(usize::try_from(has - wanted).unwrap_or(0)) {
                delete_pod(self.cluster, &self.job, pod, COMPONENT)?;
            }
            return Ok(NextReconcile::Done);
        }
        let mut room = wanted - has;
        if self.job["spec"]["podReplacementPolicy"] == "Failed" {
            room -= i64::try_from(self.terminating_count()).unwrap_or(0);
        }
        if room <= 0 {
            return Ok(NextReconcile::Done);
        }
        let wait = if self.limit_per_index().is_some() { Duration::ZERO } else { self.back_off() };
        if !wait.is_zero() {
            return Ok(NextReconcile::After(wait));
        }
        let mut taken = self.completed_indexes();
        taken.extend(self.failed_indexes());
        taken.extend(active.iter().filter_map(index_of));
        let free: Vec<i64> =
            (0..self.wanted_completions().unwrap_or(0)).filter(|i| !taken.contains(i)).collect();
        let mut next = NextReconcile::Done;
        let mut indexes = free.into_iter().filter(|index| {
            let wait = self.back_off_of_index(*index);
            if !wait.is_zero() {
                next = sooner_of(next, NextReconcile::After(wait));
            }
            wait.is_zero()
        });
        for _ in 0..room.min(BURST) {
            let index = if self.is_indexed() {
                let Some(index) = indexes.next() else { break };
                Some(index)
            } else {
                None
            };
            create_pod(self.cluster, &self.job, self.new_pod(index), COMPONENT)?;
        }
        Ok(next)
    }

    /// The failed pods of an index whose failures count.
    fn failed_pods_of(&self, index: i64) -> impl Iterator<Item = &Value> {
        let failed = self.pods.iter().filter(|pod| text_at(pod, "/status/phase") == "Failed");
        failed.filter(move |pod| {
            let ignored = failure_action(&self.job, pod).is_some_and(|(action, _)| action == "Ignore");
            index_of(pod) == Some(index) && !ignored
        })
    }

    /// Returns the wait after the last failure of an index that fails on its own.
    fn back_off_of_index(&self, index: i64) -> Duration {
        if self.limit_per_index().is_none() {
            return Duration::ZERO;
        }
        let waits = self.failed_pods_of(index).map(|pod| {
            let finished = pod.pointer("/status/containerStatuses/0/state/terminated/finishedAt");
            let passed = finished.map_or(Duration::MAX, |at| self.cluster.elapsed_since(at));
            doubled_wait(failures_of(pod)).saturating_sub(passed)
        });
        waits.max().unwrap_or_default()
    }

    /// Returns the wait after the last failure: ten seconds, doubled each time, six minutes at most.
    fn back_off(&self) -> Duration {
        let failed = int_at(&self.job, "/status/failed");
        if failed == 0 {
            return Duration::ZERO;
        }
        let last = self
            .pods
            .iter()
            .filter(|p| text_at(p, "/status/phase") == "Failed")
            .filter_map(|p| {
                let at = p.pointer("/status/containerStatuses/0/state/terminated/finishedAt")?;
                Some(self.cluster.elapsed_since(at))
            })
            .min();
        let Some(passed) = last else { return Duration::ZERO };
        doubled_wait(failed - 1).saturating_sub(passed)
    }

    fn new_pod(&self, index: Option<i64>) -> Value {
        let mut pod = pod_of_template(&self.job, &self.job["spec"]["template"]);
        pod["metadata"]["finalizers"] = json!([TRACKING]);
        let Some(index) = index else { return pod };
        let numbered = format!("{}-{index}", name_of(&self.job));
        pod["metadata"]["generateName"] = format!("{numbered}-").into();
        for kind in ["annotations", "labels"] {
            pod["metadata"][kind][INDEX] = index.to_string().into();
        }
        if self.limit_per_index().is_some() {
            let failures = self.failed_pods_of(index).map(|pod| failures_of(pod) + 1).max().unwrap_or(0);
            pod["metadata"]["annotations"][FAILURES] = failures.to_string().into();
        }
        pod["spec"]["hostname"] = numbered.into();
        let variable = json!({
            "name": "JOB_COMPLETION_INDEX",
            "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": format!("metadata.labels['{INDEX}']")}},
        });
        for kind in ["containers", "initContainers"] {
            for container in pod["spec"].get_mut(kind).and_then(Value::as_array_mut).into_iter().flatten() {
                let mut variables = list_at(container, "/env").to_vec();
                variables.push(variable.clone());
                container["env"] = variables.into();
            }
        }
        pod
    }

    fn report_counts(&mut self) -> Result<()> {
        let active = self.active_pods();
        let ready = active.iter().filter(|p| is_ready(p)).count();
        let going = self.terminating_count();
        self.update_status(|value| {
            let status = &mut value["status"];
            put_count(status, "active", active.len());
            status["terminating"] = going.into();
            status["ready"] = ready.into();
            if status["uncountedTerminatedPods"].is_null() {
                status["uncountedTerminatedPods"] = json!({});
            }
        })
    }
}

fn index_of(pod: &Value) -> Option<i64> {
    annotation(pod, INDEX)?.parse().ok()
}

/// How often the index of a pod had failed before it.
fn failures_of(pod: &Value) -> i64 {
    annotation(pod, FAILURES).and_then(|count| count.parse().ok()).unwrap_or(0)
}

/// Ten seconds, doubled after each failure, six minutes at most.
fn doubled_wait(failures: i64) -> Duration {
    let doubled = 10u64 << u32::try_from(failures.clamp(0, 8)).unwrap_or(0);
    Duration::from_secs(doubled.min(360))
}

fn set_condition(job: &mut Value, kind: &str, state: &str, reason: &str, message: &str, now: &str) {
    let mut conditions = list_at(job, "/status/conditions").to_vec();
    conditions.retain(|c| c["type"] != kind);
    conditions.push(json!({
        "type": kind, "status": state, "lastProbeTime": now, "lastTransitionTime": now,
        "reason": reason, "message": message,
    }));
    job["status"]["conditions"] = conditions.into();
}
