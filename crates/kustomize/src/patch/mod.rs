//! Patches: reading them in all their forms, and applying them.

pub(crate) mod json;
pub(crate) mod strategic;

use std::collections::HashMap;

use serde_json::{Map, Value};
use slipway_problem::{Location, Problem, Problems};
use slipway_yaml::{ScalarRules, YamlNode, YamlReader};

use crate::build::{Quirks, annotation_text};
use crate::growth::GrowthBudget;
use crate::id::ResourceId;
use crate::kustomization::PatchEntry;
use crate::objects;
use crate::patch::strategic::{MergeOddity, SecondKey, WrittenStyles};
use crate::resource::{Resource, ResourceOrigin};
use crate::selector::TargetSelector;

/// A patch, read and checked.
#[derive(Debug)]
pub(crate) struct Patch {
    pub(crate) body: PatchBody,
    pub(crate) target: Option<TargetSelector>,
    pub(crate) allow_name_change: bool,
    pub(crate) allow_kind_change: bool,
    /// The reading of labels and annotations in the patch.
    pub(crate) metadata: MetadataReading,
    pub(crate) renames: RenameEffect,
    /// The place the kustomization names it at.
    pub(crate) at: Location,
}

/// The reading of labels and annotations in a strategic patch; it depends on how the patch is listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MetadataReading {
    /// As they are: null removes.
    Documents,
    /// Annotations as text: null becomes the text `null`. So it is with `options`.
    Marked,
    /// Both as text. So it is with a `target` and in `patchesStrategicMerge`.
    Copies,
}

/// The effect of a JSON patch that changes a name on references.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RenameEffect {
    Remembered,
    /// So it is in `patchesJson6902`.
    Forgotten,
}

#[derive(Debug)]
pub(crate) enum PatchBody {
    /// One object per document, each with the name of the object it is for.
    Strategic(Vec<Resource>),
    Json(Vec<json::PatchOperation>),
}

/// Reads a patch's text; `file` names it in messages.
pub(crate) fn read_patch(
    text: &str,
    file: &str,
    at: &Location,
    problems: &mut Problems,
) -> Option<PatchBody> {
    let before = problems.len();
    let documents = problems.collect_from(objects::read_documents(text, file, at))?;
    if documents.is_empty() {
        problems.push(
            Problem::error("the patch is empty")
                .at(at.clone())
                .hint("remove the entry, or say what to change"),
        );
        return None;
    }
    if let [only] = documents.as_slice()
        && only.0.as_seq().is_some()
    {
        // kustomize decodes these as YAML 1.1, unlike objects: `y` is true.
        let reader = YamlReader::new().schema(ScalarRules::Yaml11);
        let read = reader.read_one(text, if file.is_empty() { &at.file } else { file });
        let operations = read.as_ref().map_or_else(|_| only.0.to_json(), YamlNode::to_json);
        return match json::read_operations(&operations) {
            Ok(operations) => Some(PatchBody::Json(operations)),
            Err(messages) => {
                problems.extend(messages.into_iter().map(|message| Problem::error(message).at(at.clone())));
                None
            }
        };
    }
    let mut objects = Vec::new();
    for document in &documents {
        let origin = ResourceOrigin::File { path: file.to_owned() };
        objects::read_objects(
            document,
            origin,
            objects::AnnotationReading::KeepNulls,
            &mut objects,
            problems,
        );
    }
    (problems.len() == before || !problems.has_errors()).then_some(PatchBody::Strategic(objects))
}

impl Patch {
    pub(crate) fn new(body: PatchBody, entry: PatchEntry, problems: &mut Problems) -> Option<Self> {
        let PatchEntry { target, allow_name_change, allow_kind_change, at, .. } = entry;
        match (&body, &target) {
            (PatchBody::Json(_), None) => {
                problems.push(
                    Problem::error("a JSON patch needs a `target`")
                        .at(at)
                        .hint("say which objects it is for: `target: {kind: …, name: …}`"),
                );
                return None;
            }
            (PatchBody::Strategic(objects), Some(_)) if objects.len() > 1 => {
                problems.push(
                    Problem::error("a patch with a `target` can have one document only")
                        .at(at)
                        .hint("without `target`, each document is applied to the object it names"),
                );
                return None;
            }
            _ => {}
        }
        let metadata = match target {
            Some(_) => MetadataReading::Copies,
            None if allow_name_change || allow_kind_change => MetadataReading::Marked,
            None => MetadataReading::Documents,
        };
        let renames = RenameEffect::Remembered;
        Some(Self { body, target, allow_name_change, allow_kind_change, metadata, renames, at })
    }
}

