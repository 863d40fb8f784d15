//! The Graph of a pipeline as a text to edit.

use serde_json::{Value, json};

use crate::kinds::{Bundle, BundleSpec, GateScope, Metadata, PolicyGate, labels};
use crate::translate::{BuildError, TranslationInput, translate, trusted_scope};
use crate::view::PipelineSurvey;

/// Writes the Graph the translator makes for any bundle of a pipeline, as a ConfigMap that bundles refer to with the
/// annotation `kardinal.io/graph-template`. Gates of the org are left out: they are put back in for each bundle.
pub fn graph_template(survey: &PipelineSurvey) -> Result<Value, BuildError> {
    let pipeline = &survey.pipeline;
    let mut metadata = Metadata::named(pipeline.namespace(), pipeline.name());
    metadata.labels.insert(labels::PIPELINE.to_owned(), labels::label_value(pipeline.name()));
    let bundle = Bundle::new(metadata, BundleSpec::default());
    let is_own = |gate: &&PolicyGate| trusted_scope(gate, &survey.policy_namespaces) != GateScope::Org;
    let gates: Vec<PolicyGate> = survey.templates.iter().filter(is_own).cloned().collect();
    let input = TranslationInput {
        pipeline,
        bundle: &bundle,
        gates: &gates,
        templates: &survey.step_templates,
        policy_namespaces: &survey.policy_namespaces,
        group: slipway_kro::ApiGroup::default(),
    };
    let plan = translate(&input)?;
    let text = slipway_yaml::to_string(&plan.spec).unwrap_or_default();
    Ok(json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": format!("{}-graph", pipeline.name()), "namespace": pipeline.namespace()},
        "data": {"graph.yaml": text},
    }))
}
