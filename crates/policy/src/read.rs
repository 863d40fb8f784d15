//! Reads `ktl.dev/policy/v1` documents strictly: every mistake at once, each with its place.

use std::collections::BTreeSet;

use jiff::civil::Date;
use slipway_go::time::Duration as GoDuration;
use slipway_problem::Problems;
use slipway_yaml::{FieldReader, YamlNode, YamlReader};

use crate::exception::PolicyException;
use crate::expression::RuleExpression;
use crate::load::PolicySource;
use crate::model::{
    ChangeCheck, ImageCheck, MaxAge, Policy, PolicyMode, PolicyRule, RuleCheck, ScopeCheck, TargetMatch,
    UnitCheck, WorkloadCheck,
};
use crate::pattern::{ObjectPattern, PatternList};
use crate::window::TimeWindow;

pub(crate) const API_VERSION: &str = "ktl.dev/policy/v1";
const DEEPEST: usize = 32;
const LARGEST: usize = 1 << 20;

/// The keys of a rule that say what it checks; a rule has one of them.
pub(crate) const CHECKS: [&str; 9] =
    ["forbidKinds", "clusterScoped", "images", "changes", "secrets", "unit", "time", "workloads", "cel"];

/// Reads every document of a file. What can be read is given even if there are problems.
pub(crate) fn read_policies(source: &PolicySource, problems: &mut Problems) -> Vec<Policy> {
    let reader = YamlReader::new().max_depth(DEEPEST).max_bytes(LARGEST);
    let before = problems.len();
    let documents = reader.gather_documents(&source.text, &source.name, problems);
    let documents: Vec<YamlNode> = documents.into_iter().filter(|document| !document.is_null()).collect();
    if documents.is_empty() && problems.len() == before {
        let at = slipway_problem::Location::file(source.name.as_str());
        let problem = slipway_problem::Problem::error("there is no policy in this file").at(at);
        problems.push(problem.hint(format!("a policy starts with `apiVersion: {API_VERSION}`")));
    }
    documents.iter().map(|document| read_policy(document, &source.name, problems)).collect()
}

fn read_policy(node: &YamlNode, name: &str, problems: &mut Problems) -> Policy {
    let mut fields = FieldReader::new(node, problems);
    let version = fields.required_str("apiVersion");
    if !version.is_empty() && version != API_VERSION {
        let problem = fields.node_of("apiVersion").problem(format!("unknown apiVersion `{version}`"));
        fields.problems().push(problem.hint(format!("policies have `{API_VERSION}`")));
    }
    fields.one_of("kind", &[("Policy", ())]);
    let modes = [("enforce", PolicyMode::Enforce), ("warn", PolicyMode::Warn)];
    let mode = fields.one_of("mode", &modes).unwrap_or_default();
    let applies = fields.fields("match", |target| TargetMatch {
        environments: PatternList::read(target, "envs"),
        clusters: PatternList::read(target, "clusters"),
        namespaces: PatternList::read(target, "namespaces"),
    });
    let mut ids = BTreeSet::new();
    let is_listed = fields.required("rules").is_some_and(|rules| rules.as_seq().is_some_and(<[_]>::is_empty));
    if is_listed {
        fields.report_problem("rules", "`rules` is empty: the policy says nothing");
    }
    let rules = fields.list("rules", |rule| read_rule(rule, &mut ids));
    let exceptions = fields.list("exceptions", |exception| read_exception(exception, &ids));
    fields.finish();
    Policy { name: name.to_owned(), mode, applies: applies.unwrap_or_default(), rules, exceptions }
}

fn read_rule(fields: &mut FieldReader<'_, '_>, ids: &mut BTreeSet<String>) -> Option<PolicyRule> {
    let id = fields.required_str("id").to_owned();
    if !id.is_empty() && !ids.insert(id.clone()) {
        let problem = fields.node_of("id").problem(format!("there are two rules `{id}`"));
        fields.problems().push(problem.hint("results and exceptions name a rule by its id"));
    }
    let given: Vec<&str> = CHECKS.into_iter().filter(|key| fields.has_key(key)).collect();
    match given[..] {
        [_] => {}
        [] => {
            let problem = fields.node().problem(format!("the rule `{id}` checks nothing"));
            let known: Vec<String> = CHECKS.iter().map(|key| format!("`{key}`")).collect();
            fields.problems().push(problem.hint(format!("a rule has one of {}", known.join(", "))));
        }
        [first, second, ..] => {
            let problem =
                fields.node_of(second).problem(format!("the rule `{id}` has `{first}` and `{second}`"));
            fields.problems().push(problem.hint("make two rules of it, each with an id of its own"));
        }
    }
    let check = read_checks(fields);
    Some(PolicyRule { id, check: check? })
}

