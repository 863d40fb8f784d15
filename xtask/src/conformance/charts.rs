//! Charts and recorded answers that are not part of this repository: `SLIPWAY_CORPUS` names a directory of
//! charts, `SLIPWAY_SNIPPETS` a directory with `snippets.jsonl` and the chart they are put into.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::helm::message;
use super::{Tally, built, helm};
use crate::{charts, peers, shell};

pub fn run() -> Result<()> {
    let directory = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let (corpus, snippets) = (directory("SLIPWAY_CORPUS"), directory("SLIPWAY_SNIPPETS"));
    if corpus.is_none() && snippets.is_none() {
        bail!("set SLIPWAY_CORPUS to a directory of charts, or SLIPWAY_SNIPPETS to one of recorded snippets");
    }
    let slipway = built()?;
    let mut tally = Tally::new("charts");
    if let Some(corpus) = corpus {
        helm::compare(&peers::helm()?, &slipway, charts::renderings_in(&[corpus])?, &mut tally)?;
    }
    if let Some(snippets) = snippets {
        recorded(&snippets, &slipway, &mut tally)?;
    }
    tally.finish()
}

/// Each template in the chart it was recorded with: the same text, or the same message.
fn recorded(directory: &Path, slipway: &Path, tally: &mut Tally) -> Result<()> {
    let chart = shell::target().join("conformance/snippets");
    copy(&directory.join("fixture"), &chart)?;
    for line in fs::read_to_string(directory.join("snippets.jsonl"))?.lines() {
        let row: Value = serde_json::from_str(line).context("read snippets.jsonl")?;
        if row["deterministic"] == false {
            continue;
        }
        fs::write(chart.join("templates/_s.tpl"), row["template"].as_str().unwrap_or_default())?;
        let output = Command::new(slipway)
            .args(["render", "rel"])
            .arg(&chart)
            .args(["-n", "ns", "--kube-version", "1.33.0", "--include-crds"])
            .output()?;
        let same = if row["exit"] == 0 {
            // The fixture prints the text in base64 at the end.
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let last = text.trim_end().rsplit([' ', '\n']).next().unwrap_or_default().trim_matches('"');
            last == base64(row["output"].as_str().unwrap_or_default().as_bytes())
        } else {
            message(&String::from_utf8_lossy(&output.stderr))
                == message(row["stderr"].as_str().unwrap_or_default())
        };
        tally.count(row["id"].as_str().unwrap_or_default(), same);
    }
    Ok(())
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let bits =
            chunk.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for index in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * index) & 63) as usize];
            text.push(if index <= chunk.len() { char::from(letter) } else { '=' });
        }
    }
    text
}
