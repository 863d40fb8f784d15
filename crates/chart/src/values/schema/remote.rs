//! Schemas a chart's schema refers to by address: fetched only through a source the user allowed.

use std::collections::BTreeSet;
use std::fmt::Debug;

use serde_json::Value;
use slipway_event::without_credentials;
use url::Url;

use super::compile::SchemaDocument;
use crate::error::ChartError;
use slipway_go::GoError;

/// Fetches schemas from elsewhere. Rendering has none by default: a chart could make requests in the
/// user's name.
pub trait SchemaSource: Debug + Send + Sync {
    fn fetch_schema(&self, address: &str) -> Result<Vec<u8>, ChartError>;
}

/// The most documents one schema may draw in.
const MOST_DOCUMENTS: usize = 64;

/// Brings in every document that is referred to, those of fetched ones included.
pub(super) fn bring_in(document: &mut SchemaDocument, source: &dyn SchemaSource) -> Result<(), GoError> {
    let mut at = 0;
    while let Some(root) = document.documents.get(at) {
        let mut wanted = BTreeSet::new();
        collect_addresses(root, &mut wanted);
        for address in wanted {
            if document.has_address(&address) {
                continue;
            }
            let shown = without_credentials(&address).into_owned();
            if document.documents.len() > MOST_DOCUMENTS {
                return Err(format!(
                    "the schema refers to more than {MOST_DOCUMENTS} others, {shown} among them"
                )
                .into());
            }
            let bytes = source.fetch_schema(&address).map_err(|error| format!("schema {shown}: {error}"))?;
            let base = Url::parse(&address).map_err(|error| format!("schema {shown}: {error}"))?;
            let mut root: Value =
                serde_json::from_slice(&bytes).map_err(|error| format!("schema {shown}: {error}"))?;
            make_absolute(&mut root, &base, 0);
            document.add_document(&address, root).map_err(|error| format!("schema {shown}: {error}"))?;
        }
        at += 1;
    }
    Ok(())
}

/// The addresses of other documents in a schema, without the places inside them.
fn collect_addresses(schema: &Value, found: &mut BTreeSet<String>) {
    let mut pending = vec![schema];
    while let Some(schema) = pending.pop() {
        match schema {
            Value::Object(map) => {
                if let Some(Value::String(reference)) = map.get("$ref") {
                    let address = reference.split('#').next().unwrap_or_default();
                    if address.starts_with("http://") || address.starts_with("https://") {
                        found.insert(address.to_owned());
                    }
                }
                pending.extend(map.values());
            }
            Value::Array(items) => pending.extend(items),
            _ => {}
        }
    }
}

/// Makes references of a fetched document mean the same from anywhere.
fn make_absolute(schema: &mut Value, base: &Url, depth: usize) {
    // Deeper schemas are refused when they are added.
    if depth > super::compile::DEEPEST {
        return;
    }
    match schema {
        Value::Object(map) => {
            if let Some(Value::String(reference)) = map.get_mut("$ref")
                && let Ok(absolute) = base.join(reference)
            {
                *reference = absolute.into();
            }
            map.values_mut().for_each(|value| make_absolute(value, base, depth + 1));
        }
        Value::Array(items) => items.iter_mut().for_each(|value| make_absolute(value, base, depth + 1)),
        _ => {}
    }
}
