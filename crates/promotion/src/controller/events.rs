//! Kubernetes Events: one for each transition of a Pipeline, Bundle, step or gate.
//!
//! They are read off what watches deliver, so that nothing a promotion depends on waits for them. The name of an Event is
//! made of the transition: whoever sees it twice, or beside another controller, writes it once.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use slipway_cluster::{Cluster, ErrorClass, WriteOptions};
use slipway_event::{Clock, Redactor};
use slipway_manifest::{Gvk, ObjectRef};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::topics::{WorkKey, WorkKind};
use super::watch::lock;
use crate::kinds::labels::{self, short_hash};
use crate::kinds::{KindSpec as _, PipelineSpec};

/// The longest message the API takes.
const LONGEST_MESSAGE: usize = 1_024;

/// How long a controller that ends writes the Events it has found.
const LAST_WRITES: Duration = Duration::from_secs(2);

/// The weight of an Event, in the API's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EventType {
    Normal,
    Warning,
}

/// Something that is the case about an object, and was not before.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Transition {
    event_type: EventType,
    reason: String,
    message: String,
    /// Told about the pipeline of a bundle as well.
    concerns_pipeline: Option<String>,
}

/// The transitions an object has behind it, by what makes each of them one.
type Transitions = BTreeMap<String, Transition>;

/// An Event to write.
#[derive(Debug)]
struct NewEvent {
    at: ObjectRef,
    uid: String,
    /// Identifies the transition.
    key: String,
    transition: Transition,
}

/// Finds transitions and hands them on to be written.
pub(super) struct EventLog {
    known: Mutex<HashMap<WorkKey, KnownObject>>,
    sender: mpsc::UnboundedSender<NewEvent>,
    receiver: Mutex<Option<mpsc::UnboundedReceiver<NewEvent>>>,
}

/// What is known of an object.
struct KnownObject {
    uid: String,
    keys: Vec<String>,
}

/// The way an object came to be seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sighting {
    /// Part of a list: what it has behind it may have been told before.
    Listed,
    Changed,
}

impl Default for EventLog {
    fn default() -> Self {
        let (sender, receiver) = mpsc::unbounded_channel();
        Self { known: Mutex::default(), sender, receiver: Mutex::new(Some(receiver)) }
    }
}

impl EventLog {
    /// Compares an object with what was known of it.
    pub(super) fn note(&self, key: &WorkKey, object: &Value, sighting: Sighting) {
        let found = transitions(key.kind, object);
        let uid = text(&object["metadata"], "uid").to_owned();
        let mut known = lock(&self.known);
        let before = known.get(key).filter(|known| known.uid == uid);
        let is_new = |name: &String| match before {
            Some(before) => !before.keys.contains(name),
            None => sighting == Sighting::Changed,
        };
        // A gate closes again and again for the same reason: the opening before tells the times apart.
        let over = match (key.kind, before) {
            (WorkKind::Gate, Some(before)) => before.keys.join(","),
            _ => String::new(),
        };
        let at = ObjectRef::of(object);
        let mut events = Vec::new();
        for (name, transition) in &found {
            if !is_new(name) {
                continue;
            }
            if let Some(pipeline) = &transition.concerns_pipeline {
                let pipeline_key = WorkKey::new(WorkKind::Pipeline, &key.namespace, pipeline);
                if let Some(owner) = known.get(&pipeline_key) {
                    events.push(NewEvent {
                        at: PipelineSpec::at(&key.namespace, pipeline),
                        uid: owner.uid.clone(),
                        key: format!("{uid}/{name}"),
                        transition: Transition {
                            message: format!("{}: {}", key.name, transition.message),
                            ..transition.clone()
                        },
                    });
                }
            }
            let transition = transition.clone();
            events.push(NewEvent {
                at: at.clone(),
                uid: uid.clone(),
                key: format!("{name}{over}"),
                transition,
            });
        }
        known.insert(key.clone(), KnownObject { uid, keys: found.into_keys().collect() });
        drop(known);
        for event in events {
            // Nobody listens once the controller ends.
            let _ = self.sender.send(event);
        }
    }

    pub(super) fn forget(&self, key: &WorkKey) {
        lock(&self.known).remove(key);
    }

