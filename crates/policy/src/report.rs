//! The outcome of an evaluation.

use std::fmt;

use serde::{Deserialize, Serialize};
use slipway_problem::{Location, Problem, Problems};

/// Everything the policies said about one plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct PolicyReport {
    /// In the order of the files and their rules.
    pub results: Vec<PolicyResult>,
    /// Policies that are for other targets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<String>,
}

/// One finding of a rule, or that it found nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct PolicyResult {
    /// The file the rule stands in.
    pub policy: String,
    pub rule: String,
    pub decision: PolicyDecision,
    /// The object, image or fact the finding is about; empty where the whole plan passes.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub subject: String,
    /// The field of the object.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub path: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    pub code: PolicyCode,
}

/// The decision on one finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PolicyDecision {
    Deny,
    Warn,
    Pass,
    /// A finding that an exception allows for now.
    Excepted,
}

/// The kind of a finding; stable, for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PolicyCode {
    Ok,
    /// The policy is for named environments, clusters or namespaces, and the run's is not known.
    UnknownTarget,
    ForbiddenKind,
    ClusterScoped,
    InvalidImage,
    ImageWithoutDigest,
    ImageRegistry,
    ImageTag,
    TooManyDestroyed,
    DestroyedKind,
    Replaced,
    SecretProvider,
    NotAUnit,
    NotSigned,
    NotVerified,
    TooOld,
    UncleanGit,
    OutsideWindow,
    NoResources,
    Privileged,
    TooFewReplicas,
    Expression,
    ExpressionFailed,
    /// An exception has ended.
    ExpiredException,
}

impl PolicyReport {
    /// Tells that something is denied: nothing may be written.
    pub fn is_denied(&self) -> bool {
        self.denied().next().is_some()
    }

    /// The findings that deny the plan.
    pub fn denied(&self) -> impl Iterator<Item = &PolicyResult> {
        self.results.iter().filter(|result| result.decision == PolicyDecision::Deny)
    }

    /// The findings that only warn.
    pub fn warnings(&self) -> impl Iterator<Item = &PolicyResult> {
        self.results.iter().filter(|result| result.decision == PolicyDecision::Warn)
    }

    /// The findings that deny or warn, as problems at the policies that made them.
    pub fn problems(&self) -> Problems {
        let found = self.results.iter().filter_map(|result| {
            let problem = match result.decision {
                PolicyDecision::Deny => Problem::error(result.to_string()),
                PolicyDecision::Warn => Problem::warning(result.to_string()),
                PolicyDecision::Pass | PolicyDecision::Excepted => return None,
            };
            Some(problem.at(Location::file(result.policy.as_str())).code(result.code.word()))
        });
        found.collect()
    }

    /// How many results have a decision.
    pub fn count(&self, decision: PolicyDecision) -> usize {
        self.results.iter().filter(|result| result.decision == decision).count()
    }
}

impl PolicyCode {
    /// The word outputs use.
    pub fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::UnknownTarget => "unknown-target",
            Self::ForbiddenKind => "forbidden-kind",
            Self::ClusterScoped => "cluster-scoped",
            Self::InvalidImage => "invalid-image",
            Self::ImageWithoutDigest => "image-without-digest",
            Self::ImageRegistry => "image-registry",
            Self::ImageTag => "image-tag",
            Self::TooManyDestroyed => "too-many-destroyed",
            Self::DestroyedKind => "destroyed-kind",
            Self::Replaced => "replaced",
            Self::SecretProvider => "secret-provider",
            Self::NotAUnit => "not-a-unit",
            Self::NotSigned => "not-signed",
            Self::NotVerified => "not-verified",
            Self::TooOld => "too-old",
            Self::UncleanGit => "unclean-git",
            Self::OutsideWindow => "outside-window",
            Self::NoResources => "no-resources",
            Self::Privileged => "privileged",
            Self::TooFewReplicas => "too-few-replicas",
            Self::Expression => "expression",
            Self::ExpressionFailed => "expression-failed",
            Self::ExpiredException => "expired-exception",
        }
    }
}

impl PolicyDecision {
    /// The word outputs use.
    pub fn word(self) -> &'static str {
        match self {
            Self::Deny => "deny",
            Self::Warn => "warn",
            Self::Pass => "pass",
            Self::Excepted => "excepted",
        }
    }
}

impl fmt::Display for PolicyResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rule `{}`", self.rule)?;
        for part in [&self.subject, &self.path, &self.message] {
            if !part.is_empty() {
                write!(f, ": {part}")?;
            }
        }
        Ok(())
    }
}
