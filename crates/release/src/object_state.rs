//! The objects of a release as they are in the cluster now.

use serde::Serialize;
use serde_json::Value;
use slipway_cluster::helm::Release;
use slipway_cluster::track::{Readiness, ReadinessContext, describe_unready_pods, readiness_of};
use slipway_cluster::{Cluster, ListOptions};
use slipway_manifest::{Gvk, ObjectRef, object};
use slipway_source::RecordPart;

use crate::failure::Failure;
use crate::record;

/// The condition of an object in the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ObjectCondition {
    Ready,
    /// Its controller does nothing about it for now.
    Resting,
    Progressing,
    Failed,
    /// The release has it, the cluster does not.
    Missing,
    /// It could not be read.
    Unknown,
}

impl std::fmt::Display for ObjectCondition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Ready => "ready",
            Self::Resting => "resting",
            Self::Progressing => "progressing",
            Self::Failed => "failed",
            Self::Missing => "missing",
            Self::Unknown => "unknown",
        })
    }
}

/// An object of a release and how it stands.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
#[schemars(rename = "ReleaseObject")]
pub struct ObjectState {
    #[serde(flatten)]
    pub object: ObjectRef,
    pub condition: ObjectCondition,
    /// The reason, where the object is not ready.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The reasons its pods are not ready, a line each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pods: Vec<String>,
    /// The time of its creation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<jiff::Timestamp>,
}

/// Reads how every object of a revision stands, in the order of its manifest. Hooks are not among them.
pub async fn read_object_states(cluster: &Cluster, release: &Release) -> Result<Vec<ObjectState>, Failure> {
    let mut places = Vec::new();
    let documents = record::read_documents(release).0.into_iter();
    for document in documents.filter(|document| document.stored == RecordPart::Regular) {
        let gvk = object::gvk(&document.object);
        places.push(match cluster.find_kind(&gvk).await? {
            Some(kind) => kind.object_ref(&document.object, &release.namespace),
            None => ObjectRef::new(
                gvk,
                Some(release.namespace.as_str()),
                object::name(&document.object).unwrap_or_default(),
            ),
        });
    }
    let found = cluster.get_many(&places).await;
    let states = places.into_iter().zip(found).map(|(object, live)| async move {
        let unseen = |object, condition, reason| ObjectState {
            object,
            condition,
            reason,
            pods: Vec::new(),
            created: None,
        };
        match live {
            Ok(Some(live)) => {
                let mut state = object_state(object, &live);
                if matches!(state.condition, ObjectCondition::Progressing | ObjectCondition::Failed) {
                    state.pods = describe_pods(cluster, &state.object, &live).await;
                }
                state
            }
            Ok(None) => unseen(object, ObjectCondition::Missing, String::new()),
            Err(error) => unseen(object, ObjectCondition::Unknown, error.to_string()),
        }
    });
    // The cluster's own limit says how many requests are under way at once.
    Ok(futures::future::join_all(states).await)
}

/// Says why the pods of a workload are not ready; nothing where they may not be read.
async fn describe_pods(cluster: &Cluster, object: &ObjectRef, live: &Value) -> Vec<String> {
    let labels = live.pointer("/spec/selector/matchLabels").and_then(Value::as_object);
    let wanted: Vec<String> = labels
        .into_iter()
        .flatten()
        .filter_map(|(label, value)| Some(format!("{label}={}", value.as_str()?)))
        .collect();
    let (Some(namespace), false) = (object.namespace.as_deref(), wanted.is_empty()) else {
        return Vec::new();
    };
    let Ok(Some(kind)) = cluster.find_kind(&Gvk::new("", "v1", "Pod")).await else { return Vec::new() };
    let options = ListOptions::with_labels(wanted.join(","));
    match cluster.list(&kind, Some(namespace), &options).await {
        Ok(pods) => describe_unready_pods(&pods.items),
        Err(_) => Vec::new(),
    }
}

fn object_state(object: ObjectRef, live: &Value) -> ObjectState {
    let (condition, reason) = match readiness_of(live, &ReadinessContext::default()) {
        Readiness::Ready => (ObjectCondition::Ready, String::new()),
        Readiness::Resting(why) => (ObjectCondition::Resting, why),
        Readiness::Progressing(why) => (ObjectCondition::Progressing, why),
        Readiness::Failed(why) => (ObjectCondition::Failed, why),
    };
    let created = live["metadata"]["creationTimestamp"].as_str().and_then(|time| time.parse().ok());
    ObjectState { object, condition, reason, pods: Vec::new(), created }
}
