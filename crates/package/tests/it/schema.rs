//! The schema of parameters.

use serde_json::json;

use crate::support::{Kit, errors, said, warnings};

fn traced() -> Kit {
    Kit::web(
        "replicas: 3\nresources: {memory: 1Gi}\nalias: \"${replicas}\"\nsvc: {type: ClusterIP, port: 80, target: http}\npull: Always\nglobal: {labels: {a: b}}\nfeature: true\npassword: x\nempty: {}\ntag: \"1\"\n",
    )
    .patch(
        "00",
        "metadata.labels: \"${global.labels}\"\n[deployment.web]\nspec.replicas: \"${replicas}\"\n\
         spec.template.spec.containers[0].resources.limits.memory: \"${resources.memory}\"\n\
         spec.template.spec.containers[0].image: \"x:${tag}\"\n\
         [service.web]\nspec.type: \"${svc.type}\"\nspec.ports[name=http].port: \"${svc.port}\"\nspec.ports[name=http].targetPort: \"${svc.target}\"\n\
         [deployment.*.spec.template.spec.containers.*]\nimagePullPolicy: \"${pull}\"\n",
    )
    .patch("10", "[service.web]\nmetadata.labels.x: y\n")
    .sidecar("10", "enabled: \"${feature}\"\n")
}

/// Scenarios of the specification.
#[test]
fn parameters_get_the_rules_of_the_fields_they_go_to() {
    let (schema, _) = traced().package().schema().unwrap();
    let json = schema.to_json();
    let at = |path: &str| {
        json.pointer(&format!("/properties/{}", path.replace('.', "/properties/"))).cloned().unwrap()
    };
    let replicas = at("replicas");
    assert_eq!(
        (&replicas["type"], &replicas["minimum"], &replicas["default"]),
        (&json!("integer"), &json!(0), &json!(3))
    );
    assert_eq!(replicas["description"], "Number of desired pods. (from Deployment.spec.replicas)");
    assert_eq!(replicas["x-kurel-source"], "traced");
    assert_eq!(replicas["x-kurel-used-by"], json!(["patches/00.kpatch:3 Deployment/web spec.replicas"]));
    assert_eq!(at("alias")["minimum"], json!(0), "an alias has the rules of what it names");
    assert_eq!(at("resources.memory")["x-kurel-format"], "quantity");
    assert_eq!(at("svc.type")["enum"], json!(["ClusterIP", "NodePort", "LoadBalancer", "ExternalName"]));
    assert_eq!((&at("svc.port")["minimum"], &at("svc.port")["maximum"]), (&json!(1), &json!(65535)));
    assert_eq!(at("svc.target")["type"], json!(["integer", "string"]));
    assert_eq!(at("pull")["enum"], json!(["Always", "Never", "IfNotPresent"]));
    assert_eq!(at("global.labels")["additionalProperties"]["type"], "string");
    assert_eq!(at("feature")["type"], "boolean");
    assert!(at("password").get("default").is_none());
    assert_eq!(at("empty")["additionalProperties"], json!(true));
    assert_eq!(at("tag")["type"], "string");
    assert_eq!((&json["title"], &json["additionalProperties"]), (&json!("p parameters"), &json!(true)));
    assert!(schema.to_text().ends_with("}\n"));
}

/// Scenario A-27 of the specification.
#[test]
fn values_that_break_a_rule_are_named_where_they_are() {
    for memory in ["10Gi", "1.5Gi", "500m", "512M", "1000000"] {
        assert!(
            traced().values("v.yaml", &format!("resources: {{memory: {memory}}}\n")).build().is_ok(),
            "{memory}"
        );
    }
    let text = said(&traced().values("v.yaml", "\nresources: {memory: 10GB}\n").fails(), "KS010");
    assert!(text.starts_with("v.yaml:2:21: `resources.memory` `10GB` does not match"), "{text}");
    assert!(text.contains("try 10G or 10Gi"), "{text}");
    for set in ["svc.port=70000", "svc.type=Other", "feature=7", "pull=Sometimes", "replicas=-1"] {
        assert!(errors(&traced().set(set).fails()).contains(&"KS010"), "{set}");
    }
}

