//! Whether an object is ready, as a pure function of what the cluster shows.

use serde_json::Value;
use slipway_manifest::jsonpath::{JsonPath, JsonPathError};
use slipway_manifest::object;

use super::generic;

/// How far an object is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readiness {
    Ready,
    /// Nobody is to change anything about it for now, which is why it is not waited for.
    Resting(String),
    /// Not yet, and why.
    Progressing(String),
    /// It will not become ready by itself, and why.
    Failed(String),
}

impl Readiness {
    fn wait(why: impl Into<String>) -> Readiness {
        Readiness::Progressing(why.into())
    }
}

/// What else there is to know besides the object itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct Context<'a> {
    /// The object is a hook: a Pod is done when it has succeeded, not when it runs.
    pub is_hook: bool,
    /// The claim's class binds volumes only when a pod wants them.
    pub waits_for_consumer: bool,
    /// Rules of the user, before all others.
    pub ready_when: Option<&'a Condition>,
    pub failed_when: Option<&'a Condition>,
}

/// `{.status.phase}==Running`, `{.status.ready}` or several values joined by `|`.
#[derive(Clone, Debug)]
pub struct Condition {
    text: String,
    path: JsonPath,
    values: Vec<String>,
}

impl Condition {
    /// Reads a JSONPath, optionally followed by `==` and the values wanted, separated by `|`.
    pub fn parse(text: &str) -> Result<Condition, JsonPathError> {
        let end = text.rfind('}').map_or(0, |end| end + 1);
        let (path, values) = match text[end..].find("==") {
            Some(at) => (&text[..end + at], Some(&text[end + at + 2..])),
            None => (text, None),
        };
        let path = JsonPath::parse_relaxed(path.trim())?;
        let values = values.map(|values| values.split('|').map(|value| value.trim().to_owned()).collect());
        Ok(Condition { text: text.to_owned(), path, values: values.unwrap_or_default() })
    }

    pub fn is_met(&self, object: &Value) -> bool {
        let Ok(found) = self.path.find_values(object) else { return false };
        found.iter().flatten().any(|value| {
            let value: &Value = value;
            match scalar(value) {
                Some(text) if !self.values.is_empty() => self.values.contains(&text),
                Some(text) => !matches!(text.as_str(), "" | "false" | "False"),
                None => self.values.is_empty() && !crate::wait::is_empty(value),
            }
        })
    }
}

pub(crate) fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(truth) => Some(truth.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Whether an object of this kind is ready as soon as it exists: nothing in it changes by itself.
pub fn is_ready_at_once(group: &str, kind: &str) -> bool {
    match group {
        "" => matches!(
            kind,
            "ConfigMap" | "Secret" | "ServiceAccount" | "Endpoints" | "LimitRange" | "PodTemplate" | "Event"
        ),
        "rbac.authorization.k8s.io"
        | "admissionregistration.k8s.io"
        | "storage.k8s.io"
        | "scheduling.k8s.io"
        | "coordination.k8s.io"
        | "discovery.k8s.io"
        | "node.k8s.io" => true,
        "networking.k8s.io" => matches!(kind, "NetworkPolicy" | "IngressClass" | "Ingress"),
        "policy" => kind == "PodDisruptionBudget",
        "autoscaling" => kind == "HorizontalPodAutoscaler",
        "batch" => kind == "CronJob",
        "apps" => kind == "ControllerRevision",
        _ => false,
    }
}

fn number(value: &Value, path: &str) -> i64 {
    value.pointer(path).and_then(Value::as_i64).unwrap_or(0)
}

fn text<'v>(value: &'v Value, path: &str) -> &'v str {
    value.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

/// The condition of a type, if the object has one.
pub(crate) fn condition<'v>(object: &'v Value, kind: &str) -> Option<&'v Value> {
    object.pointer("/status/conditions")?.as_array()?.iter().find(|condition| condition["type"] == kind)
}

fn says(object: &Value, kind: &str, status: &str) -> bool {
    condition(object, kind).is_some_and(|condition| condition["status"] == status)
}

/// `reason: message` of a condition.
pub(crate) fn told(condition: &Value) -> String {
    match (text(condition, "/reason"), text(condition, "/message")) {
        ("", message) => message.to_owned(),
        (reason, "") => reason.to_owned(),
        (reason, message) => format!("{reason}: {message}"),
    }
}

