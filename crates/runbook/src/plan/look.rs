//! Looking at one step: what it would do to what is there now.

use std::time::Duration;

use slipway_manifest::{Gvk, ObjectRef};
use tokio_util::sync::CancellationToken;

use super::earlier::Earlier;
use super::{Seen, Show, Verb};
use crate::context::{SharedContext, StepContext};
use crate::diff::Difference;
use crate::model::Step;
use crate::references;

/// The time limit of looking at one step.
const PATIENCE: Duration = Duration::from_secs(30);
/// The time limit with a difference.
const PATIENCE_WITH_DIFF: Duration = Duration::from_secs(120);

/// The details a plan is asked for, and what a step may expect of those before.
pub(crate) struct PlanRequest<'a> {
    pub(crate) show: Show,
    pub(crate) earlier: &'a Earlier,
}

pub(super) async fn at(world: &SharedContext<'_>, step: &Step, show: Show, earlier: &Earlier) -> Seen {
    let patience = if show == Show::Differences { PATIENCE_WITH_DIFF } else { PATIENCE };
    let attempt = StepContext::new(world, step, CancellationToken::new(), None);
    let request = PlanRequest { show, earlier };
    let work = async {
        let action = references::resolve_action(&world.place, step).await?;
        action.as_step().plan(&attempt, &request).await
    };
    match tokio::time::timeout(patience, work).await {
        Ok(Ok(seen)) => seen,
        Ok(Err(error)) => {
            let mut seen = Seen::new(Verb::Unknown, first_line(&error.message));
            if show == Show::Differences {
                seen.diff = Some(Difference::unavailable(first_line(&error.message)));
            }
            seen
        }
        Err(_) => Seen::new(Verb::Unknown, format!("looking took longer than {} s", patience.as_secs())),
    }
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

/// Tells that a namespace is there, or where it comes from.
pub(crate) async fn namespace_note(
    attempt: &StepContext<'_>,
    name: &str,
    creates: bool,
    earlier: &Earlier,
) -> String {
    let at = ObjectRef::new(Gvk::new("", "v1", "Namespace"), None, name);
    let exists = attempt.cluster().get(&at).await.map(|live| live.is_some()).unwrap_or(true);
    if exists {
        "namespace exists".to_owned()
    } else if creates {
        format!("creates namespace {name}")
    } else if earlier.namespaces.contains(name) {
        format!("namespace {name} comes in another step")
    } else {
        format!("namespace {name} is missing")
    }
}
