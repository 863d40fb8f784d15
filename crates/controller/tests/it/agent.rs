//! Agents: steps of a shard, carried out from another cluster with credentials of its own.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use slipway_cluster::{Cluster, ErrorClass, ObjectPatch, WriteOptions};
use slipway_controller::{AgentOptions, ControllerMode, ListenAddresses, run_agent};
use slipway_event::{Clock as _, ManualClock, Redactor, SystemClock};
use slipway_promotion::PromotionSettings;
use slipway_promotion::agents::{AGENT_OFFLINE, AgentMonitor};
use slipway_promotion::kinds::{BundlePhase, BundleSpec, KindSpec as _, StepState, find_condition};
use slipway_sandbox::{Sandbox, User};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::forge::{TOKEN, WEBHOOK_SECRET};
use crate::world::{SYSTEM, World, local, until};

const AGENT: &str = "system:serviceaccount:kardinal-system:kardinal-agent-eu";

/// The rights the chart gives an agent.
fn agent_role() -> Vec<serde_json::Value> {
    let rule = |groups: &[&str], resources: &[&str], verbs: &[&str]| json!({"apiGroups": groups, "resources": resources, "verbs": verbs});
    vec![
        rule(&["kardinal.io"], &["promotionsteps"], &["get", "list", "watch", "patch"]),
        rule(
            &["kardinal.io"],
            &["promotionsteps/status", "promotionsteps/finalizers"],
            &["get", "patch", "update"],
        ),
        rule(&["kardinal.io"], &["prstatuses"], &["get", "create", "patch"]),
        rule(&["kardinal.io"], &["bundles", "pipelines", "policygates"], &["get", "list", "watch"]),
        rule(&["coordination.k8s.io"], &["leases"], &["get", "create", "update", "patch"]),
        rule(&["", "events.k8s.io"], &["events"], &["create", "patch"]),
    ]
}

fn start_agent(
    world: &World,
    control: Cluster,
    workloads: &Sandbox,
    life: u32,
) -> (CancellationToken, JoinHandle<()>) {
    let stop = CancellationToken::new();
    let mut promotion = PromotionSettings::default();
    promotion.steps.scm.settle_pause = Duration::from_millis(1);
    promotion.steps.outbound.addresses.allowed_hosts.insert("127.0.0.1".to_owned());
    let election = slipway_cluster::election::ElectionTimes {
        retry: Duration::from_millis(50),
        ..slipway_cluster::election::ElectionTimes::default()
    };
    let options = AgentOptions {
        shard: "eu".to_owned(),
        identity: format!("agent-{life}"),
        control_plane: control,
        control_namespace: SYSTEM.to_owned(),
        workloads: Cluster::new(workloads.client()),
        election,
        listen: ListenAddresses { api: None, metrics: local(), probes: local() },
        cache_directory: world.caches.path().join(format!("agent-{life}")),
        cache: Default::default(),
        promotion,
        clock: Arc::new(SystemClock),
        redactor: Redactor::new(),
        stop: stop.clone(),
    };
    let task = tokio::spawn(async move { run_agent(options, |_| {}).await.expect("the agent runs") });
    (stop, task)
}

