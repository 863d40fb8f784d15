//! Kubeconfig files: reading, joining, and saying what is wrong with one without showing its contents.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError, LoadDataError, NamedCluster};
use secrecy::ExposeSecret;
use slipway_event::Redactor;
use slipway_problem::{Location, Problem, describe_io, nearest_name};

use super::KubeconfigSource;
use super::origin::{LoginOrigin, LoginProgram};
use crate::request::error_chain;

/// The files of a source, joined.
pub(super) struct JoinedKubeconfig {
    pub(super) config: Kubeconfig,
    /// The files as messages name them, with the users each has.
    files: Vec<(String, Vec<String>)>,
}

impl JoinedKubeconfig {
    /// Its files, for messages.
    fn shown_files(&self) -> String {
        self.files.iter().map(|(file, _)| file.as_str()).collect::<Vec<_>>().join(", ")
    }

    /// The name of the cluster that a choice of context and cluster leads to.
    fn chosen_cluster<'a>(&'a self, choice: &'a KubeConfigOptions) -> Option<&'a str> {
        let context = choice.context.as_ref().or(self.config.current_context.as_ref());
        let of_context = || {
            let named = self.config.contexts.iter().find(|named| Some(&named.name) == context)?;
            Some(named.context.as_ref()?.cluster.as_str())
        };
        choice.cluster.as_deref().or_else(of_context)
    }

    /// The login that a choice of context and user leads to.
    pub(super) fn login_origin(&self, choice: &KubeConfigOptions) -> Option<LoginOrigin> {
        let context = choice.context.as_ref().or(self.config.current_context.as_ref());
        let of_context = || {
            let named = self.config.contexts.iter().find(|named| Some(&named.name) == context)?;
            named.context.as_ref()?.user.as_ref()
        };
        let name = choice.user.as_ref().or_else(of_context)?;
        let user = self.config.auth_infos.iter().find(|user| user.name == *name);
        let exec = user.and_then(|user| user.auth_info.as_ref()?.exec.as_ref());
        let context = context.filter(|_| choice.user.is_none()).cloned();
        // Of two users of one name the first counts.
        let Some((file, _)) = self.files.iter().find(|(_, users)| users.contains(name)) else {
            return Some(LoginOrigin::UnknownUser { name: name.clone(), file: self.shown_files() });
        };
        Some(LoginOrigin::User {
            name: name.clone(),
            context,
            file: file.clone(),
            program: exec.and_then(|exec| {
                let install_hint = exec.install_hint.clone();
                Some(LoginProgram { command: exec.command.clone()?, install_hint })
            }),
        })
    }
}

/// Reads and joins the files of a source; `None` if there is none. Every credential is hidden at once.
pub(super) fn read(
    source: &KubeconfigSource,
    redactor: &Redactor,
) -> Result<Option<JoinedKubeconfig>, Problem> {
    let names_of = |config: &Kubeconfig| config.auth_infos.iter().map(|user| user.name.clone()).collect();
    let files: Vec<&PathBuf> = match source {
        KubeconfigSource::Text(text) => {
            let at = Location::file("kubeconfig");
            let config = Kubeconfig::from_yaml(text.expose_secret()).map_err(|error| unusable(&error, at))?;
            register_secrets(&config, redactor);
            let files = vec![("the kubeconfig that was given".to_owned(), names_of(&config))];
            return Ok(Some(JoinedKubeconfig { config, files }));
        }
        KubeconfigSource::Files(files) if files.len() == 1 => files.iter().collect(),
        KubeconfigSource::Files(files) => files.iter().filter(|file| file.exists()).collect(),
        KubeconfigSource::Default(file) => file.iter().filter(|file| file.exists()).collect(),
    };
    let mut joined: Option<JoinedKubeconfig> = None;
    for file in files {
        let next = read_file(file, redactor)?;
        let named = (file.display().to_string(), names_of(&next));
        joined = Some(match joined {
            Some(mut first) => {
                let config = first.config.merge(next).map_err(|error| unusable(&error, location(file)))?;
                first.files.push(named);
                JoinedKubeconfig { config, files: first.files }
            }
            None => JoinedKubeconfig { config: next, files: vec![named] },
        });
    }
    Ok(joined)
}

fn location(file: &Path) -> Location {
    Location::file(file.display().to_string())
}

