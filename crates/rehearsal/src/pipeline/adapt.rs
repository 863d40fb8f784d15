//! Makes a user's objects fit for a rehearsal, and says what is assumed.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;
use slipway_promotion::kinds::{
    EnvironmentSpec, GateOverride, GoDuration, HealthSpec, HealthType, KindSpec, MetricCheckSpec, Pipeline,
    PolicyGate, PolicyGateSpec, PromotionTemplate, ResourceHealth, StepSpec, labels,
};
use slipway_promotion::step::StepAction;

use super::{PipelineRehearsal, PromotionStage};

/// Time alone opens gates here, and the moment it does is computed: looking again and again tells nothing new.
const RECHECK: GoDuration = GoDuration(Duration::from_secs(12 * 3600));

/// Objects as the embedded cluster gets them.
pub(super) struct AdaptedObjects {
    pub(super) pipeline: Pipeline,
    pub(super) namespaces: BTreeSet<String>,
    pub(super) objects: Vec<Value>,
    pub(super) assumptions: Vec<String>,
}

pub(super) fn adapt(request: &PipelineRehearsal, stage: &PromotionStage) -> AdaptedObjects {
    let mut assumptions = vec![usual_assumption(request)];
    let mut pipeline = request.pipeline.clone();
    if pipeline.metadata.namespace.is_empty() {
        pipeline.metadata.namespace = "default".to_owned();
    }
    pipeline.metadata.resource_version.clear();
    pipeline.metadata.uid.clear();
    pipeline.spec.git = stage.git(&pipeline.spec.git);
    let name = pipeline.name().to_owned();
    for environment in &mut pipeline.spec.environments {
        adapt_environment(environment, &name, &mut assumptions);
    }
    let mut namespaces: BTreeSet<String> = request.policy_namespaces.clone();
    namespaces.insert(pipeline.namespace().to_owned());
    namespaces.extend(pipeline.spec.environments.iter().map(|environment| environment.name.clone()));
    let mut objects = Vec::new();
    for gate in &request.files.gates {
        let gate = adapt_gate(gate, &pipeline, request, &mut assumptions);
        namespaces.insert(gate.metadata.namespace.clone());
        objects.extend(gate.manifest());
    }
    for template in &request.files.templates {
        let template = adapt_template(template, pipeline.namespace(), &mut assumptions);
        namespaces.insert(template.metadata.namespace.clone());
        objects.extend(template.manifest());
    }
    objects.extend(request.files.windows.iter().filter_map(|window| window.manifest().ok()));
    let has_metrics = request.files.objects.iter().any(|object| object["kind"] == MetricCheckSpec::KIND);
    if has_metrics {
        assumptions.push(
            "metric checks are not asked; gates on metrics stay closed unless --pass-gate opens them"
                .to_owned(),
        );
    }
    AdaptedObjects { pipeline, namespaces, objects, assumptions }
}

fn usual_assumption(request: &PipelineRehearsal) -> String {
    let approvals = &request.approvals;
    let words = |time: Duration| match time.is_zero() {
        true => "at once".to_owned(),
        false => format!("after {}", GoDuration(time)),
    };
    let mut text = format!("pull requests are approved {}", words(approvals.usual));
    for (environment, time) in &approvals.by_environment {
        text.push_str(&format!(", in {environment} {}", words(*time)));
    }
    text + "; the GitOps tool syncs a minute after a merge"
}

fn adapt_environment(environment: &mut EnvironmentSpec, pipeline: &str, assumptions: &mut Vec<String>) {
    let name = environment.name.clone();
    let own = environment.health.take().unwrap_or_default();
    if own.adapter != Some(HealthType::None) {
        let resource = ResourceHealth {
            name: Some(pipeline.to_owned()),
            namespace: Some(name.clone()),
            ..ResourceHealth::default()
        };
        environment.health = Some(HealthSpec {
            adapter: Some(HealthType::Resource),
            timeout: own.timeout,
            resource: Some(resource),
            ..HealthSpec::default()
        });
    } else {
        environment.health = Some(own);
    }
    if environment.delivery.take().is_some() {
        assumptions.push(format!("{name}: progressive delivery takes no time"));
    }
    if let Some(shard) = environment.shard.take() {
        assumptions.push(format!("{name}: the agent of shard {shard} is online"));
    }
    keep_steps(&mut environment.steps, &name, assumptions);
}

/// Leaves out steps that reach beyond this machine.
fn keep_steps(steps: &mut Vec<StepSpec>, place: &str, assumptions: &mut Vec<String>) {
    steps.retain(|step| {
        let is_local = match StepAction::parse(&step.uses) {
            None
            | Some(StepAction::IntegrationTest | StepAction::VerifyImage | StepAction::ArgoCdSetImage) => {
                false
            }
            Some(_) => true,
        };
        if !is_local {
            assumptions.push(format!("{place}: the step `{}` succeeds", step.uses));
        }
        is_local
    });
}

fn adapt_gate(
    gate: &PolicyGate,
    pipeline: &Pipeline,
    request: &PipelineRehearsal,
    assumptions: &mut Vec<String>,
) -> PolicyGate {
    let mut adapted = PolicyGate::new(gate.metadata.clone(), gate.spec.clone());
    let is_org = gate.metadata.label(labels::SCOPE) == Some("org");
    if adapted.metadata.namespace.is_empty() {
        let policy = request.policy_namespaces.first().filter(|_| is_org);
        adapted.metadata.namespace = policy.cloned().unwrap_or_else(|| pipeline.namespace().to_owned());
    }
    adapted.metadata.resource_version.clear();
    adapted.metadata.uid.clear();
    let spec: &mut PolicyGateSpec = &mut adapted.spec;
    spec.recheck_interval = RECHECK;
    let name = &adapted.metadata.name;
    if let Some(external) = &mut spec.external {
        // Nobody outside is asked.
        external.url.clear();
        external.mode = slipway_promotion::kinds::ExternalMode::Push;
        assumptions.push(format!("nobody answers the external gate {name}"));
    }
    if request.passed_gates.contains(name) {
        assumptions.push(format!("gate {name} is open, as --pass-gate says"));
        spec.overridable = true;
        spec.overrides.push(GateOverride {
            reason: "passed for the rehearsal".to_owned(),
            created_at: Some(request.start),
            created_by: Some("rehearsal".to_owned()),
            ..GateOverride::default()
        });
    }
    adapted
}

fn adapt_template(
    template: &PromotionTemplate,
    namespace: &str,
    assumptions: &mut Vec<String>,
) -> PromotionTemplate {
    let mut adapted = PromotionTemplate::new(template.metadata.clone(), template.spec.clone());
    if adapted.metadata.namespace.is_empty() {
        adapted.metadata.namespace = namespace.to_owned();
    }
    adapted.metadata.resource_version.clear();
    adapted.metadata.uid.clear();
    keep_steps(&mut adapted.spec.steps, template.name(), assumptions);
    adapted
}
