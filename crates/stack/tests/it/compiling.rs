//! S-01 to S-04, S-09, S-14 to S-17: what files become.

use std::collections::BTreeSet;

use slipway_stack::explain::explain;
use slipway_stack::{Git, Profile, Request, compile};

use crate::support::SpecifiedExit as _;
use crate::support::{Place, seed};

fn error(place: &Place, profile: Profile) -> (u8, String) {
    let request = Request { profile, ..place.request() };
    let error = compile(&request, &Git::default()).unwrap_err();
    (error.exit_code(), error.to_string())
}

/// Scenario S-01 of the specification.
#[test]
fn the_seed_layout_compiles() {
    let compiled = seed().compile();
    let plan = &compiled.plan;
    assert_eq!(plan.profile.as_deref(), Some("dev"), "although no file declares it");
    let waves: Vec<(usize, &str)> =
        plan.nodes.iter().map(|node| (node.execution_group, node.name.as_str())).collect();
    assert_eq!(
        waves,
        [(0, "minio"), (0, "postgresql"), (0, "redis"), (1, "keycloak"), (1, "pgadmin"), (2, "roedk")]
    );
    let redis = plan.node("roedk2/roedk-2/redis").unwrap();
    assert_eq!(redis.values, ["services/redis/values-dev.yaml"]);
    assert_eq!(redis.tags, ["svc", "cache"]);
    assert_eq!(redis.chart, "services/redis");
    assert_eq!(redis.cluster.kubeconfig.as_deref(), Some("~/.kube/roedk2.yaml"), "home stays out of plans");
    assert_eq!(redis.apply.timeout_ms, 600_000);
    assert_eq!(plan.node("roedk2/roedk-2/roedk").unwrap().values, ["helm-roedk/values-dev-roedk2.yaml"]);
    assert!(compiled.warnings.is_empty(), "{:?}", compiled.warnings);
}

fn precedence() -> Place {
    let place = Place::new(&[
        (
            "stack.yaml",
            "name: s\ndefaultProfile: dev\ndefaults: {namespace: base, values: [c.yaml], tags: [p]}\nprofiles:\n  \
             prod: {defaults: {namespace: prod, values: [prod.yaml]}}\n  dev: {defaults: {set: {env: dev}}}\n",
        ),
        (
            "apps/stack.yaml",
            "defaults: {namespace: apps, values: [apps.yaml], tags: [a]}\nprofiles: {prod: {defaults: {values: [apps-prod.yaml]}}}\n",
        ),
        ("apps/web/release.yaml", "name: web\nchart: ./chart\nvalues: [web.yaml]\ntags: [w]\n"),
    ]);
    for file in ["c", "prod", "apps/apps", "apps/apps-prod", "apps/web/web"] {
        place.write(&format!("{file}.yaml"), "x: 1\n");
    }
    place.chart("apps/web/chart");
    place
}

/// Scenario S-02 of the specification.
#[test]
fn a_profile_beats_a_childs_defaults() {
    let place = precedence();
    let named = |name: &str| {
        let request = Request { profile: Profile::Named(name.into()), ..place.request() };
        compile(&request, &Git::default()).unwrap().plan.nodes.remove(0)
    };
    let prod = named("prod");
    assert_eq!(prod.id, "default/prod/web");
    assert_eq!(
        prod.values,
        ["c.yaml", "apps/apps.yaml", "prod.yaml", "apps/apps-prod.yaml", "apps/web/web.yaml"]
    );
    assert_eq!(prod.tags, ["p", "a", "w"]);
    let dev = named("dev");
    assert_eq!((dev.namespace.as_str(), dev.values.len()), ("apps", 3));
}

/// Scenario S-03 of the specification.
#[test]
fn the_default_profile_and_its_override() {
    let place = precedence();
    let plan = place.compile().plan;
    assert_eq!(plan.profile.as_deref(), Some("dev"));
    assert_eq!(plan.nodes[0].set["env"], "dev");
    let request = Request { profile: Profile::Named("prod".into()), ..place.request() };
    assert!(compile(&request, &Git::default()).unwrap().plan.nodes[0].set.is_empty());
    let (code, text) = error(&place, Profile::Named("qa".into()));
    assert_eq!(code, 10);
    assert!(text.contains("unknown profile \"qa\" (known: dev, prod)"), "{text}");
}

