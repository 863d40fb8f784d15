//! The entries of a kustomization's lists.

use slipway_problem::Location;
use slipway_yaml::YamlNode;

use crate::fieldspec::FieldSpec;
use crate::id::Gvk;
use crate::kustomization::{At, BuildMetadata, Findings, Strictness, Table};
use crate::selector::{Pattern, Requirements, Selector};
use crate::sort::Order;
use crate::transform::images::ImageChange;
use crate::transform::replacements::{Options, Replacement, Select, Source, Target};

/// One entry of `labels`.
#[derive(Debug)]
pub(crate) struct LabelEntry {
    pub(crate) pairs: Vec<(String, String)>,
    pub(crate) include_selectors: bool,
    pub(crate) include_templates: bool,
    pub(crate) fields: Vec<FieldSpec>,
    pub(crate) at: Location,
}

/// One entry of `patches` or `patchesJson6902`.
#[derive(Debug)]
pub(crate) struct PatchEntry {
    pub(crate) path: Option<At<String>>,
    pub(crate) patch: Option<At<String>>,
    pub(crate) target: Option<Selector>,
    pub(crate) allow_name_change: bool,
    pub(crate) allow_kind_change: bool,
    pub(crate) at: Location,
}

/// One entry of `replicas`.
#[derive(Debug)]
pub(crate) struct Replica {
    pub(crate) name: String,
    pub(crate) count: i64,
    pub(crate) at: Location,
}

/// The treatment of an object that has the generator's name already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Behavior {
    #[default]
    Create,
    Merge,
    Replace,
}

/// Settings of all generators, or of one.
#[derive(Clone, Debug, Default)]
pub(crate) struct GeneratorOptions {
    pub(crate) labels: Vec<(String, String)>,
    pub(crate) annotations: Vec<(String, String)>,
    pub(crate) disable_hash: bool,
    pub(crate) immutable: bool,
}

/// One entry of `configMapGenerator` or `secretGenerator`.
#[derive(Debug)]
pub(crate) struct Generator {
    pub(crate) name: String,
    pub(crate) namespace: String,
    pub(crate) behavior: Behavior,
    pub(crate) files: Vec<At<String>>,
    pub(crate) literals: Vec<At<String>>,
    pub(crate) envs: Vec<At<String>>,
    pub(crate) secret_type: String,
    pub(crate) options: GeneratorOptions,
    pub(crate) at: Location,
}

/// One entry of `replacements`: written here, or in a file.
#[derive(Debug)]
pub(crate) enum ReplacementEntry {
    Inline(Box<Replacement>),
    File(At<String>),
}

pub(super) fn read_labels(node: &YamlNode, problems: &mut Findings<'_>) -> Option<LabelEntry> {
    let known = ["pairs", "includeSelectors", "includeTemplates", "fields"];
    let table = Table::open(node, "labels", &known, problems)?;
    Some(LabelEntry {
        pairs: table.pairs("pairs", problems),
        include_selectors: table.flag("includeSelectors", problems),
        include_templates: table.flag("includeTemplates", problems),
        fields: table.list("fields", problems).iter().filter_map(|node| read_field(node, problems)).collect(),
        at: table.at(),
    })
}

pub(crate) fn read_field(node: &YamlNode, problems: &mut Findings<'_>) -> Option<FieldSpec> {
    let known = ["group", "version", "kind", "path", "create"];
    let table = Table::open(node, "field", &known, problems)?;
    let path = table.text("path", problems);
    if path.is_empty() {
        problems.push(node.problem("a field needs a `path`"));
        return None;
    }
    let gvk = Gvk {
        group: table.text("group", problems),
        version: table.text("version", problems),
        kind: table.text("kind", problems),
    };
    Some(FieldSpec::new(gvk, &path, table.flag("create", problems)))
}

