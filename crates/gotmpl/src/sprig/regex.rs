//! Regular expressions in Go's syntax.

use std::rc::Rc;

use super::strings::string_list;
use crate::func::{FuncArgs, FuncContext, FuncError, FuncMap, FuncResult, GoType};
use crate::value::{GoList, GoValue, ListKind};
use slipway_go::regexp::Regexp;
use slipway_go::strconv;

const S: GoType = GoType::String;

type Op = fn(&mut FuncContext<'_>, FuncArgs<'_>, &Regexp) -> FuncResult;

pub(super) fn add(map: &mut FuncMap) {
    // The plain one takes a bad pattern for one that never matches.
    map.add("regexMatch", &[S, S], GoType::Bool, |_, args| {
        Ok(Regexp::compile(args.str(0)).is_ok_and(|regexp| regexp.is_match(args.str(1))).into())
    });
    map.add("mustRegexMatch", &[S, S], GoType::Bool, |_, args| {
        Ok(compile(args.str(0), true)?.is_match(args.str(1)).into())
    });
    let all: [(&str, &str, &'static [GoType], GoType, Op); 5] = [
        ("regexFind", "mustRegexFind", &[S, S], S, |_, args, regexp| {
            let text = args.str(1);
            Ok(regexp.find(text).map_or_else(|| "".into(), |found| text[found].to_vec().into()))
        }),
        ("regexFindAll", "mustRegexFindAll", &[S, S, GoType::Int], GoType::StrList, |ctx, args, regexp| {
            let text = args.str(1);
            let found = regexp.find_all(text, args.int(2));
            ctx.charge(found.len() * 40)?;
            Ok(string_list(found.into_iter().map(|range| text[range].to_vec()).collect()))
        }),
        ("regexReplaceAll", "mustRegexReplaceAll", &[S, S, S], S, |ctx, args, regexp| {
            let out = regexp.replace_all(args.str(1), args.str(2), ctx.limits().value_bytes);
            charged(ctx, out)
        }),
        ("regexReplaceAllLiteral", "mustRegexReplaceAllLiteral", &[S, S, S], S, |ctx, args, regexp| {
            let out = regexp.replace_all_literal(args.str(1), args.str(2), ctx.limits().value_bytes);
            charged(ctx, out)
        }),
        ("regexSplit", "mustRegexSplit", &[S, S, GoType::Int], GoType::StrList, |ctx, args, regexp| {
            if args.int(2) == 0 {
                return Ok(GoValue::List(GoList::nil(ListKind::String)));
            }
            let parts = regexp.split(args.str(1), args.int(2));
            ctx.charge(parts.len() * 40)?;
            Ok(GoValue::strings(parts))
        }),
    ];
    for (name, must, params, result, body) in all {
        map.add(name, params, result, move |ctx, args| body(ctx, args, &*compile(args.str(0), false)?));
        map.add(must, params, result, move |ctx, args| body(ctx, args, &*compile(args.str(0), true)?));
    }
}

fn charged(ctx: &mut FuncContext<'_>, out: Option<Vec<u8>>) -> FuncResult {
    let Some(out) = out else {
        let limit = ctx.limits().value_bytes;
        return Err(FuncError::limit(format!("the result would be longer than {limit} bytes")));
    };
    ctx.charge(out.len())?;
    Ok(out.into())
}

fn compile(pattern: &[u8], must: bool) -> Result<Rc<Regexp>, FuncError> {
    Regexp::compile(pattern).map_err(|error| {
        if must {
            return FuncError::new(error.to_string());
        }
        let shown = if strconv::can_backquote(pattern) {
            format!("`{}`", String::from_utf8_lossy(pattern))
        } else {
            super::quoted(pattern)
        };
        FuncError::new(format!("regexp: Compile({shown}): {error}"))
    })
}
