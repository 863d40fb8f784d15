//! `slipway gate list|explain|override`: the gates of a cluster.

use std::time::Duration;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use slipway_cluster::{ErrorClass, ListOptions};
use slipway_problem::{Problem, nearest_name};
use slipway_promotion::act::{GateOverrideRequest, find_user};
use slipway_promotion::gate::{GateEvaluator, GateLine};
use slipway_promotion::kinds::{self, GateOverride, GatePhase, KindError, PolicyGate, PolicyGateSpec};
use slipway_promotion::view::{GateOverview, age_text};

use crate::commands::promotion::{Place, PolicyNamespaceFlags, connect, explain};
use crate::commands::release::flags::time;
use crate::exit::Exit;
use crate::session::Session;
use crate::term::show;
use crate::term::table::Table;

#[derive(Debug, clap::Args)]
pub struct ListArgs {
    #[command(flatten)]
    policy: PolicyNamespaceFlags,
}

/// All gates that may be read: of all namespaces, else of one's own and the policy namespaces.
async fn read_gates(place: &Place, policy: &PolicyNamespaceFlags) -> anyhow::Result<Vec<PolicyGate>> {
    let all = ListOptions::default();
    match kinds::list::<PolicyGateSpec>(&place.cluster, None, &all).await {
        Err(KindError::Cluster(error)) if error.class == ErrorClass::Forbidden => {}
        found => return found.map_err(explain),
    }
    let mut found = Vec::new();
    let mut namespaces = policy.names();
    namespaces.insert(place.namespace.clone());
    for namespace in namespaces {
        match kinds::list::<PolicyGateSpec>(&place.cluster, Some(&namespace), &all).await {
            Ok(gates) => found.extend(gates),
            Err(KindError::Cluster(error)) if error.class == ErrorClass::Forbidden => {
                say!("warning: you may not list gates in namespace {namespace}");
            }
            Err(error) => return Err(explain(error)),
        }
    }
    Ok(found)
}

pub fn run(args: &ListArgs, session: &Session) -> anyhow::Result<Exit> {
    session.block_on_reading(async {
        let place = connect(session).await?;
        let (names, now) = (args.policy.names(), Timestamp::now());
        let gates = read_gates(&place, &args.policy).await?;
        let templates = gates.iter().filter(|gate| !gate.is_instance());
        let mut rows: Vec<GateOverview> =
            templates.map(|gate| GateOverview::new(gate, &names, now)).collect();
        rows.sort_by(|one, two| {
            (one.scope, &one.namespace, &one.name).cmp(&(two.scope, &two.namespace, &two.name))
        });
        show::show(session.output(), &rows, |rows| {
            let mut table = Table::new(&[
                "name",
                "namespace",
                "scope",
                "type",
                "applies-to",
                "recheck",
                "ready",
                "overrides",
            ]);
            for row in rows {
                let ready = match (row.compiled, &row.problem) {
                    (_, Some(problem)) => format!("no: {problem}"),
                    (Some(_), None) => "yes".to_owned(),
                    (None, None) => "-".to_owned(),
                };
                table.row([
                    row.name.clone(),
                    row.namespace.clone(),
                    format!("{:?}", row.scope).to_lowercase(),
                    row.kind.to_owned(),
                    row.applies_to.join(","),
                    row.recheck_interval.clone(),
                    ready,
                    row.overrides.to_string(),
                ]);
            }
            if rows.is_empty() { "there are no gates\n".to_owned() } else { table.render() }
        })?;
        Ok(Exit::Done)
    })
}

/// Finds a template by `name` or `namespace/name`.
fn find_template<'g>(gates: &'g [PolicyGate], wanted: &str) -> anyhow::Result<&'g PolicyGate> {
    let (namespace, name) = match wanted.split_once('/') {
        Some((namespace, name)) => (Some(namespace), name),
        None => (None, wanted),
    };
    let templates = || gates.iter().filter(|gate| !gate.is_instance());
    let fits =
        |gate: &&PolicyGate| gate.name() == name && namespace.is_none_or(|one| gate.namespace() == one);
    let found: Vec<&PolicyGate> = templates().filter(fits).collect();
    match found[..] {
        [one] => Ok(one),
        [] => {
            let problem = Problem::error(format!("there is no gate `{wanted}`"));
            Err(match nearest_name(name, templates().map(PolicyGate::name)) {
                Some(nearest) => problem.hint(format!("did you mean `{nearest}`?")),
                None => problem.hint("`slipway gate list` shows what there is"),
            }
            .into())
        }
        _ => {
            let names: Vec<String> =
                found.iter().map(|gate| format!("{}/{name}", gate.namespace())).collect();
            Err(Problem::error(format!("several gates are named `{name}`")).hint(names.join(", ")).into())
        }
    }
}

#[derive(Debug, clap::Args)]
pub struct ExplainArgs {
    /// The gate: `name`, or `namespace/name`
    gate: String,

    #[command(flatten)]
    policy: PolicyNamespaceFlags,
}

/// A gate and the bundles that stand before it.
#[derive(Serialize, JsonSchema)]
pub struct GateExplanation<'a> {
    #[serde(flatten)]
    overview: &'a GateOverview,
    instances: Vec<GateInstance>,
}

/// A gate that belongs to one bundle.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct GateInstance {
    pipeline: Option<String>,
    environment: Option<String>,
    bundle: Option<String>,
    phase: GatePhase,
    detail: String,
    eta: Option<String>,
    blocked_since: Option<Timestamp>,
}

