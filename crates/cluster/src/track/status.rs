//! The readiness of an object, as a pure function of its state in the cluster.

use serde_json::Value;
use slipway_event::ReplicaCounts;
use slipway_manifest::jsonpath::{JsonPath, JsonPathError};
use slipway_manifest::object;

use super::generic;

/// The progress of an object towards readiness.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readiness {
    Ready,
    /// Its controller does nothing about it for now, so it is not waited for.
    Resting(String),
    /// Not yet, and why.
    Progressing(String),
    /// It will not become ready by itself, and why.
    Failed(String),
}

impl Readiness {
    fn progressing(why: impl Into<String>) -> Readiness {
        Readiness::Progressing(why.into())
    }
}

/// Facts besides the object itself that decide about readiness.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReadinessContext<'a> {
    /// The object is a hook: a Pod is done when it has succeeded, not when it runs.
    pub is_hook: bool,
    /// The claim's class binds volumes only when a pod wants them.
    pub waits_for_consumer: bool,
    /// Rules of the user, before all others.
    pub ready_when: Option<&'a FieldCondition>,
    pub failed_when: Option<&'a FieldCondition>,
}

/// `{.status.phase}==Running`, `{.status.ready}` or several values joined by `|`.
#[derive(Clone, Debug)]
pub struct FieldCondition {
    text: String,
    path: JsonPath,
    values: Vec<String>,
}

impl FieldCondition {
    /// Reads a JSONPath, optionally followed by `==` and the values wanted, separated by `|`.
    pub fn parse(text: &str) -> Result<FieldCondition, JsonPathError> {
        let end = text.rfind('}').map_or(0, |end| end + 1);
        let (path, values) = match text[end..].find("==") {
            Some(at) => (&text[..end + at], Some(&text[end + at + 2..])),
            None => (text, None),
        };
        let path = JsonPath::parse_relaxed(path.trim())?;
        let values = values.map(|values| values.split('|').map(|value| value.trim().to_owned()).collect());
        Ok(FieldCondition { text: text.to_owned(), path, values: values.unwrap_or_default() })
    }

    pub fn is_met(&self, object: &Value) -> bool {
        let Ok(found) = self.path.find_values(object) else { return false };
        found.iter().flatten().any(|value| {
            let value: &Value = value;
            match scalar_text(value) {
                Some(text) if !self.values.is_empty() => self.values.contains(&text),
                Some(text) => !matches!(text.as_str(), "" | "false" | "False"),
                None => self.values.is_empty() && !crate::wait::is_empty(value),
            }
        })
    }
}

pub(crate) fn scalar_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(truth) => Some(truth.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Returns true if an object of this kind is ready as soon as it exists: nothing in it changes by itself.
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

fn number_at(value: &Value, path: &str) -> i64 {
    value.pointer(path).and_then(Value::as_i64).unwrap_or(0)
}

/// Returns the text at a JSON pointer, or an empty text.
pub(super) fn text_at<'v>(value: &'v Value, path: &str) -> &'v str {
    value.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

/// The condition of a type, if the object has one.
pub(crate) fn find_condition<'v>(object: &'v Value, kind: &str) -> Option<&'v Value> {
    object.pointer("/status/conditions")?.as_array()?.iter().find(|condition| condition["type"] == kind)
}

fn has_condition(object: &Value, kind: &str, status: &str) -> bool {
    find_condition(object, kind).is_some_and(|condition| condition["status"] == status)
}

/// `reason: message` of a condition.
pub(crate) fn condition_text(condition: &Value) -> String {
    match (text_at(condition, "/reason"), text_at(condition, "/message")) {
        ("", message) => message.to_owned(),
        (reason, "") => reason.to_owned(),
        (reason, message) => format!("{reason}: {message}"),
    }
}

/// Returns true if the controller has seen the newest state of the object.
fn is_observed(object: &Value) -> bool {
    number_at(object, "/status/observedGeneration") >= number_at(object, "/metadata/generation")
}

