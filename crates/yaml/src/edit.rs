//! Changing one value of a file while every other byte stays as it is.
//!
//! An edit finds its place through the spans of the tree the text was read into, replaces the smallest
//! stretch of text that says the value, and reads the result back to prove that it says what was meant.

use serde_json::Value as Json;
use slipway_problem::{Location, Problem, Problems};

use crate::emit::{Emitter, KeyOrder};
use crate::node::{Form, Node, Value};
use crate::read::Reader;

/// One step of a path into a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Key(String),
    Index(usize),
}

impl From<&str> for Step {
    fn from(key: &str) -> Self {
        Self::Key(key.to_owned())
    }
}

impl From<usize> for Step {
    fn from(index: usize) -> Self {
        Self::Index(index)
    }
}

/// A text being edited.
#[derive(Clone, Debug)]
pub struct Document {
    text: String,
    file: String,
    reader: Reader,
}

impl Document {
    /// Takes a text of one document; `file` names it in problems.
    pub fn new(text: impl Into<String>, file: &str, reader: Reader) -> Result<Self, Problems> {
        let document = Self { text: text.into(), file: file.to_owned(), reader };
        document.root()?;
        Ok(document)
    }

    /// The text as it is now.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Gives the text back.
    pub fn into_text(self) -> String {
        self.text
    }

    /// The document as a tree.
    pub fn root(&self) -> Result<Node, Problems> {
        self.reader.read_one(&self.text, &self.file)
    }

    /// Sets the value at `path`, adding the mappings on the way and the key itself if they are missing;
    /// an index equal to the length of a list appends.
    pub fn set(&mut self, path: &[Step], value: &Json) -> Result<(), Problems> {
        let root = self.root()?;
        let mut node = &root;
        let mut inside_of = Vec::new();
        for (depth, step) in path.iter().enumerate() {
            inside_of.push(node);
            match child(node, step) {
                Some(found) => node = found,
                None => {
                    let value = wrap(&path[depth + 1..], value);
                    let text = self.inserted(node, inside_of.len() == 1, step, &value)?;
                    return self.replace_text(text, path, Some(&wrap(&[], &value)), depth + 1);
                }
            }
        }
        let column = inside_of.last().map_or(0, |parent| self.entry_column(parent));
        let flow = inside_of.iter().any(|parent| parent.form == Form::Flow);
        let text = self.replaced(node, value, column, flow, path.last())?;
        self.replace_text(text, path, Some(value), path.len())
    }

    /// Removes the entry or item at `path`; says whether it was there.
    pub fn remove(&mut self, path: &[Step]) -> Result<bool, Problems> {
        let root = self.root()?;
        let Some((last, parents)) = path.split_last() else {
            return Err(self.refuse(&root, "the document itself cannot be removed"));
        };
        let Some(parent) = parents.iter().try_fold(&root, child) else { return Ok(false) };
        let Some((start, end)) = extent(parent, last) else { return Ok(false) };
        let text = if parent.form == Form::Flow {
            self.without_flow_item(parent, start, end)
        } else if count(parent) == 1 {
            let empty = if matches!(parent.value, Value::Seq(_)) { "[]" } else { "{}" };
            let column = parents.len().checked_sub(1).map_or(0, |_| parent.span.column as usize);
            let _ = column;
            self.emptied(parent, parents.is_empty(), empty)
        } else {
            self.without_block_entry(parent, start, end)
        };
        self.replace_text(text, path, None, path.len())?;
        Ok(true)
    }

    fn refuse(&self, node: &Node, message: &str) -> Problems {
        node.problem(message).into()
    }

    /// Accepts a new text if it says what was meant.
    fn replace_text(
        &mut self,
        text: String,
        path: &[Step],
        value: Option<&Json>,
        depth: usize,
    ) -> Result<(), Problems> {
        let failed = || {
            let path: Vec<String> = path.iter().map(step_text).collect();
            let message = format!("`{}` cannot be edited in place", path.join("."));
            Problem::error(message).at(Location::file(self.file.as_str())).hint("edit the file by hand")
        };
        let root = self.reader.read_one(&text, &self.file).map_err(|_| failed())?;
        let found = path[..depth].iter().try_fold(&root, child);
        let is_meant = match (found, value) {
            (Some(node), Some(value)) => same(&node.to_json(), value),
            (None, None) => true,
            // An item was removed: the next one has taken its place.
            (Some(_), None) => matches!(path.last(), Some(Step::Index(_))),
            (None, Some(_)) => false,
        };
        if !is_meant {
            return Err(failed().into());
        }
        self.text = text;
        Ok(())
    }

