//! One served version of a custom resource: decoding, defaults and validation of its objects.

use serde_json::Value;
use slipway_manifest::crd::CustomResource;
use slipway_manifest::field_error::{FieldError, FieldErrorKind};
use slipway_manifest::schema::{Schema, TypeRef};

use super::rules::SchemaRules;
use super::scale::{ScalePaths, json_pointer};
use crate::api::resource::ServedResource;
use crate::status::StatusCause;
use crate::write::admit::prepare::ObjectPart;
use crate::write::typed::DecodedObject;
use slipway_go::GoError;

/// One served version of a custom resource.
#[derive(Debug)]
pub(crate) struct CustomVersion {
    pub storage_version: String,
    pub columns: Vec<Value>,
    pub has_status: bool,
    /// `specReplicasPath`, `statusReplicasPath`, `labelSelectorPath` as pointers.
    pub scale: Option<ScalePaths>,
    deprecated: Option<String>,
    selectable: Vec<String>,
    schema: Value,
    has_defaults: bool,
    resource: CustomResource,
    /// The schema that decides which fields are stored, if it is another version's.
    stored: Option<CustomResource>,
    rules: SchemaRules,
}

/// Returns true if a schema sets a default anywhere.
fn has_defaults(schema: &Value) -> bool {
    let mut todo = vec![schema];
    while let Some(value) = todo.pop() {
        match value {
            Value::Object(members) if members.contains_key("default") => return true,
            Value::Object(members) => todo.extend(members.values()),
            Value::Array(items) => todo.extend(items),
            _ => {}
        }
    }
    false
}

impl CustomVersion {
    pub(super) fn new(definition: &Value, version: &Value) -> CustomVersion {
        let storage = definition["spec"]["versions"]
            .as_array()
            .into_iter()
            .flatten()
            .find(|v| v["storage"] == true)
            .and_then(|v| v["name"].as_str())
            .unwrap_or("");
        let text = |v: &Value| v.as_str().map(str::to_owned);
        let scale = &version["subresources"]["scale"];
        let (group, name, kind) =
            (&definition["spec"]["group"], &version["name"], &definition["spec"]["names"]["kind"]);
        let deprecated = (version["deprecated"] == true).then(|| {
            text(&version["deprecationWarning"]).unwrap_or_else(|| {
                let word = |v: &Value| v.as_str().unwrap_or("").to_owned();
                let newer = definition["spec"]["versions"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .filter(|v| v["served"] == true && v["deprecated"] != true)
                    .max_by_key(|v| crate::api::resource::version_order(v["name"].as_str().unwrap_or("")));
                let instead = newer
                    .map(|v| format!("; use {}/{} {}", word(group), word(&v["name"]), word(kind)))
                    .unwrap_or_default();
                format!("{}/{} {} is deprecated{instead}", word(group), word(name), word(kind))
            })
        });
        let api_version = slipway_manifest::object::join_api_version(
            group.as_str().unwrap_or(""),
            name.as_str().unwrap_or(""),
        );
        let schema = version["schema"].get("openAPIV3Schema");
        // Schemas too deep to read were refused with their definition.
        let resource = CustomResource::new(&api_version, kind.as_str().unwrap_or(""), schema)
            .or_else(|_| CustomResource::new(&api_version, kind.as_str().unwrap_or(""), None))
            .unwrap_or_else(|_| unreachable!("no schema is not too deep"));
        let stored = definition["spec"]["versions"]
            .as_array()
            .into_iter()
            .flatten()
            .find(|v| v["storage"] == true && v["name"] != *name)
            .and_then(|v| {
                CustomResource::new(
                    &api_version,
                    kind.as_str().unwrap_or(""),
                    v["schema"].get("openAPIV3Schema"),
                )
                .ok()
            });
        CustomVersion {
            stored,
            storage_version: storage.to_owned(),
            columns: version["additionalPrinterColumns"].as_array().cloned().unwrap_or_default(),
            has_status: version["subresources"]["status"].is_object(),
            scale: scale["specReplicasPath"].as_str().map(|spec| ScalePaths {
                spec_path: json_pointer(spec),
                status_path: json_pointer(scale["statusReplicasPath"].as_str().unwrap_or("")),
                selector_path: scale["labelSelectorPath"].as_str().map(json_pointer),
            }),
            deprecated,
            selectable: version["selectableFields"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|f| text(&f["jsonPath"]))
                .collect(),
            schema: version["schema"]["openAPIV3Schema"].clone(),
            has_defaults: has_defaults(&version["schema"]["openAPIV3Schema"]),
            rules: if resource.has_rules() {
                SchemaRules::compile_schema(&version["schema"]["openAPIV3Schema"])
            } else {
                SchemaRules::default()
            },
            resource,
        }
    }

    /// Returns true if reading an object may add defaults to it.
    pub(crate) fn has_defaults(&self) -> bool {
        self.has_defaults
    }

    pub(crate) fn schema_value(&self) -> &Value {
        &self.schema
    }

    pub(crate) fn type_ref(&self) -> TypeRef<'_> {
        self.resource.object_type()
    }

