//! Secret files: the whole content encrypted, under `secret/` of a chart.

use std::collections::BTreeMap;

use super::key::EncryptionKey;
use crate::error::ChartError;
use crate::load::Chart;

/// Encrypts a file's content; ends with a line break.
pub fn encrypt_file(content: &[u8], key: &EncryptionKey) -> Result<String, ChartError> {
    Ok(format!("{}\n", key.encrypt(content)?))
}

/// Decrypts a file's content.
pub fn decrypt_file(text: &str, key: &EncryptionKey) -> Result<Vec<u8>, ChartError> {
    key.decrypt(text.trim_end())
}

/// Decrypts with one key and encrypts with another.
pub fn rotate_file(text: &str, old: &EncryptionKey, new: &EncryptionKey) -> Result<String, ChartError> {
    encrypt_file(&decrypt_file(text, old)?, new)
}

/// The decrypted files of a chart, by their path under `secret/`.
#[derive(Clone, Default)]
pub struct SecretFiles(BTreeMap<String, Vec<u8>>);

impl SecretFiles {
    /// Decrypts everything under `secret/`.
    pub fn of(chart: &Chart, key: &EncryptionKey) -> Result<Self, ChartError> {
        let mut files = BTreeMap::new();
        for file in &chart.files {
            if let Some(name) = file.name.strip_prefix("secret/") {
                let text = String::from_utf8_lossy(&file.data);
                let plain = decrypt_file(&text, key)
                    .map_err(|error| ChartError::Secret(format!("cannot decrypt {}: {error}", file.name)))?;
                files.insert(name.to_owned(), plain);
            }
        }
        Ok(Self(files))
    }

    /// Every file's content, so that it can be masked where it must not show.
    pub fn contents(&self) -> impl Iterator<Item = &[u8]> {
        self.0.values().map(Vec::as_slice)
    }

    /// One file's content; the error lists what there is.
    pub fn get(&self, path: &str) -> Result<&[u8], ChartError> {
        if path.starts_with('/') {
            return Err(ChartError::Secret(format!("the secret file path {path:?} must be relative")));
        }
        match self.0.get(path) {
            Some(content) => Ok(content),
            None => {
                let known: Vec<&str> = self.0.keys().map(String::as_str).collect();
                Err(ChartError::Secret(format!(
                    "secret file {path:?} not found; there are: {}",
                    if known.is_empty() { "none".to_owned() } else { known.join(", ") }
                )))
            }
        }
    }
}
