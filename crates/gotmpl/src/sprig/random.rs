//! Random text and numbers, drawn from the host so that a seed makes them repeatable.

use base64::Engine as _;

use crate::func::{FuncContext, FuncError, FuncMap, FuncResult, GoType};
use crate::value::GoValue;
use slipway_go::unicode::{push_rune, runes};

const S: GoType = GoType::String;

/// Whether a byte belongs to an alphabet.
type Wanted = fn(u8) -> bool;

pub(super) fn add(map: &mut FuncMap) {
    let all: [(&str, Wanted); 4] = [
        ("randAlphaNum", |byte| byte.is_ascii_alphanumeric()),
        ("randAlpha", |byte| byte.is_ascii_alphabetic()),
        ("randNumeric", |byte| byte.is_ascii_digit()),
        ("randAscii", |byte| (b' '..=b'~').contains(&byte)),
    ];
    for (name, wanted) in all {
        let alphabet: Vec<u8> = (0..128).filter(|&byte| wanted(byte)).collect();
        map.add(name, &[GoType::Int], S, move |ctx, args| text(ctx, args.int(0), &alphabet));
    }
    map.add("randBytes", &[GoType::Int], S, |ctx, args| {
        let Ok(count) = usize::try_from(args.int(0)) else {
            return Err(super::runtime_error("makeslice: len out of range"));
        };
        ctx.charge(count.saturating_mul(2))?;
        let bytes = bytes(ctx, count);
        Ok(base64::engine::general_purpose::STANDARD.encode(bytes).into())
    });
    map.add("randInt", &[GoType::Int, GoType::Int], GoType::Int, |ctx, args| {
        let (min, max) = (args.int(0), args.int(1));
        match u64::try_from(max.wrapping_sub(min)) {
            Ok(span) if span > 0 => Ok(GoValue::Int(min.wrapping_add_unsigned(below(ctx, span)))),
            _ => Err(FuncError::new("invalid argument to Intn")),
        }
    });
    map.add("uuidv4", &[], S, |ctx, _| {
        let mut id: [u8; 16] = array(ctx);
        id[6] = id[6] & 0x0f | 0x40;
        id[8] = id[8] & 0x3f | 0x80;
        let hex = data_encoding::HEXLOWER.encode(&id);
        let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
        Ok(parts.join("-").into())
    });
    map.add("shuffle", &[S], S, |ctx, args| {
        let mut all: Vec<char> = runes(args.str(0)).map(|(_, rune)| rune).collect();
        ctx.charge(all.len() * 8)?;
        for at in (1..all.len()).rev() {
            let other = below(ctx, at as u64 + 1);
            all.swap(at, usize::try_from(other).unwrap_or(at));
        }
        let mut out = Vec::with_capacity(args.str(0).len());
        all.into_iter().for_each(|rune| push_rune(&mut out, rune));
        Ok(out.into())
    });
}

/// Random bytes in number.
pub(super) fn bytes(ctx: &FuncContext<'_>, count: usize) -> Vec<u8> {
    let mut out = vec![0; count];
    ctx.host().fill_random(&mut out);
    out
}

/// Random bytes in an array.
pub(super) fn array<const N: usize>(ctx: &FuncContext<'_>) -> [u8; N] {
    let mut out = [0; N];
    ctx.host().fill_random(&mut out);
    out
}

/// A number below `limit`, every one as likely as the other.
fn below(ctx: &FuncContext<'_>, limit: u64) -> u64 {
    let usable = u64::MAX - u64::MAX % limit;
    loop {
        let number = u64::from_le_bytes(array(ctx));
        if number < usable {
            return number % limit;
        }
    }
}

fn text(ctx: &mut FuncContext<'_>, count: i64, alphabet: &[u8]) -> FuncResult {
    let count = usize::try_from(count).unwrap_or(0);
    ctx.charge(count.saturating_mul(2))?;
    ctx.work(count as u64)?;
    let usable = 256 - 256 % alphabet.len();
    let mut out = Vec::with_capacity(count);
    while out.len() < count {
        let pool = bytes(ctx, (count - out.len()).min(4096) + 16);
        let drawn = pool.into_iter().map(usize::from).filter(|&byte| byte < usable);
        out.extend(drawn.map(|byte| alphabet[byte % alphabet.len()]).take(count - out.len()));
    }
    Ok(out.into())
}
