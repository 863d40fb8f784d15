//! A scan for secrets of backends in everything slipway writes: every command, every form of output, good ends and bad
//! ones, every file. A command that is not in the table fails the scan. `leak_sockets` looks at what is sent, `leak_sinks`
//! at the code, for ways out that no scan knows; panics are scanned beside their report (`src/panic.rs`).

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};

use crate::sandbox::Down;
use crate::support::Place;

/// A secret without anything special, one of several lines, and one that every encoding treats differently.
const CANARIES: [&str; 3] =
    ["s3nt1nel-canary-plain", "s3nt1nel-line-one\ns3nt1nel-line-two\n", "s3nt1nel\"it's\\a/canary+"];

/// The way a command is scanned.
enum Scan {
    /// Run with values that refer to secrets.
    Lines(&'static [&'static str]),
    /// It meets no values; the reason.
    NoValues(&'static str),
}
use Scan::{Lines, NoValues};

const CHARTS: &str = "works on charts as they are and takes no values of a release";
const GROUP: &str = "has commands below it";
const FILES: &str = "reads files that hold no references to secrets";
const UNITS: &str = "moves files that the scan of `unit bundle` and `unit apply` reads";
const PROMOTION: &str =
    "takes no values of a release; tokens and keys of promotion are scanned in `slipway-controller`";
const SANDBOX: &str = "runs the cluster itself, whose data is the user's";

