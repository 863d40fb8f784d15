//! What happens when things go wrong: failures, rollbacks, signals, locks, rights.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::Case;
use super::stage::{Scene, config_map, deployment, job, path, text, wait};

pub const CASES: &[&Case] = &[
    &Case { number: 29, name: "a failing rollout says why", play: failing },
    &Case { number: 30, name: "a failure is rolled back", play: auto_rollback },
    &Case { number: 31, name: "interrupted, it leaves nothing pending", play: interrupted },
    &Case { number: 31, name: "killed, the next run takes over", play: killed },
    &Case { number: 32, name: "a timeout fails the revision", play: timeout },
    &Case { number: 34, name: "few rights are enough", play: few_rights },
    &Case { number: 35, name: "two runs of a release take turns", play: lock },
    &Case { number: 47, name: "each failure counts once", play: counting },
    &Case { number: 48, name: "logs are shown and filtered", play: logs },
];

fn failing(s: &Scene<'_>) -> Result<()> {
    s.one(&(config_map("a", "1", "") + &deployment("web", "nginx:1", "", "")))?;
    s.apply(&[])?.ok()?;
    let bad =
        deployment("web", "nginx:none", "werf.io/failures-allowed-per-replica: \"0\"", "sim/fail: imagepull");
    s.one(&(config_map("a", "1", "") + &bad))?;
    let said = s.apply(&["--save-report-to", "report.json"])?.fails(1)?;
    ensure!(said.contains("ImagePullBackOff") && said.contains("Deployment/web"), "{said}");
    s.expect_statuses("deployed,failed")?;
    let report = std::fs::read_to_string(s.directory.join("report.json"))?;
    ensure!(report.contains("\"failed\""), "{report}");
    let history = s.slipway(&["history", "demo"])?.ok()?;
    ensure!(
        history.lines().last().is_some_and(|line| line.contains("failed") && line.contains("web")),
        "{history}"
    );
    Ok(())
}

fn auto_rollback(s: &Scene<'_>) -> Result<()> {
    s.one(&deployment("web", "nginx:1", "", ""))?;
    s.apply(&[])?.ok()?;
    let bad =
        deployment("web", "nginx:2", "werf.io/failures-allowed-per-replica: \"0\"", "sim/fail: imagepull");
    s.one(&(bad + &config_map("extra", "1", "")))?;
    s.apply(&["--auto-rollback"])?.fails(1)?;
    s.expect_statuses("superseded,failed,deployed")?;
    s.must_not("configmap/extra")?;
    let image = text(&s.must("deployment/web")?, "/spec/template/spec/containers/0/image");
    ensure!(image == "nginx:1", "{image}");
    Ok(())
}

/// Sends a signal by name to a process of ours.
fn signal(child: &std::process::Child, name: &str) -> Result<()> {
    crate::shell::output(
        std::process::Command::new("kill").args([format!("-{name}"), child.id().to_string()]),
    )?;
    Ok(())
}

fn interrupted(s: &Scene<'_>) -> Result<()> {
    s.one(&deployment("web", "nginx:1", "", "sim/fail: unready"))?;
    for (name, code, expected) in [("INT", 130, "failed"), ("TERM", 143, "failed,failed")] {
        let child = s.command(&["apply", "demo", "demo"]).spawn()?;
        s.until("a pending revision", || Ok(s.statuses()?.contains("pending")))?;
        s.until("the Deployment", || Ok(s.get("deployment/web")?.is_some()))?;
        let began = Instant::now();
        signal(&child, name)?;
        let ran = wait(child)?;
        ensure!(ran.code == code, "exit {} after {name}: {}", ran.code, ran.err);
        ensure!(began.elapsed() < Duration::from_secs(20), "it took {:?}", began.elapsed());
        s.expect_statuses(expected)?;
    }
    s.one(&deployment("web", "nginx:1", "", ""))?;
    let began = Instant::now();
    s.apply(&[])?.ok()?;
    ensure!(began.elapsed() < Duration::from_secs(30), "the lock was left: {:?}", began.elapsed());
    s.expect_statuses("failed,failed,deployed")
}

fn killed(s: &Scene<'_>) -> Result<()> {
    s.one(&deployment("web", "nginx:1", "", "sim/fail: unready"))?;
    let child = s.command(&["apply", "demo", "demo"]).spawn()?;
    s.until("the Deployment", || Ok(s.get("deployment/web").is_ok_and(|found| found.is_some())))?;
    signal(&child, "KILL")?;
    wait(child)?;
    s.expect_statuses("pending-install")?;
    s.one(&deployment("web", "nginx:1", "", ""))?;
    let began = Instant::now();
    s.apply(&[])?.ok()?;
    ensure!(began.elapsed() < Duration::from_secs(40), "it took {:?}", began.elapsed());
    s.expect_statuses("failed,deployed")?;
    let history = s.slipway(&["history", "demo"])?.ok()?;
    ensure!(history.contains("taken over"), "{history}");
    Ok(())
}

