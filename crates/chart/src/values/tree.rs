//! The charts that take part in a rendering: dependencies chosen, aliased, switched on and off, and
//! their values imported.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::rc::Rc;

use serde_json::Value as Json;
use slipway_gotmpl::{GoMap, GoValue};

use super::coalesce::{self, NullHandling};
use crate::error::{LogNotice, Notices};
use crate::load::Chart;
use crate::metadata::{ChartMetadata, Dependency};
use crate::version;
use slipway_go::GoError;

/// A chart in its place in the tree.
#[derive(Clone)]
pub(crate) struct ChartNode<'c> {
    pub(crate) chart: &'c Chart,
    /// The chart's own, or one with another name and fewer dependencies.
    pub(crate) metadata: Cow<'c, ChartMetadata>,
    /// The chart's defaults after imports, where they differ from the file's.
    values: Option<GoMap>,
    /// The file's, taken over when they are first asked for; shared by all places of the chart.
    own: Rc<OnceCell<GoMap>>,
    pub(crate) dependencies: Vec<ChartNode<'c>>,
}

impl<'c> ChartNode<'c> {
    /// Every chart below `chart`, nothing decided yet.
    pub(crate) fn new(chart: &'c Chart) -> Self {
        Self {
            chart,
            metadata: Cow::Borrowed(&chart.metadata),
            values: None,
            own: Rc::default(),
            dependencies: chart.dependencies.iter().map(ChartNode::new).collect(),
        }
    }

    /// The alias where it has one.
    pub(crate) fn name(&self) -> &str {
        &self.metadata.name
    }

    /// Its defaults, to be changed at will: a copy, or what will not be needed again.
    pub(crate) fn take_defaults(&self, last: bool) -> GoMap {
        match &self.values {
            Some(values) if last => values.clone(),
            Some(values) => coalesce::deep_copy(values),
            None => {
                let own = self.own.get_or_init(|| coalesce::to_map(&self.chart.values));
                if last && Rc::strong_count(&self.own) == 1 { own.clone() } else { coalesce::deep_copy(own) }
            }
        }
    }

    /// Decides which dependencies take part and imports their values.
    pub(crate) fn with_dependencies(
        chart: &'c Chart,
        user: &GoMap,
        notices: &mut Notices,
    ) -> Result<Self, GoError> {
        let mut root = Self::new(chart);
        root.choose_dependencies(user, "", notices)?;
        root.import_values(notices)?;
        Ok(root)
    }

    fn choose_dependencies(
        &mut self,
        values: &GoMap,
        path: &str,
        notices: &mut Notices,
    ) -> Result<(), GoError> {
        if self.metadata.dependencies.is_empty() {
            return Ok(());
        }
        let mut declared = self.metadata.dependencies.clone();
        let loaded = std::mem::take(&mut self.dependencies);
        let fits = |node: &ChartNode<'_>, wanted: &Dependency| {
            node.name() == wanted.name && version::is_satisfied(&wanted.version, &node.metadata.version)
        };
        let mut chosen: Vec<ChartNode<'c>> =
            loaded.iter().filter(|node| !declared.iter().any(|wanted| fits(node, wanted))).cloned().collect();
        for wanted in &mut declared {
            if let Some(found) = loaded.iter().find(|node| fits(node, wanted)) {
                let mut node = found.clone();
                if !wanted.alias.is_empty() {
                    node.metadata.to_mut().name = wanted.alias.clone();
                }
                chosen.push(node);
            }
            if !wanted.alias.is_empty() {
                wanted.name = wanted.alias.clone();
            }
            wanted.enabled = true;
        }
        self.dependencies = chosen;

        let values = coalesce::values(self, values, NullHandling::Delete, notices)?;
        apply_tags(&mut declared, &values, notices);
        apply_conditions(&mut declared, &values, path, notices);

