//! Logging in with what the user gives instead of the login of the kubeconfig.

use std::path::PathBuf;

use data_encoding::BASE64;
use kube::Config;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use secrecy::{ExposeSecret, SecretString};
use slipway_event::Redactor;
use slipway_problem::Problem;

use super::{ConnectOptions, Impersonation};

/// Certificates or a key in PEM form.
#[derive(Clone, Debug)]
pub enum PemSource {
    File(PathBuf),
    /// The text itself, or the text in base64 as a kubeconfig has it.
    Text(SecretString),
}

/// A name and a password, sent with every request.
#[derive(Clone, Debug)]
pub struct BasicLogin {
    pub username: String,
    pub password: SecretString,
}

/// A certificate that says who the user is, with its key.
#[derive(Clone, Debug)]
pub struct ClientCertificate {
    pub certificate: PemSource,
    pub key: PemSource,
}

/// The text of a PEM file, which a kubeconfig keeps in base64.
fn pem_text(text: &SecretString) -> String {
    let text = text.expose_secret().trim();
    let decoded = || {
        let packed: String = text.split_whitespace().collect();
        BASE64.decode(packed.as_bytes()).ok().and_then(|bytes| String::from_utf8(bytes).ok())
    };
    if text.starts_with("-----BEGIN") {
        text.to_owned()
    } else {
        decoded().unwrap_or_else(|| text.to_owned())
    }
}

/// Lets the certificates of an authority replace those of the kubeconfig.
pub(super) fn override_authority(config: &mut Config, authority: &PemSource) -> Result<(), Problem> {
    match authority {
        PemSource::File(file) => {
            config.root_cert = None;
            config.root_cert_file = Some(file.clone());
        }
        PemSource::Text(text) => {
            let text = pem_text(text);
            let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text.as_bytes()).collect();
            let found = found.ok().filter(|found| !found.is_empty()).ok_or_else(|| {
                Problem::error("the certificates of the API server are not in PEM form")
                    .hint("give the text of a file that begins with `-----BEGIN CERTIFICATE-----`, or that text in base64")
            })?;
            config.root_cert = Some(found.into_iter().map(|certificate| certificate.to_vec()).collect());
            config.root_cert_file = None;
        }
    }
    Ok(())
}

/// The place a login comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LoginSource {
    Kubeconfig,
    Options,
}

/// Lets a login that was given replace every way of the kubeconfig to log in, and acts as somebody else where asked.
/// Says which of the two it is.
pub(super) fn override_login(
    config: &mut Config,
    options: &ConnectOptions,
    redactor: &Redactor,
) -> Result<LoginSource, Problem> {
    let login = &mut config.auth_info;
    let ConnectOptions { token, token_file, basic_login, client_certificate, .. } = options;
    let is_given =
        token.is_some() || token_file.is_some() || basic_login.is_some() || client_certificate.is_some();
    if is_given {
        (login.exec, login.auth_provider) = (None, None);
        login.token = token.clone();
        login.token_file = token_file.as_ref().map(|file| file.display().to_string());
        login.username = basic_login.as_ref().map(|login| login.username.clone());
        login.password = basic_login.as_ref().map(|login| login.password.clone());
        (login.client_certificate, login.client_certificate_data) = (None, None);
        (login.client_key, login.client_key_data) = (None, None);
    }
    match client_certificate.as_ref().map(|given| &given.certificate) {
        Some(PemSource::File(file)) => login.client_certificate = Some(file.display().to_string()),
        Some(PemSource::Text(text)) => {
            login.client_certificate_data = Some(BASE64.encode(pem_text(text).as_bytes()));
        }
        None => {}
    }
    match client_certificate.as_ref().map(|given| &given.key) {
        Some(PemSource::File(file)) => login.client_key = Some(file.display().to_string()),
        Some(PemSource::Text(text)) => {
            login.client_key_data = Some(BASE64.encode(pem_text(text).as_bytes()).into());
        }
        None => {}
    }
    for secret in [&login.token, &login.password, &login.client_key_data].into_iter().flatten() {
        redactor.register(secret.expose_secret());
    }
    let Impersonation { user, groups, uid } = &options.impersonation;
    if user.is_some() {
        login.impersonate = user.clone();
        login.impersonate_uid = uid.clone();
        login.impersonate_groups = (!groups.is_empty()).then(|| groups.clone());
    } else if uid.is_some() || !groups.is_empty() {
        let problem = Problem::error("groups or a uid cannot be impersonated without a user");
        return Err(problem.hint("name the user with --kube-as-user"));
    }
    Ok(if is_given { LoginSource::Options } else { LoginSource::Kubeconfig })
}
