//! Custom resource definitions: from a definition to served resources, and what their objects must obey.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError};

use serde_json::{Value, json};
use slipway_manifest::crd::{CustomResource, check_definition};
use slipway_manifest::field_error::{FieldError, FieldErrorKind};
use slipway_manifest::schema::{Resource, Schema, Subresource, TypeRef};

use crate::api::crd_rules::Rules;
use crate::api::resource::Served;
use crate::core::Core;
use crate::status::Cause;
use crate::store::{Draft, Expect, Key, Object};
use crate::write::admit::prepare::Part;
use crate::write::typed::Decoded;

const TABLE: &str = "customresourcedefinitions.apiextensions.k8s.io";
/// Holds a definition until its objects are gone.
pub(crate) const FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// One served version of a custom resource.
#[derive(Debug)]
pub(crate) struct Custom {
    pub storage_version: String,
    pub columns: Vec<Value>,
    pub has_status: bool,
    /// `specReplicasPath`, `statusReplicasPath`, `labelSelectorPath` as pointers.
    pub scale: Option<Scale>,
    deprecated: Option<String>,
    selectable: Vec<String>,
    schema: Value,
    has_defaults: bool,
    resource: CustomResource,
    /// What is kept of an object, if another version's schema decides that.
    stored: Option<CustomResource>,
    rules: Rules,
}

/// Where a custom resource keeps what `/scale` shows.
#[derive(Debug, Clone)]
pub(crate) struct Scale {
    pub spec_path: String,
    pub status_path: String,
    pub selector_path: Option<String>,
}

impl Scale {
    /// Whether what `/scale` shows can be shown.
    fn check(&self, object: &Value, part: Part, out: &mut Vec<Cause>) {
        let spec = (part != Part::Status).then_some(&self.spec_path);
        for path in spec.into_iter().chain([&self.status_path]) {
            let name = path.replace('/', ".");
            match nested(object, path, "int64", Value::is_i64) {
                Err(why) => out.push(Cause::invalid(name, &json!(0), &why)),
                Ok(Some(number)) if number.as_i64().is_some_and(|n| n < 0) => {
                    out.push(Cause::invalid(name, number, "should be a non-negative integer"));
                }
                Ok(Some(number)) if number.as_i64().is_some_and(|n| n > i64::from(i32::MAX)) => {
                    out.push(Cause::invalid(name, number, "should be less than or equal to 2147483647"));
                }
                Ok(_) => {}
            }
        }
        if let Some(path) = &self.selector_path
            && let Err(why) = nested(object, path, "string", Value::is_string)
        {
            out.push(Cause::invalid(path.replace('/', "."), &json!(""), &why));
        }
    }
}

/// The value at a path, which is to be of a type if it is there.
fn nested<'a>(
    object: &'a Value,
    path: &str,
    wanted: &str,
    fits: impl Fn(&Value) -> bool,
) -> Result<Option<&'a Value>, String> {
    let wrong = |at: &str, value: &Value, wanted: &str| {
        let (at, text, held) = (at.replace('/', "."), go_text(value), go_type(value));
        Err(format!("{at} accessor error: {text} is of the type {held}, expected {wanted}"))
    };
    let (mut value, mut end) = (object, 0);
    for part in path.split('/').skip(1) {
        end += 1 + part.len();
        match value {
            Value::Null => return Ok(None),
            Value::Object(members) => match members.get(part) {
                Some(member) => value = member,
                None => return Ok(None),
            },
            other => return wrong(&path[..end], other, "map[string]interface{}"),
        }
    }
    if fits(value) { Ok(Some(value)) } else { wrong(path, value, wanted) }
}

/// A value as Go's `%v` prints it.
fn go_text(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => format!("[{}]", items.iter().map(go_text).collect::<Vec<_>>().join(" ")),
        Value::Object(members) => {
            let mut all: Vec<String> = members.iter().map(|(k, v)| format!("{k}:{}", go_text(v))).collect();
            all.sort();
            format!("map[{}]", all.join(" "))
        }
        other => other.to_string(),
    }
}

fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_i64() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// Whether a schema sets a default anywhere.
fn has_defaults(schema: &Value) -> bool {
    let mut todo = vec![schema];
    while let Some(value) = todo.pop() {
        match value {
            Value::Object(members) if members.contains_key("default") => return true,
            Value::Object(members) => todo.extend(members.values()),
            Value::Array(items) => todo.extend(items),
            _ => {}
        }
    }
    false
}

fn pointer(path: &str) -> String {
    path.trim_start_matches('.').split('.').fold(String::new(), |mut out, part| {
        out.push('/');
        out.push_str(part);
        out
    })
}

impl Custom {
    fn new(definition: &Value, version: &Value) -> Custom {
        let storage = definition["spec"]["versions"]
            .as_array()
            .into_iter()
            .flatten()
            .find(|v| v["storage"] == true)
            .and_then(|v| v["name"].as_str())
            .unwrap_or("");
        let text = |v: &Value| v.as_str().map(str::to_owned);
        let scale = &version["subresources"]["scale"];
        let (group, name, kind) =
            (&definition["spec"]["group"], &version["name"], &definition["spec"]["names"]["kind"]);
        let deprecated = (version["deprecated"] == true).then(|| {
            text(&version["deprecationWarning"]).unwrap_or_else(|| {
                let word = |v: &Value| v.as_str().unwrap_or("").to_owned();
                let newer = definition["spec"]["versions"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .filter(|v| v["served"] == true && v["deprecated"] != true)
                    .max_by_key(|v| crate::api::resource::version_order(v["name"].as_str().unwrap_or("")));
                let instead = newer
                    .map(|v| format!("; use {}/{} {}", word(group), word(&v["name"]), word(kind)))
                    .unwrap_or_default();
                format!("{}/{} {} is deprecated{instead}", word(group), word(name), word(kind))
            })
        });
        let api_version = slipway_manifest::object::join_api_version(
            group.as_str().unwrap_or(""),
            name.as_str().unwrap_or(""),
        );
        let schema = version["schema"].get("openAPIV3Schema");
        // Schemas too deep to read were refused with their definition.
        let resource = CustomResource::new(&api_version, kind.as_str().unwrap_or(""), schema)
            .or_else(|_| CustomResource::new(&api_version, kind.as_str().unwrap_or(""), None))
            .unwrap_or_else(|_| unreachable!("no schema is not too deep"));
        let stored = definition["spec"]["versions"]
            .as_array()
            .into_iter()
            .flatten()
            .find(|v| v["storage"] == true && v["name"] != *name)
            .and_then(|v| {
                CustomResource::new(
                    &api_version,
                    kind.as_str().unwrap_or(""),
                    v["schema"].get("openAPIV3Schema"),
                )
                .ok()
            });
        Custom {
            stored,
            storage_version: storage.to_owned(),
            columns: version["additionalPrinterColumns"].as_array().cloned().unwrap_or_default(),
            has_status: version["subresources"]["status"].is_object(),
            scale: scale["specReplicasPath"].as_str().map(|spec| Scale {
                spec_path: pointer(spec),
                status_path: pointer(scale["statusReplicasPath"].as_str().unwrap_or("")),
                selector_path: scale["labelSelectorPath"].as_str().map(pointer),
            }),
            deprecated,
            selectable: version["selectableFields"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|f| text(&f["jsonPath"]))
                .collect(),
            schema: version["schema"]["openAPIV3Schema"].clone(),
            has_defaults: has_defaults(&version["schema"]["openAPIV3Schema"]),
            rules: if resource.has_rules() {
                Rules::of(&version["schema"]["openAPIV3Schema"])
            } else {
                Rules::default()
            },
            resource,
        }
    }

    /// Whether reading an object may add something to it.
    pub(crate) fn has_defaults(&self) -> bool {
        self.has_defaults
    }

    pub(crate) fn schema(&self) -> &Value {
        &self.schema
    }

    pub(crate) fn shape(&self) -> TypeRef<'_> {
        self.resource.object_type()
    }

