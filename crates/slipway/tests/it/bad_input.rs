//! Bad files get a located error with a hint and exit code 10; never a panic.

use crate::support::{DIAMOND, Place};

fn complaint(text: impl AsRef<[u8]>) -> String {
    let place = Place::new();
    let ran = place.write("g.yaml", text).run(&["graph", "g.yaml"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(10), ""), "{}", ran.err);
    ran.err
}

#[test]
fn every_problem_of_a_file_at_once() {
    insta::assert_snapshot!(complaint(
        "\
nodes:
  web:
    needs: [db, cahce]
    tmeout: 5m
  db: {needs: [web]}
  cache: {needs: cache, retries: -1, timeout: soon}
  self: {needs: [self]}
extra: 1
"
    ));
}

#[test]
fn not_what_it_should_be() {
    let deep = "[".repeat(10_000_000);
    let twice = format!("nodes: {{{}}}", "a: {x: 1}, ".repeat(20));
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for level in 1..9 {
        let inner = format!("*a{},", level - 1).repeat(9);
        bomb.push_str(&format!("a{level}: &a{level} [{inner}]\n"));
    }
    for (what, text, expected) in [
        ("empty", &b""[..], "g.yaml:1:1\n  hint: expected `nodes:`"),
        ("blank", b"# nothing\n", "the file is empty"),
        ("binary", b"\x7fELF\x00\xff\xfe", "the file is not UTF-8 text"),
        ("a list", b"- a\n", "g.yaml:1:1"),
        ("broken", b"nodes: {a: [", "did not find expected"),
        ("deep", deep.as_bytes(), "exceeded max depth"),
        ("twice", b"nodes:\n  a:\n  a:\n", "g.yaml:3:3"),
        ("twice and more", b"nodes:\n  a:\n  a:\n  b: {neds: [a]}\n", "did you mean `needs`?"),
        ("many", twice.as_bytes(), "g.yaml:1:"),
        ("bomb", bomb.as_bytes(), "g.yaml:"),
    ] {
        let complaint = complaint(text);
        assert!(complaint.contains(expected), "{what}: {complaint}");
        assert!(complaint.contains("error:") && !complaint.contains("panicked"), "{what}: {complaint}");
    }
}

#[test]
fn missing_files_and_directories() {
    let place = Place::new();
    for name in ["missing.yaml", "."] {
        let ran = place.run(&["graph", name]);
        assert_eq!(ran.code, Some(10));
        assert!(ran.err.contains(name) && ran.err.contains("hint:"), "{}", ran.err);
    }
}

#[test]
fn invalid_files_end_every_command_with_10() {
    let place = Place::new();
    for (name, text) in [
        ("chart/Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n"),
        ("chart/templates/a.yaml", "a: {{ .Values.b | nope }}\n"),
        ("values.yaml", "a: [\n"),
        ("fine/Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n"),
        ("fine/templates/a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"),
        ("bad.kurel/kurel.yaml", "nme: web\n"),
        ("k/kustomization.yaml", "resurces: []\n"),
        ("stack/stack.yaml", "apiVersion: ktl.dev/v1\nkind: Stack\nnme: x\n"),
        ("g.yaml", "nodes: [\n"),
        ("kubeconfig", "apiVersion: [\n"),
        ("run.yaml", "apiVersion: khook.io/v1\nkind: Nothing\n"),
    ] {
        place.write(name, text);
    }
    for words in [
        &["render", "web", "chart"][..],
        &["render", "web", "fine", "--values", "values.yaml"],
        &["plan", "web", "chart", "--sandbox"],
        &["apply", "web", "chart", "--sandbox"],
        &["lint", "chart"],
        &["package", "validate", "bad.kurel"],
        &["kustomize", "build", "k"],
        &["stack", "plan", "--root", "stack"],
        &["stack", "apply", "--root", "stack", "--sandbox"],
        &["graph", "g.yaml"],
        &["list", "--kubeconfig", "kubeconfig"],
    ] {
        let ran = place.run(words);
        assert_eq!(ran.code, Some(10), "{words:?}: {}{}", ran.out, ran.err);
    }
    // Runbooks keep the code their own tool has for it.
    let ran = place.run(&["run", "validate", "-f", "run.yaml"]);
    assert_eq!(ran.code, Some(64), "{}", ran.err);
}

