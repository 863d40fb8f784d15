//! Values of a source: as the user gave them, which is what a release records, and as templates get them.

use std::fmt;

use serde_json::{Map, Value};
use slipway_chart::UserValues;

use crate::error::{LoadError, ResolveError};

/// Replaces references to secrets in values by what they stand for.
///
/// This is where `secret://` plugs in. It works on the values a source is rendered with, never on those a
/// release records. Loading blocks a thread anyway, so an implementation may wait for the network; it registers
/// what it finds with the redactor.
pub trait SecretResolver: Send + Sync + fmt::Debug {
    /// Replaces every reference, or names all that cannot be resolved.
    fn resolve(&self, values: &mut Map<String, Value>) -> Result<(), ResolveError>;
}

/// Leaves values as they are.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoSecrets;

impl SecretResolver for NoSecrets {
    fn resolve(&self, _: &mut Map<String, Value>) -> Result<(), ResolveError> {
        Ok(())
    }
}

/// The user's values, put together once.
#[derive(Debug, Default)]
pub(crate) struct SourceValues {
    user: UserValues,
    /// The same with encrypted values made readable.
    decrypted: Option<UserValues>,
    recorded: Map<String, Value>,
    /// What templates get, where that is not what is recorded.
    used: Option<Map<String, Value>>,
}

impl SourceValues {
    /// Puts the values of a chart together; references are resolved in those that are used.
    pub(crate) fn of_chart(
        user: UserValues,
        decrypted: Option<UserValues>,
        resolver: Option<&dyn SecretResolver>,
    ) -> Result<Self, LoadError> {
        let recorded = user.build_map()?;
        let used = decrypted.as_ref().map(UserValues::build_map).transpose()?;
        Self { user, decrypted, recorded, used }.resolved(resolver)
    }

    /// Keeps the values of a package, whose `--set` is not always Helm's: what Helm cannot read is not recorded.
    pub(crate) fn of_package(
        user: UserValues,
        resolver: Option<&dyn SecretResolver>,
    ) -> Result<Self, LoadError> {
        let is_given = [&user.set, &user.set_string, &user.set_json].iter().any(|texts| !texts.is_empty())
            || !user.files.is_empty();
        let recorded = if is_given { user.build_map().unwrap_or_default() } else { Map::new() };
        Self { user, recorded, ..Self::default() }.resolved(resolver)
    }

    fn resolved(mut self, resolver: Option<&dyn SecretResolver>) -> Result<Self, LoadError> {
        if let Some(resolver) = resolver {
            let mut values = self.used().clone();
            resolver.resolve(&mut values)?;
            if values != *self.used() {
                self.used = Some(values);
            }
        }
        Ok(self)
    }

    /// The values as a release records them: references and encrypted values stay what they are.
    pub(crate) fn recorded(&self) -> &Map<String, Value> {
        &self.recorded
    }

    /// The values a source is rendered with.
    pub(crate) fn used(&self) -> &Map<String, Value> {
        self.used.as_ref().unwrap_or(&self.recorded)
    }

    /// The files and flags the values come from, encrypted ones readable.
    pub(crate) fn inputs(&self) -> &UserValues {
        self.decrypted.as_ref().unwrap_or(&self.user)
    }

    /// The files and flags as the user gave them; none if what they say is not what is used.
    pub(crate) fn as_given(&self) -> Option<&UserValues> {
        self.used.is_none().then_some(&self.user)
    }
}
