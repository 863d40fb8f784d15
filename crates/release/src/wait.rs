//! Waiting for objects: until they are ready, there, or gone.

use std::time::Duration;

use serde_json::Value;
use slipway_cluster::{At, Cluster, ErrorClass};
use slipway_event::{Event, Events, ObjectState};
use tokio::time::Instant;

use crate::resource::{FailMode, Tracking};

/// How an object stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    Ready,
    Progressing(String),
    Failed(String),
}

/// Why a wait ended badly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotReady {
    pub message: String,
}

/// How long an object is looked at before it is looked at again: from and to.
const PAUSES: (Duration, Duration) = (Duration::from_millis(25), Duration::from_secs(1));
/// How long something that may yet be is borne without any sign of life, unless annotations say.
const NO_ACTIVITY: Duration = Duration::from_secs(240);

/// Waits for objects of one cluster. Costs a read now and then and no place among mutations.
#[derive(Clone)]
pub struct Waiter {
    cluster: Cluster,
    events: Events,
}

impl Waiter {
    pub fn new(cluster: Cluster, events: Events) -> Self {
        Self { cluster, events }
    }

    /// Waits until an object is ready, fails, or `timeout` passes.
    pub async fn ready(
        &self,
        at: &At,
        tracking: &Tracking,
        is_hook: bool,
        timeout: Option<Duration>,
    ) -> Result<(), NotReady> {
        let began = Instant::now();
        let mut pause = PAUSES.0;
        let (mut last, mut last_change) = (String::new(), Instant::now());
        let patience = tracking.no_activity_timeout.unwrap_or(NO_ACTIVITY);
        loop {
            let found = self.look(at).await?;
            let standing = match &found {
                Some(live) => self.standing(at, live, tracking, is_hook).await,
                None => Standing::Progressing("it does not exist".to_owned()),
            };
            match standing {
                Standing::Ready => {
                    self.tell(at, ObjectState::Ready, None);
                    return Ok(());
                }
                Standing::Failed(why) if tracking.fail_mode == FailMode::Fail => {
                    self.tell(at, ObjectState::Failed, Some(why.clone()));
                    return Err(NotReady { message: format!("{at} failed: {why}") });
                }
                // A failed job never becomes ready: there is nothing to wait for.
                Standing::Failed(why) => {
                    self.tell(at, ObjectState::Failed, Some(why));
                    return Ok(());
                }
                Standing::Progressing(why) => {
                    let seen = found.as_ref().and_then(|live| live.pointer("/metadata/resourceVersion"));
                    let sign = format!("{why} {}", seen.and_then(Value::as_str).unwrap_or_default());
                    if sign != last {
                        (last, last_change) = (sign, Instant::now());
                        pause = PAUSES.0;
                        self.tell(at, ObjectState::Waiting, Some(why.clone()));
                    }
                    let is_late = timeout.is_some_and(|timeout| began.elapsed() >= timeout);
                    if is_late || last_change.elapsed() >= patience {
                        let time = if is_late { began.elapsed() } else { patience };
                        return Err(NotReady {
                            message: format!("{at} is not ready after {time:.0?}: {why}"),
                        });
                    }
                }
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSES.1);
        }
    }

    /// Waits until an object is there.
    pub async fn present(&self, at: &At, timeout: Duration) -> Result<(), NotReady> {
        let began = Instant::now();
        let mut pause = PAUSES.0;
        while self.look(at).await?.is_none() {
            if began.elapsed() >= timeout {
                return Err(NotReady { message: format!("{at} is not there after {timeout:.0?}") });
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSES.1);
        }
        Ok(())
    }

    /// Waits until an object, or the one of that uid, is gone.
    pub async fn absent(
        &self,
        at: &At,
        uid: Option<&str>,
        timeout: Option<Duration>,
    ) -> Result<(), NotReady> {
        let began = Instant::now();
        let mut pause = PAUSES.0;
        loop {
            let found = self.look(at).await?;
            let Some(live) = found else { return Ok(()) };
            if uid.is_some_and(|uid| live.pointer("/metadata/uid").and_then(Value::as_str) != Some(uid)) {
                return Ok(());
            }
            if timeout.is_some_and(|timeout| began.elapsed() >= timeout) {
                let holders =
                    live.pointer("/metadata/finalizers").map(ToString::to_string).unwrap_or_default();
                let message =
                    format!("{at} is still there after {:.0?}; finalizers: {holders}", began.elapsed());
                return Err(NotReady { message });
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSES.1);
        }
    }

