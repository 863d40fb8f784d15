//! Programs that know secrets, protocol v1: a line of JSON on standard input, a line of JSON on standard output. A
//! program answers one request and ends, or stays for the whole run (`persistent`).

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use secrecy::ExposeSecret;
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;

use super::build::BuildContext;
use super::program::{NotesUse, PluginCommand, PluginSession};
use super::{
    ErrorCode, FetchOutcomes, FetchedSecret, ListEntry, LoginInfo, Provider, ProviderError, all_failed,
};
use crate::config::{ExecLifetime, ExecSettings};
use crate::material::{SecretContent, register, secret_json};
use crate::reference::Locator;

const PROTOCOL: u32 = 1;

pub(crate) struct ExecProvider {
    settings: ExecSettings,
    context: BuildContext,
    /// The program that stays, once it was started. Held while it is asked: it answers one request after the other.
    session: Mutex<Option<PluginSession>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ExecRequest<'r> {
    v: u32,
    op: &'r str,
    items: Vec<RequestItem<'r>>,
    deadline_ms: u64,
}

#[derive(Serialize)]
struct RequestItem<'r> {
    id: String,
    path: &'r str,
    version: Option<&'r str>,
}

#[derive(Deserialize)]
struct ExecReply {
    v: u32,
    #[serde(default)]
    items: Vec<ReplyItem>,
}

