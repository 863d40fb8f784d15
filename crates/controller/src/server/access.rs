//! Who may call the API: tokens by their hash, and a signature over the body.

use std::sync::Arc;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use data_encoding::{BASE64, HEXLOWER_PERMISSIVE};
use http::HeaderMap;
use http::header::AUTHORIZATION;
use jiff::{SignedDuration, Timestamp};
use secrecy::SecretString;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use slipway_cluster::Cluster;
use slipway_event::Redactor;
use slipway_manifest::ObjectRef;
use slipway_promotion::is_signed;
use tokio::sync::Mutex;

use super::reply::Refusal;
use crate::settings::API_SECRET;

/// The time a Secret is trusted after it was read.
const TRUSTED: SignedDuration = SignedDuration::from_secs(10);
/// The most a request's own time may differ from ours.
const LARGEST_SKEW: SignedDuration = SignedDuration::from_secs(300);

/// A token as the Secret describes it: its hash, never itself.
#[derive(Clone, Debug)]
struct KnownToken {
    name: String,
    hash: [u8; 32],
    /// `namespace/pipeline`, each of which may be `*`; everything when absent.
    allow: Option<Vec<String>>,
}

/// Everything the Secret says.
#[derive(Clone, Default)]
struct AccessRules {
    tokens: Vec<KnownToken>,
    hmac_key: Option<SecretString>,
}

/// Reads the Secret of the API, and holds requests against it.
pub(crate) struct ApiAccess {
    cluster: Cluster,
    namespace: String,
    redactor: Redactor,
    read: Mutex<Option<(Timestamp, Arc<AccessRules>)>>,
}

/// Somebody with a valid token.
#[derive(Clone, Debug)]
pub(crate) struct ApiCaller {
    pub(crate) name: String,
    allow: Option<Vec<String>>,
    /// The key bodies must be signed with, where there is one.
    hmac_key: Option<SecretString>,
}

/// Who sent a request, or why nobody who may.
pub(crate) type IdentifiedCaller = Result<ApiCaller, Refusal>;

impl ApiCaller {
    pub(crate) fn may_use(&self, namespace: &str, pipeline: &str) -> bool {
        let fits = |pattern: &str, found: &str| pattern == "*" || pattern == found;
        self.allow.as_ref().is_none_or(|allow| {
            allow.iter().any(|entry| {
                let (wanted, name) = entry.split_once('/').unwrap_or((entry, "*"));
                fits(wanted, namespace) && fits(name, pipeline)
            })
        })
    }

    /// Refuses a caller whose token is for something else.
    pub(crate) fn check(&self, namespace: &str, pipeline: &str) -> Result<(), Refusal> {
        if self.may_use(namespace, pipeline) {
            return Ok(());
        }
        let message = format!("the token `{}` is not for {namespace}/{pipeline}", self.name);
        Err(Refusal::new(http::StatusCode::FORBIDDEN, "forbidden", message))
    }

    /// Checks the signature and the time of a request with a body.
    pub(crate) fn check_body(&self, headers: &HeaderMap, body: &[u8], now: Timestamp) -> Result<(), Refusal> {
        if let Some(sent) = header(headers, "x-kardinal-timestamp") {
            let sent: Option<Timestamp> = sent
                .parse()
                .ok()
                .or_else(|| sent.parse::<i64>().ok().and_then(|at| Timestamp::from_second(at).ok()));
            let is_near = sent.is_some_and(|sent| now.duration_since(sent).abs() <= LARGEST_SKEW);
            if !is_near {
                let message = "X-Kardinal-Timestamp is no time within five minutes of now";
                return Err(Refusal::unauthorized(message));
            }
        }
        if let Some(key) = &self.hmac_key {
            let signature = header(headers, "x-kardinal-signature").ok_or_else(|| {
                Refusal::unauthorized("the request is not signed: X-Kardinal-Signature is missing")
            })?;
            if !is_signed(key, body, signature) {
                return Err(Refusal::unauthorized("X-Kardinal-Signature is not that of the body"));
            }
        }
        Ok(())
    }
}

impl ApiAccess {
    pub(crate) fn new(cluster: Cluster, namespace: String, redactor: Redactor) -> Self {
        Self { cluster, namespace, redactor, read: Mutex::default() }
    }

