//! CEL: rules of custom resources, and admission policies.

use serde_json::{Value, json};

use crate::client::{CONFIG_MAPS, Client, MERGE, bare, config_map};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const GIZMOS: &str = "/apis/example.com/v1/namespaces/default/gizmos";
const ADMISSION: &str = "/apis/admissionregistration.k8s.io/v1";

fn definition(spec: Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "gizmos.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "gizmos", "singular": "gizmo", "kind": "Gizmo", "listKind": "GizmoList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"spec": spec},
            }}}],
        },
    })
}

fn gizmo(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Gizmo", "metadata": {"name": name}, "spec": spec})
}

#[tokio::test]
async fn rules_of_custom_resources_hold() {
    let (_sandbox, client) = bare();
    let spec = json!({
        "type": "object",
        "properties": {
            "min": {"type": "integer"}, "max": {"type": "integer"},
            "imm": {"type": "string", "x-kubernetes-validations": [
                {"rule": "self == oldSelf", "message": "imm is immutable"},
            ]},
            "once": {"type": "string", "x-kubernetes-validations": [
                {"rule": "!oldSelf.hasValue() || self == oldSelf.value()", "optionalOldSelf": true},
            ]},
        },
        "x-kubernetes-validations": [
            {"rule": "self.min <= self.max", "messageExpression": "'min ' + string(self.min) + ' is over max'",
             "fieldPath": ".min", "reason": "FieldValueForbidden"},
            {"rule": "!has(self.imm) || self.imm.size() < 4", "message": "imm is too long"},
        ],
    });
    let made = client.post(DEFINITIONS, &definition(spec)).await;
    assert_eq!(made.code, 201, "{}", made.text);
    let message = async |spec: Value| client.post(GIZMOS, &gizmo("g", spec)).await.body["message"].clone();
    assert_eq!(
        message(json!({"min": 3, "max": 2})).await,
        "Gizmo.example.com \"g\" is invalid: spec.min: Forbidden: min 3 is over max"
    );
    assert_eq!(
        message(json!({"min": 1, "max": 2, "imm": "long"})).await,
        "Gizmo.example.com \"g\" is invalid: spec: Invalid value: imm is too long"
    );
    let created =
        client.post(GIZMOS, &gizmo("g", json!({"min": 1, "max": 2, "imm": "a", "once": "x"}))).await;
    assert_eq!(created.code, 201, "{}", created.text);
    let path = format!("{GIZMOS}/g");
    let changed = client.patch(&path, MERGE, &json!({"spec": {"imm": "b"}})).await;
    assert_eq!(
        changed.body["message"],
        "Gizmo.example.com \"g\" is invalid: spec.imm: Invalid value: \"b\": imm is immutable"
    );
    assert_eq!(client.patch(&path, MERGE, &json!({"spec": {"once": "y"}})).await.code, 422);
    assert_eq!(client.patch(&path, MERGE, &json!({"spec": {"max": 3}})).await.code, 200);
}

#[tokio::test]
async fn rules_that_do_not_compile_are_refused_with_their_definition() {
    let (_sandbox, client) = bare();
    let rules = json!([{"rule": "self.nothing == 1"}, {"rule": "self.a +"}, {"rule": "self.a > 1"}]);
    let spec = json!({
        "type": "object", "properties": {"a": {"type": "integer"}}, "x-kubernetes-validations": rules,
    });
    let refused = client.post(DEFINITIONS, &definition(spec)).await;
    assert_eq!(refused.code, 422);
    let fields: Vec<&str> = refused.body["details"]["causes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|cause| cause["field"].as_str().unwrap())
        .collect();
    let at = "spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations";
    assert_eq!(fields, [format!("{at}[0].rule"), format!("{at}[1].rule")]);
    assert!(refused.text.contains("compilation failed: ERROR: <input>:1:"), "{}", refused.text);
}

fn policy(name: &str, spec: Value) -> Value {
    let mut spec = spec;
    if spec["matchConstraints"].is_null() {
        spec["matchConstraints"] = json!({"resourceRules": [{
            "apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"],
        }]});
    }
    json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
           "metadata": {"name": name}, "spec": spec})
}

