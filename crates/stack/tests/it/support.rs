//! Trees of files, a deployer that records what it is asked, and runs in virtual time.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fs;
use std::path::Path;
use std::process::Command as Process;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use slipway_event::{Events, ManualClock};
use slipway_stack::execute::{RunOptions, RunSession, RunStart, StackRunResult, run_session};
use slipway_stack::record::{Disk, RunEvent, RunMeta, RunStore, StoredRun, Takeover};
use slipway_stack::resume::{self, Resume};
use slipway_stack::{
    AppliedRelease, At, Command, CompiledStack, ConfirmPolicy, Deploy, Error, ExecutedRun, FailMode,
    FailureClass, Git, LiveRelease, NeedsPolicy, Node, NodeError, PlannedRun, ReleaseAttempt, ReleasePreview,
    ReleaseVerdict, RemoteCharts, Request, RunRequest, Selector, StackPlan, acquire_lock, compile, execute,
    plan,
};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// Git as on a machine without settings: neither those of its user nor of a hook this runs in matter.
pub(crate) fn plain_git() -> Process {
    let mut git = Process::new("git");
    git.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    git.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
    git
}

pub(crate) struct Place(pub(crate) TempDir);

impl Place {
    pub(crate) fn new(files: &[(&str, &str)]) -> Self {
        let place = Self(TempDir::new().unwrap());
        for (name, text) in files {
            place.write(name, text);
        }
        place
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> &Self {
        let path = self.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    /// The least a directory needs to be a chart.
    pub(crate) fn chart(&self, dir: &str) -> &Self {
        self.write(&format!("{dir}/Chart.yaml"), "apiVersion: v2\nname: x\nversion: 0.1.0\n")
    }

    pub(crate) fn request(&self) -> Request {
        Request { root: self.path().to_owned(), ..Request::default() }
    }

    pub(crate) fn select(&self, selector: Selector) -> Result<CompiledStack, Error> {
        compile(&Request { selector, ..self.request() }, &Git::default())
    }

    pub(crate) fn compile(&self) -> CompiledStack {
        compile(&self.request(), &Git::default()).unwrap()
    }

    pub(crate) fn git(&self, args: &[&str]) {
        let identity = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"];
        let output = plain_git().arg("-C").arg(self.path()).args(identity).args(args).output().unwrap();
        assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    pub(crate) fn commit(&self) {
        if !self.path().join(".git").exists() {
            self.git(&["init", "-q", "-b", "main"]);
        }
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "--allow-empty", "-m", "x"]);
    }
}

/// The example of the roadmap: five services and the application that needs them.
pub(crate) fn seed() -> Place {
    let place = Place::new(&[
        (
            "stack.yaml",
            "apiVersion: ktl.dev/v1\nkind: Stack\nname: roedk2\ndefaultProfile: dev\ndefaults:\n  cluster:\n    \
             name: roedk2\n    kubeconfig: ~/.kube/roedk2.yaml\n    context: roedk2\n  namespace: roedk-2\n  \
             apply: { atomic: true, timeout: 10m, wait: true }\n  delete: { timeout: 10m }\n",
        ),
        (
            "services/stack.yaml",
            "defaults:\n  tags: [svc]\nreleases:\n\
             - {name: postgresql, chart: ./postgresql, values: [values-dev.yaml], tags: [db]}\n\
             - {name: redis, chart: ./redis, values: [values-dev.yaml], tags: [cache]}\n\
             - {name: minio, chart: ./minio, values: [values-dev.yaml], tags: [storage]}\n\
             - {name: keycloak, chart: ./keycloak, values: [values-dev.yaml], needs: [postgresql], tags: [auth]}\n\
             - {name: pgadmin, chart: ./pgadmin, values: [values-dev.yaml], needs: [postgresql], tags: [ops]}\n",
        ),
        (
            "helm-roedk/stack.yaml",
            "defaults:\n  tags: [app]\nreleases:\n- name: roedk\n  chart: .\n  values: [values-dev-roedk2.yaml]\n  \
             needs: [postgresql, redis, minio, keycloak]\n  tags: [bundle]\n",
        ),
        ("helm-roedk/values-dev-roedk2.yaml", "a: 1\n"),
    ]);
    place.chart("helm-roedk");
    for service in ["postgresql", "redis", "minio", "keycloak", "pgadmin"] {
        place.chart(&format!("services/{service}"));
        place.write(&format!("services/{service}/values-dev.yaml"), "replicas: 1\n");
    }
    place
}

/// A stack of bare releases: `a`, `b: a` needs `a`.
pub(crate) fn graph(lines: &str) -> Place {
    let place = Place::new(&[]);
    let mut text = String::from("name: shop\nreleases:\n");
    for line in lines.lines().filter(|line| !line.trim().is_empty()) {
        let (name, needs) = line.trim().split_once(':').unwrap_or((line.trim(), ""));
        let needs: Vec<&str> = needs.split_whitespace().collect();
        text += &format!(
            "- {{name: {name}, chart: ./chart, values: [{name}.yaml], needs: [{}]}}\n",
            needs.join(", ")
        );
        place.write(&format!("{name}.yaml"), "x: 1\n");
    }
    place.write("stack.yaml", &text).chart("chart");
    place
}

/// What the fake does when asked to apply or delete a release.
#[derive(Clone, Debug)]
pub(crate) enum Script {
    Ok,
    Unchanged,
    Fail(FailureClass),
    Panic,
    /// Never ends unless it is told to stop.
    Hang,
}

/// Records what it is asked and does what it is told.
#[derive(Default)]
pub(crate) struct Fake {
    pub(crate) scripts: Mutex<HashMap<String, VecDeque<Script>>>,
    pub(crate) seconds: HashMap<String, u64>,
    pub(crate) live: Mutex<BTreeMap<String, LiveRelease>>,
    pub(crate) calls: Mutex<Vec<String>>,
    pub(crate) running: Mutex<(usize, usize)>,
    /// When the first work began and the last ended, in the time of the runtime.
    pub(crate) span: Mutex<Option<(tokio::time::Instant, tokio::time::Instant)>>,
    pub(crate) stop_at: Option<(String, CancellationToken)>,
}

impl Fake {
    pub(crate) fn new(scripts: &[(&str, &[Script])]) -> Self {
        let scripts = scripts.iter().map(|(name, all)| ((*name).to_owned(), all.iter().cloned().collect()));
        Self { scripts: Mutex::new(scripts.collect()), ..Self::default() }
    }

