//! One function a parser.

use std::io::Write;

use crate::packages;
use serde_json::Value;
use slipway_chart::{Chart, ChartFile, ChartInput, ChartProgram, LoadOptions, RenderOptions, UserValues};

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
    Target {
        name: "archive",
        run: archive,
        seeds: &[
            "shop/Chart.yaml\tapiVersion: v2\nshop/../../etc/x\ty\n",
            "shop/charts/a.tgz\tz\n/abs\t\nc:\\x\t\n",
        ],
    },
    Target {
        name: "schema",
        run: schema,
        seeds: &[
            r#"{"type":"object","properties":{"a":{"type":"integer","minimum":1}},"required":["a"]}"#,
            r##"{"$ref":"#/definitions/x","definitions":{"x":{"anyOf":[{"type":"string"},{"pattern":"^a+$"}]}}}"##,
        ],
    },
    Target {
        name: "patch",
        run: patch,
        seeds: &[
            r#"[{"op":"add","path":"/spec/replicas","value":2},{"op":"move","from":"/a","path":"/b/-"}]"#,
            r#"{"spec":{"template":{"spec":{"containers":[{"name":"c","$patch":"delete"}],"$setElementOrder/containers":[{"name":"c"}]}}}}"#,
            r#"{"metadata":{"labels":{"a":null}},"$retainKeys":["metadata"]}"#,
        ],
    },
    Target {
        name: "ownership",
        run: ownership,
        seeds: &[
            r#"{"f:metadata":{"f:labels":{".":{},"f:a":{}}},"f:spec":{"f:ports":{"k:{\"port\":80}":{".":{}}}}}"#,
            r#"{"v:\"x\"":{},"i:3":{},"k:{}":{}}"#,
        ],
    },
    Target {
        name: "definition",
        run: definition,
        seeds: &[
            r#"{"type":"object","properties":{"spec":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}"#,
            r#"{"type":"array","items":{"type":"object","required":["a"]},"x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["a"]}"#,
        ],
    },
    Target {
        name: "query",
        run: query,
        seeds: &[
            "app in (a, b),!c,d!=e",
            "metadata.name=x,status.phase!=y",
            "{.items[*].a['b'][?(@.c==\"d\")]}",
            "100m",
            "1.5Gi",
        ],
    },
    Target {
        name: "secrets",
        run: secrets,
        seeds: &[
            "secret://vault/app/db?version=3&type=json#/a~1b/0",
            "a ${secret://v/x#k} $${ b",
            "secrets: {defaultProvider: v, providers: {v: {type: vault, address: 'http://h', token: env:T}}}",
            "policy: {rules: [{id: a, when: {ci: true}, deny: {types: [file]}}]}\nproviders: {l: {type: file, path: x}}",
        ],
    },
    Target { name: "webhook", run: crate::forge::webhook, seeds: crate::forge::WEBHOOKS },
    Target { name: "pull-request", run: crate::forge::pull_request, seeds: crate::forge::BODIES },
    Target { name: "request", run: crate::server::request, seeds: crate::server::REQUESTS },
    Target { name: "server-patch", run: crate::server::patch, seeds: crate::server::PATCHES },
    Target { name: "server-definition", run: crate::server::definition, seeds: crate::server::DEFINITIONS },
    Target {
        name: "decode",
        run: decode,
        seeds: &[
            r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"w"},"spec":{"replicas":1,"replicas":2}}"#,
        ],
    },
    Target {
        name: "kpatch",
        run: packages::kpatch,
        seeds: &[
            "metadata.labels: \"${labels}\" # all\n\n[deployment.web.spec.template.spec.containers[name=app]]?\nimage: \"${image.repo}:${image.tag}\"\n",
            "[apps/deployment@\"apps/v1\".\"a.b\".spec.x[-]]\nname: a\nvalue: |\n  text\n",
            "- target: deployment.web\n  type: strategic\n  patch: {spec: {replicas: 3}}\n",
            "list[-0]: 1\nlist[+name=a,b.c=d]: {x: y}\nm[delete=k]:\nm.\"a.b\"[replace]: [1]\n",
        ],
    },
    Target {
        name: "keypath",
        run: packages::keypath,
        seeds: &[
            "spec.template.spec.containers[name=app].env[-]: {name: A, value: \"${full}\"}",
            "metadata.annotations[\"a.b/c\"]: ${replicas}",
            "spec.list.2.b[replace]: !!str ${replicas}",
            "spec.template.spec.containers[delete=name=sidecar]:",
            "image: null",
            "spec.ports.*.targetPort: http",
            "enabled: ${on}",
        ],
    },
    Target {
        name: "variables",
        run: packages::variables,
        seeds: &[
            "a: \"${b.c}\"\nb: {c: 1, e: \"${d}\"}\nd: [{e: \"x-${a}-${b.c}\"}]\n",
            "a: &x {y: \"$${z}\"}\nb: {<<: *x, c: 1.10}\nd: [{e: \"${b[\\\"y\\\"]}\"}]\n",
            "a=1,b",
            "d[1].e=2",
            "a.b[\"k.x\"]=null",
            "image.tag",
            "a[0][\"b.c\"].d",
        ],
    },
    Target {
        name: "package",
        run: packages::package,
        seeds: &[
            "replicas: 2\non: true\n=====\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: b}\ndata: {x: \"${replicas}\"}\n=====\n[configmap.a]\ndata.x: \"${replicas}\"\nmetadata.annotations[\"kurel.gokure.dev/install-phase\"]: pre-install\n=====\nenabled: \"${on}\"\nrequires: [10.kpatch]\n=====\n[*]\nmetadata.labels.a: b\n",
            "global: {namespaces: {create: true, exclude: [x]}, labels: {a: b}}\n=====\napiVersion: v1\nkind: List\nitems:\n- {apiVersion: apps/v1, kind: Deployment, metadata: {name: w, namespace: n}, spec: {template: {spec: {containers: [{name: c}]}}}}\n",
        ],
    },
    Target {
        name: "kustomization",
        run: packages::kustomization,
        seeds: &[
            "resources: [all.yaml]\nnamePrefix: p-\nnamespace: n\nimages: # keep\n- name: app\n  newTag: \"2\"\nlabels: [{pairs: {a: b}, includeSelectors: true}]\nreplicas: [{name: web, count: 3}]\n",
            "resources:\n- all.yaml\npatches:\n- target: {kind: Deploy.*, labelSelector: '!x'}\n  patch: |\n    - {op: add, path: /spec/x, value: [1]}\n    - {op: move, from: /spec/x, path: /spec/y}\n- patch: |\n    apiVersion: apps/v1\n    kind: Deployment\n    metadata: {name: web, namespace: apps}\n    spec: {template: {spec: {containers: [{name: app, $patch: delete}]}}}\n",
            "resources: [all.yaml]\nconfigMapGenerator: [{name: c, literals: [a=b], behavior: create}]\nsecretGenerator: [{name: s, literals: [x=<>&], options: {disableNameSuffixHash: true}}]\nreplacements:\n- source: {kind: Service, fieldPath: 'spec.ports.0.port'}\n  targets: [{select: {kind: Thing}, fieldPaths: ['spec.list.1', spec.new], options: {create: true, delimiter: '/', index: -1}}]\n",
        ],
    },
    Target {
        name: "expressions",
        run: expressions,
        seeds: &[
            "x-${a.b + '}'}-$${c}-$$${d}",
            r#"${r"\" + """a"}""" + {'k': '{'}.k}"#,
            "${[1, 2].map(x, {'a': x})}${b'}'}",
        ],
    },
    Target {
        name: "graph-spec",
        run: graph_spec,
        seeds: &[
            r#"{"nodes":[{"id":"a","ref":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"}}},{"id":"b","forEach":{"r":"${a.data.l}"},"readyWhen":["${b.status.ok}"],"propagateWhen":["${timestamp(b.status.t) > now() - duration('1m')}"],"template":{"apiVersion":"v1","kind":"Secret","metadata":{"name":"n-${r}"},"data":{"x":"${a.?data.?y.orValue('')}"}}}]}"#,
            r#"{"nodes":[{"id":"a","def":{"x":["${1}","$${y}"]}},{"id":"b","dependsOn":["a"],"finalizes":"a","watch":{"apiVersion":"v1","kind":"Pod","selector":{"a":"${a.x[0]}"}},"includeWhen":["${a.x.size() > 0}"],"recheckAfter":"10s"}]}"#,
        ],
    },
    Target {
        name: "cel",
        run: cel,
        seeds: &[
            "x.list.all(e, e.n > 1 && e.name.matches('^[a-z]+$')) || has(x.a) ? x.?b.orValue(1) : -2",
            r#"{"a": [1, 2.5, 3u, b"\x00", r'\d']}.a.map(i, v, i).exists_one(k, k in [1])"#,
            "timestamp('2024-01-01T00:00:00Z') + duration('1h') > x.t && \"%s %.2f\".format([x, 1.5]) != ''",
            "quantity('1.5Gi').add(1).isLessThan(x.q) && ip('::1').family() == 6 && semver('1.2.3').major() == 1",
            "cel.bind(a, lists.range(9).sortBy(e, -e), a.slice(1, 3).flatten()) == [] + x.list.distinct()",
        ],
    },
    Target {
        name: "gate",
        run: gate,
        seeds: &[
            "!schedule.isWeekend && schedule.in('Europe/Berlin').hour >= 9 || bundle.labels.hotfix == true",
            "bundle.isRollback || bundle.upstreamSoakMinutes >= 30 && upstream.staging.soakMinutes > bundle.ageMinutes",
            "metrics['success-rate'] >= 0.99 && metricAgeSeconds.x < 60 && changewindow.isAllowed('office')",
            "bundle.images.all(i, i.tag.matches('^v?[0-9]')) && now() - bundle.provenance.buildTimestamp > duration('24h')",
            "externalApproval.self.approved && contracts['a/b/c'].soakMinutes > 3 ? !targetDrift.unreconciled : false",
            ">= 0.99",
            "Saturday 3pm",
            "{{ .AppName }}",
        ],
    },
];

