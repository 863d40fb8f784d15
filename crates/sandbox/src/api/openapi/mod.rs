//! OpenAPI v3 and v2, made from the schema table and the custom resource definitions.
//!
//! Clients read three things from it: the fields of each kind, how lists are patched
//! (`x-kubernetes-patch-*`), and which paths take `fieldValidation`. Descriptions are those of metadata and of
//! custom resources.

mod custom;
mod gnostic;

use std::collections::{BTreeMap, HashMap};
use std::sync::OnceLock;

use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderValue, IF_NONE_MATCH, VARY};
use http::{HeaderMap, Response, StatusCode};
use serde_json::{Map, Value, json};
use slipway_manifest::object::join_api_version;
use slipway_manifest::schema::{
    AnyForm, ListKind, OmitRule, ScalarType, Schema, Shape, ShapeId, StructField, TypeRef,
};

use crate::api::discovery::Document;
use crate::api::resource::{Registry, Served};
use crate::core::Core;
use crate::http::query::Query;
use crate::http::respond::Body;
use crate::status::Result;

const GNOSTIC: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";

/// Answers a path below `/openapi/`; `None` when there is nothing there.
pub(crate) fn answer(
    core: &Core,
    path: &str,
    _query: &Query,
    headers: &HeaderMap,
) -> Result<Option<Response<Body>>> {
    let registry = core.registry();
    let accept = headers.get(ACCEPT).and_then(|v| v.to_str().ok()).unwrap_or("");
    match path.trim_start_matches("/openapi/") {
        "v2" => {
            // Clients that ask for protobuf cannot read JSON.
            if accept.contains("proto-openapi") {
                let document =
                    registry.documents.get_bytes("openapi/v2.pb", || gnostic::encode(&v2(&registry)));
                let mut response = print(&document, headers, false);
                response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(GNOSTIC));
                return Ok(Some(response));
            }
            let document = registry.documents.get("openapi/v2", || v2(&registry));
            Ok(Some(print(&document, headers, false)))
        }
        "v3" => {
            let document = registry.documents.get("openapi/v3", || index(&registry));
            let mut response = print(&document, headers, false);
            response
                .headers_mut()
                .insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
            Ok(Some(response))
        }
        rest => {
            let Some(name) = rest.strip_prefix("v3/") else { return Ok(None) };
            Ok(document(&registry, name).map(|d| print(&d, headers, true)))
        }
    }
}

