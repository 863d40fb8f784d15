//! The commands of promotion, on the embedded cluster: what they say, what they refuse, and how they end.

use std::path::PathBuf;

use crate::sandbox::Down;
use crate::support::{Place, Ran};

fn repository(path: &str) -> String {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.join(path).canonicalize().expect("is there").display().to_string()
}

const CONFIG: &str = "app: my-app
image: ghcr.io/myorg/my-app
git:
  url: https://github.com/myorg/gitops-repo
  secret: github-token
environments: [dev, staging, prod]
prodApproval: pr-review
";

/// Times, ages and names made from them, told alike in every run.
fn still(text: &str) -> String {
    let rules = [
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "TIME"),
        (r"-\d{10}\b", "-UNIX"),
        (r"\b\d+(s|m|m \d+s)\b", "AGE"),
        (r"[ ]{2,}", "  "),
    ];
    rules.iter().fold(text.to_owned(), |text, (pattern, word)| {
        regex::Regex::new(pattern).expect("a pattern").replace_all(&text, *word).into_owned()
    })
}

struct Cluster(Place);

impl Cluster {
    fn run(&self, line: &str) -> Ran {
        let words: Vec<&str> = line.split(' ').map(|word| word.trim_matches('\'')).collect();
        self.0.run(&[&["--sandbox"], &words[..]].concat())
    }

    /// What a command prints and how it ends.
    fn told(&self, line: &str) -> String {
        let ran = self.run(line);
        still(&format!("$ slipway {line}\n{}{}[exit {}]\n\n", ran.out, ran.err, ran.code.unwrap_or(-1)))
    }
}

#[test]
fn every_command_tells_what_the_guide_says() {
    let place = Place::new();
    place.write("my-app.yaml", CONFIG);
    let example = std::fs::read_to_string(repository("examples/promotion/pipeline.yaml")).unwrap();
    let (_, gates) = example.split_once("---").expect("has gates");
    let namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: platform-policies}\n";
    place.write("policies/gates.yaml", format!("{namespace}---{gates}"));
    let cluster = Cluster(place);
    let _down = Down(&cluster.0);
    let before = cluster.run("pipeline list");
    assert_eq!(before.code, Some(1), "{}", before.err);
    assert!(before.err.contains("the cluster serves no Pipeline"), "{}", before.err);
    cluster.run(&format!("apply definitions {}", repository("deploy/crds"))).ok();
    cluster.run("apply policies policies").ok();
    let mut said = String::new();
    for line in [
        "pipeline list",
        "pipeline init -f my-app.yaml",
        "pipeline init -f my-app.yaml",
        "pipeline list",
        "pipeline show my-app",
        "pipeline graph my-app --format mermaid",
        "bundle create my-app --image ghcr.io/myorg/my-app:1.29.0 --dry-run",
        "bundle create my-app --image ghcr.io/myorg/my-app:1.29.0 --name my-app-1 --commit abc123d --author alice",
        "bundle create my-app --image ghcr.io/myorg/my-app:1.30.0 --name my-app-2 --target prd",
        "bundle list my-app",
        "bundle show my-app-1",
        "bundle wait my-app-1 --timeout 0s",
        "pipeline explain my-app --env prod",
        "pipeline explain my-app --env prdo",
        "pipeline explain my-ap",
        "pipeline promote my-app --env prod",
        "pipeline rollback my-app --env prod",
        "pipeline retry my-app --env dev",
        "pipeline approve my-app --env prod",
        "pipeline pause my-app --reason incident",
        "pipeline pause my-app",
        "pipeline explain my-app --env dev",
        "gate list",
        "gate explain freeze-my-app",
        "gate simulate 2026-04-11T15:00:00Z --pipeline my-app --env prod --soak-minutes 60",
        "gate simulate --pipeline my-app --env prod --from-history 5",
        "gate override no-weekend-deploys --pipeline my-app --env prod --reason incident --expires-in 2h",
        "gate explain no-weekend-deploys",
        "gate override freeze-my-app --pipeline my-app --reason now",
        "pipeline resume my-app",
        "pipeline resume my-app",
        "pipeline history my-app",
        "bundle create my-app --image ghcr.io/myorg/my-app:1.30.0 --name my-app-2",
        "pipeline diff my-app my-app-1 my-app-2",
        "bundle delete my-app-2",
        "bundle delete my-app-2 --yes",
        "gate list -o json",
    ] {
        said.push_str(&cluster.told(line));
    }
    insta::assert_snapshot!(said);
}