/// Whether the controller has seen the newest state of the object.
fn is_observed(object: &Value) -> bool {
    number(object, "/status/observedGeneration") >= number(object, "/metadata/generation")
}

/// Tells whether an object is ready.
pub fn status(object: &Value, context: &Context<'_>) -> Readiness {
    if let Some(rule) = context.failed_when
        && rule.is_met(object)
    {
        return Readiness::Failed(format!("{} is met", rule.text));
    }
    if let Some(rule) = context.ready_when {
        return match rule.is_met(object) {
            true => Readiness::Ready,
            false => Readiness::wait(format!("{} is not met", rule.text)),
        };
    }
    if let Some(end) = end(object) {
        return end;
    }
    if object["metadata"]["deletionTimestamp"].is_string() {
        return Readiness::wait("being deleted");
    }
    let gvk = object::gvk(object);
    match (gvk.group.as_str(), gvk.kind.as_str()) {
        ("apps" | "extensions", "Deployment") => deployment(object),
        ("apps", "StatefulSet") => stateful_set(object),
        ("apps" | "extensions", "DaemonSet") => daemon_set(object),
        ("apps" | "extensions", "ReplicaSet") | ("", "ReplicationController") => replica_set(object),
        ("batch", "Job") => job(object, context),
        ("", "Pod") => pod(object, context),
        ("", "PersistentVolumeClaim") => claim(object, context),
        ("", "PersistentVolume") => match text(object, "/status/phase") {
            "Available" | "Bound" | "Released" => Readiness::Ready,
            "Failed" => Readiness::Failed(text(object, "/status/message").to_owned()),
            phase => Readiness::wait(format!("phase {phase}")),
        },
        ("", "Service") => service(object),
        ("", "Namespace") => match text(object, "/status/phase") {
            "Active" => Readiness::Ready,
            phase => Readiness::wait(format!("phase {phase}")),
        },
        ("", "Node") => match says(object, "Ready", "True") {
            true => Readiness::Ready,
            false => Readiness::wait("not ready"),
        },
        ("apiregistration.k8s.io", "APIService") => match condition(object, "Available") {
            Some(available) if available["status"] == "True" => Readiness::Ready,
            Some(available) => Readiness::wait(told(available)),
            None => Readiness::wait("not available yet"),
        },
        ("apiextensions.k8s.io", "CustomResourceDefinition") => definition(object),
        ("flagger.app", "Canary") => match text(object, "/status/phase") {
            "Initialized" | "Succeeded" => Readiness::Ready,
            "Failed" => Readiness::Failed("the canary failed".into()),
            phase => Readiness::wait(format!("phase {phase}")),
        },
        (group, kind) if is_ready_at_once(group, kind) => Readiness::Ready,
        _ => generic::status(object),
    }
}

/// How an object that runs to an end has ended, if it has. That stands, whether it is still there or not.
pub(crate) fn end(object: &Value) -> Option<Readiness> {
    let gvk = object::gvk(object);
    match (gvk.group.as_str(), gvk.kind.as_str()) {
        ("batch", "Job") => job_end(object),
        ("", "Pod") => pod_end(object),
        _ => None,
    }
}

fn deployment(object: &Value) -> Readiness {
    // Its controller does nothing about it, so neither Helm nor we wait.
    if object["spec"]["paused"] == true {
        return Readiness::Resting("paused: its pods stay as they are until it is resumed".into());
    }
    if !is_observed(object) {
        return Readiness::wait("not seen by its controller yet");
    }
    let wanted = object.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(1);
    let count = |field: &str| number(object, &format!("/status/{field}"));
    let (updated, all, available) = (count("updatedReplicas"), count("replicas"), count("availableReplicas"));
    if updated == wanted && all == wanted && available == wanted {
        return Readiness::Ready;
    }
    if let Some(progressing) = condition(object, "Progressing")
        && progressing["reason"] == "ProgressDeadlineExceeded"
        && !is_outdated(object, progressing)
    {
        return Readiness::Failed(told(progressing));
    }
    if let Some(failure) = condition(object, "ReplicaFailure")
        && failure["status"] == "True"
    {
        return Readiness::wait(told(failure));
    }
    Readiness::wait(match () {
        () if updated < wanted => format!("{updated} of {wanted} replicas updated"),
        () if all > wanted => format!("{} old replicas still there", all - wanted),
        () => format!("{available} of {wanted} replicas available"),
    })
}

