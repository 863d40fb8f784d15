//! The `werf.io/*` and `helm.sh/*` annotations, read once into what they mean.

use std::collections::BTreeMap;
use std::time::Duration;

use regex::Regex;
use serde_json::Value;
use slipway_cluster::track::Condition;
use slipway_manifest::diff::redact::SensitivePath;
use slipway_manifest::object::split_api_version;
use slipway_manifest::{Gvk, ObjectId, object};
use slipway_problem::{Problem, Problems};

use super::text::{self, Property};
use super::{Origin, Stored, is_crd, is_namespace, is_webhook_configuration};
use crate::stage::Stage;

/// The reason a release is planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DeployType {
    Install,
    Upgrade,
    Rollback,
    Delete,
    Test,
}

impl DeployType {
    /// Tells that a revision is made.
    pub fn makes_revision(self) -> bool {
        matches!(self, Self::Install | Self::Upgrade | Self::Rollback)
    }
}

/// The owner of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ownership {
    Release,
    Anyone,
}

/// The time at which an object goes away by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DeletePolicy {
    BeforeCreation,
    BeforeCreationIfImmutable,
    Succeeded,
    Failed,
}

/// The fate of an object's dependents when it is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Propagation {
    #[default]
    Foreground,
    Background,
    Orphan,
}

/// Selects objects of the release; absent parts match anything.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectSelector {
    pub group: Option<String>,
    pub version: Option<String>,
    pub kind: Option<String>,
    /// Empty for the release's own namespace and for objects of the whole cluster.
    pub namespace: Option<String>,
    pub name: Option<String>,
}

impl ObjectSelector {
    /// Exactly one object, in any version.
    pub fn exactly(group: &str, kind: &str, namespace: Option<&str>, name: &str) -> Self {
        Self {
            group: Some(group.to_owned()),
            version: None,
            kind: Some(kind.to_owned()),
            namespace: namespace.map(str::to_owned),
            name: Some(name.to_owned()),
        }
    }

    pub fn matches(&self, gvk: &Gvk, id: &ObjectId) -> bool {
        let is =
            |wanted: &Option<String>, found: &str| wanted.as_deref().is_none_or(|wanted| wanted == found);
        is(&self.group, &gvk.group)
            && is(&self.version, &gvk.version)
            && is(&self.kind, &gvk.kind)
            && is(&self.namespace, &id.namespace)
            && is(&self.name, &id.name)
    }
}

impl std::fmt::Display for ObjectSelector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let parts = [
            ("group", &self.group),
            ("version", &self.version),
            ("kind", &self.kind),
            ("namespace", &self.namespace),
            ("name", &self.name),
        ];
        let mut first = true;
        for (key, value) in parts {
            if let Some(value) = value {
                write!(f, "{}{key}={value}", if first { "" } else { "," })?;
                first = false;
            }
        }
        Ok(())
    }
}

/// The state of another object that is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NeedState {
    Present,
    Ready,
    Absent,
}

/// A dependency written by hand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectNeed {
    /// The annotation it is written in.
    pub annotation: String,
    pub selector: ObjectSelector,
    pub state: NeedState,
}

/// Something outside of the release an object waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExternalNeed {
    pub annotation: String,
    pub target: ExternalTarget,
    /// `None` is the release's.
    pub namespace: Option<String>,
    pub name: String,
}

/// The kind of an external dependency, as it is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExternalTarget {
    Kind(Gvk),
    /// As kubectl names it: `deploy`, `deployments.v1.apps`.
    Word(String),
}

/// The consequence of a failed object for the release.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FailMode {
    #[default]
    Fail,
    Ignore,
}

