//! The kubelet of every simulated node: takes pods from bound to running, finished or gone.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::super::{Cluster, Controller, Item, Next, Queue};
use super::common::*;
use super::fault::{Fate, Plan, ends};
use super::pod_report::{evict, finish, image_pull, overdue, report_stopped, running, set_ready, write};
use super::status::{self, HOST, Shown, Why};
use crate::status::Result;
use crate::store::{Change, Event, Key};
use crate::write::delete::DeleteOptions;

/// How long containers take to stop when asked nicely.
const STOP: Duration = Duration::from_millis(300);
const LONGEST_BACK_OFF: u64 = 300;
/// How long it takes until an image that is not there is asked for again, and until that is known.
const PULL_BACK_OFF: Duration = Duration::from_secs(20);
const PULL: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Creating,
    Running,
    BackOff,
    Stopping,
    Stopped,
}

#[derive(Default)]
pub(super) struct Kubelet {
    /// Since when each pod is where it is, finer than its status tells.
    stages: HashMap<Box<str>, (Stage, Timestamp)>,
    last_address: u32,
}

impl Controller for Kubelet {
    fn name(&self) -> &'static str {
        "kubelet"
    }

    fn observe(&mut self, event: &Event, _: &Cluster, queue: &mut Queue) {
        if &*event.table != "pods" {
            return;
        }
        if event.change == Change::Deleted {
            self.stages.remove(&event.object.uid);
        } else {
            queue.push(Item::of(event));
        }
    }

    fn reconcile(&mut self, item: &Item, cluster: &Cluster) -> Result<Next> {
        let Some(pod) = cluster.get("pods", &item.key.namespace, &item.key.name) else {
            return Ok(Next::Done);
        };
        let node = text(&pod, "/spec/nodeName");
        // Nobody looks after a pod of a node that is not there, except to let it go.
        if node.is_empty() || (!deleting(&pod) && cluster.object("nodes", &Key::new("", node)).is_none()) {
            return Ok(Next::Done);
        }
        let done = if deleting(&pod) {
            self.stop(&pod, cluster)
        } else if is_finished(&pod) {
            Ok(Next::Done)
        } else {
            self.carry_on(&pod, cluster)
        };
        match done {
            // It went while we looked at it.
            Err(status) if status.code == 404 => Ok(Next::Done),
            other => other,
        }
    }
}

impl Kubelet {
    fn enter(&mut self, pod: &Value, stage: Stage, cluster: &Cluster) {
        self.stages.insert(uid(pod).into(), (stage, cluster.now()));
    }

    /// How long the pod has been in this stage, entering it if it was not.
    fn time_in(&mut self, pod: &Value, stage: Stage, cluster: &Cluster) -> Duration {
        match self.stages.get(uid(pod)) {
            Some((known, since)) if *known == stage => {
                Duration::try_from(cluster.now().duration_since(*since)).unwrap_or_default()
            }
            _ => {
                self.enter(pod, stage, cluster);
                Duration::ZERO
            }
        }
    }

    fn carry_on(&mut self, pod: &Value, cluster: &Cluster) -> Result<Next> {
        let plan = Plan::of(pod);
        if text(pod, "/status/startTime").is_empty() {
            self.begin(pod, cluster)?;
            return Ok(if plan.fate == Fate::Pending { Next::Done } else { Next::After(plan.delay) });
        }
        let first = &pod["status"]["containerStatuses"][0];
        if first["state"].get("running").is_some() {
            return self.keep_running(pod, &plan, cluster);
        }
        let attempt = int(first, "/restartCount");
        match first["state"]["waiting"]["reason"].as_str() {
            Some("CrashLoopBackOff") => {
                let wait = back_off(attempt - 1);
                let passed = self.time_in(pod, Stage::BackOff, cluster);
                if passed < wait {
                    return Ok(retry(pod, &plan, wait - passed));
                }
                self.start(pod, &plan, attempt, cluster)
            }
            Some("ImagePullBackOff") => {
                let passed = self.time_in(pod, Stage::BackOff, cluster);
                if passed < PULL_BACK_OFF {
                    let (left, age) =
                        (PULL_BACK_OFF - passed, cluster.since(&pod["metadata"]["creationTimestamp"]));
                    // The first attempts are what everybody waits for.
                    let is_new = age < 2 * PULL_BACK_OFF;
                    return Ok(if is_new { Next::After(left) } else { Next::Later(left) });
                }
                self.enter(pod, Stage::Creating, cluster);
                image_pull(pod, "ErrImagePull", cluster)
            }
            Some("ErrImagePull") => {
                let passed = self.time_in(pod, Stage::Creating, cluster);
                if passed < PULL {
                    return Ok(Next::After(PULL - passed));
                }
                self.enter(pod, Stage::BackOff, cluster);
                image_pull(pod, "ImagePullBackOff", cluster)
            }
            _ if plan.fate == Fate::Pending => Ok(Next::Done),
            _ => {
                let passed = self.time_in(pod, Stage::Creating, cluster);
                if passed < plan.delay {
                    return Ok(Next::After(plan.delay - passed));
                }
                self.start(pod, &plan, first_attempt(pod, cluster), cluster)
            }
        }
    }

