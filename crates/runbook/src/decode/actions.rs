//! Reads the action of a step, and the fields several types of steps share.

use serde_json::Value as Json;
use slipway_manifest::selector::{FieldSelector, LabelSelector};
use slipway_problem::Problem;
use slipway_yaml::YamlNode;

use super::block::Block;
use super::{json, names};
use crate::model::{Action, ManifestSource, Selection};
use crate::steps::{STEP_TYPES, StepType};

const RENAMED_SKIP: &[(&str, &str)] = &[
    ("skipIfInstalled", "`skipIf: installed`"),
    ("skipIfExists", "`skipIf: exists`"),
    ("skipIfSucceeded", "`skipIf: succeeded`"),
    ("repository", "`repo`"),
];
/// Values of `skipIf` and where they are allowed.
const SKIPS: &[(&str, &str)] = &[("installed", "helm"), ("exists", "apply"), ("succeeded", "job")];

/// Reads the one action of a step and gives it with its block as JSON.
pub(super) fn read(step: &Block<'_, '_>, name: &str) -> Option<(Action, Json)> {
    let known: Vec<&str> = STEP_TYPES.iter().map(|kind| kind.key).collect();
    let present: Vec<&StepType> = STEP_TYPES.iter().filter(|kind| step.raw(kind.key).is_some()).collect();
    let kind = match present[..] {
        [] => {
            let problem = Problem::error(format!("expected exactly one of {}, got none", known.join(", ")));
            if step.node.as_map().is_some() {
                step.missing("E055", problem);
            }
            return None;
        }
        [one] => one,
        ref several => {
            let message = format!(
                "expected exactly one of {}, got {}: {}",
                known.join(", "),
                several.len(),
                several.iter().map(|kind| kind.key).collect::<Vec<_>>().join(", ")
            );
            let last = several.iter().map(|kind| step.key(kind.key)).max_by_key(|key| key.span.start);
            step.error(last.unwrap_or(step.node), "", "E056", message);
            return None;
        }
    };
    let node = step.raw(kind.key)?;
    if node.is_null() {
        let message = format!("{} is empty: {}", kind.key, kind.needed);
        step.error(step.key(kind.key), kind.key, "E057", message);
        return None;
    }
    let block = Block::new(node, step.at.field(kind.key), step.findings);
    node.as_map()?;
    let action = (kind.decode)(&block, name);
    block.finish(RENAMED_SKIP);
    Some((action?, json(node)))
}

pub(crate) fn skip_if(block: &Block<'_, '_>, word: &'static str, code: &str) -> bool {
    block.word("skipIf", code, &[(word, true)], SKIPS).unwrap_or(false)
}

/// A namespace that must be a label.
pub(crate) fn namespace(block: &Block<'_, '_>, code: &str) -> Option<String> {
    let (node, text) = block.filled("namespace")?;
    if let Some(problem) = names::label("namespace", text) {
        block.report(node, "namespace", code, problem);
    }
    Some(text.to_owned())
}

pub(crate) fn is_http(url: &str) -> bool {
    ["http://", "https://"].iter().any(|scheme| url.len() > scheme.len() && url.starts_with(scheme))
}

pub(crate) fn manifests(block: &Block<'_, '_>) -> Option<Vec<ManifestSource>> {
    let items = block.list("manifests");
    let mut sources = Vec::new();
    let mut bad = false;
    for (at, node) in &items {
        let source = Block::new(node, at.clone(), block.findings);
        let filled: Vec<_> = ["inline", "file", "url", "kustomize"]
            .into_iter()
            .filter_map(|key| source.filled(key).map(|(node, text)| (key, node, text)))
            .collect();
        match filled[..] {
            [(key, place, text)] => match source_of(&source, key, place, text) {
                Some(found) => sources.push(found),
                None => bad = true,
            },
            _ => {
                bad = true;
                let problem = Problem::error(format!(
                    "expected exactly one of inline, file, url, kustomize, got {}",
                    count(filled.len())
                ));
                source.missing("E301", problem);
            }
        }
        source.finish(&[]);
    }
    (!bad && !items.is_empty()).then_some(sources)
}

