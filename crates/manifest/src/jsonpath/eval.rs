//! Executes JSONPath templates.

use std::borrow::Cow;
use std::cell::Cell;
use std::cmp::Ordering;

use serde_json::Value;

use super::MissingFields;
use super::parse::{PathStep, SliceRange, TemplateItem};
use slipway_go::GoError;

type Values<'a> = Vec<Cow<'a, Value>>;

/// The most values a template may visit: nested ranges over everything would never end.
const MOST_VALUES: usize = 5_000_000;

/// The treatment of missing fields, and the number of values that may still be visited.
struct ExecutionState {
    missing: MissingFields,
    left: Cell<usize>,
}

impl ExecutionState {
    fn is_lenient(&self) -> bool {
        self.missing == MissingFields::Lenient
    }

    fn spend_values(&self, values: usize) -> Result<(), GoError> {
        let left = self.left.get().checked_sub(values + 1).ok_or("the template finds too much")?;
        self.left.set(left);
        Ok(())
    }
}

pub(super) fn execute_template<'a>(
    items: &[TemplateItem],
    object: &'a Value,
    missing: MissingFields,
) -> Result<Vec<Values<'a>>, GoError> {
    let mut found = Vec::new();
    let run = ExecutionState { missing, left: Cell::new(MOST_VALUES) };
    execute_items(items, Cow::Borrowed(object), &run, &mut found)?;
    Ok(found)
}

fn execute_items<'a>(
    items: &[TemplateItem],
    current: Cow<'a, Value>,
    run: &ExecutionState,
    found: &mut Vec<Values<'a>>,
) -> Result<(), GoError> {
    for item in items {
        run.spend_values(1)?;
        match item {
            TemplateItem::Text(text) => found.push(vec![Cow::Owned(Value::String(text.clone()))]),
            TemplateItem::Action(steps) => found.push(take_steps(steps, vec![current.clone()], run)?),
            TemplateItem::Range(steps, body) => {
                for value in take_steps(steps, vec![current.clone()], run)? {
                    execute_items(body, value, run, found)?;
                }
            }
            TemplateItem::StrayEnd => return Err("not in range, nothing to end".into()),
        }
    }
    Ok(())
}

fn take_steps<'a>(
    steps: &[PathStep],
    mut values: Values<'a>,
    run: &ExecutionState,
) -> Result<Values<'a>, GoError> {
    for step in steps {
        values = match step {
            PathStep::Field(name) => select_field(values, name, run.missing)?,
            PathStep::Wildcard => values.iter().flat_map(child_values).collect(),
            PathStep::Recursive => descendants(values),
            PathStep::Slice(params) if run.is_lenient() => clip_slice(values, params),
            PathStep::Slice(params) => select_slice(values, params)?,
            PathStep::Union(branches) => {
                let mut united = Vec::new();
                for branch in branches {
                    united.extend(take_steps(branch, values.clone(), run)?);
                }
                united
            }
            PathStep::Filter { left, operator, right } => {
                select_matching(values, left, operator, right, run)?
            }
            PathStep::Literal(literal) if literal.is_string() => vec![Cow::Owned(literal.clone())],
            PathStep::Literal(literal) => values.iter().map(|_| Cow::Owned(literal.clone())).collect(),
            PathStep::Identifier(name) => return Err(format!("unrecognized identifier {name}").into()),
        };
        run.spend_values(values.len())?;
    }
    Ok(values)
}

fn get<'a>(value: &Cow<'a, Value>, key: &str) -> Option<Cow<'a, Value>> {
    match value {
        Cow::Borrowed(value) => value.get(key).map(Cow::Borrowed),
        Cow::Owned(value) => value.get(key).cloned().map(Cow::Owned),
    }
}

fn child_values<'a>(value: &Cow<'a, Value>) -> Values<'a> {
    match value {
        Cow::Borrowed(Value::Array(items)) => items.iter().map(Cow::Borrowed).collect(),
        Cow::Borrowed(Value::Object(map)) => map.values().map(Cow::Borrowed).collect(),
        Cow::Owned(Value::Array(items)) => items.iter().cloned().map(Cow::Owned).collect(),
        Cow::Owned(Value::Object(map)) => map.values().cloned().map(Cow::Owned).collect(),
        _ => Vec::new(),
    }
}

fn select_field<'a>(values: Values<'a>, name: &str, missing: MissingFields) -> Result<Values<'a>, GoError> {
    if name.is_empty() {
        return Ok(values);
    }
    if values.is_empty() {
        return Ok(values);
    }
    let found: Values<'a> = values.iter().filter_map(|value| get(value, name)).collect();
    if found.is_empty() && missing == MissingFields::Fail {
        return Err(format!("{name} is not found").into());
    }
    Ok(found)
}

