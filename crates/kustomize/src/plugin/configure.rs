//! Configuration objects to transformers and generated objects.

use serde_json::{Map, Value};
use slipway_problem::{Location, Problem, Problems};
use slipway_yaml::{YamlEmitter, YamlNode, YamlReader};

use super::kinds::{GeneratorKind, PluginKind, TransformerKind};
use super::{ConfiguredTransformer, TransformStep};
use crate::fieldspec::FieldSpec;
use crate::files::{Directory, shown};
use crate::generate::{Generated, generate};
use crate::kustomization::{
    At, Behavior, Findings, GeneratorOptions, PatchEntry, Strictness, Table, read_field,
    read_generator_settings, read_image, read_patch, read_replacement_entry, read_replica, read_selector,
};
use crate::load::Loader;
use crate::patch::{MetadataOf, Patch};
use crate::resource::{ConfiguredBy, Origin, Resource, object_at};
use crate::transform::lookup::read_slashed;
use crate::transform::names::End;
use crate::transform::namespace::{BindingSubjects, NamespaceChange, Overwrite};
use crate::transform::value_add::{AdditionField, AdditionTarget, ValueAddition};
use crate::written;

/// A configuration object as a tree of nodes.
enum ConfigNode<'r> {
    /// As it stands in its file.
    Written(&'r YamlNode),
    /// Written anew: it was changed on the way, or stands inside of another text.
    Rewritten(YamlNode),
}

impl<'r> ConfigNode<'r> {
    fn of(resource: &'r Resource, problems: &mut Problems) -> Option<Self> {
        if let Some(document) = &resource.document {
            let mut open = vec![&*document.0];
            while let Some(node) = open.pop() {
                if node.location() == resource.at
                    && written::object(node, &mut Problems::new()) == resource.value
                {
                    return Some(ConfigNode::Written(node));
                }
                open.extend(node.get("items").and_then(YamlNode::as_seq).into_iter().flatten());
            }
        }
        let text = YamlEmitter::kustomize().emit(&resource.value).unwrap_or_default();
        problems.take(YamlReader::kustomize().read_one(&text, &resource.at.file)).map(ConfigNode::Rewritten)
    }

    fn node(&self) -> &YamlNode {
        match self {
            Self::Written(node) => node,
            Self::Rewritten(node) => node,
        }
    }
}

fn configured_by(resource: &Resource) -> ConfiguredBy {
    let present = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    ConfiguredBy {
        file: match &resource.origin {
            Origin::File { path } => path.clone(),
            Origin::Generator(_) => String::new(),
        },
        kind: resource.kind().to_owned(),
        name: present(resource.name()),
        namespace: present(resource.namespace()),
    }
}

fn fields_in(table: &Table<'_>, problems: &mut Findings<'_>) -> Vec<FieldSpec> {
    table.list("fieldSpecs", problems).iter().filter_map(|node| read_field(node, problems)).collect()
}

/// Without fields, most transformers change nothing.
fn warn_without_fields(table: &Table<'_>, problems: &mut Findings<'_>) {
    if table.get("fieldSpecs").is_none() {
        problems.push(table.node.warning("without `fieldSpecs` this transformer changes nothing"));
    }
}