    /// The paths lists and watches may be filtered by.
    pub(crate) fn selectable_fields(&self) -> &[String] {
        &self.selectable
    }

    pub(crate) fn selectable_path(&self, key: &str) -> Option<String> {
        self.selectable.iter().find(|path| path.trim_start_matches('.') == key).map(|path| json_pointer(path))
    }

    pub(crate) fn deprecation_warning(&self, _: &ServedResource) -> Option<String> {
        self.deprecated.clone()
    }

    /// Prunes unknown fields and sorts members, as unstructured objects are printed.
    pub(crate) fn decode_object(
        &self,
        value: Value,
        duplicates: &[String],
    ) -> Result<DecodedObject, GoError> {
        let mut value = value;
        let mut unknown = Vec::new();
        // Metadata is typed, whatever the schema says of the rest.
        if let Some(metadata) = value.get_mut("metadata") {
            let meta = Schema::built_in()
                .types()
                .type_of_kind("v1", "ConfigMap")
                .and_then(|kind| kind.child("metadata"));
            if let Some(meta) = meta {
                let taken = metadata.take();
                let decoded = crate::write::typed::decode_typed(taken, meta, &[])?;
                *metadata = decoded.value;
                unknown = decoded.strict;
            }
        }
        let mut strict = self.resource.prune_unknown_fields(&mut value).map_err(|e| e.to_string())?;
        strict.extend(unknown.iter().map(|text| text.replacen('"', "\"metadata.", 1)));
        strict.extend(duplicates.iter().map(|d| format!("duplicate field {d:?}")));
        Ok(DecodedObject { value: sort_members(value), strict })
    }

    pub(crate) fn prepare_create(&self, object: &mut Value, applied: bool) {
        if self.has_status
            && let Some(members) = object.as_object_mut()
        {
            members.shift_remove("status");
        }
        self.apply_defaults(object, applied);
    }

    /// Drops fields the stored version does not have.
    pub(crate) fn prune_for_storage(&self, object: &mut Value) {
        if let Some(stored) = &self.stored {
            // Objects too deep were refused when they were decoded.
            let _ = stored.prune_unknown_fields(object);
        }
    }

    /// Sets defaults. Drops nulls that are not allowed, unless the object was applied.
    pub(crate) fn apply_defaults(&self, object: &mut Value, applied: bool) {
        if !applied {
            drop_nulls(object, &self.schema);
        }
        // Objects too deep were refused when they were decoded.
        if self.resource.set_defaults(object).is_ok() {
            *object = sort_members(object.take());
        }
    }

    pub(crate) fn validate_object(
        &self,
        object: &Value,
        old: Option<&Value>,
        part: ObjectPart,
        out: &mut Vec<StatusCause>,
    ) {
        let Ok([mut values, mut items]) = self.resource.validate_in_steps(object) else { return };
        // Errors of the old object that were not touched are let through.
        if let Some(old) = old {
            values.retain(|error| !is_unchanged(error, &self.schema, object, old));
            items.retain(|error| !is_unchanged(error, &self.schema, object, old));
        }
        for error in &values {
            let mut cause = field_cause(error);
            if part == ObjectPart::Status {
                // A status is checked on its own; its errors name the field from there.
                let path = error.field.strip_prefix("status").unwrap_or(&error.field);
                let path = path.strip_prefix('.').unwrap_or(path);
                let (whole, own) = (format!(": {} in body", error.field), format!(": {path} in body"));
                cause.message = cause.message.replace(&whole, &own);
            }
            if is_without_path(error) {
                cause.field = "<nil>".into();
            }
            out.push(cause);
        }
        if let Some(scale) = &self.scale {
            scale.check_values(object, part, out);
        }
        out.extend(items.iter().map(field_cause));
        values.append(&mut items);
        if self.resource.has_rules()
            && let Ok(broken) = self.resource.check_rules(object, old, &values, &self.rules)
        {
            out.extend(broken.iter().map(field_cause));
        }
    }
}

