//! Deliveries of every provider: true, forged, repeated, old and out of order.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use data_encoding::HEXLOWER;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Value, json};
use sha2::Sha256;
use slipway_event::ManualClock;
use slipway_scm::{
    DeliveryLog, ProviderKind, WebhookError, WebhookEvent, WebhookHeaders, WebhookOutcome, WebhookReceiver,
    WebhookSecret,
};

const SECRET: &str = "hook-secret";

fn signature(secret: &str, parts: &[&[u8]]) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().to_vec()
}

/// The schemes: GitLab has two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scheme {
    GitHub,
    GitLabToken,
    GitLabSigned,
    Gitea,
    Forgejo,
    Bitbucket,
    Azure,
}

const SCHEMES: [Scheme; 7] = [
    Scheme::GitHub,
    Scheme::GitLabToken,
    Scheme::GitLabSigned,
    Scheme::Gitea,
    Scheme::Forgejo,
    Scheme::Bitbucket,
    Scheme::Azure,
];

impl Scheme {
    fn kind(self) -> ProviderKind {
        match self {
            Self::GitHub => ProviderKind::GitHub,
            Self::GitLabToken | Self::GitLabSigned => ProviderKind::GitLab,
            Self::Gitea | Self::Forgejo => ProviderKind::Gitea,
            Self::Bitbucket => ProviderKind::Bitbucket,
            Self::Azure => ProviderKind::AzureDevOps,
        }
    }

    fn body(self, number: u64) -> Value {
        match self {
            Self::GitHub | Self::Gitea | Self::Forgejo => json!({
                "action": "closed", "repository": {"full_name": "org/app"},
                "pull_request": {"number": number, "merged": true},
            }),
            Self::GitLabToken | Self::GitLabSigned => json!({
                "object_kind": "merge_request", "project": {"path_with_namespace": "org/app"},
                "object_attributes": {"iid": number, "state": "merged", "action": "merge"},
            }),
            Self::Bitbucket => json!({
                "repository": {"full_name": "org/app"}, "pullrequest": {"id": number, "state": "MERGED"},
            }),
            Self::Azure => json!({
                "id": format!("event-{number}"), "eventType": "git.pullrequest.merged",
                "resource": {
                    "pullRequestId": number, "status": "completed",
                    "repository": {
                        "name": "app", "remoteUrl": "https://dev.azure.com/org/project/_git/app",
                        "project": {"name": "project"},
                    },
                },
            }),
        }
    }

    fn repository(self) -> &'static str {
        if self == Self::Azure { "org/project/app" } else { "org/app" }
    }

    fn headers(self, secret: &str, body: &[u8], delivery: &str) -> Vec<(String, String)> {
        let hex = HEXLOWER.encode(&signature(secret, &[body]));
        let pairs: Vec<(&str, String)> = match self {
            Self::GitHub => vec![
                ("X-Hub-Signature-256", format!("sha256={hex}")),
                ("X-GitHub-Event", "pull_request".to_owned()),
                ("X-GitHub-Delivery", delivery.to_owned()),
            ],
            Self::GitLabToken => vec![
                ("X-Gitlab-Token", secret.to_owned()),
                ("X-Gitlab-Event", "Merge Request Hook".to_owned()),
                ("X-Gitlab-Event-UUID", delivery.to_owned()),
            ],
            Self::GitLabSigned => {
                let time = "1794891600";
                let signed = signature(secret, &[delivery.as_bytes(), b".", time.as_bytes(), b".", body]);
                vec![
                    ("webhook-signature", format!("v1,AAAA v1,{}", STANDARD.encode(signed))),
                    ("webhook-id", delivery.to_owned()),
                    ("webhook-timestamp", time.to_owned()),
                    ("X-Gitlab-Event", "Merge Request Hook".to_owned()),
                ]
            }
            Self::Gitea => vec![
                ("X-Gitea-Signature", hex),
                ("X-Gitea-Event", "pull_request".to_owned()),
                ("X-Gitea-Delivery", delivery.to_owned()),
            ],
            Self::Forgejo => vec![
                ("X-Forgejo-Signature", hex),
                ("X-Forgejo-Event", "pull_request".to_owned()),
                ("X-Forgejo-Delivery", delivery.to_owned()),
            ],
            Self::Bitbucket => vec![
                ("X-Hub-Signature", format!("sha256={hex}")),
                ("X-Event-Key", "pullrequest:fulfilled".to_owned()),
                ("X-Request-UUID", delivery.to_owned()),
            ],
            Self::Azure => {
                vec![("Authorization", format!("Basic {}", STANDARD.encode(format!("hooks:{secret}"))))]
            }
        };
        pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::at("2026-11-17T05:00:00Z".parse().unwrap()))
}

