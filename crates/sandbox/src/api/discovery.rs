//! Discovery documents, legacy and aggregated, built once per change of what is served.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha512};

use slipway_manifest::encode::encode_protobuf;
use slipway_manifest::schema::Schema;

use crate::api::resource::{ApiGroup, ResourceRegistry, ServedResource};
use crate::http::body::json_to_yaml;
use crate::http::negotiate::{AcceptClause, PROTOBUF, accept_clauses};

/// The encoding of aggregated discovery. Its exact content type is what makes clients take an answer for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AggregatedForm {
    Json,
    Yaml,
    Protobuf,
}

impl AggregatedForm {
    /// The form that an Accept header asks for: its first clause that names the list, if that is the first at all.
    pub(crate) fn negotiate(accept: &str) -> Option<AggregatedForm> {
        let names_list = |clause: &AcceptClause<'_>| clause.param("as") == "APIGroupDiscoveryList";
        let mut clauses = accept_clauses(accept).peekable();
        clauses.peek().filter(|first| names_list(first))?;
        let known = clauses.find(|clause| names_list(clause) && clause.param("v") == "v2")?;
        Some(match known.media {
            PROTOBUF => AggregatedForm::Protobuf,
            "application/yaml" => AggregatedForm::Yaml,
            _ => AggregatedForm::Json,
        })
    }

    pub(crate) fn content_type(self) -> &'static str {
        match self {
            AggregatedForm::Json => "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
            AggregatedForm::Yaml => "application/yaml;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
            AggregatedForm::Protobuf => {
                "application/vnd.kubernetes.protobuf;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
            }
        }
    }
}

/// Documents already built, by path.
#[derive(Debug, Default)]
pub(crate) struct DocumentCache(Mutex<HashMap<String, TaggedDocument>>);

/// A document and its entity tag.
#[derive(Debug, Clone)]
pub(crate) struct TaggedDocument {
    pub body: Bytes,
    /// Upper-case SHA-512 hex.
    pub tag: Arc<str>,
}

impl DocumentCache {
    pub(crate) fn get_json(&self, key: &str, build: impl FnOnce() -> Value) -> TaggedDocument {
        self.get_bytes(key, || {
            let mut body = serde_json::to_vec(&build()).unwrap_or_default();
            body.push(b'\n');
            body
        })
    }

    pub(crate) fn get_bytes(&self, key: &str, build: impl FnOnce() -> Vec<u8>) -> TaggedDocument {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(document) = known.get(key) {
            return document.clone();
        }
        let body = build();
        let document = TaggedDocument { tag: entity_tag(&body), body: body.into() };
        known.insert(key.to_owned(), document.clone());
        document
    }
}

pub(crate) fn entity_tag(body: &[u8]) -> Arc<str> {
    let digest = Sha512::digest(body);
    let mut text = String::with_capacity(128);
    for byte in digest {
        use std::fmt::Write;
        let _ = write!(text, "{byte:02X}");
    }
    text.into()
}

impl ResourceRegistry {
    /// `/api` or `/apis`, aggregated.
    pub(crate) fn aggregated_discovery(&self, core: bool, form: AggregatedForm) -> TaggedDocument {
        let build = || {
            let items: Vec<Value> = self
                .groups
                .iter()
                .filter(|g| g.name.is_empty() == core)
                .map(|g| self.group_item(g))
                .collect();
            json!({
                "kind": "APIGroupDiscoveryList",
                "apiVersion": "apidiscovery.k8s.io/v2",
                "metadata": {},
                "items": items,
            })
        };
        let name = if core { "api" } else { "apis" };
        match form {
            AggregatedForm::Json => self.documents.get_json(&format!("agg/{name}"), build),
            AggregatedForm::Yaml => {
                self.documents.get_bytes(&format!("agg/{name}.yaml"), || to_yaml(&build()))
            }
            AggregatedForm::Protobuf => {
                self.documents.get_bytes(&format!("agg/{name}.pb"), || to_protobuf(&build()))
            }
        }
    }

    fn group_item(&self, group: &ApiGroup) -> Value {
        let mut metadata = Map::new();
        if !group.name.is_empty() {
            metadata.insert("name".into(), group.name.as_str().into());
        }
        let versions: Vec<Value> = group
            .versions
            .iter()
            .map(|version| {
                let resources: Vec<Value> = self
                    .of_version(&group.name, version)
                    .unwrap_or_default()
                    .iter()
                    .map(|s| aggregated_entry(s))
                    .collect();
                json!({"version": version, "resources": resources, "freshness": "Current"})
            })
            .collect();
        json!({"metadata": metadata, "versions": versions})
    }

    /// `/apis`, legacy.
    pub(crate) fn group_list(&self) -> TaggedDocument {
        self.documents.get_json("apis", || {
            let groups: Vec<Value> =
                self.groups.iter().filter(|g| !g.name.is_empty()).map(group_document).collect();
            json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
        })
    }

