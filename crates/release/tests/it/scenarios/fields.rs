//! What becomes of objects: fields, owners, immutability, secrets, noise.

use serde_json::{Value, json};
use slipway_cluster::helm::RevisionStatus;
use slipway_cluster::{ObjectPatch, WriteOptions};
use slipway_release::ReleaseStatus;
use slipway_release::plan::ReleaseRequest;
use slipway_release::show::{PlanView, ViewOptions};

use crate::world::{World, annotated, boat, boats, config_map, deployment, job, place, text};

async fn patch(world: &World, kind: &str, name: &str, manager: &str, body: Value) {
    let (at, patch, options) =
        (place(kind, name), ObjectPatch::Merge(body), WriteOptions::for_manager(manager));
    world.cluster.patch(&at, &patch, &options, None).await.unwrap_or_else(|error| panic!("{error}"));
}

async fn replicas(world: &World, count: u32) {
    let (at, body) = (place("Deployment", "web"), ObjectPatch::Merge(json!({"spec": {"replicas": count}})));
    let options = WriteOptions::for_manager("hpa");
    world.cluster.patch(&at, &body, &options, Some("scale")).await.expect("scales");
}

/// Scenario 6: a field that left the chart leaves the cluster, even one an older Helm wrote.
#[tokio::test]
async fn removed_fields_disappear() {
    let world = World::new();
    let mut before = config_map("a", "1");
    before["data"]["extra"] = "x".into();
    world.deployed(&[before]).await;
    // As a client-side Helm leaves it: written by `helm` with an update.
    let mut live = world.get("ConfigMap", "a").await.expect("is there");
    for entry in live["metadata"]["managedFields"].as_array_mut().expect("has owners") {
        entry["operation"] = "Update".into();
    }
    let options = WriteOptions::for_manager("helm");
    world.cluster.replace(&place("ConfigMap", "a"), &live, &options).await.expect("writes");
    let plan = world.plan(&[config_map("a", "1")]).await.expect("plans");
    assert_eq!(plan.objects[0].predicted.as_ref().expect("was tried")["data"], json!({"key": "1"}));
    world.deployed(&[config_map("a", "1")]).await;
    let live = world.get("ConfigMap", "a").await.expect("is there");
    assert_eq!(live["data"], json!({"key": "1"}));
    let entries = live["metadata"]["managedFields"].as_array().expect("has owners");
    assert!(!entries.iter().any(|entry| entry["manager"] == "helm" && entry["operation"] == "Update"));
}

/// Scenario 7: manual edits are reverted; additions stay when asked.
#[tokio::test]
async fn manual_edits_are_reverted() {
    for keep in [false, true] {
        let mut world = World::new();
        world.options.keep_manual_changes = keep;
        let web = deployment("web", "nginx:1");
        world.deployed(std::slice::from_ref(&web)).await;
        let edit = json!({"metadata": {"annotations": {"mine": "x"}},
            "spec": {"template": {"spec": {"containers": [{"name": "c", "image": "nginx:edited"}]}}}});
        patch(&world, "Deployment", "web", "kubectl-edit", edit).await;
        world.deployed(std::slice::from_ref(&web)).await;
        let live = world.get("Deployment", "web").await;
        assert_eq!(text(&live, "/spec/template/spec/containers/0/image"), "nginx:1", "keep {keep}");
        assert_eq!(text(&live, "/metadata/annotations/mine"), if keep { "x" } else { "" }, "keep {keep}");
    }
}

/// Scenario 8: fields somebody else looks after survive.
#[tokio::test]
async fn foreign_fields_survive() {
    let world = World::new();
    world.deployed(&[config_map("a", "1")]).await;
    patch(&world, "ConfigMap", "a", "ca-injector", json!({"data": {"bundle": "y"}})).await;
    world.deployed(&[config_map("a", "2")]).await;
    let live = world.get("ConfigMap", "a").await.expect("is there");
    assert_eq!(live["data"], json!({"key": "2", "bundle": "y"}));
    let owner = |entry: &Value| entry["manager"] == "ca-injector";
    assert!(live["metadata"]["managedFields"].as_array().is_some_and(|all| all.iter().any(owner)));
}