fn accept(
    receiver: &WebhookReceiver,
    scheme: Scheme,
    headers: Vec<(String, String)>,
    body: &[u8],
) -> Result<WebhookOutcome, WebhookError> {
    let secret = WebhookSecret::new(SECRET);
    receiver.accept(scheme.kind(), &WebhookHeaders::from_iter(headers), body, Some(&secret))
}

#[test]
fn a_true_delivery_names_a_pull_request_and_a_repeated_one_nothing() {
    for scheme in SCHEMES {
        let receiver = WebhookReceiver::new(clock());
        let body = scheme.body(7).to_string().into_bytes();
        let headers = scheme.headers(SECRET, &body, "d-1");
        let outcome = accept(&receiver, scheme, headers.clone(), &body).unwrap();
        let repository = scheme.repository().to_owned();
        assert_eq!(
            outcome,
            WebhookOutcome::Event(WebhookEvent::PullRequest { repository, number: 7 }),
            "{scheme:?}"
        );
        assert_eq!(
            accept(&receiver, scheme, headers, &body).unwrap(),
            WebhookOutcome::Repeated,
            "{scheme:?}"
        );
    }
}

#[test]
fn forged_deliveries_are_refused() {
    for scheme in SCHEMES {
        let receiver = WebhookReceiver::new(clock());
        let body = scheme.body(7).to_string().into_bytes();
        let wrong = accept(&receiver, scheme, scheme.headers("guessed", &body, "d"), &body).unwrap_err();
        assert_eq!((wrong.clone(), wrong.status()), (WebhookError::BadSignature, 401), "{scheme:?}");
        let unsigned = accept(&receiver, scheme, Vec::new(), &body).unwrap_err();
        assert_eq!((unsigned.clone(), unsigned.status()), (WebhookError::Unsigned, 401), "{scheme:?}");
        for empty in ["", "sha256=", "v1,", "Basic ", "Basic Og==", "zz"] {
            let headers = scheme.headers(SECRET, &body, "d").into_iter().map(|(name, value)| {
                let is_proof = name.contains("Signature")
                    || name.contains("signature")
                    || name.contains("Token")
                    || name == "Authorization";
                (name, if is_proof { empty.to_owned() } else { value })
            });
            let error = accept(&receiver, scheme, headers.collect(), &body).unwrap_err();
            assert_eq!(error.status(), 401, "{scheme:?} {empty:?}: {error}");
        }
        // A signature belongs to its body; a shared header does not.
        if !matches!(scheme, Scheme::GitLabToken | Scheme::Azure) {
            let headers = scheme.headers(SECRET, &body, "d");
            let other = scheme.body(8).to_string().into_bytes();
            assert_eq!(
                accept(&receiver, scheme, headers, &other),
                Err(WebhookError::BadSignature),
                "{scheme:?}"
            );
        }
    }
}

#[test]
fn without_a_secret_nothing_is_accepted() {
    for scheme in SCHEMES {
        let receiver = WebhookReceiver::new(clock());
        let body = scheme.body(7).to_string().into_bytes();
        let headers = WebhookHeaders::from_iter(scheme.headers("", &body, "d"));
        for secret in [None, Some(WebhookSecret::new(""))] {
            let error = receiver.accept(scheme.kind(), &headers, &body, secret.as_ref()).unwrap_err();
            assert_eq!((error.clone(), error.status()), (WebhookError::NoSecret, 503), "{scheme:?}");
        }
    }
}

#[test]
fn another_order_of_deliveries_names_the_same_pull_requests() {
    for scheme in SCHEMES {
        let hear = |order: &[u64]| {
            let receiver = WebhookReceiver::new(clock());
            let mut heard: Vec<String> = order
                .iter()
                .map(|number| {
                    let body = scheme.body(*number).to_string().into_bytes();
                    let headers = scheme.headers(SECRET, &body, &format!("d-{number}"));
                    format!("{:?}", accept(&receiver, scheme, headers, &body).unwrap())
                })
                .collect();
            heard.sort();
            heard
        };
        assert_eq!(hear(&[1, 2, 3]), hear(&[3, 1, 2]), "{scheme:?}");
    }
}

