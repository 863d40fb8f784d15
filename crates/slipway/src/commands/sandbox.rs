//! `slipway sandbox`: the embedded cluster, served for kubectl, Helm and everything else.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command as Process, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use etcetera::BaseStrategy;
use serde::{Deserialize, Serialize};
use slipway_problem::Problem;
use slipway_sandbox::{Sandbox, Speed};

use crate::exit::Exit;
use crate::files;
use crate::interrupt::Interrupt;
use crate::session::Session;
use crate::term::show;

#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Start the embedded cluster
    Up(UpArgs),
    /// Stop it
    Down,
    /// Say whether it runs and where
    Status,
    /// Print its kubeconfig
    Kubeconfig,
}

#[derive(Debug, clap::Args)]
struct UpArgs {
    /// Port on the loopback address; any free one unless given
    #[arg(long, default_value_t = 0)]
    port: u16,

    /// Write the kubeconfig here as well
    #[arg(long, value_name = "FILE")]
    write_kubeconfig: Option<PathBuf>,

    /// Keep everything here, durable before each answer
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,

    /// How fast simulated time passes: `real`, a factor, or `max`
    #[arg(long, value_name = "SPEED", default_value = "real")]
    speed: Speed,

    /// How many nodes the cluster has
    #[arg(long, value_name = "N", default_value_t = 2)]
    nodes: usize,

    /// Enforce RBAC for everyone but the administrator
    #[arg(long)]
    rbac: bool,

    /// Go on in the background
    #[arg(long)]
    detach: bool,
}

pub fn run(args: &Args, session: &Session) -> anyhow::Result<Exit> {
    let place = Place::of_user()?;
    match &args.command {
        Command::Up(args) if args.detach => detach(args, &place),
        Command::Up(args) => session.block_on(up(args, &place)),
        Command::Down => down(&place),
        Command::Status => status(&place, session),
        Command::Kubeconfig => {
            place.running()?.ok_or_else(not_running)?;
            show::print(&fs::read_to_string(place.kubeconfig()).context("read the sandbox's kubeconfig")?)?;
            Ok(Exit::Done)
        }
    }
}

fn not_running() -> Problem {
    Problem::error("no sandbox is running").hint("start one with `slipway sandbox up --detach`")
}

/// The directory where a running sandbox says that it runs.
///
/// The record's file is locked while the sandbox runs, so a record left by a crash is told from a live one.
struct Place(PathBuf);

/// What a running sandbox says about itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Running {
    pid: u32,
    address: SocketAddr,
}

impl Place {
    fn of_user() -> anyhow::Result<Self> {
        let strategy = etcetera::choose_base_strategy().context("find the home directory")?;
        let base = strategy.state_dir().unwrap_or_else(|| strategy.data_dir());
        let directory = base.join("slipway/sandbox");
        fs::create_dir_all(&directory).with_context(|| format!("create {}", directory.display()))?;
        Ok(Self(directory))
    }

    fn kubeconfig(&self) -> PathBuf {
        self.0.join("kubeconfig")
    }

    fn open(&self) -> anyhow::Result<File> {
        let path = self.0.join("running.json");
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        options.open(&path).with_context(|| format!("open {}", path.display()))
    }

    /// The record of the sandbox that runs, if one does.
    fn running(&self) -> anyhow::Result<Option<Running>> {
        let mut file = self.open()?;
        if file.try_lock().is_ok() {
            return Ok(None);
        }
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        // Locked and not written yet: it is just starting.
        Ok(serde_json::from_str(&text).ok())
    }
}