/// Returns the replicas of a workload: those its controller last saw ready, and those wanted.
pub(crate) fn replica_counts(object: &Value) -> Option<ReplicaCounts> {
    let gvk = object::gvk(object);
    let (ready, desired) = match (gvk.group.as_str(), gvk.kind.as_str()) {
        ("apps" | "extensions", "DaemonSet") => {
            ("/status/numberReady", number_at(object, "/status/desiredNumberScheduled"))
        }
        ("apps" | "extensions", "Deployment" | "StatefulSet" | "ReplicaSet")
        | ("", "ReplicationController") => {
            ("/status/readyReplicas", object.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(1))
        }
        _ => return None,
    };
    let ready = u64::try_from(number_at(object, ready)).ok()?;
    Some(ReplicaCounts { ready, desired: u64::try_from(desired).ok()? })
}

/// Returns the readiness of an object.
pub fn readiness_of(object: &Value, context: &ReadinessContext<'_>) -> Readiness {
    if let Some(rule) = context.failed_when
        && rule.is_met(object)
    {
        return Readiness::Failed(format!("{} is met", rule.text));
    }
    if let Some(rule) = context.ready_when {
        return match rule.is_met(object) {
            true => Readiness::Ready,
            false => Readiness::progressing(format!("{} is not met", rule.text)),
        };
    }
    if let Some(end) = terminal_state(object) {
        return end;
    }
    if object["metadata"]["deletionTimestamp"].is_string() {
        return Readiness::progressing("being deleted");
    }
    let gvk = object::gvk(object);
    match (gvk.group.as_str(), gvk.kind.as_str()) {
        ("apps" | "extensions", "Deployment") => deployment_readiness(object),
        ("apps", "StatefulSet") => stateful_set_readiness(object),
        ("apps" | "extensions", "DaemonSet") => daemon_set_readiness(object),
        ("apps" | "extensions", "ReplicaSet") | ("", "ReplicationController") => {
            replica_set_readiness(object)
        }
        ("batch", "Job") => job_readiness(object, context),
        ("", "Pod") => pod_readiness(object, context),
        ("", "PersistentVolumeClaim") => claim_readiness(object, context),
        ("", "PersistentVolume") => match text_at(object, "/status/phase") {
            "Available" | "Bound" | "Released" => Readiness::Ready,
            "Failed" => Readiness::Failed(text_at(object, "/status/message").to_owned()),
            phase => Readiness::progressing(format!("phase {phase}")),
        },
        ("", "Service") => service_readiness(object),
        ("", "Namespace") => match text_at(object, "/status/phase") {
            "Active" => Readiness::Ready,
            phase => Readiness::progressing(format!("phase {phase}")),
        },
        ("", "Node") => match has_condition(object, "Ready", "True") {
            true => Readiness::Ready,
            false => Readiness::progressing("not ready"),
        },
        ("apiregistration.k8s.io", "APIService") => match find_condition(object, "Available") {
            Some(available) if available["status"] == "True" => Readiness::Ready,
            Some(available) => Readiness::progressing(condition_text(available)),
            None => Readiness::progressing("not available yet"),
        },
        ("apiextensions.k8s.io", "CustomResourceDefinition") => definition_readiness(object),
        ("flagger.app", "Canary") => match text_at(object, "/status/phase") {
            "Initialized" | "Succeeded" => Readiness::Ready,
            "Failed" => Readiness::Failed("the canary failed".into()),
            phase => Readiness::progressing(format!("phase {phase}")),
        },
        (group, kind) if is_ready_at_once(group, kind) => Readiness::Ready,
        _ => generic::generic_readiness(object),
    }
}

/// The end state of an object that runs to completion, if it has ended; it holds after its deletion too.
pub(crate) fn terminal_state(object: &Value) -> Option<Readiness> {
    let gvk = object::gvk(object);
    match (gvk.group.as_str(), gvk.kind.as_str()) {
        ("batch", "Job") => job_end(object),
        ("", "Pod") => pod_end(object),
        _ => None,
    }
}