    pub(crate) fn calls(&self) -> Vec<String> {
        self.calls.lock().unwrap().clone()
    }

    async fn act(
        &self,
        verb: &str,
        node: &Node,
        attempt: &ReleaseAttempt<'_>,
    ) -> Result<AppliedRelease, NodeError> {
        self.calls.lock().unwrap().push(format!("{verb} {}", node.name));
        let script = self.scripts.lock().unwrap().get_mut(&node.name).and_then(VecDeque::pop_front);
        {
            let now = tokio::time::Instant::now();
            self.span.lock().unwrap().get_or_insert((now, now));
            let mut running = self.running.lock().unwrap();
            running.0 += 1;
            running.1 = running.1.max(running.0);
        }
        if let Some((name, token)) = &self.stop_at
            && *name == node.name
        {
            token.cancel();
        }
        let work =
            tokio::time::sleep(Duration::from_secs(self.seconds.get(&node.name).copied().unwrap_or(1)));
        let hang = matches!(script, Some(Script::Hang));
        let canceled = tokio::select! {
            () = work, if !hang => false,
            () = attempt.cancel.cancelled() => true,
        };
        self.running.lock().unwrap().0 -= 1;
        if let Some((_, end)) = self.span.lock().unwrap().as_mut() {
            *end = tokio::time::Instant::now();
        }
        if canceled {
            return Err(NodeError::new(FailureClass::Canceled, "stopped"));
        }
        let id = node.id.clone();
        match script.unwrap_or(Script::Ok) {
            Script::Ok => {
                self.live.lock().unwrap().insert(id, LiveRelease::Deployed { revision: 1 });
                Ok(AppliedRelease { revision: Some(1), changed: true, note: None })
            }
            Script::Unchanged => {
                Ok(AppliedRelease { revision: Some(1), changed: false, note: Some("unchanged".into()) })
            }
            Script::Fail(class) => Err(NodeError::new(class, format!("{} broke", node.name))),
            Script::Panic => panic!("the engine has a fault"),
            Script::Hang => Err(NodeError::new(FailureClass::Internal, "cannot be")),
        }
    }
}

impl Deploy for Fake {
    async fn apply(&self, node: &Node, attempt: &ReleaseAttempt<'_>) -> Result<AppliedRelease, NodeError> {
        self.act("apply", node, attempt).await
    }

