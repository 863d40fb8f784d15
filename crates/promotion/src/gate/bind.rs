//! A context as the values an expression reads, at a moment. Only what the expression reads is made.

use std::collections::BTreeMap;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use slipway_cel::{Bindings, Key, Map, Value};

use super::context::{
    ApprovalContext, ContractContext, GateContext, MetricContext, PullRequestContext, UpstreamContext,
    WindowContext, minutes_since,
};
use super::expression::VariableUse;
use super::schedule::schedule_value;
use super::schema::Variable;
use crate::kinds::{ApprovalMode, BundleType, ImageArtifact, MetricResult};

type Entry<'a> = (&'static str, Value<'a>);

/// Binds the variables an expression uses.
pub(crate) fn bind<'a>(context: &'a GateContext, uses: &[VariableUse], now: Timestamp) -> Bindings<'a> {
    let mut bindings = Bindings::new().now(now);
    for one in uses {
        bindings.set(one.variable.name(), value(context, one, now));
    }
    bindings
}

fn value<'a>(context: &'a GateContext, used: &VariableUse, now: Timestamp) -> Value<'a> {
    match used.variable {
        Variable::Bundle => bundle(context, used, now),
        Variable::Schedule => schedule_value(now, TimeZone::UTC),
        Variable::Environment => {
            let environment = &context.environment;
            object([
                ("name", text(&environment.name)),
                ("approval", text(approval_name(environment.approval))),
                ("region", text(&environment.region)),
                ("labels", texts(&environment.labels)),
            ])
        }
        Variable::Pipeline => object([
            ("name", text(&context.pipeline.name)),
            ("namespace", text(&context.pipeline.namespace)),
            ("labels", texts(&context.pipeline.labels)),
        ]),
        Variable::Metrics => aliased(&context.metrics, |metric| metric.read(now).ok().map(Value::Double)),
        Variable::MetricResults => aliased(&context.metrics, |metric| metric.result.map(result_name)),
        Variable::MetricAges => aliased(&context.metrics, |metric| metric_age(metric, now)),
        Variable::Upstream => named(&context.upstream, |upstream| Some(upstream_value(upstream, now))),
        Variable::PreviousBundle => previous(context),
        Variable::ChangeWindow => named(&context.windows, |window| match window {
            WindowContext::Usable(window) => {
                let holds = window.holds(&context.pipeline.name, &context.environment.name);
                Some(Value::Bool(holds && window.is_active(now)))
            }
            WindowContext::Broken(_) => None,
        }),
        Variable::Delegation => object([
            ("status", text(&context.delegation.status)),
            ("delegate", text(&context.delegation.delegate)),
            ("weight", Value::Int(context.delegation.weight)),
            ("step", Value::Int(context.delegation.step)),
        ]),
        Variable::ExternalApproval => aliased(&context.approvals, |approval| approval_value(approval, now)),
        Variable::Contracts => named(&context.contracts, |contract| Some(contract_value(contract, now))),
        Variable::Group => {
            let texts = |all: &'a [String]| Value::list(all.iter().map(|one| text(one)).collect::<Vec<_>>());
            object([
                ("name", text(&context.group.name)),
                ("verified", texts(&context.group.verified)),
                ("failed", texts(&context.group.failed)),
            ])
        }
        Variable::TargetDrift => {
            let details = context.drift.details.iter().map(|detail| text(detail)).collect::<Vec<_>>();
            let fields = [
                ("unreconciled", Value::Bool(context.drift.unreconciled)),
                ("details", Value::list(details)),
            ];
            object(fields.into_iter().chain(since("since", context.drift.since)))
        }
    }
}

