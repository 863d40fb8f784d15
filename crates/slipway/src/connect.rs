//! From settings to a cluster: `--kubeconfig`, `--context`, `-n`, or `--sandbox`.

use std::path::PathBuf;

use slipway_cluster::connect::{ConnectOptions, Connection, Impersonation, KubeconfigSource, connect};
use slipway_problem::Problem;

use crate::commands::flags::ClusterFlags;
use crate::commands::sandbox::place::Place;
use crate::config::Settings;
use crate::session::Session;
use crate::term::report::chain;

impl Session {
    /// Connects to the cluster the user means. Must run inside [`Session::block_on`].
    pub async fn connect(&self) -> anyhow::Result<Connection> {
        self.connect_with(&ClusterFlags::default()).await
    }

    /// The same, with what Helm's own flags say of the cluster.
    pub async fn connect_with(&self, flags: &ClusterFlags) -> anyhow::Result<Connection> {
        if !self.settings.sandbox {
            return Ok(connect(&options(&self.settings, flags), self.redactor()).await?);
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
        let options = options(settings, &ClusterFlags::default());
        let context = context.map(str::to_owned).or(options.context);
        Ok(connect(&ConnectOptions { context, ..options }, self.redactor()).await?)
    }

    /// Connects to the running sandbox as its administrator.
    pub async fn connect_to_sandbox(&self, place: &Place) -> anyhow::Result<Connection> {
        let kubeconfig = KubeconfigSource::Files(vec![place.kubeconfig()]);
        Ok(connect(&ConnectOptions { kubeconfig, ..ConnectOptions::default() }, self.redactor()).await?)
    }
}

fn options(settings: &Settings, flags: &ClusterFlags) -> ConnectOptions {
    let kubeconfig = match &settings.kubeconfig.value {
        // $KUBECONFIG may list several.
        Some(paths) => KubeconfigSource::Files(
            std::env::split_paths(paths).filter(|path| !path.as_os_str().is_empty()).collect(),
        ),
        None => KubeconfigSource::Default(crate::config::user_home().map(own_kubeconfig)),
    };
    ConnectOptions {
        kubeconfig,
        context: settings.context.value.clone(),
        namespace: settings.namespace.value.clone(),
        server: flags.kube_apiserver.clone(),
        token: flags.kube_token.clone().map(Into::into),
        certificate_authority: flags.kube_ca_file.clone(),
        skip_tls_verify: flags.kube_insecure_skip_tls_verify,
        tls_server_name: flags.kube_tls_server_name.clone(),
        impersonation: Impersonation {
            user: flags.kube_as_user.clone(),
            groups: flags.kube_as_group.clone(),
            uid: None,
        },
        ..ConnectOptions::default()
    }
}

fn own_kubeconfig(home: PathBuf) -> PathBuf {
    home.join(".kube/config")
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
