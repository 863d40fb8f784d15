//! A small client over the in-process service.

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use slipway_sandbox::{ApiService, ResponseBody, Sandbox};
use tower::ServiceExt;

pub(crate) struct Client {
    service: ApiService,
}

pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) headers: http::HeaderMap,
    pub(crate) body: Value,
    pub(crate) text: String,
    pub(crate) bytes: Bytes,
}

pub(crate) const MERGE: &str = "application/merge-patch+json";
pub(crate) const STRATEGIC: &str = "application/strategic-merge-patch+json";
pub(crate) const APPLY: &str = "application/apply-patch+yaml";
pub(crate) const JSON_PATCH: &str = "application/json-patch+json";

impl Answer {
    async fn of(response: http::Response<ResponseBody>) -> Answer {
        let code = response.status().as_u16();
        let headers = response.headers().clone();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        Answer { code, headers, body: serde_json::from_slice(&bytes).unwrap_or(Value::Null), text, bytes }
    }
}

impl Client {
    pub(crate) fn new(sandbox: &Sandbox) -> Client {
        Client::of(sandbox.service())
    }

    pub(crate) fn of(service: ApiService) -> Client {
        Client { service }
    }

    pub(crate) async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> http::Response<ResponseBody> {
        let mut request = Request::builder().method(method).uri(path).header("user-agent", "tests/1.0");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(body.into())).unwrap();
        self.service.clone().oneshot(request).await.unwrap()
    }

    /// Sends a request as it is, with no agent but its own.
    pub(crate) async fn of_request(&self, request: http::request::Builder) -> Answer {
        let request = request.body(Full::new(Bytes::new())).unwrap();
        Answer::of(self.service.clone().oneshot(request).await.unwrap()).await
    }

    pub(crate) async fn request(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Answer {
        Answer::of(self.send(method, path, headers, body).await).await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.request("GET", path, &[], "").await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.request("POST", path, &[("content-type", "application/json")], body.to_string()).await
    }

    pub(crate) async fn put(&self, path: &str, body: &Value) -> Answer {
        self.request("PUT", path, &[("content-type", "application/json")], body.to_string()).await
    }

    pub(crate) async fn patch(&self, path: &str, kind: &str, body: &Value) -> Answer {
        self.request("PATCH", path, &[("content-type", kind)], body.to_string()).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.request("DELETE", path, &[], "").await
    }
}

/// A sandbox without simulated workloads and a client for it.
pub(crate) fn bare() -> (Sandbox, Client) {
    let sandbox = Sandbox::builder().without_workloads().seed(7).build().unwrap();
    let client = Client::new(&sandbox);
    (sandbox, client)
}

pub(crate) const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

pub(crate) fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "1"}})
}
