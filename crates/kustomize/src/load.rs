//! Files to a tree of kustomizations with everything they read, before anything is changed.
//!
//! All mistakes that can be seen without building are found here, in one go.

use std::path::{Path, PathBuf};

use slipway_problem::{Location, Problem, ProblemSeverity, Problems};
use slipway_yaml::YamlReader;

use crate::accumulate::Accumulator;
use crate::build::Quirks;
use crate::config::TransformerConfig;
use crate::files::{BuildDirectory, EntryTarget, FileReader, decode_text, display_path};
use crate::generate::{GeneratedKind, generate_object};
use crate::kustomization::{
    BuildMetadata, FILE_NAMES, FileKind, Findings, GeneratorBehavior, Kustomization, LocatedValue,
    PatchEntry, ReplacementEntry, Strictness, read_configuration, read_hints, read_replacements,
};
use crate::objects::{AnnotationReading, is_inline, read_documents, read_objects};
use crate::patch::{self, MetadataReading, Patch, PatchBody, RenameEffect};
use crate::plugin::ConfiguredTransformer;
use crate::resource::{ConfiguredBy, Resource, ResourceOrigin};
use crate::transform::replacements::Replacement;

/// One kustomization and everything it names, read.
#[derive(Debug)]
pub(crate) struct LoadedKustomization {
    pub(crate) kustomization: Kustomization,
    /// The file, relative to where the build started.
    pub(crate) relative_file: String,
    pub(crate) entries: Vec<ResourceEntry>,
    pub(crate) components: Vec<LoadedKustomization>,
    pub(crate) config: TransformerConfig,
    pub(crate) generated: Vec<(Resource, GeneratorBehavior)>,
    pub(crate) strategic_patches: Vec<Patch>,
    pub(crate) patches: Vec<Patch>,
    pub(crate) json_patches: Vec<Patch>,
    pub(crate) replacements: Vec<Replacement>,
    pub(crate) transformers: Vec<ConfiguredTransformer>,
    pub(crate) validators: Vec<ConfiguredTransformer>,
}

/// The content of one entry of `resources`.
#[derive(Debug)]
pub(crate) enum ResourceEntry {
    Objects(Vec<Resource>),
    Root(Box<LoadedKustomization>),
}

/// Most kustomizations one build can read, counting each as often as it is used.
const MOST_ROOTS: usize = 10_000;
/// Deepest nesting of kustomizations.
const DEEPEST: usize = 100;

pub(crate) struct Loader<'a> {
    pub(crate) files: FileReader,
    pub(crate) problems: &'a mut Problems,
    /// True while every object that is listed could be read.
    pub(crate) complete: bool,
    quirks: Quirks,
    /// The notes the first kustomization asks for; those below do the same.
    build_metadata: Option<BuildMetadata>,
    stack: Vec<BuildDirectory>,
    roots: usize,
}

impl<'a> Loader<'a> {
    pub(crate) fn new(within: Option<PathBuf>, quirks: Quirks, problems: &'a mut Problems) -> Self {
        let files = FileReader { within, ..FileReader::default() };
        Self { files, problems, complete: true, quirks, build_metadata: None, stack: Vec::new(), roots: 0 }
    }

    /// Loads the kustomization a build starts with.
    pub(crate) fn load(&mut self, root: &Path) -> Option<LoadedKustomization> {
        let directory = self.problems.collect_from(self.files.start(root))?;
        self.load_root(directory, None)
    }

    fn kustomization_file(
        &mut self,
        directory: &BuildDirectory,
        named: Option<&Location>,
    ) -> Option<(String, PathBuf)> {
        let found: Vec<&str> =
            FILE_NAMES.into_iter().filter(|name| directory.real.join(name).is_file()).collect();
        let problem = match found.as_slice() {
            [one] => {
                let path = directory.real.join(one);
                // Nothing outside is read, not even to say what is wrong with it.
                if std::fs::canonicalize(&path).is_ok_and(|real| real.starts_with(&directory.real)) {
                    return Some(((*one).to_owned(), path));
                }
                let shown = display_path(&directory.shown.join(one));
                let problem =
                    Problem::error(format!("`{shown}` is a link to a file outside of its directory"))
                        .hint("a kustomization reads files of its own directory only; copy the file");
                self.problems.push(problem.at(named.cloned().unwrap_or_else(|| Location::file(shown))));
                return None;
            }
            [] => Problem::error(format!("there is no kustomization in `{}`", directory.shown.display()))
                .hint("a directory needs a `kustomization.yaml`"),
            several => Problem::error(format!(
                "`{}` has more than one kustomization: {}",
                directory.shown.display(),
                several.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
            ))
            .hint("keep one of them"),
        };
        let shown = || Location::file(display_path(&directory.shown));
        self.problems.push(problem.at(named.cloned().unwrap_or_else(shown)));
        None
    }

