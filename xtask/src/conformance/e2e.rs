//! Kubernetes' own end-to-end tests, run on the sandbox.
//!
//! `conformance/e2e/passing.txt` names the tests that pass on a real API server with simulated nodes and on the sandbox; each must
//! pass. `E2E_FOCUS=REGEX` runs the tests of those words instead and writes how each ended to `target/e2e`; `SERVER=real` asks a real
//! API server. Tests that wait do not hold up others: `E2E_PROCESSES` run at once.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};
use serde_json::Value;

use super::clients::RunningSandbox;
use super::{Tally, built};
use crate::real::{Parts, Real};
use crate::{peers, shell};

const PROCESSES: usize = 4;

/// Whoever must be kept until the tests have ended.
enum TestedServer {
    Real(Real),
    Sandbox(RunningSandbox),
}

impl TestedServer {
    fn start(work: &Path) -> Result<Self> {
        Ok(match std::env::var("SERVER").as_deref() {
            Ok("real") => Self::Real(Real::start(&work.join("real"), Parts::All)?),
            _ => Self::Sandbox(RunningSandbox::start(&built()?, &work.join("sandbox"))?),
        })
    }

    fn kubeconfig(&self) -> PathBuf {
        match self {
            Self::Real(real) => real.kubeconfig(),
            Self::Sandbox(sandbox) => sandbox.kubeconfig(),
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Real(_) => "real",
            Self::Sandbox(_) => "sandbox",
        }
    }
}

pub fn run() -> Result<()> {
    let program = peers::kubernetes_e2e()?;
    let kubectl = peers::kubectl()?;
    let work = shell::target().join("e2e");
    fs::create_dir_all(&work)?;
    let listed = fs::read_to_string(shell::root().join("conformance/e2e/passing.txt"))?;
    let listed: Vec<&str> = listed.lines().filter(|line| !line.is_empty()).collect();
    let focus = std::env::var("E2E_FOCUS").ok();
    let server = TestedServer::start(&work)?;
    let runner = TestRunner { program, kubectl, kubeconfig: server.kubeconfig(), work };
    let names = match &focus {
        Some(focus) => runner.names_of(focus)?,
        None => listed.iter().map(|name| (*name).to_owned()).collect(),
    };
    println!("{} tests on the {} server", names.len(), server.name());
    let ended = runner.run_all(&names)?;
    let report: Vec<String> = ended.iter().map(|(name, state)| format!("{state} {name}\n")).collect();
    fs::write(runner.work.join(format!("{}.txt", server.name())), report.concat())?;
    let mut tally = Tally::new("e2e");
    for name in &names {
        let state = ended.get(name).map_or("did not run", String::as_str);
        tally.count(&format!("{state}: {name}"), state == "passed");
    }
    tally.finish()
}

struct TestRunner {
    program: PathBuf,
    kubectl: PathBuf,
    kubeconfig: PathBuf,
    work: PathBuf,
}

impl TestRunner {
    /// A process for the tests that match, and where its report will be.
    fn command(&self, focus: &str, part: &str) -> Result<(Command, PathBuf)> {
        let directory = self.work.join(part);
        fs::create_dir_all(&directory)?;
        let report = directory.join("report.json");
        let mut command = Command::new(&self.program);
        command.current_dir(&directory).env("KUBECONFIG", &self.kubeconfig);
        command.args(["--provider=skeleton", "--allowed-not-ready-nodes=-1", "--minStartupPods=0"]);
        command.args(["--system-pods-startup-timeout=1s", "--ginkgo.no-color", "--ginkgo.timeout=3h"]);
        command.arg(format!("--kubeconfig={}", self.kubeconfig.display()));
        command.arg(format!("--kubectl-path={}", self.kubectl.display()));
        command.arg(format!("--ginkgo.json-report={}", report.display()));
        command.arg(format!("--ginkgo.focus={focus}"));
        let log = fs::File::create(directory.join("log"))?;
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        Ok((command, report))
    }

    /// The tests whose names match.
    fn names_of(&self, focus: &str) -> Result<Vec<String>> {
        let (mut command, report) = self.command(focus, "list")?;
        shell::run(command.arg("--ginkgo.dry-run"))?;
        let ended = read_report(&report)?;
        Ok(ended.into_iter().filter(|(_, state)| state == "passed").map(|(name, _)| name).collect())
    }

    /// Runs the tests, spread over some processes, and says how each ended.
    fn run_all(&self, names: &[String]) -> Result<BTreeMap<String, String>> {
        let processes =
            std::env::var("E2E_PROCESSES").ok().and_then(|text| text.parse().ok()).unwrap_or(PROCESSES);
        let started: Vec<(Child, PathBuf)> = (0..processes.min(names.len()))
            .map(|part| {
                let mine: Vec<String> =
                    names.iter().skip(part).step_by(processes).map(|name| quoted(name)).collect();
                let (mut command, report) =
                    self.command(&format!("(?:{})$", mine.join("|")), &format!("part-{part}"))?;
                let child = command.spawn().context("start the end-to-end tests")?;
                Ok((child, report))
            })
            .collect::<Result<_>>()?;
        let mut ended = BTreeMap::new();
        for (mut child, report) in started {
            // It fails when a test does; what each did is in the report.
            child.wait()?;
            ended.extend(read_report(&report)?.into_iter().filter(|(_, state)| state != "skipped"));
        }
        Ok(ended)
    }
}

/// How each test of a report ended.
fn read_report(file: &Path) -> Result<BTreeMap<String, String>> {
    let text = fs::read_to_string(file).with_context(|| format!("read {}", file.display()))?;
    let report: Value = serde_json::from_str(&text)?;
    let tests = report[0]["SpecReports"].as_array().into_iter().flatten();
    let named = tests.filter(|test| test["LeafNodeType"] == "It").filter_map(|test| {
        let outer = test["ContainerHierarchyTexts"].as_array()?.iter().filter_map(Value::as_str);
        let words: Vec<&str> = outer.chain([test["LeafNodeText"].as_str()?]).collect();
        Some((words.join(" "), test["State"].as_str()?.to_owned()))
    });
    Ok(named.collect())
}

/// A text as a regular expression that matches nothing else.
fn quoted(text: &str) -> String {
    let special = |c: char| r"\.+*?()|[]{}^$".contains(c);
    text.chars().flat_map(|c| special(c).then_some('\\').into_iter().chain([c])).collect()
}
