//! The embedded facts about built-in types, and the tool that packs them.
//!
//! The file is four bytes of magic and three sections (types, resources, columns), each a length and
//! deflated JSON. Sections are unpacked when first asked for, so a program that never looks at a
//! schema never pays.

use std::io::{Read, Write};

use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use serde_json::{Map, Value, json};

use super::resources::{PrinterColumn, Resource, Subresource};
use super::table::{self, TableError};

const MAGIC: &[u8; 4] = b"SWM1";
const SECTIONS: usize = 3;
/// No section is anywhere near this; damaged data cannot make us allocate more.
const LARGEST_SECTION: u64 = 16 << 20;

static EMBEDDED: &[u8] = include_bytes!("../../data/schema.bin");

/// The answers of a real server about its types, resources and columns.
pub struct SchemaSources<'a> {
    /// `schema-table.json`: see [`table`].
    pub table: &'a str,
    /// `tables.json`: `{"v1 pods": [[name, type, format, priority, description]…]}`.
    pub columns: &'a Value,
    /// Aggregated discovery documents of `/api` and `/apis`, in that order.
    pub discovery: &'a [Value],
    /// `APIResourceList` documents, for the storage version hashes.
    pub resource_lists: &'a [Value],
}

/// Packs the answers of a real server into the form this crate embeds.
///
/// Descriptions of columns are left out: nothing reads them.
pub fn pack_schema(sources: &SchemaSources<'_>) -> Result<Vec<u8>, TableError> {
    table::parse_table(sources.table)?;
    let types: Value = serde_json::from_str(sources.table)?;
    let resources = resources_of(sources);
    let mut columns = Map::new();
    for (key, rows) in sources.columns.as_object().into_iter().flatten() {
        let rows: Vec<PrinterColumn> = rows
            .as_array()
            .into_iter()
            .flatten()
            .map(|row| PrinterColumn {
                name: row[0].as_str().unwrap_or_default().to_owned(),
                kind: row[1].as_str().unwrap_or_default().to_owned(),
                format: row[2].as_str().unwrap_or_default().to_owned(),
                priority: row[3].as_i64().unwrap_or_default() as i32,
            })
            .collect();
        columns.insert(key.clone(), json!(rows));
    }
    let mut packed = MAGIC.to_vec();
    for section in [types, json!(resources), Value::Object(columns)] {
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(section.to_string().as_bytes())?;
        let bytes = encoder.finish()?;
        packed.extend((bytes.len() as u32).to_le_bytes());
        packed.extend(bytes);
    }
    Ok(packed)
}

fn resources_of(sources: &SchemaSources<'_>) -> Vec<Resource> {
    let text = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
    let texts = |value: &Value, key: &str| -> Vec<String> {
        value[key].as_array().into_iter().flatten().filter_map(|v| v.as_str().map(str::to_owned)).collect()
    };
    let mut resources = Vec::new();
    for group in sources.discovery.iter().flat_map(|list| list["items"].as_array().into_iter().flatten()) {
        let group_name = group["metadata"]["name"].as_str().unwrap_or_default();
        for version in group["versions"].as_array().into_iter().flatten() {
            let version_name = version["version"].as_str().unwrap_or_default();
            let api_version = crate::object::join_api_version(group_name, version_name);
            let legacy =
                sources.resource_lists.iter().find(|list| list["groupVersion"] == api_version.as_str());
            for resource in version["resources"].as_array().into_iter().flatten() {
                let plural = text(resource, "resource");
                let hash = legacy
                    .and_then(|list| {
                        list["resources"].as_array()?.iter().find(|r| r["name"] == plural.as_str())
                    })
                    .map(|r| text(r, "storageVersionHash"))
                    .unwrap_or_default();
                let subresources = resource["subresources"].as_array().into_iter().flatten();
                resources.push(Resource {
                    group: group_name.to_owned(),
                    version: version_name.to_owned(),
                    singular: text(resource, "singularResource"),
                    kind: text(&resource["responseKind"], "kind"),
                    namespaced: resource["scope"] == "Namespaced",
                    verbs: texts(resource, "verbs"),
                    short_names: texts(resource, "shortNames"),
                    categories: texts(resource, "categories"),
                    subresources: subresources
                        .map(|sub| Subresource {
                            name: text(sub, "subresource"),
                            group: text(&sub["responseKind"], "group"),
                            version: text(&sub["responseKind"], "version"),
                            kind: text(&sub["responseKind"], "kind"),
                            verbs: texts(sub, "verbs"),
                        })
                        .collect(),
                    storage_version_hash: hash,
                    plural,
                });
            }
        }
    }
    resources
}

/// Unpacks one section of the embedded data.
pub(super) fn unpack_section(index: usize) -> Result<String, TableError> {
    unpack_from(EMBEDDED, index)
}

fn unpack_from(packed: &[u8], index: usize) -> Result<String, TableError> {
    let mut rest = packed.strip_prefix(MAGIC).ok_or(TableError::Damaged)?;
    for at in 0..SECTIONS {
        let (length, tail) = rest.split_first_chunk::<4>().ok_or(TableError::Damaged)?;
        let length = u32::from_le_bytes(*length) as usize;
        let body = tail.get(..length).ok_or(TableError::Damaged)?;
        if at == index {
            let mut text = String::new();
            DeflateDecoder::new(body).take(LARGEST_SECTION).read_to_string(&mut text)?;
            return Ok(text);
        }
        rest = &tail[length..];
    }
    Err(TableError::Damaged)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_data_is_an_error() {
        for bytes in [&b""[..], b"SWM1", b"SWM1\xff\xff\xff\xff", b"SWM1\x01\0\0\0\xff", b"nope"] {
            assert!(unpack_from(bytes, 0).is_err());
        }
        assert!(unpack_from(EMBEDDED, 3).is_err());
    }
}
