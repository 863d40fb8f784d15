//! `patch`: one change to one object that exists.

use slipway_cluster::{At, ErrorClass, Patch as Change};

use super::{StepAction, StepFuture, StepOutcome};
use crate::context::{StepContext, shown};
use crate::error::{ErrorKind, StepError};
use crate::model::{Patch, PatchType};
use crate::plan::look::PlanRequest;
use crate::plan::{Seen, Show, Verb};

async fn run(attempt: &StepContext<'_>, patch: &Patch) -> Result<StepOutcome, StepError> {
    let Some(kind) = attempt.world.named(&patch.kind).await? else {
        let message = format!("the cluster serves no type `{}`", patch.kind);
        return Err(StepError::new(ErrorKind::NotFound, message).hint("`kubectl api-resources` lists them"));
    };
    let at =
        At::new(kind.gvk.clone(), kind.namespaced.then_some(patch.namespace.as_str()), patch.name.as_str());
    match attempt.patch(&at, &change(patch)).await {
        Ok(_) => Ok(StepOutcome::noted(format!("{} patched", shown(&at)))),
        Err(error) => Err(explain(error, patch, &at)),
    }
}

pub(crate) fn change(patch: &Patch) -> Change {
    let body = patch.body.clone();
    match patch.how {
        PatchType::Strategic => Change::Strategic(body),
        PatchType::Merge => Change::Merge(body),
        PatchType::Json => Change::Json(body),
    }
}

fn explain(error: slipway_cluster::Error, patch: &Patch, at: &At) -> StepError {
    let (class, code) = (error.class, error.code());
    let failed = StepError::from(error);
    match (class, code, patch.how) {
        (ErrorClass::NotFound, ..) => {
            let message = format!("{} must exist by the time this step runs", shown(at));
            StepError::new(ErrorKind::NotFound, message)
        }
        (_, Some(415), PatchType::Strategic) => {
            failed.hint("custom resources take no strategic patch: write `type: merge`")
        }
        (_, Some(422), PatchType::Json) => {
            failed.hint("a `test`, `remove` or indexed `add` that was done once fails when it is done again")
        }
        _ => failed,
    }
}

impl StepAction for Patch {
    fn describe(&self) -> String {
        format!("{}/{}", self.kind, self.name)
    }

    fn plan<'a>(&'a self, cx: &'a StepContext<'a>, request: &'a PlanRequest<'a>) -> StepFuture<'a, Seen> {
        Box::pin(plan(cx, self, request))
    }

    fn perform<'a>(&'a self, cx: &'a StepContext<'a>) -> StepFuture<'a, StepOutcome> {
        Box::pin(run(cx, self))
    }

    fn irreversible(&self) -> Option<&'static str> {
        Some("a patch cannot be undone")
    }
}

async fn plan(
    attempt: &StepContext<'_>,
    patch: &Patch,
    request: &PlanRequest<'_>,
) -> Result<Seen, StepError> {
    let Some(kind) = attempt.world.named(&patch.kind).await? else {
        return Ok(Seen::new(Verb::Unknown, format!("type {} is not served yet", patch.kind)));
    };
    let at =
        At::new(kind.gvk.clone(), kind.namespaced.then_some(patch.namespace.as_str()), patch.name.as_str());
    let Some(live) = attempt.cluster().get(&at).await? else {
        return Ok(Seen::new(Verb::Unknown, format!("{} is not there yet", shown(&at))));
    };
    let mut seen = Seen::new(Verb::Configure, shown(&at));
    if request.show == Show::Differences {
        seen.diff = Some(crate::diff::of_patch(attempt, patch, &at, &live).await);
    }
    Ok(seen)
}
