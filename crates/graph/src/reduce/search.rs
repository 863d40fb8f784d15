//! Deciding edges where no barrier helps: a search below each node, cut short in every cheap way.
//!
//! A path down to a need must pass one of the need's dependents, cannot go below its wave, and cannot
//! leave its interval labels. Nodes are strung on chains of edges, so meeting a chain above a dependent
//! is as good as meeting the dependent.

use crate::graph::GraphShape;

/// With more undecided needs than this, one search for all is cheaper than one for each.
const FEW: usize = 8;
/// Dependents of a need that a search looks out for.
const MOST_GATES: usize = 64;

pub(super) struct Search<'g> {
    shape: &'g GraphShape,
    labels: [Labels; 2],
    /// The chain each node is on; nodes of a chain with smaller positions lie below those with larger ones.
    chain: Vec<u32>,
    /// By chain: the search that looks out for it, and the lowest position it looks for.
    gate: Vec<(u32, u32)>,
    /// By node: the search that met it last.
    met: Vec<u32>,
    searches: u32,
    queue: Vec<u32>,
}

impl<'g> Search<'g> {
    pub(super) fn new(shape: &'g GraphShape) -> Self {
        let (chain, chains) = chains(shape);
        Self {
            shape,
            labels: [Labels::new(shape, false), Labels::new(shape, true)],
            chain,
            gate: vec![(0, 0); chains],
            met: vec![0; shape.len()],
            searches: 0,
            queue: Vec::new(),
        }
    }

    /// Marks the redundant edges from `node` to needs in its part.
    pub(super) fn mark_redundant(&mut self, node: u32, part: u32, parts: &[u32], redundant: &mut [bool]) {
        let shape = self.shape;
        let inside = |node: u32| parts[node as usize] == part;
        let needs = shape.needs.neighbours(node);
        let start = shape.needs.starts[node as usize] as usize;
        // Needs are sorted by position, hence by wave, and none of the top wave is below another.
        let Some(&highest) = needs.iter().rev().find(|&&need| inside(need)) else { return };
        let top = shape.wave[highest as usize];
        let undecided =
            || needs.iter().enumerate().filter(|&(_, &need)| inside(need) && shape.wave[need as usize] < top);
        if undecided().count() > FEW {
            self.decide_many(node, top, inside, &mut redundant[start..start + needs.len()]);
        } else {
            for (edge, &need) in undecided() {
                redundant[start + edge] = self.is_implied(node, need, top, inside);
            }
        }
    }

    /// Tells that another need of `node` leads down to `need`.
    fn is_implied(&mut self, node: u32, need: u32, top: u32, inside: impl Fn(u32) -> bool) -> bool {
        let Self { shape, labels, chain, gate, met, queue, .. } = self;
        self.searches += 1;
        let search = self.searches;
        let floor = shape.wave[need as usize];
        let mut gates = 0;
        gate[chain[need as usize] as usize] = (search, need);
        for &above in shape.dependents.neighbours(need).iter().take(MOST_GATES) {
            if shape.wave[above as usize] > top {
                break;
            }
            if above != node && inside(above) {
                gates += 1;
                let gate = &mut gate[chain[above as usize] as usize];
                if gate.0 != search || above < gate.1 {
                    *gate = (search, above);
                }
            }
        }
        if gates == 0 && shape.dependents.neighbours(need).len() <= MOST_GATES {
            return false;
        }
        // Breadth first: what a neighbour repeats is found at once.
        queue.clear();
        let needs = shape.needs.neighbours(node).iter().rev();
        queue.extend(needs.filter(|&&other| other != need && shape.wave[other as usize] > floor));
        let mut next = 0;
        while let Some(&above) = queue.get(next) {
            next += 1;
            let (wanted, lowest) = gate[chain[above as usize] as usize];
            if wanted == search && above >= lowest {
                return true;
            }
            for &below in shape.needs.neighbours(above) {
                if below == need {
                    return true;
                }
                let fresh = shape.wave[below as usize] > floor && met[below as usize] != search;
                if fresh && inside(below) && labels.iter().all(|labels| labels.may_reach(below, need)) {
                    met[below as usize] = search;
                    queue.push(below);
                }
            }
        }
        false
    }

