//! The scenarios of a release, played by our binary against a real API server with real controllers and
//! simulated nodes, and with Helm on the same releases.
//!
//! Runs only when named: it builds Kubernetes from its modules the first time. `SLIPWAY_SCENARIOS=7,31` plays
//! some alone. The charts of `SLIPWAY_CORPUS` are installed as well (`SLIPWAY_SCENARIOS=charts`: they alone).

mod changes;
mod charts;
mod failures;
mod helm;
mod lifecycle;
mod order;
mod relay;
mod stage;

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Result, bail};

use super::built;
use crate::real::{Parts, Real};
use crate::{peers, shell};
use stage::{Scene, Stage};

/// One scenario, by its number in the specification.
pub struct Case {
    number: u32,
    name: &'static str,
    play: fn(&Scene<'_>) -> Result<()>,
}

/// How many scenarios are played at once: they mostly wait.
const AT_ONCE: usize = 4;

pub fn run() -> Result<()> {
    let asked = std::env::var("SLIPWAY_SCENARIOS").unwrap_or_default();
    let only: Vec<&str> = asked.split(',').map(str::trim).filter(|word| !word.is_empty()).collect();
    let work = shell::target().join("conformance/release");
    let stage = Stage {
        slipway: built()?,
        helm: peers::helm()?,
        real: Real::start(&shell::target().join("conformance/real"), Parts::All)?,
        work,
    };
    if stage.work.exists() {
        fs::remove_dir_all(&stage.work)?;
    }
    let all = [changes::CASES, order::CASES, failures::CASES, lifecycle::CASES, helm::CASES].concat();
    let chosen = |cases: &[&'static Case]| -> Vec<&'static Case> {
        let is_chosen = |case: &&&Case| only.is_empty() || only.contains(&case.number.to_string().as_str());
        cases.iter().filter(is_chosen).copied().collect()
    };
    let (together, alone) = (chosen(&all), chosen(failures::ALONE));
    let mut failed = play_all(&stage, &together, AT_ONCE);
    failed.extend(play_all(&stage, &alone, 1));
    let cases = [together, alone].concat();
    let mut numbers: Vec<u32> = cases.iter().map(|case| case.number).collect();
    numbers.sort_unstable();
    numbers.dedup();
    println!(
        "release: {} of {} cases pass ({} scenarios of the specification)",
        cases.len() - failed.len(),
        cases.len(),
        numbers.len()
    );
    let with_charts = only.is_empty() || only.contains(&"charts");
    let installed = if with_charts { charts::corpus()? } else { Vec::new() };
    let broken: Vec<String> = installed.iter().filter_map(|chart| play_chart(&stage, chart)).collect();
    if !installed.is_empty() {
        println!("release: {} of {} charts pass", installed.len() - broken.len(), installed.len());
    }
    failed.extend(broken);
    if !failed.is_empty() || cases.is_empty() && installed.is_empty() {
        bail!("these failed: {}", failed.join("; "));
    }
    Ok(())
}

/// Plays cases, so many at once; gives those that failed.
fn play_all(stage: &Stage, cases: &[&Case], at_once: usize) -> Vec<String> {
    let next = AtomicUsize::new(0);
    let failed = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let name = format!("{:>2} {}", case.number, case.name);
                    let ended = timed(name, || play(stage, case));
                    failed.lock().unwrap_or_else(PoisonError::into_inner).extend(ended);
                }
            });
        }
    });
    failed.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn play(stage: &Stage, case: &Case) -> Result<()> {
    (case.play)(&scene(stage, &case.number.to_string(), case.name)?)
}

/// Plays a chart of the corpus; gives its name if it failed.
fn play_chart(stage: &Stage, chart: &Path) -> Option<String> {
    let name = chart.file_name().unwrap_or_default().to_string_lossy();
    timed(format!("chart {name}"), || charts::play(&scene(stage, "", &name)?, chart))
}

/// Plays something and prints how it ended; gives its name if it failed.
fn timed(name: String, play: impl FnOnce() -> Result<()>) -> Option<String> {
    let began = Instant::now();
    let result = play();
    let seconds = began.elapsed().as_secs_f64();
    match result {
        Ok(()) => {
            println!("  ok     {name} ({seconds:.1} s)");
            None
        }
        Err(error) => {
            println!("  FAILED {name} ({seconds:.1} s)\n{error:#}");
            Some(name)
        }
    }
}

/// A namespace and a directory of its own for what is played.
fn scene<'s>(stage: &'s Stage, number: &str, name: &str) -> Result<Scene<'s>> {
    let place: String = name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' })
        .take(40)
        .collect();
    let namespace = format!("s{number}-{}", place.trim_matches('-'));
    let directory = stage.work.join(&namespace);
    fs::create_dir_all(&directory)?;
    Ok(Scene { stage, namespace, directory })
}
