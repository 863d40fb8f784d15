//! From a directory, an archive or bytes to a [`Chart`].

mod archive;
mod directory;
mod ignore;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Map, Value};

pub use ignore::{IgnoreError, IgnoreRules};

pub(crate) use directory::go_io;

use self::archive::ArchiveError;
use crate::codec;
use crate::error::{ChartError, ChartFault, LogNotice, Notices};
use crate::metadata::{ChartLock, ChartMetadata};
use slipway_go::GoError;
use slipway_go::filepath;
use slipway_problem::Location;

/// One file of a chart, named by its slash path inside the chart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChartFile {
    pub name: String,
    pub data: Arc<[u8]>,
}

/// A loaded chart with its subcharts.
#[derive(Clone, Debug, Default)]
pub struct Chart {
    pub metadata: ChartMetadata,
    pub lock: Option<ChartLock>,
    /// The decoded `values.yaml`; every number is a float, as Helm has it.
    pub values: Map<String, Value>,
    /// `values.schema.json` as it stands.
    pub schema: Option<Arc<[u8]>>,
    /// The files under `templates/`.
    pub templates: Vec<ChartFile>,
    /// Everything that is none of Helm's own files; what `.Files` shows.
    pub files: Vec<ChartFile>,
    /// Every file as read, in reading order.
    pub raw: Vec<ChartFile>,
    /// The charts under `charts/`, by name of file or directory.
    pub dependencies: Vec<Chart>,
    /// The path it was read from, as the user named it.
    pub source: String,
}

/// The input a chart is loaded from.
#[derive(Clone, Debug)]
pub enum ChartInput<'s> {
    /// A chart directory or a `.tgz`.
    Path(PathBuf),
    /// The bytes of a `.tgz`, for instance from standard input.
    Archive(&'s [u8]),
}

impl From<&Path> for ChartInput<'_> {
    fn from(path: &Path) -> Self {
        Self::Path(path.to_owned())
    }
}

/// Limits of the size of a chart.
#[derive(Clone, Debug)]
pub struct LoadLimits {
    /// Bytes of one file.
    pub file: u64,
    /// Bytes of all files of one archive.
    pub archive: u64,
    /// Bytes of all archives inside one another.
    pub nested_archives: u64,
    /// Bytes of all files of a directory.
    pub directory: u64,
    /// Files of one archive.
    pub files: usize,
    /// Charts inside one another.
    pub depth: usize,
}

impl Default for LoadLimits {
    fn default() -> Self {
        const MIB: u64 = 1024 * 1024;
        Self {
            file: 5 * MIB,
            archive: 100 * MIB,
            nested_archives: 400 * MIB,
            directory: 1024 * MIB,
            files: 100_000,
            depth: 64,
        }
    }
}

/// Options of loading.
#[derive(Clone, Debug, Default)]
pub struct LoadOptions {
    pub limits: LoadLimits,
}

impl Chart {
    /// Loads a chart, discarding what Helm would only log.
    pub fn load<'s>(source: impl Into<ChartInput<'s>>, options: &LoadOptions) -> Result<Self, ChartError> {
        Self::load_with(source, options, &mut Notices::new())
    }

    /// Loads a chart and says what Helm would have logged on the way.
    pub fn load_with<'s>(
        source: impl Into<ChartInput<'s>>,
        options: &LoadOptions,
        notices: &mut Notices,
    ) -> Result<Self, ChartError> {
        let mut loader = Loader::new(options, notices);
        match source.into() {
            ChartInput::Path(path) => {
                let mut chart = loader.load_path(&path).map_err(ChartError::Load)?;
                chart.source = path.display().to_string();
                Ok(chart)
            }
            ChartInput::Archive(bytes) => loader.load_archive(bytes, 0).map_err(ChartError::Load),
        }
    }

    /// Builds a chart from files already read.
    pub fn from_files(
        files: Vec<ChartFile>,
        options: &LoadOptions,
        notices: &mut Notices,
    ) -> Result<Self, ChartError> {
        Loader::new(options, notices).load_files(files, 0).map_err(ChartError::Load)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.metadata.name
    }

    /// The file of that name, as read.
    pub fn raw_file(&self, name: &str) -> Option<&ChartFile> {
        self.raw.iter().find(|file| file.name == name)
    }

    /// The definitions under `crds/`, its own first, then those of its subcharts; each with the path
    /// Helm shows.
    pub fn crds(&self) -> Vec<CrdFile> {
        self.crds_under(self.name())
    }

    fn crds_under(&self, path: &str) -> Vec<CrdFile> {
        let mut crds = self.own_crds(path);
        for chart in &self.dependencies {
            crds.extend(chart.crds_under(&format!("{path}/charts/{}", chart.name())));
        }
        crds
    }

    /// Its own definitions, for a chart at `path` in the tree.
    pub(crate) fn own_crds(&self, path: &str) -> Vec<CrdFile> {
        let own = self.files.iter().filter(|file| {
            let extension = filepath::ext(&file.name).to_ascii_lowercase();
            file.name.starts_with("crds/") && matches!(extension.as_str(), ".yaml" | ".yml" | ".json")
        });
        own.map(|file| CrdFile { path: format!("{path}/{}", file.name), file: file.clone() }).collect()
    }
}

