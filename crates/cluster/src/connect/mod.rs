//! Connecting: from kubeconfig files and overrides to a [`Cluster`] that reads its credentials again when they expire.

mod kubeconfig;
mod login;
mod origin;
mod transport;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use kube::Config;
use kube::config::KubeConfigOptions;
use secrecy::SecretString;
use slipway_event::{Redactor, without_credentials};
use slipway_problem::Problem;

use crate::Cluster;
use crate::error::{Error, ErrorClass};
use crate::request::error_chain;

use login::LoginSource;
use transport::TransportError;

pub use login::{BasicLogin, ClientCertificate, PemSource};
pub(crate) use origin::describe_login_error;
pub use origin::{LoginOrigin, LoginProgram};

/// The identity requests are made under instead of the user's own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Impersonation {
    pub user: Option<String>,
    pub groups: Vec<String>,
    pub uid: Option<String>,
}

/// The place a kubeconfig is read from.
#[derive(Clone, Debug)]
pub enum KubeconfigSource {
    /// Files the user named; of several, missing ones are skipped, as with kubectl.
    Files(Vec<PathBuf>),
    /// The user's own file, if there is one; without it the service account of the pod this runs in is used.
    Default(Option<PathBuf>),
    /// The text itself.
    Text(SecretString),
}

impl Default for KubeconfigSource {
    fn default() -> Self {
        Self::Default(None)
    }
}

/// The credentials of a kubeconfig that may be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CredentialPolicy {
    /// Everything: the kubeconfig is the user's own.
    #[default]
    Any,
    /// Only what is written in the kubeconfig itself, for one that somebody else wrote: it may neither run a program
    /// on this machine nor send one of its files to a server of its choice.
    Inline,
}

/// Settings of a connection. What is not set comes from the kubeconfig.
#[derive(Clone, Debug, Default)]
pub struct ConnectOptions {
    pub kubeconfig: KubeconfigSource,
    pub credentials: CredentialPolicy,
    pub context: Option<String>,
    /// The kubeconfig's cluster to use instead of the context's.
    pub cluster: Option<String>,
    /// The kubeconfig's user to log in as instead of the context's.
    pub user: Option<String>,
    /// The address of the API server.
    pub server: Option<String>,
    pub namespace: Option<String>,
    pub token: Option<SecretString>,
    pub token_file: Option<PathBuf>,
    pub basic_login: Option<BasicLogin>,
    pub client_certificate: Option<ClientCertificate>,
    /// The certificates of the authority that signs the server's.
    pub certificate_authority: Option<PemSource>,
    /// Accepts any certificate of the server.
    pub skip_tls_verify: bool,
    pub tls_server_name: Option<String>,
    pub impersonation: Impersonation,
    pub proxy: Option<String>,
    /// Time limit for opening a connection.
    pub timeout: Option<Duration>,
}

/// A cluster that was connected to.
#[derive(Clone)]
pub struct Connection {
    pub cluster: Cluster,
    /// The address of the server without credentials, for messages.
    pub server: String,
    /// The namespace to work in: the option's, the context's, or `default`.
    pub namespace: String,
    /// The name of the kubeconfig's context; none for a server given by its address or a pod's own cluster.
    pub context: Option<String>,
    /// The origin of the credentials; none if nobody logs in.
    pub login: Option<LoginOrigin>,
}

/// Connects as the options say. Sends nothing yet; [`Cluster::server_version`] tells whether anybody is there.
///
/// Every credential read is registered with the redactor first. Credentials that expire are read again.
pub async fn connect(options: &ConnectOptions, redactor: &Redactor) -> Result<Connection, Problem> {
    let ReadConfig { config, context, login } = read_config(options, redactor).await?;
    let address = config.cluster_url.to_string();
    let server = without_credentials(address.trim_end_matches('/')).into_owned();
    let namespace = config.default_namespace.clone();
    let client = open_client(config, &server, login.as_ref())?;
    let (options, redactor, known) = (options.clone(), redactor.clone(), server.clone());
    let cluster = Cluster::new(client).with_login(login.clone()).with_reconnect(Arc::new(move || {
        let (options, redactor, known) = (options.clone(), redactor.clone(), known.clone());
        Box::pin(async move {
            let read = read_config(&options, &redactor).await;
            read.and_then(|read| open_client(read.config, &known, read.login.as_ref())).map_err(|problem| {
                let error =
                    Error::new(ErrorClass::Unauthorized, "read the credentials again", problem.message);
                Error { hint: problem.hint.map(String::into_boxed_str), ..error }
            })
        })
    }));
    Ok(Connection { cluster, server, namespace, context, login })
}