async fn bind(client: &Client, name: &str, more: Value) {
    let mut spec = json!({"policyName": name, "validationActions": ["Deny"]});
    for (key, value) in more.as_object().into_iter().flatten() {
        spec[key] = value.clone();
    }
    let binding = json!({"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": name},
        "kind": "ValidatingAdmissionPolicyBinding", "spec": spec});
    let answer = client.post(&format!("{ADMISSION}/validatingadmissionpolicybindings"), &binding).await;
    assert_eq!(answer.code, 201, "{}", answer.text);
}

async fn enact(client: &Client, name: &str, spec: Value, binding: Value) {
    let answer = client.post(&format!("{ADMISSION}/validatingadmissionpolicies"), &policy(name, spec)).await;
    assert_eq!(answer.code, 201, "{}", answer.text);
    bind(client, name, binding).await;
}

#[tokio::test]
async fn policies_deny_create_update_and_delete() {
    let (_sandbox, client) = bare();
    enact(
        &client,
        "sizes",
        json!({
            "matchConditions": [{"name": "ours", "expression": "request.namespace == 'default'"}],
            "variables": [{"name": "keys", "expression": "object.data.size()"}],
            "validations": [
                {"expression": "request.operation == 'DELETE' || variables.keys <= 1",
                 "messageExpression": "'has ' + string(variables.keys) + ' keys'"},
                {"expression": "request.operation != 'DELETE' || !has(oldObject.metadata.labels)",
                 "message": "labelled", "reason": "Forbidden"},
            ],
        }),
        json!({}),
    )
    .await;
    let mut big = config_map("big");
    big["data"] = json!({"a": "1", "b": "2"});
    let refused = client.post(CONFIG_MAPS, &big).await;
    assert_eq!((refused.code, &refused.body["reason"]), (422, &json!("Invalid")));
    assert_eq!(
        refused.body["message"],
        "configmaps \"big\" is forbidden: ValidatingAdmissionPolicy 'sizes' with binding 'sizes' denied \
         request: has 2 keys"
    );
    assert_eq!(client.post("/api/v1/namespaces/kube-public/configmaps", &big).await.code, 201, "elsewhere");
    assert_eq!(client.post(CONFIG_MAPS, &config_map("x")).await.code, 201);
    let path = format!("{CONFIG_MAPS}/x");
    assert_eq!(client.patch(&path, MERGE, &json!({"data": {"b": "2"}})).await.code, 422);
    assert_eq!(client.patch(&path, MERGE, &json!({"metadata": {"labels": {"a": "b"}}})).await.code, 200);
    assert_eq!(client.delete(&path).await.code, 403);
    assert_eq!(client.patch(&path, MERGE, &json!({"metadata": {"labels": null}})).await.code, 200);
    assert_eq!(client.delete(&path).await.code, 200);
}

#[tokio::test]
async fn policies_warn_take_parameters_and_fail_as_they_say() {
    let (_sandbox, client) = bare();
    enact(
        &client,
        "warned",
        json!({"validations": [{"expression": "object.metadata.name != 'odd'", "message": "odd"}]}),
        json!({"validationActions": ["Warn"]}),
    )
    .await;
    let warned = client.post(CONFIG_MAPS, &config_map("odd")).await;
    assert_eq!(warned.code, 201);
    let warning = warned.headers["warning"].to_str().unwrap();
    assert!(warning.contains("Validation failed for ValidatingAdmissionPolicy 'warned'"), "{warning}");

    client.post(CONFIG_MAPS, &config_map("limits")).await;
    let secrets = json!({"resourceRules": [{
        "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["secrets"],
    }]});
    enact(
        &client,
        "limited",
        json!({
            "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}, "matchConstraints": secrets,
            "validations": [{"expression": "object.metadata.name.size() <= int(params.data.a)"}],
        }),
        json!({"paramRef": {"name": "limits", "parameterNotFoundAction": "Deny"},
               "matchResources": {"objectSelector": {"matchLabels": {"checked": "yes"}}}}),
    )
    .await;
    let secret = |name: &str, checked: &str| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "labels": {"checked": checked}}});
    let path = "/api/v1/namespaces/default/secrets";
    assert_eq!(client.post(path, &secret("long", "no")).await.code, 201);
    assert_eq!(client.post(path, &secret("a", "yes")).await.code, 201);
    let refused = client.post(path, &secret("longer", "yes")).await;
    assert!(refused.text.contains("failed expression: object.metadata.name.size()"), "{}", refused.text);

    let services = json!({"resourceRules": [{
        "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["serviceaccounts"],
    }]});
    let broken = json!([{"expression": "object.metadata.labels.a == 'b'"}]);
    for (failure, code) in [("Fail", 422), ("Ignore", 201)] {
        let name = failure.to_lowercase();
        let spec = json!({"failurePolicy": failure, "matchConstraints": services, "validations": broken});
        enact(&client, &name, spec, json!({})).await;
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "s"}});
        let answer = client.post("/api/v1/namespaces/default/serviceaccounts", &account).await;
        assert_eq!(answer.code, code, "{failure}: {}", answer.text);
        client.delete(&format!("{ADMISSION}/validatingadmissionpolicybindings/{name}")).await;
    }
    let wrong = policy("wrong", json!({"validations": [{"expression": "object.a +"}]}));
    let refused = client.post(&format!("{ADMISSION}/validatingadmissionpolicies"), &wrong).await;
    assert_eq!(refused.code, 422);
    assert!(refused.text.contains("spec.validations[0].expression"), "{}", refused.text);
}

