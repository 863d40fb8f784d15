//! The HTTP transport of a connection.
//!
//! Requests share one HTTP/2 connection where the server speaks it, as those of kubectl do: a plan asks for sixty objects at
//! once, and a connection each would be sixty TLS handshakes. Watches share another: a server lets only so many streams
//! through one connection, and they would take the places of requests for minutes. Followed logs and everything beyond
//! the places for watches have HTTP/1.1 connections of their own: a log whose reader pauses must not hold up others.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use futures::future::BoxFuture;
use http::header::UPGRADE;
use http::{HeaderValue, Request, Response, Uri};
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use kube::Config;
use kube::client::{Body, ClientBuilder, ConfigExt as _};
use percent_encoding::percent_decode_str;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tower::util::{BoxCloneSyncService, option_layer};
use tower::{BoxError, Service, ServiceExt as _};

/// The silence on a connection with open requests after which the server is asked for a sign of life, and the time it
/// has to give one. A connection that is dead is noticed before a lease of ten seconds that is renewed through it ends.
const PING_AFTER: Duration = Duration::from_secs(4);
const PING_TIMEOUT: Duration = Duration::from_secs(4);

/// The most watches that share a connection. Servers let a hundred streams or more through one, and a request beyond
/// that waits until another has ended.
const SHARED_WATCHES: usize = 50;

/// The probes of connections that HTTP/2 does not ask for a sign of life: the system asks, and gives up after three
/// questions without an answer. A network that has forgotten a connection is noticed within half a minute.
const PROBE_AFTER: Duration = Duration::from_secs(15);
const PROBE_INTERVAL: Duration = Duration::from_secs(5);
const PROBES: u32 = 3;

/// The reason a client cannot be opened: something is wrong with the settings.
#[derive(Debug, thiserror::Error)]
pub(super) enum TransportError {
    #[error(transparent)]
    Client(#[from] kube::Error),
    #[error("`{0}` is no name a server can have")]
    ServerName(String),
    #[error("its proxy is reached by `{0}`; http, https and socks5 are known")]
    Proxy(String),
}

/// Opens a client; nothing is sent yet.
pub(super) fn open_client(config: Config) -> Result<kube::Client, TransportError> {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // Somebody else may have been quicker, with the same provider.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    }
    let transport = Transport {
        requests: http_client(&config, HttpVersions::All)?,
        watches: http_client(&config, HttpVersions::All)?,
        streams: http_client(&config, HttpVersions::Http1)?,
        watch_places: Arc::new(Semaphore::new(SHARED_WATCHES)),
    };
    let builder = ClientBuilder::new(transport.map_err(BoxError::from), config.default_namespace.clone())
        .with_layer(&config.extra_headers_layer()?)
        .with_layer(&option_layer(config.auth_layer()?))
        .with_layer(&config.base_uri_layer());
    Ok(builder.build())
}

/// The versions of HTTP that a client offers.
#[derive(Clone, Copy)]
enum HttpVersions {
    Http1,
    All,
}

/// A connection to the server or to a proxy before it, before TLS with the server.
type WireStream = MaybeHttpsStream<TokioIo<TcpStream>>;
/// Opens such connections. One type, whatever is in between: each would be another copy of a whole HTTP client.
type WireConnector = BoxCloneSyncService<Uri, WireStream, BoxError>;
type HttpClient = legacy::Client<TimeoutConnector<HttpsConnector<WireConnector>>, Body>;

/// Connects to the server, through the proxy if there is one.
fn wire_connector(config: &Config, tls: &ClientConfig) -> Result<WireConnector, TransportError> {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_keepalive(Some(PROBE_AFTER));
    tcp.set_keepalive_interval(Some(PROBE_INTERVAL));
    tcp.set_keepalive_retries(Some(PROBES));
    let Some(proxy) = &config.proxy_url else {
        return Ok(BoxCloneSyncService::new(tcp.map_response(WireStream::Http).map_err(BoxError::from)));
    };
    match proxy.scheme_str() {
        Some("socks5") => {
            let socks = SocksV5::new(proxy.clone(), tcp);
            Ok(BoxCloneSyncService::new(socks.map_response(WireStream::Http).map_err(BoxError::from)))
        }
        Some("http" | "https") => {
            let https = HttpsConnectorBuilder::new().with_tls_config(tls.clone()).https_or_http();
            let tunnel = Tunnel::new(proxy.clone(), https.enable_http1().wrap_connector(tcp));
            let tunnel = match proxy_login(proxy) {
                Some(login) => tunnel.with_auth(login),
                None => tunnel,
            };
            Ok(BoxCloneSyncService::new(tunnel.map_err(BoxError::from)))
        }
        scheme => Err(TransportError::Proxy(scheme.unwrap_or("none").to_owned())),
    }
}

/// The login in the address of a proxy, as the proxy wants it.
fn proxy_login(proxy: &Uri) -> Option<HeaderValue> {
    let (login, _) = proxy.authority()?.as_str().rsplit_once('@')?;
    let login: Vec<u8> = percent_decode_str(login).collect();
    let mut header = HeaderValue::try_from(format!("Basic {}", BASE64.encode(login))).ok()?;
    header.set_sensitive(true);
    Some(header)
}

fn http_client(config: &Config, versions: HttpVersions) -> Result<HttpClient, TransportError> {
    let tls = config.rustls_client_config()?;
    let wire = wire_connector(config, &tls)?;
    let mut https = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http();
    if let Some(name) = &config.tls_server_name {
        let name =
            ServerName::try_from(name.clone()).map_err(|_| TransportError::ServerName(name.clone()))?;
        https = https.with_server_name_resolver(FixedServerNameResolver::new(name));
    }
    let https = match versions {
        HttpVersions::Http1 => https.enable_http1().wrap_connector(wire),
        HttpVersions::All => https.enable_all_versions().wrap_connector(wire),
    };
    let mut connector = TimeoutConnector::new(https);
    connector.set_connect_timeout(config.connect_timeout);
    connector.set_read_timeout(config.read_timeout);
    connector.set_write_timeout(config.write_timeout);
    connector.set_reset_reader_on_write(config.reset_reader_on_write);
    Ok(legacy::Client::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .http2_keep_alive_interval(PING_AFTER)
        .http2_keep_alive_timeout(PING_TIMEOUT)
        .build(connector))
}

/// Sends each request through the client that is made for its answer.
#[derive(Clone)]
struct Transport {
    requests: HttpClient,
    watches: HttpClient,
    streams: HttpClient,
    watch_places: Arc<Semaphore>,
}

impl Service<Request<Body>> for Transport {
    type Response = Response<AnswerBody>;
    type Error = legacy::Error;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        // All of them take requests at any time.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (client, place) = match AnswerKind::of_request(&request) {
            AnswerKind::Whole => (&mut self.requests, None),
            AnswerKind::Watch => match self.watch_places.clone().try_acquire_owned() {
                Ok(place) => (&mut self.watches, Some(place)),
                Err(_) => (&mut self.streams, None),
            },
            AnswerKind::Stream => (&mut self.streams, None),
        };
        let answer = client.call(request);
        Box::pin(async move { Ok(answer.await?.map(|body| AnswerBody { body, _watch_place: place })) })
    }
}

