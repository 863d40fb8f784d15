//! Reads the context of a gate from the cluster: only the parts its expression reads.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::{Map, Value};
use slipway_cluster::{Cluster, ListOptions};

use super::context::{
    BundleContext, ContextPart, ContractContext, DelegationContext, DriftContext, EnvironmentContext,
    GateContext, GroupContext, MetricContext, PipelineContext, PreviousBundle, PullRequestContext,
    UpstreamContext, WindowContext,
};
use super::evaluate::{GateEvaluator, expression_text};
use super::expression::GateExpression;
use super::external;
use super::schema::Variable;
use crate::bundle::compare_age;
use crate::kinds::{
    Bundle, BundleEnvironmentStatus, BundlePhase, BundleSpec, ChangeWindowSpec, DeliveryDelegate, GateTiming,
    KindError, MetricCheck, MetricCheckSpec, PipelineSpec, PolicyGate, PolicyGateSpec, PrStatusSpec,
    PromotionStep, StepState, get, labels, list,
};
use crate::metric;

/// The bundles that count for recent successes and failures.
const RECENT: usize = 10;

/// What is known of a gate before its context is read.
pub(crate) struct GateSubject<'a> {
    pub(crate) gate: &'a PolicyGate,
    pub(crate) bundle: &'a Bundle,
    pub(crate) pipeline: &'a str,
    pub(crate) environment: &'a str,
    /// The steps of the bundle.
    pub(crate) steps: &'a [PromotionStep],
}

/// The values a gate reads at this moment; none if it cannot be evaluated.
pub(crate) async fn current_values(
    cluster: &Cluster,
    evaluator: &GateEvaluator,
    gate: &PolicyGate,
    bundle: &Bundle,
    steps: &[PromotionStep],
    now: Timestamp,
) -> Option<Map<String, Value>> {
    let compiled = evaluator.compile(expression_text(&gate.spec));
    let expression = compiled.as_ref().as_ref().ok()?;
    let pipeline = gate.spec.pipeline.as_deref().or_else(|| bundle.pipeline())?;
    let environment = gate.spec.environment.as_deref()?;
    let subject = GateSubject { gate, bundle, pipeline, environment, steps };
    let context = gather(cluster, &subject, expression, now).await;
    let outcome = evaluator.evaluate_now(&gate.spec, &context);
    outcome.fault.is_none().then(|| outcome.value_map())
}

/// Reads what an expression reads. A part that cannot be read is noted, not an error.
pub(crate) async fn gather(
    cluster: &Cluster,
    subject: &GateSubject<'_>,
    expression: &GateExpression,
    now: Timestamp,
) -> GateContext {
    let mut context = base(subject, now);
    let mut unavailable = BTreeMap::new();
    let mut note = |part: ContextPart, error: &KindError| {
        unavailable.insert(part, describe(error));
    };
    let wants_bundles = expression.uses(Variable::Upstream)
        || expression.uses(Variable::PreviousBundle)
        || subject.gate.spec.external.is_some();
    if wants_bundles {
        match bundles_of(cluster, subject.bundle.namespace(), subject.pipeline).await {
            Ok(bundles) => {
                context.previous = previous(&bundles, subject);
                for (name, upstream) in &mut context.upstream {
                    add_history(upstream, name, &bundles);
                }
            }
            Err(error) => {
                note(ContextPart::Upstream, &error);
                note(ContextPart::PreviousBundle, &error);
            }
        }
    }
    if expression.reads(Variable::Bundle, "pr")
        && let Err(error) = add_approvals(cluster, subject, &mut context).await
    {
        note(ContextPart::PullRequests, &error);
    }
    let wants_pipeline = expression.reads(Variable::Pipeline, "labels")
        || expression.reads(Variable::Environment, "labels")
        || expression.uses(Variable::TargetDrift);
    if wants_pipeline && let Err(error) = add_pipeline(cluster, subject, &mut context).await {
        note(ContextPart::Pipeline, &error);
        note(ContextPart::TargetDrift, &error);
    }
    if [Variable::Metrics, Variable::MetricResults, Variable::MetricAges]
        .iter()
        .any(|one| expression.uses(*one))
    {
        match metrics(cluster, subject).await {
            Ok(found) => context.metrics = found,
            Err(error) => note(ContextPart::Metrics, &error),
        }
    }
    if expression.uses(Variable::ChangeWindow) {
        match windows(cluster).await {
            Ok(found) => context.windows = found,
            Err(error) => note(ContextPart::ChangeWindows, &error),
        }
    }
    if expression.uses(Variable::ExternalApproval)
        && let Err(error) = add_answers(cluster, subject, &mut context).await
    {
        note(ContextPart::ExternalApproval, &error);
    }
    for name in contract_names(expression) {
        match read_contract(cluster, &name).await {
            Ok(found) => context.contracts.extend(found.map(|found| (name, found))),
            Err(error) => note(ContextPart::Contracts, &error),
        }
    }
    if expression.uses(Variable::Group) {
        match read_group(cluster, subject.bundle).await {
            Ok(Some(found)) => context.group = found,
            Ok(None) => {
                let why = "the bundle is no member of a group that knows it".to_owned();
                unavailable.insert(ContextPart::Group, why);
            }
            Err(error) => drop(unavailable.insert(ContextPart::Group, describe(&error))),
        }
    }
    context.unavailable = unavailable;
    context
}

