//! Credentials: given to their own host, and to nobody's eyes.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::{Arc, Mutex};

use slipway_git::{
    CacheOptions, ErrorClass, Git, GitCredential, GitError, RepositoryAddress, TransportPolicy,
};

use crate::support::{Rig, branch};

const TOKEN: &str = "tok-4f9c1d7e";

/// A server that refuses every request and remembers what it was sent.
fn refusing_server() -> (u16, Arc<Mutex<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let seen = Arc::new(Mutex::new(String::new()));
    let heard = seen.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut buffer = [0; 8192];
            let count = stream.read(&mut buffer).unwrap_or(0);
            heard.lock().unwrap().push_str(&String::from_utf8_lossy(&buffer[..count]));
            let _ = stream.write_all(
                b"HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
            );
        }
    });
    (port, seen)
}

#[tokio::test]
async fn wrong_credentials_are_denied_and_shown_nowhere() {
    let rig = Rig::new();
    let (port, seen) = refusing_server();
    // A `git` that writes down its arguments.
    let log = rig.place.path().join("arguments");
    let script = rig.place.path().join("git");
    std::fs::write(&script, format!("#!/bin/sh\necho \"$@\" >> {}\nexec git \"$@\"\n", log.display()))
        .unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let cache = rig.cache_with("cache", CacheOptions::default(), Arc::new(Git::at(&script)));
    let url = format!("http://127.0.0.1:{port}/org/app.git");
    let address = RepositoryAddress::parse(&url, TransportPolicy::Network).unwrap();
    let credential =
        GitCredential::Login { user: "x-access-token".to_owned(), password: TOKEN.to_owned().into() };
    assert!(!format!("{credential:?}").contains(TOKEN));
    let error = cache.repository(address, credential).fetch(&branch("main")).await.unwrap_err();
    assert!(matches!(error, GitError::AccessDenied { .. }), "{error:?}");
    assert_eq!(error.class(), ErrorClass::Denied);
    let seen = seen.lock().unwrap().clone();
    // base64 of `x-access-token:` and the token
    assert!(seen.contains("Authorization: Basic eC1hY2Nlc3MtdG9rZW46dG9rLTRmOWMxZDdl"), "{seen}");
    let mut texts = vec![error.to_string(), format!("{error:?}"), std::fs::read_to_string(&log).unwrap()];
    for file in walk(&rig.cache_directory()) {
        texts.push(String::from_utf8_lossy(&std::fs::read(file).unwrap()).into_owned());
    }
    for text in texts {
        assert!(!text.contains(TOKEN) && !text.contains("dG9rLTRmOWMxZDdl"), "{text}");
    }
}

fn walk(directory: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![directory.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { open.push(path) } else { found.push(path) }
        }
    }
    found
}

#[tokio::test]
async fn a_redirect_does_not_take_credentials_to_another_host() {
    let rig = Rig::new();
    let (target, seen) = refusing_server();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut buffer = [0; 8192];
            let _ = stream.read(&mut buffer);
            let to = format!("http://localhost:{target}/org/app.git/info/refs?service=git-upload-pack");
            let answer = format!(
                "HTTP/1.1 301 Moved\r\nLocation: {to}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            );
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    let url = format!("http://127.0.0.1:{port}/org/app.git");
    let address = RepositoryAddress::parse(&url, TransportPolicy::Network).unwrap();
    let credential = GitCredential::Login { user: "u".to_owned(), password: TOKEN.to_owned().into() };
    rig.cache().repository(address, credential).fetch(&branch("main")).await.unwrap_err();
    assert_eq!(*seen.lock().unwrap(), "");
}

#[tokio::test]
async fn an_unknown_ssh_host_is_refused_and_the_key_does_not_stay() {
    let rig = Rig::new();
    let address =
        RepositoryAddress::parse("ssh://git@127.0.0.1:1/org/app", TransportPolicy::Network).unwrap();
    let private_key = "-----BEGIN OPENSSH PRIVATE KEY-----\nc2VjcmV0LWtleQ==\n".to_owned().into();
    let credential = GitCredential::SshKey { private_key, known_hosts: String::new() };
    let error = rig.cache().repository(address, credential).fetch(&branch("main")).await.unwrap_err();
    assert!(!error.to_string().contains("c2VjcmV0"), "{error}");
    for file in walk(&rig.cache_directory()) {
        assert!(!String::from_utf8_lossy(&std::fs::read(&file).unwrap()).contains("c2VjcmV0"), "{file:?}");
    }
}
