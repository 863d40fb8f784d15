//! Webhooks: true deliveries told from forged, repeated and old ones.
//!
//! A delivery says that something happened, not what is true: an event names a pull request to look at, so that forged
//! states, replays and another order change nothing.

mod deliveries;
mod event;
mod signature;

pub use deliveries::DeliveryLog;
pub use event::WebhookEvent;
pub use signature::WebhookSecret;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::{SignedDuration, Timestamp};
use slipway_event::Clock;

use crate::remote::ProviderKind;

/// The largest body that is looked at.
const LARGEST_BODY: usize = 5 << 20;
/// The age from which on a delivery that tells its time is too old.
const LONGEST_AGE: SignedDuration = SignedDuration::from_secs(300);

/// The headers of a delivery, their names in lower case.
#[derive(Clone, Debug, Default)]
pub struct WebhookHeaders(BTreeMap<String, String>);

impl<N: AsRef<str>, V: Into<String>> FromIterator<(N, V)> for WebhookHeaders {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(headers: I) -> Self {
        let lower =
            headers.into_iter().map(|(name, value)| (name.as_ref().to_ascii_lowercase(), value.into()));
        Self(lower.collect())
    }
}

impl WebhookHeaders {
    /// The kind of server that sends such headers. Gitea sends those of GitHub as well.
    pub fn provider(&self) -> Option<ProviderKind> {
        let has = |name: &str| self.0.contains_key(name);
        if has("x-gitea-event") || has("x-forgejo-event") {
            Some(ProviderKind::Gitea)
        } else if has("x-github-event") {
            Some(ProviderKind::GitHub)
        } else if has("x-gitlab-event") {
            Some(ProviderKind::GitLab)
        } else if has("x-event-key") {
            Some(ProviderKind::Bitbucket)
        } else {
            None
        }
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }
}

/// The reason a delivery is not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WebhookError {
    #[error("no secret is configured for these webhooks")]
    NoSecret,
    #[error("the delivery is larger than {limit} bytes")]
    TooLarge { limit: usize },
    #[error("the delivery is not signed")]
    Unsigned,
    #[error("the signature of the delivery is wrong")]
    BadSignature,
    #[error("the delivery was sent at another time")]
    Stale,
    #[error("the delivery cannot be understood")]
    Malformed,
    #[error("{provider} sends no webhooks")]
    Unsupported { provider: ProviderKind },
}

impl WebhookError {
    /// The status to answer with.
    pub fn status(&self) -> u16 {
        match self {
            Self::NoSecret => 503,
            Self::TooLarge { .. } => 413,
            Self::Unsigned | Self::BadSignature | Self::Stale => 401,
            Self::Malformed => 400,
            Self::Unsupported { .. } => 404,
        }
    }
}

/// A delivery that is true.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WebhookOutcome {
    /// Something to look at.
    Event(WebhookEvent),
    /// It was delivered before.
    Repeated,
}

/// Takes deliveries.
pub struct WebhookReceiver {
    clock: Arc<dyn Clock>,
    deliveries: Mutex<DeliveryLog>,
}

impl WebhookReceiver {
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, deliveries: Mutex::default() }
    }

    /// Checks a delivery and says what to look at. `None` for the secret means that none is configured.
    pub fn accept(
        &self,
        kind: ProviderKind,
        headers: &WebhookHeaders,
        body: &[u8],
        secret: Option<&WebhookSecret>,
    ) -> Result<WebhookOutcome, WebhookError> {
        if body.len() > LARGEST_BODY {
            return Err(WebhookError::TooLarge { limit: LARGEST_BODY });
        }
        let secret = secret.filter(|secret| !secret.is_empty()).ok_or(WebhookError::NoSecret)?;
        let signed_at = signature::verify(kind, headers, body, secret)?;
        if let Some(signed_at) = signed_at {
            self.check_age(signed_at)?;
        }
        let event = event::parse(kind, headers, body)?;
        let id = event::delivery_id(kind, headers, body);
        let mut deliveries = self.deliveries.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(if deliveries.is_new(&id) { WebhookOutcome::Event(event) } else { WebhookOutcome::Repeated })
    }

    /// The repository a delivery says it is about. Anybody may say so: it helps to choose a secret, and proves nothing.
    pub fn named_repository(kind: ProviderKind, headers: &WebhookHeaders, body: &[u8]) -> Option<String> {
        if body.len() > LARGEST_BODY {
            return None;
        }
        match event::parse(kind, headers, body).ok()? {
            WebhookEvent::PullRequest { repository, .. } | WebhookEvent::Review { repository, .. } => {
                Some(repository)
            }
            WebhookEvent::Ping | WebhookEvent::Other => None,
        }
    }

    fn check_age(&self, signed_at: Timestamp) -> Result<(), WebhookError> {
        let age = self.clock.now().duration_since(signed_at).abs();
        if age > LONGEST_AGE { Err(WebhookError::Stale) } else { Ok(()) }
    }
}
