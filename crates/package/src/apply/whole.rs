//! Patches of whole objects: strategic, merge and JSON patches of the list form.

use serde_json::Value as Json;
use slipway_manifest::patch;
use slipway_problem::{Location, Problem};

use super::eval::{ChangeKind, FieldWrite};
use crate::compare;
use crate::kpatch::GroupBody;
use crate::report::{coded_error, coded_note};
use crate::schema::FieldType;
use crate::val::ValuePos;

/// The outcome of a whole patch for an object.
pub(crate) enum WholeOutcome {
    Changed {
        object: Json,
        changes: Vec<FieldWrite>,
    },
    /// `$patch: delete` at the root switches the object off.
    Disabled,
}

/// Applies a patch whose values are realised already.
pub(crate) fn apply_whole(
    object: &Json,
    body: &GroupBody,
    patch: Json,
    ty: FieldType<'_>,
    file: &str,
    pos: ValuePos,
    label: &str,
) -> Result<(WholeOutcome, Option<Problem>), Problem> {
    let at = || Location::new(file, pos.line, pos.column);
    let mut remark = None;
    let result = match body {
        GroupBody::Strategic(_) => {
            if patch.get("$patch").and_then(Json::as_str) == Some("delete") {
                return Ok((WholeOutcome::Disabled, None));
            }
            match ty.built() {
                Some(shape) => patch::strategic::apply(object.clone(), patch, Some(shape)),
                None => {
                    remark = Some(
                        coded_note("KX050", format!("no schema for {label}: lists are replaced as a whole"))
                            .at(at()),
                    );
                    patch::merge::apply(object.clone(), patch)
                }
            }
        }
        GroupBody::Merge(_) => patch::merge::apply(object.clone(), patch),
        GroupBody::Json(_) => patch::json::apply(object.clone(), &patch),
        GroupBody::Statements(_) => {
            return Ok((WholeOutcome::Changed { object: object.clone(), changes: Vec::new() }, None));
        }
    };
    let result = result
        .map_err(|why| coded_error("KX051", format!("the patch does not fit {label}: {why}")).at(at()))?;
    for field in ["apiVersion", "kind"] {
        if result.get(field) != object.get(field) {
            return Err(coded_error("KX040", format!("`{field}` of {label} cannot be patched")).at(at()));
        }
    }
    if !result.is_object() {
        return Err(coded_error("KX040", format!("the patch leaves no object of {label}")).at(at()));
    }
    let changes = compare::changes(object, &result)
        .into_iter()
        .map(|change| {
            let did = if change.new.is_none() { ChangeKind::Delete } else { ChangeKind::Set };
            FieldWrite { path: change.path, did, old: change.old, new: change.new }
        })
        .collect();
    Ok((WholeOutcome::Changed { object: result, changes }, remark))
}
