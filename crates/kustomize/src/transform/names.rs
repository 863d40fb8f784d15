//! `namePrefix` and `nameSuffix`.

use serde_json::Value;
use slipway_problem::{Location, Problems};

use crate::fieldspec::{FieldSpec, LeafKind};
use crate::resource::{Resource, scalar_text};
use crate::transform::report_path;

/// The end of a name that grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameEnd {
    Prefix,
    Suffix,
}

/// Kinds whose names are not free: renaming them breaks what they stand for.
fn is_exempt(resource: &Resource) -> bool {
    match resource.kind() {
        "CustomResourceDefinition" | "Namespace" => true,
        "APIService" => resource.gvk().group == "apiregistration.k8s.io",
        _ => false,
    }
}

pub(crate) fn extend_names(
    resources: &mut [Resource],
    text: &str,
    end: NameEnd,
    fields: &[FieldSpec],
    at: &Location,
    problems: &mut Problems,
) {
    if text.is_empty() {
        return;
    }
    for resource in resources {
        if is_exempt(resource) {
            continue;
        }
        let gvk = resource.gvk();
        for field in fields.iter().filter(|field| field.applies_to(&gvk)) {
            if field.is_name() {
                match end {
                    NameEnd::Prefix => resource.prefixes.push(text.to_owned()),
                    NameEnd::Suffix => resource.suffixes.push(text.to_owned()),
                }
                resource.remember_name();
            }
            let set = &mut |value: &mut Value| {
                if let Some(name) = scalar_text(value) {
                    *value = Value::String(match end {
                        NameEnd::Prefix => format!("{text}{name}"),
                        NameEnd::Suffix => format!("{name}{text}"),
                    });
                }
            };
            if let Err(error) = field.visit_values(resource, LeafKind::Scalar, set) {
                report_path(problems, resource, at, &error);
            }
        }
    }
}
