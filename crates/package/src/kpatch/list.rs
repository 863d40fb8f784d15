//! The YAML list form: entries of a target and a patch of one of four types.

use slipway_problem::{Location, Problems};
use slipway_yaml::{YamlNode, YamlReader};

use super::MOST_STATEMENTS;
use super::ast::{GroupBody, GroupHeader, PatchFile, PatchGroup, PatchOp, Statement, StepKind};
use super::{flow, line, path};
use crate::report::{coded_error, read_strictly, with_code};
use crate::template::Template;
use crate::val::{ValuePos, ValueReader};

/// Reads a patch of the list form.
pub(crate) fn parse_list(file: &str, text: &str, problems: &mut Problems) -> PatchFile {
    let mut patch = PatchFile::default();
    let documents = match YamlReader::new().anchors(false).max_depth(64).read(text, file) {
        Ok(documents) => documents,
        Err(found) => {
            let found = found.into_iter().map(|problem| flow::relocate_problem(problem, text)).collect();
            problems.extend(with_code(found, "KP020"));
            return patch;
        }
    };
    for document in documents.iter().filter(|document| !document.is_null()) {
        let Some(entries) = document.as_seq() else {
            problems.push(document.problem("expected a list of {target, patch} entries").code("KP050"));
            continue;
        };
        for node in entries {
            patch.groups.extend(read_entry(file, node, problems));
            if patch.statements() > MOST_STATEMENTS {
                problems.push(node.problem(format!("more than {MOST_STATEMENTS} statements")).code("KP001"));
                return patch;
            }
        }
    }
    patch
}

fn node_pos(node: &YamlNode) -> ValuePos {
    ValuePos { line: node.span.line, column: node.span.column, layer: 0 }
}

fn read_entry(file: &str, node: &YamlNode, problems: &mut Problems) -> Option<PatchGroup> {
    if node.as_map().is_none() {
        problems
            .push(node.problem(format!("an entry must be a map, not {}", node.kind_name())).code("KP050"));
        return None;
    }
    let (target, patch, kind, optional) = read_strictly(node, ("KP050", "KP050"), problems, |fields| {
        let kinds = [("", ""), ("strategic", "strategic"), ("merge", "merge"), ("json6902", "json6902")];
        let kind = if fields.optional("type").is_some() { fields.one_of("type", &kinds) } else { Some("") };
        let optional = fields.bool("optional").unwrap_or(false);
        (fields.required("target"), fields.required("patch"), kind, optional)
    });
    let (target, patch, kind) = (target?, patch?, kind?);
    let (mut scope, steps) = match path::parse_target(target.as_str().unwrap_or_default()) {
        Ok(found) => found,
        Err(wrong) => {
            problems.push(target.problem(wrong.message).code(wrong.code));
            return None;
        }
    };
    scope.pos = node_pos(target);
    let header =
        GroupHeader { scope, steps, builder: None, optional, implicit: false, pos: node_pos(target) };
    let reading = ValueReader { file, lines: 0, columns: 0, layer: 0 };
    let val = reading.value(patch, problems);
    line::check_keys(&val, file, problems);
    let body = match kind {
        "" => {
            let Some(fields) = patch.as_map() else {
                problems.push(patch.problem("a field patch is a map of paths to values").code("KP050"));
                return None;
            };
            GroupBody::Statements(
                fields
                    .iter()
                    .filter_map(|(key, value)| read_statement(file, &header, key, value, problems))
                    .collect(),
            )
        }
        "strategic" | "merge" if patch.as_map().is_none() => {
            problems.push(patch.problem(format!("a {kind} patch is a partial object")).code("KP050"));
            return None;
        }
        "json6902" if patch.as_seq().is_none() => {
            problems.push(patch.problem("a json6902 patch is a list of operations").code("KP050"));
            return None;
        }
        "strategic" => GroupBody::Strategic(val),
        "merge" => GroupBody::Merge(val),
        // The only one left.
        _ => GroupBody::Json(val),
    };
    if !matches!(body, GroupBody::Statements(_)) && !header.steps.is_empty() {
        problems.push(
            target
                .problem(format!("a {kind} patch is for whole objects: the target has a path"))
                .code("KP050"),
        );
        return None;
    }
    Some(PatchGroup { header, body })
}

fn read_statement(
    file: &str,
    header: &GroupHeader,
    key: &YamlNode,
    value: &YamlNode,
    problems: &mut Problems,
) -> Option<Statement> {
    let text = key.key_text();
    let (text, optional) = match text.strip_suffix('?') {
        Some(text) => (text, true),
        None => (&*text, false),
    };
    let (steps, op) = match path::parse_whole_keypath(text) {
        Ok(found) => found,
        Err(wrong) => {
            problems.push(key.problem(wrong.message).code(wrong.code));
            return None;
        }
    };
    let at = node_pos(key);
    let steps: Vec<_> = steps
        .into_iter()
        .map(|mut step| {
            step.pos = ValuePos { line: at.line, column: at.column + step.pos.column - 1, layer: 0 };
            step
        })
        .collect();
    let switches = header.steps.is_empty()
        && op == PatchOp::Set
        && matches!(steps.as_slice(), [step] if step.kind == StepKind::Key(Template::Literal("enabled".to_owned())));
    let reading = ValueReader { file, lines: 0, columns: 0, layer: 0 };
    if matches!(op, PatchOp::Delete(_)) && !value.is_null() && value.as_str() != Some("") {
        problems.push(
            coded_error("KP033", "a deletion has no value").at(Location::new(file, at.line, at.column)),
        );
    }
    Some(Statement { steps, op, optional, value: Some(reading.value(value, problems)), switches, pos: at })
}
