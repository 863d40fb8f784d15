//! A chart's dependencies: which are there, what they resolve to, bringing them in.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use slipway_event::without_credentials;

use crate::codec;
use crate::error::ChartError;
use crate::load::{Chart, LoadOptions, go_io};
use crate::metadata::{ChartLock, Dependency};
use crate::package::{PackageOptions, package_chart};
use crate::provenance::Keyring;
use crate::version;
use slipway_go::filepath::is_file_name;

/// Fetches dependencies that are not beside the chart.
pub trait DependencyFetcher {
    /// The address meant by what Chart.yaml says, which may be the name of a known repository.
    fn resolve_address(&self, repository: &str) -> Result<String, ChartError> {
        Ok(repository.to_owned())
    }
    /// The newest version at `repository` that satisfies `constraint`.
    fn newest_version(
        &self,
        repository: &str,
        name: &str,
        constraint: &str,
    ) -> Result<Option<String>, ChartError>;
    /// The archive of one version.
    fn fetch_archive(&self, repository: &str, name: &str, version: &str) -> Result<Vec<u8>, ChartError>;
    /// The archive of one version with its signature; one without a signature is an error.
    fn fetch_signed(
        &self,
        repository: &str,
        name: &str,
        _version: &str,
    ) -> Result<SignedArchive, ChartError> {
        let address = without_credentials(repository);
        Err(ChartError::Publish(format!("{name} from {address} has no signature that could be checked")))
    }
}

/// A packed chart with its signature.
#[derive(Clone, Debug)]
pub struct SignedArchive {
    /// The name the signature knows it by.
    pub file_name: String,
    pub bytes: Vec<u8>,
    pub provenance: String,
}

/// Checks the signatures of fetched dependencies.
#[derive(Clone, Debug)]
pub struct SignatureCheck {
    pub keyring: Keyring,
    /// The time the check is made at, in seconds since 1970: keys and signatures end.
    pub now: u64,
}

impl SignatureCheck {
    fn fetch(&self, fetch: &dyn DependencyFetcher, dependency: &Dependency) -> Result<Vec<u8>, ChartError> {
        let signed = fetch.fetch_signed(&dependency.repository, &dependency.name, &dependency.version)?;
        let SignedArchive { file_name, bytes, provenance } = &signed;
        self.keyring.verify_chart(file_name, bytes, provenance, self.now).map_err(|error| {
            ChartError::Publish(format!("dependency {} could not be verified: {error}", dependency.name))
        })?;
        Ok(signed.bytes)
    }
}

/// Fetches nothing: every dependency must be beside the chart.
#[derive(Clone, Copy, Debug, Default)]
pub struct OfflineFetcher;

impl DependencyFetcher for OfflineFetcher {
    fn newest_version(
        &self,
        repository: &str,
        _name: &str,
        _constraint: &str,
    ) -> Result<Option<String>, ChartError> {
        Err(ChartError::Publish(format!("no repository definition for {}", without_credentials(repository))))
    }

    fn fetch_archive(&self, repository: &str, _name: &str, _version: &str) -> Result<Vec<u8>, ChartError> {
        Err(ChartError::Publish(format!("no repository definition for {}", without_credentials(repository))))
    }
}

/// One declared dependency and how it stands with `charts/`.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub struct DependencyStatus {
    pub name: String,
    pub version: String,
    pub repository: String,
    /// `ok`, `unpacked`, `missing`, `wrong version` and the like.
    pub status: String,
}

/// Returns the state of each declared dependency.
pub fn list_dependencies(chart: &Chart, directory: &Path) -> Vec<DependencyStatus> {
    let dependencies = chart.metadata.dependencies.iter();
    dependencies
        .map(|dependency| DependencyStatus {
            name: dependency.name.clone(),
            version: dependency.version.clone(),
            repository: without_credentials(&dependency.repository).into_owned(),
            status: dependency_status(chart, dependency, directory),
        })
        .collect()
}

