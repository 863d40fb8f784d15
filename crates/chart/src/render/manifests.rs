//! From rendered files to manifests and hooks: splitting, reading heads, sorting.

use std::sync::LazyLock;

use memchr::memmem::Finder;
use serde::de::{Deserialize, Deserializer, Error as Error_, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use crate::codec;
use crate::decode::StructFields;
use crate::error::{ChartError, ChartFault, LogNotice, Notices};
use slipway_go::GoError;
use slipway_problem::Location;

/// One document a template produced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenderedManifest {
    /// The template, with its charts: `parent/charts/child/templates/x.yaml`.
    pub path: String,
    /// The text, trimmed; not necessarily UTF-8.
    pub content: Vec<u8>,
    pub api_version: String,
    pub kind: String,
    pub name: String,
}

/// A document Helm applies at a moment of the release rather than as part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenderedHook {
    pub manifest: RenderedManifest,
    /// `pre-install`, `test` and so on.
    pub events: Vec<String>,
    pub weight: i64,
    pub delete_policies: Vec<String>,
    pub output_log_policies: Vec<String>,
}

impl RenderedHook {
    /// Returns true if it is a test.
    pub fn is_test(&self) -> bool {
        self.events.iter().any(|event| event == "test")
    }
}

impl RenderedManifest {
    /// The text, with what is not UTF-8 replaced.
    pub fn text(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.content)
    }
}

/// The order kinds are installed in; what is not listed comes after, by kind.
pub const INSTALL_ORDER: [&str; 36] = [
    "PriorityClass",
    "Namespace",
    "NetworkPolicy",
    "ResourceQuota",
    "LimitRange",
    "PodSecurityPolicy",
    "PodDisruptionBudget",
    "ServiceAccount",
    "Secret",
    "SecretList",
    "ConfigMap",
    "StorageClass",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "CustomResourceDefinition",
    "ClusterRole",
    "ClusterRoleList",
    "ClusterRoleBinding",
    "ClusterRoleBindingList",
    "Role",
    "RoleList",
    "RoleBinding",
    "RoleBindingList",
    "Service",
    "DaemonSet",
    "Pod",
    "ReplicationController",
    "ReplicaSet",
    "Deployment",
    "HorizontalPodAutoscaler",
    "StatefulSet",
    "Job",
    "CronJob",
    "IngressClass",
    "Ingress",
    "APIService",
];

/// Sorts rendered files into manifests and hooks, both in install order.
pub(super) fn sort_manifests(
    mut files: Vec<(String, Vec<u8>)>,
    notices: &mut Notices,
) -> Result<(Vec<RenderedManifest>, Vec<RenderedHook>), ChartError> {
    files.sort_by(|a, b| a.0.cmp(&b.0));
    let mut manifests = Vec::new();
    let mut hooks = Vec::new();
    for (path, content) in files {
        let mut read = |piece: Vec<u8>| {
            read_piece(&path, piece, &mut manifests, &mut hooks, notices).map_err(|error| {
                let fault = ChartFault::new(format!("YAML parse error on {path}: {error}"));
                ChartError::Manifest(fault.at(Location::file(path.as_str())))
            })
        };
        match split_documents(&content).as_slice() {
            // Mostly a file is one document, which need not be copied then.
            [piece] => {
                let start = piece.as_ptr().addr() - content.as_ptr().addr();
                let end = start + piece.len();
                let mut content = content;
                content.truncate(end);
                content.drain(..start);
                read(content)?;
            }
            pieces => pieces.iter().try_for_each(|piece| read(piece.to_vec()))?,
        }
    }
    manifests.sort_by(|a, b| install_rank(&a.kind).cmp(&install_rank(&b.kind)));
    hooks.sort_by(|a: &RenderedHook, b: &RenderedHook| {
        install_rank(&a.manifest.kind).cmp(&install_rank(&b.manifest.kind))
    });
    Ok((manifests, hooks))
}

