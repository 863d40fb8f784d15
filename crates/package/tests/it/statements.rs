//! What statements do to objects.

use serde_json::json;

use crate::support::{Kit, errors, field, said, warnings};

const CONTAINERS: &str = "deployment.web.spec.template.spec.containers";

/// Scenario A-01 of the specification.
#[test]
fn a_base_patch_merges_labels_and_reaches_every_container() {
    let kit = Kit::web(
        "global:\n  labels: {team: core, n: 1}\n  annotations: {a: b}\n  resources: {limits: {cpu: 1, memory: 1Gi}}\n",
    )
    .file(
        "resources/namespace.yaml",
        "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: apps\n  annotations: {kurel.gokure.dev/install-phase: pre-install}\n",
    )
    .patch(
        "00-base",
        "metadata.labels: \"${global.labels}\"\nmetadata.annotations: \"${global.annotations}\"\n\
         [deployment.*.spec.template.spec.containers.*]\nresources: \"${global.resources}\"\n",
    );
    let build = kit.built();
    for object in &build.objects {
        assert_eq!(object.value["metadata"]["labels"], json!({"team": "core", "n": "1"}), "{}", object.id);
        assert_eq!(object.value["metadata"]["annotations"]["a"], "b");
    }
    assert_eq!(
        field(&build, "Namespace", "/metadata/annotations/kurel.gokure.dev~1install-phase"),
        json!("pre-install")
    );
    for index in [0, 1] {
        let limits =
            field(&build, "Deployment", &format!("/spec/template/spec/containers/{index}/resources/limits"));
        assert_eq!(limits, json!({"cpu": 1, "memory": "1Gi"}));
    }
}

/// Scenarios of the specification.
#[test]
fn values_get_the_type_of_their_field() {
    let replicas = |parameter: &str| {
        Kit::web(&format!("replicas: {parameter}\n"))
            .patch("00", "[deployment.web]\nspec.replicas: \"${replicas}\"\n")
    };
    assert_eq!(replicas("3").field("Deployment", "/spec/replicas"), json!(3));
    assert_eq!(replicas("\"3\"").field("Deployment", "/spec/replicas"), json!(3));
    let wrong = replicas("three").fails();
    let text = said(&wrong, "KX033");
    assert!(text.starts_with("patches/00.kpatch:2:16: "), "{text}");
    assert!(text.contains("parameter `replicas` (parameters.yaml:2:11) is the string `three`"), "{text}");

    for (written, parameter, expected) in [
        ("\"${port}\"", "8080", Some("8080")),
        ("8080", "1", Some("8080")),
        ("1.10", "1", Some("1.10")),
        ("\"x${port}\"", "8080", Some("x8080")),
        ("!!str ${port}", "8080", Some("8080")),
        ("\"$${port}\"", "8080", Some("${port}")),
        ("true", "1", Some("true")),
    ] {
        let kit = Kit::web(&format!("port: {parameter}\n"))
            .patch("00", &format!("[{CONTAINERS}[name=app].env[name=PORT]]\nvalue: {written}\n"));
        let value = kit.field("Deployment", "/spec/template/spec/containers/0/env/0/value");
        assert_eq!(value.as_str(), expected, "{written}");
    }
    let quoted = Kit::web("").patch("00", "[deployment.web]\nspec.replicas: \"3\"\n").fails();
    assert_eq!(errors(&quoted), ["KX033"]);

    let custom = |written: &str| {
        Kit::bare("n: 5\n")
            .file(
                "resources/foo.yaml",
                "apiVersion: example.com/v1\nkind: Foo\nmetadata: {name: foo}\nspec: {}\n",
            )
            .patch("00", &format!("[foo.foo]\nspec.size: {written}\n"))
            .field("Foo", "/spec/size")
    };
    assert_eq!(custom("${n}"), json!(5));
    assert_eq!(custom("!!str ${n}"), json!("5"));
    assert_eq!(custom("!!int \"${n}\""), json!(5));
}