fn dependency_status(chart: &Chart, dependency: &Dependency, directory: &Path) -> String {
    let charts = directory.join("charts");
    let prefix = format!("{}-", dependency.name);
    let mut archives: Vec<_> = fs::read_dir(&charts)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| name.starts_with(&prefix) && name.ends_with(".tgz"))
        // `foo-bar-1.0.0.tgz` is not a version of `foo`.
        .filter(|name| version::is_loose(&name[prefix.len()..name.len() - ".tgz".len()]))
        .collect();
    archives.sort();
    match archives.as_slice() {
        [one] => {
            let path = charts.join(one);
            return match Chart::load(path.as_path(), &LoadOptions::default()) {
                Err(_) => "corrupt".into(),
                Ok(found) if found.name() != dependency.name => "misnamed".into(),
                Ok(found) if version::is_satisfied(&dependency.version, &found.metadata.version) => {
                    "ok".into()
                }
                Ok(found) if !version::is_loose(&found.metadata.version) => "invalid version".into(),
                Ok(_) => "wrong version".into(),
            };
        }
        [] => {}
        _ => return "too many matches".into(),
    }
    if charts.join(&dependency.name).is_dir() {
        return match chart.dependencies.iter().find(|found| found.name() == dependency.name) {
            None => "misnamed".into(),
            Some(found) if version::is_satisfied(&dependency.version, &found.metadata.version) => {
                "unpacked".into()
            }
            Some(_) => "wrong version".into(),
        };
    }
    "missing".into()
}

/// The digest Chart.lock carries: over what was asked for and what it became.
pub fn lock_digest(wanted: &[Dependency], locked: &[Dependency]) -> String {
    let lists = json!([
        wanted.iter().map(Dependency::to_json).collect::<Vec<_>>(),
        locked.iter().map(Dependency::to_json).collect::<Vec<_>>(),
    ]);
    format!("sha256:{}", sha256_hex(go_json(&lists).as_bytes()))
}

/// The digest of Helm 2, over the wanted ones alone.
fn digest_v2(wanted: &[Dependency]) -> String {
    let value = json!({"dependencies": wanted.iter().map(Dependency::to_json).collect::<Vec<_>>()});
    format!("sha256:{}", sha256_hex(go_json(&value).as_bytes()))
}

pub(crate) fn sha256_hex(bytes: &[u8]) -> String {
    crate::secret::to_hex(&Sha256::digest(bytes))
}

/// JSON as Go encodes it: characters with a meaning in HTML are escaped.
pub(crate) fn go_json(value: &Value) -> String {
    let mut text = String::new();
    for letter in value.to_string().chars() {
        match letter {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                text.push_str(&format!("\\u{:04x}", u32::from(letter)));
            }
            letter => text.push(letter),
        }
    }
    text
}

/// Returns true if Chart.lock still matches what Chart.yaml asks for.
pub fn in_sync(chart: &Chart) -> bool {
    let Some(lock) = &chart.lock else { return chart.metadata.dependencies.is_empty() };
    let wanted = &chart.metadata.dependencies;
    lock.digest == lock_digest(wanted, &lock.dependencies)
        || (chart.metadata.api_version == "v1" && lock.digest == digest_v2(wanted))
}

/// Options of an update, for what is in `charts/` already.
#[derive(Clone, Debug, Default)]
pub struct UpdateOptions {
    /// The time written into Chart.lock, RFC 3339.
    pub generated: String,
    /// Refuses dependencies whose signature is missing or wrong. Those beside the chart have none.
    pub signatures: Option<SignatureCheck>,
}