/// Returns the position of a kind in the install order; unknown kinds follow, by name.
pub fn install_rank(kind: &str) -> (usize, &str) {
    match INSTALL_ORDER.iter().position(|known| *known == kind) {
        Some(place) => (place, ""),
        None => (INSTALL_ORDER.len(), kind),
    }
}

fn read_piece(
    path: &str,
    piece: Vec<u8>,
    manifests: &mut Vec<RenderedManifest>,
    hooks: &mut Vec<RenderedHook>,
    notices: &mut Notices,
) -> Result<(), GoError> {
    let head = Head::read_head(&piece)?;
    let manifest = RenderedManifest {
        path: path.to_owned(),
        content: piece,
        api_version: head.api_version,
        kind: head.kind,
        name: head.name,
    };
    let annotation =
        |name: &str| head.annotations.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
    let Some(events) = annotation("helm.sh/hook") else {
        manifests.push(manifest);
        return Ok(());
    };
    let mut known = Vec::new();
    for event in events.split(',') {
        let event = event.trim().to_lowercase();
        match event.as_str() {
            "pre-install" | "post-install" | "pre-delete" | "post-delete" | "pre-upgrade"
            | "post-upgrade" | "pre-rollback" | "post-rollback" | "test" => known.push(event),
            "test-success" => known.push("test".to_owned()),
            _ => {
                notices.push(LogNotice(format!(
                    "manifest_sorter.go:196: info: skipping unknown hook: {}",
                    crate::values::go_quote(&event)
                )));
                return Ok(());
            }
        }
    }
    let list = |name: &str| -> Vec<String> {
        annotation(name)
            .map(|text| text.split(',').map(|word| word.trim().to_lowercase()).collect())
            .unwrap_or_default()
    };
    hooks.push(RenderedHook {
        weight: annotation("helm.sh/hook-weight").and_then(|text| text.parse().ok()).unwrap_or_default(),
        delete_policies: list("helm.sh/hook-delete-policy"),
        output_log_policies: list("helm.sh/hook-output-log-policy"),
        events: known,
        manifest,
    });
    Ok(())
}

/// The few fields of a document rendering looks at.
#[derive(Default)]
struct Head {
    api_version: String,
    kind: String,
    name: String,
    annotations: Vec<(String, String)>,
}

impl Head {
    fn read_head(piece: &[u8]) -> Result<Self, GoError> {
        let Top(map) = codec::read_as(piece)?;
        let fields = StructFields::new(&map, "SimpleHead");
        let mut head = Self {
            api_version: fields.string_field("apiVersion")?,
            kind: fields.string_field("kind")?,
            ..Self::default()
        };
        let go_type = "struct { Name string \"json:\\\"name\\\"\"; Annotations map[string]string \"json:\\\"annotations\\\"\" }";
        if let Some(metadata) = fields.object_field("metadata", go_type)? {
            let fields = StructFields::for_nested(metadata, "metadata.");
            head.name = fields.string_field("name")?;
            head.annotations = fields.string_map("annotations")?.unwrap_or_default();
        }
        Ok(head)
    }
}

/// A document with only the entries [`Head`] wants; the rest is checked and forgotten.
struct Top(Map<String, Value>);

impl<'de> Deserialize<'de> for Top {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TopVisitor)
    }
}

struct TopVisitor;

fn type_mismatch<E: Error_>(kind: &str) -> Result<Top, E> {
    Err(E::custom(format!("cannot unmarshal {kind} into Go value of type releaseutil.SimpleHead")))
}

