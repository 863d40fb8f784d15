//! `helm`: a chart taken to the cluster by the release engine.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use slipway_chart::UserValues;
use slipway_cluster::Deadline;
use slipway_cluster::helm::{Driver, History, Release, Status, Storage};
use slipway_event::Scope;
use slipway_release::{
    Content, ExecuteOptions, Failure, MOST_PLANS, MissingNamespace, PlanOptions, PlanPurpose, ReleaseRequest,
    Report, RunTimeout,
};
use slipway_source::{LoadError, LoadedSource, SourcePath, SourceReference, SourceRequest, shown_address};
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{StepAction, StepFuture, StepOutcome, StepType, delete};
use crate::context::{RunContext, StepContext};
use crate::decode::actions as fields;
use crate::decode::block::Block;
use crate::decode::chart;
use crate::decode::json;
use crate::decode::names;
use crate::error::{ErrorKind, StepError};
use crate::files;
use crate::model::{Action, Helm, ValuesSource};
use crate::plan::look::{PlanRequest, namespace_note};
use crate::plan::{Seen, Show, Verb};
use crate::references::secret_node;
use crate::schema::{
    ADDRESS_OR_NONE, CHART, LABEL_OR_NONE, SUBDOMAIN_OR_NONE, at_most, described, like, list_of, object,
    one_of, text, with, word,
};
use slipway_problem::Problem;

/// How many revisions are kept.
const HISTORY: u32 = 10;

/// What an install would do, from what is there.
pub(crate) enum Decision {
    /// `skipIf: installed` holds.
    Skip,
    Install,
    Upgrade,
    /// Somebody's operation is under way, or was left that way.
    Pending(Status, Option<jiff::Timestamp>),
}

pub(crate) fn decide(history: &History, helm: &Helm) -> Decision {
    let Some(last) = history.last() else { return Decision::Install };
    let status = last.info.status;
    if status.is_pending() || status == Status::Uninstalling {
        return Decision::Pending(status, last.info.last_deployed.timestamp());
    }
    if helm.skip_if_installed && is_installed(history) {
        return Decision::Skip;
    }
    if status == Status::Uninstalled { Decision::Install } else { Decision::Upgrade }
}

/// Only a revision that went well counts; a failed first install does not.
fn is_installed(history: &History) -> bool {
    let since = history.releases.iter().rposition(|release| release.info.status == Status::Uninstalled);
    let since = since.map_or(0, |position| position + 1);
    history.releases[since..].iter().any(|release| release.info.status == Status::Deployed)
}

fn is_good(release: &Release) -> bool {
    matches!(release.info.status, Status::Deployed | Status::Superseded)
}

async fn install(attempt: &StepContext<'_>, helm: &Helm) -> Result<StepOutcome, StepError> {
    let storage = Storage::new(attempt.cluster().clone(), Driver::Secret, helm.namespace.as_str());
    let history = within(attempt, async { Ok(storage.history(&helm.release).await?) }).await?;
    match decide(&history, helm) {
        Decision::Skip => {
            let revision = history.deployed().map_or(0, |release| release.version);
            return Ok(StepOutcome::noted(format!(
                "revision {revision} is deployed already (skipIf: installed)"
            )));
        }
        Decision::Pending(status, since) => abandoned(attempt, helm, status, since)?,
        Decision::Install | Decision::Upgrade => {}
    }
    if helm.create_namespace {
        within(attempt, attempt.ensure_namespace(&helm.namespace)).await?;
    }
    let content = within(attempt, content(&attempt.world.place, helm)).await?;
    let request = request(helm, content, &history);
    let timeout = attempt.left().max(Duration::from_millis(1));
    let options = ExecuteOptions {
        timeout: Some(given(attempt, timeout)),
        // A first install is undone below, in the words of the step.
        auto_rollback: helm.atomic && history.releases.iter().any(is_good),
        history_limit: HISTORY,
        ..ExecuteOptions::default()
    };
    let failure = match apply_release(attempt, &request, &options).await? {
        Ok(report) => {
            let verb = if history.releases.iter().any(is_good) { "upgraded to" } else { "installed" };
            return Ok(StepOutcome::noted(format!("{verb} revision {}", report.revision)));
        }
        Err(failure) => failure,
    };
    let wrote = failure.report().is_some();
    let rolled_back = failure.report().and_then(|report| report.rollback.as_ref()).map(|back| back.revision);
    let mut error = told(attempt, failure);
    if !helm.atomic || !wrote {
        return Err(error);
    }
    if let Some(revision) = rolled_back {
        error.message.push_str(&format!("\nrolled back: revision {revision} is as the last good one was"));
        error.kind = if error.kind == ErrorKind::Canceled { error.kind } else { ErrorKind::Rollback };
        return Err(error);
    }
    // A release that was good once is never taken away, even if going back failed.
    if history.releases.iter().any(is_good) {
        return Err(error);
    }
    // Nothing to go back to: what the failed install left goes away, history and all.
    let undone = undo_install(attempt, helm, &storage).await;
    error.message.push_str(&match undone {
        Ok(()) => "\nnothing to roll back to: the release was uninstalled".to_owned(),
        Err(why) => format!("\nuninstalling what was left failed too: {why}"),
    });
    Err(error)
}