    fn line_start(&self, offset: usize) -> usize {
        self.text[..offset].rfind('\n').map_or(0, |newline| newline + 1)
    }

    fn line_end(&self, offset: usize) -> usize {
        self.text[offset..].find('\n').map_or(self.text.len(), |newline| offset + newline)
    }

    /// The column at which the entries of a block collection stand.
    fn entry_column(&self, node: &Node) -> usize {
        let first = match &node.value {
            Value::Map(mapping) => mapping.keys().next().map(|key| key.span.column as usize - 1),
            _ => None,
        };
        first.unwrap_or(node.span.column as usize - 1)
    }

    /// The end of what a node says, without the line breaks a block scalar or collection may take in.
    fn content_end(&self, node: &Node) -> usize {
        let text = &self.text[node.span.start..node.span.end];
        node.span.start + text.trim_end_matches(['\n', '\r', ' ']).len()
    }

    fn replaced(
        &self,
        node: &Node,
        value: &Json,
        column: usize,
        flow: bool,
        step: Option<&Step>,
    ) -> Result<String, Problems> {
        let end = self.content_end(node);
        let start = node.span.start;
        if node.tag().is_some() && start == end {
            return Err(self.refuse(node, "a tagged empty value cannot be edited in place"));
        }
        let is_collection = matches!(value, Json::Object(map) if !map.is_empty())
            || matches!(value, Json::Array(list) if !list.is_empty());
        let written = if flow {
            inline(value)
        } else if let (Json::String(text), Some(quoted)) = (value, self.same_quotes(node, value)) {
            let _ = text;
            quoted
        } else if is_collection && step.is_some() {
            let in_list = matches!(step, Some(Step::Index(_)));
            self.block(value, column, in_list, node)?
        } else {
            self.block_scalar(value, column)?
        };
        let mut text = String::with_capacity(self.text.len() + written.len());
        let mut before = &self.text[..start];
        let after = &self.text[end..];
        if written.starts_with('\n') {
            before = before.trim_end_matches([' ', '\n', '\r']);
        }
        text.push_str(before);
        if !written.starts_with('\n') && before.ends_with([':', '-']) {
            text.push(' ');
        }
        // A block that replaces a value on the key's line starts on the next one; and the other way.
        let from_next_line = matches!(node.form, Form::Block) && !written.starts_with('\n') && !is_collection;
        if from_next_line {
            let trimmed = text.trim_end_matches([' ', '\n', '\r']).len();
            let is_own_line = text[trimmed..].contains('\n');
            if is_own_line && trimmed > 0 {
                text.truncate(trimmed);
                text.push(' ');
            }
        }
        text.push_str(&written);
        text.push_str(after);
        Ok(text)
    }

    /// Text that replaces quoted text keeps its quotes where they can hold it.
    fn same_quotes(&self, node: &Node, value: &Json) -> Option<String> {
        let text = value.as_str()?;
        if node.as_str().is_none() || text.contains(['\n', '\r', '\\']) || text.chars().any(char::is_control)
        {
            return None;
        }
        match node.raw().chars().next()? {
            '"' => Some(format!("\"{}\"", text.replace('"', "\\\""))),
            '\'' => Some(format!("'{}'", text.replace('\'', "''"))),
            _ => None,
        }
    }

    fn emitter() -> Emitter {
        Emitter::manifest().order(KeyOrder::AsGiven)
    }

    fn write(value: &Json) -> Result<String, Problems> {
        Self::emitter().emit(value).map_err(|error| Problem::error(error.to_string()).into())
    }

    /// A scalar or empty collection for behind `key:` in a mapping at `column`.
    fn block_scalar(&self, value: &Json, column: usize) -> Result<String, Problems> {
        let text = Self::write(value)?;
        let text = text.strip_suffix('\n').unwrap_or(&text);
        Ok(indented(text, column))
    }

