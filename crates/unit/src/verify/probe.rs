//! Probes of users: an address that must answer, or a command that must succeed in the cluster.

use std::collections::BTreeSet;
use std::pin::pin;
use std::time::Duration;

use futures::future::{Either, select};
use serde_json::{Value, json};
use slipway_chart::net::{ClientOptions, HttpClient};
use slipway_cluster::wait::{WaitCondition, wait_until};
use slipway_cluster::{Cluster, DeleteOptions, WriteOptions};
use slipway_event::{RunId, SystemClock};
use slipway_manifest::{Gvk, ObjectRef};

use super::{CheckResult, result};

/// The longest a probe waits for an answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// The longest a command may run, with the start of its pod.
const JOB_PATIENCE: Duration = Duration::from_secs(120);
/// The label of the Jobs that probes run in.
const PROBE_LABEL: &str = "ktl.dev/probe";

/// Something that must answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VerifyProbe {
    /// Answers with success.
    Http(String),
    /// Takes connections: `host:port`.
    Tcp(String),
    /// Ends with success.
    Exec(ExecProbe),
}

/// A command that runs as a Job in the release's namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecProbe {
    pub image: String,
    pub command: Vec<String>,
}

impl std::fmt::Display for VerifyProbe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Http(address) => write!(f, "{}", slipway_source::shown_address(address)),
            Self::Tcp(address) => write!(f, "tcp {address}"),
            Self::Exec(probe) => {
                write!(f, "exec {} in {}", probe.command.first().map_or("", String::as_str), probe.image)
            }
        }
    }
}

/// Asks everything once.
pub(crate) async fn run_probes(cluster: &Cluster, namespace: &str, probes: &[VerifyProbe]) -> CheckResult {
    let mut failures = BTreeSet::new();
    for probe in probes {
        let asked = match probe {
            VerifyProbe::Http(address) => within(ask(address)).await,
            VerifyProbe::Tcp(address) => within(connect(address)).await,
            VerifyProbe::Exec(probe) => run_command(cluster, namespace, probe).await,
        };
        if let Err(why) = asked {
            failures.insert(format!("{probe}: {why}"));
        }
    }
    let count = probes.len();
    result("probes", count, failures, format!("{count} probes answered"))
}

/// The reason a probe failed.
#[derive(Debug, thiserror::Error)]
enum ProbeError {
    #[error("{0}")]
    Chart(#[from] slipway_chart::ChartError),
    #[error("{0}")]
    Io(#[from] std::io::Error),
    #[error("{0}")]
    Cluster(#[from] slipway_cluster::Error),
    #[error("no answer within {}s", PATIENCE.as_secs())]
    NoAnswer,
    #[error("the command failed: {0}")]
    Command(String),
}

async fn within(asked: impl Future<Output = Result<(), ProbeError>>) -> Result<(), ProbeError> {
    tokio::time::timeout(PATIENCE, asked).await.unwrap_or(Err(ProbeError::NoAnswer))
}

async fn ask(address: &str) -> Result<(), ProbeError> {
    let client = HttpClient::new(&ClientOptions::default()).map_err(slipway_chart::ChartError::from)?;
    client.get(address, None).await.map_err(slipway_chart::ChartError::from)?;
    Ok(())
}

async fn connect(address: &str) -> Result<(), ProbeError> {
    tokio::net::TcpStream::connect(address).await?;
    Ok(())
}

/// Runs a command as a Job and removes the Job, however it ends.
async fn run_command(cluster: &Cluster, namespace: &str, probe: &ExecProbe) -> Result<(), ProbeError> {
    let name =
        format!("probe-{}", RunId::generate(&SystemClock).to_string().to_lowercase().replace('_', "-"));
    let at = ObjectRef::new(Gvk::new("batch", "v1", "Job"), Some(namespace), name.as_str());
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": name, "namespace": namespace, "labels": {PROBE_LABEL: "true"}},
        "spec": {
            "backoffLimit": 0, "activeDeadlineSeconds": JOB_PATIENCE.as_secs(), "ttlSecondsAfterFinished": 600,
            "template": {
                "metadata": {"labels": {PROBE_LABEL: "true"}},
                "spec": {"restartPolicy": "Never", "containers": [
                    {"name": "probe", "image": probe.image, "command": probe.command},
                ]},
            },
        },
    });
    cluster.create(&at, &job, &WriteOptions::for_manager("slipway")).await?;
    let ended = wait_for_end(cluster, &at).await;
    // A Job that cannot be removed now goes away by itself.
    let _ = cluster.delete(&at, &DeleteOptions::default()).await;
    ended
}

async fn wait_for_end(cluster: &Cluster, at: &ObjectRef) -> Result<(), ProbeError> {
    let condition =
        |kind: &str| WaitCondition::Condition { kind: kind.to_owned(), status: "True".to_owned() };
    let (complete, failed) = (condition("Complete"), condition("Failed"));
    let complete = pin!(wait_until(cluster, at, &complete, Some(JOB_PATIENCE)));
    let failed = pin!(wait_until(cluster, at, &failed, Some(JOB_PATIENCE)));
    let job = match select(complete, failed).await {
        Either::Left((ended, _)) => return Ok(ended.map(drop)?),
        Either::Right((ended, _)) => ended?.unwrap_or_default(),
    };
    let conditions = job.pointer("/status/conditions").and_then(Value::as_array);
    let why = conditions.into_iter().flatten().find(|condition| condition["type"] == "Failed");
    let text = |key: &str| why.and_then(|why| why.get(key)).and_then(Value::as_str).unwrap_or_default();
    Err(ProbeError::Command(format!("{}: {}", text("reason"), text("message"))))
}
