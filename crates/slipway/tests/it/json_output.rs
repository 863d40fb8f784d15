//! Data of every command with `-o json`, held against its definition in the schema, with the failure beside it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::charts::{Store, serve, with_repository};
use crate::failures::furnished;
use crate::sandbox::Down;
use crate::support::{Place, Ran, eventually};

/// A command that prints data: its definition, its words and its exit code. `{name}` stands for a variable of the place.
type Case = (&'static str, &'static str, i32);

const RELEASES: &[Case] = &[
    ("plan", "plan web web --sandbox -n shop", 0),
    ("plan", "plan web web --sandbox -n shop --exit-code", 2),
    ("apply", "apply web web --sandbox -n shop --dry-run", 0),
    ("plan", "plan web web --sandbox -n shop --policy policy.yaml", 15),
    ("apply", "apply web web --sandbox -n shop", 0),
    ("plan", "plan web web --sandbox -n shop --set a=1 --exit-code", 3),
    ("apply", "apply web secret --sandbox -n shop", 0),
    ("list", "list --sandbox -A", 0),
    ("history", "history web --sandbox -n shop", 0),
    ("status", "status web --sandbox -n shop --show-resources", 0),
    ("get-metadata", "get metadata web --sandbox -n shop", 0),
    ("get-values", "get values web --all --sandbox -n shop", 0),
    ("get-all", "get all web --sandbox -n shop", 0),
    ("diff", "diff web --sandbox -n shop", 0),
    ("diff", "diff web 1 2 --sandbox -n shop --exit-code", 2),
    ("rollback", "rollback web 1 --sandbox -n shop --dry-run", 0),
    ("rollback", "rollback web 1 --sandbox -n shop", 0),
    ("test", "test web --sandbox -n shop", 0),
    ("delete", "delete web --sandbox -n shop --dry-run", 0),
    ("delete", "delete web --sandbox -n shop", 0),
    ("apply", "apply pods pods --sandbox -n shop", 0),
    ("logs", "logs pods --sandbox -n shop", 0),
    ("lint", "lint web", 0),
    ("lint", "lint web broken missing", 10),
    ("render-explain", "render web web --explain ConfigMap/web:data.a", 0),
    ("config", "config", 0),
    ("config", "config --connect --sandbox", 0),
    ("graph", "graph waves.yaml", 0),
    ("graph", "graph waves.yaml --show json", 0),
];

const SANDBOX: &[Case] = &[
    ("sandbox-status", "sandbox status", 0),
    ("sandbox-up-detach", "sandbox up --detach --speed max", 0),
    ("sandbox-status", "sandbox status", 0),
    ("sandbox-clone", "sandbox clone --kubeconfig source --from-context slipway-sandbox", 0),
];

const CHARTS: &[Case] = &[
    ("chart-create", "chart create made", 0),
    ("chart-package", "chart package made --sign --key plain@example.com --keyring {keys}/secret.gpg", 0),
    ("chart-verify", "chart verify made-0.1.0.tgz --keyring {keys}/public.gpg", 0),
    ("repo-list", "repo list", 0),
    ("repo-add", "repo add loc http://{host}/charts", 0),
    ("repo-add", "repo add loc http://{host}/charts", 0),
    ("repo-list", "repo list", 0),
    ("repo-update", "repo update", 0),
    ("chart-search-repo", "chart search repo we", 0),
    ("chart-pull", "chart pull loc/web -d here", 0),
    ("chart-pull", "chart pull loc/web --untar -d here", 0),
    ("chart-deps-list", "chart deps list app", 0),
    ("chart-push", "chart push packed/web-1.2.3.tgz oci://{host}/team --plain-http", 0),
    ("chart-secret-key-rotate", "chart secret key rotate --chart web --old-secret-key {key}", 0),
    ("repo-remove", "repo remove loc", 0),
];

