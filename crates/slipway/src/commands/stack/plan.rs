//! `slipway stack plan`: which releases, in which order, and why.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use slipway_secrets::Purpose;
use slipway_stack::engine::Engine;
use slipway_stack::plan::{StackPlanView, identify};
use slipway_stack::{Command, Error, Node, ReleasePreview, ReleaseVerdict, StackPlan, pin, survey};

use super::clusters::{self, Clusters};
use super::flags::{RootFlags, SelectFlags};
use super::survey::SurveyEntry;
use super::{runs, survey as shown};
use crate::commands::policy::{self, PolicyFlags};
use crate::commands::secrets::flags::ReferenceFlags;
use crate::commands::secrets::resolution::{ReferenceMode, ReferenceResolver};
use crate::exit::Exit;
use crate::help::Usual;
use crate::session::Session;
use crate::term::show;
use crate::term::style::{BOLD, DIM, paint};

#[derive(Debug, clap::Args)]
pub struct PlanArgs {
    /// Plan a deletion: what needs others goes first
    #[arg(long)]
    delete: bool,

    /// Print why this release is selected
    #[arg(long, value_name = "RELEASE", add = Usual)]
    explain: Option<String>,

    #[command(flatten)]
    root: RootFlags,

    #[command(flatten)]
    select: SelectFlags,

    #[command(flatten)]
    look: LookFlags,
}

/// Looks at the clusters that a plan alone does not take.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Clusters")]
pub struct LookFlags {
    /// Ask the clusters what would change, release by release
    #[arg(long)]
    pub diff: bool,

    /// Ask the clusters what was changed behind the releases' backs
    #[arg(long)]
    pub verify: bool,

    /// Exit with 2 when something would change, or was changed
    #[arg(long)]
    pub detailed_exitcode: bool,

    /// Fetch the secrets that values refer to, instead of naming them
    #[arg(long)]
    pub check_secrets: bool,

    #[command(flatten)]
    pub references: ReferenceFlags,

    #[command(flatten)]
    pub policy: PolicyFlags,
}

impl LookFlags {
    /// The resolver of references in the values of a stack that is looked at.
    fn resolver(&self, root: &Path, session: &Session) -> ReferenceResolver {
        let mode = match self.check_secrets {
            true => ReferenceMode::Fetch(Purpose::PlanCheck),
            false => ReferenceMode::Show,
        };
        ReferenceResolver::new(&self.references, mode, "stack plan", session).at(root.to_owned())
    }
}

pub fn run(args: &PlanArgs, session: &Session) -> anyhow::Result<Exit> {
    let command = if args.delete { Command::Delete } else { Command::Apply };
    let compiled = match super::compiled(&args.root, &args.select, command) {
        Err(error @ Error::Empty { .. }) if args.select.allow_empty => {
            say!("{error}");
            return Ok(Exit::Done);
        }
        compiled => compiled?,
    };
    if let Some(name) = &args.explain {
        let release = compiled.stack.find(name).map_err(Error::from)?;
        let id = release.id.to_string();
        let node = compiled
            .plan
            .node(&id)
            .ok_or_else(|| Error::from(slipway_problem::Problem::error(format!("{id} is not selected"))))?;
        let value = SelectionReasons { id: &id, selected_by: &node.selected_by };
        show::show(session.output(), &value, |_| format!("{id}\n  {}\n", node.selected_by.join("\n  ")))?;
        return Ok(Exit::Done);
    }
    let warnings: Vec<String> = compiled.warnings.iter().map(|warning| warning.message.clone()).collect();
    present(compiled.plan, &warnings, compiled.unmapped, &args.look, &args.root, session)
}

/// The reasons a release was selected for.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SelectionReasons<'a> {
    id: &'a str,
    selected_by: &'a [String],
}

/// A plan and whatever the clusters were asked about it.
#[derive(Serialize, JsonSchema)]
pub struct StackPlanOutput<'a> {
    #[serde(flatten)]
    plan: StackPlanView<'a>,
    /// The changes of each release, with `--diff`.
    #[serde(skip_serializing_if = "Option::is_none")]
    changes: Option<Vec<SurveyEntry<'a, ReleasePreview>>>,
    /// The releases that are not as they were applied, with `--verify`.
    #[serde(skip_serializing_if = "Option::is_none")]
    drift: Option<Vec<SurveyEntry<'a, ReleaseVerdict>>>,
}

