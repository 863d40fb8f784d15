//! Secrets in rendered objects: those that were not fetched count as unchanged, references that nobody resolved are told.

use serde_json::Value;
use slipway_cluster::helm::ReleaseHistory;
use slipway_event::Redactor;
use slipway_manifest::diff::secret_fields::{SecretFields, field_mut, keep_known};
use slipway_manifest::object;
use slipway_problem::{Problem, ProblemSeverity};
use slipway_secrets::{find_unresolved, mentions_secret};
use slipway_source::Document;

use super::request::PlanPurpose;
use super::situation::previous_documents;

/// Takes secrets that were only named from the last revision, where they come from the same place there: nobody asked
/// a backend, so there is no change to show. Their values are made known to the redactor.
pub(super) fn keep_known_secrets(documents: &mut [Document], history: &ReleaseHistory, redactor: &Redactor) {
    let previous = previous_documents(history);
    for document in documents {
        let Some(earlier) = previous.iter().map(|old| &old.object).find(|old| is_same(&document.object, old))
        else {
            continue;
        };
        keep_known(&mut document.object, earlier);
        let Ok(fields) = SecretFields::of(&document.object) else { continue };
        let mut object = document.object.clone();
        for (path, _) in fields.iter() {
            if let Some(Value::String(text)) = field_mut(&mut object, path) {
                redactor.register(text.as_str());
            }
        }
    }
}

/// Tells that an object is the one of an earlier revision, whose namespace is always said.
fn is_same(object: &Value, earlier: &Value) -> bool {
    let said = object::namespace(object);
    object::kind(object) == object::kind(earlier)
        && object::name(object) == object::name(earlier)
        && (said.is_none() || said == object::namespace(earlier))
}

/// The references that are left in objects: defaults of charts are never resolved. They stop an execution.
pub(super) fn unresolved_references(documents: &[Document], purpose: PlanPurpose) -> Vec<Problem> {
    let holding = documents.iter().map(|document| &document.object);
    let holding = holding.filter(|object| object.as_object().is_some_and(mentions_secret));
    let severity = match purpose {
        PlanPurpose::Preview => ProblemSeverity::Warning,
        PlanPurpose::Execute => ProblemSeverity::Error,
    };
    holding.flat_map(find_unresolved).map(|problem| Problem { severity, ..problem }).collect()
}
