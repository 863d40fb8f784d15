//! Rendering and changing charts, packages and kustomizations from the command line.

use std::path::PathBuf;

use crate::sandbox::Down;
use crate::support::Place;

fn example(name: &str) -> String {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    root.join(name).canonicalize().unwrap().display().to_string()
}

#[test]
fn the_kind_of_source_is_told_by_what_is_there() {
    let place = Place::new();
    for (source, sign) in [
        ("charts/shop", "# Source: shop/templates/web.yaml"),
        ("packages/demo.kurel", "app.kubernetes.io/version: \"3.1\""),
        ("kustomize/shop/production", "name: prod-web"),
    ] {
        let text = place.run(&["render", &example(source)]).ok();
        assert!(text.contains(sign), "{source}: {text}");
    }
}

#[test]
fn a_field_is_traced_to_its_value() {
    let place = Place::new();
    let args = [
        "render",
        "demo",
        &example("charts/shop"),
        "--explain",
        "Deployment:spec.replicas",
        "--set",
        "replicas=4",
    ];
    let told = place.run(&args).ok();
    assert!(told.contains("Deployment/demo-web spec.replicas = 4"), "{told}");
    assert!(told.contains("templates/web.yaml:8") && told.contains("--set"), "{told}");
    let ran = place.run(&["render", &example("charts/shop"), "--explain", "Deployment:spec.nothing"]);
    assert!(ran.code == Some(1) && ran.err.contains("hint:"), "{}", ran.err);
}

#[test]
fn a_chart_fails_with_helms_own_words() {
    let place = Place::new();
    let ran = place.run(&["render", &example("charts/shop"), "--set", "replicas=many"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(10), ""));
    assert!(ran.err.contains("- replicas: Invalid type. Expected: integer, given: string"), "{}", ran.err);
}

#[test]
fn templates_go_to_files_and_through_filters() {
    let place = Place::new();
    let shop = example("charts/shop");
    place.run(&["render", "demo", &shop, "--output-dir", "out"]).ok();
    let web = std::fs::read_to_string(place.path().join("out/shop/templates/web.yaml")).unwrap();
    assert!(web.contains("kind: Deployment") && web.contains("kind: Service"), "{web}");
    let filtered = place.run(&["render", "demo", &shop, "--post-renderer", "cat", "--no-hooks"]).ok();
    assert_eq!(filtered, place.run(&["render", "demo", &shop, "--no-hooks"]).ok());
}

#[test]
fn a_new_chart_lints_packs_and_renders() {
    let place = Place::new();
    place.run(&["chart", "create", "web"]).ok();
    assert!(place.run(&["lint", "web"]).ok().contains("1 chart(s) linted, 0 chart(s) failed"));
    place.run(&["chart", "package", "web"]).ok();
    let archive = place.run(&["render", "demo", "web-0.1.0.tgz"]).ok();
    assert_eq!(archive, place.run(&["render", "demo", "web"]).ok());
    assert_eq!(place.run(&["chart", "create", "web"]).code, Some(1), "nothing is overwritten");
}

#[test]
fn an_image_is_set_and_comments_stay() {
    let place = Place::new();
    let text = "images:\n# pinned by hand\n- name: nginx # the web server\n  newTag: \"1.26\"\n";
    place.write("kustomization.yaml", text);
    let shown = place.run(&["kustomize", "edit", "set", "image", "nginx:1.27", "--dry-run"]).ok();
    assert!(shown.contains("+  newTag: \"1.27\""), "{shown}");
    let path = place.path().join("kustomization.yaml");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text, "a dry run writes nothing");
    place.run(&["kustomize", "edit", "set", "image", "nginx:1.27"]).ok();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text.replace("1.26", "1.27"));
}

#[test]
fn a_package_is_started_built_tested_and_explained() {
    let place = Place::new();
    place.run(&["package", "init", "web"]).ok();
    place.run(&["package", "validate", "web.kurel"]).ok();
    place.run(&["package", "build", "web.kurel", "--output-dir", "out"]).ok();
    assert!(place.path().join("out/.kurel-manifest.json").is_file());
    let demo = example("packages/demo.kurel");
    assert!(place.run(&["package", "test", &demo]).ok().contains("1 passed, 0 failed"));
    let told = place.run(&["package", "explain", &demo, "Deployment/apps/demo.spec.replicas"]).ok();
    assert!(told.contains("parameters.yaml:"), "{told}");
    assert!(place.run(&["package", "schema", &demo]).ok().contains("json-schema.org/draft-07"));
}

