//! What is sealed: the identity of units, and what may not be in them.

use slipway_source::LoadContext;
use slipway_unit::*;

use crate::support::*;

#[tokio::test]
async fn bundles_of_the_same_inputs_have_the_same_digest() {
    let (first, second) = (shop(), shop());
    let place = tempfile::tempdir().expect("a directory");
    let (a, b) = (place.path().join("a.unit.sqlite"), place.path().join("b.unit.sqlite"));
    let values = || slipway_chart::UserValues {
        files: vec![("v.yaml".into(), b"replicaCount: 3\n".to_vec())],
        ..set(&["greeting=hi"])
    };
    let masked = LoadContext::default();
    for (source, path, time) in [(&first, &a, "2026-01-01T00:00:00Z"), (&second, &b, "2026-05-05T05:05:05Z")]
    {
        let request = BundleRequest { values: values(), ..request_for(&source.path().join("shop")) };
        make_at(request, &masked, path, time).await.unwrap_or_else(|error| panic!("{error}"));
    }
    assert_eq!(open(&a).digest(), open(&b).digest());
    assert_ne!(std::fs::read(&a).expect("is there"), std::fs::read(&b).expect("is there"));
    let changed =
        BundleRequest { values: set(&["greeting=other"]), ..request_for(&first.path().join("shop")) };
    make(changed, &masked, &b).await.unwrap_or_else(|error| panic!("{error}"));
    assert_ne!(open(&a).digest(), open(&b).digest());
}

#[tokio::test]
async fn units_hold_references_and_never_secrets() {
    let world = World::new();
    let source = shop();
    let values = set(&["password=secret://vault/app/db#password"]);
    let unit = world.bundle("u", BundleRequest { values, ..request_for(&source.path().join("shop")) }).await;
    let secrets: Vec<&str> = unit.rows().secret_refs.iter().map(|row| row.reference.as_str()).collect();
    assert_eq!(secrets, ["secret://vault/app/db#password"]);
    assert_eq!(unit.rows().secret_refs[0].value_paths, ["password"]);
    let secret = unit.rows().objects.iter().find(|row| row.kind == "Secret").expect("is there");
    assert!(!secret.tainted.is_empty());

    world.apply(&unit, "dev").await.unwrap_or_else(|error| panic!("{error}"));
    // Another secret: the lock is proven all the same.
    *world.backend.secret.lock().expect("is free") = "s3nt1nel-second".to_owned();
    let again = ApplyRequest { repeated: RepeatedApply::Force, ..world.request(&unit, "dev") };
    let outcome = apply_unit(&again, &world.context(&unit)).await.unwrap_or_else(|error| panic!("{error}"));
    assert!(matches!(outcome, ApplyOutcome::Applied { .. }), "{outcome:?}");
    let bytes = std::fs::read(unit.path()).expect("is there");
    let encoded = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, "s3nt1nel-first");
    for secret in ["s3nt1nel-first", "s3nt1nel-second", &encoded[..16]] {
        assert!(!bytes.windows(secret.len()).any(|part| part == secret.as_bytes()), "{secret} leaks");
    }
    for entry in ledger(&unit).entries().expect("is sound") {
        let content = ledger(&unit).content(&entry).expect("is sound").unwrap_or_default();
        assert!(!String::from_utf8_lossy(&content).contains("s3nt1nel"), "{} leaks", entry.kind);
    }
}

