//! The build of one kustomization: gather its objects, then change them in a fixed order.

use std::collections::HashMap;
use std::collections::hash_map::Entry as Place;

use serde_json::{Map, Value};
use slipway_problem::{Problem, Problems};

use crate::build::Quirks;
use crate::config::TransformerConfig;
use crate::fieldspec::FieldSpec;
use crate::id::{Gvk, ResourceId};
use crate::kustomization::{BuildMetadata, GeneratorBehavior, LocatedValue, VariableEntry};
use crate::load::{LoadedKustomization, ResourceEntry};
use crate::patch;
use crate::resource::{ConfiguredBy, Resource, object_at};
use crate::transform::names::NameEnd;
use crate::transform::namespace::{BindingSubjects, NamespaceChange, OverwriteRule};
use crate::transform::{images, metadata, names, namespace, replacements, replicas, variables};

/// The objects, settings and variables a build gathers while it goes up the tree.
pub(crate) struct Accumulator<'p> {
    pub(crate) resources: Vec<Resource>,
    pub(crate) config: TransformerConfig,
    pub(crate) quirks: Quirks,
    pub(crate) build_metadata: BuildMetadata,
    /// The entries of `vars` of all kustomizations so far.
    pub(crate) variables: Vec<VariableEntry>,
    pub(crate) problems: &'p mut Problems,
}

impl<'p> Accumulator<'p> {
    pub(crate) fn new(quirks: Quirks, build_metadata: BuildMetadata, problems: &'p mut Problems) -> Self {
        Self {
            resources: Vec::new(),
            config: TransformerConfig::built_in(),
            quirks,
            build_metadata,
            variables: Vec::new(),
            problems,
        }
    }

