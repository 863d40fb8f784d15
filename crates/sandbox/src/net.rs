//! Serving over TLS: HTTP/1.1 and HTTP/2 on one port, and the kubeconfig that reaches it.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::sandbox::Sandbox;
use crate::service::{ApiService, Caller};

/// A client that has not finished its handshake by then never will.
const HANDSHAKE: Duration = Duration::from_secs(10);

impl Sandbox {
    /// Listens on `address` (port 0 picks one) and serves until `shutdown` ends.
    ///
    /// The address is known as soon as this returns; the future does the serving.
    pub async fn listen(
        &self,
        address: SocketAddr,
        shutdown: impl Future<Output = ()> + Send + 'static,
    ) -> io::Result<(SocketAddr, impl Future<Output = io::Result<()>> + Send + 'static)> {
        let listener = TcpListener::bind(address).await?;
        let bound = listener.local_addr()?;
        let serving = self.clone();
        Ok((bound, async move { serving.serve(listener, shutdown).await }))
    }

    /// Serves the API over TLS on a listener until `shutdown` ends.
    pub async fn serve(&self, listener: TcpListener, shutdown: impl Future<Output = ()>) -> io::Result<()> {
        let bound = listener.local_addr()?;
        self.core().options.address.set(&bound.to_string());
        let acceptor = TlsAcceptor::from(Arc::new(self.tls(bound)?));
        let service = ApiService::new(self.core().clone(), Caller::Network);
        let mut connections = JoinSet::new();
        tokio::pin!(shutdown);
        loop {
            tokio::select! {
                accepted = listener.accept() => {
                    // A connection that cannot be accepted is one client's trouble, not the server's.
                    if let Ok((stream, _)) = accepted {
                        connections.spawn(connection(stream, acceptor.clone(), service.clone()));
                    }
                }
                Some(_) = connections.join_next(), if !connections.is_empty() => {}
                () = &mut shutdown => return Ok(()),
            }
        }
    }

    fn tls(&self, bound: SocketAddr) -> io::Result<ServerConfig> {
        let mut names: Vec<String> = [
            "localhost",
            "kubernetes",
            "kubernetes.default",
            "kubernetes.default.svc",
            "kubernetes.default.svc.cluster.local",
            "127.0.0.1",
            "::1",
            "10.96.0.1",
        ]
        .map(str::to_owned)
        .to_vec();
        if !bound.ip().is_unspecified() && !bound.ip().is_loopback() {
            names.push(bound.ip().to_string());
        }
        let (certificate, key) = self.authority().server_certificate(&names).map_err(io::Error::other)?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_no_client_auth()
            .with_single_cert(
                vec![CertificateDer::from(certificate)],
                PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key)),
            )
            .map_err(io::Error::other)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(config)
    }

    /// A kubeconfig for the administrator of the cluster served at `address`.
    pub fn kubeconfig(&self, address: SocketAddr) -> String {
        let authority = self.authority();
        let ca = base64::engine::general_purpose::STANDARD.encode(authority.certificate());
        let host = if address.ip().is_unspecified() { "127.0.0.1".to_owned() } else { ip(address) };
        format!(
            "apiVersion: v1\n\
             kind: Config\n\
             clusters:\n\
             - name: slipway-sandbox\n  cluster:\n    server: https://{host}:{port}\n    certificate-authority-data: {ca}\n\
             users:\n\
             - name: slipway-sandbox\n  user:\n    token: {token}\n\
             contexts:\n\
             - name: slipway-sandbox\n  context:\n    cluster: slipway-sandbox\n    user: slipway-sandbox\n\
             current-context: slipway-sandbox\n",
            port = address.port(),
            token = authority.token(),
        )
    }
}

fn ip(address: SocketAddr) -> String {
    match address.ip() {
        std::net::IpAddr::V4(ip) => ip.to_string(),
        std::net::IpAddr::V6(ip) => format!("[{ip}]"),
    }
}

async fn connection(stream: TcpStream, acceptor: TlsAcceptor, service: ApiService) {
    let _ = stream.set_nodelay(true);
    let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await else { return };
    let mut server = auto::Builder::new(TokioExecutor::new());
    server.http2().max_concurrent_streams(1000).adaptive_window(true);
    // How a client hangs up is its own business.
    let _ = server.serve_connection(TokioIo::new(stream), TowerToHyperService::new(service)).await;
}
