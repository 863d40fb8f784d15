//! Processes killed while they write a ledger: what was reported as written is there, and the file is whole.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rand::{RngExt as _, SeedableRng as _};
use serde_json::json;
use slipway_source::LoadContext;
use slipway_unit::*;

use crate::support::*;

/// Names the unit to a child of the test below.
const UNIT: &str = "SLIPWAY_TEST_LEDGER";
const KILLS: usize = 25;

fn target() -> UnitTarget {
    UnitTarget { cluster: "c".into(), namespace: "n".into(), release: "r".into(), ..UnitTarget::default() }
}

/// Writes to a ledger until it is killed; without a unit to write to there is nothing to do.
#[test]
fn a_child_writes_until_it_is_killed() {
    let Some(path) = std::env::var_os(UNIT) else { return };
    let unit = open(Path::new(&path));
    let book = ledger(&unit);
    for number in 0.. {
        let content = format!("{number}: {}", "some content ".repeat(number % 4000));
        let payload = json!({"number": number});
        let entry = book.append_content(EntryKind::Diagnostics, &target(), payload, content.as_bytes());
        let told = writeln!(std::io::stdout(), "written {}", entry.expect("is written").seq);
        told.expect("the parent listens");
    }
}

fn start_child(path: &Path) -> Child {
    let program = std::env::current_exe().expect("is a program");
    let mut command = Command::new(program);
    command.args(["--exact", "killed::a_child_writes_until_it_is_killed", "--nocapture", "--test-threads=1"]);
    command.env(UNIT, path).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    command.spawn().expect("starts")
}

#[tokio::test]
async fn a_ledger_survives_kills_at_any_point() {
    let source = shop();
    let path = source.path().join("u");
    make(request_for(&source.path().join("shop")), &LoadContext::default(), &path)
        .await
        .unwrap_or_else(|error| panic!("{error}"));
    let digest = open(&path).digest().to_owned();
    let mut random = rand::rngs::SmallRng::seed_from_u64(20);
    let (mut written, mut left_open) = (0, 0);
    for _ in 0..KILLS {
        let mut child = start_child(&path);
        let lines = BufReader::new(child.stdout.take().expect("is piped")).lines();
        let numbers = lines.map_while(Result::ok).filter_map(|line| {
            let (_, number) = line.split_once("written ")?;
            number.parse::<usize>().ok()
        });
        let told = numbers.take(random.random_range(1..6)).last().expect("the child writes");
        // The child is somewhere in the next write; how far depends on how long this spins.
        for turn in 0..random.random_range(0..400_000_u64) {
            std::hint::black_box(turn);
        }
        child.kill().expect("is killed");
        child.wait().expect("is gone");
        left_open += usize::from(source.path().join("u-journal").exists());
        let unit = open(&path);
        assert_eq!(unit.digest(), digest);
        let entries = ledger(&unit).entries().unwrap_or_else(|error| panic!("{error}"));
        assert!(entries.len() >= told, "{told} were reported as written, {} are there", entries.len());
        assert!(entries.len() > written);
        written = entries.len();
        let last = ledger(&unit).content(entries.last().expect("is there")).expect("is read");
        assert!(last.is_some_and(|content| !content.is_empty()));
    }
    assert!(left_open > 0, "no kill met a write");
}

/// A unit that cannot be written and whose last write was cut short says so.
#[cfg(unix)]
#[tokio::test]
async fn an_interrupted_write_that_cannot_be_undone_is_told() {
    let source = shop();
    let path = source.path().join("u");
    make(request_for(&source.path().join("shop")), &LoadContext::default(), &path)
        .await
        .unwrap_or_else(|error| panic!("{error}"));
    std::fs::create_dir(source.path().join("u-journal")).expect("is created");
    std::fs::write(source.path().join("u-journal/x"), "x").expect("is written");
    let error = UnitFile::open(&path, &OpenOptions::default()).expect_err("is refused");
    assert!(error.to_string().contains("a write to it was interrupted"), "{error}");
}
