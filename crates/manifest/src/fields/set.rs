//! A set of field paths: a trie of sorted vectors, so that every operation is one linear walk.

use std::cmp::Ordering;
use std::fmt;

use super::PathElement;
use crate::schema::{Shape, TypeRef};

/// A set of paths. A path may be a member while longer ones are, too: owning a map is not owning what
/// is in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSet {
    /// Sorted by element; every node is a member or has children.
    nodes: Vec<FieldNode>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FieldNode {
    pub(super) element: PathElement,
    pub(super) member: bool,
    pub(super) children: FieldSet,
}

/// A path: a list of steps. Prints as `.spec.containers[name="c"].image`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct FieldPath(pub Vec<PathElement>);

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|element| element.fmt(f))
    }
}

impl FieldPath {
    /// Makes a path of field names.
    pub fn from_names<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        Self(names.into_iter().map(PathElement::field).collect())
    }
}

impl FieldSet {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    pub(super) fn nodes(&self) -> &[FieldNode] {
        &self.nodes
    }

    fn find_position(&self, element: &PathElement) -> Result<usize, usize> {
        self.nodes.binary_search_by(|node| node.element.cmp(element))
    }

    /// Adds a path.
    pub fn insert(&mut self, path: &[PathElement]) {
        let Some((first, rest)) = path.split_first() else { return };
        let at = match self.find_position(first) {
            Ok(at) => at,
            Err(at) => {
                self.nodes.insert(
                    at,
                    FieldNode { element: first.clone(), member: false, children: FieldSet::new() },
                );
                at
            }
        };
        if rest.is_empty() {
            self.nodes[at].member = true;
        } else {
            self.nodes[at].children.insert(rest);
        }
    }

    /// Builds a set of nodes in any order; nodes of the same element are joined.
    pub(crate) fn from_parts(parts: impl IntoIterator<Item = (PathElement, bool, FieldSet)>) -> Self {
        let mut nodes: Vec<FieldNode> = parts
            .into_iter()
            .filter(|(_, member, children)| *member || !children.is_empty())
            .map(|(element, member, children)| FieldNode { element, member, children })
            .collect();
        if nodes.windows(2).any(|pair| pair[0].element >= pair[1].element) {
            nodes.sort_by(|a, b| a.element.cmp(&b.element));
            nodes.dedup_by(|later, earlier| {
                if later.element != earlier.element {
                    return false;
                }
                earlier.member |= later.member;
                earlier.children = earlier.children.union(&later.children);
                true
            });
        }
        Self { nodes }
    }

    /// Returns true if the path itself is a member.
    pub fn contains(&self, path: &[PathElement]) -> bool {
        let Some((last, parents)) = path.split_last() else { return false };
        let mut at = self;
        for element in parents {
            let Ok(found) = at.find_position(element) else { return false };
            at = &at.nodes[found].children;
        }
        at.has_element(last)
    }

    pub(crate) fn has_element(&self, element: &PathElement) -> bool {
        self.find_position(element).is_ok_and(|at| self.nodes[at].member)
    }

    /// The paths below one step, relative to it.
    pub fn children_of(&self, element: &PathElement) -> Option<&FieldSet> {
        self.find_position(element).ok().map(|at| &self.nodes[at].children).filter(|set| !set.is_empty())
    }

    /// Paths in either set.
    pub fn union(&self, other: &FieldSet) -> FieldSet {
        let mut nodes = Vec::with_capacity(self.nodes.len().max(other.nodes.len()));
        walk_pairs(&self.nodes, &other.nodes, |a, b| match (a, b) {
            (Some(a), Some(b)) => nodes.push(FieldNode {
                element: a.element.clone(),
                member: a.member || b.member,
                children: a.children.union(&b.children),
            }),
            (Some(node), None) | (None, Some(node)) => nodes.push(node.clone()),
            (None, None) => {}
        });
        FieldSet { nodes }
    }

    /// Paths in both sets.
    pub fn intersection(&self, other: &FieldSet) -> FieldSet {
        let mut nodes = Vec::new();
        walk_pairs(&self.nodes, &other.nodes, |a, b| {
            if let (Some(a), Some(b)) = (a, b) {
                let node = FieldNode {
                    element: a.element.clone(),
                    member: a.member && b.member,
                    children: a.children.intersection(&b.children),
                };
                if node.member || !node.children.is_empty() {
                    nodes.push(node);
                }
            }
        });
        FieldSet { nodes }
    }

