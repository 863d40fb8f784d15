//! `slipway package build`: objects on standard output or as files in a directory.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::ValueEnum;
use slipway_package::{
    ArgoApp, EmitOptions, FileLayout, FluxOptions, ForeignFiles, InstallPhase, OutFile, PackageBuild,
    plan_directory,
};
use slipway_problem::Problem;

use super::flags::Selected;
use super::{warn, warn_of};
use crate::cli::Output;
use crate::commands::secrets::flags::RevealFlag;
use crate::exit::{Exit, UsageError};
use crate::files;
use crate::session::Session;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Write an Argo CD Application as well: repository, path in it and revision
    #[arg(long, value_name = "REPO,PATH[,REVISION]", help_heading = "Output")]
    argocd_app: Option<String>,

    #[command(flatten)]
    selected: Selected,

    #[command(flatten)]
    form: FormFlags,

    #[command(flatten)]
    flux: FluxFlags,

    #[command(flatten)]
    reveal: RevealFlag,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Output")]
struct FormFlags {
    /// Write files here instead of standard output (`--output DIR` too); files of an earlier build are replaced
    #[arg(long, value_name = "DIR")]
    output_dir: Option<PathBuf>,

    /// What is written: `phases` into a directory, `stream` otherwise
    #[arg(long, value_name = "FORMAT", alias = "layout")]
    format: Option<Format>,

    /// Write beside files that are not from a build
    #[arg(long, requires = "output_dir")]
    force: bool,

    /// Sort all keys
    #[arg(long)]
    sort_keys: bool,

    /// Only objects of this phase; repeat for more
    #[arg(long, value_name = "PHASE")]
    phase: Vec<PhaseWord>,

    /// Only objects of this kind; repeat for more
    #[arg(long, value_name = "KIND")]
    kind: Vec<String>,

    /// Only objects of this name; repeat for more
    #[arg(long, value_name = "NAME")]
    name: Vec<String>,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Flux")]
struct FluxFlags {
    /// Where Flux finds the files, such as `GitRepository/flux-system`
    #[arg(long, value_name = "KIND/NAME[/NAMESPACE]")]
    flux_source: Option<String>,

    /// How often Flux looks
    #[arg(long, value_name = "DURATION", default_value = "10m")]
    flux_interval: String,

    /// Path of the output directory in the source; `./PACKAGE` unless given
    #[arg(long, value_name = "PATH")]
    flux_path_prefix: Option<String>,

