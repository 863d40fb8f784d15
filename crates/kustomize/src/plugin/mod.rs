//! Built-in transformers and generators that have a configuration object of their own, listed under
//! `transformers`, `validators` and `generators`. Anything but the built-in ones is refused: no program is run.

mod configure;
mod kinds;

use slipway_problem::{Location, Problem, Problems};

use crate::build::Quirks;
use crate::fieldspec::FieldSpec;
use crate::hash;
use crate::kustomization::ReplicaCount;
use crate::patch::{self, Patch};
use crate::resource::{ConfiguredBy, Resource};
use crate::transform::images::{self, ImageChange};
use crate::transform::metadata;
use crate::transform::names::{self, NameEnd};
use crate::transform::namespace::{self, NamespaceChange};
use crate::transform::replacements::{self, Replacement};
use crate::transform::replicas;
use crate::transform::value_add::{self, ValueAddition};

/// A transformer and the object that configures it.
#[derive(Debug)]
pub(crate) struct ConfiguredTransformer {
    steps: Vec<TransformStep>,
    pub(crate) by: ConfiguredBy,
    at: Location,
}

/// One change a transformer makes.
#[derive(Debug)]
enum TransformStep {
    /// Labels or annotations.
    Metadata {
        pairs: Vec<(String, String)>,
        fields: Vec<FieldSpec>,
    },
    Name {
        text: String,
        end: NameEnd,
        fields: Vec<FieldSpec>,
    },
    Namespace(NamespaceChange),
    Image {
        change: ImageChange,
        fields: Vec<FieldSpec>,
    },
    Replicas {
        replica: ReplicaCount,
        fields: Vec<FieldSpec>,
    },
    Patches(Vec<Patch>),
    Replacements(Vec<Replacement>),
    AddValue(ValueAddition),
    AddHashes,
}

/// The label a validator may leave in objects.
const VALIDATED: &str = "validated-by";

impl ConfiguredTransformer {
    pub(crate) fn apply(&self, resources: &mut Vec<Resource>, quirks: Quirks, problems: &mut Problems) {
        for step in &self.steps {
            step.apply(resources, &self.at, quirks, problems);
        }
    }

    /// Runs it as a validator, which may change nothing but one label.
    pub(crate) fn validate(&self, resources: &mut Vec<Resource>, quirks: Quirks, problems: &mut Problems) {
        let before = resources.clone();
        let failed = problems.len();
        self.apply(resources, quirks, problems);
        if problems.len() > failed && problems.has_errors() {
            return;
        }
        let changed = |(old, new): (&Resource, &Resource)| {
            let mut value = new.value.clone();
            if let Some(labels) = value
                .get_mut("metadata")
                .and_then(|metadata| metadata.get_mut("labels"))
                .and_then(serde_json::Value::as_object_mut)
                && labels.shift_remove(VALIDATED).is_some()
                && labels.is_empty()
                && let Some(metadata) = value.get_mut("metadata").and_then(serde_json::Value::as_object_mut)
            {
                metadata.shift_remove("labels");
            }
            old.value != value || old.past != new.past || old.prefixes != new.prefixes
        };
        let is_changed = before.len() != resources.len() || before.iter().zip(resources.iter()).any(changed);
        if is_changed {
            problems.push(
                Problem::error(format!("validator `{}` changes objects", self.by.kind))
                    .at(self.at.clone())
                    .hint("list it under `transformers`"),
            );
        }
    }

    /// Puts everything it reports at one place: its object has no text of its own.
    fn relocate(&mut self, at: &Location) {
        for step in &mut self.steps {
            match step {
                TransformStep::Image { change, .. } => change.at = at.clone(),
                TransformStep::Replicas { replica, .. } => replica.at = at.clone(),
                TransformStep::Patches(patches) => {
                    patches.iter_mut().for_each(|patch| patch.at = at.clone());
                }
                TransformStep::Replacements(replacements) => {
                    for replacement in replacements {
                        replacement.at = at.clone();
                        replacement.targets.iter_mut().for_each(|target| target.at = at.clone());
                    }
                }
                TransformStep::AddValue(addition) => {
                    addition.targets.iter_mut().for_each(|target| target.at = at.clone());
                }
                TransformStep::Metadata { .. }
                | TransformStep::Name { .. }
                | TransformStep::Namespace(_)
                | TransformStep::AddHashes => {}
            }
        }
    }
}

impl TransformStep {
    fn apply(&self, resources: &mut Vec<Resource>, at: &Location, quirks: Quirks, problems: &mut Problems) {
        match self {
            Self::Metadata { pairs, fields } => {
                metadata::add_metadata(resources, pairs, fields.iter(), at, problems);
            }
            Self::Name { text, end, fields } => {
                names::extend_names(resources, text, *end, fields, at, problems);
            }
            Self::Namespace(change) => namespace::move_resources(resources, change, at, problems),
            Self::Image { change, fields } => images::change_images(resources, change, fields, problems),
            Self::Replicas { replica, fields } => {
                replicas::set_replicas(
                    resources,
                    &replica.name,
                    replica.count,
                    fields,
                    &replica.at,
                    problems,
                );
            }
            Self::Patches(patches) => patch::apply_patches(resources, patches, quirks, problems),
            Self::Replacements(replacements) => {
                for replacement in replacements {
                    replacements::apply_replacement(resources, replacement, problems);
                }
            }
            Self::AddValue(addition) => value_add::add_values(resources, addition, problems),
            Self::AddHashes => hash::add_suffixes(resources),
        }
    }
}
