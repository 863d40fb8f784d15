//! `slipway apply`: takes a release to the cluster.

use std::path::{Path, PathBuf};
use std::time::Duration;

use slipway_cluster::Cluster;
use slipway_cluster::connect::Connection;
use slipway_problem::{Location, Problem, Problems};
use slipway_release::saved::{self, DriftPolicy, SavedPlan};
use slipway_release::{ExecuteOptions, Failure, MissingNamespace, ReleaseRequest};
use slipway_secrets::Purpose;

use super::flags::{DiffFlags, DryRunFlag, RunFlags, SourceArgs, time};
use super::{
    BoundPlan, First, carry_out, carry_out_bound, connect_within, dry_run, fail, plan_exit, say_target,
    show_plan,
};
use crate::commands::secrets::resolution::{ReferenceMode, ReferenceResolver};
use crate::config::Origin;
use crate::exit::Exit;
use crate::files;
use crate::help::Usual;
use crate::interrupt::Interrupt;
use crate::session::Session;

/// Take a release to the cluster: install it, or bring it up to date
#[derive(Debug, clap::Args)]
pub struct ApplyArgs {
    #[command(flatten)]
    source: SourceArgs,

    /// Carry out a saved plan instead of planning anew
    #[arg(
        id = "saved",
        long = "plan",
        value_name = "FILE",
        alias = "use-plan",
        help_heading = "Saved plans",
        add = Usual
    )]
    plan: Option<PathBuf>,

    /// How old a saved plan may be
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "2h", help_heading = "Saved plans")]
    plan_lifetime: Duration,

    /// Carry a saved plan out although somebody changed objects since
    #[arg(long, help_heading = "Saved plans", add = Usual)]
    allow_drift: bool,

    #[command(flatten)]
    run: RunFlags,

    /// Roll back to the last good revision when it fails; delete a first install again
    #[arg(long, alias = "atomic", alias = "rollback-on-failure", add = Usual)]
    auto_rollback: bool,

    /// Delete the objects it created when it fails; hooks and objects that are to be kept stay
    #[arg(long)]
    cleanup_on_fail: bool,

    /// Write the graph of the rollback to a file, as Graphviz reads it, when --auto-rollback has made one
    #[arg(long, value_name = "FILE", requires = "auto_rollback")]
    save_rollback_graph_to: Option<PathBuf>,

    /// Do not create the namespace
    #[arg(long)]
    no_create_namespace: bool,

    /// The namespace is created anyway; accepted for hands used to Helm
    #[arg(long, hide = true)]
    create_namespace: bool,

    /// This command installs as well; accepted for hands used to Helm
    #[arg(short, long, hide = true)]
    install: bool,

    /// The name of a deleted release can be used again anyway; accepted for hands used to Helm
    #[arg(long, hide = true)]
    replace: bool,

    /// Values of Secrets are hidden anyway; accepted for hands used to Helm
    #[arg(long, hide = true)]
    hide_secret: bool,

    /// The server checks every object anyway; accepted for hands used to Helm
    #[arg(long, hide = true)]
    disable_openapi_validation: bool,

    /// Carry it out on a copy of what it touches first; the cluster is written only if that goes well
    #[arg(long, add = Usual)]
    rehearse: bool,

    #[command(flatten)]
    dry_run: DryRunFlag,

    /// Text for the revision's entry in the history
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,

    #[command(flatten)]
    diff: DiffFlags,
}

impl ApplyArgs {
    fn missing_namespace(&self) -> MissingNamespace {
        if self.no_create_namespace { MissingNamespace::Refuse } else { MissingNamespace::Create }
    }

    fn execute_options(&self) -> ExecuteOptions {
        ExecuteOptions {
            auto_rollback: self.auto_rollback,
            cleanup_on_fail: self.cleanup_on_fail,
            ..self.run.options()
        }
    }

    fn run_flags(&self) -> RunFlags {
        let mut flags = self.run.clone();
        flags.save_rollback_graph_to.clone_from(&self.save_rollback_graph_to);
        flags
    }
}

