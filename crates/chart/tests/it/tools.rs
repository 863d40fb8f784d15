//! Packaging, creating, dependencies, explaining: what stands around rendering.

use std::fs;
use std::path::Path;

use serde_json::Map;
use slipway_chart::explain::{FieldQuery, OriginSource as From, explain};
use slipway_chart::lint::{LintOptions, lint_chart};
use slipway_chart::{
    Chart, ChartInput, ChartPart, ChartProgram, LoadOptions, Notices, PackageOptions, RenderOptions,
    SeededHost, UserValues, create, deps, package_chart, render, show_chart,
};
use slipway_chart::{generate_name, name_from_template};
use slipway_gotmpl::NoHost;

fn fixture(name: &str) -> Chart {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
    Chart::load(path.as_path(), &LoadOptions::default()).unwrap()
}

#[test]
fn a_package_is_reproducible_and_renders_the_same() {
    let chart = fixture("shop");
    let packed = package_chart(&chart, &PackageOptions::default()).unwrap();
    assert_eq!(packed.file_name, "shop-1.2.3.tgz");
    assert_eq!(packed.bytes, package_chart(&chart, &PackageOptions::default()).unwrap().bytes);
    let prefix = [&[0x1f, 0x8b, 8, 0x14, 0, 0, 0, 0][..], &[0, 0xff, 0x29, 0]].concat();
    assert_eq!(packed.bytes[..prefix.len()][..8], prefix[..8]);
    assert_eq!(&packed.bytes[9..12], &[0xff, 0x29, 0]);
    let again = Chart::load(ChartInput::Archive(&packed.bytes), &LoadOptions::default()).unwrap();
    let options = RenderOptions { include_crds: true, ..RenderOptions::default() };
    let text = |chart: &Chart| {
        let rendered = render(chart, &Map::new(), &options).unwrap();
        rendered.to_template_output(&options).map(String::from_utf8).unwrap().unwrap()
    };
    assert_eq!(text(&chart), text(&again));
    let shown = show_chart(&again, ChartPart::Chart).unwrap();
    assert!(shown.starts_with(b"annotations:\n  team: web\n"));
    assert_eq!(show_chart(&again, ChartPart::Readme).unwrap(), b"# Shop\n\n");
}

#[test]
fn a_created_chart_lints_and_renders() {
    let folder = tempfile::tempdir().unwrap();
    for file in create("web").unwrap() {
        let path = folder.path().join(&file.name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, &file.data).unwrap();
    }
    let report =
        lint_chart(folder.path(), &Map::new(), &LintOptions::default(), &NoHost, &mut Notices::new());
    let texts: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
    assert_eq!(texts, ["[INFO] Chart.yaml: icon is recommended"]);
    let chart = Chart::load(folder.path(), &LoadOptions::default()).unwrap();
    let values =
        UserValues { set: vec!["host=shop.example.org,env.GREETING=hello".into()], ..UserValues::default() };
    let rendered = render(&chart, &values.build_map().unwrap(), &RenderOptions::default()).unwrap();
    let kinds: Vec<&str> = rendered.manifests.iter().map(|manifest| manifest.kind.as_str()).collect();
    assert_eq!(kinds, ["Service", "Deployment", "Ingress"]);
    assert!(rendered.hooks[0].is_test());
    assert!(create("a b").is_err());
}

#[test]
fn a_program_is_parsed_once_and_rendered_often() {
    let program = ChartProgram::new(fixture("shop"));
    let options = RenderOptions::default();
    let first = program.render(&Map::new(), &options).unwrap();
    let values = UserValues { set: vec!["replicas=9".into()], ..UserValues::default() }.build_map().unwrap();
    let second = program.render(&values, &options).unwrap();
    let third = program.render(&Map::new(), &options).unwrap();
    assert_eq!(first.manifests, third.manifests);
    assert_ne!(first.manifests, second.manifests);
    assert_eq!(first.notes, "Visit eu release-name\n");
}

#[test]
fn a_post_renderer_sees_manifests_and_not_hooks() {
    let options = RenderOptions::default();
    let mut rendered = render(&fixture("shop"), &Map::new(), &options).unwrap();
    rendered
        .post_render(&options, |mut text| {
            assert!(!String::from_utf8_lossy(&text).contains("name: migrate"));
            text.extend_from_slice(b"# post\n");
            Ok::<_, std::io::Error>(text)
        })
        .unwrap();
    let text = String::from_utf8(rendered.to_template_output(&options).unwrap()).unwrap();
    assert!(text.contains("# post\n---\n# Source: shop/templates/hooks.yaml\n"));
    assert!(rendered.post_render(&options, |_| Err("no")).is_err());
}

