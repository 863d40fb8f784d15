//! Hashes and checksums of wire protocols.

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

pub(crate) fn sha256_hex(bytes: &[u8]) -> String {
    data_encoding::HEXLOWER.encode(&Sha256::digest(bytes))
}

/// SHA-1, where a file's name or a protocol is made of it.
pub(crate) fn sha1_hex(bytes: &[u8]) -> String {
    data_encoding::HEXLOWER.encode(&sha1::Sha1::digest(bytes))
}

pub(crate) fn hmac_sha256(key: &[u8], message: &[u8]) -> [u8; 32] {
    // A key of any length is fine for HMAC, so this cannot fail.
    let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap_or_else(|_| Hmac::new(&[0; 64].into()));
    mac.update(message);
    mac.finalize().into_bytes().into()
}

/// CRC-32C (Castagnoli), as Google's services use it.
pub(crate) fn crc32c(bytes: &[u8]) -> u32 {
    const POLYNOMIAL: u32 = 0x82F6_3B78;
    let step = |crc: u32, _: u32| if crc & 1 == 1 { (crc >> 1) ^ POLYNOMIAL } else { crc >> 1 };
    !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), step))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_those_of_the_standards() {
        assert_eq!(crc32c(b"123456789"), 0xE306_9283);
        let mac = hmac_sha256(b"key", b"The quick brown fox jumps over the lazy dog");
        let expected = "f7bc83f430538424b13298e6aa6fb143ef4d59a14946175997479dbc2d1a3cd8";
        assert_eq!(data_encoding::HEXLOWER.encode(&mac), expected);
    }
}