    /// A collection for behind `key:` or `-` at `column`.
    fn block(&self, value: &Json, column: usize, in_list: bool, near: &Node) -> Result<String, Problems> {
        let text = Self::write(value)?;
        let text = text.trim_end_matches('\n');
        if in_list {
            return Ok(indented(text, column + 2));
        }
        let deeper = if value.is_array() && !self.indents_lists(near) { column } else { column + 2 };
        let mut out = String::from("\n");
        out.extend(std::iter::repeat_n(' ', deeper));
        out.push_str(&indented(text, deeper));
        Ok(out)
    }

    /// Whether lists of this file are indented under their key.
    fn indents_lists(&self, _near: &Node) -> bool {
        let Ok(root) = self.root() else { return false };
        let mut stack = vec![&root];
        while let Some(node) = stack.pop() {
            match &node.value {
                Value::Map(mapping) => {
                    for (key, value) in mapping.iter() {
                        let is_block_list = matches!(value.value, Value::Seq(_)) && value.form == Form::Block;
                        if is_block_list && value.span.line > key.span.line {
                            return value.span.column > key.span.column;
                        }
                        stack.push(value);
                    }
                }
                Value::Seq(items) => stack.extend(items),
                _ => {}
            }
        }
        false
    }

    /// The text with a new entry or item at the end of `node`.
    fn inserted(&self, node: &Node, is_root: bool, step: &Step, value: &Json) -> Result<String, Problems> {
        let fits = match (&node.value, step) {
            (Value::Map(_) | Value::Null, Step::Key(_)) => true,
            (Value::Seq(items), Step::Index(index)) => *index == items.len(),
            _ => false,
        };
        if !fits {
            let message = format!("{} has no `{}`", node.kind(), step_text(step));
            return Err(self.refuse(node, &message));
        }
        let is_empty = count(node) == 0;
        if node.form == Form::Flow && !is_empty {
            return Ok(self.inserted_in_flow(node, step, value));
        }
        let entry = match step {
            Step::Key(key) => {
                Self::write(&Json::Object([(key.clone(), value.clone())].into_iter().collect()))?
            }
            Step::Index(_) => Self::write(&Json::Array(vec![value.clone()]))?,
        };
        let entry = entry.trim_end_matches('\n');
        if is_empty {
            return Ok(self.filled(node, is_root, step, entry));
        }
        let column = self.entry_column(node);
        let at = self.line_end(self.content_end(node).saturating_sub(1).max(node.span.start));
        let mut text = self.text[..at].to_owned();
        text.push('\n');
        text.extend(std::iter::repeat_n(' ', column));
        text.push_str(&indented(entry, column));
        text.push_str(&self.text[at..]);
        Ok(text)
    }

    /// The text with the first entry put into an empty collection or a key without value.
    fn filled(&self, node: &Node, is_root: bool, step: &Step, entry: &str) -> String {
        let (start, end) = (node.span.start, self.content_end(node));
        if is_root {
            let mut text = self.text[..start].to_owned();
            if !text.is_empty() && !text.ends_with('\n') {
                text.push('\n');
            }
            text.push_str(entry);
            let rest = &self.text[end..];
            if !rest.starts_with('\n') {
                text.push('\n');
            }
            text.push_str(rest);
            return text;
        }
        let line = self.line_start(start);
        let lead = &self.text[line..start];
        let column = lead.chars().take_while(|c| matches!(c, ' ' | '-')).count();
        let column = if matches!(step, Step::Index(_)) { column } else { column + 2 };
        let mut text = self.text[..start].trim_end_matches(' ').to_owned();
        text.push('\n');
        text.extend(std::iter::repeat_n(' ', column));
        text.push_str(&indented(entry, column));
        text.push_str(&self.text[end..]);
        text
    }

    fn inserted_in_flow(&self, node: &Node, step: &Step, value: &Json) -> String {
        let close = self.text[..node.span.end].len() - 1;
        let body = self.text[..close].trim_end_matches([' ', '\n', '\r']);
        let mut text = body.to_owned();
        text.push_str(if body.ends_with(',') { " " } else { ", " });
        if let Step::Key(key) = step {
            text.push_str(&inline(&Json::String(key.clone())));
            text.push_str(": ");
        }
        text.push_str(&inline(value));
        text.push_str(&self.text[body.len()..]);
        text
    }

