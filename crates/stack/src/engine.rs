//! Releases carried out by the release engine.

use std::path::PathBuf;
use std::sync::Arc;

use jiff::Timestamp;

use slipway_chart::UserValues;
use slipway_cluster::helm::{Release, ReleaseStorage, RevisionStatus};
use slipway_cluster::{Cluster, Deadline, ErrorClass};
use slipway_event::Events;
use slipway_policy::PolicySet;
use slipway_problem::Problem;
use slipway_release::plan::read_situation;
use slipway_release::show::ViewOptions;
use slipway_release::{
    ExecuteOptions, Failure, FailureCause, MissingNamespace, PlanOptions, PolicyCheck, ReleaseContent,
    ReleasePlan, ReleaseReport, ReleaseRequest, ReleaseStatus, RunTimeout, inspect,
};
use slipway_secrets::{NodeContext, PolicyTarget};
use slipway_source::{ChartReference, LoadContext, LoadError, LoadedSource, SourcePath, SourceRequest};

use crate::deploy::{
    AppliedRelease, At, Deploy, FailureClass, LiveRelease, NodeError, ReleaseAttempt, ReleasePreview,
    ReleaseVerdict,
};
use crate::pin;
use crate::plan::{ClusterRef, Command, Node};
use crate::sources::SourceKind;

/// Opens clusters by what a stack says about them.
pub trait Connect: Sync {
    fn connect(&self, cluster: &ClusterRef) -> impl Future<Output = Result<Cluster, NodeError>> + Send;

    /// Has the last word on how a request is carried out; rehearsals wait for less.
    fn adjust(
        &self,
        cluster: &Cluster,
        request: &ReleaseRequest,
        options: ExecuteOptions,
    ) -> impl Future<Output = Result<ExecuteOptions, NodeError>> + Send {
        let _ = (cluster, request);
        async move { Ok(options) }
    }
}

/// The release engine, as a stack uses it.
pub struct Engine<C> {
    /// The directory the paths of a plan start from.
    pub root: PathBuf,
    pub connect: C,
    /// The context sources are fetched and read in.
    pub sources: LoadContext,
    /// The profile of the stack; policies on secrets may ask for it.
    pub profile: Option<String>,
    /// The stream of plans and checks, which belong to no attempt.
    pub events: Events,
    /// The policies every release is held against, before anything of it is written.
    pub policy: Option<StackPolicy>,
}

/// The policies of a stack.
#[derive(Clone, Debug)]
pub struct StackPolicy {
    pub policies: Arc<PolicySet>,
    /// The environment; the profile's name where none is given.
    pub environment: Option<String>,
    pub now: Timestamp,
}

impl<C: Connect> Engine<C> {
    /// Reads what a release is made of, once; a chart from elsewhere is fetched if it is not kept here.
    async fn source(&self, node: &Node) -> Result<LoadedSource, NodeError> {
        if let Some(reference) = node.secret_refs.first()
            && self.sources.resolver.is_none()
        {
            let message = format!("{}: there is no provider for {reference}", node.declared_at.file);
            return Err(NodeError::new(FailureClass::Secret, message));
        }
        let mut values = UserValues::default();
        for path in &node.values {
            values.read_file(&self.root.join(path)).map_err(|error| unloaded(error.into()))?;
        }
        values.set_json = node.set.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let request = SourceRequest { values, node: self.secret_node(node), ..SourceRequest::default() };
        if node.source_kind != SourceKind::Remote {
            let found = SourcePath::detect(&self.root.join(&node.chart));
            return self.load(found.map_err(|problem| unloaded(problem.into()))?, request).await;
        }
        let version = node.chart_version.as_deref();
        let request = SourceRequest { digest: node.chart_digest.clone(), ..request };
        if let Some(digest) = &node.chart_digest {
            let kept = SourcePath::Chart(pin::place(&self.root, digest));
            if let Some(loaded) = self.load_kept(kept, request.clone()).await? {
                return Ok(loaded);
            }
        }
        // Perhaps somebody emptied the cache: the same bytes will do, others were never planned.
        let fetched = SourcePath::Chart(self.fetch(&node.chart, version).await?);
        match (self.load_kept(fetched, request).await?, &node.chart_digest) {
            (Some(loaded), _) => Ok(loaded),
            (None, digest) => {
                let digest = digest.as_deref().unwrap_or_default();
                let message = format!("the chart {} is not the one that was planned: {digest}", node.chart);
                Err(NodeError::new(FailureClass::Invalid, message))
            }
        }
    }