/// Every command there is.
const TABLE: &[(&str, Scan)] = &[
    (
        "render",
        Lines(&[
            "render web chart -f values.yaml",
            "render failing -f values.yaml",
            "render web chart -f values.yaml --output-dir out",
            "render web chart -f values.yaml --reveal",
            "render web chart -f values.yaml --explain ConfigMap/web:data.plain",
        ]),
    ),
    (
        "plan",
        Lines(&[
            "plan web chart -f values.yaml --sandbox",
            "plan web chart -f values.yaml --sandbox --check-secrets",
            "plan failing failing -f values.yaml --sandbox --check-secrets",
            "plan web chart -f values.yaml --sandbox --out saved.plan",
            "plan web chart -f values.yaml --sandbox --graph dot",
        ]),
    ),
    (
        "apply",
        Lines(&[
            "apply web chart -f values.yaml --sandbox",
            "apply web chart -f other.yaml --sandbox --save-report-to report.json --save-graph-to graph.dot",
            "apply web chart -f values.yaml --sandbox --rehearse --set level=high",
            "apply refused refused -f values.yaml --sandbox",
            "apply failing failing -f values.yaml --sandbox",
            "apply web chart --set plain=secret://down/app#key --sandbox --secret-config down.yaml",
            "apply web chart -f values.yaml --sandbox --dry-run",
        ]),
    ),
    ("rollback", Lines(&["rollback web 1 --sandbox --dry-run", "rollback web 1 --sandbox"])),
    ("list", Lines(&["list --sandbox"])),
    ("status", Lines(&["status web --sandbox"])),
    ("history", Lines(&["history web --sandbox"])),
    (
        "get",
        Lines(&[
            "get values web --sandbox",
            "get values web --all --sandbox",
            "get manifest web --sandbox",
            "get hooks web --sandbox",
            "get notes web --sandbox",
            "get metadata web --sandbox",
            "get all web --sandbox",
        ]),
    ),
    ("diff", Lines(&["diff web --sandbox", "diff web 1 2 --sandbox", "diff web 1 --sandbox"])),
    ("logs", Lines(&["logs web --sandbox"])),
    ("test", Lines(&["test web --sandbox"])),
    ("lint", Lines(&["lint chart -f values.yaml", "lint failing -f values.yaml"])),
    (
        "package build",
        Lines(&[
            "package build demo.kurel -f level.yaml",
            "package build demo.kurel -f level.yaml --output-dir built",
            "package build demo.kurel --set level=secret://local/plain",
        ]),
    ),
    ("package validate", Lines(&["package validate demo.kurel -f level.yaml"])),
    ("package info", Lines(&["package info demo.kurel -f level.yaml"])),
    ("package patches", Lines(&["package patches demo.kurel -f level.yaml"])),
    ("package patches list", Lines(&["package patches list demo.kurel -f level.yaml"])),
    ("package params", Lines(&["package params demo.kurel -f level.yaml"])),
    ("package trace", Lines(&["package trace demo.kurel -f level.yaml --param level"])),
    ("package explain", Lines(&["package explain demo.kurel -f level.yaml ConfigMap/settings:data.level"])),
    ("package diff", Lines(&["package diff demo.kurel -f level.yaml"])),
    ("run validate", Lines(&["run validate -f boot.yaml"])),
    (
        "run plan",
        Lines(&[
            "run plan -f boot.yaml --sandbox",
            "run plan -f boot.yaml --sandbox --diff --check-secrets",
            "run plan -f boot.yaml --offline",
        ]),
    ),
    (
        "run diff",
        Lines(&["run diff -f boot.yaml --sandbox", "run diff -f boot.yaml --sandbox --check-secrets"]),
    ),
    (
        "run apply",
        Lines(&[
            "run apply -f boot.yaml --sandbox --report run.json --junit run.xml",
            "run apply -f boot.yaml --sandbox --no-resume --rehearse",
            "run apply -f wrong.yaml --sandbox",
        ]),
    ),
    ("run status", Lines(&["run status -f boot.yaml --sandbox"])),
    ("run graph", Lines(&["run graph -f boot.yaml"])),
    ("run destroy", Lines(&["run destroy -f boot.yaml --sandbox --yes"])),
    (
        "stack plan",
        Lines(&[
            "stack plan --sandbox",
            "stack plan --sandbox --diff --verify",
            "stack plan --sandbox --diff --check-secrets",
        ]),
    ),
    (
        "stack apply",
        Lines(&[
            "stack apply --sandbox --yes",
            "stack apply --sandbox --yes --rehearse",
            "stack apply --sandbox --yes --secret-config down.yaml",
        ]),
    ),
    ("stack graph", Lines(&["stack graph"])),
    ("stack explain", Lines(&["stack explain one"])),
    ("stack status", Lines(&["stack status"])),
    ("stack runs", Lines(&["stack runs"])),
    ("stack runs prune", Lines(&["stack runs prune --keep 1"])),
    ("stack delete", Lines(&["stack delete --sandbox --yes"])),
    (
        "secrets test",
        Lines(&[
            "secrets test secret://local/plain secret://local/lines secret://local/quoted",
            "secrets test --all",
            "secrets test secret://down/app#key --secret-config down.yaml",
            "secrets test secret://local/fields#none",
        ]),
    ),
    (
        "secrets list",
        Lines(&["secrets list --provider local", "secrets list --provider down --secret-config down.yaml"]),
    ),
    ("secrets discover", Lines(&["secrets discover"])),
    ("secrets login", Lines(&["secrets login local", "secrets login down --secret-config down.yaml"])),
    ("secrets logout", Lines(&["secrets logout local"])),
    ("secrets policy check", Lines(&["secrets policy check", "secrets policy check --ci"])),
    ("secrets audit", Lines(&["secrets audit"])),
    (
        "unit bundle",
        Lines(&[
            "unit bundle sealed chart -f values.yaml -O sealed.unit.sqlite",
            "unit bundle sealed chart -f other.yaml -O other.unit.sqlite",
            "unit bundle failing failing -f values.yaml -O failing.unit.sqlite",
        ]),
    ),
    ("unit generate-key", Lines(&["unit generate-key unit.key"])),
    ("unit sign", Lines(&["unit sign sealed.unit.sqlite --key unit.key"])),
    ("unit inspect", Lines(&["unit inspect sealed.unit.sqlite"])),
    ("unit diff", Lines(&["unit diff sealed.unit.sqlite other.unit.sqlite"])),
    ("unit plan", Lines(&["unit plan sealed.unit.sqlite --sandbox"])),
    ("unit apply", Lines(&["unit apply sealed.unit.sqlite --sandbox --soak 0s"])),
    (
        "unit promote",
        Lines(&["unit promote sealed.unit.sqlite --sandbox --to prod --allow-unverified --soak 0s"]),
    ),
    ("unit verify", Lines(&["unit verify sealed.unit.sqlite --sandbox --soak 0s"])),
    ("unit resume", Lines(&["unit resume sealed.unit.sqlite --sandbox"])),
    ("unit abort", Lines(&["unit abort sealed.unit.sqlite --sandbox"])),
    ("unit rollback", Lines(&["unit rollback sealed.unit.sqlite --sandbox"])),
    ("unit replay", Lines(&["unit replay sealed.unit.sqlite"])),
    (
        "unit export",
        Lines(&[
            "unit export sealed.unit.sqlite --format values --to-dir exported",
            "unit export sealed.unit.sqlite --format rendered --to-dir rendered",
        ]),
    ),
    ("unit", NoValues(GROUP)),
    ("unit merge-ledger", NoValues(UNITS)),
    ("unit push", NoValues(UNITS)),
    ("unit pull", NoValues(UNITS)),
    ("pipeline", NoValues(GROUP)),
    ("bundle", NoValues(GROUP)),
    ("gate", NoValues(GROUP)),
    ("pipeline list", NoValues(PROMOTION)),
    ("pipeline show", NoValues(PROMOTION)),
    ("pipeline explain", NoValues(PROMOTION)),
    ("pipeline history", NoValues(PROMOTION)),
    ("pipeline diff", NoValues(PROMOTION)),
    ("pipeline graph", NoValues(PROMOTION)),
    ("pipeline validate", NoValues(PROMOTION)),
    ("pipeline promote", NoValues(PROMOTION)),
    ("pipeline rollback", NoValues(PROMOTION)),
    ("pipeline pause", NoValues(PROMOTION)),
    ("pipeline resume", NoValues(PROMOTION)),
    ("pipeline retry", NoValues(PROMOTION)),
    ("pipeline approve", NoValues(PROMOTION)),
    ("pipeline init", NoValues(PROMOTION)),
    ("pipeline rehearse", NoValues(PROMOTION)),
    ("pipeline demo", NoValues(PROMOTION)),
    ("bundle create", NoValues(PROMOTION)),
    ("bundle list", NoValues(PROMOTION)),
    ("bundle show", NoValues(PROMOTION)),
    ("bundle wait", NoValues(PROMOTION)),
    ("bundle delete", NoValues(PROMOTION)),
    ("gate list", NoValues(PROMOTION)),
    ("gate explain", NoValues(PROMOTION)),
    ("gate test", NoValues(PROMOTION)),
    ("gate simulate", NoValues(PROMOTION)),
    ("gate override", NoValues(PROMOTION)),
    ("delete", Lines(&["delete web --sandbox"])),
    ("chart", NoValues(GROUP)),
    ("chart search", NoValues(GROUP)),
    ("chart registry", NoValues(GROUP)),
    ("chart secret", NoValues(GROUP)),
    ("chart secret key", NoValues(GROUP)),
    ("chart secret values", NoValues(GROUP)),
    ("chart secret file", NoValues(GROUP)),
    ("chart deps", NoValues(GROUP)),
    ("repo", NoValues(GROUP)),
    ("package", NoValues(GROUP)),
    ("kustomize", NoValues(GROUP)),
    ("kustomize edit", NoValues(GROUP)),
    ("kustomize edit set", NoValues(GROUP)),
    ("kustomize edit add", NoValues(GROUP)),
    ("run", NoValues(GROUP)),
    ("stack", NoValues(GROUP)),
    ("secrets", NoValues(GROUP)),
    ("secrets policy", NoValues(GROUP)),
    ("sandbox", NoValues(GROUP)),
    ("controller", NoValues(GROUP)),
    ("controller run", NoValues(PROMOTION)),
    ("controller install", NoValues(PROMOTION)),
    ("controller uninstall", NoValues(PROMOTION)),
    ("agent", NoValues(PROMOTION)),
    ("audit", NoValues(GROUP)),
    ("audit summary", NoValues(PROMOTION)),
    ("audit verify", NoValues(PROMOTION)),
    ("audit timeline", NoValues(PROMOTION)),
    ("doctor", NoValues(PROMOTION)),
    ("chart create", NoValues(CHARTS)),
    ("chart show", NoValues(CHARTS)),
    ("chart package", NoValues(CHARTS)),
    ("chart verify", NoValues(CHARTS)),
    ("chart pull", NoValues(CHARTS)),
    ("chart push", NoValues(CHARTS)),
    ("chart search repo", NoValues(CHARTS)),
    ("chart registry login", NoValues(CHARTS)),
    ("chart registry logout", NoValues(CHARTS)),
    ("chart secret key create", NoValues(CHARTS)),
    ("chart secret key rotate", NoValues(CHARTS)),
    ("chart secret values encrypt", NoValues(CHARTS)),
    ("chart secret values decrypt", NoValues(CHARTS)),
    ("chart secret values edit", NoValues(CHARTS)),
    ("chart secret file encrypt", NoValues(CHARTS)),
    ("chart secret file decrypt", NoValues(CHARTS)),
    ("chart secret file edit", NoValues(CHARTS)),
    ("chart deps list", NoValues(CHARTS)),
    ("chart deps update", NoValues(CHARTS)),
    ("chart deps build", NoValues(CHARTS)),
    ("repo add", NoValues(CHARTS)),
    ("repo list", NoValues(CHARTS)),
    ("repo remove", NoValues(CHARTS)),
    ("repo update", NoValues(CHARTS)),
    ("repo index", NoValues(CHARTS)),
    ("package schema", NoValues(FILES)),
    ("package schema generate", NoValues(FILES)),
    ("package test", NoValues(FILES)),
    ("package init", NoValues(FILES)),
    ("kustomize build", NoValues(FILES)),
    ("kustomize edit set image", NoValues(FILES)),
    ("kustomize edit set namespace", NoValues(FILES)),
    ("kustomize edit add resource", NoValues(FILES)),
    ("run schema", NoValues(FILES)),
    ("graph", NoValues(FILES)),
    ("config", NoValues(FILES)),
    ("completions", NoValues(FILES)),
    ("man", NoValues(FILES)),
    ("sandbox up", NoValues(SANDBOX)),
    ("sandbox down", NoValues(SANDBOX)),
    ("sandbox status", NoValues(SANDBOX)),
    ("sandbox kubeconfig", NoValues(SANDBOX)),
    ("sandbox reset", NoValues(SANDBOX)),
    ("sandbox save", NoValues(SANDBOX)),
    ("sandbox load", NoValues(SANDBOX)),
    ("sandbox clone", NoValues(SANDBOX)),
];

