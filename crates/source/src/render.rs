//! Renders a loaded source: charts, packages, kustomizations and manifests give the same thing.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use slipway_chart::{Capabilities, Chart, Notices, RenderOptions};
use slipway_gotmpl::{NoHost, TemplateHost};
use slipway_package::{BuildInputs, Package, SetKind, SetValue, ValuesFile};
use slipway_problem::{Problem, ProblemSeverity, Problems};
use slipway_secrets::compare_renders;

use crate::document::{Document, DocumentReader, RecordPart, lossy_text};
use crate::host::{RepeatingHost, SourceHost};
use crate::load::{LoadedChart, LoadedSource, SourceContent};
use crate::mark::mark_secrets;
use crate::origin::{DocumentOrigin, TemplateFile};
use crate::values::ResolvedValues;

/// Rewrites the manifests of a rendering.
pub trait PostRenderer: Send + Sync {
    /// Gives what is used instead of `manifests`.
    fn rewrite(&self, manifests: Vec<u8>) -> Result<Vec<u8>, PostRenderError>;
}

/// Tells why a post-renderer gave nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PostRenderError(pub String);

/// The release and the cluster a source is rendered for.
#[derive(Clone, Copy)]
pub struct RenderContext<'a> {
    pub name: &'a str,
    pub namespace: &'a str,
    pub revision: i64,
    pub is_upgrade: bool,
    pub capabilities: &'a Capabilities,
    /// Leave `crds/` out.
    pub skip_crds: bool,
    pub skip_schema_validation: bool,
    pub subchart_notes: bool,
    /// Answers `lookup`.
    pub cluster: &'a dyn TemplateHost,
}

/// A source as objects.
#[derive(Clone, Debug, Default)]
pub struct RenderedSource {
    pub documents: Vec<Document>,
    pub notes: String,
    /// The metadata of the source, in the form of `Chart.yaml`.
    pub metadata: Map<String, Value>,
    /// The values the source brings.
    pub default_values: Map<String, Value>,
    /// The user's values, as a release records them.
    pub values: Map<String, Value>,
    pub warnings: Problems,
    /// The state of the secrets in it.
    pub secrets: SecretState,
}

/// The state of the secrets in rendered objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SecretState {
    /// There are no references.
    #[default]
    None,
    /// Texts that name them stand in their place.
    Named,
    /// Their values are there.
    Fetched,
}

impl LoadedSource {
    /// Renders it for a release; reads no file and may be called again.
    pub fn render(&self, context: &RenderContext<'_>) -> Result<RenderedSource, Problems> {
        let machine: &dyn TemplateHost = match &self.settings.host {
            Some(host) => &**host,
            None => &NoHost,
        };
        match self.values.resolved_references() {
            None => self.render_values(self.values.used_values(), context, machine),
            Some(values) => self.render_secrets(values, context, machine),
        }
    }

    /// Reads the definitions a chart keeps apart (`crds/`), which a rendering may leave out: they are no templates and
    /// the same every time. Other sources keep none apart.
    pub fn read_definitions(&self) -> Result<Vec<Document>, Problems> {
        let SourceContent::Chart(chart) = &*self.content else { return Ok(Vec::new()) };
        let files = chart.enabled_crds(self.values.used_values());
        let mut reader = DocumentReader::default();
        reader.read_definitions(&files.map_err(chart_problems)?);
        reader.finish()
    }

    /// Renders values that had references, and once more without any secret: the objects are marked with the fields
    /// that hold or depend on one.
    fn render_secrets(
        &self,
        values: &ResolvedValues,
        context: &RenderContext<'_>,
        machine: &dyn TemplateHost,
    ) -> Result<RenderedSource, Problems> {
        let host = RepeatingHost::new(machine);
        let is_fetched = values.is_fetched();
        let used = self.render_values(&values.used, context, &host);
        let mut rendered = if is_fetched { used? } else { used.map_err(without_secrets)? };
        host.repeat();
        let masked = match is_fetched {
            true => self.render_values(&values.masked, context, &host),
            false => Ok(rendered.clone()),
        };
        let masked = match masked {
            Ok(masked) => {
                // Notes are kept in the record and shown as they are.
                rendered.notes = masked.notes;
                masked.documents
            }
            Err(problems) => {
                let warning = |problem| Problem { severity: ProblemSeverity::Warning, ..problem };
                rendered.warnings.extend(without_secrets(problems).into_iter().map(warning));
                rendered.secrets = SecretState::Fetched;
                rendered.notes.clear();
                return Ok(rendered);
            }
        };
        check_objects(&masked, &rendered.documents)?;
        host.repeat();
        // Where the second set of texts does not render, what is derived from a secret stays unknown.
        let varied = self.render_values(&values.varied, context, &host).map(|varied| varied.documents);
        let varied = varied.ok().filter(|varied| check_objects(&masked, varied).is_ok());
        for (index, document) in rendered.documents.iter_mut().enumerate() {
            let Some(masked) = masked.get(index).map(|masked| &masked.object) else { continue };
            let varied = varied.as_ref().and_then(|varied| varied.get(index)).map(|varied| &varied.object);
            mark_secrets(&mut document.object, masked, varied.unwrap_or(masked));
        }
        rendered.secrets = if is_fetched { SecretState::Fetched } else { SecretState::Named };
        Ok(rendered)
    }