#[tokio::test]
async fn policies_ask_what_a_user_may_do() {
    let (sandbox, client) = bare();
    let may = |who: &str, what: &str| {
        format!("{who}.group('').resource('secrets').namespace('default').check('{what}').allowed()")
    };
    let validations = json!([
        {"expression": may("authorizer", "get"), "message": "reads no secrets"},
        {"expression": may("authorizer.serviceAccount('default', 'reader')", "get"), "message": "the account reads no secrets"},
        {"expression": format!("!{}", may("authorizer.serviceAccount('default', 'reader')", "delete"))},
        {"expression": "authorizer.requestResource.check('create').allowed() && authorizer.path('/healthz').check('get').allowed()"},
        {"expression": "authorizer.group('').resource('secrets').check('get').reason().startsWith('RBAC') || true"},
    ]);
    enact(&client, "readers", json!({"validations": validations}), json!({})).await;
    let refused = client.post(CONFIG_MAPS, &config_map("a")).await;
    assert!(refused.text.contains("denied request: the account reads no secrets"), "{}", refused.text);
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "r"},
        "rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}, {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]}]});
    let subjects = json!([{"kind": "ServiceAccount", "name": "reader", "namespace": "default"}]);
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "r"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"}, "subjects": subjects});
    let rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
    assert_eq!(client.post(&format!("{rbac}/roles"), &role).await.code, 201);
    assert_eq!(client.post(&format!("{rbac}/rolebindings"), &binding).await.code, 201);
    let allowed = client.post(CONFIG_MAPS, &config_map("a")).await;
    assert_eq!(allowed.code, 201, "{}", allowed.text);

    // Somebody else asks for their own rights.
    let as_reader = |body: &Value| {
        let headers = [
            ("content-type", "application/json"),
            ("impersonate-user", "system:serviceaccount:default:other"),
            ("impersonate-group", "system:masters-not"),
        ];
        (headers, body.to_string())
    };
    let grant = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "o"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "writer"},
        "subjects": [{"kind": "ServiceAccount", "name": "other", "namespace": "default"}]});
    let writer = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "writer"},
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]}]});
    assert_eq!(client.post("/apis/rbac.authorization.k8s.io/v1/clusterroles", &writer).await.code, 201);
    assert_eq!(client.post(&format!("{rbac}/rolebindings"), &grant).await.code, 201);
    let (headers, body) = as_reader(&config_map("b"));
    let refused = client.request("POST", CONFIG_MAPS, &headers, body).await;
    assert!(refused.text.contains("denied request: reads no secrets"), "{}", refused.text);
    drop(sandbox);

    // Wrong calls are found when the policy is written.
    let (_sandbox, client) = bare();
    for (wrong, why) in [
        ("authorizer.resource('pods').check('get').allowed()", "found no matching overload for 'resource'"),
        ("authorizer.group('').resource('pods').check('get')", "must evaluate to bool"),
        ("authorizer.nope", "does not support field selection"),
    ] {
        let wrong = policy("wrong", json!({"validations": [{"expression": wrong}]}));
        let refused = client.post(&format!("{ADMISSION}/validatingadmissionpolicies"), &wrong).await;
        assert!(refused.code == 422 && refused.text.contains(why), "{}", refused.text);
    }
}

