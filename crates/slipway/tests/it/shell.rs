//! Help, completions, manual pages, colours.

use crate::sandbox::Down;
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

/// What a shell is offered in place of the last word of a line.
fn offered(place: &Place, line: &str) -> Vec<String> {
    let words: Vec<&str> = line.split(' ').collect();
    let mut command = place.command(&[&["--"], words.as_slice()].concat());
    command.env("_SLIPWAY_COMPLETE", "bash").env("_CLAP_IFS", "\n");
    command.env("_CLAP_COMPLETE_INDEX", (words.len() - 1).to_string());
    let ran = Ran::from(command.output().unwrap());
    assert_eq!(ran.err, "", "nothing is said to who is typing: {line}");
    ran.ok().lines().map(str::to_owned).collect()
}

#[test]
fn completions_have_live_values() {
    let place = Place::new();
    place.write(
        ".kube/config",
        "apiVersion: v1\nkind: Config\ncurrent-context: staging\n\
         contexts:\n- {name: staging, context: {cluster: c, user: u}}\n- {name: production, context: {cluster: c, user: u}}\n\
         clusters:\n- {name: c, cluster: {server: 'https://127.0.0.1:1'}}\nusers:\n- {name: u, user: {}}\n",
    );
    place.write("chart/Chart.yaml", "apiVersion: v2\nname: chart\nversion: 1.0.0\n");
    place.write(
        "chart/templates/a.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a-{{ .Release.Name }}}\n",
    );
    place.write("book.yaml", "steps:\n- name: install-cni\n- name: verify\n- {}\n");
    place
        .write("stack/stack.yaml", "apiVersion: ktl.dev/v1\nkind: Stack\nname: shop\nprofiles: {prod: {}}\n");
    place
        .write("stack/a/release.yaml", "apiVersion: ktl.dev/v1\nkind: Release\nname: checkout\nchart: ./c\n");
    place.write(
        ".config/helm/repositories.yaml",
        "repositories:\n- {name: repo, url: 'https://charts.invalid'}\n",
    );
    place.write(
        ".cache/helm/repository/repo-index.yaml",
        "apiVersion: v1\nentries:\n  webshop:\n  - {apiVersion: v2, name: webshop, version: 1.2.3, urls: [a.tgz]}\n",
    );
    let before = offered(&place, "slipway status --sandbox ");
    assert!(before.iter().all(|word| word.starts_with('-')), "no sandbox is started for it: {before:?}");
    place.run(&["sandbox", "up", "--detach", "--speed", "max"]).ok();
    let _down = Down(&place);
    for name in ["web", "worker"] {
        place.run(&["apply", name, "chart", "--sandbox", "-n", "shop"]).ok();
    }
    for (line, expected) in [
        ("slipway hist", &["history"][..]),
        ("slipway status --sh", &["--show-resources"]),
        ("slipway status --sandbox -n shop ", &["web", "worker"]),
        ("slipway status wo --sandbox -n shop w", &[]),
        ("slipway delete --sandbox -n shop web w", &["web", "worker"]),
        ("slipway rollback web --sandbox -n shop ", &["1"]),
        ("slipway logs --sandbox -n sh", &["shop"]),
        ("slipway list --context ", &["production", "staging"]),
        ("slipway list --context=st", &["--context=staging"]),
        ("slipway apply web repo/", &["repo/webshop"]),
        ("slipway lint ch", &["chart/"]),
        ("slipway run apply -f book.yaml --only install-cni,ver", &["install-cni,verify"]),
        ("slipway stack explain --root stack ", &["checkout"]),
        ("slipway stack plan --root stack --profile ", &["prod"]),
        ("slipway stack status --root stack --run-id ", &[]),
        ("slipway repo remove ", &["repo"]),
        // Nobody answers, or nobody knows the kind.
        ("slipway status w", &[]),
        ("slipway pipeline show --sandbox ", &[]),
    ] {
        let mut found = offered(&place, line);
        // Where there is no value a flag may follow.
        found.retain(|word| !word.starts_with('-') || line.contains(" --sh") || line.contains("--context="));
        assert_eq!(found, expected, "{line}");
    }
}

#[cfg(unix)]
#[test]
fn bash_takes_the_script() {
    let place = Place::new();
    place.write("script", place.run(&["completions", "bash"]).ok());
    let binary = std::path::Path::new(env!("CARGO_BIN_EXE_slipway")).parent().unwrap();
    let path = std::env::join_paths(
        std::iter::once(binary.to_owned()).chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())),
    );
    let typed = "source ./script; COMP_WORDS=(slipway sandbox sta); COMP_CWORD=2; COMP_TYPE=9; \
                 _clap_complete_slipway slipway sta sandbox; printf '%s\\n' \"${COMPREPLY[@]}\"; complete -p slipway";
    let mut bash = std::process::Command::new("bash");
    bash.args(["--norc", "-c", typed]).current_dir(place.path()).env_clear();
    let ran = Ran::from(bash.env("HOME", place.path()).env("PATH", path.unwrap()).output().unwrap());
    let (answer, registered) = ran.out.split_once('\n').unwrap();
    assert_eq!(answer, "status", "{}", ran.err);
    assert!(registered.contains("-F _clap_complete_slipway slipway"), "{registered}");
}
