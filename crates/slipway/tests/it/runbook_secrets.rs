//! No command about runbooks shows a secret, whatever becomes of the run and in whichever form it is told.

use crate::sandbox::Down;
use crate::support::{Place, Ran};

/// Every secret of these tests holds this word and nothing else does.
const MARKER: &str = "mark3r";
/// The first of them begins like this in base64.
const ENCODED: &str = "bWFyazNyLVRPS0";
const SECRETS: [(&str, &str); 3] = [
    ("KHOOK_SECRET_TOKEN", "mark3r-TOKEN-value"),
    ("KHOOK_SECRET_LABEL", "mark3r-label-value"),
    ("KHOOK_SECRET_PW", "mark3r p@ss/word"),
];

/// Secrets in values, manifests, names of objects, conditions, selectors, patches and jobs.
const GOOD: &str = "\
apiVersion: khook.io/v1
kind: Khook
metadata: {name: demo}
state: {}
steps:
  - name: maps
    apply:
      namespace: ${LABEL}
      createNamespace: true
      manifests:
        - inline: |
            apiVersion: v1
            kind: ConfigMap
            metadata: {name: '${LABEL}', labels: {key: '${LABEL}'}}
            data: {a: '${TOKEN}', b: '${PW}', c: '${TOKEN|b64enc}'}
        - inline: |
            apiVersion: v1
            kind: Secret
            metadata: {name: hidden}
            stringData: {a: '${TOKEN}', b: literal-mark3r-of-a-secret}
        - file: ./maps.yaml
  - {name: never, when: '\"${TOKEN}\" == \"x\"', job: {image: busybox}}
  - {name: always, when: 'vars.TOKEN != \"\"', job: {image: 'registry/${LABEL}', env: {T: '${TOKEN}'}}}
  - {name: web, needs: [maps], helm: {chart: ./web, release: '${LABEL}', namespace: '${LABEL}', values: {key: '${TOKEN}'}}}
  - {name: patched, needs: [maps], patch: {target: 'configmap/${LABEL}', namespace: '${LABEL}', patch: {data: {d: '${PW}'}}}}
  - {name: gone, needs: [patched], delete: {resource: configmaps, namespace: '${LABEL}', selector: 'no=${LABEL}'}}
  - {name: seen, needs: [patched], wait: {for: 'jsonpath={.data.a}=${TOKEN}', on: 'configmap/${LABEL}', namespace: '${LABEL}'}}
";

/// Steps that fail, each with a secret in what it says.
const FAILING: &str = "\
apiVersion: khook.io/v1
kind: Khook
metadata: {name: demo}
state: {}
defaults: {timeout: 1s, onError: continue}
steps:
  - {name: file, apply: {manifests: [{file: './${TOKEN}.yaml'}]}}
  - {name: yaml, apply: {manifests: [{inline: 'a: [${TOKEN}'}]}}
  - {name: object, apply: {manifests: [{inline: '{apiVersion: v1, kind: ConfigMap, metadata: {name: \"${TOKEN}\"}}'}]}}
  - {name: kind, apply: {manifests: [{inline: '{apiVersion: v1, kind: \"K${LABEL}\", metadata: {name: a}}'}]}}
  - {name: url, apply: {manifests: [{url: 'http://me:${PW|urlquery}@127.0.0.1:1/${TOKEN}.yaml'}]}}
  - {name: values, helm: {chart: ./web, valuesFrom: [{url: 'http://me:literal-mark3r@127.0.0.1:1/x'}]}}
  - {name: chart, helm: {chart: './${TOKEN}'}}
  - {name: repo, helm: {chart: x, version: '1', repo: 'http://127.0.0.1:1/${TOKEN}', auth: {username: u, password: '${PW}'}}}
  - {name: template, helm: {chart: ./broken, values: {key: '${TOKEN}'}}}
  - {name: patch, patch: {target: 'configmap/${LABEL}', patch: {a: '${TOKEN}'}}}
  - {name: delete, delete: {resource: 'configmap/${LABEL}', ignoreNotFound: false}}
  - {name: wait, wait: {for: 'condition=${TOKEN}', on: 'pod/${LABEL}'}}
  - {name: rollout, rollout: {restart: 'deployment/${LABEL}', namespace: '${LABEL}'}}
  - {name: job, job: {image: 'i${TOKEN}', namespace: '${LABEL}'}}
  - {name: never, when: '\"${TOKEN}\" == \"x\"', job: {image: busybox}}
";