/// Scenario A-28 of the specification.
#[test]
fn usages_that_exclude_each_other_are_told() {
    let kit =
        Kit::web("x: 1\n").patch("00", "[deployment.web]\nspec.replicas: \"${x}\"\nspec.paused: \"${x}\"\n");
    let (_, problems) = kit.package().schema().unwrap();
    let text = said(&problems, "KS012");
    assert!(
        text.contains("integer (patches/00.kpatch:2") && text.contains("boolean (patches/00.kpatch:3"),
        "{text}"
    );
    let castable = Kit::web("x: 1\n")
        .patch("00", "[deployment.web]\nspec.replicas: \"${x}\"\nmetadata.annotations.x: \"${x}\"\n");
    assert!(!warnings(&castable.package().schema().unwrap().1).contains(&"KS012"));
}

/// Scenario A-30 of the specification.
#[test]
fn a_hand_written_schema_has_the_last_word() {
    let kit = traced().file(
        "schemas/parameters.overrides.yaml",
        "properties:\n  svc: {additionalProperties: false}\n  replicas: {maximum: 5, minimum: null, type: string}\n  gone: {type: string}\n  resources: {x-kurel-required: true}\n",
    );
    let (schema, problems) = kit.package().schema().unwrap();
    let json = schema.to_json();
    assert_eq!(json["properties"]["replicas"]["maximum"], json!(5));
    assert!(json["properties"]["replicas"].get("minimum").is_none());
    assert_eq!(json["required"], json!(["resources"]));
    assert!(warnings(&problems).contains(&"KS013") && warnings(&problems).contains(&"KS014"), "{problems}");
    let closed = traced()
        .file("schemas/parameters.overrides.yaml", "properties: {svc: {additionalProperties: false}}\n");
    assert_eq!(errors(&closed.clone().values("v.yaml", "svc: {extra: 1}\n").fails()), ["KV015"]);
    assert!(closed.values("v.yaml", "other: 1\n").build().is_ok());
}

/// Scenario A-30 of the specification.
#[test]
fn an_exported_schema_can_grow_stale() {
    let (schema, _) = traced().package().schema().unwrap();
    let kit = traced().file("schemas/parameters.schema.json", &schema.to_text());
    assert!(!warnings(&kit.built().problems).contains(&"KS020"));
    let changed = kit.patch("20", "metadata.labels.z: z\n");
    assert!(warnings(&changed.built().problems).contains(&"KS020"));
}

#[test]
fn well_known_custom_kinds_need_no_definition() {
    let certificate = "apiVersion: cert-manager.io/v1\nkind: Certificate\nmetadata: {name: web, namespace: apps}\n\
        spec: {secretName: tls, issuerRef: {name: ca}, dnsNames: [a.example], notListed: {x: 1}}\n";
    let kit = Kit::web("issuer: ca\nnames: [a.example]\nsize: 2048\n")
        .file("resources/certificate.yaml", certificate)
        .patch("00", "[certificate.web.spec]\nissuerRef.name: \"${issuer}\"\ndnsNames: \"${names}\"\nprivateKey.size: \"${size}\"\n");
    let build = kit.built();
    assert!(
        !build.problems.iter().any(|problem| problem.code.as_deref() == Some("KS006")),
        "{}",
        build.problems
    );
    let schema = kit.package().schema().unwrap().0.to_text();
    let schema: serde_json::Value = serde_json::from_str(&schema).unwrap();
    assert_eq!(schema["properties"]["size"]["type"], "integer");
    assert_eq!(schema["properties"]["names"]["items"]["type"], "string");
    assert_eq!(errors(&kit.clone().set("size=big").fails()), ["KS010", "KX033"]);
    let wrong = kit.clone().patch("10", "[certificate.web]\nspec.privateKey.algorithm: DSA\n").fails();
    assert!(said(&wrong, "KS003").contains("algorithm"), "{wrong}");
    let incomplete = certificate.replace("secretName: tls, ", "");
    let incomplete = kit.clone().file("resources/certificate.yaml", &incomplete).fails();
    assert!(said(&incomplete, "KS002").contains("secretName"), "{incomplete}");
    let other =
        kit.file("resources/certificate.yaml", &certificate.replace("cert-manager.io", "certs.example.com"));
    assert!(other.built().problems.iter().any(|problem| problem.code.as_deref() == Some("KS006")));
}
