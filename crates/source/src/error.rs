//! Failures of getting a source here and reading it.

use slipway_problem::{Problem, Problems};

use slipway_secrets::{ReferencePlaces, ReferenceProblems, SecretsError};

use crate::fetch::FetchError;

/// Tells why a source could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The chart or its values cannot be read, in Helm's words.
    #[error(transparent)]
    Chart(#[from] slipway_chart::ChartError),
    /// A package, kustomization or file is wrong.
    #[error("{0}")]
    Problems(Problems),
    #[error("decrypt {file}")]
    Decrypt {
        file: String,
        #[source]
        source: slipway_chart::ChartError,
    },
    /// Something is encrypted, and there is no key.
    #[error("{0}")]
    NoKey(Problem),
    /// A chart could not be brought here.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// The archive is another one than was planned.
    #[error("the chart {path} is not the one that was planned: {digest}")]
    Digest { path: String, digest: String },
    /// A reference to a secret could not be resolved.
    #[error(transparent)]
    Resolve(#[from] ResolveError),
}

impl From<Problems> for LoadError {
    fn from(problems: Problems) -> Self {
        Self::Problems(problems)
    }
}

impl From<Problem> for LoadError {
    fn from(problem: Problem) -> Self {
        Self::Problems(problem.into())
    }
}

impl LoadError {
    /// Returns true if a secret could not be had.
    pub fn is_secret(&self) -> bool {
        match self {
            Self::Decrypt { .. } | Self::NoKey(_) | Self::Resolve(_) => true,
            Self::Chart(error) => matches!(error, slipway_chart::ChartError::Secret(_)),
            Self::Problems(_) | Self::Fetch(_) | Self::Digest { .. } => false,
        }
    }

    /// The same as problems with their places.
    pub fn into_problems(self) -> Problems {
        match self {
            Self::Problems(problems) => problems,
            Self::NoKey(problem) => problem.into(),
            Self::Resolve(error) => error.problems(),
            Self::Chart(error) => error.to_problems().into_iter().collect(),
            error @ (Self::Fetch(_) | Self::Digest { .. }) => Problem::error(error.to_string()).into(),
            Self::Decrypt { file, source } => Problem::error(format!("decrypt {file}: {source}")).into(),
        }
    }
}

/// Names every reference to a secret that could not be resolved; never a value.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    #[error(transparent)]
    Secrets(#[from] SecretsError),
    /// There is no resolver: its settings cannot be read, say.
    #[error("{0}")]
    Problems(Problems),
}

impl ResolveError {
    /// Every problem, for reports.
    pub fn problems(&self) -> Problems {
        match self {
            Self::Secrets(error) => error.problems(),
            Self::Problems(problems) => problems.clone(),
        }
    }

    /// The same with the places of the references it is about.
    pub(crate) fn located(self, places: &ReferencePlaces) -> Self {
        match self {
            Self::Secrets(error) => Self::Secrets(error.located(places)),
            error @ Self::Problems(_) => error,
        }
    }
}

impl From<Problems> for ResolveError {
    fn from(problems: Problems) -> Self {
        Self::Problems(problems)
    }
}

impl From<ReferenceProblems> for ResolveError {
    fn from(problems: ReferenceProblems) -> Self {
        Self::Secrets(SecretsError::Invalid(problems))
    }
}
