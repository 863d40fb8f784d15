//! The nodes of a Graph: the Bundle, gates and steps.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use slipway_kro::NodeSpec;
use slipway_kro::api::ForEach;

use super::TranslationInput;
use super::names::BUNDLE_NODE;
use crate::kinds::labels::{self, bounded_name, label_value, short_hash};
use crate::kinds::{
    BundleSpec, DeploymentLayout, EnvironmentSpec, GateScope, GateTiming, GoDuration, HealthFailurePolicy,
    HealthSpec, KindSpec, Metadata, PolicyGate, PolicyGateSpec, PromotionStepSpec, Resource, RollbackMode,
    StepSpec, TemplateRef,
};

/// The time health has where a pipeline does not say.
const HEALTH_TIMEOUT: GoDuration = GoDuration::from_mins(10);

/// Everything the nodes of one Graph share.
pub(super) struct NodeContext<'a> {
    input: &'a TranslationInput<'a>,
    graph: &'a str,
    node_of: &'a BTreeMap<&'a str, String>,
}

/// A gate: its node, its entry of `requiredGates`, and its object where the Graph does not make it.
pub(super) struct GateNode {
    pub(super) node: NodeSpec,
    pub(super) entry: String,
    /// The entry once the Graph has been evaluated.
    pub(super) name: String,
    pub(super) org_gate: Option<PolicyGate>,
}

impl<'a> NodeContext<'a> {
    pub(super) fn new(
        input: &'a TranslationInput<'a>,
        graph: &'a str,
        node_of: &'a BTreeMap<&'a str, String>,
    ) -> Self {
        Self { input, graph, node_of }
    }

    /// Reads the Bundle into scope; the Graph must never own it.
    pub(super) fn bundle_node(&self) -> NodeSpec {
        let bundle = self.input.bundle;
        let body = json!({
            "apiVersion": BundleSpec::gvk().api_version(),
            "kind": BundleSpec::KIND,
            "metadata": {"name": bundle.name(), "namespace": bundle.namespace()},
        });
        NodeSpec { id: BUNDLE_NODE.to_owned(), reference: Some(body), ..NodeSpec::default() }
    }

    fn node(&self, environment: &EnvironmentSpec) -> &str {
        self.node_of.get(environment.name.as_str()).map_or("", String::as_str)
    }

    pub(super) fn gate_node(
        &mut self,
        id: &str,
        scope: GateScope,
        gate: &PolicyGate,
        environment: &EnvironmentSpec,
        upstreams: &[&EnvironmentSpec],
    ) -> GateNode {
        let instance = self.gate_instance(scope, gate, environment, upstreams);
        let mut node = NodeSpec {
            id: id.to_owned(),
            ready_when: vec![format!("${{{id}.status.ready == true}}")],
            ..NodeSpec::default()
        };
        if gate.spec.when == GateTiming::PrePromotion {
            let fresh = GoDuration(gate.spec.recheck_interval.0 * 2);
            node.propagate_when = vec![
                format!("${{{id}.status.ready == true}}"),
                format!("${{timestamp({id}.status.lastEvaluatedAt) > now() - duration(\"{fresh}\")}}"),
            ];
        }
        if scope == GateScope::Org {
            node.depends_on = std::iter::once(BUNDLE_NODE)
                .chain(upstreams.iter().map(|upstream| self.node(upstream)))
                .map(str::to_owned)
                .collect();
            let reference = instance.reference();
            node.reference = Some(json!({
                "apiVersion": PolicyGateSpec::gvk().api_version(),
                "kind": PolicyGateSpec::KIND,
                "metadata": {"name": reference.name, "namespace": reference.namespace},
            }));
            let entry = format!("${{{id}.metadata.namespace + \"/\" + {id}.metadata.name}}");
            let name = format!("{}/{}", instance.namespace(), instance.name());
            return GateNode { node, entry, name, org_gate: Some(instance) };
        }
        let mut body = object_body(&instance);
        let spec = &mut body["spec"];
        spec["bundleRef"] = format!("${{{BUNDLE_NODE}.metadata.name}}").into();
        match upstreams {
            [] => {}
            [one] if one.regions.len() < 2 => {
                spec["upstreamEnvironment"] = format!("${{{}.status.state}}", self.node(one)).into();
            }
            several => spec["upstreamEnvironments"] = self.upstream_states(several),
        }
        node.template = Some(body);
        let name = instance.name().to_owned();
        GateNode { node, entry: format!("${{{id}.metadata.name}}"), name, org_gate: None }
    }

