//! Typical mistakes of every command: each message says what is wrong, where, why, and what to do.
//!
//! The snapshots hold the messages as people see them; [`review`] holds each against the four questions as far as a program can.
//! Mistakes in `slipway unit` and in policies have a table of their own (`unit_mistakes.rs`).

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use crate::sandbox::Down;
use crate::support::{Place, Ran};

/// Every file the cases are about.
const FILES: &[(&str, &str)] = &[
    ("web/Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n"),
    ("web/values.yaml", "replicas: 1\n"),
    (
        "web/templates/a.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata: {replicas: '{{ .Values.replicas }}'}\n",
    ),
    ("plain/a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: plain}\n"),
    ("empty/README.md", "nothing\n"),
    ("noname/Chart.yaml", "apiVersion: v2\nversion: 1.0.0\n"),
    ("noversion/Chart.yaml", "apiVersion: v2\nname: noversion\n"),
    ("badversion/Chart.yaml", "apiVersion: v2\nname: badversion\nversion: one\n"),
    ("notyaml/Chart.yaml", "apiVersion: [\n"),
    ("library/Chart.yaml", "apiVersion: v2\nname: library\nversion: 1.0.0\ntype: library\n"),
    ("newer/Chart.yaml", "apiVersion: v2\nname: newer\nversion: 1.0.0\nkubeVersion: '>= 9.0'\n"),
    (
        "needy/Chart.yaml",
        "apiVersion: v2\nname: needy\nversion: 1.0.0\ndependencies: [{name: db, version: 1.x, repository: 'file://../db'}]\n",
    ),
    ("values/Chart.yaml", "apiVersion: v2\nname: values\nversion: 1.0.0\n"),
    ("values/values.yaml", "a: [\n"),
    ("schema/Chart.yaml", "apiVersion: v2\nname: schema\nversion: 1.0.0\n"),
    (
        "schema/values.schema.json",
        r#"{"type": "object", "properties": {"port": {"type": "integer"}}, "required": ["host"]}"#,
    ),
    ("schema/values.yaml", "port: http\n"),
    ("unclosed/Chart.yaml", "apiVersion: v2\nname: unclosed\nversion: 1.0.0\n"),
    ("unclosed/templates/a.yaml", "a: {{ .Values.a\n"),
    ("function/Chart.yaml", "apiVersion: v2\nname: function\nversion: 1.0.0\n"),
    ("function/templates/a.yaml", "a: {{ nope .Values.a }}\n"),
    ("nil/Chart.yaml", "apiVersion: v2\nname: nil\nversion: 1.0.0\n"),
    ("nil/templates/a.yaml", "a: {{ .Values.a.b.c }}\n"),
    ("required/Chart.yaml", "apiVersion: v2\nname: required\nversion: 1.0.0\n"),
    ("required/templates/a.yaml", "a: {{ required \"set host\" .Values.host }}\n"),
    ("include/Chart.yaml", "apiVersion: v2\nname: include\nversion: 1.0.0\n"),
    ("include/templates/a.yaml", "a: {{ include \"nothing\" . }}\n"),
    ("several/Chart.yaml", "apiVersion: v2\nname: several\nversion: 1.0.0\n"),
    (
        "several/templates/_names.tpl",
        "{{ define \"several.name\" }}\n{{ .Values.naming.short }}\n{{ end }}\n",
    ),
    ("several/templates/a.yaml", "a: 1\nb: {{ include \"several.name\" . }}\n"),
    ("several/templates/b.yaml", "b: {{ required \"set host\" .Values.host }}\n"),
    ("several/templates/c.yaml", "c: {{ fail \"never\" }}\n"),
    ("unparsed/Chart.yaml", "apiVersion: v2\nname: unparsed\nversion: 1.0.0\n"),
    ("unparsed/templates/a.yaml", "a: {{ nope }}\n"),
    ("unparsed/templates/b.yaml", "b: 1\nc: {{ if }}\n"),
    ("nested/Chart.yaml", "apiVersion: v2\nname: nested\nversion: 1.0.0\n"),
    ("nested/charts/inner/Chart.yaml", "apiVersion: v2\nname: inner\nversion: [\n"),
    ("noyaml/Chart.yaml", "apiVersion: v2\nname: noyaml\nversion: 1.0.0\n"),
    ("noyaml/templates/a.yaml", "a: b: c\n"),
    ("nokind/Chart.yaml", "apiVersion: v2\nname: nokind\nversion: 1.0.0\n"),
    ("nokind/templates/a.yaml", "metadata: {name: a}\n"),
    ("unserved/Chart.yaml", "apiVersion: v2\nname: unserved\nversion: 1.0.0\n"),
    ("unserved/templates/a.yaml", "apiVersion: apps/v1beta9\nkind: Deployment\nmetadata: {name: a}\n"),
    ("field/Chart.yaml", "apiVersion: v2\nname: field\nversion: 1.0.0\n"),
    (
        "field/templates/a.yaml",
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec: {replcas: 1, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: x}]}}}\n",
    ),
    ("label/Chart.yaml", "apiVersion: v2\nname: label\nversion: 1.0.0\n"),
    ("label/templates/a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: A_B}\n"),
    ("elsewhere/Chart.yaml", "apiVersion: v2\nname: elsewhere\nversion: 1.0.0\n"),
    (
        "elsewhere/templates/a.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: nowhere}\n",
    ),
    ("twice/Chart.yaml", "apiVersion: v2\nname: twice\nversion: 1.0.0\n"),
    (
        "twice/templates/a.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n",
    ),
    ("both/Chart.yaml", "apiVersion: v2\nname: both\nversion: 1.0.0\n"),
    ("both/kustomization.yaml", "resources: []\n"),
    ("secret/Chart.yaml", "apiVersion: v2\nname: secret\nversion: 1.0.0\n"),
    ("secret/values.yaml", "password: none\n"),
    (
        "secret/templates/a.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: secret}\ndata: {a: {{ .Values.password | quote }}}\n",
    ),
    ("list.yaml", "- a\n- b\n"),
    ("broken.yaml", "a: [\n"),
    ("tabs.yaml", "a:\n\tb: 1\n"),
    ("word.txt", "hello\n"),
    ("junk.tgz", "no archive\n"),
    // Stacks.
    ("stacks/typo/stack.yaml", "apiVersion: ktl.dev/v1\nkind: Stack\nnme: x\n"),
    ("stacks/version/stack.yaml", "apiVersion: ktl.dev/v2\nkind: Stack\nname: x\n"),
    ("stacks/kind/stack.yaml", "apiVersion: ktl.dev/v1\nkind: Stak\nname: x\n"),
    ("stacks/nochart/stack.yaml", "name: x\nreleases: [{name: a}]\n"),
    ("stacks/noname/stack.yaml", "name: x\nreleases: [{chart: ./a}]\n"),
    ("stacks/missing/stack.yaml", "name: x\nreleases: [{name: a, chart: ./nowhere}]\n"),
    ("stacks/needs/stack.yaml", "name: x\nreleases: [{name: a, chart: ../../web, needs: [b]}]\n"),
    (
        "stacks/cycle/stack.yaml",
        "name: x\nreleases: [{name: a, chart: ../../web, needs: [b]}, {name: b, chart: ../../web, needs: [a]}]\n",
    ),
    ("stacks/self/stack.yaml", "name: x\nreleases: [{name: a, chart: ../../web, needs: [a]}]\n"),
    (
        "stacks/twice/stack.yaml",
        "name: x\nreleases: [{name: a, chart: ../../web}, {name: a, chart: ../../web}]\n",
    ),
    ("stacks/values/stack.yaml", "name: x\nreleases: [{name: a, chart: ../../web, values: [nope.yaml]}]\n"),
    ("stacks/fine/stack.yaml", "name: x\nreleases: [{name: a, chart: ../../web, tags: [app]}]\n"),
    ("stacks/outer/inner/stack.yaml", "name: x\nreleases: []\n"),
    ("stacks/outer/inner/release.yaml", "nodes: {a: {}}\n"),
    // Runbooks.
    ("runs/kind.yaml", "apiVersion: khook.io/v1\nkind: Nothing\n"),
    ("runs/empty.yaml", ""),
    ("runs/typo.yaml", "apiVersion: khook.io/v1\nkind: Khook\nmetadata: {name: a}\nstps: []\n"),
    (
        "runs/steps.yaml",
        "apiVersion: khook.io/v1\nkind: Khook\nmetadata: {name: a}\nsteps:\n- {name: a, needs: [b]}\n- {name: a}\n",
    ),
    // Graphs.
    ("graphs/typo.yaml", "nodes:\n  web: {tmeout: 5m}\n"),
    ("graphs/unknown.yaml", "nodes:\n  web: {needs: [dbb]}\n  db: {}\n"),
    ("graphs/cycle.yaml", "nodes:\n  a: {needs: [b]}\n  b: {needs: [a]}\n"),
    ("graphs/self.yaml", "nodes:\n  a: {needs: [a]}\n"),
    ("graphs/time.yaml", "nodes:\n  a: {timeout: soon, retries: many}\n"),
    ("graphs/fine.yaml", "nodes:\n  a: {}\n  b: {needs: [a]}\n"),
    // Packages.
    ("empty.kurel/.keep", ""),
    ("typo.kurel/parameters.yaml", "kurel: {nme: a}\n"),
    ("typo.kurel/resources/a.yaml", "apiVersion: v1\nkind: ConfigMap\n"),
    ("patch.kurel/parameters.yaml", "kurel: {name: patch, version: 1.0.0, appVersion: 1.0.0}\n"),
    ("patch.kurel/resources/a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"),
    ("patch.kurel/patches/10-a.kpatch", "[Deployment/web]\nspec.replicas: 3\n"),
    // Kustomizations.
    ("kust/typo/kustomization.yaml", "resurces: []\n"),
    ("kust/missing/kustomization.yaml", "resources: [nope.yaml]\n"),
    (
        "kust/patch/kustomization.yaml",
        "resources: [a.yaml]\npatches: [{patch: 'a: [', target: {kind: ConfigMap}}]\n",
    ),
    ("kust/patch/a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"),
    ("kust/twice/kustomization.yaml", "resources: [a.yaml, b.yaml]\n"),
    ("kust/twice/a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"),
    ("kust/twice/b.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"),
    // Policies, promotion, settings, secrets.
    ("policy.yaml", "apiVersion: ktl.dev/policy/v1\nrules: [{id: few, cel: 'false', message: never}]\n"),
    ("policy-typo.yaml", "apiVersion: ktl.dev/policy/v1\nruls: []\n"),
    ("init.yaml", "app: A_B\nimge: x\ngit: {url: repo}\nenvironments: []\n"),
    (
        "pipeline.yaml",
        "apiVersion: kardinal.io/v1alpha1\nkind: Pipeline\nmetadata: {name: shop}\nspec: {environments: [{name: dev, dependsOn: [tset]}]}\n",
    ),
    (
        "gate.yaml",
        "apiVersion: kardinal.io/v1alpha1\nkind: PolicyGate\nmetadata: {name: g}\nspec: {expression: 'schedule.isWeekend ==', recheckInterval: 5m}\n",
    ),
    ("cases.yaml", "tests: [{name: n, gate: nobody, expect: pas}]\n"),
    ("settings.yaml", "colour: always\noutput: xml\n"),
    ("slipway.yaml", "secrets: {providers: {local: {type: file, path: dev.yaml}}}\n"),
    ("dev.yaml", "present: value\n"),
    ("kubeconfig-broken", "apiVersion: [\n"),
    ("kubeconfig-empty", "apiVersion: v1\nkind: Config\n"),
];

