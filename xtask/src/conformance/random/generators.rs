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
}