fn deployment_readiness(object: &Value) -> Readiness {
    // Its controller does nothing about it, so neither Helm nor we wait.
    if object["spec"]["paused"] == true {
        return Readiness::Resting("paused: its pods stay as they are until it is resumed".into());
    }
    if !is_observed(object) {
        return Readiness::progressing("not seen by its controller yet");
    }
    let wanted = object.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(1);
    let count = |field: &str| number_at(object, &format!("/status/{field}"));
    let (updated, all, available) = (count("updatedReplicas"), count("replicas"), count("availableReplicas"));
    if updated == wanted && all == wanted && available == wanted {
        return Readiness::Ready;
    }
    if let Some(why) = missed_deadline(object) {
        return Readiness::Failed(why);
    }
    if let Some(failure) = find_condition(object, "ReplicaFailure")
        && failure["status"] == "True"
    {
        return Readiness::progressing(condition_text(failure));
    }
    Readiness::progressing(match () {
        () if updated < wanted => format!("{updated} of {wanted} replicas updated"),
        () if all > wanted => format!("{} old replicas still there", all - wanted),
        () => format!("{available} of {wanted} replicas available"),
    })
}

/// Returns the reason why the controller of a Deployment gave up on its current spec, if it did.
///
/// The condition of a rollout before stands until the next one makes progress, with the new generation observed: one
/// that is not younger than the spec says nothing about it.
pub fn missed_deadline(deployment: &Value) -> Option<String> {
    let progressing = find_condition(deployment, "Progressing")?;
    let is_current = || {
        let told = progressing["lastUpdateTime"].as_str();
        // Times of this form compare as texts do.
        told.zip(spec_written_at(deployment)).is_none_or(|(told, written)| told > written)
    };
    (progressing["reason"] == "ProgressDeadlineExceeded" && is_current()).then(|| condition_text(progressing))
}

/// The time at which somebody last changed the spec of an object, as its managed fields tell it.
fn spec_written_at(object: &Value) -> Option<&str> {
    let entries = object.pointer("/metadata/managedFields").and_then(Value::as_array);
    entries
        .into_iter()
        .flatten()
        .filter(|entry| entry["subresource"].is_null() && entry["fieldsV1"].get("f:spec").is_some())
        .filter_map(|entry| entry["time"].as_str())
        .max()
}

fn stateful_set_readiness(object: &Value) -> Readiness {
    if number_at(object, "/status/observedGeneration") == 0 || !is_observed(object) {
        return Readiness::progressing("not seen by its controller yet");
    }
    let wanted = object.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(1);
    let (ready, updated) =
        (number_at(object, "/status/readyReplicas"), number_at(object, "/status/updatedReplicas"));
    let (current, update) =
        (text_at(object, "/status/currentRevision"), text_at(object, "/status/updateRevision"));
    let partition = number_at(object, "/spec/updateStrategy/rollingUpdate/partition");
    let is_updated = match text_at(object, "/spec/updateStrategy/type") {
        "OnDelete" => current == update || updated >= wanted,
        _ if partition > 0 => updated >= wanted - partition,
        _ => current == update,
    };
    // It only progresses when its pods are deleted.
    if !is_updated && text_at(object, "/spec/updateStrategy/type") == "OnDelete" {
        let why = format!("{updated} of {wanted} pods updated: the others are when somebody deletes them");
        return Readiness::Resting(why);
    }
    if ready < wanted {
        return Readiness::progressing(format!("{ready} of {wanted} replicas ready"));
    }
    if number_at(object, "/status/replicas") > wanted {
        return Readiness::progressing(format!(
            "{} replicas too many",
            number_at(object, "/status/replicas") - wanted
        ));
    }
    match is_updated {
        true => Readiness::Ready,
        false => Readiness::progressing(format!("{updated} of {} replicas updated", wanted - partition)),
    }
}

