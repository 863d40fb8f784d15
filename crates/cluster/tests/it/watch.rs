//! What a watch passes on to its sink.

use std::convert::Infallible;
use std::future::ready;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures::{StreamExt as _, stream};
use http_body_util::{BodyExt as _, Either, Full, StreamBody};
use hyper::body::Frame;
use kube::client::Body;
use serde_json::{Value, json};
use slipway_cluster::{Cluster, Error, WatchSink};
use slipway_manifest::Gvk;
use tokio::sync::Notify;
use tower::{Service as _, service_fn};

use crate::world::{bare, soon};

/// Notes every call until an object named `last` has changed.
#[derive(Default)]
struct CallNotes {
    calls: Mutex<Vec<String>>,
    is_done: Notify,
}

impl CallNotes {
    fn note(&self, call: String) {
        self.calls.lock().unwrap().push(call);
    }
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap()
}

impl WatchSink for CallNotes {
    fn list_began(&self) {
        self.note("list".to_owned());
    }
    fn list_page(&self, objects: Vec<Value>) {
        objects.iter().for_each(|object| self.note(format!("listed {}", name(object))));
    }
    fn list_ended(&self, version: &str) {
        self.note(format!("list ended at {version}"));
    }
    fn changed(&self, object: Value) {
        self.note(format!("changed {}", name(&object)));
        if name(&object) == "last" {
            self.is_done.notify_one();
        }
    }
    fn deleted(&self, object: Value) {
        self.note(format!("deleted {}", name(&object)));
    }
    fn denied(&self, error: Error) {
        panic!("{error}");
    }
}

/// A line of a watch.
fn event((kind, name, version): (&str, &str, u32)) -> String {
    let metadata = json!({"name": name, "namespace": "default", "resourceVersion": version.to_string()});
    format!("{}\n", json!({"type": kind, "object": {"metadata": metadata}}))
}

#[tokio::test]
async fn what_is_deleted_while_a_list_is_streamed_is_gone() {
    let (sandbox, _) = bare();
    let listed = [
        ("ADDED", "kept", 1),
        ("ADDED", "gone", 2),
        ("ADDED", "again", 3),
        // From here on the server's cache catches up with what was true when it was asked.
        ("MODIFIED", "kept", 4),
        ("DELETED", "gone", 5),
        ("DELETED", "again", 6),
        ("ADDED", "again", 7),
    ];
    let mut script: Vec<String> = listed.into_iter().map(event).collect();
    let end = json!({"resourceVersion": "7", "annotations": {"k8s.io/initial-events-end": "true"}});
    script.push(format!("{}\n", json!({"type": "BOOKMARK", "object": {"metadata": end}})));
    script.push(event(("ADDED", "last", 8)));

    let api = sandbox.service();
    let service = service_fn(move |request: http::Request<Body>| {
        let (mut api, script) = (api.clone(), script.concat());
        async move {
            let query = request.uri().query().unwrap_or_default();
            if query.contains("sendInitialEvents=true") {
                return Ok(http::Response::new(Body::from(script.into_bytes())));
            }
            if query.contains("watch=true") {
                return std::future::pending().await;
            }
            let (head, body) = api.call(request).await?.into_parts();
            let body = Body::from(body.collect().await?.to_bytes().to_vec());
            Ok::<_, tower::BoxError>(http::Response::from_parts(head, body))
        }
    });
    let cluster = Cluster::new(kube::Client::new(service, "default"));
    let kind = cluster.find_kind(&Gvk::from_api_version("v1", "ConfigMap")).await.unwrap().unwrap();
    let notes = Arc::new(CallNotes::default());
    let _watch = cluster.watch_kind(&kind, Some("default"), notes.clone());
    soon(notes.is_done.notified()).await;
    let expected = [
        "list",
        "listed kept",
        "listed gone",
        "listed again",
        "listed kept",
        "listed again",
        "list ended at 7",
        "deleted gone",
        "changed last",
    ];
    assert_eq!(*notes.calls.lock().unwrap(), expected);
}

#[tokio::test(start_paused = true)]
async fn a_list_whose_end_does_not_come_is_asked_for_without_a_watch() {
    let (sandbox, _) = bare();
    let api = sandbox.service();
    let service = service_fn(move |request: http::Request<Body>| {
        let mut api = api.clone();
        async move {
            let query = request.uri().query().unwrap_or_default();
            let sent = match (query.contains("sendInitialEvents=true"), query.contains("watch=true")) {
                (true, _) => event(("ADDED", "half", 1)),
                (false, true) => event(("ADDED", "last", 1000)),
                (false, false) => {
                    let (head, body) = api.call(request).await?.into_parts();
                    let body = Full::new(body.collect().await?.to_bytes());
                    return Ok(http::Response::from_parts(head, Either::Left(body)));
                }
            };
            let sent = stream::once(ready(Ok::<_, Infallible>(Frame::data(Bytes::from(sent)))));
            let body = StreamBody::new(sent.chain(stream::pending()));
            Ok::<_, tower::BoxError>(http::Response::new(Either::Right(body)))
        }
    });
    let cluster = Cluster::new(kube::Client::new(service, "default"));
    let kind = cluster.find_kind(&Gvk::from_api_version("v1", "ConfigMap")).await.unwrap().unwrap();
    let notes = Arc::new(CallNotes::default());
    let _watch = cluster.watch_kind(&kind, Some("default"), notes.clone());
    notes.is_done.notified().await;
    let calls = notes.calls.lock().unwrap();
    let (listed, rest) = calls.split_at(calls.len() - 2);
    assert_eq!(listed, ["list", "listed half", "list", "listed half", "list", "listed kube-root-ca.crt"]);
    assert!(rest[0].starts_with("list ended at ") && rest[1] == "changed last", "{rest:?}");
}
