//! Finding short, readable cycles: strongly connected components, then breadth-first search in each.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::fmt::Write as _;

use crate::Id;
use crate::graph::Adjacency;

/// Cycles listed for one component; enough to see its shape, few enough to read.
const MOST_PER_COMPONENT: usize = 4;
/// Components for which cycles are listed.
const MOST_COMPONENTS: usize = 50;
/// Nodes from which the shortest cycle of a component is looked for; each costs one search.
const MOST_STARTS: usize = 128;
/// Nodes of a cycle shown in full.
const LONGEST_SHOWN: usize = 24;

const NONE: u32 = u32::MAX;

/// The cycles found, each starting at its smallest node.
pub(crate) struct Cycles {
    pub(crate) paths: Vec<Vec<u32>>,
    /// Components for which none was listed.
    pub(crate) more: usize,
}

/// Lists, for each component, its shortest cycle and then one for each of its first nodes not on a
/// cycle listed before, within bounds.
pub(crate) fn find(needs: &Adjacency) -> Cycles {
    let (component, mut members) = components(needs);
    members.sort_by_key(|members| members[0]);
    let more = members.len().saturating_sub(MOST_COMPONENTS);
    members.truncate(MOST_COMPONENTS);

    let mut search = Search {
        needs,
        component: &component,
        seen: vec![0; needs.len()],
        via: vec![NONE; needs.len()],
        round: 0,
    };
    let mut listed = vec![false; needs.len()];
    let mut paths = Vec::new();
    for members in members {
        let mut shortest: Option<Vec<u32>> = None;
        for &start in members.iter().take(MOST_STARTS) {
            let limit = shortest.as_ref().map_or(usize::MAX, Vec::len);
            if limit == 2 {
                break;
            }
            if let Some(path) = search.shortest_through(start).filter(|path| path.len() < limit) {
                shortest = Some(path);
            }
        }
        let mut found: Vec<Vec<u32>> = shortest.into_iter().collect();
        found.iter().flatten().for_each(|&node| listed[node as usize] = true);
        for &start in &members {
            if found.len() == MOST_PER_COMPONENT {
                break;
            }
            if listed[start as usize] {
                continue;
            }
            if let Some(path) = search.shortest_through(start) {
                path.iter().for_each(|&node| listed[node as usize] = true);
                found.push(path);
            }
        }
        for path in &mut found {
            let smallest =
                path.iter().enumerate().min_by_key(|&(_, node)| node).map_or(0, |(index, _)| index);
            path.rotate_left(smallest);
        }
        paths.extend(found);
    }
    Cycles { paths, more }
}

/// Finds the wishes that would close a cycle if the firm edges, and the wishes before them that do not,
/// were there. Each comes with the nodes of that cycle, its own edge first. `all` holds both kinds.
pub(crate) fn closing(
    nodes: usize,
    firm: &[(u32, u32)],
    wished: &[Option<(u32, u32)>],
    all: &[(u32, u32)],
) -> Vec<(usize, Vec<u32>)> {
    // Only an edge between nodes of one component can be on a cycle, so only those are searched for.
    let (component, _) = components(&Adjacency::new(nodes, all));
    let risky = |&(node, need): &(u32, u32)| component[node as usize] == component[need as usize];
    let mut below: HashMap<u32, Vec<u32>> = HashMap::new();
    for (node, need) in firm.iter().copied().filter(risky) {
        below.entry(node).or_default().push(need);
    }
    let mut refused = Vec::new();
    for (wish, edge) in wished.iter().enumerate() {
        let Some((node, need)) = edge.filter(risky) else { continue };
        match path(&below, need, node) {
            Some(mut path) => {
                path.rotate_right(1);
                refused.push((wish, path));
            }
            None => below.entry(node).or_default().push(need),
        }
    }
    refused
}

