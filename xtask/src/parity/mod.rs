//! The page that says, for every command and flag of Helm and Nelm, what does the same here.
//!
//! `*.txt` beside this file list what the other programs take: `cargo xtask parity` writes Helm's from its own help; Nelm's is
//! taken from its reference. `answers.txt` is written by hand: the command that does the same, and for flags we do not take
//! under that name, what there is instead. Whether we take a flag is read from our own command tree, so the page cannot promise
//! one that is not there.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{peers, shell};

/// Another program: its name in the answers, its title, and the file with its flags.
struct Peer {
    word: &'static str,
    title: &'static str,
    file: &'static str,
}

const PEERS: [Peer; 3] = [
    Peer { word: "helm", title: "Helm 3.17", file: "helm-3.17.txt" },
    Peer { word: "helm", title: "Helm 4.3", file: "helm-4.3.txt" },
    Peer { word: "nelm", title: "Nelm 1.30", file: "nelm-1.30.txt" },
];

/// Flags of every command stand under this name.
const EVERYWHERE: &str = "*";

/// Commands with their flags, in the order of the list.
type FlagList = Vec<(String, Vec<String>)>;

/// What is said by hand of a command or a flag.
#[derive(Clone, Debug)]
enum Answer {
    /// Ours that does the same.
    Ours(String),
    /// It is not needed, or not wanted, for a reason.
    Refused(String),
}

/// Answers by program, command and flag; the flag is empty for the command itself.
type Answers = BTreeMap<(String, String, String), Answer>;

/// Writes the lists of Helm's flags from its own help.
pub fn write_lists() -> Result<()> {
    for (program, file) in [(peers::helm()?, PEERS[0].file), (peers::helm4()?, PEERS[1].file)] {
        let mut list = String::new();
        read_help(&program, &[], &mut list)?;
        fs::write(place(file), list)?;
        eprintln!("wrote {}", place(file).display());
    }
    Ok(())
}

/// Makes the page from the lists, the answers and our own flags.
pub fn page(slipway: &Path) -> Result<String> {
    let ours: BTreeMap<String, BTreeSet<String>> =
        parse_list(&shell::output(Command::new(slipway).args(["reference", "flags"]))?)
            .into_iter()
            .map(|(command, flags)| (command, flags.into_iter().collect()))
            .collect();
    let answers = parse_answers(&fs::read_to_string(place("answers.txt"))?)?;
    let mut page = String::from(
        "# Commands and flags of Helm and Nelm\n\n<!-- Made by `cargo xtask docs` from the programs' own lists; do not edit. -->\n\n\
         Every command and flag of Helm 3.17, Helm 4.3 and Nelm 1.30, with what does the same here. *Open* is what we lack and mean\n\
         to have.\n\n",
    );
    let mut body = String::new();
    page.push_str("| program | flags | same name | another name | not needed or refused | open |\n| --- | --- | --- | --- | --- | --- |\n");
    for peer in &PEERS {
        let list = parse_list(&fs::read_to_string(place(peer.file))?);
        let counts = describe(peer, &list, &answers, &ours, &mut body)?;
        let _ = writeln!(
            page,
            "| {} | {} | {} | {} | {} | {} |",
            peer.title,
            counts.iter().sum::<usize>(),
            counts[0],
            counts[1],
            counts[2],
            counts[3]
        );
    }
    page.push_str(&body);
    Ok(page)
}