    /// The paths lists and watches may be filtered by.
    pub(crate) fn selectable_fields(&self) -> &[String] {
        &self.selectable
    }

    pub(crate) fn selectable(&self, key: &str) -> Option<String> {
        self.selectable.iter().find(|path| path.trim_start_matches('.') == key).map(|path| pointer(path))
    }

    pub(crate) fn deprecation(&self, _: &Served) -> Option<String> {
        self.deprecated.clone()
    }

    /// Prunes unknown fields and sorts members, as unstructured objects are printed.
    pub(crate) fn decode(&self, value: Value, duplicates: &[String]) -> Result<Decoded, String> {
        let mut value = value;
        let mut unknown = Vec::new();
        // Metadata is typed, whatever the schema says of the rest.
        if let Some(metadata) = value.get_mut("metadata") {
            let meta = Schema::built_in()
                .types()
                .type_of_kind("v1", "ConfigMap")
                .and_then(|kind| kind.child("metadata"));
            if let Some(meta) = meta {
                let taken = metadata.take();
                let decoded = crate::write::typed::decode(taken, meta, &[])?;
                *metadata = decoded.value;
                unknown = decoded.strict;
            }
        }
        let mut strict = self.resource.prune_unknown_fields(&mut value).map_err(|e| e.to_string())?;
        strict.extend(unknown.iter().map(|text| text.replacen('"', "\"metadata.", 1)));
        strict.extend(duplicates.iter().map(|d| format!("duplicate field {d:?}")));
        Ok(Decoded { value: sorted(value), strict })
    }

    pub(crate) fn prepare_create(&self, object: &mut Value, applied: bool) {
        if self.has_status
            && let Some(members) = object.as_object_mut()
        {
            members.shift_remove("status");
        }
        self.default(object, applied);
    }

    /// Drops what the stored version has no place for.
    pub(crate) fn store(&self, object: &mut Value) {
        if let Some(stored) = &self.stored {
            // Objects too deep were refused when they were decoded.
            let _ = stored.prune_unknown_fields(object);
        }
    }

    /// Sets defaults; nulls that may not be go when an object is read, not when it was applied.
    pub(crate) fn default(&self, object: &mut Value, applied: bool) {
        if !applied {
            drop_nulls(object, &self.schema);
        }
        // Objects too deep were refused when they were decoded.
        if self.resource.set_defaults(object).is_ok() {
            *object = sorted(object.take());
        }
    }

    pub(crate) fn validate(&self, object: &Value, old: Option<&Value>, part: Part, out: &mut Vec<Cause>) {
        let Ok([mut values, mut items]) = self.resource.validate_in_steps(object) else { return };
        // What was wrong before and has not been touched is let be.
        if let Some(old) = old {
            values.retain(|error| !untouched(error, object, old));
            items.retain(|error| !untouched(error, object, old));
        }
        for error in &values {
            let mut cause = cause(error);
            if part == Part::Status {
                // A status is checked on its own, and named so.
                let path = error.field.strip_prefix("status").unwrap_or(&error.field);
                let path = path.strip_prefix('.').unwrap_or(path);
                let (whole, own) = (format!(": {} in body", error.field), format!(": {path} in body"));
                cause.message = cause.message.replace(&whole, &own);
            }
            if placeless(error) {
                cause.field = "<nil>".into();
            }
            out.push(cause);
        }
        if let Some(scale) = &self.scale {
            scale.check(object, part, out);
        }
        out.extend(items.iter().map(cause));
        values.append(&mut items);
        if self.resource.has_rules()
            && let Ok(broken) = self.resource.check_rules(object, old, &values, &self.rules)
        {
            out.extend(broken.iter().map(cause));
        }
    }
}

