//! Every kustomization of the test cases, those below the directories `SLIPWAY_KUSTOMIZATIONS` lists and
//! many made-up ones, built by the real kustomize and by us.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use anyhow::{Context, Result, bail};

use super::{Tally, built, random};
use crate::{peers, shell};

/// How many made-up kustomizations are built unless `SLIPWAY_SEEDS=FROM..TO` says which.
const SEEDS: u64 = 1500;

pub fn run() -> Result<()> {
    let theirs = peers::kustomize()?;
    let ours = built()?;
    let mut tally = Tally::new("kustomize");
    for case in cases(&shell::root().join("crates/kustomize/tests/cases"))? {
        let real = Command::new(&theirs).arg("build").arg(&case).output()?;
        let mine = Command::new(&ours).args(["kustomize", "build"]).arg(&case).output()?;
        let name = case.strip_prefix(shell::root()).unwrap_or(&case).display().to_string();
        // What the real one refuses we may know how to build, and some it builds we refuse on purpose:
        // the crate's own tests say which. Where both build, the bytes agree.
        let both = real.status.success() && mine.status.success();
        tally.count(&name, !both || real.stdout == mine.stdout);
    }
    tally.finish()?;
    if let Some(listed) = std::env::var_os("SLIPWAY_KUSTOMIZATIONS") {
        found(std::env::split_paths(&listed), &theirs, &ours)?;
    }
    made_up(&theirs, &ours)
}

/// Builds every kustomization below some directories: what people wrote, not what we made up. Those that
/// fetch something, or use what we refuse on purpose, are counted apart.
fn found(roots: impl Iterator<Item = PathBuf>, theirs: &Path, ours: &Path) -> Result<()> {
    const NAMES: [&str; 3] = ["kustomization.yaml", "kustomization.yml", "Kustomization"];
    let mut directories = Vec::new();
    let mut pending: Vec<PathBuf> = roots.collect();
    while let Some(directory) = pending.pop() {
        if NAMES.iter().any(|name| directory.join(name).is_file()) {
            directories.push(directory.clone());
        }
        for entry in fs::read_dir(&directory).with_context(|| format!("read {}", directory.display()))? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                pending.push(entry.path());
            }
        }
    }
    directories.sort();
    let mut tally = Tally::new("kustomize, found");
    let (mut remote, mut unsupported, mut refused) = (0, 0, 0);
    for directory in directories {
        let mine = Command::new(ours).args(["kustomize", "build"]).arg(&directory).output()?;
        let said = String::from_utf8_lossy(&mine.stderr);
        let count = if said.contains("[KZ002]") {
            &mut remote
        } else if said.contains("[KZ001]") {
            &mut unsupported
        } else {
            let real = Command::new(theirs).arg("build").arg(&directory).output()?;
            let same = match (real.status.success(), mine.status.success()) {
                (true, true) => real.stdout == mine.stdout,
                (false, false) => is_refusal(&mine.status),
                _ => false,
            };
            tally.count(&directory.display().to_string(), same);
            if real.status.success() {
                continue;
            }
            &mut refused
        };
        *count += 1;
    }
    println!(
        "kustomize, found: both refuse {refused}; left out: {remote} fetch something, {unsupported} need what we refuse"
    );
    tally.finish()
}

/// Made-up kustomizations that are known to differ, and why.
const KNOWN: &[(u64, &str)] = &[
    (192, "text put into a field by ValueAddTransformer is quoted once a strategic patch touches the object"),
    (693, "a validator whose patch changes nothing is refused there for the style of nodes"),
    (699, "a name two objects get by a JSON patch is refused there once transformers run"),
];