#[test]
fn gates_are_tried_without_a_cluster() {
    let place = Place::new();
    place.write(
        "gates.yaml",
        std::fs::read_to_string(repository("examples/promotion/pipeline.yaml")).unwrap(),
    );
    place.write(
        "tests.yaml",
        "tests:\n- {name: Saturday, gate: no-weekend-deploys, time: Saturday 3pm, expect: pass}\n",
    );
    let mut said = String::new();
    for line in [
        &[
            "gate",
            "simulate",
            "2026-04-11T15:00:00Z",
            "-f",
            "gates.yaml",
            "--env",
            "prod",
            "--soak-minutes",
            "45",
        ][..],
        &[
            "gate",
            "simulate",
            "2026-04-13T10:00:00Z",
            "-f",
            "gates.yaml",
            "--env",
            "prod",
            "--soak-minutes",
            "45",
        ],
        &["gate", "simulate", "someday", "-f", "gates.yaml", "--env", "prod"],
        &["gate", "simulate", "-f", "gates.yaml", "--env", "prod", "--set", "bundle.colour=red"],
        &["gate", "test", "gates.yaml"],
        &["gate", "test", "gates.yaml", "tests.yaml"],
        &["pipeline", "validate", "-f", "gates.yaml"],
        &["bundle", "create", "my-app", "--image", "app", "--git-repo", "x", "--git-sha", "zz"],
        &[
            "pipeline",
            "rehearse",
            "-f",
            "gates.yaml",
            "--unhealthy",
            "stagin",
            "--pass-gate",
            "soak",
            "--image",
            "x",
        ],
    ] {
        let ran = place.run(line);
        said.push_str(&format!(
            "$ slipway {}\n{}{}[exit {}]\n\n",
            line.join(" "),
            ran.out,
            ran.err,
            ran.code.unwrap_or(-1)
        ));
    }
    insta::assert_snapshot!(said);
}

#[test]
fn wrong_files_end_with_10_and_every_line() {
    let place = Place::new();
    place.write("wrong.yaml", "apiVersion: kardinal.io/v1alpha1\nkind: PolicyGate\nmetadata: {name: g}\nspec:\n  expresion: 'true'\n");
    for line in [&["pipeline", "validate", "-f", "wrong.yaml"][..], &["gate", "test", "wrong.yaml"]] {
        let ran = place.run(line);
        assert_eq!(ran.code, Some(10), "{}", ran.err);
        assert!(ran.err.contains("wrong.yaml:5:3"), "{}", ran.err);
        assert!(ran.err.contains("did you mean `expression`?"), "{}", ran.err);
    }
    place.write("config.yaml", "app: My App\nenvironments: []\n");
    let ran = place.run(&["pipeline", "init", "-f", "config.yaml", "--stdout"]);
    assert_eq!(ran.code, Some(10), "{}", ran.err);
    let ran = place.run(&["pipeline", "init"]);
    assert_eq!(ran.code, Some(64), "{}", ran.err);
}

#[test]
fn a_rehearsal_that_runs_out_of_time_says_what_waits() {
    let place = Place::new();
    let ran =
        place.run(&["pipeline", "rehearse", "--at", "2026-04-10T16:00:00Z", "--limit", "1s", "-o", "json"]);
    assert_eq!(ran.code, Some(15), "{}", ran.err);
    let value: serde_json::Value = serde_json::from_str(&ran.out).expect("is JSON");
    assert_eq!(value["end"]["kind"], "waiting");
    assert_eq!(value["end"]["standing"]["result"]["kind"], "inProgress");
    assert_eq!(value["entries"][0]["event"], "bundleCreated");
}

#[test]
fn the_demonstration_promotes_and_is_steered_by_other_commands() {
    let place = Place::new();
    let _down = Down(&place);
    place.run(&["pipeline", "demo", "--detach"]).ok();
    let ran = place.run(&["--sandbox", "bundle", "list", "my-app", "-o", "json"]);
    let bundles: serde_json::Value = serde_json::from_str(&ran.ok()).expect("is JSON");
    let name = bundles[0]["name"].as_str().expect("has a name").to_owned();
    place.run(&["--sandbox", "bundle", "wait", &name, "--env", "staging", "--timeout", "120s"]).ok();
    let explained = place.run(&["--sandbox", "pipeline", "explain", "my-app", "--env", "prod"]);
    assert_eq!(explained.code, Some(15), "{}{}", explained.out, explained.err);
    assert!(explained.out.contains("RESULT: BLOCKED by staging-soak"), "{}", explained.out);
}