    async fn look(&self, at: &At) -> Result<Option<Value>, NotReady> {
        match self.cluster.get(at).await {
            Ok(found) => Ok(found),
            Err(error) if error.class == ErrorClass::NoKind => Ok(None),
            // The cluster has been asked again and again already; a restart of it takes longer.
            Err(error) if error.is_transient() => Ok(None),
            Err(error) => Err(NotReady { message: error.to_string() }),
        }
    }

    async fn standing(&self, at: &At, live: &Value, tracking: &Tracking, is_hook: bool) -> Standing {
        match standing(live, is_hook) {
            Standing::Progressing(why) => {
                let replicas = live.pointer("/spec/replicas").and_then(Value::as_u64).unwrap_or(1);
                let is_job = at.gvk.kind == "Job";
                let allowed =
                    if is_job { 0 } else { tracking.failures_allowed_per_replica.unwrap_or(1) * replicas };
                match self.pod_trouble(at, live).await {
                    Some((count, trouble)) if count > allowed => Standing::Failed(trouble),
                    Some((_, trouble)) => Standing::Progressing(format!("{why}; {trouble}")),
                    None => Standing::Progressing(why),
                }
            }
            other => other,
        }
    }

    /// Containers of a workload that cannot run: how often, and the last reason.
    async fn pod_trouble(&self, at: &At, live: &Value) -> Option<(u64, String)> {
        let selector = match at.gvk.kind.as_str() {
            "Deployment" | "StatefulSet" | "DaemonSet" | "Job" => {
                live.pointer("/spec/selector/matchLabels")?.as_object()?
            }
            _ => return None,
        };
        let labels: Vec<String> =
            selector.iter().filter_map(|(key, value)| Some(format!("{key}={}", value.as_str()?))).collect();
        let kind = self.cluster.kind(&slipway_manifest::Gvk::new("", "v1", "Pod")).await.ok()??;
        let options = slipway_cluster::ListOptions::labels(labels.join(","));
        let pods = self.cluster.list(&kind, at.namespace.as_deref(), &options).await.ok()?.items;
        let (mut count, mut last) = (0, None);
        for pod in &pods {
            let statuses = ["initContainerStatuses", "containerStatuses"]
                .into_iter()
                .filter_map(|field| pod.pointer(&format!("/status/{field}")).and_then(Value::as_array))
                .flatten();
            for status in statuses {
                let reason =
                    status.pointer("/state/waiting/reason").and_then(Value::as_str).unwrap_or_default();
                if matches!(
                    reason,
                    "ImagePullBackOff" | "ErrImagePull" | "CrashLoopBackOff" | "ErrImageNeverPull"
                ) {
                    // Once for each restart, not for each look at it.
                    let restarts = status.get("restartCount").and_then(Value::as_u64).unwrap_or(0);
                    count += restarts.max(1) + u64::from(reason == "ImagePullBackOff");
                    let name = pod.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
                    let container = status.get("name").and_then(Value::as_str).unwrap_or_default();
                    let message =
                        status.pointer("/state/waiting/message").and_then(Value::as_str).unwrap_or_default();
                    last = Some(
                        format!("Pod/{name}, container {container}: {reason} {message}").trim().to_owned(),
                    );
                }
            }
        }
        last.map(|last| (count, last))
    }

    fn tell(&self, at: &At, state: ObjectState, message: Option<String>) {
        self.events.send(Event::Object { node: None, object: at.object_ref(), state, message });
    }
}

