//! `create`: the files of a new chart.

use crate::codec;
use crate::error::ChartError;
use crate::load::{Chart, ChartFile};
use crate::metadata::ChartMetadata;
use crate::package::{PackageOptions, package_chart};

/// The longest name a chart may have.
const LONGEST_NAME: usize = 250;

const FILES: [(&str, &str); 10] = [
    ("Chart.yaml", include_str!("files/Chart.yaml")),
    ("values.yaml", include_str!("files/values.yaml")),
    ("values.schema.json", include_str!("files/values.schema.json")),
    (".helmignore", include_str!("files/helmignore")),
    ("templates/_names.tpl", include_str!("files/_names.tpl")),
    ("templates/workload.yaml", include_str!("files/workload.yaml")),
    ("templates/service.yaml", include_str!("files/service.yaml")),
    ("templates/ingress.yaml", include_str!("files/ingress.yaml")),
    ("templates/NOTES.txt", include_str!("files/NOTES.txt")),
    ("templates/tests/reachable.yaml", include_str!("files/reachable.yaml")),
];

/// What stands for the chart's name in files it begins as.
const NAME_MARK: &str = "<CHARTNAME>";

/// The files of a new chart of that name, to be written under a directory of that name.
pub fn create(name: &str) -> Result<Vec<ChartFile>, ChartError> {
    check_name(name)?;
    let files = FILES.iter().map(|(path, text)| ChartFile {
        name: (*path).to_owned(),
        data: text.replace(NAME_MARK, name).into_bytes().into(),
    });
    Ok(files.collect())
}

/// The files of a new chart that begins as a copy of another: with its own Chart.yaml, its name where templates and values
/// leave room for it, and packed dependencies.
pub fn create_from(starter: &Chart, name: &str) -> Result<Vec<ChartFile>, ChartError> {
    check_name(name)?;
    let metadata = ChartMetadata {
        api_version: "v2".to_owned(),
        name: name.to_owned(),
        description: "A Helm chart for Kubernetes".to_owned(),
        chart_type: "application".to_owned(),
        version: "0.1.0".to_owned(),
        app_version: "0.1.0".to_owned(),
        ..ChartMetadata::default()
    };
    let mut files = vec![ChartFile {
        name: "Chart.yaml".to_owned(),
        data: codec::write_document(&metadata.to_json()).into_bytes().into(),
    }];
    for file in &starter.raw {
        if file.name.starts_with("charts/") || ["Chart.yaml", "Chart.lock"].contains(&file.name.as_str()) {
            continue;
        }
        let mut file = file.clone();
        if (file.name.starts_with("templates/") || file.name == "values.yaml")
            && let Ok(text) = std::str::from_utf8(&file.data)
        {
            file.data = text.replace(NAME_MARK, name).into_bytes().into();
        }
        files.push(file);
    }
    for dependency in &starter.dependencies {
        let packed = package_chart(dependency, &PackageOptions::default())?;
        files.push(ChartFile { name: format!("charts/{}", packed.file_name), data: packed.bytes.into() });
    }
    Ok(files)
}

fn check_name(name: &str) -> Result<(), ChartError> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    if name.is_empty() || name.len() > LONGEST_NAME {
        return Err(ChartError::Unusable(
            format!("chart name must be between 1 and {LONGEST_NAME} characters").into(),
        ));
    }
    if !name.bytes().all(allowed) {
        return Err(ChartError::Unusable(
            "chart name must match the regular expression \"^[a-zA-Z0-9._-]+$\"".into(),
        ));
    }
    Ok(())
}
