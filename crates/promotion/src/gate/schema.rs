//! The variables and functions of gate expressions, with their types.

use std::sync::OnceLock;

use slipway_cel::{Env, EvalError, Key, Limits, Overload, Type, Value};

use super::schedule;

/// The longest expression, and how much one evaluation may compute.
const LIMITS: Limits = Limits { length: 4096, depth: 100, cost: 100_000 };

/// A variable of gate expressions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Variable {
    Bundle,
    Schedule,
    Environment,
    Pipeline,
    Metrics,
    MetricResults,
    MetricAges,
    Upstream,
    PreviousBundle,
    ChangeWindow,
    Delegation,
    ExternalApproval,
    Contracts,
    Group,
    TargetDrift,
}

impl Variable {
    pub(crate) const ALL: &[Self] = &[
        Self::Bundle,
        Self::Schedule,
        Self::Environment,
        Self::Pipeline,
        Self::Metrics,
        Self::MetricResults,
        Self::MetricAges,
        Self::Upstream,
        Self::PreviousBundle,
        Self::ChangeWindow,
        Self::Delegation,
        Self::ExternalApproval,
        Self::Contracts,
        Self::Group,
        Self::TargetDrift,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Bundle => "bundle",
            Self::Schedule => "schedule",
            Self::Environment => "environment",
            Self::Pipeline => "pipeline",
            Self::Metrics => "metrics",
            Self::MetricResults => "metricResults",
            Self::MetricAges => "metricAgeSeconds",
            Self::Upstream => "upstream",
            Self::PreviousBundle => "previousBundle",
            Self::ChangeWindow => "changewindow",
            Self::Delegation => "delegation",
            Self::ExternalApproval => "externalApproval",
            Self::Contracts => "contracts",
            Self::Group => "group",
            Self::TargetDrift => "targetDrift",
        }
    }

    pub(crate) fn find(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|variable| variable.name() == name)
    }

    fn ty(self) -> Type {
        use Type::{Bool, Double, Dyn, Int, String, Timestamp};
        let texts = || Type::map(String, String);
        let by_name = |ty| Type::map(String, ty);
        match self {
            Self::Bundle => Type::object(
                "bundle",
                [
                    ("name", String),
                    ("namespace", String),
                    ("type", String),
                    ("version", String),
                    ("images", Type::list(image())),
                    ("labels", texts()),
                    ("annotations", texts()),
                    (
                        "provenance",
                        Type::object(
                            "bundle.provenance",
                            [
                                ("author", String),
                                ("commitSHA", String),
                                ("ciRunURL", String),
                                ("buildTimestamp", Timestamp),
                                ("rollbackOf", String),
                            ],
                        ),
                    ),
                    (
                        "intent",
                        Type::object(
                            "bundle.intent",
                            [
                                ("target", String),
                                ("targetEnvironment", String),
                                ("skip", Type::list(String)),
                                ("from", String),
                            ],
                        ),
                    ),
                    ("isRollback", Bool),
                    ("isEmergency", Bool),
                    ("ageMinutes", Int),
                    ("upstreamSoakMinutes", Int),
                    (
                        "pr",
                        by_name(Type::object(
                            "bundle.pr",
                            [
                                ("isApproved", Bool),
                                ("approvalCount", Int),
                                ("number", Int),
                                ("url", String),
                                ("mergedBy", String),
                            ],
                        )),
                    ),
                ],
            ),
            Self::Schedule => schedule_type(),
            Self::Environment => Type::object(
                "environment",
                [("name", String), ("approval", String), ("region", String), ("labels", texts())],
            ),
            Self::Pipeline => {
                Type::object("pipeline", [("name", String), ("namespace", String), ("labels", texts())])
            }
            Self::Metrics => by_name(Double),
            Self::MetricResults => by_name(String),
            Self::MetricAges => by_name(Int),
            Self::Upstream => by_name(Type::object(
                "upstream",
                [
                    ("soakMinutes", Int),
                    ("recentSuccessCount", Int),
                    ("recentFailureCount", Int),
                    ("lastPromotedAt", Timestamp),
                    ("version", String),
                ],
            )),
            Self::PreviousBundle => Type::object(
                "previousBundle",
                [
                    ("version", String),
                    ("name", String),
                    ("verifiedAt", Timestamp),
                    ("images", Type::list(image())),
                ],
            ),
            Self::ChangeWindow => by_name(Bool),
            Self::Delegation => Type::object(
                "delegation",
                [("status", String), ("delegate", String), ("weight", Int), ("step", Int)],
            ),
            Self::ExternalApproval => by_name(Type::object(
                "externalApproval",
                [
                    ("approved", Bool),
                    ("approvedBy", String),
                    ("comment", String),
                    ("expiresAt", Timestamp),
                    ("data", Dyn),
                ],
            )),
            Self::Contracts => by_name(Type::object(
                "contract",
                [
                    ("version", String),
                    ("phase", String),
                    ("verifiedAt", Timestamp),
                    ("soakMinutes", Int),
                    ("labels", texts()),
                ],
            )),
            Self::Group => Type::object(
                "group",
                [("name", String), ("verified", Type::list(String)), ("failed", Type::list(String))],
            ),
            Self::TargetDrift => Type::object(
                "targetDrift",
                [("unreconciled", Bool), ("details", Type::list(String)), ("since", Timestamp)],
            ),
        }
    }
}

