//! List entries with one key: client-side tools let the last win, server-side apply refuses them.

use serde_json::Value;

/// Lists of a pod's containers and what tells their entries apart.
const CONTAINER_LISTS: [(&str, &[&str]); 4] = [
    ("env", &["name"]),
    ("ports", &["containerPort", "protocol"]),
    ("volumeMounts", &["mountPath"]),
    ("volumeDevices", &["devicePath"]),
];
/// Lists of a pod.
const POD_LISTS: [(&str, &[&str]); 4] = [
    ("volumes", &["name"]),
    ("imagePullSecrets", &["name"]),
    ("containers", &["name"]),
    ("initContainers", &["name"]),
];
/// The paths of pod specs.
const POD_SPECS: [&str; 3] = ["/spec", "/spec/template/spec", "/spec/jobTemplate/spec/template/spec"];

/// Keeps the last of entries with one key; tells which entries were there twice.
pub(super) fn keep_last(object: &mut Value) -> Vec<String> {
    let mut told = Vec::new();
    if object.get("kind").is_some_and(|kind| kind == "Service")
        && let Some(spec) = object.get_mut("spec")
    {
        keep_last_of_key(spec, "ports", &["port", "protocol"], "spec", &mut told);
    }
    for path in POD_SPECS {
        let Some(spec) = object.pointer_mut(path) else { continue };
        let place = path.trim_start_matches('/').replace('/', ".");
        for (field, keys) in POD_LISTS {
            keep_last_of_key(spec, field, keys, &place, &mut told);
        }
        for list in ["containers", "initContainers"] {
            let containers = spec.get_mut(list).and_then(Value::as_array_mut);
            for container in containers.into_iter().flatten() {
                let name = container.get("name").and_then(Value::as_str).unwrap_or_default();
                let place = format!("{place}.{list}[{name}]");
                for (field, keys) in CONTAINER_LISTS {
                    keep_last_of_key(container, field, keys, &place, &mut told);
                }
            }
        }
    }
    told
}

fn keep_last_of_key(owner: &mut Value, field: &str, keys: &[&str], place: &str, told: &mut Vec<String>) {
    let Some(items) = owner.get_mut(field).and_then(Value::as_array_mut) else { return };
    let key = |item: &Value| -> Option<String> {
        let parts: Vec<String> = keys
            .iter()
            .enumerate()
            .map(|(number, key)| match item.get(*key) {
                Some(Value::String(text)) => Some(text.clone()),
                Some(value) => Some(value.to_string()),
                // Only the protocol may be left out.
                None => (number > 0).then(|| "TCP".to_owned()),
            })
            .collect::<Option<_>>()?;
        Some(parts.join("/"))
    };
    let mut seen = std::collections::HashSet::new();
    let mut kept = Vec::with_capacity(items.len());
    for item in items.drain(..).rev() {
        match key(&item) {
            Some(key) if !seen.insert(key.clone()) => told.push(format!("{place}.{field}[{key}]")),
            _ => kept.push(item),
        }
    }
    kept.reverse();
    *items = kept;
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_last_entry_of_a_key_stays() {
        let mut object = json!({"kind": "Deployment", "spec": {"template": {"spec": {"containers": [
            {"name": "c", "env": [{"name": "A", "value": "1"}, {"name": "B"}, {"name": "A", "value": "2"}],
             "ports": [{"containerPort": 80}, {"containerPort": 80, "protocol": "UDP"}, {"containerPort": 80, "protocol": "TCP"}]}]}}}});
        let told = keep_last(&mut object);
        assert_eq!(
            told,
            ["spec.template.spec.containers[c].env[A]", "spec.template.spec.containers[c].ports[80/TCP]"]
        );
        let container = &object["spec"]["template"]["spec"]["containers"][0];
        assert_eq!(container["env"], json!([{"name": "B"}, {"name": "A", "value": "2"}]));
        assert_eq!(container["ports"].as_array().map(Vec::len), Some(2));
        let mut service = json!({"kind": "Service", "spec": {"ports": [{"port": 80, "name": "a"}, {"port": 80, "name": "b"}]}});
        assert_eq!(keep_last(&mut service), ["spec.ports[80/TCP]"]);
    }
}
