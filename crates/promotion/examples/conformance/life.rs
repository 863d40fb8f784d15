//! A controller as a process of its own, which can be killed like one: `conformance life CLUSTER DIRECTORY`.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use slipway_cluster::connect::{ConnectOptions, connect};
use slipway_cluster::election::{ElectionOptions, ElectionTimes, elect};
use slipway_event::{Redactor, SystemClock};
use slipway_git::{CacheOptions, Git, RepositoryCache};
use slipway_promotion::{PromotionController, PromotionServices, PromotionSettings};
use tokio_util::sync::CancellationToken;

use crate::rig::{NAMESPACE, allow_local_hosts};
use crate::{Failure, PAUSE};

/// The Lease of those who take turns.
pub(crate) const LEASE: &str = "conformance";

/// A process that works on a cluster until it is killed.
pub(crate) struct LifeProcess(Child);

/// Whether a process works at once or waits for its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    AtOnce,
    /// When the Lease is its own.
    Elected,
}

impl LifeProcess {
    pub(crate) fn start(cluster: &str, directory: &Path, turn: Turn) -> Result<Self, Failure> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("life").arg(cluster).arg(directory);
        if turn == Turn::Elected {
            command.arg("elected");
        }
        Ok(Self(command.stdin(Stdio::null()).spawn()?))
    }

    /// The name the process is elected under.
    pub(crate) fn identity(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for LifeProcess {
    /// Kills it with a signal that cannot be caught.
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The process itself.
pub(crate) async fn run(mut args: impl Iterator<Item = String>) -> Result<(), Failure> {
    let (Some(address), Some(directory)) = (args.next(), args.next()) else {
        return Err("usage: conformance life CLUSTER DIRECTORY [elected]".into());
    };
    // The relay has a certificate that nobody vouches for.
    let options =
        ConnectOptions { server: Some(address), skip_tls_verify: true, ..ConnectOptions::default() };
    let connection = connect(&options, &Redactor::new()).await.map_err(|problem| problem.message)?;
    let mut cluster = connection.cluster;
    let leadership = match args.next() {
        None => None,
        Some(_) => {
            let options = ElectionOptions {
                namespace: NAMESPACE.to_owned(),
                name: LEASE.to_owned(),
                identity: std::process::id().to_string(),
                manager: "conformance".to_owned(),
                times: ElectionTimes::default(),
            };
            Some(elect(&cluster, &options).await)
        }
    };
    let stop = CancellationToken::new();
    if let Some(leadership) = &leadership {
        cluster = cluster.with_write_gate(leadership.write_gate());
    }
    let clock = Arc::new(SystemClock);
    let repositories = RepositoryCache::open(
        PathBuf::from(directory),
        CacheOptions::default(),
        Arc::new(Git::default()),
        clock.clone(),
        stop.clone(),
    )?;
    let services =
        PromotionServices { cluster, clock, repositories, redactor: Redactor::new(), stop: stop.clone() };
    let mut settings = PromotionSettings::default();
    allow_local_hosts(&mut settings);
    let controller = PromotionController::new(services, settings);
    let looking = async {
        loop {
            // Nobody delivers webhooks to a process that is about to die: it looks by itself.
            for step in controller.steps().catch_up().await.unwrap_or_default() {
                controller.nudge_step(step.namespace.as_deref().unwrap_or_default(), &step.name);
            }
            tokio::time::sleep(PAUSE * 3).await;
        }
    };
    tokio::select! {
        ended = controller.run() => ended.map_err(Failure::from),
        () = looking => Ok(()),
    }
}
