//! From settings to a cluster: `--kubeconfig`, `--context`, `-n`, or `--sandbox`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use secrecy::ExposeSecret;
use slipway_event::without_credentials;
use slipway_problem::{Location, Problem};

use crate::commands::flags::ClusterFlags;
use crate::commands::sandbox::place::Place;
use crate::config::Settings;
use crate::session::Session;
use crate::term::output;
use crate::term::report::chain;

/// A cluster the user means.
pub struct Connection {
    pub client: Client,
    /// Where it is, for messages.
    pub server: String,
    /// The namespace to work in: the flag's, the context's, or `default`.
    pub namespace: String,
}

impl Session {
    /// Connects to the cluster the user means. Must run inside [`Session::block_on`].
    pub async fn connect(&self) -> anyhow::Result<Connection> {
        self.connect_with(&ClusterFlags::default()).await
    }

    /// The same, with what Helm's own flags say of the cluster.
    pub async fn connect_with(&self, flags: &ClusterFlags) -> anyhow::Result<Connection> {
        if !self.settings.sandbox {
            return open(adjusted(config(&self.settings, None, flags).await?, flags));
        }
        let place = Place::of_user()?;
        let running = place.ensure()?;
        Ok(Connection {
            client: to_sandbox(&place).await?,
            server: format!("https://{}", running.address),
            namespace: self.settings.namespace.value.clone().unwrap_or_else(|| "default".into()),
        })
    }
}

/// The cluster of the kubeconfig, whatever `--sandbox` says; `context` wins over the settings'.
pub async fn to_cluster(settings: &Settings, context: Option<&str>) -> anyhow::Result<Connection> {
    open(config(settings, context, &ClusterFlags::default()).await?)
}

/// What Helm's `--kube-…` flags change of a configuration.
fn adjusted(mut config: Config, flags: &ClusterFlags) -> Config {
    if let Some(file) = &flags.kube_ca_file {
        config.root_cert = None;
        config.root_cert_file = Some(file.clone());
    }
    if let Some(name) = &flags.kube_tls_server_name {
        config.tls_server_name = Some(name.clone());
    }
    config.accept_invalid_certs |= flags.kube_insecure_skip_tls_verify;
    if let Some(token) = &flags.kube_token {
        output::hide(token);
        config.auth_info.token = Some(token.clone().into());
    }
    if let Some(user) = &flags.kube_as_user {
        config.auth_info.impersonate = Some(user.clone());
    }
    if !flags.kube_as_group.is_empty() {
        config.auth_info.impersonate_groups = Some(flags.kube_as_group.clone());
    }
    config
}

async fn config(settings: &Settings, context: Option<&str>, flags: &ClusterFlags) -> anyhow::Result<Config> {
    let context = context.map(str::to_owned).or_else(|| settings.context.value.clone());
    let paths: Vec<PathBuf> = match &settings.kubeconfig.value {
        // $KUBECONFIG may list several.
        Some(path) => std::env::split_paths(path).filter(|path| !path.as_os_str().is_empty()).collect(),
        None => crate::config::user_home().map(|home| home.join(".kube/config")).into_iter().collect(),
    };
    let named = settings.kubeconfig.value.is_some();
    let mut whole: Option<Kubeconfig> = None;
    for path in &paths {
        // As with kubectl, a listed file may be missing as long as one is there.
        if !path.exists() && (paths.len() > 1 || !named) {
            continue;
        }
        let read = read(path)?;
        whole = Some(match whole {
            Some(before) => before
                .merge(read)
                .map_err(|error| unusable(&error, Location::file(path.display().to_string())))?,
            None => read,
        });
    }
    let mut config = match whole {
        Some(kubeconfig) => {
            let known: Vec<String> = kubeconfig.contexts.iter().map(|c| c.name.clone()).collect();
            let options = KubeConfigOptions { context: context.clone(), cluster: None, user: None };
            Config::from_custom_kubeconfig(kubeconfig, &options)
                .await
                .map_err(|error| wrong_context(&error, context.as_deref(), &known))?
        }
        None if flags.kube_apiserver.is_some() => Config::new(http::Uri::from_static("https://localhost")),
        None => Config::incluster().map_err(|_| {
            Problem::error("there is no kubeconfig, and this is no pod of a cluster")
                .hint("name one with --kubeconfig, or try it in the embedded cluster with --sandbox")
        })?,
    };
    if let Some(address) = &flags.kube_apiserver {
        let problem = |_| Problem::error(format!("`{address}` is no address of a server"));
        config.cluster_url = address.parse().map_err(problem)?;
    }
    if let Some(namespace) = &settings.namespace.value {
        config.default_namespace.clone_from(namespace);
    }
    Ok(config)
}

/// The administrator's client for the sandbox that runs.
pub async fn to_sandbox(place: &Place) -> anyhow::Result<Client> {
    let path = place.kubeconfig();
    let kubeconfig = read(&path)?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    let at = Location::file(path.display().to_string());
    Ok(open(config.map_err(|error| unusable(&error, at))?)?.client)
}

