//! Makes types agree, remembering what type parameters stand for.

use std::sync::Arc;

use crate::types::Type;

/// The known type parameters; what was learned can be undone.
#[derive(Default)]
pub(super) struct Params {
    known: Vec<Option<Type>>,
    trail: Vec<u32>,
}

impl Params {
    /// Makes new parameters; gives the first.
    pub(super) fn fresh(&mut self, count: u32) -> u32 {
        let first = self.known.len() as u32;
        self.known.resize(self.known.len() + count as usize, None);
        first
    }

    pub(super) fn fresh_type(&mut self) -> Type {
        Type::Param(self.fresh(1))
    }

    pub(super) fn mark(&self) -> usize {
        self.trail.len()
    }

    /// Forgets what was learned since the mark.
    pub(super) fn undo(&mut self, mark: usize) {
        for param in self.trail.drain(mark..) {
            if let Some(known) = self.known.get_mut(param as usize) {
                *known = None;
            }
        }
    }

    /// The type, if it is a parameter what that stands for.
    pub(super) fn shallow(&self, ty: &Type) -> Type {
        let mut ty = ty;
        while let Type::Param(number) = ty {
            match self.known.get(*number as usize) {
                Some(Some(known)) => ty = known,
                _ => break,
            }
        }
        ty.clone()
    }

    /// The type with every parameter replaced; what is not known is dyn.
    pub(super) fn finish(&self, ty: &Type) -> Type {
        self.replace(ty, 0, true)
    }

    /// The type with every known parameter replaced.
    pub(super) fn deep(&self, ty: &Type) -> Type {
        self.replace(ty, 0, false)
    }

    fn replace(&self, ty: &Type, depth: u32, finish: bool) -> Type {
        if depth > 200 {
            return Type::Dyn;
        }
        let inner = |ty: &Arc<Type>| Arc::new(self.replace(ty, depth + 1, finish));
        match self.shallow(ty) {
            Type::Param(_) if finish => Type::Dyn,
            Type::List(element) => Type::List(inner(&element)),
            Type::Map(key, value) => Type::Map(inner(&key), inner(&value)),
            Type::Optional(value) => Type::Optional(inner(&value)),
            Type::Nullable(value) => Type::Nullable(inner(&value)),
            other => other,
        }
    }

    fn occurs(&self, param: u32, ty: &Type) -> bool {
        match self.shallow(ty) {
            Type::Param(other) => other == param,
            Type::List(inner) | Type::Optional(inner) | Type::Nullable(inner) => self.occurs(param, &inner),
            Type::Map(key, value) => self.occurs(param, &key) || self.occurs(param, &value),
            _ => false,
        }
    }

    fn bind(&mut self, param: u32, ty: Type) -> bool {
        if self.occurs(param, &ty) {
            return false;
        }
        if let Some(known) = self.known.get_mut(param as usize) {
            *known = Some(ty);
            self.trail.push(param);
        }
        true
    }

    /// Makes both one type if that is possible; learns the parameters needed for it.
    pub(super) fn unify(&mut self, a: &Type, b: &Type) -> bool {
        let (a, b) = (self.shallow(a), self.shallow(b));
        match (&a, &b) {
            (Type::Dyn | Type::Error, _) | (_, Type::Dyn | Type::Error) => true,
            (Type::Param(x), Type::Param(y)) if x == y => true,
            (Type::Param(x), _) => self.bind(*x, b),
            (_, Type::Param(y)) => self.bind(*y, a),
            (Type::Null, other) | (other, Type::Null) => matches!(
                other,
                Type::Null | Type::Nullable(_) | Type::Object(_) | Type::Timestamp | Type::Duration
            ),
            (Type::Nullable(x), Type::Nullable(y)) | (Type::List(x), Type::List(y)) => self.unify(x, y),
            (Type::Optional(x), Type::Optional(y)) => self.unify(x, y),
            (Type::Nullable(x), _) => self.unify(x, &b),
            (_, Type::Nullable(y)) => self.unify(&a, y),
            (Type::Map(k1, v1), Type::Map(k2, v2)) => self.unify(k1, k2) && self.unify(v1, v2),
            (Type::Object(x), Type::Object(y)) => Arc::ptr_eq(x, y) || x.name == y.name,
            _ => a == b,
        }
    }

    /// A signature's type with its parameters made those from `base` on.
    pub(super) fn instantiate(ty: &Type, base: u32) -> Type {
        match ty {
            Type::Param(number) => Type::Param(number + base),
            Type::List(inner) => Type::list(Self::instantiate(inner, base)),
            Type::Optional(inner) => Type::optional(Self::instantiate(inner, base)),
            Type::Nullable(inner) => Type::nullable(Self::instantiate(inner, base)),
            Type::Map(key, value) => Type::map(Self::instantiate(key, base), Self::instantiate(value, base)),
            other => other.clone(),
        }
    }
}
