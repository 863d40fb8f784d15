//! Showing a graph.

use crate::support::{DIAMOND, Place, Ran};

fn show(args: &[&str]) -> String {
    let place = Place::new();
    place.write("g.yaml", DIAMOND);
    place.run(&[&["graph", "g.yaml"], args].concat()).ok()
}

#[test]
fn waves_as_a_table() {
    insta::assert_snapshot!(show(&[]));
}

#[test]
fn reduced_reversed_and_cut() {
    insta::assert_snapshot!(show(&["--reduce", "--reverse", "--only", "cache"]));
}

#[test]
fn drawings() {
    for form in ["dot", "mermaid", "json"] {
        insta::assert_snapshot!(form, show(&["--reduce", "--show", form]));
    }
}

#[test]
fn waves_as_data() {
    let json: serde_json::Value = serde_json::from_str(&show(&["-o", "json"])).unwrap();
    assert_eq!(json["waves"][2][0]["id"], "app");
    assert!(show(&["-o", "yaml"]).starts_with("waves:\n- - id: base\n"));
}

#[test]
fn from_standard_input() {
    let place = Place::new();
    place.write("g.yaml", DIAMOND);
    let mut command = place.command(&["graph", "-"]);
    command.stdin(std::fs::File::open(place.path().join("g.yaml")).unwrap());
    assert!(Ran::from(command.output().unwrap()).ok().contains("base,cache,db"));
}
