//! Logs of a release's pods, including pods that are created later.

use std::collections::BTreeMap;
use std::sync::Mutex;

use jiff::Timestamp;
use regex::Regex;
use serde::Serialize;
use slipway_cluster::helm::StorageDriver;
use slipway_cluster::pod_logs::{FollowMode, LogListener, PodLogLine};
use slipway_cluster::track::LogRules;
use slipway_cluster::{Cluster, logs};
use slipway_manifest::{ObjectRef, object};
use slipway_problem::Problem;
use tokio_util::sync::CancellationToken;

use crate::failure::Failure;
use crate::inspect;
use crate::record;
use crate::resource::annotations::{self, ReadMode};
use crate::wait::log_rules;

/// The release whose logs are read.
#[derive(Clone, Debug)]
pub struct LogRequest {
    pub name: String,
    pub namespace: String,
    pub driver: StorageDriver,
    /// The last unless said.
    pub revision: Option<u32>,
}

impl LogRequest {
    pub fn new(name: impl Into<String>, namespace: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            namespace: namespace.into(),
            driver: StorageDriver::default(),
            revision: None,
        }
    }
}

/// Settings that select lines.
#[derive(Clone, Debug, Default)]
pub struct LogOptions {
    /// Goes on until everything is over or somebody stops it.
    pub follow: bool,
    pub since: Option<Timestamp>,
    /// Only the last so many of each container.
    pub tail: Option<u32>,
    /// Of containers before their last restart.
    pub previous: bool,
    /// Only of these containers, if any.
    pub containers: Vec<String>,
    /// Only of pods of these objects, if any: `web`, `deploy/web`.
    pub objects: Vec<String>,
    /// Only lines that match.
    pub grep: Option<String>,
    /// Lines that annotations of the objects (`werf.io/log-regex` …) leave out as well.
    pub all_lines: bool,
}

/// One line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct LogLine {
    /// The object of the release: `Deployment/web`.
    pub object: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    pub pod: String,
    pub container: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<Timestamp>,
    pub text: String,
}

/// The objects of a release in one namespace, by group, kind and name, with their log rules.
type LogObjects = BTreeMap<(String, String, String), LogRules>;

/// Hands out the log lines of a release's pods.
pub async fn stream_logs(
    cluster: &Cluster,
    request: &LogRequest,
    options: &LogOptions,
    cancel: CancellationToken,
    take: &mut (dyn FnMut(LogLine) + Send),
) -> Result<(), Failure> {
    let grep = match &options.grep {
        Some(text) => Some(Regex::new(text).map_err(|error| Problem::error(error.to_string()))?),
        None => None,
    };
    let speakers = log_objects(cluster, request, options).await?;
    let asked = logs::ContainerLogOptions {
        since: options.since,
        tail: options.tail,
        previous: options.previous,
        bytes: None,
    };
    let follow = if options.follow { FollowMode::Yes } else { FollowMode::No };
    let take = Mutex::new(take);
    let listening = speakers.iter().map(|(namespace, speakers)| {
        let (take, asked, grep) = (&take, &asked, grep.as_ref());
        async move {
            let wanted = |makers: &[ObjectRef], container: &str| {
                let is_named =
                    options.containers.is_empty() || options.containers.iter().any(|c| c == container);
                is_named
                    && owning_object(speakers, makers)
                        .is_some_and(|(_, rules)| rules.wants_container(container))
            };
            let mut hear = |heard: PodLogLine| {
                let Some((at, rules)) = owning_object(speakers, &heard.makers) else { return };
                let PodLogLine { source, line, .. } = &heard;
                let is_wanted = rules.wants_line(&source.container, &line.text)
                    && grep.is_none_or(|grep| grep.is_match(&line.text));
                if is_wanted && let Ok(mut take) = take.lock() {
                    (**take)(LogLine {
                        object: format!("{}/{}", at.gvk.kind, at.name),
                        namespace: source.namespace.clone(),
                        pod: source.pod.clone(),
                        container: source.container.clone(),
                        time: line.time,
                        text: line.text.clone(),
                    });
                }
            };
            let listener =
                LogListener { cluster, namespace, wanted: &wanted, options: asked, take: &mut hear };
            listener.listen(follow).await
        }
    });
    tokio::select! {
        heard = futures::future::try_join_all(listening) => heard.map(|_| ()).map_err(Failure::from),
        () = cancel.cancelled() => Ok(()),
    }
}

/// The object of the release a pod comes from: the highest of its owners that is one.
fn owning_object<'s, 'm>(
    speakers: &'s LogObjects,
    makers: &'m [ObjectRef],
) -> Option<(&'m ObjectRef, &'s LogRules)> {
    makers.iter().rev().find_map(|at| {
        let key = (at.gvk.group.clone(), at.gvk.kind.clone(), at.name.clone());
        Some((at, speakers.get(&key)?))
    })
}

/// The objects of the release that may have pods, by namespace.
async fn log_objects(
    cluster: &Cluster,
    request: &LogRequest,
    options: &LogOptions,
) -> Result<BTreeMap<String, LogObjects>, Failure> {
    let LogRequest { name, namespace, driver, revision } = request;
    let release = inspect::read_revision(cluster, *driver, namespace, name, *revision).await?;
    let mut all: BTreeMap<String, LogObjects> = BTreeMap::new();
    for document in record::read_documents(&release).0 {
        let (settings, _) = annotations::read_annotations(
            &document.object,
            document.stored,
            &document.origin,
            namespace,
            ReadMode::Lenient,
        );
        let mut rules = LogRules { replicas: usize::MAX, ..log_rules(&settings.tracking) };
        if options.all_lines {
            rules = LogRules { replicas: usize::MAX, ..LogRules::default() };
        }
        let gvk = object::gvk(&document.object);
        let own = object::name(&document.object).unwrap_or_default().to_owned();
        let place = object::namespace(&document.object).unwrap_or(namespace).to_owned();
        all.entry(place).or_default().insert((gvk.group, gvk.kind, own), rules);
    }
    if options.objects.is_empty() {
        return Ok(all);
    }
    let mut chosen: BTreeMap<String, LogObjects> = BTreeMap::new();
    for wish in &options.objects {
        let (kind, wanted) = match wish.split_once('/') {
            Some((word, name)) => {
                let known = cluster.served_kinds().await?.by_name(word).map(|kind| kind.gvk.kind.clone());
                (Some(known.unwrap_or_else(|| word.to_owned())), name)
            }
            None => (None, wish.as_str()),
        };
        let mut found = false;
        for (place, speakers) in &all {
            for (key, rules) in speakers {
                if key.2 == wanted && kind.as_ref().is_none_or(|kind| key.1.eq_ignore_ascii_case(kind)) {
                    found = true;
                    chosen.entry(place.clone()).or_default().insert(key.clone(), rules.clone());
                }
            }
        }
        if !found {
            return Err(Failure::NotFound(format!("release `{name}` has no object `{wish}`")));
        }
    }
    Ok(chosen)
}
