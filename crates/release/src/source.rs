//! Where a release comes from: a chart, a package, a kustomization or plain manifests, all rendered to the
//! same thing.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Map, Value, json};
use slipway_chart::{
    Capabilities, Chart, LoadOptions, Notices, Program, RenderOptions, SchemaSource, UserValues,
};
use slipway_cluster::helm::ChartRecord;
use slipway_gotmpl::Host;
use slipway_manifest::object;
use slipway_package::{Inputs, Package, SetKind, SetValue, ValuesFile};
use slipway_problem::{Location, Problem, Problems};

use crate::detect::manifest_files;
use crate::resource::origin::{File, Turn};
use crate::resource::transform::Document;
use crate::resource::{Origin, Stored};

/// A source on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    Chart(PathBuf),
    Package(PathBuf),
    Kustomization(PathBuf),
    /// A YAML file, or a directory of them.
    Manifests(PathBuf),
}

impl Source {
    pub fn path(&self) -> &Path {
        match self {
            Source::Chart(path)
            | Source::Package(path)
            | Source::Kustomization(path)
            | Source::Manifests(path) => path,
        }
    }
}

/// Rewrites the manifests of a rendering, or says why it cannot.
pub type Filter = dyn Fn(Vec<u8>) -> Result<Vec<u8>, String> + Send + Sync;

/// What the caller puts behind a rendering of a chart.
#[derive(Clone, Default)]
pub struct Backing {
    /// Values to render with where some are secret; the release records the request's own.
    pub values: Option<Box<UserValues>>,
    /// Time, names and secret files; `lookup` is always answered by the cluster.
    pub host: Option<Arc<dyn Host + Send + Sync>>,
    /// A post-renderer; hooks do not pass through it.
    pub filter: Option<Arc<Filter>>,
    /// The version of what a chart installs, instead of the one it says.
    pub app_version: Option<String>,
    /// Leaves out the values a chart itself brings; those of its subcharts stay.
    pub no_default_values: bool,
    /// What rendering a chart may consume.
    pub limits: slipway_gotmpl::Limits,
    /// Fetches schemas a chart refers to by address.
    pub schemas: Option<Arc<dyn SchemaSource>>,
}

impl fmt::Debug for Backing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Backing").finish_non_exhaustive()
    }
}

/// What a source is rendered with.
#[derive(Clone, Debug, Default)]
pub struct RenderRequest {
    pub name: String,
    pub namespace: String,
    pub revision: i64,
    pub is_upgrade: bool,
    pub values: UserValues,
    pub capabilities: Capabilities,
    /// Leave `crds/` out.
    pub skip_crds: bool,
    pub skip_schema_validation: bool,
    pub subchart_notes: bool,
    pub backing: Backing,
}

/// What a source became.
#[derive(Clone, Debug, Default)]
pub struct Rendered {
    pub documents: Vec<Document>,
    pub notes: String,
    /// What the release record keeps of the chart.
    pub chart: ChartRecord,
    /// What the user set.
    pub values: Map<String, Value>,
    pub warnings: Problems,
}

/// Renders a source; `host` answers `lookup`.
pub fn render(source: &Source, request: &RenderRequest, host: &dyn Host) -> Result<Rendered, Problems> {
    match source {
        Source::Chart(path) => chart(path, request, host),
        Source::Package(path) => package(path, request),
        Source::Kustomization(path) => kustomization(path, request),
        Source::Manifests(path) => manifests(path, request),
    }
}

fn chart_problem(error: &slipway_chart::Error) -> Problems {
    Problem::error(error.to_string()).into()
}

