//! Steps that are not built in: a signed request to an address of the pipeline's.

use std::collections::BTreeMap;
use std::time::Duration;

use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Map, Value, json};
use slipway_http::HttpError;

use crate::kinds::SecretRef;
use crate::outbound::CallOptions;
use crate::step::access::SecretContent;
use crate::step::context::{StepContext, outputs};
use crate::step::outcome::{Dependency, StepError, StepOutput, StepProgressed};
use crate::step::pull_request::read_gates;
use crate::step::run::entry_name;
use crate::webhook::{LARGEST, WebhookAnswer, WebhookCall, WebhookCredential, WebhookError, call_webhook};

const DEFAULT_TIMEOUT: Duration = Duration::from_secs(300);
/// The pause after a server in trouble, and the number of calls.
const RETRY_PAUSE: Duration = Duration::from_secs(30);
const MOST_CALLS: u32 = 3;
/// The pause after an answer without content that says "accepted".
const ACCEPTED_PAUSE: Duration = Duration::from_secs(30);
/// Settings of the call, which the called does not need.
const OWN_SETTINGS: [&str; 5] = ["url", "timeout", "secretRef", "caSecretRef", "headers"];

pub(super) async fn run(context: &mut StepContext<'_>) -> Result<StepProgressed, StepError> {
    let call = CallSettings::read(context)?;
    let secret = match &call.secret {
        Some(reference) => {
            context.shared.read_secret(context.step.namespace(), reference, Dependency::Webhook).await?
        }
        None => SecretContent::default(),
    };
    let ca = match &call.ca_secret {
        Some(reference) => {
            let found =
                context.shared.read_secret(context.step.namespace(), reference, Dependency::Webhook).await?;
            found.text("ca.crt").map(|text| text.expose_secret().as_bytes().to_vec())
        }
        None => None,
    };
    let options = CallOptions { ca, limit: call.timeout };
    let client = context.shared.outbound.call(&call.url, options);
    let client = client.map_err(|error| StepError::failed("InvalidURL", error.to_string()))?;
    let body = request_body(context).await?;
    let attempt = context.status.steps.get(context.index).map_or(1, |progress| progress.attempts.max(1));
    let request = WebhookCall {
        url: &call.url,
        event: "promotion-step",
        delivery: format!("{}/{}/{attempt}", context.step.metadata.uid, context.index),
        body: &body,
        credential: credential(&secret, &context.shared.redactor),
        timeout: call.timeout,
    };
    context.check_running()?;
    let answer = match call_webhook(&client, request).await {
        Ok(answer) => answer,
        Err(WebhookError::Http(HttpError::Interrupted(_))) => return Err(StepError::Stopped),
        Err(WebhookError::Http(error @ (HttpError::Invalid(_) | HttpError::Redirect(_)))) => {
            return Err(StepError::failed("InvalidURL", error.to_string()));
        }
        Err(WebhookError::Http(error @ HttpError::ForbiddenAddress { .. })) => {
            return Err(StepError::failed("ForbiddenAddress", error.to_string()));
        }
        Err(WebhookError::Http(HttpError::TooLarge { .. })) => {
            let message = format!("the answer is larger than {LARGEST} bytes");
            return Err(StepError::failed("BadResponse", message));
        }
        Err(error) => return in_trouble(context, attempt, error.to_string()),
    };
    let WebhookAnswer { status, body: content } = answer;
    match status {
        200..=299 => {}
        408 | 425 | 429 | 500..=599 => {
            return in_trouble(context, attempt, format!("{} answered HTTP {status}", call.url));
        }
        _ => {
            let message = format!("{} answered HTTP {status}", call.url);
            return Err(StepError::failed("CustomStepFailed", message));
        }
    }
    if status == 202 && content.is_empty() {
        return Ok(wait(context, ACCEPTED_PAUSE, "accepted".to_owned()));
    }
    let redact = |text: String| context.shared.redactor.redact(&text).into_owned();
    match Answer::read(&content)? {
        Answer::Passed { message, outputs } => Ok(StepOutput { message: redact(message), outputs }.into()),
        Answer::Refused { message } => Err(StepError::failed("CustomStepFailed", redact(message))),
        Answer::Pending { pause, message } => Ok(wait(context, pause, redact(message))),
    }
}

