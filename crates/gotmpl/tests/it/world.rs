//! The data a chart's templates see, small enough for tests: values, release, chart, capabilities.

use std::borrow::Cow;

use slipway_gotmpl::{
    Args, Ctx, FuncMap, FuncResult, Host, Kind, Limits, Map, MapKind, NoHost, Numbers, Object, Renderer,
    Signature, Str, TemplateSet, Ty, Value, remove_no_value,
};

pub(crate) struct KubeVersion;

impl Object for KubeVersion {
    fn type_name(&self) -> Cow<'static, str> {
        "chartutil.KubeVersion".into()
    }

    fn fields(&self) -> Vec<(&'static str, Value)> {
        vec![("Version", "v1.33.0".into()), ("Major", "1".into()), ("Minor", "33".into())]
    }

    fn method(&self, name: &str, addressable: bool) -> Option<Signature> {
        (addressable && matches!(name, "String" | "GitVersion")).then(|| Signature::new(&[], Ty::String))
    }

    fn call(&self, _: &str, _: &mut Ctx<'_>, _: Args<'_>) -> FuncResult {
        Ok("v1.33.0".into())
    }

    fn text(&self, addressable: bool) -> Option<Str> {
        addressable.then(|| "v1.33.0".into())
    }
}

pub(crate) struct VersionSet;

impl Object for VersionSet {
    fn type_name(&self) -> Cow<'static, str> {
        "chartutil.VersionSet".into()
    }

    fn kind(&self) -> Kind {
        Kind::Slice
    }

    fn inner(&self) -> Option<Value> {
        Some(Value::strings(["v1", "apps/v1"]))
    }

    fn method(&self, name: &str, _: bool) -> Option<Signature> {
        (name == "Has").then(|| Signature::new(&[Ty::String], Ty::Bool))
    }

    fn call(&self, _: &str, _: &mut Ctx<'_>, args: Args<'_>) -> FuncResult {
        Ok(Value::Bool(matches!(args.str(0), b"v1" | b"apps/v1")))
    }
}

pub(crate) struct Capabilities;

impl Object for Capabilities {
    fn type_name(&self) -> Cow<'static, str> {
        "chartutil.Capabilities".into()
    }

    fn fields(&self) -> Vec<(&'static str, Value)> {
        vec![("KubeVersion", Value::object(KubeVersion)), ("APIVersions", Value::object(VersionSet))]
    }
}

pub(crate) struct Chart;

impl Object for Chart {
    fn type_name(&self) -> Cow<'static, str> {
        "struct { chart.Metadata; IsRoot bool }".into()
    }

    fn fields(&self) -> Vec<(&'static str, Value)> {
        vec![
            ("Name", "snip".into()),
            ("Version", "1.2.3+build.5".into()),
            ("AppVersion", "v9.8.7".into()),
            ("IsRoot", true.into()),
        ]
    }
}

/// The root a file of a chart named `snip` sees.
pub(crate) fn root(values: &serde_json::Value, file: &str) -> Value {
    let typed = |v: Value| match v {
        Value::Map(m) => Value::Map(m.with_kind(MapKind::Values)),
        v => v,
    };
    let release: Map = [
        ("Name", "rel".into()),
        ("Namespace", "ns".into()),
        ("IsUpgrade", false.into()),
        ("IsInstall", true.into()),
        ("Revision", Value::Int(1)),
        ("Service", "Helm".into()),
    ]
    .into_iter()
    .collect();
    let template: Map =
        [("Name", file.into()), ("BasePath", Value::str("snip/templates"))].into_iter().collect();
    let root: Map = [
        ("Values", typed(Value::from_json(values, Numbers::Float64))),
        ("Release", release.into()),
        ("Template", typed(template.into())),
        ("Chart", Value::object(Chart)),
        ("Capabilities", Value::ptr(Capabilities)),
    ]
    .into_iter()
    .collect();
    typed(root.into())
}

/// Renders the one file `snip/templates/t.yaml` as Helm would: its text, or Helm's message.
pub(crate) fn render(text: &[u8], values: &serde_json::Value) -> Result<Vec<u8>, String> {
    render_with(text, values, &FuncMap::new(), &Limits::default(), &NoHost)
}

pub(crate) fn render_with(
    text: &[u8],
    values: &serde_json::Value,
    library: &FuncMap,
    limits: &Limits,
    host: &dyn Host,
) -> Result<Vec<u8>, String> {
    const FILE: &str = "snip/templates/t.yaml";
    let mut set = TemplateSet::new(FuncMap::helm(library), limits);
    set.parse(FILE, text).map_err(|e| e.helm_text(FILE))?;
    let out = Renderer::new(&set, limits, host).execute(FILE, &root(values, FILE));
    out.map(remove_no_value).map_err(|e| e.helm_text(FILE))
}

/// A file including another, and the text of the other or Helm's message: how vectors are recorded.
pub(crate) fn render_included(
    text: &[u8],
    values: &serde_json::Value,
    library: &FuncMap,
) -> Result<Vec<u8>, String> {
    const FILE: &str = "snip/templates/t.yaml";
    const PARTIAL: &str = "snip/templates/_s.tpl";
    let limits = Limits::default();
    let mut set = TemplateSet::new(FuncMap::helm(library), &limits);
    let call = format!("out: \"{{{{ include \"{PARTIAL}\" . }}}}\"");
    set.parse(FILE, call).map_err(|e| e.helm_text(FILE))?;
    set.parse(PARTIAL, text).map_err(|e| e.helm_text(PARTIAL))?;
    let out = Renderer::new(&set, &limits, &NoHost).execute(FILE, &root(values, FILE));
    let out = out.map_err(|e| e.helm_text(FILE))?;
    Ok(out["out: \"".len()..out.len() - 1].to_vec())
}
