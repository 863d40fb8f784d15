//! The plan: a value that says everything a run will do. Its JSON form is `plan.json`.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use slipway_graph::{Drawing, EdgeStyle, Graph};
use slipway_journal::{RunEvent, Summary, digest};
use slipway_problem::Problems;

use crate::select::Selector;
use crate::sources::SourceKind;

/// The format of `plan.json`.
pub const RUN_FORMAT: &str = "ktl.dev/stack-run/v1";
/// The format of a plan that is only shown.
pub const PLAN_FORMAT: &str = "ktl.dev/stack-plan/v1";

/// The command of a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "StackCommand")]
pub enum Command {
    #[default]
    Apply,
    Delete,
}

impl std::fmt::Display for Command {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Apply => "apply",
            Self::Delete => "delete",
        })
    }
}

/// The effect of the first failure on the rest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailMode {
    #[default]
    FailFast,
    ContinueOnError,
}

/// The treatment of needs that are not selected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NeedsPolicy {
    /// They must be deployed when their dependent starts.
    #[default]
    Check,
    /// They are selected as well.
    Include,
    /// They are somebody else's business.
    Ignore,
    /// They are an error.
    Strict,
}

/// Everything a run will do, and all it depends on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StackPlan {
    pub api_version: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub run_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Timestamp>,
    pub tool: Tool,
    pub stack_root: String,
    pub stack_name: String,
    pub command: Command,
    pub profile: Option<String>,
    pub selector: Selector,
    pub selection: Chosen,
    pub concurrency: usize,
    /// Limits of single clusters.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub concurrency_per_cluster: BTreeMap<String, usize>,
    pub fail_mode: FailMode,
    pub needs_policy: NeedsPolicy,
    pub retry: u32,
    pub nodes: Vec<Node>,
    /// The order of execution, as far as there is one.
    pub order: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resumed_from: Option<String>,
    /// Nodes an earlier run did already, for plans made anew.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub carried_over: Vec<String>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub plan_hash: String,
}

/// A plan that is only shown.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StackPlanView<'a> {
    /// The version of this format.
    pub api_version: &'static str,
    pub stack_root: &'a str,
    pub stack_name: &'a str,
    pub profile: Option<&'a str>,
    pub command: Command,
    pub selector: &'a Selector,
    pub selection: &'a Chosen,
    /// The number of nodes each kind of reason chose: `explicit:git`, `expand:dep-of`.
    pub counts_by_reason: BTreeMap<String, usize>,
    pub nodes: &'a [Node],
    /// The order of execution, as far as there is one.
    pub order: &'a [String],
    pub warnings: &'a [String],
}

/// The program that made a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Tool {
    pub name: String,
    pub version: String,
    /// The Helm whose behaviour the engine has.
    pub engine_version: String,
}

impl Default for Tool {
    fn default() -> Self {
        Self {
            name: "slipway".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            engine_version: slipway_chart::HELM_VERSION.to_owned(),
        }
    }
}

/// The releases selectors chose, and those that came along.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Chosen {
    pub initial: Vec<String>,
    pub expanded: Vec<String>,
}

/// One release of a plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "StackNode")]
pub struct Node {
    pub id: String,
    pub name: String,
    pub cluster: ClusterRef,
    pub namespace: String,
    /// A path relative to the root, or the reference of something to fetch.
    pub chart: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chart_version: Option<String>,
    pub source_kind: SourceKind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chart_digest: Option<String>,
    /// Paths relative to the root.
    pub values: Vec<String>,
    pub values_digests: Vec<String>,
    pub set: BTreeMap<String, Value>,
    pub tags: Vec<String>,
    /// The ids of those it needs, as far as they are in the plan.
    pub needs: Vec<String>,
    /// The ids of those it needs that are not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub external_needs: Vec<ExternalNeed>,
    pub selected_by: Vec<String>,
    pub effective_input_hash: String,
    pub options_hash: String,
    pub execution_group: usize,
    /// The directory that declares it, relative to the root.
    pub dir: String,
    pub declared_at: DeclaredAt,
    pub apply: ApplySettings,
    pub delete: DeleteSettings,
    /// Secret references among the set values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secret_refs: Vec<String>,
}

/// The cluster a release goes to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ClusterRef {
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubeconfig: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
}

/// A need that is not part of the plan; all it takes to look at it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ExternalNeed {
    pub id: String,
    pub name: String,
    pub namespace: String,
}

/// The file and line that declare a release.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct DeclaredAt {
    pub file: String,
    pub line: u32,
}

/// Settings of an apply; durations in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApplySettings {
    pub atomic: bool,
    pub wait: bool,
    pub timeout_ms: u64,
    #[serde(default)]
    pub create_namespace: bool,
}