    /// Builds `root` on top of what is there, which is nothing except for a component.
    pub(crate) fn add(&mut self, root: LoadedKustomization) {
        let LoadedKustomization {
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
        } = root;
        self.gather_resources(entries);
        let conflicts = self.config.merge(&config);
        let named = kustomization.configurations.iter().chain(&kustomization.crds).next();
        self.problems.extend(conflicts.into_iter().map(|path| {
            let problem = Problem::error(format!("`{path}` is configured with another `create` already"))
                .hint("leave `create` as the built-in configuration, or the one of a base, has it");
            named.map_or(problem.clone(), |entry| problem.at(entry.at.clone()))
        }));
        if !generated.is_empty() {
            let mut named = NamesInUse::default();
            for (at, resource) in self.resources.iter().enumerate() {
                named.add(resource, at);
            }
            for (made, behavior) in generated {
                self.add_generated(made, behavior, &mut named);
            }
        }
        if self.build_metadata != BuildMetadata::default() {
            self.resources.iter_mut().for_each(|resource| resource.noted = true);
        }
        for component in components {
            self.add(component);
        }
        let quirks = self.quirks;
        self.run_transformer(
            "PatchStrategicMergeTransformer",
            &relative_file,
            usize::from(!strategic_patches.is_empty()),
            |all| {
                patch::apply_patches(&mut all.resources, &strategic_patches, quirks, all.problems);
            },
        );
        self.run_transformer("PatchTransformer", &relative_file, patches.len(), |all| {
            patch::apply_patches(&mut all.resources, &patches, quirks, all.problems);
        });
        let given = kustomization.namespace.filter(|namespace| !namespace.value.is_empty());
        if let Some(LocatedValue { value, at }) = given {
            self.run_transformer("NamespaceTransformer", &relative_file, 1, |all| {
                let change = NamespaceChange {
                    namespace: value,
                    fields: all.config.namespace.clone(),
                    overwrite: OverwriteRule::Always,
                    subjects: BindingSubjects::CalledDefault,
                };
                namespace::move_resources(&mut all.resources, &change, &at, all.problems);
            });
        }
        if let Some(LocatedValue { value, at }) = kustomization.name_prefix {
            self.run_transformer("PrefixTransformer", &relative_file, 1, |all| {
                let fields = &all.config.name_prefix;
                names::extend_names(&mut all.resources, &value, NameEnd::Prefix, fields, &at, all.problems);
            });
        }
        if let Some(LocatedValue { value, at }) = kustomization.name_suffix {
            self.run_transformer("SuffixTransformer", &relative_file, 1, |all| {
                let fields = &all.config.name_suffix;
                names::extend_names(&mut all.resources, &value, NameEnd::Suffix, fields, &at, all.problems);
            });
        }
        let has_labels = !kustomization.labels.is_empty();
        for entry in kustomization.labels {
            self.run_transformer("LabelTransformer", &relative_file, 1, |all| {
                let own = [FieldSpec::new(Gvk::default(), "metadata/labels", true)];
                let mut fields = entry.fields.clone();
                let configured = all.config.labels.as_slice();
                let built_in = match (entry.include_selectors, entry.include_templates) {
                    (true, _) => [configured, all.config.common_labels.as_slice(), &[]],
                    (false, true) => [configured, all.config.template_labels.as_slice(), &own],
                    (false, false) => [configured, &[], own.as_slice()],
                };
                for field in built_in.into_iter().flatten() {
                    // A field of the entry stands in for the built-in one that covers its kind, which then
                    // reaches no other kind either.
                    let is_same =
                        |known: &&FieldSpec| known.path == field.path && field.applies_to(&known.gvk);
                    match fields.iter().find(is_same) {
                        None => fields.push(field.clone()),
                        Some(known) if known.create != field.create => {
                            let path = field.path.join("/");
                            all.problems.push(
                                Problem::error(format!("`{path}` is a built-in field with another `create`"))
                                    .at(entry.at.clone())
                                    .hint(format!("give it `create: {}`", field.create)),
                            );
                        }
                        Some(_) => {}
                    }
                }
                metadata::add_metadata(
                    &mut all.resources,
                    &entry.pairs,
                    fields.iter(),
                    &entry.at,
                    all.problems,
                );
            });
        }
        let common = kustomization.common_labels.filter(|pairs| !pairs.value.is_empty());
        if let Some(LocatedValue { value, at }) = common {
            self.run_transformer("LabelTransformer", &relative_file, 1, |all| {
                let fields = all.config.common_labels.iter();
                metadata::add_metadata(&mut all.resources, &value, fields, &at, all.problems);
            });
        } else {
            // The step for `commonLabels` runs, without effect, whenever there are labels at all.
            self.run_transformer("LabelTransformer", &relative_file, usize::from(has_labels), |_| {});
        }
        let annotations = kustomization.common_annotations.filter(|pairs| !pairs.value.is_empty());
        if let Some(LocatedValue { value, at }) = annotations {
            self.run_transformer("AnnotationsTransformer", &relative_file, 1, |all| {
                let fields = all.config.common_annotations.iter();
                metadata::add_metadata(&mut all.resources, &value, fields, &at, all.problems);
            });
        }
        self.run_transformer("PatchJson6902Transformer", &relative_file, json_patches.len(), |all| {
            patch::apply_patches(&mut all.resources, &json_patches, quirks, all.problems);
        });
        for replica in kustomization.replicas {
            self.run_transformer("ReplicaCountTransformer", &relative_file, 1, |all| {
                let fields = &all.config.replicas;
                replicas::set_replicas(
                    &mut all.resources,
                    &replica.name,
                    replica.count,
                    fields,
                    &replica.at,
                    all.problems,
                );
            });
        }
        for image in kustomization.images {
            self.run_transformer("ImageTagTransformer", &relative_file, 1, |all| {
                images::change_images(&mut all.resources, &image, &all.config.images, all.problems);
            });
        }
        self.run_transformer(
            "ReplacementTransformer",
            &relative_file,
            usize::from(!replacements.is_empty()),
            |all| {
                for replacement in &replacements {
                    replacements::apply_replacement(&mut all.resources, replacement, all.problems);
                }
            },
        );
        for transformer in &transformers {
            transformer.apply(&mut self.resources, quirks, self.problems);
            self.note_transformer(&transformer.by, 1);
        }
        for validator in &validators {
            validator.validate(&mut self.resources, quirks, self.problems);
        }
        variables::bind_variables(&mut self.resources, &kustomization.variables, self.problems);
        self.add_variables(kustomization.variables);
    }

    /// Runs one transformer and, if asked for, notes in every object that it ran.
    fn run_transformer(
        &mut self,
        kind: &'static str,
        file: &str,
        times: usize,
        transform: impl FnOnce(&mut Self),
    ) {
        if times == 0 {
            return;
        }
        transform(self);
        self.note_transformer(&ConfiguredBy::kustomization(file, kind), times);
    }

    fn note_transformer(&mut self, by: &ConfiguredBy, times: usize) {
        if self.build_metadata == BuildMetadata::default() {
            return;
        }
        for resource in &mut self.resources {
            resource.rewrite_annotations();
            if self.build_metadata.transformers {
                resource.transformed_by.extend(std::iter::repeat_n(by, times).cloned());
            }
        }
    }

    /// Adds variables; no two of a build have one name.
    fn add_variables(&mut self, variables: Vec<VariableEntry>) {
        for variable in variables {
            match self.variables.iter().find(|known| known.name == variable.name) {
                None => self.variables.push(variable),
                Some(first) => self.problems.push(
                    Problem::error(format!("there are two variables called `{}`", variable.name))
                        .at(variable.at)
                        .hint(format!("the first is at {}", first.at)),
                ),
            }
        }
    }