impl Loader<'_> {
    /// The transformers a kustomization lists.
    pub(crate) fn transformers(
        &mut self,
        listed: &[At<String>],
        directory: &Directory,
        relative_file: &str,
    ) -> Vec<ConfiguredTransformer> {
        if listed.is_empty() {
            return Vec::new();
        }
        let objects = self.plugin_objects(listed, directory, relative_file);
        objects.iter().filter_map(|object| self.transformer(object, directory)).collect()
    }

    fn transformer(&mut self, object: &Resource, directory: &Directory) -> Option<ConfiguredTransformer> {
        let kind = match PluginKind::of(object) {
            Ok(PluginKind::Transformer(kind)) => kind,
            Ok(PluginKind::Generator(_)) => {
                self.problems.push(
                    Problem::error(format!("`{}` is no transformer", object.kind()))
                        .at(object.at.clone())
                        .hint("list it under `generators`"),
                );
                return None;
            }
            Err(problem) => {
                self.problems.push(*problem);
                return None;
            }
        };
        let config = ConfigNode::of(object, self.problems)?;
        let before = std::mem::take(self.problems);
        let steps = self.steps(kind, config.node(), object, directory);
        let found = std::mem::replace(self.problems, before);
        let mut configured = steps.map(|steps| ConfiguredTransformer {
            steps,
            by: configured_by(object),
            at: object.at.clone(),
        });
        match config {
            ConfigNode::Written(_) => self.problems.extend(found),
            ConfigNode::Rewritten(_) => {
                self.problems.extend(found.into_iter().map(|problem| relocated(problem, &object.at)));
                if let Some(configured) = &mut configured {
                    configured.relocate(&object.at);
                }
            }
        }
        configured
    }

    fn steps(
        &mut self,
        kind: TransformerKind,
        node: &YamlNode,
        object: &Resource,
        directory: &Directory,
    ) -> Option<Vec<TransformStep>> {
        let name = object.kind();
        let findings = &mut Findings::new(Strictness::Transformer, self.problems);
        Some(vec![match kind {
            TransformerKind::Annotations | TransformerKind::Labels => {
                let field = if kind == TransformerKind::Labels { "labels" } else { "annotations" };
                let table = Table::open(node, name, &[field, "fieldSpecs"], findings)?;
                warn_without_fields(&table, findings);
                let pairs = table.pairs(field, findings);
                TransformStep::Metadata { pairs, fields: fields_in(&table, findings) }
            }
            TransformerKind::Namespace => {
                let known = ["fieldSpecs", "unsetOnly", "setRoleBindingSubjects"];
                let table = Table::open(node, name, &known, findings)?;
                let subjects = match table.text("setRoleBindingSubjects", findings).as_str() {
                    "" | "defaultOnly" => BindingSubjects::CalledDefault,
                    "allServiceAccounts" => BindingSubjects::ServiceAccounts,
                    "none" => BindingSubjects::None,
                    other => {
                        let node = table.get("setRoleBindingSubjects").unwrap_or(node);
                        findings.push(
                            node.problem(format!("unknown `setRoleBindingSubjects: {other}`"))
                                .hint("it can be `defaultOnly`, `allServiceAccounts` or `none`"),
                        );
                        return None;
                    }
                };
                let overwrite =
                    if table.flag("unsetOnly", findings) { Overwrite::OnlyUnset } else { Overwrite::Always };
                let namespace = object.namespace().to_owned();
                if namespace.is_empty() {
                    findings
                        .push(node.warning("without `metadata.namespace` this transformer changes nothing"));
                    return Some(Vec::new());
                }
                let fields = fields_in(&table, findings);
                TransformStep::Namespace(NamespaceChange { namespace, fields, overwrite, subjects })
            }
            TransformerKind::Prefix | TransformerKind::Suffix | TransformerKind::PrefixSuffix => {
                return name_steps(kind, name, node, findings);
            }
            TransformerKind::ImageTag => {
                let table = Table::open(node, name, &["imageTag", "fieldSpecs"], findings)?;
                let change = read_image(table.get("imageTag").unwrap_or(node), findings)?;
                TransformStep::Image { change, fields: fields_in(&table, findings) }
            }
            TransformerKind::ReplicaCount => {
                let table = Table::open(node, name, &["replica", "fieldSpecs"], findings)?;
                warn_without_fields(&table, findings);
                let replica = read_replica(table.get("replica").unwrap_or(node), findings)?;
                TransformStep::Replicas { replica, fields: fields_in(&table, findings) }
            }
            TransformerKind::Patch => {
                let mut entry = read_patch(node, findings)?;
                if let Some(patch) = &mut entry.patch {
                    patch.value = patch.value.trim().to_owned();
                }
                TransformStep::Patches(vec![self.patch(directory, entry)?])
            }
            TransformerKind::JsonPatch => {
                let entry = json_patch_entry(name, node, findings)?;
                TransformStep::Patches(vec![self.json_patch(directory, entry)?])
            }
            TransformerKind::StrategicPatch => {
                TransformStep::Patches(self.strategic_patches(name, node, directory)?)
            }
            TransformerKind::Replacement => {
                let table = Table::open(node, name, &["replacements"], findings)?;
                let entries = table.list("replacements", findings);
                let entries =
                    entries.iter().filter_map(|node| read_replacement_entry(node, findings)).collect();
                let replacements = self.replacements(directory, entries, Strictness::Transformer);
                TransformStep::Replacements(replacements)
            }
            TransformerKind::ValueAdd => TransformStep::AddValue(self.value_addition(name, node, directory)?),
            TransformerKind::Hash => TransformStep::AddHashes,
        }])
    }

    fn strategic_patches(
        &mut self,
        name: &str,
        node: &YamlNode,
        directory: &Directory,
    ) -> Option<Vec<Patch>> {
        let findings = &mut Findings::new(Strictness::Transformer, self.problems);
        let table = Table::open(node, name, &["paths", "patches"], findings)?;
        let paths = table.strings("paths", findings);
        let text = table.string("patches", findings).filter(|text| !text.value.is_empty());
        if paths.is_empty() && text.is_none() {
            findings.push(node.problem("a patch needs `paths` (files) or `patches` (the text itself)"));
            return None;
        }
        let mut patches: Vec<Patch> =
            paths.into_iter().filter_map(|entry| self.strategic_patch(directory, entry)).collect();
        if let Some(text) = text {
            let entry = PatchEntry {
                path: None,
                target: None,
                allow_name_change: false,
                allow_kind_change: false,
                at: text.at.clone(),
                patch: Some(text),
            };
            let patch = self.patch(directory, entry)?;
            patches.push(Patch { metadata: MetadataOf::Copies, ..patch });
        }
        Some(patches)
    }

    fn value_addition(
        &mut self,
        name: &str,
        node: &YamlNode,
        directory: &Directory,
    ) -> Option<ValueAddition> {
        let findings = &mut Findings::new(Strictness::Transformer, self.problems);
        let table = Table::open(node, name, &["value", "targets", "targetFilePath"], findings)?;
        let mut value = table.text("value", findings).trim().to_owned();
        if value.is_empty() {
            value = directory.real.file_name().map(|name| shown(name.as_ref())).unwrap_or_default();
        }
        let mut targets: Vec<AdditionTarget> = table
            .list("targets", findings)
            .iter()
            .filter_map(|node| addition_target(node, findings))
            .collect();
        if let Some(path) = table.string("targetFilePath", findings).filter(|path| !path.value.is_empty()) {
            let text = self.files.text(directory, &path);
            let text = self.problems.take(text)?;
            let file = shown(&directory.shown.join(&path.value));
            let shared = self.problems.take(YamlReader::kustomize().read_one(&text, &file))?;
            let findings = &mut Findings::new(Strictness::Transformer, self.problems);
            if let Some(table) = Table::open(&shared, "targetFilePath", &["targets"], findings) {
                let nodes = table.list("targets", findings);
                targets.extend(nodes.iter().filter_map(|node| addition_target(node, findings)));
            }
        }
        if targets.is_empty() && !self.problems.has_errors() {
            self.problems.push(node.problem("a value needs `targets` to be added to"));
            return None;
        }
        Some(ValueAddition { value, targets })
    }

    /// The objects the generators of a kustomization make.
    pub(crate) fn plugin_generated(
        &mut self,
        listed: &[At<String>],
        directory: &Directory,
        relative_file: &str,
    ) -> Vec<(Resource, Behavior)> {
        if listed.is_empty() {
            return Vec::new();
        }
        let before = std::mem::take(self.problems);
        let objects = self.plugin_objects(listed, directory, relative_file);
        let made = objects.iter().filter_map(|object| self.plugin_object(object, directory)).collect();
        let found = std::mem::replace(self.problems, before);
        // Without what is generated, whatever is about it goes wrong as well.
        self.complete &= !found.has_errors();
        self.problems.extend(found);
        made
    }

    fn plugin_object(&mut self, object: &Resource, directory: &Directory) -> Option<(Resource, Behavior)> {
        let kind = match PluginKind::of(object) {
            Ok(PluginKind::Generator(kind)) => kind,
            Ok(PluginKind::Transformer(_)) => {
                self.problems.push(
                    Problem::error(format!("`{}` is no generator", object.kind()))
                        .at(object.at.clone())
                        .hint("list it under `transformers`"),
                );
                return None;
            }
            Err(problem) => {
                self.problems.push(*problem);
                return None;
            }
        };
        let origin = Origin::Generator(configured_by(object));
        let config = ConfigNode::of(object, self.problems)?;
        let before = std::mem::take(self.problems);
        let findings = &mut Findings::new(Strictness::Generator, self.problems);
        let made = match kind {
            GeneratorKind::ConfigMap | GeneratorKind::Secret => {
                let settings = read_generator_settings(config.node(), findings);
                settings.map(|mut settings| {
                    if settings.name.is_empty() {
                        object.name().clone_into(&mut settings.name);
                    }
                    if settings.namespace.is_empty() {
                        object.namespace().clone_into(&mut settings.namespace);
                    }
                    settings.at = object.at.clone();
                    let kind =
                        if kind == GeneratorKind::Secret { Generated::Secret } else { Generated::ConfigMap };
                    let shared = GeneratorOptions::default();
                    let made =
                        generate(kind, &settings, &shared, origin, directory, &mut self.files, self.problems);
                    (made, settings.behavior)
                })
            }
            GeneratorKind::IamPolicy => service_account(config.node(), findings)
                .map(|value| (Resource::new(value, origin, object.at.clone()), Behavior::Create)),
        };
        let found = std::mem::replace(self.problems, before);
        match config {
            ConfigNode::Written(_) => self.problems.extend(found),
            ConfigNode::Rewritten(_) => {
                self.problems.extend(found.into_iter().map(|problem| relocated(problem, &object.at)));
            }
        }
        made
    }
}

