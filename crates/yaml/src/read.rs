//! Text to trees, under the rules and limits of a [`YamlReader`].

use std::collections::HashMap;
use std::sync::Arc;

use base64::Engine as _;
use slipway_problem::{Location, Problem, Problems};

use crate::node::{Mapping, NodeForm, NodeValue, SourceText, Span, YamlNode};
use crate::resolve::{ResolvedScalar, ScalarRules, parse_timestamp, resolve_scalar};
use crate::scan::{ScalarStyle, TextMark};
use crate::tape::{CORE_TAG, ItemContent, Parser, TOO_DEEP, Tape, TapeItem};

/// The treatment of a key that a mapping sets twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DuplicateKeys {
    /// A problem that names both places.
    #[default]
    Refuse,
    /// The last one counts, in the place of the first, as in Helm.
    LastWins,
}

/// The codes a caller's own catalogue gives to what a reader finds wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProblemCodes {
    /// The text is not YAML, or not allowed here.
    pub syntax: &'static str,
    /// A key is set twice.
    pub duplicate: &'static str,
    /// Too deep, too long or too many.
    pub limit: &'static str,
    /// A key, tag or number that cannot be one.
    pub value: &'static str,
    /// An anchor that contains itself.
    pub aliases: &'static str,
}

/// Reads YAML into trees; the default is for files of our own: [`ScalarRules::Core`], no duplicate keys.
#[derive(Clone, Debug)]
pub struct YamlReader {
    schema: ScalarRules,
    duplicates: DuplicateKeys,
    merge: bool,
    anchors: bool,
    max_depth: usize,
    max_bytes: usize,
    max_nodes: usize,
    codes: Option<ProblemCodes>,
}

impl Default for YamlReader {
    fn default() -> Self {
        Self::new()
    }
}

impl YamlReader {
    /// Deepest nesting a reader can be asked to accept; trees are built and dropped recursively.
    pub const DEEPEST: usize = 500;

    /// Reads files of our own.
    pub fn new() -> Self {
        Self {
            schema: ScalarRules::Core,
            duplicates: DuplicateKeys::Refuse,
            merge: true,
            anchors: true,
            max_depth: 200,
            max_bytes: 64 << 20,
            max_nodes: 4_000_000,
            codes: None,
        }
    }

    /// Reads as Helm and kubectl do.
    pub fn helm() -> Self {
        Self::new().schema(ScalarRules::Yaml11).duplicates(DuplicateKeys::LastWins).max_depth(Self::DEEPEST)
    }

    /// Reads resources as kustomize does.
    pub fn kustomize() -> Self {
        Self::new().schema(ScalarRules::GoYaml3).max_depth(Self::DEEPEST)
    }

    /// Chooses the rules that give plain scalars their types.
    #[must_use]
    pub fn schema(mut self, schema: ScalarRules) -> Self {
        self.schema = schema;
        self
    }

    /// Chooses what a repeated key means.
    #[must_use]
    pub fn duplicates(mut self, duplicates: DuplicateKeys) -> Self {
        self.duplicates = duplicates;
        self
    }

    /// Selects if `<<` merges (on by default).
    #[must_use]
    pub fn merge_keys(mut self, merge: bool) -> Self {
        self.merge = merge;
        self
    }

    /// Selects if anchors and aliases are allowed (on by default).
    #[must_use]
    pub fn anchors(mut self, anchors: bool) -> Self {
        self.anchors = anchors;
        self
    }

    /// Limits the depth of collections, up to [`YamlReader::DEEPEST`].
    #[must_use]
    pub fn max_depth(mut self, depth: usize) -> Self {
        self.max_depth = depth.min(Self::DEEPEST);
        self
    }

    /// Limits the length of the text.
    #[must_use]
    pub fn max_bytes(mut self, bytes: usize) -> Self {
        self.max_bytes = bytes.min(u32::MAX as usize);
        self
    }

    /// Limits the number of nodes of a stream once its aliases are followed.
    #[must_use]
    pub fn max_nodes(mut self, nodes: usize) -> Self {
        self.max_nodes = nodes;
        self
    }

    /// Gives problems these codes; without, they have none.
    #[must_use]
    pub fn codes(mut self, codes: ProblemCodes) -> Self {
        self.codes = Some(codes);
        self
    }

    fn with_code(&self, problem: Problem, choose: impl FnOnce(&ProblemCodes) -> &'static str) -> Problem {
        match &self.codes {
            Some(codes) => problem.code(choose(codes)),
            None => problem,
        }
    }

