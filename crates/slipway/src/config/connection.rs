//! Settings of the connection to a cluster: flags, else the variables of Helm and Nelm.

use std::path::PathBuf;

use secrecy::{ExposeSecret, SecretString};
use slipway_cluster::connect::{BasicLogin, ClientCertificate, PemSource};
use slipway_event::Redactor;
use slipway_problem::{Location, Problem, Problems};

use super::{Layers, Origin, Setting};
use crate::cli::ConnectionFlags;

/// Overrides of what the kubeconfig says of the cluster. They come from flags and variables alone.
#[derive(Clone, Debug)]
pub struct ConnectionSettings {
    pub server: Setting<Option<String>>,
    pub token: Setting<Option<SecretString>>,
    pub token_file: Setting<Option<PathBuf>>,
    pub certificate_authority: Setting<Option<PathBuf>>,
    pub certificate_authority_data: Setting<Option<SecretString>>,
    pub certificate: Setting<Option<PathBuf>>,
    pub certificate_data: Setting<Option<SecretString>>,
    pub key: Setting<Option<PathBuf>>,
    pub key_data: Setting<Option<SecretString>>,
    /// The name of a basic login.
    pub username: Setting<Option<String>>,
    pub password: Setting<Option<SecretString>>,
    /// The kubeconfig's cluster to use instead of the context's.
    pub context_cluster: Setting<Option<String>>,
    /// The kubeconfig's user to use instead of the context's.
    pub context_user: Setting<Option<String>>,
    pub skip_tls_verify: Setting<bool>,
    pub tls_server_name: Setting<Option<String>>,
    /// The user to act as.
    pub user: Setting<Option<String>>,
    pub groups: Setting<Vec<String>>,
    pub uid: Setting<Option<String>>,
    pub proxy: Setting<Option<String>>,
    /// The text of a kubeconfig.
    pub kubeconfig_text: Setting<Option<SecretString>>,
}

impl ConnectionSettings {
    pub(super) fn resolve(flags: &ConnectionFlags, layers: &Layers, problems: &mut Problems) -> Self {
        let text = |text: &str| Ok(Some(text.to_owned()));
        let path = |text: &str| Ok(Some(PathBuf::from(text)));
        let secret = |text: &str| Ok(Some(SecretString::from(text)));
        let groups = (!flags.kube_as_group.is_empty()).then(|| flags.kube_as_group.clone());
        let kubeconfig = flags.kube_config_base64.as_deref().map(kubeconfig_text);
        let kubeconfig = kubeconfig.and_then(|read| {
            problems.collect_from(read.map_err(|problem| problem.at(Location::file("--kube-config-base64"))))
        });
        Self {
            server: layers.pick(
                flags.kube_apiserver.clone().map(Some),
                &["HELM_KUBEAPISERVER", "NELM_KUBE_API_SERVER"],
                "connection.server",
                text,
                problems,
            ),
            token: layers.pick(
                flags.kube_token.clone().map(|token| Some(token.into())),
                &["HELM_KUBETOKEN", "NELM_KUBE_TOKEN"],
                "connection.token",
                secret,
                problems,
            ),
            token_file: layers.pick(
                flags.kube_token_file.clone().map(Some),
                &["NELM_KUBE_TOKEN_PATH"],
                "connection.tokenFile",
                path,
                problems,
            ),
            certificate_authority: layers.pick(
                flags.kube_ca_file.clone().map(Some),
                &["HELM_KUBECAFILE", "NELM_KUBE_CA"],
                "connection.certificateAuthority",
                path,
                problems,
            ),
            certificate_authority_data: layers.pick(
                flags.kube_ca_data.clone().map(|data| Some(data.into())),
                &["NELM_KUBE_CA_DATA"],
                "connection.certificateAuthorityData",
                secret,
                problems,
            ),
            certificate: layers.pick(
                flags.kube_cert.clone().map(Some),
                &["NELM_KUBE_CERT"],
                "connection.certificate",
                path,
                problems,
            ),
            certificate_data: layers.pick(
                flags.kube_cert_data.clone().map(|data| Some(data.into())),
                &["NELM_KUBE_CERT_DATA"],
                "connection.certificateData",
                secret,
                problems,
            ),
            key: layers.pick(
                flags.kube_key.clone().map(Some),
                &["NELM_KUBE_KEY"],
                "connection.key",
                path,
                problems,
            ),
            key_data: layers.pick(
                flags.kube_key_data.clone().map(|data| Some(data.into())),
                &["NELM_KUBE_KEY_DATA"],
                "connection.keyData",
                secret,
                problems,
            ),
            username: layers.pick(
                flags.kube_auth_username.clone().map(Some),
                &["NELM_KUBE_AUTH_USERNAME"],
                "connection.username",
                text,
                problems,
            ),
            password: layers.pick(
                flags.kube_auth_password.clone().map(|password| Some(password.into())),
                &["NELM_KUBE_AUTH_PASSWORD"],
                "connection.password",
                secret,
                problems,
            ),
            context_cluster: layers.pick(
                flags.kube_context_cluster.clone().map(Some),
                &["NELM_KUBE_CONTEXT_CLUSTER"],
                "connection.contextCluster",
                text,
                problems,
            ),
            context_user: layers.pick(
                flags.kube_context_user.clone().map(Some),
                &["NELM_KUBE_CONTEXT_USER"],
                "connection.contextUser",
                text,
                problems,
            ),
            skip_tls_verify: layers.pick(
                flags.kube_insecure_skip_tls_verify.then_some(true),
                &["HELM_KUBEINSECURE_SKIP_TLS_VERIFY", "NELM_NO_VERIFY_KUBE_TLS"],
                "connection.skipTLSVerify",
                truth,
                problems,
            ),
            tls_server_name: layers.pick(
                flags.kube_tls_server_name.clone().map(Some),
                &["HELM_KUBETLS_SERVER_NAME", "NELM_KUBE_API_SERVER_TLS_NAME"],
                "connection.tlsServerName",
                text,
                problems,
            ),
            user: layers.pick(
                flags.kube_as_user.clone().map(Some),
                &["HELM_KUBEASUSER", "NELM_KUBE_IMPERSONATE_USER"],
                "connection.user",
                text,
                problems,
            ),
            groups: layers.pick(
                groups,
                &["HELM_KUBEASGROUPS", "NELM_KUBE_IMPERSONATE_GROUP"],
                "connection.groups",
                |text| Ok(text.split(',').map(|group| group.trim().to_owned()).collect()),
                problems,
            ),
            uid: layers.pick(
                flags.kube_impersonate_uid.clone().map(Some),
                &["NELM_KUBE_IMPERSONATE_UID"],
                "connection.uid",
                text,
                problems,
            ),
            proxy: layers.pick(
                flags.kube_proxy_url.clone().map(Some),
                &["NELM_KUBE_PROXY_URL"],
                "connection.proxy",
                text,
                problems,
            ),
            kubeconfig_text: layers.pick(
                kubeconfig.map(Some),
                &["NELM_KUBE_CONFIG_BASE_64", "NELM_KUBE_CONFIG_BASE64"],
                "connection.kubeconfig",
                |text| kubeconfig_text(text).map(Some),
                problems,
            ),
        }
    }

