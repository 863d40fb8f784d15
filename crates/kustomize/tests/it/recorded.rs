//! Cases recorded from real kustomize 5.5: the same objects, the same bytes, the same exit code.
//!
//! Each directory under `tests/cases` has `in/`, the recorded `expected.yaml` (absent when the build
//! failed) and `result.txt` with the directory to build and the exit code. To record them again, run
//! `kustomize build` in each and compare.

use std::fs;
use std::path::{Path, PathBuf};

use slipway_kustomize::{BuildOptions, build};

fn cases(under: &Path, found: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> =
        fs::read_dir(under).expect("cases").map(|entry| entry.expect("an entry").path()).collect();
    entries.sort();
    for entry in entries.into_iter().filter(|entry| entry.is_dir()) {
        if entry.join("result.txt").is_file() {
            found.push(entry);
        } else {
            cases(&entry, found);
        }
    }
}

fn field<'t>(text: &'t str, name: &str) -> &'t str {
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    line.trim_start_matches(':').trim()
}

/// Scenario A-44 of the specification.
#[test]
fn recorded_cases_give_the_same_bytes() {
    let mut found = Vec::new();
    cases(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases"), &mut found);
    assert!(found.len() >= 95, "only {} cases found", found.len());
    let mut wrong = Vec::new();
    for case in &found {
        let result = fs::read_to_string(case.join("result.txt")).expect("a result");
        let root = case.join("in").join(field(&result, "root"));
        let succeeds = field(&result, "exit") == "0";
        let name = case.strip_prefix(env!("CARGO_MANIFEST_DIR")).unwrap_or(case).display().to_string();
        match build(&root, &BuildOptions::default()) {
            Ok(_) if !succeeds => wrong.push(format!("{name}: built, but kustomize fails")),
            Ok(built) => {
                let expected = fs::read_to_string(case.join("expected.yaml")).unwrap_or_default();
                if built.to_yaml() != expected {
                    wrong.push(format!("{name}: expected\n{expected}but got\n{}", built.to_yaml()));
                }
            }
            Err(problems) if succeeds => wrong.push(format!("{name}: {problems}")),
            Err(problems) => {
                if problems.iter().any(|problem| problem.at.is_none()) {
                    wrong.push(format!("{name}: a problem without a place: {problems}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {} cases differ:\n{}", wrong.len(), found.len(), wrong.join("\n"));
}
