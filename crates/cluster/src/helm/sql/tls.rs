//! Encryption of a connection to a database, by the TLS library of everything else.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use slipway_problem::read_file;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect};
use tokio_rustls::client::TlsStream;

use super::settings::{ClientIdentity, RootCertificates, Verification};

/// The reason a connection cannot be encrypted as asked for.
#[derive(Debug, thiserror::Error)]
pub(super) enum TlsSetupError {
    #[error("cannot read {keyword} {path}: {source}")]
    Read { keyword: &'static str, path: String, source: io::Error },
    #[error("{keyword} {path} holds no {wanted} in PEM")]
    Pem { keyword: &'static str, path: String, wanted: &'static str },
    #[error("this system has no certificates of authorities")]
    NoAuthorities,
    #[error(transparent)]
    Verifier(#[from] rustls::client::VerifierBuilderError),
    #[error(transparent)]
    Tls(#[from] rustls::Error),
}

fn read_pem(keyword: &'static str, path: &std::path::Path) -> Result<Vec<u8>, TlsSetupError> {
    read_file(path).map_err(|source| {
        let path = path.display().to_string();
        TlsSetupError::Read { keyword, path, source }
    })
}

fn certificates(
    keyword: &'static str,
    path: &std::path::Path,
) -> Result<Vec<CertificateDer<'static>>, TlsSetupError> {
    let bytes = read_pem(keyword, path)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    let found = found.unwrap_or_default();
    if found.is_empty() {
        let path = path.display().to_string();
        return Err(TlsSetupError::Pem { keyword, path, wanted: "certificate" });
    }
    Ok(found)
}

fn root_store(roots: &RootCertificates) -> Result<RootCertStore, TlsSetupError> {
    let mut store = RootCertStore::empty();
    match roots {
        RootCertificates::File(path) => {
            for certificate in certificates("sslrootcert", path)? {
                store.add(certificate)?;
            }
        }
        RootCertificates::System => {
            store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            if store.is_empty() {
                return Err(TlsSetupError::NoAuthorities);
            }
        }
    }
    Ok(store)
}

/// Settles how a server is checked and who logs in.
pub(super) fn client_config(
    verification: &Verification,
    identity: Option<&ClientIdentity>,
) -> Result<ClientConfig, TlsSetupError> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let by_authority = |roots| -> Result<_, TlsSetupError> {
        let roots = Arc::new(root_store(roots)?);
        Ok(WebPkiServerVerifier::builder_with_provider(roots, provider.clone()).build()?)
    };
    let verifier: Arc<dyn ServerCertVerifier> = match verification {
        Verification::Nothing => Arc::new(LenientVerifier { provider: provider.clone(), authority: None }),
        Verification::Authority(roots) => {
            let authority = Some(by_authority(roots)?);
            Arc::new(LenientVerifier { provider: provider.clone(), authority })
        }
        Verification::AuthorityAndName(roots) => by_authority(roots)?,
    };
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    let Some(ClientIdentity { certificate, key }) = identity else {
        return Ok(builder.with_no_client_auth());
    };
    let chain = certificates("sslcert", certificate)?;
    let bytes = read_pem("sslkey", key)?;
    let missing = |_| {
        let path = key.display().to_string();
        TlsSetupError::Pem { keyword: "sslkey", path, wanted: "unencrypted key" }
    };
    let key = PrivateKeyDer::from_pem_slice(&bytes).map_err(missing)?;
    Ok(builder.with_client_auth_cert(chain, key)?)
}

/// Takes certificates whatever host they name; if there is an authority, only those it vouches for.
#[derive(Debug)]
struct LenientVerifier {
    provider: Arc<CryptoProvider>,
    authority: Option<Arc<WebPkiServerVerifier>>,
}

impl ServerCertVerifier for LenientVerifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        stapled: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let Some(authority) = &self.authority else { return Ok(ServerCertVerified::assertion()) };
        match authority.verify_server_cert(certificate, chain, name, stapled, now) {
            // The name is looked at last, once the authority was found good.
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            verdict => verdict,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signed, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// Encrypts connections, and remembers that a server was willing to.
#[derive(Clone)]
pub(super) struct TlsMaker {
    config: Arc<ClientConfig>,
    greeted: Arc<AtomicBool>,
}

impl TlsMaker {
    pub(super) fn new(config: ClientConfig) -> TlsMaker {
        TlsMaker { config: Arc::new(config), greeted: Arc::default() }
    }

    /// Tells that a server agreed to encryption, whatever became of it.
    pub(super) fn was_greeted(&self) -> bool {
        self.greeted.load(Ordering::Relaxed)
    }
}

impl<S> MakeTlsConnect<S> for TlsMaker
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = EncryptedStream<S>;
    type TlsConnect = TlsHandshake;
    type Error = rustls::pki_types::InvalidDnsNameError;

    fn make_tls_connect(&mut self, host: &str) -> Result<TlsHandshake, Self::Error> {
        // A socket of this machine has no name, and is never encrypted.
        let host = if host.is_empty() { "localhost" } else { host };
        let name = ServerName::try_from(host.to_owned())?;
        Ok(TlsHandshake { maker: self.clone(), name })
    }
}

/// A handshake that has not begun.
pub(super) struct TlsHandshake {
    maker: TlsMaker,
    name: ServerName<'static>,
}

impl<S> TlsConnect<S> for TlsHandshake
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = EncryptedStream<S>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<EncryptedStream<S>>> + Send>>;

    fn connect(self, stream: S) -> Self::Future {
        self.maker.greeted.store(true, Ordering::Relaxed);
        let connector = tokio_rustls::TlsConnector::from(self.maker.config);
        Box::pin(async move { connector.connect(self.name, stream).await.map(EncryptedStream) })
    }
}

/// An encrypted connection.
pub(super) struct EncryptedStream<S>(TlsStream<S>);

impl<S: AsyncRead + AsyncWrite + Unpin> tokio_postgres::tls::TlsStream for EncryptedStream<S> {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for EncryptedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for EncryptedStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