#[tokio::test]
async fn policies_are_told_of_wrong_types() {
    let (sandbox, client) = bare();
    let spec = |expression: &str, message: &str| {
        json!({
            "matchConstraints": {"resourceRules": [
                {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["*"], "resources": ["deployments"]},
            ]},
            "variables": [{"name": "n", "expression": "object.spec.replicas"}],
            "validations": [{"expression": expression, "messageExpression": message}],
        })
    };
    let path = format!("{ADMISSION}/validatingadmissionpolicies");
    assert_eq!(client.post(&path, &policy("right", spec("variables.n > 1", "'x'"))).await.code, 201);
    assert_eq!(
        client.post(&path, &policy("wrong", spec("object.spec.replicas > '1'", "'x'"))).await.code,
        201
    );
    sandbox.settle().await;
    let status = |name: &str| format!("{path}/{name}");
    let right = client.get(&status("right")).await.body;
    assert_eq!(right["status"], json!({"observedGeneration": 1, "typeChecking": {}}));
    let wrong = client.get(&status("wrong")).await.body;
    let warnings = &wrong["status"]["typeChecking"]["expressionWarnings"];
    assert_eq!(warnings[0]["fieldRef"], "spec.validations[0].expression");
    let said = warnings[0]["warning"].as_str().unwrap();
    assert!(
        said.starts_with(
            "apps/v1, Kind=Deployment: ERROR: <input>:1:22: found no matching overload for '_>_'"
        ),
        "{said}"
    );
    // What has no known type is refused where one is asked for.
    for (expression, message, why) in [
        ("object.metadata.name", "'x'", "must evaluate to bool but got dyn"),
        ("true", "object.metadata.name", "must evaluate to string but got dyn"),
        ("variables.z > 1", "'x'", "undefined field 'z'"),
    ] {
        let refused = client.post(&path, &policy("bad", spec(expression, message))).await;
        assert_eq!(refused.code, 422, "{expression}");
        assert!(refused.text.contains(why), "{}", refused.text);
    }
}

#[tokio::test]
async fn what_was_wrong_before_may_stay() {
    let (_sandbox, client) = bare();
    let item = json!({"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}, "n": {"type": "integer"}}});
    let lists = |maximum: Option<i64>| {
        let mut item = item.clone();
        if let Some(maximum) = maximum {
            item["properties"]["n"]["maximum"] = maximum.into();
        }
        json!({"type": "object", "properties": {
            "other": {"type": "string"},
            "keyed": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": item},
            "plain": {"type": "array", "items": item},
        }})
    };
    assert_eq!(client.post(DEFINITIONS, &definition(lists(None))).await.code, 201);
    let items = json!([{"k": "a", "n": 50}, {"k": "b", "n": 1}]);
    let made = client.post(GIZMOS, &gizmo("g", json!({"keyed": items, "plain": items}))).await;
    assert_eq!(made.code, 201, "{}", made.text);
    let path = format!("{DEFINITIONS}/gizmos.example.com");
    assert_eq!(client.patch(&path, MERGE, &definition(lists(Some(10)))).await.code, 200);
    let gizmo = format!("{GIZMOS}/g");
    for (change, code) in [
        (json!({"other": "x"}), 200),
        (json!({"keyed": [{"k": "b", "n": 2}, {"k": "a", "n": 50}]}), 200),
        (json!({"keyed": [{"k": "b", "n": 2}, {"k": "a", "n": 51}]}), 422),
        (json!({"plain": [{"k": "a", "n": 50}, {"k": "b", "n": 2}]}), 422),
    ] {
        let answer = client.patch(&gizmo, MERGE, &json!({"spec": change})).await;
        assert_eq!(answer.code, code, "{change}: {}", answer.text);
    }
    let named = client.patch(&gizmo, MERGE, &json!({"metadata": {"finalizers": ["plain-name"]}})).await;
    assert_eq!(named.code, 200, "{}", named.text);
    assert!(named.headers["warning"].to_str().unwrap().contains("prefer a domain-qualified finalizer name"));
}
