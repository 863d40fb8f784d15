//! Lists. Every function accepts any slice type and copies before it changes anything.

use super::cast::{is_empty, to_int};
use super::runtime_error;
use crate::func::{FuncArgs, FuncContext, FuncError, FuncMap, FuncResult, GoType};
use crate::value::{GoList, GoValue, ListKind};

const A: GoType = GoType::Any;
const L: GoType = GoType::List;

type Op = fn(&mut FuncContext<'_>, FuncArgs<'_>) -> FuncResult;

pub(super) fn add(map: &mut FuncMap) {
    map.add_variadic("list", &[], A, L, |ctx, args| {
        ctx.charge(size_of_val(args.rest(0)))?;
        Ok(GoValue::list(args.rest(0).to_vec()))
    });
    map.alias("tuple", "list");
    let unary: [(&str, &str, GoType, Op); 7] = [
        ("first", "mustFirst", A, |_, args| {
            Ok(items(args, 0, "Cannot find first on type")?.get(0).unwrap_or(GoValue::Nil))
        }),
        ("last", "mustLast", A, |_, args| {
            let list = items(args, 0, "Cannot find last on type")?;
            Ok(list.len().checked_sub(1).and_then(|at| list.get(at)).unwrap_or(GoValue::Nil))
        }),
        ("rest", "mustRest", L, |ctx, args| part(ctx, &items(args, 0, "Cannot find rest on type")?, 1, 0)),
        ("initial", "mustInitial", L, |ctx, args| {
            part(ctx, &items(args, 0, "Cannot find initial on type")?, 0, 1)
        }),
        ("reverse", "mustReverse", L, |ctx, args| {
            let list = items(args, 0, "Cannot find reverse on type")?;
            charged(ctx, &list)?;
            let mut out = list.to_vec();
            out.reverse();
            Ok(GoValue::list(out))
        }),
        ("uniq", "mustUniq", L, |ctx, args| {
            let list = items(args, 0, "Cannot find uniq on type")?;
            charged(ctx, &list)?;
            uniq(ctx, &list.to_vec())
        }),
        ("compact", "mustCompact", L, |ctx, args| {
            let list = items(args, 0, "Cannot compact on type")?;
            charged(ctx, &list)?;
            Ok(GoValue::list(list.items().iter().filter(|value| !is_empty(value)).cloned().collect()))
        }),
    ];
    for (name, must, result, body) in unary {
        map.add(name, &[A], result, body);
        map.add(must, &[A], result, body);
    }
    for name in ["append", "push", "mustAppend", "mustPush"] {
        map.add(name, &[A, A], L, |ctx, args| {
            let list = items(args, 0, "Cannot push on type")?;
            charged(ctx, &list)?;
            let mut out = Vec::with_capacity(list.len() + 1);
            out.extend(list.items().iter().cloned());
            out.push(args.get(1).clone());
            Ok(GoValue::list(out))
        });
    }
    for name in ["prepend", "mustPrepend"] {
        map.add(name, &[A, A], L, |ctx, args| {
            let list = items(args, 0, "Cannot prepend on type")?;
            charged(ctx, &list)?;
            let mut out = Vec::with_capacity(list.len() + 1);
            out.push(args.get(1).clone());
            out.extend(list.items().iter().cloned());
            Ok(GoValue::list(out))
        });
    }
    for name in ["without", "mustWithout"] {
        map.add_variadic(name, &[A], A, L, |ctx, args| {
            let list = items(args, 0, "Cannot find without on type")?;
            charged(ctx, &list)?;
            let omitted = args.rest(1);
            ctx.work((list.len() as u64).saturating_mul(omitted.len() as u64))?;
            let kept = list.items().iter().filter(|value| !omitted.contains(value)).cloned().collect();
            Ok(GoValue::list(kept))
        });
    }
    for name in ["has", "mustHas"] {
        map.add(name, &[A, A], GoType::Bool, |ctx, args| {
            if args.get(1).is_nil() {
                return Ok(false.into());
            }
            let list = items(args, 1, "Cannot find has on type")?;
            ctx.work(list.len() as u64)?;
            Ok(list.items().contains(args.get(0)).into())
        });
    }
    for name in ["slice", "mustSlice"] {
        map.add_variadic(name, &[A], A, A, slice);
    }
    map.add_variadic("concat", &[], A, A, |ctx, args| {
        let mut out = Vec::new();
        for (at, value) in args.rest(0).iter().enumerate() {
            if value.is_nil() {
                return Err(FuncError::nil_dereference());
            }
            let Some(list) = value.elements() else {
                return Err(FuncError::new(format!("Cannot concat type {} as list", args.get(at).kind())));
            };
            charged(ctx, &list)?;
            out.extend(list.items().iter().cloned());
        }
        Ok(GoValue::List(if out.is_empty() { GoList::nil(ListKind::Any) } else { GoList::new(out) }))
    });
    for name in ["chunk", "mustChunk"] {
        map.add(name, &[GoType::Int, A], GoType::Named("[][]interface {}"), chunk);
    }
}

