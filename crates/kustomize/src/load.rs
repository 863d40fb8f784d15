//! Files to a tree of kustomizations with everything they read, before anything is changed.
//!
//! All mistakes that can be seen without building are found here, in one go.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use slipway_problem::{Location, Problem, Problems, Severity};
use slipway_yaml::{Node, Reader};

use crate::config::Config;
use crate::files::{Directory, Files, Place, decode, shown};
use crate::generate::{Generated, generate};
use crate::kustomization::{
    At, Behavior, FILE_NAMES, Kind, Kustomization, PatchEntry, ReplacementEntry, read_configuration,
    read_hints, read_replacements,
};
use crate::patch::{self, MetadataOf, Patch, Renames};
use crate::resource::{Origin, Resource, Step};
use crate::schema::{self, Field, Type};
use crate::transform::replacements::Replacement;
use crate::written::{self, Document};

/// One kustomization and everything it names, read.
#[derive(Debug)]
pub(crate) struct Root {
    pub(crate) kustomization: Kustomization,
    /// The file, relative to where the build started.
    pub(crate) relative_file: String,
    pub(crate) entries: Vec<Entry>,
    pub(crate) components: Vec<Root>,
    pub(crate) config: Config,
    pub(crate) generated: Vec<(Resource, Behavior)>,
    pub(crate) strategic_patches: Vec<Patch>,
    pub(crate) patches: Vec<Patch>,
    pub(crate) json_patches: Vec<Patch>,
    pub(crate) replacements: Vec<Replacement>,
}

/// What one entry of `resources` holds.
#[derive(Debug)]
pub(crate) enum Entry {
    Objects(Vec<Resource>),
    Root(Box<Root>),
}

/// Most kustomizations one build can read, counting each as often as it is used.
const MOST_ROOTS: usize = 10_000;
/// Deepest nesting of kustomizations.
const DEEPEST: usize = 100;

pub(crate) struct Loader<'a> {
    pub(crate) files: Files,
    pub(crate) problems: &'a mut Problems,
    /// Whether every object that is listed could be read.
    pub(crate) complete: bool,
    stack: Vec<Directory>,
    roots: usize,
}

impl<'a> Loader<'a> {
    pub(crate) fn new(within: Option<PathBuf>, problems: &'a mut Problems) -> Self {
        let files = Files { within, ..Files::default() };
        Self { files, problems, complete: true, stack: Vec::new(), roots: 0 }
    }

    /// Loads the kustomization a build starts with.
    pub(crate) fn load(&mut self, root: &Path) -> Option<Root> {
        let directory = self.problems.take(self.files.start(root))?;
        self.root(directory, None)
    }

    fn kustomization_file(
        &mut self,
        directory: &Directory,
        named: Option<&Location>,
    ) -> Option<(String, PathBuf)> {
        let found: Vec<&str> =
            FILE_NAMES.into_iter().filter(|name| directory.real.join(name).is_file()).collect();
        let problem = match found.as_slice() {
            [one] => return Some(((*one).to_owned(), directory.real.join(one))),
            [] => Problem::error(format!("there is no kustomization in `{}`", directory.shown.display()))
                .hint("a directory needs a `kustomization.yaml`"),
            several => Problem::error(format!(
                "`{}` has more than one kustomization: {}",
                directory.shown.display(),
                several.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
            ))
            .hint("keep one of them"),
        };
        self.problems.push(match named {
            Some(at) => problem.at(at.clone()),
            None => problem,
        });
        None
    }

    fn root(&mut self, directory: Directory, named: Option<&Location>) -> Option<Root> {
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
        let file = shown(&directory.shown.join(&name));
        let entry = At { value: file.clone(), at: Location::file(file.as_str()) };
        let bytes = self.files.bytes_of(&real, &entry);
        let text = self.problems.take(bytes.and_then(|bytes| decode(bytes, &entry)))?;
        let kustomization = Kustomization::read(&text, &file, self.problems)?;
        let relative_file = shown(&directory.relative.join(&name));
        self.stack.push(directory.clone());
        let root = self.contents(kustomization, &directory, relative_file);
        self.stack.pop();
        Some(root)
    }