fn relocated(problem: Problem, at: &Location) -> Problem {
    Problem { at: Some(at.clone()), excerpt: None, ..problem }
}

fn name_steps(
    kind: TransformerKind,
    name: &str,
    node: &YamlNode,
    findings: &mut Findings<'_>,
) -> Option<Vec<TransformStep>> {
    let ends: &[(&str, End)] = match kind {
        TransformerKind::Prefix => &[("prefix", End::Prefix)],
        TransformerKind::Suffix => &[("suffix", End::Suffix)],
        _ => &[("prefix", End::Prefix), ("suffix", End::Suffix)],
    };
    let known: Vec<&str> = ends.iter().map(|(field, _)| *field).chain(["fieldSpecs"]).collect();
    let table = Table::open(node, name, &known, findings)?;
    if table.get("fieldSpecs").is_none() {
        findings.push(
            node.problem(format!("`{name}` needs `fieldSpecs`"))
                .hint("for names it is `fieldSpecs: [{path: metadata/name}]`"),
        );
        return None;
    }
    let fields = fields_in(&table, findings);
    let step = |(field, end): &(&str, End)| TransformStep::Name {
        text: table.text(field, findings),
        end: *end,
        fields: fields.clone(),
    };
    Some(ends.iter().map(step).collect())
}

