//! `slipway stack apply` and `slipway stack delete`: many releases carried out as one run.

use std::collections::BTreeSet;
use std::num::{NonZeroU32, NonZeroUsize};
use std::time::Duration;

use clap::{ArgGroup, ValueEnum};
use schemars::JsonSchema;
use serde::Serialize;
use slipway_event::Events;
use slipway_journal::Summary;
use slipway_problem::Problem;
use slipway_rehearsal::{RehearsalError, RehearsedStack, rehearse_stack};
use slipway_secrets::Purpose;
use slipway_stack::engine::Engine;
use slipway_stack::execute::Recovery;
use slipway_stack::plan::identify;
use slipway_stack::record::{RunMeta, RunStore, Takeover};
use slipway_stack::resume::Resume;
use slipway_stack::{
    Command, ConfirmPolicy, ExecutedRun, FailMode, FailureClass, Git, PlannedRun, RemoteCharts, ResumedPlan,
    RunOptions, RunRequest, acquire_lock, execute,
};

use super::clusters::{self, Clusters};
use super::flags::{self, RootFlags, SelectFlags};
use super::follow::Follower;
use super::plan::{self, LookFlags};
use super::runs;
use crate::cli::Output;
use crate::commands::policy;
use crate::commands::release::flags::time;
use crate::commands::secrets::resolution::{ReferenceMode, ReferenceResolver};
use crate::exit::Exit;
use crate::help::Usual;
use crate::interrupt::Interrupt;
use crate::session::Session;
use crate::term::style::{DIM, ERROR, WARNING, paint};
use crate::term::{prompt, report, show};

#[derive(Debug, clap::Args)]
#[command(group(ArgGroup::new("going_on").args(["resume", "run_id", "rerun_failed"]).multiple(true)))]
pub struct LaunchArgs {
    /// How many releases run at once; the stack's own setting unless given
    #[arg(long, value_name = "N", add = Usual)]
    concurrency: Option<NonZeroUsize>,

    /// How many releases of one cluster run at once
    #[arg(long, value_name = "N")]
    concurrency_per_cluster: Option<NonZeroUsize>,

    /// Go on with what does not need a failed release
    #[arg(long, conflicts_with = "fail_fast")]
    continue_on_error: bool,

    /// Start nothing more once a release failed; what happens unless told
    #[arg(long)]
    fail_fast: bool,

    /// Attempts of each release
    #[arg(long, value_name = "N", default_value = "1")]
    retry: NonZeroU32,

    /// Classes of failures to try again besides the usual ones (`WAIT_TIMEOUT`)
    #[arg(long, value_name = "CLASS", value_delimiter = ',', value_parser = class)]
    retry_on: Vec<FailureClass>,

    /// How long a release that is told to stop may take
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "30s")]
    grace: Duration,

    /// Only show the plan; of a resumed run, what is left of it
    #[arg(long)]
    plan_only: bool,

    /// Show the plan and what it would change; the same as --plan-only --diff
    #[arg(long, add = Usual)]
    dry_run: bool,

    /// Carry everything out on copies of what it touches first; the clusters are written only if that goes well
    #[arg(long, conflicts_with = "going_on", add = Usual)]
    rehearse: bool,

    /// Go on with the most recent run, unless it succeeded
    #[arg(long, add = Usual)]
    resume: bool,

    /// The run to go on with
    #[arg(long, value_name = "ID", add = Usual)]
    run_id: Option<String>,

    /// Only what failed in the run that is gone on with; --include-dependents adds what waited for it
    #[arg(long, add = Usual)]
    rerun_failed: bool,

    /// Go on although inputs changed since the run was planned
    #[arg(long, requires = "going_on", conflicts_with = "replan", add = Usual)]
    allow_drift: bool,

    /// Plan anew and keep what the run did already
    #[arg(long, requires = "going_on")]
    replan: bool,

    /// What becomes of a revision that a killed run left pending
    #[arg(long, value_name = "HOW", default_value = "auto")]
    recover: Recover,

    /// Take the lock from a run that has not been heard of for a minute
    #[arg(long)]
    takeover: bool,

    /// Take the lock from anybody
    #[arg(long)]
    force_takeover: bool,

    /// Delete what others still need
    #[arg(long)]
    force_orphan: bool,

    /// Ask before an apply too
    #[arg(long)]
    confirm: bool,

    /// Ask nothing
    #[arg(short, long, env = "SLIPWAY_YES", hide_env = true, value_parser = clap::builder::FalseyValueParser::new(), add = Usual)]
    yes: bool,

    /// From how many releases on a deletion is confirmed by the stack's name; 0 asks nothing
    #[arg(long, alias = "delete-confirm-threshold", value_name = "N", default_value = "5")]
    confirm_threshold: usize,

    #[command(flatten)]
    root: RootFlags,

    #[command(flatten)]
    select: SelectFlags,

    #[command(flatten)]
    look: LookFlags,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Recover {
    /// It is marked failed before the next attempt
    Auto,
    /// It is left alone
    Never,
}

