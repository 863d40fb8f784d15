//! A request → a planned run: which releases, in which order, and where it starts from. Nothing that a cluster or a
//! record holds is written; charts from elsewhere may be fetched into the cache.

pub mod compile;
mod confirm;
mod value;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use slipway_event::{Event, Events};
use slipway_problem::Problem;

pub use self::compile::{CompiledStack, Request, Stack, load};
pub use self::confirm::{ConfirmPolicy, ConfirmQuestion};
pub use self::value::*;
use crate::deploy::Deploy;
use crate::discover;
use crate::error::Error;
use crate::execute::RunStart;
use crate::git::Git;
use crate::inherit::Profile;
use crate::model::StackFile;
use crate::pin;
use crate::record::{NodeStatus, RunLock, RunMeta, RunStore, StoredRun, Takeover};
use crate::resume::{self, Drift, Resume};
use crate::select::Selector;

/// Everything a plan of an apply or a deletion is asked for.
#[derive(Clone, Debug, Default)]
pub struct RunRequest {
    /// The stack and the selection; the selector must be empty when a run is resumed.
    pub request: Request,
    /// Goes on with a run instead of starting one.
    pub resume: Option<Resume>,
    /// The plan of a run that is gone on with.
    pub resumed_plan: ResumedPlan,
    pub remote_charts: RemoteCharts,
    pub concurrency: Option<usize>,
    pub concurrency_per_cluster: Option<usize>,
    pub fail_mode: FailMode,
    /// Attempts of each release.
    pub retry: u32,
}

/// The plan a run that is gone on with follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ResumedPlan {
    /// Its own, as stored.
    #[default]
    StoredRun,
    /// A new one, without what the run did already.
    Anew,
}

/// The time when charts of repositories and registries are fetched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RemoteCharts {
    /// With the plan, which then names the version and digest that was found.
    #[default]
    Pin,
    /// Later; the plan names what the files say.
    Leave,
}

/// A run as planned: shown, agreed to, [saved](Self::save) and then executed as it is.
#[derive(Debug)]
pub struct PlannedRun {
    /// Everything that is left to do.
    pub plan: StackPlan,
    pub warnings: Vec<Problem>,
    pub notices: Vec<String>,
    /// Changed files that belong to no release.
    pub unmapped: usize,
    /// The number of releases of the whole run, done or not.
    pub releases: usize,
    root: PathBuf,
    home: Option<PathBuf>,
    origin: RunOrigin,
}

/// The run a plan is for.
#[derive(Debug)]
enum RunOrigin {
    New,
    /// One that is gone on with; nothing to start from when nothing is left.
    StoredRun {
        stored: Box<StoredRun>,
        start: Option<RunStart>,
    },
}

/// A run whose intent is on disk.
#[derive(Debug)]
pub struct SavedRun {
    pub(crate) stored: StoredRun,
    pub(crate) start: RunStart,
}

impl SavedRun {
    pub fn run_id(&self) -> &str {
        &self.stored.plan.run_id
    }
}

/// Takes the lock of the stack a request is for. One that somebody did not give back is taken over, which is told.
pub fn acquire_lock(
    request: &Request,
    store: &RunStore,
    owner: &str,
    takeover: Takeover,
    events: &Events,
) -> Result<RunLock, Error> {
    let (stack, profile) = identify(&request.root, &request.profile);
    let lock = store.lock(&stack, profile.as_deref(), owner, takeover)?;
    if let Some(holder) = &lock.taken_from {
        events.send(Event::LockTakenOver { lock: stack, holder: Some(holder.owner.clone()) });
    }
    Ok(lock)
}

/// Plans a run. Everything that is wrong with the stack is reported at once.
pub async fn plan<D: Deploy>(
    wanted: &RunRequest,
    store: &RunStore,
    git: &Git,
    deploy: &D,
    events: &Events,
) -> Result<PlannedRun, Error> {
    let Request { root, profile, .. } = &wanted.request;
    let old = match &wanted.resume {
        Some(resume) => {
            let (stack, profile) = identify(root, profile);
            let run_id = resume::find(store, (&stack, profile.as_deref()), resume.run_id.as_deref())?;
            Some((run_id, resume))
        }
        None => None,
    };
    let planned = match old {
        Some((run_id, resume)) if wanted.resumed_plan == ResumedPlan::StoredRun => {
            plan_stored(wanted, store, &run_id, resume)?
        }
        old => plan_anew(wanted, store, git, deploy, old.map(|(run_id, _)| run_id)).await?,
    };
    let title = format!("{} {}", planned.plan.command, planned.plan.stack_name);
    events.send(Event::PlanMade { title, nodes: planned.plan.nodes.len(), changes: None });
    Ok(planned)
}

/// Plans what is left of a run, as its stored plan says.
fn plan_stored(
    wanted: &RunRequest,
    store: &RunStore,
    run_id: &str,
    resume: &Resume,
) -> Result<PlannedRun, Error> {
    let request = &wanted.request;
    if request.selector != Selector::default() {
        let message = "a resumed run does what its plan says; select again with --replan";
        return Err(Error::invalid("ST051", message));
    }
    let root = canonical(&request.root)?;
    let mut stored = store.open(run_id)?;
    let start = resume::prepare(&stored, request.command, resume, &root, request.home.as_deref())?;
    fit(&mut stored.plan, wanted);
    Ok(PlannedRun {
        plan: remaining(&stored),
        warnings: Vec::new(),
        notices: Vec::new(),
        unmapped: 0,
        releases: stored.plan.nodes.len(),
        root,
        home: request.home.clone(),
        origin: RunOrigin::StoredRun { stored: Box::new(stored), start },
    })
}

