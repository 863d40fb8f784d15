//! `cargo xtask bench`: figures as ratios side by side, measured in one run.

mod compare;
mod history;
mod release;
mod terminal;
mod units;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use self::history::Comparison;
use crate::real::{Parts, Real};
use crate::{charts, peers, shell};

/// One benchmark: it prints measurements, one JSON object a line, and says what must hold.
struct Bench {
    name: &'static str,
    run: fn(Effort) -> Result<Vec<Value>>,
}

/// How many objects `--objects` asks for.
static OBJECTS: OnceLock<String> = OnceLock::new();

/// How long to measure.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// Enough to see that the benchmark works; figures are not judged.
    Short,
    Full,
}

const BENCHES: &[Bench] = &[
    Bench { name: "graph", run: graph },
    Bench { name: "charts", run: charts },
    Bench { name: "kustomize", run: kustomize },
    Bench { name: "package", run: package },
    Bench { name: "stack", run: stack },
    Bench { name: "runbook", run: runbook },
    Bench { name: "sandbox", run: sandbox },
    Bench { name: "kro", run: kro },
    Bench { name: "gates", run: gates },
    Bench { name: "promotion", run: promotion },
    Bench { name: "controller", run: controller },
    Bench { name: "units", run: units::run },
    Bench { name: "terminal", run: terminal::run },
];

/// Beside real programs on a real control plane; only when asked for.
const REAL: &[Bench] =
    &[Bench { name: "release", run: release::run }, Bench { name: "stack", run: crate::stack::real }];

pub fn run(args: &[&str]) -> Result<()> {
    if let ["compare", before, after] = args {
        return finish("compare", &compare::run(Path::new(before), Path::new(after))?);
    }
    let effort = if args.contains(&"--short") { Effort::Short } else { Effort::Full };
    let args = match args {
        [args @ .., "--objects", count] => {
            OBJECTS.get_or_init(|| (*count).to_owned());
            args
        }
        args => args,
    };
    let comparison = if args.contains(&"--gate") { Comparison::Gate } else { Comparison::Record };
    let benches = if args.contains(&"--real") { REAL } else { BENCHES };
    let names: Vec<&str> =
        args.iter().copied().filter(|arg| !["--short", "--real", "--gate"].contains(arg)).collect();
    if let Some(unknown) = names.iter().find(|name| !benches.iter().any(|bench| bench.name == **name)) {
        let known: Vec<_> = benches.iter().map(|bench| bench.name).collect();
        bail!("there is no benchmark `{unknown}`; there are: {}", known.join(", "));
    }
    let suffix = if args.contains(&"--real") { "-real" } else { "" };
    for bench in benches.iter().filter(|bench| names.is_empty() || names.contains(&bench.name)) {
        let rows = (bench.run)(effort).with_context(|| format!("benchmark {}", bench.name))?;
        let name = format!("{}{suffix}", bench.name);
        finish(&name, &rows)?;
        if effort == Effort::Full {
            history::keep(&name, &rows, comparison)?;
        }
    }
    Ok(())
}

/// Prints the rows and keeps them.
fn finish(name: &str, rows: &[Value]) -> Result<()> {
    print_table(name, rows);
    let directory = shell::target().join("bench");
    fs::create_dir_all(&directory)?;
    let path = directory.join(format!("{name}.json"));
    fs::write(&path, serde_json::to_string_pretty(rows)? + "\n")?;
    eprintln!("wrote {}", path.display());
    Ok(())
}

/// Runs an example of a crate and reads the JSON lines it prints.
fn example(package: &str, example: &str, effort: Effort, args: &[&str]) -> Result<Vec<Value>> {
    let mut command = match effort {
        Effort::Short => Command::new(shell::example(example)?),
        Effort::Full => {
            let run =
                ["run", "--quiet", "--locked", "--release", "--package", package, "--example", example, "--"];
            shell::cargo(&run)
        }
    };
    command.args(args);
    let printed = shell::output(&mut command)?;
    printed.lines().map(|line| serde_json::from_str(line).with_context(|| format!("read `{line}`"))).collect()
}

