//! Reading into trees.

use slipway_yaml::{ScalarRules, YamlEmitter, YamlReader, from_node, parse, parse_one};

#[test]
fn nodes_know_their_places() {
    let root = parse_one("a: 1\nlist:\n- x: 1.10\n- \"é\": [two, 3]\n", "f.yaml").unwrap();
    for (path, raw, shown) in [
        (&["a"][..], "1", "f.yaml:1:4"),
        (&["list"], "- x: 1.10\n- \"é\": [two, 3]", "f.yaml:3:1"),
        (&["list", "0", "x"], "1.10", "f.yaml:3:6"),
        (&["list", "1", "é"], "[two, 3]", "f.yaml:4:8"),
        (&["list", "1", "é", "1"], "3", "f.yaml:4:14"),
    ] {
        let node = root.at(path.iter().copied()).unwrap();
        assert_eq!((node.raw(), node.location().to_string().as_str()), (raw, shown), "{path:?}");
    }
}

#[test]
fn a_repeated_key_names_both_places() {
    let problems = parse("a: 1\nb: 2\na: 3\n", "f").unwrap_err();
    assert_eq!(problems.to_string(), "f:3:1: key `a` is set twice\n  hint: it was first set in line 1:1");
}

/// Recorded from `kubectl kustomize` (kubectl 1.32) on a ConfigMap with this data.
#[test]
fn kustomize_reads_and_writes_scalars_like_this() {
    let text = r#"
a10: 1
a2: yes
a1: 0777
B: 1_000
a: 0o17
t: 2020-01-02
t2: 2001-12-14t21:59:43.10-05:00
t3: 2001-12-14 21:59:43.10
f: 1.0
g: 1e10
h: 0x1F
i: .5
j: +12
k: 1:30
l: ~
m: "1e3"
n: 18446744073709551615
o: 1e400
p: 1.5e300
q: "tab\there\nnext"
r: "word word word word word word word word word word word word word word word word word word word word word"
s: "\U0001F600"
u: 12345678901234567890123
v: -0.0
w: .1_1
x: 08
y: n
z: 0b11
"#;
    let expected = r#"B: 1000
a: 15
a1: 511
a2: "yes"
a10: 1
f: 1
g: 10000000000
h: 31
i: 0.5
j: 12
k: "1:30"
l: null
m: "1e3"
"n": 18446744073709551615
o: 1e400
p: 1.5e+300
q: "tab\there\nnext"
r: word word word word word word word word word word word word word word word word
  word word word word word
s: "\U0001F600"
t: "2020-01-02T00:00:00Z"
t2: "2001-12-14T21:59:43.1-05:00"
t3: "2001-12-14T21:59:43.1Z"
u: 1.2345678901234568e+22
v: 0
w: 0.11
x: 8
"y": "n"
z: 3
"#;
    let node = YamlReader::kustomize().read_one(text, "f").unwrap();
    assert_eq!(YamlEmitter::kustomize().emit(&node).unwrap(), expected);
}

#[test]
fn schemas_differ_where_their_readers_do() {
    use serde_json::{Value, json};
    let cases: [(&str, Value, Value, Value); 12] = [
        ("yes", json!(true), json!("yes"), json!("yes")),
        ("n", json!(false), json!("n"), json!("n")),
        ("0644", json!(420), json!(420), json!(420)),
        ("0o644", json!(420), json!(420), json!(420)),
        ("1_000", json!(1000), json!(1000), json!("1_000")),
        ("2020-01-02", json!("2020-01-02"), json!("2020-01-02T00:00:00Z"), json!("2020-01-02")),
        ("1:30", json!("1:30"), json!("1:30"), json!("1:30")),
        ("~", json!(null), json!(null), json!(null)),
        ("1.10", json!(1.1), json!(1.1), json!(1.1)),
        ("!!str 1", json!("1"), json!("1"), json!("1")),
        ("!!int '7'", json!(7), json!(7), json!(7)),
        ("'yes'", json!("yes"), json!("yes"), json!("yes")),
    ];
    for (text, yaml11, go3, core) in cases {
        for (schema, expected) in
            [(ScalarRules::Yaml11, yaml11), (ScalarRules::GoYaml3, go3), (ScalarRules::Core, core)]
        {
            let node = YamlReader::new().schema(schema).read_one(text, "f").unwrap();
            assert_eq!(node.to_json(), expected, "{text} {schema:?}");
        }
    }
}

#[test]
fn merges_follow_their_readers() {
    let text = "b: &b {x: 1, w: 1}\nc: {x: 2, <<: *b}\nd: {<<: [{x: 3}, *b]}\n";
    let shown = |reader: YamlReader| reader.read_one(text, "f").unwrap().to_json().to_string();
    assert_eq!(
        shown(YamlReader::helm()),
        r#"{"b":{"x":1,"w":1},"c":{"x":1,"w":1},"d":{"x":3,"w":1}}"#,
        "Helm lets a later merge win"
    );
    assert_eq!(shown(YamlReader::new()), r#"{"b":{"x":1,"w":1},"c":{"x":2,"w":1},"d":{"x":3,"w":1}}"#);
}

#[test]
fn numbers_keep_their_text() {
    let node = parse_one("a: 1.10\nb: 0x1F\nc: '2.0'\nd: 123456789012345678901234567890\n", "f").unwrap();
    for (key, text) in [("a", "1.10"), ("b", "0x1F"), ("c", "2.0"), ("d", "123456789012345678901234567890")] {
        assert_eq!(node.get(key).unwrap().scalar_text().unwrap(), text);
    }
}

#[test]
fn typed_values_come_out_of_nodes_and_mistakes_are_located() {
    #[derive(Debug, PartialEq, serde::Deserialize)]
    #[serde(rename_all = "lowercase", deny_unknown_fields)]
    enum Shape {
        Dot,
        Circle { radius: f64 },
        Many(Vec<u8>),
    }
    let node = parse_one("[dot, {circle: {radius: 2}}, {many: [1, 2]}]", "f").unwrap();
    let shapes: Vec<Shape> = from_node(&node).unwrap();
    assert_eq!(shapes, [Shape::Dot, Shape::Circle { radius: 2.0 }, Shape::Many(vec![1, 2])]);
    let json: serde_json::Value = from_node(&node).unwrap();
    assert_eq!(json, node.to_json());

    let node = parse_one("- dot\n- many:\n  - 1\n  - 300\n", "f.yaml").unwrap();
    let problems = from_node::<Vec<Shape>>(&node).unwrap_err();
    assert_eq!(problems.to_string(), "f.yaml:4:5: invalid value: integer `300`, expected u8");
    let problem = problems.iter().next().unwrap();
    assert_eq!(problem.excerpt.as_deref(), Some("  - 300"));
}

#[test]
fn syntax_mistakes_are_located_where_they_are() {
    let problems = parse("a:\n  - 1\n - 2\n", "f.yaml").unwrap_err();
    assert_eq!(
        problems.to_string(),
        "f.yaml:3:2: invalid YAML: did not find expected key\n  \
         hint: while parsing a block mapping, which starts in line 1"
    );
}

#[test]
fn streams_hold_many_documents() {
    let documents = parse("a: 1\n---\n---\n- x\n...\n# end\n", "f").unwrap();
    let shown: Vec<String> = documents.iter().map(|node| node.to_json().to_string()).collect();
    assert_eq!(shown, [r#"{"a":1}"#, "null", r#"["x"]"#]);
    assert!(parse_one("a: 1\n---\nb: 2\n", "f").is_err());
    assert!(parse_one("# nothing\n", "f").unwrap().is_null());
}
