//! The graph itself: nodes in one stable order, edges in two flat tables.

use std::fmt;
use std::sync::Arc;

use crate::{GraphBuilder, Id};

/// A directed acyclic graph of nodes `N`, each needing others to come before it.
///
/// Nodes stand in one stable order: by wave (the length of the longest chain of needs below a node),
/// then by id. The order does not depend on the order nodes were added in, and every node comes after
/// all it needs.
#[derive(Clone)]
pub struct Graph<N> {
    pub(crate) shape: Arc<GraphShape>,
    /// By position.
    pub(crate) nodes: Vec<N>,
}

/// Everything about a graph but the nodes' values. A node's *position* is its index in the stable
/// order, so a need's position is always smaller than its dependent's.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct GraphShape {
    /// Shared by every graph made from this one with the same nodes.
    pub(crate) ids: Arc<[Id]>,
    /// Positions, sorted by id.
    pub(crate) by_id: Vec<u32>,
    pub(crate) wave: Vec<u32>,
    /// Wave `w` holds the positions `wave_starts[w]..wave_starts[w + 1]`.
    pub(crate) wave_starts: Vec<u32>,
    pub(crate) needs: Adjacency,
    pub(crate) dependents: Adjacency,
}

/// A list of neighbours for each node, in one allocation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Adjacency {
    pub(crate) starts: Vec<u32>,
    pub(crate) targets: Vec<u32>,
}

impl Adjacency {
    /// Groups `(from, to)` pairs by `from`; each list is sorted and free of duplicates.
    pub(crate) fn new(nodes: usize, pairs: &[(u32, u32)]) -> Self {
        let mut starts = vec![0u32; nodes + 1];
        for &(from, _) in pairs {
            starts[from as usize + 1] += 1;
        }
        for node in 0..nodes {
            starts[node + 1] += starts[node];
        }
        let mut next = starts.clone();
        let mut targets = vec![0u32; pairs.len()];
        for &(from, to) in pairs {
            targets[next[from as usize] as usize] = to;
            next[from as usize] += 1;
        }
        let mut written = 0;
        for node in 0..nodes {
            let (start, end) = (starts[node] as usize, starts[node + 1] as usize);
            targets[start..end].sort_unstable();
            starts[node] = written as u32;
            for index in start..end {
                if index == start || targets[index] != targets[index - 1] {
                    targets[written] = targets[index];
                    written += 1;
                }
            }
        }
        starts[nodes] = written as u32;
        targets.truncate(written);
        Self { starts, targets }
    }

    pub(crate) fn neighbours(&self, node: u32) -> &[u32] {
        &self.targets[self.starts[node as usize] as usize..self.starts[node as usize + 1] as usize]
    }

    pub(crate) fn len(&self) -> usize {
        self.starts.len().saturating_sub(1)
    }

    /// The same edges the other way round. Lists come out sorted because sources are visited in order.
    pub(crate) fn reversed_edges(&self) -> Self {
        let mut starts = vec![0u32; self.len() + 1];
        for &to in &self.targets {
            starts[to as usize + 1] += 1;
        }
        for node in 0..self.len() {
            starts[node + 1] += starts[node];
        }
        let mut next = starts.clone();
        let mut targets = vec![0u32; self.targets.len()];
        for from in 0..self.len() as u32 {
            for &to in self.neighbours(from) {
                targets[next[to as usize] as usize] = from;
                next[to as usize] += 1;
            }
        }
        Self { starts, targets }
    }
}

impl GraphShape {
    /// Puts nodes, given in the order of their ids, into the stable order. Also gives each node's
    /// position. Gives nothing if the needs form a cycle.
    pub(crate) fn arrange_nodes(sorted_ids: Vec<Id>, needs: &Adjacency) -> Option<(Self, Vec<u32>)> {
        let nodes = sorted_ids.len();
        let dependents = needs.reversed_edges();
        let mut missing: Vec<u32> =
            (0..nodes as u32).map(|node| needs.neighbours(node).len() as u32).collect();
        let mut wave = vec![0u32; nodes];
        let mut queue: Vec<u32> = (0..nodes as u32).filter(|&node| missing[node as usize] == 0).collect();
        let mut done = 0;
        while done < queue.len() {
            let node = queue[done];
            done += 1;
            for &dependent in dependents.neighbours(node) {
                let dependent = dependent as usize;
                wave[dependent] = wave[dependent].max(wave[node as usize] + 1);
                missing[dependent] -= 1;
                if missing[dependent] == 0 {
                    queue.push(dependent as u32);
                }
            }
        }
        if done < nodes {
            return None;
        }

        let waves = wave.iter().max().map_or(0, |&last| last as usize + 1);
        let mut wave_starts = vec![0u32; waves + 1];
        for &wave in &wave {
            wave_starts[wave as usize + 1] += 1;
        }
        for index in 0..waves {
            wave_starts[index + 1] += wave_starts[index];
        }
        let mut next = wave_starts.clone();
        let position: Vec<u32> = wave
            .iter()
            .map(|&wave| {
                let position = next[wave as usize];
                next[wave as usize] += 1;
                position
            })
            .collect();

        let mut at = vec![0u32; nodes];
        for (node, &position) in position.iter().enumerate() {
            at[position as usize] = node as u32;
        }
        let mut pairs = Vec::with_capacity(needs.targets.len());
        for node in 0..nodes as u32 {
            pairs.extend(
                needs.neighbours(node).iter().map(|&need| (position[node as usize], position[need as usize])),
            );
        }
        let needs = Adjacency::new(nodes, &pairs);
        // Moved, not cloned: counting references would touch every id's own memory twice.
        let mut ids: Vec<Option<Id>> = sorted_ids.into_iter().map(Some).collect();
        let shape = Self {
            ids: at.iter().filter_map(|&node| ids[node as usize].take()).collect(),
            wave: at.iter().map(|&node| wave[node as usize]).collect(),
            wave_starts,
            dependents: needs.reversed_edges(),
            needs,
            by_id: position.clone(),
        };
        Some((shape, position))
    }

