//! One object of a build, with the history of its names.

use serde_json::{Map, Value};
use slipway_problem::Location;

use crate::id::{Gvk, ResourceId};
use crate::written::WrittenDocument;

/// An earlier identity of an object, before some step renamed or moved it or changed its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PastName {
    pub(crate) kind: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

/// The origin of an object, for `buildMetadata: [originAnnotations]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ResourceOrigin {
    /// Read from a file.
    File { path: String },
    /// Made by a generator.
    Generator(ConfiguredBy),
}

/// The settings a generator or transformer has, for `buildMetadata`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConfiguredBy {
    /// The file they are in, relative to where the build started.
    pub(crate) file: String,
    pub(crate) kind: String,
    /// Name and namespace of the object that holds them; none for a kustomization's own fields.
    pub(crate) name: Option<String>,
    pub(crate) namespace: Option<String>,
}

impl ConfiguredBy {
    /// Settings in the kustomization itself.
    pub(crate) fn kustomization(file: &str, kind: &str) -> Self {
        Self { file: file.to_owned(), kind: kind.to_owned(), name: None, namespace: None }
    }
}

/// One step of a path into an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ObjectStep {
    Field(String),
    Element(usize),
}

impl ObjectStep {
    fn is_element(&self) -> bool {
        matches!(self, ObjectStep::Element(_))
    }
}

/// One object of a build.
#[derive(Clone, Debug)]
pub(crate) struct Resource {
    /// The object itself; always a mapping.
    pub(crate) value: Map<String, Value>,
    /// Earlier names, oldest first; the current one is not among them.
    pub(crate) past: Vec<PastName>,
    /// Name prefixes applied, innermost first.
    pub(crate) prefixes: Vec<String>,
    /// Name suffixes applied, innermost first.
    pub(crate) suffixes: Vec<String>,
    /// Fields written without any value (`key:`); a strategic merge drops such fields, but
    /// keeps those that say `null`.
    pub(crate) blanks: Vec<Vec<ObjectStep>>,
    /// Annotations written without quotes that are no text, and the text JSON makes of them: `0x10` and `16`.
    pub(crate) unquoted: Vec<(String, String)>,
    /// Places that hold one and the same text: changing one in place changes all. kustomize puts a new
    /// label into every field of an object as one node, so a label changed later takes the selector along.
    pub(crate) shared: Vec<Vec<Vec<ObjectStep>>>,
    /// True if the content's hash becomes part of the name at the end.
    pub(crate) needs_hash: bool,
    /// True if kustomize keeps notes in its annotations from the start, as it does with `buildMetadata`.
    pub(crate) noted: bool,
    pub(crate) origin: ResourceOrigin,
    /// Transformers that changed it, when `buildMetadata` asks for them.
    pub(crate) transformed_by: Vec<ConfiguredBy>,
    /// Fields that were made from a text without saying what it is, `1_000` say, and that text.
    pub(crate) untagged: Vec<(String, String)>,
    /// Bytes that patches, replacements and variables put into it.
    pub(crate) grown: usize,
    /// Names of the variables that read one of its fields.
    pub(crate) variables: Vec<String>,
    /// The document it was read from, as long as its values are still written as they were there.
    pub(crate) document: Option<WrittenDocument>,
    pub(crate) at: Location,
}

impl Resource {
    pub(crate) fn new(value: Map<String, Value>, origin: ResourceOrigin, at: Location) -> Self {
        Self {
            value,
            past: Vec::new(),
            prefixes: Vec::new(),
            suffixes: Vec::new(),
            blanks: Vec::new(),
            unquoted: Vec::new(),
            shared: Vec::new(),
            needs_hash: false,
            noted: false,
            origin,
            transformed_by: Vec::new(),
            untagged: Vec::new(),
            grown: 0,
            variables: Vec::new(),
            document: None,
            at,
        }
    }

    pub(crate) fn kind(&self) -> &str {
        self.value.get("kind").and_then(Value::as_str).unwrap_or_default()
    }

    pub(crate) fn gvk(&self) -> Gvk {
        Gvk::new(self.value.get("apiVersion").and_then(Value::as_str).unwrap_or_default(), self.kind())
    }

    fn metadata(&self, key: &str) -> Option<&Value> {
        self.value.get("metadata")?.get(key)
    }

    pub(crate) fn name(&self) -> &str {
        self.metadata("name").and_then(Value::as_str).unwrap_or_default()
    }

    pub(crate) fn namespace(&self) -> &str {
        self.metadata("namespace").and_then(Value::as_str).unwrap_or_default()
    }

    pub(crate) fn labels(&self) -> Option<&Map<String, Value>> {
        self.metadata("labels").and_then(Value::as_object)
    }

    pub(crate) fn annotations(&self) -> Option<&Map<String, Value>> {
        self.metadata("annotations").and_then(Value::as_object)
    }

    pub(crate) fn metadata_mut(&mut self) -> &mut Map<String, Value> {
        object_at(&mut self.value, "metadata")
    }

    pub(crate) fn set_name(&mut self, name: impl Into<String>) {
        self.metadata_mut().insert("name".to_owned(), Value::String(name.into()));
    }

    /// Sets the namespace; the empty one removes the field.
    pub(crate) fn set_namespace(&mut self, namespace: &str) {
        if namespace.is_empty() {
            self.metadata_mut().shift_remove("namespace");
        } else {
            self.metadata_mut().insert("namespace".to_owned(), Value::String(namespace.to_owned()));
        }
    }

