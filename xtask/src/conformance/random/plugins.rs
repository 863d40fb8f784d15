//! Variables, and transformers and generators with a configuration object of their own.

use serde_json::{Value, json};

use super::Maker;
use super::objects::Named;
use super::text::yaml;

impl Maker {
    /// Variables of a kustomization and annotations that use them.
    pub(super) fn variables(&mut self, known: &[Named], set: &mut dyn FnMut(&str, Value)) {
        let all: Vec<&Named> = known.iter().collect();
        let mut entries = Vec::new();
        let mut annotations = json!({});
        for _ in 0..=self.dice.below(2) {
            let named = self.dice.pick(&all);
            if !self.dice.one_in(12) {
                self.variables += 1;
            }
            let name = format!("V{}", self.variables);
            let mut reference = json!({"kind": named.kind, "name": named.name});
            let (group, version) = named.api.split_once('/').unwrap_or(("", named.api));
            if self.dice.one_in(4) {
                reference["group"] = json!(group);
                reference["version"] = json!(version);
            } else if !self.dice.one_in(20) {
                reference["apiVersion"] = json!(named.api);
            }
            if let Some(namespace) = named.namespace {
                if self.dice.one_in(2) {
                    reference["namespace"] = json!(namespace);
                }
            } else if self.dice.one_in(10) {
                reference["namespace"] = json!(self.dice.pick(&["default", "one"]));
            }
            let mut entry = json!({"name": name, "objref": reference});
            if !self.dice.one_in(3) {
                let path = match named.kind {
                    "Deployment" | "StatefulSet" => self.dice.pick(&[
                        "spec.replicas",
                        "spec.template.spec.containers[0].image",
                        "spec.template.spec.containers.[name=c1].image",
                        "spec.template",
                        "metadata.name",
                    ]),
                    "Service" => {
                        self.dice.pick(&["spec.ports[0].port", "spec.ports.0.targetPort", "metadata.name"])
                    }
                    "ConfigMap" => self.dice.pick(&["data.k", "metadata.name", "data"]),
                    "Foo" => {
                        self.dice.pick(&["spec.big", "spec.half", "spec.list[1].name", "spec.list.-.name"])
                    }
                    _ => self.dice.pick(&["metadata.name", "metadata.labels.app", "kind", "apiVersion"]),
                };
                entry["fieldref"] = json!({"fieldPath": path});
            }
            annotations[format!("uses-{name}")] = json!(
                self.dice.pick(&["$(X)", "a-$(X)-$(X)", "$$(X) $(NONE) $(X", "$(X)$",]).replace('X', &name)
            );
            entries.push(entry);
        }
        set("vars", json!(entries));
        if self.dice.one_in(3) {
            set("commonLabels", annotations);
        } else {
            set("commonAnnotations", annotations);
        }
    }

    /// Transformers, validators and generators: written in place, in files, or as a kustomization.
    pub(super) fn plugins(&mut self, directory: &str, known: &[Named], set: &mut dyn FnMut(&str, Value)) {
        for field in ["transformers", "generators", "validators"] {
            let odds = match field {
                "transformers" => 3,
                "generators" => 6,
                _ => 20,
            };
            if !self.dice.one_in(odds) {
                continue;
            }
            let mut entries = Vec::new();
            for number in 0..=self.dice.below(3) {
                let mut object = match field {
                    "generators" => self.generator_object(directory, known, number),
                    _ => self.transformer_object(directory, known, number),
                };
                object["apiVersion"] = json!("builtin");
                if self.dice.one_in(30) {
                    object["kind"] =
                        json!(self.dice.pick(&["LabelTransformer", "SecretGenerator", "Unknown"]));
                }
                if object["metadata"]["name"].is_null() {
                    object["metadata"]["name"] = json!(format!("plugin{number}"));
                }
                let below = |name: &str| match directory {
                    "" => name.to_owned(),
                    directory => format!("{directory}/{name}"),
                };
                entries.push(match self.dice.below(3) {
                    0 => json!(yaml(&object)),
                    1 => {
                        let path = format!("{field}{number}.yaml");
                        self.write(&below(&path), &object);
                        json!(path)
                    }
                    _ => {
                        let path = format!("{field}{number}");
                        self.write(&below(&format!("{path}/plugin.yaml")), &object);
                        let mut own = json!({"resources": ["plugin.yaml"]});
                        if self.dice.one_in(3) {
                            own["commonAnnotations"] = json!({"note": "in between"});
                        }
                        if self.dice.one_in(4) {
                            own["namePrefix"] = json!("renamed-");
                        }
                        self.write(&below(&format!("{path}/kustomization.yaml")), &own);
                        json!(path)
                    }
                });
            }
            set(field, json!(entries));
        }
    }

