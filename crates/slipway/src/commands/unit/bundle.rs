//! `slipway unit bundle`: makes a unit.

use std::path::{Path, PathBuf};

use slipway_event::SystemClock;
use slipway_manifest::image::{ImageReference, InvalidImage};
use slipway_problem::Problem;
use slipway_stack::Git;
use slipway_unit::{
    BuilderCommand, BundleContext, BundleRequest, ImageInput, ImageMapping, InferredBindings,
    NondeterministicFields, PinMode, RegistryImages, SourceRevision, read_layout,
};

use super::flags::{LoadFlags, UnitPolicyFlags};
use super::{fail, settings, text};
use crate::charts;
use crate::commands::flags::{CapabilityFlags, SourceFlags, ValueFlags, notes};
use crate::commands::words::source_word;
use crate::config;
use crate::exit::{Exit, UsageError};
use crate::files;
use crate::help::Usual;
use crate::interrupt::Interrupt;
use crate::session::Session;
use crate::term::{report, show};

/// Make a unit: source, values, image digests and everything they render to, sealed in one file
///
/// The source is rendered twice without secrets: what differs is refused. Images are bound to their places in the values
/// and each binding is proven by rendering with it. Values keep references to secrets, never secrets.
#[derive(Debug, clap::Args)]
pub struct BundleArgs {
    /// The release's name
    name: String,

    /// Chart, package, kustomization or manifests [default: this directory, if it is one of the first three]
    #[arg(value_name = "SOURCE")]
    reference: Option<String>,

    /// File to write the unit to
    #[arg(short = 'O', long = "to-file", value_name = "FILE", add = Usual)]
    file: PathBuf,

    /// File with overlay slots and the strategy of the rollout
    #[arg(long, value_name = "FILE", add = Usual)]
    settings: Option<PathBuf>,

    /// Environment the unit is bundled for
    #[arg(long, value_name = "NAME", add = Usual)]
    env: Option<String>,

    /// Bring in missing dependencies first
    #[arg(long)]
    dependency_update: bool,

    /// Leave fields that differ at every rendering out of the proof instead of refusing them
    #[arg(long)]
    allow_nondeterministic: bool,

    /// Digest of the unit this one follows
    #[arg(long, value_name = "DIGEST")]
    parent: Option<String>,

    #[command(flatten)]
    values: ValueFlags,

    #[command(flatten)]
    source: SourceFlags,

    #[command(flatten)]
    load: LoadFlags,

    #[command(flatten)]
    capabilities: CapabilityFlags,

    /// Image and its digest, or its tag to be looked up: `NAME=REPOSITORY[:TAG][@DIGEST]`; may be repeated
    #[arg(long, value_name = "NAME=REF", help_heading = "Images")]
    image: Vec<String>,

    /// Image in an OCI layout on disk: NAME=REPOSITORY:TAG=DIRECTORY; may be repeated
    #[arg(long, value_name = "NAME=REF=DIR", help_heading = "Images")]
    image_layout: Vec<String>,

    /// Image to build from a directory: NAME=REPOSITORY:TAG=CONTEXT; may be repeated
    #[arg(long, value_name = "NAME=REF=DIR", help_heading = "Images", requires = "builder")]
    build: Vec<String>,

    /// Program that builds and pushes an image and writes its metadata file, with {{context}}, {{ref}}, {{name}} and {{metadata}}
    #[arg(long, value_name = "COMMAND", help_heading = "Images", env = "SLIPWAY_UNIT_BUILDER")]
    builder: Option<String>,

    /// File that says where images belong
    #[arg(long, value_name = "FILE", help_heading = "Images")]
    image_map: Option<PathBuf>,

    /// Accept bindings that rest on a name alone
    #[arg(long, help_heading = "Images")]
    accept_inferred: bool,

    /// Ask registries for the digests of all other images too
    #[arg(long, help_heading = "Images")]
    pin_all: bool,

    #[command(flatten)]
    policy: UnitPolicyFlags,
}

