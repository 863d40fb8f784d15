//! `patch`: one change to one object that exists.

use slipway_cluster::{At, ErrorClass, Patch as Change};

use super::StepOutcome;
use crate::context::{StepContext, shown};
use crate::error::{ErrorKind, StepError};
use crate::model::{Patch, PatchType};

pub(super) async fn run(attempt: &StepContext<'_>, patch: &Patch) -> Result<StepOutcome, StepError> {
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
