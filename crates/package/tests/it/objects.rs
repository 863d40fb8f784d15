//! Manifests and the checks of the result.

use serde_json::json;

use crate::support::{Kit, SERVICE, WEB, errors, field, said, warnings};

/// Scenario A-12 of the specification.
#[test]
fn namespaces_are_made_only_when_asked() {
    let maps = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: apps}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: b, namespace: kube-system}\n";
    let kit = |parameters: &str| Kit::bare(parameters).file("resources/maps.yaml", maps);
    let made = kit("global: {labels: {t: x}, namespaces: {create: true, exclude: [kube-system]}}\n").built();
    assert_eq!(made.synthesised, ["apps"]);
    assert_eq!(
        field(&made, "Namespace", ""),
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "apps", "labels": {"t": "x"}}})
    );
    let absent = kit("").built();
    assert!(absent.synthesised.is_empty());
    assert!(
        said(&absent.problems, "KR024").contains("namespace apps is used"),
        "kube-system is always there"
    );
    let dropped = Kit::web("global: {namespaces: {create: false}}\n").built();
    assert!(!dropped.objects.iter().any(|object| object.id.kind == "Namespace"));
    let excluded = Kit::web("global: {namespaces: {exclude: [apps]}}\n").built();
    assert_eq!(excluded.dropped[0].why, "listed in global.namespaces.exclude");
}

/// Scenario A-25 of the specification.
#[test]
fn duplicates_and_renames_are_found() {
    let twice = Kit::web("").file("resources/again.yaml", SERVICE).fails();
    let text = said(&twice, "KR020");
    assert!(
        text.contains("two Services named `web` in namespace `apps`")
            && text.contains("resources/again.yaml:1")
            && text.contains("resources/service.yaml:1"),
        "{text}"
    );
    let other = SERVICE.replace("name: web, namespace", "name: other, namespace");
    let clash = Kit::web("")
        .file("resources/other.yaml", &other)
        .patch("00", "[service.other]\nmetadata.name: web\n")
        .fails();
    assert_eq!(errors(&clash), ["KR021"]);
    let ingress = "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: web, namespace: apps}\nspec:\n  rules:\n  - host: a.b\n    http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}\n";
    let kit = Kit::web("").file("resources/ingress.yaml", ingress);
    assert!(!warnings(&kit.built().problems).contains(&"KR028"));
    let renamed =
        kit.patch("00", "[service.web]\nmetadata.name: new\n[ingress.web]\nmetadata.labels.a: b\n").built();
    assert!(said(&renamed.problems, "KR028").contains("renamed it to `new`"), "{}", renamed.problems);
}

/// Scenario A-26 of the specification.
#[test]
fn services_and_selectors_are_checked_against_pods() {
    let with = |patch: &str| Kit::web("").patch("00", patch);
    assert_eq!(warnings(&Kit::web("").built().problems), Vec::<&str>::new());
    for (patch, code) in [
        ("[service.web]\nspec.selector.app: none\n", "KR026"),
        ("[service.web]\nspec.ports[0].targetPort: grpc\n", "KR027"),
        ("[service.web]\nspec.ports[0].targetPort: 9999\n", "KR027"),
        ("[service.web]\nmetadata.namespace: other\n", "KR033"),
        ("[deployment.web]\nspec.template.spec.serviceAccountName: robot\n", "KR030"),
    ] {
        let build = with(patch).built();
        assert!(warnings(&build.problems).contains(&code), "{patch}: {}", build.problems);
    }
    for (patch, code) in [
        ("[deployment.web]\nspec.selector.matchLabels.app: other\n", "KR029"),
        (
            "[deployment.web.spec.template.spec.containers.0]\nvolumeMounts: [{name: gone, mountPath: /x}]\n",
            "KR034",
        ),
        ("[deployment.web]\nmetadata.labels.bad: \"a b\"\n", "KR023"),
        ("[deployment.web]\nmetadata.annotations[\"kurel.gokure.dev/install-phase\"]: later\n", "KR036"),
        ("[deployment.web]\nmetadata.annotations[\"kurel.gokure.dev/timeout\"]: \"5\"\n", "KR037"),
        ("[service.web]\nspec.type: Cluster\n", "KS003"),
        ("[deployment.web]\nspec.template.spec.containers[delete]:\n", "KS002"),
    ] {
        assert!(errors(&with(patch).fails()).contains(&code), "{patch}");
    }
}

