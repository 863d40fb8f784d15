//! Whatever is wrong with a source is told at once, with its place, before anything is written.

use std::fs;
use std::path::Path;

use serde_json::json;
use slipway_cluster::{Cluster, ErrorClass, RetryPolicy};
use slipway_release::plan::{ReleaseContent, ReleaseRequest};
use slipway_release::{Failure, FailureCause};
use slipway_sandbox::{Sandbox, User};

use crate::tap::Tap;
use crate::world::{World, config_map};

/// A chart with one template.
fn chart(world: &World, folder: &Path, template: &str) -> ReleaseRequest {
    fs::create_dir_all(folder.join("demo/templates")).expect("a folder");
    fs::write(folder.join("demo/Chart.yaml"), "apiVersion: v2\nname: demo\nversion: 1.0.0\n")
        .expect("writes");
    fs::write(folder.join("demo/templates/all.yaml"), template).expect("writes");
    world.source(&folder.join("demo"), Default::default())
}

async fn refused(world: &World, template: &str) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let request = chart(world, folder.path(), template);
    match world.run(&request).await {
        Err(failure @ (Failure::Problems(_) | Failure::Source(_))) => failure.to_string(),
        other => panic!("{other:?}"),
    }
}

const ANNOTATION: &str = "apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}-weight
  annotations:
    werf.io/weight: heavy
    werf.io/delete-policy: sometimes
";
const TWICE: &str = "apiVersion: v1
kind: ConfigMap
metadata:
  name: twice
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: twice
  namespace: t1
";
const UNKNOWN: &str = "apiVersion: example.com/v9
kind: Ship
metadata:
  name: unknown
";
const CYCLE: &str = "apiVersion: v1
kind: ConfigMap
metadata:
  name: first
  annotations:
    werf.io/deploy-dependency-x: state=present,kind=ConfigMap,name=second
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: second
  annotations:
    werf.io/deploy-dependency-x: state=ready,kind=ConfigMap,name=first
";
const WEIGHTS: &str = "apiVersion: v1
kind: ConfigMap
metadata:
  name: early
  annotations:
    werf.io/weight: \"-5\"
    werf.io/deploy-dependency-x: state=present,kind=ConfigMap,name=late
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: late
  annotations:
    werf.io/weight: \"10\"
    werf.io/deploy-dependency-x: state=present,kind=ConfigMap,name=early
";
const NAMESPACE: &str = "apiVersion: v1
kind: ConfigMap
metadata:
  name: far
  namespace: nowhere
";
const OWN_NAMESPACE: &str = "apiVersion: v1
kind: Namespace
metadata:
  name: t1
";
const FIELD: &str = "apiVersion: apps/v1
kind: Deployment
metadata:
  name: odd
spec:
  nonsense: true
  selector: {matchLabels: {app: odd}}
  template:
    metadata: {labels: {app: odd}}
    spec: {containers: [{name: c, image: nginx}]}
";
const NAMELESS: &str = "apiVersion: v1
kind: ConfigMap
metadata:
  generateName: x-
";
const EXTERNAL: &str = "apiVersion: v1
kind: ConfigMap
metadata:
  name: waiting
  annotations:
    x.external-dependency.werf.io/resource: whales/moby
";

/// What each mistake is told as: with the line of the template.
const ROWS: [(&str, &str, &[&str]); 10] = [
    (
        "annotations",
        ANNOTATION,
        &["demo/templates/all.yaml:6:5", "werf.io/weight", "all.yaml:7:5", "werf.io/delete-policy"],
    ),
    (
        "duplicates",
        TWICE,
        &[
            "demo/templates/all.yaml:7:1",
            "ConfigMap/twice is there twice",
            "the other is at demo/templates/all.yaml:2:1",
        ],
    ),
    (
        "unknown kinds",
        UNKNOWN,
        &["demo/templates/all.yaml:1:1", "the cluster serves no kind Ship in example.com/v9"],
    ),
    (
        "cycles",
        CYCLE,
        &["demo/templates/all.yaml:6:5", "cycle", "create: ConfigMap/first", "create: ConfigMap/second"],
    ),
    (
        "cycles of weights and dependencies",
        WEIGHTS,
        &["demo/templates/all.yaml:7:5", "cycle", "create: ConfigMap/early", "create: ConfigMap/late"],
    ),
    ("foreign namespaces", NAMESPACE, &["demo/templates/all.yaml:5:3", "namespace `nowhere` does not exist"]),
    ("the release's namespace", OWN_NAMESPACE, &["demo/templates/all.yaml:2:1", "its own namespace"]),
    ("unknown fields", FIELD, &["demo/templates/all.yaml:6:3", "Deployment/odd", "nonsense"]),
    ("no name", NAMELESS, &["demo/templates/all.yaml:2:1", "name"]),
    ("external kinds", EXTERNAL, &["demo/templates/all.yaml:6:5", "names a kind the cluster does not serve"]),
];

