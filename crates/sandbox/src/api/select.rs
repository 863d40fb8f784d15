//! Label and field selectors of lists and watches.

use serde_json::{Value, json};
use slipway_manifest::selector::{FieldSelector, LabelSelector};

use crate::api::resource::Served;
use crate::status::{Cause, Result, Status};
use crate::store::Object;
use crate::write::admit::rules;

/// Selectors longer than this are refused.
const LONGEST: usize = 64 * 1024;

/// A label selector; the empty one selects everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Labels(LabelSelector);

impl Labels {
    pub fn parse(text: &str) -> std::result::Result<Labels, String> {
        if text.len() > LONGEST {
            return Err("the label selector is too long".into());
        }
        LabelSelector::parse(text).map(Labels).map_err(|e| e.to_string())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether an object has the labels asked for.
    pub fn matches(&self, object: &Object) -> bool {
        self.0.matches(|key| object.label(key))
    }

    /// A selector of `LabelSelector` form, as objects carry it. Null selects nothing.
    pub fn of_selector(selector: &Value) -> Option<Labels> {
        LabelSelector::from_object(selector).ok().flatten().map(Labels)
    }

    /// A selector of plain `key: value` form, as services and replication controllers carry it.
    pub fn of_map(map: &Value) -> Labels {
        Labels::of_selector(&json!({"matchLabels": map})).unwrap_or_default()
    }
}

/// A field selector.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fields(Vec<Field>);

#[derive(Debug, Clone)]
struct Field {
    place: Place,
    equal: bool,
    value: String,
}

#[derive(Debug, Clone)]
enum Place {
    Name,
    Namespace,
    Pointer(String),
}

impl Fields {
    pub(crate) fn parse(text: &str, served: &Served) -> Result<Fields> {
        if text.len() > LONGEST {
            return Err(Status::bad_request("the field selector is too long"));
        }
        let parsed = FieldSelector::parse(text).map_err(|e| Status::bad_request(e.to_string()))?;
        let mut out = Vec::new();
        for r in parsed.0 {
            out.push(Field { place: place(&r.field, served)?, equal: !r.negated, value: r.value });
        }
        Ok(Fields(out))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether one name is asked for.
    pub(crate) fn is_name(&self) -> bool {
        self.0.iter().any(|field| field.equal && matches!(field.place, Place::Name))
    }

    pub(crate) fn matches(&self, object: &Object) -> bool {
        if self.0.is_empty() {
            return true;
        }
        let mut parsed: Option<Value> = None;
        self.0.iter().all(|field| {
            let equal = match &field.place {
                Place::Name => *object.key.name == *field.value,
                Place::Namespace => *object.key.namespace == *field.value,
                Place::Pointer(path) => {
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

fn place(key: &str, served: &Served) -> Result<Place> {
    match key {
        "metadata.name" => return Ok(Place::Name),
        "metadata.namespace" => return Ok(Place::Namespace),
        _ => {}
    }
    if let Some(custom) = &served.custom {
        if let Some(pointer) = custom.selectable(key) {
            return Ok(Place::Pointer(pointer));
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
    match rules::selectable(&served.table) {
        Some(known) => match known.iter().find(|(name, _)| *name == key) {
            Some((_, pointer)) => Ok(Place::Pointer((*pointer).to_owned())),
            None if &*served.table == "jobs.batch" => {
                Err(Status::bad_request(format!("field label {} not supported for Job", json!(key))))
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
pub(crate) struct Filter {
    pub labels: Labels,
    pub fields: Fields,
}

impl Filter {
    pub(crate) fn read(query: &crate::http::query::Query, served: &Served) -> Result<Filter> {
        let labels = match query.some("labelSelector") {
            Some(text) => Labels::parse(text).map_err(Status::bad_request)?,
            None => Labels::default(),
        };
        let fields = match query.some("fieldSelector") {
            Some(text) => Fields::parse(text, served)?,
            None => Fields::default(),
        };
        Ok(Filter { labels, fields })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    pub(crate) fn matches(&self, object: &Object) -> bool {
        self.labels.matches(object) && self.fields.matches(object)
    }
}

/// 422 about list options.
pub(crate) fn bad_list_option(causes: Vec<Cause>) -> Box<Status> {
    crate::http::query::bad_option("ListOptions", causes)
}
