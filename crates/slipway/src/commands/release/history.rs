//! `slipway history`: the revisions of a release.

use slipway_cluster::connect::Connection;
use slipway_release::inspect;

use super::flags::StorageFlag;
use super::text::{moment, rows_text};
use super::{connect, fail};
use crate::exit::Exit;
use crate::session::Session;
use crate::term::show;

/// Show the revisions of a release
#[derive(Debug, clap::Args)]
pub struct HistoryArgs {
    /// The release's name
    name: String,

    /// How many at most
    #[arg(long, default_value_t = 256)]
    max: usize,

    #[command(flatten)]
    storage: StorageFlag,
}

pub fn history(args: &HistoryArgs, session: &Session) -> anyhow::Result<Exit> {
    session.block_on(async {
        let Connection { cluster, namespace, .. } = connect(session).await?;
        let mut rows = inspect::read_history(&cluster, args.storage.driver(), &namespace, &args.name)
            .await
            .map_err(fail)?;
        let surplus = rows.len().saturating_sub(args.max);
        rows.drain(..surplus);
        show::show(session.output(), &rows, |rows| rows_text(rows, false, moment))?;
        Ok(Exit::Done)
    })
}
