//! Values of arguments, read from where they live while a user types. What cannot be read gives no values.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::future::Future;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgMatches, CommandFactory as _, FromArgMatches as _};
use clap_complete::engine::{CompletionCandidate, PathCompleter, ValueCompleter as _};
use slipway_cluster::connect::{Connection, list_contexts};
use slipway_cluster::helm::StorageScope;
use slipway_cluster::{Cluster, ListOptions};
use slipway_manifest::Gvk;
use slipway_problem::Problems;
use slipway_promotion::kinds::{self, BundleSpec, PolicyGateSpec};
use slipway_promotion::view::list_pipelines;
use slipway_release::inspect;

use crate::cli::{Cli, Globals};
use crate::commands::release::flags::StorageFlag;
use crate::commands::sandbox::place::Place;
use crate::commands::stack::runs;
use crate::connect::kubeconfig_source;
use crate::helm;
use crate::logs::Verbosity;
use crate::session::Session;

/// How long a user waits for values before the shell goes on without them.
const PATIENCE: Duration = Duration::from_secs(3);
/// How many runs are offered, the newest first.
const RUNS: usize = 30;

/// The kind of values an argument takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueSource {
    Contexts,
    Namespaces,
    /// Releases of the namespace that is typed or configured.
    Releases,
    /// Revisions of the release that is typed.
    Revisions,
    /// Paths, and charts of the repositories that were added.
    Charts,
    Repositories,
    /// Releases of the stack that is typed, or of this directory.
    StackReleases,
    StackProfiles,
    StackRuns,
    /// Steps of the runbook that is typed.
    Steps,
    Pipelines,
    /// Environments of the pipeline that is typed, or of every one.
    Environments,
    Bundles,
    Gates,
}

/// The arguments with live values: the command, where none stands for every one, and the argument.
pub const SOURCES: &[(&str, &str, ValueSource)] = {
    use ValueSource::{
        Bundles, Charts, Contexts, Environments, Gates, Namespaces, Pipelines, Releases, Repositories,
        Revisions, StackProfiles, StackReleases, StackRuns, Steps,
    };
    &[
        ("", "context", Contexts),
        ("", "namespace", Namespaces),
        ("render", "words", Charts),
        ("plan", "name", Releases),
        ("plan", "reference", Charts),
        ("apply", "name", Releases),
        ("apply", "reference", Charts),
        ("rollback", "name", Releases),
        ("rollback", "revision", Revisions),
        ("delete", "names", Releases),
        ("status", "name", Releases),
        ("status", "revision", Revisions),
        ("history", "name", Releases),
        ("get", "name", Releases),
        ("get", "revision", Revisions),
        ("diff", "name", Releases),
        ("diff", "revisions", Revisions),
        ("logs", "name", Releases),
        ("test", "name", Releases),
        ("chart show", "chart", Charts),
        ("chart pull", "charts", Charts),
        ("repo remove", "names", Repositories),
        ("repo update", "names", Repositories),
        ("unit bundle", "name", Releases),
        ("unit bundle", "reference", Charts),
        ("run apply", "rerun", Steps),
        ("run apply", "only", Steps),
        ("stack explain", "name", StackReleases),
        ("stack", "release", StackReleases),
        ("stack", "profile", StackProfiles),
        ("stack", "run_id", StackRuns),
        ("pipeline", "pipeline", Pipelines),
        ("pipeline", "env", Environments),
        ("pipeline", "from", Bundles),
        ("pipeline", "to", Bundles),
        ("pipeline", "bundle", Bundles),
        ("bundle", "pipeline", Pipelines),
        ("bundle", "bundle", Bundles),
        ("bundle", "env", Environments),
        ("gate", "gate", Gates),
        ("gate", "pipeline", Pipelines),
        ("gate", "env", Environments),
        ("gate", "bundle", Bundles),
        ("audit", "pipeline", Pipelines),
        ("audit", "env", Environments),
    ]
};

/// The values an argument of a command takes. What is said of a command counts for those below it.
pub fn source_of(path: &str, argument: &str) -> Option<ValueSource> {
    let is_at_or_above = |above: &str| {
        above.is_empty()
            || path.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
    };
    SOURCES
        .iter()
        .find(|(above, name, _)| *name == argument && is_at_or_above(above))
        .map(|(.., source)| *source)
}

/// The line a user is typing.
#[derive(Clone, Debug)]
pub struct TypedLine {
    /// All of it but the word under the cursor.
    others: Vec<OsString>,
    word: OsString,
}

impl TypedLine {
    pub fn new(words: &[OsString], index: usize) -> Self {
        let others = words.iter().enumerate().filter(|(at, _)| *at != index).map(|(_, word)| word.clone());
        Self { others: others.collect(), word: words.get(index).cloned().unwrap_or_default() }
    }

    /// Returns true if the word under the cursor begins as a flag does.
    pub fn begins_flag(&self) -> bool {
        self.word.as_encoded_bytes().starts_with(b"-")
    }