        self.dependencies
            .retain(|node| !declared.iter().any(|wanted| !wanted.enabled && wanted.name == node.name()));
        declared.retain(|wanted| wanted.enabled);
        for node in &mut self.dependencies {
            let path = format!("{path}{}.", node.name());
            node.choose_dependencies(&values, &path, notices)?;
        }
        self.metadata.to_mut().dependencies = declared;
        Ok(())
    }

    fn import_values(&mut self, notices: &mut Notices) -> Result<(), GoError> {
        for node in &mut self.dependencies {
            node.import_values(notices)?;
        }
        if self.metadata.dependencies.is_empty() {
            return Ok(());
        }
        let values = coalesce::values(self, &GoMap::new(), NullHandling::Keep, notices)?;
        let imported = GoMap::new();
        let mut declared = self.metadata.dependencies.clone();
        for dependency in &mut declared {
            let mut written_out = Vec::new();
            for import in &dependency.import_values {
                let (child, parent, from) = match import {
                    Json::Object(map) => {
                        let part = |key: &str| map.get(key).map_or_else(|| "<nil>".to_owned(), go_shown);
                        (part("child"), part("parent"), format!(" from chart {}", dependency.name))
                    }
                    Json::String(name) => (format!("exports.{name}"), ".".to_owned(), String::new()),
                    _ => continue,
                };
                written_out.push(serde_json::json!({"child": child, "parent": parent}));
                match coalesce::table_at(&values, &format!("{}.{child}", dependency.name)) {
                    Ok(table) => coalesce::merge_tables(&imported, &at_path(&parent, table), notices),
                    Err(error) => notices.push(LogNotice(format!(
                        "dependencies.go:{}: Warning: ImportValues missing table{from}: {error}",
                        if from.is_empty() { 281 } else { 254 }
                    ))),
                }
            }
            dependency.import_values = written_out;
        }
        // Nothing else holds the values unless something was imported from them.
        let merged = if imported.is_empty() { values } else { coalesce::deep_copy(&values) };
        coalesce::merge_tables(&merged, &coalesce::deep_copy(&imported), notices);
        self.values = Some(merged);
        self.metadata.to_mut().dependencies = declared;
        Ok(())
    }
}

fn go_shown(value: &Json) -> String {
    match value {
        Json::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// `table` under a dotted path; `.` is the root.
fn at_path(path: &str, table: GoMap) -> GoMap {
    if path == "." {
        return table;
    }
    path.split('.').rev().fold(table, |inner, name| [(name, GoValue::Map(inner))].into_iter().collect())
}

fn apply_tags(declared: &mut [Dependency], values: &GoMap, notices: &mut Notices) {
    let Ok(tags) = coalesce::table_at(values, "tags") else { return };
    for dependency in declared {
        let (mut any_true, mut any_false) = (false, false);
        for tag in &dependency.tags {
            match tags.get(tag.as_str()) {
                Some(GoValue::Bool(true)) => any_true = true,
                Some(GoValue::Bool(false)) => any_false = true,
                Some(_) => notices.push(LogNotice(format!(
                    "dependencies.go:88: Warning: Tag '{tag}' for chart {} returned non-bool value",
                    dependency.name
                ))),
                None => {}
            }
        }
        dependency.enabled = any_true || !any_false;
    }
}

fn apply_conditions(declared: &mut [Dependency], values: &GoMap, path: &str, notices: &mut Notices) {
    for dependency in declared {
        for condition in dependency.condition.trim().split(',').filter(|condition| !condition.is_empty()) {
            match coalesce::path_value(values, &format!("{path}{condition}")) {
                Some(GoValue::Bool(enabled)) => {
                    dependency.enabled = enabled;
                    break;
                }
                Some(_) => notices.push(LogNotice(format!(
                    "dependencies.go:63: Warning: Condition path '{condition}' for chart {} returned non-bool value",
                    dependency.name
                ))),
                None => {}
            }
        }
    }
}
