//! Whole stacks on the embedded cluster.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::charts::{self, Store};
use crate::sandbox::Down;
use crate::support::{Place, plain_git};

const CHART: &str = "apiVersion: v2\nname: small\nversion: 0.1.0\n";
const TEMPLATE: &str = "\
apiVersion: v1
kind: ConfigMap
metadata: {name: '{{ .Release.Name }}'}
data: {size: '{{ .Values.size }}'}
";

fn place() -> Place {
    let place = Place::new();
    place.write("charts/small/Chart.yaml", CHART).write("charts/small/values.yaml", "size: 1\n");
    place.write("charts/small/templates/map.yaml", TEMPLATE);
    place.write("charts/broken/Chart.yaml", CHART.replace("small", "broken"));
    place.write("charts/broken/templates/map.yaml", "{{ required \"size is needed\" .Values.size }}\n");
    place.write(
        "stack.yaml",
        "apiVersion: ktl.dev/v1\nkind: Stack\nname: demo\n\
         defaults: {cluster: {name: local}, namespace: demo, apply: {createNamespace: true}}\n\
         releases:\n- {name: base, chart: ./charts/small}\n- {name: shop, chart: ./charts/broken, needs: [base]}\n\
         - {name: tail, chart: ./charts/small, needs: [shop]}\n",
    );
    place
}

