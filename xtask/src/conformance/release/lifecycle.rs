//! Saved plans, history, rollback, delete, tests, encrypted values, storage, rehearsals, size.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::Case;
use super::stage::{Scene, config_map, deployment, job, text, wait};

pub const CASES: &[&Case] = &[
    &Case { number: 40, name: "a saved plan is carried out, or refused", play: saved_plan },
    &Case { number: 43, name: "so many revisions are kept", play: limit },
    &Case { number: 44, name: "rollbacks", play: rollback },
    &Case { number: 45, name: "a delete in order, twice", play: delete },
    &Case { number: 51, name: "encrypted values reach the cluster", play: encrypted },
    &Case { number: 53, name: "a plan of two thousand objects", play: size },
    &Case { number: 57, name: "tests are run when asked", play: tests },
    &Case { number: 58, name: "revisions in ConfigMaps", play: storage },
    &Case { number: 59, name: "a rehearsal before the real thing", play: rehearsal },
    &Case { number: 60, name: "all that is wrong is said at once", play: bad_input },
];

fn saved_plan(s: &Scene<'_>) -> Result<()> {
    let key = "00112233445566778899aabbccddeeff";
    let secret = "---\napiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {a: plaintext-word}\n";
    s.one(&(config_map("a", "1", "") + secret))?;
    s.plan(&["--out", "plan.slip"])?.fails(10)?;
    s.plan(&["--out", "plan.slip", "--secret-key", key])?.ok()?;
    let bytes = std::fs::read(s.directory.join("plan.slip"))?;
    let saved = String::from_utf8_lossy(&bytes).into_owned();
    ensure!(
        !saved.contains("plaintext-word") && !saved.contains("cGxhaW50ZXh0LXdvcmQ"),
        "the plan is in clear"
    );
    s.one(&(config_map("a", "later", "") + secret))?;
    let use_plan = |words: &[&str]| s.slipway(&[&["apply", "demo", "--plan", "plan.slip"], words].concat());
    use_plan(&["--secret-key", "ffffffffffffffffffffffffffffffff"])?.fails(10)?;
    use_plan(&["--secret-key", key, "--plan-lifetime", "1ms"])?.fails(12)?;
    use_plan(&["--secret-key", key])?.ok()?;
    ensure!(s.must("configmap/a")?["data"]["text"] == "1", "not the saved content");
    use_plan(&["--secret-key", key])?.fails(12)?;
    s.one(&(config_map("a", "2", "") + secret))?;
    s.plan(&["--out", "plan.slip", "--secret-key", key])?.ok()?;
    s.kubectl(&["label", "configmap", "a", "moved=yes"])?;
    let said = use_plan(&["--secret-key", key])?.fails(12)?;
    ensure!(said.contains("ConfigMap/a"), "{said}");
    use_plan(&["--secret-key", key, "--allow-drift"])?.ok()?;
    s.expect_statuses("superseded,deployed")
}

fn limit(s: &Scene<'_>) -> Result<()> {
    for number in 1..=5 {
        s.one(&config_map("a", &number.to_string(), ""))?;
        s.apply(&["--release-history-limit", "3"])?.ok()?;
    }
    s.expect_statuses("superseded,superseded,deployed")?;
    s.one(&(config_map("a", "6", "") + &job("bad", "", "sim/fail: \"true\"")))?;
    for _ in 0..3 {
        s.apply(&["--release-history-limit", "3"])?.fails(1)?;
    }
    ensure!(s.statuses()?.contains("deployed"), "the last good revision was evicted: {}", s.statuses()?);
    Ok(())
}

fn rollback(s: &Scene<'_>) -> Result<()> {
    for number in ["1", "2"] {
        s.one(&config_map("a", number, ""))?;
        s.apply(&[])?.ok()?;
    }
    let content = |s: &Scene<'_>| -> Result<String> { Ok(text(&s.must("configmap/a")?, "/data/text")) };
    s.slipway(&["rollback", "demo"])?.ok()?;
    ensure!(content(s)? == "1");
    s.slipway(&["rollback", "demo", "2"])?.ok()?;
    ensure!(content(s)? == "2");
    let said = s.slipway(&["rollback", "demo", "9"])?.fails(1)?;
    ensure!(said.contains("no revision 9"), "{said}");
    let said = s.slipway(&["rollback", "demo", "2"])?.ok()?;
    ensure!(said.contains("up to date"), "{said}");
    s.expect_statuses("superseded,superseded,superseded,deployed")
}

