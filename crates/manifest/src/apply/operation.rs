//! Apply and update, as a server does them.

use std::fmt;
use std::sync::LazyLock;

use serde_json::Value;

use super::compare::{Comparison, compare};
use super::managers::{Manager, Managers, Operation, Said};
use super::merging::{merge, same};
use super::remove::remove;
use super::sets::to_set;
use super::typed::{Duplicates, TypeProblems, validate};
use crate::depth::{self, TooDeep};
use crate::fields::{Path, PathElement, Set};
use crate::object;
use crate::schema::{TypeRef, zero};

/// Who writes, to what, and when.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    pub manager: &'a str,
    /// The version of the endpoint.
    pub api_version: &'a str,
    /// `status`, `scale`, or empty for the object itself.
    pub subresource: &'a str,
    /// RFC 3339 in whole seconds.
    pub now: &'a str,
    /// Fields this endpoint does not write (`status` of the main one); nobody comes to own them by it.
    pub reset: Option<&'a Set>,
    /// The versions served of this kind. Entries of others are dropped; empty means all are served.
    pub served: &'a [&'a str],
}

/// One field another manager owns with another value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    pub manager: Manager,
    pub path: Path,
}

impl Conflict {
    /// The message of the cause a server reports: `conflict with "edit" using v1`.
    pub fn cause(&self) -> String {
        format!("conflict with {}", self.manager)
    }
}

/// Every conflict of one apply; prints as the server's message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflicts(pub Vec<Conflict>);

impl fmt::Display for Conflicts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [only] = self.0.as_slice() {
            return write!(f, "Apply failed with 1 conflict: conflict with {}: {}", only.manager, only.path);
        }
        write!(f, "Apply failed with {} conflicts: ", self.0.len())?;
        let mut current: Option<&Manager> = None;
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

impl std::error::Error for Conflicts {}

/// Why a write cannot be done.
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
    Conflicts(Conflicts),
}

/// What an apply leads to.
#[derive(Clone, Debug, PartialEq)]
pub struct Applied {
    /// The whole object, with `managedFields`.
    pub object: Value,
    /// Whether anything but `managedFields` changed.
    pub changed: bool,
}

/// Fields whose ownership is not recorded.
static STRIPPED: LazyLock<Set> = LazyLock::new(|| {
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
    let mut paths =
        vec![Path::of_fields(["apiVersion"]), Path::of_fields(["kind"]), Path::of_fields(["metadata"])];
    paths.extend(metadata.iter().map(|field| Path::of_fields(["metadata", field])));
    paths.iter().collect()
});

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
const KUBECTL: &str = "kubectl";
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

impl Request<'_> {
    fn manager(&self, operation: Operation, fields: Set) -> Manager {
        Manager {
            name: if self.manager.is_empty() { "unknown" } else { self.manager }.to_owned(),
            operation,
            api_version: self.api_version.to_owned(),
            subresource: self.subresource.to_owned(),
            time: None,
            fields,
        }
    }

    fn is_served(&self, manager: &Manager) -> bool {
        self.served.is_empty() || self.served.contains(&manager.api_version.as_str())
    }

    fn without_reset(&self, set: Set) -> Set {
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
    request: &Request<'_>,
) -> Result<Value, ApplyError> {
    depth::check(&new)?;
    if let Some(live) = live {
        depth::check(live)?;
    }
    let live_managers = || live.and_then(|live| Managers::of(live).ok()).unwrap_or_default();
    let said = if request.subresource.is_empty() { Managers::said_by(&new) } else { Said::Nothing };
    let mut managers = match said {
        Said::Reset => Managers::default(),
        Said::Entries(Ok(managers)) if !managers.0.is_empty() => managers,
        // Clients that do not know the field must not delete it by accident.
        _ => live_managers(),
    };
    // Once nobody is recorded, nobody is until the next apply.
    if live.is_some() && managers.0.is_empty() {
        managers.write_to(&mut new);
        return Ok(new);
    }
    let zero = live.is_none().then(|| zero(kind));
    let before = live.or(zero.as_ref()).unwrap_or(&Value::Null);
    record_update(before, &new, kind, &mut managers, request);
    managers.cap();
    managers.write_to(&mut new);
    Ok(new)
}

