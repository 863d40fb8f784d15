//! `create`: the files of a new chart.

use crate::error::ChartError;
use crate::load::ChartFile;

/// The longest name a chart may have.
const LONGEST_NAME: usize = 250;

const FILES: [(&str, &str); 9] = [
    ("Chart.yaml", include_str!("files/Chart.yaml")),
    ("values.yaml", include_str!("files/values.yaml")),
    (".helmignore", include_str!("files/helmignore")),
    ("templates/_names.tpl", include_str!("files/_names.tpl")),
    ("templates/workload.yaml", include_str!("files/workload.yaml")),
    ("templates/service.yaml", include_str!("files/service.yaml")),
    ("templates/ingress.yaml", include_str!("files/ingress.yaml")),
    ("templates/NOTES.txt", include_str!("files/NOTES.txt")),
    ("templates/tests/reachable.yaml", include_str!("files/reachable.yaml")),
];

/// The files of a new chart of that name, to be written under a directory of that name.
pub fn create(name: &str) -> Result<Vec<ChartFile>, ChartError> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    if name.is_empty() || name.len() > LONGEST_NAME {
        return Err(ChartError::Unusable(format!(
            "chart name must be between 1 and {LONGEST_NAME} characters"
        )));
    }
    if !name.bytes().all(allowed) {
        return Err(ChartError::Unusable(
            "chart name must match the regular expression \"^[a-zA-Z0-9._-]+$\"".into(),
        ));
    }
    let files = FILES.iter().map(|(path, text)| ChartFile {
        name: (*path).to_owned(),
        data: text.replace("<CHARTNAME>", name).into_bytes().into(),
    });
    Ok(files.collect())
}
