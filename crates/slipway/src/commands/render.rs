//! `slipway render [NAME] SOURCE`: what a source becomes, on standard output.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use schemars::JsonSchema;
use serde::Serialize;
use slipway_chart::explain::{self, FieldExplanation, FieldQuery};
use slipway_chart::{Notices, RenderOptions, RenderedChart};
use slipway_gotmpl::TemplateHost;
use slipway_problem::Problem;
use slipway_release::validate::ExistingObjects;
use slipway_source::{LoadedSource, OfflineFetcher, SourceContent, SourcePath, SourceRequest};

use super::flags::{CapabilityFlags, DefaultsFlags, NameFlags, RootFlags, SourceFlags, ValueFlags, notes};
use super::host::RenderHost;
use super::inputs::{PostRenderFlags, SecretFlags, TemplateFlags};
use super::metadata::MetadataFlags;
use super::validate::Live;
use crate::charts;
use crate::cli::Output;
use crate::commands::secrets::flags::{ReferenceFlags, RevealFlag};
use crate::commands::secrets::resolution::ReferenceResolver;
use crate::exit::Exit;
use crate::help::Usual;
use crate::session::Session;
use crate::term::show;
use crate::term::style::{BOLD, DIM, paint};

/// Render a chart, package or kustomization to YAML
///
/// Takes the words of `helm template` and prints the same bytes.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The release's name and the source, or the source alone
    #[arg(value_name = "[NAME] SOURCE", required = true, num_args = 1..=2)]
    words: Vec<String>,

    /// Render for the cluster, and check that it serves every kind and that nothing is in the way
    #[arg(long)]
    validate: bool,

    /// With `server`, let `lookup` ask the cluster; nothing is ever written
    #[arg(long, value_name = "HOW", num_args = 0..=1, require_equals = true, default_missing_value = "client",
        value_parser = ["client", "server", "none", "true", "false"],
        add = Usual
    )]
    dry_run: Option<String>,

    /// With --validate, do not mind objects that belong to nobody or another release
    #[arg(long, alias = "force-adoption")]
    take_ownership: bool,

    /// Bring in missing dependencies first
    #[arg(long)]
    dependency_update: bool,

    /// Let `getHostByName` ask the name service
    #[arg(long, alias = "templates-allow-dns")]
    enable_dns: bool,

    /// Version of what the chart installs, instead of the chart's appVersion
    #[arg(long, value_name = "VERSION")]
    app_version: Option<String>,

    /// Say which template line and which value produced a field: `Deployment/web:spec.replicas`
    #[arg(long, value_name = "[OBJECT:]FIELD", add = Usual)]
    explain: Option<String>,

    /// Make random functions and the time repeatable
    #[arg(long, value_name = "N")]
    seed: Option<u64>,

    /// Only what these templates produce
    #[arg(short = 's', long, value_name = "TEMPLATE", add = Usual)]
    show_only: Vec<String>,

    /// Put the definitions of crds/ before everything else
    #[arg(long)]
    include_crds: bool,

    /// Leave the definitions of crds/ out
    #[arg(long)]
    skip_crds: bool,

    /// Leave hooks out
    #[arg(long, add = Usual)]
    no_hooks: bool,

    /// Leave tests out
    #[arg(long)]
    skip_tests: bool,

    /// Set .Release.IsUpgrade instead of .Release.IsInstall
    #[arg(long)]
    is_upgrade: bool,

    /// Do not check values against the chart's schema
    #[arg(long)]
    skip_schema_validation: bool,

    /// Write a file per template here instead of standard output
    #[arg(long, value_name = "DIR")]
    output_dir: Option<PathBuf>,

    /// Put the files under a directory named for the release
    #[arg(long, requires = "output_dir")]
    release_name: bool,

    /// Notes of subcharts as well (notes are not part of the output)
    #[arg(long, hide = true)]
    render_subchart_notes: bool,

    /// Show the output even when it is not valid YAML
    #[arg(long)]
    debug: bool,

    #[command(flatten)]
    naming: NameFlags,

    #[command(flatten)]
    ignored: IgnoredFlags,

    #[command(flatten)]
    values: ValueFlags,

    #[command(flatten)]
    root: RootFlags,

    #[command(flatten)]
    defaults: DefaultsFlags,

    #[command(flatten)]
    metadata: MetadataFlags,

    #[command(flatten)]
    capabilities: CapabilityFlags,

    #[command(flatten)]
    source: SourceFlags,

    #[command(flatten)]
    secrets: SecretFlags,

    #[command(flatten)]
    references: ReferenceFlags,

    #[command(flatten)]
    reveal: RevealFlag,

    #[command(flatten)]
    templates: TemplateFlags,

    #[command(flatten)]
    post: PostRenderFlags,
}

