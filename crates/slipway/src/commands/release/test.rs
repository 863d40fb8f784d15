//! `slipway test`: runs the tests of a release.

use slipway_cluster::connect::Connection;
use slipway_release::{PlanOptions, ReleaseContent, ReleaseRequest};

use super::flags::{RunFlags, StorageFlag};
use super::{First, carry_out, connect_within};
use crate::exit::Exit;
use crate::session::Session;

/// Run the tests of a release
#[derive(Debug, clap::Args)]
pub struct TestArgs {
    /// The release's name
    name: String,

    #[command(flatten)]
    run: RunFlags,

    #[command(flatten)]
    storage: StorageFlag,

    /// Logs are shown anyway; accepted for hands used to Helm
    #[arg(long, hide = true)]
    logs: bool,
}

pub fn test(args: &TestArgs, session: &Session) -> anyhow::Result<Exit> {
    session.block_on(async {
        let Connection { cluster, namespace, .. } = connect_within(session, args.run.timeout()).await?;
        let request = ReleaseRequest {
            name: args.name.as_str().into(),
            namespace: namespace.into(),
            content: ReleaseContent::Tests,
            options: PlanOptions { driver: args.storage.driver(), ..PlanOptions::default() },
        };
        carry_out(&cluster, &request, &args.run.options(), First::Go, &args.run, session).await
    })
}