    fn load_root(
        &mut self,
        directory: BuildDirectory,
        named: Option<&Location>,
    ) -> Option<LoadedKustomization> {
        // A directory that contains one being built would build it again and again.
        if let Some(visited) = self.stack.iter().position(|visited| visited.real.starts_with(&directory.real))
        {
            let mut chain: Vec<String> =
                self.stack[visited..].iter().map(|step| format!("`{}`", step.shown.display())).collect();
            chain.push(format!("`{}`", directory.shown.display()));
            let problem = Problem::error(format!("kustomizations form a cycle: {}", chain.join(" → ")));
            self.problems.push(match named {
                Some(at) => problem.at(at.clone()),
                None => problem,
            });
            return None;
        }
        self.roots += 1;
        if self.roots > MOST_ROOTS || self.stack.len() >= DEEPEST {
            if self.roots <= MOST_ROOTS + 1 {
                let message = if self.stack.len() >= DEEPEST {
                    format!("kustomizations nest more than {DEEPEST} deep")
                } else {
                    format!("more than {MOST_ROOTS} kustomizations are read for one build")
                };
                let problem = Problem::error(message);
                self.problems.push(match named {
                    Some(at) => problem.at(at.clone()),
                    None => problem,
                });
            }
            return None;
        }
        let (name, real) = self.kustomization_file(&directory, named)?;
        let file = display_path(&directory.shown.join(&name));
        let entry = LocatedValue { value: file.clone(), at: Location::file(file.as_str()) };
        let bytes = self.files.read_bytes_of(&real, &entry);
        let text = self.problems.collect_from(bytes.and_then(|bytes| decode_text(bytes, &entry)))?;
        let kustomization = Kustomization::read(&text, &file, self.problems)?;
        self.build_metadata.get_or_insert(kustomization.build_metadata);
        let relative_file = display_path(&directory.relative.join(&name));
        self.stack.push(directory.clone());
        let root = self.load_contents(kustomization, &directory, relative_file);
        self.stack.pop();
        Some(root)
    }

    fn load_contents(
        &mut self,
        mut kustomization: Kustomization,
        directory: &BuildDirectory,
        relative_file: String,
    ) -> LoadedKustomization {
        let before = self.problems.len();
        let entries =
            kustomization.resources.iter().filter_map(|entry| self.load_resource(directory, entry)).collect();
        let mut components = Vec::new();
        for entry in &kustomization.components {
            let place = self.files.resolve_entry(directory, entry);
            match self.problems.collect_from(place) {
                None => {}
                Some(EntryTarget::File(_)) => self.problems.push(
                    Problem::error(format!("`{}` is a file, a component is a directory", entry.value))
                        .at(entry.at.clone()),
                ),
                Some(EntryTarget::Directory(found)) => {
                    if let Some(root) = self.load_root(found, Some(&entry.at)) {
                        if root.kustomization.kind == FileKind::Component {
                            components.push(root);
                        } else {
                            self.problems.push(
                                Problem::error(format!("`{}` is no component", entry.value))
                                    .at(entry.at.clone())
                                    .hint("list it under `resources`, or give it `kind: Component`"),
                            );
                        }
                    }
                }
            }
        }
        let lost =
            self.problems.iter().skip(before).any(|problem| problem.severity == ProblemSeverity::Error);
        // With no objects at all, `resources` may be what is misspelt.
        let empty = kustomization.resources.is_empty() && self.problems.has_errors();
        self.complete &= !lost && !empty;
        let mut config = TransformerConfig::default();
        for entry in &kustomization.configurations {
            let text = self.files.text(directory, entry);
            if let Some(text) = self.problems.collect_from(text) {
                let file = display_path(&directory.shown.join(&entry.value));
                let more = read_configuration(&text, &file, self.problems);
                let conflicts = config.merge(&more);
                self.problems.extend(conflicts.iter().map(|path| {
                    Problem::error(format!("`{path}` is configured with another `create` already"))
                        .at(entry.at.clone())
                }));
            }
        }
        for entry in &kustomization.crds {
            let text = self.files.text(directory, entry);
            if let Some(text) = self.problems.collect_from(text) {
                let file = display_path(&directory.shown.join(&entry.value));
                let _ = config.merge(&read_hints(&text, &file, self.problems));
            }
        }
        let generated = self.generate_objects(&kustomization, directory, &relative_file);
        let transformers = self.load_transformers(&kustomization.transformers, directory, &relative_file);
        let validators = self.load_transformers(&kustomization.validators, directory, &relative_file);
        let strategic_patches = std::mem::take(&mut kustomization.patches_strategic_merge)
            .into_iter()
            .filter_map(|entry| self.load_strategic_patch(directory, entry))
            .collect();
        let patches = std::mem::take(&mut kustomization.patches)
            .into_iter()
            .filter_map(|entry| self.load_patch(directory, entry))
            .collect();
        let json_patches = std::mem::take(&mut kustomization.patches_json)
            .into_iter()
            .filter_map(|entry| self.load_json_patch(directory, entry))
            .collect();
        let replacements = self.load_replacements(
            directory,
            std::mem::take(&mut kustomization.replacements),
            Strictness::Kustomization,
        );
        LoadedKustomization {
            kustomization,
            relative_file,
            entries,
            components,
            config,
            generated,
            strategic_patches,
            patches,
            json_patches,
            replacements,
            transformers,
            validators,
        }
    }