    /// Checks the token of a request.
    pub(crate) async fn identify(&self, headers: &HeaderMap, now: Timestamp) -> IdentifiedCaller {
        let shown = header(headers, AUTHORIZATION.as_str())
            .and_then(|value| value.split_once(' '))
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
            .map(|(_, token)| token.trim())
            .filter(|token| !token.is_empty())
            .ok_or_else(|| Refusal::unauthorized("no bearer token"))?;
        find_caller(&*self.rules(now).await?, shown)
    }

    async fn rules(&self, now: Timestamp) -> Result<Arc<AccessRules>, Refusal> {
        // One request reads, the others wait for it.
        let mut read = self.read.lock().await;
        if let Some((at, rules)) = &*read
            && now.duration_since(*at).abs() < TRUSTED
        {
            return Ok(rules.clone());
        }
        let at = ObjectRef::core("Secret", Some(&self.namespace), API_SECRET);
        let secret = self.cluster.get(&at).await.map_err(|error| {
            tracing::warn!(%error, "the Secret of the API cannot be read");
            Refusal::unavailable("the tokens of the API cannot be read")
        })?;
        let rules = Arc::new(secret.map(|secret| self.parse(&secret)).unwrap_or_default());
        *read = Some((now, rules.clone()));
        Ok(rules)
    }

    fn parse(&self, secret: &Value) -> AccessRules {
        let text = |key: &str| {
            let bytes = BASE64.decode(secret["data"][key].as_str()?.as_bytes()).ok()?;
            let text = String::from_utf8(bytes).ok()?;
            (!text.trim().is_empty()).then_some(text)
        };
        let mut tokens = Vec::new();
        if let Some(token) = text("token") {
            let token = token.trim();
            self.redactor.register(token);
            let hash = Sha256::digest(token).into();
            tokens.push(KnownToken { name: "token".to_owned(), hash, allow: None });
        }
        if let Some(listed) = text("tokens.yaml") {
            tokens.extend(parse_tokens(&listed));
        }
        let hmac_key = text("hmacKey").map(|key| key.trim().to_owned());
        if let Some(key) = &hmac_key {
            self.redactor.register(key);
        }
        AccessRules { tokens, hmac_key: hmac_key.map(SecretString::from) }
    }
}

/// Reads `tokens.yaml`: a list of `{name, sha256, allow}`. Entries that cannot be read let nobody in: a misspelt `allow` must
/// not allow everything.
fn parse_tokens(text: &str) -> Vec<KnownToken> {
    let Ok(document) = slipway_yaml::parse_one(text, "tokens.yaml") else {
        tracing::warn!("tokens.yaml is no YAML: none of its tokens is accepted");
        return Vec::new();
    };
    let document = document.to_json();
    let entries = document.as_array().or_else(|| document["tokens"].as_array());
    let mut tokens = Vec::new();
    for (index, entry) in entries.into_iter().flatten().enumerate() {
        match parse_token(entry) {
            Ok(token) => tokens.push(token),
            Err(why) => tracing::warn!(index, "an entry of tokens.yaml is not accepted: {why}"),
        }
    }
    tokens
}

fn parse_token(entry: &Value) -> Result<KnownToken, &'static str> {
    let fields = entry.as_object().ok_or("it is no mapping")?;
    if fields.keys().any(|key| !["name", "sha256", "allow"].contains(&key.as_str())) {
        return Err("it has a key other than `name`, `sha256` and `allow`");
    }
    let digits = entry["sha256"].as_str().unwrap_or_default();
    let hash = HEXLOWER_PERMISSIVE.decode(digits.as_bytes()).ok().and_then(|hash| hash.try_into().ok());
    let name = match fields.get("name") {
        Some(name) => name.as_str().ok_or("its `name` is no text")?,
        None => "unnamed",
    };
    let texts = |list: &Value| -> Option<Vec<String>> {
        list.as_array()?.iter().map(|item| item.as_str().map(str::to_owned)).collect()
    };
    let allow = match fields.get("allow") {
        Some(allow) => Some(texts(allow).ok_or("its `allow` is no list of texts")?),
        None => None,
    };
    let hash = hash.ok_or("it has no `sha256` of 64 digits")?;
    Ok(KnownToken { name: name.to_owned(), hash, allow })
}

/// The schema of `tokens.yaml`, for editors. Entries it refuses let nobody in.
pub fn tokens_schema() -> Value {
    let entry = json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["sha256"],
        "properties": {
            "name": {"type": "string", "description": "Name of the token in logs and bundles"},
            "sha256": {"type": "string", "pattern": "^[0-9a-fA-F]{64}$", "description": "Hash of the token, in hexadecimal digits"},
            "allow": {
                "type": "array", "items": {"type": "string"},
                "description": "Patterns `namespace/pipeline` the token is for; left out, all of them",
            },
        },
    });
    let entries = json!({"type": "array", "items": entry});
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Tokens of the bundle API",
        "anyOf": [entries, {"type": "object", "required": ["tokens"], "properties": {"tokens": entries}}],
    })
}

