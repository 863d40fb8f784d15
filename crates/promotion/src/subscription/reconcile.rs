//! The reconciler of subscriptions.

use std::sync::Arc;
use std::time::Duration;

use slipway_cluster::Cluster;
use slipway_event::Clock;
use slipway_git::{RepositoryCache, TransportPolicy};

use super::look::{FoundVersion, LookError, Lookout};
use crate::kinds::{
    Bundle, BundleSpec, BundleType, DiscoveredVersion, KindError, Metadata, SourceType, Subscription,
    SubscriptionPhase, SubscriptionSpec, create, get, labels, patch_status,
};
use crate::{OutboundClients, Requeue};

/// The shortest time between two looks.
const SHORTEST: Duration = Duration::from_secs(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(3600);
/// Versions that are kept in the status.
const MOST_KEPT: usize = 20;

/// Makes bundles of new versions.
pub struct SubscriptionReconciler {
    cluster: Cluster,
    clock: Arc<dyn Clock>,
    repositories: RepositoryCache,
    transports: TransportPolicy,
    outbound: OutboundClients,
}

impl SubscriptionReconciler {
    pub fn new(
        cluster: Cluster,
        clock: Arc<dyn Clock>,
        repositories: RepositoryCache,
        transports: TransportPolicy,
        outbound: OutboundClients,
    ) -> Self {
        Self { cluster, clock, repositories, transports, outbound }
    }

    /// Looks for a new version if it is time to, or somebody asked for it.
    pub async fn reconcile(&self, namespace: &str, name: &str) -> Result<Requeue, KindError> {
        let Some(read) = get::<SubscriptionSpec>(&self.cluster, namespace, name).await? else {
            return Ok(Requeue::Done);
        };
        if read.metadata.is_being_deleted() {
            return Ok(Requeue::Done);
        }
        let mut status = read.status.clone();
        let now = self.clock.now();
        if read.spec.suspend {
            status.phase = Some(SubscriptionPhase::Idle);
            status.next_poll_at = None;
            patch_status(&self.cluster, &read, &status).await?;
            return Ok(Requeue::Done);
        }
        let asked = read.metadata.annotation(labels::REFRESH);
        let is_asked = asked.is_some() && asked != status.refreshed.as_deref();
        let is_changed = status.observed_generation != Some(read.metadata.generation);
        if let Some(next) = status.next_poll_at.filter(|next| *next > now && !is_asked && !is_changed) {
            return Ok(Requeue::At(next));
        }
        let interval = interval_of(&read);
        status.observed_generation = Some(read.metadata.generation);
        status.refreshed = asked.map(str::to_owned);
        status.last_checked_at = Some(now);
        let pause = match self.look(&read).await {
            Ok(found) => {
                status.phase = Some(SubscriptionPhase::Watching);
                status.message = None;
                status.failures = 0;
                if let Some(found) = found {
                    self.take(&read, found, &mut status).await?;
                }
                interval
            }
            Err(error) => {
                status.phase = Some(SubscriptionPhase::Error);
                status.message = Some(error.to_string());
                status.failures = status.failures.saturating_add(1);
                interval.saturating_mul(1 << status.failures.min(8)).min(LONGEST_PAUSE.max(interval))
            }
        };
        let next = now.saturating_add(pause).unwrap_or(now);
        status.next_poll_at = Some(next);
        patch_status(&self.cluster, &read, &status).await?;
        Ok(Requeue::At(next))
    }

    async fn look(&self, subscription: &Subscription) -> Result<Option<FoundVersion>, LookError> {
        let lookout = Lookout {
            cluster: &self.cluster,
            repositories: &self.repositories,
            transports: self.transports,
            outbound: &self.outbound,
            namespace: subscription.namespace(),
        };
        let source = &subscription.spec.source;
        let missing = |field: &str| LookError::Settings(format!("`source.{field}` is missing"));
        match source.kind {
            SourceType::Image => lookout.image(source.image.as_ref().ok_or_else(|| missing("image"))?).await,
            SourceType::HelmChart => {
                lookout.chart(source.helm_chart.as_ref().ok_or_else(|| missing("helmChart"))?).await
            }
            SourceType::GitCommit => {
                let seen = subscription.status.last_seen_sha.as_deref();
                lookout.commit(source.git_commit.as_ref().ok_or_else(|| missing("gitCommit"))?, seen).await
            }
        }
    }

    /// Makes a bundle of a version that is new. The first one that is ever seen is what others are compared with.
    async fn take(
        &self,
        subscription: &Subscription,
        found: FoundVersion,
        status: &mut <SubscriptionSpec as crate::kinds::KindSpec>::Status,
    ) -> Result<(), KindError> {
        let is_git = subscription.spec.source.kind == SourceType::GitCommit;
        let last = if is_git { &status.last_seen_sha } else { &status.last_seen_digest };
        if last.as_deref() == Some(found.identity.as_str()) {
            return Ok(());
        }
        let is_first = last.is_none();
        let mut made = None;
        if !is_first || subscription.spec.create_on_first_poll {
            let bundle = bundle_of(subscription, &found);
            match create(&self.cluster, &bundle).await {
                Ok(_) => {}
                // Made before, by a process that ended before it could write so down.
                Err(error) if error.is_already_there() => {}
                Err(error) => return Err(error),
            }
            made = Some(bundle.name().to_owned());
            status.last_bundle_created.clone_from(&made);
        }
        let digest = (!is_git).then(|| found.identity.clone());
        if is_git {
            status.last_seen_sha = Some(found.identity);
        } else {
            status.last_seen_tag = Some(found.version.clone());
            status.last_seen_digest = Some(found.identity);
        }
        let entry = DiscoveredVersion {
            version: found.version,
            digest,
            found_at: status.last_checked_at,
            bundle: made,
        };
        status.discovered.insert(0, entry);
        status.discovered.truncate(MOST_KEPT);
        Ok(())
    }
}

fn interval_of(subscription: &Subscription) -> Duration {
    let source = &subscription.spec.source;
    let image = source.image.as_ref().map(|source| source.interval);
    let chart = source.helm_chart.as_ref().map(|source| source.interval);
    let git = source.git_commit.as_ref().map(|source| source.interval);
    let interval = match source.kind {
        SourceType::Image => image,
        SourceType::HelmChart => chart,
        SourceType::GitCommit => git,
    };
    interval.map_or(SHORTEST, |interval| interval.0).max(SHORTEST)
}

fn bundle_of(subscription: &Subscription, found: &FoundVersion) -> Bundle {
    let digits = labels::short_hash(&found.identity, 8);
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let version: String = found.version.chars().map(plain).take(30).collect();
    let name = format!("{}-{}-{digits}", subscription.name(), version.trim_matches('-'));
    let template = subscription.spec.bundle_template.clone().unwrap_or_default();
    let mut metadata = Metadata::named(subscription.namespace(), labels::bounded_name(&name, &name));
    // Labels of promotion itself mean something, and are not for a template to give.
    metadata.labels =
        template.labels.into_iter().filter(|(key, _)| !key.starts_with(labels::PREFIX)).collect();
    let pipeline = &subscription.spec.pipeline;
    for (key, value) in [
        (labels::PIPELINE, labels::label_value(pipeline)),
        (labels::SUBSCRIPTION, labels::label_value(subscription.name())),
        (labels::SOURCE_DIGEST, labels::short_hash(&found.identity, 32)),
    ] {
        metadata.labels.insert(key.to_owned(), value);
    }
    metadata.annotations.insert(labels::CREATED_THROUGH.to_owned(), "subscription".to_owned());
    let usual = match subscription.spec.source.kind {
        SourceType::GitCommit => BundleType::Config,
        SourceType::Image | SourceType::HelmChart => BundleType::Image,
    };
    let spec = BundleSpec {
        kind: template.kind.unwrap_or(usual),
        pipeline: Some(pipeline.clone()),
        artifacts: found.artifacts.clone(),
        provenance: None,
        intent: template.intent,
        ..BundleSpec::default()
    };
    Bundle::new(metadata, spec)
}
