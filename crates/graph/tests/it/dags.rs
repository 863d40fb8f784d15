//! Graphs for the other tests: random ones, and ways to look at them.

use std::collections::BTreeSet;

use proptest::prelude::*;
use slipway_graph::Graph;

/// A graph as plain numbers: for each node, the smaller ones it needs.
pub(crate) type Dag = Vec<Vec<usize>>;

/// Random graphs of up to `most` nodes, some of them staged: barriers, groups between them, and edges
/// that repeat what the barriers say.
pub(crate) fn dags(most: usize) -> impl Strategy<Value = Dag> {
    let random = (1..=most, 0.0..1.0f64).prop_flat_map(|(nodes, density)| {
        let pairs = nodes * (nodes - 1) / 2;
        (Just(nodes), prop::collection::vec(prop::bool::weighted(density), pairs))
    });
    let random = random.prop_map(|(nodes, edges)| {
        let mut edges = edges.into_iter();
        (0..nodes).map(|node| (0..node).filter(|_| edges.next() == Some(true)).collect()).collect()
    });
    let stages = prop::collection::vec(prop::collection::vec(any::<u16>(), 0..6), 1..most.div_ceil(4));
    let staged = (stages, prop::collection::vec((any::<u16>(), any::<u16>()), 0..12)).prop_map(stages_to_dag);
    prop_oneof![random, staged]
}

fn stages_to_dag((stages, extra): (Vec<Vec<u16>>, Vec<(u16, u16)>)) -> Dag {
    let mut dag: Dag = Vec::new();
    for stage in stages {
        let start = dag.len();
        // A start marker after everything, or after the last node only.
        dag.push(if start.is_multiple_of(2) { (0..start).collect() } else { vec![start - 1] });
        for choice in stage {
            let node = dag.len();
            let other = start + usize::from(choice) % (node - start);
            dag.push(BTreeSet::from([start, other]).into_iter().collect());
        }
        let end = dag.len();
        dag.push((start..end).collect());
    }
    for (a, b) in extra {
        let (a, b) = (usize::from(a) % dag.len(), usize::from(b) % dag.len());
        if a < b && !dag[b].contains(&a) {
            dag[b].push(a);
        }
    }
    dag
}

pub(crate) fn name(node: usize) -> String {
    format!("n{node:03}")
}

/// The graph with its nodes added in the order of `order`.
pub(crate) fn graph_in(dag: &Dag, order: impl IntoIterator<Item = usize>) -> Graph<usize> {
    let mut builder = Graph::builder();
    for node in order {
        builder.add(name(node), node, dag[node].iter().map(|&need| name(need)));
    }
    builder.build().expect("needs are smaller than their dependents")
}

pub(crate) fn graph(dag: &Dag) -> Graph<usize> {
    graph_in(dag, 0..dag.len())
}

/// Every pair `(node, need)` with `need` needed directly or not, computed naively.
pub(crate) fn closure(dag: &Dag) -> BTreeSet<(usize, usize)> {
    let mut reach = BTreeSet::new();
    for (node, needs) in dag.iter().enumerate() {
        for &need in needs {
            let below: Vec<_> =
                reach.range((need, 0)..(need + 1, 0)).map(|&(_, below)| (node, below)).collect();
            reach.insert((node, need));
            reach.extend(below);
        }
    }
    reach
}

pub(crate) fn edges(graph: &Graph<usize>) -> BTreeSet<(usize, usize)> {
    graph.edges().map(|(node, need)| (*node.value(), *need.value())).collect()
}

/// The edges of a graph as a [`Dag`] over `nodes` numbers.
pub(crate) fn dag_of(graph: &Graph<usize>, nodes: usize) -> Dag {
    let mut dag = vec![Vec::new(); nodes];
    for (node, need) in edges(graph) {
        dag[node].push(need);
    }
    dag
}

/// A graph from lines `node: need need`.
pub(crate) fn parse(text: &str) -> Graph<&str> {
    let mut builder = Graph::builder();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (node, needs) = line.split_once(':').expect("a colon");
        builder.add(node, node, needs.split_whitespace());
    }
    builder.build().expect("a valid graph")
}
