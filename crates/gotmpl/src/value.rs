//! Go's dynamic values as templates see them: kinds, type names, shared maps and lists.

use std::borrow::Cow;
use std::cell::{Ref, RefCell, RefMut};
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

use crate::object::GoObject;
use crate::str::GoString;

/// What Go would hold in an `interface{}`.
///
/// Maps and lists are references: a clone is another name for the same storage, as in Go.
#[derive(Clone, Default)]
pub enum GoValue {
    /// The nil interface; prints as `<no value>` on its own and `<nil>` inside something.
    #[default]
    Nil,
    Bool(bool),
    /// Go's `int`.
    Int(i64),
    Int32(i32),
    Int64(i64),
    Uint8(u8),
    Uint32(u32),
    Uint64(u64),
    Float64(f64),
    Complex128(f64, f64),
    Str(GoString),
    /// `[]byte`.
    Bytes(GoString),
    List(GoList),
    Map(GoMap),
    /// A struct, or another named type with methods.
    Object(Rc<dyn GoObject>),
    /// A pointer to such a thing.
    Ptr(Rc<dyn GoObject>),
}

/// Go's `reflect.Kind`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GoKind {
    Invalid,
    Bool,
    Int,
    Int32,
    Int64,
    Uint8,
    Uint32,
    Uint64,
    Float64,
    Complex128,
    String,
    Slice,
    Map,
    Struct,
    Ptr,
    Interface,
}

impl GoKind {
    /// The name `kindOf` gives.
    pub fn name(self) -> &'static str {
        match self {
            GoKind::Invalid => "invalid",
            GoKind::Bool => "bool",
            GoKind::Int => "int",
            GoKind::Int32 => "int32",
            GoKind::Int64 => "int64",
            GoKind::Uint8 => "uint8",
            GoKind::Uint32 => "uint32",
            GoKind::Uint64 => "uint64",
            GoKind::Float64 => "float64",
            GoKind::Complex128 => "complex128",
            GoKind::String => "string",
            GoKind::Slice => "slice",
            GoKind::Map => "map",
            GoKind::Struct => "struct",
            GoKind::Ptr => "ptr",
            GoKind::Interface => "interface",
        }
    }
}

impl fmt::Display for GoKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl GoValue {
    /// A string value.
    pub fn str(s: impl Into<GoString>) -> Self {
        GoValue::Str(s.into())
    }

    /// A `[]interface {}`.
    pub fn list(items: Vec<GoValue>) -> Self {
        GoValue::List(GoList::new(items))
    }

    /// A `[]string`.
    pub fn strings<S: Into<GoString>>(items: impl IntoIterator<Item = S>) -> Self {
        let items = items.into_iter().map(|s| GoValue::Str(s.into())).collect();
        GoValue::List(GoList::of(ListKind::String, items))
    }

    /// An empty `map[string]interface {}`.
    pub fn map() -> Self {
        GoValue::Map(GoMap::new())
    }

    /// A pointer to `object`.
    pub fn ptr(object: impl GoObject) -> Self {
        GoValue::Ptr(Rc::new(object))
    }

    /// `object` itself.
    pub fn object(object: impl GoObject) -> Self {
        GoValue::Object(Rc::new(object))
    }

    /// The dynamic kind; `Invalid` for nil.
    pub fn kind(&self) -> GoKind {
        match self {
            GoValue::Nil => GoKind::Invalid,
            GoValue::Bool(_) => GoKind::Bool,
            GoValue::Int(_) => GoKind::Int,
            GoValue::Int32(_) => GoKind::Int32,
            GoValue::Int64(_) => GoKind::Int64,
            GoValue::Uint8(_) => GoKind::Uint8,
            GoValue::Uint32(_) => GoKind::Uint32,
            GoValue::Uint64(_) => GoKind::Uint64,
            GoValue::Float64(_) => GoKind::Float64,
            GoValue::Complex128(..) => GoKind::Complex128,
            GoValue::Str(_) => GoKind::String,
            GoValue::Bytes(_) | GoValue::List(_) => GoKind::Slice,
            GoValue::Map(_) => GoKind::Map,
            GoValue::Object(o) => o.kind(),
            GoValue::Ptr(_) => GoKind::Ptr,
        }
    }

