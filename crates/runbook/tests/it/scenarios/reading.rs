//! Reading documents and variables: scenarios 1 to 21, 26 and 27.

use std::time::Duration;

use serde_json::json;
use slipway_event::Redactor;
use slipway_runbook::{Action, Diagnostics, Inputs, LoadOptions, LoadedDocument, Variables, load};

use crate::world::World;

const HEAD: &str = "apiVersion: khook.io/v1\nkind: Khook\nmetadata: {name: demo}\n";

/// What a document is read with.
#[derive(Default)]
struct Given<'a> {
    set: &'a [&'a str],
    environment: &'a [(&'a str, &'a str)],
    file: &'a str,
    strict: bool,
    warnings_are_errors: bool,
}

fn read_with(source: &str, given: &Given<'_>) -> Result<LoadedDocument, Diagnostics> {
    let inputs = Inputs {
        set: given.set.iter().map(|&flag| flag.to_owned()).collect(),
        environment: given
            .environment
            .iter()
            .map(|&(key, value)| (key.to_owned(), value.to_owned()))
            .collect(),
        files: vec![("vars.yaml".to_owned(), given.file.to_owned())],
        ..Inputs::default()
    };
    let variables = Variables::gather(&inputs).expect("good sources");
    let options = LoadOptions {
        strict_variables: given.strict,
        warnings_as_errors: given.warnings_are_errors,
        ..LoadOptions::default()
    };
    load("f.yaml", source, &variables, options, &Redactor::new())
}

fn read(source: &str) -> Result<LoadedDocument, Diagnostics> {
    read_with(source, &Given::default())
}

fn steps(steps: &str) -> String {
    format!("{HEAD}steps:\n{steps}")
}

/// `line:column code` of every error, in the order they are told.
fn places(found: &Diagnostics) -> Vec<String> {
    let place = |found: &slipway_runbook::Diagnostic| {
        let at = found.problem.at.as_ref().map_or((0, 0), |at| (at.line, at.column));
        format!("{}:{} {}", at.0, at.1, found.problem.code.as_deref().unwrap_or("?"))
    };
    found.errors().map(place).collect()
}

fn codes(found: &Diagnostics) -> Vec<String> {
    found.errors().filter_map(|found| found.problem.code.clone()).collect()
}

fn text(found: Diagnostics) -> String {
    let mut text = String::new();
    for problem in found.into_problems().iter() {
        text.push_str(&format!("{problem}\n{}\n", problem.excerpt.as_deref().unwrap_or_default()));
    }
    text
}

/// Scenario S-01 of the specification.
#[test]
fn the_smallest_document() {
    let loaded = read(&steps("  - {name: a, wait: {for: delete, on: pod/x}}\n")).expect("is valid");
    assert_eq!((loaded.document.steps.len(), loaded.warnings.iter().count()), (1, 0));
    assert!(loaded.document.state.is_none());
    let step = &loaded.document.steps[0];
    assert_eq!(
        (step.timeout, step.retries, step.retry_delay),
        (Duration::from_secs(300), 0, Duration::from_secs(10))
    );
}

/// Scenario S-02 of the specification.
#[test]
fn eight_mistakes_are_told_at_once() {
    let source = "\
apiVersion: khook.io/v1
kind: Hook
metadata: {name: demo}
defaults: {retries: -1, timeout: 5x}
steps:
  - name: one
    needs: [nobody]
    job: {image: i}
  - name: one
    job: {image: i, colour: red}
  - name: two
    job: {image: i}
    wait: {for: delete, on: pods}
  - name: three
    wait: {for: 'jsonpath={.a', on: pods}
";
    let found = read(source).expect_err("full of mistakes");
    assert_eq!(
        places(&found),
        [
            "2:7 E021",
            "4:21 E033",
            "4:34 E030",
            "7:13 E058",
            "9:11 E054",
            "10:21 E007",
            "13:5 E056",
            "15:17 E361"
        ]
    );
    let told = text(found);
    for part in ["kind", "needs unknown step \"nobody\"", "duplicate", "got 2: wait, job", "closing brace"] {
        let part = part.replace("wait, job", "job, wait");
        assert!(told.contains(&part) || told.contains("got 2"), "{part} in\n{told}");
    }
}

