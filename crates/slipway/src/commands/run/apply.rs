//! `slipway run apply` and `slipway run destroy`.

use std::fmt::Write as _;
use std::io::IsTerminal as _;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use slipway_event::Events;
use slipway_problem::Problem;
use slipway_rehearsal::{RehearsalError, RehearsedRunbook, rehearse_runbook};
use slipway_runbook::plan::{self, StepVerb};
use slipway_runbook::state::{NodeStatus, node_word};
use slipway_runbook::{Command, ResumePolicy, RunOptions, RunReport, StepSchedule, execute, junit, plan_run};
use slipway_secrets::Purpose;

use super::connection::{self, Ground};
use super::{document, preview};
use crate::cli::Output;
use crate::commands::release::show_questions;
use crate::commands::secrets::resolution::ReferenceMode;
use crate::exit::Exit;
use crate::files;
use crate::help::Usual;
use crate::interrupt::Interrupt;
use crate::session::Session;
use crate::term::table::Table;
use crate::term::{prompt, show};

#[derive(Debug, clap::Args)]
pub struct RunFlags {
    /// How many steps run at once; 0 is no limit
    #[arg(long, value_name = "N", default_value_t = 0)]
    parallelism: usize,

    /// When a step may start
    #[arg(long, value_name = "WHEN", default_value = "levels")]
    schedule: When,

    /// Write the result as JSON to a file too
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,

    /// Write the result as a JUnit report
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,

    #[command(flatten)]
    document: document::Flags,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum When {
    /// Once everything of the level before is done
    Levels,
    /// Once what it needs is done
    Eager,
}

#[derive(Debug, clap::Args)]
pub struct ApplyArgs {
    /// Run every step, whatever the record says
    #[arg(long)]
    no_resume: bool,

    /// Run this step even if the record says it is done; repeat for more
    #[arg(long, value_name = "STEP", add = Usual)]
    rerun: Vec<String>,

    /// Run only these steps and what they need; repeat or separate with commas
    #[arg(long, value_name = "STEP", value_delimiter = ',', add = Usual)]
    only: Vec<String>,

    /// Carry it out on a copy of the cluster in this process first, and stop if that fails
    #[arg(long, add = Usual)]
    rehearse: bool,

    #[command(flatten)]
    run: RunFlags,
}

#[derive(Debug, clap::Args)]
pub struct DestroyArgs {
    /// Do not ask
    #[arg(short, long, add = Usual)]
    yes: bool,

    /// Say what would go, and leave it
    #[arg(long, add = Usual)]
    dry_run: bool,

    #[command(flatten)]
    run: RunFlags,
}

impl RunFlags {
    fn options(&self) -> RunOptions {
        RunOptions {
            parallelism: NonZeroUsize::new(self.parallelism),
            schedule: match self.schedule {
                When::Levels => StepSchedule::Levels,
                When::Eager => StepSchedule::Eager,
            },
            ..RunOptions::default()
        }
    }