fn json_patch_entry(name: &str, node: &YamlNode, findings: &mut Findings<'_>) -> Option<PatchEntry> {
    let table = Table::open(node, name, &["target", "path", "jsonOp"], findings)?;
    let path = table.string("path", findings).filter(|path| !path.value.is_empty());
    let patch = table.string("jsonOp", findings).filter(|patch| !patch.value.is_empty());
    if path.is_some() == patch.is_some() {
        findings.push(node.problem("a JSON patch has either `path` (a file) or `jsonOp` (the text itself)"));
        return None;
    }
    let target = match table.get("target") {
        Some(target) => Some(read_selector(target, findings)?),
        None => None,
    };
    Some(PatchEntry {
        path,
        patch,
        target,
        allow_name_change: false,
        allow_kind_change: false,
        at: table.at(),
    })
}

fn addition_target(node: &YamlNode, findings: &mut Findings<'_>) -> Option<AdditionTarget> {
    let known = ["selector", "fieldPath", "filePathPosition"];
    let table = Table::open(node, "targets", &known, findings)?;
    let selector = match table.get("selector") {
        Some(selector) => Some(read_selector(selector, findings)?),
        None => None,
    };
    let path = table.text("fieldPath", findings);
    let field = match path.as_str() {
        "" => {
            findings.push(node.problem("a target needs a `fieldPath`"));
            return None;
        }
        "metadata/namespace" => AdditionField::Namespace,
        path => match read_slashed(path) {
            Ok(path) => AdditionField::Path(path),
            Err(error) => {
                findings.push(table.get("fieldPath").unwrap_or(node).problem(error.to_string()));
                return None;
            }
        },
    };
    let position = table.integer("filePathPosition", findings).unwrap_or_default();
    let Ok(position) = usize::try_from(position) else {
        let node = table.get("filePathPosition").unwrap_or(node);
        findings.push(node.problem("`filePathPosition` cannot be negative"));
        return None;
    };
    let position = Some(position).filter(|position| *position > 0);
    Some(AdditionTarget { selector, field, position, at: table.at() })
}

/// The account an `IAMPolicyGenerator` makes.
fn service_account(node: &YamlNode, findings: &mut Findings<'_>) -> Option<Map<String, Value>> {
    let known = ["cloud", "kubernetesService", "serviceAccount"];
    let table = Table::open(node, "IAMPolicyGenerator", &known, findings)?;
    let cloud = table.text("cloud", findings);
    if cloud != "gke" {
        let node = table.get("cloud").unwrap_or(node);
        findings.push(node.problem(format!("`cloud` is `gke`, not `{cloud}`")));
        return None;
    }
    let mut text = |part: &str, field: &str| -> String {
        let known = ["name", "namespace", "projectId"];
        let part = table.get(part).and_then(|node| Table::open(node, part, &known, findings));
        part.map(|part| part.text(field, findings)).unwrap_or_default()
    };
    let mut account = Map::new();
    account.insert("apiVersion".to_owned(), Value::String("v1".to_owned()));
    account.insert("kind".to_owned(), Value::String("ServiceAccount".to_owned()));
    let metadata = object_at(&mut account, "metadata");
    let address = format!(
        "{}@{}.iam.gserviceaccount.com",
        text("serviceAccount", "name"),
        text("serviceAccount", "projectId")
    );
    object_at(metadata, "annotations")
        .insert("iam.gke.io/gcp-service-account".to_owned(), Value::String(address));
    metadata.insert("name".to_owned(), Value::String(text("kubernetesService", "name")));
    let namespace = text("kubernetesService", "namespace");
    if !namespace.is_empty() {
        metadata.insert("namespace".to_owned(), Value::String(namespace));
    }
    Some(account)
}