/// Rules by which readiness and logs of an object are followed.
#[derive(Clone, Debug, Default)]
pub struct TrackingSettings {
    /// Do not wait for it.
    pub non_blocking: bool,
    pub fail_mode: FailMode,
    pub failures_allowed_per_replica: Option<u64>,
    pub ignore_probe_failures: BTreeMap<String, Duration>,
    pub no_activity_timeout: Option<Duration>,
    /// Time limit for becoming ready; zero for none.
    pub ready_timeout: Option<Duration>,
    pub log_regex: Option<Regex>,
    pub log_regex_for: BTreeMap<String, Regex>,
    pub log_regex_skip: Option<Regex>,
    pub log_regex_skip_for: BTreeMap<String, Regex>,
    pub skip_logs: bool,
    pub skip_logs_for: Vec<String>,
    pub logs_only_for: Vec<String>,
    pub logs_replicas: Option<u64>,
    pub service_messages: bool,
    pub ready_when: Option<Condition>,
    pub failed_when: Option<Condition>,
}

/// Everything annotations say about one object.
#[derive(Clone, Debug)]
pub struct ResourceSettings {
    pub deploy_on: Vec<(DeployType, Stage)>,
    /// `None` when a dependency written by hand takes its place, or when it comes last.
    pub weight: Option<i64>,
    /// A webhook configuration without a place of its own: deployed once the rest of its stage is ready, for
    /// until then the server could not reach what serves it.
    pub comes_last: bool,
    pub ownership: Ownership,
    pub delete_policies: Vec<DeletePolicy>,
    pub skip_create: bool,
    pub skip_update: bool,
    pub skip_recreate: bool,
    pub skip_delete: bool,
    pub propagation: Option<Propagation>,
    pub replicas_on_creation: Option<u64>,
    pub needs: Vec<ObjectNeed>,
    pub delete_needs: Vec<ObjectNeed>,
    pub externals: Vec<ExternalNeed>,
    pub tracking: TrackingSettings,
    /// Fields left to others: `spec.replicas`.
    pub ignore_fields: Vec<String>,
    /// The object itself states some resource policy.
    pub states_policy: bool,
}

impl ResourceSettings {
    pub fn has(&self, policy: DeletePolicy) -> bool {
        self.delete_policies.contains(&policy)
    }
}

const DEPLOY_ON: [(&str, DeployType, Stage); 14] = [
    ("pre-install", DeployType::Install, Stage::PreInstall),
    ("install", DeployType::Install, Stage::Install),
    ("post-install", DeployType::Install, Stage::PostInstall),
    ("pre-upgrade", DeployType::Upgrade, Stage::PreInstall),
    ("upgrade", DeployType::Upgrade, Stage::Install),
    ("post-upgrade", DeployType::Upgrade, Stage::PostInstall),
    ("pre-rollback", DeployType::Rollback, Stage::PreInstall),
    ("rollback", DeployType::Rollback, Stage::Install),
    ("post-rollback", DeployType::Rollback, Stage::PostInstall),
    ("pre-delete", DeployType::Delete, Stage::PreInstall),
    ("delete", DeployType::Delete, Stage::Install),
    ("post-delete", DeployType::Delete, Stage::PostInstall),
    ("test", DeployType::Test, Stage::Install),
    ("test-success", DeployType::Test, Stage::Install),
];

/// The events Helm knows.
pub const HOOK_EVENTS: [&str; 10] = [
    "pre-install",
    "post-install",
    "pre-upgrade",
    "post-upgrade",
    "pre-rollback",
    "post-rollback",
    "pre-delete",
    "post-delete",
    "test",
    "test-success",
];

const HOOK: &str = "helm.sh/hook";
const SLIPWAY: &str = "slipway.dev/";

/// The strictness with which annotations are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadMode {
    /// Mistakes are problems: for what is about to be deployed.
    Strict,
    /// Mistakes become the safe choice: for what an earlier revision stored.
    Lenient,
}