    /// The dynamic type as `%T` prints it.
    pub fn type_name(&self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            GoValue::Nil => "<nil>",
            GoValue::Bool(_) => "bool",
            GoValue::Int(_) => "int",
            GoValue::Int32(_) => "int32",
            GoValue::Int64(_) => "int64",
            GoValue::Uint8(_) => "uint8",
            GoValue::Uint32(_) => "uint32",
            GoValue::Uint64(_) => "uint64",
            GoValue::Float64(_) => "float64",
            GoValue::Complex128(..) => "complex128",
            GoValue::Str(_) => "string",
            GoValue::Bytes(_) => "[]uint8",
            GoValue::List(l) => return l.kind.type_name(),
            GoValue::Map(m) => m.kind.type_name(),
            GoValue::Object(o) => return o.type_name(),
            GoValue::Ptr(o) => return Cow::Owned(format!("*{}", o.type_name())),
        })
    }

    /// The nil interface?
    pub fn is_nil(&self) -> bool {
        matches!(self, GoValue::Nil)
    }

    /// The string, if it is one.
    pub fn as_str(&self) -> Option<&GoString> {
        match self {
            GoValue::Str(s) => Some(s),
            _ => None,
        }
    }

    /// The number, for every signed integer kind.
    pub fn as_int(&self) -> Option<i64> {
        match self {
            GoValue::Int(n) | GoValue::Int64(n) => Some(*n),
            GoValue::Int32(n) => Some(i64::from(*n)),
            GoValue::Object(o) => o.inner().and_then(|v| v.as_int()),
            _ => None,
        }
    }

    /// The number, for every unsigned integer kind.
    pub fn as_uint(&self) -> Option<u64> {
        match self {
            GoValue::Uint8(n) => Some(u64::from(*n)),
            GoValue::Uint32(n) => Some(u64::from(*n)),
            GoValue::Uint64(n) => Some(*n),
            GoValue::Object(o) => o.inner().and_then(|v| v.as_uint()),
            _ => None,
        }
    }

    /// The map, if it is one (chartutil.Values included).
    pub fn as_map(&self) -> Option<&GoMap> {
        match self {
            GoValue::Map(m) => Some(m),
            _ => None,
        }
    }

    /// The list, if it is one of any element type.
    pub fn as_list(&self) -> Option<&GoList> {
        match self {
            GoValue::List(l) => Some(l),
            _ => None,
        }
    }

    /// The elements of anything of kind slice (`[]byte` and named slice types included).
    pub fn elements(&self) -> Option<GoList> {
        match self {
            GoValue::List(l) => Some(l.clone()),
            GoValue::Bytes(b) => {
                Some(GoList::of(ListKind::Of("uint8"), b.iter().map(|b| GoValue::Uint8(*b)).collect()))
            }
            GoValue::Object(o) => o.inner().and_then(|v| v.elements()),
            _ => None,
        }
    }

    /// `len(v)` for strings, slices and maps.
    #[expect(clippy::len_without_is_empty, reason = "emptiness is Sprig's business and differs")]
    pub fn len(&self) -> Option<usize> {
        match self {
            GoValue::Str(s) | GoValue::Bytes(s) => Some(s.len()),
            GoValue::List(l) => Some(l.len()),
            GoValue::Map(m) => Some(m.len()),
            GoValue::Object(o) => o.inner().and_then(|v| v.len()),
            _ => None,
        }
    }

    /// Go templates' truth: what `if` decides by.
    pub fn truth(&self) -> bool {
        match self {
            GoValue::Nil => false,
            GoValue::Bool(b) => *b,
            GoValue::Int(n) | GoValue::Int64(n) => *n != 0,
            GoValue::Int32(n) => *n != 0,
            GoValue::Uint8(n) => *n != 0,
            GoValue::Uint32(n) => *n != 0,
            GoValue::Uint64(n) => *n != 0,
            GoValue::Float64(n) => *n != 0.0,
            GoValue::Complex128(re, im) => *re != 0.0 || *im != 0.0,
            GoValue::Str(s) | GoValue::Bytes(s) => !s.is_empty(),
            GoValue::List(l) => !l.is_empty(),
            GoValue::Map(m) => !m.is_empty(),
            GoValue::Object(o) => o.inner().is_none_or(|v| v.truth()),
            GoValue::Ptr(_) => true,
        }
    }

    /// Go's `reflect.DeepEqual`: same types all the way down; NaN differs from itself.
    pub fn deep_equal(&self, other: &GoValue) -> bool {
        deep_equal(self, other, 0)
    }

    /// A copy that shares no map or list with the original.
    pub fn deep_copy(&self) -> GoValue {
        deep_copy(self, 0)
    }
}

/// How deep values may nest before comparing, copying, printing or encoding gives up:
/// far beyond any document, small enough to catch `set $d "self" $d`.
pub const MAX_VALUE_DEPTH: usize = 10_000;

