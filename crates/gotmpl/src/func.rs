//! Functions templates can call: their Go signatures, how they are registered, what they may use.

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;
use std::time::Instant;

use slipway_go::GoError;

use crate::host::{RenderLimits, TemplateHost};
use crate::str::GoString;
use crate::value::{GoKind, GoList, GoMap, GoValue, MapKind};

/// A parameter or result type, as far as the template engine looks at it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GoType {
    /// `interface {}`
    Any,
    Bool,
    String,
    Int,
    Int32,
    Int64,
    Uint32,
    Uint64,
    Float64,
    /// `map[string]interface {}`
    Map,
    /// `map[string]string`
    StrMap,
    /// `[]interface {}`
    List,
    /// `[]string`
    StrList,
    /// `[]int`
    IntList,
    /// `[]uint8`
    Bytes,
    /// Any other named type: `time.Time`, `sprig.certificate`, `*semver.Version` …
    Named(&'static str),
}

impl GoType {
    /// The type as Go prints it in messages.
    pub fn type_name(self) -> &'static str {
        match self {
            GoType::Any => "interface {}",
            GoType::Bool => "bool",
            GoType::String => "string",
            GoType::Int => "int",
            GoType::Int32 => "int32",
            GoType::Int64 => "int64",
            GoType::Uint32 => "uint32",
            GoType::Uint64 => "uint64",
            GoType::Float64 => "float64",
            GoType::Map => "map[string]interface {}",
            GoType::StrMap => "map[string]string",
            GoType::List => "[]interface {}",
            GoType::StrList => "[]string",
            GoType::IntList => "[]int",
            GoType::Bytes => "[]uint8",
            GoType::Named(n) => n,
        }
    }

    /// Returns true if Go's nil can stand for a value of this type.
    pub fn can_be_nil(self) -> bool {
        match self {
            GoType::Any
            | GoType::Map
            | GoType::StrMap
            | GoType::List
            | GoType::StrList
            | GoType::IntList
            | GoType::Bytes => true,
            GoType::Named(n) => n.starts_with('*'),
            _ => false,
        }
    }

    /// The zero value of a type that [can be nil](GoType::can_be_nil).
    pub(crate) fn zero_value(self) -> GoValue {
        use crate::value::ListKind;
        match self {
            GoType::Map => GoValue::Map(GoMap::nil(MapKind::Any)),
            GoType::StrMap => GoValue::Map(GoMap::nil(MapKind::Strings)),
            GoType::List => GoValue::List(GoList::nil(ListKind::Any)),
            GoType::StrList => GoValue::List(GoList::nil(ListKind::String)),
            GoType::IntList => GoValue::List(GoList::nil(ListKind::Int)),
            GoType::Bytes => GoValue::Bytes(GoString::default()),
            _ => GoValue::Nil,
        }
    }

    /// Go's assignability of a concrete value to this type.
    pub(crate) fn accepts_value(self, v: &GoValue) -> bool {
        match self {
            GoType::Any => true,
            // chartutil.Values has map[string]interface{} underneath, so it is assignable.
            GoType::Map => matches!(v, GoValue::Map(m) if matches!(m.kind(), MapKind::Any | MapKind::Values)),
            GoType::String => matches!(v, GoValue::Str(_)),
            GoType::Int => matches!(v, GoValue::Int(_)),
            GoType::Bool => matches!(v, GoValue::Bool(_)),
            GoType::Float64 => matches!(v, GoValue::Float64(_)),
            _ => v.type_name() == self.type_name(),
        }
    }

    pub(crate) fn go_kind(self) -> GoKind {
        match self {
            GoType::Any => GoKind::Interface,
            GoType::Bool => GoKind::Bool,
            GoType::String => GoKind::String,
            GoType::Int => GoKind::Int,
            GoType::Int32 => GoKind::Int32,
            GoType::Int64 => GoKind::Int64,
            GoType::Uint32 => GoKind::Uint32,
            GoType::Uint64 => GoKind::Uint64,
            GoType::Float64 => GoKind::Float64,
            GoType::Map | GoType::StrMap => GoKind::Map,
            GoType::List | GoType::StrList | GoType::IntList | GoType::Bytes => GoKind::Slice,
            GoType::Named(_) => GoKind::Struct,
        }
    }
}