    /// Hides what nobody is to see wherever something is shown.
    pub fn register_secrets(&self, redactor: &Redactor) {
        let secrets = [&self.token, &self.password, &self.key_data, &self.kubeconfig_text];
        for secret in secrets.into_iter().filter_map(|setting| setting.value.as_ref()) {
            redactor.register(secret.expose_secret());
        }
    }

    /// The certificates to trust: those of a file, or their text.
    pub fn certificate_authority(&self) -> Result<Option<PemSource>, Problem> {
        one_pem(
            &self.certificate_authority,
            &self.certificate_authority_data,
            "--kube-ca-file",
            "--kube-ca-data",
        )
    }

    /// The name and password to log in with.
    pub fn basic_login(&self) -> Result<Option<BasicLogin>, Problem> {
        match (&self.username.value, &self.password.value) {
            (Some(username), Some(password)) => {
                Ok(Some(BasicLogin { username: username.clone(), password: password.clone() }))
            }
            (None, None) => Ok(None),
            (Some(_), None) => Err(Problem::error("a user name is given and no password").hint(
                "add --kube-auth-password, or NELM_KUBE_AUTH_PASSWORD, which no list of processes shows",
            )),
            (None, Some(_)) => {
                Err(Problem::error("a password is given and no user name").hint("add --kube-auth-username"))
            }
        }
    }

    /// The certificate to log in with, and its key.
    pub fn client_certificate(&self) -> Result<Option<ClientCertificate>, Problem> {
        let certificate =
            one_pem(&self.certificate, &self.certificate_data, "--kube-cert", "--kube-cert-data")?;
        let key = one_pem(&self.key, &self.key_data, "--kube-key", "--kube-key-data")?;
        match (certificate, key) {
            (Some(certificate), Some(key)) => Ok(Some(ClientCertificate { certificate, key })),
            (None, None) => Ok(None),
            (Some(_), None) => Err(Problem::error("a certificate to log in with is given and no key")
                .hint("add --kube-key or --kube-key-data")),
            (None, Some(_)) => Err(Problem::error("a key to log in with is given and no certificate")
                .hint("add --kube-cert or --kube-cert-data")),
        }
    }
}

/// The one of two settings that is given. A flag wins over a variable, as for every other setting.
fn one_pem(
    file: &Setting<Option<PathBuf>>,
    text: &Setting<Option<SecretString>>,
    file_flag: &str,
    text_flag: &str,
) -> Result<Option<PemSource>, Problem> {
    let is_flag = |origin: &Origin| *origin == Origin::Flag;
    match (&file.value, &text.value) {
        (Some(_), Some(_)) if is_flag(&file.origin) == is_flag(&text.origin) => {
            Err(Problem::error(format!("{file_flag} and {text_flag} say the same thing; give one of them")))
        }
        (Some(_), Some(text_value)) if is_flag(&text.origin) => Ok(Some(PemSource::Text(text_value.clone()))),
        (Some(file), _) => Ok(Some(PemSource::File(file.clone()))),
        (None, Some(text)) => Ok(Some(PemSource::Text(text.clone()))),
        (None, None) => Ok(None),
    }
}

/// Decodes a kubeconfig given as base64. No part of it is shown.
fn kubeconfig_text(encoded: &str) -> Result<SecretString, Problem> {
    let bytes = slipway_go::binary::base64_decode(encoded.trim().as_bytes()).ok();
    let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
    let problem =
        || Problem::error("the kubeconfig is not text in base64").hint("`base64 -w0 FILE` encodes a file");
    text.map(SecretString::from).ok_or_else(problem)
}

/// Reads a truth value as Go's `strconv.ParseBool` does, which Helm uses.
fn truth(text: &str) -> Result<bool, Problem> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err(Problem::error(format!("`{text}` is neither true nor false"))),
    }
}