/// Reads whichever check is there, so that each is known to the reader and the mistakes of all are found.
fn read_checks(fields: &mut FieldReader<'_, '_>) -> Option<RuleCheck> {
    let kinds = fields.has_key("forbidKinds").then(|| filled_patterns(fields, "forbidKinds"));
    fields.ignore("forbidKinds");
    let scope = fields.one_of("clusterScoped", &[("deny", ScopeCheck::All)]);
    let images = fields.fields("images", read_images);
    let changes = fields.fields("changes", read_changes);
    let secrets = fields.fields("secrets", |secrets| filled_patterns(secrets, "approvedProviders"));
    let unit = fields.fields("unit", read_unit);
    let time = fields.fields("time", read_windows);
    let workloads = fields.fields("workloads", read_workloads);
    let expression = read_expression(fields);
    kinds
        .map(RuleCheck::ForbidKinds)
        .or(scope.map(RuleCheck::ClusterScoped))
        .or(images.map(RuleCheck::Images))
        .or(changes.map(RuleCheck::Changes))
        .or(secrets.map(RuleCheck::Secrets))
        .or(unit.map(RuleCheck::Unit))
        .or(time.map(RuleCheck::Time))
        .or(workloads.map(RuleCheck::Workloads))
        .or(expression.map(RuleCheck::Expression))
}

/// A list of patterns that must not be empty.
fn filled_patterns(fields: &mut FieldReader<'_, '_>, key: &'static str) -> PatternList {
    let before = fields.problems().len();
    fields.required(key);
    let patterns = PatternList::read(fields, key);
    if patterns.is_empty() && fields.problems().len() == before {
        fields.report_problem(key, format!("`{key}` is empty"));
    }
    patterns
}

/// Reports a check in which no setting is given.
fn require_settings(fields: &mut FieldReader<'_, '_>, keys: &[&str]) {
    if keys.iter().all(|key| !fields.has_key(key)) {
        let known: Vec<String> = keys.iter().map(|key| format!("`{key}`")).collect();
        let problem = fields.node().problem("the check has no setting");
        fields.problems().push(problem.hint(format!("give {}", known.join(" or "))));
    }
}

fn read_images(fields: &mut FieldReader<'_, '_>) -> ImageCheck {
    require_settings(fields, &["requireDigest", "registries", "forbidTags"]);
    ImageCheck {
        require_digest: fields.bool("requireDigest").unwrap_or_default(),
        registries: PatternList::read(fields, "registries"),
        forbid_tags: PatternList::read(fields, "forbidTags"),
    }
}

fn read_changes(fields: &mut FieldReader<'_, '_>) -> ChangeCheck {
    require_settings(fields, &["maxDestroy", "forbidDestroyKinds", "forbidReplace"]);
    ChangeCheck {
        max_destroy: fields.u64("maxDestroy").map(|count| usize::try_from(count).unwrap_or(usize::MAX)),
        forbid_destroy_kinds: PatternList::read(fields, "forbidDestroyKinds"),
        forbid_replace: fields.bool("forbidReplace").unwrap_or_default(),
    }
}

