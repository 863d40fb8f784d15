//! Policies at the bundle: what they say of objects, images and secrets.

use serde_json::Value;
use slipway_event::Clock;
use slipway_manifest::ObjectRef;
use slipway_policy::{PolicyCode, PolicyInput, PolicyObject, PolicyReport, PolicySet, PolicyTarget};
use slipway_source::RenderedSource;

use super::BundleRequest;
use crate::error::UnitError;
use crate::values::secret_uses;

/// Holds what is rendered against policies; what they say of changes and signatures is for later.
pub(super) fn check_policies(
    set: &PolicySet,
    request: &BundleRequest,
    rendered: &RenderedSource,
    clock: &dyn Clock,
) -> Result<PolicyReport, UnitError> {
    let regular = rendered.documents.iter();
    let objects = regular.map(|document| PolicyObject {
        reference: ObjectRef::of(&document.object),
        object: &document.object,
    });
    let target = PolicyTarget {
        environment: request.env.clone(),
        cluster: None,
        namespace: Some(request.namespace.to_string()),
    };
    let mut input = PolicyInput::new(target, clock.now(), objects.collect());
    input.secrets = secret_uses(&rendered.values)?;
    Ok(set.evaluate(&input))
}

/// Signatures, verifications and times are asked for where a unit is deployed.
pub(super) fn is_for_bundles(code: PolicyCode) -> bool {
    !matches!(
        code,
        PolicyCode::NotAUnit
            | PolicyCode::NotSigned
            | PolicyCode::NotVerified
            | PolicyCode::TooOld
            | PolicyCode::OutsideWindow
            | PolicyCode::UnknownTarget
    )
}

pub(super) fn results_of(report: Option<&PolicyReport>, name: &str) -> Value {
    let results = report.map(|report| report.results.as_slice()).unwrap_or_default();
    let own: Vec<_> = results.iter().filter(|result| result.policy == name).collect();
    serde_json::to_value(own).unwrap_or_default()
}