#[test]
fn local_dependencies_are_brought_in_and_locked() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write("sub/Chart.yaml", "apiVersion: v2\nname: sub\nversion: 0.1.0\n");
    write(
        "app/Chart.yaml",
        "apiVersion: v2\nname: app\nversion: 1.0.0\ndependencies:\n- {name: sub, version: ^0.1, repository: file://../sub, alias: al}\n",
    );
    let app = folder.path().join("app");
    let status = || {
        let chart = Chart::load(app.as_path(), &LoadOptions::default()).unwrap();
        deps::list_dependencies(&chart, &app)[0].status.clone()
    };
    assert_eq!(status(), "missing");
    let options = deps::UpdateOptions { generated: "2024-01-01T00:00:00Z".into(), ..Default::default() };
    let lines = deps::update_dependencies(&app, &deps::OfflineFetcher, &options).unwrap();
    assert_eq!(lines, ["Saving 1 charts", "Deleting outdated charts"]);
    assert_eq!(status(), "ok");
    assert_eq!(
        fs::read_to_string(app.join("Chart.lock")).unwrap(),
        "dependencies:\n- name: sub\n  repository: file://../sub\n  version: 0.1.0\ndigest: sha256:9f5a4b2e58b3b4126cbd149a6ffa169780e6b8fa5e7c335fab11ca8dbadd87d9\ngenerated: \"2024-01-01T00:00:00Z\"\n"
    );
    assert_eq!(deps::build_dependencies(&app, &deps::OfflineFetcher, &options).unwrap().len(), 2);
    write(
        "app/Chart.yaml",
        "apiVersion: v2\nname: app\nversion: 1.0.0\ndependencies:\n- {name: sub, version: ^9, repository: file://../sub}\n",
    );
    let error = deps::build_dependencies(&app, &deps::OfflineFetcher, &options).unwrap_err().to_string();
    assert!(error.starts_with("the lock file (Chart.lock) is out of sync"), "{error}");
    let error = deps::update_dependencies(&app, &deps::OfflineFetcher, &options).unwrap_err().to_string();
    assert!(error.starts_with("can't get a valid version for 1 subchart(s): \"sub\""), "{error}");
}

#[test]
fn a_field_is_explained_by_template_and_value() {
    let program = ChartProgram::new(fixture("shop"));
    let mut user = UserValues { set: vec!["cart.size=6".into()], ..UserValues::default() };
    user.files.push(("mine.yaml".into(), b"# mine\nreplicas: 4\n".to_vec()));
    let ask = |query: &str| {
        let host = SeededHost::new(1, 0);
        explain(&program, &user, &RenderOptions::default(), &host, &FieldQuery::parse(query).unwrap())
            .unwrap()
    };
    let found = ask("Deployment:spec.replicas");
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].value, "4");
    assert_eq!(found[0].lines[0].at.to_string(), "shop/templates/deployment.yaml:9:16");
    assert_eq!(found[0].lines[0].values[0].path, ".Values.replicas");
    assert_eq!(found[0].lines[0].values[0].source.to_string(), "mine.yaml:2:11");

    let found = ask("Cart/cart:size");
    assert_eq!(found[0].lines[0].values[0].source, From::Flag { flag: "--set", text: "cart.size=6".into() });
    let found = ask("Cart/basket:size");
    assert!(
        found[0].lines[0].values[0]
            .source
            .to_string()
            .ends_with("shop/values.yaml:12:16 (default of chart shop)")
    );
    let found = ask("ConfigMap:data.region");
    assert!(found[0].lines[0].values[0].source.to_string().contains("values.yaml:16:11"));
    let found = ask("Deployment:metadata.labels.version");
    let lines: Vec<String> = found[0].lines.iter().map(|line| line.at.to_string()).collect();
    assert!(lines.contains(&"shop/templates/_helpers.tpl:4:13".to_owned()), "{lines:?}");
}

#[test]
fn releases_without_a_name_get_one() {
    assert_eq!(generate_name("./charts/web-1.2.tgz", 17), "web-1-17");
    assert_eq!(generate_name("web", 17), "web-17");
    assert_eq!(generate_name(".", 17), "chart-17");
    let host = SeededHost::new(1, 0);
    let name = name_from_template("x-{{ \"ABC\" | lower }}-{{ randAlpha 4 | lower }}", &host).unwrap();
    assert!(name.starts_with("x-abc-") && name.len() == 10, "{name}");
    assert_eq!(
        name,
        name_from_template("x-{{ \"ABC\" | lower }}-{{ randAlpha 4 | lower }}", &SeededHost::new(1, 0))
            .unwrap()
    );
    assert!(name_from_template("{{ nosuch }}", &host).is_err());
}

