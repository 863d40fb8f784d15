//! Every chart, rendered by real Helm and by us: the same bytes, or the same error.

use std::path::Path;
use std::process::{Command, Output};

use anyhow::Result;

use super::{Tally, built};
use crate::charts::Rendering;
use crate::{charts, peers};

pub fn run() -> Result<()> {
    let helm = peers::helm()?;
    let slipway = built()?;
    let mut tally = Tally::new("helm");
    compare(&helm, &slipway, charts::renderings()?, &mut tally)?;
    tally.finish()
}

/// Renders everything with both.
pub(super) fn compare(
    helm: &Path,
    slipway: &Path,
    renderings: Vec<Rendering>,
    tally: &mut Tally,
) -> Result<()> {
    for rendering in renderings {
        let theirs = Command::new(helm).arg("template").args(rendering.words()).output()?;
        let ours = Command::new(slipway).arg("render").args(rendering.words()).output()?;
        let mut same = agree(&theirs, &ours);
        if !same && theirs.status.success() && ours.status.success() {
            // Passwords and certificates differ from run to run, in Helm's own output too.
            let again = Command::new(helm).arg("template").args(rendering.words()).output()?;
            same = agree_but_for_chance(&theirs.stdout, &again.stdout, &ours.stdout);
        }
        tally.count(&rendering.name(), same);
    }
    Ok(())
}

/// Whether we agree in every line that Helm itself repeats.
fn agree_but_for_chance(first: &[u8], again: &[u8], ours: &[u8]) -> bool {
    let lines =
        |text: &[u8]| -> Vec<Vec<u8>> { text.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect() };
    let (first, again, ours) = (lines(first), lines(again), lines(ours));
    first != again
        && first.len() == again.len()
        && first.len() == ours.len()
        && first.iter().zip(&again).zip(&ours).all(|((a, b), ours)| a != b || a == ours)
}

pub(super) fn agree(theirs: &Output, ours: &Output) -> bool {
    if theirs.status.success() != ours.status.success() {
        return false;
    }
    if theirs.status.success() {
        return theirs.stdout == ours.stdout;
    }
    let message = |output: &Output| message(&String::from_utf8_lossy(&output.stderr));
    message(theirs) == message(ours)
}

/// The lines of Helm's message in what a program said. The words around it are each program's own: Helm points to its --debug
/// flag, we show the place, say what to do and go on to the next mistake. Helm lists what a schema refuses in random order.
pub(super) fn message(said: &str) -> Vec<String> {
    let start = said.to_lowercase().find("error: ").map_or(0, |at| at + "error: ".len());
    let said = said[start..].split("\n\nUse --debug").next().unwrap_or_default();
    let is_ours = |line: &&str| ["--> ", "hint: "].iter().any(|mark| line.trim_start().starts_with(mark));
    let lines = said.lines().take_while(|line| !is_ours(line)).filter(|line| !line.is_empty());
    let mut lines: Vec<String> = lines.map(str::to_owned).collect();
    lines.sort();
    lines
}
