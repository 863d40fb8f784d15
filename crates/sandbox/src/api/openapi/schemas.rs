//! The schemas of built-in types, made from the schema table.

use std::collections::{BTreeMap, HashMap};
use std::sync::OnceLock;

use serde_json::{Map, Value, json};
use slipway_manifest::schema::{
    AnyForm, ListKind, OmitRule, ScalarType, Schema, Shape, ShapeId, StructField, TypeRef,
};

use crate::api::resource::ServedResource;

pub(super) const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";

pub(super) struct SchemaCollector {
    pub(super) prefix: &'static str,
    pub(super) v3: bool,
    pub(super) found: BTreeMap<String, Value>,
}

impl SchemaCollector {
    pub(super) fn add_resource(&mut self, served: &ServedResource) {
        if let Some(custom) = &served.custom {
            self.add_custom(served, custom);
            return;
        }
        let kind = served.type_ref();
        self.named_reference(kind, Some((&served.def.group, &served.def.version, &served.def.kind)));
        if let Some(list) = Schema::built_in().types().type_of_kind(served.api_version(), &served.list_kind) {
            self.named_reference(list, Some((&served.def.group, &served.def.version, &served.list_kind)));
        }
    }

    /// A reference to a named type, which is added with all it refers to.
    pub(super) fn named_reference(&mut self, kind: TypeRef<'_>, gvk: Option<(&str, &str, &str)>) -> Value {
        let name = type_names().get(&kind.id()).cloned().unwrap_or_else(|| "io.k8s.unknown".to_owned());
        let reference = json!({"$ref": format!("{}{name}", self.prefix)});
        if !self.found.contains_key(&name) {
            self.found.insert(name.clone(), Value::Null);
            let body = self.structure_schema(kind);
            self.found.insert(name.clone(), body);
        }
        if let (Some((group, version, kind)), Some(body)) = (gvk, self.found.get_mut(&name)) {
            body["x-kubernetes-group-version-kind"] =
                json!([{"group": group, "kind": kind, "version": version}]);
        }
        reference
    }

    fn structure_schema(&mut self, kind: TypeRef<'_>) -> Value {
        let Some(map) = kind.as_map() else { return json!({"type": "object"}) };
        let mut properties = Map::new();
        let mut required = Vec::new();
        for field in &map.fields {
            let mut property = self.field_schema(kind, field);
            if let Some(text) = field_description(&map.name, &field.name) {
                property["description"] = text.into();
            }
            properties.insert(field.name.clone(), property);
            if field.required {
                required.push(field.name.clone());
            }
        }
        required.sort();
        let mut out = json!({"type": "object"});
        if let Some(text) = field_description(&map.name, "") {
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

    fn field_schema(&mut self, parent: TypeRef<'_>, field: &StructField) -> Value {
        let kind = parent.at(field.shape);
        let mut out = self.value_schema(kind);
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

    fn value_schema(&mut self, kind: TypeRef<'_>) -> Value {
        match kind.shape() {
            Shape::Scalar(scalar) => self.scalar_schema(*scalar),
            Shape::List(list) => json!({"type": "array", "items": self.value_schema(kind.at(list.item))}),
            Shape::Map(map) if map.name.is_empty() => {
                let rest = map.rest.map_or_else(|| json!({}), |id| self.value_schema(kind.at(id)));
                json!({"type": "object", "additionalProperties": rest})
            }
            Shape::Map(_) => self.named_reference(kind, None),
            Shape::Any(AnyForm::Raw) => json!({"type": "object"}),
            Shape::Any(AnyForm::SchemaOr(..)) => json!({}),
        }
    }

    fn scalar_schema(&mut self, scalar: ScalarType) -> Value {
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
pub(super) fn field_description(of: &str, field: &str) -> Option<&'static str> {
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

pub(super) const API_VERSION: &str = "APIVersion defines the versioned schema of this representation of an object. Servers should convert recognized schemas to the latest internal value, and may reject unrecognized values. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources";

pub(super) const KIND: &str = "Kind is a string value representing the REST resource this object represents. Servers may infer this from the endpoint the client submits requests to. Cannot be updated. In CamelCase. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds";

/// Groups are written backwards in type names.
pub(super) fn custom_name(served: &ServedResource, kind: &str) -> String {
    let mut parts: Vec<&str> = served.def.group.split('.').collect();
    parts.reverse();
    format!("{}.{}.{}", parts.join("."), served.def.version, kind)
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
