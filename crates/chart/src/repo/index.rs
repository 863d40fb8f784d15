//! `index.yaml`: what a repository offers.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value, json};
use slipway_event::without_credentials;
use slipway_go::semver::{Constraints, Version};

use crate::codec;
use crate::decode::{self, StructFields};
use crate::deps::{go_json, sha256_hex};
use crate::error::{ChartError, LogNotice, Notices};
use crate::load::{Chart, LoadOptions, go_io};
use crate::metadata::{ChartMetadata, MetadataError};
use slipway_go::GoError;

/// The charts of a repository, newest versions first.
#[derive(Clone, Debug, Default)]
pub struct RepositoryIndex {
    pub generated: String,
    pub entries: BTreeMap<String, Vec<IndexEntry>>,
}

/// One version of a chart in a repository.
#[derive(Clone, Debug, Default)]
pub struct IndexEntry {
    pub metadata: ChartMetadata,
    /// Absolute, or relative to the repository.
    pub urls: Vec<String>,
    pub created: String,
    pub digest: String,
    pub removed: bool,
}

fn publish_error<T>(text: impl Into<String>) -> Result<T, ChartError> {
    Err(ChartError::Publish(text.into()))
}

impl RepositoryIndex {
    /// Reads an index; entries that make no chart are left out with a notice naming `source`.
    pub fn parse(bytes: &[u8], source: &str, notices: &mut Notices) -> Result<Self, ChartError> {
        if bytes.is_empty() {
            return publish_error("empty index.yaml file");
        }
        let value = match serde_json::from_slice(bytes) {
            Ok(value) => value,
            Err(_) => codec::read_document(bytes).map_err(|error| ChartError::Publish(error.into()))?,
        };
        let map = decode::expect_object(&value, "repo.IndexFile")
            .map_err(|error| ChartError::Publish(error.into()))?
            .cloned()
            .unwrap_or_default();
        let fields = StructFields::new(&map, "IndexFile");
        let mut index = Self {
            generated: fields.string_field("generated").map_err(|error| ChartError::Publish(error.into()))?,
            ..Self::default()
        };
        let entries = fields
            .object_field("entries", "map[string]repo.ChartVersions")
            .map_err(|error| ChartError::Publish(error.into()))?;
        for (name, versions) in entries.into_iter().flatten() {
            let list = match versions {
                Value::Array(list) => list.as_slice(),
                Value::Null => &[],
                _ => return publish_error(format!("entries.{name} of {source} is not a list")),
            };
            let mut kept = Vec::new();
            for version in list {
                let Some(map) = version.as_object() else {
                    notices.push(LogNotice(format!(
                        "skipping loading invalid entry for chart {name:?} from {source}: empty entry"
                    )));
                    continue;
                };
                match IndexEntry::from_fields(map) {
                    Ok(entry) => kept.push(entry),
                    Err(error) => notices.push(LogNotice(format!(
                        "skipping loading invalid entry for chart {name:?} {:?} from {source}: {error}",
                        map.get("version").and_then(Value::as_str).unwrap_or_default()
                    ))),
                }
            }
            index.entries.insert(name.clone(), kept);
        }
        if fields.string_field("apiVersion").map_err(|error| ChartError::Publish(error.into()))?.is_empty() {
            return publish_error("no API version specified");
        }
        index.sort_versions();
        Ok(index)
    }

    /// Newest first; versions that cannot be read last.
    pub fn sort_versions(&mut self) {
        for versions in self.entries.values_mut() {
            versions.sort_by(|a, b| {
                match (Version::parse(&a.metadata.version), Version::parse(&b.metadata.version)) {
                    (Ok(a), Ok(b)) => b.compare(&a),
                    (Ok(_), Err(_)) => std::cmp::Ordering::Less,
                    (Err(_), Ok(_)) => std::cmp::Ordering::Greater,
                    (Err(_), Err(_)) => std::cmp::Ordering::Equal,
                }
            });
        }
    }