const PACKAGES: &[Case] = &[
    ("package-build", "package build {demo}", 0),
    ("package-validate", "package validate {demo}", 0),
    ("package-validate", "package validate wrong.kurel", 10),
    ("package-schema", "package schema {demo}", 0),
    ("package-schema-generate", "package schema generate {demo}", 0),
    ("package-info", "package info {demo}", 0),
    ("package-patches", "package patches {demo}", 0),
    ("package-patches-list", "package patches list {demo}", 0),
    ("package-patches-list", "package patches list {demo} --conflicts", 0),
    ("package-params", "package params {demo} --set replicas=4", 0),
    ("package-trace", "package trace {demo} --param replicas", 0),
    ("package-explain", "package explain {demo} Deployment/apps/demo.spec.replicas", 0),
    ("package-test", "package test {demo}", 0),
    ("package-test", "package test failing.kurel", 1),
    ("package-diff", "package diff {demo} --set replicas=5", 1),
];

const RUNBOOKS: &[Case] = &[
    ("run-validate", "run validate -f book.yaml", 0),
    ("run-validate", "run validate -f wrong.yaml", 64),
    ("run-schema", "run schema", 0),
    ("run-graph", "run graph -f book.yaml", 0),
    ("run-plan", "run plan --offline -f book.yaml", 0),
    ("run-plan", "run plan --sandbox -f book.yaml", 0),
    ("run-diff", "run diff --sandbox -f book.yaml --exit-code", 2),
    ("run-status", "run status --sandbox -f book.yaml", 0),
    ("run-apply", "run apply --sandbox -f book.yaml", 0),
    ("run-apply", "run apply --sandbox -f gate.yaml", 1),
    ("run-status", "run status --sandbox -f book.yaml", 0),
    ("run-destroy", "run destroy --sandbox --dry-run -f book.yaml", 0),
    ("run-destroy", "run destroy --sandbox --yes -f book.yaml", 0),
];

const STACKS: &[Case] = &[
    ("stack", "stack --root good", 0),
    ("stack-plan", "stack plan --root good", 0),
    ("stack-plan", "stack plan --root good --explain tail", 0),
    ("stack-plan", "stack plan --root good --sandbox --diff --verify --detailed-exitcode", 2),
    ("stack-plan", "stack plan --root bad --sandbox --diff", 1),
    ("stack-graph", "stack graph --root good", 0),
    ("stack-explain", "stack explain tail --root good", 0),
    ("stack-apply", "stack apply --root good --sandbox --yes", 0),
    ("stack-apply", "stack apply --root good --sandbox --yes --dry-run", 0),
    ("stack-apply", "stack apply --root bad --sandbox --yes", 1),
    ("stack-status", "stack status --root good --tail 2", 0),
    ("stack-status-follow", "stack status --root good --follow", 0),
    ("stack-runs", "stack runs --root good", 0),
    ("stack-delete", "stack delete --root good --sandbox --yes", 0),
    ("stack-runs-prune", "stack runs prune --root good --keep 1", 0),
];

const UNITS: &[Case] = &[
    (
        "unit-bundle",
        "unit bundle shop ./shop -n shop -f values.yaml --settings unit.yaml --image {image} -O one",
        0,
    ),
    ("unit-bundle", "unit bundle shop ./shop -n shop --settings unit.yaml --image {image} -O two", 0),
    ("unit-generate-key", "unit generate-key release.key", 0),
    ("unit-sign", "unit sign one --key release.key", 0),
    ("unit-diff", "unit diff one two", 0),
    ("unit-plan", "unit plan one --sandbox --to staging --exit-code", 2),
    ("unit-apply", "unit apply one --sandbox --to staging --soak 0s", 0),
    ("unit-apply", "unit apply one --sandbox --to staging --soak 0s", 0),
    ("unit-verify", "unit verify one --sandbox --to staging --soak 0s", 0),
    ("unit-promote", "unit promote one --sandbox --to prod --overlay prod.yaml --soak 0s", 0),
    ("unit-inspect", "unit inspect one", 0),
    ("unit-replay", "unit replay one", 0),
    ("unit-export", "unit export one --format flux --to-dir gitops", 0),
    ("unit-apply", "unit apply two --sandbox --to staging --soak 0s", 0),
    ("unit-rollback", "unit rollback two --sandbox --to staging", 0),
];

