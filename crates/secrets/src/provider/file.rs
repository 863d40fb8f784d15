//! A `.env`, JSON or YAML file, for development and tests. Read once a run.

use std::path::PathBuf;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use secrecy::ExposeSecret as _;
use serde_json::Value;
use tokio::sync::OnceCell;

use super::dotenv::parse_dotenv;
use super::{
    ErrorCode, FetchOutcomes, FetchedSecret, ListEntry, LoginInfo, Provider, ProviderError, fetch_singly,
};
use crate::config::{FileFormat, FileSettings};
use crate::material::{SecretContent, SecretJson, secret_json};
use crate::reference::Locator;
use crate::select::step;

pub(crate) struct FileProvider {
    settings: FileSettings,
    content: OnceCell<Result<SecretJson, ProviderError>>,
}

impl FileProvider {
    pub(crate) fn new(settings: FileSettings) -> Self {
        Self { settings, content: OnceCell::new() }
    }

    async fn content(&self) -> Result<&SecretJson, ProviderError> {
        let content = self.content.get_or_init(|| async { read_content(&self.settings) }).await;
        content.as_ref().map_err(Clone::clone)
    }

    /// The part of the file a path leads to.
    fn descend<'v>(&self, root: &'v Value, path: &str) -> Option<&'v Value> {
        // A key may hold the separator itself: `a/b` is looked for as a whole first.
        root.get(path).or_else(|| {
            let segments =
                path.split(self.settings.key_separator.as_str()).filter(|segment| !segment.is_empty());
            segments.into_iter().try_fold(root, |node, segment| step(node, segment))
        })
    }

    async fn read(&self, locator: &Locator) -> Result<FetchedSecret, ProviderError> {
        if locator.version.is_some() || locator.stage.is_some() {
            return Err(ProviderError::new(ErrorCode::Invalid, "a file has no versions")
                .hint("leave `version` and `stage` out"));
        }
        let content = self.content().await?;
        let found = self.descend(content.expose_secret().value(), &locator.path).ok_or_else(|| {
            let path = absolute(&self.settings.path);
            ProviderError::new(ErrorCode::NotFound, format!("{} has no `{}`", path.display(), locator.path))
                .hint("names are compared exactly; `slipway secrets list` shows them")
        })?;
        let content = match found {
            Value::String(text) => SecretContent::bytes(text.as_bytes()),
            Value::Object(_) | Value::Array(_) => SecretContent::fields(found.clone()),
            Value::Null => {
                return Err(ProviderError::new(ErrorCode::NotFound, format!("`{}` is null", locator.path))
                    .hint("give it a value"));
            }
            other => SecretContent::bytes(other.to_string()),
        };
        Ok(FetchedSecret::new(content, None))
    }
}

impl Provider for FileProvider {
    fn batch_size(&self) -> usize {
        usize::MAX
    }

    fn fetch<'a>(&'a self, locators: &'a [Locator]) -> BoxFuture<'a, FetchOutcomes> {
        fetch_singly(locators, |locator| self.read(locator)).boxed()
    }

    fn list<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Vec<ListEntry>, ProviderError>> {
        async move {
            let content = self.content().await?;
            let root = content.expose_secret().value();
            let start = if path.trim_matches('/').is_empty() { Some(root) } else { self.descend(root, path) };
            let entry = |name: &str, value: &Value| match value {
                Value::Object(_) | Value::Array(_) => ListEntry::folder(name),
                _ => ListEntry::secret(name),
            };
            Ok(match start {
                Some(Value::Object(fields)) => {
                    fields.iter().map(|(name, value)| entry(name, value)).collect()
                }
                Some(Value::Array(items)) => {
                    items.iter().enumerate().map(|(index, value)| entry(&index.to_string(), value)).collect()
                }
                _ => Vec::new(),
            })
        }
        .boxed()
    }

    fn login(&self) -> BoxFuture<'_, Result<LoginInfo, ProviderError>> {
        async move {
            self.content().await?;
            Ok(LoginInfo { identity: format!("file {}", self.settings.path.display()), expires: None })
        }
        .boxed()
    }
}

fn read_content(settings: &FileSettings) -> Result<SecretJson, ProviderError> {
    let path = absolute(&settings.path);
    let shown = path.display();
    let text = slipway_problem::read_text_file(&path).map_err(|error| {
        let code = if error.kind() == std::io::ErrorKind::NotFound {
            ErrorCode::NotFound
        } else {
            ErrorCode::Config
        };
        ProviderError::new(code, format!("cannot read {shown}: {error}"))
            .hint(slipway_problem::read_hint(&error))
    })?;
    warn_if_open(&path);
    let invalid = |what: &str| {
        ProviderError::new(ErrorCode::Invalid, format!("{shown} is no {what}"))
            .hint("set `format:` of the provider, or mend the file")
    };
    let value = match format_of(settings) {
        FileFormat::Env => {
            let values = parse_dotenv(&text).map_err(|error| {
                ProviderError::new(ErrorCode::Invalid, format!("{shown}: {error}"))
                    .hint("lines are KEY=VALUE; quote what has spaces")
            })?;
            values.into_iter().map(|(key, value)| (key, Value::String(value))).collect()
        }
        FileFormat::Json => serde_json::from_str(&text).map_err(|_| invalid("valid JSON"))?,
        FileFormat::Yaml | FileFormat::Auto => {
            slipway_yaml::parse_one(&text, "file").map_err(|_| invalid("valid YAML"))?.to_json()
        }
    };
    if value.get("sops").is_some_and(Value::is_object) {
        return Err(ProviderError::new(ErrorCode::Invalid, format!("{shown} is encrypted by SOPS"))
            .hint("use an exec provider that runs `sops --decrypt`: see the guide on secrets"));
    }
    Ok(secret_json(value))
}

fn format_of(settings: &FileSettings) -> FileFormat {
    if settings.format != FileFormat::Auto {
        return settings.format;
    }
    let name = settings.path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    match name.rsplit_once('.').map(|(_, extension)| extension) {
        _ if name.starts_with(".env") => FileFormat::Env,
        Some("env") => FileFormat::Env,
        Some("json") => FileFormat::Json,
        _ => FileFormat::Yaml,
    }
}

fn absolute(path: &std::path::Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

#[cfg(unix)]
fn warn_if_open(path: &std::path::Path) {
    use std::os::unix::fs::PermissionsExt as _;
    if std::fs::metadata(path).is_ok_and(|about| about.permissions().mode() & 0o077 != 0) {
        tracing::warn!("{} holds secrets and can be read by others: chmod 600", path.display());
    }
}

#[cfg(not(unix))]
fn warn_if_open(_: &std::path::Path) {}
