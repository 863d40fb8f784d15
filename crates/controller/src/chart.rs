//! The chart that installs a controller, as it is in the repository under `deploy/chart`.

use std::io;
use std::path::Path;

use slipway_kro::ApiGroup;
use slipway_promotion::kinds::definitions;

macro_rules! chart_files {
    ($($path:literal),* $(,)?) => {
        &[$(($path, include_str!(concat!("../../../deploy/chart/", $path)))),*]
    };
}

/// The files of the chart, but for definitions, which are made from the types.
const FILES: &[(&str, &str)] = chart_files![
    "Chart.yaml",
    "values.yaml",
    "values.schema.json",
    "files/dashboard.json",
    "templates/_helpers.tpl",
    "templates/access.yaml",
    "templates/admission.yaml",
    "templates/crds.yaml",
    "templates/deployment.yaml",
    "templates/monitoring.yaml",
    "templates/network.yaml",
    "templates/secret.yaml",
    "templates/service.yaml",
];

/// Every file of the chart: its path below the chart's root, and its content.
pub fn chart_files() -> Vec<(String, String)> {
    let mut files: Vec<(String, String)> =
        FILES.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
    for definition in definitions() {
        let plural = definition["spec"]["names"]["plural"].as_str().unwrap_or_default();
        let text = slipway_yaml::to_string(&definition).unwrap_or_default();
        files.push((format!("files/crds/{plural}.yaml"), text));
    }
    for group in ApiGroup::ALL {
        let graphs: Vec<String> = slipway_kro::definitions(group)
            .iter()
            .map(|definition| slipway_yaml::to_string(definition).unwrap_or_default())
            .collect();
        files.push((format!("files/graph/{}.yaml", group.name()), graphs.join("---\n")));
    }
    files
}

/// Writes the chart into an empty directory.
pub fn write_chart(directory: &Path) -> io::Result<()> {
    for (path, text) in chart_files() {
        let path = directory.join(path);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)?;
        }
        std::fs::write(path, text)?;
    }
    Ok(())
}
