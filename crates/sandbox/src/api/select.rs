//! Label and field selectors of lists and watches.

use serde_json::{Value, json};
use slipway_manifest::selector::{FieldSelector, LabelSelector};

use crate::api::resource::ServedResource;
use crate::status::{Result, Status, StatusCause};
use crate::store::StoredObject;
use crate::write::admit::rules;

/// Selectors longer than this are refused.
const LONGEST: usize = 64 * 1024;

/// A label selector; the empty one selects everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LabelFilter(LabelSelector);

impl LabelFilter {
    pub fn parse(text: &str) -> std::result::Result<LabelFilter, String> {
        if text.len() > LONGEST {
            return Err("the label selector is too long".into());
        }
        LabelSelector::parse(text).map(LabelFilter).map_err(|e| e.to_string())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns true if an object has the labels asked for.
    pub fn matches(&self, object: &StoredObject) -> bool {
        self.0.matches(|key| object.label(key))
    }

    /// A selector of `LabelSelector` form, as objects carry it. Null selects nothing.
    pub fn of_selector(selector: &Value) -> Option<LabelFilter> {
        LabelSelector::from_object(selector).ok().flatten().map(LabelFilter)
    }

    /// A selector of plain `key: value` form, as services and replication controllers carry it.
    pub fn of_map(map: &Value) -> LabelFilter {
        LabelFilter::of_selector(&json!({"matchLabels": map})).unwrap_or_default()
    }
}

/// A field selector.
#[derive(Debug, Clone, Default)]
pub(crate) struct FieldFilter(Vec<FieldTerm>);

#[derive(Debug, Clone)]
struct FieldTerm {
    place: FieldPlace,
    equal: bool,
    value: String,
}

#[derive(Debug, Clone)]
enum FieldPlace {
    Name,
    Namespace,
    Pointer(String),
    /// The component that reports an event, in the older place or the newer.
    EventSource,
}

impl FieldFilter {
    pub(crate) fn parse(text: &str, served: &ServedResource) -> Result<FieldFilter> {
        if text.len() > LONGEST {
            return Err(Status::bad_request("the field selector is too long"));
        }
        let parsed = FieldSelector::parse(text).map_err(|e| Status::bad_request(e.to_string()))?;
        let mut out = Vec::new();
        for r in parsed.0 {
            out.push(FieldTerm { place: field_place(&r.field, served)?, equal: !r.negated, value: r.value });
        }
        Ok(FieldFilter(out))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns true if the selector asks for one name.
    pub(crate) fn is_name(&self) -> bool {
        self.0.iter().any(|field| field.equal && matches!(field.place, FieldPlace::Name))
    }

    pub(crate) fn matches(&self, object: &StoredObject) -> bool {
        if self.0.is_empty() {
            return true;
        }
        let mut parsed: Option<Value> = None;
        self.0.iter().all(|field| {
            let text_at = |value: &Value, path: &str| {
                value.pointer(path).and_then(Value::as_str).unwrap_or("").to_owned()
            };
            let equal = match &field.place {
                FieldPlace::EventSource => {
                    let value = parsed.get_or_insert_with(|| object.value());
                    let mut found = text_at(value, "/source/component");
                    if found.is_empty() {
                        found = text_at(value, "/reportingComponent");
                    }
                    found == field.value
                }
                FieldPlace::Name => *object.key.name == *field.value,
                FieldPlace::Namespace => *object.key.namespace == *field.value,
                FieldPlace::Pointer(path) => {
                    let value = parsed.get_or_insert_with(|| object.value());
                    let found = match value.pointer(path) {
                        Some(Value::String(s)) => s.clone(),
                        Some(Value::Bool(b)) => b.to_string(),
                        Some(Value::Number(n)) => n.to_string(),
                        _ if path.ends_with("replicas") || path.ends_with("succeeded") => "0".into(),
                        _ if path.ends_with("unschedulable") || path.ends_with("hostNetwork") => {
                            "false".into()
                        }
                        _ => String::new(),
                    };
                    found == field.value
                }
            };
            equal == field.equal
        })
    }
}

fn field_place(key: &str, served: &ServedResource) -> Result<FieldPlace> {
    match key {
        "metadata.name" => return Ok(FieldPlace::Name),
        "metadata.namespace" => return Ok(FieldPlace::Namespace),
        _ => {}
    }
    if let Some(custom) = &served.custom {
        if let Some(pointer) = custom.selectable_path(key) {
            return Ok(FieldPlace::Pointer(pointer));
        }
        return Err(Status::bad_request(format!("field label not supported: {key}")));
    }
    // Each version of events knows only its own names.
    let foreign = match (&*served.table, served.def.group.as_str()) {
        ("events", "events.k8s.io") => {
            key.starts_with("involvedObject.") || matches!(key, "source" | "reportingComponent")
        }
        ("events", _) => key.starts_with("regarding.") || key == "reportingController",
        _ => false,
    };
    if foreign {
        return Err(Status::bad_request(format!("field label not supported: {key}")));
    }
    if (&*served.table, key) == ("events", "source") {
        return Ok(FieldPlace::EventSource);
    }
    match rules::selectable_fields(&served.table) {
        Some(known) => match known.iter().find(|(name, _)| *name == key) {
            Some((_, pointer)) => Ok(FieldPlace::Pointer((*pointer).to_owned())),
            None if &*served.table == "jobs.batch" => {
                Err(Status::bad_request(format!("field label {} not supported for Job", json!(key))))
            }
            None if &*served.table == "resourceslices.resource.k8s.io" => {
                let version = &served.def.version;
                Err(Status::bad_request(format!(
                    "field label not supported for resource.k8s.io/{version}, Kind=ResourceSlice: {key}"
                )))
            }
            None if &*served.table == "replicasets.apps" => Err(unknown_field(key)),
            None => Err(Status::bad_request(format!("field label not supported: {key}"))),
        },
        None => Err(unknown_field(key)),
    }
}

fn unknown_field(key: &str) -> Box<Status> {
    Status::bad_request(format!(
        "{} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
        json!(key)
    ))
}

/// Both selectors of a list or watch.
#[derive(Debug, Clone, Default)]
pub(crate) struct ObjectFilter {
    pub labels: LabelFilter,
    pub fields: FieldFilter,
}

impl ObjectFilter {
    pub(crate) fn from_query(
        query: &crate::http::query::QueryParameters,
        served: &ServedResource,
    ) -> Result<ObjectFilter> {
        let labels = match query.non_empty("labelSelector") {
            Some(text) => LabelFilter::parse(text).map_err(Status::bad_request)?,
            None => LabelFilter::default(),
        };
        let fields = match query.non_empty("fieldSelector") {
            Some(text) => FieldFilter::parse(text, served)?,
            None => FieldFilter::default(),
        };
        Ok(ObjectFilter { labels, fields })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    pub(crate) fn matches(&self, object: &StoredObject) -> bool {
        self.labels.matches(object) && self.fields.matches(object)
    }
}

/// 422 about list options.
pub(crate) fn bad_list_option(causes: Vec<StatusCause>) -> Box<Status> {
    crate::http::query::bad_option("ListOptions", causes)
}
