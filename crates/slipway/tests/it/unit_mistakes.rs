//! Mistakes in the files and words of `slipway unit` and in policies: each is told with its place, all at once, with a hint.

use crate::support::Place;

const DIGEST: &str = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

/// A place with a chart, a unit of it and environments.
fn furnished() -> Place {
    let place = Place::new();
    place.write("shop/Chart.yaml", "apiVersion: v2\nname: shop\nversion: 1.0.0\n");
    place.write(
        "shop/values.yaml",
        "replicaCount: 1\nweb: {image: {repository: acme/web, tag: '1'}}\napi: {image: {repository: acme/api, tag: '1'}}\nold: {image: {repository: legacy/api, tag: '1'}}\n",
    );
    let pod = |name: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec: {{containers: [{{name: main, image: '{{{{ .Values.{name}.image.repository }}}}:{{{{ .Values.{name}.image.tag }}}}'}}]}}\n---\n"
        )
    };
    place.write("shop/templates/pods.yaml", ["web", "api", "old"].map(pod).concat());
    place.write("unit.yaml", "apiVersion: ktl.dev/unit/v1\noverlaySlots: {prod: [replicaCount]}\n");
    place.write(
        "slipway.yaml",
        "environments: {prod: {namespace: shop}}\npromotion: {order: [staging, prod]}\n",
    );
    place.run(&["unit", "bundle", "shop", "./shop", "--settings", "unit.yaml", "-O", "unit.sqlite"]).ok();
    place
}

/// Runs a command that must fail and gives what it said, without the place it ran in.
fn complaint(place: &Place, words: &[&str]) -> String {
    let ran = place.run(words);
    assert!(!matches!(ran.code, Some(0) | None | Some(101)), "{words:?}: {:?}\n{}", ran.code, ran.err);
    assert!(!ran.err.contains("panicked"), "{words:?}: {}", ran.err);
    let shown = ran.err.replace(&place.path().display().to_string(), "HERE");
    // A unit knows who made it, and so does its digest.
    let shown = match shown
        .split_once("its digest is ")
        .and_then(|(before, after)| Some((before, after.split_once(',')?)))
    {
        Some((before, (_, after))) => format!("{before}its digest is DIGEST,{after}"),
        None => shown,
    };
    format!("$ slipway {}\nexit {}\n{shown}", words.join(" "), ran.code.unwrap_or_default())
}

fn told_all(place: &Place, cases: &[(&str, &[&str])]) -> String {
    let mut told = String::new();
    for (file, words) in cases {
        if let Some((name, text)) = file.split_once('\n') {
            place.write(name, text);
            told.push_str(&format!("# {name}\n"));
            text.lines().for_each(|line| told.push_str(&format!("#   {line}\n")));
        }
        told.push_str(&complaint(place, words));
        told.push('\n');
    }
    told
}