fn class(word: &str) -> Result<FailureClass, String> {
    let known = FailureClass::ALL.into_iter().find(|class| class.name().eq_ignore_ascii_case(word));
    known.ok_or_else(|| {
        let names: Vec<&str> = FailureClass::ALL.iter().map(|class| class.name()).collect();
        format!("there is no such class; there are: {}", names.join(", "))
    })
}

impl LaunchArgs {
    fn is_plan_only(&self) -> bool {
        self.plan_only || self.dry_run
    }

    fn run_request(&self, command: Command) -> RunRequest {
        let mut request = flags::request(&self.root, &self.select, command);
        request.orphan = self.force_orphan;
        let goes_on = self.resume || self.rerun_failed || self.run_id.is_some();
        let resume = goes_on.then(|| Resume {
            run_id: self.run_id.clone(),
            rerun_failed: self.rerun_failed,
            // Of a run that is gone on with this is no selection but what else to do again.
            include_dependents: self.rerun_failed
                && !self.replan
                && std::mem::take(&mut request.selector.include_dependents),
            allow_drift: self.allow_drift,
        });
        RunRequest {
            request,
            resume,
            resumed_plan: if self.replan { ResumedPlan::Anew } else { ResumedPlan::StoredRun },
            remote_charts: if self.is_plan_only() { RemoteCharts::Leave } else { RemoteCharts::Pin },
            concurrency: self.concurrency.map(NonZeroUsize::get),
            concurrency_per_cluster: self.concurrency_per_cluster.map(NonZeroUsize::get),
            fail_mode: if self.continue_on_error { FailMode::ContinueOnError } else { FailMode::FailFast },
            retry: self.retry.get(),
        }
    }

    fn run_options(&self, meta: &RunMeta) -> RunOptions {
        RunOptions {
            retry: self.retry.get(),
            retry_on: self.retry_on.iter().copied().collect(),
            grace: self.grace,
            recovery: match self.recover {
                Recover::Auto => Recovery::MarkFailed,
                Recover::Never => Recovery::Leave,
            },
            pid: meta.pid,
            host: meta.host.clone(),
            ..RunOptions::default()
        }
    }

    fn takeover(&self) -> Takeover {
        match (self.force_takeover, self.takeover) {
            (true, _) => Takeover::Force,
            (false, true) => Takeover::IfStale,
            (false, false) => Takeover::Never,
        }
    }

    fn confirm_policy(&self) -> ConfirmPolicy {
        let (agreed, confirm_apply) = (self.yes, self.confirm);
        ConfirmPolicy { agreed, confirm_apply, delete_threshold: self.confirm_threshold }
    }
}

/// Who runs the command, and where.
fn meta(session: &Session) -> RunMeta {
    RunMeta {
        user: crate::config::user_name(),
        host: crate::config::machine_name(),
        pid: std::process::id(),
        argv: std::env::args_os()
            .map(|word| session.redactor().redact(&word.to_string_lossy()).into_owned())
            .collect(),
        cwd: std::env::current_dir().unwrap_or_default().display().to_string(),
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        platform: format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
        ci_url: crate::config::ci_job_url(),
        ..RunMeta::default()
    }
}

