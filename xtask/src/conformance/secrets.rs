//! Secrets: AWS as moto plays it, a file and a program, fetched by us.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Map, Value};

use super::{Tally, built};
use crate::{peers, shell};

/// AWS's services for tests, from Python.
const MOTO: &str = "moto[server]==5.2.5";

pub fn run() -> Result<()> {
    let packages = peers::python_package(MOTO)?;
    let slipway = built()?;
    let directory = peers::cache()?.join("secrets");
    if directory.exists() {
        fs::remove_dir_all(&directory)?;
    }
    fs::create_dir_all(&directory)?;
    let script = shell::root().join("conformance/secret_backends.py");
    let mut python = Command::new("python3");
    python.arg("-B").arg(script).arg(&slipway).arg(&directory).env("PYTHONPATH", packages);
    shell::run(&mut python)?;
    let verdicts = fs::read_to_string(directory.join("verdicts.json")).context("read the verdicts")?;
    let verdicts: Map<String, Value> = serde_json::from_str(&verdicts)?;
    let mut tally = Tally::new("secrets");
    for (name, verdict) in &verdicts {
        let agrees = verdict["expected"] == verdict["found"];
        tally.count(&format!("{name}: expected {}, found {}", verdict["expected"], verdict["found"]), agrees);
    }
    tally.finish()
}