/// Flags of `helm template` that change nothing of what it prints.
#[derive(Debug, Default, clap::Args)]
struct IgnoredFlags {
    #[arg(long, hide = true)]
    atomic: bool,
    #[arg(long, hide = true)]
    create_namespace: bool,
    #[arg(long, hide = true)]
    description: Option<String>,
    #[arg(long, hide = true)]
    disable_openapi_validation: bool,
    #[arg(long, hide = true)]
    force: bool,
    #[arg(long, hide = true)]
    hide_notes: bool,
    #[arg(short = 'l', long, hide = true)]
    release_labels: Vec<String>,
    #[arg(long, hide = true)]
    replace: bool,
    #[arg(long, hide = true)]
    timeout: Option<String>,
    #[arg(long, hide = true)]
    wait: bool,
    #[arg(long, hide = true)]
    wait_for_jobs: bool,
}

pub fn run(args: &Args, session: &Session) -> anyhow::Result<Exit> {
    let (name, path) = match args.words.as_slice() {
        [source] => (None, source.as_str()),
        [name, source] => (Some(name.as_str()), source.as_str()),
        _ => bail!("render takes a source, or a name and a source"),
    };
    let fetched = charts::fetch(&args.source.request(path, args.dependency_update))?;
    notes(&fetched.notes, session);
    let (result, notices) = render(args, name, path, &fetched.source, session);
    if session.verbosity > crate::logs::Verbosity::Quiet {
        for notice in &notices {
            say!("{notice}");
        }
    }
    result.map(|()| Exit::Done)
}

/// Loads a source and prints what it becomes; gives what Helm would have logged on the way, whatever the end.
fn render(
    args: &Args,
    name: Option<&str>,
    reference: &str,
    source: &SourcePath,
    session: &Session,
) -> (anyhow::Result<()>, Notices) {
    let mut notices = Notices::new();
    let references = match args.reveal.mode() {
        Ok(mode) => ReferenceResolver::new(&args.references, mode, "render", session),
        Err(error) => return (Err(error), notices),
    };
    let result = load(args, source, &references, session, &mut notices).and_then(|loaded| {
        // Not taken apart at the end: the process is about to give everything back at once.
        let loaded = std::mem::ManuallyDrop::new(loaded);
        match loaded.content() {
            SourceContent::Chart(_) => chart(args, name, reference, &loaded, session, &mut notices),
            SourceContent::Kustomization(build) => super::kustomize::print(build),
            SourceContent::Package(package) => {
                let ValueFlags { values, set, set_string, set_json, .. } = &args.values;
                let sets: [&[String]; 3] = [set, set_string, set_json];
                super::package::print(package, values, sets, &references, args.reveal, session)
            }
            SourceContent::Manifests(_) => {
                let problem = Problem::error("these are plain manifests, which need no rendering");
                let at = slipway_problem::Location::file(source.path().display().to_string());
                Err(problem.at(at).hint("`slipway plan` and `slipway apply` take them as they are").into())
            }
        }
    });
    (result, notices)
}

