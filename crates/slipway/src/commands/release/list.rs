//! `slipway list`: the releases of a namespace, or of all.

use slipway_cluster::helm::Scope;
use slipway_release::inspect;

use super::flags::StorageFlag;
use super::text::rows_text;
use super::{connect, fail};
use crate::exit::Exit;
use crate::session::Session;
use crate::term::show;

/// List releases
#[derive(Debug, clap::Args)]
pub struct ListArgs {
    /// In all namespaces
    #[arg(short = 'A', long)]
    all_namespaces: bool,

    /// Only names
    #[arg(long)]
    short: bool,

    #[command(flatten)]
    storage: StorageFlag,
}

pub fn list(args: &ListArgs, session: &Session) -> anyhow::Result<Exit> {
    session.block_on(async {
        let (cluster, namespace) = connect(session).await?;
        let scope = if args.all_namespaces { Scope::Everywhere } else { Scope::Namespace };
        let rows = inspect::list(&cluster, args.storage.driver(), &namespace, scope).await.map_err(fail)?;
        if args.short {
            let names: String = rows.iter().map(|row| format!("{}\n", row.name)).collect();
            show::print(&names)?;
        } else {
            show::show(session.output(), &rows, |rows| rows_text(rows, true))?;
        }
        Ok(Exit::Done)
    })
}
