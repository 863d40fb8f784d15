//! Apply and update, as a server does them.

use std::fmt;
use std::sync::LazyLock;

use serde_json::Value;

use super::compare::{Comparison, compare};
use super::managers::{FieldManager, FieldManagers, ManagerOperation, ManagersInput};
use super::merging::{is_same_value, merge};
use super::remove::remove_fields;
use super::sets::fields_of;
use super::typed::{DuplicateItems, TypeProblems, validate};
use crate::depth::{self, TooDeep};
use crate::fields::{FieldPath, FieldSet, PathElement};
use crate::object;
use crate::schema::{TypeRef, zero_value};

/// The manager, endpoint and time of a write.
#[derive(Clone, Copy, Debug)]
pub struct WriteRequest<'a> {
    pub manager: &'a str,
    /// The version of the endpoint.
    pub api_version: &'a str,
    /// `status`, `scale`, or empty for the object itself.
    pub subresource: &'a str,
    /// RFC 3339 in whole seconds.
    pub now: &'a str,
    /// Fields this endpoint does not write (`status` of the main one); nobody comes to own them by it.
    pub reset: Option<&'a FieldSet>,
    /// The versions served of this kind. Entries of others are dropped; empty means all are served.
    pub served: &'a [&'a str],
}

/// One field another manager owns with another value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldConflict {
    pub manager: FieldManager,
    pub path: FieldPath,
}

impl FieldConflict {
    /// The message of the cause a server reports: `conflict with "edit" using v1`.
    pub fn cause_message(&self) -> String {
        format!("conflict with {}", self.manager)
    }
}

/// Every conflict of one apply; prints as the server's message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldConflicts(pub Vec<FieldConflict>);

impl fmt::Display for FieldConflicts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [only] = self.0.as_slice() {
            return write!(f, "Apply failed with 1 conflict: conflict with {}: {}", only.manager, only.path);
        }
        write!(f, "Apply failed with {} conflicts: ", self.0.len())?;
        let mut current: Option<&FieldManager> = None;
        for conflict in &self.0 {
            if current.is_none_or(|manager| !manager.is_same(&conflict.manager)) {
                let line = if current.is_some() { "\n" } else { "" };
                write!(f, "{line}conflicts with {}:", conflict.manager)?;
                current = Some(&conflict.manager);
            }
            write!(f, "\n- {}", conflict.path)?;
        }
        Ok(())
    }
}

impl std::error::Error for FieldConflicts {}

/// The reason a write cannot be done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    #[error(transparent)]
    TooDeep(#[from] TooDeep),
    /// The configuration carries `managedFields`.
    #[error("metadata.managedFields must be nil")]
    ManagedFields,
    /// The configuration is of another type than the endpoint.
    #[error("invalid object type: {0}")]
    WrongType(object::Gvk),
    /// A value does not fit its type.
    #[error("failed to create typed {which} object ({id}): {problems}")]
    Type { which: &'static str, id: String, problems: TypeProblems },
    #[error(transparent)]
    Conflicts(FieldConflicts),
}

/// The result of an apply.
#[derive(Clone, Debug, PartialEq)]
pub struct AppliedObject {
    /// The whole object, with `managedFields`.
    pub object: Value,
    /// True if anything but `managedFields` changed.
    pub changed: bool,
}

/// Fields whose ownership is not recorded.
static UNTRACKED_FIELDS: LazyLock<FieldSet> = LazyLock::new(|| {
    let metadata = [
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "selfLink",
        "managedFields",
        "clusterName",
    ];
    let mut paths = vec![
        FieldPath::from_names(["apiVersion"]),
        FieldPath::from_names(["kind"]),
        FieldPath::from_names(["metadata"]),
    ];
    paths.extend(metadata.iter().map(|field| FieldPath::from_names(["metadata", field])));
    paths.iter().collect()
});

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
const KUBECTL: &str = "kubectl";
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

impl WriteRequest<'_> {
    fn manager_entry(&self, operation: ManagerOperation, fields: FieldSet) -> FieldManager {
        FieldManager {
            name: if self.manager.is_empty() { "unknown" } else { self.manager }.to_owned(),
            operation,
            api_version: self.api_version.to_owned(),
            subresource: self.subresource.to_owned(),
            time: None,
            fields,
        }
    }

    fn is_served(&self, manager: &FieldManager) -> bool {
        self.served.is_empty() || self.served.contains(&manager.api_version.as_str())
    }

    fn without_reset(&self, set: FieldSet) -> FieldSet {
        match self.reset {
            Some(reset) => set.recursive_difference(reset),
            None => set,
        }
    }
}

