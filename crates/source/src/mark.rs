//! Marks of objects whose fields hold secrets: an annotation names the fields and where each value comes from, so that
//! whoever shows a state of the object, now or later, knows what to hide.

use serde_json::Value;
use slipway_manifest::diff::secret_fields::{SecretField, SecretFields};
use slipway_secrets::{FieldPath, ObjectTaint, TaintOrigin};

/// Marks the fields of an object that hold or depend on a secret, found by comparing two renders of it without secrets.
/// Items of a list are marked one by one.
pub fn mark_secrets(object: &mut Value, masked: &Value, varied: &Value) {
    if let Some(items) = object.get_mut("items").and_then(Value::as_array_mut) {
        let of = |list: &Value, index: usize| list.get("items").and_then(|items| items.get(index)).cloned();
        for (index, item) in items.iter_mut().enumerate() {
            if let (Some(masked), Some(varied)) = (of(masked, index), of(varied, index)) {
                mark_secrets(item, &masked, &varied);
            }
        }
        return;
    }
    let mut fields = SecretFields::default();
    let taints = [ObjectTaint::compare(masked, varied), ObjectTaint::compare(masked, object)];
    for (path, origin) in taints.iter().flat_map(ObjectTaint::iter) {
        let origin = match origin {
            TaintOrigin::Secret(origin) => SecretField::From(format!("{} {}", origin.provider, origin.path)),
            TaintOrigin::Derived => SecretField::Derived,
        };
        fields.insert(pointer(object, path), origin);
    }
    fields.annotate(object);
}

/// The way to a field as the mark writes it: items of a list by their name, where they have one.
fn pointer(object: &Value, path: &FieldPath) -> Vec<String> {
    let mut node = Some(object);
    let mut steps = Vec::with_capacity(path.len());
    for segment in path {
        let (step, next) = match node {
            Some(Value::Array(items)) => {
                let item = segment.parse::<usize>().ok().and_then(|index| items.get(index));
                let name = item.and_then(|item| item.get("name")).and_then(Value::as_str);
                (name.map_or_else(|| segment.clone(), |name| format!("name={name}")), item)
            }
            Some(node) => (segment.clone(), node.get(segment)),
            None => (segment.clone(), None),
        };
        steps.push(step);
        node = next;
    }
    steps
}
