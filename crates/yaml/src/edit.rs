//! Changing one value of a file while every other byte stays as it is.
//!
//! An edit finds its place through the spans of the tree the text was read into and touches the smallest
//! stretch of text it can. The result is read back and must say exactly what was meant, everything else
//! included; a file too odd for that (the value stands behind an alias, say) is refused, never damaged.

use serde_json::{Value as Json, json};
use slipway_problem::{Location, Problem, Problems};

use crate::emit::YamlEmitter;
use crate::node::{NodeForm, NodeValue, YamlNode};
use crate::read::YamlReader;

/// One step of a path into a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathSegment {
    Key(String),
    Index(usize),
}

impl From<&str> for PathSegment {
    fn from(key: &str) -> Self {
        Self::Key(key.to_owned())
    }
}

impl From<usize> for PathSegment {
    fn from(index: usize) -> Self {
        Self::Index(index)
    }
}

impl std::fmt::Display for PathSegment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Key(key) => f.write_str(key),
            Self::Index(index) => write!(f, "[{index}]"),
        }
    }
}

/// A text being edited.
#[derive(Clone, Debug)]
pub struct EditableDocument {
    text: String,
    file: String,
    reader: YamlReader,
}

impl EditableDocument {
    /// Takes a text of one document; `file` names it in problems.
    pub fn new(text: impl Into<String>, file: &str, reader: YamlReader) -> Result<Self, Problems> {
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
    pub fn root(&self) -> Result<YamlNode, Problems> {
        self.reader.read_one(&self.text, &self.file)
    }

    /// Sets the value at `path`. Mappings on the way and the key itself are added if they are missing; an
    /// index equal to the length of a list appends.
    pub fn set(&mut self, path: &[PathSegment], value: &Json) -> Result<(), Problems> {
        let root = self.root()?;
        let mut meant = root.to_json();
        if !put(&mut meant, path, value) {
            return Err(self.refuse(path, "there is nothing to put it into"));
        }
        let mut trail = vec![&root];
        for (depth, step) in path.iter().enumerate() {
            let parent = trail[depth];
            if let Some(found) = child(parent, step) {
                trail.push(found);
                continue;
            }
            let text = if count(parent) == 0 {
                self.replaced(&trail, &path[..depth], &wrap(&path[depth..], value))
            } else {
                self.inserted(&trail, step, &wrap(&path[depth + 1..], value))
            };
            return self.accept(text?, path, &meant);
        }
        let text = self.replaced(&trail, path, value)?;
        self.accept(text, path, &meant)
    }

    /// Removes the entry or item at `path`; says whether it was there. The last one leaves `{}` or `[]`.
    pub fn remove(&mut self, path: &[PathSegment]) -> Result<bool, Problems> {
        let root = self.root()?;
        let Some((last, parents)) = path.split_last() else {
            return Err(self.refuse(path, "the document itself cannot be removed"));
        };
        let Some(parent) = parents.iter().try_fold(&root, child) else { return Ok(false) };
        let Some(index) = position(parent, last) else { return Ok(false) };
        if count(parent) == 1 {
            let empty = if matches!(parent.value, NodeValue::Seq(_)) { json!([]) } else { json!({}) };
            self.set(parents, &empty)?;
            return Ok(true);
        }
        let mut meant = root.to_json();
        take(&mut meant, path);
        let text = match parent.form {
            NodeForm::Flow => self.without_flow_entry(parent, index),
            _ => self.without_block_entry(parent, index),
        };
        self.accept(text, path, &meant)?;
        Ok(true)
    }

    fn refuse(&self, path: &[PathSegment], why: &str) -> Problems {
        let path: Vec<String> = path.iter().map(PathSegment::to_string).collect();
        let message = format!("`{}` cannot be edited: {why}", path.join("."));
        Problem::error(message).at(Location::file(self.file.as_str())).into()
    }

    /// Takes a new text if it says what was meant.
    fn accept(&mut self, text: String, path: &[PathSegment], meant: &Json) -> Result<(), Problems> {
        match self.reader.read_one(&text, &self.file) {
            Ok(root) if same(&root.to_json(), meant) => {
                self.text = text;
                Ok(())
            }
            _ => Err(self.refuse(path, "its layout is unusual; edit the file by hand")),
        }
    }

    fn line_start(&self, offset: usize) -> usize {
        self.text[..offset].rfind('\n').map_or(0, |newline| newline + 1)
    }

    fn line_end(&self, offset: usize) -> usize {
        self.text[offset..].find('\n').map_or(self.text.len(), |newline| offset + newline)
    }

    /// The end of a line and its break.
    fn next_line(&self, offset: usize) -> usize {
        (self.line_end(offset) + 1).min(self.text.len())
    }

    /// The end of a node without the line breaks a block takes in.
    fn end(&self, node: &YamlNode) -> usize {
        node.span.start + node.raw().trim_end_matches(['\n', '\r', ' ']).len()
    }

    fn spliced(&self, start: usize, end: usize, new: &str) -> String {
        format!("{}{new}{}", &self.text[..start], &self.text[end..])
    }

    /// The text with another value for the last node of `trail`, which stands at `path`.
    fn replaced(&self, trail: &[&YamlNode], path: &[PathSegment], value: &Json) -> Result<String, Problems> {
        let node = trail[trail.len() - 1];
        let (start, end) = (node.span.start, self.end(node));
        let parent = trail.len().checked_sub(2).map(|index| trail[index]);
        let (Some(parent), Some(step)) = (parent, path.last()) else {
            let written = write(value)?;
            // A text of comments gets its first value at its end.
            if start == end && !self.text.is_empty() {
                let separator = if self.text.ends_with('\n') { "" } else { "\n" };
                return Ok(format!("{}{separator}{written}", self.text));
            }
            let written = if end == self.text.len() { &written } else { written.trim_end_matches('\n') };
            return Ok(self.spliced(start, end, written));
        };
        if trail[..trail.len() - 1].iter().any(|node| node.form == NodeForm::Flow) {
            return Ok(self.spliced(start, end, &inline(value)));
        }
        let column = self.entry_column(parent);
        if let PathSegment::Index(_) = step {
            let column = if start == end { column + 2 } else { node.span.column as usize - 1 };
            let separator = if start == end { " " } else { "" };
            let written = write(value)?;
            let written = format!("{separator}{}", indented(written.trim_end_matches('\n'), column));
            return Ok(self.spliced(start, end, &written));
        }
        let on_own_lines =
            node.form == NodeForm::Block && self.text[self.line_start(start)..start].trim().is_empty();
        if is_full(value) {
            let list_column = if value.is_array() && !self.indents_lists()? { column } else { column + 2 };
            if on_own_lines {
                let same_kind = value.is_array() == matches!(node.value, NodeValue::Seq(_));
                let column = if same_kind { node.span.column as usize - 1 } else { list_column };
                return Ok(self.spliced(self.line_start(start), end, &block(value, column)?));
            }
            // A comment behind the old value stays where it is; the block follows on the next line.
            let stop = if node.raw().contains('\n') { end } else { self.line_end(end) };
            let head = self.text[..start].trim_end_matches(' ');
            let comment = &self.text[end..stop];
            let block = block(value, list_column)?;
            return Ok(format!("{head}{comment}\n{block}{}", &self.text[stop..]));
        }
        let written = same_quotes(node, value).map_or_else(|| write(value), Ok)?;
        let written = indented(written.strip_suffix('\n').unwrap_or(&written), column);
        if on_own_lines {
            let key = self.key_of(parent, step).map_or(start, |key| key.span.end);
            let colon = key + self.text[key..].find(':').map_or(0, |at| at + 1);
            let (lines, stop) = (self.line_start(start), self.next_line(end));
            let between = &self.text[colon..lines];
            return Ok(format!("{} {written}{between}{}", &self.text[..colon], &self.text[stop..]));
        }
        let separator = if start == end && self.text[..start].ends_with(':') { " " } else { "" };
        Ok(self.spliced(start, end, &format!("{separator}{written}")))
    }

    fn key_of<'n>(&self, parent: &'n YamlNode, step: &PathSegment) -> Option<&'n YamlNode> {
        match step {
            PathSegment::Key(key) => parent.as_map()?.entry(key).map(|(key, _)| key),
            PathSegment::Index(_) => None,
        }
    }

    /// The text with one more entry at the end of the last node of `trail`, which has some already.
    fn inserted(&self, trail: &[&YamlNode], step: &PathSegment, value: &Json) -> Result<String, Problems> {
        let node = trail[trail.len() - 1];
        if node.form == NodeForm::Flow || trail.iter().any(|node| node.form == NodeForm::Flow) {
            let close = node.span.end - 1;
            let body = self.text[..close].trim_end_matches([' ', '\n', '\r']);
            let comma = if body.ends_with(',') { " " } else { ", " };
            let key = match step {
                PathSegment::Key(key) => format!("{}: ", inline(&json!(key))),
                PathSegment::Index(_) => String::new(),
            };
            return Ok(format!("{body}{comma}{key}{}{}", inline(value), &self.text[body.len()..]));
        }
        let entry = match step {
            PathSegment::Key(key) => json!({ key.as_str(): value }),
            PathSegment::Index(_) => json!([value]),
        };
        let column = self.entry_column(node);
        let at = self.line_end(self.end(node));
        Ok(self.spliced(at, at, &format!("\n{}", block(&entry, column)?)))
    }

    /// The column at which the entries of a block collection stand.
    fn entry_column(&self, node: &YamlNode) -> usize {
        let first = node.as_map().and_then(|mapping| mapping.keys().next());
        first.unwrap_or(node).span.column as usize - 1
    }

    /// Whether lists of this file are indented under their key, going by the first one.
    fn indents_lists(&self) -> Result<bool, Problems> {
        let root = self.root()?;
        let mut rest = vec![&root];
        while let Some(node) = rest.pop() {
            match &node.value {
                NodeValue::Map(mapping) => {
                    for (key, value) in mapping.iter() {
                        let is_block =
                            matches!(value.value, NodeValue::Seq(_)) && value.form == NodeForm::Block;
                        if is_block && value.span.line > key.span.line {
                            return Ok(value.span.column > key.span.column);
                        }
                        rest.push(value);
                    }
                }
                NodeValue::Seq(items) => rest.extend(items),
                _ => {}
            }
        }
        Ok(false)
    }

    /// Where the entry at `index` of a block collection starts, and where its value ends.
    fn extent(&self, parent: &YamlNode, index: usize) -> Option<(usize, usize)> {
        match &parent.value {
            NodeValue::Map(mapping) => {
                let (key, value) = mapping.iter().nth(index)?;
                Some((key.span.start, self.end(value).max(key.span.end)))
            }
            NodeValue::Seq(items) => {
                let item = items.get(index)?;
                let start = match parent.form {
                    NodeForm::Flow => item.span.start,
                    _ => self.text[..item.span.start].rfind('-')?,
                };
                Some((start, self.end(item)))
            }
            _ => None,
        }
    }

    fn without_block_entry(&self, parent: &YamlNode, index: usize) -> String {
        let Some((start, end)) = self.extent(parent, index) else { return self.text.clone() };
        let line = self.line_start(start);
        if self.text[line..start].trim().is_empty() {
            return self.spliced(line, self.next_line(end), "");
        }
        // It shares its line with a dash before it: the next entry moves up.
        let stop = self.extent(parent, index + 1).map_or(end, |(next, _)| next);
        self.spliced(start, stop, "")
    }

    fn without_flow_entry(&self, parent: &YamlNode, index: usize) -> String {
        let Some((start, end)) = self.extent(parent, index) else { return self.text.clone() };
        if let Some((next, _)) = self.extent(parent, index + 1) {
            return self.spliced(start, next, "");
        }
        let before = self.text[..start].trim_end().trim_end_matches(',');
        self.spliced(before.len(), end, "")
    }
}

