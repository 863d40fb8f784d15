//! Metric checks and the gates that read them.

use serde_json::{Value, json};
use slipway_promotion::Requeue;
use slipway_promotion::kinds::{MetricCheckSpec, MetricResult, MetricResultStatus, find_condition};
use slipway_promotion::metric::{
    MetricCondition, MetricConditions, PrometheusError, QueryNames, judge_answer, read_answer, render_query,
};

use super::support::time;
use super::world::{Server, World};

/// An answer of Prometheus with one series a value.
pub(crate) fn vector(values: &[&str]) -> Value {
    let series: Vec<Value> =
        values.iter().map(|value| json!({"metric": {}, "value": [1.0, value]})).collect();
    json!({"status": "success", "data": {"resultType": "vector", "result": series}})
}

#[test]
fn conditions_compare_with_a_number() {
    for (text, value, holds) in [
        (">= 0.99", 0.99, true),
        (">=0.99", 0.98, false),
        ("> 1", 1.0, false),
        ("<= -2.5", -3.0, true),
        ("<1e3", 999.0, true),
        ("== 0", 0.0, true),
        (" != 0 ", 0.0, false),
    ] {
        let condition: MetricCondition = text.parse().expect("is a condition");
        assert_eq!(condition.holds(value), holds, "{value} {text}");
    }
    for text in ["", "0.99", ">", "=> 1", "> x", "> inf", "> NaN", ">= 1 2"] {
        assert!(text.parse::<MetricCondition>().is_err(), "{text}");
    }
}

fn spec(more: Value) -> MetricCheckSpec {
    let mut spec = json!({"provider": {"type": "prometheus", "address": "http://x"}, "query": "up",
        "successCondition": ">= 0.99", "failureCondition": "< 0.95"});
    for (key, value) in more.as_object().expect("is an object") {
        spec[key] = value.clone();
    }
    serde_json::from_value(spec).expect("is a check")
}

#[test]
fn answers_and_their_absence_have_results() {
    let now = time("2026-04-13T09:00:00Z");
    let before = MetricResultStatus {
        value: Some(0.999),
        result: Some(MetricResult::Pass),
        measured_at: Some(time("2026-04-13T08:59:00Z")),
        ..MetricResultStatus::default()
    };
    let judge = |more: Value, answer: Result<f64, &str>, before: &MetricResultStatus| {
        let spec = spec(more);
        let conditions = MetricConditions::parse(&spec).expect("are conditions");
        judge_answer(&spec, &conditions, answer.map_err(str::to_owned), before, now)
    };
    let none = MetricResultStatus::default();
    for (more, answer, before, result, value) in [
        (json!({}), Ok(0.998), &none, MetricResult::Pass, Some(0.998)),
        (json!({}), Ok(0.97), &none, MetricResult::Inconclusive, Some(0.97)),
        (json!({}), Ok(0.90), &none, MetricResult::Fail, Some(0.90)),
        (json!({"failureCondition": ">= 0"}), Ok(0.998), &none, MetricResult::Fail, Some(0.998)),
        (json!({"successCondition": null}), Ok(0.97), &none, MetricResult::Pass, Some(0.97)),
        (json!({}), Err("no data"), &before, MetricResult::Pass, Some(0.999)),
        (json!({}), Err("no data"), &none, MetricResult::Inconclusive, None),
        (json!({"noDataBehavior": "pass"}), Err("no data"), &none, MetricResult::Pass, Some(0.99)),
        (json!({"noDataBehavior": "fail"}), Err("no data"), &before, MetricResult::Fail, None),
        (json!({"for": 2}), Ok(0.998), &none, MetricResult::Inconclusive, Some(0.998)),
    ] {
        let found = judge(more.clone(), answer, before);
        assert_eq!((found.result, found.value), (Some(result), value), "{more} {answer:?}");
    }
    let held = judge(json!({}), Err("no data"), &before);
    assert!(held.stale);
    assert_eq!((held.measured_at, held.last_evaluated_at), (before.measured_at, Some(now)));
    // Successes count in a row.
    let first = judge(json!({"for": 2}), Ok(1.0), &none);
    let second = judge(json!({"for": 2}), Ok(1.0), &first);
    assert_eq!((first.result, second.result), (Some(MetricResult::Inconclusive), Some(MetricResult::Pass)));
    let broken = judge(json!({"for": 2}), Ok(0.97), &second);
    assert_eq!(
        (broken.successes, judge(json!({"for": 2}), Ok(1.0), &broken).result),
        (0, Some(MetricResult::Inconclusive))
    );
    let errors =
        MetricConditions::parse(&spec(json!({"successCondition": "high", "failureCondition": "low"})));
    assert_eq!(errors.expect_err("are none").len(), 2);
}