/// The kernel at two sizes, and how much the tenfold graph costs.
fn graph(effort: Effort) -> Result<Vec<Value>> {
    let size: &[&str] = if effort == Effort::Short { &["--short"] } else { &[] };
    let mut rows = example("slipway-graph", "graph_bench", effort, size)?;
    let smallest = rows.iter().filter_map(|row| row["nodes"].as_u64()).min();
    let small: Vec<Value> = rows.iter().filter(|row| row["nodes"].as_u64() == smallest).cloned().collect();
    for row in &mut rows {
        let same = |other: &&Value| other["graph"] == row["graph"] && other["phase"] == row["phase"];
        let times =
            small.iter().find(same).and_then(|other| Some(row["ms"].as_f64()? / other["ms"].as_f64()?));
        row["times the smallest"] = json!(times);
    }
    Ok(rows)
}

/// Building packages of two sizes, and how much the tenfold one costs; 500 resources may take 50 ms.
fn package(effort: Effort) -> Result<Vec<Value>> {
    let size: &[&str] = if effort == Effort::Short { &["--short", "50", "500"] } else { &[] };
    let mut rows = example("slipway-package", "package_bench", effort, size)?;
    let smallest = rows.iter().filter_map(|row| row["resources"].as_u64()).min();
    let small: Vec<Value> =
        rows.iter().filter(|row| row["resources"].as_u64() == smallest).cloned().collect();
    for row in &mut rows {
        let same = small.iter().find(|other| other["name"] == row["name"]);
        let ratio =
            same.and_then(|other| Some(row["milliseconds"].as_f64()? / other["milliseconds"].as_f64()?));
        row["times the smallest"] = json!(ratio);
    }
    let slow = rows.iter().find(|row| {
        row["name"] == "total" && row["resources"] == 500 && row["milliseconds"].as_f64() >= Some(50.0)
    });
    if let (Effort::Full, Some(slow)) = (effort, slow) {
        bail!("500 resources and 200 patches take {} ms, 50 are allowed", slow["milliseconds"]);
    }
    Ok(rows)
}

/// Live Graphs in three numbers: starting, memory, writes when nothing happens, and how soon a gate that opens is
/// followed by the next object. The bars are those of 5,000.
fn kro(effort: Effort) -> Result<Vec<Value>> {
    let sizes: &[&str] = if effort == Effort::Short { &["5", "50"] } else { &["50", "500", "5000"] };
    // A process each, so that one does not show the memory of another.
    let mut rows = Vec::new();
    for size in sizes {
        rows.extend(example("slipway-kro", "graph_controller_bench", effort, &[size])?);
    }
    let over = |row: &Value, key: &str, bar: f64| row[key].as_f64().is_some_and(|figure| figure > bar);
    let slow = rows.iter().find(|row| {
        over(row, "cold start, s", 30.0)
            || over(row, "controller, MB", 200.0)
            || over(row, "idle writes a minute", 5.0)
            || over(row, "flip to object, ms", 2000.0)
    });
    if let (Effort::Full, Some(slow)) = (effort, slow) {
        bail!("{slow} misses a bar: 30 s, 200 MB, 5 writes a minute, 2 s");
    }
    Ok(rows)
}

/// Gates from the plainest to one that reads most of the context.
fn gates(effort: Effort) -> Result<Vec<Value>> {
    let size: &[&str] = if effort == Effort::Short { &["--short"] } else { &[] };
    let rows = example("slipway-promotion", "gate_bench", effort, size)?;
    let slow = rows.iter().find(|row| row["evaluate, µs"].as_f64().is_some_and(|figure| figure > 20.0));
    if let (Effort::Full, Some(slow)) = (effort, slow) {
        bail!("{slow} misses the bar of 20 µs for an evaluation");
    }
    Ok(rows)
}

