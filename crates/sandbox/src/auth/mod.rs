//! Authentication: certificates, static tokens, service account tokens, impersonation.

pub(crate) mod certificate;
pub(crate) mod escalate;
pub(crate) mod pki;
pub(crate) mod rbac;
pub(crate) mod review;
pub(crate) mod signers;
pub(crate) mod token;

use std::collections::BTreeMap;
use std::sync::Arc;

use http::HeaderMap;
use serde_json::{Value, json};

use crate::core::Core;
use crate::status::{NamedResource, Result, Status};
pub(crate) use token::{BoundObject, TokenClaims, TokenKey};

/// The user who sends a request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct User {
    pub name: String,
    pub uid: String,
    pub groups: Vec<String>,
    pub extra: BTreeMap<String, Vec<String>>,
    /// Set if another user speaks for this one; such requests always pass through RBAC.
    pub impersonated: bool,
}

impl User {
    pub fn new(name: &str, groups: &[&str]) -> User {
        let mut groups: Vec<String> = groups.iter().map(|g| (*g).to_owned()).collect();
        if name != "system:anonymous" && !groups.iter().any(|g| g == "system:authenticated") {
            groups.push("system:authenticated".into());
        }
        User { name: name.into(), groups, ..User::default() }
    }

    /// Returns the administrator, whom every rule allows everything.
    pub fn admin() -> User {
        User { uid: "kubernetes-admin".into(), ..User::new("kubernetes-admin", &["system:masters"]) }
    }

    pub fn anonymous() -> User {
        User::new("system:anonymous", &["system:unauthenticated"])
    }

    pub fn is_anonymous(&self) -> bool {
        self.name == "system:anonymous"
    }

    pub fn is_master(&self) -> bool {
        self.groups.iter().any(|g| g == "system:masters")
    }

    /// As `SelfSubjectReview` and `TokenReview` print it.
    pub(crate) fn user_info(&self) -> Value {
        let mut out = serde_json::Map::new();
        out.insert("username".into(), self.name.as_str().into());
        if !self.uid.is_empty() {
            out.insert("uid".into(), self.uid.as_str().into());
        }
        if !self.groups.is_empty() {
            out.insert("groups".into(), json!(self.groups));
        }
        if !self.extra.is_empty() {
            out.insert("extra".into(), json!(self.extra));
        }
        Value::Object(out)
    }
}

/// The credentials the server knows: static tokens and the signing key.
pub(crate) struct Authenticator {
    pub tokens: Vec<(String, Arc<User>)>,
    pub key: TokenKey,
}

impl Authenticator {
    /// The user behind a bearer token.
    pub(crate) fn bearer_user(&self, core: &Core, token: &str) -> Option<Arc<User>> {
        self.bearer_user_for(core, token, &[]).ok().map(|(user, _)| user)
    }

    /// Returns the user of a token, and the audiences it is for: those asked for, or this server.
    pub(crate) fn bearer_user_for(
        &self,
        core: &Core,
        token: &str,
        asked: &[String],
    ) -> std::result::Result<(Arc<User>, Vec<String>), String> {
        let unknown = || "invalid bearer token".to_owned();
        let server = [token::ISSUER.to_owned()];
        let asked = if asked.is_empty() { &server[..] } else { asked };
        if let Some(claims) = self.key.verify_claims(token, core.clock.now()) {
            let shared: Vec<String> =
                asked.iter().filter(|a| claims.audiences.contains(a)).cloned().collect();
            if shared.is_empty() {
                let list =
                    |all: &[String]| all.iter().map(|a| format!("{a:?}")).collect::<Vec<_>>().join(" ");
                return Err(format!(
                    "[{}, token audiences [{}] is invalid for the target audiences [{}]]",
                    unknown(),
                    list(&claims.audiences),
                    list(asked)
                ));
            }
            let invalidated = || format!("[{}, service account token has been invalidated]", unknown());
            return self.token_user(core, token).map(|user| (user, shared)).ok_or_else(invalidated);
        }
        self.token_user(core, token).map(|user| (user, asked.to_vec())).ok_or_else(unknown)
    }