pub(crate) fn read_patch(node: &YamlNode, problems: &mut Findings<'_>) -> Option<PatchEntry> {
    let table = Table::open(node, "patches", &["path", "patch", "target", "options"], problems)?;
    let (path, patch) = (table.string("path", problems), table.string("patch", problems));
    let path = path.filter(|path| !path.value.is_empty());
    let patch = patch.filter(|patch| !patch.value.is_empty());
    match (&path, &patch) {
        (Some(_), Some(patch)) => {
            problems.push(node.problem("a patch has `path` or `patch`, not both").at(patch.at.clone()));
            return None;
        }
        (None, None) => {
            problems.push(node.problem("a patch needs `path` (a file) or `patch` (the text itself)"));
            return None;
        }
        _ => {}
    }
    let target = match table.get("target") {
        Some(target) => Some(read_selector(target, problems)?),
        None => None,
    };
    let (mut allow_name_change, mut allow_kind_change) = (false, false);
    if let Some(options) = table.get("options")
        && let Some(options) =
            Table::open(options, "options", &["allowNameChange", "allowKindChange"], problems)
    {
        allow_name_change = options.flag("allowNameChange", problems);
        allow_kind_change = options.flag("allowKindChange", problems);
    }
    Some(PatchEntry { path, patch, target, allow_name_change, allow_kind_change, at: table.at() })
}

const SELECTOR: &[&str] =
    &["group", "version", "kind", "name", "namespace", "labelSelector", "annotationSelector"];

pub(crate) fn read_selector(node: &YamlNode, problems: &mut Findings<'_>) -> Option<Selector> {
    let table = Table::open(node, "target", SELECTOR, problems)?;
    let pattern = |field: &str, problems: &mut Findings<'_>| {
        let text = table.text(field, problems);
        Pattern::read(&text).unwrap_or_else(|message| {
            problems.push(table.get(field).unwrap_or(node).problem(message));
            Pattern::default()
        })
    };
    Some(Selector {
        group: pattern("group", problems),
        version: pattern("version", problems),
        kind: pattern("kind", problems),
        name: pattern("name", problems),
        namespace: pattern("namespace", problems),
        labels: requirements(&table, "labelSelector", problems),
        annotations: requirements(&table, "annotationSelector", problems),
    })
}

fn requirements(table: &Table<'_>, field: &str, problems: &mut Findings<'_>) -> Requirements {
    let text = table.text(field, problems);
    Requirements::read(&text).unwrap_or_else(|message| {
        problems.push(table.get(field).unwrap_or(table.node).problem(message));
        Requirements::default()
    })
}

pub(crate) fn read_image(node: &YamlNode, problems: &mut Findings<'_>) -> Option<ImageChange> {
    let known = ["name", "newName", "newTag", "tagSuffix", "digest"];
    let table = Table::open(node, "images", &known, problems)?;
    let matches = match ImageChange::matcher(&table.text("name", problems)) {
        Ok(matches) => matches,
        Err(message) => {
            problems.push(table.get("name").unwrap_or(node).problem(message));
            return None;
        }
    };
    Some(ImageChange {
        matches,
        new_name: table.text("newName", problems),
        new_tag: table.text("newTag", problems),
        tag_suffix: table.text("tagSuffix", problems),
        digest: table.text("digest", problems),
        at: table.at(),
    })
}

pub(crate) fn read_replica(node: &YamlNode, problems: &mut Findings<'_>) -> Option<Replica> {
    let table = Table::open(node, "replicas", &["name", "count"], problems)?;
    Some(Replica {
        name: table.text("name", problems),
        count: table.integer("count", problems).unwrap_or_default(),
        at: table.at(),
    })
}

pub(super) fn read_generator(node: &YamlNode, problems: &mut Findings<'_>) -> Option<Generator> {
    let generator = read_generator_settings(node, problems)?;
    if generator.name.is_empty() {
        problems.push(node.problem("a generator needs a `name`"));
    }
    Some(generator)
}

