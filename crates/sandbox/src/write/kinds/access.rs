//! Accounts, what they may do, and certificates they ask for.

use serde_json::Value;

use super::{KindStrategy, WriteContext};
use crate::status::Result;
use crate::write::admit::default::{items_mut, set_default_if_empty};
use crate::write::admit::prepare;
use crate::write::admit::validate::{CauseList, config};

pub(super) struct ServiceAccount;

impl KindStrategy for ServiceAccount {
    fn prepare_create(&self, object: &mut Value) {
        prepare::secret_names(object);
    }

    fn prepare_update(&self, new: &mut Value, _live: &Value) {
        prepare::secret_names(new);
    }
}

pub(super) struct Role;

impl KindStrategy for Role {
    fn validate(&self, object: &Value, _old: Option<&Value>, out: &mut CauseList) {
        config::validate_role(object, true, out);
    }
}

pub(super) struct ClusterRole;

impl KindStrategy for ClusterRole {
    fn validate(&self, object: &Value, _old: Option<&Value>, out: &mut CauseList) {
        config::validate_role(object, false, out);
    }
}

/// Fills in the groups of a binding's subjects and role.
fn default_binding(object: &mut Value) {
    for subject in items_mut(&mut object["subjects"]) {
        if matches!(subject["kind"].as_str(), Some("User" | "Group")) {
            set_default_if_empty(subject, "apiGroup", "rbac.authorization.k8s.io");
        }
    }
    set_default_if_empty(&mut object["roleRef"], "apiGroup", "rbac.authorization.k8s.io");
}

pub(super) struct RoleBinding;

impl KindStrategy for RoleBinding {
    fn set_defaults(&self, _version: &str, object: &mut Value) {
        default_binding(object);
    }

    fn validate(&self, object: &Value, _old: Option<&Value>, out: &mut CauseList) {
        config::validate_role_binding(object, true, out);
    }

    fn fixed_fields(&self) -> &'static [&'static str] {
        &["roleRef"]
    }
}

pub(super) struct ClusterRoleBinding;

impl KindStrategy for ClusterRoleBinding {
    fn set_defaults(&self, _version: &str, object: &mut Value) {
        default_binding(object);
    }

    fn validate(&self, object: &Value, _old: Option<&Value>, out: &mut CauseList) {
        config::validate_role_binding(object, false, out);
    }

    fn fixed_fields(&self) -> &'static [&'static str] {
        &["roleRef"]
    }
}

pub(super) struct CertificateSigningRequest;

impl KindStrategy for CertificateSigningRequest {
    /// Names the user who asks, whatever the request says.
    fn complete(&self, cx: &WriteContext<'_>, object: &mut Value, live: Option<&Value>) -> Result<()> {
        if let (Some(user), None) = (&cx.author.user, live) {
            prepare::requested_by(user, object);
        }
        Ok(())
    }

    fn prepare_update(&self, new: &mut Value, live: &Value) {
        prepare::keep_member(new, live, "spec");
    }

    fn validate(&self, object: &Value, old: Option<&Value>, out: &mut CauseList) {
        if old.is_none() {
            config::validate_certificate_request(&object["spec"], out);
        }
    }
}
