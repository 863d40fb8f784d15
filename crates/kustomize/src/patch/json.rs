//! JSON patches (RFC 6902), as kustomize applies them.

use serde_json::Value;

use crate::growth::{GrowthBudget, GrowthError};
use slipway_problem::ProblemReason;

/// One operation, checked for having the parts it needs.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum PatchOperation {
    Add { path: JsonPointer, value: Value },
    Remove { path: JsonPointer },
    Replace { path: JsonPointer, value: Value },
    Move { from: JsonPointer, path: JsonPointer },
    Copy { from: JsonPointer, path: JsonPointer },
    Test { path: JsonPointer, value: Value },
}

/// A JSON pointer, split and unescaped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JsonPointer(Vec<String>);

impl JsonPointer {
    fn read(text: &str) -> Result<Self, ProblemReason> {
        if !text.is_empty() && !text.starts_with('/') {
            return Err(format!("path `{text}` does not start with `/`").into());
        }
        Ok(Self(text.split('/').skip(1).map(|part| part.replace("~1", "/").replace("~0", "~")).collect()))
    }

    fn to_text(&self) -> String {
        self.0.iter().map(|part| format!("/{}", part.replace('~', "~0").replace('/', "~1"))).collect()
    }
}

/// Reads a list of operations; every malformed one is reported.
pub(crate) fn read_operations(value: &Value) -> Result<Vec<PatchOperation>, Vec<String>> {
    let Value::Array(list) = value else {
        return Err(vec!["a JSON patch is a list of operations".to_owned()]);
    };
    let (mut operations, mut wrong) = (Vec::new(), Vec::new());
    for (at, entry) in list.iter().enumerate() {
        match read_operation(entry) {
            Ok(operation) => operations.push(operation),
            Err(message) => wrong.push(format!("operation {}: {message}", at + 1)),
        }
    }
    if wrong.is_empty() { Ok(operations) } else { Err(wrong) }
}

fn read_operation(entry: &Value) -> Result<PatchOperation, ProblemReason> {
    let text = |key: &str| match entry.get(key) {
        Some(Value::String(text)) => Ok(text.as_str()),
        Some(_) => Err(format!("`{key}` is not a string").into()),
        None => Err(format!("`{key}` is missing").into()),
    };
    let path = || text("path").and_then(JsonPointer::read);
    let from = || text("from").and_then(JsonPointer::read);
    let value = || entry.get("value").cloned().unwrap_or(Value::Null);
    match text("op")? {
        "add" => Ok(PatchOperation::Add { path: path()?, value: value() }),
        "remove" => Ok(PatchOperation::Remove { path: path()? }),
        "replace" => Ok(PatchOperation::Replace { path: path()?, value: value() }),
        "move" => Ok(PatchOperation::Move { from: from()?, path: path()? }),
        "copy" => Ok(PatchOperation::Copy { from: from()?, path: path()? }),
        "test" => Ok(PatchOperation::Test { path: path()?, value: value() }),
        other => Err(format!(
            "unknown `op: {other}`; it can be `add`, `remove`, `replace`, `move`, `copy` or `test`"
        )
        .into()),
    }
}

/// Applies the operations in order; says which failed and why. Gives the bytes they put into the document.
pub(crate) fn apply_operations(
    document: &mut Value,
    operations: &[PatchOperation],
    budget: &mut GrowthBudget,
) -> Result<usize, ProblemReason> {
    let mut grown = 0;
    for (at, operation) in operations.iter().enumerate() {
        grown += operation
            .spend_growth(document, budget)
            .map_err(|error| format!("operation {} ({}): {error}", at + 1, operation.name()))?;
        apply_operation(document, operation)?;
    }
    Ok(grown)
}

impl PatchOperation {
    fn name(&self) -> &'static str {
        match self {
            Self::Add { .. } => "add",
            Self::Remove { .. } => "remove",
            Self::Replace { .. } => "replace",
            Self::Move { .. } => "move",
            Self::Copy { .. } => "copy",
            Self::Test { .. } => "test",
        }
    }

    fn spend_growth(&self, document: &mut Value, budget: &mut GrowthBudget) -> Result<usize, GrowthError> {
        match self {
            Self::Add { path, value } | Self::Replace { path, value } => budget.spend(value, path.0.len()),
            // What is not there is told when the operation is applied.
            Self::Move { from, path } => match find_value(document, from) {
                Ok(value) => budget.check_depth(value, path.0.len()),
                Err(_) => Ok(0),
            },
            Self::Copy { from, path } => match find_value(document, from) {
                Ok(value) => budget.spend(value, path.0.len()),
                Err(_) => Ok(0),
            },
            Self::Remove { .. } | Self::Test { .. } => Ok(0),
        }
    }
}