    async fn delete(&self, node: &Node, attempt: &ReleaseAttempt<'_>) -> Result<AppliedRelease, NodeError> {
        self.act("delete", node, attempt).await
    }

    async fn status(&self, at: &At<'_>) -> Result<LiveRelease, NodeError> {
        let id = format!("{}/{}/{}", at.cluster.name, at.namespace, at.name);
        Ok(self.live.lock().unwrap().get(&id).cloned().unwrap_or(LiveRelease::Absent))
    }

    async fn recover(&self, at: &At<'_>, revision: u64, why: &str) -> Result<(), NodeError> {
        self.calls.lock().unwrap().push(format!("recover {} {revision}: {why}", at.name));
        let id = format!("{}/{}/{}", at.cluster.name, at.namespace, at.name);
        self.live.lock().unwrap().insert(id, LiveRelease::Failed { revision });
        Ok(())
    }

    async fn plan(&self, _: &Node, _: Command) -> Result<ReleasePreview, NodeError> {
        Ok(ReleasePreview::default())
    }

    async fn verify(&self, _: &Node) -> Result<ReleaseVerdict, NodeError> {
        Ok(ReleaseVerdict::default())
    }
}

/// How a test wants a plan run.
#[derive(Clone)]
pub(crate) struct How {
    pub(crate) concurrency: usize,
    pub(crate) per_cluster: usize,
    pub(crate) fail_mode: FailMode,
    pub(crate) retry: u32,
    pub(crate) needs: NeedsPolicy,
    pub(crate) options: RunOptions,
}

impl Default for How {
    fn default() -> Self {
        Self {
            concurrency: 1,
            per_cluster: 0,
            fail_mode: FailMode::FailFast,
            retry: 1,
            needs: NeedsPolicy::Check,
            options: RunOptions { host: "here".into(), pid: 1, ..RunOptions::default() },
        }
    }
}

pub(crate) fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::at("2026-11-16T01:02:03Z".parse().unwrap()))
}

pub(crate) fn store(place: &Place) -> RunStore {
    RunStore::new(&place.path().canonicalize().unwrap(), clock())
}

pub(crate) fn virtual_time<R>(work: impl Future<Output = R>) -> R {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_time().start_paused(true).build().expect("a runtime").block_on(work)
}

/// Fits a plan to how it is to be run.
pub(crate) fn fit(mut plan: StackPlan, how: &How) -> StackPlan {
    plan.concurrency = how.concurrency;
    if how.per_cluster > 0 {
        plan.concurrency_per_cluster.insert(String::new(), how.per_cluster);
    }
    plan.fail_mode = how.fail_mode;
    plan.retry = how.retry;
    plan.needs_policy = how.needs;
    plan
}

/// Runs a fresh plan; gives how it ended and the run's id.
pub(crate) fn start(place: &Place, plan: StackPlan, fake: &Fake, how: &How) -> (StackRunResult, String) {
    start_on(place, plan, fake, how, None, CancellationToken::new())
}

pub(crate) fn start_on(
    place: &Place,
    plan: StackPlan,
    fake: &Fake,
    how: &How,
    disk: Option<Box<dyn Disk>>,
    cancel: CancellationToken,
) -> (StackRunResult, String) {
    let store = store(place);
    let mut plan = fit(plan, how);
    let lock = store.lock(&plan.stack_name, plan.profile.as_deref(), "t@here:1", Takeover::Never).unwrap();
    let stored = store.create(&mut plan, &RunMeta::default()).unwrap();
    let log = match disk {
        Some(disk) => store.log_on(&stored, disk),
        None => store.log(&stored).unwrap(),
    };
    let options = RunOptions { retry: how.retry, ..how.options.clone() };
    let session = RunSession { store: &store, stored, lock, log, start: RunStart::Beginning, options };
    let finished = virtual_time(run_session(session, fake, &Events::silent(), cancel)).unwrap();
    (finished, plan.run_id)
}