    /// Returns the user of a token for any audience.
    fn token_user(&self, core: &Core, token: &str) -> Option<Arc<User>> {
        for (known, user) in &self.tokens {
            if aws_lc_rs::constant_time::verify_slices_are_equal(known.as_bytes(), token.as_bytes()).is_ok() {
                return Some(user.clone());
            }
        }
        if let Some(user) = self.key.verify_user(token, core.clock.now()) {
            return Some(Arc::new(user));
        }
        let claims = self.key.verify_claims(token, core.clock.now())?;
        // The account must still be the one the token was made for.
        let account = core.store.get(
            "serviceaccounts",
            &crate::store::ObjectKey::new(&claims.namespace, &claims.service_account),
        )?;
        if *account.uid != *claims.uid || is_gone(core, &account) {
            return None;
        }
        // So must the object the token is bound to.
        if let Some(bound) = &claims.bound {
            let namespace = if bound.table == "nodes" { "" } else { &claims.namespace };
            let object =
                core.store.get(bound.table, &crate::store::ObjectKey::new(namespace, &bound.name))?;
            if *object.uid != *bound.uid || is_gone(core, &object) {
                return None;
            }
        }
        Some(Arc::new(claims.service_account_user()))
    }
}

/// Time during which tokens bound to a deleted object stay valid.
const DELETION_GRACE: std::time::Duration = std::time::Duration::from_secs(60);

/// Returns true if an object was deleted so long ago that tokens bound to it are invalid.
fn is_gone(core: &Core, object: &crate::store::StoredObject) -> bool {
    if !object.deleting {
        return false;
    }
    let value = object.value();
    let deleted = value["metadata"]["deletionTimestamp"].as_str();
    let deleted = deleted.and_then(|text| text.parse::<jiff::Timestamp>().ok());
    deleted.is_none_or(|at| at.checked_add(DELETION_GRACE).is_ok_and(|end| end < core.clock.now()))
}

/// A header's text. Header values are bytes: what is no UTF-8 is refused rather than overlooked.
fn header_text<'h>(value: &'h http::HeaderValue, name: &str) -> Result<&'h str> {
    std::str::from_utf8(value.as_bytes())
        .map_err(|_| Status::bad_request(format!("the header {name} is not UTF-8 text")))
}

/// Finds the user who sends a request: a certificate shown on the connection comes before any header.
pub(crate) fn authenticate(
    core: &Core,
    headers: &HeaderMap,
    certificate: Option<&Arc<User>>,
) -> Result<Arc<User>> {
    if let Some(user) = certificate {
        return Ok(user.clone());
    }
    let Some(header) = headers.get(http::header::AUTHORIZATION) else {
        return Ok(Arc::new(User::anonymous()));
    };
    // Credentials that cannot be read are refused; the request does not become anonymous.
    let text = header.to_str().map_err(|_| Status::unauthorized())?;
    let bearer = text.split_once(' ').filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    match bearer.map(|(_, token)| token.trim()) {
        Some(token) => core.auth.bearer_user(core, token).ok_or_else(Status::unauthorized),
        None => Ok(Arc::new(User::anonymous())),
    }
}

/// The refusal of an impersonation that names nobody, as Go prints whom it asks for.
fn nameless_impersonation(uid: &str, groups: &[&str], extra: &[(&str, &str)]) -> Box<Status> {
    let list = |texts: &[&str]| match texts {
        [] => "[]string(nil)".to_owned(),
        texts => {
            format!("[]string{{{}}}", texts.iter().map(|t| format!("{t:?}")).collect::<Vec<_>>().join(", "))
        }
    };
    let mut members: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (key, value) in extra {
        members.entry(key).or_default().push(value);
    }
    let members: Vec<String> =
        members.iter().map(|(key, values)| format!("{key:?}:{}", list(values))).collect();
    let extra = match members.as_slice() {
        [] => "map[string][]string(nil)".to_owned(),
        members => format!("map[string][]string{{{}}}", members.join(", ")),
    };
    Status::bad_request(format!(
        "requested &user.DefaultInfo{{Name:\"\", UID:{uid:?}, Groups:{}, Extra:{extra}}} without impersonating a user name",
        list(groups)
    ))
}

