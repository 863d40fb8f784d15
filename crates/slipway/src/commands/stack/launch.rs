//! `slipway stack apply` and `slipway stack delete`: many releases carried out as one run.

use std::io::{BufRead as _, IsTerminal as _};
use std::num::{NonZeroU32, NonZeroUsize};
use std::time::Duration;

use clap::{ArgGroup, ValueEnum};
use serde_json::json;
use slipway_problem::Problem;
use slipway_secrets::Purpose;
use slipway_stack::engine::Engine;
use slipway_stack::launch::{Ended, Launch, Listener, identify, launch};
use slipway_stack::record::{Meta, RunEvent, Takeover};
use slipway_stack::resume::Resume;
use slipway_stack::run::RunOptions;
use slipway_stack::{Class, Command, Compiled, FailMode, Git, Plan};

use super::clusters::{self, Clusters};
use super::flags::{self, RootFlags, SelectFlags};
use super::plan::{self, LookFlags};
use super::{rehearse, runs};
use crate::cli::Output;
use crate::commands::release::flags::time;
use crate::commands::secrets::resolution::{ReferenceMode, ReferenceResolver};
use crate::exit::Exit;
use crate::interrupt::Interrupt;
use crate::session::Session;
use crate::term::style::{ERROR, WARNING, paint};
use crate::term::{output, show};

#[derive(Debug, clap::Args)]
#[command(group(ArgGroup::new("going_on").args(["resume", "run_id", "rerun_failed"]).multiple(true)))]
pub struct LaunchArgs {
    #[command(flatten)]
    root: RootFlags,

    #[command(flatten)]
    select: SelectFlags,

    /// How many releases run at once; the stack's own setting unless given
    #[arg(long, value_name = "N")]
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
    retry_on: Vec<Class>,

    /// How long a release that is told to stop may take
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "30s")]
    grace: Duration,

    /// Only show the plan; of a resumed run, what is left of it
    #[arg(long)]
    plan_only: bool,

    /// Show the plan and what it would change; the same as --plan-only --diff
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    look: LookFlags,

    /// Carry everything out on copies of what it touches first; the clusters are written only if that goes well
    #[arg(long, conflicts_with = "going_on")]
    rehearse: bool,

    /// Go on with the most recent run, unless it succeeded
    #[arg(long)]
    resume: bool,

    /// The run to go on with
    #[arg(long, value_name = "ID")]
    run_id: Option<String>,

    /// Only what failed in the run that is gone on with; --include-dependents adds what waited for it
    #[arg(long)]
    rerun_failed: bool,

    /// Go on although inputs changed since the run was planned
    #[arg(long, requires = "going_on", conflicts_with = "replan")]
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
    #[arg(short, long, env = "SLIPWAY_YES", hide_env = true, value_parser = clap::builder::FalseyValueParser::new())]
    yes: bool,

    /// From how many releases on a deletion is confirmed by the stack's name; 0 asks nothing
    #[arg(long, alias = "delete-confirm-threshold", value_name = "N", default_value = "5")]
    confirm_threshold: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Recover {
    /// It is marked failed before the next attempt
    Auto,
    /// It is left alone
    Never,
}

fn class(word: &str) -> Result<Class, String> {
    let known = Class::ALL.into_iter().find(|class| class.name().eq_ignore_ascii_case(word));
    known.ok_or_else(|| {
        let names: Vec<&str> = Class::ALL.iter().map(|class| class.name()).collect();
        format!("there is no such class; there are: {}", names.join(", "))
    })
}

impl LaunchArgs {
    fn launch(&self, command: Command, session: &Session) -> Launch {
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
        let host = crate::config::machine_name();
        let user = crate::config::user_name();
        let pid = std::process::id();
        let meta = Meta {
            user: user.clone(),
            host: host.clone(),
            pid,
            argv: std::env::args_os()
                .map(|word| session.redactor().redact(&word.to_string_lossy()).into_owned())
                .collect(),
            cwd: std::env::current_dir().unwrap_or_default().display().to_string(),
            tool_version: env!("CARGO_PKG_VERSION").to_owned(),
            platform: format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
            ci_url: crate::config::ci_job_url(),
            ..Meta::default()
        };
        let options = RunOptions {
            retry: self.retry.get(),
            retry_on: self.retry_on.iter().copied().collect(),
            grace: self.grace,
            recover: self.recover == Recover::Auto,
            pid,
            host: host.clone(),
            ..RunOptions::default()
        };
        Launch {
            request,
            resume,
            replan: self.replan,
            plan_only: self.plan_only || self.dry_run,
            concurrency: self.concurrency.map(NonZeroUsize::get),
            concurrency_per_cluster: self.concurrency_per_cluster.map(NonZeroUsize::get),
            fail_mode: if self.continue_on_error { FailMode::ContinueOnError } else { FailMode::FailFast },
            options,
            takeover: match (self.force_takeover, self.takeover) {
                (true, _) => Takeover::Force,
                (false, true) => Takeover::IfStale,
                (false, false) => Takeover::Never,
            },
            owner: format!("{user}@{host}:{pid}"),
            meta,
            yes: self.yes,
            confirm: self.confirm,
            confirm_threshold: self.confirm_threshold,
        }
    }
}

