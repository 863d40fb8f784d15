//! Walking a path through one object and writing at its end.

use std::collections::HashSet;

use serde_json::{Map, Value as Json};
use slipway_problem::{Location, Problem, nearest};

use super::merge::{merge, nested_clash, strip_nulls};
use super::ready::{Ready, ReadyAnchor, ReadyKind, ReadyOp, ReadyStep};
use super::realize::{NoValue, Realize};
use super::seg::{Seg, item_seg, show_segs};
use crate::report::{error, warning};
use crate::schema::{FieldScalar, FieldType, Form, Next};
use crate::val::{Pos, Shape, Val, shape};

/// The value a statement writes.
#[derive(Clone, Copy)]
pub(crate) enum Input<'i> {
    Value(Option<&'i Val>),
    /// Built already.
    Ready(&'i Json),
}

/// The change made to a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Did {
    Set,
    Insert,
    Delete,
    Replace,
}

/// A change a walk made.
pub(crate) struct Change {
    pub(crate) path: Vec<Seg>,
    pub(crate) did: Did,
    pub(crate) old: Option<Json>,
    pub(crate) new: Option<Json>,
}

/// The reason a walk stopped.
pub(crate) enum Fault {
    Broken,
    Problem(Problem),
}

impl From<Problem> for Fault {
    fn from(problem: Problem) -> Self {
        Self::Problem(problem)
    }
}

impl From<NoValue> for Fault {
    fn from(none: NoValue) -> Self {
        match none {
            NoValue::Broken => Self::Broken,
            NoValue::Problem(problem) => Self::Problem(problem),
        }
    }
}

/// One statement on one object.
pub(crate) struct Walk<'w, 'p> {
    pub(crate) realize: &'w mut Realize<'p>,
    pub(crate) ready: &'w Ready,
    pub(crate) input: Input<'w>,
    pub(crate) pos: Pos,
    pub(crate) optional: bool,
    /// The scope may match several objects: what one of them lacks is skipped.
    pub(crate) wild: bool,
    /// The scope may match several kinds: maps are made only below `metadata`.
    pub(crate) any_kind: bool,
    pub(crate) label: &'w dyn Fn() -> String,
    pub(crate) warned: &'w mut HashSet<(u32, u32)>,
    pub(crate) path: Vec<Seg>,
    pub(crate) changes: Vec<Change>,
    /// Paths skipped because they are not there.
    pub(crate) missing: Option<Problem>,
    pub(crate) hits: usize,
}

/// A place a value can be put.
pub(super) enum Slot<'n> {
    Map(&'n mut Map<String, Json>, &'n str),
    List(&'n mut Vec<Json>, usize),
}

impl Slot<'_> {
    /// Null counts as absent.
    fn get(&self) -> Option<&Json> {
        match self {
            Self::Map(map, key) => map.get(*key),
            Self::List(items, index) => items.get(*index),
        }
        .filter(|value| !value.is_null())
    }

    pub(super) fn get_mut(&mut self) -> Option<&mut Json> {
        match self {
            Self::Map(map, key) => map.get_mut(*key),
            Self::List(items, index) => items.get_mut(*index),
        }
        .filter(|value| !value.is_null())
    }

    pub(super) fn put(&mut self, value: Json) {
        match self {
            Self::Map(map, key) => {
                map.insert((*key).to_owned(), value);
            }
            Self::List(items, index) => {
                if let Some(item) = items.get_mut(*index) {
                    *item = value;
                }
            }
        }
    }

    fn remove(&mut self) -> Option<Json> {
        match self {
            Self::Map(map, key) => map.shift_remove(*key),
            Self::List(items, index) => (*index < items.len()).then(|| items.remove(*index)),
        }
    }
}

impl Walk<'_, '_> {
    fn at(&self, pos: Pos) -> Location {
        Location::new(self.realize.file, pos.line, pos.column)
    }

    pub(super) fn shown(&self) -> String {
        if self.path.is_empty() { "the object".to_owned() } else { show_segs(&self.path) }
    }

    pub(super) fn problem(&self, code: &str, pos: Pos, message: String) -> Problem {
        error(code, format!("{message} of {}", (self.label)())).at(self.at(pos))
    }

    /// Something is not there: no mistake for several objects at once or with `?`.
    pub(super) fn absent(&mut self, problem: Problem) -> Result<(), Fault> {
        if self.optional {
            return Ok(());
        }
        if self.wild {
            self.missing.get_or_insert(problem);
            return Ok(());
        }
        Err(problem.into())
    }

    /// Runs the statement on an object. The path has a limited length, so recursion is limited.
    pub(crate) fn run(&mut self, root: &mut Json, ty: FieldType<'_>) -> Result<(), Fault> {
        let ready = self.ready;
        self.descend(root, &ready.steps, ty)
    }

