//! Subresources: status, scale, eviction, binding, token and the rest.

use serde_json::{Value, json};

use crate::api::Verb;
use crate::api::select::LabelFilter;
use crate::http::negotiate::{PatchForm, patch_form};
use crate::http::query::FieldValidation;
use crate::http::respond::Reply;
use crate::status::{NamedResource, Result, Status, StatusCause};
use crate::write::admit::meta;
use crate::write::admit::prepare::ObjectPart;
use crate::write::delete::DeleteOptions;
use crate::write::{FieldOwnership, UpdateProposal, WriteAuthor};

use super::ResourceRequest;

pub(super) fn handle_subresource(request: &ResourceRequest, verb: Verb) -> Result<Reply> {
    let name = request.path.subresource.as_str();
    let Some(sub) = request.served.def.subresource(name) else {
        return Err(if request.served.custom.is_some() {
            Status::not_found(request.served.resource_name(), &request.path.name)
        } else {
            Status::no_such_resource()
        });
    };
    if !sub.verbs.iter().any(|v| v == verb.as_str()) {
        return Err(Status::method_not_allowed());
    }
    let part = match name {
        "status" => ObjectPart::Status,
        "finalize" => ObjectPart::Finalize,
        "approval" => ObjectPart::Approval,
        "ephemeralcontainers" => ObjectPart::EphemeralContainers,
        "resize" => ObjectPart::Resize,
        "scale" => return handle_scale(request, verb),
        "log" => return super::log::read_log(request),
        "eviction" => return evict_pod(request),
        "binding" => return bind_pod(request),
        "token" => return crate::auth::review::create_token(request),
        _ => {
            request.core.live_object(&request.storage_resource(), &request.object_key())?;
            let mut status = Status::new(
                501,
                "",
                format!("{}/{name} is not supported by this server", request.served.def.plural),
            );
            status.reason = "NotImplemented";
            return Err(status);
        }
    };
    match verb {
        Verb::Get => super::get::get_object(request),
        Verb::Update => super::update::replace_part(request, part),
        Verb::Patch => super::patch::patch_part(request, part),
        _ => Err(Status::method_not_allowed()),
    }
}

/// The scale of an object.
fn scale_of(request: &ResourceRequest, value: &Value) -> Result<Value> {
    let meta = &value["metadata"];
    let (spec, status, selector) = match request.served.custom.as_ref().and_then(|c| c.scale.as_ref()) {
        Some(paths) => {
            let spec = value.pointer(&paths.spec_path).and_then(Value::as_i64).ok_or_else(|| {
                Status::internal(format!(
                    "the spec replicas field {:?} does not exist",
                    paths.spec_path.replace('/', ".")
                ))
            })?;
            let status = value.pointer(&paths.status_path).and_then(Value::as_i64).unwrap_or(0);
            let selector = paths
                .selector_path
                .as_ref()
                .and_then(|p| value.pointer(p))
                .and_then(Value::as_str)
                .unwrap_or("")
                .to_owned();
            (spec, status, selector)
        }
        None => (
            value["spec"]["replicas"].as_i64().unwrap_or(0),
            value["status"]["replicas"].as_i64().unwrap_or(0),
            print_selector(&value["spec"]["selector"]),
        ),
    };
    let mut shown = serde_json::Map::new();
    for key in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(member) = meta.get(key) {
            shown.insert(key.into(), member.clone());
        }
    }
    let mut status_out = json!({"replicas": status});
    if !selector.is_empty() {
        status_out["selector"] = selector.into();
    }
    Ok(json!({
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": shown,
        "spec": if spec == 0 { json!({}) } else { json!({"replicas": spec}) },
        "status": status_out,
    }))
}