/// Reads what the annotations of an object ask for, with every problem.
pub fn read(
    object: &Value,
    stored: Stored,
    origin: &Origin,
    release_namespace: &str,
    reading: ReadMode,
) -> (ResourceSettings, Problems) {
    let mut reader = Reader { object, origin, problems: Problems::new(), reading };
    let gvk = object::gvk(object);
    let is_hook = stored == Stored::Hook;
    let first = is_crd(&gvk) || is_namespace(&gvk);
    let is_own_namespace = is_namespace(&gvk) && object::name(object) == Some(release_namespace);

    let mut deploy_on = reader.deploy_on(is_hook);
    if first {
        for (_, stage) in &mut deploy_on {
            *stage = Stage::PrePreInstall;
        }
    }
    let comes_last = is_webhook_configuration(&gvk)
        && !is_hook
        && !reader.has("werf.io/deploy-on")
        && !reader.has("werf.io/weight");
    let mut needs = reader.deploy_needs(release_namespace);
    let mut externals = reader.externals(release_namespace);
    if is_crd(&gvk) {
        needs.clear();
        externals.clear();
    }
    let weight = reader.weight(is_hook);
    let weight = if first {
        Some(0)
    } else if needs.is_empty() && !comes_last {
        Some(weight)
    } else {
        None
    };
    let ownership = if stored == Stored::Aside || is_own_namespace {
        Ownership::Anyone
    } else {
        reader.ownership(if is_hook { Ownership::Anyone } else { Ownership::Release })
    };
    let delete_policies = reader.delete_policies(is_hook, &gvk);
    let (policies, states_policy) = reader.resource_policies();
    let settings = ResourceSettings {
        deploy_on,
        weight,
        comes_last,
        ownership,
        delete_policies,
        skip_create: policies.contains(&"skip-create"),
        skip_update: policies.contains(&"skip-update"),
        skip_recreate: policies.contains(&"skip-recreate"),
        skip_delete: policies.contains(&"skip-delete") || is_own_namespace,
        propagation: reader.propagation(),
        replicas_on_creation: reader.count("werf.io/replicas-on-creation"),
        needs,
        delete_needs: reader.delete_needs(release_namespace),
        externals,
        tracking: reader.tracking(),
        ignore_fields: reader.list(&format!("{SLIPWAY}ignore-fields")).unwrap_or_default(),
        states_policy,
    };
    let problems = if reading == ReadMode::Lenient { Problems::new() } else { reader.problems };
    (settings, problems)
}

struct Reader<'a> {
    object: &'a Value,
    origin: &'a Origin,
    problems: Problems,
    reading: ReadMode,
}

