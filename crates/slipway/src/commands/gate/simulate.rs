//! `slipway gate simulate`: gates at another time, with other values, or on past promotions.

use std::collections::BTreeSet;
use std::path::PathBuf;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};
use slipway_problem::{Location, Problem};
use slipway_promotion::files::PromotionFiles;
use slipway_promotion::gate::{
    BundleContext, GateContext, GateEvaluator, ReplayedPromotion, SimulatedGate, Simulation, set_attribute,
    simulate,
};
use slipway_promotion::kinds::{GatePhase, GateScope, PolicyGate};
use slipway_promotion::view::{PipelineSurvey, applying_gates, read_windows, window_contexts};

use crate::commands::promotion::{
    PolicyNamespaceFlags, check_environment, connect, find_bundle, parse_moment, parse_pair, read_files,
    survey,
};
use crate::exit::{Exit, UsageError};
use crate::session::Session;
use crate::term::show;
use crate::term::table::Table;

#[derive(Debug, clap::Args)]
#[command(after_help = "Exit codes: 0 all gates pass, 15 a gate blocks, 1 an error.")]
pub struct SimulateArgs {
    /// Moment: `Saturday 3pm`, `+2h`, `2026-04-11T15:00:00Z`; now unless given
    #[arg(value_name = "WHEN")]
    when: Option<String>,

    /// The same as a flag
    #[arg(long, value_name = "WHEN", conflicts_with = "when")]
    time: Option<String>,

    /// Time zone of WHEN; UTC unless given
    #[arg(long, value_name = "ZONE")]
    tz: Option<String>,

    /// The pipeline whose gates are tried; those of files alone without one
    #[arg(long, value_name = "NAME", required_unless_present = "files")]
    pipeline: Option<String>,

    /// The environment
    #[arg(long, value_name = "NAME")]
    env: String,

    /// Gates from files, instead of those of the same name in the cluster
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    files: Vec<PathBuf>,

    /// The bundle, by name or version; the newest unless given
    #[arg(long, value_name = "NAME", requires = "pipeline")]
    bundle: Option<String>,

    /// Set an attribute: `bundle.labels.hotfix=true`; repeat for more
    #[arg(long, value_name = "PATH=VALUE", value_parser = parse_pair)]
    set: Vec<(String, String)>,

    /// Let a measurement have a value; repeat for more
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_pair)]
    metric: Vec<(String, String)>,

    /// Let the environments before be verified so many minutes ago
    #[arg(long, value_name = "N")]
    soak_minutes: Option<i64>,

    /// Hold the gates against the last N promotions into the environment instead
    #[arg(long, value_name = "N", requires = "pipeline", conflicts_with_all = ["when", "time", "bundle"])]
    from_history: Option<usize>,

    #[command(flatten)]
    policy: PolicyNamespaceFlags,
}

pub fn run(args: &SimulateArgs, session: &Session) -> anyhow::Result<Exit> {
    let now = Timestamp::now();
    let when = args.when.as_deref().or(args.time.as_deref());
    let at = when.map(|text| parse_moment(text, args.tz.as_deref(), now)).transpose()?.unwrap_or(now);
    let read = read_files(&args.files)?;
    let Some(pipeline) = &args.pipeline else {
        check_known(&read, &args.env)?;
        let context = GateContext::new(BundleContext::default(), &args.env, at);
        let windows = window_contexts(&read.windows);
        let context = GateContext { windows, ..context };
        return try_gates(args, session, &read.gates, context);
    };
    session.block_on_reading(async {
        let place = connect(session).await?;
        let survey = survey(&place, &args.policy.settings(), pipeline).await?;
        check_environment(&survey, &args.env)?;
        let gates = merged_gates(&survey, &read);
        let mut windows = read_windows(&place.cluster).await.map_err(crate::commands::promotion::explain)?;
        windows.extend(window_contexts(&read.windows));
        if let Some(count) = args.from_history {
            let replayed = survey.replay(&gates, &args.env, &windows, count);
            return show_replay(session, &replayed);
        }
        let bundle = match &args.bundle {
            Some(wanted) => Some(find_bundle(&survey, wanted)?),
            None => survey.bundles.first(),
        };
        let context = match bundle {
            Some(bundle) => survey.trial_context(bundle, &args.env, &windows, at),
            None => GateContext { windows, ..GateContext::new(BundleContext::default(), &args.env, at) },
        };
        let labels = &survey.pipeline.metadata.labels;
        let names = args.policy.names();
        let applying: Vec<PolicyGate> = applying_gates(&gates, &args.env, labels, &names)
            .into_iter()
            .map(|(_, gate)| gate.clone())
            .collect();
        try_gates(args, session, &applying, context)
    })
}