fn child<'n>(node: &'n YamlNode, step: &PathSegment) -> Option<&'n YamlNode> {
    match step {
        PathSegment::Key(key) => node.get(key),
        PathSegment::Index(index) => node.as_seq()?.get(*index),
    }
}

fn position(parent: &YamlNode, step: &PathSegment) -> Option<usize> {
    match step {
        PathSegment::Key(name) => parent.as_map()?.keys().position(|key| key.key_text() == *name),
        PathSegment::Index(index) => (*index < parent.as_seq()?.len()).then_some(*index),
    }
}

fn count(node: &YamlNode) -> usize {
    match &node.value {
        NodeValue::Seq(items) => items.len(),
        NodeValue::Map(mapping) => mapping.len(),
        NodeValue::Null => 0,
        _ => 1,
    }
}

/// Puts `value` at `path` of `root`; says whether there was a place for it.
fn put(root: &mut Json, path: &[PathSegment], value: &Json) -> bool {
    let Some((step, rest)) = path.split_first() else {
        *root = value.clone();
        return true;
    };
    if root.is_null() {
        *root = if matches!(step, PathSegment::Key(_)) { json!({}) } else { json!([]) };
    }
    match (root, step) {
        (Json::Object(map), PathSegment::Key(key)) => {
            put(map.entry(key.as_str()).or_insert(Json::Null), rest, value)
        }
        (Json::Array(items), PathSegment::Index(index)) if *index <= items.len() => {
            if *index == items.len() {
                items.push(Json::Null);
            }
            put(&mut items[*index], rest, value)
        }
        _ => false,
    }
}

