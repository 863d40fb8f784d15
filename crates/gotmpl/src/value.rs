//! Go's dynamic values as templates see them: kinds, type names, shared maps and lists.

use std::borrow::Cow;
use std::cell::{Ref, RefCell, RefMut};
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

use crate::object::Object;
use crate::str::Str;

/// What Go would hold in an `interface{}`.
///
/// Maps and lists are references: a clone is another name for the same storage, as in Go.
#[derive(Clone, Default)]
pub enum Value {
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
    Str(Str),
    /// `[]byte`.
    Bytes(Str),
    List(List),
    Map(Map),
    /// A struct, or another named type with methods.
    Object(Rc<dyn Object>),
    /// A pointer to such a thing.
    Ptr(Rc<dyn Object>),
}

/// Go's `reflect.Kind`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
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

impl Kind {
    /// The name `kindOf` gives.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Invalid => "invalid",
            Kind::Bool => "bool",
            Kind::Int => "int",
            Kind::Int32 => "int32",
            Kind::Int64 => "int64",
            Kind::Uint8 => "uint8",
            Kind::Uint32 => "uint32",
            Kind::Uint64 => "uint64",
            Kind::Float64 => "float64",
            Kind::Complex128 => "complex128",
            Kind::String => "string",
            Kind::Slice => "slice",
            Kind::Map => "map",
            Kind::Struct => "struct",
            Kind::Ptr => "ptr",
            Kind::Interface => "interface",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Value {
    /// A string value.
    pub fn str(s: impl Into<Str>) -> Self {
        Value::Str(s.into())
    }

    /// A `[]interface {}`.
    pub fn list(items: Vec<Value>) -> Self {
        Value::List(List::new(items))
    }

    /// A `[]string`.
    pub fn strings<S: Into<Str>>(items: impl IntoIterator<Item = S>) -> Self {
        let items = items.into_iter().map(|s| Value::Str(s.into())).collect();
        Value::List(List::of(ListKind::String, items))
    }

    /// An empty `map[string]interface {}`.
    pub fn map() -> Self {
        Value::Map(Map::new())
    }

    /// A pointer to `object`.
    pub fn ptr(object: impl Object) -> Self {
        Value::Ptr(Rc::new(object))
    }

    /// `object` itself.
    pub fn object(object: impl Object) -> Self {
        Value::Object(Rc::new(object))
    }

    /// The dynamic kind; `Invalid` for nil.
    pub fn kind(&self) -> Kind {
        match self {
            Value::Nil => Kind::Invalid,
            Value::Bool(_) => Kind::Bool,
            Value::Int(_) => Kind::Int,
            Value::Int32(_) => Kind::Int32,
            Value::Int64(_) => Kind::Int64,
            Value::Uint8(_) => Kind::Uint8,
            Value::Uint32(_) => Kind::Uint32,
            Value::Uint64(_) => Kind::Uint64,
            Value::Float64(_) => Kind::Float64,
            Value::Complex128(..) => Kind::Complex128,
            Value::Str(_) => Kind::String,
            Value::Bytes(_) | Value::List(_) => Kind::Slice,
            Value::Map(_) => Kind::Map,
            Value::Object(o) => o.kind(),
            Value::Ptr(_) => Kind::Ptr,
        }
    }

    /// The dynamic type as `%T` prints it.
    pub fn type_name(&self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            Value::Nil => "<nil>",
            Value::Bool(_) => "bool",
            Value::Int(_) => "int",
            Value::Int32(_) => "int32",
            Value::Int64(_) => "int64",
            Value::Uint8(_) => "uint8",
            Value::Uint32(_) => "uint32",
            Value::Uint64(_) => "uint64",
            Value::Float64(_) => "float64",
            Value::Complex128(..) => "complex128",
            Value::Str(_) => "string",
            Value::Bytes(_) => "[]uint8",
            Value::List(l) => return l.kind.type_name(),
            Value::Map(m) => m.kind.type_name(),
            Value::Object(o) => return o.type_name(),
            Value::Ptr(o) => return Cow::Owned(format!("*{}", o.type_name())),
        })
    }

    /// The nil interface?
    pub fn is_nil(&self) -> bool {
        matches!(self, Value::Nil)
    }

    /// The string, if it is one.
    pub fn as_str(&self) -> Option<&Str> {
        match self {
            Value::Str(s) => Some(s),
            _ => None,
        }
    }

    /// The number, for every signed integer kind.
    pub fn as_int(&self) -> Option<i64> {
        match self {
            Value::Int(n) | Value::Int64(n) => Some(*n),
            Value::Int32(n) => Some(i64::from(*n)),
            Value::Object(o) => o.inner().and_then(|v| v.as_int()),
            _ => None,
        }
    }

    /// The number, for every unsigned integer kind.
    pub fn as_uint(&self) -> Option<u64> {
        match self {
            Value::Uint8(n) => Some(u64::from(*n)),
            Value::Uint32(n) => Some(u64::from(*n)),
            Value::Uint64(n) => Some(*n),
            Value::Object(o) => o.inner().and_then(|v| v.as_uint()),
            _ => None,
        }
    }

    /// The map, if it is one (chartutil.Values included).
    pub fn as_map(&self) -> Option<&Map> {
        match self {
            Value::Map(m) => Some(m),
            _ => None,
        }
    }

    /// The list, if it is one of any element type.
    pub fn as_list(&self) -> Option<&List> {
        match self {
            Value::List(l) => Some(l),
            _ => None,
        }
    }

    /// The elements of anything of kind slice (`[]byte` and named slice types included).
    pub fn elements(&self) -> Option<List> {
        match self {
            Value::List(l) => Some(l.clone()),
            Value::Bytes(b) => {
                Some(List::of(ListKind::Of("uint8"), b.iter().map(|b| Value::Uint8(*b)).collect()))
            }
            Value::Object(o) => o.inner().and_then(|v| v.elements()),
            _ => None,
        }
    }

    /// `len(v)` for strings, slices and maps.
    #[expect(clippy::len_without_is_empty, reason = "emptiness is Sprig's business and differs")]
    pub fn len(&self) -> Option<usize> {
        match self {
            Value::Str(s) | Value::Bytes(s) => Some(s.len()),
            Value::List(l) => Some(l.len()),
            Value::Map(m) => Some(m.len()),
            Value::Object(o) => o.inner().and_then(|v| v.len()),
            _ => None,
        }
    }

    /// Go templates' truth: what `if` decides by.
    pub fn truth(&self) -> bool {
        match self {
            Value::Nil => false,
            Value::Bool(b) => *b,
            Value::Int(n) | Value::Int64(n) => *n != 0,
            Value::Int32(n) => *n != 0,
            Value::Uint8(n) => *n != 0,
            Value::Uint32(n) => *n != 0,
            Value::Uint64(n) => *n != 0,
            Value::Float64(n) => *n != 0.0,
            Value::Complex128(re, im) => *re != 0.0 || *im != 0.0,
            Value::Str(s) | Value::Bytes(s) => !s.is_empty(),
            Value::List(l) => !l.is_empty(),
            Value::Map(m) => !m.is_empty(),
            Value::Object(o) => o.inner().is_none_or(|v| v.truth()),
            Value::Ptr(_) => true,
        }
    }

    /// Go's `reflect.DeepEqual`: same types all the way down; NaN differs from itself.
    pub fn deep_equal(&self, other: &Value) -> bool {
        deep_equal(self, other, 0)
    }

    /// A copy that shares no map or list with the original.
    pub fn deep_copy(&self) -> Value {
        deep_copy(self, 0)
    }
}

