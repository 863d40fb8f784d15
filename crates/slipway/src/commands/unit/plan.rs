//! `slipway unit plan`: shows what an apply would do.

use serde_json::json;
use slipway_unit::{EntryKind, PlanContext, SecretUse, plan_unit};

use super::flags::{ConnectedTarget, LoadFlags, TargetFlags, UnitFlags, ledger, now};
use super::{fail, text};
use crate::commands::release::flags::PlanningFlags;
use crate::exit::Exit;
use crate::help::Usual;
use crate::session::Session;
use crate::term::show;

/// Show what applying a unit would change; writes nothing
///
/// The unit is rendered again and every object compared with its sealed hash. No secret is fetched.
#[derive(Debug, clap::Args)]
pub struct PlanArgs {
    #[command(flatten)]
    unit: UnitFlags,

    #[command(flatten)]
    target: TargetFlags,

    #[command(flatten)]
    load: LoadFlags,

    #[command(flatten)]
    planning: PlanningFlags,

    /// Write the plan's summary to the ledger
    #[arg(long, help_heading = None::<&'static str>)]
    record: bool,

    /// End with 2 if objects would change, with 3 if only a revision would be made
    #[arg(long, alias = "detailed-exitcode", add = Usual, help_heading = None::<&'static str>)]
    exit_code: bool,
}

pub fn run(args: &PlanArgs, session: &Session) -> anyhow::Result<Exit> {
    let unit = args.unit.open()?;
    session.block_on(async {
        let ConnectedTarget { connection, target, overlay, .. } = args.target.connect(&unit, session).await?;
        let contexts = args.load.contexts("unit plan", session);
        let book = ledger(&unit);
        let context = PlanContext {
            cluster: &connection.cluster,
            loader: contexts.loader(),
            events: &session.events(),
            policies: args.planning.policy.policies()?,
            now: now(),
        };
        let entries = book.entries().map_err(fail)?;
        let options = args.planning.options()?;
        let plan = plan_unit(&unit, &target, overlay.as_ref(), SecretUse::Name, options, &entries, &context).await;
        let plan = plan.map_err(fail)?;
        show::show(session.output(), &plan, text::plan_text)?;
        if args.record {
            let payload = json!({"summary": plan.summary, "images": plan.images, "risks": plan.risks, "overlay": plan.overlay});
            book.append(EntryKind::Plan, &target, payload).map_err(fail)?;
        }
        if plan.policy.as_ref().is_some_and(slipway_policy::PolicyReport::is_denied) {
            return Ok(Exit::Refused);
        }
        Ok(match (args.exit_code, plan.exit_code()) {
            (true, 2) => Exit::Changes,
            (true, 3) => Exit::Revision,
            _ => Exit::Done,
        })
    })
}
