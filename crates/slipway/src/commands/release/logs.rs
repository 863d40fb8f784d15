//! `slipway logs`: what the pods of a release say.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::Context;
use futures::stream::{FuturesUnordered, StreamExt};
use serde_json::Value;
use slipway_cluster::logs::{self, Line, Source};
use slipway_cluster::{Cluster, ListOptions};
use slipway_manifest::{Gvk, object};
use slipway_problem::Problem;
use slipway_release::{inspect, record};

use super::flags::{StorageFlag, time};
use super::{connect, fail};
use crate::exit::Exit;
use crate::interrupt::Interrupt;
use crate::session::Session;
use crate::term::show;
use crate::term::style::{DIM, paint};

/// Show what the pods of a release say
#[derive(Debug, clap::Args)]
pub struct LogsArgs {
    /// The release's name
    name: String,

    /// Only of this workload: `web`, or `Deployment/web`
    workload: Option<String>,

    /// Go on until interrupted
    #[arg(short, long)]
    follow: bool,

    /// Only the last lines of each container
    #[arg(long, value_name = "N")]
    tail: Option<u32>,

    /// Only what is not older: `5m`, `1h`
    #[arg(long, value_name = "TIME", value_parser = time)]
    since: Option<Duration>,

    /// Of containers before their last restart
    #[arg(short, long, conflicts_with = "follow")]
    previous: bool,

    /// Only this container
    #[arg(short, long, value_name = "NAME")]
    container: Option<String>,

    #[command(flatten)]
    storage: StorageFlag,
}

pub fn logs(args: &LogsArgs, session: &Session) -> anyhow::Result<Exit> {
    session.block_on(async {
        let (cluster, namespace) = connect(session).await?;
        let found = inspect::revision(&cluster, args.storage.driver(), &namespace, &args.name, None).await;
        let release = found.map_err(fail)?;
        let wanted = |document: &Value| {
            let (kind, name) = (text(document, "kind"), object::name(document).unwrap_or_default());
            args.workload.as_ref().is_none_or(|w| *w == name || *w == format!("{kind}/{name}"))
        };
        let documents = record::documents(&release).0;
        let mut sources = BTreeSet::new();
        for document in documents.iter().map(|document| &document.object).filter(|object| wanted(object)) {
            sources.extend(containers(&cluster, document, &namespace, args.container.as_deref()).await?);
        }
        if sources.is_empty() {
            let what =
                args.workload.as_deref().map(|workload| format!(" for `{workload}`")).unwrap_or_default();
            return Err(Problem::error(format!("release `{}` has no pods{what}", args.name)).into());
        }
        let options = logs::Options {
            since: args.since.map(|since| jiff::Timestamp::now() - since),
            tail: args.tail,
            previous: args.previous,
            bytes: None,
        };
        if !args.follow {
            for source in &sources {
                let lines = logs::read(&cluster, source, &options).await;
                for line in lines.with_context(|| format!("read {}/{}", source.pod, source.container))? {
                    say(source, &line, session)?;
                }
            }
            return Ok(Exit::Done);
        }
        let interrupt = Interrupt::listen()?;
        let mut following: FuturesUnordered<_> = sources
            .iter()
            .map(|source| {
                let (cluster, options) = (&cluster, &options);
                let mut take = move |line: Line| drop(say(source, &line, session));
                async move { logs::follow(cluster, source, options, &mut take).await }
            })
            .collect();
        loop {
            tokio::select! {
                ended = following.next() => match ended {
                    Some(ended) => ended.context("follow the logs")?,
                    None => return Ok(Exit::Done),
                },
                () = interrupt.token().cancelled() => return Ok(interrupt.exit().unwrap_or(Exit::Done)),
            }
        }
    })
}

fn text<'o>(document: &'o Value, field: &str) -> &'o str {
    document[field].as_str().unwrap_or_default()
}

/// One line with who said it; what is known to be secret is masked.
fn say(source: &Source, line: &Line, session: &Session) -> anyhow::Result<()> {
    let who = paint(DIM, format!("{}/{} |", source.pod, source.container));
    show::print(&format!("{who} {}\n", session.redactor().redact(&line.text)))
}

/// The containers of a workload's pods, or of a pod.
async fn containers(
    cluster: &Cluster,
    document: &Value,
    namespace: &str,
    only: Option<&str>,
) -> anyhow::Result<Vec<Source>> {
    let name = object::name(document).unwrap_or_default();
    let namespace = document["metadata"]["namespace"].as_str().unwrap_or(namespace);
    let pairs = |labels: &Value| -> String {
        let pairs = labels.as_object().into_iter().flatten();
        pairs
            .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
            .collect::<Vec<_>>()
            .join(",")
    };
    let (labels, fields) = match text(document, "kind") {
        "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet" => {
            (pairs(&document["spec"]["selector"]["matchLabels"]), String::new())
        }
        "Job" => (format!("job-name={name}"), String::new()),
        "Pod" => (String::new(), format!("metadata.name={name}")),
        _ => return Ok(Vec::new()),
    };
    let kind = cluster.kind(&Gvk::new("", "v1", "Pod")).await?.context("the cluster serves no pods")?;
    let options = ListOptions { labels, fields, ..ListOptions::default() };
    let listed = cluster.list(&kind, Some(namespace), &options).await.context("list pods")?;
    let mut all = Vec::new();
    for pod in &listed.items {
        let lists = ["initContainers", "containers"].into_iter();
        for container in lists.flat_map(|list| pod["spec"][list].as_array().into_iter().flatten()) {
            let container = text(container, "name");
            if only.is_none_or(|only| only == container) {
                all.push(Source {
                    namespace: namespace.to_owned(),
                    pod: object::name(pod).unwrap_or_default().to_owned(),
                    container: container.to_owned(),
                });
            }
        }
    }
    Ok(all)
}