    /// Decides all edges of a node with many needs in one search.
    fn decide_many(&mut self, node: u32, top: u32, inside: impl Fn(u32) -> bool, redundant: &mut [bool]) {
        let Self { shape, met, queue, .. } = self;
        self.searches += 1;
        let search = self.searches;
        let needs = shape.needs.neighbours(node);
        let wave = |node: u32| shape.wave[node as usize];
        let floor = needs.iter().find(|&&need| inside(need)).map_or(top, |&lowest| wave(lowest));
        queue.clear();
        queue.extend(needs.iter().rev().filter(|&&need| inside(need) && wave(need) > floor));
        let mut left = needs.iter().filter(|&&need| inside(need) && wave(need) < top).count();
        let mut next = 0;
        while let Some(&above) = queue.get(next)
            && left > 0
        {
            next += 1;
            for &below in shape.needs.neighbours(above) {
                if wave(below) < floor || met[below as usize] == search || !inside(below) {
                    continue;
                }
                met[below as usize] = search;
                if let Ok(edge) = needs.binary_search(&below) {
                    // It is in the queue already if anything of interest can lie below it.
                    redundant[edge] = true;
                    left -= 1;
                } else if wave(below) > floor {
                    queue.push(below);
                }
            }
        }
    }
}

/// Strings every node on a chain of edges, greedily. Gives the chain of each and their number.
fn chains(shape: &GraphShape) -> (Vec<u32>, usize) {
    let mut chain = vec![0u32; shape.len()];
    let mut is_end = vec![false; shape.len()];
    let mut count = 0;
    for node in 0..shape.len() {
        let end = shape.needs.neighbours(node as u32).iter().rev().find(|&&need| is_end[need as usize]);
        if let Some(&end) = end {
            is_end[end as usize] = false;
            chain[node] = chain[end as usize];
        } else {
            chain[node] = count;
            count += 1;
        }
        is_end[node] = true;
    }
    (chain, count as usize)
}

/// Interval labels over a depth-first spanning forest: if one node leads down to another, its interval
/// holds the other's. The converse need not be true, so they only rule out.
struct Labels {
    low: Vec<u32>,
    rank: Vec<u32>,
}

impl Labels {
    fn new(shape: &GraphShape, mirrored: bool) -> Self {
        let nodes = shape.len();
        let mut rank = vec![u32::MAX; nodes];
        let mut entered = vec![false; nodes];
        let mut next = 0;
        let mut calls: Vec<(u32, usize)> = Vec::new();
        for root in (0..nodes as u32).rev() {
            let root = if mirrored { nodes as u32 - 1 - root } else { root };
            // Start only where nothing leads in; every other node lies below one of these.
            if !shape.dependents.neighbours(root).is_empty() {
                continue;
            }
            entered[root as usize] = true;
            calls.push((root, 0));
            while let Some(&mut (node, ref mut edge)) = calls.last_mut() {
                let needs = shape.needs.neighbours(node);
                if *edge == needs.len() {
                    rank[node as usize] = next;
                    next += 1;
                    calls.pop();
                    continue;
                }
                let need = if mirrored { needs[needs.len() - 1 - *edge] } else { needs[*edge] };
                *edge += 1;
                if !std::mem::replace(&mut entered[need as usize], true) {
                    calls.push((need, 0));
                }
            }
        }
        let mut low = rank.clone();
        for node in 0..nodes {
            for &need in shape.needs.neighbours(node as u32) {
                low[node] = low[node].min(low[need as usize]);
            }
        }
        Self { low, rank }
    }

    fn may_reach(&self, from: u32, to: u32) -> bool {
        self.low[from as usize] <= self.low[to as usize] && self.rank[to as usize] <= self.rank[from as usize]
    }
}