    /// Writes Events until it is told to stop; what was found by then is written, for a moment at the most.
    pub(super) async fn write_all(
        &self,
        cluster: &Cluster,
        clock: &Arc<dyn Clock>,
        redactor: &Redactor,
        stop: &CancellationToken,
    ) {
        let Some(mut receiver) = lock(&self.receiver).take() else { return };
        while let Some(event) = tokio::select! {
            () = stop.cancelled() => None,
            event = receiver.recv() => event,
        } {
            write_event(cluster, clock, redactor, event).await;
        }
        let rest = async {
            while let Ok(event) = receiver.try_recv() {
                write_event(cluster, clock, redactor, event).await;
            }
        };
        // A server that does not answer must not keep the process from ending.
        let _ = tokio::time::timeout(LAST_WRITES, rest).await;
    }
}

async fn write_event(cluster: &Cluster, clock: &Arc<dyn Clock>, redactor: &Redactor, event: NewEvent) {
    let NewEvent { at, uid, key, transition } = event;
    let namespace = at.namespace.clone().unwrap_or_else(|| "default".to_owned());
    let name: String = at.name.chars().take(200).collect();
    let name = format!("{name}.{}", short_hash(&format!("{uid}/{key}"), 16));
    let message: String = redactor.redact(&transition.message).chars().take(LONGEST_MESSAGE).collect();
    let now = clock.now().to_string();
    let place = ObjectRef::new(Gvk::new("", "v1", "Event"), Some(&namespace), &name);
    let body = json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": {"name": name, "namespace": namespace},
        "involvedObject": {"apiVersion": at.gvk.api_version(), "kind": at.gvk.kind, "namespace": namespace,
            "name": at.name, "uid": uid},
        "type": match transition.event_type { EventType::Normal => "Normal", EventType::Warning => "Warning" },
        "reason": transition.reason, "message": message, "count": 1,
        "firstTimestamp": now, "lastTimestamp": now,
        "source": {"component": labels::FIELD_MANAGER},
        "reportingComponent": labels::FIELD_MANAGER, "reportingInstance": "",
    });
    match cluster.create(&place, &body, &WriteOptions::for_manager(labels::FIELD_MANAGER)).await {
        Err(error) if error.class == ErrorClass::AlreadyExists => {}
        // An Event more or less: no promotion depends on it.
        Err(error) => tracing::debug!(%at, %error, "an Event was not written"),
        Ok(_) => {}
    }
}

/// Everything an object has behind it that is worth an Event.
fn transitions(kind: WorkKind, object: &Value) -> Transitions {
    let mut found = Transitions::new();
    let status = &object["status"];
    match kind {
        WorkKind::Pipeline => pipeline_transitions(status, &mut found),
        WorkKind::Bundle => bundle_transitions(object, &mut found),
        WorkKind::Step => step_transitions(status, &mut found),
        WorkKind::Gate if object["metadata"]["labels"][labels::INSTANCE] == "true" => {
            gate_transitions(status, &mut found);
        }
        _ => {}
    }
    found
}

fn text<'v>(value: &'v Value, field: &str) -> &'v str {
    value[field].as_str().unwrap_or_default()
}

fn add(
    found: &mut Transitions,
    key: String,
    event_type: EventType,
    reason: &str,
    message: impl Into<String>,
) {
    let transition = Transition {
        event_type,
        reason: reason.to_owned(),
        message: message.into(),
        concerns_pipeline: None,
    };
    found.insert(key, transition);
}

/// Tells of conditions that have this status, each time they came to have it.
fn add_conditions(found: &mut Transitions, status: &Value, wanted: &[(&str, &str)]) {
    for condition in status["conditions"].as_array().into_iter().flatten() {
        let (kind, value) = (text(condition, "type"), text(condition, "status"));
        if wanted.contains(&(kind, value)) {
            let key = format!(
                "{kind}={value}/{}/{}",
                text(condition, "reason"),
                text(condition, "lastTransitionTime")
            );
            let message = match text(condition, "message") {
                "" => kind,
                message => message,
            };
            add(found, key, EventType::Warning, text(condition, "reason"), message);
        }
    }
}

fn pipeline_transitions(status: &Value, found: &mut Transitions) {
    add_conditions(found, status, &[("Ready", "False")]);
    for environment in status["environments"].as_array().into_iter().flatten() {
        if environment["drift"] == true {
            let name = text(environment, "name");
            let details = environment["driftDetails"].as_array().into_iter().flatten();
            let details: Vec<&str> = details.filter_map(Value::as_str).collect();
            let key = format!("drift/{name}/{}", text(environment, "driftSince"));
            add(found, key, EventType::Warning, "DriftFound", format!("{name}: {}", details.join("; ")));
        }
    }
}

