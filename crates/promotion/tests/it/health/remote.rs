//! Environments in other clusters, and clusters that do not answer.

use data_encoding::BASE64;
use serde_json::{Value, json};
use slipway_cluster::Cluster;
use slipway_promotion::health::HealthCheck;
use slipway_promotion::kinds::{HealthLevel, HealthType};
use slipway_sandbox::{Fault, FaultRule, Sandbox};

use super::support::{Scene, Tools, apply, deployment, local_servers, rolled_out};

pub(crate) fn kubeconfig_secret(namespace: &str, key: &str, text: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "workload", "namespace": namespace},
        "data": {key: BASE64.encode(text.as_bytes())},
    })
}

/// A cluster on the network with the Deployment in it.
pub(crate) struct Remote {
    pub(crate) sandbox: Sandbox,
    address: std::net::SocketAddr,
    serving: tokio::task::JoinHandle<()>,
}

impl Remote {
    pub(crate) async fn start() -> Remote {
        let sandbox = Sandbox::builder().without_workloads().seed(2).build().expect("the sandbox starts");
        let cluster = Cluster::new(sandbox.client());
        apply(&cluster, json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "prod"}})).await;
        apply(&cluster, deployment("1.29.0", rolled_out(1))).await;
        let any = "127.0.0.1:0".parse().expect("is an address");
        let (address, serving) = sandbox.listen(any, std::future::pending()).await.expect("listens");
        let serving = tokio::spawn(async move {
            let _ = serving.await;
        });
        Remote { sandbox, address, serving }
    }

    pub(crate) fn kubeconfig(&self) -> String {
        self.sandbox.kubeconfig(self.address)
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn scene() -> Scene {
    let mut scene = Scene::new(Tools::None).await.with_adapter(HealthType::Resource);
    scene.health().cluster = Some("workload".into());
    scene
}

#[tokio::test]
async fn a_remote_cluster_is_reached_by_the_kubeconfig_of_a_secret() {
    let mut scene = scene().await;
    scene.expect(HealthLevel::Unknown, "CredentialsMissing").await;
    let (first, second) = (Remote::start().await, Remote::start().await);
    scene.set(kubeconfig_secret("apps", "config", &first.kubeconfig())).await;
    scene.expect(HealthLevel::Healthy, "Healthy").await;
    // The Secret names another cluster now, where the version is still an old one.
    let cluster = Cluster::new(second.sandbox.client());
    apply(&cluster, deployment("1.28.0", rolled_out(2))).await;
    let mut rotated = kubeconfig_secret("apps", "kubeconfig", &second.kubeconfig());
    rotated["data"]["config"] = Value::Null;
    scene.set(rotated).await;
    scene.expect(HealthLevel::Progressing, "StaleImage").await;
}

#[tokio::test]
async fn a_kubeconfig_that_runs_programs_or_reads_files_is_rejected() {
    let remote = Remote::start().await;
    let good = remote.kubeconfig();
    let at = good.find("token:").expect("logs in with a token");
    let end = good[at..].find('\n').map_or(good.len(), |end| at + end);
    let with = |login: &str| format!("{}{login}{}", &good[..at], &good[end..]);
    let mut scene = scene().await;
    for login in [
        "exec: {apiVersion: client.authentication.k8s.io/v1, command: sh, args: [-c, 'touch /tmp/owned']}",
        "auth-provider: {name: oidc}",
        "tokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token",
    ] {
        scene.set(kubeconfig_secret("apps", "kubeconfig", &with(login))).await;
        scene.expect(HealthLevel::Unknown, "KubeconfigRejected").await;
    }
    scene.set(kubeconfig_secret("apps", "kubeconfig", "no: {yaml")).await;
    scene.expect(HealthLevel::Unknown, "KubeconfigRejected").await;
    scene.set(kubeconfig_secret("apps", "kubeconfig", &good)).await;
    scene.expect(HealthLevel::Healthy, "Healthy").await;
}

#[tokio::test]
async fn a_secret_of_the_controller_is_used_only_where_it_is_shared() {
    let remote = Remote::start().await;
    let mut scene = scene().await;
    let check = HealthCheck::new(scene.cluster.clone(), scene.clock.clone(), slipway_event::Redactor::new());
    scene.check = check.with_outbound(local_servers()).with_shared_namespace("argocd");
    let mut secret = kubeconfig_secret("argocd", "kubeconfig", &remote.kubeconfig());
    scene.set(secret.clone()).await;
    scene.expect(HealthLevel::Unknown, "CredentialsMissing").await;
    secret["metadata"]["annotations"] = json!({"kardinal.io/allow-namespaces": "shop, apps"});
    scene.set(secret).await;
    scene.expect(HealthLevel::Healthy, "Healthy").await;
}

#[tokio::test]
async fn a_cluster_that_does_not_answer_says_nothing_about_health() {
    let remote = Remote::start().await;
    let mut scene = scene().await;
    scene.set(kubeconfig_secret("apps", "kubeconfig", &remote.kubeconfig())).await;
    scene.expect(HealthLevel::Healthy, "Healthy").await;
    remote.sandbox.faults().add(FaultRule::new(Fault::ServerError(503)).resource("deployments"));
    let report = scene.look().await;
    assert_eq!(
        (report.level(), report.observation.reason.as_str()),
        (HealthLevel::Unknown, "ClusterUnavailable")
    );
    assert!(report.observation.healthy_since.is_some(), "what was known stays known");
    let since = report.observation.unknown_since;
    scene.later(60);
    assert_eq!(scene.look().await.observation.unknown_since, since);
    remote.sandbox.faults().clear();
    let report = scene.look().await;
    assert!(report.is_healthy());
    assert_eq!(report.observation.unknown_since, None);
}

/// Whoever may write a Secret must not have the controller ask its own machine or cloud.
#[tokio::test]
async fn a_kubeconfig_that_names_the_machine_or_its_cloud_is_not_used() {
    let remote = Remote::start().await;
    let good = remote.kubeconfig();
    let mut scene = scene().await;
    scene.check =
        HealthCheck::new(scene.cluster.clone(), scene.clock.clone(), slipway_event::Redactor::new());
    let host = remote.address.to_string();
    for server in
        [&host, "169.254.169.254", "[fd00:ec2::254]:443", "[::ffff:127.0.0.1]:6443", "localhost:6443"]
    {
        let text = good.replace(&host, server);
        scene.set(kubeconfig_secret("apps", "kubeconfig", &text)).await;
        scene.expect(HealthLevel::Unknown, "ForbiddenAddress").await;
    }
    let proxied = good.replace("  cluster:\n", "  cluster:\n    proxy-url: http://169.254.169.254\n");
    assert_ne!(proxied, good);
    scene.set(kubeconfig_secret("apps", "kubeconfig", &proxied)).await;
    scene.expect(HealthLevel::Unknown, "KubeconfigRejected").await;
}
