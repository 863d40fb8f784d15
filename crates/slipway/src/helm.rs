//! Where Helm keeps its files on this machine, by Helm's own rules, and the login helpers Docker uses.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use slipway_chart::net::{AccessOptions, HelmHome, Login, NetworkOptions, RemoteCharts};

use crate::config::{self, Variable};
use crate::interrupt;

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
pub fn home() -> HelmHome {
    let config = place(Variable::HelmConfigHome, Variable::XdgConfigHome, ".config");
    let cache = place(Variable::HelmCacheHome, Variable::XdgCacheHome, ".cache");
    let docker = Variable::DockerConfig.path().unwrap_or_else(|| user_home().join(".docker"));
    let chosen = |variable: Variable, usual: PathBuf| variable.path().unwrap_or(usual);
    HelmHome {
        repositories: chosen(Variable::HelmRepositoryConfig, config.join("repositories.yaml")),
        cache: chosen(Variable::HelmRepositoryCache, cache.join("repository")),
        registry: chosen(Variable::HelmRegistryConfig, config.join("registry/config.json")),
        docker: Some(docker.join("config.json")),
    }
}

/// The way to charts that are not on this machine yet.
pub fn remote(access: AccessOptions) -> RemoteCharts {
    remote_with(home(), access)
}

/// The same, with Helm's files elsewhere.
pub fn remote_with(home: HelmHome, access: AccessOptions) -> RemoteCharts {
    RemoteCharts::new(home, access, Arc::new(ask_helper)).with_network(network())
}

/// The network as every command uses it: Ctrl-C ends what is being fetched.
pub fn network() -> NetworkOptions {
    NetworkOptions { stop: interrupt::stopping().clone(), ..NetworkOptions::default() }
}

/// The time a credential helper has to answer: one that waits for a person at another window gets it, one that
/// hangs does not hold up a command for ever.
const HELPER_TIMEOUT: Duration = Duration::from_secs(30);
/// The longest answer that is read; logins are short.
const LONGEST_ANSWER: u64 = 1 << 20;

/// Asks `docker-credential-NAME` for a login, as Docker does.
fn ask_helper(name: &str, host: &str) -> Option<Login> {
    let program = format!("docker-credential-{name}");
    let answer =
        ask_program(Command::new(&program).arg("get"), host, HELPER_TIMEOUT).unwrap_or_else(|late| {
            say!("warning: {program} {late}");
            None
        })?;
    let answer: serde_json::Value = serde_json::from_slice(&answer).ok()?;
    let text = |key: &str| answer.get(key)?.as_str().map(str::to_owned);
    Some(Login { username: text("Username")?, password: text("Secret")? })
}

/// A program that was ended because it did not answer in time.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("did not answer within {} s", .0.as_secs())]
struct LateAnswer(Duration);

/// Sends a question to a program and reads its answer; none if it cannot be run or fails.
fn ask_program(
    program: &mut Command,
    question: &str,
    limit: Duration,
) -> Result<Option<Vec<u8>>, LateAnswer> {
    let spawned = program.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let Ok(mut child) = spawned else { return Ok(None) };
    let (Some(mut input), Some(output)) = (child.stdin.take(), child.stdout.take()) else { return Ok(None) };
    let (sender, receiver) = mpsc::channel();
    let question = question.to_owned();
    // On a thread of its own, since neither writing to a program nor reading from one has a limit of time.
    std::thread::spawn(move || {
        let asked = input.write_all(question.as_bytes());
        drop(input);
        // Nobody listens any more once the time is over.
        let _ = sender.send(asked.and_then(|()| slipway_problem::read_stream(output, LONGEST_ANSWER)));
    });
    let answer = receiver.recv_timeout(limit);
    if answer.is_err() {
        let _ = child.kill();
    }
    let is_success = child.wait().is_ok_and(|status| status.success());
    match answer {
        Ok(answer) => Ok(answer.ok().filter(|_| is_success)),
        Err(_) => Err(LateAnswer(limit)),
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_credential_helper_that_hangs_is_given_up_on() {
        let moment = Duration::from_millis(20);
        let ask = |script: &str, limit| ask_program(Command::new("sh").args(["-c", script]), "host", limit);
        assert_eq!(ask("exec sleep 600", moment), Err(LateAnswer(moment)));
        assert_eq!(ask("cat", HELPER_TIMEOUT), Ok(Some(b"host".to_vec())));
        assert_eq!(ask("cat; exit 1", HELPER_TIMEOUT), Ok(None));
        assert_eq!(ask_program(&mut Command::new("/no/such/program"), "host", moment), Ok(None));
    }
}