/// Builds made-up kustomizations; those that differ stay on disk with both answers.
fn made_up(theirs: &Path, ours: &Path) -> Result<()> {
    let (from, to) = match std::env::var("SLIPWAY_SEEDS") {
        Err(_) => (0, SEEDS),
        Ok(text) => {
            let (from, to) = text.split_once("..").context("SLIPWAY_SEEDS is written FROM..TO")?;
            (from.parse()?, to.parse()?)
        }
    };
    let place = shell::target().join("conformance/kustomize");
    let next = AtomicU64::new(from);
    let work = || -> Result<Vec<(String, Answers)>> {
        let mut answers = Vec::new();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= to {
                return Ok(answers);
            }
            answers.push((format!("seed {seed}"), one(seed, &place, theirs, ours)?));
        }
    };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let answers: Vec<Result<Vec<_>>> = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers
            .into_iter()
            .map(|worker| worker.join().unwrap_or_else(|_| bail!("a worker panicked")))
            .collect()
    });
    let mut tally = Tally::new("kustomize, made up");
    let (mut refused, mut crashed) = (0, 0);
    for (name, answer) in answers.into_iter().collect::<Result<Vec<_>>>()?.into_iter().flatten() {
        refused += usize::from(answer == Answers::BothRefuse);
        crashed += usize::from(answer == Answers::Crash);
        match KNOWN.iter().find(|(seed, _)| name == format!("seed {seed}")) {
            Some((seed, why)) => println!("kustomize, made up: seed {seed} is known to differ: {why}"),
            None => tally.count(&name, answer != Answers::Differ),
        }
    }
    println!(
        "kustomize, made up: both refuse {refused}, the real one crashes {crashed}; what differs is in {}",
        place.display()
    );
    tally.finish()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Answers {
    Same,
    BothRefuse,
    /// The real one crashes.
    Crash,
    Differ,
}

fn one(seed: u64, place: &Path, theirs: &Path, ours: &Path) -> Result<Answers> {
    let root = place.join(seed.to_string());
    if root.exists() {
        fs::remove_dir_all(&root)?;
    }
    for (path, text) in random::kustomization(seed) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().context("files lie in directories")?)?;
        fs::write(path, text)?;
    }
    let real = Command::new(theirs).arg("build").arg(&root).output()?;
    let mine = Command::new(ours).args(["kustomize", "build"]).arg(&root).output()?;
    let answers = match (real.status.success(), mine.status.success()) {
        (true, true) if real.stdout == mine.stdout => Answers::Same,
        (false, false) if is_refusal(&mine.status) => Answers::BothRefuse,
        // A crash is no answer to compare with.
        (false, _)
            if real.stderr.windows(7).any(|seen| seen == b"\npanic:")
                || real.stderr.starts_with(b"panic:") =>
        {
            Answers::Crash
        }
        _ => Answers::Differ,
    };
    if answers == Answers::Differ {
        keep(&root, "theirs", &real)?;
        keep(&root, "ours", &mine)?;
    } else {
        fs::remove_dir_all(&root)?;
    }
    Ok(answers)
}

fn keep(root: &Path, name: &str, answer: &Output) -> Result<()> {
    fs::write(root.join(format!("{name}.out")), &answer.stdout)?;
    Ok(fs::write(root.join(format!("{name}.err")), &answer.stderr)?)
}

/// The root to build of every case below `root`, in order: a `result.txt` says which of `in/` it is.
fn cases(root: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut pending = vec![root.to_owned()];
    while let Some(directory) = pending.pop() {
        for entry in fs::read_dir(&directory)? {
            let path = entry?.path();
            if path.is_dir() {
                pending.push(path);
            } else if path.ends_with("result.txt") {
                let text = fs::read_to_string(&path)?;
                let inner = text.lines().find_map(|line| line.strip_prefix("root: ")).unwrap_or(".");
                found.push(path.with_file_name("in").join(inner));
            }
        }
    }
    if found.is_empty() {
        bail!("{} holds no cases", root.display());
    }
    found.sort();
    Ok(found)
}

/// Returns true if a build ended as one that is refused does: failed, or with files that are wrong.
fn is_refusal(status: &ExitStatus) -> bool {
    matches!(status.code(), Some(1 | 10))
}
