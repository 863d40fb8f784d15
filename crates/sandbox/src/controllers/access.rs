//! Roles that are sums of others, and secrets that hold a service account's token.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::{ClusterHandle, Controller, NextReconcile, WorkItem, WorkQueue};
use crate::api::select::LabelFilter;
use crate::auth::token::{BoundObject, ISSUER, TokenClaims};
use crate::status::{Result, Status};
use crate::store::{ChangeType, ObjectKey, StoreEvent};
use crate::write::WriteAuthor;
use crate::write::admit::prepare::ObjectPart;
use crate::write::delete::DeleteOptions;
use crate::write::{FieldOwnership, UpdateProposal};

const ROLES: &str = "clusterroles.rbac.authorization.k8s.io";
const ROLE_MANAGER: &str = "clusterrole-aggregation-controller";
const ACCOUNTS: &str = "serviceaccounts";
const SECRETS: &str = "secrets";
const TOKEN_TYPE: &str = "kubernetes.io/service-account-token";
const ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";
const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";
/// These tokens do not expire on a real server.
const TOKEN_LIFETIME: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// Gives every role with an `aggregationRule` the rules of the roles it selects.
#[derive(Default)]
pub(super) struct RoleAggregation {
    /// What each of them selects.
    sums: BTreeMap<WorkItem, Vec<LabelFilter>>,
}

impl Controller for RoleAggregation {
    fn name(&self) -> &'static str {
        ROLE_MANAGER
    }

    fn observe_event(&mut self, event: &StoreEvent, _: &ClusterHandle, queue: &mut WorkQueue) {
        if &*event.table != ROLES {
            return;
        }
        let item = WorkItem::of(event);
        let object = event.object.value();
        if event.change != ChangeType::Deleted && object["aggregationRule"].is_object() {
            self.sums.insert(item.clone(), selectors(&object));
            queue.push(item.clone());
        } else {
            self.sums.remove(&item);
        }
        let states = || [Some(&event.object), event.prev.as_ref()].into_iter().flatten();
        for (sum, selectors) in self.sums.iter().filter(|(sum, _)| **sum != item) {
            if selectors.iter().any(|labels| states().any(|role| labels.matches(role))) {
                queue.push(sum.clone());
            }
        }
    }

    fn reconcile(&mut self, item: &WorkItem, cluster: &ClusterHandle) -> Result<NextReconcile> {
        let Some(sum) = cluster.get(ROLES, "", &item.key.name) else { return Ok(NextReconcile::Done) };
        let mut rules: Vec<Value> = Vec::new();
        for labels in selectors(&sum) {
            let selected = cluster.stored_objects(ROLES, None).into_iter();
            for role in selected.filter(|role| role.key != item.key && labels.matches(role)) {
                for rule in role.value()["rules"].as_array().into_iter().flatten() {
                    if !rules.contains(rule) {
                        rules.push(rule.clone());
                    }
                }
            }
        }
        if sum["rules"].as_array().map_or(&[][..], Vec::as_slice) == rules.as_slice() {
            return Ok(NextReconcile::Done);
        }
        let served = cluster
            .core
            .of_table(ROLES)
            .ok_or_else(|| Status::internal(format!("nothing serves {ROLES}")))?;
        let config = json!({
            "kind": "ClusterRole", "apiVersion": served.api_version(),
            "metadata": {"name": &*item.key.name}, "rules": rules,
        });
        let author = WriteAuthor::system(ROLE_MANAGER);
        let core = &cluster.core;
        core.update_object(&served, &item.key, ObjectPart::Main, &author, &mut |live| {
            let applied =
                core.apply_config(&served, Some(&live.value), &config, &author, ObjectPart::Main, true)?;
            Ok(UpdateProposal { value: applied.object, ownership: FieldOwnership::Applied, warnings: vec![] })
        })?;
        Ok(NextReconcile::Done)
    }
}