#[test]
fn a_package_becomes_what_gitops_tools_take() {
    let place = Place::new();
    let shop = example("packages/shop.kurel");
    let read = |path: &str| std::fs::read_to_string(place.path().join(path)).unwrap();
    let flux = ["--format", "flux", "--flux-source", "GitRepository/fleet/infra", "--output-dir", "flux"];
    place.run(&[&["package", "build", &shop][..], &flux].concat()).ok();
    let main = read("flux/flux/shop-main.yaml");
    assert!(main.contains("dependsOn:\n  - name: shop-pre-install"), "{main}");
    assert!(
        main.contains("healthChecks:") && main.contains("timeout: 5m") && main.contains("namespace: infra")
    );
    assert!(read("flux/post-install/kustomization.yaml").contains("# comes after main"));
    let argo =
        ["--format", "argo", "--argocd-app", "https://example.com/x.git,deploy", "--output-dir", "argo"];
    place.run(&[&["package", "build", &shop][..], &argo].concat()).ok();
    assert!(read("argo/post-install/jobs.yaml").contains("argocd.argoproj.io/sync-wave: \"10\""));
    assert!(read("argo/argocd/shop.yaml").contains("kind: Application"));
    place.run(&["package", "build", &shop, "--format", "files", "--output-dir", "files"]).ok();
    assert!(read("files/deployment-shop-web.yaml").contains("ghcr.io/acme/shop:2.4"));
    let stream = place.run(&["package", "build", &shop, "--kind", "job", "--set", "image.tag=9"]).ok();
    assert!(stream.starts_with("apiVersion: batch/v1\nkind: Job\n") && stream.contains("acme/shop:9"));

    let without_place = place.run(&["package", "build", &shop, "--format", "flux"]);
    assert!(
        without_place.code == Some(64) && without_place.err.contains("--output-dir"),
        "{without_place:?}"
    );
    let without_source = place.run(&["package", "build", &shop, "--format", "flux", "--output-dir", "no"]);
    assert!(without_source.code == Some(1) && without_source.err.contains("KO010"), "{without_source:?}");
    assert!(!place.path().join("no").exists());
    let not_ours = place.write("own/README.md", "x").run(&["package", "build", &shop, "--output-dir", "own"]);
    assert!(not_ours.code == Some(1) && not_ours.err.contains("KO001"), "{not_ours:?}");
}

/// Scenario A-38 of the specification.
#[test]
fn packages_are_compared_with_parameters_on_both_sides() {
    let place = Place::new();
    let demo = example("packages/demo.kurel");
    place.write("dev.yaml", "replicas: 1\n").write("prod.yaml", "replicas: 3\nmonitoring: {enabled: true}\n");
    let diff = |args: &[&str]| {
        let ran = place.run(&[&["package", "diff", &demo][..], args].concat());
        (ran.code, ran.out)
    };
    let sides = ["-f", "dev.yaml", "--set", "port=1", "--against", "-f", "prod.yaml", "--set", "port=1"];
    let (code, text) = diff(&sides);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("spec.replicas: 1 -> 3") && !text.contains("value:"), "{text}");
    let (code, text) = diff(&["--set", "replicas=5"]);
    assert!(code == Some(1) && text.contains("spec.replicas: 2 -> 5"), "{text}");
    let same = ["-f", "dev.yaml", "--against", "--set", "replicas=1"];
    assert_eq!(diff(&same), (Some(0), String::new()));
    assert_eq!(diff(&[&demo, "-f", "prod.yaml"]), (Some(0), String::new()), "both sides get them");
    let (_, json) = diff(&["--set", "replicas=5", "-o", "json"]);
    assert!(json.contains("\"path\": \"spec.replicas\"") && json.contains("\"new\": 5"), "{json}");
    assert_eq!(diff(&[]).0, Some(64));
}

/// Scenario A-35 of the specification.
#[test]
fn parameters_and_patches_are_followed_both_ways() {
    let place = Place::new();
    let demo = example("packages/demo.kurel");
    let params = place.run(&["package", "params", &demo, "--set", "replicas=4"]).ok();
    assert!(params.contains("--set") && params.contains("image.tag") && params.contains("kurel.appVersion"));
    let traced = place.run(&["package", "trace", &demo, "--param", "replicas"]).ok();
    assert!(traced.contains("spec.replicas") && traced.contains("patches/00-base.kpatch:"), "{traced}");
    let traced = place.run(&["package", "trace", &demo, "--patch", "00-base.kpatch"]).ok();
    assert!(traced.contains("metadata.labels"), "{traced}");
    let unknown = place.run(&["package", "trace", &demo, "--patch", "00-bse.kpatch"]);
    assert!(unknown.code == Some(1) && unknown.err.contains("00-base.kpatch"), "{unknown:?}");
    place.run(&["package", "patches", &demo, "--conflicts"]).ok();
}

