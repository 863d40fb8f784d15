//! Watches: a cursor into a table's history, printed as frames.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use slipway_manifest::encode::{encode_protobuf, encode_watch_event};
use slipway_manifest::schema::Schema;
use tokio::time::Instant;

use crate::api::resource::Served;
use crate::api::select::{Filter, bad_list_option};
use crate::core::Core;
use crate::http::negotiate::{Accept, Encoding, View};
use crate::http::respond::{Body, BoxError, Content, Reply};
use crate::status::{Cause, Result, Status};
use crate::store::{Change, Event, Object, Range, Unavailable};
use crate::write::convert;

use super::Request;

/// Events read from the store at a time.
const BATCH: usize = 256;
/// How often an idle watch tells where it is.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);

struct Watch {
    core: Arc<Core>,
    served: Arc<Served>,
    storage: Arc<Served>,
    namespace: Option<String>,
    filter: Filter,
    accept: Accept,
    include: String,
    cursor: u64,
    changes: tokio::sync::watch::Receiver<u64>,
    ready: VecDeque<Bytes>,
    deadline: Instant,
    next_bookmark: Option<Instant>,
    tables_sent: usize,
    ended: bool,
}

pub(super) fn handle(request: &Request) -> Result<Reply> {
    let query = &request.query;
    let served = &request.served;
    let mut filter = Filter::read(query, served)?;
    if !request.path.name.is_empty() {
        // The deprecated form of a single-object watch.
        filter.fields =
            crate::api::select::Fields::parse(&format!("metadata.name={}", request.path.name), served)?;
    }
    let initial = query.flag("sendInitialEvents");
    let matching = query.get("resourceVersionMatch").unwrap_or("");
    let bookmarks = query.flag("allowWatchBookmarks") == Some(true);
    check_options(initial, matching, query.some("continue").is_some())?;
    let version = query.get("resourceVersion").unwrap_or("");
    let asked: u64 = if version.is_empty() { 0 } else { super::list::version_or_500(version)? };
    let seconds = query.int("timeoutSeconds")?.filter(|s| *s > 0).and_then(|s| u64::try_from(s).ok());
    let lifetime = Duration::from_secs(seconds.unwrap_or_else(|| 1800 + request.core.ids.next() % 1800));
    let core = request.core.clone();
    // Subscribe before reading, so that nothing falls between the two.
    let changes = core.store.changes(&served.table);
    let namespace = Some(request.path.namespace.clone()).filter(|n| !n.is_empty());
    let mut watch = Watch {
        served: served.clone(),
        storage: request.storage(),
        namespace,
        filter,
        accept: request.accept,
        include: query.get("includeObject").unwrap_or("").to_owned(),
        cursor: asked,
        changes,
        ready: VecDeque::new(),
        deadline: Instant::now() + lifetime,
        next_bookmark: bookmarks.then(|| Instant::now() + BOOKMARK_EVERY.min(lifetime.mul_f64(0.9))),
        tables_sent: 0,
        ended: false,
        core,
    };
    let from_present = match initial {
        Some(true) => true,
        Some(false) => false,
        None => asked == 0,
    };
    if from_present {
        watch.present();
        if initial == Some(true) && bookmarks {
            let frame = watch.bookmark(true);
            watch.ready.push_back(frame);
        }
    } else if asked == 0 {
        watch.cursor = watch.core.store.rev();
    }
    let body = Body::stream(futures::stream::unfold(watch, |mut watch| async move {
        watch.next().await.map(|frames| (Ok::<Bytes, BoxError>(frames), watch))
    }));
    let content_type = request.accept.stream_type();
    Ok(Reply {
        code: 200,
        content: Content::Stream { content_type, body },
        warnings: request.all_warnings(super::list::read_warnings(request)),
        wrote: None,
    })
}

