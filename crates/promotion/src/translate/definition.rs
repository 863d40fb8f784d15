//! The definition of a step: what a Graph was made with, so that a step somebody made or edited is told from it.
//!
//! Gates bind environments by name. A step that names one environment and writes the files of another would pass by the gates
//! of the second, so only steps are carried out that the pipeline defines.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::kinds::labels::{self, label_value, short_hash};
use crate::kinds::{Bundle, PromotionStep, PromotionStepSpec, StepDefinition};

/// The digits of a hash.
const DIGITS: usize = 32;

/// Why a step is none of its bundle's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum DefinitionProblem {
    #[error("the bundle was not admitted into this environment")]
    NotPlanned,
    #[error(
        "repository, branch, directory, files or shard are not those the pipeline has for this environment"
    )]
    Placement,
    #[error("the spec is not the one the pipeline has for this environment")]
    Spec,
}

/// The key of a step in the status of its bundle.
pub fn definition_key(environment: &str, region: Option<&str>) -> String {
    match region {
        Some(region) => format!("{environment}/{region}"),
        None => environment.to_owned(),
    }
}

/// Hashes the spec of a step. The states of upstreams do not count: they are filled in when the step is created.
pub fn define_step(spec: &PromotionStepSpec) -> StepDefinition {
    let whole = PromotionStepSpec { upstream_verified: None, upstream_states: Vec::new(), ..spec.clone() };
    StepDefinition { placement: define_placement(spec), whole: Some(hash(&whole)) }
}

/// Hashes where a step writes.
pub(super) fn define_placement(spec: &PromotionStepSpec) -> String {
    hash(&PromotionStepSpec {
        pipeline: spec.pipeline.clone(),
        environment: spec.environment.clone(),
        region: spec.region.clone(),
        bundle_ref: spec.bundle_ref.clone(),
        path: spec.path.clone(),
        layout: spec.layout,
        render_manifests: spec.render_manifests,
        git: spec.git.clone(),
        update: spec.update.clone(),
        shard: spec.shard.clone(),
        ..PromotionStepSpec::default()
    })
}

fn hash(spec: &PromotionStepSpec) -> String {
    let mut value = serde_json::to_value(spec).unwrap_or_default();
    drop_nulls(&mut value);
    short_hash(&value.to_string(), DIGITS)
}

/// Servers differ in whether they keep them.
fn drop_nulls(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        Value::Object(map) => {
            map.retain(|_, value| !value.is_null());
            map.values_mut().for_each(drop_nulls);
        }
        _ => {}
    }
}

/// Compares a step with the definition its bundle was admitted with.
pub fn check_definition(bundle: &Bundle, step: &PromotionStep) -> Result<(), DefinitionProblem> {
    let spec = &step.spec;
    let key = definition_key(&spec.environment, spec.region.as_deref());
    let known = bundle.status.step_definitions.get(&key).ok_or(DefinitionProblem::NotPlanned)?;
    let found = define_step(spec);
    // The label decides which process carries a step out.
    let shard = step.metadata.label(labels::SHARD).unwrap_or_default();
    if known.placement != found.placement || shard != label_value(spec.shard.as_deref().unwrap_or_default()) {
        return Err(DefinitionProblem::Placement);
    }
    match &known.whole {
        Some(whole) if Some(whole) != found.whole.as_ref() => Err(DefinitionProblem::Spec),
        _ => Ok(()),
    }
}

/// The definitions of one environment: of its step, or of that of each region.
pub(super) fn define_environment(
    specs: impl IntoIterator<Item = PromotionStepSpec>,
    define: impl Fn(&PromotionStepSpec) -> StepDefinition,
) -> BTreeMap<String, StepDefinition> {
    let keyed =
        |spec: PromotionStepSpec| (definition_key(&spec.environment, spec.region.as_deref()), define(&spec));
    specs.into_iter().map(keyed).collect()
}
