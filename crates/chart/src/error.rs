//! Errors of charts, in the words Helm's users know.

use std::fmt;

use slipway_go::GoError;
use slipway_problem::{Location, Problem};

/// What went wrong in Helm's words, with the place and the advice that Helm leaves out, where they are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChartFault {
    first: Box<Problem>,
    /// What else is wrong; Helm stops at the first.
    others: Vec<Problem>,
}

impl ChartFault {
    pub fn new(text: impl Into<String>) -> Self {
        Self { first: Box::new(Problem::error(text)), others: Vec::new() }
    }

    pub(crate) fn place(&self) -> Option<&Location> {
        self.first.at.as_ref()
    }

    /// Adds something else that is wrong.
    pub(crate) fn push(&mut self, other: ChartFault) {
        self.others.push(*other.first);
    }

    /// Says before the text what was being done.
    #[must_use]
    pub fn within(mut self, doing: &str) -> Self {
        self.first.message = format!("{doing}: {}", self.first.message);
        self
    }

    /// Adds what to do about it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.first.hint = Some(hint.into());
        self
    }

    /// Adds the place; no line is shown, since values and rendered objects may hold secrets.
    #[must_use]
    pub fn at(mut self, place: Location) -> Self {
        self.first.at = Some(place);
        self
    }

    /// Adds the place and the line of `text`, which is the content of the file.
    #[must_use]
    pub fn in_text(mut self, place: Location, text: &str) -> Self {
        *self.first = self.first.in_text(place, text);
        self
    }
}

impl fmt::Display for ChartFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.first.message)
    }
}

impl From<String> for ChartFault {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

impl From<&str> for ChartFault {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl From<GoError> for ChartFault {
    fn from(error: GoError) -> Self {
        Self::new(String::from(error))
    }
}

/// The reason a chart could not be loaded, given values, rendered or published.
///
/// The text of each is exactly what Helm prints after `Error: `, so scripts and people that know
/// Helm's messages find them here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChartError {
    /// The chart's files cannot be read or do not make a chart.
    #[error("{0}")]
    Load(ChartFault),
    /// The values given by the user cannot be read.
    #[error("{0}")]
    Values(ChartFault),
    /// The chart cannot be used as asked: a library, a dependency missing, a bad release name.
    #[error("{0}")]
    Unusable(ChartFault),
    /// The values do not meet a chart's schema.
    #[error("{0}")]
    Schema(String),
    /// A template does not parse or fails.
    #[error("{0}")]
    Template(ChartFault),
    /// The output of the templates is not a list of manifests.
    #[error("{0}")]
    Manifest(ChartFault),
    /// Packaging, repositories, registries, provenance.
    #[error("{0}")]
    Publish(String),
    /// No repository of the name was added.
    #[error("{0}")]
    UnknownRepository(ChartFault),
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
    /// The same as problems, with their places and what to do.
    pub fn to_problems(&self) -> Vec<Problem> {
        let mut problems = match self {
            Self::Load(fault)
            | Self::Values(fault)
            | Self::Unusable(fault)
            | Self::Template(fault)
            | Self::Manifest(fault)
            | Self::UnknownRepository(fault) => {
                let mut all = vec![(*fault.first).clone()];
                all.extend(fault.others.iter().cloned());
                all
            }
            other => vec![Problem::error(other.to_string().trim_end())],
        };
        // Once is enough.
        if let Some(last) = problems.last_mut().filter(|last| last.hint.is_none()) {
            last.hint = self.usual_hint().map(str::to_owned);
        }
        problems
    }

    /// What to do about failures of the kind.
    fn usual_hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::Load(_) => {
                "check the path and the chart's files; `slipway lint CHART` says what is wrong with them"
            }
            Self::Values(_) => "check the values files, --set and the flags beside it",
            Self::Unusable(_) => {
                "`slipway chart show chart CHART` shows what the chart needs, `slipway chart deps build CHART` brings dependencies"
            }
            Self::Schema(_) => "correct the values, or leave the check out with --skip-schema-validation",
            Self::Template(_) => {
                "`slipway chart show values CHART` shows the values that templates read; give them with --set or -f"
            }
            Self::Manifest(_) => "`slipway render --debug` shows what the templates gave",
            Self::Publish(_) | Self::UnknownRepository(_) => {
                "check the address and the name; `slipway repo list` shows the repositories that are known"
            }
            Self::Denied(_) => {
                "log in with `slipway chart registry login`, or give --username and --password"
            }
            Self::UnknownVersion(_) => {
                "`slipway chart search repo NAME --versions` lists the versions there are"
            }
            Self::Interrupted(_) => return None,
            Self::Secret(_) => "check the key: $WERF_SECRET_KEY, .werf_secret_key or --secret-key",
        })
    }

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

impl fmt::Display for LogNotice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A list that notices are collected in.
pub type Notices = Vec<LogNotice>;
