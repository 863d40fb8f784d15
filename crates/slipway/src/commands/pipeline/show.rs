//! `slipway pipeline show` and `graph`: one pipeline with its environments, steps and gates.

use schemars::JsonSchema;
use serde::Serialize;
use slipway_promotion::view::{
    EnvironmentStanding, PipelineOverview, PipelineSurvey, StandingVerdict, age_text,
};

use crate::commands::promotion::{PolicyNamespaceFlags, connect, find_bundle, survey};
use crate::exit::Exit;
use crate::session::Session;
use crate::term::show;
use crate::term::table::Table;

#[derive(Debug, clap::Args)]
pub struct ShowArgs {
    /// The pipeline
    pipeline: String,

    /// The bundle to show, by name or version; the one under way unless given
    #[arg(long, value_name = "NAME")]
    bundle: Option<String>,

    #[command(flatten)]
    policy: PolicyNamespaceFlags,
}

/// A pipeline and how its environments stand.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "PipelineView")]
pub struct Shown {
    #[serde(flatten)]
    overview: PipelineOverview,
    standing: Vec<EnvironmentStanding>,
}

pub fn run(args: &ShowArgs, session: &Session) -> anyhow::Result<Exit> {
    session.block_on_reading(async {
        let place = connect(session).await?;
        let survey = survey(&place, &args.policy.settings(), &args.pipeline).await?;
        let bundle = args.bundle.as_deref().map(|wanted| find_bundle(&survey, wanted)).transpose()?;
        let shown = Shown {
            overview: PipelineOverview::new(&survey.pipeline, &survey.bundles, survey.freeze.as_ref()),
            standing: survey.standing(bundle).environments,
        };
        show::show(session.output(), &shown, |shown| text(shown, &survey))?;
        Ok(Exit::Done)
    })
}

fn text(shown: &Shown, survey: &PipelineSurvey) -> String {
    let overview = &shown.overview;
    let git = &survey.pipeline.spec.git;
    let phase = overview.phase.map_or_else(|| "not looked at yet".to_owned(), |phase| format!("{phase:?}"));
    let paused = survey.freeze.as_ref().map(|freeze| format!(" ({})", freeze.reason)).unwrap_or_default();
    let mut text = format!(
        "Pipeline:   {}\nNamespace:  {}\nPhase:      {phase}{paused}\nRepository: {} ({})\n\n",
        overview.name, overview.namespace, git.url, git.branch
    );
    if let Some(problem) = &overview.problem {
        text.push_str(&format!("{problem}\n\n"));
    }
    let mut table = Table::new(&["environment", "runs", "since", "type", "name", "state", "detail"]);
    for standing in &shown.standing {
        let known = overview.environments.iter().find(|one| one.name == standing.environment);
        let runs = known.and_then(|one| one.version.clone()).unwrap_or_else(|| "-".to_owned());
        let since = age_text(known.and_then(|one| one.since), survey.now);
        let mut place = Some((standing.environment.clone(), runs, since));
        let mut row = |kind: &str, name: String, state: String, detail: String| {
            let (environment, runs, since) = place.take().unwrap_or_default();
            table.row([environment, runs, since, kind.to_owned(), name, state, detail]);
        };
        for gate in &standing.gates {
            let eta = gate.eta.as_ref().map(|eta| format!(", ETA {eta}")).unwrap_or_default();
            row("gate", gate.name.clone(), format!("{:?}", gate.phase), format!("{}{eta}", gate.detail));
        }
        let version = standing.version.clone().unwrap_or_else(|| "-".to_owned());
        let detail = match &standing.result {
            StandingVerdict::Verified { .. } => String::new(),
            result => result.to_string(),
        };
        let state = survey_state(survey, standing);
        row("step", version, state, detail);
        for hold in standing.holds.iter().filter(|hold| hold.blocks()) {
            row("hold", hold.word().to_owned(), String::new(), hold.to_string());
        }
    }
    text + &table.render()
}

fn survey_state(survey: &PipelineSurvey, standing: &EnvironmentStanding) -> String {
    let steps = &standing.steps;
    let recorded = || {
        let bundle = survey.find_bundle(standing.bundle.as_deref()?)?;
        bundle.status.environments.get(&standing.environment)?.state
    };
    steps
        .first()
        .map(|step| step.state)
        .or_else(recorded)
        .map_or_else(|| "-".to_owned(), |state| format!("{state:?}"))
}

#[derive(Debug, clap::Args)]
pub struct GraphArgs {
    /// The pipeline
    pipeline: String,

    /// A bundle, by name or version, whose progress is drawn as well
    #[arg(long, value_name = "NAME")]
    bundle: Option<String>,

    /// The language of the drawing; `-o json` prints nodes and edges
    #[arg(long, value_name = "FORM", default_value = "text")]
    format: GraphFormat,

    #[command(flatten)]
    policy: PolicyNamespaceFlags,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum GraphFormat {
    Text,
    Dot,
    Mermaid,
}

pub fn graph(args: &GraphArgs, session: &Session) -> anyhow::Result<Exit> {
    session.block_on_reading(async {
        let place = connect(session).await?;
        let survey = survey(&place, &args.policy.settings(), &args.pipeline).await?;
        let bundle = args.bundle.as_deref().map(|wanted| find_bundle(&survey, wanted)).transpose()?;
        let diagram = survey.diagram(bundle);
        show::show(session.output(), &diagram, |diagram| match args.format {
            GraphFormat::Dot => diagram.dot(),
            GraphFormat::Mermaid => diagram.mermaid(),
            GraphFormat::Text => {
                let mut table = Table::new(&["node", "kind", "state", "after"]);
                for node in &diagram.nodes {
                    let after = diagram.edges.iter().filter(|edge| edge.to == node.id);
                    let after: Vec<&str> = after.map(|edge| edge.from.as_str()).collect();
                    let kind = format!("{:?}", node.kind).to_lowercase();
                    table.row([node.id.clone(), kind, node.state.clone(), after.join(", ")]);
                }
                table.render()
            }
        })?;
        Ok(Exit::Done)
    })
}
