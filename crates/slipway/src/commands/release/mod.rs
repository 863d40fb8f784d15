//! One release: plan it, take it to a cluster, look at it, go back, delete it. One file a command.

mod apply;
mod delete;
mod diff;
pub mod flags;
pub mod get;
mod history;
mod list;
mod logs;
mod plan;
mod rollback;
pub mod status;
mod template;
mod test;
mod text;

use std::path::Path;

use anyhow::Context;
use slipway_cluster::connect::Connection;
use slipway_cluster::{Cluster, Deadline};
use slipway_problem::Problem;
use slipway_rehearsal::rehearse_release;
use slipway_release::saved::{DriftPolicy, SavedPlan};
use slipway_release::{
    ExecuteOptions, Failure, MOST_PLANS, PlanOptions, PlanPurpose, ReleasePlan, ReleaseReport,
    ReleaseRequest, ReleaseStatus, RunTimeout,
};

pub use apply::{ApplyArgs, apply};
pub use delete::{DeleteArgs, delete};
pub use diff::{DiffArgs, diff};
pub use get::{GetArgs, get};
pub use history::{HistoryArgs, history};
pub use list::{ListArgs, list};
pub use logs::{LogsArgs, logs};
pub use plan::{PlanArgs, plan};
pub use rollback::{RollbackArgs, rollback};
pub use status::{StatusArgs, status};
pub use test::{TestArgs, test};

use flags::{DiffFlags, RunFlags};

use crate::cli::Output;
use crate::connect::reached;
use crate::exit::{Exit, StoppedRun};
use crate::interrupt::Interrupt;
use crate::logs::Verbosity;
use crate::session::Session;
use crate::term::failure::FailureForm;
use crate::term::style::{DIM, ERROR, paint};
use crate::term::{next, show};

/// A failure with its type, which decides how the process ends.
fn fail(failure: Failure) -> anyhow::Error {
    failure.into()
}

async fn connect(session: &Session) -> anyhow::Result<Connection> {
    connect_within(session, None).await
}

/// Connects for a command with a time limit, which a server that never answers must not outlast.
async fn connect_within(session: &Session, timeout: Option<&RunTimeout>) -> anyhow::Result<Connection> {
    let connection = session.with_releases(session.connect().await?)?;
    let cluster = &connection.cluster;
    let limited = match timeout {
        Some(timeout) => cluster.with_deadline(Deadline::after(timeout.duration())),
        None => cluster.clone(),
    };
    reached(limited, &connection).await?;
    Ok(connection)
}

/// Says where a command is about to write.
fn say_target(connection: &Connection, session: &Session) {
    if !session.is_quiet() {
        say!(
            "{} {}, namespace {}",
            paint(DIM, "cluster:"),
            cluster_words(connection, session),
            connection.namespace
        );
    }
}

/// The cluster of a connection as people know it.
pub fn cluster_words(connection: &Connection, session: &Session) -> String {
    let Connection { server, context, .. } = connection;
    match context {
        _ if session.settings.sandbox => "the sandbox".to_owned(),
        Some(context) => format!("context {context} ({server})"),
        None => server.clone(),
    }
}

/// Shows a plan; what was decrypted for it is masked unless the user wants to see everything.
fn show_plan(plan: &ReleasePlan, diff: &DiffFlags, session: &Session) -> anyhow::Result<()> {
    let view = plan.view(&diff.options());
    if diff.show_sensitive_diffs {
        return show::reveal(session.output(), &view, text::view_text);
    }
    show::show(session.output(), &view, text::view_text)
}

async fn dry_run(
    cluster: &Cluster,
    request: &ReleaseRequest,
    diff: &DiffFlags,
    session: &Session,
) -> anyhow::Result<Exit> {
    let plan = slipway_release::plan(cluster, request, &session.events()).await.map_err(fail)?;
    show_plan(&plan, diff, session)?;
    Ok(plan_exit(&plan, Exit::Done))
}

/// The end of a command that only shows a plan: a plan that a policy denies is shown all the same.
fn plan_exit(plan: &ReleasePlan, otherwise: Exit) -> Exit {
    if plan.check_policy().is_err() { Exit::Refused } else { otherwise }
}

/// Whether a run is tried out first.
#[derive(Clone, Copy, PartialEq, Eq)]
enum First {
    Rehearse,
    Go,
}

impl First {
    fn of(rehearse: bool) -> Self {
        if rehearse { Self::Rehearse } else { Self::Go }
    }
}

/// Plans a request and executes the plan, after a rehearsal if that is wanted.
async fn carry_out(
    cluster: &Cluster,
    request: &ReleaseRequest,
    options: &ExecuteOptions,
    first: First,
    flags: &RunFlags,
    session: &Session,
) -> anyhow::Result<Exit> {
    let interrupt = Interrupt::listen()?;
    carry_out_bound(cluster, request, options, first, None, flags, session, interrupt).await
}

/// A saved plan a run is bound to.
struct BoundPlan<'a> {
    saved: &'a SavedPlan,
    drift: DriftPolicy,
}

