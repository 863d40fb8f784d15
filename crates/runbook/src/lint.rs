//! What is allowed and still likely a mistake: warnings about a document as a whole.

use slipway_problem::{Location, Problem, Problems};
use slipway_yaml::{NodeValue, ScalarStyle, YamlNode};

use crate::diagnostic::Findings;
use crate::manifests;
use crate::model::{Action, Apply, ChartSource, Delete, Document, ManifestSource, Step, ValuesSource};
use crate::text::Substituted;
use crate::variables::{Given, Variables};

/// An atomic release that is given less time than this hardly ever gets ready.
const SHORT: std::time::Duration = std::time::Duration::from_secs(60);
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
    for step in &document.steps {
        let name = &step.name;
        if let (Some(what), true) = (mutable(step), document.state.is_some()) {
            let message = format!("step \"{name}\": {what} may change without the record noticing");
            warn(step.at.clone(), "W004", message, "pin it, or run with --rerun when it changed");
        }
        if document.state.is_some() && skips(step) {
            let message = format!("step \"{name}\": skipIf is redundant, the record leaves out what is done");
            warn(step.at.clone(), "W014", message, "leave out skipIf, or the state");
        }
        if let Action::Helm(helm) = &step.action
            && helm.atomic
            && step.timeout < SHORT
        {
            let message = format!(
                "step \"{name}\": atomic with a timeout of {:?} rolls back sooner than most charts are ready",
                step.timeout
            );
            warn(step.at.clone(), "W015", message, "give it a minute or more");
        }
        if let Some(place) = exposed(step, text, variables) {
            let message = format!(
                "step \"{name}\": a secret variable stands in {place} of the job, where whoever may read Jobs sees it"
            );
            warn(
                step.at.clone(),
                "W009",
                message,
                "apply a Secret in a step before, and let the image read that",
            );
        }
        for (index, (inline, at)) in inlines(step).enumerate() {
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

/// Whether a name stands in an expression as a word.
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

/// What of a step's input can change behind its text.
fn mutable(step: &Step) -> Option<&'static str> {
    let remote =
        |sources: &[ManifestSource]| sources.iter().any(|source| matches!(source, ManifestSource::Url(_)));
    match &step.action {
        Action::Helm(helm) => {
            let unpinned = match &helm.chart {
                ChartSource::Repo { version, .. } => version.is_none(),
                ChartSource::Oci { version, reference, .. } => version.is_none() && !reference.contains('@'),
                ChartSource::Path(_) => false,
            };
            let url = helm.values_from.iter().any(|source| matches!(source, ValuesSource::Url(_)));
            if unpinned { Some("an unpinned chart") } else { url.then_some("a values file by URL") }
        }
        Action::Apply(apply) => remote(&apply.manifests).then_some("a manifest by URL"),
        Action::Delete(Delete::Manifests { manifests, .. }) => {
            remote(manifests).then_some("a manifest by URL")
        }
        _ => None,
    }
}

fn skips(step: &Step) -> bool {
    match &step.action {
        Action::Helm(helm) => helm.skip_if_installed,
        Action::Apply(apply) => apply.skip_if_exists,
        Action::Job(job) => job.skip_if_succeeded,
        _ => false,
    }
}

/// Where in a job a secret value stands.
fn exposed(step: &Step, text: &Substituted, variables: &Variables) -> Option<&'static str> {
    let Action::Job(job) = &step.action else { return None };
    let secrets: Vec<&str> = variables
        .secrets()
        .chain(text.derived_secrets.iter().map(String::as_str))
        .filter(|secret| secret.len() >= TELLING)
        .collect();
    let holds = |value: &String| secrets.iter().any(|secret| value.contains(secret));
    if job.env.iter().any(|(_, value)| holds(value)) {
        Some("env")
    } else if job.args.iter().any(holds) {
        Some("args")
    } else {
        job.command.iter().any(holds).then_some("command")
    }
}

fn inlines(step: &Step) -> impl Iterator<Item = (&String, &Location)> {
    let sources: &[ManifestSource] = match &step.action {
        Action::Apply(Apply { manifests, .. }) | Action::Delete(Delete::Manifests { manifests, .. }) => {
            manifests
        }
        _ => &[],
    };
    sources.iter().filter_map(|source| match source {
        ManifestSource::Inline { text, at } => Some((text, at)),
        _ => None,
    })
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
