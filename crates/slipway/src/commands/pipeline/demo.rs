//! `slipway pipeline demo`: a pipeline to look at, on the embedded cluster.

use slipway_rehearsal::PipelineDemo;
use slipway_sandbox::{ClockSpeed, Sandbox};

use crate::commands::sandbox::place::{Place, Running, already_running};
use crate::commands::sandbox::up::listen;
use crate::exit::Exit;
use crate::interrupt::Interrupt;
use crate::session::Session;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Starts the embedded cluster, a Git repository, the promotion controller and a GitOps tool of a few \
                        lines, all in this process, and creates a pipeline of three environments with a gate. \
                        Nothing of it is kept."
)]
pub struct DemoArgs {
    /// Go on in the background; `slipway sandbox down` ends it
    #[arg(long)]
    detach: bool,
}

pub fn run(args: &DemoArgs, session: &Session) -> anyhow::Result<Exit> {
    let place = Place::of_user()?;
    if args.detach {
        if place.running()?.is_some() {
            anyhow::bail!(already_running());
        }
        place.start(&["pipeline", "demo"].map(std::ffi::OsString::from))?;
        say_next(None);
        return Ok(Exit::Done);
    }
    session.block_on(async {
        let mut record = place.claim()?;
        let interrupt = Interrupt::listen()?;
        let sandbox = Sandbox::builder().speed(ClockSpeed::Real).build()?;
        let directory = tempfile::tempdir()?;
        let demo = PipelineDemo::start(&sandbox, directory.path()).await?;
        let stop = interrupt.token().clone();
        let (address, serving) = listen(&sandbox, &place, 0, stop.clone()).await?;
        let repository = demo.repository.clone();
        record.write(&Running {
            pid: std::process::id(),
            address,
            data_dir: None,
            speed: "real".to_owned(),
            rbac: false,
            warnings: Vec::new(),
        })?;
        say_next(Some(&repository));
        let (served, played) = tokio::join!(serving, demo.run(&stop));
        played?;
        served?;
        record.clear()?;
        Ok(interrupt.exit().unwrap_or(Exit::Done))
    })
}

fn say_next(repository: Option<&str>) {
    let clone = repository.map(|url| format!("  git clone {url}   # what is promoted\n")).unwrap_or_default();
    say!(
        "pipeline my-app runs on the sandbox: dev, staging and prod, with the gate staging-soak before prod\n\n\
         Look at it:\n  \
         slipway --sandbox pipeline list\n  \
         slipway --sandbox pipeline explain my-app --env prod --watch\n{clone}\n\
         Then:\n  \
         slipway --sandbox pipeline approve my-app --env prod      # once the gate is open\n  \
         slipway --sandbox bundle create my-app --image ghcr.io/example/my-app:1.2.0\n  \
         slipway --sandbox pipeline rollback my-app --env prod\n\n\
         {}",
        if repository.is_some() { "Ctrl-C ends it." } else { "`slipway sandbox down` ends it." }
    );
}