/// Shows a plan and whatever the clusters were asked about it.
pub fn present(
    mut plan: StackPlan,
    warnings: &[String],
    unmapped: usize,
    look: &LookFlags,
    root: &RootFlags,
    session: &Session,
) -> anyhow::Result<Exit> {
    let mut exit = Exit::Done;
    let (mut changes, mut drift) = (None, None);
    let wants_changes = look.diff || look.policy.is_given();
    if wants_changes || look.verify {
        let (_, profile) = identify(&root.root, &root.profile());
        let root = runs::directory(&root.root)?;
        let references = look.resolver(&root, session);
        (changes, drift) = session.block_on_reading(async {
            let connect = Clusters::new(session, root.clone());
            let sources = clusters::sources(&references, session);
            let events = slipway_event::Events::silent();
            let policy = look.policy.stack_policy()?;
            let engine = Engine { root: root.clone(), connect, sources, profile, events, policy };
            let mut changes = None;
            if wants_changes {
                pin::pin(&mut plan, &root, &engine).await?;
                changes = Some(survey::previews(&plan, &engine).await);
            }
            let drift = if look.verify { Some(survey::verdicts(&plan, &engine).await) } else { None };
            Ok((changes, drift))
        })?;
        references.finish();
        let changed =
            changes.iter().flatten().any(|one| one.found.as_ref().is_ok_and(|found| !found.is_empty()))
                || drift.iter().flatten().any(|one| one.found.as_ref().is_ok_and(|found| !found.is_clean()));
        let failed = changes.iter().flatten().any(|one| one.found.is_err())
            || drift.iter().flatten().any(|one| one.found.is_err());
        let denied = !policy::denials(changes.as_deref().unwrap_or_default()).is_empty();
        exit = match (failed, changed && look.detailed_exitcode) {
            _ if denied => Exit::Refused,
            (true, _) => Exit::Failed,
            (false, true) => Exit::Changes,
            (false, false) => Exit::Done,
        };
    }
    let mut value = serde_json::to_value(StackPlanOutput {
        plan: plan.shown(warnings),
        changes: changes.as_deref().map(shown::entries),
        drift: drift.as_deref().map(shown::entries),
    })?;
    session.redactor().redact_json(&mut value);
    show::show(session.output(), &value, |_: &Value| {
        let mut text = table(&plan, unmapped);
        let previews = changes.as_deref().unwrap_or_default();
        if look.diff {
            text += &shown::previews_text(previews);
        }
        if look.policy.is_given() {
            text += &shown::policies_text(previews);
        }
        text += &drift.as_deref().map(shown::verdicts_text).unwrap_or_default();
        session.redactor().redact(&text).into_owned()
    })?;
    Ok(exit)
}

/// Clusters, their waves, and in each wave the releases with the reasons they were selected for.
fn table(plan: &StackPlan, unmapped: usize) -> String {
    let mut clusters: BTreeMap<&str, BTreeMap<usize, Vec<&Node>>> = BTreeMap::new();
    for node in &plan.nodes {
        let waves = clusters.entry(node.cluster.name.as_str()).or_default();
        waves.entry(node.execution_group).or_default().push(node);
    }
    let names: Vec<&str> = clusters.keys().copied().collect();
    let mut text = format!(
        "STACK {}   PROFILE {}   ROOT {}   CLUSTERS {}   RELEASES {} (initial {}, expanded {})\n",
        paint(BOLD, &plan.stack_name),
        plan.profile.as_deref().unwrap_or("-"),
        plan.stack_root,
        if names.is_empty() { "-".to_owned() } else { names.join(",") },
        plan.nodes.len(),
        plan.selection.initial.len(),
        plan.selection.expanded.len(),
    );
    let width =
        |pick: fn(&Node) -> &str| plan.nodes.iter().map(|node| pick(node).chars().count()).max().unwrap_or(0);
    let (ids, charts) = (width(|node| node.id.as_str()), width(|node| node.chart.as_str()));
    for (cluster, waves) in clusters {
        let _ = writeln!(text, "\nCLUSTER {}", paint(BOLD, cluster));
        for (wave, nodes) in waves {
            let _ = writeln!(text, "  WAVE {wave}");
            for node in nodes {
                let reasons = reasons(node);
                let _ =
                    writeln!(text, "    {:<ids$}   {:<charts$}   PLANNED   {reasons}", node.id, node.chart);
                for need in &node.external_needs {
                    let _ = writeln!(text, "      {}", paint(DIM, format!("NEEDS (external) {}", need.id)));
                }
            }
        }
    }
    let counts: Vec<String> =
        plan.counts_by_reason().into_iter().map(|(kind, count)| format!("{kind} {count}")).collect();
    if !counts.is_empty() {
        let _ = writeln!(text, "\nSELECTED BY  {}", counts.join("   "));
    }
    if unmapped > 0 {
        let files = if unmapped == 1 { "file" } else { "files" };
        let _ = writeln!(text, "UNMAPPED     {unmapped} changed {files} mapped to no release");
    }
    text
}

/// The first three reasons and how many more there are.
fn reasons(node: &Node) -> String {
    let shown: Vec<&str> = node.selected_by.iter().take(3).map(String::as_str).collect();
    let more = node.selected_by.len().saturating_sub(3);
    if more == 0 { shown.join(" ") } else { format!("{} +{more}", shown.join(" ")) }
}
