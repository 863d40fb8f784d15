//! Translates a Pipeline, its gates and a Bundle into a Graph; without a cluster and without a clock.
//!
//! Environments are put in order (`order`), narrowed to what the Bundle is meant for (`select`), given their gates (`gates`)
//! and named (`names`); then every gate and step becomes a node (`nodes`).

mod authored;
mod contract;
mod definition;
mod error;
mod gates;
mod group;
mod names;
mod nodes;
mod order;
mod select;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use slipway_kro::{ApiGroup, GraphSpec};

pub use authored::adopt_graph;
pub use contract::{contract_expression, contract_gates};
pub use definition::{DefinitionProblem, check_definition, define_step, definition_key};
pub use error::BuildError;
pub use gates::{applied_environments, gate_applies, trusted_scope};
pub(crate) use gates::{applying, org_gates};
pub use group::{GroupInput, GroupProblem, orphan_gates};
pub(crate) use order::EnvironmentOrder;
pub use order::OrderProblem;
pub use select::Selection;

use crate::kinds::{
    Bundle, EnvironmentSpec, KindSpec, Pipeline, PipelineSpec, PolicyGate, PromotionTemplate, StepDefinition,
    labels,
};
use crate::step::{SequenceInputs, default_sequence};
use names::NodeIds;
use nodes::NodeContext;

/// The most nodes and bytes a Graph may have.
const MOST_NODES: usize = 1000;
const MOST_BYTES: usize = 1 << 20;

/// Everything a Graph is made from.
#[derive(Clone, Copy, Debug)]
pub struct TranslationInput<'a> {
    pub pipeline: &'a Pipeline,
    pub bundle: &'a Bundle,
    /// Gate templates of every namespace that is looked at.
    pub gates: &'a [PolicyGate],
    /// Step templates the pipeline refers to.
    pub templates: &'a [PromotionTemplate],
    /// Namespaces whose gates may have the scope `org`.
    pub policy_namespaces: &'a BTreeSet<String>,
    /// The group the Graph is served under.
    pub group: ApiGroup,
}

/// A Graph to create, and the gates that stand beside it.
#[derive(Clone, Debug, PartialEq)]
pub struct GraphPlan {
    pub name: String,
    pub spec: GraphSpec,
    /// The environments, in order.
    pub environments: Vec<PlannedEnvironment>,
    /// Instances of org gates: created where a namespace's admins cannot edit them, only read by the Graph.
    pub org_gates: Vec<PolicyGate>,
    /// The steps of the Graph, by `<environment>` or `<environment>/<region>`; others are not carried out.
    pub definitions: BTreeMap<String, StepDefinition>,
    /// A hash of the pipeline's spec.
    pub spec_hash: String,
}

/// One environment of a Graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedEnvironment {
    pub name: String,
    pub node: String,
    pub upstreams: Vec<String>,
    /// The nodes of its gates.
    pub gates: Vec<String>,
}

/// Makes the Graph of a Bundle. The skips of its intent must have been allowed before.
pub fn translate(input: &TranslationInput<'_>) -> Result<GraphPlan, BuildError> {
    let spec = &input.pipeline.spec;
    let order = EnvironmentOrder::of(spec).map_err(BuildError::from_order)?;
    let selection = Selection::of(&order, &input.bundle.spec.intent())?;
    let name = graph_name(input.bundle);
    let pipeline_labels = &input.pipeline.metadata.labels;
    let mut ids = NodeIds::new();
    let node_of: BTreeMap<&str, String> = selection
        .environments()
        .map(|environment| (environment.name.as_str(), ids.environment(&environment.name)))
        .collect();
    let mut context = NodeContext::new(input, &name, &node_of);
    let mut spec_nodes = vec![context.bundle_node()];
    let mut planned = Vec::new();
    let mut org_gates = Vec::new();
    let mut definitions = BTreeMap::new();
    for (environment, upstreams) in selection.iter() {
        let (mut gate_entries, mut gate_names) = (Vec::new(), Vec::new());
        let mut gate_nodes = Vec::new();
        for (scope, gate) in
            applying(input.gates, &environment.name, pipeline_labels, input.policy_namespaces)
        {
            let id = ids.gate(gate.name(), gate.namespace(), &environment.name);
            let made = context.gate_node(&id, scope, gate, environment, &upstreams);
            spec_nodes.push(made.node);
            org_gates.extend(made.org_gate);
            gate_entries.push(made.entry);
            gate_names.push(made.name);
            gate_nodes.push(id);
        }
        let steps = resolve_steps(environment, input)?;
        let specs = context.resolved_steps(environment, &upstreams, &steps, gate_names);
        definitions.extend(definition::define_environment(specs, define_step));
        spec_nodes.push(context.step_node(environment, &upstreams, steps, gate_entries));
        planned.push(PlannedEnvironment {
            name: environment.name.clone(),
            node: node_of.get(environment.name.as_str()).cloned().unwrap_or_default(),
            upstreams: upstreams.iter().map(|upstream| upstream.name.clone()).collect(),
            gates: gate_nodes,
        });
    }
    let graph = GraphSpec { nodes: spec_nodes };
    let bytes = serde_json::to_string(&graph).map_or(usize::MAX, |text| text.len());
    if graph.nodes.len() > MOST_NODES || bytes > MOST_BYTES {
        return Err(BuildError::GraphTooLarge { nodes: graph.nodes.len(), bytes });
    }
    let spec_hash = spec_hash(spec);
    Ok(GraphPlan { name, spec: graph, environments: planned, org_gates, definitions, spec_hash })
}

