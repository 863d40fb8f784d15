//! One strategy a kind: what happens to objects of a built-in kind when they are created and updated, beside what every
//! write does. Start here to find or change the behaviour of one kind.
//!
//! `create.rs` and `update.rs` call the methods of a strategy in the order of the trait. A file holds a family of kinds; the
//! work itself is done by the modules under `admit`. Facts that are a word a kind (does it count generations, may a PUT
//! create it) are tables in `admit/rules.rs`. Custom resources have no strategy: their definitions say everything.

mod access;
mod admission;
mod cluster;
mod device;
mod network;
mod pod;
mod storage;
mod workload;

use std::sync::Arc;

use serde_json::{Value, json};

use super::WriteAuthor;
use super::admit::validate::CauseList;
use crate::api::resource::ServedResource;
use crate::clock::Clock;
use crate::core::Core;
use crate::status::Result;
use crate::store::{ObjectKey, StoredObject};

/// The write that a strategy takes part in.
pub(crate) struct WriteContext<'a> {
    pub core: &'a Core,
    pub served: &'a ServedResource,
    pub author: &'a WriteAuthor,
    pub key: &'a ObjectKey,
}

/// The behaviour of one built-in kind. What a kind does not say happens as to most kinds: nothing.
pub(crate) trait KindStrategy: Sync {
    /// Tells that an object without a name is given one.
    fn may_be_unnamed(&self) -> bool {
        false
    }

    /// Fills in what decoding adds on a real server.
    fn set_defaults(&self, _version: &str, _object: &mut Value) {}

    /// Fills in the times that decoding adds on a real server: the present.
    fn set_default_times(&self, _clock: &Clock, _object: &mut Value) {}

    /// Lets the built-in admission plugins change a new object, or refuse it.
    fn admit_new(&self, _core: &Core, _object: &mut Value) -> Result<()> {
        Ok(())
    }

    /// Returns the status a new object starts with.
    fn initial_status(&self, _object: &Value) -> Value {
        json!({})
    }

    /// Prepares a new object for validation. It has its uid and initial status.
    fn prepare_create(&self, _object: &mut Value) {}

    /// Lets the built-in admission plugins change an updated object.
    fn admit_update(&self, _object: &mut Value) {}

    /// Prepares an updated object for validation: takes over what an update of the main part does not change.
    fn prepare_update(&self, _new: &mut Value, _live: &Value) {}

    /// Gives an object what only the server has, once it is prepared: addresses, the name of the user. `live` is set for
    /// updates of the main part.
    fn complete(&self, _cx: &WriteContext<'_>, _object: &mut Value, _live: Option<&Value>) -> Result<()> {
        Ok(())
    }

    /// Validates a new object, or an updated one against `old`.
    fn validate(&self, _object: &Value, _old: Option<&Value>, _out: &mut CauseList) {}

    /// Returns the paths of fields that never change once set.
    fn fixed_fields(&self) -> &'static [&'static str] {
        &[]
    }

    /// Checks what else an update may not change.
    fn check_immutable(&self, _new: &Value, _old: &Value, _out: &mut CauseList) {}

    /// Tells that immutable fields are reported before other errors.
    fn reports_immutable_first(&self) -> bool {
        false
    }

    /// Tells that changes of annotations count as a new generation.
    fn counts_annotations(&self) -> bool {
        false
    }

    /// Tells that an object being deleted stays although it has no finalizers.
    fn holds_deletion(&self, _object: &Value) -> bool {
        false
    }

    /// Validates a status written on its own.
    fn validate_status(&self, _object: &Value, _old: &Value, _out: &mut CauseList) {}

    /// Warns about what is accepted all the same.
    fn add_warnings(&self, _object: &Value, _old: Option<&Value>, _out: &mut Vec<String>) {}

    /// Validates labels that matter to other objects of the cluster.
    fn check_labels(
        &self,
        _core: &Core,
        _object: &Value,
        _old: Option<&Value>,
        _out: &mut CauseList,
        _warnings: &mut Vec<String>,
    ) {
    }

    /// Updates what depends on a write at once.
    fn after_write(&self, _core: &Core, _before: Option<&StoredObject>, _now: &Arc<StoredObject>) {}

    /// Updates what depends on an object that is gone, or was not created after all.
    fn after_delete(&self, _core: &Core, _key: &ObjectKey) {}
}

impl ServedResource {
    /// The strategy of its kind; custom resources have a plain one.
    pub(crate) fn strategy(&self) -> &'static dyn KindStrategy {
        if self.custom.is_some() { &PlainKind } else { strategy_of(self.rule_key()) }
    }
}

/// A kind to which nothing special happens.
struct PlainKind;

impl KindStrategy for PlainKind {}