/// Scenario 9: an autoscaler's replicas stay, whether the chart sets them or not.
#[tokio::test]
async fn autoscaled_replicas_stay() {
    let world = World::new();
    let unset = |image: &str| {
        let mut web = deployment("web", image);
        web["spec"].as_object_mut().expect("is a map").remove("replicas");
        web
    };
    world.deployed(&[unset("nginx:1")]).await;
    replicas(&world, 5).await;
    world.deployed(&[unset("nginx:2")]).await;
    assert_eq!(world.get("Deployment", "web").await.expect("is there")["spec"]["replicas"], 5);

    let scaler = json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "h"},
        "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "maxReplicas": 9}});
    world.deployed(&[deployment("web", "nginx:3"), scaler.clone()]).await;
    replicas(&world, 5).await;
    let plan = world.plan(&[deployment("web", "nginx:4"), scaler.clone()]).await.expect("plans");
    assert!(plan.warnings.to_string().contains("spec.replicas is left to others"), "{}", plan.warnings);
    world.deployed(&[deployment("web", "nginx:4"), scaler]).await;
    let live = world.get("Deployment", "web").await;
    assert_eq!(text(&live, "/spec/template/spec/containers/0/image"), "nginx:4");
    assert_eq!(live.expect("is there")["spec"]["replicas"], 5);
}

/// Scenario 10: replicas on creation last.
#[tokio::test]
async fn replicas_on_creation() {
    let world = World::new();
    let web = |image: &str| {
        let mut web = annotated(deployment("web", image), json!({"werf.io/replicas-on-creation": "3"}));
        web["spec"].as_object_mut().expect("is a map").remove("replicas");
        web
    };
    world.deployed(&[web("nginx:1")]).await;
    assert_eq!(world.get("Deployment", "web").await.expect("is there")["spec"]["replicas"], 3);
    world.deployed(&[web("nginx:2")]).await;
    assert_eq!(world.get("Deployment", "web").await.expect("is there")["spec"]["replicas"], 3);
}

/// Scenario 11: what cannot change is refused before anything is written.
#[tokio::test]
async fn immutable_is_refused() {
    let (world, tap) = World::new().tapped();
    world.deployed(&[deployment("web", "nginx")]).await;
    let mut other = deployment("web", "nginx");
    other["spec"]["selector"]["matchLabels"] = json!({"app": "other"});
    other["spec"]["template"]["metadata"]["labels"] = json!({"app": "other"});
    let (objects, before) = ([other, config_map("new", "1")], tap.written().len());
    let planned = world.plan(&objects).await.expect_err("cannot be");
    for failure in [planned, world.failed(&objects).await] {
        assert!(failure.to_string().contains("Deployment/web cannot be changed in place"), "{failure}");
    }
    assert_eq!(world.statuses().await, [(1, RevisionStatus::Deployed)]);
    assert!(world.get("ConfigMap", "new").await.is_none());
    let written = tap.written().split_off(before);
    assert!(written.is_empty(), "{written:?}");
}

/// Scenario 12: a Job is created again when it must change.
#[tokio::test]
async fn jobs_are_recreated() {
    let (world, tap) = World::new().tapped();
    world.deployed(&[job("once", "busybox:1")]).await;
    let before = world.get("Job", "once").await;
    let view = world.plan(&[job("once", "busybox:2")]).await.expect("plans").view(&Default::default());
    assert_eq!(view.summary, [("recreate".to_owned(), 1)]);
    let start = tap.seen().len();
    world.deployed(&[job("once", "busybox:2")]).await;
    // The old one is deleted, and seen to be gone, before the new one is written.
    let seen = tap.seen().split_off(start);
    let steps: Vec<&str> = seen
        .iter()
        .filter(|seen| {
            seen.path.ends_with("/jobs/once") && (seen.is_write() || seen.method == http::Method::GET)
        })
        .map(|seen| seen.method.as_str())
        .collect();
    let (delete, write) = (
        steps.iter().position(|step| *step == "DELETE").expect("is deleted"),
        steps.iter().rposition(|step| *step == "PATCH").expect("is written"),
    );
    assert!(delete < write, "{steps:?}");
    let after = world.get("Job", "once").await;
    assert_ne!(text(&before, "/metadata/uid"), text(&after, "/metadata/uid"));
    assert_eq!(text(&after, "/spec/template/spec/containers/0/image"), "busybox:2");
}

