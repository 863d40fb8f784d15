//! `slipway pipeline rehearse`: a whole promotion in simulated time, with nothing installed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use jiff::Timestamp;
use slipway_git::LocalFile;
use slipway_problem::{Location, Problem, Problems};
use slipway_promotion::act::{NewBundle, parse_image};
use slipway_promotion::files::PromotionFiles;
use slipway_promotion::kinds::{Bundle, ImageArtifact, Intent, Pipeline, PolicyGate};
use slipway_rehearsal::{ApprovalDelay, PipelineRehearsal, RehearsalEnd, rehearse_pipeline};

use crate::commands::promotion::{
    PolicyNamespaceFlags, connect, parse_moment, parse_pair, read_files, survey,
};
use crate::commands::release::flags::time;
use crate::exit::{Exit, UsageError};
use crate::files;
use crate::session::Session;
use crate::term::show;

/// The pipeline and gates that are played when none are named.
pub const EXAMPLE: &str = include_str!("../../../../../examples/promotion/pipeline.yaml");
/// The largest directory that is taken into a rehearsal.
const MOST_FILES: usize = 10_000;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "The real controller carries out the real steps on an embedded cluster, a bare Git repository, pull \
                  requests without a server and a GitOps tool of a few lines; the clock jumps from one moment to the \
                  next at which something is due. Nothing outside is read or written, and the same question has the \
                  same answer.\n\nExit codes: 0 the version arrives, 1 it fails, 15 it still waits when the time is \
                  over."
)]
pub struct RehearseArgs {
    /// The pipeline: one of the files, or of the cluster where no files are given
    pipeline: Option<String>,

    /// File or directory with the pipeline, gates, windows and templates; an example is played without one
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Directory with the GitOps files; scaffolded ones unless given
    #[arg(long, value_name = "DIR")]
    gitops: Option<PathBuf>,

    /// Image of the bundle: `[name=]repository:tag`; repeat for more
    #[arg(long, value_name = "IMAGE")]
    image: Vec<String>,

    /// Label of the bundle that gates may read; repeat for more
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_pair)]
    label: Vec<(String, String)>,

    /// Last environment of the bundle
    #[arg(long, value_name = "ENV")]
    target: Option<String>,

    /// Environment the bundle leaves out; repeat for more
    #[arg(long, value_name = "ENV")]
    skip: Vec<String>,

    /// Moment the bundle is created: `Friday 16:00`, `+2h`, `2026-04-10T16:00:00Z`; now unless given
    #[arg(long, value_name = "WHEN")]
    at: Option<String>,

    /// Time zone of --at; UTC unless given
    #[arg(long, value_name = "ZONE")]
    tz: Option<String>,

    /// Time people take to approve a pull request: `2h`, or `prod=2h`; repeat for more
    #[arg(long, value_name = "[ENV=]DURATION", value_parser = parse_approval)]
    approve_after: Vec<(Option<String>, Duration)>,

    /// Environment in which the version never gets well; repeat for more
    #[arg(long, value_name = "ENV")]
    unhealthy: Vec<String>,

    /// Environment whose pull request is closed instead of merged; repeat for more
    #[arg(long, value_name = "ENV")]
    close_pr: Vec<String>,

    /// Gate that is open whatever it says, such as one on metrics; repeat for more
    #[arg(long, value_name = "NAME")]
    pass_gate: Vec<String>,

    /// Simulated time after which it ends
    #[arg(long, value_name = "DURATION", value_parser = time, default_value = "30d")]
    limit: Duration,

    #[command(flatten)]
    policy: PolicyNamespaceFlags,
}

fn parse_approval(text: &str) -> Result<(Option<String>, Duration), String> {
    match text.split_once('=') {
        Some((environment, length)) => Ok((Some(environment.to_owned()), time(length)?)),
        None => Ok((None, time(text)?)),
    }
}

