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

#[tokio::test]
async fn tokens_end_with_what_they_are_bound_to() {
    let (sandbox, client) = crate::client::bare();
    sandbox.settle().await;
    let place = "/api/v1/namespaces/default";
    let object = |kind: &str, spec: Value| {
        let mut object = json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": "x"}});
        object.as_object_mut().unwrap().extend(spec.as_object().cloned().unwrap());
        object
    };
    let pod = object("Pod", json!({"spec": {"containers": [{"name": "c", "image": "i"}]}}));
    for (plural, object) in [
        ("pods", pod),
        ("secrets", object("Secret", json!({}))),
        ("serviceaccounts", object("ServiceAccount", json!({}))),
    ] {
        let made = client.post(&format!("{place}/{plural}"), &object).await;
        assert_eq!(made.code, 201, "{}", made.text);
        let bound = (plural != "serviceaccounts").then(|| {
            json!({"apiVersion": "v1", "kind": object["kind"], "name": "x", "uid": made.body["metadata"]["uid"]})
        });
        let account = if plural == "serviceaccounts" { "x" } else { "default" };
        let asked = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
                           "spec": {"boundObjectRef": bound}});
        let given = client.post(&format!("{place}/serviceaccounts/{account}/token"), &asked).await;
        assert_eq!(given.code, 201, "{}", given.text);
        let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
                            "spec": {"token": given.body["status"]["token"]}});
        let valid = async || {
            let said = client.post("/apis/authentication.k8s.io/v1/tokenreviews", &review).await.body;
            said["status"]["authenticated"] == true
        };
        assert!(valid().await, "{plural}");
        let path = format!("{place}/{plural}/x");
        client.request("DELETE", &format!("{path}?gracePeriodSeconds=0"), &[], "").await;
        assert!(!valid().await, "{plural}: gone");
        // One of the same name is another object.
        assert_eq!(client.post(&format!("{place}/{plural}"), &object).await.code, 201);
        assert!(!valid().await, "{plural}: made anew");
        client.request("DELETE", &format!("{path}?gracePeriodSeconds=0"), &[], "").await;
    }
}

/// Gives alice `rules` everywhere.
async fn allow_alice(admin: &Client, name: &str, rules: &Value) {
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
                      "metadata": {"name": name}, "rules": rules});
    assert_eq!(admin.post(&format!("{RBAC}/clusterroles"), &role).await.code, 201);
    let mut bound = binding(name, "ClusterRole", name, "alice");
    bound["kind"] = "ClusterRoleBinding".into();
    assert_eq!(admin.post(&format!("{RBAC}/clusterrolebindings"), &bound).await.code, 201);
}

#[tokio::test]
async fn aggregated_roles_are_changed_by_administrators_only() {
    let (_sandbox, admin, alice) = guarded(json!([])).await;
    let all = json!([{"verbs": ["get", "patch"], "apiGroups": ["rbac.authorization.k8s.io"],
                      "resources": ["clusterroles"]}]);
    allow_alice(&admin, "patcher", &all).await;
    let rule = |label: &str| json!({"clusterRoleSelectors": [{"matchLabels": {label: "true"}}]});
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
                      "metadata": {"name": "gathered"}, "aggregationRule": rule("a")});
    assert_eq!(admin.post(&format!("{RBAC}/clusterroles"), &role).await.code, 201);
    let path = format!("{RBAC}/clusterroles/gathered");
    for change in [
        json!({"aggregationRule": rule("b")}),
        json!({"aggregationRule": null}),
        json!({"metadata": {"labels": {"x": "y"}}}),
    ] {
        let refused = alice.patch(&path, crate::client::MERGE, &change).await;
        assert_eq!(refused.code, 403, "{change}: {}", refused.text);
        assert!(refused.text.contains("must have cluster-admin privileges"), "{}", refused.text);
        assert_eq!(admin.patch(&path, crate::client::MERGE, &change).await.code, 200);
        assert_eq!(
            admin.patch(&path, crate::client::MERGE, &json!({"aggregationRule": rule("a")})).await.code,
            200
        );
    }
}

/// A signing request for a certificate of these organizations.
fn signing_request(name: &str, organizations: &[&str]) -> Value {
    use base64::Engine;
    let mut params = rcgen::CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(rcgen::DnType::CommonName, "somebody");
    for organization in organizations {
        params.distinguished_name.push(rcgen::DnType::OrganizationName, *organization);
    }
    let key = rcgen::KeyPair::generate().unwrap();
    let request = params.serialize_request(&key).unwrap().pem().unwrap();
    json!({
        "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": name},
        "spec": {
            "request": base64::engine::general_purpose::STANDARD.encode(request),
            "signerName": "kubernetes.io/kube-apiserver-client", "usages": ["client auth"],
        },
    })
}