fn daemon_set_readiness(object: &Value) -> Readiness {
    if matches!(text_at(object, "/spec/updateStrategy/type"), "OnDelete") {
        return Readiness::Ready;
    }
    if !is_observed(object) {
        return Readiness::progressing("not seen by its controller yet");
    }
    let count = |field: &str| number_at(object, &format!("/status/{field}"));
    let wanted = count("desiredNumberScheduled");
    let (updated, available) = (count("updatedNumberScheduled"), count("numberAvailable"));
    match () {
        () if updated != wanted => Readiness::progressing(format!("{updated} of {wanted} pods updated")),
        () if available != wanted => {
            Readiness::progressing(format!("{available} of {wanted} pods available"))
        }
        () => Readiness::Ready,
    }
}

fn replica_set_readiness(object: &Value) -> Readiness {
    if !is_observed(object) {
        return Readiness::progressing("not seen by its controller yet");
    }
    if let Some(failure) = find_condition(object, "ReplicaFailure")
        && failure["status"] == "True"
    {
        return Readiness::progressing(condition_text(failure));
    }
    let wanted = object.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(1);
    match number_at(object, "/status/availableReplicas") {
        available if available >= wanted => Readiness::Ready,
        available => Readiness::progressing(format!("{available} of {wanted} replicas available")),
    }
}

/// The end state the last condition of a job reports.
fn job_end(object: &Value) -> Option<Readiness> {
    match find_condition(object, "Failed") {
        Some(failed) if failed["status"] == "True" => Some(Readiness::Failed(condition_text(failed))),
        _ => has_condition(object, "Complete", "True").then_some(Readiness::Ready),
    }
}

/// Returns true if a deleted job had succeeded, though its last condition was not seen.
pub(crate) fn had_succeeded(object: &Value) -> bool {
    let wanted = object.pointer("/spec/completions").and_then(Value::as_i64).unwrap_or(1);
    let gvk = object::gvk(object);
    let is_job = gvk.group == "batch" && gvk.kind == "Job";
    is_job
        && (has_condition(object, "SuccessCriteriaMet", "True")
            || number_at(object, "/status/succeeded") >= wanted)
}

fn job_readiness(object: &Value, context: &ReadinessContext<'_>) -> Readiness {
    if object["spec"]["suspend"] == true {
        let why = "suspended: it does not run until it is resumed";
        // A hook exists to be run.
        return if context.is_hook { Readiness::progressing(why) } else { Readiness::Resting(why.into()) };
    }
    let wanted = object.pointer("/spec/completions").and_then(Value::as_i64).unwrap_or(1);
    let failed = match number_at(object, "/status/failed") {
        0 => String::new(),
        failed => format!(", {failed} failed"),
    };
    Readiness::progressing(format!(
        "{} of {wanted} completed{failed}",
        number_at(object, "/status/succeeded")
    ))
}

fn pod_end(object: &Value) -> Option<Readiness> {
    match text_at(object, "/status/phase") {
        "Succeeded" => Some(Readiness::Ready),
        "Failed" => Some(Readiness::Failed(match condition_text(&object["status"]).as_str() {
            "" => "the pod failed".to_owned(),
            told => told.to_owned(),
        })),
        _ => None,
    }
}

fn pod_readiness(object: &Value, context: &ReadinessContext<'_>) -> Readiness {
    let runs_to_an_end =
        context.is_hook || matches!(text_at(object, "/spec/restartPolicy"), "Never" | "OnFailure");
    match text_at(object, "/status/phase") {
        _ if !runs_to_an_end && has_condition(object, "Ready", "True") => Readiness::Ready,
        "" => Readiness::progressing("pending"),
        phase => Readiness::progressing(match find_condition(object, "PodScheduled") {
            Some(scheduled) if scheduled["status"] == "False" => condition_text(scheduled),
            _ => phase.to_lowercase(),
        }),
    }
}

fn claim_readiness(object: &Value, context: &ReadinessContext<'_>) -> Readiness {
    match text_at(object, "/status/phase") {
        "Bound" => Readiness::Ready,
        "Lost" => Readiness::Failed("the volume is lost".into()),
        _ if context.waits_for_consumer => Readiness::Ready,
        _ => Readiness::progressing("not bound yet"),
    }
}

