//! `slipway pipeline init`: a pipeline from a few lines, or from answers.

use std::io::{BufRead as _, IsTerminal as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use schemars::JsonSchema;
use serde::Serialize;
use slipway_problem::{Problem, Problems};
use slipway_promotion::act::{PipelineConfig, graph_template, read_config, scaffold_files};
use slipway_promotion::kinds::{self, ApprovalMode, GateScope, Pipeline};
use slipway_promotion::view::applying_gates;

use crate::cli::Output;
use crate::commands::promotion::{PolicyNamespaceFlags, connect, explain, survey};
use crate::exit::{Exit, UsageError};
use crate::files;
use crate::session::Session;
use crate::term::{output, show};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "The file:\n  app: my-app\n  image: ghcr.io/myorg/my-app\n  git:\n    url: https://github.com/myorg/gitops-repo\n    \
                  secret: github-token\n  environments: [dev, staging, prod]\n  prodApproval: pr-review"
)]
pub struct InitArgs {
    /// File with the few lines, `-` for standard input; questions are asked without it
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    file: Option<PathBuf>,

    /// Print the Pipeline instead of creating it; needs no cluster
    #[arg(long)]
    stdout: bool,

    /// What to make: a Pipeline, or the Graph of one as a text to edit
    #[arg(long, value_name = "MODE", default_value = "pipeline", requires_if("graph", "from"))]
    mode: InitMode,

    /// With `--mode graph`: the pipeline whose Graph is printed
    #[arg(long, value_name = "PIPELINE", conflicts_with = "file")]
    from: Option<String>,

    /// Write the directories of the environments here; what exists stays
    #[arg(long, value_name = "DIR")]
    scaffold_gitops: Option<PathBuf>,

    #[command(flatten)]
    policy: PolicyNamespaceFlags,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum InitMode {
    Pipeline,
    /// A ConfigMap that bundles name with `--graph-template`
    Graph,
}

/// Prints the Graph of a pipeline of the cluster.
fn print_graph(args: &InitArgs, session: &Session, pipeline: &str) -> anyhow::Result<Exit> {
    session.block_on_reading(async {
        let place = connect(session).await?;
        let survey = survey(&place, &args.policy.settings(), pipeline).await?;
        let template = graph_template(&survey).map_err(|error| Problem::error(error.to_string()))?;
        print_object(&template, session)?;
        Ok(Exit::Done)
    })
}

/// A pipeline that was created.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CreatedPipeline<'a> {
    pipeline: &'a str,
    namespace: &'a str,
    environments: &'a [String],
    /// Gates of the organisation that apply to it.
    org_gates: &'a [String],
}

/// Prints an object that is created later: YAML unless JSON is asked for.
fn print_object(object: &impl Serialize, session: &Session) -> anyhow::Result<()> {
    let output = if session.output() == Output::Json { Output::Json } else { Output::Yaml };
    show::show(output, object, |_| String::new())
}