#[test]
fn a_path_that_is_no_source_is_explained() {
    let place = Place::new();
    place.write("both/Chart.yaml", "").write("both/kustomization.yaml", "resources: []\nnamePrefix: a-\n");
    let both = place.run(&["render", "both"]);
    assert!(
        both.code == Some(10) && both.err.contains("a chart (Chart.yaml) and a kustomization"),
        "{both:?}"
    );
    place.run(&["render", "both/kustomization.yaml"]).ok();
    let missing = place.run(&["render", "bth"]);
    assert!(missing.code == Some(10) && missing.err.contains("did you mean `./both`?"), "{missing:?}");
    let nothing = place.run(&["render", "."]);
    assert!(nothing.code == Some(10) && nothing.err.contains("did you mean `./both`?"), "{nothing:?}");
}

const MAP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata: {greeting: hello}\n";

#[test]
fn packages_and_kustomizations_are_releases_like_any_other() {
    let place = Place::new();
    let _down = Down(&place);
    place.run(&["sandbox", "up", "--detach", "--speed", "max", "--write-kubeconfig", "kubeconfig"]).ok();
    place.write(
        "p.kurel/parameters.yaml",
        "kurel: {name: p, version: 1.0.0, appVersion: \"1\"}\ngreeting: hello\n",
    );
    place.write("p.kurel/resources/web.yaml", MAP);
    place.write("p.kurel/patches/00.kpatch", "[configmap.web]\ndata.greeting: \"${greeting}\"\n");
    let kustomization = "resources: [web.yaml]\nnamespace: shop\nnamePrefix: prod-\n";
    place.write("k/web.yaml", MAP).write("k/kustomization.yaml", kustomization);
    let run = |words: &[&str]| place.run(&[words, &["--kubeconfig", "kubeconfig"]].concat());

    let package = ["apply", "p", "p.kurel", "-n", "packages"];
    run(&package).ok();
    run(&[&package[..], &["--set", "greeting=bye"]].concat()).ok();
    let kustomized = ["apply", "k", "k", "-n", "shop"];
    run(&kustomized).ok();
    let change = "patches:\n- target: {kind: ConfigMap}\n  patch: '[{op: replace, path: /data/greeting, value: bye}]'\n";
    place.write("k/kustomization.yaml", format!("{kustomization}{change}"));
    let planned = run(&["plan", "k", "k", "-n", "shop"]);
    assert!(planned.out.contains("+   greeting: bye") && planned.out.contains("1 to update"), "{planned:?}");
    run(&kustomized).ok();

    for (name, namespace, map) in [("p", "packages", "web"), ("k", "shop", "prod-web")] {
        let diff = run(&["diff", name, "1", "2", "-n", namespace]).ok();
        assert!(diff.contains(&format!("update ConfigMap/{map}")), "{diff}");
        assert!(diff.contains("-   greeting: hello") && diff.contains("+   greeting: bye"), "{diff}");
        run(&["rollback", name, "1", "-n", namespace]).ok();
        let manifest = run(&["get", "manifest", name, "-n", namespace]).ok();
        assert!(manifest.contains("greeting: hello"), "{manifest}");
        let history = run(&["history", name, "-n", namespace, "-o", "json"]).ok();
        let history: serde_json::Value = serde_json::from_str(&history).unwrap();
        let states: Vec<_> = history.as_array().unwrap().iter().map(|row| row["status"].clone()).collect();
        assert_eq!(states, ["superseded", "superseded", "deployed"]);
        let versions = history.as_array().unwrap().iter().map(|row| row["app_version"].clone());
        let expected = if name == "p" { "1" } else { "" };
        assert!(versions.eq([expected; 3]), "{history:#}");
        assert!(run(&["diff", name, "3", "-n", namespace]).ok().contains("nothing differs"));
    }

    place
        .write("else/web.yaml", MAP)
        .write("else/kustomization.yaml", "resources: [web.yaml]\nnamespace: north\n");
    let forgotten = run(&["apply", "other", "else"]);
    assert!(
        forgotten.err.contains("namespace `north` does not exist, and the release does not create it")
            && forgotten.err.contains("hint: keep the release there too with `-n north`"),
        "{forgotten:?}"
    );
}

