//! Service account tokens: ES256 JWTs, signed and verified with a key of this sandbox.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair, UnparsedPublicKey,
};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::User;

/// The issuer of service account tokens.
pub(crate) const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

/// The issuer of tokens for users who are no service account.
const USER_ISSUER: &str = "slipway-sandbox";

/// The signing key.
pub(crate) struct TokenKey {
    pair: EcdsaKeyPair,
    id: String,
}

/// The claims of a token about its bearer.
#[derive(Debug, Clone)]
pub(crate) struct TokenClaims {
    pub namespace: String,
    pub service_account: String,
    pub uid: String,
    pub audiences: Vec<String>,
    pub id: String,
    /// The object without which the token is invalid.
    pub bound: Option<BoundObject>,
    /// The node of the pod a token is bound to.
    pub node: Option<BoundObject>,
}

/// The object a token is bound to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BoundObject {
    pub table: &'static str,
    pub name: String,
    pub uid: String,
}

impl BoundObject {
    /// Tables and what a token calls their objects.
    const KINDS: [(&'static str, &'static str); 3] =
        [("pods", "pod"), ("secrets", "secret"), ("nodes", "node")];

    fn read(private: &Value) -> Option<BoundObject> {
        Self::KINDS.into_iter().find_map(|(table, _)| Self::read_of(private, table))
    }

    fn read_of(private: &Value, table: &str) -> Option<BoundObject> {
        let found =
            Self::KINDS.into_iter().find(|(known, word)| *known == table && private[*word].is_object());
        let (table, word) = found?;
        let text = |key: &str| private[word][key].as_str().unwrap_or("").to_owned();
        Some(BoundObject { table, name: text("name"), uid: text("uid") })
    }

    fn write(&self, private: &mut Value) {
        if let Some((_, word)) = Self::KINDS.into_iter().find(|(table, _)| *table == self.table) {
            private[word] = json!({"name": self.name, "uid": self.uid});
        }
    }
}

impl TokenClaims {
    pub(crate) fn service_account_user(&self) -> User {
        let namespace = &self.namespace;
        let mut user = User::new(
            &format!("system:serviceaccount:{namespace}:{}", self.service_account),
            &["system:serviceaccounts", &format!("system:serviceaccounts:{namespace}")],
        );
        user.uid = self.uid.clone();
        user.extra
            .insert("authentication.kubernetes.io/credential-id".into(), vec![format!("JTI={}", self.id)]);
        for object in self.bound.iter().chain(&self.node) {
            let word = match object.table {
                "pods" => "pod",
                "nodes" => "node",
                _ => continue,
            };
            for (key, value) in [("name", &object.name), ("uid", &object.uid)] {
                user.extra.insert(format!("authentication.kubernetes.io/{word}-{key}"), vec![value.clone()]);
            }
        }
        user
    }
}

impl TokenKey {
    /// A new key, and its PKCS#8 form for keeping.
    pub(crate) fn generate() -> std::io::Result<(TokenKey, Vec<u8>)> {
        let failed = |_| std::io::Error::other("generate a token signing key");
        let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new())
            .map_err(failed)?;
        let bytes = document.as_ref().to_vec();
        Ok((TokenKey::from_pkcs8(&bytes)?, bytes))
    }

    pub(crate) fn from_pkcs8(bytes: &[u8]) -> std::io::Result<TokenKey> {
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, bytes)
            .map_err(|_| std::io::Error::other("read the token signing key"))?;
        let digest = <sha2::Sha256 as sha2::Digest>::digest(pair.public_key().as_ref());
        let id = URL_SAFE_NO_PAD.encode(digest);
        Ok(TokenKey { pair, id })
    }

    /// A token for `claims`, valid until `expires`. Empty when the system has no randomness to sign with.
    pub(crate) fn sign_claims(&self, claims: &TokenClaims, now: Timestamp, expires: Timestamp) -> String {
        let mut private = json!({
            "namespace": claims.namespace,
            "serviceaccount": {"name": claims.service_account, "uid": claims.uid},
        });
        for object in claims.bound.iter().chain(&claims.node) {
            object.write(&mut private);
        }
        self.signed_token(&json!({
            "aud": claims.audiences,
            "exp": expires.as_second(),
            "iat": now.as_second(),
            "iss": ISSUER,
            "jti": claims.id,
            "kubernetes.io": private,
            "nbf": now.as_second(),
            "sub": format!("system:serviceaccount:{}:{}", claims.namespace, claims.service_account),
        }))
    }

    /// A token for a user who is no service account.
    pub(crate) fn sign_user(&self, user: &User, now: Timestamp, expires: Timestamp) -> String {
        self.signed_token(&json!({
            "exp": expires.as_second(),
            "groups": user.groups,
            "iat": now.as_second(),
            "iss": USER_ISSUER,
            "sub": user.name,
        }))
    }

    /// The user of a token [`TokenKey::sign_user`] made.
    pub(crate) fn verify_user(&self, token: &str, now: Timestamp) -> Option<User> {
        let body = self.verified_body(token, now)?;
        if body["iss"] != USER_ISSUER {
            return None;
        }
        let groups: Vec<&str> = body["groups"].as_array()?.iter().filter_map(Value::as_str).collect();
        Some(User::new(body["sub"].as_str()?, &groups))
    }

    fn signed_token(&self, body: &Value) -> String {
        let header = json!({"alg": "ES256", "kid": self.id});
        let encode = |v: &Value| URL_SAFE_NO_PAD.encode(v.to_string());
        let signed = format!("{}.{}", encode(&header), encode(body));
        match self.pair.sign(&SystemRandom::new(), signed.as_bytes()) {
            Ok(signature) => format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)),
            Err(_) => String::new(),
        }
    }

    /// Returns the body of a token that is ours, whole and not expired.
    fn verified_body(&self, token: &str, now: Timestamp) -> Option<Value> {
        let (signed, signature) = token.rsplit_once('.')?;
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, self.pair.public_key().as_ref())
            .verify(signed.as_bytes(), &signature)
            .ok()?;
        let body = URL_SAFE_NO_PAD.decode(signed.split_once('.')?.1).ok()?;
        let body: Value = serde_json::from_slice(&body).ok()?;
        (body["exp"].as_i64()? >= now.as_second()).then_some(body)
    }

    /// The claims of a service account's token.
    pub(crate) fn verify_claims(&self, token: &str, now: Timestamp) -> Option<TokenClaims> {
        let body = self.verified_body(token, now)?;
        let private = &body["kubernetes.io"];
        Some(TokenClaims {
            namespace: private["namespace"].as_str()?.to_owned(),
            service_account: private["serviceaccount"]["name"].as_str()?.to_owned(),
            uid: private["serviceaccount"]["uid"].as_str()?.to_owned(),
            audiences: body["aud"].as_array()?.iter().filter_map(|a| a.as_str().map(str::to_owned)).collect(),
            id: body["jti"].as_str().unwrap_or("").to_owned(),
            node: BoundObject::read_of(private, "nodes").filter(|_| private["pod"].is_object()),
            bound: BoundObject::read(private),
        })
    }
}
