//! Reduction drops exactly the edges others imply.

use std::collections::BTreeSet;

use proptest::prelude::*;
use slipway_graph::Graph;

use crate::dags::{closure, dag_of, dags, edges, graph, parse};

fn naive(dag: &crate::dags::Dag) -> BTreeSet<(usize, usize)> {
    let reach = closure(dag);
    let mut kept = BTreeSet::new();
    for (node, needs) in dag.iter().enumerate() {
        for &need in needs {
            if !needs.iter().any(|&other| other != need && reach.contains(&(other, need))) {
                kept.insert((node, need));
            }
        }
    }
    kept
}

#[test]
fn drops_what_other_edges_say() {
    for (text, expected) in [
        ("a:\nb: a\nc: a b", "b>a c>b"),
        ("a:\nb: a\nc: b\nd: a b c", "b>a c>b d>c"),
        // Two stages with markers, and a node tied to both.
        ("s0:\nx: s0\ny: s0 x\ne0: s0 x y\ns1: e0\nz: s0 s1 x\ne1: s1 z e0", "x>s0 y>x e0>y s1>e0 z>s1 e1>z"),
        // A stage with one weight group, and a node outside the group that waits for one inside.
        (
            "I.s:\nI0.s: I.s\nA: I0.s\nI0.e: I0.s A\nB: I.s A\nI.e: I.s I0.e I0.s B",
            "I0.s>I.s A>I0.s I0.e>A B>A I.e>I0.e I.e>B",
        ),
        // Two weight groups in a row inside a stage, with a node beside them.
        (
            "s:\nx: s\n1s: s\na: 1s\n1e: 1s a\n2s: s 1e\nb: 2s 1s\n2e: 2s b 1e\ne: s x 1e 2e",
            "x>s 1s>s a>1s 1e>a 2s>1e b>2s 2e>b e>x e>2e",
        ),
        // Two far roots everybody repeats, over chains without any barrier.
        (
            "r:\nq:\na1: q r\nb1: q r\na2: a1 q r\nb2: b1 q r\na3: a2 q r\nb3: b2 q r",
            "a1>q a1>r b1>q b1>r a2>a1 b2>b1 a3>a2 b3>b2",
        ),
    ] {
        let reduced = parse(text).reduced();
        let shown: BTreeSet<_> = reduced.edges().map(|(a, b)| format!("{}>{}", a.id(), b.id())).collect();
        assert_eq!(shown, expected.split(' ').map(str::to_owned).collect(), "{text}");
    }
}

#[test]
fn many_far_edges_stay_cheap() {
    // Ten chains of a thousand nodes that all repeat the first nodes: no barrier helps here.
    let mut builder = Graph::builder();
    let far: Vec<String> = (0..5).map(|root| format!("root-{root}")).collect();
    for root in &far {
        builder.add(root, (), [""; 0]);
    }
    for chain in 0..10 {
        for link in 0..1000 {
            let name = |link: i32| format!("chain-{chain}-{link:04}");
            builder.add(name(link), (), far.iter().cloned().chain((link > 0).then(|| name(link - 1))));
        }
    }
    let graph = builder.build().expect("valid").reduced();
    assert_eq!(graph.edge_count(), 10 * 5 + 10 * 999);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn equals_the_naive_reduction(dag in dags(40)) {
        let whole = graph(&dag);
        let reduced = whole.clone().reduced();
        prop_assert_eq!(edges(&reduced), naive(&dag));
        prop_assert_eq!(closure(&dag_of(&reduced, dag.len())), closure(&dag));
        prop_assert!(reduced.ids().eq(whole.ids()));
        prop_assert!(reduced.nodes().zip(whole.nodes()).all(|(a, b)| a.wave() == b.wave()));
        prop_assert_eq!(reduced.clone().reduced(), reduced);
    }
}
