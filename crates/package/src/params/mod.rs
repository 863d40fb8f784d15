//! Parameters: layers of files and flags, merged, then resolved into one tree of values.

mod layers;
mod metadata;
mod resolve;
mod set;

use std::sync::Arc;

use indexmap::IndexMap;
use serde_json::Value as Json;
use slipway_problem::{Location, Problem, nearest_name};

pub use layers::{LayerKind, ParamLayer};
pub use metadata::{PackageMaintainer, PackageMetadata};
pub use set::{SetKind, SetValue};

pub(crate) use layers::{ParamLayers, read_tree};
pub(crate) use resolve::resolve_params;

use crate::report::coded_error;
use crate::template::Template;
use crate::template::{ParamPath, ParamStep, TemplatePiece};
use crate::val::{ValueData, ValuePos, WrittenNumber, WrittenValue};

/// A resolved parameter.
#[derive(Clone, Debug, PartialEq)]
pub struct ParamValue {
    pub data: ParamData,
    pub pos: ValuePos,
}

/// The value of a resolved parameter.
#[derive(Clone, Debug, PartialEq)]
pub enum ParamData {
    Null,
    Bool(bool),
    Number(WrittenNumber),
    Text(Arc<str>),
    List(Vec<ParamValue>),
    Map(IndexMap<String, ParamValue>),
    /// Could not be resolved, which was reported: whoever uses it keeps quiet.
    Broken,
}

impl ParamValue {
    /// The value below it at `step`.
    pub(crate) fn child(&self, step: &ParamStep) -> Option<&ParamValue> {
        match (&self.data, step) {
            (ParamData::Map(map), ParamStep::Key(key)) => map.get(key),
            (ParamData::List(items), ParamStep::Index(index)) => items.get(*index),
            _ => None,
        }
    }

    /// As JSON.
    pub fn to_json(&self) -> Json {
        match &self.data {
            ParamData::Null | ParamData::Broken => Json::Null,
            ParamData::Bool(value) => Json::Bool(*value),
            ParamData::Number(number) => Json::Number(number.json.clone()),
            ParamData::Text(text) => Json::String(text.to_string()),
            ParamData::List(items) => Json::Array(items.iter().map(ParamValue::to_json).collect()),
            ParamData::Map(map) => map.iter().map(|(key, value)| (key.clone(), value.to_json())).collect(),
        }
    }

    /// The number of single values in it.
    pub(crate) fn leaves(&self) -> usize {
        match &self.data {
            ParamData::List(items) => items.iter().map(ParamValue::leaves).sum(),
            ParamData::Map(map) => map.values().map(ParamValue::leaves).sum(),
            _ => 1,
        }
    }

    /// A single value as text, and whether that text came from a float; a code and the reason otherwise.
    pub(crate) fn text(&self) -> Result<(std::borrow::Cow<'_, str>, bool), (&'static str, &'static str)> {
        Ok(match &self.data {
            ParamData::Bool(value) => ((if *value { "true" } else { "false" }).into(), false),
            ParamData::Number(number) => ((&*number.text).into(), number.float),
            ParamData::Text(text) => ((&**text).into(), false),
            ParamData::Broken => ("".into(), false),
            ParamData::Null => return Err(("KV022", "null")),
            ParamData::List(_) => return Err(("KV023", "a list")),
            ParamData::Map(_) => return Err(("KV023", "a map")),
        })
    }
}

/// All parameters, merged and resolved.
#[derive(Clone, Debug)]
pub struct ResolvedParams {
    pub(crate) root: ParamValue,
    pub(crate) layers: ParamLayers,
}

/// The result of looking a name up.
pub(crate) enum ParamLookup<'p> {
    Value(&'p ParamValue),
    Missing,
}

impl ResolvedParams {
    /// Finds a parameter.
    pub fn get(&self, path: &ParamPath) -> Option<&ParamValue> {
        let mut at = &self.root;
        for step in &path.0 {
            if matches!(at.data, ParamData::Broken) {
                return Some(at);
            }
            at = at.child(step)?;
        }
        Some(at)
    }

