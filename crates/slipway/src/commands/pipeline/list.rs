//! `slipway pipeline list`: pipelines and the version in each environment.

use jiff::Timestamp;
use slipway_promotion::view::{PipelineOverview, age_text, list_overviews};

use crate::commands::promotion::{connect, explain};
use crate::exit::Exit;
use crate::session::Session;
use crate::term::show;
use crate::term::table::Table;

#[derive(Debug, clap::Args)]
pub struct ListArgs {
    /// In all namespaces
    #[arg(short = 'A', long)]
    all_namespaces: bool,
}

pub fn run(args: &ListArgs, session: &Session) -> anyhow::Result<Exit> {
    session.block_on_reading(async {
        let place = connect(session).await?;
        let namespace = (!args.all_namespaces).then_some(place.namespace.as_str());
        let rows = list_overviews(&place.cluster, namespace).await.map_err(explain)?;
        let now = Timestamp::now();
        show::show(session.output(), &rows, |rows| table(rows, args.all_namespaces, now))?;
        Ok(Exit::Done)
    })
}

fn table(rows: &[PipelineOverview], with_namespace: bool, now: Timestamp) -> String {
    if rows.is_empty() {
        return "there are no pipelines; `slipway pipeline init` makes one\n".to_owned();
    }
    let mut environments: Vec<&str> = Vec::new();
    for name in rows.iter().flat_map(|row| &row.environments).map(|one| one.name.as_str()) {
        if !environments.contains(&name) {
            environments.push(name);
        }
    }
    let mut heads = if with_namespace { vec!["namespace"] } else { Vec::new() };
    heads.extend(["pipeline", "bundle"]);
    heads.extend(&environments);
    heads.extend(["phase", "age"]);
    let mut table = Table::new(&heads);
    let mut problems = String::new();
    for row in rows {
        let paused = if row.paused { " [PAUSED]" } else { "" };
        let mut cells = if with_namespace { vec![row.namespace.clone()] } else { Vec::new() };
        cells.push(format!("{}{paused}", row.name));
        cells.push(row.active_bundle.clone().unwrap_or_else(|| "-".to_owned()));
        cells.extend(environments.iter().map(|name| {
            let found = row.environments.iter().find(|one| one.name == *name);
            found.map_or_else(String::new, slipway_promotion::view::EnvironmentOverview::cell)
        }));
        cells.push(row.phase.map_or_else(|| "-".to_owned(), |phase| format!("{phase:?}")));
        cells.push(age_text(row.created_at, now));
        table.row(cells);
        if let Some(problem) = &row.problem {
            problems.push_str(&format!("{}/{}: {problem}\n", row.namespace, row.name));
        }
    }
    format!("{}{problems}", table.render())
}
