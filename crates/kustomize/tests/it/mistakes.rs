//! Bad input: every mistake is reported, with its place and what to do about it.

use std::fs;

use slipway_kustomize::{BuildOptions, build};

use crate::{directory, write};

const WEB: &str = "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: web\nspec:\n  replicas: 1\n";

/// Builds `files` and gives the problems with the directory cut from their places.
fn problems(files: &[(&str, &str)], root: &str) -> Vec<String> {
    let directory = directory(files);
    let base = directory.path().display().to_string();
    match build(&directory.path().join(root), &BuildOptions::default()) {
        Ok(built) => vec![format!("built: {}", built.to_yaml())],
        Err(problems) => problems
            .iter()
            .map(|problem| problem.to_string().replace(&format!("{base}/"), "").replace(&base, "."))
            .collect(),
    }
}

/// What is wrong, the files, and every problem reported about them.
type Case<'a> = (&'a str, &'a [(&'a str, &'a str)], &'a [&'a str]);

#[test]
fn each_mistake_has_a_place_and_a_way_out() {
    let cases: &[Case<'_>] = &[
        (
            "a missing file",
            &[("kustomization.yaml", "resources:\n- deploymnt.yaml\n"), ("deployment.yaml", WEB)],
            &[
                "kustomization.yaml:2:3: cannot read `deploymnt.yaml`: there is no such file or directory\n  hint: did you mean `deployment.yaml`?",
            ],
        ),
        (
            "an unknown field and a wrong type",
            &[("kustomization.yaml", "resource: [a.yaml]\nnamePrefix: 3\nreplicas: {a: b}\n")],
            &[
                "kustomization.yaml:1:1: unknown field `resource` in `kustomization`\n  hint: did you mean `resources`?",
                "kustomization.yaml:2:13: `namePrefix` should be a string, not an integer\n  hint: write it in quotes: \"3\"",
                "kustomization.yaml:3:11: `replicas` should be a list, not a mapping",
            ],
        ),
        (
            "two objects with one name",
            &[("kustomization.yaml", "resources: [a.yaml, b.yaml]\n"), ("a.yaml", WEB), ("b.yaml", WEB)],
            &[
                "b.yaml:1:1: there are two objects called `apps/v1 Deployment web`\n  hint: the first is at a.yaml:1:1",
            ],
        ),
        (
            "patches that match nothing",
            &[
                (
                    "kustomization.yaml",
                    "resources: [a.yaml]\npatches:\n- path: p.yaml\nreplicas:\n- {name: wbe, count: 2}\n",
                ),
                ("a.yaml", WEB),
                ("p.yaml", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: wep}\n"),
            ],
            &[
                "p.yaml:1:1: no object `apps/v1 Deployment wep` to patch\n  hint: did you mean `web`?",
                "kustomization.yaml:5:3: no Deployment, StatefulSet, ReplicaSet or ReplicationController is called `wbe`\n  hint: did you mean `web`?",
            ],
        ),
        (
            "fields and objects at once",
            &[
                (
                    "kustomization.yaml",
                    "resources: [a.yaml, b.yaml]\nimages:\n- nmae: x\npatches:\n- path: p.yaml\nconfigMapGenerator:\n- {name: c, literals: [a]}\n",
                ),
                ("a.yaml", WEB),
                ("b.yaml", WEB),
                ("p.yaml", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: wep}\n"),
            ],
            &[
                "kustomization.yaml:3:3: unknown field `nmae` in `images`\n  hint: did you mean `name`?",
                "kustomization.yaml:7:24: a literal is written `key=value`",
                "b.yaml:1:1: there are two objects called `apps/v1 Deployment web`\n  hint: the first is at a.yaml:1:1",
                "p.yaml:1:1: no object `apps/v1 Deployment wep` to patch\n  hint: did you mean `web`?",
            ],
        ),
        (
            "a cycle",
            &[
                ("kustomization.yaml", "resources: [a]\n"),
                ("a/kustomization.yaml", "resources: [../b]\n"),
                ("b/kustomization.yaml", "resources:\n- ../a\n"),
            ],
            &["b/kustomization.yaml:2:3: kustomizations form a cycle: `a` → `b` → `a`"],
        ),
        (
            "objects without kind or name",
            &[
                ("kustomization.yaml", "resources: [a.yaml]\n"),
                (
                    "a.yaml",
                    "apiVersion: v1\nmetadata: {name: a}\n---\nkind: ConfigMap\nmetadata: {generateName: a-}\n---\n7\n",
                ),
            ],
            &[
                "a.yaml:1:1: the object has no `kind`",
                "a.yaml:4:1: the object has no `metadata.name`\n  hint: `generateName` is not enough: a build has to know what objects are called",
                "a.yaml:7:1: an object is a mapping, not an integer",
            ],
        ),
        (
            "a45: what is not supported",
            &[(
                "kustomization.yaml",
                "resources: ['https://example.com/x.yaml', /etc/passwd]\nopenapi: {path: o}\nhelmCharts: [{name: x}]\n",
            )],
            &[
                "kustomization.yaml:3:13: `helmCharts` is not supported [KZ001]\n  hint: render the chart first and list the result under `resources`",
                "kustomization.yaml:2:10: `openapi` is not supported [KZ001]\n  hint: lists of custom kinds are replaced whole; use a JSON patch to change one element",
                "kustomization.yaml:1:13: `https://example.com/x.yaml` is not on this machine, and nothing is downloaded [KZ002]\n  hint: fetch it first (a git submodule, a vendored copy) and name the local path",
                "kustomization.yaml:1:43: `/etc/passwd` is an absolute path [KZ002]\n  hint: use a path relative to the kustomization",
            ],
        ),
        (
            "patches and generators",
            &[
                (
                    "kustomization.yaml",
                    "resources: [a.yaml]\npatches:\n- patch: |-\n    - {op: ad, path: /a}\n  target: {kind: \"(\"}\n- patch: '[]'\n- path: p.yaml\n  patch: x\nconfigMapGenerator:\n- name: c\n  literals: [a]\n  files: [nope.txt, '=x']\n  behavior: marge\n",
                ),
                ("a.yaml", WEB),
            ],
            &[
                "kustomization.yaml:5:18: `(` is not a regular expression",
                "kustomization.yaml:8:10: a patch has `path` or `patch`, not both",
                "kustomization.yaml:13:13: warning: unknown behavior `marge` counts as `create`\n  hint: it can be `create`, `merge` or `replace`",
                "kustomization.yaml:11:14: a literal is written `key=value`",
                "kustomization.yaml:12:11: cannot read `nope.txt`: there is no such file or directory",
                "kustomization.yaml:12:21: `=x` has no key before the `=`",
                "kustomization.yaml:3:10: operation 1: unknown `op: ad`; it can be `add`, `remove`, `replace`, `move`, `copy` or `test`",
                "kustomization.yaml:6:3: a JSON patch needs a `target`\n  hint: say which objects it is for: `target: {kind: …, name: …}`",
            ],
        ),
        (
            "no kustomization at all",
            &[("kustomization.yaml", "resources:\n- sub\n"), ("sub/a.yaml", WEB)],
            &[
                "kustomization.yaml:2:3: there is no kustomization in `sub`\n  hint: a directory needs a `kustomization.yaml`",
            ],
        ),
        (
            "components and resources mixed up",
            &[
                ("kustomization.yaml", "resources:\n- c\ncomponents:\n- k\n"),
                ("c/kustomization.yaml", "kind: Component\nnamePrefix: a-\n"),
                ("k/kustomization.yaml", "namePrefix: a-\n"),
            ],
            &[
                "kustomization.yaml:2:3: `c` is a component\n  hint: list it under `components`",
                "kustomization.yaml:4:3: `k` is no component\n  hint: list it under `resources`, or give it `kind: Component`",
            ],
        ),
    ];
    for (what, files, expected) in cases {
        let mut found = problems(files, "");
        let mut wanted: Vec<String> = expected.iter().map(|text| (*text).to_owned()).collect();
        found.sort();
        wanted.sort();
        assert_eq!(found, wanted, "{what}");
    }
}

#[test]
fn nothing_outside_is_read() {
    let outside = [
        (
            "k/kustomization.yaml",
            "resources: [../a.yaml]\nconfigMapGenerator:\n- {name: c, files: [../a.yaml]}\npatches:\n- path: ../a.yaml\n",
        ),
        ("a.yaml", WEB),
    ];
    let found = problems(&outside, "k");
    assert_eq!(found.len(), 3, "{found:?}");
    assert!(found.iter().all(|text| text.contains("`../a.yaml` is not in or below `k`")), "{found:?}");
    let leaving = directory(&[
        ("a.yaml", WEB),
        ("k/kustomization.yaml", "resources: [../b]\n"),
        ("b/kustomization.yaml", "namePrefix: a-\n"),
    ]);
    let inside = BuildOptions { within: Some(leaving.path().join("k")), ..BuildOptions::default() };
    let refused = build(&leaving.path().join("k"), &inside).expect_err("leaves");
    assert!(refused.to_string().contains("leads out of"), "{refused}");
}

#[cfg(unix)]
#[test]
fn links_do_not_lead_outside() {
    let linked = directory(&[
        ("secret.txt", "s"),
        ("k/kustomization.yaml", "configMapGenerator:\n- {name: c, files: [link]}\n"),
    ]);
    std::os::unix::fs::symlink("../secret.txt", linked.path().join("k/link")).expect("a link");
    let refused = build(&linked.path().join("k"), &BuildOptions::default()).expect_err("refused");
    assert!(refused.to_string().contains("is not in or below"), "{refused}");
}

#[test]
fn bombs_are_refused() {
    let mut bomb =
        String::from("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\na0: &a0 [x,x,x,x,x,x,x,x,x,x]\n");
    for level in 1..10 {
        let before = format!("*a{},", level - 1).repeat(10);
        bomb.push_str(&format!("a{level}: &a{level} [{before}]\n"));
    }
    let deep = format!("kind: A\nmetadata: {{name: a}}\na: {}{}\n", "[".repeat(100_000), "]".repeat(100_000));
    for text in [bomb.as_str(), deep.as_str()] {
        let found = problems(&[("kustomization.yaml", "resources: [a.yaml]\n"), ("a.yaml", text)], "");
        assert!(found[0].starts_with("a.yaml:"), "{}", &found[0][..found[0].len().min(200)]);
    }
    // Each level names the next twice: two to the power of forty kustomizations.
    let doubling = directory(&[]);
    for level in 0..40 {
        let text = format!("resources: [../d{0}, ../d{0}]\n", level + 1);
        write(doubling.path(), &format!("d{level}/kustomization.yaml"), &text);
    }
    write(doubling.path(), "d40/kustomization.yaml", "namePrefix: a-\n");
    let refused = build(&doubling.path().join("d0"), &BuildOptions::default()).expect_err("refused");
    assert!(refused.to_string().contains("more than 10000 kustomizations"), "{refused}");
}

#[test]
fn a_file_that_is_a_directory_is_told() {
    let odd = directory(&[("kustomization.yaml", "configMapGenerator:\n- {name: c, files: [d]}\n")]);
    fs::create_dir(odd.path().join("d")).expect("a directory");
    let refused = build(odd.path(), &BuildOptions::default()).expect_err("refused");
    assert!(refused.to_string().contains("`d` is a directory, a file is needed"), "{refused}");
}

#[cfg(unix)]
#[test]
fn shows_nothing_of_files_that_links_lead_out_to() {
    use std::os::unix::fs::symlink;

    let directory = directory(&[
        ("secret.txt", "password: hunter2\n"),
        ("top/kustomization.yaml", "resources: [../base, linked.yaml]\npatches: [{path: linked.yaml}]\n"),
        ("base/a.yaml", WEB),
    ]);
    let root = directory.path();
    symlink("../secret.txt", root.join("base/kustomization.yaml")).expect("a link");
    symlink("../secret.txt", root.join("top/linked.yaml")).expect("a link");
    for built in ["top", "base"] {
        let problems = build(&root.join(built), &BuildOptions::default()).expect_err("links lead out");
        let told = problems.iter().map(|problem| format!("{problem:?}")).collect::<String>();
        assert!(told.contains("is a link to a file outside of its directory"), "{told}");
        assert!(!told.contains("hunter2") && !told.contains("password"), "{told}");
    }
}

#[test]
fn refuses_what_doubles_with_every_line() {
    let map = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c, annotations: {{use: {}}}}}\ndata: {{a: {}}}\nlist: [[{}]]\n",
        "$(A)".repeat(2000),
        "x".repeat(50_000),
        "y".repeat(50_000),
    );
    let copies = "  - {op: copy, from: /list, path: /list/-}\n".repeat(40);
    let json = format!(
        "resources: [c.yaml]\npatches:\n- target: {{kind: ConfigMap}}\n  patch: |-\n{}",
        copies.replace("  - ", "    - ")
    );
    let mut replacements = String::from("resources: [c.yaml]\nreplacements:\n");
    for number in 0..24 {
        replacements.push_str(&format!(
            "- source: {{kind: ConfigMap, fieldPath: list}}\n  targets:\n  - select: {{kind: ConfigMap}}\n    options: {{create: true}}\n    fieldPaths: [list.0.{number}]\n"
        ));
    }
    let mut texts = String::from("resources: [c.yaml]\nreplacements:\n");
    for _ in 0..12 {
        texts.push_str(
            "- source: {kind: ConfigMap, fieldPath: data.a}\n  targets:\n  - select: {kind: ConfigMap}\n    options: {delimiter: \"|\", index: 99}\n    fieldPaths: [data.a]\n",
        );
    }
    let vars = "resources: [c.yaml]\nvars:\n- name: A\n  objref: {apiVersion: v1, kind: ConfigMap, name: c}\n  fieldref: {fieldPath: data.a}\n";
    for (what, kustomization, at) in [
        ("copies", json.as_str(), "kustomization.yaml:3:"),
        ("replacements", &replacements, "kustomization.yaml:"),
        ("texts", &texts, "kustomization.yaml:"),
        ("variables", vars, "c.yaml:1:1"),
    ] {
        let told = problems(&[("kustomization.yaml", kustomization), ("c.yaml", &map)], ".");
        let found = told.iter().any(|problem| {
            problem.starts_with(at)
                && (problem.contains("MiB into the objects") || problem.contains("nest more than"))
        });
        assert!(
            found,
            "{what}: {}",
            told.iter().map(|one| one.chars().take(300).collect::<String>() + "\n").collect::<String>()
        );
    }
}
