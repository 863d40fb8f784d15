//! Encrypted values and secret files in the format of werf and Nelm.

mod files;
mod key;
mod values;

pub use files::{SecretFiles, decrypt_file, encrypt_file, rotate_file};
pub use key::EncryptionKey;
pub(crate) use key::{from_hex, to_hex};
pub use values::{decrypt, decrypt_to_map, encrypt, encrypt_edited, rotate};
