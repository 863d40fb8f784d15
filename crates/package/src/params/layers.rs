//! Reading parameter files and merging them, lowest layer first.

use std::fmt;
use std::sync::Arc;

use indexmap::IndexMap;
use slipway_problem::{Location, Problems};
use slipway_yaml::{NodeValue as Yaml, YamlNode, YamlReader};

use crate::report::{coded_error, coded_warning, with_code, yaml_codes};
use crate::template::{ParamPath, ParamStep, Template};
use crate::val::{ValueData, ValuePos, ValueReader, ValueShape, WrittenValue};

const MOST_NODES: usize = 10_000;
const DEEPEST: usize = 100;

/// Whose values a layer holds; later ones win.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LayerKind {
    Package,
    Local,
    Values,
    Set,
}

impl fmt::Display for LayerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Package => "package",
            Self::Local => "local",
            Self::Values => "values",
            Self::Set => "set",
        })
    }
}

/// One file or flag of parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParamLayer {
    pub kind: LayerKind,
    /// The file, or the flag with the name it sets.
    pub file: Arc<str>,
}

/// A key that no lower layer has.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct UnknownKey {
    pub(crate) path: ParamPath,
    pub(crate) pos: ValuePos,
    /// The other keys of its map.
    pub(crate) siblings: Vec<String>,
}

/// All layers merged into one tree, nothing resolved.
#[derive(Clone, Debug)]
pub(crate) struct ParamLayers {
    pub(crate) layers: Vec<ParamLayer>,
    pub(crate) tree: WrittenValue,
    /// The package's own values, before any override.
    pub(crate) package: WrittenValue,
    pub(crate) unknown: Vec<UnknownKey>,
    /// The number of values the upper layers gave, and the files they are in.
    pub(crate) overridden: usize,
    pub(crate) overriders: Vec<Arc<str>>,
}

/// Reads a parameter file into a tree; its root must be a map.
pub(crate) fn read_tree(
    file: &str,
    text: &str,
    layer: u16,
    problems: &mut Problems,
) -> Option<(WrittenValue, YamlNode)> {
    let codes = yaml_codes("KV003", "KV005", "KV006");
    let reader = YamlReader::new().codes(codes).max_nodes(MOST_NODES).max_depth(DEEPEST);
    let node = match reader.read_one(text, file) {
        Ok(node) => node,
        Err(found) => {
            problems.extend(with_code(found, "KV006"));
            return None;
        }
    };
    if node.as_map().is_none() && !(node.is_null() && layer > 0) {
        problems
            .push(node.problem(format!("parameters must be a map, not {}", node.kind_name())).code("KV002"));
        return None;
    }
    check_keys(&node, problems);
    let reading = ValueReader { file, lines: 0, columns: 0, layer };
    let mut val = reading.value(&node, problems);
    if matches!(val.data, ValueData::Null) {
        val.data = ValueData::Map(IndexMap::new());
    }
    Some((val, node))
}

fn check_keys(node: &YamlNode, problems: &mut Problems) {
    match &node.value {
        Yaml::Map(mapping) => {
            for (key, value) in mapping.iter() {
                if key.as_str().is_none() {
                    let message = format!("the key `{}` is {}; its text is used", key.raw(), key.kind_name());
                    problems.push(key.warning(message).code("KV004").hint("put it in quotes"));
                }
                check_keys(value, problems);
            }
        }
        Yaml::Seq(items) => items.iter().for_each(|item| check_keys(item, problems)),
        _ => {}
    }
}

impl ParamLayers {
    /// Starts with the package's own parameters.
    pub(crate) fn new(file: &str, package: WrittenValue) -> Self {
        Self {
            layers: vec![ParamLayer { kind: LayerKind::Package, file: file.into() }],
            tree: package.clone(),
            package,
            unknown: Vec::new(),
            overridden: 0,
            overriders: Vec::new(),
        }
    }

    /// The place a value was written at.
    pub(crate) fn location(&self, pos: ValuePos) -> Location {
        let file = self
            .layers
            .get(usize::from(pos.layer))
            .map_or_else(|| "parameters".into(), |layer| Arc::clone(&layer.file));
        Location::new(file, pos.line, pos.column)
    }

    /// Makes room for one more layer and gives its number.
    pub(crate) fn add(&mut self, kind: LayerKind, file: &str) -> u16 {
        self.layers.push(ParamLayer { kind, file: file.into() });
        (self.layers.len() - 1) as u16
    }

    /// Lays a tree over what is there.
    pub(crate) fn merge(&mut self, over: WrittenValue, problems: &mut Problems) {
        let layer = over.pos.layer;
        let ValueData::Map(entries) = over.data else { return };
        let before = self.overridden;
        for (key, value) in entries {
            if key == "kurel" {
                let at = self.location(value.pos);
                problems.push(
                    coded_error("KV014", "`kurel` is the identity of the package and cannot be overridden")
                        .at(at)
                        .hint("use a parameter of your own, or change the package"),
                );
                continue;
            }
            let mut tree = std::mem::replace(&mut self.tree.data, ValueData::Null);
            if let ValueData::Map(map) = &mut tree {
                self.merge_key(map, key, value, &mut Vec::new(), problems);
            }
            self.tree.data = tree;
        }
        if self.overridden > before {
            self.overriders.push(Arc::clone(&self.layers[usize::from(layer)].file));
        }
    }

