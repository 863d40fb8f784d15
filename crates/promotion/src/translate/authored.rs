//! Graphs somebody wrote: made fit for one Bundle, with the gates of the org put back in.

use serde_json::{Value, json};
use slipway_kro::{GraphSpec, NodeSpec, check_spec};

use super::definition::{define_environment, define_placement};
use super::names::{BUNDLE_NODE, NodeIds};
use super::nodes::NodeContext;
use super::{BuildError, GraphPlan, PlannedEnvironment, TranslationInput, gates, graph_name, spec_hash};
use crate::kinds::labels::{self, bounded_name, label_value};
use crate::kinds::{
    EnvironmentSpec, GateScope, GitSpec, KindSpec, PolicyGateSpec, PromotionStepSpec, StepDefinition,
    UpdateSpec,
};

/// Makes the Graph of a Bundle from one that was written by hand.
///
/// Steps must belong to environments of the pipeline, and write where the pipeline says. Whatever gates of the org apply to them is put back in; gates of the
/// team are as the author wants them.
pub fn adopt_graph(input: &TranslationInput<'_>, authored: &GraphSpec) -> Result<GraphPlan, BuildError> {
    let name = graph_name(input.bundle);
    let no_nodes = std::collections::BTreeMap::new();
    let mut context = NodeContext::new(input, &name, &no_nodes);
    let problems = find_problems(&context, input, authored);
    if !problems.is_empty() {
        return Err(BuildError::InvalidGraphTemplate { problems });
    }
    let mut ids = NodeIds::new();
    let mut nodes: Vec<NodeSpec> = Vec::new();
    let mut planned = Vec::new();
    let mut org_gates = Vec::new();
    let mut definitions = std::collections::BTreeMap::new();
    for node in &authored.nodes {
        ids.reserve(&node.id);
    }
    if !authored.nodes.iter().any(|node| node.id == BUNDLE_NODE) {
        nodes.push(context.bundle_node());
    }
    for node in &authored.nodes {
        let mut node = node.clone();
        if node.id == BUNDLE_NODE {
            nodes.push(context.bundle_node());
            continue;
        }
        let Some(environment) = step_environment(&node, input) else {
            own_gate(&mut node, input, &name);
            nodes.push(node);
            continue;
        };
        let upstreams = upstream_names(&node);
        let mut entries = Vec::new();
        let mut gate_nodes = Vec::new();
        let labels = &input.pipeline.metadata.labels;
        for (scope, gate) in gates::applying(input.gates, &environment.name, labels, input.policy_namespaces)
        {
            if scope != GateScope::Org {
                continue;
            }
            let id = ids.gate(gate.name(), gate.namespace(), &environment.name);
            let mut made = context.gate_node(&id, scope, gate, environment, &[]);
            if let Some(instance) = &mut made.org_gate {
                instance.spec.upstream_names.clone_from(&upstreams);
            }
            nodes.push(made.node);
            org_gates.extend(made.org_gate);
            entries.push(made.entry);
            gate_nodes.push(id);
        }
        own_step(&mut node, input, &name, environment, entries);
        place_step(&mut node, &context.step_template(environment));
        let specs = context.resolved_steps(environment, &[], &[], Vec::new());
        definitions.extend(define_environment(specs, |spec| StepDefinition {
            placement: define_placement(spec),
            whole: None,
        }));
        planned.push(PlannedEnvironment {
            name: environment.name.clone(),
            node: node.id.clone(),
            upstreams,
            gates: gate_nodes,
        });
        nodes.push(node);
    }
    let spec = GraphSpec { nodes };
    if let Err(error) = check_spec(&spec) {
        let problems = error.0.iter().map(ToString::to_string).collect();
        return Err(BuildError::InvalidGraphTemplate { problems });
    }
    let spec_hash = spec_hash(&input.pipeline.spec);
    Ok(GraphPlan { name, spec, environments: planned, org_gates, definitions, spec_hash })
}

fn is_kind<S: KindSpec>(body: &Value) -> bool {
    body["kind"] == S::KIND && body["apiVersion"] == S::gvk().api_version().as_str()
}

/// The environment of a node that makes a step.
fn step_environment<'a>(node: &NodeSpec, input: &TranslationInput<'a>) -> Option<&'a EnvironmentSpec> {
    let body = node.template.as_ref().filter(|body| is_kind::<PromotionStepSpec>(body))?;
    let name = body["spec"]["environment"].as_str()?;
    input.pipeline.spec.environments.iter().find(|environment| environment.name == name)
}

