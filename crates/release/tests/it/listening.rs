//! Logs of a release: of all its pods, the ones that come later too.

use serde_json::{Value, json};
use slipway_release::logs::{self, LogLine, LogOptions, LogRequest};
use tokio_util::sync::CancellationToken;

use crate::world::{World, annotated, config_map, deployment, fated, job};

fn lines(said: &[LogLine]) -> Vec<String> {
    let mut lines: Vec<String> =
        said.iter().map(|said| format!("{} {}: {}", said.object, said.container, said.text)).collect();
    lines.sort();
    lines
}

async fn world() -> World {
    let world = World::new();
    let web = fated(deployment("web", "nginx"), json!({"sim/logs": "hello\nbye"}));
    let filtered = annotated(
        fated(job("task", "busybox"), json!({"sim/logs": "keep\ndrop"})),
        json!({"werf.io/log-regex": "keep"}),
    );
    let mut cron = json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "nightly"}, "spec": {"schedule": "0 0 1 1 *", "suspend": true}});
    cron["spec"]["jobTemplate"]["spec"] = job("x", "busybox")["spec"].clone();
    world.deployed(&[config_map("a", "1"), web, filtered, cron]).await;
    // A pod of somebody else in the same namespace.
    let stranger = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "stranger", "labels": {"app": "web"}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "busybox"}]}});
    world.create("kubectl", &stranger).await;
    world.sandbox.settle().await;
    world
}

#[tokio::test]
async fn all_pods_of_a_release_are_heard() {
    let world = world().await;
    let mut said = Vec::new();
    let request = LogRequest::new("demo", "t1");
    let none = CancellationToken::new();
    logs::stream_logs(&world.cluster, &request, &LogOptions::default(), none.clone(), &mut |line| {
        said.push(line);
    })
    .await
    .expect("reads");
    assert_eq!(lines(&said), ["Deployment/web c: bye", "Deployment/web c: hello", "Job/task c: keep"]);
    for (options, expected) in [
        (
            LogOptions { objects: vec!["deploy/web".into()], tail: Some(1), ..LogOptions::default() },
            vec!["Deployment/web c: bye"],
        ),
        (
            LogOptions { objects: vec!["Job/task".into()], all_lines: true, ..LogOptions::default() },
            vec!["Job/task c: drop", "Job/task c: keep"],
        ),
        (LogOptions { containers: vec!["other".into()], ..LogOptions::default() }, vec![]),
        (LogOptions { grep: Some("^h".into()), ..LogOptions::default() }, vec!["Deployment/web c: hello"]),
    ] {
        let mut said = Vec::new();
        logs::stream_logs(&world.cluster, &request, &options, none.clone(), &mut |line| said.push(line))
            .await
            .expect("reads");
        assert_eq!(lines(&said), expected, "{options:?}");
    }
    let unknown = LogOptions { objects: vec!["deploy/nobody".into()], ..LogOptions::default() };
    let failure = logs::stream_logs(&world.cluster, &request, &unknown, none.clone(), &mut |_| {})
        .await
        .expect_err("is nowhere");
    assert!(failure.to_string().contains("deploy/nobody"), "{failure}");
    let missing = LogRequest::new("nobody", "t1");
    assert!(
        logs::stream_logs(&world.cluster, &missing, &LogOptions::default(), none, &mut |_| {}).await.is_err()
    );
}

#[tokio::test]
async fn pods_that_come_later_are_heard_too() {
    let world = world().await;
    let cancel = CancellationToken::new();
    let mut said: Vec<LogLine> = Vec::new();
    let options = LogOptions { follow: true, objects: vec!["web".into()], ..LogOptions::default() };
    let (request, stop) = (LogRequest::new("demo", "t1"), cancel.clone());
    let mut take = |line: LogLine| {
        said.push(line);
        // Both lines of the first pod, both of the second.
        if said.len() == 4 {
            stop.cancel();
        }
    };
    let follow = logs::stream_logs(&world.cluster, &request, &options, cancel, &mut take);
    let scale = async {
        let patch = slipway_cluster::ObjectPatch::Merge(json!({"spec": {"replicas": 2}}));
        let options = slipway_cluster::WriteOptions::for_manager("kubectl");
        let scaled: Value = world
            .cluster
            .patch(&crate::world::place("Deployment", "web"), &patch, &options, None)
            .await
            .expect("scales");
        assert_eq!(scaled["spec"]["replicas"], 2);
    };
    let (followed, ()) =
        tokio::join!(tokio::time::timeout(std::time::Duration::from_secs(60), follow), scale);
    followed.expect("ends").expect("reads");
    let pods: std::collections::BTreeSet<&str> = said.iter().map(|said| said.pod.as_str()).collect();
    assert_eq!(pods.len(), 2);
}