/// The document as Go's JSON reads it: integers a float cannot tell apart become the nearest one.
pub(crate) fn round_numbers(mut document: Value) -> Value {
    const EXACT: u64 = 1 << 53;
    let mut open = vec![&mut document];
    while let Some(value) = open.pop() {
        match value {
            Value::Array(list) => open.extend(list),
            Value::Object(map) => open.extend(map.values_mut()),
            Value::Number(number) => {
                let size = number.as_u64().or_else(|| number.as_i64().map(i64::unsigned_abs));
                if size.is_some_and(|size| size > EXACT)
                    && let Some(float) = number.as_f64().and_then(serde_json::Number::from_f64)
                {
                    *number = float;
                }
            }
            Value::Null | Value::Bool(_) | Value::String(_) => {}
        }
    }
    document
}

fn apply_operation(document: &mut Value, operation: &PatchOperation) -> Result<(), ProblemReason> {
    match operation {
        PatchOperation::Add { path, value } => add_value(document, path, value.clone())
            .map_err(|why| ProblemReason::from(format!("cannot add `{}`: {why}", path.to_text()))),
        PatchOperation::Remove { path } => remove_value(document, path)
            .map(drop)
            .map_err(|why| ProblemReason::from(format!("cannot remove `{}`: {why}", path.to_text()))),
        PatchOperation::Replace { path, value } => replace_value(document, path, value.clone())
            .map_err(|why| ProblemReason::from(format!("cannot replace `{}`: {why}", path.to_text()))),
        PatchOperation::Move { from, path } => {
            let value = remove_value(document, from)
                .map_err(|why| format!("cannot move `{}`: {why}", from.to_text()))?;
            add_value(document, path, value)
                .map_err(|why| ProblemReason::from(format!("cannot move to `{}`: {why}", path.to_text())))
        }
        PatchOperation::Copy { from, path } => {
            let value = find_value(document, from)
                .map_err(|why| format!("cannot copy `{}`: {why}", from.to_text()))?
                .clone();
            add_value(document, path, value)
                .map_err(|why| ProblemReason::from(format!("cannot copy to `{}`: {why}", path.to_text())))
        }
        PatchOperation::Test { path, value } => match find_value(document, path) {
            Ok(found) if is_same_value(found, value) => Ok(()),
            Ok(_) => Err(format!("test failed: `{}` has another value", path.to_text()).into()),
            Err(_) if value.is_null() => Ok(()),
            Err(why) => Err(format!("test failed: `{}`: {why}", path.to_text()).into()),
        },
    }
}

fn is_same_value(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same_value(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| is_same_value(a, b)))
        }
        _ => a == b,
    }
}

/// A list position; negative ones count from the end.
fn parse_position(part: &str, length: usize) -> Result<usize, ProblemReason> {
    let number: i64 = part.parse().map_err(|_| format!("`{part}` is not a position in a list"))?;
    let position = if number < 0 { number + length as i64 } else { number };
    usize::try_from(position)
        .ok()
        .filter(|position| *position < length)
        .ok_or_else(|| ProblemReason::from(format!("there is no element {part} in a list of {length}")))
}

fn step_into<'a>(value: &'a mut Value, part: &str) -> Result<&'a mut Value, ProblemReason> {
    match value {
        Value::Object(map) => {
            map.get_mut(part).ok_or_else(|| ProblemReason::from(format!("there is no field `{part}`")))
        }
        Value::Array(list) => {
            let at = parse_position(part, list.len())?;
            Ok(&mut list[at])
        }
        _ => Err(format!("`{part}` is looked for in a plain value").into()),
    }
}

fn find_value<'a>(document: &'a mut Value, path: &JsonPointer) -> Result<&'a mut Value, ProblemReason> {
    path.0.iter().try_fold(document, |value, part| step_into(value, part))
}

fn find_parent<'a, 'p>(
    document: &'a mut Value,
    path: &'p JsonPointer,
) -> Result<(&'a mut Value, &'p str), ProblemReason> {
    let (last, before) = path.0.split_last().ok_or("the whole document cannot be the target")?;
    let parent = before.iter().try_fold(document, |value, part| step_into(value, part))?;
    Ok((parent, last))
}

fn add_value(document: &mut Value, path: &JsonPointer, value: Value) -> Result<(), ProblemReason> {
    let (parent, last) = find_parent(document, path)?;
    match parent {
        Value::Object(map) => {
            map.insert(last.to_owned(), value);
            Ok(())
        }
        Value::Array(list) if last == "-" => {
            list.push(value);
            Ok(())
        }
        Value::Array(list) => {
            let at = parse_position(last, list.len() + 1)?;
            list.insert(at, value);
            Ok(())
        }
        _ => Err("its parent is a plain value".into()),
    }
}

