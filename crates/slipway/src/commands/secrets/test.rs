//! `slipway secrets test`: fetches, and says how it went.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::bail;
use schemars::JsonSchema;
use serde::Serialize;
use slipway_problem::Problem;
use slipway_secrets::{Purpose, SecretReference, SecretsError, discover_references};

use super::flags::{ReferenceFlags, provider_name, with_resolver};
use crate::exit::{Exit, UsageError};
use crate::session::Session;
use crate::term::show;
use crate::term::table::Table;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// References to fetch (`secret://provider/path#key`)
    #[arg(value_name = "REFERENCE")]
    references: Vec<String>,

    /// The same as a REFERENCE
    #[arg(long = "ref", value_name = "REFERENCE")]
    named: Vec<String>,

    /// Path to fetch from --secret-provider
    #[arg(long, value_name = "PATH", requires = "secret_provider")]
    path: Option<String>,

    /// Key of --path
    #[arg(long, value_name = "KEY", requires = "path")]
    key: Option<String>,

    /// Fetch every reference in the YAML files of --scope
    #[arg(long)]
    all: bool,

    /// Directory of a repository, chart or stack
    #[arg(long, value_name = "DIR", default_value = ".")]
    scope: PathBuf,

    #[command(flatten)]
    flags: ReferenceFlags,
}

/// A reference that was fetched.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "FetchedReference")]
pub struct Row {
    reference: String,
    provider: String,
    version: Option<String>,
    latency_ms: u64,
}

pub fn run(args: &Args, session: &Session) -> anyhow::Result<Exit> {
    let references = args.references()?;
    let resolver = args.flags.resolver(&args.scope, Purpose::Test, session)?;
    let start = Instant::now();
    let rows = with_resolver(session, &resolver, async {
        let resolved = resolver.resolve(&references).await?;
        let latency_ms = start.elapsed().as_millis() as u64;
        let row = |reference: &SecretReference, secret: &slipway_secrets::ResolvedSecret| Row {
            reference: reference.to_string(),
            provider: format!("{} ({})", secret.origin.provider, secret.provider_type),
            version: secret.version.clone(),
            latency_ms,
        };
        Ok(resolved.iter().map(|(reference, secret)| row(reference, secret)).collect::<Vec<Row>>())
    })?;
    show::show(session.output(), &rows, |rows| {
        let mut table = Table::new(&["result", "reference", "provider", "version"]);
        for row in rows {
            let version = row.version.clone().unwrap_or_default();
            table.row(["ok".to_owned(), row.reference.clone(), row.provider.clone(), version]);
        }
        table.render()
    })?;
    Ok(Exit::Done)
}

impl Args {
    fn references(&self) -> anyhow::Result<BTreeSet<SecretReference>> {
        let mut problems = slipway_problem::Problems::new();
        let mut wanted = BTreeSet::new();
        for text in self.references.iter().chain(&self.named) {
            let parsed = text.parse::<SecretReference>().map_err(|error| error.problem());
            wanted.extend(problems.collect_from(parsed));
        }
        if let (Some(path), Some(provider)) = (&self.path, &self.flags.secret_provider) {
            let mut reference = SecretReference::new(Some(provider_name(provider)?), path.clone());
            reference.field = self.key.clone().map(slipway_secrets::FieldSelector::Key);
            wanted.insert(reference);
        }
        if self.all {
            let (found, wrong) = discover_references(&self.scope);
            wanted.extend(found.into_iter().map(|found| found.reference));
            problems.extend(wrong);
        }
        if problems.has_errors() {
            return Err(SecretsError::Invalid(problems.into()).into());
        }
        if wanted.is_empty() && !self.all {
            let problem = Problem::error("no reference is given");
            bail!(UsageError(
                problem.hint("name one, or test all of a directory with --all --scope DIR").into()
            ));
        }
        Ok(wanted)
    }
}
