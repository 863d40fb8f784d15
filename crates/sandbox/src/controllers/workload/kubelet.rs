//! The kubelet of every simulated node: takes pods from bound to running, finished or gone.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::super::{ClusterHandle, Controller, NextReconcile, WorkItem, WorkQueue};
use super::common::*;
use super::fault::{PodFate, PodPlan, ends_by_itself};
use super::pod_report::{
    report_evicted, report_finished, report_image_pull, report_overdue, report_stopped, set_ready,
    set_running, write_status,
};
use super::status::{self, ConditionReason, ContainerReport, HOST};
use crate::status::Result;
use crate::store::{ChangeType, ObjectKey, StoreEvent};
use crate::write::delete::DeleteOptions;

/// Time containers take to stop when asked to.
const STOP: Duration = Duration::from_millis(300);
const LONGEST_BACK_OFF: u64 = 300;
/// Time until the pull of a missing image is repeated, and time until a pull fails.
const PULL_BACK_OFF: Duration = Duration::from_secs(20);
const PULL: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, PartialEq, Eq)]
enum PodStage {
    Creating,
    Running,
    BackOff,
    Stopping,
    Stopped,
}

#[derive(Default)]
pub(super) struct Kubelet {
    /// Since when each pod is where it is, finer than its status tells.
    stages: HashMap<Box<str>, (PodStage, Timestamp)>,
    last_address: u32,
}

impl Controller for Kubelet {
    fn name(&self) -> &'static str {
        "kubelet"
    }

    fn observe_event(&mut self, event: &StoreEvent, _: &ClusterHandle, queue: &mut WorkQueue) {
        if &*event.table != "pods" {
            return;
        }
        if event.change == ChangeType::Deleted {
            self.stages.remove(&event.object.uid);
        } else {
            queue.push(WorkItem::of(event));
        }
    }

    fn reconcile(&mut self, item: &WorkItem, cluster: &ClusterHandle) -> Result<NextReconcile> {
        let Some(pod) = cluster.get("pods", &item.key.namespace, &item.key.name) else {
            return Ok(NextReconcile::Done);
        };
        let node = text_at(&pod, "/spec/nodeName");
        // Pods of a node that does not exist are left alone, except to be deleted.
        if node.is_empty()
            || (!is_deleting(&pod) && cluster.stored_object("nodes", &ObjectKey::new("", node)).is_none())
        {
            return Ok(NextReconcile::Done);
        }
        let done = if is_deleting(&pod) {
            self.stop_pod(&pod, cluster)
        } else if is_finished(&pod) {
            Ok(NextReconcile::Done)
        } else {
            self.advance_pod(&pod, cluster)
        };
        match done {
            // It was deleted meanwhile.
            Err(status) if status.code == 404 => Ok(NextReconcile::Done),
            other => other,
        }
    }
}

impl Kubelet {
    fn enter_stage(&mut self, pod: &Value, stage: PodStage, cluster: &ClusterHandle) {
        self.stages.insert(uid_of(pod).into(), (stage, cluster.now()));
    }

    /// Returns how long the pod has been in this stage, entering it if it was not.
    fn time_in(&mut self, pod: &Value, stage: PodStage, cluster: &ClusterHandle) -> Duration {
        match self.stages.get(uid_of(pod)) {
            Some((known, since)) if *known == stage => {
                Duration::try_from(cluster.now().duration_since(*since)).unwrap_or_default()
            }
            _ => {
                self.enter_stage(pod, stage, cluster);
                Duration::ZERO
            }
        }
    }