fn upstream_names(node: &NodeSpec) -> Vec<String> {
    let body = node.template.as_ref().map(|body| &body["spec"]["upstreamEnvironments"]);
    let names = body.and_then(Value::as_array).into_iter().flatten();
    names.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Everything that keeps a written Graph from being used.
fn find_problems(
    context: &NodeContext<'_>,
    input: &TranslationInput<'_>,
    authored: &GraphSpec,
) -> Vec<String> {
    let mut problems = Vec::new();
    let mut steps = 0;
    for node in &authored.nodes {
        let id = &node.id;
        let bodies = [&node.template, &node.patch];
        let Some(body) = bodies.into_iter().flatten().next() else { continue };
        if !is_kind::<PromotionStepSpec>(body) && !is_kind::<PolicyGateSpec>(body) {
            continue;
        }
        problems.extend(misshapen(body).map(|field| format!("node `{id}`: `{field}` is not an object")));
        if is_kind::<PolicyGateSpec>(body) {
            if body["metadata"]["labels"][labels::SCOPE] == "org" {
                problems.push(format!("node `{id}`: gates of the org cannot be written, they are put in"));
            }
            continue;
        }
        steps += 1;
        if body["metadata"]["labels"][labels::PIPELINE] != label_value(input.pipeline.name()).as_str() {
            problems.push(format!("node `{id}`: the label `{}` must name the pipeline", labels::PIPELINE));
        }
        match step_environment(node, input) {
            Some(environment) => {
                let wanted = context.step_template(environment);
                problems.extend(
                    misplaced(&body["spec"], &wanted)
                        .map(|field| format!("node `{id}`: `spec.{field}` is not what the pipeline says")),
                );
            }
            None => problems
                .push(format!("node `{id}`: `spec.environment` must name an environment of the pipeline")),
        }
    }
    if steps == 0 {
        problems.push("no node makes a PromotionStep".to_owned());
    }
    problems
}

/// The fields something is put into that cannot hold it.
fn misshapen(body: &Value) -> impl Iterator<Item = &'static str> {
    let fields = [
        ("metadata", &body["metadata"]),
        ("metadata.labels", &body["metadata"]["labels"]),
        ("spec", &body["spec"]),
    ];
    fields.into_iter().filter(|(_, value)| !value.is_null() && !value.is_object()).map(|(field, _)| field)
}

/// The fields that say where a step writes.
const PLACEMENT: [&str; 6] = ["path", "layout", "renderManifests", "git", "update", "shard"];

/// The fields of a written step that place it elsewhere than the pipeline does. What it leaves out is put in.
fn misplaced<'v>(own: &'v Value, wanted: &'v Value) -> impl Iterator<Item = &'static str> + 'v {
    fn same<T: serde::de::DeserializeOwned + PartialEq>(one: &Value, other: &Value) -> bool {
        let read = |value: &Value| serde_json::from_value::<T>(value.clone()).ok();
        read(one).zip(read(other)).is_some_and(|(one, other)| one == other)
    }
    PLACEMENT.into_iter().filter(move |field| {
        let Some(own) = own.get(*field) else { return false };
        let wanted = &wanted[*field];
        match *field {
            "git" => !same::<GitSpec>(own, wanted),
            "update" => !same::<UpdateSpec>(own, wanted),
            _ => own != wanted,
        }
    })
}

/// Puts a step where the pipeline says.
fn place_step(node: &mut NodeSpec, wanted: &Value) {
    let Some(spec) = node.template.as_mut().and_then(|body| body["spec"].as_object_mut()) else { return };
    for field in PLACEMENT {
        match wanted.get(field) {
            Some(value) => drop(spec.insert(field.to_owned(), value.clone())),
            None => drop(spec.remove(field)),
        }
    }
}

/// Gives a step the name and labels of its Bundle, and the gates of the org.
fn own_step(
    node: &mut NodeSpec,
    input: &TranslationInput<'_>,
    graph: &str,
    environment: &EnvironmentSpec,
    entries: Vec<String>,
) {
    let Some(body) = &mut node.template else { return };
    let name = format!("{graph}-{}", environment.name);
    let is_repeated = body["metadata"]["name"].as_str().is_some_and(|name| name.contains("${"));
    let suffix = if is_repeated && node.for_each.is_some() { "-${region}" } else { "" };
    body["metadata"]["name"] = format!("{}{suffix}", bounded_name(&name, &name)).into();
    body["metadata"]["namespace"] = input.bundle.namespace().into();
    body["metadata"]["labels"][labels::BUNDLE] = label_value(input.bundle.name()).into();
    body["metadata"]["labels"][labels::ENVIRONMENT] = environment.name.as_str().into();
    body["spec"]["bundleRef"] = format!("${{{BUNDLE_NODE}.metadata.name}}").into();
    body["spec"]["pipeline"] = input.pipeline.name().into();
    if !entries.is_empty() {
        match &mut body["spec"]["requiredGates"] {
            Value::Array(known) => known.extend(entries.into_iter().map(Value::from)),
            absent => *absent = json!(entries),
        }
    }
}

/// Gives a gate the author wrote a name of its own for each Bundle.
fn own_gate(node: &mut NodeSpec, input: &TranslationInput<'_>, graph: &str) {
    let id = node.id.to_lowercase();
    let Some(body) = node.template.as_mut().filter(|body| is_kind::<PolicyGateSpec>(body)) else { return };
    let name = format!("{graph}-{id}");
    body["metadata"]["name"] = bounded_name(&name, &name).into();
    body["metadata"]["namespace"] = input.bundle.namespace().into();
    body["metadata"]["labels"][labels::INSTANCE] = "true".into();
    body["metadata"]["labels"][labels::BUNDLE] = label_value(input.bundle.name()).into();
    body["metadata"]["labels"][labels::PIPELINE] = label_value(input.pipeline.name()).into();
    body["spec"]["bundleRef"] = format!("${{{BUNDLE_NODE}.metadata.name}}").into();
    body["spec"]["pipeline"] = input.pipeline.name().into();
}