impl GraphPlan {
    /// The Graph as it is created for a Bundle.
    pub fn manifest(&self, input: &TranslationInput<'_>) -> Value {
        let (pipeline, bundle) = (input.pipeline, input.bundle);
        let mut annotations = json!({
            labels::PIPELINE_GENERATION: pipeline.metadata.generation.to_string(),
            labels::SPEC_HASH: self.spec_hash,
            labels::BUILDER_VERSION: env!("CARGO_PKG_VERSION"),
        });
        if labels::label_value(bundle.name()) != bundle.name() {
            annotations[labels::BUNDLE] = bundle.name().into();
        }
        json!({
            "apiVersion": input.group.graph().api_version(),
            "kind": "Graph",
            "metadata": {
                "name": self.name,
                "namespace": bundle.namespace(),
                "labels": {
                    labels::PIPELINE: labels::label_value(pipeline.name()),
                    labels::BUNDLE: labels::label_value(bundle.name()),
                    labels::ENGINE: labels::ENGINE_EMBEDDED,
                },
                "annotations": annotations,
                "ownerReferences": [bundle.owner_reference()],
            },
            "spec": self.spec,
        })
    }
}

/// The name of a Bundle's Graph; kept in its status, never computed again.
pub fn graph_name(bundle: &Bundle) -> String {
    labels::bounded_name(bundle.name(), &bundle.metadata.uid)
}

/// A hash of what a Graph takes from a pipeline; pausing does not change it.
pub fn spec_hash(spec: &PipelineSpec) -> String {
    let spec = PipelineSpec { paused: false, ..spec.clone() };
    let text = serde_json::to_string(&spec).unwrap_or_default();
    labels::short_hash(&text, 16)
}

/// The steps of an environment: its own, those of its template, or the usual ones.
fn resolve_steps(
    environment: &EnvironmentSpec,
    input: &TranslationInput<'_>,
) -> Result<Vec<crate::kinds::StepSpec>, BuildError> {
    if !environment.steps.is_empty() {
        return Ok(environment.steps.clone());
    }
    let Some(reference) = &environment.promotion_template else { return Ok(usual_steps(environment, input)) };
    let namespace = reference.namespace.as_deref().unwrap_or(input.pipeline.namespace());
    let name = reference.name.as_deref().unwrap_or_default();
    let found = input.templates.iter().find(|known| known.name() == name && known.namespace() == namespace);
    found.map(|template| template.spec.steps.clone()).ok_or_else(|| BuildError::UnknownTemplate {
        environment: environment.name.clone(),
        template: crate::kinds::PromotionTemplateSpec::at(namespace, name),
    })
}

fn usual_steps(environment: &EnvironmentSpec, input: &TranslationInput<'_>) -> Vec<crate::kinds::StepSpec> {
    default_sequence(SequenceInputs {
        bundle: input.bundle.spec.kind,
        strategy: environment.update.as_ref().map(|update| update.strategy).unwrap_or_default(),
        approval: environment.approval,
        opens_pull_request: environment.pr,
        layout: environment.layout.unwrap_or(input.pipeline.spec.git.layout),
        renders_manifests: environment.render_manifests,
    })
}
