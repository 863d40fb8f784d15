//! PATCH in its four forms.

use serde_json::{Value, json};
use slipway_manifest::object::json_type;
use slipway_manifest::patch::{PatchError, json as json_patch, merge, strategic};
use slipway_manifest::schema::Schema;

use crate::http::body::ParsedBody;
use crate::http::negotiate::{PatchForm, patch_form};
use crate::http::query::{FieldValidation, bad_option};
use crate::http::respond::Reply;
use crate::status::{NamedResource, Result, Status, StatusCause};
use crate::write::admit::meta;
use crate::write::admit::prepare::ObjectPart;
use crate::write::convert;
use crate::write::{FieldOwnership, LiveObject, UpdateProposal, parse_revision};

use super::{NameSource, ResourceRequest, check_identity, check_namespace};

/// More operations than this are refused.
const MOST_OPERATIONS: usize = 10_000;

pub(super) fn patch_object(request: &ResourceRequest) -> Result<Reply> {
    patch_part(request, ObjectPart::Main)
}

/// Patches one part of an object.
pub(super) fn patch_part(request: &ResourceRequest, part: ObjectPart) -> Result<Reply> {
    let form = patch_form(&request.content_type, request.served.type_origin())?;
    let author = request.write_author("PatchOptions")?;
    let validation = request.query.field_validation("PatchOptions")?;
    let force = request.query.bool_value("force");
    if form == PatchForm::Apply {
        if request.query.non_empty("fieldManager").is_none() {
            return Err(bad_option(
                "PatchOptions",
                vec![StatusCause::required("fieldManager", "is required for apply patch")],
            ));
        }
        return apply_configuration(request, part, force.unwrap_or(false), validation);
    }
    if force.is_some() {
        return Err(bad_option(
            "PatchOptions",
            vec![StatusCause::forbidden("force", "may not be specified for non-apply patch")],
        ));
    }
    let body = parse_patch(request, form)?;
    let served = request.storage_resource();
    let written = request.core.update_object(&served, &request.object_key(), part, &author, &mut |live| {
        patched_proposal(request, live, form, &body, validation, part)
    })?;
    Ok(request.write_reply(written))
}

/// Reads the patch itself.
fn parse_patch(request: &ResourceRequest, form: PatchForm) -> Result<ParsedBody> {
    let parsed = crate::http::body::parse_json(&request.body).map_err(|e| match form {
        PatchForm::Json | PatchForm::Strategic | PatchForm::Merge => {
            Status::bad_request("invalid JSON patch")
        }
        PatchForm::Apply => Status::bad_request(e),
    })?;
    match (form, &parsed.value) {
        (PatchForm::Json, Value::Array(operations)) if operations.len() > MOST_OPERATIONS => {
            let mut status = Status::new(
                413,
                "RequestEntityTooLarge",
                format!(
                    "The allowed maximum operations in a JSON patch is {MOST_OPERATIONS}, got {}",
                    operations.len()
                ),
            );
            status.details = Some(json!({}));
            Err(status)
        }
        (PatchForm::Json, Value::Array(operations)) => {
            match operations.iter().find(|operation| !operation.is_object() && !operation.is_null()) {
                None => Ok(parsed),
                Some(odd) => Err(Status::bad_request(format!(
                    "error decoding patch: json: cannot unmarshal {} into Go value of type handlers.jsonPatchOp",
                    json_type(odd)
                ))),
            }
        }
        (PatchForm::Json, other) => {
            if other.is_null() {
                return Ok(ParsedBody { value: Value::Array(vec![]), ..parsed });
            }
            let word = json_type(other);
            Err(Status::bad_request(format!(
                "error decoding patch: json: cannot unmarshal {word} into Go value of type []handlers.jsonPatchOp"
            )))
        }
        (_, Value::Object(_)) => Ok(parsed),
        (PatchForm::Merge, Value::Null) => Err(Status::bad_request("Invalid JSON Patch")),
        (PatchForm::Strategic, Value::Null) => {
            Ok(ParsedBody { value: Value::Object(serde_json::Map::new()), ..parsed })
        }
        (PatchForm::Merge | PatchForm::Strategic, other) => {
            let word = json_type(other);
            let before = if form == PatchForm::Merge { "error decoding patch: " } else { "" };
            Err(Status::bad_request(format!(
                "{before}json: cannot unmarshal {word} into Go value of type map[string]interface {{}}"
            )))
        }
        _ => Ok(parsed),
    }
}

