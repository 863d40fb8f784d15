//! What servers of pull requests send: deliveries of webhooks and bodies that anybody may have edited.

use std::sync::Arc;

use hmac::{Hmac, KeyInit as _, Mac as _};
use slipway_event::SystemClock;
use slipway_scm::{
    GateRow, GateStatus, Link, ProviderKind, StepMarker, WebhookHeaders, WebhookReceiver, WebhookSecret,
    escape_markdown, gates_comment,
};

pub const WEBHOOKS: &[&str] = &[
    r#"{"action":"closed","repository":{"full_name":"org/app"},"pull_request":{"number":7,"merged":true}}"#,
    r#"{"project":{"path_with_namespace":"g/a"},"object_attributes":{"iid":7,"action":"merge"}}"#,
    r#"{"repository":{"full_name":"org/app"},"pullrequest":{"id":7}}"#,
    r#"{"id":"x","eventType":"git.pullrequest.merged","resource":{"pullRequestId":7,"repository":{"name":"a","remoteUrl":"https://dev.azure.com/o/p","project":{"name":"p"}}}}"#,
];

pub const BODIES: &[&str] = &[
    r#"<!-- kardinal:{"step":"u","bundle":"b","env":"prod","v":1} --> ## Promotion | `x` @team"#,
    "https://example.com/a(b)|c",
    "<!-- kardinal:{\"step\":\"--\\u003e\"} -->",
];

/// Signed by whoever sends it: the body is read as it is.
pub fn webhook(input: &[u8]) {
    let receiver = WebhookReceiver::new(Arc::new(SystemClock));
    let mut mac = Hmac::<sha2::Sha256>::new_from_slice(b"s").expect("any key fits");
    mac.update(input);
    let hex: String = mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    let secret = WebhookSecret::new("s");
    for (kind, headers) in [
        (
            ProviderKind::GitHub,
            vec![("x-hub-signature-256", format!("sha256={hex}")), ("x-github-event", "pull_request".into())],
        ),
        (
            ProviderKind::Gitea,
            vec![("x-gitea-signature", hex.clone()), ("x-gitea-event", "pull_request".into())],
        ),
        (
            ProviderKind::GitLab,
            vec![("x-gitlab-token", "s".into()), ("x-gitlab-event", "Merge Request Hook".into())],
        ),
        (
            ProviderKind::Bitbucket,
            vec![
                ("x-hub-signature", format!("sha256={hex}")),
                ("x-event-key", "pullrequest:fulfilled".into()),
            ],
        ),
        (ProviderKind::AzureDevOps, vec![("authorization", "Basic dTpz".into())]),
    ] {
        let taken = receiver.accept(kind, &WebhookHeaders::from_iter(headers), input, Some(&secret));
        assert!(!matches!(&taken, Err(error) if error.status() == 401), "{kind} refuses its own signature");
        // As a signature, the input is refused, and not more.
        let text = String::from_utf8_lossy(input);
        let forged = [
            "x-hub-signature-256",
            "x-gitea-signature",
            "x-gitlab-token",
            "x-hub-signature",
            "authorization",
        ];
        let forged = WebhookHeaders::from_iter(forged.map(|name| (name, text.clone())));
        assert!(
            text == "s"
                || text.starts_with("Basic ")
                || receiver.accept(kind, &forged, b"{}", Some(&secret)).is_err()
        );
    }
}

/// A body that anybody may have edited, and texts that go into one.
pub fn pull_request(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    if let Some(marker) = StepMarker::find(&text) {
        assert_eq!(StepMarker::find(&marker.to_comment()), Some(marker));
    }
    let escaped = escape_markdown(&text);
    assert!(!escaped.contains(['<', '>', '|', '`', '@', '\n', '[']));
    let gate = GateRow {
        name: text.to_string(),
        scope: "org".to_owned(),
        status: GateStatus::Block,
        detail: text.to_string(),
    };
    let comment = gates_comment(&[gate], "2026-11-17T05:00:00Z".parse().expect("is a time"));
    assert!(comment.chars().count() <= 60_000 && comment.matches("-->").count() == 1);
    let _ = Link { text: text.to_string(), url: Some(text.to_string()) };
}
