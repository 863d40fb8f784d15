//! Where Helm keeps its files on this machine, by Helm's own rules, and the login helpers Docker uses.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;

use slipway_chart::net::{Access, Home, Login, NetworkOptions, Remote};

use crate::interrupt;

/// A variable that is set to something.
fn variable(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

pub fn user_home() -> PathBuf {
    variable("HOME").or_else(|| variable("USERPROFILE")).unwrap_or_else(|| PathBuf::from("."))
}

/// `$HELM_X_HOME`, else `$XDG_X_HOME/helm`, else the usual place under the home directory.
fn place(helm: &str, xdg: &str, usual: &str) -> PathBuf {
    variable(helm)
        .or_else(|| variable(xdg).map(|path| path.join("helm")))
        .unwrap_or_else(|| user_home().join(usual).join("helm"))
}

/// The files Helm uses, shared with it.
pub fn home() -> Home {
    let config = place("HELM_CONFIG_HOME", "XDG_CONFIG_HOME", ".config");
    let cache = place("HELM_CACHE_HOME", "XDG_CACHE_HOME", ".cache");
    let docker = variable("DOCKER_CONFIG").unwrap_or_else(|| user_home().join(".docker"));
    Home {
        repositories: variable("HELM_REPOSITORY_CONFIG").unwrap_or_else(|| config.join("repositories.yaml")),
        cache: variable("HELM_REPOSITORY_CACHE").unwrap_or_else(|| cache.join("repository")),
        registry: variable("HELM_REGISTRY_CONFIG").unwrap_or_else(|| config.join("registry/config.json")),
        docker: Some(docker.join("config.json")),
    }
}

/// The way to charts that are not on this machine yet.
pub fn remote(access: Access) -> Remote {
    remote_with(home(), access)
}

/// The same, with Helm's files elsewhere.
pub fn remote_with(home: Home, access: Access) -> Remote {
    Remote::new(home, access, Arc::new(ask_helper)).with_network(network())
}

/// The network as every command uses it: Ctrl-C ends what is being fetched.
pub fn network() -> NetworkOptions {
    NetworkOptions { stop: interrupt::stopping().clone(), ..NetworkOptions::default() }
}

/// Asks `docker-credential-NAME` for a login, as Docker does.
fn ask_helper(name: &str, host: &str) -> Option<Login> {
    let mut child = Command::new(format!("docker-credential-{name}"))
        .arg("get")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    child.stdin.take()?.write_all(host.as_bytes()).ok()?;
    let output = child.wait_with_output().ok().filter(|output| output.status.success())?;
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).ok()?;
    let text = |key: &str| answer.get(key)?.as_str().map(str::to_owned);
    Some(Login { username: text("Username")?, password: text("Secret")? })
}