fn take(root: &mut Json, path: &[PathSegment]) {
    match (root, path) {
        (Json::Object(map), [PathSegment::Key(key)]) => {
            map.shift_remove(key);
        }
        (Json::Array(items), [PathSegment::Index(index)]) if *index < items.len() => {
            items.remove(*index);
        }
        (Json::Object(map), [PathSegment::Key(key), rest @ ..]) => {
            if let Some(inner) = map.get_mut(key) {
                take(inner, rest);
            }
        }
        (Json::Array(items), [PathSegment::Index(index), rest @ ..]) => {
            if let Some(inner) = items.get_mut(*index) {
                take(inner, rest);
            }
        }
        _ => {}
    }
}

fn wrap(path: &[PathSegment], value: &Json) -> Json {
    path.iter().rev().fold(value.clone(), |value, step| match step {
        PathSegment::Key(key) => json!({ key.as_str(): value }),
        PathSegment::Index(_) => json!([value]),
    })
}

/// Whether a value is a collection with entries, which takes lines of its own.
fn is_full(value: &Json) -> bool {
    match value {
        Json::Object(map) => !map.is_empty(),
        Json::Array(items) => !items.is_empty(),
        _ => false,
    }
}

fn write(value: &Json) -> Result<String, Problems> {
    YamlEmitter::manifest().emit(value).map_err(|error| Problem::error(error.to_string()).into())
}

