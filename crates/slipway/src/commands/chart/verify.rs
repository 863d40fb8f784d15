//! Signing packed charts and checking signatures.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use schemars::JsonSchema;
use serde::Serialize;
use slipway_chart::deps::SignatureCheck;
use slipway_chart::provenance::Keyring;
use slipway_chart::{Chart, ChartInput, LoadOptions, PackedChart};

use crate::files;

fn now() -> u64 {
    jiff::Timestamp::now().as_second().unsigned_abs()
}

fn keyring(path: &Path) -> anyhow::Result<Keyring> {
    let failed = || format!("failed to load keyring: {}", path.display());
    let bytes = slipway_problem::read_file(path).with_context(failed)?;
    Keyring::parse(&bytes).with_context(failed)
}

/// Checks dependencies with the keys of a file.
pub fn signature_check(keys: &Path) -> anyhow::Result<SignatureCheck> {
    Ok(SignatureCheck { keyring: keyring(keys)?, now: now() })
}

/// A packed chart whose signature is good.
#[derive(Serialize, JsonSchema)]
pub struct VerifiedChart {
    chart: PathBuf,
    /// The text Helm prints of it: signer, fingerprint and hash.
    pub text: String,
}

/// Checks a packed chart.
pub fn check(chart: &Path, keys: &Path) -> anyhow::Result<VerifiedChart> {
    if chart.is_dir() {
        bail!("unpacked charts cannot be verified");
    }
    let provenance_path = format!("{}.prov", chart.display());
    let provenance = slipway_problem::read_text_file(Path::new(&provenance_path))
        .with_context(|| format!("could not load provenance file {provenance_path}"))?;
    let archive = files::read(chart)?;
    let name = chart.file_name().unwrap_or_default().to_string_lossy();
    let text = keyring(keys)?.verify_chart(&name, &archive, &provenance, now())?.to_string();
    Ok(VerifiedChart { chart: chart.to_owned(), text })
}

/// The signature of a packed chart.
pub fn sign(
    package: &PackedChart,
    key: &str,
    keys: &Path,
    passphrase: Option<&Path>,
) -> anyhow::Result<String> {
    let passphrase = match passphrase {
        Some(path) => files::read_text(path)?.text.lines().next().unwrap_or_default().to_owned(),
        None => String::new(),
    };
    // What is signed is what the archive says of itself.
    let chart = Chart::load_with(
        ChartInput::Archive(&package.bytes),
        &LoadOptions::default(),
        &mut slipway_chart::Notices::new(),
    )?;
    let keyring = keyring(keys)?;
    Ok(keyring.sign_chart(
        key,
        passphrase.as_bytes(),
        &chart.metadata,
        &package.file_name,
        &package.bytes,
        now(),
    )?)
}