impl fmt::Display for GoType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.type_name())
    }
}

/// A Go function type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FuncSignature {
    pub params: &'static [GoType],
    /// The element type of a final `...T` parameter.
    pub variadic: Option<GoType>,
    pub result: GoType,
}

impl FuncSignature {
    pub const fn new(params: &'static [GoType], result: GoType) -> Self {
        FuncSignature { params, variadic: None, result }
    }

    pub const fn new_variadic(params: &'static [GoType], rest: GoType, result: GoType) -> Self {
        FuncSignature { params, variadic: Some(rest), result }
    }
}

/// The result of a function.
pub type FuncResult = Result<GoValue, FuncError>;

/// The reason a function failed; the text follows `error calling NAME: `.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct FuncError {
    message: String,
    limit: bool,
}

impl FuncError {
    /// An ordinary error, or a Go panic with its text.
    pub fn new(message: impl Into<String>) -> Self {
        FuncError { message: message.into(), limit: false }
    }

    /// Work or memory beyond [`RenderLimits`]: no fallback value may hide this one.
    pub fn limit_exceeded(message: impl Into<String>) -> Self {
        FuncError { message: message.into(), limit: true }
    }

    /// Go's text for following a nil pointer.
    pub fn nil_dereference() -> Self {
        Self::new("runtime error: invalid memory address or nil pointer dereference")
    }

    pub fn message(&self) -> &str {
        &self.message
    }

    pub fn is_limit(&self) -> bool {
        self.limit
    }
}

impl From<String> for FuncError {
    fn from(message: String) -> Self {
        Self::new(message)
    }
}

impl From<GoError> for FuncError {
    fn from(error: GoError) -> Self {
        Self::new(error.to_string())
    }
}

impl From<&str> for FuncError {
    fn from(message: &str) -> Self {
        Self::new(message)
    }
}

/// Evaluated arguments that fit the function's [`FuncSignature`].
#[derive(Clone, Copy)]
pub struct FuncArgs<'a>(pub &'a [GoValue]);

impl<'a> FuncArgs<'a> {
    pub fn len(self) -> usize {
        self.0.len()
    }

    pub fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// Argument `i`; nil if there is none.
    pub fn get(self, i: usize) -> &'a GoValue {
        const NIL: &GoValue = &GoValue::Nil;
        self.0.get(i).unwrap_or(NIL)
    }

    /// The arguments from `i` on: the variadic ones.
    pub fn rest(self, i: usize) -> &'a [GoValue] {
        self.0.get(i..).unwrap_or_default()
    }

    // The engine has checked the types against the signature: the fallbacks below are never seen.

    /// Argument `i` of type `string`.
    pub fn str(self, i: usize) -> &'a [u8] {
        match self.get(i) {
            GoValue::Str(s) => s,
            _ => &[],
        }
    }

    /// Argument `i` of type `string`, shared.
    pub fn string(self, i: usize) -> GoString {
        match self.get(i) {
            GoValue::Str(s) => s.clone(),
            _ => GoString::default(),
        }
    }

    /// Argument `i` of type `string`, U+FFFD for what is not UTF-8.
    pub fn text(self, i: usize) -> std::borrow::Cow<'a, str> {
        String::from_utf8_lossy(self.str(i))
    }

    /// Argument `i` of any integer type.
    pub fn int(self, i: usize) -> i64 {
        let v = self.get(i);
        v.as_int().or_else(|| v.as_uint().and_then(|n| i64::try_from(n).ok())).unwrap_or_default()
    }

    /// Argument `i` of type `float64`.
    pub fn float(self, i: usize) -> f64 {
        match self.get(i) {
            GoValue::Float64(n) => *n,
            _ => 0.0,
        }
    }

    /// Argument `i` of type `bool`.
    pub fn bool(self, i: usize) -> bool {
        matches!(self.get(i), GoValue::Bool(true))
    }

    /// Argument `i` of type `map[string]interface {}` (maybe nil).
    pub fn map(self, i: usize) -> GoMap {
        match self.get(i) {
            GoValue::Map(m) => m.clone(),
            _ => GoMap::nil(MapKind::Any),
        }
    }

    /// Argument `i` of a slice type (maybe nil).
    pub fn list(self, i: usize) -> GoList {
        match self.get(i) {
            GoValue::List(l) => l.clone(),
            _ => GoList::nil(crate::value::ListKind::Any),
        }
    }
}

