//! `config.json`: the logins Docker and Helm keep for registries.

use std::collections::BTreeMap;

use base64::Engine as _;
use serde_json::{Map, Value, json};

use crate::error::ChartError;

/// The name of a login whose password is an identity token, as Docker writes it.
pub(super) const IDENTITY_TOKEN: &str = "<token>";

pub use slipway_http::Login;

/// Logins by host, and the programs that know others.
#[derive(Clone, Debug, Default)]
pub struct Credentials {
    /// Entries as the file has them, so that what is not touched is written back unchanged.
    auths: Map<String, Value>,
    helpers: BTreeMap<String, String>,
    default_helper: Option<String>,
    /// What else the file says, kept when it is written again.
    rest: Map<String, Value>,
}

impl Credentials {
    /// Reads the content of a `config.json`.
    pub fn parse(bytes: &[u8]) -> Result<Self, ChartError> {
        let bad = |error: String| ChartError::Publish(format!("invalid registry configuration: {error}"));
        if bytes.trim_ascii().is_empty() {
            return Ok(Self::default());
        }
        let mut rest: Map<String, Value> =
            serde_json::from_slice(bytes).map_err(|error| bad(error.to_string()))?;
        let mut credentials = Self::default();
        if let Some(Value::Object(auths)) = rest.remove("auths") {
            credentials.auths = auths;
        }
        if let Some(Value::Object(helpers)) = rest.get("credHelpers") {
            for (host, helper) in helpers {
                if let Some(helper) = helper.as_str() {
                    credentials.helpers.insert(host_of(host), helper.to_owned());
                }
            }
        }
        credentials.default_helper = rest.get("credsStore").and_then(Value::as_str).map(str::to_owned);
        credentials.rest = rest;
        Ok(credentials)
    }

    /// The login for a host.
    pub fn login(&self, host: &str) -> Option<Login> {
        let host = host_of(host);
        self.auths.iter().filter(|(key, _)| host_of(key) == host).find_map(|(_, entry)| read_login(entry))
    }

    /// The `docker-credential-…` program to ask for a host, if its login is not here. Running it is the
    /// caller's business.
    pub fn helper(&self, host: &str) -> Option<&str> {
        self.helpers.get(&host_of(host)).or(self.default_helper.as_ref()).map(String::as_str)
    }

    /// Remembers a login.
    pub fn insert(&mut self, host: &str, login: &Login) {
        let pair = format!("{}:{}", login.username, login.password);
        let entry = json!({"auth": base64::engine::general_purpose::STANDARD.encode(pair)});
        self.remove(host);
        self.auths.insert(host_of(host), entry);
    }

    /// Forgets a login; tells whether there was one.
    pub fn remove(&mut self, host: &str) -> bool {
        let before = self.auths.len();
        let host = host_of(host);
        self.auths.retain(|key, _| host_of(key) != host);
        self.auths.len() < before
    }

    /// The written form.
    pub fn to_json(&self) -> String {
        let mut all = self.rest.clone();
        all.insert("auths".into(), Value::Object(self.auths.clone()));
        serde_json::to_string_pretty(&all).unwrap_or_default()
    }
}

fn read_login(entry: &Value) -> Option<Login> {
    let text = |key: &str| entry.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    if let Some(token) = text("identitytoken") {
        return Some(Login { username: IDENTITY_TOKEN.into(), password: token.to_owned() });
    }
    if let (Some(username), Some(password)) = (text("username"), text("password")) {
        return Some(Login { username: username.to_owned(), password: password.to_owned() });
    }
    let decoded = base64::engine::general_purpose::STANDARD.decode(text("auth")?).ok()?;
    let pair = String::from_utf8(decoded).ok()?;
    let (username, password) = pair.split_once(':')?;
    Some(Login { username: username.to_owned(), password: password.trim_end_matches('\0').to_owned() })
}

/// `https://index.docker.io/v1/` and `registry-1.docker.io` are both Docker Hub.
fn host_of(text: &str) -> String {
    let bare = text.split_once("://").map_or(text, |(_, rest)| rest);
    let host = bare.split('/').next().unwrap_or(bare);
    match host {
        "index.docker.io" | "docker.io" | "registry-1.docker.io" => "docker.io".to_owned(),
        host => host.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logins_are_found_by_host() {
        let text = br#"{"auths": {"https://index.docker.io/v1/": {"auth": "dTpw"}, "r.example:5000": {"username": "a", "password": "b"},
            "empty.example": {}}, "credHelpers": {"gcr.io": "gcloud"}, "credsStore": "desktop", "other": 1}"#;
        let mut credentials = Credentials::parse(text).unwrap();
        let login =
            |username: &str, password: &str| Login { username: username.into(), password: password.into() };
        assert_eq!(credentials.login("registry-1.docker.io"), Some(login("u", "p")));
        assert_eq!(credentials.login("r.example:5000"), Some(login("a", "b")));
        assert_eq!(credentials.login("empty.example"), None);
        assert_eq!(credentials.helper("gcr.io"), Some("gcloud"));
        assert_eq!(credentials.helper("x"), Some("desktop"));
        credentials.insert("new.example", &login("n", "m"));
        assert!(credentials.remove("r.example:5000"));
        let again = Credentials::parse(credentials.to_json().as_bytes()).unwrap();
        assert_eq!(again.login("new.example"), Some(login("n", "m")));
        assert_eq!(again.login("r.example:5000"), None);
        assert!(credentials.to_json().contains("\"other\": 1"));
        assert!(Credentials::parse(b"[").is_err());
    }
}
