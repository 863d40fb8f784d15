//! Credentials of a provider, for its API and for Git.

use secrecy::{ExposeSecret as _, SecretString};
use slipway_event::Redactor;
use slipway_git::GitCredential;
use slipway_http::{Authorization, HeaderName, HttpError, Login};
use url::Origin;

use crate::remote::ProviderKind;

/// Credentials of a provider.
#[derive(Clone, Debug)]
pub enum ScmCredential {
    Token(SecretString),
    /// A user with a password or an app password.
    Login {
        user: String,
        password: SecretString,
    },
    /// A GitHub App.
    App(AppCredential),
}

/// An installation of a GitHub App.
#[derive(Clone, Debug)]
pub struct AppCredential {
    pub app_id: String,
    pub installation_id: String,
    /// An RSA key in PEM form.
    pub private_key: SecretString,
}

impl ScmCredential {
    /// The credentials for Git over HTTPS. A GitHub App has none of its own: see
    /// [`ScmProvider::git_credential`](crate::ScmProvider::git_credential).
    pub fn for_git(&self, kind: ProviderKind) -> GitCredential {
        match self {
            Self::Token(token) => {
                GitCredential::Login { user: token_user(kind).to_owned(), password: token.clone() }
            }
            Self::Login { user, password } => {
                GitCredential::Login { user: user.clone(), password: password.clone() }
            }
            Self::App(_) => GitCredential::Anonymous,
        }
    }

    pub(crate) fn register(&self, redactor: &Redactor) {
        match self {
            Self::Token(secret) | Self::Login { password: secret, .. } => {
                redactor.register(secret.expose_secret());
            }
            Self::App(app) => {
                redactor.register(app.private_key.expose_secret());
            }
        }
    }

    /// A text that is another for other credentials, and gives nothing of them away.
    pub(crate) fn fingerprint(&self) -> String {
        use sha2::Digest as _;
        let text = match self {
            Self::Token(token) => format!("token:{}", token.expose_secret()),
            Self::Login { user, password } => format!("login:{user}:{}", password.expose_secret()),
            Self::App(app) => {
                format!("app:{}:{}:{}", app.app_id, app.installation_id, app.private_key.expose_secret())
            }
        };
        data_encoding::HEXLOWER.encode(&sha2::Sha256::digest(text))
    }
}

/// The user a token is the password of.
pub(crate) fn token_user(kind: ProviderKind) -> &'static str {
    match kind {
        ProviderKind::GitHub => "x-access-token",
        ProviderKind::GitLab => "oauth2",
        ProviderKind::Bitbucket => "x-token-auth",
        ProviderKind::AzureDevOps => "",
        ProviderKind::Gitea | ProviderKind::None => "git",
    }
}

/// The header a token travels in.
pub(crate) fn token_header(
    kind: ProviderKind,
    token: &str,
    origin: Origin,
) -> Result<Authorization, HttpError> {
    match kind {
        ProviderKind::GitLab => {
            Authorization::from_header(HeaderName::from_static("private-token"), token, origin)
        }
        ProviderKind::Gitea => {
            Authorization::from_header(slipway_http::header::AUTHORIZATION, &format!("token {token}"), origin)
        }
        ProviderKind::AzureDevOps => {
            Authorization::from_login(&Login { username: String::new(), password: token.to_owned() }, origin)
        }
        ProviderKind::GitHub | ProviderKind::Bitbucket | ProviderKind::None => {
            Authorization::from_token(token, origin)
        }
    }
}