/// What is left of a step's time; prints as the step's own timeout.
pub(super) fn given(attempt: &StepContext<'_>, left: Duration) -> RunTimeout {
    RunTimeout::new(left, RunTimeout::from(attempt.step.timeout).to_string())
}

/// Whether a release left pending may be taken over: if it was left by this runbook, or long ago.
fn abandoned(
    attempt: &StepContext<'_>,
    helm: &Helm,
    status: Status,
    since: Option<jiff::Timestamp>,
) -> Result<(), StepError> {
    let now = attempt.world.place.events.clock().now();
    let age = since.map(|since| now.duration_since(since));
    let is_ours = match (attempt.interrupted_since, since) {
        // Records keep whole seconds.
        (Some(ours), Some(since)) => since.as_second() >= ours.as_second(),
        (ours, None) => ours.is_some(),
        (None, _) => false,
    };
    let is_old =
        age.is_none_or(|age| age >= jiff::SignedDuration::try_from(attempt.step.timeout).unwrap_or_default());
    let text = since.map_or_else(|| "an unknown time".to_owned(), |since| since.to_string());
    if is_ours || is_old {
        attempt.warn(format!(
            "release {} was left {status} since {text}: abandoned operation recovered",
            helm.release
        ));
        return Ok(());
    }
    let message =
        format!("release {}: another operation is in progress ({status}) since {text}", helm.release);
    Err(StepError::new(ErrorKind::Conflict, message)
        .hint("wait for it; if it died, run again once it is older than the step's timeout"))
}

async fn undo_install(attempt: &StepContext<'_>, helm: &Helm, storage: &Storage) -> Result<(), StepError> {
    if storage.revisions(&helm.release).await?.is_empty() {
        return Ok(());
    }
    // What stopped the attempt must not stop the repair, which has time of its own.
    let repair = StepContext::new(attempt.world, attempt.step, CancellationToken::new(), None);
    delete::remove(&repair, &helm.release, &helm.namespace, attempt.step.timeout).await?;
    for revision in storage.revisions(&helm.release).await? {
        storage.delete(&helm.release, revision.revision).await?;
    }
    Ok(())
}

/// What the release engine is asked for. Definitions beside the templates are for the first install.
pub(crate) fn request(helm: &Helm, content: Content, history: &History) -> ReleaseRequest {
    let missing_namespace =
        if helm.create_namespace { MissingNamespace::Create } else { MissingNamespace::Refuse };
    ReleaseRequest {
        name: helm.release.as_str().into(),
        namespace: helm.namespace.as_str().into(),
        content,
        options: PlanOptions {
            no_install_crds: history.releases.iter().any(is_good),
            no_final_tracking: !helm.wait,
            track_hooks: true,
            new_revision: true,
            missing_namespace,
            ..PlanOptions::default()
        },
    }
}