const ROLLOUTS: &[Case] = &[
    ("unit-apply", "unit apply one --to staging --overlay staging.yaml --sandbox --soak 0s", 0),
    ("unit-apply", "unit apply two --to staging --overlay staging.yaml --sandbox --soak 0s", 0),
    ("unit-abort", "unit abort two --to staging --overlay staging.yaml --sandbox", 0),
    ("unit-apply", "unit apply two --to staging --overlay staging.yaml --sandbox --soak 0s --force", 0),
    ("unit-resume", "unit resume two --to staging --overlay staging.yaml --sandbox --soak 0s", 0),
];

const TRANSFERS: &[Case] = &[
    ("unit-push", "unit push one oci://{host}/units/shop:1 --plain-http", 0),
    ("unit-pull", "unit pull oci://{host}/units/shop:1 --plain-http -O pulled", 0),
];

const SECRETS: &[Case] = &[
    ("secrets-discover", "secrets discover --scope app", 0),
    ("secrets-test", "secrets test --all --scope app", 0),
    ("secrets-list", "secrets list --provider local --path db", 0),
    ("secrets-login", "secrets login local", 0),
    ("secrets-logout", "secrets logout local", 0),
    ("secrets-policy-check", "secrets policy check --scope app", 0),
    ("secrets-audit", "secrets audit", 0),
];

const PROMOTION: &[Case] = &[
    ("gate-test", "gate test gates.yaml", 0),
    ("gate-test", "gate test gates.yaml tests.yaml", 1),
    ("gate-simulate", "gate simulate 2026-04-11T15:00:00Z -f gates.yaml --env prod --soak-minutes 45", 15),
    ("pipeline-validate", "pipeline validate -f gates.yaml", 0),
    ("pipeline-rehearse", "pipeline rehearse", 0),
    ("pipeline-rehearse", "pipeline rehearse -f gates.yaml --at 2026-04-11T15:00:00Z --limit 1h", 15),
    ("pipeline-init", "pipeline init -f my-app.yaml --stdout", 0),
    ("pipeline-init", "--sandbox pipeline init -f my-app.yaml", 0),
    ("pipeline-list", "--sandbox pipeline list", 0),
    ("pipeline-show", "--sandbox pipeline show my-app", 0),
    ("pipeline-graph", "--sandbox pipeline graph my-app", 0),
    ("bundle-create", "--sandbox bundle create my-app --image ghcr.io/myorg/my-app:1 --dry-run", 0),
    (
        "bundle-create",
        "--sandbox bundle create my-app --image ghcr.io/myorg/my-app:1 --name one --commit abc123d --author a",
        0,
    ),
    ("bundle-create", "--sandbox bundle create my-app --image ghcr.io/myorg/my-app:2 --name two", 0),
    ("bundle-list", "--sandbox bundle list my-app", 0),
    ("bundle-show", "--sandbox bundle show one", 0),
    ("bundle-wait", "--sandbox bundle wait one --timeout 0s", 15),
    ("pipeline-explain", "--sandbox pipeline explain my-app", 15),
    ("pipeline-explain", "--sandbox pipeline explain my-app --env prod", 15),
    ("pipeline-pause", "--sandbox pipeline pause my-app --reason incident", 0),
    ("gate-list", "--sandbox gate list", 0),
    ("gate-explain", "--sandbox gate explain freeze-my-app", 0),
    ("gate-simulate", "--sandbox gate simulate --pipeline my-app --env prod --from-history 5", 0),
    (
        "gate-override",
        "--sandbox gate override no-weekend-deploys --pipeline my-app --env prod --reason now",
        0,
    ),
    ("pipeline-resume", "--sandbox pipeline resume my-app", 0),
    ("pipeline-history", "--sandbox pipeline history my-app", 0),
    ("pipeline-diff", "--sandbox pipeline diff my-app one two", 0),
    ("bundle-delete", "--sandbox bundle delete two --yes", 0),
];

const DEMONSTRATION: &[Case] = &[
    ("bundle-wait", "--sandbox bundle wait {bundle} --env staging --timeout 120s", 0),
    ("bundle-show", "--sandbox bundle show {bundle}", 0),
    ("pipeline-history", "--sandbox pipeline history my-app", 0),
    ("pipeline-show", "--sandbox pipeline show my-app", 0),
    ("pipeline-graph", "--sandbox pipeline graph my-app --bundle {bundle}", 0),
    ("pipeline-promote", "--sandbox pipeline promote my-app --env staging", 0),
    ("bundle-create", "--sandbox bundle create my-app --image ghcr.io/example/my-app:1.2.0 --name second", 0),
    ("bundle-wait", "--sandbox bundle wait second --env dev --timeout 120s", 0),
    ("pipeline-rollback", "--sandbox pipeline rollback my-app --env dev", 0),
    ("pipeline-approve", "--sandbox pipeline approve my-app --env prod", 0),
    ("audit-summary", "--sandbox audit summary", 0),
    ("audit-verify", "--sandbox audit verify", 0),
    ("audit-timeline", "--sandbox audit timeline", 0),
];

