//! Validation of the claims on devices a pod makes, and of their use by its containers.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::text_member;
use crate::status::StatusCause;
use crate::write::admit::meta;
use crate::write::admit::validate::{CauseList, add_problems, go_internal, indexed_items};

/// The names of the claims a pod makes.
pub(crate) type ClaimNames = BTreeSet<String>;

pub(super) fn validate_resource_claims(claims: &Value, field: &str, out: &mut CauseList) -> ClaimNames {
    let mut names = ClaimNames::new();
    for (i, claim) in indexed_items(claims) {
        let at = format!("{field}[{i}]");
        let name = text_member(claim, "name");
        if name.is_empty() {
            out.push(StatusCause::required(format!("{at}.name"), ""));
        } else if !names.insert(name.to_owned()) {
            out.push(StatusCause::duplicate(format!("{at}.name"), &json!(name)));
        } else {
            add_problems(meta::label_problems(name), &json!(name), &format!("{at}.name"), out);
        }
        let sources = ["resourceClaimName", "resourceClaimTemplateName"];
        let mut shown = go_internal(
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
                out.push(StatusCause::invalid(&at, &shown, why));
            }
            1 => {}
            _ => {
                let why =
                    "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified";
                out.push(StatusCause::invalid(&at, &shown, why));
            }
        }
        for key in sources {
            if let Some(name) = claim[key].as_str() {
                add_problems(meta::subdomain_problems(name), &json!(name), &format!("{at}.{key}"), out);
            }
        }
    }
    names
}

/// The claims a container uses are ones its pod makes.
pub(super) fn validate_claim_uses(uses: &Value, claims: &ClaimNames, field: &str, out: &mut CauseList) {
    let mut seen = BTreeSet::new();
    for (i, one) in indexed_items(uses) {
        let at = format!("{field}[{i}]");
        let (name, request) = (text_member(one, "name"), text_member(one, "request"));
        if name.is_empty() {
            out.push(StatusCause::required(at, ""));
            continue;
        }
        if seen.contains(name) {
            out.push(StatusCause::duplicate(&at, &json!(name)));
        } else {
            let key = if request.is_empty() { name.to_owned() } else { format!("{name}/{request}") };
            if !request.is_empty() {
                add_problems(meta::label_problems(request), &json!(request), &format!("{at}.request"), out);
            }
            if seen.contains(&key) {
                out.push(StatusCause::duplicate(&at, &json!(key)));
            } else if request.is_empty() {
                let parts = seen
                    .iter()
                    .filter(|k: &&String| k.split_once('/').is_some_and(|(claim, _)| claim == name));
                out.extend(parts.map(|_| StatusCause::duplicate(&at, &json!(name))));
            }
            seen.insert(key);
        }
        if !claims.contains(name) {
            let all = claims.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
            let rest = if claims.is_empty() { " which is empty".to_owned() } else { format!(": {all}") };
            let mut cause = StatusCause::not_found(&at, &json!(name));
            cause.message += &format!(": must be one of the names in pod.spec.resourceClaims{rest}");
            out.push(cause);
        }
    }
}
