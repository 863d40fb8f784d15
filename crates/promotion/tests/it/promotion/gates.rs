//! Gates in whole promotions: soak time, metrics, change windows, answers of others, and what a simulation says of them.

use std::time::Duration;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use slipway_promotion::gate::{GateEvaluator, parse_when, simulate, store_answer};
use slipway_promotion::kinds::{
    BundlePhase, BundleSpec, GatePhase, KindSpec as _, PolicyGateSpec, StepState,
};
use slipway_promotion::view::{applying_gates, read_windows};

use super::world::{NAMESPACE, POLICY, World};
use crate::gate::metrics::vector;
use crate::gate::world::Server;
use crate::view::survey;

const MINUTE: Duration = Duration::from_secs(60);

fn time(text: &str) -> Timestamp {
    text.parse().expect("is a time")
}

/// Moves the clock to a moment and lets everything happen that is due.
async fn advance_to(world: &World, at: Timestamp) {
    world.advance(Duration::try_from(at.duration_since(world.now())).expect("lies ahead"));
    world.settle().await;
}

async fn is_verified(world: &World, bundle: &str) -> bool {
    world.read_bundle(bundle).await.phase() == BundlePhase::Verified
}

/// B02: soak time is that of the environment directly before, however long one before that has run the version.
#[tokio::test(flavor = "multi_thread")]
async fn a_soak_gate_counts_from_the_environment_directly_before() {
    let world = World::new(&["dev", "staging", "prod"]).await;
    world.gate(POLICY, "staging-soak", "prod", "bundle.upstreamSoakMinutes >= 30").await;
    world
        .pipeline(json!([{"name": "dev"}, {"name": "staging", "approval": "pr-review"}, {"name": "prod"}]))
        .await;
    world.bundle("app-1", "1.29.0").await;
    world.until_state("app-1", "staging", StepState::WaitingForMerge).await;
    world.pass_time(40 * MINUTE).await;
    world.merge("app-1", "staging").await;
    world.until_state("app-1", "staging", StepState::Verified).await;
    let verified =
        world.step("app-1", "staging").await.expect("exists").status.verified_at.expect("has a time");
    let opens = verified + 30 * MINUTE;
    advance_to(&world, verified + 12 * MINUTE).await;
    assert!(world.step("app-1", "prod").await.is_none(), "dev has soaked for long, staging has not");
    let gate = world.gate_of("app-1", "staging-soak").await.expect("is there");
    assert_eq!((gate.status.ready, gate.status.eta), (false, Some(opens)));
    let told = survey(&world).await.environment_standing("prod", None).to_string();
    assert!(told.contains("bundle.upstreamSoakMinutes = 12 (threshold: >= 30)"), "{told}");
    assert!(told.contains("ETA: ~18 minutes (based on staging verifiedAt)"), "{told}");
    advance_to(&world, opens - SignedDuration::from_secs(1)).await;
    assert!(world.step("app-1", "prod").await.is_none(), "a second is left");
    world.pass(MINUTE, "the gate opens", async || is_verified(&world, "app-1").await).await;
    let began = world.step("app-1", "prod").await.expect("exists").status.started_at.expect("has begun");
    assert!(began >= opens, "{began}");
}

