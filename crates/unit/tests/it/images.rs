//! Images bound to charts of many shapes, each with its proof.

use slipway_chart::UserValues;
use slipway_manifest::image::ImageReference;
use slipway_source::LoadContext;
use slipway_unit::*;

use crate::support::*;

fn container(name: &str, image: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  containers:\n    - name: main\n      image: {image}\n"
    )
}

fn images(texts: &[&str]) -> Vec<ImageInput> {
    texts.iter().map(|text| ImageInput::parse(text).unwrap_or_else(|problem| panic!("{problem}"))).collect()
}

/// An object whose label is the tag if that is a version, and something else if it is not, as many public charts have it.
const VERSION_LABEL: &str = "\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, labels: {version: '{{ if regexMatch `^[0-9.]+$` .Values.image.tag }}{{ .Values.image.tag }}{{ else }}none{{ end }}'}}";

struct Shape {
    name: &'static str,
    files: Vec<(&'static str, String)>,
    input: &'static str,
    /// The image the first pod must get.
    image: String,
    path: &'static str,
}

fn shapes() -> Vec<Shape> {
    let with = |name, values: &str, image: &str, input, wanted: &str, path| Shape {
        name,
        files: vec![
            ("shop/Chart.yaml", ABOUT.to_owned()),
            ("shop/values.yaml", values.to_owned()),
            ("shop/templates/pod.yaml", container("a", image)),
        ],
        input,
        image: format!("{wanted}@{DIGEST}"),
        path,
    };
    let plain = "'{{ .Values.image.repository }}:{{ .Values.image.tag }}'";
    let api = "api=acme/api:2@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    let quay =
        "api=quay.io/acme/api:2@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    let mut all = vec![
        with(
            "repository and tag",
            "image: {repository: acme/api, tag: '1'}",
            plain,
            api,
            "acme/api:2",
            "image.tag",
        ),
        with(
            "tag defaults to the chart's version",
            "image: {repository: acme/api, tag: ''}",
            "'{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}'",
            api,
            "acme/api:2",
            "image.tag",
        ),
        with(
            "split registry",
            "image: {registry: quay.io, repository: acme/api, tag: '1'}",
            "'{{ .Values.image.registry }}/{{ .Values.image.repository }}:{{ .Values.image.tag }}'",
            quay,
            "quay.io/acme/api:2",
            "image.tag",
        ),
        with(
            "digest key",
            "image: {repository: acme/api, tag: '1', digest: ''}",
            "'{{ .Values.image.repository }}{{ if .Values.image.digest }}@{{ .Values.image.digest }}{{ else }}:{{ .Values.image.tag }}{{ end }}'",
            api,
            "acme/api",
            "image.digest",
        ),
        with("string", "image: acme/api:1", "{{ .Values.image }}", api, "acme/api:2", "image"),
        with(
            "string with a suffix",
            "webImage: acme/api:1",
            "{{ .Values.webImage }}",
            api,
            "acme/api:2",
            "webImage",
        ),
        with(
            "name and tag",
            "image: {name: acme/api, tag: '1'}",
            "'{{ .Values.image.name }}:{{ .Values.image.tag }}'",
            api,
            "acme/api:2",
            "image.tag",
        ),
        with(
            "image and tag",
            "image: {image: acme/api, tag: '1'}",
            "'{{ .Values.image.image }}:{{ .Values.image.tag }}'",
            api,
            "acme/api:2",
            "image.tag",
        ),
        with(
            "a tag that is also a label is written into the objects",
            "image: {repository: acme/api, tag: '1'}",
            "'{{ .Values.image.repository }}:{{ .Values.image.tag }}'\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, labels: {version: '{{ .Values.image.tag }}'}}",
            api,
            "acme/api:2",
            r#"{"repository":"docker.io/acme/api"}"#,
        ),
        with(
            "a tag that a label is read from is written into the objects",
            "image: {repository: acme/api, tag: 1.2.3}",
            &format!("{plain}{VERSION_LABEL}"),
            "api=acme/api:1.2.3@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
            "acme/api:1.2.3",
            r#"{"repository":"docker.io/acme/api"}"#,
        ),
        with(
            "a tag that another image shares is written into the objects",
            "image: {repository: acme/api, tag: '1'}",
            "'{{ .Values.image.repository }}:{{ .Values.image.tag }}'\n---\napiVersion: acme.io/v1\nkind: Agent\nmetadata: {name: x}\nspec: {image: 'acme/agent:{{ .Values.image.tag }}'}",
            api,
            "acme/api:2",
            r#"{"repository":"docker.io/acme/api"}"#,
        ),
        with(
            "no value at all",
            "x: 1",
            "acme/api:1",
            api,
            "acme/api:2",
            r#"{"repository":"docker.io/acme/api"}"#,
        ),
        with(
            "images by name",
            "images: {api: {repository: acme/api, tag: '1'}}",
            "'{{ .Values.images.api.repository }}:{{ .Values.images.api.tag }}'",
            api,
            "acme/api:2",
            "images.api.tag",
        ),
        with(
            "list of images",
            "images: [{repository: acme/other, tag: '1'}, {repository: acme/api, tag: '1'}]",
            "'{{ (index .Values.images 1).repository }}:{{ (index .Values.images 1).tag }}'",
            api,
            "acme/api:2",
            "images[1].tag",
        ),
        with(
            "global image",
            "global: {image: {repository: acme/api, tag: '1'}}",
            "'{{ .Values.global.image.repository }}:{{ .Values.global.image.tag }}'",
            api,
            "acme/api:2",
            "global.image.tag",
        ),
        with(
            "a form that takes no digest is written into the objects",
            "image: {repository: acme/api, tag: '1'}",
            "'{{ .Values.image.repository }}:v{{ .Values.image.tag | trunc 3 }}'",
            api,
            "acme/api:2",
            r#"{"repository":"docker.io/acme/api"}"#,
        ),
    ];
    all.push(Shape {
        name: "subchart",
        files: vec![
            ("shop/Chart.yaml", format!("{ABOUT}dependencies: [{{name: api, version: 1.0.0}}]\n")),
            ("shop/charts/api/Chart.yaml", "apiVersion: v2\nname: api\nversion: 1.0.0\n".to_owned()),
            ("shop/charts/api/values.yaml", "image: {repository: acme/api, tag: '1'}\n".to_owned()),
            ("shop/charts/api/templates/pod.yaml", container("a", plain)),
        ],
        input: api,
        image: format!("acme/api:2@{DIGEST}"),
        path: "api.image.tag",
    });
    all
}