fn service_readiness(object: &Value) -> Readiness {
    if text_at(object, "/spec/type") != "LoadBalancer" || object["spec"]["externalIPs"].is_array() {
        return Readiness::Ready;
    }
    match object.pointer("/status/loadBalancer/ingress").and_then(Value::as_array) {
        Some(ingress) if !ingress.is_empty() => Readiness::Ready,
        _ => Readiness::progressing("no address of the load balancer yet"),
    }
}

fn definition_readiness(object: &Value) -> Readiness {
    match find_condition(object, "NamesAccepted") {
        Some(names) if names["status"] == "False" => return Readiness::Failed(condition_text(names)),
        _ => {}
    }
    match has_condition(object, "Established", "True") {
        true => Readiness::Ready,
        false => Readiness::progressing("not established yet"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(cases: Vec<(Value, &str)>) {
        for (object, expected) in cases {
            let context = ReadinessContext { is_hook: object["hook"] == true, ..ReadinessContext::default() };
            let found = match readiness_of(&object, &context) {
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
        let mut missed = late.clone();
        missed["conditions"][0]["lastUpdateTime"] = "2026-01-01T00:10:00Z".into();
        let written = |manager: &str, time: &str, fields: Value, subresource: Option<&str>| json!({"manager": manager, "time": time, "fieldsV1": fields, "subresource": subresource});
        let rolled_back = |time: &str| {
            let mut object = deployment(two(), missed.clone());
            object["metadata"]["managedFields"] = json!([
                written("helm", time, json!({"f:spec": {}}), None),
                written("annotator", "2026-01-01T00:30:00Z", json!({"f:metadata": {}}), None),
                written("controller", "2026-01-01T00:30:00Z", json!({"f:spec": {}}), Some("status")),
            ]);
            object
        };
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
            (rolled_back("2026-01-01T00:00:00Z"), "failed: ProgressDeadlineExceeded: too slow"),
            (rolled_back("2026-01-01T00:10:00Z"), "wait: 1 of 2 replicas updated"),
            (rolled_back("2026-01-01T00:20:00Z"), "wait: 1 of 2 replicas updated"),
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
    fn replicas_are_counted_as_kubectl_counts_them() {
        for (kind, spec, status, expected) in [
            ("apps/v1/Deployment", json!({"replicas": 3}), json!({"readyReplicas": 1}), Some("1/3")),
            ("apps/v1/Deployment", json!({}), json!({}), Some("0/1")),
            ("apps/v1/StatefulSet", json!({"replicas": 0}), json!({}), Some("0/0")),
            (
                "apps/v1/DaemonSet",
                json!({}),
                json!({"numberReady": 2, "desiredNumberScheduled": 4}),
                Some("2/4"),
            ),
            ("v1/ReplicationController", json!({"replicas": 2}), json!({"readyReplicas": 2}), Some("2/2")),
            ("apps/v1/Deployment", json!({"replicas": -1}), json!({}), None),
            ("batch/v1/Job", json!({"completions": 2}), json!({"succeeded": 1}), None),
        ] {
            let counts = replica_counts(&of(kind, 1, spec, status));
            assert_eq!(counts.map(|counts| counts.to_string()).as_deref(), expected, "{kind}");
        }
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
            let rule = FieldCondition::parse(rule).unwrap();
            assert_eq!(rule.is_met(&object), expected, "{}", rule.text);
            let ready = readiness_of(
                &object,
                &ReadinessContext { ready_when: Some(&rule), ..ReadinessContext::default() },
            );
            assert_eq!(ready == Readiness::Ready, expected);
            let failed = readiness_of(
                &object,
                &ReadinessContext { failed_when: Some(&rule), ..ReadinessContext::default() },
            );
            assert_eq!(matches!(failed, Readiness::Failed(_)), expected);
        }
        assert!(FieldCondition::parse("{.status").is_err());
    }
}