/// A selector as text, sorted as Go sorts it.
fn print_selector(selector: &Value) -> String {
    let mut parts: Vec<(String, String)> = Vec::new();
    let labels = selector.get("matchLabels").unwrap_or(selector);
    for (key, value) in labels.as_object().into_iter().flatten() {
        if let Some(value) = value.as_str() {
            parts.push((key.clone(), format!("{key}={value}")));
        }
    }
    for e in selector["matchExpressions"].as_array().into_iter().flatten() {
        let key = e["key"].as_str().unwrap_or("");
        let mut values: Vec<&str> =
            e["values"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        values.sort_unstable();
        let values = values.join(",");
        parts.push((
            key.to_owned(),
            match e["operator"].as_str().unwrap_or("") {
                "In" => format!("{key} in ({values})"),
                "NotIn" => format!("{key} notin ({values})"),
                "Exists" => key.to_owned(),
                _ => format!("!{key}"),
            },
        ));
    }
    parts.sort();
    parts.into_iter().map(|(_, text)| text).collect::<Vec<_>>().join(",")
}

fn handle_scale(request: &ResourceRequest, verb: Verb) -> Result<Reply> {
    let served = request.storage_resource();
    let key = request.object_key();
    if verb == Verb::Get {
        let live = request.core.live_object(&served, &key)?;
        return Ok(request.scale_reply(scale_of(request, &live.value)?));
    }
    let options = if verb == Verb::Patch { "PatchOptions" } else { "UpdateOptions" };
    let author = request.write_author(options)?;
    let own_kind = |value: &Value| check_registered_kind(value, "Scale", "autoscaling/v1");
    let body = crate::http::body::parse_yaml(&request.body)
        .map_err(Status::bad_request)
        .or_else(|e| request.parse_body().map_err(|_| e))?
        .value;
    let form = (verb == Verb::Patch)
        .then(|| patch_form(&request.content_type, request.served.type_origin()))
        .transpose()?;
    let body = if verb == Verb::Update { request.parse_body()?.value } else { body };
    if verb == Verb::Update {
        own_kind(&body)?;
    }
    if form == Some(PatchForm::Apply) && body["kind"] != "Scale" {
        let (group, version) =
            slipway_manifest::object::split_api_version(body["apiVersion"].as_str().unwrap_or(""));
        let kind = body["kind"].as_str().unwrap_or("");
        return Err(Status::bad_request(format!("invalid object type: {group}/{version}, Kind={kind}")));
    }
    let named = meta::metadata_text(&body, "name");
    if verb == Verb::Update && named.is_empty() {
        return Err(Status::bad_request(format!(
            "the name of the object ({} based on URL) was undeterminable: name must be provided",
            request.path.name
        )));
    }
    let validation =
        request.query.field_validation(if verb == Verb::Patch { "PatchOptions" } else { "UpdateOptions" })?;
    if form != Some(PatchForm::Json) && !named.is_empty() && named != request.path.name {
        return Err(Status::bad_request(format!(
            "the name of the object ({named}) does not match the name on the URL ({})",
            request.path.name
        )));
    }
    let force = request.query.bool_value("force").unwrap_or(false);
    let written = request.core.update_object(&served, &key, ObjectPart::Main, &scale_author(&author), &mut |live| {
        let current = scale_of(request, &live.value).unwrap_or_else(|_| json!({"spec": {}}));
        let asked = match form {
            None => body.clone(),
            Some(PatchForm::Json) => slipway_manifest::patch::json::apply(current, &body)
                .map_err(|_| super::patch::unprocessable_patch())?,
            Some(_) => slipway_manifest::patch::merge::apply(current, body.clone())
                .map_err(|e| Status::bad_request(e.to_string()))?,
        };
        let warnings = unknown_fields(request, form, &asked, validation)?;
        let uid = meta::metadata_text(&asked, "uid");
        if !uid.is_empty() && uid != &*live.object.uid {
            return Err(crate::write::other_uid(&served, &live.object, uid, author.dry_run));
        }
        if let word @ ("string" | "bool" | "array" | "object") = json_word(&asked["spec"]["replicas"]) {
            let (shown, why) = match form {
                Some(PatchForm::Strategic) => {
                    (print_go(&body), format!("unrecognized type: {}", "int32"))
                }
                _ => (
                    String::from_utf8_lossy(&request.body).into_owned(),
                    format!(
                        "json: cannot unmarshal {word} into Go struct field ScaleSpec.spec.replicas of type int32"
                    ),
                ),
            };
            return Err(Status::invalid(
                NamedResource { group: "", what: "" },
                "",
                vec![StatusCause::invalid("patch", &shown.into(), &why)],
            ));
        }
        let version = meta::metadata_text(&asked, "resourceVersion");
        if !version.is_empty() && version != live.object.rev.to_string() {
            return Err(Status::stale(request.served.resource_name(), &request.path.name));
        }
        let replicas = asked["spec"]["replicas"].as_i64().unwrap_or(0);
        if replicas < 0 && request.served.custom.is_none() {
            return Err(Status::invalid(
                NamedResource { group: "autoscaling", what: "Scale" },
                &request.path.name,
                vec![StatusCause::invalid("spec.replicas", &replicas.into(), "must be greater than or equal to 0")],
            ));
        }
        let mut value = live.value.clone();
        let path = request
            .served
            .custom
            .as_ref()
            .and_then(|c| c.scale.as_ref())
            .map_or_else(|| "/spec/replicas".to_owned(), |s| s.spec_path.clone());
        if form == Some(PatchForm::Apply) {
            let mut config = json!({
                "apiVersion": value["apiVersion"], "kind": value["kind"],
                "metadata": {"name": value["metadata"]["name"], "namespace": value["metadata"]["namespace"]},
            });
            set_pointer(&mut config, &path, replicas.into());
            if body["spec"]["replicas"].is_null() {
                config["spec"] = json!({});
            }
            // A scale of nothing does not show it: to say so is a change.
            if scale_of(request, &value).is_ok_and(|scale| scale["spec"]["replicas"].is_null()) {
                take_pointer(&mut value, &path);
            }
            let author = scale_author(&author);
            let applied = request
                .core
                .apply_config(&served, Some(&value), &config, &author, ObjectPart::Main, force)
                .map_err(|status| in_words_of_scale(status, served.api_version()))?;
            let mut value = applied.object;
            if value.pointer(&path).is_none_or(Value::is_null) {
                // Whoever gives the number up leaves none.
                set_pointer(&mut value, &path, 0.into());
            }
            return Ok(UpdateProposal { value, ownership: FieldOwnership::Applied, warnings });
        }
        set_pointer(&mut value, &path, replicas.into());
        Ok(UpdateProposal { value, ownership: FieldOwnership::Update, warnings })
    })?;
    let rev = written.rev();
    let warnings = written.warnings.clone();
    let shown = scale_of(request, &written.value())?;
    Ok(request.scale_reply(shown).with_revision(rev).with_warnings(warnings))
}

/// What a scale says that scales do not have: a refusal or warnings, as the client wishes.
fn unknown_fields(
    request: &ResourceRequest,
    form: Option<PatchForm>,
    scale: &Value,
    validation: FieldValidation,
) -> Result<Vec<String>> {
    let types = slipway_manifest::schema::Schema::built_in().types();
    let Some(kind) = types.type_of_kind("autoscaling/v1", "Scale") else { return Ok(vec![]) };
    // What cannot be read at all is told apart.
    let Ok(decoded) = crate::write::typed::decode_typed(scale.clone(), kind, &[]) else { return Ok(vec![]) };
    match validation {
        FieldValidation::Ignore => Ok(vec![]),
        FieldValidation::Warn => Ok(decoded.strict),
        FieldValidation::Strict if decoded.strict.is_empty() => Ok(vec![]),
        FieldValidation::Strict => {
            let why = format!("strict decoding error: {}", decoded.strict.join(", "));
            if form.is_none() {
                let why = format!("Scale in version \"v1\" cannot be handled as a Scale: {why}");
                return Err(Status::bad_request(why));
            }
            let shown = String::from_utf8_lossy(&request.body).into_owned();
            let cause = StatusCause::invalid("patch", &shown.into(), &why);
            Err(Status::invalid(NamedResource { group: "", what: "" }, "", vec![cause]))
        }
    }
}

fn json_word(value: &Value) -> &'static str {
    match value {
        Value::String(_) => "string",
        Value::Bool(_) => "bool",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
        Value::Null | Value::Number(_) => "",
    }
}

