//! Units beside the charts they are made of: what a bundle costs, how large it is, how soon it is open.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::{Effort, median, milliseconds, profile};
use crate::{charts, shell};

/// The chart the bars are about.
const LARGE: &str = "kube-prometheus-stack";
const MOST_RENDERS: f64 = 3.0;
const LARGEST: f64 = 1.5;
const SLOWEST_OPEN: f64 = 100.0;

/// Bundles the large chart of `SLIPWAY_CORPUS`, if that is set, and the example, and compares each with its render and its
/// package.
pub fn run(effort: Effort) -> Result<Vec<Value>> {
    let corpus = charts::corpus();
    let found: Vec<PathBuf> =
        corpus.iter().map(|root| root.join(LARGE)).filter(|chart| chart.is_dir()).collect();
    if found.is_empty() && !corpus.is_empty() {
        bail!("SLIPWAY_CORPUS has no directory {LARGE}");
    }
    let slipway = shell::slipway(profile(effort))?;
    let example = shell::root().join("examples/units/shop");
    let mut rows = Vec::new();
    for chart in found.iter().chain([&example]) {
        rows.push(measure(&slipway, chart, effort)?);
    }
    let large = rows.iter().filter(|row| row["chart"] == LARGE && effort == Effort::Full);
    for row in large {
        let bars =
            [("times its render", MOST_RENDERS), ("times its package", LARGEST), ("open ms", SLOWEST_OPEN)];
        for (key, most) in bars {
            let value = row[key].as_f64().context("was measured")?;
            if value > most {
                bail!("{LARGE}: `{key}` is {value:.2}, {most} is allowed");
            }
        }
    }
    Ok(rows)
}

fn measure(slipway: &Path, chart: &Path, effort: Effort) -> Result<Value> {
    let name = chart.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let place = shell::target().join("bench/units").join(&name);
    if place.exists() {
        fs::remove_dir_all(&place)?;
    }
    fs::create_dir_all(&place)?;
    let unit = place.join("unit.sqlite");
    let command = |words: &[&str]| {
        let mut command = Command::new(slipway);
        command.args(words).env("NO_COLOR", "1");
        command
    };
    shell::output(command(&["chart", "package"]).arg(chart).arg("-d").arg(&place))?;
    let mut entries = fs::read_dir(&place)?.filter_map(Result::ok).map(|entry| entry.path());
    let packed = entries.find(|path| path.extension().is_some_and(|extension| extension == "tgz"));
    let packed = fs::metadata(packed.context("a package was made")?)?.len();
    let mut render = command(&["render", "demo"]);
    render.arg(chart).arg("--include-crds");
    let mut bundle = command(&["unit", "bundle", "demo"]);
    bundle.arg(chart).args(["--allow-nondeterministic", "-O"]).arg(&unit);
    shell::output(&mut bundle)?;
    let mut open = command(&["unit", "inspect"]);
    open.arg(&unit).args(["-o", "json"]);
    let rounds = if effort == Effort::Short { 1 } else { 7 };
    let (mut renders, mut bundles, mut opens) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        renders.push(milliseconds(&mut render)?);
        bundles.push(milliseconds(&mut bundle)?);
        opens.push(milliseconds(&mut open)?);
    }
    let (render, bundle, open) = (median(&mut renders), median(&mut bundles), median(&mut opens));
    let size = fs::metadata(&unit)?.len();
    Ok(json!({
        "chart": name, "render ms": render, "bundle ms": bundle, "times its render": bundle / render,
        "package KiB": packed as f64 / 1024.0, "unit KiB": size as f64 / 1024.0,
        "times its package": size as f64 / packed as f64, "open ms": open,
    }))
}
