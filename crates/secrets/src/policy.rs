//! Policy: which providers and paths a target may use. Evaluated on references alone, before any backend is asked.

use globset::{Glob, GlobBuilder, GlobMatcher};
use slipway_problem::{Location, Problem, Problems};
use slipway_yaml::{FieldReader, YamlNode};

use crate::config::{ProviderType, problem_of_type};
use crate::reference::{ProviderName, SecretReference};

/// The policy of one configuration file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Policy {
    pub(crate) forbid_implicit_providers: bool,
    pub(crate) forbid_literal_credentials: bool,
    /// Lets chart defaults hold references.
    pub(crate) allow_chart_defaults: bool,
    approved_providers: Option<Vec<ProviderName>>,
    approved_types: Option<Vec<ProviderType>>,
    rules: Vec<PolicyRule>,
}

/// Where the values go: what the conditions of rules are compared with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolicyTarget {
    pub cluster: Option<String>,
    pub namespace: Option<String>,
    pub profile: Option<String>,
    pub automation: Automation,
}

/// The kind of place a run happens in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Automation {
    /// A person's machine.
    #[default]
    Interactive,
    /// A build service.
    Ci,
}

/// A reference as a policy judges it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JudgedReference<'r> {
    pub(crate) reference: &'r SecretReference,
    pub(crate) provider: &'r ProviderName,
    pub(crate) provider_type: ProviderType,
}

/// The answer of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PolicyDecision {
    Allow,
    /// Refused by what is named.
    Deny {
        rule: String,
    },
}

#[derive(Clone, Debug)]
struct PolicyRule {
    id: String,
    when: RuleCondition,
    allow: Option<RuleMatch>,
    deny: Option<RuleMatch>,
    needs_version: bool,
}

/// Conditions on the target; what is left out fits everything.
#[derive(Clone, Debug, Default)]
struct RuleCondition {
    cluster: Vec<GlobMatcher>,
    namespace: Vec<GlobMatcher>,
    profile: Vec<GlobMatcher>,
    ci: Option<bool>,
}

/// References a rule speaks of; what is left out fits everything.
#[derive(Clone, Debug, Default)]
struct RuleMatch {
    providers: Vec<GlobMatcher>,
    types: Vec<ProviderType>,
    paths: Vec<GlobMatcher>,
}

impl Policy {
    /// Judges a reference: any matching `deny` refuses; where a matching rule has `allow`, one must fit.
    pub(crate) fn judge(&self, judged: JudgedReference<'_>, target: &PolicyTarget) -> PolicyDecision {
        let deny = |rule: &str| PolicyDecision::Deny { rule: rule.to_owned() };
        if self.approved_providers.as_ref().is_some_and(|names| !names.contains(judged.provider)) {
            return deny("approvedProviders");
        }
        if self.approved_types.as_ref().is_some_and(|types| !types.contains(&judged.provider_type)) {
            return deny("approvedTypes");
        }
        let matching: Vec<&PolicyRule> = self.rules.iter().filter(|rule| rule.when.fits(target)).collect();
        for rule in &matching {
            let is_denied = rule.deny.as_ref().is_some_and(|deny| deny.fits(judged));
            let is_unpinned = rule.needs_version && judged.reference.locator.version.is_none();
            if is_denied || is_unpinned {
                return deny(&rule.id);
            }
        }
        let mut allowing = matching.iter().filter_map(|rule| Some((rule, rule.allow.as_ref()?))).peekable();
        let first = allowing.peek().map(|(rule, _)| rule.id.clone());
        match first {
            Some(id) if !allowing.any(|(_, allow)| allow.fits(judged)) => deny(&id),
            _ => PolicyDecision::Allow,
        }
    }

    /// Reads the `policy` section.
    pub(crate) fn read(fields: &mut FieldReader<'_, '_>) -> Self {
        let has = |fields: &FieldReader<'_, '_>, key: &str| fields.has_key(key);
        fields.ignore("approvedProviders");
        fields.ignore("approvedTypes");
        let approved_providers =
            has(fields, "approvedProviders").then(|| fields.seq("approvedProviders", provider_name));
        let approved_types = has(fields, "approvedTypes").then(|| fields.seq("approvedTypes", provider_type));
        let mut seen: Vec<String> = Vec::new();
        Self {
            forbid_implicit_providers: fields.bool("implicitProviders") == Some(false),
            forbid_literal_credentials: fields.bool("forbidLiteralCredentials").unwrap_or_default(),
            allow_chart_defaults: fields.bool("allowChartDefaults").unwrap_or_default(),
            approved_providers,
            approved_types,
            rules: fields.list("rules", |rule| read_rule(rule, &mut seen)),
        }
    }
}