impl<'de> Visitor<'de> for TopVisitor {
    type Value = Top;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("releaseutil.SimpleHead")
    }

    fn visit_unit<E>(self) -> Result<Top, E> {
        Ok(Top(Map::new()))
    }

    fn visit_bool<E: Error_>(self, _: bool) -> Result<Top, E> {
        type_mismatch("bool")
    }

    fn visit_i64<E: Error_>(self, _: i64) -> Result<Top, E> {
        type_mismatch("number")
    }

    fn visit_u64<E: Error_>(self, _: u64) -> Result<Top, E> {
        type_mismatch("number")
    }

    fn visit_f64<E: Error_>(self, _: f64) -> Result<Top, E> {
        type_mismatch("number")
    }

    fn visit_str<E: Error_>(self, _: &str) -> Result<Top, E> {
        type_mismatch("string")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Top, A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        type_mismatch("array")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Top, A::Error> {
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<std::borrow::Cow<'de, str>>()? {
            if ["apiVersion", "kind", "metadata"].iter().any(|name| key.eq_ignore_ascii_case(name)) {
                let value = entries.next_value()?;
                map.insert(key.into_owned(), value);
            } else {
                entries.next_value::<IgnoredAny>()?;
            }
        }
        Ok(Top(map))
    }
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b'\t' | b'\n' | 0x0c | b'\r' | b' ')
}

/// Splits a text at document separators, which are `---` after a newline (or at the very start) with
/// all white space around it; pieces are trimmed, empty ones dropped.
pub fn split_documents(text: &[u8]) -> Vec<&[u8]> {
    let text = trim_space(text);
    let mut pieces = Vec::new();
    let mut from = 0;
    let mut at = 0;
    if text.starts_with(b"---") {
        at = skip_space(text, 3);
        from = at;
    }
    while let Some(newline) = find_separator(text, at) {
        let mut start = newline;
        while start > from && is_space(text[start - 1]) {
            start -= 1;
        }
        if start > from {
            pieces.push(trim_space(&text[from..start]));
        }
        at = skip_space(text, newline + 4);
        from = at;
    }
    if from < text.len() {
        pieces.push(trim_space(&text[from..]));
    }
    pieces
}

fn skip_space(text: &[u8], from: usize) -> usize {
    from + text[from..].iter().take_while(|byte| is_space(**byte)).count()
}

static SEPARATOR: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"---"));

/// The next newline at or after `from` that `---` follows.
fn find_separator(text: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    // There are far fewer dashes in a row than there are lines.
    while let Some(offset) = SEPARATOR.find(&text[at..]) {
        let dashes = at + offset;
        if dashes > from && text[dashes - 1] == b'\n' {
            return Some(dashes - 1);
        }
        at = dashes + 1;
    }
    None
}

/// Drops Unicode white space at both ends.
pub(crate) fn trim_space(text: &[u8]) -> &[u8] {
    let text = text.trim_ascii();
    // Beyond ASCII only where the ends are not ASCII.
    let ends_ascii = text.first().is_none_or(u8::is_ascii) && text.last().is_none_or(u8::is_ascii);
    let odd = |byte: Option<&u8>| byte == Some(&0x0b);
    if ends_ascii && !odd(text.first()) && !odd(text.last()) {
        return text;
    }
    match std::str::from_utf8(text) {
        Ok(text) => text.trim().as_bytes(),
        Err(_) => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_split_with_helms_quirks() {
        let cases: &[(&str, &[&str])] = &[
            ("", &[]),
            (" \n\t", &[]),
            ("\n\n  kind: A\n\n\n", &["kind: A"]),
            (
                "---\nkind: A\n---   \nkind: B\n---# c\nkind: C\n  ---\nkind: D\n",
                &["kind: A", "kind: B", "# c\nkind: C\n  ---\nkind: D"],
            ),
            (
                "kind: A\n---\n\n---\n# just comment\n---\nkind: Z",
                &["kind: A", "---\n# just comment", "kind: Z"],
            ),
            ("kind: A\r\n---\r\nkind: B\r\n", &["kind: A", "kind: B"]),
            ("---- foo", &["- foo"]),
            ("a\n---\tb", &["a", "b"]),
        ];
        for (text, expected) in cases {
            let found: Vec<_> =
                split_documents(text.as_bytes()).into_iter().map(String::from_utf8_lossy).collect();
            assert_eq!(found, *expected, "{text:?}");
        }
    }
}
