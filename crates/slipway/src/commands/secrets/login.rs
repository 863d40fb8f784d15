//! `slipway secrets login` and `logout`. Nothing is stored: a login shows that it works.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Serialize;
use slipway_secrets::{LogoutOutcome, Purpose};

use super::flags::{ReferenceFlags, provider_name, with_resolver};
use crate::exit::Exit;
use crate::session::Session;
use crate::term::show;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The provider
    #[arg(value_name = "PROVIDER")]
    provider: String,

    /// Directory whose repository's configuration is used
    #[arg(long, value_name = "DIR", default_value = ".")]
    scope: PathBuf,

    #[command(flatten)]
    flags: ReferenceFlags,
}

/// A login at a provider.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ProviderLogin")]
pub struct Row {
    provider: String,
    identity: String,
    expires: Option<String>,
}

pub fn run(args: &Args, session: &Session) -> anyhow::Result<Exit> {
    let provider = provider_name(&args.provider)?;
    let resolver = args.flags.resolver(&args.scope, Purpose::Test, session)?;
    let info = with_resolver(session, &resolver, resolver.login(&provider))?;
    let row = Row {
        provider: provider.to_string(),
        identity: info.identity,
        expires: info.expires.map(|time| time.to_string()),
    };
    show::show(session.output(), &row, |row| {
        let expires = row.expires.as_ref().map(|time| format!(", until {time}")).unwrap_or_default();
        format!("logged in to {} as {}{expires}\n", row.provider, row.identity)
    })?;
    Ok(Exit::Done)
}

/// The end of a login at a provider.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ProviderLogout")]
pub struct LogoutRow {
    provider: String,
    /// False where the provider keeps no login.
    revoked: bool,
}

/// Gives the provider's token back.
pub fn log_out(args: &Args, session: &Session) -> anyhow::Result<Exit> {
    let provider = provider_name(&args.provider)?;
    let resolver = args.flags.resolver(&args.scope, Purpose::Test, session)?;
    let outcome = with_resolver(session, &resolver, resolver.logout(&provider))?;
    let said = match outcome {
        LogoutOutcome::Revoked => format!("the token of {provider} is revoked"),
        LogoutOutcome::NothingKept => format!("{provider} keeps no login: there is nothing to give back"),
    };
    say!("{said}");
    let row = LogoutRow { provider: provider.to_string(), revoked: outcome == LogoutOutcome::Revoked };
    show::show(session.output(), &row, |_| String::new())?;
    Ok(Exit::Done)
}
