//! Values of a source: as the user gave them, which is what a release records, and as templates get them.

use std::fmt;

use serde_json::{Map, Value};
use slipway_chart::UserValues;
use slipway_package::{BuildInputs, SetKind};
use slipway_secrets::{NodeContext, ReferencePlaces};

use crate::error::{LoadError, ResolveError};

/// Replaces references to secrets in values by what they stand for.
///
/// This is where `secret://` plugs in. It works on the values a source is rendered with, never on those a
/// release records. Loading blocks a thread anyway, so an implementation may wait for the network; it registers
/// what it finds with the redactor.
pub trait SecretResolver: Send + Sync + fmt::Debug {
    /// Resolves every reference, or names all that cannot be resolved; none if there is no reference.
    fn resolve(
        &self,
        values: &Map<String, Value>,
        node: &NodeContext,
    ) -> Result<Option<ResolvedValues>, ResolveError>;

    /// Resolves the references of any tree of JSON in place.
    fn resolve_tree(&self, tree: &mut Value, node: &NodeContext) -> Result<(), ResolveError> {
        let wrapped = Map::from_iter([(TREE.to_owned(), tree.clone())]);
        if let Some(mut resolved) = self.resolve(&wrapped, node)? {
            *tree = resolved.used.remove(TREE).unwrap_or_default();
        }
        Ok(())
    }

    /// Resolves the references among the parameters of a package.
    fn resolve_inputs(&self, inputs: &mut BuildInputs, node: &NodeContext) -> Result<(), ResolveError> {
        for file in inputs.values.iter_mut().filter(|file| file.text.contains(slipway_secrets::SCHEME)) {
            // A file that cannot be read is told by the package, with its place.
            let Ok(parsed) = slipway_yaml::parse_one(&file.text, &file.name) else { continue };
            let Value::Object(values) = parsed.to_json() else { continue };
            let resolved = self.resolve(&values, node).map_err(|error| {
                let mut places = ReferencePlaces::default();
                places.add_file(&file.name, file.text.as_bytes());
                error.located(&places)
            })?;
            if let Some(resolved) = resolved {
                file.text = Value::Object(resolved.used).to_string();
            }
        }
        for set in &mut inputs.sets {
            let Some((path, text)) = set.text.split_once('=') else { continue };
            if set.kind == SetKind::Json || !text.contains(slipway_secrets::SCHEME) {
                continue;
            }
            let mut value = Value::from(text);
            self.resolve_tree(&mut value, node)?;
            (set.text, set.kind) = (format!("{path}={value}"), SetKind::Json);
        }
        Ok(())
    }
}

/// The key a tree that is no map is resolved under.
const TREE: &str = "value";

/// Values whose references are replaced.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ResolvedValues {
    /// As templates get them.
    pub used: Map<String, Value>,
    /// With texts that name the secrets in the place of their values.
    pub masked: Map<String, Value>,
    /// With other texts in the place of the secrets: fields that differ between the two depend on a secret.
    pub varied: Map<String, Value>,
}

impl ResolvedValues {
    /// Returns true if the values are those of the backends.
    pub fn is_fetched(&self) -> bool {
        self.used != self.masked
    }
}

/// Leaves values as they are.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoSecrets;

impl SecretResolver for NoSecrets {
    fn resolve(
        &self,
        _: &Map<String, Value>,
        _: &NodeContext,
    ) -> Result<Option<ResolvedValues>, ResolveError> {
        Ok(None)
    }
}

/// The resolver of a load and the node it resolves for.
pub(crate) struct SecretContext<'a> {
    pub(crate) resolver: Option<&'a dyn SecretResolver>,
    pub(crate) node: &'a NodeContext,
}

/// The user's values, put together once.
#[derive(Debug, Default)]
pub(crate) struct SourceValues {
    user: UserValues,
    /// The same with encrypted values made readable.
    decrypted: Option<UserValues>,
    recorded: Map<String, Value>,
    /// The values templates get, if they differ from the recorded ones.
    used: Option<Map<String, Value>>,
    /// The values without references, if there were some.
    resolved: Option<ResolvedValues>,
}

impl SourceValues {
    /// Puts the values of a chart together; references are resolved in those that are used.
    pub(crate) fn of_chart(
        user: UserValues,
        decrypted: Option<UserValues>,
        secrets: &SecretContext<'_>,
    ) -> Result<Self, LoadError> {
        let recorded = user.build_map()?;
        let used = decrypted.as_ref().map(UserValues::build_map).transpose()?;
        Self { user, decrypted, recorded, used, resolved: None }.with_resolved_secrets(secrets)
    }

    /// Keeps the values of a package, whose `--set` is not always Helm's: what Helm cannot read is not recorded.
    pub(crate) fn of_package(user: UserValues, secrets: &SecretContext<'_>) -> Result<Self, LoadError> {
        let is_given = [&user.set, &user.set_string, &user.set_json].iter().any(|texts| !texts.is_empty())
            || !user.files.is_empty()
            || !user.overlays.is_empty();
        let recorded = if is_given { user.build_map().unwrap_or_default() } else { Map::new() };
        Self { user, recorded, ..Self::default() }.with_resolved_secrets(secrets)
    }

    fn with_resolved_secrets(mut self, secrets: &SecretContext<'_>) -> Result<Self, LoadError> {
        if let Some(resolver) = secrets.resolver {
            let resolved = resolver.resolve(self.used_values(), secrets.node);
            self.resolved = resolved.map_err(|error| error.located(&self.reference_places()))?;
        }
        Ok(self)
    }

    /// The places of references in the user's files.
    fn reference_places(&self) -> ReferencePlaces {
        let mut places = ReferencePlaces::default();
        let inputs = self.user_inputs();
        for (name, content) in inputs.files.iter().chain(&inputs.overlays) {
            places.add_file(name, content);
        }
        places
    }

    /// The values as a release records them: references and encrypted values stay what they are.
    pub(crate) fn recorded_values(&self) -> &Map<String, Value> {
        &self.recorded
    }

    /// The values a source is rendered with.
    pub(crate) fn used_values(&self) -> &Map<String, Value> {
        match &self.resolved {
            Some(resolved) => &resolved.used,
            None => self.used.as_ref().unwrap_or(&self.recorded),
        }
    }

    /// The values without references, if there were some.
    pub(crate) fn resolved_references(&self) -> Option<&ResolvedValues> {
        self.resolved.as_ref()
    }

    /// The files and flags the values come from, encrypted ones readable.
    pub(crate) fn user_inputs(&self) -> &UserValues {
        self.decrypted.as_ref().unwrap_or(&self.user)
    }

    /// The files and flags as the user gave them; none if what they say is not what is used.
    pub(crate) fn as_given(&self) -> Option<&UserValues> {
        (self.used.is_none() && self.resolved.is_none()).then_some(&self.user)
    }
}
