//! Deliveries of servers: reasons to look at a step's pull request, and never more.

use std::collections::BTreeSet;

use slipway_cluster::ListOptions;
use slipway_git::RepositoryAddress;
use slipway_manifest::ObjectRef;
use slipway_scm::{
    ProviderKind, RemoteRepository, WebhookError, WebhookEvent, WebhookHeaders, WebhookOutcome,
    WebhookReceiver, WebhookSecret,
};

use crate::kinds::{
    self, GitSpec, KindError, Pipeline, PipelineSpec, PromotionStep, PromotionStepSpec, SecretRef, StepState,
};

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

/// Secrets that are tried at most: a forged delivery must not read a whole cluster.
const MOST_SECRETS: usize = 200;

/// A secret a delivery may be signed with.
enum KnownSecret {
    /// That of the process.
    Value(WebhookSecret),
    /// That of a repository, in a Secret.
    Reference { namespace: String, reference: SecretRef },
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
        let own = self.shared.options.webhook_secret.iter().cloned();
        let mut secrets = own.map(KnownSecret::Value).collect::<Vec<_>>();
        secrets.extend(self.repository_secrets(kind, &delivery, &waiting).await?);
        for secret in secrets {
            let Some(secret) = self.read_webhook_secret(secret).await else { continue };
            match self.shared.receiver.accept(kind, delivery.headers, delivery.body, Some(&secret)) {
                Ok(WebhookOutcome::Repeated) => return Ok(Vec::new()),
                Ok(WebhookOutcome::Event(event)) => return Ok(self.nudge_steps(kind, &event, &waiting)),
                // Another repository of the same kind may have another secret.
                Err(error @ (WebhookError::BadSignature | WebhookError::Unsigned)) => refusal = error,
                // Somebody else's that nothing can be signed with must not cut this repository off.
                Err(WebhookError::NoSecret) => {}
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

    /// The Secrets a delivery may be signed with: those of pipelines, whether or not one of their steps waits, and of
    /// steps whose pipeline has changed since. Only those of the repository it names, if that is known.
    async fn repository_secrets(
        &self,
        kind: ProviderKind,
        delivery: &WebhookDelivery<'_>,
        waiting: &[PromotionStep],
    ) -> Result<Vec<KnownSecret>, KindError> {
        let pipelines =
            kinds::list::<PipelineSpec>(&self.shared.cluster, None, &ListOptions::default()).await?;
        let of_steps = waiting.iter().map(|step| (step.namespace(), &step.spec.git));
        let of_pipelines =
            pipelines.iter().map(|pipeline: &Pipeline| (pipeline.namespace(), &pipeline.spec.git));
        let fitting: Vec<(&str, &GitSpec)> =
            of_steps.chain(of_pipelines).filter(|(_, git)| provider_kind(git.provider) == kind).collect();
        let named = WebhookReceiver::named_repository(kind, delivery.headers, delivery.body);
        let is_named = |git: &GitSpec| {
            let address = RepositoryAddress::parse(&git.url, self.shared.options.transports).ok();
            let remote = address
                .and_then(|address| RemoteRepository::new(&address, Some(kind), git.api_url.as_deref()).ok());
            let slug = remote.map(|remote| remote.slug());
            named.as_deref().is_some_and(|named| slug.is_some_and(|slug| slug.eq_ignore_ascii_case(named)))
        };
        let known: Vec<_> = fitting.iter().filter(|(_, git)| is_named(git)).copied().collect();
        let mut seen = BTreeSet::new();
        let mut secrets = Vec::new();
        for (namespace, git) in if known.is_empty() { fitting } else { known } {
            let Some(reference) = &git.secret_ref else { continue };
            let place = reference.namespace.as_deref().unwrap_or(namespace);
            // Whoever may use a Secret depends on the namespace it is used from.
            if seen.insert((place.to_owned(), reference.name.clone(), namespace.to_owned())) {
                let (namespace, reference) = (namespace.to_owned(), reference.clone());
                secrets.push(KnownSecret::Reference { namespace, reference });
            }
        }
        secrets.truncate(MOST_SECRETS);
        Ok(secrets)
    }

    async fn read_webhook_secret(&self, known: KnownSecret) -> Option<WebhookSecret> {
        match known {
            KnownSecret::Value(secret) => Some(secret),
            KnownSecret::Reference { namespace, reference } => {
                let read = self.shared.read_secret(&namespace, &reference, Dependency::Scm).await;
                read.ok().and_then(|secret| secret.webhook_secret())
            }
        }
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
