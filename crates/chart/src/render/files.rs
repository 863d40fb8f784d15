//! `.Files`: the chart's own files as templates see them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use base64::Engine as _;
use slipway_gotmpl::{
    Args, Ctx, FuncError, FuncResult, Json, Kind, Map, MapKind, Object, Signature, Str, Ty, Value,
};

use super::glob::Glob;
use crate::codec;
use crate::load::File;
use slipway_go::filepath;

/// Helm's `engine.files`.
pub(super) struct Files(Rc<BTreeMap<String, Str>>);

const TYPE: &str = "engine.files";

impl Files {
    pub(super) fn value(files: &[File]) -> Value {
        let files = files.iter().map(|file| (file.name.clone(), Str::from(Arc::clone(&file.data)))).collect();
        Value::object(Self(Rc::new(files)))
    }

    fn get(&self, name: &[u8]) -> Option<&Str> {
        std::str::from_utf8(name).ok().and_then(|name| self.0.get(name))
    }

    /// One entry per base name, the last path winning, as YAML.
    fn by_base_name(&self, encode: impl Fn(&Str) -> String) -> String {
        let entries: BTreeMap<&str, String> =
            self.0.iter().map(|(name, data)| (filepath::base(name), encode(data))).collect();
        let json = entries.into_iter().map(|(name, data)| (name.to_owned(), data.into())).collect();
        let text = codec::write(&serde_json::Value::Object(json));
        text.strip_suffix('\n').map(str::to_owned).unwrap_or(text)
    }
}

impl Object for Files {
    fn type_name(&self) -> Cow<'static, str> {
        TYPE.into()
    }

    fn kind(&self) -> Kind {
        Kind::Map
    }

    fn inner(&self) -> Option<Value> {
        let entries = self.0.iter().map(|(name, data)| (name.as_str().into(), Value::Bytes(data.clone())));
        Some(Value::Map(Map::of(MapKind::Bytes, entries.collect())))
    }

    fn method(&self, name: &str, _addressable: bool) -> Option<Signature> {
        Some(match name {
            "Get" => Signature::new(&[Ty::String], Ty::String),
            "GetBytes" => Signature::new(&[Ty::String], Ty::Bytes),
            "Glob" => Signature::new(&[Ty::String], Ty::Named(TYPE)),
            "Lines" => Signature::new(&[Ty::String], Ty::StrList),
            "AsConfig" | "AsSecrets" => Signature::new(&[], Ty::String),
            _ => return None,
        })
    }

    fn call(&self, name: &str, _ctx: &mut Ctx<'_>, args: Args<'_>) -> FuncResult {
        Ok(match name {
            "Get" => Value::Str(self.get(args.str(0)).cloned().unwrap_or_default()),
            "GetBytes" => Value::Bytes(self.get(args.str(0)).cloned().unwrap_or_default()),
            "Glob" => {
                let glob = Glob::new(&args.text(0));
                let chosen = self.0.iter().filter(|(name, _)| glob.matches(name));
                Value::object(Self(Rc::new(chosen.map(|(k, v)| (k.clone(), v.clone())).collect())))
            }
            "Lines" => {
                let Some(data) = self.get(args.str(0)) else {
                    return Ok(Value::strings(Vec::<Str>::new()));
                };
                let Some(last) = data.last() else {
                    return Err(FuncError::new("runtime error: index out of range [-1]"));
                };
                let body = if *last == b'\n' { &data[..data.len() - 1] } else { data };
                Value::strings(body.split(|byte| *byte == b'\n'))
            }
            "AsConfig" => Value::from(self.by_base_name(|data| data.lossy().into_owned())),
            "AsSecrets" => {
                Value::from(self.by_base_name(|data| base64::engine::general_purpose::STANDARD.encode(data)))
            }
            other => return Err(FuncError::new(format!("no method {other}"))),
        })
    }

    fn json(&self) -> Json {
        match self.inner() {
            Some(inner) => Json::Value(inner),
            None => Json::Fields(Vec::new()),
        }
    }
}
