//! The data a chart's templates see, small enough for tests: values, release, chart, capabilities.

use std::borrow::Cow;

use slipway_gotmpl::{
    FuncArgs, FuncContext, FuncMap, FuncResult, FuncSignature, GoKind, GoMap, GoObject, GoString, GoType,
    GoValue, MapKind, NoHost, RenderLimits, TemplateHost, TemplateRenderer, TemplateSet, WholeNumbers,
    remove_no_value,
};

pub(crate) struct KubeVersion;

impl GoObject for KubeVersion {
    fn type_name(&self) -> Cow<'static, str> {
        "chartutil.KubeVersion".into()
    }

    fn fields(&self) -> Vec<(&'static str, GoValue)> {
        vec![("Version", "v1.33.0".into()), ("Major", "1".into()), ("Minor", "33".into())]
    }

    fn method(&self, name: &str, addressable: bool) -> Option<FuncSignature> {
        (addressable && matches!(name, "String" | "GitVersion"))
            .then(|| FuncSignature::new(&[], GoType::String))
    }

    fn call(&self, _: &str, _: &mut FuncContext<'_>, _: FuncArgs<'_>) -> FuncResult {
        Ok("v1.33.0".into())
    }

    fn text(&self, addressable: bool) -> Option<GoString> {
        addressable.then(|| "v1.33.0".into())
    }
}

pub(crate) struct VersionSet;

impl GoObject for VersionSet {
    fn type_name(&self) -> Cow<'static, str> {
        "chartutil.VersionSet".into()
    }

    fn kind(&self) -> GoKind {
        GoKind::Slice
    }

    fn inner(&self) -> Option<GoValue> {
        Some(GoValue::strings(["v1", "apps/v1"]))
    }

    fn method(&self, name: &str, _: bool) -> Option<FuncSignature> {
        (name == "Has").then(|| FuncSignature::new(&[GoType::String], GoType::Bool))
    }

    fn call(&self, _: &str, _: &mut FuncContext<'_>, args: FuncArgs<'_>) -> FuncResult {
        Ok(GoValue::Bool(matches!(args.str(0), b"v1" | b"apps/v1")))
    }
}

pub(crate) struct Capabilities;

impl GoObject for Capabilities {
    fn type_name(&self) -> Cow<'static, str> {
        "chartutil.Capabilities".into()
    }

    fn fields(&self) -> Vec<(&'static str, GoValue)> {
        vec![("KubeVersion", GoValue::object(KubeVersion)), ("APIVersions", GoValue::object(VersionSet))]
    }
}

pub(crate) struct Chart;

impl GoObject for Chart {
    fn type_name(&self) -> Cow<'static, str> {
        "struct { chart.Metadata; IsRoot bool }".into()
    }

    fn fields(&self) -> Vec<(&'static str, GoValue)> {
        vec![
            ("Name", "snip".into()),
            ("Version", "1.2.3+build.5".into()),
            ("AppVersion", "v9.8.7".into()),
            ("IsRoot", true.into()),
        ]
    }
}

/// The root a file of a chart named `snip` sees.
pub(crate) fn root(values: &serde_json::Value, file: &str) -> GoValue {
    let typed = |v: GoValue| match v {
        GoValue::Map(m) => GoValue::Map(m.with_kind(MapKind::Values)),
        v => v,
    };
    let release: GoMap = [
        ("Name", "rel".into()),
        ("Namespace", "ns".into()),
        ("IsUpgrade", false.into()),
        ("IsInstall", true.into()),
        ("Revision", GoValue::Int(1)),
        ("Service", "Helm".into()),
    ]
    .into_iter()
    .collect();
    let template: GoMap =
        [("Name", file.into()), ("BasePath", GoValue::str("snip/templates"))].into_iter().collect();
    let root: GoMap = [
        ("Values", typed(GoValue::from_json(values, WholeNumbers::Float64))),
        ("Release", release.into()),
        ("Template", typed(template.into())),
        ("Chart", GoValue::object(Chart)),
        ("Capabilities", GoValue::ptr(Capabilities)),
    ]
    .into_iter()
    .collect();
    typed(root.into())
}

/// Renders the one file `snip/templates/t.yaml` as Helm would: its text, or Helm's message.
pub(crate) fn render(text: &[u8], values: &serde_json::Value) -> Result<Vec<u8>, String> {
    render_with(text, values, &FuncMap::new(), &RenderLimits::default(), &NoHost)
}

pub(crate) fn render_with(
    text: &[u8],
    values: &serde_json::Value,
    library: &FuncMap,
    limits: &RenderLimits,
    host: &dyn TemplateHost,
) -> Result<Vec<u8>, String> {
    const FILE: &str = "snip/templates/t.yaml";
    let mut set = TemplateSet::new(FuncMap::helm(library), limits);
    set.parse(FILE, text).map_err(|e| e.helm_text(FILE))?;
    let out = TemplateRenderer::new(&set, limits, host).execute(FILE, &root(values, FILE));
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
    let limits = RenderLimits::default();
    let mut set = TemplateSet::new(FuncMap::helm(library), &limits);
    let call = format!("out: \"{{{{ include \"{PARTIAL}\" . }}}}\"");
    set.parse(FILE, call).map_err(|e| e.helm_text(FILE))?;
    set.parse(PARTIAL, text).map_err(|e| e.helm_text(PARTIAL))?;
    let out = TemplateRenderer::new(&set, &limits, &NoHost).execute(FILE, &root(values, FILE));
    let out = out.map_err(|e| e.helm_text(FILE))?;
    Ok(out["out: \"".len()..out.len() - 1].to_vec())
}
