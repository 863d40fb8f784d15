//! The HTTP transport of a connection.
//!
//! Requests share one HTTP/2 connection where the server speaks it, as those of kubectl do: a plan asks for sixty objects at
//! once, and a connection each would be sixty TLS handshakes. Answers that stay open, watches and followed logs, have
//! HTTP/1.1 connections of their own: a server lets only so many streams through one connection, and watches would
//! take the places of requests for minutes.

use std::task::{Context, Poll};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use http::header::UPGRADE;
use http::{HeaderValue, Request, Response, Uri};
use hyper::body::Incoming;
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::client::legacy::{self, ResponseFuture};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use kube::Config;
use kube::client::{Body, ClientBuilder, ConfigExt as _};
use percent_encoding::percent_decode_str;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tower::util::{BoxCloneSyncService, option_layer};
use tower::{BoxError, Service, ServiceExt as _};

/// The silence on a connection with open requests after which the server is asked for a sign of life, and the time it
/// has to give one. A connection that is dead is noticed before a lease of ten seconds that is renewed through it ends.
const PING_AFTER: Duration = Duration::from_secs(4);
const PING_TIMEOUT: Duration = Duration::from_secs(4);

/// The same for connections that nothing is sent through while a watch is open: the system asks, and gives up after three
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
        streams: http_client(&config, HttpVersions::Http1)?,
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
    streams: HttpClient,
}

impl Service<Request<Body>> for Transport {
    type Response = Response<Incoming>;
    type Error = legacy::Error;
    type Future = ResponseFuture;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        // Both take requests at any time.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let client = if stays_open(&request) { &mut self.streams } else { &mut self.requests };
        client.call(request)
    }
}

/// Tells that the answer to a request has no end of its own: a watch, a followed log, another protocol.
fn stays_open<B>(request: &Request<B>) -> bool {
    let mut pairs =
        request.uri().query().unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='));
    request.headers().contains_key(UPGRADE)
        || pairs.any(|(key, value)| matches!(key, "watch" | "follow") && matches!(value, "true" | "1"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_without_an_end_are_told_by_the_request() {
        for (path, expected) in [
            ("/api/v1/pods", false),
            ("/api/v1/pods?limit=500&resourceVersion=0", false),
            ("/api/v1/pods?watch=false", false),
            ("/api/v1/pods?limit=500&watch=true", true),
            ("/api/v1/pods?watch=1", true),
            ("/api/v1/namespaces/a/pods/p/log?follow=true&container=c", true),
            ("/api/v1/namespaces/a/pods/p/log?container=c", false),
        ] {
            let request = Request::get(path).body(()).expect("a request");
            assert_eq!(stays_open(&request), expected, "{path}");
        }
        let upgrade = Request::get("/api/v1/namespaces/a/pods/p/exec").header(UPGRADE, "websocket");
        assert!(stays_open(&upgrade.body(()).expect("a request")));
    }
}
