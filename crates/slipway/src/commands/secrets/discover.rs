//! `slipway secrets discover`: where references stand. Asks no backend.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Serialize;
use slipway_secrets::{SecretReference, SecretsError, discover_references};

use super::flags::ReferenceFlags;
use crate::exit::Exit;
use crate::session::Session;
use crate::term::show;
use crate::term::table::Table;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Directory of a repository, chart or stack
    #[arg(long, value_name = "DIR", default_value = ".")]
    scope: PathBuf,

    #[command(flatten)]
    flags: ReferenceFlags,
}

/// A reference and the places it stands in.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "FoundReference")]
pub struct Row {
    provider: String,
    path: String,
    reference: String,
    places: Vec<String>,
}

pub fn run(args: &Args, session: &Session) -> anyhow::Result<Exit> {
    let config = args.flags.config(&args.scope, session)?;
    let (found, problems) = discover_references(&args.scope);
    if problems.has_errors() {
        return Err(SecretsError::Invalid(problems.into()).into());
    }
    let mut places: BTreeMap<SecretReference, Vec<String>> = BTreeMap::new();
    for found in found {
        places.entry(found.reference).or_default().push(found.place.to_string());
    }
    let row = |(reference, places): (SecretReference, Vec<String>)| Row {
        provider: config.provider_of(&reference).map(|name| name.to_string()).unwrap_or_default(),
        path: reference.path_and_field(),
        reference: reference.to_string(),
        places,
    };
    let rows: Vec<Row> = places.into_iter().map(row).collect();
    show::show(session.output(), &rows, |rows| {
        let mut table = Table::new(&["provider", "path", "count", "places"]);
        for row in rows {
            table.row([
                row.provider.clone(),
                row.path.clone(),
                row.places.len().to_string(),
                row.places.join(", "),
            ]);
        }
        table.render()
    })?;
    Ok(Exit::Done)
}
