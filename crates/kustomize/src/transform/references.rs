//! Name references: fields that hold the name of an object that was renamed follow it.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};
use slipway_problem::{Problem, Problems};

use crate::build::Quirks;
use crate::config::{NameReference, TransformerConfig};
use crate::fieldspec::{FieldSpec, LeafKind};
use crate::id::{Gvk, ResourceId};
use crate::resource::Resource;
use crate::sort::kind_rank;

/// An object a reference can lead to: it was renamed or moved at least once.
struct Candidate {
    current: ResourceId,
    past: Vec<(Gvk, String)>,
    original_namespace: String,
    cluster_scoped: bool,
    prefixes: Vec<String>,
    suffixes: Vec<String>,
}

/// The scope and namespace of an object, which decide what can refer to it.
#[derive(PartialEq, Eq, Hash)]
struct Home {
    cluster_scoped: bool,
    namespace: String,
}

/// The object whose fields are being followed.
struct Referrer {
    id: ResourceId,
    cluster_scoped: bool,
    prefixes: Vec<String>,
    suffixes: Vec<String>,
    /// Namespaces of the accounts a RoleBinding names; candidates may be there too.
    subject_namespaces: Vec<String>,
    role: Option<Gvk>,
}

/// Rewrites every reference to a renamed object.
pub(crate) fn fix_references(
    resources: &mut [Resource],
    config: &TransformerConfig,
    quirks: Quirks,
    problems: &mut Problems,
) {
    let mut candidates = Vec::new();
    let mut by_name: HashMap<String, Vec<usize>> = HashMap::new();
    for resource in resources.iter().filter(|resource| !resource.past.is_empty()) {
        let current = resource.current_id();
        let past: Vec<(Gvk, String)> = resource
            .past
            .iter()
            .map(|past| (Gvk { kind: past.kind.clone(), ..current.gvk.clone() }, past.name.clone()))
            .collect();
        for (_, name) in &past {
            let places = by_name.entry(name.clone()).or_default();
            if places.last() != Some(&candidates.len()) {
                places.push(candidates.len());
            }
        }
        candidates.push(Candidate {
            original_namespace: resource.original_id().effective_namespace().to_owned(),
            cluster_scoped: current.gvk.is_cluster_scoped(),
            past,
            prefixes: resource.prefixes.clone(),
            suffixes: resource.suffixes.clone(),
            current,
        });
    }
    if candidates.is_empty() {
        return;
    }
    let mut homes: HashMap<String, HashSet<Home>> = HashMap::new();
    for resource in resources.iter() {
        let current = resource.current_id();
        let home = Home { cluster_scoped: current.gvk.is_cluster_scoped(), namespace: current.namespace };
        homes.entry(resource.original_id().effective_namespace().to_owned()).or_default().insert(home);
    }
    let mut fields: HashMap<&str, Vec<(&Gvk, &FieldSpec)>> = HashMap::new();
    let mut references: Vec<&NameReference> = config.name_references.iter().collect();
    references.sort_by_cached_key(|reference| kind_rank(&reference.referred));
    for reference in references {
        for field in &reference.fields {
            fields.entry(field.gvk.kind.as_str()).or_default().push((&reference.referred, field));
        }
    }
    let followed = ReferenceFollower { candidates: &candidates, by_name: &by_name, homes: &homes, quirks };
    for resource in resources {
        let id = resource.current_id();
        let of_kind = fields.get(id.gvk.kind.as_str()).into_iter().flatten();
        let of_any = fields.get("").into_iter().flatten();
        let matching: Vec<&(&Gvk, &FieldSpec)> =
            of_kind.chain(of_any).filter(|(_, field)| field.applies_to(&id.gvk)).collect();
        if id.gvk.kind == "Ingress" {
            followed.fix_ingress_class(resource, problems);
        }
        if matching.is_empty() {
            continue;
        }
        let referrer = Referrer {
            cluster_scoped: id.gvk.is_cluster_scoped(),
            prefixes: resource.prefixes.clone(),
            suffixes: resource.suffixes.clone(),
            subject_namespaces: subject_namespaces(resource),
            role: role_reference(resource),
            id,
        };
        for (referred, field) in matching {
            let mut reports = Vec::new();
            let mut follow = |value: &mut Value| {
                followed.rewrite_value(value, &referrer, referred, field, &mut reports);
            };
            if let Err(error) = field.visit_values(resource, LeafKind::Scalar, &mut follow) {
                problems.push(
                    Problem::error(format!(
                        "`{}`: `{}` in `{}` should be a mapping or a list of them",
                        referrer.id,
                        error.field,
                        field.path.join(".")
                    ))
                    .at(resource.at.clone()),
                );
            }
            problems.extend(reports.into_iter().map(|problem: Problem| problem.at(resource.at.clone())));
        }
    }
}

