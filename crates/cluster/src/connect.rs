//! From kubeconfig files and overrides to a [`Cluster`].

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig};
use secrecy::SecretString;

use crate::Cluster;
use crate::error::{Error, ErrorClass};
use crate::request::error_chain;

/// The user to impersonate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImpersonateOptions {
    pub user: Option<String>,
    pub groups: Vec<String>,
    pub uid: Option<String>,
}

/// Options of a connection. What is not set comes from the kubeconfig files.
#[derive(Clone, Debug, Default)]
pub struct ConnectOptions {
    /// The files, the first saying something winning; missing ones are skipped if there are several.
    /// None at all means the service account of the pod this runs in.
    pub kubeconfig: Vec<PathBuf>,
    /// The text of a kubeconfig, instead of files.
    pub kubeconfig_text: Option<SecretString>,
    pub context: Option<String>,
    pub cluster: Option<String>,
    pub user: Option<String>,
    pub server: Option<String>,
    pub namespace: Option<String>,
    pub token: Option<SecretString>,
    pub token_file: Option<PathBuf>,
    /// A file with the certificates of the authority.
    pub ca: Option<PathBuf>,
    /// Does not check the server's certificate.
    pub insecure: bool,
    pub tls_server_name: Option<String>,
    pub impersonate: ImpersonateOptions,
    pub proxy: Option<String>,
    /// Time limit for connecting.
    pub timeout: Option<Duration>,
}

fn connect_error(message: impl Into<String>) -> Error {
    Error::new(ErrorClass::Other, "connect to the cluster", message)
}

/// Connects as the options say. Sends nothing yet; [`Cluster::server_version`] tells whether a server answers.
/// Credentials that expire are read again.
pub async fn connect(options: &ConnectOptions) -> Result<Cluster, Error> {
    let client = build_client(options).await?;
    let options = options.clone();
    Ok(Cluster::new(client).with_reconnect(Arc::new(move || {
        let options = options.clone();
        Box::pin(async move { build_client(&options).await })
    })))
}

async fn build_client(options: &ConnectOptions) -> Result<kube::Client, Error> {
    let config = build_config(options).await?;
    kube::Client::try_from(config).map_err(|e| connect_error(error_chain(&e)))
}

/// Reads and joins the files, and lays the overrides over them.
async fn build_config(options: &ConnectOptions) -> Result<Config, Error> {
    let mut config = match read_kubeconfig(options)? {
        Some(kubeconfig) => {
            let choice = KubeConfigOptions {
                context: options.context.clone(),
                cluster: options.cluster.clone(),
                user: options.user.clone(),
            };
            Config::from_custom_kubeconfig(kubeconfig, &choice)
                .await
                .map_err(|e| connect_error(error_chain(&e)))?
        }
        None => match &options.server {
            Some(server) => Config::new(parse_server_url(server)?),
            None => Config::incluster().map_err(|e| {
                connect_error(format!(
                    "no kubeconfig was found, and this is no pod of a cluster: {}",
                    error_chain(&e)
                ))
            })?,
        },
    };
    if let Some(server) = &options.server {
        config.cluster_url = parse_server_url(server)?;
    }
    if let Some(namespace) = &options.namespace {
        config.default_namespace = namespace.clone();
    }
    if let Some(ca) = &options.ca {
        config.root_cert = None;
        config.root_cert_file = Some(ca.clone());
    }
    config.accept_invalid_certs |= options.insecure;
    if let Some(name) = &options.tls_server_name {
        config.tls_server_name = Some(name.clone());
    }
    if let Some(proxy) = &options.proxy {
        config.proxy_url = Some(parse_server_url(proxy)?);
    }
    if let Some(timeout) = options.timeout {
        config.connect_timeout = Some(timeout);
    }
    // Requests are repeated by us, with what the server asks for and what it had done.
    config.default_retry = false;
    let auth = &mut config.auth_info;
    if options.token.is_some() || options.token_file.is_some() {
        auth.token = options.token.clone();
        auth.token_file = options.token_file.as_ref().map(|file| file.display().to_string());
        (auth.exec, auth.auth_provider, auth.username, auth.password) = (None, None, None, None);
        (auth.client_certificate, auth.client_certificate_data) = (None, None);
        (auth.client_key, auth.client_key_data) = (None, None);
    }
    let ImpersonateOptions { user, groups, uid } = &options.impersonate;
    if user.is_some() {
        auth.impersonate = user.clone();
        auth.impersonate_uid = uid.clone();
        auth.impersonate_groups = (!groups.is_empty()).then(|| groups.clone());
    } else if uid.is_some() || !groups.is_empty() {
        return Err(connect_error("groups or a uid cannot be impersonated without a user"));
    }
    Ok(config)
}