/// Scenario A-04 of the specification.
#[test]
fn a_number_used_as_text_keeps_its_digits() {
    let kit = |tag: &str| {
        Kit::web(&format!("r: reg\nn: img\nt: {tag}\n"))
            .patch("00", &format!("[{CONTAINERS}.0]\nimage: \"${{r}}/${{n}}:${{t}}\"\n"))
    };
    let build = kit("1.10").built();
    assert_eq!(field(&build, "Deployment", "/spec/template/spec/containers/0/image"), "reg/img:1.10");
    assert!(warnings(&build.problems).contains(&"KV030"), "{}", build.problems);
    let quoted = kit("\"1.10\"").built();
    assert!(!warnings(&quoted.problems).contains(&"KV030"));
    assert_eq!(kit("1.10").stream(), kit("\"1.10\"").stream());
}

/// Scenario A-05 of the specification.
#[test]
fn index_key_and_match_name_the_same_element() {
    let patched = |selector: &str| {
        Kit::web("").patch("00", &format!("[{CONTAINERS}{selector}]\nimage: new\n")).stream()
    };
    assert_eq!(patched(".0"), patched("[0]"));
    assert_eq!(patched(".0"), patched("[name=app]"));
    assert_eq!(patched(".0"), patched(".name=app"));
    assert_eq!(patched(".0"), patched("[name=app,image=\"app:1\"]"));
}

/// Scenario A-06 of the specification.
#[test]
fn an_absent_element_is_named_with_those_present() {
    let kit = |end: &str| Kit::web("").patch("00", &format!("[{CONTAINERS}[name=main]]{end}\nimage: x\n"));
    let text = said(&kit("").fails(), "KX020");
    assert!(text.contains("no element matching name=main in spec.template.spec.containers"), "{text}");
    assert!(
        text.contains("elements present: app, sidecar") && text.contains("resources/deployment.yaml:1"),
        "{text}"
    );
    assert!(text.starts_with("patches/00.kpatch:1:46"), "{text}");
    assert_eq!(kit("?").stream(), Kit::web("").stream());
    let on_key =
        Kit::web("").patch("00", "[deployment.web]\nspec.template.spec.containers[name=main].image?: x\n");
    assert_eq!(on_key.stream(), Kit::web("").stream());
}

/// Scenario A-07 of the specification.
#[test]
fn lists_grow_and_shrink_where_told() {
    let names = |op: &str, value: &str| -> Vec<String> {
        let kit = Kit::web("")
            .patch("00", &format!("[deployment.web.spec.template.spec]\ncontainers{op}: {value}\n"));
        let list = kit.field("Deployment", "/spec/template/spec/containers");
        list.as_array().unwrap().iter().map(|item| item["name"].as_str().unwrap().to_owned()).collect()
    };
    let new = "{name: new, image: n}";
    for (op, value, expected) in [
        ("[-]", new, vec!["app", "sidecar", "new"]),
        ("[-0]", new, vec!["new", "app", "sidecar"]),
        ("[-2]", new, vec!["app", "sidecar", "new"]),
        ("[-name=sidecar]", new, vec!["app", "new", "sidecar"]),
        ("[+name=app]", new, vec!["app", "new", "sidecar"]),
        ("[+1]", new, vec!["app", "sidecar", "new"]),
        ("[delete=name=sidecar]", "", vec!["app"]),
        ("[delete=0]", "", vec!["sidecar"]),
        ("[name=app][delete]", "", vec!["sidecar"]),
        ("[0]", "null", vec!["sidecar"]),
    ] {
        assert_eq!(names(op, value), expected, "{op}");
    }
    for (statement, code) in [
        ("containers[+5]: {name: new}", "KX020"),
        ("containers[-9]: {name: new}", "KX020"),
        ("containers[delete=name=x]:", "KX030"),
        ("nodeSelector[delete]:", "KX030"),
        ("restartPolicy[-]: x", "KX031"),
    ] {
        let kit = Kit::web("").patch(
            "00",
            &format!("[deployment.web.spec.template.spec]\nrestartPolicy: Always\n{statement}\n"),
        );
        assert_eq!(errors(&kit.fails()), [code], "{statement}");
    }
    let made =
        Kit::web("").patch("00", "[deployment.web.spec.template.spec]\ntolerations[-]: {operator: Exists}\n");
    assert_eq!(made.field("Deployment", "/spec/template/spec/tolerations"), json!([{"operator": "Exists"}]));
}