/// Reads the chart, brought here if need be, and its values: files in order, then what the step says itself.
pub(crate) async fn content(place: &RunContext<'_>, helm: &Helm) -> Result<Content, StepError> {
    let fetch = |message: String| StepError::new(ErrorKind::Fetch, message);
    let fetcher = &*place.sources.fetcher;
    let path = match helm.chart.reference() {
        SourceReference::Path(path) => {
            let path = place.base.join(path);
            files::check_chart(&path).map_err(|error| fetch(error).permanent())?;
            path
        }
        SourceReference::Chart(reference) => {
            let fetched = fetcher.fetch_chart(&reference).await.map_err(|error| {
                let failed = fetch(format!("chart {}: {error}", helm.chart));
                if error.permanent { failed.permanent() } else { failed }
            })?;
            fetched.path
        }
    };
    let mut values = UserValues::default();
    for source in &helm.values_from {
        let (name, bytes) = match source {
            ValuesSource::File(path) => {
                let file = place.base.join(path);
                let bytes = files::read(&file);
                let bytes = bytes
                    .map_err(|e| fetch(format!("valuesFrom {path}: {}", files::explain(&e))).permanent())?;
                (path.clone(), bytes)
            }
            ValuesSource::Url(url) => {
                let name = shown_address(url);
                let bytes = fetcher.fetch_file(url).await;
                let bytes = bytes.map_err(|error| fetch(format!("valuesFrom {name}: {error}")))?;
                (name, bytes)
            }
        };
        values.files.push((name, bytes));
    }
    if !helm.values.is_empty() {
        let own = Value::Object(helm.values.clone()).to_string();
        values.files.push(("values".to_owned(), own.into_bytes()));
    }
    let node = secret_node(&helm.release, Some(&helm.namespace));
    let request = SourceRequest { values, node, ..SourceRequest::default() };
    let context = place.sources.clone();
    let load = move || LoadedSource::load(&SourcePath::Chart(path), request, &context, &mut Vec::new());
    match tokio::task::spawn_blocking(load).await {
        Ok(loaded) => Ok(Content::Source(Arc::new(loaded.map_err(unloaded)?))),
        Err(error) => Err(StepError::new(ErrorKind::Render, format!("loading broke off: {error}"))),
    }
}

/// A chart that could not be read, in the words of a step.
fn unloaded(error: LoadError) -> StepError {
    let is_secret = error.is_secret();
    let error = StepError::from(error.into_problems());
    // Neither a key nor a value comes by itself.
    if is_secret { error.permanent() } else { error }
}

/// A failure of the engine, in the words of a step.
pub(super) fn told(attempt: &StepContext<'_>, failure: Failure) -> StepError {
    let stopped = matches!(failure, Failure::Cancelled { .. });
    let message = failure.to_string();
    let mut error = StepError::from(failure);
    if stopped && !attempt.cancel.is_cancelled() {
        // Nobody stopped the run: the attempt's time was over.
        error = StepError::new(
            ErrorKind::Timeout,
            format!("timed out after {:?}: {message}", attempt.step.timeout),
        );
    }
    error
}

/// Stops what takes too long before the engine itself is at work, or when the run is stopped.
async fn within<T>(
    attempt: &StepContext<'_>,
    work: impl Future<Output = Result<T, StepError>>,
) -> Result<T, StepError> {
    tokio::select! {
        biased;
        done = attempt.trouble.watch(work) => done,
        () = attempt.cancel.cancelled() => Err(attempt.stopped().await),
        () = tokio::time::sleep_until(attempt.deadline) => Err(attempt.stopped().await),
    }
}

/// Lets the release engine carry out a request within the time its options give. Until there is a plan nothing is
/// written, so planning may be left where it is: a template that never ends does not outlast the step. From then on
/// the engine ends in its own way.
pub(super) async fn apply_release(
    attempt: &StepContext<'_>,
    request: &ReleaseRequest,
    options: &ExecuteOptions,
) -> Result<Result<Report, Failure>, StepError> {
    let timeout = options.timeout.as_ref();
    let limit = timeout.map_or(attempt.step.timeout, RunTimeout::duration);
    let stop = stop_at(attempt, limit);
    let cluster = attempt.cluster().with_deadline(Deadline::after(limit));
    let events = attempt.world.place.events.child(Scope::step(&attempt.step.name));
    let planning = PlanOptions { purpose: PlanPurpose::Execute, ..request.options.clone() };
    let request = ReleaseRequest { options: planning, ..request.clone() };
    let mut tries = 1;
    loop {
        let planned = tokio::select! {
            biased;
            planned = slipway_release::plan(&cluster, &request, &events) => planned,
            () = stop.token.cancelled() => {
                attempt.awaits("planning the release took too long", Vec::new());
                return Err(attempt.stopped().await);
            }
        };
        let plan = match planned {
            Ok(plan) => plan,
            Err(failure) => return Ok(Err(failure.within(timeout, "it was planned"))),
        };
        match slipway_release::execute(&cluster, plan, options, &events, stop.token.clone()).await {
            // Another run had the lock first.
            Err(Failure::Stale(_)) if tries < MOST_PLANS => tries += 1,
            applied => return Ok(applied),
        }
    }
}

