//! Metric checks against a real Prometheus.

use std::fs::{self, File};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::Tally;
use crate::{peers, shell};

const PATIENCE: Duration = Duration::from_secs(60);

pub fn run() -> Result<()> {
    let build = ["build", "--locked", "--package", "slipway-promotion", "--example", "prometheus"];
    shell::run(&mut shell::cargo(&build))?;
    let prometheus = Prometheus::start(&peers::cache()?.join("promotion-metrics"))?;
    let mut command = Command::new(shell::target().join("debug/examples/prometheus"));
    command.arg(&prometheus.root).env("NO_PROXY", "127.0.0.1");
    let output = command.output().context("run the example")?;
    let mut tally = Tally::new("promotion-metrics");
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        match line.split_once(": ") {
            Some((case, "ok")) => tally.count(case, true),
            _ => tally.count(line, false),
        }
    }
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        tally.count(&format!("{}: {}", output.status, said.trim_end()), false);
    }
    tally.finish()
}

/// A running Prometheus that measures nothing; it ends when dropped.
struct Prometheus {
    child: Child,
    root: String,
}

impl Prometheus {
    /// Starts one with its files in a directory, which is wiped.
    fn start(directory: &Path) -> Result<Self> {
        let program = peers::prometheus()?;
        if directory.exists() {
            fs::remove_dir_all(directory)?;
        }
        fs::create_dir_all(directory)?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let settings = directory.join("prometheus.yml");
        fs::write(&settings, "global: {scrape_interval: 1h}\n")?;
        let log = File::create(directory.join("prometheus.log"))?;
        let mut command = Command::new(program);
        command.arg(format!("--config.file={}", settings.display()));
        command.arg(format!("--storage.tsdb.path={}", directory.join("data").display()));
        command.arg(format!("--web.listen-address=127.0.0.1:{port}")).current_dir(directory);
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let child = command.spawn().context("start prometheus")?;
        let mut started = Self { child, root: format!("http://127.0.0.1:{port}") };
        started.wait(port, &directory.join("prometheus.log"))?;
        Ok(started)
    }

    fn wait(&mut self, port: u16, log: &Path) -> Result<()> {
        let began = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if let Some(status) = self.child.try_wait()? {
                bail!("prometheus ended while starting: {status}\n{}", fs::read_to_string(log)?);
            }
            if began.elapsed() > PATIENCE {
                bail!("prometheus did not become ready in {} s", PATIENCE.as_secs());
            }
            thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