/// How deep values may nest before comparing, copying, printing or encoding gives up:
/// far beyond any document, small enough to catch `set $d "self" $d`.
pub const MAX_VALUE_DEPTH: usize = 10_000;

fn deep_equal(a: &Value, b: &Value, depth: usize) -> bool {
    if depth > MAX_VALUE_DEPTH {
        return false;
    }
    match (a, b) {
        (Value::Nil, Value::Nil) => true,
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::Int(a), Value::Int(b)) | (Value::Int64(a), Value::Int64(b)) => a == b,
        (Value::Int32(a), Value::Int32(b)) => a == b,
        (Value::Uint8(a), Value::Uint8(b)) => a == b,
        (Value::Uint32(a), Value::Uint32(b)) => a == b,
        (Value::Uint64(a), Value::Uint64(b)) => a == b,
        (Value::Float64(a), Value::Float64(b)) => a == b,
        (Value::Complex128(a, b), Value::Complex128(c, d)) => a == c && b == d,
        (Value::Str(a), Value::Str(b)) | (Value::Bytes(a), Value::Bytes(b)) => a == b,
        (Value::List(a), Value::List(b)) => {
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
        (Value::Map(a), Value::Map(b)) => {
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
        (Value::Object(a), Value::Object(b)) | (Value::Ptr(a), Value::Ptr(b)) => {
            Rc::ptr_eq(a, b) || (a.type_name() == b.type_name() && a.equals(b.as_ref()))
        }
        _ => false,
    }
}

fn deep_copy(v: &Value, depth: usize) -> Value {
    if depth > MAX_VALUE_DEPTH {
        return v.clone();
    }
    match v {
        Value::List(l) if !l.is_nil() => {
            let mut items = l.to_vec();
            copy_containers(items.iter_mut(), depth);
            Value::List(List::of(l.kind, items))
        }
        Value::Map(m) if !m.is_nil() => {
            let mut entries = m.entries().clone();
            copy_containers(entries.values_mut(), depth);
            Value::Map(Map::of(m.kind, entries))
        }
        _ => v.clone(),
    }
}

fn copy_containers<'v>(values: impl Iterator<Item = &'v mut Value>, depth: usize) {
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
pub struct List {
    kind: ListKind,
    nil: bool,
    items: Rc<Items>,
}

struct Items(RefCell<Vec<Value>>);

impl List {
    /// A `[]interface {}`.
    pub fn new(items: Vec<Value>) -> Self {
        Self::of(ListKind::Any, items)
    }

    /// A slice of the given element type.
    pub fn of(kind: ListKind, items: Vec<Value>) -> Self {
        List { kind, nil: false, items: Rc::new(Items(RefCell::new(items))) }
    }

    /// The nil slice: empty, prints `[]`, encodes as `null`.
    pub fn nil(kind: ListKind) -> Self {
        List { kind, nil: true, items: Rc::new(Items(RefCell::default())) }
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
    pub fn items(&self) -> Ref<'_, Vec<Value>> {
        self.items.0.borrow()
    }

    /// The elements to change in place (sprig's `sortAlpha` sorts a `[]string` where it is).
    pub fn items_mut(&self) -> RefMut<'_, Vec<Value>> {
        self.items.0.borrow_mut()
    }

    pub fn get(&self, i: usize) -> Option<Value> {
        self.items.0.borrow().get(i).cloned()
    }

    /// A copy of the elements.
    pub fn to_vec(&self) -> Vec<Value> {
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
pub struct Map {
    kind: MapKind,
    nil: bool,
    entries: Rc<Entries>,
}

struct Entries(RefCell<BTreeMap<Str, Value>>);

impl Default for Map {
    fn default() -> Self {
        Self::new()
    }
}

impl Map {
    /// An empty `map[string]interface {}`.
    pub fn new() -> Self {
        Self::of(MapKind::Any, BTreeMap::new())
    }

    pub fn of(kind: MapKind, entries: BTreeMap<Str, Value>) -> Self {
        Map { kind, nil: false, entries: Rc::new(Entries(RefCell::new(entries))) }
    }

    /// The nil map: empty, prints `map[]`, encodes as `null`, cannot be written to.
    pub fn nil(kind: MapKind) -> Self {
        Map { kind, nil: true, entries: Rc::new(Entries(RefCell::default())) }
    }

    /// The same storage under another type, as a Go conversion gives.
    pub fn with_kind(&self, kind: MapKind) -> Self {
        Map { kind, nil: self.nil, entries: Rc::clone(&self.entries) }
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

    pub fn get(&self, key: impl AsRef<[u8]>) -> Option<Value> {
        self.entries.0.borrow().get(key.as_ref()).cloned()
    }

    pub fn contains(&self, key: impl AsRef<[u8]>) -> bool {
        self.entries.0.borrow().contains_key(key.as_ref())
    }

    /// Writes an entry. Writing to a nil map panics in Go: callers check [`Map::is_nil`] first
    /// (message: `assignment to entry in nil map`).
    pub fn insert(&self, key: impl Into<Str>, value: Value) {
        let old = self.entries.0.borrow_mut().insert(key.into(), value);
        drop(old);
    }

    pub fn remove(&self, key: impl AsRef<[u8]>) -> Option<Value> {
        self.entries.0.borrow_mut().remove(key.as_ref())
    }

    /// The keys in byte order.
    pub fn keys(&self) -> Vec<Str> {
        self.entries.0.borrow().keys().cloned().collect()
    }

    /// The entries in byte order of their keys. Do not hold across a call that may write to the map.
    pub fn entries(&self) -> Ref<'_, BTreeMap<Str, Value>> {
        self.entries.0.borrow()
    }

    /// A copy of the entries.
    pub fn to_vec(&self) -> Vec<(Str, Value)> {
        self.entries.0.borrow().iter().map(|(k, v)| (k.clone(), v.clone())).collect()
    }

    /// The same for every name of the same storage, different for different storages.
    pub fn id(&self) -> usize {
        Rc::as_ptr(&self.entries).addr()
    }
}

impl<K: Into<Str>> FromIterator<(K, Value)> for Map {
    fn from_iter<T: IntoIterator<Item = (K, Value)>>(iter: T) -> Self {
        Map::of(MapKind::Any, iter.into_iter().map(|(k, v)| (k.into(), v)).collect())
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

fn is_container(v: &Value) -> bool {
    matches!(v, Value::List(_) | Value::Map(_))
}

fn unwind(mut pending: Vec<Value>) {
    while let Some(v) = pending.pop() {
        match v {
            Value::List(l) => {
                if let Some(mut items) = Rc::into_inner(l.items) {
                    pending.append(items.0.get_mut());
                }
            }
            Value::Map(m) => {
                if let Some(mut entries) = Rc::into_inner(m.entries) {
                    pending.extend(std::mem::take(entries.0.get_mut()).into_values());
                }
            }
            _ => {}
        }
    }
}

/// Prints like `%v`, cut at depth 50: for tests and messages of ours, not for output.
impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        debug(self, f, 0)
    }
}

fn debug(v: &Value, f: &mut fmt::Formatter<'_>, depth: usize) -> fmt::Result {
    if depth > 50 {
        return f.write_str("…");
    }
    match v {
        Value::Nil => f.write_str("nil"),
        Value::Bool(b) => write!(f, "{b}"),
        Value::Str(s) => write!(f, "{s:?}"),
        Value::Float64(n) => write!(f, "{n:?}"),
        Value::List(l) => {
            f.write_str("[")?;
            for (i, v) in l.items().iter().enumerate() {
                if i > 0 {
                    f.write_str(", ")?;
                }
                debug(v, f, depth + 1)?;
            }
            f.write_str("]")
        }
        Value::Map(m) => {
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
impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        self.deep_equal(other)
    }
}

impl From<bool> for Value {
    fn from(b: bool) -> Self {
        Value::Bool(b)
    }
}

impl From<f64> for Value {
    fn from(n: f64) -> Self {
        Value::Float64(n)
    }
}

impl From<&str> for Value {
    fn from(s: &str) -> Self {
        Value::Str(s.into())
    }
}

impl From<String> for Value {
    fn from(s: String) -> Self {
        Value::Str(s.into())
    }
}

impl From<Vec<u8>> for Value {
    fn from(s: Vec<u8>) -> Self {
        Value::Str(s.into())
    }
}

impl From<Str> for Value {
    fn from(s: Str) -> Self {
        Value::Str(s)
    }
}

impl From<Map> for Value {
    fn from(m: Map) -> Self {
        Value::Map(m)
    }
}

impl From<List> for Value {
    fn from(l: List) -> Self {
        Value::List(l)
    }
}
