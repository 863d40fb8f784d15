//! The fields of a kustomization.

use serde_json::{Map, Value, json};

use super::Maker;
use super::objects::Named;
use super::text::yaml;

impl Maker {
    /// The fields of a kustomization that change what `known` describes.
    pub(super) fn fields(&mut self, directory: &str, known: &[Named]) -> Map<String, Value> {
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
                match self.dice.below(5) {
                    0 => entry["includeSelectors"] = json!(true),
                    1 => entry["includeTemplates"] = json!(true),
                    3 => {
                        let kind = self.dice.pick(&["Deployment", "Service", "Job"]);
                        entry["includeSelectors"] = json!(self.dice.one_in(3));
                        entry["fields"] = json!([
                            {"path": "spec/template/metadata/labels", "kind": kind, "create": self.dice.one_in(2)},
                            {"path": "metadata/labels", "group": self.dice.pick(&["apps", "batch"]), "create": true},
                        ]);
                    }
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
            let mut replicas = vec![json!({"name": named.name, "count": self.dice.below(9)})];
            if self.dice.one_in(4) {
                let named = self.dice.pick(&scaled);
                replicas.push(json!({"name": named.name, "count": 0}));
            }
            set("replicas", json!(replicas));
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
                let mut patches = vec![yaml(&patch)];
                if self.dice.one_in(3) {
                    let named = self.dice.pick(&all);
                    let more = self.strategic(named);
                    patches.push(yaml(&more));
                }
                set("patchesStrategicMerge", json!(patches));
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
            let mut patch = json!({"target": {"group": group, "version": version, "kind": named.kind, "name": named.name}});
            if self.dice.one_in(3) {
                self.write(&below("operations.yaml"), &operations);
                patch["path"] = json!("operations.yaml");
            } else {
                patch["patch"] = json!(yaml(&operations));
            }
            set("patchesJson6902", json!([patch]));
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
                "varReference": [{"path": "spec/notes", "kind": "Foo"}, {"path": "data", "kind": "ConfigMap"}],
                "labels": [{"path": "spec/marks", "kind": "Foo", "create": true}],
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
        if self.dice.one_in(5) && !known.is_empty() {
            self.variables(known, &mut set);
        }
        if self.dice.one_in(2) && !known.is_empty() {
            self.plugins(directory, known, &mut set);
        }
        fields
    }
}
