//! Facts about built-in kinds that the write path looks up: one row per exception.

/// Kinds that count their spec's changes in `metadata.generation`.
const GENERATION: &[(&str, &str)] = &[
    ("", "Pod"),
    ("", "PodTemplate"),
    ("", "ReplicationController"),
    ("apps", "DaemonSet"),
    ("apps", "Deployment"),
    ("apps", "ReplicaSet"),
    ("apps", "StatefulSet"),
    ("autoscaling", "HorizontalPodAutoscaler"),
    ("batch", "CronJob"),
    ("batch", "Job"),
    ("networking.k8s.io", "Ingress"),
    ("networking.k8s.io", "IngressClass"),
    ("networking.k8s.io", "NetworkPolicy"),
    ("policy", "PodDisruptionBudget"),
    ("discovery.k8s.io", "EndpointSlice"),
    ("storage.k8s.io", "CSIDriver"),
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicy"),
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicyBinding"),
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"),
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy"),
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding"),
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"),
    ("apiextensions.k8s.io", "CustomResourceDefinition"),
    ("flowcontrol.apiserver.k8s.io", "FlowSchema"),
    ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration"),
    ("resource.k8s.io", "DeviceClass"),
    ("resource.k8s.io", "DeviceTaintRule"),
    ("resource.k8s.io", "ResourceSlice"),
    ("storagemigration.k8s.io", "StorageVersionMigration"),
];

/// Kinds a PUT must name a resourceVersion for.
const CONDITIONAL: &[(&str, &str)] = &[
    ("coordination.k8s.io", "Lease"),
    ("policy", "PodDisruptionBudget"),
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicy"),
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicyBinding"),
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"),
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy"),
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding"),
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"),
    ("node.k8s.io", "RuntimeClass"),
    ("storage.k8s.io", "CSIDriver"),
    ("storage.k8s.io", "CSINode"),
    ("storage.k8s.io", "CSIStorageCapacity"),
    ("storage.k8s.io", "VolumeAttachment"),
    ("certificates.k8s.io", "ClusterTrustBundle"),
    ("certificates.k8s.io", "PodCertificateRequest"),
    ("storagemigration.k8s.io", "StorageVersionMigration"),
    ("apiextensions.k8s.io", "CustomResourceDefinition"),
    ("apiregistration.k8s.io", "APIService"),
];

/// Kinds whose updates do not look at `generateName` again.
const NAMES_ONCE: &[(&str, &str)] = &[
    ("", "Event"),
    ("", "PodTemplate"),
    ("", "ReplicationController"),
    ("", "ResourceQuota"),
    ("", "Service"),
    ("apps", "DaemonSet"),
    ("apps", "Deployment"),
    ("apps", "ReplicaSet"),
    ("apps", "StatefulSet"),
    ("autoscaling", "HorizontalPodAutoscaler"),
    ("batch", "CronJob"),
    ("batch", "Job"),
    ("coordination.k8s.io", "Lease"),
    ("networking.k8s.io", "NetworkPolicy"),
    ("resource.k8s.io", "DeviceClass"),
    ("scheduling.k8s.io", "PriorityClass"),
    ("storage.k8s.io", "CSIDriver"),
];

/// Kinds a PUT creates when there is nothing to replace.
const CREATED_BY_UPDATE: &[(&str, &str)] = &[
    ("", "Service"),
    ("", "Endpoints"),
    ("", "Event"),
    ("", "LimitRange"),
    ("coordination.k8s.io", "Lease"),
    ("node.k8s.io", "RuntimeClass"),
    ("rbac.authorization.k8s.io", "ClusterRole"),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"),
    ("rbac.authorization.k8s.io", "Role"),
    ("rbac.authorization.k8s.io", "RoleBinding"),
];

/// Kinds whose status clients may write through the main endpoint as well.
const STATUS_ON_MAIN: &[(&str, &str)] = &[("", "Node")];

/// Kinds whose labels, annotations, finalizers and owners cannot be changed together with the status.
const METADATA_APART_FROM_STATUS: &[(&str, &str)] = &[
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy"),
    ("apiregistration.k8s.io", "APIService"),
    ("certificates.k8s.io", "PodCertificateRequest"),
    ("flowcontrol.apiserver.k8s.io", "FlowSchema"),
    ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration"),
    ("internal.apiserver.k8s.io", "StorageVersion"),
    ("networking.k8s.io", "ServiceCIDR"),
    ("resource.k8s.io", "DeviceTaintRule"),
    ("resource.k8s.io", "ResourceClaim"),
    ("scheduling.k8s.io", "PodGroup"),
    ("storage.k8s.io", "CSINode"),
    ("storage.k8s.io", "VolumeAttachment"),
    ("storagemigration.k8s.io", "StorageVersionMigration"),
];

/// Groups whose kinds take finalizers without a domain, as custom resources do: Flux, for one, names that of its kinds
/// `finalizers.fluxcd.io`.
const ANY_FINALIZER: &[&str] = &[
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "apiregistration.k8s.io",
    "coordination.k8s.io",
    "node.k8s.io",
];

