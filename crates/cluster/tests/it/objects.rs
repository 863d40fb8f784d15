//! Reading and writing objects, through fair weather and foul.

use serde_json::json;
use slipway_cluster::{
    Apply, Cluster, Delete, Deleted, ErrorClass, ListOptions, Patch, Propagation, Retry, Verb, WriteOptions,
};
use slipway_manifest::{Gvk, ObjectRef};
use slipway_sandbox::{Fault, FaultLayer, Rule, Sandbox, User};
use std::time::Duration;

use crate::world::{at, bare, config_map, helm, troubled};

#[tokio::test]
async fn objects_come_and_go() {
    let (_sandbox, cluster) = bare();
    let place = at("v1", "ConfigMap", "a");
    assert!(cluster.get(&place).await.unwrap().is_none());
    let tried = cluster.apply(&place, &config_map("a", "1"), &helm().dry_run(true)).await.unwrap();
    assert_eq!(tried["data"]["a"], "1");
    assert!(cluster.get(&place).await.unwrap().is_none(), "a dry run leaves nothing");
    cluster.apply(&place, &config_map("a", "1"), &helm()).await.unwrap();
    let patch = Patch::Merge(json!({"data": {"b": "2"}}));
    cluster.patch(&place, &patch, &WriteOptions::manager("test"), None).await.unwrap();
    let mut live = cluster.get(&place).await.unwrap().unwrap();
    assert_eq!(live["data"], json!({"a": "1", "b": "2"}));
    live["data"]["c"] = "3".into();
    let replaced = cluster.replace(&place, &live, &WriteOptions::default()).await.unwrap();
    assert_eq!(replaced["data"]["c"], "3");
    let stale = cluster.replace(&place, &live, &WriteOptions::default()).await.unwrap_err();
    assert_eq!(stale.class, ErrorClass::Conflict);
    let again = cluster.create(&place, &config_map("a", "1"), &WriteOptions::default()).await.unwrap_err();
    assert_eq!(again.class, ErrorClass::AlreadyExists);
    assert_eq!(again.action, "create ConfigMap default/a");
    let wrong = Delete { uid: Some("other".into()), ..Delete::default() };
    assert_eq!(cluster.delete(&place, &wrong).await.unwrap(), Deleted::Gone);
    assert!(cluster.get(&place).await.unwrap().is_some(), "another object is left alone");
    assert_eq!(cluster.delete(&place, &Delete::default()).await.unwrap(), Deleted::Gone);
    assert_eq!(cluster.delete(&place, &Delete::default()).await.unwrap(), Deleted::Gone);
    assert!(cluster.get(&place).await.unwrap().is_none());
    let calls = cluster.calls();
    assert_eq!((calls.of(Verb::Apply), calls.dry_run(Verb::Apply), calls.repeated()), (1, 1, 0));
}

#[tokio::test]
async fn finalizers_keep_an_object_terminating() {
    let (_sandbox, cluster) = bare();
    let place = at("v1", "ConfigMap", "a");
    let mut manifest = config_map("a", "1");
    manifest["metadata"]["finalizers"] = json!(["example.com/wait"]);
    cluster.apply(&place, &manifest, &helm()).await.unwrap();
    let options = Delete { propagation: Propagation::Foreground, ..Delete::default() };
    let deleted = cluster.delete(&place, &options).await.unwrap();
    assert!(matches!(deleted, Deleted::Terminating(_)), "{deleted:?}");
}

