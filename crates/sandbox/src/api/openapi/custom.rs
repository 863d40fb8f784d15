//! Custom resources in OpenAPI: the schema of a definition with what every object has, and what version 2 of
//! the format cannot say left out.

use serde_json::{Map, Value, json};
use slipway_manifest::schema::Schema;

use crate::api::crd::Custom;
use crate::api::resource::Served;

use super::{API_VERSION, KIND, Schemas, custom_name};

const CONVENTIONS: &str =
    "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md";

impl Schemas {
    /// Adds a custom resource and its list.
    pub(super) fn custom(&mut self, served: &Served, custom: &Custom) {
        let (name, schema) = (custom_name(served, &served.def.kind), custom.schema());
        let open = schema["x-kubernetes-preserve-unknown-fields"] == true;
        // Clients would refuse what is not among the properties of an open object.
        let mut body = if !schema.is_object() || (open && !self.v3) {
            json!({"type": "object"})
        } else {
            let mut body = if self.v3 { schema.clone() } else { reduced(schema) };
            let metadata = self.metadata("ObjectMeta", "object's metadata", "metadata");
            set(&mut body, "apiVersion", json!({"type": "string", "description": API_VERSION}));
            set(&mut body, "kind", json!({"type": "string", "description": KIND}));
            set(&mut body, "metadata", metadata);
            self.embed(&mut body);
            body
        };
        let mut list = json!({
            "type": "object",
            "description": format!("{} is a list of {}", served.list_kind, served.def.kind),
            "required": ["items"],
            "properties": {
                "apiVersion": {"type": "string", "description": API_VERSION},
                "kind": {"type": "string", "description": KIND},
                "items": {
                    "type": "array",
                    "description": format!("List of {}. More info: {CONVENTIONS}", served.def.plural),
                    "items": {"$ref": format!("{}{name}", self.prefix)},
                },
                "metadata": self.metadata("ListMeta", "list metadata", "types-kinds"),
            },
        });
        let paths = custom.selectable_fields().iter();
        let fields: Vec<Value> =
            paths.map(|path| json!({"fieldPath": path.trim_start_matches('.')})).collect();
        for (body, kind) in [(&mut body, &served.def.kind), (&mut list, &served.list_kind)] {
            body["x-kubernetes-group-version-kind"] =
                json!([{"group": served.def.group, "kind": kind, "version": served.def.version}]);
            if !fields.is_empty() {
                body["x-kubernetes-selectable-fields"] = fields.clone().into();
            }
        }
        self.found.insert(name, body);
        self.found.insert(custom_name(served, &served.list_kind), list);
    }

    /// A reference to a type of metadata, which is added.
    fn metadata(&mut self, name: &str, what: &str, section: &str) -> Value {
        let types = Schema::built_in().types();
        let of = if name == "ListMeta" { "ConfigMapList" } else { "ConfigMap" };
        let reference = types
            .type_of_kind("v1", of)
            .and_then(|kind| kind.child("metadata"))
            .map_or_else(|| json!({}), |kind| self.named(kind, None));
        let mut out = if self.v3 { json!({"allOf": [reference]}) } else { reference };
        out["description"] = format!("Standard {what}. More info: {CONVENTIONS}#{section}").into();
        out
    }

    /// Adds what every object has to the objects within.
    fn embed(&mut self, schema: &mut Value) {
        let Some(members) = schema.as_object_mut() else { return };
        for key in ["properties", "items", "additionalProperties"] {
            match members.get_mut(key) {
                Some(Value::Object(properties)) if key == "properties" => {
                    properties.values_mut().for_each(|property| self.embed(property));
                }
                Some(inner) => self.embed(inner),
                None => {}
            }
        }
        let is = |key: &str| members.get(key) == Some(&Value::Bool(true));
        if !is("x-kubernetes-embedded-resource") || (is("x-kubernetes-preserve-unknown-fields") && !self.v3) {
            return;
        }
        let version = format!(
            "apiVersion defines the versioned schema of this representation of an object. More info: {CONVENTIONS}#resources"
        );
        let kind = format!(
            "kind is a string value representing the type of this object. In CamelCase. More info: {CONVENTIONS}#types-kinds"
        );
        let metadata = self.metadata("ObjectMeta", "object's metadata", "metadata");
        set(schema, "apiVersion", json!({"type": "string", "description": version}));
        set(schema, "kind", json!({"type": "string", "description": kind}));
        set(schema, "metadata", metadata);
        let mut required = schema["required"].as_array().cloned().unwrap_or_default();
        for name in ["kind", "apiVersion"] {
            if !required.iter().any(|r| r == name) {
                required.push(name.into());
            }
        }
        schema["required"] = required.into();
    }
}

fn set(schema: &mut Value, name: &str, property: Value) {
    if !schema["properties"].is_object() {
        schema["properties"] = json!({});
    }
    schema["properties"][name] = property;
}

/// A schema without what version 2 of OpenAPI, or kubectl reading it, does not understand.
fn reduced(schema: &Value) -> Value {
    let Some(members) = schema.as_object() else { return schema.clone() };
    let is = |schema: &Value, key: &str| schema[key] == true;
    let (nullable, open) = (is(schema, "nullable"), is(schema, "x-kubernetes-preserve-unknown-fields"));
    let untyped = nullable || open;
    let listless = schema["type"] == "array" && (untyped || schema["items"].is_null());
    let mut out = Map::new();
    for (key, value) in members {
        let value = match key.as_str() {
            "allOf" | "oneOf" | "anyOf" | "not" | "default" | "nullable" | "example" | "externalDocs" => {
                continue;
            }
            "items" | "properties" if untyped => continue,
            "type" if nullable || listless || (open && value == "object") => continue,
            "properties" => {
                let entries = value.as_object().into_iter().flatten();
                Value::Object(entries.map(|(name, schema)| (name.clone(), reduced(schema))).collect())
            }
            "items" | "additionalProperties" => reduced(value),
            "required" => {
                let nulls = |name: &Value| {
                    name.as_str().is_some_and(|name| is(&schema["properties"][name], "nullable"))
                };
                let mut names = value.as_array().cloned().unwrap_or_default();
                names.retain(|name| !nulls(name));
                if names.is_empty() || is(&schema["additionalProperties"], "nullable") {
                    continue;
                }
                names.into()
            }
            _ => value.clone(),
        };
        out.insert(key.clone(), value);
    }
    Value::Object(out)
}
