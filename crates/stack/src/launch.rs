//! A command from its flags to its end: lock, compile or resume, ask, run.

use std::collections::BTreeMap;
use std::path::Path;

use slipway_event::{Event, Events};
use tokio_util::sync::CancellationToken;

use crate::compile::{self, Compiled, Request};
use crate::deploy::Deploy;
use crate::discover;
use crate::error::Error;
use crate::git::Git;
use crate::inherit::Profile;
use crate::model::StackFile;
use crate::pin;
use crate::plan::{Command, FailMode, Plan};
use crate::record::{Meta, NodeStatus, Store, Stored, Takeover};
use crate::resume::{self, Resume};
use crate::run::{self, Finished, From, OnEvent, RunOptions, Session};
use crate::select::Selector;

/// Everything `apply` and `delete` can be told.
#[derive(Clone, Debug, Default)]
pub struct Launch {
    /// What to compile; its selector must be empty when a run is resumed.
    pub request: Request,
    /// Go on with a run instead of starting one.
    pub resume: Option<Resume>,
    /// Compile anew and carry over what the run did.
    pub replan: bool,
    /// Stop before anything is written.
    pub plan_only: bool,
    pub concurrency: Option<usize>,
    pub concurrency_per_cluster: Option<usize>,
    pub fail_mode: FailMode,
    pub options: RunOptions,
    pub takeover: Takeover,
    /// `user@host:pid`.
    pub owner: String,
    pub meta: Meta,
    /// Agree to everything.
    pub yes: bool,
    /// Ask before an apply too.
    pub confirm: bool,
    /// From how many releases on a deletion must be confirmed by name; 0 asks nothing.
    pub confirm_threshold: usize,
}

/// How a command ended.
#[derive(Debug)]
pub enum Ended {
    /// Only planned. The compilation is there unless a stored plan was shown.
    Planned {
        plan: Box<Plan>,
        compiled: Option<Box<Compiled>>,
    },
    /// The run has nothing left to do.
    NothingToDo {
        releases: usize,
    },
    Ran {
        plan: Box<Plan>,
        finished: Box<Finished>,
    },
}

/// Takes the plan before anything starts.
pub type OnPlan<'a> = Box<dyn FnMut(&Plan, Option<&Compiled>) + 'a>;
/// Puts a question to a person.
pub type Ask<'a> = Box<dyn FnMut(&str) -> Option<String> + 'a>;

/// Who listens to a launch.
pub struct Listener<'a> {
    /// Shown before anything starts.
    pub on_plan: OnPlan<'a>,
    /// Asks a person; none when nobody is there to answer.
    pub ask: Ask<'a>,
    /// Told of every event once it is written.
    pub on_event: Option<OnEvent<'a>>,
}

/// Runs a command to its end.
pub async fn launch<D: Deploy>(
    launch: Launch,
    store: &Store,
    git: &Git,
    deploy: &D,
    mut listener: Listener<'_>,
    events: &Events,
    cancel: CancellationToken,
) -> Result<Ended, Error> {
    let Launch { request, resume, .. } = &launch;
    let command = request.command;
    let (stack, profile) = identify(&request.root, &request.profile);
    let lock = match launch.plan_only {
        true => None,
        false => {
            let lock = store.lock(&stack, profile.as_deref(), &launch.owner, launch.takeover)?;
            if let Some(holder) = &lock.taken_from {
                let holder = Some(holder.owner.clone());
                events.send(Event::LockTakenOver { lock: stack.clone(), holder });
            }
            Some(lock)
        }
    };
    let old = match resume {
        Some(resume) => Some(resume::find(store, (&stack, profile.as_deref()), resume.run_id.as_deref())?),
        None => None,
    };
    let (mut stored, from, compiled) = match (old, resume) {
        (Some(run_id), Some(resume)) if !launch.replan => {
            if request.selector != Selector::default() {
                let message = "a resumed run does what its plan says; select again with --replan";
                return Err(Error::invalid("ST051", message));
            }
            let root = canonical(&request.root)?;
            let home = request.home.as_deref();
            if launch.plan_only {
                let stored = store.open(&run_id)?;
                resume::check_command(&stored.plan, command)?;
                let drift = resume::drift(&root, home, &stored);
                if !drift.is_empty() && !resume.allow_drift {
                    return Err(Error::Drift(Box::new(drift)));
                }
                let plan = Box::new(remaining(&stored));
                (listener.on_plan)(&plan, None);
                return Ok(Ended::Planned { plan, compiled: None });
            }
            let (stored, from) = resume::prepare(store, &run_id, command, resume, &root, home)?;
            let Some(from) = from else {
                return Ok(Ended::NothingToDo { releases: stored.plan.nodes.len() });
            };
            (stored, from, None)
        }
        (old, _) => {
            let mut request = request.clone();
            let old = match old {
                Some(run_id) => {
                    let old = store.open(&run_id)?;
                    resume::check_command(&old.plan, command)?;
                    if request.selector == Selector::default() {
                        request.selector = old.plan.selector.clone();
                    }
                    Some(old)
                }
                None => None,
            };
            let mut compiled = compile::compile(&request, git)?;
            let runner = compiled.stack.tree.root_file().map(|file| file.runner.clone()).unwrap_or_default();
            let plan = &mut compiled.plan;
            let size = |limit: u64| usize::try_from(limit).unwrap_or(usize::MAX);
            plan.concurrency = runner.concurrency.map_or(1, size);
            plan.concurrency_per_cluster =
                runner.per_cluster.into_iter().map(|(cluster, limit)| (cluster, size(limit))).collect();
            plan.fail_mode = launch.fail_mode;
            plan.retry = launch.options.retry;
            fit(plan, &launch);
            if !launch.plan_only {
                pin::pin(plan, &compiled.stack.tree.root, deploy).await?;
            }
            if let Some(old) = &old {
                resume::carry_over(plan, old);
            }
            let planned = Box::new(compiled.plan.clone());
            (listener.on_plan)(&planned, Some(&compiled));
            if launch.plan_only {
                return Ok(Ended::Planned { plan: planned, compiled: Some(Box::new(compiled)) });
            }
            if compiled.plan.nodes.is_empty() {
                return Ok(Ended::NothingToDo { releases: 0 });
            }
            confirm(&launch, &compiled.plan, compiled.plan.nodes.len(), &mut listener)?;
            let meta = Meta {
                git: git.head(&compiled.stack.tree.root),
                kube: contexts(&compiled.plan),
                ..launch.meta.clone()
            };
            let stored = store.create(&mut compiled.plan, &meta)?;
            (stored, From::Start, Some(compiled))
        }
    };
    if compiled.is_none() {
        fit(&mut stored.plan, &launch);
        let plan = remaining(&stored);
        (listener.on_plan)(&plan, None);
        confirm(&launch, &stored.plan, plan.nodes.len(), &mut listener)?;
    }
    let Some(lock) = lock else { return Ok(Ended::NothingToDo { releases: 0 }) };
    let log = store.log(&stored)?;
    let plan = Box::new(stored.plan.clone());
    let session = Session {
        store,
        stored,
        lock,
        log,
        from,
        options: launch.options.clone(),
        on_event: listener.on_event,
    };
    let finished = run::run(session, deploy, events, cancel).await?;
    Ok(Ended::Ran { plan, finished: Box::new(finished) })
}