/// Refuses an environment that no pipeline of the files has; files without a pipeline may be about any.
fn check_known(read: &PromotionFiles, env: &str) -> anyhow::Result<()> {
    let environments = read.pipelines.iter().flat_map(|pipeline| &pipeline.spec.environments);
    let names: BTreeSet<&str> = environments.map(|environment| environment.name.as_str()).collect();
    if names.is_empty() || names.contains(env) {
        return Ok(());
    }
    let known = Vec::from_iter(names.iter().copied()).join(", ");
    let problem = Problem::error(format!("no pipeline of the files has an environment `{env}`"));
    let problem = problem.did_you_mean(env, names);
    Err(if problem.hint.is_some() { problem } else { problem.hint(format!("there are: {known}")) }.into())
}

/// The gates of the cluster, with those of files in the place of their namesakes.
fn merged_gates(survey: &PipelineSurvey, read: &PromotionFiles) -> Vec<PolicyGate> {
    let is_replaced = |gate: &PolicyGate| read.gates.iter().any(|new| new.name() == gate.name());
    let mut gates: Vec<PolicyGate> =
        survey.templates.iter().filter(|gate| !is_replaced(gate)).cloned().collect();
    gates.extend(read.gates.iter().cloned().map(|mut gate| {
        if gate.metadata.namespace.is_empty() {
            let known = survey.templates.iter().find(|known| known.name() == gate.name());
            let namespace = known.map_or(survey.pipeline.namespace(), |known| known.namespace());
            gate.metadata.namespace = namespace.to_owned();
        }
        gate
    }));
    gates
}

fn try_gates(
    args: &SimulateArgs,
    session: &Session,
    gates: &[PolicyGate],
    mut context: GateContext,
) -> anyhow::Result<Exit> {
    let soak =
        args.soak_minutes.map(|minutes| ("bundle.upstreamSoakMinutes".to_owned(), minutes.to_string()));
    let metrics = args.metric.iter().map(|(name, value)| (format!("metrics.{name}"), value.clone()));
    for (path, value) in args.set.iter().cloned().chain(metrics).chain(soak) {
        set_attribute(&mut context, &path, &value).map_err(|error| {
            UsageError(Problem::error(error.to_string()).at(Location::file("--set")).into())
        })?;
    }
    let names = args.policy.names();
    let applying = applying_gates(gates, &args.env, &context.pipeline.labels, &names);
    let simulation = simulate(&GateEvaluator::new(), &applying, &context);
    show::show(session.output(), &simulation_view(&simulation), |_| {
        if simulation.gates.is_empty() {
            format!("no gate applies to {}\nRESULT: PASS\n", args.env)
        } else {
            simulation.to_string()
        }
    })?;
    Ok(if simulation.is_open() { Exit::Done } else { Exit::Refused })
}

/// The gates of an environment at one moment.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SimulationView {
    at: Timestamp,
    open: bool,
    next_window: Option<Timestamp>,
    gates: Vec<SimulatedGateView>,
}

/// A gate and what it would say.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "SimulatedGate")]
struct SimulatedGateView {
    name: String,
    scope: GateScope,
    phase: GatePhase,
    reason: String,
    /// The attributes its expression read.
    values: Map<String, Value>,
    message: String,
    eta: Option<Timestamp>,
}

/// An earlier promotion, tried with the gates of today.
#[derive(Serialize, JsonSchema)]
pub struct ReplayedView {
    #[serde(flatten)]
    simulation: SimulationView,
    bundle: String,
    version: String,
}

fn simulation_view(simulation: &Simulation) -> SimulationView {
    let gate = |gate: &SimulatedGate| SimulatedGateView {
        name: gate.name.clone(),
        scope: gate.scope,
        phase: gate.outcome.phase,
        reason: gate.outcome.reason.clone(),
        values: gate.outcome.value_map(),
        message: gate.message.clone(),
        eta: gate.outcome.eta.as_ref().map(|eta| eta.at),
    };
    SimulationView {
        at: simulation.now,
        open: simulation.is_open(),
        next_window: simulation.next_window,
        gates: simulation.gates.iter().map(gate).collect(),
    }
}

fn show_replay(session: &Session, replayed: &[ReplayedPromotion]) -> anyhow::Result<Exit> {
    let view = |one: &ReplayedPromotion| ReplayedView {
        simulation: simulation_view(&one.simulation),
        bundle: one.bundle.clone(),
        version: one.version.clone(),
    };
    let value: Vec<ReplayedView> = replayed.iter().map(view).collect();
    let stopped = replayed.iter().filter(|one| !one.simulation.is_open()).count();
    show::show(session.output(), &value, |_| {
        let mut table = Table::new(&["bundle", "version", "promoted at", "result", "why"]);
        for one in replayed {
            let why: Vec<String> = one
                .simulation
                .blocking()
                .map(|gate| format!("{}: {}", gate.name, gate.outcome.reason))
                .collect();
            table.row([
                one.bundle.clone(),
                one.version.clone(),
                one.at.strftime("%a %Y-%m-%d %H:%M").to_string(),
                if one.simulation.is_open() { "PASS" } else { "BLOCKED" }.to_owned(),
                why.join("; "),
            ]);
        }
        format!("{}\n{stopped} of {} promotions would have been stopped\n", table.render(), replayed.len())
    })?;
    Ok(if stopped == 0 { Exit::Done } else { Exit::Refused })
}
