//! The commands people want next, with the flags that reach the same cluster.

use std::fmt::Write as _;
use std::sync::OnceLock;

use slipway_process::shell_word;
use slipway_release::{ReleaseReport, ReleaseStatus};

use crate::config::{Origin, Setting, Settings};
use crate::term::style::{DIM, HINT, paint};

/// The flags of this invocation that say which cluster and namespace.
static CLUSTER_FLAGS: OnceLock<String> = OnceLock::new();

/// A command without the program's name, and what it is for.
type NextCommand = (String, &'static str);

/// Keeps the flags that say which cluster and namespace; the first settings of a process count. Without them no commands
/// are named.
pub fn remember_cluster(settings: &Settings) {
    let Settings { sandbox, context, namespace, .. } = settings;
    CLUSTER_FLAGS.get_or_init(|| cluster_flags(*sandbox, context, namespace));
}

fn cluster_flags(
    sandbox: bool,
    context: &Setting<Option<String>>,
    namespace: &Setting<Option<String>>,
) -> String {
    let mut flags = String::new();
    if sandbox {
        flags.push_str(" --sandbox");
    }
    for (flag, setting) in [("--context", context), ("-n", namespace)] {
        if let (Some(value), Origin::Flag) = (&setting.value, &setting.origin) {
            let _ = write!(flags, " {flag} {}", shell_word(value));
        }
    }
    flags
}

/// Names the commands people want after a first install.
pub fn after_install(report: &ReleaseReport) {
    let name = &report.release;
    tell(&[
        (format!("status {name} --show-resources"), "its objects"),
        (format!("history {name}"), "its revisions"),
        (format!("delete {name}"), "remove it"),
    ]);
}

/// Names the commands people want after a run that failed, unless nothing is left of the release.
pub fn after_failure(report: &ReleaseReport) {
    let name = &report.release;
    match report.rollback.as_deref().map(|undone| undone.status) {
        Some(ReleaseStatus::Uninstalled) => {}
        Some(_) => tell(&[(format!("history {name}"), "what was tried, and what runs now")]),
        None => tell(&[
            (format!("status {name}"), "its objects, and what is wrong with them"),
            (format!("logs {name}"), "what its pods say"),
        ]),
    }
}

fn tell(commands: &[NextCommand]) {
    if let Some(flags) = CLUSTER_FLAGS.get() {
        lines(commands, flags).iter().for_each(|line| say!("{line}"));
    }
}

/// One line a command, the purposes below each other.
fn lines(commands: &[NextCommand], flags: &str) -> Vec<String> {
    let width = commands.iter().map(|(command, _)| command.chars().count()).max().unwrap_or_default();
    let mut word = paint(HINT, "next:");
    let line = |(command, purpose): &NextCommand| {
        let gap = " ".repeat(width - command.chars().count() + 2);
        let word = std::mem::replace(&mut word, " ".repeat("next:".len()));
        format!("{word} slipway {command}{flags}{gap}{}", paint(DIM, format!("# {purpose}")))
    };
    commands.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::term::escape::{Colors, Controls, settle};

    #[test]
    fn flags_can_be_pasted_whatever_names_hold() {
        let given = |text: &str| Setting { value: Some(text.to_owned()), origin: Origin::Flag };
        let flags = cluster_flags(false, &given("my cluster's"), &given("shop"));
        assert_eq!(flags, r" --context 'my cluster'\''s' -n shop");
    }

    #[test]
    fn purposes_stand_below_each_other() {
        let commands = [("status web".to_owned(), "its objects"), ("delete web".to_owned(), "remove it")];
        let commands = [commands[0].clone(), ("logs w".to_owned(), "what it says"), commands[1].clone()];
        let told: Vec<String> = lines(&commands, " --sandbox")
            .iter()
            .map(|line| settle(line, Colors::Drop, Controls::Show))
            .collect();
        assert_eq!(
            told,
            [
                "next: slipway status web --sandbox  # its objects",
                "      slipway logs w --sandbox      # what it says",
                "      slipway delete web --sandbox  # remove it",
            ]
        );
    }
}