#[test]
fn older_checks_have_a_threshold() {
    let older: MetricCheckSpec =
        serde_json::from_value(json!({"provider": "prometheus", "prometheusURL": "http://x",
        "query": "up", "threshold": {"value": 0.5, "operator": "lt"}}))
        .expect("is a check");
    assert_eq!(
        (older.provider.address.as_str(), older.success_condition.as_deref()),
        ("http://x", Some("< 0.5"))
    );
}

#[test]
fn prometheus_answers_with_one_number() {
    for (body, expected) in [
        (vector(&["0.998"]), Ok(0.998)),
        (json!({"status": "success", "data": {"resultType": "scalar", "result": [1.0, "42"]}}), Ok(42.0)),
        (vector(&["+Inf"]), Ok(f64::INFINITY)),
        (vector(&[]), Err("no data")),
        (vector(&["NaN"]), Err("no data")),
        (vector(&["1", "2"]), Err("2 series where one is needed; aggregate them")),
        (
            json!({"status": "success", "data": {"resultType": "matrix", "result": []}}),
            Err("a matrix where a number is needed"),
        ),
        (
            json!({"status": "error", "errorType": "bad_data", "error": "parse error"}),
            Err("the query is refused: parse error"),
        ),
        (
            json!({"status": "success", "data": {"resultType": "vector", "result": [{"value": [1.0, 3]}]}}),
            Err("the answer is not Prometheus': status 200"),
        ),
    ] {
        let found = read_answer(200, body.to_string().as_bytes()).map_err(|error| error.to_string());
        assert_eq!(found, expected.map_err(str::to_owned), "{body}");
    }
    assert!(matches!(read_answer(502, b"<html>"), Err(PrometheusError::Foreign(502))));
}

#[test]
fn queries_take_the_names_of_the_promotion() {
    let names = QueryNames {
        pipeline: "shop".to_owned(),
        environment: "prod".to_owned(),
        bundle: "shop-1".to_owned(),
        version: "1\"29".to_owned(),
        namespace: "team".to_owned(),
    };
    let query = "rate(x{app=\"{{ .AppName }}\",env=\"{{.Environment}}\",v=\"{{ .Version }}\",b=\"{{ .Bundle }}\",n=\"{{ .Namespace }}\"}[5m])";
    let expected = "rate(x{app=\"shop\",env=\"prod\",v=\"1\\\"29\",b=\"shop-1\",n=\"team\"}[5m])";
    assert_eq!(render_query(query, &names).as_deref(), Ok(expected));
    assert_eq!(render_query("up{a=\"b\"}", &names).as_deref(), Ok("up{a=\"b\"}"));
    for wrong in ["{{ .Nothing }}", "{{ .AppName", "{{ nothing }}", "{{ range }}"] {
        assert!(render_query(wrong, &names).is_err(), "{wrong}");
    }
}

