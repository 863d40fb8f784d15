//! Every rule with a plan it denies and one that passes.

use serde_json::json;
use slipway_manifest::ObjectRef;
use slipway_policy::{
    ChangeAction, PolicyChange, PolicyDecision, PolicySet, PolicyTarget, SecretUse, UnitFacts,
};

use crate::{Plan, deployment, lines, object, parsed, policy};

const DIGEST: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// Evaluates one rule on a plan that breaks it and on one that does not.
#[track_caller]
fn check(rule: &str, denied: &Plan, expected: &[&str], passing: &Plan) {
    let set = policy(rule);
    assert_eq!(lines(&denied.evaluate(&set)), expected);
    assert!(denied.evaluate(&set).is_denied());
    let passed = passing.evaluate(&set);
    assert!(
        passed.results.iter().all(|result| result.decision == PolicyDecision::Pass),
        "{:?}",
        lines(&passed)
    );
}

fn change(action: ChangeAction, object: &serde_json::Value) -> PolicyChange {
    PolicyChange { object: ObjectRef::of(object), action }
}

fn changing(changes: impl IntoIterator<Item = PolicyChange>) -> Plan {
    Plan { changes: changes.into_iter().collect(), ..Plan::default() }
}

#[test]
fn forbidden_kinds_are_named_with_or_without_their_group() {
    let binding = object("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "", "root");
    let hook = object("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", "", "check");
    check(
        "  - { id: kinds, forbidKinds: [ClusterRoleBinding, '*.admissionregistration.k8s.io'] }\n",
        &Plan::of([binding, hook]),
        &[
            "deny kinds | ClusterRoleBinding/root | kind | the kind ClusterRoleBinding is forbidden | forbidden-kind",
            "deny kinds | ValidatingWebhookConfiguration/check | kind | the kind ValidatingWebhookConfiguration is forbidden | forbidden-kind",
        ],
        &Plan::of([object("rbac.authorization.k8s.io/v1", "RoleBinding", "shop", "root")]),
    );
}

#[test]
fn objects_of_the_whole_cluster_can_be_refused() {
    check(
        "  - { id: scope, clusterScoped: deny }\n",
        &Plan::of([object("v1", "Namespace", "", "shop"), object("v1", "Service", "shop", "web")]),
        &["deny scope | Namespace/shop |  | belongs to the whole cluster | cluster-scoped"],
        &Plan::of([object("v1", "Service", "shop", "web")]),
    );
}

#[test]
fn images_are_held_against_digest_registry_and_tag() {
    let rule = "  - { id: pin, images: { requireDigest: true, registries: ['registry.acme.dev/*'], forbidTags: [latest, 'dev-*'] } }\n";
    let path = "spec.template.spec.containers[0].image";
    check(
        rule,
        &Plan::of([
            deployment("a", "nginx"),
            deployment("b", "registry.acme.dev/b:dev-1"),
            deployment("c", "not an image"),
        ]),
        &[
            &format!(
                "deny pin | Deployment shop/a | {path} | the image `nginx` has no digest | image-without-digest"
            ),
            &format!(
                "deny pin | Deployment shop/a | {path} | the image `docker.io/library/nginx` is not from `registry.acme.dev/*` | image-registry"
            ),
            &format!(
                "deny pin | Deployment shop/a | {path} | the image `nginx` has the tag `latest` | image-tag"
            ),
            &format!(
                "deny pin | Deployment shop/b | {path} | the image `registry.acme.dev/b:dev-1` has no digest | image-without-digest"
            ),
            &format!(
                "deny pin | Deployment shop/b | {path} | the image `registry.acme.dev/b:dev-1` has the tag `dev-1` | image-tag"
            ),
            &format!(
                "deny pin | Deployment shop/c | {path} | `not an image` is no reference to an image | invalid-image"
            ),
        ],
        &Plan::of([deployment("a", &format!("registry.acme.dev/team/a@{DIGEST}"))]),
    );
}

#[test]
fn destroying_is_limited_by_count_and_kind() {
    let claim = object("v1", "PersistentVolumeClaim", "shop", "data");
    let maps =
        [1, 2].map(|n| change(ChangeAction::Destroy, &object("v1", "ConfigMap", "shop", &format!("c{n}"))));
    let rule = "  - { id: blast, changes: { maxDestroy: 2, forbidDestroyKinds: [PersistentVolumeClaim], forbidReplace: true } }\n";
    check(
        rule,
        &changing([
            maps[0].clone(),
            maps[1].clone(),
            change(ChangeAction::Destroy, &claim),
            change(ChangeAction::Replace, &object("v1", "PersistentVolumeClaim", "shop", "other")),
        ]),
        &[
            "deny blast | plan |  | 3 objects are destroyed, at most 2 may be | too-many-destroyed",
            "deny blast | PersistentVolumeClaim shop/data |  | destroy of a PersistentVolumeClaim | destroyed-kind",
            "deny blast | PersistentVolumeClaim shop/other |  | replace of a PersistentVolumeClaim | destroyed-kind",
            "deny blast | PersistentVolumeClaim shop/other |  | is destroyed and created again | replaced",
        ],
        &changing([maps[0].clone(), maps[1].clone(), change(ChangeAction::Create, &claim)]),
    );
}

#[test]
fn secrets_come_from_approved_providers() {
    let used = |provider: &str| Plan {
        secrets: vec![SecretUse {
            provider: provider.to_owned(),
            reference: format!("secret://{provider}/db#password"),
        }],
        ..Plan::default()
    };
    check(
        "  - { id: secrets, secrets: { approvedProviders: ['vault-*'] } }\n",
        &used("local"),
        &[
            "deny secrets | secret://local/db#password |  | the provider `local` is not approved | secret-provider",
        ],
        &used("vault-prod"),
    );
}

#[test]
fn units_prove_where_they_come_from() {
    let rule = "  - { id: proof, unit: { requireSignedBy: ['ed25519:ab', 'ed25519:cd'], requireVerifiedIn: [staging], maxAge: 14d, requireCleanGit: true } }\n";
    let unit = |facts: UnitFacts| Plan { unit: Some(facts), ..Plan::default() };
    check(
        rule,
        &unit(UnitFacts {
            signed_by: vec!["ed25519:zz".to_owned()],
            verified_in: vec!["dev".to_owned()],
            created: Some("2026-06-20T10:00:00Z".parse().unwrap()),
            clean_git: Some(false),
        }),
        &[
            "deny proof | unit |  | is not signed by `ed25519:ab` or `ed25519:cd` | not-signed",
            "deny proof | unit |  | is not verified in `staging` | not-verified",
            "deny proof | unit |  | is 408 hours old, at most 14d is allowed | too-old",
            "deny proof | unit |  | was made from uncommitted changes | unclean-git",
        ],
        &unit(UnitFacts {
            signed_by: vec!["ed25519:cd".to_owned()],
            verified_in: vec!["dev".to_owned(), "staging".to_owned()],
            created: Some("2026-07-01T10:00:00Z".parse().unwrap()),
            clean_git: Some(true),
        }),
    );
    assert_eq!(
        lines(&Plan::default().evaluate(&policy(rule))),
        ["deny proof | unit |  | only release units may be deployed here | not-a-unit"]
    );
}

#[test]
fn changes_are_made_in_time_windows() {
    let at = |now| Plan { now: Some(now), ..Plan::default() };
    check(
        "  - { id: window, time: { allow: ['Mon-Thu 08:00-17:00 Europe/Berlin', 'Sat 10:00-11:00'] } }\n",
        &at("2026-07-10T10:00:00Z"),
        &[
            "deny window | time |  | Fri 2026-07-10 10:00 UTC is outside of `Mon-Thu 08:00-17:00 Europe/Berlin`, `Sat 10:00-11:00` | outside-window",
        ],
        &at("2026-07-07T06:00:00Z"),
    );
}

#[test]
fn workloads_have_resources_replicas_and_no_privileges() {
    let mut bare = deployment("web", "nginx");
    bare["spec"]["template"]["spec"]["containers"][0]["securityContext"] = json!({"privileged": true});
    bare["spec"]["template"]["spec"]["initContainers"] =
        json!([{"name": "init", "image": "a", "resources": {"limits": {"cpu": 1, "memory": "1Gi"}}}]);
    let mut good = deployment("web", "nginx");
    good["spec"]["replicas"] = json!(2);
    good["spec"]["template"]["spec"]["containers"][0]["resources"] =
        json!({"requests": {"cpu": "10m"}, "limits": {"memory": "1Gi"}});
    let rule =
        "  - { id: limits, workloads: { requireResources: true, forbidPrivileged: true, minReplicas: 2 } }\n";
    check(
        rule,
        &Plan::of([bare]),
        &[
            "deny limits | Deployment shop/web | spec.template.spec.containers[0].resources | the container `app` has no requests.cpu, requests.memory, limits.memory | no-resources",
            "deny limits | Deployment shop/web | spec.template.spec.containers[0].securityContext.privileged | the container `app` is privileged | privileged",
            "deny limits | Deployment shop/web | spec.replicas | has 1 replicas, at least 2 are required | too-few-replicas",
        ],
        &Plan::of([good.clone()]),
    );
    // An autoscaler has the last word on replicas.
    let mut scaler = object("autoscaling/v2", "HorizontalPodAutoscaler", "shop", "web");
    scaler["spec"] = json!({"minReplicas": 1, "scaleTargetRef": {"kind": "Deployment", "name": "web"}});
    assert_eq!(
        lines(&Plan::of([good, scaler]).evaluate(&policy(rule))),
        [
            "deny limits | HorizontalPodAutoscaler shop/web | spec.minReplicas | has 1 replicas, at least 2 are required | too-few-replicas"
        ]
    );
}

#[test]
fn expressions_speak_of_each_object_or_of_the_plan() {
    let job = |ttl: Option<u64>| {
        let mut job = object("batch/v1", "Job", "shop", "migrate");
        job["spec"] = ttl.map_or(json!({}), |ttl| json!({"ttlSecondsAfterFinished": ttl}));
        job
    };
    check(
        "  - { id: custom, cel: \"object.kind != 'Job' || has(object.spec.ttlSecondsAfterFinished)\", message: jobs need a TTL }\n",
        &Plan::of([deployment("web", "nginx"), job(None)]),
        &["deny custom | Job shop/migrate |  | jobs need a TTL | expression"],
        &Plan::of([job(Some(60))]),
    );
    let rule = "  - { id: few, cel: \"size(objects) < 2 && target.env == 'prod' && !images.exists(i, i.tag == 'dev') && now > timestamp('2026-01-01T00:00:00Z')\" }\n";
    let prod = PolicyTarget { environment: Some("prod".to_owned()), ..PolicyTarget::default() };
    let plan = |images: &[&str]| Plan {
        target: prod.clone(),
        ..Plan::of(images.iter().enumerate().map(|(n, image)| deployment(&format!("d{n}"), image)))
    };
    assert!(plan(&["nginx:dev"]).evaluate(&policy(rule)).is_denied());
    assert!(!plan(&["nginx:1"]).evaluate(&policy(rule)).is_denied());
}

#[test]
fn an_expression_that_fails_denies_and_shows_no_value() {
    let mut secret = object("v1", "Secret", "shop", "db");
    secret["stringData"] = json!({"password": "hunter2-hunter2"});
    let set = policy(
        "  - { id: missing, cel: 'object.spec.replicas > 1' }\n\
         \x20 - { id: number, cel: 'int(object.stringData.password) > 1' }\n\
         \x20 - { id: endless, cel: \"[1,2,3,4,5,6,7,8,9,10].all(a, [1,2,3,4,5,6,7,8,9,10].all(b, [1,2,3,4,5,6,7,8,9,10].all(c, [1,2,3,4,5,6,7,8,9,10].all(d, [1,2,3,4,5,6,7,8,9,10].all(e, [1,2,3,4,5,6,7,8,9,10].all(f, object.kind != ''))))))\" }\n",
    );
    let report = Plan::of([secret]).evaluate(&set);
    assert_eq!(
        lines(&report),
        [
            "deny missing | Secret shop/db |  | the expression reads `spec`, which is not there | expression-failed",
            "deny number | Secret shop/db |  | the expression reads a value of another type or form than it needs | expression-failed",
            "deny endless | Secret shop/db |  | the expression computes too much | expression-failed",
        ]
    );
}

const EXCEPTED: &str = "apiVersion: ktl.dev/policy/v1
rules:
  - { id: scope, clusterScoped: deny }
exceptions:
  - { rule: scope, object: 'ClusterRole//read*', until: 2026-07-07, reason: until the move }
";

#[test]
fn an_exception_holds_until_the_end_of_its_day() {
    let set = parsed(EXCEPTED);
    let role = |name| object("rbac.authorization.k8s.io/v1", "ClusterRole", "", name);
    let plan = |now| Plan { now: Some(now), ..Plan::of([role("reader"), role("writer")]) };
    let report = plan("2026-07-07T23:59:59Z").evaluate(&set);
    assert_eq!(
        lines(&report),
        [
            "excepted scope | ClusterRole/reader |  | belongs to the whole cluster; allowed until 2026-07-07: until the move | cluster-scoped",
            "deny scope | ClusterRole/writer |  | belongs to the whole cluster | cluster-scoped",
        ]
    );
    let report = plan("2026-07-08T00:00:00Z").evaluate(&set);
    assert_eq!(
        lines(&report)[0],
        "deny scope | ClusterRole/reader |  | belongs to the whole cluster; the exception for it ended on 2026-07-07 | expired-exception"
    );
}

#[test]
fn an_ended_exception_nobody_needs_warns() {
    let plan = Plan { now: Some("2026-08-01T00:00:00Z"), ..Plan::default() };
    let report = plan.evaluate(&parsed(EXCEPTED));
    assert!(!report.is_denied());
    assert_eq!(
        lines(&report)[1],
        "warn scope | ClusterRole//read* |  | the exception ended on 2026-07-07 and covers nothing here: remove it | expired-exception"
    );
}

#[test]
fn a_policy_is_for_its_targets_and_mode() {
    let text = |mode: &str| {
        format!(
            "apiVersion: ktl.dev/policy/v1\nmode: {mode}\nmatch: {{ envs: [prod], clusters: ['prod-*'], namespaces: ['*'] }}\nrules:\n  - {{ id: scope, clusterScoped: deny }}\n"
        )
    };
    let plan = |environment: Option<&str>, cluster: &str| Plan {
        target: PolicyTarget {
            environment: environment.map(str::to_owned),
            cluster: Some(cluster.to_owned()),
            namespace: Some("shop".to_owned()),
        },
        ..Plan::of([object("v1", "Namespace", "", "shop")])
    };
    let enforce = parsed(&text("enforce"));
    assert!(plan(Some("prod"), "prod-eu").evaluate(&enforce).is_denied());
    for other in [plan(Some("dev"), "prod-eu"), plan(Some("prod"), "dev-eu"), plan(None, "dev-eu")] {
        let report = other.evaluate(&enforce);
        assert_eq!(
            (report.results.len(), report.skipped.as_slice()),
            (0, ["policy.yaml".to_owned()].as_slice())
        );
    }
    assert_eq!(
        lines(&plan(None, "prod-eu").evaluate(&enforce)),
        [
            "deny match | target | env | the policy is for the environments `prod`, and this run's is not known | unknown-target"
        ]
    );
    let warned = plan(Some("prod"), "prod-eu").evaluate(&parsed(&text("warn")));
    assert_eq!((warned.is_denied(), warned.warnings().count()), (false, 1));
}

#[test]
fn guardrails_warn_of_what_cannot_be_undone() {
    let plan = changing([
        change(ChangeAction::Destroy, &object("v1", "PersistentVolumeClaim", "shop", "data")),
        change(ChangeAction::Update, &object("rbac.authorization.k8s.io/v1", "ClusterRole", "", "reader")),
        change(ChangeAction::Destroy, &object("v1", "ConfigMap", "shop", "old")),
    ]);
    assert_eq!(
        lines(&plan.evaluate(&PolicySet::guardrails())),
        [
            "warn destroy | PersistentVolumeClaim shop/data |  | destroy of a PersistentVolumeClaim | destroyed-kind",
            "warn cluster-scoped | ClusterRole/reader |  | update of an object of the whole cluster | cluster-scoped",
        ]
    );
}
