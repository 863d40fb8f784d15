//! `slipway unit rollback`: takes a target back.

use slipway_unit::{
    ApplyContext, ApplyRequest, EvidenceNeed, FailedVerification, PlanContext, RepeatedApply, rollback_unit,
};

use super::fail;
use super::flags::{ConnectedTarget, LoadFlags, TargetFlags, UnitFlags, ledger, now, recorded_events};
use crate::commands::release::flags::{PlanningFlags, RunFlags};
use crate::exit::Exit;
use crate::interrupt::Interrupt;
use crate::session::Session;
use crate::term::show;

/// Take a target back to what it ran before
///
/// To go back to an earlier unit whose file is at hand, apply that unit: it is proven as any other.
#[derive(Debug, clap::Args)]
pub struct RollbackArgs {
    /// Revision to go back to; the last good one before the current if not given
    #[arg(long, value_name = "N")]
    revision: Option<u32>,

    #[command(flatten)]
    unit: UnitFlags,

    #[command(flatten)]
    target: TargetFlags,

    #[command(flatten)]
    load: LoadFlags,

    #[command(flatten)]
    planning: PlanningFlags,

    #[command(flatten)]
    run: RunFlags,
}

pub fn run(args: &RollbackArgs, session: &Session) -> anyhow::Result<Exit> {
    let unit = args.unit.open()?;
    session.block_on(async {
        let ConnectedTarget { connection, target, overlay, .. } = args.target.connect(&unit, session).await?;
        let contexts = args.load.contexts("unit rollback", session);
        let (events, recorder) = recorded_events(session);
        let request = ApplyRequest {
            unit: &unit,
            target,
            overlay,
            plan: args.planning.options()?,
            execute: args.run.options(),
            repeated: RepeatedApply::Skip,
            evidence: EvidenceNeed::None,
            verify: None,
            on_failure: FailedVerification::Hold,
            strategy: None,
        };
        let context = ApplyContext {
            plan: PlanContext {
                cluster: &connection.cluster,
                loader: contexts.loader(),
                events: &events,
                policies: None,
                now: now(),
            },
            ledger: ledger(&unit),
            cancel: Interrupt::listen()?.token().clone(),
            recorder: Some(recorder),
        };
        let report = rollback_unit(&request, args.revision, &context).await.map_err(fail)?;
        say!("revision {} of {} is {}", report.revision, report.release, report.status);
        show::show(session.output(), &report, |_| String::new())?;
        Ok(Exit::Done)
    })
}