/// Applies `Impersonate-*` headers. The caller needs the permission to impersonate.
pub(crate) fn impersonate(core: &Core, headers: &HeaderMap, user: Arc<User>) -> Result<Arc<User>> {
    let text = |name: &str| {
        let value = headers.get(name).map(|value| header_text(value, name)).transpose()?;
        Ok::<_, Box<Status>>(value.filter(|value| !value.is_empty()))
    };
    let uid = text("impersonate-uid")?;
    let groups = headers.get_all("impersonate-group").iter();
    let groups: Vec<&str> =
        groups.map(|value| header_text(value, "impersonate-group")).collect::<Result<_>>()?;
    let extra = headers
        .iter()
        .filter_map(|(name, value)| Some((name.as_str().strip_prefix("impersonate-extra-")?, value)));
    let extra: Vec<(&str, &str)> = extra
        .map(|(key, value)| Ok((key, header_text(value, "impersonate-extra")?)))
        .collect::<Result<_>>()?;
    let Some(name) = text("impersonate-user")? else {
        if uid.is_some() || !groups.is_empty() || !extra.is_empty() {
            return Err(nameless_impersonation(uid.unwrap_or(""), &groups, &extra));
        }
        return Ok(user);
    };
    let allowed = |group: &str, resource: &str, subresource: &str, namespace: &str, name: &str| {
        let request = rbac::RequestAttributes {
            verb: "impersonate",
            group,
            resource,
            subresource,
            namespace,
            name,
            path: "",
        };
        rbac::authorize(core, &user, &request)
    };
    let check = |resource: &str, namespace: &str, name: &str| allowed("", resource, "", namespace, name);
    let account = name.strip_prefix("system:serviceaccount:").and_then(|rest| rest.split_once(':'));
    match account {
        Some((namespace, name)) => check("serviceaccounts", namespace, name)?,
        None => check("users", "", name)?,
    }
    for group in &groups {
        check("groups", "", group)?;
    }
    let mut other = User { name: name.to_owned(), impersonated: true, ..User::default() };
    other.groups = groups.iter().map(|g| (*g).to_owned()).collect();
    if let Some((namespace, _)) = account
        && groups.is_empty()
    {
        other.groups = vec!["system:serviceaccounts".into(), format!("system:serviceaccounts:{namespace}")];
    }
    let closing = if name == "system:anonymous" { "system:unauthenticated" } else { "system:authenticated" };
    if !other.groups.iter().any(|g| g == closing) {
        other.groups.push(closing.into());
    }
    if let Some(uid) = uid {
        allowed("authentication.k8s.io", "uids", "", "", uid)?;
        other.uid = uid.to_owned();
    }
    for (key, value) in extra {
        let key = crate::http::route::decode_segment(key).unwrap_or_else(|| key.to_owned());
        allowed("authentication.k8s.io", "userextras", &key, "", value)?;
        other.extra.entry(key).or_default().push(value.to_owned());
    }
    Ok(Arc::new(other))
}

/// Refuses what RBAC does not allow.
pub(crate) fn access_denied(user: &User, request: &rbac::RequestAttributes<'_>) -> Box<Status> {
    let who = &user.name;
    if !request.path.is_empty() {
        let why = format!("User \"{who}\" cannot {} path \"{}\"", request.verb, request.path);
        return Status::forbidden(NamedResource { group: "", what: "" }, "", &why);
    }
    let resource = if request.subresource.is_empty() {
        request.resource.to_owned()
    } else {
        format!("{}/{}", request.resource, request.subresource)
    };
    let place = if request.namespace.is_empty() {
        "at the cluster scope".to_owned()
    } else {
        format!("in the namespace \"{}\"", request.namespace)
    };
    let why = format!(
        "User \"{who}\" cannot {} resource \"{resource}\" in API group \"{}\" {place}",
        request.verb, request.group
    );
    Status::forbidden(NamedResource { group: request.group, what: request.resource }, request.name, &why)
}
