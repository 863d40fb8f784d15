//! A package as loaded: everything read and parsed, nothing decided.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use data_encoding::HEXLOWER;
use serde_json::Value as Json;
use sha2::{Digest, Sha256};
use slipway_problem::{Location, Problems};
use slipway_yaml::YamlReader;

use crate::files::PackageFiles;
use crate::params::{PackageMetadata, ParamLayers, ResolvedParams, read_tree, resolve_params};
use crate::patches::{self, Patch, PatchOrigin};
use crate::report::{coded_error, coded_warning, object_codes, with_code};
use crate::resources::{self, Resource};
use crate::schema::{KindTypes, ParameterSchema, UsageTracer, generate_schema};
use crate::val::WrittenValue;

/// The local extension laid over a package.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum LocalExtension {
    /// The directory beside the package: `X.local.kurel` for `X.kurel`.
    #[default]
    Beside,
    /// This directory.
    At(PathBuf),
    None,
}

/// Options of loading a package.
#[derive(Clone, Debug, Default)]
pub struct LoadOptions {
    pub local: LocalExtension,
    /// Keep `status`, `uid` and the like.
    pub keep_server_fields: bool,
}

/// A package: parameters, plain manifests and patches.
///
/// Mistakes in its files do not keep it from being loaded; they are reported together with everything
/// else when it is built or validated.
#[derive(Clone, Debug)]
pub struct Package {
    pub metadata: PackageMetadata,
    pub(crate) files: PackageFiles,
    pub(crate) patches: Arc<Vec<Patch>>,
    pub(crate) resources: Vec<Resource>,
    pub(crate) kinds: KindTypes,
    pub(crate) tree: Option<WrittenValue>,
    /// The local extension's parameters and the file they are in.
    pub(crate) local: Option<(String, String)>,
    pub(crate) overrides: Vec<(Json, Location)>,
    /// Problems of the files.
    pub(crate) problems: Problems,
    /// Reading every byte is not cheap: done once.
    digest: OnceLock<String>,
}

impl Package {
    /// Loads a package directory and its local extension.
    pub fn load(directory: &Path, options: &LoadOptions) -> Result<Self, Problems> {
        let files = PackageFiles::read(directory)?;
        let beside;
        let local = match &options.local {
            LocalExtension::None => None,
            LocalExtension::At(path) => Some(path.as_path()),
            LocalExtension::Beside => {
                beside = local_beside(directory);
                beside.as_deref().filter(|path| path.is_dir())
            }
        };
        let local = match local {
            Some(path) => {
                let name = path
                    .file_name()
                    .map_or_else(|| "local".to_owned(), |name| name.to_string_lossy().into_owned());
                Some((name, PackageFiles::read(path)?))
            }
            None => None,
        };
        Ok(Self::from_files(files, local, options))
    }

    /// Makes a package of files in memory; `local` is the name and files of an extension.
    pub fn from_files(
        files: PackageFiles,
        local: Option<(String, PackageFiles)>,
        options: &LoadOptions,
    ) -> Self {
        let mut problems = files.problems.clone();
        let mut package = Self {
            metadata: PackageMetadata::default(),
            patches: Arc::new(patches::load_patches(&files, PatchOrigin::Package, "", &mut problems)),
            resources: Vec::new(),
            kinds: KindTypes::default(),
            tree: None,
            local: None,
            overrides: Vec::new(),
            problems: Problems::new(),
            digest: OnceLock::new(),
            files,
        };
        package.read_parameters(&mut problems);
        package.resources =
            resources::load_resources(&package.files, options.keep_server_fields, &mut problems);
        package.read_schemas(&mut problems);
        if let Some((name, files)) = local {
            package.read_local(&name, &files, &mut problems);
        }
        package.problems = problems;
        package
    }

    fn read_parameters(&mut self, problems: &mut Problems) {
        if self.files.get("kurel.yaml").is_some() {
            let problem = coded_error("KR002", "`kurel.yaml` is the old form of a package");
            problems.push(
                problem
                    .at(Location::file("kurel.yaml"))
                    .hint("move its keys under `kurel:` in parameters.yaml and delete it"),
            );
        }
        if self.files.get("parameters.yaml").is_none() {
            let problem = coded_error("KV001", "the package has no parameters.yaml")
                .at(Location::file("parameters.yaml"));
            problems.push(problem.hint("it holds kurel: {name, version, appVersion} and the parameters"));
            return;
        }
        let Some(text) = self.files.text("parameters.yaml", problems) else { return };
        if let Some((tree, node)) = read_tree("parameters.yaml", text, 0, problems) {
            self.metadata = PackageMetadata::read(&node, problems);
            self.tree = Some(tree);
        }
    }

    fn read_schemas(&mut self, problems: &mut Problems) {
        for resource in &self.resources {
            self.kinds.learn(&resource.value);
        }
        let mut paths: Vec<String> = self.files.below("schemas/crds/").map(str::to_owned).collect();
        paths.extend(self.metadata.schemas.iter().map(|path| path.trim_start_matches("./").to_owned()));
        for path in paths {
            if self.files.get(&path).is_none() {
                let known = path.contains("://") || path.split('/').any(|part| part == "..");
                if !known {
                    let problem = coded_error("KV011", format!("the schema file `{path}` does not exist"));
                    problems.push(
                        problem
                            .at(Location::file("parameters.yaml"))
                            .hint("schema files stand below schemas/"),
                    );
                }
                continue;
            }
            let Some(text) = self.files.text(&path, problems) else { continue };
            match YamlReader::new()
                .codes(object_codes())
                .max_nodes(1_000_000)
                .max_depth(200)
                .read(text, &path)
            {
                Ok(documents) => {
                    for document in documents {
                        self.kinds.learn(&document.to_json());
                    }
                }
                Err(found) => problems.extend(with_code(found, "KR002")),
            }
        }
        for path in ["schemas/parameters.overrides.json", "schemas/parameters.overrides.yaml"] {
            if self.files.get(path).is_none() {
                continue;
            }
            let Some(text) = self.files.text(path, problems) else { continue };
            match YamlReader::new().max_nodes(10_000).max_depth(100).read_one(text, path) {
                Ok(node) => self.overrides.push((node.to_json(), Location::file(path))),
                Err(found) => problems.extend(with_code(found, "KS016")),
            }
        }
        if let Some(inline) = &self.metadata.schema_overrides {
            self.overrides.push((inline.clone(), Location::file("parameters.yaml")));
        }
    }