/// Scenario A-32 of the specification.
#[test]
fn phases_are_kustomizations_that_build_to_the_stream() {
    let place = Place::new();
    for name in ["packages/demo.kurel", "packages/shop.kurel"] {
        let package = example(name);
        let out = name.replace('/', "-");
        place.run(&["package", "build", &package, "--auto-phase", "--output-dir", &out]).ok();
        let mut built = Vec::new();
        for phase in ["pre-install", "main", "post-install"] {
            let directory = format!("{out}/{phase}");
            if place.path().join(&directory).is_dir() {
                let text = place.run(&["kustomize", "build", &directory]).ok();
                built.extend(text.split("---\n").map(str::to_owned));
            }
        }
        place.write(&format!("{out}-stream/kustomization.yaml"), "resources: [all.yaml]\n");
        let stream = place.run(&["package", "build", &package, "--auto-phase"]).ok();
        place.write(&format!("{out}-stream/all.yaml"), stream);
        let whole = place.run(&["kustomize", "build", &format!("{out}-stream")]).ok();
        let mut whole: Vec<String> = whole.split("---\n").map(str::to_owned).collect();
        built.sort();
        whole.sort();
        assert_eq!(built, whole, "{name}");
    }
}

/// Scenario A-45 of the specification.
#[test]
fn what_kustomize_would_run_or_fetch_is_refused() {
    let place = Place::new();
    for (text, code) in [
        ("helmCharts: [{name: x}]\n", "KZ001"),
        (
            "generators: ['{apiVersion: builtin, kind: HelmChartInflationGenerator, metadata: {name: x}}']\n",
            "KZ001",
        ),
        ("transformers: ['{apiVersion: example.com/v1, kind: Mine, metadata: {name: x}}']\n", "KZ001"),
        ("validators: ['{apiVersion: v1, kind: ConfigMap, metadata: {name: x}}']\n", "KZ001"),
        ("openapi: {path: o.json}\n", "KZ001"),
        ("resources: [\"https://example.com/x.yaml\"]\n", "KZ002"),
        ("resources: [\"git@example.com:a/b.git\"]\n", "KZ002"),
        ("resources: [\"example.com/a/b//deploy?ref=v1\"]\n", "KZ002"),
        ("components: [\"github.com/a/b/deploy?ref=v1\"]\n", "KZ002"),
    ] {
        place.write("kustomization.yaml", text);
        let ran = place.run(&["kustomize", "build", "."]);
        assert_eq!((ran.code, ran.out.as_str()), (Some(10), ""), "{text}");
        let at = ran.err.contains("kustomization.yaml:1:") && ran.err.contains("hint:");
        assert!(ran.err.contains(code) && at, "{text}: {}", ran.err);
    }
}

/// Scenario A-47 of the specification.
#[test]
fn validation_is_told_as_text_and_as_json() {
    let place = Place::new();
    let demo = example("packages/demo.kurel");
    let text = place.run(&["package", "validate", &demo]).ok();
    for line in
        ["✓ Package structure valid", "Enabled patches:", "Generated resources:", "Validation summary: "]
    {
        assert!(text.contains(line), "{line}: {text}");
    }
    place.write("p.kurel/parameters.yaml", "kurel: {name: p, version: 1.0.0, appVersion: \"1\"}\n");
    place.write("p.kurel/resources/web.yaml", MAP);
    place.write("p.kurel/patches/00.kpatch", "[configmap.web]\ndata.greeting: \"${nothing}\"\n");
    let ran = place.run(&["package", "validate", "p.kurel", "-o", "json"]);
    assert_eq!(ran.code, Some(10), "{ran:?}");
    let json: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    let wrong = json.as_array().unwrap().iter().find(|problem| problem["severity"] == "error").unwrap();
    assert_eq!(wrong["code"], "KV020", "{json:#}");
    assert_eq!(
        wrong["at"],
        serde_json::json!({"file": "patches/00.kpatch", "line": 2, "column": 16}),
        "{json:#}"
    );
    assert_eq!(wrong["excerpt"], "data.greeting: \"${nothing}\"");
    assert!(wrong["hint"].as_str().is_some_and(|hint| hint.contains("parameters.yaml")), "{json:#}");

    let ran = place.run(&["package", "validate", "p.kurel"]);
    assert!(ran.code == Some(10) && ran.err.contains("2 | data.greeting: \"${nothing}\""), "{ran:?}");
    assert_eq!(
        ran.out,
        "✓ Package structure valid\n✓ Parameters schema validation passed\n✗ Patches: 1 error\n\n\
         Enabled patches:\n  ✓ patches/00.kpatch (always enabled)\n\n\
         Generated resources:\n  ✓ 1 ConfigMap\n  ✗ error[KV020]: undefined parameter `nothing`\n     \
         --> patches/00.kpatch:2:16\n     → add `nothing` to parameters.yaml\n\n\
         Validation summary: 1 error, 0 warnings\n"
    );
}

