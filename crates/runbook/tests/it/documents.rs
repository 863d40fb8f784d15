//! Documents are read whole: everything wrong at once, where the user wrote it.

use slipway_event::Redactor;
use slipway_runbook::{
    Action, ChartSource, Diagnostics, Inputs, LoadOptions, LoadedDocument, Variables, load,
};

fn read_with(source: &str, set: &[&str], options: LoadOptions) -> Result<LoadedDocument, Diagnostics> {
    let inputs = Inputs { set: set.iter().map(|&flag| flag.to_owned()).collect(), ..Inputs::default() };
    let variables = Variables::gather(&inputs).expect("good flags");
    load("f.yaml", source, &variables, options, &Redactor::new())
}

fn read(source: &str) -> Result<LoadedDocument, Diagnostics> {
    read_with(source, &[], LoadOptions::default())
}

/// `line:column code` of everything found.
fn found(result: &Result<LoadedDocument, Diagnostics>) -> Vec<String> {
    let all = match result {
        Ok(loaded) => &loaded.warnings,
        Err(found) => found,
    };
    let show = |found: &slipway_runbook::Diagnostic| {
        let at = found.problem.at.as_ref().map_or((0, 0), |at| (at.line, at.column));
        format!("{}:{} {}", at.0, at.1, found.problem.code.as_deref().unwrap_or("?"))
    };
    all.iter().map(show).collect()
}

/// A document with these steps.
fn steps(steps: &str) -> String {
    format!("apiVersion: khook.io/v1\nkind: Khook\nmetadata: {{name: demo}}\nsteps:\n{steps}")
}

#[test]
fn everything_wrong_is_reported_at_once() {
    let source = "\
apiVersion: khook.io/v1
kind: Hook
metadata: {name: demo}
defaults:
  timeout: 10
steps:
  - name: cni
    needs: [gate]
    helm:
      chart: cilium:1.18.4
      version: 1.18.4
      repo: https://${CH_USER}:${CH_PW}@charts.example
      skipIf: exists
  - name: gate
    needs: [cni]
    wait: {for: ready, on: pods, namespce: kube-system}
  - name: gate
    job: {}
";
    let result = read_with(source, &["CH_USER=me"], LoadOptions::default());
    assert_eq!(
        found(&result),
        [
            "2:7 E021",
            "5:12 E008",
            "11:7 E204",
            "12:32 E100",
            "13:15 E215",
            "15:13 E060",
            "16:17 E361",
            "16:34 E007",
            "17:11 E054",
            "18:10 E400",
        ]
    );
    let text = result.expect_err("full of mistakes").into_problems().to_string();
    for expected in [
        "`10s` or `10m`",
        "`exists` belongs to apply",
        "cni → gate → cni",
        "condition=Ready",
        "did you mean `namespace`?",
    ] {
        assert!(text.contains(expected), "{expected} in\n{text}");
    }
}

