//! Checksums and text encodings of bytes, with Go's error positions.

use crate::GoError;

/// The Adler-32 checksum.
pub fn adler32(bytes: &[u8]) -> u32 {
    const MODULUS: u32 = 65_521;
    let (mut low, mut high) = (1_u32, 0_u32);
    // As many bytes as cannot overflow the sums.
    for part in bytes.chunks(5552) {
        for &byte in part {
            low += u32::from(byte);
            high += low;
        }
        low %= MODULUS;
        high %= MODULUS;
    }
    high << 16 | low
}

fn base64_digit(byte: u8) -> Option<u8> {
    Some(match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    })
}

/// Decodes padded base64, ignoring line breaks; an error is Go's text.
pub fn base64_decode(text: &[u8]) -> Result<Vec<u8>, GoError> {
    let illegal = |at: usize| GoError::new(format!("illegal base64 data at input byte {at}"));
    let is_break = |byte: &u8| matches!(byte, b'\r' | b'\n');
    let breaks_from = |at: usize| text[at..].iter().take_while(|byte| is_break(byte)).count();
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    let mut at = 0;
    loop {
        let mut group = [0_u8; 4];
        let mut have = 0;
        while have < 4 {
            let Some(&byte) = text.get(at) else {
                if have == 0 {
                    return Ok(out);
                }
                return Err(illegal(at - have));
            };
            at += 1;
            if let Some(digit) = base64_digit(byte) {
                group[have] = digit;
                have += 1;
                continue;
            }
            if is_break(&byte) {
                continue;
            }
            if byte != b'=' || have < 2 {
                return Err(illegal(at - 1));
            }
            if have == 2 {
                at += breaks_from(at);
                match text.get(at) {
                    None => return Err(illegal(text.len())),
                    Some(b'=') => at += 1,
                    Some(_) => return Err(illegal(at - 1)),
                }
            }
            at += breaks_from(at);
            if at < text.len() {
                return Err(illegal(at));
            }
            break;
        }
        let word = group.iter().fold(0_u32, |word, &digit| word << 6 | u32::from(digit));
        let bytes = word.to_be_bytes();
        out.extend_from_slice(&bytes[1..have.max(1)]);
        if have < 4 {
            return Ok(out);
        }
    }
}

fn base32_digit(byte: u8) -> Option<u8> {
    Some(match byte {
        b'A'..=b'Z' => byte - b'A',
        b'2'..=b'7' => byte - b'2' + 26,
        _ => return None,
    })
}

/// Decodes padded base32, ignoring line breaks; an error is Go's text.
pub fn base32_decode(text: &[u8]) -> Result<Vec<u8>, GoError> {
    let illegal = |at: usize| GoError::new(format!("illegal base32 data at input byte {at}"));
    let text: Vec<u8> = text.iter().copied().filter(|byte| !matches!(byte, b'\r' | b'\n')).collect();
    let mut out = Vec::with_capacity(text.len() / 8 * 5);
    let mut at = 0;
    let mut done = false;
    while at < text.len() && !done {
        let mut group = [0_u8; 8];
        let mut have = 0;
        while have < 8 {
            let Some(&byte) = text.get(at) else { return Err(illegal(at - have)) };
            at += 1;
            let left = text.len() - at;
            if byte == b'=' && have >= 2 && left < 8 {
                if left + have < 7 {
                    return Err(illegal(text.len()));
                }
                for next in 0..7 - have {
                    if text.get(at + next).is_some_and(|&byte| byte != b'=') {
                        return Err(illegal(at + next - 1));
                    }
                }
                if matches!(have, 1 | 3 | 6) {
                    return Err(illegal(at - 1));
                }
                done = true;
                break;
            }
            group[have] = base32_digit(byte).ok_or_else(|| illegal(at - 1))?;
            have += 1;
        }
        let word = group.iter().fold(0_u64, |word, &digit| word << 5 | u64::from(digit));
        let bytes = word.to_be_bytes();
        out.extend_from_slice(&bytes[3..3 + have * 5 / 8]);
    }
    Ok(out)
}
