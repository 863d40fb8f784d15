//! Whole promotions in simulated time: the same question has the same answer.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use slipway_promotion::act::{NewBundle, parse_image};
use slipway_promotion::files::PromotionFiles;
use slipway_promotion::kinds::Bundle;
use slipway_rehearsal::{
    ApprovalDelay, PipelineRehearsal, PipelineTimeline, RehearsalEnd, rehearse_pipeline,
};

const EXAMPLE: &str = include_str!("../../../../examples/promotion/pipeline.yaml");

fn bundle(version: &str, name: &str) -> Bundle {
    let images = vec![parse_image(&format!("ghcr.io/example/my-app:{version}")).expect("an image")];
    let start = "2026-04-10T16:00:00Z".parse().expect("is a time");
    let request =
        NewBundle { pipeline: "my-app".into(), name: Some(name.into()), images, ..NewBundle::default() };
    request.into_bundle(start)
}

/// The example, with a bundle created at a moment.
fn example(start: &str) -> PipelineRehearsal {
    let mut files = PromotionFiles::default();
    files.read(EXAMPLE, "pipeline.yaml").expect("is read");
    PipelineRehearsal {
        pipeline: files.pipelines[0].clone(),
        files,
        bundle: bundle("1.1.0", "my-app-next"),
        current: Some(bundle("1.0.0", "my-app-current")),
        repository: Vec::new(),
        start: start.parse().expect("is a time"),
        limit: Duration::from_secs(30 * 24 * 3600),
        approvals: ApprovalDelay::default(),
        unhealthy: BTreeSet::new(),
        closed: BTreeSet::new(),
        passed_gates: BTreeSet::new(),
        policy_namespaces: BTreeSet::from(["platform-policies".to_owned()]),
    }
}

async fn play(request: &PipelineRehearsal) -> PipelineTimeline {
    rehearse_pipeline(request).await.expect("is played")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bundle_of_friday_afternoon_reaches_production_on_monday() {
    let timeline = play(&example("2026-04-10T16:00:00Z")).await;
    insta::assert_snapshot!(timeline.to_string());
    assert_eq!(timeline.end, RehearsalEnd::Reached);
    let value = serde_json::to_value(&timeline).expect("is JSON");
    assert_eq!(value["environments"][2]["because"][0]["what"], "no-weekend-deploys");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unhealthy_version_is_taken_back_everywhere_it_was() {
    let mut request = example("2026-04-13T08:00:00Z");
    request.unhealthy.insert("staging".to_owned());
    let timeline = play(&request).await;
    insta::with_settings!({filters => vec![("-[0-9a-f]{8}\\]", "-HASH]")]}, {
        insta::assert_snapshot!(timeline.to_string());
    });
    assert!(matches!(&timeline.end, RehearsalEnd::Failed { environment, .. } if environment == "staging"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pull_request_that_is_closed_after_hours_ends_the_promotion() {
    let mut request = example("2026-04-13T08:00:00Z");
    request.closed.insert("prod".to_owned());
    request.approvals.by_environment = BTreeMap::from([("prod".to_owned(), Duration::from_secs(7200))]);
    request.passed_gates.insert("staging-soak".to_owned());
    insta::assert_snapshot!(play(&request).await.to_string());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gate_that_never_opens_is_explained_when_the_time_is_over() {
    let mut request = example("2026-04-13T08:00:00Z");
    let mut gates = request.files.gates.clone();
    gates[0].spec.expression = "metrics[\"success-rate\"] > 0.99".to_owned();
    request.files.gates = gates;
    request.limit = Duration::from_secs(24 * 3600);
    let timeline = play(&request).await;
    assert!(matches!(timeline.end, RehearsalEnd::Waiting { .. }), "{timeline}");
    assert!(timeline.to_string().contains("RESULT: BLOCKED by no-weekend-deploys"), "{timeline}");
}
