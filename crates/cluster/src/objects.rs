//! Reading and writing objects.

use std::collections::{BTreeMap, BTreeSet};

use futures::future::join_all;
use http::Method;
use http::header::{ACCEPT, HeaderValue};
use serde_json::{Value, json};
use slipway_manifest::{ObjectRef, object};

use crate::Cluster;
use crate::calls::Verb;
use crate::error::{Error, ErrorClass};
use crate::kinds::Kind;
use crate::request::{Call, Query, Repeat};

pub(crate) const JSON: &str = "application/json";
const APPLY: &str = "application/apply-patch+yaml";
/// How many items one answer to a list holds.
const PAGE: usize = 500;
/// From how many objects of one kind and namespace on one list is cheaper than single reads.
const MANY: usize = 3;

/// What to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListOptions {
    /// A label selector.
    pub labels: String,
    /// A field selector.
    pub fields: String,
    /// Leaves everything but `metadata` out.
    pub metadata_only: bool,
}

impl ListOptions {
    pub fn labels(labels: impl Into<String>) -> ListOptions {
        ListOptions { labels: labels.into(), ..ListOptions::default() }
    }
}

/// A whole list and the moment it shows.
#[derive(Clone, Debug, Default)]
pub struct Listed {
    pub items: Vec<Value>,
    pub resource_version: String,
}

/// How to apply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Apply {
    /// The field manager.
    pub manager: String,
    /// Takes fields over from other managers.
    pub force: bool,
    pub dry_run: bool,
    /// Unknown and doubled fields are errors instead of warnings.
    pub strict: bool,
}

impl Apply {
    /// Applies with force, as release tools do.
    pub fn new(manager: impl Into<String>) -> Apply {
        Apply { manager: manager.into(), force: true, dry_run: false, strict: false }
    }

    pub fn dry_run(mut self, dry_run: bool) -> Apply {
        self.dry_run = dry_run;
        self
    }
}

/// How to create, replace or patch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteOptions {
    /// The field manager; the server names one when empty.
    pub manager: String,
    pub dry_run: bool,
}

impl WriteOptions {
    pub fn manager(manager: impl Into<String>) -> WriteOptions {
        WriteOptions { manager: manager.into(), dry_run: false }
    }
}

/// A change to an object.
#[derive(Clone, Debug, PartialEq)]
pub enum Patch {
    Json(Value),
    Merge(Value),
    Strategic(Value),
}

/// What becomes of the objects an object owns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Propagation {
    #[default]
    Background,
    Foreground,
    Orphan,
}

/// How to delete.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delete {
    pub propagation: Propagation,
    /// Deletes only this very object, not another of the same name.
    pub uid: Option<String>,
    /// Deletes only what nobody changed since.
    pub resource_version: Option<String>,
    pub grace_seconds: Option<u32>,
    pub dry_run: bool,
}

/// What came of a deletion.
#[derive(Clone, Debug, PartialEq)]
pub enum Deleted {
    /// It was not there, or is no longer.
    Gone,
    /// It goes once its finalizers and dependents let it; this is how it looks now.
    Terminating(Box<Value>),
}

impl Cluster {
    fn object_path(kind: &Kind, at: &ObjectRef, subresource: Option<&str>) -> String {
        let collection = kind.collection(at.namespace.as_deref());
        match subresource {
            Some(subresource) => format!("{collection}/{}/{subresource}", at.name),
            None => format!("{collection}/{}", at.name),
        }
    }

    async fn object_call(
        &self,
        verb: Verb,
        method: Method,
        at: &ObjectRef,
        query: Query,
        sub: Option<&str>,
    ) -> Result<Call, Error> {
        let action = match sub {
            Some(sub) => format!("{verb} {sub} of {at}"),
            None => format!("{verb} {at}"),
        };
        let kind = self.served(&at.gvk, &action).await.map_err(|e| e.at(at))?;
        if at.name.is_empty() || at.name.contains(['/', '%', '?', '#', ' ']) {
            let message = format!("`{}` is no name of an object", at.name);
            return Err(Error::new(ErrorClass::Invalid, action, message).at(at));
        }
        if kind.namespaced && at.namespace.is_none() {
            return Err(Error::new(ErrorClass::Invalid, action, "the object needs a namespace").at(at));
        }
        let path = query.on(&Self::object_path(&kind, at, sub));
        let mut call = Call::new(verb, method, path, action);
        call.at = Some(at.clone());
        Ok(call)
    }

