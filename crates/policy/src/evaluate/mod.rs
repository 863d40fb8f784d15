//! Holds a plan against policies.

mod changes;
mod images;
mod objects;
mod unit;
mod workloads;

use slipway_manifest::ObjectRef;

use crate::expression::ExpressionFacts;
use crate::input::{PolicyInput, PolicyTarget};
use crate::model::{Policy, PolicyMode, PolicyRule, RuleCheck, TargetMatch};
use crate::pattern::PatternList;
use crate::report::{PolicyCode, PolicyDecision, PolicyReport, PolicyResult};

/// Something a rule does not allow.
#[derive(Clone, Debug)]
pub(crate) struct Violation {
    pub(crate) subject: Subject,
    pub(crate) path: String,
    pub(crate) message: String,
    pub(crate) code: PolicyCode,
}

/// The thing a finding is about.
#[derive(Clone, Debug)]
pub(crate) enum Subject {
    Object(ObjectRef),
    /// A secret's provider, the unit, the time.
    Fact(String),
}

impl Subject {
    fn object(&self) -> Option<&ObjectRef> {
        match self {
            Self::Object(object) => Some(object),
            Self::Fact(_) => None,
        }
    }

    fn shown(&self) -> String {
        match self {
            Self::Object(object) => object.to_string(),
            Self::Fact(fact) => fact.clone(),
        }
    }
}

impl Violation {
    pub(crate) fn of_object(object: &ObjectRef, code: PolicyCode, message: impl Into<String>) -> Self {
        Self { subject: Subject::Object(object.clone()), path: String::new(), message: message.into(), code }
    }

    pub(crate) fn of_fact(fact: impl Into<String>, code: PolicyCode, message: impl Into<String>) -> Self {
        Self { subject: Subject::Fact(fact.into()), path: String::new(), message: message.into(), code }
    }

    pub(crate) fn at(mut self, path: impl Into<String>) -> Self {
        self.path = path.into();
        self
    }
}

pub(crate) fn evaluate(policies: &[Policy], input: &PolicyInput<'_>) -> PolicyReport {
    let facts = ExpressionFacts::new(input);
    let mut report = PolicyReport::default();
    for policy in policies {
        match policy.applies.fits(&input.target) {
            TargetFit::Fits => {
                for rule in &policy.rules {
                    report.results.extend(judge(policy, rule, input, &facts));
                }
                report.results.extend(unused_exceptions(policy, &report.results, input));
            }
            TargetFit::Unknown(field) => report.results.push(unknown_target(policy, field)),
            TargetFit::Other => report.skipped.push(policy.name.clone()),
        }
    }
    report
}

/// The answer of a policy's `match`.
enum TargetFit {
    Fits,
    Other,
    /// It asks for something that is not known of the target: nothing may slip through because of that.
    Unknown(TargetField),
}

/// A field of a target that policies are chosen by.
#[derive(Clone, Copy)]
enum TargetField {
    Environment,
    Cluster,
    Namespace,
}

impl TargetField {
    const ALL: [Self; 3] = [Self::Cluster, Self::Namespace, Self::Environment];

    fn patterns(self, applies: &TargetMatch) -> &PatternList {
        match self {
            Self::Environment => &applies.environments,
            Self::Cluster => &applies.clusters,
            Self::Namespace => &applies.namespaces,
        }
    }

    fn value(self, target: &PolicyTarget) -> Option<&String> {
        match self {
            Self::Environment => target.environment.as_ref(),
            Self::Cluster => target.cluster.as_ref(),
            Self::Namespace => target.namespace.as_ref(),
        }
    }

    /// The field's name in expressions, and the word for many of it.
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Environment => ("env", "environments"),
            Self::Cluster => ("cluster", "clusters"),
            Self::Namespace => ("namespace", "namespaces"),
        }
    }
}

impl TargetMatch {
    fn fits(&self, target: &PolicyTarget) -> TargetFit {
        let mut unknown = None;
        for field in TargetField::ALL {
            let (patterns, value) = (field.patterns(self), field.value(target));
            if patterns.is_empty() || patterns.fits(value.map(String::as_str).unwrap_or_default()) {
                continue;
            }
            if value.is_some() {
                return TargetFit::Other;
            }
            unknown = unknown.or(Some(field));
        }
        unknown.map_or(TargetFit::Fits, TargetFit::Unknown)
    }
}