    /// What the words say so far; a line that is being typed need not be whole.
    fn matches(&self) -> Option<ArgMatches> {
        let mut matches = Cli::command().ignore_errors(true).try_get_matches_from(&self.others).ok()?;
        while let Some((_, inner)) = matches.remove_subcommand() {
            matches = inner;
        }
        Some(matches)
    }
}

/// The value of an argument that takes texts.
fn text<'m>(matches: &'m ArgMatches, argument: &str) -> Option<&'m str> {
    matches.try_get_raw(argument).ok()??.next()?.to_str()
}

fn path(matches: &ArgMatches, argument: &str) -> Option<PathBuf> {
    text(matches, argument).map(PathBuf::from)
}

/// Where releases are kept; the usual place for commands that do not ask.
fn storage(matches: &ArgMatches) -> StorageFlag {
    match matches.try_contains_id("release_storage") {
        Ok(_) => StorageFlag::from_arg_matches(matches).unwrap_or_default(),
        Err(_) => StorageFlag::default(),
    }
}

impl ValueSource {
    /// The values that begin with the word under the cursor.
    pub fn candidates(self, typed: &TypedLine, word: &OsStr) -> Vec<CompletionCandidate> {
        let Some(matches) = typed.matches() else { return Vec::new() };
        let values = self.values(&matches).unwrap_or_default();
        let fits = |value: &LiveValue| value.text.as_bytes().starts_with(word.as_encoded_bytes());
        let mut found: Vec<CompletionCandidate> = values.into_iter().filter(fits).map(Into::into).collect();
        if self == Self::Charts {
            found.extend(PathCompleter::any().complete(word));
        }
        // As they were read: revisions and runs have an order of their own.
        found.into_iter().enumerate().map(|(at, value)| value.display_order(Some(at))).collect()
    }

    fn values(self, matches: &ArgMatches) -> anyhow::Result<Vec<LiveValue>> {
        let globals = Globals::from_arg_matches(matches).unwrap_or_default();
        let session = Session::open(&Globals { verbose: 0, quiet: true, ..globals })?;
        debug_assert_eq!(session.verbosity, Verbosity::Quiet);
        let stored = storage(matches).driver();
        match self {
            Self::Contexts => {
                let (names, current) =
                    list_contexts(&kubeconfig_source(&session.settings), session.redactor())?;
                let mark = |name: String| {
                    let about = if current.as_ref() == Some(&name) { "the current context" } else { "" };
                    LiveValue::new(name).about(about)
                };
                Ok(names.into_iter().map(mark).collect())
            }
            Self::Namespaces => ask(&session, |connection| list_namespaces(connection.cluster)),
            Self::Releases => ask(&session, |Connection { cluster, namespace, .. }| async move {
                let scope = StorageScope::Namespace;
                let rows = inspect::list_releases(&cluster, stored, &namespace, scope, "").await?;
                let value = |row: inspect::ReleaseRow| {
                    LiveValue::new(row.name).about(format!("{}, {}", row.chart, row.status))
                };
                Ok(rows.into_iter().map(value).collect())
            }),
            Self::Revisions => {
                let Some(name) = text(matches, "name").map(str::to_owned) else { return Ok(Vec::new()) };
                ask(&session, |Connection { cluster, namespace, .. }| async move {
                    let revisions = inspect::read_history(&cluster, stored, &namespace, &name).await?;
                    let value = |row: inspect::ReleaseRow| {
                        let first = row.description.lines().next().unwrap_or_default();
                        LiveValue::new(row.revision.to_string()).about(format!("{}, {first}", row.status))
                    };
                    Ok(revisions.into_iter().rev().map(value).collect())
                })
            }
            Self::Charts => Ok(list_charts()),
            Self::Repositories => {
                let known = helm::home().read_repositories()?.repositories;
                Ok(known.into_iter().map(|one| LiveValue::new(one.name).about(one.url)).collect())
            }
            Self::StackReleases => {
                let stack = load_stack(matches);
                Ok(stack
                    .releases
                    .iter()
                    .map(|one| LiveValue::new(one.id.name.clone()).about(&one.id))
                    .collect())
            }
            Self::StackProfiles => {
                let stack = load_stack(matches);
                let profiles = stack.tree.stacks.values().flat_map(|file| &file.profiles);
                let names: BTreeSet<&String> = profiles.map(|(name, _)| name).collect();
                Ok(names.into_iter().map(LiveValue::new).collect())
            }
            Self::StackRuns => {
                let root = path(matches, "root").unwrap_or_else(|| ".".into());
                let listed = runs::store(&root)?.list(RUNS, runs::is_alive);
                let value = |run: slipway_stack::record::ListedRun| {
                    LiveValue::new(run.run_id).about(format!("{}, {}", run.command, run.status))
                };
                Ok(listed.into_iter().map(value).collect())
            }
            Self::Steps => Ok(list_steps(matches)),
            Self::Pipelines => ask(&session, |Connection { cluster, namespace, .. }| async move {
                let found = list_pipelines(&cluster, Some(&namespace)).await?;
                Ok(found.iter().map(|one| LiveValue::new(one.name())).collect())
            }),
            Self::Environments => {
                let asked = text(matches, "pipeline").map(str::to_owned);
                ask(&session, |Connection { cluster, namespace, .. }| async move {
                    let found = list_pipelines(&cluster, Some(&namespace)).await?;
                    let mut values: Vec<LiveValue> = Vec::new();
                    for pipeline in
                        found.iter().filter(|one| asked.as_deref().is_none_or(|asked| asked == one.name()))
                    {
                        for environment in &pipeline.spec.environments {
                            if !values.iter().any(|known| known.text == environment.name) {
                                values.push(LiveValue::new(&environment.name).about(pipeline.name()));
                            }
                        }
                    }
                    Ok(values)
                })
            }
            Self::Bundles => {
                let asked = text(matches, "pipeline").map(str::to_owned);
                ask(&session, |Connection { cluster, namespace, .. }| async move {
                    let all = ListOptions::default();
                    let found = kinds::list::<BundleSpec>(&cluster, Some(&namespace), &all).await?;
                    let is_asked =
                        |bundle: &&kinds::Bundle| asked.is_none() || bundle.pipeline() == asked.as_deref();
                    let value = |bundle: &kinds::Bundle| {
                        LiveValue::new(bundle.name()).about(format!("{:?}", bundle.phase()))
                    };
                    Ok(found.iter().filter(is_asked).map(value).collect())
                })
            }
            Self::Gates => ask(&session, |Connection { cluster, .. }| async move {
                let found = kinds::list::<PolicyGateSpec>(&cluster, None, &ListOptions::default()).await?;
                let name = |gate: &kinds::PolicyGate| format!("{}/{}", gate.namespace(), gate.name());
                Ok(found.iter().map(|gate| LiveValue::new(name(gate))).collect())
            }),
        }
    }
}