    /// Reads every document of a stream; `file` names it in locations. Documents that say nothing are
    /// null nodes.
    pub fn read(&self, text: &str, file: &str) -> Result<Vec<YamlNode>, Problems> {
        let mut problems = Problems::new();
        let documents = self.gather_documents(text, file, &mut problems);
        problems.into_result(documents)
    }

    /// Reads a stream of at most one document; an empty one gives a null node.
    pub fn read_one(&self, text: &str, file: &str) -> Result<YamlNode, Problems> {
        let mut problems = Problems::new();
        match self.gather_one(text, file, &mut problems) {
            Some(node) => problems.into_result(node),
            None => Err(problems),
        }
    }

    /// Reads what can be read and adds what is wrong to the problems, for callers that want to look for
    /// more of them: a key set twice does not hide a mistake further down.
    pub fn gather_documents(&self, text: &str, file: &str, problems: &mut Problems) -> Vec<YamlNode> {
        if text.len() > self.max_bytes {
            let message = format!("{} bytes are more than the {} allowed", text.len(), self.max_bytes);
            let problem = Problem::error(message).at(Location::file(file));
            problems.push(self.with_code(problem, |codes| codes.limit));
            return Vec::new();
        }
        let source = Arc::new(SourceText { file: file.into(), text: text.into() });
        let mut parser = Parser::new(text, self.max_depth);
        let mut documents = Vec::new();
        let mut nodes = 0;
        loop {
            let tape = match parser.next_document() {
                Ok(Some(tape)) => tape,
                Ok(None) => break,
                Err(error) => {
                    let too_deep = error.message().starts_with(TOO_DEEP);
                    let problem = error.to_problem(file, text);
                    problems.push(self.with_code(problem, |c| if too_deep { c.limit } else { c.syntax }));
                    break;
                }
            };
            let mut builder =
                NodeBuilder { reader: self, source: &source, tape: &tape, problems, nodes, stopped: false };
            let root = builder.build_node(0, 0);
            nodes = builder.nodes;
            if builder.stopped {
                break;
            }
            documents.push(root);
        }
        documents
    }

    /// Gathers from a stream of at most one document. Gives nothing if no document could be read.
    pub fn gather_one(&self, text: &str, file: &str, problems: &mut Problems) -> Option<YamlNode> {
        let known = problems.len();
        let mut documents = self.gather_documents(text, file, problems);
        if let Some(second) = documents.get(1) {
            problems.push(second.problem("only one document is allowed here"));
        }
        if documents.is_empty() && problems.len() == known {
            let source = Arc::new(SourceText { file: file.into(), text: text.into() });
            let span = Span { start: 0, end: 0, line: 1, column: 1 };
            return Some(YamlNode::new(
                NodeValue::Null,
                span,
                NodeForm::Scalar(ScalarStyle::Plain),
                None,
                source,
            ));
        }
        (!documents.is_empty()).then(|| documents.swap_remove(0))
    }
}

/// Reads every document of a stream with [`YamlReader::new`].
pub fn parse(text: &str, file: &str) -> Result<Vec<YamlNode>, Problems> {
    YamlReader::new().read(text, file)
}

/// Reads a file of one document with [`YamlReader::new`].
pub fn parse_one(text: &str, file: &str) -> Result<YamlNode, Problems> {
    YamlReader::new().read_one(text, file)
}

struct NodeBuilder<'b, 'a> {
    reader: &'b YamlReader,
    source: &'b Arc<SourceText>,
    tape: &'b Tape<'a>,
    problems: &'b mut Problems,
    nodes: usize,
    stopped: bool,
}

impl NodeBuilder<'_, '_> {
    fn item_span(item: &TapeItem<'_>) -> Span {
        let TextMark { offset, line, column, .. } = item.start;
        let (start, end) = (offset as usize, item.end.max(offset) as usize);
        Span { start, end, line: line + 1, column: column + 1 }
    }

    fn make_node(&self, item: &TapeItem<'_>, value: NodeValue) -> YamlNode {
        let form = match (&item.content, item.flow) {
            (ItemContent::Scalar { style, .. }, _) => NodeForm::Scalar(*style),
            (ItemContent::Alias { .. }, _) => NodeForm::Scalar(ScalarStyle::Plain),
            (_, true) => NodeForm::Flow,
            (_, false) => NodeForm::Block,
        };
        YamlNode::new(value, Self::item_span(item), form, item.tag.clone(), Arc::clone(self.source))
    }

