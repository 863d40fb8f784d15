//! The objects a rollout makes for itself, and what new pods need.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use slipway_journal::digest;
use slipway_manifest::object;
use slipway_manifest::pods::CONTAINER_LISTS;

use super::labels::{BASELINE, CANARY, COLOR, TRACK, mark_owned, set_entry, set_metadata};

/// The longest value of a label, and the longest name of a Service.
const LONGEST_LABEL: usize = 63;

/// The hexadecimal digits of a hash that tell shortened names apart.
const HASH_DIGITS: usize = 8;

/// The name of a canary's object beside one of `name`. A name too long for a Service is shortened and has a hash of the
/// whole instead.
pub(crate) fn canary_name(name: &str) -> String {
    let most = LONGEST_LABEL - CANARY.len() - 1;
    if name.len() <= most {
        return format!("{name}-{CANARY}");
    }
    let hash = digest::bytes(name.as_bytes());
    let hash = hash.strip_prefix("sha256:").unwrap_or(&hash);
    let kept = name.get(..most - HASH_DIGITS - 1).unwrap_or(name);
    // Every part of a name ends with a letter or digit.
    format!("{}-{}-{CANARY}", kept.trim_end_matches(['-', '.']), hash.get(..HASH_DIGITS).unwrap_or(hash))
}

/// A label of a canary's pods where those of the others have `value`; shortened to what a label may have.
fn canary_label(value: &str) -> String {
    let most = LONGEST_LABEL - CANARY.len() - 1;
    format!("{}-{CANARY}", value.get(..most).unwrap_or(value))
}

/// A run and the release it is of, for the labels of its objects.
#[derive(Clone, Copy)]
pub(crate) struct ObjectOwner<'a> {
    pub(crate) run: &'a str,
    pub(crate) release: &'a str,
    pub(crate) namespace: &'a str,
}

impl ObjectOwner<'_> {
    /// An empty object of the rollout.
    pub(crate) fn object(&self, api_version: &str, kind: &str, name: &str) -> Value {
        let mut object = json!({
            "apiVersion": api_version,
            "kind": kind,
            "metadata": {"name": name, "namespace": self.namespace},
        });
        mark_owned(&mut object, self.run, self.release);
        object
    }
}

/// The labels of canary pods, by what splits the traffic.
#[derive(Clone, Copy)]
pub(crate) enum CanaryLabels<'a> {
    /// The Service selects them as it selects the others.
    Shared,
    /// Labels that this selector asks for have another value: only the canary's own Service selects the pods.
    Apart(&'a Map<String, Value>),
}

impl CanaryLabels<'_> {
    /// The labels of canary pods made from those of a template or selector.
    pub(crate) fn of(self, labels: &Value) -> Value {
        let mut made = labels.as_object().cloned().unwrap_or_default();
        if let Self::Apart(selector) = self {
            for (key, value) in &mut made {
                if selector.contains_key(key) {
                    *value = json!(canary_label(value.as_str().unwrap_or_default()));
                }
            }
        }
        made.insert(TRACK.to_owned(), json!(CANARY));
        Value::Object(made)
    }
}

/// The Deployment of the new pods beside the old ones. Its selector has the mark of the canary too, so that no controller
/// counts the pods of the other.
pub(crate) fn canary_deployment(
    rendered: &Value,
    owner: ObjectOwner<'_>,
    labels: CanaryLabels<'_>,
    replicas: u64,
    baseline: &Value,
) -> Value {
    let name = canary_name(object::name(rendered).unwrap_or_default());
    let mut made = owner.object("apps/v1", "Deployment", &name);
    set_metadata(&mut made, "annotations", BASELINE, &baseline.to_string());
    made["spec"] = rendered["spec"].clone();
    made["spec"]["replicas"] = json!(replicas);
    made["spec"]["selector"]["matchLabels"] = labels.of(&rendered["spec"]["selector"]["matchLabels"]);
    made["spec"]["template"]["metadata"]["labels"] =
        labels.of(&rendered["spec"]["template"]["metadata"]["labels"]);
    made
}

/// The Service of the canary's pods alone.
pub(crate) fn canary_service(
    service: &Value,
    owner: ObjectOwner<'_>,
    selector: &Map<String, Value>,
) -> Value {
    let name = canary_name(object::name(service).unwrap_or_default());
    let mut made = owner.object("v1", "Service", &name);
    made["spec"] = service_spec(service);
    made["spec"]["selector"] = CanaryLabels::Apart(selector).of(&Value::Object(selector.clone()));
    made
}

