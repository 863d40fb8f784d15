//! Password hashes and the Master Password algorithm.

use hmac::{KeyInit as _, Mac as _};

use super::super::random;
use crate::func::{FuncArgs, FuncContext, FuncError, FuncResult};

const COST: u32 = 10;

/// The bcrypt hash; what is wrong with the password is the result, not an error.
pub(super) fn bcrypt(ctx: &FuncContext<'_>, password: &[u8]) -> Vec<u8> {
    if password.len() > 72 {
        return b"failed to encrypt string with bcrypt: bcrypt: password length exceeds 72 bytes".to_vec();
    }
    match bcrypt::hash_with_salt(password, COST, random::array(ctx)) {
        Ok(hash) => hash.format_for_version(bcrypt::Version::TwoA).into_bytes(),
        Err(error) => format!("failed to encrypt string with bcrypt: {error}").into_bytes(),
    }
}

/// A line of an htpasswd file.
pub(super) fn htpasswd(ctx: &FuncContext<'_>, user: &[u8], password: &[u8]) -> Vec<u8> {
    if user.contains(&b':') {
        return [b"invalid username: ", user].concat();
    }
    [user, b":", &bcrypt(ctx, password)].concat()
}

const VOWELS: &[u8] = b"AEIOU";
const CONSONANTS: &[u8] = b"BCDFGHJKLMNPQRSTVWXYZ";
const SYMBOLS: &[u8] = b"@&%?,=[]_:-+*$#!'^~;()/.";
const SALT: &[u8] = b"com.lyndir.masterpassword";

/// The characters a letter of a template stands for.
fn class(letter: u8) -> Vec<u8> {
    let lower = |text: &[u8]| text.to_ascii_lowercase();
    let letters = || [VOWELS, &lower(VOWELS), CONSONANTS, &lower(CONSONANTS)].concat();
    match letter {
        b'V' => VOWELS.to_vec(),
        b'C' => CONSONANTS.to_vec(),
        b'v' => lower(VOWELS),
        b'c' => lower(CONSONANTS),
        b'A' => [VOWELS, CONSONANTS].concat(),
        b'a' => letters(),
        b'n' => b"0123456789".to_vec(),
        b'o' => SYMBOLS.to_vec(),
        _ => [letters().as_slice(), b"0123456789!@#$%^&*()"].concat(),
    }
}

fn templates(kind: &[u8]) -> Option<Vec<String>> {
    let fixed: &[&str] = match kind {
        b"maximum" => &["anoxxxxxxxxxxxxxxxxx", "axxxxxxxxxxxxxxxxxno"],
        b"medium" => &["CvcnoCvc", "CvcCvcno"],
        b"short" => &["Cvcn"],
        b"basic" => &["aaanaaan", "aannaaan", "aaannaaa"],
        b"pin" => &["nnnn"],
        b"long" => {
            let shapes = [
                ["Cvcv", "Cvcv", "Cvcv"],
                ["Cvcc", "Cvcv", "Cvcv"],
                ["Cvcv", "Cvcc", "Cvcv"],
                ["Cvcv", "Cvcv", "Cvcc"],
                ["Cvcc", "Cvcc", "Cvcv"],
                ["Cvcv", "Cvcc", "Cvcc"],
                ["Cvcc", "Cvcv", "Cvcc"],
            ];
            // A digit and a symbol stand after the first, second or third block.
            let all = shapes.iter().flat_map(|shape| {
                (1..=3).map(|at| format!("{}no{}", shape[..at].concat(), shape[at..].concat()))
            });
            return Some(all.collect());
        }
        _ => return None,
    };
    Some(fixed.iter().map(|&text| text.to_owned()).collect())
}

fn length(text: &[u8]) -> [u8; 4] {
    u32::try_from(text.len()).unwrap_or(u32::MAX).to_be_bytes()
}

/// The password of a site by the Master Password algorithm.
pub(super) fn derive(args: FuncArgs<'_>) -> FuncResult {
    let counter = u32::try_from(args.int(0)).unwrap_or(u32::MAX);
    let (kind, password, user, site) = (args.str(1), args.str(2), args.str(3), args.str(4));
    let Some(templates) = templates(kind) else {
        return Ok([b"cannot find password template ", kind].concat().into());
    };
    let fail = |error: &dyn std::fmt::Display| FuncError::new(format!("failed to derive password: {error}"));
    let salt = [SALT, &length(user), user].concat();
    let mut key = [0; 64];
    let params = scrypt::Params::new(15, 8, 2).map_err(|error| fail(&error))?;
    scrypt::scrypt(password, &salt, &params, &mut key).map_err(|error| fail(&error))?;
    let message = [SALT, &length(site), site, &counter.to_be_bytes()].concat();
    let mut mac = hmac::Hmac::<sha2::Sha256>::new_from_slice(&key).map_err(|error| fail(&error))?;
    mac.update(&message);
    let seed = mac.finalize().into_bytes();
    let template = &templates[usize::from(seed[0]) % templates.len()];
    let letters = template.bytes().zip(seed.iter().skip(1)).map(|(letter, &byte)| {
        let class = class(letter);
        class[usize::from(byte) % class.len()]
    });
    Ok(letters.collect::<Vec<u8>>().into())
}
