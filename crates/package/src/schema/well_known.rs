//! Custom kinds so common that packages need not bring their definitions along.
//!
//! The table names the fields people set. It says nothing about the rest, which is therefore let pass:
//! a definition in the package knows better and wins.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde_json::{Map, Value as Json, json};

/// Facts about a kind.
pub(crate) struct WellKnown {
    pub(crate) schema: Json,
    pub(crate) namespaced: bool,
    pub(crate) plural: &'static str,
}

/// By group, kind and version.
type Table = HashMap<&'static str, HashMap<&'static str, HashMap<&'static str, WellKnown>>>;

static TABLE: LazyLock<Table> = LazyLock::new(|| parse_table(include_str!("well_known.txt")));

/// The schema of a version of a kind.
pub(crate) fn schema_of(api_version: &str, kind: &str) -> Option<&'static Json> {
    let (group, version) = api_version.split_once('/')?;
    // Most custom kinds are none of these: their groups tell, without the table.
    if !is_group(group) {
        return None;
    }
    TABLE.get(group)?.get(kind)?.get(version).map(|known| &known.schema)
}

/// Facts about a kind in any version.
pub(crate) fn facts_of(group: &str, kind: &str) -> Option<&'static WellKnown> {
    if !is_group(group) {
        return None;
    }
    TABLE.get(group)?.get(kind)?.values().next()
}

fn is_group(group: &str) -> bool {
    matches!(group, "cert-manager.io" | "external-secrets.io" | "metallb.io" | "monitoring.coreos.com")
}

/// Reads blocks: a line `GROUP/VERSION[,VERSION] KIND PLURAL [cluster] [= KIND]`, fields of `spec` below.
fn parse_table(text: &'static str) -> Table {
    let mut table = Table::new();
    for block in text.split("\n\n") {
        let mut lines = block.lines();
        let mut words = lines.next().unwrap_or_default().split(' ');
        let (Some(api), Some(kind), Some(plural)) = (words.next(), words.next(), words.next()) else {
            continue;
        };
        let Some((group, versions)) = api.split_once('/') else { continue };
        let rest: Vec<&str> = words.collect();
        let fields: Vec<(usize, &str)> = lines
            .map(|line| (line.len() - line.trim_start().len(), line.trim_start()))
            .filter(|(_, line)| !line.is_empty())
            .collect();
        for version in versions.split(',') {
            let like = rest.iter().position(|word| *word == "=").and_then(|at| rest.get(at + 1));
            let schema = match like {
                Some(like) => table
                    .get(group)
                    .and_then(|kinds| kinds.get(like)?.get(version))
                    .map(|known| known.schema.clone()),
                None => Some(
                    json!({"type": "object", "properties": {"spec": object_schema(&fields)}, OPEN: true}),
                ),
            };
            let Some(schema) = schema else { continue };
            let known = WellKnown { schema, namespaced: !rest.contains(&"cluster"), plural };
            table.entry(group).or_default().entry(kind).or_default().insert(version, known);
        }
    }
    table
}

const OPEN: &str = "x-kubernetes-preserve-unknown-fields";

/// The schema of fields that stand at one indentation; deeper ones belong to the field before them.
fn object_schema(fields: &[(usize, &str)]) -> Json {
    let (mut properties, mut required) = (Map::new(), Vec::new());
    let mut at = 0;
    while let Some((indent, line)) = fields.get(at) {
        let below = &fields[at + 1..];
        let end = below.iter().position(|(deeper, _)| deeper <= indent).unwrap_or(below.len());
        let (name, form) = line.split_once(' ').unwrap_or((line, ""));
        let bare = name.trim_end_matches('!');
        if bare.len() < name.len() {
            required.push(bare);
        }
        properties.insert(bare.to_owned(), form_of(form, &below[..end]));
        at += end + 1;
    }
    let mut schema = json!({"type": "object", "properties": properties, OPEN: true});
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

fn form_of(form: &str, below: &[(usize, &str)]) -> Json {
    match form {
        "" => object_schema(below),
        "[]" => json!({"type": "array", "items": object_schema(below)}),
        "[string]" => json!({"type": "array", "items": {"type": "string"}}),
        "map" => json!({"type": "object", "additionalProperties": {"type": "string"}}),
        "any" => json!({OPEN: true}),
        "int-or-string" => json!({"x-kubernetes-int-or-string": true}),
        "string" | "integer" | "boolean" => json!({"type": form}),
        words => json!({"type": "string", "enum": words.split('|').collect::<Vec<_>>()}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_read_whole() {
        let blocks = include_str!("well_known.txt").split("\n\n").count();
        assert_eq!(TABLE.values().map(HashMap::len).sum::<usize>(), blocks);
        assert!(TABLE.keys().all(|group| is_group(group)));
        let certificate = schema_of("cert-manager.io/v1", "Certificate").unwrap();
        let spec = &certificate["properties"]["spec"];
        assert_eq!(spec["required"], json!(["secretName", "issuerRef"]));
        assert_eq!(spec["properties"]["privateKey"]["properties"]["size"], json!({"type": "integer"}));
        assert_eq!(spec["properties"]["dnsNames"]["items"], json!({"type": "string"}));
        let issuer = facts_of("cert-manager.io", "ClusterIssuer").unwrap();
        assert_eq!((issuer.namespaced, issuer.plural), (false, "clusterissuers"));
        assert!(schema_of("external-secrets.io/v1beta1", "ClusterSecretStore").is_some());
        assert!(schema_of("cert-manager.io/v1alpha2", "Certificate").is_none());
        assert!(schema_of("v1", "Certificate").is_none());
    }
}
