//! The embedded cluster as a process.

use std::fs;
#[cfg(unix)]
use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use crate::support::{Place, Ran};

/// Ends the sandbox of a place however its test ends.
pub struct Down<'p>(pub &'p Place);

impl Drop for Down<'_> {
    fn drop(&mut self) {
        self.0.run(&["sandbox", "down"]);
    }
}

fn json(ran: Ran) -> Value {
    serde_json::from_str(&ran.ok()).unwrap()
}

fn setting(rows: &Value, name: &str) -> String {
    let row = rows.as_array().unwrap().iter().find(|row| row["setting"] == name).unwrap();
    row["value"].as_str().unwrap().to_owned()
}

#[test]
fn it_starts_says_where_and_stops() {
    let place = Place::new();
    let _down = Down(&place);
    assert_eq!(place.run(&["sandbox", "status"]).ok(), "not running\n");
    for words in [&["kubeconfig"][..], &["save", "x"], &["load", "x"], &["reset"], &["down"]] {
        let ran = place.run(&[&["sandbox"], words].concat());
        assert!(ran.code == Some(1) && ran.err.contains("slipway sandbox up"), "{words:?}: {}", ran.err);
    }

    place.write("kubeconfig", "old and readable for all");
    let up = place.run(&["sandbox", "up", "--detach", "--speed", "max", "--write-kubeconfig", "kubeconfig"]);
    assert_eq!(up.code, Some(0), "{}", up.err);
    let kubeconfig = fs::read_to_string(place.path().join("kubeconfig")).unwrap();
    #[cfg(unix)]
    {
        let mode = fs::metadata(place.path().join("kubeconfig")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "only its owner may read it");
    }
    assert_eq!(place.run(&["sandbox", "kubeconfig"]).ok(), kubeconfig);
    let status = json(place.run(&["sandbox", "status", "-o", "json"]));
    assert!(kubeconfig.contains(status["server"].as_str().unwrap()), "{status}");
    assert_eq!((&status["speed"], &status["rbac"]), (&"max".into(), &false.into()));
    assert!(status["objects"].as_u64().unwrap() > 10, "{status}");
    let table = place.run(&["sandbox", "status"]).ok();
    assert!(table.starts_with("SERVER") && table.contains("in memory"), "{table}");
    assert_eq!(place.run(&["sandbox", "up"]).code, Some(1), "one at a time");

    assert_eq!(place.run(&["sandbox", "down"]).code, Some(0));
    assert_eq!(place.run(&["sandbox", "status"]).ok(), "not running\n");
    assert_eq!(place.run(&["sandbox", "down"]).code, Some(1));
}

#[test]
fn what_is_wrong_is_said_with_what_to_do() {
    let place = Place::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    for detach in [&[][..], &["--detach"]] {
        let ran = place.run(&[&["sandbox", "up", "--port", &port], detach].concat());
        assert!(ran.code == Some(1) && ran.err.contains(&format!("port {port} is in use")), "{}", ran.err);
        assert!(ran.err.contains("hint: choose another --port"), "{}", ran.err);
    }
    place.write("file", "no directory").write("damaged/log", "somebody else's");
    for (directory, said) in [("file", "data directory"), ("damaged", "damaged: it is not a sandbox's log")] {
        let ran = place.run(&["sandbox", "up", "--data-dir", directory]);
        assert!(ran.code == Some(1) && ran.err.contains(said) && ran.err.contains("hint:"), "{}", ran.err);
    }
    let ran = place.run(&["sandbox", "up", "--speed", "fast"]);
    assert!(ran.code == Some(64) && ran.err.contains("real, max, manual"), "{}", ran.err);
    let ran = place.run(&["sandbox", "kubeconfig", "--group", "dev"]);
    assert_eq!(ran.code, Some(64), "a group is somebody's: {}", ran.err);
}

#[test]
fn a_data_directory_belongs_to_one_sandbox() {
    let (one, two) = (Place::new(), Place::new());
    let _down = Down(&one);
    let data = one.path().join("data");
    let data = data.to_str().unwrap();
    assert_eq!(one.run(&["sandbox", "up", "--detach", "--data-dir", data]).code, Some(0));
    let ran = two.run(&["sandbox", "up", "--data-dir", data]);
    assert!(ran.code == Some(1) && ran.err.contains("in use by another sandbox"), "{}", ran.err);
}

