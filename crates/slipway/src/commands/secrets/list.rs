//! `slipway secrets list`: names, never values.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Serialize;
use slipway_secrets::{EntryKind, Purpose};

use super::flags::{ReferenceFlags, provider_name, with_resolver};
use crate::exit::Exit;
use crate::session::Session;
use crate::term::show;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The provider
    #[arg(long, value_name = "NAME")]
    provider: String,

    /// Where to look
    #[arg(long, value_name = "PATH", default_value = "", hide_default_value = true)]
    path: String,

    /// Directory whose repository's configuration is used
    #[arg(long, value_name = "DIR", default_value = ".")]
    scope: PathBuf,

    #[command(flatten)]
    flags: ReferenceFlags,
}

/// A secret or folder of a provider.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ProviderEntry")]
pub struct Row {
    name: String,
    folder: bool,
}

pub fn run(args: &Args, session: &Session) -> anyhow::Result<Exit> {
    let provider = provider_name(&args.provider)?;
    let resolver = args.flags.resolver(&args.scope, Purpose::Test, session)?;
    let entries = with_resolver(session, &resolver, resolver.list(&provider, &args.path))?;
    let row =
        |entry: slipway_secrets::ListEntry| Row { folder: entry.kind == EntryKind::Folder, name: entry.name };
    let rows: Vec<Row> = entries.into_iter().map(row).collect();
    show::show(session.output(), &rows, |rows| {
        rows.iter().map(|row| format!("{}{}\n", row.name, if row.folder { "/" } else { "" })).collect()
    })?;
    Ok(Exit::Done)
}
