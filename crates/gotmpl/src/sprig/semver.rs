//! Versions and constraints as templates see them.

use std::borrow::Cow;

use crate::func::{FuncArgs, FuncContext, FuncError, FuncMap, FuncResult, FuncSignature, GoType};
use crate::object::{GoObject, ObjectJson};
use crate::str::GoString;
use crate::value::GoValue;
use slipway_go::semver::{Constraints, SemverError, Version};

const S: GoType = GoType::String;
const POINTER: GoType = GoType::Named("*semver.Version");
const PLAIN: GoType = GoType::Named("semver.Version");

pub(super) fn add(map: &mut FuncMap) {
    map.add("semver", &[S], POINTER, |_, args| {
        Ok(GoValue::ptr(Semver(Version::parse(&args.text(0)).map_err(fail)?)))
    });
    map.add("semverCompare", &[S, S], GoType::Bool, |_, args| {
        let constraints = Constraints::parse(&args.text(0)).map_err(fail)?;
        let version = Version::parse(&args.text(1)).map_err(fail)?;
        Ok(constraints.check(&version).into())
    });
}

fn fail(error: SemverError) -> FuncError {
    FuncError::new(error.to_string())
}

/// What a copy by exported fields leaves of a version, which has none.
pub(super) fn copied(value: &GoValue) -> Option<GoValue> {
    let (GoValue::Ptr(object) | GoValue::Object(object)) = value else { return None };
    object.downcast::<Semver>()?;
    let zero = Semver(Version::parse("0.0.0").ok()?);
    Some(if matches!(value, GoValue::Ptr(_)) { GoValue::ptr(zero) } else { GoValue::object(zero) })
}

/// Go's `semver.Version`.
struct Semver(Version);

impl GoObject for Semver {
    fn type_name(&self) -> Cow<'static, str> {
        "semver.Version".into()
    }

    fn method(&self, name: &str, addressable: bool) -> Option<FuncSignature> {
        Some(match name {
            "Major" | "Minor" | "Patch" => FuncSignature::new(&[], GoType::Uint64),
            "Prerelease" | "Metadata" | "String" => FuncSignature::new(&[], S),
            "IncMajor" | "IncMinor" | "IncPatch" => FuncSignature::new(&[], PLAIN),
            "SetPrerelease" | "SetMetadata" => FuncSignature::new(&[S], PLAIN),
            "Original" if addressable => FuncSignature::new(&[], S),
            "Compare" if addressable => FuncSignature::new(&[POINTER], GoType::Int),
            "LessThan" | "LessThanEqual" | "GreaterThan" | "GreaterThanEqual" | "Equal" if addressable => {
                FuncSignature::new(&[POINTER], GoType::Bool)
            }
            _ => return None,
        })
    }

    fn call(&self, name: &str, _ctx: &mut FuncContext<'_>, args: FuncArgs<'_>) -> FuncResult {
        let version = &self.0;
        let order = || match args.get(0) {
            GoValue::Ptr(object) => object
                .downcast::<Self>()
                .map(|other| version.compare(&other.0))
                .ok_or_else(FuncError::nil_dereference),
            _ => Err(FuncError::nil_dereference()),
        };
        let plain = |version: Version| GoValue::object(Self(version));
        Ok(match name {
            "Major" => GoValue::Uint64(version.major),
            "Minor" => GoValue::Uint64(version.minor),
            "Patch" => GoValue::Uint64(version.patch),
            "Prerelease" => version.prerelease.as_str().into(),
            "Metadata" => version.metadata.as_str().into(),
            "String" => version.to_string().into(),
            "Original" => version.original.as_str().into(),
            "IncMajor" => plain(version.inc_major()),
            "IncMinor" => plain(version.inc_minor()),
            "IncPatch" => plain(version.inc_patch()),
            "SetPrerelease" => plain(version.set_prerelease(&args.text(0)).map_err(fail)?),
            "SetMetadata" => plain(version.set_metadata(&args.text(0)).map_err(fail)?),
            "Compare" => GoValue::Int(order()? as i64),
            "LessThan" => order()?.is_lt().into(),
            "LessThanEqual" => order()?.is_le().into(),
            "GreaterThan" => order()?.is_gt().into(),
            "GreaterThanEqual" => order()?.is_ge().into(),
            "Equal" => order()?.is_eq().into(),
            _ => return Err(FuncError::new(format!("no method {name}"))),
        })
    }

    fn text(&self, _addressable: bool) -> Option<GoString> {
        Some(self.0.to_string().into())
    }

    fn json(&self) -> ObjectJson {
        ObjectJson::Value(self.0.to_string().into())
    }

    fn equals(&self, other: &dyn GoObject) -> bool {
        other.downcast::<Self>().is_some_and(|other| self.0 == other.0)
    }
}
