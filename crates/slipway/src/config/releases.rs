//! The place of releases: the words of `HELM_DRIVER`, and the database of its driver `sql`.

use clap::ValueEnum as _;
use secrecy::SecretString;
use slipway_cluster::helm::{ReleasePlace, SqlDatabase, SqlSettings, StorageDriver};
use slipway_problem::{Location, Problem};

use super::{Variable, names, user_name};

/// The places releases can be kept in.
#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
pub enum StorageKind {
    #[default]
    #[value(alias = "secrets")]
    Secret,
    #[value(alias = "configmaps")]
    Configmap,
    Sql,
}

impl From<StorageKind> for StorageDriver {
    fn from(kind: StorageKind) -> Self {
        match kind {
            StorageKind::Secret => StorageDriver::Secret,
            StorageKind::Configmap => StorageDriver::ConfigMap,
            StorageKind::Sql => StorageDriver::Sql,
        }
    }
}

/// The variables of PostgreSQL's own programs, with the keyword each stands for.
const DATABASE_VARIABLES: [(Variable, &str); 9] = [
    (Variable::PgHost, "host"),
    (Variable::PgPort, "port"),
    (Variable::PgDatabase, "dbname"),
    (Variable::PgUser, "user"),
    (Variable::PgPassword, "password"),
    (Variable::PgSslMode, "sslmode"),
    (Variable::PgSslRootCert, "sslrootcert"),
    (Variable::PgSslCert, "sslcert"),
    (Variable::PgSslKey, "sslkey"),
];

/// The place the environment says. Nothing is connected to yet.
pub fn release_place() -> Result<ReleasePlace, Problem> {
    let driver = match Variable::HelmDriver.text() {
        None => StorageKind::default(),
        Some(word) => StorageKind::from_str(&word, false).map_err(|_| {
            let known = names::<StorageKind>();
            Problem::error(format!("`{word}` is not one of {}", known.join(", ")))
                .at(Location::file(format!("${}", Variable::HelmDriver.name())))
        })?,
    };
    Ok(ReleasePlace { driver: driver.into(), database: database_settings()?.map(SqlDatabase::new) })
}

/// The database the environment names, if it names one.
fn database_settings() -> Result<Option<SqlSettings>, Problem> {
    let text = Variable::HelmDriverSqlConnectionString.text();
    if text.is_none() && Variable::PgHost.value().is_none() {
        return Ok(None);
    }
    let defaults: Vec<(&str, SecretString)> = DATABASE_VARIABLES
        .into_iter()
        .filter_map(|(variable, keyword)| Some((keyword, variable.text()?.into())))
        .collect();
    let settings = SqlSettings::parse(&text.unwrap_or_default().into(), &user_name(), &defaults);
    settings.map(Some).map_err(|error| {
        let place = Location::file(format!("${}", Variable::HelmDriverSqlConnectionString.name()));
        Problem::error(error.to_string())
            .at(place)
            .hint("write host=HOST user=USER password=… dbname=NAME, or a URL")
    })
}

/// What nobody is to see of it: the connection string, and the password as it is spelled in it and as it is meant.
pub fn release_secrets() -> Vec<SecretString> {
    let given = [Variable::HelmDriverSqlConnectionString, Variable::PgPassword];
    let mut secrets: Vec<SecretString> =
        given.into_iter().filter_map(|variable| Some(variable.text()?.into())).collect();
    if let Ok(Some(settings)) = database_settings() {
        secrets.extend(settings.password().cloned());
    }
    secrets
}