/// Reads the source and, of a chart, its values.
fn load(
    args: &Args,
    source: &SourcePath,
    references: &ReferenceResolver,
    session: &Session,
    notices: &mut Notices,
) -> anyhow::Result<LoadedSource> {
    let mut request = SourceRequest::default();
    if matches!(source, SourcePath::Chart(_)) {
        request.values = args.values.collect_with(&args.source.access)?;
        request.secret_values.clone_from(&args.secrets.secret_values);
        request.settings.post_renderer = args.post.post_renderer();
        request.default_values = args.defaults.values();
        request.default_secret_values = args.defaults.secret_values();
        request.app_version.clone_from(&args.app_version);
    }
    let context =
        charts::load_context_with(OfflineFetcher, args.secrets.decryption(), references.clone(), session);
    LoadedSource::load(source, request, &context, notices).map_err(charts::load_failure)
}

fn chart(
    args: &Args,
    name: Option<&str>,
    reference: &str,
    loaded: &LoadedSource,
    session: &Session,
    notices: &mut Notices,
) -> anyhow::Result<()> {
    let mut host = RenderHost::new(args.seed, args.enable_dns);
    let mut options = options(args, name, reference, &host, session)?;
    let live = live(args, session)?;
    if let Some(live) = live.as_ref().filter(|_| args.validate) {
        options.capabilities = live.capabilities()?;
    }
    // Helm's own switch: what is validated need not be looked up, and the other way round.
    if matches!(args.dry_run.as_deref(), Some("server" | "none" | "false")) {
        host.live.clone_from(&live);
    }
    match &args.explain {
        Some(query) => explain_field(loaded, &options, &host, query, session.output()),
        None => print(args, loaded, &options, &host, live.as_deref(), notices),
    }
}

/// The cluster, if a flag wants one.
fn live(args: &Args, session: &Session) -> anyhow::Result<Option<Arc<Live>>> {
    if !args.validate && !matches!(args.dry_run.as_deref(), Some("server" | "none" | "false")) {
        return Ok(None);
    }
    Ok(Some(Arc::new(Live::connect(session)?)))
}

fn options(
    args: &Args,
    name: Option<&str>,
    path: &str,
    host: &dyn TemplateHost,
    session: &Session,
) -> anyhow::Result<RenderOptions> {
    let mut options = RenderOptions {
        is_upgrade: args.is_upgrade,
        capabilities: args.capabilities.capabilities()?,
        skip_schema_validation: args.skip_schema_validation,
        include_crds: args.include_crds && !args.skip_crds,
        no_hooks: args.no_hooks,
        skip_tests: args.skip_tests,
        show_only: args.show_only.clone(),
        subchart_notes: args.render_subchart_notes,
        root: args.root.context()?,
        limits: args.templates.limits(),
        schemas: args.templates.schemas(),
        ..RenderOptions::default()
    };
    if let Some(namespace) = &session.settings.namespace.value {
        options.namespace.clone_from(namespace);
    }
    if let Some(made) = args.naming.make_name(name, path, host)? {
        options.name = made;
    } else if let Some(name) = name {
        name.clone_into(&mut options.name);
    }
    Ok(options)
}

fn print(
    args: &Args,
    loaded: &LoadedSource,
    options: &RenderOptions,
    host: &dyn TemplateHost,
    live: Option<&Live>,
    notices: &mut Notices,
) -> anyhow::Result<()> {
    let mut rendered = loaded.render_chart(options, host, notices).context("the source is no chart")??;
    args.metadata.add_to(&mut rendered)?;
    if let Some(live) = live.filter(|_| args.validate) {
        let existing = match args.take_ownership {
            true => ExistingObjects::Allowed,
            false => ExistingObjects::MustBelong,
        };
        live.check(&rendered, options, existing)?;
    }
    if let Some(directory) = &args.output_dir {
        let directory = if args.release_name { directory.join(&options.name) } else { directory.clone() };
        return write_files(&rendered, options, &directory);
    }
    let written = show::data(rendered.template_output(options)?.concat());
    // Not taken apart at the end: the process is about to give everything back at once.
    std::mem::forget(rendered);
    written
}

