//! Every release of a plan looked at, writing nothing: what would change, what was changed behind its back.

use futures::stream::{self, StreamExt as _};

use crate::deploy::{Deploy, NodeError, Preview, Verdict};
use crate::plan::{Node, StackPlan};

/// The number of releases looked at together; a look is a few reads.
const TOGETHER: usize = 16;

/// The finding about one release.
#[derive(Clone, Debug)]
pub struct Surveyed<T> {
    pub id: String,
    pub found: Result<T, NodeError>,
}

/// Finds what the plan would change, release by release, in the order of execution.
pub async fn previews<D: Deploy>(plan: &StackPlan, deploy: &D) -> Vec<Surveyed<Preview>> {
    let looks = ordered(plan)
        .into_iter()
        .map(|node| async { Surveyed { id: node.id.clone(), found: deploy.plan(node, plan.command).await } });
    stream::iter(looks).buffered(TOGETHER).collect().await
}

/// Checks that the releases are as they were applied, in the order of execution.
pub async fn verdicts<D: Deploy>(plan: &StackPlan, deploy: &D) -> Vec<Surveyed<Verdict>> {
    let looks = ordered(plan)
        .into_iter()
        .map(|node| async { Surveyed { id: node.id.clone(), found: deploy.verify(node).await } });
    stream::iter(looks).buffered(TOGETHER).collect().await
}

fn ordered(plan: &StackPlan) -> Vec<&Node> {
    let by_id: std::collections::HashMap<&str, &Node> =
        plan.nodes.iter().map(|node| (node.id.as_str(), node)).collect();
    plan.order.iter().filter_map(|id| by_id.get(id.as_str()).copied()).collect()
}
