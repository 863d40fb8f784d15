//! Labels and annotations added to many objects at once.

use serde_json::{Map, Value};
use slipway_problem::{Location, Problem, Problems};

use crate::fieldspec::{FieldSpec, Leaf};
use crate::resource::Resource;
use crate::transform::report_path;

/// Sets `pairs` in every mapping the fields lead to.
pub(crate) fn apply<'f>(
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
        for field in fields.clone().filter(|field| field.applies_to(&gvk)) {
            let mut wrong = false;
            let set = &mut |value: &mut Value| {
                if value.is_null() {
                    *value = Value::Object(Map::new());
                }
                match value {
                    Value::Object(map) => {
                        for (key, text) in pairs {
                            map.insert(key.clone(), Value::String(text.clone()));
                        }
                    }
                    _ => wrong = true,
                }
            };
            if let Err(error) = field.each(resource, Leaf::Mapping, set) {
                report_path(problems, resource, at, &error);
            }
            if wrong {
                problems.push(
                    Problem::error(format!(
                        "`{}`: `{}` should be a mapping",
                        resource.current(),
                        field.path.join(".")
                    ))
                    .at(resource.at.clone())
                    .hint(format!("needed by {at}")),
                );
            }
        }
    }
}