pub fn run(args: &LaunchArgs, command: Command, session: &Session) -> anyhow::Result<Exit> {
    let wanted = args.launch(command, session);
    let plan_only = wanted.plan_only;
    if (args.look.diff || args.look.verify) && !plan_only && wanted.resume.is_none() {
        // What is about to change is shown first.
        let compiled = slipway_stack::compile(&wanted.request, &Git::default())?;
        plan::present(compiled.plan, &[], compiled.unmapped, &args.look, &args.root, session)?;
    }
    let store = runs::store(&args.root.root)?;
    let root = runs::directory(&args.root.root)?;
    let lines = session.output() == Output::Json && !plan_only;
    let (_, profile) = identify(&args.root.root, &args.root.profile());
    let mode = if plan_only { ReferenceMode::Show } else { ReferenceMode::Fetch(Purpose::Apply) };
    let references =
        ReferenceResolver::new(&args.look.references, mode, "stack apply", session).at(root.clone());
    let ended = session.block_on(async {
        let interrupt = Interrupt::listen()?;
        let events = session.events();
        let engine = Engine {
            connect: Clusters::new(session, root.clone()),
            sources: clusters::sources(&references, session),
            profile,
            root: root.clone(),
            events: events.clone(),
        };
        let token = interrupt.token().clone();
        let abort = wanted.options.abort.clone();
        interrupt.on_second(move |signal| abort.trigger(signal));
        if args.rehearse {
            match rehearse::rehearse(&wanted, &engine, &root, token.clone()).await {
                Ok(_) if interrupt.exit().is_some() => return Ok((None, interrupt.exit())),
                Ok(done) => {
                    let (releases, copied) = (done.releases, done.copied);
                    say!("rehearsed {releases} releases on a copy of {copied} objects");
                    if !session.is_quiet() {
                        crate::commands::release::show_questions(&done.questions);
                    }
                }
                Err(_) if interrupt.exit().is_some() => return Ok((None, interrupt.exit())),
                Err(error) => {
                    say!("{}; nothing was changed", paint(ERROR, "the rehearsal failed"));
                    return Err(error);
                }
            }
        }
        let listener = Listener {
            on_plan: Box::new(|plan, compiled| announce(plan, compiled, plan_only, session)),
            on_takeover: Box::new(|holder| {
                say!("{} took the lock from {}", paint(WARNING, "notice:"), holder.owner);
            }),
            ask: Box::new(ask),
            on_event: lines.then(|| {
                Box::new(|event: &RunEvent| drop(show::line(event))) as slipway_stack::run::OnEvent<'_>
            }),
        };
        let ended = launch(wanted, &store, &Git::default(), &engine, listener, &events, token).await;
        Ok((Some(ended?), interrupt.exit()))
    })?;
    references.finish();
    match ended {
        (None, interrupted) => Ok(interrupted.unwrap_or(Exit::Interrupted)),
        (Some(Ended::Planned { plan, compiled }), _) => {
            let unmapped = compiled.as_ref().map_or(0, |compiled| compiled.unmapped);
            let look = LookFlags { diff: args.look.diff || args.dry_run, ..args.look.clone() };
            plan::present(*plan, &[], unmapped, &look, &args.root, session)
        }
        (Some(Ended::NothingToDo { releases }), _) => {
            say!("nothing to do: all {releases} releases succeeded");
            Ok(Exit::Done)
        }
        (Some(Ended::Ran { plan, finished }), interrupted) => {
            if lines {
                let mut last = serde_json::to_value(&finished.summary)?;
                last["type"] = json!("SUMMARY");
                show::line(&last)?;
            } else {
                runs::show(&store, &plan.run_id, session)?;
            }
            if finished.lost_lock {
                say!("{} another run took the lock; this one stopped", paint(WARNING, "notice:"));
            }
            let open = plan.nodes.len() - finished.summary.totals.succeeded;
            if args.rerun_failed && open > 0 && finished.summary.totals.failed == 0 {
                let releases = if open == 1 { "release is" } else { "releases are" };
                say!("{open} {releases} still to be done: only what failed was run again");
            }
            if !finished.success {
                let again = format!("slipway stack {command} --resume --run-id {}", plan.run_id);
                say!("resume with: {again}");
            }
            if let Some(why) = &finished.unwritable {
                let problem = Problem::error(format!("run log unwritable: {why}")).code("ST055");
                return Err(problem.hint("make room on the disk and go on with --resume").into());
            }
            let changed = finished.summary.nodes.values().any(|node| node.changed == Some(true));
            Ok(match interrupted {
                Some(exit) => exit,
                None if finished.success && changed && args.look.detailed_exitcode => Exit::Changes,
                None if finished.success => Exit::Done,
                None => Exit::Failed,
            })
        }
    }
}

/// Says what is about to happen.
fn announce(plan: &Plan, compiled: Option<&Compiled>, plan_only: bool, session: &Session) {
    for warning in compiled.into_iter().flat_map(|compiled| &compiled.warnings) {
        crate::term::report::show(warning);
    }
    for notice in compiled.into_iter().flat_map(|compiled| &compiled.notices) {
        say!("{} {notice}", paint(WARNING, "notice:"));
    }
    if !plan_only && !session.is_quiet() {
        say!("{} releases of stack {}", plan.nodes.len(), plan.stack_name);
    }
}

/// Puts a question to whoever sits at the terminal.
fn ask(question: &str) -> Option<String> {
    if !std::io::stdin().is_terminal() {
        return None;
    }
    output::message(question);
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer).ok()?;
    Some(answer)
}
