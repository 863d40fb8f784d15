//! Listing and watching one kind: what is there, then every change of it, across every loss of the connection.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use http_body_util::BodyExt;
use serde_json::Value;
use slipway_manifest::object;
use tokio_util::sync::CancellationToken;

use super::{PastObjects, WatchSink, Watching, key_of};
use crate::calls::RequestVerb;
use crate::error::{ApiStatus, Error, ErrorClass};
use crate::objects::{ListOptions, ListPart, add_type_fields};
use crate::request::{ApiCall, UrlQuery};
use crate::{Cluster, last_error};

/// The lifetime of a watch that is asked of the server.
const LIFETIME: Duration = Duration::from_secs(290);
/// The time a server has beyond that to end a watch.
const END_LIMIT: Duration = Duration::from_secs(15);
/// The polling interval where watching is not allowed.
const POLL_INTERVAL: Duration = Duration::from_secs(2);
/// A line longer than this is no event.
const LONGEST_LINE: usize = 64 * 1024 * 1024;
/// The failures after which lists are no longer asked for as the beginning of a watch.
const STREAM_TRIES: u32 = 2;

/// The groups of workloads, which no other server can serve.
const OWN_GROUPS: [&str; 3] = ["", "apps", "batch"];

/// The end of a watch.
enum WatchEnd {
    /// Go on from here.
    Resume(String),
    /// Too old: list again.
    Relist,
    /// An error: wait a little, then list again.
    Failed(Error),
}

/// The state a watch begins with.
enum WatchStart<'a> {
    /// The one of a version that is known.
    After(&'a str),
    /// Everything that is there, told by the watch itself.
    Everything,
}

/// Lists and watches until nobody reads any more.
pub(super) async fn keep_watching(
    cluster: Cluster,
    watching: Arc<Watching>,
    sink: Arc<dyn WatchSink>,
    stop: CancellationToken,
) {
    let work = async {
        let mut failures = 0_u32;
        let mut may_watch = true;
        let mut may_stream = watching.can_stream(&cluster).await;
        loop {
            let begun = match may_stream {
                true => follow_watch(&cluster, &watching, &*sink, WatchStart::Everything).await,
                false => read_list(&cluster, &watching, &*sink).await,
            };
            let mut version = match begun {
                WatchEnd::Resume(version) => version,
                WatchEnd::Relist => continue,
                WatchEnd::Failed(e) if e.is_transient() => {
                    last_error::record_error(Some(&e));
                    failures += 1;
                    may_stream &= failures < STREAM_TRIES;
                    tokio::time::sleep(cluster.retry_pause(failures)).await;
                    continue;
                }
                // Switched off, or nobody may watch.
                WatchEnd::Failed(_) if may_stream => {
                    may_stream = false;
                    continue;
                }
                // Nobody who may not list will be allowed to a moment later.
                WatchEnd::Failed(e) => return sink.denied(e),
            };
            loop {
                if !may_watch {
                    tokio::time::sleep(POLL_INTERVAL).await;
                    break;
                }
                match follow_watch(&cluster, &watching, &*sink, WatchStart::After(&version)).await {
                    WatchEnd::Resume(next) => {
                        // A server that closes connections at once must not be called in a tight loop.
                        failures = if next == version { failures + 1 } else { 0 };
                        version = next;
                        if failures > 1 {
                            tokio::time::sleep(cluster.retry_pause(failures)).await;
                        }
                    }
                    WatchEnd::Relist => break,
                    WatchEnd::Failed(e) if matches!(e.class, ErrorClass::Forbidden | ErrorClass::Other) => {
                        may_watch = false;
                    }
                    WatchEnd::Failed(e) if e.is_absent() => return sink.denied(e),
                    WatchEnd::Failed(e) => {
                        last_error::record_error(Some(&e));
                        failures += 1;
                        tokio::time::sleep(cluster.retry_pause(failures)).await;
                        break;
                    }
                }
            }
        }
    };
    tokio::select! {
        () = stop.cancelled() => {}
        () = watching.trouble.record_during(work) => {}
    }
}

impl Watching {
    /// Returns true if one request can list and watch. Servers behind the API server may be older than it is, so only
    /// groups that it serves itself are asked for in this way.
    async fn can_stream(&self, cluster: &Cluster) -> bool {
        self.past == PastObjects::Known
            && OWN_GROUPS.contains(&self.kind.gvk.group.as_str())
            && cluster.server_version().await.is_ok_and(|version| version.streams_lists())
    }
}

/// Reads what is there, or only the version that it is of.
async fn read_list(cluster: &Cluster, watching: &Watching, sink: &dyn WatchSink) -> WatchEnd {
    let namespace = watching.namespace.as_deref();
    sink.list_began();
    let listed = match watching.past {
        PastObjects::Known => {
            let options = ListOptions::default();
            let take = |page| match page {
                ListPart::Items(items) => sink.list_page(items),
                ListPart::Restart => sink.list_began(),
            };
            cluster.list_pages(&watching.kind, namespace, &options, take).await
        }
        PastObjects::Skipped => cluster.current_version(&watching.kind, namespace).await,
    };
    match listed {
        Ok(version) => {
            last_error::record_error(None);
            sink.list_ended(&version);
            WatchEnd::Resume(version)
        }
        Err(e) => WatchEnd::Failed(e),
    }
}