/// How an object stands by what it says of itself.
pub fn standing(live: &Value, is_hook: bool) -> Standing {
    let number = |pointer: &str| live.pointer(pointer).and_then(Value::as_i64);
    let text = |pointer: &str| live.pointer(pointer).and_then(Value::as_str);
    let gvk = slipway_manifest::object::gvk(live);
    let generation = number("/metadata/generation").unwrap_or(0);
    let observed = live
        .pointer("/status/observedGeneration")
        .and_then(|value| value.as_i64().or_else(|| value.as_str()?.parse().ok()));
    let progressing = |why: &str| Standing::Progressing(why.to_owned());
    if observed.is_some_and(|observed| observed < generation) {
        return progressing("the change has not been seen yet");
    }
    let condition = |wanted: &str| {
        let all = live.pointer("/status/conditions").and_then(Value::as_array);
        all.into_iter()
            .flatten()
            .find(|condition| condition.get("type").and_then(Value::as_str) == Some(wanted))
    };
    let is = |wanted: &str, value: &str| {
        condition(wanted)
            .is_some_and(|condition| condition.get("status").and_then(Value::as_str) == Some(value))
    };
    let said = |wanted: &str| {
        let message =
            condition(wanted).and_then(|condition| condition.get("message").and_then(Value::as_str));
        message.unwrap_or(wanted).to_owned()
    };
    match (gvk.group.as_str(), gvk.kind.as_str()) {
        ("apps", "Deployment") => {
            let wanted = number("/spec/replicas").unwrap_or(1);
            let counts = ["updatedReplicas", "replicas", "availableReplicas"];
            let have = counts.map(|field| number(&format!("/status/{field}")).unwrap_or(0));
            if observed.is_none() {
                progressing("the change has not been seen yet")
            } else if have.iter().all(|count| *count == wanted) {
                Standing::Ready
            } else {
                let [updated, all, available] = have;
                Standing::Progressing(format!(
                    "{updated} updated, {available} available, {all} in all of {wanted}"
                ))
            }
        }
        ("apps", "StatefulSet") => {
            let wanted = number("/spec/replicas").unwrap_or(1);
            let ready = number("/status/readyReplicas").unwrap_or(0);
            let updated = number("/status/updatedReplicas").unwrap_or(0);
            let partition = number("/spec/updateStrategy/rollingUpdate/partition").unwrap_or(0);
            let same = text("/status/updateRevision") == text("/status/currentRevision");
            let done = match text("/spec/updateStrategy/type") {
                Some("OnDelete") => updated == 0 && same || updated >= wanted,
                _ if partition > 0 => updated >= wanted - partition,
                _ => same,
            };
            if observed.unwrap_or(0) != 0 && ready >= wanted && done {
                Standing::Ready
            } else {
                Standing::Progressing(format!("{updated} updated, {ready} ready of {wanted}"))
            }
        }
        ("apps", "DaemonSet") => {
            if text("/spec/updateStrategy/type").is_some_and(|kind| kind != "RollingUpdate") {
                return Standing::Ready;
            }
            let wanted = number("/status/desiredNumberScheduled").unwrap_or(0);
            let updated = number("/status/updatedNumberScheduled").unwrap_or(0);
            let available = number("/status/numberAvailable").unwrap_or(0);
            if observed.is_some() && updated == wanted && available == wanted {
                Standing::Ready
            } else {
                Standing::Progressing(format!("{updated} updated, {available} available of {wanted}"))
            }
        }
        ("batch", "Job") => {
            if is("Complete", "True") {
                Standing::Ready
            } else if is("Failed", "True") {
                Standing::Failed(said("Failed"))
            } else {
                progressing("the job runs")
            }
        }
        ("", "Pod") => {
            let runs_once = is_hook || text("/spec/restartPolicy").is_some_and(|policy| policy != "Always");
            match text("/status/phase") {
                Some("Succeeded") => Standing::Ready,
                Some("Failed") => {
                    Standing::Failed(text("/status/message").unwrap_or("the pod failed").to_owned())
                }
                _ if !runs_once && is("Ready", "True") => Standing::Ready,
                phase => Standing::Progressing(phase.unwrap_or("the pod starts").to_owned()),
            }
        }
        ("", "PersistentVolumeClaim") => match text("/status/phase") {
            Some("Lost") => Standing::Failed("its volume is lost".to_owned()),
            // A claim may wait for its first consumer, which may come later.
            _ => Standing::Ready,
        },
        ("flagger.app", "Canary") => match text("/status/phase") {
            Some("Initialized" | "Succeeded") => Standing::Ready,
            Some("Failed") => Standing::Failed("the canary failed".to_owned()),
            phase => Standing::Progressing(phase.unwrap_or("the canary starts").to_owned()),
        },
        ("apiregistration.k8s.io", "APIService") if !is("Available", "True") => {
            progressing("it is not available")
        }
        // Objects of these groups have no state of their own to wait for.
        (
            ""
            | "rbac.authorization.k8s.io"
            | "networking.k8s.io"
            | "autoscaling"
            | "policy"
            | "storage.k8s.io"
            | "admissionregistration.k8s.io"
            | "apiregistration.k8s.io"
            | "scheduling.k8s.io"
            | "batch"
            | "apps",
            _,
        ) => Standing::Ready,
        _ => generic(live, &is, &said),
    }
}

