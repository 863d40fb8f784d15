//! Settings: a flag, else the environment, else the configuration file, else a default.

mod connection;
mod releases;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use clap::ValueEnum;
use etcetera::BaseStrategy;
use slipway_problem::{Location, Problem, Problems};
use slipway_yaml::FieldReader;

use crate::cli::{Color, Globals, LogFormat, Output};
use crate::files;

pub use connection::ConnectionSettings;
pub use releases::{StorageKind, release_place, release_secrets};

/// A value and where it comes from.
#[derive(Clone, Debug)]
pub struct Setting<T> {
    pub value: T,
    pub origin: Origin,
}

/// Where a setting comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    Flag,
    Variable(&'static str),
    File(Location),
    Default,
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Flag => f.write_str("flag"),
            Self::Variable(name) => write!(f, "${name}"),
            Self::File(at) => at.fmt(f),
            Self::Default => f.write_str("default"),
        }
    }
}

/// The time nothing is said in a pipe before what is under way is told again; zero is never.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgressInterval(pub Duration);

impl Default for ProgressInterval {
    fn default() -> Self {
        Self(Duration::from_secs(5))
    }
}

impl FromStr for ProgressInterval {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let time = slipway_go::time::Duration::parse_unsigned(text);
        time.map(Self).ok_or("expected a duration such as 5s; 0 for never")
    }
}

/// Every setting of an invocation.
#[derive(Clone, Debug)]
pub struct Settings {
    pub kubeconfig: Setting<Option<PathBuf>>,
    pub context: Setting<Option<String>>,
    pub namespace: Setting<Option<String>>,
    pub output: Setting<Output>,
    pub color: Setting<Color>,
    pub log_format: Setting<LogFormat>,
    pub progress_interval: Setting<ProgressInterval>,
    pub connection: ConnectionSettings,
    /// Use the embedded cluster.
    pub sandbox: bool,
    /// The configuration file, if there is one.
    pub file: Option<PathBuf>,
}

impl Settings {
    /// Settles every setting; reports every wrong one.
    pub fn resolve(globals: &Globals) -> Result<Self, Problems> {
        let mut problems = Problems::new();
        let (path, must_exist) = file_path(globals);
        let file = path.as_deref().filter(|path| must_exist || path.is_file());
        let layers =
            Layers { file: file.and_then(|path| problems.collect_from(read(path))).unwrap_or_default() };
        let settings = Self {
            kubeconfig: layers.pick(
                globals.kubeconfig.clone().map(Some),
                &["SLIPWAY_KUBECONFIG", "NELM_KUBE_CONFIG", "KUBECONFIG"],
                "kubeconfig",
                |text| Ok(Some(PathBuf::from(text))),
                &mut problems,
            ),
            context: layers.pick(
                globals.context.clone().map(Some),
                &["SLIPWAY_CONTEXT", "HELM_KUBECONTEXT", "NELM_KUBE_CONTEXT"],
                "context",
                |text| Ok(Some(text.to_owned())),
                &mut problems,
            ),
            namespace: layers.pick(
                globals.namespace.clone().map(Some),
                &["SLIPWAY_NAMESPACE", "HELM_NAMESPACE", "NELM_NAMESPACE"],
                "namespace",
                |text| Ok(Some(text.to_owned())),
                &mut problems,
            ),
            output: layers.pick(globals.output, &["SLIPWAY_OUTPUT"], "output", word, &mut problems),
            color: layers.pick(globals.color, &["SLIPWAY_COLOR"], "color", word, &mut problems),
            log_format: layers.pick(
                globals.log_format,
                &["SLIPWAY_LOG_FORMAT"],
                "logFormat",
                word,
                &mut problems,
            ),
            progress_interval: layers.pick(
                globals.progress_interval,
                &["SLIPWAY_PROGRESS_INTERVAL", "NELM_PROGRESS_INTERVAL"],
                "progressInterval",
                |text| text.parse().map_err(|expected: &str| Problem::error(expected)),
                &mut problems,
            ),
            connection: ConnectionSettings::resolve(&globals.connection, &layers, &mut problems),
            sandbox: globals.sandbox,
            file: file.map(Path::to_owned),
        };
        problems.into_result(settings)
    }
}

/// A variable of the environment that one command or another reads besides those of [`Settings`]. Nothing else of
/// the environment changes what a command does, but for a runbook's own variables, `NO_COLOR` and proxies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variable {
    HelmDriver,
    HelmDriverSqlConnectionString,
    PgHost,
    PgPort,
    PgDatabase,
    PgUser,
    PgPassword,
    PgSslMode,
    PgSslRootCert,
    PgSslCert,
    PgSslKey,
    StackRoot,
    StackProfile,
    StackCluster,
    StackTag,
    StackFromPath,
    StackRelease,
    StackGitRange,
    Yes,
    SecretKey,
    NelmSecretKey,
    WerfSecretKey,
    WerfOldSecretKey,
    SecretConfig,
    SecretProvider,
    HelmRepositoryConfig,
    HelmRepositoryCache,
    HelmRegistryConfig,
    HelmConfigHome,
    HelmCacheHome,
    HelmDataHome,
    XdgConfigHome,
    XdgCacheHome,
    XdgDataHome,
    DockerConfig,
    GnupgHome,
    UnitBuilder,
    GitToken,
    Visual,
    Editor,
}

