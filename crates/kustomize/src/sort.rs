//! The order objects are printed in.

use crate::id::Gvk;
use crate::resource::Resource;

/// The order of the result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ObjectOrder {
    /// As they were listed.
    Listed,
    /// By kind, so that what others need comes first; then by name.
    ByKind { first: Vec<String>, last: Vec<String> },
}

impl Default for ObjectOrder {
    fn default() -> Self {
        let owned = |kinds: &[&str]| kinds.iter().map(|kind| (*kind).to_owned()).collect();
        Self::ByKind { first: owned(FIRST), last: owned(LAST) }
    }
}

const FIRST: &[&str] = &[
    "Namespace",
    "ResourceQuota",
    "StorageClass",
    "CustomResourceDefinition",
    "ServiceAccount",
    "PodSecurityPolicy",
    "Role",
    "ClusterRole",
    "RoleBinding",
    "ClusterRoleBinding",
    "ConfigMap",
    "Secret",
    "Endpoints",
    "Service",
    "LimitRange",
    "PriorityClass",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "Deployment",
    "StatefulSet",
    "CronJob",
    "PodDisruptionBudget",
];

const LAST: &[&str] = &["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"];

impl ObjectOrder {
    pub(crate) fn sort(&self, resources: &mut [Resource]) {
        let Self::ByKind { first, last } = self else { return };
        let place = |kind: &str| -> isize {
            if let Some(at) = first.iter().position(|known| known == kind) {
                at as isize - first.len() as isize
            } else if let Some(at) = last.iter().position(|known| known == kind) {
                at as isize + 1
            } else {
                0
            }
        };
        resources.sort_by_cached_key(|resource| {
            let id = resource.current_id();
            let namespace = text_or(&id.namespace, "~X");
            (place(&id.gvk.kind), gvk_text(&id.gvk), format!("{namespace}|{}", id.name))
        });
    }
}

/// The rank of a kind among others; references are looked up in this order.
pub(crate) fn kind_rank(gvk: &Gvk) -> (isize, String) {
    let place = match FIRST.iter().position(|known| *known == gvk.kind) {
        Some(at) => at as isize - FIRST.len() as isize,
        None => LAST.iter().position(|known| *known == gvk.kind).map_or(0, |at| at as isize + 1),
    };
    (place, gvk_text(gvk))
}

fn text_or(text: &str, absent: &str) -> String {
    if text.is_empty() { absent.to_owned() } else { text.to_owned() }
}

fn gvk_text(gvk: &Gvk) -> String {
    format!("{}_{}_{}", text_or(&gvk.group, "~G"), text_or(&gvk.version, "~V"), gvk.kind)
}
