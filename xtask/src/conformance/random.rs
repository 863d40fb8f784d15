//! Kustomizations made up from a number: the same number gives the same files.

use serde_json::{Map, Value, json};

/// One made-up kustomization: paths below its root and what is in them.
pub type Files = Vec<(String, String)>;

/// A sequence of numbers that looks like chance.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % limit.max(1) as u64) as usize
    }

    fn one_in(&mut self, odds: usize) -> bool {
        self.below(odds) == 0
    }

    fn pick<'t, T: ?Sized>(&mut self, from: &[&'t T]) -> &'t T {
        from[self.below(from.len())]
    }

    /// As many different ones as chance has it, in order.
    fn some<'t>(&mut self, from: &[&'t str], odds: usize) -> Vec<&'t str> {
        from.iter().copied().filter(|_| self.one_in(odds)).collect()
    }

    fn name(&mut self) -> &'static str {
        self.pick(NAMES)
    }
}

const NAMES: &[&str] = &["app", "web", "db", "cfg", "x.y"];
const IMAGES: &[&str] =
    &["nginx", "nginx:1.0", "reg.io:5000/a/b:1", "nginx@sha256:00", "busybox:1.36", "a/b"];
const CONTAINERS: &[&str] = &["c1", "c2", "c3"];
const LABELS: &[&str] = &["app", "tier", "team", "a.b/c"];
const VALUES: &[&str] = &["x", "yes", "1", "true", "a b", "2020-01-01", "é", "null", "1e3", "#x", "a: b"];

/// An object by what it is called when it is read.
#[derive(Clone)]
struct Named {
    api: &'static str,
    kind: &'static str,
    namespace: Option<&'static str>,
    name: &'static str,
}

const KINDS: &[(&str, &str)] = &[
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
];

const CLUSTER: &[&str] = &[
    "PersistentVolume",
    "Namespace",
    "IngressClass",
    "ClusterRole",
    "ClusterRoleBinding",
    "StorageClass",
    "PriorityClass",
    "ValidatingWebhookConfiguration",
    "APIService",
    "CustomResourceDefinition",
];

const WORKLOADS: &[&str] = &["Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job", "CronJob", "Pod"];

/// Makes up a kustomization.
pub fn kustomization(seed: u64) -> Files {
    let mut made = Maker { dice: Dice(seed.wrapping_mul(0x2545_f491_4f6c_dd1d)), files: Vec::new() };
    let mut known = Vec::new();
    let mut resources = Vec::new();
    let bases = 1 + usize::from(made.dice.one_in(3));
    for base in 0..bases {
        let directory = format!("base{base}");
        let objects = made.base(&directory, base);
        known.extend(objects);
        if made.dice.one_in(4) {
            let over = format!("over{base}");
            made.overlay(&over, &[format!("../{directory}")], &known, "Kustomization");
            resources.push(over);
        } else {
            resources.push(directory);
        }
    }
    let mut components = Vec::new();
    if made.dice.one_in(4) {
        made.overlay("part", &[], &known, "Component");
        components.push("part".to_owned());
    }
    let mut top = made.fields("", &known);
    top.insert("resources".to_owned(), json!(resources));
    if !components.is_empty() {
        top.insert("components".to_owned(), json!(components));
    }
    if made.dice.one_in(4) {
        let order = if made.dice.one_in(2) {
            json!({"order": "fifo"})
        } else {
            json!({"order": "legacy", "legacySortOptions": {"orderFirst": ["Service", "ConfigMap"], "orderLast": ["Deployment"]}})
        };
        top.insert("sortOptions".to_owned(), order);
    }
    if made.dice.one_in(6) {
        let all = ["originAnnotations", "managedByLabel", "transformerAnnotations"];
        let some = made.dice.some(&all, 2);
        top.insert("buildMetadata".to_owned(), json!(some));
    }
    made.write("kustomization.yaml", &Value::Object(top));
    made.files
}

struct Maker {
    dice: Dice,
    files: Files,
}

impl Maker {
    fn write(&mut self, path: &str, value: &Value) {
        let text = if self.dice.one_in(4) { value.to_string() } else { yaml(value) };
        self.files.push((path.to_owned(), text));
    }

