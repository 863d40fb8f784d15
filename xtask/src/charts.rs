//! The charts we compare and measure with, and how each is rendered.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::shell;

/// One rendering to compare.
pub struct Rendering {
    pub chart: PathBuf,
    pub args: Vec<String>,
}

impl Rendering {
    /// How it is called in reports.
    pub fn name(&self) -> String {
        let chart = self.chart.strip_prefix(shell::root()).unwrap_or(&self.chart);
        format!("{} {}", chart.display(), self.args.join(" ")).trim_end().to_owned()
    }

    /// The words after `helm template` or `slipway render`.
    pub fn words(&self) -> Vec<String> {
        let mut words = vec!["demo".to_owned(), self.chart.display().to_string()];
        words.extend(self.args.iter().cloned());
        words
    }
}

/// Every chart of this repository, and of the directories of charts `SLIPWAY_CORPUS` lists, each
/// rendered with its defaults, with the flags that change the output, and as its `conformance.args`
/// (one command line a line) says.
pub fn renderings() -> Result<Vec<Rendering>> {
    let mut roots =
        vec![shell::root().join("examples/charts"), shell::root().join("crates/chart/tests/fixtures")];
    roots.extend(corpus());
    renderings_in(&roots)
}

/// The directories of charts that `SLIPWAY_CORPUS` lists.
pub fn corpus() -> Vec<PathBuf> {
    let listed = std::env::var_os("SLIPWAY_CORPUS").unwrap_or_default();
    std::env::split_paths(&listed).filter(|root| !root.as_os_str().is_empty()).collect()
}

/// Every chart under some directories, with its defaults, other flags, its own `conformance.args`, and
/// each values file chart authors test with (`ci/*.yaml`).
pub fn renderings_in(roots: &[PathBuf]) -> Result<Vec<Rendering>> {
    let mut charts = Vec::new();
    for root in roots.iter().filter(|root| root.is_dir()) {
        find(root, &mut charts)?;
    }
    charts.sort();
    let mut renderings = Vec::new();
    for chart in charts {
        let mut lines = vec![String::new(), "--include-crds --no-hooks -n other --is-upgrade".to_owned()];
        if let Ok(text) = fs::read_to_string(chart.join("conformance.args")) {
            lines.extend(text.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned));
        }
        let mut tried: Vec<PathBuf> = fs::read_dir(chart.join("ci"))
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|kind| kind == "yaml"))
            .collect();
        tried.sort();
        lines.extend(tried.iter().map(|path| format!("-f {}", path.display())));
        for line in lines {
            let args =
                line.split_whitespace().map(|word| word.replace("CHART", &chart.display().to_string()));
            renderings.push(Rendering { chart: chart.clone(), args: args.collect() });
        }
    }
    Ok(renderings)
}

/// Directories with a Chart.yaml, not those inside another chart.
fn find(directory: &Path, charts: &mut Vec<PathBuf>) -> Result<()> {
    if directory.join("Chart.yaml").is_file() {
        charts.push(directory.to_owned());
        return Ok(());
    }
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            find(&entry.path(), charts)?;
        }
    }
    Ok(())
}
