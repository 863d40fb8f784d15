//! The live state of a release: its objects, everything they own, and what is said about them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value;
use slipway_cluster::track::has_stale_status;
use slipway_cluster::{Cluster, ListOptions};
use slipway_manifest::{Gvk, ObjectRef, object};
use slipway_release::ReleaseRequest;
use slipway_source::{RecordPart, RenderedSource};

use crate::error::UnitError;

/// The time controllers have to see what was written last: a status from before says nothing about it.
const SETTLE_LIMIT: Duration = Duration::from_secs(15);
const SETTLE_INTERVAL: Duration = Duration::from_millis(250);

/// Reasons of warnings about Services that the API server raises while it repairs its own tables; nothing is left to do.
const REPAIRED_REASONS: [&str; 2] = ["ClusterIPNotAllocated", "PortNotAllocated"];

/// The kinds between a workload and its pods.
const OWNED: [(&str, &str); 3] = [("apps", "ReplicaSet"), ("batch", "Job"), ("", "Pod")];

/// An object of the release with its live state.
#[derive(Clone, Debug)]
pub(super) struct SurveyedObject {
    pub(super) at: ObjectRef,
    pub(super) wanted: Value,
    pub(super) live: Option<Value>,
    pub(super) is_hook: bool,
}

/// The live state of a release.
#[derive(Clone, Debug, Default)]
pub(super) struct Survey {
    pub(super) objects: Vec<SurveyedObject>,
    /// Pods the release's workloads own, directly or not.
    pub(super) pods: Vec<Value>,
    /// ReplicaSets and Jobs its workloads own.
    pub(super) middle: Vec<Value>,
    /// Warnings about the objects and what they own.
    pub(super) warnings: Vec<Value>,
    pub(super) slices: Vec<Value>,
}

pub(super) fn uid(value: &Value) -> &str {
    value.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or_default()
}

pub(super) fn event_count(event: &Value) -> i64 {
    let series = event.pointer("/series/count").and_then(Value::as_i64);
    event.get("count").and_then(Value::as_i64).or(series).unwrap_or(1)
}

fn owners(value: &Value) -> impl Iterator<Item = &str> {
    let references = value.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    references.into_iter().flatten().filter_map(|owner| owner.get("uid").and_then(Value::as_str))
}

impl Survey {
    /// Takes a survey whose statuses are those of the last changes, if controllers see them within a while.
    pub(super) async fn take_settled(
        cluster: &Cluster,
        request: &ReleaseRequest,
        rendered: &RenderedSource,
    ) -> Result<Self, UnitError> {
        let until = tokio::time::Instant::now() + SETTLE_LIMIT;
        loop {
            let survey = Self::take(cluster, request, rendered).await?;
            if survey.is_settled() || tokio::time::Instant::now() >= until {
                return Ok(survey);
            }
            tokio::time::sleep(SETTLE_INTERVAL).await;
        }
    }

    fn is_settled(&self) -> bool {
        self.objects.iter().filter_map(|object| object.live.as_ref()).all(|live| !has_stale_status(live))
    }

    pub(super) async fn take(
        cluster: &Cluster,
        request: &ReleaseRequest,
        rendered: &RenderedSource,
    ) -> Result<Self, UnitError> {
        let kinds = cluster.served_kinds().await?;
        let mut survey = Self::default();
        for document in rendered.documents.iter().filter(|document| document.stored != RecordPart::Aside) {
            let Some(kind) = kinds.by_gvk(&object::gvk(&document.object)) else { continue };
            survey.objects.push(SurveyedObject {
                at: kind.object_ref(&document.object, &request.namespace),
                wanted: document.object.clone(),
                live: None,
                is_hook: document.stored == RecordPart::Hook,
            });
        }
        let places: Vec<ObjectRef> = survey.objects.iter().map(|object| object.at.clone()).collect();
        for (object, live) in survey.objects.iter_mut().zip(cluster.get_many(&places).await) {
            object.live = live?;
        }
        let mut namespaces: BTreeSet<String> =
            survey.objects.iter().filter_map(|object| object.at.namespace.clone()).collect();
        namespaces.insert(request.namespace.to_string());
        let mut known: BTreeSet<String> = survey
            .objects
            .iter()
            .filter_map(|object| object.live.as_ref())
            .map(|live| uid(live).to_owned())
            .collect();
        for namespace in &namespaces {
            for (group, kind) in OWNED {
                for item in list(cluster, group, kind, namespace).await? {
                    if !owners(&item).any(|owner| known.contains(owner)) {
                        continue;
                    }
                    known.insert(uid(&item).to_owned());
                    // A pod on its way out is no part of the release any more.
                    if kind == "Pod" && item.pointer("/metadata/deletionTimestamp").is_some() {
                        continue;
                    }
                    let place = if kind == "Pod" { &mut survey.pods } else { &mut survey.middle };
                    place.push(item);
                }
            }
            let events = list(cluster, "", "Event", namespace).await?;
            survey.warnings.extend(events.into_iter().filter(|event| is_warning_about(&known, event)));
            survey.slices.extend(list(cluster, "discovery.k8s.io", "EndpointSlice", namespace).await?);
        }
        // Pods of the release itself own themselves.
        let own = survey.objects.iter().filter(|object| object.at.gvk.kind == "Pod" && !object.is_hook);
        let own: Vec<Value> = own.filter_map(|object| object.live.clone()).collect();
        survey.pods.extend(own);
        Ok(survey)
    }

