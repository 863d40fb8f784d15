//! Behaviour of kustomize that surprises: reproduced with a warning, or put right when asked.

use slipway_kustomize::{Build, BuildOptions, Quirks, build};

use crate::directory;

fn built(files: &[(&str, &str)], options: &BuildOptions) -> Build {
    let directory = directory(files);
    build(directory.path(), options).unwrap_or_else(|problems| panic!("{problems}"))
}

fn codes(build: &Build) -> Vec<&str> {
    build.warnings.iter().filter_map(|warning| warning.code.as_deref()).collect()
}

fn fixed() -> BuildOptions {
    BuildOptions { quirks: Quirks::Fixed, ..BuildOptions::default() }
}

#[test]
fn ports_with_and_without_protocol() {
    let files = [
        ("kustomization.yaml", "resources: [s.yaml]\npatches:\n- path: p.yaml\n"),
        (
            "s.yaml",
            "apiVersion: v1\nkind: Service\nmetadata: {name: s}\nspec:\n  ports: [{port: 80, protocol: TCP}]\n",
        ),
        (
            "p.yaml",
            "apiVersion: v1\nkind: Service\nmetadata: {name: s}\nspec:\n  ports: [{port: 80, name: http}]\n",
        ),
    ];
    let same = built(&files, &BuildOptions::default());
    assert!(!same.to_yaml().contains("http"), "{}", same.to_yaml());
    assert_eq!(codes(&same), ["KZ032"]);
    let right = built(&files, &fixed());
    assert!(
        right.to_yaml().contains("  - name: http\n    port: 80\n    protocol: TCP\n"),
        "{}",
        right.to_yaml()
    );
    assert!(codes(&right).is_empty());
}

#[test]
fn subjects_and_classes() {
    let files = [
        ("kustomization.yaml", "resources: [a.yaml]\nnamePrefix: p-\n"),
        (
            "a.yaml",
            "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: a}\n---\napiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {name: r}\nroleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: x}\nsubjects:\n- {kind: User, name: a}\n---\napiVersion: networking.k8s.io/v1\nkind: IngressClass\nmetadata: {name: c}\n---\napiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: i}\nspec: {ingressClassName: c}\n",
        ),
    ];
    let same = built(&files, &BuildOptions::default());
    assert!(same.to_yaml().contains("kind: User\n  name: p-a\n"), "{}", same.to_yaml());
    assert!(same.to_yaml().contains("ingressClassName: c\n"), "{}", same.to_yaml());
    assert_eq!(codes(&same), ["KZ020", "KZ020"]);
    let right = built(&files, &fixed());
    assert!(right.to_yaml().contains("kind: User\n  name: a\n"), "{}", right.to_yaml());
    assert!(right.to_yaml().contains("ingressClassName: p-c\n"), "{}", right.to_yaml());
    assert!(codes(&right).is_empty());
}

/// Scenario A-44 of the specification.
#[test]
fn what_matches_nothing_is_told_and_refused_when_strict() {
    let files = [
        (
            "kustomization.yaml",
            "resources: [a.yaml]\npatches:\n- target: {kind: Deployment}\n  patch: '[{op: remove, path: /spec}]'\nreplacements:\n- source: {kind: ConfigMap, name: a}\n  targets: [{select: {kind: Deployment}}]\n",
        ),
        ("a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"),
    ];
    assert_eq!(codes(&built(&files, &BuildOptions::default())), ["KZ010", "KZ011"]);
    let directory = directory(&files);
    let strict = BuildOptions { strict: true, ..BuildOptions::default() };
    let refused = build(directory.path(), &strict).expect_err("strict");
    assert_eq!(refused.len(), 2, "{refused}");
}

#[test]
fn directives_of_kubectl_and_left_over_strategies() {
    let files = [
        ("kustomization.yaml", "resources: [d.yaml]\npatches:\n- path: p.yaml\n"),
        (
            "d.yaml",
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\nspec:\n  strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 1}}\n",
        ),
        (
            "p.yaml",
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\nspec:\n  strategy: {type: Recreate, $retainKeys: [type]}\n",
        ),
    ];
    assert_eq!(codes(&built(&files, &BuildOptions::default())), ["KZ030", "KZ031"]);
    let directory = directory(&files);
    let refused = build(directory.path(), &fixed()).expect_err("refused");
    assert!(refused.to_string().contains("KZ030"), "{refused}");
}

#[test]
fn the_files_of_a_build_are_listed_and_it_is_repeatable() {
    let files = [
        (
            "kustomization.yaml",
            "resources: [a.yaml, base]\nconfigMapGenerator:\n- {name: c, files: [f.txt]}\n",
        ),
        ("a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"),
        ("f.txt", "x"),
        ("unused.txt", "x"),
        ("base/kustomization.yaml", "resources: [b.yaml]\n"),
        ("base/b.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\n"),
    ];
    let first = built(&files, &BuildOptions::default());
    assert_eq!(first.files.len(), 5, "{:?}", first.files);
    for _ in 0..20 {
        assert_eq!(built(&files, &BuildOptions::default()).to_yaml(), first.to_yaml());
    }
}

#[test]
fn a_label_put_into_many_fields_is_changed_in_all_of_them() {
    let web = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {template: {spec: {}}}\n";
    let files = |overlay| {
        [
            ("kustomization.yaml", overlay),
            ("base/kustomization.yaml", "resources: [web.yaml]\ncommonLabels: {a: old}\n"),
            ("base/web.yaml", web),
        ]
    };
    for overlay in [
        "resources: [base]\nlabels: [{pairs: {a: new}}]\n",
        "resources: [base]\npatches:\n- patch: |\n    apiVersion: apps/v1\n    kind: Deployment\n    metadata: {name: web, labels: {a: new}}\n",
    ] {
        let built = built(&files(overlay), &BuildOptions::default()).to_yaml();
        assert_eq!((built.matches("a: new").count(), built.matches("a: old").count()), (3, 0), "{built}");
    }
}

#[test]
fn the_hints_of_custom_kinds_are_followed() {
    let files = [
        ("kustomization.yaml", "resources: [a.yaml]\nnamePrefix: p-\ncrds: [foo.json]\n"),
        (
            "foo.json",
            r#"{"example.com/v1.Foo": {"Schema": {"properties": {"apiVersion": {}, "kind": {}, "metadata": {},
                "spec": {"$ref": "example.com/v1.FooSpec"}}}},
              "example.com/v1.FooSpec": {"Schema": {"properties": {"self": {"$ref": "example.com/v1.FooSpec"},
                "map": {"x-kubernetes-object-ref-api-version": "v1", "x-kubernetes-object-ref-kind": "ConfigMap"}}}}}"#,
        ),
        (
            "a.yaml",
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\napiVersion: example.com/v1\nkind: Foo\nmetadata: {name: f}\nspec: {map: {name: a}, self: {map: {name: a}}, name: a}\n",
        ),
    ];
    let built = built(&files, &BuildOptions::default()).to_yaml();
    assert_eq!(built.matches("name: p-a").count(), 3, "{built}");
    assert!(built.ends_with("  name: a\n  self:\n    map:\n      name: p-a\n"), "{built}");
}