fn image() -> Type {
    let fields = ["name", "reference", "repository", "tag", "digest"];
    Type::object("image", fields.map(|field| (field, Type::String)))
}

fn schedule_type() -> Type {
    Type::object(
        "schedule",
        [
            ("isWeekend", Type::Bool),
            ("hour", Type::Int),
            ("minute", Type::Int),
            ("dayOfWeek", Type::String),
            ("date", Type::String),
            ("now", Type::Timestamp),
        ],
    )
}

/// The environment gate expressions are compiled in.
pub(crate) fn gate_env() -> &'static Env {
    static ENV: OnceLock<Env> = OnceLock::new();
    ENV.get_or_init(make_env)
}

fn make_env() -> Env {
    let mut env =
        Variable::ALL.iter().fold(Env::with_all_libraries(), |env, one| env.variable(one.name(), one.ty()));
    for labels in ["bundle.labels", "bundle.annotations", "pipeline.labels", "environment.labels"] {
        env = env.flags(labels);
    }
    let zoned = vec![schedule_type(), Type::String];
    env = env.function(Overload::method("in", zoned, schedule_type(), |_, args| match args {
        [Value::Map(schedule), Value::String(zone)] => schedule::in_zone(schedule, zone),
        _ => Err(EvalError::no_overload()),
    }));
    for (name, blocked) in [("isBlocked", true), ("isAllowed", false)] {
        let windows = vec![Type::map(Type::String, Type::Bool), Type::String];
        env = env.function(Overload::method(name, windows, Type::Bool, move |_, args| match args {
            [Value::Map(windows), Value::String(window)] => match windows.get(&Key::String(window.clone())) {
                Some(Value::Bool(active)) => Ok(Value::Bool(active == blocked)),
                _ => Err(EvalError::no_such_key(window.to_string())),
            },
            _ => Err(EvalError::no_overload()),
        }));
    }
    env.limits(LIMITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_attribute_is_declared_and_nothing_else() {
        for text in [
            "bundle.name + bundle.namespace + bundle.type + bundle.version == ''",
            "bundle.images[0].tag == bundle.images[0].digest + bundle.images[0].repository",
            "bundle.labels.hotfix == true && bundle.annotations['x'] == 'y'",
            "bundle.provenance.author == bundle.provenance.commitSHA + bundle.provenance.ciRunURL",
            "now() - bundle.provenance.buildTimestamp > duration('24h') && bundle.provenance.rollbackOf == ''",
            "bundle.intent.target == bundle.intent.targetEnvironment && 'x' in bundle.intent.skip",
            "bundle.isRollback || bundle.isEmergency || bundle.ageMinutes > bundle.upstreamSoakMinutes",
            "bundle.pr['prod'].isApproved && bundle.pr.prod.approvalCount >= 2 && bundle.pr.prod.mergedBy != ''",
            "!schedule.isWeekend && schedule.hour < 9 && schedule.minute == 0 && schedule.dayOfWeek == 'Monday'",
            "schedule.date == '2026-12-24' || schedule.now < now() || schedule.in('Europe/Berlin').hour == 3",
            "environment.name + environment.approval + environment.region == environment.labels.tier",
            "pipeline.name + pipeline.namespace == pipeline.labels['team']",
            "metrics.successRate >= 0.99 && metrics['x'] < 1 && metricResults.x == 'pass' && metricAgeSeconds.x < 60",
            "upstream.staging.soakMinutes > 3 && upstream['a-b'].recentSuccessCount > upstream.x.recentFailureCount",
            "upstream.staging.lastPromotedAt < now() && upstream.staging.version == previousBundle.version",
            "previousBundle.name == '' && previousBundle.verifiedAt < now() && previousBundle.images.size() == 0",
            "!changewindow['n'] && changewindow.isAllowed('n') && !changewindow.isBlocked('n')",
            "delegation.status == 'Healthy' && delegation.delegate == '' && delegation.weight > delegation.step",
            "externalApproval.self.approved && externalApproval.x.approvedBy != '' && externalApproval.x.data.n == 1",
            "contracts['shop/api/prod'].soakMinutes > 3 && contracts['a/b/c'].labels.x == 'y'",
            "'api/prod' in group.verified && group.failed.size() == 0 && group.name == ''",
            "!targetDrift.unreconciled && targetDrift.details.size() == 0 && targetDrift.since < now()",
            "semver('1.2.3').isGreaterThan(semver(bundle.version)) && quantity('1Gi').isGreaterThan(quantity('1Mi'))",
        ] {
            assert!(
                gate_env().compile_as(text, &Type::Bool).is_ok(),
                "{text}: {:?}",
                gate_env().compile(text)
            );
        }
        for text in ["release.name == ''", "bundle.owner == ''", "env('HOME') == ''", "schedule.isWeekend()"]
        {
            assert!(gate_env().compile(text).is_err(), "{text}");
        }
    }
}