    fn base(&mut self, directory: &str, number: usize) -> Vec<Named> {
        let mut objects: Vec<Named> = Vec::new();
        let count = 2 + self.dice.below(7);
        for _ in 0..count {
            let (api, kind) = KINDS[self.dice.below(KINDS.len())];
            let cluster = CLUSTER.contains(&kind);
            let namespace = if cluster || !self.dice.one_in(4) {
                None
            } else {
                Some(self.dice.pick(&["one", "two", "default"]))
            };
            let name = self.dice.name();
            let twice = |known: &Named| {
                let place = |namespace: Option<&'static str>| namespace.unwrap_or("default");
                known.kind == kind && known.name == name && place(known.namespace) == place(namespace)
            };
            if !objects.iter().any(twice) {
                objects.push(Named { api, kind, namespace, name });
            }
        }
        let values: Vec<Value> = objects.iter().map(|object| self.object(object)).collect();
        let mut names = Vec::new();
        if self.dice.one_in(3) {
            let text: Vec<String> = values.iter().map(yaml).collect();
            self.files.push((format!("{directory}/all.yaml"), text.join("---\n")));
            names.push("all.yaml".to_owned());
        } else if self.dice.one_in(6) {
            self.write(
                &format!("{directory}/list.yaml"),
                &json!({"apiVersion": "v1", "kind": "List", "items": values}),
            );
            names.push("list.yaml".to_owned());
        } else {
            for (at, value) in values.iter().enumerate() {
                names.push(format!("o{at}.yaml"));
                self.write(&format!("{directory}/o{at}.yaml"), value);
            }
        }
        let mut fields = if self.dice.one_in(3) { self.fields(directory, &objects) } else { Map::new() };
        if number > 0 && !fields.contains_key("namePrefix") {
            fields.insert("namePrefix".to_owned(), json!("second-"));
        }
        fields.insert("resources".to_owned(), json!(names));
        self.write(&format!("{directory}/kustomization.yaml"), &Value::Object(fields));
        objects
    }

    fn overlay(&mut self, directory: &str, resources: &[String], known: &[Named], kind: &str) {
        let mut fields = self.fields(directory, known);
        fields.insert("resources".to_owned(), json!(resources));
        if kind == "Component" {
            fields.insert("apiVersion".to_owned(), json!("kustomize.config.k8s.io/v1alpha1"));
            fields.insert("kind".to_owned(), json!(kind));
        }
        self.write(&format!("{directory}/kustomization.yaml"), &Value::Object(fields));
    }

    fn labels(&mut self) -> Value {
        let keys = self.dice.some(LABELS, 2);
        let pairs: Map<String, Value> =
            keys.into_iter().map(|key| (key.to_owned(), json!(self.dice.pick(VALUES)))).collect();
        Value::Object(pairs)
    }

    fn object(&mut self, named: &Named) -> Value {
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
        if self.dice.one_in(60) {
            metadata.insert("annotations".to_owned(), json!({"config.kubernetes.io/local-config": "true"}));
        }
        let mut object = json!({"apiVersion": named.api, "kind": named.kind, "metadata": metadata});
        let body = self.body(named.kind);
        if let (Value::Object(object), Value::Object(body)) = (&mut object, body) {
            object.extend(body);
        }
        object
    }

