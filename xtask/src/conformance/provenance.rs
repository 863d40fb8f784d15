//! Signed charts: keyrings made by GnuPG, good and bad, judged by GnuPG and by us.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Map, Value};

use super::{Tally, built};
use crate::{peers, shell};

/// Good for GnuPG and not for us: no library of ours checks RSA with SHA-224.
const STRICTER: [&str; 1] = ["digest-sha224"];

pub fn run() -> Result<()> {
    peers::gnupg()?;
    let slipway = built()?;
    let directory = peers::cache()?.join("provenance");
    if directory.exists() {
        fs::remove_dir_all(&directory)?;
    }
    fs::create_dir_all(&directory)?;
    let script = shell::root().join("conformance/provenance.py");
    shell::run(Command::new("python3").arg("-B").arg(script).arg(&directory))?;
    let verdicts = fs::read_to_string(directory.join("verdicts.json")).context("read the verdicts")?;
    let verdicts: Map<String, Value> = serde_json::from_str(&verdicts)?;
    let mut tally = Tally::new("provenance");
    println!("{:<44} {:<10} slipway", "case", "gpg");
    for (name, verdict) in &verdicts {
        let gpg = verdict.as_str().unwrap_or_default();
        let case = directory.join(name);
        let output = Command::new(&slipway)
            .args(["chart", "verify"])
            .arg(case.join("web-0.1.0.tgz"))
            .arg("--keyring")
            .arg(case.join("keyring.gpg"))
            .output()?;
        let ours = output.status.success();
        println!("{name:<44} {gpg:<10} {}", if ours { "good" } else { "refused" });
        tally.count(name, ours == (gpg == "good" && !STRICTER.contains(&name.as_str())));
    }
    tally.finish()
}
