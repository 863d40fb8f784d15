//! Tells why an object is not as it should be, and what it is called in messages.

use serde_json::Value;
use slipway_cluster::{Cluster, ListOptions};
use slipway_manifest::{Gvk, ObjectRef, object};

use super::StepContext;

impl StepContext<'_> {
    /// Tells why an object is not as it should be.
    pub(super) async fn explain(&self, object: &Value) -> String {
        let mut said = state_of(object);
        let kind = object::kind(object).unwrap_or_default();
        let Some(namespace) = object::namespace(object) else { return said };
        let labels = object["spec"]["selector"]["matchLabels"].as_object();
        if let (Some(labels), true) = (labels, kind != "Pod") {
            let selector: Vec<String> =
                labels.iter().filter_map(|(key, value)| Some(format!("{key}={}", value.as_str()?))).collect();
            for pod in pods(self.cluster(), namespace, &selector.join(",")).await {
                let state = state_of(&pod);
                if !state.is_empty() && pod["status"]["phase"] != "Succeeded" && !is_ready(&pod) {
                    said.push_str(&format!("; {} {state}", describe(&pod)));
                    break;
                }
            }
        }
        let name = object::name(object).unwrap_or_default();
        let of_it = format!("involvedObject.name={name}");
        if let Some(event) = last_warning(self.cluster(), namespace, &of_it, |_| true).await {
            said.push_str(&format!("; {event}"));
        }
        said
    }
}

/// `deployment/web@shop`.
pub(crate) fn describe(object: &Value) -> String {
    shown(&ObjectRef::of(object))
}

pub(crate) fn shown(at: &ObjectRef) -> String {
    let kind = at.gvk.kind.to_lowercase();
    match at.namespace.as_deref().filter(|namespace| !namespace.is_empty()) {
        Some(namespace) => format!("{kind}/{}@{namespace}", at.name),
        None => format!("{kind}/{}", at.name),
    }
}

/// The place of an object without a kind of its own, as far as its manifest says.
pub(crate) async fn pods(cluster: &Cluster, namespace: &str, selector: &str) -> Vec<Value> {
    let Ok(Some(kind)) = cluster.kind(&Gvk::new("", "v1", "Pod")).await else { return Vec::new() };
    let listed = cluster.list(&kind, Some(namespace), &ListOptions::labels(selector)).await;
    listed.map(|listed| listed.items).unwrap_or_default()
}

/// The last warning about an object the selector of fields and the name fit.
pub(crate) async fn last_warning(
    cluster: &Cluster,
    namespace: &str,
    fields: &str,
    is_meant: impl Fn(&str) -> bool,
) -> Option<String> {
    let kind = cluster.kind(&Gvk::new("", "v1", "Event")).await.ok()??;
    let fields = format!("{fields},type=Warning");
    let options = ListOptions { fields, ..ListOptions::default() };
    let listed = cluster.list(&kind, Some(namespace), &options).await.ok()?;
    let meant = listed
        .items
        .into_iter()
        .filter(|event| event["involvedObject"]["name"].as_str().is_some_and(&is_meant));
    let last = meant.max_by_key(|event| {
        let time = event["lastTimestamp"].as_str().or(event["eventTime"].as_str());
        time.or(event["metadata"]["creationTimestamp"].as_str()).unwrap_or_default().to_owned()
    })?;
    let text = |field: &str| last[field].as_str().unwrap_or_default().to_owned();
    Some(format!("{}: {}", text("reason"), text("message")))
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|c| c["type"] == "Ready" && c["status"] == "True")
}

/// Reads an object's own status: why its containers wait, which condition does not hold, what keeps
/// it from going.
pub(crate) fn state_of(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let metadata = &object["metadata"];
    if metadata["deletionTimestamp"].is_string() {
        let finalizers: Vec<String> =
            metadata["finalizers"].as_array().into_iter().flatten().map(text).collect();
        let mut said = format!("being deleted since {}", text(&metadata["deletionTimestamp"]));
        if !finalizers.is_empty() {
            said.push_str(&format!(", held by finalizers {}", finalizers.join(", ")));
        }
        for condition in object["status"]["conditions"].as_array().into_iter().flatten() {
            if condition["type"].as_str().is_some_and(|kind| kind.starts_with("Namespace"))
                && condition["status"] == "True"
            {
                said.push_str(&format!("; {}", text(&condition["message"])));
            }
        }
        return said;
    }
    let statuses = ["initContainerStatuses", "containerStatuses"];
    for status in statuses.iter().flat_map(|list| object["status"][*list].as_array().into_iter().flatten()) {
        let (waiting, ended) = (&status["state"]["waiting"], &status["state"]["terminated"]);
        if waiting.is_object() {
            let message = text(&waiting["message"]);
            let message = if message.is_empty() { String::new() } else { format!(": {message}") };
            return format!("{}{message}", text(&waiting["reason"]));
        }
        if ended.is_object() && ended["exitCode"] != 0 {
            return format!("container {} exited with {}", text(&status["name"]), ended["exitCode"]);
        }
    }
    let conditions = object["status"]["conditions"].as_array();
    for condition in conditions.into_iter().flatten() {
        if condition["status"] != "True" {
            let words = [text(&condition["reason"]), text(&condition["message"])];
            let words: Vec<String> = words.into_iter().filter(|word| !word.is_empty()).collect();
            return format!(
                "{}={} {}",
                text(&condition["type"]),
                text(&condition["status"]),
                words.join(": ")
            )
            .trim_end()
            .to_owned();
        }
    }
    match (object.get("status"), object["status"]["phase"].as_str()) {
        (None, _) => "has no status".to_owned(),
        (_, Some(phase)) => phase.to_owned(),
        _ => String::new(),
    }
}
