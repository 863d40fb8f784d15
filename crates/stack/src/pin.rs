//! Charts from elsewhere: fetched before a run starts, kept by digest, so that a resumed run needs no network and
//! applies the very same bytes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use slipway_chart::{Chart, LoadOptions};
use slipway_journal::{digest, files};
use slipway_problem::{Location, Problem, Problems};

use crate::deploy::Deploy;
use crate::error::Error;
use crate::plan::{Command, StackPlan};
use crate::sources::SourceKind;

/// The path of the archive with a digest.
pub(crate) fn place(root: &Path, digest: &str) -> PathBuf {
    let hex = digest.strip_prefix("sha256:").unwrap_or(digest);
    root.join(".slipway/cache/charts/sha256").join(format!("{hex}.tgz"))
}

/// Tells that a file is there and has the digest.
pub(crate) fn holds(path: &Path, digest: &str) -> bool {
    slipway_problem::read_file(path).is_ok_and(|bytes| digest::bytes(&bytes) == digest)
}

/// Fetches every remote chart of a plan once, and writes its version and digest into the plan. All that cannot be
/// had are reported together.
pub async fn pin<D: Deploy>(plan: &mut StackPlan, root: &Path, deploy: &D) -> Result<(), Error> {
    if plan.command == Command::Delete {
        return Ok(());
    }
    let mut wanted: BTreeMap<(String, Option<String>), Vec<usize>> = BTreeMap::new();
    for (position, node) in plan.nodes.iter().enumerate() {
        if node.source_kind == SourceKind::Remote && node.chart_digest.is_none() {
            wanted.entry((node.chart.clone(), node.chart_version.clone())).or_default().push(position);
        }
    }
    let mut problems = Problems::new();
    for ((chart, version), positions) in wanted {
        let pinned = match deploy.fetch(&chart, version.as_deref()).await {
            Ok(path) => keep(root, &path).map_err(|error| error.to_string()),
            Err(error) => Err(error.message),
        };
        match pinned {
            Ok((version, digest)) => {
                for position in positions {
                    let node = &mut plan.nodes[position];
                    node.chart_version = Some(version.clone());
                    node.chart_digest = Some(digest.clone());
                    node.effective_input_hash =
                        node.input_hash(&plan.tool, node.chart_digest.as_deref(), &node.values_digests);
                }
            }
            Err(why) => {
                for node in positions.iter().map(|position| &plan.nodes[*position]) {
                    let message = format!("release {}: cannot fetch the chart {chart}: {why}", node.id);
                    let at = Location {
                        line: node.declared_at.line,
                        ..Location::file(node.declared_at.file.as_str())
                    };
                    problems.push(Problem::error(message).code("ST014").at(at));
                }
            }
        }
    }
    if problems.has_errors() { Err(problems.into()) } else { Ok(()) }
}

/// Keeps an archive by its digest; gives the chart's version and the digest.
fn keep(root: &Path, path: &Path) -> Result<(String, String), Error> {
    let bytes = slipway_problem::read_file(path).map_err(Error::io("read", path))?;
    let chart = Chart::load(slipway_chart::ChartInput::Archive(&bytes), &LoadOptions::default())
        .map_err(|error| Error::invalid("ST014", error.to_string()))?;
    let digest = digest::bytes(&bytes);
    let kept = place(root, &digest);
    if !holds(&kept, &digest) {
        let directory = kept.parent().unwrap_or(root);
        files::directories(directory).map_err(Error::io("create", directory))?;
        files::ignore(&root.join(".slipway")).map_err(Error::io("write", root.join(".slipway")))?;
        files::replace(&kept, &bytes).map_err(Error::io("write", &kept))?;
    }
    Ok((chart.metadata.version.clone(), digest))
}
