//! Loads a source: everything it is made of is read once and kept, so that what is planned is what is applied.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use serde_json::{Map, Value};
use slipway_chart::explain::{self, FieldExplanation, FieldQuery};
use slipway_chart::lint::{self, LintOptions, LintReport};
use slipway_chart::secret::SecretFiles;
use slipway_chart::{
    Chart, ChartInput, ChartProgram, CrdFile, LoadOptions, Notices, RenderOptions, RenderedChart,
    RootContext, SchemaSource, UserValues,
};
use slipway_event::Redactor;
use slipway_gotmpl::{RenderLimits, TemplateHost};
use slipway_journal::digest;
use slipway_package::Package;
use slipway_problem::Problem;
use slipway_secrets::NodeContext;

use crate::decrypt::{Decryption, decrypt_chart, has_own_values, remove_own_values};
use crate::detect::{SourcePath, manifest_files};
use crate::document::{Document, DocumentReader, RecordPart, lossy_text};
use crate::error::LoadError;
use crate::fetch::{Fetcher, OfflineFetcher};
use crate::host::SourceHost;
use crate::origin::DocumentOrigin;
use crate::render::{PostRenderer, TemplateFiles};
use crate::values::{SecretContext, SecretResolver, SourceValues};

/// The context every source of a command is loaded with.
#[derive(Clone)]
pub struct LoadContext {
    /// Brings charts and values files from elsewhere.
    pub fetcher: Arc<dyn Fetcher>,
    pub decryption: Decryption,
    /// Resolves references to secrets; none leaves them as they are.
    pub resolver: Option<Arc<dyn SecretResolver>>,
    /// Told every decrypted value.
    pub redactor: Redactor,
}

impl Default for LoadContext {
    /// Neither a network nor secrets.
    fn default() -> Self {
        let (decryption, redactor) = (Decryption::default(), Redactor::default());
        Self { fetcher: Arc::new(OfflineFetcher), decryption, resolver: None, redactor }
    }
}

impl fmt::Debug for LoadContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoadContext")
            .field("decryption", &self.decryption)
            .field("resolver", &self.resolver)
            .finish_non_exhaustive()
    }
}

/// The values a chart itself brings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DefaultValues {
    #[default]
    Keep,
    /// Those of its subcharts stay.
    LeaveOut,
}

/// The user's request for one source.
#[derive(Clone, Debug, Default)]
pub struct SourceRequest {
    pub values: UserValues,
    /// Encrypted values files besides the chart's own.
    pub secret_values: Vec<PathBuf>,
    pub default_values: DefaultValues,
    /// The encrypted values a chart itself brings.
    pub default_secret_values: DefaultValues,
    /// The version of what a chart installs, instead of the one it says.
    pub app_version: Option<String>,
    /// The digest a chart archive must have, `sha256:…`.
    pub digest: Option<String>,
    /// The release the values are for: policies on secrets are compared with it, audit lines name it.
    pub node: NodeContext,
    pub settings: RenderSettings,
}

/// The parts of a rendering that depend on the user, not on the cluster.
#[derive(Clone, Default)]
pub struct RenderSettings {
    /// Answers what templates ask of this machine: time, names, randomness.
    pub host: Option<Arc<dyn TemplateHost + Send + Sync>>,
    /// Rewrites manifests; hooks do not pass through it.
    pub post_renderer: Option<Arc<dyn PostRenderer>>,
    /// Keys of `$` besides Helm's own.
    pub root: RootContext,
    /// Bounds what rendering a chart may consume.
    pub limits: RenderLimits,
    /// Fetches schemas a chart refers to by address.
    pub schemas: Option<Arc<dyn SchemaSource>>,
}

impl fmt::Debug for RenderSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RenderSettings").field("limits", &self.limits).finish_non_exhaustive()
    }
}

/// A source that was read, with its values.
#[derive(Debug)]
pub struct LoadedSource {
    pub(crate) path: PathBuf,
    /// Shared by sources that differ in their values alone.
    pub(crate) content: Arc<SourceContent>,
    pub(crate) values: SourceValues,
    secret_values: Vec<PathBuf>,
    node: NodeContext,
    pub(crate) settings: RenderSettings,
    /// Notices found while reading it.
    pub(crate) notices: Notices,
}

/// The content of a source, by kind.
#[derive(Debug)]
pub enum SourceContent {
    Chart(Box<LoadedChart>),
    Package(Box<Package>),
    Kustomization(slipway_kustomize::Build),
    Manifests(Vec<Document>),
}