/// Scenario S-04 of the specification.
#[test]
fn duplicates_are_kept_in_order() {
    let place = Place::new(&[
        (
            "stack.yaml",
            "defaults: {values: [common.yaml], tags: [x]}\nreleases:\n- {name: a, chart: ./c, values: [common.yaml], tags: [x]}\n",
        ),
        ("common.yaml", "a: 1\n"),
    ]);
    place.chart("c");
    let node = &place.compile().plan.nodes[0];
    assert_eq!(node.values, ["common.yaml", "common.yaml"]);
    assert_eq!(node.tags, ["x", "x"]);
}

/// Scenario S-09 of the specification.
#[test]
fn wrong_needs_are_named() {
    for (releases, expected) in [
        (
            "- {name: web, chart: ./c, needs: [databse]}\n- {name: database, chart: ./c}",
            "stack.yaml:3:35: default/default/web: need \"databse\" does not exist in this stack [ST020]\n  hint: did you mean `database`?",
        ),
        (
            "- {name: web, chart: ./c, needs: [db]}\n- {name: db, chart: ./c, cluster: {name: other}}",
            "stack.yaml:3:35: default/default/web: need \"db\" lives in cluster other; needs cannot cross clusters [ST021]",
        ),
        (
            "- {name: web, chart: ./c, needs: [db]}\n- {name: db, chart: ./c, namespace: a}\n- {name: db, chart: ./c, namespace: b}",
            "stack.yaml:3:35: default/default/web: need \"db\" is ambiguous in cluster \"default\" (a/db, b/db); write \"<namespace>/db\" [ST022]",
        ),
        (
            "- {name: c, chart: ./c, needs: [a]}\n- {name: a, chart: ./c, needs: [b]}\n- {name: b, chart: ./c, needs: [c]}",
            "stack.yaml:4:3: needs form a cycle: default/default/a -> default/default/b -> default/default/c -> default/default/a [ST023]",
        ),
        (
            "- {name: a, chart: ./c, needs: [a]}",
            "stack.yaml:3:3: needs form a cycle: default/default/a -> default/default/a [ST023]",
        ),
        (
            "- {name: a, chart: ./c}\n- {name: a, chart: ./c}",
            "stack.yaml:4:3: release id default/default/a is declared twice (stack.yaml#releases[0], stack.yaml#releases[1]) [ST011]",
        ),
    ] {
        let place = Place::new(&[("stack.yaml", &format!("name: s\nreleases:\n{releases}\n"))]);
        place.chart("c");
        let (code, text) = error(&place, Profile::Default);
        let shown = text.replace(&format!("{}/", place.path().display()), "");
        assert_eq!((code, shown.as_str()), (10, expected));
    }
    // One namespace of its own settles it, and so does `namespace/name`.
    let place = Place::new(&[(
        "stack.yaml",
        "releases:\n- {name: web, chart: ./c, namespace: a, needs: [db]}\n- {name: api, chart: ./c, needs: [b/db]}\n\
         - {name: db, chart: ./c, namespace: a}\n- {name: db, chart: ./c, namespace: b}\n",
    )]);
    place.chart("c");
    let plan = place.compile().plan;
    assert_eq!(plan.node("default/a/web").unwrap().needs, ["default/a/db"]);
    assert_eq!(plan.node("default/default/api").unwrap().needs, ["default/b/db"]);
}

