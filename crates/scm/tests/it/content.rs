//! What a pull request says, whatever others have written into it.

use proptest::prelude::*;
use slipway_scm::{
    ArtifactRow, ChangeRow, GateRow, GateStatus, Link, PromotionKind, PromotionSummary, PromotionUrgency,
    StepMarker, UpstreamRow, escape_markdown, gates_comment,
};

fn summary(text: &str) -> PromotionSummary {
    let link = |text: &str, url: &str| Link { text: text.to_owned(), url: Some(url.to_owned()) };
    PromotionSummary {
        kind: PromotionKind::Promotion,
        urgency: PromotionUrgency::Normal,
        pipeline: "my-app".to_owned(),
        environment: "prod".to_owned(),
        version: "1.29.0".to_owned(),
        marker: StepMarker::new("uid-1", "my-app-1-29-0", "prod"),
        gates: vec![GateRow {
            name: "no-weekend".to_owned(),
            scope: "org".to_owned(),
            status: GateStatus::Pass,
            detail: text.to_owned(),
        }],
        artifacts: vec![ArtifactRow {
            image: "ghcr.io/myorg/my-app:1.29.0".to_owned(),
            digest: Some(format!("sha256:{}", "a".repeat(64))),
            source_commit: Some(link("abc123def456", "https://github.com/myorg/my-app/commit/abc123def456")),
            ci_run: Some(link("build 7", "https://ci.example.com/7")),
            author: Some("dev".to_owned()),
        }],
        upstreams: vec![UpstreamRow {
            environment: "staging".to_owned(),
            verified: "45m ago".to_owned(),
            soak: Some("45m".to_owned()),
        }],
        changes: vec![ChangeRow {
            image: "my-app".to_owned(),
            old: "1.28.0".to_owned(),
            new: "1.29.0".to_owned(),
        }],
        compare: None,
        config: None,
        rollback_command: Some("slipway pipeline rollback my-app --env prod".to_owned()),
        console: Some(link("Show in the console", "https://console.example.com/x")),
    }
}

#[test]
fn the_body_has_the_order_of_the_format() {
    let body = summary("fine").body();
    let expected = [
        r#"<!-- kardinal:{"step":"uid-1","bundle":"my-app-1-29-0","env":"prod","v":1} -->"#,
        "## Promotion: my-app 1.29.0 to prod",
        "### Policy Gates",
        "| Gate | Scope | Status | Detail |",
        "| no-weekend | org | PASS | fine |",
        "### Artifact",
        "| Image | ghcr.io/myorg/my-app:1.29.0 |",
        "| Digest | sha256:aaaaaaaaaaaa |",
        "| Source Commit | [abc123d](https://github.com/myorg/my-app/commit/abc123def456) |",
        "### Upstream Verification",
        "| staging | 45m ago | 45m |",
        "### Changes",
        "- my-app: 1.28.0 to 1.29.0",
        "### Rollback",
        "`slipway pipeline rollback my-app --env prod`",
        "[Show in the console](https://console.example.com/x)",
    ];
    let mut rest = body.as_str();
    for line in expected {
        let at = rest.find(line).unwrap_or_else(|| panic!("no `{line}` in:\n{body}"));
        rest = &rest[at + line.len()..];
    }
    assert_eq!(StepMarker::find(&body), Some(StepMarker::new("uid-1", "my-app-1-29-0", "prod")));
}

#[test]
fn titles_and_labels_tell_promotions_rollbacks_and_emergencies() {
    let mut wanted = summary("x");
    assert_eq!(wanted.title(), "[kardinal] Promote my-app 1.29.0 to prod");
    assert_eq!(wanted.labels(), ["kardinal", "kardinal/promotion", "kardinal/my-app", "kardinal/prod"]);
    wanted.kind = PromotionKind::Rollback { failed_version: "1.30.0".to_owned() };
    assert_eq!(wanted.title(), "[kardinal] Rollback my-app in prod to 1.29.0 (reverts 1.30.0)");
    assert_eq!(wanted.labels()[1], "kardinal/rollback");
    wanted.urgency = PromotionUrgency::Emergency;
    assert!(wanted.title().starts_with("[EMERGENCY] [kardinal] Rollback"));
    assert_eq!(&wanted.labels()[1..3], ["kardinal/emergency", "kardinal/rollback"]);
}

#[test]
fn the_comment_on_gates_says_when_it_was_true() {
    let comment = gates_comment(&summary("x").gates, "2026-11-17T05:00:00Z".parse().unwrap());
    assert!(comment.starts_with("<!-- kardinal:gates -->\n"));
    assert!(comment.contains("Evaluated 2026-11-17T05:00:00Z. A snapshot"), "{comment}");
}

#[test]
fn a_body_has_an_end() {
    let mut large = summary(&"long ".repeat(1_000));
    large.gates = vec![large.gates[0].clone(); 1_000];
    large.changes = vec![large.changes[0].clone(); 10_000];
    let body = large.body();
    assert!(body.chars().count() <= 60_000);
    assert!(body.ends_with("see the console._\n"));
    assert!(StepMarker::find(&body).is_some());
}

#[test]
fn links_of_others_lead_to_web_pages_only() {
    for url in ["javascript:alert(1)", "data:x", "no address", "https://u:p@host/", ""] {
        let mut wanted = summary("x");
        wanted.console = Some(Link { text: "click".to_owned(), url: Some(url.to_owned()) });
        assert!(!wanted.body().contains("[click]"), "{url}");
    }
}

proptest! {
    #[test]
    fn nothing_others_write_becomes_markup(text in "\\PC{0,80}|[@#<>|`\\n\\r\\\\\\[\\]()*_~!&-]{0,40}") {
        let escaped = escape_markdown(&text);
        prop_assert!(!escaped.contains(['<', '>', '|', '`', '@', '\n', '\r', '[', ']']));
        let body = summary(&text).body();
        let row = body.lines().find(|line| line.starts_with("| no-weekend |")).unwrap();
        prop_assert_eq!(row.matches('|').count(), 5);
    }

    #[test]
    fn a_marker_is_found_again_whatever_it_holds(step in "\\PC{0,40}", bundle in ".{0,40}|(-->|--|<!--){0,5}") {
        let marker = StepMarker::new(&step, &bundle, "prod");
        let comment = marker.to_comment();
        prop_assert_eq!(comment.matches("-->").count(), 1);
        prop_assert_eq!(StepMarker::find(&format!("text\n{comment}\nmore -->")), Some(marker));
    }
}