/// Resolves the declared dependencies anew, puts them into `charts/` and writes Chart.lock. Gives the
/// lines Helm prints.
pub fn update_dependencies(
    directory: &Path,
    fetch: &dyn DependencyFetcher,
    options: &UpdateOptions,
) -> Result<Vec<String>, ChartError> {
    let mut chart = Chart::load(directory, &LoadOptions::default())?;
    if chart.metadata.dependencies.is_empty() {
        return Ok(Vec::new());
    }
    resolve_names(&mut chart, fetch)?;
    let locked = resolve_dependencies(&chart, directory, fetch)?;
    let lines = bring_in(&chart, directory, &locked, fetch, options)?;
    let lock = ChartLock {
        generated: options.generated.clone(),
        digest: lock_digest(&chart.metadata.dependencies, &locked),
        dependencies: locked,
    };
    if chart.lock.as_ref().is_none_or(|old| old.digest != lock.digest) {
        let name = if chart.metadata.api_version == "v1" { "requirements.lock" } else { "Chart.lock" };
        write_file(&directory.join(name), codec::write_document(&lock.to_json()).as_bytes())?;
    }
    Ok(lines)
}

/// Puts what Chart.lock names into `charts/`; without a lock it is an update.
pub fn build_dependencies(
    directory: &Path,
    fetch: &dyn DependencyFetcher,
    options: &UpdateOptions,
) -> Result<Vec<String>, ChartError> {
    let mut chart = Chart::load(directory, &LoadOptions::default())?;
    if chart.lock.is_none() {
        return update_dependencies(directory, fetch, options);
    }
    if chart.metadata.dependencies.is_empty() {
        return Ok(Vec::new());
    }
    // Helm 2 signed what the file says, Helm 3 what it means.
    let was_in_sync = in_sync(&chart);
    resolve_names(&mut chart, fetch)?;
    let lock = chart.lock.clone().unwrap_or_default();
    if !was_in_sync && !in_sync(&chart) {
        let (lock, file) = if chart.metadata.api_version == "v1" {
            ("requirements.lock", "requirements.yaml")
        } else {
            ("Chart.lock", "Chart.yaml")
        };
        return Err(ChartError::Publish(format!(
            "the lock file ({lock}) is out of sync with the dependencies file ({file}). Please update the dependencies"
        )));
    }
    bring_in(&chart, directory, &lock.dependencies, fetch, options)
}

/// Puts addresses where Chart.yaml names repositories, so that Chart.lock means the same elsewhere.
fn resolve_names(chart: &mut Chart, fetch: &dyn DependencyFetcher) -> Result<(), ChartError> {
    for dependency in &mut chart.metadata.dependencies {
        dependency.repository = fetch.resolve_address(&dependency.repository)?;
    }
    Ok(())
}

fn resolve_dependencies(
    chart: &Chart,
    directory: &Path,
    fetch: &dyn DependencyFetcher,
) -> Result<Vec<Dependency>, ChartError> {
    let mut locked = Vec::new();
    let mut missing = Vec::new();
    for wanted in &chart.metadata.dependencies {
        check_file_name(wanted, "name", &wanted.name)?;
        let found = if wanted.repository.is_empty() {
            let beside = directory.join("charts").join(&wanted.name);
            Chart::load(beside.as_path(), &LoadOptions::default())
                .map_err(|_| ChartError::Publish(format!("directory {} not found", beside.display())))?;
            Some(wanted.version.clone())
        } else if let Some(path) = wanted.repository.strip_prefix("file://") {
            let local = local_chart(directory, path)?;
            let found = local.metadata.version.clone();
            version::is_satisfied(&wanted.version, &found).then_some(found)
        } else {
            fetch.newest_version(&wanted.repository, &wanted.name, &wanted.version)?
        };
        match found {
            Some(version) => locked.push(Dependency {
                name: wanted.name.clone(),
                repository: wanted.repository.clone(),
                version,
                ..Dependency::default()
            }),
            None => missing.push(format!(
                "{:?} (repository {:?}, version {:?})",
                wanted.name,
                without_credentials(&wanted.repository),
                wanted.version
            )),
        }
    }
    if missing.is_empty() {
        return Ok(locked);
    }
    Err(ChartError::Publish(format!(
        "can't get a valid version for {} subchart(s): {}. Make sure a matching chart version exists in the repo, or change the version constraint in Chart.yaml",
        missing.len(),
        missing.join(", ")
    )))
}