/// Whether a condition was told before the object was last written: after a rollback the controller may speak
/// of the generation before for a while.
fn is_outdated(object: &Value, condition: &Value) -> bool {
    let entries = object.pointer("/metadata/managedFields").and_then(Value::as_array);
    let written = entries
        .into_iter()
        .flatten()
        .filter(|entry| entry["subresource"].is_null())
        .filter_map(|entry| entry["time"].as_str())
        .max();
    // Times of this form compare as texts do.
    written.is_some_and(|written| condition["lastUpdateTime"].as_str().is_some_and(|told| told <= written))
}

fn stateful_set(object: &Value) -> Readiness {
    if number(object, "/status/observedGeneration") == 0 || !is_observed(object) {
        return Readiness::wait("not seen by its controller yet");
    }
    let wanted = object.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(1);
    let (ready, updated) =
        (number(object, "/status/readyReplicas"), number(object, "/status/updatedReplicas"));
    let (current, update) = (text(object, "/status/currentRevision"), text(object, "/status/updateRevision"));
    let partition = number(object, "/spec/updateStrategy/rollingUpdate/partition");
    let is_updated = match text(object, "/spec/updateStrategy/type") {
        "OnDelete" => current == update || updated >= wanted,
        _ if partition > 0 => updated >= wanted - partition,
        _ => current == update,
    };
    // Only somebody who deletes its pods can bring it further.
    if !is_updated && text(object, "/spec/updateStrategy/type") == "OnDelete" {
        let why = format!("{updated} of {wanted} pods updated: the others are when somebody deletes them");
        return Readiness::Resting(why);
    }
    if ready < wanted {
        return Readiness::wait(format!("{ready} of {wanted} replicas ready"));
    }
    if number(object, "/status/replicas") > wanted {
        return Readiness::wait(format!("{} replicas too many", number(object, "/status/replicas") - wanted));
    }
    match is_updated {
        true => Readiness::Ready,
        false => Readiness::wait(format!("{updated} of {} replicas updated", wanted - partition)),
    }
}

fn daemon_set(object: &Value) -> Readiness {
    if matches!(text(object, "/spec/updateStrategy/type"), "OnDelete") {
        return Readiness::Ready;
    }
    if !is_observed(object) {
        return Readiness::wait("not seen by its controller yet");
    }
    let count = |field: &str| number(object, &format!("/status/{field}"));
    let wanted = count("desiredNumberScheduled");
    let (updated, available) = (count("updatedNumberScheduled"), count("numberAvailable"));
    match () {
        () if updated != wanted => Readiness::wait(format!("{updated} of {wanted} pods updated")),
        () if available != wanted => Readiness::wait(format!("{available} of {wanted} pods available")),
        () => Readiness::Ready,
    }
}

fn replica_set(object: &Value) -> Readiness {
    if !is_observed(object) {
        return Readiness::wait("not seen by its controller yet");
    }
    if let Some(failure) = condition(object, "ReplicaFailure")
        && failure["status"] == "True"
    {
        return Readiness::wait(told(failure));
    }
    let wanted = object.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(1);
    match number(object, "/status/availableReplicas") {
        available if available >= wanted => Readiness::Ready,
        available => Readiness::wait(format!("{available} of {wanted} replicas available")),
    }
}

/// What the last condition of a job says.
fn job_end(object: &Value) -> Option<Readiness> {
    match condition(object, "Failed") {
        Some(failed) if failed["status"] == "True" => Some(Readiness::Failed(told(failed))),
        _ => says(object, "Complete", "True").then_some(Readiness::Ready),
    }
}

/// Whether a job that is gone had done what it was to do, though nobody saw its last condition.
pub(crate) fn had_succeeded(object: &Value) -> bool {
    let wanted = object.pointer("/spec/completions").and_then(Value::as_i64).unwrap_or(1);
    let gvk = object::gvk(object);
    let is_job = gvk.group == "batch" && gvk.kind == "Job";
    is_job && (says(object, "SuccessCriteriaMet", "True") || number(object, "/status/succeeded") >= wanted)
}

