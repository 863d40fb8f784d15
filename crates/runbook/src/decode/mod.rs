//! From a tree of nodes to a document, with every rule of the format checked on the way.

pub(crate) mod actions;
pub(crate) mod block;
pub(crate) mod chart;
pub(crate) mod names;
mod when;

use std::time::Duration;

use serde_json::Value as Json;
use slipway_graph::{Defect, Graph};
use slipway_problem::Problem;
use slipway_yaml::YamlNode;

use self::block::Block;
use crate::diagnostic::{At, Findings};
use crate::model::{Document, OnError, State, Step};
use crate::variables::Variables;

const API_VERSION: &str = "khook.io/v1";
const KIND: &str = "Khook";
const ON_ERROR: &[(&str, OnError)] = &[("fail", OnError::Fail), ("continue", OnError::Continue)];

/// Settings a step has unless it says otherwise.
#[derive(Clone, Copy)]
struct Defaults {
    timeout: Duration,
    retries: u32,
    retry_delay: Duration,
    on_error: OnError,
}

/// Reads the tree. Gives nothing if anything was wrong.
pub(crate) fn document(root: &YamlNode, variables: &Variables, findings: &Findings<'_>) -> Option<Document> {
    if root.as_map().is_none() {
        let problem = if root.is_null() {
            Problem::error("the document is empty")
        } else {
            Problem::error(format!("a document is a mapping, not {}", root.kind()))
        };
        let problem = problem.hint("start with `apiVersion: khook.io/v1` and `kind: Khook`");
        findings.add(root, &At::default(), "E005", problem);
        return None;
    }
    let block = Block::new(root, At::default(), findings);
    envelope(&block);
    let name = metadata(&block);
    let defaults = defaults(&block);
    let state = state(&block, name);
    let steps = steps(&block, defaults, variables);
    block.finish(&[("operations", "`steps`"), ("config", "`defaults`")]);
    Some(Document { name: name?.to_owned(), state, steps, json: root.to_json() })
}

fn envelope(block: &Block<'_, '_>) {
    for (key, expected, code) in [("apiVersion", API_VERSION, "E020"), ("kind", KIND, "E021")] {
        match block.string(key) {
            Some((_, found)) if found == expected => {}
            Some((node, found)) => {
                let mut problem = Problem::error(format!("{key} must be `{expected}`, found `{found}`"));
                if matches!(found, "ClusterBootstrap" | "khook.dvrkn.com/v1") {
                    problem = problem.hint("this is a file of the prototype: rewrite it for khook.io/v1");
                }
                block.report(node, key, code, problem);
            }
            None if block.get(key).is_some() => {}
            None => block.missing(code, Problem::error(format!("{key} must be `{expected}`, found nothing"))),
        }
    }
}

fn metadata<'n>(block: &Block<'n, '_>) -> Option<&'n str> {
    let Some(metadata) = block.block("metadata") else {
        block.missing("E022", Problem::error("metadata.name is required"));
        return None;
    };
    let name = metadata.public_name("name").map(|(_, name)| name).filter(|name| !name.is_empty());
    if name.is_none() && metadata.get("name").is_none_or(|node| node.as_str() == Some("")) {
        metadata.missing("E022", Problem::error("metadata.name is required"));
    }
    metadata.finish(&[]);
    name
}

fn defaults(block: &Block<'_, '_>) -> Defaults {
    let built_in = Defaults {
        timeout: Duration::from_secs(300),
        retries: 0,
        retry_delay: Duration::from_secs(10),
        on_error: OnError::Fail,
    };
    let Some(block) = block.block("defaults") else { return built_in };
    let defaults = knobs(&block, built_in);
    block.finish(&[]);
    defaults
}