const CONTROLLER: &[Case] = &[
    ("controller-install", "controller install --sandbox -n kardinal-system --dry-run", 0),
    ("controller-install", "controller install --sandbox -n kardinal-system --no-wait", 0),
    ("doctor", "doctor --sandbox -n kardinal-system --all", 1),
    ("controller-uninstall", "controller uninstall --sandbox -n kardinal-system", 0),
];

const LEDGERS: &[Case] = &[("unit-merge-ledger", "unit merge-ledger one {ledger}", 0)];

const FAILED_STEPS: &[Case] = &[("pipeline-retry", "--sandbox pipeline retry my-app --env dev", 0)];

/// The schemas of data and of failures.
struct Checker {
    data: Value,
    failure: Value,
}

impl Checker {
    fn new(place: &Place) -> Self {
        let read = |page: &str| serde_json::from_str(&place.run(&["reference", page]).ok()).unwrap();
        Self { data: read("output-schema"), failure: read("failure-schema") }
    }

    fn validate(schema: &Value, pointer: &str, value: &Value) -> Result<(), String> {
        let mut compiler = boon::Compiler::new();
        compiler.add_resource("schema.json", schema.clone()).unwrap();
        let mut schemas = boon::Schemas::new();
        let compiled = compiler.compile(&format!("schema.json#{pointer}"), &mut schemas).unwrap();
        schemas.validate(value, compiled).map_err(|error| format!("{error:#}"))
    }

    /// Says what is wrong with the failure of a command.
    fn failure_fault(&self, ran: &Ran) -> Option<String> {
        let line = ran.err.lines().last().unwrap_or_default();
        let Ok(object) = serde_json::from_str::<Value>(line) else {
            return Some(format!("no object at the end of\n{}", ran.err));
        };
        if object["error"]["exitCode"].as_i64() != ran.code.map(i64::from) {
            return Some(format!("another code: {object}"));
        }
        Self::validate(&self.failure, "", &object).err()
    }

    /// Says what is wrong with a command that should print data.
    fn fault(&self, definition: &str, ran: &Ran, code: i32) -> Option<String> {
        if ran.code != Some(code) {
            return Some(format!("ended with {:?}\n{}{}", ran.code, ran.out, ran.err));
        }
        let about = self.data["$defs"][definition]["description"].as_str().unwrap_or_default();
        let documents: Result<Vec<Value>, _> = match about.starts_with("One line") {
            // A plan is one document of many lines.
            true if !ran.out.starts_with("{\n") => ran.out.lines().map(serde_json::from_str).collect(),
            _ => serde_json::from_str(&ran.out).map(|document| vec![document]),
        };
        let documents = match documents {
            Ok(documents) if !documents.is_empty() => documents,
            Ok(_) => return Some(format!("printed nothing\n{}", ran.err)),
            Err(error) => return Some(format!("printed no JSON: {error}\n{}{}", ran.out, ran.err)),
        };
        let pointer = format!("/$defs/{definition}");
        let wrong = documents.iter().find_map(|document| {
            let error = Self::validate(&self.data, &pointer, document).err()?;
            Some(format!("breaks its schema: {error}\n{document:#}"))
        });
        match code {
            0 | 2 | 3 => wrong,
            _ => wrong.or_else(|| self.failure_fault(ran)),
        }
    }
}