fn bundle<'a>(context: &'a GateContext, used: &VariableUse, now: Timestamp) -> Value<'a> {
    let bundle = &context.bundle;
    type Make<'a> = dyn Fn() -> Value<'a> + 'a;
    let provenance = || {
        let fields = [
            ("author", text(&bundle.author)),
            ("commitSHA", text(&bundle.commit_sha)),
            ("ciRunURL", text(&bundle.ci_run_url)),
            ("rollbackOf", text(&bundle.rollback_of)),
        ];
        object(fields.into_iter().chain(since("buildTimestamp", bundle.build_timestamp)))
    };
    let intent = || {
        let skip = bundle.skip.iter().map(|name| text(name)).collect::<Vec<_>>();
        object([
            ("target", text(&bundle.target)),
            ("targetEnvironment", text(&bundle.target)),
            ("skip", Value::list(skip)),
            ("from", text(&bundle.from)),
        ])
    };
    let soak = move || {
        let since = context.soak_since().map(|(_, since)| since);
        Value::Int(minutes_since(since, now))
    };
    let fields: [(&'static str, &Make<'a>); 14] = [
        ("name", &|| text(&bundle.name)),
        ("namespace", &|| text(&bundle.namespace)),
        ("type", &|| text(type_name(bundle.kind))),
        ("version", &|| text(&bundle.version)),
        ("images", &|| images(&bundle.images)),
        ("labels", &|| texts(&bundle.labels)),
        ("annotations", &|| texts(&bundle.annotations)),
        ("provenance", &provenance),
        ("intent", &intent),
        ("isRollback", &|| Value::Bool(bundle.is_rollback)),
        ("isEmergency", &|| Value::Bool(bundle.is_emergency)),
        ("ageMinutes", &move || Value::Int(minutes_since(bundle.created_at, now))),
        ("upstreamSoakMinutes", &soak),
        ("pr", &|| named(&context.pull_requests, |pull| Some(pull_request(pull)))),
    ];
    object(fields.into_iter().filter(|(name, _)| used.reads(name)).map(|(name, make)| (name, make())))
}

fn pull_request(pull: &PullRequestContext) -> Value<'_> {
    object([
        ("isApproved", Value::Bool(pull.is_approved)),
        ("approvalCount", Value::Int(pull.approval_count)),
        ("number", Value::Int(pull.number)),
        ("url", text(&pull.url)),
        ("mergedBy", text(&pull.merged_by)),
    ])
}

fn upstream_value(upstream: &UpstreamContext, now: Timestamp) -> Value<'_> {
    let fields = [
        ("soakMinutes", Value::Int(minutes_since(upstream.verified_at, now))),
        ("recentSuccessCount", Value::Int(upstream.recent_successes)),
        ("recentFailureCount", Value::Int(upstream.recent_failures)),
        ("version", text(&upstream.version)),
    ];
    object(fields.into_iter().chain(since("lastPromotedAt", upstream.last_promoted_at)))
}

fn previous(context: &GateContext) -> Value<'_> {
    let known = context.previous.as_ref();
    let fields = [
        ("version", known.map_or(Value::string(""), |bundle| text(&bundle.version))),
        ("name", known.map_or(Value::string(""), |bundle| text(&bundle.name))),
        ("images", known.map_or(Value::list(Vec::new()), |bundle| images(&bundle.images))),
    ];
    object(fields.into_iter().chain(since("verifiedAt", known.and_then(|bundle| bundle.verified_at))))
}

/// An answer that has expired is none.
fn approval_value(approval: &ApprovalContext, now: Timestamp) -> Option<Value<'_>> {
    let fields = [
        ("approved", Value::Bool(approval.approved)),
        ("approvedBy", text(&approval.approved_by)),
        ("comment", text(&approval.comment)),
        ("data", Value::from_json(&approval.data)),
    ];
    approval.is_valid(now).then(|| object(fields.into_iter().chain(since("expiresAt", approval.expires_at))))
}

fn contract_value(contract: &ContractContext, now: Timestamp) -> Value<'_> {
    let fields = [
        ("version", text(&contract.version)),
        ("phase", text(&contract.phase)),
        ("soakMinutes", Value::Int(minutes_since(contract.verified_at, now))),
        ("labels", texts(&contract.labels)),
    ];
    object(fields.into_iter().chain(since("verifiedAt", contract.verified_at)))
}

