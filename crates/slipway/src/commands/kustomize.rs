//! `slipway kustomize build|edit`

use std::path::{Path, PathBuf};

use slipway_kustomize::edit::{self, ImageEdit};
use slipway_kustomize::{Build, BuildOptions, Quirks, build};
use slipway_problem::{Location, Problem, Problems};

use crate::exit::Exit;
use crate::files;
use crate::term::{diff, report, show};

#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Build a kustomization and print its objects
    Build(BuildArgs),
    /// Change a kustomization in place; comments and layout stay
    #[command(subcommand)]
    Edit(Edit),
}

#[derive(Debug, clap::Subcommand)]
enum Edit {
    /// Set a field
    #[command(subcommand)]
    Set(Set),
    /// Add to a list
    #[command(subcommand)]
    Add(Add),
}

#[derive(Debug, clap::Subcommand)]
enum Set {
    /// Set what images become: `NAME=NEWNAME:TAG`, `NAME:TAG`, `NAME@DIGEST`
    Image {
        /// What an image becomes; repeat for more
        #[arg(required = true, value_name = "IMAGE")]
        images: Vec<String>,
        #[command(flatten)]
        target: Target,
    },
    /// Set the namespace of every object
    Namespace {
        /// The namespace
        name: String,
        #[command(flatten)]
        target: Target,
    },
}

#[derive(Debug, clap::Subcommand)]
enum Add {
    /// Add files or directories to the resources
    Resource {
        /// Files or directories, from the directory of the kustomization on
        #[arg(required = true, value_name = "PATH")]
        paths: Vec<String>,
        #[command(flatten)]
        target: Target,
    },
}

/// Which kustomization to change.
#[derive(Debug, clap::Args)]
struct Target {
    /// The directory of the kustomization
    #[arg(short = 'C', long, value_name = "DIR", default_value = ".")]
    directory: PathBuf,

    /// Show the change and write nothing
    #[arg(long)]
    dry_run: bool,
}

#[derive(Debug, clap::Args)]
struct BuildArgs {
    /// The directory of the kustomization
    #[arg(value_name = "DIR", default_value = ".")]
    directory: PathBuf,

    /// Patches and replacements that match nothing are errors
    #[arg(long)]
    strict: bool,

    /// Do what was meant where kustomize surprises, instead of the same and a warning
    #[arg(long)]
    fix_quirks: bool,

    /// Refuse directories outside of this one
    #[arg(long, value_name = "DIR")]
    within: Option<PathBuf>,
}

impl BuildArgs {
    fn options(&self) -> BuildOptions {
        let quirks = if self.fix_quirks { Quirks::Fixed } else { Quirks::AsKustomize };
        BuildOptions { quirks, within: self.within.clone(), strict: self.strict }
    }
}

pub fn run(args: &Args) -> anyhow::Result<Exit> {
    match &args.command {
        Command::Build(args) => {
            print(&build(&args.directory, &args.options())?)?;
            Ok(Exit::Done)
        }
        Command::Edit(Edit::Set(Set::Image { images, target })) => change(target, |mut text, file| {
            for image in images {
                text = edit::set_image(&text, file, &ImageEdit::parse(image)?)?;
            }
            Ok(text)
        }),
        Command::Edit(Edit::Set(Set::Namespace { name, target })) => {
            change(target, |text, file| edit::set_namespace(&text, file, name))
        }
        Command::Edit(Edit::Add(Add::Resource { paths, target })) => change(target, |mut text, file| {
            for path in paths {
                text = edit::add_resource(&text, file, path)?;
            }
            Ok(text)
        }),
    }
}

/// Changes a kustomization's file, or shows how it would change.
fn change(
    target: &Target,
    edit: impl FnOnce(String, &str) -> Result<String, Problems>,
) -> anyhow::Result<Exit> {
    let names = ["kustomization.yaml", "kustomization.yml", "Kustomization"];
    let path = names.map(|name| target.directory.join(name)).into_iter().find(|path| path.is_file());
    let path = path.ok_or_else(|| {
        Problem::error("there is no kustomization here")
            .at(Location::file(target.directory.display().to_string()))
            .hint("name its directory with `-C DIR`")
    })?;
    let is_inside = |directory: &Path| -> std::io::Result<bool> {
        Ok(std::fs::canonicalize(&path)?.starts_with(std::fs::canonicalize(directory)?))
    };
    // Neither shown nor written: a link may lead to anything.
    if !is_inside(&target.directory).unwrap_or(false) {
        let problem = Problem::error("the kustomization is a link to a file outside of its directory")
            .at(Location::file(path.display().to_string()))
            .hint("edit that file itself, or copy it here");
        return Err(problem.into());
    }
    let old = files::read_text(&path)?;
    let new = edit(old.text.clone(), &old.name)?;
    if target.dry_run {
        show::print(&diff::unified(&old.text, &new))?;
    } else if new != old.text {
        files::replace(&path, new.as_bytes())?;
    }
    Ok(Exit::Done)
}

/// Prints what a kustomization becomes.
pub fn print(built: &Build) -> anyhow::Result<()> {
    for warning in &built.warnings {
        report::show(warning);
    }
    show::print(&built.to_yaml())
}