/// The live object with the patch applied, decoded.
fn patched_proposal(
    request: &ResourceRequest,
    live: &LiveObject,
    form: PatchForm,
    body: &ParsedBody,
    validation: FieldValidation,
    part: ObjectPart,
) -> Result<UpdateProposal> {
    let served = &request.served;
    let patch = &body.value;
    let document = convert::from_storage(served, live.value.clone());
    let patched = match form {
        PatchForm::Json => json_patch::apply(document, patch).map_err(|_| unprocessable_patch())?,
        PatchForm::Merge => {
            merge::apply(document, patch.clone()).map_err(|e| Status::bad_request(e.to_string()))?
        }
        _ => strategic::apply(document, patch.clone(), Some(served.type_ref())).map_err(|e| match e {
            PatchError::TooDeep(_) => Status::bad_request(e.to_string()),
            // What is wrong with a list of kept keys is the client's mistake, of other directives the server's.
            other if other.to_string().contains("retainKeys") => Status::bad_request(other.to_string()),
            other => Status::plain_500(other.to_string()),
        })?,
    };
    let shown = match form {
        PatchForm::Strategic => json!(go_print(patch)),
        _ => json!(patched.to_string()),
    };
    let wrong = |why: &str| {
        Status::invalid(
            NamedResource { group: "", what: "" },
            "",
            vec![StatusCause::invalid("patch", &shown, why)],
        )
    };
    if !patched.is_object() {
        let word = if patched.is_array() { "array" } else { "string" };
        return Err(wrong(&format!(
            "json: cannot unmarshal {word} into Go value of type map[string]interface {{}}"
        )));
    }
    let (kind, version) = (
        patched["kind"].as_str().unwrap_or("").to_owned(),
        patched["apiVersion"].as_str().unwrap_or("").to_owned(),
    );
    if kind.is_empty() && meta::metadata_text(&patched, "name").is_empty() {
        return Err(Status::bad_request(format!(
            "the name of the object ({} based on URL) was undeterminable: name must be provided",
            request.path.name
        )));
    }
    // What is left out is known from the path.
    let typed = |found: &str, known: &str| found == known || (found.is_empty() && served.custom.is_none());
    if !typed(&kind, &served.def.kind) || !typed(&version, served.api_version()) {
        if served.custom.is_some() {
            let name = meta::metadata_text(&patched, "name");
            let (group, _) = slipway_manifest::object::split_api_version(&version);
            let cause = if version != served.api_version() {
                let why = format!("must be {}", served.api_version());
                StatusCause::invalid("apiVersion", &json!(version), &why)
            } else {
                StatusCause::invalid("kind", &json!(kind), &format!("must be {}", served.def.kind))
            };
            return Err(Status::invalid(NamedResource { group, what: &kind }, name, vec![cause]));
        }
        // A kind that exists is read as one first.
        if let Some(other) = Schema::built_in().types().type_of_kind(&version, &kind)
            && let Err(why) = crate::write::typed::decode_typed(patched.clone(), other, &[])
        {
            return Err(wrong(&why));
        }
        return Err(wrong(&format!(
            "no kind {kind:?} is registered for version {version:?} in scheme \"pkg/runtime/scheme.go:111\""
        )));
    }
    let mut warnings = Vec::new();
    let duplicates = if form == PatchForm::Json { vec![] } else { body.duplicates.clone() };
    let merged = form == PatchForm::Strategic;
    let parsed = ParsedBody { value: patched, duplicates, merged, ..ParsedBody::default() };
    let mut value = request.decode_value(parsed, validation, &mut warnings).map_err(|status| {
        let prefix = format!("cannot be handled as a {}: ", served.def.kind);
        match status.message.split_once(&prefix) {
            Some((_, why)) => wrong(why),
            None => status,
        }
    })?;
    check_patched_identity(request, &mut value)?;
    check_uid(request, live, &value)?;
    let _ = part;
    let value = convert::to_storage(served, value);
    Ok(UpdateProposal { value, ownership: FieldOwnership::Update, warnings })
}

