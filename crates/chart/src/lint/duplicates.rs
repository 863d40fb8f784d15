//! Objects a chart makes twice. Helm's lint says nothing of them; installing fails.

use std::collections::HashMap;

use serde_json::Value;

use super::manifests::split_documents;
use super::{LintReport, LintSeverity};
use crate::codec;
use slipway_go::filepath;

/// The identity of an object: group, kind, namespace, name, and the hook one is, for a hook and an object of
/// the release may follow each other.
type Identity = (String, String, String, String, String);

/// The place of an object in the rendered files.
struct Place<'f> {
    file: &'f str,
    document: usize,
}

/// Reports every object that stands a second time in what a chart renders to.
pub(super) fn check_duplicates<'f>(
    chart: &str,
    files: impl Iterator<Item = (&'f str, &'f [u8])>,
    namespace: &str,
    report: &mut LintReport,
) {
    let mut seen: HashMap<Identity, Place<'f>> = HashMap::new();
    for (path, text) in files.filter(|(path, _)| matches!(filepath::ext(path), ".yaml" | ".yml" | ".json")) {
        let file = path.strip_prefix(chart).and_then(|rest| rest.strip_prefix('/')).unwrap_or(path);
        for (number, text) in split_documents(text).into_iter().enumerate() {
            let Ok(object) = codec::read_document(text) else { continue };
            for identity in object_identities(&object, namespace) {
                let document = number + 1;
                if let Some(first) = seen.get(&identity) {
                    let (_, kind, _, name, _) = &identity;
                    let told = format!(
                        "document {document}: {kind} {name:?} is already in document {} of {}",
                        first.document, first.file
                    );
                    report.apply_rule(LintSeverity::Error, file, Err(told.into()));
                } else {
                    seen.insert(identity, Place { file, document });
                }
            }
        }
    }
}

/// The object, or the objects of a list; what has no name yet is none.
fn object_identities(object: &Value, namespace: &str) -> Vec<Identity> {
    let items = object.get("items").and_then(Value::as_array);
    let is_list = text_at(object, "/kind").ends_with("List");
    match items.filter(|_| is_list) {
        Some(items) => items.iter().filter_map(|item| object_identity(item, namespace)).collect(),
        None => object_identity(object, namespace).into_iter().collect(),
    }
}

fn object_identity(object: &Value, namespace: &str) -> Option<Identity> {
    let (kind, name) = (text_at(object, "/kind"), text_at(object, "/metadata/name"));
    // Applying the same configuration of webhooks again changes nothing.
    if kind.is_empty() || name.is_empty() || kind.ends_with("WebhookConfiguration") {
        return None;
    }
    let group = text_at(object, "/apiVersion").split_once('/').map_or("", |(group, _)| group);
    let namespace = match text_at(object, "/metadata/namespace") {
        "" => namespace,
        own => own,
    };
    let hook = text_at(object, "/metadata/annotations/helm.sh~1hook");
    Some((group.to_owned(), kind.to_owned(), namespace.to_owned(), name.to_owned(), hook.to_owned()))
}

fn text_at<'v>(object: &'v Value, path: &str) -> &'v str {
    object.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_the_same_object_in_two_documents() {
        let map = |name: &str, more: &str| {
            format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n{more}")
        };
        let here = |texts: &[(&str, String)]| -> Vec<String> {
            let mut report = LintReport::default();
            let files = texts.iter().map(|(path, text)| (*path, text.as_bytes()));
            check_duplicates("demo", files, "default", &mut report);
            report.findings.iter().map(ToString::to_string).collect()
        };
        let (one, two) = ("demo/templates/a.yaml", "demo/templates/b.yaml");
        let twice = "document 2: ConfigMap \"a\" is already in document 1 of templates/a.yaml";
        let (a, b) = (map("a", ""), map("b", ""));
        assert_eq!(here(&[(one, format!("{a}---\n{a}"))]), [format!("[ERROR] templates/a.yaml: {twice}")]);
        assert_eq!(
            here(&[(one, a.clone()), (two, format!("{b}---\n{a}"))]),
            [format!("[ERROR] templates/b.yaml: {twice}")]
        );
        let elsewhere = map("a", "  namespace: other\n");
        let hook = map("a", "  annotations: {helm.sh/hook: pre-install}\n");
        let role = a.replace("kind: ConfigMap", "kind: Role");
        for other in [b, elsewhere, hook, role] {
            assert!(here(&[(one, a.clone()), (two, other.clone())]).is_empty(), "{other}");
        }
        let named = map("a", "  namespace: default\n");
        assert_eq!(here(&[(one, a.clone()), (two, named)]).len(), 1, "the release's own namespace");
        let list = format!("kind: List\nitems:\n- {}", a.replace('\n', "\n  "));
        assert_eq!(here(&[(one, a), (two, list)]).len(), 1, "in a list");
    }
}