#[test]
fn the_flag_uses_a_sandbox_that_lasts() {
    let place = Place::new();
    let _down = Down(&place);
    let ran = place.run(&["config", "--connect", "--sandbox", "-n", "shop", "-o", "json"]);
    assert!(ran.err.contains("started a sandbox"), "{}", ran.err);
    let rows = json(ran);
    assert_eq!(setting(&rows, "cluster.namespace"), "shop");
    let server = setting(&rows, "cluster.server");
    let again = place.run(&["config", "--connect", "--sandbox", "-o", "json"]);
    assert!(!again.err.contains("started"), "the one that runs is used: {}", again.err);
    assert_eq!(setting(&json(again), "cluster.server"), server);
    let status = json(place.run(&["sandbox", "status", "-o", "json"]));
    assert!(status["dataDir"].as_str().unwrap().ends_with("sandbox/data"), "{status}");

    for flag in [["--context", "x"], ["--kubeconfig", "x"]] {
        let ran = place.run(&["config", "--connect", "--sandbox", flag[0], flag[1]]);
        assert_eq!(ran.code, Some(64), "{}", ran.err);
    }
    // What it held survives, until it is reset.
    place.run(&["sandbox", "save", "before"]).ok();
    assert_eq!(place.run(&["sandbox", "down"]).code, Some(0));
    place.run(&["config", "--connect", "--sandbox"]).ok();
    place.run(&["sandbox", "save", "after"]).ok();
    let read = |name: &str| {
        let text = fs::read_to_string(place.path().join(name)).unwrap();
        let node = text.lines().find(|line| line.contains("\"name\":\"node-1\"")).unwrap().to_owned();
        serde_json::from_str::<Value>(&node).unwrap()["object"]["metadata"]["uid"].clone()
    };
    assert_eq!(read("before"), read("after"));
    assert_eq!(place.run(&["sandbox", "down"]).code, Some(0));
    assert_eq!(place.run(&["sandbox", "reset"]).code, Some(0));
    assert_eq!(place.run(&["sandbox", "reset"]).code, Some(1), "nothing is left");
}

/// Helm's and Nelm's flags and variables choose the server, the credentials and the identity of every command.
#[test]
fn connections_are_overridden_by_flags_and_variables() {
    let place = Place::new();
    let _down = Down(&place);
    place.run(&["sandbox", "up", "--detach", "--rbac", "--write-kubeconfig", "k"]);
    let text = fs::read(place.path().join("k")).unwrap();
    let encoded = data_encoding::BASE64.encode(&text);
    let listed = |args: &[&str]| place.run(&[&["list"], args].concat());
    assert_eq!(listed(&["--kube-config-base64", &encoded]).code, Some(0));
    let by_variable = place.command(&["list"]).env("NELM_KUBE_CONFIG_BASE64", &encoded).output().unwrap();
    assert_eq!(Ran::from(by_variable).code, Some(0));
    let wrong = listed(&["--kube-config-base64", "c2VjcmV0!"]);
    assert!(
        wrong.code == Some(64) && wrong.err.contains("base64") && !wrong.err.contains("c2VjcmV0"),
        "{}",
        wrong.err
    );

    let as_nobody = listed(&["--kubeconfig", "k", "--kube-as-user", "nobody"]);
    assert!(as_nobody.code == Some(1) && as_nobody.err.contains("nobody"), "{}", as_nobody.err);
    let by_variable =
        place.command(&["list", "--kubeconfig", "k"]).env("HELM_KUBEASUSER", "nobody").output().unwrap();
    assert_eq!(Ran::from(by_variable).code, Some(1));
    let as_admin = ["--kubeconfig", "k", "--kube-as-user", "nobody", "--kube-as-group", "system:masters"];
    assert_eq!(listed(&as_admin).code, Some(0));

    let elsewhere = listed(&["--kubeconfig", "k", "--kube-apiserver", "https://127.0.0.1:1"]);
    assert!(elsewhere.code == Some(1) && elsewhere.err.contains("127.0.0.1:1"), "{}", elsewhere.err);
    let rows = json(place.run(&["config", "--kube-as-user", "alice", "--kube-token", "t0ken", "-o", "json"]));
    assert_eq!(setting(&rows, "connection.user"), "alice");
    assert_eq!(setting(&rows, "connection.token"), slipway_event::MASK);
}

