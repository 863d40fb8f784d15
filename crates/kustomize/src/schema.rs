//! Lists of the built-in kinds that merge by key, and kinds that are not in a namespace.
//!
//! kustomize 5.5 knows the kinds of Kubernetes 1.21 and nothing newer, so this table is that old on
//! purpose: a newer one would merge lists that kustomize replaces.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use crate::id::Gvk;

/// One type of the table: what is known about its fields.
#[derive(Debug, Default)]
pub(crate) struct SchemaType {
    fields: HashMap<&'static str, SchemaField>,
}

/// The type of one field.
#[derive(Debug)]
pub(crate) struct SchemaField {
    /// The keys a list merges by; empty for a set of scalars; `None` when it is replaced whole.
    pub(crate) merge_keys: Option<Vec<&'static str>>,
    element: Option<usize>,
}

impl SchemaType {
    pub(crate) fn field(&'static self, name: &str) -> Option<&'static SchemaField> {
        self.fields.get(name).or_else(|| self.fields.get("{}"))
    }
}

impl SchemaField {
    /// The type of the field's value, or of the elements when it is a list.
    pub(crate) fn value_type(&self) -> Option<&'static SchemaType> {
        self.element.and_then(|index| TABLE.types.get(index))
    }
}

struct Table {
    types: Vec<SchemaType>,
    kinds: HashMap<(&'static str, &'static str), usize>,
    cluster: HashSet<(&'static str, &'static str, &'static str)>,
}

static TABLE: LazyLock<Table> = LazyLock::new(|| parse_table(include_str!("schema.txt")));

fn split_group(api_version: &'static str) -> (&'static str, &'static str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}

fn parse_table(text: &'static str) -> Table {
    let mut table = Table { types: Vec::new(), kinds: HashMap::new(), cluster: HashSet::new() };
    for line in text.lines() {
        let mut words = line.split(' ');
        match words.next() {
            Some("type") => {
                let fields = words.skip(1).filter(|word| !word.is_empty()).map(read_field).collect();
                table.types.push(SchemaType { fields });
            }
            Some("kind") => {
                if let (Some(api), Some(kind), Some(Ok(index))) =
                    (words.next(), words.next(), words.next().map(str::parse))
                {
                    table.kinds.insert((api, kind), index);
                }
            }
            Some("cluster") => {
                if let (Some(api), Some(kind)) = (words.next(), words.next()) {
                    let (group, version) = split_group(api);
                    table.cluster.insert((group, version, kind));
                }
            }
            _ => {}
        }
    }
    table
}

fn read_field(word: &'static str) -> (&'static str, SchemaField) {
    let (rest, element) = match word.split_once('>') {
        Some((rest, index)) => (rest, index.parse().ok()),
        None => (word, None),
    };
    match rest.split_once('*') {
        Some((name, keys)) => {
            let keys = keys.split(',').filter(|key| !key.is_empty()).collect();
            (name, SchemaField { merge_keys: Some(keys), element })
        }
        None => (rest, SchemaField { merge_keys: None, element }),
    }
}

/// The type of a built-in kind's objects.
pub(crate) fn of_kind(api_version: &str, kind: &str) -> Option<&'static SchemaType> {
    TABLE.kinds.get(&(api_version, kind)).and_then(|index| TABLE.types.get(*index))
}

/// Returns true if a kind is known not to be in a namespace; unknown kinds count as namespaced.
pub(crate) fn is_cluster_scoped(gvk: &Gvk) -> bool {
    TABLE.cluster.contains(&(gvk.group.as_str(), gvk.version.as_str(), gvk.kind.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(api_version: &str, kind: &str, path: &[&str]) -> Option<Vec<&'static str>> {
        let mut at = of_kind(api_version, kind)?;
        let (last, before) = path.split_last()?;
        for step in before {
            at = at.field(step)?.value_type()?;
        }
        at.field(last)?.merge_keys.clone()
    }

    #[test]
    fn merge_keys_of_well_known_lists() {
        let pod: &[&str] = &["spec", "template", "spec"];
        for (path, expected) in [
            (vec!["containers"], Some(vec!["name"])),
            (vec!["containers", "ports"], Some(vec!["containerPort", "protocol"])),
            (vec!["containers", "volumeMounts"], Some(vec!["mountPath"])),
            (vec!["tolerations"], None),
            (vec!["containers", "args"], None),
        ] {
            let whole: Vec<&str> = pod.iter().copied().chain(path).collect();
            assert_eq!(keys("apps/v1", "Deployment", &whole), expected, "{whole:?}");
        }
        assert_eq!(keys("v1", "Service", &["spec", "ports"]), Some(vec!["port", "protocol"]));
        assert_eq!(keys("v1", "Pod", &["metadata", "finalizers"]), Some(vec![]));
        assert_eq!(keys("example.com/v1", "Foo", &["spec", "ports"]), None);
    }

    #[test]
    fn scopes() {
        assert!(is_cluster_scoped(&Gvk::new("v1", "Namespace")));
        assert!(is_cluster_scoped(&Gvk::new("rbac.authorization.k8s.io/v1", "ClusterRole")));
        assert!(!is_cluster_scoped(&Gvk::new("v1", "ConfigMap")));
        assert!(!is_cluster_scoped(&Gvk::new("example.com/v1", "Foo")));
    }
}
