//! `slipway man`

use std::path::PathBuf;

use anyhow::Context;

use crate::examples::tree_with_examples;
use crate::exit::Exit;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Directory to write one page a command to
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

pub fn run(args: &Args) -> anyhow::Result<Exit> {
    let directory = &args.directory;
    std::fs::create_dir_all(directory).with_context(|| format!("create {}", directory.display()))?;
    let mut pending = vec![("slipway".to_owned(), tree_with_examples())];
    while let Some((name, command)) = pending.pop() {
        for child in command.get_subcommands().filter(|child| !child.is_hide_set()) {
            pending.push((format!("{name}-{}", child.get_name()), child.clone()));
        }
        let mut page = Vec::new();
        clap_mangen::Man::new(command.name(name.clone())).render(&mut page)?;
        let path = directory.join(format!("{name}.1"));
        std::fs::write(&path, page).with_context(|| format!("write {}", path.display()))?;
    }
    Ok(Exit::Done)
}
