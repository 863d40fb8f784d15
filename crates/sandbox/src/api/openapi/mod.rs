//! OpenAPI v3 and v2, made from the schema table and the custom resource definitions.
//!
//! Clients read three things from it: the fields of each kind, how lists are patched
//! (`x-kubernetes-patch-*`), and which paths take `fieldValidation`. Descriptions are those of metadata and of
//! custom resources.

mod custom;
mod gnostic;
mod paths;
mod schemas;

use std::collections::BTreeMap;

use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderValue, IF_NONE_MATCH, VARY};
use http::{HeaderMap, Response, StatusCode};
use serde_json::{Map, Value, json};

use self::paths::add_paths;
use self::schemas::SchemaCollector;
use crate::api::discovery::TaggedDocument;
use crate::api::resource::ResourceRegistry;
use crate::core::Core;
use crate::http::query::QueryParameters;
use crate::http::respond::ResponseBody;
use crate::status::Result;

const GNOSTIC: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
/// Answers a path below `/openapi/`; `None` when there is nothing there.
pub(crate) fn answer_path(
    core: &Core,
    path: &str,
    _query: &QueryParameters,
    headers: &HeaderMap,
) -> Result<Option<Response<ResponseBody>>> {
    let registry = core.registry();
    let accept = headers.get(ACCEPT).and_then(|v| v.to_str().ok()).unwrap_or("");
    match path.trim_start_matches("/openapi/") {
        "v2" => {
            // Clients that ask for protobuf cannot read JSON.
            if accept.contains("proto-openapi") {
                let document = registry
                    .documents
                    .get_bytes("openapi/v2.pb", || gnostic::encode_document(&v2_document(&registry)));
                let mut response = document_response(&document, headers, false);
                response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(GNOSTIC));
                return Ok(Some(response));
            }
            let document = registry.documents.get_json("openapi/v2", || v2_document(&registry));
            Ok(Some(document_response(&document, headers, false)))
        }
        "v3" => {
            let document = registry.documents.get_json("openapi/v3", || document_index(&registry));
            let mut response = document_response(&document, headers, false);
            response
                .headers_mut()
                .insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
            Ok(Some(response))
        }
        rest => {
            let Some(name) = rest.strip_prefix("v3/") else { return Ok(None) };
            Ok(group_document(&registry, name).map(|d| document_response(&d, headers, true)))
        }
    }
}

fn document_response(
    document: &TaggedDocument,
    headers: &HeaderMap,
    lasting: bool,
) -> Response<ResponseBody> {
    let tag = format!("\"{}\"", document.tag);
    let known = headers.get(IF_NONE_MATCH).and_then(|v| v.to_str().ok()) == Some(tag.as_str());
    let mut response =
        Response::new(if known { ResponseBody::empty() } else { ResponseBody::whole(document.body.clone()) });
    let out = response.headers_mut();
    out.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    out.insert(VARY, HeaderValue::from_static("Accept"));
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        out.insert(ETAG, tag);
    }
    if lasting {
        out.insert(CACHE_CONTROL, HeaderValue::from_static("public, immutable"));
    }
    if known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    }
    response
}

/// The names of documents and what each is about.
fn document_names(registry: &ResourceRegistry) -> Vec<(String, Option<(String, String)>)> {
    let mut out = vec![("api".to_owned(), None), ("apis".to_owned(), None), ("version".to_owned(), None)];
    for group in &registry.groups {
        let base = if group.name.is_empty() { "api".to_owned() } else { format!("apis/{}", group.name) };
        if !group.name.is_empty() {
            out.push((base.clone(), None));
        }
        for version in &group.versions {
            out.push((format!("{base}/{version}"), Some((group.name.clone(), version.clone()))));
        }
    }
    out
}

fn group_document(registry: &ResourceRegistry, name: &str) -> Option<TaggedDocument> {
    let (_, about) = document_names(registry).into_iter().find(|(n, _)| n == name)?;
    Some(registry.documents.get_json(&format!("openapi/v3/{name}"), || {
        let mut out =
            json!({"openapi": "3.0.0", "info": {"title": "Kubernetes", "version": "1.37"}, "paths": {}});
        if let Some((group, version)) = about {
            let served = registry.of_version(&group, &version).unwrap_or_default();
            let mut schemas =
                SchemaCollector { prefix: "#/components/schemas/", v3: true, found: BTreeMap::new() };
            let mut paths = Map::new();
            for resource in served {
                schemas.add_resource(resource);
                add_paths(resource, &mut paths, &mut schemas);
            }
            out["paths"] = Value::Object(paths);
            out["components"] = json!({"schemas": schemas.found});
        }
        out
    }))
}

fn document_index(registry: &ResourceRegistry) -> Value {
    let mut paths = Map::new();
    for (name, about) in document_names(registry) {
        // The hash changes when what is served does, which is all a cache needs to know.
        let custom =
            about.as_ref().is_some_and(|(g, _)| registry.groups.iter().any(|r| r.name == *g && r.custom));
        let seed = if custom { format!("{name}#{}", registry.generation) } else { format!("{name}#v1.37.0") };
        let hash = crate::api::discovery::entity_tag(seed.as_bytes());
        paths.insert(name.clone(), json!({"serverRelativeURL": format!("/openapi/v3/{name}?hash={hash}")}));
    }
    json!({"paths": paths})
}

fn v2_document(registry: &ResourceRegistry) -> Value {
    let mut schemas = SchemaCollector { prefix: "#/definitions/", v3: false, found: BTreeMap::new() };
    for group in &registry.groups {
        for version in &group.versions {
            for resource in registry.of_version(&group.name, version).unwrap_or_default() {
                schemas.add_resource(resource);
            }
        }
    }
    json!({
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": "v1.37.0"},
        "paths": {},
        "definitions": schemas.found,
    })
}