/// A token that fires when the run is stopped or the time is over.
struct Stop {
    token: CancellationToken,
    _ended: DropGuard,
}

fn stop_at(attempt: &StepContext<'_>, timeout: Duration) -> Stop {
    let token = attempt.cancel.child_token();
    let ended = CancellationToken::new();
    let (stop, over) = (token.clone(), ended.clone());
    let deadline = Instant::now() + timeout;
    tokio::spawn(async move {
        tokio::select! {
            () = over.cancelled() => {}
            // The engine's own timeout says more; this is for what happens around it.
            () = tokio::time::sleep_until(deadline + Duration::from_secs(1)) => stop.cancel(),
        }
    });
    Stop { token, _ended: ended.drop_guard() }
}

impl StepAction for Helm {
    fn describe(&self) -> String {
        format!("{} -> {}", self.chart, self.namespace)
    }

    fn plan<'a>(&'a self, cx: &'a StepContext<'a>, request: &'a PlanRequest<'a>) -> StepFuture<'a, Seen> {
        Box::pin(plan(cx, self, request))
    }

    fn perform<'a>(&'a self, cx: &'a StepContext<'a>) -> StepFuture<'a, StepOutcome> {
        Box::pin(install(cx, self))
    }

    fn irreversible(&self) -> Option<&'static str> {
        None
    }

    fn plan_undo<'a>(&'a self, cx: &'a StepContext<'a>) -> StepFuture<'a, Vec<String>> {
        Box::pin(async {
            let storage = Storage::new(cx.cluster().clone(), Driver::Secret, self.namespace.as_str());
            let known = !storage.revisions(&self.release).await?.is_empty();
            Ok(known.then(|| format!("release {}@{}", self.release, self.namespace)).into_iter().collect())
        })
    }

    fn undo<'a>(&'a self, cx: &'a StepContext<'a>) -> StepFuture<'a, StepOutcome> {
        Box::pin(delete::release(cx, &self.release, &self.namespace, true))
    }

    fn keeps_time(&self) -> bool {
        true
    }
}

async fn plan(attempt: &StepContext<'_>, helm: &Helm, request: &PlanRequest<'_>) -> Result<Seen, StepError> {
    let storage = Storage::new(attempt.cluster().clone(), Driver::Secret, helm.namespace.as_str());
    let history = storage.history(&helm.release).await?;
    let namespace = namespace_note(attempt, &helm.namespace, helm.create_namespace, request.earlier).await;
    let last = history.last().map(|last| {
        let (chart, version) = (last.chart.name().to_owned(), last.chart.version().to_owned());
        format!("revision {} {chart}-{version} {}", last.version, last.info.status)
    });
    let mut seen = match decide(&history, helm) {
        Decision::Skip => {
            return Ok(Seen::new(Verb::Skip, format!("{} (skipIf: installed)", last.unwrap_or_default())));
        }
        Decision::Install => Seen::new(Verb::Install, format!("no release yet; {namespace}")),
        Decision::Upgrade => {
            Seen::new(Verb::Upgrade, format!("{} → {}", last.unwrap_or_default(), helm.chart))
        }
        Decision::Pending(status, _) => {
            Seen::new(Verb::Upgrade, format!("{} was left {status}; {namespace}", last.unwrap_or_default()))
        }
    };
    if request.show == Show::Differences {
        seen.diff = Some(crate::diff::of_release(attempt, helm, &history).await);
    }
    Ok(seen)
}

/// How it is written.
pub(super) const TYPE: StepType = StepType {
    key: "helm",
    needed: "chart is required",
    decode: |block, step| decode(block, step).map(Action::Helm),
    definition: "HelmOp",
    about: "Installs or upgrades a chart.",
    schema,
};

