//! Our own charts rendered, compared with what Helm printed for them.

use std::path::Path;

use slipway_chart::{Chart, Error, LoadOptions, render};

use crate::args;

fn run(words: &str) -> Result<Vec<u8>, Error> {
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