/// The services of the engine for a running function.
pub struct FuncContext<'a> {
    limits: &'a RenderLimits,
    host: &'a dyn TemplateHost,
    pub(crate) used: ResourceUse,
    end: Option<Instant>,
}

/// Steps between two looks at the clock.
const STEPS_BETWEEN_LOOKS: u64 = 1000;

/// Bytes between two looks at the clock.
const BYTES_BETWEEN_LOOKS: u64 = 1 << 20;

/// The resources one execution has consumed so far.
#[derive(Clone, Copy, Default)]
pub(crate) struct ResourceUse {
    pub(crate) steps: u64,
    pub(crate) bytes: u64,
    /// The use at the last look at the clock.
    looked_steps: u64,
    looked_bytes: u64,
}

impl<'a> FuncContext<'a> {
    /// A context outside any template: for calling a function directly.
    pub fn new(limits: &'a RenderLimits, host: &'a dyn TemplateHost) -> Self {
        let end = limits.time.and_then(|time| Instant::now().checked_add(time));
        FuncContext { limits, host, used: ResourceUse::default(), end }
    }

    pub fn limits(&self) -> &'a RenderLimits {
        self.limits
    }

    pub fn host(&self) -> &'a dyn TemplateHost {
        self.host
    }

    /// Call before building a string or list of `bytes` bytes whose size the template chose.
    pub fn charge_bytes(&mut self, bytes: usize) -> Result<(), FuncError> {
        if bytes > self.limits.value_bytes {
            return Err(FuncError::limit_exceeded(format!(
                "the result would be {bytes} bytes long; the limit is {} bytes",
                self.limits.value_bytes
            )));
        }
        self.used.bytes = self.used.bytes.saturating_add(bytes as u64);
        if self.used.bytes > self.limits.total_bytes {
            return Err(FuncError::limit_exceeded(format!(
                "rendering used more than {} bytes of memory",
                self.limits.total_bytes
            )));
        }
        self.check_deadline()
    }

    /// Call for work the template chose the amount of: one step is about one node evaluated.
    pub fn charge_steps(&mut self, steps: u64) -> Result<(), FuncError> {
        self.used.steps = self.used.steps.saturating_add(steps);
        if self.used.steps > self.limits.steps {
            return Err(FuncError::limit_exceeded(format!(
                "rendering took more than {} steps",
                self.limits.steps
            )));
        }
        self.check_deadline()
    }

    /// Looks at the clock after some work: asking it costs more than a step.
    fn check_deadline(&mut self) -> Result<(), FuncError> {
        let used = &mut self.used;
        if used.steps.wrapping_sub(used.looked_steps) < STEPS_BETWEEN_LOOKS
            && used.bytes.wrapping_sub(used.looked_bytes) < BYTES_BETWEEN_LOOKS
        {
            return Ok(());
        }
        used.looked_steps = used.steps;
        used.looked_bytes = used.bytes;
        if let (Some(end), Some(time)) = (self.end, self.limits.time)
            && Instant::now() >= end
        {
            return Err(FuncError::limit_exceeded(format!("rendering took longer than {time:?}")));
        }
        if self.host.is_stopped() {
            return Err(FuncError::limit_exceeded("rendering was stopped"));
        }
        Ok(())
    }
}