/// Records who changed what when an object is created, replaced or patched: gives `new` with its
/// `managedFields`. `live` is `None` for a new object.
pub fn update(
    live: Option<&Value>,
    mut new: Value,
    kind: TypeRef<'_>,
    request: &WriteRequest<'_>,
) -> Result<Value, ApplyError> {
    depth::check_depth(&new)?;
    if let Some(live) = live {
        depth::check_depth(live)?;
    }
    let live_managers = || live.and_then(|live| FieldManagers::read_from(live).ok()).unwrap_or_default();
    let said =
        if request.subresource.is_empty() { FieldManagers::read_input(&new) } else { ManagersInput::Nothing };
    let mut managers = match said {
        ManagersInput::Reset => FieldManagers::default(),
        ManagersInput::Entries(Ok(managers)) if !managers.0.is_empty() => managers,
        // Clients that do not know the field must not delete it by accident.
        _ => live_managers(),
    };
    // Once nobody is recorded, nobody is until the next apply.
    if live.is_some() && managers.0.is_empty() {
        managers.write_to(&mut new);
        return Ok(new);
    }
    let zero = live.is_none().then(|| zero_value(kind));
    let before = live.or(zero.as_ref()).unwrap_or(&Value::Null);
    record_update(before, &new, kind, &mut managers, request);
    managers.fold_oldest_updates();
    managers.write_to(&mut new);
    Ok(new)
}

fn record_update(
    before: &Value,
    after: &Value,
    kind: TypeRef<'_>,
    managers: &mut FieldManagers,
    request: &WriteRequest<'_>,
) {
    let comparison = without_reset_fields(compare(before, after, kind), request);
    let changed = comparison.modified.union(&comparison.added);
    managers.0.retain(|manager| request.is_served(manager));
    for manager in &mut managers.0 {
        manager.fields = manager.fields.difference(&changed).difference(&comparison.removed);
    }
    let taken = changed.difference(&UNTRACKED_FIELDS);
    if !taken.is_empty() {
        let mut own = request.manager_entry(ManagerOperation::Update, taken);
        own.time = Some(request.now.to_owned());
        match managers.0.iter_mut().find(|manager| manager.is_same(&own)) {
            Some(known) => {
                own.fields = own.fields.union(&known.fields);
                *known = own;
            }
            None => managers.0.push(own),
        }
    }
    managers.0.retain(|manager| !manager.fields.is_empty());
}

fn without_reset_fields(comparison: Comparison, request: &WriteRequest<'_>) -> Comparison {
    Comparison {
        removed: request.without_reset(comparison.removed),
        modified: request.without_reset(comparison.modified),
        added: request.without_reset(comparison.added),
    }
}

/// Applies a configuration. `live` is `None` for a new object.
///
/// The configuration is checked against its type first: undeclared fields, wrong types and duplicate
/// list items are errors. Fields the manager applied before and no longer does are removed unless
/// someone else owns them. Fields others own with other values are conflicts unless `force` is set.
pub fn apply(
    live: Option<&Value>,
    config: &Value,
    kind: TypeRef<'_>,
    request: &WriteRequest<'_>,
    force: bool,
) -> Result<AppliedObject, ApplyError> {
    depth::check_depth(config)?;
    if config
        .get("metadata")
        .and_then(|metadata| metadata.get("managedFields"))
        .is_some_and(|fields| !fields.is_null())
    {
        return Err(ApplyError::ManagedFields);
    }
    if object::api_version(config).is_some_and(|version| version != request.api_version) {
        return Err(ApplyError::WrongType(object::gvk(config)));
    }
    validate(config, kind, DuplicateItems::Refused)
        .map_err(|problems| type_error("patch", config, problems))?;
    let Some(live) = live else {
        let mut own =
            request.manager_entry(ManagerOperation::Apply, request.without_reset(fields_of(config, kind)));
        own.fields = own.fields.difference(&UNTRACKED_FIELDS);
        own.time = Some(request.now.to_owned());
        let mut object = config.clone();
        FieldManagers(vec![own]).write_to(&mut object);
        return Ok(AppliedObject { object, changed: true });
    };
    depth::check_depth(live)?;
    let mut managers = FieldManagers::read_from(live).unwrap_or_default();
    if managers.0.is_empty() {
        let first = WriteRequest { manager: BEFORE_FIRST_APPLY, reset: None, ..*request };
        record_update(&zero_value(kind), live, kind, &mut managers, &first);
    }
    let attempt = apply_once(live, config, kind, &managers, request, force);
    let (mut object, mut managers) = match attempt {
        Err(ApplyError::Conflicts(conflicts)) if request.manager == KUBECTL => {
            // What kubectl applied on the client and nobody touched since is kubectl's to change.
            let left = unallowed_conflicts(conflicts, live, kind);
            if !left.0.is_empty() {
                return Err(ApplyError::Conflicts(left));
            }
            apply_once(live, config, kind, &managers, request, true)?
        }
        other => other?,
    };
    if request.manager == KUBECTL && object::annotation(live, LAST_APPLIED).is_some() {
        object::set_annotation(&mut object, LAST_APPLIED, &last_applied_annotation(config));
    }
    let changed = !is_same_value(live, &object);
    if changed {
        let own = request.manager_entry(ManagerOperation::Apply, FieldSet::new());
        for manager in managers.0.iter_mut().filter(|manager| manager.is_same(&own)) {
            manager.time = Some(request.now.to_owned());
        }
    }
    managers.write_to(&mut object);
    Ok(AppliedObject { object, changed })
}