    pub(crate) fn find(&self, path: &ParamPath) -> ParamLookup<'_> {
        self.get(path).map_or(ParamLookup::Missing, ParamLookup::Value)
    }

    /// Every parameter.
    pub fn root(&self) -> &ParamValue {
        &self.root
    }

    /// The layers they came from, lowest first.
    pub fn layers(&self) -> &[ParamLayer] {
        &self.layers.layers
    }

    /// The place a value was written at.
    pub fn location(&self, pos: ValuePos) -> Location {
        self.layers.location(pos)
    }

    /// Says that `path` is no parameter, with the nearest that is.
    pub(crate) fn undefined(&self, path: &ParamPath, at: Location) -> Problem {
        let known = self.names();
        undefined_param(path, known.iter().map(String::as_str)).at(at)
    }

    /// The paths of all parameters.
    pub(crate) fn names(&self) -> Vec<String> {
        let mut names = Vec::new();
        let mut pending: Vec<(ParamPath, &ParamValue)> = vec![(ParamPath(Vec::new()), &self.root)];
        while let Some((path, param)) = pending.pop() {
            if let ParamData::Map(map) = &param.data {
                for (key, value) in map {
                    let mut path = path.clone();
                    path.0.push(ParamStep::Key(key.clone()));
                    names.push(path.to_string());
                    pending.push((path, value));
                }
            }
        }
        names
    }

    /// Puts the values of references into text. Gives the text and the floats in it, whose text may
    /// surprise; a problem without a place otherwise.
    pub(crate) fn interpolate_text<'p>(
        &self,
        pieces: &'p [TemplatePiece],
    ) -> Result<Option<(String, Vec<&'p ParamPath>)>, Problem> {
        let mut out = String::new();
        let mut floats = Vec::new();
        for piece in pieces {
            match piece {
                TemplatePiece::Text(text) => out.push_str(text),
                TemplatePiece::Reference(path) => {
                    let ParamLookup::Value(param) = self.find(path) else {
                        let known = self.names();
                        return Err(undefined_param(path, known.iter().map(String::as_str)));
                    };
                    if matches!(param.data, ParamData::Broken) {
                        return Ok(None);
                    }
                    let (text, float) = param.text().map_err(|(code, what)| {
                        let text = Template::Mixed(pieces.to_vec());
                        coded_error(code, format!("cannot place {what} inside text: `{text}`"))
                            .hint(format!("`{path}` must be a string, a number or a boolean"))
                    })?;
                    if float {
                        floats.push(path);
                    }
                    out.push_str(&text);
                    if out.len() > resolve::LONGEST_TEXT {
                        return Err(coded_error("KV025", "the text grows beyond 1 MiB"));
                    }
                }
            }
        }
        Ok(Some((out, floats)))
    }

    /// The unresolved value of a parameter, after merging.
    pub(crate) fn raw(&self, path: &ParamPath) -> Option<&WrittenValue> {
        raw_at(&self.layers.tree, path)
    }

    /// The parameters a value is taken from, itself first: `a` and then what `a: "${b}"` names.
    pub fn chain(&self, path: &ParamPath) -> Vec<(ParamPath, ValuePos)> {
        const LONGEST: usize = 100;
        let mut chain: Vec<(ParamPath, ValuePos)> = Vec::new();
        let mut pending = vec![path.clone()];
        while let Some(path) = pending.pop() {
            if chain.len() >= LONGEST || chain.iter().any(|(known, _)| *known == path) {
                continue;
            }
            let Some(val) = self.raw(&path) else { continue };
            if let ValueData::Text(template) = &val.data {
                pending.extend(template.references().cloned());
            }
            chain.push((path, val.pos));
        }
        chain
    }
}

pub(crate) fn raw_at<'v>(tree: &'v WrittenValue, path: &ParamPath) -> Option<&'v WrittenValue> {
    path.0.iter().try_fold(tree, |val, step| match (&val.data, step) {
        (ValueData::Map(map), ParamStep::Key(key)) => map.get(key),
        (ValueData::List(items), ParamStep::Index(index)) => items.get(*index),
        _ => None,
    })
}

/// Says that `path` is no parameter; `known` are those that are.
pub(crate) fn undefined_param<'k>(path: &ParamPath, known: impl Iterator<Item = &'k str> + Clone) -> Problem {
    let name = path.to_string();
    let problem = coded_error("KV020", format!("undefined parameter `{name}`"));
    let last = name.rsplit('.').next().unwrap_or_default().to_owned();
    let near = nearest_name(&name, known.clone()).map(str::to_owned).or_else(|| {
        let same = |candidate: &&str| candidate.rsplit('.').next() == Some(last.as_str());
        known.clone().filter(same).min().map(str::to_owned)
    });
    match near {
        Some(near) => {
            problem.hint(format!("did you mean `{near}`? New parameters belong in parameters.yaml"))
        }
        None => problem.hint(format!("add `{name}` to parameters.yaml")),
    }
}
