//! Places in a chart's values that look like an image.

use serde_json::{Map, Value};
use slipway_chart::Chart;
use slipway_manifest::image::{ImageReference, full_repository};

use super::path::{ValueStep, shown_path};

/// The form of a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NodeShape {
    /// A map whose parts make up the reference.
    Parts { repository_key: &'static str, has_registry: bool, has_tag: bool, has_digest: bool },
    /// One text.
    Text,
}

/// A place in the values that looks like an image.
#[derive(Clone, Debug)]
pub(super) struct ImageNode {
    pub(super) path: Vec<ValueStep>,
    pub(super) shape: NodeShape,
    /// The repository it names now, in full; empty if it names none.
    pub(super) repository: String,
    /// The text it has now.
    pub(super) current: String,
    /// It belongs to the chart itself, not to a subchart.
    pub(super) is_own: bool,
}

impl ImageNode {
    pub(super) fn shown_path(&self) -> String {
        shown_path(&self.path)
    }

    /// The path of one of its parts.
    pub(super) fn path_of(&self, part: Option<&str>) -> String {
        match part {
            Some(part) => format!("{}.{part}", self.shown_path()),
            None => self.shown_path(),
        }
    }

    pub(super) fn short_name(&self) -> &str {
        self.repository.rsplit('/').next().unwrap_or_default()
    }
}

/// The values a chart is rendered with: its own defaults and those of its subcharts, under the user's.
pub(crate) fn merged_values(chart: &Chart, user: &Map<String, Value>) -> Map<String, Value> {
    let mut values = Map::new();
    for child in &chart.dependencies {
        let declared = chart.metadata.dependencies.iter().filter(|declared| declared.name == child.name());
        let mut names: Vec<&str> = declared
            .map(|declared| if declared.alias.is_empty() { child.name() } else { &declared.alias })
            .collect();
        if names.is_empty() {
            names.push(child.name());
        }
        for name in names {
            values.insert(name.to_owned(), Value::Object(merged_values(child, &Map::new())));
        }
    }
    merge(&mut values, &chart.values);
    merge(&mut values, user);
    values
}

fn merge(base: &mut Map<String, Value>, over: &Map<String, Value>) {
    for (key, value) in over {
        match (base.get_mut(key), value) {
            (Some(Value::Object(below)), Value::Object(above)) => merge(below, above),
            _ => {
                base.insert(key.clone(), value.clone());
            }
        }
    }
}

/// Finds every place that looks like an image, in the order of their paths.
pub(super) fn find_nodes(
    values: &Map<String, Value>,
    subcharts: &[String],
    ignored: &[String],
) -> Vec<ImageNode> {
    let mut nodes = Vec::new();
    visit_map(values, &mut Vec::new(), &mut nodes);
    for node in &mut nodes {
        let first = match node.path.first() {
            Some(ValueStep::Key(key)) => key.as_str(),
            _ => "",
        };
        node.is_own = !subcharts.iter().any(|name| name == first);
    }
    nodes.retain(|node| !ignored.contains(&node.shown_path()));
    nodes.sort_by(|a, b| a.path.cmp(&b.path));
    nodes
}

fn visit_map(map: &Map<String, Value>, path: &mut Vec<ValueStep>, nodes: &mut Vec<ImageNode>) {
    for (key, value) in map {
        path.push(ValueStep::Key(key.clone()));
        visit(value, path, nodes);
        path.pop();
    }
}

fn visit(value: &Value, path: &mut Vec<ValueStep>, nodes: &mut Vec<ImageNode>) {
    match value {
        Value::Object(map) => match read_parts(map, path) {
            Some(node) => nodes.push(node),
            None => visit_map(map, path, nodes),
        },
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                path.push(ValueStep::Index(index));
                visit(item, path, nodes);
                path.pop();
            }
        }
        Value::String(text) if is_image_place(path) => {
            // A name without a tag or a path may be anything.
            if let Ok(reference) = text.parse::<ImageReference>()
                && (reference.tag.is_some() || reference.digest.is_some() || text.contains('/'))
            {
                nodes.push(ImageNode {
                    path: path.clone(),
                    shape: NodeShape::Text,
                    repository: reference.full_repository(),
                    current: text.clone(),
                    is_own: true,
                });
            }
        }
        _ => {}
    }
}

/// Tells that a text at a place is an image by the place's name: `image`, `…Image`, `images.x`, `images[0]`.
fn is_image_place(path: &[ValueStep]) -> bool {
    let mut keys = path.iter().rev();
    match (keys.next(), keys.next()) {
        (Some(ValueStep::Key(key)), _) if key == "image" || key.ends_with("Image") => true,
        (Some(_), Some(ValueStep::Key(parent))) => parent == "images",
        _ => false,
    }
}

fn read_parts(map: &Map<String, Value>, path: &[ValueStep]) -> Option<ImageNode> {
    let text = |key: &str| map.get(key).and_then(scalar_text);
    let (has_tag, has_digest) = (map.contains_key("tag"), map.contains_key("digest"));
    let named_place = is_image_place(path);
    let repository_key = if text("repository").is_some() && (has_tag || has_digest) {
        "repository"
    } else if named_place && text("name").is_some() && has_tag {
        "name"
    } else if named_place && text("image").is_some() && has_tag {
        "image"
    } else {
        return None;
    };
    let registry = text("registry").unwrap_or_default();
    let repository = text(repository_key).unwrap_or_default();
    let joined = match registry.as_str() {
        "" => repository,
        registry => format!("{registry}/{repository}"),
    };
    let mut current = joined.clone();
    for (mark, part) in [(":", text("tag")), ("@", text("digest"))] {
        if let Some(part) = part.filter(|part| !part.is_empty()) {
            current.push_str(mark);
            current.push_str(&part);
        }
    }
    Some(ImageNode {
        path: path.to_vec(),
        shape: NodeShape::Parts {
            repository_key,
            has_registry: map.contains_key("registry"),
            has_tag,
            has_digest,
        },
        repository: if joined.is_empty() { String::new() } else { full_repository(&joined) },
        current,
        is_own: true,
    })
}

fn scalar_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}
