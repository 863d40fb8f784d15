//! One file per verb: from a parsed request to a reply.

mod collection;
mod create;
mod delete;
mod get;
mod list;
mod log;
mod patch;
mod subresource;
pub(crate) use subresource::registered;
mod update;
mod watch;

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;
use slipway_manifest::decode::ProtobufError;
use slipway_manifest::schema::Schema;

use crate::api::Verb;
use crate::api::resource::Served;
use crate::auth::User;
use crate::core::Core;
use crate::http::body::Parsed;
use crate::http::negotiate::{Accept, BodyForm, Origin, View};
use crate::http::query::{FieldValidation, Query};
use crate::http::respond::Reply;
use crate::http::route::Path;
use crate::status::{Result, Status};
use crate::store::{Key, Object};
use crate::write::convert;
use crate::write::{Author, Outcome, Written};

/// A request for a resource, ready to be served.
pub(crate) struct Request {
    pub core: Arc<Core>,
    pub served: Arc<Served>,
    pub path: Path,
    pub query: Query,
    pub accept: Accept,
    pub content_type: String,
    pub body: Bytes,
    pub user: Arc<User>,
    /// Who writes when the query names nobody: the client program.
    pub agent: String,
}

/// Serves a request. Deprecated versions say so whatever the answer.
pub(crate) fn handle(request: &Request, verb: Verb) -> Result<Reply> {
    let reply = dispatch(request, verb).map(|mut reply| {
        for warning in list::read_warnings(request) {
            if !reply.warnings.contains(&warning) {
                reply.warnings.insert(0, warning);
            }
        }
        reply
    });
    reply.map_err(|mut status| {
        for warning in list::read_warnings(request) {
            if status.code != 405 && !status.warnings.contains(&warning) {
                status.warnings.insert(0, warning);
            }
        }
        status.warnings = request.all_warnings(std::mem::take(&mut status.warnings));
        status
    })
}

fn dispatch(request: &Request, verb: Verb) -> Result<Reply> {
    let (served, path) = (&request.served, &request.path);
    if !path.subresource.is_empty() {
        return subresource::handle(request, verb);
    }
    // A name is given when it is created and is in the path of what changes one object.
    let misplaced = match verb {
        Verb::Create => !path.name.is_empty(),
        Verb::Update | Verb::Patch => path.name.is_empty(),
        _ => false,
    };
    if !path.name.is_empty() && !served.has_verb(Verb::Get) && !served.has_verb(Verb::Delete) {
        // Reviews are answered where they are created and have no names.
        return Err(Status::no_such_resource());
    }
    if request.accept.view == View::Metadata
        && request.accept.listed != (verb == Verb::List)
        && verb != Verb::Watch
    {
        let group = if served.def.group.is_empty() { "core" } else { &served.def.group };
        let group = group.split('.').next().unwrap_or(group);
        let kind = &served.def.kind;
        let message = if verb == Verb::List {
            format!(
                "you requested PartialObjectMetadata, but the requested object is a list (*{group}.{kind}List)"
            )
        } else {
            format!(
                "you requested PartialObjectMetadataList, but the requested object is not a list (*{group}.{kind})"
            )
        };
        // What is not there cannot be shown in any form.
        let found = verb != Verb::Get || request.core.store.get(&served.table, &request.key()).is_some();
        if found && matches!(verb, Verb::Get | Verb::List) {
            return Err(Status::new(406, "NotAcceptable", message));
        }
    }
    if misplaced || !served.has_verb(verb) {
        return Err(Status::method_not_allowed());
    }
    if served.def.namespaced && path.namespace.is_empty() && !path.name.is_empty() {
        return Err(Status::no_such_resource());
    }
    // Lists and watches may span namespaces; everything else is about one.
    if served.def.namespaced && path.namespace.is_empty() && !matches!(verb, Verb::List | Verb::Watch) {
        return Err(Status::method_not_allowed());
    }
    if !served.def.namespaced && !path.namespace.is_empty() {
        if served.custom.is_some() {
            return Ok(crate::http::service::not_a_path());
        }
        return Err(Status::no_such_resource());
    }
    if request.accept.view == View::Table && !served.has_verb(Verb::Get) {
        // A review is answered, not kept: there is nothing to tabulate.
        return Err(crate::http::negotiate::other_view());
    }
    match verb {
        _ if request.accept.view == View::Table
            && !matches!(
                request.query.get("includeObject").unwrap_or(""),
                "" | "None" | "Metadata" | "Object"
            ) =>
        {
            let asked = request.query.get("includeObject").unwrap_or("");
            Err(Status::bad_request(format!(
                "Unable to convert to Table as requested: includeObject: Invalid value: {}: must be 'Metadata', 'Object', 'None', or empty",
                serde_json::json!(asked)
            )))
        }
        Verb::Create => create::handle(request),
        Verb::Get => get::handle(request),
        Verb::List => list::handle(request),
        Verb::Watch => watch::handle(request),
        Verb::Update => update::handle(request),
        Verb::Patch => patch::handle(request),
        Verb::Delete => delete::handle(request),
        Verb::DeleteCollection => collection::handle(request),
    }
}

