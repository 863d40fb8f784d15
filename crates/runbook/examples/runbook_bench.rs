//! What reading and planning a runbook costs, without a cluster; one JSON object a line.
//!
//! With `--write FOLDER` it also leaves the runbooks it reads there, for whoever measures whole processes.

#![allow(clippy::print_stdout, reason = "a benchmark prints its figures")]

use std::time::Instant;

use serde_json::json;
use slipway_event::Redactor;
use slipway_runbook::{LoadOptions, Variables, load, plan};

/// Steps of every kind, each needing one before it.
fn document(steps: usize) -> String {
    let mut text =
        String::from("apiVersion: khook.io/v1\nkind: Khook\nmetadata: {name: bench}\nstate: {}\nsteps:\n");
    for index in 0..steps {
        let needs = if index == 0 { String::new() } else { format!("    needs: [s{}]\n", (index - 1) / 2) };
        let action = match index % 5 {
            0 => format!("    apply:\n      manifests:\n        - inline: |\n            apiVersion: v1\n            kind: ConfigMap\n            metadata:\n              name: m{index}\n            data:\n              value: ${{SIZE:-small | upper}}\n"),
            1 => "    helm: {chart: app, repo: 'https://charts.example.com', version: 1.0.0, values: {replicas: 2, tag: '${TAG:-v1}'}}\n".to_owned(),
            2 => "    wait: {for: 'jsonpath={.status.phase}=Running', on: pods, selector: app=web}\n    when: vars.get(\"ENV\", \"dev\") != \"prod\"\n".to_owned(),
            3 => "    patch: {target: deployment/web, patch: {spec: {replicas: 3}}}\n".to_owned(),
            _ => "    job: {image: busybox, args: ['-c', 'true'], env: {A: '1'}}\n".to_owned(),
        };
        text.push_str(&format!("  - name: s{index}\n{needs}{action}"));
    }
    text
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let turns = if args.iter().any(|arg| arg == "--short") { 3 } else { 50 };
    let folder = args.iter().position(|arg| arg == "--write").and_then(|flag| args.get(flag + 1));
    for steps in [50, 500] {
        let text = document(steps);
        if let Some(folder) = folder {
            let path = std::path::Path::new(folder).join(format!("{steps}.yaml"));
            std::fs::write(path, &text).expect("the folder can be written to");
        }
        let mut times: Vec<f64> = (0..turns)
            .map(|_| {
                let (began, redactor) = (Instant::now(), Redactor::new());
                let loaded =
                    load("bench.yaml", &text, &Variables::default(), LoadOptions::default(), &redactor);
                let loaded = loaded.unwrap_or_else(|found| panic!("{}", found.into_problems()));
                let planned = plan::offline(&loaded.document, &redactor).expect("can be planned");
                assert_eq!(planned.steps.len(), steps);
                began.elapsed().as_secs_f64() * 1000.0
            })
            .collect();
        times.sort_by(f64::total_cmp);
        let line = json!({"steps": steps, "bytes": text.len(), "in process, ms": times[times.len() / 2], "worst, ms": times[times.len() - 1]});
        println!("{line}");
    }
}