impl Variable {
    /// Every variable, in the order they are shown.
    pub const ALL: [Self; 40] = [
        Self::HelmDriver,
        Self::HelmDriverSqlConnectionString,
        Self::PgHost,
        Self::PgPort,
        Self::PgDatabase,
        Self::PgUser,
        Self::PgPassword,
        Self::PgSslMode,
        Self::PgSslRootCert,
        Self::PgSslCert,
        Self::PgSslKey,
        Self::StackRoot,
        Self::StackProfile,
        Self::StackCluster,
        Self::StackTag,
        Self::StackFromPath,
        Self::StackRelease,
        Self::StackGitRange,
        Self::Yes,
        Self::SecretKey,
        Self::NelmSecretKey,
        Self::WerfSecretKey,
        Self::WerfOldSecretKey,
        Self::SecretConfig,
        Self::SecretProvider,
        Self::HelmRepositoryConfig,
        Self::HelmRepositoryCache,
        Self::HelmRegistryConfig,
        Self::HelmConfigHome,
        Self::HelmCacheHome,
        Self::HelmDataHome,
        Self::XdgConfigHome,
        Self::XdgCacheHome,
        Self::XdgDataHome,
        Self::DockerConfig,
        Self::GnupgHome,
        Self::UnitBuilder,
        Self::GitToken,
        Self::Visual,
        Self::Editor,
    ];

    /// Its name in the environment, and that of the setting.
    const fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::HelmDriver => ("HELM_DRIVER", "release.storage"),
            Self::HelmDriverSqlConnectionString => {
                ("HELM_DRIVER_SQL_CONNECTION_STRING", "release.database.connection")
            }
            Self::PgHost => ("PGHOST", "release.database.host"),
            Self::PgPort => ("PGPORT", "release.database.port"),
            Self::PgDatabase => ("PGDATABASE", "release.database.name"),
            Self::PgUser => ("PGUSER", "release.database.user"),
            Self::PgPassword => ("PGPASSWORD", "release.database.password"),
            Self::PgSslMode => ("PGSSLMODE", "release.database.sslMode"),
            Self::PgSslRootCert => ("PGSSLROOTCERT", "release.database.sslRootCertificate"),
            Self::PgSslCert => ("PGSSLCERT", "release.database.sslCertificate"),
            Self::PgSslKey => ("PGSSLKEY", "release.database.sslKey"),
            Self::StackRoot => ("SLIPWAY_STACK_ROOT", "stack.root"),
            Self::StackProfile => ("SLIPWAY_STACK_PROFILE", "stack.profile"),
            Self::StackCluster => ("SLIPWAY_STACK_CLUSTER", "stack.cluster"),
            Self::StackTag => ("SLIPWAY_STACK_TAG", "stack.tag"),
            Self::StackFromPath => ("SLIPWAY_STACK_FROM_PATH", "stack.fromPath"),
            Self::StackRelease => ("SLIPWAY_STACK_RELEASE", "stack.release"),
            Self::StackGitRange => ("SLIPWAY_STACK_GIT_RANGE", "stack.gitRange"),
            Self::Yes => ("SLIPWAY_YES", "stack.yes"),
            Self::SecretKey => ("SLIPWAY_SECRET_KEY", "secrets.key"),
            Self::NelmSecretKey => ("NELM_SECRET_KEY", "secrets.key"),
            Self::WerfSecretKey => ("WERF_SECRET_KEY", "secrets.key"),
            Self::WerfOldSecretKey => ("WERF_OLD_SECRET_KEY", "secrets.oldKey"),
            Self::SecretConfig => ("SLIPWAY_SECRET_CONFIG", "secrets.config"),
            Self::SecretProvider => ("SLIPWAY_SECRET_PROVIDER", "secrets.provider"),
            Self::HelmRepositoryConfig => ("HELM_REPOSITORY_CONFIG", "charts.repositories"),
            Self::HelmRepositoryCache => ("HELM_REPOSITORY_CACHE", "charts.cache"),
            Self::HelmRegistryConfig => ("HELM_REGISTRY_CONFIG", "charts.registries"),
            Self::HelmConfigHome => ("HELM_CONFIG_HOME", "charts.configHome"),
            Self::HelmCacheHome => ("HELM_CACHE_HOME", "charts.cacheHome"),
            Self::HelmDataHome => ("HELM_DATA_HOME", "charts.dataHome"),
            Self::XdgConfigHome => ("XDG_CONFIG_HOME", "configHome"),
            Self::XdgCacheHome => ("XDG_CACHE_HOME", "cacheHome"),
            Self::XdgDataHome => ("XDG_DATA_HOME", "dataHome"),
            Self::DockerConfig => ("DOCKER_CONFIG", "charts.dockerConfig"),
            Self::GnupgHome => ("GNUPGHOME", "charts.keyring"),
            Self::UnitBuilder => ("SLIPWAY_UNIT_BUILDER", "unit.builder"),
            Self::GitToken => ("SLIPWAY_GIT_TOKEN", "git.token"),
            Self::Visual => ("VISUAL", "editor"),
            Self::Editor => ("EDITOR", "editor"),
        }
    }

    /// The variable's name.
    pub const fn name(self) -> &'static str {
        self.names().0
    }

    /// The setting's name, as `slipway config` shows it.
    pub const fn setting(self) -> &'static str {
        self.names().1
    }

    /// Whether its value may be shown.
    pub const fn is_secret(self) -> bool {
        matches!(
            self,
            Self::HelmDriverSqlConnectionString
                | Self::PgPassword
                | Self::SecretKey
                | Self::NelmSecretKey
                | Self::WerfSecretKey
                | Self::WerfOldSecretKey
                | Self::GitToken
        )
    }

    /// Its value; one that is empty counts as not set.
    pub fn value(self) -> Option<OsString> {
        variable(self.name())
    }

    /// Its value as text.
    pub fn text(self) -> Option<String> {
        self.value().and_then(|value| value.into_string().ok())
    }

    /// Its value as a path.
    pub fn path(self) -> Option<PathBuf> {
        self.value().map(PathBuf::from)
    }
}