/// A circle of needs is told from the same place, in whatever order its files are found and declared.
///
/// Scenario S-09 of the specification.
#[test]
fn a_cycle_is_the_same_path_every_time() {
    let mut texts = BTreeSet::new();
    let mut seed = 7_u64;
    for round in 0..50 {
        let mut all: Vec<usize> = (0..5).collect();
        shuffle(&mut all, &mut seed);
        let lines: String = all
            .iter()
            .map(|number| format!("- {{name: r{number}, chart: ./c, needs: [r{}]}}\n", (number + 1) % 5))
            .collect();
        // Half of them declared elsewhere.
        let (one, two) = lines.split_at(lines.match_indices('\n').nth(round % 4).unwrap().0 + 1);
        let place = Place::new(&[("stack.yaml", &format!("name: s\nreleases:\n{one}"))]);
        place.write("b/stack.yaml", &format!("releases:\n{}", two.replace("./c", "../c"))).chart("c");
        let (code, text) = error(&place, Profile::Default);
        assert_eq!(code, 10);
        let at = text.find("needs form").expect("a cycle");
        texts.insert(text[at..].to_owned());
    }
    let ids: Vec<String> =
        [0, 1, 2, 3, 4, 0].iter().map(|number| format!("default/default/r{number}")).collect();
    assert_eq!(texts, BTreeSet::from([format!("needs form a cycle: {} [ST023]", ids.join(" -> "))]));
}

/// Files written in another order are listed in another order by most file systems.
fn shuffle<T>(items: &mut [T], seed: &mut u64) {
    for last in (1..items.len()).rev() {
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        items.swap(last, (*seed >> 33) as usize % (last + 1));
    }
}

/// Scenario S-14 of the specification.
#[test]
fn plans_are_the_same_bytes_every_time() {
    let mut texts = BTreeSet::new();
    let mut seed = 1_u64;
    for _ in 0..20 {
        let place =
            Place::new(&[("stack.yaml", "name: big\ndefaults: {tags: [t], set: {b: 1, a: \"1\"}}\n")]);
        place.chart("chart");
        let mut numbers: Vec<usize> = (0..300).collect();
        shuffle(&mut numbers, &mut seed);
        for number in numbers {
            let needs = if number % 3 == 0 { String::new() } else { format!("needs: [r{}]", number - 1) };
            place.write(
                &format!("d{}/r{number}/release.yaml", number % 17),
                &format!("name: r{number}\nchart: ../../chart\n{needs}\n"),
            );
        }
        let mut shown = serde_json::to_value(place.compile().plan.shown(&[])).unwrap();
        shown["stackRoot"] = "/root".into();
        texts.insert(serde_json::to_string(&shown).unwrap());
    }
    assert_eq!(texts.len(), 1);
}

/// Scenario S-15 of the specification.
#[test]
fn an_unknown_key_gets_its_place_and_the_nearest_name() {
    let place = Place::new(&[("stack.yaml", "name: s\nreleases:\n- name: a\n  chart: ./c\n  vaules: [x]\n")]);
    place.chart("c");
    let (code, text) = error(&place, Profile::Default);
    assert_eq!(code, 10);
    assert!(
        text.ends_with("stack.yaml:5:3: unknown field \"vaules\" (did you mean \"values\"?) [ST002]"),
        "{text}"
    );
}

/// Scenario S-16 of the specification.
#[test]
fn files_of_others_are_passed_over() {
    let place = Place::new(&[
        ("stack.yaml", "name: s\n"),
        ("flux/release.yaml", "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nspec: {}\n"),
        ("broken/release.yaml", "apiVersion: other.io/v1\n{{ not yaml }}: [\n"),
        ("chart/templates/release.yaml", "name: {{ .Release.Name }}\n"),
        (".hidden/release.yaml", "nonsense: 1\n"),
        ("node_modules/x/release.yaml", "nonsense: 1\n"),
        (".slipwayignore", "old/\n"),
        ("old/release.yaml", "nonsense: 1\n"),
        ("dist/release.yaml", "name: kept\nchart: ../chart\n"),
    ]);
    place.chart("chart");
    let compiled = place.compile();
    let ids: Vec<&str> = compiled.plan.nodes.iter().map(|node| node.id.as_str()).collect();
    assert_eq!(ids, ["default/default/kept"]);
    assert_eq!(
        compiled.stack.tree.notes,
        [
            "ignored foreign broken/release.yaml (apiVersion=other.io/v1)",
            "ignored foreign flux/release.yaml (apiVersion=helm.toolkit.fluxcd.io/v2)"
        ]
    );
}