/// Writes the documents of each template to a file of its own, as Helm does.
fn write_files(rendered: &RenderedChart, options: &RenderOptions, directory: &Path) -> anyhow::Result<()> {
    let crds =
        rendered.crds.iter().filter(|_| options.include_crds).map(|crd| (&crd.path, &crd.file.data[..]));
    let manifests = rendered.manifests.iter().map(|manifest| (&manifest.path, &manifest.content[..]));
    let hooks =
        rendered.hooks.iter().filter(|hook| !(options.no_hooks || options.skip_tests && hook.is_test()));
    let hooks = hooks.map(|hook| (&hook.manifest.path, &hook.manifest.content[..]));
    let mut begun = BTreeSet::new();
    for (name, content) in crds.chain(manifests).chain(hooks) {
        let path = directory.join(name);
        let failed = || format!("write {}", path.display());
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).with_context(failed)?;
        }
        let mut open = fs::OpenOptions::new();
        open.create(true).write(true);
        if begun.insert(name.clone()) {
            open.truncate(true)
        } else {
            open.append(true)
        };
        let mut file = open.open(&path).with_context(failed)?;
        let text = [b"---\n# Source: ", name.as_bytes(), b"\n", content, b"\n"].concat();
        file.write_all(&text).with_context(failed)?;
        show::print(&format!("wrote {}\n", path.display()))?;
    }
    show::print("\n")
}

fn explain_field(
    loaded: &LoadedSource,
    options: &RenderOptions,
    host: &dyn TemplateHost,
    query: &str,
    output: Output,
) -> anyhow::Result<()> {
    let parsed = FieldQuery::parse(query)?;
    let found = loaded.explain_chart(options, host, &parsed).context("the source is no chart")??;
    if found.is_empty() {
        bail!(
            Problem::error(format!("nothing rendered has the field `{query}`"))
                .hint("name an object and a field of it: `Deployment/web:spec.replicas`")
        );
    }
    let data: Vec<ExplanationView> = found.iter().map(ExplanationView::from).collect();
    show::show(output, &data, |_| found.iter().map(explanation_text).collect())
}

/// The data form of an explanation.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ChartFieldExplanation")]
pub struct ExplanationView {
    object: String,
    field: String,
    value: String,
    template: String,
    lines: Vec<LineView>,
}

/// A line of a template that had a part in a field.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ChartFieldLine")]
struct LineView {
    at: String,
    literal: bool,
    values: Vec<(String, String)>,
    guards: Vec<(String, String)>,
}

impl From<&FieldExplanation> for ExplanationView {
    fn from(found: &FieldExplanation) -> Self {
        let origins = |origins: &[explain::ValueOrigin]| {
            origins.iter().map(|origin| (origin.path.clone(), origin.source.to_string())).collect()
        };
        let lines = found.lines.iter().map(|line| LineView {
            at: line.at.to_string(),
            literal: line.literal,
            values: origins(&line.values),
            guards: origins(&line.guards),
        });
        Self {
            object: found.object.clone(),
            field: found.field.clone(),
            value: found.value.clone(),
            template: found.template.clone(),
            lines: lines.collect(),
        }
    }
}

fn explanation_text(found: &FieldExplanation) -> String {
    let mut text = format!("{} {} = {}\n", paint(BOLD, &found.object), found.field, found.value.trim_end());
    for line in &found.lines {
        let what = if line.literal { "the template's own text" } else { "written" };
        text.push_str(&format!("  {} {what}\n", line.at));
        for origin in &line.values {
            text.push_str(&format!("    {} {} {}\n", origin.path, paint(DIM, "from"), origin.source));
        }
        for origin in &line.guards {
            text.push_str(&format!(
                "    {} {} {} {}\n",
                paint(DIM, "if"),
                origin.path,
                paint(DIM, "from"),
                origin.source
            ));
        }
    }
    text
}