fn open(mut config: Config) -> anyhow::Result<Connection> {
    // Requests are repeated by `slipway_cluster`, which keeps time limits and tells what the server answered.
    config.default_retry = false;
    // Libraries may name it without its scheme, which tells an address from other texts.
    let login = config.cluster_url.authority().and_then(|authority| authority.as_str().rsplit_once('@'));
    for secret in
        login.into_iter().flat_map(|(login, _)| [Some(login), login.split_once(':').map(|pair| pair.1)])
    {
        secret.iter().for_each(output::hide);
    }
    let address = config.cluster_url.to_string();
    let server = without_credentials(address.trim_end_matches('/')).into_owned();
    let namespace = config.default_namespace.clone();
    let client = Client::try_from(config)
        .map_err(|error| Problem::error(format!("cannot connect to {server}: {}", chain(&error))))?;
    Ok(Connection { client, server, namespace })
}

/// Reads one kubeconfig file and sees to it that its secrets are shown nowhere.
fn read(path: &Path) -> Result<Kubeconfig, Problem> {
    let at = || Location::file(path.display().to_string());
    let bytes = slipway_problem::read_file(path).map_err(|error| {
        Problem::error(format!("cannot read the kubeconfig: {error}"))
            .at(at())
            .hint("check the path; --sandbox needs no kubeconfig")
    })?;
    let kubeconfig = if path.is_file() {
        // Paths in it start at its directory.
        Kubeconfig::read_from(path).map_err(|error| unusable(&error, at()))?
    } else {
        let text = String::from_utf8_lossy(&bytes);
        Kubeconfig::from_yaml(&text).map_err(|error| unusable(&error, at()))?
    };
    hide_secrets(&kubeconfig);
    Ok(kubeconfig)
}

/// Registers the credentials of a kubeconfig with the writer of both streams.
fn hide_secrets(kubeconfig: &Kubeconfig) {
    let users = kubeconfig.auth_infos.iter().filter_map(|named| named.auth_info.as_ref());
    for user in users {
        for secret in [&user.token, &user.password, &user.client_key_data].into_iter().flatten() {
            output::hide(secret.expose_secret());
        }
        let provider = user.auth_provider.iter().flat_map(|provider| provider.config.values());
        // What a login program gets is the user's own business, its secrets among it.
        let environment = user.exec.iter().filter_map(|exec| exec.env.as_ref()).flatten();
        let values = environment.filter_map(|variable| variable.get("value"));
        provider.chain(values).for_each(output::hide);
    }
}

/// Says why a kubeconfig cannot be used without a word of what is in it: any line may hold a credential.
fn unusable(error: &KubeconfigError, at: Location) -> Problem {
    let (message, at) = match error {
        KubeconfigError::Parse(error) => {
            let place = error.location().map(|place| {
                let number = |value: u64| u32::try_from(value).unwrap_or_default();
                Location::new(Arc::clone(&at.file), number(place.line()), number(place.column()))
            });
            ("it is not the YAML of a kubeconfig".to_owned(), place.unwrap_or(at))
        }
        KubeconfigError::ParseClusterUrl(_) => ("the server's address is no address".to_owned(), at),
        KubeconfigError::ParseProxyUrl(_) => ("the proxy's address is no address".to_owned(), at),
        KubeconfigError::ParseCertificates(_) => ("its certificates are not in PEM form".to_owned(), at),
        error => (chain(error), at),
    };
    Problem::error(format!("cannot use the kubeconfig: {message}"))
        .at(at)
        .hint("`kubectl config view` shows what kubectl makes of it")
}

fn wrong_context(error: &KubeconfigError, context: Option<&str>, known: &[String]) -> Problem {
    match (error, context) {
        (KubeconfigError::LoadContext(_), Some(context)) => {
            Problem::error(format!("the kubeconfig has no context `{context}`"))
                .did_you_mean(context, known.iter().map(String::as_str))
        }
        (KubeconfigError::CurrentContextNotSet, _) => {
            Problem::error("the kubeconfig names no current context").hint("choose one with --context")
        }
        _ => {
            let problem = unusable(error, Location::file(""));
            Problem { at: None, ..problem }
        }
    }
}

/// A failed request with its cause, and a hint where there is one.
pub fn explain(error: kube::Error, doing: &str) -> anyhow::Error {
    let problem = Problem::error(format!("cannot {doing}: {}", chain(&error)));
    match &error {
        kube::Error::Api(status) => {
            let problem = Problem::error(format!("cannot {doing}: {}", status.message));
            match status.code {
                401 => problem.hint("the credentials of the kubeconfig are not accepted; have they expired?"),
                _ => problem,
            }
        }
        kube::Error::HyperError(_) | kube::Error::Service(_) => {
            problem.hint("is the cluster up and reachable from here?")
        }
        _ => problem,
    }
    .into()
}
