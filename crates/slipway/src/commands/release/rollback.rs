//! `slipway rollback`: goes back to an earlier revision.

use slipway_cluster::connect::Connection;
use slipway_release::{PlanOptions, ReleaseContent, ReleaseRequest};

use super::flags::{DiffFlags, DryRunFlag, PlanningFlags, RunFlags};
use super::{First, carry_out, connect_within, dry_run, say_target};
use crate::exit::Exit;
use crate::session::Session;

/// Go back to an earlier revision
#[derive(Debug, clap::Args)]
pub struct RollbackArgs {
    /// The release's name
    name: String,

    /// The revision; the last good one before unless given
    revision: Option<u32>,

    /// Carry it out on a copy of what it touches first; the cluster is written only if that goes well
    #[arg(long)]
    rehearse: bool,

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
            options: PlanOptions { policy: args.planning.policy.check(context)?, ..args.planning.options()? },
        };
        if args.dry_run.is_set() {
            return dry_run(&cluster, &request, &args.diff, session).await;
        }
        carry_out(&cluster, &request, &args.run.options(), First::of(args.rehearse), &args.run, session).await
    })
}