pub fn run(args: &RehearseArgs, session: &Session) -> anyhow::Result<Exit> {
    let now = Timestamp::now();
    let start = match &args.at {
        Some(text) => parse_moment(text, args.tz.as_deref(), now)?,
        None => now,
    };
    session.block_on_reading(async {
        let (pipeline, files) = match (&args.pipeline, args.files.is_empty()) {
            (_, false) => from_files(args, read_files(&args.files)?)?,
            (Some(name), true) => from_cluster(args, session, name).await?,
            (None, true) => {
                let mut read = PromotionFiles::default();
                read.read(EXAMPLE, "examples/promotion/pipeline.yaml")?;
                from_files(args, read)?
            }
        };
        let request = request(args, pipeline, files, start)?;
        let timeline = rehearse_pipeline(&request).await?;
        show::show(session.output(), &timeline, ToString::to_string)?;
        Ok(match timeline.end {
            RehearsalEnd::Reached => Exit::Done,
            RehearsalEnd::Failed { .. } => Exit::Failed,
            RehearsalEnd::Refused { .. } | RehearsalEnd::Waiting { .. } => Exit::Refused,
        })
    })
}

/// The one pipeline of files, or the one named.
fn from_files(args: &RehearseArgs, read: PromotionFiles) -> anyhow::Result<(Pipeline, PromotionFiles)> {
    let names: Vec<&str> = read.pipelines.iter().map(Pipeline::name).collect();
    let found = match (&args.pipeline, &read.pipelines[..]) {
        (Some(wanted), all) => all.iter().find(|pipeline| pipeline.name() == wanted),
        (None, [one]) => Some(one),
        (None, _) => None,
    };
    let pipeline = found.cloned().ok_or_else(|| {
        let problem = match &args.pipeline {
            Some(wanted) => Problem::error(format!("the files hold no pipeline `{wanted}`")),
            None if names.is_empty() => Problem::error("the files hold no pipeline"),
            None => Problem::error("the files hold several pipelines; name the one to play"),
        };
        let hint = if names.is_empty() { "an object of kind Pipeline".to_owned() } else { names.join(", ") };
        UsageError(problem.hint(format!("expected: {hint}")).into())
    })?;
    Ok((pipeline, read))
}

/// The pipeline of the cluster with the gates and windows that apply to it.
async fn from_cluster(
    args: &RehearseArgs,
    session: &Session,
    name: &str,
) -> anyhow::Result<(Pipeline, PromotionFiles)> {
    let place = connect(session).await?;
    let survey = survey(&place, &args.policy.settings(), name).await?;
    let windows = slipway_promotion::view::list_windows(&place.cluster).await;
    let read = PromotionFiles {
        gates: survey.templates.clone(),
        templates: survey.step_templates.clone(),
        windows: windows.map_err(crate::commands::promotion::explain)?,
        ..PromotionFiles::default()
    };
    Ok((survey.pipeline, read))
}

