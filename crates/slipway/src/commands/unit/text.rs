//! Units as people read them.

use std::fmt::Write as _;

use slipway_event::Event;
use slipway_unit::{
    BundleReport, CheckStatus, EntryKind, RecordedApply, UnitDifference, UnitPlan, UnitSummary, VerifyReport,
};

use crate::commands::policy;
use crate::term::style::{BOLD, DIM, ERROR, GOOD, WARNING, paint};
use crate::term::table::Table;

fn heading(text: &mut String, title: &str) {
    let _ = writeln!(text, "\n{}", paint(BOLD, title));
}

/// A digest in short.
fn short(digest: &str) -> &str {
    digest.get(..19).unwrap_or(digest)
}

pub fn bundle_text(report: &BundleReport) -> String {
    let mut text = format!("{} {}\n", report.path.display(), report.digest);
    let _ = writeln!(text, "{} objects, {} KiB", report.objects, report.size / 1024);
    for proof in &report.bindings {
        let _ = writeln!(text, "{} {proof}", paint(GOOD, "bound"));
    }
    for image in &report.unpinned {
        let _ = writeln!(text, "{} image {image} is named by its tag alone", paint(WARNING, "unpinned"));
    }
    text
}

pub fn summary_text(summary: &UnitSummary) -> String {
    let mut text = format!("{}\n", paint(BOLD, &summary.digest));
    let signed =
        if summary.signed_by.is_empty() { "nobody".to_owned() } else { summary.signed_by.join(", ") };
    for (name, value) in [
        ("release", format!("{} in {}", summary.release, summary.namespace)),
        ("source", format!("{} {}", summary.source, summary.version)),
        ("created", summary.created.clone()),
        ("commit", summary.commit.clone()),
        ("signed by", signed),
        ("objects", format!("{} ({})", summary.objects, short(&summary.object_set))),
        ("asks for", summary.hazards.clone()),
    ] {
        if !value.is_empty() {
            let _ = writeln!(text, "  {name:<10} {value}");
        }
    }
    if !summary.images.is_empty() {
        heading(&mut text, "IMAGES");
        let mut table = Table::new(&["object", "container", "image", "from"]);
        for used in &summary.images {
            let from = used.bound_to.clone().unwrap_or_default();
            table.row([used.object_key.clone(), used.container.clone(), used.reference.clone(), from]);
        }
        text.push_str(&table.render());
    }
    if !summary.secrets.is_empty() {
        heading(&mut text, "SECRETS");
        summary.secrets.iter().for_each(|reference| text.push_str(&format!("  {reference}\n")));
    }
    for (env, paths) in &summary.overlay_slots {
        let _ = writeln!(text, "  {env} may set {}", paths.join(", "));
    }
    for (object, fields) in &summary.nondeterministic {
        let _ = writeln!(text, "  {} {object} {}", paint(WARNING, "not proven:"), fields.join(", "));
    }
    if !summary.applies.is_empty() {
        heading(&mut text, "APPLIES");
        let mut table = Table::new(&["apply", "target", "status", "verified", "revision"]);
        for apply in &summary.applies {
            let verified = match apply.verified {
                Some(true) if apply.rolled_back => "rolled back",
                Some(true) => "yes",
                Some(false) => "failed",
                None => "no",
            };
            let revision = apply.revision.map(|revision| revision.to_string()).unwrap_or_default();
            table.row([
                apply.apply_id.clone(),
                apply.target.clone(),
                apply.status.to_string(),
                verified.to_owned(),
                revision,
            ]);
        }
        text.push_str(&table.render());
    }
    text
}

pub fn difference_text(found: &[UnitDifference]) -> String {
    if found.is_empty() {
        return "the units are the same\n".to_owned();
    }
    let mut text = String::new();
    for one in found {
        let _ = writeln!(text, "{} {} {}", one.change, one.what, paint(BOLD, &one.name));
        for line in &one.lines {
            let style = match line.chars().next() {
                Some('+') => GOOD,
                Some('-') => ERROR,
                _ => DIM,
            };
            let _ = writeln!(text, "  {}", paint(style, line));
        }
    }
    text
}