    fn advance_pod(&mut self, pod: &Value, cluster: &ClusterHandle) -> Result<NextReconcile> {
        let plan = PodPlan::of(pod);
        if text_at(pod, "/status/startTime").is_empty() {
            self.begin_creation(pod, cluster)?;
            return Ok(if plan.fate == PodFate::Pending {
                NextReconcile::Done
            } else {
                NextReconcile::After(plan.delay)
            });
        }
        let first = &pod["status"]["containerStatuses"][0];
        if first["state"].get("running").is_some() {
            return self.keep_running(pod, &plan, cluster);
        }
        let attempt = int_at(first, "/restartCount");
        match first["state"]["waiting"]["reason"].as_str() {
            Some("CrashLoopBackOff") => {
                let wait = back_off(attempt - 1);
                let passed = self.time_in(pod, PodStage::BackOff, cluster);
                if passed < wait {
                    return Ok(next_retry(pod, &plan, wait - passed));
                }
                self.start_containers(pod, &plan, attempt, cluster)
            }
            Some("ImagePullBackOff") => {
                let passed = self.time_in(pod, PodStage::BackOff, cluster);
                if passed < PULL_BACK_OFF {
                    let (left, age) = (
                        PULL_BACK_OFF - passed,
                        cluster.elapsed_since(&pod["metadata"]["creationTimestamp"]),
                    );
                    // Tests wait for the first attempts: the clock may jump there.
                    let is_new = age < 2 * PULL_BACK_OFF;
                    return Ok(if is_new { NextReconcile::After(left) } else { NextReconcile::Later(left) });
                }
                self.enter_stage(pod, PodStage::Creating, cluster);
                report_image_pull(pod, "ErrImagePull", cluster)
            }
            Some("ErrImagePull") => {
                let passed = self.time_in(pod, PodStage::Creating, cluster);
                if passed < PULL {
                    return Ok(NextReconcile::After(PULL - passed));
                }
                self.enter_stage(pod, PodStage::BackOff, cluster);
                report_image_pull(pod, "ImagePullBackOff", cluster)
            }
            _ if plan.fate == PodFate::Pending => Ok(NextReconcile::Done),
            _ => {
                let passed = self.time_in(pod, PodStage::Creating, cluster);
                if passed < plan.delay {
                    return Ok(NextReconcile::After(plan.delay - passed));
                }
                self.start_containers(pod, &plan, first_attempt(pod, cluster), cluster)
            }
        }
    }

    /// First contact: the containers are being created.
    fn begin_creation(&mut self, pod: &Value, cluster: &ClusterHandle) -> Result<()> {
        let now = cluster.now_text();
        let inits = status::init_statuses(pod, false, &now);
        let waiting = if inits.is_some() { "PodInitializing" } else { "ContainerCreating" };
        let containers: Vec<Value> = list_at(pod, "/spec/containers")
            .iter()
            .map(|c| status::container_status(pod, c, &ContainerReport::waiting_because(waiting)))
            .collect();
        let conditions = status::pod_conditions(pod, inits.is_none(), false, None, &now);
        self.enter_stage(pod, PodStage::Creating, cluster);
        write_status(pod, cluster, |status| {
            status["observedGeneration"] = int_or(pod, "/metadata/generation", 1).into();
            status["phase"] = "Pending".into();
            status["conditions"] = conditions.clone();
            status["hostIP"] = HOST.into();
            status["hostIPs"] = json!([{"ip": HOST}]);
            status["startTime"] = now.clone().into();
            if let Some(inits) = &inits {
                status["initContainerStatuses"] = inits.clone();
            }
            status["containerStatuses"] = containers.clone().into();
        })
    }

    /// Starts the containers for the `attempt`th time, whatever comes of it.
    fn start_containers(
        &mut self,
        pod: &Value,
        plan: &PodPlan,
        attempt: i64,
        cluster: &ClusterHandle,
    ) -> Result<NextReconcile> {
        if plan.fate == PodFate::ImagePull {
            self.enter_stage(pod, PodStage::BackOff, cluster);
            return report_image_pull(pod, "ImagePullBackOff", cluster);
        }
        let address = self.pod_address(pod, cluster);
        if plan.attempt_fails(attempt) {
            let (code, reason) = match plan.fate {
                PodFate::OutOfMemory => (137, "OOMKilled"),
                _ => (plan.exit_code.unwrap_or(1), "Error"),
            };
            return self.report_crash(pod, plan, attempt, code, reason, &address, cluster);
        }
        if plan.fate == PodFate::Evicted {
            return report_evicted(pod, &address, cluster);
        }
        let now = cluster.now_text();
        let ready = plan.fate != PodFate::Unready;
        let restarts = restart_count(pod);
        let containers: Vec<Value> = list_at(pod, "/spec/containers")
            .iter()
            .enumerate()
            .map(|(i, c)| {
                let last = pod["status"]["containerStatuses"][i]["lastState"].clone();
                let shown = ContainerReport {
                    state: json!({"running": {"startedAt": now}}),
                    last: if last.is_object() { last } else { json!({}) },
                    ready,
                    restarts,
                };
                status::container_status(pod, c, &shown)
            })
            .collect();
        let conditions = status::pod_conditions(pod, true, ready, None, &now);
        self.enter_stage(pod, PodStage::Running, cluster);
        write_status(pod, cluster, |status| {
            set_running(status, pod, &address, &now);
            status["phase"] = "Running".into();
            status["conditions"] = conditions.clone();
            status["containerStatuses"] = containers.clone().into();
        })?;
        Ok(match plan.fate {
            PodFate::Flapping => NextReconcile::Later(plan.duration),
            _ if ends_by_itself(pod) => NextReconcile::After(plan.duration),
            _ => NextReconcile::Done,
        })
    }