fn chart(path: &Path, request: &RenderRequest, host: &dyn Host) -> Result<Rendered, Problems> {
    let mut notices = Notices::new();
    let mut chart =
        Chart::load_with(path, &LoadOptions::default(), &mut notices).map_err(|e| chart_problem(&e))?;
    if let Some(version) = &request.backing.app_version {
        chart.metadata.app_version.clone_from(version);
    }
    if request.backing.no_default_values {
        chart.values.clear();
    }
    if chart.metadata.is_library() {
        return Err(
            Problem::error(format!("chart `{}` is a library and cannot be released", chart.name())).into()
        );
    }
    let values = request.values.build().map_err(|e| chart_problem(&e))?;
    let options = RenderOptions {
        name: request.name.clone(),
        namespace: request.namespace.clone(),
        is_upgrade: request.is_upgrade,
        revision: request.revision,
        capabilities: request.capabilities.clone(),
        skip_schema_validation: request.skip_schema_validation,
        subchart_notes: request.subchart_notes,
        limits: request.backing.limits.clone(),
        schemas: request.backing.schemas.clone(),
        ..RenderOptions::default()
    };
    let mut texts = HashMap::new();
    template_texts(&chart, chart.name().to_owned(), &mut texts);
    let record = ChartRecord {
        metadata: chart.metadata.to_json().as_object().cloned().unwrap_or_default(),
        values: chart.values.clone(),
        templates: json!([]),
        files: json!([]),
        ..ChartRecord::default()
    };
    let mut warnings = Problems::new();
    if chart.metadata.deprecated {
        warnings.push(Problem::warning(format!("chart `{}` is deprecated", chart.name())));
    }
    let used = match &request.backing.values {
        Some(used) => used.build().map_err(|e| chart_problem(&e))?,
        None => values.clone(),
    };
    let program = Program::new(chart);
    let mut rendered =
        program.render_with(&used, &options, host, &mut notices).map_err(|e| chart_problem(&e))?;
    if let Some(filter) = &request.backing.filter {
        rendered.post_render(&options, |text| filter(text)).map_err(|e| chart_problem(&e))?;
    }
    let parts = named_templates(&texts);
    let origin = |path: &str| match texts.get(path) {
        Some(text) => {
            let (text, parts) = (Arc::clone(text), Arc::clone(&parts));
            Origin { parts: Some(parts), ..Origin::with_text(path, text) }
        }
        None => Origin::new(path),
    };
    let mut problems = Problems::new();
    let mut documents = Vec::new();
    if !request.skip_crds {
        for crd in &rendered.crds {
            let text = String::from_utf8_lossy(&crd.file.data);
            for part in slipway_chart::split(&crd.file.data) {
                let origin = Origin::with_text(crd.path.as_str(), text.as_ref());
                read_document(
                    &String::from_utf8_lossy(part),
                    origin,
                    Stored::Aside,
                    &mut documents,
                    &mut problems,
                );
            }
        }
    }
    match &rendered.post_rendered {
        Some(text) => {
            for part in slipway_chart::split(text) {
                let part = String::from_utf8_lossy(part);
                let named = part.lines().find_map(|line| line.strip_prefix("# Source: "));
                let origin = Origin::new(named.unwrap_or("post-renderer"));
                read_document(&part, origin, Stored::Regular, &mut documents, &mut problems);
            }
        }
        None => {
            for manifest in &rendered.manifests {
                let origin = origin(&manifest.path);
                read_document(&manifest.text(), origin, Stored::Regular, &mut documents, &mut problems);
            }
        }
    }
    for hook in &rendered.hooks {
        let origin = origin(&hook.manifest.path);
        read_document(&hook.manifest.text(), origin, Stored::Hook, &mut documents, &mut problems);
    }
    take_turns(&mut documents);
    warnings.extend(notices.iter().map(|notice| Problem::warning(notice.to_string())));
    let notes = rendered.notes.trim_end().to_owned();
    problems.into_result(Rendered { documents, notes, chart: record, values, warnings })
}

/// The text of every template by the path it is shown with.
fn template_texts(chart: &Chart, prefix: String, texts: &mut HashMap<String, Arc<str>>) {
    let mut pending = vec![(chart, prefix)];
    while let Some((chart, prefix)) = pending.pop() {
        for file in &chart.templates {
            let text = String::from_utf8_lossy(&file.data);
            texts.insert(format!("{prefix}/{}", file.name), Arc::from(text.as_ref()));
        }
        pending.extend(
            chart.dependencies.iter().map(|child| (child, format!("{prefix}/charts/{}", child.name()))),
        );
    }
}

/// The templates that hold parts of others, in the order of their paths.
fn named_templates(texts: &HashMap<String, Arc<str>>) -> Arc<[File]> {
    let mut parts: Vec<File> = texts
        .iter()
        .filter(|(_, text)| text.contains("define"))
        .map(|(path, text)| (path.as_str().into(), Arc::clone(text)))
        .collect();
    parts.sort_unstable();
    parts.into()
}

/// Notes which of the documents of its kind each is in its file: within a kind and hooks apart they come in the
/// order they are written in.
fn take_turns(documents: &mut [Document]) {
    let key = |document: &Document| {
        let kind = object::kind(&document.object).unwrap_or_default().to_owned();
        (Arc::clone(&document.origin.path), kind, document.stored)
    };
    let mut counts: HashMap<_, usize> = HashMap::new();
    for document in documents.iter() {
        *counts.entry(key(document)).or_default() += 1;
    }
    let mut turns: HashMap<_, usize> = HashMap::new();
    for document in documents {
        let key = key(document);
        let of = counts.get(&key).copied().unwrap_or_default();
        let number = turns.entry(key).or_default();
        document.origin.turn = Some(Turn { number: *number, of });
        *number += 1;
    }
}

