//! Text functions.

use base64::Engine as _;
use sha1::Digest as _;

use super::cast::{strings, strval};
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

pub(super) fn add(map: &mut FuncMap) {
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
        ("sha1sum", |text| hex(&sha1::Sha1::digest(text))),
        ("sha256sum", |text| hex(&sha2::Sha256::digest(text))),
        ("sha512sum", |text| hex(&sha2::Sha512::digest(text))),
        ("adler32sum", |text| binary::adler32(text).to_string().into_bytes()),
        ("b64enc", |text| base64::engine::general_purpose::STANDARD.encode(text).into_bytes()),
        ("b32enc", |text| data_encoding::BASE32.encode(text).into_bytes()),
        ("b64dec", |text| binary::base64_decode(text).unwrap_or_else(String::into_bytes)),
        ("b32dec", |text| binary::base32_decode(text).unwrap_or_else(String::into_bytes)),
        ("regexQuoteMeta", slipway_go::regexp::quote_meta),
        ("hello", |_| b"Hello!".to_vec()),
    ];
    for (name, body) in simple {
        let params: &[GoType] = if name == "hello" { &[] } else { &[S] };
        map.add(name, params, S, move |ctx, args| {
            // Case mapping and mojibake can grow text a few times over.
            ctx.charge(args.str(0).len())?;
            Ok(body(args.str(0)).into())
        });
    }
    map.add("trimAll", &[S, S], S, |_, args| Ok(go::trim_set(args.str(1), args.str(0)).to_vec().into()));
    map.alias("trimall", "trimAll");
    map.add("trimSuffix", &[S, S], S, |_, args| {
        Ok(args
            .str(1)
            .strip_suffix(args.str(0))
            .map_or_else(|| args.string(1).into(), |text| text.to_vec().into()))
    });
    map.add("trimPrefix", &[S, S], S, |_, args| {
        Ok(args
            .str(1)
            .strip_prefix(args.str(0))
            .map_or_else(|| args.string(1).into(), |text| text.to_vec().into()))
    });
    map.add("contains", &[S, S], GoType::Bool, |_, args| {
        Ok(go::find(args.str(1), args.str(0)).is_some().into())
    });
    map.add("hasPrefix", &[S, S], GoType::Bool, |_, args| Ok(args.str(1).starts_with(args.str(0)).into()));
    map.add("hasSuffix", &[S, S], GoType::Bool, |_, args| Ok(args.str(1).ends_with(args.str(0)).into()));
    map.add("repeat", &[I, S], S, |ctx, args| repeat(ctx, args.str(1), args.int(0)).map(GoValue::from));
    map.add("substr", &[I, I, S], S, |_, args| {
        substring(args.int(0), args.int(1), args.str(2)).map(GoValue::from)
    });
    map.add("trunc", &[I, S], S, |_, args| Ok(truncate(args.int(0), args.str(1)).to_vec().into()));
    map.add("abbrev", &[I, S], S, |_, args| Ok(go::abbreviate(args.int(0), args.str(1)).into()));
    map.add("abbrevboth", &[I, I, S], S, |_, args| {
        Ok(go::abbreviate_both(args.int(0), args.int(1), args.str(2)).into())
    });
    map.add("wrap", &[I, S], S, |_, args| Ok(go::wrap(args.int(0), args.str(1), b"\n", false).into()));
    map.add("wrapWith", &[I, S, S], S, |ctx, args| {
        let breaks = args.str(2).len() / usize::try_from(args.int(0).max(1)).unwrap_or(usize::MAX) + 1;
        ctx.charge(breaks.saturating_mul(args.str(1).len()).saturating_add(args.str(2).len()))?;
        Ok(go::wrap(args.int(0), args.str(2), args.str(1), true).into())
    });
    map.add("replace", &[S, S, S], S, |ctx, args| {
        replace(ctx, args.str(2), args.str(0), args.str(1)).map(GoValue::from)
    });
    map.add("plural", &[S, S, I], S, |_, args| Ok(args.get(usize::from(args.int(2) != 1)).clone()));
    map.add("indent", &[I, S], S, |ctx, args| indent(ctx, args.int(0), args.str(1), b"").map(GoValue::from));
    map.add("nindent", &[I, S], S, |ctx, args| {
        indent(ctx, args.int(0), args.str(1), b"\n").map(GoValue::from)
    });
    map.add_variadic("quote", &[], GoType::Any, S, |ctx, args| {
        joined(ctx, args.rest(0), |ctx, value| strval(ctx, value).map(|text| strconv::quote(&text)))
    });
    map.add_variadic("squote", &[], GoType::Any, S, |ctx, args| {
        joined(ctx, args.rest(0), |ctx, value| Ok([b"'", ctx.sprint_value(value)?.as_slice(), b"'"].concat()))
    });
    map.add_variadic("cat", &[], GoType::Any, S, |ctx, args| {
        joined(ctx, args.rest(0), FuncContext::sprint_value)
    });
    map.add("toString", &[GoType::Any], S, |ctx, args| strval(ctx, args.get(0)).map(GoValue::Str));
    map.add("toStrings", &[GoType::Any], GoType::StrList, |ctx, args| to_strings(ctx, args.get(0)));
    map.add("join", &[S, GoType::Any], S, |ctx, args| {
        let parts = strings(ctx, args.get(1))?;
        let total: usize = parts.iter().map(|part| part.len() + args.str(0).len()).sum();
        ctx.charge(total)?;
        Ok(parts.join(args.str(0)).into())
    });
    map.add("sortAlpha", &[GoType::Any], GoType::StrList, |ctx, args| sort_alpha(ctx, args.get(0)));
    map.add("split", &[S, S], GoType::StrMap, |ctx, args| numbered(ctx, args.str(1), args.str(0), -1));
    map.add("splitn", &[S, I, S], GoType::StrMap, |ctx, args| {
        numbered(ctx, args.str(2), args.str(0), args.int(1))
    });
    map.add("splitList", &[S, S], GoType::StrList, |ctx, args| {
        ctx.charge(go::count(args.str(1), args.str(0)).saturating_mul(40))?;
        Ok(GoValue::strings(go::split_n(args.str(1), args.str(0), -1)))
    });
}

