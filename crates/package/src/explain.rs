//! The origin of a field's value: base value, every write, the parameters in it and their sources.

use serde::Serialize;
use serde_json::Value as Json;
use slipway_problem::{Location, Problem, nearest_name};

use crate::apply::{PathSegment, WriteKind, item_seg, show_segs};
use crate::build::PackageBuild;
use crate::enable::PatchState;
use crate::kpatch::{self, StepKind};
use crate::params::raw_at;
use crate::patches::EnabledCondition;
use crate::report::coded_error;
use crate::resources::show_id;
use crate::template::ParamPath;

/// The story of one field.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Explanation {
    /// `Deployment apps/web`.
    pub object: String,
    /// `spec.replicas`; empty for the whole object.
    pub path: String,
    /// Its value in the result; `None` if it is not there.
    pub value: Option<Json>,
    /// The value in the manifest, and its place.
    pub base: Option<Json>,
    pub base_at: Location,
    pub steps: Vec<FieldStep>,
    pub parameters: Vec<UsedParameter>,
    pub patches: Vec<UsedPatch>,
}

/// One write to the field, or to something around or below it.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct FieldStep {
    pub kind: WriteKind,
    pub path: String,
    pub old: Option<Json>,
    pub new: Option<Json>,
    pub at: Location,
    /// The references of the statement: `${replicas}`.
    pub references: Vec<String>,
}

/// A parameter a write used.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct UsedParameter {
    pub name: String,
    pub value: Json,
    /// `package`, `local`, `values` or `set`.
    pub layer: String,
    pub at: Location,
    /// The value in the package alone, if an upper layer overrode it.
    pub default: Option<(Json, Location)>,
    /// The parameters it is made of.
    pub chain: Vec<(String, Location)>,
}

/// A patch that wrote, and why it applies.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct UsedPatch {
    pub id: String,
    pub why: String,
    /// The place the parameter that enabled it was set at.
    pub at: Option<Location>,
}

impl PackageBuild {
    /// Explains `Kind/name`, `Kind/namespace/name`, with `.path.to.field` after it.
    pub fn explain(&self, target: &str) -> Result<Explanation, Problem> {
        let (object, steps) = self.find_target(target)?;
        let built = self.objects.iter().find(|built| built.resource == object);
        let resource = &self.resources[object];
        let current: &Json = built.map_or(&resource.value, |built| &built.value);
        let mut path: Vec<PathSegment> = Vec::new();
        let mut value = Some(current);
        for step in &steps {
            let seg = match (value, &step.kind) {
                (Some(Json::Array(items)), StepKind::Match(terms)) => {
                    let index = items.iter().position(|item| {
                        terms.iter().all(|term| {
                            let found = term.field.iter().try_fold(item, |at, key| at.get(key));
                            found.is_some_and(|found| {
                                found.as_str().map_or_else(|| found.to_string(), str::to_owned)
                                    == term.value.to_string()
                            })
                        })
                    });
                    match index {
                        Some(index) => item_seg(index, &items[index]),
                        None => PathSegment::Item {
                            index: usize::MAX,
                            name: terms.first().map(|term| term.value.to_string()),
                        },
                    }
                }
                (Some(Json::Array(items)), StepKind::Index(index)) => items
                    .get(*index)
                    .map_or(PathSegment::Item { index: *index, name: None }, |item| item_seg(*index, item)),
                (_, StepKind::Match(terms)) => PathSegment::Item {
                    index: usize::MAX,
                    name: terms.first().map(|term| term.value.to_string()),
                },
                (_, StepKind::Key(key)) => PathSegment::Key(key.to_string()),
                (_, StepKind::Index(index)) => PathSegment::Key(index.to_string()),
                (_, StepKind::All) => {
                    return Err(coded_error("KX070", format!("`{target}` names several fields"))
                        .hint("name one element"));
                }
            };
            value = value.and_then(|value| match &seg {
                PathSegment::Key(key) => value.get(key),
                PathSegment::Item { index, .. } => value.get(index),
            });
            path.push(seg);
        }
        let mut explanation = Explanation {
            object: show_id(&resource.id),
            path: show_segs(&path),
            value: value.cloned(),
            base: resource.base(&path),
            base_at: resource.locate_field(&path),
            steps: Vec::new(),
            parameters: Vec::new(),
            patches: Vec::new(),
        };
        let mut used: Vec<ParamPath> = Vec::new();
        let mut patches: Vec<usize> = Vec::new();
        for write in self.writes.iter().filter(|write| write.resource == object) {
            let related = write.path.iter().zip(&path).all(|(a, b)| a.is(b));
            if !related {
                continue;
            }
            // A write around the field counts only if it touches the field.
            let rest = path.get(write.path.len()..).unwrap_or_default();
            let (old, new) = (value_at(write.old.as_ref(), rest), value_at(write.new.as_ref(), rest));
            if old.is_none() && new.is_none() {
                continue;
            }
            let references = self.references_of(write.patch, write.group, write.statement);
            explanation.steps.push(FieldStep {
                kind: write.kind,
                path: show_segs(&write.path),
                old: old.cloned(),
                new: new.cloned(),
                at: Location::new(&*self.patches[write.patch].file, write.pos.line, write.pos.column),
                references: references.iter().map(|path| format!("${{{path}}}")).collect(),
            });
            for path in references {
                if !used.contains(&path) {
                    used.push(path);
                }
            }
            if !patches.contains(&write.patch) {
                patches.push(write.patch);
            }
        }
        explanation.parameters = used.iter().filter_map(|path| self.explain_param(path)).collect();
        explanation.patches = patches.into_iter().map(|index| self.used_patch(index)).collect();
        Ok(explanation)
    }