#[test]
fn a_signed_time_that_is_long_ago_is_refused() {
    let clock = clock();
    let receiver = WebhookReceiver::new(clock.clone());
    let body = Scheme::GitLabSigned.body(7).to_string().into_bytes();
    let headers = |delivery| Scheme::GitLabSigned.headers(SECRET, &body, delivery);
    clock.advance(Duration::from_secs(299));
    accept(&receiver, Scheme::GitLabSigned, headers("a"), &body).unwrap();
    clock.advance(Duration::from_secs(2));
    let error = accept(&receiver, Scheme::GitLabSigned, headers("b"), &body).unwrap_err();
    assert_eq!((error.clone(), error.status()), (WebhookError::Stale, 401));
}

#[test]
fn reviews_pings_and_everything_else_have_their_event() {
    let receiver = WebhookReceiver::new(clock());
    let hear = |scheme: Scheme, name: &str, event: &str, body: Value| {
        let body = body.to_string().into_bytes();
        let mut headers = scheme.headers(SECRET, &body, event);
        headers.retain(|(known, _)| known != name);
        headers.push((name.to_owned(), event.to_owned()));
        accept(&receiver, scheme, headers, &body).unwrap()
    };
    let review = |repository: &str| {
        WebhookOutcome::Event(WebhookEvent::Review { repository: repository.to_owned(), number: 1 })
    };
    let body = |scheme: Scheme| scheme.body(1);
    let hub = Scheme::GitHub;
    assert_eq!(hear(hub, "X-GitHub-Event", "pull_request_review", body(hub)), review("org/app"));
    assert_eq!(hear(hub, "X-GitHub-Event", "ping", json!({})), WebhookOutcome::Event(WebhookEvent::Ping));
    assert_eq!(hear(hub, "X-GitHub-Event", "star", json!({})), WebhookOutcome::Event(WebhookEvent::Other));
    let gitea = Scheme::Gitea;
    assert_eq!(hear(gitea, "X-Gitea-Event", "pull_request_approved", body(gitea)), review("org/app"));
    let bucket = Scheme::Bitbucket;
    assert_eq!(hear(bucket, "X-Event-Key", "pullrequest:approved", body(bucket)), review("org/app"));
    let mut approved = body(Scheme::GitLabToken);
    approved["object_attributes"]["action"] = "approved".into();
    assert_eq!(
        hear(Scheme::GitLabToken, "X-Gitlab-Event", "Merge Request Hook", approved),
        review("org/app")
    );
}

#[test]
fn large_and_senseless_bodies_are_refused() {
    let receiver = WebhookReceiver::new(clock());
    for scheme in SCHEMES {
        let large = vec![b' '; (5 << 20) + 1];
        let error = accept(&receiver, scheme, scheme.headers(SECRET, &large, "d"), &large).unwrap_err();
        assert_eq!(error.status(), 413, "{scheme:?}");
        for body in [&b"{}"[..], b"", b"[1", b"null", b"{\"pull_request\":{\"number\":-1}}"] {
            let error = accept(&receiver, scheme, scheme.headers(SECRET, body, "d"), body).unwrap_err();
            assert_eq!(error.status(), 400, "{scheme:?}: {error}");
        }
    }
}

#[test]
fn the_log_of_deliveries_is_bounded_and_forgets_the_oldest() {
    let mut log = DeliveryLog::new(100);
    assert!((0..1_000).all(|number| log.is_new(&number.to_string())));
    assert!(!log.is_new("999") && !log.is_new("950"));
    assert!(log.is_new("1"));
}

#[test]
fn the_headers_of_a_delivery_tell_its_server() {
    for (names, expected) in [
        (vec!["X-GitHub-Event"], Some(ProviderKind::GitHub)),
        (vec!["X-GitHub-Event", "X-Gitea-Event"], Some(ProviderKind::Gitea)),
        (vec!["X-Forgejo-Event"], Some(ProviderKind::Gitea)),
        (vec!["X-Gitlab-Event"], Some(ProviderKind::GitLab)),
        (vec!["X-Event-Key"], Some(ProviderKind::Bitbucket)),
        (vec!["X-Other"], None),
    ] {
        let headers: WebhookHeaders = names.iter().map(|name| (*name, "x")).collect();
        assert_eq!(headers.provider(), expected, "{names:?}");
    }
}