    /// Looks after a running pod: it may finish, flap, or pass its readiness gates.
    fn keep_running(
        &mut self,
        pod: &Value,
        plan: &PodPlan,
        cluster: &ClusterHandle,
    ) -> Result<NextReconcile> {
        let passed = self.time_in(pod, PodStage::Running, cluster);
        if let Some(limit) = pod["spec"]["activeDeadlineSeconds"].as_u64() {
            let lived = cluster.elapsed_since(&pod["status"]["startTime"]);
            if lived >= Duration::from_secs(limit) && limit > 0 {
                return report_overdue(pod, cluster);
            }
        }
        let now = cluster.now_text();
        if plan.fate == PodFate::Flapping {
            let ready = condition(pod, "ContainersReady").is_some_and(|c| c["status"] == "True");
            if passed < plan.duration {
                return Ok(NextReconcile::Later(plan.duration - passed));
            }
            self.enter_stage(pod, PodStage::Running, cluster);
            set_ready(pod, !ready, &now, cluster)?;
            return Ok(NextReconcile::Later(plan.duration));
        }
        if ends_by_itself(pod) {
            if passed < plan.duration {
                return Ok(NextReconcile::After(plan.duration - passed));
            }
            let code = plan.exit_code.unwrap_or(0);
            if code != 0 && text_at(pod, "/spec/restartPolicy") == "OnFailure" {
                let address = text_at(pod, "/status/podIP").to_owned();
                let attempt = restart_count(pod);
                return self.report_crash(pod, plan, attempt, code, "Error", &address, cluster);
            }
            return report_finished(pod, code, cluster);
        }
        set_ready(pod, plan.fate != PodFate::Unready, &now, cluster)?;
        Ok(NextReconcile::Done)
    }

    /// The containers exited: for good, or until the back-off is over.
    #[allow(clippy::too_many_arguments)]
    fn report_crash(
        &mut self,
        pod: &Value,
        plan: &PodPlan,
        attempt: i64,
        code: i64,
        reason: &str,
        address: &str,
        cluster: &ClusterHandle,
    ) -> Result<NextReconcile> {
        let now = cluster.now_text();
        if text_at(pod, "/spec/restartPolicy") == "Never" {
            let why = ConditionReason { reason: "PodFailed", message: None };
            let conditions = status::pod_conditions(pod, true, false, Some(&why), &now);
            let containers: Vec<Value> = list_at(pod, "/spec/containers")
                .iter()
                .map(|c| {
                    let state = status::terminated_state(pod, c, 0, code, reason, &now, &now);
                    status::container_status(
                        pod,
                        c,
                        &ContainerReport { state, last: json!({}), ready: false, restarts: 0 },
                    )
                })
                .collect();
            write_status(pod, cluster, |status| {
                set_running(status, pod, address, &now);
                status["phase"] = "Failed".into();
                status["conditions"] = conditions.clone();
                status["containerStatuses"] = containers.clone().into();
            })?;
            return Ok(NextReconcile::Done);
        }
        let wait = back_off(attempt);
        let who = format!("{}_{}({})", name_of(pod), namespace_of(pod), uid_of(pod));
        let containers: Vec<Value> = list_at(pod, "/spec/containers")
            .iter()
            .map(|c| {
                let called = c["name"].as_str().unwrap_or("");
                let message =
                    format!("back-off {} restarting failed container={called} pod={who}", go_duration(wait));
                let shown = ContainerReport {
                    state: json!({"waiting": {"reason": "CrashLoopBackOff", "message": message}}),
                    last: status::terminated_state(pod, c, attempt, code, reason, &now, &now),
                    ready: false,
                    restarts: attempt + 1,
                };
                status::container_status(pod, c, &shown)
            })
            .collect();
        let conditions = status::pod_conditions(pod, true, false, None, &now);
        self.enter_stage(pod, PodStage::BackOff, cluster);
        write_status(pod, cluster, |status| {
            set_running(status, pod, address, &now);
            status["phase"] = "Running".into();
            status["conditions"] = conditions.clone();
            status["containerStatuses"] = containers.clone().into();
        })?;
        let called = text_at(pod, "/spec/containers/0/name");
        let message = format!("Back-off restarting failed container {called} in pod {who}");
        cluster.record_event(pod, "kubelet", "Warning", "BackOff", &message);
        Ok(next_retry(pod, plan, wait))
    }

