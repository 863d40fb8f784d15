//! The transformer configuration: the built-in field tables and what `configurations:` adds.

use crate::fieldspec::FieldSpec;
use crate::id::Gvk;

/// Fields that hold the name of some other kind of object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NameReference {
    /// The kind referred to; empty parts mean any.
    pub(crate) referred: Gvk,
    pub(crate) fields: Vec<FieldSpec>,
}

/// The fields each transformer changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TransformerConfig {
    pub(crate) name_prefix: Vec<FieldSpec>,
    pub(crate) name_suffix: Vec<FieldSpec>,
    pub(crate) namespace: Vec<FieldSpec>,
    pub(crate) common_labels: Vec<FieldSpec>,
    pub(crate) template_labels: Vec<FieldSpec>,
    pub(crate) labels: Vec<FieldSpec>,
    pub(crate) common_annotations: Vec<FieldSpec>,
    pub(crate) images: Vec<FieldSpec>,
    pub(crate) replicas: Vec<FieldSpec>,
    /// The fields in which `$(NAME)` of `vars` is replaced.
    pub(crate) var_reference: Vec<FieldSpec>,
    pub(crate) name_references: Vec<NameReference>,
}

impl TransformerConfig {
    /// Adds what `other` has and this has not. Gives the paths they disagree on: one makes what is missing,
    /// the other does not.
    pub(crate) fn merge(&mut self, other: &TransformerConfig) -> Vec<String> {
        let mut conflicts = Vec::new();
        let mut add = |mine: &mut Vec<FieldSpec>, theirs: &[FieldSpec]| {
            for field in theirs {
                match mine.iter().find(|known| known.path == field.path && known.applies_to(&field.gvk)) {
                    None => mine.push(field.clone()),
                    Some(known) if known.create != field.create => conflicts.push(field.path.join("/")),
                    Some(_) => {}
                }
            }
        };
        add(&mut self.name_prefix, &other.name_prefix);
        add(&mut self.name_suffix, &other.name_suffix);
        add(&mut self.namespace, &other.namespace);
        add(&mut self.common_labels, &other.common_labels);
        add(&mut self.template_labels, &other.template_labels);
        add(&mut self.labels, &other.labels);
        add(&mut self.common_annotations, &other.common_annotations);
        add(&mut self.images, &other.images);
        add(&mut self.replicas, &other.replicas);
        add(&mut self.var_reference, &other.var_reference);
        for reference in &other.name_references {
            match self.name_references.iter_mut().find(|mine| mine.referred == reference.referred) {
                Some(mine) => add(&mut mine.fields, &reference.fields),
                None => self.name_references.push(reference.clone()),
            }
        }
        conflicts
    }

    /// The tables kustomize has built in.
    pub(crate) fn built_in() -> Self {
        Self {
            name_prefix: parse_fields(&["metadata/name"]),
            name_suffix: parse_fields(&["metadata/name"]),
            namespace: parse_fields(NAMESPACE),
            common_labels: parse_fields(COMMON_LABELS),
            template_labels: parse_fields(TEMPLATE_LABELS),
            labels: Vec::new(),
            common_annotations: parse_fields(COMMON_ANNOTATIONS),
            images: parse_fields(IMAGES),
            replicas: parse_fields(REPLICAS),
            var_reference: var_references(),
            name_references: name_references(),
        }
    }
}

/// Reads a table whose lines are `PATH [+] [@GROUP/VERSION/KIND]`; `+` makes missing parts.
fn parse_fields(lines: &[&str]) -> Vec<FieldSpec> {
    lines
        .iter()
        .map(|line| {
            let mut words = line.split(' ');
            let path = words.next().unwrap_or_default();
            let (mut create, mut gvk) = (false, Gvk::default());
            for word in words {
                match word.strip_prefix('@') {
                    Some(kind) => gvk = parse_pattern(kind),
                    None => create = word == "+",
                }
            }
            FieldSpec::new(gvk, path, create)
        })
        .collect()
}

/// Reads `GROUP/VERSION/KIND`, `VERSION/KIND` or `KIND`; `_` is any group.
fn parse_pattern(text: &str) -> Gvk {
    let parts: Vec<&str> = text.split('/').collect();
    let part = |text: &str| if text == "_" { String::new() } else { text.to_owned() };
    match parts.as_slice() {
        [group, version, kind] => Gvk { group: part(group), version: part(version), kind: part(kind) },
        [version, kind] => Gvk { group: String::new(), version: part(version), kind: part(kind) },
        _ => Gvk { kind: text.to_owned(), ..Gvk::default() },
    }
}