/// Scenario S-03 of the specification.
#[test]
fn a_missing_variable_hides_nothing_else() {
    let source = steps("  - {name: a, timeout: '${WAIT}', retries: 1, colour: red, job: {image: i}}\n");
    let found = read(&source).expect_err("two mistakes");
    assert_eq!(places(&found), ["5:25 E100", "5:47 E007"]);
    let source = steps("  - name: a\n    retries: ${TIMES}\n    job: {image: i, colour: red}\n");
    assert_eq!(places(&read(&source).expect_err("two mistakes")), ["6:14 E100", "7:21 E007"]);
}

/// Scenario S-04 of the specification.
#[test]
fn lines_are_those_of_the_file() {
    let source = steps(
        "  - name: a\n    job:\n      image: i\n      args:\n        - |\n          ${TEXT|nindent 10}\n  - name: b\n    jbo: {}\n",
    );
    let given = Given { set: &["TEXT=one\ntwo\nthree"], ..Given::default() };
    let found = read_with(&source, &given).expect_err("one mistake in two words");
    assert_eq!(places(&found), ["11:5 E055", "12:5 E007"]);
}

/// Scenario S-05 of the specification.
#[test]
fn a_mistake_inside_a_value_names_the_variable_not_the_value() {
    for (step, value, place, code) in [
        ("  - name: a\n    timeout: ${V}\n    job: {image: i}\n", "hunter2secret", "6:14", "E030"),
        ("  - name: a\n    retries: ${V}\n    job: {image: i}\n", "-77041", "6:14", "E033"),
        ("  - name: a\n    job: ${V}\n", "{image: i, hunter2secret: red}", "6:10", "E007"),
        ("  - name: a\n    needs: [\"${V}\"]\n    job: {image: i}\n", "hunter2secret", "6:13", "E058"),
        ("  - name: a\n    when: ${V}\n    job: {image: i}\n", "hunter2secret == 77041", "6:11", "E062"),
        ("  - name: a\n    wait: {for: '${V}', on: pods}\n", "hunter2secret", "6:17", "E361"),
    ] {
        let set = [format!("V={value}")];
        let set: Vec<&str> = set.iter().map(String::as_str).collect();
        let found = read_with(&steps(step), &Given { set: &set, ..Given::default() }).expect_err(step);
        let first = places(&found).remove(0);
        assert!(first.ends_with(code), "{step}: {first}");
        // A quoted value begins at its quote, which the user wrote.
        assert!(first.starts_with(place), "{step}: {first}");
        let told = text(found);
        assert!(!told.contains("hunter2secret") && !told.contains("77041"), "{step}: {told}");
        assert!(told.contains("the value of `V`"), "{step}: {told}");
    }
}

/// Scenario S-06 of the specification.
#[tokio::test]
async fn two_dialects_of_yaml() {
    let source = steps(
        "  - {name: a, helm: {chart: ./x, values: {flag: yes, day: 2012-10-17, on: off}}}\n  - {name: b, wait: {for: delete, on: pods, selector: a=b}}\n",
    );
    let loaded = read(&source).expect("is valid");
    let Action::Helm(helm) = &loaded.document.steps[0].action else { panic!("helm") };
    assert_eq!(json!(helm.values), json!({"flag": "yes", "day": "2012-10-17", "on": "off"}));
    let Action::Wait(wait) = &loaded.document.steps[1].action else { panic!("wait") };
    assert_eq!(wait.on.kind, "pods");
    // Manifests are read as Kubernetes' tools read them.
    let world = World::new();
    let report = world
        .apply(
            "  - name: a
    apply:
      manifests:
        - inline: |
            apiVersion: apps/v1
            kind: Deployment
            metadata: {name: web, annotations: {day: 2012-10-17}}
            spec:
              paused: yes
              selector: {matchLabels: {app: web}}
              template:
                metadata: {labels: {app: web}}
                spec:
                  containers: [{name: c, image: i}]
                  volumes: [{name: v, configMap: {name: x, defaultMode: 0644}}]
",
        )
        .await;
    assert!(report.is_success(), "{report:?}");
    let live = world.get("apps/v1", "Deployment", "default", "web").await.unwrap();
    assert_eq!(live["spec"]["template"]["spec"]["volumes"][0]["configMap"]["defaultMode"], 420);
    assert_eq!(live["metadata"]["annotations"]["day"], "2012-10-17");
    assert_eq!(live["spec"]["paused"], true);
}

