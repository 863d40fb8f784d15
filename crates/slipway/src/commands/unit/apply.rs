//! `slipway unit apply` and `slipway unit promote`: deploy exactly what was bundled.

use schemars::JsonSchema;
use serde::Serialize;
use slipway_release::{ReleaseStatus, Revision};
use slipway_unit::strategy::{RolloutContext, Strategy, rehearse_strategy};
use slipway_unit::{
    ApplyContext, ApplyOutcome, ApplyRequest, EvidenceNeed, EvidenceRule, FailedVerification, LedgerPlace,
    PlanContext, RepeatedApply, UnitFile, VerifyReport, apply_unit, find_deployed_evidence, require_evidence,
};

use super::flags::{
    ConnectedTarget, LoadFlags, TargetFlags, UnitFlags, VerifyFlags, connect_environment, ledger, now,
    recorded_events,
};
use super::{fail, text};
use crate::commands::release::cluster_words;
use crate::commands::release::flags::{PlanningFlags, RunFlags};
use crate::exit::{Exit, StoppedRun};
use crate::help::Usual;
use crate::interrupt::Interrupt;
use crate::session::Session;
use crate::term::failure::FailureForm;
use crate::term::show;
use crate::term::style::{DIM, paint};

/// Deploy exactly what was bundled
///
/// The unit is proven first: rendered again without secrets, every object must have its sealed hash. Then secrets are
/// fetched, the intent is written to the ledger, and the release is deployed and verified.
#[derive(Debug, clap::Args)]
pub struct ApplyArgs {
    #[command(flatten)]
    unit: UnitFlags,

    #[command(flatten)]
    deploy: DeployFlags,
}

/// Deploy a unit to an environment after it was verified in another
///
/// The ledger, or the cluster of an environment before the target's, must tell of a successful apply with a passed
/// verification there.
/// Only values in the overlay slots of the unit may differ.
#[derive(Debug, clap::Args)]
pub struct PromoteArgs {
    #[command(flatten)]
    unit: UnitFlags,

    /// Environment the unit must be verified in; those before the target in `promotion.order` if not given
    #[arg(long, value_name = "ENV", help_heading = "Evidence")]
    from: Vec<String>,

    /// Promote without evidence; the ledger says so
    #[arg(long, help_heading = "Evidence")]
    allow_unverified: bool,

    #[command(flatten)]
    deploy: DeployFlags,
}

#[derive(Debug, clap::Args)]
struct DeployFlags {
    /// Verify nothing; the apply is no evidence for a promotion then
    #[arg(long, help_heading = "Verification")]
    no_verify: bool,

    /// What to do when the verification fails
    #[arg(long, value_name = "WHAT", default_value = "hold", help_heading = "Verification")]
    on_fail: OnFail,

    /// Apply although the target runs this unit already
    #[arg(long, help_heading = "Running")]
    force: bool,

    /// Carry the whole strategy out on a copy of the namespace first
    #[arg(long, add = Usual, help_heading = "Running")]
    rehearse: bool,

    #[command(flatten)]
    target: TargetFlags,

    #[command(flatten)]
    load: LoadFlags,

    #[command(flatten)]
    planning: PlanningFlags,

    #[command(flatten)]
    run: RunFlags,

