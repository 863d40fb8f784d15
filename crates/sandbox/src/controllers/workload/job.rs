//! Jobs: pods that must succeed a number of times.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};

use super::super::{Cluster, Controller, Item, Next, Queue};
use super::common::*;
use super::job_end::{BACK_OFF, DEADLINE, End, REACHED, by_policy, judged};
use super::job_indexes::{parse_indexes, print_indexes};
use crate::api::select::Labels;
use crate::status::Result;
use crate::store::Event;
use crate::write::delete::{DeleteOptions, Propagation};

const TABLE: &str = "jobs.batch";
const COMPONENT: &str = "job-controller";
const TRACKING: &str = "batch.kubernetes.io/job-tracking";
const INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// Pods made in one go.
const BURST: i64 = 500;

pub(super) struct Jobs {
    family: Family,
}

impl Default for Jobs {
    fn default() -> Jobs {
        Jobs { family: Family::new(TABLE, &["pods"]) }
    }
}

impl Controller for Jobs {
    fn name(&self) -> &'static str {
        COMPONENT
    }

    fn observe(&mut self, event: &Event, _: &Cluster, queue: &mut Queue) {
        self.family.observe(event, queue);
    }

    fn reconcile(&mut self, item: &Item, cluster: &Cluster) -> Result<Next> {
        let Some(job) = cluster.get(TABLE, &item.key.namespace, &item.key.name) else {
            return release_orphans(item, cluster);
        };
        let selector = Labels::of_selector(&job["spec"]["selector"]).unwrap_or_default();
        let pods = children(cluster, "pods", &job, Some(&selector))?;
        if deleting(&job) || is_over(&job) {
            for pod in pods.iter().filter(|p| tracked(p)) {
                untrack(pod, cluster)?;
            }
            return expire(&job, cluster);
        }
        Run { job, pods, cluster }.step()
    }
}

fn tracked(pod: &Value) -> bool {
    list(pod, "/metadata/finalizers").iter().any(|f| f == TRACKING)
}

fn untrack(pod: &Value, cluster: &Cluster) -> Result<()> {
    let done = cluster.update("pods", &key(pod), MANAGER, |value| {
        if let Some(Value::Array(finalizers)) = value["metadata"].get_mut("finalizers") {
            finalizers.retain(|f| f != TRACKING);
        }
    });
    match done {
        Err(status) if status.code != 404 => Err(status),
        _ => Ok(()),
    }
}

/// Pods of a job that is gone must not wait for it.
fn release_orphans(item: &Item, cluster: &Cluster) -> Result<Next> {
    for pod in cluster.objects("pods", Some(&item.key.namespace)) {
        if pod.label("batch.kubernetes.io/job-name") == Some(&item.key.name)
            && let Some(pod) = cluster.get("pods", pod.namespace(), pod.name())
            && tracked(&pod)
        {
            untrack(&pod, cluster)?;
        }
    }
    Ok(Next::Done)
}

fn is_over(job: &Value) -> bool {
    has_condition(job, "Complete") || has_condition(job, "Failed")
}

/// Deletes a finished job when its time is up.
fn expire(job: &Value, cluster: &Cluster) -> Result<Next> {
    let Some(limit) = job["spec"]["ttlSecondsAfterFinished"].as_u64() else { return Ok(Next::Done) };
    let ended =
        ["Complete", "Failed"].iter().find_map(|k| condition(job, k).filter(|c| c["status"] == "True"));
    let Some(ended) = ended.filter(|_| !deleting(job)) else { return Ok(Next::Done) };
    let left = Duration::from_secs(limit).saturating_sub(cluster.since(&ended["lastTransitionTime"]));
    if !left.is_zero() {
        return Ok(Next::Later(left));
    }
    let options = DeleteOptions {
        propagation: Some(Propagation::Foreground),
        uid: Some(uid(job).to_owned()),
        ..DeleteOptions::default()
    };
    cluster.delete(TABLE, &key(job), &options)?;
    Ok(Next::Done)
}

struct Run<'a> {
    job: Value,
    pods: Vec<Value>,
    cluster: &'a Cluster,
}

