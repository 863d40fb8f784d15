//! Compiles a spec: every expression, every dependency, every problem at once.

mod declare;
mod dialect;
mod expressions;
mod node;

use std::collections::BTreeMap;
use std::sync::Arc;

use slipway_cel::Type;
use slipway_graph::{Defect, Graph, GraphBuilder, NodeRef};
use slipway_problem::Problem;

pub(crate) use node::{BodyKind, Gate, Node};

use crate::api::{GraphSpec, NodeSpec};
use crate::expression::{Expressions, Names};
use crate::project::{FieldPath, minimal};
use expressions::Compiling;

/// Why a spec is refused, as conditions name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SpecFault {
    /// A node is not declared as it should be.
    Declaration,
    /// An expression does not compile.
    Expression,
    /// Nodes depend on what does not exist, or on each other.
    Dependency,
}

impl SpecFault {
    /// The reason of the `Compiled` condition.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Declaration => "DeclarationError",
            Self::Expression => "ExpressionError",
            Self::Dependency => "DependencyError",
        }
    }
}

/// One thing that is wrong with a spec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecProblem {
    pub fault: SpecFault,
    /// The field, from the root of the object: `spec.nodes[1].template.spec.name`.
    pub path: String,
    pub message: String,
    pub hint: Option<String>,
}

impl std::fmt::Display for SpecProblem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.path, self.message)?;
        match &self.hint {
            Some(hint) => write!(f, " ({hint})"),
            None => Ok(()),
        }
    }
}

impl From<SpecProblem> for Problem {
    fn from(problem: SpecProblem) -> Self {
        let shown =
            Problem::error(format!("{}: {}", problem.path, problem.message)).code(problem.fault.reason());
        match problem.hint {
            Some(hint) => shown.hint(hint),
            None => shown,
        }
    }
}

/// Everything that is wrong with a spec.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", shown(.0))]
pub struct CompileError(pub Vec<SpecProblem>);

fn shown(problems: &[SpecProblem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

impl CompileError {
    /// The reason of the `Compiled` condition: that of the first problem.
    pub fn fault(&self) -> SpecFault {
        self.0.first().map_or(SpecFault::Declaration, |problem| problem.fault)
    }
}

/// A spec that can be carried out.
#[derive(Debug)]
pub(crate) struct CompiledGraph {
    /// In topological order.
    pub(crate) graph: Graph<Node>,
    /// Whether an expression asks how nodes stand.
    pub(crate) asks_for_state: bool,
}

impl CompiledGraph {
    /// The nodes that are created when a node is to be removed.
    pub(crate) fn finalizers_of(&self, id: &str) -> impl Iterator<Item = &Node> {
        let id = id.to_owned();
        self.graph
            .nodes()
            .map(NodeRef::value)
            .filter(move |node| node.finalizes.as_deref() == Some(id.as_str()))
    }

    /// The node whose id is this but for case.
    pub(crate) fn position_of(&self, lower: &str) -> Option<usize> {
        self.graph.nodes().find(|node| node.id().to_lowercase() == lower).map(NodeRef::position)
    }
}

/// Compiles a spec.
pub(crate) fn compile(expressions: &Expressions, spec: &GraphSpec) -> Result<CompiledGraph, CompileError> {
    let mut compiling = Compiling::new(expressions);
    declare::check(spec, &mut compiling.problems);
    let shapes: Vec<_> = spec.nodes.iter().map(dialect::shape).collect();
    let mut names: Names = expressions.names();
    // Sorted, so that Graphs with the same nodes share their expressions.
    let mut declared: BTreeMap<&str, Type> = BTreeMap::new();
    for (node, shape) in spec.nodes.iter().zip(&shapes) {
        let ty = dialect::variable_type(shape.as_ref().map(|shape| shape.kind), node.for_each.is_some());
        declared.entry(node.id.as_str()).or_insert(ty);
    }
    for (id, ty) in &declared {
        names.declare(id, ty.clone());
    }
    let mut builder: GraphBuilder<Node> = Graph::builder();
    for (index, (node, shape)) in spec.nodes.iter().zip(shapes).enumerate() {
        let Some(shape) = shape else { continue };
        let others = compiling.without(&declared, &node.id);
        let compiled = compiling.node(index, node, shape, &others, &names);
        let needs: Vec<String> = compiled.dependencies.keys().cloned().collect();
        builder.add(node.id.as_str(), compiled, needs);
    }
    let built = builder.try_build();
    let mut problems = compiling.problems;
    let graph = match built {
        Ok(graph) => graph,
        Err(defects) => {
            problems.extend(defects.into_iter().filter_map(|defect| defect_problem(spec, defect)));
            Graph::default()
        }
    };
    if !problems.is_empty() {
        return Err(CompileError(problems));
    }
    Ok(finish(graph))
}

/// Says what is wrong with the shape of the graph; doubled ids are reported by the declarations already.
fn defect_problem(spec: &GraphSpec, defect: Defect) -> Option<SpecProblem> {
    let place = |id: &str| {
        let index = spec.nodes.iter().position(|node: &NodeSpec| node.id == id);
        index.map_or_else(|| "spec.nodes".to_owned(), |index| format!("spec.nodes[{index}]"))
    };
    let path = match &defect {
        Defect::Duplicate { .. } => return None,
        Defect::SelfNeed { id, .. } | Defect::UnknownNeed { id, .. } | Defect::UnknownNode { id, .. } => {
            place(id)
        }
        Defect::Cycle { path, .. } => path.first().map_or_else(|| "spec.nodes".to_owned(), |id| place(id)),
        Defect::MoreCycles { .. } => "spec.nodes".to_owned(),
    };
    let problem = Problem::from(defect);
    Some(SpecProblem { fault: SpecFault::Dependency, path, message: problem.message, hint: problem.hint })
}

/// Tells every node which of its fields others read.
fn finish(mut graph: Graph<Node>) -> CompiledGraph {
    let mut exposed: BTreeMap<String, Vec<FieldPath>> = BTreeMap::new();
    let mut asks_for_state = false;
    for node in graph.nodes() {
        asks_for_state |= node.value().asks_for_state;
        for read in &node.value().reads {
            exposed.entry(read.node.clone()).or_default().push(read.path.clone());
        }
    }
    for (id, paths) in exposed {
        if let Some(node) = graph.get_mut(&id) {
            node.exposed = minimal(paths);
        }
    }
    CompiledGraph { graph, asks_for_state }
}

/// Compiles a spec for everybody who only wants to know whether it does.
pub fn check_spec(spec: &GraphSpec) -> Result<(), CompileError> {
    compile(&Expressions::new(), spec).map(|_| ())
}

pub(crate) type SharedGraph = Arc<CompiledGraph>;