/// The translator on a pipeline of a hundred environments, then live promotions in three numbers. The bars are those of 5,000.
fn promotion(effort: Effort) -> Result<Vec<Value>> {
    let sizes: &[&str] = if effort == Effort::Short { &["5", "20"] } else { &["50", "500", "5000"] };
    let mut rows = example("slipway-promotion", "promotion_bench", effort, &["translate"])?;
    for size in sizes {
        rows.extend(example("slipway-promotion", "promotion_bench", effort, &[size])?);
    }
    let over = |row: &Value, key: &str, bar: f64| row[key].as_f64().is_some_and(|figure| figure > bar);
    let slow = rows.iter().find(|row| {
        over(row, "translate, ms", 5.0)
            || over(row, "cold start, s", 30.0)
            || over(row, "controller, MB", 200.0)
            || over(row, "idle writes a minute", 5.0)
            || over(row, "flip to step, ms", 2000.0)
    });
    if let (Effort::Full, Some(slow)) = (effort, slow) {
        bail!("{slow} misses a bar: 5 ms, 30 s, 200 MB, 5 writes a minute, 2 s");
    }
    Ok(rows)
}

/// One controller with many pipelines: memory, how soon a webhook is followed by a new state, and builds that ask for bundles.
/// Answers must be right at every size; the bars are those of 1,000.
fn controller(effort: Effort) -> Result<Vec<Value>> {
    let sizes: &[&str] = if effort == Effort::Short { &["20"] } else { &["100", "1000"] };
    let slipway = shell::slipway(profile(effort))?;
    let program = slipway.to_str().context("the target directory's name is no text")?;
    let mut rows = Vec::new();
    for size in sizes {
        rows.extend(example("slipway-controller", "controller_bench", effort, &[program, size])?);
    }
    if let Some(row) = rows.iter().find(|row| row["wrong answers"] != json!({}) || row["lost bundles"] != 0) {
        bail!("{row}: answers are wrong, or bundles were lost");
    }
    let over = |row: &Value, key: &str, bar: f64| row[key].as_f64().is_some_and(|figure| figure > bar);
    let slow = rows.iter().find(|row| {
        over(row, "most MB", 200.0)
            || over(row, "slowest, ms", 3000.0)
            || over(row, "last answer late, s", 1.0)
    });
    if let (Effort::Full, Some(slow)) = (effort, slow) {
        bail!(
            "{slow} misses a bar: 200 MB, 3 s, 1,000 requests a second with the last answer within a second"
        );
    }
    Ok(rows)
}

/// Stacks of several sizes, and what a release costs in each.
fn stack(effort: Effort) -> Result<Vec<Value>> {
    let size: &[&str] = if effort == Effort::Short { &["--short"] } else { &[] };
    let mut rows = example("slipway-stack", "stack_bench", effort, size)?;
    for row in &mut rows {
        let each =
            row["ms"].as_f64().zip(row["releases"].as_f64()).map(|(ms, releases)| ms * 1000.0 / releases);
        row["µs each"] = json!(each);
    }
    Ok(rows)
}

/// Reading and planning runbooks of two sizes without a cluster, in process and as whole processes; the
/// process may take 50 ms for 500 steps.
fn runbook(effort: Effort) -> Result<Vec<Value>> {
    let folder = shell::target().join("bench/runbook");
    fs::create_dir_all(&folder)?;
    let path = folder.to_str().context("the target directory's name is no text")?;
    let size: &[&str] = if effort == Effort::Short { &["--short"] } else { &[] };
    let mut rows = example("slipway-runbook", "runbook_bench", effort, &[size, &["--write", path]].concat())?;
    let slipway = shell::slipway(profile(effort))?;
    for row in &mut rows {
        for (column, words) in [("validate, ms", &["validate"][..]), ("plan, ms", &["plan", "--offline"])] {
            let mut command = Command::new(&slipway);
            command.arg("run").args(words).arg("-f").arg(folder.join(format!("{}.yaml", row["steps"])));
            let rounds = if effort == Effort::Short { 1 } else { 21 };
            let mut times = (0..rounds).map(|_| milliseconds(&mut command)).collect::<Result<Vec<f64>>>()?;
            row[column] = json!(median(&mut times));
            row["MB"] = json!(peak_memory(&command));
        }
    }
    let slow = rows.iter().find(|row| row["steps"] == 500 && row["plan, ms"].as_f64() >= Some(50.0));
    if let (Effort::Full, Some(slow)) = (effort, slow) {
        bail!("validating and planning 500 steps takes {} ms, 50 are allowed", slow["plan, ms"]);
    }
    Ok(rows)
}