/// A value as Go's `%v` prints it.
fn go_print(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".into(),
        Value::String(text) => text.clone(),
        Value::Array(items) => format!("[{}]", items.iter().map(go_print).collect::<Vec<_>>().join(" ")),
        Value::Object(_) => {
            let members: Vec<String> = meta::sorted_members(value)
                .into_iter()
                .map(|(k, v)| format!("{k}:{}", go_print(v)))
                .collect();
            format!("map[{}]", members.join(" "))
        }
        other => other.to_string(),
    }
}

fn check_patched_identity(request: &ResourceRequest, value: &mut Value) -> Result<()> {
    let name = meta::metadata_text(value, "name");
    if name.is_empty() {
        return Err(Status::bad_request(format!(
            "the name of the object ({} based on URL) was undeterminable: name must be provided",
            request.path.name
        )));
    }
    if name != request.path.name {
        return Err(Status::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            request.path.name
        )));
    }
    check_identity(request, value, NameSource::FromPath)
}

/// A patch may name the uid it is for, not change it, and deletes nothing.
fn check_uid(request: &ResourceRequest, live: &LiveObject, value: &Value) -> Result<()> {
    let uid = meta::metadata_text(value, "uid");
    let ends = meta::metadata_text(value, "deletionTimestamp");
    let mut causes = Vec::new();
    if !uid.is_empty() && uid != &*live.object.uid {
        causes.push(StatusCause::invalid("metadata.uid", &json!(uid), "field is immutable"));
    }
    if !ends.is_empty() && !live.object.deleting {
        causes.push(StatusCause::invalid("metadata.deletionTimestamp", &json!(ends), "field is immutable"));
    }
    if causes.is_empty() {
        return Ok(());
    }
    Err(Status::invalid(request.served.kind_name(), &request.path.name, causes))
}

pub(super) fn unprocessable_patch() -> Box<Status> {
    let mut status =
        Status::new(422, "Invalid", "the server rejected our request due to an error in our request");
    status.details = Some(json!({}));
    status
}