fn print(document: &Document, headers: &HeaderMap, lasting: bool) -> Response<Body> {
    let tag = format!("\"{}\"", document.tag);
    let known = headers.get(IF_NONE_MATCH).and_then(|v| v.to_str().ok()) == Some(tag.as_str());
    let mut response = Response::new(if known { Body::empty() } else { Body::whole(document.body.clone()) });
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
fn names(registry: &Registry) -> Vec<(String, Option<(String, String)>)> {
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

fn document(registry: &Registry, name: &str) -> Option<Document> {
    let (_, about) = names(registry).into_iter().find(|(n, _)| n == name)?;
    Some(registry.documents.get(&format!("openapi/v3/{name}"), || {
        let mut out =
            json!({"openapi": "3.0.0", "info": {"title": "Kubernetes", "version": "1.37"}, "paths": {}});
        if let Some((group, version)) = about {
            let served = registry.of_version(&group, &version).unwrap_or_default();
            let mut schemas = Schemas { prefix: "#/components/schemas/", v3: true, found: BTreeMap::new() };
            let mut paths = Map::new();
            for resource in served {
                schemas.resource(resource);
                add_paths(resource, &mut paths, &mut schemas);
            }
            out["paths"] = Value::Object(paths);
            out["components"] = json!({"schemas": schemas.found});
        }
        out
    }))
}

fn index(registry: &Registry) -> Value {
    let mut paths = Map::new();
    for (name, about) in names(registry) {
        // The hash changes when what is served does, which is all a cache needs to know.
        let custom =
            about.as_ref().is_some_and(|(g, _)| registry.groups.iter().any(|r| r.name == *g && r.custom));
        let seed = if custom { format!("{name}#{}", registry.generation) } else { format!("{name}#v1.37.0") };
        let hash = crate::api::discovery::tag(seed.as_bytes());
        paths.insert(name.clone(), json!({"serverRelativeURL": format!("/openapi/v3/{name}?hash={hash}")}));
    }
    json!({"paths": paths})
}

fn v2(registry: &Registry) -> Value {
    let mut schemas = Schemas { prefix: "#/definitions/", v3: false, found: BTreeMap::new() };
    for group in &registry.groups {
        for version in &group.versions {
            for resource in registry.of_version(&group.name, version).unwrap_or_default() {
                schemas.resource(resource);
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

/// The full names of built-in types, by shape: types belong to the first package that reaches them.
fn type_names() -> &'static HashMap<ShapeId, String> {
    static NAMES: OnceLock<HashMap<ShapeId, String>> = OnceLock::new();
    NAMES.get_or_init(|| {
        let types = Schema::built_in().types();
        let mut names = HashMap::new();
        if let Some(meta) = types.type_of_kind("v1", "ConfigMap").and_then(|k| k.child("metadata")) {
            name_types(meta, META, &mut names);
        }
        for kind in ["Status", "DeleteOptions", "WatchEvent"] {
            if let Some(kind) = types.type_of_kind("v1", kind) {
                name_types(kind, META, &mut names);
            }
        }
        // Selectors belong to meta as well; deployments are one place that has them.
        if let Some(selector) =
            types.type_of_kind("apps/v1", "Deployment").and_then(|k| k.descend(["spec", "selector"]))
        {
            name_types(selector, META, &mut names);
        }
        for resource in Schema::built_in().resources() {
            let group = resource.group.split('.').next().unwrap_or("");
            let package = match resource.group.as_str() {
                "" => "io.k8s.api.core".to_owned(),
                "apiextensions.k8s.io" => "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions".to_owned(),
                "apiregistration.k8s.io" => "io.k8s.kube-aggregator.pkg.apis.apiregistration".to_owned(),
                _ => format!("io.k8s.api.{group}"),
            };
            let package = format!("{package}.{}", resource.version);
            let api_version = resource.api_version();
            for kind in [resource.kind.clone(), format!("{}List", resource.kind)] {
                if let Some(kind) = types.type_of_kind(&api_version, &kind) {
                    name_types(kind, &package, &mut names);
                }
            }
        }
        names
    })
}

fn name_types(kind: TypeRef<'_>, package: &str, names: &mut HashMap<ShapeId, String>) {
    let mut todo = vec![kind];
    while let Some(at) = todo.pop() {
        match at.shape() {
            Shape::Map(map) if map.name.is_empty() => todo.extend(map.rest.map(|id| at.at(id))),
            Shape::Map(map) => {
                if names.contains_key(&at.id()) {
                    continue;
                }
                let short = map.name.rsplit('.').next().unwrap_or("");
                // List metadata is meta's wherever it is met first.
                let package = if short == "ListMeta" { META } else { package };
                names.insert(at.id(), format!("{package}.{short}"));
                todo.extend(map.fields.iter().map(|f| at.at(f.shape)));
            }
            Shape::List(list) => todo.push(at.at(list.item)),
            Shape::Any(AnyForm::SchemaOr(id, _)) => todo.push(at.at(*id)),
            _ => {}
        }
    }
}

struct Schemas {
    prefix: &'static str,
    v3: bool,
    found: BTreeMap<String, Value>,
}

impl Schemas {
    fn resource(&mut self, served: &Served) {
        if let Some(custom) = &served.custom {
            self.custom(served, custom);
            return;
        }
        let kind = served.shape();
        self.named(kind, Some((&served.def.group, &served.def.version, &served.def.kind)));
        if let Some(list) = Schema::built_in().types().type_of_kind(served.api_version(), &served.list_kind) {
            self.named(list, Some((&served.def.group, &served.def.version, &served.list_kind)));
        }
    }

    /// A reference to a named type, which is added with all it refers to.
    fn named(&mut self, kind: TypeRef<'_>, gvk: Option<(&str, &str, &str)>) -> Value {
        let name = type_names().get(&kind.id()).cloned().unwrap_or_else(|| "io.k8s.unknown".to_owned());
        let reference = json!({"$ref": format!("{}{name}", self.prefix)});
        if !self.found.contains_key(&name) {
            self.found.insert(name.clone(), Value::Null);
            let body = self.structure(kind);
            self.found.insert(name.clone(), body);
        }
        if let (Some((group, version, kind)), Some(body)) = (gvk, self.found.get_mut(&name)) {
            body["x-kubernetes-group-version-kind"] =
                json!([{"group": group, "kind": kind, "version": version}]);
        }
        reference
    }

    fn structure(&mut self, kind: TypeRef<'_>) -> Value {
        let Some(map) = kind.as_map() else { return json!({"type": "object"}) };
        let mut properties = Map::new();
        let mut required = Vec::new();
        for field in &map.fields {
            let mut property = self.field(kind, field);
            if let Some(text) = description(&map.name, &field.name) {
                property["description"] = text.into();
            }
            properties.insert(field.name.clone(), property);
            if field.required {
                required.push(field.name.clone());
            }
        }
        required.sort();
        let mut out = json!({"type": "object"});
        if let Some(text) = description(&map.name, "") {
            out["description"] = text.into();
        }
        if !properties.is_empty() {
            out["properties"] = Value::Object(properties);
        }
        if !required.is_empty() {
            out["required"] = json!(required);
        }
        if map.atomic {
            out["x-kubernetes-map-type"] = json!("atomic");
        }
        out
    }

    fn field(&mut self, parent: TypeRef<'_>, field: &StructField) -> Value {
        let kind = parent.at(field.shape);
        let mut out = self.value(kind);
        if self.v3 {
            // Nothing may stand beside a reference.
            if out.get("$ref").is_some() {
                out = json!({"allOf": [out]});
            }
            if let Some(zero) = zero_value(kind, field) {
                out["default"] = zero;
            }
        }
        if let Shape::List(list) = kind.shape() {
            match &list.kind {
                ListKind::Atomic => out["x-kubernetes-list-type"] = json!("atomic"),
                ListKind::Set => out["x-kubernetes-list-type"] = json!("set"),
                ListKind::Map(keys) => {
                    out["x-kubernetes-list-map-keys"] = json!(keys);
                    out["x-kubernetes-list-type"] = json!("map");
                }
            }
        }
        if let Shape::Map(map) = kind.shape()
            && map.name.is_empty()
            && map.atomic
        {
            out["x-kubernetes-map-type"] = json!("atomic");
        }
        if let Some(key) = &field.patch.merge_key {
            out["x-kubernetes-patch-merge-key"] = json!(key);
        }
        let words: Vec<&str> = [
            (field.patch.merge, "merge"),
            (field.patch.replace, "replace"),
            (field.patch.retain_keys, "retainKeys"),
        ]
        .into_iter()
        .filter_map(|(on, word)| on.then_some(word))
        .collect();
        if !words.is_empty() {
            out["x-kubernetes-patch-strategy"] = json!(words.join(","));
        }
        if field.name == "ipFamilies" {
            out["items"]["enum"] = json!(["", "IPv4", "IPv6"]);
        }
        if !field.values.is_empty() {
            out["enum"] = json!(field.values);
        }
        if let Some(default) = &field.default
            && self.v3
        {
            out["default"] = default.clone();
        }
        out
    }

    fn value(&mut self, kind: TypeRef<'_>) -> Value {
        match kind.shape() {
            Shape::Scalar(scalar) => self.scalar(*scalar),
            Shape::List(list) => json!({"type": "array", "items": self.value(kind.at(list.item))}),
            Shape::Map(map) if map.name.is_empty() => {
                let rest = map.rest.map_or_else(|| json!({}), |id| self.value(kind.at(id)));
                json!({"type": "object", "additionalProperties": rest})
            }
            Shape::Map(_) => self.named(kind, None),
            Shape::Any(AnyForm::Raw) => json!({"type": "object"}),
            Shape::Any(AnyForm::SchemaOr(..)) => json!({}),
        }
    }

    fn scalar(&mut self, scalar: ScalarType) -> Value {
        let form = match scalar {
            ScalarType::String => json!({"type": "string"}),
            ScalarType::Bool => json!({"type": "boolean"}),
            ScalarType::Int32 => json!({"type": "integer", "format": "int32"}),
            ScalarType::Int64 => json!({"type": "integer", "format": "int64"}),
            ScalarType::Float => json!({"type": "number", "format": "double"}),
            ScalarType::Bytes => json!({"type": "string", "format": "byte"}),
            ScalarType::Time | ScalarType::MicroTime => json!({"type": "string", "format": "date-time"}),
            ScalarType::Duration => json!({"type": "string"}),
            ScalarType::Quantity if self.v3 => json!({"oneOf": [{"type": "string"}, {"type": "number"}]}),
            ScalarType::IntOrString if self.v3 => {
                json!({"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]})
            }
            ScalarType::Quantity => json!({"type": "string"}),
            ScalarType::IntOrString => json!({"type": "string", "format": "int-or-string"}),
        };
        // Structs of Go are types of their own, whatever they print as.
        let name = match scalar {
            ScalarType::Time => format!("{META}.Time"),
            ScalarType::MicroTime => format!("{META}.MicroTime"),
            ScalarType::Duration => format!("{META}.Duration"),
            ScalarType::Quantity => "io.k8s.apimachinery.pkg.api.resource.Quantity".to_owned(),
            ScalarType::IntOrString => "io.k8s.apimachinery.pkg.util.intstr.IntOrString".to_owned(),
            _ => return form,
        };
        let reference = json!({"$ref": format!("{}{name}", self.prefix)});
        self.found.entry(name).or_insert(form);
        reference
    }
}

/// The default of a field that is no pointer in Go: it has its zero value when nothing is set.
fn zero_value(kind: TypeRef<'_>, field: &StructField) -> Option<Value> {
    if field.pointer {
        return None;
    }
    match kind.shape() {
        Shape::Map(map) if !map.name.is_empty() => Some(json!({})),
        Shape::Scalar(scalar) if field.omit == OmitRule::Never => match scalar {
            ScalarType::String => Some(json!("")),
            ScalarType::Bool => Some(json!(false)),
            ScalarType::Int32 | ScalarType::Int64 | ScalarType::Float => Some(json!(0)),
            _ => None,
        },
        _ => None,
    }
}

/// The description of a type of metadata or of one of its fields, and of the members every object has.
fn description(of: &str, field: &str) -> Option<&'static str> {
    type Texts = HashMap<String, HashMap<String, String>>;
    static TEXTS: OnceLock<Texts> = OnceLock::new();
    let texts = TEXTS.get_or_init(|| {
        serde_json::from_str(include_str!("../../../data/descriptions.json")).unwrap_or_default()
    });
    let own = texts.get(of.strip_prefix("v1.").unwrap_or(of)).and_then(|type_texts| type_texts.get(field));
    own.map(String::as_str).or(match field {
        "apiVersion" => Some(API_VERSION),
        "kind" => Some(KIND),
        _ => None,
    })
}

const API_VERSION: &str = "APIVersion defines the versioned schema of this representation of an object. Servers should convert recognized schemas to the latest internal value, and may reject unrecognized values. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources";
const KIND: &str = "Kind is a string value representing the REST resource this object represents. Servers may infer this from the endpoint the client submits requests to. Cannot be updated. In CamelCase. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds";

/// Groups are written backwards in type names.
fn custom_name(served: &Served, kind: &str) -> String {
    let mut parts: Vec<&str> = served.def.group.split('.').collect();
    parts.reverse();
    format!("{}.{}.{}", parts.join("."), served.def.version, kind)
}

fn add_paths(served: &Served, paths: &mut Map<String, Value>, schemas: &mut Schemas) {
    let def = &served.def;
    let base = if def.group.is_empty() {
        format!("/api/{}", def.version)
    } else {
        format!("/apis/{}", join_api_version(&def.group, &def.version))
    };
    let gvk = json!({"group": def.group, "kind": def.kind, "version": def.version});
    let query =
        |name: &str| json!({"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": true}});
    let reference = match &served.custom {
        Some(_) => json!({"$ref": format!("{}{}", schemas.prefix, custom_name(served, &def.kind))}),
        None => schemas.named(served.shape(), None),
    };
    let operation = |action: &str, parameters: Vec<Value>, body: Option<&[&str]>| {
        let ok = json!({"description": "OK", "content": {"application/json": {"schema": reference}}});
        let mut out = json!({
            "responses": {"200": ok},
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": gvk,
        });
        if !parameters.is_empty() {
            out["parameters"] = json!(parameters);
        }
        if let Some(types) = body {
            let content: Map<String, Value> =
                types.iter().map(|t| ((*t).to_owned(), json!({"schema": reference}))).collect();
            out["requestBody"] = json!({"content": content});
        }
        out
    };
    let writing = || vec![query("dryRun"), query("fieldManager"), query("fieldValidation")];
    let mut collection = Map::new();
    let mut item = Map::new();
    for verb in &def.verbs {
        match verb.as_str() {
            "list" => {
                collection.insert("get".into(), operation("list", vec![query("labelSelector")], None));
            }
            "create" => {
                collection.insert("post".into(), operation("post", writing(), Some(&["*/*"])));
            }
            "deletecollection" => {
                collection
                    .insert("delete".into(), operation("deletecollection", vec![query("dryRun")], None));
            }
            "get" => {
                item.insert("get".into(), operation("get", vec![], None));
            }
            "update" => {
                item.insert("put".into(), operation("put", writing(), Some(&["*/*"])));
            }
            "patch" => {
                let mut types = vec![
                    "application/apply-patch+yaml",
                    "application/json-patch+json",
                    "application/merge-patch+json",
                ];
                if served.custom.is_none() {
                    types.push("application/strategic-merge-patch+json");
                }
                let mut parameters = writing();
                parameters.push(query("force"));
                item.insert("patch".into(), operation("patch", parameters, Some(&types)));
            }
            "delete" => {
                item.insert("delete".into(), operation("delete", vec![query("dryRun")], None));
            }
            _ => {}
        }
    }
    let place = if def.namespaced { format!("{base}/namespaces/{{namespace}}") } else { base.clone() };
    if !collection.is_empty() {
        if def.namespaced
            && let Some(list) = collection.get("get")
        {
            paths.insert(format!("{base}/{}", def.plural), json!({"get": list}));
        }
        paths.insert(format!("{place}/{}", def.plural), Value::Object(collection));
    }
    if !item.is_empty() {
        paths.insert(format!("{place}/{}/{{name}}", def.plural), Value::Object(item));
    }
}