fn job(object: &Value, context: &Context<'_>) -> Readiness {
    if object["spec"]["suspend"] == true {
        let why = "suspended: it does not run until it is resumed";
        // A hook is there to be run.
        return if context.is_hook { Readiness::wait(why) } else { Readiness::Resting(why.into()) };
    }
    let wanted = object.pointer("/spec/completions").and_then(Value::as_i64).unwrap_or(1);
    let failed = match number(object, "/status/failed") {
        0 => String::new(),
        failed => format!(", {failed} failed"),
    };
    Readiness::wait(format!("{} of {wanted} completed{failed}", number(object, "/status/succeeded")))
}

fn pod_end(object: &Value) -> Option<Readiness> {
    match text(object, "/status/phase") {
        "Succeeded" => Some(Readiness::Ready),
        "Failed" => Some(Readiness::Failed(match told(&object["status"]).as_str() {
            "" => "the pod failed".to_owned(),
            told => told.to_owned(),
        })),
        _ => None,
    }
}

fn pod(object: &Value, context: &Context<'_>) -> Readiness {
    let runs_to_an_end =
        context.is_hook || matches!(text(object, "/spec/restartPolicy"), "Never" | "OnFailure");
    match text(object, "/status/phase") {
        _ if !runs_to_an_end && says(object, "Ready", "True") => Readiness::Ready,
        "" => Readiness::wait("pending"),
        phase => Readiness::wait(match condition(object, "PodScheduled") {
            Some(scheduled) if scheduled["status"] == "False" => told(scheduled),
            _ => phase.to_lowercase(),
        }),
    }
}

fn claim(object: &Value, context: &Context<'_>) -> Readiness {
    match text(object, "/status/phase") {
        "Bound" => Readiness::Ready,
        "Lost" => Readiness::Failed("the volume is lost".into()),
        _ if context.waits_for_consumer => Readiness::Ready,
        _ => Readiness::wait("not bound yet"),
    }
}

fn service(object: &Value) -> Readiness {
    if text(object, "/spec/type") != "LoadBalancer" || object["spec"]["externalIPs"].is_array() {
        return Readiness::Ready;
    }
    match object.pointer("/status/loadBalancer/ingress").and_then(Value::as_array) {
        Some(ingress) if !ingress.is_empty() => Readiness::Ready,
        _ => Readiness::wait("no address of the load balancer yet"),
    }
}