    fn body(&mut self, kind: &str) -> Value {
        let name = self.dice.name();
        let other = self.dice.name();
        match kind {
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
                let text = self.dice.pick(&["v", "host:80/path", "a\nb\n", "8080", "a b  \nc", "\ttab"]);
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
            "ValidatingWebhookConfiguration" => {
                let service =
                    json!({"name": name, "namespace": self.dice.pick(&["one", "default"]), "path": "/x"});
                json!({"webhooks": [{"name": "a.b.c", "clientConfig": {"service": service}}]})
            }
            "APIService" => {
                json!({"spec": {"group": "g", "version": "v1", "service": {"name": name, "namespace": "one"}}})
            }
            "CustomResourceDefinition" => {
                json!({"spec": {"group": "example.com", "names": {"kind": "Foo", "plural": "foos"}, "scope": "Namespaced"}})
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

    fn ports(&mut self, key: &str) -> Value {
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

    fn container(&mut self, name: &str) -> Value {
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

    fn volumes(&mut self) -> Value {
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

    fn pod(&mut self) -> Value {
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

    /// The fields of a kustomization that change what `known` describes.
    fn fields(&mut self, directory: &str, known: &[Named]) -> Map<String, Value> {
        let mut fields = Map::new();
        let mut set = |name: &str, value: Value| {
            fields.insert(name.to_owned(), value);
        };
        let below =
            |name: &str| if directory.is_empty() { name.to_owned() } else { format!("{directory}/{name}") };
        if self.dice.one_in(4) {
            set("namespace", json!(self.dice.pick(&["new", "one"])));
        }
        if self.dice.one_in(3) {
            set("namePrefix", json!(self.dice.pick(&["p-", "q-"])));
        }
        if self.dice.one_in(4) {
            set("nameSuffix", json!("-s"));
        }
        if self.dice.one_in(4) {
            let mut labels = Vec::new();
            for _ in 0..=self.dice.below(2) {
                let mut entry = json!({"pairs": self.labels()});
                match self.dice.below(4) {
                    0 => entry["includeSelectors"] = json!(true),
                    1 => entry["includeTemplates"] = json!(true),
                    2 => {
                        entry["fields"] = json!([{"path": "spec/extra/labels", "kind": "Foo", "create": self.dice.one_in(2)}]);
                    }
                    _ => {}
                }
                labels.push(entry);
            }
            set("labels", json!(labels));
        }
        if self.dice.one_in(8) {
            let labels = self.labels();
            set("commonLabels", labels);
        }
        if self.dice.one_in(5) {
            let labels = self.labels();
            set("commonAnnotations", labels);
        }
        if self.dice.one_in(3) {
            let mut images = Vec::new();
            for _ in 0..=self.dice.below(2) {
                let mut image =
                    json!({"name": self.dice.pick(&["nginx", "reg.io:5000/a/b", "busybox", "a/b", "ngin."])});
                for (field, value) in
                    [("newTag", "2"), ("newName", "other/img"), ("digest", "sha256:ff"), ("tagSuffix", "-x")]
                {
                    if self.dice.one_in(if field == "tagSuffix" { 8 } else { 2 }) {
                        image[field] = json!(value);
                    }
                }
                images.push(image);
            }
            set("images", json!(images));
        }
        let scaled: Vec<&Named> = known
            .iter()
            .filter(|named| matches!(named.kind, "Deployment" | "StatefulSet" | "ReplicaSet"))
            .collect();
        if !scaled.is_empty() && self.dice.one_in(5) {
            let named = self.dice.pick(&scaled);
            set("replicas", json!([{"name": named.name, "count": 7}]));
        }
        self.generators(directory, known, &mut set);
        if self.dice.one_in(2) && !known.is_empty() {
            let count = 1 + self.dice.below(3);
            let mut patches = Vec::new();
            for number in 0..count {
                patches.push(self.patch(directory, number, known));
            }
            set("patches", json!(patches));
        }
        if self.dice.one_in(12) && !known.is_empty() {
            let all: Vec<&Named> = known.iter().collect();
            let named = self.dice.pick(&all);
            let patch = self.strategic(named);
            if self.dice.one_in(2) {
                set("patchesStrategicMerge", json!([yaml(&patch)]));
            } else {
                self.write(&below("smp.yaml"), &patch);
                set("patchesStrategicMerge", json!(["smp.yaml"]));
            }
        }
        if self.dice.one_in(12) && !known.is_empty() {
            let all: Vec<&Named> = known.iter().collect();
            let named = self.dice.pick(&all);
            let (group, version) = named.api.split_once('/').unwrap_or(("", named.api));
            let operations = self.operations(named);
            set(
                "patchesJson6902",
                json!([{"target": {"group": group, "version": version, "kind": named.kind, "name": named.name}, "patch": yaml(&operations)}]),
            );
        }
        if self.dice.one_in(4) && !known.is_empty() {
            let replacements = self.replacements(known);
            if self.dice.one_in(4) {
                self.write(&below("replacements.yaml"), &replacements);
                set("replacements", json!([{"path": "replacements.yaml"}]));
            } else {
                set("replacements", replacements);
            }
        }
        if self.dice.one_in(6) {
            let text = json!({
                "nameReference": [{"kind": "ConfigMap", "version": "v1", "fieldSpecs": [{"path": "spec/configMapRef/name", "kind": "Foo"}]}],
                "images": [{"path": "spec/deep/containers/image", "kind": "Foo"}],
                "commonLabels": [{"path": "spec/list/labels", "kind": "Foo", "create": true}],
                "namespace": [{"path": "spec/namespace", "kind": "Foo", "create": true}],
                "namePrefix": [{"path": "spec/configMapRef/name", "kind": "Foo"}],
                "replicas": [{"path": "spec/size", "kind": "Foo", "create": true}],
                "commonAnnotations": [{"path": "spec/notes", "kind": "Foo", "create": true}],
            });
            let some: Map<String, Value> = match text {
                Value::Object(text) => text.into_iter().filter(|_| self.dice.one_in(2)).collect(),
                _ => Map::new(),
            };
            self.write(&below("configuration.yaml"), &Value::Object(some));
            set("configurations", json!(["configuration.yaml"]));
        }
        if self.dice.one_in(10) {
            let hint = json!({
                "x-kubernetes-object-ref-api-version": "v1",
                "x-kubernetes-object-ref-kind": self.dice.pick(&["ConfigMap", "Secret"]),
            });
            let spec = json!({"Schema": {"properties": {"configMapRef": hint}}});
            let odd = json!({"Schema": {"properties": {
                "apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"},
                "spec": {"$ref": "example.com/v1.FooSpec"},
            }}});
            let text = json!({"example.com/v1.Foo": odd, "example.com/v1.FooSpec": spec});
            self.files.push((below("crd.json"), text.to_string()));
            set("crds", json!(["crd.json"]));
        }
        fields
    }

    fn generators(&mut self, directory: &str, known: &[Named], set: &mut dyn FnMut(&str, Value)) {
        for (field, kind) in [("configMapGenerator", "ConfigMap"), ("secretGenerator", "Secret")] {
            if !self.dice.one_in(4) {
                continue;
            }
            let name = self.dice.pick(&["app", "web", "gen", "cfg"]);
            let exists = known.iter().any(|named| named.kind == kind && named.name == name);
            let mut entry = json!({"name": name, "literals": ["a=1", "b=\"q\"", "k=<&>"]});
            if exists {
                entry["behavior"] = json!(self.dice.pick(&["merge", "replace"]));
                if let Some(named) = known.iter().find(|named| named.kind == kind && named.name == name)
                    && let Some(namespace) = named.namespace
                {
                    entry["namespace"] = json!(namespace);
                }
            }
            if self.dice.one_in(3) {
                let path = format!("{kind}.env");
                let place = if directory.is_empty() { path.clone() } else { format!("{directory}/{path}") };
                self.files.push((place, "# note\nE1=v1\n  E2=\"two\"\n\nE3=\n".to_owned()));
                entry["envs"] = json!([path]);
            }
            if self.dice.one_in(3) {
                let path = format!("{kind}.txt");
                let place = if directory.is_empty() { path.clone() } else { format!("{directory}/{path}") };
                let text = self.dice.pick(&["one\ntwo\n", "no end", "tab\there\n", "trailing  \nx\n"]);
                self.files.push((place, text.to_owned()));
                entry["files"] =
                    if self.dice.one_in(2) { json!([path]) } else { json!([format!("other={path}")]) };
            }
            if self.dice.one_in(3) {
                entry["options"] = json!({"disableNameSuffixHash": self.dice.one_in(2), "labels": self.labels(), "immutable": self.dice.one_in(3)});
            }
            if kind == "Secret" && self.dice.one_in(3) {
                entry["type"] = json!("kubernetes.io/tls");
            }
            set(field, json!([entry]));
        }
        if self.dice.one_in(8) {
            let options = json!({"labels": self.labels(), "annotations": self.labels(), "disableNameSuffixHash": self.dice.one_in(3)});
            set("generatorOptions", options);
        }
    }

    fn target(&mut self, named: &Named) -> Value {
        let mut target = Map::new();
        target.insert("kind".to_owned(), json!(named.kind));
        match self.dice.below(6) {
            0 => {
                target.insert("name".to_owned(), json!(named.name));
            }
            1 => {
                target.insert("name".to_owned(), json!(".*"));
            }
            2 => {
                target.insert(
                    "labelSelector".to_owned(),
                    json!(self.dice.pick(&["app", "!tier", "app in (x,yes)", "team!=x"])),
                );
            }
            3 => {
                target.insert(
                    "annotationSelector".to_owned(),
                    json!(self.dice.pick(&["app", "!tier", "tier=x"])),
                );
            }
            4 => {
                target.insert("namespace".to_owned(), json!(self.dice.pick(&["one", "default", "t.*"])));
            }
            _ => {
                let (group, version) = named.api.split_once('/').unwrap_or(("", named.api));
                if !group.is_empty() {
                    target.insert("group".to_owned(), json!(group));
                }
                target.insert("version".to_owned(), json!(version));
            }
        }
        Value::Object(target)
    }

    fn patch(&mut self, directory: &str, number: usize, known: &[Named]) -> Value {
        let all: Vec<&Named> = known.iter().collect();
        let named = self.dice.pick(&all);
        let json_patch = self.dice.one_in(3);
        let targeted = json_patch || self.dice.one_in(2);
        let body = if json_patch { self.operations(named) } else { self.strategic(named) };
        let mut patch = if self.dice.one_in(2) {
            json!({"patch": yaml(&body)})
        } else {
            let path = format!("patch{number}.yaml");
            let place = if directory.is_empty() { path.clone() } else { format!("{directory}/{path}") };
            self.write(&place, &body);
            json!({"path": path})
        };
        if targeted {
            patch["target"] = self.target(named);
        }
        if !json_patch && self.dice.one_in(10) {
            patch["options"] =
                json!({"allowNameChange": self.dice.one_in(2), "allowKindChange": self.dice.one_in(2)});
        }
        patch
    }

    /// A partial object for one of `named`'s kind.
    fn strategic(&mut self, named: &Named) -> Value {
        let mut metadata = Map::new();
        metadata.insert("name".to_owned(), json!(named.name));
        if let Some(namespace) = named.namespace {
            metadata.insert("namespace".to_owned(), json!(namespace));
        }
        for field in ["labels", "annotations"] {
            if self.dice.one_in(4) {
                let mut labels = self.labels();
                if self.dice.one_in(4) {
                    labels["tier"] = Value::Null;
                }
                metadata.insert(field.to_owned(), labels);
            }
        }
        let mut patch = json!({"apiVersion": named.api, "kind": named.kind, "metadata": metadata});
        if self.dice.one_in(20) {
            patch["$patch"] = json!("delete");
            return patch;
        }
        if WORKLOADS.contains(&named.kind) {
            let mut pod = Map::new();
            if self.dice.one_in(2) {
                let mut containers = Vec::new();
                for name in self.dice.some(&["c1", "c2", "c3", "new"], 2) {
                    let mut container = self.container(name);
                    match self.dice.below(8) {
                        0 => container = json!({"name": name, "$patch": "delete"}),
                        1 => container["image"] = Value::Null,
                        2 => container = json!({"name": name, "args": ["z"]}),
                        3 => container["$patch"] = json!("replace"),
                        _ => {}
                    }
                    containers.push(container);
                }
                if self.dice.one_in(10) {
                    containers.insert(0, json!({"$patch": "replace"}));
                }
                pod.insert("containers".to_owned(), json!(containers));
            }
            if self.dice.one_in(3) {
                let volumes = self.volumes();
                pod.insert("volumes".to_owned(), volumes);
            }
            if self.dice.one_in(4) {
                pod.insert(
                    "nodeSelector".to_owned(),
                    self.dice
                        .pick(&[
                            &json!({"disk": null, "zone": "a"}),
                            &json!({"$patch": "replace", "a": "b"}),
                            &json!(null),
                            &json!({}),
                        ])
                        .clone(),
                );
            }
            if self.dice.one_in(5) {
                pod.insert("tolerations".to_owned(), json!([{"key": "b"}]));
            }
            if self.dice.one_in(5) {
                pod.insert("imagePullSecrets".to_owned(), json!([{"name": self.dice.name()}]));
            }
            let pod = Value::Object(pod);
            patch["spec"] = match named.kind {
                "Pod" => pod,
                "CronJob" => json!({"jobTemplate": {"spec": {"template": {"spec": pod}}}}),
                _ => json!({"template": {"spec": pod}}),
            };
            if named.kind == "Deployment" && self.dice.one_in(3) {
                patch["spec"]["replicas"] = json!(9);
                patch["spec"]["strategy"] = self
                    .dice
                    .pick(&[&json!({"type": "Recreate"}), &json!(null), &json!({"rollingUpdate": null})])
                    .clone();
            }
            return patch;
        }
        match named.kind {
            "ConfigMap" => patch["data"] = json!({"k": self.dice.pick(VALUES), "n": null, "new": "x"}),
            "Service" => patch["spec"] = json!({"type": "NodePort", "ports": self.ports("port")}),
            "Foo" => patch["spec"] = json!({"list": [{"name": "b", "v": 2}], "half": null, "more": {"z": 1}}),
            "Ingress" => patch["spec"] = json!({"tls": [{"secretName": self.dice.name()}]}),
            "ServiceAccount" => patch["imagePullSecrets"] = json!([{"name": self.dice.name()}]),
            "Role" | "ClusterRole" => {
                patch["rules"] =
                    json!([{"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get"]}])
            }
            _ => {}
        }
        patch
    }

    fn operations(&mut self, named: &Named) -> Value {
        let mut operations = vec![match self.dice.below(4) {
            0 => json!({"op": "add", "path": "/metadata/annotations/x", "value": "y"}),
            1 => json!({"op": "add", "path": "/metadata/labels", "value": {"l": "m", "a.b/c": "d"}}),
            2 => json!({"op": "test", "path": "/kind", "value": named.kind}),
            _ => json!({"op": "copy", "from": "/metadata/name", "path": "/metadata/annotations/was~1x"}),
        }];
        let pod = match named.kind {
            "Pod" => Some("/spec"),
            "CronJob" => Some("/spec/jobTemplate/spec/template/spec"),
            kind if WORKLOADS.contains(&kind) => Some("/spec/template/spec"),
            _ => None,
        };
        if let Some(pod) = pod {
            operations.push(match self.dice.below(5) {
                0 => json!({"op": "add", "path": format!("{pod}/containers/-"), "value": {"name": "more", "image": "nginx"}}),
                1 => json!({"op": "replace", "path": format!("{pod}/containers/0/image"), "value": "nginx:9"}),
                2 => json!({"op": "remove", "path": format!("{pod}/containers/0/image")}),
                3 => json!({"op": "move", "from": format!("{pod}/containers/0/image"), "path": format!("{pod}/hostname")}),
                _ => json!({"op": "add", "path": format!("{pod}/containers/0/env"), "value": [{"name": "Z", "value": "1"}]}),
            });
        }
        if self.dice.one_in(8) {
            operations.push(json!({"op": "replace", "path": "/metadata/name", "value": "renamed"}));
        }
        if self.dice.one_in(20) {
            operations.push(json!({"op": "remove", "path": "/metadata/nothing"}));
        }
        json!(operations)
    }

    fn replacements(&mut self, known: &[Named]) -> Value {
        let all: Vec<&Named> = known.iter().collect();
        let mut list = Vec::new();
        for _ in 0..=self.dice.below(2) {
            let from = self.dice.pick(&all);
            let mut source = json!({"kind": from.kind, "name": from.name});
            if let Some(namespace) = from.namespace
                && self.dice.one_in(2)
            {
                source["namespace"] = json!(namespace);
            }
            match from.kind {
                "ConfigMap" => {
                    source["fieldPath"] =
                        json!(self.dice.pick(&["data.k", "data.n", "data.flag", "metadata.name"]));
                    if self.dice.one_in(3) {
                        source["options"] =
                            json!({"delimiter": self.dice.pick(&[":", "/"]), "index": self.dice.below(2)});
                    }
                }
                "Deployment" | "StatefulSet" => {
                    source["fieldPath"] = json!(self.dice.pick(&[
                        "spec.template.spec.containers.0.image",
                        "spec.template.spec.containers.[name=c1].image",
                        "spec.template.metadata.labels",
                        "spec.selector.matchLabels.app",
                    ]));
                }
                "Foo" => {
                    source["fieldPath"] =
                        json!(self.dice.pick(&["spec.half", "spec.big", "spec.list", "spec.list.[name=a].v"]))
                }
                _ => {}
            }
            let mut targets = Vec::new();
            for _ in 0..=self.dice.below(2) {
                let to = self.dice.pick(&all);
                let mut target = json!({"select": {"kind": to.kind}});
                if self.dice.one_in(2) {
                    target["select"]["name"] = json!(to.name);
                }
                if self.dice.one_in(5) {
                    target["reject"] = json!([{"name": self.dice.name()}]);
                }
                let mut options = Map::new();
                let path = match to.kind {
                    "Deployment" | "StatefulSet" if self.dice.one_in(2) => self.dice.pick(&[
                        "spec.template.spec.containers.*.image",
                        "spec.template.spec.containers.[name=c1].image",
                        "spec.template.spec.containers.0.name",
                        "spec.template.spec.containers.[name=c.].image",
                        "spec.template.spec.hostname",
                    ]),
                    "ConfigMap" if self.dice.one_in(2) => self.dice.pick(&["data.k", "data.*", "data.fresh"]),
                    "Foo" if self.dice.one_in(2) => self.dice.pick(&[
                        "spec.big",
                        "spec.half",
                        "spec.list.[name=b].v",
                        "spec.list.-.name",
                        "spec.made.[a=b].deep",
                        "spec.list.1",
                    ]),
                    _ => self.dice.pick(&[
                        "metadata.annotations.from",
                        "metadata.annotations.[a.b/c]",
                        "metadata.labels.app",
                        "metadata.annotations.a\\.b/c",
                    ]),
                };
                target["fieldPaths"] = json!([path]);
                if !self.dice.one_in(3) {
                    options.insert("create".to_owned(), json!(true));
                }
                if self.dice.one_in(4) {
                    options.insert("delimiter".to_owned(), json!(self.dice.pick(&[":", "/", "-"])));
                    options.insert("index".to_owned(), json!(self.dice.below(4) as i64 - 1));
                }
                if !options.is_empty() {
                    target["options"] = Value::Object(options);
                }
                targets.push(target);
            }
            list.push(json!({"source": source, "targets": targets}));
        }
        json!(list)
    }
}

/// A value as block YAML; anything that is not plainly a word is quoted.
fn yaml(value: &Value) -> String {
    let mut out = String::new();
    block(value, 0, &mut out);
    if !out.ends_with('\n') {
        out.push('\n');
    }
    out
}

fn block(value: &Value, indent: usize, out: &mut String) {
    let pad = " ".repeat(indent);
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (key, value) in map {
                out.push_str(&format!("{pad}{}:", scalar(&Value::String(key.clone()))));
                below(value, indent, out);
            }
        }
        Value::Array(list) if !list.is_empty() => {
            for value in list {
                out.push_str(&format!("{pad}-"));
                let nested = matches!(value, Value::Object(map) if !map.is_empty());
                if nested {
                    let mut inner = String::new();
                    block(value, indent + 2, &mut inner);
                    out.push(' ');
                    out.push_str(inner.trim_start());
                } else {
                    below(value, indent + 1, out);
                }
            }
        }
        other => out.push_str(&format!("{pad}{}\n", scalar(other))),
    }
}

/// What stands after a key or a dash.
fn below(value: &Value, indent: usize, out: &mut String) {
    let filled = match value {
        Value::Object(map) => !map.is_empty(),
        Value::Array(list) => !list.is_empty(),
        _ => false,
    };
    if filled {
        out.push('\n');
        block(value, indent + 2, out);
    } else {
        out.push_str(&format!(" {}\n", scalar(value)));
    }
}

fn scalar(value: &Value) -> String {
    let Value::String(text) = value else { return value.to_string() };
    let plain = text.chars().all(|letter| letter.is_ascii_lowercase() || ".-/".contains(letter))
        && text.starts_with(|letter: char| letter.is_ascii_lowercase())
        && !matches!(text.as_str(), "yes" | "no" | "on" | "off" | "y" | "n" | "true" | "false" | "null");
    if plain { text.clone() } else { value.to_string() }
}
