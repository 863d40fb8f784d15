//! Errors of charts, in the words Helm's users know.

/// The reason a chart could not be loaded, given values, rendered or published.
///
/// The text of each is exactly what Helm prints after `Error: `, so scripts and people that know
/// Helm's messages find them here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChartError {
    /// The chart's files cannot be read or do not make a chart.
    #[error("{0}")]
    Load(String),
    /// The values given by the user cannot be read.
    #[error("{0}")]
    Values(String),
    /// The chart cannot be used as asked: a library, a dependency missing, a bad release name.
    #[error("{0}")]
    Unusable(String),
    /// The values do not meet a chart's schema.
    #[error("{0}")]
    Schema(String),
    /// A template does not parse or fails.
    #[error("{0}")]
    Template(String),
    /// The output of the templates is not a list of manifests.
    #[error("{0}")]
    Manifest(String),
    /// Packaging, repositories, registries, provenance.
    #[error("{0}")]
    Publish(String),
    /// A server refuses access: credentials are missing, wrong or expired.
    #[error("{0}")]
    Denied(String),
    /// The repository or registry has no such version of a chart.
    #[error("{0}")]
    UnknownVersion(String),
    /// The user ended the work while something was being fetched.
    #[error("stopped while fetching {0}")]
    Interrupted(String),
    /// A value or file cannot be encrypted or decrypted.
    #[error("{0}")]
    Secret(String),
}

/// The text Helm adds to a failure in or after rendering.
const DEBUG_HINT: &str = "\n\nUse --debug flag to render out invalid YAML";

impl ChartError {
    /// The text `helm template` prints after `Error: `.
    pub fn helm_text(&self) -> String {
        match self {
            Self::Template(text) | Self::Manifest(text) => format!("{text}{DEBUG_HINT}"),
            other => other.to_string(),
        }
    }
}

/// A line Helm writes to its log while it works; not a failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogNotice(pub String);

impl std::fmt::Display for LogNotice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// A list that notices are collected in.
pub type Notices = Vec<LogNotice>;
