//! Flags several commands share, under Helm's names.

use std::path::{Path, PathBuf};

use slipway_chart::net::{AccessOptions, HelmHome, Login, RemoteCharts, run_blocking};
use slipway_chart::{Capabilities, ChartError, KubeVersion, RootContext, UserValues};
use slipway_event::without_credentials;
use slipway_gotmpl::TemplateHost;
use slipway_problem::Problem;
use slipway_source::DefaultValues;

use crate::charts::{self, ChartRequest};
use crate::config::Variable;
use crate::exit::UsageError;
use crate::files;
use crate::helm;
use crate::help::Usual;
use crate::logs::Verbosity;
use crate::session::Session;
use crate::term::output;

/// Where a chart comes from when its name is not a path: `REPO/NAME`, `oci://…`, an address, or a name
/// with `--repo`.
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Chart source")]
pub struct SourceFlags {
    /// Version or constraint of the chart; the newest release if not given
    #[arg(long, value_name = "VERSION", add = Usual)]
    pub version: Option<String>,

    /// Versions not yet released as well
    #[arg(long)]
    pub devel: bool,

    /// Check the chart's signature before using it
    #[arg(long)]
    pub verify: bool,

    /// Public keys signatures are checked with [default: ~/.gnupg/pubring.gpg]
    #[arg(long, value_name = "FILE")]
    pub keyring: Option<PathBuf>,

    #[command(flatten)]
    pub access: AccessFlags,
}

/// How to get in where a chart is kept.
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Chart source")]
pub struct AccessFlags {
    /// Address of the repository to look in
    #[arg(long, value_name = "URL", add = Usual)]
    pub repo: Option<String>,

    #[command(flatten)]
    pub login: LoginFlags,

    /// Send the login to other hosts than the repository's as well
    #[arg(long)]
    pub pass_credentials: bool,

    #[command(flatten)]
    pub tls: TlsFlags,

    #[command(flatten)]
    pub files: FileFlags,
}

/// A login for a repository or registry.
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Chart source")]
pub struct LoginFlags {
    /// User name for the repository or registry
    #[arg(long, value_name = "NAME")]
    username: Option<String>,

    /// Password for the repository or registry
    #[arg(long, value_name = "TEXT")]
    password: Option<String>,
}

impl LoginFlags {
    /// The login, if one was given; its password is shown nowhere.
    pub fn login(&self) -> Option<Login> {
        self.password.iter().for_each(output::hide);
        (self.username.is_some() || self.password.is_some()).then(|| Login {
            username: self.username.clone().unwrap_or_default(),
            password: self.password.clone().unwrap_or_default(),
        })
    }
}

/// The name of a release that is not given one.
#[derive(Debug, Default, clap::Args)]
pub struct NameFlags {
    /// Generate the release's name
    #[arg(short = 'g', long)]
    pub generate_name: bool,

    /// Template that gives the release's name
    #[arg(long, value_name = "TEMPLATE", conflicts_with = "generate_name")]
    pub name_template: Option<String>,
}

impl NameFlags {
    /// Makes a name for what comes from a source, unless no flag asks for one.
    pub fn make_name(
        &self,
        given: Option<&str>,
        source: &str,
        host: &dyn TemplateHost,
    ) -> anyhow::Result<Option<String>> {
        if let Some(template) = &self.name_template {
            return Ok(Some(slipway_chart::name_from_template(template, host)?));
        }
        if !self.generate_name {
            return Ok(None);
        }
        if given.is_some() {
            let problem = Problem::error("cannot set --generate-name and also specify a name")
                .hint("leave out the name, or the flag");
            return Err(UsageError(problem.into()).into());
        }
        let now = host.now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Ok(Some(slipway_chart::generate_name(source, now.as_secs())))
    }
}

/// Helm's own files, when they are elsewhere.
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Chart source")]
pub struct FileFlags {
    /// File with the names and addresses of repositories
    #[arg(long, value_name = "FILE")]
    pub repository_config: Option<PathBuf>,

    /// Directory with the indexes of repositories
    #[arg(long, value_name = "DIR")]
    pub repository_cache: Option<PathBuf>,

    /// File with the logins of registries
    #[arg(long, value_name = "FILE")]
    pub registry_config: Option<PathBuf>,
}