fn items(args: FuncArgs<'_>, at: usize, complaint: &str) -> Result<GoList, FuncError> {
    let value = args.get(at);
    if value.is_nil() {
        return Err(FuncError::nil_dereference());
    }
    value.elements().ok_or_else(|| FuncError::new(format!("{complaint} {}", value.kind())))
}

fn charged(ctx: &mut FuncContext<'_>, list: &GoList) -> Result<(), FuncError> {
    ctx.work(list.len() as u64)?;
    ctx.charge(list.len().saturating_mul(size_of::<GoValue>()))
}

fn part(ctx: &mut FuncContext<'_>, list: &GoList, front: usize, back: usize) -> FuncResult {
    if list.is_empty() {
        return Ok(GoValue::List(GoList::nil(ListKind::Any)));
    }
    charged(ctx, list)?;
    let items = list.items();
    Ok(GoValue::list(items[front..items.len() - back].to_vec()))
}

fn uniq(ctx: &mut FuncContext<'_>, items: &[GoValue]) -> FuncResult {
    let mut seen = std::collections::HashSet::new();
    let mut out: Vec<GoValue> = Vec::new();
    for item in items {
        let known = match item {
            // Strings are what lists are full of: no need to compare each with each.
            GoValue::Str(text) => !seen.insert(text.clone()),
            _ => {
                ctx.work(out.len() as u64)?;
                out.contains(item)
            }
        };
        if !known {
            out.push(item.clone());
        }
    }
    Ok(GoValue::list(out))
}

fn slice(ctx: &mut FuncContext<'_>, args: FuncArgs<'_>) -> FuncResult {
    let value = args.get(0);
    if value.is_nil() {
        return Err(FuncError::nil_dereference());
    }
    let Some(list) = value.elements() else {
        return Err(FuncError::new(format!("list should be type of slice or array but {}", value.kind())));
    };
    if list.is_empty() {
        return Ok(GoValue::Nil);
    }
    charged(ctx, &list)?;
    let indices = args.rest(1);
    let start = indices.first().map_or(0, to_int);
    let end = indices.get(1).map_or(i64::try_from(list.len()).unwrap_or(i64::MAX), to_int);
    let range = usize::try_from(start).ok().zip(usize::try_from(end).ok());
    let items = list.items();
    let cut = range.and_then(|(start, end)| items.get(start..end));
    let Some(cut) = cut else {
        return Err(FuncError::new("reflect.Value.Slice: slice index out of bounds"));
    };
    match value {
        GoValue::Bytes(_) => {
            let bytes: Vec<u8> = cut.iter().filter_map(GoValue::as_uint).map(|byte| byte as u8).collect();
            Ok(GoValue::Bytes(bytes.into()))
        }
        _ => Ok(GoValue::List(GoList::of(list.kind(), cut.to_vec()))),
    }
}

fn chunk(ctx: &mut FuncContext<'_>, args: FuncArgs<'_>) -> FuncResult {
    let value = args.get(1);
    if value.is_nil() {
        return Err(FuncError::nil_dereference());
    }
    let Some(list) = value.elements() else {
        return Err(FuncError::new(format!("Cannot chunk type {}", value.kind())));
    };
    charged(ctx, &list)?;
    let size = args.int(0);
    // As Go computes it: a size of zero gives an infinity, a negative one a negative count.
    let count = super::numbers::truncated(((list.len() as f64 - 1.0) / size as f64).floor() + 1.0);
    let chunks = match usize::try_from(size) {
        Ok(size) if count >= 0 && size > 0 => {
            list.items().chunks(size).map(|chunk| GoValue::list(chunk.to_vec())).collect()
        }
        _ if count == 0 => Vec::new(),
        _ => return Err(runtime_error("makeslice: len out of range")),
    };
    Ok(GoValue::List(GoList::of(ListKind::Lists, chunks)))
}
