//! Promotions with real parts: `conformance ROOT USER PASSWORD` with `GITEA_TOKEN` set, on a cluster of this process.
//! `conformance life` is a controller as a process of its own, for those that are killed.
//!
//! A player syncs the repository into the cluster. With `FLUX_SOURCE_CONTROLLER`, `FLUX_KUSTOMIZE_CONTROLLER` and
//! `FLUX_DEFINITIONS` real Flux does so instead, `RUNS` times with random delay. `PART` plays `walk`, `variants`, one of
//! the variants, `kills`, or of those the `random` ones, merges that are cut off (`cuts`), `rollbacks` or `replicas` alone. `KILLS` says how many
//! kills at random there are, 20 unless told, and `TAKEOVERS` how often the leader is killed, 3 times unless told. Prints a line a case.
#![allow(clippy::print_stdout)]

mod flux;
mod gitea;
mod kills;
mod life;
mod player;
mod relay;
mod rig;
mod scenarios;
mod variants;

use std::time::Duration;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The longest anything may take, on a machine that is busy with other things as well.
const PATIENCE: Duration = Duration::from_secs(600);
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
    let first = args.next();
    if first.as_deref() == Some("life") {
        return life::run(args).await;
    }
    let (Some(root), Some(user), Some(password)) = (first, args.next(), args.next()) else {
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
            let is_variant = |name: &str| is_chosen("variants") || chosen == name;
            if variants::NAMES.into_iter().any(is_variant) {
                variants::run(&gitea, is_variant).await?;
            }
            if is_chosen("kills") {
                kills::run(&gitea, kills::KillPart::All).await?;
            }
            let alone = [
                ("random", kills::KillPart::Random),
                ("cuts", kills::KillPart::Cuts),
                ("rollbacks", kills::KillPart::Rollbacks),
                ("replicas", kills::KillPart::Replicas),
            ];
            if let Some((_, part)) = alone.into_iter().find(|(name, _)| chosen == *name) {
                kills::run(&gitea, part).await?;
            }
            Ok(())
        }
    }
}