#[tokio::test]
async fn every_shape_of_chart_gets_its_image_with_a_proof() {
    for shape in shapes() {
        let files: Vec<(&str, &str)> =
            shape.files.iter().map(|(name, text)| (*name, text.as_str())).collect();
        let source = folder(&files);
        let path = source.path().join("u");
        let request =
            BundleRequest { images: images(&[shape.input]), ..request_for(&source.path().join("shop")) };
        let report = make(request, &LoadContext::default(), &path).await;
        let report = report.unwrap_or_else(|error| panic!("{}: {error}", shape.name));
        let unit = open(&path);
        let used = &unit.rows().image_uses[0];
        assert_eq!(
            (used.reference.as_str(), used.bound_to.as_deref()),
            (shape.image.as_str(), Some("api")),
            "{}",
            shape.name
        );
        assert_eq!(unit.rows().image_bindings[0].path, shape.path, "{}", shape.name);
        assert!(report.bindings[0].ends_with("in Pod/a[main]"), "{}: {}", shape.name, report.bindings[0]);
        // What is bound is what is proven.
        let (masked, settings) = (LoadContext::default(), slipway_source::RenderSettings::default());
        prove(&unit, UnitLoader { masked: &masked, resolving: &masked, settings: &settings })
            .unwrap_or_else(|error| panic!("{}: {error}", shape.name));
    }
}

fn version_label(image: &str, values: &str) -> tempfile::TempDir {
    let pods = container("a", &format!("{image}{VERSION_LABEL}"));
    folder(&[("shop/Chart.yaml", ABOUT), ("shop/values.yaml", values), ("shop/templates/pod.yaml", &pods)])
}

