//! `slipway sandbox up|down|status`

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

#[cfg(unix)]
use anyhow::Context;
use anyhow::bail;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use slipway_problem::{Problem, describe_io};
use slipway_sandbox::{BuildError, ClockSpeed, RecoveryMode, Sandbox};
use tokio_util::sync::CancellationToken;

use super::place::{Place, Running, already_running};
use super::steer;
use crate::exit::Exit;
use crate::files;
use crate::interrupt::Interrupt;
use crate::session::Session;
use crate::term::show;
use crate::term::table::Table;

#[derive(Debug, clap::Args)]
pub struct UpArgs {
    /// Port on the loopback address; any free one unless given
    #[arg(long, default_value_t = 0)]
    port: u16,

    /// Write the kubeconfig here as well
    #[arg(long, value_name = "FILE")]
    write_kubeconfig: Option<PathBuf>,

    /// Keep everything here, durable before each answer
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,

    /// Start with what is left when acknowledged writes are missing; damaged files are kept aside
    #[arg(long, requires = "data_dir")]
    salvage: bool,

    /// How fast simulated time passes: `real`, a factor, `max`, or `manual`
    #[arg(long, value_name = "SPEED", default_value = "real")]
    speed: ClockSpeed,

    /// How many nodes the cluster has
    #[arg(long, value_name = "N", default_value_t = 2)]
    nodes: usize,

    /// Enforce RBAC for everyone but the administrator
    #[arg(long)]
    rbac: bool,

    /// Go on in the background
    #[arg(long)]
    pub detach: bool,
}

pub async fn up(args: &UpArgs, place: &Place) -> anyhow::Result<Exit> {
    let mut record = place.claim()?;
    let interrupt = Interrupt::listen()?;
    let mut builder = Sandbox::builder().speed(args.speed).nodes(args.nodes).rbac(args.rbac);
    let data_dir = args.data_dir.as_ref().map(std::path::absolute).transpose()?;
    if let Some(directory) = &data_dir {
        builder = builder.data_dir(directory);
    }
    if args.salvage {
        builder = builder.recovery(RecoveryMode::Salvage);
    }
    let sandbox = builder.build().map_err(explain)?;
    let warnings: Vec<String> = sandbox.notices().iter().map(ToString::to_string).collect();
    say_warnings(&warnings);
    let (address, serving) = listen(&sandbox, place, args.port, interrupt.token().clone()).await?;
    if let Some(path) = &args.write_kubeconfig {
        files::replace_private(path, sandbox.kubeconfig(address).as_bytes())?;
    }
    let speed = match args.speed {
        ClockSpeed::Real => "real".to_owned(),
        ClockSpeed::Max => "max".to_owned(),
        ClockSpeed::Manual => "manual".to_owned(),
        ClockSpeed::Times(times) => times.to_string(),
    };
    record.write(&Running {
        pid: std::process::id(),
        address,
        data_dir,
        speed,
        rbac: args.rbac,
        warnings,
    })?;
    say_ready(args, place, address);
    serving.await.context("serve the sandbox")?;
    record.clear()?;
    Ok(interrupt.exit().unwrap_or(Exit::Done))
}

/// Listens on the loopback address and writes the kubeconfig others find the sandbox by.
pub async fn listen(
    sandbox: &Sandbox,
    place: &Place,
    port: u16,
    stop: CancellationToken,
) -> anyhow::Result<(SocketAddr, impl Future<Output = std::io::Result<()>>)> {
    let wanted = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let (address, serving) = sandbox
        .listen(wanted, async move { stop.cancelled().await })
        .await
        .map_err(|error| cannot_listen(wanted, &error))?;
    // A kubeconfig holds a token: only its owner may read it.
    files::replace_private(&place.kubeconfig(), sandbox.kubeconfig(address).as_bytes())?;
    Ok((address, serving))
}

fn say_warnings(warnings: &[String]) {
    for warning in warnings {
        say!("warning: {warning}");
    }
}

fn say_ready(args: &UpArgs, place: &Place, address: SocketAddr) {
    let shown = args.write_kubeconfig.clone().unwrap_or_else(|| place.kubeconfig());
    say!("sandbox ready on https://{address}\n  export KUBECONFIG={}", shown.display());
}

/// Why the sandbox cannot be built, with what to do about it.
fn explain(error: BuildError) -> anyhow::Error {
    let problem = Problem::error(match &error {
        BuildError::Data { dir, why } => {
            format!("cannot open the data directory {}: {}", dir.display(), describe_io(why))
        }
        error => error.to_string(),
    });
    let hint = match &error {
        BuildError::Locked { .. } => {
            "`slipway sandbox status` says whether it is your own; choose another --data-dir otherwise"
        }
        BuildError::Data { why, .. } => match why.kind() {
            std::io::ErrorKind::InvalidData => {
                "bring back a good copy, or start with what is left by `--salvage`"
            }
            std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::ReadOnlyFilesystem => {
                "the directory must be writable for you"
            }
            std::io::ErrorKind::NotADirectory | std::io::ErrorKind::AlreadyExists => {
                "--data-dir names a directory; is there a file of this name?"
            }
            std::io::ErrorKind::StorageFull => "make room, or choose another --data-dir",
            _ => "check the directory",
        },
        BuildError::Certificates(_) => "bring back a good copy, or start afresh in an empty directory",
        BuildError::Key(_) => "bring back a good copy of the data directory, or start afresh in an empty one",
        BuildError::Controllers(_) => "is this machine out of memory or of threads?",
    };
    problem.hint(hint).into()
}

