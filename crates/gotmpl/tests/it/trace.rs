//! Where each part of a text comes from.

use serde_json::json;
use slipway_gotmpl::{FuncMap, NoHost, RenderLimits, TemplateRenderer, TemplateSet};

use crate::world::root;

#[test]
fn segments_cover_the_text_and_name_the_values_read() {
    let limits = RenderLimits::default();
    let mut set = TemplateSet::new(FuncMap::helm(&FuncMap::new()), &limits);
    set.parse("c/templates/_h.tpl", "{{ define \"name\" }}n-{{ .Values.image.tag }}{{ end }}").unwrap();
    let text = "a: 1\n{{- if .Values.on }}\nb: {{ include \"name\" . | printf \"%q\" }}\n{{- end }}\n";
    set.parse("c/templates/x.yaml", text).unwrap();
    let values = json!({"on": true, "image": {"tag": "v1"}});
    let data = root(&values, "c/templates/x.yaml");
    let mut renderer = TemplateRenderer::new(&set, &limits, &NoHost);
    let (out, segments) = renderer.execute_traced("c/templates/x.yaml", &data).unwrap();
    assert_eq!(String::from_utf8_lossy(&out), "a: 1\nb: \"n-v1\"\n");
    let mut end = 0;
    for s in &segments {
        assert_eq!(s.range.start, end);
        end = s.range.end;
    }
    assert_eq!(end, out.len());
    let action = segments.iter().find(|s| !s.literal).unwrap();
    assert_eq!((action.file.as_str(), action.line), ("c/templates/x.yaml", 3));
    assert_eq!(action.guards[..], [".Values.on"]);
    let nested = &action.nested[0];
    assert_eq!((nested.name.as_str(), nested.text.as_slice()), ("name", b"n-v1".as_slice()));
    let inner = nested.segments.iter().find(|s| !s.literal).unwrap();
    assert_eq!(inner.reads, [".Values.image.tag"]);
    assert_eq!((inner.file.as_str(), inner.template.as_str()), ("c/templates/_h.tpl", "name"));
}