/// A variable that is set to something.
pub fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// The user's home directory.
pub fn user_home() -> Option<PathBuf> {
    variable("HOME").or_else(|| variable("USERPROFILE")).map(PathBuf::from)
}

/// The user's name, as runs record it: the environment's, or that of the process's owner. A fact, not a setting.
pub fn user_name() -> String {
    let named = ["USER", "LOGNAME", "USERNAME"].into_iter().find_map(variable);
    named.map_or_else(process_owner, |name| name.to_string_lossy().into_owned())
}

#[cfg(unix)]
fn process_owner() -> String {
    let id = rustix::process::getuid().as_raw();
    let accounts = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let name = accounts.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(id)).then(|| name.to_owned())
    });
    name.unwrap_or_else(|| format!("uid {id}"))
}

#[cfg(not(unix))]
fn process_owner() -> String {
    "unknown".to_owned()
}

/// The page of the job that runs us, where a build service says so.
pub fn ci_job_url() -> Option<String> {
    let text = |name: &str| variable(name).and_then(|value| value.into_string().ok());
    let github = || {
        let (server, repository) = (text("GITHUB_SERVER_URL")?, text("GITHUB_REPOSITORY")?);
        Some(format!("{server}/{repository}/actions/runs/{}", text("GITHUB_RUN_ID")?))
    };
    let others = ["CI_JOB_URL", "BUILDKITE_BUILD_URL", "CIRCLE_BUILD_URL"];
    github().or_else(|| others.into_iter().find_map(text))
}

/// Tells whether a build service runs us.
pub fn is_ci() -> bool {
    variable("CI").is_some_and(|value| value != "false") || ci_job_url().is_some()
}

/// The name of this machine, as runs and audits record it.
pub fn machine_name() -> String {
    let kernel = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let name = kernel.or_else(|| variable("HOSTNAME").map(|name| name.to_string_lossy().into_owned()));
    let name = name.unwrap_or_default();
    let name = name.trim();
    if name.is_empty() { "localhost".to_owned() } else { name.to_owned() }
}

/// Everything in the environment that is text, for a runbook's own variables.
pub fn environment() -> Vec<(String, String)> {
    let texts = std::env::vars_os().map(|(name, value)| (name.into_string(), value.into_string()));
    texts.filter_map(|(name, value)| Some((name.ok()?, value.ok()?))).collect()
}

/// The file to read, and whether it must be there because the user named it.
fn file_path(globals: &Globals) -> (Option<PathBuf>, bool) {
    let variable = variable("SLIPWAY_CONFIG").map(PathBuf::from);
    if let Some(named) = globals.config.clone().or(variable) {
        return (Some(named), true);
    }
    let strategy = etcetera::choose_base_strategy().ok();
    (strategy.map(|strategy| strategy.config_dir().join("slipway/config.yaml")), false)
}

