//! Request bodies: parsed in their format, decoded as the request's kind and compared with its path.

use serde_json::Value;
use slipway_manifest::decode::ProtobufError;
use slipway_manifest::schema::Schema;

use super::ResourceRequest;
use crate::api::resource::ServedResource;
use crate::http::body::ParsedBody;
use crate::http::negotiate::{BodyForm, TypeOrigin};
use crate::http::query::FieldValidation;
use crate::status::{Result, Status};

impl ResourceRequest {
    /// Reads the body in whatever form it came.
    pub(crate) fn parse_body(&self) -> Result<ParsedBody> {
        let form = crate::http::negotiate::body_form(&self.content_type, self.served.type_origin())?;
        self.parse_as(form)
    }

    /// Reads the options of a deletion, whose type every resource has in every form.
    pub(crate) fn parse_options(&self) -> Result<ParsedBody> {
        self.parse_as(crate::http::negotiate::body_form(&self.content_type, TypeOrigin::BuiltIn)?)
    }

    fn parse_as(&self, form: BodyForm) -> Result<ParsedBody> {
        let kind = &self.served.def.kind;
        match form {
            BodyForm::Json => {
                crate::http::body::parse_json(&self.body).map_err(|e| unrecognized_body(kind, &self.body, &e))
            }
            BodyForm::Yaml => crate::http::body::parse_yaml(&self.body).map_err(|e| {
                Status::bad_request(format!(
                    "the object provided is unrecognized (must be of type {kind}): {} ({})",
                    e.trim_start_matches("error converting YAML to JSON: "),
                    body_summary(&self.body)
                ))
            }),
            BodyForm::Protobuf => {
                slipway_manifest::decode::decode_protobuf(&self.body, Schema::built_in().types())
                    .map(|decoded| ParsedBody { value: decoded.object, ..ParsedBody::default() })
                    .map_err(|e| match e {
                        ProtobufError::Decode(e) => {
                            Status::bad_request(e.cannot_be_handled(kind, &self.served.def.version))
                        }
                        e => Status::bad_request(format!(
                            "the object provided is unrecognized (must be of type {kind}): {e}"
                        )),
                    })
            }
        }
    }

    /// Reads and decodes an object of the request's own kind. Strict problems become an error or warnings.
    pub(crate) fn decode_object(
        &self,
        validation: FieldValidation,
        warnings: &mut Vec<String>,
    ) -> Result<Value> {
        let mut parsed = self.parse_body()?;
        let served = &self.served;
        if parsed.value.is_null() {
            // Go reads null as an object with nothing in it.
            parsed.value = Value::Object(serde_json::Map::new());
        }
        check_kind(served, &parsed.value, &self.body)?;
        self.decode_value(parsed, validation, warnings)
    }

    pub(crate) fn decode_value(
        &self,
        parsed: ParsedBody,
        validation: FieldValidation,
        warnings: &mut Vec<String>,
    ) -> Result<Value> {
        let served = &self.served;
        let (kind, version) = (&served.def.kind, served.api_version());
        let short = &served.def.version;
        let cannot = |why: &str| {
            Status::bad_request(format!("{kind} in version {short:?} cannot be handled as a {kind}: {why}"))
        };
        let mut value = parsed.value;
        let forget = value["metadata"]["managedFields"].as_array().is_some_and(Vec::is_empty);
        if let Value::Object(members) = &mut value {
            // A body may leave its type to the path.
            members.insert("kind".into(), kind.as_str().into());
            members.insert("apiVersion".into(), version.into());
        }
        let (mut value, mut strict) = match &served.custom {
            Some(custom) => {
                let pruned = custom.decode_object(value, &parsed.duplicates).map_err(|e| cannot(&e))?;
                (pruned.value, pruned.strict)
            }
            None => {
                let decode = if parsed.merged {
                    crate::write::typed::convert_merged
                } else {
                    crate::write::typed::decode_typed
                };
                let decoded = decode(value, served.type_ref(), &parsed.duplicates).map_err(|e| cannot(&e))?;
                (decoded.value, decoded.strict)
            }
        };
        if forget {
            // An empty list says to forget all owners; decoding would lose it.
            crate::write::admit::meta::metadata_mut(&mut value)
                .insert("managedFields".into(), serde_json::json!([{}]));
        }
        if served.custom.is_some() || self.content_type.contains("patch") {
            // What went through a Go map comes out sorted.
            strict.sort();
        }
        match validation {
            FieldValidation::Ignore => {}
            FieldValidation::Warn => {
                warnings.extend(parsed.repeated);
                warnings.extend(strict);
            }
            FieldValidation::Strict if !parsed.repeated.is_empty() => {
                strict.insert(0, repeated_keys_message(&parsed.repeated));
                return Err(cannot(&format!("strict decoding error: {}", strict.join(", "))));
            }
            FieldValidation::Strict if strict.is_empty() => {}
            FieldValidation::Strict => {
                return Err(cannot(&format!("strict decoding error: {}", strict.join(", "))));
            }
        }
        Ok(value)
    }
}

/// Keys given twice, as Go's YAML library reports them together.
pub(super) fn repeated_keys_message(lines: &[String]) -> String {
    format!("yaml: unmarshal errors:\n  {}", lines.join("\n  "))
}

/// The beginning of a body for a message: as text when it looks like JSON, else in hexadecimal.
fn body_summary(body: &[u8]) -> String {
    const SHOWN: usize = 30;
    let head = body.get(..SHOWN).unwrap_or(body);
    let mut text = if body.first() == Some(&b'{') {
        String::from_utf8_lossy(head).into_owned()
    } else {
        data_encoding::HEXLOWER.encode(head)
    };
    if body.len() > SHOWN {
        text.push_str(" ...");
    }
    text
}

