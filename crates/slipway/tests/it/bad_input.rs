//! Bad files get a located error with a hint and exit code 1; never a panic.

use crate::support::{DIAMOND, Place};

fn complaint(text: impl AsRef<[u8]>) -> String {
    let place = Place::new();
    let ran = place.write("g.yaml", text).run(&["graph", "g.yaml"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""), "{}", ran.err);
    ran.err
}

#[test]
fn every_problem_of_a_file_at_once() {
    insta::assert_snapshot!(complaint(
        "\
nodes:
  web:
    needs: [db, cahce]
    tmeout: 5m
  db: {needs: [web]}
  cache: {needs: cache, retries: -1, timeout: soon}
  self: {needs: [self]}
extra: 1
"
    ));
}

#[test]
fn not_what_it_should_be() {
    let deep = "[".repeat(10_000_000);
    let twice = format!("nodes: {{{}}}", "a: {x: 1}, ".repeat(20));
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for level in 1..9 {
        let inner = format!("*a{},", level - 1).repeat(9);
        bomb.push_str(&format!("a{level}: &a{level} [{inner}]\n"));
    }
    for (what, text, expected) in [
        ("empty", &b""[..], "g.yaml\n  hint: expected `nodes:`"),
        ("blank", b"# nothing\n", "the file is empty"),
        ("binary", b"\x7fELF\x00\xff\xfe", "the file is not UTF-8 text"),
        ("a list", b"- a\n", "g.yaml:1:1"),
        ("broken", b"nodes: {a: [", "did not find expected"),
        ("deep", deep.as_bytes(), "exceeded max depth"),
        ("twice", b"nodes:\n  a:\n  a:\n", "g.yaml:3:3"),
        ("twice and more", b"nodes:\n  a:\n  a:\n  b: {neds: [a]}\n", "did you mean `needs`?"),
        ("many", twice.as_bytes(), "g.yaml:1:"),
        ("bomb", bomb.as_bytes(), "g.yaml:"),
    ] {
        let complaint = complaint(text);
        assert!(complaint.contains(expected), "{what}: {complaint}");
        assert!(complaint.contains("error:") && !complaint.contains("panicked"), "{what}: {complaint}");
    }
}

#[test]
fn missing_files_and_directories() {
    let place = Place::new();
    for name in ["missing.yaml", "."] {
        let ran = place.run(&["graph", name]);
        assert_eq!(ran.code, Some(1));
        assert!(ran.err.contains(name) && ran.err.contains("hint:"), "{}", ran.err);
    }
}

#[test]
fn the_command_line_itself() {
    let place = Place::new();
    place.write("g.yaml", DIAMOND);
    for args in [
        &["--nope"][..],
        &["grap", "g.yaml"],
        &["graph"],
        &["graph", "g.yaml", "--only", "ap"],
        &["graph", "g.yaml", "--keep-going"],
        &["-o", "xml", "graph", "g.yaml"],
    ] {
        let ran = place.run(args);
        assert_eq!(ran.code, Some(64), "{args:?}: {}", ran.err);
        assert!(ran.err.starts_with("error:"), "{args:?}: {}", ran.err);
    }
}
