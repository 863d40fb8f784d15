//! Walking a path through one object and writing at its end.

use std::collections::HashSet;

use serde_json::{Map, Value as Json};
use slipway_problem::{Location, Problem, nearest};

use super::realize::{NoValue, Realize};
use crate::kpatch::{Anchor, Children, Op, Step, StepKind, Term};
use crate::report::{error, listed, warning};
use crate::schema::{FieldType, Form, Next, ScalarType};
use crate::val::{Pos, Shape, Val, shape};

/// One step of the path of a field, as it was when it was written.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Seg {
    Key(String),
    /// An element, by its `name` where it has one.
    Item {
        index: usize,
        name: Option<String>,
    },
}

impl Seg {
    /// Whether both name the same field or element.
    pub fn is(&self, other: &Seg) -> bool {
        match (self, other) {
            (Self::Key(a), Self::Key(b)) => a == b,
            (Self::Item { name: Some(a), .. }, Self::Item { name: Some(b), .. }) => a == b,
            (Self::Item { index: a, .. }, Self::Item { index: b, .. }) => a == b,
            _ => false,
        }
    }
}

/// Writes a path: `spec.containers[name=app].image`.
pub fn show_segs(path: &[Seg]) -> String {
    let mut out = String::new();
    for seg in path {
        match seg {
            Seg::Key(key) if key.contains(['.', '[', ' ']) => out.push_str(&format!("[{key:?}]")),
            Seg::Key(key) => {
                if !out.is_empty() {
                    out.push('.');
                }
                out.push_str(key);
            }
            Seg::Item { name: Some(name), .. } => out.push_str(&format!("[name={name}]")),
            Seg::Item { index, .. } => out.push_str(&format!("[{index}]")),
        }
    }
    out
}

/// The element of a list as a path names it.
pub(crate) fn item_seg(index: usize, item: &Json) -> Seg {
    Seg::Item { index, name: item.get("name").and_then(Json::as_str).map(str::to_owned) }
}

/// A step with its references put in.
#[derive(Clone, Debug)]
pub(crate) struct ReadyStep {
    kind: ReadyKind,
    pos: Pos,
}

#[derive(Clone, Debug)]
enum ReadyKind {
    Key(String),
    Index(usize),
    All,
    Match(Vec<(Vec<String>, String)>),
}

#[derive(Clone, Debug)]
enum ReadyAnchor {
    Index(usize),
    Match(Vec<(Vec<String>, String)>),
}

#[derive(Clone, Debug)]
enum ReadyOp {
    Set,
    Replace,
    Append,
    Before(ReadyAnchor),
    After(ReadyAnchor),
    Delete,
    DeleteAnchor(ReadyAnchor),
    DeleteNamed(String),
}

/// A path and an operation with their references put in.
#[derive(Clone, Debug)]
pub(crate) struct Ready {
    pub(crate) steps: Vec<ReadyStep>,
    op: ReadyOp,
}

fn ready_terms(
    terms: &[Term],
    realize: &Realize<'_>,
    pos: Pos,
) -> Result<Vec<(Vec<String>, String)>, NoValue> {
    terms.iter().map(|term| Ok((term.field.clone(), realize.name(&term.value, pos)?))).collect()
}

fn ready_anchor(anchor: &Anchor, realize: &Realize<'_>, pos: Pos) -> Result<ReadyAnchor, NoValue> {
    Ok(match anchor {
        Anchor::Index(index) => ReadyAnchor::Index(*index),
        Anchor::Match(terms) => ReadyAnchor::Match(ready_terms(terms, realize, pos)?),
    })
}