fn find_caller(rules: &AccessRules, shown: &str) -> IdentifiedCaller {
    if rules.tokens.is_empty() {
        let message = format!("the API takes no requests: Secret {API_SECRET} has no token");
        return Err(Refusal::unavailable(message));
    }
    let hash: [u8; 32] = Sha256::digest(shown).into();
    // Every token is compared, each in constant time: the answer takes equally long whichever fits.
    let mut found = None;
    for token in &rules.tokens {
        if verify_slices_are_equal(&token.hash, &hash).is_ok() {
            found = Some(token);
        }
    }
    let token = found.ok_or_else(|| Refusal::unauthorized("the bearer token is not known"))?;
    Ok(ApiCaller { name: token.name.clone(), allow: token.allow.clone(), hmac_key: rules.hmac_key.clone() })
}

fn header<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An entry with every key left out, added or given a value of every kind.
    fn changed_entries(hash: &str) -> Vec<Value> {
        let whole = json!({"sha256": hash, "name": "ci", "allow": ["shop/*"]});
        let values = [
            json!(null),
            json!(true),
            json!(7),
            json!(1.5),
            json!(""),
            json!("x"),
            json!(hash),
            json!([]),
            json!([""]),
            json!(["x"]),
            json!([7]),
            json!([hash]),
            json!({}),
            json!({"sha256": hash}),
        ];
        let mut made = vec![whole.clone(), json!({})];
        for key in ["sha256", "name", "allow", "other"] {
            let mut without = whole.clone();
            without.as_object_mut().expect("is an object").shift_remove(key);
            made.push(without);
            for value in &values {
                let mut changed = whole.clone();
                changed[key] = value.clone();
                made.push(changed);
            }
        }
        made.extend(values);
        made
    }

    #[test]
    fn the_schema_of_tokens_agrees_with_the_reader_on_every_change() {
        let hash = "0123456789abcdefABCDEF0123456789abcdef0123456789abcdef0123456789";
        let mut schemas = boon::Schemas::new();
        let mut compiler = boon::Compiler::new();
        compiler.add_resource("tokens.json", tokens_schema()).expect("adds");
        let schema = compiler.compile("tokens.json", &mut schemas).expect("is a schema");
        for entry in changed_entries(hash) {
            for whole in [json!([entry]), json!({"tokens": [entry]})] {
                let is_accepted = parse_tokens(&whole.to_string()).len() == 1;
                assert_eq!(schemas.validate(&whole, schema).is_ok(), is_accepted, "{whole}");
            }
        }
    }

    /// An entry the schema refuses lets nobody in, and one it takes lets somebody in.
    #[test]
    fn the_schema_of_tokens_takes_what_is_accepted() {
        let hash = "0123456789abcdefABCDEF0123456789abcdef0123456789abcdef0123456789";
        let mut schemas = boon::Schemas::new();
        let mut compiler = boon::Compiler::new();
        compiler.add_resource("tokens.json", tokens_schema()).expect("adds");
        let schema = compiler.compile("tokens.json", &mut schemas).expect("is a schema");
        for (entry, is_taken) in [
            (json!({"sha256": hash}), true),
            (json!({"sha256": hash, "name": "ci", "allow": ["shop/*"]}), true),
            (json!({"sha256": hash, "allow": []}), true),
            (json!({"name": "ci"}), false),
            (json!({"sha256": "abc"}), false),
            (json!({"sha256": 7}), false),
            (json!({"sha256": hash, "alow": ["shop/*"]}), false),
            (json!({"sha256": hash, "allow": "shop/*"}), false),
            (json!({"sha256": hash, "allow": [7]}), false),
            (json!({"sha256": hash, "name": 7}), false),
            (json!("ci"), false),
            (json!([]), false),
        ] {
            for whole in [json!([entry]), json!({"tokens": [entry]})] {
                let accepted = parse_tokens(&whole.to_string()).len();
                assert_eq!(accepted, usize::from(is_taken), "{whole}");
                assert_eq!(schemas.validate(&whole, schema).is_ok(), is_taken, "{whole}");
            }
        }
    }
}