fn type_error(which: &'static str, object: &Value, problems: TypeProblems) -> ApplyError {
    let id = format!(
        "{}/{}; {}",
        object::namespace(object).unwrap_or_default(),
        object::name(object).unwrap_or_default(),
        object::gvk(object)
    );
    ApplyError::Type { which, id, problems }
}

fn apply_once(
    live: &Value,
    config: &Value,
    kind: TypeRef<'_>,
    managers: &FieldManagers,
    request: &WriteRequest<'_>,
    force: bool,
) -> Result<(Value, FieldManagers), ApplyError> {
    let own = request.manager_entry(ManagerOperation::Apply, request.without_reset(fields_of(config, kind)));
    let last = managers.0.iter().find(|manager| manager.is_same(&own));
    let merged = merge(live, config, kind);
    let object = match last {
        Some(last) if request.is_served(last) => prune_fields(merged, &own.fields, last, managers, kind),
        _ => merged,
    };
    let comparison = without_reset_fields(compare(live, &object, kind), request);
    let changed = comparison.modified.union(&comparison.added);
    let mut left = FieldManagers::default();
    let mut conflicts: Vec<FieldConflict> = Vec::new();
    for manager in managers.0.iter().filter(|manager| !manager.is_same(&own) && request.is_served(manager)) {
        let contested = manager.fields.intersection(&changed);
        if !contested.is_empty() && !force {
            let paths = contested.paths().into_iter();
            conflicts.extend(paths.map(|path| FieldConflict {
                manager: FieldManager { fields: FieldSet::new(), ..manager.clone() },
                path,
            }));
        }
        let fields = manager.fields.difference(&contested).difference(&comparison.removed);
        if !fields.is_empty() {
            left.0.push(FieldManager { fields, ..manager.clone() });
        }
    }
    if !conflicts.is_empty() {
        conflicts.sort_by_key(|conflict| conflict.manager.sort_key());
        return Err(ApplyError::Conflicts(FieldConflicts(conflicts)));
    }
    let time = last.and_then(|last| last.time.clone());
    left.0.push(FieldManager { fields: own.fields.difference(&UNTRACKED_FIELDS), time, ..own });
    Ok((object, left))
}

/// Removes what the manager applied before and no longer does, unless someone else owns it.
fn prune_fields(
    merged: Value,
    new: &FieldSet,
    last: &FieldManager,
    managers: &FieldManagers,
    kind: TypeRef<'_>,
) -> Value {
    let mut owned = new.clone();
    for manager in managers.0.iter().filter(|manager| !manager.is_same(last)) {
        owned = owned.union(&manager.fields);
    }
    let owned = owned.with_named_fields(kind);
    let last = last.fields.with_named_fields(kind);
    if last.is_subset(&owned) {
        return merged;
    }
    let everything = fields_of(&merged, kind).with_named_fields(kind);
    let without_last = fields_of(&remove_fields(&merged, &last, kind), kind).with_named_fields(kind);
    // Give back what someone owns, and with it all that stands above it.
    let unowned = everything.difference(&without_last.union(&owned));
    let pruned = fields_of(&remove_fields(&merged, &unowned, kind), kind).with_named_fields(kind);
    // Give back what was never applied but stood below what was.
    let gone = everything.difference(&pruned).intersection(&last);
    match remove_fields(&merged, &gone, kind) {
        Value::Null => Value::Object(serde_json::Map::new()),
        object => object,
    }
}

/// The conflicts that remain once those are left out where the live value is the one kubectl applied
/// last on the client.
fn unallowed_conflicts(conflicts: FieldConflicts, live: &Value, kind: TypeRef<'_>) -> FieldConflicts {
    let Some(last) =
        object::annotation(live, LAST_APPLIED).and_then(|json| serde_json::from_str::<Value>(json).ok())
    else {
        return conflicts;
    };
    if depth::check_depth(&last).is_err() {
        return conflicts;
    }
    let comparison = compare(&last, live, kind);
    let allowed = fields_of(&last, kind).difference(&comparison.modified).difference(&comparison.removed);
    FieldConflicts(conflicts.0.into_iter().filter(|conflict| !allowed.contains(&conflict.path.0)).collect())
}

/// The annotation the server writes for kubectl: the configuration, keys sorted, with a newline.
fn last_applied_annotation(config: &Value) -> String {
    let mut config = config.clone();
    if let Some(annotations) = config.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.shift_remove(LAST_APPLIED);
    }
    config.sort_all_objects();
    format!("{config}\n")
}

impl FieldSet {
    /// A set of one field of the object: what endpoints give as [`WriteRequest::reset`].
    pub fn of_field(name: &str) -> FieldSet {
        let mut set = FieldSet::new();
        set.insert(&[PathElement::field(name)]);
        set
    }
}
