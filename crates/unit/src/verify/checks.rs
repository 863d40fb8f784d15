//! The checks of a verification, each a pure function of what was found.

use std::collections::BTreeSet;

use serde_json::Value;
use slipway_cluster::Cluster;
use slipway_cluster::track::{Readiness, ReadinessContext, readiness_of};
use slipway_manifest::object;
use slipway_manifest::pods::pod_containers;
use slipway_release::show::ViewOptions;
use slipway_release::{Failure, ReleaseRequest, inspect};

use super::survey::{Survey, SurveyedObject, container_statuses, event_count, uid};
use super::{CheckResult, VerifyRequest, result};
use crate::error::UnitError;
use slipway_manifest::image::ImageReference;

fn name(value: &Value) -> &str {
    object::name(value).unwrap_or_default()
}

/// Every running container has the digest it was sealed with.
pub(super) fn digests(request: &VerifyRequest<'_>, survey: &Survey) -> CheckResult {
    let mut failures = BTreeSet::new();
    let mut checked = 0;
    for pod in &survey.pods {
        let Some(workload) = survey.workload_of(pod) else { continue };
        if is_finished(pod) && workload.at.gvk.kind != "Job" {
            continue;
        }
        for container in pod_containers(&workload.at.gvk, &workload.wanted) {
            let expected = container.image().and_then(|image| image.parse::<ImageReference>().ok());
            let Some(expected) = expected.and_then(|image| image.digest) else { continue };
            checked += 1;
            let status = container_statuses(pod)
                .find(|status| status.get("name").and_then(Value::as_str) == Some(container.name()));
            let running =
                status.and_then(|status| status.get("imageID")).and_then(Value::as_str).unwrap_or_default();
            let found = running.rsplit_once('@').map_or(running, |(_, digest)| digest);
            if found != expected && !is_of_index(request, &expected, found) {
                let found = if found.is_empty() { "nothing yet" } else { found };
                failures.insert(format!(
                    "Pod/{}[{}] runs {found}, not {expected}",
                    name(pod),
                    container.name()
                ));
            }
        }
    }
    result("digests", checked, failures, format!("{checked} containers run what was sealed"))
}

/// Tells that a digest is that of a platform's manifest in a sealed index: runtimes report either.
fn is_of_index(request: &VerifyRequest<'_>, index: &str, found: &str) -> bool {
    let images = request.unit.map(|unit| unit.rows().images.as_slice()).unwrap_or_default();
    let sealed = images.iter().filter(|image| image.digest == index);
    sealed.flat_map(|image| &image.platforms).any(|platform| platform.digest.as_deref() == Some(found))
}

fn is_finished(pod: &Value) -> bool {
    matches!(pod.pointer("/status/phase").and_then(Value::as_str), Some("Succeeded" | "Failed"))
}

/// Every built-in object is ready.
pub(super) fn readiness(survey: &Survey) -> CheckResult {
    let built_in = |object: &&SurveyedObject| !object.is_hook && is_built_in(object);
    check_ready("readiness", survey.objects.iter().filter(built_in))
}

/// Every custom resource says it is well.
pub(super) fn conditions(survey: &Survey) -> CheckResult {
    check_ready("conditions", survey.objects.iter().filter(|object| !object.is_hook && !is_built_in(object)))
}

fn is_built_in(object: &SurveyedObject) -> bool {
    let group = &object.at.gvk.group;
    !group.contains('.') || group.ends_with(".k8s.io")
}

fn check_ready<'s>(check: &'static str, objects: impl Iterator<Item = &'s SurveyedObject>) -> CheckResult {
    let mut failures = BTreeSet::new();
    let mut checked = 0;
    for object in objects {
        checked += 1;
        match &object.live {
            None => drop(failures.insert(format!("{} is not there", object.at))),
            Some(live) => match readiness_of(live, &ReadinessContext::default()) {
                Readiness::Ready | Readiness::Resting(_) => {}
                Readiness::Progressing(why) | Readiness::Failed(why) => {
                    failures.insert(format!("{}: {why}", object.at));
                }
            },
        }
    }
    result(check, checked, failures, format!("{checked} objects are ready"))
}

/// Hooks that are still there and the release's Jobs have succeeded.
pub(super) fn jobs(survey: &Survey) -> CheckResult {
    let mut failures = BTreeSet::new();
    let mut checked = 0;
    for object in survey.objects.iter().filter(|object| matches!(object.at.gvk.kind.as_str(), "Job" | "Pod"))
    {
        // A hook that succeeded is often deleted, and one for another event never ran.
        let Some(live) = object.live.as_ref().filter(|_| object.is_hook || object.at.gvk.kind == "Job")
        else {
            continue;
        };
        checked += 1;
        let context = ReadinessContext { is_hook: true, ..ReadinessContext::default() };
        if let Readiness::Failed(why) | Readiness::Progressing(why) = readiness_of(live, &context) {
            failures.insert(format!("{}: {why}", object.at));
        }
    }
    result("jobs", checked, failures, format!("{checked} jobs succeeded"))
}

