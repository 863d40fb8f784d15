//! `slipway controller run` and what it shares with `slipway agent`.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use slipway_cluster::connect::Connection;
use slipway_controller::{
    ControllerHandle, ControllerMode, ControllerOptions, ControllerServices, ListenAddresses, TlsFiles,
    run_controller,
};
use slipway_event::SystemClock;
use slipway_promotion::{ApiGroup, PromotionSettings};

use crate::exit::Exit;
use crate::interrupt::Interrupt;
use crate::session::Session;

/// Flags of every process of promotion.
#[derive(Debug, clap::Args)]
pub struct ProcessFlags {
    /// Name of this process in the election; made unique by itself
    #[arg(long, value_name = "NAME", default_value = "slipway")]
    pub identity: String,

    /// Directory for mirrors of repositories; a temporary one unless given
    #[arg(long, value_name = "DIR")]
    pub git_cache_dir: Option<PathBuf>,

    /// Host that may be called for pipelines, gates and hooks although it is this machine's; repeat for more
    #[arg(long, value_name = "HOST")]
    pub allow_host: Vec<String>,
}

impl ProcessFlags {
    pub fn identity(&self) -> String {
        format!("{}_{}", self.identity, slipway_event::RunId::generate(&SystemClock))
    }

    /// The directory of mirrors, and what removes it in the end.
    pub fn cache(&self) -> anyhow::Result<(PathBuf, Option<tempfile::TempDir>)> {
        if let Some(directory) = &self.git_cache_dir {
            return Ok((directory.clone(), None));
        }
        let made = tempfile::tempdir()?;
        Ok((made.path().to_owned(), Some(made)))
    }

    pub fn settings(&self) -> PromotionSettings {
        let mut settings = PromotionSettings::default();
        settings.steps.outbound.addresses.allowed_hosts.extend(self.allow_host.iter().cloned());
        settings
    }
}

/// Run the controller in this process
#[derive(Debug, clap::Args)]
pub struct RunArgs {
    /// Leave steps of environments with a shard to agents, and watch their heartbeats
    #[arg(long)]
    distributed: bool,

    /// Address of the API: bundles, webhooks, approvals, timeline; empty for none
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8083", value_parser = address)]
    api_address: OptionalAddress,

    /// Address of the figures for Prometheus; empty for none
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080", value_parser = address)]
    metrics_address: OptionalAddress,

    /// Address of the probes; empty for none
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8081", value_parser = address)]
    probe_address: OptionalAddress,

    /// Certificate the API is served with; read again when it changes
    #[arg(long, value_name = "FILE", requires = "tls_key_file")]
    tls_cert_file: Option<PathBuf>,

    /// Key of the certificate
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    tls_key_file: Option<PathBuf>,

    /// Namespace whose gates bind every pipeline; repeat for more
    #[arg(long, value_name = "NAME", default_value = "platform-policies")]
    policy_namespace: Vec<String>,

    /// Namespace of bundles whose request names none
    #[arg(long, value_name = "NAME", default_value = "default")]
    bundle_namespace: String,

    /// API group of Graphs: `experimental.kro.run`, or `graph.kardinal.io` where another controller works on those
    #[arg(long, value_name = "GROUP", default_value = "experimental.kro.run", value_parser = graph_group)]
    graph_group: ApiGroup,

    /// Let emergency bundles pass a pause
    #[arg(long)]
    emergency_bypasses_freeze: bool,

    #[command(flatten)]
    process: ProcessFlags,
}

/// Reads the name of a group.
fn graph_group(text: &str) -> Result<ApiGroup, String> {
    ApiGroup::parse(text).ok_or_else(|| {
        let known = ApiGroup::ALL.map(ApiGroup::name).join(" and ");
        format!("`{text}` is no API group of Graphs; there are {known}")
    })
}

/// An address, or none.
#[derive(Clone, Copy, Debug)]
pub struct OptionalAddress(pub Option<SocketAddr>);

/// Reads an address; an empty text is none.
pub fn address(text: &str) -> Result<OptionalAddress, String> {
    if text.is_empty() {
        return Ok(OptionalAddress(None));
    }
    let hint = |_| format!("`{text}` is no address such as 127.0.0.1:8083");
    text.parse().map(|address| OptionalAddress(Some(address))).map_err(hint)
}

pub fn run(args: &RunArgs, session: &Session) -> anyhow::Result<Exit> {
    session.block_on(async {
        let interrupt = Interrupt::listen()?;
        let Connection { cluster, namespace, .. } = session.connect().await?;
        let (cache, _kept) = args.process.cache()?;
        let mut options = ControllerOptions::new(&namespace, &args.process.identity(), cache);
        options.mode =
            if args.distributed { ControllerMode::Distributed } else { ControllerMode::Standalone };
        options.listen = ListenAddresses {
            api: args.api_address.0,
            metrics: args.metrics_address.0,
            probes: args.probe_address.0,
        };
        options.tls = args
            .tls_cert_file
            .clone()
            .zip(args.tls_key_file.clone())
            .map(|(certificate, key)| TlsFiles { certificate, key });
        options.bundle_namespace.clone_from(&args.bundle_namespace);
        options.promotion = args.process.settings();
        options.promotion.group = args.graph_group;
        let promotion = &mut options.promotion.steps.promotion;
        promotion.policy_namespaces = args.policy_namespace.iter().cloned().collect::<BTreeSet<_>>();
        promotion.emergency_bypasses_freeze = args.emergency_bypasses_freeze;
        let services = ControllerServices {
            cluster,
            clock: Arc::new(SystemClock),
            redactor: session.redactor().clone(),
            stop: interrupt.token().clone(),
        };
        run_controller(services, options, say_started).await?;
        Ok(interrupt.exit().unwrap_or(Exit::Done))
    })
}

/// Says where a process listens.
pub fn say_started(handle: ControllerHandle) {
    for (what, address) in [("API", handle.api), ("metrics", handle.metrics), ("probes", handle.probes)] {
        if let Some(address) = address {
            say!("{what} on {address}");
        }
    }
}
