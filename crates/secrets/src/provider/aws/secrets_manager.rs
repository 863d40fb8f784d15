//! AWS Secrets Manager: single reads, batches of 20, lists by prefix.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::{Value, json};

use super::{AwsRefusal, AwsService};
use crate::config::AwsSettings;
use crate::material::SecretContent;
use crate::provider::build::BuildContext;
use crate::provider::{
    ErrorCode, FetchOutcomes, FetchedSecret, ListEntry, LoginInfo, Provider, ProviderError, all_failed,
    fetch_singly,
};
use crate::reference::Locator;

const BATCH: usize = 20;

pub(crate) struct SecretsManager {
    service: AwsService,
    prefix: String,
    /// Cleared when the identity may not read in batches.
    can_batch: AtomicBool,
}

impl SecretsManager {
    pub(crate) fn new(settings: AwsSettings, context: BuildContext) -> Result<Self, ProviderError> {
        let prefix = settings.prefix.clone();
        let can_batch = AtomicBool::new(!settings.single_reads);
        let service = AwsService::new(settings, context, "secretsmanager", "secretsmanager")?;
        Ok(Self { service, prefix, can_batch })
    }

    fn name(&self, locator: &Locator) -> String {
        if locator.path.starts_with("arn:") {
            locator.path.clone()
        } else {
            format!("{}{}", self.prefix, locator.path)
        }
    }

    async fn read(&self, locator: &Locator) -> Result<FetchedSecret, ProviderError> {
        let name = self.name(locator);
        let mut body = json!({"SecretId": name});
        match (&locator.version, &locator.stage) {
            (Some(version), _) => body["VersionId"] = version.as_str().into(),
            (None, stage) => body["VersionStage"] = stage.as_deref().unwrap_or("AWSCURRENT").into(),
        }
        let answer = self.service.call("GetSecretValue", &body).await;
        content_of(&answer.map_err(|error| error.error(&format!("secretsmanager:GetSecretValue {name}")))?)
    }

    /// Reads the newest versions of several secrets at once.
    async fn read_batch(&self, locators: &[Locator]) -> FetchOutcomes {
        let names: Vec<String> = locators.iter().map(|locator| self.name(locator)).collect();
        let answer = match self.service.call("BatchGetSecretValue", &json!({"SecretIdList": names})).await {
            Ok(answer) => answer,
            Err(error) if error.is_access_denied() => {
                self.can_batch.store(false, Ordering::Relaxed);
                return fetch_singly(locators, |locator| self.read(locator)).await;
            }
            Err(error) => return all_failed(locators, &error.error("secretsmanager:BatchGetSecretValue")),
        };
        let list = |key: &str| answer.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
        let (found, errors) = (list("SecretValues"), list("Errors"));
        let mut outcomes = FetchOutcomes::new();
        for locator in locators {
            let name = self.name(locator);
            let is_named = |value: &&Value| {
                ["Name", "ARN"].iter().any(|key| value.get(*key).and_then(Value::as_str) == Some(&name))
            };
            let failure =
                errors.iter().find(|error| error.get("SecretId").and_then(Value::as_str) == Some(&name));
            let outcome = match (found.iter().find(is_named), failure) {
                (Some(value), _) => content_of(value),
                (None, Some(failure)) => {
                    Err(batch_error(failure).error(&format!("secretsmanager:GetSecretValue {name}")))
                }
                // The answer may be cut into pages; what is not in it is read alone.
                (None, None) => self.read(locator).await,
            };
            outcomes.insert(locator.clone(), outcome.map(Arc::new));
        }
        outcomes
    }
}

fn batch_error(error: &Value) -> AwsRefusal {
    let text = |key: &str| error.get(key).and_then(Value::as_str).unwrap_or_default();
    AwsRefusal {
        kind: text("ErrorCode").to_owned(),
        status: 400,
        is_deleted: text("Message").to_lowercase().contains("delet"),
    }
}

fn content_of(answer: &Value) -> Result<FetchedSecret, ProviderError> {
    let text = |key: &str| answer.get(key).and_then(Value::as_str);
    let invalid = |reason: &str| ProviderError::new(ErrorCode::Invalid, reason);
    let content = match (text("SecretString"), text("SecretBinary")) {
        (Some(text), _) => SecretContent::bytes(text),
        (None, Some(binary)) => SecretContent::bytes(
            STANDARD.decode(binary).map_err(|_| invalid("the binary secret is no base64"))?,
        ),
        (None, None) => return Err(invalid("the secret has no value").hint("write one first")),
    };
    Ok(FetchedSecret::new(content, text("VersionId").map(str::to_owned)))
}

impl Provider for SecretsManager {
    fn batch_size(&self) -> usize {
        if self.can_batch.load(Ordering::Relaxed) { BATCH } else { 1 }
    }

    fn fetch<'a>(&'a self, locators: &'a [Locator]) -> BoxFuture<'a, FetchOutcomes> {
        async move {
            let is_newest = |locator: &&Locator| locator.version.is_none() && locator.stage.is_none();
            let (newest, pinned): (Vec<&Locator>, Vec<&Locator>) = locators.iter().partition(is_newest);
            let (mut newest, mut single): (Vec<Locator>, Vec<Locator>) =
                (newest.into_iter().cloned().collect(), pinned.into_iter().cloned().collect());
            if newest.len() < 2 || !self.can_batch.load(Ordering::Relaxed) {
                single.append(&mut newest);
            }
            let mut outcomes = FetchOutcomes::new();
            for chunk in newest.chunks(BATCH) {
                outcomes.append(&mut self.read_batch(chunk).await);
            }
            outcomes.append(&mut fetch_singly(&single, |locator| self.read(locator)).await);
            outcomes
        }
        .boxed()
    }

    fn list<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Vec<ListEntry>, ProviderError>> {
        async move {
            let prefix = format!("{}{path}", self.prefix);
            let mut body = json!({"MaxResults": 100});
            if !prefix.is_empty() {
                body["Filters"] = json!([{"Key": "name", "Values": [prefix]}]);
            }
            let names = self.service.list_names("ListSecrets", "SecretList", body).await;
            let names = names.map_err(|error| error.error("secretsmanager:ListSecrets"))?;
            let short = |name: &String| ListEntry::secret(name.strip_prefix(&self.prefix).unwrap_or(name));
            Ok(names.iter().map(short).collect())
        }
        .boxed()
    }

    fn login(&self) -> BoxFuture<'_, Result<LoginInfo, ProviderError>> {
        self.service.login().boxed()
    }
}