/// The way an answer arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AnswerKind {
    /// At once, and ends.
    Whole,
    /// Event by event, without an end of its own.
    Watch,
    /// As a followed log or in another protocol: without an end, and at the pace of its reader.
    Stream,
}

impl AnswerKind {
    fn of_request<B>(request: &Request<B>) -> AnswerKind {
        let asks_for = |name: &str| {
            let query = request.uri().query().unwrap_or_default();
            let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
            pairs.any(|(key, value)| key == name && matches!(value, "true" | "1"))
        };
        if request.headers().contains_key(UPGRADE) || asks_for("follow") {
            AnswerKind::Stream
        } else if asks_for("watch") {
            AnswerKind::Watch
        } else {
            AnswerKind::Whole
        }
    }
}

/// The body of an answer; a watch gives its place back when it is dropped.
struct AnswerBody {
    body: Incoming,
    _watch_place: Option<OwnedSemaphorePermit>,
}

impl HttpBody for AnswerBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_without_an_end_are_told_by_the_request() {
        for (path, expected) in [
            ("/api/v1/pods", AnswerKind::Whole),
            ("/api/v1/pods?limit=500&resourceVersion=0", AnswerKind::Whole),
            ("/api/v1/pods?watch=false", AnswerKind::Whole),
            ("/api/v1/pods?limit=500&watch=true", AnswerKind::Watch),
            ("/api/v1/pods?watch=1", AnswerKind::Watch),
            ("/api/v1/namespaces/a/pods/p/log?follow=true&container=c", AnswerKind::Stream),
            ("/api/v1/namespaces/a/pods/p/log?container=c", AnswerKind::Whole),
        ] {
            let request = Request::get(path).body(()).expect("a request");
            assert_eq!(AnswerKind::of_request(&request), expected, "{path}");
        }
        let upgrade = Request::get("/api/v1/namespaces/a/pods/p/exec").header(UPGRADE, "websocket");
        let upgrade = upgrade.body(()).expect("a request");
        assert_eq!(AnswerKind::of_request(&upgrade), AnswerKind::Stream);
    }
}
