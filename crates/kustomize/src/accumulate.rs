//! The build of one kustomization: gather its objects, then change them in a fixed order.

use std::collections::HashMap;
use std::collections::hash_map::Entry as Place;

use serde_json::{Map, Value};
use slipway_problem::{Problem, Problems};

use crate::build::Quirks;
use crate::config::Config;
use crate::fieldspec::FieldSpec;
use crate::id::{Gvk, Id};
use crate::kustomization::{At, Behavior, BuildMetadata, Variable};
use crate::load::{Entry, Root};
use crate::patch;
use crate::resource::{ConfiguredBy, Resource, object_at};
use crate::transform::names::End;
use crate::transform::namespace::{BindingSubjects, NamespaceChange, Overwrite};
use crate::transform::{images, metadata, names, namespace, replacements, replicas, variables};

/// The objects, settings and variables a build gathers while it goes up the tree.
pub(crate) struct Accumulator<'p> {
    pub(crate) resources: Vec<Resource>,
    pub(crate) config: Config,
    pub(crate) quirks: Quirks,
    pub(crate) build_metadata: BuildMetadata,
    /// The entries of `vars` of all kustomizations so far.
    pub(crate) variables: Vec<Variable>,
    pub(crate) problems: &'p mut Problems,
}

impl<'p> Accumulator<'p> {
    pub(crate) fn new(quirks: Quirks, build_metadata: BuildMetadata, problems: &'p mut Problems) -> Self {
        Self {
            resources: Vec::new(),
            config: Config::built_in(),
            quirks,
            build_metadata,
            variables: Vec::new(),
            problems,
        }
    }

    /// Builds `root` on top of what is there, which is nothing except for a component.
    pub(crate) fn add(&mut self, root: Root) {
        let Root {
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
        self.gather(entries);
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
                self.generate(made, behavior, &mut named);
            }
        }
        if self.build_metadata != BuildMetadata::default() {
            self.resources.iter_mut().for_each(|resource| resource.noted = true);
        }
        for component in components {
            self.add(component);
        }
        let quirks = self.quirks;
        self.step(
            "PatchStrategicMergeTransformer",
            &relative_file,
            usize::from(!strategic_patches.is_empty()),
            |all| {
                patch::apply(&mut all.resources, &strategic_patches, quirks, all.problems);
            },
        );
        self.step("PatchTransformer", &relative_file, patches.len(), |all| {
            patch::apply(&mut all.resources, &patches, quirks, all.problems);
        });
        let given = kustomization.namespace.filter(|namespace| !namespace.value.is_empty());
        if let Some(At { value, at }) = given {
            self.step("NamespaceTransformer", &relative_file, 1, |all| {
                let change = NamespaceChange {
                    namespace: value,
                    fields: all.config.namespace.clone(),
                    overwrite: Overwrite::Always,
                    subjects: BindingSubjects::CalledDefault,
                };
                namespace::apply(&mut all.resources, &change, &at, all.problems);
            });
        }
        if let Some(At { value, at }) = kustomization.name_prefix {
            self.step("PrefixTransformer", &relative_file, 1, |all| {
                let fields = &all.config.name_prefix;
                names::apply(&mut all.resources, &value, End::Prefix, fields, &at, all.problems);
            });
        }
        if let Some(At { value, at }) = kustomization.name_suffix {
            self.step("SuffixTransformer", &relative_file, 1, |all| {
                let fields = &all.config.name_suffix;
                names::apply(&mut all.resources, &value, End::Suffix, fields, &at, all.problems);
            });
        }
        let has_labels = !kustomization.labels.is_empty();
        for entry in kustomization.labels {
            self.step("LabelTransformer", &relative_file, 1, |all| {
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
                metadata::apply(&mut all.resources, &entry.pairs, fields.iter(), &entry.at, all.problems);
            });
        }
        let common = kustomization.common_labels.filter(|pairs| !pairs.value.is_empty());
        if let Some(At { value, at }) = common {
            self.step("LabelTransformer", &relative_file, 1, |all| {
                let fields = all.config.common_labels.iter();
                metadata::apply(&mut all.resources, &value, fields, &at, all.problems);
            });
        } else {
            // The step for `commonLabels` runs, without effect, whenever there are labels at all.
            self.step("LabelTransformer", &relative_file, usize::from(has_labels), |_| {});
        }
        let annotations = kustomization.common_annotations.filter(|pairs| !pairs.value.is_empty());
        if let Some(At { value, at }) = annotations {
            self.step("AnnotationsTransformer", &relative_file, 1, |all| {
                let fields = all.config.common_annotations.iter();
                metadata::apply(&mut all.resources, &value, fields, &at, all.problems);
            });
        }
        self.step("PatchJson6902Transformer", &relative_file, json_patches.len(), |all| {
            patch::apply(&mut all.resources, &json_patches, quirks, all.problems);
        });
        for replica in kustomization.replicas {
            self.step("ReplicaCountTransformer", &relative_file, 1, |all| {
                let fields = &all.config.replicas;
                replicas::apply(
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
            self.step("ImageTagTransformer", &relative_file, 1, |all| {
                images::apply(&mut all.resources, &image, &all.config.images, all.problems);
            });
        }
        self.step("ReplacementTransformer", &relative_file, usize::from(!replacements.is_empty()), |all| {
            for replacement in &replacements {
                replacements::apply(&mut all.resources, replacement, all.problems);
            }
        });
        for transformer in &transformers {
            transformer.apply(&mut self.resources, quirks, self.problems);
            self.note(&transformer.by, 1);
        }
        for validator in &validators {
            validator.validate(&mut self.resources, quirks, self.problems);
        }
        variables::bind(&mut self.resources, &kustomization.variables, self.problems);
        self.add_variables(kustomization.variables);
    }

    /// Runs one transformer and, if asked for, notes in every object that it ran.
    fn step(&mut self, kind: &'static str, file: &str, times: usize, transform: impl FnOnce(&mut Self)) {
        if times == 0 {
            return;
        }
        transform(self);
        self.note(&ConfiguredBy::kustomization(file, kind), times);
    }

    fn note(&mut self, by: &ConfiguredBy, times: usize) {
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
    fn add_variables(&mut self, variables: Vec<Variable>) {
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
    pub(crate) fn gather(&mut self, entries: Vec<Entry>) {
        let mut known: HashMap<Id, slipway_problem::Location> =
            self.resources.iter().map(|resource| (resource.current().key(), resource.at.clone())).collect();
        for entry in entries {
            let objects = match entry {
                Entry::Objects(objects) => objects,
                Entry::Root(root) => {
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
                let id = object.current();
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
    fn generate(&mut self, mut made: Resource, behavior: Behavior, named: &mut NamesInUse) {
        let id = made.current();
        let places = named.0.get(&id.name).map(Vec::as_slice).unwrap_or_default();
        let matching: Vec<usize> = places
            .iter()
            .copied()
            .filter(|&at| self.resources[at].ids().any(|known| known.same_as(&id)))
            .collect();
        match (matching.as_slice(), behavior) {
            ([], Behavior::Create) => {
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
            ([at], Behavior::Create) => {
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
                if behavior == Behavior::Merge {
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
