//! `slipway bundle create`: a version to promote.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use slipway_problem::{Location, Problem, Problems};
use slipway_promotion::act::{BundlePreview, NewBundle, parse_image, preview_bundle};
use slipway_promotion::kinds::{self, BundleType, GitCommit, Intent, Provenance};

use super::wait::{WaitFlags, wait_for};
use crate::commands::promotion::{PolicyNamespaceFlags, connect, explain, parse_pair, survey};
use crate::exit::{Exit, UsageError};
use crate::help::Usual;
use crate::session::Session;
use crate::term::show;
use crate::term::table::Table;

#[derive(Debug, clap::Args)]
pub struct CreateArgs {
    /// The pipeline
    pipeline: String,

    /// Image: `repository:tag`, with `name=` before and `@sha256:…` behind; repeat for more
    #[arg(long, value_name = "IMAGE")]
    image: Vec<String>,

    /// Artifacts the bundle has; told by the other flags unless given
    #[arg(long = "type", value_name = "TYPE")]
    kind: Option<BundleKind>,

    /// Repository of the configuration commit
    #[arg(long, value_name = "URL", requires = "git_sha")]
    git_repo: Option<String>,

    /// Configuration commit
    #[arg(long, value_name = "SHA", requires = "git_repo")]
    git_sha: Option<String>,

    /// Message of the configuration commit
    #[arg(long, value_name = "TEXT", requires = "git_sha")]
    git_message: Option<String>,

    /// Directory of the configuration commit
    #[arg(long, value_name = "PATH", requires = "git_sha")]
    git_path: Option<String>,

    /// Source commit the images were built from
    #[arg(long, value_name = "SHA")]
    commit: Option<String>,

    /// Page of the CI run
    #[arg(long, value_name = "URL")]
    ci_run: Option<String>,

    /// Author of the change
    #[arg(long, value_name = "NAME")]
    author: Option<String>,

    /// Label that gates may read; repeat for more
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_pair)]
    label: Vec<(String, String)>,

    /// Last environment; all unless given
    #[arg(long, value_name = "ENV")]
    target: Option<String>,

    /// First environment
    #[arg(long, value_name = "ENV")]
    from: Option<String>,

    /// Environment to leave out, where policy allows it; repeat for more
    #[arg(long, value_name = "ENV")]
    skip: Vec<String>,

    /// Keep it from being superseded by newer bundles
    #[arg(long)]
    pin: bool,

    /// ConfigMap with the Graph to use, as `pipeline init --mode graph` prints it
    #[arg(long, value_name = "NAME")]
    graph_template: Option<String>,

    /// Name; made from pipeline, version and time unless given
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// Only show what would be promoted where, through which gates
    #[arg(long, add = Usual)]
    dry_run: bool,

    #[command(flatten)]
    wait: WaitFlags,

    #[command(flatten)]
    policy: PolicyNamespaceFlags,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum BundleKind {
    Image,
    Config,
    Mixed,
}