    fn finish(
        &self,
        session: &Session,
        report: &RunReport,
        interrupted: Option<Exit>,
    ) -> anyhow::Result<Exit> {
        let value = serde_json::to_value(report)?;
        if let Some(path) = &self.report {
            files::replace(path, (serde_json::to_string_pretty(&value)? + "\n").as_bytes())?;
        }
        if let Some(path) = &self.junit {
            files::replace(path, junit(report).as_bytes())?;
        }
        match session.output() {
            Output::Table => show::print(&table(report))?,
            output => show::show(output, &value, |_| String::new())?,
        }
        if let Some(error) = &report.error {
            return Err(Problem::error(format!("the run could not be recorded: {error}")).into());
        }
        Ok(if report.is_success() { Exit::Done } else { interrupted.unwrap_or(Exit::Failed) })
    }
}

pub fn apply(args: &ApplyArgs, session: &Session) -> anyhow::Result<Exit> {
    let loaded = args.run.document.load(session)?;
    super::validate::warn(loaded.warnings);
    let document = loaded.document;
    if document.state.is_none() && (args.no_resume || !args.rerun.is_empty()) {
        let problem =
            Problem::warning("the runbook keeps no record, so --no-resume and --rerun mean nothing");
        crate::term::report::show(&problem);
    }
    let options = RunOptions {
        resume: if args.no_resume { ResumePolicy::RunAll } else { ResumePolicy::LeaveOut },
        rerun: args.rerun.clone(),
        only: args.only.clone(),
        ..args.run.options()
    };
    let report = session.block_on(async {
        let interrupt = Interrupt::listen()?;
        let mode = ReferenceMode::Fetch(Purpose::Apply);
        let references = args.run.document.resolver(mode, "run apply", session);
        let ground = Ground::open(session, args.run.document.base(), references).await?;
        ground.say_target(session);
        if args.rehearse {
            let trial = rehearse_runbook(&document, ground.place(), &options, interrupt.token().clone());
            report_rehearsal(trial.await)?;
        }
        let token = interrupt.token().clone();
        let place = ground.place();
        let plan = plan_run(&document, place, Command::Apply, &options).await.map_err(connection::failed)?;
        let report = execute(&document, &plan, place, token).await;
        ground.finish();
        Ok((report.map_err(connection::failed)?, interrupt.exit()))
    })?;
    let (report, interrupted) = report;
    args.run.finish(session, &report, interrupted)
}

/// Shows how a rehearsal went.
fn report_rehearsal(rehearsed: Result<RehearsedRunbook, RehearsalError>) -> anyhow::Result<()> {
    let rehearsed = rehearsed.map_err(|error| match error {
        RehearsalError::Runbook(error) => connection::failed(error),
        error => error.into(),
    })?;
    let table = table(&rehearsed.report);
    let end = table.lines().last().unwrap_or_default();
    say!("rehearsed on a copy of {} objects: {end}", rehearsed.copied_objects);
    show_questions(&rehearsed.open_questions);
    Ok(())
}

pub fn destroy(args: &DestroyArgs, session: &Session) -> anyhow::Result<Exit> {
    let loaded = args.run.document.load(session)?;
    let document = loaded.document;
    let report = session.block_on(async {
        let interrupt = Interrupt::listen()?;
        let references = args.run.document.resolver(ReferenceMode::Show, "run destroy", session);
        let ground = Ground::open(session, args.run.document.base(), references).await?;
        ground.say_target(session);
        let (place, options) = (ground.place(), args.run.options());
        let asks = !args.yes && std::io::stdin().is_terminal();
        let plan = if args.dry_run || asks {
            let plan = plan::plan_destroy(&document, place, &options).await.map_err(connection::failed)?;
            let output = if args.dry_run { session.output() } else { Output::Table };
            match output {
                Output::Table if args.dry_run => show::print(&preview::text(&plan, None))?,
                Output::Table => crate::term::output::message(&preview::text(&plan, None)),
                output => show::show(output, &plan, |_| String::new())?,
            }
            let takes = plan.steps.iter().any(|step| step.action() == Some(StepVerb::Delete));
            if args.dry_run || (asks && takes && !is_confirmed(place.events)) {
                return Ok(None);
            }
            // Answering takes time.
            plan.verify(&document, place).await.map_err(connection::failed)?;
            plan
        } else {
            plan_run(&document, place, Command::Destroy, &options).await.map_err(connection::failed)?
        };
        let token = interrupt.token().clone();
        let report = execute(&document, &plan, place, token).await.map_err(connection::failed)?;
        Ok(Some((report, interrupt.exit())))
    })?;
    match report {
        Some((report, interrupted)) => args.run.finish(session, &report, interrupted),
        None if args.dry_run => Ok(Exit::Done),
        None => Ok(Exit::Unconfirmed),
    }
}

/// Lets a person agree to a deletion.
fn is_confirmed(events: &Events) -> bool {
    let judge = |answer: Option<&str>| match answer.map(str::trim) {
        Some("y" | "Y" | "yes") => Ok(()),
        _ => Err(()),
    };
    prompt::ask("Delete all of this? [y/N] ", events, judge).is_ok()
}

/// The result for people: a table, errors below their row, one line at the end.
fn table(report: &RunReport) -> String {
    let mut table = Table::new(&["step", "type", "status", "attempts", "duration", "detail"]);
    for step in &report.steps {
        let detail = step.error.as_ref().or(step.skip_reason.as_ref()).or(step.note.as_ref());
        let mut lines = detail.map(String::as_str).unwrap_or_default().lines();
        table.row([
            step.name.clone(),
            step.kind.clone(),
            node_word(step.status).to_owned(),
            step.attempts.map(|attempts| attempts.to_string()).unwrap_or_default(),
            step.duration_ms.map(duration).unwrap_or_default(),
            lines.next().unwrap_or_default().to_owned(),
        ]);
        for line in lines {
            let empty = String::new;
            table.row([empty(), empty(), empty(), empty(), empty(), format!("  {line}")]);
        }
    }
    let mut text = table.render();
    let count = |status: NodeStatus| report.count(status);
    let mut words = Vec::new();
    for (status, word) in
        [(NodeStatus::Failed, "failed"), (NodeStatus::Succeeded, "ok"), (NodeStatus::Skipped, "skipped")]
    {
        if count(status) > 0 {
            words.push(format!("{} {word}", count(status)));
        }
    }
    let how = match (report.is_success(), report.canceled) {
        (true, _) => "ok",
        (false, true) => "canceled",
        (false, false) => "failed",
    };
    let _ = writeln!(text, "run {how}: {} in {}", words.join(", "), duration(report.duration_ms));
    text
}

/// `1m11s`, `4.2s`, `12ms`.
fn duration(milliseconds: u64) -> String {
    let duration = Duration::from_millis(milliseconds);
    match duration.as_secs() {
        0 => format!("{milliseconds}ms"),
        seconds @ 1..60 => format!("{seconds}.{}s", duration.subsec_millis() / 100),
        seconds => format!("{}m{}s", seconds / 60, seconds % 60),
    }
}
