//! What people read of plans, reports and lists.

use std::fmt::Write;

use slipway_release::Report;
use slipway_release::decide::Kept;
use slipway_release::inspect::Row;
use slipway_release::show::{Change, View};

use crate::term::style::{ADDED, BOLD, DIM, ERROR, REMOVED, WARNING, paint};
use crate::term::table::Table;

pub fn report_text(report: &Report) -> String {
    let Report { release, namespace, revision, status, .. } = report;
    let mut text = match status.as_str() {
        "skipped" => format!("release {release} in {namespace} is up to date (revision {revision})\n"),
        "uninstalled" => format!("release {release} in {namespace} is deleted\n"),
        "tested" => format!("the tests of release {release} in {namespace} succeeded\n"),
        _ => format!("release {release} in {namespace} is deployed (revision {revision})\n"),
    };
    let _ = writeln!(text, "{}", paint(DIM, &report.requests));
    for kept in &report.kept {
        let _ = writeln!(text, "{} {}: {}", paint(DIM, "kept"), kept.object, why_kept(&kept.why));
    }
    if !report.notes.is_empty() && status != "uninstalled" {
        let _ = writeln!(text, "\n{}", report.notes);
    }
    text
}

pub fn view_text(view: &View) -> String {
    let mut text = String::new();
    if view.empty {
        return format!("release {} in {}: nothing to do\n", view.release, view.namespace);
    }
    for change in &view.changes {
        change_text(&mut text, change);
    }
    for kept in &view.kept {
        let why = paint(DIM, format!("({})", why_kept(&kept.why)));
        let _ = writeln!(text, "{} {} {why}", paint(DIM, "keep"), kept.object);
    }
    if view.changes.is_empty() {
        let reason = view.reason.as_deref().unwrap_or("its content changed");
        let _ = writeln!(text, "no object changes, but revision {} is made: {reason}", view.revision);
    } else {
        let parts: Vec<String> =
            view.summary.iter().map(|(action, count)| format!("{count} to {action}")).collect();
        let _ = writeln!(text, "{}", parts.join(", "));
    }
    text
}

fn why_kept(why: &Kept) -> String {
    match why {
        Kept::Policy => "a policy keeps it".to_owned(),
        Kept::Owner(owner) => format!("it belongs to {owner}"),
    }
}

/// A moment as people read it, to the second.
pub fn moment(text: &str) -> String {
    let parsed: Option<jiff::Timestamp> = text.parse().ok();
    parsed.map_or_else(|| text.to_owned(), |time| time.strftime("%Y-%m-%d %H:%M:%S UTC").to_string())
}

pub fn change_text(text: &mut String, change: &Change) {
    let style = match change.action.as_str() {
        "create" => ADDED,
        "delete" => REMOVED,
        "recreate" => ERROR,
        _ => WARNING,
    };
    let then: String = change.then.iter().map(|word| format!(", then {word}")).collect();
    let _ = writeln!(text, "{} {}{then}", paint(style, &change.action), paint(BOLD, &change.object));
    if let Some(reason) = &change.reason {
        let _ = writeln!(text, "  {}", paint(DIM, reason));
    }
    lines_text(text, &change.lines);
    text.push('\n');
}

pub fn lines_text(text: &mut String, lines: &[String]) {
    for line in lines {
        let painted = match line.as_bytes().first() {
            Some(b'+') => paint(ADDED, line),
            Some(b'-') => paint(REMOVED, line),
            _ => paint(DIM, line),
        };
        let _ = writeln!(text, "  {painted}");
    }
}

pub fn rows_text(rows: &[Row], with_place: bool) -> String {
    let heads: &[&str] = if with_place {
        &["NAME", "NAMESPACE", "REVISION", "UPDATED", "STATUS", "CHART", "APP VERSION"]
    } else {
        &["REVISION", "UPDATED", "STATUS", "CHART", "APP VERSION", "DESCRIPTION"]
    };
    let mut table = Table::new(heads);
    for row in rows {
        let common = [row.revision.to_string(), moment(&row.updated), row.status.clone(), row.chart.clone()];
        let cells: Vec<String> = if with_place {
            [row.name.clone(), row.namespace.clone()]
                .into_iter()
                .chain(common)
                .chain([row.app_version.clone()])
                .collect()
        } else {
            // A failure tells more than fits a line; `status` shows all of it.
            let description = row.description.lines().next().unwrap_or_default().to_owned();
            common.into_iter().chain([row.app_version.clone(), description]).collect()
        };
        table.row(cells);
    }
    table.render()
}