/// Scenario S-17 of the specification.
#[test]
fn one_cluster_name_is_one_place() {
    let shared = Place::new(&[
        (
            "stack.yaml",
            "defaults: {cluster: {name: one, kubeconfig: ~/k, context: c}}\nreleases:\n- {name: a, chart: ./c}\n",
        ),
        ("b/release.yaml", "name: b\nchart: ../c\ncluster: {name: two}\n"),
    ]);
    shared.chart("c");
    assert_eq!(shared.compile().plan.nodes.len(), 2, "two names for one place are fine");
    shared.write("d/release.yaml", "name: d\nchart: ../c\ncluster: {context: other}\n");
    let (code, text) = error(&shared, Profile::Default);
    assert_eq!(code, 10);
    assert!(
        text.contains(
            "cluster \"one\" maps to two targets: ~/k|c (one/default/a) and ~/k|other (one/default/d) [ST012]"
        ),
        "{text}"
    );
}

#[test]
fn explain_says_which_layer_set_what() {
    let place = precedence();
    let request = Request { profile: Profile::Named("prod".into()), ..place.request() };
    let compiled = compile(&request, &Git::default()).unwrap();
    let release = compiled.stack.find("web").unwrap();
    let fields = explain(&compiled.stack, release, Some("namespace")).unwrap();
    let said: Vec<(String, String, bool)> =
        fields[0].said.iter().map(|said| (said.layer.clone(), said.value.to_string(), said.counts)).collect();
    assert_eq!(
        said,
        [
            ("defaults".into(), "\"base\"".into(), false),
            ("defaults".into(), "\"apps\"".into(), false),
            ("profile prod".into(), "\"prod\"".into(), true)
        ]
    );
    assert!(fields[0].said[1].at.to_string().ends_with("apps/stack.yaml:1:23"), "{}", fields[0].said[1].at);
    let wrong = explain(&compiled.stack, release, Some("namespcae")).unwrap_err();
    assert_eq!(wrong.hint.as_deref(), Some("did you mean `namespace`?"));
    assert!(explain(&compiled.stack, release, None).unwrap().len() > 10);
}

#[test]
fn set_values_keep_their_types() {
    let place = Place::new(&[(
        "stack.yaml",
        "defaults: {set: {a: 1, b: x, gone: 5}}\nreleases:\n- name: r\n  chart: ./c\n  set: {b: \"1,2\", c: \"007\", d: true, gone: null}\n",
    )]);
    place.chart("c");
    let set = serde_json::to_string(&place.compile().plan.nodes[0].set).unwrap();
    assert_eq!(set, r#"{"a":1,"b":"1,2","c":"007","d":true,"gone":null}"#);
}

#[test]
fn the_input_hash_follows_inputs_and_nothing_else() {
    let place = seed();
    let hash = |place: &Place| {
        place.compile().plan.node("roedk2/roedk-2/redis").unwrap().effective_input_hash.clone()
    };
    let first = hash(&place);
    assert_eq!(hash(&seed()), first, "not the place of the checkout");
    place.write("README.md", "x").write("services/redis/templates/a.yaml", "a: 1\n");
    let second = hash(&place);
    assert_ne!(second, first, "the chart's content");
    place.write("services/redis/values-dev.yaml", "replicas: 2\n");
    assert_ne!(hash(&place), second, "values' content");
}

#[test]
fn a_kustomizations_bases_are_its_inputs() {
    let place = Place::new(&[
        ("stack.yaml", "releases:\n- {name: a, chart: ./over}\n"),
        ("over/kustomization.yaml", "resources: [../base]\n"),
        ("base/kustomization.yaml", "resources: [a.yaml]\n"),
        ("base/a.yaml", "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n"),
    ]);
    let hash = |place: &Place| place.compile().plan.nodes[0].effective_input_hash.clone();
    let first = hash(&place);
    place.write("base/a.yaml", "{apiVersion: v1, kind: ConfigMap, metadata: {name: b}}\n");
    assert_ne!(hash(&place), first);
}