    /// The replacements written in a kustomization or plugin, and those in the files it names.
    pub(crate) fn load_replacements(
        &mut self,
        directory: &BuildDirectory,
        entries: Vec<ReplacementEntry>,
        strictness: Strictness,
    ) -> Vec<Replacement> {
        let mut replacements = Vec::new();
        for entry in entries {
            match entry {
                ReplacementEntry::Inline(replacement) => replacements.push(*replacement),
                ReplacementEntry::File(entry) => {
                    let text = self.files.text(directory, &entry);
                    if let Some(text) = self.problems.collect_from(text) {
                        let file = display_path(&directory.shown.join(&entry.value));
                        if let Some(node) =
                            self.problems.collect_from(YamlReader::kustomize().read_one(&text, &file))
                        {
                            let findings = &mut Findings::new(strictness, self.problems);
                            replacements.extend(read_replacements(&node, findings));
                        }
                    }
                }
            }
        }
        replacements
    }

    /// The objects of `generators`, `transformers` or `validators`: what is written in the kustomization
    /// first, then files and the results of other kustomizations.
    pub(crate) fn plugin_objects(
        &mut self,
        listed: &[LocatedValue<String>],
        directory: &BuildDirectory,
        relative_file: &str,
    ) -> Vec<Resource> {
        let before = self.problems.len();
        let (inline, paths): (Vec<_>, Vec<_>) = listed.iter().partition(|entry| is_inline(&entry.value));
        let mut entries = Vec::new();
        for entry in inline {
            let documents = self.problems.collect_from(read_documents(&entry.value, "", &entry.at));
            let mut objects = Vec::new();
            for document in documents.iter().flatten() {
                let origin = ResourceOrigin::File { path: relative_file.to_owned() };
                let problems = &mut Problems::new();
                read_objects(document, origin, AnnotationReading::AsText, &mut objects, problems);
                // The text has no file of its own.
                let found = std::mem::take(problems);
                self.problems.extend(found.into_iter().map(|problem| problem.at(entry.at.clone())));
            }
            for object in &mut objects {
                object.at = entry.at.clone();
                object.document = None;
            }
            entries.push(ResourceEntry::Objects(objects));
        }
        entries.extend(paths.into_iter().filter_map(|entry| self.load_resource(directory, entry)));
        if self.problems.iter().skip(before).any(|problem| problem.severity == ProblemSeverity::Error) {
            return Vec::new();
        }
        let metadata = self.build_metadata.unwrap_or_default();
        let mut gathered = Accumulator::new(self.quirks, metadata, self.problems);
        gathered.gather_resources(entries);
        gathered.resources
    }

