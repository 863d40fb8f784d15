//! Drawing a graph: DOT for Graphviz, Mermaid for documents, JSON for programs.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use crate::{Graph, NodeRef};

/// How an edge is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EdgeStyle {
    /// An ordinary need.
    #[default]
    Solid,
    /// A need from outside the graph's own world.
    Dashed,
    /// A need somebody inferred.
    Dotted,
}

impl EdgeStyle {
    fn name(self) -> &'static str {
        match self {
            Self::Solid => "solid",
            Self::Dashed => "dashed",
            Self::Dotted => "dotted",
        }
    }
}

type Label<'g, N> = Box<dyn Fn(NodeRef<'g, N>) -> String + 'g>;
type Group<'g, N> = Box<dyn Fn(NodeRef<'g, N>) -> Option<String> + 'g>;
type Style<'g, N> = Box<dyn Fn(NodeRef<'g, N>, NodeRef<'g, N>) -> EdgeStyle + 'g>;

/// A picture of a graph in the making. Arrows lead from a need to its dependent: the way of the work.
pub struct Drawing<'g, N> {
    graph: &'g Graph<N>,
    label: Option<Label<'g, N>>,
    group: Option<Group<'g, N>>,
    style: Option<Style<'g, N>>,
}

impl<N> Graph<N> {
    /// Starts a picture of the graph.
    pub fn draw(&self) -> Drawing<'_, N> {
        Drawing { graph: self, label: None, group: None, style: None }
    }
}

impl<'g, N> Drawing<'g, N> {
    /// Shows each node as this text instead of its id.
    #[must_use]
    pub fn label(mut self, label: impl Fn(NodeRef<'g, N>) -> String + 'g) -> Self {
        self.label = Some(Box::new(label));
        self
    }

    /// Draws a box around nodes of one group.
    #[must_use]
    pub fn group(mut self, group: impl Fn(NodeRef<'g, N>) -> Option<String> + 'g) -> Self {
        self.group = Some(Box::new(group));
        self
    }

    /// Draws edges (of a node and one it needs) in a style of their own.
    #[must_use]
    pub fn edges(mut self, style: impl Fn(NodeRef<'g, N>, NodeRef<'g, N>) -> EdgeStyle + 'g) -> Self {
        self.style = Some(Box::new(style));
        self
    }

    /// Draws for Graphviz.
    pub fn dot(&self) -> String {
        let mut text = String::from("digraph {\n  rankdir=LR;\n  node [shape=box];\n");
        let (groups, loose) = self.groups();
        let node = |text: &mut String, indent: &str, node: NodeRef<'g, N>| {
            let _ = write!(text, "{indent}{}", dot_quoted(node.id()));
            if let Some(label) = &self.label {
                let _ = write!(text, " [label={}]", dot_quoted(&label(node)));
            }
            text.push_str(";\n");
        };
        for (index, (name, members)) in groups.into_iter().enumerate() {
            let _ = writeln!(text, "  subgraph cluster_{index} {{\n    label={};", dot_quoted(&name));
            members.into_iter().for_each(|member| node(&mut text, "    ", member));
            text.push_str("  }\n");
        }
        loose.into_iter().for_each(|member| node(&mut text, "  ", member));
        for (dependent, need) in self.graph.edges() {
            let _ = write!(text, "  {} -> {}", dot_quoted(need.id()), dot_quoted(dependent.id()));
            match self.style(dependent, need) {
                EdgeStyle::Solid => {}
                style => {
                    let _ = write!(text, " [style={}]", style.name());
                }
            }
            text.push_str(";\n");
        }
        text.push_str("}\n");
        text
    }

    /// Draws for Mermaid. Nodes are numbered in the stable order, so no two ids can collide.
    pub fn mermaid(&self) -> String {
        let mut text = String::from("flowchart LR\n");
        let (groups, loose) = self.groups();
        let node = |text: &mut String, indent: &str, node: NodeRef<'g, N>| {
            let label = self.label.as_ref().map_or_else(|| node.id().to_string(), |label| label(node));
            let _ = writeln!(text, "{indent}n{}[\"{}\"]", node.position(), mermaid_escaped(&label));
        };
        for (index, (name, members)) in groups.into_iter().enumerate() {
            let _ = writeln!(text, "  subgraph g{index}[\"{}\"]", mermaid_escaped(&name));
            members.into_iter().for_each(|member| node(&mut text, "    ", member));
            text.push_str("  end\n");
        }
        loose.into_iter().for_each(|member| node(&mut text, "  ", member));
        for (dependent, need) in self.graph.edges() {
            // Mermaid has no third line style; a dashed need is drawn dotted.
            let arrow = match self.style(dependent, need) {
                EdgeStyle::Solid => "-->",
                EdgeStyle::Dashed | EdgeStyle::Dotted => "-.->",
            };
            let _ = writeln!(text, "  n{} {arrow} n{}", need.position(), dependent.position());
        }
        text
    }