/// Goes on with a run.
pub(crate) fn go_on(
    place: &Place,
    run_id: &str,
    command: Command,
    resume: &Resume,
    fake: &Fake,
    how: &How,
) -> Result<Option<StackRunResult>, Error> {
    let store = store(place);
    let root = place.path().canonicalize().unwrap();
    let stored = store.reopen(run_id)?;
    let Some(start) = resume::prepare(&stored, command, resume, &root, None)? else { return Ok(None) };
    let lock =
        store.lock(&stored.plan.stack_name, stored.plan.profile.as_deref(), "t@here:1", Takeover::Never)?;
    let log = store.log(&stored)?;
    let options = RunOptions { retry: how.retry, ..how.options.clone() };
    let session = RunSession { store: &store, stored, lock, log, start, options };
    virtual_time(run_session(session, fake, &Events::silent(), CancellationToken::new())).map(Some)
}

pub(crate) fn stored(place: &Place, run_id: &str) -> StoredRun {
    store(place).open(run_id).unwrap()
}

/// The types of a run's events, with the node's name and attempt.
pub(crate) fn story(events: &[RunEvent]) -> Vec<String> {
    events
        .iter()
        .map(|event| {
            let kind = serde_json::to_value(event.kind).unwrap();
            let node = event.node_id.as_deref().map_or("", |id| id.rsplit('/').next().unwrap());
            format!("{} {node} {}", kind.as_str().unwrap(), event.attempt)
                .trim_end_matches(" 0")
                .trim()
                .to_owned()
        })
        .collect()
}

/// Each node's name and state.
pub(crate) fn states(finished: &StackRunResult) -> String {
    let states = finished.summary.nodes.iter();
    states
        .map(|(id, node)| format!("{}={}", id.rsplit('/').next().unwrap(), node.status))
        .collect::<Vec<_>>()
        .join(" ")
}

/// Everything the command line can ask of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Launch {
    pub(crate) run: RunRequest,
    pub(crate) plan_only: bool,
    pub(crate) options: RunOptions,
    pub(crate) owner: String,
    pub(crate) policy: ConfirmPolicy,
}

impl Launch {
    pub(crate) fn concurrency(mut self, limit: usize) -> Self {
        self.run.concurrency = Some(limit);
        self
    }

    pub(crate) fn resume(mut self, resume: Option<Resume>) -> Self {
        self.run.resume = resume;
        self
    }
}

/// The end of a launch.
#[derive(Debug)]
pub(crate) enum Ended {
    Planned(Box<PlannedRun>),
    NothingToDo,
    Ran(ExecutedRun),
}

/// Locks, plans, asks and executes, as the command does.
pub(crate) async fn launch<D: Deploy>(
    launch: Launch,
    store: &RunStore,
    deploy: &D,
    ask: impl FnOnce(&str) -> Option<String>,
    events: &Events,
) -> Result<Ended, Error> {
    let Launch { run, plan_only, options, owner, policy } = launch;
    let git = Git::default();
    let lock = match plan_only {
        true => None,
        false => Some(acquire_lock(&run.request, store, &owner, Takeover::Never, events)?),
    };
    let charts = if plan_only { RemoteCharts::Leave } else { RemoteCharts::Pin };
    let run = RunRequest { remote_charts: charts, ..run };
    let planned = plan(&run, store, &git, deploy, events).await?;
    let Some(lock) = lock else { return Ok(Ended::Planned(Box::new(planned))) };
    if planned.is_done() {
        return Ok(Ended::NothingToDo);
    }
    if let Some(question) = planned.confirmation(&policy) {
        question.check(ask(question.text()).as_deref())?;
        planned.verify()?;
    }
    let saved = planned.save(store, &git, RunMeta::default())?;
    let ran = execute(saved, store, lock, options, deploy, events, CancellationToken::new()).await?;
    Ok(Ended::Ran(ran))
}

/// The exit codes the specification gives to failures of a stack.
pub(crate) trait SpecifiedExit {
    fn exit_code(&self) -> u8;
}

impl SpecifiedExit for Error {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Invalid(_) => 10,
            Self::Empty { git_only: true, .. } => 0,
            Self::Empty { git_only: false, .. } => 11,
            Self::Drift(_) => 12,
            Self::Locked { .. } => 13,
            Self::Unconfirmed(_) => 14,
            Self::Unwritable(_) | Self::Io { .. } => 1,
        }
    }
}