fn timeout(s: &Scene<'_>) -> Result<()> {
    s.one(&deployment("web", "nginx:1", "", "sim/fail: unready"))?;
    let began = Instant::now();
    let said = s.apply(&["--timeout", "4s"])?.fails(1)?;
    ensure!(began.elapsed() < Duration::from_secs(30) && said.contains("timeout"), "{said}");
    s.expect_statuses("failed")
}

fn few_rights(s: &Scene<'_>) -> Result<()> {
    s.stage.real.kubectl(&["create", "namespace", &s.namespace])?;
    let role = "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: few}\nrules:\n\
                - {apiGroups: [\"\"], resources: [configmaps, secrets], verbs: [get, list, create, update, patch, delete]}\n\
                - {apiGroups: [apps], resources: [deployments], verbs: [get, create, update, patch, delete]}\n\
                ---\napiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {name: few}\nroleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: few}\nsubjects: [{kind: User, name: alice, apiGroup: rbac.authorization.k8s.io}]\n";
    s.send(&["apply"], role)?;
    s.one(&(config_map("a", "1", "") + &deployment("web", "nginx:1", "", "")))?;
    let alice = s.stage.real.kubeconfig().with_file_name("alice.kubeconfig");
    let mut command = std::process::Command::new(&s.stage.slipway);
    command.args(["apply", "demo", "demo", "-n", &s.namespace, "--kubeconfig", path(&alice)?]);
    command.current_dir(&s.directory).env("HOME", &s.directory);
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let ran = wait(command.spawn()?)?;
    ensure!(ran.code == 0, "{}", ran.err);
    ensure!(ran.err.contains("warning"), "nothing is said of what could not be watched: {}", ran.err);
    ensure!(s.must("deployment/web")?["status"]["availableReplicas"] == 1, "it was not waited for");
    s.expect_statuses("deployed")
}

fn lock(s: &Scene<'_>) -> Result<()> {
    s.one(&(config_map("a", "1", "") + &job("slow", "", "sim/delay: \"3\"")))?;
    let first = s.command(&["apply", "demo", "demo"]).spawn()?;
    s.until("a pending revision", || Ok(s.statuses()?.contains("pending")))?;
    let second = s.command(&["apply", "demo", "demo", "--set", "x=1"]).spawn()?;
    let (first, second) = (wait(first)?, wait(second)?);
    ensure!(first.code == 0 && second.code == 0, "{} {}", first.err, second.err);
    ensure!(second.err.contains("wait"), "the second says nothing: {}", second.err);
    s.expect_statuses("superseded,deployed")?;
    // Nelm's protocol: a foreign lease that has not expired blocks, at most until then.
    let until = crate::shell::output(std::process::Command::new("date").args(["+%s", "-d", "+4 seconds"]))?;
    let lease = format!(
        r#"{{"metadata":{{"annotations":{{"lockgate.io/6af41e57cc7bc3e1cdf7a9bb61b31b68ced07bfe4ec4dba0e4635faf":"{{\"uuid\":\"11111111-2222-4333-8444-555555555555\",\"lockName\":\"release/demo\",\"ExpireAtTimestamp\":{},\"SharedHoldersCount\":1,\"IsShared\":false,\"QueueMembers\":{{}}}}"}}}}}}"#,
        until.trim()
    );
    s.kubectl(&["patch", "configmap", "werf-synchronization", "--type=merge", "-p", &lease])?;
    let began = Instant::now();
    s.apply(&["--set", "x=2"])?.ok()?;
    ensure!(began.elapsed() > Duration::from_secs(2), "the lease of somebody else was ignored");
    ensure!(began.elapsed() < Duration::from_secs(30), "it took {:?}", began.elapsed());
    Ok(())
}

fn counting(s: &Scene<'_>) -> Result<()> {
    // It crashes at once and again after ten seconds: one failure is allowed, the second is not.
    s.one(&deployment(
        "web",
        "nginx:1",
        "werf.io/failures-allowed-per-replica: \"1\"",
        "sim/fail: crashloop",
    ))?;
    let began = Instant::now();
    let said = s.apply(&[])?.fails(1)?;
    ensure!(said.contains("CrashLoopBackOff"), "{said}");
    ensure!(began.elapsed() > Duration::from_secs(5), "one failure counted twice: {:?}", began.elapsed());
    s.one(&job("once", "", "sim/fail: \"true\""))?;
    s.apply(&[])?.fails(1)?;
    s.expect_statuses("failed,failed")
}

fn logs(s: &Scene<'_>) -> Result<()> {
    let notes = "werf.io/log-regex: \"^keep\", werf.io/log-regex-skip: never";
    let text = job("talks", notes, "sim/logs: \"keep this\\nkeep never that\\nother\"");
    s.one(&text)?;
    let ran = s.apply(&[])?;
    ensure!(ran.code == 0, "{}", ran.err);
    ensure!(ran.err.contains("keep this"), "{}", ran.err);
    ensure!(!ran.err.contains("never that") && !ran.err.contains("| other"), "{}", ran.err);
    Ok(())
}