/// Scenario A-08 of the specification.
#[test]
fn a_builder_header_appends_an_element_each_time() {
    let kit = Kit::web("v: 2\n").patch(
        "00",
        &format!(
            "[{CONTAINERS}[name=app].env[-]]\nname: A\nvalue: 1\n\n[{CONTAINERS}[name=app].env[-]]\nname: B\nvalue: \"${{v}}\"\n"
        ),
    );
    assert_eq!(
        kit.field("Deployment", "/spec/template/spec/containers/0/env"),
        json!([{"name": "PORT", "value": "0"}, {"name": "A", "value": "1"}, {"name": "B", "value": "2"}])
    );
    let empty = Kit::web("").patch("00", &format!("[{CONTAINERS}[name=app].env[-]]\n")).fails();
    assert_eq!(errors(&empty), ["KP032"]);
}

/// Scenario A-10 of the specification.
#[test]
fn a_dotted_annotation_is_refused_with_the_quoted_key() {
    let kit =
        Kit::web("").patch("00", "[service.web]\nmetadata.annotations.prometheus.io/scrape: \"true\"\n");
    let text = said(&kit.fails(), "KX010");
    assert!(text.contains("metadata.annotations[\"prometheus.io/scrape\"]"), "{text}");
    let quoted =
        Kit::web("").patch("00", "[service.web]\nmetadata.annotations[\"prometheus.io/scrape\"]: \"true\"\n");
    assert_eq!(quoted.field("Service", "/metadata/annotations"), json!({"prometheus.io/scrape": "true"}));
}

/// Scenario A-11 of the specification.
#[test]
fn objects_are_switched_and_named_exactly() {
    let kit = Kit::web("ns: a.b\n")
        .file("resources/more.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: kube-system}\n")
        .file(
            "resources/map.yaml",
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a.b, namespace: apps}\n",
        )
        .file("resources/dots.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: a-b}\n")
        .patch("00", "[namespace.kube-system]\nenabled: false  # comment\n[configmap.${ns}]\ndata.k: v\n");
    let build = kit.built();
    let dashed = kit.clone().set("ns=a-b").patch("00", "[namespace.${ns}]\nmetadata.labels.x: y\n").stream();
    assert!(
        dashed.contains("  name: a-b\n  labels:\n    x: \"y\"\n") && dashed.matches("x: \"y\"").count() == 1
    );
    let missed = kit.clone().patch("00", "[namespace.${ns}]\nmetadata.labels.x: y\n").fails();
    assert_eq!(errors(&missed), ["KX002"], "`a.b` is one name, not a path below `a`");
    assert!(!build.objects.iter().any(|object| object.id.name == "kube-system"));
    assert_eq!(build.dropped[0].why, "disabled by patches/00.kpatch:2");
    assert_eq!(field(&build, "ConfigMap", "/data/k"), "v");
    let back = kit.clone().patch("10", "[namespace.kube-system]\nenabled: true\n").built();
    assert!(back.objects.iter().any(|object| object.id.name == "kube-system"), "the last statement counts");
    for (patch, code) in [("enabled: false\n", "KP031"), ("[service.web]\nenabled: 1\n", "KP030")] {
        assert_eq!(errors(&Kit::web("").patch("00", patch).fails()), [code]);
    }
}

/// Scenario A-13 of the specification.
#[test]
fn shapes_change_only_with_replace() {
    let kit = |statement: &str| Kit::web("").patch("00", &format!("[deployment.web]\n{statement}\n"));
    let text = said(&kit("spec.replicas: {a: 1}").fails(), "KX032");
    assert!(text.contains("[replace]"), "{text}");
    assert_eq!(
        kit("spec.template.spec.containers[replace]: [{name: only, image: o}]")
            .field("Deployment", "/spec/template/spec/containers"),
        json!([{"name": "only", "image": "o"}])
    );
    let custom = |statement: &str| {
        Kit::bare("")
            .file(
                "resources/foo.yaml",
                "apiVersion: example.com/v1\nkind: Foo\nmetadata: {name: foo}\nspec: {x: 1, tls: [a]}\n",
            )
            .patch("00", &format!("[foo.foo]\n{statement}\n"))
    };
    assert_eq!(errors(&custom("spec.x: {a: 1}").fails()), ["KX032"]);
    assert_eq!(custom("spec.x[replace]: {a: 1}").field("Foo", "/spec/x"), json!({"a": 1}));
    assert_eq!(custom("spec.tls: null").field("Foo", "/spec"), json!({"x": 1}));
    assert_eq!(kit("spec.replicas: null").field("Deployment", "/spec/replicas"), json!(null));
    assert_eq!(kit("spec.paused: null").stream(), Kit::web("").stream());
    assert_eq!(errors(&kit("spec.paused[delete]:").fails()), ["KX030"]);
    assert_eq!(kit("spec.paused[delete]?:").stream(), Kit::web("").stream());
    assert_eq!(errors(&kit("kind: Other").fails()), ["KX040"]);
}