#[tokio::test]
async fn every_mistake_is_told_with_its_line_and_nothing_is_written() {
    let (world, tap) = World::bare().tapped();
    world.settle_in().await;
    let before = tap.written().len();
    for (what, template, expected) in ROWS {
        let told = refused(&world, template).await;
        for part in expected {
            assert!(told.contains(part), "{what}: {part} in {told}");
        }
    }
    let written = tap.written().split_off(before);
    assert!(written.is_empty(), "{written:?}");
}

#[tokio::test]
async fn all_mistakes_are_told_at_once() {
    let (world, tap) = World::bare().tapped();
    world.settle_in().await;
    let before = tap.written().len();
    let all: String = ROWS.iter().map(|(_, template, _)| format!("{template}---\n")).collect();
    let told = refused(&world, &all).await;
    for (what, _, expected) in ROWS {
        for part in expected.iter().filter(|part| !part.contains("all.yaml")) {
            assert!(told.contains(part), "{what}: {part} in {told}");
        }
    }
    assert!(told.matches("demo/templates/all.yaml:").count() >= ROWS.len(), "{told}");
    let written = tap.written().split_off(before);
    assert!(written.is_empty(), "{written:?}");
}

/// A namespace is not made for a release that cannot be.
#[tokio::test]
async fn no_namespace_is_made_for_what_cannot_be() {
    let (world, tap) = World::bare().tapped();
    for (what, template, expected) in ROWS {
        let told = refused(&world, template).await;
        for part in expected {
            assert!(told.contains(part), "{what}: {part} in {told}");
        }
    }
    assert!(tap.written().is_empty(), "{:?}", tap.written());
}

/// What is not served is looked for under other names.
#[tokio::test]
async fn kinds_that_are_not_served_have_a_way_out() {
    let world = World::bare();
    for (api, kind, says) in [
        ("apps/v1", "Deploymnt", "did you mean `Deployment`?"),
        ("extensions/v1beta1", "Ingress", "it is served in networking.k8s.io/v1: correct apiVersion"),
        ("example.com/v1", "Ship", "install the definition of the kind first"),
    ] {
        let told = refused(&world, &format!("apiVersion: {api}\nkind: {kind}\nmetadata:\n  name: x\n")).await;
        assert!(told.contains(says), "{kind}: {told}");
    }
}

