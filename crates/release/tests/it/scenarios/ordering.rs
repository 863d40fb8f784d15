//! Hooks, weights, dependencies, definitions: what comes before what.

use std::time::Duration;

use serde_json::{Value, json};
use slipway_cluster::helm::RevisionStatus;
use slipway_cluster::track::{TrackOptions, Tracker};
use slipway_cluster::{ObjectPatch, WriteOptions};
use slipway_event::Events;
use slipway_release::ReleasePlan;
use slipway_release::ReleaseStatus;
use slipway_release::plan::ReleaseContent;

use crate::world::{World, annotated, boat, boats, config_map, deployment, fated, job, place, text};

/// Whether an operation comes after another, directly or not.
fn comes_after(plan: &ReleasePlan, later: &str, earlier: &str) -> bool {
    let mut pending = vec![plan.graph.node(later).unwrap_or_else(|| panic!("no {later}"))];
    let mut seen = std::collections::BTreeSet::new();
    while let Some(node) = pending.pop() {
        if node.id().as_str() == earlier {
            return true;
        }
        pending.extend(node.needs().filter(|need| seen.insert(need.position())));
    }
    false
}

/// Scenario 14: hooks run again with every deploy, after what they need.
#[tokio::test]
async fn hooks_run_every_time() {
    let (world, tap) = World::new().tapped();
    let note = json!({"helm.sh/hook": "pre-install,pre-upgrade"});
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "runner"}});
    let mut task = job("migrate", "busybox");
    task["spec"]["template"]["spec"]["serviceAccountName"] = "runner".into();
    let hooks = [annotated(account, note.clone()), annotated(task, note)];
    world.deployed(&[config_map("a", "1"), hooks[0].clone(), hooks[1].clone()]).await;
    assert!(tap.position("/serviceaccounts/runner") < tap.position("/jobs/migrate"));
    assert!(tap.position("/jobs/migrate") < tap.position("/configmaps/a"));
    let before = world.get("Job", "migrate").await;
    world.deployed(&[config_map("a", "2"), hooks[0].clone(), hooks[1].clone()]).await;
    let after = world.get("Job", "migrate").await;
    assert_ne!(text(&before, "/metadata/uid"), text(&after, "/metadata/uid"));
    let history = world.history().await;
    let phases: Vec<&str> =
        history.releases[1].hooks.iter().map(|hook| hook.last_run.phase.as_str()).collect();
    assert_eq!(phases, ["Succeeded", "Succeeded"]);
}

/// Scenario 15: what succeeded is cleaned up after its stage, not before.
#[tokio::test]
async fn hooks_are_cleaned_up() {
    let (world, tap) = World::new().tapped();
    let note = json!({"helm.sh/hook": "post-install", "helm.sh/hook-delete-policy": "hook-succeeded"});
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "runner"}});
    let mut task = job("task", "busybox");
    task["spec"]["template"]["spec"]["serviceAccountName"] = "runner".into();
    world.deployed(&[config_map("a", "1"), annotated(account, note.clone()), annotated(task, note)]).await;
    assert!(world.get("Job", "task").await.is_none());
    assert!(world.get("ServiceAccount", "runner").await.is_none());
    let deletes: Vec<usize> = tap
        .seen()
        .iter()
        .enumerate()
        .filter(|(_, seen)| seen.method == http::Method::DELETE)
        .map(|(number, _)| number)
        .collect();
    let last = tap.seen().iter().rposition(|seen| {
        seen.path.ends_with("/jobs/task") && seen.is_write() && seen.method == http::Method::PATCH
    });
    assert!(deletes.len() == 2 && deletes.iter().all(|delete| Some(*delete) > last), "{deletes:?} {last:?}");
}

/// Scenario 16: a hook that fails fails the release, and goes if it asked for that.
#[tokio::test]
async fn failed_hooks() {
    for (policy, stays) in [("hook-failed", false), ("before-hook-creation", true)] {
        let world = World::new();
        let note = json!({"helm.sh/hook": "pre-install", "helm.sh/hook-delete-policy": policy});
        let bad = annotated(fated(job("bad", "busybox"), json!({"sim/fail": "imagepull"})), note);
        let failure = world.failed(&[config_map("a", "1"), bad]).await;
        assert!(failure.to_string().contains("Job/bad"), "{failure}");
        assert_eq!(world.statuses().await, [(1, RevisionStatus::Failed)]);
        assert_eq!(world.get("Job", "bad").await.is_some(), stays, "{policy}");
        assert!(world.get("ConfigMap", "a").await.is_none());
        assert_eq!(world.history().await.releases[0].hooks[0].last_run.phase, "Failed");
    }
}

