//! Compares a plan with the release as it is now.

use slipway_cluster::Cluster;
use slipway_cluster::helm::{Release, ReleaseStorage, RevisionStatus, StoredRevision};
use slipway_problem::Problem;

use super::ReleasePlan;
use crate::failure::Failure;
use crate::resource::DeployType;

impl ReleasePlan {
    /// Checks that the history is still the one the plan was made for: whoever changes a release changes that.
    /// Otherwise the plan is [stale](Failure::Stale). Under the release's lock the answer holds until the lock is
    /// given back.
    pub async fn verify(&self, cluster: &Cluster) -> Result<(), Failure> {
        let storage = ReleaseStorage::new(cluster.clone(), self.options.driver, &*self.namespace);
        let now = storage.list_revisions(&self.name).await?;
        let then = &self.history.releases;
        let same = |(now, then): (&StoredRevision, &Release)| {
            now.revision == then.version && now.status == then.info.status
        };
        if now.len() == then.len() && now.iter().zip(then).all(same) {
            return Ok(());
        }
        let problem = Problem::error(format!("release `{}` changed since it was planned", self.name));
        Err(Failure::Stale(problem.hint("run the command again").into()))
    }

    /// Tells that a plan leaves everything as it is, the history too.
    pub(crate) fn is_idle(&self) -> bool {
        self.deploy_type != DeployType::Test && self.is_empty() && self.unsettled_revisions().next().is_none()
    }

    /// Revisions an interrupted run left in a state that is not true.
    pub(crate) fn unsettled_revisions(&self) -> impl Iterator<Item = &Release> {
        let newest = self.history.last_deployed().map(|release| release.version);
        self.history.releases.iter().filter(move |old| {
            let status = old.info.status;
            status.is_pending() || status == RevisionStatus::Deployed && Some(old.version) != newest
        })
    }
}