/// Scenario A-37 of the specification.
#[test]
fn a_package_tests_itself_and_golden_files_are_written_anew() {
    let place = Place::new();
    place.write(
        "p.kurel/parameters.yaml",
        "kurel: {name: p, version: 1.0.0, appVersion: \"1\"}\ngreeting: hi\n",
    );
    place.write("p.kurel/resources/web.yaml", MAP);
    place.write("p.kurel/patches/00.kpatch", "[configmap.web]\ndata.greeting: \"${greeting}\"\n");
    place.write(
        "p.kurel/tests/fields.yaml",
        "name: fields\nexpect: {count: 1, fields: {\"ConfigMap/web data\": {greeting: hi}}}\n",
    );
    place.write(
        "p.kurel/tests/golden.yaml",
        "name: golden\nvalues: {greeting: ho}\nsnapshot: golden/ho.yaml\n",
    );
    let test = |more: &[&str]| place.run(&[&["package", "test", "p.kurel"][..], more].concat());
    let missing = test(&[]);
    assert!(missing.code == Some(1) && missing.out.contains("1 passed, 1 failed"), "{missing:?}");
    test(&["--update"]).ok();
    let golden = place.path().join("p.kurel/tests/golden/ho.yaml");
    assert!(std::fs::read_to_string(&golden).unwrap().contains("greeting: ho"));
    assert!(test(&[]).ok().contains("2 passed, 0 failed"));

    place.write("p.kurel/patches/00.kpatch", "[configmap.web]\ndata.greeting: \"${greeting}!\"\n");
    let ran = test(&[]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    for line in [
        "  ConfigMap/web data greeting: expected \"hi\", found \"hi!\"\n",
        "  ConfigMap web data.greeting: expected \"ho\", found \"ho!\"\n",
        "0 passed, 2 failed",
    ] {
        assert!(ran.out.contains(line), "{line}: {}", ran.out);
    }
    test(&["--update"]);
    assert!(std::fs::read_to_string(&golden).unwrap().contains("greeting: ho!"));
    assert!(test(&[]).out.contains("1 passed, 1 failed"), "only golden files are written anew");
}

#[test]
fn the_spellings_of_kurel_work_too() {
    let place = Place::new();
    let demo = example("packages/demo.kurel");
    let schema = place.run(&["package", "schema", "generate", &demo]).ok();
    assert_eq!(schema, place.run(&["package", "schema", &demo]).ok());
    let patches = place.run(&["package", "patches", "list", &demo]).ok();
    assert_eq!(patches, place.run(&["package", "patches", &demo]).ok());
    let built = place.run(&["package", "build", &demo, "--output", "json"]).ok();
    assert!(built.starts_with('{'), "{built}");
    for (directory, flags) in
        [("a", vec!["--output", "a"]), ("b", vec!["--output=b"]), ("c", vec!["--output-dir", "c"])]
    {
        let mut words = vec!["package", "build", demo.as_str()];
        words.extend(flags);
        place.run(&words).ok();
        assert!(place.path().join(directory).join("main/kustomization.yaml").is_file(), "{directory}");
    }
    let on = ["package", "build", &demo, "--set", "monitoring.enabled=true"];
    let ran = place.run(&on);
    assert!(ran.err.contains("(required by "), "{}", ran.err);
    let nothing = place.run(&["package", "schema"]);
    assert_eq!(nothing.code, Some(64), "{}", nothing.err);
}

#[cfg(unix)]
#[test]
fn editing_follows_no_link_out_of_the_directory() {
    let place = Place::new();
    place.write("secret.txt", "password: hunter2: [\n").write("k/a.yaml", "x\n");
    std::os::unix::fs::symlink("../secret.txt", place.path().join("k/kustomization.yaml")).unwrap();
    for words in
        [&["kustomize", "build", "k"][..], &["kustomize", "edit", "set", "namespace", "n", "-C", "k"]]
    {
        let ran = place.run(words);
        assert_eq!(ran.code, Some(10), "{}", ran.err);
        assert!(ran.err.contains("a link to a file outside") && !ran.err.contains("hunter2"), "{}", ran.err);
    }
}
