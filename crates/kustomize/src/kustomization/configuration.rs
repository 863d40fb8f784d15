//! The files of `configurations:`, which add fields to the built-in tables.

use slipway_problem::Problems;
use slipway_yaml::{DuplicateKeys, ScalarRules, YamlNode, YamlReader};

use crate::config::{Config, NameReference};
use crate::fieldspec::FieldSpec;
use crate::id::Gvk;
use crate::kustomization::parts::read_field;
use crate::kustomization::{Findings, Strictness, Table};

const FIELDS: &[&str] = &[
    "apiVersion",
    "kind",
    "metadata",
    "namePrefix",
    "nameSuffix",
    "namespace",
    "commonLabels",
    "templateLabels",
    "labels",
    "commonAnnotations",
    "nameReference",
    "varReference",
    "images",
    "replicas",
];

/// Reads one configuration file.
pub(crate) fn read(text: &str, file: &str, problems: &mut Problems) -> Config {
    let reader = YamlReader::new().schema(ScalarRules::Yaml11).duplicates(DuplicateKeys::Refuse);
    let Some(node) = problems.take(reader.read_one(text, file)) else { return Config::default() };
    let problems = &mut Findings::new(Strictness::Kustomization, problems);
    let Some(table) = Table::open(&node, "configuration", FIELDS, problems) else { return Config::default() };
    let fields = |name: &str, problems: &mut Findings<'_>| -> Vec<FieldSpec> {
        table.list(name, problems).iter().filter_map(|node| read_field(node, problems)).collect()
    };
    Config {
        name_prefix: fields("namePrefix", problems),
        name_suffix: fields("nameSuffix", problems),
        namespace: fields("namespace", problems),
        common_labels: fields("commonLabels", problems),
        template_labels: fields("templateLabels", problems),
        labels: fields("labels", problems),
        common_annotations: fields("commonAnnotations", problems),
        images: fields("images", problems),
        replicas: fields("replicas", problems),
        var_reference: fields("varReference", problems),
        name_references: table
            .list("nameReference", problems)
            .iter()
            .filter_map(|node| read_reference(node, problems))
            .collect(),
    }
}

fn read_reference(node: &YamlNode, problems: &mut Findings<'_>) -> Option<NameReference> {
    let known = ["group", "version", "kind", "fieldSpecs"];
    let table = Table::open(node, "nameReference", &known, problems)?;
    let referred = Gvk {
        group: table.text("group", problems),
        version: table.text("version", problems),
        kind: table.text("kind", problems),
    };
    let fields =
        table.list("fieldSpecs", problems).iter().filter_map(|node| read_field(node, problems)).collect();
    Some(NameReference { referred, fields })
}
