//! Stacks from the outside: hundreds of releases beside a loop of Helm, and runs that are killed over and over.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use crate::bench::Effort;
use crate::real::{Parts, Real};
use crate::{peers, shell};

/// How many releases run at once, on both sides.
const TOGETHER: &str = "16";

const TEMPLATE: &str = "\
apiVersion: v1
kind: ConfigMap
metadata: {name: '{{ .Release.Name }}'}
data: {size: '{{ .Values.size }}'}
---
apiVersion: v1
kind: Service
metadata: {name: '{{ .Release.Name }}'}
spec: {selector: {app: '{{ .Release.Name }}'}, ports: [{port: 80}]}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: '{{ .Release.Name }}'}
";

/// Writes a stack of many releases of one small chart; `needs` says what a release needs.
fn write(root: &Path, defaults: &str, releases: usize, needs: impl Fn(usize) -> Vec<usize>) -> Result<()> {
    fs::create_dir_all(root.join("chart/templates"))?;
    fs::write(root.join("chart/Chart.yaml"), "apiVersion: v2\nname: small\nversion: 0.1.0\n")?;
    fs::write(root.join("chart/values.yaml"), "size: 1\n")?;
    fs::write(root.join("chart/templates/all.yaml"), TEMPLATE)?;
    let mut text = format!("name: many\ndefaults: {defaults}\nreleases:\n");
    for number in 0..releases {
        let needs: Vec<String> = needs(number).into_iter().map(|need| format!("r{need}")).collect();
        text += &format!("- {{name: r{number}, chart: ./chart, needs: [{}]}}\n", needs.join(", "));
    }
    Ok(fs::write(root.join("stack.yaml"), text)?)
}

/// Hundreds of small releases on one real API server, beside `helm upgrade --install` with `xargs`: first where
/// nothing is there, then where nothing changed.
pub fn real(effort: Effort) -> Result<Vec<Value>> {
    let (releases, profile) = match effort {
        Effort::Short => (30, shell::Profile::Debug),
        Effort::Full => (300, shell::Profile::Release),
    };
    let (slipway, helm) = (shell::slipway(profile)?, peers::helm()?);
    let work = fresh(&shell::target().join("bench/stack"))?;
    let real = Real::start(&work.join("real"), Parts::Api)?;
    for namespace in ["ours", "theirs"] {
        real.kubectl(&["create", "namespace", namespace])?;
    }
    let root = work.join("stack");
    let kubeconfig = real.kubeconfig();
    write(&root, "{namespace: ours, apply: {wait: false, atomic: false}}", releases, |_| Vec::new())?;
    let mut rows = Vec::new();
    for case in ["install", "no change"] {
        let mut theirs = Command::new("xargs");
        theirs.args(["-P", TOGETHER, "-I{}"]).arg(&helm).args(["upgrade", "--install", "r{}"]);
        theirs.arg(root.join("chart")).args(["--namespace", "theirs", "--kubeconfig"]).arg(&kubeconfig);
        let numbers = work.join("numbers");
        let lines: Vec<String> = (0..releases).map(|number| number.to_string()).collect();
        fs::write(&numbers, lines.join("\n"))?;
        theirs.stdin(fs::File::open(&numbers)?).env("HOME", &work);
        let mut ours = Command::new(&slipway);
        ours.args(["stack", "apply", "--quiet", "--concurrency", TOGETHER, "--root"]).arg(&root);
        ours.arg("--kubeconfig").arg(&kubeconfig).env("HOME", &work);
        let (their_time, our_time) = (timed(&mut theirs)?, timed(&mut ours)?);
        rows.push(json!({
            "case": format!("{case}, {releases} releases"),
            "helm s": their_time,
            "slipway s": our_time,
            "times faster": their_time / our_time,
        }));
    }
    for (namespace, what) in [("ours", "slipway"), ("theirs", "helm")] {
        let found =
            real.kubectl(&["get", "configmaps,services", "--namespace", namespace, "--output=name"])?;
        let count = found.lines().filter(|line| line.contains("/r")).count();
        ensure!(count == releases * 2, "{what} made {count} objects, not {}", releases * 2);
    }
    Ok(rows)
}

fn timed(command: &mut Command) -> Result<f64> {
    let started = Instant::now();
    shell::output(command.env_remove("KUBECONFIG"))?;
    Ok(started.elapsed().as_secs_f64())
}

fn fresh(directory: &Path) -> Result<PathBuf> {
    if directory.exists() {
        fs::remove_dir_all(directory)?;
    }
    fs::create_dir_all(directory)?;
    Ok(directory.to_owned())
}

/// Kills a stack of thirty releases over and over: what succeeded is never applied again, what failed is, and in the
/// end everything is as if nobody had been killed.
pub fn soak(profile: shell::Profile, kills: u32) -> Result<()> {
    const RELEASES: usize = 30;
    let slipway = shell::slipway(profile)?;
    let root = fresh(&shell::target().join("soak/stack"))?;
    let needs = |number: usize| if number < 6 { Vec::new() } else { vec![number - 6, number - 5] };
    write(&root, "{namespace: shop, apply: {timeout: 2m}}", RELEASES, needs)?;
    let command = |args: &[&str]| {
        let mut command = Command::new(&slipway);
        command
            .current_dir(&root)
            .args(args)
            .env("HOME", &root)
            .env_remove("XDG_STATE_HOME")
            .stdin(Stdio::null());
        command
    };
    shell::run(&mut command(&["sandbox", "up", "--detach", "--speed", "max"]))?;
    let result = lives(kills, RELEASES, &command, &root);
    shell::run(&mut command(&["sandbox", "down"]))?;
    let (killed, runs) = result?;
    println!(
        "{killed} kills over {runs} runs of {RELEASES} releases: nothing applied twice, nothing skipped, nothing lost"
    );
    Ok(())
}

