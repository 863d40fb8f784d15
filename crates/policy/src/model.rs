//! Policies after reading: nothing in here can be wrong any more.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::exception::PolicyException;
use crate::expression::RuleExpression;
use crate::pattern::PatternList;
use crate::window::TimeWindow;

/// One document of a policy file.
#[derive(Clone, Debug)]
pub(crate) struct Policy {
    /// The file it was read from.
    pub(crate) name: String,
    pub(crate) mode: PolicyMode,
    pub(crate) applies: TargetMatch,
    pub(crate) rules: Vec<PolicyRule>,
    pub(crate) exceptions: Vec<PolicyException>,
}

/// The consequence of a finding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum PolicyMode {
    #[default]
    Enforce,
    Warn,
}

/// The targets a policy is for; a list left out fits everything.
#[derive(Clone, Debug, Default)]
pub(crate) struct TargetMatch {
    pub(crate) environments: PatternList,
    pub(crate) clusters: PatternList,
    pub(crate) namespaces: PatternList,
}

#[derive(Clone, Debug)]
pub(crate) struct PolicyRule {
    pub(crate) id: String,
    pub(crate) check: RuleCheck,
}

/// The check of a rule.
#[derive(Clone, Debug)]
pub(crate) enum RuleCheck {
    ForbidKinds(PatternList),
    /// No object of the whole cluster; with `OnlyChanged` those that stay as they are pass.
    ClusterScoped(ScopeCheck),
    Images(ImageCheck),
    Changes(ChangeCheck),
    /// The providers secrets may come from.
    Secrets(PatternList),
    Unit(UnitCheck),
    /// The times changes may be made at.
    Time(Vec<TimeWindow>),
    Workloads(WorkloadCheck),
    Expression(RuleExpression),
}

/// The objects of the whole cluster a rule looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScopeCheck {
    All,
    OnlyChanged,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct ImageCheck {
    pub(crate) require_digest: bool,
    /// Empty for any registry.
    pub(crate) registries: PatternList,
    pub(crate) forbid_tags: PatternList,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct ChangeCheck {
    pub(crate) max_destroy: Option<usize>,
    pub(crate) forbid_destroy_kinds: PatternList,
    pub(crate) forbid_replace: bool,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct UnitCheck {
    /// One of these keys has to have signed; empty for anybody.
    pub(crate) require_signed_by: BTreeSet<String>,
    /// All of these environments.
    pub(crate) require_verified_in: BTreeSet<String>,
    pub(crate) max_age: Option<MaxAge>,
    pub(crate) require_clean_git: bool,
}

/// A limit of age with its text.
#[derive(Clone, Debug)]
pub(crate) struct MaxAge {
    pub(crate) text: String,
    pub(crate) limit: Duration,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct WorkloadCheck {
    pub(crate) require_resources: bool,
    pub(crate) forbid_privileged: bool,
    pub(crate) min_replicas: Option<u64>,
}
