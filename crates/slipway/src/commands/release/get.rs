//! `slipway get`: what a revision holds.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};
use slipway_cluster::connect::Connection;
use slipway_cluster::helm::{HelmTime, Hook, Release, RevisionStatus};
use slipway_problem::Problem;
use slipway_release::inspect;

use super::flags::StorageFlag;
use super::template::render_release;
use super::{connect, fail};
use crate::cli::Output;
use crate::exit::{Exit, UsageError};
use crate::session::Session;
use crate::term::show;

/// Show what a revision holds
#[derive(Debug, clap::Args)]
pub struct GetArgs {
    /// What to show
    what: What,

    /// The release's name
    name: String,

    /// The revision; the last unless given
    #[arg(long)]
    revision: Option<u32>,

    /// All values, the chart's own too
    #[arg(short, long)]
    all: bool,

    /// Print this Go template over the revision instead, with `get all`: `{{ .Release.Info.Status }}`
    #[arg(long, value_name = "TEMPLATE")]
    template: Option<String>,

    #[command(flatten)]
    storage: StorageFlag,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum What {
    Values,
    Manifest,
    Notes,
    Hooks,
    /// Name, chart, versions, status, when it was deployed, labels
    Metadata,
    All,
}

/// The facts about a revision without its content.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReleaseMetadata<'a> {
    name: &'a str,
    namespace: &'a str,
    revision: u32,
    status: RevisionStatus,
    deployed_at: &'a HelmTime,
    chart: &'a str,
    version: &'a str,
    app_version: &'a str,
    /// `ssa` or `csa`; empty where the record does not say.
    apply_method: &'a str,
    labels: &'a BTreeMap<String, String>,
    annotations: &'a Map<String, Value>,
}

pub fn get(args: &GetArgs, session: &Session) -> anyhow::Result<Exit> {
    if args.template.is_some() && args.what != What::All {
        let problem = Problem::error("--template reads all of a revision");
        return Err(UsageError(problem.hint("write `slipway get all NAME --template …`").into()).into());
    }
    session.block_on(async {
        let Connection { cluster, namespace, .. } = connect(session).await?;
        let found =
            inspect::read_revision(&cluster, args.storage.driver(), &namespace, &args.name, args.revision)
                .await;
        let release = found.map_err(fail)?;
        let hooks = |release: &Release| -> String {
            let shown = |hook: &Hook| match hook.manifest.strip_prefix("# Source: ") {
                Some(_) => format!("---\n{}", hook.manifest),
                None => format!("---\n# Source: {}\n{}\n", hook.path, hook.manifest),
            };
            release.hooks.iter().map(shown).collect()
        };
        match args.what {
            What::Values => {
                let mut values = release.config.clone();
                if args.all {
                    let mut all = release.chart.values.clone();
                    overlay(&mut all, values);
                    values = all;
                }
                let output = if session.output() == Output::Json { Output::Json } else { Output::Yaml };
                show::reveal(output, &values, |_| String::new())?;
            }
            What::Manifest => show::data(inspect::without_secrets(&release.manifest))?,
            What::Notes => show::data(format!("{}\n", release.info.notes))?,
            What::Metadata => {
                let view = ReleaseMetadata {
                    name: &release.name,
                    namespace: &namespace,
                    revision: release.version,
                    status: release.info.status,
                    deployed_at: &release.info.last_deployed,
                    chart: release.chart.name(),
                    version: release.chart.version(),
                    app_version: release.chart.app_version(),
                    apply_method: &release.apply_method,
                    labels: &release.labels,
                    annotations: &release.info.annotations,
                };
                let output = if session.output() == Output::Json { Output::Json } else { Output::Yaml };
                show::reveal(output, &view, |_| String::new())?;
            }
            What::Hooks => show::data(inspect::without_secrets(&hooks(&release)))?,
            What::All => {
                let mut release = release;
                release.manifest = inspect::without_secrets(&release.manifest);
                for hook in &mut release.hooks {
                    hook.manifest = inspect::without_secrets(&hook.manifest);
                }
                if let Some(template) = &args.template {
                    show::data(render_release(template, &release)?)?;
                    return Ok(Exit::Done);
                }
                let output = if session.output() == Output::Json { Output::Json } else { Output::Yaml };
                show::reveal(output, &release, |_| String::new())?;
            }
        }
        Ok(Exit::Done)
    })
}

/// Lays one set of values over another.
fn overlay(base: &mut Map<String, Value>, over: Map<String, Value>) {
    for (key, value) in over {
        match (base.get_mut(&key), value) {
            (Some(Value::Object(base)), Value::Object(over)) => overlay(base, over),
            (_, value) => {
                base.insert(key, value);
            }
        }
    }
}
