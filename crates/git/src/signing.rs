//! Signatures of commits, made by Git with OpenSSH or GnuPG.

use std::path::PathBuf;

use secrecy::{ExposeSecret as _, SecretString};
use slipway_process::Program;
use tempfile::TempDir;

use crate::credential::{private_directory, write_private};
use crate::error::GitError;
use crate::mirror::Repository;
use crate::program::GitCall;

/// The key commits are signed with.
#[derive(Clone, Debug)]
pub enum SigningKey {
    /// An unencrypted OpenSSH private key.
    Ssh(SecretString),
    /// An unencrypted armoured OpenPGP private key.
    OpenPgp(SecretString),
}

/// A key on disk, for as long as one commit takes.
pub(crate) struct PreparedKey {
    directory: TempDir,
    kind: PreparedKind,
}

enum PreparedKind {
    Ssh { file: PathBuf },
    OpenPgp { fingerprint: String },
}

impl SigningKey {
    pub(crate) async fn prepare(&self, repository: &Repository) -> Result<PreparedKey, GitError> {
        let scratch = repository.scratch();
        let directory = private_directory(&scratch).map_err(GitError::files(&scratch))?;
        match self {
            Self::Ssh(key) => {
                let file = directory.path().join("signing");
                let text = format!("{}\n", key.expose_secret().trim_end());
                write_private(&file, text.as_bytes()).map_err(GitError::files(&file))?;
                Ok(PreparedKey { directory, kind: PreparedKind::Ssh { file } })
            }
            Self::OpenPgp(key) => {
                let unusable = |reason: &str| GitError::SigningKey { reason: reason.to_owned() };
                let gpg = |words: &[&str]| {
                    Program::new("gpg")
                        .pass_variables(&["PATH"])
                        .variable("GNUPGHOME", directory.path())
                        .args(["--batch", "--no-tty", "--quiet"])
                        .args(words)
                        .stop(repository.cache.stop.clone())
                };
                let program =
                    |source| GitError::Program { doing: "import the signing key".to_owned(), source };
                let imported = gpg(&["--import"]).input(key.expose_secret()).run().await.map_err(program)?;
                if !imported.is_success() {
                    return Err(unusable("GnuPG does not read it"));
                }
                let listed = gpg(&["--list-secret-keys", "--with-colons"]).run().await.map_err(program)?;
                let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
                let fingerprint = listed
                    .lines()
                    .find_map(|line| line.strip_prefix("fpr:"))
                    .and_then(|rest| rest.split(':').find(|field| !field.is_empty()))
                    .ok_or_else(|| unusable("it holds no private key"))?;
                let kind = PreparedKind::OpenPgp { fingerprint: fingerprint.to_owned() };
                Ok(PreparedKey { directory, kind })
            }
        }
    }
}

impl PreparedKey {
    /// Has a `commit-tree` sign its commit.
    pub(crate) fn equip(&self, call: GitCall) -> GitCall {
        match &self.kind {
            PreparedKind::Ssh { file } => call
                .arg("-S")
                .setting("gpg.format", "ssh")
                .setting("user.signingKey", file.display().to_string()),
            PreparedKind::OpenPgp { fingerprint } => call
                .arg(format!("-S{fingerprint}"))
                .setting("gpg.format", "openpgp")
                .variable("GNUPGHOME", self.directory.path().display().to_string()),
        }
    }

    /// Ends the agent GnuPG has started, and removes the key.
    pub(crate) async fn finish(self) {
        if let PreparedKind::OpenPgp { .. } = self.kind {
            let end = Program::new("gpgconf")
                .pass_variables(&["PATH"])
                .args(["--homedir".as_ref(), self.directory.path().as_os_str()])
                .args(["--kill", "all"]);
            // An agent whose directory is gone ends by itself.
            let _ = end.run().await;
        }
    }
}
