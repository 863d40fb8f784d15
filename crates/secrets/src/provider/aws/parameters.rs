//! AWS Systems Manager Parameter Store: batches of 10, versions and labels as a part of the name.

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use secrecy::SecretString;
use serde_json::{Value, json};

use super::AwsService;
use crate::config::AwsSettings;
use crate::material::SecretContent;
use crate::provider::build::BuildContext;
use crate::provider::{
    ErrorCode, FetchOutcomes, FetchedSecret, ListEntry, LoginInfo, Provider, ProviderError, all_failed,
};
use crate::reference::Locator;

const BATCH: usize = 10;

pub(crate) struct ParameterStore {
    service: AwsService,
    prefix: String,
    with_decryption: bool,
}

impl ParameterStore {
    pub(crate) fn new(settings: AwsSettings, context: BuildContext) -> Result<Self, ProviderError> {
        let prefix = settings.prefix.clone();
        let with_decryption = !settings.without_decryption;
        Ok(Self { service: AwsService::new(settings, context, "ssm", "AmazonSSM")?, prefix, with_decryption })
    }

    /// The name without version or label; hierarchical names are rooted.
    fn name(&self, path: &str) -> String {
        let name = format!("{}{path}", self.prefix);
        if name.contains('/') && !name.starts_with('/') && !name.starts_with("arn:") {
            format!("/{name}")
        } else {
            name
        }
    }

    /// The name as it is asked for: `name`, `name:version` or `name:label`.
    fn selector(&self, locator: &Locator) -> String {
        let suffix = locator.version.as_ref().or(locator.stage.as_ref()).map(|part| format!(":{part}"));
        format!("{}{}", self.name(&locator.path), suffix.unwrap_or_default())
    }

    async fn read(&self, locators: &[Locator]) -> FetchOutcomes {
        let names: Vec<String> = locators.iter().map(|locator| self.selector(locator)).collect();
        let body = json!({"Names": names, "WithDecryption": self.with_decryption});
        let answer = match self.service.call("GetParameters", &body).await {
            Ok(answer) => answer,
            Err(error) => return all_failed(locators, &error.error("ssm:GetParameters")),
        };
        let parameters = answer.get("Parameters").and_then(Value::as_array).cloned().unwrap_or_default();
        let mut outcomes = FetchOutcomes::new();
        for locator in locators {
            let outcome = match parameters.iter().find(|parameter| self.is_answer(parameter, locator)) {
                Some(parameter) => content_of(parameter),
                None => Err(ProviderError::new(
                    ErrorCode::NotFound,
                    format!("ssm:GetParameters {}", self.selector(locator)),
                )
                .hint("look at the name, the version or label, the region and the account")),
            };
            outcomes.insert(locator.clone(), outcome.map(Arc::new));
        }
        outcomes
    }

    /// Tells whether a parameter of the answer is the one asked for.
    fn is_answer(&self, parameter: &Value, locator: &Locator) -> bool {
        let text = |key: &str| parameter.get(key).and_then(Value::as_str).unwrap_or_default();
        let name = self.name(&locator.path);
        let is_named = text("Name") == name || text("ARN") == name;
        let version = parameter.get("Version").map(Value::to_string);
        let selector = text("Selector").trim_start_matches(':');
        is_named
            && match (&locator.version, &locator.stage) {
                (Some(wanted), _) => version.as_deref() == Some(wanted),
                // Not every server repeats the label.
                (None, Some(label)) => selector == label || selector.is_empty(),
                (None, None) => selector.is_empty(),
            }
    }
}

fn content_of(parameter: &Value) -> Result<FetchedSecret, ProviderError> {
    let text = |key: &str| parameter.get(key).and_then(Value::as_str);
    let value =
        text("Value").ok_or_else(|| ProviderError::new(ErrorCode::Invalid, "the parameter has no value"))?;
    let version = parameter.get("Version").map(Value::to_string);
    let content = match text("Type") {
        Some("StringList") => SecretContent::List(value.split(',').map(SecretString::from).collect()),
        _ => SecretContent::bytes(value),
    };
    Ok(FetchedSecret::new(content, version))
}

impl Provider for ParameterStore {
    fn batch_size(&self) -> usize {
        BATCH
    }

    fn fetch<'a>(&'a self, locators: &'a [Locator]) -> BoxFuture<'a, FetchOutcomes> {
        async move {
            let mut outcomes = FetchOutcomes::new();
            for chunk in locators.chunks(BATCH) {
                outcomes.append(&mut self.read(chunk).await);
            }
            outcomes
        }
        .boxed()
    }

    fn list<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Vec<ListEntry>, ProviderError>> {
        async move {
            let root = format!("/{}", self.name(path).trim_matches('/'));
            // Values are not asked to be decrypted, and what comes is dropped.
            let body = json!({"Path": root, "Recursive": false, "WithDecryption": false});
            let names = self.service.list_names("GetParametersByPath", "Parameters", body).await;
            let names = names.map_err(|error| error.error("ssm:GetParametersByPath"))?;
            Ok(names.iter().map(|name| ListEntry::secret(name.trim_start_matches('/'))).collect())
        }
        .boxed()
    }

    fn login(&self) -> BoxFuture<'_, Result<LoginInfo, ProviderError>> {
        self.service.login().boxed()
    }
}
