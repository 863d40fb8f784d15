//! Helm 4: what it renders beside us, and releases that each carries on for the other on the sandbox.

use std::fs;

use anyhow::Result;

use super::{built, compare_by_script};
use crate::{charts, peers, shell};

pub fn run() -> Result<()> {
    let list = shell::target().join("conformance/helm4.jsonl");
    let mut lines = String::new();
    for rendering in charts::renderings()? {
        lines.push_str(&serde_json::to_string(&rendering.words())?);
        lines.push('\n');
    }
    fs::create_dir_all(shell::target().join("conformance"))?;
    fs::write(&list, lines)?;
    compare_by_script("helm4", "helm4.py", &[built()?, peers::helm4()?, list], Some("pyyaml"))
}