    /// Draws for programs:
    ///
    /// ```json
    /// {"version": 1, "nodes": [{"id": "web", "wave": 1, "needs": [{"id": "db"}]}]}
    /// ```
    ///
    /// Nodes stand in the stable order and so do the needs of each. A node has a `label` and a `group`
    /// if the drawing gives it one, and a need has a `style` (`dashed` or `dotted`) unless it is solid.
    /// New members may be added; `version` changes if one changes its meaning or goes away.
    pub fn json(&self) -> Value {
        let nodes = self.graph.nodes().map(|node| {
            let mut entry = Map::new();
            entry.insert("id".to_owned(), json!(node.id()));
            if let Some(label) = &self.label {
                entry.insert("label".to_owned(), json!(label(node)));
            }
            if let Some(group) = self.group.as_ref().and_then(|group| group(node)) {
                entry.insert("group".to_owned(), json!(group));
            }
            entry.insert("wave".to_owned(), json!(node.wave()));
            let needs = node.needs().map(|need| match self.style(node, need) {
                EdgeStyle::Solid => json!({ "id": need.id() }),
                style => json!({ "id": need.id(), "style": style.name() }),
            });
            entry.insert("needs".to_owned(), needs.collect());
            Value::Object(entry)
        });
        json!({ "version": 1, "nodes": nodes.collect::<Vec<_>>() })
    }

    fn style(&self, dependent: NodeRef<'g, N>, need: NodeRef<'g, N>) -> EdgeStyle {
        self.style.as_ref().map_or(EdgeStyle::Solid, |style| style(dependent, need))
    }

    /// The groups by name with their members, and the nodes in none.
    #[allow(clippy::type_complexity)]
    fn groups(&self) -> (BTreeMap<String, Vec<NodeRef<'g, N>>>, Vec<NodeRef<'g, N>>) {
        let mut groups: BTreeMap<String, Vec<NodeRef<'g, N>>> = BTreeMap::new();
        let mut loose = Vec::new();
        for node in self.graph.nodes() {
            match self.group.as_ref().and_then(|group| group(node)) {
                Some(name) => groups.entry(name).or_default().push(node),
                None => loose.push(node),
            }
        }
        (groups, loose)
    }
}

/// A DOT string: only quotes and backslashes are special, and a line break is written `\n`.
fn dot_quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for letter in text.chars() {
        match letter {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\r' => {}
            _ => quoted.push(letter),
        }
    }
    quoted.push('"');
    quoted
}

/// Text inside a quoted Mermaid label, where `#name;` stands for a character.
fn mermaid_escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '"' => escaped.push_str("#quot;"),
            '#' => escaped.push_str("#35;"),
            '&' => escaped.push_str("#amp;"),
            '<' => escaped.push_str("#lt;"),
            '>' => escaped.push_str("#gt;"),
            '`' => escaped.push_str("#96;"),
            '\n' => escaped.push_str("<br/>"),
            '\r' => {}
            _ => escaped.push(letter),
        }
    }
    escaped
}