    /// `/apis/G`.
    pub(crate) fn group_value(&self, name: &str) -> Option<Value> {
        let group = self.groups.iter().find(|g| g.name == name && !name.is_empty())?;
        let mut out = Map::new();
        out.insert("kind".into(), "APIGroup".into());
        out.insert("apiVersion".into(), "v1".into());
        if let Value::Object(members) = group_document(group) {
            out.extend(members);
        }
        Some(Value::Object(out))
    }

    /// `/api/v1` or `/apis/G/V`.
    pub(crate) fn resource_list(&self, group: &str, version: &str) -> Option<TaggedDocument> {
        let resources = self.of_version(group, version)?;
        let api_version = slipway_manifest::object::join_api_version(group, version);
        Some(self.documents.get_json(&api_version, || {
            let mut entries: Vec<Value> = resources.iter().flat_map(|s| legacy_entries(s)).collect();
            if resources.iter().all(|s| s.custom.is_none()) {
                entries.sort_by(|a, b| a["name"].as_str().cmp(&b["name"].as_str()));
            }
            let mut out = Map::new();
            out.insert("kind".into(), "APIResourceList".into());
            // The core group's list has always gone without.
            if !group.is_empty() {
                out.insert("apiVersion".into(), "v1".into());
            }
            out.insert("groupVersion".into(), api_version.as_str().into());
            out.insert("resources".into(), entries.into());
            Value::Object(out)
        }))
    }
}

fn to_yaml(document: &Value) -> Vec<u8> {
    json_to_yaml(document.to_string().as_bytes()).unwrap_or_default()
}

fn to_protobuf(document: &Value) -> Vec<u8> {
    encode_protobuf(document, Schema::built_in().types()).unwrap_or_default()
}

fn group_document(group: &ApiGroup) -> Value {
    let versions: Vec<Value> = group
        .versions
        .iter()
        .map(|v| json!({"groupVersion": format!("{}/{v}", group.name), "version": v}))
        .collect();
    let preferred = versions.first().cloned().unwrap_or_default();
    json!({"name": group.name, "versions": versions, "preferredVersion": preferred})
}

/// An aggregated entry. The real server leaves a response kind's group and version empty when they are
/// those of the entry itself, except for custom resources.
fn aggregated_entry(served: &ServedResource) -> Value {
    let def = &served.def;
    let custom = served.custom.is_some();
    let own = |kind: &str| {
        if custom {
            json!({"group": def.group, "version": def.version, "kind": kind})
        } else {
            json!({"group": "", "version": "", "kind": kind})
        }
    };
    let mut out = Map::new();
    out.insert("resource".into(), def.plural.as_str().into());
    out.insert("responseKind".into(), own(&def.kind));
    out.insert("scope".into(), if def.namespaced { "Namespaced" } else { "Cluster" }.into());
    out.insert("singularResource".into(), def.singular.as_str().into());
    out.insert("verbs".into(), json!(def.verbs));
    if !def.short_names.is_empty() {
        out.insert("shortNames".into(), json!(def.short_names));
    }
    if !def.categories.is_empty() {
        out.insert("categories".into(), json!(def.categories));
    }
    if !def.subresources.is_empty() {
        let subresources: Vec<Value> = def
            .subresources
            .iter()
            .map(|sub| {
                let kind = if sub.group.is_empty() && sub.version.is_empty() {
                    own(&sub.kind)
                } else {
                    json!({"group": sub.group, "version": sub.version, "kind": sub.kind})
                };
                json!({"subresource": sub.name, "responseKind": kind, "verbs": sub.verbs})
            })
            .collect();
        out.insert("subresources".into(), subresources.into());
    }
    Value::Object(out)
}

/// Legacy entries: the resource and its subresources as entries of their own.
fn legacy_entries(served: &ServedResource) -> Vec<Value> {
    let def = &served.def;
    let mut out = Map::new();
    out.insert("name".into(), def.plural.as_str().into());
    out.insert("singularName".into(), def.singular.as_str().into());
    out.insert("namespaced".into(), def.namespaced.into());
    out.insert("kind".into(), def.kind.as_str().into());
    out.insert("verbs".into(), json!(def.verbs));
    if !def.short_names.is_empty() {
        out.insert("shortNames".into(), json!(def.short_names));
    }
    if !def.categories.is_empty() {
        out.insert("categories".into(), json!(def.categories));
    }
    if !def.storage_version_hash.is_empty() {
        out.insert("storageVersionHash".into(), def.storage_version_hash.as_str().into());
    }
    let mut all = vec![Value::Object(out)];
    for sub in &def.subresources {
        let mut out = Map::new();
        out.insert("name".into(), format!("{}/{}", def.plural, sub.name).into());
        out.insert("singularName".into(), "".into());
        out.insert("namespaced".into(), def.namespaced.into());
        if !sub.group.is_empty() {
            out.insert("group".into(), sub.group.as_str().into());
        }
        if !sub.version.is_empty() {
            out.insert("version".into(), sub.version.as_str().into());
        }
        out.insert("kind".into(), sub.kind.as_str().into());
        out.insert("verbs".into(), json!(sub.verbs));
        all.push(Value::Object(out));
    }
    all
}
