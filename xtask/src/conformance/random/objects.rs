//! The objects a kustomization is about.

use serde_json::{Map, Value, json};

use super::Maker;

pub(super) const NAMES: &[&str] = &["app", "web", "db", "cfg", "x.y"];
pub(super) const IMAGES: &[&str] =
    &["nginx", "nginx:1.0", "reg.io:5000/a/b:1", "nginx@sha256:00", "busybox:1.36", "a/b"];
pub(super) const CONTAINERS: &[&str] = &["c1", "c2", "c3"];
pub(super) const LABELS: &[&str] = &["app", "tier", "team", "a.b/c"];
pub(super) const VALUES: &[&str] =
    &["x", "yes", "1", "true", "a b", "2020-01-01", "é", "null", "1e3", "#x", "a: b"];

/// Values of config maps: what a writer of YAML has to think about.
const TEXTS: &[&str] = &[
    "v",
    "host:80/path",
    "a\nb\n",
    "8080",
    "a b  \nc",
    "\ttab",
    "",
    " lead",
    "trail ",
    "a\n\n",
    "\na",
    "- a",
    "? a",
    "a:",
    "*a",
    "&a",
    "!a",
    "%a",
    "@a",
    "`a",
    "it's",
    "say \"x\"",
    "0x1f",
    "0o17",
    "017",
    "1_000",
    "12:30:45",
    ".5",
    "+1",
    "1e400",
    "~",
    "=",
    "<<",
    "on",
    "N",
    "a # b",
    "a#b",
    "key: |\n  text\n",
    "{a}",
    "[a]",
    "a\\b",
    "\u{7f}",
    "\u{2028}x",
    "\u{feff}x",
    "😀",
    "a\r\nb",
    "one two three four five six seven eight nine ten eleven twelve thirteen fourteen",
    "#!/bin/sh\nif true; then\n\techo hi\nfi\n",
    "  indented\nless\n",
    "a\n  b\nc",
    ".inf",
    ".nan",
    "-0",
    "0.10",
];

/// An object by what it is called when it is read.
#[derive(Clone)]
pub(super) struct Named {
    pub(super) api: &'static str,
    pub(super) kind: &'static str,
    pub(super) namespace: Option<&'static str>,
    pub(super) name: &'static str,
}

pub(super) const KINDS: &[(&str, &str)] = &[
    ("apps/v1", "Deployment"),
    ("apps/v1", "Deployment"),
    ("apps/v1", "StatefulSet"),
    ("apps/v1", "DaemonSet"),
    ("apps/v1", "ReplicaSet"),
    ("batch/v1", "Job"),
    ("batch/v1", "CronJob"),
    ("v1", "Pod"),
    ("v1", "Service"),
    ("v1", "Service"),
    ("v1", "ConfigMap"),
    ("v1", "ConfigMap"),
    ("v1", "Secret"),
    ("v1", "ServiceAccount"),
    ("v1", "PersistentVolumeClaim"),
    ("v1", "PersistentVolume"),
    ("v1", "Namespace"),
    ("networking.k8s.io/v1", "Ingress"),
    ("networking.k8s.io/v1", "NetworkPolicy"),
    ("networking.k8s.io/v1", "IngressClass"),
    ("policy/v1", "PodDisruptionBudget"),
    ("autoscaling/v2", "HorizontalPodAutoscaler"),
    ("rbac.authorization.k8s.io/v1", "Role"),
    ("rbac.authorization.k8s.io/v1", "RoleBinding"),
    ("rbac.authorization.k8s.io/v1", "ClusterRole"),
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"),
    ("storage.k8s.io/v1", "StorageClass"),
    ("scheduling.k8s.io/v1", "PriorityClass"),
    ("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration"),
    ("apiregistration.k8s.io/v1", "APIService"),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
    ("example.com/v1", "Foo"),
    ("v1", "ReplicationController"),
    ("v1", "PodTemplate"),
    ("v1", "Endpoints"),
    ("v1", "ResourceQuota"),
    ("v1", "LimitRange"),
    ("networking.k8s.io/v1beta1", "Ingress"),
    ("extensions/v1beta1", "Deployment"),
    ("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration"),
    ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy"),
    ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding"),
    ("gateway.networking.k8s.io/v1", "HTTPRoute"),
    ("serving.knative.dev/v1", "Service"),
];

