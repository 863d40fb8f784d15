//! The whole build: load, accumulate, and what is done once at the end.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use slipway_problem::{Location, Problem, ProblemSeverity, Problems, describe_io, read_hint};
use slipway_yaml::YamlEmitter;

use crate::accumulate::Accumulator;
use crate::hash;
use crate::kustomization::BuildMetadata;
use crate::load::Loader;
use crate::resource::{ConfiguredBy, Resource, ResourceOrigin, object_at, scalar_text};
use crate::transform::{references, variables};

/// The treatment of behaviour of kustomize that surprises.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Quirks {
    /// Do the same, and warn.
    #[default]
    AsKustomize,
    /// Do what was meant.
    Fixed,
}

/// Options of a build.
#[derive(Clone, Debug, Default)]
pub struct BuildOptions {
    pub quirks: Quirks,
    /// No directory outside of this one is entered; anywhere when absent.
    pub within: Option<PathBuf>,
    /// Patches and replacements that match nothing are errors, not warnings.
    pub strict: bool,
}

/// The result of a build.
#[derive(Clone, Debug)]
pub struct Build {
    /// The objects, in the order they are printed.
    pub objects: Vec<Value>,
    pub warnings: Vec<Problem>,
    /// Every file that was read, with symbolic links followed.
    pub files: Vec<PathBuf>,
}

impl Build {
    /// The objects as one stream, byte for byte as kustomize prints them.
    pub fn to_yaml(&self) -> String {
        let emitter = YamlEmitter::kustomize();
        let mut out = String::new();
        for (at, object) in self.objects.iter().enumerate() {
            if at > 0 {
                out.push_str("---\n");
            }
            // What cannot be written was refused by the build.
            let _ = emitter.emit_into(object, &mut out);
        }
        out
    }
}

/// Codes of the warnings that become errors when the build is strict.
const STRICT: [&str; 2] = ["KZ010", "KZ011"];

/// Builds the kustomization in `root`.
pub fn build(root: &Path, options: &BuildOptions) -> Result<Build, Problems> {
    let mut problems = Problems::new();
    let within = match &options.within {
        Some(within) => match std::fs::canonicalize(within) {
            Ok(within) => Some(within),
            Err(error) => {
                let problem = Problem::error(format!("cannot open the directory: {}", describe_io(&error)));
                let at = Location::file(within.display().to_string());
                return Err(problem.at(at).hint(read_hint(&error)).into());
            }
        },
        None => None,
    };
    let mut loader = Loader::new(within, options.quirks, &mut problems);
    let loaded = loader.load(root);
    let files = std::mem::take(&mut loader.files.read).into_iter().collect();
    let complete = loader.complete;
    let Some(root) = loaded else { return Err(problems) };
    // What is built from half of the objects would only report what follows from the other half. With all
    // of them there, whatever else is wrong is told as well.
    if problems.has_errors() && !complete {
        return Err(problems);
    }
    let build_metadata = root.kustomization.build_metadata;
    let order = root.kustomization.order.clone().unwrap_or_default();
    let mut accumulator = Accumulator::new(options.quirks, build_metadata, &mut problems);
    accumulator.add(root);
    let Accumulator { mut resources, config, variables: vars, .. } = accumulator;
    hash::add_suffixes(&mut resources);
    references::fix_references(&mut resources, &config, options.quirks, &mut problems);
    variables::resolve_variables(&mut resources, &vars, &config.var_reference, &mut problems);
    report_duplicates(&resources, &mut problems);
    resources.retain(|resource| !resource.is_local_config());
    order.sort(&mut resources);
    report_unwritable(&resources, &mut problems);
    let objects = resources.into_iter().map(|resource| finish_object(resource, build_metadata)).collect();
    if options.strict {
        problems = problems
            .into_iter()
            .map(|mut problem| {
                if problem.code.as_deref().is_some_and(|code| STRICT.contains(&code)) {
                    problem.severity = ProblemSeverity::Error;
                }
                problem
            })
            .collect();
    }
    if problems.has_errors() {
        return Err(problems);
    }
    Ok(Build { objects, warnings: problems.into_iter().collect(), files })
}