/// Mistakes of loops and of named templates are told where they are made.
#[tokio::test]
async fn mistakes_of_parts_are_told_where_they_are() {
    let world = World::bare();
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir_all(folder.path().join("demo/templates")).expect("a folder");
    let part = "{{- define \"notes\" }}\nwerf.io/weight: heavy\n{{- end }}\n";
    let loops = "{{- range list \"one\" \"one\" }}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  \
                 name: cm-{{ . }}\n  annotations:\n    {{- include \"notes\" $ | nindent 4 }}\n{{- end }}\n";
    fs::write(folder.path().join("demo/templates/_parts.tpl"), part).expect("writes");
    let request = chart(&world, folder.path(), loops);
    let told = world.run(&request).await.expect_err("is refused").to_string();
    for part in [
        "demo/templates/_parts.tpl:2:1",
        "ConfigMap/cm-one is there twice",
        "demo/templates/all.yaml:4:1",
        "a loop that gives them one name?",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
}

/// Whoever may not record a revision or take the lock is told before anything is written, the namespace included.
#[tokio::test]
async fn what_a_run_needs_for_itself_is_asked_for_first() {
    let rbac = "rbac.authorization.k8s.io";
    for (verbs, says) in [
        (&["get", "list", "create"][..], "update of secrets is forbidden in namespace t1"),
        (&["get", "list"], "create and update of secrets is forbidden"),
        (&["get", "list", "create", "update"], ""),
    ] {
        let sandbox =
            Sandbox::builder().seed(1).without_workloads().rbac(true).build().expect("the sandbox starts");
        let admin = World::on(sandbox.clone());
        let maps = json!({"apiGroups": [""], "resources": ["configmaps", "namespaces"], "verbs": ["*"]});
        let secrets = json!({"apiGroups": [""], "resources": ["secrets"], "verbs": verbs});
        for object in [
            json!({"apiVersion": format!("{rbac}/v1"), "kind": "ClusterRole", "metadata": {"name": "r"}, "rules": [maps, secrets]}),
            json!({"apiVersion": format!("{rbac}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": "r"},
                "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "r"},
                "subjects": [{"apiGroup": rbac, "kind": "User", "name": "jo"}]}),
        ] {
            let at = slipway_manifest::ObjectRef::new(slipway_manifest::object::gvk(&object), None, "r");
            admin
                .cluster
                .apply(&at, &object, &slipway_cluster::ApplyOptions::new("kubectl"))
                .await
                .expect("grants");
        }
        let tap = Tap::on(sandbox.service_as(User::new("jo", &["system:authenticated"])));
        let world = World { cluster: Cluster::new(tap.client()), ..admin };
        if says.is_empty() {
            world.deployed(&[config_map("a", "1")]).await;
            continue;
        }
        let told = world.failed(&[config_map("a", "1")]).await.to_string();
        assert!(told.contains(says) && told.contains("cannot be recorded"), "{told}");
        assert!(tap.written().is_empty(), "{:?}", tap.written());
    }
}

/// A release that is not there may be elsewhere.
#[tokio::test]
async fn a_release_of_another_namespace_is_pointed_at() {
    let world = World::bare();
    world.deployed(&[config_map("a", "1")]).await;
    let mut request = world.with(ReleaseContent::Revision(None));
    request.namespace = "t9".into();
    let told = world.run(&request).await.expect_err("is not there").to_string();
    assert_eq!(told, "release `demo` not found in namespace `t9`; there is one in t1 (`-n t1`)");
    request.name = "none".into();
    let told = world.run(&request).await.expect_err("is not there").to_string();
    assert_eq!(told, "release `none` not found in namespace `t9`");
}

/// A dependency beats a weight that says the opposite, and that is told where the weight stands.
#[tokio::test]
async fn weights_against_dependencies_are_told() {
    let (world, tap) = World::bare().tapped();
    let folder = tempfile::tempdir().expect("a folder");
    let one_way =
        WEIGHTS.replace("    werf.io/deploy-dependency-x: state=present,kind=ConfigMap,name=early\n", "");
    let request = chart(&world, folder.path(), &one_way);
    world.run(&request).await.unwrap_or_else(|failure| panic!("{failure}"));
    assert!(tap.position("/configmaps/late") < tap.position("/configmaps/early"));
    let plan = slipway_release::plan(&world.cluster, &request, &world.events).await.expect("plans");
    let told = plan.warnings.to_string();
    for part in [
        "demo/templates/all.yaml:6:5",
        "`werf.io/weight` (-5) is ignored",
        "ConfigMap/late, whose weight is 10",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
}

#[tokio::test]
async fn forbidden_verbs_are_told_before_anything_is_written() {
    let sandbox =
        Sandbox::builder().seed(1).without_workloads().rbac(true).build().expect("the sandbox starts");
    let admin = World::on(sandbox.clone());
    admin.deployed(&[config_map("old", "1"), config_map("a", "1")]).await;
    let rbac = "rbac.authorization.k8s.io";
    let everything = json!({"apiGroups": [""], "resources": ["configmaps", "secrets", "namespaces"],
        "verbs": ["get", "list", "watch", "create", "update", "patch"]});
    let look = json!({"apiGroups": ["apps", ""], "resources": ["deployments", "services"], "verbs": ["get", "list"]});
    for object in [
        json!({"apiVersion": format!("{rbac}/v1"), "kind": "ClusterRole", "metadata": {"name": "r"}, "rules": [everything, look]}),
        json!({"apiVersion": format!("{rbac}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": "r"},
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "r"},
            "subjects": [{"apiGroup": rbac, "kind": "User", "name": "jo"}]}),
    ] {
        let gvk = slipway_manifest::object::gvk(&object);
        let at = slipway_manifest::ObjectRef::new(gvk, None, "r");
        admin
            .cluster
            .apply(&at, &object, &slipway_cluster::ApplyOptions::new("kubectl"))
            .await
            .expect("grants");
    }
    let jo = User::new("jo", &["system:authenticated"]);
    let tap = Tap::on(sandbox.service_as(jo));
    let world = World { cluster: Cluster::new(tap.client()), ..admin };
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}});
    let hidden = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "who"}});
    let objects = [config_map("a", "2"), crate::world::deployment("web", "nginx"), service, hidden];
    let told = world.failed(&objects).await.to_string();
    for part in [
        "Deployment/web",
        "cannot patch resource \"deployments\"",
        "Service/s",
        "cannot patch resource \"services\"",
        "ServiceAccount/who cannot be looked at",
        "ConfigMap/old cannot be deleted",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert!(told.contains("demo/templates/all.yaml"), "{told}");
    assert!(tap.written().is_empty(), "{:?}", tap.written());
}

