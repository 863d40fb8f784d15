//! Serving HTTP/1.1 and HTTP/2 on one port, in the clear or over TLS: the one server of the sandbox and of the controller.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::{Request, Response};
use hyper::body::{Body, Incoming};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tower::Service;

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
/// The time between two looks at the files of a certificate.
const RELOAD_PAUSE: Duration = Duration::from_secs(5);

/// The protocols offered in TLS.
pub const ALPN: [&[u8]; 2] = [b"h2", b"http/1.1"];

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Set when somebody on the connection has authenticated.
#[derive(Clone, Default)]
pub struct ConnectionProof(Arc<AtomicBool>);

impl ConnectionProof {
    pub fn mark_given(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn is_given(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// A connection that was accepted.
pub struct AcceptedConnection {
    /// The certificate the client has shown, in DER.
    pub certificate: Option<Vec<u8>>,
    /// To be marked when the client authenticates: others are closed first when there are too many.
    pub proof: ConnectionProof,
}

/// Gives the TLS settings of a new connection; another answer is a reload.
pub trait TlsSettings: Send + Sync {
    fn current(&self) -> Arc<ServerConfig>;
}

impl TlsSettings for Arc<ServerConfig> {
    fn current(&self) -> Arc<ServerConfig> {
        self.clone()
    }
}

/// Settings of a server.
#[derive(Clone, Default)]
pub struct ServerOptions {
    /// Serves in the clear when absent.
    pub tls: Option<Arc<dyn TlsSettings>>,
    /// The time requests under way are given when the server ends; none closes them at once.
    pub drain: Option<Duration>,
}

/// Serves connections of a listener until `shutdown` ends.
pub async fn serve_connections<S, B>(
    listener: TcpListener,
    options: ServerOptions,
    service: impl Fn(AcceptedConnection) -> S + Clone + Send + 'static,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()>
where
    S: Service<Request<Incoming>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
{
    let mut connections = JoinSet::new();
    let mut strangers = UnknownClients::default();
    let ending = CancellationToken::new();
    tokio::pin!(shutdown);
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    let proof = ConnectionProof::default();
                    strangers.make_room();
                    let task = serve_stream(stream, options.clone(), service.clone(), proof.clone(), ending.clone());
                    strangers.add(proof, connections.spawn(task));
                }
                // An error of one client ends with its connection. Other errors, such as too many open
                // files, stay until something is closed: accepting again at once would only spin.
                Err(e) if is_of_one_client(&e) => {}
                Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
            },
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            () = &mut shutdown => break,
        }
    }
    drop(listener);
    if let Some(drain) = options.drain {
        ending.cancel();
        let all = async { while connections.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(drain, all).await;
    }
    Ok(())
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

async fn serve_stream<S, B>(
    stream: TcpStream,
    options: ServerOptions,
    service: impl Fn(AcceptedConnection) -> S,
    proof: ConnectionProof,
    ending: CancellationToken,
) where
    S: Service<Request<Incoming>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
{
    let _ = stream.set_nodelay(true);
    let drain = options.drain;
    match options.tls {
        None => {
            let service = service(AcceptedConnection { certificate: None, proof });
            serve_requests(stream, service, drain, ending).await;
        }
        Some(tls) => {
            let acceptor = TlsAcceptor::from(tls.current());
            let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await else {
                return;
            };
            let shown = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
            let certificate = shown.map(|certificate| certificate.to_vec());
            let service = service(AcceptedConnection { certificate, proof });
            serve_requests(stream, service, drain, ending).await;
        }
    }
}

async fn serve_requests<S, B>(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    service: S,
    drain: Option<Duration>,
    ending: CancellationToken,
) where
    S: Service<Request<Incoming>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
{
    let mut server = auto::Builder::new(TokioExecutor::new());
    server.http1().timer(TokioTimer::new()).header_read_timeout(HEADERS);
    server
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(Some(PING))
        .keep_alive_timeout(PING)
        .max_concurrent_streams(1000)
        .adaptive_window(true);
    let connection = server.serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
    tokio::pin!(connection);
    // Errors of a client that hangs up are not reported.
    tokio::select! {
        _ = connection.as_mut() => return,
        () = ending.cancelled() => connection.as_mut().graceful_shutdown(),
    }
    if let Some(drain) = drain {
        let _ = tokio::time::timeout(drain, connection).await;
    }
}

/// The reason a certificate cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    #[error("{}: cannot be read", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{}: holds no {expected} in PEM", path.display())]
    Malformed { path: PathBuf, expected: &'static str },
    #[error("the certificate in {} and its key cannot be used together", path.display())]
    Unusable {
        path: PathBuf,
        #[source]
        source: rustls::Error,
    },
}

/// A certificate and its key in two files, read again when they change.
pub struct CertificateFiles {
    certificate: PathBuf,
    key: PathBuf,
    loaded: Mutex<LoadedCertificate>,
}

struct LoadedCertificate {
    texts: (Vec<u8>, Vec<u8>),
    config: Arc<ServerConfig>,
    looked_at: Instant,
}

impl CertificateFiles {
    /// Reads the files. Later versions that cannot be used are passed over: the last good one stays.
    pub fn load(
        certificate: impl Into<PathBuf>,
        key: impl Into<PathBuf>,
    ) -> Result<CertificateFiles, CertificateError> {
        let (certificate, key) = (certificate.into(), key.into());
        let texts = (read(&certificate)?, read(&key)?);
        let config = server_config(&texts, &certificate, &key)?;
        let loaded = Mutex::new(LoadedCertificate { texts, config, looked_at: Instant::now() });
        Ok(Self { certificate, key, loaded })
    }

    /// Looks at the files now.
    pub fn reload(&self) -> Result<(), CertificateError> {
        let texts = (read(&self.certificate)?, read(&self.key)?);
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        loaded.looked_at = Instant::now();
        if texts != loaded.texts {
            loaded.config = server_config(&texts, &self.certificate, &self.key)?;
            loaded.texts = texts;
        }
        Ok(())
    }
}

impl TlsSettings for CertificateFiles {
    fn current(&self) -> Arc<ServerConfig> {
        let is_due = {
            let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
            let is_due = loaded.looked_at.elapsed() >= RELOAD_PAUSE;
            if is_due {
                loaded.looked_at = Instant::now();
            }
            is_due
        };
        if is_due && let Err(error) = self.reload() {
            tracing::warn!(%error, "the new certificate is not used");
        }
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner).config.clone()
    }
}

fn read(path: &Path) -> Result<Vec<u8>, CertificateError> {
    std::fs::read(path).map_err(|source| CertificateError::Read { path: path.to_owned(), source })
}

fn server_config(
    (certificate, key): &(Vec<u8>, Vec<u8>),
    certificate_path: &Path,
    key_path: &Path,
) -> Result<Arc<ServerConfig>, CertificateError> {
    let malformed = |path: &Path, expected| CertificateError::Malformed { path: path.to_owned(), expected };
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(certificate)
        .collect::<Result<_, _>>()
        .ok()
        .filter(|chain: &Vec<_>| !chain.is_empty())
        .ok_or_else(|| malformed(certificate_path, "certificate"))?;
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| malformed(key_path, "private key"))?;
    let unusable = |source| CertificateError::Unusable { path: certificate_path.to_owned(), source };
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(unusable)?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(unusable)?;
    config.alpn_protocols = ALPN.map(<[u8]>::to_vec).to_vec();
    Ok(Arc::new(config))
}
