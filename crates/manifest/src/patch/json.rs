//! JSON patch (RFC 6902) with the habits of the library Kubernetes uses.
//!
//! Negative indices count from the end, `replace` of a missing map key adds it, and a patch applies as
//! a whole or not at all.

use serde_json::{Map, Value};

use super::PatchError;
use crate::depth;
use crate::object::json_type;
use slipway_go::GoError;

/// Kubernetes refuses longer patches.
pub const MOST_OPERATIONS: usize = 10_000;

/// Applies a patch document (a list of operations).
pub fn apply(mut document: Value, patch: &Value) -> Result<Value, PatchError> {
    depth::check_depth(patch)?;
    depth::check_depth(&document)?;
    let operations = patch.as_array().ok_or_else(|| {
        PatchError::Malformed(format!(
            "error decoding patch: json: cannot unmarshal {} into Go value of type []handlers.jsonPatchOp",
            json_type(patch)
        ))
    })?;
    if operations.len() > MOST_OPERATIONS {
        return Err(PatchError::Malformed(format!(
            "The allowed maximum operations in a JSON patch is {MOST_OPERATIONS}, got {}",
            operations.len()
        )));
    }
    let mut copied = 0;
    for operation in operations {
        match apply_one(&mut document, operation, &mut copied)
            .map_err(|error| PatchError::DoesNotApply(error.into()))?
        {
            OperationOutcome::Done => {}
            OperationOutcome::Differs(path) => return Err(PatchError::TestFailed(path)),
        }
    }
    Ok(document)
}

/// The outcome of one operation.
enum OperationOutcome {
    Done,
    /// A test found something else at this path.
    Differs(String),
}

const MISSING: &str = "missing value";

/// Copies of copies double with every operation: together they may not be larger than a request.
const MOST_COPIED: usize = 3 << 20;

fn apply_one(
    document: &mut Value,
    operation: &Value,
    copied_so_far: &mut usize,
) -> Result<OperationOutcome, GoError> {
    let text = |field: &str| operation.get(field).and_then(Value::as_str);
    let op = text("op").unwrap_or("unknown");
    if !matches!(op, "add" | "remove" | "replace" | "move" | "test" | "copy") {
        return Err(format!("Unexpected kind: {op}").into());
    }
    let path = text("path").ok_or_else(|| format!("{op} operation failed to decode path: {MISSING}"))?;
    let from = || {
        text("from").ok_or_else(|| {
            GoError::new(format!(
                "{op} operation failed to decode from: operation, missing from field: {MISSING}"
            ))
        })
    };
    let levels = path.matches('/').count();
    let fits = |value: &Value| {
        depth::check_depth_below(value, levels).map_err(|error| GoError::new(error.to_string()))
    };
    let value = || operation.get("value").cloned().unwrap_or(Value::Null);
    if matches!(op, "add" | "replace") {
        fits(operation.get("value").unwrap_or(&Value::Null))?;
    }
    if op == "test" {
        return test_value(document, path, operation.get("value"));
    }
    match op {
        "add" => {
            let (parent, key) = find_parent(document, path).ok_or_else(|| {
                format!("add operation does not apply: doc is missing path: \"{path}\": {MISSING}")
            })?;
            add_value(parent, &key, value()).map_err(|error| GoError::new(format!("error in add for path: '{path}': {error}")))
        }
        "remove" => {
            let (parent, key) = find_parent(document, path).ok_or_else(|| {
                format!("remove operation does not apply: doc is missing path: \"{path}\": {MISSING}")
            })?;
            remove_value(parent, &key)
                .map(drop)
                .map_err(|error| GoError::new(format!("error in remove for path: '{path}': {error}")))
        }
        "replace" => {
            if path.is_empty() {
                let value = value();
                if !value.is_array() && !value.is_object() {
                    return Err("replace operation value must be object or array".into());
                }
                *document = value;
                return Ok(OperationOutcome::Done);
            }
            let (parent, key) = find_parent(document, path).ok_or_else(|| {
                format!("replace operation does not apply: doc is missing path: {path}: {MISSING}")
            })?;
            match parent {
                Value::Object(map) => {
                    map.insert(key, value());
                    Ok(())
                }
                Value::Array(items) => {
                    let at = parse_index(&key, items.len()).map_err(|_| {
                        format!("replace operation does not apply: doc is missing key: {path}: {MISSING}")
                    })?;
                    items[at] = value();
                    Ok(())
                }
                _ => Err(format!("replace operation does not apply: doc is missing path: {path}: {MISSING}").into()),
            }
        }
        "move" => {
            let from = from()?;
            let (parent, key) = find_parent(document, from).ok_or_else(|| {
                format!("move operation does not apply: doc is missing from path: {from}: {MISSING}")
            })?;
            let moved =
                remove_value(parent, &key).map_err(|error| format!("error in move for path: '{key}': {error}"))?;
            let (parent, key) = find_parent(document, path).ok_or_else(|| {
                format!("move operation does not apply: doc is missing destination path: {path}: {MISSING}")
            })?;
            add_value(parent, &key, moved).map_err(|error| GoError::new(format!("error in move for path: '{path}': {error}")))
        }
        _ => {
            let from = from()?;
            let (parent, key) = find_parent(document, from).ok_or_else(|| {
                format!("copy operation does not apply: doc is missing from path: {from}: {MISSING}")
            })?;
            let copied = get(parent, &key)
                .map_err(|error| format!("error in copy for from: '{from}': {error}"))?
                .cloned()
                .unwrap_or(Value::Null);
            fits(&copied)?;
            *copied_so_far += copied.to_string().len();
            if *copied_so_far > MOST_COPIED {
                return Err(format!(
                    "Unable to complete the copy, the accumulated size increase of copy is {copied_so_far}, exceeding the limit {MOST_COPIED}"
                ).into());
            }
            let (parent, key) = find_parent(document, path).ok_or_else(|| {
                format!("copy operation does not apply: doc is missing destination path: {path}: {MISSING}")
            })?;
            add_value(parent, &key, copied)
                .map_err(|error| GoError::new(format!("error while adding value during copy: {error}")))
        }
    }
    .map(|()| OperationOutcome::Done)
}

