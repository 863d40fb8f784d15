//! What happens when things go wrong: failures, rollbacks, signals, locks, rights.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::Case;
use super::relay::Relay;
use super::stage::{Scene, config_map, deployment, job, path, text, wait};

pub const CASES: &[&Case] = &[
    &Case { number: 29, name: "a failing rollout says why", play: failing },
    &Case { number: 30, name: "a failure is rolled back", play: auto_rollback },
    &Case { number: 31, name: "interrupted, it leaves nothing pending", play: interrupted },
    &Case { number: 31, name: "killed, the next run takes over", play: killed },
    &Case { number: 32, name: "a timeout fails the revision", play: timeout },
    &Case { number: 33, name: "watches and connections may break", play: broken_watches },
    &Case { number: 34, name: "few rights are enough", play: few_rights },
    &Case { number: 35, name: "two runs of a release take turns", play: lock },
    &Case { number: 47, name: "each failure counts once", play: counting },
    &Case { number: 48, name: "logs are shown and filtered", play: logs },
    &Case { number: 50, name: "a webhook served by the release comes up", play: webhook },
];

/// Cases that nothing else survives.
pub const ALONE: &[&Case] =
    &[&Case { number: 33, name: "the API server is killed and started again", play: server_restarts }];

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

/// A Deployment that is not ready for so long.
fn slow(delay: u32) -> String {
    deployment("web", "nginx:1", "", &format!("sim/delay: \"{delay}\"")) + &config_map("a", "1", "")
}

fn server_restarts(s: &Scene<'_>) -> Result<()> {
    s.one(&slow(12))?;
    let child = s.command(&["apply", "demo", "demo"]).spawn()?;
    s.until("a pod", || Ok(s.kubectl(&["get", "pods", "-o", "name"])?.contains("pod/web")))?;
    let began = Instant::now();
    // Longer than a lease lasts: the lock is in doubt, and nobody else can have taken it.
    s.stage.real.restart_api(Duration::from_secs(12))?;
    println!("         the API server was away for {:.1} s", began.elapsed().as_secs_f64());
    let ran = wait(child)?;
    ensure!(ran.code == 0, "exit {}\n{}", ran.code, ran.err);
    ensure!(s.must("deployment/web")?["status"]["availableReplicas"] == 1, "it was not waited for");
    s.expect_statuses("deployed")?;
    s.one(&(slow(12) + &config_map("b", "1", "")))?;
    s.apply(&[])?.ok()?;
    s.expect_statuses("superseded,deployed")
}

/// Everything goes through a relay that breaks all connections now and then.
fn broken_watches(s: &Scene<'_>) -> Result<()> {
    s.one(&slow(8))?;
    let relay = Relay::start(s.stage.real.port())?;
    let direct = std::fs::read_to_string(s.stage.real.kubeconfig())?;
    let address = |port: u16| format!("127.0.0.1:{port}");
    let through = s.directory.join("relay.kubeconfig");
    std::fs::write(&through, direct.replace(&address(s.stage.real.port()), &address(relay.port)))?;
    let child = s.command_with(&["apply", "demo", "demo"], &through).spawn()?;
    s.until("a pod", || {
        Ok(s.kubectl(&["get", "pods", "-o", "name"]).is_ok_and(|pods| pods.contains("web")))
    })?;
    let mut broken = 0;
    for _ in 0..4 {
        std::thread::sleep(Duration::from_secs(1));
        broken += relay.break_all();
    }
    wait(child)?.ok()?;
    ensure!(broken >= 4, "only {broken} connections were broken");
    ensure!(s.must("deployment/web")?["status"]["availableReplicas"] == 1, "it was not waited for");
    s.expect_statuses("deployed")
}