/// Contexts that each go wrong in a way of their own; `PORT` is that of a server that is no API server.
const KUBECONFIG: &str = "\
apiVersion: v1
kind: Config
current-context: gone
clusters:
- {name: nothing, cluster: {server: 'http://127.0.0.1:1'}}
- {name: website, cluster: {server: 'http://127.0.0.1:PORT'}}
- {name: tls, cluster: {server: 'https://127.0.0.1:PORT'}}
- {name: refusing, cluster: {server: 'http://127.0.0.1:DENY'}}
- {name: forbidding, cluster: {server: 'http://127.0.0.1:FORBID'}}
- {name: homeless, cluster: {server: ''}}
- {name: authority, cluster: {server: 'https://127.0.0.1:1', certificate-authority: /no/such/ca.crt}}
contexts:
- {name: refused, context: {cluster: nothing, user: jo}}
- {name: website, context: {cluster: website, user: jo}}
- {name: tls, context: {cluster: tls, user: jo}}
- {name: expired, context: {cluster: refusing, user: jo}}
- {name: nobody, context: {cluster: refusing, user: left}}
- {name: forbidden, context: {cluster: forbidding, user: jo}}
- {name: homeless, context: {cluster: homeless, user: jo}}
- {name: authority, context: {cluster: authority, user: jo}}
- {name: clusterless, context: {cluster: lost, user: jo}}
- {name: plugin, context: {cluster: nothing, user: plugin}}
- {name: unhinted, context: {cluster: nothing, user: unhinted}}
- {name: failing, context: {cluster: nothing, user: failing}}
- {name: chatty, context: {cluster: nothing, user: chatty}}
- {name: certificate, context: {cluster: nothing, user: certificate}}
users:
- {name: jo, user: {token: a-secret-token}}
- {name: plugin, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: no-such-plugin, installHint: 'get it from https://example.com/plugin'}}}
- {name: unhinted, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: no-such-plugin}}}
- {name: failing, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: sh, args: [-c, 'echo a-secret-token; echo the session has expired >&2; exit 3'], interactiveMode: Never}}}
- {name: chatty, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: sh, args: [-c, 'echo a-secret-token'], interactiveMode: Never}}}
- {name: certificate, user: {client-certificate: /no/such/cert, client-key: /no/such/key}}
";

