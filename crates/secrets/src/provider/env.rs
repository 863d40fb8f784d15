//! Variables of the environment that was handed in.

use futures::FutureExt as _;
use futures::future::BoxFuture;
use secrecy::ExposeSecret as _;

use super::{
    ErrorCode, FetchOutcomes, FetchedSecret, ListEntry, LoginInfo, Provider, ProviderError, fetch_singly,
};
use crate::config::EnvSettings;
use crate::environment::Environment;
use crate::material::SecretContent;
use crate::reference::Locator;

pub(crate) struct EnvProvider {
    pub(crate) settings: EnvSettings,
    pub(crate) environment: Environment,
}

impl EnvProvider {
    async fn read(&self, locator: &Locator) -> Result<FetchedSecret, ProviderError> {
        if locator.version.is_some() || locator.stage.is_some() {
            let error = ProviderError::new(ErrorCode::Invalid, "a variable has no versions");
            return Err(error.hint("leave `version` and `stage` out"));
        }
        let name = format!("{}{}", self.settings.prefix, locator.path);
        let value = self.environment.secret(&name).ok_or_else(|| {
            ProviderError::new(ErrorCode::NotFound, format!("the variable `{name}` is not set"))
                .hint("export it first")
        })?;
        Ok(FetchedSecret::new(SecretContent::bytes(value.expose_secret().as_bytes()), None))
    }
}

impl Provider for EnvProvider {
    fn batch_size(&self) -> usize {
        usize::MAX
    }

    fn fetch<'a>(&'a self, locators: &'a [Locator]) -> BoxFuture<'a, FetchOutcomes> {
        fetch_singly(locators, |locator| self.read(locator)).boxed()
    }

    fn list<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Vec<ListEntry>, ProviderError>> {
        let names =
            self.environment.variables().filter_map(|(name, _)| name.strip_prefix(&self.settings.prefix));
        let entries = names.filter(|name| name.starts_with(path)).map(ListEntry::secret).collect();
        async move { Ok(entries) }.boxed()
    }

    fn login(&self) -> BoxFuture<'_, Result<LoginInfo, ProviderError>> {
        async { Ok(LoginInfo { identity: "environment".to_owned(), expires: None }) }.boxed()
    }
}