fn test_value(
    document: &mut Value,
    path: &str,
    expected: Option<&Value>,
) -> Result<OperationOutcome, GoError> {
    let same =
        |same: bool| if same { OperationOutcome::Done } else { OperationOutcome::Differs(path.to_owned()) };
    if path.is_empty() {
        return Ok(same(Some(&*document) == expected));
    }
    let (parent, key) = find_parent(document, path)
        .ok_or_else(|| format!("test operation does not apply: is missing path: {path}: {MISSING}"))?;
    let found = get(parent, &key).map_err(|error| format!("error in test for path: '{path}': {error}"))?;
    let null = &Value::Null;
    Ok(same(found.unwrap_or(null) == expected.unwrap_or(null)))
}

/// Finds the map or list a pointer's last part names something in.
fn find_parent<'a>(document: &'a mut Value, path: &str) -> Option<(&'a mut Value, String)> {
    let mut parts: Vec<String> =
        path.split('/').map(|part| part.replace("~1", "/").replace("~0", "~")).collect();
    if parts.len() < 2 {
        return None;
    }
    let key = parts.pop()?;
    let mut at = document;
    for part in &parts[1..] {
        at = match at {
            Value::Object(map) => map.get_mut(part)?,
            Value::Array(items) => {
                let index = parse_index(part, items.len()).ok()?;
                &mut items[index]
            }
            _ => return None,
        };
    }
    (at.is_array() || at.is_object()).then_some((at, key))
}

fn parse_index(key: &str, length: usize) -> Result<usize, GoError> {
    let number: i64 = key.parse().map_err(|_| {
        format!("value was not a proper array index: '{key}': strconv.Atoi: parsing {key:?}: invalid syntax")
    })?;
    let at = if number < 0 { number + length as i64 } else { number };
    usize::try_from(at).ok().filter(|&at| at < length).ok_or_else(|| {
        GoError::new(format!("Unable to access invalid index: {number}: invalid index referenced"))
    })
}

fn get<'a>(parent: &'a Value, key: &str) -> Result<Option<&'a Value>, GoError> {
    match parent {
        Value::Object(map) => Ok(map.get(key)),
        Value::Array(items) => parse_index(key, items.len()).map(|at| items.get(at)),
        _ => Ok(None),
    }
}

fn add_value(parent: &mut Value, key: &str, value: Value) -> Result<(), GoError> {
    match parent {
        Value::Object(map) => {
            map.insert(key.to_owned(), value);
        }
        Value::Array(items) if key == "-" => items.push(value),
        Value::Array(items) => {
            let at = parse_index(key, items.len() + 1)?;
            items.insert(at, value);
        }
        _ => {}
    }
    Ok(())
}

fn remove_value(parent: &mut Value, key: &str) -> Result<Value, GoError> {
    match parent {
        Value::Object(map) => map
            .shift_remove(key)
            .ok_or_else(|| GoError::new(format!("Unable to remove nonexistent key: {key}: {MISSING}"))),
        Value::Array(items) => {
            let at = parse_index(key, items.len())?;
            Ok(items.remove(at))
        }
        _ => Ok(Value::Null),
    }
}

/// Creates the operations that turn `from` into `to`.
///
/// Maps are walked key by key; a list that differs is replaced as a whole.
pub fn create(from: &Value, to: &Value) -> Result<Value, PatchError> {
    depth::check_depth(from)?;
    depth::check_depth(to)?;
    let mut operations = Vec::new();
    collect_operations(from, to, &mut String::new(), &mut operations);
    Ok(Value::Array(operations))
}

fn collect_operations(from: &Value, to: &Value, path: &mut String, operations: &mut Vec<Value>) {
    let (Value::Object(old), Value::Object(new)) = (from, to) else {
        if from != to {
            operations.push(json_operation("replace", path, Some(to)));
        }
        return;
    };
    let length = path.len();
    for key in old.keys().filter(|key| !new.contains_key(*key)) {
        push_key(path, key);
        operations.push(json_operation("remove", path, None));
        path.truncate(length);
    }
    for (key, value) in new {
        push_key(path, key);
        match old.get(key) {
            Some(before) => collect_operations(before, value, path, operations),
            None => operations.push(json_operation("add", path, Some(value))),
        }
        path.truncate(length);
    }
}

fn push_key(path: &mut String, key: &str) {
    path.push('/');
    path.push_str(&key.replace('~', "~0").replace('/', "~1"));
}

fn json_operation(op: &str, path: &str, value: Option<&Value>) -> Value {
    let mut operation = Map::new();
    operation.insert("op".to_owned(), op.into());
    operation.insert("path".to_owned(), path.into());
    if let Some(value) = value {
        operation.insert("value".to_owned(), value.clone());
    }
    Value::Object(operation)
}