fn read_document(
    text: &str,
    origin: Origin,
    stored: Stored,
    documents: &mut Vec<Document>,
    problems: &mut Problems,
) {
    match slipway_yaml::from_str_helm(text) {
        Ok(Value::Null) => {}
        Ok(object) => documents.push(Document { object, origin, stored }),
        Err(error) => {
            problems.push(Problem::error(error.to_string()).at(Location::file(Arc::clone(&origin.path))));
        }
    }
}

fn package(path: &Path, request: &RenderRequest) -> Result<Rendered, Problems> {
    let package = Package::load(path, &slipway_package::LoadOptions::default())?;
    let values = &request.values;
    let files = values.files.iter().map(|(name, content)| ValuesFile {
        name: name.clone(),
        text: String::from_utf8_lossy(content).into_owned(),
    });
    let sets = |texts: &[String], kind: SetKind| {
        texts.iter().map(|text| SetValue { kind, text: text.clone() }).collect::<Vec<_>>()
    };
    let inputs = Inputs {
        values: files.collect(),
        sets: [
            sets(&values.set, SetKind::Yaml),
            sets(&values.set_string, SetKind::Text),
            sets(&values.set_json, SetKind::Json),
        ]
        .concat(),
        kube_version: Some(request.capabilities.kube_version.version.trim_start_matches('v').to_owned()),
        ..Inputs::default()
    };
    let build = package.build(&inputs)?;
    let documents = build.objects.iter().map(|object| Document {
        object: (*object.value).clone(),
        origin: Origin::new(Arc::clone(&object.at.file)),
        stored: Stored::Regular,
    });
    let mut values = Map::new();
    if !inputs.sets.is_empty() || !inputs.values.is_empty() {
        let user = request.values.build().map_err(|e| chart_problem(&e));
        values = user.unwrap_or_default();
    }
    Ok(Rendered {
        documents: documents.collect(),
        chart: package_record(&package.metadata),
        values,
        warnings: build.problems.clone(),
        ..Rendered::default()
    })
}

fn kustomization(path: &Path, request: &RenderRequest) -> Result<Rendered, Problems> {
    let build = slipway_kustomize::build(path, &slipway_kustomize::BuildOptions::default())?;
    let origin = path.join("kustomization.yaml").display().to_string();
    let documents = build.objects.into_iter().map(|object| Document {
        object,
        origin: Origin::new(origin.as_str()),
        stored: Stored::Regular,
    });
    Ok(Rendered {
        documents: documents.collect(),
        chart: plain_record(&named(path, request), ""),
        warnings: build.warnings.into_iter().collect(),
        ..Rendered::default()
    })
}

fn manifests(path: &Path, request: &RenderRequest) -> Result<Rendered, Problems> {
    let mut problems = Problems::new();
    let mut documents = Vec::new();
    for file in manifest_files(path) {
        let name = file.display().to_string();
        match slipway_problem::read_file(&file) {
            Ok(bytes) => {
                let text: Arc<str> = String::from_utf8_lossy(&bytes).into();
                for part in slipway_chart::split(&bytes) {
                    let origin = Origin::with_text(name.as_str(), Arc::clone(&text));
                    let part = String::from_utf8_lossy(part);
                    read_document(&part, origin, Stored::Regular, &mut documents, &mut problems);
                }
            }
            Err(error) => {
                problems.push(Problem::error(format!("cannot read: {error}")).at(Location::file(name)));
            }
        }
    }
    take_turns(&mut documents);
    let chart = plain_record(&named(path, request), "");
    problems.into_result(Rendered { documents, chart, ..Rendered::default() })
}

fn named(path: &Path, request: &RenderRequest) -> String {
    let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    stem.filter(|stem| !stem.is_empty()).unwrap_or_else(|| request.name.clone())
}

/// What Helm needs to show a release that was never a chart.
fn plain_record(name: &str, version: &str) -> ChartRecord {
    let version = if version.is_empty() { "0.0.0" } else { version };
    let metadata = json!({"apiVersion": "v2", "name": name, "version": version, "type": "application"});
    ChartRecord {
        metadata: metadata.as_object().cloned().unwrap_or_default(),
        templates: json!([]),
        files: json!([]),
        ..ChartRecord::default()
    }
}

/// A package says all of itself that the metadata of a chart has room for.
fn package_record(about: &slipway_package::Metadata) -> ChartRecord {
    let mut record = plain_record(&about.name, &about.version);
    for (key, text) in [
        ("appVersion", Some(&about.app_version)),
        ("description", about.description.as_ref()),
        ("home", about.home.as_ref()),
    ] {
        if let Some(text) = text.filter(|text| !text.is_empty()) {
            record.metadata.insert(key.to_owned(), text.as_str().into());
        }
    }
    record
}
