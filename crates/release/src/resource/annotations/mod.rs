//! Reads the `werf.io/*` and `helm.sh/*` annotations once into what they mean.

mod needs;
mod tracking;

use std::time::Duration;

use regex::Regex;
use serde_json::Value;
use slipway_cluster::track::Condition;
use slipway_manifest::{Gvk, ObjectId, object};
use slipway_problem::{Problem, Problems};

use super::{
    DeletePolicy, DeployType, Origin, Ownership, Propagation, ResourceSettings, Stored, is_crd, is_namespace,
    is_webhook_configuration, text,
};
use crate::stage::Stage;

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
        let what = ObjectId::of(self.object);
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
}
