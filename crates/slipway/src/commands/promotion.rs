//! Flags and steps the commands of promotion share.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use jiff::Timestamp;
use slipway_cluster::{Cluster, ErrorClass};
use slipway_problem::{Location, Problem, Problems, nearest_name};
use slipway_promotion::files::PromotionFiles;
use slipway_promotion::kinds::{Bundle, KindError, Pipeline};
use slipway_promotion::view::{PipelineSurvey, SurveySettings, list_pipelines, survey_pipeline};

use crate::files;
use crate::session::Session;
use crate::term;

/// Where gates of the whole organisation are kept.
#[derive(Debug, clap::Args)]
pub struct PolicyNamespaceFlags {
    /// Namespace whose gates bind every pipeline; repeat for more, as the controller has it
    #[arg(long = "policy-namespace", value_name = "NAME", default_value = "platform-policies")]
    names: Vec<String>,
}

impl PolicyNamespaceFlags {
    pub fn names(&self) -> BTreeSet<String> {
        self.names.iter().cloned().collect()
    }

    pub fn settings(&self) -> SurveySettings {
        SurveySettings { policy_namespaces: self.names() }
    }
}

/// A cluster and the namespace people mean.
pub struct Place {
    pub cluster: Cluster,
    pub namespace: String,
}

/// Connects to the cluster.
pub async fn connect(session: &Session) -> anyhow::Result<Place> {
    let connection = session.connect().await?;
    let cluster = crate::connect::reached(connection.cluster.clone(), &connection).await?;
    Ok(Place { cluster, namespace: connection.namespace })
}

/// Reads everything about a pipeline.
pub async fn survey(
    place: &Place,
    settings: &SurveySettings,
    pipeline: &str,
) -> anyhow::Result<PipelineSurvey> {
    let now = Timestamp::now();
    let found =
        survey_pipeline(&place.cluster, settings, &place.namespace, pipeline, now).await.map_err(explain)?;
    match found {
        Some(survey) => Ok(survey),
        None => Err(unknown_pipeline(place, pipeline).await),
    }
}

/// The error for a pipeline that is not there, with the nearest that is.
async fn unknown_pipeline(place: &Place, pipeline: &str) -> anyhow::Error {
    let namespace = &place.namespace;
    let problem = Problem::error(format!("there is no pipeline `{pipeline}` in namespace {namespace}"));
    let known = list_pipelines(&place.cluster, None).await.unwrap_or_default();
    let elsewhere = known.iter().find(|one| one.name() == pipeline);
    let here = known.iter().filter(|one| one.namespace() == namespace).map(Pipeline::name);
    match (elsewhere, nearest_name(pipeline, here)) {
        (Some(found), _) => {
            problem.hint(format!("there is one in namespace {0}: `-n {0}`", found.namespace()))
        }
        (None, Some(nearest)) => problem.hint(format!("did you mean `{nearest}`?")),
        (None, None) => problem.hint("`slipway pipeline list -A` shows what there is"),
    }
    .into()
}

/// Finds a bundle by name or version.
pub fn find_bundle<'s>(survey: &'s PipelineSurvey, wanted: &str) -> anyhow::Result<&'s Bundle> {
    survey.find_bundle(wanted).ok_or_else(|| {
        let message = format!("pipeline {} has no bundle `{wanted}`", survey.pipeline.name());
        let names = || survey.bundles.iter().map(Bundle::name);
        let problem = Problem::error(message);
        match nearest_name(wanted, names()) {
            Some(nearest) => problem.hint(format!("did you mean `{nearest}`?")),
            None => problem.hint("`slipway bundle list` shows what there is"),
        }
        .into()
    })
}

/// Checks that a pipeline has an environment.
pub fn check_environment(survey: &PipelineSurvey, environment: &str) -> anyhow::Result<()> {
    if survey.environment_names().any(|name| name == environment) {
        return Ok(());
    }
    let message = format!("pipeline {} has no environment `{environment}`", survey.pipeline.name());
    let problem = Problem::error(message).did_you_mean(environment, survey.environment_names());
    let known = survey.environment_names().collect::<Vec<_>>().join(", ");
    let problem = if problem.hint.is_some() { problem } else { problem.hint(format!("there are: {known}")) };
    Err(problem.into())
}

/// The error of a request, with what to do where the kinds are not installed.
pub fn explain(error: KindError) -> anyhow::Error {
    match error {
        KindError::NoKind { kind } => {
            Problem::error(format!("the cluster serves no {kind}")).hint(NO_KIND).into()
        }
        KindError::Cluster(error) if error.class == ErrorClass::NoKind => {
            Problem::error(error.to_string()).hint(NO_KIND).into()
        }
        error => error.into(),
    }
}

/// What to do where definitions are missing.
const NO_KIND: &str = "`slipway controller install` installs the definitions and the controller";

/// Reads files and directories of objects; every problem of all of them at once.
pub fn read_files(paths: &[PathBuf]) -> anyhow::Result<PromotionFiles> {
    let mut read = PromotionFiles::default();
    let mut problems = Problems::new();
    for path in paths {
        for file in yaml_files(path)? {
            match files::read_text(&file) {
                Ok(text) => drop(problems.collect_from(read.read(&text.text, &text.name))),
                Err(problem) => problems.push(problem),
            }
        }
    }
    read.warnings.iter().for_each(term::report::show);
    if problems.has_errors() {
        return Err(problems.into());
    }
    Ok(read)
}

/// The YAML files of a directory and those below it, by name; a file is itself.
fn yaml_files(path: &Path) -> anyhow::Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut found = Vec::new();
    let mut open = vec![path.to_owned()];
    while let Some(directory) = open.pop() {
        let entries =
            std::fs::read_dir(&directory).with_context(|| format!("read {}", directory.display()))?;
        for entry in entries {
            let path = entry.with_context(|| format!("read {}", directory.display()))?.path();
            let is_yaml = path.extension().is_some_and(|end| end == "yaml" || end == "yml");
            if path.is_dir() {
                open.push(path);
            } else if is_yaml {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Reads a moment as people say it.
pub fn parse_moment(text: &str, zone: Option<&str>, now: Timestamp) -> anyhow::Result<Timestamp> {
    let zone = match zone {
        None => jiff::tz::TimeZone::UTC,
        Some(name) => jiff::tz::TimeZone::get(name).map_err(|_| {
            let problem = Problem::error(format!("there is no time zone `{name}`"))
                .hint("such as `Europe/Berlin`")
                .at(Location::file("--tz"));
            crate::exit::UsageError(problem.into())
        })?,
    };
    slipway_promotion::gate::parse_when(text, now, &zone)
        .map_err(|error| crate::exit::UsageError(Problem::error(error.to_string()).into()).into())
}

/// Reads `name=value`.
pub fn parse_pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or_else(|| format!("`{text}` is no NAME=VALUE"))?;
    if name.is_empty() {
        return Err(format!("`{text}` has no name before `=`"));
    }
    Ok((name.to_owned(), value.to_owned()))
}
