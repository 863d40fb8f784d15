//! `slipway unit push` and `slipway unit pull`: units in OCI registries.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Serialize;
use slipway_chart::net::OciReference;
use slipway_chart::repo::RepositoryEntry;
use slipway_unit::{pull_unit, push_unit};

use super::fail;
use super::flags::{TrustFlags, UnitFlags};
use crate::commands::flags::AccessFlags;
use crate::exit::Exit;
use crate::session::Session;
use crate::term::show;

/// Put a unit into an OCI registry
#[derive(Debug, clap::Args)]
pub struct PushArgs {
    #[command(flatten)]
    unit: UnitFlags,

    /// Where to put it: oci://HOST/PATH:TAG
    reference: String,

    #[command(flatten)]
    access: AccessFlags,
}

pub fn push(args: &PushArgs, session: &Session) -> anyhow::Result<Exit> {
    let unit = args.unit.open()?;
    let reference = OciReference::parse(&args.reference)?;
    let remote = args.access.remote();
    let client = remote.client_for(&RepositoryEntry::default())?;
    let credentials = remote.credentials_for(&reference.host)?;
    let pushed = session
        .block_on(async { push_unit(&unit, &client, &credentials, &reference).await.map_err(fail) })?;
    show::show(session.output(), &pushed, |pushed| format!("{}@{}\n", pushed.reference, pushed.digest))?;
    Ok(Exit::Done)
}

/// Get a unit from an OCI registry
#[derive(Debug, clap::Args)]
pub struct PullArgs {
    /// The unit: `oci://HOST/PATH[:TAG][@DIGEST]`
    reference: String,

    /// File to write the unit to
    #[arg(short = 'O', long = "to-file", value_name = "FILE")]
    file: PathBuf,

    #[command(flatten)]
    trust: TrustFlags,

    #[command(flatten)]
    access: AccessFlags,
}

/// A unit that was fetched.
#[derive(Serialize, JsonSchema)]
pub struct PulledUnit {
    file: PathBuf,
    digest: String,
}

pub fn pull(args: &PullArgs, session: &Session) -> anyhow::Result<Exit> {
    let reference = OciReference::parse(&args.reference)?;
    let remote = args.access.remote();
    let client = remote.client_for(&RepositoryEntry::default())?;
    let credentials = remote.credentials_for(&reference.host)?;
    let options = args.trust.options()?;
    let unit = session.block_on(async {
        pull_unit(&client, &credentials, &reference, &args.file, &options).await.map_err(fail)
    })?;
    let pulled = PulledUnit { file: args.file.clone(), digest: unit.digest().to_owned() };
    show::show(session.output(), &pulled, |pulled| format!("{}\n", pulled.digest))?;
    Ok(Exit::Done)
}