/// Scenario 13: every way a server says "immutable" is understood when planning.
#[tokio::test]
async fn every_immutable_field_is_found_by_the_plan() {
    let claim = |class: &str| {
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "x"}, "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": class, "resources": {"requests": {"storage": "1Gi"}}}})
    };
    let set = |service: &str| {
        let mut set = deployment("x", "nginx");
        set["kind"] = "StatefulSet".into();
        set["spec"]["serviceName"] = service.into();
        set
    };
    let service = |ip: &str| {
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "x"},
            "spec": {"clusterIP": ip, "ports": [{"port": 80}]}})
    };
    let pod = |account: &str| {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {
            "hostname": account, "containers": [{"name": "c", "image": "nginx"}]}})
    };
    let binding = |role: &str| {
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "x"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role}})
    };
    let priority = |value: u32| json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "x"}, "value": value});
    let class = |kind: &str| {
        json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "x"},
            "provisioner": "example.com/p", "parameters": {"type": kind}})
    };
    let frozen = |value: &str| {
        let mut map = config_map("x", value);
        map["immutable"] = true.into();
        map
    };
    let secret =
        |kind: &str| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x"}, "type": kind});
    let kept_set = |size: &str| {
        let mut set = set("same");
        set["metadata"]["name"] = "y".into();
        set["spec"]["volumeClaimTemplates"] = json!([{"metadata": {"name": "data"}, "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}}]);
        set
    };
    let selecting = |label: &str| {
        let mut web = deployment("x", "nginx");
        web["spec"]["selector"]["matchLabels"] = json!({"app": label});
        web["spec"]["template"]["metadata"]["labels"] = json!({"app": label});
        web
    };
    let entrance = |controller: &str| {
        json!({"apiVersion": "networking.k8s.io/v1", "kind": "IngressClass", "metadata": {"name": "x"},
            "spec": {"controller": controller}})
    };
    let frozen_secret = |value: &str| {
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "y"}, "immutable": true,
            "stringData": {"a": value}})
    };
    let whole = |role: &str| {
        let mut binding = binding(role);
        binding["kind"] = "ClusterRoleBinding".into();
        binding["roleRef"]["kind"] = "ClusterRole".into();
        binding
    };
    let rows: [(Value, Value); 15] = [
        (kept_set("1Gi"), kept_set("2Gi")),
        (selecting("a"), selecting("b")),
        (entrance("example.com/a"), entrance("example.com/b")),
        (frozen_secret("value-a"), frozen_secret("value-b")),
        (whole("a"), whole("b")),
        (job("x", "busybox:1"), job("x", "busybox:2")),
        (claim("a"), claim("b")),
        (set("a"), set("b")),
        (service("10.96.0.50"), service("10.96.0.51")),
        (pod("a"), pod("b")),
        (binding("a"), binding("b")),
        (priority(1), priority(2)),
        (class("a"), class("b")),
        (frozen("a"), frozen("b")),
        (secret("example.com/a"), secret("example.com/b")),
    ];
    // Nobody has to become ready for this.
    let loose = |object: &Value, policy: Option<&str>| {
        let mut notes = json!({"werf.io/track-termination-mode": "NonBlocking"});
        if let Some(policy) = policy {
            notes["werf.io/delete-policy"] = policy.into();
        }
        annotated(object.clone(), notes)
    };
    let world = World::bare();
    world.settle_in().await;
    let old: Vec<Value> = rows.iter().map(|(old, _)| loose(old, None)).collect();
    world.deployed(&old).await;
    for (number, (_, new)) in rows.iter().enumerate() {
        let kind = new["kind"].as_str().expect("has a kind");
        let mut objects = old.clone();
        objects[number] = loose(new, None);
        // A Job asks for it by being one.
        if kind != "Job" {
            let failure = world.plan(&objects).await.expect_err(kind).to_string();
            assert!(failure.contains("cannot be changed in place"), "{kind}: {failure}");
        }
        objects[number] = loose(new, Some("before-creation-if-immutable"));
        let plan = world.plan(&objects).await.unwrap_or_else(|failure| panic!("{kind}: {failure}"));
        assert_eq!(plan.view(&Default::default()).changes[0].action, "recreate", "{kind}");
    }
}