#[tokio::test]
async fn what_differs_at_every_rendering_is_refused_or_listed() {
    let source = folder(&[
        ("shop/Chart.yaml", ABOUT),
        (
            "shop/templates/a.yaml",
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  token: {{ randAlphaNum 12 }}\n  at: {{ now | date \"2006\" | quote }}\n  v: {{ .Capabilities.KubeVersion.Major | quote }}\n",
        ),
    ]);
    let place = tempfile::tempdir().expect("a directory");
    let path = place.path().join("u");
    let request = request_for(&source.path().join("shop"));
    let error = make(request.clone(), &LoadContext::default(), &path).await.expect_err("is refused");
    let text = error.to_string();
    assert!(text.contains("`/data/token`") && text.contains("`/data/at`"), "{text}");
    assert!(!path.exists());
    let allowed = BundleRequest { nondeterministic: NondeterministicFields::Allow, ..request };
    let report =
        make(allowed, &LoadContext::default(), &path).await.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(report.nondeterministic["/ConfigMap//a"], ["/data/token", "/data/at"]);
    assert_eq!(
        report.hazards.into_iter().collect::<Vec<_>>(),
        [Hazard::Random, Hazard::Time, Hazard::Capabilities]
    );
    // The proof leaves them out.
    let masked = LoadContext::default();
    let settings = slipway_source::RenderSettings::default();
    let loader = UnitLoader { masked: &masked, resolving: &masked, settings: &settings };
    prove(&open(&path), loader).unwrap_or_else(|error| panic!("{error}"));
}

#[tokio::test]
async fn objects_named_by_chance_are_refused_even_where_fields_are_allowed() {
    let source = folder(&[
        ("shop/Chart.yaml", ABOUT),
        (
            "shop/templates/a.yaml",
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a-{{ randNumeric 9 }}}\n",
        ),
    ]);
    let request = BundleRequest {
        nondeterministic: NondeterministicFields::Allow,
        ..request_for(&source.path().join("shop"))
    };
    let error =
        make(request, &LoadContext::default(), &source.path().join("u")).await.expect_err("is refused");
    assert!(error.to_string().contains("other objects at every rendering"), "{error}");
}

#[tokio::test]
async fn kustomizations_and_packages_and_manifests_are_sources_too() {
    let manifest = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {k: v}\n";
    let source = folder(&[
        ("kust/kustomization.yaml", "namePrefix: p-\nresources: [a.yaml]\n"),
        ("kust/a.yaml", manifest),
        ("plain/a.yaml", manifest),
        ("web.kurel/parameters.yaml", "kurel: {name: web, version: 1.0.0, appVersion: '1'}\n"),
        ("web.kurel/resources/a.yaml", manifest),
    ]);
    let masked = LoadContext::default();
    let settings = slipway_source::RenderSettings::default();
    let loader = UnitLoader { masked: &masked, resolving: &masked, settings: &settings };
    for (name, kind, object) in [
        ("kust", SourceKind::Kustomization, "/ConfigMap//p-a"),
        ("plain", SourceKind::Manifests, "/ConfigMap//a"),
        ("web.kurel", SourceKind::Package, "/ConfigMap/"),
    ] {
        let path = source.path().join(format!("{name}.unit"));
        let made = make(request_for(&source.path().join(name)), &masked, &path).await;
        made.unwrap_or_else(|error| panic!("{name}: {error}"));
        let unit = open(&path);
        assert_eq!(unit.rows().chart.source_kind, kind);
        assert!(unit.rows().objects[0].key.starts_with(object), "{}", unit.rows().objects[0].key);
        std::fs::remove_dir_all(source.path().join(name)).expect("is removed");
        prove(&unit, loader).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

#[tokio::test]
async fn a_signature_counts_only_for_a_key_that_is_named() {
    let source = shop();
    let path = source.path().join("u");
    make(request_for(&source.path().join("shop")), &LoadContext::default(), &path).await.expect("is made");
    let key = SigningKey::generate().expect("a key");
    let read_back = SigningKey::from_pem(&key.to_pem().expect("is written")).expect("is read");
    let public = read_back.public_key().expect("has one");
    let trusting = |keys: Vec<PublicKey>| OpenOptions { trusted_keys: keys, ..OpenOptions::default() };
    let unsigned = UnitFile::open(&path, &trusting(vec![public])).expect_err("is not signed");
    assert_eq!(unsigned.to_string(), "the unit is not signed");
    sign_unit(&path, open(&path).digest(), &read_back, jiff::Timestamp::UNIX_EPOCH).expect("is signed");
    UnitFile::open(&path, &trusting(vec![public])).unwrap_or_else(|error| panic!("{error}"));
    let other = SigningKey::generate().expect("a key").public_key().expect("has one");
    let error = UnitFile::open(&path, &trusting(vec![other])).expect_err("is not trusted");
    assert!(error.to_string().contains("is not trusted"), "{error}");
    assert_eq!(public.to_string().parse::<PublicKey>().expect("is a key"), public);
}