/// Every map and list, itself first, then what is in it. Iterative: values may be deep.
fn descendants<'a>(values: Values<'a>) -> Values<'a> {
    let mut found = Vec::new();
    let mut pending: Values<'a> = values.into_iter().rev().collect();
    while let Some(value) = pending.pop() {
        let children = child_values(&value);
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

fn select_slice<'a>(values: Values<'a>, params: &SliceRange) -> Result<Values<'a>, GoError> {
    let mut found = Vec::new();
    for value in values {
        if value.is_null() {
            continue;
        }
        if !value.is_array() {
            return Err(format!("{} is not array or slice", go_type(&value)).into());
        }
        let items = child_values(&value);
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
            return Err(format!("array index out of bounds: index {start}, length {length}").into());
        }
        if end > length || end < 0 {
            return Err(format!("array index out of bounds: index {}, length {length}", end - 1).into());
        }
        if start > end {
            return Err(format!("starting index {start} is greater than ending index {end}").into());
        }
        let step = params.step.unwrap_or(1);
        if step <= 0 {
            return Err("step must be > 0".into());
        }
        let (start, end, step) = (start as usize, end as usize, step as usize);
        found.extend(items.into_iter().take(end).skip(start).step_by(step));
    }
    Ok(found)
}

/// Returns the part of a slice that exists.
fn clip_slice<'a>(values: Values<'a>, params: &SliceRange) -> Values<'a> {
    let mut found = Vec::new();
    for value in values.iter().filter(|value| value.is_array()) {
        let items = child_values(value);
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

fn select_matching<'a>(
    values: Values<'a>,
    left: &[PathStep],
    operator: &str,
    right: &[PathStep],
    run: &ExecutionState,
) -> Result<Values<'a>, GoError> {
    let mut found = Vec::new();
    for value in values {
        if !value.is_array() && run.is_lenient() {
            continue;
        }
        if !value.is_array() {
            return Err(format!(
                "{} is not array or slice and cannot be filtered",
                crate::patch::go_value(&value)
            )
            .into());
        }
        for item in child_values(&value) {
            let lefts = take_steps(left, vec![item.clone()], run);
            if operator == "exists" {
                if lefts.is_ok_and(|lefts| !lefts.is_empty()) {
                    found.push(item);
                }
                continue;
            }
            let rights = take_steps(right, vec![item.clone()], run);
            let passes = lefts.and_then(|lefts| match (lefts.as_slice(), rights?.as_slice()) {
                ([], _) | (_, []) => Ok(false),
                ([l], [r]) if run.is_lenient() => {
                    compare_with(&widen_number(l, r), operator, &widen_number(r, l))
                }
                ([l], [r]) => compare_with(l, operator, r),
                _ => Err("can only compare one element at a time".into()),
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
fn widen_number<'v>(value: &'v Value, other: &Value) -> Cow<'v, Value> {
    match value.as_i64() {
        Some(whole) if other.is_f64() => Cow::Owned((whole as f64).into()),
        _ => Cow::Borrowed(value),
    }
}

fn compare_with(left: &Value, operator: &str, right: &Value) -> Result<bool, GoError> {
    let ordered = |test: fn(Ordering) -> bool| -> Result<bool, GoError> {
        match (left, right) {
            (Value::Bool(_), Value::Bool(_)) => Err("invalid type for comparison".into()),
            _ => order_values(left, right).map(test),
        }
    };
    match operator {
        "==" => Ok(order_values(left, right)? == Ordering::Equal),
        "!=" => Ok(order_values(left, right)? != Ordering::Equal),
        "<" => ordered(Ordering::is_lt),
        ">" => ordered(Ordering::is_gt),
        "<=" => ordered(Ordering::is_le),
        ">=" => ordered(Ordering::is_ge),
        other => Err(format!("unrecognized filter operator {other}").into()),
    }
}

fn order_values(left: &Value, right: &Value) -> Result<Ordering, GoError> {
    match (left, right) {
        (Value::Bool(a), Value::Bool(b)) => Ok(a.cmp(b)),
        (Value::String(a), Value::String(b)) => Ok(a.cmp(b)),
        (Value::Number(a), Value::Number(b)) if a.is_f64() == b.is_f64() => match (a.as_i64(), b.as_i64()) {
            (Some(a), Some(b)) => Ok(a.cmp(&b)),
            _ => Ok(a.as_f64().unwrap_or(0.0).total_cmp(&b.as_f64().unwrap_or(0.0))),
        },
        (Value::Null | Value::Array(_) | Value::Object(_), _)
        | (_, Value::Null | Value::Array(_) | Value::Object(_)) => Err("invalid type for comparison".into()),
        _ => Err("incompatible types for comparison".into()),
    }
}

/// Prints a value: strings as they are, everything else as Go's JSON with sorted keys.
pub(super) fn print_value(value: &Value) -> String {
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
        let items = super::super::parse::parse_template(&"{range ..}".repeat(8)).expect("parses");
        let run = ExecutionState { missing: MissingFields::Ignore, left: Cell::new(10_000) };
        let result = execute_items(&items, Cow::Borrowed(&deep), &run, &mut Vec::new());
        assert_eq!(result, Err("the template finds too much".into()));
    }
}
