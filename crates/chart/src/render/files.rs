//! `.Files`: the chart's own files as templates see them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use base64::Engine as _;
use slipway_gotmpl::{
    FuncArgs, FuncContext, FuncError, FuncResult, FuncSignature, GoKind, GoMap, GoObject, GoString, GoType,
    GoValue, MapKind, ObjectJson,
};

use super::glob::GlobPattern;
use crate::codec;
use crate::load::ChartFile;
use slipway_go::filepath;

/// Helm's `engine.files`.
pub(super) struct FilesObject(Rc<BTreeMap<String, GoString>>);

const TYPE: &str = "engine.files";

impl FilesObject {
    pub(super) fn value(files: &[ChartFile]) -> GoValue {
        let files =
            files.iter().map(|file| (file.name.clone(), GoString::from(Arc::clone(&file.data)))).collect();
        GoValue::object(Self(Rc::new(files)))
    }

    fn get(&self, name: &[u8]) -> Option<&GoString> {
        std::str::from_utf8(name).ok().and_then(|name| self.0.get(name))
    }

    /// One entry per base name, the last path winning, as YAML.
    fn by_base_name(&self, encode: impl Fn(&GoString) -> String) -> String {
        let entries: BTreeMap<&str, String> =
            self.0.iter().map(|(name, data)| (filepath::base(name), encode(data))).collect();
        let json = entries.into_iter().map(|(name, data)| (name.to_owned(), data.into())).collect();
        let text = codec::write(&serde_json::Value::Object(json));
        text.strip_suffix('\n').map(str::to_owned).unwrap_or(text)
    }
}

impl GoObject for FilesObject {
    fn type_name(&self) -> Cow<'static, str> {
        TYPE.into()
    }

    fn kind(&self) -> GoKind {
        GoKind::Map
    }

    fn inner(&self) -> Option<GoValue> {
        let entries = self.0.iter().map(|(name, data)| (name.as_str().into(), GoValue::Bytes(data.clone())));
        Some(GoValue::Map(GoMap::of(MapKind::Bytes, entries.collect())))
    }

    fn method(&self, name: &str, _addressable: bool) -> Option<FuncSignature> {
        Some(match name {
            "Get" => FuncSignature::new(&[GoType::String], GoType::String),
            "GetBytes" => FuncSignature::new(&[GoType::String], GoType::Bytes),
            "Glob" => FuncSignature::new(&[GoType::String], GoType::Named(TYPE)),
            "Lines" => FuncSignature::new(&[GoType::String], GoType::StrList),
            "AsConfig" | "AsSecrets" => FuncSignature::new(&[], GoType::String),
            _ => return None,
        })
    }

    fn call(&self, name: &str, _ctx: &mut FuncContext<'_>, args: FuncArgs<'_>) -> FuncResult {
        Ok(match name {
            "Get" => GoValue::Str(self.get(args.str(0)).cloned().unwrap_or_default()),
            "GetBytes" => GoValue::Bytes(self.get(args.str(0)).cloned().unwrap_or_default()),
            "Glob" => {
                let glob = GlobPattern::new(&args.text(0));
                let chosen = self.0.iter().filter(|(name, _)| glob.matches(name));
                GoValue::object(Self(Rc::new(chosen.map(|(k, v)| (k.clone(), v.clone())).collect())))
            }
            "Lines" => {
                let Some(data) = self.get(args.str(0)) else {
                    return Ok(GoValue::strings(Vec::<GoString>::new()));
                };
                let Some(last) = data.last() else {
                    return Err(FuncError::new("runtime error: index out of range [-1]"));
                };
                let body = if *last == b'\n' { &data[..data.len() - 1] } else { data };
                GoValue::strings(body.split(|byte| *byte == b'\n'))
            }
            "AsConfig" => GoValue::from(self.by_base_name(|data| data.lossy().into_owned())),
            "AsSecrets" => GoValue::from(
                self.by_base_name(|data| base64::engine::general_purpose::STANDARD.encode(data)),
            ),
            other => return Err(FuncError::new(format!("no method {other}"))),
        })
    }

    fn json(&self) -> ObjectJson {
        match self.inner() {
            Some(inner) => ObjectJson::Value(inner),
            None => ObjectJson::Fields(Vec::new()),
        }
    }
}
