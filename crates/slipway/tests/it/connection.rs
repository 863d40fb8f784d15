//! The connection to a cluster as flags and variables change it.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::sandbox::Down;
use crate::support::{Place, Ran};

/// An API server that says its version to everybody and keeps the headers it was asked with.
struct Listener {
    address: String,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Listener {
    fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let heads: Arc<Mutex<Vec<String>>> = Arc::default();
        let log = Arc::clone(&heads);
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let (mut bytes, mut chunk) = (Vec::new(), [0; 4096]);
                while !bytes.windows(4).any(|window| window == b"\r\n\r\n") {
                    match stream.read(&mut chunk) {
                        Ok(read) if read > 0 => bytes.extend_from_slice(&chunk[..read]),
                        _ => break,
                    }
                }
                log.lock().unwrap().push(String::from_utf8_lossy(&bytes).to_lowercase());
                let body = json!({
                    "major": "1", "minor": "37", "gitVersion": "v1.37.1", "gitCommit": "", "gitTreeState": "",
                    "buildDate": "", "goVersion": "", "compiler": "", "platform": "",
                })
                .to_string();
                let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close";
                let _ = write!(stream, "{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
            }
        });
        Self { address, heads }
    }

    /// Whether every request had a header.
    fn always_saw(&self, header: &str) -> bool {
        let heads = self.heads.lock().unwrap();
        !heads.is_empty() && heads.iter().all(|head| head.lines().any(|line| line == header))
    }
}

/// The user, cluster and certificates of a kubeconfig with one of each.
fn parts(kubeconfig: &str) -> Value {
    let config: Value = slipway_yaml::from_str_helm(kubeconfig).unwrap();
    let (cluster, user) = (&config["clusters"][0]["cluster"], &config["users"][0]["user"]);
    json!({
        "server": cluster["server"], "ca": cluster["certificate-authority-data"],
        "cert": user["client-certificate-data"], "key": user["client-key-data"],
    })
}

fn part<'a>(parts: &'a Value, name: &str) -> &'a str {
    parts[name].as_str().unwrap_or_else(|| panic!("no {name}"))
}

#[test]
fn a_name_and_a_password_are_sent_with_every_request() {
    let place = Place::new();
    let server = Listener::open();
    let connect = ["config", "--connect", "--kube-apiserver", &server.address];
    let login = ["--kube-auth-username", "jo", "--kube-auth-password", "open-sesame"];
    let ran = place.run(&[&connect[..], &login].concat());
    assert!(ran.code == Some(0) && !ran.out.contains("open-sesame"), "{} {}", ran.out, ran.err);
    assert!(server.always_saw("authorization: basic am86b3blbi1zzxnhbwu="), "{:?}", server.heads);

    let by_variable = place
        .command(&connect)
        .env("NELM_KUBE_AUTH_USERNAME", "jo")
        .env("NELM_KUBE_AUTH_PASSWORD", "open-sesame")
        .output();
    assert_eq!(Ran::from(by_variable.unwrap()).code, Some(0));
    assert!(server.always_saw("authorization: basic am86b3blbi1zzxnhbwu="), "{:?}", server.heads);
    let half = place.run(&[&connect[..], &login[2..]].concat());
    assert!(half.code == Some(64) && half.err.contains("--kube-auth-username"), "{}", half.err);
    assert!(!half.err.contains("open-sesame"), "{}", half.err);
}

#[test]
fn the_uid_of_an_impersonated_user_is_sent() {
    let place = Place::new();
    let server = Listener::open();
    let connect = ["config", "--connect", "--kube-apiserver", &server.address];
    let whom = ["--kube-as-user", "jo", "--kube-impersonate-uid", "1234"];
    assert_eq!(place.run(&[&connect[..], &whom].concat()).code, Some(0));
    assert!(server.always_saw("impersonate-user: jo") && server.always_saw("impersonate-uid: 1234"));
    let nobody = place.run(&[&connect[..], &whom[2..]].concat());
    assert!(nobody.code == Some(1) && nobody.err.contains("--kube-as-user"), "{}", nobody.err);
}

