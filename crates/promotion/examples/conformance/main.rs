//! Promotions with real parts: `conformance ROOT USER PASSWORD` with `GITEA_TOKEN` set, on a cluster of this process.
//!
//! A player syncs the repository into the cluster. With `FLUX_SOURCE_CONTROLLER`, `FLUX_KUSTOMIZE_CONTROLLER` and
//! `FLUX_DEFINITIONS` real Flux does so instead, `RUNS` times with random delay. `PART` plays `walk`, `variants` or `kills` alone;
//! `KILLS` says how many random kills there are. Prints a line a case.
#![allow(clippy::print_stdout)]

mod flux;
mod gitea;
mod kills;
mod player;
mod rig;
mod scenarios;
mod variants;

use std::time::Duration;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The longest anything may take.
const PATIENCE: Duration = Duration::from_secs(180);
/// The pause between two looks at something that changes by itself.
const PAUSE: Duration = Duration::from_millis(100);

/// Prints how a case went, and ends the run if it went wrong.
fn case(name: &str, is_right: bool, found: impl std::fmt::Debug) -> Result<(), Failure> {
    if is_right {
        println!("{name}: ok");
        return Ok(());
    }
    Err(format!("{name}: {found:?}").into())
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let mut args = std::env::args().skip(1);
    let (Some(root), Some(user), Some(password)) = (args.next(), args.next(), args.next()) else {
        return Err("usage: conformance ROOT USER PASSWORD".into());
    };
    let gitea = gitea::Gitea::connect(root, user, password, std::env::var("GITEA_TOKEN")?)?;
    match flux::Programs::from_environment()? {
        Some(programs) => flux::run(&gitea, &programs).await,
        None => {
            let chosen = std::env::var("PART").unwrap_or_default();
            let is_chosen = |part: &str| chosen.is_empty() || chosen == part;
            if is_chosen("walk") {
                scenarios::run(&gitea).await?;
            }
            if is_chosen("variants") {
                variants::run(&gitea).await?;
            }
            if is_chosen("kills") {
                kills::run(&gitea).await?;
            }
            Ok(())
        }
    }
}
