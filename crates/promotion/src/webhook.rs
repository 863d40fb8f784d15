//! Outgoing webhooks: signed JSON to somebody else's server, within a time limit.

use std::time::Duration;

use data_encoding::{BASE64, HEXLOWER, HEXLOWER_PERMISSIVE};
use hmac::{Hmac, KeyInit as _, Mac as _};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use sha2::Sha256;
use slipway_cluster::Cluster;
use slipway_http::{Authorization, HttpClient, HttpError, HttpRequest, Method, header, parse_url};
use slipway_manifest::{Gvk, ObjectRef};

use crate::kinds::KindError;

/// The largest answer that is read.
pub(crate) const LARGEST: usize = 64 << 10;
const SIGNATURE: &str = "X-Kardinal-Signature";

/// The credentials of a webhook: keys `Authorization`, `token` and `hmacKey` of a Secret.
#[derive(Clone, Default)]
pub(crate) struct WebhookCredential {
    authorization: Option<SecretString>,
    hmac_key: Option<SecretString>,
}

impl WebhookCredential {
    /// A header as it is sent, and the key bodies are signed with.
    pub(crate) fn new(authorization: Option<SecretString>, hmac_key: Option<SecretString>) -> Self {
        Self { authorization, hmac_key }
    }

    /// Reads a Secret; none of the keys need be there.
    pub(crate) async fn read(cluster: &Cluster, namespace: &str, name: &str) -> Result<Self, WebhookError> {
        let at = ObjectRef::new(Gvk::new("", "v1", "Secret"), Some(namespace), name);
        let secret = cluster.get(&at).await.map_err(|error| WebhookError::Secret(error.into()))?;
        let secret = secret.ok_or_else(|| WebhookError::NoSecret { name: name.to_owned() })?;
        let key = |key: &str| {
            let bytes = BASE64.decode(secret["data"][key].as_str()?.as_bytes()).ok()?;
            let text = String::from_utf8(bytes).ok()?.trim().to_owned();
            (!text.is_empty()).then_some(text)
        };
        let bearer = || key("token").map(|token| format!("Bearer {token}"));
        Ok(Self {
            authorization: key("Authorization").or_else(bearer).map(SecretString::from),
            hmac_key: key("hmacKey").map(SecretString::from),
        })
    }
}

/// A call to make.
pub(crate) struct WebhookCall<'a> {
    pub(crate) url: &'a str,
    /// The kind of call, in `X-Kardinal-Event`.
    pub(crate) event: &'static str,
    /// Names the call, so that a repetition can be told.
    pub(crate) delivery: String,
    pub(crate) body: &'a Value,
    pub(crate) credential: WebhookCredential,
    pub(crate) timeout: Duration,
}

/// Why a webhook gave no answer. No text of it holds credentials.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WebhookError {
    #[error("no answer within {}", crate::kinds::GoDuration(*.0))]
    Timeout(Duration),
    #[error(transparent)]
    Http(#[from] HttpError),
    #[error("Secret {name} does not exist")]
    NoSecret { name: String },
    #[error("the Secret cannot be read")]
    Secret(#[source] KindError),
}

/// The answer of a webhook.
pub(crate) struct WebhookAnswer {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

/// Calls a webhook.
pub(crate) async fn call_webhook(
    http: &HttpClient,
    call: WebhookCall<'_>,
) -> Result<WebhookAnswer, WebhookError> {
    let url = parse_url(call.url)?;
    let body = call.body.to_string().into_bytes();
    let origin = url.origin();
    let mut request = HttpRequest::new(Method::POST, url);
    let mut set = |name: &'static str, value: &str| -> Result<(), HttpError> {
        let value = header::HeaderValue::from_str(value)
            .map_err(|_| HttpError::Invalid(format!("header {name} has characters it cannot have")))?;
        request
            .headers
            .insert(header::HeaderName::from_bytes(name.as_bytes()).map_err(|_| invalid(name))?, value);
        Ok(())
    };
    set("Content-Type", "application/json")?;
    set("X-Kardinal-Event", call.event)?;
    set("X-Kardinal-Delivery", &call.delivery)?;
    if let Some(key) = &call.credential.hmac_key {
        set(SIGNATURE, &sign(key, &body))?;
    }
    if let Some(value) = &call.credential.authorization {
        let value = value.expose_secret();
        request.authorization = Some(Authorization::from_header(header::AUTHORIZATION, value, origin)?);
    }
    request.content = Some(body);
    let answer = async {
        let response = http.send_request(request).await?;
        let status = response.status_code();
        // Whatever else a server says is for people.
        let body = if status.is_success() { response.read_body(LARGEST).await? } else { Vec::new() };
        Ok(WebhookAnswer { status: status.as_u16(), body })
    };
    match tokio::time::timeout(call.timeout, answer).await {
        Ok(answer) => answer,
        Err(_) => Err(WebhookError::Timeout(call.timeout)),
    }
}

fn invalid(name: &str) -> HttpError {
    HttpError::Invalid(format!("`{name}` is no header"))
}

/// The signature of a body: `sha256=` and the digits of its HMAC.
fn sign(key: &SecretString, body: &[u8]) -> String {
    format!("sha256={}", HEXLOWER.encode(&mac(key, body).finalize().into_bytes()))
}

/// Returns true if a signature is that of the body; takes the same time whatever differs.
pub fn is_signed(key: &SecretString, body: &[u8], signature: &str) -> bool {
    let digits = signature.trim().strip_prefix("sha256=").unwrap_or_default();
    HEXLOWER_PERMISSIVE
        .decode(digits.as_bytes())
        .is_ok_and(|signature| mac(key, body).verify_slice(&signature).is_ok())
}

fn mac(key: &SecretString, body: &[u8]) -> Hmac<Sha256> {
    // Keys of any length are accepted; longer ones are hashed.
    let mut mac = match Hmac::<Sha256>::new_from_slice(key.expose_secret().as_bytes()) {
        Ok(mac) => mac,
        Err(_) => Hmac::new(&Default::default()),
    };
    mac.update(body);
    mac
}