    fn descend(&mut self, node: &mut Json, steps: &[ReadyStep], ty: FieldType<'_>) -> Result<(), Fault> {
        let Some((step, rest)) = steps.split_first() else {
            return Err(self.problem("KX010", self.pos, "the path is empty".to_owned()).into());
        };
        match (node, &step.kind) {
            (Json::Object(map), ReadyKind::Key(key)) => self.key(map, key, step, rest, ty),
            (Json::Object(map), ReadyKind::Index(index)) => self.key(map, &index.to_string(), step, rest, ty),
            (Json::Object(map), ReadyKind::All) => {
                let wild = std::mem::replace(&mut self.wild, true);
                let keys: Vec<String> = map.keys().cloned().collect();
                for key in keys {
                    self.key(map, &key, step, rest, ty)?;
                }
                self.wild = wild;
                Ok(())
            }
            (Json::Array(items), ReadyKind::All) => {
                let wild = std::mem::replace(&mut self.wild, true);
                // Backwards, so that deleting elements leaves the others in place.
                for index in (0..items.len()).rev() {
                    self.item(items, index, rest, ty)?;
                }
                self.wild = wild;
                Ok(())
            }
            (Json::Array(items), ReadyKind::Index(index)) => {
                if *index >= items.len() {
                    let message = format!("no element {index} in {}", self.shown());
                    let problem = self
                        .problem("KX020", step.pos, message)
                        .hint(format!("it has {} elements", items.len()));
                    return self.absent(problem);
                }
                self.item(items, *index, rest, ty)
            }
            (Json::Array(items), ReadyKind::Match(terms)) => match self.find(items, terms, step.pos)? {
                Some(index) => self.item(items, index, rest, ty),
                None => Ok(()),
            },
            (Json::Array(_), ReadyKind::Key(key)) => {
                let message = format!("{} is a list and has no key `{key}`", self.shown());
                Err(self
                    .problem("KX010", step.pos, message)
                    .hint("select elements with [0], [name=value] or *")
                    .into())
            }
            (Json::Object(_), ReadyKind::Match(_)) => {
                let message = format!("{} is a map, not a list to select from", self.shown());
                Err(self.problem("KX010", step.pos, message).into())
            }
            (Json::Null, _) => {
                let message = format!("{} is empty", self.shown());
                let problem = self.problem("KX020", step.pos, message);
                self.absent(problem)
            }
            (scalar, _) => {
                let message =
                    format!("{} is {}, nothing is below it", self.shown(), crate::val::type_name(scalar));
                let problem = self.problem("KX010", step.pos, message);
                let string_map = ty.form() == Form::Scalar(FieldScalar::String) && ty.owner.is_empty();
                let last = match self.path.last() {
                    Some(Seg::Key(key)) if string_map => join_keys(key, steps),
                    _ => None,
                };
                Err(match last {
                    Some(joined) => problem.hint(format!(
                        "quote the key: {}[\"{joined}\"]",
                        show_segs(&self.path[..self.path.len() - 1])
                    )),
                    None => problem,
                }
                .into())
            }
        }
    }

    fn item(
        &mut self,
        items: &mut Vec<Json>,
        index: usize,
        rest: &[ReadyStep],
        ty: FieldType<'_>,
    ) -> Result<(), Fault> {
        let seg = item_seg(index, &items[index]);
        self.path.push(seg);
        let result = if rest.is_empty() {
            self.slot(Slot::List(items, index), ty.item())
        } else {
            self.descend(&mut items[index], rest, ty.item())
        };
        self.path.pop();
        result
    }

    fn key(
        &mut self,
        map: &mut Map<String, Json>,
        key: &str,
        step: &ReadyStep,
        rest: &[ReadyStep],
        ty: FieldType<'_>,
    ) -> Result<(), Fault> {
        let below = match ty.child(key) {
            Next::Known(below) => below,
            Next::Undeclared => {
                self.warn_undeclared(key, step.pos, ty);
                FieldType::unknown()
            }
            Next::Nothing => FieldType::unknown(),
        };
        self.path.push(Seg::Key(key.to_owned()));
        let result = match map.get_mut(key).filter(|value| !value.is_null()) {
            _ if rest.is_empty() => self.slot(Slot::Map(map, key), below),
            Some(child) => self.descend(child, rest, below),
            None => self.create(map, key, rest, below),
        };
        self.path.pop();
        result
    }