/// What the configuration file says: key, text, place.
type FileSettings = Vec<(&'static str, String, Location)>;

const KEYS: [&str; 7] =
    ["kubeconfig", "context", "namespace", "output", "color", "logFormat", "progressInterval"];

/// Go's notation of durations, from zero on.
const DURATION: &str = "^\\+?(0|(([0-9]+(\\.[0-9]*)?|\\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$";

/// What editors should know of the file.
pub fn schema() -> serde_json::Value {
    let words = |key: &str| match key {
        "output" => names::<Output>(),
        "color" => names::<Color>(),
        "logFormat" => names::<LogFormat>(),
        _ => Vec::new(),
    };
    let property = |key: &'static str| {
        let words = words(key);
        let mut schema = serde_json::json!({ "type": "string" });
        if !words.is_empty() {
            schema["enum"] = words.into();
        }
        if key == "progressInterval" {
            schema["pattern"] = DURATION.into();
        }
        (key.to_owned(), schema)
    };
    let mut properties: serde_json::Map<_, _> = KEYS.into_iter().map(property).collect();
    properties.insert("secrets".to_owned(), slipway_secrets::config_schema());
    properties.extend(slipway_unit::environments_schema());
    serde_json::json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Slipway configuration file",
        "type": "object",
        "additionalProperties": false,
        "properties": properties,
    })
}

fn read(path: &Path) -> Result<FileSettings, Problems> {
    let text = files::read_text(path)?;
    let mut problems = Problems::new();
    let Some(root) = slipway_yaml::YamlReader::new().gather_one(&text.text, &text.name, &mut problems) else {
        return Err(problems);
    };
    let mut fields = FieldReader::new(&root, &mut problems);
    let mut settings = FileSettings::new();
    for key in KEYS {
        if let Some(value) = fields.string(key) {
            settings.push((key, value, fields.node_of(key).location()));
        }
    }
    // Read by whoever uses secrets, and by units.
    fields.ignore("secrets");
    fields.ignore("environments");
    fields.ignore("promotion");
    fields.finish();
    problems.into_result(settings)
}

/// Settings and the layers under the flags.
struct Layers {
    file: FileSettings,
}

impl Layers {
    fn pick<T: Default>(
        &self,
        flag: Option<T>,
        variables: &[&'static str],
        key: &str,
        parse: impl Fn(&str) -> Result<T, Problem>,
        problems: &mut Problems,
    ) -> Setting<T> {
        if let Some(value) = flag {
            return Setting { value, origin: Origin::Flag };
        }
        for &name in variables {
            let Some(text) = variable(name) else { continue };
            let parsed = parse(&text.to_string_lossy())
                .map_err(|problem| problem.at(Location::file(format!("${name}"))));
            if let Some(value) = problems.collect_from(parsed) {
                return Setting { value, origin: Origin::Variable(name) };
            }
        }
        for (_, text, at) in self.file.iter().filter(|(name, ..)| *name == key) {
            if let Some(value) = problems.collect_from(parse(text).map_err(|problem| problem.at(at.clone())))
            {
                return Setting { value, origin: Origin::File(at.clone()) };
            }
        }
        Setting { value: T::default(), origin: Origin::Default }
    }
}

/// One of a flag's own words.
fn word<T: ValueEnum>(text: &str) -> Result<T, Problem> {
    T::from_str(text, false).map_err(|_| {
        let names = names::<T>();
        Problem::error(format!("`{text}` is not one of {}", names.join(", ")))
            .did_you_mean(text, names.iter().map(String::as_str))
    })
}

fn names<T: ValueEnum>() -> Vec<String> {
    let words = T::value_variants().iter().filter_map(ValueEnum::to_possible_value);
    words.map(|word| word.get_name().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    /// Variables that flags of a command tree read.
    fn read_by_flags(command: &clap::Command, found: &mut Vec<String>) {
        let names = command.get_arguments().filter_map(clap::Arg::get_env);
        found.extend(names.map(|name| name.to_string_lossy().into_owned()));
        command.get_subcommands().for_each(|command| read_by_flags(command, found));
    }

    #[test]
    fn every_variable_a_flag_reads_is_known() {
        let mut found = Vec::new();
        let mut tree = crate::cli::Cli::command();
        tree.build();
        read_by_flags(&tree, &mut found);
        found.sort();
        found.dedup();
        assert!(found.iter().any(|name| name == "HELM_DRIVER"), "{found:?}");
        found.retain(|name| Variable::ALL.iter().all(|known| known.name() != name));
        assert_eq!(found, Vec::<String>::new(), "`slipway config` does not show them");
    }

    #[test]
    fn nothing_else_reads_the_environment() {
        let mut pending = vec![PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/src"))];
        while let Some(path) = pending.pop() {
            if path.is_dir() {
                pending.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            } else if !path.ends_with("config.rs") || path.ends_with("commands/config.rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                assert!(!text.contains("env::var") && !text.contains("env::home"), "{}", path.display());
            }
        }
    }
}