fn check_options(initial: Option<bool>, matching: &str, continued: bool) -> Result<()> {
    let mut causes = Vec::new();
    match initial {
        Some(_) if matching != "NotOlderThan" => {
            causes.push(Cause::forbidden(
                "resourceVersionMatch",
                "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
            ));
            if !matching.is_empty() {
                causes.push(Cause::not_supported(
                    "resourceVersionMatch",
                    &json!(matching),
                    &["NotOlderThan"],
                ));
            }
        }
        None if !matching.is_empty() => {
            causes.push(Cause::forbidden(
                "resourceVersionMatch",
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
            ));
            if matching != "NotOlderThan" {
                causes.push(Cause::not_supported(
                    "resourceVersionMatch",
                    &json!(matching),
                    &["NotOlderThan"],
                ));
            }
        }
        _ => {}
    }
    if continued {
        causes.push(Cause::forbidden(
            "resourceVersionMatch",
            "resourceVersionMatch is forbidden when continue is provided",
        ));
    }
    if causes.is_empty() { Ok(()) } else { Err(bad_list_option(causes)) }
}

/// What a cell says when there is nothing to show, where that is said otherwise of a stored object:
/// table, column, cell.
const EMPTY_CELLS: &[(&str, usize, &str)] = &[
    ("services", 3, "<unknown>"),
    ("events", 3, ""),
    ("events", 9, ""),
    ("persistentvolumes", 1, "0"),
    ("limitranges", 1, NEVER),
    ("deployments.apps", 7, ""),
    ("cronjobs.batch", 3, "<unset>"),
    ("roles.rbac.authorization.k8s.io", 1, NEVER),
    ("clusterroles.rbac.authorization.k8s.io", 1, NEVER),
    ("storageclasses.storage.k8s.io", 2, "Delete"),
    ("storageclasses.storage.k8s.io", 3, "Immediate"),
    ("customresourcedefinitions.apiextensions.k8s.io", 3, NEVER),
];

/// When nothing was created, as Go prints it.
const NEVER: &str = "0001-01-01T00:00:00Z";

impl Watch {
    /// Queues an ADDED frame for everything there is and starts after it.
    fn present(&mut self) {
        let range = Range { namespace: self.namespace.as_deref(), ..Range::all() };
        let filter = &self.filter;
        if let Ok(page) = self.core.store.page(&self.served.table, &range, &mut |o| filter.matches(o)) {
            self.cursor = page.rev;
            let mut batch = Vec::new();
            for object in &page.objects {
                self.frame(&mut batch, "ADDED", object, None);
            }
            if !batch.is_empty() {
                self.ready.push_back(batch.into());
            }
        }
    }