    fn warn_undeclared(&mut self, key: &str, pos: Pos, ty: FieldType<'_>) {
        if !self.warned.insert((pos.line, pos.column)) {
            return;
        }
        let owner =
            if ty.owner.is_empty() && ty.name.is_empty() { self.shown() } else { show_segs(&self.path) };
        let known = ty.fields();
        let problem = warning("KX012", format!("`{key}` is no field of {owner} in {}", (self.label)()))
            .at(self.at(pos));
        let problem = match nearest(key, known.iter().copied()) {
            Some(near) => problem.hint(format!("did you mean `{near}`?")),
            None if self.path.is_empty() && ["containers", "volumes", "initContainers"].contains(&key) => {
                problem.hint(format!("write the whole path: spec.template.spec.{key}"))
            }
            None if self.path.is_empty()
                && ["ports", "selector", "type", "tls", "rules", "replicas"].contains(&key) =>
            {
                problem.hint(format!("write the whole path: spec.{key}"))
            }
            None => problem,
        };
        self.realize.warnings.push(problem);
    }

    /// Makes the maps a path needs, all at once or not at all.
    fn create(
        &mut self,
        map: &mut Map<String, Json>,
        key: &str,
        rest: &[ReadyStep],
        ty: FieldType<'_>,
    ) -> Result<(), Fault> {
        let makes =
            !matches!(self.ready.op, ReadyOp::Delete | ReadyOp::DeleteAnchor(_) | ReadyOp::DeleteNamed(_));
        if !makes {
            let problem =
                self.problem("KX030", self.pos, format!("{} is not there to delete from", self.shown()));
            return self.absent(problem);
        }
        let below_metadata = matches!(self.path.first(), Some(Seg::Key(first)) if first == "metadata");
        if self.any_kind && !below_metadata {
            return Ok(());
        }
        let depth = self.path.len();
        let mut keys: Vec<&str> = Vec::new();
        let mut at = ty;
        for (position, step) in rest.iter().enumerate() {
            let form = at.form();
            let next = match (&step.kind, form) {
                (_, Form::Scalar(scalar)) => {
                    let message = format!("{} is {}, nothing is below it", self.shown(), scalar.name());
                    let problem = self.problem("KX010", step.pos, message);
                    let string_map = scalar == FieldScalar::String && at.owner.is_empty();
                    let parent = self.path.len().saturating_sub(1);
                    let joined = match self.path.last() {
                        Some(Seg::Key(key)) if string_map => join_keys(key, &rest[position..]),
                        _ => None,
                    };
                    let shown = show_segs(&self.path[..parent]);
                    self.path.truncate(depth);
                    return Err(match joined {
                        Some(joined) => problem.hint(format!("quote the key: {shown}[\"{joined}\"]")),
                        None => problem,
                    }
                    .into());
                }
                (ReadyKind::All, _) => {
                    self.path.truncate(depth);
                    return Ok(());
                }
                (ReadyKind::Match(_), _) | (ReadyKind::Index(_), Form::List) => {
                    let problem = self.problem(
                        "KX020",
                        step.pos,
                        format!("{} is not there: it has no elements", self.shown()),
                    );
                    self.path.truncate(depth);
                    return self.absent(problem);
                }
                (ReadyKind::Index(index), Form::Any) => {
                    let message =
                        format!("{} is not there, and `{index}` could be an element or a key", self.shown());
                    let problem = self
                        .problem("KX011", step.pos, message)
                        .hint(format!("write [\"{index}\"] for a key"));
                    self.path.truncate(depth);
                    return Err(problem.into());
                }
                (ReadyKind::Key(key), Form::List) => {
                    let message = format!("{} is a list and has no key `{key}`", self.shown());
                    let problem = self.problem("KX010", step.pos, message);
                    self.path.truncate(depth);
                    return Err(problem.into());
                }
                (ReadyKind::Key(key), _) => key.as_str(),
                (ReadyKind::Index(_), Form::Map) => {
                    // An index on a map is a key of that name, which only a quoted key can make.
                    let problem = self.problem("KX020", step.pos, format!("{} is not there", self.shown()));
                    self.path.truncate(depth);
                    return self.absent(problem);
                }
            };
            at = match at.child(next) {
                Next::Known(below) => below,
                Next::Undeclared => {
                    self.warn_undeclared(next, step.pos, at);
                    FieldType::unknown()
                }
                Next::Nothing => FieldType::unknown(),
            };
            keys.push(next);
            self.path.push(Seg::Key(next.to_owned()));
        }
        let result = self.fresh(at);
        let path = std::mem::take(&mut self.path);
        self.path = path[..depth].to_vec();
        let Some(leaf) = result? else { return Ok(()) };
        self.hits += 1;
        self.changes.push(Change { path, did: Did::Set, old: None, new: Some(leaf.clone()) });
        let made = keys.iter().rev().fold(leaf, |value, key| {
            let mut map = Map::new();
            map.insert((*key).to_owned(), value);
            Json::Object(map)
        });
        map.insert(key.to_owned(), made);
        Ok(())
    }

