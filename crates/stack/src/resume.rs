//! Going on with a run: which one, whether its inputs are still the same, and what is left to do.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

use serde_json::{Value, json};
use slipway_journal::{failed_nodes, is_proven};
use slipway_problem::Problem;
use slipway_source::SourceDigests;

use crate::error::Error;
use crate::execute::RunStart;
use crate::paths;
use crate::plan::{self, Command, Node, StackPlan, Tool};
use crate::record::{NodeStatus, RunStatus, Store, Stored};
use crate::sources::{Source, SourceKind};

/// Inputs that changed since a plan was made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Drift {
    pub run_id: String,
    /// Nodes still to be done.
    pub nodes: Vec<(String, Vec<Changed>)>,
    /// Nodes already done, for information.
    pub done: Vec<String>,
}

/// One input that changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    /// `values`, `chart` or `tool`.
    pub what: &'static str,
    pub name: String,
    pub before: String,
    pub now: String,
}

impl Drift {
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    pub(crate) fn to_json(&self) -> Value {
        let nodes = self.nodes.iter().map(|(id, changed)| {
            let changed: Vec<Value> = changed
                .iter()
                .map(|c| json!({"input": c.what, "name": c.name, "before": c.before, "now": c.now}))
                .collect();
            json!({"id": id, "changed": changed})
        });
        nodes.collect()
    }
}

impl fmt::Display for Drift {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.run_id.is_empty() {
            writeln!(f, "inputs changed since the plan was made")?;
        } else {
            writeln!(f, "resume refused: inputs of run {} changed", self.run_id)?;
        }
        for (id, changed) in &self.nodes {
            writeln!(f, "  {id}")?;
            let width = changed.iter().map(|changed| changed.name.chars().count()).max().unwrap_or(0);
            for Changed { what, name, before, now } in changed {
                writeln!(f, "    {what:<6} {name:<width$}   {before} -> {now}")?;
            }
        }
        for id in &self.done {
            writeln!(f, "  {id} changed too, after it succeeded")?;
        }
        f.write_str(if self.run_id.is_empty() {
            "nothing was changed; run the command again to plan anew"
        } else {
            "use --allow-drift to continue with current inputs, or --replan to compile a new plan"
        })
    }
}

/// Compares what the nodes of a run read with what is there now.
pub fn drift(root: &Path, home: Option<&Path>, stored: &Stored) -> Drift {
    let mut drift = Drift { run_id: stored.plan.run_id.clone(), ..Drift::default() };
    for (id, changed) in changed_nodes(&stored.plan, root, home) {
        if stored.summary.status_of(&id) == NodeStatus::Succeeded {
            drift.done.push(id);
        } else {
            drift.nodes.push((id, changed));
        }
    }
    drift
}

/// Finds the nodes of a plan whose inputs are no longer those it was made from.
pub(crate) fn changed_nodes(
    plan: &StackPlan,
    root: &Path,
    home: Option<&Path>,
) -> Vec<(String, Vec<Changed>)> {
    if plan.command == Command::Delete {
        return Vec::new();
    }
    let (digests, tool) = (SourceDigests::new(), Tool::default());
    let all = plan.nodes.iter().map(|node| {
        let changed = changed(root, home, node, &plan.tool, &tool, &digests);
        (node.id.clone(), changed)
    });
    all.filter(|(_, changed)| !changed.is_empty()).collect()
}

fn changed(
    root: &Path,
    home: Option<&Path>,
    node: &Node,
    before: &Tool,
    now: &Tool,
    digests: &SourceDigests,
) -> Vec<Changed> {
    let mut changed = Vec::new();
    for (what, before, now) in
        [("tool", &before.version, &now.version), ("engine", &before.engine_version, &now.engine_version)]
    {
        if before != now {
            let name = if what == "tool" { "slipway" } else { "helm" };
            changed.push(Changed {
                what: "tool",
                name: name.to_owned(),
                before: before.clone(),
                now: now.clone(),
            });
        }
    }
    let mut compare = |what, name: &str, before: &str, now: Option<String>| {
        let now = now.unwrap_or_else(|| "missing".to_owned());
        if before != now {
            changed.push(Changed { what, name: name.to_owned(), before: before.to_owned(), now });
        }
    };
    for (name, before) in node.values.iter().zip(&node.values_digests) {
        let now = digests.of(&paths::expand(root, home, name)).ok();
        compare("values", name, before, now.map(|digest| digest.to_string()));
    }
    // A fetched chart is kept by its digest, which is compared when it is used.
    if let Some(before) = node.chart_digest.as_ref().filter(|_| node.source_kind != SourceKind::Remote) {
        let path = Some(paths::expand(root, home, &node.chart));
        let source = Source { kind: node.source_kind, shown: node.chart.clone(), path };
        let now = plan::compile::source_digest(root, &source, digests).ok().flatten();
        compare("chart", &node.chart, before, now);
    }
    changed
}