fn definition(object: &Value) -> Readiness {
    match condition(object, "NamesAccepted") {
        Some(names) if names["status"] == "False" => return Readiness::Failed(told(names)),
        _ => {}
    }
    match says(object, "Established", "True") {
        true => Readiness::Ready,
        false => Readiness::wait("not established yet"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(cases: Vec<(Value, &str)>) {
        for (object, expected) in cases {
            let context = Context { is_hook: object["hook"] == true, ..Context::default() };
            let found = match status(&object, &context) {
                Readiness::Ready => "ready".to_owned(),
                Readiness::Resting(why) => format!("rests: {why}"),
                Readiness::Progressing(why) => format!("wait: {why}"),
                Readiness::Failed(why) => format!("failed: {why}"),
            };
            assert_eq!(found, expected, "{object}");
        }
    }

    fn of(kind: &str, generation: i64, spec: Value, status: Value) -> Value {
        let (api_version, kind) = kind.rsplit_once('/').unwrap();
        json!({"apiVersion": api_version, "kind": kind, "metadata": {"generation": generation},
            "spec": spec, "status": status})
    }

    #[test]
    fn deployments() {
        let deployment = |spec, status| of("apps/v1/Deployment", 2, spec, status);
        let counts = |observed: i64, updated: i64, all: i64, available: i64| {
            json!({"observedGeneration": observed, "updatedReplicas": updated, "replicas": all,
                "availableReplicas": available})
        };
        let two = || json!({"replicas": 2});
        let mut late = counts(2, 1, 2, 1);
        late["conditions"] = json!([{"type": "Progressing", "status": "False",
            "reason": "ProgressDeadlineExceeded", "message": "too slow"}]);
        let mut quota = counts(2, 1, 2, 1);
        quota["conditions"] = json!([{"type": "ReplicaFailure", "status": "True",
            "reason": "FailedCreate", "message": "exceeded quota"}]);
        check(vec![
            (deployment(two(), counts(2, 2, 2, 2)), "ready"),
            (deployment(two(), counts(1, 2, 2, 2)), "wait: not seen by its controller yet"),
            (deployment(two(), json!({})), "wait: not seen by its controller yet"),
            (deployment(two(), counts(2, 1, 2, 2)), "wait: 1 of 2 replicas updated"),
            (deployment(two(), counts(2, 2, 3, 2)), "wait: 1 old replicas still there"),
            (deployment(two(), counts(2, 2, 2, 1)), "wait: 1 of 2 replicas available"),
            (deployment(json!({"replicas": 0}), counts(2, 0, 0, 0)), "ready"),
            (deployment(json!({}), counts(2, 1, 1, 1)), "ready"),
            (deployment(two(), late), "failed: ProgressDeadlineExceeded: too slow"),
            (deployment(two(), quota), "wait: FailedCreate: exceeded quota"),
            (
                deployment(json!({"replicas": 2, "paused": true}), counts(1, 0, 2, 2)),
                "rests: paused: its pods stay as they are until it is resumed",
            ),
        ]);
    }

    #[test]
    fn sets() {
        let set = |spec, status| of("apps/v1/StatefulSet", 3, spec, status);
        let state = |ready: i64, updated: i64, current: &str, update: &str| {
            json!({"observedGeneration": 3, "readyReplicas": ready, "updatedReplicas": updated, "replicas": 2,
                "currentRevision": current, "updateRevision": update})
        };
        let rolling = |partition: i64| json!({"replicas": 2, "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": partition}}});
        let on_delete = || json!({"replicas": 2, "updateStrategy": {"type": "OnDelete"}});
        let daemon = |strategy: &str, observed: i64, updated: i64, available: i64| {
            of(
                "apps/v1/DaemonSet",
                1,
                json!({"updateStrategy": {"type": strategy}}),
                json!({
                "observedGeneration": observed, "desiredNumberScheduled": 3,
                "updatedNumberScheduled": updated, "numberAvailable": available}),
            )
        };
        let replicas = |available: i64| {
            of(
                "apps/v1/ReplicaSet",
                1,
                json!({"replicas": 2}),
                json!({"observedGeneration": 1, "availableReplicas": available}),
            )
        };
        check(vec![
            (set(rolling(0), state(2, 2, "a", "a")), "ready"),
            (set(rolling(0), json!({})), "wait: not seen by its controller yet"),
            (set(rolling(0), state(1, 2, "a", "a")), "wait: 1 of 2 replicas ready"),
            (set(rolling(0), state(2, 1, "a", "b")), "wait: 1 of 2 replicas updated"),
            (set(rolling(1), state(2, 1, "a", "b")), "ready"),
            (set(rolling(1), state(2, 0, "a", "b")), "wait: 0 of 1 replicas updated"),
            (set(on_delete(), state(2, 0, "a", "a")), "ready"),
            (
                set(on_delete(), state(2, 1, "a", "b")),
                "rests: 1 of 2 pods updated: the others are when somebody deletes them",
            ),
            (set(on_delete(), json!({})), "wait: not seen by its controller yet"),
            (set(on_delete(), state(1, 2, "a", "a")), "wait: 1 of 2 replicas ready"),
            (set(on_delete(), state(2, 2, "a", "b")), "ready"),
            (daemon("OnDelete", 0, 0, 0), "ready"),
            (daemon("RollingUpdate", 0, 0, 0), "wait: not seen by its controller yet"),
            (daemon("RollingUpdate", 1, 2, 3), "wait: 2 of 3 pods updated"),
            (daemon("RollingUpdate", 1, 3, 2), "wait: 2 of 3 pods available"),
            (daemon("RollingUpdate", 1, 3, 3), "ready"),
            (replicas(1), "wait: 1 of 2 replicas available"),
            (replicas(2), "ready"),
        ]);
    }

    #[test]
    fn jobs_and_pods() {
        let job = |conditions: Value| {
            of(
                "batch/v1/Job",
                1,
                json!({"completions": 2}),
                json!({"succeeded": 1, "failed": 1, "conditions": conditions}),
            )
        };
        let pod = |hook: bool, restart: &str, status: Value| json!({"apiVersion": "v1", "kind": "Pod", "hook": hook, "spec": {"restartPolicy": restart}, "status": status});
        let running = || json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
        check(vec![
            (job(json!([])), "wait: 1 of 2 completed, 1 failed"),
            (job(json!([{"type": "Complete", "status": "True"}])), "ready"),
            (
                json!({"apiVersion": "batch/v1", "kind": "Job", "spec": {"suspend": true}}),
                "rests: suspended: it does not run until it is resumed",
            ),
            (
                json!({"apiVersion": "batch/v1", "kind": "Job", "hook": true, "spec": {"suspend": true}}),
                "wait: suspended: it does not run until it is resumed",
            ),
            (
                json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"},
                    "status": {"conditions": [{"type": "Complete", "status": "True"}]}}),
                "ready",
            ),
            (
                job(
                    json!([{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "x"}]),
                ),
                "failed: BackoffLimitExceeded: x",
            ),
            (pod(false, "Always", running()), "ready"),
            (pod(true, "Always", running()), "wait: running"),
            (pod(false, "Never", running()), "wait: running"),
            (pod(false, "Never", json!({"phase": "Succeeded"})), "ready"),
            (
                pod(false, "Always", json!({"phase": "Failed", "reason": "Evicted", "message": "m"})),
                "failed: Evicted: m",
            ),
            (pod(false, "Always", json!({"phase": "Failed"})), "failed: the pod failed"),
            (pod(false, "Always", json!({})), "wait: pending"),
            (
                pod(
                    false,
                    "Always",
                    json!({"phase": "Pending", "conditions": [
                    {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/2 nodes"}]}),
                ),
                "wait: Unschedulable: 0/2 nodes",
            ),
        ]);
    }

    #[test]
    fn other_kinds() {
        check(vec![
            (of("v1/ConfigMap", 0, json!({}), json!({})), "ready"),
            (of("rbac.authorization.k8s.io/v1/Role", 0, json!({}), json!({})), "ready"),
            (of("v1/Service", 0, json!({"type": "ClusterIP"}), json!({"loadBalancer": {}})), "ready"),
            (
                of("v1/Service", 0, json!({"type": "LoadBalancer"}), json!({"loadBalancer": {}})),
                "wait: no address of the load balancer yet",
            ),
            (
                of(
                    "v1/Service",
                    0,
                    json!({"type": "LoadBalancer"}),
                    json!({"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}),
                ),
                "ready",
            ),
            (
                of("v1/PersistentVolumeClaim", 0, json!({}), json!({"phase": "Pending"})),
                "wait: not bound yet",
            ),
            (of("v1/PersistentVolumeClaim", 0, json!({}), json!({"phase": "Bound"})), "ready"),
            (
                of("v1/PersistentVolumeClaim", 0, json!({}), json!({"phase": "Lost"})),
                "failed: the volume is lost",
            ),
            (of("v1/Namespace", 0, json!({}), json!({"phase": "Active"})), "ready"),
            (
                of(
                    "apiregistration.k8s.io/v1/APIService",
                    0,
                    json!({}),
                    json!({"conditions": [
                    {"type": "Available", "status": "False", "reason": "MissingEndpoints", "message": "none"}]}),
                ),
                "wait: MissingEndpoints: none",
            ),
            (
                of(
                    "apiextensions.k8s.io/v1/CustomResourceDefinition",
                    0,
                    json!({}),
                    json!({"conditions": [
                    {"type": "Established", "status": "True"}]}),
                ),
                "ready",
            ),
            (
                of("flagger.app/v1beta1/Canary", 0, json!({}), json!({"phase": "Progressing"})),
                "wait: phase Progressing",
            ),
        ]);
    }

    #[test]
    fn rules_of_the_user_come_first() {
        let object = of("v1/ConfigMap", 0, json!({}), json!({"phase": "Up", "n": 3}));
        for (rule, expected) in [
            ("{.status.phase}==Up", true),
            ("status.phase==Down|Up", true),
            ("status.phase==Down", false),
            ("status.n==3", true),
            ("{.status.phase}", true),
            ("{.status.none}", false),
        ] {
            let rule = Condition::parse(rule).unwrap();
            assert_eq!(rule.is_met(&object), expected, "{}", rule.text);
            let ready = status(&object, &Context { ready_when: Some(&rule), ..Context::default() });
            assert_eq!(ready == Readiness::Ready, expected);
            let failed = status(&object, &Context { failed_when: Some(&rule), ..Context::default() });
            assert_eq!(matches!(failed, Readiness::Failed(_)), expected);
        }
        assert!(Condition::parse("{.status").is_err());
    }
}