    fn generate_objects(
        &mut self,
        kustomization: &Kustomization,
        directory: &BuildDirectory,
        relative_file: &str,
    ) -> Vec<(Resource, GeneratorBehavior)> {
        let mut generated = Vec::new();
        for (kind, origin, generators) in [
            (GeneratedKind::ConfigMap, "ConfigMapGenerator", &kustomization.config_maps),
            (GeneratedKind::Secret, "SecretGenerator", &kustomization.secrets),
        ] {
            for generator in generators {
                let origin = ResourceOrigin::Generator(ConfiguredBy::kustomization(relative_file, origin));
                let options = &kustomization.generator_options;
                let made = generate_object(
                    kind,
                    generator,
                    options,
                    origin,
                    directory,
                    &mut self.files,
                    self.problems,
                );
                generated.push((made, generator.behavior));
            }
        }
        generated.extend(self.plugin_generated(&kustomization.generators, directory, relative_file));
        generated
    }

    /// One entry of `resources`: a file of objects or another kustomization.
    fn load_resource(
        &mut self,
        directory: &BuildDirectory,
        entry: &LocatedValue<String>,
    ) -> Option<ResourceEntry> {
        let place = self.files.resolve_entry(directory, entry);
        match self.problems.collect_from(place)? {
            EntryTarget::Directory(found) => {
                let root = self.load_root(found, Some(&entry.at))?;
                if root.kustomization.kind == FileKind::Component {
                    self.problems.push(
                        Problem::error(format!("`{}` is a component", entry.value))
                            .at(entry.at.clone())
                            .hint("list it under `components`"),
                    );
                    return None;
                }
                Some(ResourceEntry::Root(Box::new(root)))
            }
            EntryTarget::File(real) => {
                let bytes = self.files.read_bytes_of(&real, entry);
                let text = self.problems.collect_from(bytes.and_then(|bytes| decode_text(bytes, entry)))?;
                let file = display_path(&crate::files::normalise_path(&directory.shown.join(&entry.value)));
                let documents = self.problems.collect_from(read_documents(&text, &file, &entry.at))?;
                let path =
                    display_path(&crate::files::normalise_path(&directory.relative.join(&entry.value)));
                let mut objects = Vec::new();
                for document in &documents {
                    let origin = ResourceOrigin::File { path: path.clone() };
                    read_objects(document, origin, AnnotationReading::AsText, &mut objects, self.problems);
                }
                Some(ResourceEntry::Objects(objects))
            }
        }
    }

    /// An entry of `patchesStrategicMerge` is a file, or the patch itself.
    pub(crate) fn load_strategic_patch(
        &mut self,
        directory: &BuildDirectory,
        entry: LocatedValue<String>,
    ) -> Option<Patch> {
        let inline = is_inline(&entry.value);
        let (path, patch) = if inline { (None, Some(entry.clone())) } else { (Some(entry.clone()), None) };
        let entry = PatchEntry {
            path,
            patch,
            target: None,
            allow_name_change: false,
            allow_kind_change: false,
            at: entry.at,
        };
        let patch = self.load_patch(directory, entry)?;
        Some(Patch { metadata: MetadataReading::Copies, ..patch })
    }

    /// An entry of `patchesJson6902` has to name one object.
    pub(crate) fn load_json_patch(&mut self, directory: &BuildDirectory, entry: PatchEntry) -> Option<Patch> {
        if !entry.target.as_ref().is_some_and(|target| target.name.is_given()) {
            self.problems.push(
                Problem::error("an entry of `patchesJson6902` needs `target.name`")
                    .at(entry.at)
                    .hint("move it to `patches`, whose targets can leave the name out"),
            );
            return None;
        }
        let at = entry.at.clone();
        let patch = self.load_patch(directory, entry)?;
        if matches!(patch.body, PatchBody::Strategic(_)) {
            self.problems.push(
                Problem::error("a JSON patch is a list of operations")
                    .at(at)
                    .hint("a patch that looks like an object goes under `patches`"),
            );
            return None;
        }
        Some(Patch { renames: RenameEffect::Forgotten, ..patch })
    }

    pub(crate) fn load_patch(&mut self, directory: &BuildDirectory, entry: PatchEntry) -> Option<Patch> {
        let body = match (&entry.path, &entry.patch) {
            (Some(path), _) => {
                let text = self.files.text(directory, path);
                let text = self.problems.collect_from(text)?;
                let file = display_path(&crate::files::normalise_path(&directory.shown.join(&path.value)));
                patch::read_patch(&text, &file, &path.at, self.problems)?
            }
            (None, Some(patch)) => patch::read_patch(&patch.value, "", &patch.at, self.problems)?,
            (None, None) => return None,
        };
        Patch::new(body, entry, self.problems)
    }
}