    /// The version of a chart that is meant: exactly the one named, or the newest that satisfies the
    /// constraint; no constraint means the newest release.
    pub fn find_version(&self, name: &str, wanted: &str) -> Result<&IndexEntry, ChartError> {
        let Some(versions) = self.entries.get(name).filter(|versions| !versions.is_empty()) else {
            return publish_error("no chart name found");
        };
        let constraint = if wanted.is_empty() { "*" } else { wanted };
        let Ok(constraint) = Constraints::parse(constraint) else {
            return publish_error(format!("improper constraint: {wanted}"));
        };
        if !wanted.is_empty()
            && let Some(exact) = versions.iter().find(|entry| entry.metadata.version == wanted)
        {
            return Ok(exact);
        }
        let fits = |entry: &&IndexEntry| {
            Version::parse(&entry.metadata.version).is_ok_and(|version| constraint.check(&version))
        };
        match versions.iter().find(fits) {
            Some(entry) => Ok(entry),
            None => publish_error(format!("no chart version found for {name}-{wanted}")),
        }
    }

    /// Describes the archives of a directory and of those directly inside it; what is no chart is left out.
    pub fn of_directory(directory: &Path, base: &str, now: &str) -> Result<Self, ChartError> {
        let mut index = Self { generated: now.to_owned(), ..Self::default() };
        let mut folders = vec![String::new()];
        folders.extend(file_names(directory, Path::is_dir)?);
        for folder in folders {
            let inside = directory.join(&folder);
            for name in file_names(&inside, |path| path.extension().is_some_and(|kind| kind == "tgz"))? {
                let path = inside.join(&name);
                let Ok(chart) = Chart::load(path.as_path(), &LoadOptions::default()) else { continue };
                let bytes = slipway_problem::read_file(&path)
                    .map_err(|error| ChartError::Publish(go_io("open", &path, &error)))?;
                let parts = [base.trim_end_matches('/'), &folder, &name];
                let url: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
                index.add_entry(IndexEntry {
                    metadata: chart.metadata,
                    urls: vec![url.join("/")],
                    created: now.to_owned(),
                    digest: sha256_hex(&bytes),
                    removed: false,
                });
            }
        }
        index.sort_versions();
        Ok(index)
    }

    fn add_entry(&mut self, entry: IndexEntry) {
        let versions = self.entries.entry(entry.metadata.name.clone()).or_default();
        if !versions.iter().any(|known| known.metadata.version == entry.metadata.version) {
            versions.push(entry);
        }
    }

    /// Takes over what another index has and this one has not.
    pub fn merge_index(&mut self, other: Self) {
        other.entries.into_values().flatten().for_each(|entry| self.add_entry(entry));
        self.sort_versions();
    }

    fn to_json(&self) -> Value {
        let entries: Map<String, Value> = self
            .entries
            .iter()
            .map(|(name, versions)| (name.clone(), versions.iter().map(IndexEntry::to_json).collect()))
            .collect();
        json!({"apiVersion": "v1", "entries": entries, "generated": self.generated})
    }

    /// The written form in JSON.
    pub fn to_json_text(&self) -> String {
        go_json(&self.to_json())
    }

    /// The written form: keys sorted, as Helm writes it.
    pub fn to_yaml(&self) -> String {
        codec::write_document(&self.to_json())
    }
}

/// Returns the names in a directory whose path is accepted, sorted.
fn file_names(directory: &Path, pleases: impl Fn(&Path) -> bool) -> Result<Vec<String>, ChartError> {
    let entries = std::fs::read_dir(directory)
        .map_err(|error| ChartError::Publish(go_io("open", directory, &error)))?;
    let mut names: Vec<String> = entries
        .flatten()
        .filter(|entry| pleases(&entry.path()))
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    Ok(names)
}

impl IndexEntry {
    fn from_fields(map: &Map<String, Value>) -> Result<Self, GoError> {
        let fields = StructFields::new(map, "ChartVersion");
        let mut metadata = ChartMetadata::default();
        metadata.read_fields(&Value::Object(map.clone()))?;
        if metadata.api_version.is_empty() {
            metadata.api_version = "v1".into();
        }
        match metadata.validate() {
            // Helm accepts these in an index.
            Ok(()) | Err(MetadataError::DuplicateDependency(_)) => {}
            Err(error) => return Err(error.to_string().into()),
        }
        Ok(Self {
            metadata,
            urls: fields.string_list("urls")?,
            created: fields.string_field("created")?,
            digest: fields.string_field("digest")?,
            removed: fields.bool_field("removed")?,
        })
    }

