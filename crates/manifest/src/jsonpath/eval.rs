//! Executes JSONPath templates.

use std::borrow::Cow;
use std::cell::Cell;
use std::cmp::Ordering;

use serde_json::Value;

use super::Missing;
use super::parse::{Item, Slice, Step};

type Values<'a> = Vec<Cow<'a, Value>>;

/// What a template may look at altogether: nested ranges over everything would never end.
const MOST_VALUES: usize = 5_000_000;

/// How to execute: what to do about missing fields, and how much may still be looked at.
struct Run {
    missing: Missing,
    left: Cell<usize>,
}

impl Run {
    fn is_lenient(&self) -> bool {
        self.missing == Missing::Lenient
    }

    fn spend(&self, values: usize) -> Result<(), String> {
        let left = self.left.get().checked_sub(values + 1).ok_or("the template finds too much")?;
        self.left.set(left);
        Ok(())
    }
}

pub(super) fn find<'a>(
    items: &[Item],
    object: &'a Value,
    missing: Missing,
) -> Result<Vec<Values<'a>>, String> {
    let mut found = Vec::new();
    let run = Run { missing, left: Cell::new(MOST_VALUES) };
    collect(items, Cow::Borrowed(object), &run, &mut found)?;
    Ok(found)
}

fn collect<'a>(
    items: &[Item],
    current: Cow<'a, Value>,
    run: &Run,
    found: &mut Vec<Values<'a>>,
) -> Result<(), String> {
    for item in items {
        run.spend(1)?;
        match item {
            Item::Text(text) => found.push(vec![Cow::Owned(Value::String(text.clone()))]),
            Item::Action(steps) => found.push(walk(steps, vec![current.clone()], run)?),
            Item::Range(steps, body) => {
                for value in walk(steps, vec![current.clone()], run)? {
                    collect(body, value, run, found)?;
                }
            }
            Item::StrayEnd => return Err("not in range, nothing to end".to_owned()),
        }
    }
    Ok(())
}

fn walk<'a>(steps: &[Step], mut values: Values<'a>, run: &Run) -> Result<Values<'a>, String> {
    for step in steps {
        values = match step {
            Step::Field(name) => field(values, name, run.missing)?,
            Step::Wildcard => values.iter().flat_map(children).collect(),
            Step::Recursive => descendants(values),
            Step::Slice(params) if run.is_lenient() => clipped(values, params),
            Step::Slice(params) => slice(values, params)?,
            Step::Union(branches) => {
                let mut united = Vec::new();
                for branch in branches {
                    united.extend(walk(branch, values.clone(), run)?);
                }
                united
            }
            Step::Filter { left, operator, right } => filter(values, left, operator, right, run)?,
            Step::Literal(literal) if literal.is_string() => vec![Cow::Owned(literal.clone())],
            Step::Literal(literal) => values.iter().map(|_| Cow::Owned(literal.clone())).collect(),
            Step::Identifier(name) => return Err(format!("unrecognized identifier {name}")),
        };
        run.spend(values.len())?;
    }
    Ok(values)
}

fn get<'a>(value: &Cow<'a, Value>, key: &str) -> Option<Cow<'a, Value>> {
    match value {
        Cow::Borrowed(value) => value.get(key).map(Cow::Borrowed),
        Cow::Owned(value) => value.get(key).cloned().map(Cow::Owned),
    }
}

fn children<'a>(value: &Cow<'a, Value>) -> Values<'a> {
    match value {
        Cow::Borrowed(Value::Array(items)) => items.iter().map(Cow::Borrowed).collect(),
        Cow::Borrowed(Value::Object(map)) => map.values().map(Cow::Borrowed).collect(),
        Cow::Owned(Value::Array(items)) => items.iter().cloned().map(Cow::Owned).collect(),
        Cow::Owned(Value::Object(map)) => map.values().cloned().map(Cow::Owned).collect(),
        _ => Vec::new(),
    }
}

fn field<'a>(values: Values<'a>, name: &str, missing: Missing) -> Result<Values<'a>, String> {
    if name.is_empty() {
        return Ok(values);
    }
    if values.is_empty() {
        return Ok(values);
    }
    let found: Values<'a> = values.iter().filter_map(|value| get(value, name)).collect();
    if found.is_empty() && missing == Missing::Fail {
        return Err(format!("{name} is not found"));
    }
    Ok(found)
}

/// Every map and list, itself first, then what is in it. Iterative: values may be deep.
fn descendants<'a>(values: Values<'a>) -> Values<'a> {
    let mut found = Vec::new();
    let mut pending: Values<'a> = values.into_iter().rev().collect();
    while let Some(value) = pending.pop() {
        let children = children(&value);
        if children.is_empty() {
            continue;
        }
        found.push(value);
        pending.extend(children.into_iter().rev());
    }
    found
}

fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

fn slice<'a>(values: Values<'a>, params: &Slice) -> Result<Values<'a>, String> {
    let mut found = Vec::new();
    for value in values {
        if value.is_null() {
            continue;
        }
        if !value.is_array() {
            return Err(format!("{} is not array or slice", go_type(&value)));
        }
        let items = children(&value);
        let length = items.len() as i64;
        let mut start = params.start.unwrap_or(0);
        if start < 0 {
            start += length;
        }
        let mut end = params.end.unwrap_or(length);
        if end < 0 || (end == 0 && params.derived) {
            end += length;
        }
        if start == end {
            return Ok(found);
        }
        if start >= length || start < 0 {
            return Err(format!("array index out of bounds: index {start}, length {length}"));
        }
        if end > length || end < 0 {
            return Err(format!("array index out of bounds: index {}, length {length}", end - 1));
        }
        if start > end {
            return Err(format!("starting index {start} is greater than ending index {end}"));
        }
        let step = params.step.unwrap_or(1);
        if step <= 0 {
            return Err("step must be > 0".to_owned());
        }
        let (start, end, step) = (start as usize, end as usize, step as usize);
        found.extend(items.into_iter().take(end).skip(start).step_by(step));
    }
    Ok(found)
}

