//! One file per verb: from a parsed request to a reply.

mod collection;
mod create;
mod decode;
mod delete;
mod get;
mod list;
mod log;
mod patch;
mod subresource;
use decode::check_namespace;
pub(crate) use decode::{NameSource, check_identity};
pub(crate) use subresource::check_registered_kind;
mod update;
mod watch;

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;

use crate::api::Verb;
use crate::api::resource::ServedResource;
use crate::auth::User;
use crate::core::Core;
use crate::http::negotiate::{NegotiatedForm, ResponseView};
use crate::http::query::QueryParameters;
use crate::http::respond::Reply;
use crate::http::route::ResourcePath;
use crate::status::{Result, Status};
use crate::store::{ObjectKey, StoredObject};
use crate::write::convert;
use crate::write::{WriteAuthor, WriteResult, WrittenObject};

/// A request for a resource, ready to be served.
pub(crate) struct ResourceRequest {
    pub core: Arc<Core>,
    pub served: Arc<ServedResource>,
    pub path: ResourcePath,
    pub query: QueryParameters,
    pub accept: NegotiatedForm,
    pub content_type: String,
    pub body: Bytes,
    pub user: Arc<User>,
    /// The field manager when the query names none: the client program.
    pub agent: String,
}

/// Serves a request, with the warnings of deprecated versions.
pub(crate) fn handle_request(request: &ResourceRequest, verb: Verb) -> Result<Reply> {
    let reply = dispatch_verb(request, verb).map(|mut reply| {
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
        name_asked_group(request, &mut status);
        status
    })
}

/// Names the group that was asked where a kind of two groups is stored in the other.
fn name_asked_group(request: &ResourceRequest, status: &mut Status) {
    let served = &request.served;
    let stored = request.storage_resource();
    let (asked, kept) = (&served.def.group, &stored.def.group);
    if asked == kept || !kept.is_empty() {
        return;
    }
    let plural = &served.def.plural;
    status.message = status.message.replace(&format!("{plural} \""), &format!("{plural}.{asked} \""));
    if let Some(details) = status.details.as_mut().filter(|details| details["kind"] == plural.as_str()) {
        details["group"] = asked.as_str().into();
    }
}

fn dispatch_verb(request: &ResourceRequest, verb: Verb) -> Result<Reply> {
    let (served, path) = (&request.served, &request.path);
    if !path.subresource.is_empty() {
        return subresource::handle_subresource(request, verb);
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
    if request.accept.view == ResponseView::Metadata
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
        // An object that does not exist cannot be shown in any form.
        let found =
            verb != Verb::Get || request.core.store.get(&served.table, &request.object_key()).is_some();
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
            return Ok(crate::http::documents::unknown_path());
        }
        return Err(Status::no_such_resource());
    }
    if request.accept.view == ResponseView::Table && !served.has_verb(Verb::Get) {
        // A review is answered, not stored: there is nothing to tabulate.
        return Err(crate::http::negotiate::unsupported_view());
    }
    match verb {
        _ if request.accept.view == ResponseView::Table
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
        Verb::Create => create::create_object(request),
        Verb::Get => get::get_object(request),
        Verb::List => list::list_objects(request),
        Verb::Watch => watch::watch_objects(request),
        Verb::Update => update::update_object(request),
        Verb::Patch => patch::patch_object(request),
        Verb::Delete => delete::delete_object(request),
        Verb::DeleteCollection => collection::delete_collection(request),
    }
}

impl ResourceRequest {
    pub(crate) fn object_key(&self) -> ObjectKey {
        ObjectKey::new(&self.path.namespace, &self.path.name)
    }

    pub(crate) fn write_author(&self, options: &str) -> Result<WriteAuthor> {
        let manager = self.query.field_manager(options)?.map_or_else(|| self.agent.clone(), str::to_owned);
        let dry_run = self.query.dry_run(options)?;
        Ok(WriteAuthor { manager, dry_run, scale: false, user: Some(self.user.clone()) })
    }