/// The end of the command.
enum Ended {
    Planned(Box<PlannedRun>),
    NothingToDo {
        releases: usize,
    },
    Ran(ExecutedRun),
    /// Stopped before the run began.
    Stopped,
}

pub fn run(args: &LaunchArgs, command: Command, session: &Session) -> anyhow::Result<Exit> {
    let wanted = args.run_request(command);
    if (args.look.diff || args.look.verify) && !args.is_plan_only() && wanted.resume.is_none() {
        // What is about to change is shown first.
        let compiled = slipway_stack::compile(&wanted.request, &Git::default())?;
        plan::present(compiled.plan, &[], compiled.unmapped, &args.look, &args.root, session)?;
    }
    let store = runs::store(&args.root.root)?;
    let root = runs::directory(&args.root.root)?;
    let meta = meta(session);
    let options = args.run_options(&meta);
    let (_, profile) = identify(&args.root.root, &args.root.profile());
    let mode = match args.is_plan_only() {
        true => ReferenceMode::Show,
        false => ReferenceMode::Fetch(Purpose::Apply),
    };
    let references =
        ReferenceResolver::new(&args.look.references, mode, "stack apply", session).at(root.clone());
    let (ended, interrupted) = session.block_on(async {
        let interrupt = Interrupt::listen()?;
        let events = session.events();
        let engine = Engine {
            connect: Clusters::new(session, root.clone()),
            sources: clusters::sources(&references, session),
            profile,
            root: root.clone(),
            events: events.clone(),
            policy: args.look.policy.stack_policy()?,
        };
        let token = interrupt.token().clone();
        let abort = options.abort.clone();
        interrupt.on_second(move |signal| abort.trigger(signal));
        if args.rehearse {
            let rehearsed = rehearse_stack(&engine, &wanted, &options, &root, token.clone()).await;
            if interrupt.exit().is_some() {
                return Ok((Ended::Stopped, interrupt.exit()));
            }
            report_rehearsal(rehearsed, session)?;
        }
        let git = Git::default();
        let lock = match args.is_plan_only() {
            true => None,
            false => {
                let owner = format!("{}@{}:{}", meta.user, meta.host, meta.pid);
                Some(acquire_lock(&wanted.request, &store, &owner, args.takeover(), &events)?)
            }
        };
        let planned = slipway_stack::plan(&wanted, &store, &git, &engine, &events).await?;
        announce(&planned, args, session);
        let Some(lock) = lock else { return Ok((Ended::Planned(Box::new(planned)), interrupt.exit())) };
        if planned.is_done() {
            return Ok((Ended::NothingToDo { releases: planned.releases }, interrupt.exit()));
        }
        if engine.policy.is_some() {
            policy::check_stack(&planned.plan, &engine).await?;
        }
        confirm(&planned, &args.confirm_policy(), &events)?;
        let saved = planned.save(&store, &git, meta)?;
        let follower = Follower::new(&store, saved.run_id(), session.output());
        let ran = execute(saved, &store, lock, options, &engine, &events, token);
        let ran = follower.follow(ran).await?;
        Ok((Ended::Ran(ran), interrupt.exit()))
    })?;
    references.finish();
    match ended {
        Ended::Stopped => Ok(interrupted.unwrap_or(Exit::Interrupted)),
        Ended::Planned(planned) => {
            let PlannedRun { plan, unmapped, .. } = *planned;
            let look = LookFlags { diff: args.look.diff || args.dry_run, ..args.look.clone() };
            plan::present(plan, &[], unmapped, &look, &args.root, session)
        }
        Ended::NothingToDo { releases } => {
            say!("nothing to do: all {releases} releases succeeded");
            Ok(Exit::Done)
        }
        Ended::Ran(ran) => finish(args, &ran, interrupted, &store, session),
    }
}

