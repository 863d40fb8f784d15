//! Strategy files: every mistake with its place.

use slipway_unit::strategy::{CanaryStep, StepPause, Strategy, StrategyKind};

#[test]
fn every_mistake_is_told_at_once_with_its_place() {
    let text = "strategy:
  type: canaray
  targets: [ {kind: StatefulSet, name: db}, {name: api}, {name: api} ]
  canary:
    steps: [ {weight: 0}, {weight: 50}, {weight: 20}, {pause: soon}, {check: lint}, {weight: 60, pause: 1m}, {weight: 100}, {check: verify} ]
    maxWeightError: 101
    provider: istio
  bluegreen: { preview: api, scaleDownDelay: 10 minutes, prePromotion: [smoke] }
  signals: { restartBudget: many, probe: [], probes: [{}, {http: a, tcp: b}] }
  onFailure: explode
";
    let problems = Strategy::load(text, "strategy.yaml").expect_err("is wrong").to_string();
    for expected in [
        "strategy.yaml:2:9: `type` must be `rolling` or `canary` or `bluegreen`, not `canaray`",
        "a StatefulSet cannot be rolled out step by step",
        "the target `api` is named twice",
        "`weight` must be from 1 to 100",
        "the weight 20 follows 50",
        "`soon` is not a duration",
        "`check` must be `verify`, not `lint`",
        "a step is one of `weight`, `pause`, `check`",
        "nothing comes after the weight 100",
        "`maxWeightError` must be from 0 to 100",
        "`provider` must be",
        "missing key `service`",
        "`10 minutes` is not a duration",
        "is no check",
        "`restartBudget` must be a whole number",
        "unknown key `probe`",
        "`onFailure` must be",
        "a probe is one of `http`, `tcp`",
        "`tcp` and `http` exclude each other",
    ] {
        assert!(problems.contains(expected), "{expected}\n\n{problems}");
    }
    assert!(
        problems.lines().filter(|line| !line.starts_with(' ')).all(|line| line.starts_with("strategy.yaml:"))
    );
    for (text, expected) in [
        ("type: canary\n", "missing key `canary`"),
        ("type: canary\ntargets: []\ncanary: {steps: []}\n", "`targets` names no Deployment"),
        ("type: bluegreen\ntargets: [{name: a}, {name: b}]\nbluegreen: {service: a}\n", "has one target"),
    ] {
        let problems = Strategy::load(text, "s").expect_err("is wrong").to_string();
        assert!(problems.contains(expected), "{expected}\n\n{problems}");
    }
}

#[test]
fn the_kept_form_is_read_like_the_file() {
    let text = "strategy: {type: canary, targets: [{kind: Deployment, name: api}], canary: {steps: [{weight: 10}, {pause: manual}, {pause: 5m}, {check: verify}, {weight: 100}]}}";
    let strategy = Strategy::load(text, "s").expect("is right");
    let StrategyKind::Canary(canary) = &strategy.kind else { panic!("{strategy:?}") };
    assert_eq!(canary.steps[1], CanaryStep::Pause(StepPause::Manual));
    let value = slipway_yaml::parse_one(text, "s").expect("is YAML").to_json();
    assert_eq!(Strategy::parse(&value).expect("is right"), strategy);
    assert_eq!(Strategy::parse(&value["strategy"]).expect("is right"), strategy);
}