pub(super) fn hex(bytes: &[u8]) -> Vec<u8> {
    data_encoding::HEXLOWER.encode(bytes).into_bytes()
}

fn joined<'c>(
    ctx: &mut FuncContext<'c>,
    values: &[GoValue],
    text: impl Fn(&mut FuncContext<'c>, &GoValue) -> Result<Vec<u8>, FuncError>,
) -> Result<GoValue, FuncError> {
    let parts: Vec<Vec<u8>> = values
        .iter()
        .filter(|value| !value.is_nil())
        .map(|value| text(ctx, value))
        .collect::<Result<_, _>>()?;
    ctx.charge(parts.iter().map(|part| part.len() + 1).sum())?;
    Ok(parts.join(&b' ').into())
}

fn repeat(ctx: &mut FuncContext<'_>, text: &[u8], count: i64) -> Result<Vec<u8>, FuncError> {
    let Ok(count) = usize::try_from(count) else {
        return Err(FuncError::new("strings: negative Repeat count"));
    };
    ctx.charge(text.len().saturating_mul(count))?;
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

fn truncate(count: i64, text: &[u8]) -> &[u8] {
    let len = text.len();
    match usize::try_from(count) {
        Ok(count) => &text[..count.min(len)],
        Err(_) => match usize::try_from(count.unsigned_abs()) {
            Ok(count) if count < len => &text[len - count..],
            _ => text,
        },
    }
}

fn replace(ctx: &mut FuncContext<'_>, text: &[u8], old: &[u8], new: &[u8]) -> Result<Vec<u8>, FuncError> {
    if new.len() > old.len() {
        let growth = go::count(text, old).saturating_mul(new.len() - old.len());
        ctx.charge(text.len().saturating_add(growth))?;
    }
    Ok(go::replace(text, old, new))
}

fn indent(ctx: &mut FuncContext<'_>, width: i64, text: &[u8], lead: &[u8]) -> Result<Vec<u8>, FuncError> {
    let pad = repeat(ctx, b" ", width)?;
    let lines = text.iter().filter(|&&byte| byte == b'\n').count() + 1;
    let total = lines.saturating_mul(pad.len()).saturating_add(text.len() + lead.len());
    ctx.charge(total)?;
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
        _ => Ok(GoValue::strings(strings(ctx, value)?)),
    }
}

fn sort_alpha(ctx: &mut FuncContext<'_>, value: &GoValue) -> Result<GoValue, FuncError> {
    if value.elements().is_none() {
        return Ok(GoValue::strings([strval(ctx, value)?]));
    }
    let sorted = to_strings(ctx, value)?;
    if let GoValue::List(list) = &sorted {
        // A list of strings is sorted where it is.
        list.items_mut().sort_by(|left, right| left.as_str().cmp(&right.as_str()));
    }
    Ok(sorted)
}

fn numbered(
    ctx: &mut FuncContext<'_>,
    text: &[u8],
    separator: &[u8],
    limit: i64,
) -> Result<GoValue, FuncError> {
    ctx.charge(go::count(text, separator).saturating_mul(80))?;
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