fn up(place: &Place, speed: &str) {
    let up = place.run(&["sandbox", "up", "--detach", "--speed", speed, "--data-dir", "data"]);
    assert_eq!(up.code, Some(0), "{}", up.err);
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn summary(place: &Place) -> Value {
    json(&place.run(&["stack", "status", "-o", "json"]).ok())
}

/// The log of the only run.
fn log(place: &Place) -> String {
    let runs = fs::read_dir(place.path().join(".slipway/stack/runs"));
    let run = runs.ok().and_then(|mut runs| runs.next()?.ok()).map(|run| run.path().join("events.jsonl"));
    run.and_then(|path| fs::read_to_string(path).ok()).unwrap_or_default()
}

/// Looks until something is so.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(120), "{what} did not come");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn spawn(place: &Place, args: &[&str]) -> Child {
    let mut command = place.command(args);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

fn signal(child: &Child, name: &str) {
    let done = Command::new("kill").arg(format!("-{name}")).arg(child.id().to_string()).status().unwrap();
    assert!(done.success());
}

#[test]
fn a_failed_run_is_resumed_and_a_done_one_writes_nothing() {
    let place = place();
    let _down = Down(&place);
    up(&place, "max");

    let ran = place.run(&["stack", "apply", "--sandbox", "-q"]);
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    assert!(ran.err.contains("resume with: slipway stack apply --resume --run-id "), "{}", ran.err);
    let status = summary(&place);
    let state = |status: &Value, name: &str| status["nodes"][format!("local/demo/{name}")]["status"].clone();
    assert_eq!(
        (state(&status, "base"), state(&status, "shop")),
        ("succeeded".into(), "failed".into()),
        "{status:#}"
    );
    let error = status["nodes"]["local/demo/shop"]["lastError"].as_str().unwrap_or_default().to_owned();
    assert!(error.contains("size is needed"), "{error}");
    assert_eq!(place.run(&["stack", "status", "--follow"]).code, Some(1), "S-36: as the run ended");

    // The chart is mended: its inputs are not those of the run, which is said before anything happens.
    place.write("charts/broken/templates/map.yaml", TEMPLATE);
    let ran = place.run(&["stack", "apply", "--sandbox", "-q", "--resume"]);
    assert_eq!(ran.code, Some(12), "{}", ran.err);
    // S-32: planning what is left writes nothing.
    let ran = place.run(&["stack", "apply", "--sandbox", "--resume", "--allow-drift", "--plan-only"]);
    assert!(
        ran.code == Some(0) && ran.out.contains("local/demo/shop") && !ran.out.contains("local/demo/base"),
        "{ran:?}"
    );
    assert_eq!(state(&summary(&place), "shop"), "failed");
    let ran = place.run(&["stack", "apply", "--sandbox", "--resume", "--allow-drift"]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    for line in ["[local/demo/shop] ok", "[local/demo/tail] ok"] {
        assert!(ran.err.lines().any(|said| said.starts_with(line)), "{line} is not in {}", ran.err);
    }
    assert!(ran.out.starts_with("ID "), "one table: {}", ran.out);
    assert_eq!(state(&summary(&place), "tail"), "succeeded");

    let ran = place.run(&["stack", "apply", "--sandbox", "-q", "-o", "json"]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let lines: Vec<Value> = ran.out.lines().map(json).collect();
    assert_eq!(
        (&lines[0]["type"], &lines[lines.len() - 1]["type"]),
        (&"RUN_STARTED".into(), &"SUMMARY".into())
    );
    let status = summary(&place);
    for name in ["base", "shop", "tail"] {
        let node = &status["nodes"][format!("local/demo/{name}")];
        assert_eq!((&node["changed"], &node["revision"]), (&false.into(), &1.into()), "{node}");
    }
    let pruned = place.run(&["stack", "runs", "prune", "--keep", "0"]).ok();
    assert!(pruned.ends_with("removed 1 run\n"), "{pruned}");
    assert_eq!(json(&place.run(&["stack", "runs", "-o", "json"]).ok()).as_array().map(Vec::len), Some(1));

    assert_eq!(place.run(&["stack", "delete", "--sandbox", "-q"]).code, Some(14), "nobody is there to agree");
    let ran = place.run(&["stack", "delete", "--sandbox", "-q", "--yes"]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let left = place.run(&["list", "-A", "--sandbox", "-o", "json"]).ok();
    assert_eq!(json(&left), Value::Array(Vec::new()));
}

#[test]
fn plans_look_at_the_cluster_and_rehearsals_come_first() {
    let place = place();
    let _down = Down(&place);
    up(&place, "max");
    // What fails in the rehearsal is told at once, and nothing was written.
    let ran = place.run(&["stack", "apply", "--sandbox", "--rehearse"]);
    assert!(ran.code == Some(1) && ran.err.contains("the rehearsal failed; nothing was changed"), "{ran:?}");
    assert!(ran.err.contains("local/demo/shop: ") && ran.err.contains("size is needed"), "{}", ran.err);
    assert_eq!(json(&place.run(&["list", "-A", "--sandbox", "-o", "json"]).ok()), Value::Array(Vec::new()));
    assert_eq!(place.run(&["stack", "runs", "-o", "json"]).ok(), "[]\n");

    let ran = place.run(&["stack", "plan", "--sandbox", "--diff"]);
    assert_eq!(ran.code, Some(1), "one cannot be told: {}", ran.out);
    assert!(
        ran.out.contains("local/demo/base   2 to create\n    create Namespace/demo\n")
            && ran.out.contains("    create ConfigMap/base\n"),
        "{}",
        ran.out
    );
    assert!(ran.out.contains("local/demo/shop   cannot tell:"), "{}", ran.out);
    place.write("charts/broken/templates/map.yaml", TEMPLATE);
    let ran = place.run(&["stack", "plan", "--sandbox", "--diff", "--detailed-exitcode", "-o", "json"]);
    assert_eq!((ran.code, &json(&ran.out)["changes"][0]["create"]), (Some(2), &2.into()));
    let ran = place.run(&["stack", "apply", "--sandbox", "--rehearse", "-q"]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(ran.err.contains("rehearsed 3 releases on a copy of "), "{}", ran.err);
    let ran = place.run(&["stack", "plan", "--sandbox", "--diff", "--verify", "--detailed-exitcode"]);
    assert_eq!(ran.code, Some(0), "{}", ran.out);
    assert!(
        ran.out.contains("local/demo/tail   nothing to do")
            && ran.out.contains("local/demo/tail   as applied"),
        "{}",
        ran.out
    );

    // Somebody changes an object behind our back.
    let saved = place.run(&["sandbox", "save", "-"]).ok();
    let ours =
        |line: &str| line.contains("\"resource\":\"configmaps\"") && line.contains("\"name\":\"tail\"");
    let changed: String = saved
        .lines()
        .map(|line| if ours(line) { line.replace("\"size\":\"1\"", "\"size\":\"9\"") } else { line.to_owned() } + "\n")
        .collect();
    assert_ne!(saved, changed);
    place.write("changed", changed);
    assert_eq!(place.run(&["sandbox", "load", "changed"]).code, Some(0));
    let ran = place.run(&["stack", "plan", "--sandbox", "--verify", "--detailed-exitcode"]);
    assert_eq!(ran.code, Some(2), "{}", ran.out);
    assert!(ran.out.contains("local/demo/tail   1 object changed since"), "{}", ran.out);
    assert!(ran.out.contains("local/demo/base   as applied"), "{}", ran.out);
}

#[test]
fn charts_of_repositories_are_releases_too() {
    let place = place();
    place.run(&["chart", "package", "charts/small", "-d", "packed"]).ok();
    place.run(&["repo", "index", "packed"]).ok();
    let store = Store::default();
    for name in ["index.yaml", "small-0.1.0.tgz"] {
        let bytes = fs::read(place.path().join("packed").join(name)).unwrap();
        store.lock().unwrap().insert(format!("/charts/{name}"), bytes);
    }
    let host = charts::serve(&store);
    place.run(&["repo", "add", "loc", &format!("http://{host}/charts")]).ok();
    place.write(
        "stack.yaml",
        format!(
            "name: far\nreleases:\n- {{name: one, chart: loc/small, chartVersion: ^0.1.0}}\n\
             - {{name: two, chart: 'http://{host}/charts/small-0.1.0.tgz'}}\n- {{name: gone, chart: loc/nothing}}\n"
        ),
    );
    let _down = Down(&place);
    up(&place, "max");
    let offline = place.run(&["stack", "plan"]).ok();
    assert!(offline.contains("loc/small"), "{offline}");
    let ran = place.run(&["stack", "apply", "--sandbox", "-q"]);
    assert!(ran.code == Some(10) && ran.err.contains("cannot fetch the chart loc/nothing"), "{}", ran.err);
    let ran = place.run(&["stack", "apply", "--sandbox", "-q", "--release", "one,two"]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let kept = fs::read_dir(place.path().join(".slipway/cache/charts/sha256")).unwrap().count();
    assert_eq!(kept, 1, "both are the same bytes");
}

/// The layout and the commands of the roadmap, word for word.
#[test]
fn the_seeds_example_works_as_written() {
    let place = Place::new();
    place.write(
        "stack.yaml",
        "apiVersion: ktl.dev/v1\nkind: Stack\nname: roedk2\n\ndefaultProfile: dev\n\ndefaults:\n  cluster:\n    name: roedk2\n    \
         kubeconfig: ~/.kube/roedk2.yaml\n    context: roedk2\n  namespace: roedk-2\n  \
         apply: { atomic: true, timeout: 10m, wait: true }\n  delete: { timeout: 10m }\n",
    );
    let mut services = String::from("defaults:\n  tags: [svc]\n\nreleases:\n");
    for (name, needs, tag) in [
        ("postgresql", "", "db"),
        ("redis", "", "cache"),
        ("minio", "", "storage"),
        ("keycloak", "    needs: [postgresql]\n", "auth"),
        ("pgadmin", "    needs: [postgresql]\n", "ops"),
    ] {
        services += &format!(
            "  - name: {name}\n    chart: ./{name}\n    values: [values-dev.yaml]\n{needs}    tags: [{tag}]\n\n"
        );
        place.write(&format!("services/{name}/Chart.yaml"), CHART.replace("small", name));
        place.write(&format!("services/{name}/values-dev.yaml"), "size: 2\n");
        place.write(&format!("services/{name}/templates/map.yaml"), TEMPLATE);
    }
    place.write("services/stack.yaml", services);
    place.write(
        "helm-roedk/stack.yaml",
        "defaults:\n  tags: [app]\n\nreleases:\n  - name: roedk\n    chart: .\n    values: [values-dev-roedk2.yaml]\n    \
         needs: [postgresql, redis, minio, keycloak]\n    tags: [bundle]\n",
    );
    place.write("helm-roedk/Chart.yaml", CHART.replace("small", "roedk"));
    place
        .write("helm-roedk/values-dev-roedk2.yaml", "size: 3\n")
        .write("helm-roedk/templates/map.yaml", TEMPLATE);
    place.write(".gitignore", "data/\n.kube/\n.slipway/\n.local/\n.cache/\n.config/\n");
    let _down = Down(&place);
    up(&place, "max");
    let kubeconfig = place.run(&["sandbox", "kubeconfig"]).ok();
    place.write(".kube/roedk2.yaml", kubeconfig.replace("slipway-sandbox", "roedk2"));
    let git = |args: &[&str]| {
        let identity = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"];
        let ran = plain_git().current_dir(place.path()).args(identity).args(args).output().unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    };
    git(&["init", "-q", "-b", "main"]);
    git(&["add", "-A"]);
    git(&["commit", "-q", "-m", "one"]);
    git(&["update-ref", "refs/remotes/origin/main", "HEAD"]);
    place.write("services/redis/values-dev.yaml", "size: 4\n");
    git(&["commit", "-q", "-a", "-m", "two"]);

    let results = |ran: &crate::support::Ran| -> Vec<(String, String)> {
        let cells = |line: &str| {
            let mut words = line.split_whitespace().map(str::to_owned);
            Some((words.next()?.strip_prefix("roedk2/roedk-2/")?.to_owned(), words.next()?))
        };
        ran.out.lines().filter_map(cells).collect()
    };
    let done = |names: &[&str]| -> Vec<(String, String)> {
        names.iter().map(|name| ((*name).to_owned(), "SUCCEEDED".to_owned())).collect()
    };
    for (line, code, expected) in [
        ("stack plan", 0, vec![]),
        ("stack graph", 0, vec![]),
        ("stack apply --from-path helm-roedk/ --plan-only", 0, vec![]),
        ("stack apply --from-path services/", 0, vec!["minio", "postgresql", "redis", "keycloak", "pgadmin"]),
        (
            "stack apply --from-path helm-roedk/ --git-include-deps",
            0,
            vec!["minio", "postgresql", "redis", "keycloak", "roedk"],
        ),
        ("stack apply", 0, vec!["minio", "postgresql", "redis", "keycloak", "pgadmin", "roedk"]),
        ("stack plan --git-range origin/main...HEAD --output table", 0, vec![]),
        ("stack apply --git-range origin/main...HEAD --concurrency 4", 0, vec!["redis"]),
        ("stack apply --tag db --tag cache --continue-on-error", 0, vec!["postgresql", "redis"]),
        ("stack apply --release redis,minio --cluster roedk2 --fail-fast", 0, vec!["minio", "redis"]),
        ("stack apply --resume", 10, vec![]),
        ("stack plan --output json", 0, vec![]),
        ("stack delete --plan-only", 0, vec![]),
        ("stack delete --from-path helm-roedk/ --yes", 0, vec!["roedk"]),
        ("stack delete --yes", 0, vec!["keycloak", "minio", "pgadmin", "redis", "postgresql", "roedk"]),
    ] {
        let ran = place.run(&line.split(' ').collect::<Vec<_>>());
        assert_eq!(ran.code, Some(code), "{line}: {}", ran.err);
        if !line.contains("plan") {
            let (mut found, mut expected) = (results(&ran), done(&expected));
            // Beside each other in any order; waves are tested where time stands still.
            found.sort_unstable();
            expected.sort_unstable();
            assert_eq!(found, expected, "{line}: {}", ran.out);
        }
        match line {
            "stack plan --git-range origin/main...HEAD --output table" => {
                assert!(ran.out.contains("explicit:git:services/redis/values-dev.yaml"), "{}", ran.out);
                assert!(ran.out.contains("SELECTED BY  explicit:git 1"), "{}", ran.out);
            }
            "stack apply" => {
                let last = place.path().join(".slipway/stack/roedk2/dev/last-run.json");
                assert_eq!(json(&fs::read_to_string(last).unwrap())["status"], "succeeded");
            }
            _ => {}
        }
    }
}

/// One run that is stopped, resumed, killed and resumed again, and everybody who watches it meanwhile.
///
/// Scenarios S-34, S-35, S-36, S-38 of the specification.
#[test]
fn stopped_and_killed_runs_go_on() {
    let place = Place::new();
    place.write("web/Chart.yaml", CHART.replace("small", "web"));
    place.write(
        "web/templates/web.yaml",
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  selector: {matchLabels: {app: web}}\n  \
         template:\n    metadata: {labels: {app: web}}\n    spec: {containers: [{name: web, image: nginx}]}\n",
    );
    place.write("small/Chart.yaml", CHART).write("small/templates/map.yaml", TEMPLATE);
    place.write(
        "stack.yaml",
        "name: demo\ndefaults: {namespace: demo, apply: {atomic: false, timeout: 5m}}\nreleases:\n\
         - {name: web, chart: ./web}\n- {name: tail, chart: ./small, needs: [web]}\n",
    );
    let _down = Down(&place);
    // Where time stands still nothing becomes ready: the run waits.
    up(&place, "manual");
    let started = |times: usize| log(&place).matches("\"NODE_RUNNING\"").count() >= times;
    let pending =
        || place.run(&["history", "web", "-n", "demo", "--sandbox", "-o", "json"]).out.contains("pending-");
    let mut first = spawn(&place, &["stack", "apply", "--sandbox"]);
    until("the start", || started(1));
    let mut follows = spawn(&place, &["stack", "status", "--follow"]);
    let ran = place.run(&["stack", "apply", "--sandbox"]);
    assert_eq!(ran.code, Some(13), "S-35: {}", ran.err);
    let owner = format!(":{}", first.id());
    assert!(
        ran.err.contains("stack \"demo\" (profile -) is in use by") && ran.err.contains(&owner),
        "{}",
        ran.err
    );
    assert_eq!(
        place.run(&["stack", "apply", "--sandbox", "--takeover"]).code,
        Some(13),
        "it was heard of just now"
    );
    until("a pending revision", pending);
    signal(&first, "INT");
    assert_eq!(first.wait().unwrap().code(), Some(130), "S-38");
    assert_eq!(follows.wait().unwrap().code(), Some(130), "S-36: as the run ended");
    assert_eq!(summary(&place)["status"], "canceled");

    let mut second = spawn(&place, &["stack", "apply", "--sandbox", "--resume"]);
    until("the second start", || started(2));
    until("a pending revision", pending);
    second.kill().unwrap();
    second.wait().unwrap();
    let runs = json(&place.run(&["stack", "runs", "-o", "json"]).ok());
    assert_eq!((runs.as_array().map(Vec::len), &runs[0]["status"]), (Some(1), &"interrupted".into()));
    let run = runs[0]["runId"].as_str().unwrap().to_owned();

    place.run(&["sandbox", "down"]).ok();
    up(&place, "max");
    let ran = place.run(&["stack", "apply", "--sandbox", "--resume"]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(ran.err.contains("took the lock from"), "S-35: {}", ran.err);
    assert!(log(&place).contains("NODE_RECOVERED"), "S-34: {}", log(&place));
    let history = json(&place.run(&["history", "web", "-n", "demo", "--sandbox", "-o", "json"]).ok());
    let text = history.to_string();
    assert!(
        text.contains(&run) && text.contains("\"deployed\"") && !text.contains("\"status\":\"pending-"),
        "S-34: {text}"
    );
    assert_eq!(summary(&place)["totals"]["succeeded"], 2);
    assert_eq!(place.run(&["stack", "status", "--follow"]).code, Some(0), "S-36");
}

/// Files may not grow: as on a full disk, writing the log fails.
///
/// Scenario S-39 of the specification.
#[test]
fn a_log_that_cannot_be_written_stops_the_run() {
    let place = Place::new();
    place.write("small/Chart.yaml", CHART).write("small/templates/map.yaml", TEMPLATE);
    place.write("loud/Chart.yaml", CHART.replace("small", "loud"));
    place.write("loud/templates/map.yaml", "{{ fail (repeat 30000 \"no \") }}\n");
    place.write(
        "stack.yaml",
        "name: demo\nreleases:\n- {name: a, chart: ./small}\n- {name: b, chart: ./loud}\n- {name: c, chart: ./loud}\n\
         - {name: d, chart: ./loud}\n- {name: e, chart: ./small}\n",
    );
    let _down = Down(&place);
    up(&place, "max");
    let slipway = place.command(&[]);
    let script = "trap '' XFSZ; ulimit -f 24; exec \"$0\" stack apply --sandbox -q --continue-on-error";
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(script).arg(slipway.get_program()).current_dir(place.path()).env_clear();
    shell.env("HOME", place.path()).env("PATH", std::env::var_os("PATH").unwrap_or_default());
    let ran = crate::support::Ran::from(shell.output().unwrap());
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    assert!(ran.err.contains("run log unwritable: ") && !ran.err.contains("panicked"), "{}", ran.err);
    let status = summary(&place);
    assert_eq!(status["nodes"]["default/default/a"]["status"], "succeeded", "{status:#}");
    assert_ne!(status["nodes"]["default/default/e"]["status"], "succeeded", "nothing more was started");
    // With room again it goes on.
    place.write("loud/templates/map.yaml", TEMPLATE);
    let ran = place.run(&["stack", "apply", "--sandbox", "-q", "--resume", "--allow-drift"]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert_eq!(summary(&place)["totals"]["succeeded"], 5);
}
