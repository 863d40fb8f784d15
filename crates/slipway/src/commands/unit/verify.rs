//! `slipway unit verify`: checks what runs.

use std::path::PathBuf;

use slipway_unit::{
    ApplyLedger, PlanContext, SecretUse, VerifyBaseline, VerifyRequest, applies, mark_verification,
    plan_unit, run_checks, verify_export,
};

use super::export::ExportFlags;
use super::flags::{ConnectedTarget, LoadFlags, TargetFlags, UnitFlags, VerifyFlags, ledger, now};
use super::{fail, text};
use crate::commands::release::flags::PlanningFlags;
use crate::exit::Exit;
use crate::session::Session;
use crate::term::show;

/// Check that what runs is what was sealed, and is well
///
/// Digests of running containers, readiness, jobs, restarts, warnings, endpoints, drift and probes. The result is written
/// to the ledger as evidence for the last apply to the target.
#[derive(Debug, clap::Args)]
pub struct VerifyArgs {
    #[command(flatten)]
    unit: UnitFlags,

    #[command(flatten)]
    target: TargetFlags,

    #[command(flatten)]
    load: LoadFlags,

    #[command(flatten)]
    planning: PlanningFlags,

    #[command(flatten)]
    verify: VerifyFlags,

    /// Check instead that a directory is the export of the unit
    #[arg(long, value_name = "DIR", requires = "format", help_heading = "Export")]
    gitops: Option<PathBuf>,

    #[command(flatten)]
    export: ExportFlags,
}

pub fn run(args: &VerifyArgs, session: &Session) -> anyhow::Result<Exit> {
    let unit = args.unit.open()?;
    if let Some(directory) = &args.gitops {
        verify_export(&unit, &args.export.options()?, directory).map_err(fail)?;
        say!("{} is the export of {}", directory.display(), unit.digest());
        return Ok(Exit::Done);
    }
    session.block_on(async {
        let ConnectedTarget { connection, target, overlay, .. } = args.target.connect(&unit, session).await?;
        let contexts = args.load.contexts("unit verify", session);
        let events = session.events();
        let context = PlanContext {
            cluster: &connection.cluster,
            loader: contexts.loader(),
            events: &events,
            policies: None,
            now: now(),
        };
        let book = ledger(&unit);
        let entries = book.entries().map_err(fail)?;
        let options = args.planning.options()?;
        let plan =
            plan_unit(&unit, &target, overlay.as_ref(), SecretUse::Name, options, &entries, &context).await;
        let plan = plan.map_err(fail)?;
        let request = VerifyRequest {
            unit: Some(&unit),
            request: &plan.request,
            rendered: &plan.proven.rendered,
            baseline: VerifyBaseline::default(),
            options: args.verify.options(),
        };
        let found = run_checks(&connection.cluster, &request, &events).await.map_err(fail)?;
        show::show(session.output(), &found, text::verification_text)?;
        let last = applies(&entries).into_iter().rev().find(|apply| apply.target.is_same_place(&target));
        if let Some(last) = last {
            let book = ApplyLedger::resume(book, target.clone(), &last).map_err(fail)?;
            book.record_verification(&found).map_err(fail)?;
        }
        let verified = found.is_passed().then(now);
        let driver = plan.request.options.driver;
        mark_verification(&connection.cluster, &target, &unit, driver, verified).await.map_err(fail)?;
        if let Some(cause) = found.likely_cause() {
            say!("most likely: {cause}");
        }
        Ok(if found.is_passed() { Exit::Done } else { Exit::Failed })
    })
}
