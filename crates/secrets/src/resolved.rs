//! Values of references, wiped when dropped.

use std::collections::BTreeMap;

use secrecy::ExposeSecret as _;
use serde_json::Value;
use slipway_problem::{Problem, Problems};

use crate::admit::AdmittedReference;
use crate::config::ProviderType;
use crate::material::{MaskingStrength, SecretJson};
use crate::reference::SecretReference;
use crate::scan::{Interpolation, replace_references};
use crate::sentinel::SecretOrigin;

/// A value and where it comes from.
#[derive(Debug)]
pub struct ResolvedSecret {
    pub value: SecretJson,
    pub origin: SecretOrigin,
    pub provider_type: ProviderType,
    pub version: Option<String>,
    pub strength: MaskingStrength,
}

/// The values of a set of references; wiped when dropped.
#[derive(Debug)]
pub struct ResolvedSecrets {
    secrets: BTreeMap<SecretReference, ResolvedSecret>,
    interpolation: Interpolation,
    warnings: Problems,
}

impl ResolvedSecrets {
    pub(crate) fn empty(interpolation: Interpolation) -> Self {
        Self { secrets: BTreeMap::new(), interpolation, warnings: Problems::new() }
    }

    pub(crate) fn warn(&mut self, problem: Problem) {
        self.warnings.push(problem);
    }

    pub(crate) fn insert(&mut self, reference: &AdmittedReference, secret: ResolvedSecret) {
        if secret.strength == MaskingStrength::StructureOnly {
            let message = format!("{} is too short or too common to be masked in free text", reference.bound);
            self.warn(
                Problem::warning(message).hint("it stays masked in plans and diffs; use a longer value"),
            );
        }
        self.secrets.insert(reference.written.clone(), secret);
    }

    /// Puts the values in the place of their references.
    pub fn substitute(&self, values: &mut Value) {
        replace_references(values, self.interpolation, &mut |reference| {
            self.secrets.get(reference).map(|secret| secret.value.expose_secret().value().clone())
        });
    }

    pub fn get(&self, reference: &SecretReference) -> Option<&ResolvedSecret> {
        self.secrets.get(reference)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&SecretReference, &ResolvedSecret)> {
        self.secrets.iter()
    }

    pub fn len(&self) -> usize {
        self.secrets.len()
    }

    pub fn is_empty(&self) -> bool {
        self.secrets.is_empty()
    }

    /// Findings that do not stop the work.
    pub fn warnings(&self) -> &Problems {
        &self.warnings
    }

    /// `resolved 3 references (vault 2, aws-secrets-manager 1)`, for references of these types.
    pub fn count_by_type(types: impl IntoIterator<Item = ProviderType>) -> String {
        let mut counts: BTreeMap<ProviderType, usize> = BTreeMap::new();
        for provider_type in types {
            *counts.entry(provider_type).or_default() += 1;
        }
        let total: usize = counts.values().sum();
        let counts: Vec<String> = counts.iter().map(|(name, count)| format!("{name} {count}")).collect();
        let noun = if total == 1 { "reference" } else { "references" };
        format!("resolved {total} {noun} ({})", counts.join(", "))
    }
}