    /// The release as policies on secrets and audit lines see it.
    fn secret_node(&self, node: &Node) -> NodeContext {
        let target = PolicyTarget {
            cluster: Some(node.cluster.name.clone()),
            namespace: Some(node.namespace.clone()),
            profile: self.profile.clone(),
            ..PolicyTarget::default()
        };
        NodeContext { node: Some(node.id.clone()), target }
    }

    async fn load(&self, path: SourcePath, request: SourceRequest) -> Result<LoadedSource, NodeError> {
        self.load_blocking(path, request).await.map_err(unloaded)
    }

    /// Loads an archive if it is the one that was planned.
    async fn load_kept(
        &self,
        path: SourcePath,
        request: SourceRequest,
    ) -> Result<Option<LoadedSource>, NodeError> {
        match self.load_blocking(path, request).await {
            Ok(loaded) => Ok(Some(loaded)),
            Err(LoadError::Digest { .. }) => Ok(None),
            Err(error) => Err(unloaded(error)),
        }
    }

    /// Loads on a thread that may wait.
    async fn load_blocking(
        &self,
        path: SourcePath,
        request: SourceRequest,
    ) -> Result<LoadedSource, LoadError> {
        let context = self.sources.clone();
        let work = move || LoadedSource::load(&path, request, &context, &mut Vec::new());
        let broke_off = |error| Err(Problem::error(format!("loading broke off: {error}")).into());
        tokio::task::spawn_blocking(work).await.unwrap_or_else(broke_off)
    }

    async fn request(&self, node: &Node) -> Result<ReleaseRequest, NodeError> {
        let missing_namespace =
            if node.apply.create_namespace { MissingNamespace::Create } else { MissingNamespace::Refuse };
        // Hooks are waited for whatever is said of objects, as Helm does.
        let options = PlanOptions {
            no_final_tracking: !node.apply.wait,
            track_hooks: true,
            missing_namespace,
            policy: self.policy_check(node),
            ..PlanOptions::default()
        };
        let content = ReleaseContent::Source(Arc::new(self.source(node).await?));
        Ok(ReleaseRequest {
            name: node.name.as_str().into(),
            namespace: node.namespace.as_str().into(),
            content,
            options,
        })
    }

    /// The policies for a release of one of the stack's clusters.
    fn policy_check(&self, node: &Node) -> Option<Arc<PolicyCheck>> {
        let policy = self.policy.as_ref()?;
        Some(Arc::new(PolicyCheck {
            policies: Arc::clone(&policy.policies),
            environment: policy.environment.clone().or_else(|| self.profile.clone()),
            cluster: Some(node.cluster.name.clone()),
            now: policy.now,
        }))
    }

    fn removal(&self, node: &Node) -> ReleaseRequest {
        ReleaseRequest {
            name: node.name.as_str().into(),
            namespace: node.namespace.as_str().into(),
            content: ReleaseContent::Nothing,
            options: PlanOptions { policy: self.policy_check(node), ..PlanOptions::default() },
        }
    }

    /// The release engine's own plan for a release, as its cluster is now; writes nothing.
    pub async fn prepare(&self, node: &Node, command: Command) -> Result<ReleasePlan, NodeError> {
        let request = match command {
            Command::Apply => self.request(node).await?,
            Command::Delete => self.removal(node),
        };
        let cluster = self.connect.connect(&node.cluster).await?;
        let request = stored_in(&cluster, request);
        slipway_release::plan(&cluster, &request, &self.events).await.map_err(failed)
    }