    /// Checks with the policies that an object may be deleted.
    pub(crate) fn check_deletion(
        &self,
        served: &ServedResource,
        object: &StoredObject,
        dry_run: bool,
    ) -> Result<Vec<String>> {
        if served.rule_key() == ("scheduling.k8s.io", "PriorityClass")
            && matches!(object.name(), "system-node-critical" | "system-cluster-critical")
        {
            let why = "this is a system priority class and cannot be deleted";
            return Err(Status::forbidden(served.resource_name(), object.name(), why));
        }
        let live = self.core.whole_object(served, object);
        let author =
            WriteAuthor { manager: self.agent.clone(), dry_run, scale: false, user: Some(self.user.clone()) };
        let attempt = crate::write::admit::policy::WriteAttempt {
            served,
            subresource: "",
            operation: "DELETE",
            old: Some(&live),
            new: None,
            author: &author,
            in_collection: self.path.name.is_empty(),
        };
        let mut warnings = Vec::new();
        crate::write::admit::policy::check_policies(&self.core, &attempt, &mut warnings)?;
        Ok(warnings)
    }

    /// Returns the latency the object's annotation asks for.
    pub(crate) fn simulated_latency(&self, verb: Verb) -> Option<std::time::Duration> {
        use crate::write::admit::gate::simulated_latency;
        match verb {
            Verb::List | Verb::Watch | Verb::DeleteCollection => None,
            Verb::Create if self.path.name.is_empty() => simulated_latency(&self.body),
            _ => {
                let object = self.core.store.get(&self.served.table, &self.object_key())?;
                simulated_latency(&object.tail)
            }
        }
    }

    /// The resource as it is stored, for kinds served in a version they are not stored in.
    pub(crate) fn storage_resource(&self) -> Arc<ServedResource> {
        if self.served.custom.is_some() {
            return self.served.clone();
        }
        self.core.of_table(&self.served.table).unwrap_or_else(|| self.served.clone())
    }

    /// Prints the object a write led to.
    pub(crate) fn write_reply(&self, written: WriteResult) -> Reply {
        let code = if written.created { 201 } else { 200 };
        let rev = written.rev();
        let warnings = written.warnings;
        let reply = match written.outcome {
            WrittenObject::Stored(object) => self.object_reply(code, &object),
            WrittenObject::Shown(value) => self.value_reply(code, value),
        };
        reply.with_warnings(self.all_warnings(warnings)).with_revision(rev)
    }

    pub(crate) fn all_warnings(&self, mut warnings: Vec<String>) -> Vec<String> {
        if let Some(custom) = &self.served.custom
            && let Some(warning) = custom.deprecation_warning(&self.served)
        {
            warnings.insert(0, warning);
        }
        warnings
    }

    /// A stored object in the view the client asked for.
    pub(crate) fn object_reply(&self, code: u16, object: &StoredObject) -> Reply {
        match self.accept.view {
            ResponseView::Object if convert::is_stored_form(&self.served) => {
                let prefix = self.served.object_prefix().as_bytes();
                let mut text = Vec::with_capacity(prefix.len() + object.tail.len() + 1);
                text.extend_from_slice(prefix);
                text.extend_from_slice(&object.tail);
                text.push(b'\n');
                Reply::json(code, text)
            }
            _ => self.value_reply(code, self.core.whole_object(&self.storage_resource(), object)),
        }
    }

    /// A scale in the view the client asked for.
    pub(crate) fn scale_reply(&self, scale: Value) -> Reply {
        Reply::value(
            200,
            match self.accept.view {
                ResponseView::Object => scale,
                ResponseView::Metadata => crate::api::table::partial_metadata(scale, self.accept.beta),
                ResponseView::Table => {
                    let include = self.query.get("includeObject").unwrap_or("");
                    crate::api::table::scale_table(&self.core, scale, include, self.accept.beta)
                }
            },
        )
    }

    /// An object of the storage version in the view the client asked for.
    pub(crate) fn value_reply(&self, code: u16, value: Value) -> Reply {
        let value = convert::from_storage(&self.served, value);
        let value = match self.accept.view {
            ResponseView::Object => value,
            ResponseView::Metadata => crate::api::table::partial_metadata(value, self.accept.beta),
            ResponseView::Table => {
                let include = self.query.get("includeObject").unwrap_or("");
                let version = value["metadata"]["resourceVersion"].clone();
                crate::api::table::object_table(
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