/// The objects of a set by every name they ever had.
struct NameIndex(HashMap<String, Vec<usize>>);

impl NameIndex {
    fn from_resources(resources: &[Option<Resource>]) -> Self {
        let mut index: HashMap<String, Vec<usize>> = HashMap::new();
        for (at, resource) in resources.iter().enumerate() {
            let Some(resource) = resource else { continue };
            for name in resource.past.iter().map(|past| past.name.as_str()).chain([resource.name()]) {
                let places = index.entry(name.to_owned()).or_default();
                if places.last() != Some(&at) {
                    places.push(at);
                }
            }
        }
        Self(index)
    }

    fn find_matching(&self, resources: &[Option<Resource>], wanted: &ResourceId) -> Vec<usize> {
        let places = self.0.get(&wanted.name).into_iter().flatten().copied();
        places
            .filter(|&at| {
                resources[at].as_ref().is_some_and(|found| found.ids().any(|id| id.same_as(wanted)))
            })
            .collect()
    }
}

/// Applies patches in order. Objects a patch deletes are gone for the next one.
pub(crate) fn apply_patches(
    resources: &mut Vec<Resource>,
    patches: &[Patch],
    quirks: Quirks,
    problems: &mut Problems,
) {
    if patches.is_empty() {
        return;
    }
    let mut budget = GrowthBudget::of(resources.iter());
    let mut places: Vec<Option<Resource>> = resources.drain(..).map(Some).collect();
    let mut index = NameIndex::from_resources(&places);
    let mut renamed = false;
    for patch in patches {
        let renames =
            patch.allow_name_change || patch.allow_kind_change || matches!(patch.body, PatchBody::Json(_));
        renamed |= renames;
        match (&patch.body, &patch.target) {
            (PatchBody::Strategic(objects), None) => {
                for object in objects {
                    let wanted = object.current_id();
                    match index.find_matching(&places, &wanted).as_slice() {
                        [at] => apply_strategic(&mut places[*at], object, patch, quirks, problems),
                        [] => problems.push(unmatched_problem(&places, &wanted, patch, object)),
                        several => problems.push(
                            Problem::error(format!("{} objects were once called `{wanted}`", several.len()))
                                .at(patch.at.clone())
                                .hint("say which is meant with a `target`"),
                        ),
                    }
                }
            }
            (body, Some(target)) => {
                let mut found = false;
                for place in &mut places {
                    if !place.as_ref().is_some_and(|resource| target.matches(resource)) {
                        continue;
                    }
                    found = true;
                    match body {
                        PatchBody::Strategic(objects) => {
                            for object in objects {
                                let change = Value::Object(object.value.clone());
                                match budget.spend(&change, 0) {
                                    Ok(bytes) => {
                                        if let Some(resource) = place {
                                            resource.grown += bytes;
                                        }
                                        apply_strategic(place, object, patch, quirks, problems);
                                    }
                                    Err(error) => {
                                        problems.push(Problem::error(error.to_string()).at(patch.at.clone()));
                                    }
                                }
                            }
                        }
                        PatchBody::Json(operations) => {
                            apply_json(place, operations, patch, &mut budget, problems);
                        }
                    }
                }
                // kustomize looks for doubles after these patches and after no others.
                if renamed && matches!(body, PatchBody::Strategic(_)) {
                    report_duplicates(&places, patch, problems);
                }
                if !found {
                    problems.push(
                        Problem::warning("the target of this patch matches no object")
                            .code("KZ010")
                            .at(patch.at.clone())
                            .hint("names and kinds are regular expressions that have to match whole"),
                    );
                }
            }
            // Refused when the patch was made.
            (PatchBody::Json(_), None) => {}
        }
        if renames {
            index = NameIndex::from_resources(&places);
        }
    }
    resources.extend(places.into_iter().flatten());
}

/// A patch can give several objects one name.
fn report_duplicates(places: &[Option<Resource>], patch: &Patch, problems: &mut Problems) {
    let mut seen: HashMap<ResourceId, &Location> = HashMap::new();
    for resource in places.iter().flatten() {
        let id = resource.current_id();
        if let Some(first) = seen.insert(id.key(), &resource.at) {
            problems.push(
                Problem::error(format!("after this patch there are two objects called `{id}`"))
                    .at(patch.at.clone())
                    .hint(format!("they are at {first} and {}", resource.at)),
            );
        }
    }
}