/// Scenario 17: weights are strict; what has one weight goes together.
#[tokio::test]
async fn weights() {
    let (world, tap) = World::new().tapped();
    let weighed =
        |name: &str, weight: &str| annotated(config_map(name, "1"), json!({"werf.io/weight": weight}));
    let objects = [weighed("c", "10"), weighed("a", "-5"), weighed("b", "0"), weighed("b2", "0")];
    let plan = world.plan(&objects).await.expect("plans");
    assert!(!comes_after(&plan, "create: ConfigMap/b", "create: ConfigMap/b2"));
    assert!(!comes_after(&plan, "create: ConfigMap/b2", "create: ConfigMap/b"));
    world.deployed(&objects).await;
    let order = ["a", "b", "c"].map(|name| tap.position(&format!("/configmaps/{name}")));
    assert!(order.is_sorted(), "{order:?}");
    assert!(tap.position("/configmaps/a") < tap.position("/configmaps/b2"));
    assert!(tap.position("/configmaps/b2") < tap.position("/configmaps/c"));
}

/// Scenario 18: what is to be ready is ready before; a selector that fits two waits for both.
#[tokio::test]
async fn ready_dependencies() {
    let (world, tap) = World::new().tapped();
    let ready = json!({"werf.io/deploy-dependency-back": "state=ready,kind=Deployment"});
    let objects = [
        annotated(config_map("front", "1"), ready),
        deployment("back", "nginx"),
        deployment("other", "nginx"),
    ];
    let plan = world.plan(&objects).await.expect("plans");
    for name in ["back", "other"] {
        assert!(comes_after(
            &plan,
            "create: ConfigMap/front",
            &format!("track readiness: Deployment/{name}")
        ));
    }
    world.deployed(&objects).await;
    let front = tap.position("/configmaps/front");
    assert!(front > tap.position("/deployments/back") && front > tap.position("/deployments/other"));
    let created = |object: &Option<Value>| text(object, "/metadata/creationTimestamp").to_owned();
    let back = world.get("Deployment", "back").await;
    assert!(created(&back) <= created(&world.get("ConfigMap", "front").await));
    assert_eq!(back.expect("is there")["status"]["availableReplicas"], 1);
}

/// Scenario 19: what an object refers to is there before it; optional references do not count.
#[tokio::test]
async fn references_come_first() {
    let (world, tap) = World::new().tapped();
    let names = ["env", "all", "mounted", "projected", "optional"];
    let mut objects: Vec<Value> = names.iter().map(|name| config_map(&format!("zz-{name}"), "1")).collect();
    let rbac = "rbac.authorization.k8s.io";
    objects.push(json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "zz"}}));
    objects.push(
        json!({"apiVersion": format!("{rbac}/v1"), "kind": "Role", "metadata": {"name": "zz"}, "rules": []}),
    );
    objects.push(
        json!({"apiVersion": format!("{rbac}/v1"), "kind": "RoleBinding", "metadata": {"name": "zz"},
        "roleRef": {"apiGroup": rbac, "kind": "Role", "name": "zz"},
        "subjects": [{"kind": "ServiceAccount", "name": "zz", "namespace": "t1"}]}),
    );
    objects.push(
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "zz"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}),
    );
    let mut web = deployment("web", "nginx");
    let spec = &mut web["spec"]["template"]["spec"];
    spec["serviceAccountName"] = "zz".into();
    spec["containers"][0]["env"] = json!([
        {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "zz-env", "key": "key"}}},
        {"name": "B", "valueFrom": {"configMapKeyRef": {"name": "zz-optional", "key": "key", "optional": true}}}]);
    spec["containers"][0]["envFrom"] = json!([{"configMapRef": {"name": "zz-all"}}]);
    spec["volumes"] = json!([
        {"name": "m", "configMap": {"name": "zz-mounted"}},
        {"name": "p", "projected": {"sources": [{"configMap": {"name": "zz-projected"}}]}},
        {"name": "c", "persistentVolumeClaim": {"claimName": "zz"}}]);
    objects.insert(0, web);
    let plan = world.plan(&objects).await.expect("plans");
    let of_web: Vec<&str> = plan
        .references
        .iter()
        .filter(|reference| reference.dependent == "Deployment/web")
        .map(|reference| reference.dependency.as_str())
        .collect();
    assert!(!of_web.contains(&"ConfigMap/zz-optional"), "{of_web:?}");
    world.deployed(&objects).await;
    let web = tap.position("/deployments/web");
    for path in [
        "/configmaps/zz-env",
        "/configmaps/zz-all",
        "/configmaps/zz-mounted",
        "/configmaps/zz-projected",
        "/serviceaccounts/zz",
        "/rolebindings/zz",
        "/roles/zz",
        "/persistentvolumeclaims/zz",
    ] {
        assert!(tap.position(path) < web, "{path}: {:#?}", tap.written());
    }
}

