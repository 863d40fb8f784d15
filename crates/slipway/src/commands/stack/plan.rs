//! `slipway stack plan`: which releases, in which order, and why.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use slipway_stack::{Command, Compiled, Error, Node};

use super::flags::{RootFlags, SelectFlags};
use crate::exit::Exit;
use crate::session::Session;
use crate::term::show;
use crate::term::style::{BOLD, DIM, paint};

#[derive(Debug, clap::Args)]
pub struct PlanArgs {
    #[command(flatten)]
    root: RootFlags,

    #[command(flatten)]
    select: SelectFlags,

    /// Plan a deletion: what needs others goes first
    #[arg(long)]
    delete: bool,
}

pub fn run(args: &PlanArgs, session: &Session) -> anyhow::Result<Exit> {
    let command = if args.delete { Command::Delete } else { Command::Apply };
    let compiled = match super::compiled(&args.root, &args.select, command) {
        Err(error @ Error::Empty { .. }) if args.select.allow_empty => {
            anstream::eprintln!("{error}");
            return Ok(Exit::Done);
        }
        compiled => compiled?,
    };
    let warnings: Vec<String> = compiled.warnings.iter().map(|warning| warning.message.clone()).collect();
    show::show(session.output(), &compiled.plan.shown(&warnings), |_| table(&compiled))?;
    Ok(Exit::Done)
}

/// Clusters, their waves, and in each wave the releases with the reasons they were selected for.
fn table(compiled: &Compiled) -> String {
    let plan = &compiled.plan;
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
    if compiled.unmapped > 0 {
        let files = if compiled.unmapped == 1 { "file" } else { "files" };
        let _ = writeln!(text, "UNMAPPED     {} changed {files} mapped to no release", compiled.unmapped);
    }
    text
}

/// The first three reasons and how many more there are.
fn reasons(node: &Node) -> String {
    let shown: Vec<&str> = node.selected_by.iter().take(3).map(String::as_str).collect();
    let more = node.selected_by.len().saturating_sub(3);
    if more == 0 { shown.join(" ") } else { format!("{} +{more}", shown.join(" ")) }
}