/// Runs commands one after the other and fails with everything that is wrong.
fn check(place: &Place, cases: &[Case], variables: &[(&str, &str)]) {
    let checker = Checker::new(place);
    let mut wrong = Vec::new();
    for (definition, line, code) in cases {
        let words: Vec<String> = line
            .split(' ')
            .map(|word| {
                variables
                    .iter()
                    .fold(word.to_owned(), |word, (name, value)| word.replace(&format!("{{{name}}}"), value))
            })
            .collect();
        let mut words: Vec<&str> = words.iter().map(String::as_str).collect();
        words.extend(["-o", "json"]);
        let ran = place.run(&words);
        if let Some(fault) = checker.fault(definition, &ran, *code) {
            wrong.push(format!("{line}: {fault}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {} are wrong:\n{}", wrong.len(), cases.len(), wrong.join("\n\n"));
}

fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path).canonicalize().unwrap()
}

#[test]
fn every_command_with_data_is_tried() {
    let checker = Checker::new(&Place::new());
    let definitions = checker.data["$defs"].as_object().unwrap();
    let is_command =
        |schema: &Value| schema["title"].as_str().is_some_and(|title| title.starts_with("slipway "));
    let known: BTreeSet<&str> =
        definitions.iter().filter(|(_, schema)| is_command(schema)).map(|(name, _)| name.as_str()).collect();
    let all = [
        RELEASES,
        SANDBOX,
        CHARTS,
        PACKAGES,
        RUNBOOKS,
        STACKS,
        UNITS,
        ROLLOUTS,
        TRANSFERS,
        SECRETS,
        PROMOTION,
        DEMONSTRATION,
        CONTROLLER,
        LEDGERS,
        FAILED_STEPS,
    ];
    let tried: BTreeSet<&str> = all.into_iter().flatten().map(|(definition, ..)| *definition).collect();
    assert_eq!(known.difference(&tried).collect::<Vec<_>>(), Vec::<&&str>::new(), "are never run");
    assert_eq!(tried.difference(&known).collect::<Vec<_>>(), Vec::<&&str>::new(), "are no definitions");
}

#[test]
fn data_of_releases_keeps_to_its_schema() {
    let place = furnished();
    place.write("waves.yaml", "nodes:\n  a: {}\n  b: {needs: [a]}\n");
    place.write("pods/Chart.yaml", "apiVersion: v2\nname: pods\nversion: 1.0.0\n");
    place.write(
        "pods/templates/a.yaml",
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: pods}\nspec:\n  selector: {matchLabels: {app: pods}}\n  \
         template:\n    metadata: {labels: {app: pods}, annotations: {sim/logs: hello}}\n    \
         spec: {containers: [{name: pods, image: nginx:1}]}\n",
    );
    check(&place, RELEASES, &[]);
}

#[test]
fn data_of_the_sandbox_keeps_to_its_schema() {
    let (source, place) = (Place::new(), Place::new());
    let (_one, _two) = (Down(&source), Down(&place));
    let kubeconfig = place.path().join("source").display().to_string();
    source.run(&["sandbox", "up", "--detach", "--speed", "max", "--write-kubeconfig", &kubeconfig]).ok();
    check(&place, SANDBOX, &[]);
}

#[test]
fn data_of_charts_keeps_to_its_schema() {
    let (place, _store, host) = with_repository();
    let keys = repository("crates/chart/tests/provenance").display().to_string();
    place.write("app/Chart.yaml", "apiVersion: v2\nname: app\nversion: 0.1.0\ndependencies:\n- {name: web, version: 1.x.x, repository: \"file://../web\"}\n");
    place.run(&["chart", "registry", "login", &host, "-u", "u", "-p", "p", "--plain-http"]).ok();
    let key = place.run(&["chart", "secret", "key", "create"]).ok();
    place.write(".werf_secret_key", &key).write("values.txt", "a: secret\n");
    let encrypt =
        ["chart", "secret", "values", "encrypt", "values.txt", "--save-output-to", "web/secret-values.yaml"];
    place.run(&encrypt).ok();
    place.write(".werf_secret_key", place.run(&["chart", "secret", "key", "create"]).ok());
    check(&place, CHARTS, &[("host", &host), ("keys", &keys), ("key", key.trim())]);
}