pub(crate) fn count(number: usize) -> String {
    if number == 0 { "none".into() } else { number.to_string() }
}

fn source_of(
    block: &Block<'_, '_>,
    key: &'static str,
    node: &YamlNode,
    text: &str,
) -> Option<ManifestSource> {
    let text = text.to_owned();
    match key {
        "inline" => {
            let at = block.findings.text().locate(node.span.start);
            Some(ManifestSource::Inline { text, at })
        }
        "file" => Some(ManifestSource::File(text)),
        "url" if is_http(&text) => Some(ManifestSource::Url(text)),
        "url" => {
            block.error(node, key, "E303", "url must be an HTTP(S) URL");
            None
        }
        _ if ["./", "../", "/"].iter().any(|start| text.starts_with(start)) => {
            Some(ManifestSource::Kustomize(text))
        }
        _ => {
            let problem = Problem::error("kustomize must be a local path");
            block.report(node, key, "E302", problem.hint("start it with `./`, `../` or `/`"));
            None
        }
    }
}

/// Splits `TYPE` or `TYPE/NAME`.
pub(crate) fn resource(text: &str) -> Option<(&str, Option<&str>)> {
    match text.split_once('/') {
        None if text.is_empty() => None,
        None => Some((text, None)),
        Some((kind, name)) if kind.is_empty() || name.is_empty() || name.contains('/') => None,
        Some((kind, name)) => Some((kind, Some(name))),
    }
}

/// A resource argument with its namespace and selectors. Codes: malformed, two scopes, a selector with a
/// name, all namespaces with a name, selector syntax.
pub(crate) fn selected(
    block: &Block<'_, '_>,
    node: &YamlNode,
    key: &'static str,
    text: &str,
    [malformed, scopes, selector_name, all_name, syntax]: [&str; 5],
) -> Option<Selection> {
    let namespace = namespace(block, "E308");
    let all_namespaces = block.bool("allNamespaces").unwrap_or(false);
    let selector = block.filled("selector");
    let field_selector = block.filled("fieldSelector");
    let Some((kind, name)) = resource(text) else {
        let problem = Problem::error(format!("`{text}` is neither TYPE nor TYPE/NAME"));
        block.report(node, key, malformed, problem.hint("write `pods` or `deployment/web`"));
        return None;
    };
    if all_namespaces && namespace.is_some() {
        block.exclusive(
            scopes,
            ["namespace", "allNamespaces"],
            "namespace and allNamespaces are mutually exclusive",
        );
    }
    if name.is_some() {
        for (given, key) in [(selector, "selector"), (field_selector, "fieldSelector")] {
            if given.is_some() {
                let message = format!("{key} and a name ({text}) are mutually exclusive");
                block.error(block.key(key), key, selector_name, message);
            }
        }
        if all_namespaces {
            let message = format!("allNamespaces and a name ({text}) are mutually exclusive");
            block.error(block.key("allNamespaces"), "allNamespaces", all_name, message);
        }
    }
    if let Some((node, text)) = selector
        && let Err(error) = LabelSelector::parse(text)
    {
        block.error(node, "selector", syntax, format!("selector is not understood: {error}"));
    }
    if let Some((node, text)) = field_selector
        && let Err(error) = FieldSelector::parse(text)
    {
        block.error(node, "fieldSelector", syntax, format!("fieldSelector is not understood: {error}"));
    }
    let text = |given: Option<(&YamlNode, &str)>| given.map(|(_, text)| text.to_owned());
    Some(Selection {
        kind: kind.to_owned(),
        name: name.map(str::to_owned),
        namespace,
        all_namespaces,
        selector: text(selector),
        field_selector: text(field_selector),
    })
}

/// Checks the grammar of `for` and `waitFor`.
pub(crate) fn until(block: &Block<'_, '_>, node: &YamlNode, key: &'static str, code: &str, text: &str) {
    if let Err(error) = slipway_cluster::wait::Condition::parse(text) {
        let mut problem = Problem::error(error.message);
        problem.hint = error.hint;
        block.report(node, key, code, problem);
    }
}