    fn generator_object(&mut self, directory: &str, known: &[Named], number: usize) -> Value {
        if self.dice.one_in(6) {
            let mut service = json!({"name": format!("k8s-sa{number}")});
            if self.dice.one_in(2) {
                service["namespace"] = json!("one");
            }
            return json!({
                "kind": "IAMPolicyGenerator",
                "cloud": "gke",
                "kubernetesService": service,
                "serviceAccount": {"name": "gsa", "projectId": "project"},
            });
        }
        let kind = self.dice.pick(&["ConfigMap", "Secret"]);
        let mut object = self.generator(directory, known, kind, 5 + number);
        object["kind"] = json!(format!("{kind}Generator"));
        if self.dice.one_in(2) {
            object["metadata"] = json!({"name": object["name"].clone()});
            object["name"] = Value::Null;
        }
        object
    }

    fn transformer_object(&mut self, directory: &str, known: &[Named], number: usize) -> Value {
        let all: Vec<&Named> = known.iter().collect();
        let named = self.dice.pick(&all);
        let kind = self.dice.pick(&["Deployment", "Service", "ConfigMap", "Foo", ""]);
        let fields = |path: &str, create: bool| match kind {
            "" => json!([{"path": path, "create": create}]),
            kind => json!([{"path": path, "create": create, "kind": kind}]),
        };
        let create = self.dice.one_in(2);
        match self.dice.below(13) {
            0 => {
                json!({"kind": "AnnotationsTransformer", "annotations": self.labels(), "fieldSpecs": fields("metadata/annotations", create)})
            }
            1 => {
                let mut labels = self.labels();
                if self.dice.one_in(4) {
                    labels["number"] = json!(7);
                }
                json!({"kind": "LabelTransformer", "labels": labels, "fieldSpecs": fields("metadata/labels", create)})
            }
            2 => {
                let mut object = json!({
                    "kind": "NamespaceTransformer",
                    "metadata": {"name": "move", "namespace": self.dice.pick(&["moved", "one"])},
                    "fieldSpecs": [
                        {"path": "metadata/name", "kind": "Namespace", "create": true},
                        {"path": "metadata/namespace", "create": true},
                        {"path": "spec/namespace", "kind": "Foo", "create": create},
                    ],
                });
                if self.dice.one_in(2) {
                    object["unsetOnly"] = json!(true);
                }
                if self.dice.one_in(2) {
                    object["setRoleBindingSubjects"] =
                        json!(self.dice.pick(&["defaultOnly", "allServiceAccounts", "none"]));
                }
                object
            }
            3 => {
                json!({"kind": "PrefixTransformer", "prefix": "tp-", "fieldSpecs": fields("metadata/name", false)})
            }
            4 => {
                json!({"kind": "SuffixTransformer", "suffix": "-ts", "fieldSpecs": fields("metadata/name", false)})
            }
            5 => {
                json!({"kind": "PrefixSuffixTransformer", "prefix": "a-", "suffix": "-z", "fieldSpecs": fields("metadata/name", false)})
            }
            6 => json!({
                "kind": "ImageTagTransformer",
                "imageTag": {"name": "nginx", "newTag": self.dice.pick(&[&json!("9"), &json!(1.5), &json!(3)])},
                "fieldSpecs": fields("spec/deep/containers/image", false),
            }),
            7 => json!({
                "kind": "ReplicaCountTransformer",
                "replica": {"name": named.name, "count": 4},
                "fieldSpecs": [{"path": "spec/replicas", "kind": named.kind, "create": true}],
            }),
            8 => {
                let mut patch = self.patch(directory, 10 + number, known);
                patch["kind"] = json!("PatchTransformer");
                patch
            }
            9 => {
                let (group, version) = named.api.split_once('/').unwrap_or(("", named.api));
                let operations = self.operations(named);
                json!({
                    "kind": "PatchJson6902Transformer",
                    "target": {"group": group, "version": version, "kind": named.kind, "name": named.name},
                    "jsonOp": operations.to_string(),
                })
            }
            10 => {
                let patch = self.strategic(named);
                json!({"kind": "PatchStrategicMergeTransformer", "patches": yaml(&patch)})
            }
            11 => json!({"kind": "ReplacementTransformer", "replacements": self.replacements(known)}),
            _ if self.dice.one_in(4) => json!({"kind": "HashTransformer"}),
            _ => {
                let path = self.dice.pick(&[
                    "metadata/namespace",
                    "metadata/annotations/added",
                    "metadata/annotations/a\\/b",
                    "spec/made/[a=b]/deep",
                    "spec/template/spec/containers/[name=c1]/image",
                    "data/k",
                ]);
                let mut target = json!({"fieldPath": path});
                if !self.dice.one_in(3) {
                    target["selector"] = json!({"kind": named.kind});
                }
                if self.dice.one_in(2) {
                    target["filePathPosition"] = json!(self.dice.below(4));
                }
                json!({"kind": "ValueAddTransformer", "value": self.dice.pick(&["added", "7", "true"]), "targets": [target]})
            }
        }
    }
}