/// The error without more than a line.
fn describe(error: &KindError) -> String {
    let text = error.to_string();
    text.lines().next().unwrap_or_default().to_owned()
}

/// The part of the context that comes with the subject.
fn base(subject: &GateSubject<'_>, now: Timestamp) -> GateContext {
    let spec = &subject.gate.spec;
    let mut context = GateContext::new(BundleContext::of(subject.bundle), subject.environment, now);
    context.environment =
        EnvironmentContext { approval: spec.approval.unwrap_or_default(), ..context.environment };
    context.pipeline = PipelineContext {
        name: subject.pipeline.to_owned(),
        namespace: subject.bundle.namespace().to_owned(),
        labels: BTreeMap::new(),
    };
    context.upstream = upstreams(subject);
    context.pull_requests = subject.steps.iter().filter_map(pull_request).collect();
    context.delegation = delegation(subject);
    context
}

/// The environments before, with the moment this bundle was verified there.
fn upstreams(subject: &GateSubject<'_>) -> BTreeMap<String, UpstreamContext> {
    let direct = &subject.gate.spec.upstream_names;
    let records = &subject.bundle.status.environments;
    let names: BTreeSet<&str> = direct
        .iter()
        .map(String::as_str)
        .chain(records.keys().map(String::as_str))
        .chain(subject.steps.iter().map(|step| step.spec.environment.as_str()))
        .filter(|name| *name != subject.environment)
        .collect();
    let upstream = |name: &str| {
        let record = records.get(name);
        UpstreamContext {
            direct: direct.iter().any(|known| known == name),
            verified_at: verified_at(name, subject.steps, record),
            ..UpstreamContext::default()
        }
    };
    names.into_iter().map(|name| (name.to_owned(), upstream(name))).collect()
}

/// The moment an environment was verified: with regions, the last of them.
fn verified_at(
    environment: &str,
    steps: &[PromotionStep],
    record: Option<&BundleEnvironmentStatus>,
) -> Option<Timestamp> {
    let mut of = steps.iter().filter(|step| step.spec.environment == environment).peekable();
    if of.peek().is_none() {
        return record.and_then(|record| record.soak_since.or(record.verified_at));
    }
    let verified = |step: &PromotionStep| {
        (step.state() == StepState::Verified).then_some(()).and(step.status.verified_at)
    };
    of.map(verified).collect::<Option<Vec<_>>>()?.into_iter().max()
}

fn pull_request(step: &PromotionStep) -> Option<(String, PullRequestContext)> {
    let status = &step.status;
    let number = status.pr_number?;
    let context = PullRequestContext {
        is_approved: !status.approvers.is_empty(),
        approval_count: i64::try_from(status.approvers.len()).unwrap_or(i64::MAX),
        number: i64::try_from(number).unwrap_or(i64::MAX),
        url: status.pr_url.clone().unwrap_or_default(),
        merged_by: status.merged_by.clone().unwrap_or_default(),
    };
    Some((step.spec.environment.clone(), context))
}

/// The delivery in the environment before; in the environment itself for a gate that stands after the deploy.
fn delegation(subject: &GateSubject<'_>) -> DelegationContext {
    let is_it = |step: &&PromotionStep| match subject.gate.spec.when {
        GateTiming::PostDeploy => step.spec.environment == subject.environment,
        GateTiming::PrePromotion | GateTiming::PreDeploy => {
            subject.gate.spec.upstream_names.contains(&step.spec.environment)
        }
    };
    let step = subject.steps.iter().find(|step| is_it(step) && step.status.delegated_to.is_some());
    let Some(step) = step else { return DelegationContext::default() };
    let delegate = match step.status.delegated_to {
        Some(delegate) => delegate_name(delegate),
        None => "",
    };
    DelegationContext {
        status: step.status.delegated_status.clone().unwrap_or_default(),
        delegate: delegate.to_owned(),
        weight: step.status.delegated_weight.unwrap_or_default().into(),
        step: step.status.delegated_step.unwrap_or_default().into(),
    }
}

fn delegate_name(delegate: DeliveryDelegate) -> &'static str {
    match delegate {
        DeliveryDelegate::None => "none",
        DeliveryDelegate::ArgoRollouts => "argoRollouts",
        DeliveryDelegate::Flagger => "flagger",
    }
}

