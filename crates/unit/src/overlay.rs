//! Overlays: the values an environment may set, and nothing else.

use slipway_journal::digest;
use slipway_problem::{Problem, Problems};
use slipway_yaml::{YamlNode, YamlReader};

use crate::container::UnitFile;
use crate::error::UnitError;

/// Values of an environment that a unit allows it to set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overlay {
    name: String,
    text: String,
    digest: String,
}

impl Overlay {
    /// Reads an overlay and checks every value of it against the slots of the unit.
    pub fn read(unit: &UnitFile, env: &str, name: &str, text: &str) -> Result<Self, UnitError> {
        let mut problems = Problems::new();
        let Some(root) = YamlReader::new().gather_one(text, name, &mut problems) else {
            return Err(problems.into());
        };
        let slot = unit.rows().overlay_slots.iter().find(|slot| slot.env == env);
        let allowed = slot.map(|slot| slot.allowed_paths.as_slice()).unwrap_or_default();
        check_node(&root, &mut Vec::new(), &mut |path, node| {
            if allowed.iter().any(|pattern| fits(pattern, path)) {
                return;
            }
            let path = path.join(".");
            let hint = match slot {
                None => format!("the unit has no overlay slot for `{env}`"),
                Some(_) => format!("environment `{env}` may set {}", shown(allowed)),
            };
            let problem = Problem::error(format!("`{path}` may not differ between environments"));
            problems.push(problem.at(node.location()).hint(hint));
        });
        let digest = digest::json(&root.to_json());
        Ok(problems.into_result(Self { name: name.to_owned(), text: text.to_owned(), digest })?)
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// The digest of the values, however they are written.
    pub fn digest(&self) -> &str {
        &self.digest
    }
}

fn shown(allowed: &[String]) -> String {
    let names: Vec<String> = allowed.iter().map(|path| format!("`{path}`")).collect();
    if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
}

/// Visits every value that is no mapping, with the keys that lead to it.
fn check_node(node: &YamlNode, path: &mut Vec<String>, visit: &mut impl FnMut(&[String], &YamlNode)) {
    match node.as_map() {
        Some(mapping) if !mapping.is_empty() || path.is_empty() => {
            for (key, value) in mapping.iter() {
                path.push(key.key_text().into_owned());
                check_node(value, path, visit);
                path.pop();
            }
        }
        _ => visit(path, node),
    }
}

/// Tells that a pattern allows a path: `*` is one step, `**` any number; what is allowed is allowed with all below it.
/// A key with a dot is one step.
fn fits(pattern: &str, path: &[String]) -> bool {
    fn steps(pattern: &[&str], path: &[String]) -> bool {
        match (pattern.split_first(), path.split_first()) {
            (None, _) => true,
            (Some((&"**", rest)), _) => (0..=path.len()).any(|skipped| steps(rest, &path[skipped..])),
            (Some((&"*", rest)), Some((_, below))) => steps(rest, below),
            (Some((step, rest)), Some((own, below))) => step == own && steps(rest, below),
            (Some(_), None) => false,
        }
    }
    // One `**` after another says nothing more, and trying all of them would take long.
    let mut pattern: Vec<&str> = pattern.split('.').collect();
    pattern.dedup_by(|next, before| *next == "**" && *before == "**");
    steps(&pattern, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_allow_paths_and_what_is_below_them() {
        for (pattern, path, allowed) in [
            ("replicaCount", "replicaCount", true),
            ("replicaCount", "replicas", false),
            ("ingress.hosts", "ingress.hosts", true),
            ("ingress.hosts", "ingress", false),
            ("ingress", "ingress.hosts", true),
            ("resources.**", "resources.limits.cpu", true),
            ("*.replicas", "web.replicas", true),
            ("*.replicas", "web.api.replicas", false),
            ("**.replicas", "web.api.replicas", true),
        ] {
            let path: Vec<String> = path.split('.').map(str::to_owned).collect();
            assert_eq!(fits(pattern, &path), allowed, "{pattern} {path:?}");
        }
        assert!(!fits("ingress", &["ingress.hosts".to_owned()]), "another key, however it reads");
    }
}
