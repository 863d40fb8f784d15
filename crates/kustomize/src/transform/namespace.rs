//! `namespace`: moves every object that can be moved.

use std::collections::HashMap;

use serde_json::Value;
use slipway_problem::{Location, Problem, Problems};

use crate::fieldspec::{FieldSpec, Leaf};
use crate::resource::Resource;
use crate::transform::report_path;

pub(crate) fn apply(
    resources: &mut [Resource],
    namespace: &str,
    fields: &[FieldSpec],
    at: &Location,
    problems: &mut Problems,
) {
    for resource in resources.iter_mut() {
        resource.remember();
        let gvk = resource.gvk();
        if gvk.kind == "Namespace" && gvk.group.is_empty() {
            resource.set_name(namespace);
        } else if !gvk.is_cluster_scoped() {
            resource.set_namespace(namespace);
        }
        if matches!(gvk.kind.as_str(), "RoleBinding" | "ClusterRoleBinding") {
            move_default_subjects(resource, namespace);
        }
        for field in fields.iter().filter(|field| field.applies_to(&gvk)) {
            let set = &mut |value: &mut Value| *value = Value::String(namespace.to_owned());
            if let Err(error) = field.each(resource, Leaf::Scalar, set) {
                report_path(problems, resource, at, &error);
            }
        }
    }
    report_collisions(resources, namespace, at, problems);
}

/// The account called `default` exists in every namespace, so bindings to it follow at once; other
/// accounts follow through their names, if they are part of the build.
fn move_default_subjects(resource: &mut Resource, namespace: &str) {
    let Some(Value::Array(subjects)) = resource.value.get_mut("subjects") else { return };
    for subject in subjects {
        if let Value::Object(subject) = subject
            && subject.get("name").and_then(Value::as_str) == Some("default")
        {
            subject.insert("namespace".to_owned(), Value::String(namespace.to_owned()));
        }
    }
}

fn report_collisions(resources: &[Resource], namespace: &str, at: &Location, problems: &mut Problems) {
    let mut seen: HashMap<_, &Resource> = HashMap::with_capacity(resources.len());
    for resource in resources {
        let id = resource.current();
        match seen.entry(id.key()) {
            std::collections::hash_map::Entry::Vacant(place) => {
                place.insert(resource);
            }
            std::collections::hash_map::Entry::Occupied(first) => {
                problems.push(
                    Problem::error(format!(
                        "moving to namespace `{namespace}` makes two objects called `{id}`"
                    ))
                    .at(at.clone())
                    .hint(format!("they are at {} and {}", first.get().at, resource.at)),
                );
            }
        }
    }
}