impl<'a> Reader<'a> {
    fn get(&self, key: &str) -> Option<&'a str> {
        object::annotation(self.object, key).map(str::trim)
    }

    fn has(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    fn wrong(&mut self, key: &str, problem: Problem) {
        let what = super::human(&ObjectId::of(self.object));
        let problem = Problem { message: format!("{what}: {}", problem.message), ..problem };
        self.problems.push(self.origin.blame(self.object, key, problem));
    }

    fn not_one_of(&mut self, key: &str, found: &str, words: &[&str]) {
        let problem =
            Problem::error(format!("annotation `{key}`: `{found}` is not one of {}", words.join(", ")))
                .did_you_mean(found, words.iter().copied());
        self.wrong(key, problem);
    }

    fn expected(&mut self, key: &str, found: &str, what: &str) {
        self.wrong(key, Problem::error(format!("annotation `{key}`: `{found}` is not {what}")));
    }

    fn deploy_on(&mut self, is_hook: bool) -> Vec<(DeployType, Stage)> {
        let place =
            |word: &str| DEPLOY_ON.iter().find(|(name, ..)| *name == word).map(|found| (found.1, found.2));
        let mut found = Vec::new();
        if let Some(text) = self.get("werf.io/deploy-on") {
            let words: Vec<&str> = DEPLOY_ON.iter().map(|(name, ..)| *name).collect();
            for word in text.split(',').map(str::trim) {
                match place(word) {
                    Some(place) => found.push(place),
                    None => self.not_one_of("werf.io/deploy-on", word, &words),
                }
            }
        } else if is_hook {
            for word in self.get(HOOK).unwrap_or_default().split(',').map(str::trim) {
                let word = word.to_lowercase();
                match place(&word) {
                    Some(place) if HOOK_EVENTS.contains(&word.as_str()) => found.push(place),
                    // Helm ignores what it does not know, such as `crd-install` of Helm 2.
                    _ => {
                        let problem = Problem::warning(format!("annotation `{HOOK}`: `{word}` is ignored"))
                            .did_you_mean(&word, HOOK_EVENTS);
                        self.wrong(HOOK, problem);
                    }
                }
            }
        } else {
            found = [DeployType::Install, DeployType::Upgrade, DeployType::Rollback]
                .map(|when| (when, Stage::Install))
                .to_vec();
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    fn weight(&mut self, is_hook: bool) -> i64 {
        if let Some(text) = self.get("werf.io/weight") {
            return text.parse().unwrap_or_else(|_| {
                self.expected("werf.io/weight", text, "a whole number");
                0
            });
        }
        if is_hook && let Some(text) = self.get("helm.sh/hook-weight") {
            // Helm takes what it cannot read for 0.
            return text.parse().unwrap_or_else(|_| {
                let problem = Problem::warning(format!(
                    "annotation `helm.sh/hook-weight`: `{text}` is not a whole number"
                ));
                self.wrong("helm.sh/hook-weight", problem.hint("it counts as 0, as with Helm"));
                0
            });
        }
        0
    }

    fn ownership(&mut self, usual: Ownership) -> Ownership {
        match self.get("werf.io/ownership") {
            None => usual,
            Some("anyone") => Ownership::Anyone,
            Some("release") => Ownership::Release,
            Some(other) => {
                self.not_one_of("werf.io/ownership", other, &["anyone", "release"]);
                Ownership::Release
            }
        }
    }

    fn delete_policies(&mut self, is_hook: bool, gvk: &Gvk) -> Vec<DeletePolicy> {
        use DeletePolicy::{BeforeCreation, BeforeCreationIfImmutable, Failed, Succeeded};
        const KEY: &str = "werf.io/delete-policy";
        let mut found = Vec::new();
        if let Some(text) = self.get(KEY) {
            for word in text.split(',').map(str::trim).filter(|_| !text.is_empty()) {
                found.push(match word {
                    "before-creation" => BeforeCreation,
                    "before-creation-if-immutable" => BeforeCreationIfImmutable,
                    "succeeded" => Succeeded,
                    "failed" => Failed,
                    other => {
                        let words =
                            ["before-creation", "before-creation-if-immutable", "succeeded", "failed"];
                        self.not_one_of(KEY, other, &words);
                        continue;
                    }
                });
            }
        } else if is_hook {
            const HELM: &str = "helm.sh/hook-delete-policy";
            match self.get(HELM) {
                None | Some("") => found.push(BeforeCreation),
                Some(text) => {
                    for word in text.split(',').map(str::trim) {
                        match word.to_lowercase().as_str() {
                            "before-hook-creation" => found.push(BeforeCreation),
                            "hook-succeeded" => found.push(Succeeded),
                            "hook-failed" => found.push(Failed),
                            other => {
                                let words = ["before-hook-creation", "hook-succeeded", "hook-failed"];
                                let problem =
                                    Problem::warning(format!("annotation `{HELM}`: `{other}` is ignored"))
                                        .did_you_mean(other, words);
                                self.wrong(HELM, problem);
                            }
                        }
                    }
                }
            }
        }
        if gvk.group == "batch" && gvk.kind == "Job" && found.is_empty() && !self.has(KEY) && !is_hook {
            found.push(BeforeCreationIfImmutable);
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// The policies, and whether any annotation states one.
    fn resource_policies(&mut self) -> (Vec<&'static str>, bool) {
        const KEY: &str = "werf.io/resource-policy";
        const WORDS: [&str; 5] = ["skip-create", "skip-update", "skip-recreate", "skip-delete", "keep"];
        if let Some(text) = self.get(KEY) {
            let mut found = Vec::new();
            for word in text.split(',').map(str::trim) {
                match WORDS.iter().find(|known| **known == word) {
                    Some(&"keep") => found.push("skip-delete"),
                    Some(known) => found.push(*known),
                    None => {
                        self.not_one_of(KEY, word, &WORDS);
                        // What cannot be read must not be deleted.
                        found.push("skip-delete");
                    }
                }
            }
            return (found, true);
        }
        match self.get("helm.sh/resource-policy") {
            Some(text) if text.eq_ignore_ascii_case("keep") => (vec!["skip-delete"], true),
            Some(_) if self.reading == ReadMode::Lenient => (vec!["skip-delete"], true),
            _ => (Vec::new(), false),
        }
    }

    fn propagation(&mut self) -> Option<Propagation> {
        const KEY: &str = "werf.io/delete-propagation";
        match self.get(KEY)? {
            "Foreground" => Some(Propagation::Foreground),
            "Background" => Some(Propagation::Background),
            "Orphan" => Some(Propagation::Orphan),
            other => {
                self.not_one_of(KEY, other, &["Foreground", "Background", "Orphan"]);
                Some(Propagation::Foreground)
            }
        }
    }

    fn count(&mut self, key: &str) -> Option<u64> {
        let text = self.get(key)?;
        let found = text.parse().ok();
        if found.is_none() {
            self.expected(key, text, "a whole number of 0 or more");
        }
        found
    }

    fn flag(&mut self, key: &str) -> bool {
        let Some(text) = self.get(key) else { return false };
        text::boolean(text).unwrap_or_else(|| {
            self.not_one_of(key, text, &["true", "false"]);
            false
        })
    }

    fn list(&mut self, key: &str) -> Option<Vec<String>> {
        let text = self.get(key)?;
        Some(text.split(',').map(str::trim).filter(|word| !word.is_empty()).map(str::to_owned).collect())
    }

    fn time(&mut self, key: &str) -> Option<Duration> {
        let text = self.get(key)?;
        let found = slipway_go::time::Duration::parse_unsigned(text);
        if found.is_none() {
            self.expected(key, text, "a duration such as `1m30s`");
        }
        found
    }

    fn regex(&mut self, key: &str) -> Option<Regex> {
        let text = self.get(key)?;
        let parsed = Regex::new(text).ok();
        if parsed.is_none() {
            self.expected(key, text, "a regular expression");
        }
        parsed
    }

    fn condition(&mut self, name: &str) -> Option<Condition> {
        let key = format!("{SLIPWAY}{name}");
        let text = self.get(&key)?;
        let parsed = Condition::parse(text).ok();
        if parsed.is_none() {
            self.expected(&key, text, "a condition such as `{.status.phase}==Running`");
        }
        parsed
    }

    fn keys_after(&self, prefix: &str) -> Vec<(&'a str, &'a str)> {
        let keys = object::annotations(self.object);
        keys.filter_map(|(key, _)| Some((key, key.strip_prefix(prefix)?)))
            .filter(|(_, id)| !id.is_empty())
            .collect()
    }

    fn tracking(&mut self) -> TrackingSettings {
        const MODE: &str = "werf.io/track-termination-mode";
        const FAIL: &str = "werf.io/fail-mode";
        let non_blocking = match self.get(MODE) {
            None | Some("WaitUntilResourceReady") => false,
            Some("NonBlocking") => true,
            Some(other) => {
                self.not_one_of(MODE, other, &["WaitUntilResourceReady", "NonBlocking"]);
                false
            }
        };
        let fail_mode = match self.get(FAIL) {
            None | Some("FailWholeDeployProcessImmediately" | "HopeUntilEndOfDeployProcess") => {
                FailMode::Fail
            }
            Some("IgnoreAndContinueDeployProcess") => FailMode::Ignore,
            Some(other) => {
                let words = [
                    "FailWholeDeployProcessImmediately",
                    "IgnoreAndContinueDeployProcess",
                    "HopeUntilEndOfDeployProcess",
                ];
                self.not_one_of(FAIL, other, &words);
                FailMode::Fail
            }
        };
        let mut tracking = TrackingSettings {
            non_blocking,
            fail_mode,
            failures_allowed_per_replica: self.count("werf.io/failures-allowed-per-replica"),
            no_activity_timeout: self.time("werf.io/no-activity-timeout").filter(|time| !time.is_zero()),
            ready_timeout: self.time(&format!("{SLIPWAY}ready-timeout")),
            log_regex: self.regex("werf.io/log-regex"),
            log_regex_skip: self.regex("werf.io/log-regex-skip"),
            skip_logs: self.flag("werf.io/skip-logs"),
            skip_logs_for: self.list("werf.io/skip-logs-for-containers").unwrap_or_default(),
            logs_only_for: self.list("werf.io/show-logs-only-for-containers").unwrap_or_default(),
            logs_replicas: self.count("werf.io/show-logs-only-for-number-of-replicas"),
            service_messages: self.flag("werf.io/show-service-messages"),
            ready_when: self.condition("ready-when"),
            failed_when: self.condition("failed-when"),
            ..TrackingSettings::default()
        };
        for (key, container) in self.keys_after("werf.io/ignore-readiness-probe-fails-for-") {
            if let Some(time) = self.time(key) {
                tracking.ignore_probe_failures.insert(container.to_owned(), time);
            }
        }
        for (key, container) in self.keys_after("werf.io/log-regex-for-") {
            if let Some(regex) = self.regex(key) {
                tracking.log_regex_for.insert(container.to_owned(), regex);
            }
        }
        for (key, container) in self.keys_after("werf.io/log-regex-skip-for-") {
            if let Some(regex) = self.regex(key) {
                tracking.log_regex_skip_for.insert(container.to_owned(), regex);
            }
        }
        self.flag("werf.io/sensitive");
        self.sensitive_paths();
        tracking
    }

    /// Checks the paths that are to be hidden; they are read again where they are hidden.
    fn sensitive_paths(&mut self) {
        const KEY: &str = "werf.io/sensitive-paths";
        for path in self.list(KEY).unwrap_or_default() {
            if SensitivePath::parse(&path).is_none() {
                self.expected(KEY, &path, "a path such as `$.spec.containers[*].env[*].value`");
            }
        }
    }

    fn selector(
        &mut self,
        key: &str,
        release_namespace: &str,
        states: &[&str],
    ) -> Option<(ObjectSelector, String)> {
        let text = object::annotation(self.object, key).unwrap_or_default();
        let mut selector = ObjectSelector::default();
        let mut state = None;
        let mut sound = true;
        for (name, value) in text::properties(text) {
            let value = match value {
                Property::Text(value) if !value.is_empty() => value,
                _ => {
                    self.wrong(key, Problem::error(format!("annotation `{key}`: `{name}` needs a value")));
                    sound = false;
                    continue;
                }
            };
            match name.as_str() {
                "state" => state = Some(value),
                "name" => selector.name = Some(value),
                "namespace" => {
                    selector.namespace = Some(if value == release_namespace { String::new() } else { value });
                }
                "kind" => selector.kind = Some(value),
                "group" => selector.group = Some(value),
                "version" => selector.version = Some(value),
                other => {
                    let words = ["state", "name", "namespace", "kind", "group", "version"];
                    self.not_one_of(key, other, &words);
                    sound = false;
                }
            }
        }
        if selector == ObjectSelector::default() {
            let problem = Problem::error(format!("annotation `{key}` selects nothing"))
                .hint("give one of name, namespace, kind, group, version");
            self.wrong(key, problem);
            sound = false;
        }
        let state = match state {
            Some(state) if states.contains(&state.as_str()) => state,
            Some(other) => {
                self.not_one_of(key, &other, states);
                return None;
            }
            None if states.len() == 1 => states[0].to_owned(),
            None => {
                let problem = Problem::error(format!("annotation `{key}` says no state"))
                    .hint(format!("add `state={}`", states.join("` or `state=")));
                self.wrong(key, problem);
                return None;
            }
        };
        sound.then_some((selector, state))
    }

    fn deploy_needs(&mut self, release_namespace: &str) -> Vec<ObjectNeed> {
        let mut needs = Vec::new();
        for (key, _) in self.keys_after("werf.io/deploy-dependency-") {
            if let Some((selector, state)) = self.selector(key, release_namespace, &["present", "ready"]) {
                let state = if state == "ready" { NeedState::Ready } else { NeedState::Present };
                needs.push(ObjectNeed { annotation: key.to_owned(), selector, state });
            }
        }
        let keys: Vec<&str> = object::annotations(self.object).map(|(key, _)| key).collect();
        for key in keys {
            let Some(id) = key.strip_suffix(".dependency.werf.io") else { continue };
            if id.is_empty() {
                continue;
            }
            if let Some((gvk, namespace, name)) = self.coordinates(key) {
                let namespace = namespace.filter(|given| given != release_namespace).unwrap_or_default();
                let selector = ObjectSelector {
                    group: Some(gvk.group),
                    version: Some(gvk.version),
                    kind: Some(gvk.kind),
                    namespace: Some(namespace),
                    name: Some(name),
                };
                needs.push(ObjectNeed { annotation: key.to_owned(), selector, state: NeedState::Present });
            }
        }
        needs
    }

    fn delete_needs(&mut self, release_namespace: &str) -> Vec<ObjectNeed> {
        let mut needs = Vec::new();
        for (key, _) in self.keys_after("werf.io/delete-dependency-") {
            if let Some((selector, _)) = self.selector(key, release_namespace, &["absent"]) {
                needs.push(ObjectNeed { annotation: key.to_owned(), selector, state: NeedState::Absent });
            }
        }
        needs
    }

    /// Reads `apiVersion:kind[:namespace]:name`.
    fn coordinates(&mut self, key: &str) -> Option<(Gvk, Option<String>, String)> {
        let text = self.get(key).unwrap_or_default();
        let parts: Vec<&str> = text.split(':').map(str::trim).collect();
        let (api_version, kind, namespace, name) = match parts.as_slice() {
            [api_version, kind, name] => (*api_version, *kind, None, *name),
            [api_version, kind, namespace, name] => {
                (*api_version, *kind, Some((*namespace).to_owned()), *name)
            }
            _ => ("", "", None, ""),
        };
        if api_version.is_empty() || kind.is_empty() || name.is_empty() {
            self.expected(key, text, "`apiVersion:kind[:namespace]:name`");
            return None;
        }
        let (group, version) = split_api_version(api_version);
        Some((Gvk::new(group, version, kind), namespace.filter(|given| !given.is_empty()), name.to_owned()))
    }

    fn externals(&mut self, release_namespace: &str) -> Vec<ExternalNeed> {
        const SUFFIX: &str = ".external-dependency.werf.io";
        let own = |namespace: Option<String>| namespace.filter(|given| given != release_namespace);
        let mut found: BTreeMap<String, ExternalNeed> = BTreeMap::new();
        let keys: Vec<&str> = object::annotations(self.object).map(|(key, _)| key).collect();
        for key in &keys {
            let Some(id) = key.strip_suffix(SUFFIX).filter(|id| !id.is_empty()) else { continue };
            if let Some((gvk, namespace, name)) = self.coordinates(key) {
                let external = ExternalNeed {
                    annotation: (*key).to_owned(),
                    target: ExternalTarget::Kind(gvk),
                    namespace: own(namespace),
                    name,
                };
                found.insert(id.to_owned(), external);
            }
        }
        for key in &keys {
            let Some(id) = key.strip_suffix("/resource").and_then(|key| key.strip_suffix(SUFFIX)) else {
                continue;
            };
            let text = self.get(key).unwrap_or_default();
            let parts = text.split_once('/').filter(|(kind, name)| {
                !name.is_empty() && *kind != "all" && kind.split('.').all(|part| !part.is_empty())
            });
            let Some((kind, name)) = parts else {
                self.expected(key, text, "`type[.version.group]/name`");
                continue;
            };
            let place = format!("{id}{SUFFIX}/namespace");
            let namespace = self.get(&place).map(str::to_owned);
            if namespace.as_deref() == Some("") {
                self.expected(&place, "", "a namespace");
            }
            let external = ExternalNeed {
                annotation: (*key).to_owned(),
                target: ExternalTarget::Word(kind.to_owned()),
                namespace: own(namespace),
                name: name.to_owned(),
            };
            found.insert(id.to_owned(), external);
        }
        found.into_values().collect()
    }
}