async fn bundles_of(cluster: &Cluster, namespace: &str, pipeline: &str) -> Result<Vec<Bundle>, KindError> {
    let all = list::<BundleSpec>(cluster, Some(namespace), &ListOptions::default()).await?;
    let mut found: Vec<Bundle> = all.into_iter().filter(|one| one.pipeline() == Some(pipeline)).collect();
    found.sort_by(|one, two| compare_age(two, one));
    Ok(found)
}

/// The bundle last verified in an environment, and when.
fn last_verified<'b>(bundles: &'b [Bundle], environment: &str) -> Option<(&'b Bundle, Timestamp)> {
    let verified = |bundle: &'b Bundle| {
        let record = bundle.status.environments.get(environment)?;
        (record.state == Some(StepState::Verified)).then_some(())?;
        Some((bundle, record.verified_at?))
    };
    bundles.iter().filter_map(verified).max_by_key(|(_, at)| *at)
}

fn previous(bundles: &[Bundle], subject: &GateSubject<'_>) -> Option<PreviousBundle> {
    let others: Vec<Bundle> =
        bundles.iter().filter(|one| one.name() != subject.bundle.name()).cloned().collect();
    let (bundle, at) = last_verified(&others, subject.environment)?;
    Some(PreviousBundle {
        name: bundle.name().to_owned(),
        version: bundle.spec.version(),
        verified_at: Some(at),
        images: bundle.spec.artifacts.images.clone(),
    })
}

fn add_history(upstream: &mut UpstreamContext, environment: &str, bundles: &[Bundle]) {
    let records = bundles.iter().filter_map(|bundle| bundle.status.environments.get(environment));
    let ended =
        records.filter_map(|record| Some((record, record.state.filter(|state| state.is_terminal())?)));
    for (record, state) in ended.take(RECENT) {
        if state == StepState::Verified {
            upstream.recent_successes += 1;
        } else if state.is_failure() {
            upstream.recent_failures += 1;
        }
        upstream.last_promoted_at = upstream.last_promoted_at.max(record.promoted_at.or(record.verified_at));
    }
    if let Some((bundle, _)) = last_verified(bundles, environment) {
        upstream.version = bundle.spec.version();
    }
}

/// Approvals of open pull requests, as the provider last told them.
async fn add_approvals(
    cluster: &Cluster,
    subject: &GateSubject<'_>,
    context: &mut GateContext,
) -> Result<(), KindError> {
    let told =
        list::<PrStatusSpec>(cluster, Some(subject.bundle.namespace()), &ListOptions::default()).await?;
    for pull in context.pull_requests.values_mut() {
        let Some(status) = told.iter().find(|status| status.spec.pr_url == pull.url) else { continue };
        pull.is_approved |= status.status.approved;
        pull.approval_count = pull.approval_count.max(status.status.approval_count.into());
    }
    Ok(())
}

async fn add_pipeline(
    cluster: &Cluster,
    subject: &GateSubject<'_>,
    context: &mut GateContext,
) -> Result<(), KindError> {
    let found = get::<PipelineSpec>(cluster, subject.bundle.namespace(), subject.pipeline).await?;
    let Some(pipeline) = found else { return Ok(()) };
    context.pipeline.labels = pipeline.metadata.labels;
    let environment = pipeline.spec.environments.into_iter().find(|one| one.name == subject.environment);
    if let Some(environment) = environment {
        context.environment.labels = environment.labels;
    }
    let status = pipeline.status.environments.into_iter().find(|one| one.name == subject.environment);
    if let Some(status) = status {
        context.drift = DriftContext {
            unreconciled: status.drift,
            details: status.drift_details,
            since: status.drift_since,
        };
    }
    Ok(())
}

/// The metric checks of the gate's namespace and of the pipeline's, those of the gate first.
async fn metrics(
    cluster: &Cluster,
    subject: &GateSubject<'_>,
) -> Result<BTreeMap<String, MetricContext>, KindError> {
    let gate_namespace = subject
        .gate
        .spec
        .template_ref
        .as_ref()
        .map_or(subject.gate.namespace(), |template| template.namespace.as_str());
    let namespaces = BTreeSet::from([gate_namespace, subject.bundle.namespace()]);
    let mut found: BTreeMap<String, (bool, MetricContext)> = BTreeMap::new();
    for namespace in namespaces {
        for check in list::<MetricCheckSpec>(cluster, Some(namespace), &ListOptions::default()).await? {
            if !is_in_scope(&check, subject) {
                continue;
            }
            let own = namespace == gate_namespace;
            let key = metric::result_key(subject.bundle.namespace(), subject.pipeline, subject.environment);
            let entry = (own, metric::context(&check, &key));
            match found.get(check.name()) {
                Some((true, _)) => {}
                _ => {
                    found.insert(check.metadata.name.clone(), entry);
                }
            }
        }
    }
    Ok(found.into_iter().map(|(name, (_, metric))| (name, metric)).collect())
}

