//! RBAC: nobody grants or becomes more than they may.

use serde_json::{Value, json};
use slipway_sandbox::{Sandbox, User};

use crate::client::Client;

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

fn role(name: &str, rules: &Value) -> Value {
    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": name}, "rules": rules})
}

fn binding(name: &str, kind: &str, role: &str, user: &str) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": user}],
    })
}

/// A sandbox that enforces, where alice may manage roles and read pods.
async fn guarded(more: Value) -> (Sandbox, Client, Client) {
    let sandbox = Sandbox::builder().without_workloads().rbac(true).build().unwrap();
    let admin = Client::new(&sandbox);
    let mut rules = vec![
        json!({"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"]}),
        json!({"verbs": ["get", "create", "update", "patch"], "apiGroups": ["rbac.authorization.k8s.io"],
               "resources": ["roles", "rolebindings"]}),
    ];
    rules.extend(more.as_array().cloned().unwrap_or_default());
    let path = format!("{RBAC}/namespaces/default");
    assert_eq!(admin.post(&format!("{path}/roles"), &role("manager", &json!(rules))).await.code, 201);
    let bound =
        admin.post(&format!("{path}/rolebindings"), &binding("alice", "Role", "manager", "alice")).await;
    assert_eq!(bound.code, 201);
    let alice = Client::of(sandbox.service_as(User::new("alice", &["dev"])));
    (sandbox, admin, alice)
}

#[tokio::test]
async fn nobody_grants_what_they_do_not_hold() {
    let (_sandbox, _, alice) = guarded(json!([])).await;
    let roles = format!("{RBAC}/namespaces/default/roles");
    let held = json!([{"verbs": ["list"], "apiGroups": [""], "resources": ["pods"]}]);
    assert_eq!(alice.post(&roles, &role("r1", &held)).await.code, 201);
    let more = json!([{"verbs": ["list", "delete"], "apiGroups": [""], "resources": ["pods", "secrets"]}]);
    let refused = alice.post(&roles, &role("r2", &more)).await;
    assert_eq!(refused.code, 403);
    assert_eq!(
        refused.body["message"],
        "roles.rbac.authorization.k8s.io \"r2\" is forbidden: user \"alice\" \
         (groups=[\"dev\" \"system:authenticated\"]) is attempting to grant RBAC permissions not currently \
         held:\n{APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"delete\"]}\n\
         {APIGroups:[\"\"], Resources:[\"secrets\"], Verbs:[\"list\" \"delete\"]}"
    );
    // A change that grants nothing new passes; one that does is refused.
    let labels = json!({"metadata": {"labels": {"a": "b"}}});
    let path = format!("{roles}/r1");
    assert_eq!(alice.patch(&path, crate::client::MERGE, &labels).await.code, 200);
    assert_eq!(alice.patch(&path, crate::client::MERGE, &json!({"rules": more})).await.code, 403);
    // The same through server-side apply.
    let applied =
        alice.patch(&format!("{roles}/r3?fieldManager=t"), crate::client::APPLY, &role("r3", &more)).await;
    assert_eq!(applied.code, 403, "{}", applied.text);
}

#[tokio::test]
async fn nobody_binds_a_role_they_do_not_hold() {
    let (_sandbox, admin, alice) = guarded(json!([])).await;
    let path = format!("{RBAC}/namespaces/default/rolebindings");
    assert_eq!(alice.post(&path, &binding("b1", "Role", "manager", "bob")).await.code, 201);
    let refused = alice.post(&path, &binding("b2", "ClusterRole", "cluster-admin", "alice")).await;
    assert_eq!(refused.code, 403, "{}", refused.text);
    assert_eq!(alice.post(&path, &binding("b3", "Role", "missing", "bob")).await.code, 404);
    assert_eq!(admin.post(&path, &binding("b4", "ClusterRole", "cluster-admin", "carol")).await.code, 201);
}

#[tokio::test]
async fn escalate_and_bind_lift_the_limits() {
    let (_sandbox, _, alice) = guarded(json!([
        {"verbs": ["escalate"], "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"]},
        {"verbs": ["bind"], "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"],
         "resourceNames": ["view"]},
    ]))
    .await;
    let path = format!("{RBAC}/namespaces/default");
    let all = json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]);
    assert_eq!(alice.post(&format!("{path}/roles"), &role("all", &all)).await.code, 201);
    let bindings = format!("{path}/rolebindings");
    assert_eq!(alice.post(&bindings, &binding("b1", "ClusterRole", "view", "bob")).await.code, 201);
    assert_eq!(alice.post(&bindings, &binding("b2", "ClusterRole", "edit", "bob")).await.code, 403);
}

#[tokio::test]
async fn speaking_for_others_needs_the_right_to() {
    let (_sandbox, _, alice) = guarded(json!([])).await;
    let pods = "/api/v1/namespaces/default/pods";
    let as_bob: &[(&str, &str)] = &[("impersonate-user", "bob")];
    let refused = alice.request("GET", pods, as_bob, "").await;
    assert_eq!(
        refused.body["message"],
        "users \"bob\" is forbidden: User \"alice\" cannot impersonate resource \"users\" in API group \"\" \
         at the cluster scope"
    );
    let sandbox = Sandbox::builder().without_workloads().rbac(true).build().unwrap();
    let admin = Client::new(&sandbox);
    let cluster_role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "speaker"},
        "rules": [
            {"verbs": ["impersonate"], "apiGroups": [""], "resources": ["users"], "resourceNames": ["bob"]},
            {"verbs": ["impersonate"], "apiGroups": ["authentication.k8s.io"], "resources": ["userextras/team"],
             "resourceNames": ["blue"]},
        ],
    });
    admin.post(&format!("{RBAC}/clusterroles"), &cluster_role).await;
    let mut bound = binding("speaker", "ClusterRole", "speaker", "alice");
    bound["kind"] = "ClusterRoleBinding".into();
    admin.post(&format!("{RBAC}/clusterrolebindings"), &bound).await;
    let alice = Client::of(sandbox.service_as(User::new("alice", &[])));
    let who = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}).to_string();
    for (headers, code) in [
        (&[("impersonate-user", "bob")][..], 201),
        (&[("impersonate-user", "carol")], 403),
        (&[("impersonate-user", "bob"), ("impersonate-group", "admins")], 403),
        (&[("impersonate-user", "bob"), ("impersonate-uid", "7")], 403),
        (&[("impersonate-user", "bob"), ("impersonate-extra-team", "blue")], 201),
        (&[("impersonate-user", "bob"), ("impersonate-extra-team", "red")], 403),
    ] {
        let mut all = vec![("content-type", "application/json")];
        all.extend_from_slice(headers);
        let answer = alice.request("POST", who, &all, review.clone()).await;
        assert_eq!(answer.code, code, "{headers:?}: {}", answer.text);
    }
}
