//! What the translator makes of a bundle, before anything is created.

use jiff::Timestamp;
use serde::Serialize;

use crate::bundle::decide_skips;
use crate::gate::GateEvaluator;
use crate::kinds::{Bundle, GateScope};
use crate::translate::{BuildError, TranslationInput, applying, translate};
use crate::view::PipelineSurvey;

/// The Graph a bundle would get.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BundlePreview {
    pub bundle: String,
    pub version: String,
    pub environments: Vec<PreviewedEnvironment>,
    pub nodes: usize,
    /// Skips that policy denies, in words.
    pub denied_skips: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PreviewedEnvironment {
    pub name: String,
    pub after: Vec<String>,
    pub gates: Vec<PreviewedGate>,
    pub steps: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PreviewedGate {
    pub name: String,
    pub scope: GateScope,
}

/// Runs the translator on a bundle that need not exist.
pub fn preview_bundle(
    survey: &PipelineSurvey,
    bundle: &Bundle,
    now: Timestamp,
) -> Result<BundlePreview, BuildError> {
    let input = TranslationInput {
        pipeline: &survey.pipeline,
        bundle,
        gates: &survey.templates,
        templates: &survey.step_templates,
        policy_namespaces: &survey.policy_namespaces,
        group: slipway_kro::ApiGroup::default(),
    };
    let skips = decide_skips(
        &GateEvaluator::new(),
        &survey.pipeline,
        bundle,
        &survey.templates,
        &survey.policy_namespaces,
        now,
    );
    let denied = skips.iter().filter(|skip| !skip.is_allowed()).map(crate::gate::SkipDecision::message);
    let plan = translate(&input)?;
    let steps_of = |node: &str| {
        let found = plan.spec.nodes.iter().find(|one| one.id == node).and_then(|one| one.template.clone());
        let steps = found.unwrap_or_default()["spec"]["steps"].as_array().cloned().unwrap_or_default();
        steps.iter().filter_map(|step| step["uses"].as_str().map(str::to_owned)).collect()
    };
    let environments = plan.environments.iter().map(|environment| {
        let gates = applying(
            &survey.templates,
            &environment.name,
            &survey.pipeline.metadata.labels,
            &survey.policy_namespaces,
        );
        let gates =
            gates.iter().map(|(scope, gate)| PreviewedGate { name: gate.name().to_owned(), scope: *scope });
        PreviewedEnvironment {
            name: environment.name.clone(),
            after: environment.upstreams.clone(),
            gates: gates.collect(),
            steps: steps_of(&environment.node),
        }
    });
    Ok(BundlePreview {
        bundle: bundle.name().to_owned(),
        version: bundle.spec.version(),
        environments: environments.collect(),
        nodes: plan.spec.nodes.len(),
        denied_skips: denied.collect(),
    })
}