#[tokio::test]
async fn a_metric_gate_follows_its_check() {
    let server = Server::start().await;
    let world = World::start("2026-04-13T09:00:00Z").await;
    world.bundle("shop-1", json!({})).await;
    let template = world
        .template("healthy", json!({"expression": "metrics.successRate >= 0.99", "recheckInterval": "5m"}))
        .await;
    let gate = world.instance(&template, &[]).await;
    let (closed, _) = world.reconcile(&gate).await;
    assert_eq!(
        closed.status.reason.as_deref(),
        Some("MetricNoData: successRate: there is no such MetricCheck in reach")
    );
    let query = "sum(rate(ok{app=\"{{ .AppName }}\",env=\"{{ .Environment }}\"}[5m]))";
    let spec = json!({"provider": {"type": "prometheus", "address": server.address}, "query": query,
        "successCondition": ">= 0.99", "failureCondition": "< 0.95", "interval": "1m"});
    let check = world.metric_check("success-rate", spec).await;
    server.answers(200, vector(&["0.998"]));
    let (check, requeue) = world.reconcile_metric(&check).await;
    assert_eq!(requeue, Requeue::At(time("2026-04-13T09:01:00Z")));
    let result = check.status.results.get("team/shop/prod").expect("has a result for the promotion");
    assert_eq!((result.value, result.result), (Some(0.998), Some(MetricResult::Pass)));
    let request = server.requests().pop().expect("was asked");
    assert!(
        request
            .starts_with("GET /api/v1/query?query=sum%28rate%28ok%7Bapp%3D%22shop%22%2Cenv%3D%22prod%22%7D"),
        "{request}"
    );
    let (open, requeue) = world.reconcile(&gate).await;
    assert!(open.status.ready, "{:?}", open.status.reason);
    assert_eq!(open.status.reason.as_deref(), Some("metrics.successRate = 0.998 (threshold: >= 0.99)"));
    // Unless it is measured again, the value is too old after three intervals.
    assert_eq!(requeue, Requeue::At(time("2026-04-13T09:03:00Z")));
    // Not asked before its time.
    assert_eq!(world.reconcile_metric(&check).await.1, Requeue::At(time("2026-04-13T09:01:00Z")));
    assert_eq!(server.requests().len(), 1);

    world.advance(60);
    server.answers(200, vector(&["0.90"]));
    let (check, _) = world.reconcile_metric(&check).await;
    let (closed, _) = world.reconcile(&gate).await;
    assert_eq!(closed.status.reason.as_deref(), Some("metrics.successRate = 0.9 (threshold: >= 0.99)"));

    // No data: the result before stands until it is too old.
    world.advance(60);
    server.answers(200, vector(&["0.995"]));
    world.reconcile_metric(&check).await;
    world.advance(60);
    server.answers(200, vector(&[]));
    let (check, _) = world.reconcile_metric(&check).await;
    assert!(check.status.results["team/shop/prod"].stale);
    assert!(world.reconcile(&gate).await.0.status.ready);
    world.advance(120);
    world.reconcile_metric(&check).await;
    let (closed, _) = world.reconcile(&gate).await;
    let reason = closed.status.reason.unwrap_or_default();
    assert_eq!(reason, "MetricNoData: success-rate: the last value is older than three intervals");
}

#[tokio::test]
async fn no_data_passes_or_fails_where_the_check_says_so() {
    let server = Server::start().await;
    server.answers(200, vector(&[]));
    let world = World::start("2026-04-13T09:00:00Z").await;
    world.bundle("shop-1", json!({})).await;
    for (name, behavior, ready) in
        [("passes", "pass", true), ("fails", "fail", false), ("holds", "hold", false)]
    {
        let spec = json!({"provider": {"type": "prometheus", "address": server.address}, "query": "up",
            "successCondition": "> 0.99", "noDataBehavior": behavior});
        let check = world.metric_check(name, spec).await;
        world.reconcile_metric(&check).await;
        let template = world.template(name, json!({"expression": format!("metrics.{name} > 0.99")})).await;
        let gate = world.instance(&template, &[]).await;
        let (gate, _) = world.reconcile(&gate).await;
        assert_eq!(gate.status.ready, ready, "{name}: {:?}", gate.status.reason);
        if ready {
            assert!(gate.status.reason.unwrap_or_default().ends_with("(no data, which counts as a pass)"));
        }
    }
    // A server that is down is no data either.
    let spec = json!({"provider": {"type": "prometheus", "address": "http://127.0.0.1:1"}, "query": "up", "noDataBehavior": "fail"});
    let check = world.metric_check("down", spec).await;
    let (check, _) = world.reconcile_metric(&check).await;
    assert_eq!(check.status.latest.result, Some(MetricResult::Fail));
}

#[tokio::test]
async fn a_check_says_what_is_wrong_with_it() {
    let world = World::start("2026-04-13T09:00:00Z").await;
    let spec = json!({"provider": {"type": "prometheus", "address": "http://127.0.0.1:1", "secretRef": {"name": "nothing"}}, "query": "up"});
    let check = world.metric_check("secret", spec).await;
    let (check, _) = world.reconcile_metric(&check).await;
    let condition = find_condition(&check.status.conditions, "Ready").expect("is told");
    assert_eq!(
        (condition.reason.as_str(), condition.message.as_str()),
        ("NoSecret", "Secret nothing does not exist")
    );
}