#[test]
fn every_command_is_scanned_or_says_why_not() {
    let reference = Place::new().run(&["reference", "cli"]).ok();
    let headings = reference.lines().filter_map(|line| line.strip_prefix("## `slipway ")?.strip_suffix('`'));
    let commands: BTreeSet<&str> = headings.collect();
    let table: BTreeSet<&str> = TABLE.iter().map(|(command, _)| *command).collect();
    assert_eq!(
        commands.difference(&table).collect::<Vec<_>>(),
        Vec::<&&str>::new(),
        "not in the table of the leak scan"
    );
    assert_eq!(table.difference(&commands).collect::<Vec<_>>(), Vec::<&&str>::new(), "no longer a command");
    assert!(TABLE.iter().all(|(_, scan)| !matches!(scan, NoValues(""))));
}

/// Every text a canary must not be found as.
pub(crate) fn forms() -> BTreeSet<String> {
    let mut forms = BTreeSet::new();
    for canary in CANARIES {
        let lines = canary.lines().filter(|line| line.len() >= 8);
        for text in std::iter::once(canary.trim_end()).chain(lines) {
            forms.insert(text.to_owned());
            let json = serde_json::to_string(text).unwrap();
            forms.insert(json.trim_matches('"').to_owned());
            forms.insert(text.replace('\'', "''"));
            forms.insert(text.bytes().map(|byte| format!("{byte:02x}")).collect());
            forms.insert(text.bytes().map(|byte| format!("{byte:02X}")).collect());
            let percent = |byte: u8| match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                    char::from(byte).to_string()
                }
                byte => format!("%{byte:02X}"),
            };
            forms.insert(text.bytes().map(percent).collect());
            for (skip, lead) in [(0, ""), (2, "x"), (3, "xx")] {
                let encoded = base64(format!("{lead}{text}").as_bytes());
                let core: String = encoded.trim_end_matches('=').chars().skip(skip).collect();
                // The last digit depends on what follows.
                let core = &core[..core.len() - 1];
                forms.insert(core.to_owned());
                forms.insert(core.replace('+', "-").replace('/', "_"));
            }
        }
    }
    forms
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let word =
            chunk.iter().fold(0u32, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for digit in 0..=chunk.len() {
            text.push(char::from(DIGITS[(word >> (18 - 6 * digit) & 63) as usize]));
        }
        text.push_str(&"=="[..3 - chunk.len()]);
    }
    text
}