/// The run a user asks to go on with.
#[derive(Clone, Debug, Default)]
pub struct Resume {
    /// This run, or the most recent one unless it succeeded.
    pub run_id: Option<String>,
    /// Only what failed.
    pub rerun_failed: bool,
    /// With `rerun_failed`, also what was waiting for it.
    pub include_dependents: bool,
    pub allow_drift: bool,
}

/// Finds the run to go on with.
pub fn find(
    store: &Store,
    (stack, profile): (&str, Option<&str>),
    run_id: Option<&str>,
) -> Result<String, Error> {
    if let Some(run_id) = run_id {
        return Ok(run_id.to_owned());
    }
    let nothing = || Problem::error("nothing to resume").code("ST053");
    let mut runs = store.runs_of(stack, profile);
    let Some(newest) = runs.next().transpose()? else { return Err(nothing().into()) };
    if newest.summary.status != RunStatus::Succeeded {
        return Ok(newest.plan.run_id);
    }
    // An older run that failed was made up for, or is meant on purpose: then it is named.
    let failed = runs.flatten().find(|run| run.summary.status != RunStatus::Succeeded);
    let problem = match failed {
        Some(run) => nothing().hint(format!(
            "the most recent run, {}, succeeded; `--run-id {}` goes on with an earlier one",
            newest.plan.run_id, run.plan.run_id
        )),
        None => nothing(),
    };
    Err(problem.into())
}

/// Decides where a run that is gone on with starts; refuses if it does something else or its inputs changed. Gives
/// nothing to start from when nothing is left.
pub fn prepare(
    stored: &Stored,
    command: Command,
    resume: &Resume,
    root: &Path,
    home: Option<&Path>,
) -> Result<Option<RunStart>, Error> {
    check_command(&stored.plan, command)?;
    if stored.left() == 0 {
        return Ok(None);
    }
    let drift = drift(root, home, stored);
    if !drift.is_empty() && !resume.allow_drift {
        return Err(Error::Drift(Box::new(drift)));
    }
    let drift = (!drift.is_empty()).then(|| Box::new(drift));
    if !resume.rerun_failed {
        return Ok(Some(RunStart::Resume { drift }));
    }
    let mut only: BTreeSet<String> = failed_nodes(&stored.summary).map(str::to_owned).collect();
    if resume.include_dependents {
        let graph = stored.plan.graph()?;
        let waiting = graph.descendants(&only);
        let waiting: Vec<String> = waiting.iter().map(|node| node.id().to_string()).collect();
        only.extend(waiting.into_iter().filter(|id| stored.summary.status_of(id) != NodeStatus::Succeeded));
    }
    Ok((!only.is_empty()).then_some(RunStart::Failed { only, drift }))
}

/// A run can only be gone on with by the command that started it.
pub fn check_command(plan: &StackPlan, command: Command) -> Result<(), Error> {
    if plan.command == command {
        return Ok(());
    }
    let article = if plan.command == Command::Apply { "an" } else { "a" };
    let message = format!("run {} is {article} {}; {command} cannot resume it", plan.run_id, plan.command);
    Err(Error::invalid("ST052", message))
}

/// Carries over into a new plan what an old run did and would do the same way again.
pub fn carry_over(plan: &mut StackPlan, old: &Stored) {
    plan.resumed_from = Some(old.plan.run_id.clone());
    plan.carried_over = plan
        .nodes
        .iter()
        .filter(|node| {
            let recorded = old.plan.node(&node.id).map(|old| old.effective_input_hash.as_str());
            is_proven(old.summary.status_of(&node.id), recorded, Some(&node.effective_input_hash))
        })
        .map(|node| node.id.clone())
        .collect();
}