#[test]
fn a_whole_document() {
    let source = "\
apiVersion: khook.io/v1
kind: Khook
metadata: {name: demo}
defaults: {timeout: 2m, retries: 1, retryDelay: 1s, onError: continue}
state: {}
steps:
  - name: cni
    when: vars.get(\"CNI\", \"cilium\") == \"cilium\"
    helm: {chart: 'cilium:1.18.4', repo: 'https://u:p%40@charts.example/x', values: {a: 1}, atomic: true}
  - name: gate
    needs: [cni]
    timeout: 10s
    wait: {for: condition=Ready, on: pods, allNamespaces: true, fieldSelector: status.phase!=Succeeded}
  - name: old
    delete: {resource: daemonset/aws-node, namespace: kube-system}
  - name: tune
    patch: {target: storageclass/gp3, type: merge, patch: {metadata: {annotations: {a: b}}}}
  - name: restart
    rollout: {restart: Deployment/web, namespace: x}
  - name: app
    apply: {manifests: [{file: ./a.yaml}, {inline: 'kind: X'}], waitFor: condition=Established, serverSide: true}
  - name: run
    job: {image: busybox, command: [sh], env: {B: '1', A: '2'}}
";
    let loaded = read(source).unwrap_or_else(|found| panic!("{}", found.into_problems()));
    let document = &loaded.document;
    assert_eq!(document.steps.len(), 7);
    let state = document.state.as_ref().expect("kept");
    assert_eq!((state.namespace.as_str(), state.name.as_str()), ("default", "khook-state-demo"));
    let Action::Helm(helm) = &document.steps[0].action else { panic!("helm") };
    assert!(helm.wait && helm.atomic && helm.release == "cni" && helm.namespace == "default");
    let ChartSource::Repo { url, name, version, auth } = &helm.chart else { panic!("repo") };
    assert_eq!(
        (url.as_str(), name.as_str(), version.as_deref()),
        ("https://charts.example/x", "cilium", Some("1.18.4"))
    );
    assert_eq!(auth.as_ref().map(|auth| auth.password.as_str()), Some("p@"));
    assert!(document.steps[0].when.as_ref().is_some_and(|when| when.holds));
    assert_eq!(document.steps[1].timeout.as_secs(), 10);
    assert_eq!(document.steps[0].retries, 1);
    let Action::Job(job) = &document.steps[6].action else { panic!("job") };
    assert_eq!(job.env[0].0, "A");
}

#[test]
fn mistakes_by_code() {
    let mut wrong = Vec::new();
    for (step, expected) in [
        ("  - {name: a}\n", "E055"),
        ("  - {name: a, wait: {for: delete, on: pods}, job: {image: x}}\n", "E056"),
        ("  - {name: A, job: {image: x}}\n", "E052"),
        ("  - {job: {image: x}}\n", "E051"),
        ("  - {name: a, needs: [b], job: {image: x}}\n", "E058"),
        ("  - {name: a, needs: [a], job: {image: x}}\n", "E059"),
        ("  - {name: a, timeout: 0s, job: {image: x}}\n", "E032"),
        ("  - {name: a, retries: -1, job: {image: x}}\n", "E033"),
        ("  - {name: a, onError: stop, job: {image: x}}\n", "E034"),
        ("  - {name: a, timeout: 5d, job: {image: x}}\n", "E030"),
        ("  - {name: a, helm: {}}\n", "E200"),
        ("  - {name: a, helm: }\n", "E057"),
        ("  - {name: a, helm: {chart: x, version: '1'}}\n", "E201"),
        ("  - {name: a, helm: {chart: x, version: '1', repo: 'ftp://x'}}\n", "E202"),
        ("  - {name: a, helm: {chart: ./x, repo: 'https://x'}}\n", "E203"),
        ("  - {name: a, helm: {chart: ./x, version: '1'}}\n", "E205"),
        ("  - {name: a, helm: {chart: ./x, auth: {username: a, password: b}}}\n", "E206"),
        (
            "  - {name: a, helm: {chart: 'x:1', repo: 'https://u:p@x', auth: {username: a, password: b}}}\n",
            "E207",
        ),
        ("  - {name: a, helm: {chart: 'x:1', repo: 'https://u@x'}}\n", "E208"),
        ("  - {name: a, helm: {chart: 'x:1:2', repo: 'https://x'}}\n", "E209"),
        ("  - {name: a, helm: {chart: 'oci://x'}}\n", "E210"),
        ("  - {name: a, helm: {chart: ./x, valuesFrom: [{}]}}\n", "E211"),
        ("  - {name: a, helm: {chart: ./x, valuesFrom: [{url: x}]}}\n", "E212"),
        ("  - {name: a, helm: {chart: ./x, release: A}}\n", "E213"),
        ("  - {name: a, helm: {chart: ./x, namespace: A}}\n", "E214"),
        ("  - {name: a, helm: {chart: a/b, repo: 'https://x'}}\n", "E216"),
        ("  - {name: a, helm: {chart: x, repo: 'https://x', version: 1.18}}\n", "E008"),
        ("  - {name: a, apply: {}}\n", "E300"),
        ("  - {name: a, apply: {manifests: [{}]}}\n", "E301"),
        ("  - {name: a, apply: {manifests: [{kustomize: x}]}}\n", "E302"),
        ("  - {name: a, apply: {manifests: [{url: x}]}}\n", "E303"),
        ("  - {name: a, apply: {manifests: [{file: x}], createNamespace: true}}\n", "E304"),
        ("  - {name: a, apply: {manifests: [{file: x}], waitFor: ready}}\n", "E305"),
        ("  - {name: a, apply: {manifests: [{file: x}], waitFor: delete}}\n", "E306"),
        ("  - {name: a, apply: {manifests: [{file: x}], skipIf: installed}}\n", "E307"),
        ("  - {name: a, delete: {}}\n", "E320"),
        ("  - {name: a, delete: {release: x, selector: a=b}}\n", "E321"),
        ("  - {name: a, delete: {resource: pods, namespace: x, allNamespaces: true, selector: a}}\n", "E322"),
        ("  - {name: a, delete: {resource: pod/x, selector: a=b}}\n", "E323"),
        ("  - {name: a, delete: {resource: pod/x, allNamespaces: true}}\n", "E324"),
        ("  - {name: a, delete: {resource: a/b/c}}\n", "E325"),
        ("  - {name: a, delete: {resource: pods, selector: 'a in'}}\n", "E326"),
        ("  - {name: a, patch: {target: x, patch: {a: 1}}}\n", "E340"),
        ("  - {name: a, patch: {target: a/b, type: x, patch: {a: 1}}}\n", "E341"),
        ("  - {name: a, patch: {target: a/b}}\n", "E342"),
        ("  - {name: a, patch: {target: a/b, patch: []}}\n", "E343"),
        ("  - {name: a, patch: {target: a/b, type: json, patch: [{op: x}]}}\n", "E344"),
        ("  - {name: a, wait: {for: delete}}\n", "E360"),
        ("  - {name: a, wait: {on: pods}}\n", "E009"),
        ("  - {name: a, wait: {for: delete, on: pods, namespace: x, allNamespaces: true}}\n", "E362"),
        ("  - {name: a, wait: {for: delete, on: pod/x, selector: a=b}}\n", "E363"),
        ("  - {name: a, wait: {for: delete, on: pod/x, fieldSelector: a=b}}\n", "E363"),
        ("  - {name: a, wait: {for: delete, on: pod/x, allNamespaces: true}}\n", "E364"),
        ("  - {name: a, wait: {for: delete, on: a/b/c}}\n", "E365"),
        ("  - {name: a, wait: {for: delete, on: pods, selector: 'a in'}}\n", "E366"),
        ("  - {name: a, wait: {for: delete, on: pods, namespace: A}}\n", "E308"),
        ("  - {name: a, apply: {manifests: [{file: x}], namespace: A}}\n", "E308"),
        ("  - {name: a, helm: {chart: ./x, skipIf: exists}}\n", "E215"),
        ("  - {name: a, job: {}}\n", "E400"),
        ("  - {name: a, job: {image: '${X}'}}\n", "E100"),
        ("  - {name: a, job: {image: '${X:-y|}'}}\n", "E101"),
        ("  - {name: a, job: {image: '${X:-y|nope}'}}\n", "E102"),
        ("  - {name: a, job: {image: '${X:-y|splitList \",\"}'}}\n", "E103"),
        ("  - {name: a, rollout: {restart: deployment/x, status: deployment/x, namespace: x}}\n", "E380"),
        ("  - {name: a, rollout: {namespace: x}}\n", "E380"),
        ("  - {name: a, rollout: {restart: deployment/x}}\n", "E381"),
        ("  - {name: a, rollout: {restart: deploy/x, namespace: x}}\n", "E382"),
        ("  - {name: a, job: {image: x, env: {1A: x}}}\n", "E401"),
        ("  - {name: a, job: {image: x, skipIf: exists}}\n", "E402"),
        ("  - {name: a, job: {image: x, namespace: A}}\n", "E403"),
        ("  - {name: a, when: 'vars.ENV ==', job: {image: x}}\n", "E061"),
        ("  - {name: a, when: 'env == \"x\"', job: {image: x}}\n", "E062"),
        ("  - {name: a, when: 'vars.N > 3', job: {image: x}}\n", "E062"),
        ("  - {name: a, when: 'size(vars)', job: {image: x}}\n", "E063"),
        ("  - {name: a, when: 'vars.NOPE == \"x\"', job: {image: x}}\n", "E064"),
        ("  - {name: a, job: {image: x, image: y}}\n", "E006"),
        ("  - {name: a, dependsOn: [b], job: {image: x}}\n", "E007"),
        ("  - {name: a, job: [}\n", "E003"),
        ("  - {name: a, job: !x {image: y}}\n", "E011"),
    ] {
        let result = read(&steps(step));
        let errors: Vec<String> = match &result {
            Ok(_) => Vec::new(),
            Err(found) => found.errors().filter_map(|found| found.problem.code.clone()).collect(),
        };
        if errors != [expected] {
            wrong.push(format!("{step}: {errors:?} instead of {expected}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn warnings_by_code() {
    for (step, expected) in [
        ("  - {name: a, helm: {chart: x, repo: 'https://x'}}\n", "W001"),
        ("  - {name: a, job: {image: x}}\n  - {name: b, needs: [a, a], job: {image: x}}\n", "W002"),
        ("  - {name: a, delete: {resource: pods}}\n", "W003"),
        ("  - {name: a, wait: {for: condition=Ready, on: pods}}\n", "W007"),
        ("  - {name: a, job: {image: x}} # ${X:-y}\n", "W010"),
        ("  - {name: a, patch: {target: a/b, patch: {}}}\n", "W013"),
        ("  - {name: a, patch: {target: a/b, type: json, patch: [{op: remove, path: /x}]}}\n", "W016"),
    ] {
        let result = read(&steps(step));
        let codes = found(&result);
        assert!(result.is_ok() && codes.len() == 1 && codes[0].ends_with(expected), "{step}: {codes:?}");
        let options = LoadOptions { warnings_as_errors: true, ..LoadOptions::default() };
        assert!(read_with(&steps(step), &[], options).is_err());
    }
}

#[test]
fn files_that_are_no_document() {
    for (source, expected) in [
        ("", "E005"),
        ("# nothing\n", "E005"),
        ("- a\n", "E005"),
        ("a: [", "E003"),
        ("apiVersion: khook.io/v1\nkind: Khook\nmetadata: {name: a}\nsteps: []\n", "E050"),
        ("apiVersion: khook.io/v1\nkind: Khook\nmetadata: {}\nsteps: [{name: a, job: {image: x}}]\n", "E022"),
        ("apiVersion: v0\nkind: Khook\nmetadata: {name: a}\nsteps: [{name: a, job: {image: x}}]\n", "E020"),
        (
            "apiVersion: khook.io/v1\nkind: Khook\nmetadata: {name: A_}\nstate: {}\nsteps: [{name: a, job: {image: x}}]\n",
            "E042",
        ),
        (
            "apiVersion: khook.io/v1\nkind: Khook\nmetadata: {name: a}\nsteps: [{name: a, job: {image: x}}]\n---\na: 1\n",
            "E004",
        ),
        (&format!("# {}\n", "x".repeat(8 << 20)), "E002"),
    ] {
        let found = read(source).expect_err("no document");
        let codes: Vec<_> = found.errors().filter_map(|found| found.problem.code.clone()).collect();
        assert_eq!(codes, [expected], "{source}");
    }
}

#[test]
fn values_may_not_change_the_structure_when_asked() {
    let source = steps("  - {name: a, job: {image: ${IMAGE}}}\n");
    let options = LoadOptions { strict_variables: true, ..LoadOptions::default() };
    assert!(read_with(&source, &["IMAGE=busybox"], options).is_ok());
    let injected = read_with(&source, &["IMAGE=x, command: [evil]"], options);
    assert!(found(&injected).iter().any(|found| found.ends_with("E107")), "{injected:?}");
}

#[test]
fn excerpts_never_show_values() {
    let source = steps("  - {name: a, timeout: ${T}, job: {image: x}}\n");
    let problems =
        read_with(&source, &["T=hunter2"], LoadOptions::default()).expect_err("no duration").into_problems();
    for problem in problems.iter() {
        assert!(!problem.excerpt.as_deref().unwrap_or_default().contains("hunter2"));
        assert!(problem.message.contains("the value of `T`"), "{}", problem.message);
    }
}

#[test]
fn places_end_where_the_text_ends() {
    let ends = |source: &str, set: &[&str]| -> Vec<String> {
        let found = read_with(source, set, LoadOptions::default()).expect_err("mistakes");
        let shown = |found: &slipway_runbook::Diagnostic| {
            let (at, end) = (found.problem.at.clone().expect("a place"), found.end.expect("an end"));
            format!("{}:{}-{}:{}", at.line, at.column, end.end_line, end.end_column)
        };
        found.errors().map(shown).collect()
    };
    let step = |more: &str| steps(&format!("  - {{name: a, {more}, job: {{image: x}}}}\n"));
    assert_eq!(ends(&step("timeout: 5d"), &[]), ["5:24-5:26"]);
    assert_eq!(ends(&step("needs: [\"bé\"]"), &[]), ["5:23-5:27"]);
    // A value ends where its reference does.
    assert_eq!(ends(&step("timeout: ${T}"), &["T=a very long value"]), ["5:24-5:28"]);
    assert_eq!(ends(&step("timeout: ${T}x"), &["T=5"]), ["5:24-5:29"]);
}
