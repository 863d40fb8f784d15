//! What chartutil.Values can do besides being a map, and maps under named types.

use super::TemplateRenderer;
use crate::func::{FuncArgs, FuncError, FuncResult, FuncSignature, GoType};
use crate::value::{GoMap, GoValue, MapKind};
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
    pub(super) fn signature(self) -> FuncSignature {
        match self {
            ValuesMethod::Yaml => FuncSignature::new(&[], GoType::String),
            ValuesMethod::AsMap => FuncSignature::new(&[], GoType::Map),
            ValuesMethod::Table => FuncSignature::new(&[GoType::String], GoType::Named("chartutil.Values")),
            ValuesMethod::PathValue => FuncSignature::new(&[GoType::String], GoType::Any),
            // No template can have a writer to give.
            ValuesMethod::Encode => FuncSignature::new(&[GoType::Named("io.Writer")], GoType::Any),
        }
    }
}

impl TemplateRenderer<'_> {
    pub(super) fn values_method(
        &mut self,
        m: &GoMap,
        method: ValuesMethod,
        args: FuncArgs<'_>,
    ) -> FuncResult {
        match method {
            ValuesMethod::Yaml => {
                let to_yaml = self.set.funcs().get("toYaml").cloned();
                let text = to_yaml.and_then(|f| f.call(&mut self.ctx, &[GoValue::Map(m.clone())]));
                let mut text = match text.transpose()? {
                    Some(GoValue::Str(text)) => text.to_vec(),
                    _ => return Err(FuncError::new("no YAML encoder")),
                };
                text.push(b'\n');
                Ok(text.into())
            }
            ValuesMethod::AsMap if m.is_empty() => Ok(GoValue::map()),
            ValuesMethod::AsMap => Ok(GoValue::Map(m.with_kind(MapKind::Any))),
            ValuesMethod::Table => table(m, &args.text(0)).map(GoValue::Map),
            ValuesMethod::PathValue => path_value(m, &args.text(0)),
            ValuesMethod::Encode => Ok(GoValue::Nil),
        }
    }
}

fn quoted(key: &str) -> String {
    String::from_utf8_lossy(&strconv::quote(key.as_bytes())).into_owned()
}

fn table(m: &GoMap, path: &str) -> Result<GoMap, FuncError> {
    let mut table = m.clone();
    for key in path.split('.') {
        table = match table.get(key) {
            Some(GoValue::Map(m)) if m.kind() != MapKind::Strings => m,
            _ => return Err(FuncError::new(format!("{} is not a table", quoted(key)))),
        };
    }
    Ok(table.with_kind(MapKind::Values))
}

fn path_value(m: &GoMap, path: &str) -> FuncResult {
    if path.is_empty() {
        return Err("YAML path cannot be empty".into());
    }
    let (parent, key) = match path.rsplit_once('.') {
        Some((parent, key)) => (table(m, parent), key),
        None => (Ok(m.clone()), path),
    };
    match parent.ok().and_then(|m| m.get(key)) {
        Some(GoValue::Map(m)) if m.kind() == MapKind::Any => {}
        Some(v) => return Ok(v),
        None => {}
    }
    Err(FuncError::new(format!("{} is not a value", quoted(key))))
}

impl GoValue {
    /// The map of anything of kind map, named map types included.
    pub(crate) fn entries(&self) -> Option<GoMap> {
        match self {
            GoValue::Map(m) => Some(m.clone()),
            GoValue::Object(o) => o.inner().and_then(|v| v.entries()),
            _ => None,
        }
    }
}
