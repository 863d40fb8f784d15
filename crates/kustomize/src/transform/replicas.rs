//! `replicas`: how many pods a workload runs.

use serde_json::Value;
use slipway_problem::{Location, Problem, Problems};

use crate::fieldspec::{FieldSpec, LeafKind};
use crate::resource::Resource;
use crate::transform::report_path;

pub(crate) fn set_replicas(
    resources: &mut [Resource],
    name: &str,
    count: i64,
    fields: &[FieldSpec],
    at: &Location,
    problems: &mut Problems,
) {
    let mut found = false;
    for resource in resources.iter_mut() {
        let gvk = resource.gvk();
        let named = resource.name() == name || resource.past.iter().any(|past| past.name == name);
        if !named {
            continue;
        }
        for field in fields.iter().filter(|field| field.applies_to(&gvk)) {
            found = true;
            let set = &mut |value: &mut Value| *value = Value::from(count);
            if let Err(error) = field.visit_values(resource, LeafKind::Scalar, set) {
                report_path(problems, resource, at, &error);
            }
        }
    }
    if !found {
        let scalable = |resource: &&Resource| {
            let gvk = resource.gvk();
            fields.iter().any(|field| field.applies_to(&gvk))
        };
        let names: Vec<&str> = resources.iter().filter(scalable).map(Resource::name).collect();
        problems.push(
            Problem::error(format!(
                "no Deployment, StatefulSet, ReplicaSet or ReplicationController is called `{name}`"
            ))
            .at(at.clone())
            .did_you_mean(name, names),
        );
    }
}
