//! `cargo xtask conformance`: the same questions to us and to the real programs.

mod charts;
mod clients;
mod controller;
mod e2e;
mod helm;
mod helm4;
mod image;
mod kubectl;
mod kustomize;
mod package;
mod prometheus;
mod promotion;
mod provenance;
mod random;
mod release;
mod runbook;
mod sandbox;
mod scm;
mod secrets;
mod shells;
mod sql;
mod unit;

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value};

use crate::{peers, shell};

/// One comparison with a real program.
struct Suite {
    name: &'static str,
    run: fn() -> Result<()>,
    when: When,
}

/// When a suite runs.
#[derive(PartialEq, Eq)]
enum When {
    Always,
    /// Only when it is named.
    Named,
}

const SUITES: &[Suite] = &[
    Suite { name: "helm", run: helm::run, when: When::Always },
    Suite { name: "helm4", run: helm4::run, when: When::Named },
    Suite { name: "sql", run: sql::run, when: When::Named },
    Suite { name: "charts", run: charts::run, when: When::Named },
    Suite { name: "kustomize", run: kustomize::run, when: When::Always },
    Suite { name: "package", run: package::run, when: When::Always },
    Suite { name: "provenance", run: provenance::run, when: When::Named },
    Suite { name: "runbook", run: runbook::run, when: When::Named },
    Suite { name: "release", run: release::run, when: When::Named },
    Suite { name: "kubectl", run: kubectl::run, when: When::Named },
    Suite { name: "secrets", run: secrets::run, when: When::Always },
    Suite { name: "vault", run: secrets::run_vault, when: When::Named },
    Suite { name: "scm", run: scm::run, when: When::Named },
    Suite { name: "promotion-metrics", run: prometheus::run, when: When::Named },
    Suite { name: "promotion", run: promotion::run, when: When::Named },
    Suite { name: "promotion-flux", run: promotion::run_with_flux, when: When::Named },
    Suite { name: "controller", run: controller::run, when: When::Named },
    Suite { name: "image", run: image::run, when: When::Named },
    Suite { name: "sandbox", run: sandbox::run, when: When::Named },
    Suite { name: "clients", run: clients::run, when: When::Named },
    Suite { name: "e2e", run: e2e::run, when: When::Named },
    Suite { name: "shells", run: shells::run, when: When::Named },
    Suite { name: "unit-registry", run: unit::run_registry, when: When::Named },
    Suite { name: "unit-images", run: unit::run_images, when: When::Named },
    Suite { name: "unit", run: unit::run, when: When::Named },
];

/// Runs the named suites, or all that always run. `--charts DIR` gives `kubectl` more charts to install.
pub fn run(words: &[&str]) -> Result<()> {
    let (names, charts) = match words {
        [names @ .., "--charts", charts] => (names, Some(PathBuf::from(charts))),
        names => (names, None),
    };
    if let Some(charts) = charts {
        kubectl::install_from(charts)?;
    }
    if let Some(unknown) = names.iter().find(|name| !SUITES.iter().any(|suite| suite.name == **name)) {
        let known: Vec<_> = SUITES.iter().map(|suite| suite.name).collect();
        bail!("there is no suite `{unknown}`; there are: {}", known.join(", "));
    }
    let wanted = |suite: &&Suite| match names {
        [] => suite.when == When::Always,
        names => names.contains(&suite.name),
    };
    for suite in SUITES.iter().filter(wanted) {
        eprintln!("conformance: {}", suite.name);
        (suite.run)().with_context(|| format!("suite {}", suite.name))?;
    }
    Ok(())
}

/// Builds our binary and says where it lies.
fn built() -> Result<PathBuf> {
    shell::slipway(shell::Profile::Debug)
}

/// How many cases agree, and which do not.
struct Tally {
    suite: &'static str,
    passed: usize,
    failed: Vec<String>,
}

impl Tally {
    fn new(suite: &'static str) -> Self {
        Self { suite, passed: 0, failed: Vec::new() }
    }

    fn count(&mut self, case: &str, agrees: bool) {
        if agrees { self.passed += 1 } else { self.failed.push(case.to_owned()) }
    }

    /// Says how it went; fails unless every case agrees and there was one.
    fn finish(self) -> Result<()> {
        for case in &self.failed {
            eprintln!("  differs: {case}");
        }
        println!("{}: {} passed, {} failed", self.suite, self.passed, self.failed.len());
        if !self.failed.is_empty() || self.passed == 0 {
            bail!("{} of {} cases differ", self.failed.len(), self.passed + self.failed.len());
        }
        Ok(())
    }
}

/// Runs a script with the programs it asks in a directory of its own, and counts the verdicts it writes there.
fn compare_by_script(
    suite: &'static str,
    script: &str,
    programs: &[PathBuf],
    package: Option<&str>,
) -> Result<()> {
    compare_by_script_with(suite, script, programs, package, &[])
}

/// The same, with variables the script reads: addresses and credentials, which are not for the process list.
fn compare_by_script_with(
    suite: &'static str,
    script: &str,
    programs: &[PathBuf],
    package: Option<&str>,
    variables: &[(&str, &str)],
) -> Result<()> {
    let directory = peers::cache()?.join(suite);
    if directory.exists() {
        fs::remove_dir_all(&directory)?;
    }
    fs::create_dir_all(&directory)?;
    let mut python = Command::new("python3");
    python.arg("-B").arg(shell::root().join("conformance").join(script)).args(programs).arg(&directory);
    python.envs(variables.iter().copied());
    if let Some(package) = package {
        python.env("PYTHONPATH", peers::python_package(package)?);
    }
    shell::run(&mut python)?;
    let verdicts = fs::read_to_string(directory.join("verdicts.json")).context("read the verdicts")?;
    let verdicts: Map<String, Value> = serde_json::from_str(&verdicts)?;
    let mut tally = Tally::new(suite);
    for (name, verdict) in &verdicts {
        let agrees = verdict["expected"] == verdict["found"];
        tally.count(&format!("{name}: expected {}, found {}", verdict["expected"], verdict["found"]), agrees);
    }
    tally.finish()
}
