//! `slipway unit sign` and `slipway unit generate-key`.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Serialize;
use slipway_unit::{OpenOptions, SigningKey, UnitFile, sign_unit};

use super::fail;
use super::flags::now;
use crate::exit::Exit;
use crate::files;
use crate::session::Session;
use crate::term::show;

/// Sign a unit
#[derive(Debug, clap::Args)]
pub struct SignArgs {
    /// The unit
    unit: PathBuf,

    /// File with the private key (ed25519, PKCS #8 in PEM), as `openssl genpkey -algorithm ed25519` writes it
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
}

/// A unit that was signed.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SignedUnit {
    digest: String,
    public_key: String,
}

/// A key that was made.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GeneratedKey {
    /// The file with the private key.
    file: PathBuf,
    public_key: String,
}

pub fn run(args: &SignArgs, session: &Session) -> anyhow::Result<Exit> {
    let text = files::read_text(&args.key)?;
    let key = SigningKey::from_pem(&text.text).map_err(fail)?;
    let unit = UnitFile::open(&args.unit, &OpenOptions::default()).map_err(fail)?;
    let public = sign_unit(&args.unit, unit.digest(), &key, now()).map_err(fail)?;
    say!("{} is signed by {public}", unit.digest());
    let signed = SignedUnit { digest: unit.digest().to_owned(), public_key: public.to_string() };
    show::show(session.output(), &signed, |_| String::new())?;
    Ok(Exit::Done)
}

/// Make a key to sign units with
#[derive(Debug, clap::Args)]
pub struct GenerateKeyArgs {
    /// File to write the private key to
    file: PathBuf,
}

pub fn generate(args: &GenerateKeyArgs, session: &Session) -> anyhow::Result<Exit> {
    if args.file.exists() {
        let problem = slipway_problem::Problem::error(format!("{} is there already", args.file.display()));
        return Err(problem.into());
    }
    let key = SigningKey::generate().map_err(fail)?;
    files::replace_private(&args.file, key.to_pem().map_err(fail)?.as_bytes())?;
    let public_key = key.public_key().map_err(fail)?.to_string();
    show::show(session.output(), &GeneratedKey { file: args.file.clone(), public_key }, |made| {
        format!("{}\n", made.public_key)
    })?;
    Ok(Exit::Done)
}
