//! Everything that can be wrong with a graph is found at once, and said well.

use proptest::prelude::*;
use slipway_graph::{Defect, Graph, GraphBuilder};
use slipway_problem::Location;

use crate::dags::{dags, graph, graph_in, name};

fn builder(lines: &[&str]) -> GraphBuilder<()> {
    let mut builder = Graph::builder();
    for (line, text) in lines.iter().enumerate() {
        let (node, needs) = text.split_once(':').expect("a colon");
        builder.add(node, (), needs.split_whitespace()).at(Location::new("plan.yaml", line as u32 + 1, 3));
    }
    builder
}

#[test]
fn reports_every_problem_at_once() {
    let problems =
        builder(&["web: database web", "database: cache", "cahce:", "web: queue", "a: b", "b: c", "c: a"]);
    let problems = problems.build().expect_err("everything is wrong").to_string();
    let expected = [
        "plan.yaml:4:3: `web` is defined twice",
        "  hint: the first one is at plan.yaml:1:3",
        "plan.yaml:1:3: `web` needs itself",
        "plan.yaml:2:3: `database` needs `cache`, which does not exist",
        "  hint: did you mean `cahce`?",
        "plan.yaml:4:3: `web` needs `queue`, which does not exist",
        "plan.yaml:5:3: needs form a cycle: a -> b -> c -> a",
    ];
    assert_eq!(problems.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn needs_can_be_added_later() {
    let mut plan = builder(&["web:", "db:"]);
    plan.need("web", "db");
    let graph = plan.clone().build().expect("valid");
    assert!(graph.node("web").expect("known").needs().map(|need| need.id().as_str()).eq(["db"]));
    plan.need("wbe", "db").need("db", "db");
    let problems = plan.build().expect_err("a typo").to_string();
    let expected = "`wbe`, said to need `db`, does not exist\n  hint: did you mean `web`?\nplan.yaml:2:3: `db` needs itself";
    assert_eq!(problems, expected);
}

#[test]
fn wishes_never_close_a_cycle() {
    let mut plan = builder(&["web: config", "config:", "db:", "job: web"]);
    let wish = |id: &str, need: &str| (id.into(), need.into());
    let refused = plan.wish([
        wish("web", "db"),
        wish("config", "web"),
        wish("config", "job"),
        wish("db", "web"),
        wish("job", "job"),
        wish("db", "web"),
    ]);
    let shown: Vec<String> = refused.iter().map(ToString::to_string).collect();
    let expected = [
        "`config` cannot wait for `job`: config -> job -> web -> config",
        "`config` cannot wait for `web`: config -> web -> config",
        "`job` cannot wait for `job`: job -> job",
        // The wish of db, the smaller id, was granted before.
        "`web` cannot wait for `db`: web -> db -> web",
    ];
    assert_eq!(shown, expected);
    assert_eq!(plan.clone().build().expect("no cycle").edge_count(), 3);
    assert!(plan.wish([wish("web", "confgi")]).is_empty());
    assert!(plan.build().expect_err("unknown").to_string().contains("did you mean `config`?"));
}

#[test]
fn cycles_are_short_and_start_at_the_smallest_id() {
    for (lines, expected) in [
        (&["b: a", "a: b"][..], &["a -> b -> a"][..]),
        // The short cut b -> d makes the shortest cycle.
        (&["d: a", "c: d", "b: c d", "a: b"], &["a -> b -> d -> a", "b -> c -> d -> a"]),
        (&["x: y", "y: x", "a: b", "b: a", "free:"], &["a -> b -> a", "x -> y -> x"]),
        // Two circles that share a node are both shown.
        (&["a: b d", "b: a", "d: e", "e: a"], &["a -> b -> a", "a -> d -> e -> a"]),
    ] {
        let defects = builder(lines).try_build().expect_err("a cycle");
        let shown: Vec<_> = defects
            .iter()
            .map(|defect| match defect {
                Defect::Cycle { path, .. } => {
                    let first = path.first().map(ToString::to_string);
                    path.iter().map(ToString::to_string).chain(first).collect::<Vec<_>>().join(" -> ")
                }
                other => panic!("unexpected {other:?}"),
            })
            .collect();
        let normal = |path: &str| {
            let mut ids: Vec<_> = path.split(" -> ").map(str::to_owned).collect();
            ids.sort();
            ids.dedup();
            ids
        };
        assert_eq!(shown.len(), expected.len(), "{shown:?}");
        for (shown, expected) in shown.iter().zip(expected) {
            assert_eq!(normal(shown), normal(expected), "{shown}");
            let first = shown.split(" -> ").next();
            assert_eq!(first, shown.split(" -> ").min(), "{shown}");
        }
    }
}

#[test]
fn dense_and_numerous_cycles_stay_readable() {
    let mut dense = Graph::builder();
    let names: Vec<String> = (0..200).map(|node| format!("n{node:03}")).collect();
    for name in &names {
        dense.add(name, (), names.iter().filter(|other| *other != name));
    }
    let problems = dense.build().expect_err("all need all");
    assert!(problems.len() <= 4, "{problems}");
    assert!(problems.to_string().starts_with("needs form a cycle: n000 -> n001 -> n000"));

    let mut many = Graph::builder();
    for pair in 0..100 {
        many.add(format!("a{pair:02}"), (), [format!("b{pair:02}")]);
        many.add(format!("b{pair:02}"), (), [format!("a{pair:02}")]);
    }
    let problems = many.build().expect_err("a hundred cycles");
    assert_eq!(problems.len(), 51);
    assert!(problems.to_string().ends_with("50 more groups of nodes need each other in circles"));
}

#[test]
fn a_long_chain_needs_no_deep_stack() {
    let count = 200_000u32;
    let ids: Vec<slipway_graph::Id> = (0..count).map(|node| format!("{node:06}").into()).collect();
    let chain = |first_needs_last: bool| {
        let mut builder = Graph::builder();
        for node in 0..ids.len() {
            builder.add(&ids[node], (), node.checked_sub(1).map(|need| &ids[need]));
        }
        if first_needs_last {
            builder.need(&ids[0], &ids[ids.len() - 1]);
        }
        builder.build()
    };
    let graph = chain(false).expect("no cycle").reduced();
    assert_eq!(graph.waves().len(), count as usize);
    let problem = chain(true).expect_err("one cycle").to_string();
    assert_eq!(problem.matches(" -> ").count(), 24, "{problem}");
    assert!(problem.ends_with("-> … 199977 more … -> 000003 -> 000002 -> 000001 -> 000000"), "{problem}");
}

proptest! {
    #[test]
    fn the_order_does_not_depend_on_the_order_of_adding(
        (dag, order) in dags(30).prop_flat_map(|dag| {
            let nodes: Vec<usize> = (0..dag.len()).collect();
            (Just(dag), Just(nodes).prop_shuffle())
        })
    ) {
        prop_assert_eq!(graph(&dag), graph_in(&dag, order));
    }

    #[test]
    fn granted_wishes_are_as_many_as_fit(
        dag in dags(15),
        wishes in prop::collection::vec((0..15usize, 0..15usize), 0..40),
    ) {
        let mut builder = Graph::builder();
        for (node, needs) in dag.iter().enumerate() {
            builder.add(name(node), (), needs.iter().map(|&need| name(need)));
        }
        let wishes = wishes.into_iter().filter(|wish| wish.0 < dag.len() && wish.1 < dag.len());
        let refused = builder.wish(wishes.map(|(node, need)| (name(node).into(), name(need).into())));
        let granted = builder.clone().build().expect("wishes close no cycle");
        for refused in refused {
            let mut more = builder.clone();
            more.need(&refused.id, &refused.need);
            prop_assert!(more.build().is_err(), "{} for nothing", refused);
            for (node, need) in refused.path.iter().zip(refused.path.iter().cycle().skip(1)).skip(1) {
                prop_assert!(granted.node(node).is_some_and(|node| node.needs().any(|other| other.id() == need)));
            }
        }
    }

    #[test]
    fn cycles_reported_are_cycles(edges in prop::collection::vec((0..12usize, 0..12usize), 0..40)) {
        let mut builder = Graph::builder();
        for node in 0..12 {
            let needs = edges.iter().filter(|edge| edge.0 == node && edge.1 != node).map(|edge| edge.1.to_string());
            builder.add(node.to_string(), (), needs);
        }
        let acyclic = {
            let mut left: Vec<usize> = (0..12).collect();
            loop {
                let free = |node: &usize, left: &[usize]| {
                    edges.iter().all(|edge| edge.0 != *node || edge.1 == *node || !left.contains(&edge.1))
                };
                let kept: Vec<usize> = left.iter().copied().filter(|node| !free(node, &left)).collect();
                if kept.len() == left.len() {
                    break left.is_empty();
                }
                left = kept;
            }
        };
        match builder.try_build() {
            Ok(_) => prop_assert!(acyclic),
            Err(defects) => {
                prop_assert!(!acyclic);
                for defect in defects {
                    let Defect::Cycle { path, .. } = defect else { panic!("unexpected {defect:?}") };
                    for (index, id) in path.iter().enumerate() {
                        let next = &path[(index + 1) % path.len()];
                        let edge = (id.parse().expect("a number"), next.parse().expect("a number"));
                        prop_assert!(edges.contains(&edge));
                    }
                }
            }
        }
    }
}
