//! The commands of the guides, run as a reader would run them.
//!
//! A block of a page that opens with `sh` must succeed, one with `sh fails` must not, one with `sh example` needs what a test does
//! not have (a cluster, a registry, a long build). The blocks of a page share a directory and an embedded cluster of their own.

use std::path::Path;
use std::process::Command;

use crate::sandbox::Down;
use crate::support::{Place, Ran};

/// The pages whose commands are run, with the example whose files they begin with.
const PAGES: [(&str, Option<&str>); 4] = [
    ("getting-started.md", None),
    ("from-helm.md", None),
    ("laptop-to-production.md", Some("units")),
    ("promotion.md", None),
];

/// What is expected of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    Success,
    Failure,
}

struct Block {
    line: usize,
    expected: Expected,
    script: String,
}

/// The blocks of a page that are to be run.
fn blocks(page: &str) -> Vec<Block> {
    let mut found = Vec::new();
    let mut lines = page.lines().zip(1..);
    while let Some((opening, line)) = lines.next() {
        let Some(language) = opening.strip_prefix("```") else { continue };
        let body = lines.by_ref().map(|(text, _)| text).take_while(|text| *text != "```");
        let script = body.collect::<Vec<_>>().join("\n");
        match language {
            "sh" => found.push(Block { line, expected: Expected::Success, script }),
            "sh fails" => found.push(Block { line, expected: Expected::Failure, script }),
            _ => {}
        }
    }
    found
}

#[test]
fn every_command_of_the_guides_does_what_the_guide_says() {
    let guides = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guides");
    let program = Path::new(env!("CARGO_BIN_EXE_slipway")).parent().expect("is in a directory");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::iter::once(program.to_owned()).chain(std::env::split_paths(&path));
    let path = std::env::join_paths(path).expect("directories without separators");
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    for (name, example) in PAGES {
        let page = std::fs::read_to_string(guides.join(name)).expect("the page exists");
        let blocks = blocks(&page);
        assert!(!blocks.is_empty(), "{name} has no commands");
        let place = Place::new();
        let _down = Down(&place);
        if let Some(example) = example {
            place.copy_from(&examples.join(example));
        }
        for block in blocks {
            let mut shell = Command::new("sh");
            shell.args(["-euc", &block.script]).current_dir(place.path()).env_clear();
            let ran =
                Ran::from(shell.env("HOME", place.path()).env("PATH", &path).output().expect("a shell runs"));
            let succeeded = ran.code == Some(0);
            let expected = block.expected == Expected::Success;
            assert_eq!(
                succeeded, expected,
                "{name}:{}:\n{}\n{}{}",
                block.line, block.script, ran.out, ran.err
            );
        }
    }
}
