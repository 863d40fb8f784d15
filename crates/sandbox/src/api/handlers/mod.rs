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
pub(crate) use decode::{Naming, check_identity};
pub(crate) use subresource::registered;
mod update;
mod watch;

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;

use crate::api::Verb;
use crate::api::resource::Served;
use crate::auth::User;
use crate::core::Core;
use crate::http::negotiate::{Accept, View};
use crate::http::query::Query;
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
            return Ok(crate::http::documents::not_a_path());
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