#[test]
fn the_command_line_itself() {
    let place = Place::new();
    place.write("g.yaml", DIAMOND);
    for args in [
        &["--nope"][..],
        &["grap", "g.yaml"],
        &["graph"],
        &["graph", "g.yaml", "--only", "ap"],
        &["graph", "g.yaml", "--keep-going"],
        &["-o", "xml", "graph", "g.yaml"],
    ] {
        let ran = place.run(args);
        assert_eq!(ran.code, Some(64), "{args:?}: {}", ran.err);
        assert!(ran.err.starts_with("error:"), "{args:?}: {}", ran.err);
    }
}

/// Everything that can be wrong with a package, at once: one run names it all and writes nothing.
#[test]
#[cfg(unix)]
fn every_mistake_of_a_package_at_once() {
    let place = Place::new();
    let web = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  replicas: 1\n  \
        selector: {matchLabels: {app: web}}\n  template:\n    metadata: {labels: {app: web}}\n    \
        spec: {containers: [{name: app, image: app}]}\n";
    let mut bomb =
        String::from("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: bomb}\na0: &a0 [x, x, x, x]\n");
    for level in 1..16 {
        bomb.push_str(&format!("a{level}: &a{level} [{}]\n", format!("*a{},", level - 1).repeat(9)));
    }
    for (name, text) in [
        (
            "parameters.yaml",
            "kurel: {name: bad, version: 1.0.0, appVersion: \"1\", schemas: [../crd.yaml]}\nreplicas: three\ntag: \"1\"\na: \"${b}\"\n\
             b: \"${a}\"\ndatabase: db\nurl: \"${databse}\"\n",
        ),
        ("resources/web.yaml", web),
        ("resources/web-again.yaml", web),
        (
            "resources/api.yaml",
            "apiVersion: v1\nkind: Service\nmetadata: {name: api}\nspec: {ports: [{port: 80}]}\n",
        ),
        ("resources/bomb.yaml", &bomb),
        ("patches/00-base.kpatch", "[service.api]\nspec.ports.0.port: \"${replicas}\"\n"),
        ("patches/05-selector.kpatch", "[deployment.wbe]\nmetadata.labels.a: b\n"),
        ("patches/07-variable.kpatch", "metadata.labels.a: \"${tga}\"\n"),
        ("patches/10-one.kpatch", "metadata.labels.a: b\n"),
        ("patches/10-one.yaml", "conflicts: [20-two.kpatch]\n"),
        ("patches/20-two.kpatch", "metadata.labels.a: c\n"),
        ("patches/30-three.kpatch", "metadata.labels.d: e\n"),
        ("patches/30-three.yaml", "requires: [40-four.kpatch]\n"),
        ("patches/40-four.kpatch", "metadata.labels.f: g\n"),
        ("patches/40-four.yaml", "requires: [30-three.kpatch]\n"),
    ] {
        place.write(&format!("bad.kurel/{name}"), text);
    }
    place.write("secret.yaml", web);
    std::os::unix::fs::symlink("../../secret.yaml", place.path().join("bad.kurel/resources/out.yaml"))
        .unwrap();
    let ran = place.run(&["package", "build", "bad.kurel", "--output-dir", "out"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(10), ""), "{}", ran.err);
    assert!(!place.path().join("out").exists(), "nothing is written");
    let told = problems(&ran.err);
    for (code, at, says) in [
        ("KV020", "parameters.yaml:7:6", "did you mean `database`?"),
        ("KV024", "parameters.yaml:4:4", "circular reference: a -> b -> a"),
        ("KR010", "parameters.yaml:1:63", "`../crd.yaml` leads out of the package"),
        ("KR013", "resources/bomb.yaml:", "nodes allowed"),
        ("KR020", "resources/web.yaml:1:1", "two Deployments named `web`"),
        ("KR010", "resources/out.yaml:1:1", "leads out of the package"),
        ("KX033", "patches/00-base.kpatch:2:20", "three"),
        ("KX002", "patches/05-selector.kpatch:1:2", "did you mean `web`?"),
        ("KV020", "patches/07-variable.kpatch:1:20", "did you mean `tag`?"),
        ("KD022", "patches/10-one.yaml:1:13", "conflicts with"),
        ("KD020", "patches/30-three.yaml:1:12", "30-three.kpatch -> 40-four.kpatch -> 30-three.kpatch"),
    ] {
        let fits = |problem: &&String| {
            problem.contains(&format!("[{code}]")) && problem.contains(at) && problem.contains(says)
        };
        assert!(told.iter().any(|problem| fits(&problem)), "{code} {at} {says}: {}", ran.err);
    }
    let is_place = |line: &str| {
        let mut parts = line.trim_start().strip_prefix("--> ").unwrap_or_default().rsplitn(3, ':');
        let mut number = || parts.next().is_some_and(|part| part.parse::<u32>().is_ok());
        number() && number()
    };
    let counted = |problem: &&String| problem.trim_end().ends_with(" errors");
    for problem in told.iter().filter(|problem| problem.starts_with("error") && !counted(problem)) {
        assert!(problem.lines().any(is_place), "no line and column: {problem}");
    }
}

