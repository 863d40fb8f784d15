//! `metadata.managedFields`: who set what, when, and how.

use std::fmt;

use serde_json::{Map, Value};

use crate::fields::{FieldsV1Error, Set};

/// How a manager came to own its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    Apply,
    Update,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        })
    }
}

/// One entry of `managedFields`.
///
/// Prints as conflicts name it: `"kubectl"`, `"edit" using v1`, `"hpa" with subresource "scale" using apps/v1`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manager {
    pub name: String,
    pub operation: Operation,
    pub api_version: String,
    pub subresource: String,
    /// RFC 3339 in whole seconds; absent when ownership was shared without changing a value.
    pub time: Option<String>,
    pub fields: Set,
}

impl fmt::Display for Manager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.name)?;
        if !self.subresource.is_empty() {
            write!(f, " with subresource {:?}", self.subresource)?;
        }
        if self.operation == Operation::Update {
            write!(f, " using {}", self.api_version)?;
        }
        Ok(())
    }
}

impl Manager {
    /// Whether two entries are the same manager's. An applier is the same in every version.
    pub fn is_same(&self, other: &Manager) -> bool {
        self.name == other.name
            && self.operation == other.operation
            && self.subresource == other.subresource
            && (self.operation == Operation::Apply || self.api_version == other.api_version)
    }

    /// Orders managers as conflict messages do.
    pub(super) fn sort_key(&self) -> (String, String, String, String) {
        let version =
            if self.operation == Operation::Apply { String::new() } else { self.api_version.clone() };
        (self.name.clone(), self.operation.to_string(), version, self.subresource.clone())
    }
}

/// Why `managedFields` cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ManagersError {
    #[error("operation must be `Apply` or `Update`")]
    Operation,
    #[error("apiVersion must not be empty")]
    ApiVersion,
    #[error("missing fieldsType in managed fields entry {0}")]
    NoFieldsType(usize),
    #[error("invalid fieldsType {1:?} in managed fields entry {0}")]
    FieldsType(usize, String),
    #[error("managedFields must be a list of maps")]
    NotAList,
    #[error(transparent)]
    Fields(#[from] FieldsV1Error),
}

/// The entries of `managedFields`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Managers(pub Vec<Manager>);

/// What an object says about its managers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Said {
    Nothing,
    /// `[]` or `[{}]`: forget them all.
    Reset,
    Entries(Result<Managers, ManagersError>),
}

pub(super) const OLD_CHANGES: &str = "ancient-changes";
/// More Update entries than this are folded together, oldest first.
const MOST_UPDATERS: usize = 10;

impl Managers {
    /// Reads the managers of an object.
    pub fn of(object: &Value) -> Result<Managers, ManagersError> {
        match object.get("metadata").and_then(|metadata| metadata.get("managedFields")) {
            None | Some(Value::Null) => Ok(Managers::default()),
            Some(entries) => Self::read(entries),
        }
    }

    pub(super) fn said_by(object: &Value) -> Said {
        match object.get("metadata").and_then(|metadata| metadata.get("managedFields")) {
            None | Some(Value::Null) => Said::Nothing,
            Some(Value::Array(entries)) if is_reset(entries) => Said::Reset,
            Some(entries) => Said::Entries(Self::read(entries)),
        }
    }

    /// Reads a `managedFields` list.
    pub fn read(entries: &Value) -> Result<Managers, ManagersError> {
        let entries = entries.as_array().ok_or(ManagersError::NotAList)?;
        let mut managers = Managers::default();
        for (index, entry) in entries.iter().enumerate() {
            let entry = entry.as_object().ok_or(ManagersError::NotAList)?;
            let text = |key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default();
            let operation = match text("operation") {
                "Apply" => Operation::Apply,
                "Update" => Operation::Update,
                _ => return Err(ManagersError::Operation),
            };
            if text("apiVersion").is_empty() {
                return Err(ManagersError::ApiVersion);
            }
            match text("fieldsType") {
                "FieldsV1" => {}
                "" => return Err(ManagersError::NoFieldsType(index)),
                other => return Err(ManagersError::FieldsType(index, other.to_owned())),
            }
            let manager = Manager {
                name: text("manager").to_owned(),
                operation,
                api_version: text("apiVersion").to_owned(),
                subresource: text("subresource").to_owned(),
                time: Some(text("time").to_owned()).filter(|time| !time.is_empty()),
                fields: Set::from_fields_v1(entry.get("fieldsV1").unwrap_or(&Value::Null))?,
            };
            managers.put(manager);
        }
        Ok(managers)
    }