/// Scenario 26: what belongs to nobody is not taken over, and all of it is told at once.
#[tokio::test]
async fn adoption() {
    let mut world = World::new();
    world.deployed(&[config_map("own", "1")]).await;
    for name in ["x", "y"] {
        world.create("kubectl", &config_map(name, "theirs")).await;
    }
    let objects = [config_map("own", "1"), config_map("x", "1"), config_map("y", "1")];
    let failure = world.failed(&objects).await.to_string();
    for name in ["x", "y"] {
        assert!(failure.contains(&format!("ConfigMap/{name} exists already")), "{failure}");
    }
    assert_eq!(world.statuses().await.len(), 1);
    assert_eq!(text(&world.get("ConfigMap", "x").await, "/data/key"), "theirs");
    world.options.force_adoption = true;
    let view = world.plan(&objects).await.expect("plans").view(&Default::default());
    assert_eq!(view.summary, [("update".to_owned(), 2)]);
    world.deployed(&objects).await;
    assert_eq!(text(&world.get("ConfigMap", "x").await, "/data/key"), "1");
}

/// Scenario 38: secrets are not shown, whoever talks about them.
#[tokio::test]
async fn secrets_are_hidden() {
    let world = World::new();
    let secret = |value: &str| {
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"},
            "stringData": {"password": value, "user": "admin-name"}})
    };
    let paths = json!({"werf.io/sensitive-paths": "$.spec.token"});
    let mut vessel = annotated(boat("one"), paths);
    vessel["spec"]["token"] = "tok-old-value".into();
    world.deployed(&[boats(), vessel.clone(), secret("hunter2-old")]).await;
    vessel["spec"]["token"] = "tok-new-value".into();
    let plan = world.plan(&[boats(), vessel, secret("hunter2-new")]).await.expect("plans");
    let shown = format!("{:?}", plan.view(&Default::default()));
    for hidden in ["hunter2", "aHVudGVyMi", "admin-name", "YWRtaW4tbmFtZQ", "tok-old", "tok-new"] {
        assert!(!shown.contains(hidden), "{hidden}: {shown}");
    }
    let changes = plan.view(&Default::default()).changes;
    let fields = &changes.iter().find(|change| change.kind == "Secret").expect("changes").fields;
    assert!(
        fields.len() == 1 && fields[0].contains("password") && fields[0].contains("<hidden, changed>"),
        "{fields:?}"
    );
    let open = ViewOptions { show_sensitive: true, ..ViewOptions::default() };
    let shown = format!("{:?}", plan.view(&open));
    assert!(shown.contains("tok-new-value") && shown.contains("aHVudGVyMi1uZXc"), "{shown}");
    // What a server quotes in a refusal is not repeated, and what a container says is masked.
    let mut wrong = secret("hunter2-other");
    wrong["type"] = "kubernetes.io/tls".into();
    let failure = world.plan(&[wrong]).await.expect_err("is refused").to_string();
    assert!(!failure.contains("hunter2") && failure.contains("Secret/s"), "{failure}");
    assert_eq!(world.events.redactor().redact("it says hunter2-other"), "it says ***");
    assert!(!world.said().contains("hunter2"));
}

