//! Programs that know secrets, protocol v1: one JSON request on standard input, one JSON answer on standard
//! output. No shell, bounded time and output; the whole process group is ended when time is up.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use secrecy::{ExposeSecret, SecretSlice};
use serde::{Deserialize, Serialize};
use slipway_event::Redactor;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};

use super::{
    ErrorCode, FetchOutcomes, FetchedSecret, ListEntry, LoginInfo, Provider, ProviderError, all_failed,
};
use crate::config::ExecSettings;
use crate::environment::Environment;
use crate::material::{SecretContent, register, secret_json};
use crate::reference::Locator;

const PROTOCOL: u32 = 1;
/// The most a program may write.
const LARGEST_OUTPUT: u64 = 8 * 1024 * 1024;
/// The most of standard error that is logged.
const LARGEST_NOTE: u64 = 16 * 1024;

pub(crate) struct ExecProvider {
    pub(crate) settings: ExecSettings,
    pub(crate) environment: Environment,
    pub(crate) redactor: Redactor,
    pub(crate) timeout: Duration,
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
    async fn call(&self, op: &str, items: Vec<RequestItem<'_>>) -> Result<ExecReply, ProviderError> {
        let limit = self.settings.timeout.unwrap_or(self.timeout);
        let request = ExecRequest { v: PROTOCOL, op, items, deadline_ms: limit.as_millis() as u64 };
        let input = serde_json::to_vec(&request).unwrap_or_default();
        let program = Program {
            command: &self.settings.command,
            extra: &self.settings.env,
            environment: &self.environment,
            limit,
        };
        let input = [input, b"\n".to_vec()].concat();
        let output = program.run(input, &self.redactor, |output| self.learn(output)).await?;
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
                self.redactor.register(bytes);
            }
            if let Some(data) = item.data {
                register(&secret_json(data), &self.redactor);
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
}

/// The fate of what a program wrote to standard error.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotesUse {
    Log,
    /// The output could not be understood, so nobody knows what must be masked.
    Drop,
}

/// A program to run for a secret.
pub(crate) struct Program<'p> {
    pub(crate) command: &'p [String],
    pub(crate) extra: &'p [(String, String)],
    pub(crate) environment: &'p Environment,
    pub(crate) limit: Duration,
}

impl Program<'_> {
    /// Runs it to its end and gives what it wrote to standard output, which is never logged. Standard error is, masked:
    /// `learn` tells the redactor what the output holds before.
    pub(crate) async fn run(
        &self,
        input: Vec<u8>,
        redactor: &Redactor,
        learn: impl FnOnce(&[u8]) -> NotesUse,
    ) -> Result<SecretSlice<u8>, ProviderError> {
        let path = self.locate()?;
        let name = path.display().to_string();
        let failed = |code, what: String| ProviderError::new(code, format!("{name}: {what}"));
        let mut command = tokio::process::Command::new(&path);
        command.args(self.command.iter().skip(1)).env_clear();
        for (name, value) in self.environment.variables() {
            command.env(name, value.expose_secret());
        }
        command.envs(self.extra.iter().map(|(name, value)| (name, value))).env("SLIPWAY_SECRET_PLUGIN", "1");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        #[cfg(unix)]
        command.process_group(0);
        let mut child =
            command.spawn().map_err(|error| failed(ErrorCode::Config, format!("cannot be run: {error}")))?;
        let group = ProcessGroup(child.id());
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let work = async {
            let feed = async {
                if let Some(mut stdin) = stdin {
                    // A program that does not read its request says so by its answer.
                    let _ = stdin.write_all(&input).await;
                }
            };
            let (_, output, notes) =
                tokio::join!(feed, read_up_to(stdout, LARGEST_OUTPUT), read_up_to(stderr, LARGEST_NOTE));
            (child.wait().await, output, notes)
        };
        let Ok((status, output, notes)) = tokio::time::timeout(self.limit, work).await else {
            drop(group);
            return Err(failed(ErrorCode::Timeout, format!("not done within {:?}", self.limit))
                .hint("raise `timeout:` of the provider, or look at what the program waits for"));
        };
        drop(group);
        if learn(&output.bytes) == NotesUse::Log {
            for line in String::from_utf8_lossy(&notes.bytes).lines().take(50) {
                tracing::debug!("{name}: {}", redactor.redact(line));
            }
        }
        if output.is_cut {
            return Err(failed(ErrorCode::Invalid, format!("wrote more than {LARGEST_OUTPUT} bytes"))
                .hint("a secret is small"));
        }
        match status {
            Ok(status) if status.success() => Ok(output.bytes.into()),
            Ok(status) => Err(failed(ErrorCode::Unavailable, format!("failed: {status}"))
                .hint("`-vv` shows what it wrote to standard error")),
            Err(error) => Err(failed(ErrorCode::Unavailable, error.to_string())),
        }
    }

    /// The program's file: absolute, or found on PATH; not one that others can change.
    fn locate(&self) -> Result<PathBuf, ProviderError> {
        let word = self.command.first().map(String::as_str).unwrap_or_default();
        let config = |reason: String, hint: &str| ProviderError::new(ErrorCode::Config, reason).hint(hint);
        let path = if Path::new(word).is_absolute() {
            PathBuf::from(word)
        } else if word.contains('/') {
            return Err(config(
                format!("`{word}` is a relative path"),
                "give an absolute path, or a name on PATH",
            ));
        } else {
            let search = self.environment.text("PATH").unwrap_or_default();
            let found = search
                .split(':')
                .filter(|part| part.starts_with('/'))
                .map(|part| Path::new(part).join(word))
                .find(|path| path.is_file());
            found.ok_or_else(|| {
                config(format!("`{word}` is not on PATH"), "install it, or give its absolute path")
            })?
        };
        if is_open_to_others(&path) {
            return Err(config(
                format!("{} can be changed by others", path.display()),
                "chmod go-w it, and its directory's owner be trusted",
            ));
        }
        Ok(path)
    }
}

#[cfg(unix)]
fn is_open_to_others(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(path).is_ok_and(|about| about.permissions().mode() & 0o022 != 0)
}

#[cfg(not(unix))]
fn is_open_to_others(_: &Path) -> bool {
    false
}

/// Ends a program with everything it started once it is dropped.
struct ProcessGroup(Option<u32>);

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        #[cfg(unix)]
        if let Some(group) = self.0.and_then(|id| rustix::process::Pid::from_raw(id as i32)) {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
    }
}

/// What a stream gave.
#[derive(Default)]
struct StreamContent {
    bytes: Vec<u8>,
    is_cut: bool,
}

/// Reads to the end, and keeps up to a limit.
async fn read_up_to(stream: Option<impl AsyncRead + Unpin>, limit: u64) -> StreamContent {
    let Some(mut stream) = stream else { return StreamContent::default() };
    let mut content = StreamContent::default();
    let mut chunk = vec![0; 8192];
    loop {
        match stream.read(&mut chunk).await {
            Ok(0) | Err(_) => return content,
            Ok(count) => {
                let room = (limit as usize).saturating_sub(content.bytes.len());
                content.is_cut |= count > room;
                content.bytes.extend_from_slice(&chunk[..count.min(room)]);
            }
        }
    }
}