impl CreateArgs {
    /// The request; everything that is wrong with the flags at once.
    fn request(&self, namespace: &str) -> Result<NewBundle, Problems> {
        let mut problems = Problems::new();
        let mut wrong = |flag: &str, message: String, hint: &str| {
            let problem = Problem::error(message).at(Location::file(flag.to_owned()));
            problems.push(if hint.is_empty() { problem } else { problem.hint(hint) });
        };
        let mut images = Vec::new();
        for text in &self.image {
            match parse_image(text) {
                Ok(image) => images.push(image),
                Err(error) => wrong("--image", error.to_string(), ""),
            }
        }
        let is_sha = |sha: &String| {
            (7..=64).contains(&sha.len())
                && sha.chars().all(|c| c.is_ascii_digit() || ('a'..='f').contains(&c))
        };
        for (flag, sha) in [("--git-sha", &self.git_sha)] {
            if let Some(sha) = sha.as_ref().filter(|sha| !is_sha(sha)) {
                wrong(flag, format!("`{sha}` is no commit"), "7 to 64 hexadecimal digits");
            }
        }
        let needs_images = matches!(self.kind, Some(BundleKind::Image | BundleKind::Mixed))
            || (self.kind.is_none() && self.git_sha.is_none());
        if needs_images && self.image.is_empty() {
            wrong(
                "--image",
                "the bundle has no image".to_owned(),
                "such as `--image ghcr.io/myorg/my-app:1.29.0`",
            );
        }
        let needs_commit = matches!(self.kind, Some(BundleKind::Config | BundleKind::Mixed));
        if needs_commit && self.git_sha.is_none() {
            wrong(
                "--git-sha",
                "the bundle has no configuration commit".to_owned(),
                "set `--git-repo` and `--git-sha`",
            );
        }
        let git_commit = self.git_repo.clone().zip(self.git_sha.clone()).map(|(repository, sha)| GitCommit {
            repository,
            sha,
            message: self.git_message.clone(),
            path: self.git_path.clone(),
            secret_ref: None,
        });
        let request = NewBundle {
            pipeline: self.pipeline.clone(),
            namespace: namespace.to_owned(),
            name: self.name.clone(),
            kind: self.kind.map(|kind| match kind {
                BundleKind::Image => BundleType::Image,
                BundleKind::Config => BundleType::Config,
                BundleKind::Mixed => BundleType::Mixed,
            }),
            images,
            git_commit,
            provenance: Provenance {
                commit_sha: self.commit.clone(),
                ci_run_url: self.ci_run.clone(),
                author: self.author.clone(),
                ..Provenance::default()
            },
            intent: Intent { target: self.target.clone(), skip: self.skip.clone(), from: self.from.clone() },
            labels: self.label.iter().cloned().collect(),
            is_pinned: self.pin,
        };
        problems.into_result(request)
    }
}

/// A bundle that was created.
#[derive(Serialize, JsonSchema)]
pub struct CreatedBundle<'a> {
    name: &'a str,
    namespace: &'a str,
    pipeline: &'a str,
    version: String,
}

pub fn run(args: &CreateArgs, session: &Session) -> anyhow::Result<Exit> {
    args.request("").map_err(UsageError)?;
    session.block_on(async {
        let place = connect(session).await?;
        let now = Timestamp::now();
        let mut bundle = args.request(&place.namespace).map_err(UsageError)?.into_bundle(now);
        if let Some(name) = &args.graph_template {
            bundle.metadata.annotations.insert(kinds::labels::GRAPH_TEMPLATE.to_owned(), name.clone());
        }
        let survey = survey(&place, &args.policy.settings(), &args.pipeline).await?;
        // What the controller would refuse is refused here, before anything is created.
        let preview =
            preview_bundle(&survey, &bundle, now).map_err(|error| Problem::error(error.to_string()))?;
        if args.dry_run {
            show::show(session.output(), &preview, preview_text)?;
            return Ok(if preview.denied_skips.is_empty() { Exit::Done } else { Exit::Refused });
        }
        let made = kinds::create(&place.cluster, &bundle).await.map_err(explain)?;
        let value = CreatedBundle {
            name: made.name(),
            namespace: made.namespace(),
            pipeline: &args.pipeline,
            version: made.spec.version(),
        };
        show::show(session.output(), &value, |_| {
            format!(
                "Bundle \"{}\" created\n  slipway pipeline explain {} --watch\n",
                made.name(),
                args.pipeline
            )
        })?;
        let environment = args.wait.environment().map(str::to_owned);
        wait_for(&place, made.name(), environment.as_deref(), &args.wait).await
    })
}

fn preview_text(preview: &BundlePreview) -> String {
    let mut table = Table::new(&["environment", "after", "gates", "steps"]);
    for environment in &preview.environments {
        let gates =
            environment.gates.iter().map(|gate| format!("{} [{:?}]", gate.name, gate.scope).to_lowercase());
        table.row([
            environment.name.clone(),
            environment.after.join(", "),
            gates.collect::<Vec<_>>().join(", "),
            environment.steps.join(", "),
        ]);
    }
    let denied: String = preview.denied_skips.iter().map(|text| format!("denied: {text}\n")).collect();
    format!(
        "Bundle {} ({}): {} nodes\n\n{}{denied}",
        preview.bundle,
        preview.version,
        preview.nodes,
        table.render()
    )
}