    /// Adds an entry, or joins it with the same manager's.
    fn put(&mut self, manager: Manager) {
        match self.0.iter_mut().find(|known| known.is_same(&manager)) {
            Some(known) => *known = manager,
            None => self.0.push(manager),
        }
    }

    /// Finds an entry.
    pub fn find(&self, name: &str, operation: Operation, subresource: &str) -> Option<&Manager> {
        self.0.iter().find(|manager| {
            manager.name == name && manager.operation == operation && manager.subresource == subresource
        })
    }

    /// Writes the list: appliers first, then by time, then by name; entries without fields are left out.
    pub fn write(&self) -> Value {
        let mut managers: Vec<&Manager> =
            self.0.iter().filter(|manager| !manager.fields.is_empty()).collect();
        managers.sort_by(|a, b| {
            (a.operation, &a.time, &a.name, &a.api_version, &a.subresource).cmp(&(
                b.operation,
                &b.time,
                &b.name,
                &b.api_version,
                &b.subresource,
            ))
        });
        managers.into_iter().map(entry).collect()
    }

    /// Puts the list into an object, or takes it out when there is nothing to say.
    pub fn write_to(&self, object: &mut Value) {
        let Some(metadata) = crate::object::metadata_mut(object) else { return };
        match self.write() {
            Value::Array(entries) if entries.is_empty() => {
                metadata.shift_remove("managedFields");
            }
            entries => {
                metadata.insert("managedFields".to_owned(), entries);
            }
        }
    }

    /// Folds the oldest Update entries together when there are too many, one per version.
    pub(super) fn cap(&mut self) {
        let mut updaters: Vec<usize> =
            (0..self.0.len()).filter(|&at| self.0[at].operation == Operation::Update).collect();
        let mut left = updaters.len();
        if left <= MOST_UPDATERS {
            return;
        }
        updaters.sort_by(|&a, &b| {
            (&self.0[a].time, self.0[a].sort_key()).cmp(&(&self.0[b].time, self.0[b].sort_key()))
        });
        let mut buckets: Vec<(String, usize)> = Vec::new();
        let mut gone = vec![false; self.0.len()];
        for at in updaters {
            if left <= MOST_UPDATERS {
                break;
            }
            let version = self.0[at].api_version.clone();
            let Some(&(_, bucket)) = buckets.iter().find(|(known, _)| *known == version) else {
                buckets.push((version, at));
                continue;
            };
            let (fields, time) = (self.0[at].fields.clone(), self.0[at].time.clone());
            let bucket = &mut self.0[bucket];
            bucket.name = OLD_CHANGES.to_owned();
            bucket.subresource = String::new();
            bucket.fields = bucket.fields.union(&fields);
            bucket.time = time;
            gone[at] = true;
            left -= 1;
        }
        let mut gone = gone.into_iter();
        self.0.retain(|_| !gone.next().unwrap_or(false));
    }
}

fn is_reset(entries: &[Value]) -> bool {
    match entries {
        [] => true,
        [only] => only.as_object().is_some_and(Map::is_empty),
        _ => false,
    }
}

fn entry(manager: &Manager) -> Value {
    let mut entry = Map::new();
    let mut put = |key: &str, value: Value| {
        entry.insert(key.to_owned(), value);
    };
    put("manager", manager.name.as_str().into());
    put("operation", manager.operation.to_string().into());
    put("apiVersion", manager.api_version.as_str().into());
    if let Some(time) = &manager.time {
        put("time", time.as_str().into());
    }
    put("fieldsType", "FieldsV1".into());
    put("fieldsV1", manager.fields.to_fields_v1());
    if !manager.subresource.is_empty() {
        put("subresource", manager.subresource.as_str().into());
    }
    Value::Object(entry)
}
