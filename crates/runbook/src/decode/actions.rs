//! The seven kinds of step.

use serde_json::Value as Json;
use slipway_manifest::selector::{FieldSelector, LabelSelector};
use slipway_problem::Problem;
use slipway_yaml::Node;

use super::block::Block;
use super::{ACTIONS, chart, json, names};
use crate::diagnostic::At;
use crate::model::{
    Action, Apply, Delete, Helm, Job, ManifestSource, Patch, PatchType, Rollout, RolloutVerb, Selection,
    ValuesSource, Wait, WorkloadKind,
};

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
    let present: Vec<&'static str> =
        ACTIONS.into_iter().filter(|action| step.raw(action).is_some()).collect();
    let kind = match present[..] {
        [] => {
            let problem = Problem::error(format!("expected exactly one of {}, got none", ACTIONS.join(", ")));
            if step.node.as_map().is_some() {
                step.missing("E055", problem);
            }
            return None;
        }
        [one] => one,
        ref several => {
            let message = format!(
                "expected exactly one of {}, got {}: {}",
                ACTIONS.join(", "),
                several.len(),
                several.join(", ")
            );
            let last = several.iter().map(|key| step.key(key)).max_by_key(|key| key.span.start);
            step.error(last.unwrap_or(step.node), "", "E056", message);
            return None;
        }
    };
    let node = step.raw(kind)?;
    if node.is_null() {
        step.error(step.key(kind), kind, "E057", format!("{kind} is empty: {}", needed(kind)));
        return None;
    }
    let block = Block::new(node, step.at.field(kind), step.findings);
    node.as_map()?;
    let action = match kind {
        "helm" => helm(&block, name).map(Action::Helm),
        "apply" => apply(&block).map(Action::Apply),
        "delete" => delete(&block).map(Action::Delete),
        "patch" => patch(&block).map(Action::Patch),
        "wait" => wait(&block).map(Action::Wait),
        "rollout" => rollout(&block).map(Action::Rollout),
        _ => job(&block).map(Action::Job),
    };
    block.finish(RENAMED_SKIP);
    Some((action?, json(node)))
}

/// What an action cannot do without.
fn needed(kind: &str) -> &'static str {
    match kind {
        "helm" => "chart is required",
        "apply" => "at least one of manifests is required",
        "delete" => "exactly one of manifests, resource, release is required",
        "patch" => "target and patch are required",
        "wait" => "for and on are required",
        "rollout" => "exactly one of restart, status and a namespace are required",
        _ => "image is required",
    }
}

fn skip_if(block: &Block<'_, '_>, word: &'static str, code: &str) -> bool {
    block.word("skipIf", code, &[(word, true)], SKIPS).unwrap_or(false)
}

/// A namespace that must be a label.
fn namespace(block: &Block<'_, '_>, code: &str) -> Option<String> {
    let (node, text) = block.filled("namespace")?;
    if let Some(problem) = names::label("namespace", text) {
        block.report(node, "namespace", code, problem);
    }
    Some(text.to_owned())
}

fn is_http(url: &str) -> bool {
    ["http://", "https://"].iter().any(|scheme| url.len() > scheme.len() && url.starts_with(scheme))
}

fn helm(block: &Block<'_, '_>, step: &str) -> Option<Helm> {
    let chart = chart::read(block);
    let release = block.filled("release");
    let effective = release.map_or(step, |(_, release)| release);
    if let Some(problem) = names::release(effective)
        && !effective.is_empty()
    {
        match release {
            Some((node, _)) => block.report(node, "release", "E213", problem),
            None => block.missing("E213", problem.hint("set release:")),
        }
    }
    let namespace = namespace(block, "E214");
    let skip_if_installed = skip_if(block, "installed", "E215");
    let values = match block.get("values") {
        None => Some(serde_json::Map::new()),
        Some(node) => match json(node) {
            Json::Object(values) => Some(values),
            _ => {
                block.error(
                    node,
                    "values",
                    "E008",
                    format!("values must be a mapping, found {}", node.kind()),
                );
                None
            }
        },
    };
    let mut values_from = Vec::new();
    for (at, node) in block.list("valuesFrom") {
        let source = Block::new(node, at, block.findings);
        let (file, url) = (source.filled("file"), source.filled("url"));
        match (file, url) {
            (Some((_, file)), None) => values_from.push(ValuesSource::File(file.to_owned())),
            (None, Some((place, url))) => {
                if !is_http(url) {
                    source.error(place, "url", "E212", "url must be an HTTP(S) URL");
                }
                values_from.push(ValuesSource::Url(url.to_owned()));
            }
            _ => source.missing("E211", Problem::error("expected exactly one of file, url")),
        }
        source.finish(&[]);
    }
    let atomic = block.bool("atomic").unwrap_or(false);
    let (create_namespace, wait) = (block.bool("createNamespace"), block.bool("wait"));
    Some(Helm {
        chart: chart?,
        release: effective.to_owned(),
        namespace: namespace.unwrap_or_else(|| "default".into()),
        create_namespace: create_namespace.unwrap_or(false),
        atomic,
        wait: wait.unwrap_or(false) || atomic,
        skip_if_installed,
        values: values?,
        values_from,
    })
}