/// A shortest path, both ends included.
fn path(below: &HashMap<u32, Vec<u32>>, from: u32, to: u32) -> Option<Vec<u32>> {
    let mut via = HashMap::from([(from, from)]);
    let mut queue = VecDeque::from([from]);
    while let Some(node) = queue.pop_front() {
        if node == to {
            let mut path = vec![node];
            let mut last = node;
            while last != from {
                last = via[&last];
                path.push(last);
            }
            path.reverse();
            return Some(path);
        }
        for &need in below.get(&node).into_iter().flatten() {
            if let Entry::Vacant(unseen) = via.entry(need) {
                unseen.insert(node);
                queue.push_back(need);
            }
        }
    }
    None
}

/// Prints `a -> b -> a`; a long cycle is cut in the middle.
pub(crate) fn show(path: &[Id]) -> String {
    let mut text = String::new();
    let (head, tail) = if path.len() > LONGEST_SHOWN { (LONGEST_SHOWN - 4, 3) } else { (path.len(), 0) };
    for id in &path[..head] {
        let _ = write!(text, "{id} -> ");
    }
    if tail > 0 {
        let _ = write!(text, "… {} more … -> ", path.len() - head - tail);
        for id in &path[path.len() - tail..] {
            let _ = write!(text, "{id} -> ");
        }
    }
    if let Some(first) = path.first() {
        let _ = write!(text, "{first}");
    }
    text
}

struct Search<'a> {
    needs: &'a Adjacency,
    component: &'a [u32],
    seen: Vec<u32>,
    via: Vec<u32>,
    round: u32,
}

impl Search<'_> {
    /// The shortest cycle through `start`; of several, the one found first among smallest neighbours.
    fn shortest_through(&mut self, start: u32) -> Option<Vec<u32>> {
        self.round += 1;
        let mut queue = vec![start];
        let mut next = 0;
        while next < queue.len() {
            let node = queue[next];
            next += 1;
            for &need in self.needs.neighbours(node) {
                if need == start {
                    let mut path = vec![node];
                    let mut last = node;
                    while last != start {
                        last = self.via[last as usize];
                        path.push(last);
                    }
                    path.reverse();
                    return Some(path);
                }
                let index = need as usize;
                if self.component[index] == self.component[start as usize] && self.seen[index] != self.round {
                    self.seen[index] = self.round;
                    self.via[index] = node;
                    queue.push(need);
                }
            }
        }
        None
    }
}

/// Tarjan's algorithm with its own stack. Gives each node's component and the members, sorted, of each
/// component of more than one node (a node that needs itself is reported before this is reached).
fn components(needs: &Adjacency) -> (Vec<u32>, Vec<Vec<u32>>) {
    let nodes = needs.len();
    let mut component = vec![NONE; nodes];
    let mut index = vec![NONE; nodes];
    let mut low = vec![0u32; nodes];
    let mut open: Vec<u32> = Vec::new();
    let mut calls: Vec<(u32, usize)> = Vec::new();
    let (mut next_index, mut next_component) = (0, 0);
    let mut members = Vec::new();
    for root in 0..nodes as u32 {
        if index[root as usize] != NONE {
            continue;
        }
        calls.push((root, 0));
        while let Some(&mut (node, ref mut edge)) = calls.last_mut() {
            let at = node as usize;
            if *edge == 0 {
                index[at] = next_index;
                low[at] = next_index;
                next_index += 1;
                open.push(node);
            }
            if let Some(&need) = needs.neighbours(node).get(*edge) {
                *edge += 1;
                if index[need as usize] == NONE {
                    calls.push((need, 0));
                } else if component[need as usize] == NONE {
                    low[at] = low[at].min(index[need as usize]);
                }
                continue;
            }
            calls.pop();
            if let Some(&(caller, _)) = calls.last() {
                low[caller as usize] = low[caller as usize].min(low[at]);
            }
            if low[at] == index[at] {
                let mut group = Vec::new();
                while let Some(member) = open.pop() {
                    component[member as usize] = next_component;
                    group.push(member);
                    if member == node {
                        break;
                    }
                }
                next_component += 1;
                if group.len() > 1 {
                    group.sort_unstable();
                    members.push(group);
                }
            }
        }
    }
    (component, members)
}