fn lives(
    kills: u32,
    releases: usize,
    command: &dyn Fn(&[&str]) -> Command,
    root: &Path,
) -> Result<(u32, u32)> {
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let (mut killed, mut runs) = (0, 0);
    // How long a run takes that nobody kills: the first one tells, and the others die within that time.
    let mut undisturbed = None;
    while killed < kills {
        let mut resume: &[&str] = &[];
        loop {
            let args = [&["stack", "apply", "--sandbox", "--quiet", "--concurrency", "8"], resume].concat();
            let mut child = command(&args).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            let life = undisturbed.map(|whole: Duration| whole.mul_f64((seed % 1000) as f64 / 1000.0));
            let born = Instant::now();
            let ended = loop {
                if let Some(status) = child.try_wait()? {
                    break Some(status);
                }
                if killed < kills && life.is_some_and(|life| born.elapsed() >= life) {
                    child.kill()?;
                    child.wait()?;
                    break None;
                }
                thread::sleep(Duration::from_millis(2));
            };
            undisturbed.get_or_insert_with(|| born.elapsed());
            let log = newest_log(root)?;
            check_log(&log)?;
            let complete = log.iter().any(|event| event["type"] == "RUN_COMPLETED");
            match ended {
                // Killed on its way out: there is nothing left to go on with.
                None if complete => break,
                None => killed += 1,
                Some(status) if status.success() => break,
                Some(status) => {
                    bail!("a run ended by itself with {status}; its log is under {}", root.display())
                }
            }
            // A process that died before it had a plan left no run to go on with.
            let runs = fs::read_dir(root.join(".slipway/stack/runs"));
            let planned =
                runs.is_ok_and(|runs| runs.flatten().any(|run| run.path().join("plan.json").exists()));
            resume = if planned { &["--resume"] } else { &[] };
        }
        runs += 1;
        check_cluster(releases, command)?;
        shell::output(&mut command(&["stack", "delete", "--sandbox", "--quiet", "--yes"]))?;
        fs::remove_dir_all(root.join(".slipway"))?;
        eprintln!("{killed} of {kills} kills");
    }
    Ok((killed, runs))
}

/// The lines of the only run's log that are whole.
fn newest_log(root: &Path) -> Result<Vec<Value>> {
    let Ok(mut runs) = fs::read_dir(root.join(".slipway/stack/runs")) else { return Ok(Vec::new()) };
    let Some(run) = runs.next() else { return Ok(Vec::new()) };
    let path = run?.path();
    ensure!(runs.next().is_none(), "a second run was started");
    let text = fs::read_to_string(path.join("events.jsonl")).unwrap_or_default();
    if !path.join("plan.json").exists() {
        fs::remove_dir_all(&path)?;
    }
    let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    whole.map(|line| serde_json::from_str(line).context("read a line of the log")).collect()
}

fn check_log(events: &[Value]) -> Result<()> {
    let mut done = BTreeSet::new();
    for event in events {
        let Some(id) = event["nodeId"].as_str() else { continue };
        match event["type"].as_str() {
            Some("NODE_RUNNING") => ensure!(!done.contains(id), "{id} was started after it succeeded"),
            Some("NODE_SUCCEEDED") => ensure!(done.insert(id.to_owned()), "{id} succeeded twice"),
            _ => {}
        }
    }
    Ok(())
}

/// Every release is there in one good revision, as applied, and nothing is left to do.
fn check_cluster(releases: usize, command: &dyn Fn(&[&str]) -> Command) -> Result<()> {
    let ask = |args: &[&str]| -> Result<Value> {
        Ok(serde_json::from_str(&shell::output(command(args).args(["--sandbox", "--output", "json"]))?)?)
    };
    let plan = ask(&["stack", "plan", "--diff", "--verify"])?;
    let listed = |key: &str| plan[key].as_array().cloned().unwrap_or_default();
    ensure!(listed("changes").len() == releases, "some release cannot be told");
    for change in listed("changes") {
        let zero = ["create", "update", "recreate", "delete"].iter().all(|key| change[key] == 0);
        ensure!(zero && change["revision"] == false, "not as in an undisturbed run: {change}");
    }
    for drift in listed("drift") {
        ensure!(drift["absent"] == false && drift["drifted"] == json!([]), "not as applied: {drift}");
    }
    for number in 0..releases {
        let name = format!("r{number}");
        let history = ask(&["history", &name, "--namespace", "shop"])?;
        let good =
            |row: &&Value| ["deployed", "superseded"].contains(&row["status"].as_str().unwrap_or_default());
        let count = history.as_array().into_iter().flatten().filter(good).count();
        ensure!(count == 1, "{name} was applied {count} times: {history}");
    }
    Ok(())
}
