//! The two words a release is made of: its name and its source. Says which of them is missing.

use std::path::Path;

use slipway_chart::check_release_name;
use slipway_problem::Problem;
use slipway_process::shell_word;
use slipway_source::SourcePath;

use crate::exit::UsageError;

/// The current directory.
const HERE: &str = ".";

/// Returns the source of a release: the one that is named, or the current directory where that is a chart, package or
/// kustomization. A directory of plain manifests is taken only where it is named: what lies around is not what is meant.
///
/// `command` is ours, as the user typed it: `apply`. `name` is none where a flag makes one.
pub fn source_word(command: &str, name: Option<&str>, source: Option<&str>) -> Result<String, UsageError> {
    if let Some(source) = source {
        if let Some(name) = name.filter(|name| check_release_name(name).is_err()) {
            let problem = Problem::error(format!("`{name}` cannot be the name of a release"));
            let hint = match name_for(name).as_str() {
                "NAME" => {
                    "write at most 53 lower-case letters, digits and dashes, such as `web-1`".to_owned()
                }
                near => format!("write at most 53 lower-case letters, digits and dashes, such as `{near}`"),
            };
            return Err(UsageError(problem.hint(hint).into()));
        }
        return Ok(source.to_owned());
    }
    if let Some(word) = name.filter(|word| is_source(word)) {
        let problem = Problem::error(format!("`{word}` is a source, and the name of the release is missing"));
        let hint = format!("write `slipway {command} {} {}`", name_for(word), shell_word(word));
        return Err(UsageError(problem.hint(hint).into()));
    }
    match SourcePath::detect(Path::new(HERE)) {
        Ok(SourcePath::Chart(_) | SourcePath::Package(_) | SourcePath::Kustomization(_)) => {
            Ok(HERE.to_owned())
        }
        Ok(SourcePath::Manifests(_)) => {
            let problem = Problem::error(
                "no source is given, and this directory is no chart, package or kustomization",
            );
            let name = name.map(|name| format!("{name} ")).unwrap_or_default();
            let hint =
                format!("name a source; `slipway {command} {name}.` takes every manifest of this directory");
            Err(UsageError(problem.hint(hint).into()))
        }
        Err(_) => {
            let problem = Problem::error("no source is given, and there is none in this directory");
            let hint = match name {
                // Whoever writes `apply web` beside a directory `web` means it.
                Some(name) if is_directory_source(name) => {
                    format!("write `slipway {command} {name} ./{name}`")
                }
                Some(name) => format!("name one: `slipway {command} {name} CHART`"),
                None => format!("name one: `slipway {command} CHART`"),
            };
            Err(UsageError(problem.hint(hint).into()))
        }
    }
}

/// Tells a source from a name: an address, a path, or a file that is there.
fn is_source(word: &str) -> bool {
    word.contains('/') || word == HERE || word == ".." || Path::new(word).is_file()
}

fn is_directory_source(name: &str) -> bool {
    Path::new(name).is_dir() && SourcePath::detect(Path::new(name)).is_ok()
}

/// A name for what a source holds; `NAME` where none can be made of it.
fn name_for(source: &str) -> String {
    let whole = match source.contains("://") {
        true => source.to_owned(),
        false => std::fs::canonicalize(source)
            .map_or_else(|_| source.to_owned(), |path| path.display().to_string()),
    };
    let last = whole.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    let last = last.split([':', '@']).next().unwrap_or_default();
    let name = match last {
        // The file that marks a source stands for its directory.
        "Chart.yaml" | "kustomization.yaml" | "kustomization.yml" | "Kustomization" | "parameters.yaml" => {
            whole.rsplit('/').nth(1).unwrap_or_default()
        }
        last => last.split('.').next().unwrap_or_default(),
    };
    let name = name.to_lowercase().replace('_', "-");
    if check_release_name(&name).is_ok() { name } else { "NAME".to_owned() }
}
