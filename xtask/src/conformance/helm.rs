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
    // The words around the message are each program's own: Helm points to its --debug flag, we say what to do. Helm
    // lists what a schema refuses in random order.
    let message = |output: &Output| {
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        let start = text.to_lowercase().find("error: ").map_or(0, |at| at + "error: ".len());
        let said = text[start..].split("\n\nUse --debug").next().unwrap_or_default();
        let said = said.split("\n  hint: ").next().unwrap_or_default().trim_end();
        let mut lines: Vec<String> = said.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    message(theirs) == message(ours)
}