    fn render_values(
        &self,
        values: &Map<String, Value>,
        context: &RenderContext<'_>,
        machine: &dyn TemplateHost,
    ) -> Result<RenderedSource, Problems> {
        match &*self.content {
            SourceContent::Chart(chart) => self.chart_objects(chart, values, context, machine),
            SourceContent::Package(package) => self.package_objects(package, values, context),
            SourceContent::Kustomization(build) => {
                let origin: Arc<str> = self.path.join("kustomization.yaml").display().to_string().into();
                let documents = build.objects.iter().map(|object| Document {
                    object: object.clone(),
                    origin: DocumentOrigin::new(Arc::clone(&origin)),
                    stored: RecordPart::Regular,
                });
                Ok(RenderedSource {
                    documents: documents.collect(),
                    metadata: plain_metadata(&self.file_stem(context.name), ""),
                    warnings: build.warnings.iter().cloned().collect(),
                    ..RenderedSource::default()
                })
            }
            SourceContent::Manifests(documents) => Ok(RenderedSource {
                documents: documents.clone(),
                metadata: plain_metadata(&self.file_stem(context.name), ""),
                ..RenderedSource::default()
            }),
        }
    }

    fn chart_objects(
        &self,
        loaded: &LoadedChart,
        values: &Map<String, Value>,
        context: &RenderContext<'_>,
        machine: &dyn TemplateHost,
    ) -> Result<RenderedSource, Problems> {
        let chart = loaded.chart();
        if chart.metadata.is_library() {
            let message = format!("chart `{}` is a library and cannot be released", chart.name());
            return Err(Problem::error(message).into());
        }
        let options = RenderOptions {
            name: context.name.to_owned(),
            namespace: context.namespace.to_owned(),
            is_upgrade: context.is_upgrade,
            revision: context.revision,
            capabilities: context.capabilities.clone(),
            skip_schema_validation: context.skip_schema_validation,
            subchart_notes: context.subchart_notes,
            root: self.settings.root.clone(),
            limits: self.settings.limits.clone(),
            schemas: self.settings.schemas.clone(),
            ..RenderOptions::default()
        };
        let host = SourceHost { lookup: context.cluster, machine, secret_files: loaded.secret_files() };
        let mut notices = self.notices.clone();
        let rendered =
            self.render_templates(loaded, values, &options, &host, &mut notices).map_err(chart_problems)?;
        let files = loaded.template_files();
        let mut reader = DocumentReader::default();
        if !context.skip_crds {
            reader.read_definitions(&rendered.crds);
        }
        match &rendered.post_rendered {
            Some(text) => {
                for part in slipway_chart::split_documents(text) {
                    let part = lossy_text(part);
                    let named = part.lines().find_map(|line| line.strip_prefix("# Source: "));
                    reader.read_document(
                        &part,
                        DocumentOrigin::new(named.unwrap_or("post-renderer")),
                        RecordPart::Regular,
                    );
                }
            }
            None => {
                for manifest in &rendered.manifests {
                    reader.read_document(
                        &manifest.text(),
                        files.origin_of(&manifest.path),
                        RecordPart::Regular,
                    );
                }
            }
        }
        for hook in &rendered.hooks {
            reader.read_document(
                &hook.manifest.text(),
                files.origin_of(&hook.manifest.path),
                RecordPart::Hook,
            );
        }
        Ok(RenderedSource {
            documents: reader.finish()?,
            notes: rendered.notes.trim_end().to_owned(),
            metadata: chart.metadata.to_json().as_object().cloned().unwrap_or_default(),
            default_values: chart.values.clone(),
            values: self.values.recorded_values().clone(),
            warnings: chart_warnings(chart, &notices),
            ..RenderedSource::default()
        })
    }

    fn package_objects(
        &self,
        package: &Package,
        values: &Map<String, Value>,
        context: &RenderContext<'_>,
    ) -> Result<RenderedSource, Problems> {
        let version = context.capabilities.kube_version.version.trim_start_matches('v');
        let inputs = BuildInputs { kube_version: Some(version.to_owned()), ..self.package_inputs(values) };
        let build = package.build(&inputs)?;
        let documents = build.objects.iter().map(|object| Document {
            object: (*object.value).clone(),
            origin: DocumentOrigin::new(Arc::clone(&object.at.file)),
            stored: RecordPart::Regular,
        });
        Ok(RenderedSource {
            documents: documents.collect(),
            metadata: package_metadata(&package.metadata),
            values: self.values.recorded_values().clone(),
            warnings: build.problems.clone(),
            ..RenderedSource::default()
        })
    }