    fn without_flow_item(&self, parent: &Node, start: usize, end: usize) -> String {
        let (open, close) = (parent.span.start + 1, parent.span.end - 1);
        let behind = self.text[end..close].find(',').map(|at| end + at + 1);
        let (from, to) = match behind {
            Some(comma) => {
                let gap =
                    self.text[comma..close].len() - self.text[comma..close].trim_start_matches(' ').len();
                (start, comma + gap)
            }
            None => {
                let before = self.text[open..start].trim_end();
                (open + before.trim_end_matches(',').len(), end)
            }
        };
        format!("{}{}", &self.text[..from], &self.text[to..])
    }

    fn without_block_entry(&self, parent: &Node, start: usize, end: usize) -> String {
        let line = self.line_start(start);
        let stop = self.line_end(end);
        let is_inline_first = !self.text[line..start].trim_matches([' ', '-']).is_empty()
            || (self.text[line..start].contains('-') && matches!(parent.value, Value::Map(_)));
        if is_inline_first {
            // The first key of a list item shares its line with the dash: the next one moves up.
            let next = self.text[stop..].trim_start_matches(['\n', '\r', ' ']);
            let to = self.text.len() - next.len();
            return format!("{}{}", &self.text[..start], &self.text[to..]);
        }
        let stop = (stop + 1).min(self.text.len());
        format!("{}{}", &self.text[..line], &self.text[stop..])
    }

    /// The text with the only entry of `parent` gone.
    fn emptied(&self, parent: &Node, is_root: bool, empty: &str) -> String {
        let end = self.content_end(parent);
        let before = &self.text[..parent.span.start];
        let after = &self.text[end..];
        if is_root {
            return format!("{before}{empty}{after}");
        }
        format!("{} {empty}{after}", before.trim_end_matches([' ', '\n', '\r']))
    }
}

fn step_text(step: &Step) -> String {
    match step {
        Step::Key(key) => key.clone(),
        Step::Index(index) => format!("[{index}]"),
    }
}

fn child<'n>(node: &'n Node, step: &Step) -> Option<&'n Node> {
    match step {
        Step::Key(key) => node.get(key),
        Step::Index(index) => node.as_seq()?.get(*index),
    }
}

fn count(node: &Node) -> usize {
    match &node.value {
        Value::Seq(items) => items.len(),
        Value::Map(mapping) => mapping.len(),
        _ => 0,
    }
}

/// From the start of the key or item to the end of its value.
fn extent(parent: &Node, step: &Step) -> Option<(usize, usize)> {
    match step {
        Step::Key(key) => {
            let (key, value) = parent.as_map()?.entry(key)?;
            let end = value.raw().trim_end_matches(['\n', '\r', ' ']).len() + value.span.start;
            Some((key.span.start, end.max(key.span.end)))
        }
        Step::Index(index) => {
            let item = parent.as_seq()?.get(*index)?;
            let end = item.raw().trim_end_matches(['\n', '\r', ' ']).len() + item.span.start;
            Some((item.span.start, end))
        }
    }
}

fn wrap(path: &[Step], value: &Json) -> Json {
    path.iter().rev().fold(value.clone(), |value, step| match step {
        Step::Key(key) => Json::Object([(key.clone(), value)].into_iter().collect()),
        Step::Index(_) => Json::Array(vec![value]),
    })
}

/// Lines after the first moved to the right.
fn indented(text: &str, column: usize) -> String {
    let mut out = String::with_capacity(text.len());
    for (index, line) in text.split('\n').enumerate() {
        if index > 0 {
            out.push('\n');
            if !line.is_empty() {
                out.extend(std::iter::repeat_n(' ', column));
            }
        }
        out.push_str(line);
    }
    out
}

/// A value in flow style; JSON is YAML.
fn inline(value: &Json) -> String {
    match value {
        Json::String(text) => {
            let plain = !text.contains([',', '[', ']', '{', '}', '?', '\n']);
            match Document::write(value) {
                Ok(written) if plain && !written.starts_with('|') => written.trim_end().to_owned(),
                _ => value.to_string(),
            }
        }
        other => other.to_string(),
    }
}

/// Equal as JSON, with integers and floats of the same value alike.
fn same(a: &Json, b: &Json) -> bool {
    match (a, b) {
        (Json::Number(a), Json::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Json::Array(a), Json::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Json::Object(a), Json::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
        }
        _ => a == b,
    }
}