fn read_unit(fields: &mut FieldReader<'_, '_>) -> UnitCheck {
    require_settings(fields, &["requireSignedBy", "requireVerifiedIn", "maxAge", "requireCleanGit"]);
    let signers = fields.seq("requireSignedBy", |node, problems| {
        let key = node.as_str().filter(|key| key.strip_prefix("ed25519:").is_some_and(|key| !key.is_empty()));
        if key.is_none() {
            let problem = node.problem(format!("`{}` is no key", node.as_str().unwrap_or("this")));
            problems.push(problem.hint("write `ed25519:` and the key, as `slipway unit sign` prints it"));
        }
        key.map(str::to_owned)
    });
    let max_age = fields.text("maxAge").and_then(|text| {
        let limit = GoDuration::parse_days(&text).filter(|limit| !limit.is_zero());
        if limit.is_none() {
            let problem = fields.node_of("maxAge").problem(format!("`{text}` is not a duration"));
            fields.problems().push(problem.hint("write a number with a unit: `14d`, `36h`"));
        }
        Some(MaxAge { limit: limit?, text })
    });
    UnitCheck {
        require_signed_by: signers.into_iter().collect(),
        require_verified_in: fields.strings("requireVerifiedIn").into_iter().collect(),
        max_age,
        require_clean_git: fields.bool("requireCleanGit").unwrap_or_default(),
    }
}

fn read_windows(fields: &mut FieldReader<'_, '_>) -> Vec<TimeWindow> {
    let before = fields.problems().len();
    fields.required("allow");
    let windows = fields.seq("allow", |node, problems| {
        let text = node.as_str().unwrap_or_default();
        match TimeWindow::parse(text) {
            Ok(window) => Some(window),
            Err(problem) => {
                problems.push(node.problem(format!("`{text}` {}", problem.message())).hint(problem.hint()));
                None
            }
        }
    });
    if windows.is_empty() && fields.problems().len() == before {
        fields.report_problem("allow", "`allow` is empty: nothing could ever be changed");
    }
    windows
}

fn read_workloads(fields: &mut FieldReader<'_, '_>) -> WorkloadCheck {
    require_settings(fields, &["requireResources", "forbidPrivileged", "minReplicas"]);
    WorkloadCheck {
        require_resources: fields.bool("requireResources").unwrap_or_default(),
        forbid_privileged: fields.bool("forbidPrivileged").unwrap_or_default(),
        min_replicas: fields.u64("minReplicas"),
    }
}

fn read_expression(fields: &mut FieldReader<'_, '_>) -> Option<RuleExpression> {
    let text = fields.str("cel");
    let message = fields.string("message");
    let Some(text) = text else {
        if message.is_some() && !fields.has_key("cel") {
            let problem = fields.node_of("message").problem("`message` is for rules with `cel`");
            fields.problems().push(problem.hint("other rules say themselves what they found"));
        }
        return None;
    };
    match RuleExpression::compile(text, message) {
        Ok(expression) => Some(expression),
        Err(errors) => {
            let node = fields.node_of("cel");
            for error in errors {
                let mut problem = node.problem(format!("expression, {error}"));
                problem.hint = error.hint;
                fields.problems().push(problem);
            }
            None
        }
    }
}

fn read_exception(fields: &mut FieldReader<'_, '_>, ids: &BTreeSet<String>) -> Option<PolicyException> {
    let rule = fields.required_str("rule");
    if !rule.is_empty() && !ids.contains(rule) {
        let problem = fields.node_of("rule").problem(format!("there is no rule `{rule}`"));
        fields.problems().push(problem.did_you_mean(rule, ids.iter().map(String::as_str)));
    }
    let shown = fields.string("object");
    let object = shown.as_deref().and_then(|text| {
        let pattern = ObjectPattern::parse(text);
        if pattern.is_none() {
            let problem = fields.node_of("object").problem(format!("`{text}` names no objects"));
            let hint = "write `Kind/namespace/name`, the namespace empty for objects of the whole cluster: \
                        `ClusterRole//reader`";
            fields.problems().push(problem.hint(hint));
        }
        pattern
    });
    fields.required("until");
    let until = fields.text("until").and_then(|text| {
        let until = text.parse::<Date>().ok();
        if until.is_none() {
            let problem = fields.node_of("until").problem(format!("`{text}` is not a day"));
            fields.problems().push(problem.hint("write the last day the exception holds: `2026-12-31`"));
        }
        until
    });
    let reason = fields.required_str("reason").to_owned();
    Some(PolicyException {
        rule: rule.to_owned(),
        object,
        shown: shown.unwrap_or_default(),
        until: until?,
        reason,
    })
}
