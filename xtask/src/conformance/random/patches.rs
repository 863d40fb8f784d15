//! Patches in every form.

use serde_json::{Map, Value, json};

use super::Maker;
use super::objects::{Named, VALUES, WORKLOADS};
use super::text::yaml;

impl Maker {
    pub(super) fn target(&mut self, named: &Named) -> Value {
        let mut target = Map::new();
        match self.dice.below(12) {
            0 => {
                target.insert(
                    "kind".to_owned(),
                    json!(self.dice.pick(&["Deploy.*|Service", ".*Set", "(Config|Se).*", "[A-D].*"])),
                );
            }
            1 => {}
            _ => {
                target.insert("kind".to_owned(), json!(named.kind));
            }
        }
        if self.dice.one_in(8) {
            target.insert(
                "name".to_owned(),
                json!(self.dice.pick(&["app|web", "(p-)?app", "[a-d].*", "x.y", "^app$", "w"])),
            );
        }
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
                    json!(self.dice.pick(&[
                        "app",
                        "!tier",
                        "app in (x,yes)",
                        "team!=x",
                        "app=x,tier",
                        "app notin (x)",
                        "a.b/c",
                        "app==x",
                        "",
                    ])),
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

    pub(super) fn patch(&mut self, directory: &str, number: usize, known: &[Named]) -> Value {
        let all: Vec<&Named> = known.iter().collect();
        let named = self.dice.pick(&all);
        let json_patch = self.dice.one_in(3);
        let targeted = json_patch || self.dice.one_in(2);
        let body = if json_patch { self.operations(named) } else { self.strategic(named) };
        let mut patch = if !targeted && self.dice.one_in(5) {
            let other = self.dice.pick(&all);
            let more = self.strategic(other);
            json!({"patch": format!("{}---\n{}", yaml(&body), yaml(&more))})
        } else if self.dice.one_in(2) {
            json!({"patch": if self.dice.one_in(5) { body.to_string() } else { yaml(&body) }})
        } else {
            let path = format!("patch{number}.yaml");
            let place = if directory.is_empty() { path.clone() } else { format!("{directory}/{path}") };
            self.write(&place, &body);
            json!({"path": path})
        };
        if targeted {
            patch["target"] = self.target(named);
        }
        // A kind that really changes is for the recorded cases: what is left of the old one is nonsense.
        let fits = patch.get("target").is_none_or(|target| target["kind"] == named.kind);
        if !json_patch && fits && self.dice.one_in(10) {
            patch["options"] =
                json!({"allowNameChange": self.dice.one_in(2), "allowKindChange": self.dice.one_in(2)});
        }
        patch
    }

    /// A partial object for one of `named`'s kind.
    pub(super) fn strategic(&mut self, named: &Named) -> Value {
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
            patch["$patch"] = json!(self.dice.pick(&["delete", "delete", "replace", "merge"]));
            if self.dice.one_in(2) {
                return patch;
            }
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
            "ServiceAccount" => {
                patch["imagePullSecrets"] = json!([{"name": self.dice.name()}]);
                if self.dice.one_in(2) {
                    patch["secrets"] = json!([{"name": self.dice.name()}, {"name": "more"}]);
                }
            }
            "Secret" => patch["data"] = json!({"q": null, "r": "eA=="}),
            "PodDisruptionBudget" => patch["spec"] = json!({"minAvailable": null, "maxUnavailable": "50%"}),
            "HorizontalPodAutoscaler" => {
                patch["spec"] =
                    json!({"maxReplicas": 5, "metrics": [{"type": "Resource", "resource": {"name": "cpu"}}]})
            }
            "NetworkPolicy" => patch["spec"] = json!({"policyTypes": ["Ingress"], "ingress": [{}]}),
            "RoleBinding" | "ClusterRoleBinding" => {
                patch["subjects"] =
                    json!([{"kind": "Group", "name": "g", "apiGroup": "rbac.authorization.k8s.io"}])
            }
            "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration" => {
                patch["webhooks"] =
                    json!([{"name": self.dice.pick(&["a.b.c", "d.e.f"]), "failurePolicy": "Fail"}])
            }
            "PersistentVolumeClaim" => patch["spec"] = json!({"accessModes": ["ReadWriteOnce"]}),
            "Namespace" => patch["spec"] = json!({"finalizers": ["kubernetes"]}),
            "CustomResourceDefinition" => {
                patch["spec"] =
                    json!({"versions": [{"name": "v1", "served": true, "storage": true}], "scope": "Cluster"})
            }
            "ReplicationController" => patch["spec"] = json!({"replicas": null, "selector": {"app": "z"}}),
            "Role" | "ClusterRole" => {
                patch["rules"] =
                    json!([{"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get"]}])
            }
            _ => {}
        }
        patch
    }

    pub(super) fn operations(&mut self, named: &Named) -> Value {
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
        if named.kind == "ConfigMap" && self.dice.one_in(2) {
            operations.push(
                self.dice
                    .pick(&[
                        &json!({"op": "add", "path": "/data/a.b", "value": "1"}),
                        &json!({"op": "replace", "path": "/data/k", "value": "on\ntwo"}),
                        &json!({"op": "remove", "path": "/data/n"}),
                        &json!({"op": "move", "from": "/data/k", "path": "/data/kk"}),
                        &json!({"op": "test", "path": "/data/flag", "value": "true"}),
                        &json!({"op": "add", "path": "/binaryData", "value": {"b": "AA=="}}),
                    ])
                    .clone(),
            );
        }
        if named.kind == "Foo" {
            operations.push(
                self.dice
                    .pick(&[
                        &json!({"op": "add", "path": "/spec/list/0", "value": {"name": "first"}}),
                        &json!({"op": "add", "path": "/spec/list/-", "value": 5}),
                        &json!({"op": "remove", "path": "/spec/list/1"}),
                        &json!({"op": "replace", "path": "/spec/half", "value": 1.5}),
                        &json!({"op": "replace", "path": "/spec/big", "value": null}),
                        &json!({"op": "copy", "from": "/spec/list", "path": "/spec/copied"}),
                        &json!({"op": "test", "path": "/spec/list/0", "value": {"v": 1, "name": "a"}}),
                        &json!({"op": "add", "path": "/spec/~0tilde", "value": {}}),
                        &json!({"op": "add", "path": "/spec/list/-1", "value": {}}),
                    ])
                    .clone(),
            );
        }
        if self.dice.one_in(8) {
            operations.push(json!({"op": "replace", "path": "/metadata/name", "value": "renamed"}));
        }
        if self.dice.one_in(20) {
            operations.push(json!({"op": "remove", "path": "/metadata/nothing"}));
        }
        json!(operations)
    }
}