fn decode(block: &Block<'_, '_>, step: &str) -> Option<Helm> {
    let chart = chart::read(block);
    let release = block.filled("release");
    let effective = release.map_or(step, |(_, release)| release);
    if let Some(problem) = names::release(effective)
        && !effective.is_empty()
    {
        match release {
            Some((node, _)) => block.report(node, "release", "E213", problem),
            None => block.missing("E213", problem.hint("set release:")),
        }
    }
    let namespace = fields::namespace(block, "E214");
    let skip_if_installed = fields::skip_if(block, "installed", "E215");
    let values = match block.get("values") {
        None => Some(serde_json::Map::new()),
        Some(node) => match json(node) {
            Value::Object(values) => Some(values),
            _ => {
                block.error(
                    node,
                    "values",
                    "E008",
                    format!("values must be a mapping, found {}", node.kind()),
                );
                None
            }
        },
    };
    let mut values_from = Vec::new();
    for (at, node) in block.list("valuesFrom") {
        let source = Block::new(node, at, block.findings);
        let (file, url) = (source.filled("file"), source.filled("url"));
        match (file, url) {
            (Some((_, file)), None) => values_from.push(ValuesSource::File(file.to_owned())),
            (None, Some((place, url))) => {
                if !fields::is_http(url) {
                    source.error(place, "url", "E212", "url must be an HTTP(S) URL");
                }
                values_from.push(ValuesSource::Url(url.to_owned()));
            }
            _ => source.missing("E211", Problem::error("expected exactly one of file, url")),
        }
        source.finish(&[]);
    }
    let atomic = block.bool("atomic").unwrap_or(false);
    let (create_namespace, wait) = (block.bool("createNamespace"), block.bool("wait"));
    Some(Helm {
        chart: chart?,
        release: effective.to_owned(),
        namespace: namespace.unwrap_or_else(|| "default".into()),
        create_namespace: create_namespace.unwrap_or(false),
        atomic,
        wait: wait.unwrap_or(false) || atomic,
        skip_if_installed,
        values: values?,
        values_from,
    })
}

fn schema() -> Value {
    let schema = object(
        &["chart"],
        vec![
            (
                "chart",
                like("A name in `repo`, `oci://…`, or a path starting with `./`, `../` or `/`.", CHART),
            ),
            ("repo", like("The URL of the repository of a chart given by its name.", ADDRESS_OR_NONE)),
            ("version", text("The chart's version.")),
            ("auth", described("HelmAuth", "Credentials for the repository or registry.")),
            ("release", at_most(53, like("The release's name; the step's unless told.", SUBDOMAIN_OR_NONE))),
            ("namespace", like("The release's namespace.", LABEL_OR_NONE)),
            ("createNamespace", described("BoolOrRef", "Creates the namespace if it is missing.")),
            ("atomic", described("BoolOrRef", "Undoes a release that fails; implies `wait`.")),
            ("wait", described("BoolOrRef", "Waits until everything is ready.")),
            ("skipIf", word(&["installed"], "Leaves an installed release alone.")),
            ("values", json!({ "type": "object", "description": "Values of the chart." })),
            ("valuesFrom", list_of("ValuesSource", "Values read from elsewhere; later ones win.")),
        ],
    );
    let starts =
        |pattern: &str| json!({ "properties": { "chart": { "pattern": pattern } }, "required": ["chart"] });
    let forbid = |keys: &[&str]| json!({ "not": { "anyOf": one_of(keys) } });
    with(
        schema,
        "allOf",
        json!([
            { "if": starts("^oci://"), "then": forbid(&["repo"]) },
            { "if": starts("^(\\./|\\.\\./|/)"), "then": forbid(&["repo", "version", "auth"]) },
            { "if": starts("^[A-Za-z0-9._-]+(:[^:]+)?$"), "then": {
                "required": ["repo"], "properties": { "repo": { "minLength": 1 } },
            } },
            // A version stands in one place only, and so do credentials.
            {
                "if": starts("^([A-Za-z0-9._-]+:[^:]+|oci://[^/]+/(.*/)?[^/]*[:@][^/]*)$"),
                "then": { "not": { "properties": { "version": { "minLength": 1 } }, "required": ["version"] } },
            },
            {
                "if": { "anyOf": [
                    starts("^oci://[^/]*@"),
                    { "properties": { "repo": { "pattern": "^https?://[^/?#]*@" } }, "required": ["repo"] },
                ] },
                "then": forbid(&["auth"]),
            },
        ]),
    )
}
