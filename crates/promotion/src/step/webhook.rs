//! Deliveries of servers: reasons to look at a step's pull request, and never more.

use slipway_cluster::ListOptions;
use slipway_manifest::ObjectRef;
use slipway_scm::{ProviderKind, WebhookError, WebhookEvent, WebhookHeaders, WebhookOutcome, WebhookSecret};

use crate::kinds::{self, KindError, PromotionStep, PromotionStepSpec, StepState};

use super::access::provider_kind;
use super::outcome::Dependency;
use super::reconciler::StepReconciler;

/// A delivery as it came in.
pub struct WebhookDelivery<'d> {
    /// The kind of server, where the address says it; told by the headers when absent.
    pub provider: Option<ProviderKind>,
    pub headers: &'d WebhookHeaders,
    pub body: &'d [u8],
}

/// The reason a delivery is not taken.
#[derive(Debug, thiserror::Error)]
pub enum DeliveryError {
    #[error(transparent)]
    Refused(#[from] WebhookError),
    #[error("the steps cannot be read")]
    Cluster(#[from] KindError),
}

impl DeliveryError {
    /// The HTTP status to answer with.
    pub fn status(&self) -> u16 {
        match self {
            Self::Refused(error) => error.status(),
            Self::Cluster(_) => 503,
        }
    }
}

impl StepReconciler {
    /// Takes a delivery and returns the steps to look at now. Deliveries about others, and repeated ones, name none.
    pub async fn receive_webhook(
        &self,
        delivery: WebhookDelivery<'_>,
    ) -> Result<Vec<ObjectRef>, DeliveryError> {
        let kind = delivery.provider.or_else(|| delivery.headers.provider());
        let kind = kind.ok_or(WebhookError::Malformed)?;
        let waiting = self.waiting_steps().await?;
        let mut refusal = WebhookError::NoSecret;
        for secret in self.webhook_secrets(kind, &waiting).await {
            match self.shared.receiver.accept(kind, delivery.headers, delivery.body, Some(&secret)) {
                Ok(WebhookOutcome::Repeated) => return Ok(Vec::new()),
                Ok(WebhookOutcome::Event(event)) => return Ok(self.nudge_steps(kind, &event, &waiting)),
                // Another repository of the same kind may have another secret.
                Err(error @ (WebhookError::BadSignature | WebhookError::Unsigned)) => refusal = error,
                Err(error) => return Err(error.into()),
            }
        }
        Err(refusal.into())
    }

    /// The steps that wait for their pull request: each is to be looked at once after a start.
    pub async fn catch_up(&self) -> Result<Vec<ObjectRef>, KindError> {
        let steps: Vec<ObjectRef> =
            self.waiting_steps().await?.iter().map(PromotionStep::reference).collect();
        steps.iter().for_each(|step| self.nudge(step));
        Ok(steps)
    }

    async fn waiting_steps(&self) -> Result<Vec<PromotionStep>, KindError> {
        let steps =
            kinds::list::<PromotionStepSpec>(&self.shared.cluster, None, &ListOptions::default()).await?;
        Ok(steps.into_iter().filter(|step| step.state() == StepState::WaitingForMerge).collect())
    }

    /// The secrets a delivery may be signed with: those of the repositories, then that of the process.
    async fn webhook_secrets(&self, kind: ProviderKind, waiting: &[PromotionStep]) -> Vec<WebhookSecret> {
        let mut seen = std::collections::BTreeSet::new();
        let mut secrets = Vec::new();
        for step in waiting.iter().filter(|step| provider_kind(step.spec.git.provider) == kind) {
            let Some(reference) = &step.spec.git.secret_ref else { continue };
            let place = reference.namespace.clone().unwrap_or_else(|| step.namespace().to_owned());
            if !seen.insert((place, reference.name.clone())) {
                continue;
            }
            let secret = self.shared.read_secret(step.namespace(), reference, Dependency::Scm).await;
            secrets.extend(secret.ok().and_then(|secret| secret.webhook_secret()));
        }
        secrets.extend(self.shared.options.webhook_secret.clone());
        secrets
    }

    fn nudge_steps(
        &self,
        kind: ProviderKind,
        event: &WebhookEvent,
        waiting: &[PromotionStep],
    ) -> Vec<ObjectRef> {
        let (repository, number) = match event {
            WebhookEvent::PullRequest { repository, number }
            | WebhookEvent::Review { repository, number } => (repository, *number),
            WebhookEvent::Ping | WebhookEvent::Other => return Vec::new(),
        };
        let is_meant = |step: &&PromotionStep| {
            provider_kind(step.spec.git.provider) == kind
                && step.status.pr_number == Some(number)
                && step.status.pr_repo.as_deref().is_some_and(|slug| slug.eq_ignore_ascii_case(repository))
        };
        let found: Vec<ObjectRef> = waiting.iter().filter(is_meant).map(PromotionStep::reference).collect();
        found.iter().for_each(|step| self.nudge(step));
        found
    }
}
