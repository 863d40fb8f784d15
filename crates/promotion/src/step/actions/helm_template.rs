//! `helm-template`: renders a chart of the repository with its values into files that are committed.

use std::fs;
use std::path::Path;

use serde_json::Value;
use slipway_chart::{Chart, LoadOptions, RenderOptions, UserValues, render};
use slipway_git::TreePath;
use slipway_manifest::object;

use super::rendered::{RenderedObjects, write_rendered};
use crate::step::edit::{EditInputs, EditNote, EditTrees};
use crate::step::outcome::{StepError, explain};

pub(super) fn edit(inputs: &EditInputs, trees: EditTrees<'_>) -> Result<EditNote, StepError> {
    let failed = |error: slipway_chart::ChartError| StepError::failed("RenderFailed", explain(&error));
    // A chart beside the environments is named from the top of the repository.
    let chart = match inputs.text("chart") {
        Some(path) => TreePath::parse(path)?,
        None => inputs.path()?,
    };
    let directory = trees.source.locate(&chart)?;
    refuse_links(&directory)?;
    let chart = Chart::load(directory.as_path(), &LoadOptions::default()).map_err(failed)?;
    let mut values = UserValues::default();
    for name in values_files(inputs) {
        let path = inputs.path_below(&name)?;
        values.read_file(&trees.source.locate(&path)?).map_err(failed)?;
    }
    let values = values.build_map().map_err(failed)?;
    let release = inputs.text("releaseName").unwrap_or(&inputs.step.pipeline).to_owned();
    let namespace = inputs.text("namespace").unwrap_or(&inputs.step.environment).to_owned();
    let options = RenderOptions {
        name: release,
        namespace,
        include_crds: true,
        skip_tests: true,
        ..RenderOptions::default()
    };
    let rendered = render(&chart, &values, &options).map_err(failed)?;
    let output = rendered.to_template_output(&options).map_err(failed)?;
    let output = String::from_utf8_lossy(&output);
    let documents = slipway_yaml::parse(&output, "the rendered chart")
        .map_err(|problems| StepError::problems("RenderFailed", &problems))?;
    let objects: Vec<Value> = documents.iter().map(slipway_yaml::YamlNode::to_json).collect();
    let objects = objects.into_iter().filter(|value| object::kind(value).is_some()).collect();
    write_rendered(inputs, trees, RenderedObjects { objects, tool: "helm" })
}

/// The values files: those of the settings, else the one images are set in.
fn values_files(inputs: &EditInputs) -> Vec<String> {
    let listed = inputs.entry.config.get("valuesFiles").and_then(Value::as_array);
    match listed {
        Some(files) => files.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        None => vec![inputs.step.update.helm.clone().unwrap_or_default().values_file],
    }
}

/// Refuses links: a chart of a repository must not show files of this machine.
fn refuse_links(directory: &Path) -> Result<(), StepError> {
    let mut rest = vec![directory.to_owned()];
    while let Some(place) = rest.pop() {
        let unreadable = |source| slipway_git::GitError::Files { path: place.clone(), source };
        for entry in fs::read_dir(&place).map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?;
            let kind = entry.file_type().map_err(unreadable)?;
            if kind.is_symlink() {
                let name = entry.file_name();
                return Err(StepError::failed("PathEscapes", format!("{name:?} of the chart is a link")));
            }
            if kind.is_dir() {
                rest.push(entry.path());
            }
        }
    }
    Ok(())
}
