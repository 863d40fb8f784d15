//! `slipway agent`: carries out the steps of one shard for a controller in another cluster.

use std::path::PathBuf;
use std::sync::Arc;

use slipway_cluster::connect::{ConnectOptions, KubeconfigSource, connect};
use slipway_cluster::election::ElectionTimes;
use slipway_controller::{AgentOptions, ListenAddresses, run_agent};
use slipway_event::SystemClock;
use slipway_git::CacheOptions;

use super::controller::run::{OptionalAddress, ProcessFlags, address, say_started};
use crate::exit::Exit;
use crate::interrupt::Interrupt;
use crate::session::Session;

/// Carry out the steps of one shard for a controller in another cluster
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Steps are read from the control plane and their status is written there. Health is looked at in the \
                  cluster of --kubeconfig, and Secrets with credentials are looked for there first."
)]
pub struct Args {
    /// Shard whose steps are carried out
    #[arg(long, value_name = "NAME", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    shard: String,

    /// Kubeconfig of the cluster with the pipelines
    #[arg(long, value_name = "FILE")]
    control_plane_kubeconfig: PathBuf,

    /// Namespace of the controller, where the heartbeat is kept; that of the kubeconfig unless given
    #[arg(long, value_name = "NAME")]
    control_namespace: Option<String>,

    /// Address of the figures for Prometheus; empty for none
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8085", value_parser = address)]
    metrics_address: OptionalAddress,

    /// Address of the probes; empty for none
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8086", value_parser = address)]
    probe_address: OptionalAddress,

    #[command(flatten)]
    process: ProcessFlags,
}

pub fn run(args: &Args, session: &Session) -> anyhow::Result<Exit> {
    session.block_on(async {
        let interrupt = Interrupt::listen()?;
        let local = session.connect().await?;
        let options = ConnectOptions {
            kubeconfig: KubeconfigSource::Files(vec![args.control_plane_kubeconfig.clone()]),
            ..ConnectOptions::default()
        };
        let control = connect(&options, session.redactor()).await?;
        let (cache_directory, _kept) = args.process.cache()?;
        let options = AgentOptions {
            shard: args.shard.clone(),
            identity: args.process.identity(),
            control_plane: control.cluster,
            control_namespace: args.control_namespace.clone().unwrap_or(control.namespace),
            workloads: local.cluster,
            election: ElectionTimes::default(),
            listen: ListenAddresses {
                api: None,
                metrics: args.metrics_address.0,
                probes: args.probe_address.0,
            },
            cache_directory,
            cache: CacheOptions::default(),
            promotion: args.process.settings(),
            clock: Arc::new(SystemClock),
            redactor: session.redactor().clone(),
            stop: interrupt.token().clone(),
        };
        run_agent(options, say_started).await?;
        Ok(interrupt.exit().unwrap_or(Exit::Done))
    })
}