fn local_chart(directory: &Path, path: &str) -> Result<Chart, ChartError> {
    let path = directory.join(path);
    if !path.exists() {
        return Err(ChartError::Publish(format!("directory {} not found", path.display())));
    }
    Chart::load(path.as_path(), &LoadOptions::default())
}

/// Refuses a name or version that would lead out of `charts/`.
fn check_file_name(dependency: &Dependency, what: &str, text: &str) -> Result<(), ChartError> {
    if is_file_name(text) {
        return Ok(());
    }
    Err(ChartError::Publish(format!(
        "dependency {:?} has an invalid {what} {text:?}: it cannot be a part of a file's name",
        dependency.name
    )))
}

fn bring_in(
    chart: &Chart,
    directory: &Path,
    locked: &[Dependency],
    fetch: &dyn DependencyFetcher,
    options: &UpdateOptions,
) -> Result<Vec<String>, ChartError> {
    let charts = directory.join("charts");
    fs::create_dir_all(&charts).map_err(|error| ChartError::Publish(go_io("mkdir", &charts, &error)))?;
    let mut lines = vec![format!("Saving {} charts", locked.len())];
    // Everything is fetched before anything is replaced.
    let mut archives: Vec<(String, Vec<u8>)> = Vec::new();
    for dependency in locked {
        check_file_name(dependency, "name", &dependency.name)?;
        if dependency.repository.is_empty() {
            lines.push(format!(
                "Dependency {} did not declare a repository. Assuming it exists in the charts directory",
                dependency.name
            ));
            continue;
        }
        if let Some(path) = dependency.repository.strip_prefix("file://") {
            let local = local_chart(directory, path)?;
            if !version::is_satisfied(&dependency.version, &local.metadata.version) {
                return Err(ChartError::Publish(format!(
                    "can't get a valid version for dependency {}",
                    dependency.name
                )));
            }
            let packed = package_chart(&local, &PackageOptions::default())?;
            archives.push((packed.file_name, packed.bytes));
            continue;
        }
        check_file_name(dependency, "version", &dependency.version)?;
        let address = without_credentials(&dependency.repository);
        lines.push(format!("Downloading {} from repo {address}", dependency.name));
        let bytes = match &options.signatures {
            Some(check) => check.fetch(fetch, dependency)?,
            None => fetch.fetch_archive(&dependency.repository, &dependency.name, &dependency.version)?,
        };
        archives.push((format!("{}-{}.tgz", dependency.name, dependency.version), bytes));
    }
    lines.push("Deleting outdated charts".to_owned());
    for dependency in &chart.metadata.dependencies {
        let prefix = format!("{}-", dependency.name);
        for entry in fs::read_dir(&charts).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let is_version = name
                .strip_prefix(&prefix)
                .and_then(|rest| rest.strip_suffix(".tgz"))
                .is_some_and(version::is_loose);
            if is_version && !archives.iter().any(|(kept, _)| *kept == name) {
                let path = entry.path();
                fs::remove_file(&path)
                    .map_err(|error| ChartError::Publish(go_io("remove", &path, &error)))?;
            }
        }
    }
    for (name, bytes) in archives {
        write_file(&charts.join(name), &bytes)?;
    }
    Ok(lines)
}

fn write_file(path: &Path, bytes: &[u8]) -> Result<(), ChartError> {
    fs::write(path, bytes).map_err(|error| ChartError::Publish(go_io("open", path, &error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_is_helms() {
        let wanted = Dependency {
            name: "sub".into(),
            version: "^0.1".into(),
            repository: "file://../sub".into(),
            alias: "al".into(),
            ..Dependency::default()
        };
        let locked = Dependency { version: "0.1.0".into(), alias: String::new(), ..wanted.clone() };
        assert_eq!(
            lock_digest(&[wanted], &[locked]),
            "sha256:9f5a4b2e58b3b4126cbd149a6ffa169780e6b8fa5e7c335fab11ca8dbadd87d9"
        );
    }
}
