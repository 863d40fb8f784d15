//! Text functions.

use base64::Engine as _;
use sha1::Digest as _;

use super::cast::{string_value, string_values};
use super::runtime_error;
use crate::func::{FuncContext, FuncError, FuncMap, GoType};
use crate::str::GoString;
use crate::value::{GoList, GoMap, GoValue, ListKind, MapKind};
use slipway_go::strconv;
use slipway_go::{binary, strings as go};

const S: GoType = GoType::String;
const I: GoType = GoType::Int;

/// Text to text.
pub(super) type TextOp = fn(&[u8]) -> Vec<u8>;

pub(super) fn add_functions(map: &mut FuncMap) {
    let simple: [(&str, TextOp); 21] = [
        ("trim", |text| go::trim_space(text).to_vec()),
        ("upper", go::upper),
        ("lower", go::lower),
        ("title", go::title),
        ("untitle", go::untitle),
        ("swapcase", go::swap_case),
        ("nospace", go::nospace),
        ("initials", go::initials),
        ("snakecase", |text| go::joined_words(text, '_')),
        ("kebabcase", |text| go::joined_words(text, '-')),
        ("camelcase", go::camel_case),
        ("sha1sum", |text| to_hex(&sha1::Sha1::digest(text))),
        ("sha256sum", |text| to_hex(&sha2::Sha256::digest(text))),
        ("sha512sum", |text| to_hex(&sha2::Sha512::digest(text))),
        ("adler32sum", |text| binary::adler32(text).to_string().into_bytes()),
        ("b64enc", |text| base64::engine::general_purpose::STANDARD.encode(text).into_bytes()),
        ("b32enc", |text| data_encoding::BASE32.encode(text).into_bytes()),
        ("b64dec", |text| binary::base64_decode(text).unwrap_or_else(|error| error.to_string().into_bytes())),
        ("b32dec", |text| binary::base32_decode(text).unwrap_or_else(|error| error.to_string().into_bytes())),
        ("regexQuoteMeta", slipway_go::regexp::quote_meta),
        ("hello", |_| b"Hello!".to_vec()),
    ];
    for (name, body) in simple {
        let params: &[GoType] = if name == "hello" { &[] } else { &[S] };
        map.add_function(name, params, S, move |ctx, args| {
            // Case mapping and mojibake can grow text a few times over.
            ctx.charge_bytes(args.str(0).len())?;
            Ok(body(args.str(0)).into())
        });
    }
    map.add_function("trimAll", &[S, S], S, |_, args| {
        Ok(go::trim_set(args.str(1), args.str(0)).to_vec().into())
    });
    map.add_alias("trimall", "trimAll");
    map.add_function("trimSuffix", &[S, S], S, |_, args| {
        Ok(args
            .str(1)
            .strip_suffix(args.str(0))
            .map_or_else(|| args.string(1).into(), |text| text.to_vec().into()))
    });
    map.add_function("trimPrefix", &[S, S], S, |_, args| {
        Ok(args
            .str(1)
            .strip_prefix(args.str(0))
            .map_or_else(|| args.string(1).into(), |text| text.to_vec().into()))
    });
    map.add_function("contains", &[S, S], GoType::Bool, |_, args| {
        Ok(go::find(args.str(1), args.str(0)).is_some().into())
    });
    map.add_function("hasPrefix", &[S, S], GoType::Bool, |_, args| {
        Ok(args.str(1).starts_with(args.str(0)).into())
    });
    map.add_function("hasSuffix", &[S, S], GoType::Bool, |_, args| {
        Ok(args.str(1).ends_with(args.str(0)).into())
    });
    map.add_function("repeat", &[I, S], S, |ctx, args| {
        repeat_text(ctx, args.str(1), args.int(0)).map(GoValue::from)
    });
    map.add_function("substr", &[I, I, S], S, |_, args| {
        substring(args.int(0), args.int(1), args.str(2)).map(GoValue::from)
    });
    map.add_function("trunc", &[I, S], S, |_, args| {
        Ok(truncate_text(args.int(0), args.str(1)).to_vec().into())
    });
    map.add_function("abbrev", &[I, S], S, |_, args| Ok(go::abbreviate(args.int(0), args.str(1)).into()));
    map.add_function("abbrevboth", &[I, I, S], S, |_, args| {
        Ok(go::abbreviate_both(args.int(0), args.int(1), args.str(2)).into())
    });
    map.add_function("wrap", &[I, S], S, |_, args| {
        Ok(go::wrap(args.int(0), args.str(1), b"\n", false).into())
    });
    map.add_function("wrapWith", &[I, S, S], S, |ctx, args| {
        let breaks = args.str(2).len() / usize::try_from(args.int(0).max(1)).unwrap_or(usize::MAX) + 1;
        ctx.charge_bytes(breaks.saturating_mul(args.str(1).len()).saturating_add(args.str(2).len()))?;
        Ok(go::wrap(args.int(0), args.str(2), args.str(1), true).into())
    });
    map.add_function("replace", &[S, S, S], S, |ctx, args| {
        replace_text(ctx, args.str(2), args.str(0), args.str(1)).map(GoValue::from)
    });
    map.add_function("plural", &[S, S, I], S, |_, args| Ok(args.get(usize::from(args.int(2) != 1)).clone()));
    map.add_function("indent", &[I, S], S, |ctx, args| {
        indent_text(ctx, args.int(0), args.str(1), b"").map(GoValue::from)
    });
    map.add_function("nindent", &[I, S], S, |ctx, args| {
        indent_text(ctx, args.int(0), args.str(1), b"\n").map(GoValue::from)
    });
    map.add_variadic("quote", &[], GoType::Any, S, |ctx, args| {
        join_texts(ctx, args.rest(0), |ctx, value| string_value(ctx, value).map(|text| strconv::quote(&text)))
    });
    map.add_variadic("squote", &[], GoType::Any, S, |ctx, args| {
        join_texts(ctx, args.rest(0), |ctx, value| {
            Ok([b"'", ctx.sprint_value(value)?.as_slice(), b"'"].concat())
        })
    });
    map.add_variadic("cat", &[], GoType::Any, S, |ctx, args| {
        join_texts(ctx, args.rest(0), FuncContext::sprint_value)
    });
    map.add_function("toString", &[GoType::Any], S, |ctx, args| {
        string_value(ctx, args.get(0)).map(GoValue::Str)
    });
    map.add_function("toStrings", &[GoType::Any], GoType::StrList, |ctx, args| to_strings(ctx, args.get(0)));
    map.add_function("join", &[S, GoType::Any], S, |ctx, args| {
        let parts = string_values(ctx, args.get(1))?;
        let total: usize = parts.iter().map(|part| part.len() + args.str(0).len()).sum();
        ctx.charge_bytes(total)?;
        Ok(parts.join(args.str(0)).into())
    });
    map.add_function("sortAlpha", &[GoType::Any], GoType::StrList, |ctx, args| sort_alpha(ctx, args.get(0)));
    map.add_function("split", &[S, S], GoType::StrMap, |ctx, args| {
        split_numbered(ctx, args.str(1), args.str(0), -1)
    });
    map.add_function("splitn", &[S, I, S], GoType::StrMap, |ctx, args| {
        split_numbered(ctx, args.str(2), args.str(0), args.int(1))
    });
    map.add_function("splitList", &[S, S], GoType::StrList, |ctx, args| {
        ctx.charge_bytes(go::count(args.str(1), args.str(0)).saturating_mul(40))?;
        Ok(GoValue::strings(go::split_n(args.str(1), args.str(0), -1)))
    });
}

