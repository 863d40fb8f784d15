//! The nodes of a promotion: environments and gates, what comes after what, and how each stands.

use serde::Serialize;

use super::survey::PipelineSurvey;
use crate::gate::GateLine;
use crate::kinds::{Bundle, StepState};
use crate::translate::EnvironmentOrder;

/// A promotion as nodes and edges.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PromotionDiagram {
    pub pipeline: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bundle: Option<String>,
    pub nodes: Vec<DiagramNode>,
    pub edges: Vec<DiagramEdge>,
}

#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DiagramNode {
    pub id: String,
    pub kind: DiagramNodeKind,
    pub label: String,
    pub environment: String,
    /// The state of an environment or the phase of a gate; `NotStarted` before there is one.
    pub state: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DiagramNodeKind {
    Environment,
    Gate,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DiagramEdge {
    pub from: String,
    pub to: String,
}

impl PipelineSurvey {
    /// The environments with their gates, as a bundle passes them; as the pipeline says where none is named.
    pub fn diagram(&self, bundle: Option<&Bundle>) -> PromotionDiagram {
        let (mut nodes, mut edges) = (Vec::new(), Vec::new());
        let order = EnvironmentOrder::of(&self.pipeline.spec);
        for environment in self.environment_names() {
            let standing = self.environment_standing(environment, bundle);
            let upstreams: Vec<&str> =
                order.as_ref().map(|order| order.upstreams(environment).to_vec()).unwrap_or_default();
            let gates: Vec<GateLine> = match bundle {
                Some(_) => standing.gates,
                None => self.template_lines(environment),
            };
            for gate in &gates {
                let id = format!("{environment}/{}", gate.name);
                edges.extend(upstreams.iter().map(|from| edge(from, &id)));
                edges.push(edge(&id, environment));
                nodes.push(DiagramNode {
                    id,
                    kind: DiagramNodeKind::Gate,
                    label: gate.name.clone(),
                    environment: environment.to_owned(),
                    state: bundle.map_or_else(|| "NotStarted".to_owned(), |_| format!("{:?}", gate.phase)),
                });
            }
            edges.extend(upstreams.iter().map(|from| edge(from, environment)));
            let state = bundle.and_then(|bundle| bundle.status.environments.get(environment)?.state);
            nodes.push(DiagramNode {
                id: environment.to_owned(),
                kind: DiagramNodeKind::Environment,
                label: environment.to_owned(),
                environment: environment.to_owned(),
                state: state.map_or_else(|| "NotStarted".to_owned(), |state: StepState| format!("{state:?}")),
            });
        }
        PromotionDiagram {
            pipeline: self.pipeline.name().to_owned(),
            bundle: bundle.map(|bundle| bundle.name().to_owned()),
            nodes,
            edges,
        }
    }

    fn template_lines(&self, environment: &str) -> Vec<GateLine> {
        let found = super::applying_gates(
            &self.templates,
            environment,
            &self.pipeline.metadata.labels,
            &self.policy_namespaces,
        );
        let line = |(scope, gate): (crate::kinds::GateScope, &crate::kinds::PolicyGate)| GateLine {
            name: gate.name().to_owned(),
            scope,
            phase: crate::kinds::GatePhase::Pending,
            detail: String::new(),
            eta: None,
        };
        found.into_iter().map(line).collect()
    }
}

fn edge(from: &str, to: &str) -> DiagramEdge {
    DiagramEdge { from: from.to_owned(), to: to.to_owned() }
}

impl PromotionDiagram {
    /// The diagram in the language of Graphviz.
    pub fn dot(&self) -> String {
        let mut text = format!("digraph {:?} {{\n  rankdir=LR;\n", self.pipeline);
        for node in &self.nodes {
            let shape = match node.kind {
                DiagramNodeKind::Environment => "box, style=rounded",
                DiagramNodeKind::Gate => "hexagon",
            };
            text.push_str(&format!(
                "  {:?} [shape={shape}, label=\"{}\\n{}\"];\n",
                node.id, node.label, node.state
            ));
        }
        for edge in &self.edges {
            text.push_str(&format!("  {:?} -> {:?};\n", edge.from, edge.to));
        }
        text.push_str("}\n");
        text
    }

    /// The diagram in the language of Mermaid, which forges show in Markdown.
    pub fn mermaid(&self) -> String {
        let position = |id: &str| self.nodes.iter().position(|node| node.id == id).unwrap_or_default();
        let mut text = "flowchart LR\n".to_owned();
        for (index, node) in self.nodes.iter().enumerate() {
            let (open, close) = match node.kind {
                DiagramNodeKind::Environment => ("(", ")"),
                DiagramNodeKind::Gate => ("{{", "}}"),
            };
            text.push_str(&format!("  n{index}{open}\"{}: {}\"{close}\n", node.label, node.state));
        }
        for edge in &self.edges {
            text.push_str(&format!("  n{} --> n{}\n", position(&edge.from), position(&edge.to)));
        }
        text
    }
}