/// The context of each cluster of a plan.
fn contexts(plan: &Plan) -> BTreeMap<String, Option<String>> {
    plan.nodes.iter().map(|node| (node.cluster.name.clone(), node.cluster.context.clone())).collect()
}

/// What the command line says of limits counts more than any file.
fn fit(plan: &mut Plan, launch: &Launch) {
    if let Some(concurrency) = launch.concurrency {
        plan.concurrency = concurrency;
    }
    if let Some(limit) = launch.concurrency_per_cluster {
        plan.concurrency_per_cluster.insert(String::new(), limit);
    }
}

/// A stored plan without what is done.
fn remaining(stored: &Stored) -> Plan {
    let mut plan = stored.plan.clone();
    let state = |id: &String| stored.summary.nodes.get(id).map(|node| node.status);
    plan.nodes.retain(|node| state(&node.id) != Some(NodeStatus::Succeeded));
    plan.order.retain(|id| state(id) != Some(NodeStatus::Succeeded));
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

fn canonical(root: &Path) -> Result<std::path::PathBuf, Error> {
    let root = compile::directory(root);
    std::fs::canonicalize(root).map_err(Error::io("open", root))
}

/// Lets a person agree: to a large deletion by the stack's name, to a small one by a letter.
fn confirm(launch: &Launch, plan: &Plan, count: usize, listener: &mut Listener<'_>) -> Result<(), Error> {
    let deletes = plan.command == Command::Delete;
    let asks = if deletes { launch.confirm_threshold > 0 } else { launch.confirm };
    if launch.yes || !asks {
        return Ok(());
    }
    let mut clusters: Vec<&str> = plan.nodes.iter().map(|node| node.cluster.name.as_str()).collect();
    clusters.sort_unstable();
    clusters.dedup();
    let (verb, side) = if deletes { ("deletes", "from") } else { ("applies", "to") };
    let what = format!("This {verb} {count} releases {side} {} ", clusters.join(", "));
    let names: Vec<&str> = plan.order.iter().take(10).map(|id| id.rsplit('/').next().unwrap_or(id)).collect();
    let more = if count > names.len() { ", …" } else { "" };
    let by_name = deletes && count >= launch.confirm_threshold;
    let how = if by_name { "Type the stack name to confirm: " } else { "Go on? [y/N] " };
    let question = format!("{what}({}{more}). {how}", names.join(", "));
    let refused = || {
        let what = if deletes { "deletion" } else { "apply" };
        Error::Unconfirmed(format!("{what} needs confirmation; pass --yes to skip the prompt"))
    };
    let answer = (listener.ask)(&question).ok_or_else(refused)?;
    let answer = answer.trim();
    let agreed = if by_name {
        answer == plan.stack_name
    } else {
        ["y", "yes"].contains(&answer.to_lowercase().as_str())
    };
    if agreed { Ok(()) } else { Err(Error::Unconfirmed("not confirmed; nothing was changed".to_owned())) }
}
