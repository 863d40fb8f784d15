//! A run that is killed at any request and run again ends as one that nobody disturbed.

use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{Value, json};
use slipway_cluster::helm::{ReleaseStorage, RevisionStatus, StorageDriver};
use slipway_cluster::{Cluster, ListOptions};

use crate::world::{World, soon};

const STEPS: &str = "  - name: base
    apply:
      namespace: shop
      createNamespace: true
      manifests:
        - inline: '{apiVersion: v1, kind: ConfigMap, metadata: {name: base}, data: {a: \"1\"}}'
        - inline: '{apiVersion: v1, kind: Secret, metadata: {name: token}, stringData: {t: ${TOKEN}}}'
  - name: app
    needs: [base]
    timeout: 60s
    helm: {chart: ./app, namespace: shop, wait: true, values: {size: 2}}
  - name: tune
    needs: [app]
    patch: {target: configmap/base, namespace: shop, type: merge, patch: {data: {b: '2'}}}
  - name: old
    needs: [tune]
    delete: {resource: configmap/legacy}
  - name: ready
    needs: [app]
    wait: {for: 'jsonpath={.data.size}=2', on: configmap/app, namespace: shop}
  - name: seed
    needs: [ready, old]
    timeout: 60s
    job: {image: i, namespace: shop}
  - name: last
    needs: [seed]
    apply: {serverSide: true, manifests: [{inline: '{apiVersion: v1, kind: ConfigMap, metadata: {name: last}}'}]}
";

async fn prepared() -> World {
    let mut world = World::new();
    world.environment = vec![("KHOOK_SECRET_TOKEN".into(), "hunter2secret".into())];
    world.chart(
        "app",
        "size: 1\n",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: app}\ndata: {size: \"{{ .Values.size }}\"}\n",
    );
    world.put(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "legacy"}})).await;
    world
}

/// What a user would look at: objects without what differs from run to run.
async fn picture(world: &World) -> Value {
    let cluster = Cluster::new(world.sandbox.client());
    let mut all = Vec::new();
    for (kind, namespace) in
        [("configmaps", "default"), ("configmaps", "shop"), ("secrets", "shop"), ("jobs", "shop")]
    {
        let kinds = cluster.served_kinds().await.unwrap();
        let kind = kinds.by_name(kind).unwrap();
        for item in cluster.list(kind, Some(namespace), &ListOptions::default()).await.unwrap().items {
            let name = item["metadata"]["name"].as_str().unwrap().to_owned();
            if name.starts_with("sh.helm.")
                || name.starts_with("khook-state")
                || name == "werf-synchronization"
                || name == "kube-root-ca.crt"
            {
                continue;
            }
            let done = item["status"]["conditions"]
                .as_array()
                .into_iter()
                .flatten()
                .any(|c| c["type"] == "Complete");
            let mut labels = item["metadata"]["labels"].clone();
            if let Some(labels) = labels.as_object_mut() {
                labels.retain(|key, _| !key.ends_with("controller-uid"));
            }
            all.push(json!({"at": format!("{}/{namespace}/{name}", item["kind"]), "data": item["data"],
                "labels": labels, "done": done}));
        }
    }
    let history =
        ReleaseStorage::new(cluster, StorageDriver::Secret, "shop").read_history("app").await.unwrap();
    let deployed: Vec<_> =
        history.releases.iter().filter(|release| release.info.status == RevisionStatus::Deployed).collect();
    assert_eq!(deployed.len(), 1);
    assert!(history.releases.iter().all(|release| !release.info.status.is_pending()));
    all.push(json!({"release": deployed[0].manifest, "config": deployed[0].config}));
    all.sort_by_key(Value::to_string);
    Value::Array(all)
}

fn assert_whole(record: &Value) {
    let text = record.to_string();
    assert_eq!(record["apiVersion"], "khook.io/state.v1");
    assert!(!text.contains("hunter2") && !text.contains("aHVudGVyMnNlY3JldA"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_at_any_request_and_run_again() {
    let world = prepared().await;
    let report = world.apply_with("state: {}", STEPS).await;
    assert!(report.is_success(), "{report:#?}");
    let undisturbed = picture(&world).await;
    let requests = world.wire.count.load(Ordering::SeqCst);
    assert!(requests > 20, "{requests}");
    let mut tried = 0;
    for served in [false, true] {
        for k in 1..=requests {
            let mut world = prepared().await;
            world.wire.break_at.store(k, Ordering::SeqCst);
            world.wire.served.store(served, Ordering::SeqCst);
            let document = world.document("state: {}", STEPS);
            let broken = world.wire.broken.clone();
            let ended = soon(async {
                tokio::select! {
                    biased;
                    () = broken.cancelled() => None,
                    report = world.try_apply(&document) => Some(report),
                }
            })
            .await;
            if ended.is_some() {
                // Fewer looks were needed this time.
                continue;
            }
            tried += 1;
            let done: Vec<String> = match world.record().await {
                Some(record) => {
                    assert_whole(&record);
                    let steps = record["steps"].as_array().unwrap().iter();
                    steps
                        .filter(|step| step["status"] == "ok")
                        .map(|step| step["name"].as_str().unwrap().to_owned())
                        .collect()
                }
                None => Vec::new(),
            };
            world.reconnect();
            // The lease of the dead holder runs out.
            world.clock.advance(Duration::from_secs(60));
            let report = world.try_apply(&document).await.expect("runs");
            assert!(report.is_success(), "killed at {k} (served: {served}): {report:#?}");
            for name in &done {
                assert_eq!(report.step(name).unwrap().skip_code, Some("resumed"), "killed at {k}: {name}");
            }
            assert_eq!(picture(&world).await, undisturbed, "killed at {k} (served: {served})");
            assert_whole(&world.record().await.unwrap());
        }
    }
    assert!(tried as u64 > requests, "{tried} of {requests}");
}