#[tokio::test]
async fn certificates_are_approved_by_those_who_may_speak_for_the_signer() {
    const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    let (_sandbox, admin, alice) = guarded(json!([])).await;
    let all = json!([{"verbs": ["get", "update", "patch"], "apiGroups": ["certificates.k8s.io"],
                      "resources": ["certificatesigningrequests", "certificatesigningrequests/approval",
                                    "certificatesigningrequests/status"]}]);
    allow_alice(&admin, "approver", &all).await;
    let refused = admin.post(REQUESTS, &signing_request("masters", &["system:masters"])).await;
    assert_eq!(refused.code, 403);
    let why = "use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed";
    assert!(refused.text.contains(why), "{}", refused.text);
    let made = admin.post(REQUESTS, &signing_request("one", &["dev"])).await;
    assert_eq!(made.code, 201, "{}", made.text);
    let approval = json!({"status": {"conditions": [{
        "type": "Approved", "status": "True", "reason": "Ok", "message": "ok",
    }]}});
    let path = format!("{REQUESTS}/one/approval");
    let refused = alice.patch(&path, crate::client::MERGE, &approval).await;
    assert_eq!(refused.code, 403, "{}", refused.text);
    let why =
        r#"user not permitted to approve requests with signerName \"kubernetes.io/kube-apiserver-client\""#;
    assert!(refused.text.contains(why), "{}", refused.text);
    let signers = json!([{"verbs": ["approve"], "apiGroups": ["certificates.k8s.io"], "resources": ["signers"],
                          "resourceNames": ["kubernetes.io/*"]}]);
    allow_alice(&admin, "speaker", &signers).await;
    let allowed = alice.patch(&path, crate::client::MERGE, &approval).await;
    assert_eq!(allowed.code, 200, "{}", allowed.text);
    let signed = json!({"status": {"certificate": "eA=="}});
    let refused = alice.patch(&format!("{REQUESTS}/one/status"), crate::client::MERGE, &signed).await;
    assert!(refused.text.contains("not permitted to sign"), "{}", refused.text);
}

#[tokio::test]
async fn roles_are_summed() {
    let (sandbox, client) = crate::client::bare();
    let path = format!("{RBAC}/clusterroles");
    let rule = |resource: &str| json!([{"verbs": ["get"], "apiGroups": [""], "resources": [resource]}]);
    let sum = json!({
        "metadata": {"name": "sum"},
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"into": "sum"}}]},
    });
    assert_eq!(client.post(&path, &sum).await.code, 201);
    for (name, resource) in [("b", "secrets"), ("a", "pods"), ("c", "pods")] {
        let part = json!({"metadata": {"name": name, "labels": {"into": "sum"}}, "rules": rule(resource)});
        assert_eq!(client.post(&path, &part).await.code, 201);
    }
    sandbox.settle().await;
    let all = [rule("pods")[0].clone(), rule("secrets")[0].clone()];
    assert_eq!(client.get(&format!("{path}/sum")).await.body["rules"], json!(all));
    client.delete(&format!("{path}/b")).await;
    sandbox.settle().await;
    assert_eq!(client.get(&format!("{path}/sum")).await.body["rules"], rule("pods"));
    // The roles every cluster has are such sums: charts extend them.
    let before = client.get(&format!("{path}/admin")).await.body;
    let label = json!({"rbac.authorization.k8s.io/aggregate-to-view": "true"});
    let more = json!({"metadata": {"name": "more", "labels": label}, "rules": rule("widgets")});
    assert_eq!(client.post(&path, &more).await.code, 201);
    sandbox.settle().await;
    for name in ["view", "edit", "admin"] {
        let role = client.get(&format!("{path}/{name}")).await.body;
        assert!(role["rules"].as_array().unwrap().contains(&rule("widgets")[0]), "{name}");
    }
    assert_eq!(
        before["metadata"]["managedFields"].as_array().unwrap().len(),
        1,
        "no sum was written at the start"
    );
}

#[tokio::test]
async fn secrets_hold_tokens_of_their_account() {
    let (sandbox, client) = crate::client::bare();
    let (accounts, secrets) =
        ("/api/v1/namespaces/default/serviceaccounts", "/api/v1/namespaces/default/secrets");
    let secret = |name: &str, account: &str| {
        json!({
            "metadata": {"name": name, "annotations": {"kubernetes.io/service-account.name": account}},
            "type": "kubernetes.io/service-account-token",
        })
    };
    client.post(accounts, &json!({"metadata": {"name": "bot"}})).await;
    assert_eq!(client.post(secrets, &secret("kept", "bot")).await.code, 201);
    assert_eq!(client.post(secrets, &secret("stray", "nobody")).await.code, 201);
    sandbox.settle().await;
    assert_eq!(client.get(&format!("{secrets}/stray")).await.code, 404);
    let filled = client.get(&format!("{secrets}/kept")).await.body;
    let text = |member: &str| {
        use base64::Engine;
        let data = filled["data"][member].as_str().unwrap();
        String::from_utf8(base64::engine::general_purpose::STANDARD.decode(data).unwrap()).unwrap()
    };
    assert_eq!(text("namespace"), "default");
    assert!(text("ca.crt").contains("BEGIN CERTIFICATE"));
    let review = json!({"spec": {"token": text("token")}});
    let reviews = "/apis/authentication.k8s.io/v1/tokenreviews";
    let answer = client.post(reviews, &review).await.body;
    assert_eq!(answer["status"]["user"]["username"], "system:serviceaccount:default:bot");
    client.delete(&format!("{accounts}/bot")).await;
    sandbox.settle().await;
    assert_eq!(client.get(&format!("{secrets}/kept")).await.code, 404);
    assert_eq!(client.post(reviews, &review).await.body["status"]["authenticated"], Value::Null);
}