const NAMESPACE: &[&str] = &[
    "metadata/name + @Namespace",
    "spec/service/namespace + @apiregistration.k8s.io/_/APIService",
    "spec/conversion/webhook/clientConfig/service/namespace @apiextensions.k8s.io/_/CustomResourceDefinition",
];

const COMMON_LABELS: &[&str] = &[
    "metadata/labels +",
    "spec/selector + @v1/Service",
    "spec/selector + @v1/ReplicationController",
    "spec/template/metadata/labels + @v1/ReplicationController",
    "spec/selector/matchLabels + @Deployment",
    "spec/template/metadata/labels + @Deployment",
    "spec/template/spec/affinity/podAffinity/preferredDuringSchedulingIgnoredDuringExecution/podAffinityTerm/labelSelector/matchLabels @apps/_/Deployment",
    "spec/template/spec/affinity/podAffinity/requiredDuringSchedulingIgnoredDuringExecution/labelSelector/matchLabels @apps/_/Deployment",
    "spec/template/spec/affinity/podAntiAffinity/preferredDuringSchedulingIgnoredDuringExecution/podAffinityTerm/labelSelector/matchLabels @apps/_/Deployment",
    "spec/template/spec/affinity/podAntiAffinity/requiredDuringSchedulingIgnoredDuringExecution/labelSelector/matchLabels @apps/_/Deployment",
    "spec/template/spec/topologySpreadConstraints/labelSelector/matchLabels @apps/_/Deployment",
    "spec/selector/matchLabels + @ReplicaSet",
    "spec/template/metadata/labels + @ReplicaSet",
    "spec/selector/matchLabels + @DaemonSet",
    "spec/template/metadata/labels + @DaemonSet",
    "spec/selector/matchLabels + @apps/_/StatefulSet",
    "spec/template/metadata/labels + @apps/_/StatefulSet",
    "spec/template/spec/affinity/podAffinity/preferredDuringSchedulingIgnoredDuringExecution/podAffinityTerm/labelSelector/matchLabels @apps/_/StatefulSet",
    "spec/template/spec/affinity/podAffinity/requiredDuringSchedulingIgnoredDuringExecution/labelSelector/matchLabels @apps/_/StatefulSet",
    "spec/template/spec/affinity/podAntiAffinity/preferredDuringSchedulingIgnoredDuringExecution/podAffinityTerm/labelSelector/matchLabels @apps/_/StatefulSet",
    "spec/template/spec/affinity/podAntiAffinity/requiredDuringSchedulingIgnoredDuringExecution/labelSelector/matchLabels @apps/_/StatefulSet",
    "spec/template/spec/topologySpreadConstraints/labelSelector/matchLabels @apps/_/StatefulSet",
    "spec/volumeClaimTemplates[]/metadata/labels + @apps/_/StatefulSet",
    "spec/selector/matchLabels @batch/_/Job",
    "spec/template/metadata/labels + @batch/_/Job",
    "spec/jobTemplate/spec/selector/matchLabels @batch/_/CronJob",
    "spec/jobTemplate/metadata/labels + @batch/_/CronJob",
    "spec/jobTemplate/spec/template/metadata/labels + @batch/_/CronJob",
    "spec/selector/matchLabels @policy/_/PodDisruptionBudget",
    "spec/podSelector/matchLabels @networking.k8s.io/_/NetworkPolicy",
    "spec/ingress/from/podSelector/matchLabels @networking.k8s.io/_/NetworkPolicy",
    "spec/egress/to/podSelector/matchLabels @networking.k8s.io/_/NetworkPolicy",
];

const TEMPLATE_LABELS: &[&str] = &[
    "spec/template/metadata/labels + @v1/ReplicationController",
    "spec/template/metadata/labels + @Deployment",
    "spec/template/metadata/labels + @ReplicaSet",
    "spec/template/metadata/labels + @DaemonSet",
    "spec/template/metadata/labels + @apps/_/StatefulSet",
    "spec/volumeClaimTemplates[]/metadata/labels + @apps/_/StatefulSet",
    "spec/template/metadata/labels + @batch/_/Job",
    "spec/jobTemplate/metadata/labels + @batch/_/CronJob",
    "spec/jobTemplate/spec/template/metadata/labels + @batch/_/CronJob",
];

