//! Checks the inputs of releases before anything runs: sources load, values files parse and meet the chart's schemas.
//!
//! Each source and each values file is looked at once, however many releases read it. Sources from elsewhere are
//! checked when they are fetched.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;

use serde_json::Value;
use slipway_chart::UserValues;
use slipway_problem::{Location, Problem, Problems};
use slipway_secrets::{Interpolation, find_references};
use slipway_source::{
    Document, LoadContext, LoadError, LoadedChart, LoadedSource, SourceContent, SourcePath, SourceRequest,
};

use crate::discover;
use crate::plan::Stack;
use crate::sources::{Inputs, SourceKind};

/// The part an input plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum InputKind {
    Source,
    Values,
}

/// One thing to look at.
struct Input<'a> {
    kind: InputKind,
    path: &'a Path,
    shown: &'a str,
    /// Positions of the releases that read it.
    readers: Vec<usize>,
}

/// Reports every source that does not load, every values file that does not parse, and values that a chart's schema
/// refuses.
pub(crate) fn check_inputs(stack: &Stack, inputs: &BTreeMap<usize, Inputs>, problems: &mut Problems) {
    let mut all: BTreeMap<(InputKind, &Path), Input<'_>> = BTreeMap::new();
    for (&position, inputs) in inputs {
        let source = inputs.source.path.as_deref().filter(|_| inputs.source.kind != SourceKind::Remote);
        let source = source.map(|path| (InputKind::Source, path, inputs.source.shown.as_str()));
        let values =
            inputs.values.iter().map(|file| (InputKind::Values, file.path.as_path(), file.shown.as_str()));
        for (kind, path, shown) in source.into_iter().chain(values) {
            let input = all.entry((kind, path));
            input.or_insert(Input { kind, path, shown, readers: Vec::new() }).readers.push(position);
        }
    }
    let all: Vec<Input<'_>> = all.into_values().collect();
    let found = Mutex::new(Vec::new());
    let workers = std::thread::available_parallelism().map_or(1, usize::from).min(8);
    let size = all.len().div_ceil(workers).max(4);
    std::thread::scope(|scope| {
        for some in all.chunks(size) {
            let found = &found;
            scope.spawn(move || {
                for input in some {
                    if let Err(problems) = check(stack, inputs, input) {
                        found.lock().unwrap_or_else(std::sync::PoisonError::into_inner).extend(problems);
                    }
                }
            });
        }
    });
    for problem in found.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner) {
        problems.push(problem);
    }
}

fn check(stack: &Stack, inputs: &BTreeMap<usize, Inputs>, input: &Input<'_>) -> Result<(), Problems> {
    match input.kind {
        InputKind::Source => check_source(stack, inputs, input),
        InputKind::Values => check_values(input),
    }
}

fn check_source(stack: &Stack, inputs: &BTreeMap<usize, Inputs>, input: &Input<'_>) -> Result<(), Problems> {
    let Some(first) = input.readers.first().map(|position| &stack.releases[*position]) else { return Ok(()) };
    let declaration = &stack.tree.releases[first.declaration];
    let others = match input.readers.len() - 1 {
        0 => String::new(),
        more => format!(" (and {more} more)"),
    };
    let wrong = |reason: &str| {
        let message = format!("release {}{others}: cannot use chart \"{}\": {reason}", first.id, input.shown);
        Problem::error(message).code("ST014").at(declaration.chart.at.clone())
    };
    let source = SourcePath::detect(input.path).map_err(|problem| {
        let described = wrong(&problem.message);
        match problem.hint {
            Some(hint) => described.hint(hint),
            None => described,
        }
    })?;
    // Neither values nor secrets matter here, and nothing is fetched.
    let loaded =
        LoadedSource::load(&source, SourceRequest::default(), &LoadContext::default(), &mut Vec::new());
    let loaded = match loaded {
        Ok(loaded) => loaded,
        Err(LoadError::Problems(problems)) => return Err(problems),
        Err(error) => return Err(wrong(&error.to_string()).into()),
    };
    let checked = match loaded.content() {
        SourceContent::Chart(chart) if chart.chart().metadata.is_library() => {
            Err("it is a library and cannot be released".to_owned())
        }
        SourceContent::Chart(chart) => {
            let refused =
                input.readers.iter().filter_map(|position| check_schemas(stack, inputs, *position, chart));
            return refused.collect::<Problems>().into_result(());
        }
        SourceContent::Manifests(documents) => check_manifests(documents, source.path()),
        SourceContent::Package(_) | SourceContent::Kustomization(_) => Ok(()),
    };
    checked.map_err(|reason| wrong(&reason).into())
}

/// The way the schemas of a chart refuse the values of a release, as far as a plan can know the values: encrypted ones
/// and references to secrets have theirs when the release is applied.
fn check_schemas(
    stack: &Stack,
    inputs: &BTreeMap<usize, Inputs>,
    position: usize,
    chart: &LoadedChart,
) -> Option<Problem> {
    let release = &stack.releases[position];
    let mut values = UserValues::default();
    for file in &inputs.get(&position)?.values {
        // A file that cannot be read is told by itself.
        values.read_file(&file.path).ok()?;
    }
    values.set_json = release.set.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let values = Value::Object(values.build().ok()?);
    let is_known = find_references(&values, Interpolation::On).is_ok_and(|found| found.is_empty());
    let values = values.as_object().filter(|_| is_known && !chart.has_encrypted_values())?;
    let Err(error @ slipway_chart::ChartError::Schema(_)) = chart.check_values(values) else { return None };
    let at = stack.tree.releases[release.declaration].chart.at.clone();
    Some(Problem::error(format!("release {}: {error}", release.id)).code("ST013").at(at))
}

/// A directory that is nothing else is taken for manifests: a chart that lost its `Chart.yaml` among them.
fn check_manifests(documents: &[Document], path: &Path) -> Result<(), String> {
    let is_object = |object: &Value| ["apiVersion", "kind"].iter().all(|key| object[*key].is_string());
    let Some(document) = documents.iter().find(|document| !is_object(&document.object)) else {
        return Ok(());
    };
    let name = Path::new(&*document.origin.path);
    let name = name.strip_prefix(path).unwrap_or(name).display();
    let kind = if path.is_dir() { "it has no Chart.yaml" } else { "it is no chart archive" };
    Err(format!("{kind}, and `{name}` is no Kubernetes object: apiVersion and kind are missing"))
}

fn check_values(input: &Input<'_>) -> Result<(), Problems> {
    let at = Location::file(input.shown);
    let content = slipway_problem::read_file(input.path).map_err(|error| {
        let message = format!("cannot read the values file: {}", discover::plain(&error));
        Problem::error(message).code("ST013").at(at.clone())
    })?;
    let values = UserValues { files: vec![(input.shown.to_owned(), content)], ..UserValues::default() };
    let Err(error) = values.build() else { return Ok(()) };
    // The chart loader's word decides; the parser knows the place.
    let text = values.files.first().map(|(_, content)| String::from_utf8_lossy(content)).unwrap_or_default();
    Err(match slipway_yaml::parse_one(&text, input.shown) {
        Err(located) => located.into_iter().map(|problem| problem.code("ST013")).collect(),
        Ok(root) if root.as_map().is_none() => {
            let message = format!("a values file holds a mapping, not {}", root.kind());
            Problem::error(message).code("ST013").at(root.location()).into()
        }
        Ok(_) => Problem::error(error.to_string()).code("ST013").at(at).into(),
    })
}
