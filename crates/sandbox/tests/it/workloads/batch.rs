//! Jobs and cron jobs.

use std::time::Duration;

use serde_json::json;

use super::*;

const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";
const J: &str = "/apis/batch/v1/namespaces/default/jobs/j";

fn job(annotations: Value, more: Value) -> Value {
    let mut template = template(annotations);
    template["spec"]["restartPolicy"] = "Never".into();
    let mut spec = json!({"template": template});
    for (key, value) in more.as_object().unwrap() {
        spec[key] = value.clone();
    }
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": spec})
}

fn short(job: &Value) -> Vec<Value> {
    conditions(job).iter().map(|c| json!([c[0], c[1], c[2]])).collect()
}

#[tokio::test]
async fn a_job_completes() {
    let world = World::new();
    world.create(JOBS, job(json!({}), json!({"completions": 2, "parallelism": 2}))).await;
    let j = world.get(J).await;
    let reached = "Reached expected number of succeeded pods";
    assert_eq!(
        conditions(&j),
        [
            json!(["SuccessCriteriaMet", "True", "CompletionsReached", reached]),
            json!(["Complete", "True", "CompletionsReached", reached]),
        ]
    );
    let mut status = counts(&j);
    let members = status.as_object_mut().unwrap();
    assert!(members.shift_remove("startTime").is_some() && members.shift_remove("completionTime").is_some());
    assert_eq!(status, json!({"succeeded": 2, "terminating": 0, "uncountedTerminatedPods": {}, "ready": 0}));
    let pods = world.items(PODS).await;
    assert_eq!(pods.len(), 2);
    assert!(pods.iter().all(|p| p["metadata"].get("finalizers").is_none()));
    assert_eq!(pods[0]["metadata"]["generateName"], "j-");
    assert_eq!(world.said("Completed").await, ["Job completed"]);
}

#[tokio::test]
async fn how_jobs_end() {
    let failed =
        |reason: &str| vec![json!(["FailureTarget", "True", reason]), json!(["Failed", "True", reason])];
    let complete = vec![
        json!(["SuccessCriteriaMet", "True", "CompletionsReached"]),
        json!(["Complete", "True", "CompletionsReached"]),
    ];
    for (annotations, spec, want, succeeded, fails) in [
        (json!({"sim/fail": "true"}), json!({"backoffLimit": 1}), failed("BackoffLimitExceeded"), 0, 2),
        (json!({"sim/exit-code": "2"}), json!({"backoffLimit": 0}), failed("BackoffLimitExceeded"), 0, 1),
        (json!({"sim/fail-count": "2"}), json!({}), complete.clone(), 1, 2),
        (
            json!({"sim/duration": "50"}),
            json!({"activeDeadlineSeconds": 5}),
            failed("DeadlineExceeded"),
            0,
            1,
        ),
        (json!({}), json!({"completions": 3, "parallelism": 1}), complete.clone(), 3, 0),
    ] {
        let world = World::new();
        world.create(JOBS, job(annotations.clone(), spec.clone())).await;
        let j = world.get(J).await;
        assert_eq!(short(&j), want, "{annotations} {spec} {j}");
        assert_eq!(j["status"]["succeeded"].as_i64().unwrap_or(0), succeeded, "{annotations} {spec}");
        assert_eq!(j["status"]["failed"].as_i64().unwrap_or(0), fails, "{annotations} {spec}");
        assert!(j["status"].get("active").is_none(), "{annotations} {spec}");
    }
}

#[tokio::test]
async fn restarts_in_place_count_towards_the_limit() {
    let world = World::new();
    let mut object = job(json!({"sim/fail": "true"}), json!({"backoffLimit": 2}));
    object["spec"]["template"]["spec"]["restartPolicy"] = "OnFailure".into();
    world.create(JOBS, object).await;
    assert_eq!(short(&world.get(J).await)[1], json!(["Failed", "True", "BackoffLimitExceeded"]));
}

