//! `slipway stack apply` and `slipway stack delete`: many releases carried out as one run.

use std::collections::HashMap;
use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::path::PathBuf;

use slipway_cluster::Cluster;
use slipway_problem::Problem;
use slipway_stack::engine::{Connect, Engine};
use slipway_stack::launch::{Ended, Launch, Listener, launch};
use slipway_stack::plan::ClusterRef;
use slipway_stack::record::{Meta, Takeover};
use slipway_stack::resume::Resume;
use slipway_stack::run::RunOptions;
use slipway_stack::{Class, Command, FailMode, Git, NodeError, expand};
use tokio::sync::Mutex;

use super::flags::{self, RootFlags, SelectFlags};
use super::runs;
use crate::connect;
use crate::exit::Exit;
use crate::interrupt::Interrupt;
use crate::session::Session;

#[derive(Debug, clap::Args)]
pub struct LaunchArgs {
    #[command(flatten)]
    root: RootFlags,

    #[command(flatten)]
    select: SelectFlags,

    /// How many releases run at once; the stack's own setting unless given
    #[arg(long, value_name = "N")]
    concurrency: Option<usize>,

    /// How many releases of one cluster run at once
    #[arg(long, value_name = "N")]
    concurrency_per_cluster: Option<usize>,

    /// Go on with what does not need a failed release
    #[arg(long, conflicts_with = "fail_fast")]
    continue_on_error: bool,

    /// Start nothing more once a release failed; what happens unless told
    #[arg(long)]
    fail_fast: bool,

    /// Attempts of each release
    #[arg(long, value_name = "N", default_value = "1")]
    retry: u32,

    /// Go on with the most recent run that did not succeed
    #[arg(long)]
    resume: bool,

    /// The run to go on with
    #[arg(long, value_name = "ID", requires = "resume")]
    run_id: Option<String>,

    /// Only what failed in the run that is gone on with
    #[arg(long, requires = "resume")]
    rerun_failed: bool,

    /// Go on although inputs changed since the run was planned
    #[arg(long, requires = "resume", conflicts_with = "replan")]
    allow_drift: bool,

    /// Plan anew and keep what the run did already
    #[arg(long, requires = "resume")]
    replan: bool,

    /// Take the lock from a run that has not been heard of for a minute
    #[arg(long)]
    takeover: bool,

    /// Ask nothing
    #[arg(short, long)]
    yes: bool,

    /// From how many releases on a deletion is confirmed by the stack's name; 0 asks nothing
    #[arg(long, value_name = "N", default_value = "5")]
    confirm_threshold: usize,
}

pub fn run(args: &LaunchArgs, command: Command, session: &Session) -> anyhow::Result<Exit> {
    let request = flags::request(&args.root, &args.select, command);
    let store = runs::store(&args.root.root)?;
    let root = runs::directory(&args.root.root)?;
    let resume = args.resume.then(|| Resume {
        run_id: args.run_id.clone(),
        rerun_failed: args.rerun_failed,
        include_dependents: false,
        allow_drift: args.allow_drift,
    });
    let host = runs::host();
    let user = std::env::var("USER").unwrap_or_default();
    let pid = std::process::id();
    let meta = Meta {
        user: user.clone(),
        host: host.clone(),
        pid,
        argv: std::env::args().map(|word| session.redactor().redact(&word).into_owned()).collect(),
        cwd: std::env::current_dir().unwrap_or_default().display().to_string(),
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        platform: format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
        ..Meta::default()
    };
    let wanted = Launch {
        request,
        resume,
        replan: args.replan,
        concurrency: args.concurrency,
        concurrency_per_cluster: args.concurrency_per_cluster,
        fail_mode: if args.continue_on_error { FailMode::ContinueOnError } else { FailMode::FailFast },
        options: RunOptions { retry: args.retry.max(1), pid, host: host.clone(), ..RunOptions::default() },
        takeover: if args.takeover { Takeover::IfStale } else { Takeover::Never },
        owner: format!("{user}@{host}:{pid}"),
        meta,
        yes: args.yes,
        confirm_threshold: args.confirm_threshold,
        ..Launch::default()
    };
    let ended = session.block_on(async {
        let interrupt = Interrupt::listen()?;
        let events = session.events();
        let connect = Clusters { session, root: root.clone(), open: Mutex::default() };
        let engine = Engine { root, connect, events: events.clone() };
        let listener = Listener {
            on_plan: Box::new(|plan, compiled| {
                for warning in compiled.into_iter().flat_map(|compiled| &compiled.warnings) {
                    anstream::eprint!("{}", crate::term::report::render(warning));
                }
                anstream::eprintln!("{} releases of stack {}", plan.nodes.len(), plan.stack_name);
            }),
            on_takeover: Box::new(|holder| anstream::eprintln!("took the lock from {}", holder.owner)),
            ask: Box::new(ask),
            on_event: None,
        };
        let token = interrupt.token().clone();
        let ended = launch(wanted, &store, &Git::default(), &engine, listener, &events, token).await;
        Ok((ended?, interrupt.exit()))
    })?;
    match ended {
        (Ended::Planned { .. }, _) => Ok(Exit::Done),
        (Ended::NothingToDo { releases }, _) => {
            anstream::eprintln!("nothing to do: all {releases} releases are done");
            Ok(Exit::Done)
        }
        (Ended::Ran { plan, finished }, interrupted) => {
            runs::show(&store, &plan.run_id, session)?;
            if let Some(why) = &finished.unwritable {
                return Err(Problem::error(format!("the run could not be recorded: {why}")).into());
            }
            Ok(match interrupted {
                Some(exit) => exit,
                None if finished.success => Exit::Done,
                None => Exit::Failed,
            })
        }
    }
}

/// Puts a question to whoever sits at the terminal.
fn ask(question: &str) -> Option<String> {
    if !std::io::stdin().is_terminal() {
        return None;
    }
    anstream::eprint!("{question}");
    std::io::stderr().flush().ok()?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer).ok()?;
    Some(answer)
}

/// Every cluster of a run, each opened once.
struct Clusters<'s> {
    session: &'s Session,
    /// Where the paths of kubeconfigs start.
    root: PathBuf,
    open: Mutex<HashMap<String, Cluster>>,
}

impl Connect for Clusters<'_> {
    async fn connect(&self, wanted: &ClusterRef) -> Result<Cluster, NodeError> {
        let mut open = self.open.lock().await;
        if let Some(cluster) = open.get(&wanted.name) {
            return Ok(cluster.clone());
        }
        let mut settings = self.session.settings.clone();
        if let Some(path) = &wanted.kubeconfig {
            settings.kubeconfig.value = Some(expand(&self.root, std::env::home_dir().as_deref(), path));
        }
        let connection = if settings.sandbox {
            self.session.connect().await
        } else {
            connect::to_cluster(&settings, wanted.context.as_deref()).await
        };
        let connection =
            connection.map_err(|error| NodeError::new(Class::Unauthenticated, format!("{error:#}")))?;
        let cluster = Cluster::new(connection.client);
        open.insert(wanted.name.clone(), cluster.clone());
        Ok(cluster)
    }
}
