//! Why nothing could be said about health.

use slipway_cluster::ErrorClass;
use slipway_git::GitError;
use slipway_problem::Problem;

use crate::ForbiddenHost;

/// A health check that came to no result. It says nothing about health.
#[derive(Debug, thiserror::Error)]
pub enum HealthError {
    #[error("cannot read the cluster")]
    Cluster(#[from] slipway_cluster::Error),
    #[error("cannot compare revisions")]
    Git(#[from] GitError),
    #[error("Secret {namespace}/{name} does not exist")]
    SecretMissing { namespace: String, name: String },
    #[error("Secret {namespace}/{name} has no key `kubeconfig`")]
    KubeconfigMissing { namespace: String, name: String },
    #[error("Secret {namespace}/{name}: {}", problem.message)]
    KubeconfigRejected { namespace: String, name: String, problem: Box<Problem> },
    #[error("Secret {namespace}/{name}: the kubeconfig names a server that cannot be used: {server}")]
    ServerInvalid { namespace: String, name: String, server: String },
    #[error("Secret {namespace}/{name}: the server of the kubeconfig may not be called")]
    ServerForbidden {
        namespace: String,
        name: String,
        #[source]
        source: ForbiddenHost,
    },
}

impl HealthError {
    /// The reason, for machines.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Cluster(error) => match error.class {
                ErrorClass::Forbidden => "Forbidden",
                ErrorClass::Unauthorized => "Unauthorized",
                _ => "ClusterUnavailable",
            },
            Self::Git(_) => "GitUnavailable",
            Self::SecretMissing { .. } | Self::KubeconfigMissing { .. } => "CredentialsMissing",
            Self::KubeconfigRejected { .. } | Self::ServerInvalid { .. } => "KubeconfigRejected",
            Self::ServerForbidden { .. } => "ForbiddenAddress",
        }
    }

    /// The cluster does not take the credentials.
    pub(super) fn is_unauthorized(&self) -> bool {
        matches!(self, Self::Cluster(error) if error.class == ErrorClass::Unauthorized)
    }

    /// The error with its causes, in one line.
    pub(super) fn chain(&self) -> String {
        let mut text = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            text = format!("{text}: {error}");
            cause = error.source();
        }
        text
    }
}