    /// The sources of a parameter's value.
    pub fn explain_param(&self, path: &ParamPath) -> Option<UsedParameter> {
        let value = self.params.get(path)?;
        let pos = self.params.raw(path).map_or(value.pos, |raw| raw.pos);
        let layer = self
            .params
            .layers()
            .get(usize::from(pos.layer))
            .map(|layer| layer.kind.to_string())
            .unwrap_or_default();
        let default = (pos.layer != 0).then(|| raw_at(&self.params.layers.package, path)).flatten();
        Some(UsedParameter {
            name: path.to_string(),
            value: value.to_json(),
            layer,
            at: self.params.location(pos),
            default: default.map(|default| (default.to_json(), self.params.location(default.pos))),
            chain: self
                .params
                .chain(path)
                .into_iter()
                .skip(1)
                .map(|(path, pos)| (path.to_string(), self.params.location(pos)))
                .collect(),
        })
    }

    fn used_patch(&self, index: usize) -> UsedPatch {
        let patch = &self.patches[index];
        let state = &self.decision.states[index];
        let at = match (&patch.enabled, state) {
            (EnabledCondition::When(path), PatchState::On(_)) => {
                self.params.get(path).map(|param| self.params.location(param.pos))
            }
            _ => None,
        };
        UsedPatch { id: patch.shown(), why: state.to_string(), at }
    }

    /// Finds the object and the path of `Kind/ns/name.path`.
    fn find_target(&self, target: &str) -> Result<(usize, Vec<kpatch::PathStep>), Problem> {
        let malformed = || {
            coded_error(
                "KX071",
                format!("`{target}` is no Kind/name or Kind/namespace/name with an optional .path"),
            )
        };
        let (kind, rest) = target.split_once('/').ok_or_else(malformed)?;
        // Names may hold dots, so the longest name that fits wins.
        let mut best: Option<(usize, usize)> = None;
        let mut names: Vec<String> = Vec::new();
        for (index, resource) in self.resources.iter().enumerate() {
            let id = &resource.id;
            if !id.kind.eq_ignore_ascii_case(kind) {
                continue;
            }
            let with_namespace = format!("{}/{}", id.namespace, id.name);
            for name in [with_namespace.as_str(), id.name.as_str()] {
                let fits = rest
                    .strip_prefix(name)
                    .is_some_and(|after| after.is_empty() || after.starts_with(['.', '[']));
                if fits && best.is_none_or(|(_, length)| name.len() > length) {
                    best = Some((index, name.len()));
                }
            }
            names.push(if id.namespace.is_empty() {
                format!("{}/{}", id.kind, id.name)
            } else {
                format!("{}/{with_namespace}", id.kind)
            });
        }
        let Some((index, length)) = best else {
            let problem = coded_error("KX002", format!("no object matches `{target}`"));
            let near = nearest_name(target, names.iter().map(String::as_str)).map(str::to_owned);
            return Err(match near {
                Some(near) => problem.hint(format!("did you mean `{near}`?")),
                None if names.is_empty() => problem.hint(format!("the package has no `{kind}`")),
                None => problem.hint(format!("there are {}", crate::report::join_words(&names, 8))),
            });
        };
        let path = rest[length..].trim_start_matches('.');
        if path.is_empty() {
            return Ok((index, Vec::new()));
        }
        let (steps, _) =
            kpatch::parse_keypath(path).map_err(|why| coded_error("KX071", format!("`{path}`: {why}")))?;
        Ok((index, steps))
    }
}

fn value_at<'j>(value: Option<&'j Json>, path: &[PathSegment]) -> Option<&'j Json> {
    path.iter().try_fold(value?, |value, seg| match seg {
        PathSegment::Key(key) => value.get(key),
        PathSegment::Item { index, name } => match name {
            Some(name) => {
                value.as_array()?.iter().find(|item| item.get("name").and_then(Json::as_str) == Some(name))
            }
            None => value.get(index),
        },
    })
}

impl std::fmt::Display for Explanation {
    /// Writes the story as aligned lines.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let short = |value: &Option<Json>| match value {
            None => "-".to_owned(),
            Some(Json::String(text)) if !text.contains('\n') => text.clone(),
            Some(value) => {
                let text = value.to_string();
                if text.chars().count() > 60 {
                    text.chars().take(57).chain("...".chars()).collect()
                } else {
                    text
                }
            }
        };
        let place = |at: &Location| {
            if at.line == 0 { at.file.to_string() } else { format!("{}:{}", at.file, at.line) }
        };
        let path = if self.path.is_empty() { String::new() } else { format!("  {}", self.path) };
        writeln!(f, "{}{path} = {}", self.object, short(&self.value))?;
        if self.base.is_some() {
            writeln!(f, "  base       {}  {}", short(&self.base), place(&self.base_at))?;
        }
        for step in &self.steps {
            let kind = match step.kind {
                WriteKind::Set => "set",
                WriteKind::Insert => "insert",
                WriteKind::Delete => "delete",
                WriteKind::Replace => "replace",
            };
            let line = format!(
                "  {kind:<10} {}  {}  {}",
                short(&step.new),
                place(&step.at),
                step.references.join(" ")
            );
            writeln!(f, "{}", line.trim_end())?;
        }
        for parameter in &self.parameters {
            write!(
                f,
                "  parameter {} = {}   {} {}",
                parameter.name,
                short(&Some(parameter.value.clone())),
                parameter.layer,
                place(&parameter.at)
            )?;
            if let Some((value, at)) = &parameter.default {
                write!(f, "   (package default {}, {})", short(&Some(value.clone())), place(at))?;
            }
            writeln!(f)?;
        }
        for patch in &self.patches {
            write!(f, "  patch {} {}", patch.id, patch.why)?;
            if let Some(at) = &patch.at {
                write!(f, " ({})", place(at))?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}