/// Patches and replacements can give two objects one name, or none.
fn report_duplicates(resources: &[Resource], problems: &mut Problems) {
    let mut seen = HashMap::with_capacity(resources.len());
    for resource in resources {
        let id = resource.current_id();
        if id.name.is_empty() {
            problems.push(
                Problem::error(format!(
                    "`{}` lost its name to a patch or replacement",
                    resource.original_id()
                ))
                .at(resource.at.clone()),
            );
        }
        if let Some(first) = seen.insert(id.key(), &resource.at) {
            problems.push(
                Problem::error(format!("there are two objects called `{id}`"))
                    .at(resource.at.clone())
                    .hint(format!("the other is at {first}; a patch or replacement gave them one name")),
            );
        }
    }
}

/// YAML has no room for some control characters, which JSON or an escape can smuggle in.
fn report_unwritable(resources: &[Resource], problems: &mut Problems) {
    fn is_ascii(value: &Value) -> bool {
        let safe = |text: &str| text.bytes().all(|byte| byte < 0x7f);
        match value {
            Value::String(text) => safe(text),
            Value::Array(list) => list.iter().all(is_ascii),
            Value::Object(map) => map.iter().all(|(key, value)| safe(key) && is_ascii(value)),
            Value::Null | Value::Bool(_) | Value::Number(_) => true,
        }
    }
    for resource in resources {
        let ascii = resource.value.iter().all(|(key, value)| key.is_ascii() && is_ascii(value));
        if !ascii && YamlEmitter::kustomize().emit(&resource.value).is_err() {
            problems.push(
                Problem::error(format!(
                    "`{}` has control characters that YAML cannot hold",
                    resource.current_id()
                ))
                .at(resource.at.clone())
                .hint("encode them, or use `binaryData`"),
            );
        }
    }
}

/// The object as it is printed.
fn finish_object(resource: Resource, build_metadata: BuildMetadata) -> Value {
    let Resource { mut value, origin, transformed_by, .. } = resource;
    let metadata = object_at(&mut value, "metadata");
    if build_metadata.origins {
        object_at(metadata, "annotations")
            .insert("config.kubernetes.io/origin".to_owned(), Value::String(origin_text(&origin)));
    }
    if build_metadata.transformers && !transformed_by.is_empty() {
        let text: String = transformed_by
            .iter()
            .map(|by| format!("- {}", configured_text(by).trim_end().replace('\n', "\n  ") + "\n"))
            .collect();
        object_at(metadata, "annotations")
            .insert("alpha.config.kubernetes.io/transformations".to_owned(), Value::String(text));
    }
    if build_metadata.managed_by {
        object_at(metadata, "labels")
            .insert("app.kubernetes.io/managed-by".to_owned(), Value::String("kustomize-(devel)".to_owned()));
    }
    stringify_annotations(metadata);
    Value::Object(value)
}

fn origin_text(origin: &ResourceOrigin) -> String {
    match origin {
        ResourceOrigin::File { path } => format!("path: {path}\n"),
        ResourceOrigin::Generator(by) => configured_text(by),
    }
}

fn configured_text(by: &ConfiguredBy) -> String {
    let mut text = String::new();
    if !by.file.is_empty() {
        text.push_str(&format!("configuredIn: {}\n", by.file));
    }
    text.push_str(&format!("configuredBy:\n  apiVersion: builtin\n  kind: {}\n", by.kind));
    for (field, value) in [("name", &by.name), ("namespace", &by.namespace)] {
        if let Some(value) = value {
            let written = YamlEmitter::kustomize().emit(value).unwrap_or_default();
            text.push_str(&format!("  {field}: {}\n", written.trim_end()));
        }
    }
    text
}

/// The text of an annotation that is no string.
pub(crate) fn annotation_text(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        other => scalar_text(other).unwrap_or_default(),
    }
}

/// Annotations are text, whatever a patch put there; none at all leave no trace.
fn stringify_annotations(metadata: &mut Map<String, Value>) {
    match metadata.get_mut("annotations") {
        Some(Value::Object(annotations)) if !annotations.is_empty() => {
            for value in annotations.values_mut() {
                if !value.is_string() {
                    *value = Value::String(annotation_text(value));
                }
            }
        }
        Some(Value::Object(_) | Value::Null) => {
            metadata.shift_remove("annotations");
        }
        _ => {}
    }
}