/// Scenario A-40 of the specification.
#[test]
fn resources_are_plain_unless_asked() {
    let script = |value: &str| {
        format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: s, namespace: apps}}\ndata:\n  run: \"{value}\"\n"
        )
    };
    let quiet = Kit::web("").file("resources/map.yaml", &script("echo ${HOME} ${X:-1}"));
    let build = quiet.built();
    assert_eq!(field(&build, "ConfigMap", "/data/run"), "echo ${HOME} ${X:-1}");
    assert!(warnings(&build.problems).is_empty(), "{}", build.problems);
    let known = Kit::web("").file("resources/map.yaml", &script("name ${kurel.name}"));
    assert!(warnings(&known.built().problems).contains(&"KR050"));
    let on = known
        .file(
            "parameters.yaml",
            "kurel: {name: p, version: 1.0.0, appVersion: \"1\", substituteResources: true}\nn: 3\n",
        )
        .file("resources/deployment.yaml", &WEB.replace("replicas: 1", "replicas: ${n}"));
    let build = on.built();
    assert_eq!(field(&build, "ConfigMap", "/data/run"), "name p");
    assert_eq!(field(&build, "Deployment", "/spec/replicas"), json!(3));
}

/// Scenario A-41 of the specification.
#[test]
fn yaml_is_read_as_kubernetes_people_write_it() {
    let deployment = WEB
        .replace("metadata: {labels: {app: web}}", "metadata: {labels: {app: web, mode: on, answer: \"yes\"}}")
        .replace("    spec:\n", "    spec:\n      volumes: [{name: v, configMap: {name: c, defaultMode: 0644, optional: true}}]\n");
    let kit = Kit::web("").file("resources/deployment.yaml", &deployment);
    let build = kit.built();
    assert_eq!(
        field(&build, "Deployment", "/spec/template/spec/volumes/0/configMap/defaultMode"),
        json!(420)
    );
    assert!(warnings(&build.problems).contains(&"KR007"));
    let stream = kit.stream();
    assert!(stream.contains("mode: \"on\"") && stream.contains("answer: \"yes\""), "{stream}");
    let twice = Kit::web("")
        .file("resources/service.yaml", &SERVICE.replace("spec:", "kind: Service\nspec:"))
        .fails();
    let text = said(&twice, "KR009");
    assert!(text.contains("service.yaml:4") && text.contains("line 2"), "{text}");
}