fn report_rehearsal(
    rehearsed: Result<RehearsedStack, RehearsalError>,
    session: &Session,
) -> anyhow::Result<()> {
    match rehearsed {
        Ok(done) => {
            say!("rehearsed {} releases on a copy of {} objects", done.releases, done.copied_objects);
            if !session.is_quiet() {
                crate::commands::release::show_questions(&done.open_questions);
            }
            Ok(())
        }
        Err(error) => {
            say!("{}; nothing was changed", paint(ERROR, "the rehearsal failed"));
            Err(match error {
                RehearsalError::Stack(error) => error.into(),
                error => error.into(),
            })
        }
    }
}

/// Lets a person agree. Answering takes time, so the plan is held against its inputs again.
fn confirm(
    planned: &PlannedRun,
    policy: &ConfirmPolicy,
    events: &Events,
) -> Result<(), slipway_stack::Error> {
    let Some(question) = planned.confirmation(policy) else { return Ok(()) };
    prompt::ask(question.text(), events, |answer| question.check(answer))?;
    planned.verify()
}

/// The last line of a run.
#[derive(Serialize, JsonSchema)]
pub struct StackRunSummary<'a> {
    #[serde(flatten)]
    summary: &'a Summary,
    #[serde(rename = "type")]
    kind: SummaryType,
}

/// The type of the last line, among those of events.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
enum SummaryType {
    Summary,
}

/// Tells how a run ended.
fn finish(
    args: &LaunchArgs,
    ran: &ExecutedRun,
    interrupted: Option<Exit>,
    store: &RunStore,
    session: &Session,
) -> anyhow::Result<Exit> {
    let ExecutedRun { plan, outcome } = ran;
    if session.output() == Output::Json {
        show::line(&StackRunSummary { summary: &outcome.summary, kind: SummaryType::Summary })?;
    } else {
        runs::show(store, &plan.run_id, session)?;
    }
    if outcome.lost_lock {
        say!("{} another run took the lock; this one stopped", paint(WARNING, "notice:"));
    }
    let open = plan.nodes.len() - outcome.summary.totals.succeeded;
    if args.rerun_failed && open > 0 && outcome.summary.totals.failed == 0 {
        let releases = if open == 1 { "release is" } else { "releases are" };
        say!("{open} {releases} still to be done: only what failed was run again");
    }
    if !outcome.success {
        let again = format!("slipway stack {} --resume --run-id {}", plan.command, plan.run_id);
        say!("resume with: {again}");
    }
    if let Some(why) = &outcome.unwritable {
        let problem = Problem::error(format!("run log unwritable: {why}")).code("ST055");
        return Err(problem.hint("make room on the disk and go on with --resume").into());
    }
    let changed = outcome.summary.nodes.values().any(|node| node.changed == Some(true));
    Ok(match interrupted {
        Some(exit) => exit,
        None if outcome.success && changed && args.look.detailed_exitcode => Exit::Changes,
        None if outcome.success => Exit::Done,
        None => Exit::Failed,
    })
}

/// What is about to happen, and where: `apply 3 releases of stack shop to cluster local`.
fn plan_words(planned: &PlannedRun, session: &Session) -> String {
    let plan = &planned.plan;
    let clusters: BTreeSet<String> = plan
        .nodes
        .iter()
        .map(|node| match &node.cluster.context {
            _ if session.settings.sandbox => format!("{} (the sandbox)", node.cluster.name),
            Some(context) if *context != node.cluster.name => {
                format!("{} (context {context})", node.cluster.name)
            }
            _ => node.cluster.name.clone(),
        })
        .collect();
    let (count, word) = match plan.nodes.len() {
        1 => (1, "release"),
        count => (count, "releases"),
    };
    let many = if clusters.len() == 1 { "cluster" } else { "clusters" };
    let clusters = Vec::from_iter(clusters).join(", ");
    format!("{} {count} {word} of stack {}, {many} {clusters}", plan.command, plan.stack_name)
}

/// Says what is about to happen.
fn announce(planned: &PlannedRun, args: &LaunchArgs, session: &Session) {
    planned.warnings.iter().for_each(report::show);
    for notice in &planned.notices {
        say!("{} {notice}", paint(WARNING, "notice:"));
    }
    if !args.is_plan_only() && !planned.is_done() && !session.is_quiet() {
        say!("{} {}", paint(DIM, "plan:"), plan_words(planned, session));
    }
}