/// `slipway render` beside `helm template`, whole processes, alternating.
fn charts(effort: Effort) -> Result<Vec<Value>> {
    let (helm, slipway) = (peers::helm()?, shell::slipway(profile(effort))?);
    let mut rows = Vec::new();
    for rendering in charts::renderings()?.iter().filter(|rendering| rendering.args.is_empty()) {
        let mut theirs = Command::new(&helm);
        theirs.arg("template").args(rendering.words());
        // Charts that fail tell nothing about speed.
        if !theirs.output()?.status.success() {
            continue;
        }
        let mut ours = Command::new(&slipway);
        ours.arg("render").args(rendering.words());
        let mut row = side_by_side(&rendering.name(), ("helm", &mut theirs), ("slipway", &mut ours), effort)?;
        let (their_memory, our_memory) = (peak_memory(&theirs), peak_memory(&ours));
        row["helm MB"] = json!(their_memory);
        row["slipway MB"] = json!(our_memory);
        row["of its memory"] = json!(their_memory.zip(our_memory).map(|(theirs, ours)| ours / theirs));
        rows.push(row);
    }
    let size: &[&str] = if effort == Effort::Short { &["--short"] } else { &[] };
    let mut rows = with_middles(rows);
    rows.extend(example("slipway-chart", "chart_bench", effort, size)?);
    Ok(rows)
}

/// `slipway kustomize build` beside `kustomize build` and, unless it is to be short, beside `kubectl
/// kustomize`, on kustomizations of many resources; it is to be five times as fast.
fn kustomize(effort: Effort) -> Result<Vec<Value>> {
    let (theirs, ours) = (peers::kustomize()?, shell::slipway(profile(effort))?);
    let mut programs = vec![("kustomize", theirs, "build")];
    if effort == Effort::Full {
        programs.push(("kubectl", peers::kubectl()?, "kustomize"));
    }
    let directory = shell::target().join("bench/kustomize");
    let mut rows = Vec::new();
    for resources in if effort == Effort::Short { vec![50] } else { vec![50, 500] } {
        let root = directory.join(resources.to_string());
        write_kustomization(&root, resources)?;
        for (program, path, command) in &programs {
            let mut real = Command::new(path);
            real.arg(command).arg(&root);
            let mut mine = Command::new(&ours);
            mine.args(["kustomize", "build"]).arg(&root);
            let name = format!("{resources} resources, {program} {command}");
            rows.push(side_by_side(&name, ("real", &mut real), ("slipway", &mut mine), effort)?);
        }
    }
    let slow = rows.iter().find(|row| row["times faster"].as_f64() < Some(5.0));
    if let (Effort::Full, Some(slow)) = (effort, slow) {
        bail!("{} is built {} times as fast, five are wanted", slow["case"], slow["times faster"]);
    }
    Ok(rows)
}

/// Deployments with a prefix, labels, an image, a patch and a generated ConfigMap that each mounts.
fn write_kustomization(root: &Path, resources: usize) -> Result<()> {
    fs::create_dir_all(root)?;
    let mut all = String::new();
    for number in 0..resources {
        all.push_str(&format!(
            "---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: web-{number}}}\nspec:\n  \
             selector: {{matchLabels: {{app: web-{number}}}}}\n  template:\n    metadata: {{labels: {{app: web-{number}}}}}\n    \
             spec:\n      containers:\n      - name: web\n        image: nginx:1.0\n        \
             envFrom:\n        - configMapRef: {{name: settings}}\n"
        ));
    }
    fs::write(root.join("all.yaml"), all)?;
    fs::write(
        root.join("kustomization.yaml"),
        "resources: [all.yaml]\nnamePrefix: shop-\nnamespace: shop\nlabels: [{pairs: {team: a}, includeSelectors: true}]\n\
         images: [{name: nginx, newTag: \"1.27\"}]\nconfigMapGenerator: [{name: settings, literals: [a=b]}]\n\
         patches: [{target: {kind: Deployment}, patch: '[{\"op\": \"add\", \"path\": \"/spec/replicas\", \"value\": 2}]'}]\n",
    )?;
    Ok(())
}

