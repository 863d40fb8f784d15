//! A disk that runs full and gets room again.

use std::fs::File;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tower::ServiceExt;

use super::super::Disk;
use crate::sandbox::Sandbox;

struct SmallDisk {
    room: AtomicUsize,
}

impl Disk for SmallDisk {
    fn write(&self, file: &mut File, bytes: &[u8]) -> io::Result<()> {
        let room = self.room.load(Ordering::Relaxed);
        let fits = room.min(bytes.len());
        file.write_all(&bytes[..fits])?;
        self.room.store(room - fits, Ordering::Relaxed);
        if fits < bytes.len() { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }
}

async fn send(sandbox: &Sandbox, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let text = if body.is_null() { Bytes::new() } else { body.to_string().into() };
    let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
    let response = sandbox.service().oneshot(request.body(Full::new(text)).unwrap()).await.unwrap();
    let code = response.status().as_u16();
    let text = response.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&text).unwrap_or_default())
}

#[tokio::test]
async fn a_full_disk_refuses_writes_until_there_is_room() {
    const MAPS: &str = "/api/v1/namespaces/default/configmaps";
    const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let dir = tempfile::tempdir().unwrap();
    let disk = Arc::new(SmallDisk { room: AtomicUsize::new(usize::MAX) });
    let builder = || Sandbox::builder().without_workloads().data_dir(dir.path());
    let sandbox = builder().disk(disk.clone()).build().unwrap();
    let map = |name: &str, value: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": value}});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                          "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    });
    let (a, b) = (&*format!("{MAPS}/a"), &*format!("{MAPS}/b"));
    let nothing = Value::Null;
    assert_eq!(send(&sandbox, "POST", MAPS, &map("a", "1")).await.0, 201);
    sandbox.settle().await;
    let before = send(&sandbox, "GET", a, &nothing).await.1;
    // Not even a whole record fits.
    disk.room.store(10, Ordering::Relaxed);
    for (method, path, body) in [
        ("POST", MAPS, map("b", "1")),
        ("PUT", a, map("a", "2")),
        ("DELETE", a, Value::Null),
        ("POST", DEFINITIONS, definition.clone()),
    ] {
        let (code, said) = send(&sandbox, method, path, &body).await;
        assert_eq!((code, said["reason"].as_str()), (500, Some("InternalError")), "{method} {path}");
    }
    sandbox.settle().await;
    assert_eq!(send(&sandbox, "GET", a, &nothing).await, (200, before.clone()));
    assert_eq!(send(&sandbox, "GET", b, &nothing).await.0, 404);
    assert_eq!(send(&sandbox, "GET", "/apis/example.com/v1", &nothing).await.0, 404);
    let (code, list) = send(&sandbox, "GET", MAPS, &nothing).await;
    let named = |list: &Value, name: &str| {
        list["items"].as_array().unwrap().iter().any(|item| item["metadata"]["name"] == name)
    };
    assert!(code == 200 && named(&list, "a") && !named(&list, "b"));
    for (path, code) in
        [("/readyz", 500), ("/readyz/ping", 200), ("/readyz?exclude=etcd", 200), ("/livez", 200)]
    {
        assert_eq!(send(&sandbox, "GET", path, &nothing).await.0, code, "{path}");
    }
    disk.room.store(usize::MAX, Ordering::Relaxed);
    assert_eq!(send(&sandbox, "GET", "/readyz", &nothing).await.0, 200);
    assert_eq!(send(&sandbox, "POST", MAPS, &map("b", "3")).await.0, 201);
    assert_eq!(send(&sandbox, "PUT", a, &map("a", "4")).await.0, 200);
    assert_eq!(send(&sandbox, "POST", DEFINITIONS, &definition).await.0, 201);
    sandbox.settle().await;
    drop(sandbox);
    let sandbox = builder().build().unwrap();
    assert!(sandbox.notices().is_empty(), "{:?}", sandbox.notices());
    for (path, value) in [(a, "4"), (b, "3")] {
        assert_eq!(send(&sandbox, "GET", path, &nothing).await.1["data"]["a"], value, "{path}");
    }
}