fn deep_equal(a: &GoValue, b: &GoValue, depth: usize) -> bool {
    if depth > MAX_VALUE_DEPTH {
        return false;
    }
    match (a, b) {
        (GoValue::Nil, GoValue::Nil) => true,
        (GoValue::Bool(a), GoValue::Bool(b)) => a == b,
        (GoValue::Int(a), GoValue::Int(b)) | (GoValue::Int64(a), GoValue::Int64(b)) => a == b,
        (GoValue::Int32(a), GoValue::Int32(b)) => a == b,
        (GoValue::Uint8(a), GoValue::Uint8(b)) => a == b,
        (GoValue::Uint32(a), GoValue::Uint32(b)) => a == b,
        (GoValue::Uint64(a), GoValue::Uint64(b)) => a == b,
        (GoValue::Float64(a), GoValue::Float64(b)) => a == b,
        (GoValue::Complex128(a, b), GoValue::Complex128(c, d)) => a == c && b == d,
        (GoValue::Str(a), GoValue::Str(b)) | (GoValue::Bytes(a), GoValue::Bytes(b)) => a == b,
        (GoValue::List(a), GoValue::List(b)) => {
            if a.kind != b.kind || a.is_nil() != b.is_nil() {
                return false;
            }
            if a.id() == b.id() {
                return true;
            }
            let (a, b) = (a.items(), b.items());
            a.len() == b.len()
                && stacker::maybe_grow(RED_ZONE, SEGMENT, || {
                    a.iter().zip(b.iter()).all(|(a, b)| deep_equal(a, b, depth + 1))
                })
        }
        (GoValue::Map(a), GoValue::Map(b)) => {
            if a.kind != b.kind || a.is_nil() != b.is_nil() {
                return false;
            }
            if a.id() == b.id() {
                return true;
            }
            let (a, b) = (a.entries(), b.entries());
            a.len() == b.len()
                && stacker::maybe_grow(RED_ZONE, SEGMENT, || {
                    a.iter()
                        .zip(b.iter())
                        .all(|((ka, va), (kb, vb))| ka == kb && deep_equal(va, vb, depth + 1))
                })
        }
        (GoValue::Object(a), GoValue::Object(b)) | (GoValue::Ptr(a), GoValue::Ptr(b)) => {
            Rc::ptr_eq(a, b) || (a.type_name() == b.type_name() && a.equals(b.as_ref()))
        }
        _ => false,
    }
}

fn deep_copy(v: &GoValue, depth: usize) -> GoValue {
    if depth > MAX_VALUE_DEPTH {
        return v.clone();
    }
    match v {
        GoValue::List(l) if !l.is_nil() => {
            let mut items = l.to_vec();
            copy_containers(items.iter_mut(), depth);
            GoValue::List(GoList::of(l.kind, items))
        }
        GoValue::Map(m) if !m.is_nil() => {
            let mut entries = m.entries().clone();
            copy_containers(entries.values_mut(), depth);
            GoValue::Map(GoMap::of(m.kind, entries))
        }
        _ => v.clone(),
    }
}

fn copy_containers<'v>(values: impl Iterator<Item = &'v mut GoValue>, depth: usize) {
    stacker::maybe_grow(RED_ZONE, SEGMENT, || {
        for value in values.filter(|value| is_container(value)) {
            *value = deep_copy(value, depth + 1);
        }
    });
}

pub(crate) const RED_ZONE: usize = 128 * 1024;
pub(crate) const SEGMENT: usize = 2 * 1024 * 1024;

/// The static element type of a slice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ListKind {
    /// `[]interface {}`
    Any,
    /// `[]string`
    String,
    /// `[]int`
    Int,
    /// `[][]interface {}`
    Lists,
    /// `[]T` for the named T.
    Of(&'static str),
}

impl ListKind {
    /// The slice type as `%T` prints it.
    pub fn type_name(self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            ListKind::Any => "[]interface {}",
            ListKind::String => "[]string",
            ListKind::Int => "[]int",
            ListKind::Lists => "[][]interface {}",
            ListKind::Of(t) => return Cow::Owned(format!("[]{t}")),
        })
    }
}

/// A Go slice.
#[derive(Clone)]
pub struct GoList {
    kind: ListKind,
    nil: bool,
    items: Rc<Items>,
}

struct Items(RefCell<Vec<GoValue>>);

impl GoList {
    /// A `[]interface {}`.
    pub fn new(items: Vec<GoValue>) -> Self {
        Self::of(ListKind::Any, items)
    }