/// Scenario A-43 of the specification.
#[test]
fn wildcards_skip_objects_that_lack_the_element() {
    let deployment = |name: &str, container: &str| {
        crate::support::WEB
            .replace("name: web, namespace", &format!("name: {name}, namespace"))
            .replace("name: app\n", &format!("name: {container}\n"))
    };
    let kit = Kit::bare("")
        .file("resources/a.yaml", &deployment("a", "app"))
        .file("resources/b.yaml", &deployment("b", "app"))
        .file("resources/c.yaml", &deployment("c", "main"));
    let patch =
        |name: &str| format!("[deployment.*.spec.template.spec.containers[name={name}]]\nimage: new\n");
    let stream = kit.clone().patch("00", &patch("app")).stream();
    assert_eq!(stream.matches("image: new").count(), 2);
    assert_eq!(errors(&kit.clone().patch("00", &patch("none")).fails()), ["KX022"]);
    let made = kit.clone().patch("00", "[*]\nmetadata.labels.x: y\nspec.extra.deep: 1\n").built();
    assert!(made.objects.iter().all(|object| object.value["metadata"]["labels"]["x"] == "y"));
    assert!(
        made.objects.iter().all(|object| object.value["spec"].get("extra").is_none()),
        "no maps outside metadata"
    );
}

#[test]
fn targets_are_exact_or_explained() {
    let kit = Kit::web("").file(
        "resources/second.yaml",
        &crate::support::SERVICE.replace("namespace: apps", "namespace: other"),
    );
    for (patch, code, hint) in [
        ("[deployment.wbe]\nspec.replicas: 1\n", "KX002", "did you mean `web`"),
        ("[deploymnt.web]\nspec.replicas: 1\n", "KX002", "did you mean `deployment`"),
        ("[service.web]\nspec.type: NodePort\n", "KX003", "apps/service.web"),
    ] {
        let problems = kit.clone().patch("00", patch).fails();
        let text = said(&problems, code);
        assert!(text.contains(hint), "{text}");
    }
    let fine = "[other/service.web]\nspec.type: NodePort\n[deployment.none]?\nspec.replicas: 9\n[*@\"apps\".web]\nspec.replicas: 4\n\
                [_/namespace.apps]\nmetadata.labels.a: b\n";
    let build = kit.clone().patch("00", fine).built();
    assert_eq!(field(&build, "Deployment", "/spec/replicas"), json!(4));
    let unmatched = kit.patch("00", "[statefulset.*]\nspec.replicas: 1\n").built();
    assert!(warnings(&unmatched.problems).contains(&"KX004"));
}

#[test]
fn blocks_quotes_and_comments_are_yaml() {
    let kit = Kit::web("").patch(
        "00",
        "# a comment\r\n[service.web]   # trailing\r\nmetadata.annotations:\r\n  \"a/b\": x # y\r\n  c: 'd'\r\nmetadata.annotations.text: |\r\n  one\r\n  two\r\n",
    );
    assert_eq!(
        kit.field("Service", "/metadata/annotations"),
        json!({"a/b": "x", "c": "d", "text": "one\ntwo\n"})
    );
    let nested = Kit::web("x: 1\n").patch(
        "00",
        "[deployment.web.spec.template.spec]\nvolumes:\n  - name: v\n    emptyDir: {}\n\ncontainers[name=app].env[name=PORT]:\n  value: \"${x}\"\n",
    );
    assert_eq!(
        nested.field("Deployment", "/spec/template/spec/volumes"),
        json!([{"name": "v", "emptyDir": {}}])
    );
    assert_eq!(
        nested.field("Deployment", "/spec/template/spec/containers/0/env/0"),
        json!({"name": "PORT", "value": "1"})
    );
}