pub(super) fn to_hex(bytes: &[u8]) -> Vec<u8> {
    data_encoding::HEXLOWER.encode(bytes).into_bytes()
}

fn join_texts<'c>(
    ctx: &mut FuncContext<'c>,
    values: &[GoValue],
    text: impl Fn(&mut FuncContext<'c>, &GoValue) -> Result<Vec<u8>, FuncError>,
) -> Result<GoValue, FuncError> {
    let parts: Vec<Vec<u8>> = values
        .iter()
        .filter(|value| !value.is_nil())
        .map(|value| text(ctx, value))
        .collect::<Result<_, _>>()?;
    ctx.charge_bytes(parts.iter().map(|part| part.len() + 1).sum())?;
    Ok(parts.join(&b' ').into())
}

fn repeat_text(ctx: &mut FuncContext<'_>, text: &[u8], count: i64) -> Result<Vec<u8>, FuncError> {
    let Ok(count) = usize::try_from(count) else {
        return Err(FuncError::new("strings: negative Repeat count"));
    };
    ctx.charge_bytes(text.len().saturating_mul(count))?;
    Ok(text.repeat(count))
}

fn substring(start: i64, end: i64, text: &[u8]) -> Result<Vec<u8>, FuncError> {
    let len = i64::try_from(text.len()).unwrap_or(i64::MAX);
    let cut = |start: i64, end: i64| {
        let range = usize::try_from(start).ok().zip(usize::try_from(end).ok());
        range.and_then(|(start, end)| text.get(start..end)).map(<[u8]>::to_vec)
    };
    if start < 0 {
        return cut(0, end).ok_or_else(|| {
            let with = if end > len { format!(" with length {len}") } else { String::new() };
            runtime_error(format!("slice bounds out of range [:{end}]{with}"))
        });
    }
    let end = if end < 0 || end > len { len } else { end };
    cut(start, end).ok_or_else(|| runtime_error(format!("slice bounds out of range [{start}:{end}]")))
}

