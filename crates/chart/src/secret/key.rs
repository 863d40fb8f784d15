//! The key of encrypted values and the cipher they are in.

use aes::cipher::block_padding::NoPadding;
use aes::cipher::{BlockModeDecrypt, BlockModeEncrypt, KeyIvInit};
use data_encoding::HEXLOWER;

use crate::error::ChartError;

/// A key as werf and Nelm keep it: 16, 24 or 32 bytes in hexadecimal.
#[derive(Clone)]
pub struct EncryptionKey(Vec<u8>);

impl std::fmt::Debug for EncryptionKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("EncryptionKey(…)")
    }
}

const IV: usize = 16;
/// The length of the initialisation vector, written before it.
const PREFIX: [u8; 2] = [IV as u8, 0];

fn fail<T>(text: impl Into<String>) -> Result<T, ChartError> {
    Err(ChartError::Secret(text.into()))
}

impl EncryptionKey {
    /// Reads the hexadecimal form; white space around it is fine.
    pub fn parse(text: &str) -> Result<Self, ChartError> {
        let bytes = from_hex(text.trim().as_bytes())
            .ok_or_else(|| ChartError::Secret("the secret key is not hexadecimal".into()))?;
        match bytes.len() {
            16 | 24 | 32 => Ok(Self(bytes)),
            other => fail(format!("the secret key has {other} bytes; it must have 16, 24 or 32")),
        }
    }

    /// Makes a new key of 16 random bytes and gives its written form.
    pub fn generate() -> String {
        let mut bytes = [0; 16];
        random(&mut bytes);
        to_hex(&bytes)
    }

    /// Encrypts with a random initialisation vector.
    pub fn encrypt(&self, plain: &[u8]) -> Result<String, ChartError> {
        let mut iv = [0; IV];
        random(&mut iv);
        self.encrypt_with(plain, iv)
    }

    /// Encrypts with a given initialisation vector: for tests and for keeping files stable.
    pub fn encrypt_with(&self, plain: &[u8], iv: [u8; IV]) -> Result<String, ChartError> {
        let padding = IV - plain.len() % IV;
        let mut buffer = plain.to_vec();
        buffer.resize(plain.len() + padding, padding as u8);
        let length = buffer.len();
        let done = match self.0.len() {
            16 => cbc::Encryptor::<aes::Aes128>::new_from_slices(&self.0, &iv)
                .map(|cipher| cipher.encrypt_padded::<NoPadding>(&mut buffer, length).is_ok()),
            24 => cbc::Encryptor::<aes::Aes192>::new_from_slices(&self.0, &iv)
                .map(|cipher| cipher.encrypt_padded::<NoPadding>(&mut buffer, length).is_ok()),
            _ => cbc::Encryptor::<aes::Aes256>::new_from_slices(&self.0, &iv)
                .map(|cipher| cipher.encrypt_padded::<NoPadding>(&mut buffer, length).is_ok()),
        };
        if !matches!(done, Ok(true)) {
            return fail("encryption failed");
        }
        let mut out = PREFIX.to_vec();
        out.extend_from_slice(&iv);
        out.append(&mut buffer);
        Ok(to_hex(&out))
    }

    /// Decrypts the hexadecimal form; nothing decrypts to nothing.
    pub fn decrypt(&self, text: &str) -> Result<Vec<u8>, ChartError> {
        if text.is_empty() {
            return Ok(Vec::new());
        }
        let Some(bytes) = from_hex(text.as_bytes()) else {
            return fail("the encrypted data is not hexadecimal");
        };
        let least = PREFIX.len() + IV + IV;
        if bytes.len() < least {
            return fail(format!(
                "the encrypted data has {} bytes; it must have at least {least}: was it encrypted?",
                bytes.len()
            ));
        }
        let iv = &bytes[PREFIX.len()..PREFIX.len() + IV];
        let mut buffer = bytes[PREFIX.len() + IV..].to_vec();
        if !buffer.len().is_multiple_of(IV) {
            return fail("the encrypted data is cut off");
        }
        let done = match self.0.len() {
            16 => cbc::Decryptor::<aes::Aes128>::new_from_slices(&self.0, iv)
                .map(|cipher| cipher.decrypt_padded::<NoPadding>(&mut buffer).is_ok()),
            24 => cbc::Decryptor::<aes::Aes192>::new_from_slices(&self.0, iv)
                .map(|cipher| cipher.decrypt_padded::<NoPadding>(&mut buffer).is_ok()),
            _ => cbc::Decryptor::<aes::Aes256>::new_from_slices(&self.0, iv)
                .map(|cipher| cipher.decrypt_padded::<NoPadding>(&mut buffer).is_ok()),
        };
        if !matches!(done, Ok(true)) {
            return fail("decryption failed");
        }
        // Every byte of the padding is checked: a wrong key shows as an error, not as garbage.
        let padding = buffer.last().copied().unwrap_or_default();
        let start = buffer.len().saturating_sub(usize::from(padding));
        let sound = (1..=IV as u8).contains(&padding) && buffer[start..].iter().all(|byte| *byte == padding);
        if !sound {
            return fail("the encrypted data does not fit the secret key");
        }
        buffer.truncate(start);
        Ok(buffer)
    }
}

fn random(bytes: &mut [u8]) {
    rand::Rng::fill_bytes(&mut rand::rng(), bytes);
}

pub(crate) fn to_hex(bytes: &[u8]) -> String {
    HEXLOWER.encode(bytes)
}

pub(crate) fn from_hex(text: &[u8]) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) {
        return None;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    text.chunks(2).map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "00112233445566778899aabbccddeeff";

    #[test]
    fn known_ciphertexts_come_out_and_go_back() {
        let key = EncryptionKey::parse(KEY).unwrap();
        let iv: [u8; 16] = std::array::from_fn(|index| index as u8);
        for (plain, encrypted) in [
            (
                "verysecurepassword123",
                "1000000102030405060708090a0b0c0d0e0f71dffee900dd428a056fdc95644278e2b14b49fd2361848b0bd6af23a5f62652",
            ),
            ("true", "1000000102030405060708090a0b0c0d0e0f02495de1c081a924a2b4b3677fed1927"),
        ] {
            assert_eq!(key.encrypt_with(plain.as_bytes(), iv).unwrap(), encrypted);
            assert_eq!(key.decrypt(encrypted).unwrap(), plain.as_bytes());
        }
    }

    #[test]
    fn every_key_length_works_and_a_wrong_key_is_noticed() {
        for length in [32, 48, 64] {
            let key = EncryptionKey::parse(&"ab".repeat(length / 2)).unwrap();
            let other = EncryptionKey::parse(&"cd".repeat(length / 2)).unwrap();
            let text = key.encrypt(b"sixteen bytes ok").unwrap();
            assert_eq!(key.decrypt(&text).unwrap(), b"sixteen bytes ok");
            assert!(other.decrypt(&text).is_err_and(|error| error.to_string().contains("does not fit")));
        }
        assert!(EncryptionKey::parse("abcd").is_err());
        assert!(EncryptionKey::parse("zz").is_err());
        assert_eq!(EncryptionKey::parse(KEY).unwrap().decrypt("").unwrap(), b"");
        assert!(EncryptionKey::parse(KEY).unwrap().decrypt("1000").is_err());
        assert_eq!(EncryptionKey::generate().len(), 32);
    }
}