    /// A gate of this Bundle, without the states of its upstreams.
    fn gate_instance(
        &self,
        scope: GateScope,
        gate: &PolicyGate,
        environment: &EnvironmentSpec,
        upstreams: &[&EnvironmentSpec],
    ) -> PolicyGate {
        let (pipeline, bundle) = (self.input.pipeline, self.input.bundle);
        let namespace = if scope == GateScope::Org { gate.namespace() } else { bundle.namespace() };
        let places = format!("{}/{}", bundle.namespace(), gate.namespace());
        let name = format!("{}-{}-{}-{}", self.graph, environment.name, gate.name(), short_hash(&places, 6));
        let mut metadata = Metadata::named(namespace, bounded_name(&name, &format!("{places}/{name}")));
        let scope_word = match scope {
            GateScope::Org => "org",
            GateScope::Team => "team",
            GateScope::System => "system",
            GateScope::Contract => "contract",
            GateScope::Group => "group",
        };
        metadata.labels = self.labels(environment);
        metadata.labels.extend([
            (labels::INSTANCE.to_owned(), "true".to_owned()),
            (labels::SCOPE.to_owned(), scope_word.to_owned()),
            (labels::GATE_NAME.to_owned(), label_value(gate.name())),
            (labels::GATE_NAMESPACE.to_owned(), label_value(gate.namespace())),
            (labels::GATE_TEMPLATE.to_owned(), label_value(&format!("{}.{}", gate.namespace(), gate.name()))),
        ]);
        let spec = PolicyGateSpec {
            applies_to: Vec::new(),
            selector: Map::new(),
            // Read from the template, where they are granted.
            overrides: Vec::new(),
            skip_permission: false,
            scope: Some(scope),
            pipeline: Some(pipeline.name().to_owned()),
            environment: Some(environment.name.clone()),
            bundle_ref: Some(bundle.name().to_owned()),
            bundle_namespace: (namespace != bundle.namespace()).then(|| bundle.namespace().to_owned()),
            upstream_names: upstreams.iter().map(|upstream| upstream.name.clone()).collect(),
            approval: Some(environment.approval),
            template_ref: Some(TemplateRef {
                namespace: gate.namespace().to_owned(),
                name: gate.name().to_owned(),
                uid: gate.metadata.uid.clone(),
                generation: gate.metadata.generation,
            }),
            ..gate.spec.clone()
        };
        Resource::new(metadata, spec)
    }

