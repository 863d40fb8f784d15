//! Completions in the real shells, typed by hand: bash, zsh and fish run in tmux, and Tab is pressed.

use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::{Tally, built};
use crate::{peers, shell};

/// How long a shell may take to complete a word.
const PATIENCE: Duration = Duration::from_secs(60);

/// A shell, how it is started without the user's files, and how it reads the script.
struct RealShell {
    name: &'static str,
    start: &'static [&'static str],
    prepare: &'static str,
}

const SHELLS: &[RealShell] = &[
    RealShell {
        name: "bash",
        start: &["bash", "--norc", "--noprofile"],
        prepare: "source <(slipway completions bash)",
    },
    RealShell {
        name: "zsh",
        start: &["zsh", "-f"],
        prepare: "autoload -Uz compinit && compinit -u && source <(slipway completions zsh)",
    },
    RealShell { name: "fish", start: &["fish", "--no-config"], prepare: "slipway completions fish | source" },
];

/// What is typed before Tab, and what the line shows after it.
const CASES: &[(&str, &str)] = &[
    ("slipway hist", "slipway history"),
    ("slipway status --show-res", "slipway status --show-resources"),
    ("slipway status --sandbox dem", "slipway status --sandbox demo"),
    ("slipway logs --sandbox -n kube-sy", "slipway logs --sandbox -n kube-system"),
    ("slipway list --context stag", "slipway list --context staging"),
    ("slipway stack explain --root stack che", "slipway stack explain --root stack checkout"),
    ("slipway run apply -f book.yaml --only ins", "slipway run apply -f book.yaml --only install-cni"),
    ("slipway chart show values rep", "slipway chart show values repo/webshop"),
    ("slipway pipeline show --sandbox pay", "slipway pipeline show --sandbox payments"),
    ("slipway rollback demo --sandbox ", "slipway rollback demo --sandbox 1"),
    ("slipway lint exam", "slipway lint examples/"),
];

pub fn run() -> Result<()> {
    for program in ["tmux", "zsh", "fish"] {
        peers::system_package(program, program)?;
    }
    let place = Furnished::new(&built()?)?;
    let mut tally = Tally::new("shells");
    let runs = place.slipway(&["stack", "runs", "--root", "stack", "-o", "json"])?;
    let runs: Value = serde_json::from_str(&runs)?;
    let id = runs[0]["runId"].as_str().context("the id of a run")?;
    let status = "slipway stack status --root stack --run-id";
    let (typed, expected) = (format!("{status} {}", &id[..6]), format!("{status} {id}"));
    let cases = [CASES, &[(&typed, &expected)]].concat();
    for real in SHELLS {
        for (typed, expected) in &cases {
            let line = place.complete(real, typed)?;
            let agrees = line.split_whitespace().collect::<Vec<_>>()
                == expected.split_whitespace().collect::<Vec<_>>();
            tally.count(&format!("{}: `{typed}` becomes `{line}`, not `{expected}`", real.name), agrees);
        }
    }
    tally.finish()
}

/// A home directory with something of everything that is completed.
struct Furnished {
    home: PathBuf,
    path: String,
    /// The number of the terminal server in use: one that was told to end may still hold its socket.
    server: Cell<usize>,
}

