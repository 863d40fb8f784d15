//! Edits keep every byte they are not about.

use serde_json::{Value, json};
use slipway_yaml::YamlReader;
use slipway_yaml::edit::{EditableDocument, PathSegment};

fn path(text: &str) -> Vec<PathSegment> {
    text.split('/')
        .filter(|step| !step.is_empty())
        .map(|step| step.parse().map_or_else(|_| PathSegment::from(step), PathSegment::Index))
        .collect()
}

fn set(text: &str, at: &str, value: &Value) -> String {
    let mut document = EditableDocument::new(text, "f.yaml", YamlReader::new()).unwrap();
    document.set(&path(at), value).unwrap_or_else(|problems| panic!("{text:?} {at}: {problems}"));
    document.into_text()
}

fn remove(text: &str, at: &str) -> String {
    let mut document = EditableDocument::new(text, "f.yaml", YamlReader::new()).unwrap();
    assert!(document.remove(&path(at)).unwrap_or_else(|problems| panic!("{text:?} {at}: {problems}")));
    document.into_text()
}

#[test]
fn values_are_set_in_place() {
    for (before, at, value, after) in [
        ("# head\na: 1   # one\nb: 2\n", "a", json!(3), "# head\na: 3   # one\nb: 2\n"),
        ("image: \"x:1\" # c\n", "image", json!("x:2"), "image: \"x:2\" # c\n"),
        ("image: 'x'\n", "image", json!("it's"), "image: 'it''s'\n"),
        ("image: x\n", "image", json!("yes"), "image: \"yes\"\n"),
        ("image: x", "image", json!("w"), "image: w"),
        ("a:\n  b:   x\n\n  c: y\n", "a/b", json!("z"), "a:\n  b:   z\n\n  c: y\n"),
        ("a:\nb: 1\n", "a", json!("x"), "a: x\nb: 1\n"),
        ("a: # why\nb: 1\n", "a", json!("x"), "a: x # why\nb: 1\n"),
        ("a: |\n  one\n  two\nb: 1\n", "a", json!("x"), "a: x\nb: 1\n"),
        ("a: x # c\nb: 1\n", "a", json!("one\ntwo\n"), "a: |\n  one\n  two # c\nb: 1\n"),
        ("a:\n  b: 1\n  c: 2\nd: 3\n", "a", json!(5), "a: 5\nd: 3\n"),
        ("a: # keep\n  b: 1\nd: 3\n", "a", json!({}), "a: {} # keep\nd: 3\n"),
        ("a: 1 # c\nd: 3\n", "a", json!({"x": [1]}), "a: # c\n  x:\n  - 1\nd: 3\n"),
        ("a: {}\nl:\n  - 1\n", "a/x/w", json!(1), "a:\n  x:\n    w: 1\nl:\n  - 1\n"),
        ("l:\n  - 1\nm: []\n", "m/0", json!("x"), "l:\n  - 1\nm:\n  - x\n"),
        ("l:\n- 1\nm:\n", "m", json!(["x"]), "l:\n- 1\nm:\n- x\n"),
        ("a: {b: 1, c: [x, y]}\n", "a/b", json!("z, w"), "a: {b: \"z, w\", c: [x, y]}\n"),
        ("a: {b: 1, c: [x, y]}\n", "a/c/1", json!({"k": true}), "a: {b: 1, c: [x, {\"k\":true}]}\n"),
        (
            "l:\n  - name: a\n    tag: 1\n  - name: b\n",
            "l/0/tag",
            json!("2.0"),
            "l:\n  - name: a\n    tag: \"2.0\"\n  - name: b\n",
        ),
        ("l:\n- a\n- b # c\n", "l/1", json!({"x": 1, "w": 2}), "l:\n- a\n- x: 1\n  w: 2 # c\n"),
        (
            "a:\n    deep:\n        x: 1\n",
            "a/deep/x",
            json!([1, 2]),
            "a:\n    deep:\n        x:\n        - 1\n        - 2\n",
        ),
        ("# only a comment\n", "a/b", json!(1), "# only a comment\na:\n  b: 1\n"),
        ("", "a", json!(1), "a: 1\n"),
        ("{}\n", "a", json!(1), "a: 1\n"),
    ] {
        if after.contains("two # c") {
            // A comment cannot stay behind a block: such an edit is refused.
            let mut document = EditableDocument::new(before, "f.yaml", YamlReader::new()).unwrap();
            let problems = document.set(&path(at), &value).unwrap_err();
            assert_eq!(
                problems.to_string(),
                "f.yaml: `a` cannot be edited: its layout is unusual; edit the file by hand"
            );
            assert_eq!(document.text(), before);
            continue;
        }
        assert_eq!(set(before, at, &value), after, "{before:?} {at}");
    }
}