    /// First contact: the containers are being created.
    fn begin(&mut self, pod: &Value, cluster: &Cluster) -> Result<()> {
        let now = cluster.timestamp();
        let inits = status::init_statuses(pod, false, &now);
        let waiting = if inits.is_some() { "PodInitializing" } else { "ContainerCreating" };
        let containers: Vec<Value> = list(pod, "/spec/containers")
            .iter()
            .map(|c| status::container(pod, c, &Shown::waiting(waiting)))
            .collect();
        let conditions = status::conditions(pod, inits.is_none(), false, None, &now);
        self.enter(pod, Stage::Creating, cluster);
        write(pod, cluster, |status| {
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
    fn start(&mut self, pod: &Value, plan: &Plan, attempt: i64, cluster: &Cluster) -> Result<Next> {
        if plan.fate == Fate::ImagePull {
            self.enter(pod, Stage::BackOff, cluster);
            return image_pull(pod, "ImagePullBackOff", cluster);
        }
        let address = self.address(pod, cluster);
        if plan.fails(attempt) {
            let (code, reason) = match plan.fate {
                Fate::OutOfMemory => (137, "OOMKilled"),
                _ => (plan.exit_code.unwrap_or(1), "Error"),
            };
            return self.crash(pod, plan, attempt, code, reason, &address, cluster);
        }
        if plan.fate == Fate::Evicted {
            return evict(pod, &address, cluster);
        }
        let now = cluster.timestamp();
        let ready = plan.fate != Fate::Unready;
        let restarts = restarts(pod);
        let containers: Vec<Value> = list(pod, "/spec/containers")
            .iter()
            .enumerate()
            .map(|(i, c)| {
                let last = pod["status"]["containerStatuses"][i]["lastState"].clone();
                let shown = Shown {
                    state: json!({"running": {"startedAt": now}}),
                    last: if last.is_object() { last } else { json!({}) },
                    ready,
                    restarts,
                };
                status::container(pod, c, &shown)
            })
            .collect();
        let conditions = status::conditions(pod, true, ready, None, &now);
        self.enter(pod, Stage::Running, cluster);
        write(pod, cluster, |status| {
            running(status, pod, &address, &now);
            status["phase"] = "Running".into();
            status["conditions"] = conditions.clone();
            status["containerStatuses"] = containers.clone().into();
        })?;
        Ok(match plan.fate {
            Fate::Flapping => Next::Later(plan.duration),
            _ if ends(pod) => Next::After(plan.duration),
            _ => Next::Done,
        })
    }

    /// Looks after a running pod: it may finish, flap, or pass its readiness gates.
    fn keep_running(&mut self, pod: &Value, plan: &Plan, cluster: &Cluster) -> Result<Next> {
        let passed = self.time_in(pod, Stage::Running, cluster);
        if let Some(limit) = pod["spec"]["activeDeadlineSeconds"].as_u64() {
            let lived = cluster.since(&pod["status"]["startTime"]);
            if lived >= Duration::from_secs(limit) && limit > 0 {
                return overdue(pod, cluster);
            }
        }
        let now = cluster.timestamp();
        if plan.fate == Fate::Flapping {
            let ready = condition(pod, "ContainersReady").is_some_and(|c| c["status"] == "True");
            if passed < plan.duration {
                return Ok(Next::Later(plan.duration - passed));
            }
            self.enter(pod, Stage::Running, cluster);
            set_ready(pod, !ready, &now, cluster)?;
            return Ok(Next::Later(plan.duration));
        }
        if ends(pod) {
            if passed < plan.duration {
                return Ok(Next::After(plan.duration - passed));
            }
            let code = plan.exit_code.unwrap_or(0);
            if code != 0 && text(pod, "/spec/restartPolicy") == "OnFailure" {
                let address = text(pod, "/status/podIP").to_owned();
                let attempt = restarts(pod);
                return self.crash(pod, plan, attempt, code, "Error", &address, cluster);
            }
            return finish(pod, code, cluster);
        }
        set_ready(pod, plan.fate != Fate::Unready, &now, cluster)?;
        Ok(Next::Done)
    }

    /// The containers exited: for good, or until the back-off is over.
    #[allow(clippy::too_many_arguments)]
    fn crash(
        &mut self,
        pod: &Value,
        plan: &Plan,
        attempt: i64,
        code: i64,
        reason: &str,
        address: &str,
        cluster: &Cluster,
    ) -> Result<Next> {
        let now = cluster.timestamp();
        if text(pod, "/spec/restartPolicy") == "Never" {
            let why = Why { reason: "PodFailed", message: None };
            let conditions = status::conditions(pod, true, false, Some(&why), &now);
            let containers: Vec<Value> = list(pod, "/spec/containers")
                .iter()
                .map(|c| {
                    let state = status::terminated(pod, c, 0, code, reason, &now, &now);
                    status::container(pod, c, &Shown { state, last: json!({}), ready: false, restarts: 0 })
                })
                .collect();
            write(pod, cluster, |status| {
                running(status, pod, address, &now);
                status["phase"] = "Failed".into();
                status["conditions"] = conditions.clone();
                status["containerStatuses"] = containers.clone().into();
            })?;
            return Ok(Next::Done);
        }
        let wait = back_off(attempt);
        let who = format!("{}_{}({})", name(pod), namespace(pod), uid(pod));
        let containers: Vec<Value> = list(pod, "/spec/containers")
            .iter()
            .map(|c| {
                let called = c["name"].as_str().unwrap_or("");
                let message =
                    format!("back-off {} restarting failed container={called} pod={who}", go_duration(wait));
                let shown = Shown {
                    state: json!({"waiting": {"reason": "CrashLoopBackOff", "message": message}}),
                    last: status::terminated(pod, c, attempt, code, reason, &now, &now),
                    ready: false,
                    restarts: attempt + 1,
                };
                status::container(pod, c, &shown)
            })
            .collect();
        let conditions = status::conditions(pod, true, false, None, &now);
        self.enter(pod, Stage::BackOff, cluster);
        write(pod, cluster, |status| {
            running(status, pod, address, &now);
            status["phase"] = "Running".into();
            status["conditions"] = conditions.clone();
            status["containerStatuses"] = containers.clone().into();
        })?;
        let called = text(pod, "/spec/containers/0/name");
        let message = format!("Back-off restarting failed container {called} in pod {who}");
        cluster.event(pod, "kubelet", "Warning", "BackOff", &message);
        Ok(retry(pod, plan, wait))
    }

    /// Stops a pod that is being deleted, then removes it.
    fn stop(&mut self, pod: &Value, cluster: &Cluster) -> Result<Next> {
        let grace = int(pod, "/metadata/deletionGracePeriodSeconds");
        let stopped = self.stages.get(uid(pod)).is_some_and(|(stage, _)| *stage == Stage::Stopped);
        if !stopped && !is_finished(pod) {
            let wait = STOP.min(Duration::from_secs(u64::try_from(grace).unwrap_or(0)));
            let passed = self.time_in(pod, Stage::Stopping, cluster);
            if passed < wait {
                return Ok(Next::After(wait - passed));
            }
            self.enter(pod, Stage::Stopped, cluster);
            if !text(pod, "/status/startTime").is_empty() {
                report_stopped(pod, cluster)?;
            }
        }
        if grace > 0 || !stopped {
            let options =
                DeleteOptions { grace: Some(0), uid: Some(uid(pod).to_owned()), ..DeleteOptions::default() };
            self.enter(pod, Stage::Stopped, cluster);
            cluster.delete("pods", &key(pod), &options)?;
        }
        Ok(Next::Done)
    }

    /// The address of a pod: the one it has, or the next free one.
    fn address(&mut self, pod: &Value, cluster: &Cluster) -> String {
        let has = text(pod, "/status/podIP");
        if !has.is_empty() {
            return has.to_owned();
        }
        if pod["spec"]["hostNetwork"] == true {
            return HOST.to_owned();
        }
        const FIRST: u32 = u32::from_be_bytes([10, 244, 0, 2]);
        if self.last_address == 0 {
            let taken = cluster.list("pods", None);
            let taken = taken.iter().filter_map(|p| text(p, "/status/podIP").parse::<Ipv4Addr>().ok());
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

fn restarts(pod: &Value) -> i64 {
    int(pod, "/status/containerStatuses/0/restartCount")
}

/// The number of the first attempt: pods of a job that are never restarted take turns.
fn first_attempt(pod: &Value, cluster: &Cluster) -> i64 {
    if text(pod, "/spec/restartPolicy") != "Never" {
        return restarts(pod);
    }
    let Some(job) = label(pod, "batch.kubernetes.io/job-name") else { return 0 };
    let Some(job) = cluster.get("jobs.batch", namespace(pod), job) else { return 0 };
    let uncounted = list(&job, "/status/uncountedTerminatedPods/failed").len();
    int(&job, "/status/failed") + i64::try_from(uncounted).unwrap_or(0)
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

/// Hurries to the next attempt only if there will be a last one.
fn retry(pod: &Value, plan: &Plan, wait: Duration) -> Next {
    let job = text(pod, "/spec/restartPolicy") == "OnFailure"
        && label(pod, "batch.kubernetes.io/job-name").is_some();
    if plan.failures.is_some() || job { Next::After(wait) } else { Next::Later(wait) }
}