/// A chart with its decrypted files.
pub struct LoadedChart {
    program: ChartProgram,
    secret_files: Option<SecretFiles>,
    template_files: OnceLock<TemplateFiles>,
}

impl fmt::Debug for LoadedChart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoadedChart").field("program", &self.program).finish_non_exhaustive()
    }
}

impl LoadedSource {
    /// Reads a source and its encrypted values. What Helm would have logged goes to `notices`, whatever the end.
    pub fn load(
        path: &SourcePath,
        request: SourceRequest,
        context: &LoadContext,
        notices: &mut Notices,
    ) -> Result<Self, LoadError> {
        let before = notices.len();
        let SourceRequest { values, secret_values, default_values, default_secret_values, .. } = request;
        let SourceRequest { app_version, digest, node, settings, .. } = request;
        let secrets = SecretContext { resolver: context.resolver.as_deref(), node: &node };
        let (content, values) = match path {
            SourcePath::Chart(path) => {
                let mut chart = load_chart(path, digest, notices)?;
                if let Some(version) = app_version {
                    chart.metadata.app_version = version;
                }
                if default_values == DefaultValues::LeaveOut {
                    chart.values.clear();
                }
                if default_secret_values == DefaultValues::LeaveOut {
                    remove_own_values(&mut chart);
                }
                let LoadContext { decryption, redactor, .. } = context;
                let decrypted =
                    decrypt_chart(&chart, &values, &secret_values, decryption, redactor, notices)?;
                let values = SourceValues::of_chart(values, decrypted.values, &secrets)?;
                let loaded = LoadedChart {
                    program: ChartProgram::new(chart),
                    secret_files: decrypted.files,
                    template_files: OnceLock::new(),
                };
                (SourceContent::Chart(Box::new(loaded)), values)
            }
            SourcePath::Package(path) => {
                let package = Package::load(path, &slipway_package::LoadOptions::default())?;
                (SourceContent::Package(Box::new(package)), SourceValues::of_package(values, &secrets)?)
            }
            SourcePath::Kustomization(path) => {
                let build = slipway_kustomize::build(path, &slipway_kustomize::BuildOptions::default())?;
                (SourceContent::Kustomization(build), SourceValues::default())
            }
            SourcePath::Manifests(path) => {
                (SourceContent::Manifests(read_manifests(path)?), SourceValues::default())
            }
        };
        let notices = notices[before..].to_vec();
        let (path, content) = (path.path().to_owned(), Arc::new(content));
        Ok(Self { path, content, values, secret_values, node, settings, notices })
    }

    /// Gives the same source with other values. Nothing of the source is read again, its templates are parsed once.
    pub fn with_values(&self, values: UserValues, context: &LoadContext) -> Result<Self, LoadError> {
        let secrets = SecretContext { resolver: context.resolver.as_deref(), node: &self.node };
        let values = match &*self.content {
            SourceContent::Chart(loaded) => {
                let LoadContext { decryption, redactor, .. } = context;
                let (chart, named, known) = (loaded.chart(), &self.secret_values, &mut Notices::new());
                let decrypted = decrypt_chart(chart, &values, named, decryption, redactor, known)?;
                SourceValues::of_chart(values, decrypted.values, &secrets)?
            }
            SourceContent::Package(_) => SourceValues::of_package(values, &secrets)?,
            SourceContent::Kustomization(_) | SourceContent::Manifests(_) => SourceValues::default(),
        };
        Ok(Self {
            path: self.path.clone(),
            content: Arc::clone(&self.content),
            values,
            secret_values: self.secret_values.clone(),
            node: self.node.clone(),
            settings: self.settings.clone(),
            notices: self.notices.clone(),
        })
    }

    /// The content that was read.
    pub fn content(&self) -> &SourceContent {
        &self.content
    }

    /// The user's values as a release records them: encrypted values and references to secrets are not in it
    /// in the clear.
    pub fn recorded_values(&self) -> &Map<String, Value> {
        self.values.recorded_values()
    }

    /// Renders a chart as Helm does, before its text is read as objects; none if the source is no chart.
    pub fn render_chart(
        &self,
        options: &RenderOptions,
        host: &dyn TemplateHost,
        notices: &mut Notices,
    ) -> Option<Result<RenderedChart, slipway_chart::ChartError>> {
        let SourceContent::Chart(chart) = &*self.content else { return None };
        let host = SourceHost { lookup: host, machine: host, secret_files: chart.secret_files.as_ref() };
        Some(self.render_templates(chart, self.values.used_values(), options, &host, notices))
    }

