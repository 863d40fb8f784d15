//! Addresses of repositories: HTTPS, HTTP, SSH in both its forms and, where allowed, local directories.

use std::fmt;

use data_encoding::HEXLOWER;
use sha2::{Digest as _, Sha256};

/// The reason an address cannot be used. It never shows credentials.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    #[error("the address of a repository has characters it cannot have")]
    Characters,
    #[error("`{scheme}` is no transport of repositories")]
    Transport { scheme: String },
    #[error("the address of a repository must not hold credentials")]
    Credentials,
    #[error("`{address}` names no {missing}")]
    Incomplete { address: String, missing: &'static str },
}

/// The transports an address may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TransportPolicy {
    /// HTTPS, HTTP and SSH.
    #[default]
    Network,
    /// `file://` as well: for tests and for repositories on this machine.
    NetworkAndFiles,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Transport {
    Https,
    Http,
    Ssh,
    File,
}

/// Where a repository is, without credentials.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RepositoryAddress {
    text: String,
    transport: Transport,
    user: Option<String>,
    host: String,
    port: Option<u16>,
    path: String,
}

impl RepositoryAddress {
    /// Reads `https://host/owner/name.git`, `ssh://git@host/owner/name` or `git@host:owner/name`.
    pub fn parse(text: &str, policy: TransportPolicy) -> Result<Self, AddressError> {
        let text = text.trim_end_matches('/');
        let odd = |c: char| c.is_control() || c.is_whitespace() || matches!(c, '\\' | '"' | '\'' | '`');
        if text.is_empty() || text.len() > 2048 || text.starts_with('-') || text.chars().any(odd) {
            return Err(AddressError::Characters);
        }
        // `ext::`, `fd::` and every other remote helper.
        if let Some((scheme, _)) = text.split_once("::")
            && !scheme.contains('/')
        {
            return Err(AddressError::Transport { scheme: scheme.to_owned() });
        }
        let Some((scheme, rest)) = text.split_once("://") else { return Self::parse_scp(text) };
        let transport = match scheme.to_ascii_lowercase().as_str() {
            "https" => Transport::Https,
            "http" => Transport::Http,
            "ssh" | "git+ssh" | "ssh+git" => Transport::Ssh,
            "file" if policy == TransportPolicy::NetworkAndFiles => Transport::File,
            other => return Err(AddressError::Transport { scheme: other.to_owned() }),
        };
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (user, place) = match authority.rsplit_once('@') {
            Some((user, place)) => (Some(user), place),
            None => (None, authority),
        };
        if user.is_some_and(|user| user.contains(':') || transport != Transport::Ssh) {
            return Err(AddressError::Credentials);
        }
        let (host, port) = match place.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => {
                (host, Some(port.parse().map_err(|_| AddressError::Characters)?))
            }
            _ => (place, None),
        };
        Self::check(Self {
            text: text.to_owned(),
            transport,
            user: user.map(str::to_owned),
            host: host.to_ascii_lowercase(),
            port,
            path: path.to_owned(),
        })
    }

    /// `user@host:path`.
    fn parse_scp(text: &str) -> Result<Self, AddressError> {
        let unknown = || AddressError::Transport { scheme: "a local path".to_owned() };
        let (place, path) = text.split_once(':').ok_or_else(unknown)?;
        let (user, host) = place.split_once('@').ok_or_else(unknown)?;
        Self::check(Self {
            text: text.to_owned(),
            transport: Transport::Ssh,
            user: Some(user.to_owned()),
            host: host.to_ascii_lowercase(),
            port: None,
            path: path.trim_start_matches('/').to_owned(),
        })
    }

    fn check(self) -> Result<Self, AddressError> {
        let incomplete = |missing| AddressError::Incomplete { address: self.text.clone(), missing };
        // What begins with a hyphen becomes an option of `ssh`.
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '[' | ']');
        if self.host.starts_with('-') || !self.host.chars().all(plain) {
            return Err(AddressError::Characters);
        }
        if self
            .user
            .as_ref()
            .is_some_and(|user| user.is_empty() || user.starts_with('-') || !user.chars().all(plain))
        {
            return Err(AddressError::Characters);
        }
        if self.host.is_empty() && self.transport != Transport::File {
            return Err(incomplete("host"));
        }
        if self.path.is_empty() {
            return Err(incomplete("repository"));
        }
        if self.path.starts_with('-') || self.path.split('/').any(|part| part == "..") {
            return Err(AddressError::Characters);
        }
        Ok(self)
    }

    pub fn host(&self) -> &str {
        &self.host
    }

    pub fn port(&self) -> Option<u16> {
        self.port
    }

    /// The path on the host without `.git`: `owner/name` where there are owners.
    pub fn path(&self) -> &str {
        self.path.strip_suffix(".git").unwrap_or(&self.path)
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    pub fn is_http(&self) -> bool {
        matches!(self.transport, Transport::Https | Transport::Http)
    }

    /// `https://host:port`, for what speaks HTTP.
    pub fn origin(&self) -> Option<String> {
        let scheme = match self.transport {
            Transport::Https => "https",
            Transport::Http => "http",
            Transport::Ssh | Transport::File => return None,
        };
        Some(match self.port {
            Some(port) => format!("{scheme}://{}:{port}", self.host),
            None => format!("{scheme}://{}", self.host),
        })
    }

    pub(crate) fn transport(&self) -> Transport {
        self.transport
    }

    /// The name of its directory in a cache.
    pub(crate) fn cache_key(&self) -> String {
        HEXLOWER.encode(&Sha256::digest(self.text.as_bytes())[..8])
    }
}

impl Transport {
    /// Its name in `GIT_ALLOW_PROTOCOL`.
    pub(crate) fn protocol(self) -> &'static str {
        match self {
            Self::Https => "https",
            Self::Http => "http",
            Self::Ssh => "ssh",
            Self::File => "file",
        }
    }
}

impl fmt::Display for RepositoryAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