/// A server that gives everybody the same answer.
fn serve(status: &str, body: &str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let length = body.len();
    let answer = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}");
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut chunk = [0; 4096];
            let _ = stream.read(&mut chunk);
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    port
}

fn refusal(code: u16, reason: &str, message: &str) -> String {
    serde_json::json!({"kind": "Status", "apiVersion": "v1", "message": message, "reason": reason, "code": code})
        .to_string()
}

fn furnished() -> Place {
    let place = Place::new();
    for (name, text) in FILES {
        place.write(name, text);
    }
    let website = serve("200 OK", "<html>hi</html>");
    let deny = serve("401 Unauthorized", &refusal(401, "Unauthorized", "Unauthorized"));
    let no_rule = "User \"jo\" cannot get path \"/version\"";
    let forbid = serve("403 Forbidden", &refusal(403, "Forbidden", no_rule));
    let config = KUBECONFIG.replace("PORT", &website).replace("DENY", &deny).replace("FORBID", &forbid);
    place.write("kubeconfig", config);
    place
}

/// The words of a line; quotes keep words together.
fn words(line: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (number, part) in line.split('\'').enumerate() {
        match number % 2 {
            1 => found.push(part.to_owned()),
            _ => found.extend(part.split_whitespace().map(str::to_owned)),
        }
    }
    found
}