impl Furnished {
    fn new(slipway: &Path) -> Result<Self> {
        let home = peers::cache()?.join("shells");
        let _ = fs::remove_dir_all(&home);
        fs::create_dir_all(home.join("bin"))?;
        fs::copy(slipway, home.join("bin/slipway"))?;
        let path = format!("{}:{}", home.join("bin").display(), std::env::var("PATH").unwrap_or_default());
        let place = Self { home, path, server: Cell::new(0) };
        for (name, text) in [
            (
                ".kube/config",
                "apiVersion: v1\nkind: Config\ncontexts:\n- {name: staging, context: {cluster: c, user: u}}\n\
                 - {name: production, context: {cluster: c, user: u}}\nclusters:\n- {name: c, cluster: {server: 'https://127.0.0.1:1'}}\n\
                 users:\n- {name: u, user: {}}\n",
            ),
            (
                "book.yaml",
                "apiVersion: khook.io/v1\nkind: Khook\nmetadata: {name: b}\nsteps:\n- name: install-cni\n- name: verify\n",
            ),
            ("stack/stack.yaml", "apiVersion: ktl.dev/v1\nkind: Stack\nname: shop\n"),
            (
                "stack/checkout/release.yaml",
                "apiVersion: ktl.dev/v1\nkind: Release\nname: checkout\nnamespace: shop\nchart: ./chart\n",
            ),
            ("stack/checkout/chart/Chart.yaml", "apiVersion: v2\nname: checkout\nversion: 1.0.0\n"),
            (
                "stack/checkout/chart/templates/all.yaml",
                "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: checkout}\n",
            ),
            (
                ".config/helm/repositories.yaml",
                "apiVersion: ''\nrepositories:\n- {name: repo, url: 'https://charts.invalid'}\n",
            ),
            (
                ".cache/helm/repository/repo-index.yaml",
                "apiVersion: v1\nentries:\n  webshop:\n  - {apiVersion: v2, name: webshop, version: 1.2.3, urls: [webshop-1.2.3.tgz]}\n",
            ),
            ("examples/.keep", ""),
            (
                "pipeline.yaml",
                "apiVersion: kardinal.io/v1alpha1\nkind: Pipeline\nmetadata: {name: payments, namespace: default}\nspec:\n  \
                 git: {url: 'https://git.invalid/x'}\n  environments: [{name: test}]\n",
            ),
        ] {
            let file = place.home.join(name);
            fs::create_dir_all(file.parent().context("a directory")?)?;
            fs::write(file, text)?;
        }
        let chart = shell::root().join("examples/charts/shop");
        place.slipway(&["sandbox", "up", "--detach", "--speed", "max"])?;
        place.slipway(&["apply", "demo", &chart.display().to_string(), "--sandbox"])?;
        let definitions = shell::root().join("deploy/crds");
        place.slipway(&["apply", "definitions", &definitions.display().to_string(), "--sandbox"])?;
        place.slipway(&["apply", "pipelines", "pipeline.yaml", "--sandbox"])?;
        place.slipway(&["stack", "apply", "--root", "stack", "--sandbox", "--yes"])?;
        Ok(place)
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.home).env_clear().env("HOME", &self.home).env("PATH", &self.path);
        command.env("TERM", "xterm").env("LANG", "C.UTF-8");
        command
    }

    fn slipway(&self, words: &[&str]) -> Result<String> {
        shell::output(self.command("slipway").args(words))
    }

    fn tmux(&self, words: &[&str]) -> Result<String> {
        let socket = self.home.join(format!("tmux-{}", self.server.get())).display().to_string();
        shell::output(self.command("tmux").args(["-S", &socket, "-f", "/dev/null"]).args(words))
    }

    /// The last line of a shell in which a line was begun and Tab was pressed.
    fn complete(&self, real: &RealShell, typed: &str) -> Result<String> {
        let start = [&["new-session", "-d", "-s", "shell", "-x", "120", "-y", "30"], real.start].concat();
        self.server.set(self.server.get() + 1);
        self.tmux(&start)?;
        let completed = self.complete_in_session(real, typed);
        let ended = self.tmux(&["kill-server"]);
        let completed = completed?;
        ended?;
        Ok(completed)
    }

    fn complete_in_session(&self, real: &RealShell, typed: &str) -> Result<String> {
        self.type_text(real.prepare)?;
        self.tmux(&["send-keys", "-t", "shell", "Enter"])?;
        self.type_text("clear; echo pre\"\"pared")?;
        self.tmux(&["send-keys", "-t", "shell", "Enter"])?;
        self.wait(|screen| screen.lines().any(|line| line == "prepared"))?;
        self.type_text(typed)?;
        self.wait(|screen| screen.contains(typed.trim_end()))?;
        self.tmux(&["send-keys", "-t", "shell", "Tab"])?;
        // The shell has answered once the line is another; one that stays as it is differs from what is expected.
        let screen = self.wait(|screen| line_of(screen).is_some_and(|line| line.trim() != typed.trim()));
        let screen = screen.or_else(|_| self.screen())?;
        line_of(&screen).context("the line is gone")
    }

    fn type_text(&self, text: &str) -> Result<()> {
        self.tmux(&["send-keys", "-t", "shell", "-l", text]).map(drop)
    }

    fn screen(&self) -> Result<String> {
        self.tmux(&["capture-pane", "-p", "-t", "shell"])
    }

    fn wait(&self, is_shown: impl Fn(&str) -> bool) -> Result<String> {
        let end = Instant::now() + PATIENCE;
        loop {
            let screen = self.screen()?;
            if is_shown(&screen) {
                return Ok(screen);
            }
            if Instant::now() > end {
                bail!("the shell shows\n{screen}");
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Furnished {
    fn drop(&mut self) {
        let _ = self.slipway(&["sandbox", "down"]);
    }
}

/// The line that is being typed, without the prompt.
fn line_of(screen: &str) -> Option<String> {
    let line = screen.lines().rev().find(|line| line.contains("slipway "))?;
    line.find("slipway ").map(|at| line[at..].trim_end().to_owned())
}
