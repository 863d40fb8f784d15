//! From settings to a cluster: `--kubeconfig`, `--context`, `-n`, or `--sandbox`.

use std::path::PathBuf;
use std::time::Duration;

use slipway_cluster::connect::{ConnectOptions, Connection, Impersonation, KubeconfigSource, connect};
use slipway_cluster::{Cluster, ConnectionFault, ErrorClass, RetryPolicy};
use slipway_problem::{Problem, Problems};

use crate::commands::sandbox::place::Place;
use crate::config::Settings;
use crate::exit::UsageError;
use crate::session::Session;
use crate::term::report::chain;

impl Session {
    /// Connects to the cluster the user means. Must run inside [`Session::block_on`].
    pub async fn connect(&self) -> anyhow::Result<Connection> {
        if !self.settings.sandbox {
            return Ok(connect(&options(&self.settings)?, self.redactor()).await?);
        }
        let place = Place::of_user()?;
        place.ensure()?;
        let connection = self.connect_to_sandbox(&place).await?;
        let namespace = self.settings.namespace.value.clone().unwrap_or_else(|| "default".into());
        Ok(Connection { namespace, ..connection })
    }

    /// Connects to the cluster of the kubeconfig in `settings`, whatever `--sandbox` says; `context` wins over theirs.
    pub async fn connect_to_context(
        &self,
        settings: &Settings,
        context: Option<&str>,
    ) -> anyhow::Result<Connection> {
        let options = options(settings)?;
        let context = context.map(str::to_owned).or(options.context);
        Ok(connect(&ConnectOptions { context, ..options }, self.redactor()).await?)
    }

    /// Connects to the running sandbox, as its administrator or as whom flags name.
    pub async fn connect_to_sandbox(&self, place: &Place) -> anyhow::Result<Connection> {
        let options = ConnectOptions {
            kubeconfig: KubeconfigSource::Files(vec![place.kubeconfig()]),
            impersonation: impersonation(&self.settings),
            ..ConnectOptions::default()
        };
        Ok(connect(&options, self.redactor()).await?)
    }
}

/// The kubeconfig the user means.
pub fn kubeconfig_source(settings: &Settings) -> KubeconfigSource {
    match (&settings.connection.kubeconfig_text.value, &settings.kubeconfig.value) {
        (Some(text), _) => KubeconfigSource::Text(text.clone()),
        // $KUBECONFIG may list several.
        (None, Some(paths)) => KubeconfigSource::Files(
            std::env::split_paths(paths).filter(|path| !path.as_os_str().is_empty()).collect(),
        ),
        (None, None) => KubeconfigSource::Default(crate::config::user_home().map(own_kubeconfig)),
    }
}

/// Settles how to connect; says every half of a login whose other half is missing.
fn options(settings: &Settings) -> Result<ConnectOptions, UsageError> {
    let connection = &settings.connection;
    let mut problems = Problems::new();
    let basic_login = problems.collect_from(connection.basic_login());
    let client_certificate = problems.collect_from(connection.client_certificate());
    let certificate_authority = problems.collect_from(connection.certificate_authority());
    let options = ConnectOptions {
        kubeconfig: kubeconfig_source(settings),
        cluster: connection.context_cluster.value.clone(),
        user: connection.context_user.value.clone(),
        context: settings.context.value.clone(),
        namespace: settings.namespace.value.clone(),
        server: connection.server.value.clone(),
        token: connection.token.value.clone(),
        token_file: connection.token_file.value.clone(),
        basic_login: basic_login.flatten(),
        client_certificate: client_certificate.flatten(),
        certificate_authority: certificate_authority.flatten(),
        skip_tls_verify: connection.skip_tls_verify.value,
        tls_server_name: connection.tls_server_name.value.clone(),
        impersonation: impersonation(settings),
        proxy: connection.proxy.value.clone(),
        ..ConnectOptions::default()
    };
    problems.into_result(options).map_err(UsageError)
}

fn impersonation(settings: &Settings) -> Impersonation {
    let connection = &settings.connection;
    Impersonation {
        user: connection.user.value.clone(),
        groups: connection.groups.value.clone(),
        uid: connection.uid.value.clone(),
    }
}

fn own_kubeconfig(home: PathBuf) -> PathBuf {
    home.join(".kube/config")
}

/// The cluster, if it answers. Later a server may be away for a while; one that never answers is
/// reported at once.
pub async fn reached(cluster: Cluster, connection: &Connection) -> anyhow::Result<Cluster> {
    let (patience, answer) = (Duration::from_secs(2), Duration::from_secs(20));
    let hasty = RetryPolicy { attempts: 3, patience, answer, ..RetryPolicy::default() };
    let version = cluster.clone().with_retry(hasty).server_version().await;
    version.map_err(|error| unreachable_problem(&error, connection))?;
    Ok(cluster)
}

/// Says why a cluster does not answer, and what to do.
fn unreachable_problem(error: &slipway_cluster::Error, connection: &Connection) -> Problem {
    let (why, server) = (&error.message, &connection.server);
    let running = match &connection.context {
        Some(context) => format!(
            "is the cluster of context `{context}` running, and reachable from here? --context chooses another, --sandbox needs none"
        ),
        None => "is it running, and reachable from here? --sandbox needs no cluster".to_owned(),
    };
    let (message, hint) = match (error.class, error.fault) {
        (ErrorClass::Unauthorized, _) => (
            format!("the cluster at {server} does not accept the credentials: {why}"),
            "choose another login with --kubeconfig and --context",
        ),
        (_, Some(ConnectionFault::NotKubernetes)) => (
            format!("what answers at {server} is no Kubernetes API server: {why}"),
            "check the address: `server` in the kubeconfig, or --kube-apiserver",
        ),
        (_, Some(ConnectionFault::Untrusted)) => (
            format!("the certificate of the cluster at {server} is not trusted: {why}"),
            "name its authority with --kube-ca-file, or in the kubeconfig as `certificate-authority-data`",
        ),
        (ErrorClass::Forbidden, _) => (
            format!("the cluster at {server} does not tell you its version: {why}"),
            "ask who administers it for the right to read /version",
        ),
        (_, Some(ConnectionFault::Refused) | None) => {
            (format!("cannot reach the cluster at {server}: {why}"), running.as_str())
        }
    };
    Problem::error(message).hint(error.hint.as_deref().unwrap_or(hint))
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