#[derive(Deserialize)]
struct ReplyItem {
    #[serde(default)]
    id: String,
    ok: bool,
    #[serde(default)]
    encoding: ReplyEncoding,
    #[serde(default)]
    data: Option<serde_json::Value>,
    #[serde(default)]
    version: Option<String>,
    #[serde(default)]
    code: Option<ReplyCode>,
    #[serde(default)]
    message: Option<String>,
    /// Of a list.
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    folder: bool,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ReplyEncoding {
    #[default]
    Utf8,
    Base64,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
enum ReplyCode {
    NotFound,
    Forbidden,
    Unavailable,
    Invalid,
}

impl ExecProvider {
    pub(crate) fn new(settings: ExecSettings, context: BuildContext) -> Self {
        Self { settings, context, session: Mutex::new(None) }
    }

    fn limit(&self) -> Duration {
        self.settings.timeout.unwrap_or(self.context.limits.timeout)
    }

    fn command(&self) -> PluginCommand<'_> {
        PluginCommand {
            words: &self.settings.command,
            variables: &self.settings.env,
            context: &self.context,
            limit: self.limit(),
        }
    }

    async fn call(&self, op: &str, items: Vec<RequestItem<'_>>) -> Result<ExecReply, ProviderError> {
        let deadline_ms = self.limit().as_millis() as u64;
        let request = ExecRequest { v: PROTOCOL, op, items, deadline_ms };
        let line = serde_json::to_vec(&request).unwrap_or_default();
        let learn = |output: &[u8]| self.learn(output);
        let output = match self.settings.lifetime {
            ExecLifetime::Request => {
                let input = [line, b"\n".to_vec()].concat();
                self.command().run(input, learn).await?
            }
            ExecLifetime::Run => {
                let mut kept = self.session.lock().await;
                let mut session = match kept.take() {
                    Some(session) => session,
                    None => self.command().start()?,
                };
                let answer = session.ask(&line, learn).await?;
                // A program that failed is not asked again: the next request starts another.
                *kept = Some(session);
                answer
            }
        };
        let reply: ExecReply = serde_json::from_slice(output.expose_secret()).map_err(|_| {
            ProviderError::new(ErrorCode::Invalid, "the program's answer is no JSON of protocol v1")
                .hint("see the guide on secrets for the protocol; notes belong on standard error")
        })?;
        if reply.v != PROTOCOL {
            let reason = format!("the program speaks protocol v{}", reply.v);
            return Err(ProviderError::new(ErrorCode::Invalid, reason).hint("this is protocol v1"));
        }
        Ok(reply)
    }

    /// Tells the redactor every value of an answer.
    fn learn(&self, output: &[u8]) -> NotesUse {
        if output.is_empty() {
            return NotesUse::Log;
        }
        let Ok(reply) = serde_json::from_slice::<ExecReply>(output) else { return NotesUse::Drop };
        for item in reply.items {
            if let (ReplyEncoding::Base64, Some(serde_json::Value::String(text))) =
                (item.encoding, &item.data)
                && let Ok(bytes) = STANDARD.decode(text)
            {
                self.context.redactor.register(bytes);
            }
            if let Some(data) = item.data {
                register(&secret_json(data), &self.context.redactor);
            }
        }
        NotesUse::Log
    }

    async fn read(&self, locators: &[Locator]) -> FetchOutcomes {
        let item = |(index, locator): (usize, &'_ Locator)| (index.to_string(), locator.clone());
        let asked: Vec<(String, Locator)> = locators.iter().enumerate().map(item).collect();
        let items = asked
            .iter()
            .map(|(id, locator)| RequestItem {
                id: id.clone(),
                path: &locator.path,
                version: locator.version.as_deref(),
            })
            .collect();
        let reply = match self.call("fetch", items).await {
            Ok(reply) => reply,
            Err(error) => return all_failed(locators, &error),
        };
        let mut outcomes = FetchOutcomes::new();
        for item in reply.items {
            if let Some((_, locator)) = asked.iter().find(|(id, _)| *id == item.id) {
                outcomes.insert(locator.clone(), content_of(item).map(Arc::new));
            }
        }
        outcomes
    }
}

fn content_of(item: ReplyItem) -> Result<FetchedSecret, ProviderError> {
    if !item.ok {
        let code = match item.code {
            Some(ReplyCode::NotFound) => ErrorCode::NotFound,
            Some(ReplyCode::Forbidden) => ErrorCode::Forbidden,
            Some(ReplyCode::Unavailable) => ErrorCode::Unavailable,
            Some(ReplyCode::Invalid) | None => ErrorCode::Invalid,
        };
        // The program's own words, of one line at most.
        let message = item.message.unwrap_or_else(|| "the program gave no reason".to_owned());
        let line: String = message.lines().next().unwrap_or_default().chars().take(200).collect();
        return Err(ProviderError::new(code, line).hint("ask the program itself: run its command by hand"));
    }
    let invalid = |reason: &str| {
        ProviderError::new(ErrorCode::Invalid, reason).hint("`data` is text, base64 or a JSON object")
    };
    let content = match (item.encoding, item.data) {
        (ReplyEncoding::Utf8, Some(serde_json::Value::String(text))) => SecretContent::bytes(text),
        (ReplyEncoding::Utf8, Some(fields @ serde_json::Value::Object(_))) => SecretContent::fields(fields),
        (ReplyEncoding::Base64, Some(serde_json::Value::String(text))) => SecretContent::bytes(
            STANDARD.decode(text).map_err(|_| invalid("the program's data is no base64"))?,
        ),
        _ => return Err(invalid("the program's answer has no data")),
    };
    Ok(FetchedSecret::new(content, item.version))
}

impl Provider for ExecProvider {
    fn batch_size(&self) -> usize {
        100
    }

    fn fetch<'a>(&'a self, locators: &'a [Locator]) -> BoxFuture<'a, FetchOutcomes> {
        self.read(locators).boxed()
    }

    fn list<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Vec<ListEntry>, ProviderError>> {
        async move {
            let reply =
                self.call("list", vec![RequestItem { id: "0".to_owned(), path, version: None }]).await?;
            let entry = |item: ReplyItem| {
                let name = item.name?;
                Some(if item.folder { ListEntry::folder(name) } else { ListEntry::secret(name) })
            };
            Ok(reply.items.into_iter().filter_map(entry).collect())
        }
        .boxed()
    }

    fn login(&self) -> BoxFuture<'_, Result<LoginInfo, ProviderError>> {
        async move {
            self.call("login", Vec::new()).await?;
            let name = self.settings.command.first().cloned().unwrap_or_default();
            Ok(LoginInfo { identity: format!("program {name}"), expires: None })
        }
        .boxed()
    }

    fn finish<'a>(&'a self, _: &'a [String]) -> BoxFuture<'a, Result<(), ProviderError>> {
        async move {
            drop(self.session.lock().await.take());
            Ok(())
        }
        .boxed()
    }
}
