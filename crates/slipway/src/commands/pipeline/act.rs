//! `slipway pipeline promote|rollback|pause|resume|retry|approve`: what people ask of a pipeline.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use slipway_problem::Problem;
use slipway_promotion::act::{
    PauseOutcome, PromotionPlan, ResumeOutcome, approve_bundle, find_user, pause_pipeline, plan_promotion,
    resume_pipeline,
};
use slipway_promotion::kinds;
use slipway_promotion::rollback::{ManualRollback, RollbackPriority, current_bundle, manual_rollback};
use slipway_promotion::step::{RetryOutcome, retry_step};

use crate::commands::bundle::wait::{WaitFlags, wait_for};
use crate::commands::promotion::{
    PolicyNamespaceFlags, check_environment, connect, explain, find_bundle, survey,
};
use crate::exit::Exit;
use crate::session::Session;
use crate::term::show;

#[derive(Debug, clap::Args)]
pub struct PromoteArgs {
    /// The pipeline
    pipeline: String,

    /// The environment
    #[arg(long, value_name = "NAME")]
    env: String,

    /// The bundle, by name or version; the newest one verified before the environment unless given
    #[arg(long, value_name = "NAME")]
    bundle: Option<String>,

    #[command(flatten)]
    wait: WaitFlags,

    #[command(flatten)]
    policy: PolicyNamespaceFlags,
}

/// The effect of asking for a promotion.
#[derive(Serialize, JsonSchema)]
#[serde(tag = "outcome", rename_all = "camelCase")]
pub enum PromotionOutcome<'a> {
    /// The environment runs the version.
    AlreadyThere { environment: &'a str, version: &'a str },
    /// A bundle is on its way there.
    Promoting { bundle: &'a str, environment: &'a str },
}

/// A bundle that takes an environment back.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "PipelineRollback")]
pub struct RollbackView<'a> {
    bundle: &'a str,
    environment: &'a str,
    /// The version that ran there; empty where none is known.
    from: &'a str,
    to: &'a str,
}

/// The effect of pausing or resuming a pipeline.
#[derive(Serialize, JsonSchema)]
pub struct PauseView<'a> {
    /// `paused`, `alreadyPaused`, `resumed` or `notPaused`.
    outcome: &'a str,
    pipeline: &'a str,
}

/// A step that was asked to begin anew.
#[derive(Serialize, JsonSchema)]
pub struct RetriedStep {
    step: String,
    /// The effect, in words.
    outcome: String,
}

/// A bundle that was approved for an environment.
#[derive(Serialize, JsonSchema)]
pub struct ApprovedBundle<'a> {
    bundle: &'a str,
    environment: &'a str,
}

pub fn promote(args: &PromoteArgs, session: &Session) -> anyhow::Result<Exit> {
    session.block_on(async {
        let place = connect(session).await?;
        let survey = survey(&place, &args.policy.settings(), &args.pipeline).await?;
        let plan = plan_promotion(&survey, &args.env, args.bundle.as_deref(), Timestamp::now());
        let plan = plan.map_err(|error| Problem::error(error.to_string()))?;
        let env = &args.env;
        let (bundle, text) = match plan {
            PromotionPlan::AlreadyThere { version } => {
                let value = PromotionOutcome::AlreadyThere { environment: env, version: &version };
                show::show(session.output(), &value, |_| format!("{env} runs {version} already\n"))?;
                return Ok(Exit::Done);
            }
            PromotionPlan::UnderWay { bundle, state } => {
                let state = state.map_or_else(|| "waiting".to_owned(), |state| format!("{state:?}"));
                let text = format!("Bundle \"{bundle}\" is on its way to {env} already ({state})\n");
                (bundle, text)
            }
            PromotionPlan::Create(bundle) => {
                let made = kinds::create(&place.cluster, &bundle).await.map_err(explain)?;
                let text = format!("Bundle \"{}\" created: {} to {env}\n", made.name(), made.spec.version());
                (made.name().to_owned(), text)
            }
        };
        let value = PromotionOutcome::Promoting { bundle: &bundle, environment: env };
        let hint = format!("  slipway pipeline explain {} --env {env} --watch\n", args.pipeline);
        show::show(session.output(), &value, |_| text + &hint)?;
        wait_for(&place, &bundle, Some(env), &args.wait).await
    })
}

