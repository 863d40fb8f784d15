//! `cargo xtask bench`: figures as ratios side by side, measured in one run.

use std::fs;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::shell;

/// One benchmark: it prints measurements, one JSON object a line, and says what must hold.
struct Bench {
    name: &'static str,
    run: fn(Effort) -> Result<Vec<Value>>,
}

/// How long to measure.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// Enough to see that the benchmark works; figures are not judged.
    Short,
    Full,
}

const BENCHES: &[Bench] = &[Bench { name: "graph", run: graph }];

pub fn run(args: &[&str]) -> Result<()> {
    let effort = if args.contains(&"--short") { Effort::Short } else { Effort::Full };
    let names: Vec<&str> = args.iter().copied().filter(|arg| *arg != "--short").collect();
    if let Some(unknown) = names.iter().find(|name| !BENCHES.iter().any(|bench| bench.name == **name)) {
        let known: Vec<_> = BENCHES.iter().map(|bench| bench.name).collect();
        bail!("there is no benchmark `{unknown}`; there are: {}", known.join(", "));
    }
    for bench in BENCHES.iter().filter(|bench| names.is_empty() || names.contains(&bench.name)) {
        let rows = (bench.run)(effort).with_context(|| format!("benchmark {}", bench.name))?;
        print_table(bench.name, &rows);
        let directory = shell::target().join("bench");
        fs::create_dir_all(&directory)?;
        let path = directory.join(format!("{}.json", bench.name));
        fs::write(&path, serde_json::to_string_pretty(&rows)? + "\n")?;
        eprintln!("wrote {}", path.display());
    }
    Ok(())
}

/// Runs an example of a crate and reads the JSON lines it prints.
fn example(package: &str, example: &str, effort: Effort, args: &[&str]) -> Result<Vec<Value>> {
    let profile: &[&str] = if effort == Effort::Full { &["--release"] } else { &[] };
    let mut command =
        shell::cargo(&["run", "--quiet", "--locked", "--package", package, "--example", example]);
    command.args(profile).arg("--").args(args);
    let printed = shell::output(&mut command)?;
    printed.lines().map(|line| serde_json::from_str(line).with_context(|| format!("read `{line}`"))).collect()
}

/// The kernel at two sizes, and how much the tenfold graph costs.
fn graph(effort: Effort) -> Result<Vec<Value>> {
    let size: &[&str] = if effort == Effort::Short { &["--short"] } else { &[] };
    example("slipway-graph", "graph_bench", effort, size)
}

/// Prints rows of flat JSON objects as a table whose heads are the first row's keys.
fn print_table(name: &str, rows: &[Value]) {
    let empty = json!({});
    let first = rows.first().unwrap_or(&empty);
    let heads: Vec<String> = first.as_object().map(|row| row.keys().cloned().collect()).unwrap_or_default();
    let cell = |row: &Value, head: &str| match &row[head] {
        Value::String(text) => text.clone(),
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() => format!("{float:.2}"),
            _ => number.to_string(),
        },
        Value::Null => String::new(),
        other => other.to_string(),
    };
    let mut table = vec![heads.clone()];
    table.extend(rows.iter().map(|row| heads.iter().map(|head| cell(row, head)).collect()));
    let width = |column: usize| table.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..heads.len()).map(width).collect();
    println!("\n{name}");
    for row in &table {
        let line: Vec<String> =
            row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        println!("  {}", line.join("  ").trim_end());
    }
}
