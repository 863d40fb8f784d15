//! The kustomization file: what it can say, and reading it strictly.

mod configuration;
mod hints;
mod parts;
mod table;
mod variables;

use slipway_problem::{Location, Problem, Problems};
use slipway_yaml::{DuplicateKeys, ScalarRules, YamlNode, YamlReader};

pub(crate) use configuration::read as read_configuration;
pub(crate) use hints::read as read_hints;
pub(crate) use parts::{
    Behavior, Generator, GeneratorOptions, LabelEntry, PatchEntry, ReplacementEntry, Replica, read_field,
    read_generator_settings, read_image, read_patch, read_replacement_entry, read_replacements, read_replica,
    read_selector,
};
pub(crate) use table::{At, Findings, Strictness, Table};
pub(crate) use variables::Variable;

use crate::sort::Order;
use crate::transform::images::ImageChange;

/// The kind of a kustomization file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Kind {
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
    pub(crate) kind: Kind,
    pub(crate) resources: Vec<At<String>>,
    pub(crate) components: Vec<At<String>>,
    pub(crate) crds: Vec<At<String>>,
    pub(crate) configurations: Vec<At<String>>,
    pub(crate) namespace: Option<At<String>>,
    pub(crate) name_prefix: Option<At<String>>,
    pub(crate) name_suffix: Option<At<String>>,
    pub(crate) labels: Vec<LabelEntry>,
    pub(crate) common_labels: Option<At<Vec<(String, String)>>>,
    pub(crate) common_annotations: Option<At<Vec<(String, String)>>>,
    pub(crate) patches: Vec<PatchEntry>,
    pub(crate) patches_strategic_merge: Vec<At<String>>,
    pub(crate) patches_json: Vec<PatchEntry>,
    pub(crate) images: Vec<ImageChange>,
    pub(crate) replicas: Vec<Replica>,
    pub(crate) config_maps: Vec<Generator>,
    pub(crate) secrets: Vec<Generator>,
    pub(crate) generator_options: GeneratorOptions,
    pub(crate) replacements: Vec<ReplacementEntry>,
    pub(crate) variables: Vec<Variable>,
    pub(crate) generators: Vec<At<String>>,
    pub(crate) transformers: Vec<At<String>>,
    pub(crate) validators: Vec<At<String>>,
    pub(crate) order: Option<Order>,
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
        let node = problems.take(reader.read_one(text, file))?;
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
        refuse(&table, problems);
        let mut resources = table.strings("resources", problems);
        resources.extend(table.strings("bases", problems));
        let pairs = |field: &str, problems: &mut Findings<'_>| {
            let at = table.get(field)?.location();
            Some(At { value: table.pairs(field, problems), at })
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
            components: table.strings("components", problems),
            crds: table.strings("crds", problems),
            configurations: table.strings("configurations", problems),
            namespace: table.string("namespace", problems),
            name_prefix: table.string("namePrefix", problems),
            name_suffix: table.string("nameSuffix", problems),
            labels: collect(each("labels", problems), problems, parts::read_labels),
            common_labels: pairs("commonLabels", problems),
            common_annotations: pairs("commonAnnotations", problems),
            patches: collect(each("patches", problems), problems, read_patch),
            patches_strategic_merge: table.strings("patchesStrategicMerge", problems),
            patches_json: collect(each("patchesJson6902", problems), problems, read_patch),
            images,
            replicas: collect(each("replicas", problems), problems, read_replica),
            config_maps: collect(each("configMapGenerator", problems), problems, parts::read_generator),
            secrets: collect(each("secretGenerator", problems), problems, parts::read_generator),
            generator_options: table
                .get("generatorOptions")
                .map(|node| parts::read_generator_options(node, "generatorOptions", problems))
                .unwrap_or_default(),
            replacements: collect(each("replacements", problems), problems, read_replacement_entry),
            variables: collect(each("vars", problems), problems, variables::read),
            generators: table.strings("generators", problems),
            transformers: table.strings("transformers", problems),
            validators: table.strings("validators", problems),
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

fn collect<'n, T>(
    nodes: &'n [YamlNode],
    problems: &mut Findings<'_>,
    read: fn(&'n YamlNode, &mut Findings<'_>) -> Option<T>,
) -> Vec<T> {
    nodes.iter().filter_map(|node| read(node, problems)).collect()
}

fn read_kind(node: &YamlNode, problems: &mut Findings<'_>) -> Option<Kind> {
    let text = |field: &str| node.get(field).and_then(YamlNode::as_str);
    let kind = match text("kind") {
        None | Some("" | "Kustomization") => Kind::Kustomization,
        Some("Component") => Kind::Component,
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
        Kind::Kustomization => "kustomize.config.k8s.io/v1beta1",
        Kind::Component => "kustomize.config.k8s.io/v1alpha1",
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

fn refuse(table: &Table<'_>, problems: &mut Findings<'_>) {
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
