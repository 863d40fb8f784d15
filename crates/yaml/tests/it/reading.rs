//! Reading into trees.

use slipway_yaml::{parse, parse_one};

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