/// Compiles a plan; of a run that is gone on with, what it did is carried over.
async fn plan_anew<D: Deploy>(
    wanted: &RunRequest,
    store: &RunStore,
    git: &Git,
    deploy: &D,
    old: Option<String>,
) -> Result<PlannedRun, Error> {
    let mut request = wanted.request.clone();
    let old = match old {
        Some(run_id) => {
            let old = store.open(&run_id)?;
            resume::check_command(&old.plan, request.command)?;
            if request.selector == Selector::default() {
                request.selector = old.plan.selector.clone();
            }
            Some(old)
        }
        None => None,
    };
    let CompiledStack { mut plan, stack, warnings, notices, unmapped } = compile::compile(&request, git)?;
    let runner = stack.tree.root_file().map(|file| file.runner.clone()).unwrap_or_default();
    let size = |limit: u64| usize::try_from(limit).unwrap_or(usize::MAX);
    plan.concurrency = runner.concurrency.map_or(1, size);
    plan.concurrency_per_cluster =
        runner.per_cluster.into_iter().map(|(cluster, limit)| (cluster, size(limit))).collect();
    plan.fail_mode = wanted.fail_mode;
    plan.retry = wanted.retry.max(1);
    fit(&mut plan, wanted);
    if wanted.remote_charts == RemoteCharts::Pin {
        pin::pin(&mut plan, &stack.tree.root, deploy).await?;
    }
    if let Some(old) = &old {
        resume::carry_over(&mut plan, old);
    }
    Ok(PlannedRun {
        releases: plan.nodes.len(),
        plan,
        warnings,
        notices,
        unmapped,
        root: stack.tree.root,
        home: request.home,
        origin: RunOrigin::New,
    })
}

impl PlannedRun {
    /// Tells that there is nothing to do.
    pub fn is_done(&self) -> bool {
        match &self.origin {
            RunOrigin::New => self.plan.nodes.is_empty(),
            RunOrigin::StoredRun { start, .. } => start.is_none(),
        }
    }

    /// Returns the question a person has to agree to first, if the policy asks for one.
    pub fn confirmation(&self, policy: &ConfirmPolicy) -> Option<ConfirmQuestion> {
        ConfirmQuestion::new(&self.plan, policy)
    }

    /// Checks that the inputs are still those the plan was made from. What a run that is gone on with was allowed to
    /// ignore stays ignored.
    pub fn verify(&self) -> Result<(), Error> {
        if matches!(self.origin, RunOrigin::StoredRun { .. }) {
            return Ok(());
        }
        let nodes = resume::changed_nodes(&self.plan, &self.root, self.home.as_deref());
        let drift = Drift { nodes, ..Drift::default() };
        if drift.is_empty() { Ok(()) } else { Err(Error::Drift(Box::new(drift))) }
    }

    /// Puts the run on disk: a new one with its plan, one that is gone on with as it is, a torn end of its log put
    /// aside. From here on it can be resumed.
    pub fn save(self, store: &RunStore, git: &Git, meta: RunMeta) -> Result<SavedRun, Error> {
        let Self { mut plan, root, origin, .. } = self;
        match origin {
            RunOrigin::New => {
                let meta = RunMeta { git: git.head(&root), kube: contexts(&plan), ..meta };
                let stored = store.create(&mut plan, &meta)?;
                Ok(SavedRun { stored, start: RunStart::Beginning })
            }
            RunOrigin::StoredRun { stored: planned, start } => {
                let mut stored = store.reopen(&planned.plan.run_id)?;
                stored.plan = planned.plan;
                Ok(SavedRun { stored, start: start.unwrap_or(RunStart::Resume { drift: None }) })
            }
        }
    }
}

/// The context of each cluster of a plan.
fn contexts(plan: &StackPlan) -> BTreeMap<String, Option<String>> {
    plan.nodes.iter().map(|node| (node.cluster.name.clone(), node.cluster.context.clone())).collect()
}

/// Lets the command line have the last word on limits.
fn fit(plan: &mut StackPlan, wanted: &RunRequest) {
    if let Some(concurrency) = wanted.concurrency {
        plan.concurrency = concurrency;
    }
    if let Some(limit) = wanted.concurrency_per_cluster {
        plan.concurrency_per_cluster.insert(String::new(), limit);
    }
}

/// A stored plan without what is done.
fn remaining(stored: &StoredRun) -> StackPlan {
    let mut plan = stored.plan.clone();
    let is_open = |id: &str| stored.summary.status_of(id) != NodeStatus::Succeeded;
    plan.nodes.retain(|node| is_open(&node.id));
    plan.order.retain(|id| is_open(id));
    plan
}

/// The name and profile of the stack at `root`, from its root file alone.
pub fn identify(root: &Path, profile: &Profile) -> (String, Option<String>) {
    let file: Option<StackFile> = discover::root_file(root);
    let named = file.as_ref().and_then(|file| file.name.as_ref()).map(|name| name.value.clone());
    let fallback = || compile::name_of(&std::fs::canonicalize(compile::directory(root)).unwrap_or_default());
    let profile = match profile {
        Profile::Named(name) => Some(name.clone()),
        Profile::Default => file.and_then(|file| file.default_profile).map(|name| name.value),
    };
    (named.unwrap_or_else(fallback), profile)
}

fn canonical(root: &Path) -> Result<PathBuf, Error> {
    let root = compile::directory(root);
    std::fs::canonicalize(root).map_err(Error::io("open", root))
}