    /// Paths in this set and not in the other. Children of a path that goes stay.
    pub fn difference(&self, other: &FieldSet) -> FieldSet {
        self.subtract_set(other, false)
    }

    /// Paths in this set that are neither in the other nor below one that is.
    pub fn recursive_difference(&self, other: &FieldSet) -> FieldSet {
        self.subtract_set(other, true)
    }

    fn subtract_set(&self, other: &FieldSet, recursive: bool) -> FieldSet {
        let mut nodes = Vec::new();
        walk_pairs(&self.nodes, &other.nodes, |a, b| match (a, b) {
            (Some(a), Some(b)) if !(recursive && b.member) => {
                let node = FieldNode {
                    element: a.element.clone(),
                    member: a.member && !b.member,
                    children: a.children.subtract_set(&b.children, recursive),
                };
                if node.member || !node.children.is_empty() {
                    nodes.push(node);
                }
            }
            (Some(a), None) => nodes.push(a.clone()),
            _ => {}
        });
        FieldSet { nodes }
    }

    /// Returns true if every path of this set is in the other.
    pub fn is_subset(&self, other: &FieldSet) -> bool {
        let mut subset = true;
        walk_pairs(&self.nodes, &other.nodes, |a, b| match (a, b) {
            (Some(a), Some(b)) => {
                subset = subset && (!a.member || b.member) && a.children.is_subset(&b.children);
            }
            (Some(_), None) => subset = false,
            _ => {}
        });
        subset
    }

    /// Members with no members below them.
    pub fn leaves(&self) -> FieldSet {
        let leaf = |node: &FieldNode| FieldNode {
            element: node.element.clone(),
            member: node.member && node.children.is_empty(),
            children: node.children.leaves(),
        };
        FieldSet { nodes: self.nodes.iter().map(leaf).collect() }
    }

    /// Every path, members of a level before what is below them.
    pub fn paths(&self) -> Vec<FieldPath> {
        let mut paths = Vec::new();
        self.collect_paths(&mut Vec::new(), &mut paths);
        paths
    }

    fn collect_paths(&self, prefix: &mut Vec<PathElement>, paths: &mut Vec<FieldPath>) {
        for node in self.nodes.iter().filter(|node| node.member) {
            let mut path = prefix.clone();
            path.push(node.element.clone());
            paths.push(FieldPath(path));
        }
        for node in &self.nodes {
            prefix.push(node.element.clone());
            node.children.collect_paths(prefix, paths);
            prefix.pop();
        }
    }

    /// Makes members of struct fields that have members below them: who owns a part of a struct has a
    /// say in the struct being there. Map keys and list items are not struct fields.
    pub(crate) fn with_named_fields(&self, kind: TypeRef<'_>) -> FieldSet {
        let nodes = self.nodes.iter().map(|node| {
            let (named, child) = match (&node.element, kind.shape()) {
                (PathElement::Field(name), Shape::Map(map)) => (map.field(name).is_some(), kind.child(name)),
                (PathElement::Field(name), _) => (false, kind.child(name)),
                _ => (false, kind.item()),
            };
            let children = match child {
                Some(child) if !node.children.is_empty() => node.children.with_named_fields(child),
                _ => node.children.clone(),
            };
            FieldNode {
                element: node.element.clone(),
                member: node.member || (named && !node.children.is_empty()),
                children,
            }
        });
        FieldSet { nodes: nodes.collect() }
    }
}

impl<'a> FromIterator<&'a FieldPath> for FieldSet {
    fn from_iter<I: IntoIterator<Item = &'a FieldPath>>(paths: I) -> Self {
        let mut set = FieldSet::new();
        for path in paths {
            set.insert(&path.0);
        }
        set
    }
}

/// Walks two sorted lists in step.
fn walk_pairs<'a>(
    a: &'a [FieldNode],
    b: &'a [FieldNode],
    mut each: impl FnMut(Option<&'a FieldNode>, Option<&'a FieldNode>),
) {
    let (mut i, mut j) = (0, 0);
    while i < a.len() || j < b.len() {
        let order = match (a.get(i), b.get(j)) {
            (Some(x), Some(y)) => x.element.cmp(&y.element),
            (Some(_), None) => Ordering::Less,
            _ => Ordering::Greater,
        };
        match order {
            Ordering::Less => {
                each(a.get(i), None);
                i += 1;
            }
            Ordering::Greater => {
                each(None, b.get(j));
                j += 1;
            }
            Ordering::Equal => {
                each(a.get(i), b.get(j));
                i += 1;
                j += 1;
            }
        }
    }
}