fn unknown_target(policy: &Policy, field: TargetField) -> PolicyResult {
    let (path, many) = field.words();
    PolicyResult {
        policy: policy.name.clone(),
        rule: "match".to_owned(),
        decision: policy.mode.refusal(),
        subject: "target".to_owned(),
        path: path.to_owned(),
        message: format!(
            "the policy is for the {many} {}, and this run's is not known",
            field.patterns(&policy.applies).shown()
        ),
        code: PolicyCode::UnknownTarget,
    }
}

impl PolicyMode {
    fn refusal(self) -> PolicyDecision {
        match self {
            Self::Enforce => PolicyDecision::Deny,
            Self::Warn => PolicyDecision::Warn,
        }
    }
}

/// The results of one rule.
fn judge(
    policy: &Policy,
    rule: &PolicyRule,
    input: &PolicyInput<'_>,
    facts: &ExpressionFacts<'_>,
) -> Vec<PolicyResult> {
    let result = |decision, subject: String, path, message, code| PolicyResult {
        policy: policy.name.clone(),
        rule: rule.id.clone(),
        decision,
        subject,
        path,
        message,
        code,
    };
    let violations = violations(&rule.check, input, facts);
    if violations.is_empty() {
        let nothing = String::new();
        return vec![result(PolicyDecision::Pass, nothing.clone(), nothing.clone(), nothing, PolicyCode::Ok)];
    }
    let decide = |violation: Violation| {
        let Violation { subject, path, message, code } = violation;
        let mut covering = policy.exceptions.iter().filter(|one| one.covers(&rule.id, subject.object()));
        let (valid, expired) = (
            covering.clone().find(|exception| !exception.is_expired(input.now)),
            covering.find(|exception| exception.is_expired(input.now)),
        );
        let shown = subject.shown();
        match (valid, expired) {
            (Some(exception), _) => {
                let message = format!("{message}; allowed until {}: {}", exception.until, exception.reason);
                result(PolicyDecision::Excepted, shown, path, message, code)
            }
            (None, Some(exception)) => {
                let message = format!("{message}; the exception for it ended on {}", exception.until);
                result(policy.mode.refusal(), shown, path, message, PolicyCode::ExpiredException)
            }
            (None, None) => result(policy.mode.refusal(), shown, path, message, code),
        }
    };
    violations.into_iter().map(decide).collect()
}

/// Warns of exceptions that have ended and were not needed: they would fail the day they are.
fn unused_exceptions(
    policy: &Policy,
    results: &[PolicyResult],
    input: &PolicyInput<'_>,
) -> Vec<PolicyResult> {
    let is_used = |rule: &str| {
        results.iter().any(|result| {
            result.policy == policy.name && result.rule == rule && result.code == PolicyCode::ExpiredException
        })
    };
    let ended = policy.exceptions.iter().filter(|one| one.is_expired(input.now) && !is_used(&one.rule));
    ended
        .map(|exception| PolicyResult {
            policy: policy.name.clone(),
            rule: exception.rule.clone(),
            decision: PolicyDecision::Warn,
            subject: exception.shown.clone(),
            path: String::new(),
            message: format!("the exception ended on {} and covers nothing here: remove it", exception.until),
            code: PolicyCode::ExpiredException,
        })
        .collect()
}

fn violations(check: &RuleCheck, input: &PolicyInput<'_>, facts: &ExpressionFacts<'_>) -> Vec<Violation> {
    match check {
        RuleCheck::ForbidKinds(kinds) => objects::forbidden_kinds(kinds, input),
        RuleCheck::ClusterScoped(scope) => objects::cluster_scoped(*scope, input),
        RuleCheck::Images(check) => images::check_images(check, input),
        RuleCheck::Changes(check) => changes::check_changes(check, input),
        RuleCheck::Secrets(approved) => unit::check_providers(approved, input),
        RuleCheck::Unit(check) => unit::check_unit(check, input),
        RuleCheck::Time(windows) => unit::check_time(windows, input),
        RuleCheck::Workloads(check) => workloads::check_workloads(check, input),
        RuleCheck::Expression(expression) => objects::check_expression(expression, input, facts),
    }
}
