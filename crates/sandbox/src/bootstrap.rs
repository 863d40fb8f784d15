//! The objects of a new cluster: roles, nodes, classes, the `kubernetes` service.

use serde_json::{Value, json};

use crate::controllers::create_if_absent;
use crate::core::Core;

const RBAC: &str = "rbac.authorization.k8s.io";

fn policy_rule(groups: &[&str], resources: &[&str], verbs: &[&str]) -> Value {
    json!({"verbs": verbs, "apiGroups": groups, "resources": resources})
}

const READ: &[&str] = &["get", "list", "watch"];
const WRITE: &[&str] = &["create", "delete", "deletecollection", "patch", "update"];

/// Resources the role `view` may read, per group.
const VIEWED: &[(&str, &[&str])] = &[
    (
        "",
        &[
            "configmaps",
            "endpoints",
            "events",
            "limitranges",
            "namespaces",
            "namespaces/status",
            "persistentvolumeclaims",
            "persistentvolumeclaims/status",
            "pods",
            "pods/log",
            "pods/status",
            "replicationcontrollers",
            "replicationcontrollers/scale",
            "replicationcontrollers/status",
            "resourcequotas",
            "resourcequotas/status",
            "serviceaccounts",
            "services",
            "services/status",
            "bindings",
        ],
    ),
    ("discovery.k8s.io", &["endpointslices"]),
    (
        "apps",
        &[
            "controllerrevisions",
            "daemonsets",
            "daemonsets/status",
            "deployments",
            "deployments/scale",
            "deployments/status",
            "replicasets",
            "replicasets/scale",
            "replicasets/status",
            "statefulsets",
            "statefulsets/scale",
            "statefulsets/status",
        ],
    ),
    ("autoscaling", &["horizontalpodautoscalers", "horizontalpodautoscalers/status"]),
    ("batch", &["cronjobs", "cronjobs/status", "jobs", "jobs/status"]),
    ("networking.k8s.io", &["ingresses", "ingresses/status", "networkpolicies"]),
    ("policy", &["poddisruptionbudgets", "poddisruptionbudgets/status"]),
];

/// Resources the role `edit` may change.
const EDITED: &[(&str, &[&str])] = &[
    (
        "",
        &[
            "configmaps",
            "events",
            "persistentvolumeclaims",
            "pods",
            "pods/attach",
            "pods/exec",
            "pods/portforward",
            "pods/proxy",
            "pods/eviction",
            "replicationcontrollers",
            "replicationcontrollers/scale",
            "secrets",
            "serviceaccounts",
            "services",
            "services/proxy",
            "endpoints",
        ],
    ),
    (
        "apps",
        &[
            "daemonsets",
            "deployments",
            "deployments/rollback",
            "deployments/scale",
            "replicasets",
            "replicasets/scale",
            "statefulsets",
            "statefulsets/scale",
        ],
    ),
    ("autoscaling", &["horizontalpodautoscalers"]),
    ("batch", &["cronjobs", "jobs"]),
    ("networking.k8s.io", &["ingresses", "networkpolicies"]),
    ("policy", &["poddisruptionbudgets"]),
    ("coordination.k8s.io", &["leases"]),
];