impl Ready {
    /// Puts the references of a path in, once for all objects.
    pub(crate) fn new<'s>(
        steps: impl IntoIterator<Item = &'s Step>,
        op: &Op,
        pos: Pos,
        realize: &Realize<'_>,
    ) -> Result<Self, NoValue> {
        let mut ready = Vec::new();
        for step in steps {
            let kind = match &step.kind {
                StepKind::Key(key) => ReadyKind::Key(realize.name(key, step.pos)?),
                StepKind::Index(index) => ReadyKind::Index(*index),
                StepKind::All => ReadyKind::All,
                StepKind::Match(terms) => ReadyKind::Match(ready_terms(terms, realize, step.pos)?),
            };
            ready.push(ReadyStep { kind, pos: step.pos });
        }
        let op = match op {
            Op::Set => ReadyOp::Set,
            Op::Replace => ReadyOp::Replace,
            Op::Append => ReadyOp::Append,
            Op::Before(anchor) => ReadyOp::Before(ready_anchor(anchor, realize, pos)?),
            Op::After(anchor) => ReadyOp::After(ready_anchor(anchor, realize, pos)?),
            Op::Delete(None) => ReadyOp::Delete,
            Op::Delete(Some(Children::Anchor(anchor))) => {
                ReadyOp::DeleteAnchor(ready_anchor(anchor, realize, pos)?)
            }
            Op::Delete(Some(Children::Named(name))) => ReadyOp::DeleteNamed(realize.name(name, pos)?),
        };
        Ok(Self { steps: ready, op })
    }

    /// The first key of the path.
    pub(crate) fn first_key(&self) -> Option<&str> {
        match &self.steps.first()?.kind {
            ReadyKind::Key(key) => Some(key),
            _ => None,
        }
    }

    /// Whether the path is exactly these keys.
    pub(crate) fn is_path(&self, keys: &[&str]) -> bool {
        self.steps.len() == keys.len()
            && self
                .steps
                .iter()
                .zip(keys)
                .all(|(step, key)| matches!(&step.kind, ReadyKind::Key(own) if own == key))
    }
}

/// What is written.
#[derive(Clone, Copy)]
pub(crate) enum Input<'i> {
    Value(Option<&'i Val>),
    /// Built already.
    Ready(&'i Json),
}

/// What happened to a field.
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

/// Why a walk stopped.
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
    /// What was skipped because it is not there.
    pub(crate) missing: Option<Problem>,
    pub(crate) hits: usize,
}

