//! Sources on disk, and ways to load and render them.

use std::fs;
use std::path::Path;

use slipway_chart::{Capabilities, UserValues};
use slipway_gotmpl::NoHost;
use slipway_source::{
    LoadContext, LoadError, LoadedSource, RenderContext, RenderedSource, SourcePath, SourceRequest,
};

/// A directory with files.
pub(crate) fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text) in files {
        write(folder.path(), name, text);
    }
    folder
}

pub(crate) fn write(folder: &Path, name: &str, text: &str) {
    let path = folder.join(name);
    fs::create_dir_all(path.parent().expect("has a parent")).expect("a folder");
    fs::write(path, text).expect("writes");
}

pub(crate) const ABOUT: &str = "apiVersion: v2\nname: demo\nversion: 1.0.0\n";

/// A template that shows a value.
pub(crate) fn template(value: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: settings\ndata:\n  level: {{{{ {value} | quote }}}}\n"
    )
}

pub(crate) fn set(text: &str) -> UserValues {
    UserValues { set: vec![text.to_owned()], ..UserValues::default() }
}

pub(crate) fn load(
    path: &Path,
    request: SourceRequest,
    context: &LoadContext,
) -> Result<LoadedSource, LoadError> {
    LoadedSource::load(&SourcePath::detect(path).expect("is a source"), request, context, &mut Vec::new())
}

pub(crate) fn render(source: &LoadedSource) -> RenderedSource {
    let context = RenderContext {
        name: "demo",
        namespace: "t1",
        revision: 1,
        is_upgrade: false,
        capabilities: &Capabilities::default(),
        skip_crds: false,
        skip_schema_validation: false,
        subchart_notes: false,
        cluster: &NoHost,
    };
    source.render(&context).unwrap_or_else(|problems| panic!("{problems}"))
}

/// The value the first document shows.
pub(crate) fn level(rendered: &RenderedSource) -> &str {
    rendered.documents[0].object["data"]["level"].as_str().unwrap_or_default()
}
