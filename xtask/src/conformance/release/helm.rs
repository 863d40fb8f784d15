//! Helm on our releases and we on Helm's.

use anyhow::{Result, ensure};
use serde_json::Value;

use super::Case;
use super::stage::{Scene, config_map, deployment, job, text};

pub const CASES: &[&Case] = &[
    &Case { number: 6, name: "a field Helm set goes when the chart drops it", play: helm_field },
    &Case { number: 41, name: "Helm reads our release", play: helm_reads },
    &Case { number: 41, name: "Helm upgrades, rolls back and uninstalls ours", play: helm_continues },
    &Case { number: 42, name: "we read Helm's release", play: we_read },
    &Case { number: 42, name: "we upgrade, roll back and delete Helm's", play: we_continue },
    &Case { number: 42, name: "what Helm left pending or uninstalled does not block", play: left_behind },
];

/// A chart with everything Helm shows: values, notes, a hook and two objects.
fn shown(s: &Scene<'_>, word: &str) -> Result<()> {
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  labels: {app.kubernetes.io/name: demo}\ndata:\n  text: {{ .Values.text | quote }}\n  word: WORD\n";
    let hook = job("hook", "helm.sh/hook: \"pre-install,pre-upgrade\", helm.sh/hook-weight: \"3\"", "");
    s.chart(&[
        ("a.yaml", &map.replace("WORD", word)),
        ("web.yaml", &deployment("web", "nginx:1", "", "")),
        ("hook.yaml", &hook),
        ("./values.yaml", "text: default\n"),
        ("NOTES.txt", "Text is {{ .Values.text }}."),
    ])
}

/// The same document, whoever wrote it down.
fn documents(yaml: &str) -> Result<Vec<Value>> {
    let program = "import sys,yaml,json\n\
         d=[x for x in yaml.safe_load_all(sys.stdin) if x]\n\
         d.sort(key=lambda x:(x['kind'],x['metadata']['name']))\n\
         print(json.dumps(d,sort_keys=True))";
    let packages = crate::peers::python_package("pyyaml")?;
    let mut python = std::process::Command::new("python3");
    python.args(["-c", program]).env("PYTHONPATH", packages);
    python.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let mut child = python.spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        std::io::Write::write_all(&mut stdin, yaml.as_bytes())?;
    }
    let output = child.wait_with_output()?;
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn helm_field(s: &Scene<'_>) -> Result<()> {
    let with = config_map("a", "1", "") + "  extra: \"x\"\n";
    s.one(&with)?;
    s.helm(&["install", "demo", "demo", "--create-namespace"])?.ok()?;
    s.one(&config_map("a", "1", ""))?;
    s.apply(&[])?.ok()?;
    let object = s.must("configmap/a")?;
    ensure!(object["data"]["extra"].is_null(), "the field stayed: {}", object["data"]);
    let managers = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let theirs = managers.iter().any(|entry| entry["manager"] == "helm" && entry["operation"] == "Update");
    ensure!(!theirs, "{managers:?}");
    s.expect_statuses("superseded,deployed")
}

fn helm_reads(s: &Scene<'_>) -> Result<()> {
    shown(s, "one")?;
    s.apply(&["--set", "text=given"])?.ok()?;
    shown(s, "two")?;
    s.apply(&["--set", "text=given"])?.ok()?;
    let list: Value = serde_json::from_str(&s.helm(&["list", "-o", "json"])?.ok()?)?;
    let row = &list[0];
    for (key, value) in [
        ("name", "demo"),
        ("revision", "2"),
        ("status", "deployed"),
        ("chart", "demo-0.1.0"),
        ("app_version", "1"),
    ] {
        ensure!(text(row, &format!("/{key}")) == value, "list: {row}");
    }
    let history: Value = serde_json::from_str(&s.helm(&["history", "demo", "-o", "json"])?.ok()?)?;
    let statuses: Vec<String> =
        history.as_array().into_iter().flatten().map(|row| text(row, "/status")).collect();
    let told: Vec<String> =
        history.as_array().into_iter().flatten().map(|row| text(row, "/description")).collect();
    ensure!(statuses == ["superseded", "deployed"], "{statuses:?}");
    ensure!(told == ["Install complete", "Upgrade complete"], "{told:?}");
    // What both show of the same release is the same.
    for what in ["values", "notes"] {
        let (theirs, ours) =
            (s.helm(&["get", what, "demo", "-o", "json"]), s.slipway(&["get", what, "demo", "-o", "json"]));
        if what == "values" {
            let theirs: Value = serde_json::from_str(&theirs?.ok()?)?;
            let ours: Value = serde_json::from_str(&ours?.ok()?)?;
            ensure!(theirs == ours, "values: {theirs} {ours}");
        } else {
            let theirs = s.helm(&["get", "notes", "demo"])?.ok()?;
            let ours = s.slipway(&["get", "notes", "demo"])?.ok()?;
            ensure!(theirs.trim_start_matches("NOTES:\n").trim() == ours.trim(), "notes: {theirs} {ours}");
        }
    }
    for what in ["manifest", "hooks"] {
        let theirs = documents(&s.helm(&["get", what, "demo"])?.ok()?)?;
        let ours = documents(&s.slipway(&["get", what, "demo"])?.ok()?)?;
        ensure!(theirs == ours && !ours.is_empty(), "{what} differ");
    }
    let status = s.helm(&["status", "demo"])?.ok()?;
    ensure!(status.contains("STATUS: deployed") && status.contains("Text is given."), "{status}");
    Ok(())
}