    /// Stops a pod that is being deleted, then removes it.
    fn stop_pod(&mut self, pod: &Value, cluster: &ClusterHandle) -> Result<NextReconcile> {
        let grace = int_at(pod, "/metadata/deletionGracePeriodSeconds");
        let stopped = self.stages.get(uid_of(pod)).is_some_and(|(stage, _)| *stage == PodStage::Stopped);
        if !stopped && !is_finished(pod) {
            let wait = STOP.min(Duration::from_secs(u64::try_from(grace).unwrap_or(0)));
            let passed = self.time_in(pod, PodStage::Stopping, cluster);
            if passed < wait {
                return Ok(NextReconcile::After(wait - passed));
            }
            self.enter_stage(pod, PodStage::Stopped, cluster);
            if !text_at(pod, "/status/startTime").is_empty() {
                report_stopped(pod, cluster)?;
            }
        }
        if grace > 0 || !stopped {
            let options = DeleteOptions {
                grace: Some(0),
                uid: Some(uid_of(pod).to_owned()),
                ..DeleteOptions::default()
            };
            self.enter_stage(pod, PodStage::Stopped, cluster);
            cluster.delete("pods", &key_of(pod), &options)?;
        }
        Ok(NextReconcile::Done)
    }

    /// The address of a pod: the one it has, or the next free one.
    fn pod_address(&mut self, pod: &Value, cluster: &ClusterHandle) -> String {
        let has = text_at(pod, "/status/podIP");
        if !has.is_empty() {
            return has.to_owned();
        }
        if pod["spec"]["hostNetwork"] == true {
            return HOST.to_owned();
        }
        const FIRST: u32 = u32::from_be_bytes([10, 244, 0, 2]);
        if self.last_address == 0 {
            let taken = cluster.list_values("pods", None);
            let taken = taken.iter().filter_map(|p| text_at(p, "/status/podIP").parse::<Ipv4Addr>().ok());
            let last = taken.map(u32::from).filter(|a| a >> 16 == FIRST >> 16).max();
            self.last_address = last.unwrap_or(FIRST);
        }
        self.last_address += 1;
        if self.last_address >> 16 != FIRST >> 16 {
            self.last_address = FIRST + 1;
        }
        Ipv4Addr::from(self.last_address).to_string()
    }
}

fn restart_count(pod: &Value) -> i64 {
    int_at(pod, "/status/containerStatuses/0/restartCount")
}

/// The number of the first attempt: pods of a job that are never restarted take turns.
fn first_attempt(pod: &Value, cluster: &ClusterHandle) -> i64 {
    if text_at(pod, "/spec/restartPolicy") != "Never" {
        return restart_count(pod);
    }
    let Some(job) = label(pod, "batch.kubernetes.io/job-name") else { return 0 };
    let Some(job) = cluster.get("jobs.batch", namespace_of(pod), job) else { return 0 };
    let uncounted = list_at(&job, "/status/uncountedTerminatedPods/failed").len();
    int_at(&job, "/status/failed") + i64::try_from(uncounted).unwrap_or(0)
}

fn back_off(attempt: i64) -> Duration {
    let doubled = 10u64 << u32::try_from(attempt.clamp(0, 8)).unwrap_or(0);
    Duration::from_secs(doubled.min(LONGEST_BACK_OFF))
}

/// As Go prints it: `10s`, `1m20s`, `5m0s`.
fn go_duration(span: Duration) -> String {
    let seconds = span.as_secs();
    if seconds < 60 { format!("{seconds}s") } else { format!("{}m{}s", seconds / 60, seconds % 60) }
}

/// Lets the clock jump to the next attempt only if there will be a last one.
fn next_retry(pod: &Value, plan: &PodPlan, wait: Duration) -> NextReconcile {
    let job = text_at(pod, "/spec/restartPolicy") == "OnFailure"
        && label(pod, "batch.kubernetes.io/job-name").is_some();
    if plan.failures.is_some() || job { NextReconcile::After(wait) } else { NextReconcile::Later(wait) }
}