#[test]
fn clusters_are_reached_as_the_settings_say() {
    let place = Place::new();
    let ran = place.run(&["config", "--connect"]);
    assert!(ran.code == Some(1) && ran.err.contains("--sandbox"), "{}", ran.err);
    let ran = place.run(&["config", "--connect", "--kubeconfig", "none"]);
    assert!(ran.code == Some(10) && ran.err.contains("none"), "{}", ran.err);
    let _down = Down(&place);
    place.run(&["sandbox", "up", "--detach", "--write-kubeconfig", "k"]);
    let rows = json(place.run(&["config", "--connect", "--kubeconfig", "k", "-o", "json"]));
    assert_eq!(setting(&rows, "cluster.namespace"), "default");
    let ran = place.run(&["config", "--connect", "--kubeconfig", "k", "--context", "slipway-sandbx"]);
    assert!(ran.code == Some(1) && ran.err.contains("did you mean `slipway-sandbox`?"), "{}", ran.err);
    // A user with a certificate gets in as well.
    let alice = place.run(&["sandbox", "kubeconfig", "--user", "alice", "--group", "dev", "--certificate"]);
    assert!(alice.err.contains("--rbac"), "{}", alice.err);
    place.write("alice", alice.ok());
    place.run(&["config", "--connect", "--kubeconfig", "alice"]).ok();
    place.run(&["sandbox", "down"]).ok();
    let ran = place.run(&["config", "--connect", "--kubeconfig", "k"]);
    assert!(
        ran.code == Some(1) && ran.err.contains("hint: is the cluster of context `slipway-sandbox` running"),
        "{}",
        ran.err
    );
}

#[test]
fn one_cluster_is_cloned_into_another() {
    let (source, place) = (Place::new(), Place::new());
    let (_one, _two) = (Down(&source), Down(&place));
    let kubeconfig = place.path().join("source");
    let kubeconfig = kubeconfig.to_str().unwrap();
    let up = ["sandbox", "up", "--detach", "--speed", "max", "--write-kubeconfig", kubeconfig];
    assert_eq!(source.run(&up).code, Some(0));
    // A snapshot is a way to put an object there.
    let text = source.run(&["sandbox", "save", "-"]).ok();
    let secret = r#"{"resource":"secrets","namespace":"default","name":"s","revision":1,"object":{"metadata":{"name":"s","namespace":"default","uid":"1","creationTimestamp":"2026-01-01T00:00:00Z"},"data":{"a":"aHVudGVyMg=="},"type":"Opaque"}}"#;
    source.write("more", format!("{text}{secret}\n"));
    assert_eq!(source.run(&["sandbox", "load", "more"]).code, Some(0));
    source.write("wrong", "nonsense\n");
    let ran = source.run(&["sandbox", "load", "wrong"]);
    assert!(ran.code == Some(10) && ran.err.contains("wrong") && ran.err.contains("line 1"), "{}", ran.err);

    let clone = ["sandbox", "clone", "--kubeconfig", kubeconfig, "--from-context", "slipway-sandbox"];
    let ran = place.run(&[&clone[..], &["-n", "default", "--kinds", "secrets", "-o", "json"]].concat());
    assert!(ran.err.contains("values of 1 Secrets were replaced"), "{}", ran.err);
    assert_eq!(json(ran)["copied"]["Secret"], 1);
    let saved = place.run(&["sandbox", "save", "-"]).ok();
    assert!(saved.contains("cmVwbGFjZWQ=") && !saved.contains("aHVudGVyMg=="));
    let ran = place.run(&[&clone[..], &["--kinds", "secrets", "--with-secrets"]].concat());
    assert!(ran.ok().contains("Secret"));
    assert!(place.run(&["sandbox", "save", "-"]).ok().contains("aHVudGVyMg=="));
    let ran = place.run(&[&clone[..], &["--kinds", "secert"]].concat());
    assert!(ran.code == Some(1) && ran.err.contains("did you mean"), "{}", ran.err);
    place.run(&["sandbox", "reset"]).ok();
    assert!(!place.run(&["sandbox", "save", "-"]).ok().contains("aHVudGVyMg=="));
    place.write("own", place.run(&["sandbox", "kubeconfig"]).ok());
    let ran = place.run(&["sandbox", "clone", "--kubeconfig", "own"]);
    assert!(ran.code == Some(1) && ran.err.contains("the sandbox itself"), "{}", ran.err);
}
