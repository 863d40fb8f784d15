//! Programs people write with client-go, controller-runtime and kube-rs, run on a real API server and on the sandbox.
//!
//! The Go programs of `conformance/clients` write what they saw, a line a case; the lines of both servers must be the same.
//! Of kube-rs the tests that its published crates carry are run, and must end alike. `ELECTION=10m` lets a leader lead that long,
//! `PART=go`, `runtime` or `rust` runs one part.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::{Tally, built};
use crate::real::{Parts, Real};
use crate::{peers, shell};

/// How long a leader leads unless `ELECTION` says otherwise, as Go writes durations.
const ELECTION: &str = "15s";
/// How long a server is away while informers watch it.
const AWAY: Duration = Duration::from_secs(2);

/// A server that programs are run on.
struct ComparedServer<'s> {
    name: &'static str,
    kubeconfig: PathBuf,
    restart: &'s dyn Fn() -> Result<()>,
}

pub fn run() -> Result<()> {
    let part = std::env::var("PART").ok();
    let wanted = |name: &str| part.as_deref().is_none_or(|part| part == name);
    let slipway = built()?;
    let work = shell::target().join("clients");
    fs::create_dir_all(&work)?;
    let yaml = peers::python_package("pyyaml")?;
    let kinds = work.join("kinds.json");
    let script = shell::root().join("conformance/clients/kinds.py");
    shell::run(Command::new("python3").arg("-B").arg(script).arg(&kinds).env("PYTHONPATH", yaml))?;

    let real = Real::start(&work.join("real"), Parts::All)?;
    let sandbox = RunningSandbox::start(&slipway, &work.join("sandbox"))?;
    let servers = [
        ComparedServer { name: "real", kubeconfig: real.kubeconfig(), restart: &|| real.restart_api(AWAY) },
        ComparedServer { name: "sandbox", kubeconfig: sandbox.kubeconfig(), restart: &|| sandbox.restart() },
    ];
    let mut tally = Tally::new("clients");
    if wanted("go") {
        let program = peers::client_program("clientgo")?;
        let lead = std::env::var("ELECTION").unwrap_or_else(|_| ELECTION.to_owned());
        let [a, b] = servers.each_ref().map(|ComparedServer { name, kubeconfig, restart }| {
            let transcript = work.join(format!("clientgo.{name}.jsonl"));
            let mut command = Command::new(&program);
            command.arg("-kubeconfig").arg(kubeconfig).arg("-kinds").arg(&kinds).args(["-lead", &lead]);
            command.arg("-transcript").arg(&transcript);
            with_restart(&mut command, restart).and_then(|()| read_transcript(&transcript))
        });
        compare_transcripts(&mut tally, "client-go", &a?, &b?);
    }
    if wanted("runtime") {
        let program = peers::client_program("controllerruntime")?;
        let [a, b] = servers.each_ref().map(|ComparedServer { name, kubeconfig, .. }| {
            let transcript = work.join(format!("controllerruntime.{name}.jsonl"));
            let log = fs::File::create(work.join(format!("controllerruntime.{name}.log")))?;
            let mut command = Command::new(&program);
            command.arg("-kubeconfig").arg(kubeconfig).arg("-transcript").arg(&transcript);
            shell::run(command.stderr(log)).and_then(|()| read_transcript(&transcript))
        });
        compare_transcripts(&mut tally, "controller-runtime", &a?, &b?);
    }
    if wanted("rust") {
        for tests in peers::kube_rs_tests()? {
            let [a, b] = servers.each_ref().map(|ComparedServer { name, kubeconfig, .. }| {
                println!("kube-rs on the {name} server: {}", tests.display());
                kube_rs_results(&tests, kubeconfig)
            });
            let (a, b) = (a?, b?);
            for (test, ended) in &a {
                let ours = b.get(test).map_or("absent", String::as_str);
                tally.count(
                    &format!("kube-rs {test}: {ended} on the real server, {ours} here"),
                    ended == ours,
                );
            }
        }
    }
    drop(sandbox);
    tally.finish()
}

/// A sandbox with a durable directory and a port of its own, so that it can come back as it was.
pub(super) struct RunningSandbox {
    slipway: PathBuf,
    directory: PathBuf,
    port: u16,
}

