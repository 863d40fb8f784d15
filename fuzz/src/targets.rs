//! One function a parser.

use slipway_chart::{Chart, File, LoadOptions, Program, RenderOptions, Source, UserValues};

/// Something that reads what users bring.
pub struct Target {
    pub name: &'static str,
    pub run: fn(&[u8]),
    /// Where mutation starts.
    pub seeds: &'static [&'static str],
}

pub const TARGETS: &[Target] = &[
    Target {
        name: "yaml",
        run: yaml,
        seeds: &[
            "a: 1\nb: [x, 'y', \"z\\n\"]\nc: &c {d: 0o17}\ne: *c\n",
            "--- |\n text\n...\n---\n- <<: {a: b}\n- !!binary aGk=\n",
            "? key\n: value\n# comment\nfolded: >-\n  a\n  b\n\n  c\n",
        ],
    },
    Target {
        name: "template",
        run: template,
        seeds: &[
            "{{- range $i, $v := .Values.list }}{{ $i }}={{ $v | quote }}{{ else }}none{{ end -}}",
            "{{ define \"x\" }}{{ .a.b }}{{ end }}{{ include \"x\" (dict \"a\" (dict \"b\" 1)) | nindent 2 }}",
            "{{ with .Values.map }}{{ printf \"%-5d|%q|%v\" 1 .key . }}{{ end }}{{ tpl \"{{ .Release.Name }}\" . }}",
            "{{ $x := 1 }}{{ if and (eq $x 1) (not false) }}{{ $x = add $x 2 }}{{ end }}{{ toYaml .Values }}",
            "{{ regexReplaceAll \"a(x*)b\" \"-ab-axxb-\" \"${1}W\" }}{{ semverCompare \"^1.2.0\" \"1.2.3\" }}",
        ],
    },
    Target {
        name: "strvals",
        run: strvals,
        seeds: &["a.b=1,c[0]=x,d={1,2}", "a\\.b=null,e=\"x\"", "j={\"a\":[1,2.5]}", "k[2].l=v"],
    },
    Target { name: "archive", run: archive, seeds: &["\u{1f}\u{8b}\u{8}", "Chart.yaml"] },
    Target {
        name: "schema",
        run: schema,
        seeds: &[
            r#"{"type":"object","properties":{"a":{"type":"integer","minimum":1}},"required":["a"]}"#,
            r##"{"$ref":"#/definitions/x","definitions":{"x":{"anyOf":[{"type":"string"},{"pattern":"^a+$"}]}}}"##,
        ],
    },
];

fn yaml(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    if let Ok(documents) = slipway_yaml::parse(&text, "f") {
        for document in &documents {
            let _ = slipway_yaml::to_string(&document.to_json());
        }
    }
    let _ = slipway_yaml::from_str_helm(&text);
}

/// A chart of one template, in memory.
fn chart_of(files: &[(&str, &[u8])]) -> Option<Chart> {
    let file = |(name, data): &(&str, &[u8])| File { name: (*name).to_owned(), data: (*data).into() };
    let files = files.iter().map(file).collect();
    Chart::from_files(files, &LoadOptions::default(), &mut Vec::new()).ok()
}

const METADATA: &[u8] = b"apiVersion: v2\nname: f\nversion: 0.1.0\n";
const VALUES: &[u8] = b"list: [1, a, null]\nmap: {key: value}\ns: text\n";

fn template(input: &[u8]) {
    let files = [("Chart.yaml", METADATA), ("values.yaml", VALUES), ("templates/t.yaml", input)];
    if let Some(chart) = chart_of(&files) {
        let _ = Program::new(chart).render(&serde_json::Map::new(), &RenderOptions::default());
    }
}

fn strvals(input: &[u8]) {
    let text = vec![String::from_utf8_lossy(input).into_owned()];
    for values in [
        UserValues { set: text.clone(), ..UserValues::default() },
        UserValues { set_string: text.clone(), ..UserValues::default() },
        UserValues { set_json: text.clone(), ..UserValues::default() },
        UserValues { set_literal: text, ..UserValues::default() },
    ] {
        let _ = values.build();
    }
}

fn archive(input: &[u8]) {
    let _ = Chart::load(Source::Archive(input), &LoadOptions::default());
}

fn schema(input: &[u8]) {
    let files = [("Chart.yaml", METADATA), ("values.yaml", VALUES), ("values.schema.json", input)];
    if let Some(chart) = chart_of(&files) {
        let _ = Program::new(chart).render(&serde_json::Map::new(), &RenderOptions::default());
    }
}