/// A collection on lines of its own at `column`, without the last line break.
fn block(value: &Json, column: usize) -> Result<String, Problems> {
    let written = write(value)?;
    let written = written.strip_suffix('\n').unwrap_or(&written);
    Ok(format!("{}{}", " ".repeat(column), indented(written, column)))
}

/// Text that replaces quoted text keeps its quotes where they can hold it.
fn same_quotes(node: &YamlNode, value: &Json) -> Option<String> {
    let text = value.as_str()?;
    if node.as_str().is_none() || text.contains('\\') || text.chars().any(char::is_control) {
        return None;
    }
    match node.raw().chars().next()? {
        '"' => Some(format!("\"{}\"", text.replace('"', "\\\""))),
        '\'' => Some(format!("'{}'", text.replace('\'', "''"))),
        _ => None,
    }
}

/// Lines after the first moved to the right.
fn indented(text: &str, column: usize) -> String {
    let mut out = String::with_capacity(text.len());
    for (index, line) in text.split('\n').enumerate() {
        if index > 0 {
            out.push('\n');
            if !line.is_empty() {
                out.push_str(&" ".repeat(column));
            }
        }
        out.push_str(line);
    }
    out
}

/// A value in flow style: JSON is YAML, and words need no quotes.
fn inline(value: &Json) -> String {
    let Json::String(text) = value else { return value.to_string() };
    match write(value) {
        Ok(written) if !text.contains([',', '[', ']', '{', '}', '?', '\n']) => written.trim_end().to_owned(),
        _ => value.to_string(),
    }
}

/// Equal as JSON, integers and floats of the same value alike.
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
