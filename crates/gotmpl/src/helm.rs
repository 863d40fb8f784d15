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
        map.define("include", text_and_data, FuncCode::Builtin(Builtin::Include));
        map.define("tpl", text_and_data, FuncCode::Builtin(Builtin::Tpl));
        map.add("required", &[GoType::String, GoType::Any], GoType::Any, |ctx, args| {
            let missing = match args.get(1) {
                GoValue::Nil => true,
                GoValue::Str(s) => s.is_empty(),
                _ => false,
            };
            if !missing {
                return Ok(args.get(1).clone());
            }
            let message = args.text(0);
            if ctx.host().tolerate(&format!("Missing required value: {message}")) {
                return Ok(GoValue::str(""));
            }
            Err(FuncError::new(format!("{ERR_START}{message}{ERR_END}")))
        });
        map.add("fail", &[GoType::String], GoType::String, |ctx, args| {
            let message = args.text(0);
            if ctx.host().tolerate(&format!("Fail: {message}")) {
                return Ok(GoValue::str(""));
            }
            Err(FuncError::new(format!("{ERR_START}{message}{ERR_END}")))
        });
        map.add("lookup", &[GoType::String; 4], GoType::Map, |ctx, args| {
            ctx.host().lookup(&args.text(0), &args.text(1), &args.text(2), &args.text(3))
        });
        // Not Helm's: charts written for werf and Nelm have it.
        map.add("werf_secret_file", &[GoType::String], GoType::String, |ctx, args| {
            ctx.host().secret_file(&args.text(0))
        });
        map.add("getHostByName", &[GoType::String], GoType::String, |ctx, args| {
            Ok(ctx.host().resolve(&args.text(0)).unwrap_or_default().into())
        });
        map
    }
}