pub fn run(args: &BundleArgs, session: &Session) -> anyhow::Result<Exit> {
    let reference = source_word("unit bundle", Some(&args.name), args.reference.as_deref())?;
    let fetched = charts::fetch(&args.source.request(&reference, args.dependency_update))?;
    notes(&fetched.notes, session);
    let settings = match &args.settings {
        Some(path) => settings::read(path)?,
        None => settings::UnitSettings::default(),
    };
    let mapping = match &args.image_map {
        Some(path) => {
            let text = files::read_text(path)?;
            ImageMapping::parse(&text.text, &text.name)?
        }
        None => ImageMapping::default(),
    };
    let namespace = session.settings.namespace.value.clone().unwrap_or_else(|| "default".to_owned());
    let request = BundleRequest {
        revision: revision_of(fetched.source.path()),
        source: fetched.source,
        reference,
        values: args.values.collect_with(&args.source.access)?,
        release: args.name.as_str().into(),
        namespace: namespace.into(),
        env: args.env.clone(),
        capabilities: args.capabilities.capabilities()?,
        images: args.images()?,
        builds: args.builds()?,
        mapping,
        inferred: if args.accept_inferred { InferredBindings::Accept } else { InferredBindings::Refuse },
        pin: if args.pin_all { PinMode::All } else { PinMode::Inputs },
        nondeterministic: match args.allow_nondeterministic {
            true => NondeterministicFields::Allow,
            false => NondeterministicFields::Refuse,
        },
        strategy: settings.strategy,
        overlay_slots: settings.overlay_slots,
        policies: args.policy.load()?,
        parent: args.parent.clone(),
        settings: args.load.settings(),
    };
    let remote = args.source.remote();
    let images = RegistryImages::new(move |host: &str| {
        let client = remote.client_for(&slipway_chart::repo::RepositoryEntry::default())?;
        Ok((client, remote.credentials_for(host)?))
    });
    let masked = args.load.masked("unit bundle", session);
    let builder = format!("{}@{}", config::user_name(), config::machine_name());
    let context = BundleContext {
        masked: &masked,
        images: Some(&images),
        redactor: session.redactor(),
        clock: &SystemClock,
        tool: concat!("slipway ", env!("CARGO_PKG_VERSION")),
        builder: &builder,
    };
    let made = session
        .block_on(async { slipway_unit::bundle(request, &context, &args.file).await.map_err(fail) })?;
    made.warnings.iter().for_each(report::show);
    show::show(session.output(), &made, text::bundle_text)?;
    Ok(Exit::Done)
}

fn usage(problem: Problem) -> anyhow::Error {
    UsageError(problem.into()).into()
}

/// Takes `NAME=REF=DIR` apart.
fn named_directory(text: &str) -> anyhow::Result<(String, ImageReference, PathBuf)> {
    let mut parts = text.splitn(3, '=');
    match (parts.next(), parts.next(), parts.next()) {
        (Some(name), Some(reference), Some(directory)) if !name.is_empty() => {
            let reference = reference.parse().map_err(|error: InvalidImage| usage(error.into()))?;
            Ok((name.to_owned(), reference, PathBuf::from(directory)))
        }
        _ => {
            let problem = Problem::error(format!("`{text}` is not NAME=REPOSITORY:TAG=DIRECTORY"));
            Err(usage(problem.hint("for example: api=ghcr.io/acme/api:1.4=./api")))
        }
    }
}

impl BundleArgs {
    fn images(&self) -> anyhow::Result<Vec<ImageInput>> {
        let mut images = Vec::new();
        for text in &self.image {
            images.push(ImageInput::parse(text).map_err(usage)?);
        }
        for text in &self.image_layout {
            let (name, reference, directory) = named_directory(text)?;
            images.push(read_layout(&name, &reference, &directory).map_err(fail)?);
        }
        Ok(images)
    }

    fn builds(&self) -> anyhow::Result<Vec<BuilderCommand>> {
        let words = self.builder.as_deref().unwrap_or_default();
        let command: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        let mut builds = Vec::new();
        for text in &self.build {
            let (name, reference, context) = named_directory(text)?;
            let cancel = Interrupt::listen()?.token().clone();
            builds.push(BuilderCommand { name, reference, context, command: command.clone(), cancel });
        }
        Ok(builds)
    }
}

/// The commit a source on this machine is at.
fn revision_of(path: &Path) -> Option<SourceRevision> {
    let root = if path.is_dir() { path } else { path.parent()? };
    let head = Git::default().head(root)?;
    Some(SourceRevision { url: String::new(), commit: head.commit?, is_dirty: head.dirty })
}
