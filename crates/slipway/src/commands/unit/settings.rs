//! The settings file of a bundle: slots for environments and the strategy.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;
use slipway_problem::Problems;
use slipway_unit::strategy::Strategy;
use slipway_yaml::{FieldReader, YamlReader};

use crate::files;

const API_VERSION: &str = "ktl.dev/unit/v1";

/// What a bundle takes from its settings file.
#[derive(Default)]
pub struct UnitSettings {
    pub overlay_slots: BTreeMap<String, Vec<String>>,
    pub strategy: Option<Value>,
}

/// Reads a settings file; reports everything that is wrong with it.
pub fn read(path: &Path) -> anyhow::Result<UnitSettings> {
    let text = files::read_text(path)?;
    Ok(parse(&text.text, &text.name)?)
}

/// Reads the text of a settings file.
pub fn parse(text: &str, name: &str) -> Result<UnitSettings, Problems> {
    let mut problems = Problems::new();
    let Some(root) = YamlReader::new().gather_one(text, name, &mut problems) else {
        return Err(problems);
    };
    let mut fields = FieldReader::new(&root, &mut problems);
    let version = fields.required_str("apiVersion");
    if fields.node_of("apiVersion").as_str().is_some() && version != API_VERSION {
        fields.report_problem("apiVersion", format!("expected `{API_VERSION}`"));
    }
    let slots = fields.entries("overlaySlots", |env, node, problems| {
        let paths = problems.collect_from(slipway_yaml::from_node::<Vec<String>>(node))?;
        Some((env.key_text().into_owned(), paths))
    });
    let strategy = fields.json("strategy");
    fields.finish();
    if let Some(node) = root.get("strategy") {
        // Read for its mistakes: a unit keeps what the user wrote.
        let _ = Strategy::read(node, &mut problems);
    }
    problems.sort_by_location();
    problems.into_result(UnitSettings { overlay_slots: slots.into_iter().collect(), strategy })
}