/// Finds the strategy of a built-in kind by its group and kind.
pub(crate) fn strategy_of(kind: (&str, &str)) -> &'static dyn KindStrategy {
    match kind {
        ("", "Pod") => &pod::Pod,
        ("", "PodTemplate") => &pod::PodTemplate,
        ("", "ReplicationController") => &workload::ReplicationController,
        ("apps", "Deployment") => &workload::Deployment,
        ("apps", "ReplicaSet") => &workload::ReplicaSet,
        ("apps", "StatefulSet") => &workload::StatefulSet,
        ("apps", "DaemonSet") => &workload::DaemonSet,
        ("apps", "ControllerRevision") => &workload::ControllerRevision,
        ("batch", "Job") => &workload::Job,
        ("batch", "CronJob") => &workload::CronJob,
        ("autoscaling", "HorizontalPodAutoscaler") => &workload::HorizontalPodAutoscaler,
        ("policy", "PodDisruptionBudget") => &workload::PodDisruptionBudget,
        ("", "Service") => &network::Service,
        ("", "Endpoints") => &network::Endpoints,
        ("discovery.k8s.io", "EndpointSlice") => &network::EndpointSlice,
        ("networking.k8s.io", "Ingress") => &network::Ingress,
        ("networking.k8s.io", "IngressClass") => &network::IngressClass,
        ("networking.k8s.io", "NetworkPolicy") => &network::NetworkPolicy,
        ("networking.k8s.io", "IPAddress") => &network::IpAddress,
        ("networking.k8s.io", "ServiceCIDR") => &network::ServiceCidr,
        ("", "Namespace") => &cluster::Namespace,
        ("", "Node") => &cluster::Node,
        ("", "Event") => &cluster::Event,
        ("", "LimitRange") => &cluster::LimitRange,
        ("", "ResourceQuota") => &cluster::ResourceQuota,
        ("", "ConfigMap") => &cluster::ConfigMap,
        ("", "Secret") => &cluster::Secret,
        ("coordination.k8s.io", "Lease") => &cluster::Lease,
        ("scheduling.k8s.io", "PriorityClass") => &cluster::PriorityClass,
        ("node.k8s.io", "RuntimeClass") => &cluster::RuntimeClass,
        ("apiregistration.k8s.io", "APIService") => &cluster::ApiService,
        ("apiextensions.k8s.io", "CustomResourceDefinition") => &cluster::CustomResourceDefinition,
        ("", "PersistentVolumeClaim") => &storage::PersistentVolumeClaim,
        ("", "PersistentVolume") => &storage::PersistentVolume,
        ("storage.k8s.io", "StorageClass") => &storage::StorageClass,
        ("storage.k8s.io", "VolumeAttachment") => &storage::VolumeAttachment,
        ("storage.k8s.io", "CSIDriver") => &storage::CsiDriver,
        ("storage.k8s.io", "CSINode") => &storage::CsiNode,
        ("storage.k8s.io", "CSIStorageCapacity") => &storage::CsiStorageCapacity,
        ("storage.k8s.io", "VolumeAttributesClass") => &storage::VolumeAttributesClass,
        ("resource.k8s.io", "DeviceClass") => &device::DeviceClass,
        ("resource.k8s.io", "ResourceClaim") => &device::ResourceClaim,
        ("resource.k8s.io", "ResourceClaimTemplate") => &device::ResourceClaimTemplate,
        ("resource.k8s.io", "ResourceSlice") => &device::ResourceSlice,
        ("resource.k8s.io", "DeviceTaintRule") => &device::DeviceTaintRule,
        ("", "ServiceAccount") => &access::ServiceAccount,
        ("rbac.authorization.k8s.io", "Role") => &access::Role,
        ("rbac.authorization.k8s.io", "ClusterRole") => &access::ClusterRole,
        ("rbac.authorization.k8s.io", "RoleBinding") => &access::RoleBinding,
        ("rbac.authorization.k8s.io", "ClusterRoleBinding") => &access::ClusterRoleBinding,
        ("certificates.k8s.io", "CertificateSigningRequest") => &access::CertificateSigningRequest,
        ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration") => &admission::ValidatingWebhooks,
        ("admissionregistration.k8s.io", "MutatingWebhookConfiguration") => &admission::MutatingWebhooks,
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy") => &admission::ValidatingPolicy,
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding") => {
            &admission::ValidatingPolicyBinding
        }
        ("admissionregistration.k8s.io", "MutatingAdmissionPolicy") => &admission::MutatingPolicy,
        ("admissionregistration.k8s.io", "MutatingAdmissionPolicyBinding") => {
            &admission::MutatingPolicyBinding
        }
        ("flowcontrol.apiserver.k8s.io", "FlowSchema") => &admission::FlowSchema,
        ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration") => &admission::PriorityLevel,
        _ => &PlainKind,
    }
}