/// Server-side apply: merges a configuration into the live object, or makes it one.
fn apply_configuration(
    request: &ResourceRequest,
    part: ObjectPart,
    force: bool,
    validation: FieldValidation,
) -> Result<Reply> {
    let author = request.write_author("PatchOptions")?;
    let served = &request.served;
    let ParsedBody { value: mut config, repeated: warnings, .. } =
        crate::http::body::parse_yaml(&request.body).map_err(|e| {
            let why = e.strip_prefix("error converting YAML to JSON: ").unwrap_or(&e);
            // What looks like JSON is only read once it is decoded.
            Status::bad_request(if looks_like_json(&request.body) {
                format!("error decoding patch: error converting YAML to JSON: {why}")
            } else {
                format!("error encoding patch: {why}")
            })
        })?;
    let warnings = match validation {
        FieldValidation::Strict if !warnings.is_empty() => {
            return Err(Status::bad_request(format!(
                "error strict decoding patch: error converting YAML to JSON: {}",
                super::decode::repeated_keys_message(&warnings)
            )));
        }
        FieldValidation::Ignore => vec![],
        _ => warnings,
    };
    if config.is_null() {
        config = json!({});
    }
    if !config.is_object() {
        let word = json_type(&config);
        return Err(Status::bad_request(format!(
            "error decoding patch: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {word} into Go value of type map[string]interface {{}}"
        )));
    }
    let kind = config["kind"].as_str().unwrap_or("");
    let version = config["apiVersion"].as_str().unwrap_or("");
    if kind != served.def.kind || version != served.api_version() {
        let (group, version) = slipway_manifest::object::split_api_version(version);
        return Err(Status::bad_request(format!("invalid object type: {group}/{version}, Kind={kind}")));
    }
    if !config["metadata"]["managedFields"].is_null() {
        return Err(Status::bad_request("metadata.managedFields must be nil"));
    }
    crate::write::admit::default::remove_null(&mut config, "metadata");
    if let Some(metadata) = config.get_mut("metadata") {
        crate::write::admit::default::remove_null(metadata, "managedFields");
    }
    // Errors name the object as the configuration does.
    let named = format!("{}/{}", meta::metadata_text(&config, "namespace"), request.path.name);
    let storage = request.storage_resource();
    let key = request.object_key();
    let absent = request.core.store.get(&served.table, &key).is_none();
    if absent && part != ObjectPart::Main {
        return Err(Status::not_found(served.resource_name(), &request.path.name));
    }
    if absent {
        let uid = meta::metadata_text(&config, "uid");
        if !uid.is_empty() {
            return Err(Status::conflict(
                served.resource_name(),
                &request.path.name,
                &format!(
                    "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
                ),
            ));
        }
        check_namespace(request, &config)?;
    }
    // What is there has a name already.
    let naming = if absent { NameSource::Required } else { NameSource::FromPath };
    check_identity(request, &mut config, naming)?;
    if absent {
        create_check(request)?;
        let applied = request.core.apply_config(served, None, &config, &author, part, force)?;
        let value = convert_applied(request, applied.object, &named)?;
        let mut value = convert::to_storage(served, value);
        meta::metadata_mut(&mut value).shift_remove("resourceVersion");
        match request.core.create_object(
            &storage,
            &request.path.namespace,
            value,
            &author,
            FieldOwnership::Applied,
        ) {
            Err(status) if status.reason == "AlreadyExists" => {}
            other => {
                return other.map(|mut written| {
                    written.warnings.splice(0..0, warnings);
                    request.write_reply(written)
                });
            }
        }
    }
    let written = request.core.update_object(&storage, &key, part, &author, &mut |live| {
        let version = meta::metadata_text(&config, "resourceVersion");
        if !version.is_empty() && parse_revision(version)? != live.object.rev {
            return Err(Status::stale(served.resource_name(), &request.path.name));
        }
        let document = convert::from_storage(served, live.value.clone());
        let applied = request.core.apply_config(served, Some(&document), &config, &author, part, force)?;
        let value = convert_applied(request, applied.object, &named)?;
        check_uid(request, live, &config)?;
        Ok(UpdateProposal {
            value: convert::to_storage(served, value),
            ownership: FieldOwnership::Applied,
            warnings: warnings.clone(),
        })
    })?;
    Ok(request.write_reply(written))
}

fn looks_like_json(body: &[u8]) -> bool {
    body.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{')
}

/// Applying to nothing creates, and needs the right to.
fn create_check(request: &ResourceRequest) -> Result<()> {
    let attributes = crate::auth::rbac::RequestAttributes {
        verb: "create",
        group: &request.served.def.group,
        resource: &request.served.def.plural,
        subresource: "",
        namespace: &request.path.namespace,
        name: "",
        path: "",
    };
    crate::auth::rbac::authorize(&request.core, &request.user, &attributes)
}

/// The merged object as its type has it.
fn convert_applied(request: &ResourceRequest, value: Value, named: &str) -> Result<Value> {
    if request.served.custom.is_some() {
        let parsed = ParsedBody { value, ..ParsedBody::default() };
        return request.decode_value(parsed, FieldValidation::Ignore, &mut Vec::new());
    }
    let converted = crate::write::typed::convert_merged(value, request.served.type_ref(), &[]);
    converted.map(|converted| converted.value).map_err(|why| {
        let def = &request.served.def;
        let kind = format!("{}/{}, Kind={}", def.group, def.version, def.kind);
        Status::plain_500(format!(
            "failed to convert new object ({named}; {kind}) to proper version: unable to convert unstructured object to {kind}: {why}"
        ))
    })
}