/// Like kustomize, does not mind that the field of a mapping is not there yet.
fn replace_value(document: &mut Value, path: &JsonPointer, value: Value) -> Result<(), ProblemReason> {
    let (parent, last) = find_parent(document, path)?;
    match parent {
        Value::Object(map) => {
            map.insert(last.to_owned(), value);
            Ok(())
        }
        Value::Array(list) => {
            let at = parse_position(last, list.len())?;
            list[at] = value;
            Ok(())
        }
        _ => Err("its parent is a plain value".into()),
    }
}

fn remove_value(document: &mut Value, path: &JsonPointer) -> Result<Value, ProblemReason> {
    let (parent, last) = find_parent(document, path)?;
    match parent {
        Value::Object(map) => {
            map.shift_remove(last).ok_or_else(|| ProblemReason::from(format!("there is no field `{last}`")))
        }
        Value::Array(list) => {
            let at = parse_position(last, list.len())?;
            Ok(list.remove(at))
        }
        _ => Err("its parent is a plain value".into()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn operations() {
        for (document, patch, expected) in [
            (
                json!({"a": [1, 2]}),
                json!([{"op": "add", "path": "/a/-", "value": 3}]),
                Ok(json!({"a": [1, 2, 3]})),
            ),
            (
                json!({"a": [1, 2]}),
                json!([{"op": "add", "path": "/a/0", "value": 3}]),
                Ok(json!({"a": [3, 1, 2]})),
            ),
            (json!({"a": [1, 2]}), json!([{"op": "remove", "path": "/a/-1"}]), Ok(json!({"a": [1]}))),
            (
                json!({"a/b": 1}),
                json!([{"op": "replace", "path": "/a~1b", "value": 2}]),
                Ok(json!({"a/b": 2})),
            ),
            (json!({"a": 1}), json!([{"op": "move", "from": "/a", "path": "/b"}]), Ok(json!({"b": 1}))),
            (
                json!({"a": 1}),
                json!([{"op": "copy", "from": "/a", "path": "/b"}]),
                Ok(json!({"a": 1, "b": 1})),
            ),
            (json!({"a": 1}), json!([{"op": "test", "path": "/b", "value": null}]), Ok(json!({"a": 1}))),
            (
                json!({"a": 1}),
                json!([{"op": "test", "path": "/a", "value": 2}]),
                Err("test failed: `/a` has another value"),
            ),
            (
                json!({}),
                json!([{"op": "add", "path": "/a/b", "value": 2}]),
                Err("cannot add `/a/b`: there is no field `a`"),
            ),
            (
                json!({"a": []}),
                json!([{"op": "add", "path": "/a/1", "value": 2}]),
                Err("cannot add `/a/1`: there is no element 1 in a list of 1"),
            ),
            (
                json!({}),
                json!([{"op": "remove", "path": "/a"}]),
                Err("cannot remove `/a`: there is no field `a`"),
            ),
        ] {
            let mut after = document.clone();
            let operations = read_operations(&patch).expect("well formed");
            let budget = &mut GrowthBudget::of(std::iter::empty());
            let result = apply_operations(&mut after, &operations, budget).map(|_| after);
            assert_eq!(result, expected.map_err(ProblemReason::from), "{document} {patch}");
        }
    }

    #[test]
    fn refuses_patches_that_grow_without_end() {
        let copies = vec![json!({"op": "copy", "from": "/a", "path": "/a/-"}); 100];
        let nest = |from: &str, to: &str| {
            [
                json!({"op": "add", "path": to, "value": {}}),
                json!({"op": "move", "from": from, "path": format!("{to}/x")}),
            ]
        };
        let moves: Vec<Value> =
            (0..300).flat_map(|_| [nest("/a", "/b"), nest("/b", "/a")].concat()).collect();
        for (operations, error) in [
            (copies, "(copy): patches and replacements put more than"),
            (moves, "(move): the object would nest"),
        ] {
            let operations = read_operations(&Value::Array(operations)).expect("well formed");
            let mut document = json!({"a": ["x".repeat(1 << 20)]});
            let budget = &mut GrowthBudget::of(std::iter::empty());
            let told = apply_operations(&mut document, &operations, budget).expect_err("too much");
            assert!(told.to_string().contains(error), "{told}");
        }
    }

    #[test]
    fn malformed_operations_are_all_named() {
        let wrong = read_operations(
            &json!([{"op": "ad", "path": "/a"}, {"op": "add"}, {"op": "remove", "path": "a"}]),
        );
        assert_eq!(wrong.map_err(|all| all.len()), Err(3));
    }
}