fn selectors(sum: &Value) -> Vec<LabelFilter> {
    let selectors = sum["aggregationRule"]["clusterRoleSelectors"].as_array().into_iter().flatten();
    selectors.filter_map(LabelFilter::of_selector).collect()
}

/// Fills secrets that ask for the token of a service account, and deletes those whose account is gone.
pub(super) struct TokenSecrets;

impl Controller for TokenSecrets {
    fn name(&self) -> &'static str {
        "legacy-service-account-token-controller"
    }

    fn observe_event(&mut self, event: &StoreEvent, cluster: &ClusterHandle, queue: &mut WorkQueue) {
        if &*event.table == SECRETS {
            // Few secrets are of this kind: the others are not parsed.
            let names_account =
                || memchr::memmem::find(&event.object.tail, ACCOUNT_NAME.as_bytes()).is_some();
            if event.change != ChangeType::Deleted && names_account() {
                queue.push(WorkItem::of(event));
            }
        } else if &*event.table == ACCOUNTS && event.change != ChangeType::Modified {
            for secret in cluster.stored_objects(SECRETS, Some(event.object.namespace())) {
                if account_of(&secret.value()) == Some(event.object.name()) {
                    queue.push(WorkItem { table: SECRETS.into(), key: secret.key.clone() });
                }
            }
        }
    }

    fn reconcile(&mut self, item: &WorkItem, cluster: &ClusterHandle) -> Result<NextReconcile> {
        let namespace = &item.key.namespace;
        let Some(secret) = cluster.get(SECRETS, namespace, &item.key.name) else {
            return Ok(NextReconcile::Done);
        };
        let Some(name) = account_of(&secret).filter(|_| is_token_secret(&secret)) else {
            return Ok(NextReconcile::Done);
        };
        let account = cluster.stored_object(ACCOUNTS, &ObjectKey::new(namespace, name));
        let wanted = slipway_manifest::object::annotation(&secret, ACCOUNT_UID);
        let account = account.filter(|account| wanted.is_none_or(|uid| uid == &*account.uid));
        let Some(account) = account else {
            cluster.delete(SECRETS, &item.key, &DeleteOptions::default())?;
            return Ok(NextReconcile::Done);
        };
        let lacks = |member: &str| secret["data"][member].as_str().is_none_or(str::is_empty);
        if wanted.is_some() && !["token", "ca.crt", "namespace"].into_iter().any(lacks) {
            return Ok(NextReconcile::Done);
        }
        let core = &cluster.core;
        let claims = TokenClaims {
            namespace: namespace.to_string(),
            service_account: name.to_owned(),
            uid: account.uid.to_string(),
            audiences: vec![ISSUER.to_owned()],
            id: core.ids.new_uid(),
            node: None,
            bound: Some(BoundObject {
                table: SECRETS,
                name: item.key.name.to_string(),
                uid: secret["metadata"]["uid"].as_str().unwrap_or("").to_owned(),
            }),
        };
        let now = cluster.now();
        let token = core.auth.key.sign_claims(&claims, now, now + TOKEN_LIFETIME);
        cluster.update(SECRETS, &item.key, "kube-controller-manager", |secret| {
            slipway_manifest::object::set_annotation(secret, ACCOUNT_UID, &account.uid);
            if !secret["data"].is_object() {
                secret["data"] = json!({});
            }
            for (member, text) in [("ca.crt", &*core.options.ca), ("namespace", namespace), ("token", &token)]
            {
                if secret["data"][member].as_str().is_none_or(str::is_empty) {
                    secret["data"][member] = STANDARD.encode(text).into();
                }
            }
        })?;
        Ok(NextReconcile::Done)
    }
}

fn is_token_secret(secret: &Value) -> bool {
    secret["type"] == TOKEN_TYPE && account_of(secret).is_some()
}

/// The service account whose token a secret asks for.
fn account_of(secret: &Value) -> Option<&str> {
    slipway_manifest::object::annotation(secret, ACCOUNT_NAME).filter(|name| !name.is_empty())
}