/// A file of custom resource definitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrdFile {
    /// The path with its charts: `parent/charts/child/crds/x.yaml`.
    pub path: String,
    pub file: ChartFile,
}

/// Every file of a packed chart by its name in the chart, within the usual limits; nothing in a name
/// leads out of the chart.
pub fn unpack(bytes: &[u8]) -> Result<Vec<ChartFile>, ChartError> {
    let files = archive::read_archive(bytes, &LoadLimits::default()).map_err(GoError::from);
    files.map_err(|error| ChartError::Load(error.into()))
}

struct Loader<'l> {
    limits: &'l LoadLimits,
    notices: &'l mut Notices,
    unpacked: u64,
    /// The path of the chart being read, for messages; ends with a slash or is empty.
    prefix: String,
}

impl<'l> Loader<'l> {
    fn new(options: &'l LoadOptions, notices: &'l mut Notices) -> Self {
        Self { limits: &options.limits, notices, unpacked: 0, prefix: String::new() }
    }

    /// Says that a file of the chart cannot be read, and where it breaks off if it is no YAML.
    fn unreadable(&self, file: &ChartFile, error: &GoError) -> ChartFault {
        let name = format!("{}{}", self.prefix, file.name);
        let fault = ChartFault::new(format!("cannot load {}: {error}", file.name));
        let text = String::from_utf8_lossy(&file.data);
        let found = slipway_yaml::from_str_helm(&text).err().map(|error| error.to_problem(&name, &text));
        let fault = match found.as_ref().and_then(|problem| problem.hint.as_deref()) {
            Some(hint) => fault.hint(hint),
            None => fault.hint(format!("correct {}; `slipway lint CHART` checks everything else", file.name)),
        };
        let place = found.and_then(|problem| problem.at).unwrap_or_else(|| Location::file(name));
        // A line of values may hold a password.
        if file.name == "values.yaml" { fault.at(place) } else { fault.in_text(place, &text) }
    }

    fn load_path(&mut self, path: &Path) -> Result<Chart, ChartFault> {
        let shown = path.display().to_string();
        let metadata = std::fs::metadata(path).map_err(|error| {
            ChartFault::from(go_io("stat", path, &error)).hint(slipway_problem::read_hint(&error))
        })?;
        if metadata.is_dir() {
            self.prefix = format!("{}/", shown.trim_end_matches('/'));
            let files = directory::read_directory(path, self.limits, self.notices)?;
            return self.load_files(files, 0);
        }
        if metadata.len() > self.limits.archive {
            return Err(format!(
                "chart archive is larger than the maximum file size {}",
                self.limits.archive
            )
            .into());
        }
        let bytes = slipway_problem::read_file_within(path, self.limits.archive)
            .map_err(|error| go_io("open", path, &error))?;
        if !archive::is_gzip(&bytes) {
            let name = path.display().to_string();
            let text = if name.ends_with(".yml") || name.ends_with(".yaml") {
                format!("file '{name}' seems to be a YAML file, but expected a gzipped archive")
            } else {
                format!(
                    "file '{name}' does not appear to be a gzipped archive; got '{}'",
                    content_type(&bytes)
                )
            };
            return Err(ChartFault::new(text)
                .hint("a chart is a directory with a Chart.yaml, or such a directory packed as .tgz"));
        }
        let files = match archive::read_archive(&bytes, self.limits) {
            Err(ArchiveError::Header) => {
                let file = path.display();
                let text = "does not appear to be a valid chart file (details: gzip: invalid header)";
                return Err(format!("file '{file}' {text}").into());
            }
            read => read.map_err(GoError::from)?,
        };
        self.prefix = format!("{shown}/");
        self.load_unpacked(files, 0)
    }

    fn load_archive(&mut self, bytes: &[u8], depth: usize) -> Result<Chart, ChartFault> {
        let files = archive::read_archive(bytes, self.limits).map_err(GoError::from)?;
        self.load_unpacked(files, depth)
    }

    /// Loads the files of an archive, whose sizes count against the limit of all archives.
    fn load_unpacked(&mut self, files: Vec<ChartFile>, depth: usize) -> Result<Chart, ChartFault> {
        self.unpacked += files.iter().map(|file| file.data.len() as u64).sum::<u64>();
        if self.unpacked > self.limits.nested_archives {
            return Err(format!(
                "charts inside charts unpack to more than {} bytes",
                self.limits.nested_archives
            )
            .into());
        }
        self.load_files(files, depth)
    }

