//! Validation of the claims on devices a pod makes, and of their use by its containers.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::text;
use crate::status::Cause;
use crate::write::admit::meta;
use crate::write::admit::validate::{Causes, internal, list, texts};

/// The names of the claims a pod makes.
pub(crate) type Claims = BTreeSet<String>;

pub(super) fn claims(claims: &Value, field: &str, out: &mut Causes) -> Claims {
    let mut names = Claims::new();
    for (i, claim) in list(claims) {
        let at = format!("{field}[{i}]");
        let name = text(claim, "name");
        if name.is_empty() {
            out.push(Cause::required(format!("{at}.name"), ""));
        } else if !names.insert(name.to_owned()) {
            out.push(Cause::duplicate(format!("{at}.name"), &json!(name)));
        } else {
            texts(meta::label_problems(name), &json!(name), &format!("{at}.name"), out);
        }
        let sources = ["resourceClaimName", "resourceClaimTemplateName"];
        let mut shown = internal(
            claim,
            &[
                ("Name", "name"),
                ("ResourceClaimName", "resourceClaimName"),
                ("ResourceClaimTemplateName", "resourceClaimTemplateName"),
            ],
        );
        shown["Name"] = json!(name);
        match sources.iter().filter(|key| claim[**key].is_string()).count() {
            0 => {
                let why = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`";
                out.push(Cause::invalid(&at, &shown, why));
            }
            1 => {}
            _ => {
                let why =
                    "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified";
                out.push(Cause::invalid(&at, &shown, why));
            }
        }
        for key in sources {
            if let Some(name) = claim[key].as_str() {
                texts(meta::subdomain_problems(name), &json!(name), &format!("{at}.{key}"), out);
            }
        }
    }
    names
}

/// The claims a container uses are ones its pod makes.
pub(super) fn used(uses: &Value, claims: &Claims, field: &str, out: &mut Causes) {
    let mut seen = BTreeSet::new();
    for (i, one) in list(uses) {
        let at = format!("{field}[{i}]");
        let (name, request) = (text(one, "name"), text(one, "request"));
        if name.is_empty() {
            out.push(Cause::required(at, ""));
            continue;
        }
        if seen.contains(name) {
            out.push(Cause::duplicate(&at, &json!(name)));
        } else {
            let key = if request.is_empty() { name.to_owned() } else { format!("{name}/{request}") };
            if !request.is_empty() {
                texts(meta::label_problems(request), &json!(request), &format!("{at}.request"), out);
            }
            if seen.contains(&key) {
                out.push(Cause::duplicate(&at, &json!(key)));
            } else if request.is_empty() {
                let parts = seen
                    .iter()
                    .filter(|k: &&String| k.split_once('/').is_some_and(|(claim, _)| claim == name));
                out.extend(parts.map(|_| Cause::duplicate(&at, &json!(name))));
            }
            seen.insert(key);
        }
        if !claims.contains(name) {
            let all = claims.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
            let rest = if claims.is_empty() { " which is empty".to_owned() } else { format!(": {all}") };
            let mut cause = Cause::not_found(&at, &json!(name));
            cause.message += &format!(": must be one of the names in pod.spec.resourceClaims{rest}");
            out.push(cause);
        }
    }
}