/// F11: an agent with its own credentials carries out its steps; cut off and returned it goes on.
#[tokio::test(flavor = "multi_thread")]
async fn an_agent_carries_out_its_shard_and_may_not_write_bundles() {
    let sandbox =
        Sandbox::builder().without_workloads().seed(1).rbac(true).build().expect("the sandbox starts");
    let world = World::with_sandbox(&["dev", "prod"], sandbox).await;
    let remote = Sandbox::builder().without_workloads().seed(2).build().expect("the sandbox starts");
    world
        .create(json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "agent"}, "rules": agent_role()}))
        .await;
    world
        .create(json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "agent"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "agent"},
            "subjects": [{"kind": "User", "name": AGENT, "apiGroup": "rbac.authorization.k8s.io"}]}))
        .await;
    // The credentials of the repository are in the agent's cluster alone; the controller's own do not work there.
    let secret = |token: &str| {
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "forge", "namespace": "default"},
        "stringData": {"token": token, "webhookSecret": WEBHOOK_SECRET}})
    };
    let far = Cluster::new(remote.client());
    let at = slipway_manifest::ObjectRef::of(&secret(TOKEN));
    far.create(&at, &secret(TOKEN), &WriteOptions::default()).await.expect("is created");
    world.pipeline("app", json!([{"name": "dev"}, {"name": "prod", "shard": "eu"}])).await;
    let process = world.start_with("control", |options| options.mode = ControllerMode::Distributed).await;
    world.bundle("app-1", "1.29.0").await;
    until("the step of prod exists", async || world.step("app-1", "prod").await.is_some()).await;
    let offline = async || {
        let step = world.step("app-1", "prod").await;
        step.is_some_and(|step| find_condition(&step.status.conditions, AGENT_OFFLINE).is_some())
    };
    until("the agent is missed", offline).await;
    assert_eq!(world.step("app-1", "prod").await.map(|step| step.state()), Some(StepState::Pending));

    let user = User::new(AGENT, &["system:authenticated", "system:serviceaccounts"]);
    let control = Cluster::new(kube::Client::new(world.sandbox.service_as(user), "default"));
    let touch = ObjectPatch::Merge(json!({"metadata": {"annotations": {"a": "b"}}}));
    let refused =
        control.patch(&BundleSpec::at("default", "app-1"), &touch, &WriteOptions::default(), None).await;
    assert_eq!(refused.map_err(|error| error.class).err(), Some(ErrorClass::Forbidden));
    let (stop, agent) = start_agent(&world, control.clone(), &remote, 1);
    until("the bundle is verified", async || world.is_in("app-1", BundlePhase::Verified).await).await;
    let monitor = AgentMonitor::new(world.cluster.clone(), Arc::new(SystemClock), SYSTEM.to_owned());
    monitor.look().await.expect("looks");
    assert!(!offline().await, "the agent is back");

    // Cut off: nobody else takes its work, and a minute later it is missed.
    stop.cancel();
    agent.await.expect("ends");
    world.bundle("app-2", "1.30.0").await;
    until("the step of prod exists", async || world.step("app-2", "prod").await.is_some()).await;
    let later = Arc::new(ManualClock::at(SystemClock.now() + Duration::from_secs(120)));
    let monitor = AgentMonitor::new(world.cluster.clone(), later, SYSTEM.to_owned());
    // The monitor of the process, whose minute has not passed, may look in between.
    until("the agent is missed again", async || {
        monitor.look().await.expect("looks");
        let step = world.step("app-2", "prod").await.expect("exists");
        find_condition(&step.status.conditions, AGENT_OFFLINE).is_some()
    })
    .await;
    let (stop, agent) = start_agent(&world, control, &remote, 2);
    until("the bundle is verified", async || world.is_in("app-2", BundlePhase::Verified).await).await;
    assert_eq!(world.forge.promotion_commits(), 4, "one commit a bundle and environment");
    stop.cancel();
    agent.await.expect("ends");
    process.end().await.expect("ends well");
}

#[tokio::test]
async fn an_agent_without_a_shard_does_not_start() {
    let world = World::new(&["dev"]).await;
    let remote = Sandbox::builder().without_workloads().seed(2).build().expect("the sandbox starts");
    let options = AgentOptions {
        shard: String::new(),
        identity: "agent".to_owned(),
        control_plane: world.cluster.clone(),
        control_namespace: SYSTEM.to_owned(),
        workloads: Cluster::new(remote.client()),
        election: Default::default(),
        listen: ListenAddresses::default(),
        cache_directory: world.caches.path().join("agent"),
        cache: Default::default(),
        promotion: PromotionSettings::default(),
        clock: Arc::new(SystemClock),
        redactor: Redactor::new(),
        stop: CancellationToken::new(),
    };
    let ended = run_agent(options, |_| {}).await;
    assert!(matches!(ended, Err(slipway_controller::ControllerError::NoShard)));
}
