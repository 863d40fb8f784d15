//! Which part of a rendered text came from which place and which values.

use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;

use crate::parse::ast::{ByteOffset, ParseTree};
use crate::value::GoValue;

/// A part of a text.
#[derive(Clone, Debug)]
pub struct TextSegment {
    /// Bytes of the text.
    pub range: Range<usize>,
    /// The template that wrote them and the file it is in.
    pub template: String,
    pub file: String,
    /// Line from 1, byte column from 0.
    pub line: usize,
    pub column: usize,
    /// Text of the file itself, not an action's value.
    pub literal: bool,
    /// Paths of the data the action read, such as `.Values.image.tag`.
    pub reads: Vec<String>,
    /// Paths that decided whether, or how often, this was rendered at all.
    pub guards: Rc<[String]>,
    /// Texts of `include` and `tpl` the action used, before whatever it did with them.
    pub nested: Vec<NestedText>,
}

/// The result of one `include` or `tpl`.
#[derive(Clone, Debug)]
pub struct NestedText {
    /// The template included; `tpl` for a text.
    pub name: String,
    pub text: Vec<u8>,
    pub segments: Vec<TextSegment>,
}

/// Collects while templates execute.
pub(crate) struct Tracer {
    /// Where each map and list of the data is.
    paths: HashMap<usize, String>,
    reads: Vec<String>,
    nested: Vec<NestedText>,
    segments: Vec<TextSegment>,
    guards: Vec<String>,
    shared_guards: Rc<[String]>,
    outer: Vec<Outer>,
}

/// What an action had collected when it called `include`.
struct Outer {
    reads: Vec<String>,
    nested: Vec<NestedText>,
    segments: Vec<TextSegment>,
}

/// Paths of more containers than this are not worth their memory.
const MAX_PATHS: usize = 1_000_000;

impl Tracer {
    pub(crate) fn new(data: &GoValue) -> Self {
        let mut paths = HashMap::new();
        let mut pending = vec![(String::new(), data.clone())];
        while let Some((path, v)) = pending.pop() {
            if paths.len() > MAX_PATHS {
                break;
            }
            let id = match &v {
                GoValue::Map(m) => m.id(),
                GoValue::List(l) => l.id(),
                _ => continue,
            };
            if paths.insert(id, path.clone()).is_some() {
                continue;
            }
            if let GoValue::Map(m) = &v {
                for (k, v) in m.entries().iter().filter(|(_, v)| container(v)) {
                    pending.push((format!("{path}.{k}"), v.clone()));
                }
            }
            if let GoValue::List(l) = &v {
                for (i, v) in l.items().iter().enumerate().filter(|(_, v)| container(v)) {
                    pending.push((format!("{path}[{i}]"), v.clone()));
                }
            }
        }
        Tracer {
            paths,
            reads: Vec::new(),
            nested: Vec::new(),
            segments: Vec::new(),
            guards: Vec::new(),
            shared_guards: Rc::from([]),
            outer: Vec::new(),
        }
    }

    pub(crate) fn finish(self) -> Vec<TextSegment> {
        self.segments
    }

    pub(crate) fn begin_action(&mut self) {
        self.reads.clear();
        self.nested.clear();
    }

    pub(crate) fn read(&mut self, container: usize, key: &str) {
        let Some(base) = self.paths.get(&container) else { return };
        let path = if key.starts_with('[') { format!("{base}{key}") } else { format!("{base}.{key}") };
        // `.Values.a.b` reads `.Values`, then `.Values.a`: keep the last of such a chain.
        if let Some(last) = self.reads.last_mut()
            && path.len() > last.len()
            && path.starts_with(last.as_str())
            && matches!(path.as_bytes()[last.len()], b'.' | b'[')
        {
            *last = path;
        } else if !self.reads.contains(&path) {
            self.reads.push(path);
        }
    }

    /// What was read since the action began decides about what follows.
    pub(crate) fn begin_guard(&mut self) -> usize {
        let before = self.guards.len();
        if !self.reads.is_empty() {
            self.guards.append(&mut self.reads);
            self.shared_guards = self.guards.as_slice().into();
        }
        before
    }

    pub(crate) fn end_guard(&mut self, before: usize) {
        if self.guards.len() != before {
            self.guards.truncate(before);
            self.shared_guards = self.guards.as_slice().into();
        }
    }

    pub(crate) fn text(&mut self, tree: &ParseTree, pos: ByteOffset, start: usize, end: usize) {
        self.push(tree, pos, start..end, true, Vec::new(), Vec::new());
    }

    pub(crate) fn action(&mut self, tree: &ParseTree, pos: ByteOffset, start: usize, end: usize) {
        let (reads, nested) = (std::mem::take(&mut self.reads), std::mem::take(&mut self.nested));
        if start != end {
            self.push(tree, pos, start..end, false, reads, nested);
        }
    }

    fn push(
        &mut self,
        tree: &ParseTree,
        pos: ByteOffset,
        range: Range<usize>,
        literal: bool,
        reads: Vec<String>,
        nested: Vec<NestedText>,
    ) {
        let (line, column) = tree.source.line_column(pos);
        self.segments.push(TextSegment {
            range,
            template: tree.name.clone(),
            file: tree.source.name.clone(),
            line,
            column,
            literal,
            reads,
            guards: Rc::clone(&self.shared_guards),
            nested,
        });
    }

    pub(crate) fn begin_nested(&mut self) {
        self.outer.push(Outer {
            reads: std::mem::take(&mut self.reads),
            nested: std::mem::take(&mut self.nested),
            segments: std::mem::take(&mut self.segments),
        });
    }

    pub(crate) fn end_nested(&mut self, name: &str, text: &[u8]) {
        let Some(outer) = self.outer.pop() else { return };
        let segments = std::mem::replace(&mut self.segments, outer.segments);
        self.reads = outer.reads;
        self.nested = outer.nested;
        self.nested.push(NestedText { name: name.to_owned(), text: text.to_vec(), segments });
    }
}

fn container(v: &GoValue) -> bool {
    matches!(v, GoValue::Map(_) | GoValue::List(_))
}