impl Run<'_> {
    fn write(&mut self, change: impl FnMut(&mut Value)) -> Result<()> {
        self.cluster.update_status(TABLE, &key(&self.job), MANAGER, change)?;
        if let Some(fresh) = self.cluster.get(TABLE, namespace(&self.job), name(&self.job)) {
            self.job = fresh;
        }
        Ok(())
    }

    fn is_indexed(&self) -> bool {
        self.job["spec"]["completionMode"] == "Indexed"
    }

    fn completions(&self) -> Option<i64> {
        self.job["spec"]["completions"].as_i64()
    }

    fn completed(&self) -> BTreeSet<i64> {
        let end = self.completions().unwrap_or(0) - 1;
        parse_indexes(text(&self.job, "/status/completedIndexes"), end)
    }

    fn active(&self) -> Vec<Value> {
        self.pods.iter().filter(|p| is_active(p)).cloned().collect()
    }

    fn going(&self) -> usize {
        self.pods.iter().filter(|p| deleting(p) && !is_finished(p)).count()
    }

    fn step(mut self) -> Result<Next> {
        let suspended = self.job["spec"]["suspend"] == true;
        if !suspended && text(&self.job, "/status/startTime").is_empty() {
            let now = self.cluster.timestamp();
            let resumed = has_condition(&self.job, "Suspended");
            self.write(|value| {
                value["status"]["startTime"] = now.clone().into();
                if resumed {
                    set(value, "Suspended", "False", "JobResumed", "Job resumed", &now);
                }
            })?;
            if resumed {
                self.cluster.event(&self.job, COMPONENT, "Normal", "Resumed", "Job resumed");
            }
        }
        self.count()?;
        if let Some(end) = self.ending(suspended) {
            return self.finish(&end);
        }
        if suspended {
            for pod in self.active() {
                delete_pod(self.cluster, &self.job, &pod, COMPONENT)?;
            }
            if !has_condition(&self.job, "Suspended") {
                let now = self.cluster.timestamp();
                self.write(|value| {
                    set(value, "Suspended", "True", "JobSuspended", "Job suspended", &now);
                    if let Some(status) = value["status"].as_object_mut() {
                        status.shift_remove("startTime");
                    }
                })?;
                self.cluster.event(&self.job, COMPONENT, "Normal", "Suspended", "Job suspended");
            }
            self.reload()?;
            self.tell()?;
            return Ok(Next::Done);
        }
        let next = self.manage()?;
        self.reload()?;
        self.tell()?;
        Ok(sooner(next, self.deadline()))
    }

    fn reload(&mut self) -> Result<()> {
        let selector = Labels::of_selector(&self.job["spec"]["selector"]).unwrap_or_default();
        self.pods = children(self.cluster, "pods", &self.job, Some(&selector))?;
        Ok(())
    }

    /// Counts finished pods once: notes them, lets them go, adds them up.
    fn count(&mut self) -> Result<()> {
        let fresh: Vec<Value> = self.pods.iter().filter(|p| is_finished(p) && tracked(p)).cloned().collect();
        let noted = &self.job["status"]["uncountedTerminatedPods"];
        let has_noted = !list(noted, "/succeeded").is_empty() || !list(noted, "/failed").is_empty();
        if fresh.is_empty() && !has_noted {
            return Ok(());
        }
        let end = self.completions().unwrap_or(i64::MAX);
        let mut completed = self.completed();
        let (mut good, mut bad): (Vec<String>, Vec<String>) = (
            list(noted, "/succeeded").iter().filter_map(|u| u.as_str().map(str::to_owned)).collect(),
            list(noted, "/failed").iter().filter_map(|u| u.as_str().map(str::to_owned)).collect(),
        );
        let mut ended = None;
        for pod in &fresh {
            if text(pod, "/status/phase") == "Failed" {
                match judged(&self.job, pod) {
                    Some((action, _)) if action == "Ignore" => continue,
                    Some((action, why)) if action == "FailJob" => {
                        ended.get_or_insert(why);
                    }
                    _ => {}
                }
            }
            let side = if text(pod, "/status/phase") == "Succeeded" { &mut good } else { &mut bad };
            if !side.iter().any(|u| u == uid(pod)) {
                side.push(uid(pod).to_owned());
            }
            if self.is_indexed() && text(pod, "/status/phase") == "Succeeded" {
                let index = annotation(pod, INDEX).and_then(|i| i.parse::<i64>().ok());
                completed.extend(index.filter(|i| (0..end).contains(i)));
            }
        }
        let active = self.active();
        let ready = active.iter().filter(|p| is_ready(p)).count();
        let going = self.going();
        self.write(|value| {
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
            let now = self.cluster.timestamp();
            self.write(|value| set(value, "FailureTarget", "True", "PodFailurePolicy", &why, &now))?;
        }
        for pod in &fresh {
            untrack(pod, self.cluster)?;
        }
        let indexed = self.is_indexed();
        self.write(|value| {
            let status = &mut value["status"];
            let before = |key: &str| usize::try_from(status[key].as_i64().unwrap_or(0)).unwrap_or(0);
            let succeeded = if indexed { completed.len() } else { before("succeeded") + good.len() };
            let failed = before("failed") + bad.len();
            put_count(status, "succeeded", succeeded);
            put_count(status, "failed", failed);
            if indexed && !completed.is_empty() {
                status["completedIndexes"] = print_indexes(&completed).into();
            }
            status["uncountedTerminatedPods"] = json!({});
        })
    }

    /// Whether the job is to end now, and why.
    fn ending(&self, suspended: bool) -> Option<End> {
        if has_condition(&self.job, "SuccessCriteriaMet") {
            return Some(REACHED);
        }
        if let Some(target) = condition(&self.job, "FailureTarget") {
            return Some(match target["reason"].as_str() {
                Some("DeadlineExceeded") => DEADLINE,
                Some("PodFailurePolicy") => by_policy(text(target, "/message").to_owned()),
                _ => BACK_OFF,
            });
        }
        if suspended {
            return None;
        }
        let limit = int_or(&self.job, "/spec/backoffLimit", 6);
        let active = self.active();
        let restarts: i64 = active
            .iter()
            .filter(|_| text(&self.job, "/spec/template/spec/restartPolicy") == "OnFailure")
            .flat_map(|p| list(p, "/status/containerStatuses"))
            .map(|c| int(c, "/restartCount"))
            .sum();
        if int(&self.job, "/status/failed") > limit || (restarts > 0 && restarts >= limit) {
            return Some(BACK_OFF);
        }
        if self.deadline() == Next::After(Duration::ZERO) {
            return Some(DEADLINE);
        }
        let succeeded = int(&self.job, "/status/succeeded");
        let enough = match self.completions() {
            Some(wanted) => succeeded >= wanted,
            None => succeeded > 0 && active.is_empty(),
        };
        enough.then_some(REACHED)
    }

    /// When the job has been active for too long.
    fn deadline(&self) -> Next {
        let Some(limit) = self.job["spec"]["activeDeadlineSeconds"].as_u64() else { return Next::Done };
        if text(&self.job, "/status/startTime").is_empty() {
            return Next::Done;
        }
        let passed = self.cluster.since(&self.job["status"]["startTime"]);
        Next::After(Duration::from_secs(limit).saturating_sub(passed))
    }

    /// Says that the end has come, stops what runs, and says so for good when nothing does.
    fn finish(&mut self, end: &End) -> Result<Next> {
        let now = self.cluster.timestamp();
        if !has_condition(&self.job, end.first) {
            self.write(|value| set(value, end.first, "True", end.reason, &end.message, &now))?;
        }
        for pod in self.active() {
            delete_pod(self.cluster, &self.job, &pod, COMPONENT)?;
        }
        self.reload()?;
        self.tell()?;
        if self.pods.iter().any(|p| !is_finished(p)) {
            return Ok(Next::Done);
        }
        self.count()?;
        self.write(|value| {
            set(value, end.last, "True", end.reason, &end.message, &now);
            if end.last == "Complete" {
                value["status"]["completionTime"] = now.clone().into();
            }
        })?;
        if end.last == "Complete" {
            self.cluster.event(&self.job, COMPONENT, "Normal", "Completed", "Job completed");
        } else {
            self.cluster.event(&self.job, COMPONENT, "Warning", end.reason, &end.message);
        }
        Ok(Next::Done)
    }

    /// Makes or deletes pods until as many are active as should be.
    fn manage(&mut self) -> Result<Next> {
        let active = self.active();
        let has = i64::try_from(active.len()).unwrap_or(0);
        let succeeded = int(&self.job, "/status/succeeded");
        let parallel = int_or(&self.job, "/spec/parallelism", 1);
        let wanted = match self.completions() {
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
            return Ok(Next::Done);
        }
        let mut room = wanted - has;
        if self.job["spec"]["podReplacementPolicy"] == "Failed" {
            room -= i64::try_from(self.going()).unwrap_or(0);
        }
        if room <= 0 {
            return Ok(Next::Done);
        }
        let wait = self.back_off();
        if !wait.is_zero() {
            return Ok(Next::After(wait));
        }
        let mut taken = self.completed();
        taken.extend(active.iter().filter_map(|p| annotation(p, INDEX)?.parse::<i64>().ok()));
        let mut indexes = (0..self.completions().unwrap_or(0)).filter(|i| !taken.contains(i));
        for _ in 0..room.min(BURST) {
            let index = if self.is_indexed() {
                let Some(index) = indexes.next() else { break };
                Some(index)
            } else {
                None
            };
            create_pod(self.cluster, &self.job, self.pod(index), COMPONENT)?;
        }
        Ok(Next::Done)
    }

    /// How long to wait after the last failure: ten seconds, doubled each time, six minutes at most.
    fn back_off(&self) -> Duration {
        let failed = int(&self.job, "/status/failed");
        if failed == 0 {
            return Duration::ZERO;
        }
        let last = self
            .pods
            .iter()
            .filter(|p| text(p, "/status/phase") == "Failed")
            .filter_map(|p| {
                let at = p.pointer("/status/containerStatuses/0/state/terminated/finishedAt")?;
                Some(self.cluster.since(at))
            })
            .min();
        let Some(passed) = last else { return Duration::ZERO };
        let doubled = 10u64 << u32::try_from((failed - 1).clamp(0, 8)).unwrap_or(0);
        Duration::from_secs(doubled.min(360)).saturating_sub(passed)
    }

    fn pod(&self, index: Option<i64>) -> Value {
        let mut pod = pod_of_template(&self.job, &self.job["spec"]["template"]);
        pod["metadata"]["finalizers"] = json!([TRACKING]);
        let Some(index) = index else { return pod };
        let numbered = format!("{}-{index}", name(&self.job));
        pod["metadata"]["generateName"] = format!("{numbered}-").into();
        for kind in ["annotations", "labels"] {
            pod["metadata"][kind][INDEX] = index.to_string().into();
        }
        pod["spec"]["hostname"] = numbered.into();
        let variable = json!({
            "name": "JOB_COMPLETION_INDEX",
            "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": format!("metadata.labels['{INDEX}']")}},
        });
        for kind in ["containers", "initContainers"] {
            for container in pod["spec"].get_mut(kind).and_then(Value::as_array_mut).into_iter().flatten() {
                let mut variables = list(container, "/env").to_vec();
                variables.push(variable.clone());
                container["env"] = variables.into();
            }
        }
        pod
    }

    fn tell(&mut self) -> Result<()> {
        let active = self.active();
        let ready = active.iter().filter(|p| is_ready(p)).count();
        let going = self.going();
        self.write(|value| {
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

fn set(job: &mut Value, kind: &str, state: &str, reason: &str, message: &str, now: &str) {
    let mut conditions = list(job, "/status/conditions").to_vec();
    conditions.retain(|c| c["type"] != kind);
    conditions.push(json!({
        "type": kind, "status": state, "lastProbeTime": now, "lastTransitionTime": now,
        "reason": reason, "message": message,
    }));
    job["status"]["conditions"] = conditions.into();
}