    pub(crate) fn len(&self) -> usize {
        self.ids.len()
    }

    pub(crate) fn find(&self, id: &str) -> Option<u32> {
        let found = self.by_id.binary_search_by(|&position| self.ids[position as usize].as_str().cmp(id));
        found.ok().map(|index| self.by_id[index])
    }
}

impl<N> Graph<N> {
    /// Starts a graph.
    pub fn builder() -> GraphBuilder<N> {
        GraphBuilder::new()
    }

    /// The number of nodes.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Tells that there is no node at all.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The number of edges.
    pub fn edge_count(&self) -> usize {
        self.shape.needs.targets.len()
    }

    /// The value of the node called `id`.
    pub fn get(&self, id: &str) -> Option<&N> {
        self.shape.find(id).map(|position| &self.nodes[position as usize])
    }

    /// The value of the node called `id`, to change it.
    pub fn get_mut(&mut self, id: &str) -> Option<&mut N> {
        self.shape.find(id).map(|position| &mut self.nodes[position as usize])
    }

    /// The node called `id`.
    pub fn node(&self, id: &str) -> Option<NodeRef<'_, N>> {
        self.shape.find(id).map(|position| self.at(position))
    }

    /// Every node, in the stable order.
    pub fn nodes(&self) -> impl DoubleEndedIterator<Item = NodeRef<'_, N>> + ExactSizeIterator {
        (0..self.len()).map(|position| self.at(position as u32))
    }

    /// Every id, in the stable order.
    pub fn ids(&self) -> impl DoubleEndedIterator<Item = &Id> + ExactSizeIterator {
        self.shape.ids.iter()
    }

    /// Every edge as `(dependent, need)`, in the stable order of the dependents.
    pub fn edges(&self) -> impl Iterator<Item = (NodeRef<'_, N>, NodeRef<'_, N>)> {
        self.nodes().flat_map(|node| node.needs().map(move |need| (node, need)))
    }

    /// The same graph over other values.
    pub fn map<M>(self, mut change: impl FnMut(&Id, N) -> M) -> Graph<M> {
        let nodes = self.shape.ids.iter().zip(self.nodes).map(|(id, node)| change(id, node)).collect();
        Graph { shape: self.shape, nodes }
    }

    /// The same graph over borrowed values; copies no node and no edge.
    pub fn as_ref(&self) -> Graph<&N> {
        Graph { shape: self.shape.clone(), nodes: self.nodes.iter().collect() }
    }

    pub(crate) fn at(&self, position: u32) -> NodeRef<'_, N> {
        NodeRef { graph: self, position }
    }
}

impl<N> Default for Graph<N> {
    fn default() -> Self {
        let edges = Adjacency::new(0, &[]);
        let shape = GraphShape {
            ids: Arc::default(),
            by_id: Vec::new(),
            wave: Vec::new(),
            wave_starts: vec![0],
            needs: edges.clone(),
            dependents: edges,
        };
        Self { shape: Arc::new(shape), nodes: Vec::new() }
    }
}

impl<N: PartialEq> PartialEq for Graph<N> {
    fn eq(&self, other: &Self) -> bool {
        self.shape == other.shape && self.nodes == other.nodes
    }
}

impl<N: fmt::Debug> fmt::Debug for Graph<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.nodes()).finish()
    }
}

/// One node in its graph: its id, its value and its neighbours.
pub struct NodeRef<'g, N> {
    graph: &'g Graph<N>,
    position: u32,
}

impl<'g, N> NodeRef<'g, N> {
    /// Its name.
    pub fn id(self) -> &'g Id {
        &self.graph.shape.ids[self.position as usize]
    }

    /// Its value.
    pub fn value(self) -> &'g N {
        &self.graph.nodes[self.position as usize]
    }

    /// Its wave: 0 without needs, else one more than the highest wave among its needs.
    pub fn wave(self) -> usize {
        self.graph.shape.wave[self.position as usize] as usize
    }

    /// Its index in the stable order.
    pub fn position(self) -> usize {
        self.position as usize
    }

    /// The position of another node of its graph.
    pub(crate) fn find(self, id: &str) -> Option<u32> {
        self.graph.shape.find(id)
    }

    /// The nodes it needs directly, in the stable order.
    pub fn needs(self) -> impl DoubleEndedIterator<Item = NodeRef<'g, N>> + ExactSizeIterator {
        let graph = self.graph;
        graph.shape.needs.neighbours(self.position).iter().map(move |&need| graph.at(need))
    }

    /// The nodes that need it directly, in the stable order.
    pub fn dependents(self) -> impl DoubleEndedIterator<Item = NodeRef<'g, N>> + ExactSizeIterator {
        let graph = self.graph;
        graph.shape.dependents.neighbours(self.position).iter().map(move |&dependent| graph.at(dependent))
    }
}

impl<N> Clone for NodeRef<'_, N> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<N> Copy for NodeRef<'_, N> {}

impl<N: fmt::Debug> fmt::Debug for NodeRef<'_, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node")
            .field("id", self.id())
            .field("value", self.value())
            .field("needs", &self.needs().map(NodeRef::id).collect::<Vec<_>>())
            .finish()
    }
}