/// A backend that repeats a secret in the body of every error.
fn talkative_backend() -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { continue };
            let mut request = [0; 4096];
            let _ = stream.read(&mut request);
            let body = serde_json::json!({"errors": [CANARIES[0], CANARIES[2]]}).to_string();
            let _ = write!(
                stream,
                "HTTP/1.1 403 Forbidden\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                body.len()
            );
        }
    });
    address
}

pub(crate) fn furnished() -> Place {
    let place = Place::new();
    place.run(&["sandbox", "up", "--detach", "--speed", "max"]).ok();
    place.write(
        "slipway.yaml",
        "secrets:\n  interpolate: true\n  audit: {file: .slipway/audit.jsonl}\n  providers:\n    local: {type: file, path: \
         inputs/dev.json}\n  policy:\n    rules: [{id: no-files-in-ci, when: {ci: true}, deny: {types: [file]}}]\n",
    );
    let [plain, lines, quoted] = CANARIES;
    let secrets =
        serde_json::json!({"plain": plain, "lines": lines, "quoted": quoted, "fields": {"a": plain}});
    place.write("inputs/dev.json", secrets.to_string());
    let down = format!(
        "providers: {{down: {{type: vault, address: 'http://{}', token: vault-token-value}}}}\n",
        talkative_backend()
    );
    place.write("down.yaml", down);
    let values = "plain: secret://local/plain\nlines: secret://local/lines\nquoted: secret://local/quoted\n";
    place.write("values.yaml", format!("{values}dsn: \"user:${{secret://local/plain}}@db\"\n"));
    place.write("other.yaml", format!("{values}dsn: none\nlevel: other\n"));
    let template = "apiVersion: v1\nkind: Secret\nmetadata: {name: web}\nstringData:\n  plain: {{ .Values.plain | quote }}\n  \
        lines: {{ .Values.lines | quote }}\ndata:\n  encoded: {{ .Values.quoted | b64enc }}\n---\n\
        apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: web\n  annotations: {sum: \"{{ .Values.plain | sha256sum }}\"}\ndata:\n  \
        plain: {{ .Values.plain | quote }}\n  dsn: {{ .Values.dsn | quote }}\n  quoted: {{ .Values.quoted | toJson }}\n  \
        hex: \"{{ printf \"%x\" .Values.plain }}\"\n  url: {{ .Values.quoted | urlquery | quote }}\n  \
        nested: {{ printf \"x%s\" .Values.plain | b64enc }}\n  lines: |\n    {{- .Values.lines | nindent 4 }}\n  level: {{ .Values.level | default \"low\" }}\n";
    for (chart, template) in [
        ("chart", template),
        ("failing", "{{ fail (printf \"no: %s %s %s\" .Values.plain .Values.lines .Values.quoted) }}\n"),
        (
            "refused",
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: refused\n  annotations: {sim/reject: {{ .Values.plain | quote }}}\n",
        ),
    ] {
        place.write(
            &format!("{chart}/Chart.yaml"),
            format!("apiVersion: v2\nname: {chart}\nversion: 1.0.0\n"),
        );
        place.write(&format!("{chart}/templates/all.yaml"), template);
    }
    place.write("chart/templates/NOTES.txt", "plain {{ .Values.plain }} quoted {{ .Values.quoted }}\n");
    place.write(
        "demo.kurel/parameters.yaml",
        "kurel:\n  name: demo\n  version: 1.0.0\n  appVersion: \"1\"\nlevel: low\n",
    );
    place.write("demo.kurel/patches/00-base.kpatch", "[configmap.settings]\ndata.level: \"${level}\"\n");
    place.write(
        "demo.kurel/resources/a.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {level: low}\n",
    );
    place.write("level.yaml", "level: secret://local/plain\n");
    let runbook = |reference: &str| {
        format!(
            "apiVersion: khook.io/v1\nkind: Khook\nmetadata: {{name: boot}}\nstate: {{namespace: default}}\nsteps:\n- name: put\n  \
             apply:\n    namespace: default\n    manifests:\n    - inline: |\n        apiVersion: v1\n        kind: ConfigMap\n        \
             metadata: {{name: boot}}\n        data: {{dsn: \"user:${{{reference}}}@db\"}}\n- name: patch\n  needs: [put]\n  patch:\n    \
             target: configmap/boot\n    namespace: default\n    type: merge\n    patch: {{data: {{more: \"${{{reference}}}\"}}}}\n"
        )
    };
    place.write("boot.yaml", runbook("secret://local/plain"));
    place.write("wrong.yaml", runbook("secret://local/nothing").replace("name: boot}", "name: wrong}"));
    place.write(
        "stack.yaml",
        "apiVersion: ktl.dev/v1\nkind: Stack\nname: shop\ndefaults: {namespace: default, values: [values.yaml]}\nreleases:\n\
         - {name: one, chart: ./chart}\n- {name: two, chart: ./refused, needs: [one]}\n",
    );
    place
}

