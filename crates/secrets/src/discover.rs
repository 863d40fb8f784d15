//! Discovery: every reference in the YAML files below a directory, with its place.

use std::path::Path;

use slipway_problem::{Location, Problems};
use slipway_yaml::{NodeValue, YamlNode};

use crate::reference::{SecretReference, is_reference};

/// A reference in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiscoveredReference {
    pub reference: SecretReference,
    pub place: Location,
}

/// Directories that hold no sources of the user's.
const SKIPPED: [&str; 4] = [".git", ".slipway", "node_modules", "target"];
/// Files larger than this are data, not settings.
const LARGEST: u64 = 4 * 1024 * 1024;

/// Finds every reference in YAML files; texts that are meant to be one and are wrong are problems. Templates
/// that are no YAML before they are rendered are passed over.
pub fn discover_references(root: &Path) -> (Vec<DiscoveredReference>, Problems) {
    let mut found = Vec::new();
    let mut problems = Problems::new();
    let is_kept = |entry: &walkdir::DirEntry| {
        !(entry.file_type().is_dir() && SKIPPED.iter().any(|name| entry.file_name() == *name))
    };
    let files = walkdir::WalkDir::new(root).sort_by_file_name().into_iter().filter_entry(is_kept).flatten();
    for file in files.filter(|entry| entry.file_type().is_file() && is_yaml(entry.path())) {
        let Ok(bytes) = slipway_problem::read_file_within(file.path(), LARGEST) else { continue };
        let Ok(text) = String::from_utf8(bytes) else { continue };
        if !text.to_ascii_lowercase().contains(crate::reference::SCHEME) {
            continue;
        }
        let name = file.path().display().to_string();
        for document in slipway_yaml::parse(&text, &name).unwrap_or_default() {
            visit(&document, &mut found, &mut problems);
        }
    }
    (found, problems)
}

fn is_yaml(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml")
}

fn visit(node: &YamlNode, found: &mut Vec<DiscoveredReference>, problems: &mut Problems) {
    match &node.value {
        NodeValue::Seq(items) => items.iter().for_each(|item| visit(item, found, problems)),
        NodeValue::Map(mapping) => mapping.iter().for_each(|(_, value)| visit(value, found, problems)),
        _ => {
            let Some(text) = node.as_str().filter(|text| is_reference(text)) else { return };
            match text.trim_end_matches('\n').parse::<SecretReference>() {
                Ok(reference) => found.push(DiscoveredReference { reference, place: node.location() }),
                Err(error) => problems.push(error.problem().at(node.location())),
            }
        }
    }
}