    pub(super) fn step_node(
        &mut self,
        environment: &EnvironmentSpec,
        upstreams: &[&EnvironmentSpec],
        steps: Vec<StepSpec>,
        required_gates: Vec<String>,
    ) -> NodeSpec {
        let id = self.node(environment).to_owned();
        let has_regions = environment.regions.len() > 1;
        let name = format!("{}-{}", self.graph, environment.name);
        let mut metadata = Metadata::named(self.input.bundle.namespace(), bounded_name(&name, &name));
        metadata.labels = self.labels(environment);
        if let Some(shard) = &environment.shard {
            metadata.labels.insert(labels::SHARD.to_owned(), label_value(shard));
        }
        let mut body = object_body(&Resource::new(metadata, self.step_spec(environment, upstreams, steps)));
        let spec = &mut body["spec"];
        spec["bundleRef"] = format!("${{{BUNDLE_NODE}.metadata.name}}").into();
        if !upstreams.is_empty() {
            spec["upstreamStates"] = self.upstream_states(upstreams);
        }
        if let [one] = upstreams
            && one.regions.len() < 2
        {
            spec["upstreamVerified"] = format!("${{{}.status.state}}", self.node(one)).into();
        }
        if !required_gates.is_empty() {
            spec["requiredGates"] = json!(required_gates);
        }
        let clause = vec![format!("${{{id}.status.state == \"Verified\"}}")];
        let mut node =
            NodeSpec { id, ready_when: clause.clone(), propagate_when: clause, ..NodeSpec::default() };
        if has_regions {
            spread_over_regions(&mut body, environment);
            let regions = serde_json::to_string(&environment.regions).unwrap_or_default();
            node.for_each =
                Some(ForEach::One(BTreeMap::from([("region".to_owned(), format!("${{{regions}}}"))])));
        }
        node.template = Some(body);
        node
    }

    /// The spec of an environment's step as the body of a node has it.
    pub(super) fn step_template(&self, environment: &EnvironmentSpec) -> Value {
        let mut body = serde_json::to_value(self.step_spec(environment, &[], Vec::new())).unwrap_or_default();
        escape_expressions(&mut body);
        if environment.regions.len() > 1 {
            place_in_region(&mut body, "${region}");
        }
        body
    }

    /// The specs the steps of an environment have once the Graph has been evaluated: one, or one for each region.
    pub(super) fn resolved_steps(
        &self,
        environment: &EnvironmentSpec,
        upstreams: &[&EnvironmentSpec],
        steps: &[StepSpec],
        required_gates: Vec<String>,
    ) -> Vec<PromotionStepSpec> {
        let mut spec = self.step_spec(environment, upstreams, steps.to_vec());
        spec.required_gates = required_gates;
        if environment.regions.len() < 2 {
            return vec![spec];
        }
        let of_region = |region: &String| {
            let mut body = serde_json::to_value(&spec).ok()?;
            place_in_region(&mut body, region);
            serde_json::from_value(body).ok()
        };
        environment.regions.iter().filter_map(of_region).collect()
    }

    /// The snapshot a step works from, so that it never reads the pipeline.
    fn step_spec(
        &self,
        environment: &EnvironmentSpec,
        upstreams: &[&EnvironmentSpec],
        steps: Vec<StepSpec>,
    ) -> PromotionStepSpec {
        let (pipeline, bundle) = (self.input.pipeline, self.input.bundle);
        let layout = environment.layout.unwrap_or(pipeline.spec.git.layout);
        let health = environment.health.clone().unwrap_or_default();
        let on_failure = match pipeline.spec.rollback.on_failure {
            RollbackMode::Pr => HealthFailurePolicy::Rollback,
            RollbackMode::None => HealthFailurePolicy::None,
        };
        PromotionStepSpec {
            pipeline: pipeline.name().to_owned(),
            environment: environment.name.clone(),
            region: None,
            bundle_ref: bundle.name().to_owned(),
            path: environment.path.clone().unwrap_or_else(|| format!("environments/{}", environment.name)),
            layout,
            render_manifests: environment.render_manifests || layout == DeploymentLayout::Branch,
            git: pipeline.spec.git.clone(),
            update: environment.update.clone().unwrap_or_default(),
            approval: environment.approval,
            pr: environment.pr,
            steps,
            health: HealthSpec { timeout: Some(health.timeout.unwrap_or(HEALTH_TIMEOUT)), ..health },
            delivery: environment.delivery.clone(),
            bake: environment.bake.clone(),
            on_health_failure: Some(environment.on_health_failure.unwrap_or(on_failure)),
            auto_rollback: environment.auto_rollback.clone(),
            wait_for_merge_timeout: environment.wait_for_merge_timeout,
            step_timeout_seconds: environment.step_timeout_seconds,
            shard: environment.shard.clone(),
            upstream_verified: None,
            upstream_states: Vec::new(),
            upstream_environments: upstreams.iter().map(|upstream| upstream.name.clone()).collect(),
            required_gates: Vec::new(),
            inputs: BTreeMap::new(),
        }
    }