#[test]
fn entries_are_added_at_the_end() {
    for (before, at, value, after) in [
        ("a: 1\n# tail\n", "b", json!("x"), "a: 1\nb: x\n# tail\n"),
        ("a: 1", "b", json!(2), "a: 1\nb: 2"),
        ("a:\n  x: 1 # c\nz: 1\n", "a/w", json!({"k": "v"}), "a:\n  x: 1 # c\n  w:\n    k: v\nz: 1\n"),
        ("l:\n- a\n- b\nz: 1\n", "l/2", json!("c"), "l:\n- a\n- b\n- c\nz: 1\n"),
        (
            "l:\n  - n: a\n    v: 1\n\nz: 1\n",
            "l/1",
            json!({"id": "b"}),
            "l:\n  - n: a\n    v: 1\n  - id: b\n\nz: 1\n",
        ),
        ("l:\n  - n: a\n\n", "l/0/v", json!(2), "l:\n  - n: a\n    v: 2\n\n"),
        ("a: {b: 1}\n", "a/c", json!("d"), "a: {b: 1, c: d}\n"),
        ("a: [1, 2 ]\n", "a/2", json!(3), "a: [1, 2, 3 ]\n"),
        ("s: |\n  text\n\n", "b", json!(1), "s: |\n  text\nb: 1\n\n"),
    ] {
        assert_eq!(set(before, at, &value), after, "{before:?} {at}");
    }
}

#[test]
fn entries_are_removed_with_their_lines() {
    for (before, at, after) in [
        ("a: 1\nb: 2 # c\nc: 3\n", "b", "a: 1\nc: 3\n"),
        ("a: 1\nb:\n  x: 1\n  y: 2\nc: 3\n", "b", "a: 1\nc: 3\n"),
        ("a:\n  x: 1\nc: 3\n", "a/x", "a: {}\nc: 3\n"),
        ("l:\n- a\n- b\n", "l/0", "l:\n- b\n"),
        ("l:\n- a\n", "l/0", "l: []\n"),
        ("l:\n  - n: a\n    v: 1\n", "l/0/n", "l:\n  - v: 1\n"),
        ("a: {b: 1, c: 2}\n", "a/b", "a: {c: 2}\n"),
        ("a: {b: 1, c: 2}\n", "a/c", "a: {b: 1}\n"),
        ("a: [1]\n", "a/0", "a: []\n"),
        ("s: |\n  x\n\n  y\n\nb: 1\n", "s", "\nb: 1\n"),
    ] {
        assert_eq!(remove(before, at), after, "{before:?} {at}");
    }
    let mut document = EditableDocument::new("a: 1\n", "f", YamlReader::new()).unwrap();
    assert!(!document.remove(&path("b/c")).unwrap());
}

#[test]
fn what_cannot_be_edited_is_refused_and_untouched() {
    for (text, at) in [
        ("a: &x {b: 1}\nc: *x\n", "c/b"),
        ("a: text\n", "a/b"),
        ("l: [1]\n", "l/5"),
        ("a: &x {q: 1}\nc:\n  <<: *x\n", "c/q"),
    ] {
        let mut document = EditableDocument::new(text, "f", YamlReader::new()).unwrap();
        assert!(document.set(&path(at), &json!(2)).is_err(), "{text:?} {at}");
        assert_eq!(document.text(), text);
    }
}
