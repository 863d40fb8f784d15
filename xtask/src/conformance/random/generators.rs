//! Generators of config maps and secrets.

use serde_json::{Value, json};

use super::Maker;
use super::objects::Named;

impl Maker {
    pub(super) fn generators(&mut self, directory: &str, known: &[Named], set: &mut dyn FnMut(&str, Value)) {
        for (field, kind) in [("configMapGenerator", "ConfigMap"), ("secretGenerator", "Secret")] {
            if !self.dice.one_in(4) {
                continue;
            }
            let mut entries = vec![self.generator(directory, known, kind, 0)];
            if self.dice.one_in(4) {
                entries.push(self.generator(directory, known, kind, 1));
            }
            set(field, json!(entries));
        }
        if self.dice.one_in(8) {
            let mut options = json!({"labels": self.labels(), "annotations": self.labels(), "disableNameSuffixHash": self.dice.one_in(3)});
            if self.dice.one_in(3) {
                options["immutable"] = json!(true);
            }
            set("generatorOptions", options);
        }
    }

    pub(super) fn generator(&mut self, directory: &str, known: &[Named], kind: &str, number: usize) -> Value {
        let below =
            |name: &str| if directory.is_empty() { name.to_owned() } else { format!("{directory}/{name}") };
        let name = self.dice.pick(&["app", "web", "gen", "cfg"]);
        let exists = known.iter().find(|named| named.kind == kind && named.name == name);
        let mut entry = json!({"name": name});
        if !self.dice.one_in(6) {
            entry["literals"] = self
                .dice
                .pick(&[
                    &json!(["a=1", "b=\"q\"", "k=<&>"]),
                    &json!(["a=1", "b=\"q\"", "k=<&>"]),
                    &json!(["k='one'", "n= 2 ", "empty="]),
                    &json!(["u=\u{e9}\u{2028}", "x=a=b", "s=\"half"]),
                    &json!(["t=line one\nline two\n"]),
                ])
                .clone();
        }
        if let Some(named) = exists {
            if !self.dice.one_in(12) {
                entry["behavior"] = json!(self.dice.pick(&["merge", "replace"]));
            }
            if let Some(namespace) = named.namespace {
                entry["namespace"] = json!(namespace);
            }
        } else if self.generated.contains(&(kind.to_owned(), name)) {
            entry["behavior"] = json!(self.dice.pick(&["merge", "replace"]));
        } else if self.dice.one_in(6) {
            entry["behavior"] = json!("create");
        } else if self.dice.one_in(6) {
            entry["namespace"] = json!(self.dice.pick(&["one", "gen"]));
        }
        self.generated.push((kind.to_owned(), name));
        if self.dice.one_in(3) {
            let path = format!("{kind}{number}.env");
            let text = self.dice.pick(&[
                "# note\nE1=v1\n  E2=\"two\"\n\nE3=\n",
                "E1=v1\r\nE2=a # b\r\n",
                "\u{feff}E1='x'\nE2=a=b",
                "kk=from env\n",
            ]);
            self.files.push((below(&path), text.to_owned()));
            if self.dice.one_in(6) {
                entry["env"] = json!(path);
            } else {
                entry["envs"] = json!([path]);
            }
        }
        if self.dice.one_in(3) {
            let path = format!("{kind}{number}.txt");
            let text = self.dice.pick(&[
                "one\ntwo\n",
                "no end",
                "tab\there\n",
                "trailing  \nx\n",
                "",
                "a\r\nb\r\n",
                "\u{0}\u{1}",
            ]);
            self.files.push((below(&path), text.to_owned()));
            entry["files"] =
                if self.dice.one_in(2) { json!([path]) } else { json!([format!("other={path}")]) };
        }
        if self.dice.one_in(3) {
            entry["options"] = json!({"disableNameSuffixHash": self.dice.one_in(2), "labels": self.labels(), "immutable": self.dice.one_in(3)});
            if self.dice.one_in(2) {
                entry["options"]["annotations"] = self.labels();
            }
        }
        if kind == "Secret" && self.dice.one_in(3) {
            entry["type"] = json!(self.dice.pick(&["kubernetes.io/tls", "Opaque", "example.com/x"]));
        }
        entry
    }
}