pub fn plan_text(plan: &UnitPlan) -> String {
    let mut text = format!("unit {} to {}\n", paint(BOLD, short(&plan.unit)), plan.target);
    match plan.signed_by.as_slice() {
        [] => text.push_str("  signed by nobody\n"),
        keys => text.push_str(&format!("  signed by {}\n", keys.join(", "))),
    }
    if let Some(overlay) = &plan.overlay {
        let _ = writeln!(text, "  with overlay {}", short(overlay));
    }
    if !plan.images.is_empty() {
        heading(&mut text, "IMAGES");
        for image in &plan.images {
            let old = image.old.as_deref().unwrap_or("none");
            let _ = writeln!(text, "  {}[{}]: {old} → {}", image.object, image.container, image.new);
        }
    }
    heading(&mut text, "CHANGES");
    match (plan.applied_revision, plan.summary.as_slice()) {
        (Some(revision), _) => text.push_str(&format!("  none: revision {revision} is this unit\n")),
        (None, []) => text.push_str("  no object changes\n"),
        (None, summary) => {
            let parts: Vec<String> =
                summary.iter().map(|(action, count)| format!("{count} to {action}")).collect();
            let _ = writeln!(text, "  {}", parts.join(", "));
        }
    }
    for change in &plan.changes {
        let _ = writeln!(text, "  {} {}", change.action, change.object);
        for field in change.fields.iter().take(8) {
            let _ = writeln!(text, "    {}", paint(DIM, field));
        }
    }
    if !plan.risks.is_empty() {
        heading(&mut text, "RISKS");
        for risk in &plan.risks {
            let _ = writeln!(text, "  {} {}", paint(WARNING, &risk.subject), risk.why);
        }
    }
    if !plan.secrets.is_empty() {
        heading(&mut text, "SECRETS");
        for secret in &plan.secrets {
            let _ = writeln!(text, "  {} at {}", secret.reference, secret.value_paths.join(", "));
        }
    }
    if let Some(report) = &plan.policy {
        heading(&mut text, "POLICY");
        text.push_str(&policy::report_text(report));
    }
    if let Some(strategy) = &plan.strategy {
        heading(&mut text, "STRATEGY");
        for step in &strategy.steps {
            let effective = match (step.weight, step.effective_weight) {
                (Some(weight), Some(effective)) => format!(" ({weight}% asked, {effective:.1}% given)"),
                _ => String::new(),
            };
            let _ = writeln!(text, "  {}: {}{effective}", step.step, step.action);
        }
        strategy
            .risks
            .iter()
            .for_each(|risk| text.push_str(&format!("  {} {risk}\n", paint(WARNING, "risk:"))));
    }
    if !plan.drift.is_empty() {
        heading(&mut text, "DRIFT");
        for change in &plan.drift {
            let _ = writeln!(text, "  {} {}", change.object, change.fields.join(", "));
        }
    }
    for warning in &plan.warnings {
        let _ = writeln!(text, "{} {warning}", paint(WARNING, "warning:"));
    }
    text
}

pub fn verification_text(report: &VerifyReport) -> String {
    let mut text = String::new();
    for check in &report.checks {
        let status = match check.status {
            CheckStatus::Pass => paint(GOOD, "pass"),
            CheckStatus::Fail => paint(ERROR, "FAIL"),
            CheckStatus::Skip => paint(DIM, "skip"),
        };
        let first = check.detail.first().map_or("nothing to check", String::as_str);
        let _ = writeln!(text, "{status}  {:<10}  {first}", check.check);
        for line in check.detail.iter().skip(1) {
            let _ = writeln!(text, "                  {line}");
        }
    }
    text
}

pub fn replay_text(recorded: &RecordedApply) -> String {
    let apply = &recorded.apply;
    let mut text = format!("apply {} to {}\n", paint(BOLD, &apply.apply_id), apply.target);
    let mut lines: Vec<(String, String)> = Vec::new();
    for entry in &recorded.entries {
        let told = match entry.kind {
            EntryKind::ApplyStep => {
                let part = |key: &str| {
                    entry.payload.get(key).and_then(|value| value.as_str()).unwrap_or_default().to_owned()
                };
                format!("step {}: {}", part("step"), part("status"))
            }
            EntryKind::ApplyEvents => continue,
            kind => {
                let status = entry.payload.get("status").and_then(|value| value.as_str()).unwrap_or_default();
                format!("{kind} {status} by {}", entry.actor)
            }
        };
        lines.push((entry.ts.clone(), told));
    }
    for record in &recorded.records {
        if let Some(told) = event_text(&record.event) {
            lines.push((record.time.to_string(), told));
        }
    }
    lines.sort_by(|a, b| a.0.cmp(&b.0));
    for (time, told) in lines {
        let _ = writeln!(text, "{} {told}", paint(DIM, time));
    }
    text
}

/// One event of a run in one line; what a timeline need not tell is left out.
fn event_text(event: &Event) -> Option<String> {
    Some(match event {
        Event::RunStarted { title, nodes } => format!("{title} begins, {nodes} operations"),
        Event::RunFinished { status, .. } => format!("the run ends: {}", serde_word(status)),
        Event::NodeFinished { node, status, reason, .. } => {
            let why = reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
            format!(
                "{} {}{why}",
                node.label.clone().unwrap_or_else(|| node.id.to_string()),
                serde_word(status)
            )
        }
        Event::Object { object, state, message, .. } => {
            let message = message.as_ref().map(|message| format!(": {message}")).unwrap_or_default();
            format!("{object} {}{message}", serde_word(state))
        }
        Event::Log { line, container, .. } => format!("{}: {line}", container.as_deref().unwrap_or("log")),
        Event::Warning { problem } => format!("warning: {}", problem.message),
        _ => return None,
    })
}

/// The word a state is written as.
fn serde_word(value: &impl serde::Serialize) -> String {
    serde_json::to_value(value).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}
