//! Serving over TLS: HTTP/1.1 and HTTP/2 on one port, and the kubeconfig that reaches it.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use base64::Engine;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{RootCertStore, ServerConfig};
use slipway_http::server::{ALPN, AcceptedConnection, ServerOptions, TlsSettings, serve_connections};
use tokio::net::TcpListener;

use crate::http::control::{ClientCredentials, SandboxServer};
use crate::sandbox::Sandbox;

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
        let tls: Arc<dyn TlsSettings> = Arc::new(Arc::new(self.tls_config(bound)?));
        let sandbox = self.clone();
        let service = move |connection: AcceptedConnection| {
            let AcceptedConnection { certificate, proof } = connection;
            let user = certificate.and_then(|der| crate::auth::certificate::certificate_user(&der));
            if user.is_some() {
                proof.mark_given();
            }
            SandboxServer::new(sandbox.clone(), user, proof)
        };
        serve_connections(listener, ServerOptions { tls: Some(tls), drain: None }, service, shutdown).await
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
        config.alpn_protocols = ALPN.map(<[u8]>::to_vec).to_vec();
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
