//! `slipway plan`: what applying would change, without writing anything.

use std::path::PathBuf;

use anyhow::Context;
use slipway_release::{plan as engine, saved};

use super::flags::{DiffFlags, SourceArgs};
use super::{connect, fail, show_plan};
use crate::exit::Exit;
use crate::session::Session;
use crate::term::show;
use crate::term::style::{DIM, paint};

/// Show what applying would change; writes nothing
#[derive(Debug, clap::Args)]
pub struct PlanArgs {
    #[command(flatten)]
    source: SourceArgs,

    #[command(flatten)]
    diff: DiffFlags,

    /// Exit with 2 if objects change, 3 if only a revision is made
    #[arg(long, alias = "detailed-exitcode")]
    exit_code: bool,

    /// Save the plan, for `apply --plan`; encrypted if there is a secret key
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,

    /// Print the graph of operations: dot or mermaid
    #[arg(long, value_name = "FORM")]
    graph: Option<GraphForm>,

    /// Say which dependencies were found in the objects
    #[arg(long)]
    explain: bool,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum GraphForm {
    Dot,
    Mermaid,
}

pub fn plan(args: &PlanArgs, session: &Session) -> anyhow::Result<Exit> {
    session.block_on(async {
        let (cluster, namespace) = connect(session).await?;
        let (request, _fetched) = args.source.request(&namespace, session)?;
        let plan = engine::plan(&cluster, &request, &session.events()).await.map_err(fail)?;
        if let Some(path) = &args.out {
            let key = args.source.secrets.key.text();
            let key = key.as_deref().map(str::trim);
            let bytes = saved::save(&plan, key, session.redactor()).map_err(fail)?;
            crate::files::replace_private(path, &bytes)
                .with_context(|| format!("write {}", path.display()))?;
            if key.is_none() && !session.is_quiet() {
                anstream::eprintln!(
                    "{} holds the values and objects of the release in clear; --secret-key encrypts it",
                    path.display()
                );
            }
        }
        match args.graph {
            Some(GraphForm::Dot) => show::print(&plan.to_dot())?,
            Some(GraphForm::Mermaid) => show::print(&plan.to_mermaid())?,
            None => show_plan(&plan, &args.diff, session)?,
        }
        if args.explain {
            for (who, whom, field) in &plan.references {
                anstream::eprintln!("{who} waits for {whom} {}", paint(DIM, format!("({field})")));
            }
        }
        Ok(match plan.exit_code() {
            2 if args.exit_code => Exit::Changes,
            3 if args.exit_code => Exit::Revision,
            _ => Exit::Done,
        })
    })
}