    fn read_local(&mut self, name: &str, files: &PackageFiles, problems: &mut Problems) {
        problems.extend(files.problems.clone());
        for entry in files.top() {
            let at = Location::file(format!("{name}/{entry}"));
            match entry.as_str() {
                "patches/" | "parameters.yaml" => {}
                readme if readme.starts_with("README") => {}
                "resources/" => problems.push(
                    coded_error("KR040", "a local extension cannot have resources")
                        .at(at)
                        .hint("local extensions may only add patches and parameters"),
                ),
                _ => problems.push(
                    coded_warning(
                        "KR040",
                        "a local extension has only patches/ and parameters.yaml; ignored",
                    )
                    .at(at),
                ),
            }
        }
        let shown = format!("{name}/");
        Arc::make_mut(&mut self.patches).extend(patches::load_patches(
            files,
            PatchOrigin::Local,
            &shown,
            problems,
        ));
        let mut found = Problems::new();
        if let Some(text) = files.text("parameters.yaml", &mut found) {
            self.local = Some((format!("{name}/parameters.yaml"), text.to_owned()));
        }
        problems.extend(found);
    }

    /// The files it was made of.
    pub fn files(&self) -> &PackageFiles {
        &self.files
    }

    /// Its patches, local ones last.
    pub fn patches(&self) -> &[Patch] {
        &self.patches
    }

    /// Its objects as the manifests have them.
    pub fn resources(&self) -> &[Resource] {
        &self.resources
    }

    /// The parameters as the package alone has them.
    pub(crate) fn own_params(&self, problems: &mut Problems) -> Option<ResolvedParams> {
        let tree = self.tree.clone()?;
        Some(resolve_params(ParamLayers::new("parameters.yaml", tree), problems))
    }

    /// The digest of everything the schema depends on.
    pub(crate) fn schema_digest(&self) -> &str {
        self.digest.get_or_init(|| self.compute_digest())
    }

    fn compute_digest(&self) -> String {
        let mut hash = Sha256::new();
        let mut add = |path: &str| {
            hash.update(path.as_bytes());
            hash.update([0]);
            let bytes = self.files.get(path).unwrap_or_default();
            hash.update((bytes.len() as u64).to_be_bytes());
            hash.update(bytes);
        };
        add("parameters.yaml");
        for directory in ["patches/", "resources/", "schemas/"] {
            self.files.below(directory).filter(|path| *path != EXPORTED_SCHEMA).for_each(&mut add);
        }
        hex_text(&hash.finalize())
    }

    /// The schema of its parameters, from values, patches and Kubernetes types.
    pub fn schema(&self) -> Result<(ParameterSchema, Problems), Problems> {
        let mut problems = self.problems.clone();
        let Some(params) = self.own_params(&mut problems) else { return Err(problems) };
        if problems.has_errors() {
            return Err(problems);
        }
        let schema = self.schema_of(&params, &params, &mut problems);
        self.check_exported(&schema, &mut problems);
        Ok((schema, problems))
    }

    pub(crate) fn schema_of(
        &self,
        own: &ResolvedParams,
        params: &ResolvedParams,
        problems: &mut Problems,
    ) -> ParameterSchema {
        let tracer = UsageTracer { kinds: &self.kinds, resources: &self.resources, params };
        let usages = tracer.usages(&self.patches);
        generate_schema(&self.metadata.name, self.schema_digest(), own, &usages, &self.overrides, problems)
    }

    /// Warns if the exported schema was made from something else.
    pub(crate) fn check_exported(&self, schema: &ParameterSchema, problems: &mut Problems) {
        let Some(bytes) = self.files.get(EXPORTED_SCHEMA) else { return };
        let json: Json = serde_json::from_slice(bytes).unwrap_or_default();
        if json["x-kurel"]["inputs"].as_str() != Some(schema.digest()) {
            let problem =
                coded_warning("KS020", "the exported schema is stale").at(Location::file(EXPORTED_SCHEMA));
            problems.push(problem.hint("generate it again"));
        }
    }
}

/// The place of the schema for editors in a package.
pub const EXPORTED_SCHEMA: &str = "schemas/parameters.schema.json";

pub(crate) fn hex_text(bytes: &[u8]) -> String {
    HEXLOWER.encode(bytes)
}

fn local_beside(directory: &Path) -> Option<PathBuf> {
    let real = directory.canonicalize().ok()?;
    let name = real.file_name()?.to_str()?;
    let stem = name.strip_suffix(".kurel").unwrap_or(name);
    // The sibling is looked for where the user pointed, links and all.
    let parent = match directory.file_name() {
        Some(_) => directory
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty())
            .map_or_else(|| PathBuf::from("."), Path::to_path_buf),
        None => real.parent()?.to_path_buf(),
    };
    Some(parent.join(format!("{stem}.local.kurel")))
}