impl FileFlags {
    fn home(&self) -> HelmHome {
        let mut home = helm::home();
        let changes = [
            (&self.repository_config, &mut home.repositories),
            (&self.repository_cache, &mut home.cache),
            (&self.registry_config, &mut home.registry),
        ];
        for (given, place) in changes {
            if let Some(given) = given {
                place.clone_from(given);
            }
        }
        home
    }
}

/// How a connection is protected.
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Chart source")]
pub struct TlsFlags {
    /// Certificates of authorities to trust
    #[arg(long, value_name = "FILE")]
    pub ca_file: Option<PathBuf>,

    /// Client certificate for the repository or registry
    #[arg(long, value_name = "FILE")]
    pub cert_file: Option<PathBuf>,

    /// Key of the client certificate
    #[arg(long, value_name = "FILE")]
    pub key_file: Option<PathBuf>,

    /// Accept any certificate
    #[arg(long)]
    pub insecure_skip_tls_verify: bool,

    /// Talk to registries without TLS
    #[arg(long)]
    pub plain_http: bool,
}

impl TlsFlags {
    pub fn access(&self) -> AccessOptions {
        AccessOptions {
            ca_file: self.ca_file.clone(),
            cert_file: self.cert_file.clone(),
            key_file: self.key_file.clone(),
            insecure_skip_tls_verify: self.insecure_skip_tls_verify,
            plain_http: self.plain_http,
            ..AccessOptions::default()
        }
    }
}

impl AccessFlags {
    pub fn access(&self) -> AccessOptions {
        AccessOptions {
            repo: self.repo.clone().unwrap_or_default(),
            login: self.login.login(),
            pass_credentials: self.pass_credentials,
            ..self.tls.access()
        }
    }

    pub fn remote(&self) -> RemoteCharts {
        helm::remote_with(self.files.home(), self.access())
    }
}

/// How to get in where the dependencies of a chart are kept.
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Dependencies")]
pub struct DependencyFlags {
    #[command(flatten)]
    login: LoginFlags,

    #[command(flatten)]
    tls: TlsFlags,

    #[command(flatten)]
    files: FileFlags,
}

impl DependencyFlags {
    pub fn remote(&self) -> RemoteCharts {
        helm::remote_with(self.files.home(), AccessOptions { login: self.login.login(), ..self.tls.access() })
    }
}

impl SourceFlags {
    fn access(&self) -> AccessOptions {
        let version = match (&self.version, self.devel) {
            (Some(version), _) => version.trim().to_owned(),
            (None, true) => ">0.0.0-0".to_owned(),
            (None, false) => String::new(),
        };
        AccessOptions { version, ..self.access.access() }
    }

    pub fn remote(&self) -> RemoteCharts {
        helm::remote_with(self.access.files.home(), self.access())
    }

    /// The public keys to check with.
    pub fn keyring(&self) -> PathBuf {
        self.keyring.clone().unwrap_or_else(default_keyring)
    }

    /// What the user wants, by the name given and these flags.
    pub fn request(&self, reference: &str, dependency_update: bool) -> ChartRequest {
        ChartRequest {
            reference: reference.to_owned(),
            access: self.access(),
            home: Some(self.access.files.home()),
            keyring: self.verify.then(|| self.keyring()),
            dependency_update,
        }
    }

    /// The chart's place on this machine, fetched and checked if need be.
    pub fn locate(&self, name: &str, session: &Session) -> anyhow::Result<PathBuf> {
        let (path, found) = charts::locate(&self.request(name, false))?;
        notes(&found, session);
        Ok(path)
    }
}

pub fn default_keyring() -> PathBuf {
    let folder = Variable::GnupgHome.path().unwrap_or_else(|| helm::user_home().join(".gnupg"));
    folder.join("pubring.gpg")
}

/// Says on standard error what is worth knowing of a download.
pub fn notes(notes: &[String], session: &Session) {
    if session.verbosity > Verbosity::Quiet {
        for note in notes {
            say!("{note}");
        }
    }
}

/// Values given by the user.
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Values")]
pub struct ValueFlags {
    /// Values file or address, `-` for standard input; repeat or separate with commas
    #[arg(short = 'f', long, value_name = "FILE", value_delimiter = ',', add = Usual)]
    pub values: Vec<String>,

