//! The functions Helm's engine itself adds: include, tpl, required, fail, lookup.

use crate::builtin::Builtin;
use crate::exec::{ERR_END, ERR_START};
use crate::func::{FuncCode, FuncError, FuncMap, FuncSignature, GoType};
use crate::value::GoValue;

impl FuncMap {
    /// text/template's functions and those of Helm's engine; the library of the rest goes between.
    pub fn helm(library: &FuncMap) -> Self {
        let mut map = FuncMap::builtins();
        map.extend(library);
        let text_and_data = FuncSignature::new(&[GoType::String, GoType::Any], GoType::String);
        map.define_function("include", text_and_data, FuncCode::Builtin(Builtin::Include));
        map.define_function("tpl", text_and_data, FuncCode::Builtin(Builtin::Tpl));
        map.add_function("required", &[GoType::String, GoType::Any], GoType::Any, |ctx, args| {
            let missing = match args.get(1) {
                GoValue::Nil => true,
                GoValue::Str(s) => s.is_empty(),
                _ => false,
            };
            if !missing {
                return Ok(args.get(1).clone());
            }
            let message = args.text(0);
            if ctx.host().tolerates_failure(&format!("Missing required value: {message}")) {
                return Ok(GoValue::str(""));
            }
            Err(FuncError::new(format!("{ERR_START}{message}{ERR_END}")))
        });
        map.add_function("fail", &[GoType::String], GoType::String, |ctx, args| {
            let message = args.text(0);
            if ctx.host().tolerates_failure(&format!("Fail: {message}")) {
                return Ok(GoValue::str(""));
            }
            Err(FuncError::new(format!("{ERR_START}{message}{ERR_END}")))
        });
        map.add_function("lookup", &[GoType::String; 4], GoType::Map, |ctx, args| {
            ctx.host().lookup_object(&args.text(0), &args.text(1), &args.text(2), &args.text(3))
        });
        // Not Helm's: charts written for werf and Nelm have it.
        map.add_function("werf_secret_file", &[GoType::String], GoType::String, |ctx, args| {
            ctx.host().secret_file(&args.text(0))
        });
        map.add_function("getHostByName", &[GoType::String], GoType::String, |ctx, args| {
            Ok(ctx.host().resolve_host(&args.text(0)).unwrap_or_default().into())
        });
        map
    }
}
