//! `slipway unit resume` and `slipway unit abort`: what becomes of an unfinished rollout.

use schemars::JsonSchema;
use serde::Serialize;
use slipway_unit::{
    ApplyContext, ApplyRequest, EvidenceNeed, FailedVerification, PlanContext, RepeatedApply, UnitFile,
    abort_unit, resume_unit,
};

use super::flags::{
    ConnectedTarget, LoadFlags, TargetFlags, UnitFlags, VerifyFlags, ledger, now, recorded_events,
};
use super::{apply, fail};
use crate::commands::release::flags::{PlanningFlags, RunFlags};
use crate::exit::Exit;
use crate::interrupt::Interrupt;
use crate::session::Session;
use crate::term::show;

/// Go on with a rollout that paused or was interrupted
#[derive(Debug, clap::Args)]
pub struct ResumeArgs {
    #[command(flatten)]
    unit: UnitFlags,

    #[command(flatten)]
    rollout: RolloutFlags,

    #[command(flatten)]
    verify: VerifyFlags,
}

/// Take a rollout back that is not finished
///
/// Traffic, replicas and autoscalers are as before, and nothing of the rollout is left. May be repeated.
#[derive(Debug, clap::Args)]
pub struct AbortArgs {
    #[command(flatten)]
    unit: UnitFlags,

    #[command(flatten)]
    rollout: RolloutFlags,
}

#[derive(Debug, clap::Args)]
struct RolloutFlags {
    #[command(flatten)]
    target: TargetFlags,

    #[command(flatten)]
    load: LoadFlags,

    #[command(flatten)]
    planning: PlanningFlags,

    #[command(flatten)]
    run: RunFlags,
}

pub fn run(args: &ResumeArgs, session: &Session) -> anyhow::Result<Exit> {
    let unit = args.unit.open()?;
    work(&unit, &args.rollout, Some(&args.verify), session)
}

pub fn abort(args: &AbortArgs, session: &Session) -> anyhow::Result<Exit> {
    work(&args.unit.open()?, &args.rollout, None, session)
}

/// A rollout that was taken back.
#[derive(Serialize, JsonSchema)]
pub struct AbortedRollout {
    /// Objects of it that were removed.
    removed: Vec<String>,
}

/// Resumes with a verification at the end, or aborts where there is none.
fn work(
    unit: &UnitFile,
    flags: &RolloutFlags,
    verify: Option<&VerifyFlags>,
    session: &Session,
) -> anyhow::Result<Exit> {
    session.block_on(async {
        let ConnectedTarget { connection, target, overlay, .. } = flags.target.connect(unit, session).await?;
        let command = if verify.is_some() { "unit resume" } else { "unit abort" };
        let contexts = flags.load.contexts(command, session);
        let (events, recorder) = recorded_events(session);
        let request = ApplyRequest {
            unit,
            target,
            overlay,
            plan: flags.planning.options()?,
            execute: flags.run.options(),
            repeated: RepeatedApply::Skip,
            evidence: EvidenceNeed::None,
            verify: verify.map(VerifyFlags::options),
            on_failure: FailedVerification::Hold,
            strategy: None,
        };
        let context = ApplyContext {
            plan: PlanContext {
                cluster: &connection.cluster,
                loader: contexts.loader(),
                events: &events,
                policies: flags.planning.policy.policies()?,
                now: now(),
            },
            ledger: ledger(unit),
            cancel: Interrupt::listen()?.token().clone(),
            recorder: Some(recorder),
        };
        if verify.is_some() {
            let outcome = resume_unit(&request, &context).await;
            contexts.finish();
            return apply::finish(&outcome.map_err(fail)?, unit, session);
        }
        let aborted = abort_unit(&request, &context).await;
        contexts.finish();
        let aborted = aborted.map_err(fail)?;
        for removed in &aborted.removed {
            say!("removed {removed}");
        }
        say!("the rollout is taken back");
        let removed = aborted.removed.iter().map(ToString::to_string).collect();
        show::show(session.output(), &AbortedRollout { removed }, |_| String::new())?;
        Ok(Exit::Done)
    })
}
