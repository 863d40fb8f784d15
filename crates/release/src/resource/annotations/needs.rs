//! Reads the annotations that say what an object waits for, in the release and outside of it.

use std::collections::BTreeMap;

use slipway_manifest::object::split_api_version;
use slipway_manifest::{Gvk, object};
use slipway_problem::Problem;

use super::super::text::{self, Property};
use super::super::{ExternalNeed, ExternalTarget, NeedState, ObjectNeed, ObjectSelector};
use super::AnnotationReader;

impl AnnotationReader<'_> {
    fn read_selector(
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
                    self.report_problem(
                        key,
                        Problem::error(format!("annotation `{key}`: `{name}` needs a value")),
                    );
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
                    self.report_not_one_of(key, other, &words);
                    sound = false;
                }
            }
        }
        if selector == ObjectSelector::default() {
            let problem = Problem::error(format!("annotation `{key}` selects nothing"))
                .hint("give one of name, namespace, kind, group, version");
            self.report_problem(key, problem);
            sound = false;
        }
        let state = match state {
            Some(state) if states.contains(&state.as_str()) => state,
            Some(other) => {
                self.report_not_one_of(key, &other, states);
                return None;
            }
            None if states.len() == 1 => states[0].to_owned(),
            None => {
                let problem = Problem::error(format!("annotation `{key}` says no state"))
                    .hint(format!("add `state={}`", states.join("` or `state=")));
                self.report_problem(key, problem);
                return None;
            }
        };
        sound.then_some((selector, state))
    }

    pub(super) fn read_deploy_needs(&mut self, release_namespace: &str) -> Vec<ObjectNeed> {
        let mut needs = Vec::new();
        for (key, _) in self.keys_after("werf.io/deploy-dependency-") {
            if let Some((selector, state)) = self.read_selector(key, release_namespace, &["present", "ready"])
            {
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
            if let Some((gvk, namespace, name)) = self.read_coordinates(key) {
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

    pub(super) fn read_delete_needs(&mut self, release_namespace: &str) -> Vec<ObjectNeed> {
        let mut needs = Vec::new();
        for (key, _) in self.keys_after("werf.io/delete-dependency-") {
            if let Some((selector, _)) = self.read_selector(key, release_namespace, &["absent"]) {
                needs.push(ObjectNeed { annotation: key.to_owned(), selector, state: NeedState::Absent });
            }
        }
        needs
    }

    /// Reads `apiVersion:kind[:namespace]:name`.
    fn read_coordinates(&mut self, key: &str) -> Option<(Gvk, Option<String>, String)> {
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
            self.report_unexpected(key, text, "`apiVersion:kind[:namespace]:name`");
            return None;
        }
        let (group, version) = split_api_version(api_version);
        Some((Gvk::new(group, version, kind), namespace.filter(|given| !given.is_empty()), name.to_owned()))
    }

    pub(super) fn read_externals(&mut self, release_namespace: &str) -> Vec<ExternalNeed> {
        const SUFFIX: &str = ".external-dependency.werf.io";
        let own = |namespace: Option<String>| namespace.filter(|given| given != release_namespace);
        let mut found: BTreeMap<String, ExternalNeed> = BTreeMap::new();
        let keys: Vec<&str> = object::annotations(self.object).map(|(key, _)| key).collect();
        for key in &keys {
            let Some(id) = key.strip_suffix(SUFFIX).filter(|id| !id.is_empty()) else { continue };
            if let Some((gvk, namespace, name)) = self.read_coordinates(key) {
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
                self.report_unexpected(key, text, "`type[.version.group]/name`");
                continue;
            };
            let place = format!("{id}{SUFFIX}/namespace");
            let namespace = self.get(&place).map(str::to_owned);
            if namespace.as_deref() == Some("") {
                self.report_unexpected(&place, "", "a namespace");
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