#[test]
fn manifests_without_identity_are_refused() {
    for (text, code) in [
        ("apiVersion: v1\nkind: ConfigMap\n", "KR003"),
        ("apiVersion: v1\nmetadata: {name: a}\n", "KR003"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {generateName: a-}\n", "KR004"),
        ("[1, 2]\n", "KR003"),
        ("a: [\n", "KR002"),
        ("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {x: .nan}\n", "KR008"),
    ] {
        assert!(errors(&Kit::web("").file("resources/x.yaml", text).fails()).contains(&code), "{text}");
    }
    let list = "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: ConfigMap\n  metadata: {name: a, namespace: apps, uid: x, managedFields: []}\n  status: {}\n";
    let build = Kit::web("").file("resources/list.yaml", list).built();
    assert_eq!(field(&build, "ConfigMap", "/metadata"), json!({"name": "a", "namespace": "apps"}));
    assert!(warnings(&build.problems).contains(&"KR005"));
}

/// Scenario A-46 of the specification.
#[test]
fn one_run_shows_every_mistake() {
    let problems = Kit::web("a: \"${nope}\"\n")
        .patch("00", "[service.web]\nspec.type = x\n")
        .patch("10", "[deployment.gone]\nspec.replicas: 1\n")
        .file("resources/x.yaml", "kind: ConfigMap\n")
        .fails();
    for code in ["KV020", "KP005", "KX002", "KR003"] {
        let found = problems.iter().find(|problem| problem.code.as_deref() == Some(code));
        let at = found
            .and_then(|problem| problem.at.as_ref())
            .unwrap_or_else(|| panic!("no located {code}: {problems}"));
        assert!(at.line > 0 && at.column > 0, "{code} at {at}");
    }
}

#[test]
fn mistakes_of_every_sort_are_told_together() {
    let bomb: String =
        (1..9).map(|n| format!("  k{n}: &k{n} [{}]\n", vec![format!("*k{}", n - 1); 10].join(","))).collect();
    let bomb = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: bomb, namespace: apps}}\ndata:\n  k0: &k0 x\n{bomb}"
    );
    let problems =
        Kit::web("replicas: three\nimage: {repo: nginx}\nloop: {a: \"${loop.b}\", b: \"${loop.a}\"}\n")
            .patch(
                "00-clash",
                "[deployment.web]\nspec.replicas: \"${replicas}\"\nspec.paused: \"${image.rep}\"\n",
            )
            .patch("10-selector", "[deployment.web.spec.template.spec.containers[name=main]]\nimage: x\n")
            .patch("20-target", "[deployment.wbe]\nspec.paused: \"${image.rpo}\"\n")
            .patch("30-one", "[service.web]\nspec.type: 5\n")
            .sidecar("30-one", "conflicts: [40-other]\n")
            .patch("40-other", "[service.web]\nspec.other.name: x\n[service.wbe]\nspec.type: ClusterIP\n")
            .patch("50-first", "[service.web]\nmetadata.annotations.x: y\n")
            .sidecar("50-first", "requires: [60-second]\n")
            .patch("60-second", "[service.web]\nmetadata.annotations.z: y\n")
            .sidecar("60-second", "requires: [50-first]\n")
            .file("resources/again.yaml", SERVICE)
            .file("resources/bomb.yaml", &bomb)
            .fails();
    for (code, place) in [
        ("KX033", "patches/00-clash.kpatch:2"),
        ("KV020", "patches/00-clash.kpatch:3"),
        ("KX020", "patches/10-selector.kpatch:1"),
        ("KX002", "patches/20-target.kpatch:1"),
        ("KV020", "patches/20-target.kpatch:2"),
        ("KD022", "patches/30-one.yaml:1"),
        ("KX002", "patches/40-other.kpatch:3"),
        ("KD020", "patches/50-first.yaml:1"),
        ("KV024", "parameters.yaml:4"),
        ("KR020", "resources/service.yaml:1"),
        ("KR013", "resources/bomb.yaml:"),
    ] {
        let is_it = |problem: &&slipway_problem::Problem| {
            problem.code.as_deref() == Some(code)
                && problem.at.as_ref().is_some_and(|at| at.column > 0 && at.to_string().starts_with(place))
        };
        assert_eq!(problems.iter().filter(is_it).count(), 1, "{code} at {place} in:\n{problems}");
    }
    assert!(!problems.to_string().contains("KX003"), "one of two is no choice to make:\n{problems}");
    assert!(said(&problems, "KV020").contains("did you mean `image.repo`"), "{problems}");
}

/// Scenario A-29 of the specification.
#[test]
fn custom_kinds_are_checked_by_the_crds_of_the_package() {
    let crd = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: certificates.example.com}\nspec:\n  group: example.com\n  scope: Namespaced\n  names: {kind: Certificate, plural: certificates}\n  versions:\n  - name: v1\n    served: true\n    storage: true\n    schema:\n      openAPIV3Schema:\n        type: object\n        properties:\n          spec:\n            type: object\n            required: [issuerRef]\n            properties:\n              days: {type: integer, minimum: 1}\n              issuerRef: {type: object, properties: {name: {type: string}, kind: {type: string, enum: [Issuer, ClusterIssuer]}}}\n";
    let object = "apiVersion: example.com/v1\nkind: Certificate\nmetadata: {name: web, namespace: apps}\nspec: {issuerRef: {name: x, kind: Issuer}}\n";
    let kit = |value: &str| {
        Kit::web(&format!("kind: {value}\ndays: \"30\"\n"))
            .file("schemas/crds/certificate.yaml", crd)
            .file("resources/certificate.yaml", object)
            .patch("00", "[certificate.web]\nspec.issuerRef.kind: \"${kind}\"\nspec.days: \"${days}\"\n")
    };
    let build = kit("ClusterIssuer").built();
    assert_eq!(field(&build, "Certificate", "/spec/days"), json!(30), "cast by the CRD");
    let wrong = kit("Other").set("days=0").fails();
    assert!(errors(&wrong).contains(&"KS010"), "{wrong}");
    let schema = kit("Issuer").package().schema().unwrap().0.to_json();
    assert_eq!(schema["properties"]["kind"]["enum"], json!(["Issuer", "ClusterIssuer"]));
    assert_eq!(schema["properties"]["days"]["minimum"], json!(1));
    let unknown = Kit::web("").file("resources/c.yaml", object).built();
    assert!(unknown.problems.iter().any(|problem| problem.code.as_deref() == Some("KS006")));
    assert!(warnings(&unknown.problems).is_empty(), "{}", unknown.problems);
}

