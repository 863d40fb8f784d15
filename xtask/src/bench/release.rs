//! A release beside Helm and Nelm on one real control plane: install, upgrade of one object, no change; and
//! planning at size.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::{Effort, median, profile};
use crate::real::{Parts, Real};
use crate::{peers, shell};

/// What is done with a release, in this order.
const STEPS: [&str; 3] = ["install", "upgrade of one object", "no change"];

/// A deployment tool.
struct Tool {
    name: &'static str,
    program: PathBuf,
    /// The words for a step, given the namespace and the chart.
    words: fn(step: usize, namespace: &str, chart: &str) -> Vec<String>,
}

fn helm_words(step: usize, namespace: &str, chart: &str) -> Vec<String> {
    let verb = if step == 0 { "install" } else { "upgrade" };
    strings(&[verb, "bench", chart, "-n", namespace, "--wait", "--set", text(step)])
}

fn slipway_words(step: usize, namespace: &str, chart: &str) -> Vec<String> {
    strings(&["apply", "bench", chart, "-n", namespace, "--wait", "--set", text(step)])
}

fn nelm_words(step: usize, namespace: &str, chart: &str) -> Vec<String> {
    strings(&["release", "install", "-r", "bench", "-n", namespace, "--set", text(step), chart])
}

fn text(step: usize) -> &'static str {
    if step == 0 { "text=one" } else { "text=two" }
}