/// Whether a real server finds a mistake with a check that does not know where it is.
fn placeless(error: &FieldError) -> bool {
    let text = error.to_string();
    let ranged = ["Checked", "MultipleOf", "Minimum boundary", "Maximum boundary"];
    ranged.iter().any(|what| text.contains(&format!(": {what} value must be of type ")))
        || text.contains(&format!(": {:?} must ", error.field))
}

/// Whether an error is about a value that is as it was.
fn untouched(error: &FieldError, new: &Value, old: &Value) -> bool {
    // What is missing is a mistake of the object it is missing from.
    let path = match error.kind {
        FieldErrorKind::Required => error.field.rsplit_once('.').map_or("", |(parent, _)| parent),
        _ => error.field.as_str(),
    };
    let at = |root| -> Option<&Value> {
        let mut value: &Value = root;
        for part in path.split('.').filter(|part| !part.is_empty()) {
            let (name, indexes) = part.split_once('[').unwrap_or((part, ""));
            value = value.get(name)?;
            for index in indexes.split('[').map(|i| i.trim_end_matches(']')).filter(|i| !i.is_empty()) {
                value = match index.parse::<usize>() {
                    Ok(index) => value.get(index)?,
                    Err(_) => value.get(index.trim_matches('"'))?,
                };
            }
        }
        Some(value)
    };
    !path.is_empty() && matches!((at(new), at(old)), (Some(new), Some(old)) if new == old)
}

/// Takes out nulls that stand where neither null nor a default may.
fn drop_nulls(value: &mut Value, schema: &Value) {
    match value {
        Value::Object(members) => {
            let of = |key: &str| {
                schema["properties"]
                    .get(key)
                    .or_else(|| schema.get("additionalProperties"))
                    .filter(|s| s.is_object())
            };
            members.retain(|key, member| {
                !member.is_null()
                    || of(key).is_none_or(|s| s["nullable"] == true || s.get("default").is_some())
            });
            for (key, member) in members.iter_mut() {
                if let Some(schema) = of(key) {
                    drop_nulls(member, schema);
                }
            }
        }
        Value::Array(items) => {
            for item in items {
                drop_nulls(item, &schema["items"]);
            }
        }
        _ => {}
    }
}

fn sorted(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let mut members: Vec<_> = members.into_iter().collect();
            members.sort_by(|a, b| a.0.cmp(&b.0));
            Value::Object(members.into_iter().map(|(k, v)| (k, sorted(v))).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(sorted).collect()),
        other => other,
    }
}

/// Validates a definition itself.
pub(crate) fn validate_definition(
    kind: (&str, &str),
    object: &Value,
    old: Option<&Value>,
    out: &mut Vec<Cause>,
) {
    if kind != ("apiextensions.k8s.io", "CustomResourceDefinition") {
        return;
    }
    let found = check_definition(object);
    // Of a name that no longer fits, what made it so is said alone.
    let renamed = old.is_some_and(|old| {
        old["spec"]["group"] != object["spec"]["group"]
            || old["spec"]["names"]["plural"] != object["spec"]["names"]["plural"]
    });
    out.extend(found.iter().filter(|e| !renamed || e.field != "metadata.name").map(cause));
    if old.is_some() {
        stored_versions(object, out);
    }
    // Rules are read once the schema they stand in can be.
    if !found.iter().any(|error| error.field.contains("openAPIV3Schema")) {
        crate::api::crd_rules::check_definition(object, out);
    }
}

/// Versions that objects may still be stored in must stay in the definition.
fn stored_versions(definition: &Value, out: &mut Vec<Cause>) {
    let stored = definition["status"]["storedVersions"].as_array().map_or(&[][..], Vec::as_slice);
    let versions = definition["spec"]["versions"].as_array().map_or(&[][..], Vec::as_slice);
    for (index, name) in stored.iter().enumerate() {
        if !versions.iter().any(|version| version["name"] == *name) {
            let shown = name.as_str().unwrap_or("");
            let why = format!(
                "missing from spec.versions; {shown} was previously a storage version, and must remain in \
                 spec.versions until a storage migration ensures no data remains persisted in {shown} and \
                 removes {shown} from status.storedVersions"
            );
            out.push(Cause::invalid(format!("status.storedVersions[{index}]"), name, &why));
        }
    }
}