/// Scenario 20: weights that contradict references win; contradictions by hand are named.
#[tokio::test]
async fn contradictions() {
    let mut world = World::new();
    world.apply.readiness_timeout = Some(Duration::from_secs(60));
    let mut web = deployment("web", "nginx");
    web["spec"]["template"]["spec"]["containers"][0]["envFrom"] =
        json!([{"configMapRef": {"name": "late", "optional": false}}]);
    let web = annotated(web, json!({"werf.io/track-termination-mode": "NonBlocking"}));
    let late = annotated(config_map("late", "1"), json!({"werf.io/weight": "10"}));
    let plan = world.plan(&[web.clone(), late.clone()]).await.expect("plans");
    assert!(plan.warnings.to_string().contains("does not wait for"), "{}", plan.warnings);
    let (world, tap) = world.tapped();
    assert_eq!(world.deployed(&[web, late]).await.status, ReleaseStatus::Deployed);
    assert!(tap.position("/deployments/web") < tap.position("/configmaps/late"), "the weight counts");
    assert!(world.said().contains("does not wait for"), "a run tells it too");
    let needs = |name: &str, other: &str| {
        let note =
            json!({"werf.io/deploy-dependency-x": format!("state=present,kind=ConfigMap,name={other}")});
        annotated(config_map(name, "1"), note)
    };
    let failure = world.plan(&[needs("a", "b"), needs("b", "c"), needs("c", "a")]).await;
    let failure = failure.expect_err("is a circle").to_string();
    assert!(failure.contains("cycle") && failure.contains("demo/templates/all.yaml"), "{failure}");
    for name in ["a", "b", "c"] {
        assert!(failure.contains(&format!("create: ConfigMap/{name}")), "{failure}");
    }
}

/// Scenario 21: something outside is waited for, and not for ever.
#[tokio::test(start_paused = true)]
async fn external_dependencies() {
    let mut world = World::bare();
    world.settle_in().await;
    let wait = json!({"token.external-dependency.werf.io/resource": "secrets/token",
        "other.external-dependency.werf.io": "v1:Secret:t1:other"});
    let objects = [annotated(config_map("a", "1"), wait.clone()), annotated(config_map("b", "1"), wait)];
    for _ in 0..20 {
        world.plan(&objects).await.expect("always plans");
    }
    world.apply.presence_timeout = Some(Duration::from_secs(3));
    let failure = world.failed(&objects).await.to_string();
    assert!(failure.contains("token") && failure.contains("3 s"), "{failure}");
    assert_eq!(world.statuses().await, [(1, RevisionStatus::Failed)]);
    world.apply.presence_timeout = None;
    let secret = |name: &str| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}});
    let (started, later) = (tokio::time::Instant::now(), async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        world.create("kubectl", &secret("token")).await;
        world.create("kubectl", &secret("other")).await;
    });
    let (report, ()) = tokio::join!(world.deployed(&objects), later);
    assert_eq!(report.status, ReleaseStatus::Deployed);
    assert!(started.elapsed() >= Duration::from_secs(5), "{:?}", started.elapsed());
}

/// Scenario 22: a definition and an object of it in one release; `crds/` is kept up to date.
#[tokio::test]
async fn definitions_first() {
    let (mut world, tap) = World::new().tapped();
    world.aside = vec![boats()];
    let started = std::time::Instant::now();
    world.plan(&[boat("one")]).await.expect("plans");
    assert!(started.elapsed() < Duration::from_secs(5), "nobody waits for the kind while planning");
    world.deployed(&[boat("one")]).await;
    assert!(tap.position("/customresourcedefinitions/boats.example.com") < tap.position("/boats/one"));
    assert!(world.get("Boat", "one").await.is_some());
    assert_eq!(world.deployed(&[boat("one")]).await.status, ReleaseStatus::Skipped);
    world.aside[0]["spec"]["names"]["shortNames"] = json!(["bt"]);
    assert_eq!(world.deployed(&[boat("one")]).await.status, ReleaseStatus::Deployed);
    let live = world.get("CustomResourceDefinition", "boats.example.com").await;
    assert_eq!(text(&live, "/spec/names/shortNames/0"), "bt");
}

