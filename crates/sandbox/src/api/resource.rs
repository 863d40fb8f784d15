//! What is served: built-in resources and those custom resource definitions add.

use std::collections::HashMap;
use std::sync::Arc;

use slipway_manifest::schema::{Resource, Schema, TypeRef};

use crate::api::Verb;
use crate::api::crd::Custom;
use crate::http::negotiate::Origin;
use crate::status::Named;

/// One resource of one served version.
#[derive(Debug)]
pub(crate) struct Served {
    pub def: Resource,
    /// Where its objects are stored: the same table for every version, and for both event groups.
    pub table: Arc<str>,
    pub list_kind: String,
    /// The version objects are stored in.
    pub storage_version: String,
    pub custom: Option<Arc<Custom>>,
    api_version: String,
    object_prefix: String,
}

impl Served {
    pub(crate) fn built_in(def: &Resource, storage_version: &str) -> Served {
        let table = match (def.group.as_str(), def.plural.as_str()) {
            ("events.k8s.io", "events") => "events".to_owned(),
            ("", plural) => plural.to_owned(),
            (group, plural) => format!("{plural}.{group}"),
        };
        let api_version = def.api_version();
        Served {
            table: table.into(),
            list_kind: format!("{}List", def.kind),
            storage_version: storage_version.to_owned(),
            custom: None,
            object_prefix: format!("{{\"kind\":\"{}\",\"apiVersion\":\"{api_version}\",", def.kind),
            api_version,
            def: def.clone(),
        }
    }

    pub(crate) fn of_custom(def: Resource, list_kind: String, custom: Arc<Custom>) -> Served {
        let api_version = def.api_version();
        Served {
            table: format!("{}.{}", def.plural, def.group).into(),
            list_kind,
            storage_version: custom.storage_version.clone(),
            object_prefix: format!("{{\"apiVersion\":\"{api_version}\",\"kind\":\"{}\",", def.kind),
            custom: Some(custom),
            api_version,
            def,
        }
    }

    pub(crate) fn api_version(&self) -> &str {
        &self.api_version
    }

    /// `{"kind":…,"apiVersion":…,` as printed before an object's tail.
    pub(crate) fn object_prefix(&self) -> &str {
        &self.object_prefix
    }

    /// The group and plural, as errors name a resource.
    pub(crate) fn named(&self) -> Named<'_> {
        Named { group: &self.def.group, what: &self.def.plural }
    }

    /// The group and Kind, as validation errors name an object.
    pub(crate) fn named_kind(&self) -> Named<'_> {
        Named { group: &self.def.group, what: &self.def.kind }
    }

    pub(crate) fn has_verb(&self, verb: Verb) -> bool {
        self.def.verbs.iter().any(|v| v == verb.as_str())
    }

    pub(crate) fn origin(&self) -> Origin {
        if self.custom.is_some() { Origin::Custom } else { Origin::BuiltIn }
    }

    pub(crate) fn has_status(&self) -> bool {
        self.def.subresource("status").is_some()
    }

    /// The shape of its objects.
    pub(crate) fn shape(&self) -> TypeRef<'_> {
        match &self.custom {
            Some(custom) => custom.shape(),
            None => Schema::built_in()
                .types()
                .type_of_kind(&self.api_version, &self.def.kind)
                .unwrap_or_else(TypeRef::anything),
        }
    }

    /// `apps/Deployment`: how tables of rules about built-in kinds are keyed. Empty for custom resources.
    pub(crate) fn rule_key(&self) -> (&str, &str) {
        if self.custom.is_some() { ("", "") } else { (&self.def.group, &self.def.kind) }
    }
}

/// A group in the order discovery lists it.
#[derive(Debug, Clone)]
pub(crate) struct Group {
    pub name: String,
    pub versions: Vec<String>,
    pub custom: bool,
}

/// Everything served at one moment.
#[derive(Debug)]
pub(crate) struct Registry {
    pub groups: Vec<Group>,
    resources: HashMap<String, Vec<Arc<Served>>>,
    by_table: HashMap<Arc<str>, Arc<Served>>,
    /// Counts changes, for entity tags.
    pub generation: u64,
    pub(crate) documents: crate::api::discovery::Documents,
}

impl Registry {
    /// The built-in resources and those of `customs`.
    pub(crate) fn new(customs: Vec<Arc<Served>>, generation: u64) -> Registry {
        let mut groups: Vec<Group> = Vec::new();
        let mut resources: HashMap<String, Vec<Arc<Served>>> = HashMap::new();
        let mut by_table = HashMap::new();
        let mut add = |served: Arc<Served>, groups: &mut Vec<Group>| {
            let (group, version) = (served.def.group.as_str(), served.def.version.as_str());
            let custom = served.custom.is_some();
            match groups.iter_mut().find(|g| g.name == group) {
                Some(known) => {
                    if !known.versions.iter().any(|v| v == version) {
                        known.versions.push(version.to_owned());
                    }
                }
                None => {
                    groups.push(Group { name: group.to_owned(), versions: vec![version.to_owned()], custom });
                }
            }
            if served.storage_version == served.def.version && served.def.group != "events.k8s.io" {
                by_table.insert(served.table.clone(), served.clone());
            }
            resources.entry(served.api_version().to_owned()).or_default().push(served);
        };
        for def in Schema::built_in().resources() {
            let storage = if def.group == "autoscaling" { "v2" } else { &def.version };
            add(Arc::new(Served::built_in(def, storage)), &mut groups);
        }
        let built_in = groups.len();
        for served in customs {
            add(served, &mut groups);
        }
        groups[built_in..].sort_by(|a, b| a.name.cmp(&b.name));
        for group in &mut groups[built_in..] {
            group.versions.sort_by_key(|v| std::cmp::Reverse(version_order(v)));
        }
        Registry {
            groups,
            resources,
            by_table,
            generation,
            documents: crate::api::discovery::Documents::default(),
        }
    }

    pub(crate) fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Served>> {
        self.of_version(group, version)?.iter().find(|s| s.def.plural == plural)
    }

    pub(crate) fn of_version(&self, group: &str, version: &str) -> Option<&[Arc<Served>]> {
        let api_version = slipway_manifest::object::join_api_version(group, version);
        self.resources.get(&api_version).map(Vec::as_slice)
    }

    /// The resource in its storage version.
    pub(crate) fn of_table(&self, table: &str) -> Option<&Arc<Served>> {
        self.by_table.get(table)
    }
}

/// Orders versions as Kubernetes prefers them: v2 > v1 > v1beta2 > v1alpha1 > anything else.
pub(crate) fn version_order(version: &str) -> (u8, u64, u64, std::cmp::Reverse<String>) {
    let parse = || -> Option<(u8, u64, u64)> {
        let rest = version.strip_prefix('v')?;
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let major = rest[..digits].parse().ok()?;
        let rest = &rest[digits..];
        if rest.is_empty() {
            return Some((3, major, 0));
        }
        for (word, rank) in [("beta", 2), ("alpha", 1)] {
            if let Some(minor) = rest.strip_prefix(word) {
                return Some((rank, major, minor.parse().ok()?));
            }
        }
        None
    };
    let (rank, major, minor) = parse().unwrap_or((0, 0, 0));
    (rank, major, minor, std::cmp::Reverse(version.to_owned()))
}