/// The webhook's backend is part of the release. Webhooks come last in it, so that a first install is not in
/// its own way; an upgrade that finds the backend down writes what the webhook guards once it is up again.
fn webhook(s: &Scene<'_>) -> Result<()> {
    let [authority, certificate, key] = s.stage.real.certificates();
    let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let bundle = crate::shell::output(std::process::Command::new("base64").arg("-w0").arg(&authority))?;
    let hook = format!(
        "---\napiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\nmetadata: {{name: {0}}}\nwebhooks:\n\
         - name: guard.conformance.example\n  failurePolicy: Fail\n  sideEffects: None\n  admissionReviewVersions: [v1]\n  timeoutSeconds: 2\n  \
         clientConfig: {{url: \"https://127.0.0.1:{port}/\", caBundle: {1}}}\n  \
         namespaceSelector: {{matchLabels: {{kubernetes.io/metadata.name: {0}}}}}\n  objectSelector: {{matchLabels: {{guarded: \"yes\"}}}}\n  \
         rules: [{{apiGroups: [\"\"], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [configmaps]}}]\n",
        s.namespace,
        bundle.trim()
    );
    let guarded = |text: &str| {
        config_map("guarded", text, "")
            .replace("  name: guarded\n", "  name: guarded\n  labels: {guarded: \"yes\"}\n")
    };
    let release =
        |image: &str, text: &str| guarded(text) + &deployment("guard", image, "", "sim/delay: \"4\"") + &hook;
    s.one(&release("guard:1", "1"))?;
    let mark = s.mark()?;
    s.apply(&[])?.ok()?;
    let installed = s.order(mark, "configmaps")?;
    ensure!(installed.iter().any(|name| name == "guarded"), "{installed:?}");
    s.until("the webhook to be in the way", || {
        let map = guarded("by hand");
        Ok(s.send(&["apply", "--server-side", "--dry-run=server", "--force-conflicts"], &map).is_err())
    })?;

    s.one(&release("guard:2", "2"))?;
    let mark = s.mark()?;
    let child = s.command(&["apply", "demo", "demo"]).spawn()?;
    // As a kubelet would: what serves the webhook runs once its pod does.
    s.until("the backend", || {
        let live = s.must("deployment/guard")?;
        let image = text(&live, "/spec/template/spec/containers/0/image");
        let is_seen = live["status"]["observedGeneration"] == live["metadata"]["generation"];
        Ok(image == "guard:2"
            && is_seen
            && live["status"]["updatedReplicas"] == live["status"]["readyReplicas"]
            && live["status"]["replicas"] == 1)
    })?;
    let mut backend = std::process::Command::new("python3");
    backend.args(["-c", BACKEND, &port.to_string(), path(&certificate)?, path(&key)?]);
    let mut backend = backend.spawn()?;
    let ran = wait(child);
    let refused: Vec<u64> = s
        .audit(mark)?
        .iter()
        .filter(|entry| {
            let is_dry = text(entry, "/requestURI").contains("dryRun");
            text(entry, "/objectRef/name") == "guarded" && text(entry, "/verb") == "patch" && !is_dry
        })
        .filter_map(|entry| entry["responseStatus"]["code"].as_u64())
        .collect();
    let done = ran.and_then(|ran| {
        ran.ok()?;
        ensure!(refused.len() > 1 && refused.ends_with(&[200]), "answers to the write: {refused:?}");
        ensure!(s.must("configmap/guarded")?["data"]["text"] == "2", "it was not written");
        s.expect_statuses("superseded,deployed")?;
        s.slipway(&["delete", "demo"])?.ok().map(drop)
    });
    let _ = backend.kill();
    let _ = backend.wait();
    done
}

/// A webhook that allows everything.
const BACKEND: &str = "import http.server,json,ssl,sys\n\
    class Allow(http.server.BaseHTTPRequestHandler):\n\
    \x20   def do_POST(self):\n\
    \x20       review=json.loads(self.rfile.read(int(self.headers['Content-Length'])))\n\
    \x20       answer={'apiVersion':'admission.k8s.io/v1','kind':'AdmissionReview','response':{'uid':review['request']['uid'],'allowed':True}}\n\
    \x20       body=json.dumps(answer).encode()\n\
    \x20       self.send_response(200)\n\
    \x20       self.send_header('Content-Type','application/json')\n\
    \x20       self.send_header('Content-Length',str(len(body)))\n\
    \x20       self.end_headers()\n\
    \x20       self.wfile.write(body)\n\
    \x20   def log_message(self,*words): pass\n\
    server=http.server.ThreadingHTTPServer(('127.0.0.1',int(sys.argv[1])),Allow)\n\
    tls=ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)\n\
    tls.load_cert_chain(sys.argv[2],sys.argv[3])\n\
    server.socket=tls.wrap_socket(server.socket,server_side=True)\n\
    server.serve_forever()";

fn few_rights(s: &Scene<'_>) -> Result<()> {
    s.stage.real.kubectl(&["create", "namespace", &s.namespace])?;
    let role = "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: few}\nrules:\n\
                - {apiGroups: [\"\"], resources: [configmaps, secrets], verbs: [get, list, create, update, patch, delete]}\n\
                - {apiGroups: [apps], resources: [deployments], verbs: [get, create, update, patch, delete]}\n\
                ---\napiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {name: few}\nroleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: few}\nsubjects: [{kind: User, name: alice, apiGroup: rbac.authorization.k8s.io}]\n";
    s.send(&["apply"], role)?;
    s.one(&(config_map("a", "1", "") + &deployment("web", "nginx:1", "", "")))?;
    let alice = s.stage.real.kubeconfig().with_file_name("alice.kubeconfig");
    let ran = wait(s.command_with(&["apply", "demo", "demo"], &alice).spawn()?)?;
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