    /// The user's values as a package takes them.
    fn package_inputs(&self, values: &Map<String, Value>) -> BuildInputs {
        let Some(user) = self.values.as_given().filter(|user| user.overlays.is_empty()) else {
            let text = Value::Object(values.clone()).to_string();
            return BuildInputs {
                values: vec![ValuesFile { name: "values".into(), text }],
                ..BuildInputs::default()
            };
        };
        let files = user
            .files
            .iter()
            .map(|(name, content)| ValuesFile { name: name.clone(), text: lossy_text(content).into_owned() });
        let kinds =
            [(&user.set, SetKind::Yaml), (&user.set_string, SetKind::Text), (&user.set_json, SetKind::Json)];
        let sets = kinds
            .into_iter()
            .flat_map(|(texts, kind)| texts.iter().map(move |text| SetValue { kind, text: text.clone() }));
        BuildInputs { values: files.collect(), sets: sets.collect(), ..BuildInputs::default() }
    }

    /// The name of a source that does not say its own.
    fn file_stem(&self, release: &str) -> String {
        let stem = self.path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        stem.filter(|stem| !stem.is_empty()).unwrap_or_else(|| release.to_owned())
    }
}

/// The problems of a rendering without secrets, with what to do about them.
fn without_secrets(problems: Problems) -> Problems {
    let hint = "add a stand-in under `secrets.standins`, or use --check-secrets";
    let problem = |mut problem: Problem| {
        problem.message = format!("cannot render without secrets ({})", problem.message);
        problem.hint(hint)
    };
    problems.into_iter().map(problem).collect()
}

/// Refuses renders with different objects: what is deployed must not depend on a secret.
fn chart_problems(error: slipway_chart::ChartError) -> Problems {
    error.to_problems().into_iter().collect()
}

fn check_objects(masked: &[Document], others: &[Document]) -> Result<(), Problems> {
    let objects =
        |documents: &[Document]| documents.iter().map(|document| document.object.clone()).collect::<Vec<_>>();
    let compared = compare_renders(&objects(masked), &objects(others));
    compared.map(drop).map_err(|differs| {
        let hint = "let a value that is no secret decide on objects and their names";
        Problem::error(differs.to_string()).hint(hint).into()
    })
}

fn chart_warnings(chart: &Chart, notices: &Notices) -> Problems {
    let mut warnings = Problems::new();
    if chart.metadata.deprecated {
        warnings.push(Problem::warning(format!("chart `{}` is deprecated", chart.name())));
    }
    warnings.extend(notices.iter().map(|notice| Problem::warning(notice.to_string())));
    warnings
}

/// The templates of a chart and its subcharts by the path they are shown with.
pub(crate) struct TemplateFiles {
    texts: HashMap<String, Arc<str>>,
    /// Those that hold parts of others, in the order of their paths.
    parts: Arc<[TemplateFile]>,
}

impl TemplateFiles {
    pub(crate) fn from_chart(chart: &Chart) -> Self {
        let mut texts: HashMap<String, Arc<str>> = HashMap::new();
        let mut pending = vec![(chart, chart.name().to_owned())];
        while let Some((chart, prefix)) = pending.pop() {
            for file in &chart.templates {
                let text = lossy_text(&file.data);
                texts.insert(format!("{prefix}/{}", file.name), Arc::from(text.as_ref()));
            }
            pending.extend(
                chart.dependencies.iter().map(|child| (child, format!("{prefix}/charts/{}", child.name()))),
            );
        }
        let mut parts: Vec<TemplateFile> = texts
            .iter()
            .filter(|(_, text)| text.contains("define"))
            .map(|(path, text)| (path.as_str().into(), Arc::clone(text)))
            .collect();
        parts.sort_unstable();
        Self { texts, parts: parts.into() }
    }

    fn origin_of(&self, path: &str) -> DocumentOrigin {
        match self.texts.get(path) {
            Some(text) => DocumentOrigin {
                parts: Some(Arc::clone(&self.parts)),
                ..DocumentOrigin::with_text(path, Arc::clone(text))
            },
            None => DocumentOrigin::new(path),
        }
    }
}

/// The metadata Helm needs to show a release that was never a chart.
fn plain_metadata(name: &str, version: &str) -> Map<String, Value> {
    let version = if version.is_empty() { "0.0.0" } else { version };
    let metadata = json!({"apiVersion": "v2", "name": name, "version": version, "type": "application"});
    metadata.as_object().cloned().unwrap_or_default()
}

/// A package says all of itself that the metadata of a chart has room for.
fn package_metadata(about: &slipway_package::PackageMetadata) -> Map<String, Value> {
    let mut metadata = plain_metadata(&about.name, &about.version);
    for (key, text) in [
        ("appVersion", Some(&about.app_version)),
        ("description", about.description.as_ref()),
        ("home", about.home.as_ref()),
    ] {
        if let Some(text) = text.filter(|text| !text.is_empty()) {
            metadata.insert(key.to_owned(), text.as_str().into());
        }
    }
    metadata
}