#[test]
fn data_of_packages_keeps_to_its_schema() {
    let place = Place::new();
    for (name, expected) in [("failing", "ho"), ("wrong", "hi")] {
        let meta = "kurel: {name: p, version: 1.0.0, appVersion: \"1\"}\ngreeting: hi\n";
        place.write(&format!("{name}.kurel/parameters.yaml"), meta);
        let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\n";
        place.write(&format!("{name}.kurel/resources/web.yaml"), map);
        place.write(
            &format!("{name}.kurel/patches/00.kpatch"),
            "[configmap.web]\ndata.greeting: \"${greeting}\"\n",
        );
        let case = format!(
            "name: fields\nexpect: {{count: 1, fields: {{\"ConfigMap/web data\": {{greeting: {expected}}}}}}}\n"
        );
        place.write(&format!("{name}.kurel/tests/fields.yaml"), case);
    }
    place.write("wrong.kurel/patches/00.kpatch", "[configmap.web]\ndata.greeting: \"${nothing}\"\n");
    let demo = repository("examples/packages/demo.kurel").display().to_string();
    check(&place, PACKAGES, &[("demo", &demo)]);
}

#[test]
fn data_of_runbooks_keeps_to_its_schema() {
    let place = Place::new();
    place.run(&["sandbox", "up", "--detach", "--speed", "max"]).ok();
    let _down = Down(&place);
    let head = |name: &str| {
        format!("apiVersion: khook.io/v1\nkind: Khook\nmetadata: {{name: {name}}}\nstate: {{}}\nsteps:\n")
    };
    let maps =
        "  - {name: maps, apply: {namespace: shop, createNamespace: true, manifests: [{file: maps.yaml}]}}\n";
    let gate = "  - {name: gate, timeout: 1s, wait: {for: 'jsonpath={.metadata.uid}', on: configmap/gate, namespace: shop}}\n";
    place.write("maps.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one}\n");
    place.write("book.yaml", head("book") + maps).write("gate.yaml", head("gate") + gate);
    place.write(
        "wrong.yaml",
        "apiVersion: khook.io/v1\nkind: Khoook\nmetadata: {name: x}\nsteps: [{name: a}]\n",
    );
    check(&place, RUNBOOKS, &[]);
}

#[test]
fn data_of_stacks_keeps_to_its_schema() {
    let place = Place::new();
    place.run(&["sandbox", "up", "--detach", "--speed", "max"]).ok();
    let _down = Down(&place);
    for (root, template) in [
        ("good", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '{{ .Release.Name }}'}\n"),
        ("bad", "{{ fail \"no\" }}\n"),
    ] {
        place.write(
            &format!("{root}/charts/small/Chart.yaml"),
            "apiVersion: v2\nname: small\nversion: 0.1.0\n",
        );
        place.write(&format!("{root}/charts/small/templates/map.yaml"), template);
        place.write(
            &format!("{root}/stack.yaml"),
            format!("name: {root}\ndefaults: {{namespace: {root}, apply: {{createNamespace: true}}}}\nreleases:\n- {{name: base, chart: ./charts/small}}\n- {{name: tail, chart: ./charts/small, needs: [base]}}\n"),
        );
    }
    check(&place, STACKS, &[]);
}

const IMAGE: &str =
    "shop=ghcr.io/acme/shop:1@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

/// A place with a sandbox and the files of `examples/units`.
fn units() -> Place {
    let place = Place::new();
    place.copy_from(&repository("examples/units"));
    place.run(&["sandbox", "up", "--detach", "--speed", "max"]).ok();
    place
}

#[test]
fn data_of_units_keeps_to_its_schema() {
    let place = units();
    let _down = Down(&place);
    check(&place, UNITS, &[("image", IMAGE)]);
}

#[test]
fn data_of_rollouts_keeps_to_its_schema() {
    let place = units();
    let _down = Down(&place);
    for (file, image) in
        [("one", IMAGE.to_owned()), ("two", IMAGE.replace("shop:1@sha256:a", "shop:2@sha256:b"))]
    {
        let words = [
            "unit",
            "bundle",
            "shop",
            "./shop",
            "-n",
            "shop",
            "-f",
            "values.yaml",
            "--settings",
            "canary.yaml",
        ];
        place.run(&[&words[..], &["-O", file, "--image", &image]].concat()).ok();
    }
    check(&place, ROLLOUTS, &[]);
}