#[tokio::test]
async fn a_cluster_that_is_not_there_is_told() {
    let world = World::bare();
    let nowhere = Tap::on(world.sandbox.service());
    let refusing = tower::util::MapErr::new(
        tower::service_fn(|_: http::Request<kube::client::Body>| async {
            Err::<http::Response<slipway_sandbox::ResponseBody>, _>(std::io::Error::other(
                "tcp connect error: connection refused",
            ))
        }),
        |error: std::io::Error| -> slipway_sandbox::BoxError { error.into() },
    );
    let cluster = Cluster::new(kube::Client::new(refusing, "default")).with_retry(RetryPolicy::never());
    let world = World { cluster, ..world };
    let failure = world.failed(&[config_map("a", "1")]).await;
    assert_eq!(failure.cause(), FailureCause::Cluster(ErrorClass::Transport));
    assert!(failure.to_string().contains("connection refused"), "{failure}");
    assert!(nowhere.seen().is_empty());
}

/// Of two documents of one kind with names only the template knows, the wrong one is shown.
#[tokio::test]
async fn the_wrong_one_of_two_documents_is_shown() {
    let document = |image: &str, more: &str| {
        format!(
            "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: {{{{ printf \"%s-%s\" .Release.Name \"{image}\" }}}}\n\
             spec:\n{more}  selector: {{matchLabels: {{app: web}}}}\n  template:\n    metadata: {{labels: {{app: web}}}}\n\
             \x20   spec: {{containers: [{{name: c, image: {image}}}]}}\n"
        )
    };
    let world = World::new();
    // A field the server does not know, a value it refuses, an annotation that means nothing.
    let odd = "  replicas: {{ -1 }}\n";
    for (template, expected) in [
        (format!("{}---\n{}", document("a", ""), document("b", odd)), "demo/templates/all.yaml:16:3"),
        (format!("{}---\n{}", document("b", odd), document("a", "")), "demo/templates/all.yaml:6:3"),
        (
            // The first is left out, so what is written in the second is what counts.
            format!(
                "{{{{ if .Values.never }}}}\n{}{{{{ end }}}}\n---\n{}",
                document("a", "  replicas: 1\n"),
                document("b", odd)
            ),
            "demo/templates/all.yaml:19:3",
        ),
    ] {
        let told = refused(&world, &template).await;
        assert!(told.contains(expected), "{expected}: {told}\n{template}");
    }
}

#[tokio::test]
async fn paths_that_cannot_be_hidden_are_refused() {
    let world = World::new();
    let with = |paths: &str| {
        let mut object = config_map("a", "1");
        object["metadata"]["annotations"] = json!({"werf.io/sensitive-paths": paths});
        object
    };
    for paths in ["$.data[", "a b", "$..", "$.", "{.data}", "$.data[?(@.x)]", "$.data[]", "data.key,$.x["] {
        let failure = world.plan(&[with(paths)]).await.expect_err(paths).to_string();
        assert!(
            failure.contains("`werf.io/sensitive-paths`") && failure.contains("is not a path"),
            "{failure}"
        );
    }
    for paths in ["$.data.key", "data['a.b/c']", "$..password,data.*", "$.spec.containers[*].env[0].value"] {
        world.plan(&[with(paths)]).await.expect(paths);
    }
}

/// What cannot be recorded is found before anything is written.
#[tokio::test]
async fn a_record_over_a_mebibyte_is_refused_by_the_plan() {
    let world = World::new();
    let mut state = 1_u64;
    let mut noise = || -> String {
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            char::from_digit((state >> 59) as u32, 36).unwrap_or('x')
        };
        (0..700_000).map(|_| next()).collect()
    };
    let objects = [config_map("a", &noise()), config_map("b", &noise()), config_map("c", &noise())];
    let failure = world.plan(&objects).await.expect_err("is too large").to_string();
    assert!(failure.contains("the release cannot be recorded: the record is too large"), "{failure}");
    assert!(matches!(world.apply(&objects).await, Err(Failure::Problems(_) | Failure::Source(_))));
    assert!(world.get("Namespace", "t1").await.is_none(), "nothing was written");
    let mut world = world;
    world.options.release_labels.insert("owner".into(), "me".into());
    let failure = world.plan(&[config_map("a", "1")]).await.expect_err("is Helm's label").to_string();
    assert!(failure.contains("the label `owner` is Helm's own"), "{failure}");
}
