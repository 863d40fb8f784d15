//! Sets what was left out.

use serde_json::Value;

use super::compile::StructuralSchema;

/// Sets defaults in an object, outermost first, so that defaults of parts of a default are set, too.
pub(super) fn set_defaults(value: &mut Value, schema: &StructuralSchema) {
    match value {
        Value::Object(map) => {
            for (name, property) in &schema.properties {
                let Some(default) = &property.default else { continue };
                match map.get(name) {
                    None => {
                        map.insert(name.clone(), default.clone());
                    }
                    // A null that may not stand is as good as absent.
                    Some(Value::Null) if !property.nullable => {
                        map.insert(name.clone(), default.clone());
                    }
                    Some(_) => {}
                }
            }
            if let Some(default) =
                schema.additional.as_ref().filter(|s| !s.nullable).and_then(|s| s.default.as_ref())
            {
                for (_, value) in
                    map.iter_mut().filter(|(name, value)| value.is_null() && schema.property(name).is_none())
                {
                    *value = default.clone();
                }
            }
            for (name, value) in map.iter_mut() {
                if let Some(child) = schema.property(name).or(schema.additional.as_deref()) {
                    set_defaults(value, child);
                }
            }
        }
        Value::Array(items) => {
            let Some(item) = schema.items.as_deref() else { return };
            for value in items {
                if let (Value::Null, false, Some(default)) = (&*value, item.nullable, &item.default) {
                    *value = default.clone();
                }
                set_defaults(value, item);
            }
        }
        _ => {}
    }
}
