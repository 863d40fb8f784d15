//! Ratios of earlier runs on the same kind of machine, kept outside the checkout, and whether this run falls behind them.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value, json};

use super::median;
use crate::{peers, shell};

/// The column that is kept: a ratio measured side by side means the same on a busy day.
const RATIO: &str = "times faster";
/// A ratio may be this much lower than the median of the runs before.
const TOLERATED_FALL: f64 = 0.10;
/// Runs that are looked back on.
const LOOK_BACK: usize = 5;

/// Says what a run is compared for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    /// The figures are kept.
    Record,
    /// They are kept, and a ratio that fell is an error.
    Gate,
}

/// Keeps the ratios of a benchmark and compares them with those of the runs before.
pub fn keep(bench: &str, rows: &[Value], comparison: Comparison) -> Result<()> {
    let figures: Map<String, Value> = rows
        .iter()
        .filter_map(|row| Some((row["case"].as_str()?.to_owned(), json!(row[RATIO].as_f64()?))))
        .collect();
    if figures.is_empty() {
        return Ok(());
    }
    let path = file()?;
    let before = fs::read_to_string(&path).unwrap_or_default();
    let fallen = fallen_ratios(bench, &figures, &before);
    let mut lines = OpenOptions::new().create(true).append(true).open(&path)?;
    let entry = json!({"bench": bench, "commit": commit(), "figures": figures});
    writeln!(lines, "{entry}").with_context(|| format!("write {}", path.display()))?;
    match comparison {
        Comparison::Gate if !fallen.is_empty() => {
            bail!(
                "{} of {bench} fell by more than 10 % (history: {}):\n  {}",
                fallen.len(),
                path.display(),
                fallen.join("\n  ")
            )
        }
        _ => {
            fallen.iter().for_each(|line| eprintln!("note: {line}"));
            Ok(())
        }
    }
}

/// The cases whose ratio is lower than those of the runs before, one text each.
fn fallen_ratios(bench: &str, figures: &Map<String, Value>, before: &str) -> Vec<String> {
    let runs: Vec<Value> = before.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let mut fallen = Vec::new();
    for (case, figure) in figures {
        let earlier = runs.iter().filter(|run| run["bench"] == bench);
        let mut earlier: Vec<f64> =
            earlier.rev().filter_map(|run| run["figures"][case].as_f64()).take(LOOK_BACK).collect();
        let (Some(figure), false) = (figure.as_f64(), earlier.is_empty()) else { continue };
        let usual = median(&mut earlier);
        if figure < usual * (1.0 - TOLERATED_FALL) {
            fallen.push(format!("{case}: {figure:.2}, the median of the runs before is {usual:.2}"));
        }
    }
    fallen
}

/// One file for each kind of machine, since ratios differ between them.
fn file() -> Result<PathBuf> {
    let directory = match std::env::var_os("SLIPWAY_BENCH_HISTORY") {
        Some(directory) => PathBuf::from(directory),
        None => peers::cache()?.join("bench-history"),
    };
    fs::create_dir_all(&directory).with_context(|| format!("create {}", directory.display()))?;
    Ok(directory.join(format!("{}.jsonl", machine())))
}

/// The processor and how many of it there are, as a file name.
fn machine() -> String {
    let processors = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = processors.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    let model = model.map_or(std::env::consts::ARCH, |(_, name)| name.trim());
    let count = std::thread::available_parallelism().map_or(1, usize::from);
    let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '-' };
    format!("{}-{count}", model.chars().map(plain).collect::<String>())
}

fn commit() -> Option<String> {
    let mut git = Command::new("git");
    git.args(["rev-parse", "--short", "HEAD"]);
    shell::output(&mut git).ok().map(|text| text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_falls_when_it_is_a_tenth_below_the_median_of_five_runs() {
        let before: String = [1.0, 9.0, 10.0, 10.0, 10.0, 12.0]
            .map(|ratio| json!({"bench": "charts", "figures": {"shop": ratio}}).to_string() + "\n")
            .concat();
        let fallen = |ratio: f64, bench: &str| {
            let figures = json!({"shop": ratio, "new": 0.1});
            fallen_ratios(bench, figures.as_object().unwrap(), &before)
        };
        assert_eq!(fallen(9.1, "charts"), [] as [String; 0]);
        assert_eq!(fallen(8.9, "charts"), ["shop: 8.90, the median of the runs before is 10.00"]);
        assert_eq!(fallen(8.9, "stack"), [] as [String; 0]);
    }
}