fn bundle_transitions(object: &Value, found: &mut Transitions) {
    let status = &object["status"];
    let conditions = || status["conditions"].as_array().into_iter().flatten();
    let ready = conditions().find(|condition| condition["type"] == "Ready").cloned().unwrap_or_default();
    let (reason, message) = (text(&ready, "reason"), text(&ready, "message"));
    let phase = text(status, "phase");
    let (event_type, reason) = match phase {
        "Promoting" => (EventType::Normal, "PromotionStarted"),
        "Verified" => (EventType::Normal, "PromotionSucceeded"),
        "Superseded" => (EventType::Normal, "PromotionSuperseded"),
        "Failed" | "SkipDenied" => (EventType::Warning, reason),
        _ => (EventType::Normal, ""),
    };
    if !reason.is_empty() {
        let invalid = conditions().any(|one| one["type"] == "InvalidSpec" && one["status"] == "True");
        let pipeline = match text(&object["spec"], "pipeline") {
            "" => object["metadata"]["labels"][labels::PIPELINE].as_str().unwrap_or_default(),
            name => name,
        };
        let since = match phase {
            // Admitted once, or again after a refusal.
            "Promoting" => text(status, "admissionHash").to_owned(),
            _ => text(&ready, "lastTransitionTime").to_owned() + text(status, "admissionHash"),
        };
        let transition = Transition {
            event_type,
            reason: reason.to_owned(),
            message: message.to_owned(),
            concerns_pipeline: (invalid && phase == "Failed").then(|| pipeline.to_owned()),
        };
        found.insert(format!("phase/{phase}/{since}"), transition);
    }
    add_conditions(
        found,
        status,
        &[
            ("Degraded", "True"),
            ("RolledBack", "False"),
            ("SnapshotLost", "True"),
            ("GraphResponding", "False"),
        ],
    );
}

fn step_transitions(status: &Value, found: &mut Transitions) {
    let state = text(status, "state");
    let attempt = status["attempt"].as_u64().unwrap_or(0);
    let message = text(status, "message");
    let environment_message =
        |usual: &str| if message.is_empty() { usual.to_owned() } else { message.to_owned() };
    let known = match state {
        "Promoting" => Some((EventType::Normal, "PromotionStarted", "the promotion has begun".to_owned())),
        "WaitingForMerge" => {
            let what = format!("waits for the merge of {}", text(status, "prURL"));
            Some((EventType::Normal, "WaitingForMerge", what))
        }
        "HealthChecking" => Some((EventType::Normal, "HealthChecking", "health is being checked".to_owned())),
        "Verified" => Some((EventType::Normal, "Verified", "the environment runs the version".to_owned())),
        "Cancelled" => Some((EventType::Normal, "Cancelled", environment_message("cancelled"))),
        "Failed" | "AbortedByAlarm" | "RollingBack" => {
            let reason = match text(status, "reason") {
                "" => state,
                reason => reason,
            };
            Some((EventType::Warning, reason, environment_message(state)))
        }
        _ => None,
    };
    if let Some((event_type, reason, message)) = known {
        add(found, format!("state/{state}/{attempt}"), event_type, reason, message);
    }
    add_conditions(
        found,
        status,
        &[
            ("Held", "True"),
            ("PRConflict", "True"),
            ("SCMUnavailable", "True"),
            ("GitUnavailable", "True"),
            ("ClusterUnavailable", "True"),
            ("WebhookUnavailable", "True"),
            ("HealthUnknown", "True"),
        ],
    );
    let adapter = text(&status["health"], "adapter");
    if adapter.ends_with("(fallback)") {
        let message = format!("the environment is checked by {adapter}");
        add(found, format!("fallback/{attempt}"), EventType::Warning, "AdapterFallback", message);
    }
    if status["outputs"]["extraCommits"] == "true" {
        let message = "the pull request was merged with commits of others";
        add(found, format!("extra/{attempt}"), EventType::Warning, "ExtraCommits", message);
    }
}

fn gate_transitions(status: &Value, found: &mut Transitions) {
    let (event_type, reason) = match text(status, "phase") {
        "Pass" => (EventType::Normal, "GatePassed"),
        "Block" => (EventType::Warning, "GateBlocked"),
        "Error" => (EventType::Warning, "GateError"),
        "Overridden" => (EventType::Warning, "OverrideApplied"),
        _ => return,
    };
    let key = format!("{reason}/{}/{}", text(status, "firstBlockedAt"), text(status, "passedAt"));
    add(found, key, event_type, reason, text(status, "reason"));
}