#[test]
fn old_versions_are_told_for_the_version_aimed_at() {
    let cron = "apiVersion: batch/v1beta1\nkind: CronJob\nmetadata: {name: c, namespace: apps}\n";
    let mut kit = Kit::web("").file("resources/cron.yaml", cron);
    assert!(warnings(&kit.built().problems).contains(&"KS005"));
    kit.inputs.kube_version = Some("1.24".to_owned());
    assert!(!warnings(&kit.built().problems).contains(&"KS005"));
    kit.inputs.kube_version = Some("1.29".to_owned());
    assert_eq!(errors(&kit.fails()), ["KS005"]);
}

#[test]
fn refuses_namespace_settings_that_are_no_booleans_and_lists() {
    for (parameters, message, at) in [
        (
            "global: {namespaces: {create: \"no\"}}\n",
            "global.namespaces.create must be true or false, not \"no\"",
            "parameters.yaml:2:",
        ),
        (
            "global: {namespaces: {create: 1}}\n",
            "global.namespaces.create must be true or false, not 1",
            "parameters.yaml:2:",
        ),
        (
            "global: {namespaces: {exclude: apps}}\n",
            "global.namespaces.exclude must be a list of names",
            "parameters.yaml:2:",
        ),
    ] {
        let problems = Kit::web(parameters).fails();
        let found = problems.iter().find(|problem| problem.message == message);
        let place = found.and_then(|problem| problem.at.clone()).map(|at| at.to_string());
        assert!(place.is_some_and(|place| place.starts_with(at)), "{parameters}: {problems}");
    }
    Kit::web("global: {namespaces: {create: \"true\"}}\n").built();
}

#[test]
fn tells_warnings_of_objects_beside_errors_of_parameters() {
    let lonely = SERVICE.replace("selector: {app: web}", "selector: {app: gone}");
    let kit = Kit::web("global: {namespaces: {create: \"no\"}}\n").file("resources/service.yaml", &lonely);
    let problems = kit.fails();
    assert!(said(&problems, "KV041").contains("must be true or false"), "{problems}");
    let broken = Kit::web("replicas: 1\n")
        .file("resources/service.yaml", &lonely)
        .patch("10", "[deployment.web]\nspec.replicas: ${replicas}\n")
        .values("v.yaml", "replicas: [\n")
        .fails();
    assert!(said(&broken, "KR026").contains("selects no pods"), "{broken}");
}

#[test]
fn mistakes_a_patch_made_are_told_at_its_line() {
    for (patch, code, line) in [
        ("[deployment.web]\nspec.replicas: 1\nmetadata.labels.team: \"a b\"\n", "KR023", 3),
        ("[deployment.web]\nmetadata.name: Not_A_Name\n", "KR023", 2),
        ("[deployment.web]\nmetadata.annotations[\"kurel.gokure.dev/install-phase\"]: soon\n", "KR036", 2),
        ("[deployment.web]\nspec.template.metadata.labels.app: other\n", "KR029", 2),
        ("[service.web]\nspec.ports[name=http].targetPort: nope\n", "KR027", 2),
        ("[service.web]\nspec.selector.app: gone\n", "KR026", 2),
        ("[deployment.web]\nspec.template.spec.serviceAccountName: robot\n", "KR030", 2),
    ] {
        let kit = Kit::web("").patch("10", patch);
        let problems = match kit.build() {
            Ok(build) => build.problems,
            Err(problems) => problems,
        };
        let found = problems.iter().find(|problem| problem.code.as_deref() == Some(code));
        let at = found.and_then(|problem| problem.at.clone());
        let at = at.map(|at| (at.file.to_string(), at.line));
        assert_eq!(at, Some(("patches/10.kpatch".to_owned(), line)), "{patch}: {problems}");
    }
}
