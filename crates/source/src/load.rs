//! Loads a source: everything it is made of is read once and kept, so that what is planned is what is applied.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Map, Value};
use slipway_chart::explain::{self, FieldExplanation, FieldQuery};
use slipway_chart::secret::SecretFiles;
use slipway_chart::{
    Chart, ChartInput, ChartProgram, LoadOptions, Notices, RenderOptions, RenderedChart, SchemaSource,
    UserValues,
};
use slipway_event::Redactor;
use slipway_gotmpl::{RenderLimits, TemplateHost};
use slipway_journal::digest;
use slipway_package::Package;
use slipway_problem::Problem;
use slipway_secrets::NodeContext;

use crate::decrypt::{Decryption, decrypt, has_own_values};
use crate::detect::{SourcePath, manifest_files};
use crate::document::{Document, DocumentReader, Stored};
use crate::error::LoadError;
use crate::fetch::{Fetcher, Offline};
use crate::host::SourceHost;
use crate::origin::Origin;
use crate::render::PostRenderer;
use crate::values::{SecretContext, SecretResolver, SourceValues};

/// What every source of a command is loaded with.
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
        Self { fetcher: Arc::new(Offline), decryption, resolver: None, redactor }
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

/// What the user wants of one source.
#[derive(Clone, Debug, Default)]
pub struct SourceRequest {
    pub values: UserValues,
    /// Encrypted values files besides the chart's own.
    pub secret_values: Vec<PathBuf>,
    pub default_values: DefaultValues,
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
    pub(crate) content: SourceContent,
    pub(crate) values: SourceValues,
    pub(crate) settings: RenderSettings,
    /// What reading it found worth knowing.
    pub(crate) notices: Notices,
}

/// What was read, by kind.
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
        let SourceRequest { values, secret_values, default_values, app_version, digest, node, settings } =
            request;
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
                let LoadContext { decryption, redactor, .. } = context;
                let decrypted = decrypt(&chart, &values, &secret_values, decryption, redactor, notices)?;
                let values = SourceValues::of_chart(values, decrypted.values, &secrets)?;
                let loaded = LoadedChart { program: ChartProgram::new(chart), secret_files: decrypted.files };
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
        Ok(Self { path: path.path().to_owned(), content, values, settings, notices })
    }

    /// What was read.
    pub fn content(&self) -> &SourceContent {
        &self.content
    }

    /// The user's values as a release records them: encrypted values and references to secrets are not in it
    /// in the clear.
    pub fn recorded_values(&self) -> &Map<String, Value> {
        self.values.recorded()
    }

    /// Renders a chart as Helm does, before its text is read as objects; none if the source is no chart.
    pub fn render_chart(
        &self,
        options: &RenderOptions,
        host: &dyn TemplateHost,
        notices: &mut Notices,
    ) -> Option<Result<RenderedChart, slipway_chart::ChartError>> {
        let SourceContent::Chart(chart) = &self.content else { return None };
        let host = SourceHost { lookup: host, machine: host, secret_files: chart.secret_files.as_ref() };
        Some(self.rendered(chart, self.values.used(), options, &host, notices))
    }

    /// Explains which template lines and values gave the fields that fit a query; none if the source is no chart.
    pub fn explain_chart(
        &self,
        options: &RenderOptions,
        host: &dyn TemplateHost,
        query: &FieldQuery,
    ) -> Option<Result<Vec<FieldExplanation>, slipway_chart::ChartError>> {
        let SourceContent::Chart(chart) = &self.content else { return None };
        let host = SourceHost { lookup: host, machine: host, secret_files: chart.secret_files.as_ref() };
        Some(explain::explain(&chart.program, self.values.inputs(), options, &host, query))
    }

    /// Renders templates, and passes manifests through the post-renderer.
    pub(crate) fn rendered(
        &self,
        chart: &LoadedChart,
        values: &Map<String, Value>,
        options: &RenderOptions,
        host: &SourceHost<'_>,
        notices: &mut Notices,
    ) -> Result<RenderedChart, slipway_chart::ChartError> {
        let mut rendered = chart.program.render_with(values, options, host, notices)?;
        if let Some(post_renderer) = &self.settings.post_renderer {
            rendered.post_render(options, |text| {
                post_renderer.rewrite(text).map_err(|error| error.to_string())
            })?;
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
                let text: Arc<str> = String::from_utf8_lossy(&bytes).into();
                for part in slipway_chart::split(&bytes) {
                    let origin = Origin::with_text(Arc::clone(&name), Arc::clone(&text));
                    reader.read(&String::from_utf8_lossy(part), origin, Stored::Regular);
                }
            }
            Err(error) => reader.report(Problem::error(format!("cannot read: {error}")), &name),
        }
    }
    Ok(reader.finish()?)
}
