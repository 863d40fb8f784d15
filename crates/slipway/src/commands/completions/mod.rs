//! `slipway completions SHELL`: the script for a shell, and the answers the script asks for while a user types.
//!
//! Commands and flags come from the command tree, values from where they live: releases and namespaces from the cluster,
//! contexts from the kubeconfig, charts from the repositories that were added, runs from their records ([`values`]).

mod values;

use std::ffi::{OsStr, OsString};

use clap::{Command, CommandFactory};
use clap_complete::engine::ArgValueCompleter;
use clap_complete::env::Shells;

use crate::cli::Cli;
use crate::config;
use crate::exit::Exit;
use crate::term::show;
use values::{TypedLine, ValueSource, source_of};

/// Set by the scripts when they ask for answers; its value is the shell.
pub const ASKING_SHELL: &str = "_SLIPWAY_COMPLETE";
/// Set by the scripts: the position of the word under the cursor. Without it, that is the last word.
const WORD_INDEX: &str = "_CLAP_COMPLETE_INDEX";

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The shell to complete for
    shell: clap_complete::Shell,
}

pub fn run(args: &Args) -> anyhow::Result<Exit> {
    let shells = Shells::builtins();
    let Some(shell) = shells.completer(&args.shell.to_string()) else {
        anyhow::bail!("there are no completions for {}", args.shell)
    };
    let mut script = Vec::new();
    shell.write_registration(ASKING_SHELL, "slipway", "slipway", "slipway", &mut script)?;
    show::data(script)?;
    Ok(Exit::Done)
}

/// Answers the script of a shell: prints what may stand in place of the word under the cursor. A question that makes no
/// sense has no answer, and nothing is said about it: the user is typing.
pub fn answer(shell: &OsStr, words: &[OsString]) -> Exit {
    let shells = Shells::builtins();
    let Some(shell) = shell.to_str().and_then(|name| shells.completer(name)) else { return Exit::Usage };
    let words: Vec<OsString> = words.iter().skip_while(|word| *word != "--").skip(1).cloned().collect();
    let index = config::variable(WORD_INDEX).and_then(|index| index.to_str()?.parse().ok());
    let typed = TypedLine::new(&words, index.unwrap_or_else(|| words.len().saturating_sub(1)));
    let mut answer = Vec::new();
    let directory = std::env::current_dir().ok();
    match shell.write_complete(&mut tree(&typed), words, directory.as_deref(), &mut answer) {
        Ok(()) if show::data(answer).is_ok() => Exit::Done,
        _ => Exit::Failed,
    }
}

/// The command tree, whose arguments know their values.
fn tree(typed: &TypedLine) -> Command {
    let mut root = Cli::command();
    root.build();
    with_values(root, "", typed)
}

fn with_values(command: Command, path: &str, typed: &TypedLine) -> Command {
    let command = command.mut_args(|arg| {
        let arg = match source_of(path, arg.get_id().as_str()) {
            Some(source) => arg.add(completer(source, typed.clone())),
            None => arg,
        };
        // Flags are offered to those who begin one, and where nothing else fits.
        let is_hidden = arg.is_hide_set() || (!arg.is_positional() && !typed.begins_flag());
        arg.hide(is_hidden)
    });
    command.mut_subcommands(|child| {
        let path = format!("{path} {}", child.get_name());
        with_values(child, path.trim_start(), typed)
    })
}

fn completer(source: ValueSource, typed: TypedLine) -> ArgValueCompleter {
    ArgValueCompleter::new(move |word: &OsStr| source.candidates(&typed, word))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns true if the command, or one below it, takes the argument.
    fn exists(command: &Command, path: &str, argument: &str) -> bool {
        let (first, rest) = path.split_once(' ').unwrap_or((path, ""));
        if !first.is_empty() {
            return command.find_subcommand(first).is_some_and(|child| exists(child, rest, argument));
        }
        command.get_arguments().any(|arg| arg.get_id() == argument)
            || command.get_subcommands().any(|child| exists(child, "", argument))
    }

    #[test]
    fn every_argument_with_live_values_exists() {
        let mut root = Cli::command();
        root.build();
        for (path, argument, _) in values::SOURCES {
            assert!(exists(&root, path, argument), "{path}: {argument}");
        }
    }

    /// A release is asked for by its name alone, so a name that is not completed is a name that has to be remembered.
    #[test]
    fn arguments_named_alike_have_the_same_values() {
        let mut root = Cli::command();
        root.build();
        let named_alike = ["pipeline", "bundle", "gate", "run_id", "rerun"];
        let mut pending: Vec<(String, &Command)> = vec![(String::new(), &root)];
        while let Some((path, command)) = pending.pop() {
            for arg in command.get_arguments().filter(|arg| arg.get_action().takes_values()) {
                let id = arg.get_id().as_str();
                assert!(
                    !named_alike.contains(&id) || source_of(&path, id).is_some(),
                    "`{path}` takes `{id}`, and nothing completes it"
                );
            }
            for child in command.get_subcommands() {
                pending.push((format!("{path} {}", child.get_name()).trim_start().to_owned(), child));
            }
        }
    }
}