pub fn apply(args: &ApplyArgs, session: &Session) -> anyhow::Result<Exit> {
    if args.plan.is_none() {
        args.source.check_words("apply")?;
    }
    session.block_on(async {
        let connection = connect_within(session, args.run.timeout()).await?;
        say_target(&connection, session);
        let Connection { cluster, namespace, context, .. } = connection;
        if let Some(path) = &args.plan {
            return apply_saved(&cluster, context, path, args, session).await;
        }
        let mode =
            if args.dry_run.is_set() { ReferenceMode::Show } else { ReferenceMode::Fetch(Purpose::Apply) };
        let references = ReferenceResolver::new(&args.source.references, mode, "apply", session);
        let mut request = args.source.request(&cluster, &namespace, &references, session).await?;
        request.options.description.clone_from(&args.description);
        request.options.missing_namespace = args.missing_namespace();
        request.options.policy = args.source.policy_check(context)?;
        if args.dry_run.is_set() {
            return dry_run(&cluster, &request, &args.diff, session).await;
        }
        let (options, first, run) = (args.execute_options(), First::of(args.rehearse), args.run_flags());
        let ended = carry_out(&cluster, &request, &options, first, &run, session).await;
        references.finish();
        ended
    })
}

/// Reads a saved plan, if it is of the release and the namespace the user names.
pub fn load(path: &Path, source: &SourceArgs, session: &Session) -> anyhow::Result<SavedPlan> {
    let bytes = files::read(path)?;
    let key = source.secrets.key.text();
    let saved = saved::load_plan(&bytes, key.as_deref().map(str::trim));
    let saved = saved.map_err(|failure| match failure {
        Failure::Problems(problems) => Problems::from_iter(problems.into_iter().map(|problem| Problem {
            hint: problem.hint.or(Some("`slipway plan NAME SOURCE --out FILE` makes one".to_owned())),
            at: problem.at.or(Some(Location::file(path.display().to_string()))),
            ..problem
        }))
        .into(),
        failure => fail(failure),
    })?;
    let ReleaseRequest { name, namespace, .. } = &saved.request;
    let asked = &session.settings.namespace;
    let elsewhere = asked.origin == Origin::Flag
        && asked.value.as_ref().is_some_and(|asked| *namespace != asked.as_str());
    let problem = if source.name().is_some_and(|asked| *name != asked) {
        format!("the plan is for release `{name}`")
    } else if elsewhere {
        format!("the plan is for namespace `{namespace}`")
    } else {
        return Ok(saved);
    };
    let problem = Problem::error(format!("{}: {problem}", path.display()));
    Err(problem.hint("leave the name and the namespace out: the plan knows both").into())
}

/// Carries a saved plan out, or says what moved since it was made.
async fn apply_saved(
    cluster: &Cluster,
    context: Option<String>,
    path: &Path,
    args: &ApplyArgs,
    session: &Session,
) -> anyhow::Result<Exit> {
    let mut saved = load(path, &args.source, session)?;
    saved.request.options.missing_namespace = args.missing_namespace();
    saved.request.options.policy = args.source.policy_check(context)?;
    let drift = if args.allow_drift { DriftPolicy::Allow } else { DriftPolicy::Refuse };
    saved.check_age(jiff::Timestamp::now(), args.plan_lifetime).map_err(fail)?;
    saved.check_cluster(&saved::cluster_identity(cluster).await).map_err(fail)?;
    if args.dry_run.is_set() {
        let plan = slipway_release::plan(cluster, &saved.request, &session.events()).await.map_err(fail)?;
        saved.check_plan(&plan, drift).map_err(fail)?;
        show_plan(&plan, &args.diff, session)?;
        return Ok(plan_exit(&plan, Exit::Done));
    }
    let (options, run) = (args.execute_options(), args.run_flags());
    let interrupt = Interrupt::listen()?;
    let first = First::of(args.rehearse);
    let bound = Some(BoundPlan { saved: &saved, drift });
    carry_out_bound(cluster, &saved.request, &options, first, bound, &run, session, interrupt).await
}