/// Reads a generator whose name may be given elsewhere.
pub(crate) fn read_generator_settings(node: &YamlNode, problems: &mut Findings<'_>) -> Option<Generator> {
    let known = ["name", "namespace", "behavior", "files", "literals", "envs", "env", "type", "options"];
    let table = Table::open(node, "generator", &known, problems)?;
    let name = table.text("name", problems);
    let behavior = match table.string("behavior", problems) {
        None => Behavior::Create,
        Some(found) => match found.value.as_str() {
            "merge" => Behavior::Merge,
            "replace" => Behavior::Replace,
            "create" | "" => Behavior::Create,
            other => {
                problems.push(
                    table
                        .get("behavior")
                        .unwrap_or(node)
                        .warning(format!("unknown behavior `{other}` counts as `create`"))
                        .hint("it can be `create`, `merge` or `replace`"),
                );
                Behavior::Create
            }
        },
    };
    let mut envs = table.strings("envs", problems);
    match problems.strictness {
        Strictness::Kustomization => envs.extend(table.string("env", problems)),
        // kustomize moves `env` to `envs` in kustomizations only.
        Strictness::Generator | Strictness::Transformer => {
            if let Some(node) = table.get("env") {
                problems.push(node.warning("`env` is not read here").hint("use `envs`, a list"));
            }
        }
    }
    Some(Generator {
        name,
        namespace: table.text("namespace", problems),
        behavior,
        files: table.strings("files", problems),
        literals: table.strings("literals", problems),
        envs,
        secret_type: table.text("type", problems),
        options: table
            .get("options")
            .map(|node| read_generator_options(node, "options", problems))
            .unwrap_or_default(),
        at: table.at(),
    })
}

pub(super) fn read_generator_options(
    node: &YamlNode,
    what: &str,
    problems: &mut Findings<'_>,
) -> GeneratorOptions {
    let known = ["labels", "annotations", "disableNameSuffixHash", "immutable"];
    let Some(table) = Table::open(node, what, &known, problems) else { return GeneratorOptions::default() };
    GeneratorOptions {
        labels: table.pairs("labels", problems),
        annotations: table.pairs("annotations", problems),
        disable_hash: table.flag("disableNameSuffixHash", problems),
        immutable: table.flag("immutable", problems),
    }
}

pub(super) fn read_order(node: &YamlNode, problems: &mut Findings<'_>) -> Option<Order> {
    let table = Table::open(node, "sortOptions", &["order", "legacySortOptions"], problems)?;
    match table.text("order", problems).as_str() {
        "fifo" => {
            if let Some(options) = table.get("legacySortOptions") {
                problems.push(options.problem("`legacySortOptions` goes with `order: legacy` only"));
            }
            Some(Order::Listed)
        }
        "legacy" => {
            let Some(options) = table.get("legacySortOptions") else { return Some(Order::default()) };
            let options = Table::open(options, "legacySortOptions", &["orderFirst", "orderLast"], problems)?;
            let kinds = |field: &str, problems: &mut Findings<'_>| {
                options.strings(field, problems).into_iter().map(|kind| kind.value).collect()
            };
            Some(Order::ByKind { first: kinds("orderFirst", problems), last: kinds("orderLast", problems) })
        }
        other => {
            problems
                .push(node.problem(format!("unknown order `{other}`")).hint("it can be `legacy` or `fifo`"));
            None
        }
    }
}

pub(super) fn read_build_metadata(table: &Table<'_>, problems: &mut Findings<'_>) -> BuildMetadata {
    let known = ["originAnnotations", "managedByLabel", "transformerAnnotations"];
    let mut found = BuildMetadata::default();
    for node in table.list("buildMetadata", problems) {
        match node.as_str() {
            Some("originAnnotations") => found.origins = true,
            Some("managedByLabel") => found.managed_by = true,
            Some("transformerAnnotations") => found.transformers = true,
            other => problems.push(
                node.problem(format!("unknown build metadata `{}`", other.unwrap_or(node.raw())))
                    .did_you_mean(other.unwrap_or_default(), known),
            ),
        }
    }
    found
}

