//! Tags pinned to digests, and indexes whose platforms run.

use futures::future::BoxFuture;
use slipway_event::{ManualClock, Redactor};
use slipway_manifest::image::ImageReference;
use slipway_source::LoadContext;
use slipway_unit::*;

use crate::support::*;

/// Knows one digest for every tag, as an index of two platforms.
struct Registry;

impl ImageResolver for Registry {
    fn resolve<'a>(&'a self, image: &'a ImageReference) -> BoxFuture<'a, Result<ResolvedImage, UnitError>> {
        Box::pin(async move {
            let digest = if image.short_name() == "shop" { DIGEST } else { OTHER };
            let platform = |platform: &str, digest: &str| ImagePlatform {
                platform: platform.to_owned(),
                digest: Some(digest.to_owned()),
            };
            Ok(ResolvedImage {
                digest: digest.to_owned(),
                media_type: "application/vnd.oci.image.index.v1+json".to_owned(),
                platforms: vec![
                    platform("linux/amd64", &format!("sha256:{}", "c".repeat(64))),
                    platform("linux/arm64", OTHER),
                ],
            })
        })
    }
}

async fn bundle_with(request: BundleRequest, path: &std::path::Path) -> Result<BundleReport, UnitError> {
    let clock = ManualClock::at("2026-01-01T00:00:00Z".parse().expect("is a time"));
    let (masked, redactor) = (LoadContext::default(), Redactor::new());
    let context = BundleContext {
        masked: &masked,
        images: Some(&Registry),
        redactor: &redactor,
        clock: &clock,
        tool: "slipway test",
        builder: "alice@laptop",
    };
    bundle(request, &context, path).await
}

#[tokio::test]
async fn every_tag_is_pinned_where_that_is_asked_for() {
    let pods = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  initContainers: [{name: init, image: 'busybox:1'}]\n  \
        containers:\n    - {name: shop, image: '{{ .Values.image.repository }}:{{ .Values.image.tag }}'}\n    - {name: side, image: 'busybox:1'}\n    \
        - {name: pinned, image: 'other/x@sha256:eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee'}\n";
    let source = folder(&[
        ("shop/Chart.yaml", ABOUT),
        ("shop/values.yaml", "image: {repository: acme/shop, tag: '1'}\n"),
        ("shop/templates/pods.yaml", pods),
    ]);
    let path = source.path().join("u");
    let request = BundleRequest {
        pin: PinMode::All,
        images: vec![ImageInput::parse("shop=acme/shop:2").expect("is an image")],
        ..request_for(&source.path().join("shop"))
    };
    let report = bundle_with(request, &path).await.unwrap_or_else(|error| panic!("{error}"));
    assert!(report.unpinned.is_empty(), "{:?}", report.unpinned);
    let unit = open(&path);
    let mut uses: Vec<(&str, &str)> = unit
        .rows()
        .image_uses
        .iter()
        .map(|used| (used.container.as_str(), used.reference.as_str()))
        .collect();
    uses.sort_unstable();
    let (shop, side) = (format!("acme/shop:2@{DIGEST}"), format!("busybox:1@{OTHER}"));
    let pinned = format!("other/x@sha256:{}", "e".repeat(64));
    assert_eq!(uses, [("init:init", &*side), ("pinned", &*pinned), ("shop", &*shop), ("side", &*side)]);
    // Without a registry to ask, the same unit is rendered and proven.
    let (masked, settings) = (LoadContext::default(), slipway_source::RenderSettings::default());
    prove(&unit, UnitLoader { masked: &masked, resolving: &masked, settings: &settings })
        .unwrap_or_else(|error| panic!("{error}"));
}

#[tokio::test]
async fn a_pod_may_run_the_manifest_of_its_platform() {
    let world = World::new();
    let source = shop();
    let image = |text: &str| vec![ImageInput::parse(text).expect("is an image")];
    let request = |images| BundleRequest { images, ..request_for(&source.path().join("shop")) };
    // The runtime reports the manifest for its own platform.
    let running = world.bundle("running", request(image(&format!("shop=acme/shop:1@{OTHER}")))).await;
    world.apply(&running, "dev").await.unwrap_or_else(|error| panic!("{error}"));
    let path = world.path("index");
    bundle_with(request(image("shop=acme/shop:1")), &path).await.unwrap_or_else(|error| panic!("{error}"));
    let given = world.bundle("given", request(image(&format!("shop=acme/shop:1@{DIGEST}")))).await;
    for (unit, status) in [(open(&path), CheckStatus::Pass), (given, CheckStatus::Fail)] {
        assert_eq!(unit.rows().images[0].digest, DIGEST);
        let target = world.target("dev");
        let proven = prove_release(&unit, world.loader(), &target, None).expect("is proven");
        let context = world.plan_context();
        let plan = plan_unit(&unit, &target, None, SecretUse::Name, Default::default(), &[], &context).await;
        let plan = plan.unwrap_or_else(|error| panic!("{error}"));
        let request = VerifyRequest {
            unit: Some(&unit),
            request: &plan.request,
            rendered: &proven.rendered,
            baseline: VerifyBaseline::default(),
            options: VerifyOptions { soak: std::time::Duration::ZERO, ..VerifyOptions::default() },
        };
        let found = run_checks(&world.cluster, &request, &world.events).await.expect("looks");
        let digests = found.checks.iter().find(|check| check.check == "digests").expect("is there");
        assert_eq!(digests.status, status, "{:?}", digests.detail);
    }
}
