//! Credentials of a remote, handed to Git through its environment.

use std::io::Write as _;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use secrecy::{ExposeSecret as _, SecretString};
use slipway_event::Redactor;
use slipway_process::shell_word;
use tempfile::TempDir;

use crate::address::RepositoryAddress;
use crate::error::GitError;
use crate::program::{GitCall, NOTHING};

/// The credentials of a remote.
#[derive(Clone, Debug, Default)]
pub enum GitCredential {
    #[default]
    Anonymous,
    /// A user and a password or token over HTTPS or HTTP.
    Login { user: String, password: SecretString },
    /// A private key over SSH. Hosts that `known_hosts` does not list are refused.
    SshKey { private_key: SecretString, known_hosts: String },
}

impl GitCredential {
    /// A redactor that knows the credential in every form it travels in.
    pub(crate) fn redactor(&self) -> Redactor {
        let redactor = Redactor::new();
        match self {
            Self::Anonymous => {}
            Self::Login { user, password } => {
                redactor.register(password.expose_secret());
                redactor.register(basic(user, password));
            }
            Self::SshKey { private_key, .. } => {
                redactor.register(private_key.expose_secret());
            }
        }
        redactor
    }

    /// Adds the credential to a call that talks to the remote. Files it needs live as long as what is returned.
    pub(crate) fn equip(
        &self,
        call: GitCall,
        address: &RepositoryAddress,
        scratch: &Path,
    ) -> Result<(GitCall, Option<TempDir>), GitError> {
        let call = GitCall { protocols: address.transport().protocol(), ..call };
        match self {
            Self::Login { user, password } => {
                let Some(origin) = address.origin() else { return Ok((call, None)) };
                let header = format!("Authorization: Basic {}", basic(user, password));
                // A redirect would take the header to another host.
                let call = call.setting("http.followRedirects", "false");
                Ok((call.setting(format!("http.{origin}/.extraHeader"), header), None))
            }
            Self::SshKey { private_key, known_hosts } => {
                let files = |path: &Path| GitError::files(path.to_owned());
                let directory = private_directory(scratch).map_err(files(scratch))?;
                let (key, hosts) = (directory.path().join("key"), directory.path().join("hosts"));
                let mut text = private_key.expose_secret().to_owned();
                if !text.ends_with('\n') {
                    text.push('\n');
                }
                write_private(&key, text.as_bytes()).map_err(files(&key))?;
                write_private(&hosts, known_hosts.as_bytes()).map_err(files(&hosts))?;
                let command = ssh_command(&key, &hosts);
                Ok((call.variable("GIT_SSH_COMMAND", command), Some(directory)))
            }
            Self::Anonymous => Ok((call, None)),
        }
    }
}

fn basic(user: &str, password: &SecretString) -> String {
    STANDARD.encode(format!("{user}:{}", password.expose_secret()))
}

/// `ssh` with this key, these hosts, and nothing of the user's.
fn ssh_command(key: &Path, hosts: &Path) -> String {
    let (key, hosts) = (key.display().to_string(), hosts.display().to_string());
    format!(
        "ssh -F {NOTHING} -i {} -o UserKnownHostsFile={} -o GlobalKnownHostsFile={NOTHING} \
         -o StrictHostKeyChecking=yes -o IdentitiesOnly=yes -o IdentityAgent=none -o BatchMode=yes \
         -o ConnectTimeout=30 -o ForwardAgent=no",
        shell_word(&key),
        shell_word(&hosts)
    )
}

/// A directory only its owner can look into; it goes when it is dropped.
pub(crate) fn private_directory(parent: &Path) -> std::io::Result<TempDir> {
    std::fs::create_dir_all(parent)?;
    tempfile::Builder::new().prefix("secret-").tempdir_in(parent)
}

/// Writes a file only its owner can read.
pub(crate) fn write_private(path: &Path, content: &[u8]) -> std::io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)?.write_all(content)
}
