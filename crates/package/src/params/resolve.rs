//! Resolving `${…}` inside parameters: every leaf once, in the order they need each other.

use std::sync::Arc;

use indexmap::IndexMap;
use slipway_problem::{Location, Problem, Problems};

use super::layers::ParamLayers;
use super::{ParamData, ParamValue, ResolvedParams, undefined_param};
use crate::report::{coded_error, coded_warning};
use crate::template::{ParamPath, ParamStep, Template, TemplatePiece};
use crate::val::{ValueData, WrittenValue};

/// A single text may not grow beyond this.
pub(crate) const LONGEST_TEXT: usize = 1 << 20;
/// All texts together.
const MOST_TEXT: usize = 64 << 20;
const MOST_NODES: usize = 100_000;
const DEEPEST: usize = 150;
/// Looking for the nearest name is a pass over all names.
const MOST_HINTS: usize = 50;

/// Resolves the merged tree. What cannot be resolved is reported and left broken.
pub(crate) fn resolve_params(layers: ParamLayers, problems: &mut Problems) -> ResolvedParams {
    let mut resolver = ParamResolver::new(&layers);
    resolver.resolve_leaves();
    let root =
        resolver.build_value(0).unwrap_or(ParamValue { data: ParamData::Broken, pos: layers.tree.pos });
    problems.extend(std::mem::take(&mut resolver.problems));
    ResolvedParams { root, layers }
}

enum SlotChildren<'v> {
    Leaf,
    List(Vec<u32>),
    Map(IndexMap<&'v str, u32>),
}

struct TreeSlot<'v> {
    val: &'v WrittenValue,
    kids: SlotChildren<'v>,
    parent: u32,
}

struct ParamResolver<'v> {
    layers: &'v ParamLayers,
    slots: Vec<TreeSlot<'v>>,
    done: Vec<Option<ParamValue>>,
    nodes_left: usize,
    text_left: usize,
    hints: usize,
    overflowed: bool,
    problems: Problems,
}

/// The reason a leaf has no value yet.
enum LeafStop {
    Need(Vec<u32>),
    Failed,
}

enum PathTarget<'r> {
    Slot(u32),
    Param(&'r ParamValue),
}

struct LeafFrame {
    leaf: u32,
    needs: Vec<u32>,
}

