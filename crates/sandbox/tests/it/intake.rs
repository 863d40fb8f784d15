//! What clients nobody knows can do to the others: nothing.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use slipway_sandbox::Sandbox;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tower::ServiceExt;

/// The first bytes of a TLS handshake, and of nothing more.
const HALF_HELLO: &[u8] = &[0x16, 0x03, 0x01, 0x02, 0x00, 0x01];
const PATIENCE: Duration = Duration::from_secs(300);

/// What a kubeconfig of the sandbox says, decoded.
struct Access {
    address: SocketAddr,
    tls: TlsConnector,
    token: String,
}

impl Access {
    fn new(sandbox: &Sandbox, address: SocketAddr) -> Access {
        use base64::Engine;
        let kubeconfig = sandbox.kubeconfig(address);
        let value =
            |key: &str| kubeconfig.split_once(key).unwrap().1.lines().next().unwrap().trim().to_owned();
        let ca =
            base64::engine::general_purpose::STANDARD.decode(value("certificate-authority-data:")).unwrap();
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(&ca).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        Access { address, tls: TlsConnector::from(Arc::new(tls)), token: value("token:") }
    }

    async fn connect(&self) -> tokio_rustls::client::TlsStream<TcpStream> {
        let stream = TcpStream::connect(self.address).await.unwrap();
        self.tls.connect(ServerName::try_from("localhost").unwrap(), stream).await.unwrap()
    }

    async fn get(&self, path: &str) -> u16 {
        let io = TokioIo::new(self.connect().await);
        let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
        tokio::spawn(connection);
        let request = Request::get(path)
            .header("host", "localhost")
            .header("authorization", format!("Bearer {}", self.token))
            .body(Full::new(Bytes::new()))
            .unwrap();
        sender.send_request(request).await.unwrap().status().as_u16()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn half_open_connections_lock_nobody_out() {
    let sandbox = Sandbox::builder().without_workloads().build().unwrap();
    let (address, serving) =
        sandbox.listen(([127, 0, 0, 1], 0).into(), std::future::pending()).await.unwrap();
    tokio::spawn(serving);
    let access = Access::new(&sandbox, address);
    let mut held = Vec::new();
    let mut talking = Vec::new();
    // More than may be open without anybody showing who they are.
    for number in 0..320 {
        let mut stream = TcpStream::connect(address).await.unwrap();
        if number % 2 == 0 {
            stream.write_all(HALF_HELLO).await.unwrap();
        }
        held.push(stream);
        if number % 80 == 0 {
            let mut stream = access.connect().await;
            stream.write_all(b"POST /api/v1/namespaces HTTP/1.1\r\nhost: x\r\ncontent-le").await.unwrap();
            talking.push(stream);
        }
    }
    let code = tokio::time::timeout(PATIENCE, access.get("/api/v1/namespaces/default")).await;
    assert_eq!(code.expect("the request was answered"), 200);
    drop((held, talking));
}

#[tokio::test]
async fn nobody_makes_the_server_wait_for_a_body_before_being_let_in() {
    let sandbox = Sandbox::builder().without_workloads().rbac(true).build().unwrap();
    for (header, code) in [("Bearer nobody", 401), ("Basic x", 403)] {
        // A body that never comes.
        let body = http_body_util::StreamBody::new(futures::stream::pending::<
            Result<http_body::Frame<Bytes>, std::io::Error>,
        >());
        let request = Request::post("/api/v1/namespaces").header("authorization", header).body(body).unwrap();
        let answer = tokio::time::timeout(PATIENCE, sandbox.server().oneshot(request)).await;
        assert_eq!(answer.expect("answered without the body").unwrap().status(), code, "{header}");
    }
}

#[tokio::test]
async fn credentials_that_cannot_be_read_are_refused() {
    let sandbox = Sandbox::builder().without_workloads().build().unwrap();
    let authorization = http::HeaderValue::from_bytes(b"Bearer \xff\xfe").unwrap();
    let request = Request::get("/version").header("authorization", authorization);
    let answer = sandbox.server().oneshot(request.body(Full::new(Bytes::new())).unwrap()).await.unwrap();
    assert_eq!(answer.status(), 401);
}

#[tokio::test]
async fn impersonation_headers_never_leave_the_administrator_in_charge() {
    let sandbox = Sandbox::builder().without_workloads().rbac(true).build().unwrap();
    let path = "/api/v1/namespaces/kube-system/secrets";
    for (headers, code, says) in [
        (&[("impersonate-user", "jürgen".as_bytes())][..], 403, "User \\\"jürgen\\\" cannot list"),
        (&[("impersonate-user", b"\xff\xfe")], 400, "not UTF-8"),
        (&[("impersonate-user", b"bob"), ("impersonate-group", b"\xff")], 400, "not UTF-8"),
        (&[("impersonate-user", b"bob"), ("impersonate-uid", b"\xff")], 400, "not UTF-8"),
        (&[("impersonate-user", b"bob"), ("impersonate-extra-team", b"\xff")], 400, "not UTF-8"),
        (&[("impersonate-group", b"dev")], 400, "without impersonating a user"),
        (&[("impersonate-uid", b"7")], 400, "without impersonating a user"),
        (&[("impersonate-extra-team", b"blue")], 400, "without impersonating a user"),
        (&[("impersonate-user", b""), ("impersonate-group", b"dev")], 400, "without impersonating a user"),
    ] {
        let mut request = Request::get(path);
        for (name, value) in headers {
            request = request.header(*name, http::HeaderValue::from_bytes(value).unwrap());
        }
        let request = request.body(Full::new(Bytes::new())).unwrap();
        let answer = sandbox.service().oneshot(request).await.unwrap();
        let status = answer.status();
        let text = answer.into_body().collect().await.unwrap().to_bytes();
        let text = String::from_utf8_lossy(&text);
        assert!(status == code && text.contains(says), "{headers:?}: {status} {text}");
    }
}
