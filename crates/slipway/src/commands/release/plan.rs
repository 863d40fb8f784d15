//! `slipway plan`: what applying would change, without writing anything.

use std::path::PathBuf;

use anyhow::Context;
use slipway_cluster::Deadline;
use slipway_cluster::connect::Connection;
use slipway_problem::Problem;
use slipway_release::RunTimeout;
use slipway_release::saved::{self, DriftPolicy, SavedPlan};
use slipway_secrets::Purpose;

use super::apply::load;
use super::flags::{DiffFlags, SourceArgs, timeout};
use super::{connect_within, fail, plan_exit, save_graph, show_plan};
use crate::commands::secrets::resolution::{ReferenceMode, ReferenceResolver};
use crate::exit::Exit;
use crate::help::Usual;
use crate::session::Session;
use crate::term::show;
use crate::term::style::{DIM, paint};

/// Show what applying would change; writes nothing
#[derive(Debug, clap::Args)]
pub struct PlanArgs {
    /// Exit with 2 if objects change, 3 if only a revision is made
    #[arg(long, alias = "detailed-exitcode", add = Usual)]
    exit_code: bool,

    /// Save the plan, for `apply --plan`; encrypted if there is a secret key
    #[arg(long, value_name = "FILE", alias = "save-plan", add = Usual)]
    out: Option<PathBuf>,

    /// Show a saved plan, and what moved since it was made
    #[arg(id = "saved", long = "show", value_name = "FILE", conflicts_with = "out")]
    show: Option<PathBuf>,

    /// Fetch the secrets that values refer to, instead of naming them
    #[arg(long)]
    check_secrets: bool,

    /// Print the graph of operations: dot or mermaid
    #[arg(long, value_name = "FORM")]
    graph: Option<GraphForm>,

    /// Write the graph of operations to a file, as Graphviz reads it
    #[arg(long, value_name = "FILE")]
    save_graph_to: Option<PathBuf>,

    /// Time limit for planning, from its first request on: `5m`, `1h30m`
    #[arg(long, value_name = "TIME", value_parser = timeout, add = Usual)]
    timeout: Option<RunTimeout>,

    /// Say which dependencies were found in the objects
    #[arg(long, add = Usual)]
    explain: bool,

    #[command(flatten)]
    source: SourceArgs,

    #[command(flatten)]
    diff: DiffFlags,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum GraphForm {
    Dot,
    Mermaid,
}

pub fn plan(args: &PlanArgs, session: &Session) -> anyhow::Result<Exit> {
    if args.show.is_none() {
        args.source.check_words("plan")?;
    }
    session.block_on_reading(async {
        let limit = args.timeout.as_ref().filter(|limit| !limit.duration().is_zero());
        let Connection { cluster, namespace, context, .. } = connect_within(session, limit).await?;
        let cluster = match limit {
            Some(limit) => cluster.with_deadline(Deadline::after(limit.duration())),
            None => cluster,
        };
        let mode = match args.check_secrets {
            true => ReferenceMode::Fetch(Purpose::PlanCheck),
            false => ReferenceMode::Show,
        };
        let references = ReferenceResolver::new(&args.source.references, mode, "plan", session);
        let shown = args.show.as_deref().map(|path| load(path, &args.source, session)).transpose()?;
        let mut request = match &shown {
            Some(saved) => {
                tell_age(saved, session);
                saved.request.clone()
            }
            None => args.source.request(&cluster, &namespace, &references, session).await?,
        };
        if args.out.is_some() && references.has_references() {
            let problem = Problem::error(
                "a plan with references to secrets cannot be saved: it would hold their values",
            );
            return Err(problem.hint("apply without a saved plan; the values are fetched then").into());
        }
        request.options.policy = args.source.policy_check(context)?;
        let plan = slipway_release::plan(&cluster, &request, &session.events()).await;
        let plan = plan.map_err(|failure| fail(failure.with_timeout(limit, "it was planned")))?;
        if let Some(path) = &args.out {
            let key = args.source.secrets.key.text();
            let key = key.as_deref().map(str::trim);
            let identity = saved::cluster_identity(&cluster).await;
            let bytes = saved::save_plan(&plan, &identity, key, session.redactor()).map_err(fail)?;
            crate::files::replace_private(path, &bytes)
                .with_context(|| format!("write {}", path.display()))?;
            if key.is_none() && !session.is_quiet() {
                say!(
                    "{} holds the values and objects of the release in clear; --secret-key encrypts it",
                    path.display()
                );
            }
        }
        if let Some(path) = &args.save_graph_to {
            save_graph(path, &plan.to_dot())?;
        }
        match args.graph {
            Some(GraphForm::Dot) => show::print(&plan.to_dot())?,
            Some(GraphForm::Mermaid) => show::print(&plan.to_mermaid())?,
            None => show_plan(&plan, &args.diff, session)?,
        }
        if !args.check_secrets && references.has_references() && !session.is_quiet() {
            say!("secrets are named, not fetched: --check-secrets compares their values");
        }
        references.finish();
        if args.explain {
            for reference in &plan.references {
                let field = paint(DIM, format!("({})", reference.field));
                say!("{} waits for {} {field}", reference.dependent, reference.dependency);
            }
        }
        if let Some(saved) = &shown {
            saved.check_cluster(&saved::cluster_identity(&cluster).await).map_err(fail)?;
            saved.check_plan(&plan, DriftPolicy::Refuse).map_err(fail)?;
        }
        let exit = match plan.exit_code() {
            2 if args.exit_code => Exit::Changes,
            3 if args.exit_code => Exit::Revision,
            _ => Exit::Done,
        };
        Ok(plan_exit(&plan, exit))
    })
}

/// Says what a saved plan is for and since when.
fn tell_age(saved: &SavedPlan, session: &Session) {
    if !session.is_quiet() {
        let minutes = jiff::Timestamp::now().duration_since(saved.created).as_mins();
        let (request, revision) = (&saved.request, saved.revision);
        say!(
            "plan of {} for revision {revision} of release {} in {} ({minutes} minutes old)",
            saved.created.strftime("%Y-%m-%d %H:%M:%S UTC"),
            request.name,
            request.namespace,
        );
    }
}