impl Request {
    pub(crate) fn key(&self) -> Key {
        Key::new(&self.path.namespace, &self.path.name)
    }

    pub(crate) fn author(&self, options: &str) -> Result<Author> {
        let manager = self.query.field_manager(options)?.map_or_else(|| self.agent.clone(), str::to_owned);
        let dry_run = self.query.dry_run(options)?;
        Ok(Author { manager, dry_run, scale: false, user: Some(self.user.clone()) })
    }

    /// Asks the policies whether an object may go.
    pub(crate) fn check_deletion(
        &self,
        served: &Served,
        object: &Object,
        dry_run: bool,
    ) -> Result<Vec<String>> {
        let live = self.core.whole(served, object);
        let author =
            Author { manager: self.agent.clone(), dry_run, scale: false, user: Some(self.user.clone()) };
        let attempt = crate::write::admit::policy::Attempt {
            served,
            subresource: "",
            operation: "DELETE",
            old: Some(&live),
            new: None,
            author: &author,
        };
        let mut warnings = Vec::new();
        crate::write::admit::policy::check(&self.core, &attempt, &mut warnings)?;
        Ok(warnings)
    }

    /// How long the request must take because its object says so.
    pub(crate) fn latency(&self, verb: Verb) -> Option<std::time::Duration> {
        use crate::write::admit::gate::latency;
        match verb {
            Verb::List | Verb::Watch | Verb::DeleteCollection => None,
            Verb::Create if self.path.name.is_empty() => latency(&self.body),
            _ => {
                let object = self.core.store.get(&self.served.table, &self.key())?;
                latency(&object.tail)
            }
        }
    }

    /// The resource as it is stored, for kinds served in a version they are not stored in.
    pub(crate) fn storage(&self) -> Arc<Served> {
        if self.served.custom.is_some() {
            return self.served.clone();
        }
        self.core.of_table(&self.served.table).unwrap_or_else(|| self.served.clone())
    }

    /// Reads the body in whatever form it came.
    pub(crate) fn parse_body(&self) -> Result<Parsed> {
        let form = crate::http::negotiate::body_form(&self.content_type, self.served.origin())?;
        self.parse_as(form)
    }

    /// Reads the options of a deletion, whose type every resource has in every form.
    pub(crate) fn parse_options(&self) -> Result<Parsed> {
        self.parse_as(crate::http::negotiate::body_form(&self.content_type, Origin::BuiltIn)?)
    }

    fn parse_as(&self, form: BodyForm) -> Result<Parsed> {
        let kind = &self.served.def.kind;
        match form {
            BodyForm::Json => {
                crate::http::body::json(&self.body).map_err(|e| unrecognised(kind, &self.body, &e))
            }
            BodyForm::Yaml => crate::http::body::yaml(&self.body).map_err(|e| {
                Status::bad_request(format!(
                    "the object provided is unrecognized (must be of type {kind}): {} ({})",
                    e.trim_start_matches("error converting YAML to JSON: "),
                    summary(&self.body)
                ))
            }),
            BodyForm::Protobuf => {
                slipway_manifest::decode::decode_protobuf(&self.body, Schema::built_in().types())
                    .map(|decoded| Parsed { value: decoded.object, ..Parsed::default() })
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
        parsed: Parsed,
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
                let pruned = custom.decode(value, &parsed.duplicates).map_err(|e| cannot(&e))?;
                (pruned.value, pruned.strict)
            }
            None => {
                let decode =
                    if parsed.merged { crate::write::typed::convert } else { crate::write::typed::decode };
                let decoded = decode(value, served.shape(), &parsed.duplicates).map_err(|e| cannot(&e))?;
                (decoded.value, decoded.strict)
            }
        };
        if forget {
            // An empty list says to forget all owners; decoding would lose it.
            crate::write::admit::meta::of(&mut value).insert("managedFields".into(), serde_json::json!([{}]));
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
                strict.insert(0, repeated(&parsed.repeated));
                return Err(cannot(&format!("strict decoding error: {}", strict.join(", "))));
            }
            FieldValidation::Strict if strict.is_empty() => {}
            FieldValidation::Strict => {
                return Err(cannot(&format!("strict decoding error: {}", strict.join(", "))));
            }
        }
        Ok(value)
    }

    /// Prints the object a write led to.
    pub(crate) fn reply(&self, written: Written) -> Reply {
        let code = if written.created { 201 } else { 200 };
        let rev = written.rev();
        let warnings = written.warnings;
        let reply = match written.outcome {
            Outcome::Stored(object) => self.object_reply(code, &object),
            Outcome::Shown(value) => self.value_reply(code, value),
        };
        reply.with_warnings(self.all_warnings(warnings)).wrote(rev)
    }

    pub(crate) fn all_warnings(&self, mut warnings: Vec<String>) -> Vec<String> {
        if let Some(custom) = &self.served.custom
            && let Some(warning) = custom.deprecation(&self.served)
        {
            warnings.insert(0, warning);
        }
        warnings
    }

    /// A stored object in the view the client asked for.
    pub(crate) fn object_reply(&self, code: u16, object: &Object) -> Reply {
        match self.accept.view {
            View::Object if convert::is_stored_form(&self.served) => {
                let prefix = self.served.object_prefix().as_bytes();
                let mut text = Vec::with_capacity(prefix.len() + object.tail.len() + 1);
                text.extend_from_slice(prefix);
                text.extend_from_slice(&object.tail);
                text.push(b'\n');
                Reply::json(code, text)
            }
            _ => self.value_reply(code, self.core.whole(&self.storage(), object)),
        }
    }

    /// A scale in the view the client asked for.
    pub(crate) fn scale_reply(&self, scale: Value) -> Reply {
        Reply::value(
            200,
            match self.accept.view {
                View::Object => scale,
                View::Metadata => crate::api::table::partial(scale, self.accept.beta),
                View::Table => {
                    let include = self.query.get("includeObject").unwrap_or("");
                    crate::api::table::scale(&self.core, scale, include, self.accept.beta)
                }
            },
        )
    }

    /// An object of the storage version in the view the client asked for.
    pub(crate) fn value_reply(&self, code: u16, value: Value) -> Reply {
        let value = convert::from_storage(&self.served, value);
        let value = match self.accept.view {
            View::Object => value,
            View::Metadata => crate::api::table::partial(value, self.accept.beta),
            View::Table => {
                let include = self.query.get("includeObject").unwrap_or("");
                let version = value["metadata"]["resourceVersion"].clone();
                crate::api::table::table(
                    &self.core,
                    &self.served,
                    vec![value],
                    include,
                    self.accept.beta,
                    version,
                )
            }
        };
        Reply::value(code, value)
    }
}