#[tokio::test]
async fn a_label_may_follow_the_tag_and_the_proof_says_so() {
    let image = "'{{ .Values.image.repository }}@{{ .Values.image.digest }}'";
    let values = format!("image: {{repository: acme/api, tag: 1.2.3, digest: '{OTHER}'}}");
    let source = version_label(image, &values);
    let path = source.path().join("u");
    let input = format!("api=acme/api:1.3.0@{DIGEST}");
    let request = BundleRequest { images: images(&[&input]), ..request_for(&source.path().join("shop")) };
    let report =
        make(request, &LoadContext::default(), &path).await.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(
        report.bindings[0],
        format!(
            "image api bound at .image.digest renders as acme/api:1.3.0@{DIGEST} in Pod/a[main]; labels follow its tag: ConfigMap/x metadata.labels[version]"
        )
    );
    let texts = open(&path).object_texts().unwrap_or_else(|error| panic!("{error}"));
    assert!(texts.values().any(|text| text.contains("version: 1.3.0")), "{texts:?}");
}

#[tokio::test]
async fn a_mapping_whose_digest_changes_a_label_is_an_error() {
    let image = "'{{ .Values.image.repository }}:{{ .Values.image.tag }}'";
    let source = version_label(image, "image: {repository: acme/api, tag: 1.2.3}");
    let path = source.path().join("u");
    let text =
        "apiVersion: ktl.dev/image-map/v1\nimages:\n  api:\n    set: {image.tag: '{{tag}}@{{digest}}'}\n";
    let mapping = ImageMapping::parse(text, "map.yaml").unwrap_or_else(|problems| panic!("{problems}"));
    let input = format!("api=acme/api:1.2.3@{DIGEST}");
    let request =
        BundleRequest { mapping, images: images(&[&input]), ..request_for(&source.path().join("shop")) };
    let error = make(request.clone(), &LoadContext::default(), &path).await.expect_err("is wrong");
    let UnitError::Problems(problems) = error else { panic!("{error}") };
    let problem = problems.iter().next().expect("is there");
    assert_eq!(
        problem.message,
        "image `api` is mapped to `image.tag`, and its digest changes labels: ConfigMap/x metadata.labels[version]"
    );
    assert!(problem.hint.as_ref().is_some_and(|hint| hint.contains("postRender")), "{:?}", problem.hint);
}

fn two_places() -> tempfile::TempDir {
    let pods = format!(
        "{}---\n{}",
        container("a", "'{{ .Values.web.image.repository }}:{{ .Values.web.image.tag }}'"),
        container("b", "'{{ .Values.job.image.repository }}:{{ .Values.job.image.tag }}'")
    );
    folder(&[
        ("shop/Chart.yaml", ABOUT),
        (
            "shop/values.yaml",
            "web: {image: {repository: acme/api, tag: '1'}}\njob: {image: {repository: other/api, tag: '1'}}\n",
        ),
        ("shop/templates/pod.yaml", &pods),
    ])
}

#[tokio::test]
async fn an_image_that_fits_several_places_is_an_error_with_a_mapping_to_paste() {
    let source = two_places();
    let path = source.path().join("u");
    let input = format!("api=mirror.example/team/api:2@{DIGEST}");
    let request = BundleRequest {
        images: images(&[&input]),
        inferred: InferredBindings::Accept,
        ..request_for(&source.path().join("shop"))
    };
    let error = make(request.clone(), &LoadContext::default(), &path).await.expect_err("is ambiguous");
    let UnitError::Problems(problems) = error else { panic!("{error}") };
    let problem = problems.iter().next().expect("is there");
    assert!(problem.message.contains("fits 2 places"), "{}", problem.message);
    let hint = problem.hint.clone().expect("says what to do");
    let pasted = hint.split_once('\n').expect("has a file").1.to_owned();
    let mapping =
        ImageMapping::parse(&pasted, "map.yaml").unwrap_or_else(|problems| panic!("{problems}\n{pasted}"));
    let report = make(BundleRequest { mapping, ..request }, &LoadContext::default(), &path).await;
    let report = report.unwrap_or_else(|error| panic!("{error}"));
    assert!(report.bindings[0].ends_with("in Pod/b[main]"), "{}", report.bindings[0]);
    assert_eq!(report.unpinned, ["acme/api:1"]);
}