/// Gate expressions, conditions of metrics, moments and queries: a gate is open or closed, whatever is written.
fn gate(bytes: &[u8]) {
    use slipway_promotion::gate::{BundleContext, GateContext, GateEvaluator, UpstreamContext, parse_when};
    use slipway_promotion::kinds::PolicyGateSpec;
    use slipway_promotion::metric::{MetricCondition, QueryNames, read_answer, render_query};
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(now) = "2026-04-11T15:00:20Z".parse() else { return };
    let mut context = GateContext::new(BundleContext::default(), "prod", now);
    let upstream = UpstreamContext { direct: true, verified_at: Some(now), ..UpstreamContext::default() };
    context.upstream.insert("staging".to_owned(), upstream);
    context.bundle.labels.insert("hotfix".to_owned(), "true".to_owned());
    let spec = PolicyGateSpec { expression: text.to_owned(), ..PolicyGateSpec::default() };
    let outcome = GateEvaluator::new().evaluate(&spec, &context);
    assert!(!outcome.ready || outcome.fault.is_none(), "{text}");
    assert!(outcome.next.is_none_or(|next| next > now), "{text}");
    if let Ok(condition) = text.parse::<MetricCondition>() {
        assert_eq!(condition.to_string().parse(), Ok(condition), "{text}");
    }
    if let Ok(at) = parse_when(text, now, &jiff::tz::TimeZone::UTC) {
        let _ = at.to_string();
    }
    let _ = render_query(text, &QueryNames::default());
    let _ = read_answer(200, bytes);
}

