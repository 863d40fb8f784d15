//! Dictionaries. Maps are shared: what `set`, `unset` and `merge` change is seen through every name.

use std::collections::HashSet;

use super::cast::{is_empty, strval};
use crate::func::{FuncArgs, FuncContext, FuncError, FuncMap, FuncResult, GoType};
use crate::str::GoString;
use crate::value::{GoMap, GoValue, MAX_VALUE_DEPTH, MapKind, RED_ZONE, SEGMENT};

const A: GoType = GoType::Any;
const S: GoType = GoType::String;
const M: GoType = GoType::Map;

pub(super) fn add(map: &mut FuncMap) {
    map.add_variadic("dict", &[], A, M, |ctx, args| {
        let dict = GoMap::new();
        ctx.charge(args.len() * 64)?;
        for pair in args.rest(0).chunks(2) {
            let key = strval(ctx, &pair[0])?;
            dict.insert(key, pair.get(1).cloned().unwrap_or_else(|| "".into()));
        }
        Ok(dict.into())
    });
    map.add("get", &[M, S], A, |_, args| Ok(args.map(0).get(args.str(1)).unwrap_or_else(|| "".into())));
    map.add("set", &[M, S, A], M, |ctx, args| {
        let dict = args.map(0);
        if dict.is_nil() {
            return Err(FuncError::new("assignment to entry in nil map"));
        }
        ctx.charge(args.str(1).len() + 64)?;
        dict.insert(args.string(1), args.get(2).clone());
        Ok(as_plain(&dict))
    });
    map.add("unset", &[M, S], M, |_, args| {
        let dict = args.map(0);
        dict.remove(args.str(1));
        Ok(as_plain(&dict))
    });
    map.add("hasKey", &[M, S], GoType::Bool, |_, args| Ok(args.map(0).contains(args.str(1)).into()));
    map.add_variadic("pluck", &[S], M, GoType::List, |_, args| {
        let found = args.rest(1).iter().filter_map(|dict| dict.as_map()?.get(args.str(0)));
        Ok(GoValue::list(found.collect()))
    });
    map.add_variadic("keys", &[], M, GoType::StrList, |ctx, args| {
        let mut keys = Vec::new();
        for dict in args.rest(0).iter().filter_map(GoValue::as_map) {
            ctx.charge(dict.len() * size_of::<GoValue>())?;
            keys.extend(dict.keys());
        }
        Ok(GoValue::strings(keys))
    });
    map.add("values", &[M], GoType::List, |ctx, args| {
        let dict = args.map(0);
        ctx.charge(dict.len() * size_of::<GoValue>())?;
        Ok(GoValue::list(dict.entries().values().cloned().collect()))
    });
    map.add_variadic("pick", &[M], S, M, |_, args| {
        let dict = args.map(0);
        let keys = args.rest(1).iter().filter_map(GoValue::as_str);
        let picked = keys.filter_map(|key| dict.get(key).map(|value| (key.clone(), value)));
        Ok(picked.collect::<GoMap>().into())
    });
    map.add_variadic("omit", &[M], S, M, |ctx, args| {
        let dict = args.map(0);
        ctx.charge(dict.len() * 64)?;
        let mut entries = dict.entries().clone();
        for key in args.rest(1).iter().filter_map(GoValue::as_str) {
            entries.remove(key);
        }
        Ok(GoMap::of(MapKind::Any, entries).into())
    });
    map.add_variadic("dig", &[], A, A, |_, args| dig(args));
    for (name, overwrite) in
        [("merge", false), ("mustMerge", false), ("mergeOverwrite", true), ("mustMergeOverwrite", true)]
    {
        map.add_variadic(name, &[M], M, A, move |ctx, args| {
            let target = args.map(0);
            let sources = || args.rest(1).iter().filter_map(GoValue::as_map);
            let fresh = target.is_nil() && sources().any(|source| !source.is_nil());
            let target = if fresh { GoMap::new() } else { target };
            for source in sources() {
                merge(ctx, &target, source, overwrite, 0)?;
            }
            Ok(as_plain(&target))
        });
    }
    for name in ["deepCopy", "mustDeepCopy"] {
        map.add(name, &[A], A, |ctx, args| {
            if args.get(0).is_nil() {
                return Err(FuncError::new("reflect: call of reflect.Value.Type on zero Value"));
            }
            match measure(ctx, args.get(0))? {
                Measure::Bytes(size) => ctx.charge(size)?,
                Measure::Cycle => return Err(FuncError::limit("the value contains itself")),
            }
            Ok(super::semver::copied(args.get(0)).unwrap_or_else(|| args.get(0).deep_copy()))
        });
    }
    map.add("deepEqual", &[A, A], GoType::Bool, |ctx, args| {
        if let Measure::Cycle = measure(ctx, args.get(0))? {
            return Err(FuncError::limit("the value contains itself"));
        }
        Ok(args.get(0).deep_equal(args.get(1)).into())
    });
}

