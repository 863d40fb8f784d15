//! Replacements: a field of one object put into fields of others.

use serde_json::{Map, Value, json};

use super::Maker;
use super::objects::Named;

impl Maker {
    pub(super) fn replacements(&mut self, known: &[Named]) -> Value {
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
            if self.dice.one_in(5) {
                let (group, version) = from.api.split_once('/').unwrap_or(("", from.api));
                source["group"] = json!(group);
                source["version"] = json!(version);
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
                    let name = self.dice.name();
                    target["reject"] = self
                        .dice
                        .pick(&[
                            &json!([{"name": name}]),
                            &json!([{"kind": "Deployment"}, {"kind": "Foo", "name": "app"}]),
                            &json!([{"namespace": "one"}]),
                        ])
                        .clone();
                }
                if self.dice.one_in(8) {
                    target["select"]["namespace"] = json!(self.dice.pick(&["one", "default", "new"]));
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
                if self.dice.one_in(6) {
                    target["fieldPaths"] = json!([path, "metadata.annotations.also"]);
                }
                if !self.dice.one_in(10) {
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