/// The sandbox beside a real API server with etcd: the same client over TLS, one after the other.
///
/// A short run measures the sandbox alone, so that it needs nothing but Rust.
fn sandbox(effort: Effort) -> Result<Vec<Value>> {
    let slipway = shell::slipway(profile(effort))?;
    let work = shell::target().join("bench/sandbox");
    fs::create_dir_all(&work)?;
    let ours = work.join("kubeconfig");
    let command = |args: &[&str]| {
        let mut command = Command::new(&slipway);
        command.arg("sandbox").args(args).env("HOME", &work).env_remove("XDG_STATE_HOME");
        command
    };
    let up = |kubeconfig: &Path| -> Result<f64> {
        let started = Instant::now();
        shell::run(command(&["up", "--detach", "--speed", "max", "--write-kubeconfig"]).arg(kubeconfig))?;
        Ok(started.elapsed().as_secs_f64() * 1000.0)
    };
    let down = || shell::run(&mut command(&["down"]));
    let load = |kubeconfig: &Path, more: &[&str]| {
        let path = kubeconfig.to_str().context("the target directory's name is no text")?;
        let seconds = if effort == Effort::Short { "0.3" } else { "5" };
        example("slipway-sandbox", "load", effort, &[&[path, seconds, "8"][..], more].concat())
    };
    if let Some(count) = OBJECTS.get() {
        up(&ours)?;
        let measured = load(&ours, &[count.as_str()]);
        let memory = resident(&slipway, &work);
        down()?;
        let mut rows = measured?;
        rows.push(json!({"operation": "memory, MB", "number": memory}));
        return Ok(rows);
    }
    // The first start reads the program from the disk; the median is that of those that do not.
    let mut starts = Vec::new();
    for _ in 0..if effort == Effort::Short { 1 } else { 9 } {
        starts.push(up(&ours)?);
        down()?;
    }
    up(&ours)?;
    let idle = resident(&slipway, &work);
    let available = available(effort, &ours);
    let load = |kubeconfig: &Path| load(kubeconfig, &[]);
    let measured = load(&ours).and_then(|ours| Ok((ours, real_server(effort, &work, &load)?)));
    down()?;
    let (ours, theirs) = measured?;
    let row = |case: &str, figure: Option<f64>| json!({"case": case, "kube-apiserver": null, "slipway": figure, "times faster": null});
    let mut rows = vec![
        row("`sandbox up --detach` until it serves, ms", Some(median(&mut starts))),
        row("memory when idle, MB", idle),
        row("deployment of 3 available, ms", available?),
    ];
    for row in ours {
        let real = theirs.iter().find(|other| other["operation"] == row["operation"]);
        let (mine, real) = (row["per second"].as_f64(), real.and_then(|real| real["per second"].as_f64()));
        rows.push(json!({
            "case": format!("{}/s", row["operation"].as_str().unwrap_or_default()),
            "kube-apiserver": real,
            "slipway": mine,
            "times faster": mine.zip(real).map(|(mine, real)| mine / real),
        }));
    }
    Ok(rows)
}

/// How much memory the running sandbox holds, in megabytes, where the system tells.
fn resident(slipway: &Path, home: &Path) -> Option<f64> {
    let mut status = Command::new(slipway);
    status.args(["sandbox", "status", "-o", "json"]).env("HOME", home).env_remove("XDG_STATE_HOME");
    let said: Value = serde_json::from_str(&shell::output(&mut status).ok()?).ok()?;
    let status = fs::read_to_string(format!("/proc/{}/status", said["pid"])).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<f64>().ok()? / 1024.0)
}

/// How long a deployment of three replicas takes from its creation until it is available.
fn available(effort: Effort, kubeconfig: &Path) -> Result<Option<f64>> {
    let path = kubeconfig.to_str().context("the target directory's name is no text")?;
    let rows = example("slipway-sandbox", "load", effort, &[path, "0", "1", "deployment"])?;
    Ok(rows.first().and_then(|row| row["ms"].as_f64()))
}