#[tokio::test]
async fn indexed_pods() {
    let world = World::new();
    let spec = json!({"completions": 4, "parallelism": 2, "completionMode": "Indexed"});
    world.create(JOBS, job(json!({}), spec)).await;
    let j = world.get(J).await;
    assert_eq!(j["status"]["completedIndexes"], "0-3");
    assert_eq!(j["status"]["succeeded"], 4);
    let pods = world.items(PODS).await;
    let first = pods.iter().find(|p| p["spec"]["hostname"] == "j-0").unwrap();
    assert_eq!(first["metadata"]["generateName"], "j-0-");
    assert_eq!(first["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"], "0");
    assert_eq!(first["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"], "0");
    assert_eq!(
        first["spec"]["containers"][0]["env"][0]["valueFrom"]["fieldRef"]["fieldPath"],
        "metadata.labels['batch.kubernetes.io/job-completion-index']"
    );
}

#[tokio::test]
async fn suspended_until_told_otherwise_and_gone_when_done() {
    let world = World::new();
    world.create(JOBS, job(json!({}), json!({"suspend": true, "ttlSecondsAfterFinished": 0}))).await;
    let j = world.get(J).await;
    assert_eq!(conditions(&j), [json!(["Suspended", "True", "JobSuspended", "Job suspended"])]);
    assert!(j["status"].get("startTime").is_none());
    assert!(world.items(PODS).await.is_empty());
    world.patch(J, json!({"spec": {"suspend": false}})).await;
    assert_eq!(world.client.get(J).await.code, 404);
    assert!(world.items(PODS).await.is_empty());
}

#[tokio::test]
async fn a_deleted_job_takes_its_pods() {
    let world = World::at(ClockSpeed::Manual);
    world.create(JOBS, job(json!({}), json!({}))).await;
    assert_eq!(world.items(PODS).await.len(), 1);
    world.delete(&format!("{J}?propagationPolicy=Background")).await;
    world.sandbox.advance(Duration::from_secs(1)).await;
    assert!(world.items(PODS).await.is_empty());
}

fn cron(more: Value) -> Value {
    let mut template = template(json!({}));
    template["spec"]["restartPolicy"] = "OnFailure".into();
    let mut spec = json!({"schedule": "* * * * *", "jobTemplate": {"spec": {"template": template}}});
    for (key, value) in more.as_object().unwrap() {
        spec[key] = value.clone();
    }
    json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "c"}, "spec": spec})
}

const CRONS: &str = "/apis/batch/v1/namespaces/default/cronjobs";
const C: &str = "/apis/batch/v1/namespaces/default/cronjobs/c";

#[tokio::test]
async fn a_cron_job_keeps_its_schedule() {
    let world = World::at(ClockSpeed::Manual);
    world.create(CRONS, cron(json!({}))).await;
    assert!(world.items(JOBS).await.is_empty(), "nothing before the first minute is over");
    world.sandbox.advance(Duration::from_secs(31)).await;
    let jobs = world.items(JOBS).await;
    // 2026-01-01T00:01:00Z in minutes.
    assert_eq!(names(&jobs), ["c-29453761"]);
    assert_eq!(
        jobs[0]["metadata"]["annotations"]["batch.kubernetes.io/cronjob-scheduled-timestamp"],
        "2026-01-01T00:01:00Z"
    );
    let c = world.get(C).await;
    assert_eq!(c["status"]["lastScheduleTime"], "2026-01-01T00:01:00Z");
    assert_eq!(c["status"]["active"][0]["name"], "c-29453761");
    for _ in 0..15 {
        for _ in 0..4 {
            world.sandbox.advance(Duration::from_secs(15)).await;
        }
    }
    let jobs = world.items(JOBS).await;
    let complete = jobs.iter().filter(|j| !conditions(j).is_empty()).count();
    assert_eq!(complete, 3, "the history is trimmed");
    assert_eq!(
        world.said("SuccessfulCreate").await.iter().filter(|m| m.starts_with("Created job c-")).count(),
        16
    );
    assert!(world.get(C).await["status"]["lastSuccessfulTime"].is_string());
}