fn is_in_scope(check: &MetricCheck, subject: &GateSubject<'_>) -> bool {
    let refs = &subject.gate.spec.metric_refs;
    let is = |wanted: &Option<String>, found: &str| wanted.as_deref().is_none_or(|wanted| wanted == found);
    (refs.is_empty() || refs.iter().any(|name| name == check.name()))
        && is(&check.spec.pipeline, subject.pipeline)
        && is(&check.spec.environment, subject.environment)
}

async fn windows(cluster: &Cluster) -> Result<BTreeMap<String, WindowContext>, KindError> {
    let all = list::<ChangeWindowSpec>(cluster, None, &ListOptions::default()).await?;
    Ok(all.iter().map(|one| (one.metadata.name.clone(), WindowContext::of(&one.spec))).collect())
}

/// The answers the other gates of the bundle and environment got, by the names of their templates.
async fn add_answers(
    cluster: &Cluster,
    subject: &GateSubject<'_>,
    context: &mut GateContext,
) -> Result<(), KindError> {
    let selector = format!(
        "{}={},{}={}",
        labels::BUNDLE,
        labels::label_value(subject.bundle.name()),
        labels::ENVIRONMENT,
        labels::label_value(subject.environment),
    );
    let namespaces = BTreeSet::from([subject.gate.namespace(), subject.bundle.namespace()]);
    for namespace in namespaces {
        let gates =
            list::<PolicyGateSpec>(cluster, Some(namespace), &ListOptions::with_labels(selector.as_str()))
                .await?;
        for gate in &gates {
            let name = gate.spec.template_ref.as_ref().map_or(gate.name(), |template| template.name.as_str());
            add_answer(context, name, gate);
        }
    }
    add_answer(context, "self", subject.gate);
    Ok(())
}

/// Puts the answer of a gate into the context.
pub(crate) fn add_answer(context: &mut GateContext, name: &str, gate: &PolicyGate) {
    let Some(status) = &gate.status.external else { return };
    if let Some(approval) = external::approval(status) {
        context.approvals.insert(name.to_owned(), approval);
    }
    if let Some(error) = &status.error {
        context.approval_errors.insert(name.to_owned(), error.clone());
    }
}

/// The environments of other pipelines an expression names.
fn contract_names(expression: &GateExpression) -> BTreeSet<String> {
    let leaves = expression.program.leaves().iter();
    leaves
        .filter(|leaf| leaf.variable == Variable::Contracts.name())
        .filter_map(|leaf| leaf.path.first().cloned())
        .collect()
}

/// The group of a bundle. Only the group's own bundle says who its members are.
async fn read_group(cluster: &Cluster, bundle: &Bundle) -> Result<Option<GroupContext>, KindError> {
    let alias = bundle.metadata.annotation(labels::GROUP_ALIAS);
    let place = bundle.metadata.annotation(labels::GROUP_BUNDLE).and_then(|key| key.split_once('/'));
    let (Some(alias), Some((namespace, name))) = (alias, place) else { return Ok(None) };
    let Some(of) = get::<BundleSpec>(cluster, namespace, name).await? else { return Ok(None) };
    let members = &of.status.members;
    let is_known = members
        .get(alias)
        .is_some_and(|member| member.namespace == bundle.namespace() && member.bundle == bundle.name());
    let has_failed =
        |phase: Option<BundlePhase>| matches!(phase, Some(BundlePhase::Failed | BundlePhase::SkipDenied));
    let failed = members.iter().filter(|(_, member)| has_failed(member.phase));
    let verified = members.iter().flat_map(|(alias, member)| {
        member.verified.iter().map(move |environment| format!("{alias}/{environment}"))
    });
    Ok(is_known.then(|| GroupContext {
        name: of.spec.group.clone().unwrap_or_default(),
        verified: verified.collect(),
        failed: failed.map(|(alias, _)| alias.clone()).collect(),
    }))
}

/// An environment of another pipeline; none if nothing was verified there.
pub(crate) async fn read_contract(
    cluster: &Cluster,
    name: &str,
) -> Result<Option<ContractContext>, KindError> {
    let [namespace, pipeline, environment] = name.split('/').collect::<Vec<_>>()[..] else { return Ok(None) };
    let bundles = bundles_of(cluster, namespace, pipeline).await?;
    Ok(last_verified(&bundles, environment).map(|(bundle, at)| ContractContext {
        version: bundle.spec.version(),
        phase: format!("{:?}", bundle.phase()),
        verified_at: Some(at),
        labels: BundleContext::of(bundle).labels,
    }))
}