/// Scenario 52: sixty that wait do not keep out the one they wait for.
#[tokio::test]
async fn waiting_takes_no_place() {
    let mut world = World::new();
    world.apply.parallelism = 2;
    world.settle_in().await;
    let mut definition = boats();
    definition["metadata"]["annotations"] = json!({"werf.io/ownership": "anyone"});
    world
        .cluster
        .apply(
            &place("CustomResourceDefinition", "boats.example.com"),
            &definition,
            &slipway_cluster::ApplyOptions::new("kubectl"),
        )
        .await
        .expect("defines");
    slipway_cluster::crd::wait_until_served(&world.cluster, &definition, Duration::from_secs(30))
        .await
        .expect("is served");
    let names: Vec<String> = (0..60).map(|number| format!("boat{number:02}")).collect();
    let rule = json!({"slipway.dev/ready-when": "{.status.phase}==Afloat"});
    let mut objects: Vec<Value> = names.iter().map(|name| annotated(boat(name), rule.clone())).collect();
    objects.push(config_map("zz-tide", "1"));
    // What nobody can see from the manifests: boats float once the tide is there.
    let tide = async {
        let tracker = Tracker::new(world.cluster.clone(), Events::silent(), TrackOptions::default());
        tracker
            .wait_present(&place("ConfigMap", "zz-tide"), Duration::from_secs(120))
            .await
            .expect("it comes");
        for name in &names {
            tracker.wait_present(&place("Boat", name), Duration::from_secs(120)).await.expect("it comes");
            let patch = ObjectPatch::Merge(json!({"status": {"phase": "Afloat"}}));
            let options = WriteOptions::for_manager("sea");
            world
                .cluster
                .patch(&place("Boat", name), &patch, &options, Some("status"))
                .await
                .expect("writes");
        }
    };
    let (report, ()) = tokio::join!(world.deployed(&objects), tide);
    assert_eq!(report.completed_operations.len(), 61);
}

/// A configuration of webhooks served by the controller of the release.
fn webhooks(kind: &str, name: &str) -> Value {
    json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": name},
        "webhooks": [{"name": "check.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None",
            "failurePolicy": "Fail", "matchPolicy": "Equivalent",
            "clientConfig": {"service": {"namespace": "t1", "name": "admission", "path": "/validate"}},
            "rules": [{"apiGroups": ["example.com"], "apiVersions": ["v1"], "operations": ["CREATE"],
                "resources": ["boats"]}]}]})
}

/// A release as controllers with admission webhooks have it: a Job before makes the certificate, a Job after
/// writes it into the configurations.
fn admission(kinds: &[&str], image: &str) -> Vec<Value> {
    let hook = |name: &str, events: &str| {
        let note = json!({"helm.sh/hook": events,
            "helm.sh/hook-delete-policy": "before-hook-creation,hook-succeeded"});
        annotated(job(name, "certgen"), note)
    };
    let mut objects: Vec<Value> = kinds.iter().map(|kind| webhooks(kind, "admission")).collect();
    objects.extend([
        hook("admission-create", "pre-install,pre-upgrade,pre-rollback"),
        hook("admission-patch", "post-install,post-upgrade,post-rollback"),
        hook("admission-farewell", "pre-delete"),
        deployment("controller", image),
        annotated(config_map("late", "1"), json!({"werf.io/weight": "10"})),
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "admission"}, "spec": {
            "selector": {"app": "controller"}, "ports": [{"port": 443}]}}),
    ]);
    objects
}

/// The writes since `from` that are about these ends of paths, in order.
fn order_of<'e>(tap: &crate::tap::Tap, from: usize, ends: &[&'e str]) -> Vec<&'e str> {
    let paths = tap.written().into_iter().skip(from);
    let mut found: Vec<&str> = Vec::new();
    for path in paths {
        if let Some(end) = ends.iter().find(|end| path.ends_with(**end)).filter(|end| !found.contains(end)) {
            found.push(end);
        }
    }
    found
}