#[tokio::test]
async fn an_hour_passes_minute_by_minute_for_a_cron_job() {
    let world = World::at(ClockSpeed::Manual);
    world.create(CRONS, cron(json!({}))).await;
    world.sandbox.advance(Duration::from_secs(3600)).await;
    let made = world.said("SuccessfulCreate").await;
    assert_eq!(made.iter().filter(|m| m.starts_with("Created job c-")).count(), 60);
}

#[tokio::test]
async fn runs_that_overlap() {
    for (policy, jobs, active) in [("Allow", 2, 2), ("Forbid", 1, 1), ("Replace", 1, 1)] {
        let world = World::at(ClockSpeed::Manual);
        let mut object = cron(json!({"concurrencyPolicy": policy}));
        let template = &mut object["spec"]["jobTemplate"]["spec"]["template"];
        template["metadata"]["annotations"] = json!({"sim/duration": "1000"});
        world.create(CRONS, object).await;
        world.sandbox.advance(Duration::from_secs(31)).await;
        world.sandbox.advance(Duration::from_secs(60)).await;
        world.sandbox.advance(Duration::from_secs(1)).await;
        let found = world.items(JOBS).await;
        assert_eq!(
            found.iter().filter(|j| j["metadata"].get("deletionTimestamp").is_none()).count(),
            jobs,
            "{policy}"
        );
        assert_eq!(world.get(C).await["status"]["active"].as_array().unwrap().len(), active, "{policy}");
    }
}

#[tokio::test]
async fn indexes_fail_one_by_one() {
    let indexed = |more: Value| {
        let mut spec = json!({"completionMode": "Indexed", "completions": 3, "parallelism": 3});
        for (key, value) in more.as_object().unwrap() {
            spec[key] = value.clone();
        }
        spec
    };
    for (spec, reason, failures) in [
        (json!({"backoffLimitPerIndex": 0}), "FailedIndexes", 3),
        (json!({"backoffLimitPerIndex": 1}), "FailedIndexes", 6),
        (json!({"backoffLimitPerIndex": 0, "maxFailedIndexes": 1}), "MaxFailedIndexesExceeded", 3),
    ] {
        let world = World::new();
        world.create(JOBS, job(json!({"sim/fail": "true"}), indexed(spec.clone()))).await;
        let j = world.get(J).await;
        assert_eq!(
            short(&j),
            [json!(["FailureTarget", "True", reason]), json!(["Failed", "True", reason])],
            "{spec}"
        );
        assert_eq!(j["status"]["failed"], failures, "{spec}");
        assert_eq!(j["status"]["failedIndexes"], "0-2", "{spec}");
    }
    // A job whose indexes all succeed says that none failed.
    let world = World::new();
    world.create(JOBS, job(json!({}), indexed(json!({"backoffLimitPerIndex": 1})))).await;
    let status = world.get(J).await["status"].clone();
    assert_eq!((&status["completedIndexes"], &status["failedIndexes"]), (&json!("0-2"), &json!("")));
    let pod = &world.items(PODS).await[0];
    assert_eq!(pod["metadata"]["annotations"]["batch.kubernetes.io/job-index-failure-count"], "0");
}

#[tokio::test]
async fn some_indexes_can_be_enough() {
    for (rule, met) in [
        (json!({"succeededIndexes": "0-2"}), true),
        (json!({"succeededCount": 2}), true),
        (json!({"succeededIndexes": "0,1", "succeededCount": 1}), true),
    ] {
        let world = World::new();
        let spec = json!({
            "completionMode": "Indexed", "completions": 3, "parallelism": 3, "successPolicy": {"rules": [rule]},
        });
        world.create(JOBS, job(json!({}), spec)).await;
        let j = world.get(J).await;
        let want = [
            json!(["SuccessCriteriaMet", "True", "SuccessPolicy", "Matched rules at index 0"]),
            json!(["Complete", "True", "SuccessPolicy", "Matched rules at index 0"]),
        ];
        assert_eq!(conditions(&j) == want, met, "{j}");
    }
}