fn delete(s: &Scene<'_>) -> Result<()> {
    let account = "---\napiVersion: v1\nkind: ServiceAccount\nmetadata: {name: runner}\n";
    let role = "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: role}\nrules: []\n\
                ---\napiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {name: bound}\nroleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: role}\nsubjects: [{kind: ServiceAccount, name: runner}]\n";
    let web = deployment("web", "nginx:1", "", "")
        .replace("      containers:\n", "      serviceAccountName: runner\n      containers:\n");
    let kept = config_map("kept", "1", "helm.sh/resource-policy: keep");
    s.one(&(web + account + role + &kept + &job("bye", "helm.sh/hook: pre-delete", "")))?;
    s.apply(&[])?.ok()?;
    let mark = s.mark()?;
    s.slipway(&["delete", "demo"])?.ok()?;
    let writes = s.writes(mark)?;
    let place = |what: &str| writes.iter().position(|write| write.ends_with(what));
    ensure!(
        place("patch jobs/bye").is_some() && place("patch jobs/bye") < place("delete deployments/web"),
        "{writes:?}"
    );
    for (early, late) in [("deployments/web", "serviceaccounts/runner"), ("rolebindings/bound", "roles/role")]
    {
        let (early, late) = (place(&format!("delete {early}")), place(&format!("delete {late}")));
        ensure!(early.is_some() && early < late, "{writes:?}");
    }
    s.must("configmap/kept")?;
    s.must_not("deployment/web")?;
    ensure!(s.statuses()?.is_empty(), "revisions are left: {}", s.statuses()?);
    s.slipway(&["delete", "demo"])?.ok()?;
    s.one(&config_map("a", "1", ""))?;
    s.apply(&[])?.ok()?;
    s.slipway(&["delete", "demo", "--delete-namespace"])?.ok()?;
    let spaces = s.stage.real.kubectl(&["get", "namespaces", "-o", "name"])?;
    ensure!(!spaces.contains(&format!("namespace/{}\n", s.namespace)), "the namespace is left");
    Ok(())
}

fn encrypted(s: &Scene<'_>) -> Result<()> {
    let map =
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  text: {{ .Values.word | quote }}\n";
    let hidden = "word: 1000000102030405060708090a0b0c0d0e0f71dffee900dd428a056fdc95644278e2b14b49fd2361848b0bd6af23a5f62652\n";
    s.one(map)?;
    std::fs::write(s.directory.join("hidden.yaml"), hidden)?;
    let with = ["--secret-values", "hidden.yaml", "--secret-key", "00112233445566778899aabbccddeeff"];
    s.apply(&with)?.ok()?;
    ensure!(s.must("configmap/a")?["data"]["text"] == "verysecurepassword123");
    let values = s.slipway(&["get", "values", "demo"])?.ok()?;
    ensure!(!values.contains("verysecure"), "{values}");
    let wrong = ["--secret-values", "hidden.yaml", "--secret-key", "ffffffffffffffffffffffffffffffff"];
    let said = s.apply(&wrong)?.fails(16)?;
    ensure!(said.contains("hidden.yaml"), "{said}");
    Ok(())
}

/// What a release build has to keep to in so many seconds, a debug build keeps to in three times that.
fn in_time(what: &str, began: Instant, seconds: u64) -> Result<()> {
    let took = began.elapsed();
    println!("         {what}: {:.1} s", took.as_secs_f64());
    ensure!(took < Duration::from_secs(3 * seconds), "{what} took {took:?}");
    Ok(())
}

/// How much memory a plan of 2,000 objects may take, in KiB.
const LARGEST: u64 = 400 * 1024;

/// The most memory a process takes until it ends, in KiB.
fn watch_memory(process: u32) -> std::thread::JoinHandle<u64> {
    std::thread::spawn(move || {
        let mut most = 0;
        while let Ok(status) = std::fs::read_to_string(format!("/proc/{process}/status")) {
            let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
            let Some(line) = line else { break };
            let size = line.trim().trim_end_matches("kB").trim().parse().unwrap_or_default();
            most = u64::max(most, size);
            std::thread::sleep(Duration::from_millis(10));
        }
        most
    })
}

fn size(s: &Scene<'_>) -> Result<()> {
    let many = |count: u32, changed: &str| -> String {
        let content = |number| if number == 7 { changed } else { "1" };
        (0..count).map(|number| config_map(&format!("m{number}"), content(number), "")).collect()
    };
    s.one(&many(200, "1"))?;
    s.apply(&[])?.ok()?;
    s.one(&many(200, "2"))?;
    let (mark, began) = (s.mark()?, Instant::now());
    s.apply(&[])?.ok()?;
    in_time("one change among 200 objects", began, 3)?;
    let changed = s.order(mark, "configmaps")?;
    ensure!(changed.iter().all(|name| name == "m7" || name == "werf-synchronization"), "{changed:?}");

    s.one(&many(2000, "2"))?;
    s.apply(&[])?.ok()?;
    let (mark, began) = (s.mark()?, Instant::now());
    let child = s.command(&["plan", "demo", "demo", "--exit-code"]).spawn()?;
    let watched = watch_memory(child.id());
    let said = wait(child)?.ok()?;
    ensure!(said.contains("nothing to do"), "{said}");
    in_time("a plan of 2,000 objects without changes", began, 10)?;
    let most = watched.join().unwrap_or_default();
    println!("         it took {} MiB at most", most / 1024);
    ensure!((1..=LARGEST).contains(&most), "a plan of 2,000 objects took {} MiB", most / 1024);
    ensure!(s.writes(mark)?.is_empty(), "a plan wrote: {:?}", s.writes(mark)?);
    s.slipway(&["delete", "demo", "--delete-namespace"])?.ok().map(drop)
}