#[derive(Debug, clap::Args)]
pub struct RollbackArgs {
    /// The pipeline
    pipeline: String,

    /// The environment
    #[arg(long, value_name = "NAME")]
    env: String,

    /// The bundle to go back to, by name or version; the one before the current unless given
    #[arg(long, value_name = "NAME")]
    to: Option<String>,

    /// Go first in the environment; gates apply all the same
    #[arg(long)]
    emergency: bool,

    /// Why, for the record
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,

    #[command(flatten)]
    wait: WaitFlags,

    #[command(flatten)]
    policy: PolicyNamespaceFlags,
}

pub fn rollback(args: &RollbackArgs, session: &Session) -> anyhow::Result<Exit> {
    session.block_on(async {
        let place = connect(session).await?;
        let survey = survey(&place, &args.policy.settings(), &args.pipeline).await?;
        let request = ManualRollback {
            environment: &args.env,
            to: args.to.as_deref(),
            priority: if args.emergency { RollbackPriority::Emergency } else { RollbackPriority::Normal },
            now: Timestamp::now(),
        };
        let bundle = manual_rollback(&survey.pipeline, &survey.bundles, &request);
        let mut bundle = bundle.map_err(|error| Problem::error(error.to_string()))?;
        if let Some(reason) = &args.reason {
            bundle.metadata.annotations.insert("kardinal.io/reason".to_owned(), reason.clone());
        }
        let from = current_bundle(&args.env, &survey.bundles).map(|one| one.spec.version()).unwrap_or_default();
        let made = kinds::create(&place.cluster, &bundle).await.map_err(explain)?;
        let to = made.spec.version();
        let value = RollbackView { bundle: made.name(), environment: &args.env, from: &from, to: &to };
        show::show(session.output(), &value, |_| {
            format!(
                "Bundle \"{}\" created: {} goes from {from} back to {to}\n  slipway pipeline explain {} --env {} --watch\n",
                made.name(),
                args.env,
                args.pipeline,
                args.env
            )
        })?;
        wait_for(&place, made.name(), Some(&args.env), &args.wait).await
    })
}

#[derive(Debug, clap::Args)]
pub struct PauseArgs {
    /// The pipeline
    pipeline: String,

    /// Why, for everybody who asks
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,

    #[command(flatten)]
    policy: PolicyNamespaceFlags,
}

pub fn pause(args: &PauseArgs, session: &Session) -> anyhow::Result<Exit> {
    session.block_on(async {
        let place = connect(session).await?;
        let survey = survey(&place, &args.policy.settings(), &args.pipeline).await?;
        let by = find_user(&place.cluster).await;
        let outcome = pause_pipeline(&place.cluster, &survey.pipeline, args.reason.as_deref(), by.as_deref());
        let outcome = outcome.await.map_err(explain)?;
        let name = &args.pipeline;
        let (word, text) = match outcome {
            PauseOutcome::Paused => ("paused", format!("Pipeline \"{name}\" paused\n")),
            PauseOutcome::AlreadyPaused => {
                ("alreadyPaused", format!("Pipeline \"{name}\" was paused already\n"))
            }
        };
        show::show(session.output(), &PauseView { outcome: word, pipeline: name }, |_| text)?;
        Ok(Exit::Done)
    })
}

#[derive(Debug, clap::Args)]
pub struct ResumeArgs {
    /// The pipeline
    pipeline: String,

    #[command(flatten)]
    policy: PolicyNamespaceFlags,
}

pub fn resume(args: &ResumeArgs, session: &Session) -> anyhow::Result<Exit> {
    session.block_on(async {
        let place = connect(session).await?;
        let survey = survey(&place, &args.policy.settings(), &args.pipeline).await?;
        let outcome = resume_pipeline(&place.cluster, &survey.pipeline).await.map_err(explain)?;
        let name = &args.pipeline;
        let (word, text) = match outcome {
            ResumeOutcome::Resumed => ("resumed", format!("Pipeline \"{name}\" goes on\n")),
            ResumeOutcome::NotPaused => ("notPaused", format!("Pipeline \"{name}\" was not paused\n")),
        };
        show::show(session.output(), &PauseView { outcome: word, pipeline: name }, |_| text)?;
        Ok(Exit::Done)
    })
}

