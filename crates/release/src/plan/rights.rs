//! The rights a run needs besides those on its objects: to record revisions and to take the lock. Checked before it
//! begins, because a run that cannot write its final record must not begin.

use slipway_cluster::helm::StorageDriver;
use slipway_cluster::{AccessNeed, Cluster};
use slipway_problem::{Problem, Problems};

use super::{ReleaseContent, ReleasePlan, ReleaseRequest};
use crate::failure::Failure;

/// Adds the rights that are missing to the problems of a plan, unless there is nothing to do.
pub(super) async fn check_rights(
    cluster: &Cluster,
    request: &ReleaseRequest,
    planned: Result<ReleasePlan, Failure>,
) -> Result<ReleasePlan, Failure> {
    let problems = match &planned {
        Ok(plan) if plan.is_idle() => return planned,
        Ok(_) => Problems::new(),
        Err(
            Failure::Problems(problems)
            | Failure::Source(problems)
            | Failure::Immutable(problems)
            | Failure::Ownership(problems),
        ) => problems.clone(),
        Err(_) => return planned,
    };
    let missing = missing_rights(cluster, request).await;
    if missing.is_empty() {
        return planned;
    }
    let all = problems.into_iter().chain(missing).collect();
    Err(match planned {
        Err(Failure::Source(_)) => Failure::Source(all),
        Err(Failure::Immutable(_)) => Failure::Immutable(all),
        Err(Failure::Ownership(_)) => Failure::Ownership(all),
        _ => Failure::Problems(all),
    })
}

/// Rights a request needs and certainly does not have; none where nobody can say.
async fn missing_rights(cluster: &Cluster, request: &ReleaseRequest) -> Problems {
    let Ok(rights) = cluster.access_rules(&request.namespace).await else { return Problems::new() };
    let records: &[&str] = match request.content {
        ReleaseContent::Tests(_) => &[],
        ReleaseContent::Nothing if request.options.keep_history => &["update"],
        ReleaseContent::Nothing => &["update", "delete"],
        _ => &["create", "update"],
    };
    let storage = match request.options.driver {
        StorageDriver::Secret => Some("secrets"),
        StorageDriver::ConfigMap => Some("configmaps"),
        // Its rights are the database's.
        StorageDriver::Sql => None,
    };
    let storage = storage.map(|kind| (kind, records, "revisions of the release cannot be recorded"));
    let lock = ("configmaps", &["update"][..], "the lock of the release cannot be taken");
    let needs = storage.into_iter().chain([lock]);
    let mut problems = Problems::new();
    for (resource, verbs, what) in needs {
        let denied: Vec<&str> =
            verbs.iter().filter(|verb| rights.certainly_forbid("", resource, verb)).copied().collect();
        if !denied.is_empty() {
            let problem = Problem::error(format!(
                "{what}: {} of {resource} is forbidden in namespace {}",
                denied.join(" and "),
                request.namespace
            ));
            let need = AccessNeed {
                verb: verbs.join(", "),
                group: String::new(),
                resource: resource.to_owned(),
                namespace: Some(request.namespace.to_string()),
            };
            problems.push(problem.hint(need.to_string()));
        }
    }
    problems
}
