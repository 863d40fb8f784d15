//! The files of `crds:`, whose annotated schemas say which fields of custom kinds hold names.

use slipway_problem::Problems;
use slipway_yaml::{DuplicateKeys, Mapping, ScalarRules, YamlNode, YamlReader};

use crate::config::{Config, NameReference};
use crate::fieldspec::FieldSpec;
use crate::id::Gvk;

/// Deepest nesting of types in types; a type that contains itself has no end.
const DEEPEST: usize = 32;
/// Most fields one file adds.
const MOST: usize = 10_000;

/// Reads one file: definitions by name, as the generator of Kubernetes' OpenAPI writes them.
pub(crate) fn read(text: &str, file: &str, problems: &mut Problems) -> Config {
    let reader = YamlReader::new().schema(ScalarRules::Yaml11).duplicates(DuplicateKeys::Refuse);
    let Some(node) = problems.take(reader.read_one(text, file)) else { return Config::default() };
    let Some(definitions) = node.as_map() else {
        if !node.is_null() {
            problems.push(node.problem(format!("`crds` lists files of definitions, not {}", node.kind())));
        }
        return Config::default();
    };
    let mut hints = Hints { definitions, config: Config::default(), left: MOST };
    for (name, definition) in definitions.iter() {
        let Some(properties) = properties_in(definition) else { continue };
        if ["apiVersion", "kind", "metadata"].iter().all(|field| properties.get(field).is_some()) {
            let name = name.key_text();
            let kind = name.rsplit(['.', '/']).next().unwrap_or(&name).to_owned();
            hints.follow(&Gvk { kind, ..Gvk::default() }, properties, &mut Vec::new());
        }
    }
    hints.config
}

fn properties_in(definition: &YamlNode) -> Option<&Mapping> {
    let schema = definition.get("Schema").or_else(|| definition.get("schema"))?;
    schema.get("properties").and_then(YamlNode::as_map)
}

struct Hints<'n> {
    definitions: &'n Mapping,
    config: Config,
    left: usize,
}

impl<'n> Hints<'n> {
    fn follow(&mut self, gvk: &Gvk, properties: &'n Mapping, path: &mut Vec<String>) {
        for (name, property) in properties.iter() {
            if self.left == 0 || path.len() >= DEEPEST {
                return;
            }
            self.left -= 1;
            path.push(name.key_text().replace('/', "\\/"));
            let text = |key: &str| property.get(key).and_then(YamlNode::as_str);
            let field = |more: &str| FieldSpec::new(gvk.clone(), &format!("{}{more}", path.join("/")), false);
            if text("x-kubernetes-annotation").is_some() {
                self.config.common_annotations.push(field(""));
            }
            if text("x-kubernetes-label-selector").is_some() {
                self.config.common_labels.push(field(""));
            }
            if text("x-kubernetes-identity").is_some() {
                self.config.name_prefix.push(field(""));
            }
            if let Some(version) = text("x-kubernetes-object-ref-api-version")
                && let Some(kind) = text("x-kubernetes-object-ref-kind")
            {
                let key = text("x-kubernetes-object-ref-name-key").unwrap_or("name");
                let referred = Gvk { version: version.to_owned(), kind: kind.to_owned(), ..Gvk::default() };
                let fields = vec![field(&format!("/{key}"))];
                let more =
                    Config { name_references: vec![NameReference { referred, fields }], ..Config::default() };
                self.config.merge(&more);
            }
            let target = text("$ref").and_then(|name| self.definitions.get(name)).and_then(properties_in);
            if let Some(inner) = target {
                self.follow(gvk, inner, path);
            }
            path.pop();
        }
    }
}