fn subject_namespaces(resource: &Resource) -> Vec<String> {
    if resource.kind() != "RoleBinding" {
        return Vec::new();
    }
    let subjects = resource.value.get("subjects").and_then(Value::as_array).into_iter().flatten();
    subjects
        .filter(|subject| subject.get("kind").and_then(Value::as_str) == Some("ServiceAccount"))
        .filter_map(|subject| subject.get("namespace").and_then(Value::as_str).map(str::to_owned))
        .collect()
}

fn role_reference(resource: &Resource) -> Option<Gvk> {
    let role = resource.value.get("roleRef")?;
    let text = |key: &str| role.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    Some(Gvk { group: text("apiGroup"), version: String::new(), kind: text("kind") })
}

struct ReferenceFollower<'a> {
    candidates: &'a [Candidate],
    by_name: &'a HashMap<String, Vec<usize>>,
    /// The current scopes of objects by the namespace they were read with.
    homes: &'a HashMap<String, HashSet<Home>>,
    quirks: Quirks,
}

impl<'a> ReferenceFollower<'a> {
    fn rewrite_value(
        &self,
        value: &mut Value,
        referrer: &Referrer,
        referred: &Gvk,
        field: &FieldSpec,
        reports: &mut Vec<Problem>,
    ) {
        match value {
            Value::String(name) => {
                if let Some(found) = self.choose_candidate(name, referrer, referred, field, None, reports) {
                    found.current.name.clone_into(name);
                }
            }
            Value::Array(list) => {
                list.iter_mut()
                    .for_each(|value| self.rewrite_value(value, referrer, referred, field, reports));
            }
            Value::Object(map) => self.rewrite_map(map, referrer, referred, field, reports),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// References made of a name and a namespace follow in both.
    fn rewrite_map(
        &self,
        map: &mut Map<String, Value>,
        referrer: &Referrer,
        referred: &Gvk,
        field: &FieldSpec,
        reports: &mut Vec<Problem>,
    ) {
        let name = match map.get("name") {
            Some(Value::String(name)) => name,
            None | Some(Value::Null) => {
                let path = field.path.join(".");
                reports
                    .push(Problem::error(format!("`{}`: an entry of `{path}` has no `name`", referrer.id)));
                return;
            }
            Some(_) => return,
        };
        let namespace = map.get("namespace").and_then(Value::as_str);
        let Some(found) = self.choose_candidate(name, referrer, referred, field, namespace, reports) else {
            return;
        };
        if map.get("kind").and_then(Value::as_str).is_some_and(|kind| kind != "ServiceAccount")
            && referred.kind == "ServiceAccount"
            && (found.current.name != *name)
        {
            match self.quirks {
                Quirks::Fixed => return,
                Quirks::AsKustomize => reports.push(
                    Problem::warning(format!(
                        "`{}`: the subject `{name}` is no ServiceAccount, but is renamed to `{}` like the account of that name",
                        referrer.id, found.current.name
                    ))
                    .code("KZ020"),
                ),
            }
        }
        map.insert("name".to_owned(), Value::String(found.current.name.clone()));
        if !found.current.namespace.is_empty() {
            map.insert("namespace".to_owned(), Value::String(found.current.namespace.clone()));
        }
    }

    fn choose_candidate(
        &self,
        name: &str,
        referrer: &Referrer,
        referred: &Gvk,
        field: &FieldSpec,
        namespace: Option<&str>,
        reports: &mut Vec<Problem>,
    ) -> Option<&'a Candidate> {
        let places = self.by_name.get(name)?;
        let role = field
            .path
            .ends_with(&["roleRef".to_owned(), "name".to_owned()])
            .then_some(referrer.role.as_ref());
        let reachable: Vec<&Candidate> = places
            .iter()
            .map(|&at| &self.candidates[at])
            .filter(|candidate| candidate.past.iter().any(|(gvk, _)| gvk.is_selected_by(referred)))
            .filter(|candidate| referrer.could_see(candidate))
            .collect();
        let mut found = match namespace {
            None => reachable,
            Some(namespace) => {
                let of = |name: fn(&Candidate) -> &str| -> Vec<&Candidate> {
                    reachable.iter().copied().filter(|candidate| name(candidate) == namespace).collect()
                };
                let original = of(|candidate| &candidate.original_namespace);
                // Any object that was there, even one of another kind, makes it the old name that is meant.
                let homes = self.homes.get(namespace).into_iter().flatten();
                if original.is_empty() && !homes.into_iter().any(|home| referrer.could_see_in(home)) {
                    of(|candidate| candidate.current.effective_namespace())
                } else {
                    original
                }
            }
        };
        if let Some(role) = role {
            let wanted = role?;
            found.retain(|candidate| candidate.past.iter().any(|(gvk, _)| gvk.is_selected_by(wanted)));
        }
        found.retain(|candidate| referrer.is_near(candidate));
        for empty in [EmptyList::Matches, EmptyList::Counts] {
            if found.len() > 1 {
                found.retain(|candidate| referrer.shares_context(candidate, empty));
            }
        }
        match found.as_slice() {
            [] => None,
            [first, rest @ ..]
                if rest.iter().all(|other| {
                    other.current.name == first.current.name
                        && (namespace.is_none() || other.current.namespace == first.current.namespace)
                }) =>
            {
                Some(first)
            }
            several => {
                let names: Vec<String> = several.iter().map(|found| format!("`{}`", found.current)).collect();
                reports.push(
                    Problem::error(format!(
                        "`{}`: `{name}` in `{}` could mean {}",
                        referrer.id,
                        field.path.join("."),
                        names.join(" or ")
                    ))
                    .hint("give one of them another name before they meet"),
                );
                None
            }
        }
    }

    /// The built-in table means Ingress classes to be followed but names the wrong group, so they are
    /// left dangling; said out loud here, or put right.
    fn fix_ingress_class(&self, resource: &mut Resource, problems: &mut Problems) {
        let Some(class) = resource.value.get("spec").and_then(|spec| spec.get("ingressClassName")) else {
            return;
        };
        let Some(class) = class.as_str().map(str::to_owned) else { return };
        let renamed = self.by_name.get(&class).into_iter().flatten().map(|&at| &self.candidates[at]).find(
            |candidate| candidate.current.gvk.kind == "IngressClass" && candidate.current.name != class,
        );
        let Some(renamed) = renamed else { return };
        match self.quirks {
            Quirks::Fixed => {
                if let Some(value) =
                    resource.value.get_mut("spec").and_then(|spec| spec.get_mut("ingressClassName"))
                {
                    *value = Value::String(renamed.current.name.clone());
                }
            }
            Quirks::AsKustomize => problems.push(
                Problem::warning(format!(
                    "`{}` still names the class `{class}`, which is now called `{}`",
                    resource.current_id(),
                    renamed.current.name
                ))
                .code("KZ020")
                .at(resource.at.clone()),
            ),
        }
    }
}

/// The treatment of objects without any prefix (suffix).
#[derive(Clone, Copy, PartialEq, Eq)]
enum EmptyList {
    Matches,
    Counts,
}

impl Referrer {
    /// Objects of the same namespace, of none, and accounts in namespaces a RoleBinding names.
    fn could_see(&self, candidate: &Candidate) -> bool {
        self.cluster_scoped
            || candidate.cluster_scoped
            || self.id.same_namespace(&candidate.current)
            || self.subject_namespaces.contains(&candidate.current.namespace)
    }

    fn could_see_in(&self, home: &Home) -> bool {
        let there = ResourceId { namespace: home.namespace.clone(), ..self.id.clone() };
        self.cluster_scoped
            || home.cluster_scoped
            || self.id.same_namespace(&there)
            || self.subject_namespaces.contains(&home.namespace)
    }

    fn is_near(&self, candidate: &Candidate) -> bool {
        self.cluster_scoped
            || candidate.cluster_scoped
            || self.id.same_namespace(&candidate.current)
            || candidate.current.gvk.kind == "ServiceAccount"
    }

    fn shares_context(&self, candidate: &Candidate, empty: EmptyList) -> bool {
        let same = |mine: &[String], theirs: &[String]| {
            if mine.is_empty() || theirs.is_empty() {
                return empty == EmptyList::Matches || mine.len() == theirs.len();
            }
            mine.iter().rev().zip(theirs.iter().rev()).all(|(mine, theirs)| mine == theirs)
        };
        same(&self.prefixes, &candidate.prefixes) && same(&self.suffixes, &candidate.suffixes)
    }
}
