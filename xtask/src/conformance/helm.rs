//! Every chart, rendered by real Helm and by us: the same bytes, or the same error.

use std::process::{Command, Output};

use anyhow::Result;

use super::{Tally, built};
use crate::{charts, peers};

pub fn run() -> Result<()> {
    let helm = peers::helm()?;
    let slipway = built()?;
    let mut tally = Tally::new("helm");
    for rendering in charts::renderings()? {
        let theirs = Command::new(&helm).arg("template").args(rendering.words()).output()?;
        let ours = Command::new(&slipway).arg("render").args(rendering.words()).output()?;
        tally.count(&rendering.name(), agree(&theirs, &ours));
    }
    tally.finish()
}

fn agree(theirs: &Output, ours: &Output) -> bool {
    if theirs.status.success() != ours.status.success() {
        return false;
    }
    if theirs.status.success() {
        return theirs.stdout == ours.stdout;
    }
    // The words around the message are each program's own: Helm points to its --debug flag. Helm lists
    // what a schema refuses in random order.
    let message = |output: &Output| {
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        let start = text.to_lowercase().find("error: ").map_or(0, |at| at + "error: ".len());
        let said = text[start..].split("\n\nUse --debug").next().unwrap_or_default().trim_end();
        let mut lines: Vec<String> = said.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    message(theirs) == message(ours)
}
