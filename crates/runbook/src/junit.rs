//! A run as a JUnit report, for systems that show tests.

use std::fmt::Write as _;

use crate::execute::RunReport;
use crate::state::NodeStatus;

/// The report as XML: one suite, one case for each step.
pub fn junit(report: &RunReport) -> String {
    let seconds = |milliseconds: u64| format!("{}.{:03}", milliseconds / 1000, milliseconds % 1000);
    let (failed, skipped) = (report.count(NodeStatus::Failed), report.count(NodeStatus::Skipped));
    let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let _ = writeln!(
        xml,
        "<testsuites>\n  <testsuite name=\"{}\" tests=\"{}\" failures=\"{failed}\" skipped=\"{skipped}\" time=\"{}\" timestamp=\"{}\">",
        escaped(&report.name),
        report.steps.len(),
        seconds(report.duration_ms),
        escaped(&report.started_at),
    );
    for step in &report.steps {
        let _ = write!(
            xml,
            "    <testcase classname=\"{}.{}\" name=\"{}\" time=\"{}\"",
            escaped(&report.name),
            escaped(&step.kind),
            escaped(&step.name),
            seconds(step.duration_ms.unwrap_or(0)),
        );
        match step.status {
            NodeStatus::Succeeded => xml.push_str("/>\n"),
            NodeStatus::Skipped | NodeStatus::Blocked => {
                let reason = step.skip_reason.as_deref().unwrap_or_default();
                let _ = writeln!(xml, ">\n      <skipped message=\"{}\"/>\n    </testcase>", escaped(reason));
            }
            // A report is written when everything ended; whatever did not is no success.
            NodeStatus::Failed
            | NodeStatus::Canceled
            | NodeStatus::Planned
            | NodeStatus::Queued
            | NodeStatus::Running
            | NodeStatus::Retrying => {
                let error = step.error.as_deref().unwrap_or_default();
                let kind = step.error_kind.map_or("internal", crate::ErrorKind::as_str);
                let first = error.lines().next().unwrap_or_default();
                let _ = writeln!(
                    xml,
                    ">\n      <failure type=\"{kind}\" message=\"{}\">{}</failure>\n    </testcase>",
                    escaped(first),
                    escaped(error)
                );
            }
        }
    }
    xml.push_str("  </testsuite>\n</testsuites>\n");
    xml
}

/// A text as XML allows it: control characters other than line ends are left out.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' | '\t' => out.push(c),
            c if c.is_control() => {}
            c => out.push(c),
        }
    }
    out
}
