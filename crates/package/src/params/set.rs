//! `--set path=value`: one value, laid over all files.

use slipway_problem::{Location, Problem, Problems};
use slipway_yaml::YamlReader;

use super::layers::{LayerKind, Layers};
use crate::report::error;
use crate::template::{ParamPath, ParamStep, parse_path};
use crate::val::{Data, Pos, Reading, Val};

/// The reading of the text after `=`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetKind {
    /// As YAML: `3` is a number (`--set`).
    Yaml,
    /// As text, whatever it looks like (`--set-string`).
    Text,
    /// As JSON (`--set-json`).
    Json,
}

/// One `--set` flag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetValue {
    pub kind: SetKind,
    /// `path=value`.
    pub text: String,
}

impl SetValue {
    /// Reads a `--set`.
    pub fn yaml(text: impl Into<String>) -> Self {
        Self { kind: SetKind::Yaml, text: text.into() }
    }

    /// Reads a `--set-string`.
    pub fn string(text: impl Into<String>) -> Self {
        Self { kind: SetKind::Text, text: text.into() }
    }

    /// Reads a `--set-json`.
    pub fn json(text: impl Into<String>) -> Self {
        Self { kind: SetKind::Json, text: text.into() }
    }

    fn flag(&self) -> &'static str {
        match self.kind {
            SetKind::Yaml => "--set",
            SetKind::Text => "--set-string",
            SetKind::Json => "--set-json",
        }
    }

    /// The byte of the `=` that ends the path.
    fn equals(&self) -> Option<usize> {
        let mut quote = None;
        self.text.char_indices().find_map(|(offset, c)| {
            match (quote, c) {
                (Some(open), c) if c == open => quote = None,
                (None, '"' | '\'') => quote = Some(c),
                (None, '=') => return Some(offset),
                _ => {}
            }
            None
        })
    }
}

impl Layers {
    /// Lays one flag over what is there.
    pub(crate) fn set(&mut self, flag: &SetValue, problems: &mut Problems) {
        let word = flag.flag();
        let wrong = |message: String| error("KV017", message).at(Location::file(word));
        let Some(equals) = flag.equals() else {
            problems.push(wrong("expected `path=value`".to_owned()));
            return;
        };
        let (path, value) = (flag.text[..equals].trim(), &flag.text[equals + 1..]);
        let parsed = match parse_path(path) {
            Ok(parsed) => parsed,
            Err(why) => {
                problems.push(wrong(format!("`{path}` {why}")));
                return;
            }
        };
        let file = format!("{word} {parsed}");
        let layer = self.add(LayerKind::Set, &file);
        let pos = Pos { line: 0, column: 0, layer };
        let reading = Reading { file: &file, lines: 0, columns: 0, layer };
        let mut val = match flag.kind {
            SetKind::Text => {
                let data = Data::Text(reading.template(value, pos, problems));
                Val { data, pos, quoted: true, tag: None }
            }
            SetKind::Json => match serde_json::from_str(value) {
                Ok(json) => Val::from_json(&json, pos),
                Err(why) => {
                    problems.push(wrong(format!("the value of `{parsed}` is not JSON: {why}")));
                    return;
                }
            },
            SetKind::Yaml => {
                match YamlReader::new().anchors(false).max_depth(100).max_nodes(10_000).read_one(value, &file)
                {
                    Ok(node) => reading.value(&node, problems),
                    // `a: b` and the like are no YAML value on one line, but fine as text.
                    Err(_) => Val {
                        data: Data::Text(reading.template(value, pos, problems)),
                        pos,
                        quoted: false,
                        tag: None,
                    },
                }
            }
        };
        place(&mut val, pos);
        if matches!(parsed.0.first(), Some(ParamStep::Key(key)) if key == "kurel") {
            problems.push(
                error("KV014", "`kurel` is the identity of the package and cannot be overridden")
                    .at(self.location(pos)),
            );
            return;
        }
        let mut tree =
            std::mem::replace(&mut self.tree, Val { data: Data::Null, pos, quoted: false, tag: None });
        if let Err(problem) = self.set_at(&mut tree, &parsed, val, problems) {
            problems.push(problem.at(self.location(pos)));
        } else if !self.overriders.iter().any(|known| **known == *file) {
            self.overriders.push(file.as_str().into());
        }
        self.tree = tree;
    }

    fn set_at(
        &mut self,
        tree: &mut Val,
        path: &ParamPath,
        val: Val,
        problems: &mut Problems,
    ) -> Result<(), Problem> {
        let mut at = tree;
        let pos = val.pos;
        for (depth, step) in path.0.iter().enumerate() {
            let here = ParamPath(path.0[..depth].to_vec());
            if matches!(at.data, Data::Null) {
                at.data = match step {
                    ParamStep::Key(_) => Data::Map(indexmap::IndexMap::new()),
                    ParamStep::Index(_) => Data::List(Vec::new()),
                };
            }
            let kind = at.shape();
            at = match (&mut at.data, step) {
                (Data::Map(map), ParamStep::Key(key)) => {
                    if !map.contains_key(key) {
                        if !map.is_empty() {
                            self.note_unknown(&path.0[..=depth], pos, map.keys().cloned().collect());
                        }
                        map.insert(key.clone(), Val { data: Data::Null, pos, quoted: false, tag: None });
                    }
                    &mut map[key.as_str()]
                }
                (Data::List(items), ParamStep::Index(index)) => {
                    if *index > items.len() {
                        let message =
                            format!("`{here}` has {} elements: [{index}] would leave a gap", items.len());
                        return Err(
                            error("KV016", message).hint(format!("the next free index is [{}]", items.len()))
                        );
                    }
                    if *index == items.len() {
                        items.push(Val { data: Data::Null, pos, quoted: false, tag: None });
                    }
                    &mut items[*index]
                }
                _ => {
                    let lower = self.location(at.pos);
                    let message = format!(
                        "parameter `{here}` is {kind} ({}:{}), so `{path}` cannot be set",
                        lower.file, lower.line
                    );
                    return Err(error("KV013", message));
                }
            };
        }
        self.merge_value(at, val, &mut path.0.clone(), problems);
        Ok(())
    }
}

/// A flag has no lines: every value in it stands at the flag.
fn place(val: &mut Val, pos: Pos) {
    val.pos = pos;
    match &mut val.data {
        Data::List(items) => items.iter_mut().for_each(|item| place(item, pos)),
        Data::Map(map) => map.values_mut().for_each(|value| place(value, pos)),
        _ => {}
    }
}
