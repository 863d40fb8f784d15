//! Sources of manifests → objects, each with the place it came from.

use std::path::{Path, PathBuf};

use serde_json::Value;
use slipway_manifest::object;
use slipway_problem::{Location, Problem, Problems};
use slipway_source::{Fetcher, LARGEST_FILE, shown_address};
use slipway_yaml::YamlReader;

use crate::error::{AttemptError, ErrorKind};
use crate::files;
use crate::model::ManifestSource;

/// Reads everything the sources hold, in order. Lists become their items; what is no object, or could not
/// be applied twice, is refused: everything wrong at once.
pub(crate) async fn load(
    sources: &[ManifestSource],
    base: &Path,
    fetcher: &dyn Fetcher,
) -> Result<Vec<Value>, AttemptError> {
    let mut problems = Problems::new();
    let mut objects = Vec::new();
    for (index, source) in sources.iter().enumerate() {
        let origin = |name: &str| format!("manifests[{index}] ({name})");
        match source {
            ManifestSource::Inline { text, at } => {
                let mut found = Problems::new();
                read(text, &at.file, &mut objects, &mut found);
                // Lines of an inline text count from its first line.
                for mut problem in found {
                    let line = problem.at.as_ref().map_or(0, |at| at.line);
                    problem.message =
                        format!("manifests[{index}] (inline), line {line}: {}", problem.message);
                    problem.at = Some(at.clone());
                    problem.excerpt = None;
                    problems.push(problem);
                }
            }
            ManifestSource::File(path) => {
                let place = base.join(path);
                let bytes = files::read(&place).map_err(|error| {
                    let why = files::explain(&error);
                    let message = format!("{}: cannot read {}: {why}", origin(path), place.display());
                    AttemptError::new(ErrorKind::Fetch, message).permanent()
                })?;
                take(&bytes, path, &origin(path), &mut objects, &mut problems);
            }
            ManifestSource::Url(url) => {
                let name = shown_address(url);
                let bytes = fetcher.fetch_file(url).await.map_err(|error| {
                    let failed = AttemptError::new(ErrorKind::Fetch, format!("{}: {error}", origin(&name)));
                    if error.permanent { failed.permanent() } else { failed }
                })?;
                if bytes.len() > LARGEST_FILE {
                    let message =
                        format!("{}: {} bytes, {LARGEST_FILE} are allowed", origin(&name), bytes.len());
                    return Err(AttemptError::new(ErrorKind::Fetch, message).permanent());
                }
                take(&bytes, &name, &origin(&name), &mut objects, &mut problems);
            }
            ManifestSource::Kustomize(path) => {
                let place = base.join(path);
                match kustomize(place).await? {
                    Ok(found) => objects.extend(found),
                    Err(found) => problems.extend(found),
                }
            }
        }
    }
    if problems.has_errors() {
        return Err(AttemptError::new(ErrorKind::Render, problems.to_string()).permanent());
    }
    let objects = object::expand_lists(objects);
    if objects.is_empty() {
        return Err(AttemptError::new(ErrorKind::Render, "the manifests hold no object at all").permanent());
    }
    for object in &objects {
        let generated = object["metadata"]["generateName"].is_string() && object::name(object).is_none();
        if generated {
            let message = "an object with generateName would be made anew by every run";
            problems.push(Problem::error(message).hint("give it a metadata.name"));
        } else if let Err(found) = object::check_identity(object, None) {
            problems.extend(found);
        }
    }
    if problems.has_errors() {
        return Err(AttemptError::new(ErrorKind::Render, problems.to_string()).permanent());
    }
    Ok(objects)
}

/// Builds a kustomization on a thread of its own, so that a step's time limit ends the waiting for it.
async fn kustomize(place: PathBuf) -> Result<Result<Vec<Value>, Problems>, AttemptError> {
    let build = move || slipway_kustomize::build(&place, &Default::default()).map(|build| build.objects);
    match tokio::runtime::Handle::try_current() {
        Ok(runtime) => runtime
            .spawn_blocking(build)
            .await
            .map_err(|error| AttemptError::new(ErrorKind::Internal, format!("the build broke off: {error}"))),
        // Whoever checks files without a cluster has no runtime, and no time limit.
        Err(_) => Ok(build()),
    }
}

fn take(bytes: &[u8], file: &str, origin: &str, objects: &mut Vec<Value>, problems: &mut Problems) {
    match std::str::from_utf8(bytes) {
        Ok(text) => read(text, file, objects, problems),
        Err(_) => {
            let problem = Problem::error(format!("{origin} is not UTF-8 text"));
            problems.push(problem.at(Location::file(file.to_owned())));
        }
    }
}

/// Reads a stream as Kubernetes' tools do.
pub(crate) fn read(text: &str, file: &str, objects: &mut Vec<Value>, problems: &mut Problems) {
    let reader = YamlReader::helm()
        .duplicates(slipway_yaml::DuplicateKeys::Refuse)
        .max_depth(100)
        .max_nodes(1_000_000)
        .max_bytes(LARGEST_FILE);
    let documents = reader.gather_documents(text, file, problems);
    objects.extend(documents.iter().filter(|node| !node.is_null()).map(slipway_yaml::YamlNode::to_json));
}