#[test]
fn data_of_transfers_keeps_to_its_schema() {
    let place = Place::new();
    place.copy_from(&repository("examples/units"));
    let host = serve(&Store::default());
    place.run(&["chart", "registry", "login", &host, "-u", "u", "-p", "p", "--plain-http"]).ok();
    place.run(&["unit", "bundle", "shop", "./shop", "-n", "shop", "-O", "one", "--image", IMAGE]).ok();
    check(&place, TRANSFERS, &[("host", &host)]);
}

#[test]
fn data_of_secrets_keeps_to_its_schema() {
    let place = Place::new();
    place.write(
        "slipway.yaml",
        "secrets:\n  defaultProvider: local\n  audit: {file: .slipway/audit.jsonl}\n  providers:\n    \
         local: {type: file, path: dev.yaml}\n",
    );
    place.write("dev.yaml", "db: {password: hunter2hunter2, user: app-user}\n");
    place
        .write("app/values.yaml", "db:\n  password: secret://local/db#password\n  user: secret:///db#user\n");
    check(&place, SECRETS, &[]);
}

#[test]
fn data_of_promotion_keeps_to_its_schema() {
    let place = Place::new();
    let _down = Down(&place);
    place.write("my-app.yaml", "app: my-app\nimage: ghcr.io/myorg/my-app\ngit:\n  url: https://github.com/myorg/gitops-repo\n  secret: github-token\nenvironments: [dev, staging, prod]\n");
    let example = fs::read_to_string(repository("examples/promotion/pipeline.yaml")).unwrap();
    let (_, gates) = example.split_once("---").unwrap();
    place.write(
        "policies/gates.yaml",
        format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: platform-policies}}\n---{gates}"),
    );
    place.write("gates.yaml", &example);
    place.write(
        "tests.yaml",
        "tests:\n- {name: Saturday, gate: no-weekend-deploys, time: Saturday 3pm, expect: pass}\n",
    );
    let definitions = repository("deploy/crds").display().to_string();
    place.run(&["--sandbox", "apply", "definitions", &definitions]).ok();
    place.run(&["--sandbox", "apply", "policies", "policies"]).ok();
    check(&place, PROMOTION, &[]);
}

#[test]
fn data_of_a_pipeline_that_promotes_keeps_to_its_schema() {
    let place = Place::new();
    let _down = Down(&place);
    place.run(&["pipeline", "demo", "--detach"]).ok();
    let bundles = place.run(&["--sandbox", "bundle", "list", "my-app", "-o", "json"]).ok();
    let bundles: Value = serde_json::from_str(&bundles).unwrap();
    check(&place, DEMONSTRATION, &[("bundle", bundles[0]["name"].as_str().unwrap())]);
}

#[test]
fn data_of_ledgers_keeps_to_its_schema() {
    let place = units();
    let _down = Down(&place);
    place.run(&["unit", "bundle", "shop", "./shop", "-n", "shop", "-O", "one", "--image", IMAGE]).ok();
    let unit = place.path().join("one");
    let set_readonly = |readonly| {
        let mut permissions = fs::metadata(&unit).unwrap().permissions();
        permissions.set_readonly(readonly);
        fs::set_permissions(&unit, permissions).unwrap();
    };
    // A unit that cannot be written has its ledger beside it.
    set_readonly(true);
    place.run(&["unit", "apply", "one", "--sandbox", "--soak", "0s"]).ok();
    set_readonly(false);
    let names = fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().file_name());
    let ledger =
        names.filter_map(|name| name.into_string().ok()).find(|name| name.starts_with("one.ledger."));
    check(&place, LEDGERS, &[("ledger", &ledger.expect("a ledger beside the unit"))]);
}

