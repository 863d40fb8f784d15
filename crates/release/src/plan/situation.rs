//! The situation of a release: what its history means for what comes next.

use std::collections::HashSet;
use std::sync::Arc;

use slipway_cluster::Cluster;
use slipway_cluster::helm::{Release, ReleaseHistory, ReleaseStorage, RevisionStatus, StorageDriver};

use crate::failure::Failure;
use crate::name::Revision;
use crate::record;
use crate::resource::{DeployType, KindScope};
use slipway_source::Document;

/// The situation of a release.
#[derive(Debug)]
pub struct ReleaseSituation {
    pub history: Arc<ReleaseHistory>,
    pub deploy_type: DeployType,
    pub revision: Revision,
    pub previous_failed: bool,
}

/// Reads the history and tells what deploying now means.
pub async fn read_situation(
    cluster: &Cluster,
    name: &str,
    namespace: &str,
    driver: StorageDriver,
) -> Result<ReleaseSituation, Failure> {
    let storage = ReleaseStorage::new(cluster.clone(), driver, namespace);
    let history = storage.read_history(name).await?;
    let deleted = history.releases.iter().rposition(|release| {
        matches!(release.info.status, RevisionStatus::Uninstalled | RevisionStatus::Uninstalling)
    });
    let since = deleted.map_or(0, |position| position + 1);
    let is_good = |release: &Release| {
        matches!(release.info.status, RevisionStatus::Deployed | RevisionStatus::Superseded)
    };
    let deploy_type =
        if history.releases[since..].iter().any(is_good) { DeployType::Upgrade } else { DeployType::Install };
    let previous_failed = history.last_release().is_some_and(|last| {
        let status = last.info.status;
        status.is_pending()
            || matches!(
                status,
                RevisionStatus::Failed | RevisionStatus::Unknown | RevisionStatus::Uninstalling
            )
    });
    let revision = Revision::from(history.last_revision() + 1);
    Ok(ReleaseSituation { history: Arc::new(history), deploy_type, revision, previous_failed })
}

/// The revision a rollback goes to.
pub fn rollback_target<'a>(
    history: &'a ReleaseHistory,
    wanted: Option<u32>,
    name: &str,
) -> Result<&'a Release, Failure> {
    if history.releases.is_empty() {
        return Err(Failure::NotFound(format!("release `{name}` not found")));
    }
    if let Some(wanted) = wanted.filter(|wanted| *wanted > 0) {
        let found = history.releases.iter().find(|release| release.version == wanted);
        return found.ok_or_else(|| {
            let known: Vec<String> =
                history.releases.iter().map(|release| release.version.to_string()).collect();
            Failure::NotFound(format!(
                "release `{name}` has no revision {wanted}; there are {}",
                known.join(", ")
            ))
        });
    }
    let is_good = |release: &&Release| {
        matches!(release.info.status, RevisionStatus::Deployed | RevisionStatus::Superseded)
    };
    let last = history.releases.last().map(|release| release.version);
    let mut good = history.releases.iter().rev().filter(is_good);
    let target = match good.next() {
        Some(newest) if Some(newest.version) != last => Some(newest),
        _ => good.next(),
    };
    target.ok_or_else(|| Failure::NotFound(format!("release `{name}` has no earlier revision that was good")))
}

/// Documents of the last good revision and all after it, newest first: what may have to be deleted.
pub(super) fn previous_documents(history: &ReleaseHistory) -> Vec<Document> {
    let start = history
        .releases
        .iter()
        .rposition(|release| release.info.status == RevisionStatus::Deployed)
        .unwrap_or(0);
    let deleted =
        history.releases.iter().rposition(|release| release.info.status == RevisionStatus::Uninstalled);
    let start = deleted.map_or(start, |deleted| start.max(deleted + 1));
    let mut seen = HashSet::new();
    let mut all = Vec::new();
    for release in history.releases.get(start..).unwrap_or_default().iter().rev() {
        for mut document in record::read_documents(release).0 {
            let id = crate::resource::normalise_namespace(
                &mut document.object,
                &release.namespace,
                KindScope::Unknown,
            );
            if seen.insert(id) {
                all.push(document);
            }
        }
    }
    all
}