/// A place a value can be put.
enum Slot<'n> {
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

    fn get_mut(&mut self) -> Option<&mut Json> {
        match self {
            Self::Map(map, key) => map.get_mut(*key),
            Self::List(items, index) => items.get_mut(*index),
        }
        .filter(|value| !value.is_null())
    }

    fn put(&mut self, value: Json) {
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

    fn shown(&self) -> String {
        if self.path.is_empty() { "the object".to_owned() } else { show_segs(&self.path) }
    }

    fn problem(&self, code: &str, pos: Pos, message: String) -> Problem {
        error(code, format!("{message} of {}", (self.label)())).at(self.at(pos))
    }

    /// Something is not there: no mistake for several objects at once or with `?`.
    fn absent(&mut self, problem: Problem) -> Result<(), Fault> {
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
                let string_map = ty.form() == Form::Scalar(ScalarType::String) && ty.owner.is_empty();
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
                    let string_map = scalar == ScalarType::String && at.owner.is_empty();
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
    fn fresh(&mut self, ty: FieldType<'_>) -> Result<Option<Json>, Fault> {
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

    fn value(&mut self, ty: FieldType<'_>) -> Result<Json, Fault> {
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

    fn record(&mut self, did: Did, old: Option<Json>, new: Option<Json>) {
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

    fn list_op(&mut self, mut slot: Slot<'_>, ty: FieldType<'_>) -> Result<(), Fault> {
        let ready = self.ready;
        let Some(node) = slot.get_mut() else {
            if matches!(ready.op, ReadyOp::DeleteAnchor(_) | ReadyOp::DeleteNamed(_)) {
                let problem =
                    self.problem("KX030", self.pos, format!("{} is not there to delete from", self.shown()));
                return self.absent(problem);
            }
            if let Some(list) = self.fresh(ty)? {
                slot.put(list.clone());
                self.record(Did::Set, None, Some(list));
            }
            return Ok(());
        };
        if let (Json::Object(map), ReadyOp::DeleteNamed(name)) = (&mut *node, &ready.op) {
            return match map.shift_remove(name) {
                Some(old) => {
                    self.path.push(Seg::Key(name.clone()));
                    self.record(Did::Delete, Some(old), None);
                    self.path.pop();
                    Ok(())
                }
                None => {
                    let keys: Vec<&str> = map.keys().map(String::as_str).collect();
                    let hint = format!("keys present: {}", listed(&keys, 8));
                    let problem = self.problem(
                        "KX030",
                        self.pos,
                        format!("{} has no key `{name}` to delete", self.shown()),
                    );
                    self.absent(problem.hint(hint))
                }
            };
        }
        let Json::Array(items) = node else {
            let message = format!("{} is {}, not a list", self.shown(), crate::val::type_name(node));
            return Err(self.problem("KX031", self.pos, message).into());
        };
        let index = match &ready.op {
            ReadyOp::Append => items.len(),
            ReadyOp::Before(ReadyAnchor::Index(index)) if *index <= items.len() => *index,
            ReadyOp::After(ReadyAnchor::Index(index)) if *index < items.len() => index + 1,
            ReadyOp::DeleteAnchor(ReadyAnchor::Index(index)) if *index < items.len() => *index,
            ReadyOp::Before(ReadyAnchor::Index(index)) | ReadyOp::After(ReadyAnchor::Index(index)) => {
                let message = format!("no position {index} in {}", self.shown());
                let problem =
                    self.problem("KX020", self.pos, message).hint(format!("it has {} elements", items.len()));
                return self.absent(problem);
            }
            ReadyOp::DeleteAnchor(ReadyAnchor::Index(index)) => {
                let message = format!("no element {index} in {} to delete", self.shown());
                let problem =
                    self.problem("KX030", self.pos, message).hint(format!("it has {} elements", items.len()));
                return self.absent(problem);
            }
            ReadyOp::Before(ReadyAnchor::Match(terms)) => match self.find(items, terms, self.pos)? {
                Some(index) => index,
                None => return Ok(()),
            },
            ReadyOp::After(ReadyAnchor::Match(terms)) => match self.find(items, terms, self.pos)? {
                Some(index) => index + 1,
                None => return Ok(()),
            },
            ReadyOp::DeleteAnchor(ReadyAnchor::Match(terms)) => {
                match items.iter().position(|item| holds(item, terms)) {
                    Some(index) => index,
                    None => {
                        let message =
                            format!("no element matching {} in {} to delete", show(terms), self.shown());
                        let problem = self.problem("KX030", self.pos, message).hint(present(items, terms));
                        return self.absent(problem);
                    }
                }
            }
            ReadyOp::DeleteNamed(name) => {
                match items.iter().position(|item| scalar_text(item).as_deref() == Some(name)) {
                    Some(index) => index,
                    None => {
                        let message = format!("no element `{name}` in {} to delete", self.shown());
                        let problem = self.problem("KX030", self.pos, message).hint(present(items, &[]));
                        return self.absent(problem);
                    }
                }
            }
            ReadyOp::Set | ReadyOp::Replace | ReadyOp::Delete => return Ok(()),
        };
        if matches!(ready.op, ReadyOp::DeleteAnchor(_) | ReadyOp::DeleteNamed(_)) {
            let old = items.remove(index);
            self.path.push(item_seg(index, &old));
            self.record(Did::Delete, Some(old), None);
            self.path.pop();
            return Ok(());
        }
        let value = self.value(ty.item())?;
        items.insert(index, value.clone());
        self.path.push(item_seg(index, &value));
        self.record(Did::Insert, None, Some(value));
        self.path.pop();
        Ok(())
    }

    /// The one element all terms hold for. `None`: absent, and that is no mistake here.
    fn find(
        &mut self,
        items: &[Json],
        terms: &[(Vec<String>, String)],
        pos: Pos,
    ) -> Result<Option<usize>, Fault> {
        let mut matches =
            items.iter().enumerate().filter(|(_, item)| holds(item, terms)).map(|(index, _)| index);
        match (matches.next(), matches.next()) {
            (Some(index), None) => Ok(Some(index)),
            (Some(_), Some(_)) => {
                let message = format!("several elements match {} in {}", show(terms), self.shown());
                Err(self.problem("KX021", pos, message).hint("add a term: [name=a,port=80]").into())
            }
            (None, _) => {
                let message = format!("no element matching {} in {}", show(terms), self.shown());
                let hint =
                    format!("{}; end the header or key with ? to skip when absent", present(items, terms));
                let problem = self.problem("KX020", pos, message).hint(hint);
                self.absent(problem).map(|()| None)
            }
        }
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

fn show(terms: &[(Vec<String>, String)]) -> String {
    let shown: Vec<String> =
        terms.iter().map(|(field, value)| format!("{}={value}", field.join("."))).collect();
    shown.join(",")
}

fn scalar_text(value: &Json) -> Option<String> {
    match value {
        Json::String(text) => Some(text.clone()),
        Json::Number(number) => Some(number.to_string()),
        Json::Bool(value) => Some(value.to_string()),
        _ => None,
    }
}

/// Terms compare by text; a missing field never matches.
fn holds(item: &Json, terms: &[(Vec<String>, String)]) -> bool {
    terms.iter().all(|(field, value)| {
        let found = field.iter().try_fold(item, |at, key| at.get(key));
        match found {
            Some(Json::String(text)) => text == value,
            Some(other) => scalar_text(other).as_deref() == Some(value),
            None => false,
        }
    })
}

/// What a list has instead of the element looked for.
fn present(items: &[Json], terms: &[(Vec<String>, String)]) -> String {
    let field: Vec<String> =
        terms.first().map_or_else(|| vec!["name".to_owned()], |(field, _)| field.clone());
    let names: Vec<String> = items
        .iter()
        .filter_map(|item| {
            scalar_text(item).or_else(|| scalar_text(field.iter().try_fold(item, |at, key| at.get(key))?))
        })
        .collect();
    if names.is_empty() {
        format!("it has {} elements", items.len())
    } else {
        format!("elements present: {}", listed(&names, 8))
    }
}

/// Nulls in a map remove what is there; where nothing is, they just go.
fn strip_nulls(value: &mut Json) {
    if let Json::Object(map) = value {
        map.retain(|_, value| !value.is_null());
        map.values_mut().for_each(strip_nulls);
    }
}

/// A map that would be merged into something that is none, below the field itself.
fn nested_clash(old: &Json, new: &Json, path: &mut Vec<String>) -> Option<(String, Shape, Shape)> {
    let (Json::Object(old), Json::Object(new)) = (old, new) else { return None };
    for (key, new) in new {
        let Some(old) = old.get(key) else { continue };
        path.push(key.clone());
        let found = match (shape(old), shape(new)) {
            (Shape::Map, Shape::Map) => nested_clash(old, new, path),
            (was @ (Shape::Scalar | Shape::List), is @ Shape::Map) => Some((path.join("."), was, is)),
            _ => None,
        };
        path.pop();
        if found.is_some() {
            return found;
        }
    }
    None
}

/// Maps recurse, everything else overwrites, null removes.
fn merge(old: &mut Json, new: Json) {
    match (old, new) {
        (Json::Object(old), Json::Object(new)) => {
            for (key, mut value) in new {
                if value.is_null() {
                    old.shift_remove(&key);
                } else if let Some(existing) = old.get_mut(&key).filter(|existing| !existing.is_null()) {
                    merge(existing, value);
                } else {
                    strip_nulls(&mut value);
                    old.insert(key, value);
                }
            }
        }
        (old, new) => *old = new,
    }
}