#[tokio::test]
async fn an_image_that_only_templates_name_is_not_taken_for_the_only_place() {
    let side = container("side", "busybox:1");
    let source = folder(&[
        ("shop/Chart.yaml", ABOUT),
        ("shop/values.yaml", VALUES),
        ("shop/templates/deployment.yaml", DEPLOYMENT),
        ("shop/templates/side.yaml", &side),
    ]);
    let path = source.path().join("u");
    let input = format!("box=mirror.example/busybox:2@{DIGEST}");
    let request = BundleRequest {
        images: images(&[&input]),
        inferred: InferredBindings::Accept,
        ..request_for(&source.path().join("shop"))
    };
    let error = make(request.clone(), &LoadContext::default(), &path).await.expect_err("is not bound");
    let UnitError::Problems(problems) = error else { panic!("{error}") };
    let hint = problems.iter().next().and_then(|problem| problem.hint.clone()).expect("says what to do");
    let pasted = hint.split_once('\n').expect("has a file").1;
    let mapping = ImageMapping::parse(pasted, "map.yaml").unwrap_or_else(|problems| panic!("{problems}"));
    let report = make(BundleRequest { mapping, ..request }, &LoadContext::default(), &path).await;
    let report = report.unwrap_or_else(|error| panic!("{error}"));
    assert!(report.bindings[0].ends_with("in Pod/side[main]"), "{}", report.bindings[0]);
    assert_eq!(report.unpinned, ["acme/shop:1.0"]);
}

#[tokio::test]
async fn inferred_bindings_have_to_be_accepted() {
    let source = shop();
    let path = source.path().join("u");
    let input = format!("shop=mirror.example/shop:2@{DIGEST}");
    let request = BundleRequest { images: images(&[&input]), ..request_for(&source.path().join("shop")) };
    let error = make(request.clone(), &LoadContext::default(), &path).await.expect_err("is not accepted");
    assert!(error.to_string().contains("because of its name alone"), "{error}");
    let accepted = BundleRequest { inferred: InferredBindings::Accept, ..request };
    let report =
        make(accepted, &LoadContext::default(), &path).await.unwrap_or_else(|error| panic!("{error}"));
    assert!(
        report.bindings[0].contains(&format!("mirror.example/shop:2@{DIGEST}")),
        "{}",
        report.bindings[0]
    );
}

#[tokio::test]
async fn a_mapping_without_autodetection_binds_nothing_else() {
    let source = shop();
    let path = source.path().join("u");
    let mapping = ImageMapping::parse("apiVersion: ktl.dev/image-map/v1\nautodetect: false\n", "map.yaml")
        .expect("is read");
    let input = format!("shop=acme/shop:2@{DIGEST}");
    let request =
        BundleRequest { mapping, images: images(&[&input]), ..request_for(&source.path().join("shop")) };
    let report =
        make(request, &LoadContext::default(), &path).await.unwrap_or_else(|error| panic!("{error}"));
    assert!(report.bindings.is_empty());
    assert_eq!(report.unpinned, ["acme/shop:1.0"]);
}

#[test]
fn mappings_report_every_mistake_with_its_place() {
    let text = "apiVersion: v2\nimages:\n  api: {sets: {}}\nautodetect: maybe\n";
    let problems = ImageMapping::parse(text, "map.yaml").expect_err("is wrong");
    let shown: Vec<String> = problems.iter().map(ToString::to_string).collect();
    for place in ["map.yaml:1:", "map.yaml:3:", "map.yaml:4:"] {
        assert!(shown.iter().any(|line| line.contains(place)), "{place} in {shown:?}");
    }
}