    /// A slice of the given element type.
    pub fn of(kind: ListKind, items: Vec<GoValue>) -> Self {
        GoList { kind, nil: false, items: Rc::new(Items(RefCell::new(items))) }
    }

    /// The nil slice: empty, prints `[]`, encodes as `null`.
    pub fn nil(kind: ListKind) -> Self {
        GoList { kind, nil: true, items: Rc::new(Items(RefCell::default())) }
    }

    pub fn kind(&self) -> ListKind {
        self.kind
    }

    pub fn is_nil(&self) -> bool {
        self.nil
    }

    pub fn len(&self) -> usize {
        self.items.0.borrow().len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The elements. Do not hold across a call that may write to the list.
    pub fn items(&self) -> Ref<'_, Vec<GoValue>> {
        self.items.0.borrow()
    }

    /// The elements to change in place (sprig's `sortAlpha` sorts a `[]string` where it is).
    pub fn items_mut(&self) -> RefMut<'_, Vec<GoValue>> {
        self.items.0.borrow_mut()
    }

    pub fn get(&self, i: usize) -> Option<GoValue> {
        self.items.0.borrow().get(i).cloned()
    }

    /// A copy of the elements.
    pub fn to_vec(&self) -> Vec<GoValue> {
        self.items.0.borrow().clone()
    }

    /// The same for every name of the same storage, different for different storages.
    pub fn id(&self) -> usize {
        Rc::as_ptr(&self.items).addr()
    }
}

/// The static type of a map.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MapKind {
    /// `map[string]interface {}`
    Any,
    /// `chartutil.Values`: the same with methods.
    Values,
    /// `map[string]string`
    Strings,
    /// `map[string][]uint8`
    Bytes,
}

impl MapKind {
    /// The map type as `%T` prints it.
    pub fn type_name(self) -> &'static str {
        match self {
            MapKind::Any => "map[string]interface {}",
            MapKind::Values => "chartutil.Values",
            MapKind::Strings => "map[string]string",
            MapKind::Bytes => "map[string][]uint8",
        }
    }
}

/// A Go map with string keys, kept sorted since everything that walks one wants it so.
#[derive(Clone)]
pub struct GoMap {
    kind: MapKind,
    nil: bool,
    entries: Rc<Entries>,
}

struct Entries(RefCell<BTreeMap<GoString, GoValue>>);

impl Default for GoMap {
    fn default() -> Self {
        Self::new()
    }
}

impl GoMap {
    /// An empty `map[string]interface {}`.
    pub fn new() -> Self {
        Self::of(MapKind::Any, BTreeMap::new())
    }

    pub fn of(kind: MapKind, entries: BTreeMap<GoString, GoValue>) -> Self {
        GoMap { kind, nil: false, entries: Rc::new(Entries(RefCell::new(entries))) }
    }

    /// The nil map: empty, prints `map[]`, encodes as `null`, cannot be written to.
    pub fn nil(kind: MapKind) -> Self {
        GoMap { kind, nil: true, entries: Rc::new(Entries(RefCell::default())) }
    }

    /// The same storage under another type, as a Go conversion gives.
    pub fn with_kind(&self, kind: MapKind) -> Self {
        GoMap { kind, nil: self.nil, entries: Rc::clone(&self.entries) }
    }

    pub fn kind(&self) -> MapKind {
        self.kind
    }

    pub fn is_nil(&self) -> bool {
        self.nil
    }

    pub fn len(&self) -> usize {
        self.entries.0.borrow().len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn get(&self, key: impl AsRef<[u8]>) -> Option<GoValue> {
        self.entries.0.borrow().get(key.as_ref()).cloned()
    }

    pub fn contains(&self, key: impl AsRef<[u8]>) -> bool {
        self.entries.0.borrow().contains_key(key.as_ref())
    }

    /// Writes an entry. Writing to a nil map panics in Go: callers check [`GoMap::is_nil`] first
    /// (message: `assignment to entry in nil map`).
    pub fn insert(&self, key: impl Into<GoString>, value: GoValue) {
        let old = self.entries.0.borrow_mut().insert(key.into(), value);
        drop(old);
    }

    pub fn remove(&self, key: impl AsRef<[u8]>) -> Option<GoValue> {
        self.entries.0.borrow_mut().remove(key.as_ref())
    }

    /// The keys in byte order.
    pub fn keys(&self) -> Vec<GoString> {
        self.entries.0.borrow().keys().cloned().collect()
    }

    /// The entries in byte order of their keys. Do not hold across a call that may write to the map.
    pub fn entries(&self) -> Ref<'_, BTreeMap<GoString, GoValue>> {
        self.entries.0.borrow()
    }

