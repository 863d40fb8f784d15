//! `namespace`: moves every object that can be moved.

use std::collections::HashMap;

use serde_json::Value;
use slipway_problem::{Location, Problem, Problems};

use crate::fieldspec::{FieldSpec, LeafKind};
use crate::resource::Resource;
use crate::transform::report_path;

/// The namespace objects move to, and the fields that name it.
#[derive(Clone, Debug)]
pub(crate) struct NamespaceChange {
    pub(crate) namespace: String,
    pub(crate) fields: Vec<FieldSpec>,
    pub(crate) overwrite: OverwriteRule,
    pub(crate) subjects: BindingSubjects,
}

/// The fields that get the namespace: all, or those that have none yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OverwriteRule {
    Always,
    OnlyUnset,
}

/// The subjects of a role binding that follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BindingSubjects {
    /// Those called `default`: that account exists in every namespace. Other accounts follow through their
    /// names, if they are part of the build.
    CalledDefault,
    ServiceAccounts,
    None,
}

pub(crate) fn move_resources(
    resources: &mut [Resource],
    change: &NamespaceChange,
    at: &Location,
    problems: &mut Problems,
) {
    for resource in resources.iter_mut() {
        resource.remember_name();
        change.apply_to(resource, at, problems);
    }
    report_collisions(resources, &change.namespace, at, problems);
}

/// Moves an object and what is built into every move; its name before is not remembered.
pub(crate) fn move_plainly(resource: &mut Resource, namespace: &str, at: &Location, problems: &mut Problems) {
    let change = NamespaceChange {
        namespace: namespace.to_owned(),
        fields: Vec::new(),
        overwrite: OverwriteRule::Always,
        subjects: BindingSubjects::CalledDefault,
    };
    change.apply_to(resource, at, problems);
}

fn is_role_binding(kind: &str) -> bool {
    matches!(kind, "RoleBinding" | "ClusterRoleBinding")
}

impl NamespaceChange {
    fn apply_to(&self, resource: &mut Resource, at: &Location, problems: &mut Problems) {
        let gvk = resource.gvk();
        if !gvk.is_cluster_scoped() && self.may_set(resource.namespace()) {
            resource.set_namespace(&self.namespace);
        }
        if is_role_binding(&gvk.kind) {
            self.move_subjects(resource);
        }
        let is_core = gvk.group.is_empty() && gvk.version == "v1";
        for field in self.fields.iter().filter(|field| field.applies_to(&gvk)) {
            // What is built in above has no field of its own, and only Namespaces of the core are renamed.
            let is_subjects = is_role_binding(&field.gvk.kind) && field.path == ["subjects", "namespace"];
            if field.path == ["metadata", "namespace"]
                || (field.is_name() && !is_core)
                || (is_subjects && is_role_binding(&gvk.kind))
            {
                continue;
            }
            let mut wrong = false;
            let set = &mut |value: &mut Value| match value {
                Value::Object(_) | Value::Array(_) => wrong = true,
                Value::String(text) if !self.may_set(text) => {}
                Value::Bool(_) | Value::Number(_) if self.overwrite == OverwriteRule::OnlyUnset => {}
                _ => *value = Value::String(self.namespace.clone()),
            };
            if let Err(error) = field.visit_values(resource, LeafKind::Scalar, set) {
                report_path(problems, resource, at, &error);
            }
            if wrong {
                problems.push(
                    Problem::error(format!(
                        "`{}`: `{}` should be a plain value, to hold a namespace",
                        resource.current_id(),
                        field.path.join(".")
                    ))
                    .at(resource.at.clone())
                    .hint(format!("needed by {at}")),
                );
            }
        }
    }

    fn may_set(&self, found: &str) -> bool {
        self.overwrite == OverwriteRule::Always || found.is_empty()
    }

    fn move_subjects(&self, resource: &mut Resource) {
        let Some(Value::Array(subjects)) = resource.value.get_mut("subjects") else { return };
        for subject in subjects {
            let Value::Object(subject) = subject else { continue };
            let says = |field: &str, text: &str| subject.get(field).and_then(Value::as_str) == Some(text);
            let follows = match self.subjects {
                BindingSubjects::CalledDefault => says("name", "default"),
                BindingSubjects::ServiceAccounts => says("kind", "ServiceAccount"),
                BindingSubjects::None => false,
            };
            if follows && self.may_set(subject.get("namespace").and_then(Value::as_str).unwrap_or_default()) {
                subject.insert("namespace".to_owned(), Value::String(self.namespace.clone()));
            }
        }
    }
}

fn report_collisions(resources: &[Resource], namespace: &str, at: &Location, problems: &mut Problems) {
    let mut seen: HashMap<_, &Resource> = HashMap::with_capacity(resources.len());
    for resource in resources {
        let id = resource.current_id();
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
