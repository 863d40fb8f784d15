//! Marks of objects whose fields hold secrets: an annotation names the fields and where each value comes from, so that
//! whoever shows a state of the object, now or later, knows what to hide.

use serde_json::Value;
use slipway_manifest::diff::secret_fields::{SecretField, SecretFields, item_step};
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
        let mut steps = pointer(object, path);
        if steps.first().is_some_and(|first| first == "stringData") && object["kind"] == "Secret" {
            // A server keeps them there.
            "data".clone_into(&mut steps[0]);
        }
        fields.insert(steps, origin);
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
                let index = segment.parse::<usize>().ok();
                let item = index.and_then(|index| items.get(index));
                let step = index.zip(item).map(|(index, item)| item_step(index, item));
                (step.unwrap_or_else(|| segment.clone()), item)
            }
            Some(node) => (segment.clone(), node.get(segment)),
            None => (segment.clone(), None),
        };
        steps.push(step);
        node = next;
    }
    steps
}