    /// Depth is limited by the reader of the files.
    fn merge_key(
        &mut self,
        base: &mut IndexMap<String, WrittenValue>,
        key: String,
        value: WrittenValue,
        path: &mut Vec<ParamStep>,
        problems: &mut Problems,
    ) {
        path.push(ParamStep::Key(key.clone()));
        match base.get_mut(&key) {
            None => {
                self.overridden += count_leaves(&value);
                // A map the package leaves empty is there to be filled.
                if !base.is_empty() {
                    self.note_unknown(path, value.pos, base.keys().cloned().collect());
                }
                base.insert(key, value);
            }
            Some(old) => self.merge_value(old, value, path, problems),
        }
        path.pop();
    }

    pub(crate) fn note_unknown(&mut self, path: &[ParamStep], pos: ValuePos, siblings: Vec<String>) {
        self.unknown.push(UnknownKey { path: ParamPath(path.to_vec()), pos, siblings });
    }

    pub(crate) fn merge_value(
        &mut self,
        old: &mut WrittenValue,
        value: WrittenValue,
        path: &mut Vec<ParamStep>,
        problems: &mut Problems,
    ) {
        if let (ValueData::Map(base), ValueData::Map(_)) = (&mut old.data, &value.data) {
            let ValueData::Map(entries) = value.data else { return };
            for (key, value) in entries {
                self.merge_key(base, key, value, path, problems);
            }
            return;
        }
        let (was, is) = (old.shape(), value.shape());
        let free =
            |val: &WrittenValue| matches!(&val.data, ValueData::Null | ValueData::Text(Template::Whole(_)));
        if was != is && was != ValueShape::Null && is != ValueShape::Null && !free(old) && !free(&value) {
            let (lower, upper) = (self.location(old.pos), self.location(value.pos));
            let name = ParamPath(path.clone());
            let lower_kind =
                self.layers.get(usize::from(old.pos.layer)).map_or(LayerKind::Package, |layer| layer.kind);
            problems.push(
                coded_error(
                    "KV013",
                    format!(
                        "parameter `{name}`: {lower_kind} defines {was} ({}:{}), this gives {is}",
                        lower.file, lower.line
                    ),
                )
                .at(upper)
                .hint(format!("give {was}")),
            );
            return;
        }
        self.overridden += count_leaves(&value);
        *old = value;
    }

    /// Reports the keys nobody knows, except those `open` lets pass.
    pub(crate) fn report_unknown(
        &self,
        open: &dyn Fn(&ParamPath) -> bool,
        closed: &dyn Fn(&ParamPath) -> bool,
        names: &[String],
        problems: &mut Problems,
    ) {
        const ADVISORY: [&str; 8] = [
            "labels",
            "annotations",
            "resources",
            "securityContext",
            "nodeSelector",
            "tolerations",
            "imagePullPolicy",
            "namespaces",
        ];
        // Looking for the nearest name is a pass over all names.
        const MOST_HINTS: usize = 50;
        for (count, unknown) in self.unknown.iter().enumerate() {
            let advisory = matches!(unknown.path.0.as_slice(),
                [ParamStep::Key(global), ParamStep::Key(key), ..] if global == "global" && ADVISORY.contains(&key.as_str()));
            let name = unknown.path.to_string();
            let is_closed = closed(&unknown.path);
            if !is_closed && (advisory || open(&unknown.path)) {
                continue;
            }
            let Some(ParamStep::Key(last)) = unknown.path.0.last() else { continue };
            let parent = ParamPath(unknown.path.0[..unknown.path.0.len() - 1].to_vec()).to_string();
            let names = if count < MOST_HINTS { names } else { &[] };
            let near = slipway_problem::nearest_name(last, unknown.siblings.iter().map(String::as_str))
                .map(
                    |sibling| {
                        if parent.is_empty() { sibling.to_owned() } else { format!("{parent}.{sibling}") }
                    },
                )
                .or_else(|| {
                    slipway_problem::nearest_name(&name, names.iter().map(String::as_str)).map(str::to_owned)
                });
            let message = format!("unknown parameter `{name}`; nothing uses it");
            let problem = if is_closed {
                coded_error("KV015", format!("unknown parameter `{name}`; the schema closes `{parent}`"))
            } else {
                coded_warning("KV015", message)
            };
            let problem = problem.at(self.location(unknown.pos));
            problems.push(match near {
                Some(near) => problem.hint(format!("did you mean `{near}`?")),
                None => problem,
            });
        }
    }
}

fn count_leaves(val: &WrittenValue) -> usize {
    match &val.data {
        ValueData::List(items) => items.iter().map(count_leaves).sum(),
        ValueData::Map(map) => map.values().map(count_leaves).sum(),
        _ => 1,
    }
}
