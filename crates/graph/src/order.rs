//! Questions about the order of a graph, and graphs made from parts of one.

use std::sync::Arc;

use crate::graph::{Adjacency, Graph, GraphShape, NodeRef};
use crate::id::Id;

/// The edges a graph keeps when nodes are taken out of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeptEdges {
    /// Only those between nodes that stay: what a removed node put in order is no longer ordered.
    Induced,
    /// Also those that led through removed nodes, so nodes that stay keep their order. Removing a node
    /// with many neighbours on both sides makes an edge for each pair of them.
    Contracted,
}

/// The chain of nodes that decides how long a graph takes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CriticalPath {
    /// The chain, first to run first.
    pub ids: Vec<Id>,
    /// The sum of the weights along it.
    pub length: u64,
}

impl<N> Graph<N> {
    /// The waves, first to run first: nodes of a wave need only nodes of earlier ones.
    pub fn waves(
        &self,
    ) -> impl ExactSizeIterator<Item = impl ExactSizeIterator<Item = NodeRef<'_, N>>> + DoubleEndedIterator
    {
        let starts = &self.shape.wave_starts;
        (1..starts.len())
            .map(move |wave| (starts[wave - 1] as usize..starts[wave] as usize).map(|at| self.at(at as u32)))
    }

    /// Every node that some node of `of` needs, directly or not, in the stable order. Unknown ids are
    /// passed over.
    pub fn ancestors<I>(&self, of: I) -> Vec<NodeRef<'_, N>>
    where
        I: IntoIterator<Item: AsRef<str>>,
    {
        self.reachable_from(of, &self.shape.needs)
    }

    /// Every node that needs some node of `of`, directly or not, in the stable order. Unknown ids are
    /// passed over.
    pub fn descendants<I>(&self, of: I) -> Vec<NodeRef<'_, N>>
    where
        I: IntoIterator<Item: AsRef<str>>,
    {
        self.reachable_from(of, &self.shape.dependents)
    }

    fn reachable_from<I>(&self, of: I, along: &Adjacency) -> Vec<NodeRef<'_, N>>
    where
        I: IntoIterator<Item: AsRef<str>>,
    {
        let mut reached = vec![false; self.len()];
        let mut open: Vec<u32> = of.into_iter().filter_map(|id| self.shape.find(id.as_ref())).collect();
        while let Some(position) = open.pop() {
            for &next in along.neighbours(position) {
                if !std::mem::replace(&mut reached[next as usize], true) {
                    open.push(next);
                }
            }
        }
        self.nodes().filter(|node| reached[node.position()]).collect()
    }

    /// The same nodes with every edge the other way round, for undoing what the graph does.
    pub fn reversed(self) -> Self {
        let pairs =
            self.edges().map(|(node, need)| (need.position() as u32, node.position() as u32)).collect();
        let keep = vec![true; self.len()];
        self.rebuild(&keep, pairs)
    }

    /// Keeps only some nodes. To keep the graph as well, call it on a clone or on [`Graph::as_ref`].
    pub fn select(self, edges: KeptEdges, mut keep: impl FnMut(NodeRef<'_, N>) -> bool) -> Self {
        let kept: Vec<bool> = self.nodes().map(&mut keep).collect();
        let pairs = match edges {
            KeptEdges::Induced => self
                .edges()
                .map(|(node, need)| (node.position() as u32, need.position() as u32))
                .filter(|&(node, need)| kept[node as usize] && kept[need as usize])
                .collect(),
            KeptEdges::Contracted => contracted_edges(&self.shape, &kept),
        };
        self.rebuild(&kept, pairs)
    }

    /// The longest chain of needs, each node weighing what `weight` says (its expected time, say). Of
    /// several, the one whose nodes come first in the stable order, seen from its end.
    pub fn critical_path(&self, weight: impl FnMut(NodeRef<'_, N>) -> u64) -> CriticalPath {
        let weights: Vec<u64> = self.nodes().map(weight).collect();
        let mut length = weights.clone();
        let mut via = vec![None; self.len()];
        for position in 0..self.len() {
            for &need in self.shape.needs.neighbours(position as u32) {
                let through = length[need as usize].saturating_add(weights[position]);
                if via[position].is_none() || through > length[position] {
                    length[position] = through;
                    via[position] = Some(need);
                }
            }
        }
        let mut end = None;
        for position in 0..self.len() {
            if end.is_none_or(|end: usize| length[position] > length[end]) {
                end = Some(position);
            }
        }
        let mut path = CriticalPath { ids: Vec::new(), length: end.map_or(0, |end| length[end]) };
        while let Some(position) = end {
            path.ids.push(self.shape.ids[position].clone());
            end = via[position].map(|need| need as usize);
        }
        path.ids.reverse();
        path
    }

    /// The graph of the kept nodes with edges `(node, need)` between old positions. The edges must agree
    /// with the old order or all oppose it, so there is no cycle.
    fn rebuild(self, kept: &[bool], pairs: Vec<(u32, u32)>) -> Self {
        let mut number = vec![0u32; self.len()];
        let mut ids = Vec::new();
        for &position in self.shape.by_id.iter().filter(|&&position| kept[position as usize]) {
            number[position as usize] = ids.len() as u32;
            ids.push(self.shape.ids[position as usize].clone());
        }
        let pairs: Vec<(u32, u32)> =
            pairs.into_iter().map(|(node, need)| (number[node as usize], number[need as usize])).collect();
        let Some((shape, position)) =
            GraphShape::arrange_nodes(ids.clone(), &Adjacency::new(ids.len(), &pairs))
        else {
            unreachable!("edges along one order cannot form a cycle");
        };
        let mut nodes: Vec<(u32, N)> = self
            .nodes
            .into_iter()
            .enumerate()
            .filter(|&(old, _)| kept[old])
            .map(|(old, node)| (position[number[old] as usize], node))
            .collect();
        nodes.sort_unstable_by_key(|&(position, _)| position);
        Graph { shape: Arc::new(shape), nodes: nodes.into_iter().map(|(_, node)| node).collect() }
    }
}

/// Edges between kept nodes that stand for every path through removed ones.
fn contracted_edges(shape: &GraphShape, kept: &[bool]) -> Vec<(u32, u32)> {
    /// Frontiers up to this size are remembered, so chains of removed nodes are walked once.
    const SMALL: usize = 4;
    let mut small: Vec<Option<Vec<u32>>> = vec![None; shape.len()];
    let mut seen = vec![u32::MAX; shape.len()];
    let mut pairs = Vec::new();
    let mut open = Vec::new();
    for position in 0..shape.len() as u32 {
        let mut frontier = Vec::new();
        open.extend_from_slice(shape.needs.neighbours(position));
        while let Some(need) = open.pop() {
            if std::mem::replace(&mut seen[need as usize], position) == position {
                continue;
            }
            if kept[need as usize] {
                frontier.push(need);
                if !kept[position as usize] && frontier.len() > SMALL {
                    open.clear();
                }
            } else if let Some(known) = &small[need as usize] {
                open.extend_from_slice(known);
            } else {
                open.extend_from_slice(shape.needs.neighbours(need));
            }
        }
        if kept[position as usize] {
            pairs.extend(frontier.into_iter().map(|need| (position, need)));
        } else if frontier.len() <= SMALL {
            small[position as usize] = Some(frontier);
        }
    }
    pairs
}
