//! From kubeconfig files and overrides to a [`Cluster`].

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig};
use secrecy::SecretString;

use crate::Cluster;
use crate::error::{Error, ErrorClass};
use crate::request::deepest;

/// In whose name to speak.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Impersonate {
    pub user: Option<String>,
    pub groups: Vec<String>,
    pub uid: Option<String>,
}

/// How to reach a cluster. What is not set comes from the kubeconfig files.
#[derive(Clone, Debug, Default)]
pub struct Options {
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
    pub impersonate: Impersonate,
    pub proxy: Option<String>,
    /// How long connecting may take.
    pub timeout: Option<Duration>,
}

fn refuse(message: impl Into<String>) -> Error {
    Error::new(ErrorClass::Other, "connect to the cluster", message)
}

/// Connects as the options say. Sends nothing yet; [`Cluster::version`] tells whether anybody is there.
/// Credentials that expire are read again.
pub async fn connect(options: &Options) -> Result<Cluster, Error> {
    let client = client(options).await?;
    let options = options.clone();
    Ok(Cluster::new(client).with_reconnect(Arc::new(move || {
        let options = options.clone();
        Box::pin(async move { self::client(&options).await })
    })))
}

async fn client(options: &Options) -> Result<kube::Client, Error> {
    let config = config(options).await?;
    kube::Client::try_from(config).map_err(|e| refuse(deepest(&e)))
}

/// Reads and joins the files, and lays the overrides over them.
async fn config(options: &Options) -> Result<Config, Error> {
    let mut config = match read(options)? {
        Some(kubeconfig) => {
            let choice = KubeConfigOptions {
                context: options.context.clone(),
                cluster: options.cluster.clone(),
                user: options.user.clone(),
            };
            Config::from_custom_kubeconfig(kubeconfig, &choice).await.map_err(|e| refuse(deepest(&e)))?
        }
        None => match &options.server {
            Some(server) => Config::new(url(server)?),
            None => Config::incluster().map_err(|e| {
                refuse(format!("no kubeconfig was found, and this is no pod of a cluster: {}", deepest(&e)))
            })?,
        },
    };
    if let Some(server) = &options.server {
        config.cluster_url = url(server)?;
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
        config.proxy_url = Some(url(proxy)?);
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
    let Impersonate { user, groups, uid } = &options.impersonate;
    if user.is_some() {
        auth.impersonate = user.clone();
        auth.impersonate_uid = uid.clone();
        auth.impersonate_groups = (!groups.is_empty()).then(|| groups.clone());
    } else if uid.is_some() || !groups.is_empty() {
        return Err(refuse("groups or a uid cannot be impersonated without a user"));
    }
    Ok(config)
}

fn url(text: &str) -> Result<http::Uri, Error> {
    let text = if text.contains("://") { text.to_owned() } else { format!("https://{text}") };
    text.parse().map_err(|e| refuse(format!("`{text}` is no URL: {e}")))
}

fn read(options: &Options) -> Result<Option<Kubeconfig>, Error> {
    use secrecy::ExposeSecret;
    if let Some(text) = &options.kubeconfig_text {
        let kubeconfig = Kubeconfig::from_yaml(text.expose_secret());
        return kubeconfig.map(Some).map_err(|e| refuse(format!("the kubeconfig given: {}", deepest(&e))));
    }
    let files: Vec<&Path> = match options.kubeconfig.as_slice() {
        [only] => vec![only],
        several => several.iter().map(PathBuf::as_path).filter(|file| file.exists()).collect(),
    };
    let mut joined: Option<Kubeconfig> = None;
    for file in files {
        let told = |e| refuse(format!("kubeconfig {}: {}", file.display(), deepest(&e)));
        let next = Kubeconfig::read_from(file).map_err(told)?;
        joined = Some(match joined {
            Some(first) => first.merge(next).map_err(told)?,
            None => next,
        });
    }
    Ok(joined)
}

/// Which contexts the files know, sorted, and the current one.
pub fn contexts(options: &Options) -> Result<(Vec<String>, Option<String>), Error> {
    let Some(kubeconfig) = read(options)? else { return Ok((Vec::new(), None)) };
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
        let options = Options {
            kubeconfig: vec![path("missing"), path("first"), path("second")],
            ..Options::default()
        };
        let plain = config(&options).await.unwrap();
        assert_eq!(
            (plain.cluster_url.to_string().as_str(), plain.default_namespace.as_str()),
            ("https://a.example:6443/", "shop")
        );
        assert!(plain.accept_invalid_certs);
        let other = config(&Options { context: Some("two".into()), ..options.clone() }).await.unwrap();
        assert_eq!(other.cluster_url.host(), Some("b.example"));
        let over = Options {
            server: Some("c.example".into()),
            namespace: Some("n".into()),
            token_file: Some(path("token")),
            impersonate: Impersonate { user: Some("jo".into()), groups: vec!["g".into()], uid: None },
            ..options.clone()
        };
        let over = config(&over).await.unwrap();
        assert_eq!((over.cluster_url.host(), over.default_namespace.as_str()), (Some("c.example"), "n"));
        assert!(over.auth_info.token.is_none() && over.auth_info.token_file.is_some());
        assert_eq!(over.auth_info.impersonate.as_deref(), Some("jo"));
        let (names, current) = contexts(&options).unwrap();
        assert_eq!((names, current.as_deref()), (vec!["one".into(), "two".into()], Some("one")));
    }

    #[tokio::test]
    async fn what_is_wrong_is_told() {
        let text = |text: &str| Options { kubeconfig_text: Some(text.into()), ..Options::default() };
        for (options, says) in [
            (Options { context: Some("none".into()), ..text(FIRST) }, "none"),
            (text("clusters: {"), "kubeconfig"),
            (Options { kubeconfig: vec!["nowhere/at/all".into()], ..Options::default() }, "nowhere"),
            (Options { server: Some("http://[".into()), ..text(FIRST) }, "no URL"),
            (
                Options {
                    impersonate: Impersonate { groups: vec!["g".into()], ..Impersonate::default() },
                    ..text(FIRST)
                },
                "without a user",
            ),
        ] {
            let told = config(&options).await.unwrap_err().to_string();
            assert!(told.contains(says), "{says}: {told}");
        }
    }
}
