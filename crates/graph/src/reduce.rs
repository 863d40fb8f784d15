//! Transitive reduction: dropping every edge that other edges already imply.
//!
//! Plans are staged: between two barriers (nodes comparable to every other) lie nodes that only meet
//! each other. Finding barriers takes one pass, an edge that spans one is redundant, and an edge at one
//! is decided by looking at one neighbour. What lies between is split into its unconnected parts, each
//! of which is treated the same way (stages hold weight groups, which are stages). Only a part without
//! barriers is searched. Memory stays proportional to nodes and edges whatever the graph.

mod search;

use std::sync::Arc;

use self::search::Search;
use crate::graph::{Adjacency, Graph, GraphShape};

/// Stages inside stages deeper than this are searched instead.
const DEEPEST: u32 = 12;

impl<N> Graph<N> {
    /// The graph with the fewest edges that puts the nodes in the same order.
    pub fn reduced(self) -> Self {
        let shape = &*self.shape;
        let redundant = Reduction::new(shape).run();
        let mut starts = Vec::with_capacity(shape.needs.starts.len());
        let mut targets = Vec::with_capacity(shape.needs.targets.len());
        for node in 0..shape.len() {
            starts.push(targets.len() as u32);
            let edges = shape.needs.starts[node] as usize..shape.needs.starts[node + 1] as usize;
            let kept = redundant[edges.clone()].iter().zip(&shape.needs.targets[edges]);
            targets.extend(kept.filter(|(redundant, _)| !**redundant).map(|(_, &need)| need));
        }
        starts.push(targets.len() as u32);
        let needs = Adjacency { starts, targets };
        // The longest chain below a node has no redundant edge, so waves and positions stay.
        let shape = GraphShape {
            ids: shape.ids.clone(),
            by_id: shape.by_id.clone(),
            wave: shape.wave.clone(),
            wave_starts: shape.wave_starts.clone(),
            dependents: needs.reversed_edges(),
            needs,
        };
        Graph { shape: Arc::new(shape), nodes: self.nodes }
    }
}

struct Reduction<'g> {
    shape: &'g GraphShape,
    /// By edge, in the order of `shape.needs.targets`.
    redundant: Vec<bool>,
    /// The part each node is in; edges between parts are decided.
    part: Vec<u32>,
    parts: u32,
    /// The node's index in its part.
    local: Vec<u32>,
    search: Option<Search<'g>>,
}

impl<'g> Reduction<'g> {
    fn new(shape: &'g GraphShape) -> Self {
        let nodes = shape.len();
        Self {
            shape,
            redundant: vec![false; shape.needs.targets.len()],
            part: vec![0; nodes],
            parts: 0,
            local: vec![0; nodes],
            search: None,
        }
    }

    fn run(mut self) -> Vec<bool> {
        let mut open = Vec::new();
        self.split((0..self.shape.len() as u32).collect(), 0, &mut open);
        while let Some((members, depth)) = open.pop() {
            let closest = self.closest(&members);
            let barriers = if depth < DEEPEST { barriers(&closest) } else { Vec::new() };
            if barriers.is_empty() {
                self.search(&members);
            } else {
                self.between(&members, &closest, &barriers, depth, &mut open);
            }
        }
        self.redundant
    }

    /// Splits members of one part (sorted) into unconnected parts and queues those with edges to decide.
    fn split(&mut self, members: Vec<u32>, depth: u32, open: &mut Vec<(Vec<u32>, u32)>) {
        let part = self.new_part(&members);
        let mut root: Vec<u32> = (0..members.len() as u32).collect();
        fn find(root: &mut [u32], mut node: u32) -> u32 {
            while root[node as usize] != node {
                root[node as usize] = root[root[node as usize] as usize];
                node = root[node as usize];
            }
            node
        }
        // An edge is redundant only if its node has another need to go through: members with several
        // needs are what there is to decide.
        let mut forks = Vec::new();
        for (index, &member) in members.iter().enumerate() {
            let mut needs = 0;
            for &need in self.shape.needs.neighbours(member) {
                if self.part[need as usize] == part {
                    let a = find(&mut root, index as u32);
                    let b = find(&mut root, self.local[need as usize]);
                    root[a.max(b) as usize] = a.min(b);
                    needs += 1;
                }
            }
            if needs > 1 {
                forks.push(index as u32);
            }
        }
        if forks.is_empty() {
            return;
        }
        const NONE: u32 = u32::MAX;
        let mut groups: Vec<Vec<u32>> = Vec::new();
        let mut group = vec![NONE; members.len()];
        for fork in forks {
            let root = find(&mut root, fork) as usize;
            if group[root] == NONE {
                group[root] = groups.len() as u32;
                groups.push(Vec::new());
            }
        }
        for (index, &member) in members.iter().enumerate() {
            let group = group[find(&mut root, index as u32) as usize];
            if group != NONE {
                groups[group as usize].push(member);
            }
        }
        open.extend(groups.into_iter().map(|group| (group, depth)));
    }