fn request(
    args: &RehearseArgs,
    pipeline: Pipeline,
    files: PromotionFiles,
    start: Timestamp,
) -> anyhow::Result<PipelineRehearsal> {
    let mut problems = Problems::new();
    let known: Vec<&str> = pipeline.spec.environments.iter().map(|one| one.name.as_str()).collect();
    let approved = args.approve_after.iter().filter_map(|(environment, _)| environment.as_ref());
    let named = [("--unhealthy", &args.unhealthy), ("--close-pr", &args.close_pr), ("--skip", &args.skip)];
    let named = named.into_iter().flat_map(|(flag, names)| names.iter().map(move |name| (flag, name)));
    for (flag, name) in named.chain(approved.map(|name| ("--approve-after", name))) {
        if !known.contains(&name.as_str()) {
            let message = format!("pipeline {} has no environment `{name}`", pipeline.name());
            let problem =
                Problem::error(message).at(Location::file(flag)).did_you_mean(name, known.iter().copied());
            problems.push(problem);
        }
    }
    for name in &args.pass_gate {
        if !files.gates.iter().any(|gate| gate.name() == name) {
            let gates = files.gates.iter().map(PolicyGate::name);
            let problem =
                Problem::error(format!("there is no gate `{name}`")).at(Location::file("--pass-gate"));
            problems.push(problem.did_you_mean(name, gates));
        }
    }
    let mut images: Vec<ImageArtifact> = Vec::new();
    for text in &args.image {
        match parse_image(text) {
            Ok(image) => images.push(image),
            Err(error) => problems.push(Problem::error(error.to_string()).at(Location::file("--image"))),
        }
    }
    if args.image.is_empty() {
        let name = format!("ghcr.io/example/{}", pipeline.name());
        images.push(ImageArtifact { reference: format!("{name}:1.1.0"), name, digest: None });
        if args.gitops.is_some() {
            let problem = Problem::error("the bundle has no image").at(Location::file("--image"));
            problems.push(problem.hint("name the image as the files of --gitops do"));
        }
    }
    if problems.has_errors() {
        return Err(UsageError(problems).into());
    }
    let bundle = |version: Option<&str>, name: &str| -> Bundle {
        let images = images.iter().cloned().map(|image| match version {
            Some(version) => ImageArtifact {
                reference: format!("{}:{version}", image.repository()),
                name: image.name.clone(),
                digest: None,
            },
            None => image,
        });
        let request = NewBundle {
            pipeline: pipeline.name().to_owned(),
            namespace: pipeline.namespace().to_owned(),
            name: Some(name.to_owned()),
            images: images.collect(),
            ..NewBundle::default()
        };
        request.into_bundle(start)
    };
    let mut next = bundle(None, &format!("{}-next", pipeline.name()));
    next.metadata.labels.extend(args.label.iter().cloned());
    let intent = Intent { target: args.target.clone(), skip: args.skip.clone(), from: None };
    next.spec.intent = Some(intent).filter(|intent| *intent != Intent::default());
    let mut approvals = ApprovalDelay::default();
    for (environment, time) in &args.approve_after {
        match environment {
            Some(environment) => drop(approvals.by_environment.insert(environment.clone(), *time)),
            None => approvals.usual = *time,
        }
    }
    let set = |names: &[String]| names.iter().cloned().collect::<BTreeSet<String>>();
    Ok(PipelineRehearsal {
        current: Some(bundle(Some("current"), &format!("{}-current", pipeline.name()))),
        bundle: next,
        files,
        repository: args.gitops.as_deref().map(read_directory).transpose()?.unwrap_or_default(),
        start,
        limit: args.limit,
        approvals,
        unhealthy: set(&args.unhealthy),
        closed: set(&args.close_pr),
        passed_gates: set(&args.pass_gate),
        policy_namespaces: args.policy.names(),
        pipeline,
    })
}

/// The files of a directory, without what Git keeps for itself.
fn read_directory(directory: &Path) -> anyhow::Result<Vec<LocalFile>> {
    let mut found = Vec::new();
    let mut open = vec![directory.to_owned()];
    while let Some(next) = open.pop() {
        for entry in std::fs::read_dir(&next).with_context(|| format!("read {}", next.display()))? {
            let path = entry.with_context(|| format!("read {}", next.display()))?.path();
            if path.file_name().is_some_and(|name| name == ".git") || path.is_symlink() {
                continue;
            }
            if path.is_dir() {
                open.push(path);
                continue;
            }
            let name = path.strip_prefix(directory).unwrap_or(&path);
            let parts: Vec<String> =
                name.components().map(|part| part.as_os_str().to_string_lossy().into_owned()).collect();
            let content = files::read(&path).map_err(Problems::from)?;
            found.push(LocalFile { path: parts.join("/"), content });
            if found.len() > MOST_FILES {
                let problem =
                    Problem::error(format!("{} holds more than {MOST_FILES} files", directory.display()));
                return Err(problem.hint("name the directory of the environments alone").into());
            }
        }
    }
    found.sort_by(|one, two| one.path.cmp(&two.path));
    Ok(found)
}
