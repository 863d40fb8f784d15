//! `slipway secrets policy check`: evaluates policy and trust over the references of files. Asks no backend.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Serialize;
use slipway_secrets::{
    Automation, NodeContext, PolicyTarget, Purpose, SecretReference, SecretsError, discover_references,
};

use super::flags::ReferenceFlags;
use crate::config;
use crate::exit::Exit;
use crate::session::Session;
use crate::term::show;

#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Check every reference in YAML files against policy and trust
    Check(CheckArgs),
}

#[derive(Debug, clap::Args)]
pub struct CheckArgs {
    /// Directory of a repository, chart or stack
    #[arg(long, value_name = "DIR", default_value = ".")]
    scope: PathBuf,

    /// Cluster the values are for
    #[arg(long, value_name = "NAME")]
    cluster: Option<String>,

    /// Profile the values are for
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,

    /// Judge as a build service would be judged
    #[arg(long)]
    ci: bool,

    #[command(flatten)]
    flags: ReferenceFlags,
}

/// References that policy and trust allow.
#[derive(Serialize, JsonSchema)]
pub struct AllowedReferences {
    allowed: Vec<String>,
}

pub fn check(args: &CheckArgs, session: &Session) -> anyhow::Result<Exit> {
    let (found, problems) = discover_references(&args.scope);
    if problems.has_errors() {
        return Err(SecretsError::Invalid(problems.into()).into());
    }
    let references: std::collections::BTreeSet<SecretReference> =
        found.into_iter().map(|found| found.reference).collect();
    let automation = if args.ci || config::is_ci() { Automation::Ci } else { Automation::Interactive };
    let target = PolicyTarget {
        cluster: args.cluster.clone(),
        namespace: session.settings.namespace.value.clone(),
        profile: args.profile.clone(),
        automation,
    };
    let resolver = args.flags.resolver(&args.scope, Purpose::PlanCheck, session)?;
    resolver.for_node(NodeContext { node: None, target }).check(&references)?;
    if !session.is_quiet() {
        match references.len() {
            1 => say!("policy: 1 reference is allowed"),
            count => say!("policy: {count} references are allowed"),
        }
    }
    let allowed = references.iter().map(ToString::to_string).collect();
    show::show(session.output(), &AllowedReferences { allowed }, |_| String::new())?;
    Ok(Exit::Done)
}
