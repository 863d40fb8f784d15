//! `slipway test`: runs the tests of a release.

use slipway_cluster::connect::Connection;
use slipway_release::{PlanOptions, ReleaseContent, ReleaseRequest, TestFilter};

use super::flags::{RunFlags, StorageFlag};
use super::{First, carry_out, connect_within};
use crate::exit::Exit;
use crate::session::Session;

/// Run the tests of a release
#[derive(Debug, clap::Args)]
pub struct TestArgs {
    /// The release's name
    name: String,

    /// Run the tests of a name alone (`name=web-test`), or leave one out (`!name=web-test`); repeat for more
    #[arg(long, value_name = "FILTER", value_delimiter = ',', value_parser = filter)]
    filter: Vec<Filter>,

    /// Logs are shown anyway; accepted for hands used to Helm
    #[arg(long, hide = true)]
    logs: bool,

    #[command(flatten)]
    storage: StorageFlag,

    #[command(flatten)]
    run: RunFlags,
}

/// One word of a filter.
#[derive(Clone, Debug)]
enum Filter {
    Only(String),
    Without(String),
}

fn filter(text: &str) -> Result<Filter, String> {
    if let Some(name) = text.strip_prefix("!name=") {
        return Ok(Filter::Without(name.to_owned()));
    }
    let only = text.strip_prefix("name=").map(|name| Filter::Only(name.to_owned()));
    only.ok_or_else(|| "expected `name=TEST` or `!name=TEST`".to_owned())
}

impl TestArgs {
    fn filter(&self) -> TestFilter {
        let mut tests = TestFilter::default();
        for filter in &self.filter {
            match filter {
                Filter::Only(name) => tests.only.push(name.clone()),
                Filter::Without(name) => tests.without.push(name.clone()),
            }
        }
        tests
    }
}

pub fn test(args: &TestArgs, session: &Session) -> anyhow::Result<Exit> {
    session.block_on(async {
        let Connection { cluster, namespace, .. } = connect_within(session, args.run.timeout()).await?;
        let request = ReleaseRequest {
            name: args.name.as_str().into(),
            namespace: namespace.into(),
            content: ReleaseContent::Tests(args.filter()),
            options: PlanOptions { driver: args.storage.driver(), ..PlanOptions::default() },
        };
        carry_out(&cluster, &request, &args.run.options(), First::Go, &args.run, session).await
    })
}