/// What of a slice there is.
fn clipped<'a>(values: Values<'a>, params: &Slice) -> Values<'a> {
    let mut found = Vec::new();
    for value in values.iter().filter(|value| value.is_array()) {
        let items = children(value);
        let length = items.len() as i64;
        let from_end = |index: i64| if index < 0 { index + length } else { index };
        let start = from_end(params.start.unwrap_or(0));
        let end = match params.end {
            // One element counted from the end: `[-1]` is `[-1:0]` inside.
            Some(0) if params.derived => length,
            end => from_end(end.unwrap_or(length)),
        };
        // An index means one element or none.
        if params.derived && start < 0 {
            continue;
        }
        let (start, end) = (start.clamp(0, length) as usize, end.clamp(0, length) as usize);
        let step = usize::try_from(params.step.unwrap_or(1)).unwrap_or(1).max(1);
        found.extend(items.into_iter().take(end).skip(start).step_by(step));
    }
    found
}

fn filter<'a>(
    values: Values<'a>,
    left: &[Step],
    operator: &str,
    right: &[Step],
    run: &Run,
) -> Result<Values<'a>, String> {
    let mut found = Vec::new();
    for value in values {
        if !value.is_array() && run.is_lenient() {
            continue;
        }
        if !value.is_array() {
            return Err(format!(
                "{} is not array or slice and cannot be filtered",
                crate::patch::go_value(&value)
            ));
        }
        for item in children(&value) {
            let lefts = walk(left, vec![item.clone()], run);
            if operator == "exists" {
                if lefts.is_ok_and(|lefts| !lefts.is_empty()) {
                    found.push(item);
                }
                continue;
            }
            let rights = walk(right, vec![item.clone()], run);
            let passes = lefts.and_then(|lefts| match (lefts.as_slice(), rights?.as_slice()) {
                ([], _) | (_, []) => Ok(false),
                ([l], [r]) if run.is_lenient() => passes(&widened(l, r), operator, &widened(r, l)),
                ([l], [r]) => passes(l, operator, r),
                _ => Err("can only compare one element at a time".to_owned()),
            });
            match passes {
                Ok(true) => found.push(item),
                Ok(false) => {}
                Err(_) if run.is_lenient() => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(found)
}

/// A whole number beside a fraction, as a fraction.
fn widened<'v>(value: &'v Value, other: &Value) -> Cow<'v, Value> {
    match value.as_i64() {
        Some(whole) if other.is_f64() => Cow::Owned((whole as f64).into()),
        _ => Cow::Borrowed(value),
    }
}

fn passes(left: &Value, operator: &str, right: &Value) -> Result<bool, String> {
    let ordered = |test: fn(Ordering) -> bool| -> Result<bool, String> {
        match (left, right) {
            (Value::Bool(_), Value::Bool(_)) => Err("invalid type for comparison".to_owned()),
            _ => compare(left, right).map(test),
        }
    };
    match operator {
        "==" => Ok(compare(left, right)? == Ordering::Equal),
        "!=" => Ok(compare(left, right)? != Ordering::Equal),
        "<" => ordered(Ordering::is_lt),
        ">" => ordered(Ordering::is_gt),
        "<=" => ordered(Ordering::is_le),
        ">=" => ordered(Ordering::is_ge),
        other => Err(format!("unrecognized filter operator {other}")),
    }
}

fn compare(left: &Value, right: &Value) -> Result<Ordering, String> {
    match (left, right) {
        (Value::Bool(a), Value::Bool(b)) => Ok(a.cmp(b)),
        (Value::String(a), Value::String(b)) => Ok(a.cmp(b)),
        (Value::Number(a), Value::Number(b)) if a.is_f64() == b.is_f64() => match (a.as_i64(), b.as_i64()) {
            (Some(a), Some(b)) => Ok(a.cmp(&b)),
            _ => Ok(a.as_f64().unwrap_or(0.0).total_cmp(&b.as_f64().unwrap_or(0.0))),
        },
        (Value::Null | Value::Array(_) | Value::Object(_), _)
        | (_, Value::Null | Value::Array(_) | Value::Object(_)) => {
            Err("invalid type for comparison".to_owned())
        }
        _ => Err("incompatible types for comparison".to_owned()),
    }
}

/// Prints a value: strings as they are, everything else as Go's JSON with sorted keys.
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(_) | Value::Object(_) => {
            let mut value = value.clone();
            value.sort_all_objects();
            value.to_string().replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_over_everything_end() {
        let deep = (0..50).fold(Value::Null, |inner, _| serde_json::json!({"a": inner}));
        let items = super::super::parse::template(&"{range ..}".repeat(8)).expect("parses");
        let run = Run { missing: Missing::Ignore, left: Cell::new(10_000) };
        let result = collect(&items, Cow::Borrowed(&deep), &run, &mut Vec::new());
        assert_eq!(result, Err("the template finds too much".to_owned()));
    }
}
