//! Finds the objects a header means. The identity an object was loaded with counts, whatever patches did since.

use std::collections::HashMap;

use slipway_problem::{Location, Problem, nearest_name};

use super::realize::{NoValue, ValueRealizer};
use crate::kpatch::{GlobPiece, NameGlob, ObjectScope};
use crate::report::{coded_error, coded_warning, join_words};
use crate::resources::Resource;
use crate::template::Template;
use crate::val::ValuePos;

/// Objects by kind in lower case, then by name.
pub(crate) struct ObjectTargets {
    by_kind: HashMap<String, HashMap<String, Vec<usize>>>,
    /// The names of each kind in the order of the objects, so that globs give a stable order.
    order: HashMap<String, Vec<usize>>,
}

/// A name pattern with its references put in.
struct NamePattern(Vec<Option<String>>);

impl NamePattern {
    fn new(glob: &NameGlob, realize: &ValueRealizer<'_>, pos: ValuePos) -> Result<Self, NoValue> {
        let mut pieces = Vec::new();
        for piece in &glob.0 {
            pieces.push(match piece {
                GlobPiece::Any => None,
                GlobPiece::Text(text) => Some(text.clone()),
                GlobPiece::Reference(path) => Some(realize.name(&Template::Whole(path.clone()), pos)?),
            });
        }
        Ok(Self(pieces))
    }

    fn exact_name(&self) -> Option<String> {
        self.0.iter().cloned().collect::<Option<String>>()
    }

    fn matches(&self, text: &str) -> bool {
        if let Some(exact) = self.exact_name() {
            return exact == text;
        }
        // Each stretch of text between stars is taken where it first occurs.
        let mut rest = text;
        let mut floating = false;
        for (position, piece) in self.0.iter().enumerate() {
            let Some(piece) = piece else {
                floating = true;
                continue;
            };
            let last = position + 1 == self.0.len();
            if last && floating {
                return rest.ends_with(piece.as_str());
            }
            let found = if floating {
                rest.find(piece.as_str())
            } else {
                rest.starts_with(piece.as_str()).then_some(0)
            };
            let Some(found) = found else { return false };
            rest = &rest[found + piece.len()..];
            floating = false;
        }
        floating || rest.is_empty()
    }
}

/// The objects a header means, or why there are none.
pub(crate) struct ChosenObjects {
    pub(crate) objects: Vec<usize>,
    pub(crate) warning: Option<Problem>,
}

impl ObjectTargets {
    pub(crate) fn new(resources: &[Resource]) -> Self {
        let mut by_kind: HashMap<String, HashMap<String, Vec<usize>>> = HashMap::new();
        let mut order: HashMap<String, Vec<usize>> = HashMap::new();
        for (index, resource) in resources.iter().enumerate() {
            let kind = resource.id.kind.to_ascii_lowercase();
            by_kind.entry(kind.clone()).or_default().entry(resource.id.name.clone()).or_default().push(index);
            order.entry(kind).or_default().push(index);
        }
        Self { by_kind, order }
    }