fn tests(s: &Scene<'_>) -> Result<()> {
    s.one(&(config_map("a", "1", "") + &job("good", "helm.sh/hook: test", "")))?;
    s.apply(&[])?.ok()?;
    s.must_not("job/good")?;
    s.slipway(&["test", "demo"])?.ok()?;
    s.must("job/good")?;
    s.one(&(config_map("a", "2", "") + &job("bad", "helm.sh/hook: test", "sim/fail: \"true\"")))?;
    s.apply(&[])?.ok()?;
    let said = s.slipway(&["test", "demo"])?.fails(1)?;
    ensure!(said.contains("Job/bad"), "{said}");
    s.expect_statuses("superseded,deployed")
}

fn storage(s: &Scene<'_>) -> Result<()> {
    let stored = ["--release-storage", "configmap"];
    for number in ["1", "2"] {
        s.one(&config_map("a", number, ""))?;
        s.apply(&stored)?.ok()?;
    }
    ensure!(s.statuses()?.is_empty(), "there are Secrets");
    let listed = s.kubectl(&["get", "configmap", "-l", "owner=helm,name=demo", "-o", "name"])?;
    ensure!(listed.lines().count() == 2, "{listed}");
    let mut helm = std::process::Command::new(&s.stage.helm);
    helm.args(["history", "demo", "-n", &s.namespace, "--kubeconfig"]).arg(s.stage.real.kubeconfig());
    let history = crate::shell::output(helm.env("HELM_DRIVER", "configmap"))?;
    ensure!(history.contains("superseded") && history.contains("deployed"), "{history}");
    s.slipway(&[&["rollback", "demo"], &stored[..]].concat())?.ok()?;
    ensure!(s.slipway(&[&["list"], &stored[..]].concat())?.ok()?.contains("demo"));
    s.slipway(&[&["delete", "demo"], &stored[..]].concat())?.ok()?;
    s.must_not("configmap/a")
}

fn rehearsal(s: &Scene<'_>) -> Result<()> {
    s.one(
        &(config_map("a", "1", "")
            + &deployment("web", "nginx:1", "", "")
            + &job("bad", "helm.sh/hook: pre-install", "sim/fail: crashloop")),
    )?;
    let mark = s.mark()?;
    let said = s.apply(&["--rehearse"])?.fails(1)?;
    ensure!(said.contains("nothing was changed") && said.contains("Job/bad"), "{said}");
    ensure!(s.writes(mark)?.is_empty(), "a failed rehearsal wrote: {:?}", s.writes(mark)?);
    s.one(
        &(config_map("a", "1", "")
            + &deployment("web", "nginx:1", "", "")
            + &job("good", "helm.sh/hook: pre-install", "")),
    )?;
    let ran = s.apply(&["--rehearse"])?;
    ensure!(ran.code == 0 && ran.err.contains("rehearsed"), "{}", ran.err);
    s.one(&(config_map("a", "2", "") + &deployment("web", "nginx:2", "", "")))?;
    s.apply(&["--rehearse"])?.ok()?;
    ensure!(s.must("configmap/a")?["data"]["text"] == "2");
    s.slipway(&["rollback", "demo", "--rehearse"])?.ok()?;
    s.slipway(&["delete", "demo", "--rehearse"])?.ok()?;
    s.must_not("deployment/web")
}

fn bad_input(s: &Scene<'_>) -> Result<()> {
    let text = config_map("a", "1", "werf.io/weight: heavy")
        + &config_map("b", "1", "werf.io/fail-mode: never")
        + &config_map("twice", "1", "")
        + &config_map("twice", "2", "")
        + "---\napiVersion: example.com/v1\nkind: Unknown\nmetadata: {name: x}\n";
    s.one(&text)?;
    let said = s.apply(&[])?.fails(10)?;
    for what in ["weight", "fail-mode", "twice", "Unknown"] {
        ensure!(said.contains(what), "{what} is not among the problems: {said}");
    }
    ensure!(said.contains("templates/all.yaml"), "{said}");
    let spaces = s.stage.real.kubectl(&["get", "namespaces", "-o", "name"])?;
    ensure!(!spaces.contains(&format!("namespace/{}\n", s.namespace)), "a namespace was made for it");
    Ok(())
}