    fn to_json(&self) -> Value {
        let mut value = self.metadata.to_json();
        if let Value::Object(map) = &mut value {
            map.insert("urls".into(), json!(self.urls));
            map.insert("created".into(), json!(self.created));
            if self.removed {
                map.insert("removed".into(), json!(true));
            }
            if !self.digest.is_empty() {
                map.insert("digest".into(), json!(self.digest));
            }
        }
        value
    }

    /// The address to fetch it from, given the repository's.
    pub fn download_url(&self, repository: &str) -> Result<String, ChartError> {
        let Some(first) = self.urls.first() else {
            return publish_error(format!("chart {:?} has no downloadable URLs", self.metadata.name));
        };
        absolute_url(repository, first)
    }
}

/// An address relative to a repository, made absolute; the repository's query is kept.
pub(crate) fn absolute_url(repository: &str, reference: &str) -> Result<String, ChartError> {
    if let Ok(url) = url::Url::parse(reference)
        && !url.cannot_be_a_base()
    {
        return Ok(reference.to_owned());
    }
    let invalid = |error| {
        let reference = without_credentials(reference);
        ChartError::Publish(format!("invalid chart URL format: {reference}: {error}"))
    };
    let mut base = url::Url::parse(repository).map_err(invalid)?;
    if !base.path().ends_with('/') {
        let path = format!("{}/", base.path());
        base.set_path(&path);
    }
    let mut joined = base.join(reference).map_err(invalid)?;
    // It may be a key to the repository, which is nobody else's.
    if joined.query().is_none() && joined.origin() == base.origin() {
        joined.set_query(base.query());
    }
    Ok(joined.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index() -> RepositoryIndex {
        let versions: String = ["0.2.0", "1.0.0-rc1", "0.10.0", "0.1.0"]
            .iter()
            .map(|version| {
                format!(
                    "  - {{name: foo, version: {version:?}, apiVersion: v2, urls: [foo-{version}.tgz]}}\n"
                )
            })
            .collect();
        let text = format!("apiVersion: v1\nentries:\n  foo:\n{versions}");
        RepositoryIndex::parse(text.as_bytes(), "test", &mut Notices::new()).unwrap()
    }

    #[test]
    fn the_meant_version_is_found() {
        let index = index();
        for (wanted, expected) in [
            ("", Ok("0.10.0")),
            (">0.0.0-0", Ok("1.0.0-rc1")),
            ("~0.1", Ok("0.1.0")),
            ("0.1.0", Ok("0.1.0")),
            ("<0.2", Ok("0.1.0")),
            ("9", Err("no chart version found for foo-9")),
        ] {
            let found = index.find_version("foo", wanted);
            let found = found.map(|entry| entry.metadata.version.as_str()).map_err(|error| error.to_string());
            assert_eq!(
                found.as_deref().map_err(String::as_str),
                expected.as_deref().map_err(|text| *text),
                "{wanted}"
            );
        }
        assert_eq!(index.find_version("nope", "").unwrap_err().to_string(), "no chart name found");
        let all: Vec<_> = index.entries["foo"].iter().map(|entry| entry.metadata.version.as_str()).collect();
        assert_eq!(all, ["1.0.0-rc1", "0.10.0", "0.2.0", "0.1.0"]);
    }

    #[test]
    fn addresses_are_relative_to_the_repository() {
        for (repository, reference, expected) in [
            ("https://e.com/charts", "foo-1.tgz", "https://e.com/charts/foo-1.tgz"),
            ("https://e.com/charts/", "a/foo-1.tgz", "https://e.com/charts/a/foo-1.tgz"),
            ("https://e.com/charts?t=1", "foo-1.tgz", "https://e.com/charts/foo-1.tgz?t=1"),
            ("https://e.com/charts", "https://x.org/foo.tgz", "https://x.org/foo.tgz"),
            ("https://e.com/charts", "/foo.tgz", "https://e.com/foo.tgz"),
            ("https://u:p@e.com/charts?t=1", "//x.org/foo.tgz", "https://x.org/foo.tgz"),
        ] {
            assert_eq!(absolute_url(repository, reference).unwrap(), expected);
        }
    }
}
