//! Repositories as their servers name them, and the kinds of servers.

use std::fmt;

use slipway_git::RepositoryAddress;
use url::Url;

/// The kinds of servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ProviderKind {
    GitHub,
    GitLab,
    /// Forgejo speaks the same language.
    Gitea,
    Bitbucket,
    AzureDevOps,
    /// A plain Git server without pull requests.
    None,
}

impl ProviderKind {
    /// Reads the name used in pipelines.
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "github" => Self::GitHub,
            "gitlab" => Self::GitLab,
            "gitea" | "forgejo" => Self::Gitea,
            "bitbucket" => Self::Bitbucket,
            "azuredevops" => Self::AzureDevOps,
            "none" => Self::None,
            _ => return None,
        })
    }

    /// The kind of a public server.
    pub fn of_host(host: &str) -> Option<Self> {
        Some(match host {
            "github.com" => Self::GitHub,
            "gitlab.com" => Self::GitLab,
            "codeberg.org" => Self::Gitea,
            "bitbucket.org" => Self::Bitbucket,
            "dev.azure.com" | "ssh.dev.azure.com" => Self::AzureDevOps,
            host if host.ends_with(".visualstudio.com") => Self::AzureDevOps,
            _ => return None,
        })
    }
}

impl fmt::Display for ProviderKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::GitHub => "GitHub",
            Self::GitLab => "GitLab",
            Self::Gitea => "Gitea",
            Self::Bitbucket => "Bitbucket",
            Self::AzureDevOps => "Azure DevOps",
            Self::None => "a plain Git server",
        })
    }
}

/// The reason a repository's server cannot be told.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RemoteError {
    #[error("`{host}` is no public server: its provider must be named")]
    UnknownHost { host: String },
    #[error("`{path}` is no repository of {provider}: expected {expected}")]
    Path { provider: ProviderKind, path: String, expected: &'static str },
    #[error("`{url}` is no address of an API")]
    ApiRoot { url: String },
}

/// A repository of a server, and where the server's API is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteRepository {
    pub(crate) kind: ProviderKind,
    /// `https://host` or `https://host:port`, for links people follow.
    pub(crate) web_root: String,
    pub(crate) api_root: Url,
    /// `owner/name`; GitLab has groups in between, Azure DevOps `organisation/project/name`.
    pub(crate) path: Vec<String>,
}

impl RemoteRepository {
    /// Finds the server of a repository; a private one needs `kind`, and `api_root` where its API is elsewhere.
    pub fn new(
        address: &RepositoryAddress,
        kind: Option<ProviderKind>,
        api_root: Option<&str>,
    ) -> Result<Self, RemoteError> {
        let host = address.host();
        let kind = kind
            .or_else(|| ProviderKind::of_host(host))
            .ok_or_else(|| RemoteError::UnknownHost { host: host.to_owned() })?;
        let path = repository_path(kind, host, address.path())?;
        let web_root = match kind {
            ProviderKind::AzureDevOps if host.ends_with("dev.azure.com") => {
                "https://dev.azure.com".to_owned()
            }
            // The port of SSH is not the web's.
            _ => address.origin().unwrap_or_else(|| format!("https://{host}")),
        };
        let usual = match kind {
            ProviderKind::GitHub if host == "github.com" => "https://api.github.com".to_owned(),
            ProviderKind::GitHub => format!("{web_root}/api/v3"),
            ProviderKind::GitLab => format!("{web_root}/api/v4"),
            ProviderKind::Gitea => format!("{web_root}/api/v1"),
            ProviderKind::Bitbucket if host == "bitbucket.org" => "https://api.bitbucket.org/2.0".to_owned(),
            ProviderKind::Bitbucket => format!("{web_root}/2.0"),
            ProviderKind::AzureDevOps | ProviderKind::None => web_root.clone(),
        };
        let text = api_root.unwrap_or(&usual).trim_end_matches('/');
        let wrong = || RemoteError::ApiRoot { url: slipway_event::without_credentials(text).into_owned() };
        let api_root = Url::parse(text).map_err(|_| wrong())?;
        let is_plain =
            api_root.username().is_empty() && api_root.password().is_none() && api_root.query().is_none();
        if !matches!(api_root.scheme(), "http" | "https") || !is_plain {
            return Err(wrong());
        }
        Ok(Self { kind, web_root, api_root, path })
    }

    pub fn kind(&self) -> ProviderKind {
        self.kind
    }

    /// `owner/name`, as webhooks name it.
    pub fn slug(&self) -> String {
        self.path.join("/")
    }

    pub(crate) fn host(&self) -> String {
        let host = self.api_root.host_str().unwrap_or_default();
        self.api_root.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
    }

    pub(crate) fn owner(&self) -> &str {
        &self.path[0]
    }

    pub(crate) fn name(&self) -> &str {
        &self.path[self.path.len() - 1]
    }
}

fn repository_path(kind: ProviderKind, host: &str, path: &str) -> Result<Vec<String>, RemoteError> {
    let decoded = path.replace("%20", " ");
    let mut parts: Vec<String> =
        decoded.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect();
    let wrong = |expected| Err(RemoteError::Path { provider: kind, path: path.to_owned(), expected });
    match kind {
        ProviderKind::GitHub | ProviderKind::Gitea | ProviderKind::Bitbucket if parts.len() != 2 => {
            wrong("`owner/name`")
        }
        ProviderKind::GitLab if parts.len() < 2 => wrong("`group/name`"),
        ProviderKind::AzureDevOps => {
            if parts.first().is_some_and(|part| part == "v3") {
                parts.remove(0);
            }
            parts.retain(|part| part != "_git" && part != "DefaultCollection");
            if let Some(organisation) = host.strip_suffix(".visualstudio.com") {
                parts.insert(0, organisation.to_owned());
            }
            if parts.len() == 3 { Ok(parts) } else { wrong("`organisation/project/_git/name`") }
        }
        _ => Ok(parts),
    }
}