/// The problems on standard error, one text each.
fn problems(err: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for line in err.lines() {
        let starts = ["error: ", "warning: ", "note: "].iter().any(|word| line.starts_with(word));
        match found.last_mut() {
            Some(last) if !starts => *last += &format!("{line}\n"),
            _ => found.push(format!("{line}\n")),
        }
    }
    found
}

/// The same for a kustomization, with its bases and components.
#[test]
#[cfg(unix)]
fn every_mistake_of_a_kustomization_at_once() {
    let place = Place::new();
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\n";
    let mut bomb =
        String::from("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: bomb}\na0: &a0 [x, x, x, x]\n");
    for level in 1..16 {
        bomb.push_str(&format!("a{level}: &a{level} [{}]\n", format!("*a{},", level - 1).repeat(9)));
    }
    for (name, text) in [
        (
            "k/kustomization.yaml",
            "resources: [web.yaml, ../secret.yaml, bomb.yaml, out.yaml, ../base, https://example.com/x.yaml]\n\
             namePrefx: a-\nhelmCharts: [{name: x}]\nreplicas: [{name: web, count: three}]\npatches:\n- patch: |\n    kind: [\n",
        ),
        ("k/web.yaml", map),
        ("k/bomb.yaml", &bomb),
        ("base/kustomization.yaml", "resources: [../k, gone.yaml]\n"),
        ("secret.yaml", map),
    ] {
        place.write(name, text);
    }
    std::os::unix::fs::symlink("../secret.yaml", place.path().join("k/out.yaml")).unwrap();
    let ran = place.run(&["kustomize", "build", "k"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(10), ""), "{}", ran.err);
    let told = problems(&ran.err);
    for (at, says) in [
        ("k/kustomization.yaml:1:23", "is not in or below"),
        ("k/bomb.yaml:", "nodes allowed"),
        ("k/kustomization.yaml:1:50", "is not in or below"),
        ("base/kustomization.yaml:1:13", "cycle"),
        ("base/kustomization.yaml:1:19", "gone.yaml"),
        ("k/kustomization.yaml:1:", "[KZ002]"),
        ("k/kustomization.yaml:2:1", "did you mean `namePrefix`?"),
        ("k/kustomization.yaml:3:", "[KZ001]"),
        ("k/kustomization.yaml:4:", "should be an integer"),
        ("k/kustomization.yaml:6:", "line 2 of the patch"),
    ] {
        let fits = |problem: &&String| problem.contains(at) && problem.contains(says);
        assert!(told.iter().any(|problem| fits(&problem)), "{at} {says}: {}", ran.err);
    }
}