/// Creates the roles and bindings a real server creates.
pub(crate) fn create_default_roles(core: &Core) {
    let view: Vec<Value> = VIEWED.iter().map(|(g, r)| policy_rule(&[g], r, READ)).collect();
    let mut to_edit = vec![
        policy_rule(&[""], &["secrets"], READ),
        policy_rule(&[""], &["serviceaccounts"], &["impersonate"]),
        policy_rule(&[""], &["serviceaccounts/token"], &["create"]),
    ];
    to_edit.extend(EDITED.iter().map(|(g, r)| policy_rule(&[g], r, WRITE)));
    to_edit.push(policy_rule(&["coordination.k8s.io"], &["leases"], READ));
    let access: Vec<&str> = READ.iter().chain(WRITE).copied().collect();
    let to_admin = vec![
        policy_rule(&[RBAC], &["rolebindings", "roles"], &access),
        policy_rule(&["authorization.k8s.io"], &["localsubjectaccessreviews"], &["create"]),
    ];
    // The sums as their controller would make them, so that it has nothing to do.
    let edit = [to_edit.as_slice(), view.as_slice()].concat();
    let admin = [edit.as_slice(), to_admin.as_slice()].concat();
    let urls = |urls: &[&str]| json!({"verbs": ["get"], "nonResourceURLs": urls});
    let all = json!([
        {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
        {"verbs": ["*"], "nonResourceURLs": ["*"]},
    ]);
    let reviews = json!([
        policy_rule(
            &["authorization.k8s.io"],
            &["selfsubjectaccessreviews", "selfsubjectrulesreviews"],
            &["create"]
        ),
        policy_rule(&["authentication.k8s.io"], &["selfsubjectreviews"], &["create"]),
    ]);
    let discovery = json!([urls(&[
        "/api",
        "/api/*",
        "/apis",
        "/apis/*",
        "/healthz",
        "/livez",
        "/openapi",
        "/openapi/*",
        "/readyz",
        "/version",
        "/version/",
    ])]);
    let public = json!([urls(&["/healthz", "/livez", "/readyz", "/version", "/version/"])]);
    let issuer = json!([urls(&[
        "/.well-known/openid-configuration",
        "/.well-known/openid-configuration/",
        "/openid/v1/jwks",
        "/openid/v1/jwks/"
    ])]);
    let labels = json!({"kubernetes.io/bootstrapping": "rbac-defaults"});
    let annotations = json!({"rbac.authorization.kubernetes.io/autoupdate": "true"});
    for (name, rules, part_of, sum_of) in [
        ("cluster-admin", all, "", ""),
        ("admin", admin.into(), "", "admin"),
        ("edit", edit.into(), "admin", "edit"),
        ("view", view.clone().into(), "edit", "view"),
        ("system:aggregate-to-admin", to_admin.into(), "admin", ""),
        ("system:aggregate-to-edit", to_edit.into(), "edit", ""),
        ("system:aggregate-to-view", view.into(), "view", ""),
        ("system:basic-user", reviews, "", ""),
        ("system:discovery", discovery, "", ""),
        ("system:public-info-viewer", public, "", ""),
        ("system:service-account-issuer-discovery", issuer, "", ""),
    ] {
        let marker = |of: &str| format!("{RBAC}/aggregate-to-{of}");
        let mut meta = json!({"name": name, "labels": labels, "annotations": annotations});
        if !part_of.is_empty() {
            meta["labels"][marker(part_of)] = "true".into();
        }
        let mut object = json!({"metadata": meta, "rules": rules});
        if !sum_of.is_empty() {
            let selector = json!({"matchLabels": {marker(sum_of): "true"}});
            object["aggregationRule"] = json!({"clusterRoleSelectors": [selector]});
        }
        create_if_absent(core, &format!("clusterroles.{RBAC}"), "", object, "kube-apiserver");
    }
    for (name, groups) in [
        ("cluster-admin", &["system:masters"][..]),
        ("system:basic-user", &["system:authenticated"]),
        ("system:discovery", &["system:authenticated"]),
        ("system:public-info-viewer", &["system:authenticated", "system:unauthenticated"]),
        ("system:service-account-issuer-discovery", &["system:serviceaccounts"]),
    ] {
        let subjects: Vec<Value> =
            groups.iter().map(|g| json!({"kind": "Group", "apiGroup": RBAC, "name": g})).collect();
        let object = json!({
            "metadata": {"name": name, "labels": labels, "annotations": annotations},
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": name},
            "subjects": subjects,
        });
        create_if_absent(core, &format!("clusterrolebindings.{RBAC}"), "", object, "kube-apiserver");
    }
}

/// Nodes, the default storage class, priority classes and the server's own service.
pub(crate) fn create_default_objects(core: &Core, nodes: usize) {
    for (name, value, text) in [
        (
            "system-node-critical",
            2_000_001_000,
            "Used for system critical pods that must not be moved from their current node.",
        ),
        (
            "system-cluster-critical",
            2_000_000_000,
            "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
        ),
    ] {
        let object = json!({"metadata": {"name": name}, "value": value, "description": text});
        create_if_absent(core, "priorityclasses.scheduling.k8s.io", "", object, "kube-apiserver");
    }
    create_if_absent(
        core,
        "storageclasses.storage.k8s.io",
        "",
        json!({
            "metadata": {
                "name": "standard",
                "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
            },
            "provisioner": "sandbox.local/hostpath",
            "allowVolumeExpansion": true,
        }),
        "kube-apiserver",
    );
    create_if_absent(
        core,
        "services",
        "default",
        json!({
            "metadata": {
                "name": "kubernetes",
                "labels": {"component": "apiserver", "provider": "kubernetes"},
            },
            "spec": {
                "clusterIP": "10.96.0.1",
                "ports": [{"name": "https", "port": 443, "targetPort": 6443}],
            },
        }),
        "kube-apiserver",
    );
    let labels = json!({
        "kubernetes.io/service-name": "kubernetes", "endpointslice.kubernetes.io/skip-mirror": "true",
    });
    create_if_absent(
        core,
        "endpoints",
        "default",
        json!({
            "metadata": {
                "name": "kubernetes", "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"},
            },
            "subsets": [{"addresses": [{"ip": "127.0.0.1"}], "ports": [{"name": "https", "port": 6443}]}],
        }),
        "kube-apiserver",
    );
    create_if_absent(
        core,
        "endpointslices.discovery.k8s.io",
        "default",
        json!({
            "metadata": {"name": "kubernetes", "labels": labels},
            "addressType": "IPv4",
            "endpoints": [{"addresses": ["127.0.0.1"], "conditions": {"ready": true}}],
            "ports": [{"name": "https", "port": 6443, "protocol": "TCP"}],
        }),
        "kube-apiserver",
    );
    for number in 1..=nodes {
        create_node(core, &format!("node-{number}"));
    }
}