/// A parameter of type `map[string]interface {}` has lost the name of its type.
fn as_plain(map: &GoMap) -> GoValue {
    GoValue::Map(if map.kind() == MapKind::Values { map.with_kind(MapKind::Any) } else { map.clone() })
}

/// What walking a value finds.
pub(super) enum Measure {
    /// About how many bytes a copy takes.
    Bytes(usize),
    /// It contains itself.
    Cycle,
}

/// Walks a value, counting the steps: nested sharing can make it far larger than its parts.
pub(super) fn measure(ctx: &mut FuncContext<'_>, value: &GoValue) -> Result<Measure, FuncError> {
    let mut path = HashSet::new();
    walk(ctx, value, &mut path, 0)
}

fn walk(
    ctx: &mut FuncContext<'_>,
    value: &GoValue,
    path: &mut HashSet<usize>,
    depth: usize,
) -> Result<Measure, FuncError> {
    ctx.work(1)?;
    let (id, children): (usize, Vec<GoValue>) = match value {
        GoValue::List(list) => (list.id(), list.to_vec()),
        GoValue::Map(map) => (map.id(), map.entries().values().cloned().collect()),
        GoValue::Str(text) | GoValue::Bytes(text) => {
            return Ok(Measure::Bytes(size_of::<GoValue>() + text.len()));
        }
        _ => return Ok(Measure::Bytes(size_of::<GoValue>())),
    };
    if depth > MAX_VALUE_DEPTH || !path.insert(id) {
        return Ok(Measure::Cycle);
    }
    let mut total = 64_usize;
    for child in &children {
        match stacker::maybe_grow(RED_ZONE, SEGMENT, || walk(ctx, child, path, depth + 1))? {
            Measure::Bytes(bytes) => total = total.saturating_add(bytes),
            cycle => return Ok(cycle),
        }
    }
    path.remove(&id);
    Ok(Measure::Bytes(total))
}

fn conversion(value: &GoValue, wanted: &str) -> FuncError {
    let found = if value.is_nil() { "nil".into() } else { value.type_name() };
    FuncError::new(format!("interface conversion: interface {{}} is {found}, not {wanted}"))
}

fn plain_map(value: &GoValue) -> Result<GoMap, FuncError> {
    match value {
        GoValue::Map(map) if map.kind() == MapKind::Any => Ok(map.clone()),
        _ => Err(conversion(value, "map[string]interface {}")),
    }
}

fn dig(args: FuncArgs<'_>) -> FuncResult {
    let all = args.rest(0);
    let [keys @ .., default, dict] = all else {
        return Err(FuncError::new("dig needs at least three arguments"));
    };
    if keys.is_empty() {
        return Err(FuncError::new("dig needs at least three arguments"));
    }
    let mut dict = plain_map(dict)?;
    let keys: Vec<&GoString> = keys
        .iter()
        .map(|key| key.as_str().ok_or_else(|| conversion(key, "string")))
        .collect::<Result<_, _>>()?;
    for (at, key) in keys.iter().enumerate() {
        let Some(step) = dict.get(key) else { return Ok(default.clone()) };
        if at + 1 == keys.len() {
            return Ok(step);
        }
        dict = plain_map(&step)?;
    }
    Ok(default.clone())
}

/// Merges `source` into `target`: empty values of the target count as absent, nil ones of the source
/// are skipped, nested maps that only the source has become shared.
fn merge(
    ctx: &mut FuncContext<'_>,
    target: &GoMap,
    source: &GoMap,
    overwrite: bool,
    depth: usize,
) -> Result<(), FuncError> {
    if target.id() == source.id() {
        return Ok(());
    }
    if depth > MAX_VALUE_DEPTH {
        return Err(FuncError::limit("the value nests too deeply or contains itself"));
    }
    ctx.charge(source.len() * 64)?;
    for (key, value) in source.to_vec() {
        ctx.work(1)?;
        let nil = match &value {
            GoValue::Nil => true,
            GoValue::Map(map) => map.is_nil(),
            GoValue::List(list) => list.is_nil(),
            _ => false,
        };
        if nil && value.is_nil() {
            if overwrite {
                target.insert(key, value);
            }
            continue;
        }
        let existing = target.get(&key);
        if let (Some(GoValue::Map(inner)), GoValue::Map(from)) = (&existing, &value) {
            if !inner.is_nil() {
                stacker::maybe_grow(RED_ZONE, SEGMENT, || merge(ctx, inner, from, overwrite, depth + 1))?;
            }
            if !inner.is_empty() {
                continue;
            }
        }
        if overwrite || existing.as_ref().is_none_or(is_empty) {
            target.insert(key, value);
        }
    }
    Ok(())
}