#[test]
fn mistakes_of_command_lines() {
    let place = furnished();
    let bundle = |image: &'static str| vec!["unit", "bundle", "shop", "./shop", "-O", "u", "--image", image];
    let long = format!("api=acme/api:2@{DIGEST}");
    let twice = ["unit", "bundle", "shop", "./shop", "-O", "u", "--image", &long, "--image", &long];
    let mirrored = format!("x=mirror.example/api:2@{DIGEST}");
    let unmatched = format!("x=mirror.example/other:2@{DIGEST}");
    let inferred = format!("x=mirror.example/web:2@{DIGEST}");
    let cases: Vec<(&str, Vec<&str>)> = vec![
        ("no name", bundle("acme/api:2")),
        ("no reference", bundle("api=")),
        ("capitals", bundle("api=Acme/API:2")),
        ("short digest", bundle("api=acme/api@sha256:abc")),
        ("given twice", twice.to_vec()),
        ("two places by name", vec!["unit", "bundle", "shop", "./shop", "-O", "u", "--image", &mirrored]),
        ("no place", vec!["unit", "bundle", "shop", "./shop", "-O", "u", "--image", &unmatched]),
        ("inferred", vec!["unit", "bundle", "shop", "./shop", "-O", "u", "--image", &inferred]),
        (
            "layout without directory",
            vec!["unit", "bundle", "shop", "./shop", "-O", "u", "--image-layout", "api=acme/api:2"],
        ),
        (
            "layout that is none",
            vec!["unit", "bundle", "shop", "./shop", "-O", "u", "--image-layout", "api=acme/api:2=shop"],
        ),
        (
            "build without builder",
            vec!["unit", "bundle", "shop", "./shop", "-O", "u", "--build", "api=acme/api:2=."],
        ),
        (
            "builder that is not there",
            vec![
                "unit",
                "bundle",
                "shop",
                "./shop",
                "-O",
                "u",
                "--build",
                "api=acme/api:2=.",
                "--builder",
                "no-such-program x",
            ],
        ),
        (
            "builder without metadata",
            vec![
                "unit",
                "bundle",
                "shop",
                "./shop",
                "-O",
                "u",
                "--build",
                "api=acme/api:2=.",
                "--builder",
                "true",
            ],
        ),
        ("missing source", vec!["unit", "bundle", "shop", "./nothing", "-O", "u"]),
        ("missing directory", vec!["unit", "bundle", "shop", "./shop", "-O", "no/such/u"]),
        ("missing unit", vec!["unit", "inspect", "nothing.sqlite"]),
        ("a directory", vec!["unit", "inspect", "shop"]),
        ("a text", vec!["unit", "inspect", "unit.yaml"]),
        ("a wrong key", vec!["unit", "inspect", "unit.sqlite", "--trusted-key", "ed25519:xyz"]),
        ("a wrong digest", vec!["unit", "inspect", "unit.sqlite", "--expect-digest", "sha256:00"]),
        ("an unknown environment", vec!["unit", "plan", "unit.sqlite", "--to", "prd", "--sandbox"]),
        ("too many parts", vec!["unit", "plan", "unit.sqlite", "--to", "a/b/c/d", "--sandbox"]),
        (
            "an exec probe without a command",
            vec!["unit", "verify", "unit.sqlite", "--sandbox", "--probe-exec", "busybox"],
        ),
        ("a time", vec!["unit", "verify", "unit.sqlite", "--sandbox", "--soak", "soon"]),
        ("push without a tag", vec!["unit", "push", "unit.sqlite", "oci://registry.example/units/shop"]),
        ("push to nowhere", vec!["unit", "push", "unit.sqlite", "registry"]),
        ("export without a format", vec!["unit", "export", "unit.sqlite", "--to-dir", "x"]),
        ("gitops without a format", vec!["unit", "verify", "unit.sqlite", "--gitops", "shop"]),
        (
            "gitops that is another",
            vec!["unit", "verify", "unit.sqlite", "--gitops", "shop", "--format", "flux"],
        ),
        ("replay of nothing", vec!["unit", "replay", "unit.sqlite"]),
        ("sign without a key", vec!["unit", "sign", "unit.sqlite", "--key", "unit.yaml"]),
        ("diff with itself missing", vec!["unit", "diff", "unit.sqlite", "other.sqlite"]),
    ];
    let cases: Vec<(&str, &[&str])> = cases.iter().map(|(name, words)| (*name, words.as_slice())).collect();
    insta::assert_snapshot!(told_all(&place, &cases));
}