    /// The restarts of every container.
    pub(super) fn restarts(&self) -> BTreeMap<(String, String), i64> {
        let mut all = BTreeMap::new();
        for pod in &self.pods {
            for status in container_statuses(pod) {
                let name = status.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
                let count = status.get("restartCount").and_then(Value::as_i64).unwrap_or_default();
                all.insert((uid(pod).to_owned(), name), count);
            }
        }
        all
    }

    /// The object of the release a pod belongs to.
    pub(super) fn workload_of(&self, pod: &Value) -> Option<&SurveyedObject> {
        let by_uid = |wanted: &str| {
            self.objects.iter().find(|object| object.live.as_ref().is_some_and(|live| uid(live) == wanted))
        };
        let direct = owners(pod).find_map(by_uid).or_else(|| by_uid(uid(pod)));
        // By way of a ReplicaSet, or of a CronJob's Job.
        direct.or_else(|| {
            let middle = self.middle.iter().filter(|item| owners(pod).any(|owner| owner == uid(item)));
            middle.flat_map(owners).find_map(by_uid)
        })
    }
}

/// Tells warnings about objects with these uids. An object that was deleted and created again has its name and another uid, and
/// events of the old one stay for an hour.
fn is_warning_about(uids: &BTreeSet<String>, event: &Value) -> bool {
    let text = |path: &str| event.pointer(path).and_then(Value::as_str).unwrap_or_default();
    text("/type") == "Warning"
        && uids.contains(text("/involvedObject/uid"))
        && !REPAIRED_REASONS.contains(&text("/reason"))
}

/// The statuses of all containers of a pod.
pub(super) fn container_statuses(pod: &Value) -> impl Iterator<Item = &Value> {
    ["containerStatuses", "initContainerStatuses"]
        .into_iter()
        .filter_map(move |list| pod.pointer("/status")?.get(list)?.as_array())
        .flatten()
}

async fn list(cluster: &Cluster, group: &str, kind: &str, namespace: &str) -> Result<Vec<Value>, UnitError> {
    let found = cluster.find_kind(&Gvk::new(group, "v1", kind)).await?;
    let Some(served) = found else { return Ok(Vec::new()) };
    Ok(cluster.list(&served, Some(namespace), &ListOptions::default()).await?.items)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn warnings_are_those_about_the_objects_there_are() {
        let uids = BTreeSet::from(["service".to_owned(), "pod".to_owned()]);
        for (kind, reason, uid, counts) in [
            ("Warning", "BackOff", "pod", true),
            ("Warning", "SyncLoadBalancerFailed", "service", true),
            ("Warning", "ClusterIPNotAllocated", "service", false),
            ("Warning", "BackOff", "pod before", false),
            ("Normal", "Pulled", "pod", false),
        ] {
            let about = json!({"kind": "Pod", "name": "web", "uid": uid});
            let event = json!({"type": kind, "reason": reason, "involvedObject": about});
            assert_eq!(is_warning_about(&uids, &event), counts, "{event}");
        }
        assert!(!is_warning_about(&uids, &json!({"type": "Warning", "reason": "Odd"})));
    }

    #[test]
    fn a_status_from_before_the_last_change_is_not_settled() {
        let object = |live: Value| SurveyedObject {
            at: ObjectRef::new(Gvk::new("apps", "v1", "Deployment"), None, "web"),
            wanted: json!({}),
            live: Some(live),
            is_hook: false,
        };
        for (seen, is_settled) in [
            (json!({"observedGeneration": 2}), true),
            (json!({"observedGeneration": 1}), false),
            (json!({}), true),
        ] {
            let live = json!({"metadata": {"generation": 2}, "status": seen});
            let survey = Survey { objects: vec![object(json!({})), object(live)], ..Survey::default() };
            assert_eq!(survey.is_settled(), is_settled, "{seen}");
        }
    }
}