    /// Reads an object; `None` when it does not exist. An unknown kind is an error of its own class.
    pub async fn get(&self, at: &ObjectRef) -> Result<Option<Value>, Error> {
        let call = self.object_call(Verb::Get, Method::GET, at, Query::new(), None).await?;
        match self.json(call).await {
            Ok(value) => Ok(Some(value)),
            Err(e) if e.class == ErrorClass::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Reads many objects at once, in the order given: one list where several are of one kind and
    /// namespace, single reads otherwise. What does not exist, or whose kind does not, is `None`.
    pub async fn get_many(&self, places: &[ObjectRef]) -> Vec<Result<Option<Value>, Error>> {
        let mut groups: BTreeMap<(&slipway_manifest::Gvk, Option<&str>), Vec<usize>> = BTreeMap::new();
        for (index, at) in places.iter().enumerate() {
            groups.entry((&at.gvk, at.namespace.as_deref())).or_default().push(index);
        }
        let groups = groups.into_values().map(|indices| async move {
            let wanted: Vec<&ObjectRef> = indices.iter().map(|index| &places[*index]).collect();
            let found = self.get_group(&wanted).await;
            indices.into_iter().zip(found).collect::<Vec<_>>()
        });
        let mut found: Vec<(usize, Result<Option<Value>, Error>)> =
            join_all(groups).await.into_iter().flatten().collect();
        found.sort_by_key(|(index, _)| *index);
        found.into_iter().map(|(_, result)| result).collect()
    }

    /// Reads objects of one kind and namespace.
    async fn get_group(&self, wanted: &[&ObjectRef]) -> Vec<Result<Option<Value>, Error>> {
        let mut known: BTreeMap<String, Value> = BTreeMap::new();
        let mut is_complete = false;
        if let [first, ..] = wanted
            && wanted.len() >= MANY
            && let Ok(Some(kind)) = self.kind(&first.gvk).await
        {
            let names: BTreeSet<&str> = wanted.iter().map(|at| at.name.as_str()).collect();
            let (namespace, options) = (first.namespace.as_deref(), ListOptions::default());
            let mut next = String::new();
            // Whoever may not list may still read.
            while let Ok(page) = self.list_page(&kind, namespace, &options, &next, PAGE).await {
                let before = known.len();
                let named =
                    page.items.into_iter().filter_map(|item| Some((object::name(&item)?.to_owned(), item)));
                known.extend(named.filter(|(name, _)| names.contains(name.as_str())));
                is_complete = page.next.is_empty();
                next = page.next;
                // A namespace full of other things is not read to its end for a few objects.
                let is_worth_it = known.len() > before && names.len() >= known.len() + MANY;
                if is_complete || !is_worth_it {
                    break;
                }
            }
        }
        join_all(wanted.iter().map(|at| {
            let known = known.get(&at.name).cloned();
            async move {
                match known {
                    Some(value) => Ok(Some(value)),
                    None if is_complete => Ok(None),
                    None => match self.get(at).await {
                        Err(e) if e.class == ErrorClass::NoKind => Ok(None),
                        result => result,
                    },
                }
            }
        }))
        .await
    }

    /// Lists everything that fits, page by page, as of one moment.
    pub async fn list(
        &self,
        kind: &Kind,
        namespace: Option<&str>,
        options: &ListOptions,
    ) -> Result<Listed, Error> {
        let mut listed = Listed::default();
        let mut next = String::new();
        let mut limit = PAGE;
        loop {
            match self.list_page(kind, namespace, options, &next, limit).await {
                Ok(page) => {
                    listed.items.extend(page.items);
                    listed.resource_version = page.resource_version;
                    if page.next.is_empty() {
                        return Ok(listed);
                    }
                    next = page.next;
                }
                // The pages of that moment are gone: begin again, all at once.
                Err(e) if e.is_expired() && limit > 0 => {
                    (listed, next, limit) = (Listed::default(), String::new(), 0);
                }
                Err(e) => return Err(e),
            }
        }
    }

    /// The present moment of a collection, without what is in it.
    pub(crate) async fn now(&self, kind: &Kind, namespace: Option<&str>) -> Result<Listed, Error> {
        let page = self.list_page(kind, namespace, &ListOptions::default(), "", 1).await?;
        Ok(Listed { items: Vec::new(), resource_version: page.resource_version })
    }

    async fn list_page(
        &self,
        kind: &Kind,
        namespace: Option<&str>,
        options: &ListOptions,
        next: &str,
        limit: usize,
    ) -> Result<Page, Error> {
        let limit = if limit == 0 { String::new() } else { limit.to_string() };
        let query = Query::new()
            .with("labelSelector", &options.labels)
            .with("fieldSelector", &options.fields)
            .with("limit", &limit)
            .with("continue", next);
        let place = namespace.map(|namespace| format!(" in namespace {namespace}")).unwrap_or_default();
        let path = query.on(&kind.collection(namespace));
        let mut call = Call::get(Verb::List, path, format!("list {}{place}", kind.resource()));
        if options.metadata_only {
            let accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
            call.headers.push((ACCEPT, HeaderValue::from_static(accept)));
        }
        let mut answer = self.json(call).await?;
        let text = |field: &str| answer["metadata"][field].as_str().unwrap_or_default().to_owned();
        let (next, resource_version) = (text("continue"), text("resourceVersion"));
        let Value::Array(mut items) = answer["items"].take() else {
            return Ok(Page { items: Vec::new(), next, resource_version });
        };
        for item in &mut items {
            name_type(item, kind);
        }
        Ok(Page { items, next, resource_version })
    }

    /// Server-side apply; creates the object or makes it as the manifest says.
    pub async fn apply(&self, at: &ObjectRef, manifest: &Value, options: &Apply) -> Result<Value, Error> {
        let query = Query::new()
            .with("fieldManager", &options.manager)
            .with("force", if options.force { "true" } else { "" })
            .with("fieldValidation", if options.strict { "Strict" } else { "Warn" })
            .with("dryRun", if options.dry_run { "All" } else { "" });
        let mut call =
            self.object_call(Verb::Apply, Method::PATCH, at, query, None).await?.body(APPLY, manifest);
        call.dry_run = options.dry_run;
        self.json(call).await
    }

    /// Creates an object. When an answer is lost and the object is there on the next attempt exactly as
    /// sent, it counts as created by us.
    pub async fn create(
        &self,
        at: &ObjectRef,
        manifest: &Value,
        options: &WriteOptions,
    ) -> Result<Value, Error> {
        let action = format!("create {at}");
        let kind = self.served(&at.gvk, &action).await.map_err(|e| e.at(at))?;
        let query = write_query(options);
        let path = query.on(&kind.collection(at.namespace.as_deref()));
        let mut call = Call::new(Verb::Create, Method::POST, path, action).body(JSON, manifest);
        call.at = Some(at.clone());
        call.dry_run = options.dry_run;
        let sent = self.json_sent(&call).await;
        match sent.answer {
            Err(e) if e.class == ErrorClass::AlreadyExists && sent.was_ambiguous => {
                self.ours_after_all(at, manifest, e).await
            }
            answer => answer,
        }
    }

    /// Replaces an object by a whole new state. With a `resourceVersion` in it only if nobody else
    /// wrote since.
    pub async fn replace(
        &self,
        at: &ObjectRef,
        value: &Value,
        options: &WriteOptions,
    ) -> Result<Value, Error> {
        let mut call = self
            .object_call(Verb::Replace, Method::PUT, at, write_query(options), None)
            .await?
            .body(JSON, value);
        call.dry_run = options.dry_run;
        let sent = self.json_sent(&call).await;
        match sent.answer {
            Err(e) if e.class == ErrorClass::Conflict && sent.was_ambiguous => {
                self.ours_after_all(at, value, e).await
            }
            answer => answer,
        }
    }

    /// After a lost answer: what is there now, if it is what was sent.
    async fn ours_after_all(&self, at: &ObjectRef, sent: &Value, error: Error) -> Result<Value, Error> {
        let mut sent = sent.clone();
        if let Some(metadata) = object::metadata_mut(&mut sent) {
            for field in ["resourceVersion", "managedFields", "generation", "creationTimestamp"] {
                metadata.remove(field);
            }
        }
        match self.get(at).await? {
            Some(live) if holds(&live, &sent) => Ok(live),
            _ => Err(error),
        }
    }

    /// Patches an object or one of its subresources.
    pub async fn patch(
        &self,
        at: &ObjectRef,
        patch: &Patch,
        options: &WriteOptions,
        subresource: Option<&str>,
    ) -> Result<Value, Error> {
        let (content_type, body) = match patch {
            Patch::Json(body) => ("application/json-patch+json", body),
            Patch::Merge(body) => ("application/merge-patch+json", body),
            Patch::Strategic(body) => ("application/strategic-merge-patch+json", body),
        };
        let mut call = self
            .object_call(Verb::Patch, Method::PATCH, at, write_query(options), subresource)
            .await?
            .body(content_type, body);
        call.dry_run = options.dry_run;
        if matches!(patch, Patch::Json(_)) {
            call.repeat = Repeat::Unserved;
        }
        self.json(call).await
    }

    /// Deletes an object; that it is not there is fine.
    pub async fn delete(&self, at: &ObjectRef, options: &Delete) -> Result<Deleted, Error> {
        let mut body = json!({
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": match options.propagation {
                Propagation::Background => "Background",
                Propagation::Foreground => "Foreground",
                Propagation::Orphan => "Orphan",
            },
        });
        if let Some(grace) = options.grace_seconds {
            body["gracePeriodSeconds"] = grace.into();
        }
        if let Some(uid) = &options.uid {
            body["preconditions"]["uid"] = uid.as_str().into();
        }
        if let Some(version) = &options.resource_version {
            body["preconditions"]["resourceVersion"] = version.as_str().into();
        }
        if options.dry_run {
            body["dryRun"] = json!(["All"]);
        }
        // In the address as well, where an audit log shows it.
        let query = Query::new().with("dryRun", if options.dry_run { "All" } else { "" });
        let call = match self.object_call(Verb::Delete, Method::DELETE, at, query, None).await {
            Ok(call) => call,
            Err(e) if e.class == ErrorClass::NoKind => return Ok(Deleted::Gone),
            Err(e) => return Err(e),
        };
        let mut call = call.body(JSON, &body);
        call.dry_run = options.dry_run;
        match self.json(call).await {
            Ok(value) if value["metadata"]["deletionTimestamp"].is_string() => {
                Ok(Deleted::Terminating(Box::new(value)))
            }
            Ok(_) => Ok(Deleted::Gone),
            Err(e) if e.is_absent() => Ok(Deleted::Gone),
            // Another object of that name took its place: the one meant is gone.
            Err(e) if e.class == ErrorClass::Conflict && options.uid.is_some() => {
                let live = self.get(at).await?;
                let uid = live.as_ref().and_then(|live| live["metadata"]["uid"].as_str());
                if uid == options.uid.as_deref() { Err(e) } else { Ok(Deleted::Gone) }
            }
            Err(e) => Err(e),
        }
    }
}

struct Page {
    items: Vec<Value>,
    next: String,
    resource_version: String,
}

fn write_query(options: &WriteOptions) -> Query {
    Query::new()
        .with("fieldManager", &options.manager)
        .with("dryRun", if options.dry_run { "All" } else { "" })
}

/// Items of lists do not say what they are; put it where single objects have it.
pub(crate) fn name_type(item: &mut Value, kind: &Kind) {
    let Value::Object(members) = item else { return };
    if members.get("kind").and_then(Value::as_str).is_none_or(|known| known == "PartialObjectMetadata") {
        members.shift_remove("kind");
        members.shift_remove("apiVersion");
        members.shift_insert(0, "kind".into(), kind.gvk.kind.as_str().into());
        members.shift_insert(1, "apiVersion".into(), kind.gvk.api_version().into());
    }
}

/// Whether everything in `part` is in `whole` too, with the same values.
pub(crate) fn holds(whole: &Value, part: &Value) -> bool {
    let mut pending = vec![(whole, part)];
    while let Some((whole, part)) = pending.pop() {
        match (whole, part) {
            (Value::Object(whole), Value::Object(part)) => {
                for (key, value) in part {
                    match whole.get(key) {
                        Some(other) => pending.push((other, value)),
                        None if value.is_null()
                            || value.as_object().is_some_and(serde_json::Map::is_empty) => {}
                        None => return false,
                    }
                }
            }
            (Value::Array(whole), Value::Array(part)) if whole.len() == part.len() => {
                pending.extend(whole.iter().zip(part));
            }
            _ if whole == part => {}
            _ => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_held_by_the_whole() {
        let whole = json!({"a": 1, "b": {"c": [{"d": 1, "e": 2}]}});
        for (part, expected) in [
            (json!({}), true),
            (json!({"a": 1}), true),
            (json!({"a": 2}), false),
            (json!({"b": {"c": [{"d": 1}]}}), true),
            (json!({"b": {"c": []}}), false),
            (json!({"x": {}}), true),
            (json!({"x": 1}), false),
        ] {
            assert_eq!(holds(&whole, &part), expected, "{part}");
        }
    }
}
