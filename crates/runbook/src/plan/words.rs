//! Words plans share.

use crate::model::Selection;

/// The number of objects a detail names.
const NAMED: usize = 3;

/// The first few names, and how many more there are.
pub(crate) fn listed(names: &[String]) -> String {
    let mut text = names.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
    if names.len() > NAMED {
        text.push_str(&format!(" +{}", names.len() - NAMED));
    }
    text
}

/// `1 source`, `2 sources`.
pub(crate) fn sources(count: usize) -> String {
    format!("{count} source{}", if count == 1 { "" } else { "s" })
}

/// The place a selection looks in.
pub(crate) fn scope(selection: &Selection) -> String {
    match (&selection.namespace, selection.all_namespaces) {
        (_, true) => ", all namespaces".to_owned(),
        (Some(namespace), _) => format!(", namespace {namespace}"),
        (None, _) => String::new(),
    }
}