    /// Finds the objects of a scope.
    pub(crate) fn choose(
        &self,
        scope: &ObjectScope,
        optional: bool,
        resources: &[Resource],
        realize: &ValueRealizer<'_>,
    ) -> Result<ChosenObjects, NoValue> {
        if scope.all {
            return Ok(ChosenObjects { objects: (0..resources.len()).collect(), warning: None });
        }
        let name = NamePattern::new(&scope.name, realize, scope.pos)?;
        let namespace =
            scope.namespace.as_ref().map(|glob| NamePattern::new(glob, realize, scope.pos)).transpose()?;
        let exact = name.exact_name();
        let candidates: Vec<usize> = match (&scope.kind, &exact) {
            (Some(kind), Some(name)) => {
                self.by_kind.get(kind).and_then(|names| names.get(name)).cloned().unwrap_or_default()
            }
            (Some(kind), None) => self.order.get(kind).cloned().unwrap_or_default(),
            (None, _) => (0..resources.len()).collect(),
        };
        let objects: Vec<usize> = candidates
            .into_iter()
            .filter(|&index| {
                let resource = &resources[index];
                let in_namespace = namespace.as_ref().is_none_or(|pattern| {
                    if pattern.exact_name().as_deref() == Some("_") {
                        resource.id.namespace.is_empty()
                    } else {
                        pattern.matches(&resource.id.namespace)
                    }
                });
                in_namespace
                    && name.matches(&resource.id.name)
                    && scope.group.as_ref().is_none_or(|group| *group == resource.id.group)
                    && scope.version.as_ref().is_none_or(|version| resource.api_version_name() == version)
            })
            .collect();
        let at = Location::new(realize.file, scope.pos.line, scope.pos.column);
        let several = scope.is_wild() || scope.namespace.as_ref().is_some_and(NameGlob::has_star);
        match objects.len() {
            0 if optional => Ok(ChosenObjects { objects, warning: None }),
            0 if several => {
                let warning = coded_warning("KX004", format!("`[{scope}]` matches no object")).at(at);
                Ok(ChosenObjects { objects, warning: Some(warning) })
            }
            0 => Err(self
                .no_match_problem(scope, exact.as_deref().unwrap_or_default(), resources)
                .at(at)
                .into()),
            1 => Ok(ChosenObjects { objects, warning: None }),
            _ if several => Ok(ChosenObjects { objects, warning: None }),
            // Two objects with one identity are a mistake of their own, reported where they are.
            _ if objects.windows(2).all(|pair| resources[pair[0]].id == resources[pair[1]].id) => {
                Ok(ChosenObjects { objects, warning: None })
            }
            _ => {
                let all: Vec<String> = objects
                    .iter()
                    .map(|&index| {
                        let id = &resources[index].id;
                        let namespace = if id.namespace.is_empty() { "_" } else { &id.namespace };
                        format!("{namespace}/{}.{}", id.kind.to_ascii_lowercase(), id.name)
                    })
                    .collect();
                let same_place = objects
                    .windows(2)
                    .all(|pair| resources[pair[0]].id.namespace == resources[pair[1]].id.namespace);
                let hint = if same_place {
                    "qualify the kind with its group: kind@\"group\".name".to_owned()
                } else {
                    format!("qualify as ns/kind.name: {}", join_words(&all, 5))
                };
                let message =
                    format!("`[{scope}]` matches {} objects: {}", objects.len(), join_words(&all, 5));
                Err(coded_error("KX003", message).at(at).hint(hint).into())
            }
        }
    }

    fn no_match_problem(&self, scope: &ObjectScope, name: &str, resources: &[Resource]) -> Problem {
        let problem = coded_error("KX002", format!("`[{scope}]` matches no object of the package"));
        let Some(kind) = &scope.kind else { return problem };
        let Some(names) = self.by_kind.get(kind) else {
            let mut kinds: Vec<&str> = self.by_kind.keys().map(String::as_str).collect();
            kinds.sort_unstable();
            return match nearest_name(kind, kinds.iter().copied()) {
                Some(near) => problem.hint(format!("no object is a `{kind}`; did you mean `{near}`?")),
                None => {
                    problem.hint(format!("no object is a `{kind}`; kinds present: {}", join_words(&kinds, 8)))
                }
            };
        };
        let mut names: Vec<&str> = names.keys().map(String::as_str).collect();
        names.sort_unstable();
        if let Some(dotted) = names.iter().find(|known| known.starts_with(&format!("{name}."))) {
            return problem.hint(format!("quote the name: [{kind}.\"{dotted}\"]"));
        }
        if names.contains(&name) {
            let places: Vec<String> = self.by_kind[kind][name]
                .iter()
                .map(|&index| format!("namespace `{}`", resources[index].id.namespace))
                .collect();
            return problem.hint(format!("`{name}` is in {}", join_words(&places, 5)));
        }
        match nearest_name(name, names.iter().copied()) {
            Some(near) => {
                problem.hint(format!("did you mean `{near}`? End the header with ? to skip when absent"))
            }
            None => problem.hint(format!(
                "names present: {}; end the header with ? to skip when absent",
                join_words(&names, 8)
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::NamePattern;

    #[test]
    fn stars_stand_for_any_text() {
        let pattern = |text: &str| {
            let mut pieces: Vec<Option<String>> = Vec::new();
            for (index, part) in text.split('*').enumerate() {
                if index > 0 {
                    pieces.push(None);
                }
                if !part.is_empty() {
                    pieces.push(Some(part.to_owned()));
                }
            }
            NamePattern(pieces)
        };
        for (text, name, is) in [
            ("web", "web", true),
            ("web", "webb", false),
            ("*", "", true),
            ("web-*", "web-1", true),
            ("web-*", "web", false),
            ("*-db", "a-db", true),
            ("a*b*c", "axxbyyc", true),
            ("a*b*c", "acb", false),
            ("a*a", "a", false),
            ("*ab*ab", "abab", true),
        ] {
            assert_eq!(pattern(text).matches(name), is, "{text} {name}");
        }
    }
}