fn unmatched_problem(
    places: &[Option<Resource>],
    wanted: &ResourceId,
    patch: &Patch,
    object: &Resource,
) -> Problem {
    let all = || places.iter().flatten();
    let problem = Problem::error(format!("no object `{wanted}` to patch"));
    let at = if object.at.file == patch.at.file { patch.at.clone() } else { object.at.clone() };
    let problem = problem.at(at);
    if let Some(other) = all().find(|found| found.name() == wanted.name && found.kind() == wanted.gvk.kind) {
        return problem
            .hint(format!("there is `{}`; version and namespace have to agree", other.current_id()));
    }
    let names: Vec<&str> =
        all().filter(|found| found.kind() == wanted.gvk.kind).map(Resource::name).collect();
    problem.did_you_mean(&wanted.name, names)
}

/// Directives that kubectl writes and kustomize does not know: they end up in the object.
fn foreign_directive(patch: &Map<String, Value>) -> Option<String> {
    let mut open: Vec<&Value> = patch.values().collect();
    let mut keys: Vec<&String> = patch.keys().collect();
    while let Some(value) = open.pop() {
        match value {
            Value::Object(map) => {
                keys.extend(map.keys());
                open.extend(map.values());
            }
            Value::Array(list) => open.extend(list),
            _ => {}
        }
    }
    keys.into_iter()
        .find(|key| {
            key.starts_with("$setElementOrder/")
                || key.starts_with("$deleteFromPrimitiveList/")
                || *key == "$retainKeys"
        })
        .cloned()
}

fn apply_strategic(
    place: &mut Option<Resource>,
    object: &Resource,
    patch: &Patch,
    quirks: Quirks,
    problems: &mut Problems,
) {
    let Some(mut resource) = place.take() else { return };
    let before = resource.current_id();
    if let Some(directive) = foreign_directive(&object.value) {
        let message = format!("`{directive}` is not a directive of kustomize");
        let hint = "only `$patch: merge|replace|delete` is; to remove a field, set it to null";
        problems.push(match quirks {
            Quirks::Fixed => Problem::error(message).code("KZ030").at(patch.at.clone()).hint(hint),
            Quirks::AsKustomize => Problem::warning(format!("{message} and stays in `{before}`"))
                .code("KZ030")
                .at(patch.at.clone())
                .hint(hint),
        });
    }
    let replaces = object.value.get("$patch").and_then(Value::as_str) == Some("replace");
    if replaces && quirks == Quirks::AsKustomize {
        problems.push(
            Problem::warning(format!("`$patch: replace` has no effect on a whole object; `{before}` stays"))
                .at(patch.at.clone())
                .hint("put it into the field to replace, or replace the object's file"),
        );
        *place = Some(resource);
        return;
    }
    let rolling = |map: &Map<String, Value>| {
        let strategy = map.get("spec")?.get("strategy")?;
        Some((
            strategy.get("type")?.as_str()?.to_owned(),
            strategy.get("rollingUpdate").is_some_and(|v| !v.is_null()),
        ))
    };
    if patch.allow_name_change || patch.allow_kind_change {
        resource.remember_name();
    }
    // The patch takes the identity of what it patches, unless told otherwise.
    let mut change = object.value.clone();
    for key in ["apiVersion", "kind"] {
        match resource.value.get(key) {
            Some(mine) if key == "apiVersion" || !patch.allow_kind_change => {
                change.insert(key.to_owned(), mine.clone());
            }
            _ => {}
        }
    }
    if let Some(Value::Object(metadata)) = change.get_mut("metadata") {
        if !patch.allow_name_change {
            metadata.shift_remove("name");
        }
        let as_text: &[&str] = match patch.metadata {
            MetadataReading::Documents => &[],
            MetadataReading::Marked => &["annotations"],
            MetadataReading::Copies => &["labels", "annotations"],
        };
        if quirks == Quirks::AsKustomize {
            for field in as_text {
                let Some(Value::Object(texts)) = metadata.get_mut(*field).filter(|texts| is_filled(texts))
                else {
                    // None at all, or null, says nothing here.
                    metadata.shift_remove(*field);
                    continue;
                };
                for (key, value) in texts.iter_mut().filter(|(_, value)| !value.is_string()) {
                    if value.is_null() {
                        problems.push(
                            Problem::warning(format!(
                                "`{before}`: `metadata.{field}.{key}: null` sets the text `null` here and removes nothing"
                            ))
                            .at(patch.at.clone())
                            .hint("list the patch under `patches` without `target`, or use a JSON patch"),
                        );
                    }
                    *value = Value::String(annotation_text(value));
                }
            }
        }
        metadata.shift_remove("namespace");
    }
    let second_key = match quirks {
        Quirks::AsKustomize => SecondKey::AsKustomize,
        Quirks::Fixed => SecondKey::Defaulted,
    };
    resource.drop_blanks();
    let mut oddities = Vec::new();
    let written = WrittenStyles { object: resource.document.clone(), patch: object.document.as_ref() };
    let value = resource.value.clone();
    let merged = resource.change_shared(|resource| {
        let value = std::mem::take(&mut resource.value);
        let merged = strategic::merge_patch(value, &change, second_key, &written, &mut oddities)?;
        let stays = merged.is_some();
        resource.value = merged.unwrap_or_default();
        Ok(stays)
    });
    match merged {
        Ok(true) => {
            // A patch can remove these; an object keeps them.
            if resource.name().is_empty() {
                resource.set_name(before.name.clone());
            }
            if resource.namespace() != before.namespace {
                resource.set_namespace(&before.namespace);
            }
            if let Some((kind, true)) = rolling(&resource.value)
                && kind == "Recreate"
            {
                problems.push(
                    Problem::warning(format!("`{before}` is now `Recreate` but keeps its `rollingUpdate`, which the API server refuses"))
                        .code("KZ031")
                        .at(patch.at.clone())
                        .hint("add `rollingUpdate: null` to the patch"),
                );
            }
            *place = Some(resource);
        }
        Ok(false) => {}
        Err(error) => {
            let error: strategic::MergeError = error;
            problems.push(
                Problem::error(format!("cannot patch `{before}`: `{}`: {}", error.path, error.message))
                    .at(patch.at.clone()),
            );
            resource.value = value;
            *place = Some(resource);
        }
    }
    for oddity in oddities {
        let MergeOddity::LostElement { path, key } = oddity;
        problems.push(
            Problem::warning(format!(
                "`{before}`: an element of `{path}` is lost, because only one side gives its `{key}`"
            ))
            .code("KZ032")
            .at(patch.at.clone())
            .hint(format!("give `{key}` in both, the object and the patch")),
        );
    }
}