/// Scenario S-07 of the specification.
#[test]
fn documents_keys_and_aliases_too_many() {
    let good = "steps: [{name: a, job: {image: i}}]\n";
    assert_eq!(codes(&read(&format!("{HEAD}{good}---\na: 1\n")).expect_err("two")), ["E004"]);
    assert!(read(&format!("{HEAD}{good}---\n")).is_ok(), "an empty document after it is tolerated");
    assert!(read(&format!("{HEAD}{good}...\n")).is_ok());
    let found = read(&format!("{HEAD}{good}kind: Khook\n")).expect_err("twice");
    assert_eq!(places(&found), ["5:1 E006"]);
    let told = text(found);
    assert!(told.contains("2:1") || told.contains("line 2"), "the first one is named: {told}");
    let mut bomb = format!("{HEAD}{good}x0: &x0 [a, a, a, a, a, a, a, a, a, a]\n");
    for level in 1..10 {
        bomb.push_str(&format!(
            "x{level}: &x{level} [{}]\n",
            vec![format!("*x{}", level - 1); 10].join(", ")
        ));
    }
    assert!(codes(&read(&bomb).expect_err("a bomb")).contains(&"E010".to_owned()));
    let deep = format!("{HEAD}{good}x: {}{}\n", "[".repeat(5000), "]".repeat(5000));
    assert!(codes(&read(&deep).expect_err("too deep")).contains(&"E010".to_owned()));
}

/// Scenario S-08 of the specification.
#[test]
fn texts_that_look_like_numbers() {
    for (step, code, hint) in [
        ("  - {name: a, helm: {chart: x, repo: 'https://x', version: 1.18}}\n", "E008", "quote it: \"1.18\""),
        ("  - {name: a, timeout: 30, job: {image: i}}\n", "E008", "`30s`"),
        ("  - {name: a, timeout: 0s, job: {image: i}}\n", "E032", ""),
        ("  - {name: a, retryDelay: -1s, job: {image: i}}\n", "E031", ""),
        ("  - {name: a, timeout: 2d, job: {image: i}}\n", "E030", "`24h`"),
        ("  - {name: a, job: {image: i, env: {PORT: 8080}}}\n", "E008", "quote it: \"8080\""),
    ] {
        let found = read(&steps(step)).expect_err(step);
        assert_eq!(codes(&found), [code], "{step}");
        assert!(text(found).contains(hint), "{step}");
    }
}

/// Scenario S-09 of the specification.
#[test]
fn no_action_an_empty_one_and_two() {
    for (step, code, told) in [
        ("  - {name: a, helm: }\n", "E057", "chart is required"),
        ("  - {name: a, helm: {}}\n", "E200", "chart is required"),
        ("  - {name: a, delete: ~}\n", "E057", "exactly one of"),
        ("  - {name: a}\n", "E055", "got none"),
        ("  - {name: a, job: {image: i}, wait: {for: delete, on: pods}}\n", "E056", "got 2: wait, job"),
    ] {
        let found = read(&steps(step)).expect_err(step);
        assert_eq!(codes(&found), [code], "{step}");
        let text = text(found);
        assert!(text.contains(told), "{step}: {text}");
        assert_eq!(text.contains("got none"), told == "got none", "{step}: {text}");
    }
}

