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
    // The columns are as wide as the name of a temporary directory.
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join("  ");
    insta::assert_snapshot!(shown.lines().map(words).collect::<Vec<_>>().join("\n"));
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

#[test]
fn variables_of_single_commands_are_shown_and_keys_masked() {
    let place = Place::new();
    let mut command = place.command(&["config", "-o", "json"]);
    command
        .env("HELM_DRIVER", "configmap")
        .env("HELM_DRIVER_SQL_CONNECTION_STRING", "postgres://helm:of-the-database@db/helm")
        .env("PGPASSWORD", "of-another-database")
        .env("SLIPWAY_STACK_ROOT", "stacks")
        .env("WERF_SECRET_KEY", "abcdef0123");
    let rows: serde_json::Value = serde_json::from_str(&Ran::from(command.output().unwrap()).ok()).unwrap();
    for (setting, value, from) in [
        ("release.storage", "configmap", "$HELM_DRIVER"),
        ("release.database.connection", "***", "$HELM_DRIVER_SQL_CONNECTION_STRING"),
        ("release.database.password", "***", "$PGPASSWORD"),
        ("stack.root", "stacks", "$SLIPWAY_STACK_ROOT"),
        ("secrets.key", "***", "$WERF_SECRET_KEY"),
        ("stack.tag", "", "default"),
    ] {
        let row = rows.as_array().unwrap().iter().find(|row| row["setting"] == setting).unwrap();
        assert_eq!((&row["value"], &row["from"]), (&value.into(), &from.into()), "{setting}");
    }
}