    fn contents(
        &mut self,
        mut kustomization: Kustomization,
        directory: &Directory,
        relative_file: String,
    ) -> Root {
        let before = self.problems.len();
        let entries =
            kustomization.resources.iter().filter_map(|entry| self.resource(directory, entry)).collect();
        let mut components = Vec::new();
        for entry in &kustomization.components {
            let place = self.files.place(directory, entry);
            match self.problems.take(place) {
                None => {}
                Some(Place::File(_)) => self.problems.push(
                    Problem::error(format!("`{}` is a file, a component is a directory", entry.value))
                        .at(entry.at.clone()),
                ),
                Some(Place::Directory(found)) => {
                    if let Some(root) = self.root(found, Some(&entry.at)) {
                        if root.kustomization.kind == Kind::Component {
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
        let lost = self.problems.iter().skip(before).any(|problem| problem.severity == Severity::Error);
        // With no objects at all, `resources` may be what is misspelt.
        let empty = kustomization.resources.is_empty() && self.problems.has_errors();
        self.complete &= !lost && !empty;
        let mut config = Config::default();
        for entry in &kustomization.configurations {
            let text = self.files.text(directory, entry);
            if let Some(text) = self.problems.take(text) {
                let file = shown(&directory.shown.join(&entry.value));
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
            if let Some(text) = self.problems.take(text) {
                let file = shown(&directory.shown.join(&entry.value));
                let _ = config.merge(&read_hints(&text, &file, self.problems));
            }
        }
        let generated = self.generated(&kustomization, directory, &relative_file);
        let strategic_patches = std::mem::take(&mut kustomization.patches_strategic_merge)
            .into_iter()
            .filter_map(|entry| self.strategic_patch(directory, entry))
            .collect();
        let patches = std::mem::take(&mut kustomization.patches)
            .into_iter()
            .filter_map(|entry| self.patch(directory, entry))
            .collect();
        let json_patches = std::mem::take(&mut kustomization.patches_json)
            .into_iter()
            .filter_map(|entry| self.json_patch(directory, entry))
            .collect();
        let mut replacements = Vec::new();
        for entry in std::mem::take(&mut kustomization.replacements) {
            match entry {
                ReplacementEntry::Inline(replacement) => replacements.push(*replacement),
                ReplacementEntry::File(entry) => {
                    let text = self.files.text(directory, &entry);
                    if let Some(text) = self.problems.take(text) {
                        let file = shown(&directory.shown.join(&entry.value));
                        if let Some(node) = self.problems.take(Reader::kustomize().read_one(&text, &file)) {
                            replacements.extend(read_replacements(&node, self.problems));
                        }
                    }
                }
            }
        }
        Root {
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
        }
    }

    fn generated(
        &mut self,
        kustomization: &Kustomization,
        directory: &Directory,
        relative_file: &str,
    ) -> Vec<(Resource, Behavior)> {
        let mut generated = Vec::new();
        for (kind, origin, generators) in [
            (Generated::ConfigMap, "ConfigMapGenerator", &kustomization.config_maps),
            (Generated::Secret, "SecretGenerator", &kustomization.secrets),
        ] {
            for generator in generators {
                let origin = Origin::Generator { configured_in: relative_file.to_owned(), kind: origin };
                let options = &kustomization.generator_options;
                let made =
                    generate(kind, generator, options, origin, directory, &mut self.files, self.problems);
                generated.push((made, generator.behavior));
            }
        }
        generated
    }

    /// One entry of `resources`: a file of objects or another kustomization.
    fn resource(&mut self, directory: &Directory, entry: &At<String>) -> Option<Entry> {
        let place = self.files.place(directory, entry);
        match self.problems.take(place)? {
            Place::Directory(found) => {
                let root = self.root(found, Some(&entry.at))?;
                if root.kustomization.kind == Kind::Component {
                    self.problems.push(
                        Problem::error(format!("`{}` is a component", entry.value))
                            .at(entry.at.clone())
                            .hint("list it under `components`"),
                    );
                    return None;
                }
                Some(Entry::Root(Box::new(root)))
            }
            Place::File(real) => {
                let bytes = self.files.bytes_of(&real, entry);
                let text = self.problems.take(bytes.and_then(|bytes| decode(bytes, entry)))?;
                let file = shown(&crate::files::tidy(&directory.shown.join(&entry.value)));
                let documents = self.problems.take(read_documents(&text, &file, &entry.at))?;
                let path = shown(&crate::files::tidy(&directory.relative.join(&entry.value)));
                let mut objects = Vec::new();
                for document in &documents {
                    let origin = Origin::File { path: path.clone() };
                    read_objects(document, origin, Annotations::AsText, &mut objects, self.problems);
                }
                Some(Entry::Objects(objects))
            }
        }
    }

    /// An entry of `patchesStrategicMerge` is a file, or the patch itself.
    fn strategic_patch(&mut self, directory: &Directory, entry: At<String>) -> Option<Patch> {
        let inline = entry.value.contains('\n')
            || entry.value.contains(": ")
            || entry.value.trim_start().starts_with('{');
        let (path, patch) = if inline { (None, Some(entry.clone())) } else { (Some(entry.clone()), None) };
        let entry = PatchEntry {
            path,
            patch,
            target: None,
            allow_name_change: false,
            allow_kind_change: false,
            at: entry.at,
        };
        let patch = self.patch(directory, entry)?;
        Some(Patch { metadata: MetadataOf::Copies, ..patch })
    }

    /// An entry of `patchesJson6902` has to name one object.
    fn json_patch(&mut self, directory: &Directory, entry: PatchEntry) -> Option<Patch> {
        if !entry.target.as_ref().is_some_and(|target| target.name.is_given()) {
            self.problems.push(
                Problem::error("an entry of `patchesJson6902` needs `target.name`")
                    .at(entry.at)
                    .hint("move it to `patches`, whose targets can leave the name out"),
            );
            return None;
        }
        let patch = self.patch(directory, entry)?;
        Some(Patch { renames: Renames::Forgotten, ..patch })
    }

    fn patch(&mut self, directory: &Directory, entry: PatchEntry) -> Option<Patch> {
        let body = match (&entry.path, &entry.patch) {
            (Some(path), _) => {
                let text = self.files.text(directory, path);
                let text = self.problems.take(text)?;
                let file = shown(&crate::files::tidy(&directory.shown.join(&path.value)));
                patch::read(&text, &file, &path.at, self.problems)?
            }
            (None, Some(patch)) => patch::read(&patch.value, "", &patch.at, self.problems)?,
            (None, None) => return None,
        };
        Patch::new(body, entry, self.problems)
    }
}

/// Reads the documents of a file of objects or of a patch written in a kustomization, which has no
/// file of its own and whose problems are shown where it is written.
pub(crate) fn read_documents(text: &str, file: &str, at: &Location) -> Result<Vec<Document>, Problems> {
    let inline = file.is_empty();
    let read = Reader::kustomize().read(text, if inline { &at.file } else { file });
    match read {
        Ok(nodes) => {
            let there = nodes.into_iter().filter(|node| !node.is_null());
            Ok(there.map(|node| Document(Arc::new(node))).collect())
        }
        Err(problems) if inline => Err(problems
            .into_iter()
            .map(|problem| {
                let line = problem.at.as_ref().map_or(0, |at| at.line);
                Problem {
                    at: Some(at.clone()),
                    excerpt: None,
                    message: format!("{} (line {line} of the patch)", problem.message),
                    ..problem
                }
            })
            .collect()),
        Err(problems) => Err(problems),
    }
}

/// What becomes of annotations that are no strings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Annotations {
    /// They become the text they were written as.
    AsText,
    /// The same, but null means removal.
    KeepNulls,
}

/// Deepest nesting of lists of objects in lists of objects.
const DEEPEST_LIST: usize = 8;

/// Turns a document into objects; lists of objects are taken apart.
pub(crate) fn read_objects(
    document: &Document,
    origin: Origin,
    annotations: Annotations,
    objects: &mut Vec<Resource>,
    problems: &mut Problems,
) {
    let mut open = vec![(&*document.0, 0)];
    while let Some((node, depth)) = open.pop() {
        if node.is_null() || node.as_seq().is_some_and(<[Node]>::is_empty) {
            continue;
        }
        let Some(map) = node.as_map() else {
            problems.push(node.problem(format!("an object is a mapping, not {}", node.kind())));
            continue;
        };
        let kind = map.get("kind").and_then(Node::as_str).unwrap_or_default();
        if kind.ends_with("List")
            && depth < DEEPEST_LIST
            && let Some(items) = map.get("items").and_then(Node::as_seq)
        {
            open.extend(items.iter().rev().map(|item| (item, depth + 1)));
            continue;
        }
        if let Some(mut resource) = read_object(node, origin.clone(), annotations, problems) {
            resource.document = Some(document.clone());
            objects.push(resource);
        }
    }
}

fn read_object(
    node: &Node,
    origin: Origin,
    annotations: Annotations,
    problems: &mut Problems,
) -> Option<Resource> {
    let mut complete = true;
    if node.get("kind").and_then(Node::as_str).is_none_or(str::is_empty) {
        problems.push(node.problem("the object has no `kind`"));
        complete = false;
    }
    let name = node.get("metadata").and_then(|metadata| metadata.get("name"));
    if name.and_then(Node::scalar_text).is_none_or(|name| name.is_empty()) {
        let problem = node.problem("the object has no `metadata.name`");
        problems.push(if node.at(["metadata", "generateName"]).is_some() {
            problem.hint("`generateName` is not enough: a build has to know what objects are called")
        } else {
            problem
        });
        complete = false;
    }
    if !complete {
        return None;
    }
    let mut value = written::object(node, problems);
    if let Some(Value::Object(metadata)) = value.get_mut("metadata") {
        for key in ["name", "namespace"] {
            if let Some(found) = metadata.get_mut(key)
                && (found.is_number() || found.is_boolean())
                && let Some(text) = node.at(["metadata", key]).and_then(Node::scalar_text)
            {
                *found = Value::String(text.into_owned());
            }
        }
    }
    let mut unquoted = Vec::new();
    if let Some(written) = node.at(["metadata", "annotations"]).and_then(Node::as_map)
        && let Some(Value::Object(read)) =
            value.get_mut("metadata").and_then(|metadata| metadata.get_mut("annotations"))
    {
        for (key, value) in written.iter() {
            // A date reads as a moment, but is the text it was written as.
            let is_date = |text: &str| {
                let raw = value.raw();
                raw.starts_with(|letter: char| letter.is_ascii_digit()) && !raw.contains('\n') && text != raw
            };
            let is_text = value.as_str().is_some_and(|text| !is_date(text));
            if is_text || (value.is_null() && annotations == Annotations::KeepNulls) {
                continue;
            }
            if value.as_map().is_none() && value.as_seq().is_none() {
                let key = key.key_text().into_owned();
                unquoted.push((key.clone(), annotation_of(&value.to_json())));
                read.insert(key, Value::String(value.raw().to_owned()));
            }
        }
    }
    let mut resource = Resource::new(value, origin, node.location());
    resource.unquoted = unquoted;
    let text = |field: &str| node.get(field).and_then(Node::as_str).unwrap_or_default();
    let schema = schema::of_kind(text("apiVersion"), text("kind"));
    find_blanks(node, schema, &mut Vec::new(), &mut resource.blanks);
    Some(resource)
}

/// The annotation that JSON makes of a value.
fn annotation_of(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Number(number) => number.as_f64().map(written::go_float).unwrap_or_default(),
        other => crate::resource::scalar_text(other).unwrap_or_default(),
    }
}

/// Notes fields without a value, in mappings and in lists that merge by key.
fn find_blanks(
    node: &Node,
    schema: Option<&'static Type>,
    path: &mut Vec<Step>,
    blanks: &mut Vec<Vec<Step>>,
) {
    let Some(map) = node.as_map() else { return };
    for (key, value) in map.iter() {
        let says_null = value.is_null() && !value.raw().is_empty() && !value.is_quoted();
        if says_null || value.as_str().is_some() {
            continue;
        }
        path.push(Step::Field(key.key_text().into_owned()));
        let field = schema.and_then(|schema| schema.field(&key.key_text()));
        if value.is_null() {
            blanks.push(path.clone());
        } else if let Some(list) = value.as_seq() {
            if field.is_some_and(|field| field.merge_keys.is_some()) {
                for (at, element) in list.iter().enumerate() {
                    path.push(Step::Element(at));
                    find_blanks(element, field.and_then(Field::value_type), path, blanks);
                    path.pop();
                }
            }
        } else {
            find_blanks(value, field.and_then(Field::value_type), path, blanks);
        }
        path.pop();
    }
}