fn helm_continues(s: &Scene<'_>) -> Result<()> {
    shown(s, "one")?;
    s.apply(&[])?.ok()?;
    let web = s.uid("deployment/web")?;
    shown(s, "two")?;
    s.helm(&["upgrade", "demo", "demo", "--wait"])?.ok()?;
    ensure!(s.must("configmap/a")?["data"]["word"] == "two");
    s.helm(&["rollback", "demo", "1", "--wait"])?.ok()?;
    ensure!(s.must("configmap/a")?["data"]["word"] == "one");
    ensure!(web == s.uid("deployment/web")?, "the Deployment was made anew");
    s.expect_statuses("superseded,superseded,deployed")?;
    s.helm(&["uninstall", "demo", "--wait"])?.ok()?;
    s.must_not("deployment/web")?;
    s.must_not("configmap/a")?;
    ensure!(s.statuses()?.is_empty());
    Ok(())
}

fn we_read(s: &Scene<'_>) -> Result<()> {
    shown(s, "one")?;
    s.helm(&["install", "demo", "demo", "--create-namespace", "--wait", "--set", "text=given"])?.ok()?;
    let list = s.slipway(&["list", "-o", "json"])?.ok()?;
    let list: Value = serde_json::from_str(&list)?;
    ensure!(text(&list[0], "/name") == "demo" && text(&list[0], "/status") == "deployed", "{list}");
    for what in ["manifest", "hooks"] {
        let theirs = s.helm(&["get", what, "demo"])?.ok()?;
        let ours = s.slipway(&["get", what, "demo"])?.ok()?;
        ensure!(theirs.trim() == ours.trim(), "{what} differ:\n{theirs}\n{ours}");
    }
    let values = s.slipway(&["get", "values", "demo"])?.ok()?;
    ensure!(values.trim() == "text: given", "{values}");
    let status = s.slipway(&["status", "demo"])?.ok()?;
    ensure!(status.contains("Text is given."), "{status}");
    Ok(())
}

fn we_continue(s: &Scene<'_>) -> Result<()> {
    shown(s, "one")?;
    s.helm(&["install", "demo", "demo", "--create-namespace", "--wait"])?.ok()?;
    let web = s.uid("deployment/web")?;
    shown(s, "two")?;
    s.apply(&[])?.ok()?;
    ensure!(s.must("configmap/a")?["data"]["word"] == "two");
    ensure!(web == s.uid("deployment/web")?, "the Deployment was made anew");
    s.expect_statuses("superseded,deployed")?;
    s.slipway(&["rollback", "demo", "1"])?.ok()?;
    ensure!(s.must("configmap/a")?["data"]["word"] == "one");
    s.slipway(&["delete", "demo"])?.ok()?;
    s.must_not("deployment/web")?;
    ensure!(s.helm(&["list", "-a", "-q"])?.ok()?.trim().is_empty(), "Helm still lists it");
    Ok(())
}

fn left_behind(s: &Scene<'_>) -> Result<()> {
    s.one(&config_map("a", "1", ""))?;
    s.helm(&["install", "demo", "demo", "--create-namespace"])?.ok()?;
    s.one(&deployment("web", "nginx:1", "", "sim/fail: unready"))?;
    let mut helm = std::process::Command::new(&s.stage.helm);
    helm.args(["upgrade", "demo", "demo", "--wait", "-n", &s.namespace, "--kubeconfig"])
        .arg(s.stage.real.kubeconfig());
    helm.current_dir(&s.directory).stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    let mut child = helm.spawn()?;
    s.until("a pending upgrade", || Ok(s.statuses()?.ends_with("pending-upgrade")))?;
    child.kill()?;
    child.wait()?;
    s.one(&config_map("a", "2", ""))?;
    s.apply(&[])?.ok()?;
    s.expect_statuses("superseded,failed,deployed")?;
    s.helm(&["upgrade", "demo", "demo"])?.ok()?;
    s.helm(&["uninstall", "demo", "--keep-history"])?.ok()?;
    s.apply(&[])?.ok()?;
    ensure!(s.statuses()?.ends_with("uninstalled,deployed"), "{}", s.statuses()?);
    Ok(())
}
