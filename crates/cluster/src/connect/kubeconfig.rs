//! Kubeconfig files: reading, joining, and saying what is wrong with one without showing its contents.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError, NamedCluster};
use secrecy::ExposeSecret;
use slipway_event::Redactor;
use slipway_problem::{Location, Problem};

use super::KubeconfigSource;
use crate::request::error_chain;

/// Reads and joins the files of a source; `None` if there is none. Every credential is hidden at once.
pub(super) fn read(source: &KubeconfigSource, redactor: &Redactor) -> Result<Option<Kubeconfig>, Problem> {
    let files: Vec<&PathBuf> = match source {
        KubeconfigSource::Text(text) => {
            let at = Location::file("kubeconfig");
            let kubeconfig =
                Kubeconfig::from_yaml(text.expose_secret()).map_err(|error| unusable(&error, at))?;
            register_secrets(&kubeconfig, redactor);
            return Ok(Some(kubeconfig));
        }
        KubeconfigSource::Files(files) if files.len() == 1 => files.iter().collect(),
        KubeconfigSource::Files(files) => files.iter().filter(|file| file.exists()).collect(),
        KubeconfigSource::Default(file) => file.iter().filter(|file| file.exists()).collect(),
    };
    let mut joined: Option<Kubeconfig> = None;
    for file in files {
        let next = read_file(file, redactor)?;
        joined = Some(match joined {
            Some(first) => first.merge(next).map_err(|error| unusable(&error, location(file)))?,
            None => next,
        });
    }
    Ok(joined)
}

fn location(file: &Path) -> Location {
    Location::file(file.display().to_string())
}

fn read_file(path: &Path, redactor: &Redactor) -> Result<Kubeconfig, Problem> {
    let bytes = slipway_problem::read_file(path).map_err(|error| {
        Problem::error(format!("cannot read the kubeconfig: {error}"))
            .at(location(path))
            .hint("check the path; --sandbox needs no kubeconfig")
    })?;
    let kubeconfig = if path.is_file() {
        // Paths in it start at its directory.
        Kubeconfig::read_from(path)
    } else {
        Kubeconfig::from_yaml(&String::from_utf8_lossy(&bytes))
    };
    let kubeconfig = kubeconfig.map_err(|error| unusable(&error, location(path)))?;
    register_secrets(&kubeconfig, redactor);
    Ok(kubeconfig)
}

fn register_secrets(kubeconfig: &Kubeconfig, redactor: &Redactor) {
    let users = kubeconfig.auth_infos.iter().filter_map(|named| named.auth_info.as_ref());
    for user in users {
        for secret in [&user.token, &user.password, &user.client_key_data].into_iter().flatten() {
            redactor.register(secret.expose_secret());
        }
        let provider = user.auth_provider.iter().flat_map(|provider| provider.config.values());
        // The environment of a login program may hold secrets too.
        let environment = user.exec.iter().filter_map(|exec| exec.env.as_ref()).flatten();
        let values = environment.filter_map(|variable| variable.get("value"));
        for secret in provider.chain(values) {
            redactor.register(secret);
        }
    }
}

/// Refuses a kubeconfig that runs programs or names files of this machine.
pub(super) fn check_inline(kubeconfig: &Kubeconfig) -> Result<(), Problem> {
    let refuse = |what: String| {
        Problem::error(format!("the kubeconfig may hold nothing but credentials of its own: {what}"))
            .hint("write a token or the data of certificates into it")
    };
    for user in &kubeconfig.auth_infos {
        let Some(login) = &user.auth_info else { continue };
        let name = &user.name;
        if login.exec.is_some() {
            return Err(refuse(format!("user `{name}` runs a program")));
        }
        if login.auth_provider.is_some() {
            return Err(refuse(format!("user `{name}` names an `auth-provider`")));
        }
        let files = [
            ("tokenFile", login.token_file.is_some()),
            ("client-certificate", login.client_certificate.is_some()),
            ("client-key", login.client_key.is_some()),
        ];
        let named: Vec<String> =
            files.iter().filter(|(_, is_set)| *is_set).map(|(field, _)| format!("`{field}`")).collect();
        if !named.is_empty() {
            return Err(refuse(format!("user `{name}` names files: {}", named.join(", "))));
        }
    }
    let has_proxy =
        |cluster: &&NamedCluster| cluster.cluster.as_ref().is_some_and(|cluster| cluster.proxy_url.is_some());
    if let Some(cluster) = kubeconfig.clusters.iter().find(has_proxy) {
        return Err(refuse(format!("cluster `{}` names a `proxy-url`", cluster.name)));
    }
    let reads_authority = |cluster: &NamedCluster| {
        cluster.cluster.as_ref().is_some_and(|cluster| cluster.certificate_authority.is_some())
    };
    match kubeconfig.clusters.iter().find(|cluster| reads_authority(cluster)) {
        Some(cluster) => {
            Err(refuse(format!("cluster `{}` names a file: `certificate-authority`", cluster.name)))
        }
        None => Ok(()),
    }
}

/// Says why a kubeconfig cannot be used without a word of its contents: any line may hold a credential.
fn unusable(error: &KubeconfigError, at: Location) -> Problem {
    let (message, at) = match error {
        KubeconfigError::Parse(error) => {
            let place = error.location().map(|place| {
                let number = |value: u64| u32::try_from(value).unwrap_or_default();
                Location::new(Arc::clone(&at.file), number(place.line()), number(place.column()))
            });
            ("it is not the YAML of a kubeconfig".to_owned(), place.unwrap_or(at))
        }
        KubeconfigError::ParseClusterUrl(_) => ("the server's address is no address".to_owned(), at),
        KubeconfigError::ParseProxyUrl(_) => ("the proxy's address is no address".to_owned(), at),
        KubeconfigError::ParseCertificates(_) => ("its certificates are not in PEM form".to_owned(), at),
        error => (error_chain(error), at),
    };
    Problem::error(format!("cannot use the kubeconfig: {message}"))
        .at(at)
        .hint("`kubectl config view` shows what kubectl makes of it")
}

/// Refuses names that the kubeconfig does not have, with the nearest it has.
pub(super) fn check_names(kubeconfig: &Kubeconfig, asked: &KubeConfigOptions) -> Result<(), Problem> {
    let contexts = kubeconfig.contexts.iter().map(|context| context.name.as_str()).collect();
    let clusters = kubeconfig.clusters.iter().map(|cluster| cluster.name.as_str()).collect();
    let users = kubeconfig.auth_infos.iter().map(|user| user.name.as_str()).collect();
    let checks: [(&str, &Option<String>, Vec<&str>); 3] = [
        ("context", &asked.context, contexts),
        ("cluster", &asked.cluster, clusters),
        ("user", &asked.user, users),
    ];
    for (what, asked, known) in checks {
        if let Some(asked) = asked.as_deref().filter(|asked| !known.contains(asked)) {
            let problem = Problem::error(format!("the kubeconfig has no {what} `{asked}`"));
            return Err(problem.did_you_mean(asked, known));
        }
    }
    Ok(())
}

/// Says why the context of a kubeconfig cannot be used.
pub(super) fn wrong_context(error: &KubeconfigError) -> Problem {
    match error {
        KubeconfigError::CurrentContextNotSet => {
            Problem::error("the kubeconfig names no current context").hint("choose one with --context")
        }
        _ => {
            let problem = unusable(error, Location::file(""));
            Problem { at: None, ..problem }
        }
    }
}
