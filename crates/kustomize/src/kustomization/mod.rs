//! The kustomization file: what it can say, and reading it strictly.

mod configuration;
mod hints;
mod parts;
mod table;
mod variables;

use slipway_problem::{Location, Problem, Problems};
use slipway_yaml::{DuplicateKeys, ScalarRules, YamlNode, YamlReader};

pub(crate) use configuration::read_configuration;
pub(crate) use hints::read_hints;
pub(crate) use parts::{
    GeneratorBehavior, GeneratorEntry, GeneratorOptions, LabelEntry, PatchEntry, ReplacementEntry,
    ReplicaCount, read_field, read_generator_settings, read_image, read_patch, read_replacement_entry,
    read_replacements, read_replica, read_selector,
};
pub(crate) use table::{Findings, LocatedValue, Strictness, Table};
pub(crate) use variables::VariableEntry;

use crate::sort::ObjectOrder;
use crate::transform::images::ImageChange;

/// The kind of a kustomization file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum FileKind {
    #[default]
    Kustomization,
    /// Works on what its parent has gathered so far.
    Component,
}

/// The notes each object of the result carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BuildMetadata {
    pub(crate) origins: bool,
    pub(crate) managed_by: bool,
    pub(crate) transformers: bool,
}

/// A kustomization file, read and checked.
#[derive(Debug, Default)]
pub(crate) struct Kustomization {
    pub(crate) kind: FileKind,
    pub(crate) resources: Vec<LocatedValue<String>>,
    pub(crate) components: Vec<LocatedValue<String>>,
    pub(crate) crds: Vec<LocatedValue<String>>,
    pub(crate) configurations: Vec<LocatedValue<String>>,
    pub(crate) namespace: Option<LocatedValue<String>>,
    pub(crate) name_prefix: Option<LocatedValue<String>>,
    pub(crate) name_suffix: Option<LocatedValue<String>>,
    pub(crate) labels: Vec<LabelEntry>,
    pub(crate) common_labels: Option<LocatedValue<Vec<(String, String)>>>,
    pub(crate) common_annotations: Option<LocatedValue<Vec<(String, String)>>>,
    pub(crate) patches: Vec<PatchEntry>,
    pub(crate) patches_strategic_merge: Vec<LocatedValue<String>>,
    pub(crate) patches_json: Vec<PatchEntry>,
    pub(crate) images: Vec<ImageChange>,
    pub(crate) replicas: Vec<ReplicaCount>,
    pub(crate) config_maps: Vec<GeneratorEntry>,
    pub(crate) secrets: Vec<GeneratorEntry>,
    pub(crate) generator_options: GeneratorOptions,
    pub(crate) replacements: Vec<ReplacementEntry>,
    pub(crate) variables: Vec<VariableEntry>,
    pub(crate) generators: Vec<LocatedValue<String>>,
    pub(crate) transformers: Vec<LocatedValue<String>>,
    pub(crate) validators: Vec<LocatedValue<String>>,
    pub(crate) order: Option<ObjectOrder>,
    pub(crate) build_metadata: BuildMetadata,
}

pub(crate) const FILE_NAMES: [&str; 3] = ["kustomization.yaml", "kustomization.yml", "Kustomization"];

const FIELDS: &[&str] = &[
    "apiVersion",
    "kind",
    "metadata",
    "resources",
    "components",
    "namespace",
    "namePrefix",
    "nameSuffix",
    "labels",
    "commonLabels",
    "commonAnnotations",
    "patches",
    "patchesStrategicMerge",
    "patchesJson6902",
    "images",
    "imageTags",
    "replicas",
    "configMapGenerator",
    "secretGenerator",
    "generatorOptions",
    "replacements",
    "configurations",
    "crds",
    "sortOptions",
    "buildMetadata",
    "bases",
    "vars",
    "helmCharts",
    "helmGlobals",
    "helmChartInflationGenerator",
    "generators",
    "transformers",
    "validators",
    "openapi",
];

/// Fields that are understood and refused, and what to use in their place.
const REFUSED: &[(&str, &str)] = &[
    ("helmCharts", "render the chart first and list the result under `resources`"),
    ("helmGlobals", "render the chart first and list the result under `resources`"),
    ("helmChartInflationGenerator", "render the chart first and list the result under `resources`"),
    ("openapi", "lists of custom kinds are replaced whole; use a JSON patch to change one element"),
];

/// Fields with a newer name, which still work.
const DEPRECATED: &[(&str, &str)] = &[
    ("bases", "resources"),
    ("commonLabels", "labels"),
    ("imageTags", "images"),
    ("patchesJson6902", "patches"),
    ("patchesStrategicMerge", "patches"),
    ("vars", "replacements"),
];