/// A field's problem as a status lists it.
fn cause(error: &FieldError) -> Cause {
    let reason = error.reason();
    let field = if error.field.is_empty() { "<nil>".to_owned() } else { error.field.clone() };
    let text = error.to_string();
    let message = text.strip_prefix(&format!("{field}: ")).unwrap_or(&text).to_owned();
    Cause { reason, field, message }
}

/// What a definition looks like once somebody deleted it.
pub(crate) fn terminating(core: &Core, definition: &mut Value) {
    set_condition(
        definition,
        "Terminating",
        "True",
        "InstanceDeletionPending",
        "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
        &core.now(),
    );
}

fn set_condition(definition: &mut Value, kind: &str, status: &str, reason: &str, message: &str, now: &str) {
    if !definition["status"]["conditions"].is_array() {
        definition["status"]["conditions"] = json!([]);
    }
    let generation = definition["metadata"]["generation"].clone();
    let Value::Array(conditions) = &mut definition["status"]["conditions"] else { return };
    let old = conditions.iter().position(|c| c["type"] == kind);
    let since = old
        .map(|i| &conditions[i])
        .filter(|c| c["status"] == status)
        .map_or_else(|| json!(now), |c| c["lastTransitionTime"].clone());
    let _ = generation;
    let condition = json!({
        "type": kind, "status": status, "lastTransitionTime": since, "reason": reason, "message": message,
    });
    match old {
        Some(i) => conditions[i] = condition,
        None => conditions.push(condition),
    }
}

/// Follows a definition's change: accepts its names, establishes it and serves it.
///
/// A real server does this in two steps that watchers see; all are done before the write's answer.
pub(crate) fn changed(core: &Core, created: bool, object: &Arc<Object>) {
    let value = object.value();
    let established = value["status"]["conditions"]
        .as_array()
        .is_some_and(|c| c.iter().any(|c| c["type"] == "Established" && c["status"] == "True"));
    let names = &value["spec"]["names"];
    if created || !established || value["status"]["acceptedNames"] != *names {
        let conflict = conflict(core, object, &value);
        let now = core.now();
        let accepted = step(core, &object.key, |v| match &conflict {
            Some((reason, message)) => {
                set_condition(v, "NamesAccepted", "False", reason, message, &now);
                set_condition(v, "Established", "False", "NotAccepted", "not all names are accepted", &now);
            }
            None => {
                v["status"]["acceptedNames"] = v["spec"]["names"].clone();
                set_condition(v, "NamesAccepted", "True", "NoConflicts", "no conflicts found", &now);
                if !established {
                    set_condition(
                        v,
                        "Established",
                        "False",
                        "Installing",
                        "the initial names have been accepted",
                        &now,
                    );
                }
            }
        });
        if conflict.is_none() && accepted {
            step(core, &object.key, |v| {
                set_condition(
                    v,
                    "Established",
                    "True",
                    "InitialNamesAccepted",
                    "the initial names have been accepted",
                    &now,
                );
            });
        }
    }
    // Versions once stored stay on record.
    step(core, &object.key, |v| {
        let storage: Vec<Value> = v["spec"]["versions"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|v| v["storage"] == true)
            .map(|v| v["name"].clone())
            .collect();
        if !v["status"]["storedVersions"].is_array() {
            v["status"]["storedVersions"] = json!([]);
        }
        if let Value::Array(stored) = &mut v["status"]["storedVersions"] {
            for version in storage {
                if !stored.contains(&version) {
                    stored.push(version);
                }
            }
        }
    });
    refresh(core);
}

