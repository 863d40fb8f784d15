//! `slipway status`: how a release stands.

use std::fmt::Write;

use schemars::JsonSchema;
use serde::Serialize;
use slipway_cluster::connect::Connection;
use slipway_cluster::helm::RevisionStatus;
use slipway_release::{ObjectState, inspect, read_object_states};

use super::flags::StorageFlag;
use super::text::moment;
use super::{connect, fail};
use crate::exit::Exit;
use crate::session::Session;
use crate::term::show;
use crate::term::table::Table;

/// Show how a release stands
#[derive(Debug, clap::Args)]
pub struct StatusArgs {
    /// The release's name
    name: String,

    /// The revision; the last unless given
    #[arg(long)]
    revision: Option<u32>,

    /// Show the objects of the release and how each stands; shown anyway unless the release is deployed
    #[arg(long)]
    show_resources: bool,

    #[command(flatten)]
    storage: StorageFlag,
}

/// The standing of a release, as data.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ReleaseStatusView")]
pub struct StatusView {
    name: String,
    namespace: String,
    revision: u32,
    status: String,
    updated: String,
    description: String,
    chart: String,
    notes: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    objects: Option<Vec<ObjectState>>,
}

pub fn status(args: &StatusArgs, session: &Session) -> anyhow::Result<Exit> {
    session.block_on(async {
        let Connection { cluster, namespace, .. } = connect(session).await?;
        let found = inspect::read_revision(&cluster, args.storage.driver(), &namespace, &args.name, args.revision).await;
        let release = found.map_err(fail)?;
        let is_wanted = args.show_resources || is_unsettled(release.info.status);
        let objects = match is_wanted {
            true => Some(read_object_states(&cluster, &release).await.map_err(fail)?),
            false => None,
        };
        let view = StatusView {
            name: release.name.clone(),
            namespace,
            revision: release.version,
            status: release.info.status.to_string(),
            updated: release.info.last_deployed.to_string(),
            description: release.info.description.clone(),
            chart: format!("{}-{}", release.chart.name(), release.chart.version()),
            notes: release.info.notes.clone(),
            objects,
        };
        show::show(session.output(), &view, |view| {
            // The objects tell why they are not ready; what a failure said of that is not told twice.
            let (description, details) = match &view.objects {
                Some(objects) => without_pod_reasons(&view.description, objects),
                None => (view.description.as_str(), Vec::new()),
            };
            let mut text = format!(
                "NAME: {}\nLAST DEPLOYED: {}\nNAMESPACE: {}\nSTATUS: {}\nREVISION: {}\nCHART: {}\nDESCRIPTION: {description}\n",
                view.name, moment(&view.updated), view.namespace, view.status, view.revision, view.chart
            );
            if let Some(objects) = &view.objects {
                let _ = write!(text, "OBJECTS:\n{}", object_table(objects, &view.namespace));
            }
            for detail in details {
                let _ = writeln!(text, "{detail}");
            }
            if !view.notes.is_empty() {
                let _ = writeln!(text, "NOTES:\n{}", view.notes);
            }
            text
        })?;
        Ok(Exit::Done)
    })
}

/// Returns true where the objects are worth a look: a run failed or is under way.
fn is_unsettled(status: RevisionStatus) -> bool {
    status.is_pending() || matches!(status, RevisionStatus::Failed | RevisionStatus::Uninstalling)
}

/// The first line of a description, and the others but those that tell of pods what the objects tell already.
fn without_pod_reasons<'d>(description: &'d str, objects: &[ObjectState]) -> (&'d str, Vec<&'d str>) {
    let mut lines = description.lines();
    let first = lines.next().unwrap_or_default();
    let is_told = |line: &&str| objects.iter().any(|object| object.pods.iter().any(|told| told == line));
    (first, lines.filter(|line| !is_told(line)).collect())
}

fn object_table(objects: &[ObjectState], namespace: &str) -> String {
    let mut table = Table::new(&["object", "condition", "reason"]);
    for state in objects {
        let mut object = state.object.clone();
        object.namespace = object.namespace.filter(|own| own != namespace);
        table.row([object.to_string(), state.condition.to_string(), state.reason.clone()]);
        for line in &state.pods {
            table.row([String::new(), String::new(), line.clone()]);
        }
    }
    table.render()
}
