//! `metadata.managedFields`: the fields each manager owns, and since when.

use std::fmt;

use serde_json::{Map, Value};

use crate::fields::{FieldSet, FieldsV1Error};

/// The kind of write by which a manager came to own its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ManagerOperation {
    Apply,
    Update,
}

impl fmt::Display for ManagerOperation {
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
pub struct FieldManager {
    pub name: String,
    pub operation: ManagerOperation,
    pub api_version: String,
    pub subresource: String,
    /// RFC 3339 in whole seconds; absent when ownership was shared without changing a value.
    pub time: Option<String>,
    pub fields: FieldSet,
}

impl fmt::Display for FieldManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.name)?;
        if !self.subresource.is_empty() {
            write!(f, " with subresource {:?}", self.subresource)?;
        }
        if self.operation == ManagerOperation::Update {
            write!(f, " using {}", self.api_version)?;
        }
        Ok(())
    }
}

impl FieldManager {
    /// Returns true if two entries are the same manager's. An applier is the same in every version.
    pub fn is_same(&self, other: &FieldManager) -> bool {
        self.name == other.name
            && self.operation == other.operation
            && self.subresource == other.subresource
            && (self.operation == ManagerOperation::Apply || self.api_version == other.api_version)
    }

    /// Orders managers as conflict messages do.
    pub(super) fn sort_key(&self) -> (String, String, String, String) {
        let version =
            if self.operation == ManagerOperation::Apply { String::new() } else { self.api_version.clone() };
        (self.name.clone(), self.operation.to_string(), version, self.subresource.clone())
    }
}

/// The reason `managedFields` cannot be read.
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
pub struct FieldManagers(pub Vec<FieldManager>);

/// The `managedFields` a written object carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ManagersInput {
    Nothing,
    /// `[]` or `[{}]`: forget them all.
    Reset,
    Entries(Result<FieldManagers, ManagersError>),
}

pub(super) const OLD_CHANGES: &str = "ancient-changes";
/// More Update entries than this are folded together, oldest first.
const MOST_UPDATERS: usize = 10;

impl FieldManagers {
    /// Reads the managers of an object.
    pub fn read_from(object: &Value) -> Result<FieldManagers, ManagersError> {
        match object.get("metadata").and_then(|metadata| metadata.get("managedFields")) {
            None | Some(Value::Null) => Ok(FieldManagers::default()),
            Some(entries) => Self::parse_entries(entries),
        }
    }

    pub(super) fn read_input(object: &Value) -> ManagersInput {
        match object.get("metadata").and_then(|metadata| metadata.get("managedFields")) {
            None | Some(Value::Null) => ManagersInput::Nothing,
            Some(Value::Array(entries)) if is_reset(entries) => ManagersInput::Reset,
            Some(entries) => ManagersInput::Entries(Self::parse_entries(entries)),
        }
    }

    /// Reads a `managedFields` list.
    pub fn parse_entries(entries: &Value) -> Result<FieldManagers, ManagersError> {
        let entries = entries.as_array().ok_or(ManagersError::NotAList)?;
        let mut managers = FieldManagers::default();
        for (index, entry) in entries.iter().enumerate() {
            let entry = entry.as_object().ok_or(ManagersError::NotAList)?;
            let text = |key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default();
            let operation = match text("operation") {
                "Apply" => ManagerOperation::Apply,
                "Update" => ManagerOperation::Update,
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
            let manager = FieldManager {
                name: text("manager").to_owned(),
                operation,
                api_version: text("apiVersion").to_owned(),
                subresource: text("subresource").to_owned(),
                time: Some(text("time").to_owned()).filter(|time| !time.is_empty()),
                fields: FieldSet::from_fields_v1(entry.get("fieldsV1").unwrap_or(&Value::Null))?,
            };
            managers.insert_or_replace(manager);
        }
        Ok(managers)
    }

    /// Adds an entry, or joins it with the same manager's.
    fn insert_or_replace(&mut self, manager: FieldManager) {
        match self.0.iter_mut().find(|known| known.is_same(&manager)) {
            Some(known) => *known = manager,
            None => self.0.push(manager),
        }
    }

    /// Finds an entry.
    pub fn find_entry(
        &self,
        name: &str,
        operation: ManagerOperation,
        subresource: &str,
    ) -> Option<&FieldManager> {
        self.0.iter().find(|manager| {
            manager.name == name && manager.operation == operation && manager.subresource == subresource
        })
    }

    /// Writes the list: appliers first, then by time, then by name; entries without fields are left out.
    pub fn to_entries(&self) -> Value {
        let mut managers: Vec<&FieldManager> =
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
        managers.into_iter().map(manager_entry).collect()
    }

    /// Puts the list into an object, or takes it out when there is nothing to say.
    pub fn write_to(&self, object: &mut Value) {
        let Some(metadata) = crate::object::metadata_mut(object) else { return };
        match self.to_entries() {
            Value::Array(entries) if entries.is_empty() => {
                metadata.shift_remove("managedFields");
            }
            entries => {
                metadata.insert("managedFields".to_owned(), entries);
            }
        }
    }

    /// Folds the oldest Update entries together when there are too many, one per version.
    pub(super) fn fold_oldest_updates(&mut self) {
        let mut updaters: Vec<usize> =
            (0..self.0.len()).filter(|&at| self.0[at].operation == ManagerOperation::Update).collect();
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

fn manager_entry(manager: &FieldManager) -> Value {
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