const COMMON_ANNOTATIONS: &[&str] = &[
    "metadata/annotations +",
    "spec/template/metadata/annotations + @v1/ReplicationController",
    "spec/template/metadata/annotations + @Deployment",
    "spec/template/metadata/annotations + @ReplicaSet",
    "spec/template/metadata/annotations + @DaemonSet",
    "spec/template/metadata/annotations + @StatefulSet",
    "spec/template/metadata/annotations + @batch/_/Job",
    "spec/jobTemplate/metadata/annotations + @batch/_/CronJob",
    "spec/jobTemplate/spec/template/metadata/annotations + @batch/_/CronJob",
];

/// Looked at again after every list of containers, whatever it is in: a tag's suffix comes twice here.
const IMAGES: &[&str] = &[
    "spec/containers[]/image",
    "spec/initContainers[]/image",
    "spec/template/spec/containers[]/image",
    "spec/template/spec/initContainers[]/image",
];

const REPLICAS: &[&str] = &[
    "spec/replicas + @Deployment",
    "spec/replicas + @ReplicationController",
    "spec/replicas + @ReplicaSet",
    "spec/replicas + @StatefulSet",
];

/// Kinds with a pod template, and where it is.
const POD_SPECS: &[(&str, &str)] = &[
    ("v1/Pod", "spec"),
    ("Deployment", "spec/template/spec"),
    ("ReplicaSet", "spec/template/spec"),
    ("DaemonSet", "spec/template/spec"),
    ("StatefulSet", "spec/template/spec"),
    ("Job", "spec/template/spec"),
    ("CronJob", "spec/jobTemplate/spec/template/spec"),
    ("v1/PodTemplate", "template/spec"),
];

/// The workloads whose account, claims and priority class are followed.
const WORKLOADS: &[(&str, &str)] = &[
    ("v1/Pod", "spec"),
    ("StatefulSet", "spec/template/spec"),
    ("Deployment", "spec/template/spec"),
    ("ReplicationController", "spec/template/spec"),
    ("CronJob", "spec/jobTemplate/spec/template/spec"),
    ("Job", "spec/template/spec"),
    ("DaemonSet", "spec/template/spec"),
];

const CONFIG_MAP: &[&str] = &[
    "volumes/configMap/name",
    "containers/env/valueFrom/configMapKeyRef/name",
    "initContainers/env/valueFrom/configMapKeyRef/name",
    "containers/envFrom/configMapRef/name",
    "initContainers/envFrom/configMapRef/name",
    "volumes/projected/sources/configMap/name",
];

const SECRET: &[&str] = &[
    "volumes/secret/secretName",
    "containers/env/valueFrom/secretKeyRef/name",
    "initContainers/env/valueFrom/secretKeyRef/name",
    "containers/envFrom/secretRef/name",
    "initContainers/envFrom/secretRef/name",
    "imagePullSecrets/name",
    "volumes/projected/sources/secret/name",
];

fn in_pods(kinds: &[(&str, &str)], paths: &[&str]) -> Vec<FieldSpec> {
    let mut found = Vec::new();
    for (kind, pod) in kinds {
        for path in paths {
            found.push(FieldSpec::new(parse_pattern(kind), &format!("{pod}/{path}"), false));
        }
    }
    found
}

/// Fields of a pod's spec in which variables are replaced.
const VARIABLES: &[&str] = &[
    "containers/args",
    "containers/command",
    "containers/env/value",
    "containers/volumeMounts/mountPath",
    "initContainers/args",
    "initContainers/command",
    "initContainers/env/value",
    "initContainers/volumeMounts/mountPath",
];

fn var_references() -> Vec<FieldSpec> {
    let mut found = Vec::new();
    for (kind, pod, server) in [
        (
            "CronJob",
            "spec/jobTemplate/spec/template/spec",
            "spec/jobTemplate/spec/template/volumes/nfs/server",
        ),
        ("DaemonSet", "spec/template/spec", "spec/template/spec/volumes/nfs/server"),
        ("Deployment", "spec/template/spec", "spec/template/spec/volumes/nfs/server"),
        ("Job", "spec/template/spec", "spec/template/spec/volumes/nfs/server"),
        ("Pod", "spec", "spec/volumes/nfs/server"),
        ("ReplicaSet", "spec/template/spec", "spec/template/spec/volumes/nfs/server"),
        ("StatefulSet", "spec/template/spec", "spec/volumeClaimTemplates/spec/nfs/server"),
    ] {
        found.extend(in_pods(&[(kind, pod)], VARIABLES));
        found.push(FieldSpec::new(parse_pattern(kind), server, false));
    }
    found.extend(parse_fields(&[
        "spec/template/metadata/annotations @Deployment",
        "spec/rules/host @Ingress",
        "spec/tls/hosts @Ingress",
        "spec/tls/secretName @Ingress",
        "spec/ports/port @Service",
        "spec/ports/targetPort @Service",
        "spec/nfs/server @PersistentVolume",
        "metadata/labels",
        "metadata/annotations",
    ]));
    found
}