    /// Set a value: `a.b=1,list[0]=x`
    #[arg(long, value_name = "KEY=VALUE", add = Usual)]
    pub set: Vec<String>,

    /// Set a value that is always a string
    #[arg(long, value_name = "KEY=VALUE")]
    pub set_string: Vec<String>,

    /// Set a value to the content of a file
    #[arg(long, value_name = "KEY=FILE")]
    pub set_file: Vec<String>,

    /// Set a value given as JSON
    #[arg(long, value_name = "KEY=JSON")]
    pub set_json: Vec<String>,

    /// Set a value to the text as it stands
    #[arg(long, value_name = "KEY=TEXT")]
    pub set_literal: Vec<String>,
}

/// What templates find beside the values.
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Values")]
pub struct RootFlags {
    /// Set a key of `$.Runtime`, given as JSON; no release records it
    #[arg(long, value_name = "KEY=JSON", hide_short_help = true)]
    set_runtime_json: Vec<String>,

    /// Set a key of `$` itself, given as JSON; Helm's own keys win
    #[arg(long, value_name = "KEY=JSON", hide_short_help = true)]
    set_root_json: Vec<String>,
}

impl RootFlags {
    pub fn context(&self) -> Result<RootContext, ChartError> {
        let read =
            |texts: &[String]| UserValues { set_json: texts.to_vec(), ..UserValues::default() }.build_map();
        Ok(RootContext { runtime: read(&self.set_runtime_json)?, extra: read(&self.set_root_json)? })
    }
}

/// The values a chart itself brings.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
#[command(next_help_heading = "Values")]
pub struct DefaultsFlags {
    /// Leave out the values the chart itself brings
    #[arg(long)]
    pub no_default_values: bool,

    /// Leave out the encrypted values the chart itself brings
    #[arg(long)]
    pub no_default_secret_values: bool,
}

impl DefaultsFlags {
    pub fn values(self) -> DefaultValues {
        if self.no_default_values { DefaultValues::LeaveOut } else { DefaultValues::Keep }
    }

    pub fn secret_values(self) -> DefaultValues {
        if self.no_default_secret_values { DefaultValues::LeaveOut } else { DefaultValues::Keep }
    }
}

impl ValueFlags {
    /// Reads the files and keeps the rest, in Helm's order.
    pub fn collect(&self) -> Result<UserValues, ChartError> {
        self.collect_with(&AccessFlags::default())
    }

    /// Reads the files, those at an address with the given flags.
    pub fn collect_with(&self, access: &AccessFlags) -> Result<UserValues, ChartError> {
        let mut values = UserValues {
            set: self.set.clone(),
            set_string: self.set_string.clone(),
            set_file: self.set_file.clone(),
            set_json: self.set_json.clone(),
            set_literal: self.set_literal.clone(),
            ..UserValues::default()
        };
        for file in &self.values {
            if file == "-" {
                let content =
                    files::read_stdin().map_err(|problem| ChartError::Values(problem.to_string().into()))?;
                values.files.push((file.clone(), content));
            } else if slipway_chart::is_address(file) {
                let name = without_credentials(file).into_owned();
                values.files.push((name, run_blocking(access.remote().get(file))?));
            } else {
                values.read_file(Path::new(file))?;
            }
        }
        for address in values.addresses() {
            let content = run_blocking(access.remote().get(&address)).map_err(|error| {
                ChartError::Values(format!("failed parsing --set-file data: {error}").into())
            })?;
            values.downloads.push((address, content));
        }
        Ok(values)
    }
}

/// What the cluster is said to be capable of.
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Rendering")]
pub struct CapabilityFlags {
    /// Kubernetes version templates see
    #[arg(long, value_name = "VERSION")]
    pub kube_version: Option<String>,

    /// API versions templates see besides the usual ones
    #[arg(short = 'a', long, value_name = "VERSIONS", value_delimiter = ',')]
    pub api_versions: Vec<String>,
}

impl CapabilityFlags {
    pub fn capabilities(&self) -> Result<Capabilities, ChartError> {
        let mut capabilities = Capabilities::default();
        if let Some(version) = &self.kube_version {
            capabilities.kube_version = KubeVersion::parse(version)?;
        }
        Ok(capabilities.with_api_versions(self.api_versions.iter().cloned()))
    }
}
