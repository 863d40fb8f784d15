//! Numbers.

use super::cast::{float_to_int, to_float, to_int};
use super::runtime_error;
use crate::func::{FuncArgs, FuncContext, FuncError, FuncMap, FuncResult, GoType};
use crate::value::{GoList, GoValue, ListKind};
use slipway_go::decimal::{Decimal, DecimalError};
use slipway_go::strconv;

const A: GoType = GoType::Any;

pub(super) fn add(map: &mut FuncMap) {
    map.add("int", &[A], GoType::Int, |_, args| Ok(GoValue::Int(to_int(args.get(0)))));
    map.add("int64", &[A], GoType::Int64, |_, args| Ok(GoValue::Int64(to_int(args.get(0)))));
    map.add("float64", &[A], GoType::Float64, |_, args| Ok(to_float(args.get(0)).into()));
    map.add("atoi", &[GoType::String], GoType::Int, |_, args| Ok(GoValue::Int(atoi(args.str(0)))));
    map.add("toDecimal", &[A], GoType::Int64, |ctx, args| {
        let text = ctx.sprint(args.rest(0))?;
        let text = std::str::from_utf8(&text).unwrap_or_default();
        Ok(GoValue::Int64(strconv::parse_int(text, 8).unwrap_or(0)))
    });
    map.add_variadic("add", &[], A, GoType::Int64, |_, args| Ok(integers(args, i64::wrapping_add)));
    map.add("add1", &[A], GoType::Int64, |_, args| Ok(GoValue::Int64(to_int(args.get(0)).wrapping_add(1))));
    map.add("sub", &[A, A], GoType::Int64, |_, args| Ok(integers(args, i64::wrapping_sub)));
    map.add("div", &[A, A], GoType::Int64, |_, args| divided(args, i64::wrapping_div));
    map.add("mod", &[A, A], GoType::Int64, |_, args| divided(args, i64::wrapping_rem));
    map.add_variadic("mul", &[A], A, GoType::Int64, |_, args| Ok(integers(args, i64::wrapping_mul)));
    map.add_variadic("max", &[A], A, GoType::Int64, |_, args| Ok(integers(args, i64::max)));
    map.alias("biggest", "max");
    map.add_variadic("min", &[A], A, GoType::Int64, |_, args| Ok(integers(args, i64::min)));
    map.add_variadic("maxf", &[A], A, GoType::Float64, |_, args| Ok(extreme(args, true)));
    map.add_variadic("minf", &[A], A, GoType::Float64, |_, args| Ok(extreme(args, false)));
    map.add_variadic("addf", &[], A, GoType::Float64, |_, args| {
        decimals(Some(0.0), args.rest(0), |left, right| Ok(left.add(right)))
    });
    map.add("add1f", &[A], GoType::Float64, |_, args| {
        decimals(Some(to_float(args.get(0))), &[GoValue::Float64(1.0)], |left, right| Ok(left.add(right)))
    });
    map.add_variadic("subf", &[A], A, GoType::Float64, |_, args| {
        decimals(None, args.rest(0), |left, right| Ok(left.sub(right)))
    });
    map.add_variadic("mulf", &[A], A, GoType::Float64, |_, args| {
        decimals(None, args.rest(0), |left, right| Ok(left.mul(right)))
    });
    map.add_variadic("divf", &[A], A, GoType::Float64, |_, args| decimals(None, args.rest(0), Decimal::div));
    map.add("floor", &[A], GoType::Float64, |_, args| Ok(to_float(args.get(0)).floor().into()));
    map.add("ceil", &[A], GoType::Float64, |_, args| Ok(to_float(args.get(0)).ceil().into()));
    map.add_variadic("round", &[A, GoType::Int], GoType::Float64, GoType::Float64, |_, args| {
        Ok(round(args).into())
    });
    map.add("until", &[GoType::Int], GoType::IntList, |ctx, args| {
        let count = args.int(0);
        steps(ctx, 0, count, if count < 0 { -1 } else { 1 }).map(int_list)
    });
    map.add("untilStep", &[GoType::Int, GoType::Int, GoType::Int], GoType::IntList, |ctx, args| {
        steps(ctx, args.int(0), args.int(1), args.int(2)).map(int_list)
    });
    map.add_variadic("seq", &[], GoType::Int, GoType::String, seq);
}

