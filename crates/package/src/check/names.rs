//! Names, labels, annotations and the phases they ask for.

use serde_json::Value as Json;
use slipway_go::time::Duration;
use slipway_manifest::names;
use slipway_manifest::object::{annotation, annotations, labels};
use slipway_problem::Problems;

use crate::build::{Build, BuiltObject};
use crate::located::keys;
use crate::report::error;
use crate::resources::show_id;

const MOST_ANNOTATION_BYTES: usize = 256 << 10;
pub(crate) const WAIT: &str = "kurel.gokure.dev/wait-for-ready";
pub(crate) const TIMEOUT: &str = "kurel.gokure.dev/timeout";

/// Kinds whose names may hold more than DNS names do.
const FREE_NAMES: [&str; 4] = ["Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"];

pub(super) fn check(build: &Build, problems: &mut Problems) {
    for object in &build.objects {
        name(build, object, problems);
        let mut complain = |path: &[&str], what: String| {
            let message = format!("{}: {what}", show_id(&object.id));
            problems.push(build.located(error("KR023", message), object.resource, &[keys(path)]));
        };
        if !object.id.namespace.is_empty()
            && let Err(why) = names::check_label_1123(&object.id.namespace)
        {
            complain(
                &["metadata", "namespace"],
                format!("`{}` is no namespace name: {}", object.id.namespace, why.join("; ")),
            );
        }
        for (key, value) in labels(&object.value) {
            if let Err(why) = names::check_label_key(key) {
                complain(
                    &["metadata", "labels", key],
                    format!("`{key}` is no label key: {}", why.join("; ")),
                );
            }
            if let Err(why) = names::check_label_value(value) {
                let what = format!("`{value}` is no value for the label `{key}`: {}", why.join("; "));
                complain(&["metadata", "labels", key], what);
            }
        }
        let mut bytes = 0;
        for (key, value) in annotations(&object.value) {
            bytes += key.len() + value.len();
            if let Err(why) = names::check_label_key(&key.to_ascii_lowercase()) {
                complain(
                    &["metadata", "annotations", key],
                    format!("`{key}` is no annotation key: {}", why.join("; ")),
                );
            }
        }
        if bytes > MOST_ANNOTATION_BYTES {
            complain(
                &["metadata", "annotations"],
                format!("the annotations have {bytes} bytes, more than 256 KiB"),
            );
        }
        for field in ["labels", "annotations"] {
            for (key, value) in object.value["metadata"][field].as_object().into_iter().flatten() {
                if !matches!(value, Json::String(_) | Json::Null) {
                    let message = format!(
                        "{}: metadata.{field}[{key:?}] must be a string, not {}",
                        show_id(&object.id),
                        crate::val::type_name(value)
                    );
                    let problem = error("KS002", message).hint("quote it");
                    problems.push(build.located(
                        problem,
                        object.resource,
                        &[keys(&["metadata", field, key])],
                    ));
                }
            }
        }
        if let Some(wait) = annotation(&object.value, WAIT)
            && wait != "true"
            && wait != "false"
        {
            let message =
                format!("{}: `{WAIT}` must be \"true\" or \"false\", not `{wait}`", show_id(&object.id));
            let path = keys(&["metadata", "annotations", WAIT]);
            problems.push(build.located(error("KR037", message), object.resource, &[path]));
        }
        if let Some(timeout) = annotation(&object.value, TIMEOUT)
            && Duration::parse_unsigned(timeout).is_none()
        {
            let message = format!("{}: `{TIMEOUT}` is no duration: `{timeout}`", show_id(&object.id));
            let problem = error("KR037", message).hint("write 90s, 5m or 1h30m");
            let path = keys(&["metadata", "annotations", TIMEOUT]);
            problems.push(build.located(problem, object.resource, &[path]));
        }
    }
}

fn name(build: &Build, object: &BuiltObject, problems: &mut Problems) {
    let id = &object.id;
    let result = match id.kind.as_str() {
        "Namespace" if id.group.is_empty() => names::check_label_1123(&id.name),
        kind if FREE_NAMES.contains(&kind) => {
            if id.name.contains(['/', '%']) || id.name == "." || id.name == ".." {
                Err(vec!["it must not hold `/` or `%`".to_owned()])
            } else {
                Ok(())
            }
        }
        _ => names::check_subdomain(&id.name),
    };
    if let Err(why) = result {
        let message = format!("`{}` is no name for a {}: {}", id.name, id.kind, why.join("; "));
        let path = keys(&["metadata", "name"]);
        problems.push(build.located(error("KR023", message), object.resource, &[path]));
    }
}
