//! Labels and annotations added to many objects at once.

use serde_json::{Map, Value};
use slipway_problem::{Location, Problem, Problems};

use crate::fieldspec::{FieldSpec, LeafKind};
use crate::resource::{ObjectStep, Resource, object_at};
use crate::transform::report_path;

/// Sets `pairs` in every mapping the fields lead to.
pub(crate) fn add_metadata<'f>(
    resources: &mut [Resource],
    pairs: &[(String, String)],
    fields: impl Iterator<Item = &'f FieldSpec> + Clone,
    at: &Location,
    problems: &mut Problems,
) {
    if pairs.is_empty() {
        return;
    }
    for resource in resources {
        let gvk = resource.gvk();
        let mut fresh: Vec<Vec<Vec<ObjectStep>>> = vec![Vec::new(); pairs.len()];
        for field in fields.clone().filter(|field| field.applies_to(&gvk)) {
            if field.path == ["metadata", "annotations"] && resource.has_notes() {
                object_at(resource.metadata_mut(), "annotations");
            }
            let mut wrong = false;
            let mut had: Vec<Vec<bool>> = Vec::new();
            let set = &mut |value: &mut Value| {
                if value.is_null() {
                    *value = Value::Object(Map::new());
                }
                match value {
                    Value::Object(map) => {
                        let put = |(key, text): &(String, String)| {
                            map.insert(key.clone(), Value::String(text.clone())).is_some()
                        };
                        had.push(pairs.iter().map(put).collect());
                    }
                    _ => wrong = true,
                }
            };
            if let Err(error) = field.visit_values(resource, LeafKind::Mapping, set) {
                report_path(problems, resource, at, &error);
            }
            if !wrong {
                for (place, had) in field.find_places(resource).into_iter().zip(had) {
                    for (at, ((key, text), had)) in pairs.iter().zip(had).enumerate() {
                        let mut path = place.clone();
                        path.push(ObjectStep::Field(key.clone()));
                        if had {
                            resource.write_shared(&path, &Value::String(text.clone()));
                        } else {
                            fresh[at].push(path);
                        }
                    }
                }
            } else {
                problems.push(
                    Problem::error(format!(
                        "`{}`: `{}` should be a mapping",
                        resource.current_id(),
                        field.path.join(".")
                    ))
                    .at(resource.at.clone())
                    .hint(format!("needed by {at}")),
                );
            }
        }
        resource.shared.extend(fresh.into_iter().filter(|places| places.len() > 1));
    }
}
