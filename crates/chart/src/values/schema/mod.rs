//! Checking values against `values.schema.json`, with the messages Helm's users know.

mod compile;
mod format;
mod remote;
mod validate;

use serde_json::{Map, Value};

use compile::SchemaDocument;
pub use remote::SchemaSource;
use slipway_go::GoError;

/// Checks `values` against the text of a schema.
///
/// Gives the lines Helm prints, `- FIELD: DESCRIPTION` each with its newline; nothing when all is well.
/// An unusable schema is an error.
pub(crate) fn check_values(
    schema: &[u8],
    values: &Value,
    source: Option<&dyn SchemaSource>,
) -> Result<String, GoError> {
    let mut document = SchemaDocument::read_schema(schema)?;
    if let Some(source) = source {
        remote::bring_in(&mut document, source)?;
    }
    let findings = validate::validate_values(&document, values)?;
    Ok(findings.into_iter().map(|finding| format!("- {}: {}\n", finding.field, finding.text)).collect())
}

/// An entry of a schema: most have so few that looking through them is faster than hashing the key.
fn get<'m>(map: &'m Map<String, Value>, key: &str) -> Option<&'m Value> {
    if map.len() > 8 {
        return map.get(key);
    }
    map.iter().find(|(name, _)| *name == key).map(|(_, value)| value)
}