    #[command(flatten)]
    verify: VerifyFlags,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum OnFail {
    /// Leave the release as it is
    #[value(alias = "none")]
    Hold,
    /// Go back to the last good revision
    Rollback,
}

pub fn run(args: &ApplyArgs, session: &Session) -> anyhow::Result<Exit> {
    deploy(&args.unit.open()?, &args.deploy, None, session)
}

pub fn promote(args: &PromoteArgs, session: &Session) -> anyhow::Result<Exit> {
    deploy(&args.unit.open()?, &args.deploy, Some(args), session)
}

impl PromoteArgs {
    /// The evidence the promotion needs. Clusters are asked where the ledger does not tell enough.
    async fn evidence(
        &self,
        connected: &ConnectedTarget,
        unit: &UnitFile,
        session: &Session,
    ) -> anyhow::Result<EvidenceNeed> {
        if self.allow_unverified {
            return Ok(EvidenceNeed::Waived);
        }
        let ConnectedTarget { target, environments, .. } = connected;
        let from = match self.from.as_slice() {
            [] => environments.before(target.env.as_deref().unwrap_or_default()).to_vec(),
            given => given.to_vec(),
        };
        let mut rule = EvidenceRule { from, deployed: Vec::new() };
        let entries = ledger(unit).entries().map_err(fail)?;
        if require_evidence(&entries, target, &rule).is_ok() {
            return Ok(EvidenceNeed::From(rule));
        }
        let driver = self.deploy.planning.options()?.driver;
        for env in &rule.from {
            // Not every environment of the order has a cluster here.
            let Ok(choice) = environments.choose(env) else { continue };
            match connect_environment(choice, unit, session).await {
                Ok((connection, place)) => {
                    let found = find_deployed_evidence(&connection.cluster, &place, unit, driver).await;
                    rule.deployed.extend(found.map_err(fail)?);
                }
                Err(error) => say!("environment `{env}` cannot be asked for evidence: {error:#}"),
            }
        }
        Ok(EvidenceNeed::From(rule))
    }
}

fn deploy(
    unit: &UnitFile,
    flags: &DeployFlags,
    promotion: Option<&PromoteArgs>,
    session: &Session,
) -> anyhow::Result<Exit> {
    session.block_on(async {
        let connected = flags.target.connect(unit, session).await?;
        let evidence = match promotion {
            Some(args) => args.evidence(&connected, unit, session).await?,
            None => EvidenceNeed::None,
        };
        let ConnectedTarget { connection, target, overlay, .. } = connected;
        if !session.is_quiet() {
            let env = target.env.as_ref().map(|env| format!(", environment {env}")).unwrap_or_default();
            let cluster = cluster_words(&connection, session);
            say!("{} {cluster}, namespace {}{env}", paint(DIM, "cluster:"), target.namespace);
        }
        let contexts = flags.load.contexts("unit apply", session);
        let interrupt = Interrupt::listen()?;
        let (events, recorder) = recorded_events(session);
        let request = ApplyRequest {
            unit,
            target,
            overlay,
            plan: flags.planning.options()?,
            execute: flags.run.options(),
            repeated: if flags.force { RepeatedApply::Force } else { RepeatedApply::Skip },
            evidence,
            verify: (!flags.no_verify).then(|| flags.verify.options()),
            on_failure: match flags.on_fail {
                OnFail::Hold => FailedVerification::Hold,
                OnFail::Rollback => FailedVerification::Rollback,
            },
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
            cancel: interrupt.token().clone(),
            recorder: Some(recorder),
        };
        if flags.rehearse {
            rehearse(&request, &context).await?;
        }
        let outcome = apply_unit(&request, &context).await;
        contexts.finish();
        if let LedgerPlace::Sidecar(path) = context.ledger.place()
            && path.exists()
        {
            say!("the unit cannot be written: its ledger is {}", path.display());
        }
        match outcome {
            Ok(outcome) => finish(&outcome, unit, session),
            Err(error) if interrupt.exit().is_some() && session.failure_form() == FailureForm::Object => {
                Err(StoppedRun(Box::new(error)).into())
            }
            Err(_) if interrupt.exit().is_some() => Ok(interrupt.exit().unwrap_or(Exit::Failed)),
            Err(error) => Err(fail(error)),
        }
    })
}

/// Tries the strategy of a unit on a copy; nothing in the cluster is written.
async fn rehearse(request: &ApplyRequest<'_>, context: &ApplyContext<'_>) -> anyhow::Result<()> {
    let ApplyRequest { unit, target, overlay, plan, .. } = request;
    let entries = context.ledger.entries().map_err(fail)?;
    let secrets = slipway_unit::SecretUse::Name;
    let planned = slipway_unit::plan_unit(
        unit,
        target,
        overlay.as_ref(),
        secrets,
        plan.clone(),
        &entries,
        &context.plan,
    )
    .await;
    let planned = planned.map_err(fail)?;
    let strategy = match unit.strategy() {
        Some(json) => Strategy::parse(json)?,
        None => Strategy::rolling(),
    };
    let log = slipway_unit::strategy::MemoryLog::default();
    let rollout = RolloutContext {
        cluster: context.plan.cluster,
        request: &planned.request,
        rendered: &planned.proven.rendered,
        options: &request.execute,
        log: &log,
        events: context.plan.events,
        cancel: context.cancel.clone(),
        pace: Default::default(),
    };
    let held = rehearse_strategy(&strategy, &rollout).await.map_err(fail)?;
    say!("rehearsed {} steps on a copy of {} objects", held.steps.len(), held.copied_objects);
    Ok(())
}

/// The end of an apply.
#[derive(Serialize, JsonSchema)]
#[serde(tag = "outcome", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum UnitApplyView<'a> {
    /// The target runs this unit already.
    AlreadyApplied {
        revision: u32,
    },
    Applied {
        apply_id: &'a str,
        revision: Revision,
        status: ReleaseStatus,
        /// Absent with `--no-verify`.
        #[serde(skip_serializing_if = "Option::is_none")]
        verification: Option<&'a VerifyReport>,
    },
    /// A rollout waits for `unit resume`.
    Paused {
        apply_id: &'a str,
        step: &'a str,
    },
    TakenBack {
        apply_id: &'a str,
        reason: &'a str,
    },
}