    /// The value for a place where nothing is; `None` if nothing is to be put there.
    pub(super) fn fresh(&mut self, ty: FieldType<'_>) -> Result<Option<Json>, Fault> {
        match &self.ready.op {
            ReadyOp::Set | ReadyOp::Replace => {
                let mut value = self.value(ty)?;
                strip_nulls(&mut value);
                Ok((!value.is_null()).then_some(value))
            }
            ReadyOp::Append | ReadyOp::Before(ReadyAnchor::Index(0)) => {
                Ok(Some(Json::Array(vec![self.value(ty.item())?])))
            }
            ReadyOp::Before(_) | ReadyOp::After(_) => {
                let problem = self.problem(
                    "KX020",
                    self.pos,
                    format!("{} is not there: it has no elements", self.shown()),
                );
                self.absent(problem).map(|()| None)
            }
            _ => Ok(None),
        }
    }

    pub(super) fn value(&mut self, ty: FieldType<'_>) -> Result<Json, Fault> {
        match self.input {
            Input::Ready(json) => Ok(json.clone()),
            Input::Value(None) => Ok(Json::Null),
            Input::Value(Some(val)) => {
                let (path, label) = (&self.path, self.label);
                let field = || format!("{} of {}", show_segs(path), label());
                Ok(self.realize.value(val, ty, &field)?)
            }
        }
    }

    pub(super) fn record(&mut self, did: Did, old: Option<Json>, new: Option<Json>) {
        self.hits += 1;
        self.changes.push(Change { path: self.path.clone(), did, old, new });
    }

    fn slot(&mut self, mut slot: Slot<'_>, ty: FieldType<'_>) -> Result<(), Fault> {
        match &self.ready.op {
            ReadyOp::Set => self.set(slot, ty),
            ReadyOp::Replace => {
                let value = self.value(ty)?;
                let old = slot.get().cloned();
                if value.is_null() {
                    drop(slot.remove());
                } else {
                    slot.put(value.clone());
                }
                self.record(Did::Replace, old, Some(value));
                Ok(())
            }
            ReadyOp::Delete => match slot.remove() {
                Some(old) => {
                    self.record(Did::Delete, Some(old), None);
                    Ok(())
                }
                None => {
                    let problem =
                        self.problem("KX030", self.pos, format!("{} is not there to delete", self.shown()));
                    let problem = problem.hint("end the key with ? to skip when absent");
                    self.absent(problem)
                }
            },
            _ => self.list_op(slot, ty),
        }
    }

    fn set(&mut self, mut slot: Slot<'_>, ty: FieldType<'_>) -> Result<(), Fault> {
        let ready_shape = match self.input {
            Input::Value(Some(val)) if !matches!(val.data, crate::val::Data::Text(_)) => Some(val.shape()),
            _ => None,
        };
        // A wrong shape is said before a wrong type: it is the larger mistake.
        if let (Some(new), Some(old)) = (ready_shape, slot.get()) {
            self.clash(shape(old), new)?;
        }
        let mut value = self.value(ty)?;
        if value.is_null() {
            let old = slot.remove();
            if old.is_some() {
                self.record(Did::Delete, old, None);
            } else {
                self.hits += 1;
            }
            return Ok(());
        }
        let old = slot.get().cloned();
        match slot.get_mut() {
            None => {
                strip_nulls(&mut value);
                slot.put(value.clone());
            }
            Some(existing) => {
                self.clash(shape(existing), shape(&value))?;
                if let Some((below, was, is)) = nested_clash(existing, &value, &mut Vec::new()) {
                    let message = format!("{}.{below} is {was}, the value is {is}", self.shown());
                    return Err(self
                        .problem("KX032", self.pos, message)
                        .hint("use [replace] to swap it")
                        .into());
                }
                merge(existing, value.clone());
            }
        }
        self.record(Did::Set, old, Some(value));
        Ok(())
    }

    fn clash(&self, was: Shape, is: Shape) -> Result<(), Fault> {
        if was == is || was == Shape::Null || is == Shape::Null {
            return Ok(());
        }
        let message = format!("{} is {was}, the value is {is}", self.shown());
        Err(self
            .problem("KX032", self.pos, message)
            .hint(format!("use {}[replace] to swap it", self.shown()))
            .into())
    }
}

/// `prometheus` and the keys after it were meant as one: `prometheus.io/scrape`.
fn join_keys(first: &str, steps: &[ReadyStep]) -> Option<String> {
    let mut joined = first.to_owned();
    for step in steps {
        let ReadyKind::Key(key) = &step.kind else { return None };
        joined.push('.');
        joined.push_str(key);
    }
    Some(joined)
}