pub(crate) fn read_replacement_entry(
    node: &YamlNode,
    problems: &mut Findings<'_>,
) -> Option<ReplacementEntry> {
    let table = Table::open(node, "replacements", &["source", "targets", "path"], problems)?;
    if let Some(path) = table.string("path", problems).filter(|path| !path.value.is_empty()) {
        if table.get("source").is_some() || table.get("targets").is_some() {
            problems.push(node.problem("a replacement has `path` or `source` and `targets`, not both"));
        }
        return Some(ReplacementEntry::File(path));
    }
    read_replacement(node, problems).map(|read| ReplacementEntry::Inline(Box::new(read)))
}

/// Reads a replacement file: one replacement or a list of them.
pub(crate) fn read_replacements(node: &YamlNode, problems: &mut Findings<'_>) -> Vec<Replacement> {
    match node.as_seq() {
        Some(list) => list.iter().filter_map(|node| read_replacement(node, problems)).collect(),
        None => read_replacement(node, problems).into_iter().collect(),
    }
}

fn read_replacement(node: &YamlNode, problems: &mut Findings<'_>) -> Option<Replacement> {
    let table = Table::open(node, "replacements", &["source", "targets", "path"], problems)?;
    let Some(source) = table.get("source") else {
        problems.push(node.problem("a replacement needs a `source`"));
        return None;
    };
    let known: Vec<&str> = SELECTOR[..5].iter().copied().chain(["fieldPath", "options"]).collect();
    let source_table = Table::open(source, "source", &known, problems)?;
    let field_path = source_table.text("fieldPath", problems);
    let source = Source {
        select: read_select(&source_table, problems),
        field_path: if field_path.is_empty() { "metadata.name".to_owned() } else { field_path },
        options: read_options(&source_table, problems),
    };
    let targets: Vec<Target> =
        table.list("targets", problems).iter().filter_map(|node| read_target(node, problems)).collect();
    if targets.is_empty() {
        problems.push(node.problem("a replacement needs `targets`"));
    }
    Some(Replacement { source, targets, at: table.at() })
}

fn read_target(node: &YamlNode, problems: &mut Findings<'_>) -> Option<Target> {
    let table = Table::open(node, "targets", &["select", "reject", "fieldPaths", "options"], problems)?;
    let Some(select) = table.get("select") else {
        problems.push(node.problem("a replacement target needs `select`"));
        return None;
    };
    let select = Table::open(select, "select", SELECTOR, problems)?;
    let select = read_select(&select, problems);
    let mut reject = Vec::new();
    for node in table.list("reject", problems) {
        if let Some(table) = Table::open(node, "reject", SELECTOR, problems) {
            reject.push(read_select(&table, problems));
        }
    }
    let mut field_paths: Vec<String> =
        table.strings("fieldPaths", problems).into_iter().map(|path| path.value).collect();
    if field_paths.is_empty() {
        field_paths.push("metadata.name".to_owned());
    }
    Some(Target { select, reject, field_paths, options: read_options(&table, problems), at: table.at() })
}

fn read_select(table: &Table<'_>, problems: &mut Findings<'_>) -> Select {
    Select {
        gvk: Gvk {
            group: table.text("group", problems),
            version: table.text("version", problems),
            kind: table.text("kind", problems),
        },
        name: table.text("name", problems),
        namespace: table.text("namespace", problems),
        labels: requirements(table, "labelSelector", problems),
        annotations: requirements(table, "annotationSelector", problems),
    }
}

fn read_options(table: &Table<'_>, problems: &mut Findings<'_>) -> Options {
    let known = ["delimiter", "index", "create", "encoding"];
    let Some(node) = table.get("options") else { return Options::default() };
    let Some(table) = Table::open(node, "options", &known, problems) else { return Options::default() };
    Options {
        delimiter: table.text("delimiter", problems),
        index: table.integer("index", problems).unwrap_or_default(),
        create: table.flag("create", problems),
    }
}
