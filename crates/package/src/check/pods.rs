//! Pod templates: selectors, mounts and names that must not repeat.

use std::collections::HashSet;

use serde_json::Value as Json;
use slipway_problem::Problems;

use crate::build::{Build, BuiltObject};
use crate::report::{error, warning};
use crate::resources::show_id;

/// The pod template of a workload.
pub(crate) fn template(object: &BuiltObject) -> Option<&Json> {
    let spec = object.value.get("spec")?;
    match object.id.kind.as_str() {
        "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet" | "ReplicationController" | "Job" => {
            spec.get("template")
        }
        "CronJob" => spec.get("jobTemplate")?.get("spec")?.get("template"),
        "Pod" => Some(&object.value),
        _ => None,
    }
}

/// All containers of a pod, with the name of the list they are in.
pub(crate) fn containers(template: &Json) -> impl Iterator<Item = (&'static str, &Json)> {
    ["initContainers", "containers", "ephemeralContainers"].into_iter().flat_map(|list| {
        template["spec"][list].as_array().into_iter().flatten().map(move |container| (list, container))
    })
}

fn str_of<'j>(value: &'j Json, key: &str) -> &'j str {
    value[key].as_str().unwrap_or_default()
}

pub(super) fn check(build: &Build, problems: &mut Problems) {
    for object in &build.objects {
        if object.id.kind == "Secret" && object.id.group.is_empty() {
            let filled = |field: &str| object.value[field].as_object().is_some_and(|map| !map.is_empty());
            if filled("data") || filled("stringData") {
                let message = format!("{} carries its secret in plain text", show_id(&object.id));
                problems.push(
                    warning("KR041", message)
                        .at(object.at.clone())
                        .hint("refer to a Secret that is made elsewhere"),
                );
            }
        }
        let Some(template) = template(object) else { continue };
        selector(object, template, problems);
        pod(object, template, problems);
    }
}

fn selector(object: &BuiltObject, template: &Json, problems: &mut Problems) {
    if !matches!(object.id.kind.as_str(), "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet") {
        return;
    }
    let labels = &template["metadata"]["labels"];
    let wanted = object.value["spec"]["selector"]["matchLabels"].as_object();
    for (key, value) in wanted.into_iter().flatten() {
        if labels.get(key) != Some(value) {
            let found = labels.get(key).map_or("nothing".to_owned(), Json::to_string);
            let message = format!(
                "{}: the selector wants {key}={value}, the pod template has {found}",
                show_id(&object.id)
            );
            problems.push(error("KR029", message).at(object.at.clone()));
        }
    }
}

fn pod(object: &BuiltObject, template: &Json, problems: &mut Problems) {
    let id = show_id(&object.id);
    let mut volumes: HashSet<&str> = HashSet::new();
    for volume in template["spec"]["volumes"].as_array().into_iter().flatten() {
        if !volumes.insert(str_of(volume, "name")) {
            let message = format!("{id}: two volumes are named `{}`", str_of(volume, "name"));
            problems.push(error("KR034", message).at(object.at.clone()));
        }
    }
    for claim in object.value["spec"]["volumeClaimTemplates"].as_array().into_iter().flatten() {
        volumes.insert(str_of(&claim["metadata"], "name"));
    }
    let mut names: HashSet<&str> = HashSet::new();
    for (_, container) in containers(template) {
        let name = str_of(container, "name");
        if !names.insert(name) {
            problems.push(
                error("KR034", format!("{id}: two containers are named `{name}`")).at(object.at.clone()),
            );
        }
        for mount in container["volumeMounts"].as_array().into_iter().flatten() {
            let volume = str_of(mount, "name");
            if !volumes.contains(volume) {
                let message =
                    format!("{id}: container `{name}` mounts `{volume}`, which is no volume of the pod");
                problems.push(error("KR034", message).at(object.at.clone()));
            }
        }
        let mut seen: HashSet<&str> = HashSet::new();
        for port in container["ports"].as_array().into_iter().flatten() {
            let port_name = str_of(port, "name");
            if !port_name.is_empty() && !seen.insert(port_name) {
                let message = format!("{id}: container `{name}` has two ports named `{port_name}`");
                problems.push(error("KR034", message).at(object.at.clone()));
            }
        }
        let mut seen: HashSet<&str> = HashSet::new();
        for variable in container["env"].as_array().into_iter().flatten() {
            let variable = str_of(variable, "name");
            if !seen.insert(variable) {
                let message =
                    format!("{id}: container `{name}` sets `{variable}` twice; the last one counts");
                problems.push(warning("KR034", message).at(object.at.clone()));
            }
        }
    }
}