    fn new_part(&mut self, members: &[u32]) -> u32 {
        self.parts += 1;
        for (index, &member) in members.iter().enumerate() {
            self.part[member as usize] = self.parts;
            self.local[member as usize] = index as u32;
        }
        self.parts
    }

    /// Makes a part of the members and finds the closest neighbours of each.
    fn closest(&mut self, members: &[u32]) -> Vec<Closest> {
        let part = self.new_part(members);
        let inside = |&&other: &&u32| self.part[other as usize] == part;
        let local = |&other: &u32| self.local[other as usize];
        members
            .iter()
            .map(|&node| Closest {
                first_out: self.shape.dependents.neighbours(node).iter().find(inside).map(local),
                last_in: self.shape.needs.neighbours(node).iter().rev().find(inside).map(local),
            })
            .collect()
    }

    /// Decides every edge that touches or spans a barrier and queues what lies between them.
    fn between(
        &mut self,
        members: &[u32],
        closest: &[Closest],
        barriers: &[u32],
        depth: u32,
        open: &mut Vec<(Vec<u32>, u32)>,
    ) {
        let part = self.part[members[0] as usize];
        // Twice the number of barriers before a node, plus one if it is a barrier itself.
        let mut place = vec![0u32; members.len()];
        let mut passed = 0;
        for (index, place) in place.iter_mut().enumerate() {
            let here = barriers.get(passed) == Some(&(index as u32));
            *place = 2 * passed as u32 + u32::from(here);
            passed += usize::from(here);
        }
        for (index, &member) in members.iter().enumerate() {
            let start = self.shape.needs.starts[member as usize] as usize;
            for (offset, &need) in self.shape.needs.neighbours(member).iter().enumerate() {
                if self.part[need as usize] != part {
                    continue;
                }
                let from = self.local[need as usize];
                let (low, high) = (place[from as usize], place[index]);
                let (low_is, high_is) = (low % 2 == 1, high % 2 == 1);
                self.redundant[start + offset] = if high / 2 > low / 2 + u32::from(low_is) {
                    true
                } else if low_is && high_is {
                    index as u32 > from + 1
                } else if low_is {
                    closest[index].last_in != Some(from)
                } else if high_is {
                    closest[from as usize].first_out != Some(index as u32)
                } else {
                    false
                };
            }
        }
        let mut segments: Vec<Vec<u32>> = Vec::new();
        let mut last = u32::MAX;
        for (&place, &member) in place.iter().zip(members) {
            if place % 2 == 1 {
                continue;
            }
            if place != last {
                segments.push(Vec::new());
                last = place;
            }
            if let Some(segment) = segments.last_mut() {
                segment.push(member);
            }
        }
        for segment in segments.into_iter().filter(|segment| segment.len() > 2) {
            self.split(segment, depth + 1, open);
        }
    }

    /// Decides the edges of a part by looking below each node with needs in several waves.
    fn search(&mut self, members: &[u32]) {
        let part = self.new_part(members);
        let search = self.search.get_or_insert_with(|| Search::new(self.shape));
        for &node in members {
            search.mark_redundant(node, part, &self.part, &mut self.redundant);
        }
    }
}

/// A node's first dependent and last need within its part, as local indexes.
struct Closest {
    first_out: Option<u32>,
    last_in: Option<u32>,
}

/// The local indexes of nodes that come after all before them and before all after them.
///
/// All nodes before `p` lead to `p` exactly if each has a dependent at or before `p` (by induction from
/// `p` down), and `p` leads to all after it exactly if each has a need at or after `p`.
fn barriers(closest: &[Closest]) -> Vec<u32> {
    // Whether every node after an index has a need at or after it.
    let mut reached = vec![true; closest.len() + 1];
    let mut earliest_in = u32::MAX;
    let mut orphan = false;
    for index in (0..closest.len()).rev() {
        reached[index] = !orphan && earliest_in >= index as u32;
        orphan |= closest[index].last_in.is_none();
        earliest_in = earliest_in.min(closest[index].last_in.unwrap_or(0));
    }
    let mut furthest_out = 0;
    let mut found = Vec::new();
    for (index, node) in closest.iter().enumerate() {
        if furthest_out <= index as u32 && reached[index] {
            found.push(index as u32);
        }
        furthest_out = furthest_out.max(node.first_out.unwrap_or(u32::MAX));
    }
    found
}