    fn report_problem(&mut self, item: &TapeItem<'_>, message: impl Into<String>) {
        self.complain_as(item, message, |codes| codes.syntax);
    }

    fn complain_as(
        &mut self,
        item: &TapeItem<'_>,
        message: impl Into<String>,
        choose: impl FnOnce(&ProblemCodes) -> &'static str,
    ) {
        let problem = self.make_node(item, NodeValue::Null).problem(message);
        self.problems.push(self.reader.with_code(problem, choose));
    }

    fn build_node(&mut self, index: u32, depth: usize) -> YamlNode {
        let tape = self.tape;
        let item = &tape.items[index as usize];
        self.nodes += 1;
        if self.stopped || self.nodes > self.reader.max_nodes || depth > self.reader.max_depth {
            if !self.stopped {
                self.stopped = true;
                let message = if depth > self.reader.max_depth {
                    format!("nesting is deeper than the {} levels allowed", self.reader.max_depth)
                } else {
                    format!("aliases make more than the {} nodes allowed", self.reader.max_nodes)
                };
                self.complain_as(item, message, |codes| codes.limit);
            }
            return self.make_node(item, NodeValue::Null);
        }
        match &item.content {
            ItemContent::Scalar { value, style } => {
                let value = self.build_scalar(item, value, *style);
                self.make_node(item, value)
            }
            ItemContent::Seq => {
                let mut items = Vec::new();
                let mut at = index + 1;
                while at < item.next {
                    items.push(self.build_node(at, depth + 1));
                    at = tape.items[at as usize].next;
                }
                self.make_node(item, NodeValue::Seq(items))
            }
            ItemContent::Map => {
                let mapping = self.build_mapping(index, depth);
                self.make_node(item, NodeValue::Map(mapping))
            }
            ItemContent::Alias { name, target } => {
                if !self.reader.anchors {
                    self.report_problem(item, format!("alias `*{name}` is not allowed here"));
                    return self.make_node(item, NodeValue::Null);
                }
                if tape.items[*target as usize].next > index {
                    let message = format!("anchor `&{name}` contains itself");
                    self.complain_as(item, message, |codes| codes.aliases);
                    return self.make_node(item, NodeValue::Null);
                }
                // What the alias says stands elsewhere; where it is used is what messages should name.
                let mut node = self.build_node(*target, depth);
                node.span = Self::item_span(item);
                node
            }
        }
    }

    fn build_scalar(&mut self, item: &TapeItem<'_>, text: &str, style: ScalarStyle) -> NodeValue {
        let core = match item.tag.as_deref() {
            None if style != ScalarStyle::Plain => return NodeValue::String(text.to_owned()),
            None => None,
            Some(tag) => match tag.strip_prefix(CORE_TAG) {
                Some(core @ ("str" | "int" | "float" | "bool" | "null" | "timestamp" | "binary")) => {
                    Some(core)
                }
                _ => return NodeValue::String(text.to_owned()),
            },
        };
        match core {
            Some("str") => return NodeValue::String(text.to_owned()),
            Some("binary") => {
                let clean: String = text.chars().filter(|c| !c.is_ascii_whitespace()).collect();
                let bytes = base64::engine::general_purpose::STANDARD.decode(clean).ok();
                return match bytes.and_then(|bytes| String::from_utf8(bytes).ok()) {
                    Some(text) => NodeValue::String(text),
                    None => {
                        self.report_problem(item, "`!!binary` does not hold base64 of text");
                        NodeValue::Null
                    }
                };
            }
            _ => {}
        }
        let found = resolve_scalar(self.reader.schema, text);
        match (core, found) {
            (Some("float"), ResolvedScalar::Int(value)) => return NodeValue::Float(value as f64),
            (Some("float"), ResolvedScalar::Uint(value)) => return NodeValue::Float(value as f64),
            (Some("timestamp"), _) if parse_timestamp(text).is_some() => {}
            (Some(core), found) if core != found.tag() => {
                let message = format!("`{text}` is not of type `!!{core}`");
                self.complain_as(item, message, |codes| codes.value);
            }
            _ => {}
        }
        match found {
            ResolvedScalar::Null => NodeValue::Null,
            ResolvedScalar::Bool(value) => NodeValue::Bool(value),
            ResolvedScalar::Int(value) => NodeValue::Int(value),
            ResolvedScalar::Uint(value) => NodeValue::Uint(value),
            ResolvedScalar::Float(value) => NodeValue::Float(value),
            ResolvedScalar::Timestamp if self.reader.schema == ScalarRules::GoYaml3 => NodeValue::String(
                parse_timestamp(text).map_or_else(|| text.to_owned(), |time| time.rfc3339()),
            ),
            ResolvedScalar::Timestamp | ResolvedScalar::Str => NodeValue::String(text.to_owned()),
        }
    }

