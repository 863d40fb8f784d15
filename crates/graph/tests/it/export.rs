//! Pictures of graphs: every id survives, whatever is in it.

use serde_json::json;
use slipway_graph::{EdgeStyle, Graph};

fn awkward() -> Graph<u8> {
    let mut builder = Graph::builder();
    builder.add("a-b", 1, [""; 0]).add("a_b", 2, ["a-b"]).add("say \"hi\\\" <#1>\nnow", 3, ["a-b", "a_b"]);
    builder.build().expect("valid")
}

#[test]
fn dot_quotes_ids() {
    assert_eq!(
        awkward().draw().dot(),
        r#"digraph {
  rankdir=LR;
  node [shape=box];
  "a-b";
  "a_b";
  "say \"hi\\\" <#1>\nnow";
  "a-b" -> "a_b";
  "a-b" -> "say \"hi\\\" <#1>\nnow";
  "a_b" -> "say \"hi\\\" <#1>\nnow";
}
"#
    );
}

#[test]
fn mermaid_numbers_nodes_and_escapes_labels() {
    let graph = awkward();
    let drawing = graph
        .draw()
        .group(|node| (*node.value() < 3).then(|| "first & \"best\"".to_owned()))
        .edges(|_, need| if *need.value() == 1 { EdgeStyle::Dotted } else { EdgeStyle::Solid });
    assert_eq!(
        drawing.mermaid(),
        r#"flowchart LR
  subgraph g0["first #amp; #quot;best#quot;"]
    n0["a-b"]
    n1["a_b"]
  end
  n2["say #quot;hi\#quot; #lt;#35;1#gt;<br/>now"]
  n0 -.-> n1
  n0 -.-> n2
  n1 --> n2
"#
    );
    assert!(
        drawing.dot().contains("  subgraph cluster_0 {\n    label=\"first & \\\"best\\\"\";\n    \"a-b\";\n")
    );
    assert!(drawing.dot().contains("  \"a-b\" -> \"a_b\" [style=dotted];\n"));
}

#[test]
fn json_is_stable() {
    let graph = awkward();
    assert_eq!(
        graph.draw().json().to_string(),
        r#"{"version":1,"nodes":[{"id":"a-b","wave":0,"needs":[]},{"id":"a_b","wave":1,"needs":[{"id":"a-b"}]},{"id":"say \"hi\\\" <#1>\nnow","wave":2,"needs":[{"id":"a-b"},{"id":"a_b"}]}]}"#
    );
    let drawing = graph
        .draw()
        .label(|node| format!("#{}", node.value()))
        .group(|_| Some("all".to_owned()))
        .edges(|_, _| EdgeStyle::Dashed);
    assert_eq!(
        drawing.json()["nodes"][1],
        json!({"id": "a_b", "label": "#2", "group": "all", "wave": 1, "needs": [{"id": "a-b", "style": "dashed"}]})
    );
    assert!(drawing.dot().contains("\"a-b\" [label=\"#1\"];"));
}