impl<'a> UnitApplyView<'a> {
    fn new(outcome: &'a ApplyOutcome) -> Self {
        match outcome {
            ApplyOutcome::AlreadyApplied { revision } => Self::AlreadyApplied { revision: *revision },
            ApplyOutcome::Applied { apply_id, report, verification } => Self::Applied {
                apply_id,
                revision: report.revision,
                status: report.status,
                verification: verification.as_ref(),
            },
            ApplyOutcome::Paused { apply_id, step } => Self::Paused { apply_id, step },
            ApplyOutcome::TakenBack { apply_id, why } => Self::TakenBack { apply_id, reason: why },
        }
    }
}

/// Shows how an apply ended.
pub fn finish(outcome: &ApplyOutcome, unit: &UnitFile, session: &Session) -> anyhow::Result<Exit> {
    show::show(session.output(), &UnitApplyView::new(outcome), |view| match view {
        UnitApplyView::Applied { verification: Some(found), .. } => text::verification_text(found),
        _ => String::new(),
    })?;
    match outcome {
        ApplyOutcome::AlreadyApplied { revision } => {
            say!("already applied (revision {revision})");
            Ok(Exit::Done)
        }
        ApplyOutcome::Applied { apply_id, report, verification } => {
            say!("revision {} of {} is {}", report.revision, report.release, report.status);
            let failed = verification.as_ref().filter(|found| !found.is_passed());
            let Some(cause) = failed.and_then(VerifyReport::likely_cause) else { return Ok(Exit::Done) };
            say!("most likely: {cause}");
            say!("look at it again with: slipway unit replay {} --apply {apply_id}", unit.path().display());
            Ok(Exit::Failed)
        }
        ApplyOutcome::Paused { apply_id, step } => {
            say!(
                "apply {apply_id} is paused at {step}; go on with: slipway unit resume {}",
                unit.path().display()
            );
            Ok(Exit::Done)
        }
        ApplyOutcome::TakenBack { apply_id, why } => {
            say!("apply {apply_id} was taken back: {why}");
            Ok(Exit::Failed)
        }
    }
}
