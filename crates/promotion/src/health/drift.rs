//! Drift: an environment that no longer is what was promoted. Only reported, never corrected.

use jiff::{SignedDuration, Timestamp};

use super::image::{ImageMatch, compare_images};
use crate::kinds::{HealthObservation, ImageArtifact};

/// The time a tool may be behind before that counts as drift.
const SYNC_GRACE: SignedDuration = SignedDuration::from_mins(10);

/// The version an environment was last verified with.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DriftExpectation {
    pub images: Vec<ImageArtifact>,
    /// The commit it was verified at.
    pub revision: Option<String>,
}

/// The files of an environment at the tip of its branch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GitState {
    /// The images they name.
    pub images: Vec<String>,
    /// Files of the environment that changed since it was verified, outside of promotions.
    pub changed_files: Vec<String>,
}

/// A way in which an environment differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DriftKind {
    /// Somebody edited the environment's files.
    Git,
    /// The GitOps tool has not applied what Git says.
    Sync,
    /// Something else runs than what was promoted.
    Live,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriftDetail {
    pub kind: DriftKind,
    pub message: String,
}

/// How an environment differs from what was promoted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DriftReport {
    pub details: Vec<DriftDetail>,
    /// When it began to differ.
    pub since: Option<Timestamp>,
}

impl DriftReport {
    /// The environment is not what was promoted.
    pub fn is_unreconciled(&self) -> bool {
        !self.details.is_empty()
    }
}

/// Compares an environment with what was promoted: its files, its tool, and what runs.
///
/// `observation` is a look at health with the expectation as its proof; `before` is the last report.
pub fn find_drift(
    expected: &DriftExpectation,
    git: Option<&GitState>,
    observation: Option<&HealthObservation>,
    before: Option<&DriftReport>,
    now: Timestamp,
) -> DriftReport {
    let mut details = Vec::new();
    let mut add = |kind, message: String| details.push(DriftDetail { kind, message });
    if let Some(git) = git {
        if let ImageMatch::Differs { running, wanted } = compare_images(&git.images, &expected.images) {
            add(DriftKind::Git, format!("the files name {running}, {wanted} was promoted"));
        } else if let Some(file) = git.changed_files.first() {
            let others = git.changed_files.len() - 1;
            let more = if others > 0 { format!(" and {others} more") } else { String::new() };
            add(DriftKind::Git, format!("{file}{more} changed outside of promotions"));
        }
    }
    if let Some(seen) = observation {
        let lasts = seen.since.is_some_and(|since| now.duration_since(since) > SYNC_GRACE);
        match seen.reason.as_str() {
            "StaleImage" => add(DriftKind::Live, seen.message.clone()),
            // A later commit is no drift: the proof accepts descendants.
            "StaleRevision" | "OutOfSync" | "Suspended" if lasts => {
                add(DriftKind::Sync, seen.message.clone());
            }
            _ => {}
        }
    }
    let since = match details.is_empty() {
        true => None,
        false => {
            before.filter(|before| before.is_unreconciled()).and_then(|before| before.since).or(Some(now))
        }
    };
    DriftReport { details, since }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::HealthLevel;

    fn expected() -> DriftExpectation {
        let image =
            ImageArtifact { name: "app".into(), reference: "ghcr.io/acme/app:1.29.0".into(), digest: None };
        DriftExpectation { images: vec![image], revision: Some("a".repeat(40)) }
    }

    fn seen(level: HealthLevel, reason: &str, since: &str) -> HealthObservation {
        let since = Some(since.parse().unwrap());
        HealthObservation {
            level,
            reason: reason.into(),
            message: reason.into(),
            since,
            ..Default::default()
        }
    }

    #[test]
    fn files_tool_and_workload_are_compared() {
        let now: Timestamp = "2026-04-10T12:00:00Z".parse().unwrap();
        let hand_edit = GitState { images: vec!["ghcr.io/acme/app:1.30.0".into()], changed_files: vec![] };
        let same = GitState { images: vec!["ghcr.io/acme/app:1.29.0".into()], changed_files: vec![] };
        let touched =
            GitState { changed_files: vec!["environments/prod/replicas.yaml".into()], ..same.clone() };
        let old = "2026-04-10T11:00:00Z";
        let recent = "2026-04-10T11:55:00Z";
        for (git, look, kinds) in [
            (None, None, vec![]),
            (Some(&same), Some(seen(HealthLevel::Healthy, "Healthy", old)), vec![]),
            (Some(&hand_edit), None, vec![DriftKind::Git]),
            (Some(&touched), None, vec![DriftKind::Git]),
            (Some(&same), Some(seen(HealthLevel::Progressing, "OutOfSync", old)), vec![DriftKind::Sync]),
            (Some(&same), Some(seen(HealthLevel::Progressing, "OutOfSync", recent)), vec![]),
            (
                Some(&hand_edit),
                Some(seen(HealthLevel::Progressing, "StaleImage", recent)),
                vec![DriftKind::Git, DriftKind::Live],
            ),
            (None, Some(seen(HealthLevel::Unknown, "ClusterUnavailable", old)), vec![]),
        ] {
            let report = find_drift(&expected(), git, look.as_ref(), None, now);
            let found: Vec<DriftKind> = report.details.iter().map(|detail| detail.kind).collect();
            assert_eq!(found, kinds, "{git:?} {look:?}");
            assert_eq!(report.since.is_some(), report.is_unreconciled());
        }
    }

    #[test]
    fn drift_keeps_the_moment_it_began() {
        let now: Timestamp = "2026-04-10T12:00:00Z".parse().unwrap();
        let later: Timestamp = "2026-04-10T13:00:00Z".parse().unwrap();
        let edit = GitState { images: vec!["ghcr.io/acme/app:1.30.0".into()], changed_files: vec![] };
        let first = find_drift(&expected(), Some(&edit), None, None, now);
        let second = find_drift(&expected(), Some(&edit), None, Some(&first), later);
        assert_eq!(second.since, Some(now));
        let fixed = find_drift(&expected(), None, None, Some(&second), later);
        assert_eq!(fixed, DriftReport::default());
    }
}