/// The files slipway wrote: neither the backend's own nor the cluster's.
fn written(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap().flatten() {
        let path = entry.path();
        let is_ours = !["inputs", "sandbox"].iter().any(|name| path.ends_with(name));
        if path.is_dir() && is_ours {
            written(&path, found);
        } else if path.is_file() {
            found.push(path);
        }
    }
}

#[test]
fn no_byte_of_any_command_holds_a_secret() {
    let place = furnished();
    let _down = Down(&place);
    let forms = forms();
    let leak = |text: &str| forms.iter().find(|form| text.contains(form.as_str())).cloned();
    let mut leaks = Vec::new();
    for (command, scan) in TABLE {
        let Lines(lines) = scan else { continue };
        for line in *lines {
            for form in ["", " -o json -vvv", " -o yaml --log-format json"] {
                let line = format!("{line}{form}");
                let ran = place.run(&line.split(' ').collect::<Vec<_>>());
                for (stream, text) in [("stdout", &ran.out), ("stderr", &ran.err)] {
                    leaks.extend(leak(text).map(|form| format!("{line}: {stream}: {form}\n{text}")));
                }
                assert!(!ran.err.contains("this is a bug in slipway"), "{line}: {}", ran.err);
                if ran.code == Some(64) && !line.contains("--reveal") {
                    leaks.push(format!("{command}: wrong usage: {line}: {}", ran.err));
                }
            }
        }
    }
    let mut files = Vec::new();
    written(place.path(), &mut files);
    for file in &files {
        let bytes = std::fs::read(file).unwrap();
        leaks
            .extend(leak(&String::from_utf8_lossy(&bytes)).map(|form| format!("{}: {form}", file.display())));
    }
    assert!(files.iter().any(|file| file.ends_with("report.json")), "reports are among the files");
    assert!(leaks.is_empty(), "{} leaks:\n{}", leaks.len(), leaks.join("\n"));
}