async fn up(args: &UpArgs, place: &Place) -> anyhow::Result<Exit> {
    let mut record = place.open()?;
    if record.try_lock().is_err() {
        bail!(Problem::error("a sandbox is running already").hint("stop it with `slipway sandbox down`"));
    }
    record.set_len(0)?;
    let interrupt = Interrupt::listen()?;
    let mut builder = Sandbox::builder().speed(args.speed).nodes(args.nodes).rbac(args.rbac);
    if let Some(directory) = &args.data_dir {
        builder = builder.data_dir(directory);
    }
    let sandbox = builder.build()?;
    let stop = interrupt.token().clone();
    let wanted = SocketAddr::from((Ipv4Addr::LOCALHOST, args.port));
    let (address, serving) = sandbox
        .listen(wanted, async move { stop.cancelled().await })
        .await
        .with_context(|| format!("listen on {wanted}"))?;
    let kubeconfig = sandbox.kubeconfig(address);
    write_private(&place.kubeconfig(), &kubeconfig)?;
    if let Some(path) = &args.write_kubeconfig {
        write_private(path, &kubeconfig)?;
    }
    let running = Running { pid: std::process::id(), address };
    record.write_all(serde_json::to_string(&running)?.as_bytes())?;
    record.flush()?;
    let shown = args.write_kubeconfig.clone().unwrap_or_else(|| place.kubeconfig());
    anstream::eprintln!("sandbox ready on https://{address}\n  export KUBECONFIG={}", shown.display());
    serving.await.context("serve the sandbox")?;
    record.set_len(0)?;
    Ok(interrupt.exit().unwrap_or(Exit::Done))
}

/// A kubeconfig holds a token: only its owner may read it.
fn write_private(path: &Path, text: &str) -> anyhow::Result<()> {
    files::replace(path, text.as_bytes())
}

/// How long starting and stopping may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// Starts the same command without `--detach` and waits until it serves.
fn detach(args: &UpArgs, place: &Place) -> anyhow::Result<Exit> {
    if place.running()?.is_some() {
        bail!(Problem::error("a sandbox is running already").hint("stop it with `slipway sandbox down`"));
    }
    let own = std::env::current_exe().context("find this program")?;
    let mut command = Process::new(own);
    let words: Vec<_> = std::env::args_os().skip(1).filter(|word| word != "--detach").collect();
    let log = place.0.join("log");
    let errors = File::create(&log).with_context(|| format!("create {}", log.display()))?;
    command.args(words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors);
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let mut child = command.spawn().context("start the sandbox")?;
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(running) = place.running()? {
            let shown = args.write_kubeconfig.clone().unwrap_or_else(|| place.kubeconfig());
            anstream::eprintln!(
                "sandbox ready on https://{}\n  export KUBECONFIG={}",
                running.address,
                shown.display()
            );
            return Ok(Exit::Done);
        }
        if child.try_wait()?.is_some() || Instant::now() > deadline {
            let said = fs::read_to_string(&log).unwrap_or_default();
            bail!("the sandbox did not start\n{}", said.trim_end());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn down(place: &Place) -> anyhow::Result<Exit> {
    let running = place.running()?.ok_or_else(not_running)?;
    terminate(running.pid)?;
    let deadline = Instant::now() + PATIENCE;
    while place.running()?.is_some() {
        if Instant::now() > deadline {
            bail!("the sandbox (process {}) did not stop", running.pid);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    anstream::eprintln!("sandbox stopped");
    Ok(Exit::Done)
}

#[cfg(unix)]
fn terminate(pid: u32) -> anyhow::Result<()> {
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw).context("a process id")?;
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).context("stop the sandbox")
}

#[cfg(not(unix))]
fn terminate(pid: u32) -> anyhow::Result<()> {
    let status = Process::new("taskkill").args(["/PID", &pid.to_string()]).status()?;
    if status.success() { Ok(()) } else { bail!("cannot stop process {pid}") }
}

fn status(place: &Place, session: &Session) -> anyhow::Result<Exit> {
    let running = place.running()?;
    let data = serde_json::json!({
        "running": running.is_some(),
        "pid": running.as_ref().map(|running| running.pid),
        "server": running.as_ref().map(|running| format!("https://{}", running.address)),
        "kubeconfig": running.as_ref().map(|_| place.kubeconfig()),
    });
    show::show(session.output(), &data, |_| match &running {
        Some(running) => format!("running on https://{} (process {})\n", running.address, running.pid),
        None => "not running\n".to_owned(),
    })?;
    Ok(Exit::Done)
}