#[tokio::test]
async fn refusals_are_sorted() {
    let (_sandbox, cluster) = bare();
    let place = at("apps/v1", "Deployment", "web");
    let deployment = |label: &str| {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {
            "selector": {"matchLabels": {"app": label}},
            "template": {"metadata": {"labels": {"app": label}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
        }})
    };
    cluster.apply(&place, &deployment("a"), &helm()).await.unwrap();
    let class = |result: Result<serde_json::Value, slipway_cluster::Error>| result.unwrap_err().class;
    assert_eq!(class(cluster.apply(&place, &deployment("b"), &helm()).await), ErrorClass::Immutable);
    let mut odd = deployment("a");
    odd["spec"]["nonsense"] = json!(1);
    assert_eq!(class(cluster.apply(&place, &odd, &helm()).await), ErrorClass::TypedPatch);
    let mut bad = deployment("a");
    bad["spec"]["replicas"] = json!(-1);
    assert_eq!(class(cluster.apply(&place, &bad, &helm()).await), ErrorClass::Invalid);
    let unforced = Apply { force: false, ..Apply::new("other") };
    let mut more = deployment("a");
    more["spec"]["template"]["spec"]["containers"][0]["image"] = json!("j");
    assert_eq!(class(cluster.apply(&place, &more, &unforced).await), ErrorClass::Conflict);
    let nothing = at("example.com/v1", "Thing", "a");
    let error = cluster.get(&nothing).await.unwrap_err();
    assert_eq!(error.class, ErrorClass::NoKind);
    assert!(error.is_absent());
    assert_eq!(cluster.delete(&nothing, &Delete::default()).await.unwrap(), Deleted::Gone);
    let elsewhere = ObjectRef::new(Gvk::new("", "v1", "ConfigMap"), Some("nowhere"), "a");
    assert_eq!(class(cluster.apply(&elsewhere, &config_map("a", "1"), &helm()).await), ErrorClass::NotFound);
}

#[tokio::test]
async fn whoever_may_not_is_told() {
    let sandbox = Sandbox::builder().without_workloads().rbac(true).build().unwrap();
    let nobody = User { name: "nobody".into(), ..User::default() };
    let cluster = Cluster::new(kube::Client::new(sandbox.service_as(nobody), "default"));
    let error = cluster.get(&at("v1", "ConfigMap", "a")).await.unwrap_err();
    assert_eq!(error.class, ErrorClass::Forbidden);
}

#[tokio::test]
async fn discovery_is_asked_twice_at_most() {
    let (_sandbox, cluster) = bare();
    let thing = Gvk::new("example.com", "v1", "Thing");
    for _ in 0..5 {
        assert!(cluster.kind(&thing).await.unwrap().is_none());
        assert!(cluster.kind(&Gvk::new("apps", "v1", "Deployment")).await.unwrap().is_some());
    }
    assert_eq!(cluster.calls().of(Verb::Discover), 4, "two documents, read twice");
    let kinds = cluster.kinds().await.unwrap();
    assert_eq!(kinds.by_name("deploy.v1.apps").unwrap().plural, "deployments");
    assert!(!kinds.by_name("ns").unwrap().namespaced);
    assert!(kinds.api_versions().contains(&"batch/v1/CronJob".to_owned()));
    assert!(cluster.version().await.unwrap().git_version.starts_with("v1."));
}

#[tokio::test]
async fn many_objects_are_read_with_few_calls() {
    let (_sandbox, cluster) = bare();
    for name in ["a", "b", "c", "d"] {
        cluster.apply(&at("v1", "ConfigMap", name), &config_map(name, name), &helm()).await.unwrap();
    }
    let places: Vec<ObjectRef> = ["d", "x", "a", "b"].map(|name| at("v1", "ConfigMap", name)).to_vec();
    let mut all = places.clone();
    all.push(at("v1", "Secret", "none"));
    all.push(at("example.com/v1", "Thing", "a"));
    let before = cluster.calls();
    let found = cluster.get_many(&all).await;
    let names: Vec<_> = found
        .into_iter()
        .map(|found| found.unwrap().map(|value| (value["kind"].clone(), value["data"]["a"].clone())))
        .collect();
    let config = |name: &str| Some((json!("ConfigMap"), json!(name)));
    assert_eq!(names, [config("d"), None, config("a"), config("b"), None, None]);
    let calls = cluster.calls().since(&before);
    assert_eq!((calls.of(Verb::List), calls.of(Verb::Get)), (1, 1));
}

#[tokio::test]
async fn long_lists_are_whole() {
    let (_sandbox, cluster) = bare();
    let write = |index: usize| {
        let cluster = cluster.clone();
        async move {
            let name = format!("c{index:04}");
            cluster.apply(&at("v1", "ConfigMap", &name), &config_map(&name, "1"), &helm()).await.unwrap();
        }
    };
    futures::future::join_all((0..1203).map(write)).await;
    let kind = cluster.kind(&Gvk::new("", "v1", "ConfigMap")).await.unwrap().unwrap();
    let options = ListOptions { metadata_only: true, ..ListOptions::default() };
    let listed = cluster.list(&kind, Some("default"), &options).await.unwrap();
    let ours: Vec<_> = listed
        .items
        .iter()
        .filter(|item| item["metadata"]["name"].as_str().unwrap().starts_with('c'))
        .collect();
    assert_eq!(ours.len(), 1203);
    assert!(ours.iter().all(|item| item["kind"] == "ConfigMap" && item.get("data").is_none()));
    assert!(!listed.resource_version.is_empty());
}