pub fn run(args: &InitArgs, session: &Session) -> anyhow::Result<Exit> {
    if let (InitMode::Graph, Some(pipeline)) = (args.mode, &args.from) {
        return print_graph(args, session, pipeline);
    }
    let config = match &args.file {
        Some(path) => {
            let text = files::read_text(path).map_err(Problems::from)?;
            read_config(&text.text, &text.name)?
        }
        None => ask_questions()?,
    };
    if args.stdout {
        let namespace = session.settings.namespace.value.clone().unwrap_or_else(|| "default".to_owned());
        let pipeline = config.pipeline(&namespace);
        scaffold(args, &pipeline, &config)?;
        print_object(&pipeline.manifest()?, session)?;
        return Ok(Exit::Done);
    }
    session.block_on(async {
        let place = connect(session).await?;
        let pipeline = config.pipeline(&place.namespace);
        let made = kinds::create(&place.cluster, &pipeline).await;
        let made = made.map_err(|error| match error.is_already_there() {
            true => Problem::error(format!("there is a pipeline `{}` already", pipeline.name()))
                .hint("`slipway pipeline show` shows it; `--stdout` prints what would be created")
                .into(),
            false => explain(error),
        })?;
        scaffold(args, &made, &config)?;
        let survey = survey(&place, &args.policy.settings(), made.name()).await?;
        let labels = &made.metadata.labels;
        let mut org: Vec<String> = Vec::new();
        for environment in survey.environment_names() {
            for (scope, gate) in
                applying_gates(&survey.templates, environment, labels, &survey.policy_namespaces)
            {
                if scope == GateScope::Org && !org.iter().any(|name| name == gate.name()) {
                    org.push(gate.name().to_owned());
                }
            }
        }
        let value = CreatedPipeline {
            pipeline: made.name(),
            namespace: made.namespace(),
            environments: &config.environments,
            org_gates: &org,
        };
        show::show(session.output(), &value, |_| {
            let count =
                |count: usize, one: &str| format!("{count} {one}{}", if count == 1 { "" } else { "s" });
            let gates = if org.is_empty() { String::new() } else { format!(": {}", org.join(", ")) };
            format!(
                "Pipeline \"{}\" created ({}: {})\n  {} will be injected{gates}\n\nNext: Add to your CI:\n  \
                 slipway bundle create {} --image {}:$TAG\n",
                made.name(),
                count(config.environments.len(), "environment"),
                config.environments.join(", "),
                count(org.len(), "org PolicyGate"),
                made.name(),
                config.image,
            )
        })?;
        Ok(Exit::Done)
    })
}

fn scaffold(args: &InitArgs, pipeline: &Pipeline, config: &PipelineConfig) -> anyhow::Result<()> {
    let Some(directory) = &args.scaffold_gitops else { return Ok(()) };
    for file in scaffold_files(pipeline, &config.image) {
        let path = directory.join(&file.path);
        if path.exists() {
            say!("{} exists already", path.display());
            continue;
        }
        std::fs::create_dir_all(path.parent().unwrap_or(Path::new(".")))
            .with_context(|| format!("create {}", path.display()))?;
        files::replace(&path, file.content.as_bytes())?;
        say!("wrote {}", path.display());
    }
    Ok(())
}

/// Asks for the few lines, each with a default.
fn ask_questions() -> anyhow::Result<PipelineConfig> {
    if !std::io::stdin().is_terminal() {
        let problem = Problem::error("there is nobody to ask: standard input is no terminal");
        return Err(UsageError(problem.hint("give the few lines with `-f FILE`").into()).into());
    }
    let ask = |question: &str, default: &str| -> anyhow::Result<String> {
        let shown = if default.is_empty() { String::new() } else { format!(" [{default}]") };
        output::message(&format!("{question}{shown}: "));
        let mut answer = String::new();
        std::io::stdin().lock().read_line(&mut answer).context("read the answer")?;
        let answer = answer.trim();
        Ok(if answer.is_empty() { default.to_owned() } else { answer.to_owned() })
    };
    let app = ask("Application", "my-app")?;
    let image = ask("Image", &format!("ghcr.io/myorg/{app}"))?;
    let git_url = ask("GitOps repository", "https://github.com/myorg/gitops-repo")?;
    let secret = ask("Secret with its token", "github-token")?;
    let environments = ask("Environments, in order", "dev, staging, prod")?;
    let approval = ask("Approval of the last one (auto, pr-review)", "pr-review")?;
    let config = PipelineConfig {
        app,
        image,
        git_url,
        git_secret: Some(secret).filter(|name| !name.is_empty()),
        environments: environments
            .split([',', ' '])
            .filter(|name| !name.is_empty())
            .map(str::to_owned)
            .collect(),
        prod_approval: match approval.as_str() {
            "auto" => ApprovalMode::Auto,
            "pr-review" => ApprovalMode::PrReview,
            other => return Err(Problem::error(format!("`{other}` is neither auto nor pr-review")).into()),
        },
        ..PipelineConfig::default()
    };
    config.check_answers()?;
    Ok(config)
}
