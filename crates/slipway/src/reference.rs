//! The command reference as Markdown, made from the command tree itself so that it cannot lag behind.

use std::fmt::Write;

use clap::{Arg, Command, CommandFactory};

use crate::cli::Cli;
use crate::examples::tree_with_examples;

/// Describes every visible command and flag.
pub fn markdown() -> String {
    let root = tree_with_examples();
    let mut page = String::from(
        "# Command line\n\n<!-- Made by `cargo xtask docs` from the command tree; do not edit. -->\n\n",
    );
    page.push_str("## Global options\n\nEvery command takes these.\n\n");
    options(&mut page, root.get_arguments().filter(|arg| arg.is_global_set()));
    for command in root.get_subcommands().filter(|command| !command.is_hide_set()) {
        describe(&mut page, command, "slipway");
    }
    page
}

/// Lists the flags each command takes, hidden ones and other spellings included: `apply: --atomic --auto-rollback …`.
pub fn flag_list() -> String {
    let mut root = Cli::command();
    root.build();
    let mut list = String::new();
    for command in root.get_subcommands() {
        list_flags(&mut list, command, "");
    }
    list
}

fn list_flags(list: &mut String, command: &Command, parent: &str) {
    let name = format!("{parent}{}", command.get_name());
    let _ = write!(list, "{name}:");
    for arg in command.get_arguments() {
        let aliases = arg.get_all_aliases().unwrap_or_default();
        for spelling in arg.get_long().into_iter().chain(aliases) {
            let _ = write!(list, " --{spelling}");
        }
    }
    list.push('\n');
    for child in command.get_subcommands() {
        list_flags(list, child, &format!("{name} "));
    }
}

fn describe(page: &mut String, command: &Command, parent: &str) {
    let name = format!("{parent} {}", command.get_name());
    let _ = write!(page, "\n## `{name}`\n\n");
    if let Some(about) = command.get_long_about().or(command.get_about()) {
        let _ = write!(page, "{}\n\n", about.to_string().trim_end());
    }
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ").trim();
    let _ = write!(page, "```text\n{usage}\n```\n\n");
    options(page, command.get_arguments().filter(|arg| !arg.is_global_set()));
    if let Some(after) = command.get_after_help() {
        let _ = write!(page, "\n{}\n", after.to_string().trim_end());
    }
    for child in command.get_subcommands().filter(|child| !child.is_hide_set()) {
        describe(page, child, &name);
    }
}

fn options<'a>(page: &mut String, args: impl Iterator<Item = &'a Arg>) {
    let shown: Vec<&Arg> = args
        .filter(|arg| !arg.is_hide_set() && !["help", "version"].contains(&arg.get_id().as_str()))
        .collect();
    if shown.is_empty() {
        return;
    }
    page.push_str("| option | meaning |\n| --- | --- |\n");
    for arg in shown {
        let _ = writeln!(page, "| {} | {} |", spelling(arg), meaning(arg));
    }
}

fn spelling(arg: &Arg) -> String {
    let takes_value = arg.get_action().takes_values();
    let value = arg.get_value_names().map(|names| names.join(" ")).unwrap_or_default();
    let mut spellings = Vec::new();
    spellings.extend(arg.get_short().map(|short| format!("-{short}")));
    spellings.extend(arg.get_long().map(|long| format!("--{long}")));
    if spellings.is_empty() {
        return format!("`{value}`");
    }
    let spelled = spellings.join(", ");
    if takes_value && !value.is_empty() { format!("`{spelled} {value}`") } else { format!("`{spelled}`") }
}

fn meaning(arg: &Arg) -> String {
    let mut text = arg.get_long_help().or(arg.get_help()).map(ToString::to_string).unwrap_or_default();
    text = text.replace('\n', " ").replace('|', "\\|");
    let values: Vec<String> = if arg.get_action().takes_values() {
        let known = arg.get_possible_values();
        known
            .iter()
            .filter(|value| !value.is_hide_set())
            .map(|value| format!("`{}`", value.get_name()))
            .collect()
    } else {
        Vec::new()
    };
    if !values.is_empty() {
        let _ = write!(text, " ({})", values.join(", "));
    }
    let defaults: Vec<_> = arg.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    if arg.get_action().takes_values() && !defaults.is_empty() {
        let _ = write!(text, "; default `{}`", defaults.join(","));
    }
    text
}