/// Describes one program; gives how many flags have the same name, another, none for a reason, and are open.
fn describe(
    peer: &Peer,
    list: &FlagList,
    answers: &Answers,
    ours: &BTreeMap<String, BTreeSet<String>>,
    body: &mut String,
) -> Result<[usize; 4]> {
    let mut counts = [0; 4];
    let _ = write!(body, "\n## {}\n", peer.title);
    for (command, flags) in list {
        let is_group = list.iter().any(|(other, _)| other.starts_with(&format!("{command} ")));
        if is_group && flags.is_empty() {
            continue;
        }
        let answer = |flag: &str| {
            let key = |command: &str| (peer.word.to_owned(), command.to_owned(), flag.to_owned());
            answers.get(&key(command)).or_else(|| answers.get(&key(EVERYWHERE)).filter(|_| !flag.is_empty()))
        };
        let target = match (command.as_str(), answer("")) {
            (EVERYWHERE, _) => {
                body.push_str("\n### Flags of every command\n\n");
                "apply".to_owned()
            }
            (_, Some(Answer::Ours(ours))) => {
                let _ = write!(body, "\n### `{} {command}`: `slipway {ours}`\n\n", peer.word);
                ours.split(" (").next().unwrap_or_default().to_owned()
            }
            (_, Some(Answer::Refused(reason))) => {
                let _ = write!(body, "\n### `{} {command}`\n\n{reason}.\n", peer.word);
                counts[2] += flags.len();
                continue;
            }
            (_, None) => {
                let _ = write!(body, "\n### `{} {command}`\n\nOpen.\n", peer.word);
                counts[3] += flags.len();
                continue;
            }
        };
        let taken = ours.get(&target).with_context(|| {
            format!("answers.txt: `{} {command}` is `slipway {target}`, which is no command", peer.word)
        })?;
        let mut same = Vec::new();
        let mut rows = String::new();
        for flag in flags {
            let (column, text) = match answer(flag) {
                Some(Answer::Ours(ours)) => {
                    let named = ours.split([' ', '=']).next().filter(|word| word.starts_with("--"));
                    if let Some(named) = named.filter(|named| !taken.contains(*named)) {
                        bail!(
                            "answers.txt: `{} {command} {flag}` is `{named}`, which `slipway {target}` does not take",
                            peer.word
                        );
                    }
                    (1, format!("`{ours}`"))
                }
                Some(Answer::Refused(reason)) => (2, reason.clone()),
                None if taken.contains(flag) => {
                    counts[0] += 1;
                    same.push(format!("`{flag}`"));
                    continue;
                }
                None => (3, "*open*".to_owned()),
            };
            counts[column] += 1;
            let _ = writeln!(rows, "| `{flag}` | {text} |");
        }
        if !same.is_empty() {
            let _ = writeln!(body, "The same: {}.", same.join(", "));
        }
        if !rows.is_empty() {
            let gap = if same.is_empty() { "" } else { "\n" };
            let _ = write!(body, "{gap}| flag | here |\n| --- | --- |\n{rows}");
        }
    }
    Ok(counts)
}

/// Reads lines of `command: --flag --flag`.
fn parse_list(text: &str) -> FlagList {
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(command, flags)| {
            (command.to_owned(), flags.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
        })
        .collect()
}

/// Reads lines of `program command [--flag] = ours` and `program command [--flag] ! reason`. Several commands stand side by
/// side with `|` between them.
fn parse_answers(text: &str) -> Result<Answers> {
    let mut answers = Answers::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (subject, answer) = match (line.split_once(" = "), line.split_once(" ! ")) {
            (Some((subject, ours)), _) => (subject, Answer::Ours(ours.to_owned())),
            (None, Some((subject, reason))) => (subject, Answer::Refused(reason.to_owned())),
            (None, None) => bail!("answers.txt: no answer in `{line}`"),
        };
        let (program, rest) = subject.split_once(' ').with_context(|| format!("answers.txt: `{line}`"))?;
        let (commands, flag) = match rest.split_once(" --") {
            Some((commands, flag)) => (commands, format!("--{flag}")),
            None => (rest, String::new()),
        };
        for command in commands.split('|') {
            let key = (program.to_owned(), command.trim().to_owned(), flag.clone());
            if answers.insert(key, answer.clone()).is_some() {
                bail!("answers.txt: a second answer for `{subject}`");
            }
        }
    }
    Ok(answers)
}

/// Reads the help of a command and of those below it, as the library of both Helms prints it.
fn read_help(program: &Path, words: &[&str], list: &mut String) -> Result<()> {
    let help = shell::output(Command::new(program).args(words).arg("--help"))?;
    let (mut flags, mut children) = (Vec::new(), Vec::new());
    let mut section = "";
    for line in help.lines() {
        if !line.starts_with(' ') {
            section = line.strip_suffix(':').unwrap_or_default();
            continue;
        }
        let mut parts = line.split([' ', ',']).filter(|part| !part.is_empty());
        match section {
            "Flags" => flags.extend(parts.take(2).find(|part| part.starts_with("--")).map(str::to_owned)),
            "Available Commands" => children.extend(parts.next().map(str::to_owned)),
            _ => {}
        }
    }
    flags.retain(|flag| flag != "--help");
    let name = if words.is_empty() { EVERYWHERE.to_owned() } else { words.join(" ") };
    let _ = writeln!(list, "{}", [&[format!("{name}:")], &flags[..]].concat().join(" "));
    for child in children.iter().filter(|child| *child != "help") {
        read_help(program, &[words, &[child.as_str()]].concat(), list)?;
    }
    Ok(())
}

fn place(file: &str) -> PathBuf {
    shell::root().join("xtask/src/parity").join(file)
}
