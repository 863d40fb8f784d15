//! Order, waves and graphs made from parts of others.

use std::collections::BTreeSet;

use proptest::prelude::*;
use slipway_graph::{Graph, KeptEdges, NodeRef};

use crate::dags::{closure, dag_of, dags, edges, graph, parse};

fn names<'g>(nodes: impl IntoIterator<Item = NodeRef<'g, &'g str>>) -> String {
    nodes.into_iter().map(|node| node.id().as_str()).collect::<Vec<_>>().join(" ")
}

const SHOP: &str = "
    ingress: web api
    web: api cache
    api: db queue db
    cache:
    db: volume
    queue:
    volume:
";

#[test]
fn order_is_by_wave_then_id() {
    let graph = parse(SHOP);
    assert_eq!(names(graph.nodes()), "cache queue volume db api web ingress");
    let waves: Vec<String> = graph.waves().map(names).collect();
    assert_eq!(waves, ["cache queue volume", "db", "api", "web", "ingress"]);
    assert_eq!(graph.edge_count(), 7, "the second db of api is the same need");
    assert_eq!(names(graph.clone().reversed().nodes()), "ingress web api cache db queue volume");
    assert_eq!(graph.get("db"), Some(&"db"));
    assert_eq!(graph.get("dbx"), None);
}

#[test]
fn relatives_are_found_from_several_nodes() {
    let graph = parse(SHOP);
    assert_eq!(names(graph.ancestors(["api"])), "queue volume db");
    assert_eq!(names(graph.ancestors(["api", "db", "nonsense"])), "queue volume db");
    assert_eq!(names(graph.descendants(["cache"])), "web ingress");
    assert_eq!(names(graph.descendants([""; 0])), "");
}

#[test]
fn parts_keep_or_forget_the_order_through_removed_nodes() {
    let graph = parse(SHOP);
    let keep = |node: NodeRef<'_, &str>| ["ingress", "db", "volume"].contains(node.value());
    let induced = graph.clone().select(KeptEdges::Induced, keep);
    let shown = |graph: &Graph<&str>| {
        graph.edges().map(|(a, b)| format!("{}>{}", a.id(), b.id())).collect::<Vec<_>>()
    };
    assert_eq!(shown(&induced), ["db>volume"]);
    let contracted = graph.select(KeptEdges::Contracted, keep);
    assert_eq!(shown(&contracted), ["db>volume", "ingress>db"]);
}

#[test]
fn the_critical_path_is_the_heaviest_chain() {
    let graph = parse(SHOP);
    let path = graph.critical_path(|node| if *node.value() == "cache" { 10 } else { 1 });
    assert_eq!((path.ids.join(" "), path.length), ("cache web ingress".to_owned(), 12));
    let path = graph.critical_path(|_| 1);
    assert_eq!((path.ids.join(" "), path.length), ("volume db api web ingress".to_owned(), 5));
    let path = graph.critical_path(|_| 0);
    assert_eq!(path.length, 0);
    assert_eq!(Graph::<()>::default().critical_path(|_| 1).ids.len(), 0);
}

#[test]
fn empty_graphs_are_graphs() {
    let graph = Graph::<()>::builder().build().expect("nothing is wrong");
    assert_eq!(graph, Graph::default());
    assert_eq!(graph.waves().len(), 0);
    assert_eq!(graph.clone().reduced().reversed().len(), 0);
}

proptest! {
    #[test]
    fn waves_agree_with_needs(dag in dags(30)) {
        let graph = graph(&dag);
        for node in graph.nodes() {
            let expected = node.needs().map(|need| need.wave() + 1).max().unwrap_or(0);
            prop_assert_eq!(node.wave(), expected);
            prop_assert!(node.needs().all(|need| need.position() < node.position()));
        }
        let flat: Vec<_> = graph.waves().flatten().map(NodeRef::position).collect();
        prop_assert!(flat.into_iter().eq(0..graph.len()));
        prop_assert_eq!(edges(&graph).len(), graph.edge_count());
    }

    #[test]
    fn reversing_twice_changes_nothing(dag in dags(30)) {
        let graph = graph(&dag);
        let reversed = graph.clone().reversed();
        let flipped: BTreeSet<_> = edges(&reversed).into_iter().map(|(a, b)| (b, a)).collect();
        prop_assert_eq!(flipped, edges(&graph));
        prop_assert_eq!(reversed.reversed(), graph);
    }

    #[test]
    fn contraction_keeps_the_order_of_what_stays((dag, kept) in dags(30).prop_flat_map(|dag| {
        let nodes = dag.len();
        (Just(dag), prop::collection::vec(any::<bool>(), nodes))
    })) {
        let whole = graph(&dag);
        let part = whole.clone().select(KeptEdges::Contracted, |node| kept[*node.value()]);
        let expected: BTreeSet<_> =
            closure(&dag).into_iter().filter(|&(a, b)| kept[a] && kept[b]).collect();
        prop_assert_eq!(closure(&dag_of(&part, dag.len())), expected);
        let part = whole.select(KeptEdges::Induced, |node| kept[*node.value()]);
        let expected: BTreeSet<_> = edges(&graph(&dag)).into_iter().filter(|&(a, b)| kept[a] && kept[b]).collect();
        prop_assert_eq!(edges(&part), expected);
    }

    #[test]
    fn relatives_are_the_closure(dag in dags(20)) {
        let graph = graph(&dag);
        let reach = closure(&dag);
        for node in graph.nodes() {
            let above: BTreeSet<_> = graph.ancestors([node.id()]).into_iter().map(|n| *n.value()).collect();
            let expected = reach.iter().filter(|pair| pair.0 == *node.value()).map(|pair| pair.1).collect();
            prop_assert_eq!(above, expected);
            let below: BTreeSet<_> = graph.descendants([node.id()]).into_iter().map(|n| *n.value()).collect();
            let expected = reach.iter().filter(|pair| pair.1 == *node.value()).map(|pair| pair.0).collect();
            prop_assert_eq!(below, expected);
        }
    }
}
