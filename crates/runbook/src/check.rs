//! The local files a document names, looked at before anything runs: no cluster, no network.

use std::path::{Path, PathBuf};

use futures::FutureExt as _;
use slipway_event::Redactor;
use slipway_problem::Problem;
use slipway_source::{LoadContext, LoadError, LoadedSource, Offline, SourcePath, SourceRequest};
use slipway_yaml::YamlReader;

use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::files;
use crate::manifests;
use crate::model::{ChartSource, Document, ManifestSource, Step, ValuesSource};
use crate::plan::decision::skipped_by_when;

/// Everything wrong with the manifests, charts and values files on this machine that steps would read.
/// `base` is the directory their paths start from.
pub fn files(document: &Document, base: &Path, redactor: &Redactor) -> Diagnostics {
    let mut found = Vec::new();
    for (index, step) in document.steps.iter().enumerate().filter(|(_, step)| skipped_by_when(step).is_none())
    {
        for (field, code, message) in of_step(step, base) {
            let problem = Problem::error(format!("step \"{}\": {message}", step.name));
            found.push(Diagnostic {
                problem: problem.code(code).at(step.at.clone()),
                path: format!("steps[{index}].{}.{field}", step.action.kind()),
                step: Some(step.name.clone()),
                end: None,
            });
        }
    }
    let mut found: Diagnostics = found.into_iter().collect();
    found.redact(redactor);
    found
}

/// Loads a chart; neither values nor secrets matter here.
fn load(chart: PathBuf) -> Result<LoadedSource, LoadError> {
    let (source, request) = (SourcePath::Chart(chart), SourceRequest::default());
    LoadedSource::load(&source, request, &LoadContext::default(), &mut Vec::new())
}

/// Fields with a code and what is wrong with them.
fn of_step(step: &Step, base: &Path) -> Vec<(String, &'static str, String)> {
    let inputs = step.action.as_step().inputs();
    let mut found: Vec<_> = of_manifests(inputs.manifests, base).into_iter().collect();
    if let Some(ChartSource::Path(path)) = inputs.chart {
        let place = base.join(path);
        if let Err(error) = files::check_chart(&place) {
            found.push(("chart".to_owned(), "E001", error));
        } else if let Err(error) = load(place) {
            found.push(("chart".to_owned(), "E003", format!("chart {path}: {error}")));
        }
    }
    for (index, source) in inputs.values.iter().enumerate() {
        let ValuesSource::File(path) = source else { continue };
        if let Err((code, message)) = values(&base.join(path), path) {
            found.push((format!("valuesFrom[{index}]"), code, message));
        }
    }
    for (field, path) in inputs.files {
        let place = base.join(path);
        if let Err(error) = files::read(&place) {
            let message = format!("cannot read {}: {}", place.display(), files::explain(&error));
            found.push((field.to_owned(), "E001", message));
        }
    }
    found
}

fn of_manifests(sources: &[ManifestSource], base: &Path) -> Option<(String, &'static str, String)> {
    let is_local = |source: &&ManifestSource| !matches!(source, ManifestSource::Url(_));
    let local: Vec<ManifestSource> = sources.iter().filter(is_local).cloned().collect();
    if local.is_empty() {
        return None;
    }
    // On a thread without a runtime nothing waits for anything.
    let load = || manifests::load(&local, base, &Offline).now_or_never();
    let loaded = std::thread::scope(|scope| scope.spawn(load).join());
    let error = loaded.ok()??.err()?;
    let code = if error.kind == crate::ErrorKind::Fetch { "E001" } else { "E003" };
    Some(("manifests".to_owned(), code, error.message))
}

fn values(place: &Path, path: &str) -> Result<(), (&'static str, String)> {
    let text = files::read_text(place)
        .map_err(|error| ("E001", format!("cannot read {}: {}", place.display(), files::explain(&error))))?;
    let node = YamlReader::new().read_one(&text, path).map_err(|problems| ("E003", problems.to_string()))?;
    if node.is_null() || node.as_map().is_some() {
        return Ok(());
    }
    Err(("E003", format!("{path}: values are a mapping, not {}", node.kind())))
}
