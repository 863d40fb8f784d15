//! Rules on how much a plan destroys.

use super::Violation;
use crate::input::{ChangeAction, PolicyInput};
use crate::model::ChangeCheck;
use crate::report::PolicyCode;

pub(super) fn check_changes(check: &ChangeCheck, input: &PolicyInput<'_>) -> Vec<Violation> {
    let mut found = Vec::new();
    let destroyed = input.changes.iter().filter(|change| change.action == ChangeAction::Destroy).count();
    if let Some(most) = check.max_destroy.filter(|most| destroyed > *most) {
        let message = format!("{destroyed} objects are destroyed, at most {most} may be");
        found.push(Violation::of_fact("plan", PolicyCode::TooManyDestroyed, message));
    }
    for change in &input.changes {
        let (kind, action) = (&change.object.gvk, change.action);
        // What is replaced is destroyed first, with everything in it.
        let is_destroyed = matches!(action, ChangeAction::Destroy | ChangeAction::Replace);
        if is_destroyed && check.forbid_destroy_kinds.fits_kind(kind) {
            let message = format!("{} of a {}", action.word(), kind.kind);
            found.push(Violation::of_object(&change.object, PolicyCode::DestroyedKind, message));
        }
        if check.forbid_replace && action == ChangeAction::Replace {
            let message = "is destroyed and created again";
            found.push(Violation::of_object(&change.object, PolicyCode::Replaced, message));
        }
    }
    found
}
