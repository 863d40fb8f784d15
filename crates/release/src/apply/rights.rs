//! What a run needs besides its objects: to record revisions and to take the lock. Asked before it begins, for a
//! run that cannot write its last word must not begin.

use slipway_cluster::Cluster;
use slipway_cluster::helm::Driver;
use slipway_problem::{Problem, Problems};

use crate::plan::{Content, Request};

/// What is certainly not allowed of what a request needs; where nobody can say, nothing.
pub(super) async fn missing(cluster: &Cluster, request: &Request) -> Problems {
    let Ok(rights) = cluster.rights(&request.namespace).await else { return Problems::new() };
    let storage = match request.options.driver {
        Driver::Secret => "secrets",
        Driver::ConfigMap => "configmaps",
    };
    let records: &[&str] = match request.content {
        Content::Tests => &[],
        Content::Nothing if request.options.keep_history => &["update"],
        Content::Nothing => &["update", "delete"],
        _ => &["create", "update"],
    };
    let needs = [
        (storage, records, "revisions of the release cannot be recorded"),
        ("configmaps", &["update"][..], "the lock of the release cannot be taken"),
    ];
    let mut problems = Problems::new();
    for (resource, verbs, what) in needs {
        let denied: Vec<&str> =
            verbs.iter().filter(|verb| rights.forbid("", resource, verb)).copied().collect();
        if !denied.is_empty() {
            let problem = Problem::error(format!(
                "{what}: {} of {resource} is forbidden in namespace {}",
                denied.join(" and "),
                request.namespace
            ));
            problems.push(problem.hint(format!("grant {} on {resource} there", verbs.join(", "))));
        }
    }
    problems
}