fn open_client(config: Config, server: &str, login: Option<&LoginOrigin>) -> Result<kube::Client, Problem> {
    transport::open_client(config).map_err(|error| {
        let unreadable = || match &error {
            TransportError::Client(error) => kubeconfig::unreadable_login(error, login),
            _ => None,
        };
        if let (TransportError::Client(kube::Error::Auth(why)), Some(login)) = (&error, login) {
            return login.login_problem(server, why);
        }
        unreadable().unwrap_or_else(|| {
            Problem::error(format!("cannot connect to {server}: {}", error_chain(&error)))
                .hint("check the certificates and files that the kubeconfig names")
        })
    })
}

/// What a connection is opened with.
#[derive(Debug)]
struct ReadConfig {
    config: Config,
    /// The name of the kubeconfig's context.
    context: Option<String>,
    login: Option<LoginOrigin>,
}

/// Reads the kubeconfig and lays the overrides over it.
async fn read_config(options: &ConnectOptions, redactor: &Redactor) -> Result<ReadConfig, Problem> {
    let (mut context, mut login) = (options.context.clone(), None);
    let mut config = match kubeconfig::read(&options.kubeconfig, redactor)? {
        Some(joined) => {
            if options.credentials == CredentialPolicy::Inline {
                kubeconfig::check_inline(&joined.config)?;
            }
            let choice = KubeConfigOptions {
                context: options.context.clone(),
                cluster: options.cluster.clone(),
                user: options.user.clone(),
            };
            kubeconfig::check_names(&joined, &choice)?;
            login = joined.login_origin(&choice);
            context = context.or(joined.config.current_context.clone());
            Config::from_custom_kubeconfig(joined.config.clone(), &choice)
                .await
                .map_err(|error| kubeconfig::wrong_context(&joined, &choice, &error))?
        }
        None if options.cluster.is_some() || options.user.is_some() => {
            let problem = Problem::error("there is no kubeconfig to take the cluster or the user from");
            return Err(problem.hint("name one with --kubeconfig"));
        }
        None => match &options.server {
            Some(server) => Config::new(parse_address(server)?),
            None => {
                login = Some(LoginOrigin::ServiceAccount);
                Config::incluster().map_err(|_| {
                    Problem::error("there is no kubeconfig, and this is no pod of a cluster")
                        .hint("name one with --kubeconfig, or try it in the embedded cluster with --sandbox")
                })?
            }
        },
    };
    if let Some(server) = &options.server {
        config.cluster_url = parse_address(server)?;
    }
    if let Some(namespace) = &options.namespace {
        config.default_namespace.clone_from(namespace);
    }
    if let Some(authority) = &options.certificate_authority {
        login::override_authority(&mut config, authority)?;
    }
    config.accept_invalid_certs |= options.skip_tls_verify;
    if let Some(name) = &options.tls_server_name {
        config.tls_server_name = Some(name.clone());
    }
    if let Some(proxy) = &options.proxy {
        config.proxy_url = Some(parse_address(proxy)?);
    }
    if let Some(timeout) = options.timeout {
        config.connect_timeout = Some(timeout);
    }
    // Requests are repeated by this crate, which keeps time limits and tells what the server answered.
    config.default_retry = false;
    if login::override_login(&mut config, options, redactor)? == LoginSource::Options {
        login = Some(LoginOrigin::Given);
    }
    register_address(&config.cluster_url, redactor);
    Ok(ReadConfig { config, context, login })
}

/// Hides a login in the server's address; libraries may name it without its scheme.
fn register_address(address: &Uri, redactor: &Redactor) {
    let login = address.authority().and_then(|authority| authority.as_str().rsplit_once('@'));
    let Some((login, _)) = login else { return };
    redactor.register(login);
    if let Some((_, password)) = login.split_once(':') {
        redactor.register(password);
    }
}

/// Parses the address of a server; `https` if it names no scheme.
fn parse_address(text: &str) -> Result<Uri, Problem> {
    let address = if text.contains("://") { text.to_owned() } else { format!("https://{text}") };
    address.parse().map_err(|_| {
        let shown = without_credentials(text).into_owned();
        Problem::error(format!("`{shown}` is no address of a server")).hint("such as https://10.0.0.1:6443")
    })
}

