//! Pod templates: selectors, mounts and names that must not repeat.

use std::collections::HashSet;

use serde_json::Value as Json;
use slipway_problem::Problems;

use crate::apply::{PathSegment, item_seg};
use crate::build::{BuiltObject, PackageBuild};
use crate::located::key_path;
use crate::report::{coded_error, coded_warning};
use crate::resources::show_id;

/// The pod template of a workload.
pub(crate) fn pod_template(object: &BuiltObject) -> Option<&Json> {
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

/// The path to the pod template of a workload.
fn template_path(object: &BuiltObject) -> &'static [&'static str] {
    match object.id.kind.as_str() {
        "CronJob" => &["spec", "jobTemplate", "spec", "template"],
        "Pod" => &[],
        _ => &["spec", "template"],
    }
}

/// All containers of a pod, with the name of the list they are in.
pub(crate) fn pod_containers(template: &Json) -> impl Iterator<Item = (&'static str, &Json)> {
    ["initContainers", "containers", "ephemeralContainers"].into_iter().flat_map(|list| {
        template["spec"][list].as_array().into_iter().flatten().map(move |container| (list, container))
    })
}

fn str_of<'j>(value: &'j Json, key: &str) -> &'j str {
    value[key].as_str().unwrap_or_default()
}

pub(super) fn check_pods(build: &PackageBuild, problems: &mut Problems) {
    for object in &build.objects {
        if object.id.kind == "Secret" && object.id.group.is_empty() {
            let filled = |field: &str| object.value[field].as_object().is_some_and(|map| !map.is_empty());
            if filled("data") || filled("stringData") {
                let message = format!("{} carries its secret in plain text", show_id(&object.id));
                let problem =
                    coded_warning("KR041", message).hint("refer to a Secret that is made elsewhere");
                let field = if filled("data") { "data" } else { "stringData" };
                problems.push(build.locate_problem(problem, object.resource, &[key_path(&[field])]));
            }
        }
        let Some(template) = pod_template(object) else { continue };
        check_selector(build, object, template, problems);
        check_pod(build, object, template, problems);
    }
}

fn check_selector(build: &PackageBuild, object: &BuiltObject, template: &Json, problems: &mut Problems) {
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
            let paths = [
                key_path(&["spec", "selector", "matchLabels", key]),
                key_path(&["spec", "template", "metadata", "labels", key]),
            ];
            problems.push(build.locate_problem(coded_error("KR029", message), object.resource, &paths));
        }
    }
}

fn check_pod(build: &PackageBuild, object: &BuiltObject, template: &Json, problems: &mut Problems) {
    let id = show_id(&object.id);
    let spec = |more: &[PathSegment]| {
        let mut path = key_path(template_path(object));
        path.push(PathSegment::Key("spec".to_owned()));
        path.extend_from_slice(more);
        [path]
    };
    let mut volumes: HashSet<&str> = HashSet::new();
    for (at, volume) in template["spec"]["volumes"].as_array().into_iter().flatten().enumerate() {
        if !volumes.insert(str_of(volume, "name")) {
            let message = format!("{id}: two volumes are named `{}`", str_of(volume, "name"));
            let path = spec(&[PathSegment::Key("volumes".to_owned()), item_seg(at, volume)]);
            problems.push(build.locate_problem(coded_error("KR034", message), object.resource, &path));
        }
    }
    for claim in object.value["spec"]["volumeClaimTemplates"].as_array().into_iter().flatten() {
        volumes.insert(str_of(&claim["metadata"], "name"));
    }
    let mut names: HashSet<&str> = HashSet::new();
    for (list, container) in pod_containers(template) {
        let name = str_of(container, "name");
        let item = || {
            let items = template["spec"][list].as_array().map(Vec::as_slice).unwrap_or_default();
            let index = items.iter().position(|item| std::ptr::eq(item, container)).unwrap_or_default();
            vec![PathSegment::Key(list.to_owned()), item_seg(index, container)]
        };
        let below = |field: &str, at: usize, element: &Json| {
            let mut path = item();
            path.push(PathSegment::Key(field.to_owned()));
            path.push(item_seg(at, element));
            spec(&path)
        };
        if !names.insert(name) {
            let problem = coded_error("KR034", format!("{id}: two containers are named `{name}`"));
            problems.push(build.locate_problem(problem, object.resource, &spec(&item())));
        }
        for (at, mount) in container["volumeMounts"].as_array().into_iter().flatten().enumerate() {
            let volume = str_of(mount, "name");
            if !volumes.contains(volume) {
                let message =
                    format!("{id}: container `{name}` mounts `{volume}`, which is no volume of the pod");
                let path = below("volumeMounts", at, mount);
                problems.push(build.locate_problem(coded_error("KR034", message), object.resource, &path));
            }
        }
        let mut seen: HashSet<&str> = HashSet::new();
        for (at, port) in container["ports"].as_array().into_iter().flatten().enumerate() {
            let port_name = str_of(port, "name");
            if !port_name.is_empty() && !seen.insert(port_name) {
                let message = format!("{id}: container `{name}` has two ports named `{port_name}`");
                let path = below("ports", at, port);
                problems.push(build.locate_problem(coded_error("KR034", message), object.resource, &path));
            }
        }
        let mut seen: HashSet<&str> = HashSet::new();
        for (at, element) in container["env"].as_array().into_iter().flatten().enumerate() {
            let variable = str_of(element, "name");
            if !seen.insert(variable) {
                let message =
                    format!("{id}: container `{name}` sets `{variable}` twice; the last one counts");
                let path = below("env", at, element);
                problems.push(build.locate_problem(coded_warning("KR034", message), object.resource, &path));
            }
        }
    }
}
