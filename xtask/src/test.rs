//! `cargo xtask test`: what the README promises.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use anyhow::{Context as _, Result, bail};

use crate::{docs, shell};

/// How many failed tests are tried again. More than these are a fault of the change.
const MOST_RETRIED: usize = 3;

/// Runs every test of the workspace, then checks that the generated pages are fresh.
pub fn run() -> Result<()> {
    let failed = run_tests(&[])?;
    if !failed.is_empty() {
        if failed.len() > MOST_RETRIED {
            bail!("{} tests failed: {}", failed.len(), failed.join(", "));
        }
        eprintln!("\nfailed, and run once more by themselves: {}", failed.join(", "));
        let names: Vec<&str> = failed.iter().map(String::as_str).collect();
        let again = run_tests(&names)?;
        if !again.is_empty() {
            bail!("failed twice: {}", again.join(", "));
        }
        report_unsteady(&failed);
    }
    docs::check()
}

/// A test that fails once and passes then has found a race. It is told at the end, where nobody overlooks it.
fn report_unsteady(names: &[String]) {
    eprintln!("\nUNSTEADY: passed only when run again; each is a defect to be mended:");
    for name in names {
        eprintln!("  {name}");
    }
}

/// Runs the tests, or only those with these names, and returns the names of those that failed. Fails when something
/// else went wrong: a crate that does not compile, a process that died.
fn run_tests(names: &[&str]) -> Result<Vec<String>> {
    let mut command = shell::cargo(&["test", "--workspace", "--locked", "--no-fail-fast"]);
    if !names.is_empty() {
        command.args(["--", "--exact", "--test-threads=1"]).args(names);
    }
    eprintln!("$ {}", shell::show(&command));
    let mut child = command.stdout(Stdio::piped()).spawn().context("start cargo")?;
    let output = child.stdout.take().context("the output of cargo")?;
    let mut failed = Vec::new();
    let (mut begun, mut ended) = (0, 0);
    for line in BufReader::new(output).lines() {
        let line = line.context("read the output of cargo")?;
        println!("{line}");
        failed.extend(failed_test(&line).map(str::to_owned));
        begun += u32::from(begins_tests(&line));
        ended += u32::from(line.starts_with("test result: "));
    }
    let status = child.wait().context("wait for cargo")?;
    if begun != ended || (!status.success() && failed.is_empty()) {
        bail!("the tests did not run to their end: {status}");
    }
    Ok(failed)
}

/// The test a line of the harness says to have failed.
fn failed_test(line: &str) -> Option<&str> {
    line.strip_prefix("test ")?.strip_suffix(" ... FAILED")
}

/// Whether a line is the first of a program's tests.
fn begins_tests(line: &str) -> bool {
    let count = line.strip_prefix("running ").and_then(|rest| rest.split_once(' '));
    count.is_some_and(|(count, rest)| count.parse::<u32>().is_ok() && matches!(rest, "test" | "tests"))
}

#[cfg(test)]
mod tests {
    use super::failed_test;

    #[test]
    fn failed_tests_are_told_from_others() {
        for (line, expected) in [
            ("test a::b ... FAILED", Some("a::b")),
            ("test a::b ... ok", None),
            ("test result: FAILED. 1 passed; 1 failed", None),
            ("test src/lib.rs - f (line 3) ... FAILED", Some("src/lib.rs - f (line 3)")),
            ("    a::b", None),
        ] {
            assert_eq!(failed_test(line), expected, "{line}");
        }
    }
}