/// Returns the contexts of a kubeconfig, sorted, and the current one.
pub fn list_contexts(
    source: &KubeconfigSource,
    redactor: &Redactor,
) -> Result<(Vec<String>, Option<String>), Problem> {
    let Some(joined) = kubeconfig::read(source, redactor)? else { return Ok((Vec::new(), None)) };
    let mut names: Vec<String> = joined.config.contexts.into_iter().map(|context| context.name).collect();
    names.sort();
    Ok((names, joined.config.current_context))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: &str = r#"
apiVersion: v1
kind: Config
current-context: one
clusters:
- {name: a, cluster: {server: "https://a.example:6443", insecure-skip-tls-verify: true}}
contexts:
- {name: one, context: {cluster: a, user: u, namespace: shop}}
- {name: two, context: {cluster: b, user: u}}
users:
- {name: u, user: {token: first-secret-token}}
"#;
    const SECOND: &str = r#"
apiVersion: v1
kind: Config
current-context: two
clusters:
- {name: b, cluster: {server: "https://b.example:6443"}}
users:
- {name: u, user: {token: second-secret-token}}
"#;

    #[tokio::test]
    async fn files_are_joined_overridden_and_their_secrets_hidden() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        std::fs::write(path("first"), FIRST).unwrap();
        std::fs::write(path("second"), SECOND).unwrap();
        let files = vec![path("missing"), path("first"), path("second")];
        let options =
            ConnectOptions { kubeconfig: KubeconfigSource::Files(files), ..ConnectOptions::default() };
        let redactor = Redactor::new();
        let plain = read_config(&options, &redactor).await.unwrap().config;
        assert_eq!(
            (plain.cluster_url.to_string().as_str(), plain.default_namespace.as_str()),
            ("https://a.example:6443/", "shop")
        );
        assert!(plain.accept_invalid_certs);
        assert!(!redactor.redact("first-secret-token second-secret-token").contains("secret"));
        let other = ConnectOptions { context: Some("two".into()), ..options.clone() };
        assert_eq!(
            read_config(&other, &redactor).await.unwrap().config.cluster_url.host(),
            Some("b.example")
        );
        let over = ConnectOptions {
            server: Some("jo:hidden-password@c.example".into()),
            namespace: Some("n".into()),
            token_file: Some(path("token")),
            impersonation: Impersonation { user: Some("jo".into()), groups: vec!["g".into()], uid: None },
            ..options.clone()
        };
        let over = read_config(&over, &redactor).await.unwrap().config;
        assert_eq!((over.cluster_url.host(), over.default_namespace.as_str()), (Some("c.example"), "n"));
        assert!(over.auth_info.token.is_none() && over.auth_info.token_file.is_some());
        assert_eq!(over.auth_info.impersonate.as_deref(), Some("jo"));
        assert!(!redactor.redact("hidden-password").contains("hidden"));
        let (names, current) = list_contexts(&options.kubeconfig, &redactor).unwrap();
        assert_eq!((names, current.as_deref()), (vec!["one".into(), "two".into()], Some("one")));
    }

    #[tokio::test]
    async fn a_wrong_kubeconfig_is_refused_without_a_word_of_its_contents() {
        let text = |text: &str| ConnectOptions {
            kubeconfig: KubeconfigSource::Text(text.into()),
            ..ConnectOptions::default()
        };
        let nowhere = KubeconfigSource::Files(vec!["nowhere/at/all".into()]);
        for (options, says) in [
            (ConnectOptions { context: Some("none".into()), ..text(FIRST) }, "there is no context `none`"),
            (text("users: [{name: u, user: {token: first-secret-token}}"), "not the YAML of a kubeconfig"),
            (
                ConnectOptions { kubeconfig: nowhere, ..ConnectOptions::default() },
                "cannot read the kubeconfig",
            ),
            (ConnectOptions { server: Some("http://[".into()), ..text(FIRST) }, "no address"),
            (
                ConnectOptions {
                    impersonation: Impersonation { groups: vec!["g".into()], ..Impersonation::default() },
                    ..text(FIRST)
                },
                "without a user",
            ),
        ] {
            let problem = read_config(&options, &Redactor::new()).await.unwrap_err();
            assert!(problem.message.contains(says), "{says}: {problem:?}");
            assert!(!format!("{problem:?}").contains("first-secret-token"));
        }
    }

    #[tokio::test]
    async fn a_foreign_kubeconfig_runs_no_program_and_reads_no_file() {
        let read = async |user: &str, cluster: &str| {
            let text = FIRST
                .replace("{token: first-secret-token}", user)
                .replace("insecure-skip-tls-verify: true", cluster);
            let options = ConnectOptions {
                kubeconfig: KubeconfigSource::Text(text.into()),
                credentials: CredentialPolicy::Inline,
                ..ConnectOptions::default()
            };
            read_config(&options, &Redactor::new()).await
        };
        let plain = "insecure-skip-tls-verify: true";
        for (user, cluster, says) in [
            ("{exec: {apiVersion: client.authentication.k8s.io/v1, command: sh}}", plain, "runs a program"),
            ("{auth-provider: {name: gcp, config: {}}}", plain, "names an `auth-provider`"),
            ("{tokenFile: /var/run/secrets/token}", plain, "`tokenFile`"),
            ("{client-certificate: /a, client-key: /b}", plain, "`client-certificate`, `client-key`"),
            ("{token: t}", "certificate-authority: /etc/ca.crt", "`certificate-authority`"),
        ] {
            let problem = read(user, cluster).await.unwrap_err();
            assert!(problem.message.contains(says), "{says}: {problem:?}");
        }
        assert!(read("{token: t}", plain).await.is_ok());
    }
}