fn parse_server_url(text: &str) -> Result<http::Uri, Error> {
    let text = if text.contains("://") { text.to_owned() } else { format!("https://{text}") };
    text.parse().map_err(|e| connect_error(format!("`{text}` is no URL: {e}")))
}

fn read_kubeconfig(options: &ConnectOptions) -> Result<Option<Kubeconfig>, Error> {
    use secrecy::ExposeSecret;
    if let Some(text) = &options.kubeconfig_text {
        let kubeconfig = Kubeconfig::from_yaml(text.expose_secret());
        return kubeconfig
            .map(Some)
            .map_err(|e| connect_error(format!("the kubeconfig given: {}", error_chain(&e))));
    }
    let files: Vec<&Path> = match options.kubeconfig.as_slice() {
        [only] => vec![only],
        several => several.iter().map(PathBuf::as_path).filter(|file| file.exists()).collect(),
    };
    let mut joined: Option<Kubeconfig> = None;
    for file in files {
        let told = |e| connect_error(format!("kubeconfig {}: {}", file.display(), error_chain(&e)));
        let next = Kubeconfig::read_from(file).map_err(told)?;
        joined = Some(match joined {
            Some(first) => first.merge(next).map_err(told)?,
            None => next,
        });
    }
    Ok(joined)
}

/// Lists the contexts of the files, sorted, with the current one.
pub fn list_contexts(options: &ConnectOptions) -> Result<(Vec<String>, Option<String>), Error> {
    let Some(kubeconfig) = read_kubeconfig(options)? else { return Ok((Vec::new(), None)) };
    let mut names: Vec<String> = kubeconfig.contexts.into_iter().map(|context| context.name).collect();
    names.sort();
    Ok((names, kubeconfig.current_context))
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
- {name: u, user: {token: first}}
"#;
    const SECOND: &str = r#"
apiVersion: v1
kind: Config
current-context: two
clusters:
- {name: b, cluster: {server: "https://b.example:6443"}}
users:
- {name: u, user: {token: second}}
"#;

    #[tokio::test]
    async fn files_are_joined_and_overridden() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        std::fs::write(path("first"), FIRST).unwrap();
        std::fs::write(path("second"), SECOND).unwrap();
        let options = ConnectOptions {
            kubeconfig: vec![path("missing"), path("first"), path("second")],
            ..ConnectOptions::default()
        };
        let plain = build_config(&options).await.unwrap();
        assert_eq!(
            (plain.cluster_url.to_string().as_str(), plain.default_namespace.as_str()),
            ("https://a.example:6443/", "shop")
        );
        assert!(plain.accept_invalid_certs);
        let other =
            build_config(&ConnectOptions { context: Some("two".into()), ..options.clone() }).await.unwrap();
        assert_eq!(other.cluster_url.host(), Some("b.example"));
        let over = ConnectOptions {
            server: Some("c.example".into()),
            namespace: Some("n".into()),
            token_file: Some(path("token")),
            impersonate: ImpersonateOptions { user: Some("jo".into()), groups: vec!["g".into()], uid: None },
            ..options.clone()
        };
        let over = build_config(&over).await.unwrap();
        assert_eq!((over.cluster_url.host(), over.default_namespace.as_str()), (Some("c.example"), "n"));
        assert!(over.auth_info.token.is_none() && over.auth_info.token_file.is_some());
        assert_eq!(over.auth_info.impersonate.as_deref(), Some("jo"));
        let (names, current) = list_contexts(&options).unwrap();
        assert_eq!((names, current.as_deref()), (vec!["one".into(), "two".into()], Some("one")));
    }

    #[tokio::test]
    async fn what_is_wrong_is_told() {
        let text =
            |text: &str| ConnectOptions { kubeconfig_text: Some(text.into()), ..ConnectOptions::default() };
        for (options, says) in [
            (ConnectOptions { context: Some("none".into()), ..text(FIRST) }, "none"),
            (text("clusters: {"), "kubeconfig"),
            (
                ConnectOptions { kubeconfig: vec!["nowhere/at/all".into()], ..ConnectOptions::default() },
                "nowhere",
            ),
            (ConnectOptions { server: Some("http://[".into()), ..text(FIRST) }, "no URL"),
            (
                ConnectOptions {
                    impersonate: ImpersonateOptions {
                        groups: vec!["g".into()],
                        ..ImpersonateOptions::default()
                    },
                    ..text(FIRST)
                },
                "without a user",
            ),
        ] {
            let told = build_config(&options).await.unwrap_err().to_string();
            assert!(told.contains(says), "{says}: {told}");
        }
    }
}
