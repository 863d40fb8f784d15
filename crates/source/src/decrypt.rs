//! Encrypted values and files in the format of werf and Nelm, made readable for one rendering.
//!
//! The chart's own `secret-values.yaml` stands under the user's files, files the user names as encrypted stand
//! above them, and `--set` stands over all. What was decrypted is registered with the redactor.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;
use slipway_chart::secret::{self, EncryptionKey, SecretFiles};
use slipway_chart::{Chart, ChartError, ChartFile, LogNotice, Notices, UserValues};
use slipway_event::Redactor;
use slipway_problem::{Location, Problem, read_file, read_hint};

use crate::error::LoadError;

/// The chart's own encrypted values.
const OWN_VALUES: &str = "secret-values.yaml";
/// The directory of a chart's encrypted files.
const OWN_FILES: &str = "secret/";

/// Finds the key of encrypted values; asked only when a source has some.
pub trait KeySource: Send + Sync {
    /// The key; none if there is none on this machine.
    fn find_key(&self) -> Result<Option<EncryptionKey>, ChartError>;
}

impl KeySource for EncryptionKey {
    fn find_key(&self) -> Result<Option<EncryptionKey>, ChartError> {
        Ok(Some(self.clone()))
    }
}

/// The treatment of encrypted values and files.
#[derive(Clone, Default)]
pub enum Decryption {
    /// There is no key: encrypted values of the chart are left out, those the user names are an error.
    #[default]
    NoKey,
    /// Encrypted values and files are used as they stand.
    LeaveEncrypted,
    /// Decrypts with the key that is found.
    Decrypt(Arc<dyn KeySource>),
}

impl fmt::Debug for Decryption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoKey => "NoKey",
            Self::LeaveEncrypted => "LeaveEncrypted",
            Self::Decrypt(_) => "Decrypt(…)",
        })
    }
}

/// Returns true if a chart brings encrypted values.
pub(crate) fn has_own_values(chart: &Chart) -> bool {
    own_values(chart).is_some()
}

/// Leaves out the encrypted values a chart brings; its files under `secret/` stay.
pub(crate) fn remove_own_values(chart: &mut Chart) {
    chart.files.retain(|file| file.name != OWN_VALUES);
}

fn own_values(chart: &Chart) -> Option<&ChartFile> {
    chart.files.iter().find(|file| file.name == OWN_VALUES)
}

/// The secrets of a chart, readable.
#[derive(Default)]
pub(crate) struct Decrypted {
    /// The user's values with decrypted ones among them; none if nothing was encrypted.
    pub(crate) values: Option<UserValues>,
    pub(crate) files: Option<SecretFiles>,
}

/// Decrypts what a chart brings and what the user names beside it.
pub(crate) fn decrypt_chart(
    chart: &Chart,
    user: &UserValues,
    named: &[PathBuf],
    decryption: &Decryption,
    redactor: &Redactor,
    notices: &mut Notices,
) -> Result<Decrypted, LoadError> {
    let own = own_values(chart);
    let has_files = chart.files.iter().any(|file| file.name.starts_with(OWN_FILES));
    if own.is_none() && !has_files && named.is_empty() {
        return Ok(Decrypted::default());
    }
    let key = match decryption {
        Decryption::LeaveEncrypted if named.is_empty() => return Ok(Decrypted::default()),
        Decryption::LeaveEncrypted => {
            let mut values = user.clone();
            for path in named {
                values.read_file(path)?;
            }
            return Ok(Decrypted { values: Some(values), files: None });
        }
        Decryption::NoKey => None,
        Decryption::Decrypt(keys) => keys.find_key()?,
    };
    let Some(key) = key else {
        if !named.is_empty() {
            let problem = Problem::error("there is no secret key to decrypt --secret-values with")
                .hint("set WERF_SECRET_KEY, or give --no-decrypt-secrets to use the values as they are");
            return Err(LoadError::NoKey(problem));
        }
        if own.is_some() {
            notices.push(LogNotice(format!("{OWN_VALUES} is left out: there is no secret key")));
        }
        return Ok(Decrypted::default());
    };
    let mut values = user.clone();
    if let Some(own) = own {
        values.files.insert(0, decrypt_values(&own.name, &own.data, &key, redactor)?);
    }
    for path in named {
        let name = path.display().to_string();
        let bytes = read_file(path).map_err(|error| {
            Problem::error(format!("cannot read the file: {error}"))
                .at(Location::file(name.as_str()))
                .hint(read_hint(&error))
        })?;
        values.files.push(decrypt_values(&name, &bytes, &key, redactor)?);
    }
    let files = if has_files { Some(SecretFiles::decrypt_files(chart, &key)?) } else { None };
    for content in files.iter().flat_map(SecretFiles::contents) {
        redactor.register(content);
    }
    Ok(Decrypted { values: Some(values), files })
}

/// One values file, decrypted, with its name.
fn decrypt_values(
    name: &str,
    bytes: &[u8],
    key: &EncryptionKey,
    redactor: &Redactor,
) -> Result<(String, Vec<u8>), LoadError> {
    let failed = |source: ChartError| LoadError::Decrypt { file: name.to_owned(), source };
    let text = std::str::from_utf8(bytes).map_err(|error| failed(ChartError::Secret(error.to_string())))?;
    let values = Value::Object(secret::decrypt_to_map(text, key).map_err(failed)?);
    register_leaves(&values, redactor);
    Ok((name.to_owned(), values.to_string().into_bytes()))
}

/// Registers every text and number in a tree of values as a secret.
fn register_leaves(value: &Value, redactor: &Redactor) {
    let mut pending = vec![value];
    while let Some(value) = pending.pop() {
        match value {
            Value::String(text) => {
                redactor.register(text);
            }
            Value::Number(number) => {
                redactor.register(number.to_string());
            }
            Value::Array(items) => pending.extend(items),
            Value::Object(fields) => pending.extend(fields.values()),
            _ => {}
        }
    }
}