#[test]
fn mistakes_of_files() {
    let place = furnished();
    let settings: &[&str] = &["unit", "bundle", "shop", "./shop", "-O", "u", "--settings", "bad.yaml"];
    let image = format!("api=acme/api:2@{DIGEST}");
    let map: &[&str] =
        &["unit", "bundle", "shop", "./shop", "-O", "u", "--image", &image, "--image-map", "map.yaml"];
    let overlay: &[&str] =
        &["unit", "plan", "unit.sqlite", "--to", "prod", "--sandbox", "--overlay", "over.yaml"];
    let policy: &[&str] = &["unit", "bundle", "shop", "./shop", "-O", "u", "--policy", "policy.yaml"];
    let cases: &[(&str, &[&str])] = &[
        ("bad.yaml\napiVersion: v1\noverlaySlot: {}\n", settings),
        ("bad.yaml\napiVersion: ktl.dev/unit/v1\noverlaySlots: {prod: replicaCount}\n", settings),
        ("bad.yaml\napiVersion: ktl.dev/unit/v1\nstrategy: {type: cannary, targts: []}\n", settings),
        (
            "bad.yaml\napiVersion: ktl.dev/unit/v1\nstrategy:\n  type: canary\n  targets: [{kind: StatefulSet, name: db}]\n  canary:\n    steps: [{weight: 50}, {weight: 10}, {weight: 200}, {pause: soon}, {weight: 100}, {check: verify}, {check: all}, {}]\n    maxWeightError: 101\n    provider: istio\n",
            settings,
        ),
        (
            "bad.yaml\napiVersion: ktl.dev/unit/v1\nstrategy:\n  type: bluegreen\n  targets: [{name: a}, {name: a}]\n  bluegreen: {service: a, preview: a, prePromotion: [check], scaleDownDelay: never}\n  signals: {probes: [{}, {http: x, tcp: y}, {exec: {image: x}}], restartBudget: -1}\n  onFailure: panic\n",
            settings,
        ),
        ("bad.yaml\n- a list\n", settings),
        (
            "map.yaml\napiVersion: v2\nimages:\n  api: {sets: {}}\n  web: {}\nautodetect: maybe\nignored: []\n",
            map,
        ),
        ("map.yaml\napiVersion: ktl.dev/image-map/v1\nimages:\n  apo: {set: {api.image.tag: x}}\n", map),
        (
            "map.yaml\napiVersion: ktl.dev/image-map/v1\nimages:\n  api: {set: {nothing.here: \"{{repo}}\"}}\n",
            map,
        ),
        ("map.yaml\napiVersion: ktl.dev/image-map/v1\nimages:\n  api: {set: {api.image.tag: wrong}}\n", map),
        (
            "map.yaml\napiVersion: ktl.dev/image-map/v1\nimages:\n  api: {postRender: [{kind: Deployment, name: nobody}]}\n",
            map,
        ),
        ("over.yaml\nreplicaCount: 2\nweb: {image: {tag: x}}\nnew: 1\n", overlay),
        ("over.yaml\nreplicaCount: [\n", overlay),
        ("policy.yaml\napiVersion: v1\nmod: enforce\nrules: []\n", policy),
        (
            "policy.yaml\napiVersion: ktl.dev/policy/v1\nmode: strict\nmatch: {env: [prod]}\nrules:\n  - {forbidKinds: [Job]}\n  - {id: a}\n  - {id: a, clusterScoped: allow}\n  - {id: b, forbidKinds: [Job], clusterScoped: deny}\n  - {id: c, images: {requireDigests: true}}\n  - {id: d, changes: {maxDestroy: -1}}\n",
            policy,
        ),
        (
            "policy.yaml\napiVersion: ktl.dev/policy/v1\nrules:\n  - {id: e, unit: {maxAge: old, requireSignedBy: [me]}}\n  - {id: f, time: {allow: [\"Mon-Funday 08:00-17:00\", \"25:00-26:00\", \"Mon 08:00-17:00 Europe/Atlantis\"]}}\n  - {id: g, workloads: {minReplicas: two}}\n  - {id: h, cel: \"object.kind ==\", message: x}\n  - {id: i, cel: \"objct.kind == 'Job'\"}\n",
            policy,
        ),
        (
            "policy.yaml\napiVersion: ktl.dev/policy/v1\nrules: [{id: a, clusterScoped: deny}]\nexceptions:\n  - {rule: b, object: \"ClusterRole//x\", until: 2026-12-31, reason: x}\n  - {rule: a, until: tomorrow}\n  - {rule: a, object: x, until: 2026-12-31, reason: \"\"}\n",
            policy,
        ),
        ("policy.yaml\nnot: [yaml\n", policy),
        ("shop/values.yaml\nimage: [\n", &["unit", "bundle", "shop", "./shop", "-O", "u"]),
        (
            "slipway.yaml\nenvironments: {prod: {contxt: x}}\npromotion: {ordr: []}\n",
            &["unit", "plan", "unit.sqlite", "--to", "prod", "--sandbox"],
        ),
    ];
    insta::assert_snapshot!(told_all(&place, cases));
}
