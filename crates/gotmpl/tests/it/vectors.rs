//! What Helm 3.17.3 says to a few thousand small templates.
//!
//! Recorded with `helm template rel CHART -n ns --kube-version 1.33.0`, where the template is
//! `templates/_s.tpl` of a chart named `snip` and `templates/t.yaml` is
//! `out: "{{ include "snip/templates/_s.tpl" . | b64enc }}"`. One JSON object a line: `template` and
//! either `b64`, its text, or `error`, Helm's message without `Error: ` and the `--debug` hint.

use base64::Engine as _;
use slipway_gotmpl::FuncMap;

use crate::world;

fn check(name: &str, lines: &str) {
    let values = serde_json::from_str(include_str!("vectors/values.json")).unwrap();
    let library = FuncMap::new();
    let mut failures = Vec::new();
    let mut count = 0;
    for line in lines.lines() {
        let row: serde_json::Value = serde_json::from_str(line).unwrap();
        let template = row["template"].as_str().unwrap();
        let want = match row["b64"].as_str() {
            Some(text) => Ok(base64::engine::general_purpose::STANDARD.decode(text).unwrap()),
            None => Err(row["error"].as_str().unwrap().to_owned()),
        };
        let got = world::render_included(template.as_bytes(), &values, &library);
        count += 1;
        if got != want {
            let show = |r: &Result<Vec<u8>, String>| match r {
                Ok(text) => format!("text  {:?}", String::from_utf8_lossy(text)),
                Err(text) => format!("error {text}"),
            };
            failures.push(format!("{template:?}\n  got  {}\n  want {}", show(&got), show(&want)));
        }
    }
    assert!(failures.is_empty(), "{name}: {} of {count} differ\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn expressions_agree_with_helm() {
    check("exec", include_str!("vectors/exec.jsonl"));
}

#[test]
fn parse_errors_agree_with_helm() {
    check("parse", include_str!("vectors/parse.jsonl"));
}

#[test]
fn nested_templates_agree_with_helm() {
    check("nested", include_str!("vectors/nested.jsonl"));
}
