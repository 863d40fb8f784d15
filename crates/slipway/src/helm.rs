//! Where Helm keeps its files on this machine, by Helm's own rules, and the login helpers Docker uses.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use slipway_chart::net::{AccessOptions, HelmHome, Login, NetworkOptions, RemoteCharts};
use slipway_process::{ProcessGroup, Program, ProgramError, ProgramLimits};

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

/// The directory of charts that new ones begin as.
pub fn starters() -> PathBuf {
    place(Variable::HelmDataHome, Variable::XdgDataHome, ".local/share").join("starters")
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
const LONGEST_ANSWER: usize = 1 << 20;

/// Asks `docker-credential-NAME` for a login, as Docker does.
fn ask_helper(name: &str, host: &str) -> Option<Login> {
    let program = format!("docker-credential-{name}");
    let asked = ask_program(Program::new(&program).arg("get"), host, HELPER_TIMEOUT);
    let answer = asked.unwrap_or_else(|late| {
        say!("warning: {late}");
        None
    })?;
    let answer: serde_json::Value = serde_json::from_slice(&answer).ok()?;
    let text = |key: &str| answer.get(key)?.as_str().map(str::to_owned);
    Some(Login { username: text("Username")?, password: text("Secret")? })
}

/// Sends a question to a program and reads its answer; none if it cannot be run or fails. One that is late is an
/// error.
fn ask_program(program: Program, question: &str, limit: Duration) -> Result<Option<Vec<u8>>, ProgramError> {
    let limits = ProgramLimits { time: Some(limit), output: LONGEST_ANSWER, ..ProgramLimits::default() };
    // In our group: it may ask the user at the terminal.
    let program = program.pass_environment().group(ProcessGroup::Inherited).limits(limits).input(question);
    match program.run_blocking() {
        Ok(output) => Ok(output.is_success().then_some(output.stdout)),
        Err(late @ ProgramError::TimedOut { .. }) => Err(late),
        Err(_) => Ok(None),
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_credential_helper_that_hangs_is_given_up_on() {
        let moment = Duration::from_millis(20);
        let ask = |script: &str, limit| ask_program(Program::new("sh").args(["-c", script]), "host", limit);
        let late = ask("exec sleep 600", moment).unwrap_err();
        assert_eq!(late.to_string(), "sh was not done within 20ms");
        assert_eq!(ask("cat", HELPER_TIMEOUT).unwrap(), Some(b"host".to_vec()));
        assert_eq!(ask("cat; exit 1", HELPER_TIMEOUT).unwrap(), None);
        assert_eq!(ask_program(Program::new("/no/such/program"), "host", moment).unwrap(), None);
    }
}