/// Another definition of the group that has a name this one wants.
fn conflict(core: &Core, object: &Object, value: &Value) -> Option<(String, String)> {
    // Each conflict is written over the one before, so the last one stands.
    let mut found = None;
    for other in core.store.list(TABLE, None) {
        if other.key == object.key {
            continue;
        }
        let other = other.value();
        if other["spec"]["group"] != value["spec"]["group"] {
            continue;
        }
        for (key, reason) in [
            ("plural", "PluralConflict"),
            ("singular", "SingularConflict"),
            ("kind", "KindConflict"),
            ("listKind", "ListKindConflict"),
        ] {
            let name = &value["spec"]["names"][key];
            if other["status"]["acceptedNames"][key] == *name && name.is_string() {
                found = Some((reason.to_owned(), format!("{name} is already in use")));
            }
        }
    }
    found
}

fn step(core: &Core, key: &Key, mut change: impl FnMut(&mut Value)) -> bool {
    let Some(served) = core.of_table(TABLE) else { return false };
    for _ in 0..16 {
        let Some(object) = core.store.get(TABLE, key) else { return false };
        let before = core.whole(&served, &object);
        let mut value = before.clone();
        change(&mut value);
        let Ok(decoded) = crate::write::typed::decode(value, served.shape(), &[]) else { return false };
        if decoded.value == before {
            return true;
        }
        let draft = Draft::new(&decoded.value);
        let stored =
            core.store.put::<crate::store::Raced>(TABLE, key, Expect::Rev(object.rev), &draft, |_| Ok(()));
        if stored.is_ok() {
            return true;
        }
    }
    false
}

/// Serves exactly what the established definitions declare.
pub(crate) fn refresh(core: &Core) {
    // Whoever reads the definitions later must also be the later to say what is served.
    let _one_at_a_time = core.refreshing.lock().unwrap_or_else(PoisonError::into_inner);
    let mut customs = Vec::new();
    let mut seen: HashMap<String, ()> = HashMap::new();
    for object in core.store.list(TABLE, None) {
        let definition = object.value();
        let established = definition["status"]["conditions"]
            .as_array()
            .is_some_and(|c| c.iter().any(|c| c["type"] == "Established" && c["status"] == "True"));
        if !established || seen.insert(object.name().to_owned(), ()).is_some() {
            continue;
        }
        customs.extend(resources(&definition));
    }
    core.set_custom_resources(customs);
}

fn resources(definition: &Value) -> Vec<Arc<Served>> {
    let spec = &definition["spec"];
    let names = &spec["names"];
    let text = |v: &Value| v.as_str().unwrap_or("").to_owned();
    let texts = |v: &Value| -> Vec<String> {
        v.as_array().into_iter().flatten().filter_map(|s| s.as_str().map(str::to_owned)).collect()
    };
    let mut out = Vec::new();
    for version in spec["versions"].as_array().into_iter().flatten().filter(|v| v["served"] == true) {
        let custom = Arc::new(Custom::new(definition, version));
        let mut subresources = Vec::new();
        let verbs = || ["get", "patch", "update"].map(str::to_owned).to_vec();
        if custom.has_status {
            subresources.push(Subresource {
                name: "status".into(),
                group: String::new(),
                version: String::new(),
                kind: text(&names["kind"]),
                verbs: verbs(),
            });
        }
        if custom.scale.is_some() {
            subresources.push(Subresource {
                name: "scale".into(),
                group: "autoscaling".into(),
                version: "v1".into(),
                kind: "Scale".into(),
                verbs: verbs(),
            });
        }
        let def = Resource {
            group: text(&spec["group"]),
            version: text(&version["name"]),
            plural: text(&names["plural"]),
            singular: text(&names["singular"]),
            kind: text(&names["kind"]),
            namespaced: spec["scope"] == "Namespaced",
            verbs: ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"]
                .map(str::to_owned)
                .to_vec(),
            short_names: texts(&names["shortNames"]),
            categories: texts(&names["categories"]),
            subresources,
            storage_version_hash: String::new(),
        };
        let list_kind = text(&names["listKind"]);
        out.push(Arc::new(Served::of_custom(def, list_kind, custom)));
    }
    out
}