fn read_file(path: &Path, redactor: &Redactor) -> Result<Kubeconfig, Problem> {
    let bytes = slipway_problem::read_file(path).map_err(|error| {
        Problem::error(format!("cannot read the kubeconfig: {}", describe_io(&error)))
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

/// Refuses names that the kubeconfig does not have, with those it has.
pub(super) fn check_names(joined: &JoinedKubeconfig, asked: &KubeConfigOptions) -> Result<(), Problem> {
    let config = &joined.config;
    let contexts = config.contexts.iter().map(|context| context.name.as_str()).collect();
    let clusters = config.clusters.iter().map(|cluster| cluster.name.as_str()).collect();
    let users = config.auth_infos.iter().map(|user| user.name.as_str()).collect();
    let checks: [(&str, &Option<String>, Vec<&str>); 3] = [
        ("context", &asked.context, contexts),
        ("cluster", &asked.cluster, clusters),
        ("user", &asked.user, users),
    ];
    for (what, asked, known) in checks {
        if let Some(asked) = asked.as_deref().filter(|asked| !known.contains(asked)) {
            let message = format!("there is no {what} `{asked}` in {}", joined.shown_files());
            return Err(Problem::error(message).hint(names_hint(what, asked, known)));
        }
    }
    Ok(())
}

/// The most names a hint lists.
const MOST_NAMES: usize = 20;

/// The names there are, and the one that may be meant.
fn names_hint(what: &str, asked: &str, mut known: Vec<&str>) -> String {
    known.sort_unstable();
    let shown: Vec<String> = known.iter().take(MOST_NAMES).map(|name| format!("`{name}`")).collect();
    let more = match known.len().saturating_sub(MOST_NAMES) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let all = match shown.len() {
        0 => return format!("it has no {what} at all; name another file with --kubeconfig"),
        1 => format!("there is only {}", shown.join("")),
        _ => format!("there are {}{more}", shown.join(", ")),
    };
    match nearest_name(asked, known.iter().copied()) {
        Some(nearest) => format!("did you mean `{nearest}`? {all}"),
        None => all,
    }
}

/// Says why the context of a kubeconfig cannot be used.
pub(super) fn wrong_context(
    joined: &JoinedKubeconfig,
    choice: &KubeConfigOptions,
    error: &KubeconfigError,
) -> Problem {
    let files = joined.shown_files();
    let cluster = joined.chosen_cluster(choice).unwrap_or("of the context");
    let contexts = || joined.config.contexts.iter().map(|context| context.name.as_str()).collect();
    match error {
        KubeconfigError::CurrentContextNotSet => {
            let problem = Problem::error(format!("the kubeconfig {files} names no current context"));
            match joined.config.contexts.is_empty() {
                true => problem.hint(names_hint("context", "", Vec::new())),
                false => {
                    let hint = names_hint("context", "", contexts());
                    problem.hint(format!("choose one with --context: {hint}"))
                }
            }
        }
        KubeconfigError::LoadContext(name) => {
            let message = format!("the current context `{name}` is not in {files}");
            let hint = names_hint("context", name, contexts());
            Problem::error(message).hint(format!("choose one with --context: {hint}"))
        }
        KubeconfigError::LoadClusterOfContext(name) => {
            let clusters = joined.config.clusters.iter().map(|cluster| cluster.name.as_str()).collect();
            let message = format!("the context names cluster `{name}`, which is not in {files}");
            Problem::error(message).hint(names_hint("cluster", name, clusters))
        }
        KubeconfigError::MissingClusterUrl => {
            Problem::error(format!("the cluster of the context has no `server` in {files}"))
                .hint("write its address there, or give one with --kube-apiserver")
        }
        KubeconfigError::ParseClusterUrl(_) => {
            Problem::error(format!("the `server` of cluster `{cluster}` in {files} is no address"))
                .hint("write one such as https://10.0.0.1:6443, or give it with --kube-apiserver")
        }
        KubeconfigError::LoadCertificateAuthority(LoadDataError::ReadFile(why, file)) => {
            let (file, why) = (file.display(), describe_io(why));
            Problem::error(format!("cannot read the certificate authority {file}: {why}"))
                .hint(format!("cluster `{cluster}` in {files} names it; --kube-ca-file takes another file"))
        }
        _ => {
            let problem = unusable(error, Location::file(""));
            Problem { at: None, ..problem }
        }
    }
}

/// Says which file of a login cannot be read, if that is what an error is about.
pub(super) fn unreadable_login(error: &kube::Error, login: Option<&LoginOrigin>) -> Option<Problem> {
    let kube::Error::InferKubeconfig(error) = error else { return None };
    let (what, field, LoadDataError::ReadFile(why, file)) = (match error {
        KubeconfigError::LoadClientCertificate(why) => ("client certificate", "client-certificate", why),
        KubeconfigError::LoadClientKey(why) => ("client key", "client-key", why),
        _ => return None,
    }) else {
        return None;
    };
    let problem = Problem::error(format!("cannot read the {what} {}: {}", file.display(), describe_io(why)));
    Some(match login {
        Some(login) => problem.hint(format!("`{field}` of {login} names it: correct the path")),
        None => problem.hint("correct the path"),
    })
}