fn wait(context: &StepContext<'_>, pause: Duration, message: String) -> StepProgressed {
    let now = context.now();
    StepProgressed::Wait { until: now.saturating_add(pause).unwrap_or(now), message }
}

/// The call may be made again, three times in all.
fn in_trouble(
    context: &mut StepContext<'_>,
    attempt: u32,
    message: String,
) -> Result<StepProgressed, StepError> {
    let most = context.entry().retry.as_ref().and_then(|retry| retry.attempts).unwrap_or(MOST_CALLS);
    if attempt >= most {
        return Err(StepError::failed("CustomStepFailed", format!("{message}, {attempt} times")));
    }
    let pause =
        context.entry().retry.as_ref().and_then(|retry| retry.backoff).map_or(RETRY_PAUSE, |pause| pause.0);
    if let Some(progress) = context.status.steps.get_mut(context.index) {
        progress.attempts = attempt + 1;
    }
    Ok(wait(context, pause, message))
}

/// The settings of a call.
struct CallSettings {
    url: String,
    timeout: Duration,
    secret: Option<SecretRef>,
    ca_secret: Option<SecretRef>,
}

impl CallSettings {
    fn read(context: &StepContext<'_>) -> Result<Self, StepError> {
        let entry = context.entry();
        let webhook = entry.webhook.as_ref();
        let Some(url) = context.text("url").or(webhook.map(|webhook| webhook.url.as_str())) else {
            let message = format!("`{}` is no built-in step and has no `config.url`", entry.uses);
            return Err(StepError::failed("MissingURL", message));
        };
        let reference = |name: &str| -> Result<Option<SecretRef>, StepError> {
            let wrong = |_| StepError::failed("InvalidConfig", format!("`{name}` names no Secret"));
            entry
                .config
                .get(name)
                .map(|value| serde_json::from_value(value.clone()).map_err(wrong))
                .transpose()
        };
        let timeout = match context.text("timeout") {
            Some(text) => slipway_go::time::Duration::parse_unsigned(text).ok_or_else(|| {
                StepError::failed("InvalidConfig", format!("`{text}` is no duration such as `5m`"))
            })?,
            None => webhook
                .map_or(DEFAULT_TIMEOUT, |webhook| Duration::from_secs(u64::from(webhook.timeout_seconds))),
        };
        let secret =
            reference("secretRef")?.or_else(|| webhook.and_then(|webhook| webhook.secret_ref.clone()));
        Ok(Self { url: url.to_owned(), timeout, secret, ca_secret: reference("caSecretRef")? })
    }
}

/// The credentials of the call: a whole header, or a token.
fn credential(secret: &SecretContent, redactor: &slipway_event::Redactor) -> WebhookCredential {
    let register = |value: &SecretString| {
        redactor.register(value.expose_secret());
    };
    let bearer = || {
        let token = secret.word("token").inspect(register)?;
        Some(SecretString::from(format!("Bearer {}", token.expose_secret())))
    };
    let authorization = secret.word("Authorization").inspect(register).or_else(bearer);
    WebhookCredential::new(authorization, secret.word("hmacKey").inspect(register))
}

/// What the called is told. Credentials are no part of it.
async fn request_body(context: &StepContext<'_>) -> Result<Value, StepError> {
    let (step, bundle) = (context.step, context.bundle);
    let config: Map<String, Value> = context
        .entry()
        .config
        .iter()
        .filter(|(name, _)| !OWN_SETTINGS.contains(&name.as_str()))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    let gates = read_gates(context).await?;
    let gates: Vec<Value> = gates
        .iter()
        .map(|required| {
            let status = required.gate.as_ref().map(|gate| &gate.status);
            json!({
                "name": required.shown_name(),
                "ready": status.is_some_and(|status| status.ready),
                "reason": status.and_then(|status| status.reason.clone()),
            })
        })
        .collect();
    let upstreams: Vec<Value> = step
        .spec
        .upstream_environments
        .iter()
        .map(|name| {
            let known = bundle.status.environments.get(name);
            json!({
                "environment": name,
                "state": known.and_then(|status| status.state),
                "verifiedAt": known.and_then(|status| status.verified_at),
            })
        })
        .collect();
    let mut about = serde_json::to_value(&bundle.spec).unwrap_or_default();
    about["name"] = json!(bundle.name());
    about["namespace"] = json!(bundle.namespace());
    about["version"] = json!(bundle.spec.version());
    Ok(json!({
        "pipeline": step.spec.pipeline,
        "environment": step.spec.environment,
        "region": step.spec.region,
        "bundle": about,
        "context": {
            "stepName": entry_name(context.entry()),
            "index": context.index,
            "attempt": context.attempt(),
            "previousVersion": super::git_commit::previous_version(context),
            "baseCommit": context.output(outputs::BASE_COMMIT),
            "commitSHA": context.output(outputs::COMMIT_SHA),
            "prURL": context.status.pr_url,
            "gates": gates,
            "upstreams": upstreams,
        },
        "config": config,
        "inputs": step.spec.inputs,
        "outputs_so_far": context.status.outputs,
    }))
}