fn read_rule(fields: &mut FieldReader<'_, '_>, seen: &mut Vec<String>) -> Option<PolicyRule> {
    let id = fields.required_str("id").to_owned();
    if seen.contains(&id) {
        let problem =
            Problem::error(format!("there are two rules `{id}`")).at(fields.node_of("id").location());
        fields.problems().push(problem.hint("refusals name the rule: give each an id of its own"));
    }
    seen.push(id.clone());
    let when = fields.fields("when", |when| RuleCondition {
        cluster: globs(when, "cluster"),
        namespace: globs(when, "namespace"),
        profile: globs(when, "profile"),
        ci: when.bool("ci"),
    });
    let allow = fields.fields("allow", |allow| RuleMatch::read(allow, "allow"));
    let deny = fields.fields("deny", |deny| RuleMatch::read(deny, "deny"));
    let require = fields.fields("require", |require| require.bool("version") == Some(true));
    if allow.is_none() && deny.is_none() && require.is_none() {
        let at: Location = fields.node().location();
        let problem = Problem::error(format!("the rule `{id}` says nothing")).at(at);
        fields.problems().push(problem.hint("a rule has `allow`, `deny` or `require`"));
    }
    Some(PolicyRule {
        id,
        when: when.unwrap_or_default(),
        allow,
        deny,
        needs_version: require.unwrap_or_default(),
    })
}

impl RuleCondition {
    fn fits(&self, target: &PolicyTarget) -> bool {
        let one = |globs: &[GlobMatcher], value: &Option<String>| {
            globs.is_empty()
                || value.as_ref().is_some_and(|value| globs.iter().any(|glob| glob.is_match(value)))
        };
        let is_ci = target.automation == Automation::Ci;
        one(&self.cluster, &target.cluster)
            && one(&self.namespace, &target.namespace)
            && one(&self.profile, &target.profile)
            && self.ci.is_none_or(|ci| ci == is_ci)
    }
}

impl RuleMatch {
    fn read(fields: &mut FieldReader<'_, '_>, what: &str) -> Self {
        let providers = globs(fields, "providers");
        let paths = globs(fields, "paths");
        let types = fields.seq("types", provider_type);
        let is_given = ["providers", "paths", "types"].iter().any(|key| fields.has_key(key));
        if !is_given {
            let problem =
                Problem::error(format!("`{what}` names no references")).at(fields.node().location());
            fields.problems().push(problem.hint("give `providers`, `types` or `paths`"));
        }
        Self { providers, types, paths }
    }

    fn fits(&self, judged: JudgedReference<'_>) -> bool {
        let path = &judged.reference.locator.path;
        (self.providers.is_empty()
            || self.providers.iter().any(|glob| glob.is_match(judged.provider.as_str())))
            && (self.types.is_empty() || self.types.contains(&judged.provider_type))
            && (self.paths.is_empty() || self.paths.iter().any(|glob| glob.is_match(path)))
    }
}

fn provider_name(node: &YamlNode, problems: &mut Problems) -> Option<ProviderName> {
    let text = node.as_str().unwrap_or_default();
    let name = ProviderName::parse(text);
    if name.is_none() {
        let problem = Problem::error(format!("`{text}` is no name of a provider")).at(node.location());
        problems.push(problem.hint("letters, digits and dashes, at most 63"));
    }
    name
}

fn provider_type(node: &YamlNode, problems: &mut Problems) -> Option<ProviderType> {
    let text = node.as_str().unwrap_or_default();
    let found = ProviderType::parse(text);
    if found.is_none() {
        let problem = Problem::error(format!("unknown type of provider `{text}`")).at(node.location());
        problems.push(problem_of_type(problem, text));
    }
    found
}

fn globs(fields: &mut FieldReader<'_, '_>, key: &'static str) -> Vec<GlobMatcher> {
    fields.seq(key, |node, problems| {
        let pattern: Option<Glob> =
            node.as_str().and_then(|text| GlobBuilder::new(text).literal_separator(false).build().ok());
        if pattern.is_none() {
            problems.push(
                Problem::error(format!("`{key}` has no valid pattern"))
                    .at(node.location())
                    .hint("`*` stands for anything"),
            );
        }
        pattern.map(|glob| glob.compile_matcher())
    })
}
