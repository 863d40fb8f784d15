//! `slipway delete`: deletes releases and everything that belongs to them.

use slipway_cluster::connect::Connection;
use slipway_release::plan::read_situation;
use slipway_release::{ExecuteOptions, PlanOptions, ReleaseContent, ReleaseRequest, inspect};

use super::flags::{DiffFlags, DryRunFlag, PlanningFlags, RunFlags};
use super::{First, carry_out, connect_within, dry_run, fail, say_target};
use crate::exit::Exit;
use crate::help::Usual;
use crate::session::Session;

/// Delete a release and everything that belongs to it
#[derive(Debug, clap::Args)]
pub struct DeleteArgs {
    /// The releases' names
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,

    /// Delete the namespace as well
    #[arg(long)]
    delete_namespace: bool,

    /// Keep the revisions
    #[arg(long)]
    keep_history: bool,

    /// Text for the entry in the history, which --keep-history leaves
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,

    /// What is not there is no mistake anyway; accepted for hands used to Helm
    #[arg(long, hide = true)]
    ignore_not_found: bool,

    /// Carry it out on a copy of what it touches first; the cluster is written only if that goes well
    #[arg(long, add = Usual)]
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

pub fn delete(args: &DeleteArgs, session: &Session) -> anyhow::Result<Exit> {
    session.block_on(async {
        let connection = connect_within(session, args.run.timeout()).await?;
        say_target(&connection, session);
        let Connection { cluster, namespace, context, .. } = connection;
        let policy = args.planning.policy.check(context)?;
        let mut exit = Exit::Done;
        for name in &args.names {
            let request = ReleaseRequest {
                name: name.as_str().into(),
                namespace: namespace.as_str().into(),
                content: ReleaseContent::Nothing,
                options: PlanOptions {
                    keep_history: args.keep_history,
                    description: args.description.clone(),
                    policy: policy.clone(),
                    ..args.planning.options()?
                },
            };
            let options = ExecuteOptions { delete_namespace: args.delete_namespace, ..args.run.options() };
            let known =
                read_situation(&cluster, name, &namespace, request.options.driver).await.map_err(fail)?;
            if known.history.releases.is_empty() {
                let missing = inspect::not_found(&cluster, request.options.driver, &namespace, name).await;
                say!("{missing}: nothing to delete");
                continue;
            }
            exit = if args.dry_run.is_set() {
                dry_run(&cluster, &request, &args.diff, session).await?
            } else {
                carry_out(&cluster, &request, &options, First::of(args.rehearse), &args.run, session).await?
            };
            if exit != Exit::Done {
                break;
            }
        }
        Ok(exit)
    })
}
