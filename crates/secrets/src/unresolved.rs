//! References left in rendered objects: a chart's defaults are never resolved, so a reference there would be deployed
//! as text.

use serde_json::Value;
use slipway_problem::Problem;

use crate::reference::SCHEME;
use crate::scan::visit;

/// The annotation of objects that are meant to hold references.
pub const ALLOW_REFERENCES: &str = "slipway.dev/allow-secret-refs";

/// Finds texts of a rendered object that still name a secret; none for an object that may hold references.
pub fn find_unresolved(object: &Value) -> Vec<Problem> {
    let annotation = object.pointer("/metadata/annotations").and_then(|all| all.get(ALLOW_REFERENCES));
    if annotation.and_then(Value::as_str) == Some("true") {
        return Vec::new();
    }
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let namespace = text("/metadata/namespace");
    let space = if namespace.is_empty() { "/".to_owned() } else { format!(" {namespace}/") };
    let name = format!("{}{space}{}", text("/kind"), text("/metadata/name"));
    let mut found = Vec::new();
    visit(object, &mut String::new(), &mut |at, text| {
        if text.contains(SCHEME) {
            let problem = Problem::error(format!("unresolved secret reference in {name} at {at}"));
            let hint = format!(
                "references are resolved in values the user gives, not in defaults of charts; `{ALLOW_REFERENCES}: \"true\"` lets an object hold them"
            );
            found.push(problem.hint(hint));
        }
    });
    found
}