/// Texts with expressions in them: whatever the pieces are, together they are the text.
fn expressions(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let Ok(segments) = slipway_kro::scan(&text) else { return };
    let length: usize = segments
        .iter()
        .map(|segment| match segment {
            slipway_kro::Segment::Text(text) => text.len(),
            slipway_kro::Segment::Expression { source, .. } => source.len() + 3,
        })
        .sum();
    // Each escape loses one dollar sign.
    assert!(length <= text.len());
}

/// Specs of Graphs, read and compiled.
fn graph_spec(input: &[u8]) {
    let Some(value) = json(input) else { return };
    if let Ok(spec) = serde_json::from_value::<slipway_kro::GraphSpec>(value) {
        let _ = slipway_kro::check_spec(&spec);
    }
}

fn cel(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let limits = slipway_cel::Limits { cost: 100_000, ..slipway_cel::Limits::default() };
    let env = slipway_cel::Env::with_all_libraries().variable("x", slipway_cel::Type::Dyn).limits(limits);
    let data = serde_json::json!({"list": [{"n": 1, "name": "a"}, 2, "t", null], "a": {"b": 1.5}});
    if let Ok(program) = env.compile(&text) {
        let _ = program.eval(&slipway_cel::Bindings::new().json("x", &data)).map(|value| value.to_json());
    }
}

fn json(input: &[u8]) -> Option<Value> {
    serde_json::from_slice(input).ok()
}

fn deployment() -> Value {
    serde_json::json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "w", "labels": {"a": "b"}},
        "spec": {"replicas": 1, "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}},
    })
}

fn patch(input: &[u8]) {
    let Some(patch) = json(input) else { return };
    let kind = slipway_manifest::Schema::built_in().type_of(&deployment());
    let _ = slipway_manifest::patch::json::apply(deployment(), &patch);
    let _ = slipway_manifest::patch::merge::apply(deployment(), patch.clone());
    let _ = slipway_manifest::patch::strategic::apply(deployment(), patch, kind);
}

fn ownership(input: &[u8]) {
    let Some(fields) = json(input) else { return };
    if let Ok(set) = slipway_manifest::fields::FieldSet::from_fields_v1(&fields) {
        let _ = set.to_fields_v1();
    }
}

fn definition(input: &[u8]) {
    let Some(schema) = json(input) else { return };
    let _ = slipway_manifest::crd::check_schema(&schema, "spec");
    if let Ok(kind) = slipway_manifest::crd::CustomResource::new("a.b/v1", "C", Some(&schema)) {
        let mut object = deployment();
        let _ = kind.set_defaults(&mut object);
        let _ = kind.prune_unknown_fields(&mut object);
        let _ = kind.validate(&object);
    }
}

