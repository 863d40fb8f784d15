//! `slipway pipeline explain`: why an environment waits.

use std::time::Duration;

use slipway_promotion::view::{EnvironmentStanding, PipelineStanding, StandingVerdict};

use crate::commands::promotion::{
    Place, PolicyNamespaceFlags, check_environment, connect, find_bundle, survey,
};
use crate::exit::Exit;
use crate::interrupt;
use crate::session::Session;
use crate::term::{output, show};

/// The time between two looks at the cluster.
const LOOK_EVERY: Duration = Duration::from_secs(2);

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit codes: 0 the way is open or the version is there, 15 a gate or something else keeps it, 1 it failed."
)]
pub struct ExplainArgs {
    /// The pipeline
    pipeline: String,

    /// The environment; all of them unless given
    #[arg(long, value_name = "NAME")]
    env: Option<String>,

    /// The bundle, by name or version; the one on its way unless given
    #[arg(long, value_name = "NAME")]
    bundle: Option<String>,

    /// Go on and show every change, until the version is there or has failed
    #[arg(short, long)]
    watch: bool,

    #[command(flatten)]
    policy: PolicyNamespaceFlags,
}

pub fn run(args: &ExplainArgs, session: &Session) -> anyhow::Result<Exit> {
    session.block_on_reading(async {
        let place = connect(session).await?;
        let mut shown = String::new();
        loop {
            let standing = look(args, &place).await?;
            let text = standing.to_string();
            if text != shown {
                if args.watch {
                    say!("{}", jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ"));
                }
                match args.env {
                    Some(_) => show::show(session.output(), &standing.environments[0], ToString::to_string)?,
                    None => show::show(session.output(), &standing, ToString::to_string)?,
                }
                shown = text;
            }
            if !args.watch || has_ended(&standing) || output::is_closed() {
                return Ok(exit(args, &standing));
            }
            interrupt::stopping().run_until_cancelled(tokio::time::sleep(LOOK_EVERY)).await;
        }
    })
}

async fn look(args: &ExplainArgs, place: &Place) -> anyhow::Result<PipelineStanding> {
    let survey = survey(place, &args.policy.settings(), &args.pipeline).await?;
    let bundle = args.bundle.as_deref().map(|wanted| find_bundle(&survey, wanted)).transpose()?;
    let mut standing = survey.standing(bundle);
    if let Some(environment) = &args.env {
        check_environment(&survey, environment)?;
        standing.environments.retain(|one| one.environment == *environment);
    }
    Ok(standing)
}

fn has_ended(standing: &PipelineStanding) -> bool {
    let is_there = |one: &EnvironmentStanding| {
        matches!(
            one.result,
            StandingVerdict::Verified { .. } | StandingVerdict::Skipped | StandingVerdict::NotMeant
        )
    };
    standing.environments.iter().any(EnvironmentStanding::is_failed)
        || standing.environments.iter().all(is_there)
}

fn exit(args: &ExplainArgs, standing: &PipelineStanding) -> Exit {
    let waits = |one: &EnvironmentStanding| {
        one.is_blocked() || (args.env.is_some() && matches!(one.result, StandingVerdict::NotReached { .. }))
    };
    if standing.environments.iter().any(EnvironmentStanding::is_failed) {
        Exit::Failed
    } else if standing.environments.iter().any(waits) {
        Exit::Refused
    } else {
        Exit::Done
    }
}