fn manifests(block: &Block<'_, '_>) -> Option<Vec<ManifestSource>> {
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

fn count(number: usize) -> String {
    if number == 0 { "none".into() } else { number.to_string() }
}

fn source_of(block: &Block<'_, '_>, key: &'static str, node: &Node, text: &str) -> Option<ManifestSource> {
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

fn apply(block: &Block<'_, '_>) -> Option<Apply> {
    let manifests = manifests(block);
    if block.get("manifests").is_none_or(|node| node.as_seq().is_some_and(<[Node]>::is_empty)) {
        block.missing("E300", Problem::error("at least one of manifests is required"));
    }
    let namespace = namespace(block, "E308");
    let create_namespace = block.bool("createNamespace").unwrap_or(false);
    if create_namespace && block.get("namespace").is_none() {
        block.error(
            block.key("createNamespace"),
            "createNamespace",
            "E304",
            "createNamespace needs namespace",
        );
    }
    let wait_for = block.filled("waitFor").map(|(node, text)| {
        until(block, node, "waitFor", "E305", text);
        if text == "delete" {
            block.error(node, "waitFor", "E306", "waitFor cannot wait for what it applies to be deleted");
        }
        text.to_owned()
    });
    let skip_if_exists = skip_if(block, "exists", "E307");
    let server_side = block.bool("serverSide").unwrap_or(false);
    Some(Apply { manifests: manifests?, namespace, create_namespace, skip_if_exists, server_side, wait_for })
}

fn delete(block: &Block<'_, '_>) -> Option<Delete> {
    let by_manifests =
        block.get("manifests").filter(|node| node.as_seq().is_none_or(|items| !items.is_empty()));
    let resource = block.filled("resource");
    let release = block.filled("release");
    let ignore_not_found = block.bool("ignoreNotFound").unwrap_or(true);
    let forms = usize::from(by_manifests.is_some())
        + usize::from(resource.is_some())
        + usize::from(release.is_some());
    let selection = ["selector", "fieldSelector", "allNamespaces"];
    if forms != 1 {
        for key in selection.into_iter().chain(["namespace"]) {
            block.raw(key);
        }
        let problem = Problem::error(format!(
            "expected exactly one of manifests, resource, release, got {}",
            count(forms)
        ));
        block.missing("E320", problem);
        return None;
    }
    if resource.is_none() {
        for key in selection {
            if block.get(key).is_some() {
                block.error(block.key(key), key, "E321", format!("{key} goes only with resource"));
            }
        }
    }
    if let Some((node, text)) = resource {
        let codes = ["E325", "E322", "E323", "E324", "E326"];
        let selection = selected(block, node, "resource", text, codes)?;
        if selection.name.is_none() && selection.selector.is_none() && selection.field_selector.is_none() {
            let place = match (&selection.namespace, selection.all_namespaces) {
                (_, true) => "all namespaces".to_owned(),
                (namespace, false) => format!("namespace {}", namespace.as_deref().unwrap_or("default")),
            };
            let problem = Problem::warning(format!("this removes every {} in {place}", selection.kind));
            block.report(node, "resource", "W003", problem.hint("name one, or give a selector"));
        }
        return Some(Delete::Resource { selection, ignore_not_found });
    }
    let namespace = namespace(block, "E308");
    if let Some((node, text)) = release {
        if let Some(problem) = names::release(text) {
            block.report(node, "release", "E213", problem);
        }
        let namespace = namespace.unwrap_or_else(|| "default".into());
        return Some(Delete::Release { release: text.to_owned(), namespace, ignore_not_found });
    }
    Some(Delete::Manifests { manifests: manifests(block)?, namespace, ignore_not_found })
}

/// Splits `TYPE` or `TYPE/NAME`.
fn resource(text: &str) -> Option<(&str, Option<&str>)> {
    match text.split_once('/') {
        None if text.is_empty() => None,
        None => Some((text, None)),
        Some((kind, name)) if kind.is_empty() || name.is_empty() || name.contains('/') => None,
        Some((kind, name)) => Some((kind, Some(name))),
    }
}

/// A resource argument with its namespace and selectors. Codes: malformed, two scopes, a selector with a
/// name, all namespaces with a name, selector syntax.
fn selected(
    block: &Block<'_, '_>,
    node: &Node,
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
    let text = |given: Option<(&Node, &str)>| given.map(|(_, text)| text.to_owned());
    Some(Selection {
        kind: kind.to_owned(),
        name: name.map(str::to_owned),
        namespace,
        all_namespaces,
        selector: text(selector),
        field_selector: text(field_selector),
    })
}

fn patch(block: &Block<'_, '_>) -> Option<Patch> {
    let target = block.filled("target").map(|(node, text)| match resource(text) {
        Some((kind, Some(name))) => Some((kind.to_owned(), name.to_owned())),
        _ => {
            let problem = Problem::error(format!("target must be TYPE/NAME, found `{text}`"));
            block.report(node, "target", "E340", problem);
            None
        }
    });
    if target.is_none() && block.get("target").is_none_or(|node| node.as_str() == Some("")) {
        block.missing("E340", Problem::error("target is required"));
    }
    let namespace = namespace(block, "E308").unwrap_or_else(|| "default".into());
    let words = [("strategic", PatchType::Strategic), ("merge", PatchType::Merge), ("json", PatchType::Json)];
    let how = block.word("type", "E341", &words, &[]);
    let is_bad = how.is_none() && block.get("type").is_some();
    let how = how.unwrap_or_default();
    let Some(node) = block.get("patch") else {
        block.missing("E342", Problem::error("patch is required"));
        return None;
    };
    let body = json(node);
    let fits = match how {
        PatchType::Json => body.is_array(),
        _ => body.is_object(),
    };
    if !is_bad && !fits {
        let expected = if how == PatchType::Json { "a list of operations" } else { "a mapping" };
        block.error(
            node,
            "patch",
            "E343",
            format!("a patch of this type is {expected}, found {}", node.kind()),
        );
        return None;
    }
    if how == PatchType::Json {
        for (index, item) in node.as_seq().unwrap_or_default().iter().enumerate() {
            json_operation(block, item, &block.at.field("patch").item(index));
        }
    } else if body.as_object().is_some_and(serde_json::Map::is_empty) {
        block.report(node, "patch", "W013", Problem::warning("the patch is empty"));
    }
    let (kind, name) = target??;
    Some(Patch { kind, name, namespace, how, body })
}

fn json_operation(block: &Block<'_, '_>, node: &Node, at: &At<'_>) {
    let bad = |node: &Node, message: String| block.findings.add(node, at, "E344", Problem::error(message));
    let Some(entries) = node.as_map() else {
        return bad(node, format!("an operation is a mapping, found {}", node.kind()));
    };
    let operation = entries.get("op").and_then(Node::as_str).unwrap_or_default();
    let place = entries.get("op").unwrap_or(node);
    if !["add", "remove", "replace", "move", "copy", "test"].contains(&operation) {
        return bad(
            place,
            format!("op must be add, remove, replace, move, copy or test, found `{operation}`"),
        );
    }
    let path = entries.get("path").and_then(Node::as_str);
    match path {
        None => bad(node, "an operation needs path".into()),
        Some(path) if !path.is_empty() && !path.starts_with('/') => {
            bad(entries.get("path").unwrap_or(node), format!("path must start with `/`, found `{path}`"));
        }
        Some(path) => {
            let indexed =
                operation == "add" && path.rsplit('/').next().is_some_and(|last| last.parse::<u32>().is_ok());
            if operation == "remove" || indexed {
                let problem = Problem::warning(format!(
                    "`{operation}` of `{path}` fails or repeats itself when run again"
                ));
                block.findings.add(place, at, "W016", problem);
            }
        }
    }
    if matches!(operation, "add" | "replace" | "test") && !entries.contains_key("value") {
        bad(node, format!("{operation} needs value"));
    }
    if matches!(operation, "move" | "copy") && entries.get("from").and_then(Node::as_str).is_none() {
        bad(node, format!("{operation} needs from"));
    }
}

fn wait(block: &Block<'_, '_>) -> Option<Wait> {
    let until = block.filled("for").map(|(node, text)| {
        until(block, node, "for", "E361", text);
        text.to_owned()
    });
    if until.is_none() && block.get("for").is_none_or(|node| node.as_str() == Some("")) {
        block.missing("E009", Problem::error("for is required"));
    }
    let Some((node, text)) = block.filled("on") else {
        for key in ["namespace", "allNamespaces", "selector", "fieldSelector"] {
            block.raw(key);
        }
        if block.get("on").is_none_or(|node| node.as_str() == Some("")) {
            block.missing("E360", Problem::error("on is required"));
        }
        return None;
    };
    let on = selected(block, node, "on", text, ["E365", "E362", "E363", "E364", "E366"])?;
    if until.as_deref() == Some("condition=Ready")
        && on.name.is_none()
        && matches!(on.kind.to_ascii_lowercase().as_str(), "pod" | "pods" | "po")
        && !on.field_selector.as_deref().is_some_and(|selector| selector.contains("status.phase"))
    {
        let problem =
            Problem::warning("completed pods are never Ready, so one finished Job makes this wait for ever");
        block.report(node, "on", "W007", problem.hint("add `fieldSelector: status.phase!=Succeeded`"));
    }
    Some(Wait { until: until?, on })
}

/// Checks the grammar of `for` and `waitFor`.
fn until(block: &Block<'_, '_>, node: &Node, key: &'static str, code: &str, text: &str) {
    if let Err(error) = slipway_cluster::wait::Condition::parse(text) {
        let mut problem = Problem::error(error.message);
        problem.hint = error.hint;
        block.report(node, key, code, problem);
    }
}

fn rollout(block: &Block<'_, '_>) -> Option<Rollout> {
    let (restart, status) = (block.filled("restart"), block.filled("status"));
    let namespace = namespace(block, "E308");
    if namespace.is_none() && block.get("namespace").is_none_or(|node| node.as_str() == Some("")) {
        block.missing("E381", Problem::error("namespace is required"));
    }
    let (what, key, (node, text)) = match (restart, status) {
        (Some(restart), None) => (RolloutVerb::Restart, "restart", restart),
        (None, Some(status)) => (RolloutVerb::Status, "status", status),
        (None, None) => {
            block.missing("E380", Problem::error("expected exactly one of restart, status, got none"));
            return None;
        }
        (Some(_), Some(_)) => {
            block.exclusive("E380", ["restart", "status"], "restart and status are mutually exclusive");
            return None;
        }
    };
    let kinds = [
        ("deployment", WorkloadKind::Deployment),
        ("daemonset", WorkloadKind::DaemonSet),
        ("statefulset", WorkloadKind::StatefulSet),
    ];
    let found = resource(text).and_then(|(kind, name)| {
        let kind = kinds.iter().find(|(known, _)| kind.eq_ignore_ascii_case(known))?.1;
        Some((kind, name?.to_owned()))
    });
    let Some((kind, name)) = found else {
        let problem = Problem::error(format!(
            "`{text}` must be deployment, daemonset or statefulset, a slash and a name"
        ));
        block.report(node, key, "E382", problem.hint("write `deployment/web`"));
        return None;
    };
    Some(Rollout { what, kind, name, namespace: namespace? })
}

fn job(block: &Block<'_, '_>) -> Option<Job> {
    let image = block.filled("image").map(|(_, image)| image.to_owned());
    if image.is_none() && block.get("image").is_none_or(|node| node.as_str() == Some("")) {
        block.missing("E400", Problem::error("job.image is required"));
    }
    let texts = |list: Vec<(&Node, &str)>| list.into_iter().map(|(_, text)| text.to_owned()).collect();
    let command = texts(block.strings("command"));
    let args = texts(block.strings("args"));
    let mut env = Vec::new();
    if let Some(node) = block.get("env") {
        match node.as_map() {
            None => block.error(node, "env", "E008", format!("env must be a mapping, found {}", node.kind())),
            Some(entries) => {
                for (key, value) in entries.iter() {
                    let name = key.key_text();
                    let good = |(index, byte): (usize, u8)| {
                        byte.is_ascii_alphabetic()
                            || b"-._".contains(&byte)
                            || (index > 0 && byte.is_ascii_digit())
                    };
                    if name.is_empty() || !name.bytes().enumerate().all(good) {
                        block.error(
                            key,
                            "env",
                            "E401",
                            format!("`{name}` is no name of an environment variable"),
                        );
                    }
                    match value.as_str() {
                        Some(text) => env.push((name.into_owned(), text.to_owned())),
                        None => {
                            let problem =
                                Problem::error(format!("env holds strings, found {}", value.kind()));
                            block.report(
                                value,
                                "env",
                                "E008",
                                problem.hint(format!("quote it: \"{}\"", value.raw())),
                            );
                        }
                    }
                }
            }
        }
    }
    env.sort();
    let namespace = namespace(block, "E403").unwrap_or_else(|| "default".into());
    let create_namespace = block.bool("createNamespace").unwrap_or(false);
    let service_account = block.filled("serviceAccount").map(|(_, text)| text.to_owned());
    let skip_if_succeeded = skip_if(block, "succeeded", "E402");
    Some(Job {
        image: image?,
        command,
        args,
        env,
        namespace,
        create_namespace,
        service_account,
        skip_if_succeeded,
    })
}
