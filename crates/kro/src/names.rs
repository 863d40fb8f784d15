//! Names: of objects and Graphs, and those a Graph writes under (field managers, labels, revisions).

use data_encoding::HEXLOWER;
use serde_json::Value;
use sha2::{Digest, Sha256};
use slipway_manifest::object;

/// What every label and manager of a Graph ends with.
pub(crate) const DOMAIN: &str = "internal.kro.run";
/// The annotation that holds the hash of what was applied.
pub(crate) const TEMPLATE_HASH: &str = "internal.kro.run/template-hash";
/// Labels of revisions.
pub(crate) const REVISION_GENERATION: &str = "internal.kro.run/graph-generation";
pub(crate) const REVISION_GRAPH: &str = "internal.kro.run/graph-name";
pub(crate) const REVISION_HASH: &str = "internal.kro.run/hash";

const LONGEST_LABEL: usize = 63;
const LONGEST_PREFIX: usize = 253;
const LONGEST_MANAGER: usize = 128;

/// Where an object of a kind lives; the namespace is empty for objects of the whole cluster.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl Place {
    pub(crate) fn of(value: &Value) -> Place {
        let text = |part: Option<&str>| part.unwrap_or_default().to_owned();
        Place { namespace: text(object::namespace(value)), name: text(object::name(value)) }
    }
}

/// Names a Graph: prints as `namespace/name`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GraphId {
    pub namespace: String,
    pub name: String,
}

impl std::fmt::Display for GraphId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl GraphId {
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    /// The part of labels and managers that stands for the Graph: its name, or a hash of one that is too long.
    pub(crate) fn owner(&self) -> OwnerId {
        let is_short = self.name.split('.').all(|part| part.len() <= LONGEST_LABEL);
        // The longest node id, two dots and the domain have to fit beside it.
        let room = LONGEST_MANAGER.min(LONGEST_PREFIX - LONGEST_LABEL) - DOMAIN.len() - 3;
        let whole = format!("{}.{}", self.name, self.namespace);
        if is_short && whole.len() <= room {
            return OwnerId(whole);
        }
        let hash = short_hash(whole.as_bytes());
        let kept: String = self.name.chars().filter(|c| *c != '.').take(40).collect();
        let namespace: String = self.namespace.chars().take(20).collect();
        OwnerId(format!("{kept}-{hash}.{}", namespace.trim_end_matches('-')))
    }
}

/// A Graph as labels of its objects name it: `<graph>.<namespace>`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct OwnerId(String);

impl OwnerId {
    /// The field manager a Graph applies with.
    pub(crate) fn manager(&self) -> String {
        format!("{}.{DOMAIN}", self.0)
    }

    /// The field manager a node patches with: an apply by one manager takes back what it applied before, so a
    /// node that adds to another's object needs one of its own.
    pub(crate) fn patch_manager(&self, node: &str) -> String {
        let whole = format!("{}.{}", node.to_lowercase(), self.manager());
        if whole.len() <= LONGEST_MANAGER {
            return whole;
        }
        format!("{}.{DOMAIN}", short_hash(whole.as_bytes()))
    }

    /// The annotation that holds the hash of what a node patched.
    pub(crate) fn hash_annotation(&self, node: &str) -> String {
        format!("{}.{}.{DOMAIN}/template-hash", node.to_lowercase(), self.0)
    }

    /// The label that says what a node's object is to the Graph.
    pub(crate) fn type_label(&self, node: &str) -> String {
        format!("{}.{}.{DOMAIN}/type", node.to_lowercase(), self.0)
    }

    pub(crate) fn generation_label(&self, node: &str) -> String {
        format!("{}.{}.{DOMAIN}/generation", node.to_lowercase(), self.0)
    }
}

/// What a label says of an object: a node of a Graph wrote it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Ownership {
    pub(crate) owner: OwnerId,
    /// The node's id in lower case.
    pub(crate) node: String,
    pub(crate) role: Role,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Role {
    Template,
    Patch,
}

impl Role {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Template => "template",
            Self::Patch => "patch",
        }
    }
}

/// Reads a label of an object, if it is one of a Graph.
pub(crate) fn ownership(key: &str, value: &str) -> Option<Ownership> {
    let (prefix, name) = key.split_once('/')?;
    let (node, owner) = prefix.strip_suffix(DOMAIN)?.strip_suffix('.')?.split_once('.')?;
    let role = match (name, value) {
        ("type", "template") | ("role", "owns") => Role::Template,
        ("type", "patch") => Role::Patch,
        _ => return None,
    };
    Some(Ownership { owner: OwnerId(owner.to_owned()), node: node.to_owned(), role })
}

/// The name of a Graph's revision.
pub(crate) fn revision(graph: &str, generation: i64) -> String {
    let suffix = format!("-g{generation:05}");
    let room = LONGEST_PREFIX - suffix.len();
    if graph.len() <= room {
        return format!("{graph}{suffix}");
    }
    let kept = graph[..room - 17].trim_end_matches(['-', '.']);
    format!("{kept}-{}{suffix}", short_hash(graph.as_bytes()))
}

/// A name as the value of a label: cut and hashed where it is too long.
pub(crate) fn label_value(name: &str) -> String {
    if name.len() <= LONGEST_LABEL {
        return name.to_owned();
    }
    let kept = name[..LONGEST_LABEL - 17].trim_end_matches(['-', '.']);
    format!("{kept}-{}", short_hash(name.as_bytes()))
}

/// 16 hexadecimal digits of a text.
pub(crate) fn short_hash(bytes: &[u8]) -> String {
    HEXLOWER.encode(&Sha256::digest(bytes)[..8])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_name_node_and_graph() {
        let graph = GraphId::new("team", "my.app");
        let owner = graph.owner();
        assert_eq!(owner.manager(), "my.app.team.internal.kro.run");
        let key = owner.type_label("prodEu");
        assert_eq!(key, "prodeu.my.app.team.internal.kro.run/type");
        let found = ownership(&key, "template").expect("is a label of ours");
        assert_eq!((found.owner, found.node.as_str(), found.role), (owner, "prodeu", Role::Template));
        assert_eq!(ownership("app.kubernetes.io/name", "template"), None);
    }

    #[test]
    fn long_names_stay_within_the_limits_and_apart() {
        let long = |tail: &str| GraphId::new("n".repeat(63), format!("{}{tail}", "g".repeat(240)));
        let (one, two) = (long("a").owner(), long("b").owner());
        assert_ne!(one, two);
        assert!(one.manager().len() <= LONGEST_MANAGER, "{}", one.manager().len());
        let label = one.type_label(&"i".repeat(63));
        let prefix = label.split('/').next().expect("has a prefix");
        assert!(prefix.len() <= LONGEST_PREFIX && prefix.split('.').all(|part| part.len() <= LONGEST_LABEL));
        assert_eq!(revision("a", 7), "a-g00007");
        assert!(revision(&"g".repeat(253), 1).len() <= LONGEST_PREFIX);
    }
}
