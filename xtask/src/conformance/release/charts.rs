//! Public charts from install to delete, their order proven by the audit log.
//!
//! The charts are those directly below the directories of `SLIPWAY_CORPUS`; without it nothing is played. The first
//! line of a chart's `conformance.args`, if it has one, is added to every command.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::stage::{Scene, path, text};
use crate::charts;

/// The stages a deploy goes through, in their order.
const STAGES: [&str; 4] = ["pre-pre-install", "pre-install", "install", "post-install"];
const WEBHOOKS: [&str; 2] = ["ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"];

/// Every chart directly below the directories of the corpus.
pub fn corpus() -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for root in charts::corpus() {
        let entries = std::fs::read_dir(&root).with_context(|| root.display().to_string())?;
        let paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
        found.extend(paths.into_iter().filter(|path| path.join("Chart.yaml").is_file()));
    }
    found.sort();
    Ok(found)
}

/// Installs a chart, holds the order of its writes against its plan, applies it again and deletes it.
pub fn play(s: &Scene<'_>, chart: &Path) -> Result<()> {
    let more = std::fs::read_to_string(chart.join("conformance.args")).unwrap_or_default();
    let more: Vec<&str> = more.lines().next().unwrap_or_default().split_whitespace().collect();
    let chart = path(chart)?;
    let planned = s.slipway(&[&["plan", "demo", chart, "-o", "json"], &more[..]].concat())?.ok()?;
    let planned: Value = serde_json::from_str(&planned)?;
    let apply = || s.slipway(&[&["apply", "demo", chart, "--timeout", "110s"], &more[..]].concat())?.ok();
    let mark = s.mark()?;
    apply()?;
    let writes = s.cluster_writes(mark)?;
    let mut objects = Vec::new();
    for change in planned["changes"].as_array().context("a plan without changes")? {
        let (kind, name) = (text(change, "/kind"), text(change, "/name"));
        let written = format!("{}/{name}", plural(&kind));
        let place =
            writes.iter().position(|write| write.split_once(' ').is_some_and(|(_, what)| what == written));
        let place = place.with_context(|| format!("{written} was not written: {writes:?}"))?;
        let stage = text(change, "/stage");
        let rank =
            STAGES.iter().position(|known| *known == stage).with_context(|| format!("stage {stage}"))?;
        // Webhook configurations come last within their stage.
        let is_webhook = WEBHOOKS.contains(&kind.as_str());
        objects.push(((rank, is_webhook), place, written));
    }
    objects.sort();
    for (before, after) in objects.iter().zip(objects.iter().skip(1)).filter(|(a, b)| a.0 < b.0) {
        let last = objects.iter().filter(|object| object.0 == before.0).max_by_key(|object| object.1);
        let first = objects.iter().filter(|object| object.0 == after.0).min_by_key(|object| object.1);
        let (Some(last), Some(first)) = (last, first) else { continue };
        ensure!(last.1 < first.1, "{} was written before {}: {writes:?}", first.2, last.2);
    }
    let webhooks = objects.iter().filter(|object| object.0.1).count();
    println!("         {} objects, {webhooks} webhook configurations, order as planned", objects.len());
    s.expect_statuses("deployed")?;
    apply()?;
    s.slipway(&["delete", "demo", "--timeout", "110s"])?.ok()?;
    s.expect_statuses("")
}

/// The resource of a kind, as the API's own plurals are made.
fn plural(kind: &str) -> String {
    let kind = kind.to_lowercase();
    match kind.strip_suffix('y') {
        Some(stem) if !stem.ends_with(['a', 'e', 'o']) => format!("{stem}ies"),
        _ if kind.ends_with('s') => format!("{kind}es"),
        _ => format!("{kind}s"),
    }
}