/// Words that say what belongs into the place that is shown.
const BELONGS_THERE: &[&str] = &[
    "expected",
    "must be",
    "must consist of",
    "is required",
    "is missing",
    "did you mean",
    "such as",
    "needs itself",
    "needs form a cycle",
    "not declared in schema",
    "there is no such file",
];

/// Says what a message leaves open of: what is wrong, where, why, what to do.
fn review(line: &str, ran: &Ran) -> Vec<String> {
    let mut open = Vec::new();
    let mut say = |what: &str| open.push(format!("{line}: {what}:\n{}", ran.err));
    // Those of the table of exit codes that a mistake can end with.
    if !matches!(ran.code, Some(1 | 10..=16 | 64)) {
        say("it did not fail as a mistake does");
    }
    let errors: Vec<&str> = ran.err.lines().filter_map(|line| line.strip_prefix("error: ")).collect();
    // A command of commands shows what there is to choose from.
    let is_choice = ran.err.contains("\nCommands:\n");
    match errors.first() {
        None if is_choice => {}
        None => say("it does not say what is wrong"),
        Some(first) => {
            // Names of kinds and commands begin as they are written.
            let begins_a_sentence = first.split(' ').next().is_some_and(|word| {
                word.chars().next().is_some_and(char::is_uppercase)
                    && word.chars().skip(1).all(char::is_lowercase)
                    && !word.contains('/')
            });
            // Helm's own words are kept.
            if begins_a_sentence
                && !first.starts_with("An error occurred while checking for chart dependencies")
            {
                say("it begins with a capital letter");
            }
            if first.ends_with('.') && !first.ends_with("...") {
                say("it ends with a full stop");
            }
        }
    }
    let says_what_to_do =
        ["hint: ", "tip: ", "Usage: ", "try '--help'"].iter().any(|sign| ran.err.contains(sign));
    // A place and what belongs there are enough.
    let says_what_belongs_there =
        ran.err.contains(" --> ") && BELONGS_THERE.iter().any(|sign| ran.err.contains(sign));
    if !says_what_to_do && !says_what_belongs_there {
        say("it does not say what to do");
    }
    for noise in ["os error", "panicked", "a-secret-token", "RUST_BACKTRACE", "Error {", "Some("] {
        if ran.err.contains(noise) {
            say(&format!("it says `{noise}`"));
        }
    }
    open
}

