//! Sentinels: texts that stand for secrets wherever something is rendered to be shown or stored.
//!
//! `⟦secret:vault/app/db#password⟧` is unique, printable and the same in every run. Where a chart needs a
//! value it can parse, the configuration gives a stand-in for it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use globset::GlobMatcher;
use serde_json::{Value, json};

use crate::config::SecretsConfig;
use crate::reference::{ProviderName, SecretReference, ValueType};
use crate::scan::{Interpolation, replace_references};

const OPEN: &str = "⟦secret:";
const CLOSE: char = '⟧';

/// A dummy value for references that match a pattern.
#[derive(Clone, Debug)]
pub(crate) struct StandIn {
    pub(crate) pattern: GlobMatcher,
    pub(crate) value: String,
}

/// Puts sentinels and stand-ins into values. Asks no backend.
#[derive(Clone, Debug, Default)]
pub struct Sentinels {
    default_provider: Option<ProviderName>,
    interpolation: Interpolation,
    stand_ins: Vec<StandIn>,
    variant: Variant,
}

/// The values sentinels are made of. A field that differs between renders of both depends on a secret.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Variant {
    #[default]
    First,
    Second,
}

impl Sentinels {
    pub fn new(config: &SecretsConfig) -> Self {
        Self {
            default_provider: config.default_provider.clone(),
            interpolation: config.interpolation,
            stand_ins: config.stand_ins.clone(),
            variant: Variant::First,
        }
    }

    /// The same with other texts and numbers, for finding what is derived from a secret without knowing it.
    #[must_use]
    pub fn varied(&self) -> Self {
        Self { variant: Variant::Second, ..self.clone() }
    }

    /// The same for values where `${secret://…}` inside of longer texts is always meant.
    #[must_use]
    pub fn with_interpolation(self, interpolation: Interpolation) -> Self {
        Self { interpolation, ..self }
    }

    /// Replaces every reference by what stands for it.
    pub fn substitute(&self, values: &mut Value) {
        replace_references(values, self.interpolation, &mut |reference| Some(self.value_of(reference)));
    }

    /// The value that stands for a reference: a stand-in, a constant of its type, or a sentinel.
    pub fn value_of(&self, reference: &SecretReference) -> Value {
        let bound = self.bound(reference);
        let canonical = bound.to_string();
        let stand_in = self.stand_ins.iter().find(|stand_in| stand_in.pattern.is_match(&canonical));
        let is_first = self.variant == Variant::First;
        match (stand_in, bound.value_type) {
            (Some(stand_in), ValueType::String) => Value::String(stand_in.value.clone()),
            (Some(stand_in), _) => slipway_yaml::parse_one(&stand_in.value, "stand-in")
                .map_or_else(|_| Value::String(stand_in.value.clone()), |node| node.to_json()),
            (None, ValueType::String) if is_first => Value::String(sentinel(&bound)),
            (None, ValueType::String) => Value::String(format!("{}~", sentinel(&bound))),
            (None, ValueType::Int) => json!(if is_first { 1 } else { 2 }),
            (None, ValueType::Float) => json!(if is_first { 1.5 } else { 2.5 }),
            // Another truth would change which objects there are.
            (None, ValueType::Bool) => json!(true),
            (None, ValueType::Json | ValueType::Yaml) => json!({}),
        }
    }

    fn bound(&self, reference: &SecretReference) -> SecretReference {
        self.default_provider
            .as_ref()
            .map_or_else(|| reference.clone(), |default| reference.with_default_provider(default))
    }
}

/// The sentinel of a reference.
fn sentinel(reference: &SecretReference) -> String {
    let provider = reference.provider.as_ref().map_or("", ProviderName::as_str);
    format!("{OPEN}{provider}/{}{CLOSE}", reference.path_and_field())
}

/// The secret a rendered text comes from, if it holds a sentinel, plain or in base64.
pub fn sentinel_origin(text: &str) -> Option<SecretOrigin> {
    let decoded = || STANDARD.decode(text.trim()).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    plain_origin(text).or_else(|| plain_origin(&decoded()?))
}

fn plain_origin(text: &str) -> Option<SecretOrigin> {
    let (_, after) = text.split_once(OPEN)?;
    let (inner, _) = after.split_once(CLOSE)?;
    let (provider, path) = inner.split_once('/')?;
    Some(SecretOrigin { provider: provider.to_owned(), path: path.to_owned() })
}

/// The provider and path a value comes from; prints as people read it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SecretOrigin {
    pub provider: String,
    /// With the key: `app/db#password`.
    pub path: String,
}

impl std::fmt::Display for SecretOrigin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "value supplied by {} path {}", self.provider, self.path)
    }
}