#[test]
fn layouts_give_the_digest_of_their_image() {
    let manifest = r#"{"schemaVersion":2,"layers":[{"size":5}]}"#;
    let digest = slipway_journal::digest::bytes(manifest.as_bytes());
    let blob = format!("blobs/sha256/{}", digest.trim_start_matches("sha256:"));
    let index = format!(
        r#"{{"manifests":[{{"mediaType":"m","digest":"{digest}","platform":{{"os":"linux","architecture":"arm64"}}}}]}}"#
    );
    let place = folder(&[
        ("oci-layout", r#"{"imageLayoutVersion":"1.0.0"}"#),
        ("index.json", &index),
        (&blob, manifest),
    ]);
    let reference: ImageReference = "acme/api:1".parse().expect("is a reference");
    let input = read_layout("api", &reference, place.path()).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(input.reference.to_string(), format!("acme/api:1@{digest}"));
    let platform = ImagePlatform { platform: "linux/arm64".to_owned(), digest: Some(digest) };
    assert_eq!((input.platforms, input.size_bytes), (vec![platform], Some(5)));
    std::fs::write(place.path().join(&blob), "{}").expect("is written");
    let error = read_layout("api", &reference, place.path()).expect_err("is wrong");
    assert!(error.to_string().contains("has another content"), "{error}");
}

#[cfg(unix)]
#[tokio::test]
async fn builders_are_run_and_their_digest_is_sealed() {
    let source = shop();
    let path = source.path().join("u");
    let script = format!("echo building >&2; echo '{{\"containerimage.digest\": \"{OTHER}\"}}' > \"$1\"");
    let command = ["sh", "-c", &script, "sh", "{{metadata}}"].map(str::to_owned).to_vec();
    let build = BuilderCommand {
        name: "shop".into(),
        reference: "acme/shop:2".parse().expect("is a reference"),
        context: source.path().join("shop"),
        command,
        cancel: tokio_util::sync::CancellationToken::new(),
    };
    let request = BundleRequest { builds: vec![build.clone()], ..request_for(&source.path().join("shop")) };
    make(request.clone(), &LoadContext::default(), &path).await.unwrap_or_else(|error| panic!("{error}"));
    let unit = open(&path);
    assert_eq!(unit.rows().image_uses[0].reference, format!("acme/shop:2@{OTHER}"));
    assert_eq!(
        (unit.rows().builds[0].digest.as_str(), unit.rows().images[0].source),
        (OTHER, ImageOrigin::Build)
    );
    let failing = BuilderCommand {
        command: ["sh", "-c", "echo no space >&2; exit 3"].map(str::to_owned).to_vec(),
        ..build
    };
    let error =
        make(BundleRequest { builds: vec![failing], ..request }, &LoadContext::default(), &path).await;
    let error = error.expect_err("fails").to_string();
    assert!(error.contains("building image `shop` failed") && error.contains("no space"), "{error}");
}

#[tokio::test]
async fn values_are_sealed_as_they_were_given() {
    let source = folder(&[
        ("shop/Chart.yaml", ABOUT),
        (
            "shop/templates/a.yaml",
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n{{- range $k, $v := .Values }}\n  {{ $k }}: {{ $v | toString | quote }}\n{{- end }}\n",
        ),
        ("file.txt", "from a file"),
    ]);
    let path = source.path().join("u");
    let file = source.path().join("file.txt");
    let values = UserValues {
        files: vec![("v.yaml".into(), b"big: 1000000\nname: x\n".to_vec())],
        set: vec!["count=1000000".into()],
        set_string: vec!["text=1".into()],
        set_json: vec!["list=[1,2]".into()],
        set_literal: vec!["lit=a,b".into()],
        set_file: vec![format!("file={}", file.display())],
        ..UserValues::default()
    };
    let request = BundleRequest { values, ..request_for(&source.path().join("shop")) };
    make(request, &LoadContext::default(), &path).await.unwrap_or_else(|error| panic!("{error}"));
    std::fs::remove_file(file).expect("is removed");
    let (masked, settings) = (LoadContext::default(), slipway_source::RenderSettings::default());
    prove(&open(&path), UnitLoader { masked: &masked, resolving: &masked, settings: &settings })
        .unwrap_or_else(|error| panic!("{error}"));
}