/// Objects of many kinds, as charts have them.
fn everything() -> Vec<Value> {
    let rbac = "rbac.authorization.k8s.io/v1";
    let probe = json!({"httpGet": {"path": "/", "port": "http"}});
    let mut all = vec![boats()];
    for number in 0..4 {
        let name = format!("part{number}");
        let meta = json!({"name": name, "labels": {"helm.sh/chart": "demo-1.0.0", "app": name}});
        let template = json!({"metadata": {"labels": {"app": name}}, "spec": {
            "serviceAccountName": name, "securityContext": {"runAsNonRoot": true, "fsGroup": 1000},
            "volumes": [{"name": "v", "configMap": {"name": name}}, {"name": "e", "emptyDir": {}}],
            "containers": [{"name": "c", "image": "nginx:1", "ports": [{"name": "http", "containerPort": 80}],
                "env": [{"name": "A", "value": "1"}, {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
                "readinessProbe": probe, "livenessProbe": probe, "volumeMounts": [{"name": "v", "mountPath": "/v"}],
                "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": "0.5Gi"}}}]}});
        let selector = json!({"matchLabels": {"app": name}});
        let rule = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}]);
        let subject = json!([{"kind": "ServiceAccount", "name": name, "namespace": "t1"}]);
        for (api, kind, rest) in [
            ("v1", "ConfigMap", json!({"data": {"a": "1\n2\n"}})),
            ("v1", "Secret", json!({"stringData": {"a": "word"}})),
            ("v1", "ServiceAccount", json!({"automountServiceAccountToken": false})),
            (
                "v1",
                "Service",
                json!({"spec": {"selector": {"app": name}, "ports": [{"port": 80, "targetPort": "http"}]}}),
            ),
            (
                "v1",
                "PersistentVolumeClaim",
                json!({"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}),
            ),
            (rbac, "Role", json!({"rules": rule})),
            (
                rbac,
                "RoleBinding",
                json!({"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}, "subjects": subject}),
            ),
            (
                "apps/v1",
                "Deployment",
                json!({"spec": {"replicas": 2, "selector": selector, "template": template}}),
            ),
            ("apps/v1", "DaemonSet", json!({"spec": {"selector": selector, "template": template}})),
            (
                "batch/v1",
                "CronJob",
                json!({"spec": {"schedule": "0 0 * * *", "jobTemplate": {"spec": {"template": {"spec": {
                "restartPolicy": "Never", "containers": [{"name": "c", "image": "busybox"}]}}}}}}),
            ),
            (
                "networking.k8s.io/v1",
                "Ingress",
                json!({"spec": {"rules": [{"host": "a.example.com", "http": {"paths": [
                {"path": "/", "pathType": "Prefix", "backend": {"service": {"name": name, "port": {"number": 80}}}}]}}]}}),
            ),
            (
                "networking.k8s.io/v1",
                "NetworkPolicy",
                json!({"spec": {"podSelector": {}, "ingress": [{"from": [{"podSelector": {}}], "ports": [{"port": 80}]}]}}),
            ),
            ("policy/v1", "PodDisruptionBudget", json!({"spec": {"minAvailable": 1, "selector": selector}})),
        ] {
            let mut object = json!({"apiVersion": api, "kind": kind, "metadata": meta});
            object.as_object_mut().expect("is a map").extend(rest.as_object().expect("is a map").clone());
            all.push(object);
        }
    }
    all
}

/// A chart as platforms are made of: an ingress controller, a certificate manager, a monitoring stack.
fn harbour(world: &World) -> ReleaseRequest {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/harbour");
    world.source(std::path::Path::new(folder), Default::default())
}

/// Scenario 39: a second plan is empty for a chart of fifty objects as they are in the wild, with definitions,
/// webhooks, storage and hooks, after its controllers have seen it; asked for, hooks run again all the same.
#[tokio::test]
async fn a_second_plan_of_a_real_chart_is_empty() {
    let mut world = World::new();
    world.options.no_final_tracking = true;
    let request = harbour(&world);
    let plan = slipway_release::plan(&world.cluster, &request, &world.events).await.expect("plans");
    assert!(plan.objects.len() >= 50, "{}", plan.objects.len());
    world.run(&request).await.unwrap_or_else(|failure| panic!("{failure}"));
    let plan = slipway_release::plan(&world.cluster, &request, &world.events).await.expect("plans");
    let view = plan.view(&Default::default());
    assert!(plan.is_empty() && view.empty && view.changes.is_empty(), "{:#?}", view.changes);
    assert_eq!(world.run(&request).await.expect("has nothing to do").status, ReleaseStatus::Skipped);
    world.options.new_revision = true;
    let again = harbour(&world);
    let plan = slipway_release::plan(&world.cluster, &again, &world.events).await.expect("plans");
    let changed: Vec<String> =
        plan.view(&Default::default()).changes.into_iter().map(|change| change.kind).collect();
    assert_eq!((changed, plan.exit_code()), (vec!["Job".to_owned(), "Job".to_owned()], 2));
}

/// Scenario 39: no noise. A second plan is empty for a chart of every sort, and what only tools care for is
/// no change.
#[tokio::test]
async fn no_noise() {
    let mut world = World::bare();
    world.options.no_final_tracking = true;
    let objects = everything();
    assert!(objects.len() >= 50);
    world.deployed(&objects).await;
    let view: PlanView = world.plan(&objects).await.expect("plans").view(&Default::default());
    assert!(view.empty && view.changes.is_empty(), "{:#?}", view.changes);
    let mut noted = objects.clone();
    for object in &mut noted {
        object["metadata"]["annotations"]["werf.io/note"] = "x".into();
        object["metadata"]["annotations"]["helm.sh/note"] = "x".into();
    }
    let view = world.plan(&noted).await.expect("plans").view(&Default::default());
    assert!(view.changes.iter().all(|change| change.insignificant), "{:#?}", view.changes);
    // Somebody takes a field over without changing it: told apart from a change of content.
    let taken = slipway_cluster::ApplyOptions::new("somebody");
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "part0"}, "data": {"a": "1\n2\n"}});
    world.cluster.apply(&place("ConfigMap", "part0"), &map, &taken).await.expect("takes");
    let view = world.plan(&objects).await.expect("plans").view(&Default::default());
    assert!(view.changes.iter().all(|change| change.insignificant), "{:#?}", view.changes);
}