impl<'v> ParamResolver<'v> {
    fn new(layers: &'v ParamLayers) -> Self {
        let mut slots: Vec<TreeSlot<'v>> =
            vec![TreeSlot { val: &layers.tree, kids: SlotChildren::Leaf, parent: 0 }];
        let mut at = 0;
        while at < slots.len() {
            let val = slots[at].val;
            let mut child = |val: &'v WrittenValue| {
                slots.push(TreeSlot { val, kids: SlotChildren::Leaf, parent: at as u32 });
                (slots.len() - 1) as u32
            };
            let kids = match &val.data {
                ValueData::List(items) => SlotChildren::List(items.iter().map(&mut child).collect()),
                ValueData::Map(map) => {
                    SlotChildren::Map(map.iter().map(|(key, value)| (key.as_str(), child(value))).collect())
                }
                _ => SlotChildren::Leaf,
            };
            slots[at].kids = kids;
            at += 1;
        }
        let done = slots.iter().map(|_| None).collect();
        Self {
            layers,
            slots,
            done,
            nodes_left: MOST_NODES,
            text_left: MOST_TEXT,
            hints: 0,
            overflowed: false,
            problems: Problems::new(),
        }
    }

    fn location(&self, slot: u32) -> Location {
        self.layers.location(self.slots[slot as usize].val.pos)
    }

    fn path_of(&self, slot: u32) -> ParamPath {
        let mut steps = Vec::new();
        let mut at = slot;
        while at != 0 {
            let parent = self.slots[at as usize].parent;
            match &self.slots[parent as usize].kids {
                // The children of a slot were numbered one after the other.
                SlotChildren::List(items) => {
                    let first = items.first().copied().unwrap_or(at);
                    steps.push(ParamStep::Index((at - first) as usize));
                }
                SlotChildren::Map(map) => {
                    let first = map.values().next().copied().unwrap_or(at);
                    let key = map.get_index((at - first) as usize).map_or("", |(key, _)| *key);
                    steps.push(ParamStep::Key(key.to_owned()));
                }
                SlotChildren::Leaf => {}
            }
            at = parent;
        }
        steps.reverse();
        ParamPath(steps)
    }

    fn resolve_leaves(&mut self) {
        let leaves: Vec<u32> = (0..self.slots.len() as u32)
            .filter(|&slot| matches!(self.slots[slot as usize].kids, SlotChildren::Leaf))
            .collect();
        // Which leaves are being resolved, so that meeting one again is a cycle.
        let mut open = vec![false; self.slots.len()];
        for leaf in leaves {
            let mut frames = vec![LeafFrame { leaf, needs: Vec::new() }];
            if self.done[leaf as usize].is_some() {
                continue;
            }
            open[leaf as usize] = true;
            while let Some(frame) = frames.last_mut() {
                let leaf = frame.leaf;
                if let Some(need) = frame.needs.pop() {
                    if self.done[need as usize].is_some() {
                        continue;
                    }
                    if open[need as usize] {
                        let start = frames.iter().position(|frame| frame.leaf == need).unwrap_or(0);
                        let path: Vec<u32> = frames[start..].iter().map(|frame| frame.leaf).collect();
                        self.report_cycle(&path);
                        self.finish_leaf(leaf, None, &mut open);
                        frames.pop();
                        continue;
                    }
                    open[need as usize] = true;
                    frames.push(LeafFrame { leaf: need, needs: Vec::new() });
                    continue;
                }
                match self.resolve_leaf(leaf) {
                    Ok(param) => {
                        self.finish_leaf(leaf, Some(param), &mut open);
                        frames.pop();
                    }
                    Err(LeafStop::Need(mut needs)) => {
                        needs.reverse();
                        frame.needs = needs;
                    }
                    Err(LeafStop::Failed) => {
                        self.finish_leaf(leaf, None, &mut open);
                        frames.pop();
                    }
                }
            }
        }
    }

    fn finish_leaf(&mut self, leaf: u32, param: Option<ParamValue>, open: &mut [bool]) {
        let pos = self.slots[leaf as usize].val.pos;
        self.done[leaf as usize] = Some(param.unwrap_or(ParamValue { data: ParamData::Broken, pos }));
        open[leaf as usize] = false;
    }

    fn report_cycle(&mut self, leaves: &[u32]) {
        let mut names: Vec<String> = leaves.iter().map(|&leaf| self.path_of(leaf).to_string()).collect();
        let places: Vec<String> = leaves
            .iter()
            .zip(&names)
            .map(|(&leaf, name)| {
                let at = self.location(leaf);
                format!("{name} is at {}:{}", at.file, at.line)
            })
            .collect();
        if let Some(first) = names.first().cloned() {
            names.push(first);
        }
        let at = self.location(leaves[0]);
        self.problems.push(
            coded_error("KV024", format!("circular reference: {}", names.join(" -> ")))
                .at(at)
                .hint(places.join("; ")),
        );
    }

    fn report_overflow(&mut self, leaf: u32, what: &str) -> LeafStop {
        if !self.overflowed {
            self.overflowed = true;
            let message = format!("`{}` expands to more than {what}", self.path_of(leaf));
            let at = self.location(leaf);
            self.problems.push(coded_error("KV025", message).at(at));
        }
        LeafStop::Failed
    }

    fn report_failure(&mut self, leaf: u32, problem: Problem) -> LeafStop {
        let at = self.location(leaf);
        self.problems.push(problem.at(at));
        LeafStop::Failed
    }

    fn resolve_leaf(&mut self, leaf: u32) -> Result<ParamValue, LeafStop> {
        let val = self.slots[leaf as usize].val;
        let pos = val.pos;
        let data = match &val.data {
            ValueData::Null => ParamData::Null,
            ValueData::Bool(value) => ParamData::Bool(*value),
            ValueData::Number(number) => ParamData::Number(number.clone()),
            ValueData::Text(Template::Literal(text)) => ParamData::Text(text.as_str().into()),
            ValueData::Text(Template::Whole(path)) => {
                let mut data = self.value_of(leaf, path)?.data;
                if let Some(tag) = val.tag
                    && let Ok(json) =
                        crate::apply::cast::apply_tag(tag, &ParamValue { data: data.clone(), pos })
                {
                    data = json_param(&json);
                }
                data
            }
            ValueData::Text(Template::Mixed(pieces)) => {
                ParamData::Text(self.resolve_text(leaf, pieces)?.into())
            }
            ValueData::List(_) => ParamData::List(Vec::new()),
            ValueData::Map(_) => ParamData::Map(IndexMap::new()),
        };
        Ok(ParamValue { data, pos })
    }

    fn resolve_text(&mut self, leaf: u32, pieces: &[TemplatePiece]) -> Result<String, LeafStop> {
        let mut needs = Vec::new();
        for piece in pieces {
            if let TemplatePiece::Reference(path) = piece {
                match self.find_target(leaf, path) {
                    Ok(PathTarget::Slot(slot)) => self.collect_needs(slot, &mut needs),
                    Ok(PathTarget::Param(_)) => {}
                    Err(LeafStop::Need(more)) => needs.extend(more),
                    Err(LeafStop::Failed) => return Err(LeafStop::Failed),
                }
            }
        }
        if !needs.is_empty() {
            return Err(LeafStop::Need(needs));
        }
        let mut out = String::new();
        for piece in pieces {
            match piece {
                TemplatePiece::Text(text) => out.push_str(text),
                TemplatePiece::Reference(path) => {
                    let param = self.value_of(leaf, path)?;
                    if matches!(param.data, ParamData::Broken) {
                        return Err(LeafStop::Failed);
                    }
                    match param.text() {
                        Ok((text, float)) => {
                            if float {
                                let message =
                                    format!("`{path}` is an unquoted number used as text: `{text}`");
                                let at = self.location(leaf);
                                self.problems.push(
                                    coded_warning("KV030", message)
                                        .at(at)
                                        .hint(format!("quote it: {path}: \"{text}\"")),
                                );
                            }
                            out.push_str(&text);
                        }
                        Err((code, what)) => {
                            let text = Template::Mixed(pieces.to_vec());
                            let problem =
                                coded_error(code, format!("cannot place {what} inside text: `{text}`"));
                            return Err(self.report_failure(leaf, problem));
                        }
                    }
                    if out.len() > LONGEST_TEXT {
                        return Err(self.report_overflow(leaf, "1 MiB of text"));
                    }
                }
            }
        }
        if out.len() > self.text_left {
            return Err(self.report_overflow(leaf, "64 MiB of text"));
        }
        self.text_left -= out.len();
        Ok(out)
    }

    /// Finds what a path names, through references on the way.
    fn find_target(&mut self, leaf: u32, path: &ParamPath) -> Result<PathTarget<'_>, LeafStop> {
        let mut at = 0u32;
        let mut missing = false;
        let mut through = None;
        for (depth, step) in path.0.iter().enumerate() {
            let slot = &self.slots[at as usize];
            let kid = match (&slot.kids, step) {
                (SlotChildren::Map(map), ParamStep::Key(key)) => map.get(key.as_str()).copied(),
                (SlotChildren::List(items), ParamStep::Index(index)) => items.get(*index).copied(),
                (SlotChildren::Leaf, _) if matches!(slot.val.data, ValueData::Text(Template::Whole(_))) => {
                    if self.done[at as usize].is_none() {
                        return Err(LeafStop::Need(vec![at]));
                    }
                    through = Some((at, depth));
                    break;
                }
                _ => None,
            };
            match kid {
                Some(kid) => at = kid,
                None => {
                    missing = true;
                    break;
                }
            }
        }
        if let Some((slot, depth)) = through {
            let broken =
                matches!(self.done[slot as usize].as_ref().map(|param| &param.data), Some(ParamData::Broken));
            if broken {
                return Err(LeafStop::Failed);
            }
            let found = self.done[slot as usize]
                .as_ref()
                .and_then(|param| path.0[depth..].iter().try_fold(param, |param, step| param.child(step)))
                .is_some();
            if found {
                // Looked up twice: the first borrow would outlive the report of a failure.
                let param = self.done[slot as usize].as_ref().and_then(|param| {
                    path.0[depth..].iter().try_fold(param, |param, step| param.child(step))
                });
                return param.map(PathTarget::Param).ok_or(LeafStop::Failed);
            }
            missing = true;
        }
        if missing {
            let problem = self.undefined_problem(leaf, path);
            self.problems.push(problem);
            return Err(LeafStop::Failed);
        }
        Ok(PathTarget::Slot(at))
    }

    fn undefined_problem(&mut self, leaf: u32, path: &ParamPath) -> Problem {
        self.hints += 1;
        let names: Vec<String> = if self.hints <= MOST_HINTS {
            (1..self.slots.len() as u32).map(|slot| self.path_of(slot).to_string()).collect()
        } else {
            Vec::new()
        };
        let user = self.path_of(leaf);
        let mut problem = undefined_param(path, names.iter().map(String::as_str));
        problem.message = format!("{}; referenced by `{user}`", problem.message);
        problem.at(self.location(leaf))
    }

    /// Collects the unresolved leaves below a slot.
    fn collect_needs(&self, slot: u32, needs: &mut Vec<u32>) {
        let mut pending = vec![slot];
        while let Some(at) = pending.pop() {
            match &self.slots[at as usize].kids {
                SlotChildren::Leaf if self.done[at as usize].is_none() => needs.push(at),
                SlotChildren::Leaf => {}
                SlotChildren::List(items) => pending.extend(items.iter().rev()),
                SlotChildren::Map(map) => pending.extend(map.values().rev()),
            }
        }
    }

    /// The resolved value a path names, or what must be resolved before.
    fn value_of(&mut self, leaf: u32, path: &ParamPath) -> Result<ParamValue, LeafStop> {
        let slot = match self.find_target(leaf, path)? {
            PathTarget::Slot(slot) => slot,
            PathTarget::Param(param) => {
                let param = param.clone();
                return self.charge_value(leaf, param);
            }
        };
        let mut needs = Vec::new();
        self.collect_needs(slot, &mut needs);
        if !needs.is_empty() {
            return Err(LeafStop::Need(needs));
        }
        if self.overflowed {
            return Err(LeafStop::Failed);
        }
        match self.build_value(slot) {
            Some(param) => self.charge_value(leaf, param),
            None => Err(self.report_overflow(leaf, "100,000 values")),
        }
    }

    fn charge_value(&mut self, leaf: u32, param: ParamValue) -> Result<ParamValue, LeafStop> {
        let (nodes, depth) = param_size(&param);
        if nodes > self.nodes_left {
            return Err(self.report_overflow(leaf, "100,000 values"));
        }
        if depth > DEEPEST {
            return Err(self.report_overflow(leaf, "150 levels"));
        }
        self.nodes_left -= nodes;
        Ok(param)
    }

    /// The resolved tree below a slot whose leaves are all resolved. `None` if it is too large.
    fn build_value(&self, slot: u32) -> Option<ParamValue> {
        let mut left = MOST_NODES * 2;
        self.build_within(slot, &mut left)
    }

    fn build_within(&self, slot: u32, left: &mut usize) -> Option<ParamValue> {
        let pos = self.slots[slot as usize].val.pos;
        *left = left.checked_sub(1)?;
        let data = match &self.slots[slot as usize].kids {
            SlotChildren::Leaf => {
                let param =
                    self.done[slot as usize].clone().unwrap_or(ParamValue { data: ParamData::Broken, pos });
                *left = left.checked_sub(param_size(&param).0)?;
                return Some(param);
            }
            SlotChildren::List(items) => ParamData::List(
                items.iter().map(|&item| self.build_within(item, left)).collect::<Option<_>>()?,
            ),
            SlotChildren::Map(map) => ParamData::Map(
                map.iter()
                    .map(|(key, &kid)| Some(((*key).to_owned(), self.build_within(kid, left)?)))
                    .collect::<Option<_>>()?,
            ),
        };
        Some(ParamValue { data, pos })
    }
}

/// The number of values and levels of a parameter.
fn param_size(param: &ParamValue) -> (usize, usize) {
    let fold = |(nodes, depth): (usize, usize), (n, d): (usize, usize)| (nodes + n, depth.max(d + 1));
    match &param.data {
        ParamData::List(items) => items.iter().map(param_size).fold((1, 1), fold),
        ParamData::Map(map) => map.values().map(param_size).fold((1, 1), fold),
        _ => (1, 1),
    }
}

fn json_param(json: &serde_json::Value) -> ParamData {
    match json {
        serde_json::Value::Bool(value) => ParamData::Bool(*value),
        serde_json::Value::Number(json) => {
            ParamData::Number(crate::val::written_number(&json.to_string(), json.clone()))
        }
        serde_json::Value::String(text) => ParamData::Text(Arc::from(text.as_str())),
        _ => ParamData::Null,
    }
}