/// Returns true if finalizers of a built-in kind have a domain or are standard ones.
pub(crate) fn needs_finalizer_domains(kind: (&str, &str)) -> bool {
    !ANY_FINALIZER.contains(&kind.0)
}

/// The members of metadata that a write of the status may change.
pub(crate) fn metadata_with_status(kind: (&str, &str)) -> &'static [&'static str] {
    match kind {
        ("apps", "Deployment") => &["annotations", "finalizers", "ownerReferences"],
        // Old kubelets damaged the owners.
        ("", "Pod") => &["labels", "annotations", "finalizers"],
        kind if METADATA_APART_FROM_STATUS.contains(&kind) => &[],
        _ => &["labels", "annotations", "finalizers", "ownerReferences"],
    }
}

/// Returns true if a change of a kind's labels counts as one of its spec.
pub(crate) fn counts_labels(kind: (&str, &str)) -> bool {
    kind == ("discovery.k8s.io", "EndpointSlice")
}

/// Returns true if a new object of a kind has a generation.
pub(crate) fn starts_generation(kind: (&str, &str)) -> bool {
    match kind {
        // Nothing of it that counts can change.
        ("scheduling.k8s.io", "PriorityClass") => true,
        // Its first change gives it one.
        ("storage.k8s.io", "CSIDriver") => false,
        _ => counts_generation(kind),
    }
}

/// Returns true if changes of a kind are counted.
pub(crate) fn counts_generation(kind: (&str, &str)) -> bool {
    GENERATION.contains(&kind)
}

/// Returns true if names are only checked closely when an object is created.
pub(crate) fn names_once(kind: (&str, &str)) -> bool {
    NAMES_ONCE.contains(&kind)
}

pub(crate) fn needs_version_for_update(kind: (&str, &str)) -> bool {
    CONDITIONAL.contains(&kind)
}

pub(crate) fn created_by_update(kind: (&str, &str)) -> bool {
    CREATED_BY_UPDATE.contains(&kind)
}

pub(crate) fn status_on_main(kind: (&str, &str)) -> bool {
    STATUS_ON_MAIN.contains(&kind)
}

/// The fields a kind can be selected by besides name and namespace: selector name and path.
pub(crate) fn selectable_fields(table: &str) -> Option<&'static [(&'static str, &'static str)]> {
    Some(match table {
        "pods" => &[
            ("spec.nodeName", "/spec/nodeName"),
            ("spec.restartPolicy", "/spec/restartPolicy"),
            ("spec.schedulerName", "/spec/schedulerName"),
            ("spec.serviceAccountName", "/spec/serviceAccountName"),
            ("spec.hostNetwork", "/spec/hostNetwork"),
            ("status.phase", "/status/phase"),
            ("status.podIP", "/status/podIP"),
            ("status.podIPs", "/status/podIP"),
            ("status.nominatedNodeName", "/status/nominatedNodeName"),
        ],
        "events" => &[
            ("involvedObject.kind", "/involvedObject/kind"),
            ("involvedObject.namespace", "/involvedObject/namespace"),
            ("involvedObject.name", "/involvedObject/name"),
            ("involvedObject.uid", "/involvedObject/uid"),
            ("involvedObject.apiVersion", "/involvedObject/apiVersion"),
            ("involvedObject.resourceVersion", "/involvedObject/resourceVersion"),
            ("involvedObject.fieldPath", "/involvedObject/fieldPath"),
            ("regarding.kind", "/involvedObject/kind"),
            ("regarding.namespace", "/involvedObject/namespace"),
            ("regarding.name", "/involvedObject/name"),
            ("regarding.uid", "/involvedObject/uid"),
            ("regarding.apiVersion", "/involvedObject/apiVersion"),
            ("regarding.resourceVersion", "/involvedObject/resourceVersion"),
            ("regarding.fieldPath", "/involvedObject/fieldPath"),
            ("reason", "/reason"),
            ("reportingComponent", "/reportingComponent"),
            ("reportingController", "/reportingComponent"),
            ("source", "/source/component"),
            ("type", "/type"),
        ],
        "nodes" => &[("spec.unschedulable", "/spec/unschedulable")],
        "namespaces" => &[("status.phase", "/status/phase")],
        "secrets" => &[("type", "/type")],
        "services" => &[("spec.clusterIP", "/spec/clusterIP"), ("spec.type", "/spec/type")],
        "replicationcontrollers" => &[("status.replicas", "/status/replicas")],
        "jobs.batch" => &[("status.successful", "/status/succeeded")],
        "resourceslices.resource.k8s.io" => &[
            ("spec.nodeName", "/spec/nodeName"),
            ("spec.driver", "/spec/driver"),
            ("spec.pool.name", "/spec/pool/name"),
        ],
        "certificatesigningrequests.certificates.k8s.io" | "clustertrustbundles.certificates.k8s.io" => {
            &[("spec.signerName", "/spec/signerName")]
        }
        "podcertificaterequests.certificates.k8s.io" => &[
            ("spec.signerName", "/spec/signerName"),
            ("spec.podName", "/spec/podName"),
            ("spec.nodeName", "/spec/nodeName"),
        ],
        _ => return None,
    })
}