/// A ready node with plenty of room.
fn create_node(core: &Core, name: &str) {
    let now = core.now();
    let amounts = json!({"cpu": "64", "ephemeral-storage": "500Gi", "memory": "256Gi", "pods": "5k"});
    let condition = |kind: &str, status: &str, reason: &str, message: &str| {
        json!({
            "type": kind, "status": status, "lastHeartbeatTime": now, "lastTransitionTime": now,
            "reason": reason, "message": message,
        })
    };
    let labels = json!({
        "beta.kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
    });
    create_if_absent(
        core,
        "nodes",
        "",
        json!({
            "metadata": {"name": name, "labels": labels, "annotations": {"node.alpha.kubernetes.io/ttl": "0"}},
            "status": {
                "capacity": amounts,
                "allocatable": amounts,
                "conditions": [
                    condition("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
                    condition("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
                    condition("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
                    condition("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
                ],
                "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
                "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
                "nodeInfo": {
                    "machineID": "", "systemUUID": "", "bootID": "", "kernelVersion": "6.0", "osImage": "sandbox",
                    "containerRuntimeVersion": "sandbox://1.0",
                    "kubeletVersion": format!("v{}", core.options.version),
                    "kubeProxyVersion": "", "operatingSystem": "linux", "architecture": "amd64",
                },
            },
        }),
        "kubelet",
    );
    create_lease(core, name);
    // The node says that it is ready, so the taint every new node gets comes off at once.
    if let Some(served) = core.of_table("nodes") {
        let author = crate::write::WriteAuthor::system("kube-controller-manager");
        let _ = core.update_object(
            &served,
            &crate::store::ObjectKey::new("", name),
            crate::write::admit::prepare::ObjectPart::Main,
            &author,
            &mut |live| {
                let mut value = live.value.clone();
                value["spec"]["taints"] = json!([]);
                Ok(crate::write::UpdateProposal {
                    value,
                    ownership: crate::write::FieldOwnership::Update,
                    warnings: vec![],
                })
            },
        );
    }
}

/// Creates the lease of a node. Simulated nodes never fail, so nobody renews it.
fn create_lease(core: &Core, node: &str) {
    let Some(owner) = core.store.get("nodes", &crate::store::ObjectKey::new("", node)) else { return };
    let renewed = format!("{:.6}", core.clock.now());
    create_if_absent(
        core,
        "leases.coordination.k8s.io",
        "kube-node-lease",
        json!({
            "metadata": {
                "name": node,
                "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": node, "uid": *owner.uid}],
            },
            "spec": {"holderIdentity": node, "leaseDurationSeconds": 40, "renewTime": renewed},
        }),
        "kubelet",
    );
}
