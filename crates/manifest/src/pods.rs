//! Pod templates of workloads, and the containers in them.

use serde_json::Value;

use crate::object::Gvk;

/// The lists of a pod's spec that hold containers, in the order they start in.
pub const CONTAINER_LISTS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// Returns the fields that lead from an object to its pod template: none for a Pod itself.
pub fn template_path(gvk: &Gvk) -> Option<&'static [&'static str]> {
    match (gvk.group.as_str(), gvk.kind.as_str()) {
        ("", "Pod") => Some(&[]),
        ("", "PodTemplate") => Some(&["template"]),
        ("apps", "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet")
        | ("", "ReplicationController")
        | ("batch", "Job") => Some(&["spec", "template"]),
        ("batch", "CronJob") => Some(&["spec", "jobTemplate", "spec", "template"]),
        _ => None,
    }
}

/// Returns the pod template of a built-in workload; a Pod is its own.
pub fn pod_template<'a>(gvk: &Gvk, object: &'a Value) -> Option<&'a Value> {
    template_path(gvk)?.iter().try_fold(object, |value, field| value.get(field))
}

/// A container of an object's pods.
#[derive(Clone, Debug)]
pub struct PodContainer<'a> {
    /// `containers`, `initContainers` or `ephemeralContainers`.
    pub list: &'static str,
    /// Its place in the object: `spec.template.spec.containers[0]`.
    pub path: String,
    pub value: &'a Value,
}

impl<'a> PodContainer<'a> {
    /// The container's name; empty where it has none.
    pub fn name(&self) -> &'a str {
        self.value.get("name").and_then(Value::as_str).unwrap_or_default()
    }

    /// The image as written.
    pub fn image(&self) -> Option<&'a str> {
        self.value.get("image").and_then(Value::as_str)
    }
}

/// Returns every container of a workload's pods; a custom resource counts when it has a pod template at
/// `spec.template`, as most that run pods do.
pub fn pod_containers<'a>(gvk: &Gvk, object: &'a Value) -> Vec<PodContainer<'a>> {
    const CUSTOM: &[&str] = &["spec", "template"];
    let path = template_path(gvk).unwrap_or(CUSTOM);
    let template = path.iter().try_fold(object, |value, field| value.get(field));
    let Some(spec) = template.and_then(|template| template.get("spec")) else { return Vec::new() };
    let place: String = path.iter().flat_map(|field| [*field, "."]).collect();
    let mut found = Vec::new();
    for list in CONTAINER_LISTS {
        for (index, value) in spec.get(list).and_then(Value::as_array).into_iter().flatten().enumerate() {
            found.push(PodContainer { list, path: format!("{place}spec.{list}[{index}]"), value });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::object;

    #[test]
    fn containers_of_every_workload_are_found_with_their_place() {
        let spec = json!({"containers": [{"name": "app", "image": "a"}], "initContainers": [{"image": "b"}]});
        let template = json!({"spec": spec});
        for (object, place) in [
            (json!({"apiVersion": "v1", "kind": "Pod", "spec": spec}), "spec"),
            (json!({"apiVersion": "v1", "kind": "PodTemplate", "template": template}), "template.spec"),
            (
                json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"template": template}}),
                "spec.template.spec",
            ),
            (
                json!({"apiVersion": "batch/v1", "kind": "CronJob",
                    "spec": {"jobTemplate": {"spec": {"template": template}}}}),
                "spec.jobTemplate.spec.template.spec",
            ),
            (
                json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "spec": {"template": template}}),
                "spec.template.spec",
            ),
        ] {
            let found = pod_containers(&object::gvk(&object), &object);
            let found: Vec<(String, &str, Option<&str>)> = found
                .iter()
                .map(|container| (container.path.clone(), container.name(), container.image()))
                .collect();
            assert_eq!(
                found,
                [
                    (format!("{place}.initContainers[0]"), "", Some("b")),
                    (format!("{place}.containers[0]"), "app", Some("a")),
                ],
                "{object}"
            );
        }
        let other = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {}});
        assert!(pod_containers(&object::gvk(&other), &other).is_empty());
    }
}
