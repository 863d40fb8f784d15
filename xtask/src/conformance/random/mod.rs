//! Kustomizations made up from a number: the same number gives the same files.

mod dice;
mod fields;
mod generators;
mod objects;
mod patches;
mod plugins;
mod replacements;
mod text;

use serde_json::{Map, Value, json};

use dice::Dice;
use objects::{CLUSTER, KINDS, LABELS, Named, VALUES};
use text::yaml;

/// One made-up kustomization: paths below its root and what is in them.
pub type Files = Vec<(String, String)>;

/// Makes up a kustomization.
pub fn kustomization(seed: u64) -> Files {
    let mut made = Maker {
        dice: Dice(seed.wrapping_mul(0x2545_f491_4f6c_dd1d)),
        files: Vec::new(),
        generated: Vec::new(),
        variables: 0,
    };
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
        } else if made.dice.one_in(8) {
            for side in ["left", "right"] {
                let over = format!("{side}{base}");
                let mut fields = made.fields(&over, &known);
                fields.insert("resources".to_owned(), json!([format!("../{directory}")]));
                fields.insert("namePrefix".to_owned(), json!(format!("{side}-")));
                made.write(&format!("{over}/kustomization.yaml"), &Value::Object(fields));
                resources.push(over);
            }
        } else {
            resources.push(directory);
        }
    }
    let mut components = Vec::new();
    if made.dice.one_in(4) {
        let mut own = Vec::new();
        if made.dice.one_in(3) {
            let extra = Named { api: "v1", kind: "ConfigMap", namespace: None, name: "extra" };
            let object = made.object(&extra);
            made.write("part/extra.yaml", &object);
            own.push("extra.yaml".to_owned());
            known.push(extra);
        }
        made.overlay("part", &own, &known, "Component");
        components.push("part".to_owned());
        if made.dice.one_in(3) {
            made.overlay("other", &[], &known, "Component");
            components.push("other".to_owned());
        }
    }
    let mut top = made.fields("", &known);
    let listed = if made.dice.one_in(10) { "bases" } else { "resources" };
    top.insert(listed.to_owned(), json!(resources));
    if !components.is_empty() {
        top.insert("components".to_owned(), json!(components));
    }
    if made.dice.one_in(4) {
        let order = match made.dice.below(4) {
            0 | 1 => json!({"order": "fifo"}),
            2 => json!({"order": "legacy"}),
            _ => {
                json!({"order": "legacy", "legacySortOptions": {"orderFirst": ["Service", "ConfigMap"], "orderLast": ["Deployment"]}})
            }
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
    /// Kinds and names of what generators made so far.
    generated: Vec<(String, &'static str)>,
    /// How many variables there are so far.
    variables: usize,
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
}
