//! Parameters: layers, references and what can be wrong with them.

use serde_json::json;
use slipway_package::{LayerKind, SetValue, template::parse_path};

use crate::support::{Kit, errors, said, warnings};

/// Scenario A-14 of the specification.
#[test]
fn later_layers_win_and_are_known_by_name() {
    let kit = Kit::web("a: package\nb: package\nc: package\nd: package\nlist: [{x: 1, y: 2}]\n")
        .local("parameters.yaml", "b: local\nc: local\nd: local\n")
        .values("one.yaml", "c: one\nd: one\n")
        .values("two.yaml", "d: two\n")
        .set("list[0].x=9")
        .set("list[1].x=3");
    let params = kit.package().params(&kit.inputs).unwrap();
    for (name, value, layer, file) in [
        ("a", "package", LayerKind::Package, "parameters.yaml"),
        ("b", "local", LayerKind::Local, "p.local.kurel/parameters.yaml"),
        ("c", "one", LayerKind::Values, "one.yaml"),
        ("d", "two", LayerKind::Values, "two.yaml"),
    ] {
        let param = params.get(&parse_path(name).unwrap()).unwrap();
        let origin = &params.layers()[usize::from(param.pos.layer)];
        assert_eq!((param.to_json(), origin.kind, &*origin.file), (json!(value), layer, file));
    }
    let list = params.get(&parse_path("list").unwrap()).unwrap();
    assert_eq!(list.to_json(), json!([{"x": 9, "y": 2}, {"x": 3}]), "siblings stay");
    let mut gap = kit.clone();
    gap.inputs.sets.push(SetValue::yaml("list[7]=1"));
    assert_eq!(errors(&gap.fails()), ["KV016"]);
    let mut kinds = kit;
    kinds.inputs.sets = vec![SetValue::string("a=5"), SetValue::json("b={\"k\":[1]}")];
    assert_eq!(errors(&kinds.fails()), ["KV013"]);
}

/// Scenario A-15 of the specification.
#[test]
fn overriding_a_parameter_flips_what_refers_to_it() {
    let kit =
        Kit::web("monitoring: {enabled: false, serviceMonitor: {enabled: \"${monitoring.enabled}\"}}\n")
            .patch(
                "10-monitoring",
                "[service.web]\nmetadata.labels.on: \"${monitoring.serviceMonitor.enabled}\"\n",
            )
            .sidecar("10-monitoring", "enabled: \"${monitoring.serviceMonitor.enabled}\"\n");
    assert_eq!(kit.field("Service", "/metadata/labels"), json!(null));
    assert_eq!(kit.set("monitoring.enabled=true").field("Service", "/metadata/labels/on"), json!("true"));
}

/// Scenario A-16 of the specification.
#[test]
fn cycles_and_bombs_are_refused() {
    let text = said(&Kit::web("a: \"${b}\"\nb: \"${a}\"\n").fails(), "KV024");
    assert!(text.contains("circular reference: a -> b -> a"), "{text}");
    assert!(text.contains("parameters.yaml:2") && text.contains("parameters.yaml:3"), "{text}");
    for (parameters, chain) in [
        ("a: \"${a}\"\n", "a -> a"),
        ("a: \"x-${b}\"\nb: \"${c.d}\"\nc: {d: \"${a}\"}\n", "a -> b -> c.d -> a"),
        ("m: {inner: \"${m}\"}\n", "m.inner -> m"),
        ("m: {deep: {inner: \"${m}\"}}\n", "m.deep.inner -> m"),
        ("l: [1, \"${l}\"]\n", "l[1] -> l"),
    ] {
        let problems = Kit::web(parameters).fails();
        assert_eq!(errors(&problems), ["KV024"], "{parameters}");
        assert!(said(&problems, "KV024").contains(chain), "{parameters}: {problems}");
    }
    let layered = said(&Kit::web("a: \"${b}\"\nb: 1\n").values("v.yaml", "b: \"${a}\"\n").fails(), "KV024");
    assert!(layered.contains("parameters.yaml:2") && layered.contains("v.yaml:1"), "{layered}");

    let texts: String = (0..40).map(|n| format!("t{}: \"${{t{n}}}${{t{n}}}\"\n", n + 1)).collect();
    assert_eq!(errors(&Kit::web(&format!("t0: xx\n{texts}")).fails()), ["KV025"]);
    let maps: String =
        (0..20).map(|n| format!("m{}: {{a: \"${{m{n}}}\", b: \"${{m{n}}}\"}}\n", n + 1)).collect();
    assert_eq!(errors(&Kit::web(&format!("m0: {{a: 1}}\n{maps}")).fails()), ["KV025"]);
    let chain: String = (0..3000).map(|n| format!("c{}: \"${{c{n}}}\"\n", n + 1)).collect();
    assert!(Kit::web(&format!("c0: 1\n{chain}")).build().is_ok(), "depth alone is no mistake");
    let nested: String = (0..1000).map(|n| format!("n{}: {{x: \"${{n{n}}}\"}}\n", n + 1)).collect();
    assert_eq!(errors(&Kit::web(&format!("n0: 1\n{nested}")).fails()), ["KV025"]);
    let yaml: String = (0..30).map(|n| format!("y{}: &y{} [*y{n}, *y{n}]\n", n + 1, n + 1)).collect();
    assert_eq!(errors(&Kit::web(&format!("y0: &y0 [1]\n{yaml}")).fails()), ["KV005"]);
}

