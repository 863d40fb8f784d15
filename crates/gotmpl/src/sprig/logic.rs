//! Defaults and choices.

use super::cast::is_empty;
use crate::func::{FuncMap, Ty};
use crate::value::Value;

const A: Ty = Ty::Any;

pub(super) fn add(map: &mut FuncMap) {
    map.add_variadic("default", &[A], A, A, |_, args| {
        let given = args.rest(1).first().filter(|given| !is_empty(given));
        Ok(given.unwrap_or(args.get(0)).clone())
    });
    map.add("empty", &[A], Ty::Bool, |_, args| Ok(is_empty(args.get(0)).into()));
    map.add_variadic("coalesce", &[], A, A, |_, args| {
        Ok(args.rest(0).iter().find(|value| !is_empty(value)).cloned().unwrap_or(Value::Nil))
    });
    map.add_variadic("all", &[], A, Ty::Bool, |_, args| {
        Ok(args.rest(0).iter().all(|value| !is_empty(value)).into())
    });
    map.add_variadic("any", &[], A, Ty::Bool, |_, args| {
        Ok(args.rest(0).iter().any(|value| !is_empty(value)).into())
    });
    map.add("ternary", &[A, A, Ty::Bool], A, |_, args| Ok(args.get(usize::from(!args.bool(2))).clone()));
}
