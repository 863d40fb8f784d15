//! Claims and volumes.

use serde_json::json;

use super::*;

const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
const VOLUMES: &str = "/api/v1/persistentvolumes";

fn claim(class: Option<&str>) -> Value {
    let mut object = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    });
    if let Some(class) = class {
        object["spec"]["storageClassName"] = class.into();
    }
    object
}

fn volume(name: &str, size: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], "storageClassName": "manual",
            "hostPath": {"path": "/x"},
        },
    })
}

#[tokio::test]
async fn the_smallest_volume_that_fits_is_bound() {
    let world = World::new();
    for (name, size) in [("big", "9Gi"), ("fits", "2Gi"), ("small", "1Mi")] {
        world.create(VOLUMES, volume(name, size)).await;
        assert_eq!(world.get(&format!("{VOLUMES}/{name}")).await["status"]["phase"], "Available");
    }
    world.create(CLAIMS, claim(Some("manual"))).await;
    let path = format!("{CLAIMS}/c");
    let c = world.get(&path).await;
    assert_eq!(c["spec"]["volumeName"], "fits");
    assert_eq!(c["status"]["phase"], "Bound");
    assert_eq!(c["status"]["capacity"], json!({"storage": "2Gi"}));
    for note in ["pv.kubernetes.io/bind-completed", "pv.kubernetes.io/bound-by-controller"] {
        assert_eq!(c["metadata"]["annotations"][note], "yes");
    }
    let v = world.get(&format!("{VOLUMES}/fits")).await;
    assert_eq!(v["status"]["phase"], "Bound");
    assert_eq!(v["spec"]["claimRef"]["uid"], c["metadata"]["uid"]);
    world.delete(&path).await;
    assert_eq!(world.client.get(&path).await.code, 404);
    assert_eq!(world.get(&format!("{VOLUMES}/fits")).await["status"]["phase"], "Released");
}

#[tokio::test]
async fn volumes_are_made_on_demand() {
    let world = World::new();
    world.create(CLAIMS, claim(None)).await;
    let c = world.get(&format!("{CLAIMS}/c")).await;
    let name = format!("pvc-{}", c["metadata"]["uid"].as_str().unwrap());
    assert_eq!(c["spec"]["volumeName"], name.as_str());
    assert_eq!(c["status"]["phase"], "Bound");
    let v = world.get(&format!("{VOLUMES}/{name}")).await;
    assert_eq!(v["metadata"]["annotations"]["pv.kubernetes.io/provisioned-by"], "sandbox.local/hostpath");
    world.delete(&format!("{CLAIMS}/c")).await;
    assert!(world.items(VOLUMES).await.is_empty(), "what was made for a claim goes with it");
}

#[tokio::test]
async fn claims_nobody_can_serve_wait() {
    for (class, reason, message) in [
        ("", "FailedBinding", "no persistent volumes available for this claim and no storage class is set"),
        ("none", "ProvisioningFailed", "storageclass.storage.k8s.io \"none\" not found"),
    ] {
        let world = World::new();
        world.create(CLAIMS, claim(Some(class))).await;
        assert_eq!(world.get(&format!("{CLAIMS}/c")).await["status"]["phase"], "Pending");
        assert_eq!(world.said(reason).await, [message]);
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
            "spec": {
                "containers": [{"name": "c", "image": "i"}],
                "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}],
            },
        });
        world.create(PODS, pod).await;
        let told = conditions(&world.get(&format!("{PODS}/p")).await);
        assert!(
            told[0][3].as_str().unwrap().contains("unbound immediate PersistentVolumeClaims"),
            "{told:?}"
        );
    }
}

#[tokio::test]
async fn a_class_that_waits_for_its_consumer() {
    let world = World::new();
    let class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "lazy"},
        "provisioner": "x.y/z", "volumeBindingMode": "WaitForFirstConsumer",
    });
    world.create("/apis/storage.k8s.io/v1/storageclasses", class).await;
    world.create(CLAIMS, claim(Some("lazy"))).await;
    assert_eq!(world.get(&format!("{CLAIMS}/c")).await["status"]["phase"], "Pending");
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
        "spec": {
            "containers": [{"name": "c", "image": "i"}],
            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}],
        },
    });
    world.create(PODS, pod).await;
    assert_eq!(world.get(&format!("{CLAIMS}/c")).await["status"]["phase"], "Bound");
    assert_eq!(world.get(&format!("{PODS}/p")).await["status"]["phase"], "Running");
}