#[test]
fn references_reach_through_references() {
    let kit = Kit::web(
        "other: {deep: {n: 7}}\nx: \"${other}\"\ny: \"${x.deep.n}\"\nkeys: {\"a/b\": z}\nk: \"${keys[\\\"a/b\\\"]}-${y}\"\n",
    );
    let params = kit.package().params(&kit.inputs).unwrap();
    assert_eq!(params.get(&parse_path("y").unwrap()).unwrap().to_json(), json!(7));
    assert_eq!(params.get(&parse_path("k").unwrap()).unwrap().to_json(), json!("z-7"));
    for (parameters, code) in [
        ("a: \"${b.c}\"\n", "KV020"),
        ("m: {x: 1}\na: \"${m}-x\"\n", "KV023"),
        ("m: null\na: \"${m}-x\"\n", "KV022"),
        ("m: 1\na: \"${m.x}\"\n", "KV020"),
    ] {
        assert_eq!(errors(&Kit::web(parameters).fails()), [code], "{parameters}");
    }
    let text = said(&Kit::web("database: {host: h, url: \"${database.hots}\"}\n").fails(), "KV020");
    assert!(text.contains("referenced by `database.url`") && text.contains("`database.host`"), "{text}");
}

/// Scenario A-17 of the specification.
#[test]
fn a_disabled_patch_is_checked_by_validate_only() {
    let kit = Kit::web("")
        .patch("10", "[service.web]\nspec.type: \"${nowhere}\"\n")
        .sidecar("10", "enabled: false\n");
    assert!(kit.build().is_ok());
    let validation = kit.package().validate(&kit.inputs);
    let text = said(&validation.problems, "KV020");
    assert!(text.starts_with("patches/10.kpatch:2:12: undefined parameter `nowhere`"), "{text}");
    assert!(validation.build.is_none());
}

/// Scenario A-18 of the specification.
#[test]
fn a_misspelt_value_warns_and_fails_when_strict() {
    let kit = Kit::web("monitoring: {retention: 1d}\nfree: {}\n")
        .values("prod.yaml", "monitoring:\n  retenton: 2d\nfree: {any: thing}\n");
    let build = kit.built();
    let text = said(&build.problems, "KV015");
    assert!(
        text.starts_with("prod.yaml:2:13") && text.contains("did you mean `monitoring.retention`"),
        "{text}"
    );
    assert_eq!(warnings(&build.problems).iter().filter(|code| **code == "KV015").count(), 1);
    assert!(errors(&kit.strict().fails()).contains(&"KV015"));
    let labels = Kit::web("global: {labels: {a: b}}\n")
        .patch("00", "metadata.labels: \"${global.labels}\"\n")
        .values("v.yaml", "global: {labels: {team: x}}\n");
    assert!(!warnings(&labels.built().problems).contains(&"KV015"), "string maps are open");
}

/// Scenario A-19 of the specification.
#[test]
fn identity_and_shape_cannot_be_overridden() {
    let kit = Kit::web("image: {tag: a}\n");
    let shape = kit.clone().values("v.yaml", "image: nginx\n").fails();
    assert!(
        said(&shape, "KV013").contains("parameter `image`: package defines a map (parameters.yaml:2)"),
        "{shape}"
    );
    assert_eq!(errors(&kit.clone().values("v.yaml", "kurel: {version: 2.0.0}\n").fails()), ["KV014"]);
    assert_eq!(errors(&kit.set("kurel.version=2.0.0").fails()), ["KV014"]);
}

#[test]
fn metadata_is_required_and_checked() {
    for (text, code) in [
        ("a: 1\n", "KV007"),
        ("kurel: {name: p, version: 1.0.0}\n", "KV007"),
        ("kurel: {name: P_x, version: 1.0.0, appVersion: 1}\n", "KV008"),
        ("kurel: {name: p, version: one, appVersion: 1}\n", "KV009"),
        ("kurel: {name: p, version: 1.0.0, appVersion: 1, schemas: [\"https://x/y\"]}\n", "KV011"),
        ("kurel: {name: p, version: 1.0.0, appVersion: 1, schemas: [../x.yaml]}\n", "KR010"),
        ("[1]\n", "KV002"),
        ("a: 1\na: 2\n", "KV003"),
        ("a: [\n", "KV006"),
    ] {
        let problems = Kit::web("").file("parameters.yaml", text).fails();
        assert!(errors(&problems).contains(&code), "{text}: {problems}");
    }
    let missing = slipway_package::Package::from_files(
        slipway_package::PackageFiles::of([("resources/a.yaml", crate::support::SERVICE)]),
        None,
        &slipway_package::LoadOptions::default(),
    );
    assert_eq!(errors(&missing.build(&Default::default()).unwrap_err()), ["KV001"]);
    let build = Kit::web("")
        .file("parameters.yaml", "kurel: {name: p, version: v1.0.0, appVersion: 1.10, extra: x}\n1: x\n")
        .built();
    assert_eq!(&warnings(&build.problems)[..3], ["KV010", "KV012", "KV004"], "{}", build.problems);
}
