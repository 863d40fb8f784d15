//! The YAML list form: entries of a target and a patch of one of four types.

use slipway_problem::{Location, Problems};
use slipway_yaml::{YamlNode, YamlReader};

use super::MOST_STATEMENTS;
use super::ast::{Body, Group, Header, Op, PatchFile, Statement, StepKind};
use super::{flow, line, path};
use crate::report::{coded, error, strictly};
use crate::template::Template;
use crate::val::{Pos, Reading};

/// Reads a patch of the list form.
pub(crate) fn parse(file: &str, text: &str, problems: &mut Problems) -> PatchFile {
    let mut patch = PatchFile::default();
    let documents = match YamlReader::new().anchors(false).max_depth(64).read(text, file) {
        Ok(documents) => documents,
        Err(found) => {
            let found = found.into_iter().map(|problem| flow::relocated(problem, text)).collect();
            problems.extend(coded(found, "KP020", "KP020", "KP020"));
            return patch;
        }
    };
    for document in documents.iter().filter(|document| !document.is_null()) {
        let Some(entries) = document.as_seq() else {
            problems.push(document.problem("expected a list of {target, patch} entries").code("KP050"));
            continue;
        };
        for node in entries {
            patch.groups.extend(entry(file, node, problems));
            if patch.statements() > MOST_STATEMENTS {
                problems.push(node.problem(format!("more than {MOST_STATEMENTS} statements")).code("KP001"));
                return patch;
            }
        }
    }
    patch
}

fn pos(node: &YamlNode) -> Pos {
    Pos { line: node.span.line, column: node.span.column, layer: 0 }
}

fn entry(file: &str, node: &YamlNode, problems: &mut Problems) -> Option<Group> {
    if node.as_map().is_none() {
        problems.push(node.problem(format!("an entry must be a map, not {}", node.kind())).code("KP050"));
        return None;
    }
    let (target, patch, kind, optional) = strictly(node, ("KP050", "KP050"), problems, |fields| {
        let kinds = [("", ""), ("strategic", "strategic"), ("merge", "merge"), ("json6902", "json6902")];
        let kind = if fields.optional("type").is_some() { fields.one_of("type", &kinds) } else { Some("") };
        let optional = fields.bool("optional").unwrap_or(false);
        (fields.required("target"), fields.required("patch"), kind, optional)
    });
    let (target, patch, kind) = (target?, patch?, kind?);
    let (mut scope, steps) = match path::target(target.as_str().unwrap_or_default()) {
        Ok(found) => found,
        Err(wrong) => {
            problems.push(target.problem(wrong.message).code(wrong.code));
            return None;
        }
    };
    scope.pos = pos(target);
    let header = Header { scope, steps, builder: None, optional, implicit: false, pos: pos(target) };
    let reading = Reading { file, lines: 0, columns: 0, layer: 0 };
    let val = reading.value(patch, problems);
    line::check_keys(&val, file, problems);
    let body = match kind {
        "" => {
            let Some(fields) = patch.as_map() else {
                problems.push(patch.problem("a field patch is a map of paths to values").code("KP050"));
                return None;
            };
            Body::Statements(
                fields
                    .iter()
                    .filter_map(|(key, value)| statement(file, &header, key, value, problems))
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
        "strategic" => Body::Strategic(val),
        "merge" => Body::Merge(val),
        // The only one left.
        _ => Body::Json(val),
    };
    if !matches!(body, Body::Statements(_)) && !header.steps.is_empty() {
        problems.push(
            target
                .problem(format!("a {kind} patch is for whole objects: the target has a path"))
                .code("KP050"),
        );
        return None;
    }
    Some(Group { header, body })
}

fn statement(
    file: &str,
    header: &Header,
    key: &YamlNode,
    value: &YamlNode,
    problems: &mut Problems,
) -> Option<Statement> {
    let text = key.key_text();
    let (text, optional) = match text.strip_suffix('?') {
        Some(text) => (text, true),
        None => (&*text, false),
    };
    let (steps, op) = match path::keypath_alone(text) {
        Ok(found) => found,
        Err(wrong) => {
            problems.push(key.problem(wrong.message).code(wrong.code));
            return None;
        }
    };
    let at = pos(key);
    let steps: Vec<_> = steps
        .into_iter()
        .map(|mut step| {
            step.pos = Pos { line: at.line, column: at.column + step.pos.column - 1, layer: 0 };
            step
        })
        .collect();
    let switches = header.steps.is_empty()
        && op == Op::Set
        && matches!(steps.as_slice(), [step] if step.kind == StepKind::Key(Template::Literal("enabled".to_owned())));
    let reading = Reading { file, lines: 0, columns: 0, layer: 0 };
    if matches!(op, Op::Delete(_)) && !value.is_null() && value.as_str() != Some("") {
        problems.push(error("KP033", "a deletion has no value").at(Location::new(file, at.line, at.column)));
    }
    Some(Statement { steps, op, optional, value: Some(reading.value(value, problems)), switches, pos: at })
}
