//! Checks what can be checked without compiling an expression.

use std::collections::BTreeMap;

use serde_json::Value;

use super::dialect::{self, bodies};
use super::node::BodyKind;
use super::{SpecFault, SpecProblem};
use crate::api::{ForEach, GraphSpec, NodeSpec};

/// How many nodes a Graph may have.
pub(crate) const MOST_NODES: usize = 1000;
const MOST_CLAUSES: usize = 32;
const LONGEST_CLAUSE: usize = 4 << 10;
const LONGEST_ID: usize = 63;
const SHORTEST_RECHECK: std::time::Duration = std::time::Duration::from_secs(5);

/// Reports everything about a spec that is not declared as it should be.
pub(super) fn check(spec: &GraphSpec, problems: &mut Vec<SpecProblem>) {
    if spec.nodes.len() > MOST_NODES {
        let message = format!("{} nodes are too many: at most {MOST_NODES}", spec.nodes.len());
        problems.push(problem("spec.nodes".to_owned(), message));
    }
    let mut ids: BTreeMap<String, usize> = BTreeMap::new();
    for (index, node) in spec.nodes.iter().enumerate() {
        let place = format!("spec.nodes[{index}]");
        let mut say =
            |field: &str, message: String| problems.push(problem(format!("{place}{field}"), message));
        check_id(&node.id, &mut say);
        if let Some(first) = ids.insert(node.id.to_lowercase(), index) {
            let other = &spec.nodes[first].id;
            say(
                ".id",
                format!("`{}` and `{other}` of spec.nodes[{first}] differ in nothing but case", node.id),
            );
        }
        check_body(node, &mut say);
        check_clauses(node, &mut say);
        check_relations(spec, node, &mut say);
    }
}

fn problem(path: String, message: String) -> SpecProblem {
    SpecProblem { fault: SpecFault::Declaration, path, message, hint: None }
}

fn check_id(id: &str, say: &mut impl FnMut(&str, String)) {
    let is_name = id.starts_with(|c: char| c.is_ascii_alphabetic())
        && id.ends_with(|c: char| c.is_ascii_alphanumeric())
        && id.chars().all(|c| c.is_ascii_alphanumeric());
    if !is_name {
        say(".id", format!("`{id}` is no id: letters and digits, beginning with a letter"));
    } else if id.len() > LONGEST_ID {
        say(".id", format!("`{id}` is longer than {LONGEST_ID} characters"));
    } else if slipway_cel::is_reserved(id) {
        say(".id", format!("`{id}` is a word of the expression language"));
    }
}

fn check_body(node: &NodeSpec, say: &mut impl FnMut(&str, String)) {
    let bodies = bodies(node);
    let words: Vec<&str> = bodies.iter().map(|(keyword, _)| *keyword).collect();
    match words.as_slice() {
        [] => say("", "one of `template`, `patch`, `ref`, `watch` and `def` is needed".to_owned()),
        [_] => {}
        several => say("", format!("only one of {} can be there", several.join(", "))),
    }
    let Some(shape) = dialect::shape(node) else { return };
    let keyword = shape.keyword;
    let Some(fields) = shape.body.as_object() else {
        say(&format!(".{keyword}"), "must be a map".to_owned());
        return;
    };
    if node.lifecycle.is_some() && shape.kind != BodyKind::Template {
        say(".lifecycle", "belongs to `template` alone".to_owned());
    }
    if shape.kind == BodyKind::Values {
        return;
    }
    for field in ["apiVersion", "kind"] {
        match fields.get(field).and_then(Value::as_str) {
            None | Some("") => say(&format!(".{keyword}.{field}"), "is required".to_owned()),
            Some(text) if text.contains("${") => {
                say(
                    &format!(".{keyword}.{field}"),
                    "must not be an expression: it decides what is watched".to_owned(),
                );
            }
            Some(_) => {}
        }
    }
    let is_named = fields.get("metadata").and_then(|metadata| metadata.get("name")).is_some();
    match shape.kind {
        BodyKind::Watch if fields.get("selector").is_none_or(|selector| !selector.is_object()) => {
            say(&format!(".{keyword}.selector"), "must be a map of labels or a label selector".to_owned());
        }
        BodyKind::Watch => {}
        _ if !is_named => say(&format!(".{keyword}.metadata.name"), "is required".to_owned()),
        _ => {}
    }
}

fn check_clauses(node: &NodeSpec, say: &mut impl FnMut(&str, String)) {
    let lists = [
        ("includeWhen", &node.include_when),
        ("readyWhen", &node.ready_when),
        ("propagateWhen", &node.propagate_when),
    ];
    for (field, clauses) in lists {
        if clauses.len() > MOST_CLAUSES {
            say(
                &format!(".{field}"),
                format!("{} conditions are too many: at most {MOST_CLAUSES}", clauses.len()),
            );
        }
        for (index, clause) in clauses.iter().enumerate() {
            if clause.len() > LONGEST_CLAUSE {
                say(&format!(".{field}[{index}]"), format!("is longer than {LONGEST_CLAUSE} bytes"));
            }
        }
    }
    if let Some(text) = &node.recheck_after {
        match recheck(text) {
            Some(duration) if duration >= SHORTEST_RECHECK => {}
            Some(_) => say(".recheckAfter", format!("`{text}` is less than 5s")),
            None => say(".recheckAfter", format!("`{text}` is no duration")),
        }
    }
}

/// Reads a duration as Go writes it.
pub(super) fn recheck(text: &str) -> Option<std::time::Duration> {
    let parsed = slipway_go::time::Duration::parse(text.as_bytes()).ok()?;
    std::time::Duration::try_from(jiff::SignedDuration::from(parsed)).ok()
}

fn check_relations(spec: &GraphSpec, node: &NodeSpec, say: &mut impl FnMut(&str, String)) {
    for (variable, _) in repeats(node) {
        if spec.nodes.iter().any(|other| other.id == variable) {
            say(".forEach", format!("the variable `{variable}` has the name of a node"));
        } else if slipway_cel::is_reserved(variable) || variable.is_empty() {
            say(".forEach", format!("`{variable}` cannot be a variable"));
        }
    }
    match &node.for_each {
        Some(ForEach::One(map)) if map.len() != 1 => {
            say(".forEach", "needs exactly one variable; several go into a list".to_owned());
        }
        Some(ForEach::Many(list)) if list.is_empty() || list.iter().any(|map| map.len() != 1) => {
            say(".forEach", "every item of the list needs exactly one variable".to_owned());
        }
        _ => {}
    }
    let Some(target) = &node.finalizes else { return };
    if *target == node.id {
        say(".finalizes", "a node cannot finalize itself".to_owned());
        return;
    }
    let found = spec.nodes.iter().find(|other| other.id == *target);
    match found.and_then(dialect::shape).map(|shape| shape.kind) {
        Some(BodyKind::Template) | None => {}
        Some(_) => say(".finalizes", format!("`{target}` is no `template`")),
    }
    if dialect::shape(node).is_some_and(|shape| shape.kind != BodyKind::Template) {
        say(".finalizes", "only a `template` can finalize".to_owned());
    }
}

/// The variables a node is repeated for, with their collections.
pub(super) fn repeats(node: &NodeSpec) -> Vec<(&str, &str)> {
    match &node.for_each {
        None => Vec::new(),
        Some(ForEach::One(map)) => map.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect(),
        Some(ForEach::Many(list)) => {
            list.iter().flatten().map(|(name, text)| (name.as_str(), text.as_str())).collect()
        }
    }
}