pub(super) const CLUSTER: &[&str] = &[
    "PersistentVolume",
    "Namespace",
    "IngressClass",
    "ClusterRole",
    "ClusterRoleBinding",
    "StorageClass",
    "PriorityClass",
    "ValidatingWebhookConfiguration",
    "MutatingWebhookConfiguration",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "APIService",
    "CustomResourceDefinition",
];

pub(super) const WORKLOADS: &[&str] =
    &["Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job", "CronJob", "Pod"];

impl Maker {
    pub(super) fn object(&mut self, named: &Named) -> Value {
        let mut metadata = Map::new();
        metadata.insert("name".to_owned(), json!(named.name));
        if let Some(namespace) = named.namespace {
            metadata.insert("namespace".to_owned(), json!(namespace));
        }
        for field in ["labels", "annotations"] {
            if self.dice.one_in(3) {
                let labels = self.labels();
                metadata.insert(field.to_owned(), labels);
            }
        }
        if named.kind == "Ingress" && self.dice.one_in(3) {
            let key = self
                .dice
                .pick(&["nginx.ingress.kubernetes.io/auth-secret", "ingress.kubernetes.io/auth-secret"]);
            metadata.insert("annotations".to_owned(), json!({key: self.dice.name()}));
        }
        if self.dice.one_in(60) {
            metadata.insert("annotations".to_owned(), json!({"config.kubernetes.io/local-config": "true"}));
        }
        let mut object = json!({"apiVersion": named.api, "kind": named.kind, "metadata": metadata});
        let body = self.body(named.api, named.kind);
        if let (Value::Object(object), Value::Object(body)) = (&mut object, body) {
            object.extend(body);
        }
        object
    }