/// A value with what a shell may show beside it.
struct LiveValue {
    text: String,
    about: String,
}

impl LiveValue {
    fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), about: String::new() }
    }

    fn about(self, about: impl ToString) -> Self {
        Self { about: about.to_string(), ..self }
    }
}

impl From<LiveValue> for CompletionCandidate {
    fn from(value: LiveValue) -> Self {
        let about = Some(value.about).filter(|about| !about.is_empty());
        Self::new(value.text).help(about.map(Into::into))
    }
}

/// Asks the cluster the user means, as long as a user waits. A sandbox is asked if it runs; none is started.
fn ask<W: Future<Output = anyhow::Result<Vec<LiveValue>>>>(
    session: &Session,
    work: impl FnOnce(Connection) -> W,
) -> anyhow::Result<Vec<LiveValue>> {
    if session.settings.sandbox && Place::of_user()?.running()?.is_none() {
        return Ok(Vec::new());
    }
    session.block_on(async {
        let asked = async { work(session.with_releases(session.connect().await?)?).await };
        tokio::time::timeout(PATIENCE, asked).await?
    })
}

async fn list_namespaces(cluster: Cluster) -> anyhow::Result<Vec<LiveValue>> {
    let Some(kind) = cluster.find_kind(&Gvk::new("", "v1", "Namespace")).await? else {
        return Ok(Vec::new());
    };
    let found = cluster.list(&kind, None, &ListOptions::default()).await?;
    let names = found.items.iter().filter_map(|one| one.pointer("/metadata/name")?.as_str());
    Ok(names.map(LiveValue::new).collect())
}

/// The charts of the repositories that were added, as their indexes were fetched last.
fn list_charts() -> Vec<LiveValue> {
    let home = helm::home();
    let known = home.read_repositories().map(|file| file.repositories).unwrap_or_default();
    let mut charts = Vec::new();
    for repository in known {
        let Ok(index) = home.cached_index(&repository.name) else { continue };
        for (name, versions) in &index.entries {
            let newest = versions.first().map(|entry| entry.metadata.version.clone()).unwrap_or_default();
            charts.push(LiveValue::new(format!("{}/{name}", repository.name)).about(newest));
        }
    }
    charts
}

/// The stack that is typed, or that of this directory; as much of it as can be read.
fn load_stack(matches: &ArgMatches) -> slipway_stack::Stack {
    let root = path(matches, "root").unwrap_or_else(|| ".".into());
    slipway_stack::load(&root, &slipway_stack::Profile::Default, &mut Problems::new())
}

/// The names of a runbook's steps, whether or not the rest of it is right.
fn list_steps(matches: &ArgMatches) -> Vec<LiveValue> {
    let file = path(matches, "file").filter(|file| file.as_os_str() != "-");
    let document = file.and_then(|file| crate::files::read_text(&file).ok());
    let parsed = document.and_then(|document| slipway_yaml::from_str_helm(&document.text).ok());
    let steps = parsed.as_ref().and_then(|document| document.get("steps")?.as_array());
    let names = steps.into_iter().flatten().filter_map(|step| step.get("name")?.as_str());
    names.map(LiveValue::new).collect()
}