impl RunningSandbox {
    pub(super) fn start(slipway: &Path, directory: &Path) -> Result<Self> {
        if directory.exists() {
            fs::remove_dir_all(directory)?;
        }
        fs::create_dir_all(directory)?;
        let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let sandbox = Self { slipway: slipway.to_owned(), directory: directory.to_owned(), port };
        sandbox.up()?;
        Ok(sandbox)
    }

    pub(super) fn kubeconfig(&self) -> PathBuf {
        self.directory.join("kubeconfig")
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.slipway);
        command.arg("sandbox").args(args).env("HOME", &self.directory).env_remove("XDG_STATE_HOME");
        command
    }

    fn up(&self) -> Result<()> {
        let mut command = self.command(&["up", "--detach", "--port", &self.port.to_string()]);
        command.arg("--data-dir").arg(self.directory.join("data"));
        shell::run(command.arg("--write-kubeconfig").arg(self.kubeconfig()))
    }

    fn restart(&self) -> Result<()> {
        shell::run(&mut self.command(&["down"]))?;
        std::thread::sleep(AWAY);
        self.up()
    }
}

impl Drop for RunningSandbox {
    fn drop(&mut self) {
        // It may have ended on its own.
        let _ = shell::run(&mut self.command(&["down"]));
    }
}

/// Runs a program, and restarts its server whenever it prints `restart`.
fn with_restart(command: &mut Command, restart: &dyn Fn() -> Result<()>) -> Result<()> {
    eprintln!("$ {}", shell::show(command));
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let (input, output) = (child.stdin.take(), child.stdout.take());
    let mut input = input.context("its standard input is a pipe")?;
    for line in BufReader::new(output.context("its standard output is a pipe")?).lines() {
        if line? == "restart" {
            restart()?;
            writeln!(input, "restarted")?;
        }
    }
    let status = child.wait()?;
    if !status.success() {
        bail!("the program failed: {status}");
    }
    Ok(())
}

type Transcript = BTreeMap<String, Value>;

fn read_transcript(file: &Path) -> Result<Transcript> {
    let text = fs::read_to_string(file).with_context(|| format!("read {}", file.display()))?;
    let lines = text.lines().map(|line| {
        let mut line: Value = serde_json::from_str(line)?;
        let name = line["case"].as_str().context("a line without a case")?.to_owned();
        line["case"].take();
        Ok((name, line))
    });
    lines.collect()
}

/// Counts every case that either has; one that ran out of time agrees with nothing.
fn compare_transcripts(tally: &mut Tally, program: &str, real: &Transcript, ours: &Transcript) {
    for name in real.keys().chain(ours.keys().filter(|name| !real.contains_key(*name))) {
        let shown = |side: &Transcript| side.get(name).map_or_else(|| "absent".to_owned(), Value::to_string);
        let (theirs, our) = (shown(real), shown(ours));
        let agrees = theirs == our && !theirs.contains("deadline exceeded");
        let (theirs, our) = apart(&theirs, &our);
        tally.count(&format!("{program} {name}\n    real    {theirs}\n    sandbox {our}"), agrees);
    }
}

/// Two texts from shortly before the place where they part.
fn apart(a: &str, b: &str) -> (String, String) {
    let same = a.chars().zip(b.chars()).take_while(|(a, b)| a == b).count();
    let tail = |text: &str| text.chars().skip(same.saturating_sub(60)).take(400).collect();
    (tail(a), tail(b))
}

/// How each test of a binary that asks a cluster ended.
fn kube_rs_results(tests: &Path, kubeconfig: &Path) -> Result<BTreeMap<String, String>> {
    let mut command = Command::new(tests);
    command.args(["--ignored", "--test-threads=1"]).env("KUBECONFIG", kubeconfig);
    let output = command.output().with_context(|| format!("start {}", tests.display()))?;
    let output = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines = output.lines().filter_map(|line| {
        let (name, ended) = line.strip_prefix("test ")?.rsplit_once(" ... ")?;
        let name = name.split(" - ").next().unwrap_or(name);
        Some((name.to_owned(), ended.to_owned()))
    });
    Ok(lines.collect())
}