/// Settings of a deletion.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeleteSettings {
    pub timeout_ms: u64,
}

impl Node {
    /// The time limit of one attempt of a command; none when absent.
    pub fn timeout(&self, command: Command) -> Option<Duration> {
        let milliseconds = match command {
            Command::Apply => self.apply.timeout_ms,
            Command::Delete => self.delete.timeout_ms,
        };
        (milliseconds > 0).then(|| Duration::from_millis(milliseconds))
    }

    /// The hash of all its effects depend on: no path of this machine, no commit, no timeout.
    pub fn input_hash(&self, tool: &Tool, chart_digest: Option<&str>, values: &[String]) -> String {
        digest::json(&json!({
            "v": 1,
            "cluster": {"name": self.cluster.name, "context": self.cluster.context},
            "namespace": self.namespace,
            "name": self.name,
            "chart": {
                "ref": if self.source_kind == SourceKind::Remote { self.chart.as_str() } else { "" },
                "digest": chart_digest,
                "version": self.chart_version,
            },
            "values": values,
            "set": self.set,
            "tool": tool.version,
            "engine": tool.engine_version,
        }))
    }

    /// The hash of how it is done, which may change without being drift.
    pub fn hash_options(&self) -> String {
        digest::json(&json!({"apply": self.apply, "delete": self.delete}))
    }
}

impl StackPlan {
    /// The node called `id`.
    pub fn node(&self, id: &str) -> Option<&Node> {
        self.nodes.iter().find(|node| node.id == id)
    }

    /// The hash of everything in it but the run it belongs to.
    pub fn hash(&self) -> String {
        let mut value = serde_json::to_value(self).unwrap_or_default();
        if let Some(object) = value.as_object_mut() {
            object.remove("planHash");
            object.remove("runId");
        }
        digest::json(&value)
    }

    /// The state of its run after `events`.
    pub fn summary(&self, events: &[RunEvent]) -> Summary {
        Summary::new(RUN_FORMAT, &self.run_id, self.nodes.iter().map(|node| node.id.as_str())).replay(events)
    }

    /// The graph to run: needs first, or for a deletion what needs them first.
    pub fn graph(&self) -> Result<Graph<&Node>, Problems> {
        let mut builder = Graph::builder();
        for node in &self.nodes {
            builder.add(node.id.as_str(), node, node.needs.iter().map(String::as_str));
        }
        let graph = builder.build()?;
        Ok(if self.command == Command::Delete { graph.reversed() } else { graph })
    }

    /// The number of nodes each kind of reason chose: `explicit:git`, `expand:dep-of`.
    pub fn counts_by_reason(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for node in &self.nodes {
            let mut kinds: Vec<String> = node.selected_by.iter().map(|reason| reason_kind(reason)).collect();
            kinds.dedup();
            for kind in kinds {
                *counts.entry(kind).or_default() += 1;
            }
        }
        counts
    }

    /// The plan as programs read it when it is only shown.
    pub fn shown<'a>(&'a self, warnings: &'a [String]) -> StackPlanView<'a> {
        StackPlanView {
            api_version: PLAN_FORMAT,
            stack_root: &self.stack_root,
            stack_name: &self.stack_name,
            profile: self.profile.as_deref(),
            command: self.command,
            selector: &self.selector,
            selection: &self.selection,
            counts_by_reason: self.counts_by_reason(),
            nodes: &self.nodes,
            order: &self.order,
            warnings,
        }
    }

    /// Hands a drawing of the plan to `take`: clusters as boxes, needs outside the plan dashed.
    pub fn draw<T>(&self, take: impl FnOnce(&Drawing<'_, Option<&Node>>) -> T) -> Result<T, Problems> {
        let mut builder = Graph::builder();
        let mut outside = BTreeMap::new();
        for node in &self.nodes {
            let external = node.external_needs.iter().map(|need| need.id.as_str());
            outside.extend(external.clone().map(|id| (id.to_owned(), None)));
            builder.add(node.id.as_str(), Some(node), node.needs.iter().map(String::as_str).chain(external));
        }
        for (id, none) in outside {
            builder.add(id, none, [""; 0]);
        }
        let graph = builder.build()?;
        let drawing = graph
            .draw()
            .group(|node| node.id().split('/').next().map(str::to_owned))
            .edges(|_, need| if need.value().is_some() { EdgeStyle::Solid } else { EdgeStyle::Dashed });
        Ok(take(&drawing))
    }
}

/// `explicit:git:a/b` is of the kind `explicit:git`.
fn reason_kind(reason: &str) -> String {
    reason.splitn(3, ':').take(2).collect::<Vec<_>>().join(":")
}