    async fn storage(&self, at: &At<'_>) -> Result<ReleaseStorage, NodeError> {
        let cluster = self.open(at.cluster, at.deadline).await?;
        let driver = cluster.release_driver();
        Ok(ReleaseStorage::new(cluster, driver, at.namespace))
    }

    /// Opens a cluster for work that ends at a deadline.
    async fn open(&self, cluster: &ClusterRef, deadline: Option<&Deadline>) -> Result<Cluster, NodeError> {
        let Some(deadline) = deadline else { return self.connect.connect(cluster).await };
        let opened = tokio::time::timeout_at(deadline.instant(), self.connect.connect(cluster)).await;
        let late = |_| {
            let message = format!("cluster {} was not reached in time", cluster.name);
            NodeError::new(FailureClass::Transport, message)
        };
        Ok(opened.map_err(late)??.with_deadline(deadline.clone()))
    }
}

/// The work before a release is planned, as timeouts name it.
const READING: &str = "its history was read";

/// A request whose records are where the cluster's releases are kept.
fn stored_in(cluster: &Cluster, mut request: ReleaseRequest) -> ReleaseRequest {
    request.options.driver = cluster.release_driver();
    request
}

fn applied(report: &ReleaseReport) -> AppliedRelease {
    let skipped = report.status == ReleaseStatus::Skipped;
    AppliedRelease {
        revision: Some(u64::from(report.revision.get())).filter(|revision| *revision > 0),
        changed: !skipped,
        note: skipped.then(|| "nothing to do".to_owned()),
    }
}

/// Tells that somebody else may still be at work on a pending revision.
fn is_busy(last: &Release, attempt: &ReleaseAttempt<'_>, timeout: u64) -> bool {
    let ours = attempt.interrupted || attempt.number > 1;
    let age = last.info.last_deployed.timestamp().map(|at| Timestamp::now().duration_since(at).as_millis());
    let young = age.is_none_or(|age| timeout == 0 || age < i128::from(timeout));
    last.info.status.is_pending() && !ours && young
}

impl<C: Connect> Deploy for Engine<C> {
    async fn apply(&self, node: &Node, attempt: &ReleaseAttempt<'_>) -> Result<AppliedRelease, NodeError> {
        let request = self.request(node).await?;
        let cluster = self.open(&node.cluster, attempt.deadline.as_ref()).await?;
        let request = stored_in(&cluster, request);
        let timeout = node.timeout(Command::Apply).map(RunTimeout::from);
        let known = read_situation(&cluster, &node.name, &node.namespace, request.options.driver).await;
        let known = known.map_err(|failure| failed(failure.with_timeout(timeout.as_ref(), READING)))?;
        if let Some(last) = known.history.last_release()
            && is_busy(last, attempt, node.apply.timeout_ms)
        {
            let status = last.info.status.as_str();
            let message =
                format!("revision {} is {status}: another operation is at work on it", last.version);
            return Err(NodeError::new(FailureClass::HelmBusy, message));
        }
        let options =
            ExecuteOptions { timeout, auto_rollback: node.apply.atomic, ..ExecuteOptions::default() };
        let options = self.connect.adjust(&cluster, &request, options).await?;
        let report =
            slipway_release::apply(&cluster, &request, &options, &attempt.events, attempt.cancel.clone())
                .await;
        report.map(|report| applied(&report)).map_err(failed)
    }

