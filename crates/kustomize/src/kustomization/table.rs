//! Reading mappings: wrong types and unknown fields are reported, not guessed at.

use std::ops::{Deref, DerefMut};

use slipway_problem::{Location, Problem, Problems};
use slipway_yaml::{Mapping, YamlNode};

use crate::written::go_float;

/// The rules settings are read by. kustomize has other ones for each kind of file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strictness {
    /// A kustomization: unknown fields are errors, and numbers are no text.
    Kustomization,
    /// The configuration of a generator: unknown fields are left alone.
    Generator,
    /// The configuration of a transformer: the same, and numbers and booleans count as text.
    Transformer,
}

/// The problems found so far, with the rules to read the rest by.
pub(crate) struct Findings<'p> {
    problems: &'p mut Problems,
    pub(crate) strictness: Strictness,
}

impl<'p> Findings<'p> {
    pub(crate) fn new(strictness: Strictness, problems: &'p mut Problems) -> Self {
        Self { problems, strictness }
    }
}

impl Deref for Findings<'_> {
    type Target = Problems;

    fn deref(&self) -> &Problems {
        self.problems
    }
}

impl DerefMut for Findings<'_> {
    fn deref_mut(&mut self) -> &mut Problems {
        self.problems
    }
}

/// Fields every configuration object has, which say nothing to what it configures.
const OBJECT: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// A value and where it was written.
#[derive(Clone, Debug)]
pub(crate) struct At<T> {
    pub(crate) value: T,
    pub(crate) at: Location,
}

/// A mapping being read; problems go to one list.
pub(crate) struct Table<'n> {
    pub(crate) node: &'n YamlNode,
    map: &'n Mapping,
}

fn mismatch(node: &YamlNode, field: &str, wanted: &str) -> Problem {
    let problem = node.problem(format!("`{field}` should be {wanted}, not {}", node.kind()));
    match node.as_bool() {
        Some(_) if wanted == "a string" => problem.hint(format!("write it in quotes: \"{}\"", node.raw())),
        _ if wanted == "a string" && node.as_f64().is_some() => {
            problem.hint(format!("write it in quotes: \"{}\"", node.raw()))
        }
        _ => problem,
    }
}

impl<'n> Table<'n> {
    /// Opens a mapping whose fields are all among `known`.
    pub(crate) fn open(
        node: &'n YamlNode,
        what: &str,
        known: &[&str],
        problems: &mut Findings<'_>,
    ) -> Option<Self> {
        let Some(map) = node.as_map() else {
            if !node.is_null() {
                problems.push(mismatch(node, what, "a mapping"));
            }
            return None;
        };
        for key in map.keys() {
            let name = key.key_text();
            if known.contains(&name.as_ref()) {
                continue;
            }
            let strict = problems.strictness == Strictness::Kustomization;
            if !strict && OBJECT.contains(&name.as_ref()) {
                continue;
            }
            problems.push(match known.iter().find(|field| field.eq_ignore_ascii_case(&name)) {
                // kustomize does not mind.
                Some(field) => key.warning(format!("`{name}` is written `{field}`")),
                None => {
                    let message = format!("unknown field `{name}` in `{what}`");
                    let problem = if strict { key.problem(message) } else { key.warning(message) };
                    problem.did_you_mean(&name, known.iter().copied())
                }
            });
        }
        Some(Self { node, map })
    }

    /// A field that is there and not null, in capitals or not; the last one if there are several.
    pub(crate) fn get(&self, field: &str) -> Option<&'n YamlNode> {
        let named = |(key, _): &(&YamlNode, &YamlNode)| {
            key.as_str().is_some_and(|key| key.eq_ignore_ascii_case(field))
        };
        self.map.iter().filter(named).last().map(|(_, value)| value).filter(|node| !node.is_null())
    }

    pub(crate) fn at(&self) -> Location {
        self.node.location()
    }

    pub(crate) fn string(&self, field: &str, problems: &mut Findings<'_>) -> Option<At<String>> {
        text(self.get(field)?, field, problems)
    }

    /// The text of a field, empty when it is absent.
    pub(crate) fn text(&self, field: &str, problems: &mut Findings<'_>) -> String {
        self.string(field, problems).map(|found| found.value).unwrap_or_default()
    }

    pub(crate) fn flag(&self, field: &str, problems: &mut Findings<'_>) -> bool {
        let Some(node) = self.get(field) else { return false };
        node.as_bool().unwrap_or_else(|| {
            problems.push(mismatch(node, field, "a boolean"));
            false
        })
    }

    pub(crate) fn integer(&self, field: &str, problems: &mut Findings<'_>) -> Option<i64> {
        let node = self.get(field)?;
        let found = node.as_i64();
        if found.is_none() {
            problems.push(mismatch(node, field, "an integer"));
        }
        found
    }

    /// The elements of a list; none when the field is absent.
    pub(crate) fn list(&self, field: &str, problems: &mut Findings<'_>) -> &'n [YamlNode] {
        let Some(node) = self.get(field) else { return &[] };
        node.as_seq().unwrap_or_else(|| {
            problems.push(mismatch(node, field, "a list"));
            &[]
        })
    }

    pub(crate) fn strings(&self, field: &str, problems: &mut Findings<'_>) -> Vec<At<String>> {
        self.list(field, problems).iter().filter_map(|node| text(node, field, problems)).collect()
    }

    /// A mapping of strings, sorted by key.
    pub(crate) fn pairs(&self, field: &str, problems: &mut Findings<'_>) -> Vec<(String, String)> {
        let Some(node) = self.get(field) else { return Vec::new() };
        let Some(map) = node.as_map() else {
            problems.push(mismatch(node, field, "a mapping of strings"));
            return Vec::new();
        };
        let mut pairs = Vec::new();
        for (key, value) in map.iter() {
            let name = key.key_text().into_owned();
            if key.as_str().is_none() {
                problems.push(mismatch(key, &format!("{field}.{name}"), "a string"));
                continue;
            }
            if value.is_null() {
                pairs.push((name, String::new()));
            } else if let Some(found) = text(value, &format!("{field}.{name}"), problems) {
                pairs.push((name, found.value));
            }
        }
        pairs.sort();
        pairs
    }
}

fn text(node: &YamlNode, field: &str, problems: &mut Findings<'_>) -> Option<At<String>> {
    if let Some(text) = node.as_str() {
        return Some(At { value: text.to_owned(), at: node.location() });
    }
    if problems.strictness == Strictness::Transformer
        && let Some(text) = number_text(node)
    {
        return Some(At { value: text, at: node.location() });
    }
    problems.push(mismatch(node, field, "a string"));
    None
}

/// The text of a number or boolean, as Go writes it.
fn number_text(node: &YamlNode) -> Option<String> {
    let flag = node.as_bool().map(|flag| flag.to_string());
    flag.or_else(|| node.as_i64().map(|number| number.to_string())).or_else(|| node.as_f64().map(go_float))
}