fn record_update(
    before: &Value,
    after: &Value,
    kind: TypeRef<'_>,
    managers: &mut Managers,
    request: &Request<'_>,
) {
    let comparison = filter(compare(before, after, kind), request);
    let changed = comparison.modified.union(&comparison.added);
    managers.0.retain(|manager| request.is_served(manager));
    for manager in &mut managers.0 {
        manager.fields = manager.fields.difference(&changed).difference(&comparison.removed);
    }
    let taken = changed.difference(&STRIPPED);
    if !taken.is_empty() {
        let mut own = request.manager(Operation::Update, taken);
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

fn filter(comparison: Comparison, request: &Request<'_>) -> Comparison {
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
    request: &Request<'_>,
    force: bool,
) -> Result<Applied, ApplyError> {
    depth::check(config)?;
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
    validate(config, kind, Duplicates::Refused).map_err(|problems| typed("patch", config, problems))?;
    let Some(live) = live else {
        let mut own = request.manager(Operation::Apply, request.without_reset(to_set(config, kind)));
        own.fields = own.fields.difference(&STRIPPED);
        own.time = Some(request.now.to_owned());
        let mut object = config.clone();
        Managers(vec![own]).write_to(&mut object);
        return Ok(Applied { object, changed: true });
    };
    depth::check(live)?;
    let mut managers = Managers::of(live).unwrap_or_default();
    if managers.0.is_empty() {
        let first = Request { manager: BEFORE_FIRST_APPLY, reset: None, ..*request };
        record_update(&zero(kind), live, kind, &mut managers, &first);
    }
    let attempt = apply_once(live, config, kind, &managers, request, force);
    let (mut object, mut managers) = match attempt {
        Err(ApplyError::Conflicts(conflicts)) if request.manager == KUBECTL => {
            // What kubectl applied on the client and nobody touched since is kubectl's to change.
            let left = not_allowed(conflicts, live, kind);
            if !left.0.is_empty() {
                return Err(ApplyError::Conflicts(left));
            }
            apply_once(live, config, kind, &managers, request, true)?
        }
        other => other?,
    };
    if request.manager == KUBECTL && object::annotation(live, LAST_APPLIED).is_some() {
        object::set_annotation(&mut object, LAST_APPLIED, &last_applied(config));
    }
    let changed = !same(live, &object);
    if changed {
        let own = request.manager(Operation::Apply, Set::new());
        for manager in managers.0.iter_mut().filter(|manager| manager.is_same(&own)) {
            manager.time = Some(request.now.to_owned());
        }
    }
    managers.write_to(&mut object);
    Ok(Applied { object, changed })
}

fn typed(which: &'static str, object: &Value, problems: TypeProblems) -> ApplyError {
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
    managers: &Managers,
    request: &Request<'_>,
    force: bool,
) -> Result<(Value, Managers), ApplyError> {
    let own = request.manager(Operation::Apply, request.without_reset(to_set(config, kind)));
    let last = managers.0.iter().find(|manager| manager.is_same(&own));
    let merged = merge(live, config, kind);
    let object = match last {
        Some(last) if request.is_served(last) => prune(merged, &own.fields, last, managers, kind),
        _ => merged,
    };
    let comparison = filter(compare(live, &object, kind), request);
    let changed = comparison.modified.union(&comparison.added);
    let mut left = Managers::default();
    let mut conflicts: Vec<Conflict> = Vec::new();
    for manager in managers.0.iter().filter(|manager| !manager.is_same(&own) && request.is_served(manager)) {
        let contested = manager.fields.intersection(&changed);
        if !contested.is_empty() && !force {
            let paths = contested.paths().into_iter();
            conflicts.extend(
                paths.map(|path| Conflict {
                    manager: Manager { fields: Set::new(), ..manager.clone() },
                    path,
                }),
            );
        }
        let fields = manager.fields.difference(&contested).difference(&comparison.removed);
        if !fields.is_empty() {
            left.0.push(Manager { fields, ..manager.clone() });
        }
    }
    if !conflicts.is_empty() {
        conflicts.sort_by_key(|conflict| conflict.manager.sort_key());
        return Err(ApplyError::Conflicts(Conflicts(conflicts)));
    }
    let time = last.and_then(|last| last.time.clone());
    left.0.push(Manager { fields: own.fields.difference(&STRIPPED), time, ..own });
    Ok((object, left))
}

/// Removes what the manager applied before and no longer does, unless someone else owns it.
fn prune(merged: Value, new: &Set, last: &Manager, managers: &Managers, kind: TypeRef<'_>) -> Value {
    let mut owned = new.clone();
    for manager in managers.0.iter().filter(|manager| !manager.is_same(last)) {
        owned = owned.union(&manager.fields);
    }
    let owned = owned.with_named_fields(kind);
    let last = last.fields.with_named_fields(kind);
    if last.is_subset(&owned) {
        return merged;
    }
    let everything = to_set(&merged, kind).with_named_fields(kind);
    let without_last = to_set(&remove(&merged, &last, kind), kind).with_named_fields(kind);
    // Give back what someone owns, and with it all that stands above it.
    let unowned = everything.difference(&without_last.union(&owned));
    let pruned = to_set(&remove(&merged, &unowned, kind), kind).with_named_fields(kind);
    // Give back what was never applied but stood below what was.
    let gone = everything.difference(&pruned).intersection(&last);
    match remove(&merged, &gone, kind) {
        Value::Null => Value::Object(serde_json::Map::new()),
        object => object,
    }
}

/// The conflicts that remain once those are left out where the live value is the one kubectl applied
/// last on the client.
fn not_allowed(conflicts: Conflicts, live: &Value, kind: TypeRef<'_>) -> Conflicts {
    let Some(last) =
        object::annotation(live, LAST_APPLIED).and_then(|json| serde_json::from_str::<Value>(json).ok())
    else {
        return conflicts;
    };
    if depth::check(&last).is_err() {
        return conflicts;
    }
    let comparison = compare(&last, live, kind);
    let allowed = to_set(&last, kind).difference(&comparison.modified).difference(&comparison.removed);
    Conflicts(conflicts.0.into_iter().filter(|conflict| !allowed.has(&conflict.path.0)).collect())
}

/// The annotation the server writes for kubectl: the configuration, keys sorted, with a newline.
fn last_applied(config: &Value) -> String {
    let mut config = config.clone();
    if let Some(annotations) = config.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.shift_remove(LAST_APPLIED);
    }
    config.sort_all_objects();
    format!("{config}\n")
}

impl Set {
    /// A set of one field of the object: what endpoints give as [`Request::reset`].
    pub fn of_field(name: &str) -> Set {
        let mut set = Set::new();
        set.insert(&[PathElement::field(name)]);
        set
    }
}