fn strings(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// What one step of one tool cost.
#[derive(Default, Clone)]
struct Cost {
    milliseconds: Vec<f64>,
    calls: usize,
    writes: usize,
}

pub fn run(effort: Effort) -> Result<Vec<Value>> {
    let slipway = shell::slipway(profile(effort))?;
    let work = shell::target().join("bench/release");
    fs::create_dir_all(&work)?;
    let chart = work.join("chart");
    write_chart(&chart, 20, 100)?;
    if effort == Effort::Short {
        return short(&slipway, &work, &chart);
    }
    let mut tools = vec![
        Tool { name: "helm", program: peers::helm()?, words: helm_words },
        Tool { name: "slipway", program: slipway.clone(), words: slipway_words },
    ];
    match peers::nelm() {
        Ok(program) => tools.push(Tool { name: "nelm", program, words: nelm_words }),
        Err(error) => eprintln!("Nelm is left out, it cannot be installed here: {error:#}"),
    }
    let real = Real::start(&work.join("real"), Parts::All)?;
    let mut costs = vec![vec![Cost::default(); STEPS.len()]; tools.len()];
    for round in 0..5 {
        for (number, tool) in tools.iter().enumerate() {
            let namespace = format!("{}-{round}", tool.name);
            real.kubectl(&["create", "namespace", &namespace])?;
            for (step, cost) in costs[number].iter_mut().enumerate() {
                let from = fs::metadata(real.audit())?.len();
                let mut command = Command::new(&tool.program);
                command
                    .args((tool.words)(step, &namespace, path_text(&chart)?))
                    .env("KUBECONFIG", real.kubeconfig());
                cost.milliseconds.push(timed(&mut command, &work)?);
                (cost.calls, cost.writes) = requests(&real, from)?;
            }
            // What the others are measured on is an empty cluster too.
            real.kubectl(&["delete", "namespace", &namespace, "--wait=true"])?;
        }
    }
    let mut rows = Vec::new();
    for (step, name) in STEPS.iter().enumerate() {
        let mut row = json!({ "case": name });
        let mut times = Vec::new();
        for (tool, costs) in tools.iter().zip(&mut costs) {
            let cost = &mut costs[step];
            let time = median(&mut cost.milliseconds);
            row[format!("{} ms", tool.name)] = json!(time);
            row[format!("{} calls", tool.name)] = json!(cost.calls);
            row[format!("{} writes", tool.name)] = json!(cost.writes);
            times.push(time);
        }
        row["times Helm"] = json!(times[0] / times[1]);
        row["times Nelm"] = json!(times.get(2).map(|nelm| nelm / times[1]));
        rows.push(row);
    }
    rows.extend(planning(&slipway, &work, &real)?);
    Ok(rows)
}

/// Ours alone against the sandbox, so that a short run needs nothing but Rust.
fn short(slipway: &Path, work: &Path, chart: &Path) -> Result<Vec<Value>> {
    let command = |words: &[&str]| {
        let mut command = Command::new(slipway);
        command.args(words).env("HOME", work).env_remove("XDG_STATE_HOME");
        command
    };
    shell::run(&mut command(&["sandbox", "up", "--detach", "--speed", "max"]))?;
    let mut rows = Vec::new();
    let measured = STEPS.iter().enumerate().try_for_each(|(step, name)| {
        let mut apply = command(&["--sandbox"]);
        apply.args(slipway_words(step, "bench", path_text(chart)?));
        let time = timed(&mut apply, work)?;
        rows.push(json!({"case": name, "slipway ms": time}));
        Ok(())
    });
    shell::run(&mut command(&["sandbox", "down"]))?;
    measured.map(|()| rows)
}

/// How long planning takes at two sizes: the whole, our own share of it, and the server's.
fn planning(slipway: &Path, work: &Path, real: &Real) -> Result<Vec<Value>> {
    real.kubectl(&["create", "namespace", "planning"])?;
    let mut rows = Vec::new();
    for objects in [500, 5000] {
        let chart = work.join(format!("chart-{objects}"));
        write_chart(&chart, 0, objects)?;
        let mut command = Command::new("/usr/bin/time");
        command.args(["-f", "%e %U %S %M"]).arg(slipway).args(["plan", "bench"]).arg(&chart);
        command.args(["-q", "-n", "planning"]).env("KUBECONFIG", real.kubeconfig()).stdout(Stdio::null());
        let output = command.stderr(Stdio::piped()).output().context("start /usr/bin/time")?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let last = said.trim().lines().last().unwrap_or_default();
        let numbers: Vec<f64> = last.split(' ').filter_map(|number| number.parse().ok()).collect();
        let [whole, user, system, memory] = numbers[..] else { bail!("planning {objects} objects: {said}") };
        let own = (user + system) * 1000.0;
        rows.push(json!({
            "case": format!("plan of {objects}: own ms, whole ms, MB"),
            "helm ms": null, "helm calls": null, "helm writes": null,
            "slipway ms": own,
            "slipway calls": whole * 1000.0,
            "slipway writes": memory / 1024.0,
        }));
    }
    Ok(rows)
}

/// Deployments that use ConfigMaps; `text` is the content of the first ConfigMap alone.
pub fn write_chart(chart: &Path, deployments: usize, maps: usize) -> Result<()> {
    fs::create_dir_all(chart.join("templates"))?;
    fs::write(chart.join("Chart.yaml"), "apiVersion: v2\nname: bench\nversion: 1.0.0\n")?;
    fs::write(chart.join("values.yaml"), format!("text: one\nmaps: {maps}\ndeployments: {deployments}\n"))?;
    let template = "{{- range $i := until (int .Values.maps) }}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: map-{{ $i }}}\n\
         data: {text: \"{{ if eq $i 0 }}{{ $.Values.text }}{{ else }}same{{ end }}\"}\n{{- end }}\n\
         {{- range $i := until (int .Values.deployments) }}\n---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web-{{ $i }}}\nspec:\n  \
         selector: {matchLabels: {app: web-{{ $i }}}}\n  template:\n    metadata: {labels: {app: web-{{ $i }}}}\n    spec:\n      \
         terminationGracePeriodSeconds: 0\n      containers: [{name: c, image: \"nginx:1\", envFrom: [{configMapRef: {name: map-{{ add 1 $i }}}}]}]\n{{- end }}\n";
    Ok(fs::write(chart.join("templates/all.yaml"), template)?)
}

fn timed(command: &mut Command, home: &Path) -> Result<f64> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).env("HOME", home);
    let started = Instant::now();
    let output = command.output()?;
    let time = started.elapsed().as_secs_f64() * 1000.0;
    if !output.status.success() {
        bail!("{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(time)
}

/// How many requests the API server has answered since a mark, and how many of them wrote.
fn requests(real: &Real, from: u64) -> Result<(usize, usize)> {
    let bytes = fs::read(real.audit())?;
    let from = usize::try_from(from)?.min(bytes.len());
    let mut seen = std::collections::BTreeSet::new();
    let mut writes = 0;
    for line in String::from_utf8_lossy(&bytes[from..]).lines() {
        let Ok(entry) = serde_json::from_str::<Value>(line) else { continue };
        if !seen.insert(entry["auditID"].as_str().unwrap_or_default().to_owned()) {
            continue;
        }
        let reads = ["get", "list", "watch"].contains(&entry["verb"].as_str().unwrap_or_default());
        let dry = entry["requestURI"].as_str().is_some_and(|uri| uri.contains("dryRun=All"));
        writes += usize::from(!reads && !dry);
    }
    Ok((seen.len(), writes))
}

pub fn path_text(path: &Path) -> Result<&str> {
    path.to_str().context("a path that is no text")
}