#[derive(Debug, clap::Args)]
pub struct RetryArgs {
    /// The pipeline
    pipeline: String,

    /// The environment
    #[arg(long, value_name = "NAME")]
    env: String,

    /// The bundle, by name or version; the newest one that failed there unless given
    #[arg(long, value_name = "NAME")]
    bundle: Option<String>,

    #[command(flatten)]
    policy: PolicyNamespaceFlags,
}

pub fn retry(args: &RetryArgs, session: &Session) -> anyhow::Result<Exit> {
    session.block_on(async {
        let place = connect(session).await?;
        let survey = survey(&place, &args.policy.settings(), &args.pipeline).await?;
        check_environment(&survey, &args.env)?;
        let bundle = args.bundle.as_deref().map(|wanted| find_bundle(&survey, wanted)).transpose()?;
        let failed: Vec<&str> = survey
            .bundles
            .iter()
            .filter(|one| bundle.is_none_or(|wanted| wanted.name() == one.name()))
            .find_map(|one| {
                let steps = survey.steps_of(one.name(), &args.env);
                let names: Vec<&str> =
                    steps.filter(|step| step.state().is_failure()).map(kinds::PromotionStep::name).collect();
                (!names.is_empty()).then_some(names)
            })
            .unwrap_or_default();
        if failed.is_empty() {
            let problem = Problem::error(format!("no step of {} has failed in {}", args.pipeline, args.env));
            let hint =
                format!("`slipway pipeline explain {} --env {}` says how it stands", args.pipeline, args.env);
            return Err(problem.hint(hint).into());
        }
        let mut rows = Vec::new();
        for name in failed {
            let outcome = retry_step(&place.cluster, &place.namespace, name).await.map_err(explain)?;
            let text = match outcome {
                RetryOutcome::Restarted { attempt } => format!("begins anew (attempt {attempt})"),
                RetryOutcome::NotFailed { state } => format!("has not failed: {state:?}"),
                RetryOutcome::NotFound => "is gone".to_owned(),
            };
            rows.push(RetriedStep { step: name.to_owned(), outcome: text });
        }
        show::show(session.output(), &rows, |rows| {
            rows.iter().map(|row| format!("PromotionStep \"{}\" {}\n", row.step, row.outcome)).collect()
        })?;
        Ok(Exit::Done)
    })
}

#[derive(Debug, clap::Args)]
pub struct ApproveArgs {
    /// The pipeline
    pipeline: String,

    /// The environment
    #[arg(long, value_name = "NAME")]
    env: String,

    /// The bundle, by name or version; the one that waits there unless given
    #[arg(long, value_name = "NAME")]
    bundle: Option<String>,

    #[command(flatten)]
    policy: PolicyNamespaceFlags,
}

pub fn approve(args: &ApproveArgs, session: &Session) -> anyhow::Result<Exit> {
    session.block_on(async {
        let place = connect(session).await?;
        let survey = survey(&place, &args.policy.settings(), &args.pipeline).await?;
        check_environment(&survey, &args.env)?;
        if survey.pipeline.spec.git.provider != kinds::ScmProvider::None {
            let problem = Problem::error("this pipeline is approved by merging its pull request");
            return Err(problem.hint("`slipway pipeline explain` shows the address").into());
        }
        let standing = survey.environment_standing(&args.env, None);
        let waiting = args.bundle.clone().or(standing.bundle);
        let waiting = waiting.ok_or_else(|| Problem::error(format!("no bundle waits for {}", args.env)))?;
        let bundle = find_bundle(&survey, &waiting)?;
        approve_bundle(&place.cluster, bundle, &args.env).await.map_err(explain)?;
        let value = ApprovedBundle { bundle: bundle.name(), environment: &args.env };
        show::show(session.output(), &value, |_| {
            format!("Bundle \"{}\" approved for {}\n", bundle.name(), args.env)
        })?;
        Ok(Exit::Done)
    })
}
