//! Likely mistakes that are allowed: warnings about a document as a whole.

use slipway_problem::{Location, Problem, Problems};
use slipway_yaml::{NodeValue, ScalarStyle, YamlNode};

use crate::diagnostic::Findings;
use crate::manifests;
use crate::model::Document;
use crate::steps::StepWarning;
use crate::text::Substituted;
use crate::variables::{Given, Variables};

/// Shorter secrets stand in ordinary text by chance.
const TELLING: usize = 4;

/// Adds warnings about a document that was read without errors.
pub(crate) fn look(document: &Document, root: &YamlNode, variables: &Variables, findings: &Findings<'_>) {
    let text = findings.text();
    let mut problems = Problems::new();
    let mut warn = |at: Location, code: &str, message: String, hint: &str| {
        let problem = Problem::warning(message).code(code).in_text(at, &text.source);
        problems.push(problem.hint(hint));
    };
    unused(document, text, variables, &mut warn);
    line_breaks(root, text, &mut warn);
    let secrets: Vec<&str> = variables
        .secrets()
        .chain(text.derived_secrets.iter().map(String::as_str))
        .filter(|secret| secret.len() >= TELLING)
        .collect();
    for step in &document.steps {
        let name = &step.name;
        let (action, has_state) = (step.action.as_step(), document.state.is_some());
        if let Some(what) = action.inputs().mutable().filter(|_| has_state) {
            let message = format!("step \"{name}\": {what} may change without the record noticing");
            warn(step.at.clone(), "W004", message, "pin it, or run with --rerun when it changed");
        }
        if has_state && action.skips_done() {
            let message = format!("step \"{name}\": skipIf is redundant, the record leaves out what is done");
            warn(step.at.clone(), "W014", message, "leave out skipIf, or the state");
        }
        for StepWarning { code, message, hint } in action.lint(step, &secrets) {
            warn(step.at.clone(), code, format!("step \"{name}\": {message}"), hint);
        }
        for (index, (inline, at)) in action.inputs().inline().enumerate() {
            if let Some(why) = suspicious(inline) {
                let message = format!("step \"{name}\": manifests[{index}] (inline) {why}");
                warn(at.clone(), "W008", message, "it will fail when the step runs");
            }
        }
    }
    findings.take(problems);
}

type Warn<'w> = dyn FnMut(Location, &str, String, &str) + 'w;

/// Names given with `--set` that nothing asks for.
fn unused(document: &Document, text: &Substituted, variables: &Variables, warn: &mut Warn<'_>) {
    for (name, variable) in variables.iter().filter(|(_, variable)| variable.given == Given::Flag) {
        let referenced = text.references.iter().any(|reference| reference.name == *name);
        let asked = document.steps.iter().filter_map(|step| step.when.as_ref());
        let mut asked = asked.map(|when| when.expression.as_str());
        if !referenced && !variable.secret && !asked.any(|expression| mentions(expression, name)) {
            let at = Location::file(text.file.as_str());
            warn(
                at,
                "W006",
                format!("--set {name}: nothing in the runbook asks for it"),
                "check its spelling",
            );
        }
    }
}

/// Tells that a name stands in an expression as a word.
fn mentions(expression: &str, name: &str) -> bool {
    let word = |c: char| c.is_alphanumeric() || c == '_';
    expression.match_indices(name).any(|(start, found)| {
        let before = expression[..start].chars().next_back();
        let after = expression[start + found.len()..].chars().next();
        !before.is_some_and(word) && !after.is_some_and(word)
    })
}

/// Values of several lines that do not stand in a block scalar.
fn line_breaks(root: &YamlNode, text: &Substituted, warn: &mut Warn<'_>) {
    let several: Vec<_> = text.values().filter(|(span, _)| text.text[span.clone()].contains('\n')).collect();
    if several.is_empty() {
        return;
    }
    let mut blocks = Vec::new();
    let mut open = vec![root];
    while let Some(node) = open.pop() {
        match &node.value {
            NodeValue::Seq(items) => open.extend(items),
            NodeValue::Map(entries) => open.extend(entries.iter().flat_map(|(key, value)| [key, value])),
            _ if matches!(node.style(), Some(ScalarStyle::Literal | ScalarStyle::Folded)) => {
                blocks.push(node.span.start..node.span.end);
            }
            _ => {}
        }
    }
    for (span, reference) in several {
        let inside = blocks.iter().any(|block| block.start <= span.start && span.end <= block.end);
        let in_comment = text.references.get(reference).is_some_and(|reference| reference.in_comment);
        if !inside && !in_comment {
            let name = text.references.get(reference).map_or("", |reference| reference.name.as_str());
            let message =
                format!("the value of `{name}` has several lines and does not stand in a block scalar");
            warn(
                text.locate(span.start),
                "W011",
                message,
                "write it below `|` with `nindent`, or use `toJson`",
            );
        }
    }
}

fn suspicious(inline: &str) -> Option<String> {
    let (mut objects, mut problems) = (Vec::new(), Problems::new());
    manifests::read(inline, "inline", &mut objects, &mut problems);
    if let Some(problem) = problems.iter().next() {
        return Some(format!("is not YAML: {}", problem.message));
    }
    let nameless =
        objects.iter().any(|object| object.get("kind").and_then(serde_json::Value::as_str).is_none());
    (nameless || objects.is_empty()).then(|| "holds no object with a kind".to_owned())
}