/// An answer that was understood.
#[derive(Debug, PartialEq, Eq)]
enum Answer {
    Passed { message: String, outputs: BTreeMap<String, String> },
    Refused { message: String },
    Pending { pause: Duration, message: String },
}

impl Answer {
    /// Reads `{success, message, outputs}`, `{result: pass|fail}` and `{status: pending, retryAfterSeconds}`.
    fn read(content: &[u8]) -> Result<Self, StepError> {
        let bad = |why: &str| StepError::failed("BadResponse", format!("the answer {why}"));
        let answer: Value = serde_json::from_slice(content).map_err(|_| bad("is no JSON"))?;
        let text = |name: &str| answer[name].as_str().unwrap_or_default();
        let message: String =
            text("message").chars().map(|c| if c.is_control() { ' ' } else { c }).take(1_000).collect();
        if text("status") == "pending" {
            let seconds = answer["retryAfterSeconds"].as_u64().unwrap_or(30).clamp(1, 3_600);
            return Ok(Self::Pending { pause: Duration::from_secs(seconds), message });
        }
        let passed = match (answer["success"].as_bool(), text("result")) {
            (Some(passed), _) => passed,
            (None, "pass") => true,
            (None, "fail") => false,
            _ => return Err(bad("says neither `success` nor `result`")),
        };
        if !passed {
            let message = if message.is_empty() { "the step said no".to_owned() } else { message };
            return Ok(Self::Refused { message });
        }
        let given = answer["outputs"].as_object().into_iter().flatten();
        let outputs = given.map(|(name, value)| {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            (name.clone(), value)
        });
        Ok(Self::Passed { message, outputs: outputs.filter(|(name, _)| !is_reserved(name)).collect() })
    }
}

/// Outputs that decide what built-in steps do: nobody outside sets them.
fn is_reserved(name: &str) -> bool {
    [
        outputs::BASE_COMMIT,
        outputs::SOURCE_COMMIT,
        outputs::COMMIT_SHA,
        outputs::NO_CHANGE,
        outputs::BRANCH,
        outputs::BRANCH_TURN,
        outputs::CHANGES,
        outputs::EXTRA_COMMITS,
        "mergeSHA",
        "prNumber",
        "prURL",
    ]
    .contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_either_form_are_understood() {
        let read = |text: &str| Answer::read(text.as_bytes());
        let passed = read(r#"{"success": true, "message": "ok", "outputs": {"n": 3, "commitSHA": "x"}}"#);
        let outputs = BTreeMap::from([("n".to_owned(), "3".to_owned())]);
        assert_eq!(passed, Ok(Answer::Passed { message: "ok".into(), outputs }));
        assert_eq!(
            read(r#"{"result": "fail", "message": "no"}"#),
            Ok(Answer::Refused { message: "no".into() })
        );
        let pending = read(r#"{"status": "pending", "retryAfterSeconds": 7}"#);
        assert_eq!(pending, Ok(Answer::Pending { pause: Duration::from_secs(7), message: String::new() }));
        for odd in ["", "[]", "{}", r#"{"result": "maybe"}"#, r#"{"success": "yes"}"#] {
            assert!(read(odd).is_err(), "{odd}");
        }
    }
}