    /// Namespace of the Flux Kustomizations
    #[arg(long, value_name = "NAME", default_value = "flux-system")]
    flux_namespace: String,
}

/// What a build becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// One stream of documents
    #[value(alias = "flat")]
    Stream,
    /// A file per object
    #[value(alias = "by-resource")]
    Files,
    /// A file per kind
    #[value(alias = "by-kind")]
    Kinds,
    /// A directory per install phase, each a kustomization
    Phases,
    /// Phases, and Flux Kustomizations that wait for each other
    Flux,
    /// Phases, and sync waves for Argo CD
    #[value(alias = "argocd")]
    Argo,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum PhaseWord {
    PreInstall,
    Main,
    PostInstall,
}

impl From<PhaseWord> for InstallPhase {
    fn from(word: PhaseWord) -> Self {
        match word {
            PhaseWord::PreInstall => Self::PreInstall,
            PhaseWord::Main => Self::Main,
            PhaseWord::PostInstall => Self::PostInstall,
        }
    }
}

pub fn run(args: &Args, session: &Session) -> anyhow::Result<Exit> {
    let form = &args.form;
    let directory = form.output_dir.as_deref();
    let format = form.format.unwrap_or(if directory.is_some() { Format::Phases } else { Format::Stream });
    if directory.is_none() && !matches!(format, Format::Stream | Format::Argo) {
        let problem = Problem::error("this format is made of several files")
            .hint("say where to write them: --output-dir DIR");
        return Err(UsageError(problem.into()).into());
    }
    let mut built = args.selected.load()?.build(&args.selected.inputs_with(args.reveal.mode()?, session)?)?;
    form.filter(&mut built);
    warn_of(&built, session);
    let emit = EmitOptions { sort_keys: form.sort_keys };
    let Some(directory) = directory else {
        if format == Format::Argo {
            let (waved, warnings) = built.with_waves();
            warn(&warnings);
            built = waved;
        }
        let text = if session.output() == Output::Json { built.json_list() } else { built.stream(emit) };
        args.reveal.print(&text)?;
        return Ok(Exit::Done);
    };
    let files = args.files(&built, format, emit)?;
    let foreign = if form.force { ForeignFiles::Kept } else { ForeignFiles::Refused };
    let plan = plan_directory(&built, &files, &existing(directory)?, foreign).map_err(|problem| Problem {
        message: format!("{}: {}", directory.display(), problem.message),
        ..problem
    })?;
    write(directory, &plan.write)?;
    for path in &plan.delete {
        let path = directory.join(path);
        fs::remove_file(&path).with_context(|| format!("remove {}", path.display()))?;
        say!("removed {}", path.display());
    }
    Ok(Exit::Done)
}

impl Args {
    fn files(&self, built: &PackageBuild, format: Format, emit: EmitOptions) -> anyhow::Result<Vec<OutFile>> {
        Ok(match format {
            Format::Stream => built.files(FileLayout::Flat, emit),
            Format::Files => built.files(FileLayout::ByResource, emit),
            Format::Kinds => built.files(FileLayout::ByKind, emit),
            Format::Phases => built.files(FileLayout::Phases, emit),
            Format::Flux => {
                let flux = &self.flux;
                let options = FluxOptions {
                    source: flux.flux_source.clone(),
                    interval: flux.flux_interval.clone(),
                    path_prefix: flux.flux_path_prefix.clone(),
                    namespace: flux.flux_namespace.clone(),
                };
                built.flux(&options, emit)?
            }
            Format::Argo => {
                let app = match &self.argocd_app {
                    None => None,
                    Some(text) => Some(ArgoApp::parse(text).ok_or_else(|| {
                        let problem = Problem::error(format!("`{text}` names no repository and path"))
                            .hint("write --argocd-app REPO,PATH or REPO,PATH,REVISION");
                        UsageError(problem.into())
                    })?),
                };
                let (files, warnings) = built.argo(app.as_ref(), emit);
                warn(&warnings);
                files
            }
        })
    }
}

impl FormFlags {
    /// Keeps what was asked for, and says that the rest is missing.
    fn filter(&self, built: &mut PackageBuild) {
        if self.phase.is_empty() && self.kind.is_empty() && self.name.is_empty() {
            return;
        }
        let all = built.objects.len();
        built.objects.retain(|object| {
            (self.phase.is_empty()
                || self.phase.iter().any(|phase| InstallPhase::from(*phase) == object.phase))
                && (self.kind.is_empty()
                    || self.kind.iter().any(|kind| kind.eq_ignore_ascii_case(&object.id.kind)))
                && (self.name.is_empty() || self.name.contains(&object.id.name))
        });
        say!("partial: {} of {all} objects", built.objects.len());
    }
}

/// Every file below a directory, by its path in it. Links to directories are not followed.
fn existing(root: &Path) -> anyhow::Result<BTreeMap<String, Vec<u8>>> {
    let mut found = BTreeMap::new();
    let mut pending = vec![root.to_owned()];
    while let Some(directory) = pending.pop() {
        let entries = match fs::read_dir(&directory) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            entries => entries.with_context(|| format!("read {}", directory.display()))?,
        };
        for entry in entries {
            let entry = entry?;
            let path = entry.path();
            if entry.file_type()?.is_dir() {
                pending.push(path);
            } else if let Some(name) = path.strip_prefix(root).ok().map(slashed) {
                // A link that leads nowhere is somebody's file all the same.
                found.insert(name, slipway_problem::read_file(&path).unwrap_or_default());
            }
        }
    }
    Ok(found)
}

fn slashed(path: &Path) -> String {
    let parts: Vec<_> = path.components().map(|part| part.as_os_str().to_string_lossy()).collect();
    parts.join("/")
}

/// Writes files below a directory.
pub fn write(directory: &Path, files: &[OutFile]) -> anyhow::Result<()> {
    for file in files {
        let path = directory.join(&file.path);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).with_context(|| format!("create {}", parent.display()))?;
        }
        files::replace(&path, file.text.as_bytes())?;
        say!("wrote {}", path.display());
    }
    Ok(())
}