/// Custom resources: the conventions of conditions first, then words of phases.
fn generic(live: &Value, is: &dyn Fn(&str, &str) -> bool, said: &dyn Fn(&str) -> String) -> Standing {
    if is("Stalled", "True") {
        return Standing::Failed(said("Stalled"));
    }
    if is("Reconciling", "True") {
        return Standing::Progressing(said("Reconciling"));
    }
    for wanted in ["Ready", "Available", "Synced", "Succeeded", "Complete"] {
        if is(wanted, "True") {
            return Standing::Ready;
        }
        if is(wanted, "False") || is(wanted, "Unknown") {
            return Standing::Progressing(said(wanted));
        }
    }
    for field in ["phase", "state", "health"] {
        let Some(word) = live.pointer(&format!("/status/{field}")).and_then(Value::as_str) else { continue };
        let word = word.to_lowercase();
        if ["fail", "error", "abort", "reject", "degraded", "terminated"].iter().any(|bad| word.contains(bad))
        {
            return Standing::Failed(format!("{field} is {word}"));
        }
        let waiting =
            ["pending", "progress", "creating", "updating", "waiting", "starting", "initializ", "unknown"];
        if waiting.iter().any(|slow| word.contains(slow)) {
            return Standing::Progressing(format!("{field} is {word}"));
        }
    }
    Standing::Ready
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_stand_as_they_say() {
        let deployment = |generation: i64, counts: [i64; 3]| {
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"generation": generation},
                "spec": {"replicas": 2}, "status": {"observedGeneration": 2, "updatedReplicas": counts[0],
                "replicas": counts[1], "availableReplicas": counts[2]}})
        };
        let job = |kind: &str| {
            json!({"apiVersion": "batch/v1", "kind": "Job",
            "status": {"conditions": [{"type": kind, "status": "True", "message": "why"}]}})
        };
        let pod = |phase: &str, policy: &str| {
            json!({"apiVersion": "v1", "kind": "Pod", "spec": {"restartPolicy": policy},
            "status": {"phase": phase, "conditions": [{"type": "Ready", "status": "True"}]}})
        };
        let custom = |status: Value| json!({"apiVersion": "x.io/v1", "kind": "X", "metadata": {"generation": 2}, "status": status});
        let cases = [
            (deployment(2, [2, 2, 2]), false, "ready"),
            // An old pod lingers.
            (deployment(2, [2, 3, 2]), false, "progressing"),
            (deployment(3, [2, 2, 2]), false, "progressing"),
            (job("Complete"), false, "ready"),
            (job("Failed"), false, "failed"),
            (json!({"apiVersion": "batch/v1", "kind": "Job"}), false, "progressing"),
            (pod("Running", "Always"), false, "ready"),
            (pod("Running", "Always"), true, "progressing"),
            (pod("Running", "Never"), false, "progressing"),
            (pod("Succeeded", "Never"), false, "ready"),
            (pod("Failed", "Never"), false, "failed"),
            (json!({"apiVersion": "v1", "kind": "ConfigMap"}), false, "ready"),
            (custom(json!({"conditions": [{"type": "Ready", "status": "False"}]})), false, "progressing"),
            (custom(json!({"conditions": [{"type": "Ready", "status": "True"}]})), false, "ready"),
            (
                custom(json!({"observedGeneration": 1, "conditions": [{"type": "Ready", "status": "True"}]})),
                false,
                "progressing",
            ),
            (custom(json!({"phase": "Failed"})), false, "failed"),
            (custom(json!({})), false, "ready"),
        ];
        for (object, is_hook, expected) in cases {
            let found = match standing(&object, is_hook) {
                Standing::Ready => "ready",
                Standing::Progressing(_) => "progressing",
                Standing::Failed(_) => "failed",
            };
            assert_eq!(found, expected, "{object}");
        }
    }
}
