//! Defaults and choices.

use super::cast::is_empty;
use crate::func::{FuncMap, GoType};
use crate::value::GoValue;

const A: GoType = GoType::Any;

pub(super) fn add(map: &mut FuncMap) {
    map.add_variadic("default", &[A], A, A, |_, args| {
        let given = args.rest(1).first().filter(|given| !is_empty(given));
        Ok(given.unwrap_or(args.get(0)).clone())
    });
    map.add("empty", &[A], GoType::Bool, |_, args| Ok(is_empty(args.get(0)).into()));
    map.add_variadic("coalesce", &[], A, A, |_, args| {
        Ok(args.rest(0).iter().find(|value| !is_empty(value)).cloned().unwrap_or(GoValue::Nil))
    });
    map.add_variadic("all", &[], A, GoType::Bool, |_, args| {
        Ok(args.rest(0).iter().all(|value| !is_empty(value)).into())
    });
    map.add_variadic("any", &[], A, GoType::Bool, |_, args| {
        Ok(args.rest(0).iter().any(|value| !is_empty(value)).into())
    });
    map.add("ternary", &[A, A, GoType::Bool], A, |_, args| Ok(args.get(usize::from(!args.bool(2))).clone()));
}