/// Returns true if a real server reports this error without a field path.
fn is_without_path(error: &FieldError) -> bool {
    let text = error.to_string();
    let ranged = ["Checked", "MultipleOf", "Minimum boundary", "Maximum boundary"];
    ranged.iter().any(|what| text.contains(&format!(": {what} value must be of type ")))
        || text.contains(&format!(": {:?} must ", error.field))
}

/// Returns true if an error is about a value that did not change, or about a part of one. Items of a list are told to be the
/// same only by their keys.
fn is_unchanged(error: &FieldError, schema: &Value, new: &Value, old: &Value) -> bool {
    // A missing field is an error of its parent.
    let path = match error.kind {
        FieldErrorKind::Required => error.field.rsplit_once('.').map_or("", |(parent, _)| parent),
        _ => error.field.as_str(),
    };
    let (mut schema, mut new, mut old) = (schema, new, old);
    for part in path.split('.').filter(|part| !part.is_empty()) {
        let (name, indexes) = part.split_once('[').unwrap_or((part, ""));
        let (Some(inner), Some(before)) = (new.get(name), old.get(name)) else { return false };
        let property = schema["properties"].get(name);
        (schema, new, old) = (property.unwrap_or(&schema["additionalProperties"]), inner, before);
        if new == old {
            return true;
        }
        for index in indexes.split('[').map(|i| i.trim_end_matches(']')).filter(|i| !i.is_empty()) {
            let found = match index.parse::<usize>() {
                Ok(index) => new.get(index).and_then(|item| Some((item, same_item(schema, item, old)?))),
                Err(_) => {
                    let key = index.trim_matches('"');
                    new.get(key).and_then(|inner| Some((inner, old.get(key)?)))
                }
            };
            let Some((inner, before)) = found else { return false };
            let items = schema.get("items").or_else(|| schema.get("additionalProperties"));
            (schema, new, old) = (items.unwrap_or(&Value::Null), inner, before);
            if new == old {
                return true;
            }
        }
    }
    false
}

/// The item of the old list that has the same keys.
fn same_item<'v>(schema: &Value, item: &Value, old: &'v Value) -> Option<&'v Value> {
    if schema["x-kubernetes-list-type"] != "map" {
        return None;
    }
    let keys = schema["x-kubernetes-list-map-keys"].as_array()?;
    let same =
        |before: &&Value| keys.iter().filter_map(Value::as_str).all(|key| before.get(key) == item.get(key));
    old.as_array()?.iter().find(same)
}

/// Drops nulls where the schema allows neither null nor a default.
fn drop_nulls(value: &mut Value, schema: &Value) {
    match value {
        Value::Object(members) => {
            let of = |key: &str| {
                schema["properties"]
                    .get(key)
                    .or_else(|| schema.get("additionalProperties"))
                    .filter(|s| s.is_object())
            };
            members.retain(|key, member| {
                !member.is_null()
                    || of(key).is_none_or(|s| s["nullable"] == true || s.get("default").is_some())
            });
            for (key, member) in members.iter_mut() {
                if let Some(schema) = of(key) {
                    drop_nulls(member, schema);
                }
            }
        }
        Value::Array(items) => {
            for item in items {
                drop_nulls(item, &schema["items"]);
            }
        }
        _ => {}
    }
}

fn sort_members(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let mut members: Vec<_> = members.into_iter().collect();
            members.sort_by(|a, b| a.0.cmp(&b.0));
            Value::Object(members.into_iter().map(|(k, v)| (k, sort_members(v))).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(sort_members).collect()),
        other => other,
    }
}

/// A field's problem as a status lists it.
pub(super) fn field_cause(error: &FieldError) -> StatusCause {
    let reason = error.reason();
    let field = if error.field.is_empty() { "<nil>".to_owned() } else { error.field.clone() };
    let text = error.to_string();
    let message = text.strip_prefix(&format!("{field}: ")).unwrap_or(&text).to_owned();
    StatusCause { reason, field, message }
}
