//! Help pages: `-h` fits a screen, `--help` says everything.

use clap::builder::{ArgExt, StyledStr};
use clap::{Arg, Command};

use crate::cli::STYLES;
use crate::examples::tree_with_examples;

/// Commands with at most as many flags of their own show all of them with `-h`.
const FEW_FLAGS: usize = 14;

/// Marks a flag that `-h` shows of a command with many, or a global one that `-h` shows: `#[arg(long, add = Usual)]`.
#[derive(Clone, Copy, Debug)]
pub struct Usual;

impl ArgExt for Usual {}

/// The commands below the headings the first page shows.
const GROUPS: &[(&str, &[&str])] = &[
    (
        "Releases",
        &[
            "render", "plan", "apply", "rollback", "delete", "list", "status", "history", "get", "diff",
            "logs", "test",
        ],
    ),
    ("Charts, packages and kustomizations", &["lint", "chart", "repo", "package", "kustomize", "secrets"]),
    ("Many releases", &["stack", "run", "unit"]),
    (
        "Promotion through environments",
        &["pipeline", "bundle", "gate", "audit", "doctor", "controller", "agent"],
    ),
    ("Tools", &["sandbox", "graph", "config", "completions", "man"]),
];

/// The command tree as help pages show it.
pub fn help_pages() -> Command {
    let root = tree_with_examples();
    let template = first_page(&root);
    shorten(root, "slipway").help_template(template)
}

/// The first page, with its commands in groups.
fn first_page(root: &Command) -> StyledStr {
    let (heading, name) = (STYLES.get_header(), STYLES.get_literal());
    let width = root.get_subcommands().map(|command| command.get_name().len()).max().unwrap_or_default();
    let mut page = String::from("{about-with-newline}\n{usage-heading} {usage}\n");
    for (group, commands) in GROUPS {
        page.push_str(&format!("\n{heading}{group}:{heading:#}\n"));
        for command in commands.iter().filter_map(|name| root.find_subcommand(name)) {
            let word = command.get_name();
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            let gap = " ".repeat(width - word.len() + 2);
            page.push_str(&format!("  {name}{word}{name:#}{gap}{about}\n"));
        }
    }
    page.push_str(&format!("\n{heading}Options:{heading:#}\n{{options}}{{after-help}}"));
    page.into()
}

/// Leaves out of `-h` what few people look for, and says so.
fn shorten(command: Command, name: &str) -> Command {
    let is_flag = |arg: &&Arg| !arg.is_positional() && !arg.is_hide_set() && !is_help(arg);
    let own = command.get_arguments().filter(is_flag).filter(|arg| !arg.is_global_set()).count();
    let is_shown = |arg: &Arg| {
        let is_one_of_few = own <= FEW_FLAGS && !arg.is_global_set();
        is_one_of_few || is_help(arg) || arg.get::<Usual>().is_some()
    };
    let command = command.mut_args(|arg| match arg.is_positional() || is_shown(&arg) {
        true => arg,
        false => arg.hide_short_help(true),
    });
    let after = command.get_after_help().map(|help| format!("{help}\n\n")).unwrap_or_default();
    let long = command.get_after_long_help().or(command.get_after_help()).cloned();
    let command = command.after_help(format!("{after}`{name} --help` shows all options."));
    let command = match long {
        Some(long) => command.after_long_help(long),
        None => command,
    };
    command.mut_subcommands(|child| {
        let name = format!("{name} {}", child.get_name());
        shorten(child, &name)
    })
}

fn is_help(arg: &Arg) -> bool {
    matches!(arg.get_id().as_str(), "help" | "version")
        && matches!(
            arg.get_action(),
            clap::ArgAction::Help
                | clap::ArgAction::HelpShort
                | clap::ArgAction::HelpLong
                | clap::ArgAction::Version
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_page_has_every_command_once() {
        let root = tree_with_examples();
        let mut shown: Vec<&str> = GROUPS.iter().flat_map(|(_, commands)| *commands).copied().collect();
        let visible = root.get_subcommands().filter(|command| !command.is_hide_set());
        let mut known: Vec<&str> = visible.map(Command::get_name).collect();
        shown.sort_unstable();
        known.sort_unstable();
        assert_eq!(shown, known);
    }

    /// Lines of a short page; the first one names every command.
    const MOST_LINES: usize = 64;

    #[test]
    fn short_pages_fit_a_screen_and_long_ones_say_everything() {
        fn look(command: &mut Command, path: &str, too_long: &mut Vec<String>) {
            let (short, long) = (command.render_help().to_string(), command.render_long_help().to_string());
            if short.lines().count() > MOST_LINES {
                too_long.push(format!("{path}: {}", short.lines().count()));
            }
            assert!(short.contains("--help` shows all options"), "{path}: {short}");
            let flags = command.get_arguments().filter(|arg| !arg.is_hide_set() && !arg.is_positional());
            for flag in flags.filter_map(Arg::get_long) {
                assert!(long.contains(&format!("--{flag}")), "{path} --help says nothing of --{flag}");
            }
            for child in command.get_subcommands_mut().filter(|child| !child.is_hide_set()) {
                let path = format!("{path} {}", child.get_name());
                look(child, &path, too_long);
            }
        }
        let mut too_long = Vec::new();
        look(&mut help_pages(), "slipway", &mut too_long);
        assert_eq!(too_long, Vec::<String>::new());
    }
}