/// No container restarted more often than it may, and none is in a crash loop.
pub(super) fn restarts(request: &VerifyRequest<'_>, survey: &Survey) -> CheckResult {
    let mut failures = BTreeSet::new();
    let mut checked = 0;
    for pod in &survey.pods {
        for status in container_statuses(pod) {
            checked += 1;
            let container = status.get("name").and_then(Value::as_str).unwrap_or_default();
            let count = status.get("restartCount").and_then(Value::as_i64).unwrap_or_default();
            let key = (uid(pod).to_owned(), container.to_owned());
            let before = request.baseline.restarts.get(&key).copied().unwrap_or_default();
            let place = format!("Pod/{}[{container}]", name(pod));
            let waiting = status.pointer("/state/waiting/reason").and_then(Value::as_str);
            if let Some(reason @ ("CrashLoopBackOff" | "ImagePullBackOff" | "ErrImagePull")) = waiting {
                failures.insert(format!("{place}: {reason} after {count} restarts"));
            } else if count - before > request.options.restart_budget {
                failures.insert(format!("{place} restarted {} times", count - before));
            }
        }
    }
    result("restarts", checked, failures, format!("{checked} containers stayed up"))
}

/// No warning was raised that was not there before.
pub(super) fn events(request: &VerifyRequest<'_>, survey: &Survey) -> CheckResult {
    let mut failures = BTreeSet::new();
    for event in &survey.warnings {
        let before = request.baseline.events.get(uid(event)).copied().unwrap_or_default();
        // Pods that are gone had their troubles; those of today count.
        let subject = event.pointer("/involvedObject/uid").and_then(Value::as_str).unwrap_or_default();
        let is_pod = event.pointer("/involvedObject/kind").and_then(Value::as_str) == Some("Pod");
        let is_gone = is_pod && !survey.pods.iter().any(|pod| uid(pod) == subject);
        if event_count(event) > before && !is_gone {
            let text = |path: &str| event.pointer(path).and_then(Value::as_str).unwrap_or_default();
            failures.insert(format!(
                "{}/{}: {}: {}",
                text("/involvedObject/kind"),
                text("/involvedObject/name"),
                text("/reason"),
                text("/message")
            ));
        }
    }
    result("events", survey.objects.len(), failures, "no new warnings".to_owned())
}

/// Services that select pods have ready endpoints.
pub(super) fn endpoints(survey: &Survey) -> CheckResult {
    let mut failures = BTreeSet::new();
    let mut checked = 0;
    for service in survey
        .objects
        .iter()
        .filter(|object| object.at.gvk.kind == "Service" && object.at.gvk.group.is_empty())
    {
        let selector = service.wanted.pointer("/spec/selector").and_then(Value::as_object);
        let Some(selector) = selector.filter(|selector| !selector.is_empty()) else { continue };
        let selects =
            |pod: &&Value| selector.iter().all(|(key, value)| object::label(pod, key) == value.as_str());
        // A Service whose workload is scaled to nothing has no endpoints, and that is right.
        if !survey.pods.iter().any(|pod| selects(&pod)) {
            continue;
        }
        checked += 1;
        let of_service = |slice: &&Value| {
            object::label(slice, "kubernetes.io/service-name") == Some(service.at.name.as_str())
                && object::namespace(slice) == service.at.namespace.as_deref()
        };
        let ready = survey.slices.iter().filter(of_service).any(|slice| {
            let endpoints = slice.get("endpoints").and_then(Value::as_array);
            endpoints.into_iter().flatten().any(|endpoint| {
                endpoint.pointer("/conditions/ready").and_then(Value::as_bool).unwrap_or(true)
            })
        });
        if !ready {
            failures.insert(format!("{} has no ready endpoint", service.at));
        }
    }
    result("endpoints", checked, failures, format!("{checked} services have endpoints"))
}

/// The cluster is what was applied.
pub(super) async fn drift(cluster: &Cluster, request: &ReleaseRequest) -> Result<CheckResult, UnitError> {
    let found = match inspect::find_drift(cluster, request, None, &ViewOptions::default()).await {
        Ok(found) => found,
        Err(Failure::NotFound(why)) => {
            return Ok(result("drift", 1, BTreeSet::from([why]), String::new()));
        }
        Err(failure) => return Err(failure.into()),
    };
    let failures = found.iter().map(|change| {
        let fields: Vec<&str> = change.fields.iter().take(3).map(String::as_str).collect();
        format!("{}: {} {}", change.object, change.action, fields.join(", "))
    });
    Ok(result("drift", 1, failures.collect(), "the cluster is what was applied".to_owned()))
}