/// Tells that everything there was when a watch began has been sent.
fn is_end_of_list(bookmark: &Value) -> bool {
    object::annotation(bookmark, "k8s.io/initial-events-end") == Some("true")
}

/// The events of one watch on their way to its sink.
struct WatchEvents<'a> {
    watching: &'a Watching,
    sink: &'a dyn WatchSink,
    /// The version the sink knows.
    version: String,
    /// The list the watch began with, while it is not complete.
    list: Option<StreamedList>,
}

/// A list that a watch sends. A server whose cache is behind sends changes before its end, so that a listed object can
/// be gone again.
#[derive(Default)]
struct StreamedList {
    deleted: BTreeMap<(String, String), Value>,
}

impl WatchEvents<'_> {
    fn take(&mut self, kind: &str, mut value: Value) {
        if let Some(next) = value["metadata"]["resourceVersion"].as_str() {
            self.version = next.to_owned();
        }
        add_type_fields(&mut value, &self.watching.kind);
        match (kind, &mut self.list) {
            ("BOOKMARK", Some(list)) if is_end_of_list(&value) => {
                let deleted = std::mem::take(&mut list.deleted);
                self.list = None;
                last_error::record_error(None);
                self.sink.list_ended(&self.version);
                deleted.into_values().for_each(|object| self.sink.deleted(object));
            }
            ("BOOKMARK", _) => {}
            ("DELETED", Some(list)) => {
                list.deleted.insert(key_of(&value), value);
            }
            (_, Some(list)) => {
                list.deleted.remove(&key_of(&value));
                self.sink.list_page(vec![value]);
            }
            ("DELETED", None) => self.sink.deleted(value),
            (_, None) => self.sink.changed(value),
        }
    }
}

/// Follows one watch to its end.
async fn follow_watch(
    cluster: &Cluster,
    watching: &Watching,
    sink: &dyn WatchSink,
    start: WatchStart<'_>,
) -> WatchEnd {
    let seconds = LIFETIME.as_secs().to_string();
    let query = UrlQuery::new()
        .with("watch", "true")
        .with("allowWatchBookmarks", "true")
        .with("timeoutSeconds", &seconds);
    let mut events = WatchEvents { watching, sink, version: String::new(), list: None };
    let query = match start {
        WatchStart::After(version) => {
            events.version = version.to_owned();
            query.with("resourceVersion", version)
        }
        WatchStart::Everything => {
            sink.list_began();
            events.list = Some(StreamedList::default());
            query.with("sendInitialEvents", "true").with("resourceVersionMatch", "NotOlderThan")
        }
    };
    let path = query.append_to(&watching.kind.collection_path(watching.namespace.as_deref()));
    let call = ApiCall::get(RequestVerb::Watch, path, format!("watch {}", watching.kind.resource_name()));
    let response = match tokio::time::timeout(cluster.0.retry.answer, cluster.open_stream(&call)).await {
        Ok(Ok(response)) => response,
        Ok(Err(e)) if e.is_expired() => return WatchEnd::Relist,
        Ok(Err(e)) => return WatchEnd::Failed(e),
        Err(_) => return WatchEnd::Failed(call.call_error(ErrorClass::Timeout, "no answer")),
    };
    let mut body = response.into_body().into_data_stream();
    let mut pending: Vec<u8> = Vec::new();
    loop {
        // A list comes in one go; changes come whenever there are some.
        let patience = if events.list.is_some() { cluster.0.retry.answer } else { LIFETIME + END_LIMIT };
        let Ok(Some(Ok(chunk))) = tokio::time::timeout(patience, body.next()).await else {
            if events.list.is_some() {
                let message = "the watch ended before everything was listed";
                return WatchEnd::Failed(call.call_error(ErrorClass::Transport, message));
            }
            // However it ended, what was read stands; half a line is read again.
            return WatchEnd::Resume(events.version);
        };
        pending.extend_from_slice(&chunk);
        let mut start = 0;
        while let Some(length) = pending[start..].iter().position(|byte| *byte == b'\n') {
            let line = &pending[start..start + length];
            start += length + 1;
            if line.trim_ascii().is_empty() {
                continue;
            }
            let Ok(mut event) = serde_json::from_slice::<Value>(line) else { return WatchEnd::Relist };
            let value = event["object"].take();
            match event["type"].as_str().unwrap_or_default() {
                "ERROR" => {
                    let status = ApiStatus::from_object(&value, 500);
                    return match status.code {
                        410 => WatchEnd::Relist,
                        _ => WatchEnd::Failed(Error::from_status(&call.action, status)),
                    };
                }
                kind => events.take(kind, value),
            }
        }
        pending.drain(..start);
        if pending.len() > LONGEST_LINE {
            return WatchEnd::Relist;
        }
    }
}
