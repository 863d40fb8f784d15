//! Paths, URLs and host names.

use super::quoted;
use super::strings::TextOp;
use crate::func::{FuncError, FuncMap, GoType};
use crate::value::{GoMap, GoValue};
use slipway_go::path;
use slipway_go::url::Url;

const S: GoType = GoType::String;

pub(super) fn add(map: &mut FuncMap) {
    let all: [(&str, &str, TextOp); 4] = [
        ("base", "osBase", |text| path::base(text).to_vec()),
        ("dir", "osDir", path::dir),
        ("clean", "osClean", path::clean),
        ("ext", "osExt", |text| path::ext(text).to_vec()),
    ];
    for (name, os, body) in all {
        map.add(name, &[S], S, move |_, args| Ok(body(args.str(0)).into()));
        map.alias(os, name);
    }
    map.add("isAbs", &[S], GoType::Bool, |_, args| Ok(path::is_abs(args.str(0)).into()));
    map.alias("osIsAbs", "isAbs");
    map.add("urlParse", &[S], GoType::Map, |_, args| {
        let url = Url::parse(args.str(0), quoted)
            .map_err(|error| FuncError::new(format!("unable to parse url: {error}")))?;
        let entries = [
            ("fragment", url.fragment.clone()),
            ("host", url.host.clone()),
            ("hostname", url.hostname()),
            ("opaque", url.opaque.clone()),
            ("path", url.path.clone()),
            ("query", url.raw_query.clone()),
            ("scheme", url.scheme.clone().into_bytes()),
            ("userinfo", url.user.as_ref().map(slipway_go::url::UserInfo::to_bytes).unwrap_or_default()),
        ];
        Ok(entries.into_iter().map(|(key, value)| (key, GoValue::from(value))).collect::<GoMap>().into())
    });
    map.add("urlJoin", &[GoType::Map], S, |_, args| {
        let dict = args.map(0);
        let part = |key: &str| match dict.get(key) {
            None => Ok(Vec::new()),
            Some(GoValue::Str(text)) => Ok(text.to_vec()),
            Some(GoValue::Nil) => Err(FuncError::nil_dereference()),
            Some(other) => {
                let kind = other.kind();
                Err(FuncError::new(format!(
                    "unable to parse {key} key, must be of type string, but {kind} found"
                )))
            }
        };
        let mut url = Url {
            scheme: String::from_utf8_lossy(&part("scheme")?).into_owned(),
            host: part("host")?,
            path: part("path")?,
            raw_query: part("query")?,
            opaque: part("opaque")?,
            fragment: part("fragment")?,
            ..Url::default()
        };
        let user = part("userinfo")?;
        if !user.is_empty() {
            let text = [b"proto://", user.as_slice(), b"@host"].concat();
            let parsed = Url::parse(&text, quoted)
                .map_err(|error| FuncError::new(format!("unable to parse userinfo in dict: {error}")))?;
            url.user = parsed.user;
        }
        Ok(url.to_bytes().into())
    });
    map.add("getHostByName", &[S], S, |ctx, args| {
        Ok(ctx.host().resolve(&args.text(0)).unwrap_or_default().into())
    });
}