    /// Looks a chart directory over with the values it was loaded with; none if the source is no chart.
    pub fn lint_chart(
        &self,
        options: &LintOptions,
        host: &dyn TemplateHost,
        notices: &mut Notices,
    ) -> Option<LintReport> {
        let SourceContent::Chart(chart) = &*self.content else { return None };
        let host = SourceHost { lookup: host, machine: host, secret_files: chart.secret_files.as_ref() };
        Some(lint::lint_chart(&self.path, self.values.used_values(), options, &host, notices))
    }

    /// Explains which template lines and values gave the fields that fit a query; none if the source is no chart.
    pub fn explain_chart(
        &self,
        options: &RenderOptions,
        host: &dyn TemplateHost,
        query: &FieldQuery,
    ) -> Option<Result<Vec<FieldExplanation>, slipway_chart::ChartError>> {
        let SourceContent::Chart(chart) = &*self.content else { return None };
        let host = SourceHost { lookup: host, machine: host, secret_files: chart.secret_files.as_ref() };
        Some(explain::explain(&chart.program, self.values.user_inputs(), options, &host, query))
    }

    /// Renders templates, and passes manifests through the post-renderer.
    pub(crate) fn render_templates(
        &self,
        chart: &LoadedChart,
        values: &Map<String, Value>,
        options: &RenderOptions,
        host: &SourceHost<'_>,
        notices: &mut Notices,
    ) -> Result<RenderedChart, slipway_chart::ChartError> {
        let mut rendered = chart.program.render_with(values, options, host, notices)?;
        if let Some(post_renderer) = &self.settings.post_renderer {
            rendered.post_render(options, |text| post_renderer.rewrite(text))?;
        }
        Ok(rendered)
    }
}

impl LoadedChart {
    /// The chart.
    pub fn chart(&self) -> &Chart {
        self.program.chart()
    }

    /// Checks values against the schemas of the chart and its subcharts. Schemas by address are not fetched.
    pub fn check_values(&self, values: &Map<String, Value>) -> Result<(), slipway_chart::ChartError> {
        self.program.check_values(values, None)
    }

    /// Returns true if the chart brings encrypted values.
    pub fn has_encrypted_values(&self) -> bool {
        has_own_values(self.chart())
    }

    /// Its definitions that come with values, by the charts that take part.
    pub(crate) fn enabled_crds(
        &self,
        values: &Map<String, Value>,
    ) -> Result<Vec<CrdFile>, slipway_chart::ChartError> {
        self.program.enabled_crds(values)
    }

    /// Its templates and those of its subcharts.
    pub(crate) fn template_files(&self) -> &TemplateFiles {
        self.template_files.get_or_init(|| TemplateFiles::from_chart(self.chart()))
    }

    /// Its files under `secret/`, if they could be decrypted.
    pub(crate) fn secret_files(&self) -> Option<&SecretFiles> {
        self.secret_files.as_ref()
    }
}

/// Reads a chart; of one with a digest, the bytes that are checked are the bytes that are used.
fn load_chart(path: &Path, digest: Option<String>, notices: &mut Notices) -> Result<Chart, LoadError> {
    let options = LoadOptions::default();
    let Some(digest) = digest else { return Ok(Chart::load_with(path, &options, notices)?) };
    match slipway_problem::read_file(path) {
        Ok(bytes) if digest::bytes(&bytes) == digest => {
            Ok(Chart::load_with(ChartInput::Archive(&bytes), &options, notices)?)
        }
        _ => Err(LoadError::Digest { path: path.display().to_string(), digest }),
    }
}

/// Reads a file of manifests, or those in a directory in order.
fn read_manifests(path: &Path) -> Result<Vec<Document>, LoadError> {
    let mut reader = DocumentReader::default();
    for file in manifest_files(path) {
        let name: Arc<str> = file.display().to_string().into();
        match slipway_problem::read_file(&file) {
            Ok(bytes) => {
                let text: Arc<str> = lossy_text(&bytes).into();
                for part in slipway_chart::split_documents(&bytes) {
                    let origin = DocumentOrigin::with_text(Arc::clone(&name), Arc::clone(&text));
                    reader.read_document(&lossy_text(part), origin, RecordPart::Regular);
                }
            }
            Err(error) => reader.report_problem(Problem::error(format!("cannot read: {error}")), &name),
        }
    }
    Ok(reader.finish()?)
}
