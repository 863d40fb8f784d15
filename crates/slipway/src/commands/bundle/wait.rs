//! `slipway bundle wait`, and `--wait` of the commands that create bundles.

use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::Serialize;
use slipway_problem::Problem;
use slipway_promotion::kinds::{self, BundlePhase, BundleSpec};
use slipway_promotion::view::{BundleReach, bundle_reach};

use crate::commands::promotion::{Place, connect, explain};
use crate::commands::release::flags::time;
use crate::exit::{Exit, InterruptedError};
use crate::interrupt;
use crate::session::Session;
use crate::term::show;

/// The time between two looks at the bundle.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Waiting for what was created.
#[derive(Debug, clap::Args)]
pub struct WaitFlags {
    /// Wait until it is verified in an environment, or everywhere
    #[arg(long, value_name = "ENV", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    wait: Option<String>,

    /// Time limit for `--wait`
    #[arg(long, value_name = "DURATION", value_parser = time, default_value = "1h")]
    timeout: Duration,
}

impl WaitFlags {
    pub fn environment(&self) -> Option<&str> {
        self.wait.as_deref().filter(|name| !name.is_empty())
    }
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit codes: 0 it is there, 15 the time is over and it still waits, 1 it failed or was superseded."
)]
pub struct WaitArgs {
    /// The bundle
    bundle: String,

    /// The environment; everywhere it is meant for unless given
    #[arg(long, value_name = "NAME")]
    env: Option<String>,

    /// Time limit
    #[arg(long, value_name = "DURATION", value_parser = time, default_value = "1h")]
    timeout: Duration,
}

pub fn run(args: &WaitArgs, session: &Session) -> anyhow::Result<Exit> {
    session.block_on_reading(async {
        let place = connect(session).await?;
        let waited = wait_until(&place, &args.bundle, args.env.as_deref(), args.timeout).await?;
        let (outcome, phase, reason) = match &waited {
            Waited::Reached => ("verified", None, None),
            Waited::Ended { phase, reason } => ("ended", Some(*phase), Some(reason.as_str())),
            Waited::UnderWay => ("underWay", None, None),
        };
        let (bundle, environment) = (args.bundle.as_str(), args.env.as_deref());
        let view = AwaitedBundle { bundle, environment, outcome, phase, reason };
        show::show(session.output(), &view, |_| String::new())?;
        Ok(waited.exit())
    })
}

/// A bundle that was waited for.
#[derive(Serialize, JsonSchema)]
pub struct AwaitedBundle<'a> {
    bundle: &'a str,
    environment: Option<&'a str>,
    /// `verified`, `ended` without being verified, or `underWay` when the time was over.
    outcome: &'static str,
    /// The phase it ended in.
    phase: Option<BundlePhase>,
    reason: Option<&'a str>,
}

/// The end of waiting.
enum Waited {
    Reached,
    Ended { phase: BundlePhase, reason: String },
    UnderWay,
}

impl Waited {
    fn exit(&self) -> Exit {
        match self {
            Self::Reached => Exit::Done,
            Self::Ended { .. } => Exit::Failed,
            Self::UnderWay => Exit::Refused,
        }
    }
}

/// Waits as flags say; at once where they say nothing.
pub async fn wait_for(
    place: &Place,
    bundle: &str,
    environment: Option<&str>,
    flags: &WaitFlags,
) -> anyhow::Result<Exit> {
    match &flags.wait {
        None => Ok(Exit::Done),
        Some(_) => {
            let environment = flags.environment().or(environment);
            Ok(wait_until(place, bundle, environment, flags.timeout).await?.exit())
        }
    }
}

async fn wait_until(
    place: &Place,
    name: &str,
    environment: Option<&str>,
    timeout: Duration,
) -> anyhow::Result<Waited> {
    let end = Instant::now() + timeout;
    let place_words = environment.map(|name| format!(" in {name}")).unwrap_or_default();
    loop {
        let found =
            kinds::get::<BundleSpec>(&place.cluster, &place.namespace, name).await.map_err(explain)?;
        let Some(bundle) = found else {
            let problem =
                Problem::error(format!("there is no bundle `{name}` in namespace {}", place.namespace));
            return Err(problem.hint("`slipway bundle list` shows what there is").into());
        };
        match bundle_reach(&bundle, environment) {
            BundleReach::Reached => {
                say!("{name} is verified{place_words}");
                return Ok(Waited::Reached);
            }
            BundleReach::Ended { phase, reason } => {
                say!("{name} is {phase:?}{place_words}: {reason}");
                return Ok(Waited::Ended { phase, reason });
            }
            BundleReach::UnderWay if Instant::now() >= end => {
                let pipeline = bundle.pipeline().unwrap_or_default();
                say!("{name} is not there{place_words} yet; `slipway pipeline explain {pipeline}` says why");
                return Ok(Waited::UnderWay);
            }
            BundleReach::UnderWay => {}
        }
        let rest = end.saturating_duration_since(Instant::now()).min(LOOK_EVERY);
        if interrupt::stopping().run_until_cancelled(tokio::time::sleep(rest)).await.is_none() {
            return Err(InterruptedError.into());
        }
    }
}