/// Timeout, retries and the like, of the defaults or of a step.
fn knobs(block: &Block<'_, '_>, defaults: Defaults) -> Defaults {
    let timeout = block.duration("timeout").map(|(node, timeout)| {
        if timeout.is_zero() {
            block.error(node, "timeout", "E032", "timeout must be more than zero");
        }
        timeout
    });
    Defaults {
        timeout: timeout.unwrap_or(defaults.timeout),
        retries: block.retries().unwrap_or(defaults.retries),
        retry_delay: block.duration("retryDelay").map_or(defaults.retry_delay, |(_, delay)| delay),
        on_error: block.word("onError", "E034", ON_ERROR, &[]).unwrap_or(defaults.on_error),
    }
}

fn state(block: &Block<'_, '_>, document: Option<&str>) -> Option<State> {
    if let Some(node) = block.raw("state")
        && node.is_null()
    {
        let problem = Problem::warning("`state:` says nothing, so no record is kept");
        block.report(block.key("state"), "state", "W012", problem.hint("write `state: {}` to keep one"));
    }
    let state = block.block("state")?;
    let enabled = state.bool("enabled").unwrap_or(true);
    let ignore_auth = state.bool("ignoreAuth").unwrap_or(false);
    let namespace = state.public_name("namespace");
    if let Some((node, text)) = namespace
        && let Some(problem) = names::label("state.namespace", text)
    {
        state.report(node, "namespace", "E040", problem);
    }
    let given = state.public_name("name").filter(|(_, name)| !name.is_empty());
    let name = match (given, document) {
        (Some((node, text)), _) => {
            if let Some(problem) = names::subdomain("state.name", text) {
                state.report(node, "name", "E041", problem);
            }
            text.to_owned()
        }
        (None, Some(document)) => {
            let name = format!("khook-state-{document}");
            if let Some(problem) = names::subdomain("the record's name", &name) {
                state.missing("E042", problem.hint("set state.name"));
            }
            name
        }
        (None, None) => String::new(),
    };
    state.finish(&[]);
    let namespace = namespace.map_or("default", |(_, text)| text).to_owned();
    enabled.then_some(State { namespace, name, ignore_auth })
}

fn steps(block: &Block<'_, '_>, defaults: Defaults, variables: &Variables) -> Vec<Step> {
    let items = block.list("steps");
    let is_list = block.get("steps").is_none_or(|node| node.as_seq().is_some());
    if items.is_empty() && is_list {
        let node = block.get("steps").unwrap_or_else(|| block.key("steps"));
        if block.get("steps").is_some() {
            block.error(node, "steps", "E050", "at least one step is required");
        } else {
            block.missing("E050", Problem::error("at least one step is required"));
        }
    }
    let mut steps: Vec<Step> = Vec::new();
    let mut needs = Vec::new();
    let mut named: Vec<(&str, &YamlNode)> = Vec::new();
    for (at, node) in items {
        let name = node.get("name").and_then(YamlNode::as_str).filter(|name| !name.is_empty());
        // A name made of a secret is not for messages.
        let text = block.findings.text();
        let is_secret = node.get("name").is_some_and(|n| text.holds_secret(n.span.start..n.span.end));
        let step = name.filter(|_| !is_secret);
        let block = Block::new(node, At { step, ..at }, block.findings);
        if let Some((place, name)) = block.public_name("name").filter(|(_, name)| !name.is_empty()) {
            check_name(&block, place, name, &named);
            named.push((name, place));
        } else if node.as_map().is_some() && block.get("name").is_none_or(|node| node.as_str() == Some("")) {
            block.missing("E051", Problem::error("name is required"));
        }
        let own_needs = block.strings("needs");
        let knobs = knobs(&block, defaults);
        let when = when::read(&block, variables);
        let action = actions::read(&block, name.unwrap_or_default());
        needs.push((name, own_needs.clone(), block.at.clone()));
        let place = block.findings.text().locate(node.span.start);
        block.finish(&[("dependsOn", "`needs`"), ("type", "as the action's key, such as `helm:`")]);
        let Some(((action, json), name)) = action.zip(name) else { continue };
        steps.push(Step {
            name: name.to_owned(),
            at: place,
            needs: own_needs.iter().map(|(_, need)| (*need).to_owned()).collect(),
            when,
            timeout: knobs.timeout,
            retries: knobs.retries,
            retry_delay: knobs.retry_delay,
            on_error: knobs.on_error,
            action,
            block: json,
        });
    }
    check_needs(block, &needs, &named);
    steps
}

