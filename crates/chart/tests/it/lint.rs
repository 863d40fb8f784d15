//! Our own charts linted, compared with what Helm printed for them.

use std::path::Path;

use serde_json::Map;
use slipway_chart::Notices;
use slipway_chart::lint::{LintOptions, lint_chart, to_text};
use slipway_gotmpl::NoHost;

#[test]
fn findings_are_helms() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let golden = fixtures.with_file_name("golden").join("lint.txt");
    let options = LintOptions::default();
    let mut wrong = Vec::new();
    for expected in std::fs::read_to_string(golden).unwrap().split_terminator("%%\n") {
        let name = expected.lines().next().and_then(|line| line.strip_prefix("==> Linting ")).unwrap();
        let path = fixtures.join(name);
        let report = lint_chart(&path, &Map::new(), &options, &NoHost, &mut Notices::new());
        let (text, last) = to_text(std::slice::from_ref(&report), &options);
        let found = if report.has_failed(&options) {
            format!("{text}Error: {last}\n")
        } else {
            format!("{text}{last}\n")
        };
        let root = format!("{}/", fixtures.display());
        let found =
            found.replacen(&root, "", 1).replace(&root, "<fixtures>/").replace("stat <fixtures>/", "stat ");
        let sorted = |text: &str| {
            // Complaints about a schema come in no particular order.
            let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
            lines.sort();
            lines
        };
        if sorted(&found) != sorted(expected) {
            wrong.push(format!("-- Helm\n{expected}\n-- found\n{found}"));
        }
    }
    assert!(wrong.is_empty(), "{} charts differ\n{}", wrong.len(), wrong.join("\n"));
}