/// A demonstration's cluster, in which a step has failed, without the controller that would go on with it.
#[test]
fn data_of_failed_steps_keeps_to_its_schema() {
    let (demonstration, place) = (Place::new(), Place::new());
    let _down = Down(&place);
    {
        let _down = Down(&demonstration);
        demonstration.run(&["pipeline", "demo", "--detach"]).ok();
        let bundles = demonstration.run(&["--sandbox", "bundle", "list", "my-app", "-o", "json"]).ok();
        let bundles: Value = serde_json::from_str(&bundles).unwrap();
        let bundle = bundles[0]["name"].as_str().unwrap();
        let wait = ["--sandbox", "bundle", "wait", bundle, "--env", "dev", "--timeout", "120s"];
        demonstration.run(&wait).ok();
        demonstration.run(&["sandbox", "save", "saved.jsonl"]).ok();
    }
    let saved = fs::read_to_string(demonstration.path().join("saved.jsonl")).unwrap();
    let failed = saved.lines().map(|line| {
        let mut object: Value = serde_json::from_str(line).unwrap();
        if object["resource"].as_str().is_some_and(|resource| resource.starts_with("promotionsteps.")) {
            object["object"]["status"]["state"] = "Failed".into();
        }
        format!("{object}\n")
    });
    place.write("failed.jsonl", failed.collect::<String>());
    place.run(&["sandbox", "up", "--detach", "--speed", "max"]).ok();
    place.run(&["sandbox", "load", "failed.jsonl"]).ok();
    check(&place, FAILED_STEPS, &[]);
}

#[test]
fn data_of_the_controller_keeps_to_its_schema() {
    let place = Place::new();
    let _down = Down(&place);
    check(&place, CONTROLLER, &[]);
}

/// Signals that end a run, with its exit code and the id of its failure.
const SIGNALS: [(&str, i32, &str); 2] = [("INT", 130, "interrupted"), ("TERM", 143, "terminated")];

/// Runs that a signal ends: the object is the last line, and data that was asked for is there before it.
#[cfg(unix)]
#[test]
fn a_signal_is_told_as_an_object() {
    let place = furnished();
    place.run(&["sandbox", "up", "--detach", "--speed", "max"]).ok();
    let _down = Down(&place);
    place.write("endless/Chart.yaml", "apiVersion: v2\nname: endless\nversion: 1.0.0\n");
    place.write(
        "endless/templates/a.yaml",
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: endless}\nspec:\n  progressDeadlineSeconds: 2147483647\n  \
         selector: {matchLabels: {app: endless}}\n  template:\n    metadata:\n      labels: {app: endless}\n      \
         annotations: {sim/fail: unready}\n    spec: {containers: [{name: web, image: 'nginx:1'}]}\n",
    );
    let checker = Checker::new(&place);
    for (name, code, id) in SIGNALS {
        let space = name.to_lowercase();
        let words = ["apply", "endless", "endless", "--sandbox", "-n", &space, "-o", "json"];
        let child = place.command(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let status = ["status", "endless", "--sandbox", "-n", &space, "-o", "json"];
        eventually("the run has begun", || place.run(&status).out.contains("\"pending-install\""));
        let process = child.id().to_string();
        assert!(Command::new("kill").args([&format!("-{name}"), &process]).status().unwrap().success());
        let ran = Ran::from(child.wait_with_output().unwrap());
        assert_eq!(ran.code, Some(code), "{}", ran.err);
        assert_eq!(checker.failure_fault(&ran), None, "{}", ran.err);
        let object: Value = serde_json::from_str(ran.err.lines().last().unwrap()).unwrap();
        assert_eq!(object["error"]["id"], id, "{object}");
        assert!(!object["error"]["causes"].as_array().unwrap().is_empty(), "{object}");
    }
}

/// Every exit code is met by a case of this file or of `failures`, but 17, which no command has.
#[test]
fn every_exit_code_is_met() {
    let all = [RELEASES, PACKAGES, RUNBOOKS, STACKS, PROMOTION];
    let mut met: BTreeSet<i32> = all.into_iter().flatten().map(|(.., code)| *code).collect();
    met.extend(crate::failures::codes());
    met.extend(SIGNALS.map(|(_, code, _)| code));
    let checker = Checker::new(&Place::new());
    let codes = &checker.failure["properties"]["error"]["properties"]["exitCode"]["enum"];
    let known: BTreeSet<i32> =
        codes.as_array().unwrap().iter().map(|code| code.as_i64().unwrap() as i32).collect();
    assert_eq!(known.difference(&met).collect::<Vec<_>>(), [&17]);
    let reserved = serde_json::json!({"error": {
        "id": "daemon-unreachable", "message": "no daemon", "file": null, "line": null, "column": null, "hint": null,
        "exitCode": 17, "causes": [], "problems": [],
    }});
    assert_eq!(Checker::validate(&checker.failure, "", &reserved), Ok(()), "the form of the reserved one");
}