fn name_references() -> Vec<NameReference> {
    let entry = |kind: &str, mut more: Vec<FieldSpec>, lines: &[&str]| {
        more.extend(parse_fields(lines));
        NameReference { referred: parse_pattern(kind), fields: more }
    };
    let scaled = "spec/scaleTargetRef/name @HorizontalPodAutoscaler";
    vec![
        entry("Deployment", Vec::new(), &[scaled]),
        entry("ReplicationController", Vec::new(), &[scaled]),
        entry("ReplicaSet", Vec::new(), &[scaled]),
        entry("StatefulSet", Vec::new(), &[scaled]),
        entry(
            "v1/ConfigMap",
            in_pods(POD_SPECS, CONFIG_MAP),
            &[
                "spec/configSource/configMap @Node",
                "rules/resourceNames @Role",
                "rules/resourceNames @ClusterRole",
                "metadata/annotations/nginx.ingress.kubernetes.io\\/fastcgi-params-configmap @Ingress",
            ],
        ),
        entry(
            "v1/Secret",
            in_pods(POD_SPECS, SECRET),
            &[
                "spec/tls/secretName @Ingress",
                "metadata/annotations/ingress.kubernetes.io\\/auth-secret @Ingress",
                "metadata/annotations/nginx.ingress.kubernetes.io\\/auth-secret @Ingress",
                "metadata/annotations/nginx.ingress.kubernetes.io\\/auth-tls-secret @Ingress",
                "imagePullSecrets/name @ServiceAccount",
                "parameters/secretName @StorageClass",
                "parameters/adminSecretName @StorageClass",
                "parameters/userSecretName @StorageClass",
                "parameters/secretRef @StorageClass",
                "rules/resourceNames @Role",
                "rules/resourceNames @ClusterRole",
                "spec/template/spec/containers/env/valueFrom/secretKeyRef/name @serving.knative.dev/v1/Service",
                "spec/azureFile/secretName @PersistentVolume",
            ],
        ),
        entry(
            "v1/Service",
            Vec::new(),
            &[
                "spec/serviceName @apps/_/StatefulSet",
                "spec/rules/http/paths/backend/serviceName @Ingress",
                "spec/backend/serviceName @Ingress",
                "spec/rules/http/paths/backend/service/name @Ingress",
                "spec/defaultBackend/service/name @Ingress",
                "spec/service/name @apiregistration.k8s.io/_/APIService",
                "webhooks/clientConfig/service @admissionregistration.k8s.io/_/ValidatingWebhookConfiguration",
                "webhooks/clientConfig/service @admissionregistration.k8s.io/_/MutatingWebhookConfiguration",
            ],
        ),
        entry(
            "rbac.authorization.k8s.io/_/Role",
            Vec::new(),
            &["roleRef/name @rbac.authorization.k8s.io/_/RoleBinding"],
        ),
        entry(
            "rbac.authorization.k8s.io/_/ClusterRole",
            Vec::new(),
            &[
                "roleRef/name @rbac.authorization.k8s.io/_/RoleBinding",
                "roleRef/name @rbac.authorization.k8s.io/_/ClusterRoleBinding",
            ],
        ),
        entry(
            "v1/ServiceAccount",
            in_pods(WORKLOADS, &["serviceAccountName"]),
            &[
                "subjects @rbac.authorization.k8s.io/_/RoleBinding",
                "subjects @rbac.authorization.k8s.io/_/ClusterRoleBinding",
            ],
        ),
        entry(
            "v1/PersistentVolumeClaim",
            in_pods(WORKLOADS, &["volumes/persistentVolumeClaim/claimName"]),
            &[],
        ),
        entry(
            "v1/PersistentVolume",
            Vec::new(),
            &["spec/volumeName @PersistentVolumeClaim", "rules/resourceNames @ClusterRole"],
        ),
        entry(
            "storage.k8s.io/_/StorageClass",
            Vec::new(),
            &[
                "spec/storageClassName @PersistentVolume",
                "spec/storageClassName @PersistentVolumeClaim",
                "spec/volumeClaimTemplates/spec/storageClassName @StatefulSet",
            ],
        ),
        entry("scheduling.k8s.io/_/PriorityClass", in_pods(WORKLOADS, &["priorityClassName"]), &[]),
        entry(
            "ValidatingAdmissionPolicy",
            Vec::new(),
            &["spec/policyName @ValidatingAdmissionPolicyBinding"],
        ),
    ]
}