fn cannot_listen(wanted: SocketAddr, error: &std::io::Error) -> anyhow::Error {
    let problem = match error.kind() {
        std::io::ErrorKind::AddrInUse => Problem::error(format!("port {} is in use", wanted.port()))
            .hint("choose another --port, or leave it out to take any free one"),
        std::io::ErrorKind::PermissionDenied => {
            Problem::error(format!("you may not listen on port {}", wanted.port()))
                .hint("choose a --port above 1023, or leave it out to take any free one")
        }
        _ => Problem::error(format!("cannot listen on {wanted}: {error}"))
            .hint("leave --port out to take any free one"),
    };
    problem.into()
}

/// Starts the same command without `--detach` and waits until it serves.
pub fn detach(args: &UpArgs, place: &Place, session: &Session) -> anyhow::Result<Exit> {
    if place.running()?.is_some() {
        bail!(already_running());
    }
    let words: Vec<_> = std::env::args_os().skip(1).filter(|word| word != "--detach").collect();
    let running = place.start(&words)?;
    say_warnings(&running.warnings);
    say_ready(args, place, running.address);
    show::show(session.output(), &SandboxStatus::new(Some(&running), place), |_| String::new())?;
    Ok(Exit::Done)
}

pub fn down(place: &Place) -> anyhow::Result<Exit> {
    let running = place.required()?;
    terminate(running.pid)?;
    place.wait_until_stopped(&running)?;
    say!("sandbox stopped");
    if running.data_dir.as_ref() == Some(&place.data()) {
        say!("  its objects are kept; `slipway sandbox reset` removes them");
    }
    Ok(Exit::Done)
}

#[cfg(unix)]
fn terminate(pid: u32) -> anyhow::Result<()> {
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw).context("a process id")?;
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).context("stop the sandbox")
}

#[cfg(not(unix))]
fn terminate(pid: u32) -> anyhow::Result<()> {
    let status = std::process::Command::new("taskkill").args(["/PID", &pid.to_string()]).status()?;
    if status.success() { Ok(()) } else { bail!("cannot stop process {pid}") }
}

/// The sandbox of the user; everything but `running` is null where there is none.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SandboxStatus {
    running: bool,
    pid: Option<u32>,
    server: Option<String>,
    kubeconfig: Option<PathBuf>,
    /// Null also where its objects are in memory.
    data_dir: Option<PathBuf>,
    speed: Option<String>,
    rbac: Option<bool>,
    #[serde(flatten)]
    answer: Option<SandboxAnswer>,
}

/// The words of a sandbox about itself.
#[derive(Serialize, JsonSchema)]
struct SandboxAnswer {
    #[schemars(with = "String")]
    version: Value,
    #[schemars(with = "jiff::Timestamp")]
    time: Value,
    /// The last change of its store.
    #[schemars(with = "u64")]
    revision: Value,
    #[schemars(with = "u64")]
    objects: Value,
    /// The number of rules for failures it makes.
    #[schemars(with = "u64")]
    faults: Value,
}

impl SandboxStatus {
    fn new(running: Option<&Running>, place: &Place) -> Self {
        Self {
            running: running.is_some(),
            pid: running.map(|running| running.pid),
            server: running.map(|running| format!("https://{}", running.address)),
            kubeconfig: running.map(|_| place.kubeconfig()),
            data_dir: running.and_then(|running| running.data_dir.clone()),
            speed: running.map(|running| running.speed.clone()),
            rbac: running.map(|running| running.rbac),
            answer: None,
        }
    }

    fn objects(&self) -> Option<u64> {
        self.answer.as_ref()?.objects.as_u64()
    }
}

pub fn status(place: &Place, session: &Session) -> anyhow::Result<Exit> {
    let running = place.running()?;
    let mut data = SandboxStatus::new(running.as_ref(), place);
    if running.is_some() {
        // A sandbox that does not answer is still one that runs.
        if let Ok(said) = session.block_on(steer::call(session, place, "GET", "status", Vec::new())) {
            let take = |key: &str| said[key].clone();
            data.answer = Some(SandboxAnswer {
                version: take("version"),
                time: take("time"),
                revision: take("revision"),
                objects: take("objects"),
                faults: take("faults"),
            });
        }
    }
    show::show(session.output(), &data, |data| match &running {
        Some(running) => {
            let mut table = Table::new(&["server", "process", "speed", "rbac", "objects", "data"]);
            table.row([
                format!("https://{}", running.address),
                running.pid.to_string(),
                running.speed.clone(),
                if running.rbac { "enforced" } else { "off" }.to_owned(),
                data.objects().map_or_else(|| "?".to_owned(), |n| n.to_string()),
                running.data_dir.as_ref().map_or_else(|| "in memory".to_owned(), |d| d.display().to_string()),
            ]);
            table.render()
        }
        None => "not running\n".to_owned(),
    })?;
    Ok(Exit::Done)
}
