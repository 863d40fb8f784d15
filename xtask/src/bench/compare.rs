//! Two builds of our binary beside each other, counted in instructions: these do not depend on what else the machine does.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::release::{path_text, write_chart};
use crate::{charts, shell};

/// How long a sandbox that is counted may take to serve and to stop: everything takes some fifty times as long.
const PATIENCE: Duration = Duration::from_secs(300);
/// Work over a connection differs by a third from run to run; the least is the work itself.
const ROUNDS: usize = 4;
const RELEASES: usize = 20;

/// One build and the directory it works in.
struct Build {
    program: PathBuf,
    home: PathBuf,
}

/// What is compared without a cluster. It always takes the same instructions.
const OFFLINE: [&str; 3] = ["--version", "render of 120 objects", "render of every chart"];
/// What is compared with a sandbox, in the order it is done in.
const CONNECTED: [&str; 5] =
    ["plan of 120 objects", "install of 120 objects", "no change", "stack plan", "sandbox create"];

/// Counts every case with both builds, and gives their sizes.
pub fn run(before: &Path, after: &Path) -> Result<Vec<Value>> {
    let work = shell::target().join("bench/compare");
    if work.exists() {
        fs::remove_dir_all(&work)?;
    }
    write_chart(&work.join("chart"), 20, 100)?;
    write_stack(&work.join("stack"))?;
    let build = |name: &str, program: &Path| -> Result<Build> {
        let home = work.join(name);
        fs::create_dir_all(&home)?;
        let program = program.canonicalize().with_context(|| format!("find {}", program.display()))?;
        Ok(Build { program, home })
    };
    let builds = [build("before", before)?, build("after", after)?];
    let mut charts = Vec::new();
    for rendering in charts::renderings()? {
        let render = |build: &Build| -> Result<Option<Vec<u8>>> {
            let mut command = build.command(&["render", "demo", path_text(&rendering.chart)?]);
            let output = command.stdout(Stdio::piped()).output()?;
            Ok(output.status.success().then_some(output.stdout))
        };
        // Charts that fail on purpose tell nothing, and those that make keys something else each time.
        if rendering.args.is_empty()
            && let (Some(before), Some(after)) = (render(&builds[0])?, render(&builds[1])?)
            && before == after
            && builds[0].is_steady(&rendering.chart)?
        {
            charts.push(rendering.chart);
        }
    }
    let mut offline = [[0.0; OFFLINE.len()]; 2];
    let mut least = [[f64::INFINITY; CONNECTED.len()]; 2];
    for (number, build) in builds.iter().enumerate() {
        offline[number] = build.count_offline(&work, &charts)?;
    }
    for _ in 0..ROUNDS {
        for (build, least) in builds.iter().zip(&mut least) {
            for (least, count) in least.iter_mut().zip(build.count_connected(&work, &builds[1])?) {
                *least = least.min(count);
            }
        }
    }
    let row = |case: &str, unit: &str, before: f64, after: f64| json!({"case": case, "unit": unit, "before": before, "after": after, "change %": (after / before - 1.0) * 100.0});
    let counted = |names: &[&str], before: &[f64], after: &[f64]| -> Vec<Value> {
        let numbers = before.iter().zip(after);
        names
            .iter()
            .zip(numbers)
            .map(|(case, (before, after))| row(case, "M instructions", before / 1e6, after / 1e6))
            .collect()
    };
    let mut rows = counted(&OFFLINE, &offline[0], &offline[1]);
    rows.extend(counted(&CONNECTED, &least[0], &least[1]));
    let size = |build: &Build| -> Result<f64> { Ok(fs::metadata(&build.program)?.len() as f64 / 1e6) };
    rows.push(row("size of the program", "MB", size(&builds[0])?, size(&builds[1])?));
    Ok(rows)
}

