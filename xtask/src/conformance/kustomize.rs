//! Every kustomization of the test cases, built by the real kustomize and by us.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};

use super::{Tally, built};
use crate::{peers, shell};

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
    tally.finish()
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