/// 400 about a body that is no object.
fn unrecognized_body(kind: &str, body: &[u8], why: &str) -> Box<Status> {
    let shown = if body.is_empty() { "<empty>".to_owned() } else { body_summary(body) };
    Status::bad_request(format!(
        "the object provided is unrecognized (must be of type {kind}): couldn't get version/kind; json parse error: {why} ({shown})"
    ))
}

/// Refuses bodies of another type than the endpoint's.
fn check_kind(served: &ServedResource, value: &Value, body: &[u8]) -> Result<()> {
    let wanted = &served.def.kind;
    if !value.is_object() {
        let word = match value {
            Value::Array(_) => "array",
            Value::String(_) => "string",
            Value::Bool(_) => "bool",
            Value::Number(_) => "number",
            _ => return Err(missing_kind(wanted, body)),
        };
        return Err(unrecognized_body(
            wanted,
            body,
            &format!(
                "json: cannot unmarshal {word} into Go value of type struct {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}"
            ),
        ));
    }
    for (member, field) in [("kind", "kind"), ("apiVersion", "apiVersion")] {
        let word = match &value[member] {
            Value::Null | Value::String(_) => continue,
            Value::Bool(_) => "bool",
            Value::Number(_) => "number",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        };
        return Err(unrecognized_body(
            wanted,
            body,
            &format!("json: cannot unmarshal {word} into Go struct field .{field} of type string"),
        ));
    }
    let kind = value["kind"].as_str().unwrap_or("");
    let version = value["apiVersion"].as_str().unwrap_or("");
    let ours = served.api_version();
    if served.custom.is_some() {
        if kind.is_empty() {
            return Err(missing_kind(wanted, body));
        }
        if version.is_empty() {
            return Err(Status::bad_request(format!(
                "the object provided is unrecognized (must be of type {wanted}): Object 'apiVersion' is missing in '{}'",
                String::from_utf8_lossy(body)
            )));
        }
        if kind != wanted {
            let group = slipway_manifest::object::split_api_version(version).0;
            return Err(Status::invalid(
                crate::status::NamedResource { group, what: kind },
                crate::write::admit::meta::metadata_text(value, "name"),
                vec![crate::status::StatusCause::invalid("kind", &kind.into(), &format!("must be {wanted}"))],
            ));
        }
        if version != ours {
            return Err(Status::bad_request(format!(
                "the API version in the data ({version}) does not match the expected API version ({ours})"
            )));
        }
        return Ok(());
    }
    if (kind.is_empty() || kind == wanted) && (version.is_empty() || version == ours) {
        return Ok(());
    }
    let shown_kind = if kind.is_empty() { wanted } else { kind };
    let shown_version = if version.is_empty() { ours } else { version };
    let group = &served.def.group;
    let internal = if group.is_empty() { "core" } else { group.split('.').next().unwrap_or(group) };
    let why = why_not_converted((shown_version, shown_kind), (internal, wanted));
    Err(Status::bad_request(format!(
        "{shown_kind} in version {:?} cannot be handled as a {wanted}: {why}",
        slipway_manifest::object::split_api_version(shown_version).1
    )))
}

/// Says why a kind of a version is not the kind of a group that was asked for.
pub(super) fn why_not_converted((version, kind): (&str, &str), (internal, wanted): (&str, &str)) -> String {
    let known = Schema::built_in().types().type_of_kind(version, kind);
    match known.and_then(slipway_manifest::TypeRef::as_map) {
        Some(shape) => format!("converting ({}) to ({internal}.{wanted}): unknown conversion", shape.name),
        None => format!(
            "no kind {kind:?} is registered for version {version:?} in scheme \"pkg/runtime/scheme.go:111\""
        ),
    }
}

fn missing_kind(wanted: &str, body: &[u8]) -> Box<Status> {
    Status::bad_request(format!(
        "the object provided is unrecognized (must be of type {wanted}): Object 'Kind' is missing in '{}'",
        String::from_utf8_lossy(body)
    ))
}

/// Checks the name and namespace of a body against the path, and fills them in.
pub(crate) fn check_identity(request: &ResourceRequest, value: &mut Value, naming: NameSource) -> Result<()> {
    let path = &request.path;
    let name = crate::write::admit::meta::metadata_text(value, "name").to_owned();
    if naming != NameSource::Free {
        if name.is_empty() && naming == NameSource::Required {
            return Err(Status::bad_request(format!(
                "the name of the object ({} based on URL) was undeterminable: name must be provided",
                path.name
            )));
        }
        if !name.is_empty() && name != path.name {
            return Err(Status::bad_request(format!(
                "the name of the object ({name}) does not match the name on the URL ({})",
                path.name
            )));
        }
        crate::write::admit::meta::metadata_mut(value).insert("name".into(), path.name.as_str().into());
    }
    check_namespace(request, value)?;
    if !request.served.def.namespaced {
        crate::write::admit::meta::metadata_mut(value).shift_remove("namespace");
    }
    Ok(())
}

/// Checks the namespace of a body against the path.
pub(super) fn check_namespace(request: &ResourceRequest, value: &Value) -> Result<()> {
    let namespace = crate::write::admit::meta::metadata_text(value, "namespace");
    if request.served.def.namespaced && !namespace.is_empty() && namespace != request.path.namespace {
        return Err(Status::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    Ok(())
}

/// The source of a body's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NameSource {
    Free,
    Required,
    FromPath,
}