#[test]
fn hostile_schemas_and_archives_end_in_errors() {
    let chart = |schema: &str| {
        let files = [
            ("Chart.yaml", "apiVersion: v2\nname: h\nversion: 0.1.0\n"),
            ("values.yaml", "a: {b: 1}\n"),
            ("values.schema.json", schema),
        ];
        let files = files
            .map(|(name, text)| slipway_chart::ChartFile { name: name.into(), data: text.as_bytes().into() });
        Chart::from_files(files.into(), &LoadOptions::default(), &mut Notices::new()).unwrap()
    };
    for (schema, expected) in [
        (r##"{"$ref": "#"}"##, "refers to itself without end"),
        (r##"{"allOf": [{"$ref": "#"}, {"$ref": "#"}]}"##, "refers to itself without end"),
        (r#"{"$ref": "https://example.com/schema.json"}"#, "is not fetched"),
        (r#"{"$ref": "file:///etc/passwd"}"#, "is not fetched"),
        ("{", "unexpected EOF"),
        ("{x", "invalid character 'x' looking for beginning of object key string"),
        (r#"{"a" 1}"#, "invalid character '1' after object key"),
        ("[1 '", r"invalid character '\'' after array element"),
        (r#"{"minProperties": 5, "maxProperties": 1}"#, "minProperties cannot be greater than maxProperties"),
    ] {
        let error = render(&chart(schema), &Map::new(), &RenderOptions::default()).unwrap_err().to_string();
        assert!(error.contains(expected), "{schema}: {error}");
    }

    let mut options = LoadOptions::default();
    options.limits.archive = 1000;
    options.limits.file = 500;
    let files = |count: usize, size: usize| {
        let mut files = vec![slipway_chart::ChartFile {
            name: "Chart.yaml".into(),
            data: b"apiVersion: v2\nname: h\nversion: 0.1.0\n"[..].into(),
        }];
        files.extend((0..count).map(|index| slipway_chart::ChartFile {
            name: format!("f{index}"),
            data: vec![b'x'; size].into(),
        }));
        let chart = Chart::from_files(files, &LoadOptions::default(), &mut Notices::new()).unwrap();
        package_chart(&chart, &PackageOptions::default()).unwrap().bytes
    };
    for (bytes, expected) in [
        (files(1, 501), "decompressed chart file \"h/f0\" is larger than the maximum file size 500"),
        (files(3, 400), "decompressed chart is larger than the maximum file size 1000"),
    ] {
        let error = Chart::load(ChartInput::Archive(&bytes), &options).unwrap_err().to_string();
        assert_eq!(error, expected);
    }
}

#[test]
fn hostile_charts_end_in_errors() {
    let base = "apiVersion: v2\nname: h\nversion: 0.1.0\n";
    let cases = [
        ("{{ define \"r\" }}{{ include \"r\" . }}{{ end }}{{ include \"r\" . }}", "nested reference name: r"),
        (
            "{{ define \"r\" }}{{ template \"r\" . }}{{ end }}{{ template \"r\" . }}",
            "exceeded maximum template depth",
        ),
        ("{{ repeat 1000000000 \"x\" }}", ""),
        ("{{ range until 100000000 }}{{ range until 100000000 }}{{ end }}{{ end }}", ""),
        ("{{ define \"t\" }}{{ tpl \"{{ include `t` . }}\" . }}{{ end }}{{ include \"t\" . }}", ""),
    ];
    for (template, expected) in cases {
        let files = [("Chart.yaml", base), ("templates/t.yaml", template)]
            .map(|(name, text)| slipway_chart::ChartFile { name: name.into(), data: text.as_bytes().into() });
        let chart = Chart::from_files(files.into(), &LoadOptions::default(), &mut Notices::new()).unwrap();
        let mut options = RenderOptions::default();
        options.limits.steps = 3_000_000;
        let error = render(&chart, &Map::new(), &options).unwrap_err().to_string();
        assert!(error.contains(expected), "{template}: {error:.300}");
    }
    assert!(Chart::load(ChartInput::Archive(b"\x1f\x8b\x08garbage"), &LoadOptions::default()).is_err());
}
