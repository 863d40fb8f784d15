//! Edits keep every byte they are not about.

use proptest::prelude::*;
use slipway_kustomize::edit::{ImageEdit, add_resource, set_image, set_namespace};

const TEXT: &str = "\
# the production overlay
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization

resources:   # what we run
  - ../base

images:
  # bumped by the pipeline
  - name: web          # the site
    newTag: \"1.28.0\"  # keep quoted
    newName: registry.example/web
  - name: db
    digest: sha256:00
# the end
";

#[test]
fn images_are_set_in_place() {
    for (argument, before, after) in [
        ("web:1.29.0", "\"1.28.0\"", "\"1.29.0\""),
        ("web=registry.example/web:1.28.0", "", ""),
        ("web=other/web", "registry.example/web", "other/web"),
        ("registry.example/web:1.30", "\"1.28.0\"", "\"1.30\""),
        ("db@sha256:11", "sha256:00", "sha256:11"),
    ] {
        let edit = ImageEdit::parse(argument).expect(argument);
        let edited = set_image(TEXT, "kustomization.yaml", &edit).expect(argument);
        assert_eq!(edited, TEXT.replace(before, after), "{argument}");
        let again = set_image(&edited, "kustomization.yaml", &edit).expect(argument);
        assert_eq!(again, edited, "{argument} twice");
    }
}

#[test]
fn a_tag_replaces_a_digest() {
    let edit = ImageEdit::parse("db:2.0").expect("an edit");
    let edited = set_image(TEXT, "kustomization.yaml", &edit).expect("edited");
    assert!(!edited.contains("sha256"), "{edited}");
    assert!(edited.contains("newTag: \"2.0\""), "{edited}");
    assert!(edited.contains("# keep quoted") && edited.ends_with("# the end\n"), "{edited}");
}

#[test]
fn new_images_are_appended() {
    let edit = ImageEdit::parse("cache=mirror/cache:7@sha256:22").expect("an edit");
    for text in
        [TEXT, "resources: [a.yaml]\n", "images: []\nresources: [a.yaml]\n", "images:\nresources: [a.yaml]\n"]
    {
        let edited = set_image(text, "kustomization.yaml", &edit).expect("edited");
        for part in ["name: cache", "newName: mirror/cache", "newTag: \"7\"", "digest: sha256:22"] {
            assert!(edited.contains(part), "{part} in\n{edited}");
        }
        for line in text.lines().filter(|line| line.contains('#')) {
            assert!(edited.contains(line), "{line} in\n{edited}");
        }
    }
}

#[test]
fn other_fields() {
    let edited = set_namespace(TEXT, "kustomization.yaml", "prod").expect("edited");
    assert!(edited.contains("namespace: prod"), "{edited}");
    assert!(edited.contains("# the site"), "{edited}");
    let edited = add_resource(TEXT, "kustomization.yaml", "extra.yaml").expect("edited");
    assert_eq!(edited, TEXT.replace("  - ../base\n", "  - ../base\n  - extra.yaml\n"));
    assert_eq!(add_resource(&edited, "kustomization.yaml", "extra.yaml").expect("edited"), edited);
}

#[test]
fn mistakes_are_refused() {
    for argument in ["", "web", "=x:1", "web="] {
        assert!(ImageEdit::parse(argument).is_err(), "{argument}");
    }
    let edit = ImageEdit::parse("web:1").expect("an edit");
    for (text, message) in [
        ("images: {a: b}\n", "`images` should be a list, not a mapping"),
        ("- a\n", "a kustomization is a mapping, not a list"),
    ] {
        let problems = set_image(text, "k.yaml", &edit).expect_err("refused");
        assert!(problems.to_string().contains(message), "{problems}");
    }
}

/// A kustomization with comments everywhere, some of its parts chosen by chance.
fn laid_out() -> impl Strategy<Value = String> {
    let parts = [
        "# head\n\n",
        "resources:   # what we run\n  - ../base # one\n\n  # two\n  - 'b.yaml'\n",
        "namespace: old # where\n",
        "images:\n  # first\n  - name: web          # the site\n    newTag: \"1\"  # keep\n  -   name: 'db'\n      digest: sha256:00   # pinned\n",
        "labels:\n- pairs: {a: b}   # flow\n",
        "patches:\n- patch: |-\n    # inside\n    - {op: add, path: /a, value: '#'}\n  target: {kind: Deployment}\n",
        "# tail\n",
    ];
    prop::collection::vec(any::<bool>(), parts.len()).prop_map(move |chosen| {
        let parts = parts.iter().zip(chosen).filter(|(_, chosen)| *chosen).map(|(part, _)| *part);
        let text: String = parts.collect();
        if text.lines().all(|line| line.is_empty() || line.starts_with('#')) {
            format!("{text}resources: [a.yaml] # flow\n")
        } else {
            text
        }
    })
}

type Edit<'a> = &'a dyn Fn(&str) -> String;

proptest! {
    /// Lines that are not about the edited field stay, in order, byte for byte; a second time changes
    /// nothing; what was set is there.
    #[test]
    fn edits_touch_nothing_else(
        text in laid_out(),
        name in prop::sample::select(vec!["web", "db", "cache"]),
        tag in "[a-z0-9][a-z0-9.]{0,6}",
        crlf in any::<bool>(),
    ) {
        let text = if crlf { text.replace('\n', "\r\n") } else { text };
        let image = ImageEdit::parse(&format!("{name}:{tag}")).expect("an edit");
        let edits: [(&str, Edit<'_>); 3] = [
            ("images", &|text| set_image(text, "k.yaml", &image).expect("edited")),
            ("namespace", &|text| set_namespace(text, "k.yaml", "new").expect("edited")),
            ("resources", &|text| add_resource(text, "k.yaml", "more.yaml").expect("edited")),
        ];
        for (field, edit) in edits {
            let edited = edit(&text);
            prop_assert_eq!(&edit(&edited), &edited, "{} twice", field);
            let mut after = edited.lines();
            let about = |line: &str| {
                line.contains("newTag") || line.contains("digest") || line.starts_with(field)
            };
            for line in text.lines().filter(|line| !about(line)) {
                prop_assert!(after.any(|kept| kept == line), "{field}: `{line}` of\n{text}\nis not in\n{edited}");
            }
            let comments = |text: &str| text.matches('#').count();
            prop_assert!(comments(&edited) + usize::from(field == "images") >= comments(&text), "{}", edited);
        }
        let value = slipway_yaml::parse_one(&edits[0].1(&text), "k.yaml").expect("YAML").to_json();
        let entries = value["images"].as_array().cloned().unwrap_or_default();
        let entry = entries.iter().find(|entry| entry["name"] == name).expect("the image");
        prop_assert_eq!(entry["newTag"].as_str(), Some(tag.as_str()));
        prop_assert!(entry.get("digest").is_none());
    }
}