/// B09: a gate follows what is measured; without data it holds, passes or fails as its check says.
#[tokio::test(flavor = "multi_thread")]
async fn a_metric_gate_follows_its_measurements_and_their_absence() {
    let server = Server::start().await;
    let environments = ["dev", "rate", "holds", "passes", "fails"];
    let world = World::new(&environments).await;
    let after_dev = |name: &&str| json!({"name": name, "dependsOn": ["dev"]});
    let mut pipeline = vec![json!({"name": "dev"})];
    pipeline.extend(environments[1..].iter().map(after_dev));
    for (name, behavior) in [("rate", "hold"), ("holds", "hold"), ("passes", "pass"), ("fails", "fail")] {
        let spec = json!({"provider": {"type": "prometheus", "address": server.address},
            "query": "sum(rate(ok{env=\"{{ .Environment }}\"}[5m]))", "successCondition": ">= 0.99",
            "failureCondition": "< 0.95", "interval": "1m", "noDataBehavior": behavior});
        world
            .create(json!({"apiVersion": "kardinal.io/v1alpha1", "kind": "MetricCheck",
                "metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec}))
            .await;
        world.gate(NAMESPACE, &format!("needs-{name}"), name, &format!("metrics.{name} >= 0.99")).await;
    }
    server.answers(200, vector(&[]));
    world.pipeline(json!(pipeline)).await;
    world.bundle("app-1", "1.29.0").await;
    let passes = async || world.state("app-1", "passes").await == Some(StepState::Verified);
    world.pass(10 * MINUTE, "no data passes where the check says so", passes).await;
    world.pass_time(3 * MINUTE).await;
    for closed in ["rate", "holds", "fails"] {
        assert!(world.step("app-1", closed).await.is_none(), "{closed}");
    }
    server.answers(200, vector(&["0.90"]));
    let fails = async || {
        let gate = world.gate_of("app-1", "needs-rate").await.expect("is there");
        gate.status.reason.is_some_and(|reason| reason.contains("metrics.rate = 0.9 (threshold: >= 0.99)"))
    };
    world.pass(10 * MINUTE, "the measurement closes the gate", fails).await;
    assert!(world.step("app-1", "rate").await.is_none());
    server.answers(200, vector(&["0.998"]));
    world.pass(10 * MINUTE, "all are well", async || is_verified(&world, "app-1").await).await;
}

/// B10: an override opens the environment it is for until it expires, and is told wherever it counted.
#[tokio::test(flavor = "multi_thread")]
async fn an_override_opens_production_until_it_expires_and_is_told_in_the_pull_request() {
    let world = World::new(&["staging", "prod"]).await;
    world.gate(POLICY, "closed", "prod", "false").await;
    world.gate(NAMESPACE, "go", "prod", "bundle.labels.go == 'yes'").await;
    world.pipeline(json!([{"name": "staging"}, {"name": "prod", "approval": "pr-review"}])).await;
    world.bundle("app-1", "1.29.0").await;
    world.until_state("app-1", "staging", StepState::Verified).await;
    // Overrides are added, never changed.
    let grant = async |known: &[Value], stage: &str| {
        let one = json!({"reason": "incident 7", "stage": stage, "createdBy": "ada", "createdAt": world.now(),
            "expiresAt": world.now() + 20 * MINUTE});
        let all = [known, &[one]].concat();
        world.patch(&PolicyGateSpec::at(POLICY, "closed"), json!({"spec": {"overrides": all}})).await;
        world.pass_time(2 * MINUTE).await;
        all
    };
    let phase = async || world.gate_of("app-1", "closed").await.and_then(|gate| gate.status.phase);
    let first = grant(&[], "staging").await;
    assert_eq!(phase().await, Some(GatePhase::Block), "it is not for production");
    let second = grant(&first, "prod").await;
    assert_eq!(phase().await, Some(GatePhase::Overridden));
    world.pass_time(20 * MINUTE).await;
    assert_eq!(phase().await, Some(GatePhase::Block), "it has expired");
    let go = json!({"metadata": {"labels": {"go": "yes"}}});
    world.patch(&BundleSpec::at(NAMESPACE, "app-1"), go).await;
    world.pass_time(5 * MINUTE).await;
    assert!(world.step("app-1", "prod").await.is_none(), "nothing had begun while it was open");
    grant(&second, "prod").await;
    let waits = async || world.state("app-1", "prod").await == Some(StepState::WaitingForMerge);
    world.pass(5 * MINUTE, "production is open", waits).await;
    world.settle().await;
    let pull = world.forge.pulls().remove(0);
    let told = pull
        .comments
        .iter()
        .map(|(_, text)| text)
        .chain([&pull.body])
        .any(|text| text.lines().any(|line| line.contains("closed") && line.contains("OVERRIDDEN")));
    assert!(told, "{pull:?}");
    world.merge("app-1", "prod").await;
    world.until_phase("app-1", BundlePhase::Verified).await;
    let bundle = world.read_bundle("app-1").await;
    let evidence = bundle.status.environments["prod"].evidence.clone().expect("is kept");
    let overridden: Vec<&str> =
        evidence.policy_gates.iter().filter(|gate| gate.overridden).map(|gate| gate.name.as_str()).collect();
    assert_eq!(overridden, ["closed"]);
}

/// B13: a blackout, hours of a time zone across the end of summer time, and a window nobody has made.
#[tokio::test(flavor = "multi_thread")]
async fn change_windows_hold_production_by_the_clocks_of_their_zone() {
    let world = World::new(&["dev", "office", "blackout", "unknown"]).await;
    let window = |name: &str, spec: Value| json!({"apiVersion": "kardinal.io/v1alpha1", "kind": "ChangeWindow", "metadata": {"name": name}, "spec": spec});
    let hours = json!({"timezone": "Europe/Berlin", "allowedHours": "09:00-17:00"});
    world.create(window("office", json!({"type": "recurring", "schedule": hours}))).await;
    let (start, end) = ("2026-10-24T00:00:00Z", "2026-10-25T06:00:00Z");
    world.create(window("inventory", json!({"type": "blackout", "start": start, "end": end}))).await;
    world.gate(POLICY, "in-office-hours", "office", "!changewindow['office']").await;
    world.gate(POLICY, "not-during-inventory", "blackout", "changewindow.isAllowed('inventory')").await;
    world.gate(POLICY, "typo", "unknown", "!changewindow['inventroy']").await;
    let environments =
        ["office", "blackout", "unknown"].map(|name| json!({"name": name, "dependsOn": ["dev"]}));
    let mut pipeline = vec![json!({"name": "dev"})];
    pipeline.extend(environments);
    world.pipeline(json!(pipeline)).await;
    // The Saturday evening before clocks go back.
    advance_to(&world, time("2026-10-24T16:30:00Z")).await;
    world.bundle("app-1", "1.29.0").await;
    world.until_state("app-1", "dev", StepState::Verified).await;
    world.pass_time(3 * MINUTE).await;
    for closed in ["office", "blackout", "unknown"] {
        assert!(world.step("app-1", closed).await.is_none(), "{closed}");
    }
    // Nine in the morning is an hour later than it was the day before.
    let nine = time("2026-10-25T08:00:00Z");
    let eta = async |name: &str| world.gate_of("app-1", name).await.expect("is there").status.eta;
    assert_eq!(eta("in-office-hours").await, Some(nine));
    assert_eq!(eta("not-during-inventory").await, Some(time(end)));
    let typo = world.gate_of("app-1", "typo").await.expect("is there").status;
    assert_eq!(typo.phase, Some(GatePhase::Error));
    assert!(typo.reason.as_ref().is_some_and(|reason| reason.contains("inventroy")), "{typo:?}");
    advance_to(&world, time(end) - SignedDuration::from_secs(1)).await;
    assert!(world.step("app-1", "blackout").await.is_none());
    let open = async || world.state("app-1", "blackout").await == Some(StepState::Verified);
    world.pass(MINUTE, "the blackout ends", open).await;
    advance_to(&world, nine - SignedDuration::from_secs(1)).await;
    assert!(world.step("app-1", "office").await.is_none(), "not at nine o'clock of the day before");
    let open = async || world.state("app-1", "office").await == Some(StepState::Verified);
    world.pass(MINUTE, "the office opens", open).await;
    world.pass_time(10 * MINUTE).await;
    assert!(world.step("app-1", "unknown").await.is_none(), "a window nobody knows stays closed");
    world.create(window("inventroy", json!({"type": "blackout", "start": start, "end": end}))).await;
    world.pass(5 * MINUTE, "the window is known", async || is_verified(&world, "app-1").await).await;
}

/// B14: an answer is asked for or sent, counts until it expires, and one that does not come is none.
#[tokio::test(flavor = "multi_thread")]
async fn gates_others_decide_open_by_their_answer_while_it_counts() {
    let (board, silent) = (Server::start().await, Server::start().await);
    board.answers(200, json!({"approved": false, "comment": "later"}));
    silent.hangs();
    let world = World::new(&["dev", "polled", "pushed", "silent"]).await;
    let poll =
        |url: &str, timeout: &str| json!({"external": {"url": url, "interval": "1m", "timeout": timeout}});
    world.gate_with(POLICY, "board", "polled", poll(&board.address, "30s")).await;
    world.gate_with(POLICY, "tickets", "pushed", json!({"external": {"mode": "push"}})).await;
    world.gate(POLICY, "afternoon", "pushed", "schedule.hour >= 13").await;
    world.gate_with(POLICY, "nobody", "silent", poll(&silent.address, "100ms")).await;
    let environments = ["polled", "pushed", "silent"].map(|name| json!({"name": name, "dependsOn": ["dev"]}));
    let mut pipeline = vec![json!({"name": "dev"})];
    pipeline.extend(environments);
    world.pipeline(json!(pipeline)).await;
    world.bundle("app-1", "1.29.0").await;
    world.until_state("app-1", "dev", StepState::Verified).await;
    let asked = async || !board.requests().is_empty();
    world.pass(5 * MINUTE, "the board is asked", asked).await;
    world.pass_time(2 * MINUTE).await;
    assert!(world.step("app-1", "polled").await.is_none(), "the board says no");
    let push = async |expires: Timestamp| {
        let gate = world.gate_of("app-1", "tickets").await.expect("is there");
        let answer = json!({"approved": true, "approvedBy": "eve", "expiresAt": expires}).to_string();
        let stored = store_answer(&world.cluster, POLICY, gate.name(), answer.as_bytes(), world.now()).await;
        stored.expect("is kept");
        world.settle().await;
    };
    // Approved until half past twelve, and the afternoon begins at one.
    push(time("2026-04-10T12:30:00Z")).await;
    assert!(world.gate_of("app-1", "tickets").await.expect("is there").status.ready);
    board.answers(200, json!({"approved": true, "approvedBy": "eve"}));
    let polled = async || world.state("app-1", "polled").await == Some(StepState::Verified);
    world.pass(5 * MINUTE, "the board says yes", polled).await;
    advance_to(&world, time("2026-04-10T13:00:01Z")).await;
    assert!(world.gate_of("app-1", "afternoon").await.expect("is there").status.ready);
    assert!(world.step("app-1", "pushed").await.is_none(), "the approval has expired");
    push(time("2026-04-10T18:00:00Z")).await;
    let pushed = async || world.state("app-1", "pushed").await == Some(StepState::Verified);
    world.pass(5 * MINUTE, "it is approved again", pushed).await;
    let gate = world.gate_of("app-1", "nobody").await.expect("is there").status;
    assert_eq!((gate.ready, gate.phase), (false, Some(GatePhase::Error)), "{gate:?}");
    assert!(gate.reason.is_some_and(|reason| reason.contains("no answer within 100ms")));
    assert!(world.step("app-1", "silent").await.is_none(), "nobody has answered");
}

/// B15: what a simulation says of a moment is what the controller says once that moment has come.
#[tokio::test(flavor = "multi_thread")]
async fn a_simulation_says_what_comes_true() {
    let world = World::new(&["staging", "prod"]).await;
    let weekend =
        json!({"type": "recurring", "schedule": {"allowedDays": ["Mon", "Tue", "Wed", "Thu", "Fri"]}});
    world
        .create(json!({"apiVersion": "kardinal.io/v1alpha1", "kind": "ChangeWindow",
            "metadata": {"name": "weekends"}, "spec": weekend}))
        .await;
    world.gate(POLICY, "no-weekend", "prod", "!schedule.isWeekend").await;
    world.gate(POLICY, "window", "prod", "!changewindow['weekends']").await;
    world.gate(POLICY, "soak", "prod", "bundle.upstreamSoakMinutes >= 4320").await;
    world.gate(NAMESPACE, "hours", "prod", "schedule.hour >= 9 && schedule.hour < 17").await;
    world.pipeline(json!([{"name": "staging"}, {"name": "prod"}])).await;
    world.bundle("app-1", "1.29.0").await;
    world.until_state("app-1", "staging", StepState::Verified).await;
    world.settle().await;
    let survey = survey(&world).await;
    let windows = read_windows(&world.cluster).await.expect("are read");
    let bundle = world.read_bundle("app-1").await;
    let labels = &survey.pipeline.metadata.labels;
    let gates = applying_gates(&survey.templates, "prod", labels, &survey.policy_namespaces);
    assert_eq!(gates.len(), 4);
    for moment in ["Friday 8pm", "Saturday 3pm", "Monday 9am"] {
        let at = parse_when(moment, world.now(), &TimeZone::UTC).expect("is a moment");
        let context = survey.trial_context(&bundle, "prod", &windows, at);
        let simulated = simulate(&GateEvaluator::new(), &gates, &context);
        advance_to(&world, at).await;
        for gate in &simulated.gates {
            let real = world.gate_of("app-1", &gate.name).await.expect("is there").status;
            let expected =
                (gate.outcome.ready, Some(gate.outcome.phase), gate.outcome.eta.as_ref().map(|eta| eta.at));
            assert_eq!((real.ready, real.phase, real.eta), expected, "{} at {moment}", gate.name);
        }
        assert_eq!(simulated.is_open(), world.step("app-1", "prod").await.is_some(), "{moment}");
        assert_eq!(simulated.next_window, Some(time("2026-04-13T12:00:00Z")), "{moment}");
    }
    advance_to(&world, time("2026-04-13T12:00:00Z")).await;
    world.pass(MINUTE, "the next window has come", async || is_verified(&world, "app-1").await).await;
    assert!(parse_when("Caturday 3pm", world.now(), &TimeZone::UTC).is_err());
}
