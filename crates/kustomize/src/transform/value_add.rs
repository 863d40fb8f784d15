//! `ValueAddTransformer`: one text put into fields of many objects, whole or as a part of a file path.

use std::path::Path;

use serde_json::Value;
use slipway_problem::{Location, Problem, Problems};

use crate::files::{display_path, normalise_path};
use crate::resource::{Resource, scalar_text};
use crate::selector::TargetSelector;
use crate::transform::lookup::{LookupError, PathStep, find_or_make};
use crate::transform::namespace;
use crate::written::read_unquoted;

/// A text and the fields it is put into.
#[derive(Debug)]
pub(crate) struct ValueAddition {
    pub(crate) value: String,
    pub(crate) targets: Vec<AdditionTarget>,
}

/// One field of the objects a selector finds.
#[derive(Debug)]
pub(crate) struct AdditionTarget {
    /// All objects when absent.
    pub(crate) selector: Option<TargetSelector>,
    pub(crate) field: AdditionField,
    /// The position, from 1, in the file path the field holds; the whole field when absent.
    pub(crate) position: Option<usize>,
    pub(crate) at: Location,
}

/// The field a text is put into.
#[derive(Debug)]
pub(crate) enum AdditionField {
    /// `metadata/namespace`, of objects that can have one.
    Namespace,
    Path(Vec<PathStep>),
}

pub(crate) fn add_values(resources: &mut [Resource], addition: &ValueAddition, problems: &mut Problems) {
    for target in &addition.targets {
        let selected = |resource: &&mut Resource| {
            target.selector.as_ref().is_none_or(|selector| selector.matches(resource))
        };
        for resource in resources.iter_mut().filter(selected) {
            let result = match &target.field {
                AdditionField::Namespace => {
                    namespace::move_plainly(resource, &addition.value, &target.at, problems);
                    Ok(())
                }
                AdditionField::Path(path) => put_text(resource, path, &addition.value, target.position),
            };
            if let Err(error) = result {
                problems.push(
                    Problem::error(format!(
                        "`{}`: cannot add `{}`: {error}",
                        resource.current_id(),
                        addition.value
                    ))
                    .at(target.at.clone()),
                );
            }
        }
    }
}

fn put_text(
    resource: &mut Resource,
    path: &[PathStep],
    text: &str,
    position: Option<usize>,
) -> Result<(), LookupError> {
    let document = resource.document.clone();
    let place = find_or_make(&mut resource.value, path)?;
    let before = scalar_text(place);
    let text = match position {
        Some(position) => insert_part(before.as_deref().unwrap_or_default(), position - 1, text),
        None => text.to_owned(),
    };
    // The text takes over the quotes of the one before it, and without any it can read as a number.
    let quoted = match (&document, &before, path.last()) {
        (Some(document), Some(before), Some(PathStep::Field(key))) => document.is_quoted(key, before),
        _ => false,
    };
    if quoted {
        *place = Value::String(text);
        return Ok(());
    }
    *place = read_unquoted(&text);
    if let Some(PathStep::Field(key)) = path.last() {
        resource.untagged.push((key.clone(), text));
    }
    Ok(())
}

/// Inserts a part into a file path; a path that starts at the root still does.
fn insert_part(path: &str, position: usize, part: &str) -> String {
    let parts: Vec<&str> = match path {
        "" => Vec::new(),
        "/" => vec![""],
        path => path.split('/').collect(),
    };
    let mut position = position.min(parts.len());
    let absolute = parts.first() == Some(&"");
    if absolute && position < parts.len() {
        position += 1;
    }
    let mut all = parts;
    all.insert(position, part);
    let joined: Vec<&str> = all.into_iter().filter(|part| !part.is_empty()).collect();
    let clean = display_path(&normalise_path(Path::new(&joined.join("/"))));
    if absolute { format!("/{clean}") } else { clean }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_inserted_into_file_paths() {
        for (path, position, expected) in [
            ("", 1, "PEACH"),
            ("/", 1, "/PEACH"),
            ("pie", 1, "PEACH/pie"),
            ("/pie", 1, "/PEACH/pie"),
            ("raw", 2, "raw/PEACH"),
            ("/raw", 2, "/raw/PEACH"),
            ("a/nice/warm/pie", 4, "a/nice/warm/PEACH/pie"),
            ("/a/nice/warm/pie", 4, "/a/nice/warm/PEACH/pie"),
            ("/a/b", 999, "/a/b/PEACH"),
        ] {
            assert_eq!(insert_part(path, position - 1, "PEACH"), expected, "{path} {position}");
        }
    }
}
