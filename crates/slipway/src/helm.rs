//! Where Helm keeps its files on this machine, by Helm's own rules, and the login helpers Docker uses.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;

use slipway_chart::net::{Access, Home, Login, NetworkOptions, Remote};

use crate::interrupt;

use crate::config::{self, Variable};

pub fn user_home() -> PathBuf {
    config::user_home().unwrap_or_else(|| PathBuf::from("."))
}

/// `$HELM_X_HOME`, else `$XDG_X_HOME/helm`, else the usual place under the home directory.
fn place(helm: Variable, xdg: Variable, usual: &str) -> PathBuf {
    helm.path()
        .or_else(|| xdg.path().map(|path| path.join("helm")))
        .unwrap_or_else(|| user_home().join(usual).join("helm"))
}

/// The files Helm uses, shared with it.
pub fn home() -> Home {
    let config = place(Variable::HelmConfigHome, Variable::XdgConfigHome, ".config");
    let cache = place(Variable::HelmCacheHome, Variable::XdgCacheHome, ".cache");
    let docker = Variable::DockerConfig.path().unwrap_or_else(|| user_home().join(".docker"));
    let chosen = |variable: Variable, usual: PathBuf| variable.path().unwrap_or(usual);
    Home {
        repositories: chosen(Variable::HelmRepositoryConfig, config.join("repositories.yaml")),
        cache: chosen(Variable::HelmRepositoryCache, cache.join("repository")),
        registry: chosen(Variable::HelmRegistryConfig, config.join("registry/config.json")),
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
