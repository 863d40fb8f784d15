//! Drawing a graph: DOT for Graphviz, Mermaid for documents, JSON for programs.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use crate::{Graph, NodeRef};

/// The line an edge is drawn with.
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
type Test<'g, N> = Box<dyn Fn(NodeRef<'g, N>) -> bool + 'g>;
type Rank<'g, N> = Box<dyn Fn(NodeRef<'g, N>) -> usize + 'g>;

/// The direction of the arrows in a picture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    #[default]
    Right,
    Down,
}

/// A picture of a graph in the making. Arrows lead from a need to its dependent: the way of the work.
pub struct Drawing<'g, N> {
    graph: &'g Graph<N>,
    label: Option<Label<'g, N>>,
    group: Option<Group<'g, N>>,
    style: Option<Style<'g, N>>,
    title: Option<String>,
    direction: Direction,
    faded: Option<Test<'g, N>>,
    rank: Option<Rank<'g, N>>,
}

impl<N> Graph<N> {
    /// Starts a picture of the graph.
    pub fn draw(&self) -> Drawing<'_, N> {
        Drawing {
            graph: self,
            label: None,
            group: None,
            style: None,
            title: None,
            direction: Direction::default(),
            faded: None,
            rank: None,
        }
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

    /// Names the picture, where its form has a place for that.
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// Lets the arrows lead another way than to the right.
    #[must_use]
    pub fn direction(mut self, direction: Direction) -> Self {
        self.direction = direction;
        self
    }

    /// Draws nodes that take no part dashed and grey.
    #[must_use]
    pub fn faded(mut self, faded: impl Fn(NodeRef<'g, N>) -> bool + 'g) -> Self {
        self.faded = Some(Box::new(faded));
        self
    }

    /// Lists the nodes of text drawings by this number instead of in the stable order.
    #[must_use]
    pub fn ranked(mut self, rank: impl Fn(NodeRef<'g, N>) -> usize + 'g) -> Self {
        self.rank = Some(Box::new(rank));
        self
    }

    fn is_faded(&self, node: NodeRef<'g, N>) -> bool {
        self.faded.as_ref().is_some_and(|faded| faded(node))
    }

    /// The nodes as they are listed.
    fn listed(&self) -> Vec<NodeRef<'g, N>> {
        let mut nodes: Vec<NodeRef<'g, N>> = self.graph.nodes().collect();
        if let Some(rank) = &self.rank {
            nodes.sort_by_key(|node| rank(*node));
        }
        nodes
    }

    /// Draws for Graphviz.
    pub fn dot(&self) -> String {
        let name = self.title.as_ref().map(|title| dot_quoted(title) + " ").unwrap_or_default();
        let direction = if self.direction == Direction::Down { "TB" } else { "LR" };
        let mut text = format!("digraph {name}{{\n  rankdir={direction};\n  node [shape=box];\n");
        let (groups, loose) = self.groups();
        let node = |text: &mut String, indent: &str, node: NodeRef<'g, N>| {
            let _ = write!(text, "{indent}{}", dot_quoted(node.id()));
            let mut marks = Vec::new();
            marks.extend(self.label.as_ref().map(|label| format!("label={}", dot_quoted(&label(node)))));
            marks.extend(self.is_faded(node).then(|| "style=dashed, color=gray".to_owned()));
            if !marks.is_empty() {
                let _ = write!(text, " [{}]", marks.join(", "));
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

    /// Draws for Mermaid. Nodes are numbered as they are listed, so no two ids can collide.
    pub fn mermaid(&self) -> String {
        let direction = if self.direction == Direction::Down { "TD" } else { "LR" };
        let mut text = format!("flowchart {direction}\n");
        let (groups, loose) = self.groups();
        let mut numbers = vec![0; self.graph.len()];
        for (number, node) in self.listed().into_iter().enumerate() {
            numbers[node.position()] = number;
        }
        let number = |node: NodeRef<'g, N>| numbers[node.position()];
        let node = |text: &mut String, indent: &str, node: NodeRef<'g, N>| {
            let label = self.label.as_ref().map_or_else(|| node.id().to_string(), |label| label(node));
            let class = if self.is_faded(node) { ":::skipped" } else { "" };
            let _ = writeln!(text, "{indent}n{}[\"{}\"]{class}", number(node), mermaid_escaped(&label));
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
            let _ = writeln!(text, "  n{} {arrow} n{}", number(need), number(dependent));
        }
        if self.graph.nodes().any(|node| self.is_faded(node)) {
            text.push_str("  classDef skipped stroke-dasharray: 4 4,color:gray\n");
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
        for node in self.listed() {
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
