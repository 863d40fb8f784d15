//! `slipway apply`: takes a release to the cluster.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use slipway_cluster::Cluster;
use slipway_problem::{Location, Problem};
use slipway_release::{apply as engine, saved};

use super::flags::{DiffFlags, RunFlags, SourceArgs, time};
use super::{First, carry_out, carry_out_checked, connect, dry_run, fail};
use crate::exit::Exit;
use crate::interrupt::Interrupt;
use crate::session::Session;

/// Take a release to the cluster: install it, or bring it up to date
#[derive(Debug, clap::Args)]
pub struct ApplyArgs {
    #[command(flatten)]
    source: SourceArgs,

    /// Carry out a saved plan of this release instead of planning anew
    #[arg(long, value_name = "FILE")]
    plan: Option<PathBuf>,

    /// How old a saved plan may be
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "2h")]
    plan_lifetime: Duration,

    /// Carry a saved plan out although somebody changed objects since
    #[arg(long)]
    allow_drift: bool,

    #[command(flatten)]
    run: RunFlags,

    /// Roll back to the last good revision when it fails
    #[arg(long, alias = "atomic", alias = "rollback-on-failure")]
    auto_rollback: bool,

    /// Do not create the namespace
    #[arg(long)]
    no_create_namespace: bool,

    /// The namespace is created anyway; accepted for hands used to Helm
    #[arg(long, hide = true)]
    create_namespace: bool,

    /// This command installs as well; accepted for hands used to Helm
    #[arg(short, long, hide = true)]
    install: bool,

    /// Carry it out on a copy of what it touches first; the cluster is written only if that goes well
    #[arg(long)]
    rehearse: bool,

    /// Only show the plan
    #[arg(long)]
    dry_run: bool,

    /// Text for the revision's entry in the history
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,

    #[command(flatten)]
    diff: DiffFlags,
}

pub fn apply(args: &ApplyArgs, session: &Session) -> anyhow::Result<Exit> {
    session.block_on(async {
        let (cluster, namespace) = connect(session).await?;
        if let Some(path) = &args.plan {
            return apply_saved(&cluster, path, args, session).await;
        }
        let (mut request, _fetched) = args.source.request(&namespace, session)?;
        request.options.description.clone_from(&args.description);
        if args.dry_run {
            return dry_run(&cluster, &request, &args.diff, session).await;
        }
        let options = engine::Options {
            auto_rollback: args.auto_rollback,
            create_namespace: !args.no_create_namespace,
            ..args.run.options()
        };
        carry_out(&cluster, &request, &options, First::of(args.rehearse), &args.run, session).await
    })
}

/// Carries a saved plan out, or says what moved since it was made.
async fn apply_saved(
    cluster: &Cluster,
    path: &Path,
    args: &ApplyArgs,
    session: &Session,
) -> anyhow::Result<Exit> {
    let bytes = std::fs::read(path).with_context(|| format!("read {}", path.display()))?;
    let key = args.source.secrets.key.text();
    let saved = saved::load(&bytes, key.as_deref().map(str::trim)).map_err(fail)?;
    let age = jiff::Timestamp::now().duration_since(saved.created).unsigned_abs();
    let problem = if saved.request.name != args.source.name {
        Some(format!("the plan is for release `{}`", saved.request.name))
    } else if age > args.plan_lifetime {
        Some(format!("the plan is {} minutes old", age.as_secs() / 60))
    } else {
        None
    };
    if let Some(problem) = problem {
        return Err(Problem::error(problem).at(Location::file(path.display().to_string())).into());
    }
    let options = engine::Options {
        auto_rollback: args.auto_rollback,
        create_namespace: !args.no_create_namespace,
        ..args.run.options()
    };
    let interrupt = Interrupt::listen()?;
    let check = |plan: &slipway_release::Plan| saved.check(plan, args.allow_drift);
    let first = First::of(args.rehearse);
    carry_out_checked(cluster, &saved.request, &options, first, &args.run, session, &interrupt, check).await
}