fn query(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let _ = slipway_manifest::selector::LabelSelector::parse(&text)
        .map(|found| found.matches_object(&deployment()));
    let _ = slipway_manifest::selector::FieldSelector::parse(&text);
    let _ = slipway_manifest::quantity::Quantity::parse(&text);
    let _ = slipway_manifest::jsonpath::JsonPath::parse(&text).map(|path| path.print_object(&deployment()));
}

fn decode(input: &[u8]) {
    if let Some(kind) = slipway_manifest::Schema::built_in().type_of(&deployment()) {
        let _ = slipway_manifest::decode::decode_json(input, kind);
    }
}

/// References, texts with references in them, and configuration files.
fn secrets(bytes: &[u8]) {
    use slipway_secrets::{
        ConfigLayer, ConfigOrigin, Interpolation, SecretReference, SecretsConfig, find_references,
    };
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(reference) = text.parse::<SecretReference>() {
        let canonical = reference.to_string();
        assert_eq!(canonical.parse::<SecretReference>().as_ref(), Ok(&reference), "{canonical}");
    }
    let _ = find_references(&Value::String(text.to_owned()), Interpolation::On);
    let layer =
        ConfigLayer { path: "slipway.yaml".into(), text: text.to_owned(), origin: ConfigOrigin::Repository };
    let _ = SecretsConfig::load(&[layer]);
}

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
    let file = |(name, data): &(&str, &[u8])| ChartFile { name: (*name).to_owned(), data: (*data).into() };
    let files = files.iter().map(file).collect();
    Chart::from_files(files, &LoadOptions::default(), &mut Vec::new()).ok()
}

const METADATA: &[u8] = b"apiVersion: v2\nname: f\nversion: 0.1.0\n";
const VALUES: &[u8] = b"list: [1, a, null]\nmap: {key: value}\ns: text\n";

fn template(input: &[u8]) {
    let files = [("Chart.yaml", METADATA), ("values.yaml", VALUES), ("templates/t.yaml", input)];
    if let Some(chart) = chart_of(&files) {
        let _ = ChartProgram::new(chart).render(&serde_json::Map::new(), &options());
    }
}

/// Rendering within limits small enough that no input takes long.
fn options() -> RenderOptions {
    let mut options = RenderOptions::default();
    options.limits.steps = 100_000;
    options.limits.value_bytes = 1 << 20;
    options.limits.total_bytes = 16 << 20;
    options.limits.template_depth = 200;
    options
}

fn strvals(input: &[u8]) {
    let text = vec![String::from_utf8_lossy(input).into_owned()];
    for values in [
        UserValues { set: text.clone(), ..UserValues::default() },
        UserValues { set_string: text.clone(), ..UserValues::default() },
        UserValues { set_json: text.clone(), ..UserValues::default() },
        UserValues { set_literal: text, ..UserValues::default() },
    ] {
        let _ = values.build_map();
    }
}

/// Makes an archive whose entries are the input's lines, `name TAB content`, whatever the names.
fn archive(input: &[u8]) {
    let mut tar = Vec::new();
    for line in input.split(|byte| *byte == b'\n') {
        let at = line.iter().position(|byte| *byte == b'\t').unwrap_or(line.len());
        entry(&mut tar, &line[..at], &line[at..]);
    }
    tar.extend([0; 1024]);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let packed = gzip.write_all(&tar).and_then(|()| gzip.finish());
    for bytes in [packed.unwrap_or_default(), input.to_vec()] {
        let _ = Chart::load(ChartInput::Archive(&bytes), &LoadOptions::default());
    }
}

/// Appends a file to a tar stream.
fn entry(tar: &mut Vec<u8>, name: &[u8], content: &[u8]) {
    let mut header = [0u8; 512];
    let length = name.len().min(100);
    header[..length].copy_from_slice(&name[..length]);
    header[100..107].copy_from_slice(b"0000644");
    header[124..135].copy_from_slice(format!("{:011o}", content.len()).as_bytes());
    header[148..156].copy_from_slice(b"        ");
    header[156] = b'0';
    header[257..263].copy_from_slice(b"ustar\0");
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    tar.extend(header);
    tar.extend(content);
    tar.resize(tar.len().next_multiple_of(512), 0);
}

fn schema(input: &[u8]) {
    let files = [("Chart.yaml", METADATA), ("values.yaml", VALUES), ("values.schema.json", input)];
    if let Some(chart) = chart_of(&files) {
        let _ = ChartProgram::new(chart).render(&serde_json::Map::new(), &RenderOptions::default());
    }
}