/// Documents that are refused, with secrets in names, wrong places and excerpts.
const REFUSED: [&str; 7] = [
    "apiVersion: khook.io/v1\nkind: Khook\nmetadata: {name: '${LABEL}'}\nsteps: [{name: a, job: {image: x}}]\n",
    "apiVersion: khook.io/v1\nkind: Khook\nmetadata: {name: x}\nsteps: [{name: '${LABEL}', needs: ['${LABEL}'], job: {image: x}}]\n",
    "apiVersion: khook.io/v1\nkind: Khook\nmetadata: {name: x}\nstate: {name: '${LABEL}', namespace: '${LABEL}'}\nsteps: [{name: a, job: {image: x}}]\n",
    "apiVersion: ${TOKEN}\nkind: ${TOKEN}\nmetadata: {name: x, '${TOKEN}': 1}\nsteps: [{name: a, timeout: '${TOKEN}', when: '${TOKEN}', needs: ['${TOKEN}'], '${TOKEN}': {}}]\n",
    "apiVersion: khook.io/v1\nkind: Khook\nmetadata: {name: x}\nsteps: [{name: a, when: 'int(vars.TOKEN) > 3', helm: {chart: x, colour: red, repo: 'https://me:literal-mark3r@host', auth: {username: u, password: literal-mark3r-too}}}]\n",
    "apiVersion: khook.io/v1\nkind: Khook\nmetadata: {name: x}\nsteps: [{name: a, helm: {chart: 'oci://me:literal-mark3r@host', auth: {username: u, password: other-mark3r]}}}]\n",
    "apiVersion: khook.io/v1\nkind: Khook\nmetadata: {name: x}\nsteps:\n  - name: a\n    helm: {chart: ./x}\n    wait: {for: '${TOKEN}', on: '${TOKEN}/${TOKEN}/${TOKEN}', selector: '!!${TOKEN}'}\n  - {name: b, wait: {for: '${TOKEN}', on: '${TOKEN}/a/b', selector: '=${TOKEN}'}}\n",
];

fn place() -> Place {
    let place = Place::new();
    place.write(
        "maps.yaml",
        "apiVersion: v1\nkind: Secret\nmetadata: {name: other}\nstringData: {a: file-mark3r-secret}\n",
    );
    for (chart, template) in [
        (
            "web",
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata: {key: {{ .Values.key | quote }}}\n",
        ),
        ("broken", "{{ fail .Values.key }}\n"),
    ] {
        place.write(
            &format!("{chart}/Chart.yaml"),
            format!("apiVersion: v2\nname: {chart}\nversion: 1.0.0\n"),
        );
        place.write(&format!("{chart}/templates/a.yaml"), template);
    }
    place
}

fn run(place: &Place, words: &[&str]) -> Ran {
    let mut command = place.command(&[&["run"], words].concat());
    Ran::from(command.envs(SECRETS).output().expect("runs"))
}

/// Runs a command in every form of output and gives its exit code.
fn shows_nothing(place: &Place, words: &[&str]) -> Option<i32> {
    let mut code = None;
    for form in ["table", "json", "yaml"] {
        let ran = run(place, &[words, &["-o", form]].concat());
        assert_hidden(&format!("{words:?} -o {form}"), &format!("{}{}", ran.out, ran.err));
        code = ran.code;
    }
    code
}

fn assert_hidden(what: &str, text: &str) {
    let shown = text.to_lowercase().contains(MARKER) || text.contains(ENCODED);
    assert!(!shown, "{what} shows a secret:\n{text}");
}

#[test]
fn refused_documents_show_no_secret() {
    let place = place();
    for (number, document) in REFUSED.iter().enumerate() {
        place.write("f.yaml", document);
        for words in [
            &["validate", "-f", "f.yaml"][..],
            &["plan", "--offline", "-f", "f.yaml"],
            &["graph", "-f", "f.yaml"],
            &["apply", "--sandbox", "-f", "f.yaml"],
        ] {
            assert_eq!(shows_nothing(&place, words), Some(64), "document {number}: {words:?}");
        }
    }
}

#[test]
fn no_command_shows_a_secret() {
    let place = place();
    place.run(&["sandbox", "up", "--detach", "--speed", "max"]).ok();
    let _down = Down(&place);
    for (document, ends) in [(GOOD, Some(0)), (FAILING, Some(1))] {
        place.write("f.yaml", document);
        let every = |words: &[&str]| shows_nothing(&place, &[words, &["-f", "f.yaml"]].concat());
        every(&["validate"]);
        every(&["validate", "--check-files"]);
        assert_eq!(every(&["plan", "--offline"]), Some(0));
        for form in ["mermaid", "dot", "json"] {
            assert_eq!(every(&["graph", "--format", form]), Some(0));
        }
        for before_and_after in 0..2 {
            assert_eq!(every(&["plan", "--sandbox"]), Some(0));
            assert_eq!(every(&["plan", "--sandbox", "--diff"]), Some(0));
            assert_eq!(every(&["diff", "--sandbox"]), Some(0));
            assert_eq!(every(&["status", "--sandbox"]), Some(0));
            assert_eq!(every(&["destroy", "--sandbox", "--dry-run"]), Some(0));
            if before_and_after == 0 {
                every(&["apply", "--sandbox", "--rehearse", "--only", "unknown"]);
                let files = ["--junit", "junit.xml", "--report", "report.json"];
                let apply = [&["apply", "--sandbox", "--no-resume"], &files[..]].concat();
                assert_eq!(every(&apply), ends, "{document}");
                every(&["apply", "--sandbox", "--no-resume", "--log-format", "json", "-v"]);
                every(&["apply", "--sandbox", "--no-resume", "--rehearse"]);
                for file in ["junit.xml", "report.json"] {
                    let text = std::fs::read_to_string(place.path().join(file)).expect("was written");
                    assert_hidden(file, &text);
                }
            }
        }
        every(&["destroy", "--sandbox", "-v"]);
    }
}