    pub(super) fn body(&mut self, api: &str, kind: &str) -> Value {
        let name = self.dice.name();
        let other = self.dice.name();
        match kind {
            "Service" if api.starts_with("serving") => {
                json!({"spec": {"template": {"spec": self.pod()}}})
            }
            "ReplicationController" => {
                let labels = json!({"app": name});
                json!({"spec": {"replicas": 1, "selector": labels, "template": {"metadata": {"labels": labels}, "spec": self.pod()}}})
            }
            "PodTemplate" => json!({"template": {"spec": self.pod()}}),
            "Endpoints" => {
                json!({"subsets": [{"addresses": [{"ip": "10.0.0.1"}], "ports": self.ports("port")}]})
            }
            "ResourceQuota" => json!({"spec": {"hard": {"pods": "4", "requests.cpu": 1}}}),
            "LimitRange" => json!({"spec": {"limits": [{"type": "Container", "default": {"cpu": "500m"}}]}}),
            "ValidatingAdmissionPolicyBinding" => json!({"spec": {"policyName": name}}),
            "HTTPRoute" => {
                json!({"spec": {"hostnames": ["a.example"], "rules": [{"backendRefs": [{"name": name, "port": 80}]}]}})
            }
            "Ingress" if api.ends_with("beta1") => json!({"spec": {
                "backend": {"serviceName": other, "servicePort": 80},
                "rules": [{"http": {"paths": [{"backend": {"serviceName": name, "servicePort": 80}}]}}],
            }}),
            "Deployment" | "DaemonSet" | "ReplicaSet" | "StatefulSet" => {
                let labels = json!({"app": name});
                let mut spec = json!({
                    "selector": {"matchLabels": labels},
                    "template": {"metadata": {"labels": labels}, "spec": self.pod()},
                });
                if kind != "DaemonSet" && self.dice.one_in(2) {
                    spec["replicas"] = json!(self.dice.below(4));
                }
                if kind == "Deployment" && self.dice.one_in(3) {
                    spec["strategy"] = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}});
                }
                if kind == "StatefulSet" {
                    spec["serviceName"] = json!(other);
                    if self.dice.one_in(2) {
                        spec["volumeClaimTemplates"] = json!([{"metadata": {"name": "data"}, "spec": {"storageClassName": self.dice.name()}}]);
                    }
                }
                json!({"spec": spec})
            }
            "Job" => json!({"spec": {"template": {"spec": self.pod()}}}),
            "CronJob" => {
                json!({"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": {"spec": self.pod()}}}}})
            }
            "Pod" => json!({"spec": self.pod()}),
            "Service" => {
                let mut spec = json!({"ports": self.ports("port")});
                if self.dice.one_in(2) {
                    spec["selector"] = json!({"app": name});
                }
                json!({"spec": spec})
            }
            "ConfigMap" => {
                let text = self.dice.pick(TEXTS);
                json!({"data": {"k": text, "n": "3", "flag": "true"}})
            }
            "Secret" => json!({"type": "Opaque", "stringData": {"p": "pw"}, "data": {"q": "cHc="}}),
            "ServiceAccount" => json!({"imagePullSecrets": [{"name": name}], "secrets": [{"name": other}]}),
            "PersistentVolumeClaim" => json!({"spec": {"volumeName": name, "storageClassName": other}}),
            "PersistentVolume" => {
                json!({"spec": {"storageClassName": name, "azureFile": {"secretName": other}}})
            }
            "Ingress" => {
                let backend = json!({"service": {"name": name, "port": {"number": 80}}});
                let mut ingress = json!({"spec": {
                    "ingressClassName": other,
                    "tls": [{"hosts": ["a.example"], "secretName": other}],
                    "rules": [{"host": "a.example", "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": backend}]}}],
                }});
                if self.dice.one_in(2) {
                    ingress["spec"]["defaultBackend"] = json!({"service": {"name": other}});
                }
                ingress
            }
            "NetworkPolicy" => {
                let selector =
                    if self.dice.one_in(2) { json!({}) } else { json!({"matchLabels": {"app": name}}) };
                json!({"spec": {"podSelector": selector, "ingress": [{"from": [{"podSelector": {"matchLabels": {"app": other}}}]}]}})
            }
            "PodDisruptionBudget" => {
                json!({"spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": name}}}})
            }
            "HorizontalPodAutoscaler" => {
                let kind = self.dice.pick(&["Deployment", "StatefulSet"]);
                json!({"spec": {"maxReplicas": 3, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": kind, "name": name}}})
            }
            "Role" | "ClusterRole" => {
                json!({"rules": [{"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [name, other], "verbs": ["get"]}]})
            }
            "RoleBinding" | "ClusterRoleBinding" => {
                let role = if kind == "RoleBinding" && self.dice.one_in(2) { "Role" } else { "ClusterRole" };
                let mut subjects = vec![
                    json!({"kind": "ServiceAccount", "name": other, "namespace": self.dice.pick(&["one", "two", "default"])}),
                ];
                if self.dice.one_in(2) {
                    subjects.push(json!({"kind": "ServiceAccount", "name": "default", "namespace": "one"}));
                }
                if self.dice.one_in(3) {
                    subjects.push(json!({"kind": "User", "name": name}));
                }
                json!({"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role, "name": name}, "subjects": subjects})
            }
            "StorageClass" => json!({"provisioner": "x", "parameters": {"secretName": name}}),
            "PriorityClass" => json!({"value": 10}),
            "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration" => {
                let service =
                    json!({"name": name, "namespace": self.dice.pick(&["one", "default"]), "path": "/x"});
                json!({"webhooks": [{"name": "a.b.c", "clientConfig": {"service": service}}]})
            }
            "APIService" => {
                json!({"spec": {"group": "g", "version": "v1", "service": {"name": name, "namespace": "one"}}})
            }
            "CustomResourceDefinition" => {
                let mut crd = json!({"spec": {"group": "example.com", "names": {"kind": "Foo", "plural": "foos"}, "scope": "Namespaced"}});
                if self.dice.one_in(2) {
                    let service = json!({"name": name, "namespace": "one"});
                    crd["spec"]["conversion"] =
                        json!({"strategy": "Webhook", "webhook": {"clientConfig": {"service": service}}});
                }
                crd
            }
            "IngressClass" => json!({"spec": {"controller": "x/y"}}),
            "Foo" => json!({"spec": {
                "list": [{"name": "a", "v": 1}, {"name": "b"}],
                "configMapRef": {"name": name},
                "deep": {"containers": [{"name": "c1", "image": self.dice.pick(IMAGES)}]},
                "big": 12345678901_i64, "half": 0.5,
            }}),
            _ => json!({}),
        }
    }

    pub(super) fn ports(&mut self, key: &str) -> Value {
        let numbers = self.dice.some(&["80", "81", "82"], 2);
        let ports: Vec<Value> = numbers
            .into_iter()
            .map(|number| {
                let mut port = Map::new();
                port.insert(key.to_owned(), json!(number.parse::<u16>().unwrap_or(80)));
                if self.dice.one_in(2) {
                    port.insert("protocol".to_owned(), json!(self.dice.pick(&["TCP", "UDP"])));
                }
                if self.dice.one_in(2) {
                    port.insert("name".to_owned(), json!(format!("p{number}")));
                }
                Value::Object(port)
            })
            .collect();
        json!(ports)
    }

    pub(super) fn container(&mut self, name: &str) -> Value {
        let mut container = json!({"name": name, "image": self.dice.pick(IMAGES)});
        if self.dice.one_in(2) {
            let mut env = Vec::new();
            for name in self.dice.some(&["A", "B", "C"], 2) {
                env.push(match self.dice.below(3) {
                    0 => json!({"name": name, "valueFrom": {"configMapKeyRef": {"name": self.dice.name(), "key": "k"}}}),
                    1 => json!({"name": name, "valueFrom": {"secretKeyRef": {"name": self.dice.name(), "key": "k"}}}),
                    _ => json!({"name": name, "value": self.dice.pick(VALUES)}),
                });
            }
            container["env"] = json!(env);
        }
        if self.dice.one_in(3) {
            let kind = self.dice.pick(&["configMapRef", "secretRef"]);
            container["envFrom"] = json!([{kind: {"name": self.dice.name()}}]);
        }
        if self.dice.one_in(3) {
            container["ports"] = self.ports("containerPort");
        }
        if self.dice.one_in(4) {
            container["args"] = json!(["--a", "b"]);
        }
        if self.dice.one_in(4) {
            container["volumeMounts"] =
                json!([{"name": "v1", "mountPath": "/a"}, {"name": "v2", "mountPath": "/b"}]);
        }
        container
    }

    pub(super) fn volumes(&mut self) -> Value {
        let mut volumes = Vec::new();
        for name in self.dice.some(&["v1", "v2", "v3"], 2) {
            let target = self.dice.name();
            volumes.push(match self.dice.below(5) {
                0 => json!({"name": name, "configMap": {"name": target}}),
                1 => json!({"name": name, "secret": {"secretName": target}}),
                2 => json!({"name": name, "persistentVolumeClaim": {"claimName": target}}),
                3 => json!({"name": name, "projected": {"sources": [{"configMap": {"name": target}}, {"secret": {"name": target}}]}}),
                _ => json!({"name": name, "emptyDir": {}}),
            });
        }
        json!(volumes)
    }

    pub(super) fn pod(&mut self) -> Value {
        let count = 1 + self.dice.below(3);
        let containers: Vec<Value> = CONTAINERS.iter().take(count).map(|name| self.container(name)).collect();
        let mut pod = json!({"containers": containers});
        if self.dice.one_in(4) {
            pod["initContainers"] = json!([self.container("init")]);
        }
        if self.dice.one_in(8) {
            pod["ephemeralContainers"] = json!([{"name": "debug", "image": "nginx:1.0"}]);
        }
        if self.dice.one_in(2) {
            pod["volumes"] = self.volumes();
        }
        for field in self.dice.some(&["serviceAccountName", "priorityClassName", "hostname"], 3) {
            pod[field] = json!(self.dice.name());
        }
        if self.dice.one_in(4) {
            pod["imagePullSecrets"] = json!([{"name": self.dice.name()}]);
        }
        if self.dice.one_in(5) {
            pod["nodeSelector"] = json!({"disk": "ssd"});
            pod["tolerations"] = json!([{"key": "a", "operator": "Exists"}]);
        }
        if self.dice.one_in(5) {
            let selector = json!({"matchLabels": {"app": "x"}});
            pod["topologySpreadConstraints"] = json!([{"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}]);
            pod["affinity"] = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "h", "labelSelector": selector}]}});
        }
        pod
    }
}
