//! Validation of custom resource definitions themselves.

use serde_json::Value;
use slipway_manifest::crd::check_definition;

use super::custom::field_cause;
use super::rules;
use crate::status::StatusCause;

/// Validates a definition itself.
pub(crate) fn validate_definition(object: &Value, old: Option<&Value>, out: &mut Vec<StatusCause>) {
    let found = check_definition(object);
    // A changed group or plural is reported alone, without the name that no longer matches.
    let renamed = old.is_some_and(|old| {
        old["spec"]["group"] != object["spec"]["group"]
            || old["spec"]["names"]["plural"] != object["spec"]["names"]["plural"]
    });
    out.extend(found.iter().filter(|e| !renamed || e.field != "metadata.name").map(field_cause));
    if old.is_some() {
        check_stored_versions(object, out);
    }
    // Rules are compiled only if their schema is valid.
    if !found.iter().any(|error| error.field.contains("openAPIV3Schema")) {
        rules::check_definition(object, out);
    }
}

/// Versions that objects may still be stored in must stay in the definition.
fn check_stored_versions(definition: &Value, out: &mut Vec<StatusCause>) {
    let stored = definition["status"]["storedVersions"].as_array().map_or(&[][..], Vec::as_slice);
    let versions = definition["spec"]["versions"].as_array().map_or(&[][..], Vec::as_slice);
    for (index, name) in stored.iter().enumerate() {
        if !versions.iter().any(|version| version["name"] == *name) {
            let shown = name.as_str().unwrap_or("");
            let why = format!(
                "missing from spec.versions; {shown} was previously a storage version, and must remain in \
                 spec.versions until a storage migration ensures no data remains persisted in {shown} and \
                 removes {shown} from status.storedVersions"
            );
            out.push(StatusCause::invalid(format!("status.storedVersions[{index}]"), name, &why));
        }
    }
}