    async fn delete(&self, node: &Node, attempt: &ReleaseAttempt<'_>) -> Result<AppliedRelease, NodeError> {
        let cluster = self.open(&node.cluster, attempt.deadline.as_ref()).await?;
        let request = stored_in(&cluster, self.removal(node));
        let timeout = node.timeout(Command::Delete).map(RunTimeout::from);
        let known = read_situation(&cluster, &node.name, &node.namespace, request.options.driver).await;
        let known = known.map_err(|failure| failed(failure.with_timeout(timeout.as_ref(), READING)))?;
        if known.history.releases.is_empty() {
            return Ok(AppliedRelease {
                revision: None,
                changed: false,
                note: Some("not installed".to_owned()),
            });
        }
        let options = ExecuteOptions { timeout, ..ExecuteOptions::default() };
        let options = self.connect.adjust(&cluster, &request, options).await?;
        let report =
            slipway_release::apply(&cluster, &request, &options, &attempt.events, attempt.cancel.clone())
                .await;
        report.map(|report| applied(&report)).map_err(failed)
    }

    async fn fetch(&self, chart: &str, version: Option<&str>) -> Result<PathBuf, NodeError> {
        let reference = ChartReference {
            name: chart.to_owned(),
            version: version.map(str::to_owned),
            ..ChartReference::default()
        };
        let fetched = self.sources.fetcher.fetch_chart(&reference).await;
        fetched.map(|chart| chart.path).map_err(|error| unloaded(error.into()))
    }

    async fn status(&self, at: &At<'_>) -> Result<LiveRelease, NodeError> {
        let history = self.storage(at).await?.read_history(at.name).await.map_err(refused)?;
        Ok(history.last_release().map_or(LiveRelease::Absent, live))
    }

    async fn recover(&self, at: &At<'_>, revision: u64, why: &str) -> Result<(), NodeError> {
        let storage = self.storage(at).await?;
        let number = u32::try_from(revision).unwrap_or(u32::MAX);
        let Some(mut release) = storage.read_revision(at.name, number).await.map_err(refused)? else {
            return Ok(());
        };
        if !matches!(live(&release), LiveRelease::Pending { .. } | LiveRelease::Uninstalling { .. }) {
            return Ok(());
        }
        release.info.status = RevisionStatus::Failed;
        release.info.description = why.to_owned();
        storage.update(&release).await.map_err(refused)
    }

    async fn plan(&self, node: &Node, command: Command) -> Result<ReleasePreview, NodeError> {
        let plan = self.prepare(node, command).await?;
        let view = plan.view(&ViewOptions::default());
        let count = |actions: &[&str]| {
            view.summary
                .iter()
                .filter(|(action, _)| actions.contains(&action.as_str()))
                .map(|(_, count)| count)
                .sum()
        };
        let mut diff = String::new();
        for change in &view.changes {
            diff.push_str(&format!("{} {}\n", change.action, change.object));
            for line in &change.lines {
                diff.push_str(&format!("  {line}\n"));
            }
        }
        Ok(ReleasePreview {
            create: count(&["create"]),
            update: count(&["update", "apply"]),
            recreate: count(&["recreate"]),
            delete: count(&["delete"]),
            revision: !view.empty,
            policy: plan.policy.clone(),
            diff,
        })
    }

    async fn verify(&self, node: &Node) -> Result<ReleaseVerdict, NodeError> {
        let cluster = self.connect.connect(&node.cluster).await?;
        let storage = ReleaseStorage::new(cluster.clone(), cluster.release_driver(), &node.namespace);
        let history = storage.read_history(&node.name).await.map_err(refused)?;
        if history.last_release().map_or(LiveRelease::Absent, live) == LiveRelease::Absent {
            return Ok(ReleaseVerdict { absent: true, ..ReleaseVerdict::default() });
        }
        // What was deployed is compared, so none of the release's inputs is read.
        let request = stored_in(&cluster, self.removal(node));
        let changes =
            inspect::find_drift(&cluster, &request, None, &ViewOptions::default()).await.map_err(failed)?;
        let significant = changes.into_iter().filter(|change| !change.insignificant);
        Ok(ReleaseVerdict {
            drifted: significant.map(|change| change.object).collect(),
            ..ReleaseVerdict::default()
        })
    }
}