/// A patch as Go prints a map.
fn print_go(value: &Value) -> String {
    match value {
        Value::Object(members) => {
            let mut parts: Vec<String> =
                members.iter().map(|(key, value)| format!("{key}:{}", print_go(value))).collect();
            parts.sort();
            format!("map[{}]", parts.join(" "))
        }
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Ownership through `/scale` is recorded apart.
fn scale_author(author: &WriteAuthor) -> WriteAuthor {
    WriteAuthor { scale: true, ..author.clone() }
}

fn set_pointer(value: &mut Value, pointer: &str, new: Value) {
    let mut at = value;
    for part in pointer.trim_start_matches('/').split('/') {
        if !at.is_object() {
            *at = json!({});
        }
        at = &mut at[part];
    }
    *at = new;
}

fn take_pointer(value: &mut Value, pointer: &str) {
    let (parent, key) = pointer.rsplit_once('/').unwrap_or(("", pointer));
    if let Some(members) = value.pointer_mut(parent).and_then(Value::as_object_mut) {
        members.shift_remove(key);
    }
}

/// Conflicts with who wrote the object name the version of its scale.
fn in_words_of_scale(mut status: Box<Status>, version: &str) -> Box<Status> {
    let (own, scale) = (format!("using {version}"), "using autoscaling/v1");
    status.message = status.message.replace(&own, scale);
    for cause in status.details.iter_mut().filter_map(|d| d["causes"].as_array_mut()).flatten() {
        if let Some(message) = cause["message"].as_str() {
            cause["message"] = message.replace(&own, scale).into();
        }
    }
    status
}

/// Refuses a body of another kind or version than the subresource takes.
pub(crate) fn check_registered_kind(body: &Value, kind: &str, version: &str) -> Result<()> {
    let given = body["kind"].as_str().filter(|k| !k.is_empty()).unwrap_or(kind);
    let written = body["apiVersion"].as_str().filter(|v| !v.is_empty()).unwrap_or(version);
    if given == kind && written == version {
        return Ok(());
    }
    let (group, _) = slipway_manifest::object::split_api_version(version);
    let internal = if group.is_empty() { "core" } else { group.split('.').next().unwrap_or(group) };
    let why = super::decode::why_not_converted((written, given), (internal, kind));
    let short = slipway_manifest::object::split_api_version(written).1;
    Err(Status::bad_request(format!("{given} in version \"{short}\" cannot be handled as a {kind}: {why}")))
}

fn evict_pod(request: &ResourceRequest) -> Result<Reply> {
    let author = request.write_author("CreateOptions")?;
    let body = request.parse_body()?.value;
    // Clients of older versions send what is the same in both.
    if body["apiVersion"] != "policy/v1beta1" || body["kind"] != "Eviction" {
        check_registered_kind(&body, "Eviction", "policy/v1")?;
    }
    let core = &request.core;
    let key = request.object_key();
    let served = request.storage_resource();
    let live = core.live_object(&served, &key)?;
    if meta::metadata_text(&body, "name") != request.path.name {
        return Err(Status::bad_request("name in URL does not match name in Eviction object"));
    }
    let options = DeleteOptions::from_request(&body["deleteOptions"], &request.query)?;
    let options = DeleteOptions { dry_run: author.dry_run || options.dry_run, ..options };
    let phase = live.value["status"]["phase"].as_str().unwrap_or("");
    let free = matches!(phase, "Succeeded" | "Failed" | "Pending") || live.object.deleting;
    if !free {
        budget_allows(request, &live.object)?;
    }
    core.delete_object(&served, &key, &options)?;
    let rev = core.store.current_revision();
    let body =
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
    Ok(Reply::value(201, body).with_revision(Some(rev)))
}

/// Refuses an eviction a disruption budget has no room for, and books one it has.
fn budget_allows(request: &ResourceRequest, pod: &crate::store::StoredObject) -> Result<()> {
    let core = &request.core;
    let mut budgets = core.store.list("poddisruptionbudgets.policy", Some(pod.namespace()));
    budgets.retain(|budget| {
        LabelFilter::of_selector(&budget.value()["spec"]["selector"]).is_some_and(|s| s.matches(pod))
    });
    if budgets.len() > 1 {
        return Err(Status::plain_500(
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
        ));
    }
    for budget in budgets {
        let value = budget.value();
        let status = &value["status"];
        if status["disruptionsAllowed"].as_i64().unwrap_or(0) <= 0 {
            let count = |key: &str| status[key].as_i64().unwrap_or(0);
            let (name, wanted, healthy) = (budget.name(), count("desiredHealthy"), count("currentHealthy"));
            let message = if healthy <= wanted {
                format!(
                    "The disruption budget {name} needs {wanted} healthy pods and has {healthy} currently"
                )
            } else {
                format!("The disruption budget {name} does not allow evicting pods currently")
            };
            return Err(Status::too_many_requests(
                "Cannot evict pod as it would violate the pod's disruption budget.",
                json!([{"reason": "DisruptionBudget", "message": message}]),
                0,
            ));
        }
        let Some(served) = core.of_table("poddisruptionbudgets.policy") else { continue };
        let author = WriteAuthor::system("kube-apiserver");
        core.update_object(&served, &budget.key, ObjectPart::Status, &author, &mut |live| {
            let mut value = live.value.clone();
            let left = value["status"]["disruptionsAllowed"].as_i64().unwrap_or(0) - 1;
            value["status"]["disruptionsAllowed"] = left.max(0).into();
            Ok(UpdateProposal { value, ownership: FieldOwnership::Update, warnings: vec![] })
        })?;
    }
    Ok(())
}

fn bind_pod(request: &ResourceRequest) -> Result<Reply> {
    let author = request.write_author("CreateOptions")?;
    let body = request.parse_body()?.value;
    check_registered_kind(&body, "Binding", "v1")?;
    let target = body["target"]["name"].as_str().unwrap_or("");
    let kind = body["target"]["kind"].as_str().unwrap_or("");
    let named = meta::metadata_text(&body, "name");
    if !named.is_empty() && named != request.path.name {
        return Err(Status::bad_request("name in URL does not match name in Binding object"));
    }
    // A real server does not turn these into a status of its own.
    if !matches!(kind, "" | "Node") {
        return Err(Status::plain_500(format!(
            "target.kind: Unsupported value: {kind:?}: supported values: \"Node\", \"<empty>\""
        )));
    }
    if target.is_empty() {
        return Err(Status::plain_500("target.name: Required value"));
    }
    let uid = meta::metadata_text(&body, "uid");
    let live = request.core.live_object(&request.storage_resource(), &request.object_key())?;
    if !uid.is_empty() && uid != &*live.object.uid {
        return Err(crate::write::other_uid(&request.storage_resource(), &live.object, uid, author.dry_run));
    }
    crate::write::bind::bind_pod(&request.core, &request.object_key(), target, &author)?;
    let rev = request.core.store.current_revision();
    let body =
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
    Ok(Reply::value(201, body).with_revision(Some(rev)))
}