impl Kustomization {
    /// Reads the text of a kustomization file.
    pub(crate) fn read(text: &str, file: &str, problems: &mut Problems) -> Option<Self> {
        // kustomize decodes this file as YAML 1.1, unlike the resources it lists.
        let reader = YamlReader::new().schema(ScalarRules::Yaml11).duplicates(DuplicateKeys::Refuse);
        let node = problems.collect_from(reader.read_one(text, file))?;
        if node.is_null() || node.as_map().is_some_and(slipway_yaml::Mapping::is_empty) {
            problems.push(
                Problem::error("the kustomization is empty")
                    .at(Location::file(file))
                    .hint("list at least one file under `resources`"),
            );
            return None;
        }
        let problems = &mut Findings::new(Strictness::Kustomization, problems);
        // A file of another API altogether would otherwise drown in unknown fields.
        let kind = read_kind(&node, problems)?;
        let table = Table::open(&node, "kustomization", FIELDS, problems)?;
        report_refused(&table, problems);
        let mut resources = table.read_strings("resources", problems);
        resources.extend(table.read_strings("bases", problems));
        let pairs = |field: &str, problems: &mut Findings<'_>| {
            let at = table.get(field)?.location();
            Some(LocatedValue { value: table.read_pairs(field, problems), at })
        };
        let mut images = Vec::new();
        for field in ["images", "imageTags"] {
            let entries = table.list(field, problems);
            images.extend(entries.iter().filter_map(|entry| read_image(entry, problems)));
        }
        let each = |field: &str, problems: &mut Findings<'_>| table.list(field, problems);
        let kustomization = Self {
            kind,
            resources,
            components: table.read_strings("components", problems),
            crds: table.read_strings("crds", problems),
            configurations: table.read_strings("configurations", problems),
            namespace: table.read_string("namespace", problems),
            name_prefix: table.read_string("namePrefix", problems),
            name_suffix: table.read_string("nameSuffix", problems),
            labels: collect_entries(each("labels", problems), problems, parts::read_labels),
            common_labels: pairs("commonLabels", problems),
            common_annotations: pairs("commonAnnotations", problems),
            patches: collect_entries(each("patches", problems), problems, read_patch),
            patches_strategic_merge: table.read_strings("patchesStrategicMerge", problems),
            patches_json: collect_entries(each("patchesJson6902", problems), problems, read_patch),
            images,
            replicas: collect_entries(each("replicas", problems), problems, read_replica),
            config_maps: collect_entries(
                each("configMapGenerator", problems),
                problems,
                parts::read_generator,
            ),
            secrets: collect_entries(each("secretGenerator", problems), problems, parts::read_generator),
            generator_options: table
                .get("generatorOptions")
                .map(|node| parts::read_generator_options(node, "generatorOptions", problems))
                .unwrap_or_default(),
            replacements: collect_entries(each("replacements", problems), problems, read_replacement_entry),
            variables: collect_entries(each("vars", problems), problems, variables::read_variable),
            generators: table.read_strings("generators", problems),
            transformers: table.read_strings("transformers", problems),
            validators: table.read_strings("validators", problems),
            order: table.get("sortOptions").and_then(|node| parts::read_order(node, problems)),
            build_metadata: parts::read_build_metadata(&table, problems),
        };
        let says_something = FIELDS
            .iter()
            .any(|field| !matches!(*field, "apiVersion" | "kind" | "metadata") && table.get(field).is_some());
        if !says_something {
            problems.push(
                Problem::error("the kustomization is empty")
                    .at(Location::file(file))
                    .hint("list at least one file under `resources`"),
            );
        }
        Some(kustomization)
    }
}

fn collect_entries<'n, T>(
    nodes: &'n [YamlNode],
    problems: &mut Findings<'_>,
    read: fn(&'n YamlNode, &mut Findings<'_>) -> Option<T>,
) -> Vec<T> {
    nodes.iter().filter_map(|node| read(node, problems)).collect()
}

fn read_kind(node: &YamlNode, problems: &mut Findings<'_>) -> Option<FileKind> {
    let text = |field: &str| node.get(field).and_then(YamlNode::as_str);
    let kind = match text("kind") {
        None | Some("" | "Kustomization") => FileKind::Kustomization,
        Some("Component") => FileKind::Component,
        Some(other) => {
            let at = node.get("kind").unwrap_or(node);
            problems.push(
                at.problem(format!("`kind` should be `Kustomization` or `Component`, not `{other}`"))
                    .did_you_mean(other, ["Kustomization", "Component"]),
            );
            return None;
        }
    };
    let wanted = match kind {
        FileKind::Kustomization => "kustomize.config.k8s.io/v1beta1",
        FileKind::Component => "kustomize.config.k8s.io/v1alpha1",
    };
    match text("apiVersion") {
        None | Some("") => Some(kind),
        Some(found) if found == wanted => Some(kind),
        Some(found) => {
            let at = node.get("apiVersion").unwrap_or(node);
            let problem = at.problem(format!("`apiVersion` should be `{wanted}`, not `{found}`"));
            problems.push(if found.contains("toolkit.fluxcd.io") {
                problem.hint("this is an object for Flux; store it under another file name")
            } else {
                problem
            });
            None
        }
    }
}

fn report_refused(table: &Table<'_>, problems: &mut Findings<'_>) {
    for (field, instead) in REFUSED {
        let Some(node) = table.get(field) else { continue };
        if node.as_seq().is_some_and(<[YamlNode]>::is_empty) {
            continue;
        }
        problems.push(node.problem(format!("`{field}` is not supported")).code("KZ001").hint(*instead));
    }
    for (field, instead) in DEPRECATED {
        let Some(node) = table.get(field) else { continue };
        problems.push(node.warning(format!("`{field}` is deprecated")).hint(format!("use `{instead}`")));
    }
}