fn check_name(block: &Block<'_, '_>, place: &YamlNode, name: &str, named: &[(&str, &YamlNode)]) {
    if let Some((code, problem)) = names::step(name) {
        block.report(place, "name", code, problem);
    }
    if let Some((_, first)) = named.iter().find(|(known, _)| *known == name) {
        let first = block.findings.text().locate(first.span.start);
        let problem = Problem::error(format!("duplicate step name `{name}`"));
        block.report(
            place,
            "name",
            "E054",
            problem.hint(format!("the first one is at {}:{}", first.line, first.column)),
        );
    }
}

type Needs<'n> = (Option<&'n str>, Vec<(&'n YamlNode, &'n str)>, At<'n>);

/// Unknown steps, steps that need themselves, and cycles; edges of a repeated name count for the first.
fn check_needs(block: &Block<'_, '_>, steps: &[Needs<'_>], named: &[(&str, &YamlNode)]) {
    let findings = block.findings;
    let known = |name: &str| named.iter().any(|(known, _)| *known == name);
    let mut builder = Graph::<()>::builder();
    let mut seen: Vec<&str> = Vec::new();
    for (name, needs, at) in steps {
        let mut own: Vec<&str> = Vec::new();
        for (index, (node, need)) in needs.iter().enumerate() {
            let at = at.field("needs").item(index);
            if own.contains(need) {
                findings.add(node, &at, "W002", Problem::warning(format!("`{need}` is needed twice")));
            } else if !known(need) {
                let problem = Problem::error(format!("needs unknown step \"{need}\""));
                let problem = problem.did_you_mean(need, named.iter().map(|(known, _)| *known));
                findings.add(node, &at, "E058", problem);
            } else if Some(*need) == *name {
                findings.add(node, &at, "E059", Problem::error("a step cannot need itself"));
            } else {
                own.push(need);
            }
        }
        if let Some(name) = name
            && !seen.contains(name)
        {
            seen.push(name);
            builder.add(*name, (), own);
        }
    }
    let Err(defects) = builder.try_build() else { return };
    for defect in defects {
        let Defect::Cycle { path, .. } = defect else { continue };
        // The cycle is reported at the need that closes it, read in the order of the document.
        let place = |id: &str| steps.iter().position(|(name, _, _)| *name == Some(id)).unwrap_or(usize::MAX);
        let start = (0..path.len()).min_by_key(|&index| place(&path[index])).unwrap_or(0);
        // Each of the path needs the next; from the first step the way back is against the needs.
        let mut around: Vec<&str> = path.iter().map(slipway_graph::Id::as_str).collect();
        around.rotate_left(start);
        let first = around[0];
        let closing = around[1 % around.len()];
        // The last edge in document order closes the cycle.
        let edges = (0..around.len()).map(|index| (around[index], around[(index + 1) % around.len()]));
        let (from, to) = edges.max_by_key(|(from, _)| place(from)).unwrap_or((first, closing));
        let mut shown: Vec<&str> = around.clone();
        shown.push(first);
        let found = steps.iter().find(|(name, _, _)| *name == Some(from));
        let Some((_, needs, at)) = found else { continue };
        let Some((index, (node, _))) = needs.iter().enumerate().find(|(_, (_, need))| *need == to) else {
            continue;
        };
        let problem = Problem::error(format!("dependency cycle: {}", shown.join(" → ")));
        findings.add(node, &at.field("needs").item(index), "E060", problem);
    }
}

/// A node as JSON.
pub(crate) fn json(node: &YamlNode) -> Json {
    node.to_json()
}
