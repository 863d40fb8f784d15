//! `slipway status`: how a release stands.

use std::fmt::Write;

use serde::Serialize;
use slipway_release::inspect;

use super::flags::StorageFlag;
use super::text::moment;
use super::{connect, fail};
use crate::exit::Exit;
use crate::session::Session;
use crate::term::show;

/// Show how a release stands
#[derive(Debug, clap::Args)]
pub struct StatusArgs {
    /// The release's name
    name: String,

    /// The revision; the last unless given
    #[arg(long)]
    revision: Option<u32>,

    #[command(flatten)]
    storage: StorageFlag,
}

/// How a release stands, as data.
#[derive(Serialize)]
struct StatusView {
    name: String,
    namespace: String,
    revision: u32,
    status: String,
    updated: String,
    description: String,
    chart: String,
    notes: String,
}

pub fn status(args: &StatusArgs, session: &Session) -> anyhow::Result<Exit> {
    session.block_on(async {
        let (cluster, namespace) = connect(session).await?;
        let found = inspect::read_revision(&cluster, args.storage.driver(), &namespace, &args.name, args.revision).await;
        let release = found.map_err(fail)?;
        let view = StatusView {
            name: release.name.clone(),
            namespace,
            revision: release.version,
            status: release.info.status.to_string(),
            updated: release.info.last_deployed.to_string(),
            description: release.info.description.clone(),
            chart: format!("{}-{}", release.chart.name(), release.chart.version()),
            notes: release.info.notes.clone(),
        };
        show::show(session.output(), &view, |view| {
            let mut text = format!(
                "NAME: {}\nLAST DEPLOYED: {}\nNAMESPACE: {}\nSTATUS: {}\nREVISION: {}\nCHART: {}\nDESCRIPTION: {}\n",
                view.name, moment(&view.updated), view.namespace, view.status, view.revision, view.chart, view.description
            );
            if !view.notes.is_empty() {
                let _ = writeln!(text, "NOTES:\n{}", view.notes);
            }
            text
        })?;
        Ok(Exit::Done)
    })
}