#[tokio::test(start_paused = true)]
async fn passing_trouble_is_borne() {
    let (sandbox, _) = bare();
    let faults = FaultLayer::new(3);
    for fault in [
        Fault::TooManyRequests { retry_after: 1 },
        Fault::ServerError(500),
        Fault::ServerError(503),
        Fault::Reset,
        Fault::LoseAnswer,
    ] {
        faults.add(Rule::new(fault).probability(0.1));
    }
    let cluster = troubled(&sandbox, &faults);
    for index in 0..60 {
        let name = format!("c{index}");
        let place = at("v1", "ConfigMap", &name);
        let created =
            cluster.create(&place, &config_map(&name, "1"), &WriteOptions::default()).await.unwrap();
        assert_eq!(created["data"]["a"], "1");
        let mut next = created;
        next["data"]["a"] = "2".into();
        cluster.replace(&place, &next, &WriteOptions::default()).await.unwrap();
        cluster.apply(&place, &config_map(&name, "3"), &helm()).await.unwrap();
        assert_eq!(cluster.get(&place).await.unwrap().unwrap()["data"]["a"], "3");
        cluster.delete(&place, &Delete::default()).await.unwrap();
    }
    assert!(faults.hits() > 50 && cluster.calls().repeated() > 50, "{}", cluster.calls());
}

#[tokio::test(start_paused = true)]
async fn patience_has_an_end() {
    let (sandbox, _) = bare();
    let faults = FaultLayer::new(3);
    faults.add(Rule::new(Fault::ServerError(503)));
    let cluster = troubled(&sandbox, &faults);
    let started = tokio::time::Instant::now();
    let error = cluster.get(&at("v1", "ConfigMap", "a")).await.unwrap_err();
    assert_eq!((error.class, error.code()), (ErrorClass::Server, Some(503)));
    assert!(started.elapsed() <= Duration::from_secs(60));
    let hasty = cluster.with_retry(Retry::never());
    let before = hasty.calls();
    assert!(hasty.get(&at("v1", "ConfigMap", "a")).await.is_err());
    assert_eq!(hasty.calls().since(&before).total(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_asks_for_time_gets_it() {
    let (sandbox, _) = bare();
    let faults = FaultLayer::new(3);
    faults.add(Rule::new(Fault::TooManyRequests { retry_after: 7 }).times(1));
    let cluster = troubled(&sandbox, &faults);
    let started = tokio::time::Instant::now();
    assert!(cluster.get(&at("v1", "ConfigMap", "a")).await.unwrap().is_none());
    assert_eq!(started.elapsed().as_secs(), 7);
}

#[tokio::test(start_paused = true)]
async fn a_json_patch_is_not_sent_twice() {
    let (sandbox, cluster) = bare();
    let place = at("v1", "ConfigMap", "a");
    cluster.apply(&place, &config_map("a", "1"), &helm()).await.unwrap();
    let faults = FaultLayer::new(3);
    faults.add(Rule::new(Fault::LoseAnswer).method("PATCH"));
    let cluster = troubled(&sandbox, &faults);
    let patch = Patch::Json(json!([{"op": "add", "path": "/data/b", "value": "2"}]));
    let error = cluster.patch(&place, &patch, &WriteOptions::default(), None).await.unwrap_err();
    assert_eq!((error.class, faults.hits()), (ErrorClass::Transport, 1));
}

#[tokio::test(start_paused = true)]
async fn an_object_of_others_is_not_taken_for_ours() {
    let (sandbox, cluster) = bare();
    let place = at("v1", "ConfigMap", "a");
    cluster.apply(&place, &config_map("a", "theirs"), &helm()).await.unwrap();
    let faults = FaultLayer::new(3);
    faults.add(Rule::new(Fault::Reset).method("POST").times(1));
    let cluster = troubled(&sandbox, &faults);
    let error = cluster.create(&place, &config_map("a", "ours"), &WriteOptions::default()).await.unwrap_err();
    assert_eq!(error.class, ErrorClass::AlreadyExists);
}