/// A gate that was overridden.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OverriddenGate<'a> {
    gate: &'a str,
    namespace: &'a str,
    #[serde(rename = "override")]
    entry: &'a GateOverride,
}

pub fn explain_gate(args: &ExplainArgs, session: &Session) -> anyhow::Result<Exit> {
    session.block_on_reading(async {
        let place = connect(session).await?;
        let (names, now) = (args.policy.names(), Timestamp::now());
        let gates = read_gates(&place, &args.policy).await?;
        let template = find_template(&gates, &args.gate)?;
        let overview = GateOverview::new(template, &names, now);
        let evaluator = GateEvaluator::new();
        let is_own = |gate: &&PolicyGate| {
            let of = gate.spec.template_ref.as_ref();
            of.is_some_and(|of| of.name == template.name() && of.namespace == template.namespace())
        };
        let instances: Vec<(&PolicyGate, GateLine)> = gates
            .iter()
            .filter(is_own)
            .map(|gate| (gate, GateLine::from_status(gate, &evaluator, now)))
            .collect();
        let shown = |(gate, line): &(&PolicyGate, GateLine)| GateInstance {
            pipeline: gate.spec.pipeline.clone(),
            environment: gate.spec.environment.clone(),
            bundle: gate.spec.bundle_ref.clone(),
            phase: line.phase,
            detail: line.detail.clone(),
            eta: line.eta.clone(),
            blocked_since: gate.status.first_blocked_at,
        };
        let value = GateExplanation { overview: &overview, instances: instances.iter().map(shown).collect() };
        show::show(session.output(), &value, |_| {
            let mut text = format!(
                "Gate:       {}/{}\nScope:      {}\nType:       {}\nApplies to: {}\nExpression: {}\n",
                overview.namespace,
                overview.name,
                format!("{:?}", overview.scope).to_lowercase(),
                overview.kind,
                overview.applies_to.join(", "),
                overview.expression,
            );
            if !overview.message.is_empty() {
                text.push_str(&format!("Message:    {}\n", overview.message));
            }
            if let Some(problem) = &overview.problem {
                text.push_str(&format!("Problem:    {problem}\n"));
            }
            for one in &template.spec.overrides {
                let until = one.expires_at.map(|at| format!(" until {at}")).unwrap_or_default();
                let by = one.created_by.as_deref().unwrap_or("somebody");
                text.push_str(&format!("Overridden: by {by}{until}: {}\n", one.reason));
            }
            let mut table = Table::new(&["pipeline", "env", "bundle", "state", "blocked for", "detail"]);
            for (gate, line) in &instances {
                let blocked = if gate.status.ready { None } else { gate.status.first_blocked_at };
                let eta = line.eta.as_ref().map(|eta| format!(", ETA {eta}")).unwrap_or_default();
                table.row([
                    gate.spec.pipeline.clone().unwrap_or_default(),
                    gate.spec.environment.clone().unwrap_or_default(),
                    gate.spec.bundle_ref.clone().unwrap_or_default(),
                    format!("{:?}", line.phase),
                    age_text(blocked, now),
                    format!("{}{eta}", line.detail),
                ]);
            }
            if instances.is_empty() {
                text + "\nno bundle stands before it\n"
            } else {
                format!("{text}\n{}", table.render())
            }
        })?;
        Ok(Exit::Done)
    })
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "An override is an entry of the gate's `spec.overrides`: who may write the gate may override it."
)]
pub struct OverrideArgs {
    /// The gate: `name`, or `namespace/name`
    gate: String,

    /// Why; shown wherever the gate is
    #[arg(long, value_name = "TEXT")]
    reason: String,

    /// The pipeline it is for; an org gate opens for every team without it
    #[arg(long, value_name = "NAME", required_unless_present = "all_pipelines")]
    pipeline: Option<String>,

    /// For every pipeline
    #[arg(long, conflicts_with = "pipeline")]
    all_pipelines: bool,

    /// Only this environment
    #[arg(long, value_name = "NAME")]
    env: Option<String>,

    /// Only this bundle
    #[arg(long, value_name = "NAME")]
    bundle: Option<String>,

    /// How long it holds
    #[arg(long, value_name = "DURATION", value_parser = time, default_value = "1h")]
    expires_in: Duration,

    #[command(flatten)]
    policy: PolicyNamespaceFlags,
}

pub fn override_gate(args: &OverrideArgs, session: &Session) -> anyhow::Result<Exit> {
    session.block_on(async {
        let place = connect(session).await?;
        let gates = read_gates(&place, &args.policy).await?;
        let gate = find_template(&gates, &args.gate)?;
        let request = GateOverrideRequest {
            reason: args.reason.clone(),
            pipeline: args.pipeline.clone(),
            environment: args.env.clone(),
            bundle: args.bundle.clone(),
            expires_in: args.expires_in,
            by: find_user(&place.cluster).await,
        };
        let entry =
            slipway_promotion::act::override_gate(&place.cluster, gate, &request, Timestamp::now()).await?;
        let until =
            entry.expires_at.map(|at| at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()).unwrap_or_default();
        let value = OverriddenGate { gate: gate.name(), namespace: gate.namespace(), entry: &entry };
        show::show(session.output(), &value, |_| {
            format!("PolicyGate \"{}\" is overridden until {until}\n", gate.name())
        })?;
        Ok(Exit::Done)
    })
}