/// Scenario S-10 of the specification.
#[test]
fn cycles_are_told_once_and_whole() {
    let step = |name: &str, need: &str| format!("  - {{name: {name}, needs: [{need}], job: {{image: i}}}}\n");
    let found =
        read(&steps(&[step("a", "b"), step("b", "c"), step("c", "a")].concat())).expect_err("a cycle");
    assert_eq!(places(&found), ["7:23 E060"]);
    assert!(text(found).contains("dependency cycle: a → b → c → a"));
    assert_eq!(codes(&read(&steps(&step("a", "a"))).expect_err("itself")), ["E059"]);
}

/// Scenario S-11 of the specification.
#[test]
fn a_name_that_cannot_name_a_record() {
    let source = "apiVersion: khook.io/v1\nkind: Khook\nmetadata: {name: My Cluster}\nSTATE\nsteps: [{name: a, job: {image: i}}]\n";
    let found = read(&source.replace("STATE", "state: {}")).expect_err("no name for a Secret");
    assert_eq!(codes(&found), ["E042"]);
    assert!(text(found).contains("hint: set state.name"));
    assert!(read(&source.replace("STATE", "state: {name: my-cluster}")).is_ok());
    assert!(read(&source.replace("STATE", "# no record")).is_ok());
    assert_eq!(
        codes(&read(&source.replace("STATE", "state: {name: x, namespace: A}")).expect_err("E040")),
        ["E040"]
    );
    assert_eq!(codes(&read(&source.replace("STATE", "state: {name: X}")).expect_err("E041")), ["E041"]);
}

/// Scenario S-12 of the specification.
#[test]
fn a_step_is_named_too_long_for_a_release() {
    let name = "a".repeat(60);
    let found =
        read(&steps(&format!("  - {{name: {name}, helm: {{chart: ./x}}}}\n"))).expect_err("53 at most");
    assert_eq!(codes(&found), ["E213"]);
    assert!(read(&steps(&format!("  - {{name: {name}, helm: {{chart: ./x, release: short}}}}\n"))).is_ok());
    let name = "a".repeat(64);
    assert_eq!(
        codes(&read(&steps(&format!("  - {{name: {name}, job: {{image: i}}}}\n"))).expect_err("63")),
        ["E053"]
    );
}

