//! `slipway logs`: what the pods of a release say.

use std::time::Duration;

use slipway_cluster::connect::Connection;
use slipway_release::logs::{self, LogLine, LogOptions, LogRequest};

use super::flags::{StorageFlag, time};
use super::{connect, fail};
use crate::cli::Output;
use crate::exit::Exit;
use crate::interrupt::Interrupt;
use crate::session::Session;
use crate::term::style::{DIM, paint};
use crate::term::{output, show};

/// Show what the pods of a release say
///
/// Lines that `werf.io/log-*` annotations of an object leave out of a run's progress are left out here
/// too, unless `--all-lines` asks for them. With `-o json` every line is an object of its own.
#[derive(Debug, clap::Args)]
pub struct LogsArgs {
    /// The release's name
    name: String,

    /// Only of these workloads: `web`, `deploy/web`, `Deployment/web`
    #[arg(value_name = "WORKLOAD")]
    workloads: Vec<String>,

    /// Go on until interrupted, with pods that come later
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

    /// Only these containers
    #[arg(short, long = "container", value_name = "NAME")]
    containers: Vec<String>,

    /// Only lines a regular expression matches
    #[arg(long, value_name = "REGEX")]
    grep: Option<String>,

    /// Lines that annotations leave out as well
    #[arg(long)]
    all_lines: bool,

    #[command(flatten)]
    storage: StorageFlag,
}

pub fn logs(args: &LogsArgs, session: &Session) -> anyhow::Result<Exit> {
    session.block_on(async {
        let Connection { cluster, namespace, .. } = connect(session).await?;
        let interrupt = Interrupt::listen()?;
        let request = LogRequest { driver: args.storage.driver(), ..LogRequest::new(&args.name, namespace) };
        let options = LogOptions {
            follow: args.follow,
            since: args.since.map(|since| jiff::Timestamp::now() - since),
            tail: args.tail,
            previous: args.previous,
            containers: args.containers.clone(),
            objects: args.workloads.clone(),
            grep: args.grep.clone(),
            all_lines: args.all_lines,
        };
        let stop = interrupt.token().clone();
        let (mut lines, mut trouble) = (0_u64, None);
        let mut take = |said: LogLine| {
            lines += 1;
            // Who cannot write any more need not read any more.
            let said = say(&said, session);
            if said.is_err() || output::is_closed() {
                stop.cancel();
            }
            if let Err(error) = said {
                trouble.get_or_insert(error);
            }
        };
        logs::stream_logs(&cluster, &request, &options, stop.clone(), &mut take).await.map_err(fail)?;
        if let Some(error) = trouble {
            return Err(error);
        }
        if lines == 0 && !args.follow && !session.is_quiet() {
            say!("nothing was said that fits");
        }
        Ok(interrupt.exit().unwrap_or(Exit::Done))
    })
}

/// One line with who said it; what is known to be secret is masked.
fn say(said: &LogLine, session: &Session) -> anyhow::Result<()> {
    if session.output() == Output::Json {
        return show::line(said);
    }
    let who = paint(DIM, format!("{}/{} |", said.pod, said.container));
    show::print(&format!("{who} {}\n", said.text))
}