    /// A copy of the entries.
    pub fn to_vec(&self) -> Vec<(GoString, GoValue)> {
        self.entries.0.borrow().iter().map(|(k, v)| (k.clone(), v.clone())).collect()
    }

    /// The same for every name of the same storage, different for different storages.
    pub fn id(&self) -> usize {
        Rc::as_ptr(&self.entries).addr()
    }
}

impl<K: Into<GoString>> FromIterator<(K, GoValue)> for GoMap {
    fn from_iter<T: IntoIterator<Item = (K, GoValue)>>(iter: T) -> Self {
        GoMap::of(MapKind::Any, iter.into_iter().map(|(k, v)| (k.into(), v)).collect())
    }
}

// A template can nest lists a million deep in a loop; dropping that must not use the native stack.

impl Drop for Items {
    fn drop(&mut self) {
        if self.0.get_mut().iter().any(is_container) {
            unwind(std::mem::take(self.0.get_mut()));
        }
    }
}

impl Drop for Entries {
    fn drop(&mut self) {
        if self.0.get_mut().values().any(is_container) {
            unwind(std::mem::take(self.0.get_mut()).into_values().collect());
        }
    }
}

fn is_container(v: &GoValue) -> bool {
    matches!(v, GoValue::List(_) | GoValue::Map(_))
}

fn unwind(mut pending: Vec<GoValue>) {
    while let Some(v) = pending.pop() {
        match v {
            GoValue::List(l) => {
                if let Some(mut items) = Rc::into_inner(l.items) {
                    pending.append(items.0.get_mut());
                }
            }
            GoValue::Map(m) => {
                if let Some(mut entries) = Rc::into_inner(m.entries) {
                    pending.extend(std::mem::take(entries.0.get_mut()).into_values());
                }
            }
            _ => {}
        }
    }
}

/// Prints like `%v`, cut at depth 50: for tests and messages of ours, not for output.
impl fmt::Debug for GoValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        debug(self, f, 0)
    }
}

fn debug(v: &GoValue, f: &mut fmt::Formatter<'_>, depth: usize) -> fmt::Result {
    if depth > 50 {
        return f.write_str("…");
    }
    match v {
        GoValue::Nil => f.write_str("nil"),
        GoValue::Bool(b) => write!(f, "{b}"),
        GoValue::Str(s) => write!(f, "{s:?}"),
        GoValue::Float64(n) => write!(f, "{n:?}"),
        GoValue::List(l) => {
            f.write_str("[")?;
            for (i, v) in l.items().iter().enumerate() {
                if i > 0 {
                    f.write_str(", ")?;
                }
                debug(v, f, depth + 1)?;
            }
            f.write_str("]")
        }
        GoValue::Map(m) => {
            f.write_str("{")?;
            for (i, (k, v)) in m.entries().iter().enumerate() {
                if i > 0 {
                    f.write_str(", ")?;
                }
                write!(f, "{k}: ")?;
                debug(v, f, depth + 1)?;
            }
            f.write_str("}")
        }
        _ => match (v.as_int(), v.as_uint()) {
            (Some(n), _) => write!(f, "{n}"),
            (_, Some(n)) => write!(f, "{n}"),
            _ => f.write_str(&v.type_name()),
        },
    }
}

/// Deep equality as Go's, so tests and `has` agree.
impl PartialEq for GoValue {
    fn eq(&self, other: &Self) -> bool {
        self.deep_equal(other)
    }
}

impl From<bool> for GoValue {
    fn from(b: bool) -> Self {
        GoValue::Bool(b)
    }
}

impl From<f64> for GoValue {
    fn from(n: f64) -> Self {
        GoValue::Float64(n)
    }
}

impl From<&str> for GoValue {
    fn from(s: &str) -> Self {
        GoValue::Str(s.into())
    }
}

impl From<String> for GoValue {
    fn from(s: String) -> Self {
        GoValue::Str(s.into())
    }
}

impl From<Vec<u8>> for GoValue {
    fn from(s: Vec<u8>) -> Self {
        GoValue::Str(s.into())
    }
}

impl From<GoString> for GoValue {
    fn from(s: GoString) -> Self {
        GoValue::Str(s)
    }
}

impl From<GoMap> for GoValue {
    fn from(m: GoMap) -> Self {
        GoValue::Map(m)
    }
}

impl From<GoList> for GoValue {
    fn from(l: GoList) -> Self {
        GoValue::List(l)
    }
}
