//! Which file, flag or default gave a value its final say.

use serde_json::{Map, Value};
use slipway_problem::Location;
use slipway_yaml::YamlReader;

use crate::load::Chart;
use crate::values::{ChartNode, UserValues};

/// A piece of data a template read and where it came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueOrigin {
    /// As the template wrote it: `.Values.image.tag`.
    pub path: String,
    pub source: OriginSource,
}

/// Where a value was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OriginSource {
    /// A file given with `-f`.
    File(Location),
    /// A flag, with its text.
    Flag { flag: &'static str, text: String },
    /// A chart's values.yaml.
    Default { chart: String, at: Location },
    /// Chart.yaml.
    Chart(Location),
    /// The release itself: its name, namespace and so on.
    Release,
    /// The cluster's or the assumed capabilities.
    Capabilities,
    /// A file of the chart.
    Files,
    /// Nobody gave it.
    Nowhere,
}

impl std::fmt::Display for OriginSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File(at) => write!(f, "{at}"),
            Self::Flag { flag, text } => write!(f, "{flag} {text}"),
            Self::Default { chart, at } => write!(f, "{at} (default of chart {chart})"),
            Self::Chart(at) => write!(f, "{at}"),
            Self::Release => f.write_str("the release"),
            Self::Capabilities => f.write_str("the cluster's capabilities"),
            Self::Files => f.write_str("a file of the chart"),
            Self::Nowhere => f.write_str("not set"),
        }
    }
}

/// Looks up origins for the templates of one chart of the tree.
pub(super) struct OriginLookup<'t, 'c> {
    /// From the root chart down to the template's.
    charts: Vec<&'t ChartNode<'c>>,
    user: &'t UserValues,
}

impl<'t, 'c> OriginLookup<'t, 'c> {
    /// `template` is a path such as `root/charts/child/templates/x.yaml`.
    pub(super) fn new(root: &'t ChartNode<'c>, user: &'t UserValues, template: &str) -> Self {
        let mut charts = vec![root];
        let mut rest = template.strip_prefix(root.name()).unwrap_or_default();
        while let Some(below) = rest.strip_prefix("/charts/") {
            let current = charts[charts.len() - 1];
            let Some(child) = current
                .dependencies
                .iter()
                .find(|child| below.strip_prefix(child.name()).is_some_and(|after| after.starts_with('/')))
            else {
                break;
            };
            rest = &below[child.name().len()..];
            charts.push(child);
        }
        Self { charts, user }
    }

    pub(super) fn of(&self, read: &str) -> ValueOrigin {
        let parts = split_path(read);
        let source = match parts.first().map(String::as_str) {
            Some("Values") => self.value(&parts[1..]),
            Some("Chart") => self.chart_field(&parts[1..]),
            Some("Release" | "Template") => OriginSource::Release,
            Some("Capabilities") => OriginSource::Capabilities,
            Some("Files") => OriginSource::Files,
            Some("Subcharts") => OriginSource::Nowhere,
            _ => OriginSource::Nowhere,
        };
        ValueOrigin { path: read.to_owned(), source }
    }

    fn value(&self, path: &[String]) -> OriginSource {
        if path.is_empty() {
            return OriginSource::Nowhere;
        }
        // A parent's globals win over a child's; everything else is looked up where it belongs.
        let first = if path[0] == "global" { 0 } else { self.charts.len() - 1 };
        for level in first..self.charts.len() {
            let names: Vec<String> =
                self.charts[1..=level].iter().map(|chart| chart.name().to_owned()).collect();
            let full: Vec<String> = names.iter().chain(path).cloned().collect();
            if let Some(source) = self.user_value(&full) {
                return source;
            }
            for above in 0..=level {
                let inner = &full[above..];
                if let Some(source) =
                    default_value(self.charts[above].chart, self.charts[above].name(), inner)
                {
                    return source;
                }
            }
        }
        OriginSource::Nowhere
    }

    fn user_value(&self, path: &[String]) -> Option<OriginSource> {
        let user = self.user;
        let flags: [(&'static str, &[String]); 5] = [
            ("--set-literal", &user.set_literal),
            ("--set-file", &user.set_file),
            ("--set-string", &user.set_string),
            ("--set", &user.set),
            ("--set-json", &user.set_json),
        ];
        for (flag, texts) in flags {
            for text in texts.iter().rev() {
                let mut map = Map::new();
                if user.parse_flag(flag, text, &mut map).is_ok() && has(&map, path) {
                    return Some(OriginSource::Flag { flag, text: text.clone() });
                }
            }
        }
        user.files
            .iter()
            .rev()
            .find_map(|(name, content)| locate(content, name, path).map(OriginSource::File))
    }

    fn chart_field(&self, path: &[String]) -> OriginSource {
        let node = self.charts[self.charts.len() - 1];
        let key = path.first().map(|name| match name.as_str() {
            "APIVersion" => "apiVersion".to_owned(),
            name => {
                let mut letters = name.chars();
                letters.next().map_or(String::new(), |first| first.to_lowercase().chain(letters).collect())
            }
        });
        let file = format!("{}/Chart.yaml", node.name());
        let at = node
            .chart
            .raw_file("Chart.yaml")
            .and_then(|raw| locate(&raw.data, &file, &[key.unwrap_or_default()]))
            .unwrap_or_else(|| Location::file(file));
        OriginSource::Chart(at)
    }
}

fn default_value(chart: &Chart, name: &str, path: &[String]) -> Option<OriginSource> {
    let file = if chart.source.is_empty() {
        format!("{name}/values.yaml")
    } else {
        format!("{}/values.yaml", chart.source.trim_end_matches('/'))
    };
    let at = locate(&chart.raw_file("values.yaml")?.data, &file, path)?;
    Some(OriginSource::Default { chart: name.to_owned(), at })
}

/// The place of a path in a YAML text.
fn locate(text: &[u8], file: &str, path: &[String]) -> Option<Location> {
    let text = std::str::from_utf8(text).ok()?;
    let documents = YamlReader::helm().read(text, file).ok()?;
    let node = documents.first()?.at(path.iter().map(String::as_str))?;
    Some(node.location())
}

fn has(map: &Map<String, Value>, path: &[String]) -> bool {
    let Some((first, rest)) = path.split_first() else { return false };
    let mut here = map.get(first);
    for part in rest {
        here = match here {
            Some(Value::Object(map)) => map.get(part),
            Some(Value::Array(items)) => part.parse().ok().and_then(|index: usize| items.get(index)),
            _ => None,
        };
    }
    here.is_some()
}

/// `.Values.a.b[0]` in parts.
fn split_path(path: &str) -> Vec<String> {
    let mut parts = Vec::new();
    for part in path.trim_start_matches('.').split('.') {
        let mut pieces = part.split('[');
        if let Some(name) = pieces.next().filter(|name| !name.is_empty()) {
            parts.push(name.to_owned());
        }
        parts.extend(pieces.map(|index| index.trim_end_matches(']').to_owned()));
    }
    parts
}