/// A function's body.
pub type FuncBody = dyn Fn(&mut FuncContext<'_>, FuncArgs<'_>) -> FuncResult + Send + Sync;

pub(crate) enum FuncCode {
    /// Gets plain values of the types it declared.
    Plain(Box<FuncBody>),
    /// Part of the engine: sees unevaluated or untyped operands.
    Builtin(crate::builtin::Builtin),
}

/// A named function with its signature.
pub struct TemplateFunc {
    pub(crate) name: String,
    pub(crate) signature: FuncSignature,
    pub(crate) code: FuncCode,
}

impl TemplateFunc {
    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn signature(&self) -> FuncSignature {
        self.signature
    }

    /// Calls it with arguments that fit its signature; none for the engine's own functions.
    pub fn call(&self, ctx: &mut FuncContext<'_>, args: &[GoValue]) -> Option<FuncResult> {
        match &self.code {
            FuncCode::Plain(body) => Some(body(ctx, FuncArgs(args))),
            FuncCode::Builtin(_) => None,
        }
    }
}

impl fmt::Debug for TemplateFunc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "func {}{:?}", self.name, self.signature)
    }
}

/// The hash of Fowler, Noll and Vo: names of functions are short, and no template adds to them.
#[derive(Clone, Copy)]
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Hasher for Fnv {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// The functions known to a set of templates.
#[derive(Clone, Default)]
pub struct FuncMap {
    map: HashMap<Arc<str>, Arc<TemplateFunc>, BuildHasherDefault<Fnv>>,
}

impl FuncMap {
    /// No functions at all.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds or replaces `func name(params...) result`.
    pub fn add_function<F>(&mut self, name: &str, params: &'static [GoType], result: GoType, body: F)
    where
        F: Fn(&mut FuncContext<'_>, FuncArgs<'_>) -> FuncResult + Send + Sync + 'static,
    {
        self.define_function(name, FuncSignature::new(params, result), FuncCode::Plain(Box::new(body)));
    }

    /// Adds or replaces `func name(params..., rest...) result`.
    pub fn add_variadic<F>(
        &mut self,
        name: &str,
        params: &'static [GoType],
        rest: GoType,
        result: GoType,
        body: F,
    ) where
        F: Fn(&mut FuncContext<'_>, FuncArgs<'_>) -> FuncResult + Send + Sync + 'static,
    {
        self.define_function(
            name,
            FuncSignature::new_variadic(params, rest, result),
            FuncCode::Plain(Box::new(body)),
        );
    }

    pub(crate) fn define_function(&mut self, name: &str, signature: FuncSignature, code: FuncCode) {
        self.map.insert(name.into(), Arc::new(TemplateFunc { name: name.to_owned(), signature, code }));
    }

    /// Makes `alias` another name of `name`.
    pub fn add_alias(&mut self, alias: &str, name: &str) {
        let Some(f) = self.map.get(name) else { return };
        // The message of a failing call names the function as the template wrote it; that name comes
        // from the call, not from here, so the body can be shared.
        let f = Arc::clone(f);
        self.map.insert(alias.into(), f);
    }

    pub fn remove_function(&mut self, name: &str) {
        self.map.remove(name);
    }

    pub fn get(&self, name: &str) -> Option<&Arc<TemplateFunc>> {
        self.map.get(name)
    }

    /// A function with the name it is known by, both to be shared.
    pub(crate) fn entry(&self, name: &str) -> Option<(&Arc<str>, &Arc<TemplateFunc>)> {
        self.map.get_key_value(name)
    }

    /// Adds every function of `other`, replacing those of the same name.
    pub fn extend(&mut self, other: &FuncMap) {
        self.map.extend(other.map.iter().map(|(k, v)| (Arc::clone(k), Arc::clone(v))));
    }

    /// Every name, sorted.
    pub fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.map.keys().map(|name| &**name).collect();
        names.sort_unstable();
        names
    }
}