/// Starts etcd and kube-apiserver, loads them, and stops them again.
fn real_server(
    effort: Effort,
    work: &Path,
    load: &dyn Fn(&Path) -> Result<Vec<Value>>,
) -> Result<Vec<Value>> {
    if effort == Effort::Short {
        return Ok(Vec::new());
    }
    let real = Real::start(&work.join("real"), Parts::Api)?;
    load(&real.kubeconfig())
}

fn profile(effort: Effort) -> shell::Profile {
    if effort == Effort::Full { shell::Profile::Release } else { shell::Profile::Debug }
}

/// Runs two programs in turn and compares their median times and peak memory.
fn side_by_side(
    name: &str,
    (their_name, theirs): (&str, &mut Command),
    (our_name, ours): (&str, &mut Command),
    effort: Effort,
) -> Result<Value> {
    let rounds = if effort == Effort::Short { 1 } else { 7 };
    let (mut their_times, mut our_times) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        their_times.push(milliseconds(theirs)?);
        our_times.push(milliseconds(ours)?);
    }
    let (their_time, our_time) = (median(&mut their_times), median(&mut our_times));
    Ok(json!({
        "case": name,
        format!("{their_name} ms"): their_time,
        format!("{our_name} ms"): our_time,
        "times faster": their_time / our_time,
    }))
}

/// The most memory a command holds, in megabytes, where GNU time can tell.
fn peak_memory(command: &Command) -> Option<f64> {
    let mut timed = Command::new("/usr/bin/time");
    timed.args(["-f", "%M"]).arg(command.get_program()).args(command.get_args());
    let output = timed.stdin(Stdio::null()).output().ok()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    Some(said.trim().lines().last()?.trim().parse::<f64>().ok()? / 1024.0)
}

/// The time a command takes, which must succeed: a failure is soon over.
fn milliseconds(command: &mut Command) -> Result<f64> {
    command.stdout(Stdio::null()).stderr(Stdio::null()).stdin(Stdio::null());
    let started = Instant::now();
    let status = command.status()?;
    let elapsed = started.elapsed();
    if !status.success() {
        bail!("`{}` failed: {status}", shell::show(command));
    }
    Ok(elapsed.as_secs_f64() * 1000.0)
}

fn median(numbers: &mut [f64]) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied().unwrap_or(f64::NAN)
}

fn geometric_mean(numbers: &mut [f64]) -> f64 {
    (numbers.iter().map(|number| number.ln()).sum::<f64>() / numbers.len() as f64).exp()
}

/// Adds a row with the medians of the ratios and one with their geometric means.
fn with_middles(mut rows: Vec<Value>) -> Vec<Value> {
    let middles = [("median", median as fn(&mut [f64]) -> f64), ("geometric mean", geometric_mean)];
    let cases = rows.clone();
    for (name, middle) in middles {
        let Some(mut last) = cases.last().cloned() else { break };
        for (key, value) in last.as_object_mut().into_iter().flatten() {
            let mut ratios: Vec<f64> = cases.iter().filter_map(|row| row[key.as_str()].as_f64()).collect();
            *value = match key.as_str() {
                "case" => json!(name),
                "times faster" | "of its memory" if !ratios.is_empty() => json!(middle(&mut ratios)),
                _ => Value::Null,
            };
        }
        rows.push(last);
    }
    rows
}

/// Prints rows of flat JSON objects as a table whose heads are the first row's keys.
fn print_table(name: &str, rows: &[Value]) {
    let empty = json!({});
    let first = rows.first().unwrap_or(&empty);
    let heads: Vec<String> = first.as_object().map(|row| row.keys().cloned().collect()).unwrap_or_default();
    let cell = |row: &Value, head: &str| match &row[head] {
        Value::String(text) => text.clone(),
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() => format!("{float:.2}"),
            _ => number.to_string(),
        },
        Value::Null => String::new(),
        other => other.to_string(),
    };
    let mut table = vec![heads.clone()];
    table.extend(rows.iter().map(|row| heads.iter().map(|head| cell(row, head)).collect()));
    let width = |column: usize| table.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..heads.len()).map(width).collect();
    println!("\n{name}");
    for row in &table {
        let line: Vec<String> =
            row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        println!("  {}", line.join("  ").trim_end());
    }
}
