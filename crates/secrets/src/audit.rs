//! Audit lines: who used which secret, when, for what. No value, no length, no hash.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::provider::ProviderError;

/// One use of one reference by one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuditLine {
    pub ts: Timestamp,
    pub event: String,
    pub run_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_id: Option<String>,
    pub actor: String,
    pub host: String,
    pub command: String,
    #[serde(rename = "ref")]
    pub reference: String,
    pub provider: String,
    pub provider_type: String,
    pub path: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    pub cache: CacheUse,
    pub result: AuditResult,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    pub latency_ms: u64,
    pub policy: String,
    pub purpose: Purpose,
}

/// Tells a value already in memory from one that was fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CacheUse {
    Hit,
    Miss,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AuditResult {
    Ok,
    Denied,
    Error,
}

/// The reason values are fetched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Purpose {
    #[default]
    Apply,
    PlanCheck,
    Test,
    /// Values are shown to whoever sits at the terminal.
    Reveal,
}

impl std::fmt::Display for AuditResult {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Ok => "ok",
            Self::Denied => "denied",
            Self::Error => "error",
        })
    }
}

impl std::fmt::Display for Purpose {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Apply => "apply",
            Self::PlanCheck => "plan-check",
            Self::Test => "test",
            Self::Reveal => "reveal",
        })
    }
}

/// The parts of an audit line that are the same during a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunIdentity {
    pub run_id: String,
    pub actor: String,
    pub host: String,
    pub command: String,
    pub purpose: Purpose,
}

/// Takes audit lines. A line is written before the value it speaks of is used.
pub trait AuditSink: Send + Sync {
    fn record(&self, line: &AuditLine) -> Result<(), AuditError>;

    /// Makes sure that what was recorded stays.
    fn flush(&self) -> Result<(), AuditError> {
        Ok(())
    }
}

/// The reason an audit line could not be kept.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    #[error("cannot use the audit file {}", .path.display())]
    File {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("cannot send the audit to {address}")]
    Webhook {
        address: String,
        #[source]
        source: ProviderError,
    },
}

impl AuditError {
    /// The failure with its cause, in one line.
    pub(crate) fn with_cause(&self) -> String {
        match self {
            Self::File { source, .. } => format!("{self}: {source}"),
            Self::Webhook { source, .. } => format!("{self}: {source}"),
        }
    }
}

/// Keeps no lines.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoAudit;

impl AuditSink for NoAudit {
    fn record(&self, _: &AuditLine) -> Result<(), AuditError> {
        Ok(())
    }
}

/// Lines of JSON in a file of the owner's alone, opened when the first line comes.
#[derive(Debug)]
pub struct AuditFile {
    path: PathBuf,
    file: Mutex<Option<File>>,
}

impl AuditFile {
    pub fn new(path: PathBuf) -> Self {
        Self { path, file: Mutex::new(None) }
    }

    fn error(&self, source: std::io::Error) -> AuditError {
        AuditError::File { path: self.path.clone(), source }
    }

    fn open(&self) -> std::io::Result<File> {
        if let Some(parent) = self.path.parent() {
            std::fs::create_dir_all(parent)?;
        }
        let mut options = OpenOptions::new();
        options.append(true).create(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        options.open(&self.path)
    }
}

impl AuditSink for AuditFile {
    fn record(&self, line: &AuditLine) -> Result<(), AuditError> {
        let mut text = serde_json::to_string(line).map_err(|error| self.error(error.into()))?;
        text.push('\n');
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if file.is_none() {
            *file = Some(self.open().map_err(|error| self.error(error))?);
        }
        // One write a line, so that lines of several processes do not mix.
        match file.as_mut() {
            Some(file) => file.write_all(text.as_bytes()).map_err(|error| self.error(error)),
            None => Ok(()),
        }
    }

    fn flush(&self) -> Result<(), AuditError> {
        let file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.as_ref().map_or(Ok(()), |file| file.sync_all().map_err(|error| self.error(error)))
    }
}

/// The lines of an audit file, oldest first. Lines that cannot be read are counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditLog {
    pub lines: Vec<AuditLine>,
    pub damaged: usize,
}

/// Reads an audit file.
pub fn read_audit(path: &Path) -> Result<AuditLog, AuditError> {
    let text = slipway_problem::read_text_file(path)
        .map_err(|source| AuditError::File { path: path.to_owned(), source })?;
    let mut log = AuditLog::default();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        match serde_json::from_str(line) {
            Ok(line) => log.lines.push(line),
            Err(_) => log.damaged += 1,
        }
    }
    Ok(log)
}
