//! `slipway rollback`: goes back to an earlier revision.

use std::path::PathBuf;

use slipway_cluster::connect::Connection;
use slipway_release::{ExecuteOptions, PlanOptions, ReleaseContent, ReleaseRequest};

use super::flags::{DiffFlags, DryRunFlag, PlanningFlags, RunFlags};
use super::{First, carry_out, connect_within, dry_run, say_target};
use crate::exit::Exit;
use crate::help::Usual;
use crate::session::Session;

/// Go back to an earlier revision
#[derive(Debug, clap::Args)]
pub struct RollbackArgs {
    /// The release's name
    name: String,

    /// The revision; the last good one before unless given
    revision: Option<u32>,

    /// Carry it out on a copy of what it touches first; the cluster is written only if that goes well
    #[arg(long, add = Usual)]
    rehearse: bool,

    /// Delete the objects it created when it fails; hooks and objects that are to be kept stay
    #[arg(long)]
    cleanup_on_fail: bool,

    /// Text for the revision's entry in the history
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,

    /// The same as --save-graph-to: the graph of a rollback is its own
    #[arg(long, value_name = "FILE", conflicts_with = "save_graph_to", hide_short_help = true)]
    save_rollback_graph_to: Option<PathBuf>,

    #[command(flatten)]
    dry_run: DryRunFlag,

    #[command(flatten)]
    planning: PlanningFlags,

    #[command(flatten)]
    run: RunFlags,

    #[command(flatten)]
    diff: DiffFlags,
}

pub fn rollback(args: &RollbackArgs, session: &Session) -> anyhow::Result<Exit> {
    session.block_on(async {
        let connection = connect_within(session, args.run.timeout()).await?;
        say_target(&connection, session);
        let Connection { cluster, namespace, context, .. } = connection;
        let request = ReleaseRequest {
            name: args.name.as_str().into(),
            namespace: namespace.into(),
            content: ReleaseContent::Revision(args.revision),
            options: PlanOptions {
                policy: args.planning.policy.check(context)?,
                description: args.description.clone(),
                ..args.planning.options()?
            },
        };
        if args.dry_run.is_set() {
            return dry_run(&cluster, &request, &args.diff, session).await;
        }
        let options = ExecuteOptions { cleanup_on_fail: args.cleanup_on_fail, ..args.run.options() };
        let mut run = args.run.clone();
        run.save_graph_to = run.save_graph_to.or_else(|| args.save_rollback_graph_to.clone());
        carry_out(&cluster, &request, &options, First::of(args.rehearse), &run, session).await
    })
}