fn is_filled(value: &Value) -> bool {
    value.as_object().is_some_and(|map| !map.is_empty())
}

fn apply_json(
    place: &mut Option<Resource>,
    operations: &[json::PatchOperation],
    patch: &Patch,
    budget: &mut GrowthBudget,
    problems: &mut Problems,
) {
    let Some(resource) = place else { return };
    let before = resource.current_id();
    let unpatched = resource.value.clone();
    if patch.renames == RenameEffect::Remembered {
        resource.remember_name();
    }
    // kustomize keeps notes in the annotations, so to a patch they are there from the first note on.
    if resource.has_notes() {
        crate::resource::object_at(resource.metadata_mut(), "annotations");
    }
    resource.shared.clear();
    // The object goes through JSON and back: how it was written is lost, and no value at all is null.
    let read = resource.document.take();
    for (key, text) in std::mem::take(&mut resource.unquoted) {
        // One that was set since is text.
        let is_read = |annotation: &&mut Value| {
            let annotation = annotation.as_str().unwrap_or_default();
            read.as_ref().is_some_and(|document| document.is_written_as(&key, annotation))
        };
        let annotations = resource.metadata_mut().get_mut("annotations");
        if let Some(annotation) = annotations.and_then(|map| map.get_mut(&key)).filter(is_read) {
            *annotation = Value::String(text);
        }
    }
    resource.blanks.clear();
    let mut document = Value::Object(std::mem::take(&mut resource.value));
    match json::apply_operations(&mut document, operations, budget) {
        Ok(grown) => match json::round_numbers(document) {
            Value::Object(map) => {
                resource.value = map;
                resource.grown += grown;
                // Annotations are read back as text, so anything but a mapping counts as none.
                if resource.annotations().is_none() {
                    resource.metadata_mut().shift_remove("annotations");
                }
            }
            _ => resource.value = unpatched,
        },
        Err(message) => {
            resource.value = unpatched;
            problems.push(Problem::error(format!("`{before}`: {message}")).at(patch.at.clone()));
        }
    }
}