    fn load_files(&mut self, files: Vec<ChartFile>, depth: usize) -> Result<Chart, ChartFault> {
        if depth > self.limits.depth {
            return Err(format!("charts are nested more than {} deep", self.limits.depth).into());
        }
        let mut chart = Chart::default();
        let mut described = false;
        for file in files.iter().filter(|file| file.name == "Chart.yaml") {
            let read = codec::read_document(&file.data).and_then(|value| chart.metadata.read_fields(&value));
            read.map_err(|error| self.unreadable(file, &error))?;
            if chart.metadata.api_version.is_empty() {
                chart.metadata.api_version = "v1".into();
            }
            described = true;
        }
        let mut subcharts: Vec<(String, Vec<ChartFile>)> = Vec::new();
        for file in &files {
            match file.name.as_str() {
                "Chart.yaml" => {}
                "Chart.lock" => {
                    let lock =
                        codec::read_document(&file.data).and_then(|value| ChartLock::from_value(&value));
                    chart.lock = Some(lock.map_err(|error| self.unreadable(file, &error))?);
                }
                "values.yaml" => {
                    chart.values =
                        codec::read_values(&file.data).map_err(|error| self.unreadable(file, &error))?;
                }
                "values.schema.json" => chart.schema = Some(file.data.clone()),
                "requirements.yaml" => {
                    let is_v1 = chart.metadata.api_version == "v1";
                    if !is_v1 {
                        self.notices.push(LogNotice(
                            "load.go:121: Warning: Dependencies are handled in Chart.yaml since apiVersion \"v2\". We recommend migrating dependencies to Chart.yaml.".into(),
                        ));
                    }
                    let read =
                        codec::read_document(&file.data).and_then(|value| chart.metadata.read_fields(&value));
                    read.map_err(|error| self.unreadable(file, &error))?;
                    if is_v1 {
                        chart.files.push(file.clone());
                    }
                }
                "requirements.lock" => {
                    let lock =
                        codec::read_document(&file.data).and_then(|value| ChartLock::from_value(&value));
                    chart.lock = Some(lock.map_err(|error| self.unreadable(file, &error))?);
                    if chart.metadata.api_version == "v1" {
                        chart.files.push(file.clone());
                    }
                }
                name if name.starts_with("templates/") => chart.templates.push(file.clone()),
                name if name.starts_with("charts/") && filepath::ext(name) != ".prov" => {
                    let inner = &name["charts/".len()..];
                    let group = inner.split('/').next().unwrap_or(inner).to_owned();
                    let inner = ChartFile { name: inner.to_owned(), data: file.data.clone() };
                    match subcharts.iter_mut().find(|(name, _)| *name == group) {
                        Some((_, files)) => files.push(inner),
                        None => subcharts.push((group, vec![inner])),
                    }
                }
                _ => chart.files.push(file.clone()),
            }
        }
        if !described {
            return Err(ChartFault::new("Chart.yaml file is missing")
                .hint("a chart is a directory with a Chart.yaml; `slipway chart create NAME` starts one"));
        }
        chart.metadata.validate().map_err(|error| {
            ChartFault::new(error.to_string())
                .at(Location::file(format!("{}Chart.yaml", self.prefix)))
                .hint("a chart has at least `apiVersion: v2`, `name: web` and `version: 1.0.0`")
        })?;
        subcharts.sort_by(|a, b| a.0.cmp(&b.0));
        for (name, files) in subcharts {
            if name.starts_with(['_', '.']) {
                continue;
            }
            let subchart = self.load_subchart(&name, files, depth + 1, &chart.metadata.name)?;
            chart.dependencies.push(subchart);
        }
        chart.raw = files;
        Ok(chart)
    }

    fn load_subchart(
        &mut self,
        name: &str,
        files: Vec<ChartFile>,
        depth: usize,
        parent: &str,
    ) -> Result<Chart, ChartFault> {
        let outer = self.prefix.clone();
        self.prefix = format!("{outer}charts/{name}/");
        let loaded = if filepath::ext(name) == ".tgz" {
            let file = &files[0];
            if file.name != name {
                return Err(format!(
                    "error unpacking subchart tar in {parent}: expected {name}, got {}",
                    file.name
                )
                .into());
            }
            self.load_archive(&file.data, depth)
        } else {
            let inside = files.into_iter().filter_map(|file| {
                let (_, inner) = file.name.split_once('/')?;
                Some(ChartFile { name: inner.to_owned(), data: file.data.clone() })
            });
            self.load_files(inside.collect(), depth)
        };
        self.prefix = outer;
        loaded.map_err(|fault| fault.within(&format!("error unpacking subchart {name} in {parent}")))
    }
}

const BYTE_ORDER_MARK: &[u8] = &[0xEF, 0xBB, 0xBF];

/// Helm drops the byte order mark of every file.
fn strip_bom(mut data: Vec<u8>) -> Vec<u8> {
    if data.starts_with(BYTE_ORDER_MARK) {
        data.drain(..3);
    }
    data
}

/// Returns the content type Go detects from the first 512 bytes of a file that is no archive. A shorter file is
/// padded with zeros there, which makes it binary.
fn content_type(bytes: &[u8]) -> &'static str {
    let binary = |byte: &u8| matches!(byte, 0..=8 | 0x0b | 0x0e..=0x1a | 0x1c..=0x1f);
    match bytes {
        [b'P', b'K', 3, 4, ..] => "application/zip",
        [b'%', b'P', b'D', b'F', b'-', ..] => "application/pdf",
        _ if bytes.len() < 512 || bytes[..512].iter().any(binary) => "application/octet-stream",
        _ => "text/plain; charset=utf-8",
    }
}