    fn build_mapping(&mut self, index: u32, depth: usize) -> Mapping {
        let mut entries = Entries::default();
        let mut merges = Vec::new();
        let tape = self.tape;
        let end = tape.items[index as usize].next;
        let in_order = self.reader.schema == ScalarRules::Yaml11;
        let mut at = index + 1;
        while at < end && !self.stopped {
            let key_item = &tape.items[at as usize];
            let value_at = key_item.next;
            if self.reader.merge && key_item.is_merge() {
                if in_order {
                    self.merge_entries(value_at, depth, &mut entries, true);
                } else {
                    merges.push(value_at);
                }
            } else {
                let key = self.build_node(at, depth + 1);
                let value = self.build_node(value_at, depth + 1);
                if matches!(key.value, NodeValue::Seq(_) | NodeValue::Map(_)) {
                    let problem = key.problem(format!("{} cannot be a key", key.kind_name()));
                    self.problems.push(self.reader.with_code(problem, |codes| codes.value));
                } else if let Some(known) = entries.find(&key) {
                    if self.reader.duplicates == DuplicateKeys::Refuse {
                        let first = entries.list[known].0.location();
                        let message = format!("key `{}` is set twice", key.key_text());
                        let problem = key
                            .problem(message)
                            .hint(format!("it was first set in line {}:{}", first.line, first.column));
                        self.problems.push(self.reader.with_code(problem, |codes| codes.duplicate));
                    } else {
                        entries.list[known].1 = value;
                    }
                } else {
                    entries.push(key, value);
                }
            }
            at = tape.items[value_at as usize].next;
        }
        for value_at in merges {
            self.merge_entries(value_at, depth, &mut entries, false);
        }
        Mapping::from_entries(entries.list)
    }

    /// Adds the entries of a merged mapping, or of each of a list of them.
    fn merge_entries(&mut self, at: u32, depth: usize, entries: &mut Entries, overriding: bool) {
        let node = self.build_node(at, depth + 1);
        let mappings: Vec<&Mapping> = match &node.value {
            NodeValue::Map(mapping) => vec![mapping],
            NodeValue::Seq(items) => items.iter().filter_map(YamlNode::as_map).collect(),
            _ => Vec::new(),
        };
        let wanted = node.as_seq().map_or(1, <[YamlNode]>::len);
        if mappings.len() != wanted {
            self.problems.push(
                node.problem(format!(
                    "`<<` merges a mapping or a list of mappings, not {}",
                    node.kind_name()
                )),
            );
            return;
        }
        // Earlier mappings of the list win over later ones.
        let ordered: Vec<&Mapping> = if overriding { mappings.into_iter().rev().collect() } else { mappings };
        for mapping in ordered {
            for (key, value) in mapping.iter() {
                match entries.find(key) {
                    Some(known) if overriding => entries.list[known].1 = value.clone(),
                    Some(_) => {}
                    None => entries.push(key.clone(), value.clone()),
                }
            }
        }
    }
}

/// Entries so far, with an index once there are too many to search.
#[derive(Default)]
struct Entries {
    list: Vec<(YamlNode, YamlNode)>,
    index: HashMap<Box<str>, usize>,
}

impl Entries {
    const SEARCHED: usize = 16;

    fn find(&self, key: &YamlNode) -> Option<usize> {
        let text = key.key_text();
        if self.list.len() > Self::SEARCHED {
            return self.index.get(&*text).copied();
        }
        self.list.iter().position(|(known, _)| known.key_text() == text)
    }

    fn push(&mut self, key: YamlNode, value: YamlNode) {
        self.list.push((key, value));
        if self.list.len() > Self::SEARCHED {
            let indexed = self.index.len();
            for (at, (key, _)) in self.list.iter().enumerate().skip(indexed) {
                self.index.insert(key.key_text().into(), at);
            }
        }
    }
}