impl Build {
    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(words);
        self.at_home(&mut command);
        command
    }

    fn at_home(&self, command: &mut Command) {
        command.env("HOME", &self.home).env_remove("XDG_STATE_HOME").env_remove("KUBECONFIG");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    }

    /// The program under valgrind, which writes its count to a file.
    fn counted(&self, words: &[&str]) -> (Command, PathBuf) {
        let log = self.home.join("count");
        let mut command = Command::new("valgrind");
        command.args(["--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]);
        command.arg(format!("--log-file={}", log.display())).arg(&self.program).args(words);
        self.at_home(&mut command);
        (command, log)
    }

    /// The instructions of one command.
    fn instructions(&self, words: &[&str]) -> Result<f64> {
        let (mut command, log) = self.counted(words);
        let status = command.status().context("start valgrind")?;
        if !status.success() {
            bail!("{} failed: {status}", shell::show(&command));
        }
        read_count(&log)
    }

    /// Tells that a chart takes the same work each time: looking for primes does not.
    fn is_steady(&self, chart: &Path) -> Result<bool> {
        let count = || self.instructions(&["render", "demo", path_text(chart)?]);
        let (first, second) = (count()?, count()?);
        Ok((first - second).abs() < first / 100.0)
    }

    /// The instructions of what needs no cluster.
    fn count_offline(&self, work: &Path, charts: &[PathBuf]) -> Result<[f64; OFFLINE.len()]> {
        let chart = work.join("chart");
        let mut every = 0.0;
        for chart in charts {
            every += self.instructions(&["render", "demo", path_text(chart)?])?;
        }
        let version = self.instructions(&["--version"])?;
        Ok([version, self.instructions(&["render", "demo", path_text(&chart)?])?, every])
    }

    /// The instructions of what needs a sandbox. Every build is a client of `other`'s, and `other` a client of every build:
    /// what the other side answers decides a good part of the work.
    fn count_connected(&self, work: &Path, other: &Build) -> Result<[f64; CONNECTED.len()]> {
        let (chart, stack) = (work.join("chart"), work.join("stack"));
        let (chart, stack) = (path_text(&chart)?, path_text(&stack)?);
        let kubeconfig = other.home.join("kubeconfig");
        let kubeconfig = path_text(&kubeconfig)?;
        let up = ["sandbox", "up", "--detach", "--speed", "max", "--write-kubeconfig", kubeconfig];
        shell::run(&mut other.command(&up))?;
        let release =
            |verb: &str| self.instructions(&[verb, "demo", chart, "-n", "demo", "--kubeconfig", kubeconfig]);
        let connected = || {
            Ok([
                release("plan")?,
                release("apply")?,
                release("apply")?,
                self.instructions(&["stack", "plan", "--kubeconfig", kubeconfig, "--root", stack])?,
            ])
        };
        let connected: Result<[f64; 4]> = connected();
        shell::run(&mut other.command(&["sandbox", "reset"]))?;
        shell::run(&mut other.command(&["sandbox", "down"]))?;
        let [plan, install, unchanged, stack] = connected?;
        Ok([plan, install, unchanged, stack, self.server(chart, other)?])
    }

    /// The instructions of a sandbox from its start to its end, while a release of 120 objects is installed.
    fn server(&self, chart: &str, client: &Build) -> Result<f64> {
        let kubeconfig = self.home.join("kubeconfig");
        let _ = fs::remove_file(&kubeconfig);
        let (mut command, log) =
            self.counted(&["sandbox", "up", "--speed", "max", "--write-kubeconfig", path_text(&kubeconfig)?]);
        let mut server = Server(command.spawn().context("start valgrind")?);
        server.wait("start", |status| match status {
            Some(status) => bail!("the sandbox ended while starting: {status}"),
            None => Ok(kubeconfig.exists()),
        })?;
        let mut apply = client.command(&["apply", "demo", chart, "-n", "demo"]);
        shell::run(apply.env("KUBECONFIG", &kubeconfig))?;
        shell::run(&mut self.command(&["sandbox", "down"]))?;
        server.wait("stop", |status| Ok(status.is_some()))?;
        read_count(&log)
    }
}

/// A sandbox that is ended when dropped.
struct Server(Child);

impl Server {
    /// Waits until what became of the process is what was waited for.
    fn wait(&mut self, what: &str, is_over: impl Fn(Option<ExitStatus>) -> Result<bool>) -> Result<()> {
        let began = Instant::now();
        while !is_over(self.0.try_wait()?)? {
            if began.elapsed() > PATIENCE {
                bail!("the sandbox does not {what}");
            }
            thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Reads `I refs: 1,234` of what valgrind wrote last.
fn read_count(log: &Path) -> Result<f64> {
    let said = fs::read_to_string(log)?;
    let line = said.lines().rfind(|line| line.contains("I refs:") || line.contains("I   refs:"));
    let digits: Option<String> = line
        .and_then(|line| line.rsplit(':').next())
        .map(|part| part.chars().filter(char::is_ascii_digit).collect());
    digits.and_then(|digits| digits.parse().ok()).with_context(|| format!("valgrind counted nothing: {said}"))
}

/// A stack of small releases.
fn write_stack(root: &Path) -> Result<()> {
    fs::create_dir_all(root)?;
    let mut stack =
        "apiVersion: ktl.dev/v1\nkind: Stack\nname: bench\ndefaultProfile: dev\nprofiles: {dev: {}}\n\
                     defaults: {namespace: demo}\nreleases:\n"
            .to_owned();
    for number in 0..RELEASES {
        let chart = root.join(format!("chart-{number}"));
        write_chart(&chart, 1, 4)?;
        stack.push_str(&format!("- {{name: release-{number}, chart: ./chart-{number}}}\n"));
    }
    Ok(fs::write(root.join("stack.yaml"), stack)?)
}
