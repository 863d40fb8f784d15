//! Serving over TLS: HTTP/1.1 and HTTP/2 on one port, and the kubeconfig that reaches it.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base64::Engine;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

use crate::http::control::{ClientCredentials, SandboxServer};
use crate::sandbox::Sandbox;

/// Time limit for a TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Time limit for the headers of a request, and for an idle connection before them.
const HEADERS: Duration = Duration::from_secs(90);
/// Interval of the pings to clients, and time limit for their answer.
const PING: Duration = Duration::from_secs(30);
/// Number of connections that may be open without authentication.
const MOST_UNKNOWN_CLIENTS: usize = 256;
/// Pause before accepting again when the system has no resources left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

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
        let acceptor = TlsAcceptor::from(Arc::new(self.tls_config(bound)?));
        let mut connections = JoinSet::new();
        let mut strangers = UnknownClients::default();
        tokio::pin!(shutdown);
        loop {
            tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) => {
                        let proof = ConnectionProof::default();
                        strangers.make_room();
                        let task = serve_connection(stream, acceptor.clone(), self.clone(), proof.clone());
                        strangers.add(proof, connections.spawn(task));
                    }
                    // An error of one client ends with its connection. Other errors, such as too many open
                    // files, stay until something is closed: accepting again at once would only spin.
                    Err(e) if is_of_one_client(&e) => {}
                    Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
                },
                Some(_) = connections.join_next(), if !connections.is_empty() => {}
                () = &mut shutdown => return Ok(()),
            }
        }
    }

    fn tls_config(&self, bound: SocketAddr) -> io::Result<ServerConfig> {
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
        let mut config = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_client_cert_verifier(self.client_verifier(&provider)?)
            .with_single_cert(
                vec![CertificateDer::from(certificate)],
                PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key)),
            )
            .map_err(io::Error::other)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(config)
    }

    /// Accepts certificates of our authority, and clients that show none.
    fn client_verifier(&self, provider: &Arc<CryptoProvider>) -> io::Result<Arc<dyn ClientCertVerifier>> {
        let mut roots = RootCertStore::empty();
        let authority = CertificateDer::from_pem_slice(self.authority().certificate_pem().as_bytes());
        roots.add(authority.map_err(io::Error::other)?).map_err(io::Error::other)?;
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
            .allow_unauthenticated()
            .build()
            .map_err(io::Error::other)
    }

    /// A kubeconfig for the administrator of the cluster served at `address`.
    pub fn kubeconfig(&self, address: SocketAddr) -> String {
        self.kubeconfig_with(address, &ClientCredentials::Token(self.authority().admin_token().to_owned()))
    }

    /// A kubeconfig for whoever holds `credentials`.
    pub fn kubeconfig_with(&self, address: SocketAddr, credentials: &ClientCredentials) -> String {
        let encode = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
        let ca = encode(self.authority().certificate_pem());
        let host = if address.ip().is_unspecified() { "127.0.0.1".to_owned() } else { host_text(address) };
        let user = match credentials {
            ClientCredentials::Token(token) => format!("token: {token}"),
            ClientCredentials::Certificate { certificate, key } => format!(
                "client-certificate-data: {}\n    client-key-data: {}",
                encode(certificate),
                encode(key)
            ),
        };
        format!(
            "apiVersion: v1\n\
             kind: Config\n\
             clusters:\n\
             - name: slipway-sandbox\n  cluster:\n    server: https://{host}:{port}\n    certificate-authority-data: {ca}\n\
             users:\n\
             - name: slipway-sandbox\n  user:\n    {user}\n\
             contexts:\n\
             - name: slipway-sandbox\n  context:\n    cluster: slipway-sandbox\n    user: slipway-sandbox\n\
             current-context: slipway-sandbox\n",
            port = address.port(),
        )
    }
}

fn host_text(address: SocketAddr) -> String {
    match address.ip() {
        std::net::IpAddr::V4(ip) => ip.to_string(),
        std::net::IpAddr::V6(ip) => format!("[{ip}]"),
    }
}

/// Set when somebody on the connection has authenticated.
#[derive(Clone, Default)]
pub(crate) struct ConnectionProof(Arc<AtomicBool>);

impl ConnectionProof {
    pub(crate) fn mark_given(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn is_given(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Connections of clients that have not authenticated: in a handshake, half way through a request, or anonymous.
/// There are never more than [`MOST_UNKNOWN_CLIENTS`]; the oldest is closed to make room.
#[derive(Default)]
struct UnknownClients(VecDeque<(ConnectionProof, AbortHandle)>);

impl UnknownClients {
    fn add(&mut self, proof: ConnectionProof, task: AbortHandle) {
        self.0.push_back((proof, task));
    }

    fn make_room(&mut self) {
        if self.0.len() < MOST_UNKNOWN_CLIENTS {
            return;
        }
        self.0.retain(|(proof, task)| !proof.is_given() && !task.is_finished());
        while self.0.len() >= MOST_UNKNOWN_CLIENTS {
            if let Some((_, task)) = self.0.pop_front() {
                task.abort();
            }
        }
    }
}

/// Returns true if an accept failed for a reason that is gone with the connection.
fn is_of_one_client(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}

async fn serve_connection(
    stream: TcpStream,
    acceptor: TlsAcceptor,
    sandbox: Sandbox,
    proof: ConnectionProof,
) {
    let _ = stream.set_nodelay(true);
    let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await else { return };
    let certificate = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
    let user = certificate.and_then(|der| crate::auth::certificate::certificate_user(der));
    if user.is_some() {
        proof.mark_given();
    }
    let service = SandboxServer::new(sandbox, user, proof);
    let mut server = auto::Builder::new(TokioExecutor::new());
    server.http1().timer(TokioTimer::new()).header_read_timeout(HEADERS);
    server
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(Some(PING))
        .keep_alive_timeout(PING)
        .max_concurrent_streams(1000)
        .adaptive_window(true);
    // Errors of a client that hangs up are not reported.
    let _ = server.serve_connection(TokioIo::new(stream), TowerToHyperService::new(service)).await;
}
