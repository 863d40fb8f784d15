//! `slipway pipeline history` and `diff`: the past of a pipeline, and what changes between versions.

use slipway_promotion::rollback::current_bundle;
use slipway_promotion::view::{HistoryEntry, compare_bundles, promotion_history};

use crate::commands::promotion::{PolicyNamespaceFlags, check_environment, connect, find_bundle, survey};
use crate::exit::Exit;
use crate::session::Session;
use crate::term::show;
use crate::term::table::Table;

#[derive(Debug, clap::Args)]
pub struct HistoryArgs {
    /// The pipeline
    pipeline: String,

    /// Only this environment
    #[arg(long, value_name = "NAME")]
    env: Option<String>,

    /// The gates and measurements of each promotion as well
    #[arg(long)]
    evidence: bool,

    /// How many at most
    #[arg(long, value_name = "N", default_value_t = 50)]
    max: usize,

    #[command(flatten)]
    policy: PolicyNamespaceFlags,
}

pub fn run(args: &HistoryArgs, session: &Session) -> anyhow::Result<Exit> {
    session.block_on_reading(async {
        let place = connect(session).await?;
        let survey = survey(&place, &args.policy.settings(), &args.pipeline).await?;
        if let Some(environment) = &args.env {
            check_environment(&survey, environment)?;
        }
        let mut entries = promotion_history(&survey.bundles, args.env.as_deref());
        entries.truncate(args.max);
        show::show(session.output(), &entries, |entries| history_text(entries, args.evidence))?;
        Ok(Exit::Done)
    })
}

fn history_text(entries: &[HistoryEntry], with_evidence: bool) -> String {
    if entries.is_empty() {
        return "nothing was promoted yet\n".to_owned();
    }
    let mut table =
        Table::new(&["bundle", "version", "action", "env", "pr", "approver", "duration", "timestamp"]);
    let mut evidence = String::new();
    for entry in entries {
        let dash = || "-".to_owned();
        table.row([
            entry.bundle.clone(),
            entry.version.clone(),
            entry.action.word().to_owned(),
            entry.environment.clone(),
            entry.pr_url.clone().unwrap_or_else(dash),
            if entry.approvers.is_empty() { dash() } else { entry.approvers.join(", ") },
            entry.duration_seconds.map_or_else(dash, duration_text),
            entry.at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        ]);
        let Some(found) = entry.evidence.as_ref().filter(|_| with_evidence) else { continue };
        evidence.push_str(&format!("\n{} in {}:\n", entry.bundle, entry.environment));
        for gate in &found.policy_gates {
            let reason = gate.reason.as_deref().unwrap_or_default();
            evidence.push_str(&format!("  gate {} {:?}: {reason}\n", gate.name, gate.result));
        }
        for (name, value) in &found.metrics {
            evidence.push_str(&format!("  metric {name} = {value}\n"));
        }
        if let Some(reason) = &entry.reason {
            evidence.push_str(&format!("  {reason}\n"));
        }
    }
    table.render() + &evidence
}

fn duration_text(seconds: i64) -> String {
    slipway_stack::duration::show(std::time::Duration::from_secs(u64::try_from(seconds).unwrap_or_default()))
}

#[derive(Debug, clap::Args)]
pub struct DiffArgs {
    /// The pipeline
    pipeline: String,

    /// The bundle that is compared with, by name or version
    #[arg(required_unless_present = "env")]
    from: Option<String>,

    /// The bundle that is compared, by name or version
    #[arg(required_unless_present = "env")]
    to: Option<String>,

    /// Compare what the environment runs with the newest bundle instead
    #[arg(long, value_name = "NAME")]
    env: Option<String>,

    #[command(flatten)]
    policy: PolicyNamespaceFlags,
}

pub fn diff(args: &DiffArgs, session: &Session) -> anyhow::Result<Exit> {
    session.block_on_reading(async {
        let place = connect(session).await?;
        let survey = survey(&place, &args.policy.settings(), &args.pipeline).await?;
        let (from, to) = match &args.env {
            Some(environment) => {
                check_environment(&survey, environment)?;
                let from = current_bundle(environment, &survey.bundles).ok_or_else(|| {
                    slipway_problem::Problem::error(format!("nothing was promoted to {environment} yet"))
                })?;
                let newest = args.from.as_deref().map(|wanted| find_bundle(&survey, wanted)).transpose()?;
                let to = newest.or(survey.bundles.first());
                (from, to.ok_or_else(|| slipway_problem::Problem::error("the pipeline has no bundles yet"))?)
            }
            None => {
                let name = |given: &Option<String>| given.clone().unwrap_or_default();
                (find_bundle(&survey, &name(&args.from))?, find_bundle(&survey, &name(&args.to))?)
            }
        };
        let rows = compare_bundles(from, to);
        show::show(session.output(), &rows, |rows| {
            let mut table = Table::new(&["artifact", from.name(), to.name(), ""]);
            for row in rows {
                let dash = || "-".to_owned();
                let sign = if row.changed { "*" } else { "" };
                table.row([
                    row.artifact.clone(),
                    row.from.clone().unwrap_or_else(dash),
                    row.to.clone().unwrap_or_else(dash),
                    sign.to_owned(),
                ]);
            }
            table.render()
        })?;
        Ok(Exit::Done)
    })
}
