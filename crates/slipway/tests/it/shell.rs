//! Help, completions, manual pages, colours.

use crate::support::{Place, Ran};

#[test]
fn help_names_every_command() {
    let help = Place::new().run(&["-h"]).ok();
    for command in ["graph", "config", "completions", "man"] {
        assert!(help.contains(&format!("  {command} ")), "{help}");
    }
    assert!(!help.contains("reference"), "hidden commands stay hidden");
}

#[test]
fn completions_for_every_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(Place::new().run(&["completions", shell]).ok().contains("slipway"), "{shell}");
    }
}

#[test]
fn a_manual_page_a_command() {
    let place = Place::new();
    place.run(&["man", "pages"]).ok();
    let page = std::fs::read_to_string(place.path().join("pages/slipway-graph.1")).unwrap();
    assert!(page.contains(".TH") && page.contains("journal"), "{page}");
    assert!(place.path().join("pages/slipway.1").is_file());
    assert!(!place.path().join("pages/slipway-reference.1").exists());
}

#[test]
fn colours_only_when_wanted() {
    let place = Place::new();
    place.write("g.yaml", "nodes: [");
    let colour = "\u{1b}[";
    assert!(!place.run(&["graph", "g.yaml"]).err.contains(colour));
    assert!(place.run(&["graph", "g.yaml", "--color", "always"]).err.contains(colour));
    let ran = Ran::from(place.command(&["graph", "g.yaml"]).env("NO_COLOR", "1").output().unwrap());
    assert!(!ran.err.contains(colour));
}
