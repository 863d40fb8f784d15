//! `slipway config`

use std::path::PathBuf;

use schemars::JsonSchema;
use secrecy::SecretString;
use serde::Serialize;
use slipway_event::MASK;

use crate::config::{Origin, Setting, Variable};
use crate::connect;
use crate::exit::Exit;
use crate::session::Session;
use crate::term::show;
use crate::term::table::Table;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Connect to the cluster and say which one answers
    #[arg(long)]
    connect: bool,
}

/// One setting, its value in force and where that comes from.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "SettingRow")]
pub struct Row {
    setting: &'static str,
    value: String,
    from: String,
}

pub fn run(args: &Args, session: &Session) -> anyhow::Result<Exit> {
    let settings = &session.settings;
    fn row<T>(setting: &'static str, found: &Setting<T>, text: impl Fn(&T) -> String) -> Row {
        Row { setting, value: text(&found.value), from: found.origin.to_string() }
    }
    fn word<T: clap::ValueEnum>(value: &T) -> String {
        value.to_possible_value().map(|word| word.get_name().to_owned()).unwrap_or_default()
    }
    let path =
        |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string()).unwrap_or_default();
    let optional = |value: &Option<String>| value.clone().unwrap_or_default();
    let mut rows = vec![
        row("kubeconfig", &settings.kubeconfig, path),
        row("context", &settings.context, optional),
        row("namespace", &settings.namespace, optional),
        row("output", &settings.output, word),
        row("color", &settings.color, word),
        row("logFormat", &settings.log_format, word),
        row("progressInterval", &settings.progress_interval, |interval| format!("{:?}", interval.0)),
    ];
    let connection = &settings.connection;
    let hidden = |secret: &Option<SecretString>| secret.as_ref().map(|_| MASK.to_owned()).unwrap_or_default();
    rows.extend([
        row("connection.kubeconfig", &connection.kubeconfig_text, hidden),
        row("connection.server", &connection.server, optional),
        row("connection.token", &connection.token, hidden),
        row("connection.tokenFile", &connection.token_file, path),
        row("connection.certificateAuthority", &connection.certificate_authority, path),
        row("connection.certificateAuthorityData", &connection.certificate_authority_data, hidden),
        row("connection.certificate", &connection.certificate, path),
        row("connection.certificateData", &connection.certificate_data, hidden),
        row("connection.key", &connection.key, path),
        row("connection.keyData", &connection.key_data, hidden),
        row("connection.username", &connection.username, optional),
        row("connection.password", &connection.password, hidden),
        row("connection.contextCluster", &connection.context_cluster, optional),
        row("connection.contextUser", &connection.context_user, optional),
        row("connection.skipTLSVerify", &connection.skip_tls_verify, bool::to_string),
        row("connection.tlsServerName", &connection.tls_server_name, optional),
        row("connection.user", &connection.user, optional),
        row("connection.groups", &connection.groups, |groups| groups.join(",")),
        row("connection.uid", &connection.uid, optional),
        row("connection.proxy", &connection.proxy, optional),
    ]);
    for variable in Variable::ALL {
        if rows.iter().any(|row| row.setting == variable.setting()) {
            continue;
        }
        // The first of several variables that is set wins.
        let mut same = Variable::ALL.into_iter().filter(|other| other.setting() == variable.setting());
        let found = same.find_map(|other| Some((other, other.value()?)));
        let (value, from) = match found {
            Some((variable, _)) if variable.is_secret() => {
                (MASK.to_owned(), Origin::Variable(variable.name()))
            }
            Some((variable, value)) => {
                (value.to_string_lossy().into_owned(), Origin::Variable(variable.name()))
            }
            None => (String::new(), Origin::Default),
        };
        rows.push(Row { setting: variable.setting(), value, from: from.to_string() });
    }
    if args.connect {
        rows.extend(session.block_on(connected(session))?);
    }
    show::show(session.output(), &rows, |rows| {
        let mut table = Table::new(&["setting", "value", "from"]);
        for row in rows {
            table.row([row.setting.to_owned(), row.value.clone(), row.from.clone()]);
        }
        table.render()
    })?;
    if let Some(file) = &settings.file {
        tracing::info!("read {}", file.display());
    }
    Ok(Exit::Done)
}

/// What the cluster says of itself.
async fn connected(session: &Session) -> anyhow::Result<[Row; 3]> {
    let cluster = session.connect().await?;
    let version = connect::reached(cluster.cluster.clone(), &cluster).await?.server_version().await?;
    let from = if session.settings.sandbox { "sandbox" } else { "kubeconfig" };
    let row = |setting, value| Row { setting, value, from: from.to_owned() };
    Ok([
        row("cluster.server", cluster.server),
        row("cluster.version", version.git_version),
        row("cluster.namespace", cluster.namespace),
    ])
}
