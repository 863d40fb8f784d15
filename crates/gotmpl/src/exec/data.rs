//! What chartutil.Values can do besides being a map, and maps under named types.

use super::Renderer;
use crate::func::{Args, FuncError, FuncResult, Signature, Ty};
use crate::value::{Map, MapKind, Value};
use slipway_go::strconv;

#[derive(Clone, Copy)]
pub(super) enum ValuesMethod {
    Yaml,
    AsMap,
    Table,
    PathValue,
    Encode,
}

pub(super) fn values_method(name: &str) -> Option<ValuesMethod> {
    Some(match name {
        "YAML" => ValuesMethod::Yaml,
        "AsMap" => ValuesMethod::AsMap,
        "Table" => ValuesMethod::Table,
        "PathValue" => ValuesMethod::PathValue,
        "Encode" => ValuesMethod::Encode,
        _ => return None,
    })
}

impl ValuesMethod {
    pub(super) fn signature(self) -> Signature {
        match self {
            ValuesMethod::Yaml => Signature::new(&[], Ty::String),
            ValuesMethod::AsMap => Signature::new(&[], Ty::Map),
            ValuesMethod::Table => Signature::new(&[Ty::String], Ty::Named("chartutil.Values")),
            ValuesMethod::PathValue => Signature::new(&[Ty::String], Ty::Any),
            // No template can have a writer to give.
            ValuesMethod::Encode => Signature::new(&[Ty::Named("io.Writer")], Ty::Any),
        }
    }
}

impl Renderer<'_> {
    pub(super) fn values_method(&mut self, m: &Map, method: ValuesMethod, args: Args<'_>) -> FuncResult {
        match method {
            ValuesMethod::Yaml => {
                let to_yaml = self.set.funcs().get("toYaml").cloned();
                let text = to_yaml.and_then(|f| f.call(&mut self.ctx, &[Value::Map(m.clone())]));
                let mut text = match text.transpose()? {
                    Some(Value::Str(text)) => text.to_vec(),
                    _ => return Err(FuncError::new("no YAML encoder")),
                };
                text.push(b'\n');
                Ok(text.into())
            }
            ValuesMethod::AsMap if m.is_empty() => Ok(Value::map()),
            ValuesMethod::AsMap => Ok(Value::Map(m.with_kind(MapKind::Any))),
            ValuesMethod::Table => table(m, &args.text(0)).map(Value::Map),
            ValuesMethod::PathValue => path_value(m, &args.text(0)),
            ValuesMethod::Encode => Ok(Value::Nil),
        }
    }
}

fn quoted(key: &str) -> String {
    String::from_utf8_lossy(&strconv::quote(key.as_bytes())).into_owned()
}

fn table(m: &Map, path: &str) -> Result<Map, FuncError> {
    let mut table = m.clone();
    for key in path.split('.') {
        table = match table.get(key) {
            Some(Value::Map(m)) if m.kind() != MapKind::Strings => m,
            _ => return Err(FuncError::new(format!("{} is not a table", quoted(key)))),
        };
    }
    Ok(table.with_kind(MapKind::Values))
}

fn path_value(m: &Map, path: &str) -> FuncResult {
    if path.is_empty() {
        return Err("YAML path cannot be empty".into());
    }
    let (parent, key) = match path.rsplit_once('.') {
        Some((parent, key)) => (table(m, parent), key),
        None => (Ok(m.clone()), path),
    };
    match parent.ok().and_then(|m| m.get(key)) {
        Some(Value::Map(m)) if m.kind() == MapKind::Any => {}
        Some(v) => return Ok(v),
        None => {}
    }
    Err(FuncError::new(format!("{} is not a value", quoted(key))))
}

impl Value {
    /// The map of anything of kind map, named map types included.
    pub(crate) fn entries(&self) -> Option<Map> {
        match self {
            Value::Map(m) => Some(m.clone()),
            Value::Object(o) => o.inner().and_then(|v| v.entries()),
            _ => None,
        }
    }
}