/// Strict decimal; beyond 64 bits it saturates as Go's does.
fn atoi(text: &[u8]) -> i64 {
    let digits = text.strip_prefix(b"-").or_else(|| text.strip_prefix(b"+")).unwrap_or(text);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return 0;
    }
    let text = std::str::from_utf8(text).unwrap_or_default();
    text.parse().unwrap_or(if text.starts_with('-') { i64::MIN } else { i64::MAX })
}

fn integers(args: FuncArgs<'_>, join: impl Fn(i64, i64) -> i64) -> GoValue {
    GoValue::Int64(args.rest(0).iter().map(to_int).reduce(join).unwrap_or(0))
}

fn divided(args: FuncArgs<'_>, divide: fn(i64, i64) -> i64) -> FuncResult {
    match to_int(args.get(1)) {
        0 => Err(runtime_error("integer divide by zero")),
        by => Ok(GoValue::Int64(divide(to_int(args.get(0)), by))),
    }
}

fn extreme(args: FuncArgs<'_>, largest: bool) -> GoValue {
    let mut values = args.rest(0).iter().map(to_float);
    let first = values.next().unwrap_or(0.0);
    // Unlike f64::max, Go's gives NaN if either is NaN.
    let found = values.fold(first, |found, next| {
        if found.is_nan() || next.is_nan() {
            // An infinity in the wanted direction still wins.
            let infinite = if largest { f64::INFINITY } else { f64::NEG_INFINITY };
            if found == infinite || next == infinite { infinite } else { f64::NAN }
        } else if found == 0.0 && next == 0.0 {
            if found.is_sign_negative() == largest { next } else { found }
        } else if (next > found) == largest && next != found {
            next
        } else {
            found
        }
    });
    found.into()
}

fn decimals(
    start: Option<f64>,
    values: &[GoValue],
    join: impl Fn(&Decimal, &Decimal) -> Result<Decimal, DecimalError>,
) -> FuncResult {
    let fail = |error: DecimalError| FuncError::new(error.to_string());
    let mut values = values.iter().map(to_float);
    let first = start.or_else(|| values.next()).unwrap_or(0.0);
    let mut result = Decimal::from_f64(first).map_err(fail)?;
    for next in values {
        result = join(&result, &Decimal::from_f64(next).map_err(fail)?).map_err(fail)?;
    }
    Ok(result.to_f64().into())
}

fn round(args: FuncArgs<'_>) -> f64 {
    let on = if args.len() > 2 { args.float(2) } else { 0.5 };
    let power = 10_f64.powf(args.int(1) as f64);
    let digit = power * to_float(args.get(0));
    let rounded = if digit - digit.trunc() >= on { digit.ceil() } else { digit.floor() };
    rounded / power
}

/// The numbers from `start` up or down to before `stop`.
fn steps(ctx: &mut FuncContext<'_>, start: i64, stop: i64, step: i64) -> Result<Vec<i64>, FuncError> {
    if (stop < start && step >= 0) || (stop >= start && step <= 0) {
        return Ok(Vec::new());
    }
    let distance = stop.abs_diff(start);
    let count = distance.div_ceil(step.unsigned_abs());
    ctx.work(count)?;
    ctx.charge(usize::try_from(count).unwrap_or(usize::MAX).saturating_mul(size_of::<GoValue>()))?;
    let mut out = Vec::with_capacity(usize::try_from(count).unwrap_or(0));
    let mut at = start;
    for _ in 0..count {
        out.push(at);
        at = at.wrapping_add(step);
    }
    Ok(out)
}

fn int_list(numbers: Vec<i64>) -> GoValue {
    GoValue::List(GoList::of(ListKind::Int, numbers.into_iter().map(GoValue::Int).collect()))
}

fn seq(ctx: &mut FuncContext<'_>, args: FuncArgs<'_>) -> FuncResult {
    let (start, stop, step) = match args.len() {
        1 | 2 => {
            let (start, end) = if args.len() == 1 { (1, args.int(0)) } else { (args.int(0), args.int(1)) };
            let step = if end < start { -1 } else { 1 };
            (start, end.wrapping_add(step), step)
        }
        3 => {
            let (start, step, end) = (args.int(0), args.int(1), args.int(2));
            if end < start && step > 0 {
                return Ok("".into());
            }
            (start, end.wrapping_add(if end < start { -1 } else { 1 }), step)
        }
        _ => return Ok("".into()),
    };
    let numbers = steps(ctx, start, stop, step)?;
    Ok(numbers.iter().map(i64::to_string).collect::<Vec<_>>().join(" ").into())
}

/// An integer as Go would convert a float result.
pub(super) fn truncated(number: f64) -> i64 {
    float_to_int(number)
}