/// The Service that shows the new color.
pub(crate) fn preview_service(
    service: &Value,
    owner: ObjectOwner<'_>,
    name: &str,
    selector: &Map<String, Value>,
) -> Value {
    let mut made = owner.object("v1", "Service", name);
    made["spec"] = service_spec(service);
    made["spec"]["selector"] = Value::Object(selector.clone());
    made
}

/// The ports of a Service for another one inside of the cluster.
fn service_spec(service: &Value) -> Value {
    let mut ports = service["spec"]["ports"].clone();
    for port in ports.as_array_mut().into_iter().flatten() {
        if let Some(port) = port.as_object_mut() {
            port.remove("nodePort");
        }
    }
    json!({"type": "ClusterIP", "ports": ports})
}

pub(crate) fn colored_name(name: &str, color: &str) -> String {
    format!("{name}-{color}")
}

/// A Deployment as one of two colors.
pub(crate) fn colored_deployment(rendered: &Value, color: &str) -> Value {
    let mut made = rendered.clone();
    let name = colored_name(object::name(rendered).unwrap_or_default(), color);
    made["metadata"]["name"] = json!(name);
    set_metadata(&mut made, "labels", COLOR, color);
    set_entry(&mut made["spec"]["selector"]["matchLabels"], COLOR, color);
    set_entry(&mut made["spec"]["template"]["metadata"]["labels"], COLOR, color);
    made
}

/// An object that pods name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NeededObject {
    pub(crate) kind: &'static str,
    pub(crate) name: String,
}

/// Everything pods of a Deployment read: it has to be there before them.
pub(crate) fn needed_objects(deployment: &Value) -> BTreeSet<NeededObject> {
    let mut found = BTreeSet::new();
    let mut add = |kind, name: &Value| {
        if let Some(name) = name.as_str().filter(|name| !name.is_empty()) {
            found.insert(NeededObject { kind, name: name.to_owned() });
        }
    };
    let items = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let spec = &deployment["spec"]["template"]["spec"];
    add("ServiceAccount", &spec["serviceAccountName"]);
    items(&spec["imagePullSecrets"]).iter().for_each(|secret| add("Secret", &secret["name"]));
    for volume in items(&spec["volumes"]) {
        add("ConfigMap", &volume["configMap"]["name"]);
        add("Secret", &volume["secret"]["secretName"]);
        add("PersistentVolumeClaim", &volume["persistentVolumeClaim"]["claimName"]);
        for source in items(&volume["projected"]["sources"]) {
            add("ConfigMap", &source["configMap"]["name"]);
            add("Secret", &source["secret"]["name"]);
        }
    }
    for container in CONTAINER_LISTS.iter().flat_map(|list| items(&spec[*list])) {
        for source in items(&container["envFrom"]) {
            add("ConfigMap", &source["configMapRef"]["name"]);
            add("Secret", &source["secretRef"]["name"]);
        }
        for variable in items(&container["env"]) {
            add("ConfigMap", &variable["valueFrom"]["configMapKeyRef"]["name"]);
            add("Secret", &variable["valueFrom"]["secretKeyRef"]["name"]);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_a_canary_are_no_longer_than_names_of_services_may_be() {
        let at_most = "a".repeat(56);
        assert_eq!(canary_name(&at_most), format!("{at_most}-canary"));
        let (one, other) = (format!("{at_most}-one"), format!("{at_most}-two"));
        for name in [&one, &other] {
            assert_eq!(canary_name(name).len(), 63, "{}", canary_name(name));
        }
        assert_ne!(canary_name(&one), canary_name(&other));
        let cut_at_a_dot = format!("{}.{}", "a".repeat(46), "b".repeat(20));
        assert!(canary_name(&cut_at_a_dot).starts_with(&format!("{}-", "a".repeat(46))));
    }

    #[test]
    fn labels_of_a_canary_are_no_longer_than_labels_may_be() {
        let long = "a".repeat(60);
        let labels = json!({"app": long, "tier": "web"});
        let selector = json!({"app": long}).as_object().cloned().unwrap_or_default();
        let made = CanaryLabels::Apart(&selector).of(&labels);
        assert_eq!(made["app"], format!("{}-canary", "a".repeat(56)));
        assert_eq!((&made["tier"], &made[TRACK]), (&json!("web"), &json!("canary")));
    }
}
