//! A small HTTP server on a free port that records what it is asked; every backend's rules are a function on it.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// A request as it came.
#[derive(Clone, Debug)]
pub(crate) struct SeenRequest {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl SeenRequest {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    pub(crate) fn form(&self, name: &str) -> Option<String> {
        url_decode_pairs(std::str::from_utf8(&self.body).ok()?)
            .into_iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value)
    }

    pub(crate) fn query_value(&self, name: &str) -> Option<String> {
        url_decode_pairs(&self.query).into_iter().find(|(key, _)| key == name).map(|(_, value)| value)
    }
}

fn url_decode_pairs(text: &str) -> Vec<(String, String)> {
    let decode = |text: &str| {
        let mut bytes = Vec::new();
        let mut rest = text.bytes();
        while let Some(byte) = rest.next() {
            match byte {
                b'+' => bytes.push(b' '),
                b'%' => {
                    let digits = [rest.next().unwrap_or(b'0'), rest.next().unwrap_or(b'0')];
                    bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap());
                }
                other => bytes.push(other),
            }
        }
        String::from_utf8(bytes).unwrap()
    };
    text.split('&')
        .filter_map(|pair| pair.split_once('='))
        .map(|(key, value)| (decode(key), decode(value)))
        .collect()
}

/// An answer to give.
pub(crate) struct TestAnswer {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
}

pub(crate) fn json(status: u16, body: &Value) -> TestAnswer {
    TestAnswer {
        status,
        headers: vec![("content-type", "application/json".into())],
        body: body.to_string().into_bytes(),
    }
}

pub(crate) fn text(status: u16, body: &str) -> TestAnswer {
    TestAnswer { status, headers: Vec::new(), body: body.as_bytes().to_vec() }
}

impl TestAnswer {
    pub(crate) fn with_header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }
}

/// A running server; it ends when dropped.
pub(crate) struct TestServer {
    pub(crate) address: SocketAddr,
    seen: Arc<Mutex<Vec<SeenRequest>>>,
    task: JoinHandle<()>,
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl TestServer {
    pub(crate) async fn start(answer: impl Fn(&SeenRequest) -> TestAnswer + Send + Sync + 'static) -> Self {
        Self::start_async(move |request| {
            let answer = answer(&request);
            Box::pin(async move { answer })
        })
        .await
    }

    /// Starts a server whose answers may take their time.
    pub(crate) async fn start_async(
        answer: impl Fn(SeenRequest) -> BoxFuture<'static, TestAnswer> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen: Arc<Mutex<Vec<SeenRequest>>> = Arc::default();
        let (record, answer) = (Arc::clone(&seen), Arc::new(answer));
        let task = tokio::spawn(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else { return };
                let (record, answer) = (Arc::clone(&record), Arc::clone(&answer));
                tokio::spawn(async move {
                    let service = service_fn(move |request: Request<Incoming>| {
                        let (record, answer) = (Arc::clone(&record), Arc::clone(&answer));
                        async move {
                            let request = read(request).await;
                            record.lock().unwrap().push(request.clone());
                            Ok::<_, Infallible>(write(answer(request).await))
                        }
                    });
                    let builder = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
                    let _ = builder.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Self { address, seen, task }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn seen(&self) -> Vec<SeenRequest> {
        self.seen.lock().unwrap().clone()
    }

    /// The number of requests whose path ends so.
    pub(crate) fn count(&self, end: &str) -> usize {
        self.seen().iter().filter(|request| request.path.ends_with(end)).count()
    }
}

async fn read(request: Request<Incoming>) -> SeenRequest {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.map(|body| body.to_bytes().to_vec()).unwrap_or_default();
    let headers = parts
        .headers
        .iter()
        .map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned()));
    SeenRequest {
        method: parts.method.to_string(),
        path: parts.uri.path().to_owned(),
        query: parts.uri.query().unwrap_or_default().to_owned(),
        headers: headers.collect(),
        body,
    }
}

fn write(answer: TestAnswer) -> Response<Full<Bytes>> {
    let mut response = Response::builder().status(answer.status);
    for (name, value) in answer.headers {
        response = response.header(name, value);
    }
    response.body(Full::new(answer.body.into())).unwrap()
}