/// Runs every line and tells what each said; none may leave a question open.
fn told(place: &Place, lines: &[&str]) -> String {
    let here = place.path().display().to_string();
    let run = |line: &&str| {
        let words = words(line);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let ran = place.run(&words);
        let mut shown = ran.err.replace(&here, "HERE");
        for port in ports(place) {
            shown = shown.replace(&format!("127.0.0.1:{port}"), "127.0.0.1:PORT");
        }
        // Which of the lines starts the sandbox is a matter of luck.
        let lines = shown.lines().filter(|line| !line.starts_with("started a sandbox"));
        let shown: String = lines.map(|line| format!("{}\n", without_time(line))).collect();
        let text = format!("$ slipway {line}\nexit {}\n{shown}\n", ran.code.unwrap_or_default());
        (text, review(line, &ran))
    };
    let half = lines.len().div_ceil(2);
    let told: Vec<(String, Vec<String>)> = std::thread::scope(|scope| {
        let run = &run;
        let threads: Vec<_> = lines
            .chunks(half)
            .map(|lines| scope.spawn(move || lines.iter().map(run).collect::<Vec<_>>()))
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let open: Vec<&String> = told.iter().flat_map(|(_, open)| open).collect();
    assert!(
        open.is_empty(),
        "{} questions are open:\n{}",
        open.len(),
        open.iter().map(|text| format!("{text}\n")).collect::<String>()
    );
    told.into_iter().map(|(text, _)| text).collect()
}

/// The line without the time that attempts took.
fn without_time(line: &str) -> String {
    let Some((before, after)) = line.split_once(" times in ") else { return line.to_owned() };
    let rest = after.split_once(" s").map_or("", |(_, rest)| rest);
    format!("{before} times in TIME{rest}")
}

/// The ports of the servers of a place, which differ from run to run.
fn ports(place: &Place) -> Vec<String> {
    let config = std::fs::read_to_string(place.path().join("kubeconfig")).unwrap_or_default();
    let ports = config
        .split("127.0.0.1:")
        .skip(1)
        .map(|rest| rest.split(|c: char| !c.is_ascii_digit()).next().unwrap().to_owned());
    ports.filter(|port| port != "1").collect()
}

const COMMAND_LINES: &[&str] = &[
    "frobnicate",
    "--nope",
    "appyl web ./web",
    "apply",
    "plan",
    "render",
    "render --bogus",
    "render web ./web --set",
    "render web ./web --output xml",
    "list --color sometimes",
    "apply web ./web --timeout soon",
    "apply web ./web --prune-order never",
    "apply web ./web surplus",
    "rollback",
    "history",
    "status",
    "get",
    "get everything web",
    "delete",
    "test",
    "logs",
    "diff",
    "graph",
    "graph graphs/fine.yaml --only c",
    "run",
    "run apply",
    "stack frob",
    "unit",
    "unit bundle web",
    "chart",
    "chart pull",
    "chart push x",
    "repo add one",
    "package",
    "kustomize edit set image",
    "secrets test",
    "pipeline promote",
    "bundle create",
    "gate simulate",
    "gate override g",
    "sandbox frob",
    "completions csh",
    "controller",
    "agent",
    "audit",
    "reference nothing",
];

const OTHER_TOOLS: &[&str] = &[
    "install web ./web",
    "upgrade --install web ./web",
    "release install -n shop",
    "chart lint .",
    "search repo nginx",
    "pull oci://x/y",
    "dependency update",
    "env",
    "plugin list",
    "sync",
    "destroy",
    "build kust/typo",
    "validate runs/kind.yaml",
    "describe web",
    "rollout status",
    "promote shop",
    "exec -it web -- sh",
    "port-forward web 8080:80",
    "scale web --replicas 3",
    "top pods",
    "events",
    "helm upgrade web ./web",
    "helmfile sync",
    "kubectl get pods",
    "completion bash",
    "init",
    "stauts web",
];

const NAMES_AND_SOURCES: &[&str] = &[
    "apply ./web --sandbox",
    "plan web/ --sandbox",
    "plan word.txt --sandbox",
    "apply web --sandbox",
    "apply api --sandbox",
    "plan oci://registry.example/charts/web --sandbox",
    "plan --generate-name --sandbox",
    "apply web ./wbe --sandbox",
    "apply web ./empty --sandbox",
    "apply web ./both --sandbox",
    "apply web word.txt --sandbox",
    "apply web junk.tgz --sandbox",
    "apply Web ./web --sandbox",
    "apply web_1 ./web --sandbox",
    "apply web ./web --generate-name --sandbox",
    "render web ./plain",
    "render missing",
    "render web nobody/chart",
    "render web stacks/web",
    "render web kust/twic",
    "chart show values missing",
    "chart package missing",
    "chart create web",
    "package init web --from missing",
    "graph missing.yaml",
    "kustomize build missing",
    "package build missing",
    "run validate -f missing.yaml",
    "gate test missing.yaml",
    "pipeline validate -f missing.yaml",
    "pipeline init -f missing.yaml --stdout",
    "stack plan --root missing",
    "unit inspect missing",
    "unit bundle ./web -O u",
    "unit bundle web -O u",
    "apply --plan missing --sandbox",
    "plan --show word.txt --sandbox",
];

const CHARTS: &[&str] = &[
    "render a ./noname",
    "render a ./noversion",
    "render a ./badversion",
    "render a ./notyaml",
    "render a ./library",
    "render a ./newer",
    "render a ./needy",
    "render a ./values",
    "render a ./schema",
    "render a ./unclosed",
    "render a ./function",
    "render a ./nil",
    "render a ./required",
    "render a ./include",
    "render a ./noyaml",
    "render a ./several",
    "render a ./unparsed",
    "render a ./nested",
    "render a ./noname --set a=b -f broken.yaml",
    "apply a ./several --sandbox",
    "apply a ./noyaml --sandbox",
    "apply a ./schema --sandbox",
    "apply a ./web --sandbox -f broken.yaml",
    "plan a ./needy --sandbox",
    "render a ./web -f missing.yaml",
    "render a ./web -f broken.yaml",
    "render a ./web -f list.yaml",
    "render a ./web -f tabs.yaml",
    "render a ./web --set a",
    "render a ./web --set a[b=1",
    "render a ./web --set-json a={",
    "render a ./web --set-file a=missing",
    "render a ./web --show-only templates/nope.yaml",
    "render a ./web --kube-version one",
    "render a ./web --explain Deployment/web:spec",
    "render a ./web --post-renderer no-such-program",
    "render a ./web --secret-values missing.yaml",
    "chart deps build ./needy",
    "chart verify junk.tgz",
    "chart pull nothing --repo http://127.0.0.1:1",
    "chart push junk.tgz oci://127.0.0.1:1/x",
    "chart push missing.tgz oci://127.0.0.1:1/x",
    "repo add one not-an-address",
    "repo remove nothing",
    "repo update",
    "chart search repo nothing",
];

const CONNECTIONS: &[&str] = &[
    "list",
    "list --kubeconfig missing",
    "list --kubeconfig kubeconfig-broken",
    "list --kubeconfig kubeconfig-empty",
    "list --kubeconfig kubeconfig",
    "list --kubeconfig kubeconfig --context refusd",
    "list --kubeconfig kubeconfig --context production",
    "list --kubeconfig kubeconfig --context refused --kube-context-user joe",
    "list --kubeconfig kubeconfig --context refused --kube-context-cluster nothin",
    "list --kubeconfig kubeconfig --context refused",
    "list --kubeconfig kubeconfig --context website",
    "list --kubeconfig kubeconfig --context tls",
    "list --kubeconfig kubeconfig --context expired",
    "list --kubeconfig kubeconfig --context expired --kube-token other",
    "list --kubeconfig kubeconfig --context nobody",
    "list --kubeconfig kubeconfig --context forbidden",
    "list --kubeconfig kubeconfig --context homeless",
    "list --kubeconfig kubeconfig --context authority",
    "list --kubeconfig kubeconfig --context clusterless",
    "list --kubeconfig kubeconfig --context plugin",
    "list --kubeconfig kubeconfig --context unhinted",
    "list --kubeconfig kubeconfig --context failing",
    "list --kubeconfig kubeconfig --context chatty",
    "list --kubeconfig kubeconfig --context certificate",
    "list --kube-apiserver http://[",
    "list --kube-as-group admins --kubeconfig kubeconfig --context refused",
    "list --kube-auth-username jo",
    "pipeline list --kubeconfig kubeconfig --context website",
    "doctor --kubeconfig kubeconfig --context expired",
    "unit plan missing --kubeconfig kubeconfig",
    "config --connect --kubeconfig kubeconfig --context refused",
];

const CLUSTER: &[&str] = &[
    "status nobody --sandbox",
    "history nobody --sandbox",
    "get manifest nobody --sandbox",
    "rollback nobody --sandbox",
    "rollback here 9 --sandbox",
    "test nobody --sandbox",
    "logs nobody --sandbox",
    "diff nobody --sandbox",
    "status here --sandbox -n other",
    "get values here --revision 7 --sandbox",
    "apply a ./nokind --sandbox",
    "apply a ./unserved --sandbox",
    "apply a ./field --sandbox",
    "apply a ./label --sandbox",
    "apply a ./elsewhere --sandbox",
    "apply a ./twice --sandbox",
    "apply other ./web --sandbox",
    "apply here ./web --sandbox -n fresh --no-create-namespace",
    "apply here ./web --sandbox --policy policy.yaml",
    "apply here ./web --sandbox --policy policy-typo.yaml",
    "apply here ./web --sandbox --policy missing.yaml",
    "apply a ./secret --sandbox --set password=secret://local/ABSENT",
    "apply a ./secret --sandbox --set password=secret://nobody/x",
    "apply a ./secret --sandbox --set password=secret://",
    "list --filter [ --sandbox",
    "pipeline list --sandbox",
    "bundle list nobody --sandbox",
    "gate list --sandbox",
    "audit timeline --sandbox",
    "sandbox up --detach",
    "sandbox load missing",
    "sandbox clone --from-context nothing",
];

const OTHER_FILES: &[&str] = &[
    "stack plan",
    "stack plan --root stacks/outer",
    "stack plan --root stacks/typo",
    "stack plan --root stacks/version",
    "stack plan --root stacks/kind",
    "stack plan --root stacks/nochart",
    "stack plan --root stacks/noname",
    "stack plan --root stacks/missing",
    "stack plan --root stacks/needs",
    "stack plan --root stacks/cycle",
    "stack plan --root stacks/self",
    "stack plan --root stacks/twice",
    "stack plan --root stacks/values",
    "stack plan --root stacks/fine --tag nothing",
    "stack plan --root stacks/fine --release b",
    "stack plan --root stacks/fine --profile prdo",
    "stack explain b --root stacks/fine",
    "stack status --root stacks/fine --run-id nothing",
    "run validate -f runs/kind.yaml",
    "run validate -f runs/empty.yaml",
    "run validate -f runs/typo.yaml",
    "run validate -f runs/steps.yaml",
    "run plan -f broken.yaml",
    "graph graphs/typo.yaml",
    "graph graphs/unknown.yaml",
    "graph graphs/cycle.yaml",
    "graph graphs/self.yaml",
    "graph graphs/time.yaml",
    "graph list.yaml",
    "package build empty.kurel",
    "package validate typo.kurel",
    "package build patch.kurel",
    "kustomize build kust/typo",
    "kustomize build kust/missing",
    "kustomize build kust/patch",
    "kustomize build kust/twice",
    "kustomize build empty",
    "kustomize edit set image a=b",
    "pipeline init -f init.yaml --stdout",
    "pipeline init --stdout",
    "pipeline validate -f pipeline.yaml",
    "gate test gate.yaml",
    "gate test cases.yaml",
    "secrets test secret://local/ABSENT",
    "secrets test secret://locl/x",
    "secrets test nonsense",
    "config --config missing.yaml",
    "config --config settings.yaml",
    "config --config broken.yaml",
    "sandbox status --nope",
];

#[test]
fn of_command_lines() {
    let place = furnished();
    insta::assert_snapshot!(told(&place, COMMAND_LINES));
}

#[test]
fn of_hands_used_to_other_tools() {
    let place = furnished();
    insta::assert_snapshot!(told(&place, OTHER_TOOLS));
}

#[test]
fn of_names_and_sources() {
    let place = furnished();
    let _down = Down(&place);
    insta::assert_snapshot!(told(&place, NAMES_AND_SOURCES));
}

#[test]
fn of_charts_and_values() {
    let place = furnished();
    let _down = Down(&place);
    insta::assert_snapshot!(told(&place, CHARTS));
}

#[test]
fn of_connections() {
    let place = furnished();
    insta::assert_snapshot!(told(&place, CONNECTIONS));
}

#[test]
fn of_what_is_in_the_cluster() {
    let place = furnished();
    let _down = Down(&place);
    place.run(&["apply", "here", "./web", "--sandbox", "-q"]).ok();
    insta::assert_snapshot!(told(&place, CLUSTER));
}

#[test]
fn of_stacks_runbooks_and_other_files() {
    let place = furnished();
    insta::assert_snapshot!(told(&place, OTHER_FILES));
}

/// The bar is 150 mistakes, each another; those of units and policies come on top.
#[test]
fn there_are_many_and_all_differ() {
    let tables = [COMMAND_LINES, OTHER_TOOLS, NAMES_AND_SOURCES, CHARTS, CONNECTIONS, CLUSTER, OTHER_FILES];
    let all: std::collections::BTreeSet<&str> = tables.concat().into_iter().collect();
    assert_eq!(all.len(), tables.concat().len());
    assert!(all.len() >= 250, "{}", all.len());
}

/// Programs get the same as an object that keeps to its schema.
#[test]
fn are_objects_for_programs() {
    let place = furnished();
    let mut schemas = boon::Schemas::new();
    let mut compiler = boon::Compiler::new();
    let schema = place.run(&["reference", "failure-schema"]).ok();
    compiler.add_resource("failure.json", serde_json::from_str(&schema).unwrap()).unwrap();
    let schema = compiler.compile("failure.json", &mut schemas).unwrap();
    let tables = [COMMAND_LINES, OTHER_TOOLS, NAMES_AND_SOURCES, CHARTS, CONNECTIONS, OTHER_FILES];
    // Every sixth, so that the table stays cheap; `failures.rs` has one of each class.
    // What `validate` finds is its data.
    let lines = tables.concat().into_iter().filter(|line| !line.starts_with("run validate"));
    for line in lines.step_by(6) {
        let mut words = words(line);
        words.extend(["-o".to_owned(), "json".to_owned()]);
        let ran = place.run(&words.iter().map(String::as_str).collect::<Vec<_>>());
        let last = ran.err.lines().last().unwrap_or_default();
        let object: serde_json::Value =
            serde_json::from_str(last).unwrap_or_else(|_| panic!("{line}: no object: {}", ran.err));
        if let Err(error) = schemas.validate(&object, schema) {
            panic!("{line}: {error:#}");
        }
        assert_eq!(object["error"]["exitCode"].as_i64(), ran.code.map(i64::from), "{line}");
    }
}