#[tokio::test]
async fn webhook_configurations_come_last_in_install_and_before_post_hooks() {
    const VALIDATING: &str = "/validatingwebhookconfigurations/admission";
    const MUTATING: &str = "/mutatingwebhookconfigurations/admission";
    for (kinds, configurations) in [
        (&["ValidatingWebhookConfiguration"][..], &[VALIDATING][..]),
        (&["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"], &[MUTATING, VALIDATING]),
    ] {
        let (world, tap) = World::new().tapped();
        let objects = admission(kinds, "nginx");
        let plan = world.plan(&objects).await.expect("plans");
        for kind in kinds {
            let deploy = format!("create: {kind}/admission");
            for earlier in [
                "track readiness: Deployment/controller",
                "create: ConfigMap/late",
                "create: Service/admission",
            ] {
                assert!(comes_after(&plan, &deploy, earlier), "{deploy} after {earlier}");
            }
            assert!(comes_after(&plan, "create: Job/admission-patch", &deploy), "{kind}");
        }
        assert!(plan.warnings.is_empty(), "{}", plan.warnings);
        // Whether installed, upgraded or rolled back: certificate, controller, configuration, patch.
        let steps = |configuration| {
            ["/jobs/admission-create", "/deployments/controller", configuration, "/jobs/admission-patch"]
        };
        for number in 0..3 {
            let from = tap.written().len();
            let report = match number {
                0 => world.deployed(&objects).await,
                1 => {
                    let mut changed = admission(kinds, "nginx:2");
                    for object in changed.iter_mut().take(kinds.len()) {
                        object["webhooks"][0]["failurePolicy"] = "Ignore".into();
                    }
                    world.deployed(&changed).await
                }
                _ => world.run(&world.with(ReleaseContent::Revision(Some(1)))).await.expect("goes back"),
            };
            assert_eq!(report.status, ReleaseStatus::Deployed);
            for configuration in configurations {
                let steps = steps(configuration);
                assert_eq!(order_of(&tap, from, &steps), steps, "run {number}");
            }
        }
        // Deleting is the mirror: the hooks before, the configurations, then what serves them.
        let from = tap.written().len();
        world.delete().await;
        for configuration in configurations {
            let steps = ["/jobs/admission-farewell", configuration, "/deployments/controller"];
            assert_eq!(order_of(&tap, from, &steps), steps);
        }
    }
}

#[tokio::test]
async fn webhook_configurations_keep_the_place_annotations_give_them() {
    let world = World::new();
    let kind = "ValidatingWebhookConfiguration";
    let deploy = format!("create: {kind}/early");
    let late = annotated(config_map("late", "1"), json!({"werf.io/weight": "10"}));
    // A weight of its own counts.
    let early = annotated(webhooks(kind, "early"), json!({"werf.io/weight": "5"}));
    let plan = world.plan(&[early, late.clone()]).await.expect("plans");
    assert!(comes_after(&plan, "create: ConfigMap/late", &deploy));
    // What waits for it comes after it, and the rest before.
    let need = |on: &str| json!({"werf.io/deploy-dependency-x": format!("state=present,{on}")});
    let waiting = [
        webhooks(kind, "early"),
        late,
        annotated(config_map("checked", "1"), need(&format!("kind={kind},name=early"))),
        annotated(config_map("after", "1"), need("kind=ConfigMap,name=checked")),
    ];
    let plan = world.plan(&waiting).await.expect("is no circle");
    assert!(plan.warnings.is_empty(), "{}", plan.warnings);
    assert!(comes_after(&plan, &deploy, "create: ConfigMap/late"));
    assert!(comes_after(&plan, "create: ConfigMap/after", "create: ConfigMap/checked"));
    assert!(comes_after(&plan, "create: ConfigMap/checked", &deploy));
}

#[tokio::test]
async fn webhook_configurations_go_before_what_serves_them_when_pruned_first() {
    let (mut world, tap) = World::new().tapped();
    world.deployed(&admission(&["ValidatingWebhookConfiguration"], "nginx")).await;
    world.options.prune_order = slipway_release::plan::PruneOrder::Before;
    let from = tap.written().len();
    world.deployed(&[config_map("other", "1")]).await;
    let steps =
        ["/validatingwebhookconfigurations/admission", "/deployments/controller", "/configmaps/other"];
    assert_eq!(order_of(&tap, from, &steps), steps);
}