/// As [`carry_out`], for a run that may be bound to a saved plan.
#[expect(clippy::too_many_arguments, reason = "the one place where everything of a run comes together")]
async fn carry_out_bound(
    cluster: &Cluster,
    request: &ReleaseRequest,
    options: &ExecuteOptions,
    first: First,
    bound: Option<BoundPlan<'_>>,
    flags: &RunFlags,
    session: &Session,
    interrupt: &Interrupt,
) -> anyhow::Result<Exit> {
    let token = interrupt.token();
    let rehearsed = if first == First::Rehearse {
        match rehearse_release(cluster, request, options, token.clone()).await {
            Ok(rehearsed) => rehearsed,
            Err(error) => {
                if let Some(exit) = interrupt.exit() {
                    return Ok(exit);
                }
                say!("{}; nothing was changed", paint(ERROR, "the rehearsal failed"));
                return Err(error.into());
            }
        }
    } else {
        None
    };
    if let Some(rehearsed) = rehearsed.as_ref().filter(|_| !session.is_quiet()) {
        let done = rehearsed.report.completed_operations.len();
        say!("rehearsed {done} changes on a copy of {} objects", rehearsed.copied_objects);
        show_questions(&rehearsed.open_questions);
    }
    let exact = rehearsed.as_ref().map_or(request, |rehearsed| &rehearsed.request);
    let events = session.events();
    if rehearsed.is_none() && bound.is_none() && flags.save_graph_to.is_none() {
        let result = slipway_release::apply(cluster, exact, options, &events, token.clone()).await;
        return finish(result, interrupt, flags, session);
    }
    let between = |plan: &ReleasePlan| {
        if let Some(path) = &flags.save_graph_to {
            save_graph(path, &plan.to_dot())?;
        }
        if let Some(rehearsed) = &rehearsed {
            rehearsed.check(plan)?;
        }
        bound.as_ref().map_or(Ok(()), |bound| bound.saved.check_plan(plan, bound.drift))
    };
    // The time limit covers planning too.
    let cluster = &match &options.timeout {
        Some(timeout) => cluster.with_deadline(Deadline::after(timeout.duration())),
        None => cluster.clone(),
    };
    let mut attempt = 1;
    let result = loop {
        let planned = plan_to_execute(cluster, exact, options, session).await;
        let plan = match planned.and_then(|plan| between(&plan).map(|()| plan)) {
            Ok(plan) => plan,
            Err(failure) => break Err(failure),
        };
        match slipway_release::execute(cluster, plan, options, &events, token.clone()).await {
            // Another run had the lock first; what the next plan is bound to is checked again.
            Err(Failure::Stale(_)) if attempt < MOST_PLANS => attempt += 1,
            result => break result,
        }
    };
    finish(result, interrupt, flags, session)
}

/// Writes a graph to the file the user names; only the user may read it.
fn save_graph(path: &Path, graph: &str) -> Result<(), Problem> {
    let written = crate::files::replace_private(path, graph.as_bytes());
    written.map_err(|error| Problem::error(format!("cannot write {}: {error:#}", path.display())))
}

/// Plans a request in order to execute it.
async fn plan_to_execute(
    cluster: &Cluster,
    request: &ReleaseRequest,
    options: &ExecuteOptions,
    session: &Session,
) -> Result<ReleasePlan, Failure> {
    let planning = PlanOptions { purpose: PlanPurpose::Execute, ..request.options.clone() };
    let request = ReleaseRequest { options: planning, ..request.clone() };
    let planned = slipway_release::plan(cluster, &request, &session.events()).await;
    planned.map_err(|failure| failure.with_timeout(options.timeout.as_ref(), "it was planned"))
}

/// Shows what a rehearsal could not find out.
pub fn show_questions(questions: &[String]) {
    for question in questions {
        say!("  not rehearsed: {question}");
    }
}

/// Shows and saves what was done.
fn finish(
    result: Result<ReleaseReport, Failure>,
    interrupt: &Interrupt,
    flags: &RunFlags,
    session: &Session,
) -> anyhow::Result<Exit> {
    let report = match &result {
        Ok(report) => Some(report),
        Err(failure) => failure.report(),
    };
    if let (Some(path), Some(report)) = (&flags.save_report_to, report) {
        let text = serde_json::to_vec_pretty(report)?;
        crate::files::replace_private(path, &text).with_context(|| format!("write {}", path.display()))?;
    }
    let undone = report.and_then(|report| report.rollback_graph.as_deref());
    if let (Some(path), Some(graph)) = (&flags.save_rollback_graph_to, undone) {
        save_graph(path, graph)?;
    }
    match result {
        Ok(mut report) => {
            if flags.hide_notes {
                report.notes.clear();
            }
            if session.verbosity >= Verbosity::Verbose {
                say!("{}", report.requests);
            }
            show::show(session.output(), &report, text::report_text)?;
            let is_first = report.status == ReleaseStatus::Deployed && report.revision == 1;
            if is_first && !session.is_quiet() && session.output() == Output::Table {
                next::after_install(&report);
            }
            Ok(Exit::Done)
        }
        Err(failure) => match interrupt.exit() {
            Some(_) if session.failure_form() == FailureForm::Object => {
                Err(StoppedRun(Box::new(failure)).into())
            }
            Some(exit) => {
                say!("{failure}");
                failure.report().into_iter().for_each(next::after_failure);
                Ok(exit)
            }
            None => Err(fail(failure)),
        },
    }
}