    /// The states of upstreams: a list of expressions, or one expression where an upstream has regions.
    fn upstream_states(&self, upstreams: &[&EnvironmentSpec]) -> Value {
        if upstreams.iter().all(|upstream| upstream.regions.len() < 2) {
            return upstreams
                .iter()
                .map(|upstream| json!(format!("${{{}.status.state}}", self.node(upstream))))
                .collect();
        }
        let lists: Vec<String> = upstreams
            .iter()
            .map(|upstream| match (upstream.regions.len(), self.node(upstream)) {
                (0 | 1, node) => format!("[{node}.status.state]"),
                (_, node) => format!("{node}.map(s, s.status.state)"),
            })
            .collect();
        format!("${{{}}}", lists.join(" + ")).into()
    }

    fn labels(&self, environment: &EnvironmentSpec) -> BTreeMap<String, String> {
        let (pipeline, bundle) = (self.input.pipeline, self.input.bundle);
        let mut found = BTreeMap::from([
            (labels::PIPELINE.to_owned(), label_value(pipeline.name())),
            (labels::BUNDLE.to_owned(), label_value(bundle.name())),
            (labels::ENVIRONMENT.to_owned(), environment.name.clone()),
        ]);
        for key in [labels::ROLLBACK, labels::EMERGENCY] {
            if let Some(value) = bundle.metadata.label(key) {
                found.insert(key.to_owned(), value.to_owned());
            }
        }
        found
    }
}

/// An object as the body of a node: texts of users are not expressions.
fn object_body<S: KindSpec>(object: &Resource<S>) -> Value {
    // Specs are maps with texts as keys: they always have a JSON form.
    let mut body = object.manifest().unwrap_or_default();
    escape_expressions(&mut body);
    body
}

/// Puts a dollar sign before every `${` of a value, which the Graph takes away again.
fn escape_expressions(value: &mut Value) {
    match value {
        Value::String(text) if text.contains("${") => *text = text.replace("${", "$${"),
        Value::Array(items) => items.iter_mut().for_each(escape_expressions),
        Value::Object(map) => map.values_mut().for_each(escape_expressions),
        _ => {}
    }
}

/// Repeats a step for each region: its own name, label and directory.
fn spread_over_regions(body: &mut Value, environment: &EnvironmentSpec) {
    let name = body["metadata"]["name"].as_str().unwrap_or_default();
    let longest = environment.regions.iter().map(String::len).max().unwrap_or(0);
    let kept = bounded_name(name, name);
    let kept = if kept.len() + longest + 1 > 63 {
        format!("{}-{}", &kept[..kept.len().min(30)], short_hash(name, 8))
    } else {
        kept
    };
    body["metadata"]["name"] = format!("{}-${{region}}", kept.trim_end_matches('-')).into();
    body["metadata"]["labels"][labels::REGION] = "${region}".into();
    place_in_region(&mut body["spec"], "${region}");
}

/// Gives the spec of a step its region, and a directory and objects of its own.
fn place_in_region(spec: &mut Value, region: &str) {
    spec["region"] = region.into();
    let path = spec["path"].as_str().unwrap_or_default();
    spec["path"] = match path.contains("{region}") {
        true => path.replace("{region}", region),
        false => format!("{path}/{region}"),
    }
    .into();
    fill_region(&mut spec["health"], region);
}

fn fill_region(value: &mut Value, region: &str) {
    match value {
        Value::String(text) if text.contains("{region}") => *text = text.replace("{region}", region),
        Value::Array(items) => items.iter_mut().for_each(|item| fill_region(item, region)),
        Value::Object(map) => map.values_mut().for_each(|value| fill_region(value, region)),
        _ => {}
    }
}
