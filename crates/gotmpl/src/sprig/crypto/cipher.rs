//! AES-256-CBC with the initialisation vector in front, in base64.

use aes::cipher::{
    Block, BlockModeDecrypt as _, BlockModeEncrypt as _, KeyIvInit as _, block_padding::Pkcs7,
};
use base64::Engine as _;

use super::super::{random, runtime_error};
use crate::func::{FuncContext, FuncError, FuncResult};
use slipway_go::binary;

const BLOCK: usize = 16;

/// The password's bytes, cut or filled with zeros.
fn cipher_key(password: &[u8]) -> [u8; 32] {
    let mut key = [0; 32];
    let len = password.len().min(key.len());
    key[..len].copy_from_slice(&password[..len]);
    key
}

pub(super) fn encrypt_aes(ctx: &mut FuncContext<'_>, password: &[u8], text: &[u8]) -> FuncResult {
    if text.is_empty() {
        return Ok("".into());
    }
    ctx.charge_bytes(text.len().saturating_mul(3))?;
    let iv: [u8; BLOCK] = random::random_array(ctx);
    let cipher = cbc::Encryptor::<aes::Aes256>::new(&cipher_key(password).into(), &iv.into());
    let encrypted = cipher.encrypt_padded_vec::<Pkcs7>(text);
    let all = [iv.as_slice(), &encrypted].concat();
    Ok(base64::engine::general_purpose::STANDARD.encode(all).into())
}

pub(super) fn decrypt_aes(password: &[u8], text: &[u8]) -> FuncResult {
    if text.is_empty() {
        return Ok("".into());
    }
    let bytes = binary::base64_decode(text).map_err(|error| FuncError::new(error.to_string()))?;
    let Some((iv, body)) = bytes.split_at_checked(BLOCK) else {
        // The buffer Go decodes into is as large as the text could need.
        let capacity = text.len() / 4 * 3;
        return Err(runtime_error(format!("slice bounds out of range [:16] with capacity {capacity}")));
    };
    if !body.len().is_multiple_of(BLOCK) {
        return Err(FuncError::new("crypto/cipher: input not full blocks"));
    }
    let iv = <[u8; BLOCK]>::try_from(iv).unwrap_or_default();
    let mut cipher = cbc::Decryptor::<aes::Aes256>::new(&cipher_key(password).into(), &iv.into());
    let mut plain = body.to_vec();
    for part in plain.chunks_exact_mut(BLOCK) {
        let mut block = Block::<aes::Aes256>::default();
        block.copy_from_slice(part);
        cipher.decrypt_block(&mut block);
        part.copy_from_slice(&block);
    }
    let Some(&padding) = plain.last() else { return Err(runtime_error("index out of range [-1]")) };
    let Some(end) = plain.len().checked_sub(usize::from(padding)) else {
        let end = i64::try_from(plain.len()).unwrap_or(0) - i64::from(padding);
        return Err(runtime_error(format!("slice bounds out of range [:{end}]")));
    };
    plain.truncate(end);
    Ok(plain.into())
}
