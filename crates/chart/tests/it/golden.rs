//! Our own charts rendered, compared with what Helm printed for them.

use std::path::Path;

use slipway_chart::{Chart, ChartError, LoadOptions, render};

use crate::args;

fn run(words: &str) -> Result<Vec<u8>, ChartError> {
    let parsed = args::parse(words)?;
    let values = parsed.values.build()?;
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(&parsed.chart);
    let chart = Chart::load(path.as_path(), &LoadOptions::default())?;
    render(&chart, &values, &parsed.options)?.to_template_output(&parsed.options)
}

/// Helm lists complaints about a schema in no particular order.
fn in_any_order(text: &[u8]) -> Vec<u8> {
    if !text.starts_with(b"Error: values don't meet") {
        return text.to_vec();
    }
    let mut lines: Vec<&[u8]> = text.split(|byte| *byte == b'\n').collect();
    lines.sort_unstable();
    lines.join(&b'\n')
}

#[test]
fn output_and_errors_are_helms() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let cases = std::fs::read_to_string(folder.join("cases.txt")).unwrap();
    let mut wrong = Vec::new();
    for case in cases.lines() {
        let (name, words) = case.split_once('\t').unwrap();
        let expected = std::fs::read(folder.join(format!("{name}.txt"))).unwrap();
        let found = run(words).unwrap_or_else(|error| format!("Error: {}\n", error.helm_text()).into_bytes());
        if in_any_order(&found) != in_any_order(&expected) {
            wrong.push(format!(
                "== {name}\n-- Helm\n{}\n-- found\n{}",
                String::from_utf8_lossy(&expected),
                String::from_utf8_lossy(&found)
            ));
        }
    }
    assert!(wrong.is_empty(), "{} cases differ\n{}", wrong.len(), wrong.join("\n"));
}

/// Every text of our own charts' templates.
fn templates(folder: &Path, text: &mut String) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            templates(&path, text);
        } else if path.components().any(|part| part.as_os_str() == "templates") {
            text.push_str(&std::fs::read_to_string(&path).unwrap_or_default());
        }
    }
}

#[test]
fn every_function_and_action_has_a_golden() {
    let mut text = String::new();
    templates(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures"), &mut text);
    let words: std::collections::BTreeSet<&str> =
        text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').collect();
    let functions = slipway_gotmpl::FuncMap::helm(&slipway_gotmpl::sprig::functions());
    // Templates have no value that can be called, and Helm has no secret files.
    let without = ["call", "werf_secret_file"];
    let actions = ["if", "else", "with", "range", "break", "continue", "define", "template", "block", "end"];
    let missing: Vec<&str> = functions
        .names()
        .into_iter()
        .chain(actions)
        .filter(|name| !words.contains(name) && !without.contains(name))
        .collect();
    assert!(missing.is_empty(), "no fixture uses {missing:?}");
}
