//! Finds the objects a failed run created, for a run that is to leave none behind.

use slipway_source::RecordPart;

use super::executor::OperationExecutor;
use crate::decide::may_delete;
use crate::plan::{Indexed, ObjectIndex, VisitIndex};
use crate::resource::DeployType;

/// The objects a run created, and what could not be found out about others.
#[derive(Default)]
pub(super) struct CreatedObjects {
    pub(super) visits: Vec<VisitIndex>,
    pub(super) problems: Vec<String>,
}

impl CreatedObjects {
    /// Looks for objects that were not there when the plan was made and belong to the release now. The cluster is
    /// asked because a request that was stopped may have been carried out. Hooks have policies of their own, and what a
    /// policy keeps stays.
    pub(super) async fn find(executor: &OperationExecutor<'_>) -> Self {
        let plan = executor.plan;
        let deploys =
            matches!(plan.deploy_type, DeployType::Install | DeployType::Upgrade | DeployType::Rollback);
        if !executor.options.cleanup_on_fail || !deploys {
            return Self::default();
        }
        let new: Vec<ObjectIndex> = plan
            .objects
            .indexed()
            .filter(|(_, object)| object.live.is_none() && object.resource.stored == RecordPart::Regular)
            .filter(|(_, object)| !object.visits.is_empty())
            .map(|(index, _)| index)
            .collect();
        let places: Vec<_> = new.iter().map(|index| plan.objects.at(*index).at.clone()).collect();
        let mut found = Self::default();
        for (index, live) in new.into_iter().zip(executor.cluster.get_many(&places).await) {
            match live {
                Ok(Some(live)) if may_delete(&live, &plan.name, &plan.namespace).is_ok() => {
                    found.visits.push(VisitIndex { object: index, visit: 0 });
                }
                Ok(_) => {}
                Err(error) => {
                    let object = &plan.objects.at(index).resource.id;
                    found.problems.push(format!("{object} could not be cleaned up: {error}"));
                }
            }
        }
        found
    }
}
