//! Freshness: the proof that what is observed is the change at hand and not the state before it.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::Value;
use slipway_git::{BranchName, CommitId, GitError, Repository};

use super::image::{self, ImageMatch, compare_images};
use super::target::HealthProof;
use crate::kinds::ObjectBaseline;

/// Answers whether one revision contains another.
pub trait RevisionHistory: Send + Sync {
    /// Tells whether `ancestor` is `revision` or part of its history.
    fn is_ancestor<'a>(
        &'a self,
        ancestor: &'a str,
        revision: &'a str,
    ) -> BoxFuture<'a, Result<bool, GitError>>;
}

/// The history of a branch.
#[derive(Clone)]
pub struct BranchHistory {
    pub repository: Repository,
    pub branch: BranchName,
}

impl RevisionHistory for BranchHistory {
    fn is_ancestor<'a>(
        &'a self,
        ancestor: &'a str,
        revision: &'a str,
    ) -> BoxFuture<'a, Result<bool, GitError>> {
        async move {
            // A tool may report something else than a commit, such as the version of a chart.
            let (Ok(ancestor), Ok(revision)) = (CommitId::parse(ancestor), CommitId::parse(revision)) else {
                return Ok(false);
            };
            self.repository.is_ancestor(&self.branch, &ancestor, &revision).await
        }
        .boxed()
    }
}

/// Commits known to contain another. Histories only grow, so a yes stays true.
#[derive(Default)]
pub(super) struct KnownAncestors(Mutex<BTreeSet<(String, String)>>);

/// The answers kept at most.
const MOST_KNOWN: usize = 4096;

impl KnownAncestors {
    async fn is_ancestor(
        &self,
        history: &dyn RevisionHistory,
        ancestor: &str,
        revision: &str,
    ) -> Result<bool, GitError> {
        let key = (ancestor.to_owned(), revision.to_owned());
        if self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(&key) {
            return Ok(true);
        }
        let is_ancestor = history.is_ancestor(ancestor, revision).await?;
        if is_ancestor {
            let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if known.len() >= MOST_KNOWN {
                known.clear();
            }
            known.insert(key);
        }
        Ok(is_ancestor)
    }
}

/// The revisions a tool reports, compared with the commit of the change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RevisionProof {
    /// The commit of the change is not known, or the tool reports something that is no commit.
    Unavailable,
    /// The tool has not reported anything yet.
    Missing,
    /// The tool has applied the change, or something later.
    Proven(String),
    /// The tool has applied something that does not hold the change.
    Older(String),
}

impl RevisionProof {
    /// The revision reported.
    pub(super) fn observed(&self) -> Option<&str> {
        match self {
            Self::Unavailable | Self::Missing => None,
            Self::Proven(revision) | Self::Older(revision) => Some(revision),
        }
    }
}

/// Compares the revisions a tool reports with the commit of the change.
pub(super) async fn prove_revision(
    reported: &[String],
    proof: &HealthProof<'_>,
    known: &KnownAncestors,
) -> Result<RevisionProof, GitError> {
    let Some(target) = proof.target_revision.as_deref().filter(|target| !target.is_empty()) else {
        return Ok(RevisionProof::Unavailable);
    };
    if reported.is_empty() {
        return Ok(RevisionProof::Missing);
    }
    let commits: Vec<&str> = reported.iter().filter_map(|revision| commit_of(revision)).collect();
    for commit in &commits {
        if *commit == target {
            return Ok(RevisionProof::Proven((*commit).to_owned()));
        }
    }
    for commit in &commits {
        if let Some(history) = proof.history
            && known.is_ancestor(history, target, commit).await?
        {
            return Ok(RevisionProof::Proven((*commit).to_owned()));
        }
    }
    let first = commits.first().map(|commit| (*commit).to_owned());
    Ok(first.map_or(RevisionProof::Unavailable, RevisionProof::Older))
}

/// The commit in a revision as tools write it: `main@sha1:<commit>`, `main/<commit>`, `sha1:<commit>` or the commit.
pub(super) fn commit_of(revision: &str) -> Option<&str> {
    let last = revision.rsplit(['@', '/']).next()?;
    let commit = last.strip_prefix("sha1:").or_else(|| last.strip_prefix("sha256:")).unwrap_or(last);
    let is_commit = matches!(commit.len(), 40 | 64) && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_commit.then_some(commit)
}

/// The first characters of a commit, for messages.
pub(super) fn short(commit: &str) -> &str {
    commit.get(..7).unwrap_or(commit)
}

/// What an object says about the change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Freshness {
    Proven,
    /// Not yet, and why.
    Stale {
        reason: &'static str,
        message: String,
    },
    /// The object can neither prove nor disprove it.
    Neutral,
}

impl Freshness {
    pub(super) fn stale(reason: &'static str, message: impl Into<String>) -> Self {
        Self::Stale { reason, message: message.into() }
    }
}

/// Judges a workload by its images.
pub(super) fn image_freshness(running: &[String], proof: &HealthProof<'_>) -> Freshness {
    match compare_images(running, &proof.images) {
        ImageMatch::Matches => Freshness::Proven,
        ImageMatch::Differs { running, wanted } => {
            Freshness::stale("StaleImage", format!("runs {running}, want {wanted}"))
        }
        ImageMatch::Unrelated => Freshness::Neutral,
    }
}

/// Judges an object by what changed since the baseline, where nothing better can be had.
pub(super) fn change_freshness(
    object: &Value,
    baseline: Option<&ObjectBaseline>,
    proof: &HealthProof<'_>,
) -> Freshness {
    if proof.no_change {
        return Freshness::Proven;
    }
    let Some(before) = baseline else {
        // Created after the baseline was taken: all of it is new.
        let created = object["metadata"]["creationTimestamp"].as_str();
        let created = created.and_then(|text| text.parse::<jiff::Timestamp>().ok());
        let is_new = proof.baseline.is_some_and(|baseline| {
            created.is_some_and(|created| created.as_second() >= baseline.taken_at.as_second())
        });
        return match is_new {
            true => Freshness::Proven,
            false => Freshness::stale("NoBaseline", "its state before the change is not known"),
        };
    };
    let generation = object["metadata"]["generation"].as_i64();
    // A scaler changes the generation too; a version that is new changes the template.
    let has_changed = match (proof.images.is_empty(), image::template_hash(object), &before.template) {
        (false, Some(now), Some(before)) => now != *before,
        _ => generation > before.generation,
    };
    match has_changed {
        true => Freshness::Proven,
        false => Freshness::stale("NotUpdated", "has not changed since before the push"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commits_are_found_in_every_form_of_a_revision() {
        let commit = "a".repeat(40);
        for (revision, expected) in [
            (format!("main@sha1:{commit}"), Some(commit.as_str())),
            (format!("main/{commit}"), Some(commit.as_str())),
            (format!("feature/x/{commit}"), Some(commit.as_str())),
            (format!("sha1:{commit}"), Some(commit.as_str())),
            (commit.clone(), Some(commit.as_str())),
            ("1.2.3".to_owned(), None),
            ("main".to_owned(), None),
            (String::new(), None),
        ] {
            assert_eq!(commit_of(&revision), expected, "{revision}");
        }
    }
}