/// Scenario 49: what server-side apply cannot take is told by the plan, with its place; nulls are taken out,
/// and what is there twice when asked.
#[tokio::test]
async fn wrong_objects_are_found_by_the_plan() {
    let mut world = World::new();
    world.deployed(&[config_map("a", "1")]).await;
    let mut twice = deployment("web", "nginx");
    twice["spec"]["template"]["spec"]["containers"][0]["env"] =
        json!([{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]);
    twice["spec"]["template"]["spec"]["containers"][0]["ports"] =
        json!([{"containerPort": 80}, {"containerPort": 80, "protocol": "TCP"}]);
    let mut unknown = deployment("api", "nginx");
    unknown["spec"]["nonsense"] = true.into();
    let failure = world.plan(&[twice.clone(), unknown]).await.expect_err("is refused").to_string();
    assert!(failure.contains("Deployment/web") && failure.contains("Deployment/api"), "{failure}");
    assert!(failure.contains("demo/templates/all.yaml"), "{failure}");
    let mut nulls = deployment("nulls", "nginx");
    nulls["spec"]["template"]["spec"]["nodeSelector"] = Value::Null;
    nulls["spec"]["template"]["spec"]["containers"][0]["env"] = json!([null, {"name": "A", "value": null}]);
    world.options.normalise = true;
    let plan =
        world.plan(&[nulls.clone(), twice.clone()]).await.unwrap_or_else(|failure| panic!("{failure}"));
    assert!(
        plan.warnings.to_string().contains("env[A] is there twice; the last counts"),
        "{}",
        plan.warnings
    );
    world.deployed(&[nulls, twice]).await;
    let live = world.get("Deployment", "web").await;
    assert_eq!(text(&live, "/spec/template/spec/containers/0/env/0/value"), "2");
}

/// Scenario 51: secret values and files of werf and Nelm.
#[test]
fn secret_values() {
    use slipway_chart::secret::{self, EncryptionKey, decrypt_file, encrypt_file, rotate_file};
    let key = EncryptionKey::parse("00112233445566778899aabbccddeeff").expect("is a key");
    let other = EncryptionKey::parse(&EncryptionKey::generate()).expect("is a key");
    let iv: [u8; 16] = std::array::from_fn(|number| number as u8);
    for (plain, sealed) in [
        (
            "verysecurepassword123",
            "1000000102030405060708090a0b0c0d0e0f71dffee900dd428a056fdc95644278e2b14b49fd2361848b0bd6af23a5f62652",
        ),
        ("true", "1000000102030405060708090a0b0c0d0e0f02495de1c081a924a2b4b3677fed1927"),
    ] {
        assert_eq!(key.encrypt_with(plain.as_bytes(), iv).expect("encrypts"), sealed);
        assert_eq!(key.decrypt(sealed).expect("decrypts"), plain.as_bytes());
        assert!(other.decrypt(sealed).ok().is_none_or(|text| text != plain.as_bytes()));
    }
    let text = "db:\n  password: hunter2 # why\n  port: 5432\nlist:\n- a\n- b\n";
    let sealed = secret::encrypt_values(text, &key).expect("encrypts");
    assert!(!sealed.contains("hunter2") && sealed.contains("# why"), "{sealed}");
    assert!(secret::decrypt_values(&sealed, &key).expect("decrypts").contains("password: hunter2"));
    let edited = secret::encrypt_edited(&text.replace("5432", "5433"), &sealed, &key).expect("encrypts");
    let line = |text: &str, word: &str| text.lines().find(|line| line.contains(word)).map(str::to_owned);
    assert_eq!(
        line(&edited, "password"),
        line(&sealed, "password"),
        "what is unchanged keeps its ciphertext"
    );
    assert_ne!(line(&edited, "port"), line(&sealed, "port"));
    let rotated = secret::rotate_values(&sealed, &key, &other).expect("rotates");
    assert!(secret::decrypt_values(&rotated, &other).expect("decrypts").contains("hunter2"));
    let file = encrypt_file(b"a file", &key).expect("encrypts");
    let rotated = rotate_file(&file, &key, &other).expect("rotates");
    assert_eq!(decrypt_file(&rotated, &other).expect("decrypts"), b"a file");
    assert!(EncryptionKey::parse("short").is_err());
}

/// A controller that writes between the look at an object and the question about it makes no change of the plan.
#[tokio::test]
async fn a_write_in_between_is_no_change() {
    let mut world = World::bare();
    world.options.no_final_tracking = true;
    world.deployed(&[deployment("web", "nginx")]).await;
    let (sandbox, once) = (world.sandbox.clone(), std::sync::atomic::AtomicBool::new(false));
    let tap = crate::tap::Tap::on(world.sandbox.service()).answer(move |seen| {
        let asks = seen.path.ends_with("/deployments/web") && seen.query.contains("dryRun=All");
        if asks && !once.swap(true, std::sync::atomic::Ordering::SeqCst) {
            // With a runtime of its own: this one is busy asking.
            let write = async {
                let (at, options) =
                    (place("Deployment", "web"), WriteOptions::for_manager("kube-controller-manager"));
                let body = ObjectPatch::Merge(json!({"status": {"observedGeneration": 1}}));
                let other = slipway_cluster::Cluster::new(sandbox.client());
                other.patch(&at, &body, &options, Some("status")).await.expect("writes");
            };
            std::thread::scope(|scope| {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                let runtime = runtime.expect("a runtime");
                scope.spawn(move || runtime.block_on(write)).join().expect("writes");
            });
        }
        None
    });
    let world = World { cluster: slipway_cluster::Cluster::new(tap.client()), ..world };
    let plan = world.plan(&[deployment("web", "nginx")]).await.expect("plans");
    assert!(plan.is_empty(), "{:#?}", plan.view(&Default::default()).changes);
    let asked = tap.seen().iter().filter(|seen| seen.query.contains("dryRun=All")).count();
    assert_eq!(asked, 2, "it is asked about once more");
}