/// Keys given twice, as Go's YAML library reports them together.
fn repeated(lines: &[String]) -> String {
    format!("yaml: unmarshal errors:\n  {}", lines.join("\n  "))
}

/// The beginning of a body for a message: as text when it looks like JSON, else in hexadecimal.
fn summary(body: &[u8]) -> String {
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
fn unrecognised(kind: &str, body: &[u8], why: &str) -> Box<Status> {
    let shown = if body.is_empty() { "<empty>".to_owned() } else { summary(body) };
    Status::bad_request(format!(
        "the object provided is unrecognized (must be of type {kind}): couldn't get version/kind; json parse error: {why} ({shown})"
    ))
}

/// Refuses bodies of another type than the endpoint's.
fn check_kind(served: &Served, value: &Value, body: &[u8]) -> Result<()> {
    let wanted = &served.def.kind;
    if !value.is_object() {
        let word = match value {
            Value::Array(_) => "array",
            Value::String(_) => "string",
            Value::Bool(_) => "bool",
            Value::Number(_) => "number",
            _ => return Err(missing_kind(wanted, body)),
        };
        return Err(unrecognised(
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
        return Err(unrecognised(
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
                crate::status::Named { group, what: kind },
                crate::write::admit::meta::text(value, "name"),
                vec![crate::status::Cause::invalid("kind", &kind.into(), &format!("must be {wanted}"))],
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
    let known = Schema::built_in().types().type_of_kind(shown_version, shown_kind);
    let why = match known.and_then(slipway_manifest::TypeRef::as_map) {
        Some(shape) => {
            let group = &served.def.group;
            let internal = if group.is_empty() { "core" } else { group.split('.').next().unwrap_or(group) };
            format!("converting ({}) to ({internal}.{wanted}): unknown conversion", shape.name)
        }
        None => format!(
            "no kind {shown_kind:?} is registered for version {shown_version:?} in scheme \"pkg/runtime/scheme.go:111\""
        ),
    };
    Err(Status::bad_request(format!(
        "{shown_kind} in version {:?} cannot be handled as a {wanted}: {why}",
        slipway_manifest::object::split_api_version(shown_version).1
    )))
}

fn missing_kind(wanted: &str, body: &[u8]) -> Box<Status> {
    Status::bad_request(format!(
        "the object provided is unrecognized (must be of type {wanted}): Object 'Kind' is missing in '{}'",
        String::from_utf8_lossy(body)
    ))
}

/// Checks the name and namespace of a body against the path, and fills them in.
pub(crate) fn check_identity(request: &Request, value: &mut Value, naming: Naming) -> Result<()> {
    let path = &request.path;
    let name = crate::write::admit::meta::text(value, "name").to_owned();
    if naming != Naming::Free {
        if name.is_empty() && naming == Naming::Required {
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
        crate::write::admit::meta::of(value).insert("name".into(), path.name.as_str().into());
    }
    if request.served.def.namespaced {
        let namespace = crate::write::admit::meta::text(value, "namespace");
        if !namespace.is_empty() && namespace != path.namespace {
            return Err(Status::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
    } else {
        crate::write::admit::meta::of(value).shift_remove("namespace");
    }
    Ok(())
}

/// Where the name of a body comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Naming {
    Free,
    Required,
    FromPath,
}