#[test]
fn a_certificate_given_by_flags_logs_in() {
    let place = Place::new();
    let _down = Down(&place);
    place.run(&["sandbox", "up", "--detach", "--rbac"]).ok();
    let alice = place.run(&["sandbox", "kubeconfig", "--user", "alice", "--certificate"]);
    let found = parts(&alice.ok());
    for name in ["ca", "cert", "key"] {
        place.write(name, data_encoding::BASE64.decode(part(&found, name).as_bytes()).unwrap());
    }
    let pem = |name: &str| std::fs::read_to_string(place.path().join(name)).unwrap();
    let (ca, cert, key) = (pem("ca"), pem("cert"), pem("key"));
    let data = ["--kube-ca-data", &ca, "--kube-cert-data", &cert, "--kube-key-data", &key];
    let (ca, cert, key) = (part(&found, "ca"), part(&found, "cert"), part(&found, "key"));
    let base64 = ["--kube-ca-data", ca, "--kube-cert-data", cert, "--kube-key-data", key];
    let files = ["--kube-ca-file", "ca", "--kube-cert", "cert", "--kube-key", "key"];
    let list = ["list", "--kube-apiserver", part(&found, "server")];
    for flags in [data, base64, files] {
        // She is known and has no rights.
        let ran = place.run(&[&list[..], &flags].concat());
        assert!(ran.code == Some(1) && ran.err.contains("alice"), "{flags:?}: {}", ran.err);
    }
    let mut by_variables = place.command(&list);
    by_variables.env("NELM_KUBE_CA_DATA", ca).env("NELM_KUBE_CERT", "cert").env("NELM_KUBE_KEY_DATA", key);
    let ran = Ran::from(by_variables.output().unwrap());
    assert!(ran.code == Some(1) && ran.err.contains("alice"), "{}", ran.err);

    let unknown = place.run(&[&list[..], &files[2..]].concat());
    assert!(unknown.code == Some(1) && !unknown.err.contains("alice"), "nobody trusts it: {}", unknown.err);
    let half = place.run(&[&list[..], &data[..4]].concat());
    assert!(half.code == Some(64) && half.err.contains("--kube-key-data"), "{}", half.err);
    let nonsense = place.run(&[&list[..], &["--kube-ca-data", "nonsense"]].concat());
    assert!(nonsense.code == Some(1) && nonsense.err.contains("not in PEM form"), "{}", nonsense.err);
    let rows = place.run(&[&["config", "-o", "json"], &data[..]].concat()).ok();
    assert!(!rows.contains("BEGIN"), "{rows}");
    let rows: Value = serde_json::from_str(&rows).unwrap();
    let key = rows.as_array().unwrap().iter().find(|row| row["setting"] == "connection.keyData").unwrap();
    assert_eq!((key["value"].as_str(), key["from"].as_str()), (Some(slipway_event::MASK), Some("flag")));
}

#[test]
fn the_cluster_and_user_of_a_context_can_be_replaced() {
    let place = Place::new();
    let _down = Down(&place);
    place.run(&["sandbox", "up", "--detach", "--rbac", "--write-kubeconfig", "k"]).ok();
    let text = std::fs::read_to_string(place.path().join("k")).unwrap();
    let mut config: Value = slipway_yaml::from_str_helm(&text).unwrap();
    let add = |list: &mut Value, item: Value| list.as_array_mut().unwrap().push(item);
    let (cluster, user) = (config["clusters"][0]["name"].clone(), config["users"][0]["name"].clone());
    add(&mut config["clusters"], json!({"name": "away", "cluster": {"server": "https://127.0.0.1:1"}}));
    add(&mut config["users"], json!({"name": "stranger", "user": {"token": "nobody-knows-it"}}));
    let context = json!({"name": "wrong", "context": {"cluster": "away", "user": "stranger"}});
    add(&mut config["contexts"], context);
    config["current-context"] = "wrong".into();
    place.write("both", config.to_string());
    let (cluster, user) = (cluster.as_str().unwrap(), user.as_str().unwrap());
    let list = ["list", "--kubeconfig", "both"];
    let away = place.run(&list);
    assert!(away.code == Some(1) && away.err.contains("127.0.0.1:1"), "{}", away.err);
    let stranger = place.run(&[&list[..], &["--kube-context-cluster", cluster]].concat());
    assert!(stranger.code == Some(1) && !stranger.err.contains("127.0.0.1:1"), "{}", stranger.err);
    let both = [&list[..], &["--kube-context-cluster", cluster, "--kube-context-user", user]].concat();
    assert_eq!(place.run(&both).code, Some(0));
    let mut by_variables = place.command(&list);
    by_variables.env("NELM_KUBE_CONTEXT_CLUSTER", cluster).env("NELM_KUBE_CONTEXT_USER", user);
    assert_eq!(Ran::from(by_variables.output().unwrap()).code, Some(0));
    let typo = place.run(&[&list[..], &["--kube-context-user", "strangr"]].concat());
    assert!(typo.code == Some(1) && typo.err.contains("did you mean `stranger`?"), "{}", typo.err);
}
