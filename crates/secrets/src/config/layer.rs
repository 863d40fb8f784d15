//! Configuration files: where they are looked for, and who wrote them.

use std::path::{Path, PathBuf};

use slipway_problem::{Location, Problem, Problems, read_hint, read_text_file};

/// The author of a configuration file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigOrigin {
    /// The user, in their own configuration or by naming the file.
    User,
    /// Whoever can change the repository.
    Repository,
}

/// A configuration file that was read.
#[derive(Clone, Debug)]
pub struct ConfigLayer {
    pub path: PathBuf,
    pub text: String,
    pub origin: ConfigOrigin,
}

impl ConfigLayer {
    /// The directory its relative paths start from.
    pub fn directory(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new(""))
    }
}

/// Places to look for configuration files in.
#[derive(Clone, Debug, Default)]
pub struct ConfigPlaces {
    /// The user's own file.
    pub user: Option<PathBuf>,
    /// Where the repository is looked for: the directory of the chart, stack or runbook.
    pub start: PathBuf,
    /// The file that replaces all others.
    pub only: Option<PathBuf>,
}

const REPOSITORY_FILES: [&str; 2] = [".slipway.yaml", "slipway.yaml"];
const PROVIDER_FILE: &str = "secrets.yaml";

/// Reads the files that exist, lowest layer first.
pub fn find_layers(places: &ConfigPlaces) -> Result<Vec<ConfigLayer>, Problems> {
    let mut problems = Problems::new();
    let mut layers = Vec::new();
    let mut read = |path: PathBuf, origin: ConfigOrigin| match read_text_file(&path) {
        Ok(text) => layers.push(ConfigLayer { path, text, origin }),
        Err(error) => {
            let problem = Problem::error(format!("cannot read the secrets configuration: {error}"));
            problems.push(problem.at(Location::file(path.display().to_string())).hint(read_hint(&error)));
        }
    };
    if let Some(only) = &places.only {
        read(only.clone(), ConfigOrigin::User);
        return problems.into_result(layers);
    }
    if let Some(user) = places.user.as_ref().filter(|path| path.is_file()) {
        read(user.clone(), ConfigOrigin::User);
    }
    if let Some(root) = repository_root(&places.start) {
        let file = REPOSITORY_FILES.iter().map(|name| root.join(name)).find(|path| path.is_file());
        for path in file.into_iter().chain(Some(root.join(PROVIDER_FILE)).filter(|path| path.is_file())) {
            read(path, ConfigOrigin::Repository);
        }
    }
    problems.into_result(layers)
}

/// The nearest directory upwards that holds `.git` (a directory, or the file of a worktree) or our own file.
pub fn repository_root(start: &Path) -> Option<PathBuf> {
    let start = std::path::absolute(start).ok()?;
    let is_root = |directory: &Path| {
        directory.join(".git").exists() || REPOSITORY_FILES.iter().any(|name| directory.join(name).is_file())
    };
    start.ancestors().find(|directory| is_root(directory)).map(Path::to_owned)
}