    /// Adds the objects of `resources`, in the order they are listed.
    pub(crate) fn gather_resources(&mut self, entries: Vec<ResourceEntry>) {
        let mut known: HashMap<ResourceId, slipway_problem::Location> = self
            .resources
            .iter()
            .map(|resource| (resource.current_id().key(), resource.at.clone()))
            .collect();
        for entry in entries {
            let objects = match entry {
                ResourceEntry::Objects(objects) => objects,
                ResourceEntry::Root(root) => {
                    let mut below = Accumulator::new(self.quirks, self.build_metadata, self.problems);
                    below.add(*root);
                    let Accumulator { resources, config, variables, .. } = below;
                    // What two bases disagree on was said of the one that came later, or is built in.
                    let _ = self.config.merge(&config);
                    self.add_variables(variables);
                    resources
                }
            };
            for object in objects {
                let id = object.current_id();
                match known.entry(id.key()) {
                    Place::Vacant(place) => {
                        place.insert(object.at.clone());
                        self.resources.push(object);
                    }
                    Place::Occupied(first) => self.problems.push(
                        Problem::error(format!("there are two objects called `{id}`"))
                            .at(object.at.clone())
                            .hint(format!("the first is at {}", first.get())),
                    ),
                }
            }
        }
    }

    /// Adds a generated object, or merges it into the one it is about.
    fn add_generated(&mut self, mut made: Resource, behavior: GeneratorBehavior, named: &mut NamesInUse) {
        let id = made.current_id();
        let places = named.0.get(&id.name).map(Vec::as_slice).unwrap_or_default();
        let matching: Vec<usize> = places
            .iter()
            .copied()
            .filter(|&at| self.resources[at].ids().any(|known| known.same_as(&id)))
            .collect();
        match (matching.as_slice(), behavior) {
            ([], GeneratorBehavior::Create) => {
                named.add(&made, self.resources.len());
                self.resources.push(made);
            }
            ([], _) => {
                let names: Vec<&str> = self
                    .resources
                    .iter()
                    .filter(|found| found.kind() == id.gvk.kind)
                    .map(Resource::name)
                    .collect();
                self.problems.push(
                    Problem::error(format!("there is no `{id}` to merge into or replace"))
                        .at(made.at.clone())
                        .did_you_mean(&id.name, names),
                );
            }
            ([at], GeneratorBehavior::Create) => {
                let first = self.resources[*at].at.clone();
                self.problems.push(
                    Problem::error(format!("`{id}` is there already"))
                        .at(made.at.clone())
                        .hint(format!("it is made at {first}; use `behavior: merge` or `behavior: replace`")),
                );
            }
            ([at], behavior) => {
                let old = &mut self.resources[*at];
                // The new object takes over, with the name and the history of the old one; the name is
                // hashed only if both want it.
                old.needs_hash &= made.needs_hash;
                for field in ["labels", "annotations"] {
                    merge_field(old.metadata_mut().get(field).cloned(), made.metadata_mut(), field);
                    if made.metadata_mut().get(field).and_then(Value::as_object).is_some_and(Map::is_empty) {
                        made.metadata_mut().shift_remove(field);
                    }
                }
                made.set_name(old.name().to_owned());
                let namespace = old.namespace().to_owned();
                made.set_namespace(&namespace);
                if behavior == GeneratorBehavior::Merge {
                    for field in ["data", "binaryData"] {
                        merge_field(old.value.get(field).cloned(), &mut made.value, field);
                    }
                } else {
                    old.origin = made.origin;
                }
                old.value = made.value;
                old.shared.clear();
            }
            (several, _) => self.problems.push(
                Problem::error(format!("{} objects could be the `{id}` that is meant", several.len()))
                    .at(made.at.clone()),
            ),
        }
    }
}

/// Positions of the objects a generator can be about, by every name they ever had.
#[derive(Default)]
struct NamesInUse(HashMap<String, Vec<usize>>);

impl NamesInUse {
    fn add(&mut self, resource: &Resource, at: usize) {
        if !matches!(resource.kind(), "ConfigMap" | "Secret") {
            return;
        }
        for name in resource.past.iter().map(|past| past.name.as_str()).chain([resource.name()]) {
            let places = self.0.entry(name.to_owned()).or_default();
            if places.last() != Some(&at) {
                places.push(at);
            }
        }
    }
}

/// Adds the entries of `old` that `map` has not under `field`.
fn merge_field(old: Option<Value>, map: &mut Map<String, Value>, field: &str) {
    let Some(Value::Object(old)) = old else { return };
    let mine = object_at(map, field);
    for (key, value) in old {
        mine.entry(key).or_insert(value);
    }
}
