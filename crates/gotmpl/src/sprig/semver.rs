//! Versions and constraints as templates see them.

use std::borrow::Cow;

use crate::func::{Args, Ctx, FuncError, FuncMap, FuncResult, Signature, Ty};
use crate::object::{Json, Object};
use crate::str::Str;
use crate::value::Value;
use slipway_go::semver::{Constraints, SemverError, Version};

const S: Ty = Ty::String;
const POINTER: Ty = Ty::Named("*semver.Version");
const PLAIN: Ty = Ty::Named("semver.Version");

pub(super) fn add(map: &mut FuncMap) {
    map.add("semver", &[S], POINTER, |_, args| {
        Ok(Value::ptr(Semver(Version::parse(&args.text(0)).map_err(fail)?)))
    });
    map.add("semverCompare", &[S, S], Ty::Bool, |_, args| {
        let constraints = Constraints::parse(&args.text(0)).map_err(fail)?;
        let version = Version::parse(&args.text(1)).map_err(fail)?;
        Ok(constraints.check(&version).into())
    });
}

fn fail(error: SemverError) -> FuncError {
    FuncError::new(error.to_string())
}

/// What a copy by exported fields leaves of a version, which has none.
pub(super) fn copied(value: &Value) -> Option<Value> {
    let (Value::Ptr(object) | Value::Object(object)) = value else { return None };
    object.downcast::<Semver>()?;
    let zero = Semver(Version::parse("0.0.0").ok()?);
    Some(if matches!(value, Value::Ptr(_)) { Value::ptr(zero) } else { Value::object(zero) })
}

/// Go's `semver.Version`.
struct Semver(Version);

impl Object for Semver {
    fn type_name(&self) -> Cow<'static, str> {
        "semver.Version".into()
    }

    fn method(&self, name: &str, addressable: bool) -> Option<Signature> {
        Some(match name {
            "Major" | "Minor" | "Patch" => Signature::new(&[], Ty::Uint64),
            "Prerelease" | "Metadata" | "String" => Signature::new(&[], S),
            "IncMajor" | "IncMinor" | "IncPatch" => Signature::new(&[], PLAIN),
            "SetPrerelease" | "SetMetadata" => Signature::new(&[S], PLAIN),
            "Original" if addressable => Signature::new(&[], S),
            "Compare" if addressable => Signature::new(&[POINTER], Ty::Int),
            "LessThan" | "LessThanEqual" | "GreaterThan" | "GreaterThanEqual" | "Equal" if addressable => {
                Signature::new(&[POINTER], Ty::Bool)
            }
            _ => return None,
        })
    }

    fn call(&self, name: &str, _ctx: &mut Ctx<'_>, args: Args<'_>) -> FuncResult {
        let version = &self.0;
        let order = || match args.get(0) {
            Value::Ptr(object) => object
                .downcast::<Self>()
                .map(|other| version.compare(&other.0))
                .ok_or_else(FuncError::nil_dereference),
            _ => Err(FuncError::nil_dereference()),
        };
        let plain = |version: Version| Value::object(Self(version));
        Ok(match name {
            "Major" => Value::Uint64(version.major),
            "Minor" => Value::Uint64(version.minor),
            "Patch" => Value::Uint64(version.patch),
            "Prerelease" => version.prerelease.as_str().into(),
            "Metadata" => version.metadata.as_str().into(),
            "String" => version.to_string().into(),
            "Original" => version.original.as_str().into(),
            "IncMajor" => plain(version.inc_major()),
            "IncMinor" => plain(version.inc_minor()),
            "IncPatch" => plain(version.inc_patch()),
            "SetPrerelease" => plain(version.set_prerelease(&args.text(0)).map_err(fail)?),
            "SetMetadata" => plain(version.set_metadata(&args.text(0)).map_err(fail)?),
            "Compare" => Value::Int(order()? as i64),
            "LessThan" => order()?.is_lt().into(),
            "LessThanEqual" => order()?.is_le().into(),
            "GreaterThan" => order()?.is_gt().into(),
            "GreaterThanEqual" => order()?.is_ge().into(),
            "Equal" => order()?.is_eq().into(),
            _ => return Err(FuncError::new(format!("no method {name}"))),
        })
    }

    fn text(&self, _addressable: bool) -> Option<Str> {
        Some(self.0.to_string().into())
    }

    fn json(&self) -> Json {
        Json::Value(self.0.to_string().into())
    }

    fn equals(&self, other: &dyn Object) -> bool {
        other.downcast::<Self>().is_some_and(|other| self.0 == other.0)
    }
}
