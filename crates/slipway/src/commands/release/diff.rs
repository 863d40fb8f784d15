//! `slipway diff`: what differs between revisions, or between a revision and the cluster.

use std::fmt::Write;

use slipway_cluster::connect::Connection;
use slipway_release::{PlanOptions, ReleaseContent, ReleaseRequest, inspect};

use super::flags::{DiffFlags, StorageFlag};
use super::text::{change_text, lines_text};
use super::{connect, fail};
use crate::exit::Exit;
use crate::session::Session;
use crate::term::show;
use crate::term::style::{BOLD, paint};

/// Show what differs between revisions, or between a revision and the cluster
#[derive(Debug, clap::Args)]
pub struct DiffArgs {
    /// The release's name
    name: String,

    /// One revision: what someone changed since; two: what differs between them
    #[arg(num_args = 0..=2, value_parser = revision)]
    revisions: Vec<u32>,

    /// Exit with 2 if something differs
    #[arg(long)]
    exit_code: bool,

    #[command(flatten)]
    storage: StorageFlag,

    #[command(flatten)]
    diff: DiffFlags,
}

fn revision(text: &str) -> Result<u32, &'static str> {
    text.parse().map_err(|_| "a revision is a number; `slipway history NAME` lists them, `slipway plan NAME SOURCE` compares a source")
}

pub fn diff(args: &DiffArgs, session: &Session) -> anyhow::Result<Exit> {
    session.block_on(async {
        let Connection { cluster, namespace, .. } = connect(session).await?;
        let options = args.diff.options();
        let differs = if let [old, new] = args.revisions[..] {
            let read = |revision| {
                inspect::read_revision(
                    &cluster,
                    args.storage.driver(),
                    &namespace,
                    &args.name,
                    Some(revision),
                )
            };
            let (old, new) = (read(old).await.map_err(fail)?, read(new).await.map_err(fail)?);
            let found = inspect::diff_revisions(&old, &new, &options);
            show::show(session.output(), &found, |found| {
                let mut text = String::new();
                for difference in found {
                    let _ = writeln!(text, "{} {}", difference.action, paint(BOLD, &difference.object));
                    lines_text(&mut text, &difference.lines);
                }
                text
            })?;
            !found.is_empty()
        } else {
            let request = ReleaseRequest {
                name: args.name.as_str().into(),
                namespace: namespace.into(),
                content: ReleaseContent::Revision(None),
                options: PlanOptions { driver: args.storage.driver(), ..PlanOptions::default() },
            };
            let wanted = args.revisions.first().copied();
            let found = inspect::find_drift(&cluster, &request, wanted, &options).await.map_err(fail)?;
            show::show(session.output(), &found, |found| {
                let mut text = String::new();
                for change in found {
                    change_text(&mut text, change);
                }
                if text.is_empty() { "nothing differs\n".to_owned() } else { text }
            })?;
            !found.is_empty()
        };
        Ok(if differs && args.exit_code { Exit::Changes } else { Exit::Done })
    })
}
