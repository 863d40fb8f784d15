//! What people read of plans, reports and lists.

use std::fmt::Write;

use slipway_release::decide::KeptReason;
use slipway_release::inspect::ReleaseRow;
use slipway_release::show::{ChangeView, PlanView};
use slipway_release::stage::Stage;
use slipway_release::{ReleaseReport, ReleaseStatus};

use crate::commands::policy;
use crate::term::style::{ADDED, BOLD, DIM, ERROR, REMOVED, WARNING, paint};
use crate::term::table::Table;

pub fn report_text(report: &ReleaseReport) -> String {
    let ReleaseReport { release, namespace, revision, status, .. } = report;
    let mut text = match status {
        ReleaseStatus::Skipped => {
            format!("release {release} in {namespace} is up to date (revision {revision})\n")
        }
        ReleaseStatus::Uninstalled => format!("release {release} in {namespace} is deleted\n"),
        ReleaseStatus::Tested => format!("the tests of release {release} in {namespace} succeeded\n"),
        ReleaseStatus::Deployed | ReleaseStatus::Failed => {
            format!("release {release} in {namespace} is deployed (revision {revision})\n")
        }
    };
    for kept in &report.kept {
        let _ = writeln!(text, "{} {}: {}", paint(DIM, "kept"), kept.object, why_kept(&kept.why));
    }
    if !report.notes.is_empty() && *status != ReleaseStatus::Uninstalled {
        let _ = writeln!(text, "\n{}", report.notes);
    }
    text
}

pub fn view_text(view: &PlanView) -> String {
    let mut text = String::new();
    let policy = view.policy.as_ref().map(policy::report_text).unwrap_or_default();
    if view.empty {
        return format!("release {} in {}: nothing to do\n{policy}", view.release, view.namespace);
    }
    let mut changes: Vec<&ChangeView> = view.changes.iter().collect();
    changes.sort_by_key(|change| change.stage);
    // The namespace comes before everything, whatever the stages are.
    let staged: Vec<Stage> =
        changes.iter().map(|change| change.stage).filter(|stage| *stage != Stage::Init).collect();
    let has_stages = staged.windows(2).any(|pair| pair[0] != pair[1]);
    let mut stage = None;
    for change in changes {
        if has_stages && change.stage != Stage::Init && stage != Some(change.stage) {
            stage = Some(change.stage);
            let _ = writeln!(text, "{}\n", paint(DIM, format!("stage {}:", change.stage)));
        }
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
    text + &policy
}

fn why_kept(why: &KeptReason) -> String {
    match why {
        KeptReason::Policy => "a policy keeps it".to_owned(),
        KeptReason::Owner(owner) => format!("it belongs to {owner}"),
    }
}

/// A moment as people read it, to the second.
pub fn moment(text: &str) -> String {
    let parsed: Option<jiff::Timestamp> = text.parse().ok();
    parsed.map_or_else(|| text.to_owned(), |time| time.strftime("%Y-%m-%d %H:%M:%S UTC").to_string())
}

pub fn change_text(text: &mut String, change: &ChangeView) {
    let style = match change.action.as_str() {
        "create" => ADDED,
        "delete" => REMOVED,
        "recreate" => ERROR,
        _ => WARNING,
    };
    let then: String = change.then.iter().map(|word| format!(", then {word}")).collect();
    let mut about = Vec::new();
    if change.hook {
        about.push(format!("{} hook", change.stage));
    }
    about.extend(change.weight.filter(|weight| *weight != 0).map(|weight| format!("weight {weight}")));
    let about = match about.as_slice() {
        [] => String::new(),
        about => format!(" {}", paint(DIM, format!("({})", about.join(", ")))),
    };
    let _ = writeln!(text, "{} {}{then}{about}", paint(style, &change.action), paint(BOLD, &change.object));
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

/// A moment by a Go layout, in the zone it was recorded in.
pub fn moment_in_layout(text: &str, layout: &str) -> String {
    const RECORDED: &[u8] = b"2006-01-02T15:04:05.999999999Z07:00";
    match slipway_go::time::parse(RECORDED, text.as_bytes(), &slipway_go::time::GoZone::Utc) {
        Ok(time) => String::from_utf8_lossy(&time.format(layout.as_bytes())).into_owned(),
        Err(_) => text.to_owned(),
    }
}

/// A table of releases; `time` writes when they were deployed.
pub fn rows_text(rows: &[ReleaseRow], with_place: bool, time: impl Fn(&str) -> String) -> String {
    let heads: &[&str] = if with_place {
        &["NAME", "NAMESPACE", "REVISION", "UPDATED", "STATUS", "CHART", "APP VERSION"]
    } else {
        &["REVISION", "UPDATED", "STATUS", "CHART", "APP VERSION", "DESCRIPTION"]
    };
    let mut table = Table::new(heads);
    for row in rows {
        let common = [row.revision.to_string(), time(&row.updated), row.status.clone(), row.chart.clone()];
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

#[cfg(test)]
mod tests {
    use slipway_release::resource::DeployType;

    use super::*;
    use crate::term::escape::{Colors, Controls, settle};

    #[test]
    fn plans_show_stages_and_hooks() {
        let change = |action: &str, object: &str, stage, weight, hook| ChangeView {
            action: action.into(),
            object: object.into(),
            api_version: String::new(),
            kind: String::new(),
            namespace: String::new(),
            name: String::new(),
            stage,
            weight,
            hook,
            then: Vec::new(),
            reason: None,
            insignificant: false,
            fields: Vec::new(),
            lines: Vec::new(),
        };
        let view = PlanView {
            release: "web".into(),
            namespace: "shop".into(),
            deploy_type: DeployType::Upgrade,
            revision: 2.into(),
            empty: false,
            reason: None,
            policy: None,
            changes: vec![
                change("create", "Namespace/shop", Stage::Init, None, false),
                change("create", "Job/migrate", Stage::PreInstall, Some(-5), true),
                change("create", "ConfigMap/a", Stage::Install, Some(0), false),
                change("create", "ConfigMap/b", Stage::Install, Some(3), false),
                change("recreate", "Job/certs", Stage::PreInstall, Some(0), true),
                change("delete", "ConfigMap/c", Stage::Uninstall, None, false),
            ],
            kept: Vec::new(),
            warnings: Vec::new(),
            summary: vec![("create".into(), 4)],
        };
        let text = settle(&view_text(&view), Colors::Drop, Controls::Show);
        let lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
        assert_eq!(
            lines,
            [
                "create Namespace/shop",
                "stage pre-install:",
                "create Job/migrate (pre-install hook, weight -5)",
                "recreate Job/certs (pre-install hook)",
                "stage install:",
                "create ConfigMap/a",
                "create ConfigMap/b (weight 3)",
                "stage uninstall:",
                "delete ConfigMap/c",
                "4 to create",
            ]
        );
    }
}