fn truncate_text(count: i64, text: &[u8]) -> &[u8] {
    let len = text.len();
    match usize::try_from(count) {
        Ok(count) => &text[..count.min(len)],
        Err(_) => match usize::try_from(count.unsigned_abs()) {
            Ok(count) if count < len => &text[len - count..],
            _ => text,
        },
    }
}

fn replace_text(
    ctx: &mut FuncContext<'_>,
    text: &[u8],
    old: &[u8],
    new: &[u8],
) -> Result<Vec<u8>, FuncError> {
    if new.len() > old.len() {
        let growth = go::count(text, old).saturating_mul(new.len() - old.len());
        ctx.charge_bytes(text.len().saturating_add(growth))?;
    }
    Ok(go::replace(text, old, new))
}

fn indent_text(
    ctx: &mut FuncContext<'_>,
    width: i64,
    text: &[u8],
    lead: &[u8],
) -> Result<Vec<u8>, FuncError> {
    let pad = repeat_text(ctx, b" ", width)?;
    let lines = text.iter().filter(|&&byte| byte == b'\n').count() + 1;
    let total = lines.saturating_mul(pad.len()).saturating_add(text.len() + lead.len());
    ctx.charge_bytes(total)?;
    let mut out = Vec::with_capacity(total);
    out.extend_from_slice(lead);
    out.extend_from_slice(&pad);
    for (index, line) in text.split(|&byte| byte == b'\n').enumerate() {
        if index > 0 {
            out.push(b'\n');
            out.extend_from_slice(&pad);
        }
        out.extend_from_slice(line);
    }
    Ok(out)
}

fn to_strings(ctx: &mut FuncContext<'_>, value: &GoValue) -> Result<GoValue, FuncError> {
    match value {
        GoValue::List(list) if list.kind() == ListKind::String => Ok(value.clone()),
        _ => Ok(GoValue::strings(string_values(ctx, value)?)),
    }
}

fn sort_alpha(ctx: &mut FuncContext<'_>, value: &GoValue) -> Result<GoValue, FuncError> {
    if value.elements().is_none() {
        return Ok(GoValue::strings([string_value(ctx, value)?]));
    }
    let sorted = to_strings(ctx, value)?;
    if let GoValue::List(list) = &sorted {
        // A list of strings is sorted where it is.
        list.items_mut().sort_by(|left, right| left.as_str().cmp(&right.as_str()));
    }
    Ok(sorted)
}

fn split_numbered(
    ctx: &mut FuncContext<'_>,
    text: &[u8],
    separator: &[u8],
    limit: i64,
) -> Result<GoValue, FuncError> {
    ctx.charge_bytes(go::count(text, separator).saturating_mul(80))?;
    let parts = go::split_n(text, separator, limit);
    let entries = parts
        .into_iter()
        .enumerate()
        .map(|(at, part)| (GoString::from(format!("_{at}")), GoValue::from(part)));
    Ok(GoValue::Map(GoMap::of(MapKind::Strings, entries.collect())))
}

/// `[]string{}`, or nil when Go's function gives nil for nothing.
pub(super) fn string_list(items: Vec<Vec<u8>>) -> GoValue {
    if items.is_empty() { GoValue::List(GoList::nil(ListKind::String)) } else { GoValue::strings(items) }
}