    /// The next frames, or the end.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(frames) = self.ready.pop_front() {
                return Some(frames);
            }
            if self.ended {
                return None;
            }
            self.changes.borrow_and_update();
            match self.core.store.events_after(&self.served.table, self.cursor, BATCH) {
                Ok(events) if !events.is_empty() => {
                    let mut batch = Vec::new();
                    for event in &events {
                        self.cursor = event.rev;
                        self.event(&mut batch, event);
                    }
                    if !batch.is_empty() {
                        return Some(batch.into());
                    }
                    continue;
                }
                Ok(_) => {}
                Err(Unavailable::Compacted { oldest }) => {
                    self.ended = true;
                    let status = Status::expired(format!(
                        "too old resource version: {} ({})",
                        self.cursor,
                        oldest + 1
                    ));
                    let mut frame = Vec::new();
                    self.print(&mut frame, "ERROR", &status.body());
                    return Some(frame.into());
                }
                Err(Unavailable::Future { .. }) => {}
            }
            let bookmark = async {
                match self.next_bookmark {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                changed = self.changes.changed() => {
                    if changed.is_err() {
                        return None;
                    }
                }
                () = tokio::time::sleep_until(self.deadline) => return None,
                () = bookmark => {
                    self.next_bookmark = Some(Instant::now() + BOOKMARK_EVERY);
                    return Some(self.bookmark(false));
                }
            }
        }
    }

    /// Prints an event as the watcher's selectors see it.
    fn event(&mut self, out: &mut Vec<u8>, event: &Event) {
        if self.namespace.as_deref().is_some_and(|ns| *event.object.key.namespace != *ns) {
            return;
        }
        let before = event.prev.as_ref().is_some_and(|o| self.filter.matches(o));
        let after = event.change != Change::Deleted && self.filter.matches(&event.object);
        match (before, after) {
            (false, true) => self.frame(out, "ADDED", &event.object, None),
            (true, true) => self.frame(out, "MODIFIED", &event.object, None),
            (true, false) if event.change == Change::Deleted => {
                self.frame(out, "DELETED", &event.object, None);
            }
            // It left the selection: the watcher sees the last content it knew, at the new revision.
            (true, false) => {
                if let Some(prev) = &event.prev {
                    self.frame(out, "DELETED", prev, Some(event.rev));
                }
            }
            (false, false) => {}
        }
    }

    fn frame(&mut self, out: &mut Vec<u8>, kind: &str, object: &Arc<Object>, at: Option<u64>) {
        let copied = self.accept.encoding != Encoding::Protobuf && self.accept.view == View::Object;
        if at.is_none() && copied && convert::is_stored_form(&self.served) {
            out.extend_from_slice(b"{\"type\":\"");
            out.extend_from_slice(kind.as_bytes());
            out.extend_from_slice(b"\",\"object\":");
            out.extend_from_slice(self.served.object_prefix().as_bytes());
            out.extend_from_slice(&object.tail);
            out.extend_from_slice(b"}\n");
            return;
        }
        let mut value = self.core.whole(&self.storage, object);
        if let Some(rev) = at {
            value["metadata"]["resourceVersion"] = rev.to_string().into();
        }
        let value = convert::from_storage(&self.served, value);
        let value = self.view(value);
        self.print(out, kind, &value);
    }

    /// Prints an event: a line of JSON, or protobuf after its length.
    fn print(&self, out: &mut Vec<u8>, kind: &str, object: &Value) {
        let protobuf = (self.accept.encoding == Encoding::Protobuf)
            .then(|| encode_protobuf(object, Schema::built_in().types()))
            .flatten();
        if let Some(object) = protobuf {
            let event = encode_watch_event(kind, &object);
            out.extend_from_slice(&u32::try_from(event.len()).unwrap_or(u32::MAX).to_be_bytes());
            out.extend_from_slice(&event);
        } else {
            out.extend_from_slice(json!({"type": kind, "object": object}).to_string().as_bytes());
            out.push(b'\n');
        }
    }

    fn view(&mut self, value: Value) -> Value {
        match self.accept.view {
            View::Object => value,
            View::Metadata => crate::api::table::partial(value, self.accept.beta),
            View::Table => {
                let version = value["metadata"]["resourceVersion"].clone();
                let mut table = crate::api::table::table(
                    &self.core,
                    &self.served,
                    vec![value],
                    &self.include,
                    self.accept.beta,
                    version,
                );
                // Only the first table says what its columns are.
                if self.tables_sent > 0 {
                    table["columnDefinitions"] = Value::Null;
                }
                self.tables_sent += 1;
                table
            }
        }
    }

    /// An object of the kind with nothing but metadata.
    fn zero(&self, metadata: Value) -> Value {
        let mut zero = if self.served.custom.is_some() {
            json!({})
        } else {
            slipway_manifest::schema::zero_value(self.served.shape())
        };
        if let Some(members) = zero.as_object_mut() {
            members.shift_insert(0, "apiVersion".into(), self.served.api_version().into());
            members.shift_insert(0, "kind".into(), self.served.def.kind.as_str().into());
            members.insert("metadata".into(), metadata);
        }
        zero
    }

    fn bookmark(&mut self, initial_end: bool) -> Bytes {
        let mut metadata = json!({"resourceVersion": self.cursor.to_string()});
        if initial_end {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let object = match self.accept.view {
            View::Metadata => json!({
                "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata,
            }),
            View::Table => {
                // A row of an object with nothing in it.
                let mut table = self.view(self.zero(metadata.clone()));
                if table["rows"][0]["cells"][0].is_null() {
                    table["rows"][0]["cells"][0] = "".into();
                }
                for (of, column, cell) in EMPTY_CELLS {
                    if **of == *self.served.table {
                        table["rows"][0]["cells"][*column] = (*cell).into();
                    }
                }
                table["rows"][0]["object"] = json!({
                    "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata,
                });
                table
            }
            View::Object => self.zero(metadata),
        };
        let mut frame = Vec::new();
        self.print(&mut frame, "BOOKMARK", &object);
        frame.into()
    }
}