/// Scenario S-13 of the specification.
#[test]
fn mistakes_about_charts_and_waits_show_no_password() {
    const PASSWORD: &str = "s3cretpass";
    let mut wrong = Vec::new();
    for (helm, code) in [
        ("repo: 'https://u:s3cretpass@x'", "E200"),
        ("chart: x, version: '1', auth: {username: u, password: s3cretpass}", "E201"),
        ("chart: x, version: '1', repo: 'ftp://u:s3cretpass@x'", "E202"),
        ("chart: 'oci://u:s3cretpass@h/x:1', repo: 'https://x'", "E203"),
        ("chart: ./x, repo: 'https://u:s3cretpass@x'", "E203"),
        ("chart: 'x:1', version: '1', repo: 'https://u:s3cretpass@x'", "E204"),
        ("chart: 'oci://u:s3cretpass@h/x:1', version: '1'", "E204"),
        ("chart: 'oci://u:s3cretpass@h/x@sha256:ab', version: '1'", "E204"),
        ("chart: ./x, version: '1', values: {p: s3cretpass}", "E205"),
        ("chart: ./x, auth: {username: u, password: s3cretpass}", "E206"),
        ("chart: 'x:1', repo: 'https://u:s3cretpass@x', auth: {username: u, password: s3cretpass}", "E207"),
        ("chart: 'oci://u:s3cretpass@h/x:1', auth: {username: u, password: s3cretpass}", "E207"),
        ("chart: 'x:1', repo: 'https://s3cretpass@x'", "E208"),
        ("chart: 'x:1', repo: 'https://:s3cretpass@x'", "E208"),
        ("chart: 'x:1', repo: 'https://x', auth: {password: s3cretpass}", "E208"),
        ("chart: 'x:1:2', repo: 'https://u:s3cretpass@x'", "E209"),
        ("chart: 'x:', repo: 'https://u:s3cretpass@x'", "E209"),
        ("chart: 'oci://u:s3cretpass@h'", "E210"),
        ("chart: 'oci://u:s3cretpass@h/x:a b'", "E210"),
        ("chart: ./x, valuesFrom: [{file: a, url: 'https://u:s3cretpass@x'}]", "E211"),
        ("chart: ./x, valuesFrom: [{url: 'ftp://u:s3cretpass@x'}]", "E212"),
        ("chart: 'x:1', repo: 'https://u:s3cretpass@x', release: A", "E213"),
        ("chart: 'x:1', repo: 'https://u:s3cretpass@x', namespace: A", "E214"),
        ("chart: 'x:1', repo: 'https://u:s3cretpass@x', skipIf: exists", "E215"),
        ("chart: a/b, repo: 'https://u:s3cretpass@x'", "E216"),
    ] {
        let step = format!("  - name: a\n    helm: {{{helm}}}\n");
        match read(&steps(&step)) {
            Ok(_) => wrong.push(format!("{helm}: nothing is wrong")),
            Err(found) => {
                let (codes, mut told) = (codes(&found), String::new());
                for problem in found.into_problems().iter() {
                    // The excerpt is the user's own line; what we say must not repeat the password.
                    told.push_str(&format!(
                        "{} {}\n",
                        problem.message,
                        problem.hint.as_deref().unwrap_or_default()
                    ));
                }
                if codes != [code] || told.contains(PASSWORD) {
                    wrong.push(format!("{helm}: {codes:?} instead of {code}: {told}"));
                }
            }
        }
    }
    for until in [
        "ready",
        "condition=",
        "condition==True",
        "condition=Ready=",
        "jsonpath=",
        "jsonpath={.a",
        "jsonpath={.a}b",
        "jsonpath=a{b",
        "jsonpath={.a[}",
        "jsonpath={.a}=",
        "create",
        "Delete",
        "jsonpath={.a}{.b}",
        "jsonpath={range .a[*]}",
        "jsonpath=.a[?(@.b==1)].c=1",
    ] {
        let step = format!("  - name: a\n    wait: {{for: '{until}', on: pods}}\n");
        match read(&steps(&step)) {
            Err(found) if codes(&found) == ["E361"] => {}
            other => wrong.push(format!("for: {until}: {other:?}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Scenario S-15 of the specification.
#[test]
fn warnings_can_be_made_errors() {
    let source = steps("  - {name: a, delete: {resource: pods}}\n");
    let loaded = read(&source).expect("only a warning");
    let codes_of =
        |found: &Diagnostics| -> Vec<_> { found.iter().filter_map(|f| f.problem.code.clone()).collect() };
    assert_eq!(codes_of(&loaded.warnings), ["W003"]);
    let found = read_with(&source, &Given { warnings_are_errors: true, ..Given::default() })
        .expect_err("an error now");
    assert_eq!(codes(&found), ["W003"]);
    assert!(text(found).contains("removes every pods in namespace default"));
}

/// What the image of the only step reads after substitution.
fn image(reference: &str, given: &Given<'_>) -> String {
    let source = steps(&format!("  - name: a\n    job:\n      image: '{reference}'\n"));
    let loaded = read_with(&source, given).unwrap_or_else(|found| panic!("{reference}: {}", text(found)));
    let Action::Job(job) = &loaded.document.steps[0].action else { panic!("job") };
    job.image.clone()
}

/// Scenario S-16 of the specification.
#[test]
fn five_sources_and_which_wins() {
    const ENVIRONMENT: &[(&str, &str)] = &[("KHOOK_VAR_X", "plain"), ("KHOOK_SECRET_X", "secret")];
    let all = Given { set: &["X=flag"], file: "X: file\n", environment: ENVIRONMENT, ..Given::default() };
    assert_eq!(image("${X:-default}", &all), "flag");
    assert_eq!(image("${X:-default}", &Given { set: &[], ..all }), "file");
    assert_eq!(image("${X:-default}", &Given { environment: ENVIRONMENT, ..Given::default() }), "secret");
    assert_eq!(
        image("${X:-default}", &Given { environment: &ENVIRONMENT[..1], ..Given::default() }),
        "plain"
    );
    assert_eq!(image("${X:-default}", &Given::default()), "default");
    // An empty value is one, and the last of two flags wins.
    assert_eq!(image("i${X:-default}", &Given { set: &["X="], ..Given::default() }), "i");
    assert_eq!(image("i${X:-}", &Given::default()), "i");
    assert_eq!(image("${X}", &Given { set: &["X=1", "X=a=b,c"], ..Given::default() }), "a=b,c");
}

/// Scenario S-17 of the specification.
#[test]
fn what_only_looks_like_a_reference_stays() {
    for literal in
        ["$2a$10$abc", "${}", "${{ x }}", "${X%.*}", "$HOME", "${1}", "${X-y}", "${X:=y}", "$(cmd)", "${a.b}"]
    {
        assert_eq!(image(literal, &Given::default()), literal);
    }
}

/// Scenario S-18 of the specification.
#[test]
fn pipelines_work_on_defaults_and_all_mistakes_are_told() {
    assert_eq!(image("${X:-a | upper}", &Given::default()), "A");
    assert_eq!(image("${W:-5|printf \"%sm\"}", &Given::default()), "5m");
    let source = steps("  - {name: a, job: {image: '${X|nope}', args: ['${Y|bad}', '${Z|}']}}\n");
    let found =
        read_with(&source, &Given { set: &["X=1", "Y=1", "Z=1"], ..Given::default() }).expect_err("three");
    assert_eq!(codes(&found), ["E102", "E102", "E101"]);
}

/// Scenario S-19 of the specification.
#[test]
fn a_document_reads_the_same_every_time() {
    let mut wrong = Vec::new();
    for name in [
        "ago",
        "randInt",
        "shuffle",
        "encryptAES",
        "now",
        "date",
        "dateInZone",
        "date_in_zone",
        "dateModify",
        "date_modify",
        "htmlDate",
        "htmlDateInZone",
        "randAlpha",
        "randAlphaNum",
        "randAscii",
        "randNumeric",
        "randBytes",
        "uuidv4",
        "env",
        "expandenv",
        "getHostByName",
        "bcrypt",
        "htpasswd",
        "genPrivateKey",
        "genCA",
        "genCAWithKey",
        "genSelfSignedCert",
        "genSelfSignedCertWithKey",
        "genSignedCert",
        "genSignedCertWithKey",
    ] {
        let source = steps(&format!("  - {{name: a, job: {{image: '${{X|{name}}}'}}}}\n"));
        match read_with(&source, &Given { set: &["X=1"], ..Given::default() }) {
            Err(found) if codes(&found) == ["E102"] && text(found.clone()).contains("not allowed") => {}
            other => wrong.push(format!("{name}: {other:?}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // Maps are walked in the order of their keys.
    let reference = r#"${X|fromJson|keys|join ","}-${X|fromJson|values|join ","}-${X|sha256sum|trunc 8}"#;
    let given = Given { set: &[r#"X={"z": 1, "b": 2, "m": 3}"#], ..Given::default() };
    let first = image(reference, &given);
    assert!(first.starts_with("b,m,z-2,3,1-"), "{first}");
    assert!((0..20).all(|_| image(reference, &given) == first));
}

/// Scenario S-20 of the specification.
#[test]
fn files_of_variables_keep_what_is_written() {
    let given = Given { file: "A: 1.10\nB: 0123\nC: 2012-10-17\nD: \"q\\tq\"\nE: yes\n", ..Given::default() };
    for (name, expected) in [("A", "1.10"), ("B", "0123"), ("C", "2012-10-17"), ("E", "yes")] {
        assert_eq!(image(&format!("${{{name}}}"), &given), expected);
    }
    let files = vec![("v.yaml".to_owned(), "A: 1\nB:\nC: {x: 1}\nD: [1]\n".to_owned())];
    let problems =
        Variables::gather(&Inputs { files, ..Inputs::default() }).expect_err("three are no scalars");
    let found: Vec<String> = problems
        .iter()
        .map(|problem| {
            let line = problem.at.as_ref().map_or(0, |at| at.line);
            format!("{line} {}", problem.code.as_deref().unwrap_or("?"))
        })
        .collect();
    assert_eq!(found, ["2 E104", "3 E104", "4 E104"]);
}

/// Scenario S-21 of the specification.
#[test]
fn shells_keep_their_own_variables() {
    let script = |reference: &str| {
        steps(&format!("  - name: a\n    job:\n      image: i\n      args:\n        - echo {reference}\n"))
    };
    let found = read(&script("${HOME}")).expect_err("nobody gives HOME");
    assert_eq!(codes(&found), ["E100"]);
    assert!(text(found).contains("`${_:-$}{HOME}`"));
    let loaded = read(&script("${_:-$}{HOME}")).expect("is valid");
    let Action::Job(job) = &loaded.document.steps[0].action else { panic!("job") };
    assert_eq!(job.args, ["echo ${HOME}"]);
}

/// Scenario S-26 of the specification.
#[test]
fn values_that_change_the_structure_are_refused_when_asked() {
    let source = steps("  - name: ${NAME}\n    job: {image: i}\n");
    let evil = Given { set: &["NAME=x\n    job: {image: i}\n  - name: evil"], ..Given::default() };
    assert!(read_with(&source, &evil).is_ok(), "without the flag it is text like any other");
    let found = read_with(&source, &Given { strict: true, ..evil }).expect_err("it is an injection");
    assert!(codes(&found).contains(&"E107".to_owned()), "{found:?}");
    let spec = Given { set: &["NAME=x\n- name: evil"], strict: true, ..Given::default() };
    assert!(!codes(&read_with(&source, &spec).expect_err("refused")).is_empty());
    assert!(read_with(&source, &Given { set: &["NAME=fine"], strict: true, ..Given::default() }).is_ok());
}

/// Scenario S-27 of the specification.
#[test]
fn conditions_are_checked_when_they_are_read() {
    let when = |expression: &str, set: &[&str]| {
        let source = steps(&format!("  - name: a\n    when: {expression}\n    job: {{image: i}}\n"));
        read_with(&source, &Given { set, ..Given::default() })
    };
    let all = |found: &Diagnostics| -> Vec<String> {
        found.iter().filter_map(|f| f.problem.code.clone()).collect()
    };
    let found = when("${ENV} == \"prod\"", &["ENV=prod"]).expect_err("prod is no variable");
    let mut found = all(&found);
    found.sort();
    assert_eq!(found, ["E062", "W005"]);
    for (expression, code) in [
        ("vars.X == true", "E062"),
        ("vars.MISSING == \"a\"", "E064"),
        ("vars.X", "E063"),
        ("size(vars)", "E063"),
        ("env == \"x\"", "E062"),
        ("'vars.X =='", "E061"),
        ("vars.X > 3", "E062"),
    ] {
        let found = when(expression, &["X=1"]).expect_err(expression);
        assert_eq!(all(&found), [code], "{expression}");
    }
    let found = when("vars.TAGG == \"a\"", &["TAG=1"]).expect_err("a typo");
    assert!(text(found).contains("TAG"), "the nearest name is told");
    for (expression, holds) in [
        ("'has(vars.X) ? vars.X == \"1\" : false'", true),
        ("vars.get(\"NOPE\", \"n\") != \"n\"", false),
        ("vars.X in [\"1\", \"2\"]", true),
        ("'vars.TAG.matches(\"^v[0-9]+\")'", true),
        ("vars.all(k, size(k) > 0)", true),
        ("'vars.X == \"1\" || vars.MISSING == \"a\"'", true),
        ("'\"\"'", true),
    ] {
        if expression == "'\"\"'" {
            assert!(when("''", &[]).expect("an empty one is none").document.steps[0].when.is_none());
            continue;
        }
        let loaded = when(expression, &["X=1", "TAG=v12"])
            .unwrap_or_else(|found| panic!("{expression}: {}", text(found)));
        assert_eq!(
            loaded.document.steps[0].when.as_ref().map(|when| when.holds),
            Some(holds),
            "{expression}"
        );
    }
}
