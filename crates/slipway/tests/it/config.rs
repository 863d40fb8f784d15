//! A flag, else the environment, else the file, else a default.

use crate::support::{Place, Ran};

#[test]
fn precedence_is_visible() {
    let place = Place::new();
    let home = place.path().join("home");
    place.write("home/slipway/config.yaml", "namespace: file\ncontext: file\noutput: yaml\ncolor: never\n");
    let mut command = place.command(&["config", "-n", "flag", "-o", "table"]);
    command
        .env("XDG_CONFIG_HOME", &home)
        .env("SLIPWAY_CONTEXT", "variable")
        .env("SLIPWAY_NAMESPACE", "other");
    let shown = Ran::from(command.output().unwrap()).ok().replace(home.to_str().unwrap(), "HOME");
    insta::assert_snapshot!(shown);
}

#[test]
fn every_wrong_setting_at_once() {
    let place = Place::new();
    place.write("c.yaml", "output: tabel\n");
    let mut command = place.command(&["config", "--config", "c.yaml"]);
    let ran = Ran::from(command.env("SLIPWAY_COLOR", "sometimes").output().unwrap());
    assert_eq!(ran.code, Some(64));
    insta::assert_snapshot!(ran.err);
}

#[test]
fn unknown_keys_and_missing_files() {
    let place = Place::new();
    place.write("c.yaml", "namespce: x\n");
    let ran = place.run(&["config", "--config", "c.yaml"]);
    assert!(ran.code == Some(64) && ran.err.contains("did you mean `namespace`?"), "{}", ran.err);
    let ran = place.run(&["config", "--config", "none.yaml"]);
    assert!(ran.code == Some(64) && ran.err.contains("none.yaml"), "{}", ran.err);
}
