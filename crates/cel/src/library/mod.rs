//! The functions expressions call, in libraries an environment enables.

mod clock;
mod convert;
mod data;
mod encoders;
mod format;
mod kubernetes;
mod lists;
mod math;
mod optional;
mod pattern;
mod seeded;
mod sets;
mod standard;
mod strings;
mod time;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

pub(crate) use clock::CLOCK;
pub(crate) use pattern::Pattern;
pub(crate) use time::{in_range, parse_duration, parse_timestamp};

use crate::error::EvalError;
use crate::eval::Meter;
use crate::types::Type;
use crate::value::Value;

/// The result of a function.
pub type Answer<'a> = Result<Value<'a>, EvalError>;

type Run = dyn for<'a> Fn(&Meter<'_>, &[Value<'a>]) -> Answer<'a> + Send + Sync;

/// A set of functions that an environment offers beyond the standard ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Library {
    /// `charAt format indexOf join lowerAscii replace split substring trim …`
    Strings,
    /// `math.greatest math.least math.ceil math.abs math.bitAnd …`
    Math,
    /// `slice flatten reverse sort sortBy distinct lists.range`
    Lists,
    /// `sets.contains sets.equivalent sets.intersects`
    Sets,
    /// `base64.encode base64.decode`
    Encoders,
    /// `a.?b a[?i] optional.of optional.none orValue optMap …`
    Optionals,
    /// Kubernetes' additions: `url ip cidr quantity semver format find findAll isSorted sum min max indexOf`
    Kubernetes,
    /// `json.marshal json.unmarshal merge lists.setAtIndex lists.insertAtIndex lists.removeAtIndex`
    Data,
    /// `now time.now`, which tell the time the bindings say it is.
    Clock,
    /// `hash.sha256 hash.sha512 random.seededInt random.seededString`
    Seeded,
}

impl Library {
    /// Every library.
    pub const ALL: &[Self] = &[
        Self::Strings,
        Self::Math,
        Self::Lists,
        Self::Sets,
        Self::Encoders,
        Self::Optionals,
        Self::Kubernetes,
        Self::Data,
        Self::Clock,
        Self::Seeded,
    ];
    /// The libraries Kubernetes does not have.
    pub(crate) const OWN: &[Self] = &[Self::Data, Self::Clock, Self::Seeded];
}

/// One signature of a function, with its implementation.
pub struct Overload {
    pub(crate) name: Arc<str>,
    pub(crate) member: bool,
    pub(crate) params: Vec<Type>,
    pub(crate) result: Type,
    /// Number of type parameters of the signature.
    pub(crate) generics: u32,
    pub(crate) run: Box<Run>,
}

impl fmt::Debug for Overload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let params: Vec<String> = self.params.iter().map(ToString::to_string).collect();
        match (self.member, params.split_first()) {
            (true, Some((target, rest))) => write!(f, "{target}.{}({})", self.name, rest.join(", "))?,
            _ => write!(f, "{}({})", self.name, params.join(", "))?,
        }
        write!(f, " -> {}", self.result)
    }
}

impl Overload {
    /// A function called as `name(args)`; the name may hold dots.
    pub fn function<F>(name: &str, params: Vec<Type>, result: Type, run: F) -> Self
    where
        F: for<'a> Fn(&Meter<'_>, &[Value<'a>]) -> Answer<'a> + Send + Sync + 'static,
    {
        let generics = params.iter().chain([&result]).map(generics).max().unwrap_or(0);
        Self { name: name.into(), member: false, params, result, generics, run: Box::new(run) }
    }

    /// A function called as `target.name(args)`; the target is the first parameter.
    pub fn method<F>(name: &str, params: Vec<Type>, result: Type, run: F) -> Self
    where
        F: for<'a> Fn(&Meter<'_>, &[Value<'a>]) -> Answer<'a> + Send + Sync + 'static,
    {
        Self { member: true, ..Self::function(name, params, result, run) }
    }

    pub(crate) fn admits(&self, args: &[Value<'_>]) -> bool {
        self.params.len() == args.len() && self.params.iter().zip(args).all(|(param, arg)| param.admits(arg))
    }
}

fn generics(ty: &Type) -> u32 {
    match ty {
        Type::Param(number) => number + 1,
        Type::List(inner) | Type::Optional(inner) | Type::Nullable(inner) => generics(inner),
        Type::Map(key, value) => generics(key).max(generics(value)),
        _ => 0,
    }
}

/// Functions by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Functions {
    by_name: HashMap<Arc<str>, Vec<Arc<Overload>>>,
}

impl Functions {
    pub(crate) fn add(&mut self, overload: Overload) {
        self.by_name.entry(overload.name.clone()).or_default().push(Arc::new(overload));
    }

    pub(crate) fn get(&self, name: &str) -> Option<&[Arc<Overload>]> {
        self.by_name.get(name).map(Vec::as_slice)
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.by_name.keys().map(|name| &**name)
    }

    /// Adds a function called as `name(args)`.
    fn function<F>(&mut self, name: &str, params: Vec<Type>, result: Type, run: F)
    where
        F: for<'a> Fn(&Meter<'_>, &[Value<'a>]) -> Answer<'a> + Send + Sync + 'static,
    {
        self.add(Overload::function(name, params, result, run));
    }

    /// Adds a function called as `target.name(args)`.
    fn method<F>(&mut self, name: &str, params: Vec<Type>, result: Type, run: F)
    where
        F: for<'a> Fn(&Meter<'_>, &[Value<'a>]) -> Answer<'a> + Send + Sync + 'static,
    {
        self.add(Overload::method(name, params, result, run));
    }

    pub(crate) fn standard() -> Self {
        let mut functions = Self::default();
        standard::add(&mut functions);
        convert::add(&mut functions);
        time::add(&mut functions);
        functions
    }

    pub(crate) fn enable(&mut self, library: Library) {
        match library {
            Library::Strings => strings::add(self),
            Library::Math => math::add(self),
            Library::Lists => lists::add(self),
            Library::Sets => sets::add(self),
            Library::Encoders => encoders::add(self),
            Library::Optionals => optional::add(self),
            Library::Kubernetes => kubernetes::add(self),
            Library::Data => data::add(self),
            Library::Clock => clock::add(self),
            Library::Seeded => seeded::add(self),
        }
    }
}