#[test]
fn the_list_form_knows_four_patch_types() {
    let kit = Kit::web("n: 4\n").patch(
        "00",
        "- target: apps/deployment.web\n  patch:\n    spec.replicas: \"${n}\"\n    spec.template.spec.containers[name=app].image: new\n\
         - target: deployment.web\n  type: strategic\n  patch:\n    spec: {template: {spec: {containers: [{name: app, tty: true}]}}}\n\
         - target: service.web\n  type: merge\n  patch: {spec: {type: NodePort}}\n\
         - target: service.*\n  type: json6902\n  patch: [{op: add, path: /spec/ports/0/nodePort, value: 30080}]\n\
         - target: deployment.none\n  optional: true\n  patch: {spec.replicas: 9}\n",
    );
    let build = kit.built();
    assert_eq!(field(&build, "Deployment", "/spec/replicas"), json!(4));
    let containers = field(&build, "Deployment", "/spec/template/spec/containers");
    assert_eq!(containers.as_array().map(Vec::len), Some(2));
    assert_eq!((&containers[0]["image"], &containers[0]["tty"]), (&json!("new"), &json!(true)));
    assert_eq!(field(&build, "Service", "/spec/type"), "NodePort");
    assert_eq!(field(&build, "Service", "/spec/ports/0/nodePort"), json!(30080));
    let deleted = Kit::web("")
        .patch("00", "- target: service.web\n  type: strategic\n  patch: {$patch: delete}\n")
        .built();
    assert!(!deleted.objects.iter().any(|object| object.id.kind == "Service"));
    assert_eq!(
        errors(&Kit::web("").patch("00", "- target: service.web\n  kind: x\n  patch: {}\n").fails()),
        ["KP050"]
    );
}

#[test]
fn what_is_not_in_the_language_is_refused_by_name() {
    for (patch, code) in [
        ("[variables]\na: b\n", "KP060"),
        ("[[deployment.web]]\na: b\n", "KP062"),
        ("[service.web]\nspec.type: \"${a:-b}\"\n", "KP061"),
        ("[service.web]\nspec.type = NodePort\n", "KP005"),
        ("[service.^web$]\nspec.type: x\n", "KP063"),
        ("[service.web]\nspec.type: &a x\n", "KP020"),
        ("[service.web]\nspec.type: [1\n", "KP020"),
        ("[clusterrole.system:foo]\na: b\n", "KP010"),
        ("[service.web]\nspec.ports[0][delete].x:\n", "KP011"),
        ("[service.web]\nspec.selector[delete]: x\n", "KP033"),
        ("[service.web]\nspec.selector: {\"${a}\": x}\n", "KP021"),
    ] {
        let problems = Kit::web("").patch("00", patch).fails();
        assert!(errors(&problems).contains(&code), "{patch}: {problems}");
    }
}

#[test]
fn the_header_place_and_unknown_fields_are_told() {
    let build = Kit::web("").patch("00", "[deployment.web]\nspec.replica: 3\n").built();
    let text = said(&build.problems, "KX012");
    assert!(text.contains("did you mean `replicas`"), "{text}");
    let twice = Kit::web("").patch("00", "[deployment.web]\nspec.replicas: 3\nspec.replicas: 4\n").built();
    assert!(warnings(&twice.problems).contains(&"KP040"));
}

#[test]
fn an_unclosed_bracket_is_told_where_it_opens() {
    for (patch, line, column) in [
        ("[deployment.web]\nmetadata.labels: {a: b\nspec.replicas: 2\n", 2, 18),
        ("[deployment.web]\nmetadata.labels:\n  a: [b\nspec.replicas: 2\n", 3, 6),
        ("- target: deployment.web\n  patch: {spec: {replicas: 2}\n", 2, 10),
    ] {
        let problems = Kit::web("").patch("10", patch).fails();
        let found = problems.iter().find(|problem| problem.message.contains("is not closed"));
        let at = found.and_then(|problem| problem.at.clone()).map(|at| (at.line, at.column));
        assert_eq!(at, Some((line, column)), "{patch}: {problems}");
    }
}