fn metric_age<'a>(metric: &MetricContext, now: Timestamp) -> Option<Value<'a>> {
    let at = metric.measured_at?;
    Some(Value::Int((now.as_second() - at.as_second()).max(0)))
}

fn result_name<'a>(result: MetricResult) -> Value<'a> {
    Value::string(match result {
        MetricResult::Pass => "pass",
        MetricResult::Fail => "fail",
        MetricResult::Inconclusive => "inconclusive",
    })
}

pub(crate) fn type_name(kind: BundleType) -> &'static str {
    match kind {
        BundleType::Image => "image",
        BundleType::Config => "config",
        BundleType::Mixed => "mixed",
        BundleType::Group => "group",
    }
}

fn approval_name(approval: ApprovalMode) -> &'static str {
    match approval {
        ApprovalMode::Auto => "auto",
        ApprovalMode::PrReview => "pr-review",
    }
}

fn images(images: &[ImageArtifact]) -> Value<'_> {
    let one = |image: &'_ ImageArtifact| -> Value<'_> {
        // Borrowed for as long as the context.
        let ImageArtifact { name, reference, digest } = image;
        object([
            ("name", Value::string(name.clone())),
            ("reference", Value::string(reference.clone())),
            ("repository", Value::string(image.repository().to_owned())),
            ("tag", Value::string(image.tag().unwrap_or_default().to_owned())),
            ("digest", Value::string(digest.clone().unwrap_or_default())),
        ])
    };
    Value::list(images.iter().map(one).collect::<Vec<_>>())
}

fn text(text: &str) -> Value<'_> {
    Value::string(text)
}

/// A field that is absent when nothing is known.
fn since<'a>(name: &'static str, at: Option<Timestamp>) -> Option<Entry<'a>> {
    at.map(|at| (name, Value::Timestamp(at)))
}

fn object<'a>(fields: impl IntoIterator<Item = Entry<'a>>) -> Value<'a> {
    Value::Map(fields.into_iter().map(|(name, value)| (Key::String(name.into()), value)).collect::<Map<'_>>())
}

fn texts(texts: &BTreeMap<String, String>) -> Value<'_> {
    named(texts, |value| Some(text(value)))
}

fn named<'a, T>(all: &'a BTreeMap<String, T>, make: impl Fn(&'a T) -> Option<Value<'a>>) -> Value<'a> {
    let entry = |(name, one): (&'a String, &'a T)| Some((Key::String(name.as_str().into()), make(one)?));
    Value::Map(all.iter().filter_map(entry).collect())
}

/// Entries by their name, and by the name without hyphens (`successRate`) where that is free.
fn aliased<'a, T>(all: &'a BTreeMap<String, T>, make: impl Fn(&'a T) -> Option<Value<'a>>) -> Value<'a> {
    let mut entries = Vec::new();
    for (name, one) in all {
        let Some(value) = make(one) else { continue };
        if let Some(alias) = camel_case(name).filter(|alias| !all.contains_key(alias)) {
            entries.push((Key::String(alias.into()), value.clone()));
        }
        entries.push((Key::String(name.as_str().into()), value));
    }
    Value::Map(entries.into_iter().collect())
}

/// `success-rate` as `successRate`; none if the name has nothing to change.
pub(crate) fn camel_case(name: &str) -> Option<String> {
    if !name.contains(['-', '.', '/']) {
        return None;
    }
    let mut alias = String::with_capacity(name.len());
    for (at, word) in name.split(['-', '.', '/']).filter(|word| !word.is_empty()).enumerate() {
        let mut letters = word.chars();
        match letters.next() {
            Some(first) if at > 0 => alias.extend(first.to_uppercase()),
            Some(first) => alias.push(first),
            None => {}
        }
        alias.push_str(letters.as_str());
    }
    Some(alias)
}
