//! Reading mappings strictly: wrong types and unknown fields are reported, not guessed at.

use slipway_problem::{Location, Problem, Problems};
use slipway_yaml::{Mapping, Node};

/// A value and where it was written.
#[derive(Clone, Debug)]
pub(crate) struct At<T> {
    pub(crate) value: T,
    pub(crate) at: Location,
}

/// A mapping being read; problems go to one list.
pub(crate) struct Table<'n> {
    pub(crate) node: &'n Node,
    map: &'n Mapping,
}

fn mismatch(node: &Node, field: &str, wanted: &str) -> Problem {
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
    pub(crate) fn open(node: &'n Node, what: &str, known: &[&str], problems: &mut Problems) -> Option<Self> {
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
            problems.push(match known.iter().find(|field| field.eq_ignore_ascii_case(&name)) {
                // kustomize does not mind.
                Some(field) => key.warning(format!("`{name}` is written `{field}`")),
                None => key
                    .problem(format!("unknown field `{name}` in `{what}`"))
                    .did_you_mean(&name, known.iter().copied()),
            });
        }
        Some(Self { node, map })
    }

    /// A field that is there and not null, in capitals or not; the last one if there are several.
    pub(crate) fn get(&self, field: &str) -> Option<&'n Node> {
        let named =
            |(key, _): &(&Node, &Node)| key.as_str().is_some_and(|key| key.eq_ignore_ascii_case(field));
        self.map.iter().filter(named).last().map(|(_, value)| value).filter(|node| !node.is_null())
    }

    pub(crate) fn at(&self) -> Location {
        self.node.location()
    }

    pub(crate) fn string(&self, field: &str, problems: &mut Problems) -> Option<At<String>> {
        text(self.get(field)?, field, problems)
    }

    /// The text of a field, empty when it is absent.
    pub(crate) fn text(&self, field: &str, problems: &mut Problems) -> String {
        self.string(field, problems).map(|found| found.value).unwrap_or_default()
    }

    pub(crate) fn flag(&self, field: &str, problems: &mut Problems) -> bool {
        let Some(node) = self.get(field) else { return false };
        node.as_bool().unwrap_or_else(|| {
            problems.push(mismatch(node, field, "a boolean"));
            false
        })
    }

    pub(crate) fn integer(&self, field: &str, problems: &mut Problems) -> Option<i64> {
        let node = self.get(field)?;
        let found = node.as_i64();
        if found.is_none() {
            problems.push(mismatch(node, field, "an integer"));
        }
        found
    }

    /// The elements of a list; none when the field is absent.
    pub(crate) fn list(&self, field: &str, problems: &mut Problems) -> &'n [Node] {
        let Some(node) = self.get(field) else { return &[] };
        node.as_seq().unwrap_or_else(|| {
            problems.push(mismatch(node, field, "a list"));
            &[]
        })
    }

    pub(crate) fn strings(&self, field: &str, problems: &mut Problems) -> Vec<At<String>> {
        self.list(field, problems).iter().filter_map(|node| text(node, field, problems)).collect()
    }

    /// A mapping of strings, sorted by key.
    pub(crate) fn pairs(&self, field: &str, problems: &mut Problems) -> Vec<(String, String)> {
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

fn text(node: &Node, field: &str, problems: &mut Problems) -> Option<At<String>> {
    match node.as_str() {
        Some(text) => Some(At { value: text.to_owned(), at: node.location() }),
        None => {
            problems.push(mismatch(node, field, "a string"));
            None
        }
    }
}