    pub(crate) fn current_id(&self) -> ResourceId {
        ResourceId { gvk: self.gvk(), namespace: self.namespace().to_owned(), name: self.name().to_owned() }
    }

    /// The identity it was read with; group and version are always the current ones.
    pub(crate) fn original_id(&self) -> ResourceId {
        self.past.first().map_or_else(|| self.current_id(), |past| self.past_id(past))
    }

    pub(crate) fn past_id(&self, past: &PastName) -> ResourceId {
        let gvk = Gvk { kind: past.kind.clone(), ..self.gvk() };
        ResourceId { gvk, namespace: past.namespace.clone(), name: past.name.clone() }
    }

    /// Every id it ever had, oldest first, the current one last.
    pub(crate) fn ids(&self) -> impl Iterator<Item = ResourceId> + '_ {
        self.past.iter().map(|past| self.past_id(past)).chain(std::iter::once_with(|| self.current_id()))
    }

    /// Keeps the current name as a past one; called before every change of name, namespace or kind.
    pub(crate) fn remember_name(&mut self) {
        self.past.push(PastName {
            kind: self.kind().to_owned(),
            namespace: self.namespace().to_owned(),
            name: self.name().to_owned(),
        });
    }

    /// Returns true if kustomize keeps notes of its own in the annotations, so that there are some.
    pub(crate) fn has_notes(&self) -> bool {
        self.noted || !self.past.is_empty() || matches!(self.origin, ResourceOrigin::Generator(_))
    }

    /// With `buildMetadata`, kustomize writes all annotations anew after every step: from then on they
    /// share no text with other fields.
    pub(crate) fn rewrite_annotations(&mut self) {
        for group in &mut self.shared {
            group.retain(|path| {
                !matches!(path.as_slice(), [ObjectStep::Field(first), ObjectStep::Field(second), ..]
                if first == "metadata" && second == "annotations")
            });
        }
        self.shared.retain(|group| group.len() > 1);
    }

    /// The value a path leads to.
    fn value_at(&mut self, path: &[ObjectStep]) -> Option<&mut Value> {
        let (ObjectStep::Field(first), rest) = path.split_first()? else { return None };
        rest.iter().try_fold(self.value.get_mut(first)?, |value, step| match step {
            ObjectStep::Field(name) => value.get_mut(name),
            ObjectStep::Element(at) => value.get_mut(*at),
        })
    }

    /// Drops the fields that were written without a value and still have none.
    pub(crate) fn drop_blanks(&mut self) {
        for path in std::mem::take(&mut self.blanks) {
            let Some((ObjectStep::Field(last), before)) = path.split_last() else { continue };
            let parent = match before {
                [] => Some(&mut self.value),
                before => self.value_at(before).and_then(Value::as_object_mut),
            };
            if let Some(parent) = parent
                && parent.get(last).is_some_and(Value::is_null)
            {
                parent.shift_remove(last);
            }
        }
    }

    /// Writes a changed text to the other places that hold the same one.
    pub(crate) fn write_shared(&mut self, changed: &[ObjectStep], value: &Value) {
        let groups = std::mem::take(&mut self.shared);
        for group in groups.iter().filter(|group| group.iter().any(|path| path == changed)) {
            for path in group {
                if let Some(place) = self.value_at(path) {
                    *place = value.clone();
                }
            }
        }
        self.shared = groups;
    }

    /// Runs a change that works in place, and lets every shared text follow it.
    pub(crate) fn change_shared<T>(&mut self, change: impl FnOnce(&mut Self) -> T) -> T {
        let groups = std::mem::take(&mut self.shared);
        if groups.is_empty() {
            return change(self);
        }
        let before: Vec<Option<Value>> =
            groups.iter().map(|group| group.iter().find_map(|path| self.value_at(path).cloned())).collect();
        let result = change(self);
        for (mut group, before) in groups.into_iter().zip(before) {
            let mut changed = None;
            group.retain(|path| match self.value_at(path) {
                Some(value) if Some(&*value) == before.as_ref() => true,
                // The elements of a list can have moved: another one is there now.
                Some(Value::Null | Value::Array(_) | Value::Object(_)) => false,
                Some(value) if !path.iter().any(ObjectStep::is_element) => {
                    changed = Some(value.clone());
                    true
                }
                _ => false,
            });
            self.shared.push(group);
            if let Some(value) = changed
                && let Some(path) = self.shared.last().and_then(|group| group.first()).cloned()
            {
                self.write_shared(&path, &value);
            }
        }
        result
    }

    /// Returns true if it only takes part in the build and is left out of the result.
    pub(crate) fn is_local_config(&self) -> bool {
        self.annotations()
            .and_then(|annotations| annotations.get("config.kubernetes.io/local-config"))
            .is_some_and(|value| value.as_str() != Some("false"))
    }
}

/// The mapping under `key`, made (or put in place of something else) when there is none.
pub(crate) fn object_at<'a>(map: &'a mut Map<String, Value>, key: &str) -> &'a mut Map<String, Value> {
    if !map.get(key).is_some_and(Value::is_object) {
        map.insert(key.to_owned(), Value::Object(Map::new()));
    }
    match map.get_mut(key) {
        Some(Value::Object(found)) => found,
        _ => unreachable!("inserted above"),
    }
}

/// The text of a scalar, as kustomize's node model sees it.
pub(crate) fn scalar_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}