fn live(release: &Release) -> LiveRelease {
    let revision = u64::from(release.version);
    match release.info.status {
        RevisionStatus::Deployed | RevisionStatus::Superseded => LiveRelease::Deployed { revision },
        RevisionStatus::Uninstalled => LiveRelease::Absent,
        RevisionStatus::Uninstalling => LiveRelease::Uninstalling { revision },
        RevisionStatus::Failed | RevisionStatus::Unknown => LiveRelease::Failed { revision },
        status @ (RevisionStatus::PendingInstall
        | RevisionStatus::PendingUpgrade
        | RevisionStatus::PendingRollback) => {
            LiveRelease::Pending { revision, status: status.as_str().to_owned() }
        }
    }
}

/// A request the cluster refused, in the words of a stack.
pub fn refused(error: slipway_cluster::Error) -> NodeError {
    // A gateway that waited in vain is trouble of the server, as 502 and 503 are.
    let class =
        if error.status_code() == Some(504) { FailureClass::Server5xx } else { class_of(error.class) };
    let retry_after = error.retry_after;
    NodeError { retry_after, ..NodeError::new(class, error.to_string()).caused_by(error) }
}

fn class_of(class: ErrorClass) -> FailureClass {
    match class {
        ErrorClass::Throttled => FailureClass::RateLimit,
        ErrorClass::Server | ErrorClass::WebhookUnavailable => FailureClass::Server5xx,
        ErrorClass::Transport | ErrorClass::Timeout => FailureClass::Transport,
        ErrorClass::Conflict | ErrorClass::AlreadyExists => FailureClass::Conflict,
        ErrorClass::Immutable => FailureClass::ImmutableField,
        ErrorClass::Forbidden => FailureClass::Forbidden,
        ErrorClass::Unauthorized => FailureClass::Unauthenticated,
        ErrorClass::Invalid | ErrorClass::TypedPatch | ErrorClass::NoKind | ErrorClass::NotFound => {
            FailureClass::Invalid
        }
        _ => FailureClass::Internal,
    }
}

/// A source that could not be read, in the words of a stack.
fn unloaded(error: LoadError) -> NodeError {
    let class = match &error {
        error if error.is_secret() => FailureClass::Secret,
        LoadError::Fetch(error) if !error.permanent => FailureClass::Transport,
        _ => FailureClass::Invalid,
    };
    let message = match error {
        LoadError::Decrypt { file, source } => format!("decrypt {file}: {source}"),
        error => error.to_string(),
    };
    NodeError::new(class, message)
}

fn failed(failure: Failure) -> NodeError {
    match failure {
        Failure::Cluster(error) => refused(error),
        Failure::Problems(problems)
        | Failure::Source(problems)
        | Failure::Ownership(problems)
        | Failure::Stale(problems) => {
            NodeError::new(FailureClass::Invalid, problems.to_string()).caused_by(problems)
        }
        Failure::Immutable(problems) => {
            NodeError::new(FailureClass::ImmutableField, problems.to_string()).caused_by(problems)
        }
        Failure::Refused(problems) => {
            NodeError::new(FailureClass::Policy, problems.to_string()).caused_by(problems)
        }
        Failure::NotFound(message) => NodeError::new(FailureClass::Invalid, message),
        Failure::Cancelled { message, .. } => NodeError::new(FailureClass::Canceled, message),
        Failure::Locked(message) => NodeError::new(FailureClass::HelmBusy, message),
        Failure::Run { cause, .. } => {
            let class = match cause {
                // The record has one class for objects that do not become ready, in time or at all.
                FailureCause::Timeout | FailureCause::NotReady => FailureClass::WaitTimeout,
                FailureCause::LockLost => FailureClass::Conflict,
                FailureCause::Cancelled => FailureClass::Canceled,
                FailureCause::Cluster(class) => class_of(class),
                FailureCause::Other => FailureClass::Internal,
            };
            NodeError::new(class, failure.to_string()).caused_by(failure)
        }
    }
}
